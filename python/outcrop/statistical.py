"""Reductions, by the names of the Python array API standard, and NumPy's."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from outcrop._families import By, array_like
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
    """Do what `sum`, `prod`, `nansum` and `nanprod` have in common."""
    return reducing.reduced(by.ufunc, by.given(x), axis, dtype, keepdims, initial, where)


def sum(
    x: Array,
    /,
    *,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Array:
    """Sum the elements over axes, as `numpy.sum` does.

    Parts of the array are combined by NumPy, and their results two by two.

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

    Examples
    --------
    >>> A = oc.fromfunction(lambda i, j: i + j, (1000, 1000), "int64")
    >>> int(oc.sum(A))
    999000000
    """
    return _total(
        By(np.add), x, axis=axis, dtype=dtype, keepdims=keepdims, initial=initial, where=where
    )


def prod(
    x: Array,
    /,
    *,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Array:
    """Multiply the elements over axes, as `numpy.prod` does.

    Parts of the array are combined by NumPy, and their results two by two.

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

    Examples
    --------
    >>> oc.prod(oc.asarray([[1, 2], [3, 4]]), axis=0).compute()
    array([3, 8])
    """
    return _total(
        By(np.multiply), x, axis=axis, dtype=dtype, keepdims=keepdims, initial=initial, where=where
    )


def nansum(
    x: Array,
    /,
    *,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Array:
    """Sum the elements that are not NaN over axes, as `numpy.nansum` does.

    Parts of the array are combined by NumPy, and their results two by two.

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

    Examples
    --------
    >>> float(oc.nansum(oc.asarray([1, np.nan, 3])))
    4.0
    """
    return _total(
        By(np.add, 0), x, axis=axis, dtype=dtype, keepdims=keepdims, initial=initial, where=where
    )


def nanprod(
    x: Array,
    /,
    *,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Array:
    """Multiply the elements that are not NaN over axes, as `numpy.nanprod` does.

    Parts of the array are combined by NumPy, and their results two by two.

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

    Examples
    --------
    >>> float(oc.nanprod(oc.asarray([2, np.nan, 3])))
    6.0
    """
    return _total(
        By(np.multiply, 1),
        x,
        axis=axis,
        dtype=dtype,
        keepdims=keepdims,
        initial=initial,
        where=where,
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
    """Do what `max` and `min` have in common."""
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
    """Do what `nanmax` and `nanmin` have in common."""
    found = _extreme(ufunc, x, axis=axis, keepdims=keepdims, initial=initial, where=where)
    return reducing.warned_of_nan(found, "All-NaN slice encountered")


def max(
    x: Array,
    /,
    *,
    axis: Axis = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Array:
    """Find the largest elements over axes, NaN where there is one, as `numpy.max` does.

    Complex numbers are compared by their real parts, then by their imaginary ones.

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

    Examples
    --------
    >>> oc.max(oc.asarray([[1, 7], [3, 4]]), axis=1).compute()
    array([7, 4])
    """
    return _extreme(np.maximum, x, axis=axis, keepdims=keepdims, initial=initial, where=where)


def min(
    x: Array,
    /,
    *,
    axis: Axis = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Array:
    """Find the smallest elements over axes, NaN where there is one, as `numpy.min` does.

    Complex numbers are compared by their real parts, then by their imaginary ones.

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

    Examples
    --------
    >>> oc.min(oc.asarray([[1, 7], [3, 4]]), axis=1).compute()
    array([1, 3])
    """
    return _extreme(np.minimum, x, axis=axis, keepdims=keepdims, initial=initial, where=where)


def nanmax(
    x: Array,
    /,
    *,
    axis: Axis = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Array:
    """Find the largest elements over axes but for NaN, as `numpy.nanmax` does.

    Of nothing but NaN, it is NaN, with a `RuntimeWarning`; arguments as for `max`.

    Examples
    --------
    >>> float(oc.nanmax(oc.asarray([1, np.nan, 3])))
    3.0
    """
    return _extreme_of_numbers(
        np.fmax, x, axis=axis, keepdims=keepdims, initial=initial, where=where
    )


def nanmin(
    x: Array,
    /,
    *,
    axis: Axis = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Array:
    """Find the smallest elements over axes but for NaN, as `numpy.nanmin` does.

    Of nothing but NaN, it is NaN, with a `RuntimeWarning`; arguments as for `max`.

    Examples
    --------
    >>> float(oc.nanmin(oc.asarray([1, np.nan, 3])))
    1.0
    """
    return _extreme_of_numbers(
        np.fmin, x, axis=axis, keepdims=keepdims, initial=initial, where=where
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
    """Do what `any` and `all` have in common."""
    return reducing.reduced(ufunc, array_like(x), axis, None, keepdims, None, where)


def any(
    x: Array,
    /,
    *,
    axis: Axis = None,
    keepdims: bool = False,
    where: Any = True,
) -> Array:
    """Tell whether an element over axes is true, as `numpy.any` does.

    What is not zero is true, NaN as well; arguments as for `sum`.

    Examples
    --------
    >>> bool(oc.any(oc.asarray([0, 3, 0])))
    True
    """
    return _truth(np.logical_or, x, axis=axis, keepdims=keepdims, where=where)


def all(
    x: Array,
    /,
    *,
    axis: Axis = None,
    keepdims: bool = False,
    where: Any = True,
) -> Array:
    """Tell whether all elements over axes are true, as `numpy.all` does.

    What is not zero is true, NaN as well; arguments as for `sum`.

    Examples
    --------
    >>> bool(oc.all(oc.asarray([0, 3, 0])))
    False
    """
    return _truth(np.logical_and, x, axis=axis, keepdims=keepdims, where=where)


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
    """Do what `mean` and `nanmean` have in common."""
    return averaging.mean(array_like(x), axis, dtype, keepdims, where, skips_nan)


def mean(
    x: Array,
    /,
    *,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    where: Any = True,
) -> Array:
    """Average the elements over axes, as `numpy.mean` does.

    The mean of nothing is NaN, with a `RuntimeWarning`.

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

    Examples
    --------
    >>> float(oc.mean(oc.asarray([1, 2, 6])))
    3.0
    """
    return _mean(False, x, axis=axis, dtype=dtype, keepdims=keepdims, where=where)


def nanmean(
    x: Array,
    /,
    *,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    where: Any = True,
) -> Array:
    """Average the elements that are not NaN over axes, as `numpy.nanmean` does.

    The mean of nothing is NaN, with a `RuntimeWarning`.

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

    Examples
    --------
    >>> float(oc.nanmean(oc.asarray([1, np.nan, 2])))
    1.5
    """
    return _mean(True, x, axis=axis, dtype=dtype, keepdims=keepdims, where=where)


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
    """Do what `var`, `std`, `nanvar` and `nanstd` have in common."""
    return averaging.variance(
        array_like(x), axis, dtype, correction, keepdims, where, of.root, of.skips_nan
    )


def var(
    x: Array,
    /,
    *,
    axis: Axis = None,
    correction: float = 0,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    where: Any = True,
) -> Array:
    """Compute variances over axes, as `numpy.var` does.

    It takes one pass over the array, by the formula of Chan, Golub and LeVeque.

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

    Examples
    --------
    >>> float(oc.var(oc.asarray([1, 2, 6]), correction=1))
    7.0
    """
    return _spread(
        _Spread(root=False, skips_nan=False),
        x,
        axis=axis,
        correction=correction,
        dtype=dtype,
        keepdims=keepdims,
        where=where,
    )


def std(
    x: Array,
    /,
    *,
    axis: Axis = None,
    correction: float = 0,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    where: Any = True,
) -> Array:
    """Compute standard deviations over axes, as `numpy.std` does.

    It takes one pass over the array, by the formula of Chan, Golub and LeVeque.

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

    Examples
    --------
    >>> float(oc.std(oc.asarray([1.0, 3.0])))
    1.0
    """
    return _spread(
        _Spread(root=True, skips_nan=False),
        x,
        axis=axis,
        correction=correction,
        dtype=dtype,
        keepdims=keepdims,
        where=where,
    )


def nanvar(
    x: Array,
    /,
    *,
    axis: Axis = None,
    correction: float = 0,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    where: Any = True,
) -> Array:
    """Compute variances of what is not NaN over axes, as `numpy.nanvar` does.

    It takes one pass over the array, by the formula of Chan, Golub and LeVeque.

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

    Examples
    --------
    >>> float(oc.nanvar(oc.asarray([1, 2, np.nan, 6]), correction=1))
    7.0
    """
    return _spread(
        _Spread(root=False, skips_nan=True),
        x,
        axis=axis,
        correction=correction,
        dtype=dtype,
        keepdims=keepdims,
        where=where,
    )


def nanstd(
    x: Array,
    /,
    *,
    axis: Axis = None,
    correction: float = 0,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    where: Any = True,
) -> Array:
    """Compute standard deviations of what is not NaN over axes, as `numpy.nanstd` does.

    It takes one pass over the array, by the formula of Chan, Golub and LeVeque.

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

    Examples
    --------
    >>> float(oc.nanstd(oc.asarray([1, np.nan, 3.0])))
    1.0
    """
    return _spread(
        _Spread(root=True, skips_nan=True),
        x,
        axis=axis,
        correction=correction,
        dtype=dtype,
        keepdims=keepdims,
        where=where,
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
