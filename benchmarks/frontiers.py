"""Tiles with frontiers: what sweeps read of them, and what converting to them and back takes.

Gauss-Seidel and Jacobi over two arrays of 4096 x 4096 doubles, in tiles of 64 to 4096, with frontiers and
without, and in row-major files: bytes read over those of both arrays, as planned; one sweep of each in tiles
of 512 with 16 MiB is run, too. Then 1 GiB is copied as it is, and converted both ways.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from common import GIB, MIB, Claim, arguments, cold, measure_device, outcrop, remove
from sides.linear import THREADS, scratch

import outcrop as oc

COMPILING = 400 * MIB
options = arguments(__doc__)
n, tiles, most = (
    (1024, (64, 128, 256), 1)
    if options.quick
    else (4096, (64, 128, 256, 512, 1024, 2048, 4096), 16)
)
budgets = (
    (2 * MIB, 4 * MIB, 16 * MIB) if options.quick else (8 * MIB, 16 * MIB, 64 * MIB, 256 * MIB)
)
swept, little = (128, 1 * MIB) if options.quick else (512, 16 * MIB)
LAYOUTS: dict[str, dict[str, Any]] = {
    "tiled": {},
    "frontiers": {"layout": "frontier", "thickness": 1},
}

SWEPT = """
from outcrop import _native
name, target, *paths = sys.argv[1:]
oc.config(threads={threads})
result = getattr(oc.sweeps, name)(*map(oc.open, paths))
plan = oc.plan(result, target)
alike(); before = io(); start = time.perf_counter()
result.save(target)
seconds = time.perf_counter() - start
report(budget=oc.config().memory, planned=plan.bytes_read + plan.bytes_written)
"""

CONVERTED = """
source, target = sys.argv[1:3]
wanted = json.loads(sys.argv[3])
oc.config(threads={threads})
array = oc.open(source)
plan = oc.plan(array, target, tile=array.tile, **wanted)
alike(); before = io(); start = time.perf_counter()
array.save(target, tile=array.tile, **wanted)
seconds = time.perf_counter() - start
report(budget=oc.config().memory, planned=plan.bytes_read + plan.bytes_written)
"""


def made(directory: Path, what: str, tile: int | None, **wanted: Any) -> list[Path]:
    """The two arrays of a sweep."""
    suffix = "zarr" if tile else "npy"
    paths = [directory / f"{what}{tile or ''}-{name}.{suffix}" for name in "uf"]
    for path in paths:
        with oc.config(memory=GIB):
            values = oc.fromfunction(lambda i, j: (i + j) * 1e-3, (n, n))
            values.save(path, **({"tile": tile, **wanted} if tile else {}))
    return paths


def planned(name: str, sweeps: int, budget: int, paths: list[Path]) -> str:
    """Bytes read over those of both arrays; nothing where there is no room for the tiles of a step."""
    given = [oc.open(path) for path in paths]
    with oc.config(memory=budget, threads=THREADS):
        try:
            plan = oc.plan(getattr(oc.sweeps, name)(*given, sweeps=sweeps))
        except oc.BudgetError:
            return ""
    return f"{plan.bytes_read / sum(array.nbytes for array in given):.2f}"


measure_device(options.directory)
claim = Claim(f"Tiles with frontiers: {n} x {n} doubles, two arrays", options)
runs: list[dict[str, Any]] = []
read: dict[tuple[str, str], float] = {}
table: list[list[str]] = []
with scratch(options, "frontiers") as directory:
    target = directory / "result.zarr"
    for what, wanted, tile in [
        *((what, wanted, tile) for tile in tiles for what, wanted in LAYOUTS.items()),
        ("row-major", {}, None),
    ]:
        paths = made(directory, what, tile, **wanted)
        for name, sweeps in (("gauss_seidel", 1), ("jacobi", 1), ("gauss_seidel", most)):
            found = [planned(name, sweeps, budget, paths) for budget in budgets]
            table.append([name, str(sweeps), str(tile or ""), what, *found])
            print(f"    {table[-1]}")
        if tile == swept:
            for name in ("gauss_seidel", "jacobi"):
                remove(target)
                cold(*paths)
                body = SWEPT.format(threads=THREADS)
                given = (name, str(target), *map(str, paths))
                run = outcrop(little + COMPILING, little, body, *given)
                runs.append(run)
                read[name, what] = run["read"] / (16 * n * n)
        remove(*paths, target)

    side = 2048 if options.quick else 11585
    plain, other, back = (directory / f"{name}.zarr" for name in ("plain", "other", "back"))
    with oc.config(memory=GIB):
        oc.fromfunction(lambda i, j: i + j * 1e-3, (side, side)).save(plain)
    there, again = [], []
    for _ in range(options.rounds):
        seconds = []
        for source, to, layout in (
            (plain, back, "{}"),
            (plain, other, '{"layout": "frontier", "thickness": 1}'),
            (other, back, "{}"),
        ):
            remove(to)
            cold(source)
            body = "import json\n" + CONVERTED.format(threads=THREADS)
            run = outcrop(256 * MIB, 128 * MIB, body, str(source), str(to), layout)
            runs.append(run)
            seconds.append(run["seconds"])
        there.append(seconds[1] / seconds[0])
        again.append(seconds[2] / seconds[0])
    remove(plain, other, back)

for name, most_read in (("gauss_seidel", 1.35), ("jacobi", 1.1)):
    claim.row(
        f"{name}, tiles of {swept} in {little // MIB} MiB: read of frontiers / given",
        [read[name, "frontiers"]], most_read, most_read - 0.05, low=True,
    )  # fmt: skip
claim.row("conversion to frontiers: time / copying", there, 1.25, 1.1, low=True)
claim.row("conversion from frontiers: time / copying", again, 1.25, 1.1, low=True)
differences = [abs(run["planned"] - run["read"] - run["written"]) for run in runs]
claim.row("bytes moved that were not planned", differences, 0, 0, low=True, worst=True)
for what in LAYOUTS:
    claim.note(
        f"read of {what}: " + ", ".join(f"{k[0]} {v:.2f}" for k, v in read.items() if k[1] == what)
    )
claim.table(
    "Read over what is given, as planned",
    ("sweep", "sweeps", "tile", "layout", *(f"{budget // MIB} MiB" for budget in budgets)),
    table,
)
claim.save()
