"""``outcrop verify`` names what is damaged."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from numpy.typing import NDArray

import outcrop as oc

Run = Callable[..., Any]


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[1234] ^= 4
    path.write_bytes(content)


def test_sound_arrays(outcrop: Run, array: Path, tmp_path: Path, plain: NDArray[Any]) -> None:
    oc.asarray(plain).save(tmp_path / "a.npy")
    done = outcrop("verify", "a.zarr", "a.npy")
    sound, readable = done.stdout.splitlines()
    assert sound == "a.zarr: sound, 15 tiles, 468.8 KiB"
    assert readable == "a.npy: readable, but without checksums, 468.8 KiB"
    assert done.stderr == ""
    assert outcrop("--quiet", "verify", "a.zarr").stdout == ""


def test_every_damaged_tile_is_named(outcrop: Run, array: Path) -> None:
    flip(array / "c" / "1" / "2")
    (array / "c" / "3" / "0").write_bytes(b"short")
    (array / "c" / "4" / "1").unlink()
    done = outcrop("verify", array, status=1)
    *tiles, last = done.stderr.splitlines()
    assert done.stdout == ""
    assert all(line.startswith(f"{array}: ") for line in tiles)
    for line, tile in zip(tiles, ["(1, 2)", "(3, 0)", "(4, 1)"], strict=True):
        assert tile in line
    assert last == f"outcrop: error: {array}: 3 damaged tiles"


def test_swapped_tiles(outcrop: Run, array: Path) -> None:
    a, b, c = array / "c" / "0" / "0", array / "c" / "0" / "1", array / "spare"
    a.rename(c)
    b.rename(a)
    c.rename(b)
    lines = outcrop("verify", array, status=1).stderr.splitlines()
    assert "(0, 0)" in lines[0]
    assert "(0, 1)" in lines[1]


def test_all_are_looked_at(outcrop: Run, array: Path, tmp_path: Path) -> None:
    shutil.copytree(array, tmp_path / "b.zarr")
    flip(array / "c" / "0" / "0")
    done = outcrop("verify", "a.zarr", "none", "b.zarr", status=1)
    assert done.stdout.startswith("b.zarr: sound")
    assert "none: there is no array here" in done.stderr


def test_lawful_changes_are_accepted(outcrop: Run, array: Path, plain: NDArray[Any]) -> None:
    zarr = pytest.importorskip("zarr")
    zarr.open_array(array, mode="r+")[:10] = -1
    assert "--accept" in outcrop("verify", array, status=1).stderr
    assert "sound" in outcrop("verify", array, "--accept").stdout
    outcrop("verify", array)
    flip(array / "c" / "1" / "2")
    outcrop("verify", array, "--accept", status=1)
