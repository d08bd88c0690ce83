"""How a matrix is changed: straight in its store, all at once, or by way of a result of its own.

A Zarr array of ours is changed tile by tile, beside what it holds, and all of it at once at the
end. What is elsewhere, or lies across stored tiles, is written when all of the result has been
computed: so no failure of that leaves a part of a change behind.
"""

import functools
import inspect
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeAlias

import numpy as np

from outcrop import _native
from outcrop.arrays.array import Array
from outcrop.arrays.computed import brought_to_disk
from outcrop.arrays.route import (
    composed,
    planned_in_memory,
    share_of_computing,
    told,
    too_little,
    with_the_least,
)
from outcrop.arrays.saving import part_of
from outcrop.arrays.source import MemorySource, storable
from outcrop.arrays.stored import StoreSource
from outcrop.arrays.views import NewAxis, View
from outcrop.errors import BudgetError, forget_frames
from outcrop.expressions.build.arrays import ExpressionSource, node_of, resolved
from outcrop.expressions.build.reductions import cast
from outcrop.expressions.graph.blas import Blas, Call
from outcrop.expressions.graph.nodes import Node
from outcrop.expressions.planner import Planned
from outcrop.expressions.planner import plan as planned
from outcrop.expressions.rewrite.view_pushdown import leaf_of
from outcrop.process.config import memory_budget, piece_limit, scratch_directory
from outcrop.process.operation import operation, scope
from outcrop.program.plan import ExpressionPlan, Plan, plan_of_nothing
from outcrop.program.progress import watching

__all__ = ["Change", "Progress", "Routine"]

_P = ParamSpec("_P")

_Target: TypeAlias = "_native.Store | tuple[_native.Store, tuple[int, ...]]"
"""A store, or a part of one, from some place on."""

Progress: TypeAlias = Callable[[int, int], None]

_BLOCK = 4096
"""Bytes that a disk moves at once."""

_METADATA = 1 << 16
"""Bytes of an array's metadata that a change writes, at most."""


@dataclass(frozen=True)
class Change:
    """What a routine is to do, with arguments that fit together.

    Attributes
    ----------
    given : Array or numpy.ndarray
        What is changed, as it was given.
    target : Array
        The same as an array of ours.
    factors : tuple of Array
        What it is computed from, besides.
    call : Call or None
        How; None where nothing changes.
    progress : callable or None
        What is told how far it is.
    """

    given: Any
    target: Array
    factors: tuple[Array, ...]
    call: Call | None
    progress: Progress | None = None

    def telling(self, progress: Progress | None) -> "Change":
        """The same, telling how far it is."""
        return replace(self, progress=progress)

    def node(self, before: Node, *, turned: bool) -> Node:
        """What becomes of the target, or of its transpose where that is how it is stored."""
        assert self.call is not None
        nodes, sides = [], [False, False]
        for i, factor in enumerate(self.factors):
            straight, sides[i] = _straight(factor)
            nodes.append(cast(node_of(straight), before.dtype))
        own = self.call.turned[2] != turned
        call = replace(self.call, turned=(sides[0], sides[1], own))
        return Blas.of(call, nodes, before)

    @property
    def half(self) -> bool | None:
        """Which half is changed, if it is one: whether that is the lower one."""
        call = self.call
        assert call is not None
        return call.lower if call.form in ("scale", "update", "update twice") else None


def _straight(factor: Array) -> tuple[Array, bool]:
    """A factor as it lies, and whether it is the transpose of that."""
    view = factor._view
    if any(isinstance(axis, NewAxis) for axis in view.axes) or not view.is_permuted:
        return factor, False
    return Array(factor._source, view.straight()), True


class Routine(Generic[_P]):
    """A routine that changes one of its arguments in place.

    Called, it does that, and returns what it has changed. `plan` takes the same arguments.
    """

    def __init__(self, check: Callable[_P, Change]) -> None:
        functools.update_wrapper(self, check)
        changed = Array | np.ndarray
        self.__signature__ = inspect.signature(check).replace(return_annotation=changed)
        self._check = check

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> Array | Any:
        """Change the matrix, and give it back: an `Array`, or one of NumPy's, as it was given."""
        change = self._check(*args, **kwargs)
        if change.call is not None:
            _run(change, change.progress)
        return change.given

    def plan(self, *args: _P.args, **kwargs: _P.kwargs) -> Plan:
        """Plan what a call with these arguments would run.

        Returns
        -------
        Plan
            What it will cost, as of `outcrop.plan`. Nothing is changed.

        Raises
        ------
        BudgetError
            The memory budget is too small; says which would do.
        InvalidArgumentError, InvalidTypeError
            The arguments do not fit together.
        """
        change = self._check(*args, **kwargs)
        # Where the matrix stays as it is, nothing moves.
        return plan_of_nothing() if change.call is None else _planned(change)

    def __repr__(self) -> str:
        return f"<outcrop.blas.{getattr(self, '__name__', '?')}>"


# -- straight in the store -------------------------------------------------------------------------


@dataclass(frozen=True)
class _Place:
    """A part of an array that is stored.

    Attributes
    ----------
    source : StoreSource
        The array.
    view : View
        The part, with axes as they are stored.
    turned : bool
        Whether it is the transpose of the target.
    """

    source: StoreSource
    view: View
    turned: bool

    @property
    def is_tiles(self) -> bool:
        """Whether it is whole tiles of a Zarr array of ours."""
        start, shape = self.view.box
        each = zip(start, shape, self.source.tile, self.source.shape, strict=True)
        return self.source.format == "zarr" and not any(
            s % t or ((s + n) % t and s + n != whole) for s, n, t, whole in each
        )

    @property
    def target(self) -> _Target:
        """What a program writes to."""
        start, shape = self.view.box
        store = self.source.store
        return store if shape == self.source.shape else (store, start)

    @property
    def is_new(self) -> bool:
        """Whether the array is not visible yet."""
        return not self.source._committed

    def node(self, change: Change) -> Node:
        """What it becomes."""
        before = leaf_of(self.source.now(), self.view)
        return change.node(before, turned=self.turned)


def _place(target: Array) -> _Place | None:
    """Where a target is stored, if it is all of a box."""
    source, view = target._source, target._view
    if not isinstance(source, StoreSource):
        return None
    turn = view.turn
    if turn is None or any(turn[1]):
        return None
    return _Place(source, view.straight(), turn[0] != (0, 1))


def _plan_in(place: _Place, change: Change) -> tuple[Planned, Node]:
    node = place.node(change)
    with scope():
        (own,) = resolved([node])
        target = place.target
        found = with_the_least(
            lambda: planned([(own, target)]), lambda plan: int(plan.facts["steps"])
        )
    return found, node


def _change(place: _Place, found: Planned, node: Node, progress: Progress | None) -> None:
    source, expression = place.source, ExpressionSource(node)
    with (
        source.changing(whole=False),
        expression.naming_changes(),
        source._counted(),
        watching(progress, node.name, found.facts) as watched,
    ):
        if place.is_new:
            # What fails leaves a part of it behind, and then it is not to become visible.
            source._writes += 1
        told, timeline = expression.checking(watched), expression._timeline()
        found.run([source.store], told, timeline, commits=not place.is_new)
    source._writes += 1


# -- by way of a result ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Result:
    """A result that is computed, and laid over a part of an array that is stored.

    Attributes
    ----------
    place : _Place
        The part.
    source : ExpressionSource
        The result, with axes as they are stored.
    plan : ComputedPlan
        Of computing it.
    in_memory : bool
        Whether it is in memory then, and not in the scratch directory.
    lower : bool or None
        Which half of the part changes, if one does.
    facts : dict
        Everything there is to say about all of it.
    """

    place: _Place
    source: ExpressionSource
    plan: Any
    in_memory: bool
    lower: bool | None
    facts: dict[str, Any]


def _by_result(place: _Place, change: Change) -> _Result:
    """Plan a result; in memory where it is small and there is room, else in scratch."""
    source = ExpressionSource(place.node(change))
    lower = change.half if change.half is None or not place.turned else not change.half
    start, _ = place.view.box

    def laid(plan: Planned, tiles: _native.Store, held: int) -> dict[str, Any]:
        move = _native.plan_lay(tiles, place.source.store, start, lower)
        needed = held + move["least_bytes"]
        if needed > memory_budget():
            raise BudgetError(too_little("writing the result", needed, memory_budget()), needed)
        name = Path(place.source.path or "").name
        told = {**move, "passes": [{"bytes_read": move["bytes_read"]}]}
        if place.is_new:
            told["bytes_written"] -= told["commit_bytes"]
            told["commit_bytes"] = 0
        return composed(plan.facts, {plan.number(0): (name, told, place.source.store)}, held=held)

    def made() -> _Result:
        if math.prod(source.shape) * source.dtype.itemsize <= piece_limit():
            try:
                plan, held = planned_in_memory(source)
                tiles = _native.sketch_in_memory(source.shape, storable(source.dtype))
                return _Result(place, source, plan, True, lower, laid(plan.planned, tiles, held))
            except BudgetError as caught:
                forget_frames(caught)
        plan = source.plan((None, "{}"))
        tiles = plan.sketch(str(scratch_directory() / "result.zarr"))
        return _Result(place, source, plan, False, lower, laid(plan.planned, tiles, 0))

    return with_the_least(made, lambda found: int(found.plan.facts["steps"]))


def _lay(found: _Result, progress: Progress | None) -> None:
    place, source = found.place, found.source
    target = place.source
    share = share_of_computing(found.plan.facts["seconds"], [target.store])
    first, second = part_of(progress, 0.0, share), part_of(progress, share, 1.0)
    if found.in_memory:
        output = _native.Output(source.shape, storable(source.dtype), source.leaves_zeros)
        store = output.store()
        source.run(found.plan, store, first)
    else:
        made = brought_to_disk(source, View.whole(source.shape), first, plan=found.plan)
        store = made.store
    start, _ = place.view.box
    is_ours = target.format == "zarr"
    with target.changing(whole=False), target._counted():
        if place.is_new or not is_ours:
            target._writes += 1
        _native.lay(store, target.store, start, found.lower, second)
        if not place.is_new:
            _native.commit([target.store])
    target._writes += 1


def _result(change: Change) -> ExpressionSource:
    before = cast(node_of(change.target), change.target.dtype)
    return ExpressionSource(change.node(before, turned=False))


def _write(change: Change, result: Array) -> None:
    """Write what has changed, of which there is all, tile by tile of the result."""
    target, half = change.target, change.half
    with target._source.changing(whole=False):
        if half is None and result._source.layout != "tiled":
            target[...] = result
            return
        for rows, cols in _tiles_of(result.shape, result.tile, half):
            block = result[rows, cols].compute()
            if half is not None:
                i = np.arange(rows.start, rows.stop)[:, None]
                j = np.arange(cols.start, cols.stop)[None, :]
                own = target[rows, cols].compute()
                np.copyto(own, block, where=i >= j if half else i <= j)
                block = own
            target[rows, cols] = block


def _is_apart(target: Array) -> bool:
    """Whether writing it costs nothing."""
    return isinstance(target._source.base, MemorySource)


def _writing(target: Array, blocks: Iterable[tuple[slice, slice]]) -> int:
    """Bytes that are written where a target is, at most, block after block.

    What is written in pieces is moved in whole tiles, or blocks of the disk.
    """
    source, nbytes = target._source, _METADATA
    itemsize = target.itemsize
    # With what a codec adds to what it cannot make shorter.
    whole = math.prod(source.tile) * itemsize if source.layout == "tiled" else 0
    whole += whole // 64 + 2 * _BLOCK
    fastest = 0 if source.layout == "column-major" else -1
    for rows, cols in blocks:
        view = target[rows, cols]._view
        start, shape = view.box
        if source.layout == "tiled":
            each = zip(start, shape, source.tile, strict=True)
            nbytes += math.prod((s + n - 1) // t - s // t + 1 for s, n, t in each) * whole
        else:
            runs = math.prod(shape) // shape[fastest]
            nbytes += runs * (shape[fastest] * itemsize + 2 * _BLOCK)
    return nbytes


# -- both ------------------------------------------------------------------------------------------


def _settled(change: Change) -> _Place | None:
    """Write out what has been assigned before."""
    source = change.target._source
    if isinstance(source, StoreSource):
        source.store.settle()
    return _place(change.target)


def _run(change: Change, progress: Progress | None) -> None:
    place = _settled(change)
    source = change.target._source
    if isinstance(source, StoreSource) and source._committed:
        # What has been assigned before is another change.
        source.flush()
        _native.commit([source.store])
    with operation():
        if place is None:
            result = _result(change)
            result.check_open()
            _write(change, Array(result.made(progress)))
            if isinstance(source, StoreSource) and source._committed:
                _native.commit([source.store])
            return
        error: BudgetError | None = None
        if place.is_tiles:
            try:
                found, node = _plan_in(place, change)
            except BudgetError as caught:
                # Its tiles may be too large to compute in; others need not be.
                forget_frames(caught)
                error = caught
            else:
                _change(place, found, node, progress)
                return
        with _least_of(error):
            way = _by_result(place, change)
        _lay(way, progress)


@contextmanager
def _least_of(error: BudgetError | None) -> Iterator[None]:
    """Of two ways that both take too much memory, name the one that takes less."""
    try:
        yield
    except BudgetError as caught:
        if error is None or _needed(caught) < _needed(error):
            raise
        raise error from None


def _needed(error: BudgetError) -> float:
    return math.inf if error.needed is None else error.needed


def _planned(change: Change) -> ExpressionPlan:
    place = _settled(change)
    error: BudgetError | None = None
    if place is not None:
        if place.is_tiles:
            try:
                found, _ = _plan_in(place, change)
                facts = told(found.facts, {found.number(0): place.source.store})
                if place.is_new:
                    # It is made visible later.
                    facts["bytes_written"] -= facts["commit_bytes"]
                    facts["commit_bytes"] = 0
                found.let_go()
                return ExpressionPlan(found, facts)
            except BudgetError as caught:
                forget_frames(caught)
                error = caught
        with _least_of(error), scope():
            way = _by_result(place, change)
        way.plan.planned.let_go()
        return ExpressionPlan(way.plan.planned, way.facts)
    source = _result(change)
    source.check_open()
    with scope():
        one, facts, is_in_memory = with_the_least(
            lambda: _apart(change, source), lambda found: _steps(found[0])
        )
    if not _is_apart(change.target):
        if is_in_memory and change.half is None:
            # Assigned at once.
            tile: tuple[int, ...] = source.shape
        else:
            tile = source.tile if is_in_memory else one.output_tile
        most = _writing(change.target, _tiles_of(source.shape, tile, change.half))
        # What a step leaves out may come twice; of a half, what is not of it is read besides.
        facts["bytes_read"] += (2 if change.half is None else 3) * most
        facts["bytes_written"] += most
        facts["exact"] = False
    one.planned.let_go()
    return ExpressionPlan(one.planned, facts)


def _apart(change: Change, source: ExpressionSource) -> tuple[Any, dict[str, Any], bool]:
    """The plan of a result that is computed aside; what it takes, with reading it again; and where.

    That is in memory, or in scratch.
    """
    if math.prod(source.shape) * source.dtype.itemsize <= piece_limit():
        one, held = planned_in_memory(source)
        peak = one.facts["peak_bytes"] + held
        return one, {"exact": True, **one.facts, "peak_bytes": peak}, True
    one = source.plan((None, "{}"))
    tiles = one.sketch(str(scratch_directory() / "result.zarr"))
    facts = {"exact": True, **one.facts}
    for rows, cols in _tiles_of(source.shape, one.output_tile, change.half):
        shape = (rows.stop - rows.start, cols.stop - cols.start)
        facts["bytes_read"] += tiles.bytes_to_load((rows.start, cols.start), shape)
    return one, facts, False


def _steps(one: Any) -> int:
    return int(one.facts["steps"])


def _tiles_of(
    shape: tuple[int, ...], tile: tuple[int, ...], lower: bool | None
) -> Iterator[tuple[slice, slice]]:
    """The tiles of a matrix, or those that have elements of a half of it."""
    for i in range(0, shape[0], tile[0]):
        for j in range(0, shape[1], tile[1]):
            rows = slice(i, min(i + tile[0], shape[0]))
            cols = slice(j, min(j + tile[1], shape[1]))
            if lower is None or (rows.stop > j if lower else cols.stop > i):
                yield rows, cols
