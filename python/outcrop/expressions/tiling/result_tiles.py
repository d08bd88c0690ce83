"""Into which tiles a result is cut on disk, of which each tile of a program has one or several."""

import math

import numpy as np

from outcrop.arrays.source import default_tile, storable
from outcrop.expressions.graph.nodes import Node, Shape
from outcrop.process.config import memory_budget

__all__ = ["stored_tile"]

_ROOM = 96
"""How many tiles the budget holds, at least, where the program's are stored as several: each that
is being stored takes memory beside them."""

_LARGER, _LONGER = 8, 2
"""What is at most so many times as large as usual, and as long along one axis as along another, is
stored as it is: to copy parts of it and make more files takes a third of the time, and it suits
what comes next as well."""

_SMALL = 1 << 20
"""Bytes of tiles that are cut all the same: with them, where memory is short, plans that read more
were taken."""


def stored_tile(node: Node, tile: Shape) -> Shape:
    """The tile that a new array has on disk where a program computes it in tiles of its own.

    It is about what any array of that shape would have, whose extents divide those of the program's
    tile: each of these is stored as whole tiles. Where that is shorter along some axes, it is
    longer along others, as far as there is room.
    """
    dtype = np.dtype(storable(node.dtype))
    usual = default_tile(node.shape, dtype)
    if math.prod(usual) * dtype.itemsize * _ROOM > memory_budget():
        return tile
    axes = [axis for axis, n in enumerate(node.shape) if n > 1]
    extents, longer_by = [tile[a] for a in axes], [tile[a] / usual[a] for a in axes]
    # About as long along all axes, or as usual.
    is_compact = any(max(by) <= _LONGER * min(by) for by in (extents, longer_by) if by)
    is_small = math.prod(tile) * dtype.itemsize < _SMALL
    if is_compact and not is_small and math.prod(longer_by) <= _LARGER:
        return tile
    # How much longer it may be along other axes.
    longer = math.prod(u / min(u, t) for u, t in zip(usual, tile, strict=True) if t)
    found = list(tile)
    for axis in reversed(range(node.ndim)):
        extent, own = tile[axis], usual[axis]
        if extent <= own:
            continue
        wish = min(extent, int(own * longer))
        if extent < node.shape[axis]:
            found[axis] = _nearest_divisor(extent, wish)
        elif wish < extent:
            # The last tile need not be whole.
            found[axis] = wish // own * own
        longer = max(longer * own / found[axis], 1)
    return tuple(found)


def _nearest_divisor(n: int, wish: int) -> int:
    low = [k for k in range(1, math.isqrt(n) + 1) if n % k == 0]
    return min((*low, *(n // k for k in low)), key=lambda k: abs(math.log(k / wish)))
