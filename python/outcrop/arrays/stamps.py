"""By what it is noticed that an array on disk has changed.

A `Stamp` says which files an array is in and when these were changed. Two that are equal mean that
nothing happened in between, as far as the file system tells: the kernel's clock for times of change
advances every few milliseconds, so a stamp is only taken of files whose last change lies before the
present tick, and what comes later has another time.

Of a page of mapped memory, the kernel notes the time of the first change only, until it is written
out. So before a stamp is kept, what has changed is written out: the next change has a time again.

What this process writes itself need not be on disk yet. `Changes` counts that, for all that have
one path open.
"""

import ctypes
import errno
import os
import time
import weakref
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from outcrop.errors import StorageError
from outcrop.process.files import take_file
from outcrop.process.sizes import format_bytes

__all__ = [
    "CHUNKS",
    "Changes",
    "Stamp",
    "changes_of",
    "files_of",
    "has_index",
    "lasting_stamp",
    "stamp_at",
    "stamp_of",
    "when_settled",
]

_T = TypeVar("_T")

CHUNKS = 1 << 16
"""How many files of chunks are looked at, at most. (Measured: 11 ms for 4096.) Of more, it is how
many there are, and the times of their folders: who replaces a file by a new one changes those."""

_OWN = ".outcrop-"
"""What we keep in the folder of an array beside it: what is not committed yet is not part of it."""

_SHORT = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""What says nothing of a folder, but that there is too little of something else."""

_COARSE = 5
"""Linux's CLOCK_REALTIME_COARSE, from which times of change are taken."""

_TICK = 10_000_000
"""Nanoseconds of the longest tick."""

_TRIES = 3
"""How often what has changed is written out, where somebody goes on changing it."""

_PLAIN = {0xEF53, 0x58465342, 0x9123683E, 0x01021994}
"""By statfs: ext4, XFS, Btrfs and tmpfs, where pages are written out without a sync of the disk.
(Measured on ext4, for a clean file: 7 us, and 900 us with fdatasync, as overlayfs needs it.)"""

_libc = ctypes.CDLL(None)

_SYNC_PAGES = 7
"""Of sync_file_range: wait for what is being written, write what has changed, and wait for it."""

_METADATA = ("zarr.json", ".zarray")
"""What says in the folder of an array what that is; only one of them does."""

_INDEX = ".outcrop-index"
"""What every commit of an array of ours makes anew."""

_File = tuple[int, int, int, int, int]
_Chunks = tuple[int, int, int, int]
_UNSEEN: _Chunks = (0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Stamp:
    """The state of the files of an array.

    Attributes
    ----------
    files : tuple
        Of what describes the array, or holds all of it: device, inode, size and times of change of
        each; None where there is no such file.
    chunks : tuple of int
        How many files of chunks there are, their sizes, a number made of all there is to say of
        them, and their last change; where they are too many, that of their folders. Zeros where
        they are not looked at.
    """

    files: tuple[_File | None, ...]
    chunks: _Chunks = _UNSEEN

    @property
    def newest(self) -> int:
        """The last change, in nanoseconds."""
        last = 0
        for file in self.files:
            if file is not None:
                last = max(last, file[3], file[4])
        return last

    def difference(self, later: "Stamp") -> str:
        """What has happened, for people."""
        if later.files[0] is None:
            return "it was deleted or moved away"
        # The first one is the array, or says what it is. Where there is an index, a commit makes
        # both anew, as whoever replaces the array does.
        if self.files[0] is None or self.files[0][:2] != later.files[0][:2]:
            if None not in (*self.files, *later.files) and len(self.files) > 1:
                return f"a change to it was committed at {_clock(later.newest)}, or it was replaced"
            return "it was replaced"
        for before, after in zip(self.files, later.files, strict=True):
            if before == after:
                continue
            if before is None or after is None or before[:2] != after[:2]:
                return f"a change to it was committed at {_clock(later.newest)}"
            if before[2] != after[2]:
                old, new = format_bytes(before[2]), format_bytes(after[2])
                if old == new:
                    old, new = f"{before[2]}", f"{after[2]} bytes"
                return f"its size changed from {old} to {new}"
            return f"it was written to at {_clock(max(after[3:]))}"
        if self.chunks[0] != later.chunks[0]:
            return f"its chunks are {later.chunks[0]} files now, and were {self.chunks[0]}"
        return "its chunks were written to"


def files_of(path: str, format: str | None) -> tuple[str, ...]:
    """The files by which it is noticed that the array at a path has changed."""
    if format not in ("zarr", "zarr-foreign"):
        return (path,)
    there = [name for name in _METADATA if os.path.exists(f"{path}/{name}")] or _METADATA[:1]
    own = (_INDEX,) if format == "zarr" else ()
    return tuple(f"{path}/{name}" for name in (*there[:1], *own))


def has_index(path: str) -> bool:
    """Whether the array in a folder is ours."""
    return os.path.exists(f"{path}/{_INDEX}")


def stamp_at(path: str) -> Stamp:
    """The stamp of what is at a path before it is opened, and it is known what it is."""
    where = os.path.abspath(path)
    format = None
    if os.path.isdir(where):
        format = "zarr" if has_index(where) else "zarr-foreign"
    return stamp_of(files_of(where, format))


def stamp_of(files: tuple[str, ...], chunks: str | None = None, *, settled: bool = False) -> Stamp:
    """The stamp of what there is now.

    Parameters
    ----------
    files : tuple of str
        Those that `files_of` gives.
    chunks : str, optional
        A folder, of whose files all are looked at: where chunks can change without those files.
    settled : bool
        Whether to wait, a few milliseconds at most, until later changes have another time.
    """
    if not settled:
        return _stamp(files, chunks)
    return when_settled(
        lambda: _stamp(files, chunks), lambda found: max(found.newest, found.chunks[3])
    )


def lasting_stamp(
    files: tuple[str, ...], chunks: str | None = None, known: Stamp | None = None
) -> Stamp:
    """The stamp of what there is now, from which every later change differs, mapped memory's too.

    Parameters
    ----------
    files : tuple of str
        Those that `files_of` gives.
    chunks : str, optional
        As with `stamp_of`.
    known : Stamp, optional
        A lasting stamp of the same files: if it still holds, nothing has changed.
    """
    found = stamp_of(files, chunks, settled=True)
    for _ in range(_TRIES):
        if found == known:
            break
        for path in files:
            _write_out(path)
        if chunks is not None and found.chunks[0] <= CHUNKS:
            for folder, _, names in os.walk(chunks):
                for name in names:
                    _write_out(f"{folder}/{name}")
        # What is written meanwhile has changed the stamp before, and pages that are written again
        # then do not.
        known, found = found, stamp_of(files, chunks, settled=True)
    # Where it changes all the time, that is not what there is any more.
    return found if known is None else known


def _write_out(path: str) -> None:
    """Write out what any process has changed of a file by mapped memory."""
    with suppress(OSError), take_file(path, os.O_RDONLY | os.O_NONBLOCK) as file:
        if not _write_pages(file.fileno()):
            os.fdatasync(file.fileno())


def _write_pages(file: int) -> bool:
    """The same without a sync of the disk; False where that is not known to do."""
    try:
        told = (ctypes.c_long * 64)()
        if _libc.fstatfs(file, told) or told[0] not in _PLAIN:
            return False
        whole = ctypes.c_int64(0)
        return not _libc.sync_file_range(file, whole, whole, _SYNC_PAGES)
    except AttributeError:
        # Other C libraries have no such function.
        return False


def is_fresh(newest: int) -> bool:
    """Whether a change now could have the same time as that of the last one, in nanoseconds."""
    # A clock far ahead is another machine's.
    return 0 <= newest - time.clock_gettime_ns(_COARSE) < _TICK


def when_settled(look: Callable[[], _T], newest: Callable[[_T], int]) -> _T:
    """What `look` finds, when later changes have another time: in a few milliseconds at most."""
    found = look()
    if is_fresh(newest(found)):
        end = time.monotonic_ns() + 2 * _TICK
        while is_fresh(newest(found)) and time.monotonic_ns() < end:
            time.sleep(0.0005)
            found = look()
    return found


def _clock(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return time.strftime("%H:%M:%S", time.localtime(seconds)) + f".{rest // 1_000_000:03}"


def _stamp(files: tuple[str, ...], chunks: str | None) -> Stamp:
    found = tuple([_file(file) for file in files])
    return Stamp(found) if chunks is None else Stamp(found, _chunks(chunks))


def _file(path: str) -> _File | None:
    try:
        at = os.stat(path)
    except OSError:
        return None
    return at.st_dev, at.st_ino, at.st_size, at.st_mtime_ns, at.st_ctime_ns


def _chunks(path: str) -> _Chunks:
    """Of all files below, or of the folders that they are in."""
    found = _below(path, each=True)
    return _below(path, each=False) if found[0] > CHUNKS else found


def _below(path: str, *, each: bool) -> _Chunks:
    """Of each file, or of each folder, until there are too many files."""
    count = size = mixed = newest = 0
    folders = [path]

    def named(below: str) -> int:
        """A number for a path, which is the same in every process."""
        return zlib.crc32(os.fsencode(below[len(path) :]))

    for folder in folders:
        try:
            if not each:
                at = os.stat(folder)
                newest = max(newest, at.st_mtime_ns, at.st_ctime_ns)
                mixed ^= hash((named(folder), at.st_ino, at.st_mtime_ns, at.st_ctime_ns))
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name.startswith(_OWN):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                        continue
                    count += 1
                    if not each:
                        continue
                    at = entry.stat()
                    size += at.st_size
                    newest = max(newest, at.st_mtime_ns, at.st_ctime_ns)
                    facts = at.st_ino, at.st_size, at.st_mtime_ns, at.st_ctime_ns
                    mixed ^= hash((named(entry.path), facts))
                    if count > CHUNKS:
                        return count, size, mixed, newest
        except OSError as error:
            if error.errno in _SHORT:
                what = f"{folder}: cannot be looked at for changes: {error.strerror}"
                raise StorageError(what) from error
            mixed ^= named(folder)
    return count, size, mixed, newest


# -- what this process writes ----------------------------------------------------------------------


class Changes:
    """How often the elements at a path have been changed by this process."""

    __slots__ = ("__weakref__", "count")

    def __init__(self) -> None:
        self.count = 0


_changes: "weakref.WeakValueDictionary[str, Changes]" = weakref.WeakValueDictionary()


def changes_of(path: str | Path) -> Changes:
    """The count for a path; whoever has the array open by whatever name has the same."""
    return _changes.setdefault(os.path.realpath(path), Changes())
