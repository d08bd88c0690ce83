"""Stored bytes that are not what was written are found, and named."""

import json
import os
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import outcrop as oc

Verify = Callable[[Path], list[str]]

VALUES = np.arange(50 * 40, dtype=np.float64).reshape(50, 40)
TILE = (16, 16)  # 4 x 3 tiles of 2052 bytes


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    oc.asarray(VALUES).save(tmp_path / "a.zarr", tile=TILE)
    return tmp_path / "a.zarr"


def flip(file: Path, at: int, bit: int = 0) -> None:
    data = bytearray(file.read_bytes())
    data[at] ^= 1 << bit
    file.write_bytes(data)


def truncate(file: Path) -> None:
    os.truncate(file, file.stat().st_size - 1)


def empty(file: Path) -> None:
    os.truncate(file, 0)


def lengthen(file: Path) -> None:
    with file.open("ab") as f:
        f.write(b"\0")


def flip_data(file: Path) -> None:
    flip(file, 777, 3)


def flip_checksum(file: Path) -> None:
    flip(file, file.stat().st_size - 2)


def zeros(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


def remove(file: Path) -> None:
    file.unlink()


def swap(file: Path) -> None:
    other = file.parent.parent / "0" / "1"
    aside = file.read_bytes()
    file.write_bytes(other.read_bytes())
    other.write_bytes(aside)


def link_out(file: Path) -> None:
    outside = file.parents[3] / "outside"
    shutil.move(file, outside)
    file.symlink_to(outside)


def link_up(file: Path) -> None:
    """A link that leads out, although it comes back in."""
    moved = file.with_name("moved")
    shutil.move(file, moved)
    file.symlink_to(Path("..") / ".." / ".." / "a.zarr" / "c" / file.parent.name / "moved")


def directory(file: Path) -> None:
    file.unlink()
    file.mkdir()


def fifo(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


DAMAGE: dict[Callable[[Path], None], str] = {
    truncate: "truncated",
    empty: "truncated",
    lengthen: "too long",
    flip_data: "CRC-32C",
    flip_checksum: "CRC-32C",
    zeros: "CRC-32C",
    remove: "missing",
    swap: "not the one recorded",
    link_out: "link that leads out",
    link_up: "link that leads out",
}


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda d: d.__name__)
def test_a_damaged_tile_is_named(
    stored: Path, verify: Verify, damage: Callable[[Path], None]
) -> None:
    damage(stored / "c" / "2" / "1")
    found = verify(stored)
    assert len(found) == (2 if damage is swap else 1)
    assert re.search(rf"tile \(2, 1\).*{DAMAGE[damage]}", found[-1])
    array = oc.open(stored)
    first = "(2, 1)|(0, 1)" if damage is swap else "(2, 1)"
    first = first.replace("(", r"\(").replace(")", r"\)")
    for key in (..., np.s_[35, 20], np.s_[32:48, 16:32], np.s_[::-3, ::2]):
        with pytest.raises(
            oc.CorruptArrayError, match=rf"a\.zarr: tile ({first}).*{DAMAGE[damage]}"
        ):
            array[key].compute()
    with pytest.raises(oc.CorruptArrayError, match=r"a\.zarr: tile"):
        array.save(stored.with_name("b.npy"))
    assert not stored.with_name("b.npy").exists()
    # The others can be read as before.
    np.testing.assert_array_equal(array[:, 32:].compute(), VALUES[:, 32:])
    with oc.open(stored, "r+") as writable, pytest.raises(oc.CorruptArrayError):
        writable[35, 20] = 1
    # A whole tile needs nothing of the old one: this repairs it.
    if damage is not swap:
        with oc.open(stored, "r+") as writable:
            writable[32:48, 16:32] = VALUES[32:48, 16:32]
        assert verify(stored) == []
        np.testing.assert_array_equal(oc.open(stored).compute(), VALUES)


@pytest.mark.parametrize("damage", [directory, fifo], ids=lambda d: d.__name__)
def test_no_file_in_a_tiles_place(
    stored: Path, verify: Verify, damage: Callable[[Path], None]
) -> None:
    """A directory was reported as refusing direct I/O, and a named pipe was waited for."""
    damage(stored / "c" / "2" / "1")
    assert "tile (2, 1)" in verify(stored)[0]
    with pytest.raises(oc.OutcropError, match=r"c/2/1|tile \(2, 1\)"):
        oc.open(stored).compute()


@pytest.mark.parametrize("name", ["a.npy", "a.raw", "a.pgm", "a.tif", "a.zarr/zarr.json"])
def test_a_named_pipe_is_not_waited_for(tmp_path: Path, name: str) -> None:
    pipe = tmp_path / name
    pipe.parent.mkdir(exist_ok=True)
    os.mkfifo(pipe)
    options = {"shape": (3,), "dtype": "u1"} if name == "a.raw" else {}
    with pytest.raises(oc.OutcropError, match="a\\."):
        oc.open(tmp_path / Path(name).parts[0], **options)


def test_an_old_tile_put_back_is_found(stored: Path, verify: Verify) -> None:
    tile = stored / "c" / "1" / "2"
    old = tile.read_bytes()
    with oc.open(stored, "r+") as array:
        array[20, 35] = -1
    tile.write_bytes(old)
    assert "tile (1, 2)" in verify(stored)[0]
    with pytest.raises(oc.CorruptArrayError, match=r"tile \(1, 2\).*old one was put back"):
        oc.open(stored)[20].compute()


def test_a_tile_that_was_never_written_stays_so(tmp_path: Path, verify: Verify) -> None:
    with oc.create(tmp_path / "a.zarr", (32, 16), tile=16) as array:
        array[:16] = 1
    tiles = tmp_path / "a.zarr" / "c"
    assert not (tiles / "1" / "0").exists()
    assert verify(tmp_path / "a.zarr") == []
    (tiles / "1").mkdir(exist_ok=True)
    shutil.copy(tiles / "0" / "0", tiles / "1" / "0")
    assert "never written" in verify(tmp_path / "a.zarr")[0]
    with pytest.raises(oc.CorruptArrayError, match="never written"):
        oc.open(tmp_path / "a.zarr").compute()


@pytest.mark.parametrize("name", ["zarr.json", ".outcrop-index"])
def test_damaged_metadata(stored: Path, name: str) -> None:
    """Any byte of either file, changed or cut off."""
    file = stored / name
    sound = file.read_bytes()
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    silent = 0
    for _ in range(40):
        damaged = bytearray(sound)
        manner = chance.choice(["bit", "byte", "cut", "insert", "zeros"])
        at = chance.randrange(len(sound))
        if manner == "bit":
            damaged[at] ^= 1 << chance.randrange(8)
        elif manner == "byte":
            damaged[at] = chance.randrange(256)
        elif manner == "cut":
            del damaged[at:]
        elif manner == "insert":
            damaged.insert(at, chance.randrange(256))
        else:
            damaged[at : at + 16] = bytes(len(damaged[at : at + 16]))
        file.write_bytes(damaged)
        try:
            array = oc.open(stored)
            values = array.compute()
        except oc.OutcropError:
            continue
        # Text that means the same, or attributes and names: nothing that elements depend on.
        silent += bytes(damaged) != sound
        assert name == "zarr.json" or bytes(damaged) == sound
        np.testing.assert_array_equal(values, VALUES[: array.shape[0], : array.shape[1]])
        assert array.shape == VALUES.shape
    file.write_bytes(sound)
    np.testing.assert_array_equal(oc.open(stored).compute(), VALUES)


def change(stored: Path, **members: object) -> None:
    meta = json.loads((stored / "zarr.json").read_text())
    (stored / "zarr.json").write_text(json.dumps(meta | members))


def test_magic_version_and_codec_are_three_errors(stored: Path) -> None:
    metadata = (stored / "zarr.json").read_bytes()
    index = (stored / ".outcrop-index").read_bytes()
    messages = []

    (stored / ".outcrop-index").write_bytes(b"NOTOURS!" + index[8:])
    with pytest.raises(oc.CorruptArrayError, match="not a tile index") as caught:
        oc.open(stored)
    messages.append(str(caught.value))
    (stored / ".outcrop-index").write_bytes(index)

    change(stored, zarr_format=4)
    with pytest.raises(oc.UnsupportedError, match=r"zarr_format|version") as newer:
        oc.open(stored)
    messages.append(str(newer.value))
    (stored / "zarr.json").write_bytes(metadata)

    change(stored, codecs=[{"name": "bytes"}, {"name": "crystal", "configuration": {"facets": 7}}])
    with pytest.raises(oc.UnsupportedError, match="crystal") as codec:
        oc.open(stored)
    messages.append(str(codec.value))
    assert all(str(stored) in message for message in messages)
    assert len(set(messages)) == 3


def test_an_index_that_is_missing_or_another_arrays(stored: Path, tmp_path: Path) -> None:
    index = stored / ".outcrop-index"
    other = oc.asarray(VALUES + 1).save(tmp_path / "b.zarr", tile=TILE)
    assert other.path is not None
    shutil.copy(other.path / ".outcrop-index", index)
    with pytest.raises(oc.CorruptArrayError, match="not the one"):
        oc.open(stored)
    index.unlink()
    with pytest.raises(oc.CorruptArrayError, match="missing"):
        oc.open(stored)


@pytest.mark.parametrize(
    "members",
    [
        {"shape": [2**62, 2**62]},
        {"shape": [-1, 40]},
        {"shape": [50]},
        {"shape": [50, 40.5]},
        {"shape": [2**64, 1]},
        {"shape": "many"},
        {"data_type": "float65"},
        {"node_type": "group"},
        {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [0, 16]}}},
        {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2**63, 2**63]}}},
        {"chunk_key_encoding": {"name": "default", "configuration": {"separator": "../"}}},
        {"fill_value": "../.."},
    ],
    ids=str,
)
def test_absurd_metadata_is_refused(stored: Path, members: dict[str, object]) -> None:
    change(stored, **members)
    with pytest.raises(oc.OutcropError, match=r"a\.zarr"):
        oc.open(stored).compute()


@pytest.mark.parametrize(
    "described",
    [
        {"shape": (2**40, 2**30)},
        {"shape": (51, 40)},
        {"shape": (50, 40), "offset": 8},
        {"shape": (50, 40), "offset": 2**63},
        {"shape": (1,), "offset": 16000},
    ],
    ids=str,
)
def test_a_raw_file_that_is_too_short(tmp_path: Path, described: dict[str, object]) -> None:
    VALUES.tofile(tmp_path / "a.raw")
    with pytest.raises(oc.OutcropError):
        oc.open(tmp_path / "a.raw", dtype="float64", **described)  # type: ignore[arg-type]


def test_a_truncated_npy_file(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, VALUES)
    whole = path.read_bytes()
    for length in [0, 3, 6, 8, 11, 60, 127, 128, len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises((oc.CorruptArrayError, oc.UnsupportedError), match=r"a\.npy"):
            oc.open(path)
    path.write_bytes(whole[:6] + b"\x09" + whole[7:])
    with pytest.raises(oc.UnsupportedError, match="version"):
        oc.open(path)


def test_a_file_cut_while_it_is_open(tmp_path: Path) -> None:
    """Never zeros for what is gone."""
    np.save(tmp_path / "a.npy", VALUES)
    array = oc.open(tmp_path / "a.npy")
    os.truncate(tmp_path / "a.npy", 9000)
    with pytest.raises(oc.CorruptArrayError, match=r"a\.npy.*9000 bytes"):
        array.compute()
    np.testing.assert_array_equal(array[:2].compute(), VALUES[:2])
