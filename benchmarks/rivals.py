"""Products and factors larger than memory, by Outcrop and by others, with the same memory.

Everything runs under one memory limit. The others read and write arrays that are not compressed, in
tiles and with threads that are best for them: in the first round all candidates are measured, in
the others the fastest. Their time ends when the last write returns; Outcrop's when the result is
durable.
"""

import statistics
from typing import Any

from common import MIB, Claim, arguments, remove
from sides import data, environment
from sides.linear import (
    THREADS,
    accounts,
    check_cholesky,
    check_product,
    computed,
    has_avx512,
    make_matrix,
    scratch,
)
from sides.rival import Rival, forget

options = arguments(__doc__)
if options.quick:
    LIMIT, budget, product, factor = 500 * MIB, 128 * MIB, 2048, 2048
    SIDES = [512, 1024]
else:
    LIMIT, budget, product, factor = 1500 * MIB, 1200 * MIB, 12288, 16384
    SIDES = [1024, 2048, 4096]

JOBS: list[tuple[str, int, float, str, dict[str, list[Rival]], tuple[float, float]]] = [
    (
        "matmul",
        product,
        2.0 * product**3,
        "inputs[0] @ inputs[1]",
        {
            "dask": [
                *(Rival("dask", "matmul", side, THREADS, 1) for side in SIDES),
                Rival("dask", "matmul", SIDES[-1], 1, THREADS),
                # As it comes: its own choice of tiles, and all threads for each of all threads.
                Rival("dask", "matmul", SIDES[-1], THREADS, THREADS),
            ],
            # Its path for aligned squares fails with arrays on disk as of version 4.14.
            "blosc2": [
                *(Rival("blosc2", "matmul", side, THREADS, THREADS, "chunked") for side in SIDES),
                Rival("blosc2", "matmul", SIDES[1], THREADS, THREADS, "fast"),
            ],
        },
        (3.5, 4.0),
    ),
    (
        "cholesky",
        factor,
        factor**3 / 3,
        "oc.linalg.cholesky(inputs[0])",
        {
            # Tiles of 4096 are too large for a factor that has only four by four of them.
            "dask": [
                *(Rival("dask", "cholesky", side, THREADS, 1) for side in SIDES[:2]),
                Rival("dask", "cholesky", SIDES[1], THREADS, 1, "distributed"),
            ]
        },
        (4.0, 5.0),
    ),
]
claim = Claim(
    f"Against others under {LIMIT // MIB} MiB: product of {product} x {product}, Cholesky factor of "
    f"{factor} x {factor}, float64",
    options,
)
python, said = environment.rivals(options.directory)
claim.note(f"the others: {said}" if python else f"not measured: {said}")
runs: list[dict[str, Any]] = []
rows = []
with scratch(options, "rivals") as directory:
    own, theirs = directory / "own", directory / "theirs"
    own.mkdir()
    theirs.mkdir()
    for job, n, flops, expression, libraries, (floor, aim) in JOBS:
        tile, shape = 512 if options.quick else 1024, (n, n)
        functions = [data.left, data.right] if job == "matmul" else [data.positive]
        inputs = [
            make_matrix(own / f"{i}.zarr", function, shape, "float64", (tile, tile))
            for i, function in enumerate(functions)
        ]
        target = own / "result.zarr"
        best: dict[str, Rival] = {}
        seconds: dict[str, list[float]] = {library: [] for library in libraries}
        mine: list[float] = []
        for number in range(options.rounds):
            run = computed(budget, expression, target, *inputs, limit=LIMIT)
            mine.append(run["seconds"])
            runs.append(run)
            if number == 0:
                check = check_product if job == "matmul" else check_cholesky
                check(*inputs, target)
            print(f"    {job}: Outcrop {run['seconds']:.2f} s")
            remove(target)
            for library, candidates in libraries.items():
                if python is None:
                    continue
                if number == 0:
                    measured = {}
                    # What does not fit is measured without the limit at last.
                    free = candidates[1]._replace(limited=False)
                    for rival in (*candidates, free):
                        if rival is free and measured:
                            continue
                        taken, why = rival.run(python, theirs, n, LIMIT)
                        print(f"    {job}: {rival}: " + (f"{taken:.2f} s" if taken else why))
                        if taken is None:
                            rows.append((job, str(rival), why, ""))
                        else:
                            measured[rival] = taken
                    if measured:
                        best[library] = min(measured, key=lambda rival: measured[rival])
                        seconds[library].append(measured[best[library]])
                        rows += [
                            (job, str(rival), f"{taken:.1f}", f"{flops / taken / 1e9:.1f}")
                            for rival, taken in measured.items()
                        ]
                elif library in best:
                    taken, why = best[library].run(python, theirs, n, LIMIT)
                    print(f"    {job}: {best[library]}: " + (f"{taken:.2f} s" if taken else why))
                    if taken is not None:
                        seconds[library].append(taken)
        median = statistics.median(mine)
        rows.append((job, "Outcrop", f"{median:.1f}", f"{flops / median / 1e9:.1f}"))
        for library, rival in best.items():
            ratios = [a / b for a, b in zip(seconds[library], mine, strict=False)]
            what = f"{job}: time of {library}{rival.memory} / time of Outcrop"
            claim.row(what, ratios, floor, aim, low=False)
            if python is not None and has_avx512():
                taken, why = rival.run(python, theirs, n, LIMIT, core="SkylakeX")
                result = (
                    why if taken is None else f"{taken:.1f} s, {taken / median:.2f} of Outcrop's"
                )
                claim.note(
                    f"{job}: {library} told to use AVX-512 (OPENBLAS_CORETYPE=SkylakeX): {result}"
                )
        for library in libraries:
            if library not in best:
                claim.note(f"{job}: {library} is not measured")
        remove(*inputs)
        forget(theirs)
accounts(claim, runs)
claim.table("Seconds and Gflop/s", ("job", "who", "seconds", "Gflop/s"), rows)
claim.save()
