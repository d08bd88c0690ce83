"""How a computed result gets to where it is saved: straight, or by way of tiles."""

import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from outcrop import _native
from outcrop.arrays.computed import ComputedSource, Progress, brought_to_disk
from outcrop.arrays.source import MemorySource, Source, storable
from outcrop.arrays.views import View
from outcrop.errors import BudgetError, OutcropWarning, forget_frames
from outcrop.process.config import memory_budget, piece_limit, scratch_directory, scratch_room
from outcrop.process.sizes import format_bytes

__all__ = [
    "Asked",
    "Route",
    "asked",
    "asking",
    "check_in_memory",
    "composed",
    "goes_aside",
    "has_to_go_aside",
    "is_scattered",
    "moved_from_scratch",
    "planned_in_memory",
    "route",
    "share_of_computing",
    "supposing",
    "told",
    "too_little",
    "whole_lines",
    "with_the_least",
]

_LONG_RUN = 64 << 10
"""Bytes that are written to a new file in one go without much loss."""

_BLOCK = 4096
"""Bytes that a file is written in."""

_WAITING = 4096
"""Blocks of a file that wait to be whole, at most (`store::transfer::seams`)."""

_ATTEMPTS = 12
"""How many times a budget that is named is tried, and what is named then."""

_HOPEFUL = 4
"""How many of these add little to what is named; the others more, or they might never do."""

_BELOW = (0.98, 0.95, 0.9, 0.8)
"""Parts of a budget that are tried once what is a little less was too little."""

_LOWER = 0.97
"""The part of one that does below which it is looked for less in the first place."""

_SECONDS = 2.0
"""For which budgets are tried: where a plan takes long to make, what is named is a rougher one."""

_MANY_STEPS = 20_000
"""Steps of plans that take so long to make that there are no more of them than must be."""

_T = TypeVar("_T")

_WRITING = 0.5e9
"""Bytes in a second, for sharing out a progress bar."""


@dataclass(frozen=True)
class Route:
    """How a result is computed and saved.

    Attributes
    ----------
    plan : _native.Plan
        Of the computation: to the target itself; or to tiles, from which it is moved there.
    facts : dict
        Everything there is to say about all of it.
    goes_aside : bool
        Whether it is computed to tiles first.
    in_memory : bool
        Whether these are in memory, and not in the scratch directory.
    """

    plan: Any
    facts: dict[str, Any]
    goes_aside: bool = False
    in_memory: bool = False

    def made(self, source: ComputedSource, progress: Progress | None) -> Source:
        """Compute it to tiles."""
        if self.in_memory:
            return MemorySource(source.compute(progress))
        return brought_to_disk(source, View.whole(source.shape), progress, plan=self.plan)


@contextmanager
def supposing(limit: int | None = None, elsewhere: int = 0) -> Iterator[None]:
    """Plan as if the budget were `limit` bytes, and others had so many more of it."""
    before = _native.suppose(None, 0)
    _native.suppose(before[0] if limit is None else limit, before[1] + elsewhere)
    try:
        yield
    finally:
        _native.suppose(*before)


def _supposed() -> tuple[int | None, int]:
    """The budget that is supposed, if one is, and what others are supposed to have of it."""
    before = _native.suppose(None, 0)
    _native.suppose(*before)
    return before


class Asked(Enum):
    """What planners are asked for."""

    LEAST = "a plan, or an error that names the least budget, which takes long"
    PLAN = "a plan, or an error that names a budget that would do"
    WHETHER = "whether there is a plan: any will do"


_ASKED: ContextVar[Asked] = ContextVar("asked", default=Asked.LEAST)


def asked() -> Asked:
    """What planners are asked for now."""
    return _ASKED.get()


@contextmanager
def asking(what: Asked) -> Iterator[None]:
    """Ask planners for this."""
    token = _ASKED.set(what)
    try:
        yield
    finally:
        _ASKED.reset(token)


def with_the_least(plan: Callable[[], _T], steps: Callable[[_T], int] = lambda _: 0) -> _T:
    """What `plan` gives; where the budget is too small, the error names the least that works.

    A planner that is refused knows what its own program takes. For other budgets it makes other
    programs, some of which take less: so it is asked again, as if there were more memory. `steps`
    says how long a plan is: of long ones, what the planner says is taken, once it has been tried.
    """
    try:
        # The least is looked for below, whatever the first refusal names.
        with asking(Asked.PLAN):
            return plan()
    except BudgetError as caught:
        if caught.needed is None or _supposed()[0] is not None:
            raise
        error = caught
        forget_frames(error)
    named = error.needed
    assert named is not None
    least = _least(plan, steps, named, Asked.WHETHER)
    if least != named and _tried(plan, least, Asked.PLAN)[0] is None:
        # The best plan may be another one, of which what comes after it takes more.
        least = _least(plan, steps, named, Asked.PLAN)
    message = str(error).replace(str(named), str(least))
    try:
        raise BudgetError(message, least)
    finally:
        del error


def _least(plan: Callable[[], _T], steps: Callable[[_T], int], named: int, what: Asked) -> int:
    """The least budget for which there is a plan, as far as that is found in some seconds.

    `named` is what the planner says.
    """
    budget, end = memory_budget(), time.monotonic() + _SECONDS
    least, too_little = named, budget
    for attempt in range(_ATTEMPTS):
        # However long that takes: what is named has to work.
        found, needed = _tried(plan, least, Asked.PLAN)
        if found is not None:
            break
        more = least // (64 if attempt < _HOPEFUL else 4) if time.monotonic() < end else least
        too_little, least = least, max(needed, least + more)

    def narrowed(found: _T, least: int, too_little: int) -> int:
        """Less, as long as that does, and it takes no long time."""
        # Of what is only moved there are no steps.
        while (count := steps(found)) <= _MANY_STEPS and time.monotonic() < end:
            if least - too_little <= max(_BLOCK, least // 256 if count else 0):
                break
            middle = (least + too_little) // 2
            other, _ = _tried(plan, middle, what)
            if other is None:
                too_little = middle
            else:
                found, least = other, middle
        return least

    if found is None:
        return least
    least = narrowed(found, least, too_little)
    below = list(_BELOW)
    while below:
        # Other programs may do with less than what was too little for these.
        lower = int(least * below.pop(0))
        if lower <= budget or steps(found) > _MANY_STEPS or time.monotonic() > end:
            break
        other, _ = _tried(plan, lower, what)
        if other is not None:
            least = narrowed(other, lower, max(budget, int(lower * _LOWER)))
            below = list(_BELOW)
    return least


def _tried(plan: Callable[[], _T], limit: int, what: Asked) -> tuple[_T | None, int]:
    """A plan for such a budget, or what it names instead."""
    try:
        with supposing(limit), asking(what):
            return plan(), limit
    except BudgetError as error:
        forget_frames(error)
        return None, error.needed or 0


def too_little(what: str, needed: int, budget: int) -> str:
    """What an error says of a budget that is too small."""
    return (
        f"{what} needs {needed} bytes of memory, and the budget is {budget} bytes; the least that "
        f"works is {needed} bytes (oc.config(memory=...), OUTCROP_MEMORY or --memory)"
    )


def route(
    source: ComputedSource, plan: Any | None, target: _native.Store, *, is_whole: bool = False
) -> Route:
    """The way to a target, which may be one that is only planned; `plan` is one for it, if known.

    `is_whole`: whether the target is to have tiles, too, that the computation leaves out.

    Raises
    ------
    BudgetError
        There is none with so little memory.
    """
    error: BudgetError | None = None
    if plan is None:
        # The target's tiles may be too large to compute in; others need not be.
        try:
            plan = source.plan(target)
        except BudgetError as caught:
            error = caught
            forget_frames(error)
    if plan is not None and not is_whole and not goes_aside(plan.facts, _result(plan), target):
        return Route(plan, told(plan.facts, {_result(plan): target}))
    try:
        return _aside(source, target)
    except BudgetError as caught:
        if (
            plan is not None
            and not is_whole
            and not has_to_go_aside(plan.facts, _result(plan), target)
        ):
            return Route(plan, told(plan.facts, {_result(plan): target}))
        if error is None or _needed(caught) < _needed(error):
            raise
        forget_frames(caught)
    try:
        raise error
    finally:
        del error


def _needed(error: BudgetError) -> float:
    return math.inf if error.needed is None else error.needed


def _aside(source: ComputedSource, target: _native.Store) -> Route:
    """By way of tiles: in memory where it is small and there is room, else in scratch."""
    if math.prod(source.shape) * source.dtype.itemsize <= piece_limit():
        try:
            return _by_memory(source, target)
        except BudgetError as caught:
            forget_frames(caught)
    name = Path(target.path).name
    plan = source.plan((None, "{}"))
    moved = moved_from_scratch(plan.sketch(str(scratch_directory() / "result.zarr")), target)
    return Route(plan, composed(plan.facts, {_result(plan): (name, moved, target)}), True)


def _by_memory(source: ComputedSource, target: _native.Store) -> Route:
    name = Path(target.path).name
    plan, held = planned_in_memory(source)
    moved = _native.plan_fill(target)
    needed, budget = held + moved["least_bytes"], memory_budget()
    if needed > budget:
        raise BudgetError(too_little(f"moving {name} to its file", needed, budget), needed)
    facts = composed(plan.facts, {_result(plan): (name, moved, target)}, held=held)
    return Route(plan, facts, True, True)


def planned_in_memory(source: ComputedSource) -> tuple[Any, int]:
    """The plan for a result in memory, and the bytes of that."""
    nbytes = math.prod(source.shape) * source.dtype.itemsize
    held, budget = -(-nbytes // _BLOCK) * _BLOCK, memory_budget()
    if held > budget:
        raise BudgetError(too_little("the result", held, budget), held)
    tiles = _native.sketch_in_memory(source.shape, storable(source.dtype))
    with supposing(elsewhere=held):
        return source.plan(tiles), held


def check_in_memory(source: ComputedSource) -> None:
    """Raise where the budget is too small for computing a result in memory.

    Raises
    ------
    BudgetError
        Names the least that works.
    """
    with_the_least(lambda: planned_in_memory(source), lambda found: int(found[0].facts["steps"]))


def _result(plan: Any) -> int:
    """The number of the array that is the only result."""
    return [array["role"] for array in plan.facts["arrays"]].index("output")


def moved_from_scratch(tiles: _native.Store, target: _native.Store) -> dict[str, Any]:
    """What it takes to move a result to a target from its tiles in the scratch directory."""
    view = View.whole(tuple(target.shape))
    return _native.plan_copy(tiles, *view.box, view.turn, target)


def told(facts: Mapping[str, Any], results: Mapping[int, _native.Store]) -> dict[str, Any]:
    """Facts of a plan for these targets, by the numbers of the arrays, with how exact they are."""
    told = {"exact": True, **facts}
    told["arrays"] = [dict(array) for array in facts["arrays"]]
    for number, target in results.items():
        array = told["arrays"][number]
        if target.format == "zarr-foreign":
            told["exact"] = False
        if again := _blocks_again(array["tile"], target) * _BLOCK:
            told["exact"] = False
            for where in (told, array):
                where["bytes_read"] += again
                where["bytes_written"] += again
    return told


def composed(
    first: Mapping[str, Any],
    moved: Mapping[int, tuple[str, Mapping[str, Any], _native.Store]],
    *,
    held: int = 0,
) -> dict[str, Any]:
    """Facts of computing to tiles, from which results are moved to where they shall be.

    `moved` are, by the number of the array, its name, what moving takes, and its target. `held`
    bytes of memory are the tiles', where these are not in scratch.
    """
    facts = {"exact": True, **first}
    arrays = [dict(array) for array in first["arrays"]]
    peak, scratch, now = facts["peak_bytes"], facts["scratch_bytes"], 0
    remarks = [facts["remark"]]
    for i, (name, move, target) in moved.items():
        passes = move.get("passes", [])
        tiles, own = arrays[i], move["bytes_written"] - move["commit_bytes"]
        stored = tiles["bytes_written"]
        reads = passes[0]["bytes_read"] if passes else 0
        again = sum(one["bytes_read"] for one in passes[1:])
        arrays.append(
            {**tiles, "name": name, "tile": target.tile, "bytes_read": again, "bytes_written": own}
        )
        tiles["role"] = "temporary"
        tiles["name"] = f"{tiles['name']} in {'memory' if held else 'scratch'}"
        tiles["bytes_read"] += reads
        facts["bytes_read"] += reads + again
        facts["bytes_written"] += move["bytes_written"]
        facts["commit_bytes"] += move["commit_bytes"]
        facts["seconds"] += move["seconds"]
        facts["io_seconds"] += move["seconds"]
        facts["exact"] &= target.format != "zarr-foreign"
        # Tiles that are in memory at the end of the computation stay as long as there is room.
        peak = max(peak, min(move["peak_bytes"] + facts["room_bytes"], facts["budget"] - held))
        now += 0 if held else stored
        scratch = max(scratch, facts["scratch_bytes"] + now + move.get("scratch_bytes", 0))
        count = {0: "", 1: " in one pass"}.get(len(passes), f" in {len(passes)} passes")
        remarks.append(f"then moved to {name}{count}")
    facts["arrays"] = arrays
    facts["peak_bytes"] = peak + held
    facts["scratch_bytes"] = max(scratch, facts["scratch_bytes"] + now)
    facts["remark"] = ", ".join(remarks)
    return facts


def goes_aside(
    facts: Mapping[str, Any], number: int, target: _native.Store, stacklevel: int = 5
) -> bool:
    """Whether a result that is planned is computed to tiles first, and then moved.

    That is so where it would be written in many small pieces; where tiles of the target would be
    written in parts; and where its tiles are loaded and stored again, and share blocks of the file:
    how often these are moved, nobody could say.
    """
    if has_to_go_aside(facts, number, target):
        return True
    return _is_moved(facts["arrays"][number]["tile"], target, stacklevel)


def has_to_go_aside(facts: Mapping[str, Any], number: int, target: _native.Store) -> bool:
    """Whether a result that is planned cannot be written to its target as it is computed."""
    tile = facts["arrays"][number]["tile"]
    return _cuts_tiles(tile, target) or _is_reworked(facts, number, target)


def _cuts_tiles(tile: Sequence[int], target: _native.Store) -> bool:
    """Whether parts of the target's tiles would be written, which are stored as a whole.

    One program may have several results whose tiles do not suit one another.
    """
    return target.layout == "tiled" and any(
        own % theirs and own < extent
        for own, theirs, extent in zip(tile, target.tile, target.shape, strict=True)
    )


def _is_moved(tile: Sequence[int], target: _native.Store, stacklevel: int = 5) -> bool:
    """Whether a result in such tiles is computed in the scratch directory first, and then moved.

    Warns where it should be, and there is no room.
    """
    if not is_scattered(tile, target):
        return False
    nbytes = math.prod(target.shape) * np.dtype(target.dtype).itemsize
    if nbytes <= scratch_room():
        return True
    warnings.warn(
        f"{target.path}: written in many small pieces, which is slow, because the scratch "
        f"directory is too full for {format_bytes(nbytes)}",
        OutcropWarning,
        stacklevel=stacklevel,
    )
    return False


def share_of_computing(seconds: float | None, moved: Sequence[_native.Store]) -> float:
    """What part of the time computing takes, where these results are moved afterwards."""
    nbytes = sum(math.prod(store.shape) * np.dtype(store.dtype).itemsize for store in moved)
    writing = nbytes / _WRITING
    computing = writing if seconds is None else seconds
    return computing / max(computing + writing, 1e-9)


@dataclass(frozen=True)
class _Pieces:
    """The pieces of a file that tiles are: bytes of each, how many, and whether tiles follow."""

    nbytes: int
    count: int
    follow: bool


def _pieces(tile: Sequence[int], target: _native.Store) -> _Pieces | None:
    """None where there is one tile, or the target has tiles itself."""
    if target.layout == "tiled":
        return None
    shape, run = target.shape, np.dtype(target.dtype).itemsize
    axes = list(range(len(tile)))
    if target.layout != "column-major":
        axes.reverse()
    for i, axis in enumerate(axes):
        run *= tile[axis]
        if tile[axis] < shape[axis]:
            slower = math.prod(shape[slow] for slow in axes[i + 1 :])
            return _Pieces(run, slower * -(-shape[axis] // tile[axis]), slower == 1)
    return None


def is_scattered(tile: Sequence[int], target: _native.Store) -> bool:
    """Whether tiles would be written to many short pieces of a file."""
    pieces = _pieces(tile, target)
    return pieces is not None and not pieces.follow and pieces.nbytes < _LONG_RUN


def whole_lines(target: _native.Store) -> tuple[int, ...]:
    """The least tile that is not written to short pieces of a file."""
    tile, run = [1] * len(target.shape), np.dtype(target.dtype).itemsize
    axes = list(range(len(tile)))
    for axis in axes if target.layout == "column-major" else reversed(axes):
        tile[axis] = min(-(-_LONG_RUN // run), target.shape[axis])
        run *= tile[axis]
        if run >= _LONG_RUN:
            break
    return tuple(tile)


def _is_reworked(facts: Mapping[str, Any], number: int, target: _native.Store) -> bool:
    """Whether tiles that share blocks of the target's file are loaded and stored again."""
    array = facts["arrays"][number]
    pieces = _pieces(array["tile"], target)
    if pieces is None or not _share_blocks(pieces, target) or not array["bytes_read"]:
        return False
    # What an operation of linear algebra loads of its result, it stores again; of others, one may
    # be loaded for the next.
    once = math.prod(target.shape) * np.dtype(target.dtype).itemsize + 2 * pieces.count * _BLOCK
    return bool(facts["reworks_results"]) or array["bytes_written"] > once


def _share_blocks(pieces: _Pieces, target: _native.Store) -> bool:
    """Whether pieces begin and end inside blocks."""
    fastest = 0 if target.layout == "column-major" else -1
    row = target.shape[fastest] * np.dtype(target.dtype).itemsize
    return bool(pieces.nbytes % _BLOCK or (not pieces.follow and row % _BLOCK))


def _blocks_again(tile: Sequence[int], target: _native.Store) -> int:
    """Blocks that are read and written again, at most: pieces end in them, and too many wait."""
    pieces = _pieces(tile, target)
    if pieces is None or not _share_blocks(pieces, target):
        return 0
    ends = 2 * pieces.count
    return ends if ends > _WAITING and not pieces.follow else 0
