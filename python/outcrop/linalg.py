"""Linear algebra on arrays that need not fit in memory.

Functions here check their arguments and give lazy arrays: nothing is computed until the result is
saved (`Array.save`), computed in memory (`Array.compute`) or used as the operand of something that
is. `outcrop.plan` says beforehand what that will cost. A result that is an operand, or of which a
part is read, is computed once; it is kept as long as it is referred to, except for an operand that
memory does not hold, which goes when the operation ends. It means its own operands as they were
when it was made, as every expression does (see `outcrop.Array`).

Element types are float32, float64, complex64 and complex128; integers count as float64.

Examples
--------
>>> A = oc.fromfunction(lambda i, j: 1.0 / (1 + abs(i - j)) + 1000 * (i == j), (1000, 1000))
>>> A = A.save("A.zarr", tile=100)
>>> x = oc.linalg.solve(A, np.ones(1000), assume="pos").compute()
>>> float(abs(A.compute() @ x - 1).max()) < 1e-12
True
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from outcrop import _native, selection
from outcrop._lazy import Computation, ComputedSource, Operand, Target, as_they_are
from outcrop._norms import norm
from outcrop.array import Array
from outcrop.creation import asarray
from outcrop.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError
from outcrop.expressions.arrays import array_of, node_of
from outcrop.products import outer, stacked_matmul, tensordot, vecdot

__all__ = [
    "cholesky",
    "diagonal",
    "matmul",
    "matrix_transpose",
    "norm",
    "outer",
    "solve",
    "solve_triangular",
    "tensordot",
    "trace",
    "vecdot",
]

_NARROW = 16
"""Columns, or rows, of a product that is made in one pass over the longer factor. (Measured, 3000 x
3000 by columns: a program of square blocks reads 14 times what there is with 2 MiB, 7 times with
16 MiB. One pass reads 1.0 times for 1 and 4 columns, 2.4 for 16, and 17 for 64 with 2 MiB.)"""


class _Matmul(Computation):
    name = "matmul"
    leaves_zeros = False

    def __init__(self, a: Array, b: Array) -> None:
        self.operands = as_they_are(a, b)
        self.dtype = np.result_type(a.dtype, b.dtype)
        self.shape = (a.shape[:1] if a.ndim == 2 else ()) + (b.shape[1:] if b.ndim == 2 else ())

    def matrices(self) -> tuple[Operand, ...]:
        a, b = self.operands
        left = Operand(a, self.dtype, *((0, 1) if a.ndim == 2 else (None, 0)), conjugates=True)
        right = Operand(b, self.dtype, *((0, 1) if b.ndim == 2 else (0, None)), conjugates=True)
        return left, right

    def plan_with(self, matrices: Sequence[Operand], target: Target) -> _native.Plan:
        a, b = matrices
        conj = a.conjugated, b.conjugated
        return _native.plan_matmul(a.native, b.native, conj, self.shape, target)


class _Cholesky(Computation):
    name = "cholesky"

    def __init__(self, a: Array, dtype: np.dtype[Any], upper: bool) -> None:
        self.operands = as_they_are(a)
        self.dtype, self.shape, self.upper = dtype, a.shape, upper

    def matrices(self) -> tuple[Operand, ...]:
        return (Operand(self.operands[0], self.dtype, 0, 1),)

    def plan_with(self, matrices: Sequence[Operand], target: Target) -> _native.Plan:
        (a,) = matrices
        return _native.plan_cholesky(a.native, not self.upper, target)


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


def matrix_transpose(x: Array, /) -> Array:
    """Give a view with the last two axes exchanged: a stack of matrices, each transposed.

    Examples
    --------
    >>> oc.linalg.matrix_transpose(oc.zeros((2, 3, 4))).shape
    (2, 4, 3)
    """
    return asarray(x).mT


def diagonal(x: Array | ArrayLike, /, *, offset: int = 0) -> Array:
    """Give the diagonal of a matrix, or of each of a stack; see `outcrop.diagonal`.

    Examples
    --------
    >>> oc.linalg.diagonal(oc.asarray([[1, 2], [3, 4]])).compute()
    array([1, 4])
    """
    return selection.diagonal(x, offset=offset, axis1=-2, axis2=-1)


def trace(x: Array | ArrayLike, /, *, offset: int = 0, dtype: Any = None) -> Array:
    """Sum the diagonal of a matrix, or of each of a stack.

    Parameters
    ----------
    x : array_like, shape (..., m, n)
        What to sum. Only blocks on the diagonal are read, or computed.
    offset : int
        Which diagonal; see `outcrop.diagonal`.
    dtype : dtype-like, optional
        Of the sum. Default: as for `outcrop.sum`.

    Examples
    --------
    >>> oc.linalg.trace(oc.asarray([[1, 2], [3, 4]])).compute()
    array(5)
    """
    found: Array = diagonal(x, offset=offset).sum(-1, dtype=dtype)
    return found


def matmul(x1: Array | ArrayLike, x2: Array | ArrayLike, /) -> Array:
    """Multiply two matrices, or a matrix and a vector.

    The operator ``@`` does the same. A transposed or conjugated operand, such as
    ``A.conj().T @ B``, costs nothing extra.

    Parameters
    ----------
    x1 : array_like, shape (..., m, k) or (k,)
        The left factor, or a stack of them.
    x2 : array_like, shape (..., k, n) or (k,)
        The right factor, or a stack of them. The other axes broadcast.

    Returns
    -------
    Array, shape (..., m, n), (..., m), (..., n) or ()
        The product, lazy. Its dtype is NumPy's promotion of those of the factors.

    Raises
    ------
    InvalidArgumentError
        Shapes do not match, or a factor has no axis.

    Notes
    -----
    A block of the result stays in memory, and slices of the factors stream past it: about
    ``2 m n k / sqrt(M)`` elements are read with memory for M. A product with a vector, or of up to
    16 rows or columns, reads the longer factor once.

    Examples
    --------
    >>> A = oc.fromfunction(lambda i, j: i + j, (500, 300), "float64").save("A.npy")
    >>> C = oc.matmul(A, A.T)
    >>> C
    <outcrop.Array float64 (500, 500) 1.9 MiB, matmul(...), not computed yet>
    >>> C.save("C.zarr")[0, :3].compute()
    array([8955050., 8999900., 9044750.])
    """
    a, b = asarray(x1), asarray(x2)
    for x in (a, b):
        if x.ndim == 0:
            raise InvalidArgumentError(
                "matmul: Input operand does not have enough dimensions (a scalar is multiplied "
                "with *, not @)"
            )
    depth = b.shape[max(b.ndim - 2, 0)]
    if a.shape[-1] != depth:
        raise InvalidArgumentError(
            f"matmul: shapes {a.shape} and {b.shape} do not match: {a.shape[-1]} (axis "
            f"{a.ndim - 1} of the first) != {depth} (axis {max(b.ndim - 2, 0)} of the second)"
        )
    if max(a.ndim, b.ndim) > 2:
        return stacked_matmul(a, b)
    if np.result_type(a.dtype, b.dtype) == np.float16:
        return matmul(a.astype("float32"), b.astype("float32")).astype("float16")
    product = Array(ComputedSource(_Matmul(a, b)))
    is_narrow = a.size * b.size > 0 and (product.ndim < 2 or min(product.shape) <= _NARROW)
    if is_narrow or any(
        isinstance(x._source, ComputedSource) and x._source.result is None for x in (a, b)
    ):
        # Part of an expression, where it is no work of its own.
        return array_of(node_of(product))
    return product


def cholesky(x: Array | ArrayLike, /, *, upper: bool = False) -> Array:
    """Factor a Hermitian, positive definite matrix.

    Only one half of the matrix is read, and of the result only that half is stored on disk in a
    Zarr array: what lies beyond the diagonal is zero.

    Parameters
    ----------
    x : array_like, shape (n, n)
        The matrix. Of it, the lower half is read, or the upper one with `upper`.
    upper : bool
        Whether the result is U of ``x = U^H U``, instead of L of ``x = L L^H``.

    Returns
    -------
    Array, shape (n, n)
        The factor, lazy.

    Raises
    ------
    InvalidArgumentError
        `x` is not square, or not a matrix.
    NotPositiveDefiniteError
        When it is computed: a leading minor is not positive definite, or there are NaN or infinity
        in `x`. ``index`` is the order of that minor, as LAPACK's info.

    Notes
    -----
    Left-looking, with a block of the factor in memory: about ``n^3 / (3 sqrt(M))`` elements are
    read with memory for M, beside the matrix itself.

    Examples
    --------
    >>> A = oc.fromfunction(lambda i, j: 1.0 / (1 + abs(i - j)) + (i == j), (600, 600))
    >>> L = oc.linalg.cholesky(A).save("L.zarr")
    >>> x = np.asarray(L)
    >>> bool(np.allclose(x @ x.T, A.compute()))
    True
    """
    a = asarray(x)
    dtype = _square(a, "cholesky")
    return Array(ComputedSource(_Cholesky(a, dtype, _flag(upper, "upper"))))


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
    dtype = _system(matrix, given, "solve")
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
    dtype = _system(matrix, given, "solve_triangular")
    computation = _SolveTriangular(
        matrix,
        given,
        dtype,
        _flag(lower, "lower"),
        kinds[trans],
        _flag(unit_diagonal, "unit_diagonal"),
    )
    return Array(ComputedSource(computation))


def _flag(value: object, name: str) -> bool:
    if isinstance(value, bool | np.bool_) or (isinstance(value, int) and value in (0, 1)):
        return bool(value)
    raise InvalidTypeError(f"{name} must be True or False, got {value!r}")


def _square(a: Array, name: str) -> np.dtype[Any]:
    """The dtype to compute in, if `a` is a square matrix."""
    if a.ndim != 2:
        raise InvalidArgumentError(f"{name}: a matrix has two axes; the shape is {a.shape}")
    if a.shape[0] != a.shape[1]:
        raise InvalidArgumentError(f"{name}: the matrix is not square; its shape is {a.shape}")
    return _floating(a.dtype)


def _system(a: Array, b: Array, name: str) -> np.dtype[Any]:
    """The dtype to compute in, if `a` and `b` are a matrix and right-hand sides."""
    dtype = _square(a, name)
    if b.ndim not in (1, 2) or b.shape[0] != a.shape[0]:
        raise InvalidArgumentError(
            f"{name}: right-hand sides of shape {b.shape} do not fit a matrix of shape {a.shape}; "
            f"({a.shape[0]},) or ({a.shape[0]}, m) would"
        )
    return np.result_type(dtype, _floating(b.dtype))


def _floating(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """NumPy's linear algebra computes integers in double precision."""
    if dtype.kind in "biu":
        return np.dtype(np.float64)
    if dtype.kind not in "fc":
        raise InvalidTypeError(f"linear algebra takes numbers, not {dtype}")
    return dtype
