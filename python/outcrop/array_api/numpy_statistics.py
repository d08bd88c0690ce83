"""NumPy's reductions and accumulations, with its arguments, as our own."""

from collections.abc import Callable
from typing import Any

import numpy as np

from outcrop.array_api import order_statistics, searching_functions, sorting_functions
from outcrop.array_api import statistical_functions as own
from outcrop.array_api.dispatch import delivered
from outcrop.array_api.manipulation_functions import reshape
from outcrop.arrays.array import Array
from outcrop.arrays.registry import implements
from outcrop.errors import InvalidArgumentError, UnsupportedError

__all__ = ["amax", "amin", "cumprod", "cumsum"]


def _reduced(function: Callable[..., Any], x: Any, /, out: Any = None, **options: Any) -> Array:
    """What a function of ours gives, in `out` where that is given."""
    given = {key: value for key, value in options.items() if value is not np._NoValue}

    def make(**more: Any) -> Array:
        found: Array = function(x, **{**given, **more})
        return found

    return delivered(make, out, "dtype" in options and given.get("dtype") is None)


def _spread(
    function: Callable[..., Any], x: Any, /, ddof: Any, correction: Any, mean: Any, **options: Any
) -> Any:
    """A variance or standard deviation, whose correction has two names."""
    if correction is np._NoValue:
        correction = ddof
    elif ddof:
        raise InvalidArgumentError("ddof and correction can't be provided simultaneously.")
    if mean is not np._NoValue:
        raise UnsupportedError(
            f"numpy.{function.__name__}(mean=) of an outcrop.Array is not supported in this version"
        )
    return _reduced(function, x, correction=correction, **options)


# -- sums and products -----------------------------------------------------------------------------


@implements(np.sum)
def _sum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = None,
    where: Any = True,
) -> Any:
    return _reduced(
        own.sum,
        a,
        out,
        axis=axis,
        dtype=dtype,
        keepdims=keepdims,
        initial=initial,
        where=where,
    )


@implements(np.prod)
def _prod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = None,
    where: Any = True,
) -> Any:
    return _reduced(
        own.prod,
        a,
        out,
        axis=axis,
        dtype=dtype,
        keepdims=keepdims,
        initial=initial,
        where=where,
    )


@implements(np.nansum)
def _nansum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = None,
    where: Any = True,
) -> Any:
    return _reduced(
        own.nansum,
        a,
        out,
        axis=axis,
        dtype=dtype,
        keepdims=keepdims,
        initial=initial,
        where=where,
    )


@implements(np.nanprod)
def _nanprod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = None,
    where: Any = True,
) -> Any:
    return _reduced(
        own.nanprod,
        a,
        out,
        axis=axis,
        dtype=dtype,
        keepdims=keepdims,
        initial=initial,
        where=where,
    )


# -- extremes --------------------------------------------------------------------------------------


@implements(np.amax, np.max)
def amax(
    a: Any,
    axis: Any = None,
    out: Array | None = None,
    keepdims: Any = False,
    initial: Any = None,
    where: Any = True,
) -> Array:
    """Find the largest elements, with NumPy's arguments; see `outcrop.max`.

    Examples
    --------
    >>> oc.amax(oc.asarray([[3, 7], [4, 1]]), 0).compute()
    array([4, 7])
    """
    return _reduced(own.max, a, out, axis=axis, keepdims=keepdims, initial=initial, where=where)


@implements(np.amin, np.min)
def amin(
    a: Any,
    axis: Any = None,
    out: Array | None = None,
    keepdims: Any = False,
    initial: Any = None,
    where: Any = True,
) -> Array:
    """Find the smallest elements, with NumPy's arguments; see `outcrop.min`.

    Examples
    --------
    >>> oc.amin(oc.asarray([[3, 7], [4, 1]]), 0).compute()
    array([3, 1])
    """
    return _reduced(own.min, a, out, axis=axis, keepdims=keepdims, initial=initial, where=where)


@implements(np.nanmax)
def _nanmax(
    a: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = None,
    where: Any = True,
) -> Any:
    return _reduced(own.nanmax, a, out, axis=axis, keepdims=keepdims, initial=initial, where=where)


@implements(np.nanmin)
def _nanmin(
    a: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = None,
    where: Any = True,
) -> Any:
    return _reduced(own.nanmin, a, out, axis=axis, keepdims=keepdims, initial=initial, where=where)


@implements(np.ptp)
def _ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    return _reduced(own.ptp, a, out, axis=axis, keepdims=keepdims)


# -- truth values ----------------------------------------------------------------------------------


@implements(np.all)
def _all(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True
) -> Any:
    return _reduced(own.all, a, out, axis=axis, keepdims=keepdims, where=where)


@implements(np.any)
def _any(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True
) -> Any:
    return _reduced(own.any, a, out, axis=axis, keepdims=keepdims, where=where)


# -- means and deviations --------------------------------------------------------------------------


@implements(np.mean)
def _mean(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    *,
    where: Any = True,
) -> Any:
    return _reduced(own.mean, a, out, axis=axis, dtype=dtype, keepdims=keepdims, where=where)


@implements(np.nanmean)
def _nanmean(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    *,
    where: Any = True,
) -> Any:
    return _reduced(own.nanmean, a, out, axis=axis, dtype=dtype, keepdims=keepdims, where=where)


@implements(np.average)
def _average(
    a: Any, axis: Any = None, weights: Any = None, returned: Any = False, *, keepdims: Any = False
) -> Any:
    return _reduced(
        own.average, a, axis=axis, weights=weights, returned=returned, keepdims=keepdims
    )


@implements(np.var)
def _var(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = False,
    *,
    where: Any = True,
    mean: Any = np._NoValue,
    correction: Any = np._NoValue,
) -> Any:
    return _spread(
        own.var,
        a,
        axis=axis,
        dtype=dtype,
        out=out,
        ddof=ddof,
        keepdims=keepdims,
        where=where,
        mean=mean,
        correction=correction,
    )


@implements(np.std)
def _std(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = False,
    *,
    where: Any = True,
    mean: Any = np._NoValue,
    correction: Any = np._NoValue,
) -> Any:
    return _spread(
        own.std,
        a,
        axis=axis,
        dtype=dtype,
        out=out,
        ddof=ddof,
        keepdims=keepdims,
        where=where,
        mean=mean,
        correction=correction,
    )


@implements(np.nanvar)
def _nanvar(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = False,
    *,
    where: Any = True,
    mean: Any = np._NoValue,
    correction: Any = np._NoValue,
) -> Any:
    return _spread(
        own.nanvar,
        a,
        axis=axis,
        dtype=dtype,
        out=out,
        ddof=ddof,
        keepdims=keepdims,
        where=where,
        mean=mean,
        correction=correction,
    )


@implements(np.nanstd)
def _nanstd(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = False,
    *,
    where: Any = True,
    mean: Any = np._NoValue,
    correction: Any = np._NoValue,
) -> Any:
    return _spread(
        own.nanstd,
        a,
        axis=axis,
        dtype=dtype,
        out=out,
        ddof=ddof,
        keepdims=keepdims,
        where=where,
        mean=mean,
        correction=correction,
    )


# -- medians and quantiles -------------------------------------------------------------------------


def _by_order(
    function: Callable[..., Any], x: Any, out: Any, weights: Any = None, **options: Any
) -> Any:
    """A median or quantile, which takes no weights."""
    if weights is not None:
        raise UnsupportedError(
            f"numpy.{function.__name__}(weights=) of an outcrop.Array is not supported in this "
            "version"
        )
    return _reduced(function, x, out, **options)


@implements(np.median)
def _median(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: Any = False, keepdims: Any = False
) -> Any:
    return _by_order(order_statistics.median, a, out, axis=axis, keepdims=keepdims)


@implements(np.nanmedian)
def _nanmedian(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: Any = False, keepdims: Any = False
) -> Any:
    return _by_order(order_statistics.nanmedian, a, out, axis=axis, keepdims=keepdims)


@implements(np.quantile)
def _quantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: Any = False,
    method: Any = "linear",
    keepdims: Any = False,
    *,
    weights: Any = None,
) -> Any:
    options = {"q": q, "axis": axis, "method": method, "keepdims": keepdims}
    return _by_order(order_statistics.quantile, a, out, weights, **options)


@implements(np.percentile)
def _percentile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: Any = False,
    method: Any = "linear",
    keepdims: Any = False,
    *,
    weights: Any = None,
) -> Any:
    options = {"q": q, "axis": axis, "method": method, "keepdims": keepdims}
    return _by_order(order_statistics.percentile, a, out, weights, **options)


@implements(np.nanquantile)
def _nanquantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: Any = False,
    method: Any = "linear",
    keepdims: Any = False,
    *,
    weights: Any = None,
) -> Any:
    options = {"q": q, "axis": axis, "method": method, "keepdims": keepdims}
    return _by_order(order_statistics.nanquantile, a, out, weights, **options)


@implements(np.nanpercentile)
def _nanpercentile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: Any = False,
    method: Any = "linear",
    keepdims: Any = False,
    *,
    weights: Any = None,
) -> Any:
    options = {"q": q, "axis": axis, "method": method, "keepdims": keepdims}
    return _by_order(order_statistics.nanpercentile, a, out, weights, **options)


# -- sorting ---------------------------------------------------------------------------------------


def _in_order(
    function: Callable[..., Array], a: Any, axis: Any, kind: Any, order: Any, *more: Any
) -> Array:
    """What a function that sorts gives; without an axis, of all elements in one row."""
    if order is not None:
        raise InvalidArgumentError("Cannot specify order when the array has no fields.")
    kinds = (None, "quicksort", "heapsort", "mergesort", "stable", "introselect")
    if kind not in kinds:
        raise InvalidArgumentError(f"sort kind must be one of {kinds[1:]}, not {kind!r}")
    if axis is None:
        a, axis = reshape(a, -1), 0
    return function(a, *more, axis=axis)


@implements(np.sort)
def _sort(
    a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None
) -> Any:
    return _in_order(sorting_functions.sort, a, axis, kind, order)


@implements(np.argsort)
def _argsort(
    a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None
) -> Any:
    return _in_order(sorting_functions.argsort, a, axis, kind, order)


@implements(np.partition)
def _partition(
    a: Any, kth: Any, axis: Any = -1, kind: Any = "introselect", order: Any = None
) -> Any:
    return _in_order(sorting_functions.partition, a, axis, kind, order, kth)


# -- searching and counting ------------------------------------------------------------------------


@implements(np.argmax)
def _argmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
    return _reduced(searching_functions.argmax, a, out, axis=axis, keepdims=keepdims)


@implements(np.argmin)
def _argmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
    return _reduced(searching_functions.argmin, a, out, axis=axis, keepdims=keepdims)


@implements(np.nanargmax)
def _nanargmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
    return _reduced(searching_functions.nanargmax, a, out, axis=axis, keepdims=keepdims)


@implements(np.nanargmin)
def _nanargmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
    return _reduced(searching_functions.nanargmin, a, out, axis=axis, keepdims=keepdims)


@implements(np.count_nonzero)
def _count_nonzero(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    return _reduced(searching_functions.count_nonzero, a, axis=axis, keepdims=keepdims)


# -- accumulations and differences -----------------------------------------------------------------


# Since NumPy 2.1.
if hasattr(np, "cumulative_sum"):

    @implements(np.cumulative_sum)
    def _cumulative_sum(
        x: Any,
        /,
        *,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        include_initial: Any = False,
    ) -> Any:
        return _reduced(
            own.cumulative_sum,
            x,
            out,
            axis=axis,
            dtype=dtype,
            include_initial=include_initial,
        )


# Since NumPy 2.1.
if hasattr(np, "cumulative_prod"):

    @implements(np.cumulative_prod)
    def _cumulative_prod(
        x: Any,
        /,
        *,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        include_initial: Any = False,
    ) -> Any:
        return _reduced(
            own.cumulative_prod,
            x,
            out,
            axis=axis,
            dtype=dtype,
            include_initial=include_initial,
        )


@implements(np.cumsum)
def cumsum(a: Any, axis: Any = None, dtype: Any = None, out: Array | None = None) -> Array:
    """Sum up to each element, as `numpy.cumsum` does: without an axis, of the elements in a row.

    Examples
    --------
    >>> oc.cumsum(oc.asarray([1, 2, 3])).compute()
    array([1, 3, 6])
    """
    if axis is None:
        a, axis = reshape(a, -1), 0
    return _reduced(own.cumulative_sum, a, out, axis=axis, dtype=dtype)


@implements(np.cumprod)
def cumprod(a: Any, axis: Any = None, dtype: Any = None, out: Array | None = None) -> Array:
    """Multiply up to each element, as `numpy.cumprod` does; see `cumsum`.

    Examples
    --------
    >>> oc.cumprod(oc.asarray([1, 2, 3])).compute()
    array([1, 2, 6])
    """
    if axis is None:
        a, axis = reshape(a, -1), 0
    return _reduced(own.cumulative_prod, a, out, axis=axis, dtype=dtype)


@implements(np.nancumsum)
def _nancumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    return _reduced(own.nancumsum, a, out, axis=axis, dtype=dtype)


@implements(np.nancumprod)
def _nancumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    return _reduced(own.nancumprod, a, out, axis=axis, dtype=dtype)


@implements(np.diff)
def _diff(a: Any, n: Any = 1, axis: Any = -1, prepend: Any = None, append: Any = None) -> Any:
    return _reduced(own.diff, a, n=n, axis=axis, prepend=prepend, append=append)


@implements(np.trapezoid)
def _trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: Any = -1) -> Any:
    return _reduced(own.trapezoid, y, x=x, dx=dx, axis=axis)
