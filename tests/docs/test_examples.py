"""What documents show works, in the order in which it stands there, and prints what they say."""

import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from .pages import ROOT, Page, run

PAGES = [
    path
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if "_build" not in path.parts and "```python\n" in path.read_text()
]
# Arguments for decisions, of which the code is not all there.
FRAGMENTS = {"018-meaning-of-expressions.md"}
# What a page imports beside NumPy and Outcrop, all of it optional.
LIBRARIES = ["h5py", "islpy", "matplotlib", "numba", "scipy", "sklearn", "tifffile", "xarray"]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_there_are_pages() -> None:
    assert {"README.md", "docs/tutorial.md", "docs/howto/climate.md"} <= {*map(name, PAGES)}
    readme = Page(ROOT / "README.md").script()
    assert readme.count("-m outcrop") >= 8  # commands
    assert readme.count("oc.config(") >= 1


@pytest.mark.parametrize("path", [p for p in PAGES if p.name not in FRAGMENTS], ids=name)
def test_a_page(path: Path, tmp_path: Path) -> None:
    page = Page(path)
    script = page.script()
    # Compilers are imported by decorators.
    for library, sign in [("islpy", "@oc.loops"), ("numba", "@oc.sweep"), ("numba", "oc.sweeps.")]:
        if sign in script and find_spec(library) is None:
            pytest.skip(f"needs {library}")
    for library in LIBRARIES:
        if re.search(rf"^(import|from) {library}\b", script, re.MULTILINE):
            pytest.importorskip(library)
    page.run(tmp_path)
    # Charts are drawn from docs/benchmarks.md.
    for picture in re.findall(r"\]\(pictures/(?!chart-)([\w.-]+)\)", page.text):
        assert (tmp_path / picture).is_file(), picture


def test_charts_are_drawn_from_the_benchmarks(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    script = str(ROOT / "scripts" / "pictures.py")
    run([sys.executable, "-W", "error", script, "--charts", "--directory", str(tmp_path)], tmp_path)
    shown = re.findall(r"\]\(pictures/(chart-[\w.-]+)\)", (ROOT / "docs/gallery.md").read_text())
    assert sorted(shown) == sorted(path.name for path in tmp_path.glob("chart-*"))


def test_what_the_readme_says_of_its_array(tmp_path: Path) -> None:
    page = Page(ROOT / "README.md")
    shown = re.search(r"^# (<outcrop.Array.*>)$", page.text, re.MULTILINE)
    assert shown is not None
    block = next(lines for language, _, lines in page.blocks() if language == "python")
    (tmp_path / "first.py").write_text("\n".join(block))
    assert run([sys.executable, "first.py"], tmp_path).strip() == shown[1]
