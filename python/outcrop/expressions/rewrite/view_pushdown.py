"""Views of expressions: what is selected is selected from the operands, as far down as it goes."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from outcrop.arrays.source import MemorySource
from outcrop.arrays.views import NewAxis, Span, View
from outcrop.expressions.graph.gathers import Alias, Join, Mosaic, Select, Take
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
    Shape,
    remade,
)
from outcrop.expressions.graph.phases import Phase
from outcrop.expressions.graph.points import Points
from outcrop.expressions.graph.reshape import Fold, Reshape
from outcrop.expressions.graph.retile import Moved, Refolded
from outcrop.expressions.tiling.disk_order import slowness

__all__ = [
    "below",
    "composed",
    "leaf_of",
    "refolded",
    "viewed",
    "viewed_later",
]

_FEW = 16
"""How many elements go into a sum whose results are rather moved than computed again."""


def composed(inner: View, outer: View) -> View:
    """The view of a view."""
    selectors = list(inner.selectors)
    targets: list[int | NewAxis | None] = []
    for target, chosen in zip(inner.axes, outer.selectors, strict=True):
        if isinstance(target, NewAxis):
            targets.append(NewAxis(chosen.length) if isinstance(chosen, Span) else None)
            continue
        span = selectors[target]
        assert isinstance(span, Span)
        if isinstance(chosen, Span):
            selectors[target] = span.part(chosen.start, chosen.length, chosen.step)
            targets.append(target)
        else:
            selectors[target] = span.start + span.step * chosen
            targets.append(None)
    axes: list[int | NewAxis] = []
    for axis in outer.axes:
        found = axis if isinstance(axis, NewAxis) else targets[axis]
        assert found is not None
        axes.append(found)
    return View(inner.source_shape, tuple(selectors), tuple(axes))


def viewed(node: Node, view: View) -> Node:
    """The node of a view of another one."""
    if 0 < view.size < node.size and isinstance(node, Map | Join) and node.is_stencil:
        # When all views are known, it is settled what is made of them.
        return Select.of(node, view)
    return pushed(node, view)


def pushed(node: Node, view: View) -> Node:
    """The node of a view of another one, made of views of its operands."""
    if view.is_whole:
        return node
    if view.size == 0:
        return Leaf.of(
            MemorySource(np.empty(view.shape, node.dtype), owned=True), View.whole(view.shape)
        )
    return remade(node, view, below)


def below(node: Node, view: View) -> Below[View]:
    """Which views of its operands a view of a node is made of; none where it is taken later."""
    if view.is_whole:
        return (), lambda _: node
    return _later(node, view) if _is_of_few_sums(node, view) else _below[type(node)](node, view)


def _is_of_few_sums(node: Node, view: View) -> bool:
    """Whether it has all elements of long sums: pushed, it would be other sums, of a new pass."""
    return (
        isinstance(node, Reduce | Contract)
        and view.size == node.size
        and _FEW * node.size <= max(operand.size for operand in node.operands)
    )


def viewed_later(node: Node, view: View) -> Node:
    """A view of what has to be computed, or is stored, first."""
    if view.is_whole:
        return node
    if not isinstance(node, Leaf) and _only_adds_axes(view):
        return Expanded.of(node, view)
    return Select.of(node, view)


def _only_adds_axes(view: View) -> bool:
    """Whether there is everything, in its order, with more axes of one element."""
    own = [axis for axis in view.axes if not isinstance(axis, NewAxis)]
    return (
        own == list(range(len(view.source_shape)))
        and view.selectors == View.whole(view.source_shape).selectors
        and all(axis.length == 1 for axis in view.axes if isinstance(axis, NewAxis))
    )


def refolded(operand: Node, folds: Sequence[Fold], view: View) -> Node:
    """A view of an operand that has been folded."""
    if all(fold.is_trivial for fold in folds):
        return pushed(operand, view)
    if view.is_dense:
        return Reshape.of(*_as_stored(operand, folds, view))
    return viewed_later(Reshape.of(operand, folds, View.whole(view.source_shape)), view)


def _as_stored(
    operand: Node, folds: Sequence[Fold], view: View
) -> tuple[Node, Sequence[Fold], View]:
    """What is stored with its folds in the order in which it lies, which the view undoes.

    ``X.transpose(1, 2, 0).reshape(J * I, T)`` is a reshape of X as well, transposed.
    """
    if not isinstance(operand, Leaf) or len(folds) < 2:
        return operand, folds, view
    sources, targets = _places([f.source for f in folds]), _places([f.target for f in folds])
    order = sorted(range(len(folds)), key=lambda i: slowness(operand, sources[i][0]))
    if order == list(range(len(folds))):
        return operand, folds, view
    own = [axis for i in order for axis in sources[i]]
    moved = [axis for i in order for axis in targets[i]]
    selectors = tuple(view.selectors[axis] for axis in moved)
    shape = tuple(view.source_shape[axis] for axis in moved)
    axes = tuple(a if isinstance(a, NewAxis) else moved.index(a) for a in view.axes)
    turned = pushed(operand, View.whole(operand.shape).transpose(tuple(own)))
    return turned, [folds[i] for i in order], View(shape, selectors, axes)


def _places(shapes: Sequence[Shape]) -> list[range]:
    """The axes of each of several shapes, one after the other."""
    ends = list(itertools.accumulate(map(len, shapes), initial=0))
    return [range(first, last) for first, last in itertools.pairwise(ends)]


def leaf_of(source: Any, view: View) -> Node:
    """The node of a view of a source. What is stored is not read backwards, but turned later."""
    from outcrop.arrays.stored import StoreSource

    if view.size == 0:
        # There are no tiles to take part in steps.
        return Leaf.of(
            MemorySource(np.empty(view.shape, source.dtype), owned=True), View.whole(view.shape)
        )
    spans = [s for s in view.selectors if isinstance(s, Span)]
    if not isinstance(source, StoreSource) or all(s.step > 0 for s in spans):
        return Leaf.of(source, view)
    forward = tuple(
        Span(s.low, -s.step, s.length) if isinstance(s, Span) and s.step < 0 else s
        for s in view.selectors
    )
    straight = Leaf.of(source, View(view.source_shape, forward, view.axes))
    key = tuple(
        slice(None, None, -1 if view.span(axis).step < 0 else 1) for axis in range(len(view.axes))
    )
    return Select.of(straight, View.whole(straight.shape).index(key))


_below: Phase[[View], Below[View]] = Phase("what a view of a node is made of")


@_below.of(Alias)
def _of_alias(node: Alias, view: View) -> Below[View]:
    """Of a view of all elements, with the axes in another order."""
    if view.selectors != View.whole(node.shape).selectors or view.size != node.size:
        return _later(node, view)
    if any(isinstance(axis, NewAxis) for axis in view.axes) or len(view.axes) != node.ndim:
        return _later(node, view)
    return [(node.operands[0], view)], lambda made: Alias.shared(made[0])


@_below.of(Mosaic, Points, Collect, MatrixOperation)
def _later(node: Node, view: View) -> Below[View]:
    return (), lambda _: viewed_later(node, view)


@_below.of(Expanded, Select, Moved)
def _of_select(node: Expanded | Select, view: View) -> Below[View]:
    return (), lambda _: viewed_later(node.operands[0], composed(node.view, view))


@_below.of(Leaf)
def _of_leaf(node: Leaf, view: View) -> Below[View]:
    return (), lambda _: leaf_of(node.source, composed(node.view, view))


@_below.of(Map)
def _of_map(node: Map, view: View) -> Below[View]:
    wishes = [(operand, _broadcast(operand, node, view)) for operand in node.operands]
    return wishes, lambda made: node.applied(made, view.shape)


def _broadcast(operand: Node, node: Node, view: View) -> View:
    """The view of an operand that broadcasts to a node, for a view of the node."""
    missing = node.ndim - operand.ndim
    selectors: list[int | Span] = []
    for axis, n in enumerate(operand.shape):
        chosen = view.selectors[axis + missing]
        if n == 1 and node.shape[axis + missing] != 1:
            chosen = Span(0, 1, 1) if isinstance(chosen, Span) else 0
        selectors.append(chosen)
    axes = tuple(
        NewAxis() if isinstance(axis, NewAxis) or axis < missing else axis - missing
        for axis in view.axes
    )
    return View(operand.shape, tuple(selectors), axes)


@_below.of(Reduce)
def _of_reduction(node: Reduce, view: View) -> Below[View]:
    """What is reduced has the axes that it is reduced over at the end."""
    (operand,) = node.operands
    kept = [axis for axis in range(operand.ndim) if axis not in node.axes]
    selectors: list[int | Span] = [Span(0, 1, n) for n in operand.shape]
    for axis, chosen in zip(kept, view.selectors, strict=True):
        selectors[axis] = chosen
    axes = tuple(axis if isinstance(axis, NewAxis) else kept[axis] for axis in view.axes)
    own = View(operand.shape, tuple(selectors), (*axes, *node.axes))
    last = range(len(axes), len(own.axes))
    return [(operand, own)], lambda made: Reduce.of(node.reduction, made[0], last, node.output)


@_below.of(Scan)
def _of_scan(node: Scan, view: View) -> Below[View]:
    """Of a view of the first elements along the axis of an accumulation, or of all."""
    chosen = view.selectors[node.axis]
    if not isinstance(chosen, Span) or (chosen.start, chosen.step) != (0, 1):
        return _later(node, view)
    axis = view.axes.index(node.axis)
    wishes = [(node.operands[0], view)]
    return wishes, lambda made: Scan.of(node.ufunc, made[0], axis, node.dtype)


@_below.of(Lines)
def _of_lines(node: Lines, view: View) -> Below[View]:
    """Of a view that has all indices along the axes of the lines."""
    (operand,) = node.operands
    selectors = list(view.selectors)
    for axis in node.axes:
        if selectors[axis] != Span(0, 1, node.shape[axis]):
            return _later(node, view)
        selectors[axis] = Span(0, 1, operand.shape[axis])
    own = View(operand.shape, tuple(selectors), view.axes)
    axes = [view.axes.index(axis) for axis in node.axes]
    return [(operand, own)], lambda made: node.applied(made[0], axes)


@_below.of(Contract)
def _of_product(node: Contract, view: View) -> Below[View]:
    chosen = dict(zip(node.result, view.selectors, strict=True))
    unused = (chr(c) for c in range(ord("a"), 0x10000) if chr(c) not in "".join(node.labels))
    result, new = [], []
    for axis in view.axes:
        label = next(unused) if isinstance(axis, NewAxis) else node.result[axis]
        result.append(label)
        if isinstance(axis, NewAxis):
            new.append((label, axis))
    wishes, labels = [], []
    for i, (operand, own) in enumerate(zip(node.operands, node.labels, strict=True)):
        selectors = tuple(
            chosen.get(label, Span(0, 1, n)) for label, n in zip(own, operand.shape, strict=True)
        )
        axes: list[int | NewAxis] = []
        kept = ""
        for axis, (label, s) in enumerate(zip(own, selectors, strict=True)):
            if isinstance(s, Span):
                axes.append(axis)
                kept += label
        if i == 0:
            # Axes of length 1 are the first factor's.
            for label, made in new:
                axes.append(made)
                kept += label
        wishes.append((operand, View(operand.shape, selectors, tuple(axes))))
        labels.append(kept)
    left, right = labels
    return wishes, lambda made: Contract.of(made[0], made[1], (left, right), "".join(result))


@_below.of(Join)
def _of_join(node: Join, view: View) -> Below[View]:
    """Of those operands that a view of a join has anything of, in their order in it."""
    axis, first = node.axis, 0
    chosen = view.selectors[axis]
    wishes: list[tuple[Node, View]] = []
    for operand in node.operands:
        end = first + operand.shape[axis]
        own: int | Span | None = None
        if isinstance(chosen, Span):
            low, high = chosen.within(first, end)
            if low < high:
                part = chosen.part(low, high - low)
                own = Span(part.start - first, part.step, part.length)
        elif first <= chosen < end:
            own = chosen - first
        if own is not None:
            selectors = (*view.selectors[:axis], own, *view.selectors[axis + 1 :])
            wishes.append((operand, View(operand.shape, selectors, view.axes)))
        first = end
    if not isinstance(chosen, Span):
        return wishes, lambda made: made[0]
    if chosen.step < 0:
        wishes.reverse()
    place = view.axes.index(axis)
    return wishes, lambda made: made[0] if len(made) == 1 else Join.of(made, place)


@_below.of(Take)
def _of_take(node: Take, view: View) -> Below[View]:
    (operand,), axis = node.operands, node.axis
    chosen = view.selectors[axis]
    if isinstance(chosen, Span):
        own: int | Span = Span(0, 1, operand.shape[axis])
    else:
        own = int(node.indices.between(chosen, chosen + 1)[0])
    selectors = (*view.selectors[:axis], own, *view.selectors[axis + 1 :])
    wishes = [(operand, View(operand.shape, selectors, view.axes))]
    if not isinstance(chosen, Span):
        return wishes, lambda made: made[0]
    indices, place = node.indices.part(chosen), view.axes.index(axis)
    return wishes, lambda made: Take.of(made[0], indices, place)


@_below.of(Reshape, Refolded)
def _of_reshape(node: Reshape, view: View) -> Below[View]:
    own, folds, rest = node.narrowed(composed(node.view, view))
    return [(node.operands[0], own)], lambda made: refolded(made[0], folds, rest)
