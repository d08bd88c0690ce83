"""NumPy's functions that arrange, join, split, select and count, with its arguments."""

from typing import Any, overload

import numpy as np
from numpy.typing import DTypeLike

from outcrop.array_api import (
    creation_functions,
    indexing_functions,
    manipulation_functions,
    non_ufunc_functions,
    set_functions,
    splitting_functions,
)
from outcrop.array_api.dispatch import placed
from outcrop.array_api.families import array_like
from outcrop.array_api.numpy_functions import only_defaults
from outcrop.arrays.array import Array
from outcrop.arrays.registry import implements
from outcrop.errors import InvalidArgumentError
from outcrop.reorganize import turning

__all__ = [
    "append",
    "argwhere",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "column_stack",
    "concatenate",
    "diag",
    "dstack",
    "fliplr",
    "flipud",
    "hstack",
    "ravel",
    "rot90",
    "trace",
    "vstack",
]


# -- shapes and axes -------------------------------------------------------------------------------


@implements(np.reshape)
def _reshape(a: Any, /, shape: Any = None, order: str = "C", **options: Any) -> Array:
    # Its name before NumPy 2.1.
    wanted = options.pop("newshape", shape)
    only_defaults("reshape", **options)
    return manipulation_functions.reshape(a, wanted, order=order)


@implements(np.ravel)
def ravel(a: Any, order: str = "C") -> Array:
    """Give the elements in one row, as `numpy.ravel` does.

    Examples
    --------
    >>> oc.ravel(oc.asarray([[1, 2], [3, 4]])).compute()
    array([1, 2, 3, 4])
    """
    return _reshape(a, -1, order)


@implements(np.expand_dims)
def _expand_dims(a: Any, axis: Any) -> Any:
    return manipulation_functions.expand_dims(a, axis=axis)


@implements(np.squeeze)
def _squeeze(a: Any, axis: Any = None) -> Any:
    single = tuple(i for i, extent in enumerate(a.shape) if extent == 1)
    return manipulation_functions.squeeze(a, axis=single if axis is None else axis)


@overload
def atleast_1d(array: Any, /) -> Array: ...
@overload
def atleast_1d(first: Any, second: Any, /, *arrays: Any) -> tuple[Array, ...]: ...
@implements(np.atleast_1d)
def atleast_1d(*arrays: Any) -> Array | tuple[Array, ...]:
    """Give arrays with one axis at least, as `numpy.atleast_1d` does: views.

    Examples
    --------
    >>> oc.atleast_1d(oc.asarray(3)).shape
    (1,)
    """
    return _at_least(1, arrays)


@overload
def atleast_2d(array: Any, /) -> Array: ...
@overload
def atleast_2d(first: Any, second: Any, /, *arrays: Any) -> tuple[Array, ...]: ...
@implements(np.atleast_2d)
def atleast_2d(*arrays: Any) -> Array | tuple[Array, ...]:
    """Give arrays with two axes at least, as `numpy.atleast_2d` does: views.

    Examples
    --------
    >>> oc.atleast_2d(oc.asarray([3, 4])).shape
    (1, 2)
    """
    return _at_least(2, arrays)


@overload
def atleast_3d(array: Any, /) -> Array: ...
@overload
def atleast_3d(first: Any, second: Any, /, *arrays: Any) -> tuple[Array, ...]: ...
@implements(np.atleast_3d)
def atleast_3d(*arrays: Any) -> Array | tuple[Array, ...]:
    """Give arrays with three axes at least, as `numpy.atleast_3d` does: views.

    Examples
    --------
    >>> oc.atleast_3d(oc.asarray([3, 4])).shape
    (1, 2, 1)
    """
    return _at_least(3, arrays)


def _at_least(ndim: int, arrays: tuple[Any, ...]) -> Array | tuple[Array, ...]:
    made = tuple(manipulation_functions.with_axes(x, ndim) for x in arrays)
    return made[0] if len(made) == 1 else made


@implements(np.broadcast_to)
def _broadcast_to(array: Any, shape: Any) -> Any:
    return manipulation_functions.broadcast_to(array, shape)


@implements(np.broadcast_arrays)
def _broadcast_arrays(*args: Any, subok: Any = False) -> Any:
    return manipulation_functions.broadcast_arrays(*args)


@implements(np.moveaxis)
def _moveaxis(a: Any, source: Any, destination: Any) -> Any:
    return manipulation_functions.moveaxis(a, source, destination)


@implements(np.swapaxes)
def _swapaxes(a: Any, axis1: Any, axis2: Any) -> Any:
    return manipulation_functions.swapaxes(a, axis1, axis2)


@implements(np.rollaxis)
def _rollaxis(a: Any, axis: Any, start: Any = 0) -> Any:
    return manipulation_functions.rollaxis(a, axis, start)


@implements(np.transpose)
def _transpose(a: Any, axes: Any = None) -> Any:
    return turning.transpose(a, axes=axes)


@implements(np.matrix_transpose)
def _matrix_transpose(x: Any) -> Any:
    return x.mT


@implements(np.flip)
def _flip(m: Any, axis: Any = None) -> Any:
    return turning.flip(m, axis=axis)


@implements(np.flipud)
def flipud(m: Any) -> Array:
    """Give a view with the rows in reverse order, as `numpy.flipud` does.

    Examples
    --------
    >>> oc.flipud(oc.asarray([[1, 2], [3, 4]])).compute()
    array([[3, 4],
           [1, 2]])
    """
    return turning.flip(array_like(m), axis=0)


@implements(np.fliplr)
def fliplr(m: Any) -> Array:
    """Give a view with the columns in reverse order, as `numpy.fliplr` does.

    Examples
    --------
    >>> oc.fliplr(oc.asarray([[1, 2], [3, 4]])).compute()
    array([[2, 1],
           [4, 3]])
    """
    return turning.flip(array_like(m), axis=1)


@implements(np.rot90)
def rot90(m: Any, k: Any = 1, axes: Any = (0, 1)) -> Array:
    """Give a view turned by 90 degrees, so many times, as `numpy.rot90` does.

    Examples
    --------
    >>> oc.rot90(oc.asarray([[1, 2], [3, 4]])).compute()
    array([[2, 4],
           [1, 3]])
    """
    return turning.rotate(array_like(m), None, 90 * k, axes=axes)


@implements(np.roll)
def _roll(a: Any, shift: Any, axis: Any = None) -> Any:
    return manipulation_functions.roll(a, shift, axis=axis)


# -- joining, splitting and repeating --------------------------------------------------------------


@implements(np.concatenate)
def concatenate(
    arrays: Any,
    axis: Any = 0,
    out: Array | None = None,
    *,
    dtype: Any = None,
    casting: Any = "same_kind",
) -> Array:
    """Join arrays one after the other along an axis, with NumPy's arguments; see `outcrop.concat`.

    Examples
    --------
    >>> oc.concatenate([oc.asarray([1, 2]), oc.asarray([3])], 0, dtype="float32").compute()
    array([1., 2., 3.], dtype=float32)
    """
    given = _cast(arrays, dtype, casting)
    return placed(manipulation_functions.concat(given, axis=axis), out, casting)


@implements(np.stack)
def _stack(
    arrays: Any,
    axis: Any = 0,
    out: Any = None,
    *,
    dtype: Any = None,
    casting: Any = "same_kind",
) -> Any:
    given = _cast(arrays, dtype, casting)
    return placed(manipulation_functions.stack(given, axis=axis), out, casting)


def _cast(arrays: Any, dtype: Any, casting: Any) -> Any:
    if dtype is None:
        return arrays
    return [array_like(x).astype(dtype, casting=casting, copy=False) for x in arrays]


@implements(np.vstack)
def vstack(tup: Any, **options: Any) -> Array:
    """Join arrays along the first axis, vectors as rows, as `numpy.vstack` does.

    Examples
    --------
    >>> oc.vstack([oc.asarray([1, 2]), oc.asarray([3, 4])]).compute()
    array([[1, 2],
           [3, 4]])
    """
    return _stacked(tup, 2, 0, options)


@implements(np.hstack)
def hstack(tup: Any, **options: Any) -> Array:
    """Join arrays along the second axis, vectors along their own, as `numpy.hstack` does.

    Examples
    --------
    >>> oc.hstack([oc.asarray([1, 2]), oc.asarray([3])]).compute()
    array([1, 2, 3])
    """
    return _stacked(tup, 1, 1, options)


@implements(np.dstack)
def dstack(tup: Any, **options: Any) -> Array:
    """Join arrays along the third axis, as `numpy.dstack` does.

    Examples
    --------
    >>> oc.dstack([oc.zeros((2, 3)), oc.ones((2, 3))]).shape
    (2, 3, 2)
    """
    return _stacked(tup, 3, 2, options)


def _stacked(tup: Any, ndim: int, axis: int, options: dict[str, Any]) -> Array:
    """Arrays with so many axes at least, joined along one of them."""
    arrays = [manipulation_functions.with_axes(x, ndim) for x in tup]
    # Vectors have but one axis.
    along = 0 if any(x.ndim == 1 for x in arrays) else axis
    return concatenate(arrays, axis=along, **options)


@implements(np.column_stack)
def column_stack(tup: Any) -> Array:
    """Join arrays as the columns of a matrix, as `numpy.column_stack` does.

    Examples
    --------
    >>> oc.column_stack([oc.asarray([1, 2]), oc.asarray([3, 4])]).compute()
    array([[1, 3],
           [2, 4]])
    """
    arrays = [manipulation_functions.with_axes(x, 1) for x in tup]
    return manipulation_functions.concat([x[:, None] if x.ndim == 1 else x for x in arrays], axis=1)


@implements(np.append)
def append(arr: Any, values: Any, axis: Any = None) -> Array:
    """Join an array and what comes behind it along an axis, as `numpy.append` does.

    Without an axis, the elements of both are taken in one row.

    Examples
    --------
    >>> oc.append(oc.asarray([1, 2]), [3]).compute()
    array([1, 2, 3])
    """
    return manipulation_functions.concat([array_like(arr), array_like(values)], axis=axis)


@implements(np.tile)
def _tile(A: Any, reps: Any) -> Any:
    return manipulation_functions.tile(A, reps)


@implements(np.repeat)
def _repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    return manipulation_functions.repeat(a, repeats, axis=axis)


@implements(np.pad)
def _pad(array: Any, pad_width: Any, mode: Any = "constant", **options: Any) -> Any:
    return manipulation_functions.pad(array, pad_width, mode, **options)


@implements(np.split)
def _split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> Any:
    return splitting_functions.split(ary, indices_or_sections, axis)


@implements(np.array_split)
def _array_split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> Any:
    return splitting_functions.array_split(ary, indices_or_sections, axis)


@implements(np.vsplit)
def _vsplit(ary: Any, indices_or_sections: Any) -> Any:
    return splitting_functions.split_along(ary, indices_or_sections, 0)


@implements(np.hsplit)
def _hsplit(ary: Any, indices_or_sections: Any) -> Any:
    return splitting_functions.split_along(ary, indices_or_sections, 1)


@implements(np.dsplit)
def _dsplit(ary: Any, indices_or_sections: Any) -> Any:
    return splitting_functions.split_along(ary, indices_or_sections, 2)


# Since NumPy 2.1.
if hasattr(np, "unstack"):

    @implements(np.unstack)
    def _unstack(x: Any, /, *, axis: Any = 0) -> Any:
        return splitting_functions.unstack(x, axis=axis)


# -- selecting -------------------------------------------------------------------------------------


@implements(np.take)
def _take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Any:
    only_defaults("take", out=out, mode=None if mode == "raise" else mode)
    return indexing_functions.take(a, indices, axis=axis)


@implements(np.take_along_axis)
def _take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Any:
    if axis is None:
        return indexing_functions.take_along_axis(ravel(arr), indices, axis=0)
    return indexing_functions.take_along_axis(arr, indices, axis=axis)


@implements(np.compress)
def _compress(condition: Any, a: Any, axis: Any = None, out: Any = None) -> Any:
    only_defaults("compress", out=out)
    return indexing_functions.compress(condition, a, axis=axis)


@implements(np.extract)
def _extract(condition: Any, arr: Any) -> Any:
    return indexing_functions.extract(condition, arr)


@implements(np.nonzero)
def _nonzero(a: Any) -> Any:
    return indexing_functions.nonzero(a)


@implements(np.flatnonzero)
def _flatnonzero(a: Any) -> Any:
    return indexing_functions.flatnonzero(a)


@implements(np.argwhere)
def argwhere(a: Any) -> Array:
    """Give the indices of the elements that are not zero, a row of each, as `numpy.argwhere` does.

    Examples
    --------
    >>> oc.argwhere(oc.asarray([[0, 3], [4, 0]])).compute()
    array([[0, 1],
           [1, 0]])
    """
    array = manipulation_functions.with_axes(a, 1)
    found = manipulation_functions.stack(indexing_functions.nonzero(array), axis=1)
    # Of a single element, NumPy gives no index at all, and says by their number whether it is one.
    return found if np.ndim(a) else found[:, :0]


@implements(np.diagonal)
def _diagonal(a: Any, offset: Any = 0, axis1: Any = 0, axis2: Any = 1) -> Any:
    return indexing_functions.diagonal(a, offset=offset, axis1=axis1, axis2=axis2)


@implements(np.diag)
def diag(v: Any, k: int = 0) -> Array:
    """Give the diagonal of a matrix, or a matrix with a vector on its diagonal, as `numpy.diag`.

    Examples
    --------
    >>> oc.diag(oc.asarray([1, 2])).compute()
    array([[1, 0],
           [0, 2]])
    """
    v = array_like(v)
    if v.ndim != 1:
        if v.ndim != 2:
            raise InvalidArgumentError("Input must be 1- or 2-d.")
        return indexing_functions.diagonal(v, offset=k)
    extent = v.shape[0] + abs(k)
    on = creation_functions.eye(extent, k=k, dtype=bool)
    # The elements follow one another along rows where the diagonal begins in the first row.
    given = manipulation_functions.pad(v, (0, abs(k)))
    return manipulation_functions.where(
        on, given[:, None] if k >= 0 else given, np.zeros((), v.dtype)
    )


@implements(np.trace)
def trace(
    a: Any,
    offset: int = 0,
    axis1: int = 0,
    axis2: int = 1,
    dtype: DTypeLike | None = None,
    out: Array | None = None,
) -> Array:
    """Sum a diagonal, as `numpy.trace` does.

    Examples
    --------
    >>> oc.trace(oc.asarray([[1, 2], [3, 4]])).compute()
    array(5)
    """
    found = indexing_functions.diagonal(a, offset=offset, axis1=axis1, axis2=axis2)
    return placed(found.sum(-1, dtype=dtype), out, "same_kind")


@implements(np.tril)
def _tril(m: Any, k: Any = 0) -> Any:
    return non_ufunc_functions.tril(m, k=k)


@implements(np.triu)
def _triu(m: Any, k: Any = 0) -> Any:
    return non_ufunc_functions.triu(m, k=k)


# -- counting --------------------------------------------------------------------------------------


@implements(np.histogram)
def _histogram(
    a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> Any:
    return set_functions.histogram(a, bins, range, density, weights)


@implements(np.bincount)
def _bincount(x: Any, /, weights: Any = None, minlength: Any = 0) -> Any:
    return set_functions.bincount(x, weights, minlength)
