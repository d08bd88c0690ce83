"""Arrays made of nothing but their description, by the names of the Python array API standard."""

import math
import operator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from outcrop.arrays.array import Array
from outcrop.arrays.creation import of_indices
from outcrop.arrays.source import MemorySource
from outcrop.arrays.views import View
from outcrop.checks import ShapeLike, check_dtype, check_shape
from outcrop.errors import InvalidArgumentError, InvalidTypeError

__all__ = [
    "arange",
    "eye",
    "full",
    "full_like",
    "linspace",
    "ones",
    "ones_like",
    "zeros",
    "zeros_like",
]


def full(shape: ShapeLike, fill_value: Any, *, dtype: DTypeLike | None = None) -> Array:
    """Describe an array all of whose elements are the same. It takes no memory.

    Examples
    --------
    >>> oc.full((1000, 1000), 7)[3, 4:6].compute()
    array([7, 7])
    """
    value = np.asarray(fill_value)
    if value.ndim:
        raise InvalidArgumentError("fill_value must be a number")
    kind = check_dtype(value.dtype if dtype is None else dtype)
    same = np.broadcast_to(value.astype(kind), check_shape(shape, kind))
    source = MemorySource(same, owned=True)
    source.read_only_reason = "all of its elements are one number in memory"
    return Array(source, View.whole(same.shape))


def zeros(shape: ShapeLike, *, dtype: DTypeLike = np.float64) -> Array:
    """Describe an array of zeros. It takes no memory.

    Examples
    --------
    >>> oc.zeros((2, 2)).compute()
    array([[0., 0.],
           [0., 0.]])
    """
    return full(shape, 0, dtype=dtype)


def ones(shape: ShapeLike, *, dtype: DTypeLike = np.float64) -> Array:
    """Describe an array of ones. It takes no memory.

    Examples
    --------
    >>> oc.ones(3, dtype="int8").compute()
    array([1, 1, 1], dtype=int8)
    """
    return full(shape, 1, dtype=dtype)


def full_like(x: Array, /, fill_value: Any, *, dtype: DTypeLike | None = None) -> Array:
    """Describe an array of the shape, and by default the type, of another one."""
    return full(x.shape, fill_value, dtype=x.dtype if dtype is None else dtype)


def zeros_like(x: Array, /, *, dtype: DTypeLike | None = None) -> Array:
    """Describe an array of zeros of the shape, and by default the type, of another one."""
    return full_like(x, 0, dtype=dtype)


def ones_like(x: Array, /, *, dtype: DTypeLike | None = None) -> Array:
    """Describe an array of ones of the shape, and by default the type, of another one."""
    return full_like(x, 1, dtype=dtype)


def arange(
    start: float, /, stop: float | None = None, step: float = 1, *, dtype: DTypeLike | None = None
) -> Array:
    """Describe numbers with the same step between them, as `numpy.arange` makes them.

    Examples
    --------
    >>> oc.arange(1, 10, 4).compute()
    array([1, 5, 9])
    """
    first, end = (0, start) if stop is None else (start, stop)
    if step == 0:
        raise InvalidArgumentError("step must not be zero")
    count = max(math.ceil((end - first) / step), 0)
    kind = np.result_type(type(first), type(end), type(step)) if dtype is None else np.dtype(dtype)
    if kind.kind == "b":
        if dtype is not None and count > 2:
            raise InvalidTypeError("there are no more than two truth values")
        kind = kind if dtype is not None else np.dtype(np.int64)
    return of_indices(lambda i: (first + i * step).astype(kind), count, kind)


def linspace(
    start: float,
    stop: float,
    /,
    num: int,
    *,
    dtype: DTypeLike | None = None,
    endpoint: bool = True,
) -> Array:
    """Describe so many numbers, evenly spaced, as `numpy.linspace` makes them.

    Examples
    --------
    >>> oc.linspace(0, 1, 5).compute()
    array([0.  , 0.25, 0.5 , 0.75, 1.  ])
    """
    count = operator.index(num)
    if count < 0:
        raise InvalidArgumentError(f"Number of samples, {count}, must be non-negative.")
    parts = max(count - 1 if endpoint else count, 1)
    kind = np.dtype(np.float64 if dtype is None else dtype)

    def at(i: Any) -> Any:
        values = start + i * ((stop - start) / parts)
        if endpoint and count > 1:
            values = np.where(i == count - 1, stop, values)
        return np.floor(values).astype(kind) if kind.kind in "iu" else values.astype(kind)

    return of_indices(at, count, kind)


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = np.float64) -> Array:
    """Describe a matrix of ones on a diagonal, and zeros elsewhere.

    Examples
    --------
    >>> oc.eye(2).compute()
    array([[1., 0.],
           [0., 1.]])
    """
    kind = np.dtype(dtype)
    shape = (n_rows, n_rows if n_cols is None else n_cols)
    return of_indices(lambda i, j: (j - i == k).astype(kind), shape, kind)
