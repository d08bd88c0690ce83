"""Moving by way of a faster disk."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from outcrop import _native
from outcrop.arrays.array import Array
from outcrop.arrays.computed import Progress
from outcrop.arrays.saving import create_store, sketch
from outcrop.arrays.stored import StoreSource
from outcrop.arrays.views import View
from outcrop.checks import StrPath, check_path
from outcrop.errors import InvalidArgumentError
from outcrop.formats.labels import Labels
from outcrop.program.progress import watching

__all__ = ["bridge_sketch", "bridged"]


@contextmanager
def bridged(array: Array, directory: StrPath, progress: Progress | None) -> Iterator[Array]:
    """Copy what is behind a view of an array on disk, as it lies there, to a directory.

    Gives the same view of the copy, which goes at the end.
    """
    source, view = array._source, array._view
    if not isinstance(source, StoreSource):
        raise InvalidArgumentError(f"via= is for arrays on disk; this one is {source.describe('')}")
    there = _native.ScratchDirectory(_directory(directory))
    try:
        start, shape = view.box
        name, options = _as_it_lies(source)
        store = create_store(
            Path(there.path) / name,
            shape,
            source.dtype,
            codecs=None,
            zarr_format=3,
            labels=Labels(),
            overwrite=False,
            **options,
        )
        with source.in_one_state(view), watching(progress, f"to {there.path}") as told:
            _native.copy_box(source.store, start, shape, None, store, told)
        store.commit()
        copied = StoreSource(store, "r+")
        # They say what the axes are, and what of them holds goes with the result.
        copied._attributes = source._attributes
        copied.zarr_format = source.zarr_format
        copied.dimension_names = source.dimension_names
        copied.fill_value = source.fill_value
        try:
            yield Array(copied, view.of_box())
        finally:
            copied.close()
    finally:
        there.remove()


def bridge_sketch(source: StoreSource, view: View, directory: StrPath) -> _native.Store:
    """What would be made in the directory, for plans."""
    name, options = _as_it_lies(source)
    path = Path(_directory(directory)) / name
    return sketch(str(path), view.box[1], source.dtype, labels=Labels(), **options)


def _as_it_lies(source: StoreSource) -> tuple[str, dict[str, Any]]:
    """The name of a copy, and how its elements lie."""
    if source.layout == "tiled":
        return "bridge.zarr", {"tile": source.tile, "format": "zarr", "order": "C"}
    order = "F" if source.layout == "column-major" else "C"
    return "bridge.raw", {"tile": None, "format": "raw", "order": order}


def _directory(path: StrPath) -> str:
    name = check_path(path)
    if not os.path.isdir(name):
        raise InvalidArgumentError(f"via: {name!r} is not a directory")
    return name
