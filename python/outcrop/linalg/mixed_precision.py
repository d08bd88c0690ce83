"""Systems of equations by factors in single precision, refined to double precision."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outcrop.array_api.elementwise_functions import abs as absolute
from outcrop.array_api.elementwise_functions import conj
from outcrop.array_api.manipulation_functions import concat
from outcrop.array_api.non_ufunc_functions import real
from outcrop.array_api.statistical_functions import max as greatest
from outcrop.array_api.statistical_functions import sum as total
from outcrop.arrays.array import Array
from outcrop.arrays.creation import asarray
from outcrop.errors import (
    BudgetError,
    InvalidArgumentError,
    NotFiniteError,
    NotPositiveDefiniteError,
    SingularMatrixError,
    forget_frames,
)
from outcrop.expressions.build.materializing import materialize
from outcrop.linalg.checks import converted, system
from outcrop.linalg.cholesky import cholesky
from outcrop.linalg.factored import ByCholesky, ByLDL, ByLU, Factored
from outcrop.linalg.ldl import ldl_factor
from outcrop.linalg.lu import lu_factor
from outcrop.linalg.residuals import Operator, in_type, settled
from outcrop.linalg.solve import kind_of, solve
from outcrop.process.operation import operation

__all__ = ["MixedSolution", "Refinement", "solve_mixed"]

OVERFLOW, NO_FACTORS, NO_CONVERGENCE = -2, -3, -31
"""Why a system was solved in double precision alone, as LAPACK's dsgesv says it."""

_ITERATIONS = 30
"""How often the factors are applied, at most, as in LAPACK."""

_WELL = 1 / 4
"""By how much a plain step makes residuals smaller, at least, or else GMRES takes over."""

_IDLE = 2
"""How often in a row GMRES may leave the residual of every column as large as it was."""

_INNER = 1e-4
"""By how much GMRES makes the preconditioned residual smaller before the true one is looked at."""

_LOWER = {
    np.dtype(np.float64): np.dtype(np.float32),
    np.dtype(np.complex128): np.dtype(np.complex64),
}


class MixedSolution(NamedTuple):
    """What `solve_mixed` gives.

    Attributes
    ----------
    x : Array
        The solution.
    iterations : int
        How often it was refined. Below zero, it was computed in double precision alone: since
        elements are too large for single precision (-2), or as there the matrix cannot be factored
        (-3), or as refinement did not converge (-31).
    """

    x: Array
    iterations: int


def solve_mixed(
    A: Array | ArrayLike, b: Array | ArrayLike, /, *, assume: str = "gen"
) -> MixedSolution:
    """Solve ``A x = b`` in double precision by factors in single precision.

    Parameters
    ----------
    A : array_like, shape (n, n)
        The matrix, of double precision. Only its lower half is read, unless it may be any.
    b : array_like, shape (n,) or (n, m)
        One right-hand side, or several.
    assume : {"gen", "pos", "sym", "her"}
        What is known of `A`, as in `solve`.

    Returns
    -------
    MixedSolution
        ``x``, and in ``iterations`` how often it was refined; below zero if the factors in single
        precision were of no use. What memory does not hold is in the scratch directory as long as
        it is referred to.

    Raises
    ------
    InvalidArgumentError
        Shapes do not match, or `A` and `b` are of single precision.
    SingularMatrixError, NotFiniteError, NotPositiveDefiniteError
        As `solve`: the matrix cannot be factored in double precision either.

    Notes
    -----
    The factors take half of the bytes, and half of the time, so that this pays where factoring
    takes far longer than reading the matrix some times. Each iteration reads `A` and the factors
    once; of matrices with a condition number below about 1e5 there are two or three. As in LAPACK's
    dsgesv, a solution is accepted when the largest element of its residual is at most that of the
    solution times ``|A| sqrt(n) eps``, with the infinity norm, and after 30 iterations the system
    is solved again in double precision. Where plain steps converge slowly, the correction is that
    of GMRES, preconditioned by the factors (GMRES-IR of Carson and Higham, SIAM J. Sci. Comput. 40,
    2018), which goes beyond 1e8 where few singular values are that small. It is computed at once.

    Examples
    --------
    >>> A = oc.random.default_rng(1).normal(size=(300, 300)).save("A.zarr")
    >>> x, iterations = oc.linalg.solve_mixed(A, np.ones(300))
    >>> bool(np.allclose(A.compute() @ x.compute(), 1)), 0 <= iterations <= 30
    (True, True)
    """
    a, given = asarray(A), asarray(b)
    dtype, kind = system(a, given, "solve_mixed"), kind_of(assume)
    if dtype not in _LOWER:
        raise InvalidArgumentError(
            f"solve_mixed: for {dtype} there is no type of lower precision to factor in"
        )
    with operation(), np.errstate(all="ignore"):
        right: Any = settled(converted(given, dtype))
        if given.size == 0:
            return MixedSolution(right, 0)
        matrix = settled(in_type(a, dtype))
        columns = right[:, None] if right.ndim == 1 else right
        x, iterations = _by_lower_precision(matrix, columns, kind)
        if x is None:
            (x,) = materialize(solve(matrix, columns, assume=assume))
    return MixedSolution(x[:, 0] if right.ndim == 1 else x, iterations)


def check_lower(dtype: np.dtype[Any], wanted: object) -> None:
    """Check the type that a system is to be factored in."""
    try:
        found = np.dtype(wanted)  # type: ignore[call-overload]
    except TypeError:
        found = None
    if found is None or found != _LOWER.get(dtype):
        own = _LOWER.get(dtype)
        instead = "there is none for it" if own is None else f"that would be {own.name!r}"
        raise InvalidArgumentError(
            f"solve: refine= names the type of lower precision to factor {dtype} in; {instead}, "
            f"not {wanted!r}"
        )


def _by_lower_precision(a: Array, b: Any, kind: str) -> tuple[Any, int]:
    """The solution, if there is one, and LAPACK's number of iterations."""
    half = None if kind == "gen" else "lower"
    operator = Operator(a, half=half, hermitian=kind != "sym")
    norm = greatest(operator.row_sums())
    low: Any = in_type(a, _LOWER[a.dtype])
    factored: Factored
    try:
        if kind == "pos":
            factor, size = materialize(cholesky(low), norm)
            factored = ByCholesky(factor, True, "solve_mixed")
        elif kind == "gen":
            factors = lu_factor(low)
            lu, piv, size = materialize(factors.lu, factors.piv, norm)
            factored = ByLU((lu, piv), "solve_mixed")
        else:
            factored = ByLDL(ldl_factor(low, hermitian=kind == "her"))
            (size,) = factored.settle_with(norm)
        accepted = float(size.compute()) * np.sqrt(len(a)) * np.finfo(a.dtype).eps / 2
        return Refinement(operator, factored, b, accepted).solution()
    except (NotFiniteError, NotPositiveDefiniteError, SingularMatrixError) as error:
        forget_frames(error)
        (largest,) = materialize(operator.largest())
        is_too_large = float(largest.compute()) > np.finfo(np.float32).max
        return None, OVERFLOW if is_too_large else NO_FACTORS


class Refinement:
    """A system that is solved by approximate factors.

    Parameters
    ----------
    operator : Operator
        The matrix.
    factored : Factored
        Its factors.
    b : Array, shape (n, k)
        Right-hand sides.
    accepted : float
        The largest element of a residual by that of a solution with which this is accepted.
    """

    def __init__(self, operator: Operator, factored: Factored, b: Any, accepted: float) -> None:
        self._operator, self._factored, self._b = operator, factored, b
        self._accepted = accepted
        self._count = 0

    def solution(self) -> tuple[Any, int]:
        """The solution and the number of iterations; None, and why there is none."""
        x, r, errors = self._with_residuals(self._factored.solve(self._b, "N"), self._b)
        while not (errors <= self._accepted).all():
            if self._count >= _ITERATIONS or not np.isfinite(errors).all():
                return None, NO_CONVERGENCE
            self._count += 1
            before = errors
            x, r, errors = self._with_residuals(x + self._factored.solve(r, "N"), self._b)
            slow = (errors > self._accepted) & ~(errors <= _WELL * before)
            if slow.any():
                return self._by_gmres(x, r, errors)
        return x, self._count

    def _with_residuals(self, x: Any, b: Any) -> tuple[Any, Any, NDArray[np.float64]]:
        """A solution, its residual, and the largest element of that by the solution's.

        By one plan, which reads the matrix once; by two, where that takes too much memory.
        """
        try:
            results = materialize(x, *self._residuals(x, b), names_least=False)
        except BudgetError as error:
            forget_frames(error)
            (x,) = materialize(x)
            results = [x, *materialize(*self._residuals(x, b))]
        x, r, *largest = results
        top, bottom = (np.asarray(one.compute(), np.float64) for one in largest)
        # Of right-hand sides that are zero, the solution is.
        return x, r, np.where(top == 0, 0, top / np.where(bottom == 0, 1, bottom))

    def _residuals(self, x: Any, b: Any) -> list[Any]:
        r = b - self._operator.times(x)
        return [r, greatest(absolute(r), axis=0), greatest(absolute(x), axis=0)]

    def _by_gmres(self, x: Any, r: Any, errors: NDArray[np.float64]) -> tuple[Any, int]:
        """Refine those columns by GMRES that are not accepted yet."""
        is_left = errors > self._accepted
        columns = np.flatnonzero(is_left)
        all_x, b = x, self._b
        if len(columns) < len(errors):
            x, r, b = materialize(x[:, columns], r[:, columns], b[:, columns])
        errors = errors[columns]
        least, idle = errors, 0
        while (is_open := ~(errors <= self._accepted)).any():
            is_hopeless = idle > _IDLE or not np.isfinite(errors).all()
            if is_hopeless or self._count + 2 > _ITERATIONS:
                return None, NO_CONVERGENCE
            correction = self._correction(r, is_open)
            if correction is None:
                return None, NO_CONVERGENCE
            x, r, errors = self._with_residuals(x + correction, b)
            idle = 0 if (errors[is_open] <= least[is_open] / 2).any() else idle + 1
            least = np.minimum(least, errors)
        if len(columns) < len(is_left):
            order = np.arange(len(is_left))
            order[columns] = len(is_left) + np.arange(len(columns))
            (x,) = materialize(concat([all_x, x], axis=1)[:, order])
        return x, self._count

    def _correction(self, r: Any, is_open: NDArray[np.bool_]) -> Any:
        """What GMRES finds for ``inv(M) A d = inv(M) r``, with M by its factors; lazy.

        Zero for columns that are not open any more. Each column has a Krylov space of its own, and
        all go in step. New vectors are made orthogonal twice by sums of products, each time in one
        pass; the norm after the second time follows from that after the first, since little is
        subtracted.
        """
        self._count += 1
        start = self._factored.solve(r, "N")
        vector, squares = materialize(start, _squares(start))
        beta = np.sqrt(np.asarray(squares.compute(), np.float64))
        if not np.isfinite(beta).all():
            return None
        basis: list[Any] = []
        norms, k = beta, len(beta)
        upper = np.zeros((k, _ITERATIONS + 1, _ITERATIONS), r.dtype)
        weights, left = np.zeros((k, 0), r.dtype), np.ones(k)
        take_off: list[Any] = []
        while self._count < _ITERATIONS and (left > _INNER).any():
            self._count += 1
            j = len(basis)
            own = _minus(vector, basis, take_off) * _inverse(norms)[None, :]
            image = self._factored.solve(self._operator.times(own), "N")
            vectors = [*basis, own]
            own, image, *products = materialize(own, image, *_products(vectors, image))
            basis.append(own)
            first = _values(products)
            rest = _minus(image, basis, list(first))
            vector, squares, *products = materialize(rest, _squares(rest), *_products(basis, rest))
            second = _values(products)
            take_off = list(second)
            size = np.asarray(squares.compute(), np.float64)
            norms = np.sqrt(np.maximum(size - (np.abs(second) ** 2).sum(axis=0), 0))
            upper[:, : j + 1, j] = (first + second).T
            # What is no more than rounding is nothing.
            tiny = norms <= np.finfo(r.dtype).eps * np.sqrt((np.abs(first) ** 2).sum(axis=0))
            norms = np.where(tiny, 0, norms)
            upper[:, j + 1, j] = norms
            if not np.isfinite(upper).all():
                return None
            weights, left = _least_squares(upper[:, : j + 2, : j + 1], beta)
            weights[~is_open], left[~is_open] = 0, 0
        correction: Any = 0
        for i, own in enumerate(basis):
            correction = correction + own * weights[:, i][None, :]
        return correction if basis else None


def _squares(x: Any) -> Any:
    """The squares of the lengths of columns."""
    return total(real(x * conj(x)), axis=0)


def _products(vectors: Sequence[Any], x: Any) -> list[Any]:
    """The inner products of each column with that of each of several vectors."""
    return [total(conj(one) * x, axis=0) for one in vectors]


def _values(rows: Sequence[Array]) -> NDArray[Any]:
    return np.array([one.compute() for one in rows])


def _minus(x: Any, vectors: Sequence[Any], factors: Sequence[Any]) -> Any:
    """What is left of each column without its multiples of several vectors."""
    for one, factor in zip(vectors, factors, strict=False):
        x = x - one * factor[None, :]
    return x


def _inverse(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(x == 0, 0, 1 / np.where(x == 0, 1, x))


def _least_squares(
    upper: NDArray[Any], beta: NDArray[np.float64]
) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """For each column, what to take of its basis, and how much of the residual that leaves."""
    weights = np.zeros((len(beta), upper.shape[2]), upper.dtype)
    left = np.zeros(len(beta))
    for i, (matrix, length) in enumerate(zip(upper, beta, strict=True)):
        right = np.zeros(len(matrix), upper.dtype)
        right[0] = length
        weights[i] = np.linalg.lstsq(matrix, right, rcond=None)[0]
        rest = np.linalg.norm(right - matrix @ weights[i])
        left[i] = rest / length if length else 0
    return weights, left
