"""By what it is noticed that an array on disk has changed.

A `Stamp` says which files an array is in and when these were changed. Two that are equal mean that
nothing happened in between, as far as the file system tells: the kernel's clock for times of change
advances every few milliseconds, so a stamp is only taken of files whose last change lies before the
present tick, and what comes later has another time.

What this process writes itself need not be on disk yet. `Changes` counts that, for all that have
one path open.
"""

import os
import stat
import time
import weakref
from dataclasses import dataclass
from pathlib import Path

from outcrop._sizes import format_bytes

__all__ = [
    "CHUNKS",
    "Changes",
    "Stamp",
    "changes_of",
    "files_of",
    "has_index",
    "stamp_at",
    "stamp_of",
]

CHUNKS = 4096
"""How many files of chunks are looked at, at most, in arrays that other programs made. (Measured:
11 ms for as many; what is in more files is judged by its metadata alone.)"""

_COARSE = 5
"""Linux's CLOCK_REALTIME_COARSE, from which times of change are taken."""

_TICK = 10_000_000
"""Nanoseconds of the longest tick."""

_METADATA = ("zarr.json", ".zarray")
"""What says in the folder of an array what that is; only one of them does."""

_INDEX = ".outcrop-index"
"""What every commit of an array of ours makes anew."""

_DECISION = ".outcrop-update/commit"
"""What says, in an array that has no index, that chunks are being replaced. Its folder is made
before the first one is written, and removed after the last one is in place: both change the array's
own."""

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
        them, and their last change. Zeros where they are not looked at.
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
        # The first one is the array, or says what it is: nothing of ours makes that anew.
        if self.files[0] is None or self.files[0][:2] != later.files[0][:2]:
            return "it was replaced"
        for before, after in zip(self.files, later.files, strict=True):
            if before == after:
                continue
            if before is None or after is None or before[:2] != after[:2]:
                return f"a change to it was committed at {_clock(later.newest)}"
            if before[2] != after[2]:
                sizes = " to ".join(format_bytes(file[2]) for file in (before, after))
                return f"its size changed from {sizes}"
            return f"it was written to at {_clock(max(after[3:]))}"
        if self.chunks[0] != later.chunks[0]:
            return f"its chunks are {later.chunks[0]} files now, and were {self.chunks[0]}"
        return "its chunks were written to"


def files_of(path: str, format: str | None) -> tuple[str, ...]:
    """The files by which it is noticed that the array at a path has changed."""
    if format not in ("zarr", "zarr-foreign"):
        return (path,)
    there = [name for name in _METADATA if os.path.exists(f"{path}/{name}")] or _METADATA[:1]
    if has_index(path):
        return tuple(f"{path}/{name}" for name in (*there[:1], _INDEX))
    return f"{path}/{there[0]}", path, f"{path}/{_DECISION}"


def has_index(path: str) -> bool:
    """Whether an array has an index of checksums, which tells a tile of another state."""
    return os.path.exists(f"{path}/{_INDEX}")


def stamp_at(path: str) -> Stamp:
    """The stamp of what is at a path before it is opened, and it is known what it is."""
    where = os.path.abspath(path)
    is_zarr = os.path.isdir(where)
    settled = is_zarr and not has_index(where)
    return stamp_of(files_of(where, "zarr" if is_zarr else None), settled=settled)


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
    found = _stamp(files, chunks)
    if settled and _is_fresh(found):
        end = time.monotonic_ns() + 2 * _TICK
        while _is_fresh(found) and time.monotonic_ns() < end:
            time.sleep(0.0005)
            found = _stamp(files, chunks)
    return found


def _is_fresh(stamp: Stamp) -> bool:
    """Whether a change now could have the same time."""
    # A clock far ahead is another machine's.
    return 0 <= max(stamp.newest, stamp.chunks[3]) - time.clock_gettime_ns(_COARSE) < _TICK


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
    # The size of a folder is the file system's own affair.
    size = 0 if stat.S_ISDIR(at.st_mode) else at.st_size
    return at.st_dev, at.st_ino, size, at.st_mtime_ns, at.st_ctime_ns


def _chunks(path: str) -> _Chunks:
    """Of all files below; zeros where there are too many."""
    count = size = mixed = newest = 0
    folders = [path]
    for folder in folders:
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                        continue
                    at = entry.stat()
                    count, size = count + 1, size + at.st_size
                    newest = max(newest, at.st_mtime_ns, at.st_ctime_ns)
                    facts = at.st_ino, at.st_size, at.st_mtime_ns, at.st_ctime_ns
                    mixed ^= hash((entry.path, facts))
                    if count > CHUNKS:
                        return _UNSEEN
        except OSError:
            mixed ^= hash(folder)
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
