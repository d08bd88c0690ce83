"""Systems with symmetric and Hermitian matrices, by factors that may be inaccurate."""

from typing import Any

import numpy as np

from outcrop.array_api.statistical_functions import max as greatest
from outcrop.arrays.array import Array
from outcrop.errors import NotFiniteError, SingularMatrixError, forget_frames
from outcrop.expressions.build.materializing import materialize
from outcrop.linalg.checks import converted
from outcrop.linalg.factored import ByLDL
from outcrop.linalg.ldl import ldl_factor
from outcrop.linalg.mixed_precision import Refinement
from outcrop.linalg.residuals import Operator, in_type, settled
from outcrop.linalg.solve import solve
from outcrop.process.operation import operation

__all__ = ["solve_indefinite"]

_MOST = 10.0
"""How large a residual is accepted, at most, by rounding errors of the matrix and the solution."""


def solve_indefinite(a: Array, b: Array, dtype: np.dtype[Any], *, hermitian: bool) -> Array:
    """Solve a system of which the lower half is read, and refine the solution; by LU if need be.

    Parameters
    ----------
    a : Array, shape (n, n)
        The matrix.
    b : Array, shape (n,) or (n, m)
        Right-hand sides.
    dtype : numpy.dtype
        What to compute in.
    hermitian : bool
        Whether the matrix is Hermitian, or symmetric.

    Returns
    -------
    Array, shape of `b`
        The solution, computed.

    Raises
    ------
    SingularMatrixError, NotFiniteError
        By LU, too.
    """
    with operation(), np.errstate(all="ignore"):
        right: Any = settled(converted(b, dtype))
        if b.size == 0:
            return right  # type: ignore[no-any-return]
        operator = Operator(settled(in_type(a, dtype)), half="lower", hermitian=hermitian)
        columns = right[:, None] if right.ndim == 1 else right
        x = _by_ldl(operator, columns)
        if x is None:
            (x,) = materialize(solve(operator.whole(), columns))
        elif x.dtype != dtype:
            # Corrections by GMRES are of double precision.
            (x,) = materialize(converted(x, dtype))
        return x[:, 0] if right.ndim == 1 else x  # type: ignore[no-any-return]


def _by_ldl(operator: Operator, b: Any) -> Any:
    """The solution by the factorization; None where that is of no use."""
    factored = ByLDL(ldl_factor(operator.a, hermitian=operator.hermitian))
    try:
        (norm,) = factored.settle_with(greatest(operator.row_sums()))
        most = min(np.sqrt(operator.n), _MOST) * np.finfo(operator.dtype).eps / 2
        return Refinement(operator, factored, b, float(norm.compute()) * most).solution()[0]
    except (NotFiniteError, SingularMatrixError) as error:
        # LU says what is wrong with the matrix, if something is.
        forget_frames(error)
        return None
