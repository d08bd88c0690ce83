"""The LDL factorization of symmetric and Hermitian matrices that are not definite."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from outcrop.arrays.array import Array
from outcrop.arrays.creation import asarray
from outcrop.errors import InvalidArgumentError, InvalidTypeError
from outcrop.expressions.build.arrays import array_of, node_of
from outcrop.expressions.build.reductions import cast
from outcrop.expressions.graph.ldl import LDL, LDLDiagonal, LDLRows, LDLSolve
from outcrop.linalg.checks import flag, floating, square

__all__ = ["Inertia", "LDLFactor", "inertia", "ldl_factor", "ldl_solve"]


class LDLFactor(NamedTuple):
    """What `ldl_factor` gives: ``A = G P L D L^H P^T G^T``.

    Attributes
    ----------
    factor : Array, shape (n, n)
        L, which has ones on its diagonal and zeros above it; or, not `lower`, its transpose.
    d : Array, shape (n, 2)
        D, whose blocks are of one or two rows: its diagonal, and what is below it.
    rows : Array of int32, shape (n, 4)
        Row ``i`` of L is row ``rows[i, 0]`` of the matrix that is factored, which is that of
        rotated rows and columns: each of them with ``rows[i, 1]``, then with ``rows[i, 2]``. By
        ``rows[i, 3]`` it is told whether `factor` and `d` are of the same factorization.
    lower : bool
        Which half of the matrix was read. If it is the upper one, all of this is of ``A^T``.
    hermitian : bool
        Whether the matrix is Hermitian; else it is symmetric, and ``L^H`` stands for ``L^T``.
    """

    factor: Array
    d: Array
    rows: Array
    lower: bool
    hermitian: bool


class Inertia(NamedTuple):
    """How many eigenvalues there are of each sign.

    Attributes
    ----------
    positive, negative, zero : int
        How many are positive, negative, and zero as far as the factorization can tell.
    """

    positive: int
    negative: int
    zero: int


def ldl_factor(a: Array | ArrayLike, /, lower: bool = True, hermitian: bool = True) -> LDLFactor:
    """Factor a symmetric or Hermitian matrix, which need not be definite, for `ldl_solve`.

    Parameters
    ----------
    a : array_like, shape (n, n)
        The matrix, of which one half is read.
    lower : bool
        Which half that is.
    hermitian : bool
        Whether a complex matrix is Hermitian; else it is symmetric.

    Returns
    -------
    LDLFactor
        The factors, lazy. They have to be saved together (`outcrop.save`), or used in one
        expression, as by `ldl_solve`: pivots depend on the tiles, so that what is computed by
        itself need not fit the others, and is refused by `ldl_solve` then.

    Raises
    ------
    InvalidArgumentError
        `a` is not square.
    SingularMatrixError
        When it is computed: the factorization meets a pivot that is zero, since the matrix is
        singular, or since rotations and pivots of tiles are not enough for it. ``index`` is its
        number. `solve` with ``assume="sym"`` or ``"her"`` goes on by `lu_factor`, then.
    NotFiniteError
        When it is computed: there is NaN or infinity in the half of `a` that is read.

    Notes
    -----
    Rows and columns are rotated with others that are far away, by fixed angles (a butterfly of
    depth 2), so that there are pivots within the tiles on the diagonal; there they are those of
    Bunch and Kaufman. A matrix in one tile is not rotated, and is factored as LAPACK's `hetrf` does
    it. Of several tiles, elements of L may grow, and solutions by `ldl_solve` may have residuals
    that are as much larger; `solve` refines them. Half as much is computed and read as for
    `lu_factor`: about ``n^3 / (3 sqrt(M))`` elements with memory for M, and half of the matrix
    three times.

    Examples
    --------
    >>> A = np.array([[0.0, 2.0], [2.0, 0.0]])
    >>> oc.linalg.ldl_solve(oc.linalg.ldl_factor(A), np.array([2.0, 4.0])).compute()
    array([2., 1.])
    """
    x = asarray(a)
    dtype = square(x, "ldl_factor")
    is_lower, is_hermitian = flag(lower, "lower"), flag(hermitian, "hermitian")
    factor = LDL.of(cast(node_of(x), dtype), upper=not is_lower, hermitian=is_hermitian)
    parts = array_of(factor), array_of(LDLDiagonal.of(factor)), array_of(LDLRows.of(factor))
    return LDLFactor(*parts, is_lower, is_hermitian)


def ldl_solve(factor: LDLFactor, b: Array | ArrayLike, /) -> Array:
    """Solve ``A x = b`` with what `ldl_factor` gives for A.

    Parameters
    ----------
    factor : LDLFactor
        The factors; they may have been saved, and be arrays of any kind.
    b : array_like, shape (n,) or (n, m)
        One right-hand side, or several.

    Returns
    -------
    Array, shape of `b`
        The solution, lazy.

    Raises
    ------
    InvalidArgumentError
        Shapes do not match; when it is computed: what `rows` holds are no rows of a factorization,
        or the parts of `factor` are of factorizations with other pivots.
    SingularMatrixError
        When it is computed: D is singular.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> A = rng.normal(size=(300, 300))
    >>> A = A + A.T
    >>> factor = oc.linalg.ldl_factor(A)
    >>> done = oc.save({"l.zarr": factor.factor, "d.zarr": factor.d, "rows.zarr": factor.rows})
    >>> saved = factor._replace(factor=done["l.zarr"], d=done["d.zarr"], rows=done["rows.zarr"])
    >>> x = oc.linalg.ldl_solve(saved, np.ones(300)).compute()
    >>> bool(np.allclose(A @ x, 1))
    True
    """
    if not isinstance(factor, tuple | list) or len(factor) != 5:
        raise InvalidTypeError("ldl_solve takes what ldl_factor gives: an LDLFactor")
    triangle, d, rows = (asarray(x) for x in factor[:3])
    lower, hermitian = flag(factor[3], "lower"), flag(factor[4], "hermitian")
    given = asarray(b)
    dtype = np.result_type(square(triangle, "ldl_solve"), floating(given.dtype), floating(d.dtype))
    n = triangle.shape[0]
    if given.ndim not in (1, 2) or given.shape[0] != n:
        raise InvalidArgumentError(
            f"ldl_solve: right-hand sides of shape {given.shape} do not fit a factor of shape "
            f"{triangle.shape}; ({n},) or ({n}, m) would"
        )
    if d.shape != (n, 2) or rows.shape != (n, 4) or rows.dtype.kind not in "iu":
        raise InvalidArgumentError(
            f"ldl_solve: with a factor of shape {triangle.shape} go a D of shape ({n}, 2) and rows "
            f"of shape ({n}, 4), which are whole numbers, not shapes {d.shape} and {rows.shape} "
            f"of type {rows.dtype}"
        )
    types = dtype, dtype, np.dtype(np.int32)
    factors = [cast(node_of(x), t) for x, t in zip((triangle, d, rows), types, strict=True)]
    solution = LDLSolve.of(
        factors, cast(node_of(given), dtype), upper=not lower, hermitian=hermitian
    )
    return array_of(solution)


def inertia(factor: LDLFactor, /) -> Inertia:
    """Count the positive, negative and zero eigenvalues of a factored matrix, by its D.

    Parameters
    ----------
    factor : LDLFactor
        What `ldl_factor` gives for a real symmetric or a Hermitian matrix; of it, D is read.

    Returns
    -------
    Inertia
        The counts, computed at once. By Sylvester's law they are those of D; of eigenvalues as
        small as rounding errors the signs are those of rounding errors, too.

    Raises
    ------
    InvalidArgumentError
        The matrix is complex and symmetric.

    Examples
    --------
    >>> oc.linalg.inertia(oc.linalg.ldl_factor(np.array([[0.0, 2.0], [2.0, 0.0]])))
    Inertia(positive=1, negative=1, zero=0)
    """
    if not isinstance(factor, tuple | list) or len(factor) != 5:
        raise InvalidTypeError("inertia takes what ldl_factor gives: an LDLFactor")
    d: Any = asarray(factor[1])
    if d.dtype.kind == "c" and not factor[4]:
        raise InvalidArgumentError(
            "inertia: eigenvalues of complex symmetric matrices have no signs"
        )
    values = np.asarray(d.compute())
    diagonal, below = values[:, 0].real.astype(np.float64), np.abs(values[:, 1])
    # The determinant of a block of two is negative: one eigenvalue of each sign.
    of_two = np.flatnonzero(below)
    alone = np.ones(len(values), bool)
    alone[of_two] = alone[of_two + 1] = False
    own = diagonal[alone]
    positive, negative = int((own > 0).sum()), int((own < 0).sum())
    return Inertia(positive + len(of_two), negative + len(of_two), int((own == 0).sum()))
