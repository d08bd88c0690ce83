"""Which frequency stands where, and the other order of them."""

import operator
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from outcrop.array_api.families import array_like
from outcrop.array_api.manipulation_functions import roll
from outcrop.arrays.array import Array
from outcrop.arrays.creation import of_indices
from outcrop.checks import check_device, check_dtype
from outcrop.errors import InvalidArgumentError, InvalidTypeError
from outcrop.expressions.build.reductions import axes_of

__all__ = ["fftfreq", "fftshift", "ifftshift", "rfftfreq"]


def fftfreq(
    n: int, /, d: float = 1.0, *, dtype: DTypeLike | None = None, device: str | None = None
) -> Array:
    """Tell the frequencies of the elements that `fft` gives, as `numpy.fft.fftfreq` does.

    Parameters
    ----------
    n : int
        How many elements are transformed.
    d : float
        The distance between them, of whose unit the result has the inverse.
    dtype : dtype_like, optional
        A floating-point type. Default: float64.
    device : {"cpu"}, optional
        The only one.

    Returns
    -------
    Array
        Of `n` elements, those from zero upwards first. It takes no memory.

    Raises
    ------
    InvalidArgumentError
        There is no such number of elements, or the distance is zero.
    InvalidTypeError
        `n` is no integer, or the type is another one.

    Examples
    --------
    >>> oc.fft.fftfreq(5, d=0.5).compute()
    array([ 0. ,  0.4,  0.8, -0.8, -0.4])
    """
    check_device(device)
    count, unit = _checked(n, d)
    half = (count + 1) // 2
    return of_indices(partial(_around, count, half, unit), count, _real(dtype))


def _around(count: int, half: int, unit: float, i: Any) -> Any:
    """Numbers of which those from `half` on stand for negative ones."""
    return (i - count * (i >= half)) * unit


def rfftfreq(
    n: int, /, d: float = 1.0, *, dtype: DTypeLike | None = None, device: str | None = None
) -> Array:
    """Tell the frequencies of the elements that `rfft` gives, as `numpy.fft.rfftfreq` does.

    Parameters and errors are those of `fftfreq`.

    Returns
    -------
    Array
        Of ``n // 2 + 1`` elements. It takes no memory.

    Examples
    --------
    >>> oc.fft.rfftfreq(5, d=0.5).compute()
    array([0. , 0.4, 0.8])
    """
    check_device(device)
    count, unit = _checked(n, d)
    return of_indices(partial(operator.mul, unit), count // 2 + 1, _real(dtype))


def fftshift(x: Any, /, axes: int | Sequence[int] | None = None) -> Array:
    """Put the frequency zero in the middle along axes, as `numpy.fft.fftshift` does.

    Parameters
    ----------
    x : Array or array_like
        As `fft` and its like give it.
    axes : int or sequence of int, optional
        Along which axes. Default: all.

    Returns
    -------
    Array
        Not computed yet.

    Examples
    --------
    >>> oc.fft.fftshift(oc.fft.fftfreq(5, d=0.2)).compute()
    array([-2., -1.,  0.,  1.,  2.])
    """
    return _shifted(x, axes, 1)


def ifftshift(x: Any, /, axes: int | Sequence[int] | None = None) -> Array:
    """Put the frequency zero first along axes: takes back what `fftshift` does.

    Examples
    --------
    >>> oc.fft.ifftshift(oc.fft.fftshift(oc.arange(5))).compute()
    array([0, 1, 2, 3, 4])
    """
    return _shifted(x, axes, -1)


def _shifted(x: Any, axes: int | Sequence[int] | None, direction: int) -> Array:
    array = array_like(x)
    along = axes_of(array.ndim, axes)
    if not along:
        return array
    by = [direction * (direction * array.shape[axis] // 2) for axis in along]
    return roll(array, by, axis=along)


def _checked(n: int, d: float) -> tuple[int, float]:
    try:
        count = operator.index(n)
    except TypeError as error:
        raise InvalidTypeError(f"n: {error}") from None
    if count < 1:
        raise InvalidArgumentError(f"frequencies are of one element at least, not of {count}")
    if not d:
        raise InvalidArgumentError("the distance between elements must not be zero")
    return count, 1.0 / (count * d)


def _real(dtype: DTypeLike | None) -> np.dtype[Any]:
    kind = check_dtype(np.float64 if dtype is None else dtype)
    if kind.kind != "f":
        raise InvalidTypeError(f"frequencies are floating-point numbers, not {kind}")
    return kind
