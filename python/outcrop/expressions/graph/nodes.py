"""Expressions as a graph: what an array that is not computed yet is made of.

A `Node` never changes, and two nodes that mean the same are one object, so that what is said twice
is computed once.
"""

import itertools
import math
import weakref
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np

from outcrop.arrays.source import Source
from outcrop.arrays.views import NewAxis, View
from outcrop.errors import InvalidArgumentError
from outcrop.expressions.graph.functions import Function, OfLines, Scalar
from outcrop.expressions.graph.reductions import Reduction
from outcrop.process.text import printable

__all__ = [
    "Below",
    "Contract",
    "Expanded",
    "Leaf",
    "Lines",
    "Map",
    "Node",
    "Reduce",
    "Scan",
    "Shape",
    "ancestors",
    "only",
    "remade",
]

Shape = tuple[int, ...]

_Views: TypeAlias = frozenset[tuple[int, View]] | None
"""Views of arrays, these by identity; None where some overlap, or where there are many."""

_MANY = 32
"""Views that a node is made of, at most, that are told apart."""

_T = TypeVar("_T", bound="Node")
_W = TypeVar("_W", bound=Hashable)

Below: TypeAlias = tuple[Sequence[tuple["Node", _W]], Callable[[Sequence["Node"]], "Node"]]
"""What is wished of which operands, none where it goes no further down; and what makes a node of
what has been made of those."""

_known: "weakref.WeakValueDictionary[tuple[Any, ...], Node]" = weakref.WeakValueDictionary()


class Node:
    """An array that expressions are made of. It is no `ABC`: of those, `isinstance` is slow.

    Attributes
    ----------
    shape : tuple of int
        Extents.
    dtype : numpy.dtype
        Element type.
    operands : tuple of Node
        What it is made from.
    """

    __slots__ = ("__weakref__", "_views", "dtype", "operands", "shape")

    shape: Shape
    dtype: np.dtype[Any]
    operands: "tuple[Node, ...]"
    _views: "_Views"

    @property
    def name(self) -> str:
        """For people."""
        return type(self).__name__.lower()

    def with_operands(self, operands: "Sequence[Node]") -> "Node":
        """The same of other operands, of the same shapes and types; itself, if they are its own."""
        own = zip(operands, self.operands, strict=True)
        return self if all(a is b for a, b in own) else self._made_of(operands)

    @abstractmethod
    def _made_of(self, operands: "Sequence[Node]") -> "Node":
        """The same of other operands."""

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

    @property
    def is_stencil(self) -> bool:
        """Whether it is made of several views of one array which overlap."""
        stack: list[Node] = [self]
        while stack:
            node = stack[-1]
            missing = [o for o in node.operands if not hasattr(o, "_views")]
            if not hasattr(node, "_views") and missing:
                stack += missing
                continue
            stack.pop()
            if not hasattr(node, "_views"):
                node._views = node._views_of()
        return self._views is None

    def _views_of(self) -> "_Views":
        """Those that it is made of, given those of its operands."""
        found: set[tuple[int, View]] = set()
        for views in {operand._views for operand in self.operands}:
            if views is None:
                return None
            found |= views
        if len(found) > _MANY:
            return None
        return frozenset(found) if not _meet(found) else None


def only(key: tuple[Any, ...], node: _T) -> _T:
    """The one node that this key stands for."""
    # A key names operands by their identity, which is theirs as long as the node lives.
    try:
        return _known.setdefault(key, node)  # type: ignore[return-value]
    except TypeError:
        # Something in it cannot be hashed.
        return node


def _meet(views: Iterable[tuple[int, View]]) -> bool:
    """Whether two views of one array, one of them of a part, have an element in common."""
    arrays: dict[int, list[View]] = {}
    for array, view in views:
        arrays.setdefault(array, []).append(view)
    return any(
        view.meets(other) and (view.is_part or other.is_part)
        for own in arrays.values()
        for view, other in itertools.combinations(own, 2)
    )


class Leaf(Node):
    """A view of what is stored, in memory, or made by a function of indices: as it is now."""

    __slots__ = ("source", "view")

    source: Source
    view: View

    def _views_of(self) -> _Views:
        return frozenset([(id(self.source), self.view)])

    def _made_of(self, operands: Sequence[Node]) -> Node:
        return self

    @classmethod
    def of(cls, source: Source, view: View) -> "Leaf":
        """The node of a view."""
        node = cls()
        source = source.now()
        node.source, node.view = source, view
        node.shape, node.dtype, node.operands = view.shape, source.dtype, ()
        return only((cls, id(source), view), node)

    @property
    def name(self) -> str:
        path = self.source.path
        return printable(path.name) if path else self.source.layout

    def grain(self, axis: int) -> int:
        """Along an axis, the extent of blocks whose elements are made together; mostly 1."""
        source = self.view.axes[axis]
        if self.source.grain is None or isinstance(source, NewAxis):
            return 1
        return max(self.source.grain[source] // abs(self.view.span(axis).step), 1)


class Map(Node):
    """A function of elements. Operands broadcast to the node's shape; numbers are operands, too."""

    __slots__ = ("arguments", "function")

    function: Function
    arguments: tuple["Node | Scalar", ...]

    def _made_of(self, operands: Sequence[Node]) -> Node:
        return self.applied(operands, self.shape)

    def applied(self, operands: Sequence[Node], shape: Shape) -> "Map":
        """The same function of other operands, as many: an operand that is two arguments is two."""
        given = iter(operands)
        arguments = [next(given) if isinstance(a, Node) else a for a in self.arguments]
        return Map.of(self.function, arguments, self.dtype, shape)

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
        node.shape = _broadcast(node.operands) if shape is None else shape
        node.dtype = dtype
        # Numbers that are equal need not be the same: 1 == 1.0 == True, 0.0 == -0.0.
        names = tuple(id(a) if isinstance(a, Node) else (type(a), repr(a)) for a in node.arguments)
        return only((cls, function, names, node.shape, dtype), node)

    @property
    def name(self) -> str:
        return self.function.name


def _broadcast(operands: Sequence[Node]) -> Shape:
    """The shape that operands broadcast to."""
    try:
        return np.broadcast_shapes(*(operand.shape for operand in operands))
    except ValueError as error:
        raise InvalidArgumentError(str(error)) from None


class Reduce(Node):
    """A reduction over axes, which are gone; or one of several numbers that make one up."""

    __slots__ = ("axes", "output", "reduction")

    reduction: Reduction
    axes: tuple[int, ...]
    output: int

    def _made_of(self, operands: Sequence[Node]) -> Node:
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
        return only((cls, reduction, id(operand), node.axes, output), node)

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

    def _made_of(self, operands: Sequence[Node]) -> Node:
        return Contract.of(operands[0], operands[1], self.labels, self.result)

    @classmethod
    def of(cls, one: Node, other: Node, labels: tuple[str, str], result: str) -> "Contract":
        """The node of a product; both operands have its type."""
        node = cls()
        node.operands, node.labels, node.result = (one, other), labels, result
        if node._is_with_itself() and result[0] in labels[1]:
            # It is its own transpose: one node is for both.
            node.result = result = result[::-1]
        extents = node.extents
        node.shape = tuple(extents[label] for label in result)
        node.dtype = one.dtype
        return only((cls, id(one), id(other), labels, result), node)

    @property
    def extents(self) -> dict[str, int]:
        """How many indices each label has."""
        one, other = self.operands
        return dict(zip("".join(self.labels), one.shape + other.shape, strict=True))

    @property
    def is_symmetric(self) -> bool:
        """Whether it is the product of floating numbers with their own transpose."""
        return self.dtype.kind in "fc" and self._is_with_itself()

    def _is_with_itself(self) -> bool:
        """Whether it is the product of a matrix, of any axes as rows, with its own transpose."""
        (one, other), (left, right) = self.operands, self.labels
        if one is not other or len(self.result) != 2:
            return False
        own = [pair for pair in zip(left, right, strict=True) if pair[0] != pair[1]]
        return len(own) == 1 and set(self.result) == set(own[0])

    @property
    def name(self) -> str:
        return "matmul"


class Expanded(Node):
    """All elements of another node, with axes of one element between its own.

    Nothing moves: a step that has the operand has this as well.
    """

    __slots__ = ("view",)

    view: View

    def _made_of(self, operands: Sequence[Node]) -> Node:
        return Expanded.of(operands[0], self.view)

    @classmethod
    def of(cls, operand: Node, view: View) -> "Expanded":
        """The node of such a view."""
        node = cls()
        node.operands, node.view = (operand,), view
        node.shape, node.dtype = view.shape, operand.dtype
        return only((cls, id(operand), view), node)

    @property
    def views(self) -> tuple[View, ...]:
        """What it takes of each operand."""
        return (self.view,)

    @property
    def name(self) -> str:
        return "expand_dims"


class Scan(Node):
    """A ufunc accumulated along an axis."""

    __slots__ = ("axis", "ufunc")

    ufunc: np.ufunc
    axis: int

    def _made_of(self, operands: Sequence[Node]) -> Node:
        return Scan.of(self.ufunc, operands[0], self.axis, self.dtype)

    @classmethod
    def of(cls, ufunc: np.ufunc, operand: Node, axis: int, dtype: np.dtype[Any]) -> "Scan":
        """The node of an accumulation."""
        node = cls()
        node.ufunc, node.axis, node.operands = ufunc, axis, (operand,)
        node.shape, node.dtype = operand.shape, dtype
        return only((cls, ufunc, id(operand), axis, dtype), node)

    @property
    def name(self) -> str:
        return f"{self.ufunc.__name__}.accumulate"


class Lines(Node):
    """A function of whole lines along an axis: each gives one there, which may be of any length.

    Or of whole planes along two axes, or of more.
    """

    __slots__ = ("axes", "function")

    function: OfLines
    axes: tuple[int, ...]

    def _made_of(self, operands: Sequence[Node]) -> Node:
        return self.applied(operands[0], self.axes)

    def applied(self, operand: Node, axes: Sequence[int]) -> "Lines":
        """The same function of another operand."""
        lengths = [self.shape[axis] for axis in self.axes]
        return Lines.of(self.function, operand, axes, lengths, self.dtype)

    @classmethod
    def of(
        cls,
        function: OfLines,
        operand: Node,
        axes: Sequence[int],
        lengths: Sequence[int],
        dtype: np.dtype[Any],
    ) -> "Lines":
        """The node of such a function, which makes lines of these lengths."""
        node = cls()
        node.function, node.axes, node.operands = function, tuple(axes), (operand,)
        shape = list(operand.shape)
        for axis, length in zip(axes, lengths, strict=True):
            shape[axis] = length
        node.shape, node.dtype = tuple(shape), dtype
        return only((cls, function, id(operand), node.axes, node.shape, dtype), node)

    def line(self, shape: Sequence[int]) -> int:
        """How many elements a line has, or a plane, of an array of this shape."""
        return math.prod(shape[axis] for axis in self.axes)

    @property
    def name(self) -> str:
        return self.function.name


def ancestors(roots: Iterable[Node]) -> list[Node]:
    """All nodes that these are made of, and they themselves: operands come first."""
    order: list[Node] = []
    seen: set[int] = set()
    for root in roots:
        stack = [root]
        while stack:
            node = stack[-1]
            if id(node) in seen:
                stack.pop()
                continue
            for operand in reversed(node.operands):
                if id(operand) not in seen:
                    stack.append(operand)
            if stack[-1] is node:
                stack.pop()
                seen.add(id(node))
                order.append(node)
    return order


def remade(node: Node, wish: _W, below: Callable[[Node, _W], Below[_W]]) -> Node:
    """What is wished of a node, made of what that wishes of its operands."""
    # Depth first, without recursion: what is asked of operands comes before their consumers.
    found: dict[tuple[int, _W], Node] = {}
    stack: list[tuple[Node, _W, Below[_W] | None]] = [(node, wish, None)]
    while stack:
        at, own, known = stack.pop()
        if (id(at), own) in found:
            continue
        wishes, make = known or below(at, own)
        missing: list[tuple[Node, _W, Below[_W] | None]] = [
            (o, w, None) for o, w in wishes if (id(o), w) not in found
        ]
        if missing:
            stack += [(at, own, (wishes, make)), *missing]
        else:
            found[id(at), own] = make([found[id(o), w] for o, w in wishes])
    return found[id(node), wish]
