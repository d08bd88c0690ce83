"""Groups whose metadata is damaged, large, or of a later version: what is said of them is right."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outcrop as oc

SOUND = {
    "zarr.json": b'{"zarr_format": 3, "node_type": "group", "attributes": {}}',
    ".zgroup": b'{"zarr_format": 2}',
}

DAMAGED = {
    "cut off": ("zarr.json", SOUND["zarr.json"][:30]),
    "empty": ("zarr.json", b""),
    "no kind": ("zarr.json", b'{"zarr_format": 3}'),
    "no version": ("zarr.json", b'{"node_type": "group"}'),
    "version that is text": ("zarr.json", b'{"node_type": "group", "zarr_format": "3"}'),
    "2 cut off": (".zgroup", b'{"zarr_f'),
    "2 without a version": (".zgroup", b"{}"),
}

LATER = {
    "9": ("zarr.json", b'{"zarr_format": 9, "node_type": "group"}'),
    "9 of 2": (".zgroup", b'{"zarr_format": 9}'),
}

each_damage = pytest.mark.parametrize(("file", "text"), DAMAGED.values(), ids=DAMAGED)
each_later = pytest.mark.parametrize(("file", "text"), LATER.values(), ids=LATER)


def group(path: Path, file: str = "zarr.json", text: bytes | None = None) -> Path:
    path.mkdir()
    (path / file).write_bytes(SOUND[file] if text is None else text)
    return path


def ways(path: Path, beside: Path) -> list[Callable[[], Any]]:
    """How something comes to be at a path; with a directory for what is stored already."""
    A = oc.asarray(np.eye(3))

    def create() -> None:
        with oc.create(path, 3) as made:
            made[...] = 1

    stored = A.save(beside / "stored.zarr")
    return [
        lambda: A.save(path),
        lambda: (A + 1).save(path),
        create,
        lambda: oc.plan(A + 1, path),
        lambda: oc.plan(stored.T, path),
        lambda: oc.transpose(stored, path),
        lambda: oc.save({path: A * 2}),
    ]


@each_damage
@pytest.mark.parametrize("name", ["x", "x.npy", "deep/x"])
def test_what_would_stand_in_a_damaged_group(
    tmp_path: Path, name: str, file: str, text: bytes
) -> None:
    """It was said to lie inside an array."""
    path = group(tmp_path / "g", file, text)
    (path / "deep").mkdir()
    for way in ways(path / name, tmp_path):
        with pytest.raises(
            oc.CorruptArrayError, match=rf"{name}: would stand in .*{file} is damag"
        ):
            way()
    assert sorted(p.name for p in path.iterdir()) == sorted([file, "deep"])


@each_later
def test_what_would_stand_in_a_group_of_a_later_version(
    tmp_path: Path, file: str, text: bytes
) -> None:
    """Arrays of versions 2 and 3 were written into it, which nobody would see there."""
    path = group(tmp_path / "g", file, text)
    for way in ways(path / "x", tmp_path):
        with pytest.raises(oc.UnsupportedError, match="of version 9 of Zarr"):
            way()
    with pytest.raises(oc.UnsupportedError, match="version 9 of Zarr"):
        oc.open(path)
    assert [p.name for p in path.iterdir()] == [file]


@each_damage
def test_a_damaged_group_is_opened(tmp_path: Path, file: str, text: bytes) -> None:
    path = group(tmp_path / "g", file, text)
    oc.asarray(np.eye(3)).save(tmp_path / "a.zarr")
    (tmp_path / "a.zarr").rename(path / "a")
    with pytest.raises(oc.CorruptArrayError, match=rf"g: .*({file}|node_type)"):
        oc.open(path)
    # What is in it can be read.
    np.testing.assert_array_equal(oc.open(path / "a").compute(), np.eye(3))


@each_damage
def test_the_only_child_is_damaged(tmp_path: Path, file: str, text: bytes) -> None:
    """The group was said to hold no arrays."""
    path = group(tmp_path / "g")
    group(path / "x", file, text)
    with pytest.raises(
        (oc.CorruptArrayError, oc.UnsupportedError), match=rf"g/x: .*({file}|node_type)"
    ):
        oc.open(path)
    command = [sys.executable, "-m", "outcrop", "info", str(path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "no arrays" not in ended.stdout
    assert file in ended.stdout or "node_type" in ended.stdout


@each_later
def test_the_only_child_is_of_a_later_version(tmp_path: Path, file: str, text: bytes) -> None:
    path = group(tmp_path / "g")
    group(path / "x", file, text)
    with pytest.raises(oc.UnsupportedError, match=r"g/x: .*version 9 of Zarr"):
        oc.open(path)


def test_one_of_two_children_is_damaged(tmp_path: Path) -> None:
    """The other one was taken for the only array."""
    path = group(tmp_path / "g")
    oc.asarray(np.eye(3)).save(path / "a")
    group(path / "b", *DAMAGED["cut off"])
    with pytest.raises(oc.UnsupportedError, match="it holds a, b; name one of them"):
        oc.open(path)
    xarray = pytest.importorskip("xarray")
    with pytest.raises(oc.CorruptArrayError, match="g/b"):
        xarray.open_dataset(path, engine="outcrop")
    found = xarray.open_dataset(path, engine="outcrop", drop_variables="b")
    np.testing.assert_array_equal(found["a"].values, np.eye(3))


@pytest.mark.parametrize("mebibytes", [5, 65])
def test_how_much_metadata_a_group_may_have(tmp_path: Path, mebibytes: int) -> None:
    """It was said to be 4 MiB, and consolidated metadata to be removed where there was none."""
    path = group(tmp_path / "g")
    oc.asarray(np.eye(3)).save(path / "a")
    blanks = b" " * (mebibytes << 20)
    (path / "zarr.json").write_bytes(SOUND["zarr.json"] + blanks)
    if mebibytes < 64:
        assert oc.open(path).shape == (3, 3)
        (path / "zarr.json").write_bytes(SOUND["zarr.json"][:-3] + blanks)
        with pytest.raises(oc.CorruptArrayError, match=r"zarr\.json is damaged"):
            oc.open(path)
        return
    for way in (lambda: oc.open(path), lambda: oc.asarray(np.eye(3)).save(path / "b")):
        with pytest.raises(oc.UnsupportedError, match="more than 64 MiB") as caught:
            way()
        assert "4 MiB" not in str(caught.value).replace("64 MiB", "")
        assert "remove the consolidated" not in str(caught.value)
    assert sorted(p.name for p in path.iterdir()) == ["a", "zarr.json"]


def test_an_array_of_a_damaged_neighbour_is_replaced(tmp_path: Path) -> None:
    """Damage of what is replaced, or stands beside it, is in nobody's way."""
    path = group(tmp_path / "g")
    for name in ("x", "y"):
        group(path / name, *DAMAGED["cut off"])
    oc.asarray(np.eye(3)).save(path / "x", overwrite=True)
    np.testing.assert_array_equal(oc.open(path / "x").compute(), np.eye(3))
    with pytest.raises(oc.UnsupportedError, match="lies inside the array"):
        oc.asarray(np.eye(3)).save(path / "x" / "inside")
