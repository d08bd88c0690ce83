"""Running sums, differences and integrals along an axis."""

import operator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from outcrop._families import By, array_like
from outcrop.array import Array
from outcrop.errors import InvalidArgumentError, InvalidTypeError
from outcrop.expressions import reducing
from outcrop.expressions.reducing import axis_of
from outcrop.manipulation import broadcast_to, concat

__all__ = [
    "cumulative_prod",
    "cumulative_sum",
    "diff",
    "nancumprod",
    "nancumsum",
    "trapezoid",
]


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
    array, axis = reducing.one_axis(array, axis)
    return reducing.scanned(by.ufunc, array, axis, dtype, include_initial)


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
