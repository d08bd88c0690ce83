"""Reductions: how a part of an array becomes few numbers, and how those of two parts are joined."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["ArgExtreme", "Moments", "Reduction", "UfuncReduction"]

Axes = tuple[int, ...]


class Reduction(ABC):
    """A reduction whose result for the whole follows from those for parts.

    Attributes
    ----------
    name : str
        For people.
    """

    name: str

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
class Moments(Reduction):
    """Means and sums of squared deviations from them, by the formula of Chan, Golub and LeVeque.

    Attributes
    ----------
    dtype : numpy.dtype
        In which means are computed.
    """

    dtype: np.dtype[Any]
    name = "moments"

    def dtypes(self, dtype: np.dtype[Any]) -> tuple[np.dtype[Any], ...]:
        real = np.empty(0, self.dtype).real.dtype
        return self.dtype, real

    def start(
        self, block: NDArray[Any], axes: Axes, first: Sequence[int], out: Sequence[NDArray[Any]]
    ) -> None:
        mean = np.mean(block, axis=axes, dtype=self.dtype, keepdims=True)
        rest = np.subtract(block, mean, dtype=self.dtype)
        np.copyto(out[0], mean.reshape(out[0].shape))
        squares = (rest * rest.conj()).real if self.dtype.kind == "c" else np.square(rest, out=rest)
        np.sum(squares, axis=axes, out=out[1])

    def merge(
        self, into: Sequence[NDArray[Any]], other: Sequence[NDArray[Any]], counts: tuple[int, int]
    ) -> None:
        (mean, squares), (mean2, squares2), (n, m) = into, other, counts
        if not n or not m:
            if not n:
                np.copyto(mean, mean2)
                np.copyto(squares, squares2)
            return
        delta = mean2 - mean
        squares += squares2
        squares += (delta * delta.conj()).real * (n * m / (n + m))
        mean += delta * (m / (n + m))


@dataclass(frozen=True)
class ArgExtreme(Reduction):
    """The first index of the least or greatest element along one axis, NaN counting as it.

    The results are the element, and its index.
    """

    least: bool

    @property
    def name(self) -> str:  # type: ignore[override]
        """As NumPy calls it."""
        return "argmin" if self.least else "argmax"

    def dtypes(self, dtype: np.dtype[Any]) -> tuple[np.dtype[Any], ...]:
        return dtype, np.dtype(np.intp)

    def start(
        self, block: NDArray[Any], axes: Axes, first: Sequence[int], out: Sequence[NDArray[Any]]
    ) -> None:
        (axis,) = axes
        find = np.argmin if self.least else np.argmax
        place = np.expand_dims(find(block, axis=axis), axis)
        np.copyto(out[0], np.take_along_axis(block, place, axis).reshape(out[0].shape))
        np.add(place.reshape(out[1].shape), first[axis], out=out[1])

    def merge(
        self, into: Sequence[NDArray[Any]], other: Sequence[NDArray[Any]], counts: tuple[int, int]
    ) -> None:
        (value, place), (value2, place2) = into, other
        better = np.less(value2, value) if self.least else np.greater(value2, value)
        if value.dtype.kind in "fc":
            better |= np.isnan(value2)
            better &= ~np.isnan(value)
        # Parts may come in any order; of equal ones the first counts.
        same = (value2 == value) | ((value2 != value2) & (value != value))
        better |= same & (place2 < place)
        np.copyto(value, value2, where=better)
        np.copyto(place, place2, where=better)
