"""What an array can be a view of: memory, a function, or (in `_store`) an array on disk."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outcrop import _native
from outcrop._pieces import Grid, pieces
from outcrop.config import memory_budget, piece_limit
from outcrop.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError
from outcrop.views import View

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
    "storable",
]

_FUNCTION_BYTES = 16 << 20
"""The most bytes of a value that a function is asked for at once."""

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
    zarr_format: int | None = None
    dimension_names: tuple[str | None, ...] | None = None
    fill_value: np.generic | None = None

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

    def read_many(self, views: Iterable[View]) -> Iterator[NDArray[Any]]:
        """Read one after the other; ahead of the consumer, if the source can."""
        return map(self.read, views)

    def borrow(self, view: View) -> NDArray[Any] | None:
        """The elements without a copy, where there is memory to look at."""
        return None

    def check_writable(self) -> None:
        """Raise where nothing can be written."""
        self.check_open()
        if not self.writable:
            raise self._read_only()

    def _read_only(self) -> InvalidArgumentError:
        return InvalidArgumentError(f"assignment destination is read-only: {self.read_only_reason}")

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

    def settle(self, target: "Source", view: View) -> None:
        """Before a view of a target is written piece by piece: read what that would change."""

    # Only what is on disk has a life of its own.

    def check_open(self) -> None:
        """Raise `ClosedArrayError` where the source can be used no more."""

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


def fitting_tile(shape: tuple[int, ...], dtype: np.dtype[Any], part: int = 8) -> tuple[int, ...]:
    """The default tile, or a smaller one of which memory holds about so many as `part` says."""
    tile = list(default_tile(shape, dtype))
    limit = max(memory_budget() // part, _LEAST_TILE)
    while math.prod(tile) * dtype.itemsize > limit:
        longest = tile.index(max(tile))
        tile[longest] = -(-tile[longest] // 2)
    return tuple(tile)


def assign(target: NDArray[Any], value: NDArray[Any]) -> None:
    """Set elements as NumPy's assignment does: any cast, with NumPy's warnings."""
    target[...] = value


class MemorySource(Source):
    """A NumPy array."""

    layout = "memory"

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array
        self.shape = array.shape
        self.dtype = array.dtype
        self.tile = default_tile(array.shape, array.dtype)
        self.writable = array.flags.writeable
        self.read_only_reason = "so is the NumPy array"

    def describe(self, selection: str) -> str:
        return f"memory{selection}" if selection else "in memory"

    def borrow(self, view: View) -> NDArray[Any] | None:
        return view.select(self.array)

    def read(self, view: View) -> NDArray[Any]:
        return view.select(self.array).copy()

    def write(self, view: View, value: NDArray[Any]) -> None:
        assign(view.select(self.array), value)

    def same_elements(self, other: Source) -> bool:
        return isinstance(other, MemorySource) and np.may_share_memory(self.array, other.array)


class FunctionSource(Source):
    """A function of the indices, evaluated for a box at a time."""

    layout = "function"

    def __init__(
        self, function: Callable[..., Any], shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None:
        self.function = function
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
        self.layout = source.layout
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

    def read_many(self, views: Iterable[View]) -> Iterator[NDArray[Any]]:
        return map(_conjugated, self.source.read_many(views))

    def same_elements(self, other: Source) -> bool:
        return self is other or self.source.same_elements(other)

    def settle(self, target: Source, view: View) -> None:
        self.source.settle(target, view)

    def check_open(self) -> None:
        self.source.check_open()

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
