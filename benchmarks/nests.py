"""Ten loop nests over arrays that memory does not hold, against Numba over memory maps.

The test programs of Comanche: statistics, window, stencil, matrix-vector product, wavefront, rhombus, zigzag,
transposition, matrix product, stepped. Data is 4 and 16 times the budget; both sides run the same function from
cold files under the same memory limit, compiled before, with what they have written on disk at the end. What
takes memory maps too long is cut off, and the ratio is then at least that.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from common import ALLOWANCE, MIB, Claim, arguments, cold, limited, measure_device, outcrop, remove
from sides.linear import HERE, scratch
from sides.nest_programs import PROGRAMS, Program

import outcrop as oc

COMPILING = 100 * MIB
"""What Numba takes beside what any process may have."""

LONGEST, TIMES = 15.0, 1.2
"""Seconds after which memory maps are cut off; and that many times what is to be reached, if that is longer."""

AIMS = {
    "statistics": 2.66,
    "window": 2.53,
    "stencil": 1.34,
    "matrix-vector": 2.01,
    "wavefront": 10.0,
    "rhombus": 10.5,
    "zigzag": 1.5,
    "transposition": 10.0,
    "product": 1.8,
    "stepped": 2.0,
}

OURS = """
sys.path.insert(0, {sides!r})
from nest_programs import PROGRAMS
name, given = sys.argv[1], json.loads(sys.argv[2])
program = PROGRAMS[name]
arguments = {{
    p: oc.open(v, "r+" if p in program.written else "r") if isinstance(v, str) else v
    for p, v in given.items()
}}
nest = oc.loops(order=program.order)(program.function)
# Measures kernels and the device, where these are not known, and compiles.
plan = nest.plan(*arguments.values())
nest.compile(*arguments.values())
alike(); before = io(); start = time.perf_counter()
nest(*arguments.values())
for p in program.written:
    arguments[p].close()
seconds = time.perf_counter() - start
report(budget=oc.config().memory, planned=plan.bytes_read + plan.bytes_written,
       steps=plan.steps, remark=plan.explain().splitlines()[0])
"""

options = arguments(
    __doc__,
    only={
        "nargs": "+",
        "choices": list(PROGRAMS),
        "default": list(PROGRAMS),
        "help": "some of them",
    },
    times={"nargs": "+", "type": int, "default": [4, 16], "help": "data over budget"},
)
budget = (16 if options.quick else 128) * MIB
factors = [4] if options.quick else options.times
limit = budget + ALLOWANCE + COMPILING


def make(directory: Path, given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arguments of a program on either side: arrays on disk, tile by tile and as .npy."""
    ours, theirs = {}, {}
    with oc.config(memory=1 << 30):
        for p, value in given.items():
            if isinstance(value, int):
                ours[p] = theirs[p] = value
                continue
            tiled, plain = directory / f"{p}.zarr", directory / f"{p}.npy"
            remove(tiled, plain)
            oc.fromfunction(element, value).save(plain)
            with oc.open(plain) as array:
                array.save(tiled, tile=tile_of(value))
            ours[p], theirs[p] = str(tiled), str(plain)
    return ours, theirs


def element(*indices: Any) -> Any:
    """Of every array, by its place."""
    at = 0
    for i, step in zip(indices, (31, 17), strict=False):
        at = at + i * step
    return at % 1009 / 1009.0


def tile_of(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Of 1 MiB, twice as long as high."""
    if len(shape) == 1:
        return (min(shape[0], 1 << 17),)
    return tuple(min(n, t) for n, t in zip(shape, (256, 512), strict=True))


def mapped(name: str, given: dict[str, Any], longest: float) -> dict[str, Any] | None:
    """By memory maps; None if that takes longer."""
    command = [sys.executable, str(HERE / "nests_job.py"), name, json.dumps(given)]
    cold(*(Path(v) for v in given.values() if isinstance(v, str)))
    try:
        _, printed = limited(limit, command, timeout=longest)
    except subprocess.TimeoutExpired:
        return None
    found: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return found


def tiled(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """By Outcrop."""
    cold(*(Path(v) for v in given.values() if isinstance(v, str)))
    return outcrop(limit, budget, OURS.format(sides=str(HERE)), name, json.dumps(given))


def are_alike(program: Program, ours: dict[str, Any], theirs: dict[str, Any]) -> bool:
    """Whether both sides have computed the same, to the last bit where sums have an order."""
    with oc.config(memory=1 << 30):
        for p in program.written:
            a, b = oc.open(ours[p]), oc.open(theirs[p])
            apart = float(oc.max(oc.abs(a - b)).compute())
            if apart > (0 if program.order == "strict" else 1e-9 * float(oc.max(b).compute())):
                return False
    return True


def compared(
    name: str, factor: int, directory: Path
) -> tuple[float, bool, list[str], dict[str, Any]]:
    """A program with data so many times the budget: the ratio, whether it is whole, and a line."""
    program = PROGRAMS[name]
    ours, theirs = make(directory, program.arguments(factor * budget))
    own = tiled(name, ours)
    longest = max(LONGEST, TIMES * AIMS[name] * own["seconds"])
    other = mapped(name, theirs, longest)
    if other is not None and not are_alike(program, ours, theirs):
        raise SystemExit(f"{name}: results differ")
    seconds = longest if other is None else other["seconds"]
    moved = "" if other is None else f"{(other['read'] + other['written']) / MIB:.0f}"
    line = [
        name,
        f"{factor}x",
        str(own["steps"]),
        f"{(own['read'] + own['written']) / MIB:.0f}",
        moved,
        f"{own['seconds']:.2f}",
        f"{'over ' if other is None else ''}{seconds:.2f}",
        own["remark"].split(": ", 1)[1],
    ]
    print("    " + "  ".join(line))
    return seconds / own["seconds"], other is not None, line, own


def main(options: argparse.Namespace) -> None:
    """Runs all of them."""
    measure_device(options.directory)
    claim = Claim(f"Loop nests, {budget // MIB} MiB: Numba over memory maps / ours", options)
    table, runs = [], []
    with scratch(options, "nests") as directory:
        for name in options.only:
            for factor in factors:
                rounds = [compared(name, factor, directory) for _ in range(options.rounds)]
                ratios = [ratio for ratio, _, _, _ in rounds]
                table.append(rounds[0][2])
                runs += [own for _, _, _, own in rounds]
                cut = "" if all(whole for _, whole, _, _ in rounds) else ", memory maps cut off"
                claim.row(
                    f"{name}, {factor} times the budget{cut}",
                    ratios,
                    0.95,
                    AIMS[name],
                    low=False,
                )
                remove(*directory.iterdir())
    differences = [abs(run["planned"] - run["read"] - run["written"]) for run in runs]
    claim.row("bytes moved that were not planned", differences, 0, 0, low=True, worst=True)
    limits = [run["peak_bytes"] / run["budget"] for run in runs]
    limits += [run["peak_rss"] / limit for run in runs]
    claim.row("memory used / allowed", limits, 1.0, 1.0, low=True, worst=True)
    claim.note(f"memory limit of both sides {limit // MIB} MiB; medians of {options.rounds}")
    claim.table(
        "Every program",
        ("nest", "data", "steps", "MiB moved", "by memory maps", "s", "by memory maps", "plan"),
        table,
    )
    claim.save()


main(options)
