"""Taking what is at indices along an axis: from the operands, as far down as it goes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from outcrop.arrays.stored import StoreSource
from outcrop.arrays.views import NewAxis, View
from outcrop.expressions.graph.gathers import Alias, Join, Mosaic, Select, Take
from outcrop.expressions.graph.indices import Indices, Listed
from outcrop.expressions.graph.matrices import MatrixOperation
from outcrop.expressions.graph.merge_runs import Collect
from outcrop.expressions.graph.nodes import (
    Below,
    Contract,
    Expanded,
    Leaf,
    Lines,
    Map,
    Node,
    Reduce,
    Scan,
    remade,
)
from outcrop.expressions.graph.phases import Phase
from outcrop.expressions.graph.points import Points
from outcrop.expressions.graph.reshape import Reshape
from outcrop.expressions.graph.retile import Moved, Refolded
from outcrop.expressions.rewrite.view_pushdown import viewed

__all__ = ["taken", "taken_by_rule"]

_FEW = 16
"""Views of runs of indices, each read exactly, that are rather joined than indices taken."""

_FEWEST = 3
"""Indices that are a progression, and not two that happen to be some way apart."""

_ENDS = 3
"""Runs, as of what is padded, that are rather joined whatever they are of."""


@dataclass(frozen=True)
class _Runs:
    """Indices, and how they are made of runs of indices that follow one another, if of few."""

    indices: Indices
    runs: tuple[slice, ...] = ()

    def of(self, node: Node, axis: int) -> Node:
        """What is at the indices along an axis of a node that they are not pushed through."""
        few = 0 < len(self.runs) <= _ENDS
        if few or (self.runs and _are_read_apart(node, axis)):
            key = (slice(None),) * axis
            whole = View.whole(node.shape)
            parts = [viewed(node, whole.index((*key, run))) for run in self.runs]
            return parts[0] if len(parts) == 1 else Join.of(parts, axis)
        return Take.of(node, self.indices, axis)


def _are_read_apart(node: Node, axis: int) -> bool:
    """Whether runs of indices along an axis have little in common that is read for them."""
    if not isinstance(node, Leaf):
        return False
    slowest = {"row-major": 0, "column-major": len(node.view.selectors) - 1}
    at = slowest.get(node.source.layout)
    return not isinstance(node.source, StoreSource) or node.view.axes[axis] == at


def taken(node: Node, indices: NDArray[np.int64], axis: int) -> Node:
    """What is at non-negative indices along an axis."""
    if (run := _progression(indices)) is not None:
        return viewed(node, View.whole(node.shape).index((slice(None),) * axis + (run,)))
    # They are the caller's, and may be changed.
    wanted = _Runs(Listed(indices.copy()))
    breaks = np.flatnonzero(np.diff(indices) != 1) + 1
    if len(indices) and (len(breaks) + 1) * _ends(node, axis, wanted) <= _FEW:
        ends = zip([0, *breaks], [*breaks, len(indices)], strict=True)
        runs = (slice(int(indices[a]), int(indices[a]) + int(b - a)) for a, b in ends)
        wanted = _Runs(wanted.indices, tuple(runs))
    return _pushed(node, axis, wanted)


def _progression(indices: NDArray[np.int64]) -> slice | None:
    """Indices that are each as far from the one before, as those of a month are in every year."""
    if len(indices) < _FEWEST:
        return None
    first, step, last = int(indices[0]), int(indices[1] - indices[0]), int(indices[-1])
    if step == 0 or np.any(np.diff(indices) != step):
        return None
    stop = last + (1 if step > 0 else -1)
    return slice(first, None if stop < 0 else stop, step)


def taken_by_rule(node: Node, indices: Indices, axis: int) -> Node:
    """What is at indices along an axis that follow a rule."""
    return _pushed(node, axis, _Runs(indices))


def _ends(node: Node, axis: int, wanted: _Runs) -> int:
    """How many nodes it will be pushed down to."""
    stack: list[tuple[Node, int]] = [(node, axis)]
    seen: set[tuple[int, int]] = set()
    ends = 0
    while stack:
        at, along = stack.pop()
        if (id(at), along) in seen:
            continue
        seen.add((id(at), along))
        wishes, _ = _below[type(at)](at, along, wanted)
        ends += not wishes
        stack += [(operand, own) for operand, own in wishes if own is not None]
    return ends


def _pushed(node: Node, axis: int, wanted: _Runs) -> Node:
    def below(at: Node, along: int | None) -> _Below:
        return ((), lambda _: at) if along is None else _below[type(at)](at, along, wanted)

    wish: int | None = axis
    return remade(node, wish, below)


_Below: TypeAlias = Below[int | None]
"""Along which axis elements are taken from operands; None: along none, the operand as it is."""

_below: Phase[[int, _Runs], _Below] = Phase("what is made of elements of a node along an axis")


@_below.of(Leaf, Scan, Select, Moved, Alias, Mosaic, Take, Points, Collect, Reshape, Refolded)
@_below.of(MatrixOperation)
def _here(node: Node, axis: int, wanted: _Runs) -> _Below:
    return (), lambda _: wanted.of(node, axis)


@_below.of(Map)
def _of_map(node: Map, axis: int, wanted: _Runs) -> _Below:
    if node.is_stencil:
        # It is settled later what is made of what is taken of it, as of views.
        return _here(node, axis, wanted)
    wishes: list[tuple[Node, int | None]] = []
    for operand in node.operands:
        own = axis - (node.ndim - operand.ndim)
        runs = own >= 0 and operand.shape[own] == node.shape[axis]
        wishes.append((operand, own if runs else None))
    shape = (*node.shape[:axis], wanted.indices.length, *node.shape[axis + 1 :])
    return wishes, lambda made: node.applied(made, shape)


@_below.of(Expanded)
def _of_expanded(node: Expanded, axis: int, wanted: _Runs) -> _Below:
    own = node.view.axes[axis]
    if isinstance(own, NewAxis):
        return _here(node, axis, wanted)
    wishes: list[tuple[Node, int | None]] = [(node.operands[0], own)]

    def made_of(made: Sequence[Node]) -> Node:
        whole = View.whole(made[0].shape)
        return Expanded.of(made[0], View(whole.source_shape, whole.selectors, node.view.axes))

    return wishes, made_of


@_below.of(Reduce)
def _of_reduction(node: Reduce, axis: int, wanted: _Runs) -> _Below:
    (operand,) = node.operands
    kept = [a for a in range(operand.ndim) if a not in node.axes]
    wishes = [(operand, kept[axis])]
    return wishes, lambda made: Reduce.of(node.reduction, made[0], node.axes, node.output)


@_below.of(Lines)
def _of_lines(node: Lines, axis: int, wanted: _Runs) -> _Below:
    if axis in node.axes:
        return _here(node, axis, wanted)
    wishes: list[tuple[Node, int | None]] = [(node.operands[0], axis)]
    return wishes, lambda made: node.applied(made[0], node.axes)


@_below.of(Contract)
def _of_product(node: Contract, axis: int, wanted: _Runs) -> _Below:
    label = node.result[axis]
    wishes = [
        (operand, own.index(label) if label in own else None)
        for operand, own in zip(node.operands, node.labels, strict=True)
    ]
    return wishes, lambda made: Contract.of(made[0], made[1], node.labels, node.result)


@_below.of(Join)
def _of_join(node: Join, axis: int, wanted: _Runs) -> _Below:
    if node.axis == axis or node.is_stencil:
        return _here(node, axis, wanted)
    return [(operand, axis) for operand in node.operands], lambda made: Join.of(made, node.axis)
