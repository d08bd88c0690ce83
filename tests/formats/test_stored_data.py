"""Arrays that earlier versions have written are read as they were meant.

They lie in ``tests/data``, a folder for each version, made by ``tests/data/make.py``.
"""

import hashlib
import json
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import outcrop as oc

DATA = Path(__file__).parents[1] / "data"
VERSIONS = sorted(path.name for path in DATA.iterdir() if (path / "SHA256SUMS").exists())

YX: dict[str, Any] = {
    "dimension_names": ("y", "x"),
    "attributes": {"units": "m", "steps": [1, None, "µ"]},
}
RAW: dict[str, Any] = {"shape": (4, 6), "dtype": "int64"}


def halves(shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
    return (np.arange(np.prod(shape, dtype=int)).reshape(shape) / 2).astype(dtype)


def changed() -> NDArray[Any]:
    """What a change that was decided has made of an array."""
    values = halves((6, 7), "f8")
    values[2:5] = -1 - np.arange(21.0).reshape(3, 7)
    return values


TURNED = np.arange(60).reshape(3, 4, 5) * (1 - 0.5j)

EXPECTED: dict[str, tuple[NDArray[Any], dict[str, Any]]] = {
    "f8.zarr": (
        np.concatenate([halves((6, 5), "f8"), np.full((1, 5), -1.5)]),
        {**YX, "fill_value": -1.5, "tile": (3, 2), "zarr_format": 3},
    ),
    "c8.zarr": (
        TURNED.astype("complex64"),
        {"dimension_names": ("t", None, "x"), "attributes": {"k": 1.5}, "tile": (2, 3, 4)},
    ),
    "point.zarr": (np.array(2.5), {"dimension_names": None, "fill_value": 0}),
    "empty.zarr": (np.zeros((0, 4), "int32"), {}),
    "v2-plain.zarr": (halves((7, 10), "int16"), {**YX, "zarr_format": 2, "fill_value": None}),
    "v2-zlib.zarr": (halves((7, 10), "int16"), {**YX, "zarr_format": 2, "tile": (4, 6)}),
    "zstd.zarr": (halves((7, 10), "int16"), {**YX, "zarr_format": 3, "tile": (4, 6)}),
    "sharded.zarr": (halves((7, 10), "int16"), {**YX, "zarr_format": 3, "tile": (4, 6)}),
    "frontiers.zarr": (halves((7, 10), "int16"), {**YX, "thickness": 2, "tile": (4, 6)}),
    "c.npy": (halves((4, 6), "float32"), {"layout": "row-major"}),
    "f.npy": (halves((4, 6), "float32"), {"layout": "column-major"}),
    "c.raw": (halves((4, 6), "int64"), {"layout": "row-major"}),
    "grey.pgm": (halves((4, 6), "uint16"), {"format": "pgm"}),
    "colour.ppm": (halves((4, 6, 3), "uint8"), {"format": "ppm"}),
    "grey.tif": (halves((4, 6), "uint16"), {"format": "tiff"}),
    "chunks.h5": (
        halves((5, 6), "float32"),
        {
            **{"format": "hdf5", "tile": (2, 4), "dimension_names": ("y", "x")},
            "attributes": {"units": "m", "steps": [1, 2, 3]},
        },
    ),
    "decided.zarr": (changed(), {"tile": (2, 3)}),
    "half-done.zarr": (changed(), {"tile": (2, 3)}),
    "undecided.zarr": (halves((6, 7), "f8"), {"tile": (2, 3)}),
}

each_version = pytest.mark.parametrize("version", VERSIONS)
each_array = pytest.mark.parametrize(
    ("version", "name"),
    [
        (version, name)
        for version in VERSIONS
        for name in EXPECTED
        if (DATA / version / name).exists()
    ],
)


def opened(path: Path, mode: str = "r") -> oc.Array:
    for suffix, package in ((".tif", "tifffile"), (".h5", "h5py")):
        if path.suffix == suffix:
            pytest.importorskip(package)
    return oc.open(path, mode, **(RAW if path.suffix == ".raw" else {}))


@pytest.fixture
def copy(version: str, tmp_path: Path) -> Path:
    """A copy: its owner is this user, as that of a change must be to be carried out."""
    return Path(shutil.copytree(DATA / version, tmp_path / "data"))


@pytest.fixture
def state(copy: Path) -> Iterator[None]:
    """Nothing is changed, no time of change either."""

    def found() -> dict[str, tuple[bytes, int, int]]:
        files = [p for p in copy.rglob("*") if p.is_file()]
        return {str(p): (p.read_bytes(), p.stat().st_mtime_ns, p.stat().st_ino) for p in files}

    before, names = found(), sorted(map(str, copy.rglob("*")))
    yield
    assert found() == before
    assert sorted(map(str, copy.rglob("*"))) == names


def test_there_are_arrays() -> None:
    assert "0.1" in VERSIONS
    for version in VERSIONS:
        names = {path.name for path in (DATA / version).iterdir()} - {"SHA256SUMS"}
        # Later versions have more formats.
        assert names <= set(EXPECTED) if version != VERSIONS[-1] else names == set(EXPECTED)
        files = [path for path in (DATA / version).rglob("*") if path.is_file()]
        assert sum(path.stat().st_size for path in files) < 100_000


@each_version
def test_they_are_as_they_were_written(version: str) -> None:
    """Nobody, such as git with its ends of lines, has changed a byte."""
    sums = (DATA / version / "SHA256SUMS").read_text().splitlines()
    listed = dict(line.split("  ")[::-1] for line in sums)
    files = [p for p in (DATA / version).rglob("*") if p.is_file() and p.name != "SHA256SUMS"]
    assert listed == {
        str(path.relative_to(DATA / version)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }


@each_array
def test_reading(copy: Path, state: None, name: str) -> None:
    array, (values, facts) = opened(copy / name), EXPECTED[name]
    assert (array.shape, array.dtype) == (values.shape, values.dtype)
    for fact, expected in facts.items():
        if fact == "zarr_format":
            meta = copy / name / ("zarr.json" if expected == 3 else ".zarray")
            assert json.loads(meta.read_text())["zarr_format"] == expected
        else:
            assert getattr(array, fact) == expected, fact
    np.testing.assert_array_equal(array.compute(), values)
    for key in ((..., slice(1, 3)), (slice(None, None, -2),), (slice(2, 3),))[
        : 3 * bool(values.ndim)
    ]:
        np.testing.assert_array_equal(array[key].compute(), values[key])
    np.testing.assert_array_equal(np.asarray(array.T), values.T)


@each_version
def test_verifying(copy: Path, state: None) -> None:
    names = [str(copy / name) for name in EXPECTED if (copy / name).exists()]
    described = [f"{n}:shape=4x6,dtype=i8" if n.endswith(".raw") else n for n in names]
    command = [sys.executable, "-m", "outcrop", "verify", *described]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == len(names)


@each_array
def test_changing(copy: Path, name: str) -> None:
    """What was decided is carried out, what was not is removed; then comes the new change."""
    expected = EXPECTED[name][0].copy()
    if name.endswith(".h5"):
        # Not where it lies; but another takes its place.
        expected[-1, -1] = 77
        oc.asarray(expected).save(copy / name / "g/heat", overwrite=True)
        np.testing.assert_array_equal(opened(copy / name).compute(), expected)
        return
    with opened(copy / name, "r+") as array:
        if (copy / name).is_dir():
            assert not (copy / name / ".outcrop-update").exists()
        np.testing.assert_array_equal(array.compute(), expected)
        if expected.size:
            last = tuple(n - 1 for n in expected.shape)
            expected[last] = array[last] = 77
    np.testing.assert_array_equal(opened(copy / name).compute(), expected)
    again = opened(copy / name).save(copy / "again.zarr")
    np.testing.assert_array_equal(again.compute(), expected)


# -- by the tables of docs/format.md -----------------------------------------------------------


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@each_version
@pytest.mark.parametrize("name", ["f8.zarr", "c8.zarr", "point.zarr", "empty.zarr", "decided.zarr"])
def test_the_index_and_the_tiles(version: str, name: str) -> None:
    place = DATA / version / name
    meta = json.loads((place / "zarr.json").read_text())
    shape, tile = meta["shape"], meta["chunk_grid"]["configuration"]["chunk_shape"]
    counts = [-(-n // t) for n, t in zip(shape, tile, strict=True)]
    n, d = int(np.prod(counts, dtype=int)), len(shape)
    index = (place / ".outcrop-index").read_bytes()
    assert struct.unpack_from("<8sIIQII", index) == (b"OUTCRIDX", 1, 0, n, d, 0)
    assert struct.unpack_from(f"<{2 * d}Q", index, 32) == (*shape, *tile)
    b = (n + 31) // 32 * 4
    bitmap = index[32 + 16 * d :][:b]
    checksums = struct.unpack_from(f"<{n}I", index, 32 + 16 * d + b)
    (stamp,) = struct.unpack_from("<I", index, 32 + 16 * d + b + 4 * n)
    assert len(index) == 32 + 16 * d + b + 4 * n + 4
    assert stamp == crc32c(index[:-4]) == meta["outcrop"]["index_crc32c"]
    assert meta["outcrop"]["version"] == 1 and meta["outcrop"]["must_understand"] is False
    dtype, fill = np.dtype(meta["data_type"]), meta["fill_value"]
    fill = complex(*fill) if isinstance(fill, list) else fill
    values = np.full([c * t for c, t in zip(counts, tile, strict=True)], fill, dtype)
    for i, coords in enumerate(np.ndindex(*counts)):
        file = place / "/".join(["c", *map(str, coords)])
        is_written = bool(bitmap[i // 8] >> i % 8 & 1)
        assert file.is_file() == is_written
        assert is_written or checksums[i] == 0
        if is_written:
            content, end = file.read_bytes()[:-4], file.read_bytes()[-4:]
            assert struct.unpack("<I", end) == (crc32c(content),) == (checksums[i],)
            key = tuple(slice(c * t, (c + 1) * t) for c, t in zip(coords, tile, strict=True))
            values[key] = np.frombuffer(content, dtype.newbyteorder("<")).reshape(tile)
    if name != "decided.zarr":
        inside = values[tuple(slice(n) for n in shape)]
        np.testing.assert_array_equal(inside, EXPECTED[name][0])
    if name == "f8.zarr":
        # What lies outside the array is the fill value, too.
        assert (values[:, 5:] == -1.5).all()


@each_version
@pytest.mark.parametrize("name", ["decided.zarr", "half-done.zarr"])
def test_the_record(version: str, name: str) -> None:
    update = DATA / version / name / ".outcrop-update"
    record = (update / "commit").read_bytes()
    # Both files of metadata, one run, two axes; six tiles from the fourth on.
    assert struct.unpack_from("<8sIIQII", record) == (b"OUTCRUPD", 1, 3, 1, 2, 0)
    assert struct.unpack_from("<6Q", record, 32) == (6, 7, 2, 3, 3, 6)
    assert record[80:] == struct.pack("<I", crc32c(record[:80]))
    moved = [tile for tile in ("c/1/0", "c/1/1", "c/1/2") if not (update / tile).exists()]
    assert moved == ([] if name == "decided.zarr" else ["c/1/0", "c/1/1", "c/1/2"])


@each_version
@pytest.mark.parametrize("name", ["c.npy", "f.npy"])
def test_the_preamble(version: str, name: str) -> None:
    content = (DATA / version / name).read_bytes()
    magic, major, minor, length = struct.unpack_from("<6sBBH", content)
    assert (magic, major, minor, 10 + length) == (b"\x93NUMPY", 1, 0, 4096)
    header = "'descr': '<f4', 'fortran_order': {}, 'shape': (4, 6), ".format(name == "f.npy")
    assert content[10:4096] == f"{{{header}}}".encode().ljust(length - 1) + b"\n"
    order = "F" if name == "f.npy" else "C"
    assert content[4096:] == EXPECTED[name][0].tobytes(order)  # type: ignore[arg-type]
