"""Arrays made of nothing but their description, by the names of the Python array API standard."""

import math
import operator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from outcrop.array_api import manipulation_functions
from outcrop.arrays.array import Array
from outcrop.arrays.creation import asarray, of_indices
from outcrop.arrays.source import MemorySource
from outcrop.arrays.views import View
from outcrop.checks import ShapeLike, as_dtype, check_device, check_dtype, check_shape
from outcrop.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError

__all__ = [
    "arange",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "full",
    "full_like",
    "linspace",
    "meshgrid",
    "ones",
    "ones_like",
    "zeros",
    "zeros_like",
]


def full(
    shape: ShapeLike,
    fill_value: Any,
    dtype: DTypeLike | None = None,
    *,
    device: str | None = None,
) -> Array:
    """Describe an array all of whose elements are the same. It takes no memory.

    Examples
    --------
    >>> oc.full((1000, 1000), 7)[3, 4:6].compute()
    array([7, 7])
    """
    check_device(device)
    value = np.asarray(fill_value)
    if value.ndim:
        raise InvalidArgumentError("fill_value must be a number")
    kind = check_dtype(value.dtype if dtype is None else dtype)
    same = np.broadcast_to(value.astype(kind), check_shape(shape, kind))
    source = MemorySource(same, owned=True)
    source.read_only_reason = "all of its elements are one number in memory"
    return Array(source, View.whole(same.shape))


def empty(shape: ShapeLike, dtype: DTypeLike | None = None, *, device: str | None = None) -> Array:
    """Describe an array of which only shape and type matter: it is of zeros.

    What is to be written to is made on disk by `outcrop.create`, and in memory by
    ``oc.asarray(np.empty(shape))``.

    Examples
    --------
    >>> oc.empty((2, 3), dtype="int8")
    <outcrop.Array int8 (2, 3) 6 bytes, in memory>
    """
    return zeros(shape, dtype=dtype, device=device)


def zeros(shape: ShapeLike, dtype: DTypeLike | None = None, *, device: str | None = None) -> Array:
    """Describe an array of zeros. It takes no memory.

    Examples
    --------
    >>> oc.zeros((2, 2)).compute()
    array([[0., 0.],
           [0., 0.]])
    """
    return full(shape, 0, dtype=np.float64 if dtype is None else dtype, device=device)


def ones(shape: ShapeLike, dtype: DTypeLike | None = None, *, device: str | None = None) -> Array:
    """Describe an array of ones. It takes no memory.

    Examples
    --------
    >>> oc.ones(3, dtype="int8").compute()
    array([1, 1, 1], dtype=int8)
    """
    return full(shape, 1, dtype=np.float64 if dtype is None else dtype, device=device)


def full_like(
    x: Array,
    /,
    fill_value: Any,
    dtype: DTypeLike | None = None,
    *,
    device: str | None = None,
) -> Array:
    """Describe an array of the shape, and by default the type, of another one."""
    return full(x.shape, fill_value, dtype=x.dtype if dtype is None else dtype, device=device)


def empty_like(x: Array, /, dtype: DTypeLike | None = None, *, device: str | None = None) -> Array:
    """Describe an array of the shape, and by default the type, of another one: of zeros.

    Examples
    --------
    >>> oc.empty_like(oc.asarray([1, 2]), dtype="float32")
    <outcrop.Array float32 (2,) 8 bytes, in memory>
    """
    return full_like(x, 0, dtype=dtype, device=device)


def zeros_like(x: Array, /, dtype: DTypeLike | None = None, *, device: str | None = None) -> Array:
    """Describe an array of zeros of the shape, and by default the type, of another one."""
    return full_like(x, 0, dtype=dtype, device=device)


def ones_like(x: Array, /, dtype: DTypeLike | None = None, *, device: str | None = None) -> Array:
    """Describe an array of ones of the shape, and by default the type, of another one."""
    return full_like(x, 1, dtype=dtype, device=device)


def arange(
    start: float,
    /,
    stop: float | None = None,
    step: float = 1,
    dtype: DTypeLike | None = None,
    *,
    device: str | None = None,
) -> Array:
    """Describe numbers with the same step between them, as `numpy.arange` makes them.

    Examples
    --------
    >>> oc.arange(1, 10, 4).compute()
    array([1, 5, 9])
    """
    check_device(device)
    first, end = (0, start) if stop is None else (start, stop)
    if step == 0:
        raise InvalidArgumentError("step must not be zero")
    count = max(math.ceil((end - first) / step), 0)
    kind = np.result_type(type(first), type(end), type(step)) if dtype is None else as_dtype(dtype)
    if kind.kind == "b":
        if dtype is not None and count > 2:
            raise InvalidTypeError("there are no more than two truth values")
        kind = kind if dtype is not None else np.dtype(np.int64)
    return of_indices(partial(_evenly, first, step, kind), count, kind)


def _evenly(first: Any, step: Any, kind: np.dtype[Any], i: Any) -> Any:
    return (first + i * step).astype(kind)


def linspace(
    start: complex,
    stop: complex,
    /,
    num: int = 50,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    endpoint: bool = True,
) -> Array:
    """Describe so many numbers, evenly spaced, as `numpy.linspace` makes them.

    Examples
    --------
    >>> oc.linspace(0, 1, 5).compute()
    array([0.  , 0.25, 0.5 , 0.75, 1.  ])
    """
    check_device(device)
    count = operator.index(num)
    if count < 0:
        raise InvalidArgumentError(f"Number of samples, {count}, must be non-negative.")
    parts = max(count - 1 if endpoint else count, 1)
    found = np.complex128 if isinstance(start + stop, complex | np.complexfloating) else np.float64
    kind = as_dtype(found if dtype is None else dtype)
    last = count - 1 if endpoint and count > 1 else None
    between = partial(_between, start, stop, parts, last, kind)
    return of_indices(between, count, kind)


def _between(
    start: complex, stop: complex, parts: int, last: int | None, kind: np.dtype[Any], i: Any
) -> Any:
    """One of numbers that cut what lies between two into parts; the `last` one is the second."""
    values = start + i * ((stop - start) / parts)
    if last is not None:
        values = np.where(i == last, stop, values)
    return np.floor(values).astype(kind) if kind.kind in "iu" else values.astype(kind)


def meshgrid(*arrays: Any, indexing: str = "xy") -> tuple[Array, ...]:
    """Repeat vectors of coordinates to all of a grid, as `numpy.meshgrid` does: nothing is stored.

    Parameters
    ----------
    *arrays : array_like
        The coordinates along each axis of the grid.
    indexing : {"xy", "ij"}
        Which axes of the results they lie along: ``"ij"``, in their order; ``"xy"``, with the
        first two exchanged.

    Returns
    -------
    tuple of Array
        For each of them, not computed yet.

    Raises
    ------
    InvalidArgumentError
        There is no such indexing, or an array has several axes.

    Examples
    --------
    >>> x, y = oc.meshgrid(oc.arange(3), oc.asarray([10, 20]))
    >>> (x + y).compute()
    array([[10, 11, 12],
           [20, 21, 22]])
    """
    if indexing not in ("xy", "ij"):
        raise InvalidArgumentError(f"indexing must be 'xy' or 'ij', got {indexing!r}")
    given = [asarray(x) for x in arrays]
    if any(x.ndim > 1 for x in given):
        raise InvalidArgumentError("coordinates of a grid are along one axis")
    count = len(given)
    order = list(range(count))
    if indexing == "xy" and count > 1:
        order[:2] = 1, 0
    shape = tuple(given[axis].size for axis in order)
    result = []
    for axis, x in zip(order, given, strict=True):
        alone = [None] * count
        keys: list[Any] = [*alone[:axis], slice(None), *alone[axis + 1 :]]
        line = x if x.ndim else x[None]
        result.append(manipulation_functions.broadcast_to(line[tuple(keys)], shape))
    return tuple(result)


def from_dlpack(x: Any, /, *, device: str | None = None, copy: bool | None = None) -> Array:
    """Take an array of another library in the memory of the host, by the DLPack protocol.

    Parameters
    ----------
    x : object
        With the methods ``__dlpack__`` and ``__dlpack_device__``. An `Array` comes back as it is.
    device : {"cpu"}, optional
        The only one that there is.
    copy : bool, optional
        True: the elements are copied. Default, and False: they are not.

    Returns
    -------
    Array
        In memory.

    Raises
    ------
    InvalidTypeError
        `x` does not take part in the protocol.
    UnsupportedError
        It lies in other memory, or its elements are of a type that there is not here.

    Examples
    --------
    >>> oc.from_dlpack(np.arange(3)).compute()
    array([0, 1, 2])
    """
    check_device(device)
    if isinstance(x, Array):
        return asarray(x, copy=copy)
    try:
        taken = np.from_dlpack(x)
    except AttributeError as error:
        raise InvalidTypeError(f"an array with __dlpack__ is wanted: {error}") from None
    except (BufferError, RuntimeError) as error:
        raise UnsupportedError(str(error)) from None
    return asarray(taken, copy=copy)


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: DTypeLike | None = None,
    device: str | None = None,
) -> Array:
    """Describe a matrix of ones on a diagonal, and zeros elsewhere.

    Examples
    --------
    >>> oc.eye(2).compute()
    array([[1., 0.],
           [0., 1.]])
    """
    check_device(device)
    kind = as_dtype(np.float64 if dtype is None else dtype)
    shape = (n_rows, n_rows if n_cols is None else n_cols)
    return of_indices(partial(_on_diagonal, k, kind), shape, kind)


def _on_diagonal(k: int, kind: np.dtype[Any], i: Any, j: Any) -> Any:
    return (j - i == k).astype(kind)
