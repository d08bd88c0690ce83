"""Into which tiles the arrays of an expression are cut."""

import math
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from enum import Enum, auto

from outcrop.arrays.stored import StoreSource
from outcrop.arrays.views import NewAxis, View
from outcrop.expressions.graph.gathers import Alias, Join, Mosaic, Select, Take
from outcrop.expressions.graph.matrices import MatrixOperation, SomeColumns, straight
from outcrop.expressions.graph.merge_runs import Collect
from outcrop.expressions.graph.nodes import Contract, Expanded, Leaf, Lines, Map, Node, Reduce, Scan
from outcrop.expressions.graph.phases import Phase
from outcrop.expressions.graph.points import Points
from outcrop.expressions.graph.reshape import Reshape
from outcrop.expressions.graph.retile import Moved, Refolded
from outcrop.expressions.tiling.axes import Axes, Tiling
from outcrop.expressions.tiling.disk_order import slowness, whole
from outcrop.expressions.tiling.matrix_tiles import factored_with_pivots, wanted_extents
from outcrop.expressions.tiling.parts import RUN, equal_part
from outcrop.process.config import memory_budget

__all__ = ["Prefer", "cut", "other_sizes", "sizes"]

_SIZES = (8 << 20, 2 << 20, 512 << 10, 128 << 10, 32 << 10)
"""Bytes of tiles that are tried, at most."""

_WIDE = 24
"""What part of the budget a tile may have that is not cut further, as that would cost passes."""

_WIDER = (3, 6, 12)
"""What part a tile may have where that would be read again and again otherwise."""

_SMALL = 4
"""How many times as large as a small matrix a tile may be."""

_BLOCK = 4096
"""Bytes of a block of the disk."""


class Prefer(Enum):
    """What is cut first where there is a choice, and what is rather not cut."""

    USUAL = auto()
    WHOLE_TILES = auto()
    """What is stored in tiles is cut into whole ones, however large they are."""
    FEW_LINES = auto()
    """Parts of stored tiles are taken along one line before another one is cut."""
    WHOLE_PRODUCTS = auto()
    """Products of which memory has room are not cut: what is summed over is."""


def sizes(budget: int) -> list[tuple[int, int]]:
    """Bytes of tiles to try, of plain and of wide ones: the first with which it can be done.

    Where the right size does not do, smaller ones come before larger ones, of which there are fewer
    to keep account of. Neither threads nor the speed of the disk decide: tiles are seen in the last
    bits of sums.
    """
    plain = [n for n in _SIZES if n * 12 <= budget] or [_SIZES[-1]]
    larger = [n for n in reversed(_SIZES) if n > plain[0]]
    return [(plain[0], max(budget // _WIDE, plain[0])), *((n, n) for n in plain + larger)]


def other_sizes(budget: int) -> list[tuple[int, int]]:
    """Bytes of tiles, of plain and of wide ones, to try where the usual ones are read again."""
    (plain, wide), *smaller = sizes(budget)
    wider = [(plain, budget // part) for part in _WIDER if budget // part > wide]
    return wider + [limit for limit in smaller if limit[0] <= plain]


def cut(
    nodes: Sequence[Node],
    wanted: Sequence[tuple[Node, tuple[int, ...] | None]],
    nbytes: int,
    wide: int,
    short: Sequence[tuple[Node, int, int]] = (),
    taken: Sequence[Leaf] = (),
    prefer: Prefer = Prefer.USUAL,
) -> Tiling:
    """Cut what is too large for a tile.

    Parameters
    ----------
    nodes : sequence of Node
        All that there is, operands first.
    wanted : sequence of tuple
        What is stored, with the shape of its tiles where that is given.
    nbytes : int
        Of a tile, at most.
    wide : int
        Of a tile that would have to be cut along a second line, at most, and of a product that is
        smaller than its factors. Where rows are whole, sums along them and of them are made in one
        pass; where a product is whole, its factors are read once.
    short : sequence of tuple, optional
        Nodes, an axis of each, and how many indices their tiles have along it, at most.
    taken : sequence of Leaf, optional
        What is cut into whole tiles on disk, however large they are.
    prefer : Prefer, optional
        What is cut first.
    """
    axes = Axes(nodes)
    tiling = Tiling(axes)
    cuts = tiling.cuts

    # What is computed from whole lines has these, and whatever runs along with them, in one tile.
    uncut = {
        own
        for node in nodes
        if isinstance(node, Lines)
        for one in (node, *node.operands)
        for axis in node.axes
        for own in axes.alike(axes.of(one)[axis])
    }
    if prefer is Prefer.WHOLE_PRODUCTS:
        # Of all that is stored, each tile is then taken once for them.
        room = memory_budget() // _WIDER[0]
        whole_products = [n for n in nodes if isinstance(n, Contract) and n.nbytes <= room]
        uncut |= {
            own for node in whole_products for line in axes.of(node) for own in axes.alike(line)
        }

    def shorten(line: int, extent: int) -> None:
        # Where it is no longer than that, another one that is cut alike may be.
        for own in axes.alike(line):
            if extent < tiling.extent(own) and own not in uncut:
                cuts[own] = max(extent, 1)

    # Tiles that there are, and those of results, which are stored whole.
    natural: dict[int, int] = {}
    fixed = tiling.fixed
    for node, tile in wanted:
        if tile is not None:
            for line, extent in zip(axes.of(node), tile, strict=True):
                natural.setdefault(line, extent)
                fixed.add(line)
    stored = [
        n for n in nodes if isinstance(n, Leaf) and isinstance(n.source, StoreSource) and n.size
    ]
    # Of all that is stored in tiles, their extents.
    there_too: dict[int, set[int]] = {}
    for leaf in sorted(stored, key=lambda n: -n.nbytes):
        if leaf.source.layout != "tiled":
            continue
        for axis, line in enumerate(axes.of(leaf)):
            source = leaf.view.axes[axis]
            if not isinstance(source, NewAxis):
                extent = max(leaf.source.tile[source] // leaf.view.span(axis).step, 1)
                # What fits into a tile is cut with others, and need not be cut by itself.
                if leaf.nbytes > nbytes:
                    natural.setdefault(line, extent)
                if extent < leaf.shape[axis]:
                    there_too.setdefault(line, set()).add(extent)
    # What is made by a function has the tiles that it would have if it were stored, where nothing
    # that is stored runs along with it; of what is made by blocks, whole ones.
    blocks_made: dict[int, int] = {}
    with_stored = {own for leaf in stored for line in axes.of(leaf) for own in axes.alike(line)}
    for leaf in (n for n in nodes if isinstance(n, Leaf) and n.source.layout == "function"):
        lines = axes.of(leaf)
        for axis, line in enumerate(lines):
            blocks_made[line] = max(blocks_made.get(line, 1), leaf.grain(axis))
            source = leaf.view.axes[axis]
            if (
                leaf.nbytes > nbytes
                and with_stored.isdisjoint(lines)
                and not isinstance(source, NewAxis)
            ):
                natural.setdefault(line, leaf.source.tile[source])
    # What is gathered from tiles takes elements of few of them where it is cut as they are.
    for node in nodes:
        if not isinstance(node, Select):
            continue
        (operand,) = node.operands
        for axis, line in enumerate(axes.of(node)):
            source = node.view.axes[axis]
            if isinstance(source, NewAxis):
                continue
            if isinstance(operand, Moved) and operand.cuts.target is not None:
                own = operand.cuts.target[source]
            elif isinstance(operand, Leaf) and operand.source.layout == "tiled":
                own = whole(operand, source)
            else:
                continue
            natural.setdefault(line, max(own // abs(node.view.span(axis).step), 1))
    apart = _joined(nodes, axes, nbytes)
    for line, extent in apart.items():
        natural.setdefault(line, extent)
    for node in nodes:
        if isinstance(node, Alias) and isinstance(node.operands[0], Leaf):
            # A copy has parts of the tiles that it is copied from.
            for axis, line in enumerate(axes.of(node)):
                if node.operands[0].source.layout == "tiled":
                    natural.setdefault(line, whole(node.operands[0], axis))
    for alike in axes.classes():
        units = [natural[line] for line in alike if line in fixed]
        if units:
            # Whole tiles of all results.
            unit = min(math.lcm(*units), max(axes.extents[alike[0]], 1))
            natural.update(dict.fromkeys(alike, unit))
            fixed.update(alike)
    # Rows of a file that are whole blocks of the disk together.
    blocks: dict[int, int] = {}
    for leaf in sorted(stored, key=lambda n: -n.nbytes):
        if leaf.source.layout == "row-major" and leaf.ndim and leaf.view.is_box:
            row = leaf.nbytes // leaf.shape[0]
            blocks.setdefault(axes.of(leaf)[0], _BLOCK // math.gcd(row, _BLOCK))
    products = [
        set(axes.of(node))
        for node in nodes
        if isinstance(node, Contract) and node.nbytes < max(o.nbytes for o in node.operands)
    ]
    there = {id(node) for node in nodes}
    for node, axis, extent in short:
        if id(node) in there:
            shorten(axes.of(node)[axis], extent)
    # Bytes that tiles may have along some lines, beyond those of others.
    larger: dict[int, int] = {}
    for operation in (n for n in nodes if isinstance(n, MatrixOperation)):
        is_small = max(o.nbytes for o in (operation, *operation.operands)) * _SMALL <= nbytes
        if (
            is_small
            and not isinstance(operation, SomeColumns)
            and any(straight(operand) is None for operand in operation.operands)
        ):
            # In one step; what it is made of is not cut for it.
            continue
        for (matrix, axis), extent in wanted_extents(operation):
            own = axes.of(matrix)[axis]
            if own in fixed:
                extent = -(-extent // natural[own]) * natural[own]
            elif own in natural and straight(matrix) is None:
                # As what it is made of lies on disk.
                unit = natural[own]
                extent = extent // unit * unit if extent >= unit else equal_part(unit, extent)
            else:
                natural.update(dict.fromkeys(axes.alike(own), extent))
            shorten(own, extent)
        for node in (operation, *operation.operands):
            for own in axes.of(node):
                larger[own] = max(larger.get(own, 0), tiling.tile_bytes(node))
    for leaf in (n for n in taken if id(n) in there):
        units = [min(whole(leaf, axis), n) for axis, n in enumerate(leaf.shape)]
        for own, extent in zip(axes.of(leaf), units, strict=True):
            shorten(own, extent)
            larger[own] = max(larger.get(own, 0), math.prod(units) * leaf.dtype.itemsize)
    # What is made of whole tiles on disk is cut as they are: one after the other is loaded.
    for node in nodes:
        if not isinstance(node, Refolded) or (held := node.cuts.source) is None:
            continue
        for source, axis in node.unchanged():
            if held[source] < node.shape[axis]:
                own = axes.of(node)[axis]
                shorten(own, natural.setdefault(own, held[source]))
    # What is sorted or moved: the larger its tiles, the fewer there are of temporary ones.
    for moving in (n for n in nodes if isinstance(n, Collect | Moved | Refolded)):
        for node, tile in moving.tiles():
            for own, extent in zip(axes.of(node), tile, strict=True):
                unit = natural[own] if own in fixed else 1
                shorten(own, max(extent // unit * unit, unit))
                larger[own] = max(larger.get(own, 0), moving.limit)
    for node in sorted(nodes, key=lambda n: -n.nbytes):
        lines = axes.of(node)
        most = max([nbytes, *(larger[own] for own in lines if own in larger)])
        while tiling.loaded_bytes(node) > most:
            kept = natural if prefer is Prefer.WHOLE_TILES else fixed
            free = [None if own in uncut else own for own in lines]
            chosen = _which(node, free, tiling, natural, kept, apart, blocks_made, prefer)
            if chosen is None:
                break
            line = chosen
            is_second = line not in cuts and any(other in cuts for other in lines)
            is_product = any(product.issuperset(lines) for product in products)
            if (is_second or is_product) and tiling.loaded_bytes(node) <= wide:
                break
            excess = tiling.loaded_bytes(node) / most
            extent = max(int(tiling.extent(line) / excess), 1)
            given = natural.get(line)
            if given is not None and extent >= given:
                extent = _whole_tiles(extent, given, there_too.get(line, ()))
            elif given is not None and tiling.extent(line) > given:
                # A tile is read whole, however little of it is of use: other lines first.
                extent = given
            elif given is not None:
                extent = equal_part(given, extent)
            together = blocks.get(line, 1)
            if given is None and extent >= together:
                extent = extent // together * together
            made = blocks_made.get(line, 1)
            if line not in fixed and tiling.extent(line) > made:
                extent = max(extent // made, 1) * made
            shorten(line, extent)
    for line, made in blocks_made.items():
        if line not in fixed and made < (extent := cuts.get(line, 0)):
            shorten(line, extent // made * made)
    _square(tiling, nodes, [leaf for leaf in stored if leaf.source.layout != "tiled"], fixed, wide)
    gathered = [n for n in nodes if isinstance(n, Select) and n.size]
    _square_pairs(tiling, [*stored, *gathered], natural, fixed)
    _cut_alike(tiling, nodes, fixed)
    for alike in axes.classes():
        # What is shorter than that stays whole.
        if extents := [cuts[line] for line in alike if line in cuts]:
            cuts.update(dict.fromkeys(alike, min(extents)))
    _whole_squares(tiling, nodes, natural, fixed)
    tiling.cuts = {
        line: n for line, n in cuts.items() if n < axes.extents[line] and line not in uncut
    }
    return tiling


def _whole_squares(
    tiling: Tiling, nodes: Sequence[Node], natural: dict[int, int], fixed: set[int]
) -> None:
    """Cut what is factored with pivots into tiles of whole squares, one below the other.

    There is one on the diagonal in each column of tiles. A single row or column of them may be as
    it is.
    """
    axes, cuts = tiling.axes, tiling.cuts
    factored = [
        matrix
        for node in nodes
        if isinstance(node, MatrixOperation) and (matrix := factored_with_pivots(node)) is not None
    ]
    before = None
    while before != cuts:
        before = dict(cuts)
        for matrix in factored:
            rows, columns = axes.of(matrix)
            high, wide = tiling.extent(rows), tiling.extent(columns)
            is_one_column = wide >= axes.extents[columns] and high >= wide
            if high >= axes.extents[rows] or is_one_column or high % wide == 0:
                continue
            if rows in fixed:
                line, extent = rows, math.lcm(natural[rows], wide)
            elif high >= wide:
                line, extent = rows, high // wide * wide
            elif columns in fixed:
                line, extent = rows, wide
            else:
                line, extent = columns, high
            cuts.update(dict.fromkeys(axes.alike(line), extent))


def _whole_tiles(extent: int, tile: int, others: Collection[int]) -> int:
    """As many tiles as there is room for; a few less, if these fit those of others."""
    most = extent // tile
    for n in range(most, most // 2, -1):
        if all(other % (n * tile) == 0 or n * tile % other == 0 for other in others):
            return n * tile
    return most * tile


def _joined(nodes: Sequence[Node], axes: Axes, nbytes: int) -> dict[int, int]:
    """The lines along which arrays are joined that are smaller than a tile, and their extents.

    Cut between them, a tile takes few of them, whole, and one that lies across takes part of all.
    """
    found: dict[int, int] = {}
    for node in nodes:
        if isinstance(node, Join) and all(operand.nbytes <= nbytes for operand in node.operands):
            extent = max(operand.shape[node.axis] for operand in node.operands)
            line = axes.of(node)[node.axis]
            found[line] = max(found.get(line, 1), extent)
    return found


def _square(
    tiling: Tiling, nodes: Sequence[Node], flat: Sequence[Leaf], fixed: set[int], nbytes: int
) -> None:
    """Cut files that run across each other, as in ``A + A.T``, along both lines alike.

    Where tiles are the rows of one file, they are columns of the other, and each block of that is
    read for every few of its elements.
    """
    axes, cuts = tiling.axes, tiling.cuts
    fastest = {
        id(leaf): axes.of(leaf)[max(range(leaf.ndim), key=lambda axis: slowness(leaf, axis))]
        for leaf in flat
        if leaf.ndim > 1
    }
    for leaf in flat:
        line = fastest.get(id(leaf))
        if line not in cuts or line in fixed:
            continue
        if tiling.extent(line) * leaf.dtype.itemsize >= RUN:
            continue
        across = [fastest[id(o)] for o in flat if id(o) in fastest and line in axes.of(o)]
        other = next((own for own in across if own != line and own not in fixed), None)
        if other is None:
            continue
        concerned = [n for n in nodes if {line, other} <= set(axes.of(n))]
        side = math.isqrt(nbytes // max(n.dtype.itemsize for n in concerned))
        before = dict(cuts)
        for own in (line, other):
            cuts[own] = min(side, axes.extents[own])
        for node in concerned:
            for own in axes.of(node):
                excess = -(-tiling.tile_bytes(node) // nbytes)
                if excess > 1 and own not in (line, other) and own not in fixed:
                    cuts[own] = max(tiling.extent(own) // excess, 1)
        # What has one of the lines alone may be too large for it.
        if any(tiling.tile_bytes(n) > nbytes for n in nodes if {line, other} & set(axes.of(n))):
            cuts.clear()
            cuts.update(before)


def _square_pairs(
    tiling: Tiling, views: Sequence[Leaf | Select], natural: dict[int, int], fixed: set[int]
) -> None:
    """Cut tiles of an array and of its transpose alike: each is loaded once for both, then."""
    own: dict[int, list[int]] = {}
    for view in views:
        lines = [line for line in tiling.source_lines(view) if line is not None]
        viewed = view.source if isinstance(view, Leaf) else view.operands[0]
        known = own.setdefault(id(viewed), lines)
        if len(lines) != 2 or known != lines[::-1] or known == lines:
            continue
        unit = natural.get(lines[0], 1)
        if unit != natural.get(lines[1], 1) or fixed.intersection(lines):
            continue
        if all(line not in tiling.cuts for line in lines):
            continue
        side = math.isqrt(math.prod(tiling.extent(line) for line in lines))
        if side < unit:
            tiling.cuts.update(dict.fromkeys(lines, equal_part(unit, side)))
            continue
        # As even as so many tiles can be: what the last ones have beyond the array is stored, too.
        longest = max(tiling.axes.extents[line] for line in lines)
        even = -(-longest // -(-longest // (side // unit * unit)))
        tiling.cuts.update(dict.fromkeys(lines, -(-even // unit) * unit))


def _cut_alike(tiling: Tiling, nodes: Sequence[Node], fixed: set[int]) -> None:
    """Cut both factors of ``X.T @ X`` alike, where they are stored: each tile serves as either."""
    cuts = tiling.cuts
    for node in nodes:
        if not isinstance(node, Contract):
            continue
        one, other = node.operands
        if not (isinstance(one, Leaf) and isinstance(other, Leaf)):
            continue
        if one.source is not other.source or one.ndim != other.ndim:
            continue
        for pair in zip(tiling.source_lines(one), tiling.source_lines(other), strict=True):
            lines = [line for line in pair if line is not None]
            if any(line in cuts for line in lines) and not fixed.intersection(lines):
                cuts.update(dict.fromkeys(lines, min(map(tiling.extent, lines))))


def _which(
    node: Node,
    lines: Sequence[int | None],
    tiling: Tiling,
    natural: dict[int, int],
    fixed: Container[int],
    apart: Container[int],
    blocks: Mapping[int, int],
    prefer: Prefer,
) -> int | None:
    """The line to be cut (further) of those given for the axes; None where there is none.

    `blocks` are the extents of what is made by blocks: a part of one takes all of it.
    """
    scan = node.axis if isinstance(node, Scan) else None
    open_lines = [
        (axis, line)
        for axis, line in enumerate(lines)
        if line is not None and tiling.extent(line) > (natural[line] if line in fixed else 1)
    ]
    if not open_lines:
        return None

    def rank(item: tuple[int, int]) -> tuple[int, ...]:
        axis, line = item
        if prefer is Prefer.FEW_LINES and line in tiling.cuts and axis != scan:
            return ()
        is_block = 1 < tiling.extent(line) <= blocks.get(line, 1)
        below = tiling.extent(line) <= natural.get(line, 0)
        across = not _follows(node, axis, tiling)
        slow = -1 if line in apart else slowness(node, axis)
        return (is_block, below, axis == scan, line not in tiling.cuts, across, slow)

    return min(open_lines, key=rank)[1]


def _follows(node: Node, axis: int, tiling: Tiling) -> bool:
    """Whether what a node is gathered from is cut along an axis of its own.

    A tile that lies across takes elements from all of those tiles.
    """
    for operand, view in _viewed[type(node)](node):
        source = view.axes[axis]
        if not isinstance(source, NewAxis) and tiling.axes.of(operand)[source] in tiling.cuts:
            return True
    return False


_viewed: Phase[[], Iterable[tuple[Node, View]]] = Phase(
    "the operands of which a node takes views, wherever its own tiles are, and these"
)


@_viewed.of(Select, Moved, Mosaic)
def _of_views(node: Select | Mosaic) -> Iterable[tuple[Node, View]]:
    return zip(node.operands, node.views, strict=True)


@_viewed.of(Leaf, Map, Expanded, Reduce, Contract, Scan, Lines, MatrixOperation)
@_viewed.of(Alias, Join, Take, Points, Reshape, Refolded, Collect)
def _of_none(node: Node) -> Iterable[tuple[Node, View]]:
    return ()
