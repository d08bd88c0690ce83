"""Who installs from a checkout hears at once, in one line, what is missing for that."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
IMPORTED = "import sys; sys.path.insert(0, 'scripts'); import build_backend as backend; "


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A directory with what the check itself needs; `add` makes others."""
    for name in ("sh", "sed", "cut", "sort", "head"):
        found = shutil.which(name)
        assert found is not None
        (tmp_path / name).symlink_to(found)
    return tmp_path


def add(programs: Path, says: str, *names: str) -> None:
    for name in names:
        (programs / name).write_text(f"#!/bin/sh\necho '{says}'\n")
        (programs / name).chmod(0o755)


def imported(programs: Path, before: str = "") -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("CC", "CXX")}
    return subprocess.run(
        [sys.executable, "-c", before + IMPORTED + "print(backend.build_wheel.__module__)"],
        cwd=ROOT,
        env=kept | {"PATH": str(programs)},
        capture_output=True,
        text=True,
    )


def refused(programs: Path, before: str = "") -> str:
    done = imported(programs, before)
    assert done.returncode == 1
    assert not done.stdout
    line, *others = done.stderr.splitlines()
    assert not others
    assert line.startswith("outcrop: ")
    return line


def test_no_rust(programs: Path) -> None:
    line = refused(programs)
    assert "cargo is needed: Rust 1." in line
    assert "https://rustup.rs" in line


def test_old_rust(programs: Path) -> None:
    add(programs, "rustc 1.70.0 (90c541806 2023-05-31)", "cargo", "rustc")
    assert "and rustc is 1.70.0 ('rustup update'" in refused(programs)


@pytest.mark.parametrize(("there", "missing"), [((), "a C compiler"), (("cc",), "a C++ compiler")])
def test_no_compiler(programs: Path, there: tuple[str, ...], missing: str) -> None:
    add(programs, "rustc 1.999.0", "cargo", "rustc")
    add(programs, "", *there)
    assert f"{missing} is needed" in refused(programs)


def test_old_python(programs: Path) -> None:
    older = "import sys; sys.version_info = (3, 10, 13); "
    assert "Python 3.11 or newer is needed, and this is 3.10.13" in refused(programs, older)


def test_otherwise_it_is_maturin(programs: Path) -> None:
    add(programs, "rustc 1.999.0", "cargo", "rustc", "cc", "c++")
    done = imported(programs)
    assert (done.returncode, done.stdout, done.stderr) == (0, "maturin\n", "")
