"""Data sets of HDF5 files, as sources."""

import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outcrop import _native
from outcrop.arrays import hooks
from outcrop.arrays.pieces import Piece
from outcrop.arrays.source import Source
from outcrop.arrays.stamps import Stamp
from outcrop.arrays.stored import StoreSource
from outcrop.arrays.views import View
from outcrop.errors import ChangedArrayError, StorageError
from outcrop.formats.hdf5 import HDF5, DataSet, open_data_set
from outcrop.formats.hdf5_writing import let_go_of_finished
from outcrop.formats.labels import Labels, as_json

__all__ = ["DataSetSource", "NewDataSetSource"]


class _Opening:
    """What opens a data set, again where its file has changed; it knows what it found last."""

    found: DataSet
    external: StoreSource | None
    """What h5py reads, where the compiled core cannot."""

    def __init__(self, file: str, inside: str) -> None:
        self._file, self._inside = os.path.abspath(file), inside

    def __call__(self) -> _native.Store:
        return self.open(self._file)

    def open(self, file: str) -> _native.Store:
        """Open the file by a name that a person knows."""
        found = open_data_set(file, self._inside)
        source = None if found.store is not None else hooks.external_source(found.given)
        assert source is None or isinstance(source, StoreSource)
        self.found, self.external = found, source
        store = found.store if source is None else source.store
        assert store is not None
        return store


class DataSetSource(StoreSource):
    """A data set of an HDF5 file, for reading.

    Parameters
    ----------
    file : str
        The file.
    inside : str
        The name of the data set in it, or of a group that holds no other.
    seen : Stamp
        What the file was before it was looked at.
    """

    def __init__(self, file: str, inside: str, seen: Stamp) -> None:
        self._opening = _Opening(file, inside)
        store = self._opening.open(file)
        super().__init__(store, "r", path=file, again=self._opening, seen=seen)
        self.path = Path(file) / self._opening.found.member.name
        self.format = HDF5
        self.read_only_reason = "data sets of HDF5 are not changed where they lie"
        self.writable_instead = Source.writable_instead

    def _take_labels(self, store: _native.Store) -> None:
        found = self._opening.found
        self._attributes = found.attributes
        self.dimension_names = found.member.dimension_names
        self.fill_value: np.generic | None = found.fill_value

    # What h5py raises is not to pass through the compiled core, where nobody waits for it.

    def read_box(self, start: Sequence[int], shape: Sequence[int]) -> NDArray[Any]:
        external = self._opening.external
        if external is None:
            return super().read_box(start, shape)
        self.check_open()
        return external.read(View.whole(self.shape).part(start, shape))

    def read_ahead(self, cut: Iterator[Piece]) -> Iterator[tuple[Piece, NDArray[Any]]]:
        if self._opening.external is None:
            yield from super().read_ahead(cut)
            return
        for where, piece in cut:
            yield (where, piece), self.read_box(*piece.box)

    @contextmanager
    def in_one_state(self, view: View) -> Iterator[None]:
        before = None if self._opening.external is None else self._stamp()
        with super().in_one_state(view):
            yield
        if before is not None and self._stamp() != before:
            raise ChangedArrayError(f"{self.path}: was changed while it was read; read it again")

    def verify(self, accept: bool, progress: Callable[[int, int], None] | None) -> list[str]:
        external = self._opening.external
        if external is None:
            return super().verify(accept, progress)
        damaged: list[str] = []
        grid = [-(-n // t) for n, t in zip(self.shape, self.tile, strict=True)]
        count = math.prod(grid)
        for done, at in enumerate(np.ndindex(*grid)):
            start = [i * t for i, t in zip(at, self.tile, strict=True)]
            ends = zip(start, self.tile, self.shape, strict=True)
            try:
                self.read_box(start, [min(s + t, n) - s for s, t, n in ends])
            except StorageError as error:
                damaged.append(str(error))
            if progress is not None:
                nbytes = math.prod(self.shape) * self.dtype.itemsize
                progress(nbytes * (done + 1) // count, nbytes)
        return damaged

    @property
    def codecs(self) -> str:
        return ", ".join(self._opening.found.member.filters) or self.store.codecs

    @property
    def stored_bytes(self) -> int:
        return self._opening.found.member.stored_bytes


class NewDataSetSource(StoreSource):
    """A data set that is being made, to which elements are assigned.

    Parameters
    ----------
    store : outcrop._native.Store
        The file that is being built.
    file, inside : str
        Where it will be, and the name of the data set in it.
    labels : Labels
        What it is labelled with.
    """

    def __init__(self, store: _native.Store, file: str, inside: str, labels: Labels) -> None:
        self._labels = labels
        super().__init__(store, "r+", path=file)
        self.path = Path(file) / inside
        self.format = HDF5

    def _take_labels(self, store: _native.Store) -> None:
        labels = self._labels
        self._attributes = as_json(dict(labels.attributes or {}), "attributes")
        self.dimension_names, self.fill_value = labels.dimension_names, labels.fill_value

    def close(self) -> None:
        try:
            super().close()
        finally:
            let_go_of_finished()

    def abort(self) -> None:
        super().abort()
        let_go_of_finished()
