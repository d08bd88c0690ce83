"""NumPy's functions that make, arrange, select and count, with its arguments, as our own."""

from typing import Any

import numpy as np

from outcrop.array_api import (
    creation_functions,
    indexing_functions,
    manipulation_functions,
    non_ufunc_functions,
    set_functions,
    splitting_functions,
)
from outcrop.array_api.dispatch import copied, placed
from outcrop.array_api.families import array_like
from outcrop.arrays.array import Array
from outcrop.arrays.computed import changes_unseen
from outcrop.arrays.creation import asarray
from outcrop.arrays.registry import implements
from outcrop.errors import InvalidArgumentError, UnsupportedError
from outcrop.expressions.build.arrays import applied, check_out, placed_in
from outcrop.reorganize import turning

__all__ = ["only_defaults", "ravel"]


def only_defaults(name: str, **options: Any) -> None:
    """Raise for options that are not NumPy's defaults, which are given here as None."""
    for option, value in options.items():
        if value is not None and value is not False:
            raise UnsupportedError(f"numpy.{name}({option}=) is not supported for an outcrop.Array")


# -- new arrays ------------------------------------------------------------------------------------

# How they would lie in memory does not matter. What makes arrays comes here by ``like=``.


@implements(np.full_like)
def _full_like(
    a: Any, fill_value: Any, dtype: Any = None, *_: Any, shape: Any = None, **__: Any
) -> Any:
    extents = a.shape if shape is None else shape
    return creation_functions.full(extents, fill_value, dtype=a.dtype if dtype is None else dtype)


@implements(np.zeros_like)
def _zeros_like(a: Any, *args: Any, **options: Any) -> Any:
    return _full_like(a, 0, *args, **options)


@implements(np.ones_like)
def _ones_like(a: Any, *args: Any, **options: Any) -> Any:
    return _full_like(a, 1, *args, **options)


@implements(np.empty_like)
def _empty_like(prototype: Any, *args: Any, **options: Any) -> Any:
    return _full_like(prototype, 0, *args, **options)


@implements(np.full)
def _full(shape: Any, fill_value: Any, dtype: Any = None, *_: Any, **__: Any) -> Any:
    return creation_functions.full(shape, fill_value, dtype=dtype)


@implements(np.empty, np.zeros)
def _zeros(shape: Any, dtype: Any = None, *_: Any, **__: Any) -> Any:
    return creation_functions.full(shape, 0, dtype=np.float64 if dtype is None else dtype)


@implements(np.ones)
def _ones(shape: Any, dtype: Any = None, *_: Any, **__: Any) -> Any:
    return creation_functions.full(shape, 1, dtype=np.float64 if dtype is None else dtype)


@implements(np.arange)
def _arange(*args: Any, device: Any = None, **options: Any) -> Any:
    return creation_functions.arange(*args, **options)


@implements(np.eye)
def _eye(N: Any, M: Any = None, k: Any = 0, dtype: Any = float, *_: Any, **__: Any) -> Any:
    return creation_functions.eye(N, M, k=k, dtype=dtype)


@implements(np.identity)
def _identity(n: Any, dtype: Any = None) -> Any:
    return creation_functions.eye(n, dtype=np.float64 if dtype is None else dtype)


@implements(np.tri)
def _tri(N: int, M: int | None = None, k: int = 0, dtype: Any = float) -> Any:
    return non_ufunc_functions.tril(
        creation_functions.full((N, N if M is None else M), 1, dtype=dtype), k=k
    )


@implements(np.asanyarray, np.asarray)
def _asarray(x: Any, dtype: Any = None, *_: Any, **__: Any) -> Any:
    return array_like(x) if dtype is None else array_like(x).astype(dtype, copy=False)


@implements(np.array)
def _array(x: Any, dtype: Any = None, *, copy: Any = True, **_: Any) -> Any:
    made = x if isinstance(x, Array) else asarray(x, copy=copy)
    if dtype is not None and made.dtype != np.dtype(dtype):
        if copy is False:
            raise InvalidArgumentError(
                f"Unable to avoid copy while creating an array as requested: {made.dtype} "
                f"is not {np.dtype(dtype)}"
            )
        made = made.astype(dtype)
    return made.copy() if copy and isinstance(x, Array) else made


# -- what arrays are -------------------------------------------------------------------------------


@implements(np.shape)
def _shape(a: Any) -> Any:
    return a.shape


@implements(np.ndim)
def _ndim(a: Any) -> Any:
    return a.ndim


@implements(np.size)
def _size(a: Any, axis: Any = None) -> Any:
    return a.size if axis is None else a.shape[axis]


@implements(np.iscomplexobj)
def _iscomplexobj(x: Any) -> Any:
    return x.dtype.kind == "c"


@implements(np.isrealobj)
def _isrealobj(x: Any) -> Any:
    return x.dtype.kind != "c"


@implements(np.common_type)
def _common_type(*arrays: Any) -> Any:
    return np.common_type(*(np.empty(1, x.dtype) if isinstance(x, Array) else x for x in arrays))


@implements(np.min_scalar_type)
def _min_scalar_type(a: Any) -> Any:
    return a.dtype if a.ndim else np.min_scalar_type(np.asarray(a))


def _in_memory(*arrays: Any) -> list[Any]:
    """The arrays as they are in memory; None for those that are not."""
    return [x._source.borrow(x._view) if isinstance(x, Array) else x for x in arrays]


# What lies on disk, or is not computed, has no memory to share.


@implements(np.shares_memory)
def _shares_memory(a: Any, b: Any, /, max_work: Any = None) -> bool:
    one, other = _in_memory(a, b)
    if one is None or other is None:
        return False
    return np.shares_memory(one, other, -1 if max_work is None else max_work)


@implements(np.may_share_memory)
def _may_share_memory(a: Any, b: Any, /, max_work: Any = None) -> bool:
    one, other = _in_memory(a, b)
    return one is not None and other is not None and np.may_share_memory(one, other, max_work or 0)


# -- functions of elements -------------------------------------------------------------------------


@implements(np.positive)
def _positive(x: Any, /, **options: Any) -> Any:
    # It is NumPy's shortest way to say copy: where changes go unnoticed, an expression is none.
    is_copy = isinstance(x, Array) and not options and x.dtype.kind in "iufc"
    return (
        copied(x) if is_copy and changes_unseen(x._source) else applied(np.positive, [x], options)
    )


@implements(np.i0)
def _i0(x: Any) -> Any:
    return non_ufunc_functions.each(np.i0, x)


@implements(np.iscomplex)
def _iscomplex(x: Any) -> Any:
    return non_ufunc_functions.each(np.iscomplex, x)


@implements(np.isreal)
def _isreal(x: Any) -> Any:
    return non_ufunc_functions.each(np.isreal, x)


@implements(np.sinc)
def _sinc(x: Any) -> Any:
    return non_ufunc_functions.each(np.sinc, x)


@implements(np.fix)
def _fix(x: Any, out: Any = None) -> Any:
    return placed(non_ufunc_functions.each(np.fix, x), out, "same_kind")


@implements(np.isneginf)
def _isneginf(x: Any, out: Any = None) -> Any:
    return placed(non_ufunc_functions.each(np.isneginf, x), out, "same_kind")


@implements(np.isposinf)
def _isposinf(x: Any, out: Any = None) -> Any:
    return placed(non_ufunc_functions.each(np.isposinf, x), out, "same_kind")


@implements(np.angle)
def _angle(z: Any, deg: Any = False) -> Any:
    return non_ufunc_functions.each(np.angle, z, deg=deg)


@implements(np.real)
def _real(val: Any) -> Any:
    return non_ufunc_functions.real(val)


@implements(np.imag)
def _imag(val: Any) -> Any:
    return non_ufunc_functions.imag(val)


@implements(np.around, np.round)
def _round(a: Any, decimals: int = 0, out: Any = None) -> Any:
    return placed(non_ufunc_functions.round(a, decimals), out, "unsafe")


@implements(np.clip)
def _clip(
    a: Any,
    a_min: Any = None,
    a_max: Any = None,
    out: Any = None,
    *,
    min: Any = None,
    max: Any = None,
    **options: Any,
) -> Any:
    if not ((a_min is None or min is None) and (a_max is None or max is None)):
        raise InvalidArgumentError("a limit is given by one name, of a_min and min, a_max and max")
    only_defaults("clip", **options)
    low, high = (min if a_min is None else a_min), (max if a_max is None else a_max)
    return placed(manipulation_functions.clip(a, low, high), out, "same_kind")


@implements(np.nan_to_num)
def _nan_to_num(x: Any, copy: bool = True, **options: Any) -> Any:
    return placed(non_ufunc_functions.nan_to_num(x, **options), None if copy else x, "same_kind")


@implements(np.where)
def _where(condition: Any, *values: Any) -> Any:
    return (
        manipulation_functions.where(condition, *values)
        if values
        else indexing_functions.nonzero(condition)
    )


@implements(np.astype)
def _astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    return x.astype(dtype, copy=copy)


@implements(np.copyto)
def _copyto(dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> None:
    check_out(dst)
    if type(src) in (int, float, complex):
        # A number takes the type of what it is written to, where NumPy's rules let it.
        src = np.asarray(src, np.result_type(dst.dtype, src))
    given = array_like(src).astype(dst.dtype, casting=casting, copy=False)
    # What stays as it was is written again.
    placed_in(
        [dst],
        [given if where is True else manipulation_functions.where(where, given, dst)],
        casting,
    )


@implements(np.isin)
def _isin(
    element: Any,
    test_elements: Any,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: Any = None,
) -> Any:
    return non_ufunc_functions.isin(element, test_elements, invert=invert)


@implements(np.isclose)
def _isclose(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: Any = False) -> Any:
    return non_ufunc_functions.isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)


@implements(np.allclose)
def _allclose(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: Any = False) -> Any:
    return non_ufunc_functions.allclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)


@implements(np.array_equal)
def _array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    one, other = array_like(a1), array_like(a2)
    if one.shape != other.shape:
        return False
    same: Any = one == other
    if equal_nan:
        # What is not itself is NaN.
        same = same | ((one != one) & (other != other))
    return bool(np.all(same))


@implements(np.array_equiv)
def _array_equiv(a1: Any, a2: Any) -> bool:
    one, other = array_like(a1), array_like(a2)
    try:
        np.broadcast_shapes(one.shape, other.shape)
    except ValueError:
        return False
    return bool(np.all(one == other))


@implements(np.searchsorted)
def _searchsorted(a: Any, v: Any, side: Any = "left", sorter: Any = None) -> Any:
    return non_ufunc_functions.searchsorted(a, v, side=side, sorter=sorter)


@implements(np.digitize)
def _digitize(x: Any, bins: Any, right: Any = False) -> Any:
    return non_ufunc_functions.digitize(x, bins, right)


@implements(np.interp)
def _interp(
    x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None
) -> Any:
    return non_ufunc_functions.interp(x, xp, fp, left, right, period)


# -- shapes and axes -------------------------------------------------------------------------------


@implements(np.reshape)
def _reshape(a: Any, /, shape: Any = None, order: str = "C", **options: Any) -> Any:
    # Its name before NumPy 2.1.
    wanted = options.pop("newshape", shape)
    only_defaults("reshape", **options)
    return manipulation_functions.reshape(a, wanted, order=order)


@implements(np.ravel)
def ravel(a: Any, order: str = "C") -> Any:
    """Give the elements in a row."""
    return _reshape(a, -1, order)


@implements(np.expand_dims)
def _expand_dims(a: Any, axis: Any) -> Any:
    return manipulation_functions.expand_dims(a, axis=axis)


@implements(np.squeeze)
def _squeeze(a: Any, axis: Any = None) -> Any:
    single = tuple(i for i, extent in enumerate(a.shape) if extent == 1)
    return manipulation_functions.squeeze(a, axis=single if axis is None else axis)


@implements(np.atleast_1d)
def _atleast_1d(*arrays: Any) -> Any:
    return _at_least(1, arrays)


@implements(np.atleast_2d)
def _atleast_2d(*arrays: Any) -> Any:
    return _at_least(2, arrays)


@implements(np.atleast_3d)
def _atleast_3d(*arrays: Any) -> Any:
    return _at_least(3, arrays)


def _at_least(ndim: int, arrays: tuple[Any, ...]) -> Any:
    made = tuple(manipulation_functions.with_axes(x, ndim) for x in arrays)
    return made[0] if len(made) == 1 else made


@implements(np.broadcast_to)
def _broadcast_to(array: Any, shape: Any) -> Any:
    return manipulation_functions.broadcast_to(array, shape)


@implements(np.broadcast_arrays)
def _broadcast_arrays(*args: Any, subok: Any = False) -> Any:
    return tuple(manipulation_functions.broadcast_arrays(*args))


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
def _flipud(m: Any) -> Any:
    return turning.flip(m, axis=0)


@implements(np.fliplr)
def _fliplr(m: Any) -> Any:
    return turning.flip(m, axis=1)


@implements(np.rot90)
def _rot90(m: Any, k: Any = 1, axes: Any = (0, 1)) -> Any:
    return turning.rotate(m, None, 90 * k, axes=axes)


@implements(np.roll)
def _roll(a: Any, shift: Any, axis: Any = None) -> Any:
    return manipulation_functions.roll(a, shift, axis=axis)


# -- joining, splitting and repeating --------------------------------------------------------------


@implements(np.concatenate)
def _concatenate(
    arrays: Any,
    axis: Any = 0,
    out: Any = None,
    *,
    dtype: Any = None,
    casting: Any = "same_kind",
) -> Any:
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
def _vstack(tup: Any, **options: Any) -> Any:
    return _stacked(tup, 2, 0, options)


@implements(np.hstack)
def _hstack(tup: Any, **options: Any) -> Any:
    return _stacked(tup, 1, 1, options)


@implements(np.dstack)
def _dstack(tup: Any, **options: Any) -> Any:
    return _stacked(tup, 3, 2, options)


def _stacked(tup: Any, ndim: int, axis: int, options: dict[str, Any]) -> Any:
    """Arrays with so many axes at least, joined along one of them."""
    arrays = [manipulation_functions.with_axes(x, ndim) for x in tup]
    # Vectors have but one axis.
    along = 0 if any(x.ndim == 1 for x in arrays) else axis
    return _concatenate(arrays, axis=along, **options)


@implements(np.column_stack)
def _column_stack(tup: Any) -> Any:
    arrays = [manipulation_functions.with_axes(x, 1) for x in tup]
    return manipulation_functions.concat([x[:, None] if x.ndim == 1 else x for x in arrays], axis=1)


@implements(np.append)
def _append(arr: Any, values: Any, axis: Any = None) -> Any:
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
def _argwhere(a: Any) -> Any:
    array = manipulation_functions.with_axes(a, 1)
    found = manipulation_functions.stack(indexing_functions.nonzero(array), axis=1)
    # Of a single element, NumPy gives no index at all, and says by their number whether it is one.
    return found if a.ndim else found[:, :0]


@implements(np.diagonal)
def _diagonal(a: Any, offset: Any = 0, axis1: Any = 0, axis2: Any = 1) -> Any:
    return indexing_functions.diagonal(a, offset=offset, axis1=axis1, axis2=axis2)


@implements(np.diag)
def _diag(v: Any, k: int = 0) -> Any:
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
def _trace(
    a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None
) -> Any:
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
