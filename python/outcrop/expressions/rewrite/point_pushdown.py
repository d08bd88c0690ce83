"""Elements at places, in an order in which little is read twice."""

import math
from collections.abc import Sequence, Set

import numpy as np
from numpy.typing import NDArray

from outcrop.arrays.stored import StoreSource
from outcrop.arrays.views import NewAxis, Span, View
from outcrop.expressions.graph.gathers import Alias, Join, Select
from outcrop.expressions.graph.nodes import Leaf, Node
from outcrop.expressions.graph.points import Places, Points
from outcrop.expressions.graph.reshape import Reshape
from outcrop.expressions.rewrite.take_pushdown import taken
from outcrop.expressions.rewrite.view_pushdown import composed, viewed
from outcrop.expressions.tiling.disk_order import slowness, whole
from outcrop.process.config import piece_limit

__all__ = ["on_diagonal", "picked", "sampled"]

Integers = NDArray[np.int64]

_SIDE = 512
"""Indices along each side of the blocks in which a diagonal is looked up, at least: rows of blocks
have about as many bytes as a block of the disk."""

_MOST = 256
"""Blocks, at most."""


_SPARSE = 16
"""Elements of which one is selected, at least, where the others are rather not put in order."""


def picked(node: Node, axes: Sequence[int], indices: Sequence[Integers]) -> Node:
    """What is at places, given by as many non-negative indices along each of some axes."""
    if len(axes) == 1:
        return taken(node, indices[0], axes[0])
    # Those of a tile one after the other, and of a file as they lie, so that little is read twice.
    slowest_last = sorted(range(len(axes)), key=lambda i: slowness(node, axes[i]), reverse=True)
    keys = [indices[i] for i in slowest_last]
    extents = [whole(node, axes[i]) for i in slowest_last]
    is_tiled = max(extents, default=1) > 1
    blocks = [own // n for own, n in zip(keys, extents, strict=True)] if is_tiled else []
    order = np.lexsort([*keys, *blocks])
    places = Places(tuple(axes), tuple(own[order] for own in indices))
    points = Points.of(node, places)
    if (np.diff(order) == 1).all():
        # Its own tiles may have to be short.
        return Alias.of(points)
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return taken(points, back, 0)


def on_diagonal(node: Node, axes: Sequence[int], firsts: Sequence[int], count: int) -> Node:
    """What is at so many places, one further along each axis than the one before.

    Block by block, so that nothing else is read, nor computed, than what is in these.
    """
    unit = math.lcm(*(whole(node, axis) for axis in axes))
    side = max(_SIDE, -(-count // _MOST))
    side = -(-side // unit) * unit
    parts = []
    for begin in range(0, max(count, 1), side):
        extent = min(side, count - begin)
        key = [slice(None)] * node.ndim
        for axis, first in zip(axes, firsts, strict=True):
            key[axis] = slice(first + begin, first + begin + extent)
        block = viewed(node, View.whole(node.shape).index(tuple(key)))
        parts.append(picked(block, axes, [np.arange(extent)] * len(axes)))
    return parts[0] if len(parts) == 1 else Join.of(parts, 0)


def sampled(node: Node, shared: Set[int]) -> Node | None:
    """``A.reshape(-1)[::1000]`` as elements at places: the others need not be put in order.

    Of tiles on disk: where elements lie in their order, the view is read as it is.
    """
    if not isinstance(node, Select) or node.ndim != 1 or not node.size:
        return None
    (inner,) = node.operands
    if not isinstance(inner, Reshape) or inner.size < _SPARSE * node.size:
        return None
    (leaf,) = inner.operands
    if not isinstance(leaf, Leaf) or not isinstance(leaf.source, StoreSource) or leaf.ndim < 2:
        return None
    if leaf.source.layout != "tiled" or node.size * leaf.ndim * 8 > piece_limit():
        return None
    view = composed(inner.view, node.view)
    if isinstance(view.axes[0], NewAxis):
        return None
    chosen = [
        s.start + s.step * np.arange(s.length) if isinstance(s, Span) else np.full(node.size, s)
        for s in view.selectors
    ]
    indices: list[Integers] = []
    for fold, _, first in inner.axes():
        places = np.zeros(node.size, np.int64)
        for i, n in enumerate(fold.target):
            # Of the first axis there may be more indices than there are here.
            places = places * (n if i else 1) + chosen[first + i] + (0 if i else fold.target_first)
        own: list[Integers] = []
        for n in reversed(fold.source[1:]):
            places, index = np.divmod(places, n)
            own.append(index)
        indices += [places - fold.source_first, *reversed(own)]
    return picked(leaf, tuple(range(leaf.ndim)), indices)
