"""How a matrix is changed: straight in its store, all at once, or by way of a result of its own.

A Zarr array of ours is changed tile by tile, beside what it holds, and all of it at once at the
end. What is elsewhere, or lies across stored tiles, is written when all of the result has been
computed: so no failure of that leaves a part of a change behind.
"""

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic, ParamSpec, TypeAlias

import numpy as np

from outcrop import _native
from outcrop.arrays.array import Array
from outcrop.arrays.route import told, with_the_least
from outcrop.arrays.source import MemorySource, storable
from outcrop.arrays.stored import StoreSource
from outcrop.arrays.views import NewAxis, View
from outcrop.errors import BudgetError, UnsupportedError, forget_frames
from outcrop.expressions.build.arrays import ExpressionSource, node_of, resolved
from outcrop.expressions.build.reductions import cast
from outcrop.expressions.graph.blas import Blas, Call
from outcrop.expressions.graph.nodes import Node
from outcrop.expressions.planner import Planned
from outcrop.expressions.planner import plan as planned
from outcrop.expressions.rewrite.view_pushdown import leaf_of
from outcrop.process.config import piece_limit
from outcrop.process.operation import operation, scope
from outcrop.program.plan import ExpressionPlan

__all__ = ["Change", "Routine"]

_P = ParamSpec("_P")

_Target: TypeAlias = "_native.Store | tuple[_native.Store, tuple[int, ...]]"
"""A store, or a part of one, from some place on."""

_BLOCK = 4096
"""Bytes that a disk moves at once."""

_METADATA = 1 << 16
"""Bytes of an array's metadata that a change writes, at most."""

_ROWS = 256
"""Rows that are written at once where a half is, and nothing says how many."""


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
    """

    given: Any
    target: Array
    factors: tuple[Array, ...]
    call: Call | None

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
        self._check = check

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> Any:
        """Change the matrix, and give it back."""
        change = self._check(*args, **kwargs)
        if change.call is not None:
            _run(change)
        return change.given

    def plan(self, *args: _P.args, **kwargs: _P.kwargs) -> ExpressionPlan:
        """Plan what a call with these arguments would run.

        Returns
        -------
        ExpressionPlan
            What it will cost, as of `outcrop.plan`. Nothing is changed.

        Raises
        ------
        BudgetError
            The memory budget is too small; says which would do.
        InvalidArgumentError, InvalidTypeError
            The arguments do not fit together.
        UnsupportedError
            There is nothing to compute.
        """
        change = self._check(*args, **kwargs)
        if change.call is None:
            raise UnsupportedError("there is nothing to compute: the matrix stays as it is")
        return _planned(change)

    def __repr__(self) -> str:
        return f"<outcrop.blas.{getattr(self, '__name__', '?')}>"


# -- straight in the store -------------------------------------------------------------------------


@dataclass(frozen=True)
class _Place:
    """A part of a Zarr array of ours, of whole tiles.

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
    def target(self) -> _Target:
        """What a program writes to."""
        start, shape = self.view.box
        store = self.source.store
        return store if shape == self.source.shape else (store, start)

    @property
    def is_new(self) -> bool:
        """Whether the array is not visible yet."""
        return not self.source._committed


def _place(target: Array) -> _Place | None:
    """Where a target is changed straight, if it can be."""
    source, view = target._source, target._view
    if not isinstance(source, StoreSource) or source.format != "zarr":
        return None
    turn = view.turn
    if turn is None or any(turn[1]):
        return None
    start, shape = view.box
    each = zip(start, shape, source.tile, source.shape, strict=True)
    if any(s % t or ((s + n) % t and s + n != whole) for s, n, t, whole in each):
        return None
    return _Place(source, view.straight(), turn[0] != (0, 1))


def _plan_in(place: _Place, change: Change) -> tuple[Planned, Node]:
    before = leaf_of(place.source.now(), place.view)
    node = change.node(before, turned=place.turned)
    with scope():
        (own,) = resolved([node])
        target = place.target
        found = with_the_least(
            lambda: planned([(own, target)]), lambda plan: int(plan.facts["steps"])
        )
    return found, node


def _change(place: _Place, found: Planned, node: Node) -> None:
    source, expression = place.source, ExpressionSource(node)
    with source.changing(whole=False), expression.naming_changes(), source._counted():
        if place.is_new:
            # What fails leaves a part of it behind, and then it is not to become visible.
            source._writes += 1
        progress, timeline = expression.checking(None), expression._timeline()
        found.run([source.store], progress, timeline, commits=not place.is_new)
    source._writes += 1


# -- by way of a result ----------------------------------------------------------------------------


def _result(change: Change) -> ExpressionSource:
    before = cast(node_of(change.target), change.target.dtype)
    return ExpressionSource(change.node(before, turned=False))


def _write(change: Change, result: Array) -> None:
    """Write what has changed, of which there is all."""
    target, half = change.target, change.half
    source = target._source
    with source.changing(whole=False):
        if half is None:
            target[...] = result
            return
        if not half:
            target, result = target.T, result.T
        for rows in _row_blocks(target):
            # On the diagonal, what is not of the half stays as it is.
            beside, own = slice(0, rows.start), target[rows, rows].compute()
            if rows.start:
                target[rows, beside] = result[rows, beside]
            lower = np.tri(*own.shape, dtype=np.bool_)
            np.copyto(own, result[rows, rows].compute(), where=lower)
            target[rows, rows] = own


def _row_blocks(target: Array) -> Iterator[slice]:
    n = target.shape[0]
    tile = target.tile[0] if target.layout == "tiled" else _ROWS
    most = math.isqrt(max(piece_limit() // (4 * target.itemsize), 1))
    high = max(min(tile, most), 1)
    for start in range(0, n, high):
        yield slice(start, min(start + high, n))


def _is_apart(target: Array) -> bool:
    """Whether writing it costs nothing."""
    return isinstance(target._source.base, MemorySource)


def _writing(target: Array) -> int:
    """Bytes that are written where a target is, and read before, at most.

    What is written in pieces is moved in whole tiles, or blocks of the disk, twice at most.
    """
    source, (start, shape) = target._source, target._view.box
    if source.layout == "tiled":
        each = zip(start, shape, source.tile, strict=True)
        count = math.prod((s + n - 1) // t - s // t + 1 for s, n, t in each)
        nbytes = math.prod(source.tile) * target.itemsize
    else:
        fastest = 0 if source.layout == "column-major" else -1
        count, nbytes = math.prod(shape) // shape[fastest], shape[fastest] * target.itemsize
    # With what a codec adds to what it cannot make shorter, and the metadata.
    return 2 * count * (nbytes + nbytes // 64 + 2 * _BLOCK) + _METADATA


# -- both ------------------------------------------------------------------------------------------


def _settled(change: Change) -> _Place | None:
    """Write out what has been assigned before."""
    source = change.target._source
    if isinstance(source, StoreSource):
        source.store.settle()
    return _place(change.target)


def _run(change: Change) -> None:
    place = _settled(change)
    source = change.target._source
    if isinstance(source, StoreSource) and source._committed:
        # What has been assigned before is another change.
        source.flush()
        _native.commit([source.store])
    error: BudgetError | None = None
    if place is not None:
        with operation():
            try:
                found, node = _plan_in(place, change)
            except BudgetError as caught:
                # Its tiles may be too large to compute in; others need not be.
                forget_frames(caught)
                error = caught
            else:
                _change(place, found, node)
                return
    try:
        with operation():
            result = _result(change)
            result.check_open()
            made = result.made(None)
            _write(change, Array(made))
            if isinstance(source, StoreSource) and source._committed:
                _native.commit([source.store])
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
        try:
            found, _ = _plan_in(place, change)
            facts = told(found.facts, {found.number(0): place.source.store})
            found.let_go()
            return ExpressionPlan(found, facts)
        except BudgetError as caught:
            forget_frames(caught)
            error = caught
    source = _result(change)
    source.check_open()
    in_memory = math.prod(source.shape) * source.dtype.itemsize <= piece_limit()
    target: Any = (None, "{}")
    if in_memory:
        target = _native.sketch_in_memory(source.shape, storable(source.dtype))
    try:
        with scope():
            own = resolved([source.node])
            found = with_the_least(
                lambda: planned([(own[0], target)]), lambda plan: int(plan.facts["steps"])
            )
    except BudgetError as caught:
        if error is None or _needed(caught) < _needed(error):
            raise
        raise error from None
    facts = dict(found.facts)
    nbytes = change.target.nbytes
    if not in_memory:
        # All of it comes back from the scratch directory.
        facts["bytes_read"] += nbytes
    facts["exact"] = in_memory and _is_apart(change.target)
    if not _is_apart(change.target):
        most = _writing(change.target)
        facts["bytes_read"] += most
        facts["bytes_written"] += most
    found.let_go()
    return ExpressionPlan(found, facts)
