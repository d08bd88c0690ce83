"""Directories of a TIFF file, read within bounds.

A directory is a list of tags, each with as many values as it claims to have, and says where the
next directory is. The package ``tifffile`` believes all of that, and takes memory and time for it.
So directories are found and read here, and the package is shown an `excerpt`, in which there is
little left to believe. Where strips and tiles are is read here altogether.
"""

import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, NoReturn

import numpy as np

from outcrop.errors import CorruptArrayError, UnsupportedError

__all__ = ["MOST_PIECES", "MOST_TEXT", "TEXTS", "TiffDirectories", "TiffDirectory", "excerpt"]

MOST_PIECES = 1 << 20
"""Strips or tiles of a page. Each takes some tens of bytes of memory while a file is opened."""

MOST_TEXT = 1 << 20
"""Bytes of all texts of a page together. They become attributes, with several copies on the way."""

_MOST_PAGES = 1 << 16

_MOST_TAGS = 4096
"""Tags of a page; the package takes no more, either."""

_MOST_VALUES = 1 << 16
"""Values of a tag. Some have one for each sample of a pixel, of which there are fewer."""

TEXTS = {
    "description": 270,
    "documentname": 269,
    "pagename": 285,
    "make": 271,
    "model": 272,
    "datetime": 306,
    "artist": 315,
    "hostcomputer": 316,
    "copyright": 33432,
}
"""Tags that hold what a person or a camera has to say about a picture."""

_ONE_INTEGER = {
    256: "ImageWidth",
    257: "ImageLength",
    259: "Compression",
    262: "PhotometricInterpretation",
    266: "FillOrder",
    274: "Orientation",
    277: "SamplesPerPixel",
    284: "PlanarConfiguration",
    296: "ResolutionUnit",
    317: "Predictor",
    322: "TileWidth",
    323: "TileLength",
    32997: "ImageDepth",
    32998: "TileDepth",
}
_INTEGERS = {
    258: "BitsPerSample",
    278: "RowsPerStrip",
    338: "ExtraSamples",
    339: "SampleFormat",
    530: "YCbCrSubSampling",
}
_RATIONALS = {282: "XResolution", 283: "YResolution"}
_TEXT_NAMES = {code: f"the {name}" for name, code in TEXTS.items()} | {305: "Software"}
_PLACES = {
    273: "StripOffsets",
    279: "StripByteCounts",
    324: "TileOffsets",
    325: "TileByteCounts",
}
_SUB_IMAGES = 330
_NAMES = _ONE_INTEGER | _INTEGERS | _RATIONALS | _TEXT_NAMES | _PLACES | {_SUB_IMAGES: "SubIFDs"}

_DESCRIPTION = 270
"""Of which there may be two: programs put a second one beside that of a person."""

_ASCII = 2
_LONG = 4
_SIZES = {
    **{1: 1, 2: 1, 6: 1, 7: 1, 3: 2, 8: 2, 4: 4, 9: 4, 11: 4, 13: 4},
    **{5: 8, 10: 8, 12: 8, 16: 8, 17: 8, 18: 8},
}
"""Bytes of a value of each type there is."""

_INTEGER_TYPES = (3, 4, 8, 9, 16, 17)
_RATIONAL_TYPES = (5, 10)
_PLACE_TYPES = {3: "u2", 4: "u4", 13: "u4", 16: "u8", 18: "u8"}

_AT_ONCE = 4096
"""Bytes that are read at once: most directories have fewer, and those of small pages are close."""


class _Form:
    """How a file writes what directories consist of."""

    def __init__(self, byteorder: str, *, is_big: bool) -> None:
        self.byteorder = byteorder
        self.is_big = is_big
        version = (43, 8, 0) if is_big else (42,)
        mark = b"II" if byteorder == "<" else b"MM"
        self.header = mark + struct.pack(f"{byteorder}{len(version)}H", *version)
        """A file's first bytes, up to the offset of the first directory."""
        self.count = struct.Struct(byteorder + ("Q" if is_big else "H"))
        self.tag = struct.Struct(byteorder + ("HHQ8s" if is_big else "HHI4s"))
        """Code, type, count, and the values or where they are."""
        self.offset = struct.Struct(byteorder + ("Q" if is_big else "I"))


_FORMS = tuple(_Form(byteorder, is_big=is_big) for byteorder in "<>" for is_big in (False, True))


@dataclass(frozen=True)
class _Tag:
    code: int
    type: int
    count: int
    field: bytes
    """The values, where there is room for them; else their offset."""

    def __str__(self) -> str:
        return f"tag {self.code} ({_NAMES[self.code]})"

    @property
    def nbytes(self) -> int:
        return self.count * _SIZES[self.type]


class TiffDirectories:
    """The directories of an open file's pages. Only where they are is kept.

    Raises
    ------
    CorruptArrayError
        They do not follow one another up to a last one, inside the file.
    UnsupportedError
        There are too many.
    """

    def __init__(self, path: str, file: BinaryIO) -> None:
        self.path = path
        self.nbytes = os.fstat(file.fileno()).st_size
        self._descriptor = file.fileno()
        start = self.read(0, 16)
        form = next((form for form in _FORMS if start.startswith(form.header)), None)
        if form is None:
            self._broken(f"begins with {start[:8]!r}")
        self.form = form
        self._offsets = self._walked(start)

    @property
    def byteorder(self) -> str:
        """``"<"`` or ``">"``."""
        return self.form.byteorder

    def __len__(self) -> int:
        return len(self._offsets)

    def __getitem__(self, page: int) -> "TiffDirectory":
        offset, form = self._offsets[page], self.form
        (count,) = form.count.unpack(self.read(offset, form.count.size))
        tags = self.read(offset + form.count.size, count * form.tag.size)
        if len(tags) < count * form.tag.size:
            # It was whole a moment ago.
            self._broken(f"ends in the directory of page {page}")
        return TiffDirectory(self, page, [_Tag(*found) for found in form.tag.iter_unpack(tags)])

    def read(self, offset: int, nbytes: int) -> bytes:
        """Bytes of the file; fewer where it ends."""
        return os.pread(self._descriptor, nbytes, offset)

    def _walked(self, start: bytes) -> list[int]:
        """The offsets of all directories."""
        count, offset, tag_bytes = self.form.count, self.form.offset, self.form.tag.size
        first = len(self.form.header)
        if len(start) < first + offset.size:
            self._broken("ends in its header")
        (at,) = offset.unpack_from(start, first)
        least = count.size + offset.size
        last = self.nbytes - least
        # A file may have many pages: what is done for each is little.
        pages: dict[int, int] = {}
        begin, window = 0, b""
        while at:
            page = len(pages)
            if at in pages:
                self._broken(f"behind page {page - 1} comes page {pages[at]} again")
            if page == _MOST_PAGES:
                raise UnsupportedError(
                    f"{self.path}: has more than {_MOST_PAGES} pages, which is not supported"
                )
            if not 8 <= at <= last:
                where = f"is said to be at byte {at}, the file has {self.nbytes}"
                self._broken(f"the directory of page {page} {where}")
            if not begin <= at <= begin + len(window) - least:
                begin, window = at, self.read(at, _AT_ONCE)
            (tags,) = count.unpack_from(window, at - begin)
            if tags > _MOST_TAGS:
                self._broken(f"page {page}: has {tags} tags at byte {at}, more than {_MOST_TAGS}")
            nbytes = count.size + tags * tag_bytes
            if begin + len(window) < at + nbytes + offset.size:
                begin, window = at, self.read(at, max(nbytes + offset.size, _AT_ONCE))
                if len(window) < nbytes + offset.size:
                    self._broken(f"page {page}: the file ends in its {tags} tags")
            pages[at] = page
            # Behind the tags it says where the next directory is.
            (at,) = offset.unpack_from(window, at - begin + nbytes)
        if not pages:
            self._broken("there is no page where the header says")
        return list(pages)

    def _broken(self, what: str) -> NoReturn:
        raise CorruptArrayError(f"{self.path}: is no sound TIFF file: {what}")


@dataclass
class TiffDirectory:
    """The tags of a page, of which each was looked at before any of its values is read."""

    file: TiffDirectories
    page: int
    tags: list[_Tag]
    left_out: list[str] = field(default_factory=list)
    """Texts that are too long to be attributes."""

    def __contains__(self, code: int) -> bool:
        return any(tag.code == code for tag in self.tags)

    def broken(self, what: str) -> NoReturn:
        """Raise an error that names the page."""
        raise CorruptArrayError(f"{self.file.path}: page {self.page}: {what}")

    @property
    def sub_images(self) -> int:
        """How many there are; they are not looked at."""
        tag = self._first(_SUB_IMAGES)
        if tag is None:
            return 0
        self._checked(tag)
        return tag.count

    def shown(self) -> list[tuple[_Tag, bytes]]:
        """Tags that say what an image is, with their values."""
        shown: list[tuple[_Tag, bytes]] = []
        seen: dict[int, int] = {}
        room = MOST_TEXT
        for tag in self.tags:
            # Where a tag comes twice, the first one holds.
            seen[tag.code] = seen.get(tag.code, 0) + 1
            if seen[tag.code] > (2 if tag.code == _DESCRIPTION else 1):
                continue
            if tag.code in _TEXT_NAMES:
                if tag.type != _ASCII:
                    continue
                self._checked(tag)
                if tag.nbytes > room:
                    self.left_out.append(f"{_TEXT_NAMES[tag.code]} of {tag.nbytes} bytes")
                    continue
                room -= tag.nbytes
            elif tag.code in _ONE_INTEGER:
                self._check_integers(tag, 1)
            elif tag.code in _INTEGERS:
                self._check_integers(tag, _MOST_VALUES)
            elif tag.code in _RATIONALS:
                if tag.type not in _RATIONAL_TYPES or tag.count != 1:
                    continue
                self._checked(tag)
            else:
                continue
            shown.append((tag, self._values(tag)))
        return shown

    def places(self, count: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any] | None]:
        """Where the `count` strips or tiles of the image are, and how many bytes each has.

        The latter may be left out where there is one, which has what it needs.
        """
        offsets, nbytes = (self._first(*codes) for codes in ((324, 273), (325, 279)))
        if offsets is None:
            self.broken(f"has no {_PLACES[273]} or {_PLACES[324]}")
        for tag in (offsets, nbytes):
            if tag is None and count > 1:
                self.broken(f"does not say how many bytes its {count} strips or tiles have")
            if tag is not None:
                self._checked(tag)
                if tag.count != count:
                    self.broken(f"{tag} has {tag.count} values, the image needs {count}")
                if tag.type not in _PLACE_TYPES:
                    self.broken(f"{tag} has values of type {tag.type}")
        if count > MOST_PIECES:
            raise UnsupportedError(
                f"{self.file.path}: page {self.page}: has {count} strips or tiles; more than "
                f"{MOST_PIECES} are not supported, and larger ones would be fewer"
            )
        return self._places(offsets), None if nbytes is None else self._places(nbytes)

    def _first(self, *codes: int) -> _Tag | None:
        """The tag of the first code of which there is one."""
        found = (tag for code in codes for tag in self.tags if tag.code == code)
        return next(found, None)

    def _places(self, tag: _Tag) -> np.ndarray[Any, Any]:
        dtype = np.dtype(self.file.byteorder + _PLACE_TYPES[tag.type])
        return np.frombuffer(self._values(tag), dtype).astype(np.uint64)

    def _check_integers(self, tag: _Tag, most: int) -> None:
        self._checked(tag)
        if tag.type not in _INTEGER_TYPES:
            self.broken(f"{tag} has values of type {tag.type}, which are no integers")
        if not 1 <= tag.count <= most:
            self.broken(f"{tag} has {tag.count} values, 1{f' to {most}' * (most > 1)} may be")

    def _checked(self, tag: _Tag) -> None:
        """Refuse values that are not in the file."""
        if tag.type not in _SIZES:
            self.broken(f"{tag} has values of type {tag.type}, which there is not")
        at = self._offset(tag)
        if at is not None and not 8 <= at <= self.file.nbytes - tag.nbytes:
            self.broken(
                f"{tag} has {tag.count} values in {tag.nbytes} bytes from byte {at} on, the file "
                f"has {self.file.nbytes} bytes"
            )

    def _offset(self, tag: _Tag) -> int | None:
        """Where its values are; None for those that are in the tag itself."""
        if tag.nbytes <= len(tag.field):
            return None
        return int(self.file.form.offset.unpack(tag.field)[0])

    def _values(self, tag: _Tag) -> bytes:
        """The values of a tag that was checked."""
        at = self._offset(tag)
        found = tag.field[: tag.nbytes] if at is None else self.file.read(at, tag.nbytes)
        if len(found) < tag.nbytes:
            self.broken(f"the file ends in the values of {tag}")
        return found


def excerpt(directories: Sequence[TiffDirectory]) -> bytes:
    """A TIFF file that has these pages, with those tags only that say what an image is.

    Each page has one strip without bytes: without any, the package would work out its size.
    """
    form = directories[0].file.form
    result = bytearray(form.header)
    room = form.offset.size
    result += form.offset.pack(len(result) + room)
    for number, directory in enumerate(directories, 1):
        shown = directory.shown()
        shown += [(_Tag(code, _LONG, 1, b""), bytes(4)) for code in (273, 279)]
        result += form.count.pack(len(shown))
        behind = len(result) + len(shown) * form.tag.size + form.offset.size
        values = bytearray()
        for tag, value in shown:
            packed = value.ljust(room, b"\0")
            if len(value) > room:
                packed = form.offset.pack(behind + len(values))
                values += value
            result += form.tag.pack(tag.code, tag.type, tag.count, packed)
        is_last = number == len(directories)
        result += form.offset.pack(0 if is_last else behind + len(values)) + values
    return bytes(result)
