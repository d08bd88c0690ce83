"""Views of one array that overlap, in other tiles than theirs: taken from one view of all.

What is stored in tiles is read in whole tiles, and what is joined is cut by where its parts begin:
there, `u[1:] - u[:-1]` would read most of the array for each of the views. So there is one view
around them, with tiles as on disk, and both are copied from these. (Of a file, tiles lie where one
wants them, and `overlaps` has larger ones for several views, which takes no copying.)
"""

import math
from collections.abc import Sequence, Set
from itertools import pairwise
from typing import Any

from outcrop.arrays.source import Source
from outcrop.arrays.stored import StoreSource
from outcrop.arrays.views import NewAxis, Span, View, around
from outcrop.expressions.graph.gathers import Join, Select
from outcrop.expressions.graph.nodes import Contract, Leaf, Map, Node, Reduce, Scan
from outcrop.expressions.graph.reshape import Fold, Reshape
from outcrop.expressions.rewrite.view_pushdown import composed, viewed_later
from outcrop.expressions.tiling.disk_order import slowness
from outcrop.process.config import memory_budget

__all__ = ["shared"]

_AGAIN = 1.5
"""How many times as much is read for the views as there is in the box around them, at least."""

_BLOCK = 4096
"""Bytes of a block of the disk."""

_SMALL = 8
"""What part of the budget may be read for views that are not looked at: that is soon done."""


def shared(roots: Sequence[Node], nodes: Sequence[Node], own: Set[int]) -> Sequence[Node]:
    """The roots with such views of arrays taken from one view; they themselves where none are.

    Those whose ids are `own` are views of their own.
    """
    made: dict[int, Node] = {}
    for leaves, apart in _alike(nodes, own):
        made |= _from_one(leaves, apart)
    for reshapes in _folded_alike(nodes):
        made |= _folded_once(reshapes)
    if not made:
        return roots
    for node in nodes:
        if id(node) not in made:
            now = node.with_operands([made[id(o)] for o in node.operands])
            if now is not node and isinstance(now, Select):
                (inner,) = now.operands
                if isinstance(inner, Select):
                    now = viewed_later(inner.operands[0], composed(inner.view, now.view))
            made[id(node)] = now
    return [made[id(root)] for root in roots]


def _alike(nodes: Sequence[Node], own_views: Set[int]) -> list[tuple[list[Leaf], set[int]]]:
    """Views of one array each, and those of them that have tiles of their own."""
    stored: dict[int, list[Leaf]] = {}
    for node in nodes:
        if isinstance(node, Leaf) and node.size and isinstance(node.source, StoreSource):
            stored.setdefault(id(node.source), []).append(node)
    if all(len(leaves) == 1 and leaves[0].view.is_whole for leaves in stored.values()):
        return []
    others = set(own_views)
    joined: set[int] = set()
    for node in nodes:
        if not isinstance(node, Map | Reduce | Contract | Scan | Join | Select):
            others.update(map(id, node.operands))
        elif isinstance(node, Join):
            joined.update(map(id, node.operands))
    found = []
    for leaves in stored.values():
        if len(leaves) == 1 and leaves[0].size == math.prod(leaves[0].source.shape):
            # All of an array, once. There may be thousands.
            continue
        own = [leaf for leaf in leaves if id(leaf) not in others]
        apart = {
            id(leaf)
            for leaf in own
            if leaf.source.layout == "tiled"
            or id(leaf) in joined
            or not leaf.view.is_dense
            or _read(leaf.source, leaf.view) > _AGAIN * leaf.size
        }
        if apart:
            found.append((own, apart))
    return found


def _from_one(leaves: Sequence[Leaf], apart: Set[int]) -> dict[int, Node]:
    """The views taken from one around all of them, where that is less to read."""
    # Of a matrix and its transpose, both are all of it, and cut in their own ways.
    source, boxes = leaves[0].source, {leaf.view.box: leaf.view for leaf in leaves}
    low, high = around(boxes)
    size = math.prod(b - a for a, b in zip(low, high, strict=True))
    far = {leaf.view.box: leaf.view for leaf in leaves if id(leaf) in apart}
    read = sum(_read(source, view) for view in boxes.values())
    is_small = read * source.dtype.itemsize * _SMALL < memory_budget()
    is_far = 2 * sum(_read(source, view) for view in far.values()) < size
    if is_small or is_far or read < _AGAIN * size:
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


def _folded_alike(nodes: Sequence[Node]) -> list[list[Reshape]]:
    """What is reshaped of one array in the same way, but for where it begins and ends."""
    found: dict[tuple[Any, ...], list[Reshape]] = {}
    for node in nodes:
        if not isinstance(node, Reshape) or not node.size:
            continue
        (leaf,) = node.operands
        if (
            isinstance(leaf, Leaf)
            and isinstance(leaf.source, StoreSource)
            and not any(isinstance(axis, NewAxis) for axis in leaf.view.axes)
            and _is_moved(node, leaf)
        ):
            found.setdefault(_folding(node, leaf), []).append(node)
    return [reshapes for reshapes in found.values() if len(reshapes) > 1]


def _is_moved(node: Reshape, leaf: Leaf) -> bool:
    """Whether elements are in another order on disk; if not, each view is read as it lies there."""
    if leaf.source.layout == "tiled":
        return True
    folded = (range(axis, axis + len(fold.source)) for fold, axis, _ in node.axes())
    return any(slowness(leaf, a) > slowness(leaf, b) for axes in folded for a, b in pairwise(axes))


def _folding(node: Reshape, leaf: Leaf) -> tuple[Any, ...]:
    """What is the same in views of one reshape of an array."""
    firsts = {source: fold for fold, source, _ in node.axes() if not fold.is_trivial}
    own: list[Any] = list(leaf.view.selectors)
    for axis, fold in firsts.items():
        span = leaf.view.span(axis)
        own[_place(leaf, axis)] = span.start - span.step * fold.source_first, span.step
    folds = tuple(f if f.is_trivial else (f.source[1:], f.target[1:]) for f in node.folds)
    return id(leaf.source), tuple(own), leaf.view.axes, folds


def _place(leaf: Leaf, axis: int) -> int:
    """The axis of the source that an axis is."""
    place = leaf.view.axes[axis]
    assert not isinstance(place, NewAxis)
    return place


def _folded_once(nodes: Sequence[Reshape]) -> dict[int, Node]:
    """Views of one reshape around all of them, where they overlap."""
    leaf = nodes[0].operands[0]
    assert isinstance(leaf, Leaf)
    selectors, folds = list(leaf.view.selectors), list(nodes[0].folds)
    for i, (fold, axis, _) in enumerate(nodes[0].axes()):
        if fold.is_trivial:
            continue
        all_folds = [node.folds[i] for node in nodes]
        low, first = min(f.source_first for f in all_folds), min(f.target_first for f in all_folds)
        high = max(f.source_first + f.source[0] for f in all_folds)
        last = max(f.target_first + f.target[0] for f in all_folds)
        span = leaf.view.span(axis)
        start = span.start + span.step * (low - fold.source_first)
        selectors[_place(leaf, axis)] = Span(start, span.step, high - low)
        source, target = (high - low, *fold.source[1:]), (last - first, *fold.target[1:])
        folds[i] = Fold(source, target, low, first)
    shape = tuple(n for fold in folds for n in fold.target)
    if sum(node.size for node in nodes) < _AGAIN * math.prod(shape):
        return {}
    own = Leaf.of(leaf.source, View(leaf.view.source_shape, tuple(selectors), leaf.view.axes))
    one = Reshape.of(own, folds, View.whole(shape))
    found: dict[int, Node] = {}
    for node in nodes:
        moved = list(node.view.selectors)
        for (fold, _, axis), common in zip(node.axes(), folds, strict=True):
            chosen, shift = moved[axis], fold.target_first - common.target_first
            moved[axis] = (
                Span(chosen.start + shift, chosen.step, chosen.length)
                if isinstance(chosen, Span)
                else chosen + shift
            )
        view = View(shape, tuple(moved), node.view.axes)
        found[id(node)] = one if view.is_whole else Select.of(one, view)
    return found


def _read(source: Source, view: View) -> int:
    """Elements that are read for a view, in tiles of its own."""
    start, shape = view.box
    if source.layout == "tiled":
        # Where its tiles begin inside those on disk, each of these is read for two of them. Of what
        # is narrower than a tile, all of that is read.
        extents = list(zip(start, shape, source.tile, source.shape, strict=True))
        steps = [s.step if isinstance(s, Span) else 1 for s in view.selectors]
        twice = sum(
            (a % t != 0 or t % step != 0) and n > t
            for step, (a, n, t, _) in zip(steps, extents, strict=True)
        )
        whole = [min(-(-(a + n) // t) * t, m) - a // t * t for a, n, t, m in extents]
        parts = zip(shape, whole, source.tile, strict=True)
        return math.prod(w if n < t else n for n, w, t in parts) << twice
    if not shape:
        return 1
    # Of each row, whole blocks.
    fastest = 0 if source.layout == "column-major" else len(shape) - 1
    row = max(shape[fastest], min(_BLOCK // source.dtype.itemsize, source.shape[fastest]))
    return math.prod(shape) // shape[fastest] * row
