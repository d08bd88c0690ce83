"""What is reshaped, in the order in which it is counted: so little of it is in memory at once.

A reshape counts elements in row-major order. Where tiles of the operand, or of the result, are long
along a slow axis, all of them are begun before the first one is done: without memory for so many,
they are read again and again. Elements are then moved through temporary tiles that are as long as
the operand's along fast axes and as short as the slabs that fit in memory along slow ones: each
tile of the operand is read once, and so is each temporary tile.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from outcrop.arrays.source import MemorySource
from outcrop.arrays.stored import StoreSource
from outcrop.arrays.views import NewAxis, View
from outcrop.errors import BudgetError
from outcrop.expressions.graph.gathers import Alias, Select
from outcrop.expressions.graph.nodes import Leaf, Node, Shape, ancestors
from outcrop.expressions.graph.reshape import Reshape
from outcrop.expressions.graph.retile import Cuts, Moved, Refolded
from outcrop.expressions.rewrite.view_pushdown import composed
from outcrop.expressions.tiling.axes import Tiling
from outcrop.expressions.tiling.disk_order import slowness, whole
from outcrop.process.sizes import format_bytes

__all__ = ["in_order", "longest_part", "tiles_taken", "views_apart"]

_FITS = 4
"""What part of the budget a slab may have that is in memory while it is taken apart."""

_SLAB = 8
"""What part of the budget a slab has that temporary tiles are cut for: two are used at once, where
one ends and the next one begins."""

_PART = 12
"""What part of the budget a tile may have: one is used while the next one is loaded."""

_HELD = 2
"""What part of the budget the tiles on disk may have that are in memory until all is taken."""

_STAYS = 2
"""What part of the budget may be folded that stays in memory while views of it are taken."""

_SHORTEST = 1024
"""Bytes of a temporary tile, at least."""

_LONG = 16 << 10
"""Bytes of a piece of a row that is read nearly as fast alone as with the rest of it."""

_FEW = 4
"""How many tiles a slab may be in that is put together again for each tile that is cut of it."""

Short = list[tuple[Node, int, int]]
"""Nodes, an axis of each, and how many indices their tiles have along it, at most."""


def in_order(
    node: Reshape,
    operand: Node,
    tiling: Tiling,
    budget: int,
    *,
    is_shared: bool,
    is_free: bool,
    holds: bool,
) -> tuple[Node, Short]:
    """A reshape that reads its operand once.

    Parameters
    ----------
    node : Reshape
        As it is in the expression.
    operand : Node
        What it is made of now.
    tiling : Tiling
        Into which tiles it is cut otherwise.
    budget : int
        Bytes of memory.
    is_shared : bool
        Whether others need the operand, too, in other tiles.
    is_free : bool
        Whether any tiles of it will do.
    holds : bool
        Whether tiles on disk may take so much of the budget that little is left beside them.

    Returns
    -------
    node : Node
        What is computed instead.
    short : list of tuple
        Which tiles are to be shorter for it.

    Raises
    ------
    BudgetError
        Temporary tiles would be too small.
    """
    tile = tiling.tile(node.operands[0])
    held = _held(node, operand, tile, budget, budget // (_HELD if holds else _FITS))
    if held is not None:
        own = Alias.of(operand) if is_shared else operand
        cuts = Cuts(held, None, math.prod(held) * operand.dtype.itemsize)
        return Refolded.made(own, node.folds, node.view, cuts), []
    is_free = is_free and tiling.fixed.isdisjoint(tiling.axes.of(node))
    order = _Order.of(node, None if is_free else tiling.tile(node))
    source, cut, short = _source(
        operand, tile, budget, order.source, is_shared=is_shared, holds=holds
    )
    is_slabs = holds and isinstance(source, Moved)
    if is_slabs and is_free:
        return _by_slabs(node, source, budget, order), short
    made = _target(node, source, cut, tiling.tile(node), budget, order)
    if is_slabs and type(made) is Reshape:
        made = _by_slabs(node, source, budget, order)
    return made, short


@dataclass(frozen=True)
class _Order:
    """The order in which elements are moved: its slowest axes are cut, so that slabs are short.

    Attributes
    ----------
    source, target : list of int
        The axes of the operand, and those that it is folded to.
    """

    source: list[int]
    target: list[int]

    @classmethod
    def of(cls, node: Reshape, tile: Shape | None) -> "_Order":
        """Of a node in such tiles: the folds most cut come first; None where any tiles will do."""
        folds = list(node.axes())
        if tile is not None:
            pairs = zip(node.view.axes, node.shape, tile, strict=True)
            counts = {axis: -(-n // extent) for axis, n, extent in pairs}
            folds.sort(key=lambda f: -math.prod(counts.get(a, 1) for a in _axes(f[2], f[0].target)))
        return cls(
            [axis for fold, first, _ in folds for axis in _axes(first, fold.source)],
            [axis for fold, _, first in folds for axis in _axes(first, fold.target)],
        )


def _axes(first: int, extents: Shape) -> range:
    return range(first, first + len(extents))


def _by_slabs(node: Reshape, source: Node, budget: int, order: _Order) -> Node:
    """The reshape in tiles that are made of one slab each, so that this is looked up once."""
    room = budget // _SLAB // node.dtype.itemsize
    slab = math.prod(longest_part(source.shape, order.source, room))
    tile = longest_part(node.view.source_shape, order.target, slab)
    own = tuple(1 if isinstance(axis, NewAxis) else tile[axis] for axis in node.view.axes)
    cuts = Cuts(None, own, math.prod(own) * node.dtype.itemsize)
    return Refolded.made(source, node.folds, node.view, cuts)


def views_apart(roots: list[Node], budget: int) -> list[Node]:
    """The roots with views of what is folded, if memory does not hold it, folded each by itself.

    They take from the same tiles at about the same time, so that these are read once for all views.
    Otherwise, what is folded would be written, and read again. The roots themselves where there are
    no such views.
    """
    nodes = ancestors(roots)
    uses: dict[int, list[Node]] = {}
    for node in nodes:
        for operand in node.operands:
            uses.setdefault(id(operand), []).append(node)
    kept = {id(root) for root in roots}
    made: dict[int, Node] = {}
    for node in nodes:
        if not isinstance(node, Reshape) or node.nbytes <= budget // _STAYS or id(node) in kept:
            continue
        users = {id(user): user for user in uses[id(node)]}
        views = {
            key: user.view
            for key, user in users.items()
            if type(user) is Select and composed(node.view, user.view).is_dense
        }
        if len(views) == len(users):
            made |= {key: _folded_apart(node, view, len(views)) for key, view in views.items()}
    if not made:
        return roots
    for node in nodes:
        if id(node) not in made:
            made[id(node)] = node.with_operands([made[id(o)] for o in node.operands])
    return [made[id(root)] for root in roots]


def _folded_apart(node: Reshape, view: View, count: int) -> Reshape:
    """One of several views of what is folded, in tiles with room for the others."""
    (operand,), own = node.operands, composed(node.view, view)
    if not isinstance(node, Refolded):
        return Reshape.of(operand, node.folds, own)
    cuts = node.cuts
    if cuts.target is not None:
        extents = dict(zip(node.view.axes, cuts.target, strict=True))
        tile = [1 if isinstance(axis, NewAxis) else extents[axis] for axis in own.axes]
        # Slabs are cut for one: two of them are used at once.
        parts = -(-count * _FITS // _SLAB)
        slowest = next((i for i, extent in enumerate(tile) if extent >= parts), 0)
        tile[slowest] = max(tile[slowest] // parts, 1)
        cuts = Cuts(cuts.source, tuple(tile), math.prod(tile) * node.dtype.itemsize)
    return Refolded.made(operand, node.folds, own, cuts)


def tiles_taken(node: Reshape, tiling: Tiling) -> int:
    """How many tiles of the operand are taken, about, where tiles of the result are made at once.

    The same one again for each of these.
    """
    operand, tile = node.operands[0], tiling.tile(node)
    slab = longest_part(operand.shape, range(operand.ndim), math.prod(tile))
    return _count(node.shape, tile) * _count(slab, tiling.tile(operand))


def _held(node: Reshape, operand: Node, tile: Shape, budget: int, room: int) -> Shape | None:
    """Tiles of whole ones on disk, of which those that are taken from at a time stay in memory.

    None where they take too much of it, or where there is nothing to gain.
    """
    if not isinstance(operand, Leaf) or not isinstance(operand.source, StoreSource):
        return None
    shape, itemsize = operand.shape, operand.dtype.itemsize
    units = tuple(min(whole(operand, axis), n) for axis, n in enumerate(shape))
    slab = longest_part(shape, range(operand.ndim), budget // _FITS // itemsize)
    is_whole = all(a >= b for a, b in zip(tile, units, strict=True))
    if operand.source.layout != "tiled" or (is_whole and _is_within(tile, slab)):
        return None
    for held in (tuple(map(max, tile, units)), units):
        size = itemsize
        for fold, first, _ in node.axes():
            own = _axes(first, fold.source)
            slowest = next((axis for axis in own if held[axis] > 1), own[-1])
            # Of axes behind the slowest one that a tile has more than one index of, all.
            size *= held[slowest]
            if not fold.is_trivial:
                size *= math.prod(shape[axis] for axis in own if axis > slowest)
        if size <= room:
            return held
    return None


def _source(
    operand: Node,
    tile: Shape,
    budget: int,
    axes: Sequence[int],
    *,
    is_shared: bool,
    holds: bool,
) -> tuple[Node, Shape, Short]:
    """The operand in tiles that are short along slow axes, and what tiles these are."""
    shape, itemsize = operand.shape, operand.dtype.itemsize
    if isinstance(operand, Leaf) and isinstance(operand.source, MemorySource):
        return operand, shape, []
    if _is_within(tile, longest_part(shape, axes, budget // _FITS // itemsize)):
        return operand, tile, []
    taken: Shape | None = None
    if isinstance(operand, Leaf) and isinstance(operand.source, StoreSource):
        if is_shared:
            operand = Alias.of(operand)
            assert isinstance(operand, Leaf)
        units = [min(whole(operand, a), n) for a, n in enumerate(shape)]
        on_disk = sorted(range(operand.ndim), key=lambda a: slowness(operand, a))
        room = budget // _PART // itemsize
        wide = longest_part(shape, axes, room, units)
        if operand.source.layout != "tiled" and _run(shape, on_disk, wide) * itemsize >= _LONG:
            return operand, wide, [(operand, axis, extent) for axis, extent in enumerate(wide)]
        tile = taken = longest_part(shape, on_disk, room, units)
    slab = longest_part(shape, axes, budget // _SLAB // itemsize)
    short = tuple(map(min, tile, slab))
    most = budget // (_HELD if holds else _SLAB)
    return _moved(operand, View.whole(shape), taken, short, budget, most), short, []


def _target(
    node: Reshape, source: Node, cut: Shape, tile: Shape, budget: int, order: _Order
) -> Node:
    """The result, made slab by slab before it is brought in tiles that are long along slow axes."""
    view, itemsize = node.view, node.dtype.itemsize
    shape = view.source_shape
    if node.size != math.prod(shape):
        return node.with_operands([source])
    own = tuple(tile[view.axes.index(a)] if a in view.axes else 1 for a in range(len(shape)))
    lines = [
        order.target.index(axis)
        for axis in view.axes
        if isinstance(axis, int) and own[axis] < shape[axis]
    ]
    room = budget // _FITS // itemsize
    if lines == sorted(lines) and _is_within(own, longest_part(shape, order.target, room)):
        return node.with_operands([source])
    straight = Refolded.made(source, node.folds, View.whole(shape), Cuts(None, None, 0))
    room = budget // _PART // itemsize
    slab = longest_part(shape, order.target, room)
    short = tuple(map(min, own, slab))
    before = longest_part(source.shape, order.source, room)
    if _count(before, cut) <= _FEW:
        return _moved(straight, view, short, None, budget)
    # A slab is in many tiles already, and is not put together again for each new one.
    apart = _moved(straight, View.whole(shape), slab, short, budget)
    return Moved.made(apart, view, Cuts(None, None, 0))


def _moved(
    operand: Node,
    view: View,
    source: Shape | None,
    target: Shape | None,
    budget: int,
    most: int = 0,
) -> Node:
    """A movement between tiles; of what is on disk, whole ones if they have up to `most` bytes."""
    short = source if target is None else target
    assert short is not None
    if math.prod(short) * operand.dtype.itemsize < min(_SHORTEST, operand.nbytes):
        least = math.isqrt(_PART * _SLAB * _SHORTEST * operand.nbytes)
        raise BudgetError(
            f"to reshape {operand.name} in that order takes a budget of about "
            f"{format_bytes(least)}",
            least,
        )
    nbytes = 0 if source is None else math.prod(source) * operand.dtype.itemsize
    limit = max(nbytes if nbytes <= most else 0, budget // _PART)
    return Moved.made(operand, view, Cuts(source, target, limit))


def longest_part(
    shape: Shape, axes: Sequence[int], room: int, units: Sequence[int] | None = None
) -> Shape:
    """A part of so many elements, at most, that is as long as it can be along the last axes.

    What cannot be taken in parts may make it larger.
    """
    units = units or (1,) * len(shape)
    extents = list(units)
    for axis in reversed(axes):
        unit = units[axis]
        most = room // max(math.prod(extents) // unit, 1)
        extents[axis] = min(shape[axis], max(most // unit * unit, unit))
        if extents[axis] < shape[axis]:
            break
    return tuple(extents)


def _count(slab: Shape, tile: Shape) -> int:
    """How many tiles a slab is in."""
    return math.prod(-(-n // t) for n, t in zip(slab, tile, strict=True))


def _is_within(tile: Shape, slab: Shape) -> bool:
    return all(a <= b for a, b in zip(tile, slab, strict=True))


def _run(shape: Shape, on_disk: Sequence[int], tile: Shape) -> int:
    """How many elements of a tile follow one another."""
    count = 1
    for axis in reversed(on_disk):
        count *= tile[axis]
        if tile[axis] < shape[axis]:
            break
    return count
