"""Where moving data takes as long as computing, both happen at the same time.

Two products are made so long in the dimension that decides about it that the time predicted for the
disk and that for the kernels are alike: one that mostly writes, and one that mostly reads.
"""

import statistics
from pathlib import Path
from typing import Any, NamedTuple

from common import GIB, MIB, Claim, arguments
from sides import data
from sides.linear import (
    accounts,
    check_product,
    computed,
    copying,
    filling,
    make_matrix,
    planned,
    pure_compute,
    reading,
    scratch,
)


class Job(NamedTuple):
    """A product of two tall matrices, A B^T or A^T B."""

    name: str
    expression: str
    tall: int
    tile: int

    def made(self, directory: Path, tall: int, thin: int) -> tuple[Path, Path]:
        """The two matrices."""
        # Of A^T B the result has two tiles by two at least, that both threads have work.
        tile = (self.tile, thin if self.expression.endswith("T") else thin // 2)
        shape = (tall, thin)
        a = make_matrix(directory / "A.zarr", data.left, shape, "float64", tile)
        return a, make_matrix(directory / "B.zarr", data.right, shape, "float64", tile)


options = arguments(__doc__)
budget = 256 * MIB
JOBS = [
    Job("A B^T", "inputs[0] @ inputs[1].T", 8192 if options.quick else 32768, 1024),
    Job("A^T B", "inputs[0].T @ inputs[1]", 131072 if options.quick else 1 << 20, 2048),
]
claim = Claim(f"Products with as much moving as computing, budget {budget // MIB} MiB", options)


def balanced(job: Job, directory: Path) -> int:
    """The other extent, by which both predictions are alike; a multiple of 32."""
    # Shorter, for this, where reading is what counts: both times grow in proportion.
    tall = job.tall if job.expression.endswith("T") else job.tall // 8
    thin = 384
    for _ in range(6):
        plan = planned(budget, job.expression, *job.made(directory, tall, thin))
        ratio = plan["io_seconds"] / plan["compute_seconds"]
        if 0.95 < ratio < 1.05:
            break
        # Computing grows with `thin` in proportion to what has to be moved.
        thin = max(32, min(2048, round(thin * ratio / 32) * 32))
    return thin


runs: list[dict[str, Any]] = []
rows = []
with scratch(options, "balance") as directory:
    target = directory / "C.zarr"
    for job in JOBS:
        thin = balanced(job, directory)
        a, b = job.made(directory, job.tall, thin)
        outer = job.expression.endswith("T")
        what = f"{job.name} for {job.tall} x {thin}"
        by_prediction, by_measurement, own = [], [], []
        for number in range(options.rounds):
            run = computed(budget, job.expression, target, a, b)
            if number == 0:
                check_product(a, b, target, adjoint="right" if outer else "left")
            if outer:
                # What is written beside as much reading, and the rest alone.
                beside = min(job.tall, round(run["read"] / (8 * job.tall)))
                scrap = directory / "other.zarr"
                moving = copying(budget, target, scrap, beside)
                moving += filling(budget, scrap, (job.tall - beside, job.tall), (1024, 1024))
            else:
                moving = reading(budget, a, b) * run["read"] / (2 * 8 * job.tall * thin)
            computing = pure_compute(run)
            by_prediction.append(run["seconds"] / max(run["planned_io"], run["planned_compute"]))
            by_measurement.append(run["seconds"] / max(moving, computing))
            own.append((run, moving, computing))
            print(
                f"    {what}: {run['seconds']:.2f} s, planned {run['planned_seconds']:.2f} s (disk "
                f"{run['planned_io']:.2f}, kernels {run['planned_compute']:.2f}); measured disk "
                f"{moving:.2f}, kernels {computing:.2f}, overlap {run['overlap']:.2f}"
            )
        runs += [run for run, _, _ in own]
        alike = [run["planned_io"] / run["planned_compute"] for run, _, _ in own]
        claim.row(
            f"{what}: predicted times, larger / smaller",
            [max(x, 1 / x) for x in alike],
            1.2,
            1.1,
            low=True,
        )
        claim.row(f"{what}: time / larger of the predicted", by_prediction, 1.15, 1.05, low=True)
        claim.row(f"{what}: time / larger of the measured", by_measurement, 1.15, 1.05, low=True)

        def median(values: list[float]) -> str:
            return f"{statistics.median(values):.2f}"

        rows.append(
            (
                what,
                f"{own[0][0]['read'] / GIB:.2f}",
                f"{own[0][0]['written'] / GIB:.2f}",
                median([run["seconds"] for run, _, _ in own]),
                median([run["planned_io"] for run, _, _ in own]),
                median([run["planned_compute"] for run, _, _ in own]),
                median([moving for _, moving, _ in own]),
                median([computing for _, _, computing in own]),
                median([run["overlap"] for run, _, _ in own]),
            )
        )

accounts(claim, runs)
claim.table(
    "Seconds, medians: in all; predicted and measured for the disk alone and for the kernels; in which both were busy",
    (
        *("product", "GiB read", "GiB written", "in all", "disk, predicted"),
        *("kernels, predicted", "disk, measured", "kernels, measured", "both"),
    ),
    rows,
)
claim.save()
