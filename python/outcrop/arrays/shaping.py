"""Those methods of arrays that arrange and select elements."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from outcrop.arrays import hooks

if TYPE_CHECKING:
    from outcrop.arrays.array import Array

__all__ = ["Shaping", "by_numpy"]


def by_numpy(which: Callable[..., Any], *args: Any, **options: Any) -> "Array":
    """What a function of NumPy's gives of arrays."""
    return cast("Array", hooks.function(which, args, options))


class Shaping:
    """NumPy's methods of these names, for an `outcrop.Array`."""

    __slots__ = ()

    def reshape(self, *shape: Any, order: str = "C") -> "Array":
        """See `outcrop.reshape`; the shape may be one sequence, or several integers."""
        return by_numpy(np.reshape, self, shape[0] if len(shape) == 1 else shape, order=order)

    def ravel(self, order: str = "C") -> "Array":
        """Give the elements in one row: ``reshape(-1, order=order)``."""
        return self.reshape(-1, order=order)

    def flatten(self, order: str = "C") -> "Array":
        """Give the elements in one row as they are now: it is no view, as `ravel` may be."""
        return hooks.now(self.reshape(-1, order=order))

    def swapaxes(self, axis1: int, axis2: int) -> "Array":
        """See `numpy.swapaxes`: a view."""
        return by_numpy(np.swapaxes, self, axis1, axis2)

    def squeeze(self, axis: int | Sequence[int] | None = None) -> "Array":
        """See `numpy.squeeze`: a view without axes of length 1."""
        return by_numpy(np.squeeze, self, axis=axis)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> "Array":
        """See `outcrop.diagonal`."""
        return by_numpy(np.diagonal, self, offset=offset, axis1=axis1, axis2=axis2)

    def repeat(self, repeats: Any, axis: int | None = None) -> "Array":
        """See `outcrop.repeat`."""
        return by_numpy(np.repeat, self, repeats, axis=axis)

    def take(self, indices: Any, axis: int | None = None) -> "Array":
        """See `outcrop.take`."""
        return by_numpy(np.take, self, indices, axis=axis)

    def compress(self, condition: Any, axis: int | None = None) -> "Array":
        """See `outcrop.compress`."""
        return by_numpy(np.compress, condition, self, axis=axis)

    def nonzero(self) -> "tuple[Array, ...]":
        """See `outcrop.nonzero`."""
        return cast("tuple[Array, ...]", hooks.function(np.nonzero, (self,), {}))
