"""Reshaping: of the operands, as far down as it goes, so that elements move as they are read."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from outcrop.arrays.source import MemorySource
from outcrop.arrays.views import NewAxis, View
from outcrop.expressions.graph.gathers import Join, Take
from outcrop.expressions.graph.indices import Listed
from outcrop.expressions.graph.nodes import Below, Leaf, Map, Node, Shape, remade
from outcrop.expressions.graph.reshape import Reshape, folds_of
from outcrop.expressions.rewrite.view_pushdown import refolded, viewed

__all__ = ["reshaped"]

_TAKEN = 1 << 16
"""Indices that are listed, at most, of what comes again along an axis."""


def reshaped(node: Node, shape: Shape) -> Node:
    """The node of the same elements, in row-major order, in a shape of as many elements."""
    return remade(node, shape, _below)


def _below(node: Node, shape: Shape) -> Below[Shape]:
    """Which shapes of its operands a shape of a node is made of; none where it is moved itself."""
    if node.shape == shape:
        return (), lambda _: node
    if node.size and isinstance(node, Map):
        own = [(o, _broadcast(o.shape, node.shape, shape)) for o in node.operands]
        ways = [way for _, way in own if way is not None]
        if len(ways) == len(own):
            wishes = [(o, way.shape) for o, way in zip(node.operands, ways, strict=True)]

            def applied(made: Sequence[Node]) -> Node:
                pairs = zip(ways, made, strict=True)
                return node.applied([way.repeated(operand) for way, operand in pairs], shape)

            return wishes, applied
    if node.size and isinstance(node, Reshape) and node.is_whole:
        return [(node.operands[0], shape)], lambda made: made[0]
    if node.size and isinstance(node, Join) and (found := _joined(node, shape)) is not None:
        place, wishes = found
        return wishes, lambda made: _moved(Join.of(made, place), shape)
    return (), lambda _: _moved(node, shape)


def _joined(node: Join, shape: Shape) -> tuple[int, list[tuple[Node, Shape]]] | None:
    """What to join instead, and along which axis, so that less is reshaped, or nothing.

    Operands as they are, but for axes of one element, each of which is indices of the new shape.
    """
    before, own = math.prod(node.shape[: node.axis]), node.shape[node.axis :]
    place = next((i for i in range(len(shape) + 1) if math.prod(shape[:i]) == before), len(shape))
    # Axes of one element before it are as they may be.
    while place < len(shape) and shape[place] == 1 != own[0]:
        place += 1
    if place == len(shape):
        return None
    rest = shape[place + 1 :]
    pieces = [(operand, operand.shape[node.axis :]) for operand in node.operands]
    wishes: list[tuple[Node, Shape]] = []
    for operand, (n, *inner) in pieces:
        count, more = divmod(n * math.prod(inner), math.prod(rest))
        if more:
            return None
        if [m for m in (count, *rest) if m > 1] == [m for m in (n, *inner) if m > 1]:
            wishes.append((operand, (*shape[:place], count, *rest)))
        elif count == 1 and len({extents for _, extents in pieces}) == 1:
            wishes.append((operand, (*shape[:place], 1, n, *inner)))
        else:
            return None
    return place, wishes


@dataclass(frozen=True)
class _Broadcast:
    """How an operand broadcasts to a new shape of what is made of it.

    Attributes
    ----------
    shape : tuple of int
        Its own new shape.
    taken : list of tuple
        Axes of that, along which the indices are taken again, and which in turn.
    """

    shape: Shape
    taken: list[tuple[int, NDArray[np.int64]]]

    def repeated(self, operand: Node) -> Node:
        """The operand in its new shape, with what is taken again."""
        for axis, indices in self.taken:
            operand = Take.of(operand, Listed(indices), axis)
        return operand


def _broadcast(operand: Shape, whole: Shape, shape: Shape) -> _Broadcast | None:
    """How an operand broadcasts to the new shape; None where it does not."""
    padded = (1,) * (len(whole) - len(operand)) + operand
    # Axes of one element belong to no fold.
    long = [axis for axis, n in enumerate(whole) if n > 1]
    places = [axis for axis, n in enumerate(shape) if n > 1]
    found, taken = [1] * len(shape), []
    i = j = 0
    for fold in folds_of(tuple(whole[a] for a in long), tuple(shape[a] for a in places)):
        own = tuple(padded[a] for a in long[i : i + len(fold.source)])
        if own == fold.source:
            for axis, n in zip(places[j:], fold.target, strict=False):
                found[axis] = n
        elif any(n != 1 for n in own):
            if len(fold.target) > 1 or fold.target[0] > _TAKEN:
                return None
            # As the months of a year come again each year.
            axis, few = places[j], math.prod(own)
            again = np.broadcast_to(np.arange(few).reshape(own), fold.source)
            found[axis] = few
            taken.append((axis, again.ravel()))
        i, j = i + len(fold.source), j + len(fold.target)
    return _Broadcast(tuple(found), taken)


def _moved(node: Node, shape: Shape) -> Node:
    if node.shape == shape:
        return node
    if not node.size:
        empty = np.empty(shape, node.dtype)
        return Leaf.of(MemorySource(empty, owned=True), View.whole(shape))
    flat = _in_memory(node, shape)
    if flat is not None:
        return flat
    # Without axes of one element, which come and go as views.
    plain = viewed(
        node, View.whole(node.shape).index(tuple(0 if n == 1 else slice(None) for n in node.shape))
    )
    inner = tuple(n for n in shape if n > 1)
    axes = iter(range(len(inner)))
    made = tuple(next(axes) if n > 1 else NewAxis() for n in shape)
    view = View(inner, View.whole(inner).selectors, made)
    return refolded(plain, folds_of(plain.shape, inner), view)


def _in_memory(node: Node, shape: Shape) -> Node | None:
    """What is in memory and need not be copied."""
    if not isinstance(node, Leaf) or not isinstance(node.source, MemorySource):
        return None
    elements = node.view.select(node.source.array)
    if not any(elements.strides):
        # One element again and again.
        same = np.broadcast_to(elements[(0,) * elements.ndim], shape)
        return Leaf.of(node.source.reshaped(same), View.whole(shape))
    if not elements.flags.c_contiguous:
        return None
    return Leaf.of(node.source.reshaped(elements.reshape(shape)), View.whole(shape))
