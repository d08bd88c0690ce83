"""Indexing with arrays: the elements that indices or masks name."""

import math
from array import array as packed
from bisect import bisect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outcrop.arrays import hooks
from outcrop.arrays.array import Array
from outcrop.arrays.computed import ComputedSource
from outcrop.arrays.conversion import elements_of
from outcrop.arrays.pieces import pieces
from outcrop.arrays.source import MemorySource, Source
from outcrop.arrays.stored import StoreSource
from outcrop.arrays.views import View, is_array
from outcrop.errors import (
    BoxIndexError,
    BudgetError,
    InvalidArgumentError,
    UnsupportedError,
    forget_frames,
)
from outcrop.expressions.build.arrays import array_of, node_of
from outcrop.expressions.build.chosen_elements import TooManyError, chosen, indices_of, written
from outcrop.expressions.build.reductions import cast, reduced
from outcrop.expressions.graph.functions import Copy
from outcrop.expressions.graph.nodes import Map, ancestors
from outcrop.expressions.rewrite.point_pushdown import picked
from outcrop.expressions.rewrite.reshape_pushdown import reshaped
from outcrop.expressions.rewrite.take_pushdown import taken
from outcrop.process.config import memory_budget, piece_limit
from outcrop.process.operation import operation
from outcrop.process.sizes import format_bytes

__all__ = ["assign", "compressed", "flat_indices", "indices_by_axis", "selected"]

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class _Choice:
    """A key with one array in it.

    Attributes
    ----------
    key : tuple
        The key with the whole axis instead of the array.
    axis : int
        That axis, after this key.
    indices : numpy.ndarray or _Marked
        Non-negative ones, of any shape; or those that a mask marks, for which memory is not.
    comes_first : bool
        Whether their axes come first in the result: NumPy has it so where a slice, ``...`` or
        ``None`` stands between the array and an integer.
    """

    key: tuple[Any, ...]
    axis: int
    indices: "Integers | _Marked"
    comes_first: bool


class _Marked:
    """The indices that a mask along one axis marks, however many there are.

    Parameters
    ----------
    mask : Array
        It is computed once, and read again for each piece of what is assigned to.
    """

    ndim = 1

    def __init__(self, mask: Array) -> None:
        self._mask = _materialized(mask)
        # Of each tile, where it begins, and how many come before it.
        self._starts, self._before = packed("q"), packed("q")
        count = 0
        for (where,), block in self._mask.tiles():
            self._starts.append(where.start)
            self._before.append(count)
            count += int(np.count_nonzero(block))
        self._count = count

    def __len__(self) -> int:
        return self._count

    def between(self, low: int, high: int) -> tuple[slice, Integers]:
        """Those in a range: which of all they are, and where in the range."""
        tile = bisect(self._starts, low) - 1
        start = self._starts[tile]
        before = self._before[tile] + int(np.count_nonzero(self._mask[start:low].compute()))
        here = np.flatnonzero(self._mask[low:high].compute())
        return slice(before, before + len(here)), here


@hooks.selected.fill
def selected(array: Array, key: Any) -> Array:
    """The elements that a key with arrays names.

    They are an expression where memory is for their indices; else they are computed now, and are in
    scratch where memory is not for them either.
    """
    items = list(key) if isinstance(key, tuple) else [key]
    arrays = [item for item in items if is_array(item)]
    is_mask = len(arrays) == 1 and _mask_axes(arrays[0]) > 0
    if is_mask and _is_read_for(array, arrays[0]):
        return _chosen(array, items)
    try:
        if len(arrays) > 1 or _mask_axes(arrays[0]) > 1:
            return _selected_by_several(array, items)
        return _selected_by_one(array, key)
    except TooManyError as error:
        forget_frames(error)
    return _chosen(array, items) if is_mask else _selected_in_parts(array, items)


def _is_read_for(array: Array, mask: Any) -> bool:
    """Whether all elements of what is on disk are read anyway, for a mask that is made of them."""
    if not isinstance(mask, Array) or not isinstance(array._source, StoreSource):
        return False
    node, other = node_of(array), node_of(mask)
    return node is not other and any(node is one for one in ancestors([other]))


def _selected_by_one(array: Array, key: Any) -> Array:
    """The elements that a key names with an array along one axis."""
    choice = _choice(array, key, lambda mask: places_of(mask)[0])
    basic = array[choice.key]
    node, indices, axis = node_of(basic), choice.indices, choice.axis
    assert isinstance(indices, np.ndarray)
    node = taken(node, indices.reshape(-1), axis)
    if indices.ndim != 1:
        shape = (*node.shape[:axis], *indices.shape, *node.shape[axis + 1 :])
        node = reshaped(node, shape)
    result = array_of(node)
    if not choice.comes_first:
        return result
    moved = range(axis, axis + indices.ndim)
    rest = (other for other in range(result.ndim) if other not in moved)
    return result.transpose(*moved, *rest)


def _chosen(array: Array, items: list[Any]) -> Array:
    """The elements that a key names with one mask, however many there are."""
    items = _completed(array, items)
    basic: list[Any] = []
    advanced: list[int] = []
    own = at = 0
    mask: Array | None = None
    for i, item in enumerate(items):
        if is_array(item):
            mask = _as_array(item)
            _check_mask(array, own, mask)
            at = sum(not _is_integer(one) for one in basic)
            basic += [slice(None)] * mask.ndim
            own += mask.ndim
        else:
            basic.append(item)
            own += item is not None
        if is_array(item) or _is_integer(item):
            advanced.append(i)
    assert mask is not None
    base = array[tuple(basic)]
    outer, inner = base.shape[:at], base.shape[at + mask.ndim :]
    each = math.prod(outer) * math.prod(inner)
    if each:
        wide = mask[(..., *(None,) * len(inner))]
        result = chosen(base, wide, lambda total: (*outer, total // each, *inner))
    else:
        count = int(reduced(np.add, mask.astype(np.int64), axis=None).compute())
        empty = np.empty((*outer, count, *inner), array.dtype)
        result = Array(MemorySource(empty, owned=True))
    if _are_together(advanced):
        return result
    return result.transpose(at, *(axis for axis in range(result.ndim) if axis != at))


def _are_together(advanced: list[int]) -> bool:
    """Whether the arrays and integers of a key stand side by side."""
    return set(advanced) == set(range(advanced[0], advanced[-1] + 1))


def _as_array(item: Any) -> Array:
    return item if isinstance(item, Array) else Array(MemorySource(_elements(item)))


def _elements(item: Any) -> NDArray[Any]:
    """What is no array of ours, as one of NumPy's: indices, if it is empty."""
    given = elements_of(item)
    is_list = given.size == 0 and not isinstance(item, np.ndarray)
    return given.astype(np.int64) if is_list else given


def _mask_axes(item: Any) -> int:
    """How many axes a mask has; 0 of anything else."""
    given = item if isinstance(item, Array) else elements_of(item)
    return given.ndim if given.dtype == np.bool_ else 0


@dataclass(frozen=True)
class _Several:
    """A key with arrays along several axes.

    Attributes
    ----------
    key : tuple
        The key with whole axes instead of the arrays.
    axes : list of int
        Those, after this key.
    indices : list
        Along each of them, which broadcast.
    shape : tuple of int
        To what they do.
    are_together : bool
        Whether what they name stands in their place: else it comes first.
    """

    key: tuple[Any, ...]
    axes: list[int]
    indices: list[Any]
    shape: tuple[int, ...]
    are_together: bool

    def placed(self, result: Array) -> Array:
        """What they name, which comes first, in its place."""
        if not self.are_together:
            return result
        count, before = len(self.shape), self.axes[0]
        rest = range(count, count + before)
        return result.transpose(*rest, *range(count), *range(count + before, result.ndim))


def _several(array: Array, items: list[Any], by_axis: Callable[..., list[Any]]) -> _Several:
    items = _completed(array, items)
    basic: list[Any] = []
    places: list[tuple[int, Any]] = []
    advanced: list[int] = []
    own = position = 0
    for item in items:
        if item is None or isinstance(item, slice):
            basic.append(item)
            own += item is not None
            position += 1
            continue
        advanced.append(len(basic))
        if _is_integer(item):
            basic.append(item)
            own += 1
            continue
        for indices in by_axis(array, own, item):
            places.append((position, indices))
            basic.append(slice(None))
            advanced.append(len(basic) - 1)
            own += 1
            position += 1
    try:
        shape = np.broadcast_shapes(*(indices.shape for _, indices in places))
    except ValueError:
        shapes = " ".join(str(indices.shape) for _, indices in places)
        raise BoxIndexError(
            f"shape mismatch: indexing arrays could not be broadcast together with shapes {shapes}"
        ) from None
    axes, given = [axis for axis, _ in places], [indices for _, indices in places]
    return _Several(tuple(basic), axes, given, shape, _are_together(advanced))


def _selected_by_several(array: Array, items: list[Any]) -> Array:
    """The elements that a key names with arrays along several axes."""
    key = _several(array, items, _by_axis)
    _check_room(len(key.axes) * math.prod(key.shape))
    flat = [np.broadcast_to(indices, key.shape).reshape(-1) for indices in key.indices]
    node = picked(node_of(array[key.key]), key.axes, flat)
    return key.placed(array_of(reshaped(node, (*key.shape, *node.shape[1:]))))


_EACH = 64
"""Bytes for an index while it is looked up what is there, with what they are put in order by."""


def _selected_in_parts(array: Array, items: list[Any]) -> Array:
    """The same, computed now: what some of the indices name after what others name."""
    key = _several(array, items, _by_axis_of_any)
    base = array[key.key]
    others = [axis for axis in range(base.ndim) if axis not in key.axes]
    base = base.transpose(*key.axes, *others)
    axes = range(len(key.axes))
    node, count, rest = node_of(base), math.prod(key.shape), base.shape[len(axes) :]
    row = math.prod(rest) * array.dtype.itemsize
    step = max(piece_limit() // (row + _EACH * len(axes)), 1)

    def parts() -> Iterator[NDArray[Any]]:
        for low in range(0, count, step):
            high = min(low + step, count)
            here = [
                _wrapped(_between(own, key.shape, low, high), axis, base.shape[axis])
                for axis, own in enumerate(key.indices)
            ]
            yield array_of(picked(node, axes, here)).compute().reshape(-1)

    with operation():
        return key.placed(written(parts(), (*key.shape, *rest), array.dtype))


def _by_axis_of_any(array: Array, axis: int, item: Any) -> list[Any]:
    """The indices that an array of a key stands for, from an axis on, however many there are."""
    if _mask_axes(item):
        mask = _as_array(item)
        _check_mask(array, axis, mask)
        return list(indices_by_axis(mask))
    given = item if isinstance(item, Array) else _elements(item)
    _check_integers(given.dtype)
    return [given]


def _between(indices: Any, shape: tuple[int, ...], low: int, high: int) -> NDArray[Any]:
    """Some of the indices, of all in a row, that broadcast to a shape."""
    if isinstance(indices, np.ndarray):
        return np.asarray(np.broadcast_to(indices, shape).flat[low:high])
    if indices.shape != shape:
        indices = array_of(Map.of(Copy(), [node_of(indices)], indices.dtype, shape))
    return np.asarray(indices.reshape(-1)[low:high])


def _completed(array: Array, items: list[Any]) -> list[Any]:
    """The items of a key, with a slice for each axis that has none."""
    used = sum(
        max(_mask_axes(item), 1) if is_array(item) else item is not None and item is not Ellipsis
        for item in items
    )
    if used > array.ndim:
        raise BoxIndexError(
            f"too many indices for array: array is {array.ndim}-dimensional, but {used} were "
            "indexed"
        )
    gaps = [i for i, item in enumerate(items) if item is Ellipsis]
    if len(gaps) > 1:
        raise BoxIndexError("an index can only have a single ellipsis ('...')")
    at = gaps[0] if gaps else len(items)
    return [*items[:at], *[slice(None)] * (array.ndim - used), *items[at + 1 :]]


def _by_axis(array: Array, axis: int, item: Any) -> list[Any]:
    """The indices that an array of a key stands for, from an axis on."""
    if not _mask_axes(item):
        return [wrapped(item, axis, array.shape[axis])]
    mask = item if isinstance(item, Array) else elements_of(item)
    _check_mask(array, axis, mask)
    return list(places_of(mask))


def _check_mask(array: Array, axis: int, mask: Any) -> None:
    """Raise where a mask has other extents than the axes that it stands for."""
    extents = array.shape[axis : axis + mask.ndim]
    for i, (n, m) in enumerate(zip(extents, mask.shape, strict=True)):
        if n != m:
            raise BoxIndexError(
                f"boolean index did not match indexed array along axis {axis + i}; size of axis is "
                f"{n} but size of corresponding boolean axis is {m}"
            )


def wrapped(indices: Any, axis: int, extent: int) -> Integers:
    """Indices as NumPy takes them: the negative ones count from the end.

    Raises
    ------
    TooManyError
        Memory is not for so many.
    """
    given = indices if isinstance(indices, Array) else _elements(indices)
    _check_integers(given.dtype)
    _check_room(given.size)
    return _wrapped(np.asarray(given), axis, extent)


def _check_integers(dtype: np.dtype[Any]) -> None:
    if dtype.kind not in "iu":
        raise BoxIndexError("arrays used as indices must be of integer (or boolean) type")


def _wrapped(given: NDArray[Any], axis: int, extent: int) -> Integers:
    if given.size and not (-extent <= int(given.min()) and int(given.max()) < extent):
        wrong = given[(given < -extent) | (given >= extent)].flat[0]
        raise BoxIndexError(f"index {wrong} is out of bounds for axis {axis} with size {extent}")
    signed = given.astype(np.int64)
    return np.where(signed < 0, signed + extent, signed)


def places_of(mask: Any) -> tuple[Integers, ...]:
    """The indices at which an array is not zero, in row-major order, computed now.

    Raises
    ------
    TooManyError
        Memory is not for so many.
    """
    elements = _in_memory(mask) if isinstance(mask, Array) else mask
    if elements is not None:
        _check_room(int(np.count_nonzero(elements)) * elements.ndim)
        return np.nonzero(elements)
    most = piece_limit() // (np.dtype(np.int64).itemsize * mask.ndim)
    found = indices_of(_truth_of(mask), most)
    return np.unravel_index(np.asarray(found), mask.shape)


def indices_by_axis(mask: Array) -> tuple[Array, ...]:
    """The same for any number of them: where they are many, what is made of indices in one row."""
    elements = _in_memory(mask)
    if elements is not None and _has_room(int(np.count_nonzero(elements)) * mask.ndim):
        return tuple(_owned(own) for own in np.nonzero(elements))
    found = indices_of(_truth_of(mask))
    if mask.ndim == 1:
        return (found,)
    if _has_room(found.size * mask.ndim):
        return tuple(_owned(own) for own in np.unravel_index(np.asarray(found), mask.shape))
    result: list[Array] = []
    for axis, n in enumerate(mask.shape):
        own = found // math.prod(mask.shape[axis + 1 :])
        result.append(own % n if axis else own)
    return tuple(result)


def flat_indices(mask: Array) -> Array:
    """The indices at which an array is not zero, as if its elements were in one row."""
    elements = _in_memory(mask)
    if elements is not None and _has_room(int(np.count_nonzero(elements))):
        return _owned(np.flatnonzero(elements))
    return indices_of(_truth_of(mask))


def _owned(elements: NDArray[Any]) -> Array:
    return Array(MemorySource(elements, owned=True))


def _truth_of(mask: Array) -> Array:
    return mask if mask.dtype == np.bool_ else array_of(cast(node_of(mask), np.dtype(np.bool_)))


def _in_memory(mask: Array) -> NDArray[Any] | None:
    """The elements of what is in memory, or is rather computed to there, once; None of others."""
    is_small = mask.nbytes <= piece_limit()
    if is_small:
        mask = _materialized(mask)
    borrowed: NDArray[Any] | None = mask._source.borrow(mask._view)
    return mask.compute() if borrowed is None and is_small else borrowed


def _has_room(count: int) -> bool:
    return count * np.dtype(np.int64).itemsize <= piece_limit()


def _check_room(count: int) -> None:
    if not _has_room(count):
        raise TooManyError(count)


def _too_many(count: int) -> BudgetError:
    nbytes, limit = count * np.dtype(np.int64).itemsize, piece_limit()
    return BudgetError(
        f"{count} indices take {format_bytes(nbytes)}, and at most {format_bytes(limit)} of the "
        f"memory budget of {format_bytes(memory_budget())} are for those that are assigned to; "
        "assign in parts, or raise the budget (oc.config(memory=...))",
        nbytes * memory_budget() // limit + 1,
    )


def _materialized(array: Array) -> Array:
    """The array, computed once, where it is not computed yet."""
    source, view = array._source.narrowed(array._view)
    return Array(source.materialized() if isinstance(source, ComputedSource) else source, view)


def compressed(array: Array, condition: Any, axis: int) -> Array:
    """The elements along an axis where a condition, of at most its extent, is not zero."""
    extent = array.shape[axis]
    given = condition if isinstance(condition, Array) else elements_of(condition)
    if given.shape[0] > extent:
        behind = given[extent:]
        if isinstance(behind, Array):
            behind = reduced(np.logical_or, behind, axis=None).compute()
        if np.any(behind):
            last = int(np.asarray(flat_indices(_as_array(given))[-1]))
            raise BoxIndexError(f"index {last} is out of bounds for axis {axis} with size {extent}")
        given = given[:extent]
    mask = _truth_of(given) if isinstance(given, Array) else given.astype(np.bool_)
    part = slice(0, mask.shape[0])
    return selected(array[(slice(None),) * axis + (part,)], (slice(None),) * axis + (mask,))


# -- keys ------------------------------------------------------------------------------------------


def _choice(array: Array, key: Any, marked_by: Callable[[Any], "Integers | _Marked"]) -> _Choice:
    items = list(key) if isinstance(key, tuple) else [key]
    found = [i for i, item in enumerate(items) if is_array(item)]
    if len(found) > 1:
        raise UnsupportedError(
            "assignment to arrays along several axes at once is not supported in this version"
        )
    (at,) = found
    given = items[at] if isinstance(items[at], Array) else elements_of(items[at])
    is_mask = given.dtype == np.bool_
    if is_mask and given.ndim != 1:
        raise UnsupportedError(
            f"assignment to a mask of {given.ndim} axes beside other items of a key is not "
            "supported in this version; oc.where(mask, value, A) has what A would have"
        )
    used = sum(item is not None and item is not Ellipsis for item in items)
    if used > array.ndim:
        raise BoxIndexError(
            f"too many indices for array: array is {array.ndim}-dimensional, but {used} were "
            "indexed"
        )
    if sum(item is Ellipsis for item in items) > 1:
        raise BoxIndexError("an index can only have a single ellipsis ('...')")
    before = sum(item is not None and item is not Ellipsis for item in items[:at])
    if any(item is Ellipsis for item in items[:at]):
        before += array.ndim - used
    extent = array.shape[before]
    indices: Integers | _Marked
    if is_mask:
        if given.shape[0] != extent:
            raise BoxIndexError(
                f"boolean index did not match indexed array along axis {before}; size of axis is "
                f"{extent} but size of corresponding boolean axis is {given.shape[0]}"
            )
        indices = marked_by(given)
    else:
        indices = wrapped(items[at], before, extent)
    basic = (*items[:at], slice(None), *items[at + 1 :])
    integers = [i for i, item in enumerate(items) if _is_integer(item)]
    axis = before - sum(i < at for i in integers) + sum(item is None for item in items[:at])
    ends = min([at, *integers]), max([at, *integers])
    apart = any(i not in integers and i != at for i in range(ends[0], ends[1] + 1))
    return _Choice(basic, axis, indices, apart)


def _marked_by(mask: Any) -> "Integers | _Marked":
    try:
        return places_of(mask)[0]
    except TooManyError as error:
        forget_frames(error)
    return _Marked(_as_array(mask))


def _is_integer(item: Any) -> bool:
    return not (item is None or item is Ellipsis or isinstance(item, slice) or is_array(item))


# -- assignment ------------------------------------------------------------------------------------


@hooks.assigned.fill
def assign(array: Array, key: Any, value: Any) -> None:
    """Set the elements that a key with an array names."""
    target = array._source
    target.check_writable(array._view)
    if isinstance(value, Array):
        value = _apart(value, target)
    else:
        value = elements_of(value, None if hasattr(value, "__array__") else array.dtype)
    mask = key[0] if isinstance(key, tuple) and len(key) == 1 else key
    if isinstance(mask, np.ndarray | Array) and mask.ndim > 1 and mask.dtype == np.bool_:
        _assign_where(array, _apart(mask, target) if isinstance(mask, Array) else mask, value)
        return
    try:
        choice = _choice(array, key, _marked_by)
    except TooManyError as error:
        (count,) = error.args
        forget_frames(error)
        raise _too_many(count) from None
    indices = choice.indices
    if indices.ndim != 1:
        raise UnsupportedError(
            "assignment to indices of several axes is not supported in this version; use one row "
            "of them"
        )
    view, axis = array._view.index(choice.key), choice.axis
    if choice.comes_first:
        rest = (other for other in range(len(view.axes)) if other != axis)
        view, axis = view.transpose((axis, *rest)), 0
    shape = (*view.shape[:axis], len(indices), *view.shape[axis + 1 :])
    value = _broadcast(value, shape)
    for where, piece in _pieces(target, view, value):
        low, high = where[axis].start, where[axis].stop
        here: Any
        at: Integers
        if isinstance(indices, _Marked):
            here, at = indices.between(low, high)
        else:
            here = np.flatnonzero((indices >= low) & (indices < high))
            at = indices[here] - low
        if not len(at):
            continue
        block = target.read(piece)
        part = np.asarray(value[(*where[:axis], here, *where[axis + 1 :])])
        place: Any = (*(slice(None),) * axis, at)
        block[place] = part
        target.write(piece, block)


def _assign_where(array: Array, mask: Any, value: Any) -> None:
    """Set elements to one value where a mask of all axes says so."""
    if mask.shape != array.shape:
        raise BoxIndexError(
            f"boolean index did not match indexed array: its shape is {mask.shape}, and that of "
            f"the array {array.shape}"
        )
    if value.ndim:
        raise UnsupportedError(
            "assignment of several values to a mask of several axes is not supported in this "
            "version; assign oc.where(mask, values, A) to another array"
        )
    element = np.asarray(value)
    for where, piece in _pieces(array._source, array._view, element):
        here = np.asarray(mask[where])
        if here.any():
            block = array._source.read(piece)
            block[here] = element
            array._source.write(piece, block)


def _apart(value: Array, target: Source) -> Array:
    """The array, with elements of its own where assignment could change them."""
    own = value._source
    own.check_open()
    if not (own.same_elements(target) or target.same_elements(own)):
        return value
    if isinstance(own, ComputedSource):
        return _materialized(value)
    if value.nbytes > piece_limit():
        return hooks.materialized(value)
    return Array(MemorySource(value.compute(), owned=True))


def _broadcast(value: Any, shape: tuple[int, ...]) -> Any:
    """The value in the shape of what it is assigned to."""
    surplus = max(value.ndim - len(shape), 0)
    if all(n == 1 for n in value.shape[:surplus]):
        if surplus:
            value = value[(0,) * surplus]
        try:
            if np.broadcast_shapes(value.shape, shape) == shape:
                if isinstance(value, np.ndarray):
                    return np.broadcast_to(value, shape)
                copy = Map.of(Copy(), [node_of(value)], value.dtype, shape)
                return array_of(copy)
        except ValueError:
            pass
    raise InvalidArgumentError(
        f"shape mismatch: value array of shape {value.shape} could not be broadcast to indexing "
        f"result of shape {shape}"
    )


def _pieces(target: Source, view: View, value: Any) -> Iterator[tuple[tuple[slice, ...], View]]:
    grid = replace(target.grid, itemsize=max(target.dtype.itemsize, value.dtype.itemsize))
    return pieces(view, grid, piece_limit())
