"""Views of one array that overlap, in other tiles than theirs: taken from one view of all.

What is stored in tiles is read in whole tiles, and what is joined is cut by where its parts begin:
there, `u[1:] - u[:-1]` would read most of the array for each of the views. So there is one view
around them, with tiles as on disk, and both are copied from these. (Of a file, tiles lie where one
wants them, and `overlaps` has larger ones for several views, which takes no copying.)
"""

import math
from collections.abc import Sequence, Set

from outcrop._store import StoreSource
from outcrop.config import memory_budget
from outcrop.expressions.gathers import Join, Select
from outcrop.expressions.nodes import Contract, Leaf, Map, Node, Reduce, Scan
from outcrop.views import Span, View

__all__ = ["shared"]

_AGAIN = 1.5
"""How many times as large as the box around them views are together, at least."""

_SMALL = 8
"""What part of the budget an array may have of which views are not looked at: it is soon read."""


def shared(roots: Sequence[Node], nodes: Sequence[Node]) -> list[Node]:
    """The roots with such views of arrays taken from one view."""
    made: dict[int, Node] = {}
    for leaves, apart in _alike(roots, nodes):
        made |= _from_one(leaves, apart)
    if not made:
        return list(roots)
    for node in nodes:
        if id(node) not in made:
            operands = [made[id(o)] for o in node.operands]
            changed = any(a is not b for a, b in zip(operands, node.operands, strict=True))
            made[id(node)] = node.with_operands(operands) if changed else node
    return [made[id(root)] for root in roots]


def _alike(roots: Sequence[Node], nodes: Sequence[Node]) -> list[tuple[list[Leaf], set[int]]]:
    """Views of one array each, several of each, and those that have tiles of their own."""
    stored: dict[int, list[Leaf]] = {}
    for node in nodes:
        if isinstance(node, Leaf) and node.size and isinstance(node.source, StoreSource):
            stored.setdefault(id(node.source), []).append(node)
    if all(len(leaves) == 1 for leaves in stored.values()):
        return []
    others = {id(root) for root in roots}
    joined: set[int] = set()
    for node in nodes:
        if not isinstance(node, Map | Reduce | Contract | Scan | Join | Select):
            others.update(map(id, node.operands))
        elif isinstance(node, Join):
            joined.update(map(id, node.operands))
    found = []
    for leaves in stored.values():
        own = [leaf for leaf in leaves if id(leaf) not in others]
        apart = {
            id(leaf)
            for leaf in own
            if leaf.source.layout == "tiled" or id(leaf) in joined or not leaf.view.is_dense
        }
        if len(own) > 1 and apart:
            found.append((own, apart))
    return found


def _from_one(leaves: Sequence[Leaf], apart: Set[int]) -> dict[int, Node]:
    """The views taken from one around all of them, where they overlap enough."""
    # Of a matrix and its transpose, both are all of it, and cut in their own ways.
    source, boxes = leaves[0].source, {leaf.view.box for leaf in leaves}
    low = [min(starts) for starts in zip(*(start for start, _ in boxes), strict=True)]
    high = [
        max(a + n for a, n in ends)
        for ends in zip(*(zip(start, shape, strict=True) for start, shape in boxes), strict=True)
    ]
    size = math.prod(b - a for a, b in zip(low, high, strict=True))
    again = sum(math.prod(shape) for _, shape in boxes) >= _AGAIN * size
    far = {leaf.view.box for leaf in leaves if id(leaf) in apart}
    if 2 * sum(math.prod(shape) for _, shape in far) < size:
        return {}
    if not again or size * source.dtype.itemsize * _SMALL < memory_budget():
        return {}
    if source.layout == "tiled":
        # Tiles are read whole.
        low = [a // t * t for a, t in zip(low, source.tile, strict=True)]
        ends = zip(high, source.tile, source.shape, strict=True)
        high = [min(-(-b // t) * t, n) for b, t, n in ends]
    extents = [b - a for a, b in zip(low, high, strict=True)]
    one = Leaf.of(source, View.whole(source.shape).part(low, extents))
    found: dict[int, Node] = {}
    for leaf in leaves:
        selectors = tuple(
            Span(s.start - a, s.step, s.length) if isinstance(s, Span) else s - a
            for s, a in zip(leaf.view.selectors, low, strict=True)
        )
        view = View(one.shape, selectors, leaf.view.axes)
        found[id(leaf)] = one if view.is_whole else Select.of(one, view)
    return found
