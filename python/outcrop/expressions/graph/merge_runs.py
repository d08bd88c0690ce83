"""Rows from sorted runs, each to its place: the second half of sorting."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outcrop.expressions.graph.gathers import Box, Gather, Share, by_tile
from outcrop.expressions.graph.nodes import Node, Shape, only

__all__ = ["Collect", "Runs"]


@dataclass(frozen=True, eq=False)
class Runs:
    """Rows in sorted runs.

    Attributes
    ----------
    count : int
        How many rows there are.
    position : numpy.ndarray
        For each row where it goes, ascending in each run. At the end of a run there may be some
        that go nowhere, to `count`, so that no tile has rows of two runs.
    starts : numpy.ndarray
        Where each run starts, and the end.
    tile : tuple of int
        The shape of a tile, but for the axis of the rows.
    extents : tuple of int
        How many rows tiles have: of the operand, which are sorted together, of the temporary array,
        and of the result.
    nbytes : int
        Bytes that such tiles may have.
    """

    count: int
    position: NDArray[np.signedinteger[Any]]
    starts: NDArray[np.int64]
    tile: Shape
    extents: tuple[int, int, int]
    nbytes: int

    def landing(self, begin: int, end: int, tile: int) -> Iterator[tuple[int, int]]:
        """The rows that go to places from `begin` on and before `end`: ranges, each in one tile."""
        for first, last in itertools.pairwise(self.starts.tolist()):
            run = self.position[first:last]
            # Of the same type, or all of them would be converted for each search.
            ends = np.array((begin, end), run.dtype)
            low, high = (first + int(i) for i in np.searchsorted(run, ends))
            while low < high:
                edge = min((low // tile + 1) * tile, high)
                yield low, edge
                low = edge


class Collect(Gather):
    """Rows from sorted runs, each to its place."""

    __slots__ = ("axis", "runs")

    axis: int
    runs: Runs

    def _made_of(self, operands: Sequence[Node]) -> Node:
        return Collect.of(operands[0], self.runs, self.axis)

    @classmethod
    def of(cls, operand: Node, runs: Runs, axis: int) -> "Collect":
        """The node of the rows of an operand, each where it belongs."""
        node = cls()
        node.operands, node.runs, node.axis = (operand,), runs, axis
        node.shape = (*operand.shape[:axis], runs.count, *operand.shape[axis + 1 :])
        node.dtype = operand.dtype
        return only((cls, id(operand), runs, axis), node)

    def shares(self, box: Box, tiles: Sequence[Shape]) -> Iterator[Share]:
        axis, (tile,) = self.axis, tiles
        others = [by_tile(ends, t) for ends, t in zip(box, tile, strict=True)]
        begin, end = box[axis]
        rows = self.runs.landing(begin, end, tile[axis])
        others[axis] = [(low // tile[axis], (low, high)) for low, high in rows]
        for chosen in itertools.product(*others):
            coords, needed = tuple(i for i, _ in chosen), tuple(ends for _, ends in chosen)
            yield Share(0, coords, needed, partial(self._copy, box, needed))

    @property
    def limit(self) -> int:
        """Bytes that tiles may have."""
        return self.runs.nbytes

    def tiles(self) -> Iterator[tuple[Node, Shape]]:
        """Into which tiles it should be cut, and what it is made of."""
        (between,) = self.operands
        (operand,) = between.operands
        for node, rows in zip((operand, between, self), self.runs.extents, strict=True):
            yield node, (*self.runs.tile[: self.axis], rows, *self.runs.tile[self.axis + 1 :])

    def _copy(self, box: Box, needed: Box, out: NDArray[Any], block: NDArray[Any]) -> None:
        low, high = needed[self.axis]
        place: list[slice | NDArray[np.signedinteger[Any]]] = [
            slice(a - n, b - n) for (a, b), (n, _) in zip(needed, box, strict=True)
        ]
        place[self.axis] = self.runs.position[low:high] - box[self.axis][0]
        out[tuple(place)] = block
