"""Our arrays among those that xarray computes in chunks.

xarray asks whoever it takes for an array's *chunk manager* for what NumPy's functions do not do:
computing several arrays, storing them, applying functions block by block.
"""

import functools
import inspect
import math
import re
from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xarray.namedarray.parallelcompat import ChunkManagerEntrypoint

from outcrop.array_api.creation_functions import full
from outcrop.array_api.manipulation_functions import (
    broadcast_to,
    concat,
    expand_dims,
    reshape,
)
from outcrop.array_api.manipulation_functions import map as mapped
from outcrop.arrays import hooks
from outcrop.arrays.array import Array
from outcrop.arrays.chunking import Chunks, normalized_chunks, regular_chunks
from outcrop.arrays.creation import asarray
from outcrop.arrays.source import default_tile
from outcrop.checks import has_type
from outcrop.errors import InvalidArgumentError, UnsupportedError
from outcrop.expressions.build.lines import of_lines
from outcrop.expressions.build.saving import compute
from outcrop.process.config import piece_limit
from outcrop.xarray_plugin.storing import store

__all__ = ["OutcropManager"]

_AT_ONCE = 64 << 20
"""Bytes of elements of types that we do not have that are computed at once, in memory."""


class OutcropManager(ChunkManagerEntrypoint[Any]):
    """How xarray works with arrays of ours: ``chunked_array_type="outcrop"``."""

    def __init__(self) -> None:
        self.array_cls = Array

    def chunks(self, data: Array) -> Chunks:
        return data.chunks

    def normalize_chunks(
        self,
        chunks: Any,
        shape: tuple[int, ...] | None = None,
        limit: int | None = None,
        dtype: Any = None,
        previous_chunks: Any = None,
    ) -> Chunks:
        kind = np.dtype("float64" if dtype is None or not has_type(np.dtype(dtype)) else dtype)
        if shape is None:
            shape = tuple(sum(extents) for extents in chunks)
        if previous_chunks is not None:
            # xarray has either here: one extent for each axis, or all of them.
            given = zip(previous_chunks, shape, strict=True)
            previous_chunks = tuple(
                one if isinstance(one, tuple) else regular_chunks((n,), (one,))[0]
                for one, n in given
            )
        return normalized_chunks(chunks, shape, kind, limit=limit, previous=previous_chunks)

    def get_auto_chunk_size(self) -> int:
        shape = (1 << 20, 1 << 20)
        return math.prod(default_tile(shape, np.dtype("float64"))) * 8

    def from_array(self, data: Any, chunks: Any, **kwargs: Any) -> Any:
        """Give an array of ours; what we have no type for, such as text, in memory."""
        if not has_type(data.dtype):
            return _at_once(np.asarray, [data], data.dtype)
        return self.rechunk(data if isinstance(data, Array) else asarray(data), chunks)

    def rechunk(self, data: Array, chunks: Any, **kwargs: Any) -> Array:
        # In which parts it is computed is planned; this is what it is stored in.
        made = Array(data._source, data._view)
        made._chunks = normalized_chunks(chunks, data.shape, data.dtype, previous=data.chunks)
        return made

    def compute(self, *data: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Compute all that are ours by one plan; the others stay as they are."""
        elements = iter(compute(*(one for one in data if isinstance(one, Array))))
        return tuple(next(elements) if isinstance(one, Array) else one for one in data)

    def persist(self, *data: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Compute what is not yet: to memory where it is small, or to the scratch directory."""
        return tuple(hooks.materialized(one) if isinstance(one, Array) else one for one in data)

    @property
    def array_api(self) -> Any:
        """What xarray makes constant arrays by."""
        return SimpleNamespace(full=_full)

    def store(self, sources: Array | Sequence[Array], targets: Any, **kwargs: Any) -> Any:
        """Write arrays to what xarray has made for them, by one plan where that is Zarr on disk.

        ``regions=`` says which part of each is written, ``compute=False`` that it is not done yet.
        """
        if isinstance(sources, Array):
            sources, targets = [sources], [targets]
        regions = kwargs.get("regions")
        where = regions if isinstance(regions, Sequence) else [None] * len(sources)
        if kwargs.get("compute", True):
            return store(sources, targets, where)
        # Imported late: it is xarray that asks for something of Dask's.
        from dask.delayed import delayed

        return delayed(store)(sources, targets, where)

    def map_blocks(
        self,
        func: Callable[..., Any],
        *args: Any,
        dtype: Any = None,
        chunks: Any = None,
        drop_axis: Any = None,
        new_axis: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Apply a function of blocks, whose elements depend on those of their own places alone."""
        if chunks is not None or drop_axis is not None or new_axis is not None:
            raise UnsupportedError(
                "map_blocks with chunks=, drop_axis= or new_axis=: where blocks begin and end is "
                "planned; apply_ufunc with dask='parallelized' has whole axes"
            )
        function = functools.partial(func, **kwargs) if kwargs else func
        arrays = [one if isinstance(one, Array) else np.asarray(one) for one in args]
        kind = None if dtype is None else np.dtype(dtype)
        if kind is not None and not has_type(kind):
            return _at_once(function, arrays, kind)
        return mapped(_named(function), *arrays, dtype=kind)

    def apply_gufunc(
        self,
        func: Callable[..., Any],
        signature: str,
        *args: Any,
        axes: Any = None,
        keepdims: bool = False,
        output_dtypes: Any = None,
        vectorize: bool | None = None,
        output_sizes: dict[str, int] | None = None,
        allow_rechunk: bool = True,
        meta: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Apply a function of whole axes: the last ones, which the signature names."""
        if axes is not None or keepdims:
            raise UnsupportedError("apply_gufunc with axes= or keepdims=")
        inputs, outputs, is_tuple = _parsed(signature)
        if len(inputs) != len(args):
            raise InvalidArgumentError(
                f"{signature!r} is for {len(inputs)} arrays, not {len(args)}"
            )
        if kwargs:
            func = functools.partial(func, **kwargs)
        arrays = [one if isinstance(one, Array) else asarray(np.asarray(one)) for one in args]
        sizes = _sizes(inputs, arrays, dict(output_sizes or {}))
        if vectorize:
            func = np.vectorize(func, signature=signature, otypes=output_dtypes)
        dtypes = _dtypes(func, inputs, outputs, arrays, sizes, output_dtypes, meta)
        packed, unpack = _packed(arrays, inputs, sizes)
        made = tuple(
            _output(func, i, packed, unpack, names, sizes, dtype, is_tuple)
            for i, (names, dtype) in enumerate(zip(outputs, dtypes, strict=True))
        )
        return made if is_tuple else made[0]

    def reduction(
        self,
        arr: Array,
        func: Callable[..., Any],
        combine_func: Callable[..., Any] | None = None,
        aggregate_func: Callable[..., Any] | None = None,
        axis: int | Sequence[int] | None = None,
        dtype: Any = None,
        keepdims: bool = False,
    ) -> Array:
        """Reduce whole lines along axes."""
        axes = _axes(axis, arr.ndim)
        last = tuple(range(-len(axes), 0))

        def reduced(block: NDArray[Any]) -> NDArray[Any]:
            made = func(block, axis=last, keepdims=True)
            if aggregate_func is not None:
                made = aggregate_func(made, axis=last, keepdims=True)
            return np.asarray(made)

        kind = np.dtype(dtype if dtype is not None else arr.dtype)
        made = of_lines(_name(func), reduced, (), arr, axes, None, kind)
        return expand_dims(made, axis=axes) if keepdims else made

    def scan(
        self,
        func: Callable[..., Any],
        binop: Callable[..., Any],
        ident: float,
        arr: Array,
        axis: int | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> Array:
        """Apply a cumulative function to whole lines along an axis."""
        if axis is None:
            arr, axis = reshape(arr, (-1,)), 0
        (axis,) = _axes(axis, arr.ndim)

        def scanned(block: NDArray[Any]) -> NDArray[Any]:
            return np.asarray(func(block, axis=-1, **kwargs))

        kind = np.dtype(dtype if dtype is not None else arr.dtype)
        return of_lines(_name(func), scanned, (), arr, (axis,), (arr.shape[axis],), kind)

    def unify_chunks(self, *args: Any, **kwargs: Any) -> tuple[dict[str, Any], list[Any]]:
        """Nothing has to be unified: in which parts arrays are computed is planned for all."""
        arrays, indices = list(args[::2]), args[1::2]
        found: dict[str, Any] = {}
        for array, index in zip(arrays, indices, strict=True):
            if isinstance(array, Array) and index is not None:
                found.update(zip(index, array.chunks, strict=True))
        return found, arrays


def _full(shape: Any, fill_value: Any, *, dtype: Any = None, chunks: Any = None) -> Array:
    made = full(shape, fill_value, dtype=dtype)
    if chunks is not None:
        made._chunks = normalized_chunks(chunks, made.shape, made.dtype)
    return made


def _at_once(
    function: Callable[..., Any], arrays: Sequence[Any], dtype: np.dtype[Any]
) -> NDArray[Any]:
    """What is of a type that we do not have, such as times, in memory."""
    nbytes = max(array.size for array in arrays) * max(dtype.itemsize, 8)
    if nbytes > _AT_ONCE:
        raise UnsupportedError(
            f"there are no arrays of {dtype}, and {nbytes} bytes of it are not made in memory "
            "(decode_times=False leaves times as numbers)"
        )
    return np.asarray(function(*(np.asarray(array) for array in arrays)))


def _name(function: Callable[..., Any]) -> str:
    """What a function is called, for people."""
    while isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))


def _named(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with a name, which plans tell."""
    if inspect.isfunction(function) or not isinstance(function, functools.partial):
        return function

    def called(*blocks: NDArray[Any]) -> Any:
        return function(*blocks)

    called.__name__ = _name(function)
    return called


def _axes(axis: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(ndim))
    given = axis if isinstance(axis, Sequence) else (axis,)
    return tuple(sorted(np.lib.array_utils.normalize_axis_index(int(a), ndim) for a in given))


# -- functions of whole axes -----------------------------------------------------------------------

_NAMES = re.compile(r"\(([^()]*)\)")


def _parsed(signature: str) -> tuple[list[list[str]], list[list[str]], bool]:
    """The names of axes that a function has whole, of each operand and result; whether several."""
    before, arrow, after = signature.partition("->")
    if not arrow:
        raise InvalidArgumentError(f"{signature!r} is no signature of a generalized ufunc")
    given, made = (
        [[name.strip() for name in one.split(",") if name.strip()] for one in _NAMES.findall(part)]
        for part in (before, after)
    )
    return given, made or [[]], len(made) > 1 or after.rstrip().endswith(",")


def _sizes(
    inputs: Sequence[Sequence[str]], arrays: Sequence[Array], sizes: dict[str, int]
) -> dict[str, int]:
    for names, array in zip(inputs, arrays, strict=True):
        if array.ndim < len(names):
            raise InvalidArgumentError(f"an array of {array.ndim} axes has no {names}")
        for name, n in zip(names, array.shape[array.ndim - len(names) :], strict=True):
            if sizes.setdefault(name, n) != n:
                raise InvalidArgumentError(f"{name!r} has {sizes[name]} elements, and {n}")
    return sizes


def _dtypes(
    function: Callable[..., Any],
    inputs: Sequence[Sequence[str]],
    outputs: Sequence[Sequence[str]],
    arrays: Sequence[Array],
    sizes: dict[str, int],
    given: Any,
    meta: Any,
) -> list[np.dtype[Any]]:
    """Of each result, as it is said, or as the function makes of ones."""
    if given is None and meta is not None:
        given = [one.dtype for one in (meta if isinstance(meta, tuple) else (meta,))]
    if given is not None:
        given = given if isinstance(given, list | tuple) else [given]
        if len(given) == len(outputs):
            return [np.dtype(one) for one in given]
    ones = [
        np.ones([1] * (array.ndim - len(names)) + [sizes[n] for n in names], array.dtype)
        for names, array in zip(inputs, arrays, strict=True)
    ]
    made = function(*ones)
    return [np.asarray(one).dtype for one in (made if isinstance(made, tuple) else (made,))]


def _packed(
    arrays: Sequence[Array], inputs: Sequence[Sequence[str]], sizes: dict[str, int]
) -> tuple[Array, Callable[[NDArray[Any]], list[NDArray[Any]]]]:
    """All operands in one array, with what is whole along its last axis; and how to part them.

    Small ones of which all axes are whole, such as coordinates, are computed at once.
    """
    shapes = [tuple(sizes[n] for n in names) for names in inputs]
    loops = [array.shape[: array.ndim - len(s)] for array, s in zip(arrays, shapes, strict=True)]
    cut = [i for i, loop in enumerate(loops) if loop or arrays[i].nbytes > piece_limit()]
    cut = cut or [0]
    fixed = {i: array.compute() for i, array in enumerate(arrays) if i not in cut}
    common = _common([arrays[i].dtype for i in cut])
    loop = np.broadcast_shapes(*loops)
    parts = []
    for i in cut:
        flat = reshape(arrays[i], (*loops[i], math.prod(shapes[i]))).astype(common, copy=False)
        parts.append(broadcast_to(flat, (*loop, flat.shape[-1])))
    packed = parts[0] if len(parts) == 1 else concat(parts, axis=-1)
    dtypes = [array.dtype for array in arrays]

    def unpack(block: NDArray[Any]) -> list[NDArray[Any]]:
        found, begin = dict(fixed), 0
        for i in cut:
            end = begin + math.prod(shapes[i])
            part = block[..., begin:end].reshape(block.shape[:-1] + shapes[i])
            found[i], begin = part.astype(dtypes[i], copy=False), end
        return [found[i] for i in range(len(dtypes))]

    return packed, unpack


def _common(dtypes: Iterable[np.dtype[Any]]) -> np.dtype[Any]:
    """A type that holds elements of all of these, to the bit."""
    kinds = list(dtypes)
    common = np.result_type(*kinds)
    for kind in kinds:
        is_long = kind.kind in "iu" and kind.itemsize == 8 and common.kind in "fc"
        if is_long or not np.can_cast(kind, common, "safe"):
            raise UnsupportedError(
                f"a function of arrays of {' and '.join(map(str, kinds))}: no type holds both to "
                "the bit; .astype() makes them alike"
            )
    return common


def _output(
    function: Callable[..., Any],
    i: int,
    packed: Array,
    unpack: Callable[[NDArray[Any]], list[NDArray[Any]]],
    names: Sequence[str],
    sizes: dict[str, int],
    dtype: np.dtype[Any],
    is_tuple: bool,
) -> Array:
    """One of the results."""
    missing = [name for name in names if name not in sizes]
    if missing:
        raise InvalidArgumentError(
            f"how long {missing[0]!r} is has to be said: dask_gufunc_kwargs={{'output_sizes': ...}}"
        )
    shape = tuple(sizes[name] for name in names)
    loop = packed.shape[:-1]

    def lines(block: NDArray[Any]) -> NDArray[Any]:
        made = function(*unpack(block))
        one = np.asarray(made[i] if is_tuple else made)
        wanted = (*block.shape[:-1], *shape)
        if one.shape != wanted:
            raise InvalidArgumentError(
                f"{_name(function)} gave an array of shape {one.shape} where one of {wanted} is due"
            )
        return one.reshape(*block.shape[:-1], math.prod(shape))

    lengths = (math.prod(shape),) if shape else None
    if not packed.size or not math.prod(shape):
        return asarray(np.zeros((*loop, *shape), dtype))
    made = of_lines(_name(function), lines, (), packed, (packed.ndim - 1,), lengths, dtype)
    return reshape(made, (*loop, *shape)) if shape else made
