"""Zarr arrays in zip archives, against Zarr-Python's own reading."""

import json
import os
import shutil
import struct
import subprocess
import sys
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import outcrop as oc

zarr = pytest.importorskip("zarr")

SHAPE = (300, 500)
CHUNK = (64, 96)

DTYPES = [
    *("bool", "uint8", "int8", "<u2", ">u2", "<i4", ">i4", "<i8", ">i8", "<u8", "<f4", ">f4"),
    *("<f8", ">f8", "<c8", ">c8", "<c16", ">c16"),
]

IN_PLACE: dict[str, dict[str, Any]] = {
    "plain": {"compressors": None},
    "crc32c": {"compressors": zarr.codecs.Crc32cCodec()},
    "2": {"compressors": None, "zarr_format": 2},
    "2 slashes": {
        "compressors": None,
        "zarr_format": 2,
        "chunk_key_encoding": {"name": "v2", "separator": "/"},
    },
    "keys of 2": {
        "compressors": None,
        "chunk_key_encoding": {"name": "v2", "separator": "."},
    },
}

BY_ZARR: dict[str, dict[str, Any]] = {
    "zstd": {},
    "gzip": {"compressors": zarr.codecs.GzipCodec()},
    "shards": {"shards": (128, 192), "compressors": None},
    "2 zstd": {"zarr_format": 2},
    "2 F": {"zarr_format": 2, "order": "F", "compressors": None},
}


def elements(dtype: str = "<f8", shape: tuple[int, ...] = SHAPE) -> NDArray[Any]:
    kind = np.dtype(dtype)
    bits = np.random.default_rng(3).integers(1, 100, shape)
    if kind.kind == "b":
        return bits % 2 == 0
    return (bits + (1j * bits[::-1] if kind.kind == "c" else 0)).astype(kind)


def made(path: Path, given: NDArray[Any], name: str = "", **options: Any) -> Path:
    """As Zarr-Python writes it."""
    store = zarr.storage.ZipStore(path, mode="w")
    about = {"shape": given.shape, "dtype": given.dtype, "chunks": CHUNK, **options}
    if about["chunks"] is not None:
        about["chunks"] = about["chunks"][: given.ndim]
    zarr.create_array(store, name=name or None, **about)[...] = given
    store.close()
    return path / name if name else path


def packed(path: Path, folder: Path, method: int = zipfile.ZIP_STORED) -> Path:
    """As zip packs a directory."""
    with zipfile.ZipFile(path, "w", method) as file:
        for found in sorted(folder.rglob("*")):
            file.write(found, found.relative_to(folder))
    return path


@pytest.fixture(autouse=True)
def _small() -> Iterator[None]:
    with oc.config(memory="8MiB"):
        yield


# -- elements --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("way", IN_PLACE)
def test_chunks_without_codecs_are_read_where_they_lie(
    tmp_path: Path, way: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = elements(dtype)
    place = made(tmp_path / "a.zarr.zip", given, **IN_PLACE[way])
    # Nothing of it goes through Zarr-Python.
    monkeypatch.setitem(sys.modules, "zarr", None)
    A = oc.open(place)
    assert (A.format, A.shape, A.path) == ("zip", SHAPE, place)
    assert A.dtype == given.dtype.newbyteorder("=") and A.tile == CHUNK
    np.testing.assert_array_equal(A.compute(), given)
    np.testing.assert_array_equal(A[250:20:-3, 60:70].compute(), given[250:20:-3, 60:70])
    assert A[7, 499].compute() == given[7, 499]


@pytest.mark.parametrize("dtype", ["bool", "uint8", ">i4", "<f4", ">f8", "<c16"])
@pytest.mark.parametrize("way", BY_ZARR)
def test_zarr_python_decodes_the_others(tmp_path: Path, way: str, dtype: str) -> None:
    given = elements(dtype)
    A = oc.open(made(tmp_path / "a.zip", given, "g/x", **BY_ZARR[way]))
    assert (A.format, A.shape, A.layout) == ("zip", SHAPE, "tiled")
    np.testing.assert_array_equal(A.compute(), given)
    np.testing.assert_array_equal(A.T[60:70, ::-7].compute(), given.T[60:70, ::-7])
    np.testing.assert_array_equal((A[:] == A).all().compute(), True)


@pytest.mark.parametrize("memory", ["4MiB", "8MiB", "32MiB"])
@pytest.mark.parametrize("way", ["plain", "crc32c", "2", "zstd", "shards"])
def test_what_is_planned_is_read(tmp_path: Path, way: str, memory: str) -> None:
    given = elements(">f8", (1500, 1100))
    A = oc.open(made(tmp_path / "a.zip", given, **{**IN_PLACE, **BY_ZARR}[way]))
    with oc.config(memory=memory):
        for result, wanted in [
            (A + 1, given + 1),
            (A.T * 2, given.T * 2),
            (A.sum(axis=0), given.sum(axis=0)),
            (A.T, given.T),
        ]:
            plan = oc.plan(result, tmp_path / "r.npy")
            result.save(tmp_path / "r.npy", overwrite=True)
            assert oc.last_run().bytes_read == plan.bytes_read >= given.nbytes
            np.testing.assert_allclose(np.load(tmp_path / "r.npy"), wanted, rtol=1e-14)


COUNTING = """
import json, sys
import outcrop as oc

def counted():
    lines = open("/proc/self/io").read().split("\\n")
    return int(dict(line.split(": ") for line in lines if line)["read_bytes"])

oc.config(memory="8MiB", threads=2)
result = oc.open("a.zip") + 1
plan = oc.plan(result, "out.zarr")
before = counted()
result.save("out.zarr")
print(json.dumps([counted() - before, plan.bytes_read, oc.last_run().bytes_read]))
"""


def test_the_kernel_counts_the_same(tmp_path: Path) -> None:
    given = elements("<f8", (1024, 1024))
    made(tmp_path / "a.zip", given, compressors=None, chunks=(256, 256))
    with (tmp_path / "a.zip").open("rb+") as file:
        # Else what is read would still be on its way to the disk.
        os.fsync(file.fileno())
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", COUNTING],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    counted, planned, reported = json.loads(ended.stdout)
    with oc.config(memory="64MiB"):
        np.testing.assert_array_equal(oc.open(tmp_path / "out.zarr").compute(), given + 1)
    # Blocks of the disk in which chunks begin and end.
    assert given.nbytes <= planned == reported <= 1.05 * given.nbytes
    if counted == 0:
        pytest.skip("the kernel counts nothing on this file system")
    # Metadata of the file system, and modules that are imported late.
    assert planned <= counted <= planned + (4 << 20)


def test_odd_shapes(tmp_path: Path) -> None:
    for version in (2, 3):
        for number, wanted in enumerate(
            [
                np.array(3.5),
                np.zeros((0, 7), "f4"),
                np.arange(1000, dtype="i2"),
                np.arange(720.0).reshape(2, 3, 4, 5, 6),
            ]
        ):
            chunks = tuple(max(1, min(n, 4)) for n in wanted.shape)
            options: dict[str, Any] = {"chunks": chunks, "compressors": None}
            name = f"{version}-{number}.zip"
            place = made(tmp_path / name, wanted, zarr_format=version, **options)
            found = oc.open(place).compute()
            np.testing.assert_array_equal(found, wanted)
            assert found.dtype == wanted.dtype and found.shape == wanted.shape


@pytest.mark.parametrize("fill", [0, 7])
@pytest.mark.parametrize("way", ["plain", "2", "zstd", "shards"])
def test_chunks_that_are_missing_have_the_fill_value(tmp_path: Path, way: str, fill: int) -> None:
    options = {**IN_PLACE, **BY_ZARR}[way]
    store = zarr.storage.ZipStore(tmp_path / "a.zip", mode="w")
    array = zarr.create_array(
        store, shape=SHAPE, dtype="<i4", chunks=CHUNK, fill_value=fill, **options
    )
    array[100:150, 200:333] = 5
    wanted = array[...]
    store.close()
    A = oc.open(tmp_path / "a.zip")
    np.testing.assert_array_equal(A.compute(), wanted)
    assert A.fill_value == fill and A.fill_value.dtype == A.dtype


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    ("dtype", "fill"),
    [("f8", "nan"), ("f4", "-inf"), ("c16", 1 - 2j), ("bool", True), ("u8", 2**64 - 1)],
)
def test_fill_values_are_what_zarr_python_writes(
    tmp_path: Path, version: int, dtype: str, fill: Any
) -> None:
    value = np.dtype(dtype).type(fill)
    store = zarr.storage.ZipStore(tmp_path / "a.zip", mode="w")
    zarr.create_array(
        store, shape=(4,), dtype=dtype, chunks=(2,), fill_value=value, zarr_format=version
    )
    store.close()
    A = oc.open(tmp_path / "a.zip")
    np.testing.assert_array_equal(A.fill_value, value)
    np.testing.assert_array_equal(A.compute(), np.full(4, value))


def test_directories_that_were_packed(tmp_path: Path) -> None:
    """Ours and others', with a folder around them, and compressed by zip besides."""
    given = elements("<f8")
    (tmp_path / "d").mkdir()
    oc.asarray(given).save(tmp_path / "d/a.zarr", tile=(70, 80))
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        path = packed(tmp_path / f"{method}.zip", tmp_path / "d", method)
        A = oc.open(path)
        assert A.path == path / "a.zarr"
        np.testing.assert_array_equal(A.compute(), given)
        np.testing.assert_array_equal((A + 1).compute(), given + 1)
    # Zip that compresses what is to be read in parts.
    made(tmp_path / "s.zip", given, **BY_ZARR["shards"])
    with zipfile.ZipFile(tmp_path / "s.zip") as file:
        file.extractall(tmp_path / "s")
    path = packed(tmp_path / "t.zip", tmp_path / "s", zipfile.ZIP_DEFLATED)
    with pytest.raises(oc.UnsupportedError, match=r"zip has compressed.*zip -0"):
        oc.open(path)[3, 4].compute()


def test_of_two_entries_of_a_name_the_last_counts(tmp_path: Path) -> None:
    given = elements("<f8")
    for way in ("plain", "zstd"):
        store = zarr.storage.ZipStore(tmp_path / f"{way}.zip", mode="w")
        options = {**IN_PLACE, **BY_ZARR}[way]
        array = zarr.create_array(store, shape=SHAPE, dtype="f8", chunks=CHUNK, **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            array[...] = given
            array[10:100, :] = 3
            store.close()
        wanted = given.copy()
        wanted[10:100, :] = 3
        np.testing.assert_array_equal(oc.open(tmp_path / f"{way}.zip").compute(), wanted)


def test_everything_that_takes_arrays_takes_them(tmp_path: Path) -> None:
    given = elements("<f8", (400, 300))
    for way in ("plain", "zstd"):
        place = made(tmp_path / f"{way}.zip", given, "x", **{**IN_PLACE, **BY_ZARR}[way])
        A = oc.open(place)
        np.testing.assert_allclose((A.T @ A).compute(), given.T @ given)
        oc.transpose(place, tmp_path / "t.npy", overwrite=True)
        np.testing.assert_array_equal(np.load(tmp_path / "t.npy"), given.T)
        np.testing.assert_array_equal(A[A[:, 0] > 50].compute(), given[given[:, 0] > 50])
        saved = A.save(tmp_path / "s.zarr", overwrite=True)
        assert saved.format == "zarr" and (saved == A).all().compute()


# -- archives of other programs --------------------------------------------------------------------


class _OneWay:
    """A file that cannot be sought in: zipfile says sizes and checksums behind the bytes then."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, data: bytes) -> int:
        return int(self._file.write(data))

    def flush(self) -> None:
        self._file.flush()


def unpacked(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def test_sizes_that_stand_behind_the_bytes(tmp_path: Path) -> None:
    given = elements("<f8")
    for way in ("plain", "zstd"):
        entries = unpacked(made(tmp_path / "a.zip", given, **{**IN_PLACE, **BY_ZARR}[way]))
        with (
            (tmp_path / "b.zip").open("wb") as target,
            zipfile.ZipFile(_OneWay(target), "w") as file,  # type: ignore[arg-type]
        ):
            for name, content in entries.items():
                file.writestr(name, content)
        with zipfile.ZipFile(tmp_path / "b.zip") as file:
            assert all(info.flag_bits & 8 for info in file.infolist())
        np.testing.assert_array_equal(oc.open(tmp_path / "b.zip").compute(), given)


def test_archives_with_large_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of more than 4 GiB: all numbers stand in extra fields, and in an end of their own."""
    given = elements("<f8")
    entries = unpacked(made(tmp_path / "a.zip", given, compressors=None))
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 1000)
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as file:
        for name, content in entries.items():
            file.writestr(name, content)
        file.comment = b"PK\x05\x06 in a remark"
    monkeypatch.undo()
    assert b"PK\x06\x06" in (tmp_path / "b.zip").read_bytes()
    np.testing.assert_array_equal(oc.open(tmp_path / "b.zip").compute(), given)


def test_holes_of_more_than_4_gib(tmp_path: Path) -> None:
    """A file that takes no room: what lies beyond 4 GiB is where large numbers say."""
    entries = unpacked(made(tmp_path / "a.zip", np.arange(10), chunks=(5,), compressors=None))
    with (tmp_path / "b.zip").open("wb") as target:
        target.write(b"PK\x03\x04")
        target.seek(5 << 30)
        with zipfile.ZipFile(target, "w", allowZip64=True) as file:
            for name, content in entries.items():
                file.writestr(name, content)
    with zipfile.ZipFile(tmp_path / "b.zip") as file:
        assert min(info.header_offset for info in file.infolist()) >= 5 << 30
    np.testing.assert_array_equal(oc.open(tmp_path / "b.zip").compute(), np.arange(10))


def with_entry(path: Path, find: bytes, change: Callable[[bytearray, int, int], None]) -> Path:
    """Change an entry: where its header begins, and what the directory has of it."""
    data = bytearray(path.read_bytes())
    header = data.find(find) - 30
    listed = data.rfind(find) - 46
    assert data[header : header + 4] == b"PK\x03\x04" and data[listed : listed + 4] == b"PK\x01\x02"
    change(data, header, listed)
    path.write_bytes(data)
    return path


def test_encrypted_entries(tmp_path: Path) -> None:
    def encrypt(data: bytearray, header: int, listed: int) -> None:
        data[header + 6] |= 1
        data[listed + 8] |= 1

    for way in ("plain", "zstd"):
        for entry in (b"c/1/1", b"zarr.json"):
            made(tmp_path / "a.zip", elements(), **{**IN_PLACE, **BY_ZARR}[way])
            with pytest.raises(oc.UnsupportedError, match=f"{entry.decode()}.*encrypted"):
                oc.open(with_entry(tmp_path / "a.zip", entry, encrypt)).compute()


def test_other_methods_of_zip(tmp_path: Path) -> None:
    made(tmp_path / "a.zip", elements(), compressors=None)
    with zipfile.ZipFile(tmp_path / "a.zip") as file:
        file.extractall(tmp_path / "d")
    packed(tmp_path / "b.zip", tmp_path / "d", zipfile.ZIP_BZIP2)
    with pytest.raises(oc.UnsupportedError, match=r"compressed by zip, with bzip2; .*zip -0"):
        oc.open(tmp_path / "b.zip")


@pytest.mark.parametrize(
    "change",
    [
        lambda data, header, listed: data.__setitem__(header + 30, ord("d")),
        lambda data, header, listed: data.__setitem__(listed + 46, ord("d")),
        lambda data, header, listed: data.__setitem__(header + 14, data[header + 14] ^ 1),
        lambda data, header, listed: data.__setitem__(listed + 16, data[listed + 16] ^ 1),
        lambda data, header, listed: data.__setitem__(header + 18, data[header + 18] ^ 1),
        lambda data, header, listed: data.__setitem__(header + 28, 4),
        lambda data, header, listed: data.__setitem__(header + 8, 8),
        lambda data, header, listed: data.__setitem__(header, 0),
        lambda data, header, listed: data.__setitem__(listed + 42, data[listed + 42] ^ 1),
    ],
    ids=["name", "listed name", "sum", "listed sum", "size", "extra", "method", "mark", "place"],
)
@pytest.mark.parametrize("way", ["plain", "zstd"])
def test_headers_that_contradict_the_directory(tmp_path: Path, way: str, change: Any) -> None:
    """A chunk of the wrong name in the directory was missing, and so had the fill value."""
    made(tmp_path / "a.zip", elements(), **{**IN_PLACE, **BY_ZARR}[way])
    with pytest.raises(oc.CorruptArrayError, match="no sound zip archive"):
        oc.open(with_entry(tmp_path / "a.zip", b"c/1/1", change)).compute()


def end_of(data: bytearray) -> int:
    return len(data) - 22


def test_entries_that_lie_over_one_another(tmp_path: Path) -> None:
    """Two chunks in one place: a file of a few kilobytes would hold any number of them."""
    made(tmp_path / "a.zip", elements(), compressors=None)
    data = bytearray((tmp_path / "a.zip").read_bytes())
    first, second = data.rfind(b"c/0/1") - 46, data.rfind(b"c/0/2") - 46
    data[second + 42 : second + 46] = data[first + 42 : first + 46]
    (tmp_path / "a.zip").write_bytes(data)
    with pytest.raises(oc.CorruptArrayError, match="lie over one another"):
        oc.open(tmp_path / "a.zip")


@pytest.mark.parametrize(
    ("at", "what", "match"),
    [
        (8, struct.pack("<2H", 3, 3), "goes on after its 3 entries"),
        (8, struct.pack("<2H", 60000, 60000), "do not fit"),
        (8, struct.pack("<2H", 3, 4), "one of several files"),
        (12, struct.pack("<L", 1 << 31), "does not end where"),
        (16, struct.pack("<L", 0), "does not end where"),
        (4, struct.pack("<H", 1), "one of several files"),
        (0, b"PK\x05\x05", "no directory at its end"),
        (20, b"\x01", "no directory at its end"),
    ],
)
def test_ends_that_make_no_sense(tmp_path: Path, at: int, what: bytes, match: str) -> None:
    made(tmp_path / "a.zip", elements(), compressors=None)
    data = bytearray((tmp_path / "a.zip").read_bytes())
    data[end_of(data) + at : end_of(data) + at + len(what)] = what
    (tmp_path / "a.zip").write_bytes(data)
    with pytest.raises((oc.CorruptArrayError, oc.UnsupportedError), match=match):
        oc.open(tmp_path / "a.zip")


def test_claims_take_no_memory(tmp_path: Path) -> None:
    """Of a directory of gigabytes, in a file that takes no room, nothing is read."""
    path = tmp_path / "a.zip"
    for length, count in ((8 << 30, 1), (8 << 30, (8 << 30) // 46), (64 << 20, 1 << 40)):
        far = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, length, 4)
        pointer = struct.pack("<4sLQL", b"PK\x06\x07", 0, 4 + length, 1)
        end = struct.pack("<4s4H2LH", b"PK\x05\x06", *(0xFFFF,) * 4, *(0xFFFFFFFF,) * 2, 0)
        with path.open("wb") as file:
            file.write(b"PK\x03\x04")
            file.seek(4 + length)
            file.write(far + pointer + end)
        tracemalloc.start()
        try:
            with pytest.raises((oc.UnsupportedError, oc.CorruptArrayError)):
                oc.open(path)
            assert tracemalloc.get_traced_memory()[1] < 4 << 20
        finally:
            tracemalloc.stop()


def test_metadata_that_are_bombs(tmp_path: Path) -> None:
    """Ten megabytes of blanks in a few kilobytes, told as they are, and told as a few bytes."""
    made(tmp_path / "a.zip", elements(), compressors=None)
    text = unpacked(tmp_path / "a.zip")["zarr.json"]
    for claimed in (None, 100):
        with zipfile.ZipFile(tmp_path / "b.zip", "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("zarr.json", text + b" " * (80 << 20))
        if claimed is not None:

            def claim(data: bytearray, header: int, listed: int) -> None:
                data[header + 22 : header + 26] = struct.pack("<L", 100)
                data[listed + 24 : listed + 28] = struct.pack("<L", 100)

            with_entry(tmp_path / "b.zip", b"zarr.json", claim)
        tracemalloc.start()
        try:
            with pytest.raises(oc.CorruptArrayError, match=r"zarr\.json"):
                oc.open(tmp_path / "b.zip")
            assert tracemalloc.get_traced_memory()[1] < 4 << 20
        finally:
            tracemalloc.stop()


def test_names_lead_nowhere_else(tmp_path: Path) -> None:
    given = elements("<f8")
    entries = unpacked(made(tmp_path / "a.zip", given, compressors=None))
    oc.asarray(given * 2).save(tmp_path / "secret")
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as file:
        for front in ("../secret/", "/secret/", "x/../../secret/", "./", "x//"):
            for name, content in entries.items():
                file.writestr(front + name, content)
        for name, content in entries.items():
            file.writestr(f"y/{name}", content)
    A = oc.open(tmp_path / "b.zip")
    assert A.path == tmp_path / "b.zip" / "y"
    np.testing.assert_array_equal(A.compute(), given)
    for name in ("../secret", "x/../../secret", "y/../../secret", "secret"):
        with pytest.raises(oc.ArrayNotFoundError):
            oc.open(f"{tmp_path}/b.zip/{name}")


# -- damage ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Small ones of every way, whose elements are all different."""
    place = tmp_path_factory.mktemp("archives")
    given = np.arange(1, 61).reshape(6, 10)
    found = {}
    for way, options in {**IN_PLACE, **BY_ZARR}.items():
        options = {**options, "chunks": (2, 5)}
        if "shards" in options:
            options["shards"] = (4, 5)
        found[way] = made(place / "a.zip", given, "x", **options).parent.read_bytes()
    with zipfile.ZipFile(place / "b.zip", "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in unpacked(place / "a.zip").items():
            file.writestr(name, content)
    return {**found, "deflated": (place / "b.zip").read_bytes()}


@settings(
    max_examples=300,
    deadline=None,
    database=None,
    print_blob=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def test_damage_is_an_error_or_is_found(
    archives: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Never a crash; and where elements are other ones, the checksums of zip tell of it."""
    way = data.draw(st.sampled_from(sorted(archives)))
    damaged = bytearray(archives[way])
    for _ in range(data.draw(st.integers(1, 3))):
        # Half of it where it hurts: in the directory.
        begin = data.draw(st.sampled_from([0, damaged.find(b"PK\x01\x02"), len(damaged) - 22]))
        at = data.draw(st.integers(min(max(begin, 0), len(damaged) - 1), len(damaged) - 1))
        kind = data.draw(st.sampled_from(["bit", "byte", "cut", "leave out", "twice"]))
        if kind == "bit":
            damaged[at] ^= 1 << data.draw(st.integers(0, 7))
        elif kind == "byte":
            damaged[at] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
        elif kind == "cut" and at > 0:
            del damaged[at:]
        elif kind == "leave out":
            del damaged[at : at + data.draw(st.integers(1, 60))]
        elif kind == "twice":
            damaged[at:at] = damaged[at : at + data.draw(st.integers(1, 60))]
        if not damaged:
            return
    path = tmp_path_factory.getbasetemp() / "damaged.zip"
    path.write_bytes(damaged)
    try:
        A = oc.open(path / "x")
        found = A.compute()
    except oc.OutcropError:
        return
    if found.shape != (6, 10) or not np.array_equal(found, np.arange(1, 61).reshape(6, 10)):
        assert A._source.verify(False, None) != []  # type: ignore[attr-defined]


@pytest.mark.parametrize("way", ["plain", "crc32c", "2", "zstd", "shards"])
def test_verify_names_a_damaged_chunk(tmp_path: Path, way: str) -> None:
    place = made(tmp_path / "a.zip", elements(), "x", **{**IN_PLACE, **BY_ZARR}[way])
    command = [sys.executable, "-m", "outcrop", "verify", str(place)]
    sound = subprocess.run(command, capture_output=True, text=True, check=False)
    assert sound.returncode == 0 and "sound" in sound.stdout, sound.stderr
    data = bytearray((tmp_path / "a.zip").read_bytes())
    with zipfile.ZipFile(tmp_path / "a.zip") as file:
        info = max(file.infolist(), key=lambda info: info.file_size)
    data[info.header_offset + 30 + len(info.filename) + info.file_size // 2] ^= 4
    (tmp_path / "a.zip").write_bytes(data)
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1 and f"{info.filename!r} is damaged" in ended.stderr
    assert "CRC-32" in ended.stderr and ended.stderr.count("no sound zip") == 0


@pytest.mark.parametrize("way", ["zstd", "gzip", "2 zstd"])
def test_a_damaged_chunk_is_an_error_where_it_is_decoded(tmp_path: Path, way: str) -> None:
    given = elements()
    made(tmp_path / "a.zip", given, **BY_ZARR[way])
    data = bytearray((tmp_path / "a.zip").read_bytes())
    with zipfile.ZipFile(tmp_path / "a.zip") as file:
        (info,) = [one for one in file.infolist() if one.filename in ("c/1/1", "1.1")]
    data[info.header_offset + 30 + len(info.filename) + info.file_size // 2] ^= 4
    (tmp_path / "a.zip").write_bytes(data)
    A = oc.open(tmp_path / "a.zip")
    for read in (A.compute, (A + 1).compute, A.sum().compute):
        with pytest.raises(oc.CorruptArrayError, match=r"1.1.*damaged.*CRC-32"):
            read()


def test_a_change_that_was_packed_halfway(tmp_path: Path) -> None:
    oc.asarray(elements()).save(tmp_path / "a.zarr")
    (tmp_path / "a.zarr/.outcrop-update").mkdir()
    (tmp_path / "a.zarr/.outcrop-update/commit").write_bytes(b"")
    with pytest.raises(oc.UnsupportedError, match="a change of it was not complete"):
        oc.open(packed(tmp_path / "a.zip", tmp_path / "a.zarr"))


SENSELESS: dict[int, list[tuple[str, Any]]] = {
    3: [
        ("data_type", "float16"),
        ("data_type", "object"),
        ("chunk_grid", {"name": "regular", "configuration": {"chunk_shape": [2]}}),
        ("chunk_grid", {"name": "rectangular"}),
        ("codecs", []),
        ("codecs", [{"name": "none of them"}]),
        ("dimension_names", ["a"]),
        ("storage_transformers", [{"name": "none of them"}]),
        ("unknown", {"must_understand": True}),
        ("outcrop", {"version": 7}),
        ("attributes", 3),
    ],
    2: [
        ("dtype", "|O"),
        ("dtype", [["a", "<f8"]]),
        ("chunks", [0, 4]),
        ("compressor", {"id": "none of them"}),
        ("compressor", "zstd"),
        ("filters", 3),
        ("order", "K"),
    ],
}

SENSELESS_IN_BOTH: list[tuple[str, Any]] = [
    ("zarr_format", 9),
    ("zarr_format", "3"),
    ("shape", [3, -1]),
    ("shape", [2**62, 2**62]),
    ("shape", "3"),
    ("fill_value", "?"),
    ("fill_value", [1]),
]


@pytest.mark.parametrize(
    ("version", "member", "value"),
    [(v, *one) for v, some in SENSELESS.items() for one in (*some, *SENSELESS_IN_BOTH)],
)
def test_metadata_that_make_no_sense(tmp_path: Path, version: int, member: str, value: Any) -> None:
    entries = unpacked(made(tmp_path / "a.zip", elements(), compressors=None, zarr_format=version))
    file = "zarr.json" if version == 3 else ".zarray"
    entries[file] = json.dumps({**json.loads(entries[file]), member: value}).encode()
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    with pytest.raises((oc.CorruptArrayError, oc.UnsupportedError), match=r"a\.zip"):
        oc.open(tmp_path / "a.zip")


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"[" * 100_000, b"\xff", b'{"a": 1}', b"null"])
@pytest.mark.parametrize("name", ["zarr.json", ".zarray"])
def test_metadata_that_are_none(tmp_path: Path, name: str, text: bytes) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        file.writestr(f"x/{name}", text)
    with pytest.raises(oc.CorruptArrayError, match=rf"x.*{name}|a\.zip/x: its metadata"):
        oc.open(tmp_path / "a.zip/x")


# -- labels and groups -----------------------------------------------------------------------------


def grouped(path: Path, version: int = 3) -> Path:
    def named(*names: str, **attributes: str) -> dict[str, Any]:
        if version == 3:
            return {"dimension_names": names, "attributes": attributes}
        return {"attributes": {**attributes, "_ARRAY_DIMENSIONS": [*names]}}

    store = zarr.storage.ZipStore(path, mode="w")
    group = zarr.create_group(store, attributes={"title": "sea"}, zarr_format=version)
    about: dict[str, Any] = {"shape": (4, 30), "chunks": (2, 30), "dtype": "f4", "fill_value": -9}
    about |= named("time", "lat", units="K")
    heat = group.create_array("heat", compressors=None, **about)
    heat[...] = np.arange(120).reshape(4, 30)
    deep = group.create_group("deep")
    more = deep.create_array("more", shape=(4,), chunks=(2,), dtype="i8", **named("time"))
    more[...] = np.arange(4)
    store.close()
    return path


@pytest.mark.parametrize("version", [2, 3])
def test_names_attributes_and_fill_values_come_along(tmp_path: Path, version: int) -> None:
    A = oc.open(grouped(tmp_path / "a.zip", version) / "heat")
    assert A.dimension_names == ("time", "lat") and A.attributes == {"units": "K"}
    assert A.fill_value == np.float32(-9) and A.path == tmp_path / "a.zip" / "heat"
    shutil.unpack_archive(tmp_path / "a.zip", tmp_path / "d")
    saved = A[0].save(tmp_path / "s.zarr")
    wanted = oc.open(tmp_path / "d/heat")[0].save(tmp_path / "t.zarr")
    assert saved.dimension_names == wanted.dimension_names == ("lat",)
    assert saved.fill_value == wanted.fill_value and saved.attributes == wanted.attributes


@pytest.mark.parametrize("version", [2, 3])
def test_groups(tmp_path: Path, version: int) -> None:
    path = grouped(tmp_path / "a.zip", version)
    for name in ("deep/more", "deep//more", "./deep/more", "deep", "deep/"):
        A = oc.open(f"{path}/{name}")
        assert A.path == path / "deep" / "more" and A.compute().tolist() == [0, 1, 2, 3]
        assert oc.open(f"{path}/{name}", format="zip").format == "zip"
    with pytest.raises(oc.InvalidArgumentError, match=r"not one array: .*deep/more, heat.*such as"):
        oc.open(path)
    for name in ("z", "heat/x", "deep/more/c/0"):
        with pytest.raises(oc.ArrayNotFoundError, match=r"no .* in it; it holds deep/more, heat"):
            oc.open(path / name)
    with pytest.raises(oc.ArrayNotFoundError):
        oc.open(tmp_path / "none.zip/x")


def test_archives_without_arrays(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        file.writestr("readme", "hello")
    with pytest.raises(oc.UnsupportedError, match="zip archive without a Zarr array"):
        oc.open(tmp_path / "a.zip")
    with zipfile.ZipFile(tmp_path / "b.zip", "w"):
        pass
    with pytest.raises(oc.UnsupportedError, match="zip archive without a Zarr array"):
        oc.open(tmp_path / "b.zip")
    store = zarr.storage.ZipStore(tmp_path / "c.zip", mode="w")
    zarr.create_group(store)
    store.close()
    with pytest.raises(oc.InvalidArgumentError, match="holds no array"):
        oc.open(tmp_path / "c.zip")
    np.savez(tmp_path / "d.npz", np.arange(3))
    with pytest.raises(oc.UnsupportedError, match="npz"):
        oc.open(tmp_path / "d.npz")


@pytest.mark.parametrize("version", [2, 3])
def test_xarray_sees_a_dataset(tmp_path: Path, version: int) -> None:
    xarray = pytest.importorskip("xarray")
    path = grouped(tmp_path / "a.zarr.zip", version)
    found = xarray.open_dataset(path, engine="outcrop")
    assert found.attrs == {"title": "sea"} and dict(found.sizes) == {"time": 4, "lat": 30}
    assert isinstance(found["heat"].variable._data, oc.Array)
    wanted = np.arange(120.0).reshape(4, 30)
    np.testing.assert_array_equal((found["heat"] + 1).values, wanted + 1)
    shutil.unpack_archive(path, tmp_path / "d")
    for group in (None, "deep"):
        inner = xarray.open_dataset(path, engine="outcrop", group=group)
        xarray.testing.assert_identical(
            inner, xarray.open_dataset(tmp_path / "d", engine="outcrop", group=group)
        )


def test_xarray_reads_text_by_zarr_python(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    made_of = xarray.Dataset({"word": ("t", np.array(["a", "bc"])), "x": ("t", [1.5, 2.5])})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made_of.to_zarr(tmp_path / "d.zarr", consolidated=False, zarr_format=3)
        path = packed(tmp_path / "a.zip", tmp_path / "d.zarr")
        found = xarray.open_dataset(path, engine="outcrop")
        assert found["word"].values.tolist() == ["a", "bc"]
    assert found["x"].values.tolist() == [1.5, 2.5]


def test_info_lists_what_is_in_an_archive(tmp_path: Path) -> None:
    path = grouped(tmp_path / "a.zip")
    command = [sys.executable, "-m", "outcrop", "info"]
    ended = subprocess.run([*command, path], capture_output=True, text=True, check=True)
    assert "zip archive" in ended.stdout and "deep/" in ended.stdout and "4 x 30" in ended.stdout
    ended = subprocess.run(
        [*command, "--json", path / "heat"], capture_output=True, text=True, check=True
    )
    facts = json.loads(ended.stdout)
    assert (facts["format"], facts["zarr_format"], facts["codecs"]) == ("zip", 3, "bytes, zip")
    assert facts["stored_bytes"] > 4 * 120
    copied = [sys.executable, "-m", "outcrop", "convert", path / "heat", tmp_path / "h.npy"]
    subprocess.run(copied, check=True, capture_output=True)
    np.testing.assert_array_equal(np.load(tmp_path / "h.npy"), np.arange(120.0).reshape(4, 30))
    copied[3] = "copy"
    ended = subprocess.run(copied, check=False, capture_output=True, text=True)
    assert ended.returncode == 2 and "outcrop convert" in ended.stderr


# -- reading only ----------------------------------------------------------------------------------


def test_archives_are_only_read(tmp_path: Path) -> None:
    path = grouped(tmp_path / "a.zip")
    before = path.read_bytes()
    A = oc.open(path / "heat")
    with pytest.raises(oc.UnsupportedError, match=r"only read; A\.save\('NAME\.zarr'\)"):
        oc.open(path / "heat", "r+")
    with pytest.raises(oc.InvalidArgumentError, match="zip archives are only read"):
        A[0] = 1
    for name in ("a.zip/y", "a.zip/deep/y.zarr", "a.zip/heat"):
        for way in (lambda p: (A + 1).save(p), lambda p: oc.create(p, 3), lambda p: oc.plan(A, p)):
            with pytest.raises(oc.UnsupportedError, match=r"only read; save it under.*\.zarr"):
                way(tmp_path / name)
    with pytest.raises(oc.UnsupportedError, match=r"zip, which is not written; save it to a dir"):
        A.save(tmp_path / "b.zip")
    with pytest.raises(oc.InvalidArgumentError, match="format must be"):
        A.save(tmp_path / "b", format="zip")
    with pytest.raises(oc.InvalidArgumentError, match="holds what is to be saved"):
        A.save(path, format="zarr", overwrite=True)
    assert path.read_bytes() == before


def test_options_of_other_formats_are_refused(tmp_path: Path) -> None:
    path = grouped(tmp_path / "a.zip")
    for options in ({"page": 1}, {"offset": 8}):
        with pytest.raises(oc.InvalidArgumentError, match="is not for arrays in zip"):
            oc.open(path / "heat", **options)
    with pytest.raises(oc.InvalidArgumentError, match="describe raw files"):
        oc.open(path, shape=3, dtype="f8", format="zip")
    np.save(tmp_path / "a.npy", np.arange(3))
    with pytest.raises(oc.CorruptArrayError, match="is no zip archive"):
        oc.open(tmp_path / "a.npy", format="zip")
    with pytest.raises(oc.InvalidTypeError, match="not pickled"):
        __import__("pickle").dumps(oc.open(path / "heat"))
    # Whoever describes it, knows.
    assert bytes(oc.open(path, shape=4, dtype="u1").compute()) == b"PK\x03\x04"


def test_without_zarr_python_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = made(tmp_path / "a.zip", elements())
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(oc.UnsupportedError, match=r"outcrop\[zarr\].*; unpacked"):
        oc.open(place)


# -- changes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [os.replace, shutil.copy])
@pytest.mark.parametrize("way", ["plain", "zstd", "shards"])
def test_a_change_is_noticed(tmp_path: Path, way: str, how: Callable[[Path, Path], Any]) -> None:
    given = elements("<f8")
    options = {**IN_PLACE, **BY_ZARR}[way]
    A = oc.open(made(tmp_path / "a.zip", given, "x", **options))
    B = A + 1
    np.testing.assert_array_equal(B.compute(), given + 1)
    made(tmp_path / "b.zip", given * 2, "x", **options)
    how(tmp_path / "b.zip", tmp_path / "a.zip")
    with pytest.raises(oc.StaleOperandError, match="changed"):
        B.compute()
    np.testing.assert_array_equal(A.compute(), given * 2)
    np.testing.assert_array_equal((A + 1).compute(), given * 2 + 1)


def test_two_that_are_opened_are_one_array(tmp_path: Path) -> None:
    path = grouped(tmp_path / "a.zip")
    A, B, other = (
        oc.open(path / "heat"),
        oc.open(f"{tmp_path}/./a.zip//heat"),
        oc.open(path / "deep"),
    )
    assert A._source.same_elements(B._source)  # type: ignore[attr-defined]
    assert not A._source.same_elements(other._source)  # type: ignore[attr-defined]


def test_no_files_are_left_open(tmp_path: Path) -> None:
    def count() -> int:
        links = (os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd"))
        return sum(
            os.path.lexists(link) and os.readlink(link) == str(tmp_path / "a.zip") for link in links
        )

    for way in ("plain", "zstd"):
        place = made(tmp_path / "a.zip", elements(), **{**IN_PLACE, **BY_ZARR}[way])
        for _ in range(3):
            A = oc.open(place)
            A[3, 4].compute()
            A.close()
            del A
        __import__("gc").collect()
        assert count() == 0
    (tmp_path / "a.zip").write_bytes(b"PK\x03\x04 and no more")
    for _ in range(3):
        with pytest.raises(oc.CorruptArrayError):
            oc.open(tmp_path / "a.zip")
    assert count() == 0
