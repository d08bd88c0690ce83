"""Means over time and anomalies of a climate cube as Zarr-Python writes it, beside xarray and Zarr-Python.

40 maps of 1800 x 3600, float32, in chunks of 65 MB, compressed by Zstandard. Everything runs under one memory limit:
Outcrop; xarray with Dask, one thread for each core; and a loop over the chunks with Zarr-Python, as one writes it by
hand. The anomalies are stored in the same chunks.
"""

import statistics
import sys
from pathlib import Path

from common import ALLOWANCE, MIB, Claim, arguments, cold, limited, outcrop, remove

options = arguments(__doc__)
scale = 4 if options.quick else 1
shape, chunks = (40, 1800 // scale, 3600 // scale), (10, 900 // scale, 1800 // scale)
nbytes = 4 * shape[0] * shape[1] * shape[2]
budgets = [n * MIB // scale**2 for n in (512, 1024, 2048)]
cube, target = options.directory / "cube.zarr", options.directory / "result.zarr"

MAKE = """
import sys, numpy as np, zarr
shape, chunks = eval(sys.argv[2]), eval(sys.argv[3])
cube = zarr.create_array(
    sys.argv[1], shape=shape, chunks=chunks, dtype="f4", dimension_names=("time", "lat", "lon"),
    compressors=zarr.codecs.ZstdCodec(level=1),
)
rng = np.random.default_rng(1)
lat, lon = np.linspace(-1, 1, shape[1])[:, None], np.linspace(0, 7, shape[2])
for i in range(0, shape[0], chunks[0]):
    noise = rng.standard_normal((chunks[0], *shape[1:]), "f4").round(2)
    cube[i : i + chunks[0]] = (15 * (1 - lat**2) + np.sin(lon)).astype("f4") + noise
"""
OURS = {
    "mean": "oc.open(sys.argv[1]).mean(axis=0).compute()",
    "anomaly": "A = oc.open(sys.argv[1]); (A - A.mean(axis=0)).save(sys.argv[2], "
    'tile=tuple(A.tile), codecs="zstd:1")',
}
DASK = """
import sys, time, dask, dask.array, xarray as xr, zarr
start = time.perf_counter()
dask.config.set(scheduler="threads")
A = xr.DataArray(dask.array.from_zarr(sys.argv[1]))
mean = A.mean("dim_0")
if sys.argv[3] == "mean":
    mean.compute()
else:
    codecs = dict(compressors=zarr.codecs.ZstdCodec(level=1), chunks=A.data.chunksize)
    result = (A - mean).transpose(*A.dims).astype("f4").data
    out = zarr.create_array(sys.argv[2], shape=A.shape, dtype="f4", **codecs)
    result.store(out, lock=False)
print(time.perf_counter() - start)
"""
LOOP = """
import sys, time, itertools, numpy as np, zarr
start = time.perf_counter()
A = zarr.open(sys.argv[1], mode="r")
def boxes():
    ranges = [range(0, n, c) for n, c in zip(A.shape, A.chunks)]
    for start in itertools.product(*ranges):
        yield tuple(slice(i, i + c) for i, c in zip(start, A.chunks))
total = np.zeros(A.shape[1:])
for box in boxes():
    total[box[1:]] += A[box].sum(axis=0, dtype="f8")
mean = (total / A.shape[0]).astype("f4")
if sys.argv[3] == "anomaly":
    codecs = dict(compressors=zarr.codecs.ZstdCodec(level=1), chunks=A.chunks)
    out = zarr.create_array(sys.argv[2], shape=A.shape, dtype="f4", **codecs)
    for box in boxes():
        out[box] = A[box] - mean[box[1:]]
print(time.perf_counter() - start)
"""


def theirs(script: str, job: str, budget: int) -> float | None:
    """Seconds of somebody else's way; None where it runs out of memory."""
    remove(target)
    cold(cube)
    command = [sys.executable, "-c", script, str(cube), str(target), job]
    try:
        return float(limited(budget + ALLOWANCE, command, timeout=600)[1])
    except SystemExit:
        return None


def ours(job: str, budget: int) -> dict[str, float]:
    remove(target)
    cold(cube)
    body = (
        "before = io(); start = time.perf_counter()\n"
        f"{OURS[job]}\nseconds = time.perf_counter() - start\nreport()\n"
    )
    return outcrop(budget + ALLOWANCE, budget, body, str(cube), str(target))


def stored(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


remove(cube)
limited(4096 * MIB, [sys.executable, "-c", MAKE, str(cube), repr(shape), repr(chunks)])
size = stored(cube)
claim = Claim("A climate cube", options)
table = []
for job, passes in (("mean", 1), ("anomaly", 2)):
    for budget in budgets:
        reads, limits = [], []
        failed: set[str] = set()
        beside: dict[str, list[float]] = {"xarray and Dask": [], "Zarr-Python in a loop": []}
        for _ in range(options.rounds):
            run = ours(job, budget)
            reads.append(run["read"] / size / passes)
            limits.append(run["peak_rss"] / (budget + ALLOWANCE))
            row = [f"{job}, {budget // MIB} MiB", f"{run['seconds']:.2f}"]
            for name, script in zip(beside, (DASK, LOOP), strict=True):
                # What ran out of memory took minutes to do so, and would again.
                seconds = None if name in failed else theirs(script, job, budget)
                failed |= {name} if seconds is None else set()
                row.append("out of memory" if seconds is None else f"{seconds:.2f}")
                if seconds is not None:
                    beside[name].append(seconds / run["seconds"])
            table.append(row)
            print(f"    {row}")
        what = f"{job}, {budget // MIB} MiB"
        claim.row(f"{what}: bytes read / size, a pass", reads, 1.05, 1.01, low=True, worst=True)
        for name, ratios in beside.items():
            if ratios:
                claim.row(f"{what}: time of {name} / ours", ratios, 1.0, 1.5, low=False)
        claim.row(f"{what}: memory used / allowed", limits, 1.0, 1.0, low=True, worst=True)
claim.note(
    f"stored in {size / nbytes:.2f} of its size; median of ours over all: "
    f"{statistics.median(float(row[1]) for row in table):.2f} s"
)
claim.table("Seconds", ["job", "Outcrop", "xarray and Dask", "Zarr-Python in a loop"], table)
claim.save()
remove(cube, target)
