"""What a step does: the nodes of a group, one after the other, on strips that stay in the cache."""

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outcrop import _native
from outcrop.arrays.source import MemorySource, dtype_name
from outcrop.expressions.graph.functions import Apply
from outcrop.expressions.graph.gathers import Gather
from outcrop.expressions.graph.matrices import MatrixOperation
from outcrop.expressions.graph.nodes import Contract, Expanded, Leaf, Lines, Map, Node, Reduce, Scan
from outcrop.expressions.graph.phases import Phase
from outcrop.expressions.kernels import native
from outcrop.expressions.kernels.gathered import Gathered, Ranges
from outcrop.expressions.kernels.instructions import (
    ALIGNMENT,
    Instruction,
    Moment,
    Product,
    Setting,
    Value,
    completion,
    instruction,
)
from outcrop.expressions.tiling.axes import Tiling

__all__ = ["Tape", "pattern"]

Array = NDArray[Any]

_PASSED = 1 << 20
"""Bytes of a strip of a value that is only passed on, at most: what stays in a core's own cache is
used sooner, and the interpreter is asked more often."""

_MOVED = 4 << 20
"""Bytes of a strip of what is read and written, at most: they stay in the cache that cores share,
where they are used twice; and some microseconds of the interpreter for each strip are little."""

_NATIVE = 256 << 10
"""Bytes of a strip of all that is read, written and passed on, where it takes no interpreter: they
stay in a core's own cache, where they are used twice."""

_DEPTH = 512
"""Indices of a strip, at least, where each is multiplied with, or added to, a large matrix."""


class Tape:
    """The nodes of a group as instructions.

    Parameters
    ----------
    tiling : Tiling
        How lines are cut.
    cut : tuple of int
        The lines of which each step has one tile, the one first along which strips are cut.
    inputs : sequence of Node
        What is read from tiles, one each.
    computed : sequence of Node
        What is computed, operands first.
    outputs : sequence of Node
        What of that goes to tiles, one each, after the inputs.
    strip : int, optional
        Indices of a strip along the line. Sums within a step depend on it in their last bits.

    Attributes
    ----------
    values : dict
        Those of all nodes, by their ids.
    is_native : bool
        Whether the compiled core can do it, without the interpreter.
    early, late : list of Node
        What is computed before the strips, and for each of them.
    parts : int
        Where the workspace has room for parts of sums.
    room : tuple of int
        Where it has room for products.
    """

    def __init__(
        self,
        tiling: Tiling,
        cut: Sequence[int],
        inputs: Sequence[Node],
        computed: Sequence[Node],
        outputs: Sequence[Node],
        strip: int | None = None,
    ) -> None:
        self.tiling = tiling
        self.line = cut[0] if cut else None
        self.cut = tuple(cut)
        self.inputs, self.outputs = list(inputs), list(outputs)
        self.computed = list(computed)
        self.values: dict[int, Value] = {}
        # Tiles come first, in the order in which they are given.
        for node in (*inputs, *outputs, *computed):
            if id(node) not in self.values:
                lines, place = tiling.axes.of(node), len(self.values)
                along = lines.index(self.line) if self.line in lines else None
                self.values[id(node)] = Value(
                    node, place, lines, along, place < len(inputs) + len(outputs)
                )
        self.is_native = all(map(native.can_compute, computed))
        self.strip = self._strip() if strip is None else strip
        borrowed = [n for n in computed if _is_in_memory(n)]
        self.early = early = [
            n for n in computed if not self._is_in_strips(n) and not _is_in_memory(n)
        ]
        self.late = late = [n for n in computed if self._is_in_strips(n)]
        self.scans = [
            node
            for node in computed
            if isinstance(node, Scan) and tiling.axes.of(node)[node.axis] in tiling.cuts
        ]
        self.product_memory, self.beside = self._own_memory()
        self.parts, end = self._place(early, late)
        self.workspace = end + self.product_memory
        self.room = end, self.workspace
        rooms = self.parts, slice(*self.room)
        self._borrowed = [self.values[id(n)] for n in borrowed]
        self._passed_early = [v for n in early if (v := self.values[id(n)]).offset is not None]
        self._passed = [v for n in late if (v := self.values[id(n)]).offset is not None]
        self._before = [
            do
            for n in early
            if not self._is_sibling(n)
            for do in (self._instruction(n, rooms), completion(self.values[id(n)]))
            if do is not None
        ]
        self._loop = [self._instruction(n, rooms) for n in late if not self._is_sibling(n)]
        self._after = [do for n in late if (do := completion(self.values[id(n)])) is not None]
        looped = {id(n) for n in late} - {id(n) for n in outputs}
        # What is there before the strips: its place, and the key of what comes before the strip's.
        self._whole = [
            (v.place, (slice(None),) * v.along)
            for key, v in self.values.items()
            if v.along is not None and key not in looped
        ]

    # -- making it ---------------------------------------------------------------------------

    def _instruction(self, node: Node, rooms: tuple[int, slice]) -> Instruction:
        carry = next((i for i, scan in enumerate(self.scans) if scan is node), None)

        def first(index: int) -> int:
            """The first index of the tile in which one is, along the line of the strips."""
            extent = self.tiling.extent(self.line) if self.line is not None else 1
            return index // extent * extent

        own = Setting(self.values[id(node)], self.values, carry, self.line, first, *rooms)
        return instruction[type(node)](node, own)

    def _is_sibling(self, node: Node) -> bool:
        """Whether it is computed together with another one."""
        return isinstance(node, Reduce) and node.output > 0

    def _is_in_strips(self, node: Node) -> bool:
        """Whether it is computed strip by strip: it has the line, or sums over it."""
        if self.line is None or _is_in_memory(node):
            return False
        if self.values[id(node)].along is not None:
            return not isinstance(node, Gather)
        return any(
            id(o) in self.values and self.values[id(o)].along is not None for o in node.operands
        ) and isinstance(node, Reduce | Contract)

    def _accumulates(self, node: Node) -> bool:
        return self.values[id(node)].along is None

    def _strip(self) -> int:
        """Indices of a strip along the line."""
        if self.line is None:
            return 1
        extent = self.tiling.extent(self.line)
        row = sum(
            self.tiling.tile_bytes(v.node) // extent
            for v in self.values.values()
            if v.along is not None and v.tile
        )
        passed = max(
            (
                self.tiling.tile_bytes(v.node) // extent
                for v in self.values.values()
                if v.along is not None and not v.tile
            ),
            default=1,
        )
        if self.is_native:
            strip = _NATIVE // max(row + 2 * passed, 1)
        else:
            # What a reduction makes of what it is given is only passed on, too.
            own = (
                _reduction_memory(node, self.tiling.tile(node.operands[0])) // extent
                for node in self.computed
                if isinstance(node, Reduce) and self._is_in_strips(node)
            )
            passed = max((passed, *own))
            strip = min(_PASSED // max(passed, 1), _MOVED // max(row, 1))
        if any(self._is_large(node) for node in self.computed if isinstance(node, Contract)):
            strip = max(strip, _DEPTH)
        for node in self.computed:
            if isinstance(node, Leaf) and (along := self.values[id(node)].along) is not None:
                # Of a block that is made whole, all is taken at once.
                grain = node.grain(along)
                strip = -(-strip // grain) * grain
        return max(min(strip, extent), 1)

    def _is_large(self, node: Contract) -> bool:
        """Whether a product goes over more than fits a cache for each strip."""
        sides = (self.values[id(n)] for n in (node, *node.operands))
        return any(v.along is None and self.tiling.tile_bytes(v.node) > _NATIVE for v in sides)

    def _strip_shape(self, value: Value) -> tuple[int, ...]:
        """The largest shape of a value: of a strip, or of a tile."""
        shape = list(self.tiling.tile(value.node))
        if value.along is not None and not isinstance(value.node, Gather):
            shape[value.along] = min(self.strip, shape[value.along])
        return tuple(shape)

    def _place(self, before: Sequence[Node], loop: Sequence[Node]) -> tuple[int, int]:
        """Give values that are only passed on places in the workspace.

        Where parts of sums have their place behind them, and the end of all.
        """
        last: dict[int, int] = {}
        order = [*before, *loop]
        for i, node in enumerate(order):
            for operand in node.operands:
                # What is computed before the strips is needed in all of them.
                is_early = i >= len(before) and not self._is_in_strips(operand)
                last[id(operand)] = len(order) if is_early else i
            if isinstance(node, Reduce):
                # The numbers that make up one result are computed at once.
                first = id(node.family()[0])
                last[first] = max(last.get(first, i), i)
        free: list[tuple[int, int]] = []
        end = 0
        for i, node in enumerate(order):
            value = self.values[id(node)]
            going = [
                self.values[id(o)]
                for o in {id(o): o for o in node.operands}.values()
                if id(o) in self.values and last.get(id(o)) == i
            ]
            going = [v for v in going if v.offset is not None]
            if not value.tile:
                nbytes = self._bytes(value)
                heir = next((v for v in going if self._may_overwrite(node, v)), None)
                if heir is not None:
                    value.offset = heir.offset
                    going.remove(heir)
                else:
                    fitting = min((f for f in free if f[0] >= nbytes), default=None)
                    if fitting is not None:
                        free.remove(fitting)
                        value.offset = fitting[1]
                        if fitting[0] > nbytes:
                            free.append((fitting[0] - nbytes, fitting[1] + nbytes))
                    else:
                        value.offset, end = end, end + nbytes
                if last.get(id(node)) is None:
                    going.append(value)
            free += [(self._bytes(v), v.offset) for v in going if v.offset is not None]
        # Parts of sums, before they are added.
        parts = [
            self._bytes(self.values[id(n)])
            for n in loop
            if self._accumulates(n) and isinstance(n, Reduce)
        ]
        families = max((len(n.family()) for n in loop if isinstance(n, Reduce)), default=0)
        return end, end + families * max(parts, default=0)

    def _bytes(self, value: Value) -> int:
        nbytes = math.prod(self._strip_shape(value)) * value.node.dtype.itemsize
        return max(-(-nbytes // ALIGNMENT), 1) * ALIGNMENT

    def _may_overwrite(self, node: Node, value: Value) -> bool:
        """Whether a node's value can take the place of an operand's."""
        return (
            isinstance(node, Map)
            and isinstance(node.function, Apply)
            and node.function.ufunc.nout == 1
            and node.dtype.itemsize == value.node.dtype.itemsize
            and self.tiling.axes.of(node) == value.lines
        )

    def _own_memory(self) -> tuple[int, int]:
        """Of the workspace, for products; and beside it, what functions take for themselves."""
        room = beside = 0
        for node in self.computed:
            if isinstance(node, Contract):
                extents = {
                    label: extent
                    for operand, labels in zip(node.operands, node.labels, strict=True)
                    for label, extent in zip(
                        labels, self._strip_shape(self.values[id(operand)]), strict=True
                    )
                }
                m, n, k = Product.of(node).sides(extents)
                own, more = _native.multiply_memory(dtype_name(node.dtype), m, n, k)
                room, beside = max(room, own), max(beside, more)
            elif isinstance(node, Lines):
                beside = max(beside, self._lines_memory(node))
            elif isinstance(node, Reduce) and not self.is_native:
                shape = self._strip_shape(self.values[id(node.operands[0])])
                beside = max(beside, _reduction_memory(node, shape))
        return room, beside

    def _lines_memory(self, node: Lines) -> int:
        """Bytes that a function of lines takes for a strip."""
        lines, line = 0, 0
        for one in (node, *node.operands):
            shape = self._strip_shape(self.values[id(one)])
            lines = max(lines, math.prod(shape) // max(node.line(shape), 1))
            line = max(line, node.line(shape) * one.dtype.itemsize)
        return node.function.memory(lines, line)

    # -- running it --------------------------------------------------------------------------

    def run(
        self,
        ranges: Ranges,
        tiles: Sequence[Array],
        gathered: Sequence[tuple[Gathered, Array]],
        workspace: Array,
    ) -> None:
        """Do the step at these ranges of the cut lines.

        `tiles` are those of inputs, outputs, and what running sums hand on; `gathered` says what is
        taken from further ones.
        """
        own = len(self.inputs) + len(self.outputs)
        now: list[Any] = [None] * len(self.values)
        now[:own] = tiles[:own]
        moment = Moment(now, ranges, workspace, tiles[own:], gathered)
        for value in self._borrowed:
            now[value.place] = self._borrow(value, ranges)
        self._show(self._passed_early, moment)
        for do in self._before:
            do(moment)
        if self.line is None or not self._loop:
            return
        low, high = ranges[self.line]
        wholes = [(place, prefix, now[place]) for place, prefix in self._whole]
        count = 0
        for start in range(low, high, self.strip):
            end = min(start + self.strip, high)
            moment.ranges = {**ranges, self.line: (start, end)}
            moment.before, moment.here = start - low, end - start
            at = slice(start - low, end - low)
            for place, prefix, array in wholes:
                now[place] = array[(*prefix, at)]
            if count != end - start:
                # All strips have one shape, but for the last.
                count = end - start
                self._show(self._passed, moment)
            for do in self._loop:
                do(moment)
        for do in self._after:
            do(moment)

    def _show(self, values: Sequence[Value], moment: Moment) -> None:
        """Show parts of the workspace as values."""
        for value in values:
            assert value.offset is not None
            shape = self._shape(value, moment.ranges)
            moment.now[value.place] = np.ndarray(
                shape, value.node.dtype, moment.workspace, value.offset
            )

    def _borrow(self, value: Value, ranges: Ranges) -> Array:
        """Elements that are in memory."""
        leaf = value.node
        assert isinstance(leaf, Leaf)
        assert isinstance(leaf.source, MemorySource)
        start = [ranges[line][0] if line in ranges else 0 for line in value.lines]
        return leaf.view.part(start, self._shape(value, ranges)).select(leaf.source.array)

    def _shape(self, value: Value, ranges: Ranges) -> tuple[int, ...]:
        extents = self.tiling.axes.extents
        return tuple(
            ranges[line][1] - ranges[line][0] if line in ranges else extents[line]
            for line in value.lines
        )


def pattern(
    tiling: Tiling,
    cut: Sequence[int],
    inputs: Sequence[Node],
    computed: Sequence[Node],
    outputs: Sequence[Node],
) -> Hashable | None:
    """What two groups have in common that one tape computes, as iterations of a loop do.

    Elements in memory are the same ones. None where a tape names what is its own: tiles that are
    gathered, running sums.
    """
    places: dict[int, int] = {}
    for node in (*inputs, *outputs, *computed):
        places.setdefault(id(node), len(places))
    found: list[Hashable] = [tuple(cut), len(inputs), len(outputs)]
    found += [(node.dtype, tiling.axes.of(node)) for node in inputs]
    for node in computed:
        own = _meaning[type(node)](node, places)
        if own is None:
            return None
        found.append((places[id(node)], node.dtype, tiling.axes.of(node), own))
    try:
        hash(key := tuple(found))
    except TypeError:
        # A function that cannot be hashed.
        return None
    return key


_meaning: Phase[[Mapping[int, int]], Hashable | None] = Phase(
    "what a node does with values at these places; None where it names what is its own"
)


@_meaning.of(Map)
def _of_map(node: Map, places: Mapping[int, int]) -> Hashable:
    # Of numbers, zeros have a sign, and are equal.
    arguments = [
        places[id(a)] if isinstance(a, Node) else (type(a), repr(a)) for a in node.arguments
    ]
    return node.function, tuple(arguments)


@_meaning.of(Contract)
def _of_product(node: Contract, places: Mapping[int, int]) -> Hashable:
    one, other = node.operands
    return node.labels, node.result, places[id(one)], places[id(other)]


@_meaning.of(Reduce)
def _of_reduction(node: Reduce, places: Mapping[int, int]) -> Hashable:
    family = tuple([places[id(n)] for n in node.family()])
    return node.reduction, node.axes, places[id(node.operands[0])], family


@_meaning.of(Expanded)
def _of_expanded(node: Expanded, places: Mapping[int, int]) -> Hashable:
    return node.view, places[id(node.operands[0])]


@_meaning.of(Leaf)
def _of_leaf(node: Leaf, places: Mapping[int, int]) -> Hashable | None:
    # What is in memory is there for as long as a tape that has it.
    return id(node) if _is_in_memory(node) else None


@_meaning.of(Scan, Lines, Gather, MatrixOperation)
def _of_none(node: Node, places: Mapping[int, int]) -> None:
    return None


def _is_in_memory(node: Node) -> bool:
    return isinstance(node, Leaf) and isinstance(node.source, MemorySource)


def _reduction_memory(node: Reduce, shape: Sequence[int]) -> int:
    """Bytes that a reduction takes for itself, for a block of its operand."""
    return node.reduction.memory(node.operands[0].dtype, shape, node.axes)
