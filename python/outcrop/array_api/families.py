"""What families of functions have in common: their operand, and the ufunc that tells them apart."""

from typing import Any, NamedTuple

import numpy as np

from outcrop.arrays.array import Array
from outcrop.arrays.creation import asarray
from outcrop.expressions.build import reductions
from outcrop.process.config import memory_budget, piece_limit

__all__ = ["By", "aligned", "array_like", "exceeds_memory", "is_long", "long_lines", "whole_tiles"]

_FEW = 64
"""Lines, at most, that are gone through one after the other."""

_BLOCK = 4096
"""Bytes that a file is read in."""

_ROOM = 4
"""Times as much as a line that memory has to have room for, if it is computed with as a whole."""

_LONG = 2
"""Of which part of a piece of memory lines are that are computed with as a whole."""


def array_like(x: Any) -> Array:
    """An array, or what becomes one."""
    return x if isinstance(x, Array) else asarray(x)


def is_long(nbytes: int) -> bool:
    """Whether a line of so many bytes is too long to be computed with as a whole."""
    return nbytes * _LONG > piece_limit()


def long_lines(array: Array, axis: int) -> bool:
    """Whether there are few lines along an axis, each too long to be computed with as a whole."""
    line = array.shape[axis] * array.dtype.itemsize
    return is_long(line) and array.nbytes <= _FEW * line


def exceeds_memory(array: Array, axis: int) -> bool:
    """Whether memory has hardly room for a line along an axis, and for what is made of it."""
    return array.shape[axis] * array.dtype.itemsize * _ROOM > memory_budget()


def aligned(most: int, tile: int) -> int:
    """As many elements, or fewer: of whole tiles, or a part of one that divides it."""
    most = max(most, 1)
    if most >= tile:
        return most - most % tile
    fewest = -(-tile // most)
    parts = (parts for parts in range(fewest, 2 * fewest) if tile % parts == 0)
    return tile // next(parts, fewest)


def whole_tiles(most: int, array: Array, axis: int) -> int:
    """So many indices along an axis, or fewer, that tiles on disk are not cut, or evenly."""
    if array.layout != "tiled":
        return aligned(most, max(_BLOCK // array.dtype.itemsize, 1))
    return aligned(most, array.tile[axis])


class By(NamedTuple):
    """A ufunc, and what stands for NaN where that is skipped."""

    ufunc: np.ufunc
    instead: float | None = None

    def given(self, x: Any) -> Array:
        """The operand."""
        array = array_like(x)
        return array if self.instead is None else reductions.without_nan_of(array, self.instead)
