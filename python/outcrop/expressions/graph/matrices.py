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
    "LDL",
    "LU",
    "BlockProduct",
    "Cholesky",
    "CholeskyColumns",
    "CholeskyInverse",
    "CholeskyUpdate",
    "Companion",
    "ExchangeRows",
    "LDLDiagonal",
    "LDLRows",
    "LDLSolve",
    "LUSolve",
    "MatrixOperation",
    "Permutation",
    "Pivots",
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


class Cholesky(MatrixOperation):
    """The Cholesky factor of a matrix of which one half is read."""

    __slots__ = ("upper",)

    upper: bool

    @classmethod
    def of(cls, operand: Node, *, upper: bool) -> "Cholesky":
        """The node of a factor."""
        node = cls()
        node.operands, node.upper = (taken(operand),), upper
        node.shape, node.dtype = operand.shape, operand.dtype
        return only((cls, id(node.operands[0]), upper), node)

    def _made_of(self, operands: Sequence[Node]) -> Node:
        return Cholesky.of(operands[0], upper=self.upper)

    @property
    def taken_once(self) -> tuple[bool, ...]:
        return (True,) * len(self.operands)

    def alike(self) -> list[tuple[Axis, Axis]]:
        (a,) = self.operands
        return [((a, 0), (self, 0)), ((a, 1), (self, 1)), ((self, 0), (self, 1))]


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


class LU(MatrixOperation):
    """Both factors of ``P A = L U`` in one matrix, with pivots as its companion."""

    __slots__ = ()

    @classmethod
    def of(cls, operand: Node) -> "LU":
        """The node of the factors."""
        node = cls()
        node.operands = (taken(operand),)
        node.shape, node.dtype = operand.shape, operand.dtype
        return only((cls, id(node.operands[0])), node)

    def _made_of(self, operands: Sequence[Node]) -> Node:
        return LU.of(operands[0])

    @property
    def name(self) -> str:
        return "lu"

    @property
    def taken_once(self) -> tuple[bool, ...]:
        return (True,) * len(self.operands)

    def alike(self) -> list[tuple[Axis, Axis]]:
        (a,) = self.operands
        return [((a, 0), (self, 0)), ((a, 1), (self, 1))]


class Companion(MatrixOperation):
    """Another result of the operation that is its operand, whose steps compute both."""

    __slots__ = ()

    @property
    def taken_once(self) -> tuple[bool, ...]:
        return (True,) * len(self.operands)

    def alike(self) -> list[tuple[Axis, Axis]]:
        (whole,) = self.operands
        return [((whole, 0), (self, 0))]


class Pivots(Companion):
    """The pivots of a factorization: of each column, the row with which its own is exchanged."""

    __slots__ = ()

    @classmethod
    def of(cls, factors: Node) -> "Pivots":
        """The node of the pivots of factors."""
        node = cls()
        node.operands = (factors,)
        count = factors.pivots if isinstance(factors, LUColumns) else min(factors.shape)
        node.shape, node.dtype = (count,), np.dtype(np.int32)
        return only((cls, id(factors)), node)

    def _made_of(self, operands: Sequence[Node]) -> Node:
        return Pivots.of(operands[0])

    def alike(self) -> list[tuple[Axis, Axis]]:
        (factors,) = self.operands
        return [((factors, 1), (self, 0))]


class Permutation(Companion):
    """Of each row of a matrix, the row of its factors' product that it is."""

    __slots__ = ()

    @classmethod
    def of(cls, factors: Node) -> "Permutation":
        """The node of the permutation of factors."""
        node = cls()
        node.operands = (factors,)
        node.shape, node.dtype = factors.shape[:1], np.dtype(np.int64)
        return only((cls, id(factors)), node)

    def _made_of(self, operands: Sequence[Node]) -> Node:
        return Permutation.of(operands[0])


class CholeskyInverse(MatrixOperation):
    """The inverse of a matrix from its Cholesky factor."""

    __slots__ = ("upper",)

    upper: bool

    @classmethod
    def of(cls, factor: Node, *, upper: bool) -> "CholeskyInverse":
        """The node of the inverse."""
        node = cls()
        node.operands, node.upper = (taken(factor),), upper
        node.shape, node.dtype = factor.shape, factor.dtype
        return only((cls, id(node.operands[0]), upper), node)

    def _made_of(self, operands: Sequence[Node]) -> Node:
        return CholeskyInverse.of(operands[0], upper=self.upper)

    @property
    def name(self) -> str:
        return "cholesky_inverse"

    @property
    def taken_once(self) -> tuple[bool, ...]:
        return (False,)

    def alike(self) -> list[tuple[Axis, Axis]]:
        (a,) = self.operands
        return [((a, 0), (self, 0)), ((a, 1), (self, 1)), ((self, 0), (self, 1))]


class CholeskyUpdate(MatrixOperation):
    """The Cholesky factor of a matrix to which ``V V^H`` is added, or from which it is taken."""

    __slots__ = ("down", "upper")

    upper: bool
    down: bool

    @classmethod
    def of(cls, change: Node, factor: Node, *, upper: bool, down: bool) -> "CholeskyUpdate":
        """The node of the factor; both operands, V and what it was, have its type."""
        node = cls()
        node.operands = taken(change), taken(factor)
        node.upper, node.down = upper, down
        node.shape, node.dtype = factor.shape, factor.dtype
        return only((cls, *map(id, node.operands), upper, down), node)

    def _made_of(self, operands: Sequence[Node]) -> Node:
        return CholeskyUpdate.of(operands[0], operands[1], upper=self.upper, down=self.down)

    @property
    def name(self) -> str:
        return "cholesky_update"

    @property
    def taken_once(self) -> tuple[bool, ...]:
        return (True,) * len(self.operands)

    def alike(self) -> list[tuple[Axis, Axis]]:
        change, factor = self.operands
        own: list[tuple[Axis, Axis]] = [((factor, axis), (self, axis)) for axis in (0, 1)]
        return [*own, ((self, 0), (self, 1)), ((change, 0), (self, 0))]


class LDL(MatrixOperation):
    """L of a symmetric or Hermitian matrix, or U, with D and its rows as its companions."""

    __slots__ = ("hermitian", "upper")

    upper: bool
    hermitian: bool

    @classmethod
    def of(cls, operand: Node, *, upper: bool, hermitian: bool) -> "LDL":
        """The node of a factor; of a real matrix, `hermitian` says nothing."""
        node = cls()
        node.operands = (taken(operand),)
        node.upper, node.hermitian = upper, hermitian and operand.dtype.kind == "c"
        node.shape, node.dtype = operand.shape, operand.dtype
        return only((cls, id(node.operands[0]), upper, node.hermitian), node)

    def _made_of(self, operands: Sequence[Node]) -> Node:
        return LDL.of(operands[0], upper=self.upper, hermitian=self.hermitian)

    @property
    def name(self) -> str:
        return "ldl"

    @property
    def taken_once(self) -> tuple[bool, ...]:
        return (True,) * len(self.operands)

    def alike(self) -> list[tuple[Axis, Axis]]:
        (a,) = self.operands
        return [((a, 0), (self, 0)), ((a, 1), (self, 1)), ((self, 0), (self, 1))]


class LDLDiagonal(Companion):
    """D of a factorization, or of some columns of it: its diagonal, and what is below it."""

    __slots__ = ()

    @classmethod
    def of(cls, factor: Node) -> "LDLDiagonal":
        """The node of D."""
        node = cls()
        node.operands = (factor,)
        node.shape, node.dtype = (_columns_of(factor), 2), factor.dtype
        return only((cls, id(factor)), node)

    def _made_of(self, operands: Sequence[Node]) -> Node:
        return LDLDiagonal.of(operands[0])

    def alike(self) -> list[tuple[Axis, Axis]]:
        return [_columns_alike(self)]


class LDLRows(Companion):
    """The rows that those of L are, those with which each row is rotated, and a seal."""

    __slots__ = ()

    @classmethod
    def of(cls, factor: Node) -> "LDLRows":
        """The node of the rows of a factor."""
        node = cls()
        node.operands = (factor,)
        node.shape, node.dtype = (_columns_of(factor), 4), np.dtype(np.int32)
        return only((cls, id(factor)), node)

    def _made_of(self, operands: Sequence[Node]) -> Node:
        return LDLRows.of(operands[0])

    def alike(self) -> list[tuple[Axis, Axis]]:
        return [_columns_alike(self)]


def _columns_of(factor: Node) -> int:
    """How many columns of L there are, or rows of U."""
    return factor.shape[_columns_axis(factor)]


def _columns_axis(factor: Node) -> int:
    return 1 if isinstance(factor, LDLColumns) and not factor.upper else 0


def _columns_alike(beside: Companion) -> tuple[Axis, Axis]:
    (factor,) = beside.operands
    return (factor, _columns_axis(factor)), (beside, 0)


class LDLSolve(MatrixOperation):
    """The solution of a system with what a symmetric or Hermitian matrix was factored into."""

    __slots__ = ("hermitian", "upper")

    upper: bool
    hermitian: bool

    @classmethod
    def of(
        cls, factors: Sequence[Node], given: Node, *, upper: bool, hermitian: bool
    ) -> "LDLSolve":
        """The node of a solution; `factors` are L or U and D, which have its type, and rows."""
        node = cls()
        node.operands = (*map(taken, factors), taken(given))
        node.upper, node.hermitian = upper, hermitian and given.dtype.kind == "c"
        node.shape, node.dtype = given.shape, given.dtype
        return only((cls, *map(id, node.operands), upper, node.hermitian), node)

    def _made_of(self, operands: Sequence[Node]) -> Node:
        return LDLSolve.of(operands[:-1], operands[-1], upper=self.upper, hermitian=self.hermitian)

    @property
    def name(self) -> str:
        return "ldl_solve"

    @property
    def taken_once(self) -> tuple[bool, ...]:
        return False, False, False, True

    def alike(self) -> list[tuple[Axis, Axis]]:
        factor, d, order, given = self.operands
        own: list[tuple[Axis, Axis]] = [((given, axis), (self, axis)) for axis in range(self.ndim)]
        rows: Axis = (self, 0)
        matrices = [((factor, 0), rows), ((factor, 1), rows)]
        return [*own, *matrices, ((d, 0), rows), ((order, 0), rows)]


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


class CholeskyColumns(SomeColumns):
    """Columns of a Cholesky factor, or rows of an upper one."""

    __slots__ = ("upper",)

    upper: bool

    @classmethod
    def of(
        cls, done: Sequence[Node], operand: Node, *, upper: bool, tile: tuple[int, int]
    ) -> "CholeskyColumns":
        """The node of the next columns; `done` is nothing, or what is before them."""
        node = cls()
        node.operands, node.upper = (*map(taken, done), taken(operand)), upper
        node.shape, node.dtype, node.tile = operand.shape, operand.dtype, tile
        return only((cls, *map(id, node.operands), upper, tile), node)

    def _made_of(self, operands: Sequence[Node]) -> Node:
        upper, tile = self.upper, self.tile
        return CholeskyColumns.of(operands[:-1], operands[-1], upper=upper, tile=tile)

    def alike(self) -> list[tuple[Axis, Axis]]:
        *done, a = self.operands
        found: list[tuple[Axis, Axis]] = [((m, i), (self, i)) for m in (*done, a) for i in (0, 1)]
        return [*found, ((self, 0), (self, 1))]


class LDLRotated(MatrixOperation):
    """The matrix whose columns `LDLColumns` are of: rows and columns rotated with others."""

    __slots__ = ("hermitian", "upper")

    upper: bool
    hermitian: bool

    @classmethod
    def of(cls, operand: Node, *, upper: bool, hermitian: bool) -> "LDLRotated":
        """The node of the matrix, of which one half counts."""
        node = cls()
        node.operands = (taken(operand),)
        node.upper, node.hermitian = upper, hermitian
        node.shape, node.dtype = operand.shape, operand.dtype
        return only((cls, id(node.operands[0]), upper, hermitian), node)

    def _made_of(self, operands: Sequence[Node]) -> Node:
        return LDLRotated.of(operands[0], upper=self.upper, hermitian=self.hermitian)

    @property
    def name(self) -> str:
        return "ldl_rotated"

    @property
    def taken_once(self) -> tuple[bool, ...]:
        return (True,) * len(self.operands)

    def alike(self) -> list[tuple[Axis, Axis]]:
        (a,) = self.operands
        return [((a, 0), (self, 0)), ((a, 1), (self, 1)), ((self, 0), (self, 1))]


class LDLColumns(SomeColumns):
    """Columns of L, or rows of U, whose rows are in the order that they have meanwhile."""

    __slots__ = ("hermitian", "upper")

    upper: bool
    hermitian: bool

    @classmethod
    def of(
        cls,
        done: Sequence[Node],
        operand: Node,
        *,
        upper: bool,
        hermitian: bool,
        tile: tuple[int, int],
    ) -> "LDLColumns":
        """The node of the next columns; `done` is nothing, or what is before them, and its D."""
        node = cls()
        node.operands = (*map(taken, done), taken(operand))
        node.upper, node.hermitian = upper, hermitian
        node.shape, node.dtype, node.tile = operand.shape, operand.dtype, tile
        return only((cls, *map(id, node.operands), upper, hermitian, tile), node)

    def _made_of(self, operands: Sequence[Node]) -> Node:
        kind = {"upper": self.upper, "hermitian": self.hermitian}
        return LDLColumns.of(operands[:-1], operands[-1], **kind, tile=self.tile)

    @property
    def name(self) -> str:
        return "ldl_columns"

    def alike(self) -> list[tuple[Axis, Axis]]:
        *done, a = self.operands
        found: list[tuple[Axis, Axis]] = [((a, i), (self, i)) for i in (0, 1)]
        if done:
            factor, d = done
            found += [((factor, i), (self, i)) for i in (0, 1)]
            found.append(((d, 0), (self, 0)))
        return [*found, ((self, 0), (self, 1))]


class LDLInOrder(MatrixOperation):
    """L, or U, with its rows in order, of a factor column by column."""

    __slots__ = ("upper",)

    upper: bool

    @classmethod
    def of(cls, rows: Node, factor: Node, *, upper: bool) -> "LDLInOrder":
        """The node of the matrix."""
        node = cls()
        node.operands, node.upper = (taken(rows), taken(factor)), upper
        node.shape, node.dtype = factor.shape, factor.dtype
        return only((cls, *map(id, node.operands), upper), node)

    def _made_of(self, operands: Sequence[Node]) -> Node:
        return LDLInOrder.of(operands[0], operands[1], upper=self.upper)

    @property
    def name(self) -> str:
        return "ldl_in_order"

    @property
    def taken_once(self) -> tuple[bool, ...]:
        return False, True

    def alike(self) -> list[tuple[Axis, Axis]]:
        rows, factor = self.operands
        own: list[tuple[Axis, Axis]] = [((factor, axis), (self, axis)) for axis in (0, 1)]
        return [*own, ((rows, 0), (self, 0)), ((self, 0), (self, 1))]


class LUColumns(SomeColumns):
    """Columns of L and U, whose rows are in the order that they have when these are factored.

    Attributes
    ----------
    pivots : int
        How many there are.
    """

    __slots__ = ("pivots",)

    pivots: int

    @classmethod
    def of(
        cls, done: Sequence[Node], operand: Node, *, pivots: int, tile: tuple[int, int]
    ) -> "LUColumns":
        """The node of the next columns; `done` is nothing, or what is before them, and pivots."""
        node = cls()
        node.operands, node.pivots = (*map(taken, done), taken(operand)), pivots
        node.shape, node.dtype, node.tile = operand.shape, operand.dtype, tile
        return only((cls, *map(id, node.operands), pivots, tile), node)

    def _made_of(self, operands: Sequence[Node]) -> Node:
        pivots, tile = self.pivots, self.tile
        return LUColumns.of(operands[:-1], operands[-1], pivots=pivots, tile=tile)

    def alike(self) -> list[tuple[Axis, Axis]]:
        *done, a = self.operands
        found: list[tuple[Axis, Axis]] = [((a, i), (self, i)) for i in (0, 1)]
        if done:
            lu, pivots = done
            found += [((lu, 0), (self, 0)), ((lu, 1), (self, 1)), ((pivots, 0), (self, 1))]
        return found


class LUInOrder(MatrixOperation):
    """L and U with the rows of L in the order of all pivots, of factors column by column."""

    __slots__ = ()

    @classmethod
    def of(cls, pivots: Node, factors: Node) -> "LUInOrder":
        """The node of the matrix."""
        node = cls()
        node.operands = taken(pivots), taken(factors)
        node.shape, node.dtype = factors.shape, factors.dtype
        return only((cls, *map(id, node.operands)), node)

    def _made_of(self, operands: Sequence[Node]) -> Node:
        return LUInOrder.of(operands[0], operands[1])

    @property
    def taken_once(self) -> tuple[bool, ...]:
        return False, True

    def alike(self) -> list[tuple[Axis, Axis]]:
        pivots, factors = self.operands
        own: list[tuple[Axis, Axis]] = [((factors, axis), (self, axis)) for axis in (0, 1)]
        return [*own, ((pivots, 0), (self, 1))]


class LUSolve(MatrixOperation):
    """The solution of a system with the factors of its matrix."""

    __slots__ = ("meant",)

    meant: str

    @classmethod
    def of(cls, factors: Node, pivots: Node, given: Node, *, meant: str) -> "LUSolve":
        """The node of a solution; factors and right-hand sides have its type.

        `meant`: "N", or "T" or "C" where the matrix is meant transposed, or conjugated, too.
        """
        node = cls()
        node.operands = taken(factors), taken(pivots), taken(given)
        node.meant = meant
        node.shape, node.dtype = given.shape, given.dtype
        return only((cls, *map(id, node.operands), meant), node)

    def _made_of(self, operands: Sequence[Node]) -> Node:
        return LUSolve.of(operands[0], operands[1], operands[2], meant=self.meant)

    @property
    def name(self) -> str:
        return "lu_solve"

    @property
    def taken_once(self) -> tuple[bool, ...]:
        return False, False, True

    def alike(self) -> list[tuple[Axis, Axis]]:
        factors, pivots, given = self.operands
        own: list[tuple[Axis, Axis]] = [((given, axis), (self, axis)) for axis in range(self.ndim)]
        rows: Axis = (self, 0)
        return [*own, ((factors, 0), rows), ((factors, 1), rows), ((pivots, 0), rows)]


class ExchangeRows(MatrixOperation):
    """A matrix whose rows are exchanged as pivots say."""

    __slots__ = ("backwards",)

    backwards: bool

    @classmethod
    def of(cls, pivots: Node, given: Node, *, backwards: bool) -> "ExchangeRows":
        """The node of the matrix; `backwards`: the last exchange first."""
        node = cls()
        node.operands, node.backwards = (taken(pivots), taken(given)), backwards
        node.shape, node.dtype = given.shape, given.dtype
        return only((cls, *map(id, node.operands), backwards), node)

    def _made_of(self, operands: Sequence[Node]) -> Node:
        return ExchangeRows.of(operands[0], operands[1], backwards=self.backwards)

    @property
    def name(self) -> str:
        return "exchange_rows"

    @property
    def taken_once(self) -> tuple[bool, ...]:
        return False, True

    def alike(self) -> list[tuple[Axis, Axis]]:
        pivots, given = self.operands
        own: list[tuple[Axis, Axis]] = [((given, axis), (self, axis)) for axis in range(self.ndim)]
        return [*own, ((pivots, 0), (self, 0))]


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
