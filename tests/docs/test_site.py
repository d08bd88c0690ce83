"""What `make site` is made of: every public name has its place, and links lead somewhere."""

import importlib
import re
from pathlib import Path

import pytest

import outcrop as oc

from .pages import ROOT

DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
REFERENCE = ROOT / "docs" / "reference"
PACKAGES = ["blas", "fft", "linalg", "random", "sweeps"]
MODULES = ["outcrop", *(f"outcrop.{name}" for name in PACKAGES)]


def described() -> list[str]:
    """Full names in the directives `public` of the reference, by the rules of docs/conf.py."""
    found = []
    for page in sorted(REFERENCE.glob("*.rst")):
        for module, rest in re.findall(
            r"^\.\. public:: (\S+)\n((?:\s*\n|   .*\n)*)", page.read_text(), re.MULTILINE
        ):
            sources = re.search(r":of: (.*)", rest)
            names = re.findall(r"^   (\w+)$", rest, re.MULTILINE)
            for source in [] if names else (sources[1] if sources else module).split():
                names += importlib.import_module(source).__all__
            found += [f"{module}.{name}" for name in names]
    return found


def test_the_reference_has_every_public_name_once() -> None:
    public = {f"{m}.{name}" for m in MODULES for name in importlib.import_module(m).__all__}
    # Packages have pages of their own; `lib` only leads to what NumPy has there.
    public -= {f"outcrop.{name}" for name in [*PACKAGES, "lib"]}
    names = described()
    assert sorted(names) == sorted(public)


def _shown(one: object) -> list[str]:
    return [name for name in dir(one) if not name.startswith("_")]


def test_what_is_numpys_for_lib_is_described() -> None:
    text = (REFERENCE / "manipulation.rst").read_text()
    assert _shown(oc.lib) == ["stride_tricks"]
    for name in _shown(oc.lib.stride_tricks):
        assert f"oc.lib.stride_tricks.{name}" in text


def test_pages_of_the_reference_are_in_its_table() -> None:
    listed = re.findall(r"^   (\w+)$", (REFERENCE / "index.rst").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(p.stem for p in REFERENCE.glob("*.rst") if p.stem != "index")


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links(path: Path) -> None:
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"`[^`\n]*`", "", text)
    for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", text):
        assert (path.parent / target).exists(), target


def test_pictures_are_small_and_shown() -> None:
    pages = "".join(path.read_text() for path in DOCUMENTS)
    pictures = [*(ROOT / "docs" / "pictures").iterdir(), *(ROOT / "docs").glob("*.svg")]
    assert pictures
    for picture in pictures:
        assert picture.suffix in (".svg", ".png")
        assert picture.stat().st_size < 100_000, picture
        assert f"{picture.name})" in pages, picture
