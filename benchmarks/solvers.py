"""LU and systems of equations by Outcrop and by Dask, with the same memory: less than the matrix has, and more.

Dask looks for pivots within diagonal blocks only, so that the matrix has a heavy diagonal. In the first round all
its tiles and schedulers are measured, in the others the fastest. Its time ends when the last write returns;
Outcrop's when the result is durable.
"""

import statistics
from pathlib import Path
from typing import Any

import numpy as np
from common import GIB, MIB, Claim, arguments, remove
from sides import data, environment
from sides.linear import THREADS, accounts, check_lu, computed, make_matrix, scratch
from sides.rival import Rival, forget

import outcrop as oc

PATIENCE = 12.0
"""Times of Outcrop's after which Dask is given up."""
OURS = {"lu": "oc.linalg.lu_factor(inputs[0])", "solve": "oc.linalg.solve(inputs[0], inputs[1])"}
FLOOR, AIM = 5.0, 6.0

options = arguments(__doc__)
if options.quick:
    n, LIMITS, SIDES = 2048, [500 * MIB], [512]
else:
    n, LIMITS, SIDES = 12288, [GIB, 4 * GIB], [768, 1536, 3072]
RESERVED = 300 * MIB
"""Of what a process of Outcrop may have, beside its budget."""


def candidates(job: str) -> list[Rival]:
    """Dask with threads, and with a worker that spills to disk."""
    return [
        *(Rival("dask", job, side, THREADS, 1) for side in SIDES),
        Rival("dask", job, SIDES[-1] // 2, THREADS, 1, "distributed"),
    ]


def check_solution(a: Path, b: Path, x: Path) -> None:
    """``A x`` is ``b``."""
    with oc.config(memory=GIB):
        found = np.asarray((oc.open(a) @ oc.open(x)).compute())
    error = float(np.abs(found - np.load(b)).max())
    if not error < 1e-9:
        raise SystemExit(f"{x}: the solution is wrong, by {error:.3g}")


claim = Claim(f"LU and systems of equations beside Dask, float64, {n} x {n}", options)
python, said = environment.rivals(options.directory)
claim.note(f"the others: {said}" if python else f"not measured: {said}")
runs: list[dict[str, Any]] = []
rows = []
with scratch(options, "solvers") as directory:
    theirs = directory / "theirs"
    theirs.mkdir()
    vector, target = directory / "b.npy", directory / "result.zarr"
    np.save(vector, np.ones(n))
    matrix = make_matrix(directory / "D.zarr", data.lower, (n, n), "float64", (1024, 1024))
    for limit in LIMITS:
        memory = f"{limit / MIB:g} MiB"
        for job, expression in OURS.items():
            inputs = [matrix] if job == "lu" else [matrix, vector]
            mine, seconds = [], []
            fastest: Rival | None = None
            for number in range(options.rounds):
                run = computed(limit - RESERVED, expression, target, *inputs, limit=limit)
                runs.append(run)
                mine.append(run["seconds"])
                print(f"    {job}, {memory}: Outcrop {mine[-1]:.2f} s")
                if number == 0:
                    (check_lu if job == "lu" else check_solution)(*inputs, target)
                remove(target, Path(f"{target}.1"))
                if python is None:
                    continue
                tried = candidates(job) if number == 0 else [fastest] if fastest else []
                measured: dict[Rival, float] = {}
                for rival in tried:
                    patience = PATIENCE * mine[0]
                    taken, why = rival.run(python, theirs, n, limit, patience=patience)
                    print(f"    {job}, {memory}: {rival}: {why or f'{taken:.2f} s'}")
                    if number == 0:
                        rows.append((job, memory, str(rival), why or f"{taken:.1f}"))
                    if taken is not None:
                        measured[rival] = taken
                if measured:
                    fastest = min(measured, key=lambda rival: measured[rival])
                    seconds.append(measured[fastest])
            rows.append((job, memory, "Outcrop", f"{statistics.median(mine):.1f}"))
            if seconds:
                ratios = [a / b for a, b in zip(seconds, mine, strict=False)]
                claim.row(f"{job}, {memory}: time of Dask / ours", ratios, FLOOR, AIM, low=False)
            elif python is not None:
                claim.note(f"{job}, {memory}: Dask does not finish")
    forget(theirs)
accounts(claim, runs)
claim.table("Seconds, medians of ours", ("job", "memory", "who", "seconds"), rows)
claim.save()
