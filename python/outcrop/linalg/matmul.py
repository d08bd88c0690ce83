"""Products of matrices."""

import numpy as np
from numpy.typing import ArrayLike

from outcrop.arrays.array import Array
from outcrop.arrays.creation import asarray
from outcrop.errors import InvalidArgumentError
from outcrop.expressions.build.arrays import array_of, product
from outcrop.linalg.products import stacked_matmul

__all__ = [
    "matmul",
]


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
    return array_of(product(a, b))
