"""How often elements have which values: what NumPy's functions of these names find, in one pass.

The counts are small, and computed at once.
"""

import operator
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outcrop.array_api.families import array_like
from outcrop.array_api.statistical_functions import any as any_of
from outcrop.array_api.statistical_functions import max as max_of
from outcrop.array_api.statistical_functions import min as min_of
from outcrop.arrays.array import Array
from outcrop.arrays.conversion import elements_of
from outcrop.arrays.registry import implements
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

__all__ = ["bincount", "histogram", "unique_counts", "unique_values"]


_EACH = 64
"""Bytes for a bin, or a value, while a block is counted."""

_TWO, _FOUR = 2, 4
"""Parts of the budget, of which the counts are one, for those of a block and of all before, or for
finding the place of each value among the others as well."""

_LONG = 4
"""Bytes of integers of which there may be more than are counted."""


def _see(x: Array, see: Callable[[NDArray[Any]], None]) -> None:
    """Show all elements, block by block in some order, to a function that is called alone."""
    alone = threading.Lock()

    def one(block: NDArray[Any]) -> None:
        with alone:
            see(block)

    if x.size:
        any_of(mapped(Seen(one), [argument(x)], np.dtype(bool))).compute()


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


@implements(np.unique_counts)
def unique_counts(x: Any, /) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Find the different elements, ascending, and how often each is there, in one pass.

    Parameters
    ----------
    x : Array
        Numbers. Each NaN is different from all others, as in the Python array API standard.

    Returns
    -------
    values, counts : numpy.ndarray
        In memory.

    Raises
    ------
    BudgetError
        They take more than an eighth of the budget.

    Examples
    --------
    >>> oc.unique_counts(oc.asarray([[3, 1], [1, 3]]))
    (array([1, 3]), array([2, 2]))
    """
    return _unique(array_like(x), equal_nan=False)


@implements(np.unique_values)
def unique_values(x: Any, /) -> NDArray[Any]:
    """Find the different elements, ascending, in one pass; otherwise as `unique_counts`.

    Examples
    --------
    >>> oc.unique_values(oc.asarray([[3, 1], [1, 3]]))
    array([1, 3])
    """
    return _unique(array_like(x), equal_nan=False)[0]


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
) -> Any:
    """As `numpy.unique`: but for indices, and along an axis."""
    if return_index or return_inverse or axis is not None:
        raise UnsupportedError("numpy.unique of an outcrop.Array gives values and counts only")
    values, counts = _unique(array_like(ar), equal_nan=equal_nan)
    return (values, counts) if return_counts else values


def _unique(x: Array, *, equal_nan: bool) -> tuple[NDArray[Any], NDArray[np.intp]]:
    values, counts = np.empty(0, x.dtype), np.empty(0, np.intp)

    def see(block: NDArray[Any]) -> None:
        nonlocal values, counts
        own, times = np.unique(block, return_counts=True, equal_nan=equal_nan)
        together = np.concatenate([values, own])
        values, place = np.unique(together, return_inverse=True, equal_nan=equal_nan)
        _check_room(len(values), values.itemsize + counts.itemsize)
        sums = np.zeros(len(values), np.intp)
        np.add.at(sums, place, np.concatenate([counts, times]))
        counts = sums

    with room(min(_EACH * x.size, _FOUR * piece_limit()), "unique"):
        _see(x, see)
    charge([values, counts])
    return values, counts


def _check_room(count: int, itemsize: int) -> None:
    """Raise where there are so many values that they do not fit in their part of the budget."""
    if count * itemsize > piece_limit():
        raise BudgetError(
            f"{count} values, counted, take {format_bytes(count * itemsize)}, and at most "
            f"{format_bytes(piece_limit())} of the memory budget are for that",
            count * itemsize * 8,
        )
