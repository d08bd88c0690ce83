"""What is kept in the user's cache directory, to be found by other processes.

A cache is a convenience: what is wrong in it is ignored, and what cannot be put into it is not
missed.
"""

import hashlib
import logging
import os
import stat
from contextlib import suppress
from pathlib import Path

__all__ = ["Cache", "cache_directory"]

_log = logging.getLogger("outcrop")

_MAGIC = b"outcrop1"
_SUFFIX = ".kept"


def cache_directory() -> Path | None:
    """Where the core keeps the speeds of devices, too; None where there is no such place."""
    own = os.environ.get("OUTCROP_CACHE")
    if own:
        return Path(own)
    home = os.environ.get("XDG_CACHE_HOME")
    if home and os.path.isabs(home):
        return Path(home, "outcrop")
    try:
        return Path.home() / ".cache" / "outcrop"
    except RuntimeError:
        return None


class Cache:
    """Bytes by name, in a folder of the cache directory.

    A file is written aside, and appears at once. It begins with a digest of the rest, so that what
    is damaged is not taken. Nothing is taken from a folder that others may write to.

    Parameters
    ----------
    folder : str
        Its name.
    most : int
        How many bytes it may have; beyond, what was not used for the longest time is removed.
    """

    def __init__(self, folder: str, most: int) -> None:
        self._folder, self._most = folder, most

    def get(self, name: str) -> bytes | None:
        """What is kept under a name; None for nothing that can be used."""
        directory = self._directory(made=False)
        if directory is None:
            return None
        path = directory / (name + _SUFFIX)
        try:
            kept = path.read_bytes()
        except OSError:
            return None
        head = len(_MAGIC) + hashlib.sha256().digest_size
        content = kept[head:]
        if kept[:head] != _MAGIC + hashlib.sha256(content).digest():
            _log.debug("what is kept is damaged, and not used: %s", path)
            return None
        with suppress(OSError):
            os.utime(path)
        return content

    def put(self, name: str, content: bytes) -> None:
        """Keep something, in place of what was kept under this name. Failure is no error."""
        directory = self._directory(made=True)
        if directory is None or len(content) > self._most // 4:
            return
        # Importing it takes longer than most processes would use it.
        import tempfile

        temporary = None
        try:
            number, temporary = tempfile.mkstemp(dir=directory)
            with open(number, "wb") as file:
                file.write(_MAGIC + hashlib.sha256(content).digest() + content)
            os.replace(temporary, directory / (name + _SUFFIX))
            self._shrink(directory)
        except OSError as error:
            _log.debug("not kept: %s: %s", directory, error)
            if temporary is not None:
                with suppress(OSError):
                    os.unlink(temporary)

    def _directory(self, *, made: bool) -> Path | None:
        found = cache_directory()
        if found is None:
            return None
        directory = found / self._folder
        try:
            if made:
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            facts = directory.stat()
        except OSError:
            return None
        # Code is taken from there.
        mine = facts.st_uid == os.geteuid() and not facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        return directory if mine and stat.S_ISDIR(facts.st_mode) else None

    def _shrink(self, directory: Path) -> None:
        found = []
        for entry in os.scandir(directory):
            # Another process may be removing the same.
            with suppress(OSError):
                facts = entry.stat(follow_symlinks=False)
                found.append((facts.st_mtime_ns, facts.st_size, entry.path))
        held = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if held <= self._most:
                break
            with suppress(OSError):
                os.unlink(path)
                held -= size
