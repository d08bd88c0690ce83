"""Tiles with frontiers beside them: their bytes, who reads them, and what is read of them."""

import itertools
import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import outcrop as oc

from .test_stored_data import crc32c

Values = NDArray[Any]

CHANCE = np.random.default_rng(38)
A = CHANCE.random((50, 43))
TILE, THICK = (16, 12), 3


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    path = tmp_path / "a.zarr"
    oc.asarray(A).save(path, tile=TILE, layout="frontier", thickness=THICK)
    return path


def parts(tile: tuple[int, ...], t: int) -> list[tuple[slice, ...]]:
    """The parts of a tile, in the order of its file."""
    every = (slice(None),) * len(tile)
    low = [(*every[:a], slice(0, t), *every[a + 1 :]) for a in range(len(tile))]
    high = [(*every[:a], slice(n - t, n), *every[a + 1 :]) for a, n in enumerate(tile)]
    return [*low, tuple(slice(t, n - t) for n in tile), *high[::-1]]


def written(tile: Values, t: int) -> bytes:
    """A tile's file, by the table of docs/format.md."""
    bodies = [tile[key].tobytes() for key in parts(tile.shape, t)]
    table = b"".join(struct.pack("<I", crc32c(body)) for body in bodies)
    return b"".join(body + table for body in bodies)


def test_the_bytes_of_a_tile(stored: Path) -> None:
    meta = json.loads((stored / "zarr.json").read_text())
    configuration = {"thickness": THICK, "endian": "little"}
    assert meta["codecs"] == [{"name": "outcrop.frontier", "configuration": configuration}]
    padded = np.zeros((64, 48))
    padded[:50, :43] = A
    index = (stored / ".outcrop-index").read_bytes()
    checksums = struct.unpack_from("<16I", index, 32 + 32 + 4)
    for i, (r, c) in enumerate(itertools.product(range(4), range(4))):
        tile = padded[16 * r : 16 * r + 16, 12 * c : 12 * c + 12]
        content = (stored / f"c/{r}/{c}").read_bytes()
        assert content == written(tile, THICK)
        assert len(content) == (16 * 12 + 4 * THICK**2) * 8 + 5 * 20
        assert checksums[i] == crc32c(content[-20:])


@pytest.mark.parametrize(
    ("shape", "tile", "thickness"),
    [((7,), (4,), 2), ((9, 8, 7), (4, 5, 6), 2), ((3, 4, 5, 6), (2, 2, 3, 4), 1), ((), (), 1)],
)
@pytest.mark.parametrize("dtype", ["bool", "int16", "complex128"])
def test_any_number_of_axes(
    tmp_path: Path, shape: Any, tile: Any, thickness: int, dtype: str
) -> None:
    values = (CHANCE.random(shape) * 9).astype(dtype)
    path = tmp_path / "a.zarr"
    oc.asarray(values).save(path, tile=tile, layout="frontier", thickness=thickness)
    array = oc.open(path)
    assert (array.layout, array.thickness, array.tile) == ("frontier", thickness, tile)
    np.testing.assert_array_equal(array.compute(), values)
    first = tuple(slice(0, n) for n in tile)
    inside = tuple(slice(0, min(n, t)) for n, t in zip(shape, tile, strict=True))
    block = np.zeros(tile, dtype)
    block[inside] = values[first]
    name = "/".join(["c", *("0" for _ in tile)])
    assert (path / name).read_bytes() == written(block, thickness)


def read(array: oc.Array, key: Any) -> int:
    """Bytes that reading a box moves, as the kernel's own counter has them, too."""
    with oc.config(memory="64MiB"):
        array[key].compute()
    run = oc.last_run()
    assert run is not None
    return run.bytes_read


def test_a_frontier_is_read_by_itself(tmp_path: Path) -> None:
    values = np.arange(1024.0 * 1024).reshape(1024, 1024)
    path = tmp_path / "a.zarr"
    oc.asarray(values).save(path, tile=512, layout="frontier", thickness=2)
    # Top: 8192 bytes and a table, in three blocks; left begins behind it.
    tile = (512 * 512 + 4 * 2 * 2) * 8 + 100
    interior = 508 * 508 * 8
    for key, most in [
        (np.s_[0:2, 0:512], 3 * 4096),
        (np.s_[511:513, 0:512], 6 * 4096),
        (np.s_[0:1024, 0:1], 2 * 4 * 4096),
        (np.s_[510:512, 500:520], 6 * 4096),
        (np.s_[5, 5], interior + 2 * 4096),
        (np.s_[0:3, 0:512], tile + 4096),
    ]:
        # Of an array that was just opened nothing is in memory.
        array = oc.open(path)
        box = tuple(k if isinstance(k, slice) else slice(k, k + 1) for k in key)
        start, shape = [k.start for k in box], [k.stop - k.start for k in box]
        planned = array._source.store.bytes_to_load(start, shape)  # type: ignore[attr-defined]
        np.testing.assert_array_equal(array[key].compute(), values[key])
        assert 0 < planned <= most
        if key != np.s_[5, 5] and key != np.s_[0:3, 0:512]:
            assert read(oc.open(path), key) == planned


def test_what_is_assigned_is_in_all_frontiers(stored: Path) -> None:
    expected = A.copy()
    with oc.open(stored, "r+") as array:
        for key in [np.s_[3:20, 5:9], np.s_[15], np.s_[:, 11], np.s_[0, 0], np.s_[48:, 40:]]:
            array[key] = expected[key] = CHANCE.random(expected[key].shape)
            # What was written a moment ago is what is read, of a frontier, too.
            np.testing.assert_array_equal(array[15:17, 3:9].compute(), expected[15:17, 3:9])
    np.testing.assert_array_equal(oc.open(stored).compute(), expected)
    assert oc.open(stored)._source.store.verify(False, None) == []  # type: ignore[attr-defined]
    padded = np.zeros((64, 48))
    padded[:50, :43] = expected
    assert (stored / "c/0/0").read_bytes() == written(padded[:16, :12], THICK)
    assert (stored / "c/3/3").read_bytes() == written(padded[48:, 36:], THICK)


def verify(path: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "outcrop", "verify", str(path)], capture_output=True, text=True
    )
    assert done.returncode == (1 if done.stderr else 0)
    return done.stderr.splitlines()


def test_a_corner_that_differs_is_damage(stored: Path) -> None:
    """All checksums are right: a program has written one copy of a corner, and not the other."""
    assert verify(stored) == []
    (stored / ".outcrop-index").unlink()
    meta = json.loads((stored / "zarr.json").read_text())
    del meta["outcrop"]
    (stored / "zarr.json").write_text(json.dumps(meta))
    assert verify(stored) == []
    tile = A[16:32, 12:24]
    bodies = [tile[key].copy() for key in parts(TILE, THICK)]
    bodies[1][0, 0] += 1
    table = b"".join(struct.pack("<I", crc32c(body.tobytes())) for body in bodies)
    (stored / "c/1/1").write_bytes(b"".join(body.tobytes() + table for body in bodies))
    what = "its top frontier and its left frontier differ in the element (0, 0) of the tile"
    assert what in verify(stored)[0]
    with pytest.raises(oc.CorruptArrayError, match="top frontier and its left frontier differ"):
        oc.open(stored).compute()


@pytest.mark.parametrize("part", range(5))
def test_a_frontier_is_checked_by_itself(stored: Path, part: int) -> None:
    """By its own checksum, and by that of the index: an old one is as wrong as a damaged one."""
    keys = [np.s_[16:18, 13:15], np.s_[20:25, 12:14], np.s_[20:22, 16:18]]
    keys += [np.s_[20:25, 22:24], np.s_[30:32, 13:15]]
    file = stored / "c/1/1"
    sound = file.read_bytes()
    at = sum(A[16:32, 12:24][key].nbytes + 20 for key in parts(TILE, THICK)[:part])
    for damaged in range(5):
        other = sum(A[16:32, 12:24][key].nbytes + 20 for key in parts(TILE, THICK)[:damaged])
        file.write_bytes(sound[: other + 9] + b"?" + sound[other + 10 :])
        # Of what is inside, the whole tile is read.
        if damaged != part and part != 2:
            np.testing.assert_array_equal(oc.open(stored)[keys[part]].compute(), A[keys[part]])
            continue
        with pytest.raises(oc.CorruptArrayError, match="was stored with them"):
            oc.open(stored)[keys[part]].compute()
    file.write_bytes(sound)
    with oc.open(stored, "r+") as array:
        array[22, 17] = 7
    # The rest of the tile is of an old state, which its own checksums do not tell.
    new = file.read_bytes()
    assert new[at : at + 8] == sound[at : at + 8] or part == 2
    file.write_bytes(sound)
    with pytest.raises(oc.CorruptArrayError, match="is not the one recorded"):
        oc.open(stored)[keys[part]].compute()


def test_parts_of_different_states_are_damage(stored: Path) -> None:
    (stored / ".outcrop-index").unlink()
    meta = json.loads((stored / "zarr.json").read_text())
    del meta["outcrop"]
    (stored / "zarr.json").write_text(json.dumps(meta))
    file = stored / "c/0/1"
    sound = file.read_bytes()
    with oc.open(stored, "r+") as array:
        array[0, 20] = 7
    end = THICK * 12 * 8 + 20
    file.write_bytes(sound[:end] + file.read_bytes()[end:])
    assert "not of the same state" in verify(stored)[0]


def test_conversion_both_ways(tmp_path: Path, stored: Path) -> None:
    outcrop = [sys.executable, "-m", "outcrop"]

    def run(*arguments: Any) -> str:
        command = [*outcrop, *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    plain, back, npy = tmp_path / "plain.zarr", tmp_path / "back.zarr", tmp_path / "b.npy"
    run("convert", stored, plain, "--codecs", "none")
    run("convert", plain, back, "--codecs", f"frontier:{THICK}")
    run("convert", back, npy)
    # What no option mentions stays as it is.
    run("copy", back, tmp_path / "copy.zarr")
    assert (oc.open(plain).layout, oc.open(back).layout) == ("tiled", "frontier")
    assert oc.open(tmp_path / "copy.zarr").thickness == THICK
    for path in (plain, back, npy, tmp_path / "copy.zarr"):
        np.testing.assert_array_equal(oc.open(path).compute(), A)
    assert (back / "c/2/1").read_bytes() == (stored / "c/2/1").read_bytes()
    told = run("info", stored)
    assert "frontier" in told and "outcrop.frontier(thickness 3)" in told and "16 x 12" in told


@pytest.mark.parametrize("turn", [lambda a: a.T, lambda a: a[::-1], lambda a: a[3:20, 5:], None])
def test_copies_and_results_move_what_is_planned(tmp_path: Path, stored: Path, turn: Any) -> None:
    given = oc.open(stored)
    x, expected = (turn(given), turn(A)) if turn else (given * 2 + 1, A * 2 + 1)
    for options in ({"layout": "frontier", "thickness": 2}, {}):
        to = tmp_path / "out.zarr"
        with oc.config(memory="2MiB", scratch=tmp_path):
            plan = oc.plan(x, to, tile=8, **options)
            made = x.save(to, tile=8, overwrite=True, **options)
        run = oc.last_run()
        assert run is not None and plan.is_exact
        assert (run.bytes_read, run.bytes_written) == (plan.bytes_read, plan.bytes_written)
        np.testing.assert_array_equal(made.compute(), expected)
        assert made._source.store.verify(False, None) == []  # type: ignore[attr-defined]


def test_tiles_that_nobody_asks_for_have_room_for_frontiers(tmp_path: Path) -> None:
    made = oc.asarray(A[:1]).save(tmp_path / "a.zarr", layout="frontier", thickness=4)
    assert made.tile[0] == 8
    made = (oc.asarray(A[:1]) + 1).save(tmp_path / "b.zarr", layout="frontier", thickness=4)
    assert made.tile[0] == 8
    np.testing.assert_array_equal(made.compute(), A[:1] + 1)


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"layout": "frontier", "thickness": 5, "tile": 8}, oc.InvalidArgumentError, "do not fit"),
        ({"layout": "frontier", "thickness": 0}, oc.InvalidArgumentError, "at least 1"),
        ({"layout": "frontier", "thickness": 1.5}, oc.InvalidTypeError, "thickness"),
        ({"layout": "frontier", "thickness": True}, oc.InvalidTypeError, "thickness"),
        ({"layout": "rows"}, oc.InvalidArgumentError, "layout must be"),
        ({"thickness": 1}, oc.InvalidArgumentError, "layout='frontier'"),
        ({"layout": "frontier", "codecs": "zstd"}, oc.InvalidArgumentError, "no codecs="),
        ({"layout": "frontier", "zarr_format": 2}, oc.InvalidArgumentError, "version 3"),
        ({"layout": "frontier", "format": "npy"}, oc.InvalidArgumentError, "Zarr"),
        ({"codecs": "frontier:x"}, oc.InvalidArgumentError, "thick"),
        (
            {"codecs": [{"name": "outcrop.frontier", "configuration": {"thickness": 1}}]},
            oc.InvalidArgumentError,
            "endian",
        ),
    ],
)
def test_what_there_is_not(
    tmp_path: Path, options: dict[str, Any], error: type[Exception], match: str
) -> None:
    path = tmp_path / "a"
    for make in (
        lambda: oc.create(path, (20, 20), **options),
        lambda: oc.asarray(A).save(path, **options),
        lambda: oc.plan(oc.asarray(A) + 1, path, **options),
    ):
        with pytest.raises(error, match=match):
            make()
    assert list(tmp_path.iterdir()) == []


def test_the_codec_stands_alone(stored: Path) -> None:
    meta = json.loads((stored / "zarr.json").read_text())
    for codecs, match in (
        ([*meta["codecs"], {"name": "crc32c"}], "together with others"),
        (
            [{"name": "outcrop.frontier", "configuration": {"thickness": 1, "endian": "big"}}],
            "big-endian",
        ),
    ):
        (stored / "zarr.json").write_text(json.dumps(meta | {"codecs": codecs}))
        with pytest.raises(oc.UnsupportedError, match=match):
            oc.open(stored)


class TestZarrPython:
    """Zarr-Python reads and writes the same bytes, by a codec that it finds by itself."""

    @pytest.fixture(autouse=True)
    def codec(self) -> Any:
        zarr = pytest.importorskip("zarr")
        from outcrop.interop.zarr_codec import FrontierCodec

        zarr.registry.register_codec("outcrop.frontier", FrontierCodec)
        return FrontierCodec

    @pytest.mark.parametrize("dtype", ["bool", "uint8", "float32", "complex128"])
    def test_both_ways(self, tmp_path: Path, codec: Any, dtype: str) -> None:
        import zarr

        values = (A * 9).astype(dtype)
        oc.asarray(values).save(tmp_path / "o.zarr", tile=TILE, layout="frontier", thickness=THICK)
        about: Any = {"shape": values.shape, "chunks": TILE, "dtype": dtype, "compressors": None}
        theirs = zarr.create_array(tmp_path / "z.zarr", serializer=codec(thickness=THICK), **about)
        theirs[...] = values
        for r, c in itertools.product(range(4), range(4)):
            ours = (tmp_path / f"o.zarr/c/{r}/{c}").read_bytes()
            assert (tmp_path / f"z.zarr/c/{r}/{c}").read_bytes() == ours
        with oc.open(tmp_path / "z.zarr", "r+") as array:
            assert array.thickness == THICK
            array[10:20, 3] = values[10:20, 3] = 1
        found = zarr.open_array(tmp_path / "z.zarr", mode="r+")
        for key in [np.s_[...], np.s_[0:3, :], np.s_[:, 11], np.s_[::2, ::3], np.s_[4, 7]]:
            np.testing.assert_array_equal(found[key], values[key])
        found[5:9, 10:14] = values[5:9, 10:14] = 0
        np.testing.assert_array_equal(oc.open(tmp_path / "z.zarr").compute(), values)

    def test_a_frontier_is_read_by_itself(
        self, stored: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import zarr

        asked: list[Any] = []
        plain = zarr.storage.LocalStore.get

        async def get(self: Any, key: str, prototype: Any, byte_range: Any = None) -> Any:
            asked.append((key, byte_range))
            return await plain(self, key, prototype, byte_range)

        found = zarr.open_array(stored, mode="r")
        monkeypatch.setattr(zarr.storage.LocalStore, "get", get)
        np.testing.assert_array_equal(found[16:18, 0:12], A[16:18, 0:12])
        ((key, byte_range),) = asked
        assert key.endswith("c/1/0")
        assert (byte_range.start, byte_range.end) == (0, THICK * 12 * 8 + 20)

    def test_damage_is_an_error(self, stored: Path) -> None:
        import zarr

        file = stored / "c/0/0"
        content = file.read_bytes()
        found = zarr.open_array(stored, mode="r")
        for what in (content[:-1], b"?" + content[1:]):
            file.write_bytes(what)
            with pytest.raises(oc.CorruptArrayError):
                found[0:16, 0:12]
        for part, message in ((1, "another state"), (None, "differ")):
            bodies = [A[:16, :12][key].copy() for key in parts(TILE, THICK)]
            bodies[4][0, 0] += part is None or 1
            table = b"".join(struct.pack("<I", crc32c(body.tobytes())) for body in bodies)
            mixed = b"".join(body.tobytes() + table for body in bodies)
            end = THICK * 12 * 8 + 20
            file.write_bytes(mixed if part is None else content[:end] + mixed[end:])
            with pytest.raises(oc.CorruptArrayError, match=message):
                found[...]

    def test_it_is_found_by_the_entry_point(self, stored: Path, tmp_path: Path) -> None:
        """As an installed package has it: the text is that of pyproject.toml."""
        import tomllib

        project = Path(__file__).parents[2] / "pyproject.toml"
        points = tomllib.loads(project.read_text())["project"]["entry-points"]["zarr.codecs"]
        made = tmp_path / "outcrop_codec-1.dist-info"
        made.mkdir()
        (made / "METADATA").write_text("Metadata-Version: 2.1\nName: outcrop-codec\nVersion: 1\n")
        lines = [f"{name} = {value}" for name, value in points.items()]
        (made / "entry_points.txt").write_text("\n".join(["[zarr.codecs]", *lines]) + "\n")
        code = f"import zarr; print(zarr.open_array({str(stored)!r}, mode='r')[0, 0])"
        path = [str(tmp_path), str(Path(oc.__file__).parents[1])]
        command = [sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}; {code}"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        assert float(done.stdout) == A[0, 0]
