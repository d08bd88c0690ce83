"""Elements at places: at an index along each of several axes."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outcrop.expressions.graph.gathers import Box, Gather, Share, by_tile
from outcrop.expressions.graph.nodes import Node, Shape, only

__all__ = ["Integers", "Places", "Points"]

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
