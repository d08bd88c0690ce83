"""Sorting, medians, quantiles and Fourier transforms of 2 GiB in a sixteenth of that, and others.

The numbers are float64 in a row, in Zarr with default tiles and in a `.npy` file. Beside Outcrop, under the same memory
limit: NumPy on a memory map, and Dask, whose percentiles are approximations, and which has no sort.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from common import ALLOWANCE, GIB, MIB, Claim, arguments, cold, limited, outcrop, remove
from sides import environment

import outcrop as oc

WHAT = ("sorting", "fourier")
only = {"nargs": "*", "choices": WHAT, "default": WHAT, "help": "what is run; default: all"}
options = arguments(__doc__, only=only)
scale = 32 if options.quick else 1
count, budget, budget_fourier = (1 << 28) // scale, 128 * MIB // scale, 256 * MIB // scale
nbytes = 8 * count
limit, PATIENCE = budget + ALLOWANCE, 120
directory = options.directory
sources = {"Zarr": directory / "x.zarr", ".npy": directory / "x.npy"}
target = {"Zarr": directory / "sorted.zarr", ".npy": directory / "sorted.npy"}
waves = {"Zarr": directory / "waves.zarr", ".npy": directory / "waves.npy"}

JOBS = {
    "sort": ("oc.sort(oc.open(sys.argv[1])).save(sys.argv[2])", 2.2, 2.1),
    "median": ("oc.median(oc.open(sys.argv[1]))", 2.2, 0.01),
    "quantile": ("oc.quantile(oc.open(sys.argv[1]), [0.01, 0.5, 0.99])", 2.2, 0.01),
    "top_k": ("oc.top_k(oc.open(sys.argv[1]), 1000).values.compute()", 1.1, 0.01),
}
"""What is run, and passes read and written at most: sorted runs are written to scratch."""

NUMPY = """
import sys, time, numpy as np
start = time.perf_counter()
x = np.load(sys.argv[1], mmap_mode="r")
{body}
print(time.perf_counter() - start)
"""
WITH_NUMPY = {
    "sort": 'out = np.lib.format.open_memmap(sys.argv[2], "w+", "f8", x.shape)\n'
    "for i in range(0, len(x), 1 << 20):\n    out[i : i + (1 << 20)] = x[i : i + (1 << 20)]\n"
    "out.sort(); out.flush()",
    "median": "np.median(x)",
    "quantile": "np.quantile(x, [0.01, 0.5, 0.99])",
    "top_k": "np.partition(x, len(x) - 1000)[-1000:]",
}
DASK = """
import sys, time, numpy as np, dask.array as da
start = time.perf_counter()
x = da.from_zarr(sys.argv[1])
{body}
print(time.perf_counter() - start)
"""
WITH_DASK = {
    "median": "da.percentile(x, [50]).compute()",
    "quantile": "da.percentile(x, [1, 50, 99]).compute()",
    "top_k": "da.topk(x, 1000).compute()",
}


def theirs(python: Path | str, script: str, source: Path) -> float | None:
    """Seconds; None where memory is short, or it takes too long."""
    remove(target[".npy"])
    cold(source)
    command = [str(python), "-c", script, str(source), str(target[".npy"])]
    try:
        return float(limited(limit, command, timeout=PATIENCE)[1])
    except (SystemExit, subprocess.TimeoutExpired):
        return None


def ours(body: str, source: Path, to: Path, memory: int) -> dict[str, Any]:
    remove(to)
    cold(source)
    measured = f"before = io(); start = time.perf_counter()\n{body}\nseconds = time.perf_counter() - start\nreport()\n"
    return outcrop(memory + ALLOWANCE, memory, measured, str(source), str(to))


claim = Claim("Sorting, medians and Fourier transforms of 2 GiB", options)
python, found = environment.rivals(directory)
claim.note(f"others: {found}")
with oc.config(memory=GIB):
    for source in sources.values() if "sorting" in options.only else ():
        remove(source)
        oc.random.default_rng(7).standard_normal(count).save(source)
table = []
beside: dict[tuple[str, str], list[float]] = {}
over: set[tuple[str, str]] = set()
for layout, source in sources.items() if "sorting" in options.only else ():
    for job, (body, most_read, most_written) in JOBS.items():
        reads, writes, limits = [], [], []
        for _ in range(options.rounds):
            run = ours(body, source, target[layout], budget)
            reads.append(run["kernel_read"] / nbytes)
            writes.append(run["kernel_written"] / nbytes)
            limits.append(run["peak_rss"] / limit)
            row = [
                f"{job}, {layout}",
                f"{run['seconds']:.1f}",
                f"{reads[-1]:.2f}",
                f"{writes[-1]:.2f}",
            ]
            rivals = {}
            if layout == ".npy":
                rivals["NumPy memmap"] = (sys.executable, NUMPY.format(body=WITH_NUMPY[job]))
            elif job in WITH_DASK and python is not None:
                rivals["Dask"] = (str(python), DASK.format(body=WITH_DASK[job]))
            said = ""
            for name, (interpreter, script) in rivals.items():
                if (job, name) in over:
                    continue
                seconds = theirs(interpreter, script, source)
                if seconds is None:
                    over.add((job, name))
                    said = f"{name}: out of memory, or not in {PATIENCE} s"
                else:
                    said = f"{name}: {seconds:.1f}"
                    beside.setdefault((job, name), []).append(seconds / run["seconds"])
            table.append([*row, said])
            print(f"    {table[-1]}")
        what = f"{job}, {layout}"
        claim.row(f"{what}: bytes read / size", reads, most_read, 1.0, low=True, worst=True)
        claim.row(f"{what}: bytes written / size", writes, most_written, 0.0, low=True, worst=True)
        claim.row(f"{what}: memory used / allowed", limits, 1.0, 1.0, low=True, worst=True)
for (job, name), ratios in beside.items():
    claim.row(f"{job}: time of {name} / ours", ratios, 1.0, 2.0, low=False)
remove(*sources.values(), *target.values())

# A part of it by sums: each 256th value is the transform of the sums of what is that far apart, which fits.
points = count // 2
apart = points // 256
for layout, source in waves.items() if "fourier" in options.only else ():
    with oc.config(memory=GIB):
        remove(source)
        signal = oc.random.default_rng(8)
        (signal.standard_normal(points) + 1j * signal.standard_normal(points)).save(source)
    reads, writes, limits = [], [], []
    for _ in range(options.rounds):
        call = "oc.fft.fft(oc.open(sys.argv[1])).save(sys.argv[2])"
        run = ours(call, source, target[layout], budget_fourier)
        reads.append(run["kernel_read"] / (16 * points))
        writes.append(run["kernel_written"] / (16 * points))
        limits.append(run["peak_rss"] / (budget_fourier + ALLOWANCE))
        row = [f"FFT of {points}, {layout}", f"{run['seconds']:.1f}"]
        table.append([*row, f"{reads[-1]:.2f}", f"{writes[-1]:.2f}", ""])
        print(f"    {table[-1]}")
    what = f"FFT of {points} complex numbers, {layout}"
    claim.row(f"{what}: bytes read / size", reads, 3, 2, low=True, worst=True)
    claim.row(f"{what}: bytes written / size", writes, 3, 2, low=True, worst=True)
    claim.row(f"{what}: memory used / allowed", limits, 1.0, 1.0, low=True, worst=True)
    with oc.config(memory=GIB):
        given, made = oc.open(source), oc.open(target[layout])
        folded = sum(given[i * apart : (i + 1) * apart].compute() for i in range(256))
        expected = np.fft.fft(folded)
        error = float(np.abs(made[::256].compute() - expected).max() / np.abs(expected).max())
    difference = "largest difference from NumPy's of a part, relative"
    claim.row(f"{what}: {difference}", [error], 1e-12, 1e-14, low=True)
    remove(source, target[layout])
claim.table("Seconds, and passes", ["job", "Outcrop", "read", "written", "others"], table)
claim.save()
