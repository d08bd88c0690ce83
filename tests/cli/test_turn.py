"""``outcrop transpose``, ``rotate``, ``flip`` and ``permute``."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import outcrop as oc

Run = Callable[..., Any]
Values = NDArray[Any]
Together = Callable[[Iterable[list[str]]], list[Any]]

CHANCE = np.random.default_rng(0)
PICTURE = CHANCE.integers(0, 256, (60, 83, 3), np.uint8)
CUBE = CHANCE.integers(-(2**15), 2**15, (7, 11, 13), np.int16)


@pytest.fixture
def here(tmp_path: Path, array: Path, plain: Values) -> Path:
    """The command's working directory, with a picture, a cube, a matrix and bare elements."""
    oc.asarray(PICTURE).save(tmp_path / "a.ppm")
    np.save(tmp_path / "cube.npy", CUBE)
    plain.astype(">f4").tofile(tmp_path / "page.raw")
    (tmp_path / "fast").mkdir()
    return tmp_path


ONE_BY_ONE = """
import contextlib, io, json, sys
from outcrop.cli.app import run
ended = []
for arguments in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = run(arguments)
    ended.append([status, out.getvalue(), err.getvalue()])
print(json.dumps(ended))
"""


@pytest.fixture
def together(here: Path) -> Together:
    """Many short commands in one process; status, output and what is said of each."""

    def run(commands: Iterable[list[str]]) -> list[Any]:
        done = subprocess.run(
            [sys.executable, "-c", ONE_BY_ONE, json.dumps(list(commands))],
            cwd=here,
            env=os.environ | {"OUTCROP_MEMORY": "64MiB"},
            capture_output=True,
            text=True,
            check=True,
        )
        found: list[Any] = json.loads(done.stdout)
        return found

    return run


def check(path: Path, expected: Values, **raw: Any) -> None:
    found = oc.open(path, **raw).compute()
    assert found.dtype == expected.dtype.newbyteorder("=")
    np.testing.assert_array_equal(found, expected)


PICTURES: list[tuple[list[str], Values]] = [
    (["transpose", "a.ppm", "out.ppm"], PICTURE.swapaxes(0, 1)),
    (["transpose", "a.ppm", "out.ppm", "--anti"], PICTURE[::-1, ::-1].swapaxes(0, 1)),
    (["rotate", "a.ppm", "out.ppm", "90"], np.rot90(PICTURE)),
    (["rotate", "a.ppm", "out.ppm", "-90"], np.rot90(PICTURE, -1)),
    (["rotate", "-270", "a.ppm", "out.ppm"], np.rot90(PICTURE)),
    (["rotate", "a.ppm", "out.ppm", "--", "-90"], np.rot90(PICTURE, -1)),
    (["rotate", "a.ppm", "out.ppm", "-90", "--format", "ppm"], np.rot90(PICTURE, -1)),
    (["rotate", "--clockwise", "a.ppm", "out.ppm", "90"], np.rot90(PICTURE, -1)),
    (["rotate", "a.ppm", "out.ppm", "-90", "--clockwise"], np.rot90(PICTURE)),
    (["rotate", "a.ppm", "out.ppm", "180"], np.rot90(PICTURE, 2)),
    (["rotate", "a.ppm", "out.ppm", "270"], np.rot90(PICTURE, 3)),
    (["rotate", "a.ppm", "out.ppm", "360"], PICTURE),
    (["flip", "a.ppm", "out.ppm"], PICTURE[::-1, ::-1]),
    (["flip", "a.ppm", "out.ppm", "--axis", "0"], PICTURE[::-1]),
    (["flip", "a.ppm", "out.ppm", "--axis", "1"], PICTURE[:, ::-1]),
    (["flip", "a.ppm", "out.ppm", "--axis", "-1", "--axis", "0"], PICTURE[::-1, :, ::-1]),
    (["permute", "a.ppm", "out.npy", "2,0,1"], PICTURE.transpose(2, 0, 1)),
    (["permute", "a.ppm", "out.npy", "-1,0,1"], PICTURE.transpose(2, 0, 1)),
    (["permute", "a.ppm", "out.npy", "2, 1, 0"], PICTURE.T),
]


def test_pictures(together: Together, here: Path) -> None:
    commands = [
        [name.replace("out.", f"{n}.") for name in arguments]
        for n, (arguments, _) in enumerate(PICTURES)
    ]
    for n, ended in enumerate(together(["--memory", "512KiB", *c] for c in commands)):
        # As with any tool: nothing to say, nothing is said.
        assert ended == [0, "", ""], PICTURES[n][0]
        [out] = here.glob(f"{n}.*")
        check(out, PICTURES[n][1])


def test_other_arrays(outcrop: Run, here: Path, plain: Values) -> None:
    outcrop("transpose", "cube.npy", "t.npy")
    check(here / "t.npy", CUBE.T)
    outcrop("transpose", "a.zarr", "t.zarr", "--anti")
    check(here / "t.zarr", plain[::-1, ::-1].T)
    refused = outcrop("transpose", "cube.npy", "anti.npy", "--anti", status=1)
    assert "pictures and matrices; this has 3 axes" in refused.stderr
    outcrop("flip", "cube.npy", "f.npy")
    check(here / "f.npy", np.flip(CUBE))
    outcrop("rotate", "cube.npy", "r.raw", "90", "--order", "F")
    raw = {"shape": (11, 7, 13), "dtype": "i2", "order": "F"}
    check(here / "r.raw", np.rot90(CUBE), **raw)
    outcrop("permute", "cube.npy", "p", "1,2,0", "--tile", "4x5x6")
    check(here / "p", CUBE.transpose(1, 2, 0))
    assert oc.open(here / "p").tile == (4, 5, 6)
    outcrop("transpose", "cube.npy", "named", "--format", "npy", "--order", "F")
    check(here / "named", CUBE.T)
    assert oc.open(here / "named").layout == "column-major"


def test_raw_files(outcrop: Run, here: Path, plain: Values) -> None:
    place, expected = "page.raw:shape=300x200,dtype=>f4", plain.astype("f4").T
    done = outcrop("--report", "transpose", place, "out.raw")
    assert "transposed page.raw to out.raw:shape=200x300,dtype=f4\n" in done.stderr
    check(here / "out.raw", expected, shape=(200, 300), dtype="f4")
    outcrop("rotate", place, "out.npy", "-90")
    check(here / "out.npy", np.rot90(expected.T, 3))
    outcrop("flip", "page.raw:shape=100x200,dtype=>f4,offset=160000", "part.npy", "--axis", "0")
    check(here / "part.npy", expected.T[200:][::-1])
    outcrop("permute", "page.raw:shape=200x300,dtype=>f4,order=F", "same.npy", "1,0")
    check(here / "same.npy", expected.T)
    # In place, it has other extents from then on.
    outcrop("transpose", place, "page.raw", "--overwrite")
    check(here / "page.raw", expected, shape=(200, 300), dtype="f4")


def test_tiles(outcrop: Run, here: Path) -> None:
    def tile(*options: str) -> list[int]:
        outcrop("transpose", "a.zarr", "out.zarr", "--overwrite", *options)
        found: list[int] = json.loads(outcrop("info", "--json", "out.zarr").stdout)["tile"]
        return found

    assert tile() == [80, 64]
    assert tile("--tile", "50x60") == [50, 60]
    assert tile("--tile", "70") == [70, 70]
    # It was no different from no tile.
    assert tile("--tile", "default") == [200, 300]
    assert oc.open(here / "out.zarr").attributes == {"unit": "K"}
    outcrop("rotate", "a.zarr", "small.zarr", "90", "--codecs", "zstd:3")
    assert "zstd" in (here / "small.zarr" / "zarr.json").read_text()
    told = outcrop("flip", "a.zarr", "no.zarr", "--codecs", "zstd", "--plan", status=2).stderr
    assert "--plan is for tiles that are not compressed" in told


def test_in_place(outcrop: Run, here: Path, plain: Values) -> None:
    for name, expected in (("a.zarr", plain.T), ("a.ppm", PICTURE.swapaxes(0, 1))):
        refused = outcrop("transpose", name, name, status=1)
        assert re.fullmatch(rf"outcrop: error: \S*{name}: exists already.*\n", refused.stderr)
        outcrop("transpose", name, name, "--overwrite")
        check(here / name, expected)
    assert "sound" in outcrop("verify", "a.zarr").stdout


def test_via(outcrop: Run, here: Path, plain: Values) -> None:
    outcrop("rotate", "a.zarr", "out.zarr", "90", "--via", "fast")
    check(here / "out.zarr", np.rot90(plain))
    outcrop("transpose", "a.ppm", "out.ppm", "--via", "fast", "--anti")
    check(here / "out.ppm", PICTURE[::-1, ::-1].swapaxes(0, 1))
    assert os.listdir(here / "fast") == []


def test_plans(outcrop: Run, here: Path, plain: Values) -> None:
    before = sorted(os.listdir(here))
    done = outcrop("--memory", "512KiB", "transpose", "page.raw:shape=300x200,dtype=>f4",
                   "out.npy", "--plan")  # fmt: skip
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert re.fullmatch(r"transpose: 234\.4 KiB in (one pass|2 passes)", lines[0])
    for words in ("  pass 1: ", "    reads ", "  writes ", "  memory: ", "  about "):
        assert any(line.startswith(words) for line in lines), words
    assert f"{512:.1f} KiB" in done.stdout
    done = outcrop("rotate", "a.zarr", "out.zarr", "90", "--plan", "--via", "fast")
    assert "copies what is read to fast: reads" in done.stdout
    # What stands there already is no matter, nor a directory that is not there yet.
    outcrop("flip", "a.ppm", "a.zarr", "--plan")
    outcrop("permute", "cube.npy", "none/out.npy", "2,0,1", "--plan", "--order", "F")
    assert sorted(os.listdir(here)) == before


def test_the_plan_is_that_of_the_same_command(outcrop: Run, here: Path) -> None:
    """It was planned with other tiles than those that are made."""
    command = ["--report", "transpose", "a.zarr", "out.zarr"]
    planned = outcrop(*command, "--plan").stdout
    done = outcrop(*command).stderr
    reads = re.search(r"reads (.*) in all", planned)
    takes = re.search(r"memory: (.*) of ", planned)
    assert reads and takes
    assert re.search(rf"read +{re.escape(reads[1])}\n", done), (planned, done)
    assert re.search(r"pass 1: .* of 200 x 300,|pass 1: .* of \d+ x \d+", planned)


def test_plans_call_it_what_it_is(together: Together, here: Path) -> None:
    commands = [
        ["rotate", "a.ppm", "out.ppm", "180", "--plan"],
        ["flip", "a.ppm", "out.ppm", "--plan"],
        ["permute", "cube.npy", "out.npy", "2,0,1", "--plan"],
    ]
    for (verb, *_), ended in zip(commands, together(commands), strict=True):
        assert ended[0] == 0
        assert ended[1].startswith(f"{verb}: ")
    A = oc.open(here / "cube.npy")
    for view, name in ((oc.rotate(A), "rotate"), (A.T, "transpose"), (A[::-1], "flip")):
        assert oc.plan(view).explain().startswith(f"{name}: ")


def test_plans_see_what_stands_in_the_way(together: Together, here: Path) -> None:
    np.save(here / "there.npy", np.arange(5))
    (here / "two.ppm").write_bytes((here / "a.ppm").read_bytes() * 2)
    with (here / "big.raw").open("wb") as file:
        file.truncate(1 << 42)
    cases = [
        (["a.ppm", "none/o.ppm"], "none/o.ppm: the directory none does not exist"),
        (["cube.npy", "there.npy"], "there.npy: exists already"),
        (["cube.npy", "a.zarr/o.npy"], "which owns its directory"),
        (["two.ppm", "two.ppm", "--overwrite"], "would be lost"),
        (["big.raw:shape=1048576x4194304,dtype=u1", "o.raw"], "are free"),
    ]
    found = together(
        ["--memory", "1GiB", "transpose", *arguments, "--plan"] for arguments, _ in cases
    )
    for (_, message), (status, out, err) in zip(cases, found, strict=True):
        assert status == 0
        assert out.startswith("transpose: ")
        *_, last = err.splitlines()
        assert last.startswith("outcrop: warning: ")
        assert message in last
    [fine] = together([["transpose", "cube.npy", "there.npy", "--overwrite", "--plan"]])
    assert fine[2] == ""


def test_what_else_a_file_holds_is_remarked_on(together: Together, here: Path) -> None:
    tifffile = pytest.importorskip("tifffile")
    with tifffile.TiffWriter(here / "three.tif") as file:
        for page in range(3):
            file.write(PICTURE + np.uint8(page), photometric="rgb", metadata=None)
    (here / "two.ppm").write_bytes((here / "a.ppm").read_bytes() * 2)
    raw = "page.raw:shape=299x200,dtype=>f4"
    cases = [
        (["rotate", "three.tif", "1.tif", "90"], "three.tif: the file also holds 2 other pages"),
        (["convert", "three.tif", "2.ppm"], "the first page is taken"),
        (["copy", "two.ppm", "3.ppm"], "the file also holds further images"),
        (["transpose", raw, "4.raw"], "also holds 800 bytes behind its elements"),
        (["info", raw], "also holds 800 bytes behind its elements"),
    ]
    for (_, message), ended in zip(cases, together(c for c, _ in cases), strict=True):
        assert ended[0] == 0
        assert re.fullmatch(r"outcrop: warning: .*\n", ended[2])
        assert message in ended[2]
    part = "page.raw:shape=299x200,dtype=>f4,offset=800"
    quiet = [
        ["rotate", "three.tif", "5.tif", "90", "--page", "2"],
        ["convert", "three.tif", "6.ppm", "--page", "0"],
        ["info", "three.tif", "--page", "1"],
        ["transpose", part, "7.raw"],
    ]
    assert [[status, err] for status, _, err in together(quiet)] == [[0, ""]] * 4
    check(here / "5.tif", np.rot90(PICTURE + np.uint8(2)))
    [lost] = together([["rotate", "three.tif", "three.tif", "90", "--overwrite", "--page", "1"]])
    assert lost[0] == 1
    assert "also holds 2 other pages, which would be lost" in lost[2]


def test_a_picture_that_is_shown_turned(together: Together, here: Path) -> None:
    pytest.importorskip("tifffile")
    with oc.create(here / "a.tif", PICTURE.shape, "u1", attributes={"orientation": 6}) as new:
        new[:] = PICTURE
    to_tiff, to_ppm = together([["rotate", "a.tif", f"b.{s}", "90"] for s in ("tif", "ppm")])
    assert to_tiff == [0, "", ""]
    assert oc.open(here / "b.tif").attributes["orientation"] == 6
    assert "is shown turned (TIFF orientation 6), which ppm files cannot say" in to_ppm[2]


def test_default_tiles_fit_the_memory(together: Together, here: Path) -> None:
    with (here / "big.raw").open("wb") as file:
        file.truncate(6000 * 5000)
    place = "big.raw:shape=6000x5000,dtype=u1"
    cases = [
        ["--memory", memory, "rotate", place, f"{memory}.zarr", "90", *plan]
        for memory in ("1MiB", "10MiB")
        for plan in ([], ["--plan"])
    ]
    for arguments, ended in zip(cases, together(cases), strict=True):
        assert ended[0] == 0, (arguments, ended)
    wide = ["--memory", "8MiB", "rotate", place, "o.zarr", "90", "--tile", "3000x3000"]
    for ended in together([wide, [*wide, "--plan"]]):
        assert ended[0] == 1
        assert "smaller tiles for the result (tile= or --tile) than 3000x3000" in ended[2]


MISTAKES = [
    (["rotate", "a.ppm", "out.ppm", "45"], "45 is not a multiple of 90"),
    (["rotate", "a.ppm", "out.ppm", "-45"], "-45 is not a multiple of 90"),
    (["rotate", "a.ppm", "out.ppm", "left"], "'left' is not a valid integer"),
    (["rotate", "a.ppm", "out.ppm", "-90x"], "no such option"),
    (["rotate", "a.ppm", "out.ppm"], "missing argument 'ANGLE'"),
    (["rotate", "a.ppm", "90"], "missing argument 'ANGLE'"),
    (["rotate", "a.ppm", "out.ppm", "90", "90"], "unexpected extra argument"),
    (["rotate", "a.ppm", "out.ppm", "90", "--clokwise"], "no such option '--clokwise'"),
    (["rotate", "a.ppm", "out.ppm", "90", "--quiet"], "--quiet stands before the verb"),
    (["flip", "a.ppm", "out.ppm", "--axis", "x"], "'x' is not a valid integer"),
    (["permute", "cube.npy", "out.npy"], "missing argument 'AXES'"),
    (["permute", "cube.npy", "out.npy", "0;1;2"], "'0;1;2' is not a list of axes"),
    (["permute", "cube.npy", "out.npy", ""], "is not a list of axes"),
    (["permute", "cube.npy", "out.npy", "0,1,"], "is not a list of axes"),
    (["transpose", "cube.npy", "out.npy", "--axes", "1"], "no such option '--axes'"),
    (["transpose", "cube.npy", "out.h5"], "is the name of an HDF5 file"),
    (["transpose", "cube.npy", "out.xyz"], "does not say which format"),
    (["transpose", "cube.npy", "out.npy", "--format", "png"], "'png' is not one of"),
    (["transpose", "cube.npy", "out.npy", "--tile", "3x3x3"], "--tile is for Zarr arrays"),
    (["transpose", "cube.npy", "out.zarr", "--tile", "3x0x3"], "is not a tile"),
    (["transpose", "cube.npy", "out.zarr", "--order", "F"], "--order is for npy and raw files"),
    (["transpose", "cube.npy", "o.zarr", "--order", "F", "--plan"], "--order is for npy and raw"),
    (["transpose", "a.ppm", "out.ppm", "--order", "F"], "ppm files are row-major"),
    (["transpose", "cube.npy", "out.npy", "--order", "R"], "'R' is not one of"),
    (["transpose", "cube.npy", "out.npy", "--via", "nowhere"], "'nowhere' does not exist"),
    (["transpose", "cube.npy", "out.npy", "--via", "a.ppm"], "'a.ppm' is a file"),
    (["transpose", "page.raw:shape=3,4,dtype=f4", "o.npy"], "'4' is not of the form key=value"),
    (["transpose", "cube.npy", "o.raw:shape=3x4,dtype=f4"], "only what is read is described"),
    (["transpose", "a.ppm", "-"], "arrays are files, not streams"),
    (["transpose", "-", "out.ppm"], "arrays are files, not streams"),
    (["transpose", "a.ppm", "out.ppm", "--page", "-1"], "-1 is not in the range"),
    (["permute", "cube.npy", "out.npy", "0,1"], "AXES: cube.npy: axes don't match array: (0, 1)"),
    (["permute", "cube.npy", "out.npy", "0,0,1"], "repeated axis in transpose: (0, 0, 1)"),
    (["permute", "cube.npy", "out.npy", "0,1,3"], "cube.npy: axis 3 is out of bounds"),
    (["flip", "cube.npy", "out.npy", "--axis", "3"], "--axis: cube.npy: axis 3 is out of bounds"),
    (["flip", "cube.npy", "out.npy", "--axis", "0", "--axis", "0"], "2 different axes"),
]
FAILURES = [
    (["transpose", "none.npy", "out.npy"], "none.npy: there is no array here"),
    (["transpose", "none.npy", "out.npy", "--plan"], "none.npy: there is no array here"),
    (["transpose", "page.raw", "out.raw"], "does not say what it holds"),
    (["transpose", "page.raw:shape=301x200,dtype=f4", "out.raw"], "800 missing"),
    (["transpose", "cube.npy", "there.npy"], "exists already"),
    (["transpose", "cube.npy", "there.npy", "--via", "fast"], "exists already"),
    (["transpose", "cube.npy", "docs.zarr", "--overwrite"], "is not an array"),
    (
        ["transpose", "cube.npy", "none/out.npy"],
        "cannot be made: the directory none does not exist",
    ),
    (["transpose", "cube.npy", "out.pgm"], "PGM holds"),
    (["transpose", "cube.npy", "out.zarr", "--tile", "3x3"], "different numbers of dimensions"),
    (["transpose", "empty.npy", "out.npy"], "empty.npy: the file is empty"),
    (["transpose", "empty.ppm", "out.ppm"], "empty.ppm: the file is empty"),
    (["transpose", "page.raw", "out.raw"], "page.raw:shape=1000x2000,dtype=f8 would"),
    (["transpose", "page.raw:shape=300x200,dtype=f4,offset=1", "o.raw"], "1 missing"),
    (["rotate", "line.npy", "out.npy", "90"], "no plane to be rotated"),
    (["--memory", "1KiB", "transpose", "cube.npy", "out.npy"], "least that works"),
]


def test_one_line_says_what_is_wrong(together: Together, here: Path) -> None:
    np.save(here / "line.npy", np.arange(5))
    np.save(here / "there.npy", np.arange(5))
    for name in ("empty.npy", "empty.ppm"):
        (here / name).touch()
    (here / "docs.zarr").mkdir()
    (here / "docs.zarr" / "letter").touch()
    before = sorted(here.rglob("*"))
    cases = [(*case, 2) for case in MISTAKES] + [(*case, 1) for case in FAILURES]
    found = together(arguments for arguments, _, _ in cases)
    for (arguments, message, status), ended in zip(cases, found, strict=True):
        assert ended[:2] == [status, ""], (arguments, ended)
        assert ended[2].startswith("outcrop: error: "), arguments
        assert ended[2].count("\n") == 1, arguments
        assert message in ended[2], arguments
    assert sorted(here.rglob("*")) == before


def test_help(together: Together) -> None:
    verbs = ["transpose", "rotate", "flip", "permute"]
    options = ("--tile", "--format", "--order", "--overwrite", "--via DIR", "--plan", "raw SRC")
    [_, summary, _], *each = together([["--help"], *([verb, "--help"] for verb in verbs)])
    for verb, (status, text, _) in zip(verbs, each, strict=True):
        assert status == 0
        assert verb in summary
        for word in options:
            assert word in text


@pytest.mark.parametrize("via", [False, True], ids=["here", "via"])
@pytest.mark.parametrize(
    ("number", "message"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "Terminated")]
)
def test_a_signal(
    start: Run, tmp_path: Path, number: signal.Signals, message: str, via: bool
) -> None:
    # Nothing but zeros, which take no room, and which so little memory moves in small pieces.
    with (tmp_path / "big.raw").open("wb") as file:
        file.truncate(6000 * 8000)
    (tmp_path / "fast").mkdir()
    np.save(tmp_path / "out.npy", CUBE)
    process = start(
        *("--memory", "300KiB", "rotate", "big.raw:shape=6000x8000,dtype=u1", "out.npy", "-90"),
        *("--overwrite", *(("--via", "fast") if via else ())),
    )
    limit = time.monotonic() + 30
    while not [n for n in os.listdir(tmp_path) if n.endswith(".outcrop-new")]:
        assert time.monotonic() < limit
        assert process.poll() is None
        time.sleep(0.01)
    time.sleep(0.2)
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert (out, err.decode()) == (b"", f"outcrop: {message}\n")
    assert process.returncode == 128 + number
    assert sorted(os.listdir(tmp_path)) == ["big.raw", "fast", "out.npy"]
    assert os.listdir(tmp_path / "fast") == []
    check(tmp_path / "out.npy", CUBE)
