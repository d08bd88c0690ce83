"""Masks of no axis: a truth value in a key stands for a new axis of one index, or of none."""

from typing import Any

import numpy as np

from outcrop.arrays.views import View, is_array
from outcrop.errors import UnsupportedError

__all__ = ["indexed"]


def indexed(view: View, key: Any) -> View:
    """Select by a key without arrays, in which there may be a truth value.

    An `outcrop.Array` that is one is computed.

    Raises
    ------
    UnsupportedError
        There are several, or something stands between it and an integer.
    BoxIndexError
        The key does not fit.
    """
    items = list(key) if isinstance(key, tuple) else [key]
    places = [i for i, item in enumerate(items) if _is_mask(item)]
    if not places:
        return view.index(key)
    at = places[0]
    # NumPy moves its axis to the front where it does not stand beside all integers.
    named = [i for i, item in enumerate(items) if i == at or _is_integer(item)]
    if len(places) > 1 or named != list(range(named[0], named[-1] + 1)):
        raise UnsupportedError(
            "a key with several truth values, or with something between one and an integer, is "
            "not supported in this version; index in two steps"
        )
    basic = (*items[:at], None, *items[at + 1 :])
    found = view.index(basic)
    before = items[:at]
    used = sum(isinstance(item, slice) or _is_integer(item) for item in basic)
    axis = sum(item is None or isinstance(item, slice) for item in before)
    axis += len(view.axes) - used if any(item is Ellipsis for item in before) else 0
    return found.index((*(slice(None),) * axis, slice(0, int(bool(items[at])))))


def _is_mask(item: Any) -> bool:
    if isinstance(item, bool | np.bool_):
        return True
    return getattr(item, "ndim", None) == 0 and getattr(item, "dtype", None) == np.bool_


def _is_integer(item: Any) -> bool:
    kinds = item is None or item is Ellipsis or isinstance(item, slice)
    return not (kinds or is_array(item) or _is_mask(item))
