"""Products of matrices."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from outcrop import _native
from outcrop.arrays.array import Array
from outcrop.arrays.computed import Computation, ComputedSource, Operand, Target, as_they_are
from outcrop.arrays.creation import asarray
from outcrop.errors import InvalidArgumentError
from outcrop.expressions.build.arrays import array_of, node_of
from outcrop.linalg.products import stacked_matmul

__all__ = [
    "matmul",
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
