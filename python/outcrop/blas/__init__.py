"""Level-3 BLAS on arrays that need not fit in memory, in place.

Each routine changes one matrix, which is its last one: `C`, or `B` of `trmm` and `trsm`. That is an
array opened for writing (``oc.open(path, "r+")``, ``oc.create``), one in memory (of NumPy, too), or
a part or the transpose of one. The others may be anything that is an array: stored in any format,
views, expressions that are not computed yet. All have two axes.

The arguments are those of BLAS, by names: the number, the matrices that are only read, and then, by
keyword, ``beta=``, ``C=`` and the options ``side=``, ``uplo=``, ``trans=`` (``trans_a=``,
``trans_b=``) and ``diag=``, with the letters of BLAS. What BLAS does not refer to is neither read
nor written: the other half of a symmetric or triangular matrix, a diagonal of ones, `C` where beta
is zero, and the factors where alpha is. It may be NaN, and keeps its bits.

A change appears all at once when the call returns. A Zarr array of ours is changed tile by tile
beside what it holds, where the matrix begins and ends between its tiles; other files are written
when the whole result has been computed, to the scratch directory where memory does not hold it.
What was assigned to the array before becomes visible before the call begins. A new array, which
`outcrop.create` has made, becomes visible when it is closed.

``oc.blas.gemm.plan(...)``, with the same arguments, says what a call costs, as `outcrop.plan` does;
``oc.last_run()`` tells afterwards that it did.

Examples
--------
>>> A = oc.fromfunction(lambda i, j: 1.0 / (1 + i + j), (500, 200)).save("A.zarr", tile=100)
>>> G = oc.create("G.zarr", (200, 200), tile=100)
>>> oc.blas.syrk(1.0, A, C=G, trans="T") is G
True
>>> bool(np.allclose(np.tril(G.compute()), np.tril((A.T @ A).compute())))
True
"""

import typing as _typing

from outcrop.arrays.public_names import only_public as _only_public
from outcrop.blas.products import gemm, hemm, symm
from outcrop.blas.triangles import trmm, trsm
from outcrop.blas.updates import her2k, herk, syr2k, syrk

__all__ = [
    "gemm",
    "hemm",
    "her2k",
    "herk",
    "symm",
    "syr2k",
    "syrk",
    "trmm",
    "trsm",
]

_INSTEAD = {
    "axpy": "y += alpha * x",
    "gemv": "A @ x, or oc.blas.gemm with a matrix of one column",
    "ger": "oc.linalg.outer",
    "nrm2": "oc.linalg.vector_norm",
    "scal": "x *= alpha",
    "trsv": "oc.linalg.solve_triangular",
}
"""What levels 1 and 2 of BLAS have, as operators and functions."""


if not _typing.TYPE_CHECKING:
    # What checks types shall find names that there are not.
    __getattr__, __dir__ = _only_public(__name__, __all__, instead=_INSTEAD)
