"""Ordinary jobs read little more than their passes need, in every layout.

Plans only: nothing is computed. Each job of `sides/jobs.py` is planned for each layout and budget; 1.00 is the aim,
and below 1 means that a part stayed in memory from one pass to the next. `tests/expressions/test_traffic.py` holds
every one of these cells to its figure, on smaller arrays.
"""

import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import MIB, Claim, arguments, remove
from sides.jobs import MORE, USUAL

import outcrop as oc

JOBS = USUAL + MORE
LIMIT = 1.3
"""How many times what its passes need a plan reads that is told of."""

SLOW = 2.0
"""Seconds from which planning is told of."""

options = arguments(__doc__)
scale = 4 if options.quick else 1
SHAPES = {
    "X": (200_000 // scale, 100),
    "A": (4000 // scale, 4000 // scale),
    "T": (240 // scale, 300, 200),
    "F": (200_000 // scale, 100),
    "B": (10_000 // scale, 10_000 // scale),
    "W": (16_000 // scale, 1200 // scale),
}
BUDGETS = tuple(n * MIB // scale for n in (32, 64, 256))


def shards(tile: tuple[int, ...], parts: int) -> dict[str, Any]:
    """Shards of so many inner chunks along each axis."""
    inner = [max(n // parts, 1) for n in tile]
    codecs = [{"name": "bytes", "configuration": {"endian": "little"}}]
    index = [*codecs, {"name": "crc32c"}]
    configuration = {"chunk_shape": inner, "codecs": codecs, "index_codecs": index}
    return {
        "tile": tile,
        "codecs": [{"name": "sharding_indexed", "configuration": configuration}],
    }


def chunks(**tiles: tuple[int, ...]) -> dict[str, dict[str, Any]]:
    """Chunks that are compressed."""
    return {name: {"tile": tile, "codecs": "zstd:1"} for name, tile in tiles.items()}


def tiles(**tiles: tuple[int, ...]) -> dict[str, dict[str, Any]]:
    """Tiles of our own."""
    return {name: {"tile": tile} for name, tile in tiles.items()}


# For each layout, how each array is saved.
LAYOUTS: dict[str, dict[str, dict[str, Any]]] = {
    "npy": {name: {"format": "npy"} for name in SHAPES},
    "by columns": {name: {"format": "npy", "order": "F"} for name in SHAPES},
    "defaults": {name: {} for name in SHAPES},
    "small tiles": tiles(
        X=(1000, 100), A=(250, 250), T=(24, 50, 200), F=(2000, 100), B=(500, 500), W=(250, 250)
    ),
    "uneven tiles": tiles(
        X=(7013, 61), A=(701, 457), T=(31, 83, 97), F=(7013, 61), B=(1499, 911), W=(701, 457)
    ),
    "tiles of 8 MiB": tiles(
        X=(10_240, 100),
        A=(1024, 1024),
        T=(17, 300, 200),
        F=(20_480, 100),
        B=(2048, 4096),
        W=(1024, 1024),
    ),
    "chunks": chunks(
        X=(10_000, 100),
        A=(1000, 1000),
        T=(24, 100, 200),
        F=(20_000, 100),
        B=(2500, 2500),
        W=(1000, 1000),
    ),
    "large chunks": chunks(
        X=(32_000, 100),
        A=(1800, 1800),
        T=(52, 300, 200),
        F=(64_000, 100),
        B=(5000, 5000),
        W=(2700, 1200),
    ),
    "shards": {
        "X": shards((20_000, 100), 10),
        "A": shards((1000, 1000), 4),
        "T": shards((40, 100, 200), 4),
        "F": shards((40_000, 100), 10),
        "B": shards((4000, 4000), 4),
        "W": shards((1000, 1000), 4),
    },
    "strips": chunks(
        X=(10_000, 100),
        A=(256, 4000),
        T=(17, 300, 200),
        F=(20_000, 100),
        B=(800, 10_000),
        W=(850, 1200),
    ),
    "columns": chunks(
        X=(200_000, 5),
        A=(4000, 256),
        T=(240, 21, 200),
        F=(200_000, 10),
        B=(10_000, 800),
        W=(16_000, 65),
    ),
}

claim = Claim(
    f"Bytes that plans read over what their passes need: {len(JOBS)} jobs, {len(LAYOUTS)} layouts, "
    f"budgets of {', '.join(f'{n // MIB}' for n in BUDGETS)} MiB",
    options,
)
place: Path = options.directory / "traffic"
place.mkdir(exist_ok=True)


def values(name: str) -> Any:
    """The elements of an array."""
    found = oc.random.default_rng(len(name)).standard_normal(SHAPES[name])
    if name == "F":
        return found.astype("float32")
    return (found * 30).astype("int8") if name == "B" else found


worst: dict[tuple[str, str], list[str]] = {}
ratios: dict[str, list[float]] = {layout: [] for layout in LAYOUTS}
slow: list[tuple[float, str]] = []
for layout, ways in LAYOUTS.items():
    there = {}
    with oc.config(memory=512 * MIB):
        for name, how in ways.items():
            suffix = ".npy" if how.get("format") == "npy" else ".zarr"
            there[name] = values(name).save(place / f"{name}{suffix}", overwrite=True, **how)
        once = {name: oc.plan(array.sum()).bytes_read for name, array in there.items()}
    for job, name, make, passes in JOBS:
        row, bad = [], False
        for budget in BUDGETS:
            begin = time.perf_counter()
            with oc.config(memory=budget):
                try:
                    ratio = oc.plan(make(there[name])).bytes_read / once[name] / passes
                except oc.BudgetError:
                    ratio = float("inf")
            taken = time.perf_counter() - begin
            if taken > SLOW:
                slow.append((taken, f"{job}, {layout}, {budget // MIB} MiB"))
            ratios[layout].append(ratio)
            row.append(f"{ratio:.2f}")
            bad = bad or ratio > LIMIT
        if bad:
            worst[job, layout] = row
    there.clear()
    remove(place)
    place.mkdir()
    print(f"    {layout}: {statistics.median(ratios[layout]):.2f}", file=sys.stderr)

for layout, found in ratios.items():
    part = sum(ratio <= LIMIT for ratio in found) / len(found)
    claim.row(f"{layout}: plans that read at most {LIMIT} times", [part], 0.75, 1.0, low=False)
    finite = [ratio for ratio in found if np.isfinite(ratio)]
    claim.row(f"{layout}: median", [statistics.median(finite)], 1.1, 1.0, low=True)
claim.table(
    f"More than {LIMIT} times (inf: refused)",
    ("job", "layout", *(f"{n // MIB} MiB" for n in BUDGETS)),
    [(*key, *row) for key, row in worst.items()],
)
for taken, what in sorted(slow, reverse=True)[:10]:
    claim.note(f"{taken:.1f} s to plan {what}")
remove(place)
claim.save()
