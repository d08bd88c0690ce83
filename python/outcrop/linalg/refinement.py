"""Iterative refinement of solutions, with bounds of their errors."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outcrop.array_api.elementwise_functions import abs as absolute
from outcrop.array_api.manipulation_functions import where
from outcrop.array_api.statistical_functions import max as greatest
from outcrop.arrays.array import Array
from outcrop.arrays.creation import asarray
from outcrop.errors import (
    BudgetError,
    InvalidArgumentError,
    SingularMatrixError,
    forget_frames,
)
from outcrop.expressions.build.arrays import node_of
from outcrop.expressions.build.materializing import materialize
from outcrop.expressions.graph.nodes import Leaf
from outcrop.linalg.checks import converted, flag, floating, system
from outcrop.linalg.cholesky import cholesky
from outcrop.linalg.condition import inverse_norms, matrix_norm, reciprocal_condition
from outcrop.linalg.factored import ByCholesky, ByLU, Factored
from outcrop.linalg.lu import lu_factor, meaning
from outcrop.linalg.residuals import Operator, in_type, settled
from outcrop.process.operation import operation

__all__ = [
    "GerfsResult",
    "GesvxResult",
    "PosvxResult",
    "gerfs",
    "gesvx",
    "porfs",
    "posvx",
]

_STEPS = 5
"""How often a solution is refined, at most, as in LAPACK."""

_Numbers: TypeAlias = NDArray[np.float64]


class GerfsResult(NamedTuple):
    """What `gerfs` and `porfs` give.

    Attributes
    ----------
    x : Array
        The solution.
    ferr : numpy.ndarray
        For each right-hand side, of which there may be one, an estimated bound of the error: of the
        largest error of an element, by the largest element of the solution.
    berr : numpy.ndarray
        For each, the backward error: the least relative change of elements of the matrix and of the
        right-hand side for which the solution is exact.
    """

    x: Array
    ferr: _Numbers
    berr: _Numbers


class GesvxResult(NamedTuple):
    """What `gesvx` gives.

    Attributes
    ----------
    x : Array
        The solution.
    ferr, berr : numpy.ndarray
        As `gerfs` gives them.
    rcond : float
        As `gecon` estimates it; below the precision of the type, the matrix is singular as far as
        that can tell.
    lu, piv : Array
        The factors of the matrix, or of ``r[:, None] * A * c`` where that is what was factored.
    r, c : Array or None
        By what rows and columns were multiplied, where the matrix was equilibrated.
    """

    x: Array
    ferr: _Numbers
    berr: _Numbers
    rcond: float
    lu: Array
    piv: Array
    r: Array | None = None
    c: Array | None = None


class PosvxResult(NamedTuple):
    """What `posvx` gives.

    Attributes
    ----------
    x : Array
        The solution.
    ferr, berr : numpy.ndarray
        As `gerfs` gives them.
    rcond : float
        As `pocon` estimates it.
    factor : Array
        What `cholesky` gives for the matrix.
    """

    x: Array
    ferr: _Numbers
    berr: _Numbers
    rcond: float
    factor: Array


def gerfs(
    A: Array | ArrayLike,
    lu_and_piv: tuple[Array | ArrayLike, Array | ArrayLike],
    b: Array | ArrayLike,
    x: Array | ArrayLike,
    /,
    *,
    trans: int | str = 0,
) -> GerfsResult:
    """Refine the solution of ``op(A) x = b``, and bound its errors.

    Parameters
    ----------
    A : array_like, shape (n, n)
        The matrix.
    lu_and_piv : tuple of array_like, shapes (n, n) and (n,)
        What `lu_factor` gives for it.
    b : array_like, shape (n,) or (n, m)
        One right-hand side, or several.
    x : array_like, shape of `b`
        The solution, as `lu_solve` gives it.
    trans : {0, 1, 2, "N", "T", "C"}
        What op is: 0 or "N", nothing; 1 or "T", transposed; 2 or "C", transposed and conjugated.

    Returns
    -------
    GerfsResult
        ``x``, ``ferr`` and ``berr``. Where memory does not hold `x`, it is in the scratch directory
        as long as it is referred to.

    Raises
    ------
    InvalidArgumentError
        Shapes do not match.
    SingularMatrixError
        An element of the diagonal of U is zero.

    Notes
    -----
    As LAPACK's gerfs: at most five steps, as long as each halves the backward error. Convergence
    depends on the numbers, so that this is computed at once. Each step reads `A` and the factors
    once, and what `ferr` takes reads the factors some four times, for all right-hand sides
    together. Of complex numbers, absolute values are meant throughout.

    Examples
    --------
    >>> A = oc.random.default_rng(1).normal(size=(200, 200)).save("A.zarr")
    >>> factors, b = oc.linalg.lu_factor(A), np.ones(200)
    >>> x, ferr, berr = oc.linalg.gerfs(A, factors, b, oc.linalg.lu_solve(factors, b))
    >>> bool(ferr < 1e-9), bool(berr < 1e-15)
    (True, True)
    """
    a, given, start, dtype = _system(A, b, x, "gerfs")
    factored, meant = ByLU(lu_and_piv, "gerfs"), meaning(trans)
    _check_order(factored, a, "gerfs")
    with operation(), np.errstate(all="ignore"):
        operator = Operator(settled(in_type(a, dtype)), meant)
        return _refined(operator, factored, given, start, meant, dtype)


def porfs(
    A: Array | ArrayLike,
    c: Array | ArrayLike,
    b: Array | ArrayLike,
    x: Array | ArrayLike,
    /,
    *,
    lower: bool = True,
) -> GerfsResult:
    """Refine the solution of ``A x = b`` with a Hermitian, positive definite matrix.

    Parameters
    ----------
    A : array_like, shape (n, n)
        The matrix, of which one half is read: that of `c`.
    c : array_like, shape (n, n)
        What `cholesky` gives for it.
    b : array_like, shape (n,) or (n, m)
        One right-hand side, or several.
    x : array_like, shape of `b`
        The solution.
    lower : bool
        Whether `c` is L of ``A = L L^H``, instead of U of ``A = U^H U``.

    Returns
    -------
    GerfsResult
        As `gerfs`.

    Raises
    ------
    InvalidArgumentError, SingularMatrixError
        As `gerfs`.

    Examples
    --------
    >>> A = np.array([[4.0, 2.0], [2.0, 3.0]])
    >>> x, ferr, berr = oc.linalg.porfs(A, oc.linalg.cholesky(A), np.ones(2), np.zeros(2))
    >>> x.compute()
    array([0.125, 0.25 ])
    """
    a, given, start, dtype = _system(A, b, x, "porfs")
    is_lower = flag(lower, "lower")
    factored = ByCholesky(c, is_lower, "porfs")
    _check_order(factored, a, "porfs")
    with operation(), np.errstate(all="ignore"):
        half = "lower" if is_lower else "upper"
        operator = Operator(settled(in_type(a, dtype)), half=half)
        return _refined(operator, factored, given, start, "N", dtype)


def gesvx(
    A: Array | ArrayLike,
    b: Array | ArrayLike,
    /,
    *,
    trans: int | str = 0,
    equilibrate: bool = False,
) -> GesvxResult:
    """Solve ``op(A) x = b`` with refinement, bounds of errors and a condition estimate.

    Parameters
    ----------
    A : array_like, shape (n, n)
        The matrix.
    b : array_like, shape (n,) or (n, m)
        One right-hand side, or several.
    trans : {0, 1, 2, "N", "T", "C"}
        What op is: 0 or "N", nothing; 1 or "T", transposed; 2 or "C", transposed and conjugated.
    equilibrate : bool
        Whether rows and columns are first scaled by powers of two, so that the largest element of
        each is about 1, where these differ much.

    Returns
    -------
    GesvxResult
        ``x``, ``ferr``, ``berr``, ``rcond``, ``lu`` and ``piv``; what memory does not hold is in
        the scratch directory as long as it is referred to. Equilibrated, rcond, factors and
        backward errors are those of the scaled system, as in LAPACK.

    Raises
    ------
    InvalidArgumentError
        Shapes do not match.
    SingularMatrixError
        A pivot of `A` is zero; equilibrated, or there is nothing but zeros in a row or column.
    NotFiniteError
        There is NaN or infinity in `A`.

    Notes
    -----
    As LAPACK's gesvx, and computed at once. The matrix is read for the factorization and its norm,
    and once for every step of refinement, of which there is seldom more than one.

    Examples
    --------
    >>> A = oc.random.default_rng(1).normal(size=(200, 200)).save("A.zarr")
    >>> found = oc.linalg.gesvx(A, np.ones(200))
    >>> bool(np.allclose(A.compute() @ found.x.compute(), 1)), found.rcond > 1e-6
    (True, True)
    """
    a, given, _, dtype = _system(A, b, None, "gesvx")
    meant, scales = meaning(trans), flag(equilibrate, "equilibrate")
    if a.shape[0] == 0:
        x = converted(given, dtype)
        return GesvxResult(x, *_nothing(given), 1.0, *lu_factor(converted(a, dtype)))
    with operation(), np.errstate(all="ignore"):
        matrix: Any = settled(in_type(a, dtype))
        rows = columns = None
        if scales:
            matrix, rows, columns = _equilibrated(matrix)
        factors = lu_factor(matrix)
        norm = matrix_norm(matrix, adjoint=meant != "N")
        lu, piv, size = materialize(factors.lu, factors.piv, norm)
        factored = ByLU((lu, piv), "gesvx")
        before, after = (rows, columns) if meant == "N" else (columns, rows)
        right: Any = given if before is None else _times(before, given)
        operator = Operator(matrix, meant)
        try:
            x, ferr, berr = _refined(operator, factored, right, None, meant, dtype)
        except SingularMatrixError as error:
            # It is told of the factor, of which nobody has asked for solutions.
            forget_frames(error)
            raise SingularMatrixError(
                f"the matrix is singular: pivot {error.index}, counted from 1, is exactly zero in "
                f"{dtype}",
                error.index,
            ) from None
        if after is not None:
            # The scale of an error is that of the largest element.
            (x,) = materialize(_times(after, x))
            scale = np.asarray(after.compute(), np.float64)
            ferr = ferr * (scale.max() / scale.min())
        anorm = float(size.compute())
        rcond = reciprocal_condition(factored, anorm, adjoint=meant != "N")
    return GesvxResult(x, ferr, berr, rcond, lu, piv, rows, columns)


def posvx(A: Array | ArrayLike, b: Array | ArrayLike, /, *, lower: bool = True) -> PosvxResult:
    """Solve ``A x = b`` with a Hermitian, positive definite matrix, as `gesvx` does with any.

    Parameters
    ----------
    A : array_like, shape (n, n)
        The matrix, of which one half is read.
    b : array_like, shape (n,) or (n, m)
        One right-hand side, or several.
    lower : bool
        Which half that is.

    Returns
    -------
    PosvxResult
        ``x``, ``ferr``, ``berr``, ``rcond`` and ``factor``, which is L or U of `cholesky`.

    Raises
    ------
    InvalidArgumentError
        Shapes do not match.
    NotPositiveDefiniteError
        See `cholesky`.

    Examples
    --------
    >>> found = oc.linalg.posvx(np.array([[4.0, 2.0], [2.0, 3.0]]), np.ones(2))
    >>> found.x.compute(), round(found.rcond, 4)
    (array([0.125, 0.25 ]), 0.2222)
    """
    a, given, _, dtype = _system(A, b, None, "posvx")
    is_lower = flag(lower, "lower")
    if a.shape[0] == 0:
        x = converted(given, dtype)
        return PosvxResult(x, *_nothing(given), 1.0, converted(a, dtype))
    with operation(), np.errstate(all="ignore"):
        matrix = settled(in_type(a, dtype))
        operator = Operator(matrix, half="lower" if is_lower else "upper")
        norm = greatest(operator.row_sums())
        factor, size = materialize(cholesky(matrix, upper=not is_lower), norm)
        factored = ByCholesky(factor, is_lower, "posvx")
        x, ferr, berr = _refined(operator, factored, given, None, "N", dtype)
        rcond = reciprocal_condition(factored, float(size.compute()), adjoint=False)
    return PosvxResult(x, ferr, berr, rcond, factor)


# -- arguments -------------------------------------------------------------------------------------


def _system(A: Any, b: Any, x: Any, name: str) -> tuple[Array, Array, Array | None, np.dtype[Any]]:
    """A matrix, right-hand sides and a solution, if there is one yet; and what to compute in."""
    a, given = asarray(A), asarray(b)
    dtype = system(a, given, name)
    if x is None:
        return a, given, None, dtype
    start = asarray(x)
    if start.shape != given.shape:
        raise InvalidArgumentError(
            f"{name}: the solution has shape {start.shape}, and the right-hand sides {given.shape}"
        )
    return a, given, start, np.result_type(dtype, floating(start.dtype))


def _check_order(factored: Factored, a: Array, name: str) -> None:
    if factored.n != a.shape[0]:
        raise InvalidArgumentError(
            f"{name}: factors of shape {factored.factors.shape} are not those of a matrix of shape "
            f"{a.shape}"
        )


def _nothing(given: Array) -> tuple[_Numbers, _Numbers]:
    return np.zeros(given.shape[1:]), np.zeros(given.shape[1:])


def _times(scale: Any, x: Any) -> Any:
    """What is scaled by rows."""
    return scale[:, None] * x if x.ndim == 2 else scale * x


# -- refinement ------------------------------------------------------------------------------------


def _refined(
    operator: Operator,
    factored: Factored,
    given: Array,
    start: Array | None,
    meant: str,
    dtype: np.dtype[Any],
) -> GerfsResult:
    """The refined solution; without one to start from, that by the factors."""
    factored.settle()
    if given.size == 0:
        (x,) = materialize(converted(given if start is None else start, dtype))
        return GerfsResult(x, *_nothing(given))
    b: Any = settled(converted(given, dtype))
    is_vector = b.ndim == 1
    if is_vector:
        b = b[:, None]
    if start is None:
        first: Any = factored.solve(b, meant)
    else:
        first = converted(start, dtype)
        first = first[:, None] if is_vector else first
    x, residual, size, berr = _steps(operator, factored, b, first, meant)
    ferr = _forward_errors(factored, x, residual, size, meant)
    # A vector again: of what is stored, that is a view.
    shape = given.shape[1:]
    return GerfsResult(x[:, 0] if is_vector else x, ferr.reshape(shape), berr.reshape(shape))


def _steps(
    operator: Operator, factored: Factored, b: Any, first: Any, meant: str
) -> tuple[Any, Any, Any, _Numbers]:
    """Refine as LAPACK's gerfs does, all right-hand sides in step."""
    eps = np.finfo(b.dtype).eps / 2
    guard = _guard(b)

    def residuals(x: Any, sizes: Any) -> list[Any]:
        residual = b - operator.times(x)
        size = operator.size_times(sizes) + absolute(b)
        above = absolute(residual)
        # Where there is nothing but zeros, nothing is wrong.
        relative = (above + guard(size)) / where(size > 0, size + guard(size), 1)
        return [residual, size, greatest(relative, axis=0)]

    x, residual, size, errors = _with_residuals(first, residuals)
    found = berr = np.asarray(errors.compute(), np.float64)
    before, is_active = np.full(berr.shape, 3.0), np.ones(berr.shape, bool)
    for _ in range(_STEPS):
        is_active = is_active & (found > eps) & (2 * found <= before)
        if not is_active.any():
            break
        before = np.where(is_active, found, before)
        correction: Any = factored.solve(residual, meant)
        if not is_active.all():
            correction = where(is_active[None, :], correction, 0)
        x, residual, size, errors = _with_residuals(x + correction, residuals)
        found = np.asarray(errors.compute(), np.float64)
        berr = np.where(is_active, found, berr)
    return x, residual, size, berr


def _guard(b: Any) -> Callable[[Any], Any]:
    """What is added to sizes, and what is divided by them: something to those near underflow."""
    facts = np.finfo(b.dtype)
    safe = float((b.shape[0] + 1) * facts.tiny)
    little = 2 * safe / float(facts.eps)
    return lambda size: where((size > 0) & (size <= little), safe, 0)


def _with_residuals(x: Any, residuals: Callable[[Any, Any], list[Any]]) -> list[Any]:
    """A solution and its residuals, by one plan; or by two, where that takes too much memory."""
    sizes = absolute(x)
    try:
        if isinstance(node_of(x), Leaf):
            # What is there is taken in the pass that takes the matrix.
            x, sizes = materialize(x, sizes)
            return [x, *materialize(*residuals(x, sizes))]
        # With the sizes among the results, the products would be made in different passes.
        x_now, *rest = materialize(x, *residuals(x, sizes), names_least=False)
    except BudgetError as error:
        forget_frames(error)
        x, sizes = materialize(x, sizes)
        return [x, *materialize(*residuals(x, sizes))]
    return [x_now, *rest]


def _forward_errors(factored: Factored, x: Any, residual: Any, size: Any, meant: str) -> _Numbers:
    """Bounds of ``|inv(op(A))| (|r| + (n + 1) eps (|op(A)| |x| + |b|))``, by the largest of x."""
    facts = np.finfo(x.dtype)
    slack = float((x.shape[0] + 1) * facts.eps / 2)
    weights = absolute(residual) + slack * size + _guard(x)(size)
    weights, most = materialize(converted(weights, size.dtype), greatest(absolute(x), axis=0))
    # Rows of the inverse are what its adjoint's columns are.
    bounds = inverse_norms(factored, weights, adjoint=meant == "N")
    largest = np.asarray(most.compute(), np.float64)
    return bounds / np.where(largest == 0, 1, largest)


# -- equilibration ---------------------------------------------------------------------------------


def _equilibrated(a: Any) -> tuple[Any, Any, Any]:
    """A matrix with scaled rows and columns, lazy, and by what; None where that is not needed."""
    (rows,) = materialize(greatest(absolute(a), axis=1))
    r, by_rows = _scales(rows, a.dtype)
    scaled = r[:, None] * a if by_rows else a
    (columns,) = materialize(greatest(absolute(scaled), axis=0))
    c, by_columns = _scales(columns, a.dtype)
    scaled = scaled * c[None, :] if by_columns else scaled
    if not by_rows and not by_columns:
        return a, None, None
    one = np.ones(len(r), r.dtype)
    return scaled, asarray(r if by_rows else one), asarray(c if by_columns else one)


_MUCH = 0.1
"""How small the least is of the largest elements, by the largest one, where scaling is worth it."""


def _scales(largest: Array, dtype: np.dtype[Any]) -> tuple[NDArray[Any], bool]:
    """Powers of two by which the largest elements are about 1; and whether that changes much."""
    sizes = np.asarray(largest.compute(), np.float64)
    if not (np.isfinite(sizes).all() and (sizes > 0).all()):
        # The factorization says what is wrong.
        return np.ones(len(sizes), largest.dtype), False
    facts = np.finfo(dtype)
    safe = float(facts.tiny / facts.eps)
    is_much = sizes.min() < _MUCH * sizes.max() or sizes.max() < safe or sizes.max() > 1 / safe
    exponents = np.clip(-np.frexp(sizes)[1] + 1, facts.minexp, facts.maxexp - 1)
    return np.ldexp(np.ones(len(sizes), largest.dtype), exponents), bool(is_much)
