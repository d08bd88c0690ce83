"""Whatever is wrong is said in one line, and the exit status tells a mistake from a failure."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

Run = Callable[..., Any]


@pytest.mark.parametrize("closed", [(1,), (2,), (0, 1, 2)])
def test_no_streams(start: Callable[..., Any], array: Path, closed: tuple[int, ...]) -> None:
    """Where nothing can be said, as in some services, work is done all the same."""

    def close() -> None:
        for number in closed:
            os.close(number)

    process = start("convert", array, "b.npy", preexec_fn=close, stdout=None, stderr=None)
    assert process.wait(60) == 0
    assert np.load(array.parent / "b.npy").shape == (300, 200)
    process = start("info", "nowhere", preexec_fn=close, stdout=None, stderr=None)
    assert process.wait(60) == 1


USAGE = [
    (["nonsense"], "no such command 'nonsense'"),
    (["flip", "a.zarr", "b.npy", "--axis"], "see 'outcrop flip --help'"),
    (["copy", "a.zarr"], "missing argument 'DST'"),
    (["copy", "a.zarr", "b", "--tile", "3x3"], "no such option '--tile'"),
    (["copy", "a.zarr", "b", "--quiet"], "--quiet stands before the verb: outcrop --quiet copy"),
    (["--memory", "lots", "info", "a.zarr"], "--memory: 'lots' is not a size"),
    (["--threads", "0", "info", "a.zarr"], "--threads: 0 is not between"),
    (["--scratch", "nowhere", "info", "a.zarr"], "nowhere' is not a directory"),
    (["--engine", "steam", "info", "a.zarr"], "'steam' is not one of"),
    (["info", "a.raw:shape=3"], "dtype is missing"),
    (["info", "a.raw:dtype=f8"], "shape is missing"),
    (["info", "a.raw:shape=3x,dtype=f8"], "shape='3x' is not a list of extents"),
    (["info", "a.raw:shape=-3,dtype=f8"], "shape='-3' is not a list of extents"),
    (["info", "a.raw:shape=3,dtype=f2"], "dtype 'float16' is not supported"),
    (["info", "a.raw:shape=3,dtype=real"], "real"),
    (["info", "a.raw:shape=3,dtype=f8,offset=-1"], "offset='-1' is not a number"),
    (["info", "a.raw:shape=3,dtype=f8,order=R"], "order must be 'C' or 'F'"),
    (["info", "a.raw:shape=3,dtype=f8,skip=1"], "'skip' is not one of"),
    (["info", "a.raw:shape=3,shape=3,dtype=f8"], "shape is given twice"),
    (["info", "a.raw:shape=3,4,dtype=f8"], "'4' is not of the form key=value"),
    (["info", "a.raw:shape=9999999999x9999999999,dtype=f8"], "too large"),
    (["copy", "a.zarr", "b.npy"], "'outcrop convert' changes it"),
    (["convert", "a.zarr", "b.h5"], "is the name of an HDF5 file"),
    (["convert", "a.zarr", "b.what"], "does not say which format"),
    (["convert", "a.zarr", "b.npy", "--tile", "3x3"], "--tile is for Zarr arrays"),
    (["convert", "a.zarr", "b", "--order", "F"], "--order is for npy and raw"),
    (["convert", "a.zarr", "b", "--tile", "3x0"], "'3x0' is not a tile"),
    (["convert", "a.zarr", "b", "--tile", "big"], "'big' is not a tile"),
    (["convert", "a.zarr", "b", "--codecs", "zip"], "'zip' is not known"),
    (["convert", "a.zarr", "b", "--codecs", "gzip:11"], "from 0 to 9"),
    (["convert", "a.zarr", "b", "--codecs", "[1"], "is not JSON"),
    (["convert", "a.zarr", "b", "--box", "1:2:3:4"], "is not a box"),
    (["convert", "a.zarr", "b", "--box", "::0"], "is not a box"),
    (["convert", "a.zarr", "b", "--box", ""], "is not a box"),
    (["info", ""], "an empty path"),
    (["--timeline", "t.json", "transpose", "a.zarr", "b"], "and not what transpose does"),
    (["convert", "a.zarr", "b.raw:shape=3,dtype=f8"], "only what is read is described"),
]
FAILURES = [
    (["info", "none.zarr"], "none.zarr: there is no array here"),
    (["info", "."], "neither zarr.json nor .zarray"),
    (["info", "text"], "is text, which is not read here"),
    (["info", "text:shape=300,dtype=f8"], "takes 2400 bytes, the file has only 5"),
    (["copy", "a.zarr", "there.zarr"], "there.zarr: exists already"),
    (["copy", "a.zarr", "none/b.zarr"], "none does not exist"),
    (["convert", "a.zarr", "b", "--tile", "3x3x3"], "different numbers of dimensions"),
    (["convert", "a.zarr", "b", "--box", "0,0,0"], "too many indices"),
    (["convert", "a.zarr", "b", "--box", "300"], "out of bounds"),
    (["convert", "a.zarr", "b", "--codecs", '[{"name": "morse"}]'], '"morse" is not supported'),
    (["copy", "--overwrite", "a.zarr", "docs.zarr"], "is not an array"),
    (["--memory", "300KiB", "convert", "a.zarr", "b", "--tile", "300x200"], "least that works"),
    (["copy", "damaged.zarr", "b.zarr"], "(0, 0)"),
]


@pytest.fixture
def surroundings(array: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("text\n")
    shutil.copytree(array, tmp_path / "there.zarr")
    shutil.copytree(array, tmp_path / "damaged.zarr")
    (tmp_path / "damaged.zarr" / "c" / "0" / "0").write_bytes(b"")
    (tmp_path / "docs.zarr").mkdir()
    (tmp_path / "docs.zarr" / "letter").touch()


def check(outcrop: Run, tmp_path: Path, arguments: list[str], message: str, status: int) -> None:
    before = sorted(os.listdir(tmp_path))
    done = outcrop(*arguments, status=status)
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("outcrop: error: ")
    assert message in done.stderr
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize(("arguments", "message"), USAGE, ids=lambda v: None)
def test_mistakes(
    outcrop: Run, array: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    check(outcrop, tmp_path, arguments, message, 2)


@pytest.mark.parametrize(("arguments", "message"), FAILURES, ids=lambda v: None)
def test_failures(
    outcrop: Run, surroundings: None, tmp_path: Path, arguments: list[str], message: str
) -> None:
    check(outcrop, tmp_path, arguments, message, 1)


def test_the_environment_is_blamed_for_its_own(outcrop: Run, array: Path) -> None:
    done = outcrop("info", "a.zarr", env={"OUTCROP_MEMORY": "lots"}, status=1)
    assert done.stderr.startswith("outcrop: error: environment variable OUTCROP_MEMORY")


def test_without_a_verb_there_is_help(outcrop: Run) -> None:
    assert "Commands:" in outcrop(status=2).stderr
    assert "Commands:" in outcrop("--help").stdout
    for verb in ("info", "copy", "convert", "verify", "doctor"):
        assert "Options:" in outcrop(verb, "-h").stdout
    assert outcrop("--version").stdout.startswith("outcrop ")


def test_a_reader_that_leaves(start: Run, array: Path) -> None:
    process = start("info", *["a.zarr"] * 50)
    process.stdout.close()
    process.stdout = None
    assert process.communicate()[1] == b""
    assert process.returncode == 141


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_output_that_cannot_be_written(start: Run, array: Path) -> None:
    with open("/dev/full", "w") as full:
        process = start("info", "a.zarr", stdout=full)
        assert process.communicate()[1].startswith(b"outcrop: error: ")
    assert process.returncode == 1


def test_start_up_is_lean(array: Path, tmp_path: Path) -> None:
    # Whatever a command loads without need costs every user of it, every time.
    code = "import sys; from outcrop.cli import main; main(['info', 'a.zarr']); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert not {"rich", "zarr", "scipy", "pandas"} & set(done.stdout.split())
