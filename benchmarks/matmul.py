"""A product larger than memory runs at the rate of one in memory, and reads little more than it has to."""

import math
import statistics

from common import GIB, MIB, Claim, arguments
from sides import data
from sides.linear import (
    InMemory,
    accounts,
    check_product,
    computed,
    has_avx512,
    make_matrix,
    pure_compute,
    scratch,
)

options = arguments(__doc__)
n, budget, tiles = (
    (4096, 64 * MIB, (256, 512)) if options.quick else (16384, 256 * MIB, (512, 1024))
)
flops = 2.0 * n**3
# What any schedule reads with so much memory, and every factor once.
bound = 8 * (2 * n**3 / math.sqrt(budget / 8) + 2 * n**2)
claim = Claim(
    f"Product of two float64 matrices of {n} x {n} ({8 * n * n / GIB:g} GiB), budget {budget // MIB} MiB",
    options,
)
memory = InMemory(options, claim)
ratios: dict[int, list[float]] = {tile: [] for tile in tiles}
runs: dict[int, list[dict]] = {tile: [] for tile in tiles}
best: list[float] = []

with scratch(options, "matmul") as directory:
    factors = {}
    for tile in tiles:
        shape, pair = (n, n), (tile, tile)
        factors[tile] = (
            make_matrix(directory / f"A{tile}.zarr", data.left, shape, "float64", pair),
            make_matrix(directory / f"B{tile}.zarr", data.right, shape, "float64", pair),
        )
    target = directory / "C.zarr"
    for number in range(options.rounds):
        best.append(memory.measure("gemm", "float64", n, flops))
        for tile in tiles:
            run = computed(budget, "inputs[0] @ inputs[1]", target, *factors[tile])
            if number == 0:
                check_product(*factors[tile], target)
            rate = flops / run["seconds"]
            ratios[tile].append(rate / best[-1])
            runs[tile].append(run)
            print(
                f"    tiles of {tile} x {tile}: {run['seconds']:.2f} s, {rate / 1e9:.1f} Gflop/s, "
                f"planned {run['planned_seconds']:.2f} s, overlap {run['overlap']:.2f} s"
            )

rows = memory.table()
for tile in tiles:
    name = f"tiles of {tile} x {tile}"
    claim.row(f"{name}: rate / best rate in memory", ratios[tile], 0.90, 0.97, low=False)
    reads = [run["read"] / bound for run in runs[tile]]
    claim.row(f"{name}: bytes read / bound", reads, 1.15, 1.0, low=True, worst=True)
    seconds = statistics.median(run["seconds"] for run in runs[tile])
    last = runs[tile][-1]
    rows.append((f"Outcrop, {name}", "float64", f"{flops / seconds / 1e9:.1f}"))
    claim.note(
        f"{name}: {seconds:.1f} s, of which kernels {pure_compute(last):.1f} s on each thread, "
        f"disk busy {last['io_seconds']:.1f} s, both at once {last['overlap']:.1f} s; "
        f"read {last['read'] / GIB:.2f} GiB, bound {bound / GIB:.2f} GiB"
    )
accounts(claim, [run for tile in tiles for run in runs[tile]])
claim.table("Rates, medians", ("who", "dtype", "Gflop/s"), rows)
if has_avx512():
    forced = memory.openblas("gemm", "float64", n, core="SkylakeX")
    rate = flops / forced["seconds"]
    claim.note(
        f"told to use its AVX-512 kernels (OPENBLAS_CORETYPE=SkylakeX; {forced['core']}), NumPy "
        f"reaches {rate / 1e9:.1f} Gflop/s, {rate / statistics.median(best):.2f} of the best above"
    )
claim.save()
