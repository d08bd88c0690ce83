"""LU with partial pivoting: its rate, what it reads, where its two orders cross, and SOLAR's own table."""

import math
import statistics
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import GIB, MIB, Claim, arguments, remove
from sides import data
from sides.linear import (
    InMemory,
    accounts,
    check_cholesky,
    check_lu,
    computed,
    make_matrix,
    pure_compute,
    scratch,
)

import outcrop as oc


class Case(NamedTuple):
    """A matrix, and a budget in MiB."""

    dtype: str
    n: int
    budget: int

    @property
    def flops(self) -> float:
        return self.n**3 * 2 / 3 * (4 if self.dtype == "complex128" else 1)

    def __str__(self) -> str:
        return f"{self.dtype}, n = {self.n}, {self.budget} MiB"


class Model(NamedTuple):
    """Elements that the two orders move, as far as n^3 and n^2 go, with reading A and writing LU."""

    left: float
    recursive: float


def models(n: int, words: float) -> Model:
    """For memory for so many elements; a panel takes three quarters of it."""
    width = max(0.75 * words / n, 1)
    # Columns are halved until a panel holds them, and half of them moved each time.
    halvings = max(math.log2(n / width), 0)
    return Model(
        n**3 / (3 * width) + 2 * n * n,
        n**3 * 2 / 3 / math.sqrt(words) + n * n * (2 + halvings / 2),
    )


def floors(case: Case) -> tuple[float, float]:
    """The part of the best rate in memory that is claimed, and the aim: less with little memory."""
    part = case.n**2 * np.dtype(case.dtype).itemsize / (case.budget * MIB)
    return (0.85, 0.95) if part <= 16 else (0.80, 0.85)


options = arguments(__doc__)
if options.quick:
    CASES = [Case("float64", 2048, 4), Case("float32", 2048, 4), Case("complex128", 1024, 4)]
    PLANNED, BUDGETS = 2048, (4, 16)
    ORDERS, MEMORY = (1024, 2048), (16, 64)
else:
    CASES = [
        Case("float64", 12288, 72),
        Case("float64", 24576, 72),
        Case("float64", 24576, 288),
        Case("float32", 12288, 36),
        Case("complex128", 12288, 144),
    ]
    PLANNED, BUDGETS = 16384, (16, 32, 64, 128, 256, 512, 1024)
    ORDERS, MEMORY = (2048, 4096, 8192, 14336), (16, 64)


claim = Claim("LU with partial pivoting, and SOLAR's table", options)
memory = InMemory(options, claim)


def chosen(remark: str) -> str:
    """The order that was taken, and how many columns are in memory at once."""
    order, columns = remark.split(", ")[-2:] if ", " in remark else (remark, "")
    found = [part for part in remark.split("; ") if "left-looking" in part or "recursive" in part]
    text = found[0] if found else f"{order}, {columns}"
    return "recursive" if "recursive" in text else "left-looking"


def by_plans(directory: Path) -> list[tuple[str, ...]]:
    """What is moved at each budget, by plans, beside both models."""
    rows = []
    n = PLANNED
    with oc.config(memory=GIB):
        A = oc.create(directory / "planned.zarr", (n, n))
        # What is not stored is not read.
        A[...] = 0.0
        A._source.store.settle()
    factors = oc.linalg.lu_factor(A)
    for budget in BUDGETS:
        with oc.config(memory=budget * MIB):
            try:
                plan = oc.plan({"lu.zarr": factors.lu, "piv.zarr": factors.piv})
            except oc.BudgetError as error:
                claim.note(f"n = {n}, {budget} MiB: {(error.needed or 0) / MIB:.0f} MiB are needed")
                continue
        moved = plan.bytes_read + plan.bytes_written
        model = models(n, budget * MIB / 8)
        over = moved / 8 / min(model)
        claim.row(
            f"n = {n}, {budget} MiB: bytes moved / the better model", [over], 1.6, 1.0, low=True
        )
        rows.append(
            (
                f"{budget} MiB",
                f"1/{8 * n * n // (budget * MIB)}",
                f"{model.left / n / n:.1f}",
                f"{model.recursive / n / n:.1f}",
                chosen(plan._facts["remark"]),
                f"{plan.bytes_read / 8 / n / n:.1f}",
                f"{plan.bytes_written / 8 / n / n:.1f}",
                f"{over:.2f}",
            )
        )
    A._source.abort()
    return rows


def least(budget: int, expression: str, *inputs: Path) -> int | None:
    """The budget that is needed, if this one is too small."""
    with oc.config(memory=budget):
        result = eval(expression, {"oc": oc}, {"inputs": [oc.open(path) for path in inputs]})
        try:
            oc.plan(
                {f"{i}.zarr": x for i, x in enumerate(result)}
                if isinstance(result, tuple)
                else result
            )
        except oc.BudgetError as error:
            return error.needed
    return None


def waiting(run: dict[str, Any]) -> tuple[float, float]:
    """The part of the time in which processors have nothing to do, and in which only the disk has."""
    idle = 1 - pure_compute(run) / run["seconds"]
    return idle, max(run["io_seconds"] - run["overlap"], 0) / run["seconds"]


ratios: dict[Case, list[float]] = {case: [] for case in CASES}
runs: dict[Case, list[dict[str, Any]]] = {case: [] for case in CASES}
solar, solar_runs = [], []
with scratch(options, "lu") as directory:
    crossing = by_plans(directory)
    target = directory / "LU.zarr"
    for case in CASES:
        source = directory / "A.zarr"
        remove(source)
        with oc.config(memory=GIB):
            oc.fromfunction(data.mixed, (case.n, case.n), case.dtype).save(source)
        for number in range(options.rounds):
            best = memory.measure("lu", case.dtype, case.n, case.flops)
            run = computed(case.budget * MIB, "oc.linalg.lu_factor(inputs[0])", target, source)
            if number == 0:
                check_lu(source, target)
            ratios[case].append(case.flops / run["seconds"] / best)
            runs[case].append(run)
            print(
                f"    {case}: {run['seconds']:.2f} s, {case.flops / run['seconds'] / 1e9:.1f} Gflop/s, "
                f"{ratios[case][-1]:.3f} of in memory"
            )
        remove(source)
    for n in ORDERS:
        vector = directory / "b.npy"
        np.save(vector, np.ones(n))
        for name, function, factor, assume in (
            ("LU", data.mixed, "oc.linalg.lu_factor(inputs[0])", "gen"),
            ("Cholesky", data.positive, "oc.linalg.cholesky(inputs[0])", "pos"),
        ):
            source = make_matrix(directory / "A.zarr", function, (n, n), "float64", (256, 256))
            for budget in MEMORY:
                solve = f"oc.linalg.solve(inputs[0], inputs[1], assume={assume!r})"
                for what, expression, inputs in (
                    ("factor", factor, (source,)),
                    ("factor and solve", solve, (source, vector)),
                ):
                    out = target if what == "factor" else directory / "x.zarr"
                    needed = least(budget * MIB, expression, *inputs)
                    if needed is not None:
                        title = f"{name}, {what}, n = {n}, {budget} MiB"
                        claim.note(f"{title}: {needed / MIB:.0f} MiB are needed")
                        continue
                    run = computed(budget * MIB, expression, out, *inputs)
                    solar_runs.append(run)
                    idle, disk = waiting(run)
                    rate = run["flops"] / run["seconds"] / 1e9
                    solar.append(
                        (
                            *(name, what, str(n), f"{budget} MiB", f"{run['seconds']:.2f}"),
                            *(f"{rate:.1f}", f"{100 * idle:.1f} %", f"{100 * disk:.1f} %"),
                        )
                    )
                    print("    " + ", ".join(solar[-1]))
                    title = f"{name}, {what}, n = {n}, {budget} MiB: only the disk works"
                    claim.row(title, [disk], 0.03, 0.01, low=True)
                    if what == "factor":
                        (check_lu if name == "LU" else check_cholesky)(source, target)

curve = []
for case in CASES:
    claim.row(f"{case}: rate / best rate in memory", ratios[case], *floors(case), low=False)
    seconds = statistics.median(run["seconds"] for run in runs[case])
    last = runs[case][-1]
    model = models(case.n, case.budget * MIB / np.dtype(case.dtype).itemsize)
    moved = (last["read"] + last["written"]) / np.dtype(case.dtype).itemsize
    curve.append(
        (
            str(case),
            chosen(last["remark"]),
            f"{case.flops / seconds / 1e9:.1f}",
            f"{statistics.median(ratios[case]):.3f}",
            f"{last['read'] / GIB:.2f}",
            f"{last['written'] / GIB:.2f}",
            f"{moved / min(model):.2f}",
            f"{seconds:.1f}",
            f"{pure_compute(last):.1f}",
            f"{last['io_seconds']:.1f}",
            f"{last['overlap']:.1f}",
        )
    )
accounts(claim, [run for case in CASES for run in runs[case]] + solar_runs)
claim.table(
    f"n = {PLANNED}, float64, by plans: elements moved, in n^2, A read and LU written with them",
    (
        "budget",
        "of the matrix",
        "left-looking",
        "recursive",
        "taken",
        "read",
        "written",
        "of the better",
    ),
    crossing,
)
claim.table(
    "Medians; seconds in which kernels ran (on each thread), the disk was busy, and both",
    (
        *(
            "matrix",
            "order",
            "Gflop/s",
            "of in memory",
            "GiB read",
            "written",
            "of the better model",
        ),
        *("seconds", "kernels", "disk", "both"),
    ),
    curve,
)
claim.table(
    "SOLAR's orders and memory; the part of the time in which processors are idle, and only the disk works",
    ("what", "", "n", "budget", "seconds", "Gflop/s", "idle", "only the disk"),
    solar,
)
claim.table("In memory, medians", ("who", "dtype", "Gflop/s"), memory.table())
claim.save()
