"""An archive as Zarr-Python sees it, which decodes what the compiled core cannot read in place.

Zarr-Python has a store of its own for that, on Python's ``zipfile``, which believes more of an
archive than `Archive` does, and reads one entry at a time. Nothing here is imported before an array
needs it.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any, NoReturn

from zarr.abc.store import (
    ByteRequest,
    OffsetByteRequest,
    RangeByteRequest,
    Store,
    SuffixByteRequest,
)
from zarr.core.buffer import Buffer, BufferPrototype

from outcrop.errors import UnsupportedError
from outcrop.formats.zip_archives import Archive

__all__ = ["ArchiveStore"]


class ArchiveStore(Store):
    """The entries of an archive, for reading.

    Parameters
    ----------
    archive : Archive
        Which.
    most : int
        The most bytes of an entry that are read at once.
    """

    supports_writes = False
    supports_deletes = False
    supports_partial_writes = False
    supports_listing = True

    def __init__(self, archive: Archive, most: int) -> None:
        super().__init__(read_only=True)
        self._archive, self._most = archive, most

    def __eq__(self, value: object) -> bool:
        return isinstance(value, ArchiveStore) and self._archive is value._archive

    def __str__(self) -> str:
        return self._archive.path

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """An entry, or bytes of it; None where there is none."""
        found = await asyncio.to_thread(self._get, key, byte_range)
        return None if found is None else prototype.buffer.from_bytes(found)

    def _get(self, key: str, byte_range: ByteRequest | None) -> bytes | None:
        number = self._archive.names.get(key)
        if number is None:
            return None
        if byte_range is None:
            return self._archive.read(key, self._most)
        stored = self._archive.stored(number)
        match byte_range:
            case RangeByteRequest(start, end):
                begin, length = start, end - start
            case OffsetByteRequest(offset):
                begin, length = offset, stored - offset
            case SuffixByteRequest(suffix):
                begin, length = max(0, stored - suffix), suffix
        # What an index in a chunk says is not to be believed.
        return self._archive.read_range(key, max(0, begin), min(max(0, length), self._most))

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Several at once."""
        return [await self.get(key, prototype, part) for key, part in key_ranges]

    async def exists(self, key: str) -> bool:
        """Whether there is such an entry."""
        return key in self._archive.names

    async def list(self) -> AsyncIterator[str]:
        """All entries."""
        for key in self._archive.names:
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Those whose names begin with something."""
        for key in self._archive.names:
            if key.startswith(prefix):
                yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """What stands in a group."""
        front = f"{prefix.rstrip('/')}/" if prefix.rstrip("/") else ""
        names = (key for key in self._archive.names if key.startswith(front))
        for name in dict.fromkeys(key[len(front) :].partition("/")[0] for key in names):
            yield name

    async def set(self, key: str, value: Buffer) -> None:
        """Nothing is written."""
        self._refuse()

    async def delete(self, key: str) -> None:
        """Nothing is written."""
        self._refuse()

    def _refuse(self, *_: Any) -> NoReturn:
        raise UnsupportedError(f"{self._archive.path}: zip archives are only read")
