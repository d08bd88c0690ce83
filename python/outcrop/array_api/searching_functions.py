"""Where elements are, and how many, by the names of the Python array API standard, and NumPy's."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from outcrop.array_api.families import array_like
from outcrop.arrays.array import Array
from outcrop.expressions.build import reductions

__all__ = ["argmax", "argmin", "count_nonzero", "nanargmax", "nanargmin"]

Axis = int | Sequence[int] | None


def count_nonzero(x: Array, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """Count the elements over axes that are not zero.

    Examples
    --------
    >>> int(oc.count_nonzero(oc.asarray([0, 3, 0])))
    1
    """
    return reductions.reduced(
        np.add, array_like(x).astype(bool, copy=False), axis, np.intp, keepdims
    )


class _Place(NamedTuple):
    least: bool
    skips_nan: bool = False


def _place(of: _Place, x: Array, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """Do what `argmax`, `argmin`, `nanargmax` and `nanargmin` have in common."""
    return reductions.arg_extreme(array_like(x), axis, keepdims, of.least, of.skips_nan)


def argmax(
    x: Array,
    /,
    *,
    axis: int | None = None,
    keepdims: bool = False,
) -> Array:
    """Find the indices of the largest elements, or of the first NaN, as `numpy.argmax` does.

    Of equal ones, it is the first.

    Parameters
    ----------
    x : Array
        Numbers.
    axis : int, optional
        Along which axis. Default: indices into the flattened array.
    keepdims : bool
        Whether the axis, or all of them, stay, with length 1.

    Returns
    -------
    Array
        Of ``numpy.intp``, not computed yet.

    Raises
    ------
    InvalidArgumentError
        Of no elements; and, when it is computed, of none but NaN where that is skipped.

    Examples
    --------
    >>> int(oc.argmax(oc.asarray([[3, 7], [7, 1]])))
    1
    """
    return _place(_Place(least=False), x, axis=axis, keepdims=keepdims)


def argmin(
    x: Array,
    /,
    *,
    axis: int | None = None,
    keepdims: bool = False,
) -> Array:
    """Find the indices of the smallest elements, or of the first NaN, as `numpy.argmin` does.

    Of equal ones, it is the first.

    Parameters
    ----------
    x : Array
        Numbers.
    axis : int, optional
        Along which axis. Default: indices into the flattened array.
    keepdims : bool
        Whether the axis, or all of them, stay, with length 1.

    Returns
    -------
    Array
        Of ``numpy.intp``, not computed yet.

    Raises
    ------
    InvalidArgumentError
        Of no elements; and, when it is computed, of none but NaN where that is skipped.

    Examples
    --------
    >>> oc.argmin(oc.asarray([[3, 7], [7, 1]]), axis=1).compute()
    array([0, 1])
    """
    return _place(_Place(least=True), x, axis=axis, keepdims=keepdims)


def nanargmax(
    x: Array,
    /,
    *,
    axis: int | None = None,
    keepdims: bool = False,
) -> Array:
    """Find the indices of the largest elements but for NaN, as `numpy.nanargmax` does.

    Of equal ones, it is the first.

    Parameters
    ----------
    x : Array
        Numbers.
    axis : int, optional
        Along which axis. Default: indices into the flattened array.
    keepdims : bool
        Whether the axis, or all of them, stay, with length 1.

    Returns
    -------
    Array
        Of ``numpy.intp``, not computed yet.

    Raises
    ------
    InvalidArgumentError
        Of no elements; and, when it is computed, of none but NaN where that is skipped.

    Examples
    --------
    >>> int(oc.nanargmax(oc.asarray([1, np.nan, 3])))
    2
    """
    return _place(_Place(least=False, skips_nan=True), x, axis=axis, keepdims=keepdims)


def nanargmin(
    x: Array,
    /,
    *,
    axis: int | None = None,
    keepdims: bool = False,
) -> Array:
    """Find the indices of the smallest elements but for NaN, as `numpy.nanargmin` does.

    Of equal ones, it is the first.

    Parameters
    ----------
    x : Array
        Numbers.
    axis : int, optional
        Along which axis. Default: indices into the flattened array.
    keepdims : bool
        Whether the axis, or all of them, stay, with length 1.

    Returns
    -------
    Array
        Of ``numpy.intp``, not computed yet.

    Raises
    ------
    InvalidArgumentError
        Of no elements; and, when it is computed, of none but NaN where that is skipped.

    Examples
    --------
    >>> int(oc.nanargmin(oc.asarray([np.nan, 2, 3])))
    1
    """
    return _place(_Place(least=True, skips_nan=True), x, axis=axis, keepdims=keepdims)
