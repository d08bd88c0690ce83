"""Operations of linear algebra as nodes: each goes through its tiles in an order of its own."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from outcrop.arrays.stored import StoreSource
from outcrop.arrays.views import NewAxis, Span
from outcrop.expressions.graph.functions import Apply, Cast, Copy
from outcrop.expressions.graph.nodes import Contract, Leaf, Map, Node, only

__all__ = [
    "Axis",
    "BlockProduct",
    "Companion",
    "MatrixOperation",
    "Solve",
    "SolveTriangular",
    "SomeColumns",
    "Straight",
    "stored_below",
    "straight",
    "taken",
    "unconjugated",
]

Axis: TypeAlias = tuple[Node, int]
"""An axis of a node."""


@dataclass(frozen=True)
class Straight:
    """A view of what is stored or given box by box, which tiles take as it is.

    Attributes
    ----------
    leaf : Leaf
        What it is a view of.
    dtype : numpy.dtype
        What its elements count as.
    conjugate : bool
        Whether their conjugates are meant.
    """

    leaf: Leaf
    dtype: np.dtype[Any]
    conjugate: bool


def straight(node: Node) -> Straight | None:
    """What a node is, where tiles of it need no steps of their own."""
    found, conjugate, casts = node, False, 0
    while isinstance(found, Map) and len(found.arguments) == len(found.operands) == 1:
        (below,) = found.operands
        if below.shape != found.shape:
            return None
        if _is_conjugate(found):
            conjugate ^= found.dtype.kind == "c"
        elif isinstance(found.function, Cast) and not casts:
            casts += 1
        else:
            return None
        found = below
    if not isinstance(found, Leaf):
        return None
    if np.promote_types(found.dtype, node.dtype) != node.dtype:
        # What loses something is not converted as it is loaded, which says nothing of overflow.
        return None
    if isinstance(found.source, StoreSource):
        view = found.view
        forward = all(not isinstance(s, Span) or s.step == 1 for s in view.selectors)
        if not forward or any(isinstance(a, NewAxis) and a.length != 1 for a in view.axes):
            return None
    return Straight(found, node.dtype, conjugate)


def stored_below(operand: Node) -> Leaf | None:
    """The largest of what is stored, of those that elementwise functions make an operand of."""
    leaves: list[Leaf] = []
    stack, seen = [operand], set()
    while stack:
        node = stack.pop()
        if node.shape != operand.shape or id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Map):
            stack += node.operands
        elif isinstance(node, Leaf) and isinstance(node.source, StoreSource):
            leaves.append(node)
    return max(leaves, key=lambda leaf: leaf.nbytes, default=None)


def _is_conjugate(node: Node) -> bool:
    return (
        isinstance(node, Map)
        and isinstance(node.function, Apply)
        and node.function.ufunc is np.conjugate
        and not node.function.options
    )


def taken(node: Node) -> Node:
    """What is taken tile by tile: tiles of what is stored in another order are made first."""
    if isinstance(node, Leaf) and straight(node) is None:
        return Map.of(Copy(), [node], node.dtype)
    return node


def unconjugated(node: Node) -> tuple[Node, bool]:
    """What an operand is, or is the conjugate of: products and solutions take it as that."""
    if isinstance(node, Map) and isinstance(node.function, Cast):
        below, conjugate = unconjugated(node.operands[0])
        return (Map.of(Cast(), [below], node.dtype), True) if conjugate else (node, False)
    if _is_conjugate(node):
        below, conjugate = unconjugated(node.operands[0])
        return below, not conjugate
    return node, False


class MatrixOperation(Node):
    """An operation on matrices, whose result is computed in tiles by steps in an order of its own.

    Operands are taken from tiles, whatever they are made of.
    """

    __slots__ = ()

    @property
    def conjugates(self) -> tuple[bool, ...]:
        """Which operands count as their conjugates."""
        return (False,) * len(self.operands)

    @property
    @abstractmethod
    def taken_once(self) -> tuple[bool, ...]:
        """Of which operands each tile is taken once, and not again and again.

        Where the last one's are, the result may be made in their place: of a result that is all
        new, it has to be False.
        """

    @abstractmethod
    def alike(self) -> list[tuple[Axis, Axis]]:
        """Axes, of operands and its own, that have to be cut alike."""


class BlockProduct(MatrixOperation):
    """The product of two matrices, each as it is or transposed, and of conjugates."""

    __slots__ = ("_conjugates", "transposed")

    transposed: tuple[bool, bool]
    _conjugates: tuple[bool, bool]

    @classmethod
    def of(
        cls,
        one: Node,
        other: Node,
        transposed: tuple[bool, bool],
        conjugates: tuple[bool, bool] = (False, False),
    ) -> "BlockProduct":
        """The node of a product; both operands have its type."""
        node = cls()
        (one, first), (other, second) = unconjugated(one), unconjugated(other)
        node.operands = taken(one), taken(other)
        node.transposed = transposed
        node._conjugates = first != conjugates[0], second != conjugates[1]
        rows, columns = int(transposed[0]), 1 - int(transposed[1])
        node.shape = one.shape[rows], other.shape[columns]
        node.dtype = one.dtype
        names = tuple(map(id, node.operands))
        return only((cls, names, transposed, node._conjugates), node)

    @classmethod
    def made_of(cls, product: Contract) -> "BlockProduct | None":
        """The same as a sum of products of elements, where that is a product of two matrices."""
        (one, other), (left, right) = product.operands, product.labels
        if one.ndim != 2 or other.ndim != 2 or product.ndim != 2:
            return None
        if product.result[0] in right:
            (one, other), (left, right) = (other, one), (right, left)
        rows, columns = product.result[0], product.result[1]
        if rows not in left or columns not in right or rows in right or columns in left:
            return None
        return cls.of(one, other, (left[0] != rows, right[1] != columns))

    def _made_of(self, operands: Sequence[Node]) -> Node:
        return BlockProduct.of(operands[0], operands[1], self.transposed, self._conjugates)

    @property
    def conjugates(self) -> tuple[bool, ...]:
        return self._conjugates

    @property
    def taken_once(self) -> tuple[bool, ...]:
        return False, False

    @property
    def name(self) -> str:
        return "matmul"

    def alike(self) -> list[tuple[Axis, Axis]]:
        a, b = self.operands
        (rows, depth), (inner, columns) = (
            (1, 0) if turned else (0, 1) for turned in self.transposed
        )
        return [((a, rows), (self, 0)), ((b, columns), (self, 1)), ((a, depth), (b, inner))]


class Solve(MatrixOperation):
    """The solution of a system with any matrix, or one that is Hermitian and positive definite."""

    __slots__ = ("positive_definite",)

    positive_definite: bool

    @classmethod
    def of(cls, matrix: Node, given: Node, *, positive_definite: bool) -> "Solve":
        """The node of a solution; both operands have its type."""
        node = cls()
        node.operands = taken(matrix), taken(given)
        node.positive_definite = positive_definite
        node.shape, node.dtype = given.shape, given.dtype
        return only((cls, *map(id, node.operands), positive_definite), node)

    def _made_of(self, operands: Sequence[Node]) -> Node:
        definite = self.positive_definite
        return Solve.of(operands[0], operands[1], positive_definite=definite)

    @property
    def taken_once(self) -> tuple[bool, ...]:
        return (True,) * len(self.operands)

    def alike(self) -> list[tuple[Axis, Axis]]:
        # Of what is factored with pivots, tiles may be higher than wide.
        return _alike_in_system(self, is_square=self.positive_definite)


class Companion(MatrixOperation):
    """Another result of the operation that is its operand, whose steps compute both."""

    __slots__ = ()

    @property
    def taken_once(self) -> tuple[bool, ...]:
        return (True,) * len(self.operands)

    def alike(self) -> list[tuple[Axis, Axis]]:
        (whole,) = self.operands
        return [((whole, 0), (self, 0))]


class SomeColumns(MatrixOperation):
    """Columns of a factor, or rows of an upper one, of which those before are done.

    Its last operand are these columns of what is factored; those before it are what is done.

    Attributes
    ----------
    tile : tuple of int
        The tiles of all of the factor, into which these columns are cut, too.
    """

    __slots__ = ("tile",)

    tile: tuple[int, int]

    @property
    def taken_once(self) -> tuple[bool, ...]:
        return (*(False for _ in self.operands[1:]), True)


class SolveTriangular(MatrixOperation):
    """The solution of a system with a triangle, as it is or transposed, or its conjugate."""

    __slots__ = ("_conjugate", "lower", "transposed", "unit")

    lower: bool
    transposed: bool
    unit: bool
    _conjugate: bool

    @classmethod
    def of(
        cls,
        triangle: Node,
        given: Node,
        *,
        lower: bool,
        transposed: bool,
        conjugate: bool,
        unit: bool,
    ) -> "SolveTriangular":
        """The node of a solution; both operands have its type. `lower`: the operand's half."""
        node = cls()
        triangle, turned = unconjugated(triangle)
        node.operands = taken(triangle), taken(given)
        node.lower, node.transposed, node.unit = lower, transposed, unit
        node._conjugate = conjugate != turned
        node.shape, node.dtype = given.shape, given.dtype
        names = tuple(map(id, node.operands))
        return only((cls, names, lower, transposed, node._conjugate, unit), node)

    def _made_of(self, operands: Sequence[Node]) -> Node:
        return SolveTriangular.of(
            operands[0],
            operands[1],
            lower=self.lower,
            transposed=self.transposed,
            conjugate=self._conjugate,
            unit=self.unit,
        )

    @property
    def taken_once(self) -> tuple[bool, ...]:
        return False, True

    @property
    def name(self) -> str:
        return "solve_triangular"

    @property
    def conjugates(self) -> tuple[bool, ...]:
        return self._conjugate, False

    def alike(self) -> list[tuple[Axis, Axis]]:
        return _alike_in_system(self)


def _alike_in_system(node: Node, *, is_square: bool = True) -> list[tuple[Axis, Axis]]:
    """Of a system, its rows and the right-hand sides' columns; of square tiles, both axes."""
    matrix, given = node.operands
    own: list[tuple[Axis, Axis]] = [((given, axis), (node, axis)) for axis in range(node.ndim)]
    square: list[tuple[Axis, Axis]] = [((matrix, 1), (node, 0))] if is_square else []
    return [*own, ((matrix, 0), (node, 0)), *square]
