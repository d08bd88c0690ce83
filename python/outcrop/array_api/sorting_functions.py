"""Sorting along an axis, by the names of the Python array API standard, and NumPy's.

Whole lines are sorted, lazily, as many at once as memory has room for. Of lines that are longer
than that, runs are sorted at once, in scratch, and merged lazily.
"""

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outcrop.array_api.external_sorting import places_in_order, sorted_externally
from outcrop.array_api.families import array_like, exceeds_memory, long_lines, whole_tiles
from outcrop.array_api.manipulation_functions import moveaxis, reshape
from outcrop.array_api.sorted_lines import first_in_order, first_places, order_of, put_in_order
from outcrop.arrays.array import Array
from outcrop.arrays.source import MemorySource
from outcrop.errors import InvalidArgumentError, InvalidTypeError
from outcrop.expressions.build.lines import of_lines
from outcrop.expressions.build.reductions import axis_of
from outcrop.expressions.build.saving import compute
from outcrop.process.config import piece_limit

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
        Not computed yet. Of lines that memory has no room for, sorted parts are written to scratch
        now, and merged where the result is taken: two passes in all.

    Raises
    ------
    BudgetError
        Memory has no room for what it takes to merge parts of lines.

    Examples
    --------
    >>> oc.sort(oc.asarray([[3, 1, 2], [9, 8, 7]])).compute()
    array([[1, 2, 3],
           [7, 8, 9]])
    """
    array, axis = _given(x, axis)
    if _is_external(array, axis):
        return _externally(sorted_externally, array, axis, bool(descending))
    options = (("descending", bool(descending)),)
    length = array.shape[axis]
    return _made("sort", put_in_order, options, array, axis, length, array.dtype, fills=True)


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
    if _is_external(array, axis):
        return _externally(places_in_order, array, axis, bool(descending))
    options = (("descending", bool(descending)),)
    return _made("argsort", order_of, options, array, axis, array.shape[axis], _INDEX)


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
        As for `sort`.

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
    if _is_external(array, axis):
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
        ``oc.save({"values.npy": values, "indices.npy": indices})`` computes both at once. Of lines
        that memory has no room for, they are found now, in one pass; or lines are sorted, where
        they are too many for memory.

    Raises
    ------
    InvalidArgumentError
        There are not so many.
    BudgetError
        As for `sort`.

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
    if _is_external(array, axis):
        found = _best(_rows(array, axis), count, bool(largest))
        if found is not None:
            shape = (*np.delete(array.shape, axis).tolist(), count)
            values, indices = (moveaxis(reshape(one, shape), -1, axis) for one in found)
            return TopKResult(values, indices)
        first = (slice(None),) * axis + (slice(count),)
        return TopKResult(
            sort(array, axis=axis, descending=largest)[first],
            argsort(array, axis=axis, descending=largest)[first],
        )
    options = (("descending", bool(largest)), ("most", count))
    return TopKResult(
        _made("top_k", first_in_order, options, array, axis, count, array.dtype),
        _made("top_k", first_places, options, array, axis, count, _INDEX),
    )


def _given(x: Any, axis: Any) -> tuple[Array, int]:
    array = array_like(x)
    return array, axis_of(array.ndim, axis)


def _made(
    name: str,
    function: Callable[..., NDArray[Any] | None],
    options: tuple[tuple[str, Any], ...],
    array: Array,
    axis: int,
    length: int,
    dtype: np.dtype[Any],
    *,
    fills: bool = False,
) -> Array:
    shape = (*array.shape[:axis], length, *array.shape[axis + 1 :])
    if array.size == 0 or 0 in shape:
        return array_like(np.empty(shape, dtype))
    times = 1 if fills else 4
    return of_lines(
        name, function, options, array, (axis,), (length,), dtype, times=times, fills=fills
    )


def _is_external(array: Array, axis: int) -> bool:
    """Whether lines along an axis are sorted in parts."""
    return long_lines(array, axis) or (array.size > 0 and exceeds_memory(array, axis))


def _rows(array: Array, axis: int) -> Array:
    """The lines along an axis as the rows of a matrix."""
    moved = moveaxis(array, axis, -1)
    if moved.ndim < 3:
        return moved if moved.ndim == 2 else moved[None]
    return reshape(moved, (-1, array.shape[axis]))


def _externally(
    function: Callable[[Array, bool], Array], array: Array, axis: int, descending: bool
) -> Array:
    """What a function makes of the rows of a matrix, of lines along an axis."""
    made = function(_rows(array, axis), descending)
    shape = (*np.delete(array.shape, axis).tolist(), array.shape[axis])
    return moveaxis(reshape(made, shape), -1, axis)


def _best(rows: Array, count: int, largest: bool) -> tuple[Array, Array] | None:
    """The first elements of rows in order, and their places, found in one pass.

    None where those of parts of rows are too many for memory.
    """
    length = rows.shape[1]
    each = rows.dtype.itemsize
    run = whole_tiles(piece_limit() // (2 * each), rows, 1)
    whole, rest = divmod(length, run)
    many = whole * min(count, run) + min(count, rest)
    if rows.shape[0] * many * (each + _INDEX.itemsize) > piece_limit() or not count:
        return None
    found: list[Array] = []
    for at, own, parts in ((0, run, whole), (whole * run, rest, 1)):
        if not own or not parts:
            continue
        part = reshape(rows[:, at : at + parts * own], (-1, own))
        options = (("descending", largest), ("most", min(count, own)))
        first = np.tile(at + own * np.arange(parts), rows.shape[0])[:, None]
        shape = (rows.shape[0], -1)
        lines = (part, 1, min(count, own))
        found.append(reshape(_made("top_k", first_in_order, options, *lines, rows.dtype), shape))
        places = _made("top_k", first_places, options, *lines, _INDEX)
        found.append(reshape(places + array_like(first), shape))
    made = compute(*found)
    best, where = (np.concatenate(made[i::2], axis=1) for i in (0, 1))
    order = first_places(best, largest, count)
    taken = (np.take_along_axis(one, order, 1) for one in (best, where))
    values, indices = (Array(MemorySource(one, owned=True)) for one in taken)
    return values, indices
