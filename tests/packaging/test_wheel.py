"""A wheel that does not hold what it should is refused before it is tried."""

import runpy
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
TRY = runpy.run_path(str(ROOT / "scripts" / "try_wheel.py"))

NAME = "outcrop-0.1.0-cp311-abi3-manylinux_2_28_x86_64.whl"
FILES = {
    "outcrop/_native.abi3.so": "\0GLIBC_2.9\0GLIBC_2.28\0GLIBC_2.2.5\0",
    "outcrop/__init__.py": "",
    "outcrop/_native.pyi": "",
    "outcrop/cli/tree.json": "{}",
    "outcrop/py.typed": "",
    "outcrop-0.1.0.dist-info/METADATA": "Metadata-Version: 2.4\nVersion: 0.1.0\n",
    "outcrop-0.1.0.dist-info/entry_points.txt": "",
    "outcrop-0.1.0.dist-info/licenses/LICENSE": "",
    "outcrop-0.1.0.dist-info/RECORD": "",
}


def look_into(directory: Path, name: str, files: dict[str, str]) -> Any:
    with zipfile.ZipFile(directory / name, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return TRY["look_into"](directory / name)


def test_a_good_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    look_into(tmp_path, NAME, FILES)
    assert "manylinux_2_28_x86_64: glibc 2.28 or newer" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "what"),
    [
        (NAME.replace("abi3", "cp311"), "its tags are cp311 and cp311"),
        (NAME.replace("manylinux_2_28", "linux"), "not manylinux"),
        (NAME.replace("2_28", "2_27"), "it needs glibc 2.28"),
        (NAME.replace("0.1.0", "0.2.0"), "METADATA"),
    ],
)
def test_another_name(tmp_path: Path, name: str, what: str) -> None:
    with pytest.raises((SystemExit, KeyError), match=what):
        look_into(tmp_path, name, FILES)


@pytest.mark.parametrize("name", [name for name in FILES if not name.endswith("RECORD")])
def test_a_file_is_missing(tmp_path: Path, name: str) -> None:
    with pytest.raises((SystemExit, KeyError)):
        look_into(tmp_path, NAME, {path: text for path, text in FILES.items() if path != name})


@pytest.mark.parametrize(
    "name",
    [
        "outcrop/arrays/tests/test_array.py",
        "outcrop/conftest.py",
        "outcrop/__pycache__/checks.cpython-311.pyc",
        "tests/api/test_array.py",
        "docs/_build/python/index.html",
        "scripts/build_backend.py",
        "outcrop/libother.so",
    ],
)
def test_a_file_too_many(tmp_path: Path, name: str) -> None:
    with pytest.raises(SystemExit, match=r"it holds .*, which is not for users"):
        look_into(tmp_path, NAME, FILES | {name: ""})


def test_the_package_has_nothing_else() -> None:
    """What maturin packs are the files of the package that git knows."""
    package = ROOT / "python"
    names = [str(path.relative_to(package)) for path in package.rglob("*") if path.is_file()]
    kept = [name for name in names if "__pycache__" not in name]
    TRY["check_names"]([*kept, *FILES])
