"""Arguments that many functions take: element types, shapes, tiles, orders, paths."""

import math
import operator
import os
from collections.abc import Iterable, Sequence
from typing import Any, Literal, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from outcrop.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError

__all__ = [
    "MAX_NDIM",
    "Order",
    "ShapeLike",
    "StrPath",
    "as_dtype",
    "check_device",
    "check_dtype",
    "check_order",
    "check_path",
    "check_shape",
    "check_tile",
    "has_type",
]

StrPath: TypeAlias = str | os.PathLike[str]
ShapeLike: TypeAlias = SupportsIndex | Sequence[SupportsIndex]
Order: TypeAlias = Literal["C", "F"]

MAX_NDIM = 64
"""As in NumPy."""

_NAMES = (
    "bool",
    *("int8", "int16", "int32", "int64"),
    *("uint8", "uint16", "uint32", "uint64"),
    *("float32", "float64", "complex64", "complex128"),
)


def check_device(device: object) -> None:
    """Raise for any device but the one that there is."""
    if device is not None and device != "cpu":
        raise InvalidArgumentError(f"the only device is 'cpu', and not {device!r}")


def as_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    """What NumPy makes a dtype of."""
    try:
        return np.dtype(dtype)
    except TypeError as error:
        raise InvalidTypeError(str(error)) from None


def check_dtype(dtype: DTypeLike, *, swapped: bool = False) -> np.dtype[Any]:
    """Return the NumPy dtype, if Outcrop has it.

    Parameters
    ----------
    dtype : dtype_like
        Anything that NumPy makes a dtype of.
    swapped : bool
        Whether big-endian types are allowed.
    """
    result = as_dtype(dtype)
    if result.name not in _NAMES or result.fields is not None or result.subdtype is not None:
        raise UnsupportedError(
            f"dtype {str(result)!r} is not supported; the element types are {', '.join(_NAMES)}"
        )
    if result.isnative:
        # One dtype object per type: on 64-bit Linux 'l' and 'q' are both int64.
        return np.dtype(result.name)
    if not swapped:
        raise UnsupportedError(
            f"dtype {result.str!r} is big-endian, and everything that Outcrop makes is "
            f"little-endian; pass {result.name!r}"
        )
    return result


def _integers(value: Any, name: str) -> tuple[int, ...]:
    # np.ndarray and friends iterate as well; a str would iterate over its letters.
    items = value if isinstance(value, Iterable) and not isinstance(value, str) else (value,)
    try:
        return tuple(operator.index(item) for item in items)
    except TypeError:
        raise InvalidArgumentError(
            f"{name} must be an integer or a sequence of integers, got {value!r}"
        ) from None


def has_type(dtype: np.dtype[Any]) -> bool:
    """Whether there are arrays of such elements, in either byte order."""
    try:
        check_dtype(dtype, swapped=True)
    except (InvalidTypeError, UnsupportedError):
        return False
    return True


def check_shape(shape: ShapeLike, dtype: np.dtype[Any]) -> tuple[int, ...]:
    """Return the shape as a tuple, if an array of it can be addressed."""
    result = _integers(shape, "shape")
    if any(extent < 0 for extent in result):
        raise InvalidArgumentError(f"shape {result} has a negative extent")
    if len(result) > MAX_NDIM:
        raise InvalidArgumentError(
            f"shape has {len(result)} dimensions, at most {MAX_NDIM} are possible"
        )
    # Zeros are left out, as NumPy leaves them out: the strides must not overflow either.
    if math.prod(extent for extent in result if extent) * dtype.itemsize > 2**63 - 1:
        raise InvalidArgumentError(f"an array of shape {result} is too large to address")
    return result


def check_tile(tile: ShapeLike | None, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the tile shape; one integer stands for the same extent along every axis."""
    if tile is None:
        return None
    result = _integers(tile, "tile")
    if not isinstance(tile, Iterable):
        result *= len(shape)
    if len(result) != len(shape):
        raise InvalidArgumentError(
            f"tile {result} and shape {shape} have different numbers of dimensions"
        )
    if any(extent < 1 for extent in result):
        raise InvalidArgumentError(f"tile {result} has an extent below 1")
    return result


def check_order(order: str) -> Order:
    """Return the order, if it is one of the two."""
    if order == "C":
        return "C"
    if order == "F":
        return "F"
    raise InvalidArgumentError(f"order must be 'C' or 'F', got {order!r}")


def check_path(path: StrPath) -> str:
    """Return the path as a string."""
    try:
        found = os.fsdecode(os.fspath(path))
    except TypeError:
        raise InvalidTypeError(
            f"expected a path (str or os.PathLike), got {type(path).__name__}"
        ) from None
    if not found or "\0" in found:
        raise InvalidArgumentError(f"{found!r} is not a path")
    return found
