"""Whole lines along one axis after those along another one, by way of tiles that suit both.

A pass makes lines along an axis whole; the next one takes lines along another axis, or elements in
another order. What the first one leaves in tiles as large as these lines, the next one would read
again and again. So all passes in a row share one grid of blocks: each takes whole blocks, as many
as make its lines whole, and what it leaves is taken apart into blocks while it is in memory. They
are written once, and read once.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from outcrop.arrays.views import NewAxis, View
from outcrop.expressions.graph.gathers import Alias, Select
from outcrop.expressions.graph.nodes import Leaf, Lines, Map, Node, Shape, ancestors
from outcrop.expressions.graph.reshape import Reshape
from outcrop.expressions.graph.retile import Cuts, Moved, Refolded
from outcrop.expressions.tiling.disk_order import unit
from outcrop.expressions.tiling.parts import RUN, equal_part

__all__ = ["lines_in_passes"]

_IN_MEMORY = 4
"""What part of the budget is rather kept in memory as it is."""

_LINES = 8
"""What part of the budget the lines have that are computed together."""


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
    whole : list of set of int
        The axes along which each of them has whole lines.
    """

    shape: list[int]
    units: Shape
    itemsize: int
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
        # Longer along the axes of lines, by turns, as long as memory has room for all of them.
        growing = set().union(*self.whole)
        while growing:
            axis = min(growing, key=lambda a: block[a] / max(self.shape[a], 1))
            longer = [min(2 * n, self.shape[a]) if a == axis else n for a, n in enumerate(block)]
            fits = all(self._cell(longer, axes) * _LINES <= room for axes in self.whole)
            if longer == block or not fits:
                growing.discard(axis)
            else:
                block = longer
        return tuple(block)

    def _cell(self, block: Sequence[int], axes: set[int]) -> int:
        return math.prod(_cell(block, axes, self.shape))


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
            operands = [_read_in_runs(operands[0], own)]
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
                row = _Row(list(operand.shape), units, operand.dtype.itemsize)
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


def _read_in_runs(operand: Node, cell: Shape) -> Node:
    """What a file holds in another shape, in pieces of it that one cell takes.

    Where they are long. What is in tiles is put in order first, by others.
    """
    if not isinstance(operand, Reshape) or isinstance(operand, Refolded):
        return operand
    (leaf,) = operand.operands
    if not isinstance(leaf, Leaf) or leaf.source.layout != "row-major" or not leaf.view.is_box:
        return operand
    view = operand.view
    if view.selectors != View.whole(view.source_shape).selectors:
        return operand
    pieces, ends = [], 0
    for fold in operand.folds:
        ends += len(fold.target)
        if len(fold.source) > 1 or fold.target_first or fold.source_first:
            return operand
        pieces.append(cell[view.axes.index(ends - 1)])
    if math.prod(pieces) * leaf.dtype.itemsize < RUN:
        return operand
    cuts = Cuts(tuple(pieces), cell, math.prod(cell) * leaf.dtype.itemsize)
    return Refolded.made(leaf, operand.folds, view, cuts)


def _in_blocks(operand: Node, lines: Lines, block: Shape) -> Node:
    """What a pass leaves, taken apart."""
    shape = operand.shape
    cell, tile = _cell(block, lines.axes, shape), _cell(block, (), shape)
    if cell == tile:
        return operand
    nbytes = math.prod(cell) * operand.dtype.itemsize
    return Moved.made(operand, View.whole(shape), Cuts(cell, tile, nbytes))
