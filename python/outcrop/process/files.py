"""Files that users name, which are files."""

import errno
import os
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress
from io import BufferedReader, BufferedWriter, FileIO
from typing import BinaryIO

from outcrop.errors import (
    ArrayExistsError,
    StorageError,
    StorageFullError,
    StoragePermissionError,
)

__all__ = ["check_file", "check_place", "open_file", "read_at_most", "take_file", "write_file"]

_KINDS: tuple[tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISDIR, "a directory"),
)


def check_file(path: str) -> None:
    """Refuse what is there and is no file; nothing is opened.

    Raises
    ------
    StorageError
        As for `open_file`.
    """
    try:
        kind = os.stat(path).st_mode
    except OSError:
        # Opening it will say why.
        return
    if not stat.S_ISREG(kind):
        raise _no_file(path, _name_of(kind))


def open_file(path: str) -> BinaryIO:
    """Open a file for reading.

    Raises
    ------
    StorageError
        What stands there is no file: a named pipe, which would be waited for, a socket, a device.
    OSError
        The operating system refuses.
    """
    check_file(path)
    file = take_file(path, os.O_RDONLY | os.O_NONBLOCK)
    # Another one may have come to its place.
    kind = os.fstat(file.fileno()).st_mode
    if not stat.S_ISREG(kind):
        raise _no_file(path, _name_of(kind))
    return BufferedReader(file)


def take_file(path: str, flags: int, mode: str = "rb", permissions: int = 0o666) -> FileIO:
    """Open a file as `os.open` does; it is closed when nobody has it any more.

    Parameters
    ----------
    path : str
        Of no directory.
    flags : int
        Of `os.open`; the descriptor is not inherited.
    mode : str
        Of `open`, as far as reading and writing go; nothing is made empty by it.
    permissions : int
        Of a new file, less what the process does not allow.

    Raises
    ------
    OSError
        The operating system refuses.
    """
    # An interrupt may come between any two instructions, after `os.open` and before its number
    # has a name, too, and would leave it open for good: this is one instruction.
    (file,) = map(FileIO, map(os.open, (path,), (flags | os.O_CLOEXEC,), (permissions,)), (mode,))
    return file


def read_at_most(file: BinaryIO, most: int) -> bytes | None:
    """A file, from its begin; None where it has more bytes than `most`."""
    # Python makes room for all that is asked for, whatever the file has.
    text = file.read(min(os.fstat(file.fileno()).st_size, most) + 1)
    return text if len(text) <= most else None


def write_file(path: str, content: bytes, *, overwrite: bool) -> None:
    """Write a file all at once: beside its place, where it is moved when it is complete.

    Whatever fails, what stood there stands there still. A link is followed.

    Parameters
    ----------
    path : str
        Of the file.
    content : bytes
        What it is to have.
    overwrite : bool
        Whether a file that stands there is replaced.

    Raises
    ------
    ArrayExistsError
        A file stands there, and is not to be replaced.
    StorageError
        What stands there is no file, or the operating system refuses; StorageFullError where there
        is no room, StoragePermissionError where one may not write.
    """
    try:
        _write_beside(path, content, overwrite)
    except FileExistsError:
        raise _exists(path) from None
    except StorageError:
        raise
    except OSError as error:
        kind: type[StorageError | StorageFullError] = StorageError
        if isinstance(error, PermissionError):
            kind = StoragePermissionError
        elif error.errno in (errno.ENOSPC, errno.EDQUOT):
            kind = StorageFullError
        raise kind(f"{path}: {error.strerror}", errno=error.errno) from None


def check_place(path: str, *, overwrite: bool) -> None:
    """Refuse early what `write_file` would refuse for what stands there.

    Raises
    ------
    ArrayExistsError, StorageError
        As of `write_file`.
    """
    check_file(path)
    if not overwrite and os.path.lexists(path):
        raise _exists(path)


def _exists(path: str) -> ArrayExistsError:
    return ArrayExistsError(
        f"{path}: exists already; pass overwrite=True (--overwrite) to replace it"
    )


def _write_beside(path: str, content: bytes, overwrite: bool) -> None:
    target = os.path.realpath(path)
    # As of every new file, where there is none: less what the process does not allow.
    mode: int | None = None
    with suppress(FileNotFoundError):
        mode = os.stat(target).st_mode
    if mode is not None:
        if not stat.S_ISREG(mode):
            raise _no_file(path, _name_of(mode))
        if not overwrite:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    folder, name = os.path.split(target)
    # A name has at most 255 bytes.
    short = os.fsdecode(os.fsencode(name)[:200])
    beside = os.path.join(folder, f".{short}.{secrets.token_hex(4)}.outcrop-new")
    try:
        with BufferedWriter(take_file(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, "wb")) as file:
            if mode is not None:
                os.fchmod(file.fileno(), stat.S_IMODE(mode))
            file.write(content)
            file.flush()
            # Or after a loss of power there may be a name without its content.
            os.fsync(file.fileno())
        if overwrite:
            os.replace(beside, target)
        else:
            _move(beside, target)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(beside)


def _move(beside: str, target: str) -> None:
    """Give a file its name, unless somebody has taken that in the meantime."""
    try:
        os.link(beside, target)
    except FileExistsError:
        raise
    except OSError:
        # Not every file system has links.
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from None
        os.rename(beside, target)


def _name_of(kind: int) -> str:
    return next((name for matches, name in _KINDS if matches(kind)), "a device")


def _no_file(path: str, kind: str) -> StorageError:
    return StorageError(f"{path}: cannot open the file: it is {kind}, not a file")
