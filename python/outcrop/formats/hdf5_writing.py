"""New data sets of HDF5 files, which are files that take the old ones' places.

The package ``h5py`` writes metadata, to a file that is only there for it (`Overlay`), and makes
room for the elements at the edge of a block. What it has written becomes the new file's, around the
elements, which the compiled core moves. Of a file that was there before, the rest is copied.
"""

import errno
import fcntl
import math
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from typing import Any

import numpy as np

from outcrop import _native
from outcrop.errors import (
    ArrayBusyError,
    ArrayExistsError,
    ChangedArrayError,
    CorruptArrayError,
    InvalidArgumentError,
    StorageError,
    StorageFullError,
    StoragePermissionError,
    UnsupportedError,
)
from outcrop.formats.data_sets import DESCRIBED
from outcrop.formats.hdf5 import (
    found_in,
    h5py_for,
    is_data_set,
    is_hdf5,
    names_an_axis_only,
    reading,
    without_our_locks,
)
from outcrop.formats.hdf5_labels import Scales, write_attributes
from outcrop.formats.hdf5_names import checked_place
from outcrop.formats.labels import Labels, as_json
from outcrop.formats.overlay import Overlay
from outcrop.process.files import open_file, take_file

__all__ = [
    "bytes_beside",
    "check_unchanged",
    "create_data_set",
    "let_go_of_finished",
    "planned_offset",
    "stored_shape",
]

_BLOCK = 4096
"""Where elements begin, so that as many requests as possible are aligned."""

_PIECE = 64 << 20
"""Bytes that are copied between two looks at signals."""

_LONGEST_NAME = 200
"""Bytes of a name of which the name is made in full under which a file is built."""


# -- what h5py writes ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Design:
    """A file as it will be, but for its elements.

    Attributes
    ----------
    file, name : str
        Where it is, and the name of the data set.
    metadata : Overlay
        What h5py has written, over the file that is there.
    offset : int
        Where the elements begin.
    nbytes : int
        Bytes that they take.
    below : int, optional
        A descriptor of the file that is there.
    seen : os.stat_result, optional
        What that file was before it was looked at.
    """

    file: str
    name: str
    metadata: Overlay
    offset: int
    nbytes: int
    below: int | None
    seen: os.stat_result | None

    @property
    def end(self) -> int:
        return self.offset + self.nbytes

    def kept(self) -> Iterator[tuple[int, int]]:
        """The parts of the old file that are in the new one as they are."""
        if self.below is None:
            return
        assert self.seen is not None
        size = min(self.seen.st_size, self.metadata.length)
        for start, end in ((0, min(self.offset, size)), (self.end, size)):
            if start < end:
                yield start, end

    def changed(self) -> Iterator[tuple[int, bytes]]:
        """What h5py has written, without what elements will take the place of."""
        for at, block in self.metadata.written():
            front, behind = max(self.offset - at, 0), max(self.end - at, 0)
            if front and block[:front]:
                yield at, block[:front]
            if block[behind:]:
                yield at + behind, block[behind:]


@contextmanager
def _design(
    path: str,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    labels: Labels,
    overwrite: bool,
    chunk: tuple[int, ...] | None,
) -> Iterator[_Design]:
    """What a file will be with a new data set; nothing is written."""
    file, name = checked_place(path)
    h5py_for(path)
    with ExitStack() as opened:
        below, seen = None, None
        if os.path.lexists(file):
            with reading(file):
                old = opened.enter_context(open_file(file))
            below, seen = old.fileno(), os.fstat(old.fileno())
            if not is_hdf5(file):
                raise CorruptArrayError(f"{file}: is no HDF5 file: it does not begin like one")
            if not (seen.st_mode & 0o222 and os.access(file, os.W_OK)):
                # What takes its place would have its permissions, and could be made all the same.
                raise StoragePermissionError(
                    f"{file}: may not be written to, and a data set in it would change it",
                    errno=errno.EACCES,
                )
            _check_not_written_here(file, seen)
        metadata = Overlay(below)
        with reading(file):
            offset = _written(metadata, path, name, shape, dtype, labels, overwrite, chunk)
        nbytes = math.prod(stored_shape(shape, chunk)) * dtype.itemsize
        start = metadata.length if offset is None else offset
        yield _Design(file, name, metadata, start, nbytes, below, seen)


def _check_not_written_here(file: str, seen: os.stat_result) -> None:
    """Refuse a file that this process has open for writing by h5py, whose locks may be off."""
    import h5py  # type: ignore[import-untyped]

    for other in h5py.h5f.get_obj_ids(h5py.h5f.OBJ_ALL, h5py.h5f.OBJ_FILE):
        try:
            is_same = os.path.samestat(os.stat(other.name), seen)
        except (OSError, ValueError):
            # It is no file, or has no name any more.
            continue
        if is_same and other.get_intent() & h5py.h5f.ACC_RDWR:
            raise ArrayBusyError(
                f"{file}: is open for writing in this process, by h5py; close it first"
            )


def _written(
    metadata: Overlay,
    path: str,
    name: str,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    labels: Labels,
    overwrite: bool,
    chunk: tuple[int, ...] | None,
) -> int | None:
    """Let h5py write a data set without its elements; gives where these begin, if there are any."""
    import h5py

    nbytes = math.prod(stored_shape(shape, chunk)) * dtype.itemsize
    is_new = metadata.length == 0
    above, _, own = name.rpartition("/")
    with h5py.File(metadata, "w" if is_new else "r+") as file:
        if file.userblock_size:
            raise UnsupportedError(
                f"{path}: the file begins with a user block, and is only read; save to a file of "
                "its own, or 'h5unjam' takes the block out"
            )
        group = _group(file, path, above)
        old = _replaced(group, path, own, overwrite)
        scales = Scales(group, own, shape, labels.dimension_names)
        scales.prepare(path, old, overwrite=overwrite)
    # Of what is as small as metadata the edge of a block would make metadata long, which does not
    # matter in a file that is copied anyway; a new one is written as a whole.
    least = _BLOCK if is_new else max(min(nbytes, _BLOCK), 1)
    aligned: dict[str, Any] = {"alignment_threshold": least, "alignment_interval": _BLOCK}
    if chunk is not None:
        # From this version on, chunks that are all there follow one another, without an index.
        aligned["libver"] = ("v110", "v110")
    with h5py.File(metadata, "r+", **aligned) as file:
        group = file[above] if above else file
        if old is not None:
            # In one session with making the new one, which may take the room that is free.
            del group[own]
        described = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        if chunk is None:
            described.set_layout(h5py.h5d.CONTIGUOUS)
        else:
            described.set_chunk(chunk)
        described.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        described.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        if labels.fill_value is not None:
            described.set_fill_value(np.asarray(labels.fill_value, dtype))
        kind = h5py.h5t.py_create(dtype, logical=True)
        space = h5py.h5s.create_simple(shape) if shape else h5py.h5s.create(h5py.h5s.SCALAR)
        made = h5py.h5d.create(group.id, own.encode(), kind, space, described)
        offset: int | None = made.get_offset() if chunk is None else _first_chunk(made, path)
    if nbytes and (offset is None or (offset % _BLOCK and not is_new)):
        raise UnsupportedError(
            f"{path}: the file manages its space in pages, in which elements cannot be placed; "
            "'h5repack -S NONE' makes one that takes new data sets"
        )
    with h5py.File(metadata, "r+") as file:
        group = file[above] if above else file
        write_attributes(group[own], labels.attributes or {}, dtype)
        Scales(group, own, shape, labels.dimension_names).attach(scales)
    return offset


def _first_chunk(made: Any, path: str) -> int:
    """Where chunks begin, which follow one another in row-major order."""
    count = made.get_num_chunks()
    first, last = made.get_chunk_info(0), made.get_chunk_info(count - 1)
    nbytes = first.size
    if not any(first.chunk_offset) and last.byte_offset == first.byte_offset + (count - 1) * nbytes:
        return int(first.byte_offset)
    raise UnsupportedError(
        f"{path}: this version of HDF5 does not put chunks one after the other; 'pip install -U "
        "h5py' brings one that does, and without tile= there are none"
    )


def _group(file: Any, path: str, above: str) -> Any:
    """The group in which a data set will stand, made where there is none."""
    import h5py

    node = file
    parts = above.split("/") if above else []
    for i, part in enumerate(parts):
        name = part.encode("utf-8", "surrogateescape")
        if not node.id.links.exists(name):
            return node.create_group("/".join(parts[i:]))
        node = found_in(node, path, part)
        if not isinstance(node, h5py.Group):
            raise InvalidArgumentError(
                f"{path}: {'/'.join(parts[: i + 1])!r} is no group, and nothing can be in it"
            )
    return node


def _replaced(group: Any, path: str, own: str, overwrite: bool) -> Any:
    """What is there of this name and will go; None for nothing."""
    import h5py

    name = own.encode("utf-8", "surrogateescape")
    if not group.id.links.exists(name):
        return None
    if group.id.links.get_info(name).type != h5py.h5l.TYPE_HARD:
        raise UnsupportedError(f"{path}: is a link, and will not be overwritten; save to its end")
    old = group[own]
    if not is_data_set(old):
        raise UnsupportedError(f"{path}: is a group or a type, and will not be overwritten")
    if not overwrite and not (names_an_axis_only(old) and old.shape is not None):
        raise ArrayExistsError(f"{path}: exists already; overwrite=True replaces it")
    return old


# -- making ----------------------------------------------------------------------------------------


def stored_shape(shape: tuple[int, ...], chunk: tuple[int, ...] | None) -> tuple[int, ...]:
    """The shape of a block of elements: of chunks, their numbers along each axis, and their shape.

    Chunks at the ends are as long as the others.
    """
    if chunk is None:
        return shape
    return (*(-(-n // c) for n, c in zip(shape, chunk, strict=True)), *chunk)


def planned_offset(
    path: str,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    labels: Labels,
    chunk: tuple[int, ...] | None,
) -> int:
    """Bytes before the first element of what `create_data_set` would make."""
    with _design(path, shape, dtype, labels, True, chunk) as design:
        return design.offset


def bytes_beside(
    path: str,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    labels: Labels,
    chunk: tuple[int, ...] | None,
) -> int:
    """Bytes that are copied besides, of the file that is there."""
    with _design(path, shape, dtype, labels, True, chunk) as design:
        return sum(end - start for start, end in design.kept())


def create_data_set(
    path: str,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    labels: Labels,
    overwrite: bool,
    chunk: tuple[int, ...] | None,
) -> tuple[_native.Store, int]:
    """Make a data set that is not visible yet; with the bytes that were copied.

    Of one in chunks, what is made is the block of all of them, as `stored_shape` has it.

    It appears, all at once, with all else that is in its file, which is a new one. Nobody who
    respects HDF5's locks can write to the old one meanwhile.

    Raises
    ------
    ArrayExistsError
        Something of this name is there, and `overwrite` is False.
    ArrayBusyError
        The file is open elsewhere.
    InvalidArgumentError, InvalidTypeError, UnsupportedError
        There can be no such data set.
    CorruptArrayError
        What is there is no sound HDF5 file.
    StorageFullError, StoragePermissionError, StorageError
        The operating system refuses.
    """
    let_go_of_finished()
    with _design(path, shape, dtype, labels, overwrite, chunk) as design:
        about = (DESCRIBED, stored_shape(shape, chunk), dtype.str, design.offset)
        attributes = as_json(dict(labels.attributes or {}), "attributes")
        metadata, file = design.metadata, design.file
        if design.below is None:
            front = metadata.bytes_between(0, design.offset)
            behind = metadata.bytes_between(design.end, max(design.end, metadata.length))
            return _native.create_file(file, *about, front, behind, attributes, False), 0
        staged = _staged(file)
        _check_space(file, metadata.length)
        with without_our_locks(design.below), _naming_readers(file):
            store = _native.create_file(file, *about, b"", b"", attributes, True)
        try:
            successor = os.path.join(staged, "data")
            held = _hold(file, design.seen, successor)
            try:
                copied = _add_the_rest(design, successor)
                held.check()
            except BaseException:
                held.close()
                raise
        except BaseException:
            with suppress(Exception):
                store.abort()
            raise
        _held.append(held)
        return store, copied


def _staged(file: str) -> str:
    """The directory in which the compiled core builds what takes a file's place."""
    above, name = os.path.split(os.path.realpath(file))
    if len(os.fsencode(name)) > _LONGEST_NAME:
        raise UnsupportedError(
            f"{file}: has a name of more than {_LONGEST_NAME} bytes, and is only read"
        )
    return os.path.join(above, f".{name}.outcrop-new")


def _check_space(file: str, nbytes: int) -> None:
    at = os.statvfs(os.path.dirname(os.path.realpath(file)))
    free = at.f_bavail * at.f_frsize
    if free < nbytes:
        raise StorageFullError(
            f"{file}: a file of {nbytes} bytes is made beside it, and {free} bytes are free",
            errno=errno.ENOSPC,
        )


@contextmanager
def _naming_readers(file: str) -> Iterator[None]:
    """Say of a file that is locked that who reads it may have done that."""
    try:
        yield
    except ArrayBusyError as error:
        if ".outcrop-new" not in str(error):
            error.args = (
                f"{error}; HDF5 locks files that are read, too: who has it open, here or "
                "elsewhere, has to close it first",
            )
        raise


def _add_the_rest(design: _Design, staged: str) -> int:
    """Give a file that is being built what h5py has written, and what was in the old one."""
    assert design.below is not None
    taken = take_file(staged, os.O_WRONLY | os.O_NOFOLLOW, "wb")
    file = taken.fileno()
    try:
        length = design.metadata.length
        if length > design.end:
            with _not_everywhere():
                os.posix_fallocate(file, design.end, length - design.end)
            os.ftruncate(file, length)
        copied = 0
        for start, end in design.kept():
            _copy(design.below, file, start, end)
            copied += end - start
        for at, piece in design.changed():
            _write(file, piece, at)
        return copied
    except OSError as error:
        what = os.strerror(error.errno or errno.EIO)
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise StorageFullError(
                f"{design.file}: no room for its copy of {design.metadata.length} bytes: {what}",
                errno=error.errno,
            ) from None
        raise StorageError(f"{design.file}: cannot copy it: {what}", errno=error.errno) from None
    finally:
        taken.close()


@contextmanager
def _not_everywhere() -> Iterator[None]:
    """Around what some file systems do not do."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS, errno.EXDEV):
            raise


def _copy(old: int, new: int, start: int, end: int) -> None:
    """Copy a part of a file; where the file system can, both have the same blocks from then on."""
    at = start
    with _not_everywhere():
        while at < end:
            done = os.copy_file_range(old, new, min(end - at, _PIECE), at, at)
            if not done:
                break
            at += done
    while at < end:
        piece = os.pread(old, min(end - at, 1 << 20), at)
        if not piece:
            raise OSError(errno.EIO, "the file became shorter")
        _write(new, piece, at)
        at += len(piece)


def _write(file: int, piece: bytes, at: int) -> None:
    done = 0
    while done < len(piece):
        done += os.pwrite(file, piece[done:], at + done)


# -- the old file, meanwhile -----------------------------------------------------------------------


@dataclass(frozen=True)
class _Held:
    """A file that nobody may change until another one has taken its place."""

    path: str
    file: FileIO
    seen: os.stat_result
    successor: str
    successor_id: int

    def is_finished(self) -> bool:
        """Whether its successor is there, or will not come.

        They are exchanged: where its directory cannot be removed then, the old one is in it.
        """
        try:
            return os.lstat(self.successor).st_ino != self.successor_id
        except OSError:
            return True

    def check(self) -> None:
        """Refuse to replace what is not what was copied."""
        now = os.fstat(self.file.fileno())
        same = (now.st_size, now.st_mtime_ns) == (self.seen.st_size, self.seen.st_mtime_ns)
        with suppress(OSError):
            same = same and os.path.samestat(os.stat(self.path), now)
        if not same:
            raise ChangedArrayError(
                f"{self.path}: was changed by another program while a data set was added to it, "
                "which is given up; save it again"
            )

    def close(self) -> None:
        self.file.close()


_held: list[_Held] = []

_letting_go = threading.Lock()


def _hold(file: str, seen: os.stat_result | None, successor: str) -> _Held:
    """Lock a file as who reads it by HDF5 does: nobody can open it for writing then."""
    assert seen is not None
    taken = take_file(file, os.O_RDONLY | os.O_NONBLOCK)
    number = os.lstat(successor).st_ino
    held = _Held(os.path.realpath(file), taken, seen, successor, number)
    try:
        held.check()
        try:
            fcntl.flock(taken, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ArrayBusyError(
                f"{file}: is being written by another program, which has locked it"
            ) from None
        except OSError:
            # There are file systems without locks, where HDF5 has none either.
            pass
    except BaseException:
        held.close()
        raise
    return held


def check_unchanged(store: _native.Store) -> None:
    """Refuse to make a data set visible in place of a file that has changed meanwhile.

    Raises
    ------
    ChangedArrayError
        It has. What is being written has to be given up.
    """
    if not _held or store.format != DESCRIBED:
        return
    path = os.path.realpath(store.path)
    for held in _held:
        if held.path == path and not held.is_finished():
            held.check()


def let_go_of_finished() -> None:
    """Unlock files whose successors are there, or will not come."""
    with _letting_go:
        for held in [held for held in _held if held.is_finished()]:
            _held.remove(held)
            held.close()
