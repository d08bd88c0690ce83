"""The steps of a group: one for each cell, and those that add up what they leave."""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any, TypeAlias

from numpy.typing import NDArray

from outcrop.arrays.views import NewAxis, View
from outcrop.expressions.graph.functions import seconds_per_element
from outcrop.expressions.graph.gathers import Alias, Gather, Select
from outcrop.expressions.graph.matrices import MatrixOperation
from outcrop.expressions.graph.nodes import Contract, Expanded, Leaf, Lines, Map, Node, Reduce, Scan
from outcrop.expressions.graph.phases import Phase
from outcrop.expressions.graph.reshape import Reshape
from outcrop.expressions.kernels import native
from outcrop.expressions.kernels.gathered import Gathered, Ranges
from outcrop.expressions.kernels.tape import Tape
from outcrop.expressions.lower.gather_sources import Gathering, Room
from outcrop.expressions.lower.steps import (
    READ,
    UPDATE,
    WRITE,
    Kind,
    Size,
    Steps,
    arguments,
    operand,
)
from outcrop.expressions.lower.storage import Storage, Stored
from outcrop.expressions.lower.tree_reduction import Sum
from outcrop.expressions.tiling.axes import Tiling
from outcrop.expressions.tiling.fusion import Group, Grouping

__all__ = ["Pass"]

_GIGAFLOPS = 40e9
"""Operations in a second of products on one thread, roughly."""

_COMPARISON = 2e-9
"""Seconds for a comparison where lines are sorted, roughly."""


class Pass:
    """A pass over all cells of a group.

    Parameters
    ----------
    group : Group
        What is computed.
    tape : Tape
        What computes it, cell by cell.
    grouping : Grouping
        What else is computed, and how lines are cut.
    storage : Storage
        Where everything is.
    steps : Steps
        The program, which takes the steps.
    lines : sequence of int
        The lines of the group, the slowest first.
    backwards : bool
        Whether the last cell comes first.

    Attributes
    ----------
    backwards : bool
        The same.
    """

    def __init__(
        self,
        group: Group,
        tape: Tape,
        grouping: Grouping,
        storage: Storage,
        steps: Steps,
        *,
        lines: Sequence[int],
        backwards: bool,
    ) -> None:
        self._group, self._tape, self._storage = group, tape, storage
        self._tiling, self._steps = grouping.tiling, steps
        self._lines, self.backwards = lines, backwards
        self._scans = any(isinstance(node, Scan) for node in group.computed)
        self._scanned = [lines.index(line) for line in grouping.scanned(group)]
        self._gathering = [node for node in group.computed if isinstance(node, Gather)]
        self._work, seconds = _cost(group.computed)
        kind, rate = _kind(group.computed), self._work / max(seconds, 1e-12)
        looks = tuple(map(storage.look, (*group.inputs, *group.roots)))
        seen = [look.axes for look in looks]
        self._is_taped = native.IS_USED and tape.is_native and None not in seen
        if self._is_taped:
            key = (tape, tuple(seen))
            self._kernel = steps.tape(
                kind, rate, key, lambda: native.described(tape, looks), tape.room
            )
        else:
            self._kernel = steps.kernel(kind, rate)
        self._sums = {
            id(root): Sum(root, lines, self._tiling, storage, steps)
            for root in group.roots
            if (lines := grouping.sums(root))
        }

    @property
    def size(self) -> Size:
        """How large its steps are, what they gather not counted."""
        group = self._group
        cells = math.prod(self._tiling.count(line) for line in self._lines)
        each = len(group.roots) + len(group.inputs) + len(self._tape.scans)
        own = arguments(len(self._tape.cut) if self._is_taped else None, each)
        found = Size(cells, cells * each, cells * own)
        for total in self._sums.values():
            found = found.plus(total.size)
        return found

    @property
    def arrays(self) -> list[list[int]]:
        """The arrays that steps of each kind have tiles of."""
        group, storage = self._group, self._storage
        found = [storage.of(node) for node in (*group.roots, *group.inputs)]
        own = {stored.number for stored in found if stored is not None}
        return [sorted(own), *(total.arrays for total in self._sums.values())]

    @property
    def gathers(self) -> bool:
        """Whether steps take what they need from several tiles."""
        return bool(self._gathering)

    def emit(self, order: Iterable[tuple[int, ...]] | None = None) -> None:
        """Append the steps, in the order of the pass or in another one."""
        for _ in self.cells(order):
            pass

    def cells(self, order: Iterable[tuple[int, ...]] | None = None) -> Iterator[tuple[int, ...]]:
        """The cells in their order; the steps of each are appended when the next one is taken."""
        for cell in self.in_order() if order is None else order:
            yield cell
            self.append(cell)

    def append(self, cell: tuple[int, ...]) -> None:
        """Append the steps of a cell."""
        made, kernel = self._cells, self._kernel
        operands, own = made.operands(cell)
        work = self._work * made.share(cell)
        if self._is_taped:
            self._steps.add_taped(kernel, operands, work, made.parts(cell), own)
        else:
            self._steps.add(kernel, operands, work, partial(made.run, cell))
        if self._sums:
            at = dict(zip(self._lines, cell, strict=True))
            for root in self._group.roots:
                if total := self._sums.get(id(root)):
                    total.take(made.coords(root, at), total.part(at))

    def previous(self, cell: tuple[int, ...]) -> tuple[int, ...] | None:
        """The cell that has to come before, where there is a running sum along one line."""
        for place in self._scanned:
            if cell[place]:
                return (*cell[:place], cell[place] - 1, *cell[place + 1 :])
        return None

    @cached_property
    def _cells(self) -> "_Cells":
        return _Cells(
            self._group, self._tape, self._tiling, self._storage, self._lines, self._gathering
        )

    def left(self) -> list[tuple[Stored, list[int]]]:
        """The arrays that hold what it leaves, and which of the axes of each its lines are.

        Nothing that it leaves is summed up.
        """
        found = []
        for root in self._group.roots:
            stored, axes = self._storage.of(root), self._tiling.axes.of(root)
            assert stored is not None
            assert not self._sums
            found.append((stored, [axes.index(line) for line in self._lines]))
        return found

    def in_order(self) -> Iterator[tuple[int, ...]]:
        """The cells in their order: by blocks of those that have a stored tile in common."""
        blocks: list[list[range]] = []
        for line in self._lines:
            count, block = self._tiling.count(line), self._block(line)
            parts = [range(i, min(i + block, count)) for i in range(0, count, block)]
            turn = -1 if self.backwards else 1
            blocks.append([part[::turn] for part in parts[::turn]])
        if self._are_pairs(blocks):
            order = blocks[0]
            for a, one in enumerate(order):
                for other in order[a:]:
                    yield from _across(one, other)
            return
        if blocks and self._is_mirrored(self._lines[0]):
            blocks[0] = _from_both_ends(blocks[0])
        for parts_of_lines in itertools.product(*blocks):
            yield from itertools.product(*parts_of_lines)

    def _block(self, line: int) -> int:
        """How many cells along a line have stored tiles in common, at most."""
        axes, extent = self._tiling.axes, self._tiling.extent(line)
        found = 1
        for node in self._group.inputs:
            loaded = zip(axes.of(node), self._storage.loaded(node), strict=True)
            # What is one tile along the line is there for all cells, in any order.
            cells = (n // extent for own, n in loaded if own == line and n < axes.extents[line])
            found = max(found, *cells, 1)
        for node in self._gathering:
            if isinstance(node, Reshape) and line in axes.of(node):
                along = self._folded(node, axes.of(node).index(line))
                found = max(found, along // extent)
            if not isinstance(node, Select | Alias):
                continue
            whole = self._storage.loaded(node.operands[0])
            (view,) = node.views
            for own, source in zip(axes.of(node), view.axes, strict=True):
                if own == line and not isinstance(source, NewAxis):
                    found = max(found, whole[source] // extent)
        return found

    def _folded(self, node: Reshape, axis: int) -> int:
        """How far a tile of what is reshaped reaches along an axis of the result."""
        target = node.view.axes[axis]
        if isinstance(target, NewAxis):
            return 1
        loaded = self._storage.loaded(node.operands[0])
        for fold, source, first in node.axes():
            if first <= target < first + len(fold.target):
                faster = math.prod(fold.target[target - first + 1 :])
                own = range(source, source + len(fold.source))
                elements = 1
                # Behind an axis of which it has a part, it is in pieces.
                for one in reversed(own):
                    elements *= loaded[one]
                    if loaded[one] < node.operands[0].shape[one]:
                        break
                return min(elements // faster, fold.target[target - first])
        return 1

    def _is_mirrored(self, line: int) -> bool:
        """Whether the cells run along an array in both directions, so that they meet."""
        if self._scans:
            return False
        axes = self._tiling.axes
        forwards: dict[int, bool] = {}
        for node in (*self._group.inputs, *self._gathering):
            leaf, view = node, View.whole(node.shape)
            if isinstance(node, Select | Alias):
                ((leaf,), (view,)) = node.operands, node.views
            if not isinstance(leaf, Leaf) or line not in axes.of(node):
                continue
            axis = axes.of(node).index(line)
            source = view.axes[axis]
            if isinstance(source, NewAxis):
                continue
            is_forwards = (view.span(axis).step > 0) == (leaf.view.span(source).step > 0)
            if forwards.setdefault(id(leaf.source), is_forwards) != is_forwards:
                return True
        return False

    def _are_pairs(self, blocks: Sequence[Sequence[range]]) -> bool:
        """Whether the cells that lie across from each other take the same tiles, transposed."""
        if len(blocks) != 2 or blocks[0] != blocks[1] or self._scans:
            return False
        known: dict[int, list[int | None]] = {}
        for array, lines in self._taken_from():
            cut = [line for line in lines if line in self._lines]
            if known.setdefault(array, cut) == cut[::-1] != cut:
                return True
        return False

    def _taken_from(self) -> Iterator[tuple[int, Sequence[int | None]]]:
        """The arrays of which tiles are taken, by number, and which line runs along each axis."""
        for node in (*self._group.inputs, *self._gathering):
            if isinstance(node, Leaf | Select):
                stored = self._storage.of(node if isinstance(node, Leaf) else node.operands[0])
                if stored is not None:
                    yield stored.number, self._tiling.source_lines(node)


_Taken: TypeAlias = Sequence[tuple[Gathered, int]]
"""What is gathered, each with the place of its tile among a step's."""


class _Cells:
    """The tiles of each cell's step, and what is done with them."""

    def __init__(
        self,
        group: Group,
        tape: Tape,
        tiling: Tiling,
        storage: Storage,
        lines: Sequence[int],
        gathering: Sequence[Gather],
    ) -> None:
        self._tape, self._tiling, self._storage = tape, tiling, storage
        self._lines = lines
        self._gathering = [Gathering(node, tiling, storage) for node in gathering]
        self._room = Room(storage)
        own_arrays = [storage.of(node) for node in (*group.inputs, *group.roots)]
        self._arrays = [stored for stored in own_arrays if stored is not None]
        self._inputs = group.inputs
        self._held = [max(storage.cells(node), default=1) > 1 for node in group.inputs]
        self._ranges = [
            [tiling.range(line, i) for i in range(tiling.count(line))] for line in lines
        ]
        extents = [max(tiling.axes.extents[line], 1) for line in lines]
        self._shares = [
            [(high - low) / n for low, high in ranges]
            for ranges, n in zip(self._ranges, extents, strict=True)
        ]
        self._cut = [lines.index(line) for line in tape.cut]
        self._written = [storage.numbering(root, lines, in_parts=True) for root in group.roots]
        self._read = [storage.numbering(node, lines) for node in group.inputs]
        self._carried = [
            (storage.numbering_of_carry(scan, lines), lines.index(tiling.axes.of(scan)[scan.axis]))
            for scan in tape.scans
        ]
        self._looks = [
            *map(storage.look, (*group.inputs, *group.roots)),
            *map(storage.look_at_carry, tape.scans),
        ]

    def operands(self, cell: tuple[int, ...]) -> tuple[list[int], list[int]]:
        """The tiles of a step, and where among them those of the tape are."""
        operands, own, _ = self._step(cell, self._room)
        return operands, own

    def run(
        self, cell: tuple[int, ...], tiles: Sequence[NDArray[Any]], workspace: NDArray[Any]
    ) -> None:
        """Do a step that no tape does.

        What it gathers is worked out again: of many steps, it would take much memory, and most
        programs are only looked at.
        """
        _, own, taken = self._step(cell, None)
        values = [look(tiles[i]) for look, i in zip(self._looks, own, strict=True)]
        if any(self._held):
            at = dict(zip(self._lines, cell, strict=True))
            for i, node in enumerate(self._inputs):
                if self._held[i]:
                    values[i] = values[i][self._storage.inside(node, self.coords(node, at))]
        parts = [(piece, tiles[i]) for piece, i in taken]
        self._tape.run(self.ranges(cell), values, parts, workspace)

    def _step(
        self, cell: tuple[int, ...], room: Room | None
    ) -> tuple[list[int], list[int], _Taken]:
        """The tiles of a step; where among them those of the tape are; and what is gathered.

        Where `room` is given, all of these have to have room.
        """
        operands: list[int] = []
        places: dict[int, int] = {}

        def place(tile: int, access: int) -> int:
            found = places.get(tile)
            if found is None:
                found = places[tile] = len(operands)
                operands.append(operand(tile, access))
            return found

        # What is written comes first, since a tile may be taken from as well.
        written = [place(numbers.at(cell), WRITE) for numbers in self._written]
        own = [place(numbers.at(cell), READ) for numbers in self._read]
        own += written
        for numbers, along in self._carried:
            own.append(place(numbers.at(cell), UPDATE if cell[along] else WRITE))
        if not self._gathering:
            return operands, own, ()
        ranges = self.ranges(cell)
        if room is not None:
            tiles = [numbers.at(cell) for numbers in (*self._read, *self._written)]
            room.begin(dict(zip(tiles, self._arrays, strict=True)))
        taken = [
            (piece, 0 if piece.tile is None else place(piece.tile, READ))
            for gathering in self._gathering
            for piece in gathering.at(ranges, room)
        ]
        return operands, own, taken

    def parts(self, cell: tuple[int, ...]) -> list[int]:
        """Which part a step has of each line that the tape has cut."""
        return [cell[i] for i in self._cut]

    def share(self, cell: tuple[int, ...]) -> float:
        """Which part of all elements it has."""
        share = 1.0
        for shares, i in zip(self._shares, cell, strict=True):
            share *= shares[i]
        return share

    def ranges(self, cell: tuple[int, ...]) -> Ranges:
        """The indices of each line."""
        return {
            line: ranges[i] for line, ranges, i in zip(self._lines, self._ranges, cell, strict=True)
        }

    def coords(self, node: Node, at: dict[int, int]) -> tuple[int, ...]:
        """Where a node's part is among all."""
        return tuple([at.get(line, 0) for line in self._tiling.axes.of(node)])


def _from_both_ends(blocks: Sequence[range]) -> list[range]:
    """The first block, the last one, the second one, and so on to the middle."""
    found = [block for both in zip(blocks, reversed(blocks), strict=True) for block in both]
    return found[: len(blocks)]


def _across(one: range, other: range) -> Iterator[tuple[int, ...]]:
    """The cells of two blocks that lie across from each other, each after the one across."""
    for a, i in enumerate(one):
        for j in other if one != other else one[a:]:
            yield i, j
            if i != j:
                yield j, i


def _kind(nodes: Sequence[Node]) -> Kind:
    if any(isinstance(node, Contract) for node in nodes):
        return Kind.PRODUCT
    if any(isinstance(node, Reduce) for node in nodes):
        return Kind.REDUCE
    return Kind.ELEMENTWISE


def _cost(nodes: Sequence[Node]) -> tuple[float, float]:
    """Arithmetic operations of nodes as a whole, and the seconds that one thread takes for them."""
    work = seconds = 0.0
    for node in nodes:
        operations, own = _cost_of[type(node)](node)
        work += operations
        seconds += own
    return max(work, 1.0), max(seconds, 1e-9)


_cost_of: Phase[[], tuple[float, float]] = Phase("how many operations a node takes, and seconds")


@_cost_of.of(Map)
def _of_map(node: Map) -> tuple[float, float]:
    kinds = [a.dtype if isinstance(a, Node) else a for a in node.arguments]
    return node.size, node.size * seconds_per_element(node.function, node.dtype, kinds)


@_cost_of.of(Contract)
def _of_product(node: Contract) -> tuple[float, float]:
    pair = 8.0 if node.dtype.kind == "c" else 2.0
    operations = pair * math.prod(node.extents.values())
    operations /= 2 if node.is_symmetric else 1
    moved = sum(o.nbytes for o in node.operands) + node.nbytes
    return operations, max(operations / _GIGAFLOPS, moved / 8e9)


@_cost_of.of(Reduce, Scan)
def _of_sum(node: Reduce | Scan) -> tuple[float, float]:
    return node.operands[0].size, node.operands[0].nbytes / 8e9


@_cost_of.of(Lines)
def _of_lines(node: Lines) -> tuple[float, float]:
    (operand,) = node.operands
    comparisons = operand.size * max(math.log2(max(node.line(operand.shape), 1)), 1.0)
    return comparisons, comparisons * _COMPARISON


@_cost_of.of(Leaf, Expanded, Gather, MatrixOperation)
def _of_copy(node: Node) -> tuple[float, float]:
    # Operations of linear algebra that are computed in cells are empty ones.
    return 0.0, node.nbytes / 4e9
