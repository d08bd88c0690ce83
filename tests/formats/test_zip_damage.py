"""Zip archives of other programs, and damaged ones."""

import json
import struct
import subprocess
import sys
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import outcrop as oc

from .archives import WAYS, elements, made, packed, unpacked

zarr = pytest.importorskip("zarr")


@pytest.fixture(autouse=True)
def _small() -> Iterator[None]:
    with oc.config(memory="8MiB"):
        yield


# -- archives of other programs --------------------------------------------------------------------


class _OneWay:
    """A file that cannot be sought in: zipfile says sizes and checksums behind the bytes then."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, data: bytes) -> int:
        return int(self._file.write(data))

    def flush(self) -> None:
        self._file.flush()


def test_sizes_that_stand_behind_the_bytes(tmp_path: Path) -> None:
    given = elements("<f8")
    for way in ("plain", "zstd"):
        entries = unpacked(made(tmp_path / "a.zip", given, **WAYS[way]))
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
            made(tmp_path / "a.zip", elements(), **WAYS[way])
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
    made(tmp_path / "a.zip", elements(), **WAYS[way])
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
    for way, options in WAYS.items():
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
    for _ in range(data.draw(st.integers(1, 2))):
        # Half of it where it hurts: in the directory.
        begin = data.draw(st.sampled_from([0, damaged.find(b"PK\x01\x02"), len(damaged) - 22]))
        at = data.draw(st.integers(min(max(begin, 0), len(damaged) - 1), len(damaged) - 1))
        # What moves the rest is nearly always refused at once.
        kind = data.draw(st.sampled_from(["bit"] * 5 + ["byte", "cut", "leave out", "twice"]))
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


@pytest.mark.parametrize("way", ["plain", "crc32c", "2", "zstd", "2 lz4", "shards"])
def test_verify_names_a_damaged_chunk(tmp_path: Path, way: str) -> None:
    place = made(tmp_path / "a.zip", elements(), "x", **WAYS[way])
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


@pytest.mark.parametrize("way", ["crc32c", "zstd", "gzip", "2 shuffle", "2 lz4"])
def test_a_damaged_chunk_is_an_error_where_it_is_decoded(tmp_path: Path, way: str) -> None:
    given = elements()
    made(tmp_path / "a.zip", given, **WAYS[way])
    data = bytearray((tmp_path / "a.zip").read_bytes())
    with zipfile.ZipFile(tmp_path / "a.zip") as file:
        (info,) = [one for one in file.infolist() if one.filename in ("c/1/1", "1.1")]
    data[info.header_offset + 30 + len(info.filename) + info.file_size // 2] ^= 4
    (tmp_path / "a.zip").write_bytes(data)
    A = oc.open(tmp_path / "a.zip")
    for read in (A.compute, (A + 1).compute, A.sum().compute):
        with pytest.raises(oc.CorruptArrayError, match=r"1(.|, )1.*damaged.*CRC-32"):
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
