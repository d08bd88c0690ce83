"""Planning and running expressions."""

import gc
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outcrop import _native
from outcrop.arrays.route import Asked, asked, asking, is_scattered, whole_lines
from outcrop.arrays.source import storable
from outcrop.arrays.stored import StoreSource
from outcrop.errors import BudgetError, SingularMatrixError, forget_frames
from outcrop.expressions.candidates import Aim, Cut, candidates, other_cuts, ways_of
from outcrop.expressions.graph.matrices import MatrixOperation
from outcrop.expressions.graph.nodes import Leaf, Node, ancestors
from outcrop.expressions.graph.reshape import Reshape
from outcrop.expressions.lower.lower import Lowered, Order, orders, too_much_account
from outcrop.expressions.lower.storage import Wanted
from outcrop.expressions.rewrite.external_shuffle import Taking
from outcrop.expressions.rewrite.lines_across import lines_put_together
from outcrop.expressions.rewrite.lines_in_passes import lines_in_passes
from outcrop.expressions.rewrite.products import by_blocks, others, preferred
from outcrop.expressions.rewrite.reshape_by_slabs import tiles_taken
from outcrop.expressions.rewrite.rules import rewritten
from outcrop.expressions.rewrite.samples import apart
from outcrop.expressions.rewrite.small_tiles import on_small_tiles
from outcrop.expressions.rewrite.square_tiles import alternatives
from outcrop.expressions.rewrite.stencils import settled
from outcrop.expressions.rewrite.unordered import unordered
from outcrop.expressions.singular import naming_the_first
from outcrop.expressions.tiling.disk_order import whole
from outcrop.expressions.tiling.fusion import Grouping
from outcrop.process.config import memory_budget
from outcrop.process.floating_errors import FloatingErrors
from outcrop.process.sizes import format_bytes
from outcrop.program.drawing import Picture
from outcrop.program.reading import Reading

__all__ = ["Planned", "plan"]

Progress = Callable[[int, int], None]

_WORTHWHILE = 256 << 10
"""Bytes moved for each step, at least, where other orders are tried: moving so much takes several
times as long as planning a step."""

_AGAIN = 2
"""How many times what is stored is read, at least, where another way to load it is tried."""

_WASTE = 1.25
"""How many times what its passes need a plan reads, at least, that is not as good as it can be."""

_MANY_STEPS = 10_000
"""Steps of programs of which more than a few ways would take long to plan."""

_FEW_WAYS = 2

_MANY_TILES = 30_000
"""Tiles of programs for which others are looked for first, at least."""

_MORE_TILES = 60_000
"""Tiles that are planned to look for less, at least, ..."""

_FOR_BYTES = 1e-6
"""... and for each byte that is read once: a tenth of the time that this takes, roughly."""

_FEW_CUTS = 6
"""How many other cuts are tried where no pass reads anything twice."""

_FAR_MORE = 2
"""How many tiles another way has, at most, for each step of the one that there is."""

_PARTS = (1, 2, 4)
"""Which parts of the budget are tried for the tiles by which lines are put together, or handed on
from pass to pass."""

_LESS = 1.05
"""How many times as much is moved otherwise, where other cuts or orders are taken."""

_SIDE = 128
"""The least extent of tiles with which linear algebra takes twice as long as with large ones.

No speed that is measured decides it: results depend on tiles in their last bits."""

_FAR_LESS = 1.25
"""How many times as much is moved otherwise, where products are computed in another way."""

_FIRST = 1.1
"""How many times as much is moved otherwise, where what is stored is moved first."""


class Planned:
    """A plan for several results.

    Attributes
    ----------
    facts : dict
        Everything there is to say about it.
    """

    def __init__(self, lowered: Lowered, plan: _native.ProgramPlan) -> None:
        self._lowered, self._plan = lowered, plan
        self._others: list[tuple[str, int, float]] = []

    def let_go(self) -> None:
        """Keep what there is to say, and none of the stores: whoever reads it may close them."""
        assert self.facts
        del self._plan
        self._lowered.wanted = [replace(want, target=None) for want in self._lowered.wanted]

    @property
    def way(self) -> int:
        """The way that linear algebra goes through its tiles, by its number."""
        return self._lowered.way

    @cached_property
    def facts(self) -> dict[str, Any]:
        found = self._plan.facts | {"others": self._others}
        for i, want in enumerate(self._lowered.wanted):
            if isinstance(want.target, tuple):
                # People are told of the tiles on disk.
                found["arrays"][self.number(i)]["tile"] = self.tile(i)
        # Only linear algebra changes tiles of a result that have been stored.
        results = (want.node for want in self._lowered.wanted)
        found["reworks_results"] = any(isinstance(node, MatrixOperation) for node in results)
        return found

    @cached_property
    def moved_anyway(self) -> tuple[float, float]:
        """Bytes read, and moved, whatever threads, speeds and other memory there are.

        By these, plans are compared that have other last bits.
        """
        found = self._plan.moved_anyway()
        return (math.inf, math.inf) if found is None else (found[0], sum(found))

    @cached_property
    def once(self) -> float:
        """Bytes that are read where each array is read once."""
        return sum(reading.least / reading.passes for reading in self.readings)

    @cached_property
    def handed_on(self) -> float:
        """Bytes that are read of what passes hand on to others in blocks, each block once."""
        arrays = (self.facts["arrays"][i] for i in self._lowered.handed_on)
        return float(sum(min(a["bytes_read"], _size(a)) for a in arrays))

    @property
    def needed(self) -> float:
        """Bytes that are read where each pass reads once what it takes.

        Passes that might be made side by side, and are not for want of memory, need no more than
        one of them.
        """
        if not self._lowered.is_side_by_side:
            return self.once + self.handed_on
        return sum(reading.least for reading in self.readings) + self.handed_on

    @property
    def size(self) -> int:
        """How many tiles there are, roughly, and so how long planning takes."""
        return self._lowered.grouping.size()

    @property
    def cuts(self) -> Mapping[int, int]:
        """Into which extents lines are cut."""
        return self._lowered.tiling.cuts

    @property
    def holds_tiles(self) -> bool:
        """Whether what is stored is loaded in larger pieces than steps take."""
        tiling = self._lowered.tiling
        return any(tiling.is_held(node) for node in self._lowered.nodes if isinstance(node, Leaf))

    @property
    def is_near_least(self) -> bool:
        """Whether nothing moves far less.

        In one step for each operation, there is nothing to choose; and all that is stored is read.
        """
        return not self.cuts or self.moved_anyway[1] <= _FAR_LESS * self.once

    @property
    def reads_again(self) -> bool:
        """Whether much more is read than is stored, and not only as there are several passes."""
        most = max(_AGAIN * self.once, _WASTE * self.needed)
        # Other threads and speeds do not make it more: of most plans, the first is known at once.
        return self.facts["bytes_read"] > most and self.moved_anyway[0] > most

    @property
    def slowness(self) -> float:
        """How many times as long linear algebra takes as it would with large tiles, roughly."""
        operations = (n for n in self._lowered.nodes if isinstance(n, MatrixOperation))
        matrices = (matrix for n in operations for matrix in (n, *n.operands))
        largest = max(matrices, key=lambda matrix: matrix.size, default=None)
        if largest is None:
            return 1.0
        return 1 + _SIDE / min(self._lowered.tiling.tile(largest), default=_SIDE)

    @property
    def cuts_tiles(self) -> bool:
        """Whether parts of stored tiles are read, each of which takes the whole tile."""
        tiling = self._lowered.tiling
        return any(
            isinstance(node, Leaf)
            and isinstance(node.source, StoreSource)
            and node.source.layout == "tiled"
            and any(
                n * tiling.cells(node, axis) < min(whole(node, axis), node.shape[axis])
                for axis, n in enumerate(tiling.tile(node))
            )
            for node in self._lowered.nodes
        )

    def completed(self) -> "Planned":
        """The same, by the best of all orders of its steps."""
        return _best(self._lowered.wanted, self._lowered.grouping)

    def or_rather(self, other: "Planned") -> "Planned":
        """Another plan for the same, if that is better; remembers that there was one."""
        better, worse = (other, self) if other._plan.is_better_than(self._plan) else (self, other)
        facts = worse.facts
        moved = facts["bytes_read"] + facts["bytes_written"]
        told = facts["remark"], moved, facts["seconds"]
        better._others += [*worse._others, told]
        return better

    def passes(self) -> list[dict[str, Any]]:
        """What each pass reads, computes and keeps."""
        return self._lowered.passes()

    @cached_property
    def readings(self) -> list[Reading]:
        """What the passes take of each stored array, and how little of that would do."""
        return self._lowered.readings(self.facts["arrays"])

    def picture(self) -> Picture:
        """What is made of what."""
        facts = self.facts
        traffic = [(a["bytes_read"], a["bytes_written"]) for a in facts["arrays"]]
        items, edges = self._lowered.picture(traffic)
        what = facts["remark"] if facts["operation"] == "expression" else facts["operation"]
        title = (
            f"{what}, reads {format_bytes(facts['bytes_read'])}, writes "
            f"{format_bytes(facts['bytes_written'])}"
        )
        return Picture(title, items, edges)

    def tile(self, i: int) -> tuple[int, ...]:
        """The shape of the tiles of a result, on disk."""
        return self._lowered.result_tiles[i]

    def is_scattered(self, i: int) -> bool:
        """Whether a result would be written to many short pieces of a file."""
        target = self._lowered.wanted[i].target
        is_file = isinstance(target, _native.Store) and target.format != "memory"
        return is_file and is_scattered(self.tile(i), target)

    def sketch(self, i: int, path: str) -> _native.Store:
        """A result as a Zarr array at a path, for plans: nothing is made."""
        return self._plan.sketch(self.number(i), path, self.tile(i))

    def number(self, i: int) -> int:
        """The number of a result among the arrays of the program."""
        return self._lowered.outputs[i]

    def run(
        self,
        outputs: Sequence[_native.Store],
        progress: Progress | None = None,
        timeline: str | None = None,
        *,
        commits: bool = True,
    ) -> None:
        """Compute the results to their stores, and commit these if asked to."""
        lowered, errors = self._lowered, FloatingErrors()

        def step(number: int, tiles: Sequence[NDArray[Any]], workspace: NDArray[Any]) -> None:
            # Warnings are what the caller has asked for, whichever thread computes.
            try:
                with errors.setting():
                    lowered.run(number, tiles, workspace)
            except BaseException as error:
                # Whoever looks at the frames of a traceback would see memory that others have now.
                del tiles, workspace
                forget_frames(error)
                raise

        numbered = list(zip(lowered.outputs, outputs, strict=True))
        try:
            self._plan.run(step, errors.tell, errors.ignored, numbered, commits, progress, timeline)
        except SingularMatrixError as error:
            raise naming_the_first(error, lowered.nodes, _computed) from None


def _size(array: Mapping[str, Any]) -> int:
    """Bytes of an array of a program."""
    return int(math.prod(array["shape"]) * np.dtype(array["dtype"]).itemsize)


def _computed(node: Node) -> NDArray[Any]:
    """A small array, in memory."""
    result = _native.Output(node.shape, storable(node.dtype), False)
    store = result.store()
    plan([(node, store)]).run([store])
    return result.array().view(node.dtype)


def plan(wanted: Sequence[tuple[Node, Any]]) -> Planned:
    """Plan several results.

    Each is a node with a store, or with the tile (or None) and attributes of an array to be.
    """
    with _uncollected():
        if asked() is Asked.LEAST:
            # Of most of what is looked at, it is enough to know that it does not fit.
            try:
                with asking(Asked.PLAN):
                    return _plan(wanted)
            except BudgetError as error:
                forget_frames(error)
        return _plan(wanted)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Look for no garbage: of all that a plan is made of, nothing is, and looking takes long."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@dataclass
class _Effort:
    """Tiles that may yet be planned to look for what moves less, once there is a plan.

    It is the same on every machine, since what is found may have other last bits.
    """

    least: float = -1
    most: float = math.inf
    """How many tiles a first plan has: more than the least, and no more than the most."""
    left: float = math.inf
    has_put_off: bool = False
    """Whether a first plan has been put off, for what has fewer tiles."""

    def puts_off(self, tiles: int) -> bool:
        """Whether a first plan has so many tiles that others come before, or has been looked at."""
        self.has_put_off |= tiles > self.most
        return not self.least < tiles <= self.most

    def spend(self, found: Planned) -> None:
        """What making a plan has taken; of the first one, how much looking further is worth."""
        if self.left == math.inf:
            self.left = max(_MORE_TILES, _FOR_BYTES * found.once)
        else:
            self.left -= found.size

    @property
    def is_spent(self) -> bool:
        """Whether that is enough."""
        return self.left <= 0


def _plan(wanted: Sequence[tuple[Node, Any]]) -> Planned:
    aims = [Aim.at(target) for _, target in wanted]
    # Of what goes to memory, whole tiles would be there beside it.
    to_memory = [
        isinstance(aim.target, _native.Store) and aim.target.format == "memory" for aim in aims
    ]
    roots = rewritten(settled(apart(unordered([node for node, _ in wanted])), to_memory))
    found = _plan_for(roots, aims)
    if asked() is not Asked.PLAN:
        return found
    scattered = [i for i, aim in enumerate(aims) if found.is_scattered(i)]
    if not scattered:
        return found
    # In whole lines, at once, or by way of scratch, where they are written and read once more.
    for i in scattered:
        aims[i] = replace(aims[i], tile=whole_lines(aims[i].target))
    try:
        other = _plan_for(roots, aims)
    except BudgetError as error:
        forget_frames(error)
        return found
    beside = 2 * sum(roots[i].nbytes for i in scattered)
    is_better = other.moved_anyway[1] <= found.moved_anyway[1] + beside
    return other if is_better else found


def _plan_for(roots: Sequence[Node], aims: Sequence[Aim]) -> Planned:
    """The plan for results that are computed to their aims."""
    error: BudgetError | None = None
    for part in _PARTS:
        cut = lines_in_passes(roots, memory_budget(), part)
        try:
            return _plan_as(cut or roots, aims)
        except BudgetError as caught:
            forget_frames(caught)
            error = caught if error is None else min(caught, error, key=_needed)
        if cut is None:
            break
    assert error is not None
    try:
        raise error
    finally:
        del error


def _plan_as(roots: Sequence[Node], aims: Sequence[Aim]) -> Planned:
    """The plan for nodes as they have been rewritten."""
    leaves = (n for n in ancestors(roots) if isinstance(n, Leaf))
    stored = {id(n.source): n.source for n in leaves if isinstance(n.source, StoreSource)}
    nbytes = sum(math.prod(one.shape) * one.dtype.itemsize for one in stored.values())
    effort = _Effort(most=max(_MANY_TILES, _FOR_BYTES * nbytes))
    try:
        return _plan_within(roots, aims, effort)
    except BudgetError as caught:
        if not effort.has_put_off:
            raise
        error = caught
        forget_frames(error)
    try:
        return _plan_within(roots, aims, _Effort(least=effort.most))
    except BudgetError as caught:
        forget_frames(caught)
        error = min(caught, error, key=_needed)
    try:
        raise error
    finally:
        del error


def _plan_within(roots: Sequence[Node], aims: Sequence[Aim], effort: _Effort) -> Planned:
    """The plan for nodes as they have been rewritten, by so much effort."""
    chosen, sure = preferred(roots)
    best: Planned | None = None
    error: BudgetError | None = None

    def moves_far_more(choice: Mapping[int, bool]) -> bool:
        return any(choice[one] != chosen[one] for one in sure)

    # What moves far more may take less memory.
    for choice in sorted((chosen, *others(roots, chosen)), key=moves_far_more):
        if best is not None and (best.is_near_least or moves_far_more(choice) or effort.is_spent):
            break
        for nodes in alternatives(by_blocks(roots, choice)):
            if best is not None and best.is_near_least:
                break
            try:
                brief = best is not None
                found = _plan_of(nodes, aims, effort, beside=best, briefly=brief)
                if asked() is Asked.WHETHER:
                    return found
                if best is None:
                    best = found
                elif _moves_less(found, best, _FAR_LESS):
                    best = found.completed()
            except BudgetError as caught:
                forget_frames(caught)
                error = caught if error is None else min(caught, error, key=_needed)
    for part in _PARTS:
        if best is not None and not best.reads_again:
            break
        best = _or_rather(best, lines_put_together(roots, memory_budget() // part), aims, effort)
    for is_square in (False, True):
        if best is not None and not best.reads_again:
            break
        moved = on_small_tiles(roots, memory_budget(), is_square=is_square)
        best = _or_rather(best, moved, aims, effort)
    if best is not None:
        return best
    assert error is not None
    try:
        raise error
    finally:
        del error


def _or_rather(
    found: Planned | None, moved: Sequence[Node] | None, aims: Sequence[Aim], effort: _Effort
) -> Planned | None:
    """The plan; or one in which something is moved to other tiles first, where that is less."""
    if moved is None:
        return found
    # What was looked for before has not been found.
    effort.left = max(effort.left, _MORE_TILES / 8)
    try:
        other = _plan_of(moved, aims, effort, beside=found, briefly=found is not None)
    except BudgetError as error:
        forget_frames(error)
        return found
    if found is None:
        return other
    return other.completed() if _moves_less(other, found, _FIRST) else found


def _moves_less(other: Planned, found: Planned, times: float) -> bool:
    return other.moved_anyway[1] * times < found.moved_anyway[1]


def _plan_of(
    roots: Sequence[Node],
    aims: Sequence[Aim],
    effort: _Effort,
    *,
    beside: Planned | None = None,
    briefly: bool = False,
) -> Planned:
    """The plan for nodes as they are, of not many more steps than another one.

    Briefly, the first order that there is.
    """
    most = most_tiles = math.inf
    if beside is not None:
        # The more is moved otherwise, the longer it may be looked for what moves less.
        worth = _FOR_BYTES * beside.moved_anyway[1]
        most = max(_MANY_STEPS, _FAR_MORE * beside.facts["steps"], worth)
        most_tiles = max(_MANY_TILES, _FAR_MORE * beside.size, worth)
    error: BudgetError | None = None
    held: tuple[Planned, Taking] | None = None
    tried: list[Cut] = []
    taken = ways_of(roots, aims)
    for given, grouping, way in candidates(taken, aims):
        holds = grouping.tiling.holds
        # Once there is a plan, it is only looked whether to hold tiles pays.
        if held is not None and way is not held[1]:
            break
        if held is not None and holds:
            continue
        if briefly and error is not None and not holds:
            # It would be read in parts: no way that is looked for.
            break
        try:
            tiles = grouping.size()
            if (
                grouping.tiles() > most
                or tiles > most_tiles
                or (beside is None and effort.puts_off(tiles))
            ):
                raise too_much_account(tiles, "tiles")
            tried.append((grouping.tiling.cuts, holds))
            is_any = asked() is Asked.WHETHER
            found = _best(given, grouping, briefly=briefly or is_any or held is not None)
            effort.spend(found)
            if found.facts["bytes_read"] <= way.most:
                if is_any:
                    return found
                if holds and found.holds_tiles and found.reads_again:
                    held = found, way
                    continue
                if held is not None:
                    if held[0].moved_anyway <= found.moved_anyway:
                        break
                    found = found if briefly else _best(given, grouping)
                found = _or_by_other_cuts(found, way, aims, effort, tried=tried, briefly=briefly)
                return found if way is taken[-1] else _or_as_it_comes(found, taken[-1], aims)
            error = error or way.error
        except BudgetError as caught:
            forget_frames(caught)
            # Small tiles take less memory each, but there are more of them to keep account of. What
            # a way takes that may read too much is not worth telling.
            if way.most == sys.maxsize or (error is None and way.error is None):
                error = caught if error is None else min(caught, error, key=_needed)
            error = error or way.error
    if held is not None:
        return _or_by_other_cuts(*held, aims, effort, tried=tried, briefly=briefly)
    assert error is not None
    try:
        raise error
    finally:
        del error


def _or_by_other_cuts(
    found: Planned,
    way: Taking,
    aims: Sequence[Aim],
    effort: _Effort,
    *,
    tried: Sequence[Cut],
    briefly: bool,
) -> Planned:
    """The plan; or one with tiles of other sizes, where that moves less.

    Of larger ones there are fewer that share a stored tile, and rows or sums are whole; of smaller
    ones memory holds more at a time.
    """
    enough = _LESS * (found.once + found.handed_on)
    if found.moved_anyway[0] <= enough:
        return found
    least, reserve = found, effort.left / 2
    for count, (own, grouping) in enumerate(
        other_cuts(way, aims, tried, whole_tiles=found.cuts_tiles)
    ):
        if least.moved_anyway[0] <= enough or effort.left <= reserve:
            break
        if count >= _FEW_CUTS and least.moved_anyway[0] <= _LESS * least.needed:
            # Each of its passes reads what it takes once: others would have to be fewer.
            break
        size = grouping.size()
        if size > effort.left - reserve:
            continue
        try:
            other = _best(own, grouping, briefly=True)
        except BudgetError as error:
            forget_frames(error)
            # Most of these are not made at all.
            effort.left -= size / 4
            continue
        effort.spend(other)
        (read, moved), (now_read, now_moved) = other.moved_anyway, least.moved_anyway
        # Small tiles may take longer to compute than to move more often.
        less = _LESS * max(other.slowness / least.slowness, 1)
        # What is read of compressed tiles is little, and decoding it is much.
        is_read_less = read * less < now_read and moved <= now_moved
        if is_read_less or moved * less < now_moved:
            least = other
        # Plans are large: the next one is made without it.
        del other
    return least if least is found or briefly else least.completed()


def _or_as_it_comes(found: Planned, way: Taking, aims: Sequence[Aim]) -> Planned:
    """The plan; or one that puts nothing in order beforehand, where that moves less.

    Tiles that are taken from again may still be in memory.
    """
    if found.moved_anyway[0] <= _LESS * (found.once + found.handed_on):
        return found
    most = max(_MANY_STEPS, _FAR_MORE * found.facts["steps"])
    for given, grouping, _ in candidates([way], aims):
        if grouping.tiles() > most:
            break
        shapes = (node for node in grouping.nodes if isinstance(node, Reshape))
        if sum(tiles_taken(node, grouping.tiling) for node in shapes) > most:
            continue
        try:
            other = _best(given, grouping, briefly=True)
        except BudgetError as error:
            forget_frames(error)
            continue
        less = other.moved_anyway[1] * _LESS < found.moved_anyway[1]
        return _best(given, grouping) if less else found
    return found


def _best(wanted: Sequence[Wanted], grouping: Grouping, *, briefly: bool = False) -> Planned:
    """The order of steps that takes the least time, of those with the same tiles."""
    best: Planned | None = None
    error: BudgetError | None = None
    refused = set()
    way = 0
    for order in orders(grouping):
        # Along the other axis first, the same steps take as much memory.
        if replace(order, turned=False) in refused:
            continue
        try:
            found = _by_the_best_way(wanted, grouping, order, way, briefly=briefly)
        except BudgetError as caught:
            forget_frames(caught)
            error = caught if error is None else min(caught, error, key=_needed)
            refused.add(replace(order, turned=False))
            continue
        best, way = found if best is None else best.or_rather(found), found.way
        if briefly or (order == Order() and not _may_be_better(found)):
            break
    if best is None:
        assert error is not None
        try:
            raise error
        finally:
            del error
    return best


def _by_the_best_way(
    wanted: Sequence[Wanted], grouping: Grouping, order: Order, way: int, *, briefly: bool
) -> Planned:
    """The way through the tiles of linear algebra that takes the least time.

    Briefly, the first one, which promises to. Of orders other than the first, the way that was best
    for that. A budget that is named is that of the way that takes the least memory: with more,
    others are there, and it is always one.
    """
    best: Planned | None = None
    error: BudgetError | None = None
    first, ways = way, [way]
    while ways:
        way = ways.pop(0)
        lowered = Lowered(wanted, grouping, order, way)
        if way == first and order == Order():
            ways = list(range(way + 1, lowered.ways))
        try:
            found = Planned(lowered, _native.plan_program(lowered.draft, asked() is Asked.LEAST))
            best = found if best is None else best.or_rather(found)
            if briefly:
                break
            if found.facts["steps"] > _MANY_STEPS:
                ways = [other for other in ways if other < _FEW_WAYS]
        except BudgetError as caught:
            forget_frames(caught)
            if lowered.is_frugal or error is None:
                error = caught
            if lowered.is_frugal:
                # The others take no less.
                break
            if way == first:
                # That which takes the least is the last one, as a rule.
                ways = [*ways[-1:], *ways[:-1]]
    if best is not None:
        return best
    assert error is not None
    try:
        raise error
    finally:
        del error


def _needed(error: BudgetError) -> int:
    """How many bytes would do, as far as an error knows."""
    return sys.maxsize if error.needed is None else error.needed


def _may_be_better(found: Planned) -> bool:
    """Whether other orders are worth looking at."""
    facts = found.facts
    moved = facts["bytes_read"] + facts["bytes_written"]
    return (
        facts["io_seconds"] > facts["compute_seconds"]
        and moved > _WORTHWHILE * facts["steps"]
        and bool(facts["bytes_read"] > 1.01 * found.once)
    )
