"""A Cholesky factor larger than memory takes little longer than one in memory, at every budget."""

import math
import statistics
from typing import Any, NamedTuple

import numpy as np
from common import GIB, MIB, Claim, arguments, remove
from sides import data
from sides.linear import (
    InMemory,
    accounts,
    check_cholesky,
    computed,
    make_matrix,
    pure_compute,
    scratch,
)


class Case(NamedTuple):
    """A matrix, its tiles, and a budget in MiB."""

    dtype: str
    n: int
    tile: int
    budget: int

    @property
    def itemsize(self) -> int:
        return np.dtype(self.dtype).itemsize

    @property
    def flops(self) -> float:
        return self.n**3 / 3 * (4 if self.dtype == "complex128" else 1)

    @property
    def bound(self) -> float:
        """Bytes: what any schedule reads with so much memory, and the lower half once."""
        words = self.budget * MIB / self.itemsize
        return self.itemsize * (self.n**3 / (3 * math.sqrt(words)) + self.n * (self.n + 1) / 2)

    def __str__(self) -> str:
        return f"{self.dtype}, {self.budget} MiB, tiles of {self.tile} x {self.tile}"


options = arguments(__doc__)
if options.quick:
    CASES = [
        Case("float64", 4096, 128, 16),
        Case("float64", 4096, 256, 64),
        Case("float64", 4096, 512, 64),
        Case("float64", 4096, 512, 256),
        Case("float32", 4096, 512, 64),
        Case("complex128", 2048, 256, 64),
    ]
else:
    CASES = [
        Case("float64", 24576, 256, 64),
        Case("float64", 24576, 512, 256),
        Case("float64", 24576, 1024, 256),
        Case("float64", 24576, 512, 1024),
        Case("float64", 24576, 1024, 1024),
        Case("float32", 24576, 1024, 256),
        Case("complex128", 12288, 512, 256),
    ]
size = CASES[0].n ** 2 * 8 / GIB
claim = Claim(
    f"Cholesky factor of a float64 matrix of {CASES[0].n} x {CASES[0].n} ({size:g} GiB)", options
)
memory = InMemory(options, claim)
ratios: dict[Case, list[float]] = {case: [] for case in CASES}
runs: dict[Case, list[dict[str, Any]]] = {case: [] for case in CASES}

with scratch(options, "cholesky") as directory:
    target = directory / "L.zarr"
    # One matrix at a time is on disk, and the sides take turns.
    for dtype, n in dict.fromkeys((case.dtype, case.n) for case in CASES):
        cases = [case for case in CASES if (case.dtype, case.n) == (dtype, n)]
        function = data.hermitian if np.dtype(dtype).kind == "c" else data.positive
        sources = {
            tile: make_matrix(
                directory / f"{dtype}{tile}.zarr", function, (n, n), dtype, (tile, tile)
            )
            for tile in dict.fromkeys(case.tile for case in cases)
        }
        for number in range(options.rounds):
            best = memory.measure("cholesky", dtype, n, cases[0].flops)
            for case in cases:
                expression = "oc.linalg.cholesky(inputs[0])"
                run = computed(case.budget * MIB, expression, target, sources[case.tile])
                if number == 0:
                    check_cholesky(sources[case.tile], target)
                rate = case.flops / run["seconds"]
                ratios[case].append(rate / best)
                runs[case].append(run)
                print(
                    f"    {case}: {run['seconds']:.2f} s, {rate / 1e9:.1f} Gflop/s, planned "
                    f"{run['planned_seconds']:.2f} s, overlap {run['overlap']:.2f} s"
                )
        remove(*sources.values(), target)

curve, rows = [], memory.table()
for case in CASES:
    claim.row(f"{case}: rate / best rate in memory", ratios[case], 0.85, 0.95, low=False)
    reads = [run["read"] / case.bound for run in runs[case]]
    claim.row(f"{case}: bytes read / bound", reads, 1.25, 1.0, low=True, worst=True)
for case in CASES:
    accounts(claim, runs[case], str(case))
    last = runs[case][-1]
    seconds = statistics.median(run["seconds"] for run in runs[case])
    curve.append(
        (
            case.dtype,
            f"{case.budget} MiB",
            f"{case.tile} x {case.tile}",
            f"{case.flops / seconds / 1e9:.1f}",
            f"{statistics.median(ratios[case]):.3f}",
            f"{last['read'] / GIB:.2f}",
            f"{last['read'] / case.bound:.2f}",
            f"{seconds:.1f}",
            f"{pure_compute(last):.1f}",
            f"{last['io_seconds']:.1f}",
            f"{last['overlap']:.1f}",
        )
    )
claim.table("In memory, medians", ("who", "dtype", "Gflop/s"), rows)
claim.table(
    "Rate against budget, medians; seconds in which kernels ran (on each thread), in which the disk was busy, and both",
    (
        *("dtype", "budget", "tiles", "Gflop/s", "of in memory", "GiB read", "of bound"),
        *("seconds", "kernels", "disk", "both"),
    ),
    curve,
)
claim.save()
