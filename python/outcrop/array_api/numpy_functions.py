"""NumPy's functions that arrange, select and multiply, as our own."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from outcrop.array_api import creation_functions as constants
from outcrop.array_api import indexing_functions as selection
from outcrop.array_api import manipulation_functions as arrangement
from outcrop.array_api import manipulation_functions as manipulation
from outcrop.array_api import non_ufunc_functions as elements
from outcrop.array_api import set_functions as counting
from outcrop.array_api.families import array_like
from outcrop.arrays.array import Array
from outcrop.errors import InvalidArgumentError, UnsupportedError
from outcrop.expressions.build.arrays import check_out, placed_in
from outcrop.linalg import products
from outcrop.linalg.norms import norm
from outcrop.reorganize import turning as reorganize

__all__ = ["names"]


def _plain(name: str, **options: Any) -> None:
    """Raise for options that are not NumPy's defaults, which are given here as None."""
    for option, value in options.items():
        if value is not None and value is not False:
            raise UnsupportedError(f"numpy.{name}({option}=) is not supported for an outcrop.Array")


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
    _plain("clip", **options)
    low, high = (min if a_min is None else a_min), (max if a_max is None else a_max)
    return _placed(manipulation.clip(a, low, high), out, "same_kind")


def _joining(own: Callable[..., Array]) -> Callable[..., Any]:
    def function(
        arrays: Any,
        axis: Any = 0,
        out: Any = None,
        *,
        dtype: Any = None,
        casting: Any = "same_kind",
    ) -> Any:
        if dtype is not None:
            arrays = [array_like(x).astype(dtype, casting=casting, copy=False) for x in arrays]
        return _placed(own(arrays, axis=axis), out, casting)

    return function


def _where(condition: Any, *values: Any) -> Any:
    return manipulation.where(condition, *values) if values else selection.nonzero(condition)


def _squeeze(a: Any, axis: Any = None) -> Any:
    single = tuple(i for i, extent in enumerate(a.shape) if extent == 1)
    return manipulation.squeeze(a, axis=single if axis is None else axis)


def _placed(result: Any, out: Any, casting: Any) -> Any:
    if out is None:
        return result
    check_out(out)
    if out.shape != result.shape:
        raise InvalidArgumentError(
            f"out= has the shape {out.shape}, and the result has {result.shape}"
        )
    return placed_in([out], [result], casting)[0]


def _copyto(dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> None:
    check_out(dst)
    if type(src) in (int, float, complex):
        # A number takes the type of what it is written to, where NumPy's rules let it.
        src = np.asarray(src, np.result_type(dst.dtype, src))
    given = array_like(src).astype(dst.dtype, casting=casting, copy=False)
    # What stays as it was is written again.
    placed_in([dst], [given if where is True else manipulation.where(where, given, dst)], casting)


def _full_like(
    a: Any, fill_value: Any, dtype: Any = None, *_: Any, shape: Any = None, **__: Any
) -> Any:
    # How it would lie in memory does not matter.
    extents = a.shape if shape is None else shape
    return constants.full(extents, fill_value, dtype=a.dtype if dtype is None else dtype)


def _stacking(ndim: int, axis: int) -> Callable[..., Any]:
    """Arrays with so many axes at least, joined along one of them."""
    join = _joining(manipulation.concat)

    def function(tup: Any, **options: Any) -> Any:
        arrays = [arrangement.with_axes(x, ndim) for x in tup]
        # Vectors have but one axis.
        along = 0 if any(x.ndim == 1 for x in arrays) else axis
        return join(arrays, axis=along, **options)

    return function


def _column_stack(tup: Any) -> Any:
    arrays = [arrangement.with_axes(x, 1) for x in tup]
    return manipulation.concat([x[:, None] if x.ndim == 1 else x for x in arrays], axis=1)


def _append(arr: Any, values: Any, axis: Any = None) -> Any:
    return manipulation.concat([array_like(arr), array_like(values)], axis=axis)


def _result_type(*arrays_and_dtypes: Any) -> Any:
    return np.result_type(*(x.dtype if isinstance(x, Array) else x for x in arrays_and_dtypes))


def _reshape(a: Any, /, shape: Any = None, order: str = "C", **options: Any) -> Any:
    # Its name before NumPy 2.1.
    wanted = options.pop("newshape", shape)
    _plain("reshape", **options)
    return arrangement.reshape(a, wanted, order=order)


def _ravel(a: Any, order: str = "C") -> Any:
    return _reshape(a, -1, order)


def _at_least(ndim: int) -> Callable[..., Any]:
    def function(*arrays: Any) -> Any:
        made = tuple(arrangement.with_axes(x, ndim) for x in arrays)
        return made[0] if len(made) == 1 else made

    return function


def _einsum(subscripts: Any, *operands: Any, optimize: Any = None, **options: Any) -> Any:
    if not isinstance(subscripts, str):
        raise UnsupportedError("numpy.einsum of an outcrop.Array takes its subscripts as a string")
    _plain("einsum", **options)
    # The order of the products is our own in any case.
    return products.einsum(subscripts, *operands)


def _dot(a: Any, b: Any, out: Any = None) -> Any:
    _plain("dot", out=out)
    return products.dot(a, b)


def _outer(a: Any, b: Any, out: Any = None) -> Any:
    _plain("outer", out=out)
    one, other = (arrangement.reshape(x, -1) for x in (a, b))
    return products.outer(one, other)


def _take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Any:
    _plain("take", out=out, mode=None if mode == "raise" else mode)
    return selection.take(a, indices, axis=axis)


def _compress(condition: Any, a: Any, axis: Any = None, out: Any = None) -> Any:
    _plain("compress", out=out)
    return selection.compress(condition, a, axis=axis)


def _each(theirs: Callable[..., Any]) -> Callable[..., Any]:
    def function(x: Any, out: Any = None, **options: Any) -> Any:
        return _placed(elements.each(theirs, x, **options), out, "same_kind")

    return function


def _array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    one, other = array_like(a1), array_like(a2)
    if one.shape != other.shape:
        return False
    same: Any = one == other
    if equal_nan:
        # What is not itself is NaN.
        same = same | ((one != one) & (other != other))
    return bool(np.all(same))


def _round(a: Any, decimals: int = 0, out: Any = None) -> Any:
    return _placed(elements.round(a, decimals), out, "unsafe")


def _nan_to_num(x: Any, copy: bool = True, **options: Any) -> Any:
    return _placed(elements.nan_to_num(x, **options), None if copy else x, "same_kind")


def _isin(
    element: Any,
    test_elements: Any,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: Any = None,
) -> Any:
    return elements.isin(element, test_elements, invert=invert)


def _close(own: Callable[..., Any]) -> Callable[..., Any]:
    def function(
        a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False
    ) -> Any:
        return own(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)

    return function


def _trace(
    a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None
) -> Any:
    found = selection.diagonal(a, offset=offset, axis1=axis1, axis2=axis2)
    return _placed(found.sum(-1, dtype=dtype), out, "same_kind")


def _diag(v: Any, k: int = 0) -> Any:
    if v.ndim != 1:
        if v.ndim != 2:
            raise InvalidArgumentError("Input must be 1- or 2-d.")
        return selection.diagonal(v, offset=k)
    extent = v.shape[0] + abs(k)
    on = constants.eye(extent, k=k, dtype=bool)
    # The elements follow one another along rows where the diagonal begins in the first row.
    given = arrangement.pad(v, (0, abs(k)))
    return manipulation.where(on, given[:, None] if k >= 0 else given, np.zeros((), v.dtype))


def _argwhere(a: Any) -> Any:
    array = arrangement.with_axes(a, 1)
    found = manipulation.stack(selection.nonzero(array), axis=1)
    # Of a single element, NumPy gives no index at all, and says by their number whether it is one.
    return found if a.ndim else found[:, :0]


def _cholesky(a: Any, /, *, upper: bool = False) -> Any:
    from outcrop.arrays.dispatch import in_memory
    from outcrop.linalg import cholesky

    if a.ndim == 2:
        return cholesky(a, upper=upper)
    return in_memory(np.linalg.cholesky, (a,), {"upper": upper})


def _multi_dot(arrays: Any, *, out: Any = None) -> Any:
    """The product of some matrices, in the order that has the fewest multiplications."""
    given = [array_like(x) for x in arrays]
    if len(given) < 2:
        raise InvalidArgumentError("numpy.linalg.multi_dot: at least two arrays are wanted")
    extents = [x.shape[0] if x.ndim == 2 else 1 for x in given[:1]]
    extents += [x.shape[0] for x in given[1:]]
    extents += [given[-1].shape[1] if given[-1].ndim == 2 else 1]

    @cache
    def best(first: int, end: int) -> tuple[int, int]:
        """How many multiplications there are, and where the last product is."""
        if end - first == 1:
            return 0, first
        return min(
            (
                best(first, cut)[0]
                + best(cut, end)[0]
                + extents[first] * extents[cut] * extents[end],
                cut,
            )
            for cut in range(first + 1, end)
        )

    def product(first: int, end: int) -> Any:
        if end - first == 1:
            return given[first]
        cut = best(first, end)[1]
        return product(first, cut) @ product(cut, end)

    return _placed(product(0, len(given)), out, "same_kind")


def _vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    array = array_like(x)
    if axis is None:
        found = norm(_ravel(array), ord, 0)
        return arrangement.reshape(found, (1,) * array.ndim) if keepdims else found
    if isinstance(axis, tuple):
        # The others stay in front.
        axes = tuple(i % array.ndim for i in axis)
        rest = tuple(i for i in range(array.ndim) if i not in axes)
        moved = reorganize.transpose(array, axes=rest + axes)
        extents = tuple(array.shape[i] for i in rest)
        found = norm(arrangement.reshape(moved, (*extents, -1)), ord, -1)
        kept = tuple(1 if i in axes else e for i, e in enumerate(array.shape))
        return arrangement.reshape(found, kept) if keepdims else found
    return norm(array, ord, axis, keepdims)


def _shared(which: Callable[..., bool]) -> Callable[..., Any]:
    def function(a: Any, b: Any, /, max_work: Any = None) -> bool:
        memory = [x._source.borrow(x._view) if isinstance(x, Array) else x for x in (a, b)]
        # What lies on disk, or is not computed, has no memory to share.
        return all(x is not None for x in memory) and which(*memory, max_work)

    return function


def _by_type(which: Callable[..., Any]) -> Callable[..., Any]:
    """A function that asks for the types of arrays only."""

    def function(*args: Any, **options: Any) -> Any:
        return which(
            *(np.empty(1, x.dtype) if isinstance(x, Array) else x for x in args), **options
        )

    return function


def _can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    given, wanted = (x.dtype if isinstance(x, Array) else x for x in (from_, to))
    return np.can_cast(given, wanted, casting)


def _array_equiv(a1: Any, a2: Any) -> bool:
    one, other = array_like(a1), array_like(a2)
    try:
        np.broadcast_shapes(one.shape, other.shape)
    except ValueError:
        return False
    return bool(np.all(one == other))


def _astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    return x.astype(dtype, copy=copy)


def _filled(value: int) -> Callable[..., Any]:
    """`numpy.zeros` and the like with ``like=``; how it would lie in memory does not matter."""
    return lambda shape, dtype=None, *_, **__: constants.full(
        shape, value, dtype=np.float64 if dtype is None else dtype
    )


def _tri(N: int, M: int | None = None, k: int = 0, dtype: Any = float) -> Any:
    return elements.tril(constants.full((N, N if M is None else M), 1, dtype=dtype), k=k)


def _as_array(x: Any, dtype: Any = None, *_: Any, **__: Any) -> Any:
    return array_like(x) if dtype is None else array_like(x).astype(dtype)


def _like() -> dict[Callable[..., Any], Callable[..., Any]]:
    """What makes arrays, and comes here by ``like=``."""
    return {
        np.arange: lambda *args, device=None, **options: constants.arange(*args, **options),
        np.array: lambda x, dtype=None, **_: _as_array(
            x if isinstance(x, Array) else np.array(x), dtype
        ),
        np.asanyarray: _as_array,
        np.asarray: _as_array,
        np.empty: _filled(0),
        np.eye: lambda N, M=None, k=0, dtype=float, *_, **__: constants.eye(N, M, k=k, dtype=dtype),
        np.full: lambda shape, fill_value, dtype=None, *_, **__: constants.full(
            shape, fill_value, dtype=dtype
        ),
        np.identity: lambda n, dtype=None: constants.eye(
            n, dtype=np.float64 if dtype is None else dtype
        ),
        np.ones: _filled(1),
        np.tri: _tri,
        np.zeros: _filled(0),
    }


def _algebra() -> dict[Callable[..., Any], Callable[..., Any]]:
    return {
        np.array_equiv: _array_equiv,
        np.astype: _astype,
        np.can_cast: _can_cast,
        np.common_type: _by_type(np.common_type),
        np.linalg.cholesky: _cholesky,
        np.linalg.matmul: lambda x1, x2, /: np.matmul(x1, x2),
        np.linalg.matrix_norm: lambda x, /, *, keepdims=False, ord="fro": norm(
            x, ord, (-2, -1), keepdims
        ),
        np.linalg.multi_dot: _multi_dot,
        np.linalg.tensordot: lambda x1, x2, /, *, axes=2: products.tensordot(x1, x2, axes=axes),
        np.linalg.vecdot: lambda x1, x2, /, *, axis=-1: products.vecdot(x1, x2, axis=axis),
        np.linalg.vector_norm: _vector_norm,
        np.may_share_memory: _shared(lambda a, b, work: np.may_share_memory(a, b, work or 0)),
        np.min_scalar_type: lambda a: a.dtype if a.ndim else np.min_scalar_type(np.asarray(a)),
        np.shares_memory: _shared(
            lambda a, b, work: np.shares_memory(a, b, -1 if work is None else work)
        ),
        np.unique_counts: counting.unique_counts,
        np.unique_values: counting.unique_values,
    }


def names() -> dict[Callable[..., Any], Callable[..., Any]]:
    """Which function of our own stands for which one of NumPy's."""
    found: dict[Callable[..., Any], Callable[..., Any]] = {
        np.where: _where,
        np.squeeze: _squeeze,
        np.clip: _clip,
        np.concatenate: _joining(manipulation.concat),
        np.stack: _joining(manipulation.stack),
        np.copyto: _copyto,
        np.full_like: _full_like,
        np.zeros_like: lambda a, *args, **options: _full_like(a, 0, *args, **options),
        np.ones_like: lambda a, *args, **options: _full_like(a, 1, *args, **options),
        np.vstack: _stacking(2, 0),
        np.hstack: _stacking(1, 1),
        np.dstack: _stacking(3, 2),
        np.column_stack: _column_stack,
        np.append: _append,
        np.flipud: lambda m: reorganize.flip(m, axis=0),
        np.fliplr: lambda m: reorganize.flip(m, axis=1),
        np.matrix_transpose: lambda x: x.mT,
        np.linalg.matrix_transpose: lambda x: x.mT,
        np.result_type: _result_type,
        np.iscomplexobj: lambda x: x.dtype.kind == "c",
        np.isrealobj: lambda x: x.dtype.kind != "c",
        np.reshape: _reshape,
        np.ravel: _ravel,
        np.moveaxis: lambda a, source, destination: arrangement.moveaxis(a, source, destination),
        np.swapaxes: lambda a, axis1, axis2: arrangement.swapaxes(a, axis1, axis2),
        np.rollaxis: lambda a, axis, start=0: arrangement.rollaxis(a, axis, start),
        np.atleast_1d: _at_least(1),
        np.atleast_2d: _at_least(2),
        np.atleast_3d: _at_least(3),
        np.broadcast_arrays: lambda *args, subok=False: tuple(arrangement.broadcast_arrays(*args)),
        np.roll: lambda a, shift, axis=None: arrangement.roll(a, shift, axis=axis),
        np.tile: lambda A, reps: arrangement.tile(A, reps),
        np.repeat: lambda a, repeats, axis=None: arrangement.repeat(a, repeats, axis=axis),
        np.pad: lambda array, pad_width, mode="constant", **options: arrangement.pad(
            array, pad_width, mode, **options
        ),
        np.split: lambda ary, parts, axis=0: arrangement.split(ary, parts, axis),
        np.array_split: lambda ary, parts, axis=0: arrangement.array_split(ary, parts, axis),
        np.vsplit: lambda ary, parts: arrangement.split_along(ary, parts, 0),
        np.hsplit: lambda ary, parts: arrangement.split_along(ary, parts, 1),
        np.dsplit: lambda ary, parts: arrangement.split_along(ary, parts, 2),
        np.angle: lambda z, deg=False: elements.each(np.angle, z, deg=deg),
        np.array_equal: _array_equal,
        np.empty_like: lambda prototype, *args, **options: _full_like(
            prototype, 0, *args, **options
        ),
        np.round: _round,
        np.around: _round,
        np.real: lambda val: elements.real(val),
        np.imag: lambda val: elements.imag(val),
        np.nan_to_num: _nan_to_num,
        np.isclose: _close(elements.isclose),
        np.allclose: _close(elements.allclose),
        np.tril: lambda m, k=0: elements.tril(m, k=k),
        np.triu: lambda m, k=0: elements.triu(m, k=k),
        np.isin: _isin,
        np.searchsorted: lambda a, v, side="left", sorter=None: elements.searchsorted(
            a, v, side=side, sorter=sorter
        ),
        np.digitize: lambda x, bins, right=False: elements.digitize(x, bins, right),
        np.interp: lambda x, xp, fp, left=None, right=None, period=None: elements.interp(
            x, xp, fp, left, right, period
        ),
        np.histogram: lambda a, bins=10, range=None, density=None, weights=None: counting.histogram(
            a, bins, range, density, weights
        ),
        np.bincount: lambda x, /, weights=None, minlength=0: counting.bincount(
            x, weights, minlength
        ),
        np.unique: counting.unique,
        np.vdot: lambda a, b, /: products.vecdot(_ravel(a), _ravel(b)),
        np.linalg.norm: lambda x, ord=None, axis=None, keepdims=False: norm(x, ord, axis, keepdims),
        np.take: _take,
        np.compress: _compress,
        np.extract: lambda condition, arr: selection.extract(condition, arr),
        np.nonzero: lambda a: selection.nonzero(a),
        np.flatnonzero: lambda a: selection.flatnonzero(a),
        np.argwhere: _argwhere,
        np.diagonal: lambda a, offset=0, axis1=0, axis2=1: selection.diagonal(
            a, offset=offset, axis1=axis1, axis2=axis2
        ),
        np.linalg.diagonal: lambda x, /, *, offset=0: selection.diagonal(
            x, offset=offset, axis1=-2, axis2=-1
        ),
        np.trace: _trace,
        np.linalg.trace: lambda x, /, *, offset=0, dtype=None: _trace(x, offset, -2, -1, dtype),
        np.diag: _diag,
        np.einsum: _einsum,
        np.tensordot: lambda a, b, axes=2: products.tensordot(a, b, axes=axes),
        np.outer: _outer,
        np.linalg.outer: lambda x1, x2: products.outer(x1, x2),
        np.dot: _dot,
        np.inner: lambda a, b: products.inner(a, b),
    }
    elementwise = (np.fix, np.i0, np.iscomplex, np.isneginf, np.isposinf, np.isreal, np.sinc)
    found |= {function: _each(function) for function in elementwise}
    if hasattr(np, "unstack"):
        found[np.unstack] = lambda x, axis=0: arrangement.unstack(x, axis=axis)
    return found | _algebra() | _like()
