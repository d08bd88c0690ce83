"""Data sets of HDF5 files, as sources."""

import os
from pathlib import Path

import numpy as np

from outcrop import _native
from outcrop.arrays import hooks
from outcrop.arrays.source import Source
from outcrop.arrays.stamps import Stamp
from outcrop.arrays.stored import StoreSource
from outcrop.formats.hdf5 import HDF5, DataSet, open_data_set

__all__ = ["DataSetSource"]


class _Opening:
    """What opens a data set, again where its file has changed; it knows what it found last."""

    found: DataSet

    def __init__(self, file: str, inside: str) -> None:
        self._file, self._inside = os.path.abspath(file), inside

    def __call__(self) -> _native.Store:
        return self.open(self._file)

    def open(self, file: str) -> _native.Store:
        """Open the file by a name that a person knows."""
        found = open_data_set(file, self._inside)
        store = found.store
        if store is None:
            source = hooks.external_source(found.given)
            assert isinstance(source, StoreSource)
            store = source.store
        self.found = found
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
        self.container = Path(file)
        self.path = self.container / self._opening.found.member.name
        self.format = HDF5
        self.read_only_reason = "HDF5 files are only read"
        self.writable_instead = Source.writable_instead

    def _take_labels(self, store: _native.Store) -> None:
        found = self._opening.found
        self._attributes = found.attributes
        self.dimension_names = found.member.dimension_names
        self.fill_value: np.generic | None = found.fill_value

    @property
    def codecs(self) -> str:
        return ", ".join(self._opening.found.member.filters) or self.store.codecs

    @property
    def stored_bytes(self) -> int:
        return self._opening.found.member.stored_bytes
