"""Linear algebra on arrays that need not fit in memory.

Functions here check their arguments and give lazy arrays: nothing is computed until the result is
saved (`Array.save`), computed in memory (`Array.compute`) or used as the operand of something that
is. `outcrop.plan` says beforehand what that will cost. Results are expressions, and planned with
all that they are operands of, in one run; what several results have in common is computed once
where they are saved together (`outcrop.save`). A result of which a part is read is computed whole,
and kept as long as it is referred to. It means its own operands as they were when it was made, as
every expression does (see `outcrop.Array`).

Element types are float32, float64, complex64 and complex128; integers count as float64.

Examples
--------
>>> A = oc.fromfunction(lambda i, j: 1.0 / (1 + abs(i - j)) + 1000 * (i == j), (1000, 1000))
>>> A = A.save("A.zarr", tile=100)
>>> x = oc.linalg.solve(A, np.ones(1000), assume="pos").compute()
>>> float(abs(A.compute() @ x - 1).max()) < 1e-12
True
"""

import typing as _typing

import numpy as _numpy

from outcrop.arrays.public_names import only_public as _only_public
from outcrop.linalg.cholesky import (
    CholeskyFactor,
    cho_factor,
    cho_inv,
    cho_solve,
    cho_update,
    cholesky,
)
from outcrop.linalg.condition import cond, gecon, pocon, sycon
from outcrop.linalg.diagonals import diagonal, matrix_transpose, trace
from outcrop.linalg.ldl import Inertia, LDLFactor, inertia, ldl_factor, ldl_solve
from outcrop.linalg.lu import LUFactors, SlogdetResult, det, inv, lu, lu_factor, lu_solve, slogdet
from outcrop.linalg.matmul import matmul
from outcrop.linalg.mixed_precision import MixedSolution, solve_mixed
from outcrop.linalg.norms import matrix_norm, norm, vector_norm
from outcrop.linalg.products import outer, tensordot, vecdot
from outcrop.linalg.refinement import (
    GerfsResult,
    GesvxResult,
    PosvxResult,
    gerfs,
    gesvx,
    porfs,
    posvx,
)
from outcrop.linalg.solve import solve, solve_triangular

__all__ = [
    "CholeskyFactor",
    "GerfsResult",
    "GesvxResult",
    "Inertia",
    "LDLFactor",
    "LUFactors",
    "MixedSolution",
    "PosvxResult",
    "SlogdetResult",
    "cho_factor",
    "cho_inv",
    "cho_solve",
    "cho_update",
    "cholesky",
    "cond",
    "det",
    "diagonal",
    "gecon",
    "gerfs",
    "gesvx",
    "inertia",
    "inv",
    "ldl_factor",
    "ldl_solve",
    "lu",
    "lu_factor",
    "lu_solve",
    "matmul",
    "matrix_norm",
    "matrix_transpose",
    "norm",
    "outer",
    "pocon",
    "porfs",
    "posvx",
    "slogdet",
    "solve",
    "solve_mixed",
    "solve_triangular",
    "sycon",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]

_INSTEAD = {
    "LinAlgError": "oc.NotPositiveDefiniteError and oc.SingularMatrixError, both of that kind",
    "gesv": "oc.linalg.solve",
    "getrf": "oc.linalg.lu_factor",
    "getri": "oc.linalg.inv",
    "getrs": "oc.linalg.lu_solve",
    "hetrf": "oc.linalg.ldl_factor",
    "posv": "oc.linalg.solve(A, b, assume='pos')",
    "potrf": "oc.linalg.cholesky",
    "potri": "oc.linalg.cho_inv",
    "potrs": "oc.linalg.cho_solve",
    "sytrf": "oc.linalg.ldl_factor",
    "sytrs": "oc.linalg.ldl_solve",
    "trtrs": "oc.linalg.solve_triangular",
}
"""What there is by another name in LAPACK, SciPy or NumPy."""


if not _typing.TYPE_CHECKING:
    # What checks types shall find names that there are not.
    __getattr__, __dir__ = _only_public(__name__, __all__, numpy=_numpy.linalg, instead=_INSTEAD)
