"""What is said of the package where it is installed, and what its source distribution holds."""

import re
import sys
import tarfile
import tomllib
from email.message import Message
from email.parser import HeaderParser
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

import outcrop

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CARGO = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]
CRATES = sorted(path.parent for path in ROOT.glob("crates/*/Cargo.toml"))


@pytest.fixture
def metadata(dist_info: Path) -> Message:
    return HeaderParser().parsestr((dist_info / "METADATA").read_text())


def test_the_version_stands_in_one_place(metadata: Message) -> None:
    assert "version" not in PROJECT
    assert PROJECT["dynamic"] == ["version"]
    for crate in CRATES:
        manifest = tomllib.loads((crate / "Cargo.toml").read_text())
        assert manifest["package"]["version"] == {"workspace": True}, crate
    assert metadata["Version"] == CARGO["package"]["version"]


def test_the_version_is_that_of_the_core() -> None:
    assert outcrop.__version__ == CARGO["package"]["version"]


def test_who_may_install_it(metadata: Message) -> None:
    assert metadata["Requires-Python"] == PROJECT["requires-python"]
    oldest = PROJECT["requires-python"].removeprefix(">=")
    python = (ROOT / "crates" / "outcrop-python" / "Cargo.toml").read_text()
    assert f'"abi3-py{oldest.replace(".", "")}"' in python
    assert f"({oldest.replace('.', ', ')})" in (ROOT / "scripts" / "prerequisites.sh").read_text()
    listed = re.findall(r"Python :: (3\.\d+)$", "\n".join(metadata.get_all("Classifier", [])), re.M)
    assert listed[0] == oldest
    assert sys.version_info >= tuple(map(int, oldest.split(".")))


def test_everyone_is_told_what_it_is(metadata: Message) -> None:
    assert metadata["License-Expression"] == CARGO["package"]["license"]
    assert metadata["Summary"] == CARGO["package"]["description"]
    assert str(metadata.get_payload()).strip() == (ROOT / "README.md").read_text().strip()


def test_entry_points_lead_somewhere(dist_info: Path) -> None:
    found = {(one.group, one.name): one for one in PathDistribution(dist_info).entry_points}
    assert set(found) == {
        ("console_scripts", "outcrop"),
        ("xarray.backends", "outcrop"),
        ("xarray.chunkmanagers", "outcrop"),
        ("zarr.codecs", "outcrop.frontier"),
    }
    for one in found.values():
        assert callable(one.load()), one


def test_extras_that_are_named_are_there(metadata: Message) -> None:
    """Messages and documents say which extra is missing."""
    there = set(metadata.get_all("Provides-Extra", []))
    texts = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("python/**/*.py")]
    named = {
        extra
        for path in texts
        for extra in re.findall(r"['`](?:outcrop|\.)\[(\w+)\]['`]", path.read_text())
    }
    assert "plot" in named
    assert named <= there


def test_a_source_distribution_can_be_built(sdist: Path) -> None:
    """It has all that compiling needs, and nothing that it does not."""
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    needed = {
        *("Cargo.toml", "Cargo.lock", "pyproject.toml", "LICENSE", "README.md", "PKG-INFO"),
        *("scripts/build_backend.py", "scripts/prerequisites.sh"),
        *("python/outcrop/cli/tree.json", "python/outcrop/py.typed"),
    }
    for crate in CRATES:
        sources = [crate / "Cargo.toml", *crate.glob("src/**/*.rs")]
        needed |= {str(path.relative_to(ROOT)) for path in sources}
    package = (ROOT / "python").glob("outcrop/**/*.py*")
    needed |= {str(path.relative_to(ROOT)) for path in package if path.suffix != ".pyc"}
    assert needed <= names, needed - names
    assert not names - needed
