"""What families of functions have in common: their operand, and the ufunc that tells them apart."""

from typing import Any, NamedTuple

import numpy as np

from outcrop.arrays.array import Array
from outcrop.arrays.creation import asarray
from outcrop.expressions.build import reductions

__all__ = ["By", "array_like"]


def array_like(x: Any) -> Array:
    """An array, or what becomes one."""
    return x if isinstance(x, Array) else asarray(x)


class By(NamedTuple):
    """A ufunc, and what stands for NaN where that is skipped."""

    ufunc: np.ufunc
    instead: float | None = None

    def given(self, x: Any) -> Array:
        """The operand."""
        array = array_like(x)
        return array if self.instead is None else reductions.without_nan_of(array, self.instead)
