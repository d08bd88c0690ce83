"""The Cholesky factorization, solving with it, and factors of matrices that change."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from outcrop.array_api.elementwise_functions import conj
from outcrop.arrays.array import Array
from outcrop.arrays.creation import asarray
from outcrop.errors import InvalidArgumentError, InvalidTypeError
from outcrop.expressions.build.arrays import array_of, node_of
from outcrop.expressions.build.reductions import cast
from outcrop.expressions.graph.cholesky import Cholesky, CholeskyInverse, CholeskyUpdate
from outcrop.linalg.checks import flag, floating, square
from outcrop.linalg.solve import solve_triangular

__all__ = [
    "CholeskyFactor",
    "cho_factor",
    "cho_inv",
    "cho_solve",
    "cho_update",
    "cholesky",
]


class CholeskyFactor(NamedTuple):
    """What `cho_factor` gives.

    Attributes
    ----------
    c : Array, shape (n, n)
        The factor, with zeros beyond the diagonal.
    lower : bool
        Whether that is L of ``A = L L^H``, instead of U of ``A = U^H U``.
    """

    c: Array
    lower: bool


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
    dtype = square(a, "cholesky")
    return array_of(Cholesky.of(cast(node_of(a), dtype), upper=flag(upper, "upper")))


def cho_factor(a: Array | ArrayLike, /, lower: bool = False) -> CholeskyFactor:
    """Factor a Hermitian, positive definite matrix, for `cho_solve`.

    Parameters
    ----------
    a : array_like, shape (n, n)
        The matrix, of which one half is read.
    lower : bool
        Which half that is, and whether the factor is L instead of U.

    Returns
    -------
    CholeskyFactor
        ``c``, which is lazy, and ``lower``: what SciPy's `cho_factor` gives.

    Raises
    ------
    InvalidArgumentError, NotPositiveDefiniteError
        See `cholesky`.

    Examples
    --------
    >>> A = np.array([[4.0, 2.0], [2.0, 3.0]])
    >>> oc.linalg.cho_solve(oc.linalg.cho_factor(A), np.ones(2)).compute()
    array([0.125, 0.25 ])
    """
    is_lower = flag(lower, "lower")
    return CholeskyFactor(cholesky(a, upper=not is_lower), is_lower)


def cho_solve(c_and_lower: tuple[Array | ArrayLike, bool], b: Array | ArrayLike, /) -> Array:
    """Solve ``A x = b`` with the Cholesky factor of A.

    Parameters
    ----------
    c_and_lower : tuple
        What `cho_factor` gives for A: the factor, and whether it is the lower one.
    b : array_like, shape (n,) or (n, m)
        One right-hand side, or several.

    Returns
    -------
    Array, shape of `b`
        The solution, lazy: two triangular systems in one plan, each of which reads one half of the
        factor.

    Raises
    ------
    InvalidArgumentError
        Shapes do not match.
    SingularMatrixError
        When it is computed: an element of the factor's diagonal is zero.

    Examples
    --------
    >>> L = np.array([[2.0, 0.0], [1.0, 1.0]])
    >>> oc.linalg.cho_solve((L, True), L @ L.T @ np.array([3.0, 5.0])).compute()
    array([3., 5.])
    """
    if not isinstance(c_and_lower, tuple | list) or len(c_and_lower) != 2:
        raise InvalidTypeError("cho_solve takes what cho_factor gives: a factor, and lower")
    factor, lower = asarray(c_and_lower[0]), flag(c_and_lower[1], "lower")
    square(factor, "cho_solve")
    given = asarray(b)
    n = factor.shape[0]
    if given.ndim not in (1, 2) or given.shape[0] != n:
        raise InvalidArgumentError(
            f"cho_solve: right-hand sides of shape {given.shape} do not fit a factor of shape "
            f"{factor.shape}; ({n},) or ({n}, m) would"
        )
    first, second = ("N", "C") if lower else ("C", "N")
    inner = solve_triangular(factor, given, trans=first, lower=lower)
    return solve_triangular(factor, inner, trans=second, lower=lower)


def cho_inv(c_and_lower: tuple[Array | ArrayLike, bool], /) -> Array:
    """Give the inverse of a Hermitian, positive definite matrix from its Cholesky factor.

    Parameters
    ----------
    c_and_lower : tuple
        What `cho_factor` gives for the matrix: the factor, of which one half is read, and whether
        it is the lower one.

    Returns
    -------
    Array, shape (n, n)
        The inverse, lazy, with both of its halves. Of a system of equations, `cho_solve` gives the
        solution in less time, and more accurately.

    Raises
    ------
    InvalidArgumentError
        The factor is not square.
    SingularMatrixError
        When it is computed: an element of the factor's diagonal is zero.

    Notes
    -----
    LAPACK's `potri`, in ``2 n^3 / 3`` operations. The inverse of the factor is temporary.

    Examples
    --------
    >>> oc.linalg.cho_inv(oc.linalg.cho_factor(np.diag([2.0, 4.0]))).compute()
    array([[0.5 , 0.  ],
           [0.  , 0.25]])
    """
    if not isinstance(c_and_lower, tuple | list) or len(c_and_lower) != 2:
        raise InvalidTypeError("cho_inv takes what cho_factor gives: a factor, and lower")
    factor, lower = asarray(c_and_lower[0]), flag(c_and_lower[1], "lower")
    dtype = square(factor, "cho_inv")
    return array_of(CholeskyInverse.of(cast(node_of(factor), dtype), upper=not lower))


def cho_update(
    c_and_lower: tuple[Array | ArrayLike, bool],
    v: Array | ArrayLike,
    /,
    downdate: bool = False,
) -> CholeskyFactor:
    """Give the Cholesky factor of ``A + V V^H`` from that of A, or that of ``A - V V^H``.

    Parameters
    ----------
    c_and_lower : tuple
        What `cho_factor` gives for A: the factor, of which one half is read, and whether it is the
        lower one.
    v : array_like, shape (n,) or (n, k)
        V, of one column or several.
    downdate : bool
        Whether ``V V^H`` is subtracted.

    Returns
    -------
    CholeskyFactor
        The new factor, lazy, and ``lower``.

    Raises
    ------
    InvalidArgumentError
        Shapes do not match.
    NotPositiveDefiniteError
        When it is computed: a leading minor of what is left is not positive definite, or there are
        NaN or infinity. ``index`` is the order of that minor.

    Notes
    -----
    By rotations, hyperbolic ones for a downdate, in the stable form of Chambers: ``3 n^2 k``
    multiplications and additions, while the factor is read once and written once. If there are many
    columns, ``k`` of the order of ``n / 10``, factoring again takes less time. Where a downdate
    leaves little of the matrix, little is left of the accuracy, as it has to be.

    Examples
    --------
    >>> A, v = np.array([[4.0, 2.0], [2.0, 3.0]]), np.array([1.0, 2.0])
    >>> new = oc.linalg.cho_update(oc.linalg.cho_factor(A, lower=True), v)
    >>> bool(np.allclose(new.c.compute() @ new.c.compute().T, A + np.outer(v, v)))
    True
    >>> old = oc.linalg.cho_update(new, v, downdate=True)
    >>> bool(np.allclose(old.c.compute(), np.linalg.cholesky(A)))
    True
    """
    if not isinstance(c_and_lower, tuple | list) or len(c_and_lower) != 2:
        raise InvalidTypeError("cho_update takes what cho_factor gives: a factor, and lower")
    factor, lower = asarray(c_and_lower[0]), flag(c_and_lower[1], "lower")
    change, down = asarray(v), flag(downdate, "downdate")
    dtype = np.result_type(square(factor, "cho_update"), floating(change.dtype))
    n = factor.shape[0]
    if change.ndim not in (1, 2) or change.shape[0] != n:
        raise InvalidArgumentError(
            f"cho_update: V of shape {change.shape} does not fit a factor of shape {factor.shape}; "
            f"({n},) or ({n}, k) would"
        )
    columns: Array = change if change.ndim == 2 else change[:, None]
    if not lower and dtype.kind == "c":
        # The transposed factor is the lower one of the conjugate of the matrix.
        columns = conj(columns)
    before = cast(node_of(factor), dtype)
    if columns.shape[1] == 0:
        return CholeskyFactor(array_of(before), lower)
    node = CholeskyUpdate.of(cast(node_of(columns), dtype), before, upper=not lower, down=down)
    return CholeskyFactor(array_of(node), lower)
