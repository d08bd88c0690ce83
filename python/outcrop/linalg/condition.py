"""Estimates of condition numbers, by factors."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outcrop.array_api.creation_functions import arange
from outcrop.array_api.elementwise_functions import abs as absolute
from outcrop.array_api.elementwise_functions import isfinite
from outcrop.array_api.manipulation_functions import where
from outcrop.array_api.searching_functions import argmax
from outcrop.array_api.statistical_functions import all as every
from outcrop.array_api.statistical_functions import max as greatest
from outcrop.array_api.statistical_functions import sum as total
from outcrop.arrays.array import Array
from outcrop.arrays.creation import asarray
from outcrop.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    NotFiniteError,
    SingularMatrixError,
    UnsupportedError,
)
from outcrop.expressions.build.materializing import materialize
from outcrop.linalg.checks import converted, flag, square
from outcrop.linalg.factored import ByCholesky, ByLDL, ByLU, Factored
from outcrop.linalg.ldl import LDLFactor
from outcrop.linalg.lu import lu_factor
from outcrop.process.operation import operation

__all__ = ["cond", "gecon", "pocon", "sycon"]

_ITERATIONS = 5
"""How many unit vectors are tried, as in LAPACK's lacn2."""


def gecon(
    lu_and_piv: tuple[Array | ArrayLike, Array | ArrayLike],
    anorm: float,
    /,
    norm: str = "1",
) -> float:
    """Estimate the reciprocal of a matrix's condition number from its factors.

    Parameters
    ----------
    lu_and_piv : tuple of array_like, shapes (n, n) and (n,)
        What `lu_factor` gives for the matrix.
    anorm : float
        The norm of the matrix itself, as `norm` gives it with ``ord=1`` or ``ord=numpy.inf``.
    norm : {"1", "O", "I"}
        Which norm: the 1-norm ("1" or "O"), or the infinity norm ("I").

    Returns
    -------
    float
        ``1 / (anorm * |inv(A)|)`` with an estimate of the norm of the inverse; 0 of a matrix that
        is singular. As that estimate is never too large, what is returned is never too small, but
        for rounding.

    Raises
    ------
    InvalidArgumentError
        There is no such norm, or shapes do not match, or `anorm` is negative or NaN.
    NotFiniteError
        There is NaN or infinity in the factors.

    Notes
    -----
    As LAPACK's gecon, by Higham's estimator (lacn2), which is seldom off by more than a factor of
    three. It is computed at once, with some four to six solutions of systems with one right-hand
    side; for each, the factors are read.

    Examples
    --------
    >>> A = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> round(oc.linalg.gecon(oc.linalg.lu_factor(A), 6.0), 6)
    0.047619
    """
    factored = ByLU(lu_and_piv, "gecon")
    if norm not in ("1", "O", "I"):
        raise InvalidArgumentError(f"gecon: norm must be '1', 'O' or 'I', got {norm!r}")
    return reciprocal_condition(factored, _size(anorm, "gecon"), adjoint=norm == "I")


def pocon(c: Array | ArrayLike, anorm: float, /, *, lower: bool = True) -> float:
    """Estimate the reciprocal of the condition number of a Hermitian, positive definite matrix.

    Parameters
    ----------
    c : array_like, shape (n, n)
        What `cholesky` gives for the matrix: only one half of it is read.
    anorm : float
        The 1-norm of the matrix itself.
    lower : bool
        Whether `c` is L of ``A = L L^H``, instead of U of ``A = U^H U``.

    Returns
    -------
    float
        As `gecon`.

    Raises
    ------
    InvalidArgumentError, NotFiniteError
        As `gecon`.

    Examples
    --------
    >>> oc.linalg.pocon(np.diag([1.0, 2.0, 4.0]), 16.0)
    0.0625
    """
    factored = ByCholesky(c, flag(lower, "lower"), "pocon")
    return reciprocal_condition(factored, _size(anorm, "pocon"), adjoint=False)


def sycon(factor: LDLFactor, anorm: float, /) -> float:
    """Estimate the reciprocal of the condition number of a symmetric or Hermitian matrix.

    Parameters
    ----------
    factor : LDLFactor
        What `ldl_factor` gives for the matrix.
    anorm : float
        The 1-norm of the matrix itself.

    Returns
    -------
    float
        As `gecon`.

    Raises
    ------
    InvalidArgumentError, NotFiniteError
        As `gecon`; the parts of `factor` do not fit each other.

    Notes
    -----
    As LAPACK's sycon and hecon. Elements of the factor may have grown (see `ldl_factor`), and the
    estimate is off by as much as solutions are that are not refined.

    Examples
    --------
    >>> A = np.array([[0.0, 2.0], [2.0, 3.0]])
    >>> round(oc.linalg.sycon(oc.linalg.ldl_factor(A), 5.0), 6)
    0.16
    """
    if not isinstance(factor, tuple | list) or len(factor) != 5:
        raise InvalidTypeError("sycon takes what ldl_factor gives: an LDLFactor")
    l, d, rows = (asarray(part) for part in factor[:3])  # noqa: E741
    lower, hermitian = flag(factor[3], "lower"), flag(factor[4], "hermitian")
    factored = ByLDL(LDLFactor(l, d, rows, lower, hermitian))
    square(factored.factors, "sycon")
    return reciprocal_condition(factored, _size(anorm, "sycon"), adjoint=False)


def cond(A: Array | ArrayLike, /, p: float = 1) -> float:
    """Estimate the condition number of a matrix.

    Parameters
    ----------
    A : array_like, shape (n, n)
        The matrix.
    p : {1, inf}
        By which norm.

    Returns
    -------
    float
        An estimate of ``|A| |inv(A)|``, as LAPACK's: but for rounding never larger than the true
        value, and seldom less than a third of it. Infinity of a singular matrix.

    Raises
    ------
    InvalidArgumentError
        `A` is not square, or has no elements, or there is no such norm.
    UnsupportedError
        Norms of matrices by their singular values, and the Frobenius norm.
    NotFiniteError
        There is NaN or infinity in `A`.

    Notes
    -----
    It is computed at once. The matrix is factored, into the scratch directory where memory does not
    hold the factors; these are read some four to six times more. From factors that are there,
    `gecon` estimates it without factoring again.

    Examples
    --------
    >>> A = oc.random.default_rng(1).normal(size=(200, 200)) + 20 * np.eye(200)
    >>> estimate = oc.linalg.cond(A)
    >>> bool(estimate < 1.001 * np.linalg.cond(A.compute(), 1) < 3 * estimate)
    True
    """
    a = asarray(A)
    dtype = square(a, "cond")
    if p is None or p in (2, -2, "fro", "nuc"):
        raise UnsupportedError(f"cond: condition numbers are by the norms 1 and inf, not {p!r}")
    if p not in (1, np.inf):
        raise InvalidArgumentError(f"cond: there is no norm {p!r} of matrices to estimate it by")
    if a.size == 0:
        raise InvalidArgumentError("cond: a matrix without elements has no condition number")
    with operation(), np.errstate(all="ignore"):
        factors = lu_factor(converted(a, dtype))
        lu, piv, size = materialize(factors.lu, factors.piv, matrix_norm(a, adjoint=p != 1))
        anorm = float(size.compute())
        reciprocal = reciprocal_condition(ByLU((lu, piv), "cond"), anorm, adjoint=p != 1)
    return float(np.inf) if reciprocal == 0 else 1 / reciprocal


def matrix_norm(a: Any, *, adjoint: bool) -> Array:
    """The 1-norm of a matrix, or of its adjoint, in double precision."""
    sums: Any = total(absolute(a), axis=1 if adjoint else 0, dtype=np.float64)
    return greatest(sums)


def _size(value: object, name: str) -> float:
    """A norm that is given."""
    try:
        found = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise InvalidTypeError(f"{name}: anorm is a number, not {value!r}") from None
    if not found >= 0:
        raise InvalidArgumentError(f"{name}: anorm is the norm of a matrix, not {value!r}")
    return found


def reciprocal_condition(factored: Factored, anorm: float, *, adjoint: bool) -> float:
    """Estimate it of a matrix of which the factors and the norm, or its adjoint's, are known."""
    if factored.n == 0:
        return 1.0
    if anorm == 0 or np.isinf(anorm):
        return 0.0
    try:
        with operation(), np.errstate(all="ignore"):
            factored.settle()
            # Times about the norm of the matrix, little overflows before the condition number does.
            facts = np.finfo(factored.dtype)
            room = 1024 * factored.n
            scale = float(np.clip(anorm, room * facts.tiny, facts.max / room))
            (found,) = inverse_norms(factored, scale, adjoint=adjoint) * (anorm / scale)
    except SingularMatrixError:
        return 0.0
    if not np.isfinite(found) and not bool(every(isfinite(factored.factors))):
        raise NotFiniteError("there is NaN or infinity in the factors")
    return float(1 / found) if np.isfinite(found) else 0.0


def inverse_norms(factored: Factored, weights: Any, *, adjoint: bool) -> NDArray[np.float64]:
    """Estimate the 1-norms of ``diag(w) inv(A)`` for several vectors w at once.

    Parameters
    ----------
    factored : Factored
        The matrix, not of order 0.
    weights : Array, shape (n, k), or float
        Each w, not negative; one number stands for all elements of one w.
    adjoint : bool
        Whether the inverse is that of ``A^H``.

    Returns
    -------
    numpy.ndarray, shape (k,)
        The estimates, each of them the norm of the image of a vector whose norm is 1: none is too
        large, but for rounding.

    Notes
    -----
    Algorithm 4.1 of Higham, FORTRAN codes for estimating the one-norm of a real or complex matrix
    (ACM TOMS 14, 1988), as LAPACK's lacn2 has it, for all w in step: each system that is solved has
    k right-hand sides. The vector with alternating signs, which lacn2 tries in the end, is solved
    for together with the first one, which saves to read the factors once.
    """
    n, dtype = factored.n, factored.dtype
    if isinstance(weights, Array):
        dtype = np.result_type(dtype, weights.dtype)
    to, back = ("C", "N") if adjoint else ("N", "C")
    rows: Any = arange(n)
    first = rows * 0 + 1 / n
    alternating = (1 - 2 * (rows % 2)) * (1 + rows / max(n - 1, 1))
    w: Any = weights
    start: Any = where(arange(2)[None, :] == 0, first[:, None], alternating[:, None])
    if not isinstance(w, Array):
        # One number is multiplied with before, so that the solution does not overflow.
        start, w = start * w, None
    images: Any = factored.solve(converted(start, dtype), to)
    signs, sums = _signs(images[:, :1]), _sums(images, w)
    kept, *numbers = materialize(signs, *sums)
    found: NDArray[np.float64] = _numbers(numbers[0])
    least = 2 * _numbers(numbers[1]) / (3 * n) if n > 1 else found
    before: Any = None
    for _ in range(_ITERATIONS - 1 if n > 1 else 0):
        pulled: Any = absolute(
            factored.solve(converted(kept * (weights if w is None else w), dtype), back)
        )
        results = [argmax(pulled, axis=0), greatest(pulled, axis=0)]
        if before is not None:
            results.append(total(where(rows[:, None] == before[None, :], pulled, 0), axis=0))
        places, most, *last = (np.asarray(one.compute()) for one in materialize(*results))
        if last and (last[0] == most).all():
            break
        before = places.reshape(-1)
        unit: Any = where(rows[:, None] == before[None, :], weights if w is None else 1, 0)
        image: Any = factored.solve(converted(unit, dtype), to)
        signs, (sizes,) = _signs(image), _sums(image, w, apart=False)
        results = [signs, sizes]
        if dtype.kind != "c":
            results.append(every(signs == kept, axis=0))
        kept, *numbers = materialize(*results)
        new = _numbers(numbers[0])
        is_last = ~(new > found)
        if len(numbers) > 1:
            is_last |= np.asarray(numbers[1].compute())
        found = np.maximum(found, new)
        if is_last.all():
            break
    return np.maximum(found, least)


def _signs(x: Any) -> Any:
    """The sign of each element, 1 of zero."""
    if x.dtype.kind != "c":
        return converted(where(x >= 0, 1, -1), x.dtype)
    size: Any = absolute(x)
    is_some = size > np.finfo(x.dtype).tiny
    return converted(where(is_some, x / where(is_some, size, 1), 1), x.dtype)


def _sums(images: Any, w: Any, *, apart: bool = True) -> list[Array]:
    """The 1-norms of columns with all weights; of each column apart, where there are two."""
    sizes: Any = absolute(images)
    parts = [sizes[:, :1], sizes[:, 1:]] if apart else [sizes]
    return [total(one if w is None else one * w, axis=0, dtype=np.float64) for one in parts]


def _numbers(x: Array) -> NDArray[np.float64]:
    return np.asarray(x.compute(), np.float64)
