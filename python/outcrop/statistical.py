"""Reductions, by the names of the Python array API standard, and NumPy's."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from outcrop._families import By, array_like, member_of
from outcrop.array import Array
from outcrop.expressions import averaging, reducing

__all__ = [
    "all",
    "any",
    "average",
    "max",
    "mean",
    "min",
    "nanmax",
    "nanmean",
    "nanmin",
    "nanprod",
    "nanstd",
    "nansum",
    "nanvar",
    "prod",
    "ptp",
    "std",
    "sum",
    "var",
]

Axis = int | Sequence[int] | None


# -- sums and products -----------------------------------------------------------------------------


def _total(
    by: By,
    x: Array,
    /,
    *,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Array:
    """Parts of the array are combined by NumPy, and their results two by two.

    So rounding errors stay as small as those of pairwise summation.

    Parameters
    ----------
    x : Array
        Numbers.
    axis : int or sequence of int, optional
        Which axes. Default: all.
    dtype : dtype, optional
        Of the result, in which it is computed. Default: as for `numpy.sum`.
    keepdims : bool
        Whether the axes stay, with length 1.
    initial : number, optional
        What each result begins with.
    where : Array of bool, optional
        Which elements count; broadcasts to `x`.

    Returns
    -------
    Array
        Not computed yet.

    Raises
    ------
    BoxIndexError, InvalidArgumentError, InvalidTypeError
        Where NumPy raises `IndexError`, `ValueError` or `TypeError`.
    """
    return reducing.reduced(by.ufunc, by.given(x), axis, dtype, keepdims, initial, where)


sum = member_of(
    _total,
    By(np.add),
    "sum",
    "Sum the elements over axes, as `numpy.sum` does.",
    """
    >>> A = oc.fromfunction(lambda i, j: i + j, (1000, 1000), "int64")
    >>> int(oc.sum(A))
    999000000
    """,
)

prod = member_of(
    _total,
    By(np.multiply),
    "prod",
    "Multiply the elements over axes, as `numpy.prod` does.",
    """
    >>> oc.prod(oc.asarray([[1, 2], [3, 4]]), axis=0).compute()
    array([3, 8])
    """,
)

nansum = member_of(
    _total,
    By(np.add, 0),
    "nansum",
    "Sum the elements that are not NaN over axes, as `numpy.nansum` does.",
    """
    >>> float(oc.nansum(oc.asarray([1, np.nan, 3])))
    4.0
    """,
)

nanprod = member_of(
    _total,
    By(np.multiply, 1),
    "nanprod",
    "Multiply the elements that are not NaN over axes, as `numpy.nanprod` does.",
    """
    >>> float(oc.nanprod(oc.asarray([2, np.nan, 3])))
    6.0
    """,
)


# -- extremes --------------------------------------------------------------------------------------


def _extreme(
    ufunc: np.ufunc,
    x: Array,
    /,
    *,
    axis: Axis = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Array:
    """Complex numbers are compared by their real parts, then by their imaginary ones.

    Parameters
    ----------
    x : Array
        Numbers.
    axis : int or sequence of int, optional
        Which axes. Default: all.
    keepdims : bool
        Whether the axes stay, with length 1.
    initial : number, optional
        A further candidate, and the result of no elements.
    where : Array of bool, optional
        Which elements count; broadcasts to `x`, and needs `initial`.

    Returns
    -------
    Array
        Not computed yet.

    Raises
    ------
    InvalidArgumentError
        Of no elements, without `initial`.
    """
    return reducing.reduced(ufunc, array_like(x), axis, None, keepdims, initial, where)


def _extreme_of_numbers(
    ufunc: np.ufunc,
    x: Array,
    /,
    *,
    axis: Axis = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Array:
    """Of nothing but NaN, it is NaN, with a `RuntimeWarning`; arguments as for `max`."""
    found = _extreme(ufunc, x, axis=axis, keepdims=keepdims, initial=initial, where=where)
    return reducing.warned_of_nan(found, "All-NaN slice encountered")


max = member_of(
    _extreme,
    np.maximum,
    "max",
    "Find the largest elements over axes, NaN where there is one, as `numpy.max` does.",
    """
    >>> oc.max(oc.asarray([[1, 7], [3, 4]]), axis=1).compute()
    array([7, 4])
    """,
)

min = member_of(
    _extreme,
    np.minimum,
    "min",
    "Find the smallest elements over axes, NaN where there is one, as `numpy.min` does.",
    """
    >>> oc.min(oc.asarray([[1, 7], [3, 4]]), axis=1).compute()
    array([1, 3])
    """,
)

nanmax = member_of(
    _extreme_of_numbers,
    np.fmax,
    "nanmax",
    "Find the largest elements over axes but for NaN, as `numpy.nanmax` does.",
    """
    >>> float(oc.nanmax(oc.asarray([1, np.nan, 3])))
    3.0
    """,
)

nanmin = member_of(
    _extreme_of_numbers,
    np.fmin,
    "nanmin",
    "Find the smallest elements over axes but for NaN, as `numpy.nanmin` does.",
    """
    >>> float(oc.nanmin(oc.asarray([1, np.nan, 3])))
    1.0
    """,
)


def ptp(x: Array, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """Find the ranges of the elements over axes, largest less smallest, as `numpy.ptp` does.

    Examples
    --------
    >>> oc.ptp(oc.asarray([[1, 7], [3, 4]]), axis=1).compute()
    array([6, 1])
    """
    found: Any = max(x, axis=axis, keepdims=keepdims)
    result: Array = found - min(x, axis=axis, keepdims=keepdims)
    return result


# -- truth -----------------------------------------------------------------------------------------


def _truth(
    ufunc: np.ufunc, x: Array, /, *, axis: Axis = None, keepdims: bool = False, where: Any = True
) -> Array:
    """What is not zero is true, NaN as well; arguments as for `sum`."""
    return reducing.reduced(ufunc, array_like(x), axis, None, keepdims, None, where)


any = member_of(
    _truth,
    np.logical_or,
    "any",
    "Tell whether an element over axes is true, as `numpy.any` does.",
    """
    >>> bool(oc.any(oc.asarray([0, 3, 0])))
    True
    """,
)

all = member_of(
    _truth,
    np.logical_and,
    "all",
    "Tell whether all elements over axes are true, as `numpy.all` does.",
    """
    >>> bool(oc.all(oc.asarray([0, 3, 0])))
    False
    """,
)


# -- means and deviations --------------------------------------------------------------------------


def _mean(
    skips_nan: bool,
    x: Array,
    /,
    *,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    where: Any = True,
) -> Array:
    """The mean of nothing is NaN, with a `RuntimeWarning`.

    Parameters
    ----------
    x : Array
        Numbers.
    axis : int or sequence of int, optional
        Which axes. Default: all.
    dtype : dtype, optional
        Of the result. Default: float64 of integers and booleans, else the array's own.
    keepdims, where
        As for `sum`.

    Returns
    -------
    Array
        Not computed yet.
    """
    return averaging.mean(array_like(x), axis, dtype, keepdims, where, skips_nan)


mean = member_of(
    _mean,
    False,
    "mean",
    "Average the elements over axes, as `numpy.mean` does.",
    """
    >>> float(oc.mean(oc.asarray([1, 2, 6])))
    3.0
    """,
)

nanmean = member_of(
    _mean,
    True,
    "nanmean",
    "Average the elements that are not NaN over axes, as `numpy.nanmean` does.",
    """
    >>> float(oc.nanmean(oc.asarray([1, np.nan, 2])))
    1.5
    """,
)


class _Spread(NamedTuple):
    root: bool
    skips_nan: bool


def _spread(
    of: _Spread,
    x: Array,
    /,
    *,
    axis: Axis = None,
    correction: float = 0,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    where: Any = True,
) -> Array:
    """It takes one pass over the array, by the formula of Chan, Golub and LeVeque.

    Parameters
    ----------
    x : Array
        Numbers.
    axis : int or sequence of int, optional
        Which axes. Default: all.
    correction : float
        What the number of elements is lessened by: NumPy's ``ddof``. Where that leaves nothing,
        there is a `RuntimeWarning`.
    dtype : dtype, optional
        In which means are computed. Default: float64 of integers and booleans, else the array's.
    keepdims, where
        As for `sum`.

    Returns
    -------
    Array
        Of real numbers, not computed yet.
    """
    return averaging.variance(
        array_like(x), axis, dtype, correction, keepdims, where, of.root, of.skips_nan
    )


var = member_of(
    _spread,
    _Spread(root=False, skips_nan=False),
    "var",
    "Compute variances over axes, as `numpy.var` does.",
    """
    >>> float(oc.var(oc.asarray([1, 2, 6]), correction=1))
    7.0
    """,
)

std = member_of(
    _spread,
    _Spread(root=True, skips_nan=False),
    "std",
    "Compute standard deviations over axes, as `numpy.std` does.",
    """
    >>> float(oc.std(oc.asarray([1.0, 3.0])))
    1.0
    """,
)

nanvar = member_of(
    _spread,
    _Spread(root=False, skips_nan=True),
    "nanvar",
    "Compute variances of what is not NaN over axes, as `numpy.nanvar` does.",
    """
    >>> float(oc.nanvar(oc.asarray([1, 2, np.nan, 6]), correction=1))
    7.0
    """,
)

nanstd = member_of(
    _spread,
    _Spread(root=True, skips_nan=True),
    "nanstd",
    "Compute standard deviations of what is not NaN over axes, as `numpy.nanstd` does.",
    """
    >>> float(oc.nanstd(oc.asarray([1, np.nan, 3.0])))
    1.0
    """,
)


def average(
    x: Array,
    /,
    *,
    axis: Axis = None,
    weights: Any = None,
    returned: bool = False,
    keepdims: bool = False,
) -> Any:
    """Average the elements over axes by weights, as `numpy.average` does.

    Parameters
    ----------
    x : Array
        Numbers.
    axis : int or sequence of int, optional
        Which axes. Default: all.
    weights : Array or numpy.ndarray, optional
        Of the shape of `x`, or with the lengths of `axis`. Default: all equal.
    returned : bool
        Whether to return the sums of the weights as well.
    keepdims : bool
        Whether the axes stay, with length 1.

    Returns
    -------
    Array or tuple of Array
        Not computed yet.

    Raises
    ------
    InvalidArgumentError, InvalidTypeError
        Weights of another shape; the latter where `axis` does not say what they are along.
    DivisionByZeroError
        When it is computed: weights add up to zero.

    Examples
    --------
    >>> float(oc.average(oc.asarray([1, 2, 6]), weights=[1, 1, 0]))
    1.5
    """
    own = None if weights is None else array_like(weights)
    found = averaging.average(array_like(x), axis, own, keepdims)
    return found if returned else found[0]
