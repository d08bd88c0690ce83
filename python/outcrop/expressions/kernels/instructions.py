"""What is done for each node of a step: made once, and called for every strip."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from outcrop import _native
from outcrop.arrays.source import dtype_name, filler
from outcrop.arrays.views import NewAxis
from outcrop.expressions.graph.gathers import Gather
from outcrop.expressions.graph.matrices import MatrixOperation
from outcrop.expressions.graph.nodes import Contract, Expanded, Leaf, Lines, Map, Node, Reduce, Scan
from outcrop.expressions.graph.phases import Phase
from outcrop.expressions.graph.reductions import is_reorderable
from outcrop.expressions.kernels.gathered import Gathered, Ranges

__all__ = [
    "ALIGNMENT",
    "Instruction",
    "Moment",
    "Product",
    "Setting",
    "Value",
    "completion",
    "instruction",
]

Array = NDArray[Any]

ALIGNMENT = 64
"""Bytes to whose multiples values in a workspace are aligned."""


@dataclass
class Value:
    """A node in a tape.

    Attributes
    ----------
    node : Node
        Whose value it is.
    place : int
        Among the values of a step.
    lines : tuple of int
        Those of its axes.
    along : int or None
        The axis along which strips are cut.
    tile : bool
        Whether it is read from or written to a tile.
    offset : int or None
        In the workspace, of one that is only passed on.
    """

    node: Node
    place: int
    lines: tuple[int, ...]
    along: int | None
    tile: bool = False
    offset: int | None = None


@dataclass(slots=True)
class Moment:
    """What there is while nodes are computed, of a strip or of all strips together.

    Attributes
    ----------
    now : list of numpy.ndarray
        Values, by their places.
    ranges : dict
        The range of each cut line.
    workspace : numpy.ndarray
        Memory for what is only passed on.
    carries : sequence of numpy.ndarray
        What running sums hand on.
    gathered : sequence of tuple
        What gathering nodes take from which tiles.
    before, here : int
        Indices along the line of earlier strips, and of this one.
    """

    now: list[Any]
    ranges: Ranges
    workspace: Array
    carries: Sequence[Array]
    gathered: Sequence[tuple[Gathered, Array]]
    before: int = 0
    here: int = 0


Instruction = Callable[[Moment], None]

Sides: TypeAlias = tuple[int | None, int | None]
"""The axes of rows and of columns of an array that is a matrix."""


@dataclass(frozen=True)
class Product:
    """How the product of two operands is one of matrices, or several: `Product.of` a node.

    Attributes
    ----------
    labels : tuple of str
        Of the operands and the result.
    dtype : str
        Of all of them.
    is_symmetric : bool
        Whether half of it is computed, and the other half copied in the end.
    matrices : tuple of tuple or None
        Of the operands and the result, the axis of rows and that of columns, None for one that is
        not there; None where it is a product of several matrices.
    """

    labels: tuple[str, str, str]
    dtype: str
    is_symmetric: bool

    @staticmethod
    def of(node: Contract) -> "Product":
        """Of a node; of nodes that are alike, as those of iterations are, it is the same."""
        labels = (*node.labels, node.result)
        return _product(labels, dtype_name(node.dtype), node.is_symmetric)

    @cached_property
    def _sides(self) -> tuple[list[str], list[str], list[str]]:
        """Labels of rows, of columns, and of what is summed over."""
        return _roles(*self.labels)[1:]

    @cached_property
    def matrices(self) -> "tuple[Sides, Sides, Sides] | None":
        batch, rows, cols, depth = _roles(*self.labels)
        if batch or max(len(rows), len(cols), len(depth)) > 1:
            return None
        left, right, result = self.labels
        return (
            _matrix_sides(left, rows, depth),
            _matrix_sides(right, depth, cols),
            _matrix_sides(result, rows, cols),
        )

    @cached_property
    def _views(self) -> tuple[Callable[[Array], Array], ...]:
        """What shows the operands and the result as matrices."""
        assert self.matrices is not None
        return tuple(map(_matrix_view, self.matrices))

    def sides(self, extents: Mapping[str, int]) -> tuple[int, int, int]:
        """Rows, columns and depth of the matrices, by the extents of labels."""
        m, n, k = (math.prod(extents[c] for c in side) for side in self._sides)
        return m, n, k

    def multiply(
        self, out: Array, one: Array, other: Array, accumulate: bool, workspace: Array
    ) -> None:
        """Compute the product, or add it to what is there; of a symmetric one, half."""
        if self.matrices is not None:
            left, right, result = self._views
            a, b, c = left(one), right(other), result(out)
            _native.multiply(self.dtype, c, a, b, accumulate, self.is_symmetric, workspace)
            return
        for a, b, c, is_first in _matrices(self.labels, one, other, out):
            more = accumulate or not is_first
            _native.multiply(self.dtype, c, a, b, more, self.is_symmetric, workspace)

    def complete(self, out: Array) -> None:
        """Fill in the half of a symmetric product that is not computed."""
        if self.is_symmetric:
            _native.mirror(self.dtype, out)


@lru_cache(1024)
def _product(labels: tuple[str, str, str], dtype: str, is_symmetric: bool) -> Product:
    return Product(labels, dtype, is_symmetric)


def _roles(left: str, right: str, result: str) -> tuple[list[str], list[str], list[str], list[str]]:
    """Labels of products side by side, of rows, of columns, and of what is summed over."""
    batch = [c for c in left if c in right and c in result]
    rows = [c for c in left if c not in right]
    cols = [c for c in right if c not in left]
    depth = [c for c in left if c in right and c not in result]
    return batch, rows, cols, depth


def _matrix_sides(labels: str, rows: Sequence[str], cols: Sequence[str]) -> Sides:
    """The axes of rows and of columns, where there are such."""
    row, col = (labels.index(side[0]) if side else None for side in (rows, cols))
    return row, col


def _matrix_view(sides: Sides) -> Callable[[Array], Array]:
    """What shows an array of at most two axes as a matrix."""
    row, col = sides
    if row is not None and col is not None:
        return (lambda array: array) if row < col else (lambda array: array.T)
    shape = (1, -1) if row is None else (-1, 1)
    return lambda array: array.reshape(shape)


def _matrices(
    labels: tuple[str, str, str], one: Array, other: Array, out: Array
) -> Iterator[tuple[Array, Array, Array, bool]]:
    """The products of matrices that a product is made of: factors, results, and the first of them.

    What follows the first one of a result is added to it.
    """
    left, right, result = labels
    batch, rows, cols, depth = _roles(*labels)
    apart = batch[0] if batch else ""
    if not batch:
        made = _as_matrix(out, result, rows, cols)
        a, b = _as_matrix(one, left, rows, depth), _as_matrix(other, right, depth, cols)
        # Parts of a tile need not lie as matrices: then their slices do.
        if made is None:
            apart = (rows if len(rows) > 1 else cols)[0]
        elif a is None or b is None:
            several = [side for side in (depth, rows, cols) if len(side) > 1]
            apart = several[0][0]
        else:
            yield a, b, made, True
            return
    rest = (left.replace(apart, ""), right.replace(apart, ""), result.replace(apart, ""))
    arrays = (one, other, out)
    extent = next(
        a.shape[own.index(apart)] for own, a in zip(labels, arrays, strict=True) if apart in own
    )
    for i in range(extent):
        parts = [
            array[(*(i if c == apart else slice(None) for c in own), ...)]
            for own, array in zip(labels, arrays, strict=True)
        ]
        for a, b, c, is_first in _matrices(rest, parts[0], parts[1], parts[2]):
            yield a, b, c, is_first and (i == 0 or apart not in depth)


def _as_matrix(array: Array, labels: str, rows: Sequence[str], cols: Sequence[str]) -> Array | None:
    """The array with its axes joined to two; None where no view of it shows that."""
    turned = array.transpose([labels.index(c) for c in (*rows, *cols)])
    m = math.prod(turned.shape[: len(rows)])
    if (len(rows), len(cols)) == (1, 1):
        return turned
    # Without elements there is nothing that could be elsewhere.
    made = turned.reshape(m, math.prod(turned.shape[len(rows) :]))
    return made if not made.size or np.may_share_memory(made, array) else None


@dataclass(slots=True)
class Setting:
    """Where in a tape a node is computed.

    Attributes
    ----------
    value : Value
        The node's.
    values : mapping
        Those of all nodes, by their ids.
    carry : int or None
        Of a running sum along a cut line, the number of what it hands on.
    line : int or None
        That along which strips are cut.
    first_index : callable
        The first index of the tile in which an index along this line is.
    parts, product : int, slice
        Where the workspace has room for parts of sums, and for products.
    """

    value: Value
    values: Mapping[int, Value]
    carry: int | None
    line: int | None
    first_index: Callable[[int], int]
    parts: int
    product: slice


instruction: Phase[[Setting], Instruction] = Phase("what computes a node")


@instruction.of(Map)
def _map(node: Map, own: Setting) -> Instruction:
    into, place = node.function.into, own.value.place
    arguments = [
        (True, own.values[id(a)].place) if isinstance(a, Node) else (False, a)
        for a in node.arguments
    ]

    def do(at: Moment) -> None:
        now = at.now
        into(now[place], [now[a] if there else a for there, a in arguments])

    return do


@instruction.of(Expanded)
def _expanded(node: Expanded, own: Setting) -> Instruction:
    place, source = own.value.place, own.values[id(node.operands[0])].place
    key = tuple(None if isinstance(axis, NewAxis) else slice(None) for axis in node.view.axes)

    def do(at: Moment) -> None:
        np.copyto(at.now[place], at.now[source][key])

    return do


@instruction.of(Contract)
def _contract(node: Contract, own: Setting) -> Instruction:
    multiply, place, room = Product.of(node).multiply, own.value.place, own.product
    one, other = (own.values[id(o)].place for o in node.operands)
    accumulates = own.value.along is None

    def do(at: Moment) -> None:
        now, more = at.now, accumulates and at.before > 0
        multiply(now[place], now[one], now[other], more, at.workspace[room])

    return do


@instruction.of(Reduce)
def _reduce(node: Reduce, own: Setting) -> Instruction:
    (operand,) = node.operands
    source, axes, reduction = own.values[id(operand)], node.axes, node.reduction
    places = [own.values[id(n)].place for n in node.family()]
    accumulates, room = own.value.along is None, own.parts

    def do(at: Moment) -> None:
        now = at.now
        block, start = now[source.place], _start(source, at.ranges)
        outs = [now[place] for place in places]
        if not accumulates or not at.before:
            reduction.start(block, axes, start, outs)
            return
        parts, offset = [], room
        for out in outs:
            parts.append(np.ndarray(out.shape, out.dtype, at.workspace, offset))
            offset += -(-out.nbytes // ALIGNMENT) * ALIGNMENT
        reduction.start(block, axes, start, parts)
        others = math.prod(block.shape[a] for a in axes) // max(at.here, 1)
        reduction.merge(outs, parts, (at.before * others, at.here * others))

    return do


@instruction.of(Scan)
def _scan(node: Scan, own: Setting) -> Instruction:
    (operand,) = node.operands
    source, place = own.values[id(operand)].place, own.value.place
    axis, ufunc, along, scanned = node.axis, node.ufunc, own.value.along, own.value.lines[node.axis]
    carry, line, first_index = own.carry, own.line, own.first_index
    dtype, reorderable = node.dtype, is_reorderable(node.ufunc, node.dtype)

    def do(at: Moment) -> None:
        block, out = at.now[source], at.now[place]
        if carry is None:
            ufunc.accumulate(block, axis, dtype, out)
            return
        kept = at.carries[carry]
        if along is not None and line is not None and line != scanned:
            # The part of it that belongs to the strip.
            low, high = at.ranges[line]
            first = first_index(low)
            across = along - (along > axis)
            kept = kept[(slice(None),) * across + (slice(low - first, high - first),)]
        before = np.expand_dims(kept, axis)
        if not at.ranges[scanned][0]:
            ufunc.accumulate(block, axis, dtype, out)
        elif reorderable:
            ufunc.accumulate(block, axis, dtype, out)
            ufunc(before, out, out=out)
        else:
            # One element after the other.
            joined = np.concatenate([before, block], axis, dtype=dtype, casting="unsafe")
            made = ufunc.accumulate(joined, axis, dtype)
            np.copyto(out, made[(slice(None),) * axis + (slice(1, None),)])
        np.copyto(kept, np.take(out, -1, axis))

    return do


@instruction.of(Lines)
def _lines(node: Lines, own: Setting) -> Instruction:
    into, axes = node.function.into, node.axes
    source, place = own.values[id(node.operands[0])].place, own.value.place

    def do(at: Moment) -> None:
        into(at.now[place], at.now[source], axes)

    return do


@instruction.of(Leaf)
def _leaf(node: Leaf, own: Setting) -> Instruction:
    fill, value, place = filler(node.source, node.view), own.value, own.value.place

    def do(at: Moment) -> None:
        out, start = at.now[place], _start(value, at.ranges)
        if out.flags.c_contiguous:
            fill(start, out)
            return
        made = np.empty(out.shape, out.dtype)
        fill(start, made)
        np.copyto(out, made)

    return do


@instruction.of(MatrixOperation)
def _nothing(node: MatrixOperation, own: Setting) -> Instruction:
    # It has steps of its own, but for an empty one.
    return lambda at: None


@instruction.of(Gather)
def _gather(node: Gather, own: Setting) -> Instruction:
    place = own.value.place

    def do(at: Moment) -> None:
        out = at.now[place]
        for piece, tile in at.gathered:
            if piece.node is node:
                piece.copy(out, tile)

    return do


def completion(value: Value) -> Instruction | None:
    """What is done when a node has been computed, from all strips; None for nothing."""
    if not isinstance(value.node, Contract):
        return None
    product, place = Product.of(value.node), value.place
    if not product.is_symmetric:
        return None
    return lambda at: product.complete(at.now[place])


def _start(value: Value, ranges: Ranges) -> tuple[int, ...]:
    return tuple([ranges[line][0] if line in ranges else 0 for line in value.lines])
