"""A file as libraries see it that write metadata, of which nothing is written to the disk."""

import os
from collections.abc import Iterator
from typing import Any

__all__ = ["Overlay"]

_BLOCK = 4096


class Overlay:
    """A file of any length of which only what is written is kept, over one that is only read.

    Parameters
    ----------
    below : int, optional
        A descriptor of the file of which bytes are that nobody has written here. Without, these are
        zeros.

    Attributes
    ----------
    length : int
        Bytes of the file as it would be.
    """

    def __init__(self, below: int | None = None) -> None:
        self._below = below
        self._blocks: dict[int, bytearray] = {}
        self._at = 0
        self._known = 0 if below is None else os.fstat(below).st_size
        self.length = self._known

    def bytes_between(self, start: int, end: int) -> bytes:
        """The bytes of a part; zeros where there is nothing."""
        result = bytearray(end - start)
        if self._below is not None and start < self._known:
            old = os.pread(self._below, min(end, self._known) - start, start)
            result[: len(old)] = old
        for at, block in self._within(start, end):
            low, high = max(at, start), min(at + _BLOCK, end)
            result[low - start : high - start] = block[low - at : high - at]
        return bytes(result)

    def written(self) -> Iterator[tuple[int, bytes]]:
        """The blocks in which something was written: where each begins, and its bytes."""
        for number in sorted(self._blocks):
            at = number * _BLOCK
            if at < self.length:
                yield at, bytes(self._blocks[number][: self.length - at])

    def _within(self, start: int, end: int) -> Iterator[tuple[int, bytearray]]:
        first, last = start // _BLOCK, -(-end // _BLOCK)
        some: Any = range(first, last)
        if len(self._blocks) < last - first:
            some = [number for number in self._blocks if first <= number < last]
        for number in some:
            if number in self._blocks:
                yield number * _BLOCK, self._blocks[number]

    # -- what libraries call ---------------------------------------------------------------------

    def write(self, data: Any) -> int:
        """Keep bytes, from where the last call has ended."""
        piece = memoryview(data).cast("B")
        start, done = self._at, 0
        while done < len(piece):
            number, skip = divmod(start + done, _BLOCK)
            count = min(_BLOCK - skip, len(piece) - done)
            if number not in self._blocks:
                at = number * _BLOCK
                self._blocks[number] = bytearray(self.bytes_between(at, at + _BLOCK))
            self._blocks[number][skip : skip + count] = piece[done : done + count]
            done += count
        self._at += done
        self.length = max(self.length, self._at)
        return done

    def read(self, size: int = -1) -> bytes:
        """The bytes that follow, up to the end."""
        end = self.length if size < 0 else min(self._at + size, self.length)
        start, self._at = self._at, max(self._at, end)
        return self.bytes_between(start, max(start, end))

    def readinto(self, buffer: Any) -> int:
        """Fill memory with the bytes that follow."""
        target = memoryview(buffer).cast("B")
        # As of a file that is longer: HDF5 asks for what it has made room for.
        target[:] = self.bytes_between(self._at, self._at + len(target))
        self._at += len(target)
        return len(target)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to another place."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.length}[whence]
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        """Where the next call begins."""
        return self._at

    def truncate(self, size: int | None = None) -> int:
        """Forget what is behind a place."""
        size = self._at if size is None else size
        self._known = min(self._known, size)
        for number in [number for number in self._blocks if number * _BLOCK >= size]:
            del self._blocks[number]
        if size % _BLOCK and (last := self._blocks.get(size // _BLOCK)):
            last[size % _BLOCK :] = bytes(_BLOCK - size % _BLOCK)
        self.length = size
        return size

    def flush(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Nothing is open."""
