"""Zip archives: which entries there are, and where in the file each of them lies.

Python's ``zipfile`` reads more archives than this does. It looks past a directory that has another
number of entries than it says, makes an object of half a kilobyte of each before anybody knows how
many there will be, and finds entries that lie over one another where it happens to open them. In a
store of chunks, an entry that is not there is no error, but elements of the fill value; so here a
directory has to be whole, and to agree with what stands in front of each entry.

An archive ends in a *directory*, which names the entries and says where each has its *header*; the
bytes of an entry follow that. Of two entries of one name, the later one in the directory counts.
"""

import os
import struct
import weakref
import zlib
from array import array
from itertools import chain
from typing import NoReturn

import numpy as np

from outcrop import _native
from outcrop.errors import CorruptArrayError, OutcropError, StorageError, UnsupportedError
from outcrop.process.config import ensure_configured
from outcrop.process.files import open_file

__all__ = ["Archive", "is_zip"]

_ENTRY = struct.Struct("<4s6H3L5H2L")
"""What stands in the directory of an entry, before its name."""

_HEADER = struct.Struct("<4s5H3L2H")
"""What stands before the bytes of an entry, before its name."""

_END = struct.Struct("<4s4H2LH")
"""The end of an archive, before a remark."""

_FAR_END = struct.Struct("<4sQ2H2L4Q")
"""The same with larger numbers."""

_POINTER = struct.Struct("<4sLQL")
"""Where the end with larger numbers begins."""

_BEGINS = (b"PK\x03\x04", b"PK\x05\x06")
"""What an archive begins with: an entry, or its end where there is none."""

_LARGE_16, _LARGE_32 = 0xFFFF, 0xFFFFFFFF
"""What stands for numbers that stand elsewhere, as they are larger."""

_FAR = 1
"""The number of the extra field in which they are."""

_ENCRYPTED, _DESCRIBED_BEHIND, _UTF8, _MASKED = 1 << 0, 1 << 3, 1 << 11, 1 << 13

_STORED, _DEFLATED = 0, 8

_METHODS = {
    **{1: "shrink", 6: "implode", 9: "deflate64", 12: "bzip2"},
    **{14: "lzma", 93: "zstd", 95: "xz"},
}
"""What zip calls methods that are not undone here."""

_MOST_REMARK = 0xFFFF

_MOST_DIRECTORY = 128 << 20
"""The most bytes of a directory: a million entries with long names."""

_TAKEN_FOR_EACH = 6
"""Memory that is taken for a byte of a directory, at most about, as long as it is known."""

_SMALL = 1 << 20
"""Bytes that are not charged, as with results."""

_PART = 1 << 20
"""Bytes that are read at once of an entry that is only checked."""


def is_zip(path: str) -> bool:
    """Whether a file begins as a zip archive does."""
    try:
        with open_file(path) as file:
            return file.read(4) in _BEGINS
    except (OSError, StorageError):
        # Opening it will say why.
        return False


class Archive:
    """An archive that is open for reading, with its directory in memory.

    Parameters
    ----------
    path : str
        The file.

    Attributes
    ----------
    path : str
        As it was given.
    names : dict
        The number of the entry that each name stands for.

    Raises
    ------
    CorruptArrayError
        The directory is not whole, is not where it is said to be, or has entries that cannot be.
    UnsupportedError
        It is in several files, or very large.
    BudgetError
        There is no room for the directory.
    StorageError, OSError
        It cannot be read.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        with open_file(path) as file:
            self._file = os.dup(file.fileno())
        self._closing = weakref.finalize(self, os.close, self._file)
        try:
            self._read_directory()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Archive":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file, as happens by itself when nothing refers to the archive any more."""
        self._closing()

    # -- the directory -----------------------------------------------------------------------

    def _read_directory(self) -> None:
        size = os.fstat(self._file).st_size
        begin, length, count = self._end(size)
        if length > _MOST_DIRECTORY:
            raise UnsupportedError(
                f"{self.path}: its directory has {count} entries in {length} bytes, and at most "
                f"{_MOST_DIRECTORY} bytes are read; unpack it first"
            )
        if length < count * _ENTRY.size:
            self._is_corrupt(f"{count} entries do not fit into a directory of {length} bytes")
        nbytes = _TAKEN_FOR_EACH * length
        if nbytes >= _SMALL:
            ensure_configured()
            # It ends with this object.
            self._charge = _native.Charge(nbytes, f"the directory of {self.path}", False)
        self._take(self._pread(begin, length), count)
        self._check_places(begin)

    def _end(self, size: int) -> tuple[int, int, int]:
        """Where the directory begins, its bytes, and how many entries it has."""
        tail_at = max(0, size - _END.size - _MOST_REMARK - _POINTER.size)
        tail = self._pread(tail_at, size - tail_at)
        at = len(tail) - _END.size
        while at >= 0:
            at = tail.rfind(b"PK\x05\x06", 0, at + 4)
            if at >= 0 and at + _END.size + _END.unpack_from(tail, at)[7] == len(tail):
                break
            at -= 1
        if at < 0:
            self._is_corrupt(
                "there is no directory at its end: it was cut off, or whoever wrote it has not "
                "closed it"
            )
        _, disk, first, here, count, length, begin, _ = _END.unpack_from(tail, at)
        end = tail_at + at
        short = (disk, first, here, count, length, begin)
        if at >= _POINTER.size and tail[at - _POINTER.size : at - 16] == b"PK\x06\x07":
            _, far_disk, far_at, _ = _POINTER.unpack_from(tail, at - _POINTER.size)
            end = tail_at + at - _POINTER.size
            if far_at + _FAR_END.size > end:
                self._is_corrupt("its end is not where it is said to be")
            far = _FAR_END.unpack(self._pread(far_at, _FAR_END.size))
            # The record says how long it is, and nothing stands between it and the pointer to it.
            if far[0] != b"PK\x06\x06" or far_at + 12 + far[1] != end:
                self._is_corrupt("its end is not where it is said to be")
            disk, first, here, count, length, begin = far[4:]
            limits = (_LARGE_16,) * 4 + (_LARGE_32,) * 2
            for small, large, limit in zip(short, far[4:], limits, strict=True):
                if small != large and small != limit:
                    self._is_corrupt("its two ends contradict each other")
            disk, end = disk or far_disk, far_at
        if disk or first or here != count:
            raise UnsupportedError(f"{self.path}: is one of several files of an archive")
        if begin + length != end:
            self._is_corrupt(
                f"its directory of {length} bytes at {begin} does not end where the archive does, "
                f"at {end}"
            )
        return begin, length, count

    def _take(self, directory: bytes, count: int) -> None:
        """Read the directory."""
        self.names: dict[str, int] = {}
        self._superseded: list[tuple[str, int]] = []
        self._headers, self._sizes, self._stored = array("Q"), array("Q"), array("Q")
        self._sums, self._named = array("I"), array("H")
        self._flags, self._methods = array("H"), array("H")
        at = 0
        for number in range(count):
            if at + _ENTRY.size > len(directory):
                self._is_corrupt(f"its directory ends after {number} of {count} entries")
            given = _ENTRY.unpack_from(directory, at)
            (mark, _, _, flags, method, _, _, sum_, stored, size, named, extra, remark) = given[:13]
            header = given[16]
            begin = at + _ENTRY.size
            at = begin + named + extra + remark
            if mark != b"PK\x01\x02" or at > len(directory):
                self._is_corrupt(f"entry {number} of its directory makes no sense")
            if _LARGE_32 in (stored, size, header):
                field = directory[begin + named : begin + named + extra]
                size, stored, header = self._far(field, (size, stored, header), number)
            name = directory[begin : begin + named]
            try:
                text = name.decode("utf-8" if flags & _UTF8 else "cp437")
            except UnicodeDecodeError:
                self._is_corrupt(f"the name of entry {number} of its directory is no text")
            before = self.names.get(text)
            if before is not None:
                self._superseded.append((text, before))
            self.names[text] = number
            self._headers.append(header)
            self._sizes.append(size)
            self._stored.append(stored)
            self._sums.append(sum_)
            self._named.append(named)
            self._flags.append(flags)
            self._methods.append(method)
        if at != len(directory):
            self._is_corrupt(f"its directory goes on after its {count} entries")

    def _far(self, field: bytes, numbers: tuple[int, ...], number: int) -> tuple[int, ...]:
        """Numbers of an entry of which those that are too large stand in its extra field."""
        at = 0
        while at + 4 <= len(field):
            kind, length = struct.unpack_from("<2H", field, at)
            at += 4
            if kind == _FAR and at + length <= len(field):
                found = []
                end = at + length
                for given in numbers:
                    if given == _LARGE_32 and at + 8 <= end:
                        given = int.from_bytes(field[at : at + 8], "little")
                        at += 8
                    found.append(given)
                return tuple(found)
            at += length
        # There is no such field: the number is what it is.
        return numbers

    def _check_places(self, begin: int) -> None:
        """Entries have to lie in front of the directory, and apart from each other."""
        # All are less than the file has bytes before any are added.
        for given in (self._headers, self._stored):
            if any(number > begin for number in given):
                self._is_corrupt("it has an entry that is not in front of its directory")
        headers = np.array(self._headers, np.int64)
        least = headers + np.array(self._stored, np.int64) + np.array(self._named, np.int64)
        least += _HEADER.size
        order = np.argsort(headers, kind="stable")
        after = np.append(headers[order][1:], begin)
        if np.any(least[order] > after):
            self._is_corrupt("it has entries that lie over one another")
        # Where, at most, each may end.
        ends = np.empty(len(headers), np.int64)
        ends[order] = after
        self._ends = array("Q", ends.astype(np.uint64).tobytes())

    # -- entries -----------------------------------------------------------------------------

    def stored(self, number: int) -> int:
        """Bytes of an entry in the file."""
        return self._stored[number]

    def sum_of(self, number: int) -> int:
        """The CRC-32 of an entry's bytes."""
        return int(self._sums[number])

    def is_plain(self, number: int) -> bool:
        """Whether an entry lies in the file as it is."""
        return self._methods[number] == _STORED and not self._flags[number] & _ENCRYPTED

    def check_method(self, name: str, number: int) -> None:
        """Refuse an entry whose bytes nobody here can make of what is stored.

        Raises
        ------
        UnsupportedError
            It is encrypted, or packed by another method than deflate.
        """
        method, flags = self._methods[number], self._flags[number]
        if flags & (_ENCRYPTED | _MASKED):
            what = "is encrypted; unpack it first"
        elif method not in (_STORED, _DEFLATED):
            how = _METHODS.get(method, f"method {method}")
            what = f"is compressed by zip, with {how}; unpack it, and pack it without (zip -0)"
        else:
            return
        raise UnsupportedError(f"{self.path}: the entry {name!r} {what}")

    def place(self, name: str, number: int) -> int:
        """Where in the file the bytes of an entry begin, by its header, which has to agree.

        Raises
        ------
        CorruptArrayError
            It does not agree with the directory.
        """
        at = self._headers[number]
        encoded = self._encoded(name, number)
        found = self._pread(at, min(_HEADER.size + len(encoded), self._ends[number] - at))
        if len(found) < _HEADER.size + len(encoded):
            self._disagree(name)
        mark, _, flags, method, _, _, sum_, stored, size, named, extra = _HEADER.unpack_from(found)
        agrees = (
            mark == b"PK\x03\x04"
            and found[_HEADER.size :] == encoded
            and named == len(encoded)
            and method == self._methods[number]
            and not (flags ^ self._flags[number]) & (_ENCRYPTED | _DESCRIBED_BEHIND | _MASKED)
        )
        there = (self._sums[number], self._stored[number], self._sizes[number])
        if agrees and (sum_, stored, size) != there:
            # They may be told behind the bytes only, or larger ones in the extra field.
            is_behind = bool(flags & _DESCRIBED_BEHIND)
            for given, wanted, limit in zip(
                (sum_, stored, size), there, (None, _LARGE_32, _LARGE_32), strict=True
            ):
                agrees = agrees and given in (wanted, limit, 0 if is_behind else wanted)
        begin: int = at + _HEADER.size + named + extra
        if not agrees or begin + self._stored[number] > self._ends[number]:
            self._disagree(name)
        return begin

    def check_headers(self) -> None:
        """Compare the header of every entry with the directory, superseded ones among them.

        Raises
        ------
        CorruptArrayError
            One does not agree: a name that is wrong in the directory is missing elsewhere.
        """
        for name, number in chain(self.names.items(), self._superseded):
            self.place(name, number)

    def read(self, name: str, most: int) -> bytes:
        """An entry, whose checksum is compared.

        Raises
        ------
        CorruptArrayError
            It has more than `most` bytes, or is not what was packed.
        UnsupportedError
            As for `check_method`.
        """
        number = self.names[name]
        self.check_method(name, number)
        size = self._sizes[number]
        if max(size, self._stored[number]) > most:
            self._is_corrupt(f"the entry {name!r} has {size} bytes, and not more than {most}")
        given = self._pread(self.place(name, number), self._stored[number])
        if self._methods[number] == _DEFLATED:
            given = self._inflated(name, given, size)
        if len(given) != size or zlib.crc32(given) != self._sums[number]:
            self._is_damaged(name)
        return given

    def read_range(self, name: str, begin: int, length: int) -> bytes:
        """Bytes of an entry that lies in the file as it is; fewer where it ends before."""
        number = self.names[name]
        self.check_method(name, number)
        if not self.is_plain(number):
            raise UnsupportedError(
                f"{self.path}: parts of the entry {name!r} are to be read, which zip has "
                "compressed; unpack it, and pack it without (zip -0)"
            )
        stored = self._stored[number]
        begin = min(begin, stored)
        return self._pread(self.place(name, number) + begin, min(length, stored - begin))

    def damage_of(self, name: str) -> str | None:
        """What is wrong with an entry, all of which is read for that; None where nothing is."""
        number = self.names[name]
        try:
            self.check_method(name, number)
            at, left = self.place(name, number), self._stored[number]
            unpacking = None if self._methods[number] == _STORED else zlib.decompressobj(-15)
            sum_ = size = 0
            part = b""
            while left or part:
                if not part:
                    part = self._pread(at, min(left, _PART))
                    at, left = at + len(part), left - len(part)
                found = part if unpacking is None else unpacking.decompress(part, _PART)
                part = b"" if unpacking is None else unpacking.unconsumed_tail
                if not (left or part) and unpacking is not None:
                    found += unpacking.flush()
                sum_, size = zlib.crc32(found, sum_), size + len(found)
                if size > self._sizes[number]:
                    self._is_damaged(name)
            if size != self._sizes[number] or sum_ != self._sums[number]:
                self._is_damaged(name)
        except OutcropError as error:
            return str(error).removeprefix(f"{self.path}: ")
        except zlib.error:
            return f"the entry {name!r} is damaged: it cannot be unpacked"
        return None

    def _inflated(self, name: str, given: bytes, size: int) -> bytes:
        unpacking = zlib.decompressobj(-15)
        try:
            # Decoding stops where there is more than was said.
            return unpacking.decompress(given, size + 1)
        except zlib.error:
            self._is_damaged(name)

    def _encoded(self, name: str, number: int) -> bytes:
        return name.encode("utf-8" if self._flags[number] & _UTF8 else "cp437")

    def _pread(self, at: int, length: int) -> bytes:
        """Bytes of the file, all of them."""
        found = os.pread(self._file, length, at)
        # One call gives two gigabytes at most.
        while len(found) < length:
            more = os.pread(self._file, length - len(found), at + len(found))
            if not more:
                self._is_corrupt(f"it ends at byte {at + len(found)}: it was cut off")
            found += more
        return found

    def _disagree(self, name: str) -> NoReturn:
        self._is_corrupt(f"what stands in front of the entry {name!r} contradicts the directory")

    def _is_damaged(self, name: str) -> NoReturn:
        raise CorruptArrayError(
            f"{self.path}: the entry {name!r} is damaged: its checksum (CRC-32) is another one"
        )

    def _is_corrupt(self, what: str) -> NoReturn:
        raise CorruptArrayError(f"{self.path}: is no sound zip archive: {what}")
