"""Elements at places: at an index along each of several axes."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outcrop.arrays.views import View
from outcrop.expressions.graph.gathers import Alias, Box, Gather, Join, Share, by_tile
from outcrop.expressions.graph.nodes import Node, Shape, only
from outcrop.expressions.rewrite.take_pushdown import taken
from outcrop.expressions.rewrite.view_pushdown import viewed
from outcrop.expressions.tiling.disk_order import slowness, whole

__all__ = ["Points", "on_diagonal", "picked"]

_SIDE = 512
"""Indices along each side of the blocks in which a diagonal is looked up, at least: rows of blocks
have about as many bytes as a block of the disk."""

_MOST = 256
"""Blocks, at most."""

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Places:
    """Non-negative indices, for each of some axes as many."""

    axes: tuple[int, ...]
    indices: tuple[Integers, ...]


class Points(Gather):
    """Elements at places, along a first axis; the axes without indices follow."""

    __slots__ = ("places",)

    places: Places

    def _made_of(self, operands: Sequence[Node]) -> Node:
        return Points.of(operands[0], self.places)

    @classmethod
    def of(cls, operand: Node, places: Places) -> "Points":
        """The node of what is at places."""
        node = cls()
        node.operands, node.places = (operand,), places
        rest = [operand.shape[a] for a in _others(operand, places)]
        node.shape, node.dtype = (len(places.indices[0]), *rest), operand.dtype
        return only((cls, id(operand), places), node)

    @property
    def rest(self) -> list[int]:
        """The axes of the operand that its own axes, from the second on, are."""
        return _others(self.operands[0], self.places)

    def shares(self, box: Box, tiles: Sequence[Shape]) -> Iterator[Share]:
        (tile,), (operand,), axes = tiles, self.operands, self.places.axes
        begin, end = box[0]
        blocks = [own[begin:end] // tile[a] for a, own in self._each()]
        counts = [-(-operand.shape[a] // tile[a]) for a in axes]
        numbers = np.ravel_multi_index(blocks, counts)
        order = np.argsort(numbers, kind="stable")
        starts = np.flatnonzero(np.diff(numbers[order], prepend=-1))
        others = [by_tile(ends, tile[a]) for ends, a in zip(box[1:], self.rest, strict=True)]
        for first, last in itertools.pairwise([*starts.tolist(), len(order)]):
            here = order[first:last]
            # In the order in which they are in the result.
            chosen = {a: int(own[here[0]]) for a, own in zip(axes, blocks, strict=True)}
            ends = {
                a: (i * tile[a], min((i + 1) * tile[a], operand.shape[a]))
                for a, i in chosen.items()
            }
            for more in itertools.product(*others):
                for a, (i, part) in zip(self.rest, more, strict=True):
                    chosen[a], ends[a] = i, part
                coords = tuple(chosen[a] for a in range(operand.ndim))
                needed = tuple(ends[a] for a in range(operand.ndim))
                yield Share(0, coords, needed, partial(self._copy, box, needed, here))

    def _each(self) -> Iterator[tuple[int, Integers]]:
        return zip(self.places.axes, self.places.indices, strict=True)

    def _copy(
        self, box: Box, needed: Box, here: Integers, out: NDArray[Any], block: NDArray[Any]
    ) -> None:
        axes, begin = self.places.axes, box[0][0]
        source = np.moveaxis(block, axes, range(len(axes)))
        key = tuple(own[begin + here] - needed[a][0] for a, own in self._each())
        place: list[Any] = [
            slice(needed[a][0] - low, needed[a][1] - low)
            for a, (low, _) in zip(self.rest, box[1:], strict=True)
        ]
        out[(here, *place)] = source[key]


def _others(operand: Node, places: Places) -> list[int]:
    return [a for a in range(operand.ndim) if a not in places.axes]


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
