"""Expressions as a graph: what an array that is not computed yet is made of.

A `Node` never changes, and two nodes that mean the same are one object, so that what is said twice
is computed once.
"""

import math
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from outcrop._source import Source
from outcrop.expressions.functions import Function, Scalar
from outcrop.expressions.reductions import Reduction
from outcrop.views import View

__all__ = [
    "Alias",
    "Contract",
    "Gather",
    "Join",
    "Leaf",
    "Map",
    "Node",
    "Reduce",
    "Scan",
    "Select",
    "Take",
    "ancestors",
]

Shape = tuple[int, ...]
_T = TypeVar("_T", bound="Node")
_known: "weakref.WeakValueDictionary[tuple[Any, ...], Node]" = weakref.WeakValueDictionary()


class Node:
    """An array that expressions are made of.

    Attributes
    ----------
    shape : tuple of int
        Extents.
    dtype : numpy.dtype
        Element type.
    operands : tuple of Node
        What it is made from.
    """

    __slots__ = ("__weakref__", "dtype", "operands", "shape")

    shape: Shape
    dtype: np.dtype[Any]
    operands: "tuple[Node, ...]"

    @property
    def name(self) -> str:
        """For people."""
        return type(self).__name__.lower()

    def with_operands(self, operands: "Sequence[Node]") -> "Node":
        """The same of other operands, of the same shapes and types."""
        raise NotImplementedError

    @property
    def ndim(self) -> int:
        """How many axes it has."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of its elements."""
        return self.size * self.dtype.itemsize


def _only(key: tuple[Any, ...], node: _T) -> _T:
    """The one node that this key stands for."""
    # A key names operands by their identity, which is theirs as long as the node lives.
    try:
        return _known.setdefault(key, node)  # type: ignore[return-value]
    except TypeError:
        # Something in it cannot be hashed.
        return node


class Leaf(Node):
    """A view of what is stored, in memory, or made by a function of indices."""

    __slots__ = ("source", "view")

    source: Source
    view: View

    @classmethod
    def of(cls, source: Source, view: View) -> "Leaf":
        """The node of a view."""
        node = cls()
        node.source, node.view = source, view
        node.shape, node.dtype, node.operands = view.shape, source.dtype, ()
        return _only((cls, id(source), view), node)

    @property
    def name(self) -> str:
        return self.source.path.name if self.source.path else self.source.layout


class Map(Node):
    """A function of elements. Operands broadcast to the node's shape; numbers are operands, too."""

    __slots__ = ("arguments", "function")

    function: Function
    arguments: tuple["Node | Scalar", ...]

    def with_operands(self, operands: Sequence[Node]) -> Node:
        given = iter(operands)
        arguments = [next(given) if isinstance(a, Node) else a for a in self.arguments]
        return Map.of(self.function, arguments, self.dtype, self.shape)

    @classmethod
    def of(
        cls,
        function: Function,
        arguments: Sequence["Node | Scalar"],
        dtype: np.dtype[Any],
        shape: Shape | None = None,
    ) -> "Map":
        """The node of a function applied to arguments."""
        node = cls()
        node.function, node.arguments = function, tuple(arguments)
        node.operands = tuple(a for a in arguments if isinstance(a, Node))
        node.shape = (
            np.broadcast_shapes(*(a.shape for a in node.operands)) if shape is None else shape
        )
        node.dtype = dtype
        # Numbers that are equal need not be the same: 1 == 1.0 == True, 0.0 == -0.0.
        names = tuple(id(a) if isinstance(a, Node) else (type(a), repr(a)) for a in node.arguments)
        return _only((cls, function, names, node.shape, dtype), node)

    @property
    def name(self) -> str:
        return self.function.name


class Reduce(Node):
    """A reduction over axes, which are gone; or one of several numbers that make one up."""

    __slots__ = ("axes", "output", "reduction")

    reduction: Reduction
    axes: tuple[int, ...]
    output: int

    def with_operands(self, operands: Sequence[Node]) -> Node:
        return Reduce.of(self.reduction, operands[0], self.axes, self.output)

    @classmethod
    def of(
        cls, reduction: Reduction, operand: Node, axes: Iterable[int], output: int = 0
    ) -> "Reduce":
        """The node of a reduction."""
        node = cls()
        node.reduction, node.axes, node.output = reduction, tuple(sorted(axes)), output
        node.operands = (operand,)
        node.shape = tuple(n for a, n in enumerate(operand.shape) if a not in node.axes)
        node.dtype = reduction.dtypes(operand.dtype)[output]
        return _only((cls, reduction, id(operand), node.axes, output), node)

    def family(self) -> "tuple[Reduce, ...]":
        """Give the nodes of all numbers that make up the result, this one among them."""
        (operand,) = self.operands
        count = len(self.reduction.dtypes(operand.dtype))
        return tuple(
            self if i == self.output else Reduce.of(self.reduction, operand, self.axes, i)
            for i in range(count)
        )

    @property
    def name(self) -> str:
        return self.reduction.name


class Contract(Node):
    """The sum over products of elements: axes with one label run together.

    Labels that the result does not have are summed over. No operand has a label twice.
    """

    __slots__ = ("labels", "result")

    labels: tuple[str, str]
    result: str

    def with_operands(self, operands: Sequence[Node]) -> Node:
        return Contract.of(operands[0], operands[1], self.labels, self.result)

    @classmethod
    def of(cls, one: Node, other: Node, labels: tuple[str, str], result: str) -> "Contract":
        """The node of a product; both operands have its type."""
        node = cls()
        node.operands, node.labels, node.result = (one, other), labels, result
        extents = dict(zip(labels[0] + labels[1], one.shape + other.shape, strict=True))
        node.shape = tuple(extents[label] for label in result)
        node.dtype = one.dtype
        return _only((cls, id(one), id(other), labels, result), node)

    @property
    def name(self) -> str:
        return "matmul"


class Scan(Node):
    """A ufunc accumulated along an axis."""

    __slots__ = ("axis", "ufunc")

    ufunc: np.ufunc
    axis: int

    def with_operands(self, operands: Sequence[Node]) -> Node:
        return Scan.of(self.ufunc, operands[0], self.axis, self.dtype)

    @classmethod
    def of(cls, ufunc: np.ufunc, operand: Node, axis: int, dtype: np.dtype[Any]) -> "Scan":
        """The node of an accumulation."""
        node = cls()
        node.ufunc, node.axis, node.operands = ufunc, axis, (operand,)
        node.shape, node.dtype = operand.shape, dtype
        return _only((cls, ufunc, id(operand), axis, dtype), node)

    @property
    def name(self) -> str:
        return f"{self.ufunc.__name__}.accumulate"


class Gather(Node):
    """Elements from elsewhere in the operands, box by box."""

    __slots__ = ()

    def boxes(self, start: Sequence[int], shape: Sequence[int]) -> "Iterator[Piece]":
        """Where the elements of a box of this node come from."""
        raise NotImplementedError


Piece = tuple[int, View, tuple[slice, ...]]
"""An operand's number, a view of the operand, and where in the box its elements go."""


class Select(Gather):
    """A view of something that has to be computed first."""

    __slots__ = ("view",)

    view: View

    def with_operands(self, operands: Sequence[Node]) -> Node:
        return Select.of(operands[0], self.view)

    @classmethod
    def of(cls, operand: Node, view: View) -> "Select":
        """The node of a view."""
        node = cls()
        node.operands, node.view = (operand,), view
        node.shape, node.dtype = view.shape, operand.dtype
        return _only((cls, id(operand), view), node)

    def boxes(self, start: Sequence[int], shape: Sequence[int]) -> Iterator[Piece]:
        yield 0, self.view.part(start, shape), tuple(slice(0, n) for n in shape)


class Alias(Gather):
    """The same elements in a place of their own, where an expression needs them cut in two ways."""

    __slots__ = ()

    def with_operands(self, operands: Sequence[Node]) -> Node:
        return Alias.of(operands[0])

    @classmethod
    def of(cls, operand: Node) -> Node:
        """A new node. What is stored, or in memory, is simply there twice."""
        if isinstance(operand, Leaf):
            leaf = Leaf()
            leaf.source, leaf.view, leaf.operands = operand.source, operand.view, ()
            leaf.shape, leaf.dtype = operand.shape, operand.dtype
            return leaf
        node = cls()
        node.operands, node.shape, node.dtype = (operand,), operand.shape, operand.dtype
        return node

    def boxes(self, start: Sequence[int], shape: Sequence[int]) -> Iterator[Piece]:
        whole = View.whole(self.shape)
        yield 0, whole.part(start, shape), tuple(slice(0, n) for n in shape)


class Join(Gather):
    """Arrays one after the other along an axis."""

    __slots__ = ("axis",)

    axis: int

    def with_operands(self, operands: Sequence[Node]) -> Node:
        return Join.of(operands, self.axis)

    @classmethod
    def of(cls, operands: Sequence[Node], axis: int) -> "Join":
        """The node of arrays of one type."""
        node = cls()
        node.operands, node.axis = tuple(operands), axis
        extent = sum(operand.shape[axis] for operand in operands)
        shape = list(operands[0].shape)
        shape[axis] = extent
        node.shape, node.dtype = tuple(shape), operands[0].dtype
        return _only((cls, axis, *map(id, operands)), node)

    @property
    def name(self) -> str:
        return "concatenate"

    def boxes(self, start: Sequence[int], shape: Sequence[int]) -> Iterator[Piece]:
        axis, first = self.axis, 0
        for i, operand in enumerate(self.operands):
            low = max(start[axis], first)
            high = min(start[axis] + shape[axis], first + operand.shape[axis])
            if low < high:
                at, extents = list(start), list(shape)
                at[axis], extents[axis] = low - first, high - low
                to = [slice(0, n) for n in shape]
                to[axis] = slice(low - start[axis], high - start[axis])
                yield i, View.whole(operand.shape).part(at, extents), tuple(to)
            first += operand.shape[axis]


class Take(Gather):
    """Elements at indices along an axis."""

    __slots__ = ("axis", "indices")

    axis: int
    indices: np.ndarray[Any, np.dtype[np.int64]]

    def with_operands(self, operands: Sequence[Node]) -> Node:
        return Take.of(operands[0], self.indices, self.axis)

    @classmethod
    def of(cls, operand: Node, indices: Any, axis: int) -> "Take":
        """The node of what is at non-negative indices."""
        node = cls()
        node.operands, node.indices, node.axis = (operand,), indices, axis
        shape = list(operand.shape)
        shape[axis] = len(indices)
        node.shape, node.dtype = tuple(shape), operand.dtype
        return node

    def boxes(self, start: Sequence[int], shape: Sequence[int]) -> Iterator[Piece]:
        axis = self.axis
        wanted = self.indices[start[axis] : start[axis] + shape[axis]]
        # Runs of indices that follow one another are one box.
        breaks = np.flatnonzero(np.diff(wanted) != 1) + 1
        for low, high in zip([0, *breaks], [*breaks, len(wanted)], strict=True):
            at, extents = list(start), list(shape)
            at[axis], extents[axis] = int(wanted[low]), int(high - low)
            to = [slice(0, n) for n in shape]
            to[axis] = slice(int(low), int(high))
            yield 0, View.whole(self.operands[0].shape).part(at, extents), tuple(to)


def ancestors(roots: Iterable[Node]) -> list[Node]:
    """All nodes that these are made of, and they themselves: operands come first."""
    order: list[Node] = []
    seen: set[int] = set()
    for root in roots:
        stack: list[tuple[Node, int]] = [(root, 0)]
        while stack:
            node, i = stack.pop()
            if i == 0:
                if id(node) in seen:
                    continue
                seen.add(id(node))
            if i < len(node.operands):
                stack.append((node, i + 1))
                if id(node.operands[i]) not in seen:
                    stack.append((node.operands[i], 0))
            else:
                order.append(node)
    return order
