"""What level-3 BLAS makes of a matrix, as a node."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from outcrop.expressions.graph.matrices import Axis, MatrixOperation, taken, unconjugated
from outcrop.expressions.graph.nodes import Node, only

__all__ = ["Blas", "Call", "Form"]

Form: TypeAlias = str
"""``"scale"``: the matrix times beta. ``"product"`` of two, ``"left"`` or ``"right"`` where the
first or the second of these is symmetric. ``"update"`` of a half by a product of a matrix and its
transpose, ``"update twice"`` by two such of two matrices. ``"multiply"`` with a triangle, and
``"solve"`` with one."""


@dataclass(frozen=True)
class Call:
    """What is computed, besides the operands.

    Attributes
    ----------
    name : str
        Of the routine.
    form : str
        Which operation it is.
    alpha, beta : complex
        What the product is multiplied by, and what the matrix was before.
    turned : tuple of bool
        Which of the factors are transposed, and whether the result is.
    conjugates : tuple of bool
        Which of the factors count as their conjugates.
    lower : bool or None
        Which half counts: of the result, of a symmetric factor as it is given, or of a triangle as
        it is used.
    hermitian : bool
        Whether what is symmetric is Hermitian.
    first : bool
        Of an update, whether it is the first factor of a product that is conjugated.
    unit : bool
        Whether the diagonal of a triangle is all ones.
    """

    name: str
    form: Form
    alpha: complex = 1.0
    beta: complex = 0.0
    turned: tuple[bool, bool, bool] = (False, False, False)
    conjugates: tuple[bool, bool] = (False, False)
    lower: bool | None = None
    hermitian: bool = False
    first: bool = False
    unit: bool = False


class Blas(MatrixOperation):
    """A matrix after a routine of level-3 BLAS.

    Of its operands, the last one is the matrix before; the others are factors.
    """

    __slots__ = ("call",)

    call: Call

    @classmethod
    def of(cls, call: Call, factors: Sequence[Node], before: Node) -> "Blas":
        """The node of a call; all operands have one type."""
        node = cls()
        operands, conjugates = [], list(call.conjugates)
        for i, factor in enumerate(factors):
            below, conjugate = unconjugated(factor)
            operands.append(taken(below))
            conjugates[i] = conjugates[i] != conjugate
        node.operands = (*operands, taken(before))
        node.call = replace(call, conjugates=(conjugates[0], conjugates[1]))
        node.shape, node.dtype = before.shape, before.dtype
        return only((cls, *map(id, node.operands), node.call), node)

    def _made_of(self, operands: Sequence[Node]) -> Node:
        return Blas.of(self.call, operands[:-1], operands[-1])

    @property
    def name(self) -> str:
        return self.call.name

    @property
    def conjugates(self) -> tuple[bool, ...]:
        return (*self.call.conjugates[: len(self.operands) - 1], False)

    @property
    def taken_once(self) -> tuple[bool, ...]:
        # What is multiplied with a triangle is taken again, as long as it is not overwritten.
        return (*(False for _ in self.operands[1:]), self.call.form != "multiply")

    @property
    def axes(self) -> tuple[int, int]:
        """Those of the result along which its rows and columns follow each other."""
        return (1, 0) if self.call.turned[2] else (0, 1)

    @property
    def is_square(self) -> bool:
        """Whether tiles of the result are square."""
        return self.call.lower is not None and self.call.form in ("scale", "update", "update twice")

    def alike(self) -> list[tuple[Axis, Axis]]:
        *factors, before = self.operands
        rows, columns = self.axes
        found: list[tuple[Axis, Axis]] = [((before, axis), (self, axis)) for axis in (0, 1)]
        form = self.call.form
        if self.is_square:
            found.append(((self, 0), (self, 1)))
        if not factors:
            return found
        pairs = [(1, 0) if turned else (0, 1) for turned in self.call.turned[:2]]
        one, (row, depth) = factors[0], pairs[0]
        if form in ("multiply", "solve"):
            return [*found, ((one, 0), (self, rows)), ((one, 1), (self, rows))]
        found.append(((one, row), (self, rows)))
        if form == "update":
            return found
        other, (inner, column) = factors[1], pairs[1]
        if form == "update twice":
            return [*found, ((other, inner), (self, rows)), ((one, depth), (other, column))]
        if form in ("left", "right"):
            symmetric = one if form == "left" else other
            found.append(((symmetric, 0), (symmetric, 1)))
        return [*found, ((other, column), (self, columns)), ((one, depth), (other, inner))]
