"""Elements at places, in an order in which little is read twice."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from outcrop.arrays.views import View
from outcrop.expressions.graph.gathers import Alias, Join
from outcrop.expressions.graph.nodes import Node
from outcrop.expressions.graph.points import Places, Points
from outcrop.expressions.rewrite.take_pushdown import taken
from outcrop.expressions.rewrite.view_pushdown import viewed
from outcrop.expressions.tiling.disk_order import slowness, whole

__all__ = ["on_diagonal", "picked"]

Integers = NDArray[np.int64]

_SIDE = 512
"""Indices along each side of the blocks in which a diagonal is looked up, at least: rows of blocks
have about as many bytes as a block of the disk."""

_MOST = 256
"""Blocks, at most."""


def picked(node: Node, axes: Sequence[int], indices: Sequence[Integers]) -> Node:
    """What is at places, given by as many non-negative indices along each of some axes."""
    if len(axes) == 1:
        return taken(node, indices[0], axes[0])
    # Those of a tile one after the other, and of a file as they lie, so that little is read twice.
    slowest_last = sorted(range(len(axes)), key=lambda i: slowness(node, axes[i]), reverse=True)
    keys = [indices[i] for i in slowest_last]
    tiled = [i for i in slowest_last if whole(node, axes[i]) > 1]
    blocks = [indices[i] // whole(node, axes[i]) for i in tiled]
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
