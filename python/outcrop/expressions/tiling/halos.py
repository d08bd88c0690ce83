"""Views of one file that overlap: tiles that reach a little further serve all of them.

Of `u[2:] - u[:-2]`, a tile of one view is that of the other, but for two rows. A tile that has all
of these is read once, and each view is a part of it.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from outcrop.arrays.stored import StoreSource
from outcrop.arrays.views import NewAxis, Span, View
from outcrop.expressions.graph.nodes import Leaf, Shape
from outcrop.expressions.tiling.axes import Tiling

__all__ = ["Overlap", "in_source", "overlaps"]


@dataclass(frozen=True)
class Overlap:
    """Views whose tiles are parts of the same, larger ones.

    Attributes
    ----------
    leaves : sequence of Leaf
        The views.
    low : tuple of int
        The first index of any of them, along each axis.
    extent : tuple of int
        By how much tiles are longer than those of a view.
    """

    leaves: Sequence[Leaf]
    low: Shape
    extent: Shape

    def first(self, leaf: Leaf) -> Shape:
        """Where in a tile a view begins."""
        return tuple([a - b for a, b in zip(leaf.view.box[0], self.low, strict=True)])

    def tile_size(self, tile: Shape) -> int:
        """Elements of the tiles, where those of a view have this shape."""
        return math.prod(n + more for n, more in zip(tile, self.extent, strict=True))

    def with_leaf(self, leaf: Leaf) -> "Overlap":
        """The same with another view."""
        start, high = leaf.view.box[0], [a + n for a, n in zip(self.low, self.extent, strict=True)]
        low = tuple(map(min, self.low, start))
        extent = tuple([max(a, b) - c for a, b, c in zip(high, start, low, strict=True)])
        return Overlap([*self.leaves, leaf], low, extent)


def overlaps(leaves: Iterable[Leaf], tiling: Tiling) -> list[Overlap]:
    """Which views share tiles: those with which fewer bytes are read than by each for itself."""
    alike: dict[tuple[Any, ...], list[Leaf]] = {}
    for leaf in leaves:
        # Tiles of other layouts are read as they are stored.
        if isinstance(leaf.source, StoreSource) and leaf.source.layout != "tiled" and _is_box(leaf):
            key = (id(leaf.source), tiling.axes.of(leaf), leaf.view.axes)
            alike.setdefault(key, []).append(leaf)
    found: list[Overlap] = []
    for group in alike.values():
        if len(group) == 1:
            continue
        tile = in_source(group[0].view, tiling.tile(group[0]), 1)
        current: Overlap | None = None
        for leaf in sorted(group, key=lambda leaf: leaf.view.box[0]):
            start = leaf.view.box[0]
            alone = Overlap([leaf], start, (0,) * len(start))
            joined = alone if current is None else current.with_leaf(leaf)
            apart = 0 if current is None else current.tile_size(tile) + math.prod(tile)
            if current is not None and joined.tile_size(tile) >= apart:
                found.append(current)
                joined = alone
            current = joined
        if current is not None:
            found.append(current)
    return [one for one in found if len(one.leaves) > 1]


def in_source(view: View, numbers: Sequence[int], other: int) -> Shape:
    """Numbers for the axes of a view as those for its source's; `other` where the view has none."""
    found = [other] * len(view.selectors)
    for axis, n in zip(view.axes, numbers, strict=True):
        if not isinstance(axis, NewAxis):
            found[axis] = n
    return tuple(found)


def _is_box(leaf: Leaf) -> bool:
    spans = (s for s in leaf.view.selectors if isinstance(s, Span))
    return leaf.size > 0 and all(s.step == 1 for s in spans)
