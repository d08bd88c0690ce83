"""Which elements have which ranks among all of an array: found in passes that write nothing.

The first pass keeps some elements, evenly spaced in the order of each part that it sees. From these
follow brackets, pairs of values between which the elements of the wanted ranks lie, most likely.
The second pass counts what is below and above the brackets, and keeps what is between. Where a rank
turns out to lie elsewhere, or where there is more between than memory has room for, there is a
further pass, with brackets that are narrower for certain: what is found is exact.
"""

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outcrop.arrays import hooks
from outcrop.arrays.array import Array
from outcrop.arrays.computed import ComputedSource
from outcrop.expressions.build.arrays import ExpressionSource, mapped, node_of
from outcrop.expressions.build.reductions import reduced
from outcrop.expressions.graph.functions import Seen
from outcrop.process.config import config, piece_limit
from outcrop.process.operation import operation
from outcrop.process.room import room

__all__ = ["Selected", "selected"]

_PIECES, _KEPT = 4, 2
"""Pieces of memory that are used, and those of what is kept, beside parts that are sorted."""

_BESIDE = 2
"""Parts for which there is room on each thread."""

_LARGEST = 4 << 20
"""Bytes of a part that is sorted, at most: its elements stay in the cache."""

_FEWEST = 256
"""Elements of a part, or that are kept of a bracket, at least."""

_MORE = 1.1
"""How many times as much there is room for as is kept, of what is known to be too much."""

_GOLDEN = (math.sqrt(5) - 1) / 2
"""By multiples of which places are evenly spaced, however many there are."""

_DEVIATIONS = 4.0
"""Standard deviations by which a bracket reaches beyond where a rank is expected."""


class Selected(NamedTuple):
    """What is found.

    Attributes
    ----------
    ranks : numpy.ndarray
        Ascending, each once.
    values : numpy.ndarray
        The elements that have them.
    """

    ranks: NDArray[np.intp]
    values: NDArray[Any]


def selected(array: Array, ranks: Callable[[int, int], NDArray[np.intp]]) -> Selected:
    """Find the elements of some ranks, counted from 0 and ascending, computed now.

    Parameters
    ----------
    array : Array
        Numbers that have an order.
    ranks : callable
        Which, by the number of elements that are no NaN, and by that of NaNs.
    """
    with operation():
        source = array._source
        if isinstance(source, ComputedSource):
            is_cheap = isinstance(source, ExpressionSource) and source.is_cheap
            # What takes long is not computed again for each pass.
            array = array if is_cheap else hooks.materialized(array)
        with room(min(_PIECES * array.nbytes, _PIECES * piece_limit()), "elements of some ranks"):
            return _Search(array).found(ranks)


class _Search:
    """Passes over an array, until all ranks are known."""

    def __init__(self, array: Array) -> None:
        self._array = array
        # Truth values have the order of numbers.
        self._kind = np.dtype(np.uint8) if array.dtype == bool else array.dtype
        each = self._kind.itemsize
        self._most = max(_KEPT * piece_limit() // each, 2)
        part = min(piece_limit() // (_BESIDE * config().threads), _LARGEST)
        self._part = max(part // each, _FEWEST)
        self._alone = threading.Lock()

    def found(self, ranks: Callable[[int, int], NDArray[np.intp]]) -> Selected:
        """The elements of the ranks."""
        size = self._array.size
        stride = 1 if size <= self._most else math.ceil(_MORE * size / self._most)
        whole = _Bracket(None, None, self._most, stride)
        missing = self._see([whole])
        wanted = np.unique(ranks(whole.inside, missing))
        answers: dict[int, Any] = {}
        open_brackets = whole.settled(wanted.tolist(), answers)
        at_once = max(self._most // _FEWEST, 1)
        while open_brackets:
            brackets = _joined(open_brackets)
            brackets, later = brackets[:at_once], brackets[at_once:]
            for bracket in brackets:
                bracket.most = max(self._most // len(brackets), _FEWEST)
            self._see(brackets)
            narrower = [new for one in brackets for new in one.settled(one.ranks, answers)]
            open_brackets = [*narrower, *later]
        values = np.array([answers[rank] for rank in wanted.tolist()], self._kind)
        return Selected(wanted, values.astype(self._array.dtype))

    def _see(self, brackets: "Sequence[_Bracket]") -> int:
        """Show all elements to brackets; and how many are NaN."""
        missing = 0

        def see(block: NDArray[Any]) -> None:
            nonlocal missing
            if not block.size:
                return
            flags: Any = ["external_loop", "buffered", "zerosize_ok"]
            for chunk in np.nditer(block, flags, buffersize=self._part, order="K"):
                part = np.asarray(chunk).view(self._kind)
                kept = part[part == part] if part.dtype.kind in "fc" else part.copy()
                kept.sort()
                with self._alone:
                    missing += len(part) - len(kept)
                    for bracket in brackets:
                        bracket.add(kept)

        if self._array.size:
            seen = mapped(Seen(see), [node_of(self._array)], np.dtype(bool))
            reduced(np.logical_or, seen, axis=None).compute()
        return missing


@dataclass
class _Bracket:
    """Elements between two values, these not included; None where there is no limit.

    Attributes
    ----------
    low, high : Any
        The values.
    most : int
        How many elements are kept.
    stride : int
        One of so many is kept.
    outer : tuple
        Values between which the ranks lie for certain, these included.
    ranks : list of int
        What is wanted.
    below, at_low, inside, at_high : int
        How many elements are below `low`, equal to it, between, and equal to `high`.
    """

    low: Any
    high: Any
    most: int
    stride: int = 1
    outer: tuple[Any, Any] = (None, None)
    ranks: list[int] = field(default_factory=list)
    below: int = 0
    at_low: int = 0
    inside: int = 0
    at_high: int = 0
    _kept: NDArray[Any] | None = None
    _count: int = 0
    _parts: int = 0

    def add(self, part: NDArray[Any]) -> None:
        """Take in elements that are sorted."""
        first, last = 0, len(part)
        if self.low is not None:
            first = int(np.searchsorted(part, self.low, "left"))
            self.below += first
            end = int(np.searchsorted(part, self.low, "right"))
            self.at_low += end - first
            first = end
        if self.high is not None and (self.low is None or self.low < self.high):
            last = int(np.searchsorted(part, self.high, "left"))
            self.at_high += int(np.searchsorted(part, self.high, "right")) - last
        elif self.high is not None:
            # Of one value.
            last = first
        if first >= last:
            return
        self.inside += last - first
        self._parts += 1
        if self._kept is None:
            self._kept = np.empty(self.most, part.dtype)
        while True:
            begin = first + int(self._parts * _GOLDEN % 1 * self.stride)
            kept = part[begin : last : self.stride]
            if self._count + len(kept) <= self.most:
                break
            self._thin_out(self._kept)
        self._kept[self._count : self._count + len(kept)] = kept
        self._count += len(kept)

    def _thin_out(self, kept: NDArray[Any]) -> None:
        """Keep every other one of those that are kept."""
        less = kept[self._parts % 2 : self._count : 2]
        self._count = len(less)
        kept[: self._count] = less
        self.stride *= 2

    def _sorted(self) -> NDArray[Any]:
        """What is kept, which then is kept no more."""
        kept, self._kept = self._kept, None
        found = np.empty(0) if kept is None else kept[: self._count]
        found.sort()
        return found

    def settled(self, ranks: Sequence[int], answers: dict[int, Any]) -> "list[_Bracket]":
        """Say which elements have these ranks; give brackets of those that are still unknown."""
        kept = self._sorted()
        first = self.below + self.at_low
        last = first + self.inside
        reach = math.ceil(_DEVIATIONS * math.sqrt(self._parts / 12)) + 2
        # In any case there is less between the values of the next bracket.
        reach = min(reach, len(kept) // 4)
        further: list[_Bracket] = []
        for rank in ranks:
            if rank < self.below:
                further.append(self._beside(self.outer[0], self.low, rank))
            elif rank < first:
                answers[rank] = self.low
            elif rank < last and self.stride == 1:
                answers[rank] = kept[rank - first]
            elif rank < last:
                further.append(self._within(kept, rank, (rank - first) // self.stride, reach))
            elif rank < last + self.at_high:
                answers[rank] = self.high
            else:
                further.append(self._beside(self.high, self.outer[1], rank))
        return further

    def _beside(self, low: Any, high: Any, rank: int) -> "_Bracket":
        """Between values that are known to be on either side of a rank."""
        return _Bracket(low, high, self.most, 1, (low, high), [rank])

    def _within(self, kept: NDArray[Any], rank: int, place: int, reach: int) -> "_Bracket":
        """Between two of those that are kept, around the one that is about there."""
        outer = (self.low, self.high)
        if not len(kept):
            # There are so few, almost all being NaN, that none was kept: now all are.
            return _Bracket(*outer, self.most, 1, outer, [rank])
        place = min(place, len(kept) - 1)
        low = kept[place - reach] if place >= reach else self.low
        high = kept[place + reach] if place + reach < len(kept) else self.high
        return _Bracket(low, high, self.most, 1, outer, [rank])


def _joined(brackets: Sequence[_Bracket]) -> list[_Bracket]:
    """Brackets in which those are one that are alike.

    Those that only overlap stay apart: together they might be no narrower than the one before.
    """
    found: list[_Bracket] = []
    for bracket in sorted(brackets, key=lambda one: one.ranks):
        before = found[-1] if found else None
        if before is not None and _limits(before) == _limits(bracket):
            before.ranks += bracket.ranks
        else:
            found.append(bracket)
    return found


def _limits(bracket: _Bracket) -> tuple[Any, ...]:
    return bracket.low, bracket.high, bracket.outer
