"""Parts of arrays along an axis, as views."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from outcrop.array_api.families import array_like
from outcrop.array_api.manipulation_functions import integers
from outcrop.arrays.array import Array
from outcrop.errors import InvalidArgumentError
from outcrop.expressions.build.reductions import axes_of

__all__ = ["array_split", "split", "unstack"]


def array_split(x: Any, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Give parts along an axis as views, as `numpy.array_split` does.

    Examples
    --------
    >>> [A.shape for A in oc.array_split(oc.zeros(7), 3)]
    [(3,), (2,), (2,)]
    """
    array = array_like(x)
    (along,) = axes_of(array.ndim, axis)
    extent = array.shape[along]
    if isinstance(indices_or_sections, Sequence | np.ndarray) and np.ndim(indices_or_sections):
        places = list(integers(indices_or_sections, "indices"))
    else:
        (count,) = integers(indices_or_sections, "sections")
        if count <= 0:
            raise InvalidArgumentError("number sections must be larger than 0.")
        each, more = divmod(extent, count)
        places = [i * each + min(i, more) for i in range(1, count)]
    whole = (slice(None),) * along
    ends = [*places, extent]
    return [array[(*whole, slice(low, high))] for low, high in zip([0, *places], ends, strict=True)]


def split(x: Any, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Give parts of one size along an axis, or parts between indices, as `numpy.split` does.

    Examples
    --------
    >>> [A.shape for A in oc.split(oc.zeros((6, 2)), 3)]
    [(2, 2), (2, 2), (2, 2)]
    """
    array = array_like(x)
    (along,) = axes_of(array.ndim, axis)
    if not np.ndim(indices_or_sections):
        (count,) = integers(indices_or_sections, "sections")
        if count <= 0 or array.shape[along] % count:
            raise InvalidArgumentError("array split does not result in an equal division")
    return array_split(array, indices_or_sections, along)


def split_along(x: Any, indices_or_sections: Any, axis: int) -> list[Array]:
    """Give parts as `numpy.vsplit` (axis 0), `hsplit` (1) and `dsplit` (2) do."""
    array = array_like(x)
    least = {0: 2, 1: 1, 2: 3}[axis]
    if array.ndim < least:
        raise InvalidArgumentError(f"only works on arrays of {least} or more dimensions")
    return split(array, indices_or_sections, min(axis, array.ndim - 1))


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Array, ...]:
    """Give what is at each index of an axis as views, as `numpy.unstack` does.

    Examples
    --------
    >>> [A.shape for A in oc.unstack(oc.zeros((2, 3)))]
    [(3,), (3,)]
    """
    array = array_like(x)
    if not array.ndim:
        raise InvalidArgumentError("Input array must be at least 1-d.")
    (along,) = axes_of(array.ndim, axis)
    whole = (slice(None),) * along
    return tuple(array[(*whole, i)] for i in range(array.shape[along]))
