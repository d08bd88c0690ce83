"""LU with partial pivoting and what is made of its factors, as nodes."""

from collections.abc import Sequence

import numpy as np

from outcrop.expressions.graph.matrices import Axis, Companion, MatrixOperation, SomeColumns, taken
from outcrop.expressions.graph.nodes import Node, only

__all__ = [
    "LU",
    "ExchangeRows",
    "LUColumns",
    "LUInOrder",
    "LUSolve",
    "Permutation",
    "Pivots",
]


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
