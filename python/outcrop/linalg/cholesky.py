"""The Cholesky factorization."""

from numpy.typing import ArrayLike

from outcrop.arrays.array import Array
from outcrop.arrays.creation import asarray
from outcrop.expressions.build.arrays import array_of, node_of
from outcrop.expressions.build.reductions import cast
from outcrop.expressions.graph.matrices import Cholesky
from outcrop.linalg.checks import flag, square

__all__ = [
    "cholesky",
]


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
