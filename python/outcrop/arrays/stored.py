"""Arrays on disk, and how long they live.

What was written to a store becomes visible at its commit. That happens when the array is closed,
at the end of its ``with``, when nothing refers to it any more, or when the interpreter exits
normally; never in a process forked from the one that opened it.
"""

import atexit
import json
import logging
import os
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from outcrop import _native
from outcrop.arrays.pieces import Piece, converted_itemsize, pieces
from outcrop.arrays.source import Source, assign
from outcrop.arrays.stamps import (
    Stamp,
    changes_of,
    files_of,
    has_index,
    lasting_stamp,
    stamp_of,
    when_settled,
)
from outcrop.arrays.views import Span, View
from outcrop.errors import (
    ChangedArrayError,
    ClosedArrayError,
    CorruptArrayError,
    ForkedProcessError,
    OutcropError,
    OutcropWarning,
    StaleOperandError,
    StorageError,
    UnsupportedError,
)
from outcrop.formats.hdf5_writing import check_unchanged, let_go_of_finished
from outcrop.process.config import ensure_configured, piece_limit

__all__ = ["SampledState", "StoreSource", "StoredState", "dies_of_an_exception"]

_T = TypeVar("_T")

if TYPE_CHECKING:
    _Finalizer: TypeAlias = "weakref.finalize[[_native.Store, int], StoreSource]"

_log = logging.getLogger("outcrop")

_BATCH = 1024
"""Boxes handed to one reader. Enough to hide the pause between two, few enough to list."""


_PATIENCE = 5.0
"""Seconds for which a read begins again that finds the array changed, each time anew."""

_MANY = 32
"""Files of chunks that are not looked at again before as much time has passed as that takes."""

_LOOK = 3e-6
"""Seconds that it takes to look at one."""


class StoreSource(Source):
    """An array on disk. Facts are kept, so that a closed array can still say what it was.

    What an expression is made of is the array as it was then, a `StoredState`. It has changed where
    this process has written to it, which is counted, or where its files are not what they were.
    """

    calls_back = False

    def __init__(
        self,
        store: _native.Store,
        mode: str,
        *,
        path: str | None = None,
        offset: int = 0,
        page: int = 0,
        again: Callable[[], _native.Store] | None = None,
        seen: Stamp | None = None,
    ) -> None:
        self._store: _native.Store | None = store
        self._process = os.getpid()
        self._committed = store.committed
        self.shape = tuple(store.shape)
        self.dtype = np.dtype(store.dtype)
        self.tile = tuple(store.tile)
        self.layout, self.thickness = store.layout, store.thickness
        self.format = store.format
        self.zarr_format = store.zarr_format
        self._take_labels(store)
        # The compiled core gives names that are no text with other characters in them.
        self.path = Path(store.path if path is None else path)
        self.offset = offset
        """Of a raw file, bytes before the first element."""
        self.page = page
        """Of a TIFF file, which of its images."""
        self.writable = store.writable
        self.read_only_reason = f"it was opened with mode {mode!r}"
        self.writable_instead = f"oc.open({store.path!r}, 'r+') allows writing"
        self.scratch: object = None
        """What has to live as long, such as the directory in which the array lies."""
        self.beyond: str | None = None
        """Why more is read of it than it has, for people, where its tiles are not why."""
        self._writes = 0
        self._where = os.path.abspath(self.path)
        self._files: tuple[str, ...] = ()
        self._recent: tuple[Stamp, float] | None = None
        self._checked: tuple[Stamp, float] | None = None
        self._lasting: Stamp | None = None
        self._changes = changes_of(self._where)
        self._own_changes = 0
        self._writer = 0
        self._again = again
        self._seen = None if again is None else self._stamp(in_chunks=False)
        if self._seen is not None and seen is not None and len(seen.files) == len(self._seen.files):
            # What has come between was perhaps not opened.
            self._seen = seen
        self._now: weakref.ref[StoredState] | None = None
        self._finalizer = _commit_when_collected(self, store) if self.writable else None

    def _take_labels(self, store: _native.Store) -> None:
        self._attributes = store.attributes
        names, fill = store.dimension_names, store.fill_value
        self.dimension_names = None if names is None else tuple(names)
        self.fill_value = None if fill is None else np.frombuffer(fill, self.dtype)[0]

    @property
    def store(self) -> _native.Store:
        """The store, if it can still be used."""
        self.check_open()
        assert self._store is not None
        return self._store

    @property
    def codecs(self) -> str:
        """What the elements are encoded with, for people."""
        return self.store.codecs

    @property
    def stored_bytes(self) -> int:
        """Bytes of the files."""
        return self.store.stored_bytes

    def __reduce__(self) -> tuple[Any, ...]:
        self.check_open()
        if self.scratch is not None:
            raise UnsupportedError(
                f"an array in the scratch directory is not pickled, as it goes with this process: "
                f"save what is made of it, and pickle that ({self.describe('')})"
            )
        if self._again is None:
            raise UnsupportedError(
                f"{self.path}: an array that is open for writing is not pickled: close it, and "
                "pickle what oc.open(path) gives"
            )
        where = self._where, self.offset, self.page
        return _unpickled, (self._again, *where, self.shape, self.dtype)

    def check_open(self) -> None:
        if self.is_of_parent_process:
            raise ForkedProcessError(
                f"{self.path}: was opened before a fork; open it again in the child process"
            )
        if self._store is None:
            raise ClosedArrayError(f"{self.path}: the array is closed")

    def check_same(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        """Raise where what was found is not the array that was pickled."""
        if (self.shape, self.dtype) != (shape, dtype):
            raise ChangedArrayError(
                f"{self.path}: is another array than the one that was pickled: {self.dtype} "
                f"{self.shape}, and not {dtype} {shape}"
            )

    @property
    def is_of_parent_process(self) -> bool:
        return os.getpid() != self._process

    @property
    def attributes(self) -> dict[str, Any]:
        try:
            result: dict[str, Any] = json.loads(self._attributes)
        except (RecursionError, ValueError) as error:
            raise CorruptArrayError(
                f"{self.path}: its attributes cannot be understood: {error}"
            ) from None
        return result

    def describe(self, selection: str) -> str:
        state = ""
        if self._store is None:
            state = ", closed"
        elif not self._committed:
            state = ", invisible until it is closed"
        elif self.writable:
            state = ", writable"
        return f"{self.format} {str(self.path)!r}{selection}{state}"

    # -- elements ----------------------------------------------------------------------------

    def read(self, view: View) -> NDArray[Any]:
        return self._patiently(lambda: self._read(view), view)

    def read_into(self, out: NDArray[Any], view: View) -> None:
        # Otherwise nobody can open it again, and each piece may be read in its own way.
        if self._again is None:
            super().read_into(out, view)
        else:
            self._patiently(lambda: self._fill(out, view), view)

    def _patiently(self, read: Callable[[], _T], view: View) -> _T:
        self.renew()
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                with self.in_one_state(view):
                    return read()
            except ChangedArrayError:
                # The whole view once more, so that it is all of one state.
                if self._again is None or time.monotonic() > end:
                    raise
                self._open_again(self._stamp(in_chunks=False))
                time.sleep(0.001)

    @contextmanager
    def in_one_state(self, view: View) -> Iterator[None]:
        before = self._stamp_of(view)
        yield
        self._check_stamp(view, before)

    def _stamp_of(self, view: View) -> tuple[int, int] | None:
        """What tells whether elements have changed that are read, where nothing else does."""
        if self._again is None or view.size == 0 or self.layout != "tiled":
            return None
        store, box = self.store, view.box
        return when_settled(
            lambda: store.stamp(*box), lambda found: 0 if found is None else found[1]
        )

    def _check_stamp(self, view: View, before: tuple[int, int] | None) -> None:
        """Raise where what has been read since may be of several states."""
        if before is not None and self.store.stamp(*view.box) != before:
            raise ChangedArrayError(f"{self.path}: was changed while it was read; read it again")

    def _read(self, view: View) -> NDArray[Any]:
        self.check_open()
        if view.size == 0:
            return np.empty(view.shape, self.dtype)
        if view.is_dense:
            return view.apply(self.read_box(*view.box))
        out = np.empty(view.shape, self.dtype)
        self._fill(out, view)
        return out

    def _fill(self, out: NDArray[Any], view: View) -> None:
        itemsize = max(self.dtype.itemsize, converted_itemsize(self.dtype, out.dtype))
        grid = replace(self.grid, itemsize=itemsize)
        for (where, piece), box in self.read_ahead(pieces(view, grid, piece_limit())):
            out[where] = piece.apply(box)

    def read_many(self, views: Iterable[View]) -> Iterator[NDArray[Any]]:
        self.renew()
        views = iter(views)
        while batch := list(islice(views, _BATCH)):
            while batch:
                done = 0
                # Not in a handler: what an exception holds of the reader would have its memory.
                with suppress(ChangedArrayError):
                    for elements in self._read_ahead(batch):
                        done += 1
                        yield elements
                if done < len(batch):
                    yield self.read(batch[done])
                    done += 1
                batch = batch[done:]

    def _read_ahead(self, views: Sequence[View]) -> Iterator[NDArray[Any]]:
        # One reader for all of them: a second beside it would lack the memory that this one has.
        stamps = [self._stamp_of(view) for view in views]
        reads = self.read_ahead(part for view in views for part in self._parts(view))
        for view, stamp in zip(views, stamps, strict=True):
            if view.is_dense and view.size:
                (_, piece), box = next(reads)
                elements = piece.apply(box)
            else:
                elements = np.empty(view.shape, self.dtype)
                left = view.size
                while left:
                    (where, piece), box = next(reads)
                    elements[where] = piece.apply(box)
                    left -= piece.size
            self._check_stamp(view, stamp)
            yield elements

    def read_box(self, start: Sequence[int], shape: Sequence[int]) -> NDArray[Any]:
        """The elements of a box."""
        return self.store.read(start, shape)

    def read_ahead(self, cut: Iterator[Piece]) -> Iterator[tuple[Piece, NDArray[Any]]]:
        """The boxes of pieces, read ahead of who takes them."""
        store = self.store
        while batch := list(islice(cut, _BATCH)):
            yield from zip(batch, store.reader([piece.box for _, piece in batch]), strict=True)

    def verify(self, accept: bool, progress: Callable[[int, int], None] | None) -> list[str]:
        """Read everything; a line for each tile that is damaged."""
        return self.store.verify(accept, progress)

    def _parts(self, view: View) -> Iterator[Piece]:
        if view.is_dense and view.size:
            return iter([((), view)])
        return pieces(view, self.grid, piece_limit())

    def write(self, view: View, value: NDArray[Any]) -> None:
        store = self.store
        if view.size == 0:
            return
        start, shape = view.box
        if view.is_dense:
            if value.dtype != self.dtype:
                cast = np.empty(value.shape, self.dtype)
                assign(cast, value)
                value = cast
            box = view.unapply(np.broadcast_to(value, view.shape))
            box = np.asarray(box)
        else:
            box = store.read(start, shape)
            assign(view.apply(box), value)
        with self._counted():
            store.write(start, box)
        self._writes += 1

    @contextmanager
    def _counted(self) -> Iterator[None]:
        """Around a change: who reads meanwhile finds that there was one."""
        self._count()
        try:
            yield
        finally:
            self._count()

    def _count(self) -> None:
        self._own_changes += 1
        # Of an array in tiles, others see nothing before it is committed.
        if self.layout != "tiled":
            self._changes.count += 1

    @contextmanager
    def changing(self, *, whole: bool) -> Iterator[None]:
        before, outer = self._writes, self._writer
        # What is assigned may be made of elements that the assignment has not changed yet.
        self._writer = threading.get_ident()
        try:
            yield
        except BaseException:
            # A file that is written in place has no old state to keep. What a single write leaves
            # unfinished, the store knows itself.
            is_apart = self.layout == "tiled" or not self._committed
            if self._store is not None and self._writes > before and is_apart:
                self._store.torn = True
            raise
        finally:
            self._writer = outer
        if whole and self._store is not None:
            self._store.torn = False

    def same_elements(self, other: Source) -> bool:
        return isinstance(other, StoreSource) and (
            self is other or _real(self.path) == _real(other.path)
        )

    # -- as it is now ------------------------------------------------------------------------

    def now(self) -> "Source":
        # What lies in the scratch directory is nobody else's.
        if self.scratch is not None:
            return self
        counts, stamp = self._counts(), self._stamp(lasting=True)
        self.renew(stamp)
        found = None if self._now is None else self._now()
        if found is None or found.difference(counts, stamp) is not None:
            found = StoredState(self, counts, stamp)
            self._now = weakref.ref(found)
        return found

    def renew(self, stamp: Stamp | None = None) -> None:
        """Open an array anew that is only read, and has changed: it sees what others write."""
        if self._again is None or self._store is None or self.is_of_parent_process:
            return
        if stamp is None:
            # Of small reads, looking at chunks would be most of the work.
            stamp = self._stamp(in_chunks=False)
            if stamp is None or self._seen is None or stamp.files == self._seen.files:
                return
        elif stamp == self._seen:
            return
        elif self._seen is not None and stamp.files == self._seen.files and has_index(self._where):
            # Chunks of ours that changed by themselves are damaged.
            return
        self._open_again(stamp)

    def _open_again(self, stamp: Stamp | None) -> None:
        assert self._again is not None
        try:
            store = self._again()
        except OutcropError:
            # In the midst of a change, or gone: what has been open shows what there is.
            return
        if tuple(store.shape) == self.shape and np.dtype(store.dtype) == self.dtype:
            self._store, self._seen = store, stamp
            self.tile = tuple(store.tile)
            self._take_labels(store)

    def _counts(self) -> tuple[int, int]:
        """How often it was changed by this handle, and by others of this process."""
        own = 0 if self.layout == "tiled" else self._own_changes
        return self._own_changes, self._changes.count - own

    def _stamp(
        self, *, in_chunks: bool = True, lasting: bool = False, between: bool = False
    ) -> Stamp | None:
        """That of its files; None where these may change with what has been written before.

        Between parts of what is looked at once more at its end, many chunks are not looked at for
        as long as that takes.
        """
        if not self._committed or (self._own_changes and self.layout != "tiled"):
            return None
        if not self._files:
            self._files = files_of(self._where, self.format)
        chunks = self._where if in_chunks and self.format in ("zarr", "zarr-foreign") else None
        # Looking at many chunks for each operator would take much longer than the operator. A stamp
        # that is older than what it is for tells of more changes, and never of less.
        known = self._recent if lasting else self._checked if between else None
        if chunks is not None and known is not None and time.monotonic() < known[1]:
            return known[0]
        if not lasting:
            found = stamp_of(self._files, chunks)
        elif self.format == "zarr" and has_index(self._where):
            # Nobody maps what has checksums.
            found = stamp_of(self._files, chunks, settled=True)
        else:
            self._lasting = found = lasting_stamp(self._files, chunks, self._lasting)
        many = found.chunks[0]
        known = (found, time.monotonic() + many * _LOOK) if many > _MANY else None
        if lasting:
            self._recent = known
        elif chunks is not None:
            self._checked = known
        return found

    # -- life --------------------------------------------------------------------------------

    def flush(self) -> None:
        _check_whole(self.store)
        self.store.flush()

    def close(self) -> None:
        if self._store is None:
            return
        self.check_open()
        try:
            ended = [] if self.attached is None else self.attached.end_all(write=True)
        except BaseException:
            with suppress(Exception):
                self.abort()
            raise
        store = self._let_go()
        if self.writable:
            try:
                _check_whole(store)
                store.commit()
            except BaseException:
                # The old state stays, and nothing else.
                with suppress(Exception):
                    store.abort()
                # The traceback keeps this frame; it must not keep the files and the writer's lock.
                del store
                raise
            self._committed = True
        if ended:
            # Last, since a warning may be an exception.
            written = "; what was changed there is written" if self.writable else ""
            warnings.warn(
                f"{self.path}: is closed while {', '.join(map(str, ended))} is attached{written}; "
                "release it before",
                OutcropWarning,
                stacklevel=3,
            )

    def abort(self) -> None:
        if self._store is None:
            return
        self.check_open()
        if self.attached is not None:
            self.attached.end_all(write=False)
        store = self._let_go()
        if self.writable:
            store.abort()

    def _let_go(self) -> _native.Store:
        assert self._store is not None
        if self._finalizer is not None:
            self._finalizer.detach()
            _unfinished.pop(id(self._store), None)
        store, self._store = self._store, None
        return store


class StoredState(StoreSource):
    """An array on disk as it was at some time.

    Parameters
    ----------
    live : StoreSource
        The array, which may change.
    counts : tuple of int
        How often it had been changed.
    stamp : Stamp or None
        What its files were.
    """

    def __init__(self, live: StoreSource, counts: tuple[int, int], stamp: Stamp | None) -> None:
        self._live, self._was, self._stamped = live, counts, stamp
        self.shape, self.dtype, self.tile = live.shape, live.dtype, live.tile
        self.layout, self.format, self.path = live.layout, live.format, live.path
        self.thickness = live.thickness
        self.offset, self.page, self.scratch = live.offset, live.page, live.scratch
        self.beyond = live.beyond
        self.zarr_format, self.dimension_names = live.zarr_format, live.dimension_names
        self.fill_value = live.fill_value
        self.read_only_reason = "it is part of an expression"
        self._again = None

    def __reduce__(self) -> tuple[Any, ...]:
        self.check_open()
        return _unpickled_state, (self._live, self._stamped)

    @property
    def live(self) -> Source:
        return self._live

    @property
    def state(self) -> Stamp | None:
        """What its files were; None where these may have changed with what had been written."""
        return self._stamped

    @contextmanager
    def changing(self, *, whole: bool) -> Iterator[None]:
        # Nothing is written to a state, as will be said.
        yield

    @property
    def is_as_it_was(self) -> bool:
        return True

    def now(self) -> Source:
        return self

    @property
    def is_read_by_others(self) -> bool:  # type: ignore[override]
        return self._live.is_read_by_others

    @property
    def store(self) -> _native.Store:
        return self._live.store

    def read_box(self, start: Sequence[int], shape: Sequence[int]) -> NDArray[Any]:
        return self._live.read_box(start, shape)

    def read_ahead(self, cut: Iterator[Piece]) -> Iterator[tuple[Piece, NDArray[Any]]]:
        return self._live.read_ahead(cut)

    @property
    def attributes(self) -> dict[str, Any]:
        return self._live.attributes

    @property
    def is_of_parent_process(self) -> bool:
        return self._live.is_of_parent_process

    def describe(self, selection: str) -> str:
        return self._live.describe(selection)

    def renew(self, stamp: Stamp | None = None) -> None:
        """It is of what was open when it was made."""

    def difference(self, counts: tuple[int, int], stamp: Stamp | None) -> str | None:
        """What has changed since; None for nothing."""
        if counts[0] != self._was[0]:
            return "this process has assigned to it"
        if stamp is not None and self._stamped is not None and stamp != self._stamped:
            return self._stamped.difference(stamp)
        if counts[1] != self._was[1]:
            return "this process has written to it by another array that it has open"
        return None

    def check_open(self) -> None:
        self._live.check_open()
        self.check_current()

    def check_current(self, *, between: bool = False) -> None:
        live = self._live
        if live._store is None or live._writer == threading.get_ident():
            return
        what = self.difference(live._counts(), live._stamp(between=between))
        if what is not None:
            raise StaleOperandError(
                f"{self.path}: has changed since an expression was made of it: {what}; an "
                "expression means its operands as they were when it was made, so make it anew, or "
                "save, before such a change, what it gives"
            )

    def read(self, view: View) -> NDArray[Any]:
        with self.naming_changes():
            elements = super().read(view)
        self.check_current()
        return elements

    def read_into(self, out: NDArray[Any], view: View) -> None:
        with self.naming_changes():
            super().read_into(out, view)
        self.check_current()

    def read_many(self, views: Iterable[View]) -> Iterator[NDArray[Any]]:
        for elements in super().read_many(views):
            self.check_current(between=True)
            yield elements
        self.check_current()

    def flush(self) -> None:
        self._live.flush()

    def close(self) -> None:
        self._live.close()

    def abort(self) -> None:
        self._live.abort()


def _unpickled(
    again: Callable[[], _native.Store],
    path: str,
    offset: int,
    page: int,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
) -> StoreSource:
    """The array that was pickled, opened where it lies."""
    ensure_configured()
    source = StoreSource(again(), "r", path=path, offset=offset, page=page, again=again)
    source.check_same(shape, dtype)
    return source


def _unpickled_state(live: StoreSource, stamp: Stamp | None) -> StoredState:
    """The array as it was when an expression was made of it, wherever that was."""
    found = live.now()
    if isinstance(found, StoredState) and found.state == stamp:
        return found
    # Using it is an error, which says what has happened.
    return StoredState(live, live._counts(), stamp)


def _real(path: Path | None) -> str:
    return os.path.realpath(path) if path is not None else ""


# -- assignments that ended early ------------------------------------------------------------------


def _check_whole(store: _native.Store) -> None:
    """Raise where the store must not be committed."""
    check_unchanged(store)
    if store.torn:
        raise StorageError(
            f"{store.path}: an assignment to it did not complete, and nothing that was written "
            "since it was opened, or last flushed, is kept; assign all of it before it is closed, "
            "or save what it holds under another name"
        )


# -- the end of the life of an array that nobody closed ----------------------------------------

_unfinished: "dict[int, _Finalizer]" = {}
"""By id of the store, the finalizers of writable arrays that are neither closed nor collected."""


def _commit_when_collected(source: StoreSource, store: _native.Store) -> "_Finalizer":
    # The finalizer must not refer to the source: that would keep it alive. Its own run at exit
    # cannot know how the interpreter exits, so `_finish_all` takes its place.
    finalizer = weakref.finalize(source, _finish, store, os.getpid())
    finalizer.atexit = False
    _unfinished[id(store)] = finalizer
    return finalizer


def _finish(store: _native.Store, process: int) -> None:
    """Commit a store whose last array has been collected."""
    _unfinished.pop(id(store), None)
    if os.getpid() == process:
        _commit_or_report(store)


def _commit_or_report(store: _native.Store) -> None:
    # There is no caller to raise to.
    path = store.path
    try:
        _check_whole(store)
        store.commit()
    except Exception as error:
        with suppress(Exception):
            store.abort()
        _log.error("an array that was not closed could not be kept: %s: %s", path, error)
    let_go_of_finished()


# Before the next one, so that it comes after that: Python calls the last one first.
atexit.register(_native.end)


@atexit.register
def _finish_all() -> None:
    """Commit what is still open where the interpreter exits normally, and forget it elsewhere."""
    failed = dies_of_an_exception()
    while _unfinished:
        detached = _unfinished.popitem()[1].detach()
        if detached is None:
            continue
        store, process = detached[2]
        if os.getpid() != process:
            continue
        if failed:
            with suppress(Exception):
                store.abort()
        else:
            _commit_or_report(store)


def dies_of_an_exception() -> bool:
    """Whether the interpreter ends because of an exception that nobody has caught."""
    # The interpreter leaves the exception that ends a script in sys.last_value. An interactive
    # session has one from any earlier mistake, and is ended by its user.
    interactive = hasattr(sys, "ps1") or bool(sys.flags.interactive)
    return getattr(sys, "last_value", None) is not None and not interactive


class SampledState(StoredState):
    """Indices at equal distances along some axes of a state, of which each is read by itself.

    Parameters
    ----------
    state : StoredState
        The array as it was.
    spans : mapping from int to Span
        What is taken along axes, forwards.
    """

    def __init__(self, state: StoredState, spans: Mapping[int, Span]) -> None:
        super().__init__(state._live, state._was, state._stamped)
        self._indices = [(a, (s.start, s.step, s.length)) for a, s in spans.items()]
        self._whole = state
        self._samples: tuple[_native.Store, _native.Store] | None = None
        # As the core has them.
        self.shape = tuple(spans[a].length if a in spans else n for a, n in enumerate(state.shape))
        self.tile = tuple(1 if a in spans else t for a, t in enumerate(state.tile))

    def __reduce__(self) -> tuple[Any, ...]:
        spans = {axis: Span(*span) for axis, span in self._indices}
        return SampledState, (self._whole, spans)

    @property
    def store(self) -> _native.Store:
        whole = self._live.store
        # It may have been opened again.
        if self._samples is None or self._samples[0] is not whole:
            self._samples = whole, whole.sampled(self._indices)
        return self._samples[1]

    def read_box(self, start: Sequence[int], shape: Sequence[int]) -> NDArray[Any]:
        return self.store.read(start, shape)

    def read_ahead(self, cut: Iterator[Piece]) -> Iterator[tuple[Piece, NDArray[Any]]]:
        return StoreSource.read_ahead(self, cut)
