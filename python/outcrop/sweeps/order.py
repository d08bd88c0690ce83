"""The order in which boxes of cells are updated, sweep by sweep or several sweeps in flight.

A sweep may follow another one at a distance: a cell may be updated once more as soon as those that
it reads are as the sweep before leaves them, and nobody needs it any more as it is. So the array
goes by in *blocks* of indices along some axes, and each block is moved back by a *skew* with every
sweep: sweep ``s`` of block ``b`` are the cells ``[b B - s skew, (b + 1) B - s skew)``. After the
last block all sweeps are done, and of the array, memory has to hold the blocks in flight only.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from outcrop.sweeps.cell import Offset

__all__ = ["Axis", "Box", "Order", "Piece", "axes_that_may_be_cut"]

_APART = 2
"""By how many blocks a row is behind the one before it."""


class Piece(NamedTuple):
    """The part that a box has of a tile along an axis, in indices of the tile, as cells come.

    Attributes
    ----------
    tile : int
        Which, as they come.
    low, high : int
        Where the box begins and ends.
    first, end : int
        Where those of its cells do that are computed.
    """

    tile: int
    low: int
    high: int
    first: int
    end: int


@dataclass(frozen=True)
class Axis:
    """An axis, cut into tiles, as sweeps go along it.

    Attributes
    ----------
    n : int
        How many indices there are.
    tile : int
        How many a stored tile has.
    direction : int
        1, or -1 from the last index to the first one.
    boundary : str
        What lies beyond the ends: ``"fixed"``, ``"periodic"`` or ``"nearest"``.
    reach : tuple of int
        How many indices are read before a cell and behind it, as they come.
    """

    n: int
    tile: int
    direction: int
    boundary: str
    reach: tuple[int, int]

    @property
    def count(self) -> int:
        """How many tiles there are."""
        return -(-self.n // self.tile)

    def start(self, tile: int) -> int:
        """The first index of a tile, as they come."""
        if self.direction > 0:
            return tile * self.tile
        return max(0, self.n - (self.count - tile) * self.tile)

    def extent(self, tile: int) -> int:
        """How many indices a tile has."""
        return (self.start(tile + 1) if tile + 1 < self.count else self.n) - self.start(tile)

    def stored(self, tile: int) -> int:
        """Which tile it is in the order in which they are stored."""
        return tile if self.direction > 0 else self.count - 1 - tile

    @property
    def computed(self) -> tuple[int, int]:
        """Where the cells begin and end that have all of their neighbours."""
        if self.boundary != "fixed":
            return 0, self.n
        return min(self.reach[0], self.n), max(self.n - self.reach[1], 0)

    def pieces(self, low: int, high: int) -> list[Piece]:
        """What the indices from `low` to `high` are of the tiles."""
        low, high = max(low, 0), min(high, self.n)
        found = []
        while low < high:
            tile = self._tile_of(low)
            start = self.start(tile)
            end = min(high, start + self.extent(tile))
            first, last = (min(max(i, low), end) for i in self.computed)
            found.append(Piece(tile, low - start, end - start, first - start, last - start))
            low = end
        return found

    def _tile_of(self, index: int) -> int:
        if self.direction > 0:
            return index // self.tile
        return self.count - 1 - (self.n - 1 - index) // self.tile

    def neighbour(self, tile: int, side: int) -> int | None:
        """The tile beside another one; None where there is none."""
        found = tile + side
        if self.boundary == "periodic":
            return found % self.count
        return found if 0 <= found < self.count else None

    def sides(self, piece: Piece, offset: int) -> tuple[int, ...]:
        """In which tiles the cells of a piece find what they read at an offset."""
        first, end = piece.first + offset, piece.end + offset
        if piece.first >= piece.end:
            return ()
        extent = self.extent(piece.tile)
        found = []
        if first < 0 and self.neighbour(piece.tile, -1) is not None:
            found.append(-1)
        if (end > 0 and first < extent) or self.boundary == "nearest":
            found.append(0)
        if end > extent and self.neighbour(piece.tile, 1) is not None:
            found.append(1)
        return tuple(found)

    @property
    def fits(self) -> bool:
        """Whether what a cell reads is in its tile or in those beside it."""
        most = max(self.reach)
        if self.count == 1:
            return self.boundary != "periodic" or most <= self.n
        inner = range(self.count)
        if self.boundary == "fixed":
            # Nothing is read beyond the last tile.
            inner = range(1, self.count) if self.direction < 0 else range(self.count - 1)
        return all(self.extent(tile) >= most for tile in inner)


def axes_that_may_be_cut(
    carried: Sequence[Offset], boundaries: Sequence[str], *, inplace: bool
) -> list[bool]:
    """Along which axes tiles may be updated one after the other, as whole tiles.

    `carried` are the offsets at which updated arrays are read, as cells come. In place, a tile may
    not need cells of a later one that come before its own.
    """
    found = [True] * len(boundaries)
    for offset in carried if inplace else ():
        inside = [axis for axis, n in enumerate(offset) if n]
        for axis in inside[1:]:
            same = (offset[axis] > 0) == (offset[inside[0]] > 0)
            around = "periodic" in (boundaries[axis], boundaries[inside[0]])
            if not same or around:
                found[axis] = False
    return found


class Box(NamedTuple):
    """Cells that are updated by a step: a part of a tile, in one sweep."""

    sweep: int
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Order:
    """In which order the cells of an array are updated.

    Attributes
    ----------
    axes : tuple of Axis
        Those of the array.
    sweeps : int
        How many there are.
    depth : int
        How many of them are in flight.
    blocks : tuple of int
        How many indices blocks have along each axis; 0 where an axis is gone through as a whole
        with every sweep.
    skews : tuple of int
        By how much blocks move back with every sweep.
    abreast : int
        How many rows of blocks go on at the same time, each behind the one before it by two
        blocks, so that they have no tile in common that either writes.
    """

    axes: tuple[Axis, ...]
    sweeps: int
    depth: int
    blocks: tuple[int, ...]
    skews: tuple[int, ...]
    abreast: int = 1

    def boxes(self) -> Iterator[Box]:
        """The boxes in order."""
        whole = [axis.pieces(0, axis.n) for axis in self.axes]
        for first in range(0, self.sweeps, self.depth):
            count = min(self.depth, self.sweeps - first)
            for together in self._blocks(count):
                for k in range(count):
                    for block in together:
                        found = [
                            axis.pieces(b * size - k * skew, (b + 1) * size - k * skew)
                            if size
                            else own
                            for axis, own, b, size, skew in zip(
                                self.axes, whole, block, self.blocks, self.skews, strict=True
                            )
                        ]
                        for pieces in itertools.product(*found):
                            yield Box(first + k, pieces)

    def _blocks(self, count: int) -> Iterator[list[tuple[int, ...]]]:
        """Blocks in order, by their numbers along each axis: those abreast are together."""
        numbers = [
            range(-(-(axis.n + skew * (count - 1)) // block) if block else 1)
            for axis, block, skew in zip(self.axes, self.blocks, self.skews, strict=True)
        ]
        if self.abreast == 1:
            yield from ([block] for block in itertools.product(*numbers))
            return
        rows = next(a for a, block in enumerate(self.blocks) if block)
        others = list(itertools.product(*numbers[:rows], *numbers[rows + 1 :]))
        for begin in range(0, len(numbers[rows]), self.abreast):
            group = numbers[rows][begin : begin + self.abreast]
            for t in range(len(others) + _APART * (len(group) - 1)):
                places = [(row, t - _APART * q) for q, row in enumerate(group)]
                yield [
                    (*others[n][:rows], row, *others[n][rows:])
                    for row, n in places
                    if 0 <= n < len(others)
                ]

    def steps(self) -> int:
        """How many boxes there are, about."""
        total = 1
        for axis, block in zip(self.axes, self.blocks, strict=True):
            # A block that is moved lies across the edges of tiles.
            total *= axis.count if not block else -(-axis.n // block) + axis.count
        return total * self.sweeps
