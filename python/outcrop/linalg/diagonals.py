"""Diagonals and transposes of matrices, and of stacks of them."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from outcrop.array_api import indexing_functions
from outcrop.arrays.array import Array
from outcrop.arrays.creation import asarray
from outcrop.arrays.registry import implements

__all__ = [
    "diagonal",
    "matrix_transpose",
    "trace",
]


@implements(np.linalg.matrix_transpose)
def matrix_transpose(x: Array, /) -> Array:
    """Give a view with the last two axes exchanged: a stack of matrices, each transposed.

    Examples
    --------
    >>> oc.linalg.matrix_transpose(oc.zeros((2, 3, 4))).shape
    (2, 4, 3)
    """
    return asarray(x).mT


@implements(np.linalg.diagonal)
def diagonal(x: Array | ArrayLike, /, *, offset: int = 0) -> Array:
    """Give the diagonal of a matrix, or of each of a stack; see `outcrop.diagonal`.

    Examples
    --------
    >>> oc.linalg.diagonal(oc.asarray([[1, 2], [3, 4]])).compute()
    array([1, 4])
    """
    return indexing_functions.diagonal(x, offset=offset, axis1=-2, axis2=-1)


@implements(np.linalg.trace)
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
