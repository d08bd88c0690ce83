"""A stencil moves as much as a function of elements, and so does each step of a loop of stencils.

X of 2 GiB, f64, with 256 MiB of memory; what a step costs is compared with `X * 2`, which reads and
writes as much, in the same run. NumPy goes through its memmaps in blocks of 1000 rows.
"""

import sys

import numpy as np
from common import ALLOWANCE, GIB, MIB, Claim, arguments, cold, limited, outcrop, remove

options = arguments(__doc__)
columns = 1000
rows = (2 * GIB if not options.quick else GIB // 8) // (8 * columns)
nbytes = 8 * rows * columns
budget = 256 * MIB
limit = budget + ALLOWANCE
plain, tiled = options.directory / "X.npy", options.directory / "X.zarr"
target = options.directory / "result"

STEPS = 4
SETUP = """
def five_points(u):
    return (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]) / 4

def loop(u, step):
    for _ in range(4):
        u = step(u)
    return u

X, target = oc.open(sys.argv[1]), sys.argv[2]
"""
RUN = """
result = {call}
plan = oc.plan(result)
before = io(); start = time.perf_counter()
result.save(target + ".zarr")
seconds = time.perf_counter() - start
report(planned=plan.bytes_read + plan.bytes_written, predicted=plan.seconds)
"""
CALLS = {
    # What is computed, of how many steps, and how much longer than X * 2 a step takes: floor, aim.
    "five points": ("five_points(X)", 1, 1.5, 1.1),
    "differences of rows": ("np.diff(X, axis=0)", 1, 1.5, 1.1),
    "five points, padded, four times": (
        "loop(X, lambda u: np.pad(five_points(u), 1))",
        STEPS,
        3.0,
        1.1,
    ),
    "four neighbours by np.roll, four times": (
        "loop(X, lambda u: (np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1)"
        " + np.roll(u, -1, 1)) / 4)",
        STEPS,
        3.0,
        1.1,
    ),
}
NUMPY = """
import sys
import numpy as np
X = np.load(sys.argv[1], mmap_mode="r")
rows, columns = X.shape
out = np.lib.format.open_memmap(sys.argv[2] + ".npy", "w+", np.float64, (rows - 2, columns - 2))
for i in range(0, rows - 2, 1000):
    u = X[i : i + 1002]
    out[i : i + 1000] = (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]) / 4
out.flush()
"""


def make() -> None:
    """Random numbers, in a file and in tiles."""
    remove(plain, tiled)
    block = np.random.default_rng(1).random((1000, columns))
    with plain.open("wb") as file:
        np.lib.format.write_array_header_1_0(
            file, {"descr": "<f8", "fortran_order": False, "shape": (rows, columns)}
        )
        for i in range(0, rows, 1000):
            file.write(block[: min(1000, rows - i)].tobytes())
    outcrop(
        limit,
        budget,
        "before = io(); start = seconds = 0\n"
        "oc.open(sys.argv[1]).save(sys.argv[2], tile=(500, 500)); report()",
        str(plain),
        str(tiled),
    )


def ours(source: object, call: str) -> dict[str, float]:
    remove(target.with_suffix(".zarr"))
    cold(plain, tiled)
    return outcrop(limit, budget, SETUP + RUN.format(call=call), str(source), str(target))


make()
claim = Claim("Stencils", options)
reads, moved, differences, kernels, limits, table = [], [], [], [], [], []
for source in (plain, tiled):
    for name, (call, steps, floor, aim) in CALLS.items():
        ratios = []
        for _ in range(options.rounds):
            alone = ours(source, "X * 2")
            run = ours(source, call)
            ratios.append(run["seconds"] / steps / alone["seconds"])
            reads.append(run["read"] / alone["read"] / steps)
            moved.append(
                (run["read"] + run["written"]) / steps / (alone["read"] + alone["written"])
            )
            differences.append(abs(run["planned"] - run["read"] - run["written"]) / nbytes)
            kernels.append(run["kernel_read"] / run["read"])
            kernels.append(run["kernel_written"] / run["written"])
            limits.append(run["peak_rss"] / limit)
            limits.append(run["peak_bytes"] / budget)
            table.append(
                [
                    f"{name}, {source.suffix[1:]}",
                    f"{run['seconds']:.2f}",
                    f"{run['predicted']:.2f}",
                    f"{alone['seconds']:.2f}",
                    f"{run['read'] / nbytes:.2f}",
                    f"{run['written'] / nbytes:.2f}",
                ]
            )
            print(f"    {table[-1]}")
        claim.row(
            f"{name}, {source.suffix[1:]}: time of a step / of X * 2", ratios, floor, aim, low=True
        )
blocks = []
for _ in range(options.rounds):
    remove(target.with_suffix(".npy"))
    cold(plain)
    numpy, _ = limited(limit, [sys.executable, "-c", NUMPY, str(plain), str(target)])
    blocks.append(numpy / ours(plain, "five_points(X)")["seconds"])
claim.row("NumPy's memmaps in blocks / ours, five points", blocks, 1.0, 3.0, low=False)
# Padding the last step is a pass of its own, beside four.
claim.row("bytes read in a step / by X * 2", reads, 1.25, 1.02, low=True, worst=True)
claim.row("bytes moved in a step / by X * 2", moved, 1.25, 1.02, low=True, worst=True)
claim.row("bytes not planned / size", differences, 0.0, 0.0, low=True, worst=True)
claim.row("bytes: kernel / reported", kernels, 1.01, 1.001, low=True, worst=True)
claim.row("memory used / allowed", limits, 1.0, 1.0, low=True, worst=True)
header = ["computed", "s", "predicted", "X * 2", "read / size", "written / size"]
claim.table("every run", header, table)
claim.save()
remove(plain, tiled, target.with_suffix(".zarr"), target.with_suffix(".npy"))
