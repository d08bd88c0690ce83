"""The steps of a group: one for each cell, and those that add up what they leave."""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

from numpy.typing import NDArray

from outcrop.expressions.graph.functions import seconds_per_element
from outcrop.expressions.graph.gathers import Gather
from outcrop.expressions.graph.matrices import MatrixOperation
from outcrop.expressions.graph.nodes import Contract, Expanded, Leaf, Map, Node, Reduce, Scan
from outcrop.expressions.graph.phases import Phase
from outcrop.expressions.kernels import native
from outcrop.expressions.kernels.gathered import Ranges
from outcrop.expressions.kernels.tape import Tape
from outcrop.expressions.kernels.tile_view import Look
from outcrop.expressions.lower.gather_sources import Gathering
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
from outcrop.expressions.lower.storage import Storage
from outcrop.expressions.lower.tree_reduction import Sum
from outcrop.expressions.tiling.fusion import Group, Grouping

__all__ = ["Pass"]

_GIGAFLOPS = 40e9
"""Operations in a second of products on one thread, roughly."""


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
        self._lines, self._backwards = lines, backwards
        self._scans = any(isinstance(node, Scan) for node in group.computed)
        self._gathering = [
            Gathering(node, self._tiling, storage)
            for node in group.computed
            if isinstance(node, Gather)
        ]
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

    def emit(self) -> None:
        """Append the steps."""
        lines = self._lines
        counts = [self._tiling.count(line) for line in lines]
        each = [range(n)[:: -1 if self._backwards else 1] for n in counts]
        cells = self._in_pairs(each) or itertools.product(*each)
        for cell in cells:
            at = dict(zip(lines, cell, strict=True))
            self._cell(at)
            for root in self._group.roots:
                if total := self._sums.get(id(root)):
                    total.take(self._coords(root, at), total.part(at))

    def _in_pairs(self, each: Sequence[Sequence[int]]) -> Iterator[tuple[int, ...]] | None:
        """The cells, each after the one that lies across: they take the same tiles, transposed."""
        if len(each) != 2 or each[0] != each[1] or self._scans:
            return None
        known: dict[int, list[int | None]] = {}
        for node in self._group.inputs:
            if not isinstance(node, Leaf):
                continue
            stored = self._storage.of(node)
            cut = [line for line in self._tiling.source_lines(node) if line in self._lines]
            if stored is not None and known.setdefault(stored.number, cut) == cut[::-1] != cut:
                break
        else:
            return None
        order = each[0]
        pairs = (((i, j), (j, i)) for a, i in enumerate(order) for j in order[a:])
        return (cell for one, other in pairs for cell in ((one,) if one == other else (one, other)))

    def _cell(self, at: dict[int, int]) -> None:
        tape, tiling, storage = self._tape, self._tiling, self._storage
        ranges: Ranges = {line: tiling.range(line, i) for line, i in at.items()}
        operands: list[int] = []
        places: dict[int, int] = {}

        def place(tile: int, access: int) -> int:
            if tile not in places:
                places[tile] = len(operands)
                operands.append(operand(tile, access))
            return places[tile]

        # What is written comes first, since a tile may be taken from as well.
        written: list[tuple[int, Look]] = []
        for root in self._group.roots:
            total = self._sums.get(id(root))
            part = total.part(at) if total else 0
            tile = storage.tile(root, self._coords(root, at), part)
            written.append((place(tile, WRITE), storage.look(root)))
        given = [
            (place(storage.tile(node, self._coords(node, at)), READ), storage.look(node))
            for node in self._group.inputs
        ]
        given += written
        for scan in tape.scans:
            access = UPDATE if at[tiling.axes.of(scan)[scan.axis]] else WRITE
            tile = storage.carry(scan, self._coords(scan, at))
            given.append((place(tile, access), storage.look_at_carry(scan)))
        taken = [
            (piece, 0 if piece.tile is None else place(piece.tile, READ))
            for gathering in self._gathering
            for piece in gathering.at(ranges)
        ]

        share = math.prod(
            (high - low) / max(tiling.axes.extents[line], 1) for line, (low, high) in ranges.items()
        )
        work = self._work * share
        if self._is_taped:
            parts, own = [at[line] for line in tape.cut], [i for i, _ in given]
            self._steps.add_taped(self._kernel, operands, work, parts, own)
            return

        def action(tiles: Sequence[NDArray[Any]], workspace: NDArray[Any]) -> None:
            values = [look(tiles[i]) for i, look in given]
            parts = [(piece, tiles[i]) for piece, i in taken]
            tape.run(ranges, values, parts, workspace)

        self._steps.add(self._kernel, operands, work, action)

    def _coords(self, node: Node, at: dict[int, int]) -> tuple[int, ...]:
        return tuple(at.get(line, 0) for line in self._tiling.axes.of(node))


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


@_cost_of.of(Leaf, Expanded, Gather, MatrixOperation)
def _of_copy(node: Node) -> tuple[float, float]:
    # Operations of linear algebra that are computed in cells are empty ones.
    return 0.0, node.nbytes / 4e9
