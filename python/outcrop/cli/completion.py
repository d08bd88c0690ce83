"""``outcrop completion``, and what a shell is told when the Tab key is pressed.

Then nothing is loaded but this: verbs and options stand in ``tree.json``, which
``scripts/command_tree.py`` writes, and click completes by them as by those that work. Loading the
package would take most of a second at every press.
"""

import json
import os
import re
from pathlib import Path
from typing import Any

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    ShellComplete,
    ZshComplete,
    add_completion_class,
    get_completion_class,
    shell_complete,
)

from outcrop.cli.store_names import complete

__all__ = ["answer", "completion", "described"]

_VARIABLE = "_OUTCROP_COMPLETE"
"""What shells ask by; `process.starting` knows it, too."""

_TREE = Path(__file__).with_name("tree.json")

_HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}

_SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", metavar="SHELL", type=click.Choice(_SHELLS))
def completion(shell: str) -> None:
    """Print a script that lets SHELL (bash, zsh or fish) complete what is typed.

    Verbs, options and paths are completed, and names of arrays inside Zarr groups, HDF5 files
    and zip archives (sea.zarr/<TAB>, sea.h5/<TAB>). Once and for all, for shells that are started
    from then on:

    \b
    bash  mkdir -p ~/.local/share/bash-completion/completions
          outcrop completion bash > ~/.local/share/bash-completion/completions/outcrop
    zsh   outcrop completion zsh > "${fpath[1]}/_outcrop"
    fish  mkdir -p ~/.config/fish/completions
          outcrop completion fish > ~/.config/fish/completions/outcrop.fish

    That of bash needs the package bash-completion. Without it, and to try any of them in the shell
    that runs: eval "$(outcrop completion bash)", or in fish: outcrop completion fish | source
    """  # noqa: D301
    kind: type[ShellComplete] | None = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(click.Group("outcrop"), {}, "outcrop", _VARIABLE).source(), nl=False)


def answer(instruction: str) -> int:
    """Tell a shell how the line goes on that it has put into the environment.

    Parameters
    ----------
    instruction : str
        What stands in ``_OUTCROP_COMPLETE``, such as ``"bash_complete"``.

    Returns
    -------
    int
        The exit status.
    """
    tree = json.loads(_TREE.read_bytes())
    return shell_complete(_group("outcrop", tree), {}, "outcrop", _VARIABLE, instruction)


class _Bash(BashComplete):
    """As click has it, with names that bash would take apart written as it reads them."""

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """Put a backslash before what is special: two, as click's script reads one of them."""
        value = re.sub(r"([^\w@%+=:,./~-])", r"\\\\\1", item.value)
        return f"{item.type},{value}"


class _Zsh(ZshComplete):
    """As click has it, with home directories spelled out: zsh would take ~ for a letter."""

    def format_completion(self, item: CompletionItem[str]) -> str:
        """Three lines for each."""
        value = os.path.expanduser(item.value)
        return super().format_completion(CompletionItem(value, item.type, item.help))


add_completion_class(_Bash)
add_completion_class(_Zsh)


# -- verbs and options as JSON ---------------------------------------------------------------------


def described(command: click.Command) -> dict[str, Any]:
    """What there is to complete of a command, as JSON has it."""
    found: dict[str, Any] = {
        "help": command.get_short_help_str(limit=80),
        "params": [_described(param) for param in command.params],
    }
    if isinstance(command, click.Group):
        verbs = sorted(command.commands.items())
        found["commands"] = {name: described(verb) for name, verb in verbs}
    return found


def _described(param: click.Parameter) -> dict[str, Any]:
    found: dict[str, Any] = {"name": param.name}
    if isinstance(param, click.Option):
        found |= {"opts": [*param.opts, *param.secondary_opts], "help": param.help}
        found |= {key: True for key in ("is_flag", "multiple") if getattr(param, key)}
    if param.nargs != 1:
        found["nargs"] = param.nargs
    kind = param.type
    if isinstance(kind, click.Choice):
        found["choices"] = list(kind.choices)
    elif isinstance(kind, click.Path):
        found["path"] = "file" if kind.file_okay else "dir"
    elif kind.name == _Array.name:
        found["path"] = "array"
    return found


class _Array(click.ParamType[str]):
    name = "array"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem[str]]:
        """Paths, and names inside groups and files."""
        return complete(incomplete)


def _command(name: str, described: dict[str, Any]) -> click.Command:
    if "commands" in described:
        return _group(name, described)
    params = [_param(one) for one in described["params"]]
    return click.Command(name, params=params, help=described["help"])


def _group(name: str, described: dict[str, Any]) -> click.Group:
    return click.Group(
        name,
        params=[_param(one) for one in described["params"]],
        help=described["help"],
        commands={verb: _command(verb, one) for verb, one in described["commands"].items()},
        context_settings=_HELP_OPTIONS,
    )


def _param(one: dict[str, Any]) -> click.Parameter:
    kind: click.ParamType[Any] | None = None
    if "choices" in one:
        kind = click.Choice(one["choices"])
    elif (path := one.get("path")) is not None:
        kind = _Array() if path == "array" else click.Path(file_okay=path == "file")
    settings = {key: one[key] for key in ("nargs", "multiple", "is_flag", "help") if key in one}
    if "opts" not in one:
        return click.Argument([one["name"]], type=kind, **settings)
    return click.Option([*one["opts"], one["name"]], type=kind, **settings)
