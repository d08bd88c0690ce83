"""What an array can be a view of: memory, a function, or (in `stored`) an array on disk."""

import copy
import math
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outcrop import _native
from outcrop.arrays.pieces import Grid, Piece, converted_itemsize, pieces
from outcrop.arrays.regions import Regions
from outcrop.arrays.views import View
from outcrop.errors import (
    ChangedArrayError,
    InvalidArgumentError,
    InvalidTypeError,
    UnsupportedError,
)
from outcrop.process.config import memory_budget, piece_limit

__all__ = [
    "ConjugateSource",
    "FunctionSource",
    "MemorySource",
    "Source",
    "assign",
    "default_tile",
    "dtype_name",
    "filler",
    "fitting_tile",
    "keep_apart",
    "storable",
    "without_repetition",
]

_FUNCTION_BYTES = 16 << 20
"""The most bytes of a value that a function is asked for at once."""

_SMALL = 1 << 20
"""Bytes of a copy that does not count to the memory budget."""

_COMMITTING = 1.0
"""Seconds in which a commit that has begun comes to its end, if the writer lives."""

_LEAST_TILE = 16 << 10
"""Bytes of a tile that is not made smaller for lack of memory."""


class Source(ABC):
    """Elements that can be read by view, and written where the source allows it."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    tile: tuple[int, ...]
    layout: str
    format: str | None = None
    path: Path | None = None
    writable: bool = False
    read_only_reason: str = ""
    writable_instead: str = (
        "oc.asarray(A.compute()) can be assigned to, and on disk what oc.create makes"
    )
    """What to do about it."""
    grain: tuple[int, ...] | None = None
    """Extents of blocks whose elements are made together: of a part, the whole block is made."""
    calls_back: bool = True
    """Whether reading it may read other arrays: memory is left to that."""
    is_read_by_others: bool = False
    """Whether another library reads the elements: which bytes that takes is not known."""
    zarr_format: int | None = None
    dimension_names: tuple[str | None, ...] | None = None
    fill_value: np.generic | None = None
    thickness: int | None = None
    """Of the frontiers of tiles, where those are stored beside them."""
    attached: Regions | None = None
    """What of it is attached; None where nothing ever was."""

    @property
    def base(self) -> "Source":
        """What holds the elements, or gives them."""
        return self

    @property
    def grid(self) -> Grid:
        """How views of this source are cut into pieces."""
        return Grid(self.shape, self.tile, self.dtype.itemsize, self.layout)

    @property
    def attributes(self) -> dict[str, Any]:
        """Stored beside the array."""
        return {}

    @abstractmethod
    def describe(self, selection: str) -> str:
        """What a person calls the elements of a selection, which is empty for all of them."""

    @abstractmethod
    def read(self, view: View) -> NDArray[Any]:
        """The elements, in memory that nobody else has. The caller has checked the budget."""

    def read_into(self, out: NDArray[Any], view: View) -> None:
        """Read a view, of one state, into an array of its shape, converting as ``astype`` does."""
        itemsize = max(self.dtype.itemsize, converted_itemsize(self.dtype, out.dtype))
        grid = replace(self.grid, itemsize=itemsize)

        def cut() -> Iterator[Piece]:
            return pieces(view, grid, piece_limit())

        blocks = self.read_many(piece for _, piece in cut())
        for (where, _), block in zip(cut(), blocks, strict=True):
            out[where] = block

    def read_many(self, views: Iterable[View]) -> Iterator[NDArray[Any]]:
        """Read one after the other; ahead of the consumer, if the source can."""
        return map(self.read, views)

    def borrow(self, view: View) -> NDArray[Any] | None:
        """The elements without a copy, where there is memory to look at."""
        return None

    def lend(self, view: View, *, is_asked: bool) -> NDArray[Any] | None:
        """The same, for others: to be written to only where the memory is theirs.

        What is ours is lent only where they have asked for no copy, and to be looked at.
        """
        return None

    def check_writable(self, view: View | None = None) -> None:
        """Raise where a view (None: everything) cannot be written."""
        self.check_open()
        if not self.writable:
            raise self._read_only()
        if self.attached is not None:
            self.attached.check_apart(None if view is None else view.box)

    def _read_only(self) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"assignment destination is read-only: {self.read_only_reason}; {self.writable_instead}"
        )

    def write(self, view: View, value: NDArray[Any]) -> None:
        """Set the elements of a piece. `value` broadcasts to the view's shape."""
        raise self._read_only()

    @contextmanager
    def changing(self, *, whole: bool) -> Iterator[None]:
        """Around writes that belong together, and of `whole` are all elements.

        Where they end early, the old state stays on disk.
        """
        yield

    def same_elements(self, other: "Source") -> bool:
        """Whether writing to this source may change what the other reads."""
        return self is other

    def narrowed(self, view: View) -> "tuple[Source, View]":
        """A source of no more than a view needs, where that is less work, and its view."""
        return self, view

    def settle(self, target: "Source", view: View) -> "Source":
        """What is read instead while a view of a target is written piece by piece.

        What that would change has been read before.
        """
        return self

    # An expression means its operands as they were when it was made.

    def now(self) -> "Source":
        """What an expression takes instead: the elements as they are now.

        Where they do not stay like that, using it is an error.
        """
        return self

    @property
    def live(self) -> "Source":
        """What `now` was asked of."""
        return self

    @property
    def is_as_it_was(self) -> bool:
        """Whether it is the elements as they were at some time, and not what may be written to."""
        return False

    @property
    def changes_unseen(self) -> bool:
        """Whether others may change the elements, and nobody here could tell."""
        return False

    @property
    def tile_alike(self) -> tuple[int, ...] | None:
        """The tile of the largest stored array of this shape that it is made of, if any is."""
        return None

    def check_current(self) -> None:
        """Raise `StaleOperandError` where the elements are not what an expression was made of."""

    @contextmanager
    def in_one_state(self, view: View) -> Iterator[None]:
        """Raise `ChangedArrayError` where what was read of a view inside may be of two states."""
        yield

    @contextmanager
    def naming_changes(self) -> Iterator[None]:
        """Say of what is found changed while it is read that it is stale, where it is.

        Raises
        ------
        StaleOperandError
            This is of an expression, or is one, and what it is made of has changed.
        """
        try:
            yield
        except ChangedArrayError:
            # Tiles are in place a moment before the index, by which the change is noticed.
            end = time.monotonic() + _COMMITTING
            while time.monotonic() < end:
                self.check_current()
                time.sleep(0.005)
            raise

    # Only what is on disk has a life of its own.

    def check_open(self) -> None:
        """Raise `ClosedArrayError` where the source can be used no more; and if it is stale."""

    def flush(self) -> None:
        """Write out what is dirty."""

    def close(self) -> None:
        """Make everything durable and visible, and let go."""

    def abort(self) -> None:
        """Forget what was written since the last commit, and let go."""

    @property
    def is_of_parent_process(self) -> bool:
        """Whether a fork has taken place since the source was opened."""
        return False


def filler(source: Source, view: View) -> Callable[[tuple[int, ...], NDArray[Any]], None]:
    """What gives the elements of a view box by box, to the compiled core."""

    def fill(start: tuple[int, ...], out: NDArray[Any]) -> None:
        part = view.part(start, out.shape)
        borrowed = source.borrow(part)
        out[...] = source.read(part) if borrowed is None else borrowed

    return fill


@lru_cache(1024)
def dtype_name(dtype: np.dtype[Any]) -> str:
    """The name of an element type, which NumPy makes anew each time."""
    return dtype.name


@lru_cache(1024)
def storable(dtype: np.dtype[Any]) -> str:
    """The name of a type of the compiled core's with elements as long.

    There are results of other types, such as half precision: in memory, and to be used further.
    """
    if dtype.kind in "biu" or dtype.name in ("float32", "float64", "complex64", "complex128"):
        return dtype.name
    names = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64", 16: "complex128"}
    if dtype.itemsize not in names or dtype.kind not in "fc":
        raise UnsupportedError(f"elements of type {dtype} are not supported")
    return names[dtype.itemsize]


@lru_cache(1024)
def default_tile(shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[int, ...]:
    """The tile that the compiled core would choose."""
    return tuple(_native.default_tile(shape, storable(dtype)))


def fitting_tile(
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    part: int = 8,
    whole: tuple[int, ...] | None = None,
) -> tuple[int, ...]:
    """A tile, mostly the default one, or a part of it of which memory holds about `part`."""
    tile = list(whole or default_tile(shape, dtype))
    limit = max(memory_budget() // part, _LEAST_TILE)
    while math.prod(tile) * dtype.itemsize > limit:
        longest = tile.index(max(tile))
        tile[longest] = -(-tile[longest] // 2)
    return tuple(tile)


def assign(target: NDArray[Any], value: NDArray[Any]) -> None:
    """Set elements as NumPy's assignment does: any cast, with NumPy's warnings."""
    target[...] = value


class MemorySource(Source):
    """A NumPy array.

    Parameters
    ----------
    array : numpy.ndarray
        The elements.
    owned : bool
        Whether nobody else can change them. A caller's array may change, and expressions with it.
    """

    calls_back = False

    layout = "memory"

    def __init__(self, array: NDArray[Any], *, owned: bool = False) -> None:
        self.array, self.owned = array, owned
        self._now: weakref.ref[_KeptMemory] | None = None
        self._attributes: dict[str, Any] = {}
        self.shape = array.shape
        self.dtype = array.dtype
        self.tile = default_tile(array.shape, array.dtype)
        self.writable = array.flags.writeable
        self.read_only_reason = "so is the NumPy array"

    def __reduce__(self) -> tuple[Any, ...]:
        labels = self._attributes, self.dimension_names
        return _unpickled_memory, (self.array, self.writable, *labels)

    def with_labels(
        self, attributes: Mapping[str, Any], names: tuple[str | None, ...] | None
    ) -> "MemorySource":
        """The same, with what goes along with the elements of which they are a copy."""
        self._attributes, self.dimension_names = dict(attributes), names
        return self

    @property
    def attributes(self) -> dict[str, Any]:
        return copy.deepcopy(self._attributes)

    @property
    def changes_unseen(self) -> bool:
        return not self.owned

    def describe(self, selection: str) -> str:
        return f"memory{selection}" if selection else "in memory"

    def borrow(self, view: View) -> NDArray[Any] | None:
        return view.select(self.array)

    def read(self, view: View) -> NDArray[Any]:
        return view.select(self.array).copy()

    def write(self, view: View, value: NDArray[Any]) -> None:
        part = view.select(self.array)
        keep_apart(part)
        assign(part, value)

    def same_elements(self, other: Source) -> bool:
        return (
            isinstance(other, MemorySource)
            and not other.is_as_it_was
            and np.may_share_memory(self.array, other.array)
        )

    def lend(self, view: View, *, is_asked: bool) -> NDArray[Any] | None:
        if self.owned and self.writable and not is_asked:
            return None
        lent = view.select(self.array)
        if self.owned:
            # Expressions are made of it that would not notice what others write there.
            lent = lent.view()
            lent.flags.writeable = False
        return lent

    def now(self) -> Source:
        if self.owned and not self.writable:
            return self
        kept = None if self._now is None else self._now()
        # Another array than was written to meanwhile is another state.
        if kept is None or kept.array is not self.array:
            kept = _KeptMemory(self.array, owned=self.owned)
            self._now = weakref.ref(kept)
        return kept

    def reshaped(self, elements: NDArray[Any]) -> "MemorySource":
        """The same memory in another shape."""
        return MemorySource(elements, owned=self.owned)

    @property
    def held_bytes(self) -> int:
        """What a copy takes: along axes without a step, there is one element again and again."""
        return without_repetition(self.array).nbytes

    def copied(self) -> "MemorySource":
        """The same elements in memory that nobody else has."""
        own = _copied(without_repetition(self.array))
        return MemorySource(np.broadcast_to(own, self.shape), owned=True)


def _unpickled_memory(
    array: NDArray[Any],
    writable: bool,
    attributes: Mapping[str, Any],
    names: tuple[str | None, ...] | None,
) -> MemorySource:
    """Elements that nobody else has."""
    if not writable:
        array = array.view()
        array.flags.writeable = False
    return MemorySource(array, owned=True).with_labels(attributes, names)


class _KeptMemory(MemorySource):
    """A NumPy array as an expression took it.

    It is not copied before somebody writes to it through an `outcrop.Array`. What is written to the
    NumPy array itself goes unnoticed.
    """

    def __init__(self, array: NDArray[Any], *, owned: bool) -> None:
        super().__init__(array, owned=owned)
        self.writable = False
        self.read_only_reason = "it is part of an expression"
        root = id(_root(array))
        _kept.setdefault(root, set()).add(weakref.ref(self, partial(_forget, root)))

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled_state, (self.array,)

    @property
    def is_as_it_was(self) -> bool:
        return True

    def now(self) -> Source:
        return self

    def lend(self, view: View, *, is_asked: bool) -> NDArray[Any] | None:
        return None

    def same_elements(self, other: Source) -> bool:
        # It has memory of its own before anybody writes.
        return False


def _unpickled_state(array: NDArray[Any]) -> _KeptMemory:
    # The array of which it is the state may be beside it.
    return _KeptMemory(array, owned=True)


_kept: "dict[int, set[weakref.ref[_KeptMemory]]]" = {}
"""By id of the array to which memory belongs, what expressions mean of it."""


def _root(array: NDArray[Any]) -> Any:
    """What memory belongs to."""
    root: Any = array
    while isinstance(root, np.ndarray) and root.base is not None:
        root = root.base
    return root


def _forget(root: int, gone: "weakref.ref[_KeptMemory]") -> None:
    found = _kept.get(root)
    if found is not None:
        found.discard(gone)
        if not found:
            del _kept[root]


def keep_apart(written: NDArray[Any]) -> None:
    """Before memory is written to: give what expressions mean of it memory of its own."""
    for kept in _of(written):
        kept.array, kept.owned = _copied(kept.array), True


def _of(memory: NDArray[Any]) -> "Iterator[_KeptMemory]":
    """What expressions mean of some memory."""
    for reference in list(_kept.get(id(_root(memory)), ())):
        kept = reference()
        if kept is not None and np.may_share_memory(kept.array, memory):
            yield kept


def without_repetition(array: NDArray[Any]) -> NDArray[Any]:
    """The same elements, but along axes without a step once."""
    return array[tuple(slice(None) if step else slice(1) for step in array.strides)]


def _copied(array: NDArray[Any]) -> NDArray[Any]:
    """A copy that counts to the memory budget, as results do."""
    if array.nbytes < _SMALL:
        return array.copy()
    copied: NDArray[Any] = _native.Output(array.shape, storable(array.dtype), False).array()
    copied = copied.view(array.dtype)
    copied[...] = array
    return copied


class FunctionSource(Source):
    """A function of the indices, evaluated for a box at a time."""

    layout = "function"

    def __init__(
        self,
        function: Callable[..., Any],
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        *,
        calls_back: bool = True,
    ) -> None:
        self.function = function
        self.calls_back = calls_back
        self.shape = shape
        self.dtype = dtype
        self.tile = default_tile(shape, dtype)
        self.read_only_reason = "its elements are computed by a function"

    def describe(self, selection: str) -> str:
        name = getattr(self.function, "__qualname__", None) or type(self.function).__qualname__
        return f"function {name.rpartition('<locals>.')[2]}{selection}"

    def read(self, view: View) -> NDArray[Any]:
        out = np.empty(view.shape, self.dtype)
        # A function works with index arrays of 8 bytes, and with temporaries at least as large,
        # whatever small type it ends in.
        width = max(self.dtype.itemsize, 8)
        limit = min(piece_limit(), _FUNCTION_BYTES)
        if 0 < view.size * width <= limit:
            out[...] = view.arrange(self._evaluate(view))
            return out
        grid = replace(self.grid, itemsize=width)
        for where, piece in pieces(view, grid, limit, merge=False):
            out[where] = piece.arrange(self._evaluate(piece))
        return out

    def _evaluate(self, view: View) -> NDArray[Any]:
        """The values, one axis per axis of the source."""
        indices = view.index_arrays()
        shape = np.broadcast_shapes(*(index.shape for index in indices))
        given = self.function(*indices)
        value = self._cast(given, view)
        try:
            return np.broadcast_to(value, shape)
        except ValueError:
            raise InvalidArgumentError(
                f"the function gave an array of shape {value.shape} for the box {view}, whose "
                f"shape is {shape}"
            ) from None

    def _cast(self, given: Any, view: View) -> NDArray[Any]:
        if type(given) in (bool, int, float, complex):
            # Python's numbers are weak, as they are in NumPy's arithmetic: only the kind counts.
            kinds = {bool: "biufc", int: "iufc", float: "fc", complex: "c"}
            allowed = self.dtype.kind in kinds[type(given)]
            name = type(given).__name__
        else:
            given = np.asarray(given)
            allowed = np.can_cast(given.dtype, self.dtype, "same_kind")
            name = str(given.dtype)
        if not allowed:
            raise InvalidTypeError(
                f"the function gave {name} for the box {view}, which does not cast to "
                f"{self.dtype} under the rule 'same_kind'; convert it in the function "
                f"(.astype({self.dtype.name!r})), or ask for another dtype"
            )
        return np.asarray(given, self.dtype)


class ConjugateSource(Source):
    """The complex conjugates of another source's elements."""

    read_only_reason = "it is the conjugate of another array"

    def __init__(self, source: Source) -> None:
        self.source = source
        self.shape = source.shape
        self.dtype = source.dtype
        self.tile = source.tile
        self.layout, self.thickness = source.layout, source.thickness
        self.format = source.format
        self.path = source.path
        self.zarr_format = source.zarr_format
        self.dimension_names = source.dimension_names
        if source.fill_value is not None:
            self.fill_value = np.conjugate(source.fill_value)

    @property
    def base(self) -> Source:
        return self.source

    def describe(self, selection: str) -> str:
        return f"{self.source.describe(selection)}, conjugated"

    def read(self, view: View) -> NDArray[Any]:
        return _conjugated(self.source.read(view))

    def read_into(self, out: NDArray[Any], view: View) -> None:
        if out.dtype.kind in "SU":
            super().read_into(out, view)
            return
        self.source.read_into(out, view)
        if out.dtype.kind in "cO":
            np.conjugate(out, out=out)

    def read_many(self, views: Iterable[View]) -> Iterator[NDArray[Any]]:
        return map(_conjugated, self.source.read_many(views))

    def same_elements(self, other: Source) -> bool:
        return self is other or self.source.same_elements(other)

    def settle(self, target: Source, view: View) -> Source:
        settled = self.source.settle(target, view)
        return self if settled is self.source else ConjugateSource(settled)

    def check_open(self) -> None:
        self.source.check_open()

    def check_current(self) -> None:
        self.source.check_current()

    @property
    def is_as_it_was(self) -> bool:
        return True

    @property
    def attributes(self) -> dict[str, Any]:
        return self.source.attributes

    def flush(self) -> None:
        self.source.flush()

    def close(self) -> None:
        self.source.close()

    def abort(self) -> None:
        self.source.abort()

    @property
    def is_of_parent_process(self) -> bool:
        return self.source.is_of_parent_process


def _conjugated(elements: NDArray[Any]) -> NDArray[Any]:
    np.conjugate(elements, out=elements)
    return elements
