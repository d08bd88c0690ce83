"""What becomes an array: how much memory NumPy takes to make one of it, and what needs none.

A list is in memory, and so are its elements; but a `range`, or another sequence that makes its
elements when it is asked, is not, and NumPy makes Python objects of all of them at once.
"""

import math
from collections.abc import Iterable, Sequence, Sized
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outcrop import _native
from outcrop.arrays import hooks
from outcrop.arrays.source import FunctionSource, Source
from outcrop.arrays.views import View
from outcrop.errors import BudgetError, UnsupportedError
from outcrop.process.config import ensure_configured
from outcrop.process.sizes import format_bytes

__all__ = [
    "bytes_to_convert",
    "check_conversion",
    "elements_of",
    "free_memory",
    "lazy_source",
    "unmasked",
]

_SMALL = 1 << 20
"""Bytes that are not looked at: results of as many are not charged, either."""

_OBJECT = 48
"""Bytes of an element that is made as a Python object, with its places in a list and the array."""

_NESTED = 128
"""Bytes for a sequence in a sequence, of which NumPy makes a list."""

_LISTED = 48
"""Bytes that NumPy notes of a list in a list."""

_NUMBERS = frozenset((bool, int, float, complex))


def lazy_source(x: Any) -> Source | None:
    """What reads something that is no `Array` a tile at a time; None where NumPy takes it.

    That is an array of another library, or a long `range`.
    """
    external = hooks.external_source(x)
    if external is not None:
        return external
    if isinstance(x, range) and len(x) * 8 > _SMALL:
        ends, limits = (x[0], x[-1]), np.iinfo(np.int64)
        if limits.min <= min(ends) and max(ends) <= limits.max:
            first, step = x.start, x.step
            kind = np.dtype(np.int64)
            return FunctionSource(lambda i: first + i * step, (len(x),), kind, calls_back=False)
    return None


def free_memory() -> tuple[int, int]:
    """Bytes of the memory budget that are free, and of all of it."""
    ensure_configured()
    state = _native.status()
    return int(state["memory"] - state["used"]), int(state["memory"])


def bytes_to_convert(x: Any) -> int:
    """How much NumPy takes at most to make an array of something, with the array.

    Of what is nothing but ``__array__``, without a shape, that is not known: then it is 0.
    """
    if x is None or isinstance(x, np.ndarray | np.generic | str | bytes | int | float | complex):
        return 0
    if isinstance(x, list | tuple):
        return _of_list(x)
    if hasattr(type(x), "__array__"):
        return _of_array(x)
    if not _is_sequence(x):
        return 0
    try:
        # Elements in one piece of memory are taken as they are.
        memoryview(x)
    except TypeError:
        return _of_sequence(x)
    return 0


def _is_sequence(x: Any) -> bool:
    """Whether NumPy goes through its elements."""
    kind = type(x)
    sized = isinstance(x, Sized) and hasattr(kind, "__getitem__")
    return sized and not isinstance(x, dict | str | bytes) and not hasattr(kind, "__array__")


def _of_list(x: Sequence[Any]) -> int:
    kinds = set(map(type, x))
    if kinds <= _NUMBERS:
        return len(x) * (16 if complex in kinds else 8)
    if all(issubclass(kind, np.generic | int | float | complex) for kind in kinds):
        return len(x) * 16
    if kinds <= {str, bytes}:
        return 4 * len(x) * max(map(len, x))
    return sum(_LISTED + _nested(item) for item in x)


def _nested(x: Any) -> int:
    """Bytes for an item of a list, which is copied to the array of all of them."""
    from outcrop.arrays.array import Array

    if isinstance(x, np.ndarray):
        return int(x.size * max(x.dtype.itemsize, 8))
    if isinstance(x, Array):
        return x.size * max(x.itemsize, 8)
    more = 0 if isinstance(x, list | tuple) else _NESTED
    return bytes_to_convert(x) + (more if _is_sequence(x) else 0)


def _of_sequence(x: Any) -> int:
    count = len(x)
    first = next(islice(x, 1), None) if isinstance(x, Iterable) else x[0] if count else None
    if _is_sequence(first):
        inside = len(first) * _OBJECT if isinstance(first, list | tuple) else 0
        return count * (_NESTED + max(inside, _nested(first)))
    if isinstance(first, str | bytes):
        return count * (_OBJECT + 8 * max(len(first), 16))
    return count * max(_OBJECT, _nested(first))


def _of_array(x: Any) -> int:
    """Bytes for what makes an array of itself, by the shape and type that it tells."""
    if hasattr(type(x), "__array_interface__"):
        return 0
    shape, dtype = getattr(x, "shape", None), getattr(x, "dtype", None)
    if not isinstance(shape, tuple) or not all(isinstance(n, int) for n in shape):
        return 0
    if isinstance(dtype, np.dtype) and not dtype.hasobject:
        return math.prod(shape) * dtype.itemsize
    return math.prod(shape) * _OBJECT


def check_conversion(x: Any) -> None:
    """Raise where making an array of something takes more than is free of the budget.

    Raises
    ------
    BudgetError
        It does.
    """
    _check_room(x, bytes_to_convert(x))


def _check_room(x: Any, needed: int) -> None:
    if needed <= _SMALL:
        return
    free, budget = free_memory()
    if needed <= free:
        return
    count = f" of {len(x)} elements" if isinstance(x, Sized) else ""
    raise BudgetError(
        f"a {type(x).__name__}{count} takes up to {format_bytes(needed)} as an array in memory, "
        f"and {format_bytes(free)} of the memory budget of {format_bytes(budget)} are free; "
        "describe it (oc.arange, oc.fromfunction), assign it part by part to an array on disk "
        "(oc.create), or raise the budget (oc.config(memory=...))",
        needed + budget - free,
    )


def elements_of(x: Any, dtype: Any = None) -> NDArray[Any]:
    """The elements of what is no `Array`, in memory.

    Raises
    ------
    BudgetError
        There is no room for them, or for what NumPy makes them of.
    """
    source = lazy_source(x)
    if source is None:
        check_conversion(x)
        return np.asarray(x, dtype)
    _check_room(x, math.prod(source.shape) * source.dtype.itemsize)
    return np.asarray(source.read(View.whole(source.shape)), dtype)


def unmasked(x: Any, dtype: np.dtype[Any] | None = None) -> NDArray[Any]:
    """The elements of an array in memory.

    Raises
    ------
    UnsupportedError
        Some are masked: nothing here would leave them out.
    BudgetError
        There is no room for what NumPy makes of them.
    """
    if np.ma.is_masked(x):
        raise UnsupportedError(
            "masked elements would be taken for others; x.filled(numpy.nan) and NaN-aware "
            "functions, or where=, leave them out"
        )
    check_conversion(x)
    return np.asarray(x, dtype)
