"""Moving by way of a faster disk."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from outcrop import _native
from outcrop._checks import StrPath, check_path
from outcrop._lazy import Progress
from outcrop._save import create_store
from outcrop._store import StoreSource
from outcrop.array import Array
from outcrop.errors import InvalidArgumentError

__all__ = ["bridged"]


@contextmanager
def bridged(array: Array, directory: StrPath, progress: Progress | None) -> Iterator[Array]:
    """Copy what is behind a view of an array on disk, as it lies there, to a directory.

    Gives the same view of the copy, which goes at the end.
    """
    source, view = array._source, array._view
    if not isinstance(source, StoreSource):
        raise InvalidArgumentError(f"via= is for arrays on disk; this one is {source.describe('')}")
    there = _native.ScratchDirectory(check_path(directory))
    try:
        start, shape = view.box
        tiled = source.layout == "tiled"
        store = create_store(
            Path(there.path) / ("bridge.zarr" if tiled else "bridge.raw"),
            shape,
            source.dtype,
            tile=source.tile if tiled else None,
            format="zarr" if tiled else "raw",
            order="F" if source.layout == "column-major" else "C",
            codecs=None,
            zarr_format=3,
            attributes=None,
            overwrite=False,
        )
        _native.copy_box(source.store, start, shape, None, store, progress)
        store.commit()
        copied = StoreSource(store, "r+")
        try:
            yield Array(copied, view.of_box())
        finally:
            copied.close()
    finally:
        there.remove()
