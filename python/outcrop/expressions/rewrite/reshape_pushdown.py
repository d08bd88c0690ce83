"""Reshaping: of the operands, as far down as it goes, so that elements move as they are read."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from outcrop.arrays.source import MemorySource
from outcrop.arrays.views import NewAxis, View
from outcrop.expressions.graph.nodes import Leaf, Map, Node, Shape, remade
from outcrop.expressions.graph.reshape import Reshape, folds_of
from outcrop.expressions.rewrite.view_pushdown import refolded, viewed

__all__ = ["reshaped"]


def reshaped(node: Node, shape: Shape) -> Node:
    """The node of the same elements, in row-major order, in a shape of as many elements."""
    return remade(node, shape, _wishes, _made)


def _wishes(node: Node, shape: Shape) -> list[tuple[Node, Shape]]:
    """Which shapes of its operands a shape of a node is made of; none where it is moved itself."""
    if not isinstance(node, Map) or node.shape == shape or not node.size:
        return []
    wishes = []
    for operand in node.operands:
        own = _broadcast(operand.shape, node.shape, shape)
        if own is None:
            return []
        wishes.append((operand, own))
    return wishes


def _broadcast(operand: Shape, whole: Shape, shape: Shape) -> Shape | None:
    """The shape in which an operand broadcasts to the new shape; None where there is none."""
    padded = (1,) * (len(whole) - len(operand)) + operand
    # Axes of one element belong to no fold.
    long = [axis for axis, n in enumerate(whole) if n > 1]
    places = [axis for axis, n in enumerate(shape) if n > 1]
    found = [1] * len(shape)
    i = j = 0
    for fold in folds_of(tuple(whole[a] for a in long), tuple(shape[a] for a in places)):
        own = tuple(padded[a] for a in long[i : i + len(fold.source)])
        if own == fold.source:
            for axis, n in zip(places[j:], fold.target, strict=False):
                found[axis] = n
        elif any(n != 1 for n in own):
            return None
        i, j = i + len(fold.source), j + len(fold.target)
    return tuple(found)


def _made(node: Node, shape: Shape, operands: Sequence[Node]) -> Node:
    if node.shape == shape:
        return node
    if not node.size:
        empty = np.empty(shape, node.dtype)
        return Leaf.of(MemorySource(empty, owned=True), View.whole(shape))
    if isinstance(node, Map) and len(operands) == len(node.operands):
        # One operand may be an argument twice.
        given = iter(operands)
        arguments: list[Any] = [next(given) if isinstance(a, Node) else a for a in node.arguments]
        return Map.of(node.function, arguments, node.dtype, shape)
    if isinstance(node, Reshape) and node.is_whole:
        return reshaped(node.operands[0], shape)
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
