"""Arguments of linear algebra."""

from typing import Any

import numpy as np

from outcrop.arrays.array import Array
from outcrop.errors import InvalidArgumentError, InvalidTypeError
from outcrop.expressions.build.arrays import array_of, node_of
from outcrop.expressions.build.reductions import cast

__all__ = [
    "converted",
    "flag",
    "floating",
    "matrix",
    "square",
    "system",
]


def flag(value: object, name: str) -> bool:
    """A boolean argument."""
    if isinstance(value, bool | np.bool_) or (isinstance(value, int) and value in (0, 1)):
        return bool(value)
    raise InvalidTypeError(f"{name} must be True or False, got {value!r}")


def matrix(a: Array, name: str) -> np.dtype[Any]:
    """The dtype to compute in, if `a` is a matrix."""
    if a.ndim != 2:
        raise InvalidArgumentError(f"{name}: a matrix has two axes; the shape is {a.shape}")
    return floating(a.dtype)


def square(a: Array, name: str) -> np.dtype[Any]:
    """The dtype to compute in, if `a` is a square matrix."""
    dtype = matrix(a, name)
    if a.shape[0] != a.shape[1]:
        raise InvalidArgumentError(f"{name}: the matrix is not square; its shape is {a.shape}")
    return dtype


def system(a: Array, b: Array, name: str) -> np.dtype[Any]:
    """The dtype to compute in, if `a` and `b` are a matrix and right-hand sides."""
    dtype = square(a, name)
    if b.ndim not in (1, 2) or b.shape[0] != a.shape[0]:
        raise InvalidArgumentError(
            f"{name}: right-hand sides of shape {b.shape} do not fit a matrix of shape {a.shape}; "
            f"({a.shape[0]},) or ({a.shape[0]}, m) would"
        )
    return np.result_type(dtype, floating(b.dtype))


def floating(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """NumPy's linear algebra computes integers in double precision."""
    if dtype.kind in "biu":
        return np.dtype(np.float64)
    if dtype.kind not in "fc":
        raise InvalidTypeError(f"linear algebra takes numbers, not {dtype}")
    return dtype


def converted(a: Array, dtype: Any) -> Array:
    """The same elements as a type, lazily, also where it is the same one."""
    return array_of(cast(node_of(a), np.dtype(dtype)))
