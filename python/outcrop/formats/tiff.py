"""TIFF and BigTIFF without compression.

The package ``tifffile`` reads and writes the metadata; elements are moved by the compiled core.
Strips that follow one another in the file are one row-major block, which is read and written where
it lies. Tiles and scattered strips are chunks of the file, and are only read.
"""

import json
import logging
import os
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, cast

import numpy as np

from outcrop import _native
from outcrop.checks import check_dtype
from outcrop.errors import (
    ArrayNotFoundError,
    CorruptArrayError,
    InvalidArgumentError,
    OutcropError,
    StorageError,
    StoragePermissionError,
    UnsupportedError,
)
from outcrop.formats.base import FileFormat
from outcrop.process.files import open_file

if TYPE_CHECKING:
    import tifffile

__all__ = ["TIFF"]

_ALIGNMENT = 4096
"""Where elements begin in a new file, so that as many requests as possible are aligned."""

_STRIP_BYTES = 1 << 20
"""Bytes of a strip. Programs that read strip by strip hold so much."""

_MOST_STRIPS = 1 << 16
"""Strips of a plane; beyond that they grow, so that the metadata stays small."""

_CLASSIC_BYTES = 2**32 - 2**25
"""What a file may have, metadata aside, for its offsets to take 32 bits."""

_COLORS = {"minisblack": 1, "miniswhite": 1, "rgb": 3, "separated": 4, "cielab": 3}
"""Photometric interpretations that are written, and how many samples they give meaning to."""

_EXTRASAMPLES = ("unspecified", "assocalpha", "unassalpha")
_UNITS = ("none", "inch", "centimeter")
_LAYOUTS = ("contig", "separate")
_ORIENTATION = 274
"""The tag."""

_TEXTS = {
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

_LASTING = ("orientation", *_TEXTS)
"""Attributes that hold for whatever part of an image."""


class _Tiff(FileFormat):
    names: ClassVar = ("tiff",)
    suffixes: ClassVar = {".tif": "tiff", ".tiff": "tiff", ".btf": "tiff", ".tf8": "tiff"}

    def recognises(self, start: bytes) -> bool:
        return start[:4] in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")

    def open(self, path: str, mode: str, page: int) -> _native.Store:
        found = _read(path, page)
        attributes = json.dumps(found.attributes)
        dtype = found.dtype.str
        if found.is_linear:
            offset = int(found.offsets[0])
            return _native.open_file(
                path, mode, "tiff", found.shape, dtype, offset, "C", attributes
            )
        if mode == "r+":
            raise UnsupportedError(
                f"{path}: its {found.pieces} do not follow one another in rows, and are only read; "
                "A.save (or outcrop convert) makes a file of it that can be written to"
            )
        return _native.open_chunks(
            path,
            mode,
            "tiff",
            found.shape,
            dtype,
            found.chunk,
            found.offsets,
            found.is_padded,
            attributes,
        )

    def create(
        self,
        path: str,
        format: str,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        attributes: Mapping[str, Any],
        overwrite: bool,
    ) -> _native.Store:
        image = _image(path, shape, dtype, attributes)
        offset, preamble, trailer = image.metadata(_package(path))
        return _native.create_file(
            path,
            "tiff",
            shape,
            dtype.str,
            offset,
            preamble,
            trailer,
            json.dumps(image.attributes),
            overwrite,
        )

    def offset(
        self,
        path: str,
        format: str,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        attributes: Mapping[str, Any],
    ) -> int:
        return _image(path, shape, dtype, attributes).metadata(_package(path))[0]

    def carried(
        self,
        format: str,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        attributes: Mapping[str, Any],
        *,
        axes: tuple[int, ...] | None,
    ) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        channel = 0 if attributes.get("planarconfig") == "separate" else 2
        keys = _ATTRIBUTES
        if axes is None or len(axes) not in (2, 3) or (len(axes) == 3 and axes[channel] != channel):
            # Steps change the resolution; what were channels are pixels now.
            keys = _LASTING
        else:
            row, column = [axis for axis in axes if len(axes) < 3 or axis != channel]
            if row > column and "resolution" in attributes:
                attributes = {**attributes, "resolution": list(attributes["resolution"])[::-1]}
        # Each as far as it goes with those before: a part of an image may have fewer samples.
        for key in keys:
            if key in attributes:
                candidate = kept | {key: attributes[key]}
                try:
                    _Image.of(shape, dtype, candidate, "")
                except OutcropError:
                    continue
                kept = candidate
        return kept

    def beside(self, path: str, page: int, nbytes: int) -> str | None:
        package = _package(path)
        with _quiet(), package.TiffFile(path) as file:
            others = len(file.pages) - 1
            subfiles = sum(len(found.subifds or ()) for found in [file.pages[page]])
        kinds = ((others, "other page"), (subfiles, "sub-image"))
        found = [f"{count} {word}{'s' * (count > 1)}" for count, word in kinds if count > 0]
        return " and ".join(found) or None


TIFF = _Tiff()


def _package(path: str) -> Any:
    try:
        import tifffile
    except ImportError:
        raise UnsupportedError(
            f"{path}: TIFF needs the package tifffile; 'pip install tifffile' brings it"
        ) from None
    return tifffile


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep what the package logs to itself on this thread: what matters is raised as well."""
    thread, log = threading.get_ident(), logging.getLogger("tifffile")

    def is_of_others(record: logging.LogRecord) -> bool:
        return record.thread != thread

    log.addFilter(is_of_others)
    try:
        yield
    finally:
        log.removeFilter(is_of_others)


# -- reading -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Found:
    """An image in a file: where its elements are, and what."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunk: tuple[int, ...]
    offsets: np.ndarray[tuple[int], np.dtype[np.uint64]]
    is_linear: bool
    is_padded: bool
    pieces: str
    attributes: dict[str, Any]


def _read(path: str, page: int) -> _Found:
    package = _package(path)
    if os.path.exists(path) and not os.path.isfile(path):
        # A named pipe would be waited for: says what it is.
        open_file(path).close()
    try:
        with _quiet(), package.TiffFile(path) as file:
            if not len(file.pages):
                raise CorruptArrayError(f"{path}: there is no page where the header says")
            try:
                found = file.pages[page]
            except IndexError:
                raise InvalidArgumentError(
                    f"{path}: there is no page {page}; the file has {len(file.pages)}"
                ) from None
            return _Page(path, found, file.byteorder).examined()
    except OutcropError:
        raise
    except FileNotFoundError as error:
        raise ArrayNotFoundError(f"{path}: there is no array here", errno=error.errno) from None
    except PermissionError as error:
        text = f"{path}: cannot open: {error.strerror}"
        raise StoragePermissionError(text, errno=error.errno) from None
    except OSError as error:
        raise StorageError(f"{path}: cannot read: {error}", errno=error.errno) from None
    except struct.error:
        raise CorruptArrayError(f"{path}: is no sound TIFF file: ends in its metadata") from None
    except Exception as error:
        # Damaged metadata makes the package raise almost anything.
        text = " ".join(str(error).split()) or type(error).__name__
        raise CorruptArrayError(f"{path}: is no sound TIFF file: {text}") from None


class _Page:
    """A page as `tifffile` has parsed it."""

    def __init__(self, path: str, page: "tifffile.TiffPage", byteorder: str) -> None:
        self.path = path
        self.page = page
        self.byteorder = byteorder

    def refuse(self, found: str, remedy: str) -> NoReturn:
        raise UnsupportedError(f"{self.path}: {found}, which is not supported; {remedy}")

    def broken(self, what: str) -> NoReturn:
        raise CorruptArrayError(f"{self.path}: {what}")

    def examined(self) -> _Found:
        """Where the elements are, if they can be read where they are."""
        dtype = self.dtype()
        self.check_plain()
        page = self.page
        height, width, samples = page.imagelength, page.imagewidth, page.samplesperpixel
        if min(height, width, samples) < 1:
            self.broken(f"an image of {height} x {width} pixels of {samples} samples has none")
        is_planar = samples > 1 and page.planarconfig == 2
        rows, columns = height, width
        if page.is_tiled:
            rows, columns = page.tilelength, page.tilewidth
        else:
            rows = min(page.rowsperstrip, height)
        if min(rows, columns) < 1:
            self.broken(f"tiles or strips of {rows} x {columns} pixels hold none")
        pieces = "tiles" if page.is_tiled else "strips"
        planes = samples if is_planar else 1
        down, across = -(-height // rows), -(-width // columns)
        count = planes * down * across
        if min(len(page.dataoffsets), len(page.databytecounts)) < count:
            known = min(len(page.dataoffsets), len(page.databytecounts))
            self.broken(f"says where {known} {pieces} are; the image has {count}")
        offsets = np.array(page.dataoffsets[:count], np.uint64)
        stored = np.array(page.databytecounts[:count], np.uint64)
        row_bytes = columns * (1 if is_planar else samples) * dtype.itemsize
        whole = np.full((planes, down, across), rows * row_bytes, np.uint64)
        if not page.is_tiled:
            whole[:, -1] = (height - (down - 1) * rows) * row_bytes
        needed = whole.ravel()
        # A piece without bytes is one of a sparse file: zeros.
        offsets[stored == 0] = 0
        short = (stored < needed) & (offsets > 0)
        if short.any():
            at = int(short.argmax())
            self.broken(f"{pieces[:-1]} {at} has {stored[at]} bytes, {needed[at]} are needed")
        follows = bool((offsets > 0).all() and (offsets[1:] == (offsets + needed)[:-1]).all())
        # What tiles have below the image must not come between two planes.
        seamless = not page.is_tiled or planes == 1 or height % rows == 0
        shape: tuple[int, ...]
        chunk: tuple[int, ...]
        if is_planar:
            shape, chunk = (samples, height, width), (1, rows, columns)
        elif samples > 1:
            shape, chunk = (height, width, samples), (rows, columns, samples)
        else:
            shape, chunk = (height, width), (rows, columns)
        return _Found(
            shape=shape,
            dtype=dtype,
            chunk=chunk,
            offsets=offsets,
            is_linear=follows and seamless and columns == width,
            is_padded=page.is_tiled,
            pieces=pieces,
            attributes=self.attributes(is_planar),
        )

    def dtype(self) -> np.dtype[Any]:
        bits, kind = self.page.bitspersample, self.page.sampleformat
        if not isinstance(bits, int) or isinstance(kind, tuple):
            self.refuse(f"has samples of several kinds ({bits} bits)", "one page for each would be")
        convert = "a program such as ImageMagick can convert it (convert IN -depth 16 OUT)"
        if bits % 8:
            self.refuse(f"packs samples of {bits} bits", convert)
        dtype = self.page.dtype
        if dtype is None or dtype.kind not in "uifc":
            self.refuse(f"has samples of format {_name(kind)} with {bits} bits", convert)
        try:
            return check_dtype(dtype.newbyteorder(cast(Any, self.byteorder)), swapped=True)
        except UnsupportedError as error:
            raise UnsupportedError(f"{self.path}: {error}") from None

    def check_plain(self) -> None:
        """Refuse samples that are not stored as they are."""
        page = self.page
        if page.compression != 1:
            self.refuse(
                f"is compressed ({_name(page.compression)})",
                "'tiffcp -c none IN OUT' (or 'vips copy IN OUT') makes a file that is not",
            )
        if page.photometric == 3:
            self.refuse("holds indices of a palette", "'convert IN -type TrueColor OUT' makes RGB")
        if page.photometric == 6 and tuple(page.tags.valueof(530, (2, 2))) != (1, 1):
            self.refuse("has subsampled YCbCr colors", "'tiff2rgba IN OUT' makes RGB")
        if page.predictor != 1:
            self.refuse("has a predictor", "'tiffcp -c none IN OUT' makes a file that has not")
        if page.fillorder != 1:
            self.refuse("has bytes with reversed bits", "'tiffcp -f msb2lsb IN OUT' turns them")
        if page.imagedepth != 1 or page.tags.valueof(32998, 1) != 1:
            self.refuse("holds volumes", "one page for each slice would be")

    def attributes(self, is_planar: bool) -> dict[str, Any]:
        page = self.page
        found: dict[str, Any] = {"photometric": _name(page.photometric)}
        if page.samplesperpixel > 1:
            found["planarconfig"] = _LAYOUTS[is_planar]
        if page.extrasamples:
            found["extrasamples"] = [_name(sample) for sample in page.extrasamples]
        resolution = [page.tags.valueof(code) for code in (282, 283)]
        unit = page.tags.valueof(296, 2)
        if all(isinstance(pair, tuple) and len(pair) == 2 and pair[1] for pair in resolution):
            values = [pair[0] / pair[1] for pair in resolution]
            if min(values) > 0 and (unit != 1 or values != [1, 1]) and unit in (1, 2, 3):
                found["resolution"] = values
                found["resolutionunit"] = _UNITS[unit - 1]
        orientation = page.tags.valueof(_ORIENTATION, 1)
        if orientation in range(2, 9):
            found["orientation"] = int(orientation)
        for key, code in _TEXTS.items():
            text = page.tags.valueof(code)
            if isinstance(text, str) and text.strip():
                found[key] = text
        if page.is_shaped or page.is_ome or page.is_imagej:
            # It says how elements lie in this very file.
            found.pop("description", None)
        return found


def _name(value: Any) -> str:
    """The name of a constant of TIFF's, or its number."""
    return str(getattr(value, "name", value)).lower()


# -- writing -------------------------------------------------------------------------------------

_ATTRIBUTES = (
    "planarconfig",
    "photometric",
    "extrasamples",
    "resolution",
    "resolutionunit",
    *_LASTING,
)


@dataclass(frozen=True)
class _Image:
    """An image that is to be written, with attributes that are checked and complete."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    attributes: dict[str, Any]

    @classmethod
    def of(
        cls,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        attributes: Mapping[str, Any],
        path: str,
    ) -> "_Image":
        """Check attributes against the shape, and add what is usual where they are silent."""
        for key in attributes:
            if key not in _ATTRIBUTES:
                raise InvalidArgumentError(
                    f"{path}: TIFF has no attribute {key!r}; it has {', '.join(_ATTRIBUTES)}"
                )
        is_planar = _choice(attributes, "planarconfig", _LAYOUTS, path) == "separate"
        samples, (height, width) = 1, shape[:2] if len(shape) == 2 else (0, 0)
        if len(shape) == 3:
            samples, height, width = shape if is_planar else (shape[2], *shape[:2])
        if not (0 < height < 2**32 and 0 < width < 2**32) or (len(shape) == 3 and samples < 2):
            raise UnsupportedError(
                f"{path}: a TIFF page holds (height, width), (height, width, 2 or more samples), "
                "or the samples first where planarconfig is 'separate', none of them empty; this "
                f"is {shape}"
            )
        if samples > 65535:
            raise UnsupportedError(
                f"{path}: {samples} samples per pixel are more than the 65535 of TIFF"
            )
        colored = samples in (3, 4) and dtype.kind in "uf"
        usual = "rgb" if colored else "minisblack"
        photometric = _choice(attributes, "photometric", tuple(_COLORS), path) or usual
        extra = samples - _COLORS[photometric]
        if extra < 0:
            raise InvalidArgumentError(
                f"{path}: photometric {photometric!r} takes {_COLORS[photometric]} samples per "
                f"pixel, shape {shape} has {samples}"
            )
        checked: dict[str, Any] = {"photometric": photometric}
        if samples > 1:
            checked["planarconfig"] = _LAYOUTS[is_planar]
        alpha = "unassalpha" if photometric == "rgb" and extra == 1 else "unspecified"
        extrasamples = attributes.get("extrasamples", [alpha] * extra)
        if (
            not isinstance(extrasamples, list | tuple)
            or len(extrasamples) != extra
            or any(name not in _EXTRASAMPLES for name in extrasamples)
        ):
            raise InvalidArgumentError(
                f"{path}: extrasamples must name {extra} of {_EXTRASAMPLES}, got {extrasamples!r}"
            )
        if extra:
            checked["extrasamples"] = list(extrasamples)
        unit = _choice(attributes, "resolutionunit", _UNITS, path) or "inch"
        if "resolution" in attributes:
            checked["resolution"] = _resolution(attributes["resolution"], path)
            checked["resolutionunit"] = unit
        orientation = attributes.get("orientation", 1)
        if type(orientation) is not int or not 1 <= orientation <= 8:
            raise InvalidArgumentError(f"{path}: orientation is 1 to 8, got {orientation!r}")
        if orientation != 1:
            checked["orientation"] = orientation
        for key in _TEXTS:
            if key in attributes:
                checked[key] = _text(attributes[key], key, path)
        return cls(shape, dtype, checked)

    def metadata(self, package: Any) -> tuple[int, bytes, bytes]:
        """Offset of the elements, and the bytes of the file before and behind them."""
        given = self.attributes
        nbytes = int(np.prod(self.shape, dtype=object)) * self.dtype.itemsize
        is_planar = given.get("planarconfig") == "separate"
        height = self.shape[1] if is_planar else self.shape[0]
        row_bytes = nbytes // height // (self.shape[0] if is_planar else 1)
        rows = max(1, _STRIP_BYTES // row_bytes, -(-height // _MOST_STRIPS))
        file = _Metadata()
        options: dict[str, Any] = {}
        if "resolution" in given:
            options["resolution"] = tuple(given["resolution"])
            options["resolutionunit"] = given["resolutionunit"]
        tags: list[tuple[int, int, int, Any, bool]] = []
        if "orientation" in given:
            tags.append((_ORIENTATION, 3, 1, given["orientation"], True))
        for key, code in _TEXTS.items():
            if key in given:
                text = given[key].encode() + b"\0"
                tags.append((code, 2, len(text), text, True))
        options["extratags"] = tags
        if "extrasamples" in given:
            options["extrasamples"] = tuple(given["extrasamples"])
        with package.TiffWriter(
            file, bigtiff=nbytes > _CLASSIC_BYTES, byteorder="<", ome=False, shaped=False
        ) as writer:
            offset, size = writer.write(
                None,
                shape=self.shape,
                dtype=self.dtype,
                photometric=given["photometric"],
                planarconfig=given.get("planarconfig"),
                rowsperstrip=min(rows, height),
                software="Outcrop",
                metadata=None,
                align=_ALIGNMENT,
                returnoffset=True,
                **options,
            )
        assert size == nbytes
        end = offset + size
        # Of the elements only the last byte is written, to make the file long enough.
        preamble = file.bytes_between(0, offset)
        return offset, preamble, file.bytes_between(end, max(end, file.length))


def _choice(
    attributes: Mapping[str, Any], key: str, allowed: tuple[str, ...], path: str
) -> str | None:
    value = attributes.get(key)
    if value is not None and value not in allowed:
        raise InvalidArgumentError(f"{path}: {key} must be one of {allowed}, got {value!r}")
    return value


def _resolution(value: Any, path: str) -> list[float]:
    try:
        result = [float(number) for number in value]
    except (TypeError, ValueError):
        result = []
    if len(result) != 2 or not all(0 < number < 2**32 for number in result):
        raise InvalidArgumentError(
            f"{path}: resolution must be two numbers above 0 (pixels per resolutionunit, along "
            f"width and height), got {value!r}"
        )
    return result


def _text(value: Any, key: str, path: str) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise InvalidArgumentError(f"{path}: {key} must be a text, got {value!r}")
    return value


class _Metadata:
    """A file of any length of which only what is written is kept: the metadata."""

    def __init__(self) -> None:
        self._pieces: list[tuple[int, bytes]] = []
        self._at = 0
        self.length = 0

    def bytes_between(self, start: int, end: int) -> bytes:
        """The bytes of a part; zeros where nothing was written. Later pieces cover earlier ones."""
        result = bytearray(end - start)
        for at, piece in self._pieces:
            low, high = max(at, start), min(at + len(piece), end)
            if low < high:
                result[low - start : high - start] = piece[low - at : high - at]
        return bytes(result)

    def write(self, data: Any) -> int:
        piece = bytes(data)
        self._pieces.append((self._at, piece))
        self._at += len(piece)
        self.length = max(self.length, self._at)
        return len(piece)

    def read(self, size: int = -1) -> bytes:
        end = self.length if size < 0 else min(self._at + size, self.length)
        start, self._at = self._at, max(self._at, end)
        return self.bytes_between(start, max(start, end))

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.length}[whence]
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def flush(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Nothing is open."""


def _image(
    path: str, shape: tuple[int, ...], dtype: np.dtype[Any], attributes: Mapping[str, Any]
) -> _Image:
    """What will be written, where it can be."""
    if dtype.kind not in "uifc":
        raise UnsupportedError(
            f"{path}: TIFF packs eight samples of {dtype} into a byte, which is not supported; "
            "it can hold them as uint8"
        )
    return _Image.of(shape, dtype, attributes, path)
