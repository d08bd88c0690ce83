"""Monthly anomalies and a map of trends of a NetCDF 4 cube as xarray writes it, beside xarray with Dask.

480 months of 720 x 1440, float32, deflated with shuffled bytes, in chunks of 25 MB; opened with xarray on both sides,
by Outcrop's engine and by h5netcdf in chunks of its own, and computed under one memory limit.
"""

import statistics
import subprocess
from pathlib import Path
from typing import Any

from common import ALLOWANCE, MIB, Claim, arguments, cold, limited, outcrop, remove
from sides import environment

options = arguments(__doc__)
scale = 4 if options.quick else 1
shape, chunks = (480, 720 // scale, 1440 // scale), (120, 180 // scale, 288 // scale)
nbytes = 4 * shape[0] * shape[1] * shape[2]
budgets = [n * MIB // scale**2 for n in (512, 1024)]
cube, target = options.directory / "cube.nc", options.directory / "result.zarr"
trends = options.directory / "result.zarr.nc"

MAKE = """
import sys, numpy as np, xarray as xr
shape, chunks = eval(sys.argv[2]), eval(sys.argv[3])
rng = np.random.default_rng(1)
time = xr.date_range("1980-01-01", periods=shape[0], freq="MS", use_cftime=False)
lat, lon = np.linspace(-1, 1, shape[1], dtype="f4")[:, None], np.linspace(0, 7, shape[2], dtype="f4")
values = np.empty(shape, "f4")
for i in range(shape[0]):
    season = 8 * np.cos(2 * np.pi * i / 12) * lat
    values[i] = 15 * (1 - lat**2) + np.sin(lon) + season + 0.002 * i * (1 + lat)
    values[i] += rng.standard_normal(shape[1:], "f4").round(1)
cube = xr.Dataset({"t2m": (("time", "lat", "lon"), values, {"units": "K"})}, coords={"time": time})
how = {"zlib": True, "complevel": 1, "shuffle": True, "chunksizes": chunks}
cube.to_netcdf(sys.argv[1], engine="h5netcdf", encoding={"t2m": how})
"""
JOBS = {
    "anomaly": """
groups = data.t2m.groupby("time.month")
result = groups - groups.mean()
xr.Dataset({"anomaly": result.drop_vars("month")}).to_zarr(sys.argv[2], mode="w-", consolidated=False)
""",
    "trends": """
years = xr.DataArray(np.arange(data.t2m.sizes["time"]) / 12, dims="time").astype("f4")
years = years - years.mean()
slope = (data.t2m * years).sum("time") / (years * years).sum("time")
slope.compute().to_netcdf(sys.argv[2] + ".nc", engine="scipy")
""",
}
OURS = """
import xarray as xr
data = xr.open_dataset(sys.argv[1], engine="outcrop")
"""
THEIRS = """
import sys, time
import numpy as np, dask, xarray as xr
dask.config.set(scheduler="threads")
start = time.perf_counter()
data = xr.open_dataset(sys.argv[1], engine="h5netcdf", chunks={})
"""


def ours(job: str, budget: int) -> dict[str, Any]:
    body = (
        f"import xarray\nbefore = io(); start = time.perf_counter()\n{OURS}{JOBS[job]}\n"
        "seconds = time.perf_counter() - start\nreport()\n"
    )
    return outcrop(budget + ALLOWANCE, budget, body, str(cube), str(target))


def theirs(python: Path, job: str, budget: int) -> float | None:
    """Seconds of xarray and Dask; None where memory is short, or after ten minutes."""
    script = f"{THEIRS}{JOBS[job]}\nprint(time.perf_counter() - start)\n"
    command = [str(python), "-c", script, str(cube), str(target)]
    try:
        return float(limited(budget + ALLOWANCE, command, timeout=600)[1])
    except (SystemExit, subprocess.TimeoutExpired):
        return None


def afresh() -> None:
    remove(target, trends)
    cold(cube)


claim = Claim("A NetCDF cube", options)
python, found = environment.rivals(options.directory, "xarray", "h5netcdf", "h5py")
if python is None:
    raise SystemExit(f"xarray and Dask cannot be installed: {found}")
claim.note(f"others: {found}")
remove(cube)
limited(8192 * MIB, [str(python), "-c", MAKE, str(cube), repr(shape), repr(chunks)])
size = cube.stat().st_size
table = []
for job, passes in (("anomaly", 2), ("trends", 1)):
    for budget in budgets:
        reads, limits, ratios, failed = [], [], [], False
        for _ in range(options.rounds):
            afresh()
            run = ours(job, budget)
            reads.append(run["kernel_read"] / size / passes)
            limits.append(run["peak_rss"] / (budget + ALLOWANCE))
            afresh()
            # What ran out of memory took minutes to do so, and would again.
            seconds = None if failed else theirs(python, job, budget)
            failed = seconds is None
            said = "out of memory" if seconds is None else f"{seconds:.2f}"
            table.append([f"{job}, {budget // MIB} MiB", f"{run['seconds']:.2f}", said])
            print(f"    {table[-1]}")
            if seconds is not None:
                ratios.append(seconds / run["seconds"])
        what = f"{job}, {budget // MIB} MiB"
        claim.row(f"{what}: bytes read / size, a pass", reads, 1.05, 1.01, low=True, worst=True)
        if ratios:
            claim.row(f"{what}: time of xarray and Dask / ours", ratios, 1.0, 1.5, low=False)
        claim.row(f"{what}: memory used / allowed", limits, 1.0, 1.0, low=True, worst=True)
claim.note(
    f"stored in {size / nbytes:.2f} of its size; median of ours over all: "
    f"{statistics.median(float(row[1]) for row in table):.2f} s"
)
claim.table("Seconds", ["job", "Outcrop", "xarray and Dask"], table)
claim.save()
remove(cube, target, trends)
