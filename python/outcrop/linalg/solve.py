"""Systems of equations: positive definite, and triangular."""

from numpy.typing import ArrayLike

from outcrop.arrays.array import Array
from outcrop.arrays.creation import asarray
from outcrop.errors import InvalidArgumentError, UnsupportedError
from outcrop.expressions.build.arrays import array_of, node_of
from outcrop.expressions.build.reductions import cast
from outcrop.expressions.graph.matrices import Solve, SolveTriangular
from outcrop.linalg.checks import flag, system

__all__ = [
    "solve",
    "solve_triangular",
]


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
    dtype = system(matrix, given, "solve")
    return array_of(Solve.of(cast(node_of(matrix), dtype), cast(node_of(given), dtype)))


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
    dtype = system(matrix, given, "solve_triangular")
    solution = SolveTriangular.of(
        cast(node_of(matrix), dtype),
        cast(node_of(given), dtype),
        lower=flag(lower, "lower"),
        transposed=kinds[trans] > 0,
        conjugate=kinds[trans] == 2 and dtype.kind == "c",
        unit=flag(unit_diagonal, "unit_diagonal"),
    )
    return array_of(solution)
