"""Elements in order of which memory holds only a part: sorted by merging, computed at once.

A first pass sorts as many as memory has room for at a time, and writes these runs to scratch. A
second one reads all runs side by side, a little of each, and merges them.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outcrop.arrays.array import Array
from outcrop.errors import BudgetError
from outcrop.expressions.build.chosen_elements import written
from outcrop.process.config import piece_limit
from outcrop.process.operation import operation
from outcrop.process.room import room
from outcrop.process.sizes import format_bytes

__all__ = ["places_in_order", "sorted_elements"]

_PIECES = 4
"""Pieces of memory that are used."""

_COPIES = 3
"""How many times a run, or what is merged at once, is in memory."""

_FEWEST = 64
"""Elements of a run that are read at once, at least."""

_PLACE = np.dtype(np.intp)


def sorted_elements(array: Array) -> Array:
    """The elements along one axis, ascending; NaN comes last. In memory, or in scratch."""

    def run(first: int, last: int) -> NDArray[np.uint8]:
        made = array[first:last].compute()
        made = made if made.flags.owndata and made.flags.writeable else made.copy()
        made.sort()
        return made.view(np.uint8)

    with operation():
        return _Merge(array, None).merged(run)


def places_in_order(array: Array) -> Array:
    """The indices that sort the elements along one axis; those of equal ones ascend."""

    def run(first: int, last: int) -> NDArray[np.uint8]:
        made = array[first:last].compute()
        order = np.argsort(made, kind="stable")
        values = made[order].view(np.uint8)
        order += first
        return np.concatenate([values, order.view(np.uint8)])

    with operation():
        return _Merge(array, _PLACE).merged(run)


class _Merge:
    """Runs of elements, with their places or without, and what becomes of them."""

    def __init__(self, array: Array, places: np.dtype[Any] | None) -> None:
        self._array, self._dtype, self._places = array, array.dtype, places
        self._each = array.dtype.itemsize + (0 if places is None else places.itemsize)
        more = 0 if places is None else places.itemsize
        self._most = max(_PIECES * piece_limit() // (_COPIES * self._each + more), 1)
        self._size = array.shape[0]
        self._runs = -(-self._size // self._most)
        # Of each run, so much is in memory.
        self._buffer = piece_limit() // (self._runs * self._each)
        if self._buffer < min(_FEWEST, self._size):
            least = _FEWEST * self._runs * self._each * 8
            raise BudgetError(
                f"to sort {self._size} elements of {array.dtype}, {self._runs} runs of them have "
                f"to be merged, which takes a budget of about {format_bytes(least)}",
                least,
            )

    def merged(self, run: Callable[[int, int], NDArray[np.uint8]]) -> Array:
        """All of them in order; `run` gives those from one place to another."""
        starts = range(0, self._size, self._most)

        def runs() -> Iterator[NDArray[np.uint8]]:
            for first in starts:
                yield run(first, min(first + self._most, self._size))

        with room(_PIECES * piece_limit(), "sorting"):
            nbytes = self._size * self._each
            stored = written(runs(), (nbytes,), np.dtype(np.uint8))
            dtype = self._dtype if self._places is None else self._places
            return written(self._parts(stored), (self._size,), dtype)

    def _parts(self, stored: Array) -> Iterator[NDArray[Any]]:
        """What is in order, part by part."""
        starts = range(0, self._size, self._most)
        runs = [_Run(stored, first, min(self._most, self._size - first), self) for first in starts]
        while runs := [one for one in runs if one.is_open]:
            for one in runs:
                one.refill(self._buffer)
            # No element that is still to be read comes before the first of these.
            lasts = np.array([one.values[-1] for one in runs if one.rest], self._dtype)
            if not len(lasts):
                parts = [one.take(len(one.values)) for one in runs]
            else:
                which = int(np.argsort(lasts, kind="stable")[0])
                limit, open_runs = lasts[which], [one for one in runs if one.rest]
                parts, before = [], True
                for one in runs:
                    # Of equal elements, those of the first runs come first.
                    side: Any = "right" if before else "left"
                    parts.append(one.take(int(np.searchsorted(one.values, limit, side))))
                    before = before and one is not open_runs[which]
            values = np.concatenate([part for part, _ in parts])
            if self._places is None:
                values.sort()
                yield values
            else:
                order = np.argsort(values, kind="stable")
                yield np.concatenate([part for _, part in parts])[order]

    def read(
        self, stored: Array, start: int, length: int, at: int, count: int
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Elements of a run, and their places, if it has any."""
        first, each = start * self._each, self._dtype.itemsize
        low = first + at * each
        values = stored[low : low + count * each].compute().view(self._dtype)
        if self._places is None:
            return values, values[:0]
        each = self._places.itemsize
        low = first + length * self._dtype.itemsize + at * each
        return values, stored[low : low + count * each].compute().view(self._places)


class _Run:
    """Elements in order, of which a few are in memory.

    Attributes
    ----------
    values, places : numpy.ndarray
        These.
    rest : int
        How many have not been read.
    """

    def __init__(self, stored: Array, start: int, length: int, merge: _Merge) -> None:
        self._stored, self._start, self._length, self._merge = stored, start, length, merge
        self.values, self.places = merge.read(stored, start, length, 0, 0)
        self.rest = length

    @property
    def is_open(self) -> bool:
        """Whether there are any left."""
        return self.rest > 0 or len(self.values) > 0

    def refill(self, most: int) -> None:
        """Read on, where less than half of what may be in memory is."""
        if not self.rest or 2 * len(self.values) > most:
            return
        count = min(most - len(self.values), self.rest)
        at = self._length - self.rest
        values, places = self._merge.read(self._stored, self._start, self._length, at, count)
        self.values = np.concatenate([self.values, values])
        self.places = np.concatenate([self.places, places])
        self.rest -= count

    def take(self, count: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """The first ones, which are then gone."""
        taken = self.values[:count], self.places[:count]
        self.values, self.places = self.values[count:], self.places[count:]
        return taken
