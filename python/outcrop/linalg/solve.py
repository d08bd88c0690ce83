"""Systems of equations: any, positive definite, and triangular."""

from numpy.typing import ArrayLike

from outcrop.arrays.array import Array
from outcrop.arrays.creation import asarray
from outcrop.errors import InvalidArgumentError
from outcrop.expressions.build.arrays import array_of, node_of
from outcrop.expressions.build.reductions import cast
from outcrop.expressions.graph.matrices import Solve, SolveTriangular
from outcrop.linalg.checks import flag, system

__all__ = [
    "solve",
    "solve_triangular",
]

_KINDS = {
    "gen": "gen",
    "general": "gen",
    "pos": "pos",
    "positive definite": "pos",
    "sym": "sym",
    "symmetric": "sym",
    "her": "her",
    "hermitian": "her",
}
"""What is assumed of a matrix, by its short and its long name."""


def kind_of(assume: object) -> str:
    """What is assumed of a matrix, by its short name."""
    found = _KINDS.get(assume) if isinstance(assume, str) else None
    if found is None:
        raise InvalidArgumentError(
            f"assume must be 'gen', 'pos', 'sym' or 'her', or such a word in full, got {assume!r}"
        )
    return found


def solve(
    A: Array | ArrayLike,
    b: Array | ArrayLike,
    /,
    *,
    assume: str = "gen",
    refine: str | None = None,
    assume_a: str | None = None,
) -> Array:
    """Solve ``A x = b``.

    Parameters
    ----------
    A : array_like, shape (n, n)
        The matrix. Only its lower half is read, unless it may be any.
    b : array_like, shape (n,) or (n, m)
        One right-hand side, or several.
    assume : {"gen", "pos", "sym", "her"}
        What is known of `A`: ``"gen"`` (or ``"general"``), nothing; ``"pos"`` (or ``"positive
        definite"``), that it is Hermitian and positive definite; ``"sym"`` (or ``"symmetric"``),
        that it is symmetric; ``"her"`` (or ``"hermitian"``), that it is Hermitian.
    refine : {"float32", "complex64"}, optional
        A type of lower precision to factor the matrix in; the solution is refined to double
        precision, and computed at once: see `solve_mixed`. ``"float32"`` is for real matrices, and
        ``"complex64"`` for complex ones.
    assume_a : str, optional
        The same as `assume`, by the name that it has in SciPy.

    Returns
    -------
    Array, shape of `b`
        The solution, lazy; with ``assume="sym"`` or ``"her"`` it is computed at once, and is in
        the scratch directory as long as it is referred to, if memory does not hold it.

    Raises
    ------
    InvalidArgumentError
        Shapes do not match; nothing like that can be assumed, or it is said by two names.
    SingularMatrixError
        When it is computed: a pivot of `A` is zero. ``index`` is its number, as LAPACK's info.
    NotFiniteError
        When it is computed: there is NaN or infinity in `A`.
    NotPositiveDefiniteError
        When it is computed, with ``assume="pos"``: see `cholesky`.

    Notes
    -----
    `A` is factored with partial pivoting (`lu_factor`), or by `cholesky`, and what is solved is as
    accurate as by LAPACK's `gesv` and `posv`. With ``assume="sym"`` or ``"her"`` it is factored by
    `ldl_factor`, in half of the time of the former; the solution is refined until the largest
    element of its residual is at most that of the solution times ``|A| min(sqrt(n), 10) eps``, as
    in LAPACK's `dsgesv`, which takes one or two passes over half of the matrix and the factor. If
    it is not, or there are no pivots, the system is solved by LU after all. Factors are temporary;
    as far as memory does not hold them, they lie in the scratch directory (`outcrop.config`).

    Examples
    --------
    >>> A = oc.random.default_rng(1).normal(size=(500, 500))
    >>> b = np.arange(500.0)
    >>> x = oc.linalg.solve(A, b).compute()
    >>> bool(np.allclose(A.compute() @ x, b))
    True
    """
    if assume_a is not None:
        if assume not in ("gen", assume_a):
            raise InvalidArgumentError("assume and assume_a are two names of one argument")
        assume = assume_a
    kind = kind_of(assume)
    matrix, given = asarray(A), asarray(b)
    dtype = system(matrix, given, "solve")
    if refine is not None:
        # Imported late, as that solves by this, too.
        from outcrop.linalg.mixed_precision import check_lower, solve_mixed

        check_lower(dtype, refine)
        return solve_mixed(matrix, given, assume=assume).x
    if kind in ("sym", "her"):
        # Imported late, as that solves by this, too.
        from outcrop.linalg.indefinite import solve_indefinite

        return solve_indefinite(matrix, given, dtype, hermitian=kind == "her")
    operands = cast(node_of(matrix), dtype), cast(node_of(given), dtype)
    return array_of(Solve.of(*operands, positive_definite=kind == "pos"))


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
