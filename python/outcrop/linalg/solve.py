"""Systems of equations: positive definite, and triangular."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from outcrop import _native
from outcrop.arrays.array import Array
from outcrop.arrays.computed import Computation, ComputedSource, Operand, Target, as_they_are
from outcrop.arrays.creation import asarray
from outcrop.errors import InvalidArgumentError, UnsupportedError
from outcrop.linalg.checks import flag, system

__all__ = [
    "solve",
    "solve_triangular",
]


class _Solve(Computation):
    name = "solve"
    leaves_zeros = False

    def __init__(self, a: Array, b: Array, dtype: np.dtype[Any]) -> None:
        self.operands = as_they_are(a, b)
        self.dtype, self.shape = dtype, b.shape

    def matrices(self) -> tuple[Operand, ...]:
        a, b = self.operands
        return Operand(a, self.dtype, 0, 1), _right_hand_sides(b, self.dtype)

    def plan_with(self, matrices: Sequence[Operand], target: Target) -> _native.Plan:
        a, b = matrices
        return _native.plan_solve(a.native, b.native, self.shape, target)


class _SolveTriangular(Computation):
    name = "solve_triangular"
    leaves_zeros = False

    def __init__(
        self, a: Array, b: Array, dtype: np.dtype[Any], lower: bool, trans: int, unit: bool
    ) -> None:
        self.operands = as_they_are(a, b)
        self.dtype, self.shape = dtype, b.shape
        self.lower, self.trans, self.unit = lower, trans, unit

    def matrices(self) -> tuple[Operand, ...]:
        a, b = self.operands
        axes = (1, 0) if self.trans else (0, 1)
        triangle = Operand(a, self.dtype, *axes, conjugates=True)
        return triangle, _right_hand_sides(b, self.dtype)

    def plan_with(self, matrices: Sequence[Operand], target: Target) -> _native.Plan:
        a, b = matrices
        lower, conj = self.lower != bool(self.trans), (self.trans == 2) != a.conjugated
        return _native.plan_solve_triangular(
            a.native, b.native, lower, self.unit, conj, self.shape, target
        )


def _right_hand_sides(b: Array, dtype: np.dtype[Any]) -> Operand:
    return Operand(b, dtype, 0, 1 if b.ndim == 2 else None)


def solve(A: Array | ArrayLike, b: Array | ArrayLike, /, *, assume: str = "gen") -> Array:
    """Solve ``A x = b``.

    Parameters
    ----------
    A : array_like, shape (n, n)
        The matrix. With ``assume="pos"`` only its lower half is read.
    b : array_like, shape (n,) or (n, m)
        One right-hand side, or several.
    assume : {"gen", "pos"}
        What is known of `A`: ``"pos"`` (or ``"positive definite"``), that it is Hermitian and
        positive definite. ``"gen"``, nothing, is not supported in this version.

    Returns
    -------
    Array, shape of `b`
        The solution, lazy.

    Raises
    ------
    InvalidArgumentError
        Shapes do not match.
    NotPositiveDefiniteError
        When it is computed: see `cholesky`.
    UnsupportedError
        ``assume="gen"``.

    Notes
    -----
    The factor of `A` is a temporary; as far as memory does not hold it, it lies in the scratch
    directory (`outcrop.config`).

    Examples
    --------
    >>> A = oc.fromfunction(lambda i, j: np.exp(-((i - j) ** 2.0)) + (i == j), (500, 500))
    >>> b = np.arange(500.0)
    >>> x = oc.linalg.solve(A, b, assume="pos").compute()
    >>> bool(np.allclose(A.compute() @ x, b))
    True
    """
    if assume in ("gen", "general"):
        raise UnsupportedError(
            "solve without assumptions needs an LU factorization, which this version does not "
            "have; for a Hermitian positive definite matrix, pass assume='pos' (--assume pos)"
        )
    if assume not in ("pos", "positive definite"):
        raise InvalidArgumentError(f"assume must be 'gen' or 'pos', got {assume!r}")
    matrix, given = asarray(A), asarray(b)
    dtype = system(matrix, given, "solve")
    return Array(ComputedSource(_Solve(matrix, given, dtype)))


def solve_triangular(
    A: Array | ArrayLike,
    b: Array | ArrayLike,
    /,
    *,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
) -> Array:
    """Solve ``op(A) x = b`` for a triangular matrix.

    Parameters
    ----------
    A : array_like, shape (n, n)
        The matrix. Only one half of it is read.
    b : array_like, shape (n,) or (n, m)
        One right-hand side, or several.
    trans : {0, 1, 2, "N", "T", "C"}
        What op is: 0 or "N", nothing; 1 or "T", transposed; 2 or "C", transposed and conjugated.
    lower : bool
        Whether it is the lower half of `A` that counts; else the upper.
    unit_diagonal : bool
        Whether the diagonal of `A` is all ones; it is not read then.

    Returns
    -------
    Array, shape of `b`
        The solution, lazy.

    Raises
    ------
    InvalidArgumentError
        Shapes do not match.
    SingularMatrixError
        When it is computed: an element of the diagonal is zero. ``index`` is the place of the
        first one, counted from 1 as LAPACK's info.

    Examples
    --------
    >>> L = np.tril(np.ones((300, 300)))
    >>> oc.linalg.solve_triangular(L, np.ones(300), lower=True).compute()[:3]
    array([1., 0., 0.])
    """
    kinds: dict[object, int] = {0: 0, 1: 1, 2: 2, "N": 0, "T": 1, "C": 2}
    if not isinstance(trans, int | str) or trans not in kinds:
        raise InvalidArgumentError(f"trans must be 0, 1, 2, 'N', 'T' or 'C', got {trans!r}")
    matrix, given = asarray(A), asarray(b)
    dtype = system(matrix, given, "solve_triangular")
    computation = _SolveTriangular(
        matrix,
        given,
        dtype,
        flag(lower, "lower"),
        kinds[trans],
        flag(unit_diagonal, "unit_diagonal"),
    )
    return Array(ComputedSource(computation))
