"""Data sets of HDF5 files, and arrays of zip archives, as sources."""

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
from outcrop.arrays.stamps import Stamp, stamp_at
from outcrop.arrays.stored import StoreSource
from outcrop.arrays.views import View
from outcrop.errors import ChangedArrayError, CorruptArrayError, StorageError
from outcrop.formats.containers import Located
from outcrop.formats.data_sets import Container, DataSet
from outcrop.formats.hdf5 import HDF5
from outcrop.formats.hdf5_writing import let_go_of_finished
from outcrop.formats.labels import Labels, as_json
from outcrop.process.config import ensure_configured

__all__ = ["DataSetSource", "NewDataSetSource"]


class _Opening:
    """What opens a data set, again where its file has changed; it knows what it found last."""

    found: DataSet
    external: StoreSource | None
    """What another library reads, where the compiled core cannot."""

    def __init__(self, where: Located) -> None:
        self.where = where
        self.kind: Container = where.kind
        self._file, self._inside = os.path.abspath(where.file), where.inside

    def __call__(self) -> _native.Store:
        return self.open(self._file)

    def open(self, file: str) -> _native.Store:
        """Open the file by a name that a person knows."""
        found = self.kind.open(file, self._inside)
        source = None if found.store is not None else hooks.external_source(found.given)
        assert source is None or isinstance(source, StoreSource)
        self.found, self.external = found, source
        store = found.store if source is None else source.store
        assert store is not None
        return store

    def damage(self) -> Iterator[tuple[int, str | None]]:
        """How many parts with a checksum there are, and what is wrong with each, if anything is."""
        return self.kind.damage(self._file, self._inside)


class DataSetSource(StoreSource):
    """An array in a file that holds several, for reading.

    Parameters
    ----------
    where : Located
        The file, and the name of the array in it, or of a group that holds no other.
    seen : Stamp
        What the file was before it was looked at.
    """

    def __init__(self, where: Located, seen: Stamp) -> None:
        self._opening = _Opening(where)
        store = self._opening.open(where.file)
        super().__init__(store, "r", path=where.file, again=self._opening, seen=seen)
        self.path = Path(where.file) / self._opening.found.member.name
        self.format = where.kind.name
        self.zarr_format = self._opening.found.zarr_format
        self.read_only_reason = where.kind.unchanged
        self.writable_instead = Source.writable_instead

    def __reduce__(self) -> tuple[Any, ...]:
        self.check_open()
        where = self._opening.where._replace(file=os.path.abspath(self._opening.where.file))
        return _unpickled, (where, self.shape, self.dtype)

    def _take_labels(self, store: _native.Store) -> None:
        found = self._opening.found
        self._attributes = found.attributes
        self.dimension_names = found.member.dimension_names
        self.fill_value: np.generic | None = found.fill_value

    # What other libraries raise is not to pass through the compiled core, where nobody awaits it.

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
        nbytes = math.prod(self.shape) * self.dtype.itemsize

        def tell(done: int, count: int) -> None:
            if progress is not None:
                progress(nbytes * done // count, nbytes)

        is_decoded = self._opening.external is not None
        damaged: list[str] = []
        checked = 0
        for checked, (count, found) in enumerate(self._opening.damage(), 1):
            damaged += [] if found is None else [found]
            if not is_decoded:
                tell(checked, count)
        if damaged or (checked and not is_decoded):
            return damaged
        if not is_decoded:
            return super().verify(accept, progress)
        grid = [-(-n // t) for n, t in zip(self.shape, self.tile, strict=True)]
        for done, at in enumerate(np.ndindex(*grid), 1):
            start = [i * t for i, t in zip(at, self.tile, strict=True)]
            ends = zip(start, self.tile, self.shape, strict=True)
            try:
                self.read_box(start, [min(s + t, n) - s for s, t, n in ends])
            except (CorruptArrayError, StorageError) as error:
                damaged.append(str(error))
            tell(done, math.prod(grid))
        return damaged

    @property
    def is_read_by_others(self) -> bool:  # type: ignore[override]
        return self._opening.external is not None

    @property
    def codecs(self) -> str:
        return ", ".join(self._opening.found.member.filters) or self.store.codecs

    @property
    def stored_bytes(self) -> int:
        return self._opening.found.member.stored_bytes


def _unpickled(where: Located, shape: tuple[int, ...], dtype: np.dtype[Any]) -> DataSetSource:
    """The array that was pickled, opened where it lies."""
    ensure_configured()
    source = DataSetSource(where, stamp_at(where.file))
    source.check_same(shape, dtype)
    return source


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
