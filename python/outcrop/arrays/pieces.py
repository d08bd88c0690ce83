"""Cutting a view into pieces along the tiles of its source.

A piece is a box of the view whose bounding box in the source fits a limit. Pieces hold at least
one selected element each, so tiles between the steps of a slice are never read.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from outcrop.arrays.views import NewAxis, Span, View

__all__ = ["Grid", "Piece", "boxes", "converted_itemsize", "longest", "pieces", "with_length"]

Piece: TypeAlias = tuple[tuple[slice, ...], View]
"""Where in the view, and which elements of the source."""

_TARGET_BYTES = 32 << 20
"""Tiles are taken together up to this size: larger pieces gain nothing."""

_GAP_BYTES = 64 << 10
"""In a file without tiles, unselected stretches from this size on are skipped, not read."""

_OBJECT = 32
"""Bytes of a number that is a Python object."""


def boxes(shape: tuple[int, ...], most: int) -> Iterator[tuple[tuple[slice, ...], tuple[int, ...]]]:
    """Boxes of a block of at most so many elements, in row-major order, and their shapes."""
    extents = list(shape)
    for axis in range(len(extents)):
        rest = math.prod(extents[axis + 1 :])
        extents[axis] = min(extents[axis], max(most // max(rest, 1), 1))
    for at in np.ndindex(*(-(-n // m) for n, m in zip(shape, extents, strict=True))):
        low = [i * m for i, m in zip(at, extents, strict=True)]
        ends = [min(a + m, n) for a, m, n in zip(low, extents, shape, strict=True)]
        own = tuple(slice(a, b) for a, b in zip(low, ends, strict=True))
        yield own, tuple(b - a for a, b in zip(low, ends, strict=True))


def with_length(dtype: np.dtype[Any], target: np.dtype[Any]) -> np.dtype[Any]:
    """What NumPy makes of ``str`` and ``bytes``: of the length that takes any number of a type."""
    return np.empty(0, dtype).astype(target).dtype if target.itemsize == 0 else target


def converted_itemsize(dtype: np.dtype[Any], target: np.dtype[Any]) -> int:
    """Bytes of an element of another type, with the Python object that it may be."""
    itemsize = with_length(dtype, target).itemsize
    more = _OBJECT + dtype.itemsize if target.hasobject else 0
    return itemsize + more


@dataclass(frozen=True, slots=True)
class Grid:
    """What of a source decides how to cut: its tile, its element size, and its order on disk.

    `layout` is as in `Array.layout`.
    """

    shape: tuple[int, ...]
    tile: tuple[int, ...]
    itemsize: int
    layout: str

    def outer_to_inner(self) -> list[int]:
        """The axes, the one whose neighbours lie farthest apart first."""
        axes = list(range(len(self.shape)))
        return axes[::-1] if self.layout == "column-major" else axes

    def distance(self, axis: int) -> int:
        """Bytes between neighbours along an axis of a file without tiles."""
        inner = self.shape[:axis] if self.layout == "column-major" else self.shape[axis + 1 :]
        return math.prod(inner) * self.itemsize


def pieces(view: View, grid: Grid, limit: int, *, merge: bool = True) -> Iterator[Piece]:
    """Cut a view into pieces of at most `limit` bytes (but at least one element).

    Parameters
    ----------
    view : View
        What to cut. Pieces come in its row-major order.
    grid : Grid
        The source.
    limit : int
        The most bytes of a bounding box.
    merge : bool
        Whether to take small tiles together; else no piece reaches beyond one tile.
    """
    if view.size == 0:
        return
    block = _block(view, grid, limit, merge)
    yield from _product(view, grid.tile, block, 0, (), view.selectors)


def longest(view: View, grid: Grid, limit: int, merge: bool) -> int:
    """Bytes that a piece has, at most."""
    block = _block(view, grid, limit, merge)
    extents = [s.extent if isinstance(s, Span) else 1 for s in view.selectors]
    return grid.itemsize * math.prod(map(min, block, extents))


def _block(view: View, grid: Grid, limit: int, merge: bool) -> list[int]:
    """Extents of the grid of pieces, per axis of the source."""
    spans = [s if isinstance(s, Span) else Span(s, 1, 1) for s in view.selectors]
    block = list(grid.tile)
    fixed = set()
    for axis, span in enumerate(spans):
        gap = (abs(span.step) - 1) * grid.distance(axis)
        if grid.layout in ("row-major", "column-major") and gap >= _GAP_BYTES:
            block[axis] = 1
        if abs(span.step) > block[axis]:
            # Some tiles hold no selected element; taking tiles together would read those.
            fixed.add(axis)

    def extent(axis: int) -> int:
        return min(block[axis], spans[axis].extent)

    def size() -> int:
        return grid.itemsize * math.prod(map(extent, range(len(block))))

    axes = grid.outer_to_inner()
    for axis in axes:
        while size() > limit and extent(axis) > 1:
            block[axis] = -(-extent(axis) // 2)
    if merge:
        for axis in reversed(axes):
            if axis in fixed or block[axis] < grid.tile[axis]:
                continue
            while block[axis] < spans[axis].extent and 2 * size() <= min(limit, _TARGET_BYTES):
                block[axis] *= 2
    return block


def _product(
    view: View,
    tile: Sequence[int],
    block: Sequence[int],
    position: int,
    where: tuple[slice, ...],
    selectors: tuple[int | Span, ...],
) -> Iterator[Piece]:
    # Written out instead of itertools.product, which would keep every run of every axis.
    if position == len(view.axes):
        yield where, replace(view, selectors=selectors)
        return
    axis = view.axes[position]
    if isinstance(axis, NewAxis):
        yield from _product(view, tile, block, position + 1, (*where, slice(0, 1)), selectors)
        return
    span = view.span(position)
    for first, last in _runs(span, tile[axis], block[axis]):
        part = (*selectors[:axis], span.part(first, last - first), *selectors[axis + 1 :])
        yield from _product(view, tile, block, position + 1, (*where, slice(first, last)), part)


def _runs(span: Span, tile: int, block: int) -> Iterator[tuple[int, int]]:
    """Ranges of positions in the span that stay inside one block.

    Blocks larger than a tile are aligned at multiples of themselves; smaller ones start again in
    each tile.
    """
    period = max(tile, block)
    first = 0
    while first < span.length:
        index = span.start + span.step * first
        base = index // period * period
        low = base + (index - base) // block * block
        high = min(low + block, base + period)
        room = high - 1 - index if span.step > 0 else index - low
        last = min(span.length, first + room // abs(span.step) + 1)
        yield first, last
        first = last
