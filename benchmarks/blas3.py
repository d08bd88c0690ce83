"""Level-3 BLAS in place on stores runs at the rate of BLAS in memory, and reads little more than it has to."""

import math
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import GIB, MIB, Claim, arguments, remove
from sides import data
from sides.linear import InMemory, accounts, changed, make_matrix, pure_compute, scratch

import outcrop as oc


class Routine(NamedTuple):
    """A routine, its arguments, and what it takes of square matrices.

    Attributes
    ----------
    flops : float
        In n^3.
    moved : float
        What any schedule reads, in n^3 / sqrt(M) elements.
    once : float
        What is read of matrices at least, in n^2 elements.
    """

    name: str
    arguments: str
    flops: float
    moved: float
    once: float


PRODUCT, UPDATE = "1.0, inputs[0], inputs[0], beta=1.0, C=C", "1.0, inputs[0], beta=1.0, C=C"
TRIANGLE = "1.0, inputs[0], C"
SYRK = 1 / math.sqrt(2)
"""Beaumont et al. 2022; of two products the same twice."""
ROUTINES = [
    # One matrix stands for both factors, so that it is read at least once.
    Routine("gemm", PRODUCT, 2, 2, 2),
    Routine("symm", PRODUCT, 2, 2, 2),
    Routine("hemm", PRODUCT, 2, 2, 2),
    Routine("syrk", UPDATE, 1, SYRK, 1.5),
    Routine("herk", UPDATE, 1, SYRK, 1.5),
    Routine("syr2k", "1.0, inputs[0], inputs[1], beta=1.0, C=C", 2, 2 * SYRK, 2.5),
    Routine("her2k", "1.0, inputs[0], inputs[1], beta=1.0, C=C", 2, 2 * SYRK, 2.5),
    Routine("trmm", TRIANGLE, 1, 1, 1.5),
    Routine("trsm", TRIANGLE, 1, 1, 1.5),
]
RATES = {16: (0.90, 0.97), 64: (0.80, 0.85)}
"""Parts of a matrix that budgets are, and which part of the rate in memory is claimed with these, and aimed at."""
ORDERS = {"float64": 24576, "float32": 12288, "complex128": 12288}
options = arguments(
    __doc__,
    only={"nargs": "*", "help": "names of routines"},
    dtype={"choices": list(ORDERS), "default": "float64"},
    part={"nargs": "*", "type": int, "default": list(RATES), "choices": list(RATES)},
)
dtype = options.dtype
itemsize = np.dtype(dtype).itemsize
is_complex = np.dtype(dtype).kind == "c"
# What is Hermitian is symmetric where it is real, and the same is called.
names = options.only or [
    one.name for one in ROUTINES if is_complex or not one.name.startswith("he")
]
ROUTINES = [one for one in ROUTINES if one.name in names]
parts = [16] if options.quick else options.part
n = 4096 if options.quick else ORDERS[dtype]
nbytes = itemsize * n * n
claim = Claim(f"Level-3 BLAS in place, {dtype}, {n} x {n} ({nbytes / GIB:g} GiB)", options)
memory = InMemory(options, claim)


def bound(routine: Routine, n: int, budget: int) -> float:
    """Bytes that any schedule reads, and every matrix once."""
    words = budget / itemsize
    return itemsize * (routine.moved * n**3 / math.sqrt(words) + routine.once * n * n)


@contextmanager
def matrices(directory: Path, n: int) -> Iterator[dict[str, Path]]:
    """A, B, a triangle, and C that is changed."""
    functions = {"A": data.left, "B": data.right, "T": data.lower, "C": data.right}
    made = {}
    for name, function in functions.items():
        made[name] = directory / f"{name}{n}.zarr"
        with oc.config(memory=GIB):
            remove(made[name])
            oc.fromfunction(function, (n, n), dtype).save(made[name])
    try:
        yield made
    finally:
        remove(*made.values())


cases = [(routine, part) for routine in ROUTINES for part in parts]
ratios: dict[tuple[Routine, int], list[float]] = {case: [] for case in cases}
runs: dict[tuple[Routine, int], list[dict[str, Any]]] = {case: [] for case in cases}
reads = []
with scratch(options, "blas3") as directory, matrices(directory, n) as made:
    for part in (4, 16) if options.quick else (4, 16, 64):
        room = nbytes // part
        row = [f"1/{part} of a matrix ({room / MIB:g} MiB)"]
        for routine in ROUTINES:
            names = "T" if routine.name in ("trmm", "trsm") else "AB"
            inputs = [oc.open(made[name]) for name in names]
            with oc.config(memory=room), oc.open(made["C"], "r+") as C:
                said = {"inputs": inputs, "C": C}
                plan = eval(f"oc.blas.{routine.name}.plan({routine.arguments})", {"oc": oc}, said)
            row.append(f"{plan.bytes_read / bound(routine, n, room):.2f}")
            if routine.name in ("gemm", "syrk", "trmm", "trsm"):
                name = f"{routine.name}, budget {row[0]}: bytes read / bound"
                claim.row(name, [plan.bytes_read / bound(routine, n, room)], 1.25, 1.0, low=True)
        reads.append(row)
    for _ in range(options.rounds):
        for routine in ROUTINES:
            flops = routine.flops * n**3 * (4 if is_complex else 1)
            best = memory.measure(routine.name, dtype, n, flops)
            names = "T" if routine.name in ("trmm", "trsm") else "AB"
            inputs = [made[name] for name in names]
            for part in parts:
                run = changed(nbytes // part, routine.name, routine.arguments, made["C"], *inputs)
                ratios[routine, part].append(flops / run["seconds"] / best)
                runs[routine, part].append(run)
                print(
                    f"    {routine.name}, 1/{part}: {run['seconds']:.2f} s, "
                    f"{flops / run['seconds'] / 1e9:.1f} Gflop/s, "
                    f"{ratios[routine, part][-1]:.3f} of in memory"
                )
        # Products and triangles have changed it again and again.
        remove(made["C"])
        made["C"] = make_matrix(made["C"], data.right, (n, n), dtype, oc.open(made["A"]).tile)

curve = []
for (routine, part), own in runs.items():
    name, budget = routine.name, nbytes // part
    rates = ratios[routine, part]
    claim.row(f"{name}, 1/{part}: rate / best rate in memory", rates, *RATES[part], low=False)
    seconds = statistics.median(run["seconds"] for run in own)
    last = own[-1]
    curve.append(
        (
            name,
            f"{budget // MIB} MiB",
            f"{routine.flops * n**3 * (4 if is_complex else 1) / seconds / 1e9:.1f}",
            f"{statistics.median(rates):.3f}",
            f"{last['read'] / GIB:.2f}",
            f"{last['read'] / bound(routine, n, budget):.2f}",
            f"{last['written'] / GIB:.2f}",
            f"{seconds:.1f}",
            f"{pure_compute(last):.1f}",
            f"{last['io_seconds']:.1f}",
        )
    )
accounts(claim, [run for own in runs.values() for run in own])
claim.table(
    f"Bytes read over the bound, {n} x {n}, by plans",
    ("budget", *(routine.name for routine in ROUTINES)),
    reads,
)
claim.table(
    "Medians; seconds in which kernels ran (on each thread), and the disk was busy",
    (
        "routine",
        "budget",
        "Gflop/s",
        "of in memory",
        "GiB read",
        "of bound",
        "written",
        "seconds",
        "kernels",
        "disk",
    ),
    curve,
)
claim.table("In memory, medians", ("who", "dtype", "Gflop/s"), memory.table())
claim.save()
