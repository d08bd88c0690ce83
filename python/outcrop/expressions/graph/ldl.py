"""LDL of symmetric and Hermitian matrices and what is made of its factors, as nodes."""

from collections.abc import Sequence

import numpy as np

from outcrop.expressions.graph.matrices import Axis, Companion, MatrixOperation, SomeColumns, taken
from outcrop.expressions.graph.nodes import Node, only

__all__ = [
    "LDL",
    "LDLColumns",
    "LDLDiagonal",
    "LDLInOrder",
    "LDLRotated",
    "LDLRows",
    "LDLSolve",
]


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
