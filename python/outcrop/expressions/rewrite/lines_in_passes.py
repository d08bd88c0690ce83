"""Whole lines along one axis after those along another one, by way of tiles that suit both.

A pass makes lines along an axis whole; the next one takes lines along another axis, or elements in
another order. What the first one leaves in tiles as large as these lines, the next one would read
again and again. So all passes in a row share one grid of blocks: each takes whole blocks, as many
as make its lines whole, and what it leaves is taken apart into blocks while it is in memory. They
are written once, and read once.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

from outcrop.arrays.views import NewAxis, View
from outcrop.expressions.graph.gathers import Alias, Select
from outcrop.expressions.graph.nodes import Leaf, Lines, Map, Node, Shape, ancestors
from outcrop.expressions.graph.reshape import Reshape
from outcrop.expressions.graph.retile import Cuts, Moved, Refolded
from outcrop.expressions.tiling.disk_order import unit, whole
from outcrop.expressions.tiling.parts import RUN, STAYS, equal_part

__all__ = ["lines_in_passes"]

_IN_MEMORY = 4
"""What part of the budget is rather kept in memory as it is."""

_LINES = 8
"""What part of the budget the lines have that are computed together."""

_BESIDE = 4
"""What part of that they have beside which something stays in memory from pass to pass."""


@dataclass
class _Row:
    """Passes in a row.

    Attributes
    ----------
    shape : list of int
        The longest extents.
    units : tuple of int
        Of the tiles that the first one reads.
    itemsize : int
        The largest one.
    stored : Reshape or None
        What the first one takes from tiles on disk, each of which has parts of several cells.
    whole : list of set of int
        The axes along which each of them has whole lines.
    """

    shape: list[int]
    units: Shape
    itemsize: int
    stored: Reshape | None = None
    whole: list[set[int]] = field(default_factory=list)

    def add(self, node: Node, axes: Sequence[int]) -> None:
        """Add a pass that has whole lines of a node."""
        self.shape = [max(a, b) for a, b in zip(self.shape, node.shape, strict=True)]
        self.itemsize = max(self.itemsize, node.dtype.itemsize)
        self.whole.append(set(axes))

    def join(self, other: "_Row") -> None:
        """Add the passes of another row, which meets this one."""
        self.shape = [max(a, b) for a, b in zip(self.shape, other.shape, strict=True)]
        self.itemsize = max(self.itemsize, other.itemsize)
        self.whole += other.whole

    def block(self, budget: int) -> Shape:
        """The blocks that suit all."""
        room = budget // self.itemsize
        block = list(self.units)
        for axes in self.whole:
            while self._cell(block, axes) * _LINES > room:
                longest = max(
                    (a for a in range(len(block)) if a not in axes),
                    key=block.__getitem__,
                    default=None,
                )
                if longest is None or block[longest] == 1:
                    break
                block[longest] = equal_part(block[longest], block[longest] // 2)
        parts = self._parts(block, room)
        holds = self._holds(block, budget)
        # Longer along the axes of lines, by turns, as long as memory has room for all of them.
        growing = set().union(*self.whole)
        while growing:
            axis = min(growing, key=lambda a: block[a] / max(self.shape[a], 1))
            longer = [min(2 * n, self.shape[a]) if a == axis else n for a, n in enumerate(block)]
            fits = all(
                (cell := self._cell(longer, axes)) * part <= room or cell == self._cell(block, axes)
                for axes, part in parts
            )
            if longer == block or not fits or (holds and not self._holds(longer, budget)):
                growing.discard(axis)
            else:
                block = longer
        return tuple(block)

    def _parts(self, block: Sequence[int], room: int) -> list[tuple[set[int], int]]:
        """Along which axes cells are whole, and which part of memory each of them may have.

        Passes beside which what is handed on stays in memory have less than others.
        """
        found = []
        nested: list[set[int]] = []
        for one, other in itertools.pairwise(self.whole):
            both = one | other
            is_part = one != other and len(both) < len(block)
            if is_part and self._cell(block, both) * STAYS <= room:
                found.append((both, STAYS))
                nested += [one, other]
        found += [(axes, _LINES * (_BESIDE if axes in nested else 1)) for axes in self.whole]
        return found

    def _cell(self, block: Sequence[int], axes: set[int]) -> int:
        return math.prod(_cell(block, axes, self.shape))

    def _holds(self, block: Sequence[int], budget: int) -> bool:
        """Whether the tiles on disk stay in memory that the first pass takes a cell from."""
        cell = _cell(block, self.whole[0], self.shape)
        return self.stored is None or _taken_from(self.stored, cell) * STAYS <= budget


def _cell(block: Sequence[int], axes: set[int] | Sequence[int], shape: Sequence[int]) -> Shape:
    """What is computed together: blocks that make lines along these axes whole."""
    return tuple(
        n if a in axes else min(b, n) for a, (b, n) in enumerate(zip(block, shape, strict=True))
    )


def lines_in_passes(roots: Sequence[Node], budget: int, part: int) -> list[Node] | None:
    """The roots with what is handed on from pass to pass in blocks that suit both.

    Lines that are computed together take a part of what they may. None where nothing large is
    handed on.
    """
    nodes = ancestors(roots)
    lines = _lines(nodes)
    if not lines:
        return None
    rows = _rows(nodes, lines, budget)
    if not rows:
        return None
    made: dict[int, Node] = {}
    blocks: dict[int, Node] = {}
    for node in nodes:
        operands = [made[id(operand)] for operand in node.operands]
        handed = _handed_on(node, lines, budget)
        for i, operand, before in handed:
            block = rows[id(before)].block(budget // part)
            if id(operand) not in blocks:
                blocks[id(operand)] = _in_blocks(made[id(operand)], before, block)
            operands[i] = blocks[id(operand)]
            if id(node) in lines:
                own = _cell(block, lines[id(node)].axes, operand.shape)
                cuts = Cuts(None, own, math.prod(own) * operand.dtype.itemsize)
                operands[i] = Moved.made(operands[i], View.whole(operand.shape), cuts)
        if isinstance(node, Lines) and not handed:
            own = _cell(rows[id(node)].block(budget // part), node.axes, operands[0].shape)
            operands = [_read_directly(operands[0], own, budget)]
        made[id(node)] = node.with_operands(operands)
    return [made[id(root)] for root in roots]


def _rows(nodes: Sequence[Node], lines: Mapping[int, Lines], budget: int) -> dict[int, _Row]:
    """The row that each pass belongs to; none where none of them hands on anything large."""
    found: dict[int, _Row] = {}
    is_handed = False
    for node in nodes:
        handed = _handed_on(node, lines, budget)
        is_handed |= bool(handed)
        if isinstance(node, Lines):
            (operand,) = node.operands
            if handed:
                row = found[id(handed[0][2])]
            else:
                units = tuple([min(unit(operand, a), n) for a, n in enumerate(operand.shape)])
                stored = operand if _is_on_tiles(operand) else None
                row = _Row(list(operand.shape), units, operand.dtype.itemsize, stored)
            row.add(operand, node.axes)
            row.add(node, node.axes)
            found[id(node)] = row
        elif isinstance(node, Map) and handed:
            row = found[id(lines[id(node)])]
            for _, _, before in handed:
                other = found[id(before)]
                if other is not row:
                    row.join(other)
                    found.update({key: row for key, one in found.items() if one is other})
        elif handed:
            # Of what is taken in another order, the beginnings of all lines, and so on.
            ((_, _, before),) = handed
            others = [axis for axis in range(before.ndim) if axis not in before.axes]
            found[id(before)].add(before, others)
    return found if is_handed else {}


def _handed_on(
    node: Node, lines: Mapping[int, Lines], budget: int
) -> list[tuple[int, Node, Lines]]:
    """What a node takes of passes that make lines whole in another way: where it is large.

    Each with its place among the operands, and with the lines.
    """
    own = lines.get(id(node))
    taken: list[tuple[int, Node]] = []
    if isinstance(node, Lines) and isinstance(node.operands[0], Alias):
        taken = [(0, node.operands[0].operands[0])]
    elif isinstance(node, Reshape) or (isinstance(node, Select) and _is_turned(node.view)):
        taken = [(0, node.operands[0])]
    elif isinstance(node, Map) and own is not None:
        taken = [(i, one) for i, one in enumerate(node.operands) if one.shape == node.shape]
    found = []
    for i, operand in taken:
        before = lines.get(id(operand))
        if before is None or operand.nbytes * _IN_MEMORY <= budget:
            continue
        if isinstance(node, Lines) and set(before.axes) & set(node.axes):
            continue
        if isinstance(node, Map) and own is not None and before.axes == own.axes:
            continue
        found.append((i, operand, before))
    return found


def _is_turned(view: View) -> bool:
    """Whether axes are in another order."""
    own = [axis for axis in view.axes if not isinstance(axis, NewAxis)]
    return own != sorted(own)


def _lines(nodes: Sequence[Node]) -> dict[int, Lines]:
    """Of each node, the lines that a pass makes whole which computes it, where there are any."""
    found: dict[int, Lines] = {}
    for node in nodes:
        if isinstance(node, Lines):
            found[id(node)] = node
        elif isinstance(node, Map):
            inside = (found.get(id(one)) for one in node.operands if one.shape == node.shape)
            if (first := next(filter(None, inside), None)) is not None:
                found[id(node)] = first
    return found


def _read_directly(operand: Node, cell: Shape, budget: int) -> Node:
    """What is stored in another shape, taken from there by each cell.

    In pieces of a file where these are long, and from tiles that stay in memory until all cells
    have taken their parts. Other tiles are put in order first, by others.
    """
    if not _is_reshaped_leaf(operand):
        return operand
    (leaf,) = operand.operands
    assert isinstance(leaf, Leaf)
    if _is_on_tiles(operand):
        if _taken_from(operand, cell) * STAYS > budget:
            return operand
        pieces = _units(leaf)
    else:
        ends = itertools.accumulate(_lengths(operand))
        pieces = tuple([cell[operand.view.axes.index(end - 1)] for end in ends])
        if leaf.source.layout != "row-major" or math.prod(pieces) * leaf.dtype.itemsize < RUN:
            return operand
    cuts = Cuts(pieces, cell, math.prod(cell) * leaf.dtype.itemsize)
    return Refolded.made(leaf, operand.folds, operand.view, cuts)


def _is_reshaped_leaf(operand: Node) -> TypeGuard[Reshape]:
    """Whether it is an array, each axis of which is folded by itself."""
    if not isinstance(operand, Reshape) or isinstance(operand, Refolded):
        return False
    (leaf,) = operand.operands
    view = operand.view
    return (
        isinstance(leaf, Leaf)
        and leaf.view.is_box
        and view.selectors == View.whole(view.source_shape).selectors
        and all(
            len(fold.source) == 1 and not fold.target_first and not fold.source_first
            for fold in operand.folds
        )
    )


def _is_on_tiles(operand: Node) -> TypeGuard[Reshape]:
    """Whether it is such an array in tiles on disk."""
    if not _is_reshaped_leaf(operand):
        return False
    (leaf,) = operand.operands
    return isinstance(leaf, Leaf) and leaf.source.layout == "tiled"


def _lengths(operand: Reshape) -> list[int]:
    """How many axes each one is folded to."""
    return [len(fold.target) for fold in operand.folds]


def _units(leaf: Leaf) -> Shape:
    """What is read at once of it."""
    return tuple([min(whole(leaf, axis), n) for axis, n in enumerate(leaf.shape)])


def _taken_from(operand: Reshape, cell: Shape) -> int:
    """Bytes of the tiles on disk that have elements of a cell, about."""
    (leaf,), first = operand.operands, 0
    assert isinstance(leaf, Leaf)
    tiles, units = 1, _units(leaf)
    for count, unit_length in zip(_lengths(operand), units, strict=True):
        *runs, run = (cell[operand.view.axes.index(a)] for a in range(first, first + count))
        tiles *= math.prod(runs) * -(-run // unit_length)
        first += count
    return tiles * math.prod(units) * leaf.dtype.itemsize


def _in_blocks(operand: Node, lines: Lines, block: Shape) -> Node:
    """What a pass leaves, taken apart."""
    shape = operand.shape
    cell, tile = _cell(block, lines.axes, shape), _cell(block, (), shape)
    if cell == tile:
        return operand
    nbytes = math.prod(cell) * operand.dtype.itemsize
    return Moved.made(operand, View.whole(shape), Cuts(cell, tile, nbytes))
