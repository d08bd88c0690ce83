"""Files that users name, which are files."""

import errno
import os
import stat
from collections.abc import Callable
from typing import BinaryIO, cast

from outcrop.errors import StorageError

__all__ = ["check_file", "open_file", "read_at_most", "replace_file"]

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
    return _opened(path, "rb")


def read_at_most(file: BinaryIO, most: int) -> bytes | None:
    """A file, from its begin; None where it has more bytes than `most`."""
    # Python makes room for all that is asked for, whatever the file has.
    text = file.read(min(os.fstat(file.fileno()).st_size, most) + 1)
    return text if len(text) <= most else None


def replace_file(path: str, content: bytes) -> None:
    """Write a file, in the place of one that stands there.

    Raises
    ------
    StorageError, OSError
        As for `open_file`.
    """
    with _opened(path, "wb") as file:
        file.write(content)


def _opened(path: str, mode: str) -> BinaryIO:
    def opener(name: str, flags: int) -> int:
        try:
            descriptor = os.open(name, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
        except OSError as error:
            # Of a named pipe that nobody reads, the kernel says that there is no such device.
            if error.errno == errno.ENXIO:
                raise _no_file(path, "a named pipe, a socket or a device") from None
            raise
        kind = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(kind):
            os.close(descriptor)
            raise _no_file(path, _name_of(kind))
        return descriptor

    return cast(BinaryIO, open(path, mode, opener=opener))


def _name_of(kind: int) -> str:
    return next((name for matches, name in _KINDS if matches(kind)), "a device")


def _no_file(path: str, kind: str) -> StorageError:
    return StorageError(f"{path}: cannot open the file: it is {kind}, not a file")
