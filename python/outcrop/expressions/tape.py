"""What a step does: the nodes of a group, one after the other, on strips that stay in the cache."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outcrop import _native
from outcrop._source import MemorySource, filler
from outcrop.expressions.axes import Tiling
from outcrop.expressions.functions import Apply
from outcrop.expressions.nodes import Contract, Gather, Leaf, Map, Node, Reduce, Scan

__all__ = ["Tape"]

Array = NDArray[Any]

_STRIP = 256 << 10
"""Bytes of the largest value of a strip: with some others, it stays in a core's own cache."""

_ALIGNMENT = 64


@dataclass
class _Value:
    """A node in a tape.

    Attributes
    ----------
    lines : tuple of int
        Those of its axes.
    along : int or None
        The axis along which strips are cut.
    offset : int or None
        In the workspace, of one that is neither read nor written.
    tile : int or None
        The number of the tile that it is read from or written to.
    """

    node: Node
    lines: tuple[int, ...]
    along: int | None
    offset: int | None = None
    tile: int | None = None


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
    """

    def __init__(
        self,
        tiling: Tiling,
        cut: Sequence[int],
        inputs: Sequence[Node],
        computed: Sequence[Node],
        outputs: Sequence[Node],
    ) -> None:
        self.tiling = tiling
        self.line = cut[0] if cut else None
        self.cut = tuple(cut)
        self.values: dict[int, _Value] = {}
        self.computed = list(computed)
        self.inputs = list(inputs)
        self.outputs = list(outputs)
        for node in (*inputs, *computed):
            lines = tiling.axes.of(node)
            along = lines.index(self.line) if self.line in lines else None
            self.values[id(node)] = _Value(node, lines, along)
        for i, node in enumerate((*inputs, *outputs)):
            self.values[id(node)].tile = i
        self.strip = self._strip()
        self.before = [n for n in computed if not self._is_in_strips(n)]
        self.loop = [n for n in computed if self._is_in_strips(n)]
        self.scans = [
            node
            for node in computed
            if isinstance(node, Scan) and tiling.axes.of(node)[node.axis] in tiling.cuts
        ]
        self.product_memory, self.beside = self._product_memory()
        self.workspace = self._place() + self.product_memory

    # -- making it ---------------------------------------------------------------------------

    def _is_in_strips(self, node: Node) -> bool:
        """Whether it is computed strip by strip: it has the line, or sums over it."""
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
        row = max(
            (
                self.tiling.tile_bytes(v.node) // extent
                for v in self.values.values()
                if v.along is not None
            ),
            default=1,
        )
        return max(min(_STRIP // max(row, 1), extent), 1)

    def _strip_shape(self, value: _Value) -> tuple[int, ...]:
        """The largest shape of a value: of a strip, or of a tile."""
        shape = list(self.tiling.tile(value.node))
        if value.along is not None and not isinstance(value.node, Gather):
            shape[value.along] = min(self.strip, shape[value.along])
        return tuple(shape)

    def _place(self) -> int:
        """Give values that are only passed on places in the workspace; its size."""
        last: dict[int, int] = {}
        order = [*self.before, *self.loop]
        for i, node in enumerate(order):
            for operand in node.operands:
                # What is computed before the strips is needed in all of them.
                is_early = i >= len(self.before) and not self._is_in_strips(operand)
                last[id(operand)] = len(order) if is_early else i
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
            if value.tile is None and not _is_in_memory(node):
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
        self._part = end
        parts = [
            self._bytes(self.values[id(n)])
            for n in self.loop
            if self._accumulates(n) and isinstance(n, Reduce)
        ]
        families = max((len(n.family()) for n in self.loop if isinstance(n, Reduce)), default=0)
        return end + families * max(parts, default=0)

    def _bytes(self, value: _Value) -> int:
        nbytes = math.prod(self._strip_shape(value)) * value.node.dtype.itemsize
        return max(-(-nbytes // _ALIGNMENT), 1) * _ALIGNMENT

    def _may_overwrite(self, node: Node, value: _Value) -> bool:
        """Whether a node's value can take the place of an operand's."""
        return (
            isinstance(node, Map)
            and isinstance(node.function, Apply)
            and node.function.ufunc.nout == 1
            and node.dtype.itemsize == value.node.dtype.itemsize
            and self.tiling.axes.of(node) == value.lines
        )

    def _product_memory(self) -> tuple[int, int]:
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
                m, n, k = _sides(node, extents)
                own, more = _native.multiply_memory(node.dtype.name, m, n, k)
                room, beside = max(room, own), max(beside, more)
        return room, beside

    # -- running it --------------------------------------------------------------------------

    def run(
        self,
        ranges: dict[int, tuple[int, int]],
        tiles: Sequence[Array],
        gathered: Sequence[tuple[Node, Any, Array]],
        workspace: Array,
    ) -> None:
        """Do the step at these ranges of the cut lines.

        `tiles` are those of inputs, outputs, and what running sums hand on; `gathered` are further
        ones, with the node that takes elements from them, where from and where to.
        """
        now: dict[int, Array] = {}
        whole: dict[int, Array] = {}
        own = (*self.inputs, *self.outputs)
        for node, tile in zip(own, tiles, strict=False):
            whole[id(node)] = tile
            now[id(node)] = tile
        carries = dict(zip(map(id, self.scans), tiles[len(own) :], strict=True))
        for node in self.before:
            if _is_in_memory(node):
                now[id(node)] = whole[id(node)] = self._borrowed(node, ranges)
                continue
            out = whole.get(id(node))
            if out is None:
                out = self._view(self.values[id(node)], self._shape(node, ranges), workspace)
                now[id(node)] = whole[id(node)] = out
            if isinstance(node, Gather):
                for taker, (source, target), tile in gathered:
                    if taker is node:
                        np.copyto(out[(*target, ...)], source(tile))
            else:
                self._compute(node, out, now, ranges, workspace, carries)
        if self.line is None or not self.loop:
            return
        low, high = ranges[self.line]
        for start in range(low, high, self.strip):
            part = {**ranges, self.line: (start, min(start + self.strip, high))}
            at = slice(start - low, part[self.line][1] - low)
            for key, array in whole.items():
                along = self.values[key].along
                if along is not None:
                    now[key] = array[(slice(None),) * along + (at,)]
            for node in self.loop:
                if _is_in_memory(node):
                    now[id(node)] = self._borrowed(node, part)
                    continue
                value = self.values[id(node)]
                out = now.get(id(node)) if value.tile is not None else None
                if out is None:
                    out = self._view(value, self._shape(node, part), workspace)
                    now[id(node)] = out
                if self._accumulates(node):
                    counts = (start - low, part[self.line][1] - start)
                    self._accumulate(node, out, now, part, workspace, counts)
                else:
                    self._compute(node, out, now, part, workspace, carries)

    def _shape(self, node: Node, ranges: dict[int, tuple[int, int]]) -> tuple[int, ...]:
        lines = self.values[id(node)].lines
        extents = self.tiling.axes.extents
        return tuple(
            ranges[line][1] - ranges[line][0] if line in ranges else extents[line] for line in lines
        )

    def _start(self, node: Node, ranges: dict[int, tuple[int, int]]) -> tuple[int, ...]:
        return tuple(
            ranges[line][0] if line in ranges else 0 for line in self.values[id(node)].lines
        )

    def _borrowed(self, node: Node, ranges: dict[int, tuple[int, int]]) -> Array:
        """Elements that are in memory."""
        assert isinstance(node, Leaf)
        assert isinstance(node.source, MemorySource)
        part = node.view.part(self._start(node, ranges), self._shape(node, ranges))
        return part.select(node.source.array)

    def _view(self, value: _Value, shape: tuple[int, ...], workspace: Array) -> Array:
        assert value.offset is not None
        return np.ndarray(shape, value.node.dtype, workspace, value.offset)

    def _compute(
        self,
        node: Node,
        out: Array,
        now: dict[int, Array],
        ranges: dict[int, tuple[int, int]],
        workspace: Array,
        carries: dict[int, Array],
    ) -> None:
        match node:
            case Map():
                node.function.into(
                    out, [now[id(a)] if isinstance(a, Node) else a for a in node.arguments]
                )
            case Contract():
                self._multiply(node, out, now, False, workspace)
            case Reduce():
                if node.output:
                    return
                (operand,) = node.operands
                outs = [self._out(n, now, ranges, workspace) for n in node.family()]
                start = self._start(operand, ranges)
                node.reduction.start(now[id(operand)], node.axes, start, outs)
            case Scan():
                self._scan(node, out, now, ranges, carries)
            case Leaf():
                _fill(node, self._start(node, ranges), out)
            case _:
                raise AssertionError(f"no step does {node.name}")

    def _out(
        self, node: Node, now: dict[int, Array], ranges: dict[int, tuple[int, int]], room: Array
    ) -> Array:
        value = self.values[id(node)]
        if value.tile is None:
            now[id(node)] = self._view(value, self._shape(node, ranges), room)
        return now[id(node)]

    def _scan(
        self,
        node: Scan,
        out: Array,
        now: dict[int, Array],
        ranges: dict[int, tuple[int, int]],
        carries: dict[int, Array],
    ) -> None:
        node.ufunc.accumulate(now[id(node.operands[0])], node.axis, node.dtype, out)
        carry = carries.get(id(node))
        if carry is None:
            return
        lines = self.values[id(node)].lines
        line = lines[node.axis]
        along = self.values[id(node)].along
        if along is not None and line != self.line:
            # The part of it that belongs to the strip.
            assert self.line is not None
            low, high = ranges[self.line]
            first = low // self.tiling.extent(self.line) * self.tiling.extent(self.line)
            axis = along - (along > node.axis)
            carry = carry[(slice(None),) * axis + (slice(low - first, high - first),)]
        if ranges[line][0]:
            node.ufunc(np.expand_dims(carry, node.axis), out, out=out)
        np.copyto(carry, np.take(out, -1, node.axis))

    def _accumulate(
        self,
        node: Node,
        out: Array,
        now: dict[int, Array],
        ranges: dict[int, tuple[int, int]],
        workspace: Array,
        counts: tuple[int, int],
    ) -> None:
        first = counts[0] == 0
        if isinstance(node, Contract):
            self._multiply(node, out, now, not first, workspace)
            return
        assert isinstance(node, Reduce)
        if node.output:
            return
        (operand,) = node.operands
        block, start = now[id(operand)], self._start(operand, ranges)
        outs = [now[id(n)] for n in node.family()]
        if first:
            node.reduction.start(block, node.axes, start, outs)
            return
        parts, offset = [], self._part
        for own in outs:
            parts.append(np.ndarray(own.shape, own.dtype, workspace, offset))
            offset += -(-own.nbytes // _ALIGNMENT) * _ALIGNMENT
        node.reduction.start(block, node.axes, start, parts)
        others = math.prod(block.shape[a] for a in node.axes) // max(counts[1], 1)
        node.reduction.merge(outs, parts, (counts[0] * others, counts[1] * others))

    def _multiply(
        self, node: Contract, out: Array, now: dict[int, Array], accumulate: bool, workspace: Array
    ) -> None:
        room = workspace[self.workspace - self.product_memory : self.workspace]
        one, other = (now[id(o)] for o in node.operands)
        for c, a, b in _matrices(node, out, one, other):
            _native.multiply(c, a, b, accumulate, room)


def _is_in_memory(node: Node) -> bool:
    return isinstance(node, Leaf) and isinstance(node.source, MemorySource)


def _fill(node: Leaf, start: Sequence[int], out: Array) -> None:
    """A box of what a function gives."""
    fill = filler(node.source, node.view)
    if out.flags.c_contiguous:
        fill(tuple(start), out)
    else:
        made = np.empty(out.shape, out.dtype)
        fill(tuple(start), made)
        np.copyto(out, made)


def _sides(node: Contract, extents: dict[str, int]) -> tuple[int, int, int]:
    """Rows, columns and depth of the products of matrices that a node is made of."""
    one, other = node.labels
    rows = [c for c in one if c not in other and c in node.result]
    cols = [c for c in other if c not in one and c in node.result]
    depth = [c for c in one if c in other and c not in node.result]
    m, n, k = (math.prod(extents[c] for c in group) for group in (rows, cols, depth))
    return m, n, k


def _matrices(
    node: Contract, out: Array, one: Array, other: Array
) -> Iterator[tuple[Array, Array, Array]]:
    """The products of matrices that a node is made of."""
    left, right = node.labels
    batch = [c for c in left if c in right and c in node.result]
    rows = [c for c in left if c not in right and c in node.result]
    cols = [c for c in right if c not in left and c in node.result]
    depth = [c for c in left if c in right and c not in node.result]

    def arranged(array: Array, labels: str, first: list[str], second: list[str]) -> Array:
        order = [labels.index(c) for c in (*batch, *first, *second)]
        turned = array.transpose(order)
        extents = turned.shape[len(batch) :]
        m = math.prod(extents[: len(first)])
        n = math.prod(extents[len(first) :])
        return turned.reshape((*turned.shape[: len(batch)], m, n))

    a = arranged(one, left, rows, depth)
    b = arranged(other, right, depth, cols)
    c = arranged(out, node.result, rows, cols)
    if not np.may_share_memory(c, out):
        raise AssertionError("a product whose result does not lie as a matrix")
    for index in np.ndindex(*a.shape[: len(batch)]):
        yield c[index], a[index], b[index]
