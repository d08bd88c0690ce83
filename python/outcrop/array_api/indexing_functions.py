"""Selecting elements: of one axis, by indices or by a condition; diagonals."""

from functools import partial
from typing import Any

import numpy as np

from outcrop.array_api.manipulation_functions import moveaxis
from outcrop.arrays.array import Array
from outcrop.arrays.conversion import elements_of
from outcrop.arrays.creation import asarray, of_indices
from outcrop.errors import InvalidArgumentError, InvalidTypeError
from outcrop.expressions.build.arrays import array_of, node_of
from outcrop.expressions.build.indexing import (
    compressed,
    flat_indices,
    indices_by_axis,
    selected,
)
from outcrop.expressions.build.reductions import axes_of, one_axis
from outcrop.expressions.rewrite.point_pushdown import on_diagonal

__all__ = ["compress", "diagonal", "extract", "flatnonzero", "nonzero", "take", "take_along_axis"]


def _array(x: Any) -> Array:
    return x if isinstance(x, Array) else asarray(x)


def take(x: Any, indices: Any, /, *, axis: int | None = None) -> Array:
    """Select elements at indices along an axis, as `numpy.take` does.

    Parameters
    ----------
    x : Array or numpy.ndarray
        What to select from.
    indices : array_like
        Of integers; negative ones count from the end. An `Array` is computed now. Its axes stand
        in the place of `axis`: none for one number.
    axis : int, optional
        Along which. Default: the elements of `x` in one row.

    Raises
    ------
    BoxIndexError
        An index, or the axis, is out of bounds.
    InvalidTypeError
        Other indices than integers.
    StorageFullError
        There is no room in the scratch directory for what memory is not for.

    Examples
    --------
    >>> oc.take(oc.asarray([[1, 2, 3], [4, 5, 6]]), [2, 0], axis=1).compute()
    array([[3, 1],
           [6, 4]])
    """
    array = _array(x)
    array, along = one_axis(array, axis)
    given = indices if isinstance(indices, Array) else elements_of(indices)
    if given.size and given.dtype.kind not in "iu":
        raise InvalidTypeError(f"indices must be integers, not {given.dtype}")
    whole = given.reshape(-1) if given.size else np.empty(0, np.int64)
    found = selected(array, (*(slice(None),) * along, whole))
    if given.ndim == 1:
        return found
    return found.reshape((*array.shape[:along], *given.shape, *array.shape[along + 1 :]))


def take_along_axis(x: Any, indices: Any, /, *, axis: int = -1) -> Array:
    """Select elements at indices along an axis, others for each row, as `numpy.take_along_axis`.

    What `argmax` finds with ``keepdims=True``, for example.

    Parameters
    ----------
    x : Array or numpy.ndarray
        What to select from.
    indices : array_like
        Of integers, with as many axes as `x`; negative ones count from the end. But for `axis`, it
        broadcasts against `x`. An `Array` is computed now.
    axis : int
        Along which.

    Returns
    -------
    Array
        Of the shape of `indices`, broadcast. Where the indices of all axes, 8 bytes each, take more
        than an eighth of the memory budget, it is computed now, to the scratch directory where it
        takes more than that, too; else it is not computed yet.

    Raises
    ------
    BoxIndexError
        An index is out of bounds.
    AxisError
        There is no such axis.
    InvalidArgumentError
        `indices` has another number of axes, or does not broadcast.
    InvalidTypeError
        Other indices than integers.
    StorageFullError
        There is no room in the scratch directory for what memory is not for.

    Examples
    --------
    >>> A = oc.asarray([[10, 30, 20], [60, 40, 50]])
    >>> oc.take_along_axis(A, oc.argmax(A, axis=1, keepdims=True), axis=1).compute()
    array([[30],
           [60]])
    """
    array = _array(x)
    (along,) = axes_of(array.ndim, axis)
    given = _array(indices)
    if given.dtype.kind not in "iu":
        raise InvalidTypeError(f"indices must be integers, not {given.dtype}")
    if given.ndim != array.ndim:
        raise InvalidArgumentError(
            f"`indices` and `x` must have the same number of dimensions, and have {given.ndim} and "
            f"{array.ndim}"
        )
    rest = [tuple(1 if i == along else n for i, n in enumerate(a.shape)) for a in (array, given)]
    try:
        shape = list(np.broadcast_shapes(*rest))
    except ValueError as error:
        raise InvalidArgumentError(str(error)) from None
    shape[along] = given.shape[along]
    # An axis of length 1 is of the same elements for all that it broadcasts to.
    key: list[Any] = []
    for i, extent in enumerate(shape):
        if i == along:
            key.append(given)
        else:
            places = of_indices(partial(_every, array.shape[i] == 1), extent, np.int64)
            key.append(places[(..., *(None,) * (array.ndim - 1 - i))])
    if array.ndim == 1:
        return selected(array, given)
    return selected(array, tuple(key))


def _every(is_one: bool, index: Any) -> Any:
    """The index along an axis, or that of its one element."""
    return np.zeros_like(index) if is_one else index


def compress(condition: Any, a: Any, /, *, axis: int | None = None) -> Array:
    """Select elements along an axis where a condition holds, as `numpy.compress` does.

    Parameters
    ----------
    condition : array_like
        One-dimensional, and not longer than the axis. An `Array` is computed now, because it
        decides on the shape of the result.
    a : Array or numpy.ndarray
        What to select from.
    axis : int, optional
        Along which. Default: the elements of `a` in one row.

    Raises
    ------
    BoxIndexError
        The condition holds beyond the end of the axis.
    StorageFullError
        There is no room in the scratch directory for what memory is not for.

    Examples
    --------
    >>> A = oc.asarray([[1, 2], [3, 4], [5, 6]])
    >>> oc.compress([False, True, True], A, axis=0).compute()
    array([[3, 4],
           [5, 6]])
    """
    array = _array(a)
    array, along = one_axis(array, axis)
    given = condition if isinstance(condition, Array) else elements_of(condition)
    if given.ndim != 1:
        raise InvalidArgumentError("condition must be a 1-d array")
    return compressed(array, given, along)


def extract(condition: Any, arr: Any, /) -> Array:
    """Select elements where a condition holds, in one row, as `numpy.extract` does.

    Examples
    --------
    >>> A = oc.arange(6)
    >>> oc.extract(A % 3 == 0, A).compute()
    array([0, 3])
    """
    given = condition if isinstance(condition, Array) else elements_of(condition)
    array = _array(arr)
    if given.ndim > 1 and given.shape == array.shape:
        # In the same order, and nothing is put in one row before.
        return selected(array, given.astype(np.bool_))
    return compress(given.reshape(-1), array)


def nonzero(x: Any, /) -> tuple[Array, ...]:
    """Give the indices of the elements that are not zero, as `numpy.nonzero` does.

    Parameters
    ----------
    x : Array or numpy.ndarray
        It is computed now, because it decides on the shape of the result.

    Returns
    -------
    tuple of Array
        Indices along each axis, in row-major order: in memory where they take no more than an
        eighth of the budget, else in the scratch directory.

    Raises
    ------
    StorageFullError
        There is no room in the scratch directory for what memory is not for.

    Examples
    --------
    >>> oc.nonzero(oc.asarray([3, 0, 4]))[0].compute()
    array([0, 2])
    """
    array = _array(x)
    if not array.ndim:
        raise InvalidArgumentError("nonzero of an array without axes; use oc.reshape(A, 1)")
    return indices_by_axis(array)


def flatnonzero(a: Any, /) -> Array:
    """Give the indices, in one row, of the elements that are not zero, as `numpy.flatnonzero` does.

    Examples
    --------
    >>> oc.flatnonzero(oc.asarray([[3, 0], [0, 4]])).compute()
    array([0, 3])
    """
    array = _array(a)
    return flat_indices(array if array.ndim else array.reshape(-1))


def diagonal(x: Any, /, *, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """Select the elements whose indices along two axes are the same, as `numpy.diagonal` does.

    Parameters
    ----------
    x : Array or numpy.ndarray
        Of two axes at least.
    offset : int
        How much larger than the index along `axis1` that along `axis2` is.
    axis1, axis2 : int
        The two axes. In their place, the result has the diagonal as its last axis.

    Returns
    -------
    Array
        Not computed yet. Of `x`, only blocks on the diagonal are read, or computed.

    Raises
    ------
    InvalidArgumentError
        There are no two axes, or both are one.
    AxisError
        There is no such axis.

    Examples
    --------
    >>> oc.diagonal(oc.asarray([[1, 2, 3], [4, 5, 6]]), offset=1).compute()
    array([2, 6])
    """
    array = _array(x)
    if array.ndim < 2:
        raise InvalidArgumentError("a diagonal is of arrays with two axes at least")
    (one,), (other,) = axes_of(array.ndim, axis1), axes_of(array.ndim, axis2)
    if one == other:
        raise InvalidArgumentError("axis1 and axis2 cannot be the same")
    firsts = (max(-offset, 0), max(offset, 0))
    ends = (array.shape[one] - firsts[0], array.shape[other] - firsts[1])
    found = on_diagonal(node_of(array), (one, other), firsts, max(min(ends), 0))
    return moveaxis(array_of(found), 0, -1)
