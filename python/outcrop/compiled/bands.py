"""Files of elements that are loaded in long pieces, and spread over tiles.

A tile of a file is a short piece of each of many rows, and reading those reads what lies between
them, or takes long. A band is many tiles beside one another: it is read once, and a step copies it
to the tiles.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any

from outcrop import _native
from outcrop.compiled.cached import compiled_function, digest
from outcrop.compiled.compiler import numba_module, pointer_to
from outcrop.process.config import memory_budget
from outcrop.process.sizes import RUN

__all__ = ["Bands", "band_of", "spreading"]

_PART = 3
"""What part of the budget a band may have, with the tiles that it is copied to."""

_RATE = 1e9
"""Elements that are copied in a second, about."""


def band_of(
    store: _native.Store, shape: Sequence[int], tile: Sequence[int], itemsize: int
) -> tuple[int, ...] | None:
    """The shape of bands of a stored array that is cut into such tiles; None where it needs none.

    None also where memory has no room for one.
    """
    axes = store.file_axes
    if axes is None or len(shape) < 2 or 0 in shape:
        return None
    fastest = axes[-1]
    own = [min(t, n) for t, n in zip(tile, shape, strict=True)]
    if own[fastest] == shape[fastest] or own[fastest] * itemsize >= RUN:
        return None
    room = memory_budget() // (2 * _PART) // (math.prod(own) * itemsize)
    own[fastest] = min(own[fastest] * room, shape[fastest])
    return tuple(own) if room > 1 else None


class Bands:
    """The bands of one array, and which of its tiles are still to be made of them.

    Attributes
    ----------
    kernel : int
        The number of what copies them.
    elements : int
        Of a band.

    Parameters
    ----------
    draft : Draft
        The program.
    first : int
        The number of the first of its bands.
    target : int
        The number of the first of its tiles.
    shape, tile, band : sequence of int
        Of the array.
    runs : bool, optional
        Whether the program runs: what is only planned needs no kernel.
    """

    def __init__(
        self,
        draft: _native.Draft,
        first: int,
        target: int,
        shape: Sequence[int],
        tile: Sequence[int],
        band: Sequence[int],
        *,
        runs: bool = True,
    ) -> None:
        self._first, self._target = first, target
        self.elements = math.prod(band)
        self._counts = [-(-n // t) for n, t in zip(shape, tile, strict=True)]
        self._bands = [-(-n // t) for n, t in zip(shape, band, strict=True)]
        pairs = enumerate(zip(band, tile, strict=True))
        self._across = next(axis for axis, (b, t) in pairs if b > t)
        self._beside = -(-band[self._across] // tile[self._across])
        self.kernel = spreading(draft, len(shape), runs=runs)
        self._missing = set(range(target, target + math.prod(self._counts)))

    def is_made(self, tile: int) -> None:
        """Say that a step makes a tile, all of it."""
        self._missing.discard(tile)

    def making(self, tile: int) -> list[int]:
        """The operands of a step that makes a tile and those beside it; none if it is there."""
        if tile not in self._missing:
            return []
        at = _coords(tile - self._target, self._counts)
        at[self._across] //= self._beside
        band = self._first + _number(at, self._bands)
        own = at[self._across] * self._beside
        row = []
        for i in range(own, min(own + self._beside, self._counts[self._across])):
            at[self._across] = i
            row.append(self._target + _number(at, self._counts))
        row = [one for one in row if one in self._missing]
        self._missing.difference_update(row)
        return [band << 2, *[one << 2 | 1 for one in row]]


def _coords(number: int, counts: Sequence[int]) -> list[int]:
    found = []
    for n in reversed(counts):
        number, i = divmod(number, n)
        found.append(i)
    return found[::-1]


def _number(at: Sequence[int], counts: Sequence[int]) -> int:
    found = 0
    for i, n in zip(at, counts, strict=True):
        found = found * n + i
    return found


def spreading(draft: _native.Draft, ndim: int, *, runs: bool = True) -> int:
    """The number of a kernel that copies a step's first tile to all others.

    Its argument is how many these are.
    """
    function = _spreading(ndim) if runs else None
    address = 1 if function is None else function.address
    return draft.native("spread", _RATE, address, 1, function)


@functools.cache
def _spreading(ndim: int) -> Any:
    """A kernel that copies the first tile to all others, as far as they have elements in common."""
    numba = numba_module()
    at_int, at_byte = pointer_to(numba.int64), pointer_to(numba.uint8)
    last = ndim - 1

    def spread(
        starts: Any, axes: Any, arguments: Any, workspace: Any, nbytes: Any, stop: Any
    ) -> int:
        places, sides, words = at_int(starts), at_int(axes), at_int(arguments)
        for t in range(1, words[0] + 1):
            own = 3 * ndim * t
            rows = 1
            for a in range(ndim):
                low = max(sides[3 * a], sides[own + 3 * a])
                high = min(
                    sides[3 * a] + sides[3 * a + 1], sides[own + 3 * a] + sides[own + 3 * a + 1]
                )
                if a < last:
                    rows *= max(high - low, 0)
                elif high <= low:
                    rows = 0
            first = max(sides[3 * last], sides[own + 3 * last])
            end = min(
                sides[3 * last] + sides[3 * last + 1],
                sides[own + 3 * last] + sides[own + 3 * last + 1],
            )
            size = sides[3 * last + 2]
            for row in range(rows):
                rest = row
                source = places[0] + (first - sides[3 * last]) * size
                target = places[t] + (first - sides[own + 3 * last]) * size
                for b in range(last):
                    a = last - 1 - b
                    low = max(sides[3 * a], sides[own + 3 * a])
                    high = min(
                        sides[3 * a] + sides[3 * a + 1], sides[own + 3 * a] + sides[own + 3 * a + 1]
                    )
                    i = low + rest % (high - low)
                    rest //= high - low
                    source += (i - sides[3 * a]) * sides[3 * a + 2]
                    target += (i - sides[own + 3 * a]) * sides[own + 3 * a + 2]
                given, to = at_byte(source), at_byte(target)
                for k in range((end - first) * size):
                    to[k] = given[k]
        return 0

    return compiled_function(spread, digest("spread", (ndim,)))
