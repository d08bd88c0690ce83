"""The steps of an operation of linear algebra, which the compiled core adds."""

from collections.abc import Sequence
from typing import TypeAlias

from outcrop import _native
from outcrop.expressions.graph.blas import Blas
from outcrop.expressions.graph.cholesky import (
    Cholesky,
    CholeskyColumns,
    CholeskyInverse,
    CholeskyUpdate,
)
from outcrop.expressions.graph.ldl import (
    LDL,
    LDLColumns,
    LDLDiagonal,
    LDLInOrder,
    LDLRotated,
    LDLRows,
    LDLSolve,
)
from outcrop.expressions.graph.lu import (
    LU,
    ExchangeRows,
    LUColumns,
    LUInOrder,
    LUSolve,
    Permutation,
    Pivots,
)
from outcrop.expressions.graph.matrices import (
    BlockProduct,
    Companion,
    MatrixOperation,
    Solve,
    SolveTriangular,
)
from outcrop.expressions.graph.nodes import Node
from outcrop.expressions.lower.steps import Size, Steps
from outcrop.expressions.lower.storage import Storage

__all__ = ["MatrixPass"]

View: TypeAlias = tuple[int, int | None, int | None]
"""An array's number, and along which of its axes the matrix has its rows and columns."""


class MatrixPass:
    """A pass over the tiles of an operation of linear algebra.

    Parameters
    ----------
    node : MatrixOperation
        What is computed.
    storage : Storage
        Where everything is.
    draft : _native.Draft
        The program, which takes the steps.
    steps : Steps
        The steps before.
    way : int
        Which way it goes through its tiles, if there is that.
    is_used : bool
        Whether the result is used further, and not only stored.
    companions : sequence of Companion
        Its other results that are wanted.

    Attributes
    ----------
    remark : str
        Which way that is, for people.
    ways : int
        How many there are.
    is_frugal : bool
        Whether it is the one that takes the least memory.
    """

    gathers = False
    size = Size(0, 0, 0)
    """The core looks by itself whether there is memory for its steps."""

    def __init__(
        self,
        node: MatrixOperation,
        storage: Storage,
        draft: _native.Draft,
        steps: Steps,
        *,
        way: int,
        is_used: bool,
        companions: Sequence[Companion],
    ) -> None:
        self._node, self._storage, self._draft, self._steps = node, storage, draft, steps
        self._way, self._is_used, self._companions = way, is_used, companions
        self.remark, self.ways, self.is_frugal = "", 1, True
        self.arrays: list[list[int]] = []

    def emit(self) -> None:
        """Append the steps. What is computed with another operation has none of its own."""
        if isinstance(self._node, Companion):
            return
        self._steps.hand_over()
        self.remark, self.ways, self.is_frugal = self._added()

    def _added(self) -> tuple[str, int, bool]:
        node, draft, way = self._node, self._draft, self._way
        result = self._view(node, node)
        views = [result, *(self._view(operand, node) for operand in node.operands)]
        match node:
            case BlockProduct():
                # Of a transposed factor, columns are rows.
                turned = list(map(_turned, views[1:], node.transposed))
                first, second = node.conjugates
                return draft.matmul([result, *turned], (first, second), way)
            case Cholesky():
                return draft.cholesky(views, not node.upper, self._is_used, way)
            case Solve():
                return draft.solve(views, node.positive_definite, way)
            case LU():
                return draft.lu(views, self._number(Pivots), self._number(Permutation), way)
            case CholeskyInverse():
                return draft.cholesky_inverse(views, not node.upper, way)
            case CholeskyUpdate():
                return draft.cholesky_update(views, not node.upper, node.down, self._is_used)
            case LDL():
                beside = self._number(LDLDiagonal), self._number(LDLRows)
                kind = not node.upper, node.hermitian
                return draft.ldl(views, beside, *kind, self._is_used, way)
            case LDLSolve():
                return draft.ldl_solve(views, not node.upper, node.hermitian, way)
            case LDLRotated():
                return draft.ldl_rotated(views, not node.upper, node.hermitian)
            case LDLColumns():
                own, *done, a = views
                d, rows = self._number(LDLDiagonal), self._number(LDLRows)
                assert d is not None and rows is not None, "columns are factored with both"
                before = (done[0], done[1]) if done else None
                kind = not node.upper, node.hermitian
                return draft.ldl_columns([own, a], (d, rows), before, *kind, way)
            case LDLInOrder():
                return draft.ldl_in_order(views, not node.upper)
            case LUColumns():
                own, *done, a = views
                pivots = self._number(Pivots)
                assert pivots is not None, "columns are factored with their pivots"
                before = (done[0], done[1]) if done else None
                return draft.lu_columns([own, a], (pivots, 0, None), before, way)
            case LUInOrder():
                return draft.lu_in_order(views)
            case CholeskyColumns():
                own, *done, a = views
                return draft.cholesky_columns([own, a], next(iter(done), None), not node.upper, way)
            case LUSolve():
                return draft.lu_solve(views, node.meant, way)
            case ExchangeRows():
                return draft.exchange_rows(views, node.backwards)
            case SolveTriangular():
                views[1] = _turned(views[1], node.transposed)
                conjugate, _ = node.conjugates
                lower = node.lower != node.transposed
                return draft.solve_triangular(views, lower, node.unit, conjugate, way)
            case Blas():
                return self._blas(node, views)
        raise AssertionError(f"no steps for {node.name}")

    def _number(self, kind: type[Companion]) -> int | None:
        """The number of the array of a companion, if that is wanted."""
        for node in self._companions:
            if isinstance(node, kind) and (stored := self._storage.of(node)) is not None:
                return stored.number
        return None

    def _blas(self, node: Blas, views: Sequence[View]) -> tuple[str, int, bool]:
        result, *factors, before = views
        call = node.call
        one, other, own = call.turned
        first = _turned(factors[0], one) if factors else before
        second = _turned(factors[1], other) if len(factors) > 1 else first
        conjugates = call.conjugates if len(factors) > 1 else (call.conjugates[0],) * 2
        return self._draft.blas3(
            [_turned(result, own), first, second, _turned(before, own)],
            call.form,
            tuple((x.real, x.imag) for x in (complex(call.alpha), complex(call.beta))),
            conjugates,
            call.lower,
            call.hermitian,
            call.first,
            call.unit,
            self._way,
        )

    def _view(self, matrix: Node, node: MatrixOperation) -> View:
        stored, axes = self._storage.matrix(matrix, node)
        return stored.number, axes[0], axes[1] if len(axes) > 1 else None


def _turned(view: View, is_turned: bool) -> View:
    """Of a transposed matrix, columns are rows."""
    number, rows, columns = view
    return (number, columns, rows) if is_turned else view
