"""Reductions: how a part of an array becomes few numbers, and how those of two parts are joined."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outcrop.expressions.graph.functions import Function

__all__ = [
    "ArgExtreme",
    "Last",
    "Merged",
    "Moments",
    "NanMoments",
    "Reduction",
    "UfuncReduction",
    "is_reorderable",
]

Axes = tuple[int, ...]


class Reduction(ABC):
    """A reduction whose result for the whole follows from those for parts.

    Attributes
    ----------
    name : str
        For people.
    takes_any_order : bool
        Whether elements that are reduced may come in any order, and their axes in any shape.
    """

    name: str
    takes_any_order = False

    @abstractmethod
    def dtypes(self, dtype: np.dtype[Any]) -> tuple[np.dtype[Any], ...]:
        """Of the numbers that make up a result, by the operand's type."""

    @abstractmethod
    def start(
        self, block: NDArray[Any], axes: Axes, first: Sequence[int], out: Sequence[NDArray[Any]]
    ) -> None:
        """Reduce a block, whose axes begin at the indices `first`, over axes."""

    @abstractmethod
    def merge(
        self, into: Sequence[NDArray[Any]], other: Sequence[NDArray[Any]], counts: tuple[int, int]
    ) -> None:
        """Take in the result for a part that comes later; `counts` elements went into each."""

    def memory(self, dtype: np.dtype[Any], shape: Sequence[int], axes: Axes) -> int:
        """Bytes that `start` takes for itself, for a block of such a type and shape, at most."""
        return 0


@cache
def is_reorderable(ufunc: np.ufunc, dtype: np.dtype[Any]) -> bool:
    """Whether parts may be reduced apart, and in any order."""
    try:
        # NumPy alone knows, and reduces nothing else over two axes.
        ufunc.reduce(np.ones((1, 1), dtype), axis=(0, 1))
    except (TypeError, ValueError):
        return False
    return True


@dataclass(frozen=True)
class UfuncReduction(Reduction):
    """By a ufunc of two operands that is associative, such as `numpy.add`.

    Attributes
    ----------
    ufunc : numpy.ufunc
        Which.
    dtype : numpy.dtype
        In which it computes.
    """

    ufunc: np.ufunc
    dtype: np.dtype[Any]
    takes_any_order = True

    @property
    def name(self) -> str:  # type: ignore[override]
        """The ufunc's own."""
        return self.ufunc.__name__

    def dtypes(self, dtype: np.dtype[Any]) -> tuple[np.dtype[Any], ...]:
        return (self.dtype,)

    def start(
        self, block: NDArray[Any], axes: Axes, first: Sequence[int], out: Sequence[NDArray[Any]]
    ) -> None:
        self.ufunc.reduce(block, axis=axes, dtype=self._loop, out=out[0])

    def merge(
        self, into: Sequence[NDArray[Any]], other: Sequence[NDArray[Any]], counts: tuple[int, int]
    ) -> None:
        self.ufunc(into[0], other[0], out=into[0])

    @property
    def _loop(self) -> np.dtype[Any] | None:
        # Logical reductions take what they are given, and give booleans.
        return None if self.dtype == np.bool_ else self.dtype


@dataclass(frozen=True)
class Merged(Function):
    """One of the numbers of a reduction, of those of parts that were reduced one by one.

    Attributes
    ----------
    reduction : Reduction
        Which.
    output : int
        Which of its numbers.
    counts : tuple of int
        How many elements went into each part, of which the operands are all numbers in turn.
    """

    reduction: Reduction
    output: int
    counts: tuple[int, ...]
    seconds = 1e-8

    @property
    def name(self) -> str:  # type: ignore[override]
        """The reduction's own."""
        return self.reduction.name

    def into(self, out: NDArray[Any], operands: Sequence[Any]) -> None:
        each = len(operands) // len(self.counts)
        merged, count = [np.array(one) for one in operands[:each]], self.counts[0]
        for i, more in enumerate(self.counts[1:], 1):
            self.reduction.merge(merged, operands[i * each : (i + 1) * each], (count, more))
            count += more
        np.copyto(out, merged[self.output])


@dataclass(frozen=True)
class Last(Reduction):
    """The last element along one axis: of a running sum, the whole."""

    name = "last"

    def dtypes(self, dtype: np.dtype[Any]) -> tuple[np.dtype[Any], ...]:
        return (dtype,)

    def start(
        self, block: NDArray[Any], axes: Axes, first: Sequence[int], out: Sequence[NDArray[Any]]
    ) -> None:
        (axis,) = axes
        np.copyto(out[0], np.take(block, -1, axis))

    def merge(
        self, into: Sequence[NDArray[Any]], other: Sequence[NDArray[Any]], counts: tuple[int, int]
    ) -> None:
        np.copyto(into[0], other[0])


@dataclass(frozen=True)
class Moments(Reduction):
    """Means and sums of squared deviations from them, by the formula of Chan, Golub and LeVeque.

    Attributes
    ----------
    dtype : numpy.dtype
        In which means are computed.
    """

    dtype: np.dtype[Any]
    name = "moments"
    takes_any_order = True

    def dtypes(self, dtype: np.dtype[Any]) -> tuple[np.dtype[Any], ...]:
        return self.dtype, np.empty(0, self.dtype).real.dtype

    def start(
        self, block: NDArray[Any], axes: Axes, first: Sequence[int], out: Sequence[NDArray[Any]]
    ) -> None:
        mean = np.mean(block, axis=axes, dtype=self.dtype, keepdims=True)
        np.copyto(out[0], mean.reshape(out[0].shape))
        np.sum(_squared(np.subtract(block, mean, dtype=self.dtype)), axis=axes, out=out[1])

    def memory(self, dtype: np.dtype[Any], shape: Sequence[int], axes: Axes) -> int:
        # Squares of complex numbers are made of two halves, beside these.
        return math.prod(shape) * self.dtype.itemsize * (2 if self.dtype.kind == "c" else 1)

    def merge(
        self, into: Sequence[NDArray[Any]], other: Sequence[NDArray[Any]], counts: tuple[int, int]
    ) -> None:
        n, m = counts
        _take_in(into, other, n, m / (n + m))


@dataclass(frozen=True)
class NanMoments(Moments):
    """`Moments` of what is not NaN, and how many elements that are."""

    def dtypes(self, dtype: np.dtype[Any]) -> tuple[np.dtype[Any], ...]:
        return *super().dtypes(dtype), np.dtype(np.intp)

    def start(
        self, block: NDArray[Any], axes: Axes, first: Sequence[int], out: Sequence[NDArray[Any]]
    ) -> None:
        missing = np.isnan(block)
        count = np.sum(~missing, axis=axes, dtype=np.intp, keepdims=True)
        rest = block.astype(self.dtype)
        np.copyto(rest, 0, where=missing)
        mean = np.sum(rest, axis=axes, keepdims=True) / np.maximum(count, 1)
        mean = mean.astype(self.dtype, copy=False)
        np.subtract(rest, mean, out=rest)
        np.copyto(rest, 0, where=missing)
        np.copyto(out[0], mean.reshape(out[0].shape))
        np.sum(_squared(rest), axis=axes, out=out[1])
        np.copyto(out[2], count.reshape(out[2].shape))

    def memory(self, dtype: np.dtype[Any], shape: Sequence[int], axes: Axes) -> int:
        masks = 2 * math.prod(shape)
        return super().memory(dtype, shape, axes) + masks

    def merge(
        self, into: Sequence[NDArray[Any]], other: Sequence[NDArray[Any]], counts: tuple[int, int]
    ) -> None:
        n, m = into[2], other[2]
        _take_in(into, other, n, m / np.maximum(n + m, 1))
        n += m


def _squared(given: Any) -> NDArray[Any]:
    """Squares of absolute values, in the place of the elements where they fit there."""
    rest = np.asarray(given)
    if rest.dtype.kind != "c":
        squares: NDArray[Any] = np.square(rest, out=rest)
        return squares
    squares = np.square(rest.real)
    squares += np.square(rest.imag)
    return squares


def _take_in(
    into: Sequence[NDArray[Any]], other: Sequence[NDArray[Any]], n: Any, share: Any
) -> None:
    """Join moments: those of `n` elements, and others of which there are `share` of all."""
    mean, squares = into[:2]
    delta = other[0] - mean
    squares += other[1]
    squares += _squared(delta.copy()) * (n * share)
    mean += delta * share


@dataclass(frozen=True)
class ArgExtreme(Reduction):
    """The first place of the least or greatest element over axes, NaN counting as it.

    The results are the element, and its index among all, flattened.

    Attributes
    ----------
    least : bool
        Which of the two.
    extents : tuple of int
        Of the axes that are reduced over.
    """

    least: bool
    extents: tuple[int, ...]

    @property
    def name(self) -> str:  # type: ignore[override]
        """As NumPy calls it."""
        return "argmin" if self.least else "argmax"

    def dtypes(self, dtype: np.dtype[Any]) -> tuple[np.dtype[Any], ...]:
        return dtype, np.dtype(np.intp)

    def start(
        self, block: NDArray[Any], axes: Axes, first: Sequence[int], out: Sequence[NDArray[Any]]
    ) -> None:
        find = np.argmin if self.least else np.argmax
        value, index, stride = block, np.zeros((1,) * block.ndim, np.intp), 1
        # Of the first ones along the last axis, the first one along the axis before is the first.
        for axis, extent in zip(reversed(axes), reversed(self.extents), strict=True):
            place = find(value, axis=axis, keepdims=True)
            value = np.take_along_axis(value, place, axis)
            known = index if index.size == 1 else np.take_along_axis(index, place, axis)
            index = known + (place + first[axis]) * stride
            stride *= extent
        np.copyto(out[0], value.reshape(out[0].shape))
        np.copyto(out[1], index.reshape(out[1].shape))

    def memory(self, dtype: np.dtype[Any], shape: Sequence[int], axes: Axes) -> int:
        # NumPy copies what does not lie along the axis. Of each line there are its element, and its
        # place in some versions.
        lines = math.prod(shape) // max(shape[axes[-1]], 1)
        return math.prod(shape) * dtype.itemsize + lines * 5 * np.dtype(np.intp).itemsize

    def merge(
        self, into: Sequence[NDArray[Any]], other: Sequence[NDArray[Any]], counts: tuple[int, int]
    ) -> None:
        (value, place), (value2, place2) = into, other
        with np.errstate(invalid="ignore"):
            better = np.less(value2, value) if self.least else np.greater(value2, value)
        if value.dtype.kind in "fc":
            better |= np.isnan(value2)
            better &= ~np.isnan(value)
        # Parts may come in any order; of equal ones the first counts.
        same = (value2 == value) | ((value2 != value2) & (value != value))
        better |= same & (place2 < place)
        np.copyto(value, value2, where=better)
        np.copyto(place, place2, where=better)
