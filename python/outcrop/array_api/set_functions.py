"""How often elements have which values: what NumPy's functions of these names find, in one pass.

What is counted is small, and computed at once. Different values of which there are more are found
by sorting (`many_values`).
"""

import operator
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from outcrop.array_api.families import array_like
from outcrop.array_api.manipulation_functions import where
from outcrop.array_api.many_values import different, places
from outcrop.array_api.non_ufunc_functions import searchsorted
from outcrop.array_api.statistical_functions import any as any_of
from outcrop.array_api.statistical_functions import cumulative_sum
from outcrop.array_api.statistical_functions import max as max_of
from outcrop.array_api.statistical_functions import min as min_of
from outcrop.arrays.array import Array
from outcrop.arrays.conversion import elements_of
from outcrop.arrays.creation import of_indices
from outcrop.arrays.registry import implements
from outcrop.arrays.source import MemorySource
from outcrop.errors import (
    BudgetError,
    InvalidArgumentError,
    InvalidTypeError,
    UnsupportedError,
)
from outcrop.expressions.build.arrays import argument, mapped
from outcrop.expressions.graph.functions import Seen
from outcrop.process.config import piece_limit
from outcrop.process.room import charge, room
from outcrop.process.sizes import format_bytes

__all__ = [
    "bincount",
    "histogram",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
]


_EACH = 64
"""Bytes for a bin, or a value, while a block is counted."""

_PLACED = 128
"""The same for an element of a part of a block, of which it is known where it is."""

_TWO, _FOUR = 2, 4
"""Parts of the budget, of which the counts are one, for those of a block and of all before, or for
finding the place of each value among the others as well."""

_LONG = 4
"""Bytes of integers of which there may be more than are counted."""


class _TooManyError(BudgetError):
    """There are more values than there is memory for."""


def _see(x: Array, see: Callable[..., None], *, with_places: bool = False) -> None:
    """Show all elements, block by block in some order, to a function that is called alone.

    With the places of the elements in the flattened array, where these are asked for.
    """
    alone = threading.Lock()

    def one(*blocks: NDArray[Any]) -> None:
        with alone:
            see(*blocks)

    shown = [x, of_indices(partial(_flat, x.shape), x.shape, np.intp)] if with_places else [x]
    if x.size:
        any_of(mapped(Seen(one), [argument(a) for a in shown], np.dtype(bool))).compute()


def _flat(shape: tuple[int, ...], *indices: Any) -> Any:
    """The places in the flattened array of elements with these indices."""
    place: Any = np.zeros((), np.intp)
    for extent, index in zip(shape, indices, strict=True):
        place = place * extent + index
    return place


def histogram(
    a: Any,
    /,
    bins: Any = 10,
    range: tuple[float, float] | None = None,
    density: bool | None = None,
    weights: None = None,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Count elements by intervals, as `numpy.histogram` does: in one pass where `range` is given.

    Parameters
    ----------
    a : Array
        Numbers.
    bins : int or array_like
        How many intervals of equal width, or the edges of all.
    range : tuple of float, optional
        The first and the last edge. Default: the least and the largest element, which takes a pass
        of its own.
    density : bool, optional
        Whether to give the probability density instead of the counts.

    Returns
    -------
    counts, edges : numpy.ndarray
        In memory.

    Raises
    ------
    InvalidArgumentError
        The range is not finite, or the edges do not increase.
    UnsupportedError
        With weights, or a name for a rule that chooses the bins.

    Examples
    --------
    >>> counts, edges = oc.histogram(oc.arange(10), bins=2)
    >>> counts
    array([5, 5])
    """
    if weights is not None:
        raise UnsupportedError("histogram with weights is not supported in this version")
    if isinstance(bins, str):
        raise UnsupportedError(
            f"bins={bins!r} needs all elements in memory; say how many, or where"
        )
    if not isinstance(bins, int | np.integer):
        bins = bins.compute() if isinstance(bins, Array) and bins.ndim else elements_of(bins)
        bins = bins if bins.ndim else bins[()]
    many = int(bins) if np.ndim(bins) == 0 and isinstance(bins, int | np.integer) else np.size(bins)
    _check_room(many, 2 * np.dtype(np.intp).itemsize)
    x = array_like(a)
    if x.dtype.kind == "c":
        raise UnsupportedError("complex numbers have no order; count their real parts, or np.abs")
    if x.dtype == bool:
        x = x.astype(np.uint8)
    ends: tuple[Any, Any] | None = range
    sample = np.empty(0, x.dtype)
    if ends is None and np.ndim(bins) == 0 and x.size:
        # The edges are those of any array with the same ends.
        ends = min_of(x).compute()[()], max_of(x).compute()[()]
        sample = np.array(ends, x.dtype)
    try:
        edges = np.histogram_bin_edges(sample, bins, range)
    except ValueError as error:
        raise InvalidArgumentError(str(error)) from None
    except TypeError as error:
        raise InvalidTypeError(str(error)) from None
    counts = np.zeros(max(len(edges) - 1, 0), np.intp)
    if not len(counts):
        return counts, edges

    def see(block: NDArray[Any]) -> None:
        counts[...] += np.histogram(block, bins, ends)[0]

    # Each block has counts and edges of its own.
    with room(_EACH * len(edges), "histogram"):
        _see(x, see)
    if not density:
        return counts, edges
    with np.errstate(invalid="ignore"):
        return counts / np.diff(edges) / counts.sum(), edges


def bincount(x: Any, /, weights: None = None, minlength: int = 0) -> NDArray[np.intp]:
    """Count how often each non-negative integer is there, in one pass, as `numpy.bincount` does.

    Parameters
    ----------
    x : Array
        Integers, along one axis.
    minlength : int
        How many counts there are at least.

    Returns
    -------
    numpy.ndarray
        In memory.

    Raises
    ------
    InvalidArgumentError
        There are several axes, or an element is negative.
    InvalidTypeError
        The elements are no integers.
    BudgetError
        The counts take more than an eighth of the budget.
    UnsupportedError
        With weights.

    Examples
    --------
    >>> oc.bincount(oc.asarray([0, 1, 1, 3]))
    array([1, 2, 0, 1])
    """
    if weights is not None:
        raise UnsupportedError("bincount with weights is not supported in this version")
    values = array_like(x)
    if values.ndim != 1:
        raise InvalidArgumentError(f"integers along one axis are counted, not {values.ndim} axes")
    if values.dtype.kind not in "iub" and values.size:
        raise InvalidTypeError(f"integers are counted, not elements of type {values.dtype}")
    try:
        minlength = operator.index(minlength)
    except TypeError as error:
        raise InvalidTypeError(f"minlength: {error}") from None
    if minlength < 0:
        raise InvalidArgumentError("'minlength' must not be negative")
    counts = np.zeros(minlength, np.intp)

    def see(block: NDArray[Any]) -> None:
        nonlocal counts
        if block.min() < 0:
            raise InvalidArgumentError("'list' argument must have no negative elements")
        _check_room(int(block.max()) + 1, counts.itemsize)
        found = np.bincount(block.astype(np.intp, copy=False).ravel())
        if len(found) > len(counts):
            counts, found = found, counts
        counts[: len(found)] += found

    most = _TWO * piece_limit()
    if values.dtype.itemsize < _LONG:
        most = min(most, _TWO * counts.itemsize * max(minlength, 2 << 8 * values.dtype.itemsize))
    with room(most, "bincount"):
        _see(values, see)
    charge(counts)
    return counts


class UniqueAllResult(NamedTuple):
    """What `unique_all` finds."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCountsResult(NamedTuple):
    """What `unique_counts` finds."""

    values: Array
    counts: Array


class UniqueInverseResult(NamedTuple):
    """What `unique_inverse` finds."""

    values: Array
    inverse_indices: Array


@implements(np.unique_all)
def unique_all(x: Any, /) -> UniqueAllResult:
    """Find the different elements, with all that can be said of them; otherwise as `unique_counts`.

    Returns
    -------
    values, indices, inverse_indices, counts : Array
        The values, ascending, where in the flattened array each is first, and how often each is
        there, are in memory, or in scratch; of which of them each element is, is not computed yet.

    Examples
    --------
    >>> found = oc.unique_all(oc.asarray([[3, 1], [1, 3]]))
    >>> found.indices.compute(), found.inverse_indices.compute().tolist()
    (array([1, 0]), [[1, 0], [0, 1]])
    """
    array = array_like(x)
    try:
        values, counts, firsts = _unique_with_places(array)
    except _TooManyError:
        found = different(array)
        indices, inverse = places(array, found)
        return UniqueAllResult(found.values, indices, inverse, found.counts)
    inverse = _inverse(array, values)
    return UniqueAllResult(_of_ours(values), _of_ours(firsts), inverse, _of_ours(counts))


@implements(np.unique_counts)
def unique_counts(x: Any, /) -> UniqueCountsResult:
    """Find the different elements, ascending, and how often each is there, in one pass.

    Parameters
    ----------
    x : Array
        Numbers. Each NaN is different from all others, as in the Python array API standard.

    Returns
    -------
    values, counts : Array
        In memory, or, where they take more than an eighth of the budget, in scratch: all elements
        are sorted then.

    Raises
    ------
    BudgetError
        As for `sort`.

    Examples
    --------
    >>> values, counts = oc.unique_counts(oc.asarray([[3, 1], [1, 3], [3, 3]]))
    >>> values.compute(), counts.compute()
    (array([1, 3]), array([2, 4]))
    """
    array = array_like(x)
    try:
        values, counts = _unique(array, equal_nan=False)
    except _TooManyError:
        found = different(array)
        return UniqueCountsResult(found.values, found.counts)
    return UniqueCountsResult(_of_ours(values), _of_ours(counts))


@implements(np.unique_inverse)
def unique_inverse(x: Any, /) -> UniqueInverseResult:
    """Find the different elements, and of which of them each is; otherwise as `unique_counts`.

    Returns
    -------
    values, inverse_indices : Array
        The values, ascending, are in memory, or in scratch; the indices, of the shape of `x`, are
        not computed yet: ``oc.take(values, inverse_indices)`` has the elements of `x`.

    Examples
    --------
    >>> oc.unique_inverse(oc.asarray([[3, 1], [1, 3]])).inverse_indices.compute()
    array([[1, 0],
           [0, 1]])
    """
    array = array_like(x)
    try:
        # Complex numbers that are NaN may differ: those have to be in their own order.
        if array.dtype.kind == "c":
            values, _, _ = _unique_with_places(array)
        else:
            values, _ = _unique(array, equal_nan=False)
    except _TooManyError:
        found = different(array)
        return UniqueInverseResult(found.values, places(array, found)[1])
    return UniqueInverseResult(_of_ours(values), _inverse(array, values))


@implements(np.unique_values)
def unique_values(x: Any, /) -> Array:
    """Find the different elements, ascending, in one pass; otherwise as `unique_counts`.

    Examples
    --------
    >>> oc.unique_values(oc.asarray([[3, 1], [1, 3]])).compute()
    array([1, 3])
    """
    array = array_like(x)
    try:
        return _of_ours(_unique(array, equal_nan=False)[0])
    except _TooManyError:
        return different(array).values


@overload
def unique(
    ar: Any,
    return_index: Literal[False] = False,
    return_inverse: Literal[False] = False,
    return_counts: Literal[False] = False,
    axis: None = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
) -> NDArray[Any]: ...
@overload
def unique(
    ar: Any,
    return_index: Literal[False] = False,
    return_inverse: Literal[False] = False,
    *,
    return_counts: Literal[True],
    axis: None = None,
    equal_nan: bool = True,
    sorted: bool = True,
) -> tuple[NDArray[Any], NDArray[np.intp]]: ...
@overload
def unique(
    ar: Any,
    return_index: Literal[False] = False,
    return_inverse: Literal[False] = False,
    return_counts: bool = False,
    axis: None = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
) -> NDArray[Any] | tuple[NDArray[Any], NDArray[np.intp]]: ...
@implements(np.unique)
def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
) -> NDArray[Any] | tuple[NDArray[Any], NDArray[np.intp]]:
    """As `numpy.unique`: but for indices, and along an axis."""
    if return_index or return_inverse or axis is not None:
        raise UnsupportedError("numpy.unique of an outcrop.Array gives values and counts only")
    try:
        values, counts = _unique(array_like(ar), equal_nan=equal_nan)
    except _TooManyError as error:
        # These are NumPy's arrays.
        raise BudgetError(str(error), error.needed) from None
    return (values, counts) if return_counts else values


def _of_ours(elements: NDArray[Any]) -> Array:
    return Array(MemorySource(elements, owned=True))


def _inverse(x: Array, values: NDArray[Any]) -> Array:
    """For each element, which of the values it is; each NaN is the next one of those at the end."""
    places = searchsorted(values, x).astype(np.intp, copy=False)
    first = _first_missing(values)
    if first == len(values):
        return places
    missing: Any = np.isnan(x)
    before = cumulative_sum(missing.reshape(-1), dtype=np.intp).reshape(x.shape)
    return where(missing, before + (first - 1), places)


def _first_missing(values: NDArray[Any]) -> int:
    """Where among values, of which NaNs come last, these begin."""
    return len(values) - int(np.count_nonzero(values != values))


def _unique(x: Array, *, equal_nan: bool) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """The different elements, ascending, and how often each is there."""
    values, counts = np.empty(0, x.dtype), np.empty(0, np.intp)

    def see(block: NDArray[Any]) -> None:
        nonlocal values, counts
        own, times = np.unique(block, return_counts=True, equal_nan=equal_nan)
        together = np.concatenate([values, own])
        values, place = np.unique(together, return_inverse=True, equal_nan=equal_nan)
        _check_room(len(values), values.itemsize + counts.itemsize, _TooManyError)
        sums = np.zeros(len(values), np.intp)
        np.add.at(sums, place, np.concatenate([counts, times]))
        counts = sums

    with room(min(_EACH * x.size, _FOUR * piece_limit()), "unique"):
        _see(x, see)
    charge([values, counts])
    return values, counts


def _unique_with_places(
    x: Array,
) -> tuple[NDArray[Any], NDArray[np.intp], NDArray[np.intp]]:
    """The different elements, how often each is there, and where each is first.

    They ascend, but for NaNs, which come last in the order of their places.
    """
    values, counts = np.empty(0, x.dtype), np.empty(0, np.intp)
    firsts = np.empty(0, np.intp)
    most = max(_FOUR * piece_limit() // _PLACED, 1)

    def see(block: NDArray[Any], flat: NDArray[Any]) -> None:
        # Of a part at a time: its elements are put in order by an index of each.
        elements, places = block.reshape(-1), flat.reshape(-1)
        for start in range(0, elements.size, most):
            add(elements[start : start + most], places[start : start + most])

    def add(elements: NDArray[Any], places: NDArray[Any]) -> None:
        nonlocal values, counts, firsts
        own, inside, times = np.unique(
            elements, return_inverse=True, return_counts=True, equal_nan=False
        )
        earliest = _least(len(own), inside, places)
        together = np.concatenate([values, own])
        values, inside = np.unique(together, return_inverse=True, equal_nan=False)
        _check_room(len(values), values.itemsize + 2 * counts.itemsize, _TooManyError)
        sums = np.zeros(len(values), np.intp)
        np.add.at(sums, inside, np.concatenate([counts, times]))
        firsts = _least(len(values), inside, np.concatenate([firsts, earliest]))
        counts = sums

    with room(min(_PLACED * x.size, _FOUR * piece_limit()), "unique"):
        _see(x, see, with_places=True)
    missing = slice(_first_missing(values), None)
    order = np.argsort(firsts[missing])
    values[missing], firsts[missing] = values[missing][order], firsts[missing][order]
    charge([values, counts, firsts])
    return values, counts, firsts


def _least(count: int, which: NDArray[Any], numbers: NDArray[Any]) -> NDArray[np.intp]:
    """For each of so many, the least of the numbers that are its own."""
    least = np.full(count, np.iinfo(np.intp).max, np.intp)
    np.minimum.at(least, which.reshape(-1), numbers)
    return least


def _check_room(
    count: int, itemsize: int, kind: Callable[[str, int], BudgetError] = BudgetError
) -> None:
    """Raise where there are so many values that they do not fit in their part of the budget."""
    if count * itemsize > piece_limit():
        raise kind(
            f"{count} values, counted, take {format_bytes(count * itemsize)}, and at most "
            f"{format_bytes(piece_limit())} of the memory budget are for that",
            count * itemsize * 8,
        )
