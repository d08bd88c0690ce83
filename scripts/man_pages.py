"""Writes a manual page for the command and one for each verb, of what ``--help`` says.

Of the tools that do so from click, the one that was tried (click-man 0.6) drops lines of text that
begin with a dot, as ``.tiff`` does, and cuts the names of pages off after 45 letters.
"""

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import click

import outcrop
from outcrop.cli.app import group

EXIT_STATUS = """
.SH EXIT STATUS
.TP
.B 0
All was done.
.TP
.B 1
An error, or damage that \\fBoutcrop verify\\fR has found.
.TP
.B 2
A command that makes no sense.
.TP
.B 128 + \\fIN\\fR
The signal \\fIN\\fR has ended it: 130 after Ctrl\\-C, and nothing half done is left.
"""

SPECIAL = {"\\": r"\e", "-": r"\-", "'": r"\(aq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti"}


def main(directory: Path) -> None:
    """Write the pages there: one that is there already is replaced."""
    directory.mkdir(parents=True, exist_ok=True)
    pages = list(pages_of(group.make_context("outcrop", [], resilient_parsing=True)))
    for name, page in pages:
        (directory / f"{name}.1").write_text(page)
    print(f"{len(pages)} pages: man -M {directory.parent} outcrop")


def pages_of(context: click.Context) -> Iterator[tuple[str, str]]:
    """Pages of a command and of those below it, with their names."""
    yield name_of(context), "\n".join([*page_of(context), ""])
    for below in verbs_of(context):
        yield from pages_of(below)


def page_of(context: click.Context) -> Iterator[str]:
    """The lines of one page."""
    command = context.command
    name = name_of(context)
    yield f'.TH {name.upper()} 1 "" "outcrop {outcrop.__version__}" "Outcrop"'
    yield ".SH NAME"
    yield f"{roff(name)} \\- {roff(short(command))}"
    yield ".SH SYNOPSIS"
    pieces = " ".join(command.collect_usage_pieces(context))
    yield f"\\fB{roff(context.command_path)}\\fR {roff(pieces)}"
    yield ".SH DESCRIPTION"
    yield from paragraphs(command.help or "")
    yield ".SH OPTIONS"
    for param in command.get_params(context):
        record = param.get_help_record(context)
        if isinstance(param, click.Option) and record is not None:
            yield ".TP"
            yield f"\\fB{roff(record[0])}\\fR"
            yield text(record[1])
    verbs = list(verbs_of(context))
    if verbs:
        yield ".SH COMMANDS"
    for verb in verbs:
        yield ".TP"
        yield f"\\fB{roff(name_of(verb))}\\fR(1)"
        yield text(short(verb.command))
    if context.parent is None:
        yield EXIT_STATUS.strip()
    else:
        yield ".SH SEE ALSO"
        above = name_of(context.parent)
        yield f"\\fB{roff(above)}\\fR(1)"
        if above == "outcrop":
            yield ".PP"
            yield f"Its options, such as \\fB{roff('--memory')}\\fR, stand before the verb."


def name_of(context: click.Context) -> str:
    """That of the page."""
    return context.command_path.replace(" ", "-")


def verbs_of(context: click.Context) -> Iterator[click.Context]:
    """The commands below one; none below most."""
    command = context.command
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            verb = command.commands[name]
            yield verb.make_context(name, [], parent=context, resilient_parsing=True)


def short(command: click.Command) -> str:
    """The first sentence of the help, as it stands in lists."""
    return command.get_short_help_str(limit=1000)


def paragraphs(help: str) -> Iterator[str]:
    """The paragraphs of a help text; click lets those as they are that begin with a backspace."""
    for number, paragraph in enumerate(inspect.cleandoc(help).split("\n\n")):
        if number:
            yield ".PP"
        if paragraph.startswith("\b\n"):
            yield from (".nf", *map(text, paragraph.split("\n")[1:]), ".fi")
        else:
            yield text(" ".join(paragraph.split("\n")))


def text(line: str) -> str:
    """A line that is no request, whatever it begins with."""
    return ("\\&" if line[:1] in (".", "'") else "") + roff(line)


def roff(line: str) -> str:
    """What stands for these letters."""
    return "".join(SPECIAL.get(c, c if c.isascii() else f"\\[u{ord(c):04X}]") for c in line)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
