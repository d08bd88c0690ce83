"""Turning a data cube, (t, y, x) to (x, y, t), costs little more than `cp` and `sync`.

f32 in C order, bare elements, to the same; an eighth of the file as memory.
"""

import random

from common import (
    ALLOWANCE,
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
source, target = options.directory / "cube.raw", options.directory / "turned.raw"
reference = options.directory / "cp.raw"
shape = (367, 721, 253 if options.quick else 2027)
nbytes = 4 * shape[0] * shape[1] * shape[2]
memory = nbytes // 8
limit = memory + ALLOWANCE

MOVE = """
path, out, shape = sys.argv[1], sys.argv[2], tuple(map(int, sys.argv[3:6]))
x = oc.open(path, shape=shape, dtype="f4")
turned = oc.permute_dims(x, tuple(map(int, sys.argv[6:])))
plan = oc.plan(turned, out)
alike(); before = io(); start = time.perf_counter()
turned.save(out)
seconds = time.perf_counter() - start
report(predicted=plan.seconds, planned_read=plan.bytes_read, planned_written=plan.bytes_written,
       passes=len(plan._facts["passes"]), text=plan.explain())
"""
ORDERS = [(2, 1, 0), (2, 0, 1), (1, 2, 0), (0, 2, 1), (1, 0, 2)]


def check(order: tuple[int, ...]) -> None:
    """Some elements, all over the place."""
    choice = random.Random(3)
    turned = [shape[axis] for axis in order]
    with source.open("rb") as one, target.open("rb") as other:
        for _ in range(2000):
            at = [choice.randrange(n) for n in shape]
            to = [at[axis] for axis in order]
            one.seek(4 * ((at[0] * shape[1] + at[1]) * shape[2] + at[2]))
            other.seek(4 * ((to[0] * turned[1] + to[1]) * turned[2] + to[2]))
            assert one.read(4) == other.read(4), (order, at)


remove(source, target, reference)
block = random.Random(1).randbytes(61 * MIB + 13)
with source.open("wb") as file:
    left = nbytes
    while left:
        left -= file.write(block[: min(left, len(block))])
measure_device(options.directory)

claim = Claim("Permuting the axes of a cube of 2 GiB in an eighth of its size", options)
ratios: dict[tuple[int, ...], list[float]] = {}
reads, plans, kernels, limits, lines = [], [], [], [], []
for order in ORDERS:
    for _ in range(options.rounds):
        remove(reference, target)
        cold(source)
        cp, _ = limited(limit, ["sh", "-c", f"cp {source} {reference} && sync"])
        remove(reference)
        cold(source)
        where = [str(source), str(target), *map(str, shape), *map(str, order)]
        run = outcrop(limit, memory, MOVE, *where)
        check(order)
        ratios.setdefault(order, []).append(run["seconds"] / cp)
        reads.append(run["read"] / nbytes / run["passes"])
        plans.append(abs(run["planned_read"] - run["read"]) / nbytes)
        plans.append(abs(run["planned_written"] - run["written"]) / nbytes)
        kernels.append(run["kernel_read"] / run["read"])
        limits.append(run["peak_rss"] / limit)
        numbers = [run["seconds"], run["predicted"], cp, run["seconds"] / cp]
        lines.append([str(order), str(run["passes"]), *(f"{n:.2f}" for n in numbers)])
        print(f"    {lines[-1]}\n      " + run["text"].replace("\n", "\n      "))
claim.row("time / time of cp + sync, (t, y, x) to (x, y, t)", ratios[2, 1, 0], 1.6, 1.2, low=True)
for order in ORDERS[1:]:
    claim.row(f"time / time of cp + sync, axes {order}", ratios[order], 1.6, 1.2, low=True)
claim.row("bytes read / size of the file, in a pass", reads, 1.05, 1.01, low=True, worst=True)
claim.row("bytes not planned / size", plans, 0.0, 0.0, low=True, worst=True)
claim.row("bytes read: kernel / reported", kernels, 1.01, 1.001, low=True, worst=True)
claim.row("memory used / allowed", limits, 1.0, 1.0, low=True, worst=True)
claim.table("every run", ["axes", "passes", "s", "predicted", "cp + sync", "ratio"], lines)
claim.save()
remove(source, target, reference)
