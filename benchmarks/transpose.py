"""Transposing a file costs little more than `cp` and `sync`, in whatever memory.

Bare elements, row-major, to the same; no extent is a power of two, and no row a whole number of
disk blocks. The device profile is measured anew for each run, because the disk is shared. Where
memory is much of the file, all sides are measured also right after memory was used, the profile,
too. Rotation and transposition are compared in pairs, in which either comes first by turns; a
single pair is off by a tenth on a shared disk, so that there are also many with files of 1 GiB, one
after the other.
"""

import random
from pathlib import Path

from common import (
    ALLOWANCE,
    GIB,
    MIB,
    Claim,
    arguments,
    cold,
    limited,
    measure_device,
    outcrop,
    remove,
)

options = arguments(__doc__)
source, target = options.directory / "page.raw", options.directory / "turned.raw"
reference = options.directory / "cp.raw"
part = 16 if options.quick else 1

SHAPES = [
    # Rows, columns, dtype.
    (46341, 92683, "u1"),
    (92683, 46341, "u1"),
    (65533, 131077, "u1"),
    (131077, 65533, "u1"),
    (23167, 46349, "f8"),
    (46349, 23167, "f8"),
]
BUDGETS = [
    # Part of the file, or bytes; ratio to cp: floor and aim.
    (1 / 2, 1.15, 0.9),
    (1 / 8, 1.6, 1.2),
    (1 / 64, 2.2, 1.7),
    (35 * MIB, 2.2, 1.7),
]

# Rows, columns; parts of the file as memory; how many pairs of each.
PAIRS = [(23167, 46349), (46349, 23167)], [1 / 8, 1 / 64], 9

MOVE = """
path, out, rows, columns, dtype = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
x = oc.open(path, shape=(rows, columns), dtype=dtype)
turned = {turned}
plan = oc.plan(turned, out)
alike(); before = io(); start = time.perf_counter()
turned.save(out)
seconds = time.perf_counter() - start
report(predicted=plan.seconds, planned_read=plan.bytes_read, planned_written=plan.bytes_written,
       planned_peak=plan.peak_bytes, passes=len(plan._facts["passes"]), text=plan.explain())
"""
TRANSPOSED = MOVE.format(turned="oc.transpose(x)")
ROTATED = MOVE.format(turned="oc.rotate(x)")
IN_PAIRS = """
path, out, rows, columns, count = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
x = oc.open(path, shape=(rows, columns), dtype="u1")
alike(); before = io(); start = time.perf_counter()
ratios = []
for number in range(count):
    seconds = {}
    ways = [oc.transpose, oc.rotate]
    for way in reversed(ways) if number % 2 else ways:
        time.sleep(0.5)  # For the disk to have rest.
        begin = time.perf_counter()
        way(x).save(out)
        seconds[way] = time.perf_counter() - begin
        os.remove(out)
    ratios.append(seconds[oc.rotate] / seconds[oc.transpose])
seconds = time.perf_counter() - start
report(ratios=ratios)
"""


def make(path: Path, rows: int, columns: int, itemsize: int) -> None:
    """A file of elements that look random."""
    remove(path)
    block = random.Random(rows).randbytes(61 * MIB + 13)
    left = rows * columns * itemsize
    with path.open("wb") as file:
        while left:
            left -= file.write(block[: min(left, len(block))])


def check(rows: int, columns: int, itemsize: int) -> None:
    """Some elements, all over the place."""
    choice = random.Random(columns)
    with source.open("rb") as one, target.open("rb") as other:
        for _ in range(2000):
            i, j = choice.randrange(rows), choice.randrange(columns)
            one.seek((i * columns + j) * itemsize)
            other.seek((j * rows + i) * itemsize)
            assert one.read(itemsize) == other.read(itemsize), (i, j)


claim = Claim("Transposing files of 4 and 8 GiB", options)
times: dict[tuple[int, bool], list[float]] = {}
predictions, reads, writes, plans, rotations, kernels, limits = [], [], [], [], [], [], []
table = []
for turn, (rows, columns, dtype) in enumerate(SHAPES):
    rows, columns = rows // part, columns
    itemsize = int(dtype[1:])
    nbytes = rows * columns * itemsize
    make(source, rows, columns, itemsize)
    for number, (budget, _, _) in enumerate(BUDGETS):
        memory = int(budget if budget > 1 else nbytes * budget)
        limit = memory + ALLOWANCE
        name = f"{nbytes / GIB:.1f} GiB {dtype} {rows} x {columns}, {memory // MIB} MiB"
        for used in [False, True][: 2 if number == 0 else 1] * options.rounds:
            state = ", warm" if used else ""
            measure_device(options.directory, used)
            remove(reference, target)
            cold(source)
            cp, _ = limited(limit, ["sh", "-c", f"cp {source} {reference} && sync"], used)
            remove(reference)
            where = [str(source), str(target), str(rows), str(columns), dtype]
            runs = {}
            ways = [TRANSPOSED, ROTATED] if number in (1, 2) else [TRANSPOSED]
            for way in reversed(ways) if (turn + number) % 2 else ways:
                remove(target)
                cold(source)
                runs[way] = outcrop(limit, memory, way, *where, used=used)
                if way == TRANSPOSED:
                    check(rows, columns, itemsize)
            run = runs[TRANSPOSED]
            print(
                f"    {name}{state}: {run['passes']} passes, {run['seconds']:.2f} s, predicted "
                f"{run['predicted']:.2f} s; cp + sync {cp:.2f} s, ratio {run['seconds'] / cp:.2f}; "
                f"read {run['read'] / nbytes:.3f}, written {run['written'] / nbytes:.3f}"
            )
            print("      " + run["text"].replace("\n", "\n      "))
            times.setdefault((number, used), []).append(run["seconds"] / cp)
            predictions.append(run["seconds"] / run["predicted"])
            reads.append(run["read"] / nbytes / run["passes"])
            writes.append(run["written"] / nbytes / run["passes"])
            plans.append(abs(run["planned_read"] - run["read"]) / nbytes)
            plans.append(abs(run["planned_written"] - run["written"]) / nbytes)
            kernels.append(run["kernel_read"] / run["read"])
            kernels.append(run["kernel_written"] / run["written"])
            limits.append(run["peak_rss"] / limit)
            limits.append(run["peak_bytes"] / memory)
            if ROTATED in runs:
                rotations.append(runs[ROTATED]["seconds"] / run["seconds"])
            table.append(
                [
                    name + state,
                    str(run["passes"]),
                    f"{run['seconds']:.2f}",
                    f"{run['predicted']:.2f}",
                    f"{cp:.2f}",
                    f"{run['seconds'] / cp:.2f}",
                    f"{run['read'] / nbytes / run['passes']:.3f}",
                ]
            )
shapes, budgets, count = PAIRS
for rows, columns in shapes:
    rows //= part
    make(source, rows, columns, 1)
    remove(target)
    cold(source)
    for budget in budgets:
        memory = int(rows * columns * budget)
        where = [str(source), str(target), str(rows), str(columns), str(count * options.rounds)]
        ratios = outcrop(memory + ALLOWANCE, memory, IN_PAIRS, *where)["ratios"]
        rotations += ratios
        some = " ".join(f"{ratio:.2f}" for ratio in ratios)
        print(f"    rotating / transposing {rows} x {columns} with {memory // MIB} MiB: {some}")
labels = ["a half", "an eighth", "a 64th", "35 MiB"]
for number, (_, floor, aim) in enumerate(BUDGETS):
    what = f"time / time of cp + sync, memory {labels[number]}"
    claim.row(what, times[number, False], floor, aim, low=True)
    if (number, True) in times:
        claim.row(f"{what}, used just before", times[number, True], floor, aim, low=True)
claim.row("time / predicted from the device profile", predictions, 1.25, 1.1, low=True)
claim.row("the same, worst", predictions, 1.15, 1.15, low=True, worst=True)
claim.row("time of rotating / of transposing", rotations, 1.03, 1.03, low=True)
claim.row("bytes read / size of the file, in a pass", reads, 1.05, 1.01, low=True, worst=True)
claim.row("bytes written / size of the file, in a pass", writes, 1.01, 1.01, low=True, worst=True)
claim.row("bytes not planned / size", plans, 0.0, 0.0, low=True, worst=True)
claim.row("bytes: kernel / reported", kernels, 1.01, 1.001, low=True, worst=True)
claim.row("memory used / allowed", limits, 1.0, 1.0, low=True, worst=True)
header = ["file, memory", "passes", "s", "predicted", "cp + sync", "ratio", "read / size"]
claim.table("every run", header, table)
claim.save()
remove(source, target, reference)
