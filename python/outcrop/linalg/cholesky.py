"""The Cholesky factorization, and solving with it."""

from typing import NamedTuple

from numpy.typing import ArrayLike

from outcrop.arrays.array import Array
from outcrop.arrays.creation import asarray
from outcrop.errors import InvalidArgumentError, InvalidTypeError
from outcrop.expressions.build.arrays import array_of, node_of
from outcrop.expressions.build.reductions import cast
from outcrop.expressions.graph.matrices import Cholesky
from outcrop.linalg.checks import flag, square
from outcrop.linalg.solve import solve_triangular

__all__ = [
    "CholeskyFactor",
    "cho_factor",
    "cho_solve",
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
