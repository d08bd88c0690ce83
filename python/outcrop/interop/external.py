"""Arrays of other libraries, which are read a tile at a time: h5py, Zarr-Python, Dask, xarray.

Nothing is asked of them but ``shape`` (a tuple), ``dtype`` (of NumPy's) and indexing with slices.
What they read is counted as the bytes of the tiles that it is in, as they are in memory. Whether
their elements change cannot be seen from here: nothing of them is kept from one computation to the
next, and a copy of one is read at once.
"""

import json
import math
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outcrop import _native
from outcrop.arrays import hooks
from outcrop.arrays.pieces import pieces
from outcrop.arrays.source import Source, fitting_tile
from outcrop.arrays.stored import StoreSource
from outcrop.arrays.views import View
from outcrop.checks import check_dtype, check_shape
from outcrop.errors import InvalidArgumentError, OutcropError, StorageError, UnsupportedError
from outcrop.formats.other_labels import attributes_of, dimension_names_of
from outcrop.process.config import ensure_configured, piece_limit
from outcrop.process.room import room

__all__ = ["ExternalSource", "external_source", "is_external"]

_SMALL = 1 << 20
"""Bytes below which tiles are taken together: each is asked for in Python."""

_LARGE = 64 << 20
"""Bytes that are asked for at once, at most, where the budget is large."""

_LEAST = 16 << 20
"""Bytes that are asked for at once, at most, where the budget is small."""

_DOZENS = 48
"""Tiles that the budget holds, where it can be chosen how large they are."""

_known: "weakref.WeakValueDictionary[int, ExternalSource]" = weakref.WeakValueDictionary()
"""By the identity of what is read: it lives as long as its source."""


def is_external(x: Any) -> bool:
    """Whether something is an array of another library, which need not be in memory.

    What lies in memory says so by ``__array_interface__`` or ``__array_struct__``, tables by
    ``iloc``, and sparse matrices by ``toarray``; NumPy knows what to do with those.
    """
    if isinstance(x, np.ndarray | np.generic | list | tuple | str | bytes):
        return False
    kind = type(x)
    if not hasattr(kind, "__getitem__") or hasattr(kind, "iloc") or hasattr(kind, "toarray"):
        return False
    shape, dtype = getattr(x, "shape", None), getattr(x, "dtype", None)
    if not (isinstance(shape, tuple) and isinstance(dtype, np.dtype)):
        return False
    return not (hasattr(x, "__array_interface__") or hasattr(x, "__array_struct__"))


@hooks.external_source.fill
def external_source(x: Any) -> Source | None:
    """What reads an array of another library a tile at a time; None for anything else."""
    if getattr(x, "shape", ()) is None and isinstance(getattr(x, "dtype", None), np.dtype):
        kind = type(x)
        library = kind.__module__.partition(".")[0]
        raise InvalidArgumentError(f"this {library}.{kind.__name__} has a type, but no shape")
    return ExternalSource.of(x) if is_external(x) else None


class _Reader:
    """What reads boxes of another library's array. It does not know its source, which holds it."""

    def __init__(self, given: Any, dtype: np.dtype[Any]) -> None:
        self.given, self.dtype = given, dtype

    @property
    def name(self) -> str:
        """For people, such as ``h5py.Dataset '/x'``."""
        kind = type(self.given)
        own = getattr(self.given, "name", None)
        library = kind.__module__.partition(".")[0]
        return f"{library}.{kind.__name__}" + (f" {own!r}" if isinstance(own, str) and own else "")

    def read(self, start: Sequence[int], shape: Sequence[int]) -> NDArray[Any]:
        """The elements of a box."""
        key = tuple(slice(s, s + n) for s, n in zip(start, shape, strict=True))
        where = ", ".join(f"{s.start}:{s.stop}" for s in key)
        try:
            found = np.asarray(self.given[key])
        except (OutcropError, MemoryError):
            raise
        except Exception as error:
            file = getattr(getattr(self.given, "file", None), "filename", None)
            place = f" of {file!r}" if isinstance(file, str) else ""
            raise StorageError(
                f"{self.name}{place}: [{where}] cannot be read: {type(error).__name__}: {error}"
            ) from error
        if found.shape != tuple(shape) or not np.can_cast(found.dtype, self.dtype, "same_kind"):
            raise InvalidArgumentError(
                f"{self.name}: gave elements of type {found.dtype} and shape {found.shape} for "
                f"[{where}] of an array of {self.dtype}"
            )
        return found

    def fill(self, start: tuple[int, ...], out: NDArray[Any]) -> None:
        """Read a box into memory."""
        out[...] = self.read(start, out.shape)


class ExternalSource(StoreSource):
    """An array of another library, read by that.

    Parameters
    ----------
    given : object
        The array.

    Raises
    ------
    UnsupportedError
        There are no such element types.
    InvalidArgumentError
        The shape makes no sense.
    """

    def __init__(self, given: Any) -> None:
        ensure_configured()
        if any(isinstance(n, float) and math.isnan(n) for n in given.shape):
            raise InvalidArgumentError(
                f"an array of {type(given).__module__} has chunks of unknown sizes, as Dask's have "
                "after a selection by a mask; x.compute_chunk_sizes() finds them"
            )
        if isinstance(getattr(given, "_meta", None), np.ma.MaskedArray):
            raise UnsupportedError(
                f"an array of {type(given).__module__} has a mask, which would be lost; fill what "
                "is masked first, such as by da.ma.filled(x, 0)"
            )
        dtype = check_dtype(given.dtype, swapped=True)
        dtype = np.dtype(dtype.name)
        shape = check_shape(given.shape, dtype)
        self._reader = _Reader(given, dtype)
        tile = _tile(given, shape, dtype)
        store = _native.external_store(shape, dtype.name, tile, self._reader.fill)
        super().__init__(store, "r")
        self.path = None
        self.format = None
        self.dimension_names = dimension_names_of(given, len(shape))
        self._attributes = json.dumps(attributes_of(given))
        self.zarr_format, self.fill_value = _of_zarr(given, dtype)
        self.read_only_reason = f"it is a {self._reader.name}, which other code writes to"
        self.writable_instead = Source.writable_instead

    is_read_by_others = True

    @classmethod
    def of(cls, given: Any) -> "ExternalSource":
        """The source of an array, the same one as long as there is one."""
        found = _known.get(id(given))
        if found is None or found._store is None or found.shape != tuple(given.shape):
            found = _known[id(given)] = cls(given)
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        # By what the library makes of it.
        return ExternalSource.of, (self._reader.given,)

    def now(self) -> Source:
        # Whether it changes, nobody can tell.
        return self

    @property
    def changes_unseen(self) -> bool:
        return True

    def describe(self, selection: str) -> str:
        return f"{self._reader.name}{selection}"

    def read(self, view: View) -> NDArray[Any]:
        self.check_open()
        limit = min(max(piece_limit(), _LEAST), _LARGE)
        nbytes = view.size * self.dtype.itemsize
        with room(nbytes + min(nbytes, piece_limit()), f"reading a {self._reader.name}"):
            out = np.empty(view.shape, self.dtype)
            for where, piece in pieces(view, self.grid, limit):
                out[where] = piece.apply(self._reader.read(*piece.box))
        return out

    def read_many(self, views: Iterable[View]) -> Iterator[NDArray[Any]]:
        return map(self.read, views)

    def same_elements(self, other: Source) -> bool:
        return isinstance(other, ExternalSource) and self._reader.given is other._reader.given


def _of_zarr(given: Any, dtype: np.dtype[Any]) -> tuple[int | None, np.generic | None]:
    """The version of an array of Zarr-Python, and its fill value, by which its mask is known."""
    version = getattr(getattr(given, "metadata", None), "zarr_format", None)
    if version not in (2, 3):
        return None, None
    fill = getattr(given, "fill_value", None)
    element: Any = None if fill is None else np.asarray(fill).astype(dtype)[()]
    return version, element


def _tile(given: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[int, ...]:
    """The chunks of an array, several together where they are small."""
    tile = _chunks(given, shape)
    if tile is None:
        return fitting_tile(shape, dtype, _DOZENS)
    for axis in reversed(range(len(shape))):
        while tile[axis] < shape[axis] and 2 * math.prod(tile) * dtype.itemsize <= _SMALL:
            tile[axis] = min(2 * tile[axis], shape[axis])
        # More of the axis in front would not be read in longer pieces.
        if tile[axis] < shape[axis]:
            break
    return tuple(tile)


def _chunks(given: Any, shape: tuple[int, ...]) -> list[int] | None:
    """The extents of chunks along each axis, the largest where they differ; None where unknown."""
    found = getattr(given, "shards", None) or getattr(given, "chunks", None)
    if found is None:
        # What xarray has read lazily, without Dask.
        encoding = getattr(given, "encoding", None)
        encoding = encoding if isinstance(encoding, dict) else {}
        preferred, dims = encoding.get("preferred_chunks"), getattr(given, "dims", ())
        if isinstance(preferred, dict) and all(dim in preferred for dim in dims):
            found = tuple(preferred[dim] for dim in dims)
        else:
            found = encoding.get("chunks") or encoding.get("chunksizes")
    if not isinstance(found, Iterable):
        return None
    try:
        largest = [max(n, default=1) if isinstance(n, Iterable) else int(n) for n in found]
    except (TypeError, ValueError):
        return None
    if len(largest) != len(shape):
        return None
    return [max(min(n, extent), 1) for n, extent in zip(largest, shape, strict=True)]
