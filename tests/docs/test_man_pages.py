"""Every verb has a manual page, on which everything is that its --help says."""

import re
import runpy
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from outcrop.cli.app import group

ROOT = Path(__file__).parents[2]


def commands(context: click.Context) -> Iterator[click.Context]:
    yield context
    if isinstance(context.command, click.Group):
        for name, verb in context.command.commands.items():
            below = verb.make_context(name, [], parent=context, resilient_parsing=True)
            yield from commands(below)


CONTEXTS = list(commands(group.make_context("outcrop", [], resilient_parsing=True)))


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("man") / "man1"
    runpy.run_path(str(ROOT / "scripts" / "man_pages.py"))["main"](directory)
    return directory


def shown(page: Path) -> str:
    """What a person reads, with single spaces between words."""
    if shutil.which("groff"):
        # Lines of any length: words are not divided.
        command = ["groff", "-man", "-Tutf8", "-ww", "-rLL=30000n", "-P-cbou", str(page)]
        done = subprocess.run(command, capture_output=True, check=True)
        assert not done.stderr, done.stderr
        return " ".join(done.stdout.decode().split())
    # What it is written as, which says less about what is lost on the way.
    plain = page.read_text()
    for roff, letter in (("\\&", ""), ("\\(aq", "'"), ("\\(ti", "~"), ("\\e", "\\"), ("\\-", "-")):
        plain = plain.replace(roff, letter)
    plain = re.sub(r"\\f[BIR]", "", plain)
    return " ".join(re.sub(r"^\.(PP|TP|nf|fi)$", "", plain, flags=re.MULTILINE).split())


@pytest.mark.parametrize("context", CONTEXTS, ids=[one.command_path for one in CONTEXTS])
def test_all_is_there(pages: Path, context: click.Context) -> None:
    text = shown(pages / f"{context.command_path.replace(' ', '-')}.1")
    command = context.command
    assert command.help is not None
    for paragraph in command.help.replace("\b\n", "").split("\n\n"):
        assert " ".join(paragraph.split()) in text
    for param in command.get_params(context):
        if isinstance(param, click.Option):
            assert param.help is not None, f"{param.opts[0]} has no help"
            record = param.get_help_record(context)
            assert record is not None
            for part in record:
                assert " ".join(part.split()) in text
        else:
            assert param.make_metavar(context) in text
    if isinstance(command, click.Group):
        for name in command.commands:
            assert f"{context.command_path}-{name}(1)".replace(" ", "-") in text


def test_there_are_no_others(pages: Path) -> None:
    names = {context.command_path.replace(" ", "-") for context in CONTEXTS}
    assert {page.stem for page in pages.iterdir()} == names
