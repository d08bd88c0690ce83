"""Sweeps over a grid that memory does not hold run at the rate of the best ones in memory.

Livermore loop 23 over 16384 x 16384 doubles, six arrays of 12 GiB, from disk to disk. One sweep is
compared with reading six arrays and copying one; 32 sweeps with the plain Numba loop, with sweeps one behind
the other on all cores by Numba, and with Outcrop's own on arrays in memory. Then sweeps in flight from 1 to
64, and heat in three dimensions. Processes may have 400 MiB beside their budget, as Numba compiles in them.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

from common import GIB, MIB, Claim, arguments, cold, limited, measure_device, outcrop, remove
from sides.linear import HERE, THREADS, copying, reading, scratch
from sides.sweeps_job import ARRAYS, digest, element

import outcrop as oc

COMPILING = 400 * MIB
SWEEPS = 32
COUNTS = (1, 2, 4, 8, 16, 32, 64)

options = arguments(__doc__)
n, tile, much, little = (
    (2048, 256, 64 * MIB, 24 * MIB) if options.quick else (16384, 512, 2 * GIB, 256 * MIB)
)
cube, cube_tile, cube_budget = (
    (128, (8, 32, 128), 16 * MIB) if options.quick else (768, (8, 96, 768), 512 * MIB)
)
CUBE_SWEEPS = 16
IN_MEMORY = 20 * GIB
"""What processes may have that have everything in memory."""

SWEPT = """
from outcrop import _native
name, sweeps, target, *paths = sys.argv[1:]
oc.config(threads={threads})
given = [oc.open(path) for path in paths]
more = (0.125,) if name == "heat" else ()
# Compiles, and measures kernels and device where these are not known.
result = getattr(oc.sweeps, name)(*given, *more, sweeps=int(sweeps))
plan = oc.plan(result, target)
alike(); before = io(); start = time.perf_counter()
result.save(target)
seconds = time.perf_counter() - start
report(budget=oc.config().memory, depth=plan.depth, predicted=plan.seconds,
       planned=plan.bytes_read + plan.bytes_written)
"""


def make(directory: Path, name: str, shape: tuple[int, ...], tile: tuple[int, ...]) -> list[Path]:
    """The arrays of a problem, on disk."""
    paths = [directory / f"{name}{k}.zarr" for k in range(ARRAYS[name])]
    for k, path in enumerate(paths):
        with oc.config(memory=GIB):
            oc.fromfunction(element(k, shape), shape).save(path, tile=tile)
    return paths


def swept(
    name: str, sweeps: int, budget: int, target: Path, paths: list[Path], threads: int = THREADS
) -> dict[str, Any]:
    """Sweeps from disk to disk."""
    remove(target)
    cold(*paths)
    body = SWEPT.format(threads=threads)
    given = (name, str(sweeps), str(target), *map(str, paths))
    return outcrop(budget + COMPILING, budget, body, *given)


def in_memory(
    name: str, who: str, shape: tuple[int, ...], sweeps: int, threads: int, wanted: bool = False
) -> dict[str, Any]:
    """Sweeps in memory, as `sides.sweeps_job` does them."""
    # A result in memory is of the budget.
    nbytes = 8
    for extent in shape:
        nbytes *= extent
    numbers = (sweeps, threads, nbytes + GIB, int(wanted))
    command = [sys.executable, str(HERE / "sweeps_job.py"), name, who, "x".join(map(str, shape))]
    _, printed = limited(IN_MEMORY, [*command, *map(str, numbers)])
    result: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return result


def digest_of(path: Path) -> str:
    """Of an array on disk, as those in memory have it."""
    array = oc.open(path)
    step = max(1, 64 * MIB // (array.nbytes // len(array)))
    return digest(array[i : i + step].compute() for i in range(0, len(array), step))


def ns(seconds: float, shape: tuple[int, ...], sweeps: int) -> float:
    """For a cell and sweep."""
    cells = sweeps
    for extent in shape:
        cells *= extent
    return seconds / cells * 1e9


def best_in_memory(
    name: str, shape: tuple[int, ...], sweeps: int, wanted: bool
) -> tuple[float, dict[str, float], str | None]:
    """Seconds of the best way on all cores, those of each, and the digest that all have."""
    runs = {
        f"{who}, {THREADS} threads": in_memory(name, who, shape, sweeps, THREADS, wanted)
        for who in ("numba", "outcrop")
    }
    if len({run["digest"] for run in runs.values()}) > 1:
        raise SystemExit(f"{name}: in memory, results differ")
    seconds = {who: run["seconds"] for who, run in runs.items()}
    return min(seconds.values()), seconds, next(iter(runs.values()))["digest"]


measure_device(options.directory)
claim = Claim(
    f"Sweeps: Livermore loop 23, {n} x {n} doubles, and heat, {cube} x {cube} x {cube}", options
)
runs: list[dict[str, Any]] = []
square, cubic = (n, n), (cube, cube, cube)
table: list[list[str]] = []


def line(what: str, run: dict[str, Any], shape: tuple[int, ...], sweeps: int, size: int) -> None:
    """A row of the table of every run."""
    table.append(
        [
            what,
            str(sweeps),
            str(run["depth"]),
            f"{run['read'] / size:.3f}",
            f"{run['written'] / size:.3f}",
            f"{run['seconds']:.2f}",
            f"{run['predicted']:.2f}",
            f"{ns(run['seconds'], shape, sweeps):.2f}",
        ]
    )
    print(f"    {table[-1]}")
    runs.append(run)


# -- two dimensions ------------------------------------------------------------------------------

with scratch(options, "sweeps") as directory:
    paths = make(directory, "livermore23", square, (tile, tile))
    target, size = directory / "result.zarr", 8 * n * n
    once, slow, small, plain, moved, names = [], [], [], [], [], {}
    for number in range(options.rounds):
        direct = reading(much, *paths[1:]) + copying(much, paths[0], target, n)
        run = swept("livermore23", 1, much, target, paths)
        line(f"loop 23, {much // MIB} MiB", run, square, 1, size)
        once.append(run["seconds"] / direct)
        best, others, expected = best_in_memory("livermore23", square, SWEEPS, number == 0)
        for who, seconds in others.items():
            names.setdefault(who, []).append(ns(seconds, square, SWEEPS))
        alone = in_memory("livermore23", "numba", square, SWEEPS, 1)["seconds"]
        names.setdefault("numba, the plain loop", []).append(ns(alone, square, SWEEPS))
        for budget, ratios in ((much, slow), (little, small)):
            run = swept("livermore23", SWEEPS, budget, target, paths)
            line(f"loop 23, {budget // MIB} MiB", run, square, SWEEPS, size)
            if number == 0 and digest_of(target) != expected:
                raise SystemExit("the result is not that of the plain loop")
            ratios.append(run["seconds"] / best)
            if budget == much:
                moved.append((run["read"] + run["written"]) / (7 * size))
                plain.append(alone / run["seconds"])
    claim.row(
        f"one sweep, {much // MIB} MiB: time / of reading six and copying one",
        once, 1.25, 1.1, low=True,
    )  # fmt: skip
    claim.row(
        f"{SWEEPS} sweeps, {much // MIB} MiB: bytes moved / each array once",
        moved, 1.02, 1.0, low=True, worst=True,
    )  # fmt: skip
    claim.row(
        f"{SWEEPS} sweeps, {much // MIB} MiB: time / best in memory", slow, 1.25, 1.1, low=True
    )
    claim.row(
        f"{SWEEPS} sweeps, {little // MIB} MiB: rate / best in memory",
        [1 / ratio for ratio in small], 0.75, 0.9, low=False,
    )  # fmt: skip
    claim.row(
        f"{SWEEPS} sweeps, {much // MIB} MiB: rate / plain Numba loop in memory",
        plain, 4.0, 6.0, low=False,
    )  # fmt: skip

    # How the rate grows with sweeps in flight.
    flight, curves = [], {}
    for threads in range(1, THREADS + 1):
        for count in COUNTS:
            run = swept("livermore23", count, much, target, paths, threads)
            what = f"loop 23, {much // MIB} MiB, {threads} threads"
            line(what, run, square, count, size)
            rate = 1e3 / ns(run["seconds"], square, count)
            curves.setdefault(threads, []).append(rate)
            moves = (run["read"] + run["written"]) / count / size
            flight.append(
                [str(threads), str(count), str(run["depth"]), f"{moves:.3f}", f"{rate:.0f}"]
            )
    remove(*paths, target)

    # -- three dimensions ----------------------------------------------------------------------

    paths = make(directory, "heat", cubic, cube_tile)
    size, heat = 8 * cube**3, []
    for number in range(options.rounds):
        best, others, expected = best_in_memory("heat", cubic, CUBE_SWEEPS, number == 0)
        for who, seconds in others.items():
            names.setdefault(f"heat: {who}", []).append(ns(seconds, cubic, CUBE_SWEEPS))
        run = swept("heat", CUBE_SWEEPS, cube_budget, target, paths)
        line(f"heat, {cube_budget // MIB} MiB", run, cubic, CUBE_SWEEPS, size)
        if number == 0 and digest_of(target) != expected:
            raise SystemExit("the result is not that of the plain loop")
        heat.append(best / run["seconds"])
    claim.row(
        f"heat, {CUBE_SWEEPS} sweeps, {cube_budget // MIB} MiB: rate / best in memory",
        heat, 0.7, 0.85, low=False,
    )  # fmt: skip

# -- kernels -------------------------------------------------------------------------------------

# So many sweeps that planning does not count.
side, many = (512, 100) if options.quick else (2048, 100)
for name in ("livermore23", "gauss_seidel"):
    ratios = []
    for _ in range(options.rounds):
        shape = (side, side)
        loop = in_memory(name, "numba", shape, many, 1)["seconds"]
        own = in_memory(name, "outcrop", shape, many, 1)["seconds"]
        ratios.append(loop / own)
        names.setdefault(f"{name}, {side} x {side}: numba, 1 thread", []).append(
            ns(loop, shape, many)
        )
        names.setdefault(f"{name}, {side} x {side}: outcrop, 1 thread", []).append(
            ns(own, shape, many)
        )
    claim.row(f"{name} in memory, 1 core: plain Numba loop / ours", ratios, 4.0, 5.0, low=False)

# -- what every run keeps ------------------------------------------------------------------------

differences = [abs(run["planned"] - run["read"] - run["written"]) for run in runs]
claim.row("bytes moved that were not planned", differences, 0, 0, low=True, worst=True)
kernels = [
    run[f"kernel_{key}"] / run[key]
    for run in runs
    for key in ("read", "written")
    if run[key] >= 64 * MIB
]
if kernels:
    claim.row("bytes: kernel / reported", kernels, 1.01, 1.001, low=True, worst=True)
limits = [run["peak_bytes"] / run["budget"] for run in runs]
limits += [run["peak_rss"] / (run["budget"] + COMPILING) for run in runs]
claim.row("memory used / allowed", limits, 1.0, 1.0, low=True, worst=True)
claim.note("results are those of the plain loop, bit for bit")
claim.table(
    "Rate and traffic by sweeps in flight",
    ("threads", "sweeps", "in flight", "bytes of a sweep / size of an array", "M cells/s"),
    flight,
)
claim.table(
    "In memory, medians",
    ("who", "ns for a cell and sweep"),
    [[who, f"{statistics.median(values):.2f}"] for who, values in names.items()],
)
claim.table(
    "Every run",
    ("what", "sweeps", "in flight", "read / size of an array", "written", "s", "predicted", "ns"),
    table,
)
claim.save()
try:
    import matplotlib as mpl
except ImportError:
    pass
else:
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for threads, rates in curves.items():
        axes.plot(COUNTS, rates, "o-", label=f"{threads} thread{'s' * (threads > 1)}")
    axes.set_xscale("log", base=2)
    axes.set(xlabel="sweeps in flight", ylabel="million cells a second", ylim=(0, None))
    axes.set_title(f"Livermore loop 23, {n} x {n}, {much // MIB} MiB")
    axes.legend()
    figure.savefig(options.results / "sweeps.svg")
