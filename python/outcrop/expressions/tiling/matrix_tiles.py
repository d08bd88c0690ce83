"""Into which tiles operations of linear algebra would cut their matrices."""

import math
from collections.abc import Sequence

from outcrop import _native
from outcrop.arrays.stored import StoreSource
from outcrop.arrays.views import NewAxis
from outcrop.expressions.graph.blas import Blas
from outcrop.expressions.graph.cholesky import CholeskyUpdate
from outcrop.expressions.graph.gathers import Alias
from outcrop.expressions.graph.ldl import LDLInOrder, LDLSolve
from outcrop.expressions.graph.lu import LU, ExchangeRows, LUColumns, LUInOrder, LUSolve
from outcrop.expressions.graph.matrices import (
    Axis,
    BlockProduct,
    Companion,
    MatrixOperation,
    Solve,
    SomeColumns,
    stored_below,
    straight,
)
from outcrop.expressions.graph.nodes import Leaf, Map, Node
from outcrop.expressions.tiling.disk_order import slowness, whole
from outcrop.expressions.tiling.parts import equal_part
from outcrop.process.config import memory_budget

__all__ = ["factored_with_pivots", "is_pivoted", "side_for_pivots", "wanted_extents"]

_THERE = 3
"""What part of the budget the tiles have that something is copied from, at most."""

_ROW = 1 / 2
"""What part a row of tiles has, at most, into which rows of a file are copied: all are begun."""

_COLUMN = 3
"""What part of the budget a column of tiles has, at most, that is in memory as a whole."""

_NARROW = 6
"""What part it has where tiles are cut for that: a few columns are in memory, so that there is work
for all threads while one looks for pivots, and so that little of it is left beside the last one."""

_THIN = 128
"""Columns of tiles that are not cut into more for that: with fewer, products are slow and programs
long."""

_WIDEST = 0.62
"""What part of the budget it may have where the program is long otherwise."""

_PROGRAM = 1 / 8
"""What part of the budget a program may have."""

_STEP = 192
"""Bytes of a program and its schedule for each step, roughly."""

_HIGH = 16
"""How many times as high as wide tiles may be of which memory holds a column."""

_USUAL_HEIGHT = 8
"""How many times as high they are where their columns are chosen by the steps: narrower ones, with
products that are slow, are no gain."""

_ROWS = 6
"""Tiles of such a column, at least, if they are higher than wide."""

_LONG_TRANSFER = 512 << 10
"""Bytes from which on tiles need not be higher: they are transferred well."""

_EVEN = 8
"""Columns of which tiles have a multiple, if they have as many."""

_SMALL = 4
"""What part of the best side that of a tile may be, at least, by which others are cut, too."""


def wanted_extents(node: MatrixOperation) -> list[tuple[Axis, int]]:
    """Extents of tiles along axes of a node and its operands, one of those that are cut alike.

    Neither threads nor speeds decide them: results depend on them in their last bits.
    """
    if isinstance(node, Companion):
        # As that is cut with which it is computed.
        return []
    if isinstance(node, SomeColumns):
        # Narrower columns are cut as all others are.
        return [((node, axis), extent) for axis, extent in enumerate(node.tile)]
    itemsize = node.dtype.itemsize
    best = _native.square_side(itemsize, None)
    tiles = [_tile(operand, best) for operand in node.operands]
    if isinstance(node, BlockProduct):
        return _of_product(node, node.transposed, (0, 1), tiles, best)
    if isinstance(node, Blas):
        return _of_blas(node, tiles, best)
    last = isinstance(node, ExchangeRows | LUInOrder | LDLInOrder | CholeskyUpdate)
    matrix = tiles[-1] if last else tiles[0]
    side = _native.square_side(itemsize, matrix)
    factored = factored_with_pivots(node)
    if factored is not None:
        (short, _), columns = sorted(factored.shape), factored.shape[1]
        if columns > (most := side_for_pivots(factored)):
            if side > most:
                # A copy is cut as it should be, what is stored into parts of its tiles.
                thin = min(side_for_pivots(factored), _THIN)
                narrow = max(side_for_pivots(factored, _NARROW), thin)
                side = equal_part(side, narrow) if _copy_below(factored) is None else narrow
        elif 0 < short < side and isinstance(node, LU):
            # A few columns, or rows, which are not cut: as many elements as of a square.
            side *= side // short
    found: list[tuple[Axis, int]] = [((node, 0), side)]
    if factored is not None:
        found = [((node, 0), _height(factored, side)), ((factored, 1), side)]
    elif isinstance(node, CholeskyUpdate):
        # All columns of V at once, as far as these are not many.
        found.append(((node.operands[0], 1), side))
    others = LUInOrder | LDLInOrder | CholeskyUpdate
    if len(tiles) > 1 and node.ndim == 2 and not isinstance(node, others):
        wide, own = _for_others(side, best), tiles[-1]
        wide = min(wide if own is None else own[1], 2 * wide)
        if is_pivoted(node) or isinstance(node, LUSolve | LDLSolve | ExchangeRows):
            wide = _part(wide, side_for_pivots(node))
        found.append(((node, 1), wide))
    return found


def _part(extent: int, most: int) -> int:
    """An extent, or a part of it where it is too long."""
    return extent if extent <= most else equal_part(extent, most)


def is_pivoted(node: MatrixOperation) -> bool:
    """Whether rows of what is factored are exchanged, so that columns are in memory as a whole."""
    return isinstance(node, LU | LUColumns | LUInOrder) or (
        isinstance(node, Solve) and not node.positive_definite
    )


def factored_with_pivots(node: MatrixOperation) -> Node | None:
    """The matrix whose tiles are squares one below the other, if there is one."""
    last = isinstance(node, LUInOrder | SomeColumns)
    return node.operands[-1 if last else 0] if is_pivoted(node) else None


def side_for_pivots(matrix: Node, parts: int = _COLUMN) -> int:
    """Columns of tiles of a matrix of which memory holds a column, in one of some parts.

    Where that would make a long program, which takes memory as well, there are more of them, and
    less beside them.
    """
    budget, (rows, columns) = (
        memory_budget(),
        matrix.shape if matrix.ndim == 2 else (*matrix.shape, 1),
    )
    row = max(rows, 1) * matrix.dtype.itemsize
    most = budget // (parts * row)
    steps = _USUAL_HEIGHT * _PROGRAM * budget / _STEP
    fewest: float = (max(rows, 1) * min(rows, max(columns, 1)) * max(columns, 1) / (3 * steps)) ** (
        1 / 3
    )
    most = max(most, min(math.ceil(round(fewest, 6)), int(_WIDEST * budget) // row))
    return max(most if most < _EVEN else most // _EVEN * _EVEN, 1)


def _height(matrix: Node, columns: int) -> int:
    """Rows of its tiles: some times their columns, for a shorter program and longer transfers."""
    rows, itemsize = max(matrix.shape[0], 1), matrix.dtype.itemsize
    work = rows * min(rows, matrix.shape[1]) * matrix.shape[1] / 3
    for_steps = math.ceil(work / columns**3 * _STEP / (_PROGRAM * memory_budget()))
    for_size = -(-_LONG_TRANSFER // (columns * columns * itemsize))
    return columns * max(min(max(for_steps, for_size), _HIGH, rows // (_ROWS * columns)), 1)


def _of_blas(
    node: Blas, tiles: Sequence[tuple[int, int] | None], best: int
) -> list[tuple[Axis, int]]:
    """As the factors are cut on disk; square where there are halves."""
    *factors, own = tiles
    rows, columns = node.axes
    call, itemsize = node.call, node.dtype.itemsize
    if call.form == "product":
        return _of_product(node, call.turned[:2], node.axes, factors, best)
    if not factors:
        extents = own or (best, best)
        if node.is_square:
            return [((node, 0), _native.square_side(itemsize, extents))]
        return [((node, axis), extents[axis]) for axis in (0, 1)]
    one = factors[0] if call.form != "right" else factors[1]
    if call.form in ("update", "update twice"):
        # Rows of the factors are cut as the result is, and what is summed over as they are.
        turned = call.turned[0]
        cut = one[::-1] if one is not None and turned else one
        side = _native.square_side(itemsize, own if one is None else cut)
        depth = best if cut is None else cut[1]
        return [((node, 0), side), ((node.operands[0], 0 if turned else 1), depth)]
    side = _native.square_side(itemsize, one)
    square, other = (columns, rows) if call.form == "right" else (rows, columns)
    wide = _for_others(side, best)
    along = own[other] if own is not None else wide
    return [((node, square), side), ((node, other), min(along, 2 * wide))]


def _of_product(
    node: BlockProduct | Blas,
    transposed: Sequence[bool],
    axes: tuple[int, int],
    tiles: Sequence[tuple[int, int] | None],
    best: int,
) -> list[tuple[Axis, int]]:
    """As the factors are cut on disk, as far as they are."""
    one = node.operands[0]
    left, right = (
        tile[::-1] if tile is not None and turned else tile
        for tile, turned in zip(tiles, transposed, strict=True)
    )
    if left is not None:
        rows, depth = left
        columns = right[1] if right is not None else _for_others(depth, best)
    elif right is not None:
        depth, columns = right
        rows = _for_others(depth, best)
    else:
        rows = depth = columns = best
    summed = (one, 0 if transposed[0] else 1)
    return [((node, axes[0]), rows), ((node, axes[1]), columns), (summed, depth)]


def _for_others(extent: int, best: int) -> int:
    """By how much something is cut along another axis that is not cut on disk."""
    return extent if extent * _SMALL >= best else best // extent * extent


def _tile(operand: Node, best: int) -> tuple[int, int] | None:
    """Rows and columns of the tiles in which an operand lies on disk, if it does.

    Of what is made of it, parts of those tiles.
    """
    copy = _copy_below(operand)
    if copy is not None:
        return _of_copy(copy, best)
    found = straight(operand)
    leaf = found.leaf if found is not None else stored_below(operand)
    if leaf is None or not isinstance(leaf.source, StoreSource) or leaf.source.layout != "tiled":
        return None
    extents = [
        1 if isinstance(axis, NewAxis) else min(leaf.source.tile[axis], max(n, 1))
        for axis, n in zip(leaf.view.axes, leaf.view.shape, strict=True)
    ]
    if found is None:
        extents = [equal_part(n, best) if n > best else n for n in extents]
    return extents[0], extents[1] if len(extents) > 1 else 1


def _copy_below(operand: Node) -> Leaf | None:
    """What is copied to tiles of its own for an operand, if something is."""
    while isinstance(operand, Map):
        largest = max(operand.operands, key=lambda node: node.size, default=None)
        if largest is None or largest.shape != operand.shape:
            return None
        operand = largest
    (below, *_) = operand.operands or (None,)
    return below if isinstance(operand, Alias) and isinstance(below, Leaf) else None


def _of_copy(leaf: Leaf, best: int) -> tuple[int, int] | None:
    """Rows and columns of a copy: as many as may be there of the tiles that it is copied from.

    Of a file without tiles, those that its rows cross are there together.
    """
    if leaf.ndim != 2:
        return None
    if leaf.source.layout != "tiled":
        across = 1 if slowness(leaf, 0) < slowness(leaf, 1) else 0
        row = leaf.shape[across] * leaf.dtype.itemsize
        most = max(min(int(_ROW * memory_budget()) // max(row, 1), best), 1)
        return (most, best) if across else (best, most)
    tile = [min(whole(leaf, axis), n) for axis, n in enumerate(leaf.shape)]
    there = max(memory_budget() // _THERE // (math.prod(tile) * leaf.dtype.itemsize), 1)
    extents = [min(best, n * there) if n < best else best for n in tile]
    return extents[0], extents[1]
