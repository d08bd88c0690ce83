"""Ten loop nests over arrays that memory does not hold, against Numba over memory maps.

The test programs of Comanche: statistics, window, stencil, matrix-vector product, wavefront, rhombus, zigzag,
transposition, matrix product, stepped. Data is 4 and 16 times the budget; both sides run the same function from
cold files under the same memory limit, compiled before, with what they have written on disk at the end. What
takes memory maps too long is cut off, and the ratio is then at least that. With the less data, two such jobs
run at once, too, each with a limit of its own; what counts is when both are done.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

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


def _product(shapes: Mapping[str, tuple[int, ...]], words: float) -> float:
    """Smith et al. 2017, and every factor at least once; the result is read and written."""
    (n, k), m = shapes["a"], shapes["b"][1]
    return max(2.0 * n * k * m / math.sqrt(words), n * k + k * m) + 2 * n * m


BOUNDS: dict[str, Callable[[Mapping[str, tuple[int, ...]], float], float]] = {
    "stencil": lambda shapes, _: sum(map(math.prod, shapes.values())),
    "transposition": lambda shapes, _: sum(map(math.prod, shapes.values())),
    "product": _product,
}
"""What is moved at least, in elements, by shapes of the arrays and elements that memory holds."""

OURS = """
sys.path.insert(0, {sides!r})
from nest_programs import PROGRAMS, meet
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
alike(); meet(*sys.argv[3:]); before = io(); start = time.perf_counter()
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


def mapped(
    name: str, given: dict[str, Any], longest: float, *meeting: Path
) -> dict[str, Any] | None:
    """By memory maps; None if that takes longer."""
    command = [sys.executable, str(HERE / "nests_job.py"), name, json.dumps(given)]
    try:
        _, printed = limited(limit, [*command, *map(str, meeting)], timeout=longest)
    except subprocess.TimeoutExpired:
        return None
    found: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return found


def tiled(name: str, given: dict[str, Any], *meeting: Path) -> dict[str, Any]:
    """By Outcrop."""
    body = OURS.format(sides=str(HERE))
    return outcrop(limit, budget, body, name, json.dumps(given), *map(str, meeting))


def at_once(job: Callable[..., Any], places: list[dict[str, Any]], directory: Path) -> list[Any]:
    """A job on each of the arguments, at once if these are two, from cold files."""
    cold(*(Path(v) for given in places for v in given.values() if isinstance(v, str)))
    if len(places) == 1:
        return [job(places[0])]
    meeting = directory / "meeting"
    remove(meeting)
    meeting.mkdir()
    with ThreadPoolExecutor(len(places)) as pool:
        return list(pool.map(lambda given: job(given, meeting), places))


def are_alike(program: Program, ours: dict[str, Any], theirs: dict[str, Any]) -> bool:
    """Whether both sides have computed the same, to the last bit where sums have an order."""
    with oc.config(memory=1 << 30):
        for p in program.written:
            a, b = oc.open(ours[p]), oc.open(theirs[p])
            apart = float(oc.max(oc.abs(a - b)).compute())
            if apart > (0 if program.order == "strict" else 1e-9 * float(oc.max(b).compute())):
                return False
    return True


class Compared(NamedTuple):
    """A program on both sides.

    Attributes
    ----------
    ratio : float
        Seconds of memory maps over ours.
    whole : bool
        Whether memory maps came to an end.
    runs : list of dict
        Ours.
    over : float or None
        Bytes moved over the least, where that is known.
    line : list of str
        For the table.
    """

    ratio: float
    whole: bool
    runs: list[dict[str, Any]]
    over: float | None
    line: list[str]


def compared(name: str, factor: int, jobs: int, directory: Path) -> Compared:
    """A program with data so many times the budget, by so many jobs at once."""
    program = PROGRAMS[name]
    arguments = program.arguments(factor * budget)
    sides = []
    for k in range(jobs):
        (directory / str(k)).mkdir(exist_ok=True)
        sides.append(make(directory / str(k), arguments))
    own = at_once(lambda *given: tiled(name, *given), [ours for ours, _ in sides], directory)
    seconds = max(run["seconds"] for run in own)
    longest = max(LONGEST, TIMES * AIMS[name] * seconds)

    def theirs(given: dict[str, Any], *meeting: Path) -> dict[str, Any] | None:
        return mapped(name, given, longest, *meeting)

    other = at_once(theirs, [given for _, given in sides], directory)
    done = [run for run in other if run is not None]
    whole = len(done) == jobs
    if whole and not all(are_alike(program, *side) for side in sides):
        raise SystemExit(f"{name}: results differ")
    taken = max(run["seconds"] for run in done) if whole else longest
    moved = own[0]["read"] + own[0]["written"]
    shapes = {p: v for p, v in arguments.items() if isinstance(v, tuple)}
    least = BOUNDS[name](shapes, budget / 8) * 8 if name in BOUNDS else None
    line = [
        name if jobs == 1 else f"{name}, two at once",
        f"{factor}x",
        str(own[0]["steps"]),
        f"{moved / MIB:.0f}",
        f"{(done[0]['read'] + done[0]['written']) / MIB:.0f}" if whole else "",
        f"{seconds:.2f}",
        f"{'' if whole else 'over '}{taken:.2f}",
        own[0]["remark"].split(": ", 1)[1],
    ]
    print("    " + "  ".join(line))
    return Compared(taken / seconds, whole, own, None if least is None else moved / least, line)


def main(options: argparse.Namespace) -> None:
    """Runs all of them."""
    measure_device(options.directory)
    claim = Claim(f"Loop nests, {budget // MIB} MiB: Numba over memory maps / ours", options)
    table, runs = [], []
    with scratch(options, "nests") as directory:
        for name in options.only:
            alone = 0.0
            for factor, jobs in [*((factor, 1) for factor in factors), (factors[0], 2)]:
                rounds = [compared(name, factor, jobs, directory) for _ in range(options.rounds)]
                remove(*directory.iterdir())
                table.append(rounds[0].line)
                runs += [run for one in rounds for run in one.runs]
                ratios = [one.ratio for one in rounds]
                whole = all(one.whole for one in rounds)
                what = f"{name}, {factor} times the budget" + (", two jobs at once" * (jobs > 1))
                cut = "" if whole else ", memory maps cut off"
                aim = AIMS[name] if jobs == 1 else 1.0
                claim.row(f"{what}{cut}", ratios, 0.95, aim, low=False)
                over = rounds[0].over
                if jobs == 1 and over is not None:
                    claim.row(f"{what}: bytes moved / the least", [over], 1.25, 1.1, low=True)
                if jobs == 1 and factor == factors[0] and whole:
                    alone = statistics.median(ratios)
                if jobs > 1 and alone and whole:
                    falls = [ratio / alone for ratio in ratios]
                    claim.row(f"{what}: ratio / that of one job", falls, 0.9, 1.0, low=False)
    differences = [abs(run["planned"] - run["read"] - run["written"]) for run in runs]
    claim.row("bytes moved that were not planned", differences, 0, 0, low=True, worst=True)
    limits = [run["peak_bytes"] / run["budget"] for run in runs]
    limits += [run["peak_rss"] / limit for run in runs]
    claim.row("memory used / allowed", limits, 1.0, 1.0, low=True, worst=True)
    claim.note(f"memory limit of each process {limit // MIB} MiB; medians of {options.rounds}")
    claim.table(
        "Every program",
        ("nest", "data", "steps", "MiB moved", "by memory maps", "s", "by memory maps", "plan"),
        table,
    )
    claim.save()


main(options)
