"""Kernel ridge regression on the flights out of New York in 2013, in an eighth of its memory.

    python examples/delays.py [--memory 256MiB] [--flights 16000] [--directory DIR]

A Gaussian kernel between 16,000 flights is a matrix of 1.9 GiB. It is made on disk, and a system
with it is solved inside the memory budget. What the model has learned is then tried on flights that
it has not seen. Needs 4 GiB of free disk, and removes what it makes.
"""

import os

# The tiles are made by NumPy one at a time, while the engine's threads do the rest.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import flights
import numpy as np

import outcrop as oc

MIB, GIB = 1 << 20, 1 << 30


class Progress:
    """One line that says how far it is, on a terminal; nothing elsewhere."""

    def __init__(self, what: str, total_seconds: float | None = None) -> None:
        self.what = what
        self.total = total_seconds
        self.begin = time.perf_counter()
        self.shown = sys.stderr.isatty()

    def __call__(self, done: int, total: int) -> None:
        if not self.shown or not total:
            return
        part, passed = done / total, time.perf_counter() - self.begin
        # At first what the plan says, later what has come true of it.
        left = max((self.total or passed) - passed, 0.0) if part < 0.05 else passed / part - passed
        bar = "#" * round(30 * part)
        line = f"\r  {self.what}  [{bar:<30}] {part:4.0%}  {left:3.0f} s left "
        sys.stderr.write(line if done < total else "\r" + " " * len(line) + "\r")
        sys.stderr.flush()


def measured(what: str, work: Callable[[], oc.Array]) -> oc.Array:
    """Run something, and say what it cost."""
    result = work()
    run = oc.last_run()
    assert run is not None
    speed = f", {run.flops / run.seconds / 1e9:.0f} Gflop/s" if run.flops else ""
    print(
        f"  {what}: {run.seconds:.1f} s{speed}; read {run.bytes_read / GIB:.2f} GiB, "
        f"wrote {run.bytes_written / GIB:.2f} GiB; {run.peak_bytes / MIB:.0f} MiB of the budget"
    )
    return result


def residual(kernel: oc.Array, weights: flights.Floats, target: flights.Floats) -> float:
    """The largest error of an equation, with the matrix read tile by tile."""
    left = np.zeros_like(target)
    for (rows, columns), tile in kernel.tiles():
        left[rows] += tile @ weights[columns]
    return float(np.abs(left - target).max())


def demo(directory: Path, count: int) -> None:
    """Make the kernel matrix, solve, predict."""
    begin = time.perf_counter()
    data = flights.load(train=count)
    n, columns = data.train_x.shape
    mean = data.train_y.mean()
    target = data.train_y - mean
    budget = oc.config().memory
    print(
        f"{n} flights of 2013 to learn from, {columns} columns (schedule, carrier, route, weather, "
        f"plane);\n{len(data.test_y)} others of the same days and {len(data.days_y)} of days left "
        "out, to try it on"
    )
    kernel = oc.fromfunction(
        flights.kernel_tile(data.train_x, flights.WIDTH, flights.RIDGE), (n, n)
    )
    size = f"{kernel.nbytes / GIB:.2f} GiB"
    print(f"\nThe kernel matrix has {size}; the budget is {budget // MIB} MiB.\n")
    stored = measured(
        "made, tile by tile",
        lambda: kernel.save(directory / "kernel.zarr", tile=512, progress=Progress("the kernel")),
    )

    solution = oc.linalg.solve(stored, target, assume="pos")
    plan = oc.plan(solution)
    print(f"\nThe plan, before anything moves:\n{plan.explain()}\n")
    saved = measured(
        "solved",
        lambda: solution.save(
            directory / "weights.zarr", progress=Progress("solving", plan.seconds)
        ),
    )
    run = oc.last_run()
    assert run is not None
    moved = (run.bytes_read, run.bytes_written)
    weights = np.asarray(saved)
    print(f"  largest error of an equation: {residual(stored, weights, target):.1e} minutes")

    linear = flights.linear_model(data.train_x, data.train_y)
    tests = {"same days": (data.test_x, data.test_y), "days left out": (data.days_x, data.days_y)}
    scores: dict[str, list[float]] = {"linear model": [], "Gaussian kernel": []}
    for x, y in tests.values():
        scores["linear model"].append(flights.r_squared(y, linear(x)))
        told = mean + flights.predict(x, data.train_x, weights, flights.WIDTH)
        scores["Gaussian kernel"].append(flights.r_squared(y, told))
    print("\nHow much of the delays of unseen flights is explained (R^2):\n")
    print(f"  {'':16}" + "".join(f"{name:>15}" for name in tests))
    for name, values in scores.items():
        print(f"  {name:16}" + "".join(f"{value:15.3f}" for value in values))
    print(
        "\nThe kernel fills in the days that it knows; of other days it can tell little more than\n"
        "a straight line. Most of a delay is told by neither."
    )

    in_memory = 2 * kernel.nbytes
    print(
        f"\nIn memory the matrix and its factor would have taken {in_memory / GIB:.1f} GiB; here "
        f"the process never had more than {run.peak_rss / GIB:.2f} GiB."
    )
    agreed = moved == (plan.bytes_read, plan.bytes_written)
    print(
        f"Bytes moved: {'exactly as planned' if agreed else f'{moved}, not as planned'}. "
        f"All in all {time.perf_counter() - begin:.0f} s."
    )


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--memory", default="256MiB", help="memory budget")
    parser.add_argument("--flights", type=int, default=16_000, help="flights to learn from")
    parser.add_argument("--directory", type=Path, help="where to put the matrix; default: scratch")
    arguments = parser.parse_args()
    oc.config(memory=arguments.memory)
    parent = arguments.directory or os.environ.get("TMPDIR") or "/var/tmp"
    directory = Path(tempfile.mkdtemp(prefix="outcrop-demo-", dir=parent))
    try:
        oc.config(scratch=directory)
        demo(directory, arguments.flights)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
