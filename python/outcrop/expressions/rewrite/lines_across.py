"""Whole lines of what lies across them: put together in scratch, where memory holds too little.

Each line takes a little of every row of a file, or of tiles of which memory has no room for as many
as a line goes through: read for a few lines at a time, all of them would be read again and again.
Elements are then moved through temporary tiles that are as long as what is read at once, and as
wide as the lines that are computed together: each element is read once, written, and read again.
"""

import math
from collections.abc import Sequence

from outcrop.arrays.views import View
from outcrop.expressions.graph.nodes import Contract, Leaf, Lines, Node, Shape, ancestors
from outcrop.expressions.graph.retile import Cuts, Moved
from outcrop.expressions.rewrite.reshape_by_slabs import longest_part
from outcrop.expressions.tiling.disk_order import slowness, whole
from outcrop.expressions.tiling.parts import equal_part

__all__ = ["lines_put_together"]

_PART = 8
"""What part of the budget is read at once, as far as it is in parts."""

_MOST = 3
"""What part of the budget tiles on disk may have, of which one is taken apart after the other."""

_LINES = range(16, 3, -1)
"""What part of the budget the lines have that are computed together: the least that will do."""

_ACCOUNT = 640
"""Bytes of the budget for each temporary tile, at least, that account can be kept of."""

_SHORTEST = 1024
"""Bytes of a temporary tile, at least."""


def lines_put_together(roots: Sequence[Node], budget: int) -> list[Node] | None:
    """The roots made of lines that are put together first; None where there is nothing to gain."""
    made: dict[int, Node] = {}
    moved: dict[tuple[int, tuple[int, ...]], Node | None] = {}

    def put_together(operand: Node, axes: tuple[int, ...], line: int) -> Node:
        key = id(operand), axes
        if key not in moved:
            moved[key] = _put_together(operand, axes, line, budget)
        return moved[key] or operand

    for node in ancestors(roots):
        operands = [made[id(operand)] for operand in node.operands]
        if isinstance(node, Lines):
            own = node.line(node.shape) * node.dtype.itemsize
            if not isinstance(operands[0], Moved):
                operands = [put_together(operands[0], node.axes, own)]
        elif isinstance(node, Contract) and node.nbytes * _MOST <= budget:
            # Of what each element of the result is summed over, all of them need all.
            for i, labels in enumerate(node.labels):
                axes = [axis for axis, label in enumerate(labels) if label in node.result]
                if len(axes) == 1 and isinstance(operands[i], Leaf):
                    operands[i] = put_together(operands[i], (axes[0],), 0)
        made[id(node)] = node.with_operands(operands)
    return [made[id(root)] for root in roots] if any(moved.values()) else None


def _put_together(operand: Node, axes: tuple[int, ...], least: int, budget: int) -> Node | None:
    """The operand in tiles of whole lines, by way of others; `least` are bytes of what is made."""
    shape, each = operand.shape, operand.dtype.itemsize
    order = sorted(range(operand.ndim), key=lambda a: slowness(operand, a))
    units = [min(whole(operand, a), n) for a, n in enumerate(shape)]
    read = longest_part(shape, order, budget // _PART // each, units)
    if all(read[a] == shape[a] for a in axes) or math.prod(read) * each * _MOST > budget:
        return None
    line = max(math.prod(shape[a] for a in axes) * each, least)
    others = [a for a in order if a not in axes]
    for part in _LINES:
        group = longest_part(shape, others, max(budget // part // line, 1))
        wide = tuple(equal_part(a, min(a, b)) for a, b in zip(read, group, strict=True))
        short = _with_lines(read, wide, axes)
        if math.prod(-(-n // m) for n, m in zip(shape, short, strict=True)) * _ACCOUNT <= budget:
            break
    long = _with_lines(shape, wide, axes)
    if math.prod(short) * each < _SHORTEST:
        return None
    view = View.whole(shape)
    apart = Moved.made(operand, view, Cuts(read, short, math.prod(read) * each))
    return Moved.made(apart, view, Cuts(None, long, math.prod(long) * each))


def _with_lines(lines: Sequence[int], wide: Sequence[int], axes: tuple[int, ...]) -> Shape:
    """So much along lines, and so wide across them."""
    return tuple(n if a in axes else m for a, (n, m) in enumerate(zip(lines, wide, strict=True)))
