"""Reductions, by the names of the Python array API standard, and NumPy's."""

import operator
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, overload

import numpy as np
from numpy.typing import DTypeLike

from outcrop.array_api.dispatch import placed
from outcrop.array_api.families import By, array_like
from outcrop.array_api.manipulation_functions import broadcast_to, concat
from outcrop.arrays.array import Array
from outcrop.errors import InvalidArgumentError, InvalidTypeError
from outcrop.expressions.build import moments, reductions
from outcrop.expressions.build.reductions import axis_of

__all__ = [
    "all",
    "any",
    "average",
    "cumulative_prod",
    "cumulative_sum",
    "diff",
    "max",
    "mean",
    "min",
    "nancumprod",
    "nancumsum",
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
    "trapezoid",
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
    return reductions.reduced(by.ufunc, by.given(x), axis, dtype, keepdims, initial, where)


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
    return reductions.reduced(ufunc, array_like(x), axis, None, keepdims, initial, where)


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
    return reductions.warned_of_nan(found, "All-NaN slice encountered")


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
    return reductions.reduced(ufunc, array_like(x), axis, None, keepdims, None, where)


def any(
    x: Array,
    /,
    *,
    axis: Axis = None,
    keepdims: bool = False,
    where: Any = True,
    out: Any = None,
) -> Array:
    """Tell whether an element over axes is true, as `numpy.any` does.

    What is not zero is true, NaN as well; arguments as for `sum`, and NumPy's ``out``.

    Examples
    --------
    >>> bool(oc.any(oc.asarray([0, 3, 0])))
    True
    """
    made = _truth(np.logical_or, x, axis=axis, keepdims=keepdims, where=where)
    return placed(made, out)


def all(
    x: Array,
    /,
    *,
    axis: Axis = None,
    keepdims: bool = False,
    where: Any = True,
    out: Any = None,
) -> Array:
    """Tell whether all elements over axes are true, as `numpy.all` does.

    What is not zero is true, NaN as well; arguments as for `sum`, and NumPy's ``out``.

    Examples
    --------
    >>> bool(oc.all(oc.asarray([0, 3, 0])))
    False
    """
    made = _truth(np.logical_and, x, axis=axis, keepdims=keepdims, where=where)
    return placed(made, out)


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
    return moments.mean(array_like(x), axis, dtype, keepdims, where, skips_nan)


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
    ddof: float | None = None,
) -> Array:
    """Do what `var`, `std`, `nanvar` and `nanstd` have in common."""
    if ddof is not None:
        if correction:
            raise InvalidArgumentError("ddof and correction are the same; one of them is given")
        correction = ddof
    return moments.variance(
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
    ddof: float | None = None,
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
        What the number of elements is lessened by; `ddof` is NumPy's name for it. Where that
        leaves nothing, there is a `RuntimeWarning`.
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
        ddof=ddof,
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
    ddof: float | None = None,
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
        What the number of elements is lessened by; `ddof` is NumPy's name for it. Where that
        leaves nothing, there is a `RuntimeWarning`.
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
        ddof=ddof,
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
    ddof: float | None = None,
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
        What the number of elements is lessened by; `ddof` is NumPy's name for it. Where that
        leaves nothing, there is a `RuntimeWarning`.
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
        ddof=ddof,
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
    ddof: float | None = None,
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
        What the number of elements is lessened by; `ddof` is NumPy's name for it. Where that
        leaves nothing, there is a `RuntimeWarning`.
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
        ddof=ddof,
    )


@overload
def average(
    x: Array,
    /,
    *,
    axis: Axis = None,
    weights: Any = None,
    returned: Literal[False] = False,
    keepdims: bool = False,
) -> Array: ...
@overload
def average(
    x: Array,
    /,
    *,
    axis: Axis = None,
    weights: Any = None,
    returned: Literal[True],
    keepdims: bool = False,
) -> tuple[Array, Array]: ...
def average(
    x: Array,
    /,
    *,
    axis: Axis = None,
    weights: Any = None,
    returned: bool = False,
    keepdims: bool = False,
) -> Array | tuple[Array, Array]:
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
    found = moments.average(array_like(x), axis, own, keepdims)
    return found if returned else found[0]


def _running(
    by: By,
    x: Array,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Array:
    """Do what `cumulative_sum`, `cumulative_prod`, `nancumsum` and `nancumprod` have in common."""
    array = by.given(x)
    if axis is None and array.ndim > 1 and by.instead is None:
        raise InvalidArgumentError("axis is needed for arrays of several axes")
    array, axis = reductions.one_axis(array, axis)
    return reductions.scanned(by.ufunc, array, axis, dtype, include_initial)


def cumulative_sum(
    x: Array,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Array:
    """Sum elements up to each one along an axis, as `numpy.cumulative_sum` does.

    The first one is the first element.

    Parameters
    ----------
    x : Array
        Numbers.
    axis : int, optional
        Along which axis. Default: the only one; of `nancumsum` and `nancumprod`, as of NumPy's,
        along all of them, in row-major order.
    dtype : dtype, optional
        Of the result, in which it is computed. Default: as for `sum`.
    include_initial : bool
        Whether one of no elements comes first, and the axis is longer by that.

    Returns
    -------
    Array
        Not computed yet.

    Raises
    ------
    InvalidArgumentError
        There are several axes, and none is named.

    Examples
    --------
    >>> oc.cumulative_sum(oc.asarray([1, 2, 3]), include_initial=True).compute()
    array([0, 1, 3, 6])
    """
    return _running(By(np.add), x, axis=axis, dtype=dtype, include_initial=include_initial)


def cumulative_prod(
    x: Array,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Array:
    """Multiply elements up to each one along an axis, as `numpy.cumulative_prod` does.

    The first one is the first element.

    Parameters
    ----------
    x : Array
        Numbers.
    axis : int, optional
        Along which axis. Default: the only one; of `nancumsum` and `nancumprod`, as of NumPy's,
        along all of them, in row-major order.
    dtype : dtype, optional
        Of the result, in which it is computed. Default: as for `sum`.
    include_initial : bool
        Whether one of no elements comes first, and the axis is longer by that.

    Returns
    -------
    Array
        Not computed yet.

    Raises
    ------
    InvalidArgumentError
        There are several axes, and none is named.

    Examples
    --------
    >>> oc.cumulative_prod(oc.asarray([1, 2, 3])).compute()
    array([1, 2, 6])
    """
    return _running(By(np.multiply), x, axis=axis, dtype=dtype, include_initial=include_initial)


def nancumsum(
    x: Array,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Array:
    """Sum elements up to each one, NaN as zero, along an axis, as `numpy.nancumsum` does.

    The first one is the first element.

    Parameters
    ----------
    x : Array
        Numbers.
    axis : int, optional
        Along which axis. Default: the only one; of `nancumsum` and `nancumprod`, as of NumPy's,
        along all of them, in row-major order.
    dtype : dtype, optional
        Of the result, in which it is computed. Default: as for `sum`.
    include_initial : bool
        Whether one of no elements comes first, and the axis is longer by that.

    Returns
    -------
    Array
        Not computed yet.

    Raises
    ------
    InvalidArgumentError
        There are several axes, and none is named.

    Examples
    --------
    >>> oc.nancumsum(oc.asarray([1, np.nan, 3])).compute()
    array([1., 1., 4.])
    """
    return _running(By(np.add, 0), x, axis=axis, dtype=dtype, include_initial=include_initial)


def nancumprod(
    x: Array,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Array:
    """Multiply elements up to each one, NaN as one, along an axis, as `numpy.nancumprod` does.

    The first one is the first element.

    Parameters
    ----------
    x : Array
        Numbers.
    axis : int, optional
        Along which axis. Default: the only one; of `nancumsum` and `nancumprod`, as of NumPy's,
        along all of them, in row-major order.
    dtype : dtype, optional
        Of the result, in which it is computed. Default: as for `sum`.
    include_initial : bool
        Whether one of no elements comes first, and the axis is longer by that.

    Returns
    -------
    Array
        Not computed yet.

    Raises
    ------
    InvalidArgumentError
        There are several axes, and none is named.

    Examples
    --------
    >>> oc.nancumprod(oc.asarray([2, np.nan, 3])).compute()
    array([2., 2., 6.])
    """
    return _running(By(np.multiply, 1), x, axis=axis, dtype=dtype, include_initial=include_initial)


def _neighbours(x: Array, axis: int) -> tuple[Array, Array]:
    """All but the first along an axis, and all but the last."""
    before = (slice(None),) * axis
    return x[(*before, slice(1, None))], x[(*before, slice(None, -1))]


def diff(
    x: Array, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None
) -> Array:
    """Subtract from each element the one before it along an axis, as `numpy.diff` does.

    Parameters
    ----------
    x : Array
        Numbers; of booleans it is whether the two differ.
    axis : int
        Along which axis.
    n : int
        How many times.
    prepend, append : Array, numpy.ndarray or number, optional
        What is put before and after the elements first. A number is put there once.

    Returns
    -------
    Array
        Not computed yet; shorter along the axis, by `n`.

    Raises
    ------
    InvalidArgumentError
        There is no axis, or `n` is negative.

    Examples
    --------
    >>> oc.diff(oc.asarray([1, 4, 9, 16])).compute()
    array([3, 5, 7])
    """
    given: Any = array_like(x)
    try:
        times = operator.index(n)
    except TypeError as error:
        raise InvalidTypeError(str(error)) from None
    if times < 0:
        raise InvalidArgumentError(f"order must be non-negative but got {n!r}")
    if given.ndim == 0:
        raise InvalidArgumentError("diff requires input that is at least one dimensional")
    along = axis_of(given.ndim, axis)
    if not times:
        return array_like(given)
    one = tuple(1 if a == along else extent for a, extent in enumerate(given.shape))

    def beside(end: Any) -> list[Array]:
        if end is None:
            return []
        array = array_like(end)
        return [broadcast_to(array, one) if array.ndim == 0 else array]

    parts = [*beside(prepend), given, *beside(append)]
    if len(parts) > 1:
        given = concat(parts, axis=along)
    subtract = np.not_equal if given.dtype == np.bool_ else np.subtract
    if times >= given.shape[along]:
        # Nothing is left, of the type that one difference has.
        given, times = given[(slice(None),) * along + (slice(0, 1),)], 1
    for _ in range(times):
        given = subtract(*_neighbours(given, along))
    result: Array = given
    return result


def trapezoid(y: Array, /, x: Any = None, *, dx: Any = 1.0, axis: int = -1) -> Array:
    """Integrate along an axis by the trapezoidal rule, as `numpy.trapezoid` does.

    Parameters
    ----------
    y : Array
        Values of the function.
    x : Array or numpy.ndarray, optional
        Where they are: one axis, or the shape of `y`.
    dx : number
        How far apart they are, without `x`.
    axis : int
        Along which axis.

    Returns
    -------
    Array
        Without the axis; not computed yet.

    Examples
    --------
    >>> float(oc.trapezoid(oc.asarray([1, 2, 3]), dx=0.5))
    2.0
    """
    values = array_like(y)
    if values.ndim == 0:
        raise InvalidArgumentError("trapezoid requires input that is at least one dimensional")
    along = axis_of(values.ndim, axis)
    width = dx
    if x is not None:
        places = array_like(x)
        width = diff(places, axis=-1 if places.ndim == 1 else along)
        if places.ndim == 1:
            width = width[(slice(None), *(None,) * (values.ndim - 1 - along))]
    later, earlier = _neighbours(values, along)
    area: Array = width * (later + earlier) / 2.0
    total: Array = area.sum(along)
    return total
