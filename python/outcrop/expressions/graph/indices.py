"""Indices along an axis, as many as there may be: said by a rule, where there is one."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from outcrop.arrays.views import Span

__all__ = ["Indices", "Listed", "Periodic", "Repeated"]

Integers: TypeAlias = NDArray[np.signedinteger[Any]]


class Indices(ABC):
    """Non-negative indices along an axis.

    Attributes
    ----------
    length : int
        How many there are.
    """

    length: int

    @abstractmethod
    def between(self, low: int, high: int) -> Integers:
        """Those from the one numbered `low` on, and before `high`."""

    @abstractmethod
    def part(self, span: Span) -> "Indices":
        """Those that a span selects."""

    @abstractmethod
    def blocks(self, low: int, high: int, extent: int) -> Iterable[int]:
        """Which blocks of so many indices those between `low` and `high` are in."""


@dataclass(frozen=True, eq=False)
class Listed(Indices):
    """Indices as they are listed."""

    values: Integers

    @property
    def length(self) -> int:  # type: ignore[override]
        """Of the list."""
        return len(self.values)

    def between(self, low: int, high: int) -> Integers:
        return self.values[low:high]

    def part(self, span: Span) -> Indices:
        return Listed(self.values[span.slice()])

    def blocks(self, low: int, high: int, extent: int) -> Iterable[int]:
        found: list[int] = np.unique(self.values[low:high] // extent).tolist()
        return found


@dataclass(frozen=True)
class _Ruled(Indices):
    """Indices that follow from ``first + step * i``.

    Attributes
    ----------
    count : int
        What the rule is told.
    """

    count: int
    first: int
    step: int
    length: int

    def part(self, span: Span) -> "_Ruled":
        return replace(
            self,
            first=self.first + self.step * span.start,
            step=self.step * span.step,
            length=span.length,
        )

    def _line(self, low: int, high: int) -> Any:
        return self.first + self.step * np.arange(low, high, dtype=np.int64)


@dataclass(frozen=True)
class Periodic(_Ruled):
    """``(first + step * i) % count``: again and again."""

    def between(self, low: int, high: int) -> Integers:
        found: Integers = self._line(low, high) % self.count
        return found

    def blocks(self, low: int, high: int, extent: int) -> Iterable[int]:
        if abs(self.step) * (high - low) >= self.count and abs(self.step) <= extent:
            return range(-(-self.count // extent))
        found: list[int] = np.unique(self.between(low, high) // extent).tolist()
        return found


@dataclass(frozen=True)
class Repeated(_Ruled):
    """``(first + step * i) // count``: each of them `count` times."""

    def between(self, low: int, high: int) -> Integers:
        found: Integers = self._line(low, high) // self.count
        return found

    def blocks(self, low: int, high: int, extent: int) -> Iterable[int]:
        ends = [(self.first + self.step * i) // self.count // extent for i in (low, high - 1)]
        if abs(self.step) <= self.count * extent:
            return range(min(ends), max(ends) + 1)
        found: list[int] = np.unique(self.between(low, high) // extent).tolist()
        return found
