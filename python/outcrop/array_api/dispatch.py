"""NumPy's protocols: what its ufuncs and functions do with arrays that need not fit in memory."""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import DTypeLike, NDArray

from outcrop import _native
from outcrop.arrays import hooks
from outcrop.arrays.array import Array
from outcrop.arrays.computed import brought_to_disk, changes_unseen
from outcrop.arrays.conversion import bytes_to_convert, lazy_source
from outcrop.arrays.creation import asarray
from outcrop.arrays.numpy_bounds import BOUNDS, BY_SHAPE, Call
from outcrop.arrays.registry import NO_BOUND, REFUSALS, full_name, implementation
from outcrop.arrays.saving import carried
from outcrop.arrays.source import MemorySource, keep_apart
from outcrop.errors import (
    BudgetError,
    InvalidArgumentError,
    InvalidTypeError,
    UnsupportedError,
)
from outcrop.expressions.build.arrays import (
    applied,
    array_of,
    check_out,
    node_of,
    placed_in,
    with_own_memory,
)
from outcrop.expressions.build.reductions import cast, reduced, reduced_by_segments, scanned
from outcrop.process.config import ensure_configured, piece_limit
from outcrop.process.room import charge, room, turn
from outcrop.process.sizes import format_bytes

__all__ = ["astype", "copied", "delivered", "function", "in_memory", "placed", "ufunc"]


# -- ufuncs and their methods ----------------------------------------------------------------------


@hooks.ufunc.fill
def ufunc(which: np.ufunc, method: str, inputs: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What a ufunc, or a method of it, gives for arrays."""
    return _METHODS[method](which, *inputs, **kwargs)


def _call(which: np.ufunc, *inputs: Any, **options: Any) -> Any:
    own = implementation(which)
    return applied(which, inputs, options) if own is None else own(*inputs, **options)


def _by_method(
    method: Callable[..., Array],
) -> Callable[..., Any]:
    """A method that gives one array, which `out` may take."""

    def call(which: np.ufunc, x: Any, *rest: Any, out: Any = None, **options: Any) -> Any:
        def make(**more: Any) -> Array:
            return method(which, _array(x), *rest, **{**options, **more})

        return delivered(make, out[0] if out else None, options.get("dtype") is None)

    return call


def _outer(which: np.ufunc, one: Any, other: Any, **options: Any) -> Any:
    if which.nin != 2:
        raise InvalidArgumentError("outer product only supported for binary functions")
    a, b = _array(one), _array(other)
    return applied(which, [a[(..., *(None,) * b.ndim)], b], options)


def _at(which: np.ufunc, target: Any, indices: Any, *operands: Any) -> None:
    memory = target
    if isinstance(target, Array):
        memory = target._source.borrow(target._view) if target.writable else None
        if memory is not None:
            keep_apart(memory)
    if memory is None:
        raise UnsupportedError(
            f"numpy.{which.__name__}.at changes single elements in their place, which is not done "
            "on disk; change a part in memory (part = A[key].compute(); "
            f"numpy.{which.__name__}.at(part, ...); A[key] = part), or assign to slices"
        )
    which.at(memory, _loaded(indices), *map(_loaded, operands))


_METHODS: dict[str, Callable[..., Any]] = {
    "__call__": _call,
    "accumulate": _by_method(scanned),
    "at": _at,
    "outer": _outer,
    "reduce": _by_method(reduced),
    "reduceat": _by_method(reduced_by_segments),
}


def _array(x: Any) -> Array:
    return x if isinstance(x, Array) else asarray(x)


def delivered(make: Callable[..., Array], out: Any, widens: bool) -> Array:
    """What a function makes, in `out` where that is given; it may widen the type to that of `out`.

    `make` takes that type as `dtype`.
    """
    result = make()
    if out is None:
        return result
    check_out(out)
    if widens and {result.dtype.kind, out.dtype.kind} <= {"f", "c"}:
        # NumPy computes in the type of both.
        kind = np.promote_types(result.dtype, out.dtype)
        result = result if kind == result.dtype else make(dtype=kind)
    return placed(result, out, "unsafe")


def placed(result: Array, out: Any, casting: Any = "unsafe") -> Array:
    """What was made, in `out` where that is given."""
    if out is None:
        return result
    check_out(out)
    if result.shape != out.shape:
        raise InvalidArgumentError(
            f"out= has the shape {out.shape}, and the result has {result.shape}"
        )
    found: Array = placed_in([out], [result], casting)[0]
    return found


@hooks.astype.fill
def astype(array: Array, dtype: DTypeLike, casting: Any = "unsafe", *, copy: bool = True) -> Array:
    """With elements of another type, or of the same."""
    try:
        allowed = np.can_cast(array.dtype, dtype, casting)
    except ValueError as error:
        raise InvalidArgumentError(str(error)) from None
    except TypeError as error:
        raise InvalidTypeError(str(error)) from None
    if not allowed:
        raise InvalidTypeError(
            f"elements of type {array.dtype} cannot be cast to those of type {np.dtype(dtype)}, "
            f"with casting rule {casting!r}"
        )
    if array.dtype == np.dtype(dtype):
        return copied(array) if copy else array
    return array_of(cast(node_of(array), np.dtype(dtype)))


@hooks.copied.fill
def copied(array: Array) -> Array:
    """A copy, as an expression where the elements are not in memory and changes are noticed."""
    source = array._source
    if isinstance(source, MemorySource):
        return Array(MemorySource(array.compute(), owned=True))
    if array.size and changes_unseen(source):
        made = with_own_memory(node_of(array), piece_limit())
        return _held(array) if made is None else array_of(made)
    return array_of(node_of(array))


def _held(array: Array) -> Array:
    """The elements as they are now, and what goes along: in memory where small, else in scratch."""
    if array.nbytes > piece_limit():
        return Array(brought_to_disk(array._source, array._view))
    along = carried(array._source, array._view, "zarr")
    elements = MemorySource(array.compute(), owned=True)
    return Array(elements.with_labels(along.attributes or {}, along.dimension_names))


# -- NumPy's functions -----------------------------------------------------------------------------


@hooks.function.fill
def function(which: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What a function of NumPy's gives: our own of that name, or NumPy's on what fits in memory."""
    own = implementation(which)
    if own is not None:
        return own(*args, **kwargs)
    refusal = REFUSALS.get(which)
    if refusal is not None:
        raise UnsupportedError(refusal.format(name=full_name(which)))
    return in_memory(which, args, kwargs)


_CHANGING = frozenset({np.fill_diagonal, np.place, np.put, np.put_along_axis, np.putmask})
"""Functions of NumPy's that change elements of their first argument."""


def in_memory(which: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What NumPy makes of the elements, brought to memory where all that it takes fits there."""
    name = full_name(which)
    given = [_taken(x) for x in args]
    options = {key: x if key == "out" else _taken(x) for key, x in kwargs.items()}
    work, read = _needed(which, name, given, options)
    there: list[Any] = [*args, *kwargs.values()]
    with turn(work + read):
        try:
            with room(work + read, name):
                pass
        except BudgetError:
            _refuse(name, work + read)
        with room(work, f"{name}, done in memory,"):
            if name in BY_SHAPE:
                result = which(
                    *map(_hollow, given), **{key: _hollow(x) for key, x in options.items()}
                )
            else:
                result = _made(which, name, given, options, there)
        charge(result, beside=there)
    return result


def _made(
    which: Callable[..., Any],
    name: str,
    args: Sequence[Any],
    options: dict[str, Any],
    there: list[Any],
) -> Any:
    """What NumPy makes of the elements; those that were in memory before are added to `there`."""
    out = options.pop("out", None)
    held: NDArray[Any] | None = None
    try:
        changed = _changed(which, args, options)
        loaded = [_guarded(x, there, x is changed) for x in args]
        options = {key: _guarded(x, there, x is changed) for key, x in options.items()}
        if isinstance(out, Array):
            out._source.check_writable(out._view)
            options["out"] = held = out.compute()
        elif out is not None:
            options["out"] = out
    except BudgetError as error:
        raise BudgetError(
            f"{name} is done in memory in this version, and {error}", error.needed
        ) from None
    if changed is not None and (memory := changed._source.borrow(changed._view)) is not None:
        keep_apart(memory)
    try:
        result = which(*loaded, **options)
    except ValueError as error:
        if "read-only" not in str(error):
            raise
        raise UnsupportedError(
            f"{name} changes single elements in their place, which is not done to an "
            f"outcrop.Array; change a part in memory (part = A[key].compute(); "
            f"{name}(part, ...); A[key] = part), or assign to slices"
        ) from None
    if held is not None:
        out[...] = held
        return out
    return result


def _changed(
    which: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]
) -> Array | None:
    """What a function writes to the memory of."""
    if which not in _CHANGING:
        return None
    first = args[0] if args else options.get("a", options.get("arr"))
    return first if isinstance(first, Array) else None


def _needed(
    which: Callable[..., Any], name: str, args: Sequence[Any], options: Mapping[str, Any]
) -> tuple[int, int]:
    """How many bytes NumPy takes, and how many are read for it. Raise where that is unknown."""
    bound = BOUNDS.get(name)
    if bound is None:
        raise UnsupportedError(NO_BOUND.format(name=name))
    # Where the arguments do not fit the function, NumPy says so best.
    given = _bound_arguments(which, args, options)
    read = 0 if name in BY_SHAPE else sum(_bytes_read(x) for x in given.values())
    ensure_configured()
    if read > _native.status()["memory"]:
        # What bounds ask of sequences, NumPy tells of the arrays that it makes of them.
        _refuse(name, read)
    try:
        work = bound(Call({key: _hollow(value) for key, value in given.items()}))
    except (TypeError, ValueError, IndexError) as error:
        raise InvalidArgumentError(f"{name}: {error}") from None
    if not math.isfinite(work):
        _refuse(name, None)
    return int(work), read


def _refuse(name: str, needed: int | None) -> NoReturn:
    state = _native.status()
    what = "an amount that is not known beforehand"
    if needed is not None:
        what, needed = f"up to {format_bytes(needed)}", needed + state["used"]
    used = f", of which {format_bytes(state['used'])} are in use" if state["used"] else ""
    raise BudgetError(
        f"{name} is done in memory in this version, and takes {what} with its result; the memory "
        f"budget is {format_bytes(state['memory'])}{used}; take a slice ({name} of A[...]), raise "
        f"the budget (oc.config(memory=...)), or pass A.compute(), which only the elements limit",
        needed,
    )


_COMPILED = {"unpackbits": ("a", "axis", "count"), "unravel_index": ("indices", "shape")}
"""Parameters that bounds ask for, of functions whose signature not every NumPy tells."""


def _bound_arguments(
    which: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]
) -> Mapping[str, Any]:
    try:
        signature = inspect.signature(which)
    except ValueError:
        names = (*_COMPILED.get(which.__name__, ()), *(f"_{i}" for i in range(len(args))))
        return {**dict(zip(names, args, strict=False)), **options}
    return signature.bind(*args, **options).arguments


def _bytes_read(x: Any) -> int:
    """How much comes to memory, and what NumPy takes to make arrays of what is none."""
    if isinstance(x, Array):
        return 0 if x._source.borrow(x._view) is not None else x.nbytes
    if isinstance(x, list | tuple) and not _has_only_numbers(x):
        return sum(map(_bytes_read, x))
    if isinstance(x, Mapping):
        return sum(map(_bytes_read, x.values()))
    return bytes_to_convert(x)


def _has_only_numbers(x: Sequence[Any]) -> bool:
    """Whether there is nothing to look for in a list, which may be long."""
    return set(map(type, x)) <= _NUMBERS


_NUMBERS = frozenset((bool, int, float, complex, str, bytes, type(None)))


def _each(change: Callable[[Any], Any], x: Any) -> Any:
    """With every item of a list changed; the same list where none was."""
    if isinstance(x, list | tuple):
        if _has_only_numbers(x):
            return x
        items = [change(item) for item in x]
        if all(new is old for new, old in zip(items, x, strict=True)):
            return x
        return items if isinstance(x, list) else tuple(items)
    if isinstance(x, Mapping):
        return {key: change(value) for key, value in x.items()}
    return x


_FEW = 64


def _taken(x: Any) -> Any:
    """What is read a tile at a time, as an `Array`."""
    lazy = None if isinstance(x, Array) else lazy_source(x)
    return _each(_taken, x) if lazy is None else Array(lazy)


def _hollow(x: Any) -> Any:
    """In place of an array, one of its shape and type with a single element.

    A few integers say how much is wanted, as numbers do: they stay as they are.
    """
    if not isinstance(x, Array):
        return _each(_hollow, x)
    if x.dtype.kind in "iu" and x.ndim < 2 and x.size <= _FEW:
        return np.asarray(x)
    return np.broadcast_to(np.zeros((), x.dtype), x.shape)


def _loaded(x: Any) -> Any:
    if not isinstance(x, Array):
        return _each(_loaded, x)
    borrowed = x._source.borrow(x._view)
    return np.asarray(x) if borrowed is None else borrowed


def _guarded(x: Any, there: list[Any], is_changed: bool = False) -> Any:
    """The elements in memory; what would be lost when written there cannot be written.

    Nor can what is ours, unless it is what the function changes (`is_changed`): results may be
    views of it. What was there before is added to `there`.
    """
    if not isinstance(x, Array):
        return _each(lambda item: _guarded(item, there), x)
    x._source.check_open()
    borrowed = x._source.borrow(x._view)
    values = np.asarray(x) if borrowed is None else borrowed
    if borrowed is not None:
        there.append(values)
    is_ours = borrowed is None or not x._source.changes_unseen
    if not x.writable or (is_ours and not (is_changed and borrowed is not None)):
        values = values.view()
        values.flags.writeable = False
    return values
