"""Rows in any order: one by one, or sorted, where much would be read again and again otherwise.

Rows that a tile of the result needs may lie anywhere in the operand, in as many tiles as it has.
Long rows of a file are read by themselves. Others are moved twice, through temporary tiles: first
each tile of the operand is sorted by where its rows go, into short tiles of a temporary array, and
then each tile of the result collects, from each of those sorted runs, the rows that are its own,
which lie side by side. So everything is read twice, and no more often.
"""

import math
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outcrop.arrays.source import MemorySource
from outcrop.arrays.stored import StoreSource
from outcrop.arrays.views import NewAxis, View
from outcrop.errors import BudgetError, forget_frames
from outcrop.expressions.graph.gathers import Alias, Take
from outcrop.expressions.graph.indices import Listed
from outcrop.expressions.graph.merge_runs import Collect, Runs
from outcrop.expressions.graph.nodes import Leaf, Map, Node, Shape, ancestors
from outcrop.expressions.graph.points import Points
from outcrop.expressions.graph.reshape import Reshape
from outcrop.expressions.graph.retile import Moved, Refolded
from outcrop.expressions.rewrite.reshape_by_slabs import in_order, tiles_taken, views_apart
from outcrop.expressions.tiling.axes import Tiling
from outcrop.expressions.tiling.disk_order import whole
from outcrop.process.sizes import format_bytes

__all__ = ["Taking", "ways"]

_PART = 12
"""What part of the budget a tile of the operand, or of the result, may have: one is used while
the next one is loaded, and the temporary tiles of a result are as large as the result together."""

_COLLECTED = 4
"""What part of the budget the temporary tiles may have that a tile of the result is made of."""

_HELD = 3
"""What part of the budget a tile on disk may have that places are in: there are two at once."""

_SHORT = 64 << 10
"""Bytes of a temporary tile, where there is room."""

_BLOCK = 4096
"""Bytes of a block of the disk, the shortest temporary tile."""

_LONG = 8 << 10
"""Bytes of a row that is read by itself nearly as fast as in the middle of others."""

_BETTER = 1.5
"""How many times as much is read otherwise, at least, where rows are read one by one."""

_MOST = 50_000
"""How many tiles are looked up one after the other, at most, where there is no room to sort."""

_PATIENCE = 20
"""How many times as much as there is may be read, where there is no room to sort."""

_AT_ONCE = 1 << 20
"""Indices that are looked at at once."""


@dataclass(frozen=True)
class Taking:
    """How rows are taken, and shapes changed.

    Attributes
    ----------
    roots : list of Node
        What is computed.
    short : list of tuple
        Nodes, an axis of each, and how many indices their tiles have along it.
    most : int, optional
        Bytes that may be read: with more memory there is a better way.
    error : BudgetError, optional
        What says so.
    whole : sequence of Leaf, optional
        Of what tiles on disk are taken whole.
    """

    roots: list[Node]
    short: list[tuple[Node, int, int]]
    most: int = sys.maxsize
    error: BudgetError | None = None
    whole: Sequence[Leaf] = ()


def ways(roots: Sequence[Node], tiling: Tiling, budget: int) -> list[Taking]:
    """How rows are taken and shapes changed, the best way first: others take less memory.

    As they come, the last way, is missing where that takes very many tiles one after the other.
    """
    found = _ways(roots, tiling, budget, holds=True)
    best = found[0]
    holding = any(isinstance(node, Refolded | Moved) for node in ancestors(best.roots))
    if holding or best.whole:
        found[1:] = _ways(roots, tiling, budget, holds=False)
    if (apart := views_apart(best.roots, budget)) is not best.roots:
        found.insert(0, replace(best, roots=apart))
    return found


def _ways(roots: Sequence[Node], tiling: Tiling, budget: int, *, holds: bool) -> list[Taking]:
    """How rows are taken and shapes changed: such that little is read, or else as they come.

    Parameters
    ----------
    roots : sequence of Node
        What is computed.
    tiling : Tiling
        Into which tiles it is cut otherwise.
    budget : int
        Bytes of memory.
    holds : bool
        Whether tiles on disk may take much of it.

    Raises
    ------
    BudgetError
        There are so many rows, all over the place, that even sorting would read them again and
        again.
    """
    nodes = ancestors(roots)
    uses = Counter(id(operand) for node in nodes for operand in node.operands)
    cut = _cut_by_others(nodes)
    made: dict[int, Node] = {}
    short: list[tuple[Node, int, int]] = []
    wholes: list[Leaf] = []
    error: BudgetError | None = None
    count = 0
    for node in nodes:
        made[id(node)] = now = node.with_operands([made[id(o)] for o in node.operands])
        if isinstance(now, Points) and now.size:
            if _are_in_few_rows(now):
                own = _own(now.operands[0], uses)
                made[id(node)] = now = Points.of(own, now.places)
                fastest = own.view.axes.index(len(own.view.selectors) - 1)
                short += [(own, axis, 1) for axis in range(own.ndim) if axis != fastest]
                tile = tuple(n if axis == fastest else 1 for axis, n in enumerate(own.shape))
            elif holds and _is_in_tiles(now.operands[0], budget // _HELD):
                own = _own(now.operands[0], uses)
                made[id(node)] = now = Points.of(own, now.places)
                wholes.append(own)
                tile = tuple(min(whole(own, axis), n) for axis, n in enumerate(own.shape))
            else:
                tile = tiling.tile(node.operands[0])
            short.append((now, 0, _at_once(now, tile, budget)))
            continue
        is_cut = isinstance(node, Refolded)
        if isinstance(node, Reshape) and isinstance(now, Reshape) and node.size and not is_cut:
            try:
                made[id(node)], shorter = in_order(
                    node,
                    now.operands[0],
                    tiling,
                    budget,
                    is_shared=uses[id(now.operands[0])] > 1,
                    is_free=id(node) not in cut,
                    holds=holds,
                )
                short += shorter
                if made[id(node)].operands != now.operands:
                    count += tiles_taken(node, tiling)
            except BudgetError as caught:
                forget_frames(caught)
                error = caught
                count += tiles_taken(node, tiling)
            continue
        if not isinstance(node, Take) or not isinstance(now, Take) or not node.size:
            continue
        rows = _Rows.of_node(now, tiling.tile(node), tiling.tile(node.operands[0]))
        if rows is None:
            continue
        reads = rows.reads()
        if rows.are_long(reads, budget):
            own = _own(rows.operand, uses)
            made[id(node)] = now.with_operands([own])
            short.append((own, now.axis, 1))
        elif rows.are_read_again(reads, budget):
            count += reads.all
            try:
                made[id(node)] = rows.sorted(budget)
            except BudgetError as caught:
                forget_frames(caught)
                error = caught
    stored = [n for n in nodes if isinstance(n, Leaf) and isinstance(n.source, StoreSource)]
    most = _PATIENCE * sum(leaf.nbytes * _spread(leaf) for leaf in stored)
    as_they_come = [Taking(list(roots), [], most, error)] if count <= _MOST else []
    if error is not None:
        if not as_they_come:
            raise error
        return as_they_come
    best = Taking([made[id(node)] for node in roots], short, whole=wholes)
    differs = bool(short) or any(a is not b for a, b in zip(best.roots, roots, strict=True))
    return [best, *as_they_come] if differs else [Taking(list(roots), [])]


def _cut_by_others(nodes: Sequence[Node]) -> set[int]:
    """What is made something else of than functions of elements, which would have it cut so."""
    found: set[int] = set()
    for node in reversed(nodes):
        if not isinstance(node, Map) or id(node) in found:
            found.update(map(id, node.operands))
    return found


def _own(node: Node, uses: Mapping[int, int]) -> Leaf:
    """What is stored, for one node alone: others need it in other tiles."""
    own = node if uses[id(node)] == 1 else Alias.of(node)
    assert isinstance(own, Leaf)
    return own


def _is_in_tiles(node: Node, room: int) -> bool:
    """Whether it lies in tiles on disk which memory has room for."""
    if not isinstance(node, Leaf) or not isinstance(node.source, StoreSource):
        return False
    units = [min(whole(node, axis), n) for axis, n in enumerate(node.shape)]
    nbytes = math.prod(units) * node.dtype.itemsize * _spread(node)
    return node.source.layout == "tiled" and nbytes <= room


def _are_in_few_rows(node: Points) -> bool:
    """Whether places are in few of the rows of a file, which are rather read one by one."""
    (leaf,), places = node.operands, node.places
    if not isinstance(leaf, Leaf) or not isinstance(leaf.source, StoreSource):
        return False
    last = len(leaf.view.selectors) - 1
    if leaf.source.layout != "row-major" or last not in leaf.view.axes or not leaf.view.is_box:
        return False
    fastest = leaf.view.axes.index(last)
    slow = [own for a, own in zip(places.axes, places.indices, strict=True) if a != fastest]
    count = math.prod(leaf.shape[a] for a in node.rest if a != fastest)
    if slow:
        order = np.lexsort(slow)
        changes = np.any([np.diff(own[order]) != 0 for own in slow], axis=0)
        count *= int(np.count_nonzero(changes)) + 1
    row = leaf.shape[fastest] * leaf.dtype.itemsize + _BLOCK
    return count <= _MOST and count * row < leaf.nbytes / _BETTER


def _at_once(node: Points, tile: Shape, budget: int) -> int:
    """How many places a tile of the result may have: there is memory for all that they are in."""
    operand, places = node.operands[0], node.places
    nbytes = math.prod(tile) * operand.dtype.itemsize * _spread(operand)
    # Of two tiles there are places wherever one is done and the next one begins.
    most = max(budget // _COLLECTED // nbytes, 2)
    counts = [-(-operand.shape[a] // tile[a]) for a in places.axes]
    blocks = [own // tile[a] for a, own in zip(places.axes, places.indices, strict=True)]
    numbers = np.ravel_multi_index(blocks, counts)
    count = len(numbers)
    while count > 1:
        # They come in the order of tiles on disk, which need not be cut as these are.
        pairs = np.unique(np.arange(len(numbers)) // count * math.prod(counts) + numbers)
        if np.bincount(pairs // math.prod(counts)).max() <= most:
            break
        count = -(-count // 2)
    return count


@dataclass(frozen=True)
class _Reads:
    """How many tiles are read, where the result is made tile by tile."""

    all: int
    """The same one again for each tile of the result."""
    different: int
    at_once: int
    """For one tile of the result, at most."""


@dataclass(frozen=True)
class _Rows:
    """What is taken along an axis that is cut: rows, whatever axis that is."""

    operand: Node
    indices: NDArray[np.int64]
    axis: int
    tile: Shape
    """Of the result, as it is cut otherwise."""
    of: int
    """How many rows a tile of the operand has, as it is cut otherwise."""
    nbytes: int
    """Of a row, as far as it is in a tile."""
    source: int
    """Of a row in the operand, with what a view of it leaves out."""

    @classmethod
    def of_node(cls, node: Take, tile: Shape, source: Shape) -> "_Rows | None":
        """Those of a node; None where there is nothing to do."""
        (operand,), axis, indices = node.operands, node.axis, node.indices
        in_memory = isinstance(operand, Leaf) and isinstance(operand.source, MemorySource)
        if in_memory or not isinstance(indices, Listed):
            return None
        # A tile is read whole, however little of it is of use.
        wholes = [min(whole(operand, a), n) for a, n in enumerate(operand.shape)]
        tile = tuple(n if a == axis else max(n, wholes[a]) for a, n in enumerate(tile))
        of = max(source[axis], wholes[axis])
        nbytes = max(math.prod(tile) // tile[axis] * node.dtype.itemsize, 1)
        together = nbytes * _spread(operand)
        return cls(operand, indices.values, axis, tile, of, nbytes, together)

    def reads(self, of: int | None = None) -> "_Reads":
        """What is read, tile by tile, where a tile of the operand has so many rows."""
        of, to = of or self.of, self.tile[self.axis]
        count = -(-self.operand.shape[self.axis] // of)
        used = np.zeros(count, bool)
        total = at_once = 0
        # Tile by tile of the result, but for short ones many at once.
        step = max(_AT_ONCE // to, 1) * to
        for at in range(0, len(self.indices), step):
            sources = self.indices[at : at + step] // of
            used[sources] = True
            pairs = np.unique(np.arange(len(sources)) // to * count + sources)
            total += len(pairs)
            at_once = max(at_once, int(np.bincount(pairs // count).max()))
        return _Reads(total, int(np.count_nonzero(used)), at_once)

    def bytes_read(self, reads: "_Reads", budget: int) -> int:
        """Bytes of the tiles that are read, tile by tile."""
        nbytes = self.of * self.source
        fits = reads.different * nbytes <= budget // 2
        return (reads.different if fits else reads.all) * nbytes

    def are_long(self, reads: "_Reads", budget: int) -> bool:
        """Whether the rows are rather read one by one."""
        if self.nbytes < _LONG or not _is_slowest(self.operand, self.axis):
            return False
        one_by_one = self.reads(1).all * (self.source + _BLOCK)
        return one_by_one < self.bytes_read(reads, budget) / _BETTER

    def are_read_again(self, reads: "_Reads", budget: int) -> bool:
        """Whether they are rather sorted: because much is read again, or needed at once."""
        nbytes = self.of * self.source
        if reads.at_once * nbytes > budget // 2:
            return True
        # Sorted, rows are written once more, and read.
        sorting = reads.different * nbytes + 2 * len(self.indices) * self.nbytes
        return self.bytes_read(reads, budget) > sorting

    def sorted(self, budget: int) -> Node:
        """What sorts them."""
        rows, tile = self.operand.shape[self.axis], whole(self.operand, self.axis)
        room = budget // _PART
        together = max(room // self.source // tile * tile, tile)
        runs = -(-rows // together)
        most = budget // _COLLECTED // runs
        if most < _BLOCK:
            # The longer runs are, the fewer; a tenth is for runs of whole rows.
            least = math.isqrt(_PART * _COLLECTED * _BLOCK * rows * self.source) * 11 // 10
            raise BudgetError(
                f"{len(self.indices)} rows of {self.operand.name} in that order are all over the "
                f"place: to sort them takes a budget of about {format_bytes(least)}",
                least,
            )
        collected = max(min(room // self.nbytes, len(self.indices)), 1)
        short = max(room // runs, min(_SHORT, most)) // _BLOCK * _BLOCK
        between = max(short // self.nbytes, 1)
        group = self.indices // together
        # A stable sort of short numbers takes one look at each of their digits.
        order = np.argsort(group.astype(np.min_scalar_type(runs)), kind="stable")
        count, lengths = len(order), np.bincount(group, minlength=runs)
        padded = -(-lengths // between) * between
        starts = np.concatenate([[0], np.cumsum(padded)])
        place = np.repeat(starts[:-1] - np.cumsum(lengths) + lengths, lengths) + np.arange(count)
        # Where they come from and where they go, in as little memory as may be.
        sources = np.repeat(np.arange(runs) * together, padded).astype(_integers(rows))
        sources[place] = self.indices[order]
        position = np.full(len(sources), count, _integers(count))
        position[place] = order
        taken = Take.of(self.operand, Listed(sources), self.axis)
        extents = together, between, collected
        limit = max(room, together * self.nbytes)
        sorting = Runs(count, position, starts, self.tile, extents, limit)
        return Collect.of(taken, sorting, self.axis)


def _integers(most: int) -> type[np.signedinteger[Any]]:
    """A type for numbers up to this one."""
    return np.int32 if most < 2**31 else np.int64


def _spread(node: Node) -> int:
    """How many elements are read for each one of a view with steps."""
    view = node.view if isinstance(node, Leaf) else View.whole(node.shape)
    steps = [abs(view.span(a).step) for a, s in enumerate(view.axes) if not isinstance(s, NewAxis)]
    return math.prod(steps)


def _is_slowest(node: Node, axis: int) -> bool:
    """Whether the elements at an index along the axis follow one another on disk."""
    return (
        isinstance(node, Leaf)
        and isinstance(node.source, StoreSource)
        and (node.source.layout, node.view.axes[axis])
        in (("row-major", 0), ("column-major", len(node.view.selectors) - 1))
    )
