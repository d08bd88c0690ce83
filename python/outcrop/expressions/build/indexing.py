"""Indexing with arrays: the elements of one axis that indices or a mask name."""

from collections.abc import Iterator
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
from outcrop.arrays.views import View, is_array
from outcrop.errors import (
    BoxIndexError,
    BudgetError,
    InvalidArgumentError,
    UnsupportedError,
)
from outcrop.expressions.build.arrays import array_of, node_of
from outcrop.expressions.graph.functions import Copy
from outcrop.expressions.graph.nodes import Map
from outcrop.expressions.rewrite.point_pushdown import picked
from outcrop.expressions.rewrite.reshape_pushdown import reshaped
from outcrop.expressions.rewrite.take_pushdown import taken
from outcrop.process.config import memory_budget, piece_limit
from outcrop.process.sizes import format_bytes

__all__ = ["assign", "places_of", "selected", "wrapped"]

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
    indices : numpy.ndarray
        Non-negative ones, of any shape.
    comes_first : bool
        Whether their axes come first in the result: NumPy has it so where a slice, ``...`` or
        ``None`` stands between the array and an integer.
    """

    key: tuple[Any, ...]
    axis: int
    indices: Integers
    comes_first: bool


@hooks.selected.fill
def selected(array: Array, key: Any) -> Array:
    """The elements that a key with arrays names."""
    items = list(key) if isinstance(key, tuple) else [key]
    arrays = [item for item in items if is_array(item)]
    if len(arrays) > 1 or _mask_axes(arrays[0]) > 1:
        return _selected_by_several(array, items)
    choice = _choice(array, key)
    basic = array[choice.key]
    node, indices, axis = node_of(basic), choice.indices, choice.axis
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


def _mask_axes(item: Any) -> int:
    """How many axes a mask has; 0 of anything else."""
    given = item if isinstance(item, Array) else elements_of(item)
    return given.ndim if given.dtype == np.bool_ else 0


def _selected_by_several(array: Array, items: list[Any]) -> Array:
    """The elements that a key names with arrays along several axes."""
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
        for indices in _by_axis(array, own, item):
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
    axes = [axis for axis, _ in places]
    flat = [np.broadcast_to(indices, shape).reshape(-1) for _, indices in places]
    _check_room(len(flat) * len(flat[0]))
    node = picked(node_of(array[tuple(basic)]), axes, flat)
    result = array_of(reshaped(node, (*shape, *node.shape[1:])))
    if set(advanced) != set(range(advanced[0], advanced[-1] + 1)):
        return result
    # Where they stand side by side, what they name stands in their place.
    before = axes[0]
    rest = range(len(shape), len(shape) + before)
    behind = range(len(shape) + before, result.ndim)
    return result.transpose(*rest, *range(len(shape)), *behind)


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


def _by_axis(array: Array, axis: int, item: Any) -> list[Integers]:
    """The indices that an array of a key stands for, from an axis on."""
    count = _mask_axes(item)
    if not count:
        return [wrapped(item, axis, array.shape[axis])]
    mask = item if isinstance(item, Array) else elements_of(item)
    extents = array.shape[axis : axis + count]
    for i, (n, m) in enumerate(zip(extents, mask.shape, strict=True)):
        if n != m:
            raise BoxIndexError(
                f"boolean index did not match indexed array along axis {axis + i}; size of axis is "
                f"{n} but size of corresponding boolean axis is {m}"
            )
    found = places_of(mask)
    _check_room(len(found[0]) * count)
    return list(found)


def wrapped(indices: Any, axis: int, extent: int) -> Integers:
    """Indices as NumPy takes them: the negative ones count from the end."""
    given = elements_of(indices) if not isinstance(indices, Array) else _loaded(indices)
    if given.size == 0 and not isinstance(indices, np.ndarray | Array):
        given = given.astype(np.int64)
    if given.dtype.kind not in "iu":
        raise BoxIndexError("arrays used as indices must be of integer (or boolean) type")
    _check_room(given.size)
    if given.size and not (-extent <= int(given.min()) and int(given.max()) < extent):
        wrong = given[(given < -extent) | (given >= extent)].flat[0]
        raise BoxIndexError(f"index {wrong} is out of bounds for axis {axis} with size {extent}")
    signed = given.astype(np.int64)
    return np.where(signed < 0, signed + extent, signed)


def places_of(mask: Any) -> tuple[Integers, ...]:
    """The indices at which an array is not zero, in row-major order, computed now."""
    if not isinstance(mask, Array):
        return np.nonzero(mask)
    found: list[list[Integers]] = [[np.empty(0, np.int64)] for _ in mask.shape]
    count = 0
    for where, block in _materialized(mask).tiles():
        here = np.nonzero(block)
        count += len(here[0])
        if not _has_room(count * mask.ndim):
            # What is needed for all of them is told.
            found = []
            continue
        for own, new, at in zip(found, here, where, strict=True):
            own.append(new + at.start)
    _check_room(count * mask.ndim)
    joined = [np.concatenate(own) for own in found]
    if mask.ndim == 1:
        return (joined[0],)
    order = np.lexsort(joined[::-1])
    return tuple(own[order] for own in joined)


def _loaded(array: Array) -> NDArray[Any]:
    _check_room(array.size)
    return np.asarray(array)


def _has_room(count: int) -> bool:
    return count * np.dtype(np.int64).itemsize <= piece_limit()


def _check_room(count: int) -> None:
    nbytes, limit = count * np.dtype(np.int64).itemsize, piece_limit()
    if not _has_room(count):
        raise BudgetError(
            f"{count} indices take {format_bytes(nbytes)}, and at most {format_bytes(limit)} of "
            f"the memory budget of {format_bytes(memory_budget())} are for that; select in "
            "parts, or raise the budget (oc.config(memory=...))",
            nbytes * memory_budget() // limit + 1,
        )


def _materialized(array: Array) -> Array:
    """The array, computed once, where it is not computed yet."""
    source, view = array._source.narrowed(array._view)
    return Array(source.materialized() if isinstance(source, ComputedSource) else source, view)


# -- keys ------------------------------------------------------------------------------------------


def _choice(array: Array, key: Any) -> _Choice:
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
    if is_mask:
        if given.shape[0] != extent:
            raise BoxIndexError(
                f"boolean index did not match indexed array along axis {before}; size of axis is "
                f"{extent} but size of corresponding boolean axis is {given.shape[0]}"
            )
        (indices,) = places_of(given)
        _check_room(len(indices))
    else:
        indices = wrapped(items[at], before, extent)
    basic = (*items[:at], slice(None), *items[at + 1 :])
    integers = [i for i, item in enumerate(items) if _is_integer(item)]
    axis = before - sum(i < at for i in integers) + sum(item is None for item in items[:at])
    ends = min([at, *integers]), max([at, *integers])
    apart = any(i not in integers and i != at for i in range(ends[0], ends[1] + 1))
    return _Choice(basic, axis, indices, apart)


def _is_integer(item: Any) -> bool:
    return not (item is None or item is Ellipsis or isinstance(item, slice) or is_array(item))


# -- assignment ------------------------------------------------------------------------------------


@hooks.assigned.fill
def assign(array: Array, key: Any, value: Any) -> None:
    """Set the elements that a key with an array names."""
    target = array._source
    target.check_writable()
    if isinstance(value, Array):
        value = _apart(value, target)
    else:
        value = elements_of(value, None if hasattr(value, "__array__") else array.dtype)
    mask = key[0] if isinstance(key, tuple) and len(key) == 1 else key
    if isinstance(mask, np.ndarray | Array) and mask.ndim > 1 and mask.dtype == np.bool_:
        _assign_where(array, _apart(mask, target) if isinstance(mask, Array) else mask, value)
        return
    choice = _choice(array, key)
    if choice.indices.ndim != 1:
        raise UnsupportedError(
            "assignment to indices of several axes is not supported in this version; use one row "
            "of them"
        )
    view, axis = array._view.index(choice.key), choice.axis
    if choice.comes_first:
        rest = (other for other in range(len(view.axes)) if other != axis)
        view, axis = view.transpose((axis, *rest)), 0
    shape = (*view.shape[:axis], len(choice.indices), *view.shape[axis + 1 :])
    value = _broadcast(value, shape)
    for where, piece in _pieces(target, view, value):
        low, high = where[axis].start, where[axis].stop
        here = np.flatnonzero((choice.indices >= low) & (choice.indices < high))
        if not len(here):
            continue
        block = target.read(piece)
        part = np.asarray(value[(*where[:axis], here, *where[axis + 1 :])])
        block[(*(slice(None),) * axis, choice.indices[here] - low)] = part
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
        raise UnsupportedError(
            f"the value, of {format_bytes(value.nbytes)}, lies in the array that is assigned to; "
            "save it under another name and assign that"
        )
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
