"""Reductions and running sums, by the names of the Python array API standard."""

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from outcrop.array import Array
from outcrop.creation import asarray
from outcrop.errors import InvalidArgumentError
from outcrop.expressions import reducing

__all__ = [
    "all",
    "any",
    "argmax",
    "argmin",
    "count_nonzero",
    "cumulative_prod",
    "cumulative_sum",
    "max",
    "mean",
    "min",
    "prod",
    "std",
    "sum",
    "var",
]

Axis = int | Sequence[int] | None


def _array(x: Any) -> Array:
    return x if isinstance(x, Array) else asarray(x)


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

    Parts of the array are summed by NumPy, and their sums two by two, so that rounding errors stay
    as small as those of pairwise summation.

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
        What is added to each sum.
    where : Array of bool, optional
        Which elements count; broadcasts to `x`.

    Returns
    -------
    Array
        Not computed yet.

    Examples
    --------
    >>> A = oc.fromfunction(lambda i, j: i + j, (1000, 1000), "int64")
    >>> int(oc.sum(A))
    999000000
    """
    return reducing.reduced(np.add, _array(x), axis, dtype, None, keepdims, initial, where)


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
    """Multiply the elements over axes, as `numpy.prod` does; arguments as for `sum`.

    Examples
    --------
    >>> oc.prod(oc.asarray([[1, 2], [3, 4]]), axis=0).compute()
    array([3, 8])
    """
    return reducing.reduced(np.multiply, _array(x), axis, dtype, None, keepdims, initial, where)


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

    Examples
    --------
    >>> oc.max(oc.asarray([[1, 7], [3, 4]]), axis=1).compute()
    array([7, 4])
    """
    return reducing.reduced(np.maximum, _array(x), axis, None, None, keepdims, initial, where)


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

    Examples
    --------
    >>> oc.min(oc.asarray([[1, 7], [3, 4]]), axis=1).compute()
    array([1, 3])
    """
    return reducing.reduced(np.minimum, _array(x), axis, None, None, keepdims, initial, where)


def any(x: Array, /, *, axis: Axis = None, keepdims: bool = False, where: Any = True) -> Array:
    """Tell whether an element over axes is true, as `numpy.any` does.

    Examples
    --------
    >>> bool(oc.any(oc.asarray([0, 3, 0])))
    True
    """
    return reducing.reduced(np.logical_or, _array(x), axis, None, None, keepdims, None, where)


def all(x: Array, /, *, axis: Axis = None, keepdims: bool = False, where: Any = True) -> Array:
    """Tell whether all elements over axes are true, as `numpy.all` does.

    Examples
    --------
    >>> bool(oc.all(oc.asarray([0, 3, 0])))
    False
    """
    return reducing.reduced(np.logical_and, _array(x), axis, None, None, keepdims, None, where)


def count_nonzero(x: Array, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """Count the elements over axes that are not zero.

    Examples
    --------
    >>> int(oc.count_nonzero(oc.asarray([0, 3, 0])))
    1
    """
    return reducing.reduced(np.add, _array(x).astype(bool), axis, np.intp, None, keepdims)


def mean(
    x: Array, /, *, axis: Axis = None, dtype: DTypeLike | None = None, keepdims: bool = False
) -> Array:
    """Average the elements over axes, as `numpy.mean` does.

    Examples
    --------
    >>> float(oc.mean(oc.asarray([1, 2, 6])))
    3.0
    """
    return reducing.mean(_array(x), axis, dtype, keepdims)


def var(
    x: Array,
    /,
    *,
    axis: Axis = None,
    correction: float = 0,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
) -> Array:
    """Compute variances over axes, as `numpy.var` does, in one pass over the array.

    Parameters
    ----------
    x : Array
        Numbers.
    axis : int or sequence of int, optional
        Which axes. Default: all.
    correction : float
        What the number of elements is lessened by: NumPy's ``ddof``.
    dtype, keepdims
        As for `sum`.

    Returns
    -------
    Array
        Not computed yet.

    Examples
    --------
    >>> float(oc.var(oc.asarray([1, 2, 6]), correction=1))
    7.0
    """
    return reducing.variance(_array(x), axis, dtype, correction, keepdims)


def std(
    x: Array,
    /,
    *,
    axis: Axis = None,
    correction: float = 0,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
) -> Array:
    """Compute standard deviations over axes; arguments as for `var`.

    Examples
    --------
    >>> float(oc.std(oc.asarray([1.0, 3.0])))
    1.0
    """
    return reducing.variance(_array(x), axis, dtype, correction, keepdims, root=True)


def argmax(x: Array, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """Find the indices of the largest elements along an axis, the first of equal ones.

    Examples
    --------
    >>> int(oc.argmax(oc.asarray([3, 7, 7])))
    1
    """
    return reducing.arg_extreme(_array(x), axis, keepdims, least=False)


def argmin(x: Array, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """Find the indices of the smallest elements along an axis, the first of equal ones.

    Examples
    --------
    >>> int(oc.argmin(oc.asarray([3, 7, 2])))
    2
    """
    return reducing.arg_extreme(_array(x), axis, keepdims, least=True)


def _running(
    ufunc: np.ufunc, x: Array, axis: int | None, dtype: DTypeLike | None, include_initial: bool
) -> Array:
    array = _array(x)
    if include_initial:
        raise InvalidArgumentError("include_initial=True is not supported in this version")
    if axis is None:
        if array.ndim != 1:
            raise InvalidArgumentError("axis is needed for arrays of several axes")
        axis = 0
    return reducing.scanned(ufunc, array, operator.index(axis), dtype)


def cumulative_sum(
    x: Array,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Array:
    """Sum elements up to each one along an axis, as `numpy.cumsum` does.

    Examples
    --------
    >>> oc.cumulative_sum(oc.asarray([1, 2, 3])).compute()
    array([1, 3, 6])
    """
    return _running(np.add, x, axis, dtype, include_initial)


def cumulative_prod(
    x: Array,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Array:
    """Multiply elements up to each one along an axis, as `numpy.cumprod` does.

    Examples
    --------
    >>> oc.cumulative_prod(oc.asarray([1, 2, 3])).compute()
    array([1, 2, 6])
    """
    return _running(np.multiply, x, axis, dtype, include_initial)
