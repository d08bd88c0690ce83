"""NumPy's functions that make arrays, and of elements, with its arguments, as our own."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from outcrop.array_api import (
    creation_functions,
    indexing_functions,
    manipulation_functions,
    non_ufunc_functions,
)
from outcrop.array_api.dispatch import copied, placed
from outcrop.array_api.families import array_like
from outcrop.arrays.array import Array
from outcrop.arrays.computed import changes_unseen
from outcrop.arrays.creation import asarray
from outcrop.arrays.registry import implements
from outcrop.errors import InvalidArgumentError, UnsupportedError
from outcrop.expressions.build.arrays import applied, check_out, placed_in

__all__ = ["array", "array_equal", "identity", "only_defaults"]


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
def identity(n: int, dtype: DTypeLike | None = None) -> Array:
    """Describe a square matrix of ones on the diagonal, and zeros elsewhere.

    Examples
    --------
    >>> oc.identity(2).compute()
    array([[1., 0.],
           [0., 1.]])
    """
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
def array(
    x: Any,
    dtype: DTypeLike | None = None,
    *,
    copy: bool | None = True,
    ndmin: int = 0,
    **_: Any,
) -> Array:
    """Make an array in memory, or of an `Array` a copy, as `numpy.array` does.

    Parameters
    ----------
    x : Array or array_like
        What `outcrop.asarray` takes.
    dtype : dtype_like, optional
        Default: that of `x`.
    copy : bool, optional
        True: the elements are copied, so that nobody else can change them; of what is not in
        memory, see `Array.copy`. False: it is an error where a copy is needed. None: they are
        copied where they have to be, which is what `outcrop.asarray` does.
    ndmin : int
        How many axes there are at least; new ones come first.

    Examples
    --------
    >>> oc.array([1, 2], dtype="float32").compute()
    array([1., 2.], dtype=float32)
    >>> oc.array([1, 2], ndmin=2).shape
    (1, 2)
    """
    made = x if isinstance(x, Array) else asarray(x, copy=copy)
    if dtype is not None and made.dtype != np.dtype(dtype):
        if copy is False:
            raise InvalidArgumentError(
                f"Unable to avoid copy while creating an array as requested: {made.dtype} "
                f"is not {np.dtype(dtype)}"
            )
        made = made.astype(dtype)
    made = made.copy() if copy and isinstance(x, Array) else made
    return made[(None,) * (ndmin - made.ndim)] if made.ndim < ndmin else made


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
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    """Whether shapes and all elements are equal, as `numpy.array_equal` says. It computes.

    Examples
    --------
    >>> oc.array_equal(oc.arange(3), [0, 1, 2])
    True
    """
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
