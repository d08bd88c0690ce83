"""NumPy's functions of neighbouring elements: gradients, and windows that slide."""

from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from outcrop.array_api.creation_functions import full
from outcrop.array_api.families import array_like
from outcrop.array_api.manipulation_functions import concat, integers, stack
from outcrop.arrays.array import Array
from outcrop.arrays.computed import ComputedSource
from outcrop.arrays.conversion import elements_of
from outcrop.arrays.creation import asarray
from outcrop.arrays.registry import implements
from outcrop.errors import InvalidArgumentError, InvalidTypeError
from outcrop.expressions.build.reductions import axes_of

__all__ = ["gradient", "lib"]


@implements(np.lib.stride_tricks.sliding_window_view)
def sliding_window_view(
    x: Any,
    window_shape: int | Sequence[int],
    axis: int | Sequence[int] | None = None,
    *,
    subok: bool = False,
    writeable: bool = False,
) -> Array:
    """Give all windows of a shape, one beside the other, as `numpy.lib.stride_tricks` does.

    Parameters
    ----------
    x : Array
        The elements.
    window_shape : int or sequence of int
        The extents of a window along `axis`.
    axis : int or sequence of int, optional
        Along which axes windows slide; one may be named several times. Default: all.
    subok, writeable : bool
        NumPy's. The result is an expression, and not written to.

    Returns
    -------
    Array
        With an axis for each of the windows' behind those of `x`, not computed yet. What is made
        of windows reads an element once, however many of them it is in.

    Raises
    ------
    InvalidArgumentError
        A window is longer than the array, negative, or there are not as many as axes; it is to be
        written to.

    Examples
    --------
    >>> A = oc.asarray([1.0, 2.0, 4.0, 8.0])
    >>> oc.lib.stride_tricks.sliding_window_view(A, 3).mean(axis=-1).compute()
    array([2.33333333, 4.66666667])
    """
    if writeable:
        raise InvalidArgumentError("windows of an outcrop.Array are not written to")
    made = array_like(x)
    windows = integers(window_shape, "window_shape")
    axes = list(range(made.ndim)) if axis is None else _axes(axis, made.ndim)
    if len(windows) != len(axes):
        raise InvalidArgumentError(f"{len(windows)} extents of windows are for {len(axes)} axes")
    if min(windows, default=0) < 0:
        raise InvalidArgumentError("window_shape cannot contain negative values")
    for window, along in zip(windows, axes, strict=True):
        count = made.shape[along] - window + 1
        if count < 1:
            raise InvalidArgumentError("window shape cannot be larger than input array shape")
        if window == 0:
            shape = [count if a == along else n for a, n in enumerate(made.shape)]
            made = asarray(np.empty((*shape, 0), made.dtype))
            continue
        made = stack([_along(made, along, slice(k, k + count)) for k in range(window)], axis=-1)
    return made


class _StrideTricks:
    """What there is of `numpy.lib.stride_tricks`."""

    sliding_window_view = staticmethod(sliding_window_view)


class _Lib:
    """What there is of `numpy.lib`."""

    stride_tricks = _StrideTricks()


lib = _Lib()
"""Where NumPy, and who takes this module for it, has windows that slide."""


@overload
def gradient(f: Any, *varargs: Any, axis: int, edge_order: int = 1) -> Array: ...
@overload
def gradient(
    f: Any, *varargs: Any, axis: Sequence[int] | None = None, edge_order: int = 1
) -> Array | Any: ...
@implements(np.gradient)
def gradient(
    f: Any,
    *varargs: Any,
    axis: int | Sequence[int] | None = None,
    edge_order: int = 1,
) -> Array | tuple[Array, ...]:
    """Compute the gradient by central differences, one-sided at the ends, as `numpy.gradient` does.

    Parameters
    ----------
    f : Array
        Samples.
    *varargs : float or array_like
        The distance of samples: one for all axes, or for each axis one or its coordinates.
        Default: 1.
    axis : int or sequence of int, optional
        Along which axes. Default: all.
    edge_order : {1, 2}
        The order of accuracy at the ends.

    Returns
    -------
    Array or tuple of Array
        One for each axis, of the shape of `f`, not computed yet.

    Raises
    ------
    InvalidArgumentError, InvalidTypeError
        An axis has too few samples, coordinates are not as many as these, or there are not as many
        distances as axes.

    Examples
    --------
    >>> oc.gradient(oc.asarray([1.0, 2.0, 4.0, 7.0, 11.0])).compute()
    array([1. , 1.5, 2.5, 3.5, 4. ])
    """
    samples = array_like(f)
    axes = list(range(samples.ndim)) if axis is None else _axes(axis, samples.ndim)
    if len(set(axes)) != len(axes):
        raise InvalidArgumentError("repeated axis")
    distances = [_elements(one) for one in varargs] or [1.0]
    if len(distances) == 1 and np.ndim(distances[0]) == 0:
        distances *= len(axes)
    if len(distances) != len(axes):
        raise InvalidTypeError(f"{len(distances)} distances are given for {len(axes)} axes")
    if edge_order not in (1, 2):
        raise InvalidArgumentError("edge_order is 1 or 2")
    made = tuple(
        _differences(samples, along, _distance(one, samples.shape[along]), edge_order)
        for along, one in zip(axes, distances, strict=True)
    )
    return made[0] if len(made) == 1 else made


def _elements(given: Any) -> Any:
    """A distance, whose type a Python number has none of, or coordinates."""
    return given if isinstance(given, int | float | complex) else np.asarray(elements_of(given))[()]


def _distance(given: Any, n: int) -> Any:
    """The distance of samples: one number, or those of neighbours that are not all alike."""
    if np.ndim(given) == 0:
        return given
    if given.ndim != 1:
        raise InvalidArgumentError("distances must be either scalars or 1d")
    if len(given) != n:
        raise InvalidArgumentError(f"there are {len(given)} coordinates, and {n} samples")
    if given.dtype.kind in "iu":
        given = given.astype(np.float64)
    apart = np.diff(given)
    return apart[0] if apart.size and (apart == apart[0]).all() else apart


def _differences(f: Array, axis: int, h: Any, order: int) -> Array:
    """The gradient along an axis; names are those of NumPy's documentation."""
    n = f.shape[axis]
    if n < order + 1:
        raise InvalidArgumentError(
            "Shape of array too small to calculate a numerical gradient, at least (edge_order + 1) "
            "elements are required."
        )

    if order == 1 and np.ndim(h) == 0 and not isinstance(f._source, ComputedSource):
        return _by_neighbours(f, axis, h)
    if f.dtype.kind in "iu":
        f = f.astype(np.float64)

    def at(k: int) -> Array:
        return _along(f, axis, slice(k, k + 1 if k != -1 else None))

    before, inside, after = (_along(f, axis, slice(k, n - 2 + k)) for k in (0, 1, 2))
    shape = [1] * f.ndim
    shape[axis] = n - 2
    if np.ndim(h) == 0:
        first = last = h
        middle: Any = (after - before) / (2.0 * first)
    else:
        first, last = h[0], h[-1]
        dx1, dx2 = h[:-1].reshape(shape), h[1:].reshape(shape)
        a = -dx2 / (dx1 * (dx1 + dx2))
        b = (dx2 - dx1) / (dx1 * dx2)
        c = dx1 / (dx2 * (dx1 + dx2))
        middle = a * before + b * inside + c * after
    if order == 1:
        begin = (at(1) - at(0)) / first
        end = (at(-1) - at(-2)) / last
    else:
        begin = _one_sided([at(0), at(1), at(2)], h if np.ndim(h) == 0 else h[:2], 1.0)
        end = _one_sided([at(-1), at(-2), at(-3)], h if np.ndim(h) == 0 else h[:-3:-1], -1.0)
    kind = f.dtype
    parts = [one.astype(kind, copy=False) for one in (begin, middle, end)]
    return concat([part for part in parts if part.size or not f.size], axis=axis)


def _by_neighbours(f: Array, axis: int, h: Any) -> Array:
    """The same of stored samples, each of which is loaded once.

    The samples at both ends are neighbours of their own: a tile is one of differences, and none is
    put together from what is computed in other tiles.
    """
    n = f.shape[axis]

    def joined(*parts: slice) -> Array:
        of_them = concat([_along(f, axis, part) for part in parts], axis=axis)
        # What is converted before it is joined is put aside.
        return of_them.astype(np.float64) if f.dtype.kind in "iu" else of_them

    before, after = joined(slice(1), slice(n - 1)), joined(slice(1, n), slice(n - 1, n))
    kind = before.dtype
    dtype = np.result_type(kind, h)

    def far(count: int, value: Any) -> Array:
        return full([count if a == axis else 1 for a in range(f.ndim)], value, dtype=dtype)

    # As long as the samples are, and no array in memory therefore.
    apart = concat([far(1, h), far(n - 2, 2.0 * h), far(1, h)], axis=axis)
    made: Array = (after - before) / apart
    return made.astype(kind, copy=False)


def _one_sided(values: Sequence[Array], h: Any, sign: float) -> Array:
    """The derivative at the first of three samples, of second order."""
    if np.ndim(h) == 0:
        a, b, c = -1.5 / h, 2.0 / h, -0.5 / h
    else:
        dx1, dx2 = h[0], h[1]
        a = -(2.0 * dx1 + dx2) / (dx1 * (dx1 + dx2))
        b = (dx1 + dx2) / (dx1 * dx2)
        c = -dx1 / (dx2 * (dx1 + dx2))
    one, two, three = values
    made: Array = (sign * a) * one + (sign * b) * two + (sign * c) * three
    return made


def _along(x: Array, axis: int, part: slice) -> Array:
    return x[(slice(None),) * axis + (part,)]


def _axes(axis: int | Sequence[int], ndim: int) -> list[int]:
    return [axes_of(ndim, one)[0] for one in integers(axis, "axis")]
