"""Whole chunks are decoded to the tiles that they are: beside those, only their files take room."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outcrop as oc

MIB = 1 << 20
TILE = (8, 256, 512)
"""4 MiB of float32."""
SHAPE = (30, 600, 700)
"""Chunks hang over at all edges."""
CODECS: list[tuple[int, Any]] = [
    (3, "zstd:1"),
    (3, "gzip:1"),
    (3, "blosc:lz4:5"),
    (3, [{"name": "numcodecs.zlib", "configuration": {"level": 1}}]),
    (3, [{"name": "numcodecs.bz2", "configuration": {"level": 1}}]),
    (3, [{"name": "zstd", "configuration": {"level": 1, "checksum": True}}, {"name": "crc32c"}]),
    (2, None),
    (2, "zstd:1"),
    (2, "blosc:zstd:1"),
]
BIG = [
    {"name": "bytes", "configuration": {"endian": "big"}},
    {"name": "gzip", "configuration": {"level": 1}},
]

SCRIPT = """
import json, sys
import numpy as np
import outcrop as oc

def memory(field):
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) * 1024

oc.config(memory=int(sys.argv[1]), threads=1)
small = oc.open(sys.argv[3])
(small.sum().compute(), small.max(axis=0).compute())
before, found = memory("VmRSS:"), []
for name, make in {
    "sum": lambda A: A.sum(),
    "mean": lambda A: A.mean(axis=0),
    "max": lambda A: A.max(axis=(1, 2)),
}.items():
    open("/proc/self/clear_refs", "w").write("5")
    result = make(oc.open(sys.argv[2]))
    plan = oc.plan(result, "out.npy")
    saved = result.save("out.npy", overwrite=True)
    run = oc.last_run()
    assert run.bytes_read == plan.bytes_read, name
    assert run.peak_bytes <= plan.peak_bytes, (name, run.peak_bytes, plan.peak_bytes)
    found.append((memory("VmHWM:") - before, plan.peak_bytes))
    np.save(name, np.load("out.npy", mmap_mode="r"))
print(json.dumps(found))
"""


def values() -> np.ndarray[Any, np.dtype[np.float32]]:
    # Their sum is one of float32.
    return np.random.default_rng(0).integers(0, 2, SHAPE).astype("float32")


@pytest.mark.parametrize(("version", "codecs"), CODECS)
def test_tiles_are_all_that_chunks_take(tmp_path: Path, version: int, codecs: Any) -> None:
    plain = values()
    options: dict[str, Any] = {"codecs": codecs, "zarr_format": version}
    oc.asarray(plain).save(tmp_path / "a.zarr", tile=TILE, **options)
    oc.asarray(plain[:3, :50, :50]).save(tmp_path / "small.zarr", tile=(2, 32, 32), **options)
    budget = 14 * MIB
    arguments = [str(budget), str(tmp_path / "a.zarr"), str(tmp_path / "small.zarr")]
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    for used, planned in json.loads(ended.stdout):
        assert planned <= budget
        assert used <= budget + 24 * MIB, (used, planned)
    assert float(np.load(tmp_path / "sum.npy")) == float(plain.sum(dtype="float64"))
    np.testing.assert_allclose(np.load(tmp_path / "mean.npy"), plain.mean(axis=0), rtol=1e-6)
    np.testing.assert_array_equal(np.load(tmp_path / "max.npy"), plain.max(axis=(1, 2)))


@pytest.mark.parametrize(
    ("options", "chunks", "once"),
    [
        ({"codecs": "gzip:1"}, 2, True),
        ({"codecs": "zstd:1"}, 2, True),
        ({"zarr_format": 2}, 1, True),
        # There is no memory for the elements as they are stored beside those that are wanted.
        ({"codecs": BIG}, 2, False),
    ],
)
def test_a_chunk_and_its_file_are_room_enough(
    tmp_path: Path, options: dict[str, Any], chunks: int, once: bool
) -> None:
    plain = values()
    path = tmp_path / "a.zarr"
    stored = oc.asarray(plain).save(path, tile=TILE, **options)
    files = [p.stat().st_size for p in path.rglob("*") if p.is_file() and "zarr" not in p.name]
    files = [size for size in files if size > 4096]
    with oc.config(memory=chunks * 4 * int(np.prod(TILE)) + MIB, threads=1):
        plan = oc.plan(stored.sum())
        assert (plan.bytes_read == sum(-(-size // 4096) * 4096 for size in files)) == once
        total = oc.open(path).sum().compute()
        run = oc.last_run()
    assert run is not None
    assert run.bytes_read == plan.bytes_read
    assert run.peak_bytes <= plan.peak_bytes
    assert float(total) == float(plain.sum(dtype="float64"))


@pytest.mark.parametrize(("version", "codecs"), CODECS)
def test_damage_is_found(tmp_path: Path, version: int, codecs: Any) -> None:
    plain = np.arange(60.0 * 70).reshape(60, 70)
    path = tmp_path / "a.zarr"
    oc.asarray(plain).save(path, tile=(32, 40), codecs=codecs, zarr_format=version)
    chunk = path / ("c/1/1" if version == 3 else "1.1")
    good = chunk.read_bytes()
    for bad in (good[:-1], good[: len(good) // 2], b"", good[: len(good) // 2] * 2 + good):
        chunk.write_bytes(bad)
        for read in (
            lambda: oc.open(path).compute(),
            lambda: oc.open(path).sum().compute(),
            lambda: oc.open(path)[40:50, 40:].compute(),
        ):
            with pytest.raises(oc.CorruptArrayError, match=r"chunk \(1, 1\)"):
                read()
    chunk.write_bytes(good)
    np.testing.assert_array_equal(oc.open(path).compute(), plain)
