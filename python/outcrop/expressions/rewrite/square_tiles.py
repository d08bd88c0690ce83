"""Matrices that are read in pieces are brought to square tiles first, where that is less.

So are those in long tiles, and in files of which a square is many short pieces.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from outcrop import _native
from outcrop.arrays.views import View
from outcrop.expressions.graph.functions import Copy
from outcrop.expressions.graph.gathers import Alias
from outcrop.expressions.graph.matrices import (
    BlockProduct,
    MatrixOperation,
    SomeColumns,
    stored_below,
    straight,
)
from outcrop.expressions.graph.nodes import Leaf, Map, Node, ancestors
from outcrop.expressions.graph.retile import Cuts, Moved
from outcrop.expressions.tiling.matrix_tiles import is_pivoted, side_for_pivots
from outcrop.expressions.tiling.parts import RUN
from outcrop.process.config import memory_budget

__all__ = ["alternatives"]

_LONG = 4
"""How many times as long as it is wide a tile is, at least, that is not as good as a square one."""

_FEW = 16
"""How many tiles memory holds, at most, with which a product has no good blocks."""

_MANY = 5000
"""Squares as wide as a tile, at most, into which a matrix may be cut."""


def alternatives(roots: Sequence[Node]) -> list[list[Node]]:
    """The roots as they are, and with operands of linear algebra in square tiles first.

    Those as they are are left out where there would be more steps than anybody wants to plan. Where
    steps take parts of stored tiles, they come after those that copy the parts from tiles that are
    there as a whole: from one that covers what a step takes, or from several, once and for all.
    """
    made: dict[int, Node] = {}
    squared: dict[int, Node] = {}
    held: dict[int, Node] = {}
    moved: dict[int, Node] = {}
    most: float = 0
    for node in ancestors(roots):
        operands = [made[id(o)] for o in node.operands]
        from_held = [held[id(o)] for o in node.operands]
        from_moved = [moved[id(o)] for o in node.operands]
        if isinstance(node, MatrixOperation):
            for i, operand in enumerate(operands):
                found = straight(operand)
                leaf = stored_below(operand) if found is None else found.leaf
                if leaf is None:
                    continue
                is_factored = i == (len(operands) - 1 if isinstance(node, SomeColumns) else 0)
                is_wide = is_factored and is_pivoted(node) and _is_too_wide(leaf)
                is_large = isinstance(node, BlockProduct) and _is_too_large(leaf, node.dtype)
                if not (is_wide or is_large or _is_read_in_pieces(leaf)):
                    continue
                if leaf.source.layout == "tiled" and not _is_cut_alike(node):
                    most = max(most, operand.size / min(_tile(leaf)) ** 2)
                if id(operand) not in squared:
                    squared[id(operand)] = _on_a_copy(operand, leaf)
                operands[i] = squared[id(operand)]
                if is_wide and from_held[i] is leaf:
                    from_held[i] = Map.of(Copy(), [leaf], leaf.dtype)
                    from_moved[i] = _by_whole_tiles(leaf)
        made[id(node)] = node.with_operands(operands)
        held[id(node)] = node.with_operands(from_held)
        moved[id(node)] = node.with_operands(from_moved)
    if not squared:
        return [list(roots)]
    others, as_held, as_moved = ([own[id(root)] for root in roots] for own in (made, held, moved))
    if most > _MANY:
        return [others]
    is_held = as_held != list(roots)
    return [*([as_held, as_moved] if is_held else []), list(roots), others]


def _by_whole_tiles(leaf: Leaf) -> Node:
    """A matrix in other tiles, each made of whole ones that are loaded by themselves."""
    tile = tuple(_tile(leaf))
    cuts = Cuts(tile, None, math.prod(tile) * leaf.dtype.itemsize)
    return Moved.made(leaf, View.whole(leaf.shape), cuts)


def _is_cut_alike(node: MatrixOperation) -> bool:
    """Whether the factors of a product are stored in the same tiles along what is summed over."""
    if not isinstance(node, BlockProduct):
        return False
    depths = set()
    for operand, turned, depth in zip(node.operands, node.transposed, (1, 0), strict=True):
        found = straight(operand)
        if found is None or found.leaf.source.layout != "tiled":
            return False
        tile = _tile(found.leaf)
        if len(tile) != 2:
            return False
        depths.add(tile[1 - depth if turned else depth])
    return len(depths) == 1


def _is_read_in_pieces(leaf: Leaf) -> bool:
    """Whether squares of it are read in many pieces, or with much beside them."""
    if leaf.ndim != 2:
        return False
    if leaf.source.layout != "tiled":
        itemsize = leaf.dtype.itemsize
        return _native.square_side(itemsize, None) * itemsize < RUN
    tile = _tile(leaf)
    return len(tile) == 2 and max(tile) > 1 and max(tile) > _LONG * min(tile)


def _is_too_wide(leaf: Leaf) -> bool:
    """Whether memory holds no column of the tiles in which a matrix is stored."""
    return (
        leaf.ndim == 2
        and leaf.source.layout == "tiled"
        and len(tile := _tile(leaf)) == 2
        and tile[1] > side_for_pivots(leaf)
    )


def _is_too_large(leaf: Leaf, dtype: np.dtype[Any]) -> bool:
    """Whether memory holds few of the tiles in which a matrix is stored: no blocks of a product.

    Converted to its type, that is.
    """
    if leaf.ndim != 2 or leaf.source.layout != "tiled":
        return False
    return math.prod(_tile(leaf)) * dtype.itemsize * _FEW > memory_budget()


def _tile(leaf: Leaf) -> list[int]:
    """Rows and columns of the tiles in which a matrix is stored."""
    pairs = zip(leaf.view.axes, leaf.shape, strict=True)
    return [min(leaf.source.tile[axis], n) for axis, n in pairs if isinstance(axis, int)]


def _on_a_copy(operand: Node, leaf: Leaf) -> Node:
    """An operand, made of a copy of a matrix that is cut in its own way.

    So is what else is made of the matrix: passes over that are not cut as the operand is.
    """
    if operand is leaf:
        return Alias.kept(leaf)
    operands = []
    for below in operand.operands:
        if below is leaf or (isinstance(below, Map) and below.shape == operand.shape):
            operands.append(_on_a_copy(below, leaf))
        elif below.ndim and any(node is leaf for node in ancestors([below])):
            operands.append(Alias.kept(below))
        else:
            operands.append(below)
    return operand.with_operands(operands)
