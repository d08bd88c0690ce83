"""The algebra of basic indexing: which elements of a source a chain of keys selects, and where.

Nothing here knows of disks. A `View` says for every axis of a source either one index or a start,
a step and a length; and for every axis of the result either the axis of the source it runs along,
or that it is new. That is closed under integers, slices, ``...`` and ``None``, and under permuting
the axes, so both compose without reading anything.
"""

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import EllipsisType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from outcrop.checks import MAX_NDIM
from outcrop.errors import (
    AxisError,
    BoxIndexError,
    InvalidArgumentError,
    InvalidTypeError,
    UnsupportedError,
)

__all__ = ["NewAxis", "Span", "View", "around", "is_array"]

_KeyItem: TypeAlias = int | slice | EllipsisType | None


@dataclass(frozen=True, slots=True)
class Span:
    """The indices ``start + step * k`` for ``0 <= k < length`` along one axis of a source.

    Where `length` is 0 or 1, `step` is 1, and where it is 0, `start` is 0: equal selections are
    equal objects.
    """

    start: int
    step: int
    length: int

    def __post_init__(self) -> None:
        if self.length <= 1:
            object.__setattr__(self, "step", 1)
        if self.length == 0:
            object.__setattr__(self, "start", 0)

    @property
    def low(self) -> int:
        """The smallest index, 0 where there is none."""
        return self.start if self.step > 0 else self.start + self.step * (self.length - 1)

    @property
    def extent(self) -> int:
        """The length of the shortest contiguous range that holds every index."""
        return (self.length - 1) * abs(self.step) + 1 if self.length else 0

    def part(self, first: int, length: int, step: int = 1) -> "Span":
        """Select from the selection."""
        return Span(self.start + self.step * first, self.step * step, length)

    def within(self, low: int, high: int) -> tuple[int, int]:
        """Which of the selected indices are at least `low` and below `high`: from which, to which.

        Where there is none, the second number is not larger than the first.
        """
        if self.step > 0:
            first, last = -((self.start - low) // self.step), -((self.start - high) // self.step)
        else:
            first = -((high - 1 - self.start) // -self.step)
            last = (self.start - low) // -self.step + 1
        return max(first, 0), min(last, self.length)

    def slice(self) -> slice:
        """The same as a slice of the axis."""
        stop = self.start + self.step * self.length
        return slice(self.start, stop if stop >= 0 else None, self.step)


@dataclass(frozen=True, slots=True)
class NewAxis:
    """An axis made by ``None``. Its length is 1, or 0 once a slice has emptied it."""

    length: int = 1


def around(
    boxes: Iterable[tuple[tuple[int, ...], tuple[int, ...]]],
) -> tuple[list[int], list[int]]:
    """The first index along each axis of the box around boxes, and the one after its last."""
    each = [list(zip(*box, strict=True)) for box in boxes]
    low = [min(start for start, _ in ends) for ends in zip(*each, strict=True)]
    high = [max(start + n for start, n in ends) for ends in zip(*each, strict=True)]
    return low, high


@dataclass(frozen=True, slots=True)
class View:
    """Elements of an array of shape `source_shape`, arranged as an array.

    Parameters
    ----------
    source_shape : tuple of int
        Shape of the source.
    selectors : tuple of int or Span
        For each axis of the source: the one index, or the span of indices.
    axes : tuple of int or NewAxis
        For each axis of the view: the axis of the source whose span it is, or a new axis. Every
        axis of the source that has a span is there once, in any order.

    Examples
    --------
    >>> view = View.whole((10, 20)).index((slice(2, None, 3), 4))
    >>> view = view.index((None, slice(None, None, -1)))
    >>> view.shape
    (1, 3)
    >>> view.box
    ((2, 4), (7, 1))
    >>> bool((view.apply(np.ones((7, 1))) == np.ones((10, 20))[2::3, 4][None, ::-1]).all())
    True
    >>> view.transpose().shape
    (3, 1)
    """

    source_shape: tuple[int, ...]
    selectors: tuple[int | Span, ...]
    axes: tuple[int | NewAxis, ...]

    @staticmethod
    @lru_cache(1024)
    def whole(shape: tuple[int, ...]) -> "View":
        """Select everything."""
        return View(shape, tuple(Span(0, 1, n) for n in shape), tuple(range(len(shape))))

    def span(self, axis: int) -> Span:
        """The span along an axis of the view; a new axis is a span of its own."""
        target = self.axes[axis]
        if isinstance(target, NewAxis):
            return Span(0, 1, target.length)
        selector = self.selectors[target]
        assert isinstance(selector, Span)
        return selector

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the result."""
        return tuple(self.span(axis).length for axis in range(len(self.axes)))

    @property
    def size(self) -> int:
        """Number of elements of the result."""
        return math.prod(self.shape)

    @property
    def box(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Start and shape of the bounding box in the source."""
        start = tuple(s.low if isinstance(s, Span) else s for s in self.selectors)
        shape = tuple(s.extent if isinstance(s, Span) else 1 for s in self.selectors)
        return start, shape

    @property
    def is_whole(self) -> bool:
        """Whether this is the source itself."""
        return self == View.whole(self.source_shape)

    @property
    def is_part(self) -> bool:
        """Whether there are elements of the source that it leaves out."""
        return self.size < math.prod(self.source_shape)

    @property
    def is_dense(self) -> bool:
        """Whether every element of the bounding box is selected, in whatever arrangement."""
        return all(abs(s.step) == 1 for s in self.selectors if isinstance(s, Span))

    @property
    def is_box(self) -> bool:
        """Whether this is a box of the source as it stands.

        No steps, no reversal, the same axes in the same order.
        """
        return self.axes == tuple(range(len(self.source_shape))) and all(
            s.step == 1 for s in self.selectors if isinstance(s, Span)
        )

    @property
    def turn(self) -> tuple[tuple[int, ...], tuple[bool, ...]] | None:
        """How the bounding box lies in the view.

        For each axis of the view the axis of the source, and whether it runs backwards. None where
        axes are left out or new, or steps leave out elements.
        """
        axes = tuple(self._source_axes())
        if len(axes) != len(self.axes) or len(axes) != len(self.source_shape) or not self.is_dense:
            return None
        return axes, tuple(self.span(axis).step < 0 for axis in range(len(axes)))

    @property
    def order(self) -> tuple[int, ...]:
        """Where each of the view's axes would be if none were permuted; new axes left out.

        For the whole of a source, what ``numpy.transpose`` would be told.
        """
        axes = self._source_axes()
        rank = {axis: i for i, axis in enumerate(sorted(axes))}
        return tuple(rank[axis] for axis in axes)

    @property
    def is_permuted(self) -> bool:
        """Whether axes of the source come in another order."""
        axes = self._source_axes()
        return axes != sorted(axes)

    @property
    def transposition(self) -> str:
        """The order of its axes, as people have it behind the name of an array; empty if usual."""
        if not self.is_permuted:
            return ""
        order = self.order
        backwards = order == tuple(range(len(order)))[::-1]
        return ", transposed" if backwards else f", transposed {order}"

    @property
    def description(self) -> str:
        """What it takes of its source and how, as people have it behind the name of an array."""
        is_whole = self.selectors == View.whole(self.source_shape).selectors
        return ("" if is_whole else str(self)) + self.transposition

    def _source_axes(self) -> list[int]:
        return [axis for axis in self.axes if not isinstance(axis, NewAxis)]

    def of_box(self) -> "View":
        """The same view of the bounding box, taken as a source of its own."""
        start, shape = self.box
        selectors = tuple(
            Span(s.start - low, s.step, s.length) if isinstance(s, Span) else 0
            for s, low in zip(self.selectors, start, strict=True)
        )
        return View(shape, selectors, self.axes)

    # -- keys --------------------------------------------------------------------------------

    def index(self, key: object) -> "View":
        """Compose with a key of NumPy's basic indexing.

        Raises
        ------
        BoxIndexError
            An index out of bounds, too many of them, or not an index at all.
        InvalidArgumentError
            A slice step of zero.
        InvalidTypeError
            A slice whose members are not integers.
        UnsupportedError
            Boolean, list and array keys.
        """
        shape = self.shape
        selectors = list(self.selectors)
        axes: list[int | NewAxis] = []
        position = 0
        for item in _expanded(key, len(shape)):
            if item is None:
                axes.append(NewAxis())
                continue
            target, span = self.axes[position], self.span(position)
            if isinstance(item, slice):
                first, length, step = _clipped(item, shape[position])
                part = span.part(first, length, step)
                if isinstance(target, NewAxis):
                    axes.append(NewAxis(length))
                else:
                    selectors[target] = part
                    axes.append(target)
            else:
                offset = _wrapped(item, position, shape[position])
                if not isinstance(target, NewAxis):
                    selectors[target] = span.start + span.step * offset
            position += 1
        if len(axes) > MAX_NDIM:
            raise BoxIndexError(
                f"number of dimensions must be within [0, {MAX_NDIM}], indexing result would "
                f"have {len(axes)}"
            )
        return replace(self, selectors=tuple(selectors), axes=tuple(axes))

    def part(self, start: Sequence[int], shape: Sequence[int]) -> "View":
        """The box of the result with this start and shape, which must lie inside it."""
        # As `index` does it, without looking at what is given: plans do this for each cell.
        selectors, axes = list(self.selectors), list(self.axes)
        for position, (first, n) in enumerate(zip(start, shape, strict=True)):
            target = axes[position]
            if isinstance(target, NewAxis):
                axes[position] = NewAxis(n)
            else:
                selectors[target] = self.span(position).part(first, n)
        return View(self.source_shape, tuple(selectors), tuple(axes))

    def transpose(self, axes: Iterable[Any] | None = None) -> "View":
        """Permute the axes; None reverses them.

        Raises
        ------
        BoxIndexError
            An axis out of bounds.
        InvalidArgumentError
            Too few axes, too many, or one twice.
        InvalidTypeError
            An axis that is not an integer.
        """
        ndim = len(self.axes)
        if axes is None:
            return replace(self, axes=self.axes[::-1])
        try:
            given = [operator.index(axis) for axis in axes]
        except TypeError as error:
            raise InvalidTypeError(str(error)) from None
        if len(given) != ndim:
            raise InvalidArgumentError(
                f"axes don't match array: {tuple(given)} for an array of dimension {ndim}"
            )
        order: list[int] = []
        for axis in given:
            if not -ndim <= axis < ndim:
                raise AxisError(axis, ndim)
            if axis % ndim in order:
                raise InvalidArgumentError(f"repeated axis in transpose: {tuple(given)}")
            order.append(axis % ndim)
        return replace(self, axes=tuple(self.axes[axis] for axis in order))

    def straight(self) -> "View":
        """The same elements with the axes of the source in their own order."""
        axes = iter(sorted(self._source_axes()))
        return replace(
            self, axes=tuple(a if isinstance(a, NewAxis) else next(axes) for a in self.axes)
        )

    # -- arrays ------------------------------------------------------------------------------

    def arranger(self, key: Sequence[int | slice]) -> Callable[[NDArray[Any]], NDArray[Any]]:
        """What selects with a key, an item per axis of the source, and arranges the view's axes."""
        # The ellipsis makes a 0-d result an array instead of a scalar.
        own = (*key, ...)
        order = self.order if self.is_permuted else None
        axes = (*(None if isinstance(a, NewAxis) else slice(None) for a in self.axes), ...)
        # `None` cannot make an axis of length 0.
        empty = tuple(slice(n) for n in self.shape) if self.size == 0 else ()

        def arrange(array: NDArray[Any]) -> NDArray[Any]:
            selected = array[own]
            if order is not None:
                selected = selected.transpose(order)
            selected = selected[axes]
            return selected[empty] if empty else selected

        return arrange

    def select(self, source: NDArray[Any]) -> NDArray[Any]:
        """The view of a source in memory; no copy."""
        return self.arranger([s.slice() if isinstance(s, Span) else s for s in self.selectors])(
            source
        )

    def applier(self) -> Callable[[NDArray[Any]], NDArray[Any]]:
        """What gives the view of the dense bounding box; no copy."""
        return self.arranger(
            [
                Span(s.start - s.low, s.step, s.length).slice() if isinstance(s, Span) else 0
                for s in self.selectors
            ]
        )

    def apply(self, box: NDArray[Any]) -> NDArray[Any]:
        """The view of the dense bounding box; no copy."""
        return self.applier()(box)

    def arrange(self, selected: NDArray[Any]) -> NDArray[Any]:
        """Put what the selectors name, one axis per axis of the source, in the view's axes."""
        key = [slice(None) if isinstance(s, Span) else 0 for s in self.selectors]
        return self.arranger(key)(selected)

    def unapply(self, result: NDArray[Any]) -> NDArray[Any]:
        """Invert `apply` for a dense, non-empty view: from the result to the box; no copy."""
        # The ellipsis makes what is 0-d an array instead of a scalar.
        own = result[(*(0 if isinstance(a, NewAxis) else slice(None) for a in self.axes), ...)]
        if self.is_permuted:
            order = self.order
            own = own.transpose(sorted(range(len(order)), key=order.__getitem__))
        return own[
            tuple(
                slice(None, None, s.step) if isinstance(s, Span) else None for s in self.selectors
            )
        ]

    def index_arrays(self) -> tuple[NDArray[np.int64], ...]:
        """The selected indices along each axis of the source, as an open mesh."""
        ndim = len(self.selectors)
        arrays = []
        for axis, s in enumerate(self.selectors):
            span = s if isinstance(s, Span) else Span(s, 1, 1)
            line = span.start + span.step * np.arange(span.length, dtype=np.int64)
            arrays.append(line.reshape((1,) * axis + (-1,) + (1,) * (ndim - axis - 1)))
        return tuple(arrays)

    def meets(self, other: "View") -> bool:
        """Whether the bounding boxes in the same source share an element."""
        if self.size == 0 or other.size == 0:
            return False
        return all(
            max(a, b) < min(a + m, b + n) for a, m, b, n in zip(*self.box, *other.box, strict=True)
        )

    def __str__(self) -> str:
        """The selection as a key, such as ``[2:9:3, 4]``."""
        if not self.selectors:
            return "[()]"
        parts = []
        for s in self.selectors:
            if isinstance(s, int):
                parts.append(str(s))
                continue
            key = s.slice()
            stop = "" if key.stop is None else key.stop
            parts.append(f"{key.start}:{stop}" + (f":{s.step}" if s.step != 1 else ""))
        return f"[{', '.join(parts)}]"


def _expanded(key: object, ndim: int) -> list[int | slice | None]:
    """The items of a key with slices for the ellipsis and for what is left out."""
    items = [_item(item) for item in (key if isinstance(key, tuple) else (key,))]
    used = sum(isinstance(item, int | slice) for item in items)
    if used > ndim:
        raise BoxIndexError(
            f"too many indices for array: array is {ndim}-dimensional, but {used} were indexed"
        )
    ellipses = sum(item is Ellipsis for item in items)
    if ellipses > 1:
        raise BoxIndexError("an index can only have a single ellipsis ('...')")
    if not ellipses:
        items.append(...)
    result: list[int | slice | None] = []
    for item in items:
        if isinstance(item, EllipsisType):
            result += [slice(None)] * (ndim - used)
        else:
            result.append(item)
    return result


def is_array(item: object) -> bool:
    """Whether an item of a key names elements one by one."""
    is_sequence = isinstance(item, Sequence) and not isinstance(item, str | bytes)
    return is_sequence or getattr(item, "ndim", 0) > 0


def _item(item: Any) -> _KeyItem:
    if item is None or item is Ellipsis or isinstance(item, slice):
        return item
    if is_array(item) or isinstance(item, bool) or getattr(item, "dtype", None) == np.bool_:
        raise UnsupportedError(
            f"indexing with {_kind(item)} is not supported here; use integers, slices, "
            "'...' and None, or select in memory: numpy.asarray(A)[key]"
        )
    try:
        return operator.index(item)
    except TypeError:
        raise BoxIndexError(
            "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or "
            f"boolean arrays are valid indices, not {type(item).__name__}"
        ) from None


def _kind(item: object) -> str:
    if isinstance(item, bool | np.bool_):
        return "a boolean"
    return "an array" if hasattr(item, "ndim") else f"a {type(item).__name__}"


def _clipped(item: slice, size: int) -> tuple[int, int, int]:
    """First index, length and step of a slice of an axis."""
    try:
        start, stop, step = item.indices(size)
    except TypeError as error:
        raise InvalidTypeError(str(error)) from None
    except ValueError as error:
        raise InvalidArgumentError(str(error)) from None
    return start, len(range(start, stop, step)), step


def _wrapped(index: int, axis: int, size: int) -> int:
    if not -size <= index < size:
        raise BoxIndexError(f"index {index} is out of bounds for axis {axis} with size {size}")
    return index + size if index < 0 else index
