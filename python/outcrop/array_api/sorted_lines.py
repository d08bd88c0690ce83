"""Lines along the last axis in order, in memory."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["first_in_order", "first_places", "order_of", "put_in_order"]

_LONG, _PART = 4096, 8
"""Elements of a line from which on it is not sorted as a whole, where a smaller part is wanted."""


def put_in_order(out: NDArray[Any], block: NDArray[Any], descending: bool) -> None:
    """Sort lines; NaN is larger than all numbers."""
    out[...] = block
    out.sort(axis=-1)
    if descending:
        out[...] = out[..., ::-1]


def order_of(block: NDArray[Any], descending: bool) -> NDArray[Any]:
    """The indices that sort lines: those of equal elements ascend."""
    if not descending:
        return np.argsort(block, axis=-1, kind="stable")
    backwards = np.argsort(block[..., ::-1], axis=-1, kind="stable")[..., ::-1]
    np.subtract(block.shape[-1] - 1, backwards, out=backwards)
    return backwards


def first_in_order(block: NDArray[Any], descending: bool, most: int) -> NDArray[Any]:
    """The first elements of lines that are sorted."""
    length = block.shape[-1]
    if length < _LONG or most * _PART > length:
        found = block.copy()
    else:
        kth = length - most if descending else most - 1
        found = np.partition(block, kth, axis=-1)
        found = found[..., kth:] if descending else found[..., :most]
    put_in_order(found, found, descending)
    return found[..., :most]


def first_places(block: NDArray[Any], descending: bool, most: int) -> NDArray[Any]:
    """The first of the indices that sort lines."""
    length = block.shape[-1]
    if length < _LONG or most * _PART > length or block.dtype.kind == "c" or not most:
        return order_of(block, descending)[..., :most]
    made = np.empty((*block.shape[:-1], most), np.intp)
    for at in np.ndindex(block.shape[:-1]):
        line = block[at]
        last = first_in_order(line, descending, most)[-1]
        # NaN is equal to itself here, and larger than all numbers.
        if last != last:
            ties = line != line
            before = ties & False if descending else ~ties
        elif descending:
            ties, before = line == last, ~(line <= last)
        else:
            ties, before = line == last, line < last
        (found,), (equal,) = np.nonzero(before), np.nonzero(ties)
        found = np.sort(np.concatenate([found, equal[: most - len(found)]]))
        made[at] = found[order_of(line[found], descending)]
    return made
