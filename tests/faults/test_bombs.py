"""Chunks that decode to far more than a chunk: decoding stops where the chunk is full.

Each bomb gives 1 to 2 GiB. A process of its own reads them all in a budget of 16 MiB; its peak says
whether one went off, and a limit on its address space keeps that from hurting the machine.
"""

import bz2
import gzip
import json
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
from google_crc32c import value as crc32c
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import outcrop as oc

CHUNK = (64, 32)
NBYTES = 64 * 32 * 8
GOOD = np.arange(64 * 32.0).reshape(CHUNK)
PIECE = 16 << 20
"""Zeros that are compressed once, and then repeated as they are compressed."""


def deflated() -> bytes:
    """1 GiB of zeros without an end, in 1 MiB."""
    machine = zlib.compressobj(9, zlib.DEFLATED, -15)
    return (machine.compress(bytes(PIECE)) + machine.flush(zlib.Z_FULL_FLUSH)) * 64


def zstd_without_size() -> bytes:
    """2 GiB in 64 KiB: blocks of 128 KiB that consist of one byte each."""
    block = (1 << 1 | (128 << 10) << 3).to_bytes(3, "little") + b"\0"
    last = (1 | 1 << 1 | 0 << 3).to_bytes(3, "little") + b"\0"
    return b"\x28\xb5\x2f\xfd\x00\x38" + block * (16 << 10) + last


def zstd_frames() -> bytes:
    return bytes(numcodecs.Zstd(1).encode(bytes(PIECE))) * 128


def zstd_of_claim() -> bytes:
    """A frame that says how much it holds: 2 GiB."""
    return b"\x28\xb5\x2f\xfd\xa0" + struct.pack("<I", 2 << 30) + zstd_without_size()[6:]


def blosc_of_claim() -> bytes:
    return b"\x02\x01\x11\x01" + struct.pack("<III", 2**31 - 32, 1 << 20, 64 << 10) + bytes(65520)


def gzip_member() -> bytes:
    return gzip.compress(b"")[:10] + deflated()


def zlib_stream() -> bytes:
    return b"\x78\xda" + deflated()


def bz2_streams() -> bytes:
    return bz2.compress(bytes(PIECE)) * 128


BOMBS: dict[str, list[Callable[[], bytes]]] = {
    "gzip": [gzip_member, lambda: gzip.compress(GOOD.tobytes()) + gzip_member()],
    "zlib": [zlib_stream],
    "bz2": [bz2_streams, lambda: bz2.compress(GOOD.tobytes()) + bz2_streams()],
    "zstd": [
        zstd_without_size,
        zstd_frames,
        zstd_of_claim,
        lambda: bytes(numcodecs.Zstd(1).encode(GOOD)) + zstd_without_size(),
    ],
    "blosc": [blosc_of_claim],
}

NAMES = {"zlib": "numcodecs.zlib", "bz2": "numcodecs.bz2"}
SETTINGS: dict[str, dict[str, Any]] = {
    "gzip": {"level": 5},
    "zlib": {"level": 5},
    "bz2": {"level": 5},
    "zstd": {"level": 1, "checksum": False},
    "blosc": {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 8, "blocksize": 0},
}
OUTER: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda b: gzip.compress(b, 1),
    "zlib": lambda b: zlib.compress(b, 1),
    "bz2": bz2.compress,
    "zstd": lambda b: bytes(numcodecs.Zstd(1).encode(b)),
}
BYTES = {"name": "bytes", "configuration": {"endian": "little"}}


def v3(codec: str) -> dict[str, Any]:
    return {"name": NAMES.get(codec, codec), "configuration": SETTINGS[codec]}


def v2(codec: str) -> dict[str, Any]:
    configuration = dict(SETTINGS[codec])
    if codec == "blosc":
        configuration["shuffle"] = 1
        del configuration["typesize"]
    configuration.pop("checksum", None)
    return {"id": codec, **configuration}


def write_v3(path: Path, codecs: list[Any], chunk: bytes) -> None:
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": CHUNK,
        "data_type": "float64",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": CHUNK}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0.0,
        "codecs": codecs,
        "attributes": {},
    }
    (path / "c" / "0").mkdir(parents=True)
    (path / "zarr.json").write_text(json.dumps(document))
    (path / "c" / "0" / "0").write_bytes(chunk)


def write_v2(path: Path, compressor: Any, filters: Any, chunk: bytes, order: str = "C") -> None:
    document = {
        "zarr_format": 2,
        "shape": CHUNK,
        "chunks": CHUNK,
        "dtype": "<f8",
        "compressor": compressor,
        "filters": filters,
        "fill_value": 0,
        "order": order,
    }
    path.mkdir(parents=True)
    (path / ".zarray").write_text(json.dumps(document))
    (path / "0.0").write_bytes(chunk)


def shard(inner: bytes) -> bytes:
    """Of one inner chunk, with its index."""
    return inner + struct.pack("<QQ", 0, len(inner))


def sharded(*codecs: Any, chunk: tuple[int, int] = CHUNK) -> dict[str, Any]:
    configuration = {"chunk_shape": chunk, "codecs": codecs, "index_codecs": [BYTES]}
    return {"name": "sharding_indexed", "configuration": configuration}


def chains(directory: Path, codec: str, number: int, bomb: bytes) -> None:
    """The bomb in every place of a list of codecs."""
    place = directory / f"{codec}-{number}"
    one = v3(codec)
    write_v3(place / "alone", [BYTES, one], bomb)
    transposed = {"name": "transpose", "configuration": {"order": [1, 0]}}
    write_v3(place / "transposed", [transposed, BYTES, one], bomb)
    checked = bomb + struct.pack("<I", crc32c(bomb))
    write_v3(place / "checked", [BYTES, one, {"name": "crc32c"}], checked)
    write_v3(place / "of-checked", [BYTES, {"name": "crc32c"}, one], bomb)
    for name, encode in OUTER.items():
        write_v3(place / f"in-{name}", [BYTES, one, v3(name)], encode(bomb))
        write_v3(place / f"of-{name}", [BYTES, v3(name), one], bomb)
    write_v3(place / "inner", [sharded(BYTES, one)], shard(bomb))
    write_v3(place / "innermost", [sharded(sharded(BYTES, one))], shard(shard(bomb)))
    write_v3(place / "of-shard", [sharded(BYTES), one], bomb)
    write_v3(place / "of-inner-shard", [sharded(sharded(BYTES), one)], shard(bomb))
    deep = sharded(sharded(sharded(BYTES), one))
    write_v3(place / "of-innermost-shard", [deep], shard(shard(bomb)))
    # What zarrs bounds by the shard's size times its chunks, and that once more: by 64 GiB.
    many = sharded(sharded(BYTES, chunk=(1, 1)), chunk=(1, 1))
    write_v3(place / "of-many-shards", [sharded(sharded(many, one))], shard(shard(bomb)))
    write_v2(place / "2-alone", v2(codec), None, bomb)
    write_v2(place / "2-turned", v2(codec), None, bomb, "F")
    shuffle = {"id": "shuffle", "elementsize": 8}
    write_v2(place / "2-shuffled", v2(codec), [shuffle], bomb)
    for name, encode in OUTER.items():
        write_v2(place / f"2-in-{name}", v2(name), [v2(codec)], encode(bomb))


READ_ALL = """
import os, resource, sys
from pathlib import Path
import numpy as np
import outcrop as oc
from outcrop import _native

def peak():
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) << 10

def mapped():
    return int(Path("/proc/self/statm").read_text().split()[0]) * 4096

oc.config(memory="16MiB", threads=2)
oc.asarray(np.ones(100000)).save("warm.zarr", codecs="zstd")
oc.open("warm.zarr").compute()
before = peak()
resource.setrlimit(resource.RLIMIT_AS, (mapped() + (1 << 29), resource.RLIM_INFINITY))
names = (".zarray", "zarr.json")
for path in sorted(p.parent for p in Path(sys.argv[1]).rglob("*") if p.name in names):
    for read in (
        lambda: oc.open(path).compute(),
        lambda: oc.open(path)[3:5, 1:2].compute(),
        lambda: oc.open(path).save("out.npy", overwrite=True),
    ):
        try:
            read()
        except oc.CorruptArrayError as error:
            assert str(path) in str(error) and "chunk (0, 0)" in str(error), error
        except oc.UnsupportedError as error:
            print("unsupported", path, error)
        else:
            raise AssertionError(f"{path}: no error")
        assert _native.status()["used"] == 0
    assert peak() - before < 80 << 20, (str(path), peak() - before)
"""


@pytest.mark.parametrize("codec", BOMBS)
def test_decoding_stops_where_a_chunk_is_full(tmp_path: Path, codec: str) -> None:
    for number, make in enumerate(BOMBS[codec]):
        chains(tmp_path / "bombs", codec, number, make())
    ended = subprocess.run(
        [sys.executable, "-c", READ_ALL, str(tmp_path / "bombs")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stderr[-3000:]
    assert ended.stdout == "", ended.stdout


WHOLE: dict[str, tuple[Callable[[bytes], bytes], Any]] = {
    "gzip": (OUTER["gzip"], numcodecs.GZip(1)),
    "zlib": (OUTER["zlib"], numcodecs.Zlib(1)),
    "bz2": (OUTER["bz2"], numcodecs.BZ2(1)),
    "zstd": (OUTER["zstd"], numcodecs.Zstd(1)),
}


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    codec=st.sampled_from(sorted(WHOLE)),
    cuts=st.lists(st.integers(0, NBYTES), max_size=4),
    end=st.sampled_from([b"", b"", b"\0" * 9, b"garbage behind it", b"\x1f\x8b\x08"]),
    version=st.sampled_from([2, 3]),
    short=st.integers(-1, 1),
)
def test_frames_behind_one_another_are_read_as_numcodecs_reads_them(
    tmp_path_factory: pytest.TempPathFactory,
    codec: str,
    cuts: list[int],
    end: bytes,
    version: int,
    short: int,
) -> None:
    encode, theirs = WHOLE[codec]
    elements = GOOD.tobytes()[: NBYTES + min(short, 0)] + b"\1" * max(short, 0)
    edges = [0, *sorted(cuts), len(elements)]
    frames = [encode(elements[a:b]) for a, b in pairwise(edges)]
    chunk = b"".join(frames) + end
    path = tmp_path_factory.mktemp("frames") / "a"
    if version == 3:
        write_v3(path, [BYTES, v3(codec)], chunk)
    else:
        write_v2(path, v2(codec), None, chunk)
    try:
        expected = bytes(theirs.decode(chunk))
    except Exception:
        expected = b""
    if expected == GOOD.tobytes():
        np.testing.assert_array_equal(oc.open(path).compute(), GOOD)
    else:
        with pytest.raises(oc.CorruptArrayError, match="chunk"):
            oc.open(path).compute()


PEAK = """
import sys
import outcrop as oc
oc.config(memory="16MiB")
def peak():
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) >> 10
before = peak()
try:
    A = oc.open(sys.argv[1])
    A[:3, :3].compute()
    A.sum().compute()
    print(peak() - before, "read")
except oc.OutcropError as error:
    print(peak() - before, type(error).__name__, error)
"""


def peak_and_end(path: Path) -> tuple[int, str]:
    """MiB that opening and reading an array takes, and how that ends."""
    arguments = [sys.executable, "-c", PEAK, str(path)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    peak, end = done.stdout.split(" ", 1)
    return int(peak), end


def described(path: Path, shape: tuple[int, ...], codecs: str, attributes: str = "{}") -> None:
    """An array of bytes, with members of its metadata as text."""
    members = {
        "zarr_format": "3",
        "node_type": '"array"',
        "shape": json.dumps(shape),
        "data_type": '"uint8"',
        "chunk_grid": json.dumps({"name": "regular", "configuration": {"chunk_shape": shape}}),
        "chunk_key_encoding": '{"name":"default","configuration":{"separator":"/"}}',
        "fill_value": "0",
        "codecs": codecs,
        "attributes": attributes,
    }
    (path / "c" / "0").mkdir(parents=True)
    text = ",".join(f'"{name}":{value}' for name, value in members.items())
    (path / "zarr.json").write_text("{" + text + "}")


def sharding(inner: list[int], codecs: list[Any] | None = None) -> str:
    settings = {"chunk_shape": inner, "codecs": codecs or [BYTES], "index_codecs": [BYTES]}
    return json.dumps([{"name": "sharding_indexed", "configuration": settings}])


@pytest.mark.parametrize("side", [2**31, 2**30, 2**27])
@pytest.mark.parametrize("nested", [False, True])
def test_shards_of_more_chunks_than_can_be_counted(side: int, nested: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    codecs = sharding([side, side], json.loads(sharding([1, 1]))) if nested else sharding([1, 1])
    described(path, (side, side), codecs)
    (path / "c" / "0" / "0").write_bytes(bytes(4096))
    peak, end = peak_and_end(path)
    assert peak < 32, (peak, end)
    assert end.startswith(("CorruptArrayError", "UnsupportedError", "BudgetError")), end


@pytest.mark.parametrize("side", [256, 1024, 2048])
def test_where_the_chunks_of_a_shard_lie_is_part_of_the_budget(side: int, tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    described(path, (side, side), sharding([1, 1]))
    index = np.empty((side * side, 2), "<u8")
    # The last one first, so that they have to be sorted.
    index[:, 0] = np.arange(side * side)[::-1]
    index[:, 1] = 1
    (path / "c" / "0" / "0").write_bytes(bytes(side * side) + index.tobytes())
    peak, end = peak_and_end(path)
    assert peak < 48, (peak, end)
    assert end.startswith("read" if side == 256 else "BudgetError"), end


TWO_MILLION = 2_000_000
METADATA: dict[str, tuple[str, str]] = {
    "objects": ("attributes", '{"a":[' + '{"":0},' * 500_000 + "0]}"),
    "brackets": ("attributes", '{"a":' + "[" * 900_000 + "]" * 900_000 + "}"),
    "too many objects": ("attributes", '{"a":[' + '{"":0},' * TWO_MILLION + "0]}"),
    "axes": ("shape", "[" + "1," * (TWO_MILLION - 100_000) + "1]"),
    "tile": ("chunk_shape", "[" + "1," * (TWO_MILLION - 100_000) + "1]"),
    "transpositions": (
        "codecs",
        "[" + '{"name":"transpose","configuration":{"order":[0,1]}},' * 70_000 + '"bytes"]',
    ),
    "few transpositions": (
        "codecs",
        "[" + '{"name":"transpose","configuration":{"order":[0,1]}},' * 100 + '"bytes"]',
    ),
    "checksums": ("codecs", '["bytes"' + ',"crc32c"' * 300_000 + "]"),
    "inner checksums": (
        "codecs",
        sharding([4, 4]).replace(
            '"index_codecs"', '"codecs": ["bytes"' + ',"crc32c"' * 99 + '], "x"'
        ),
    ),
    "unknown": ("other", '{"must_understand":false,"a":[' + '{"":0},' * 500_000 + "0]}"),
}


@pytest.mark.parametrize("what", METADATA)
def test_metadata_takes_no_more_than_its_text(what: str, tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    member, text = METADATA[what]
    described(path, (4, 4), text if member == "codecs" else '["bytes"]')
    named = (path / "zarr.json").read_text()
    if member == "other":
        named = named[:-1] + f',"other":{text}' + "}"
    elif member != "codecs":
        start = named.index(f'"{member}":') + len(member) + 3
        end = named.index("]" if member != "attributes" else "}", start) + 1
        named = named[:start] + text + named[end:]
    (path / "zarr.json").write_text(named)
    peak, end = peak_and_end(path)
    assert peak < 40, (peak, end)
    is_read = what in ("objects", "brackets")
    expected = ("read",) if is_read else ("CorruptArrayError", "UnsupportedError")
    assert end.startswith(expected), end[:300]
    if what == "brackets":
        # More brackets than Python's parser goes into.
        with pytest.raises(oc.CorruptArrayError, match="attributes"):
            _ = oc.open(path).attributes


def test_attributes_that_could_not_be_read_again_are_refused(tmp_path: Path) -> None:
    A = oc.asarray(np.zeros((4, 4)))
    for options in ({}, {"codecs": "zstd"}, {"codecs": "zstd", "zarr_format": 2}):
        with pytest.raises(oc.InvalidArgumentError, match="more than"):
            A.save(tmp_path / "a.zarr", attributes={"a": "x" * (5 << 20)}, **options)
        assert not (tmp_path / "a.zarr").exists()


@pytest.mark.parametrize("name", ["zarr.json", ".zattrs"])
def test_more_metadata_than_is_read_is_no_damage(tmp_path: Path, name: str) -> None:
    """It was said to be damaged, and is only more than memory is for."""
    path = tmp_path / "a.zarr"
    version = 3 if name == "zarr.json" else 2
    oc.asarray(np.zeros((4, 4))).save(path, codecs="zstd", zarr_format=version)
    text = json.loads((path / name).read_text())
    text["attributes" if version == 3 else "a"] = {"a": "x" * (5 << 20)}
    (path / name).write_text(json.dumps(text))
    peak, end = peak_and_end(path)
    assert end.startswith("UnsupportedError"), end[:300]
    assert f"{name} has 52" in end and "4 MiB of metadata" in end
    assert peak < 8, peak


def test_a_group_of_much_metadata_is_not_taken_for_an_array(tmp_path: Path) -> None:
    group = tmp_path / "g"
    group.mkdir()
    text = {"zarr_format": 3, "node_type": "group", "attributes": {"a": "x" * (5 << 20)}}
    (group / "zarr.json").write_text(json.dumps(text))
    with pytest.raises(oc.OutcropError):
        oc.asarray(np.zeros((4, 4))).save(group, format="zarr", overwrite=True)
    assert json.loads((group / "zarr.json").read_text()) == text
