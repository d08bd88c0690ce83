"""What families of functions have in common: their operand, and the ufunc that tells them apart."""

from typing import Any, NamedTuple

import numpy as np

from outcrop.arrays.array import Array
from outcrop.arrays.creation import asarray
from outcrop.expressions.build import reductions
from outcrop.process.config import piece_limit

__all__ = ["By", "array_like", "is_long", "long_lines"]

_FEW = 64
"""Lines, at most, that are gone through one after the other."""

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


class By(NamedTuple):
    """A ufunc, and what stands for NaN where that is skipped."""

    ufunc: np.ufunc
    instead: float | None = None

    def given(self, x: Any) -> Array:
        """The operand."""
        array = array_like(x)
        return array if self.instead is None else reductions.without_nan_of(array, self.instead)
