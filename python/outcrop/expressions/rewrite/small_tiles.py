"""What is stored in large tiles, or without tiles, is moved to small ones first.

Where steps take parts of several tiles at once, as stencils do, or tiles that lie across each
other, as the long ones of an array and of its transpose, and these do not fit into memory together,
each part would cost a whole tile, again and again.
"""

import math
from collections.abc import Sequence

from outcrop.arrays.stored import StoreSource
from outcrop.arrays.views import NewAxis, View
from outcrop.expressions.graph.gathers import Alias, Select
from outcrop.expressions.graph.matrices import MatrixOperation, straight
from outcrop.expressions.graph.nodes import Leaf, Node, Shape, ancestors
from outcrop.expressions.graph.retile import Cuts, Moved
from outcrop.expressions.rewrite.reshape_by_slabs import longest_part
from outcrop.expressions.tiling.parts import equal_part

__all__ = ["on_small_tiles"]

_READ = 8
"""What part of the budget is read at once of a file without tiles."""

_SMALL = 64
"""What part of the budget a small tile has, at most, ..."""

_LARGEST = 1 << 20
"""... and bytes of it."""

_LEAST_SIDE = 32
"""Rows and columns of a square that is not tiny."""

_PIECE = 24
"""What part of the budget a square has, at most."""

_HELD = 1.5
"""How many times as much as is read at once the budget holds, at least."""

_LONG = 4
"""How many times as long as it is wide a tile is, at least, of which others are taken across."""


def on_small_tiles(roots: Sequence[Node], budget: int, *, is_square: bool) -> list[Node] | None:
    """The roots made of what is moved to small tiles first; None where nothing has large ones.

    Small tiles are cut as they are taken, or else square: arrays that are taken both ways, as with
    their transposes, have such. What linear algebra takes as it is stays so.
    """
    nodes = ancestors(roots)
    large = [
        node
        for node in nodes
        if isinstance(node, Leaf) and _is_moved(node, budget, is_square=is_square)
    ]
    turns: dict[int, set[tuple[int | NewAxis, ...]]] = {}
    for leaf in large:
        turns.setdefault(id(leaf.source), set()).add(leaf.view.axes)
    turned = {source for source, axes in turns.items() if len(axes) > 1}
    if not is_square and turned:
        return None
    copies = {
        id(leaf.source): _copy(
            leaf, budget, is_square=is_square, is_turned=id(leaf.source) in turned
        )
        for leaf in large
    }
    taken = set(map(id, large))
    made: dict[int, Node] = {}
    for node in nodes:
        if isinstance(node, Leaf) and id(node) in taken:
            made[id(node)] = _taken(copies[id(node.source)], node.view)
        else:
            as_it_is = isinstance(node, MatrixOperation)
            operands = [o if as_it_is and straight(o) else made[id(o)] for o in node.operands]
            made[id(node)] = node.with_operands(operands)
    return [made[id(root)] for root in roots] if copies else None


def _copy(leaf: Leaf, budget: int, *, is_square: bool, is_turned: bool) -> Node:
    """A copy of what a view is of: cut as it is taken, or square; some are taken both ways."""
    whole = View.whole(leaf.source.shape)
    stored = Leaf.of(leaf.source, whole)
    if not is_square:
        return Alias.kept(stored)
    itemsize = leaf.dtype.itemsize
    squares = _squares(leaf, budget) if is_turned else None
    if squares is None:
        read = _read(leaf, budget)
        small = _small(read, _most(budget) // itemsize)
    else:
        read, small = squares
    return Moved.made(stored, whole, Cuts(read, small, math.prod(read) * itemsize))


def _squares(leaf: Leaf, budget: int) -> tuple[Shape, Shape] | None:
    """What is read at once of a matrix in tiles, and squares; None of what has other axes, or none.

    Cells of the matrix and of its transpose are made of whole squares alike. They are whole parts
    of what is read, unless they would be tiny: then, some lie across tiles.
    """
    source = leaf.source
    if source.layout != "tiled" or len(source.shape) != 2:
        return None
    itemsize, pairs = source.dtype.itemsize, list(zip(_tile(leaf), source.shape, strict=True))
    most = min(budget // _PIECE, _LARGEST) // itemsize
    for across in range(3):
        for side in range(math.isqrt(most), _LEAST_SIDE - 1, -1):
            whole = [t % side == 0 or side % t == 0 or t >= n for t, n in pairs]
            read = tuple(min(-(-side // t) * t, n) for t, n in pairs)
            # A square that lies across what is read at once is made of several of these.
            held = math.prod(read) * itemsize << whole.count(False)
            if whole.count(False) <= across and held * _HELD <= budget:
                return read, (side, side)
    return None


def _taken(copy: Node, view: View) -> Node:
    """A view of a copy."""
    if isinstance(copy, Moved):
        # Cut in any way, whatever the small tiles are.
        return Moved.made(copy, view, Cuts(None, None, 0))
    return copy if view == View.whole(copy.shape) else Select.of(copy, view)


def _small(tile: Shape, most: int) -> Shape:
    """Parts of a tile, of so many elements at most, that are as long one way as the other.

    Where it has no equal parts they lie across tiles: rather along one axis alone.
    """
    found = list(tile)
    while math.prod(found) > most and max(found) > 1:

        def rank(axis: int) -> tuple[bool, bool, int]:
            whole, extent = tile[axis], found[axis]
            is_even = whole % equal_part(whole, max(extent // 2, 1)) == 0
            return extent > 1, is_even or whole % extent != 0, extent

        axis = max(range(len(found)), key=rank)
        found[axis] = equal_part(tile[axis], max(found[axis] // 2, 1))
    return tuple(found)


def _most(budget: int) -> int:
    """Bytes of a small tile, at most."""
    return min(budget // _SMALL, _LARGEST)


def _read(leaf: Leaf, budget: int) -> Shape:
    """What is read at once of what a view is of: tiles beside each other, or rows of a file."""
    source = leaf.source
    assert isinstance(source, StoreSource)
    most = max(budget // _READ // source.dtype.itemsize, 1)
    if source.layout == "tiled":
        return _together(_tile(leaf), source.shape, most)
    axes = range(len(source.shape))
    order = axes if source.layout == "row-major" else axes[::-1]
    return longest_part(source.shape, order, most)


def _together(tile: Shape, shape: Shape, most: int) -> Shape:
    """Tiles of so many elements at most, unless one is larger: along the shorter axes first."""
    found = list(tile)
    for axis in sorted(range(len(shape)), key=lambda axis: tile[axis]):
        fit = max(most // math.prod(found), 1)
        found[axis] = min(fit * tile[axis], shape[axis])
    return tuple(found)


def _is_moved(leaf: Leaf, budget: int, *, is_square: bool) -> bool:
    """Whether what a view is of is in tiles that are not small, or, if it is to be square, long."""
    source = leaf.source
    if not isinstance(source, StoreSource) or not (is_square or source.layout == "tiled"):
        return False
    if is_square and (source.layout != "tiled" or _is_long(_tile(leaf))):
        read = math.prod(_read(leaf, budget))
    else:
        read = math.prod(_tile(leaf))
    return read * source.dtype.itemsize > _most(budget)


def _tile(leaf: Leaf) -> Shape:
    """A stored tile of what a view is of."""
    return tuple(min(t, n) for t, n in zip(leaf.source.tile, leaf.source.shape, strict=True))


def _is_long(tile: Shape) -> bool:
    return max(tile, default=1) > _LONG * min(tile, default=1)
