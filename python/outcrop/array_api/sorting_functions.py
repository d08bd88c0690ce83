"""Sorting along an axis, by the names of the Python array API standard, and NumPy's.

Whole lines are sorted, lazily, as many at once as memory has room for. A few lines that are longer
than that are sorted at once, in scratch.
"""

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outcrop.array_api.families import array_like, long_lines
from outcrop.array_api.manipulation_functions import moveaxis, reshape, stack
from outcrop.arrays.array import Array
from outcrop.errors import InvalidArgumentError, InvalidTypeError
from outcrop.expressions.build.lines import of_lines
from outcrop.expressions.build.merge_sort import places_in_order, sorted_elements
from outcrop.expressions.build.reductions import axis_of

__all__ = ["argsort", "partition", "sort", "top_k"]

_INDEX = np.dtype(np.intp)


def sort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """Sort along an axis, as `numpy.sort` does: NaN is larger than all numbers.

    Parameters
    ----------
    x : Array
        Numbers.
    axis : int
        Along which axis.
    descending : bool
        Whether the largest come first, NaN before them.
    stable : bool
        Accepted, since equal elements cannot be told apart.

    Returns
    -------
    Array
        Not computed yet; but computed to scratch, in two passes, where there are few lines along
        the axis and memory has no room for one.

    Raises
    ------
    BudgetError
        Memory has no room for a line along the axis, and there are many; when it is computed.

    Examples
    --------
    >>> oc.sort(oc.asarray([[3, 1, 2], [9, 8, 7]])).compute()
    array([[1, 2, 3],
           [7, 8, 9]])
    """
    array, axis = _given(x, axis)
    if long_lines(array, axis):
        made = _line_by_line(sorted_elements, array, axis)
        return made[_backwards(axis)] if descending else made
    options = (("descending", bool(descending)),)
    return _made("sort", _sorted, options, array, axis, array.shape[axis], array.dtype)


def argsort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """Find the indices that sort along an axis; otherwise as `sort`.

    Parameters
    ----------
    x : Array
        Numbers.
    axis : int
        Along which axis.
    descending : bool
        Whether those of the largest come first.
    stable : bool
        Accepted: those of equal elements ascend in any case.

    Returns
    -------
    Array
        Of ``numpy.intp``, otherwise as of `sort`.

    Examples
    --------
    >>> oc.argsort(oc.asarray([3, 1, 2, 1]), descending=True).compute()
    array([0, 2, 1, 3])
    """
    array, axis = _given(x, axis)
    if long_lines(array, axis):
        if not descending:
            return _line_by_line(places_in_order, array, axis)
        backwards = _line_by_line(places_in_order, array[_backwards(axis)], axis)
        found: Array = array.shape[axis] - 1 - backwards[_backwards(axis)]
        return found
    options = (("descending", bool(descending)),)
    return _made("argsort", _ordered, options, array, axis, array.shape[axis], _INDEX)


def partition(x: Array, kth: Any, /, *, axis: int = -1) -> Array:
    """Put the smaller elements first along an axis, as `numpy.partition` does.

    Parameters
    ----------
    x : Array
        Numbers.
    kth : int or sequence of int
        Which elements are in their sorted place: none before is larger, none behind is smaller.
    axis : int
        Along which axis.

    Returns
    -------
    Array
        As of `sort`.

    Raises
    ------
    InvalidArgumentError
        There is no such element.
    BudgetError
        Memory has no room for a line along the axis, and there are many; when it is computed.

    Examples
    --------
    >>> int(oc.partition(oc.asarray([3, 1, 2]), 1)[1])
    2
    """
    array, axis = _given(x, axis)
    length = array.shape[axis]
    try:
        places = [operator.index(k) for k in np.atleast_1d(kth).tolist()]
    except TypeError as error:
        raise InvalidTypeError(f"kth: {error}") from None
    if length and not all(-length <= k < length for k in places):
        raise InvalidArgumentError(f"kth(={kth}) out of bounds ({length})")
    if long_lines(array, axis):
        # What is sorted is in order around any of them.
        return sort(array, axis=axis)
    options = (("kth", tuple(places)),)
    return _made("partition", np.partition, options, array, axis, length, array.dtype)


class TopKResult(NamedTuple):
    """What `top_k` finds."""

    values: Array
    indices: Array


def top_k(x: Array, k: int, /, *, axis: int = -1, largest: bool = True) -> TopKResult:
    """Find the largest elements along an axis, and where they are: NaN is larger than all numbers.

    Parameters
    ----------
    x : Array
        Numbers.
    k : int
        How many.
    axis : int
        Along which axis.
    largest : bool
        Whether the largest are found, or the smallest.

    Returns
    -------
    values, indices : Array
        The largest first, or the smallest first; of equal ones the first. Not computed yet:
        ``oc.save({"values.npy": values, "indices.npy": indices})`` computes both at once.

    Raises
    ------
    InvalidArgumentError
        There are not so many.
    BudgetError
        Memory has no room for a line along the axis, and there are many; when it is computed.

    Examples
    --------
    >>> values, indices = oc.top_k(oc.asarray([3, 9, 7]), 2)
    >>> values.compute(), indices.compute()
    (array([9, 7]), array([1, 2]))
    """
    array, axis = _given(x, axis)
    try:
        count = operator.index(k)
    except TypeError as error:
        raise InvalidTypeError(f"k: {error}") from None
    if not 0 <= count <= array.shape[axis]:
        raise InvalidArgumentError(
            f"k={count} elements are not to be found along an axis of {array.shape[axis]}"
        )
    if long_lines(array, axis):
        first = (slice(None),) * axis + (slice(count),)
        return TopKResult(
            sort(array, axis=axis, descending=largest)[first],
            argsort(array, axis=axis, descending=largest)[first],
        )
    options = (("descending", bool(largest)), ("most", count))
    return TopKResult(
        _made("top_k", _sorted, options, array, axis, count, array.dtype),
        _made("top_k", _ordered, options, array, axis, count, _INDEX),
    )


def _given(x: Any, axis: Any) -> tuple[Array, int]:
    array = array_like(x)
    return array, axis_of(array.ndim, axis)


def _made(
    name: str,
    function: Callable[..., NDArray[Any]],
    options: tuple[tuple[str, Any], ...],
    array: Array,
    axis: int,
    length: int,
    dtype: np.dtype[Any],
) -> Array:
    shape = (*array.shape[:axis], length, *array.shape[axis + 1 :])
    if array.size == 0 or 0 in shape:
        return array_like(np.empty(shape, dtype))
    return of_lines(name, function, options, array, (axis,), (length,), dtype)


def _backwards(axis: int) -> tuple[slice, ...]:
    return (slice(None),) * axis + (slice(None, None, -1),)


def _line_by_line(function: Callable[[Array], Array], array: Array, axis: int) -> Array:
    """What a function makes of each line along an axis, computed at once."""
    rows = moveaxis(array, axis, -1)
    made = [function(rows[at]) for at in np.ndindex(*rows.shape[:-1])]
    whole = made[0] if len(made) == 1 else stack(made)
    return moveaxis(reshape(whole, rows.shape), -1, axis)


def _sorted(block: NDArray[Any], descending: bool, most: int | None = None) -> NDArray[Any]:
    """Lines along the last axis, sorted."""
    made = np.sort(block, axis=-1)
    return (made[..., ::-1] if descending else made)[..., :most]


def _ordered(block: NDArray[Any], descending: bool, most: int | None = None) -> NDArray[Any]:
    """The indices that sort lines along the last axis: those of equal elements ascend."""
    if not descending:
        return np.argsort(block, axis=-1, kind="stable")[..., :most]
    backwards = np.argsort(block[..., ::-1], axis=-1, kind="stable")[..., ::-1][..., :most]
    np.subtract(block.shape[-1] - 1, backwards, out=backwards)
    return backwards
