"""Cholesky factors and what is made of them, as nodes."""

from collections.abc import Sequence

from outcrop.expressions.graph.matrices import Axis, MatrixOperation, SomeColumns, taken
from outcrop.expressions.graph.nodes import Node, only

__all__ = [
    "Cholesky",
    "CholeskyColumns",
    "CholeskyInverse",
    "CholeskyUpdate",
]


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
