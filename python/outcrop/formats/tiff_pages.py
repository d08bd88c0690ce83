"""Pages of a TIFF file: where their elements are, and what.

The package ``tifffile`` knows what tags mean. It is shown what `tiff_directories` has read.
"""

import logging
import struct
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any, NoReturn, cast

import numpy as np

from outcrop.checks import check_dtype
from outcrop.errors import (
    ArrayNotFoundError,
    CorruptArrayError,
    InvalidArgumentError,
    OutcropError,
    OutcropWarning,
    StorageError,
    StoragePermissionError,
    UnsupportedError,
)
from outcrop.formats.tiff_directories import TEXTS, TiffDirectories, TiffDirectory, excerpt
from outcrop.process.files import open_file

if TYPE_CHECKING:
    import tifffile

__all__ = [
    "LAYOUTS",
    "ORIENTATION",
    "UNITS",
    "PageFound",
    "beside_page",
    "read_page",
    "tifffile_for",
]

UNITS = ("none", "inch", "centimeter")
LAYOUTS = ("contig", "separate")
ORIENTATION = 274
"""The tag."""

_LSM = 34412
"""A tag of microscopes of Zeiss."""


@dataclass(frozen=True)
class PageFound:
    """An image in a file: where its elements are, and what."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunk: tuple[int, ...]
    offsets: np.ndarray[tuple[int], np.dtype[np.uint64]]
    is_linear: bool
    is_padded: bool
    pieces: str
    attributes: dict[str, Any]


def tifffile_for(path: str) -> Any:
    """The package, which a file needs."""
    try:
        import tifffile
    except ImportError:
        raise UnsupportedError(
            f"{path}: TIFF needs the package tifffile; 'pip install tifffile' brings it"
        ) from None
    return tifffile


def read_page(path: str, page: int) -> PageFound:
    """Find the image at a position in a file. Whatever is wrong with it is an `OutcropError`."""
    package = tifffile_for(path)
    with _opened(path) as directories:
        directory = _directory(directories, page)
        # What program has written a file is said in its first page.
        read = [directories[0], directory] if page else [directory]
        shown = excerpt(read)
        try:
            with _quiet(), package.TiffFile(BytesIO(shown)) as file:
                found = _Page(directory, file.pages[len(read) - 1]).examined()
        except OutcropError:
            raise
        except Exception as error:
            # Values that make no sense make the package raise almost anything.
            text = " ".join(str(error).split()) or type(error).__name__
            directory.broken(f"is no sound TIFF page: {text}")
    if directory.left_out:
        warnings.warn(
            f"{path}: {' and '.join(directory.left_out)} is left out of the attributes",
            OutcropWarning,
            stacklevel=4,
        )
    return found


def beside_page(path: str, page: int) -> tuple[int, int]:
    """How many other pages a file has, and how many sub-images the page at a position."""
    with _opened(path) as directories:
        return len(directories) - 1, _directory(directories, page).sub_images


@contextmanager
def _opened(path: str) -> Iterator[TiffDirectories]:
    try:
        with open_file(path) as file:
            yield TiffDirectories(path, file)
    except OutcropError:
        raise
    except struct.error:
        # It became shorter meanwhile.
        raise CorruptArrayError(f"{path}: is no sound TIFF file: ends in its metadata") from None
    except FileNotFoundError as error:
        raise ArrayNotFoundError(f"{path}: there is no array here", errno=error.errno) from None
    except PermissionError as error:
        text = f"{path}: cannot open: {error.strerror}"
        raise StoragePermissionError(text, errno=error.errno) from None
    except OSError as error:
        raise StorageError(f"{path}: cannot read: {error}", errno=error.errno) from None


def _directory(directories: TiffDirectories, page: int) -> TiffDirectory:
    if page >= len(directories):
        raise InvalidArgumentError(
            f"{directories.path}: there is no page {page}; the file has {len(directories)}"
        )
    return directories[page]


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


class _Page:
    """A page as `tifffile` has understood it."""

    def __init__(self, directory: TiffDirectory, page: "tifffile.TiffPage") -> None:
        self.directory = directory
        self.path = directory.file.path
        self.page = page

    def refuse(self, found: str, remedy: str) -> NoReturn:
        raise UnsupportedError(f"{self.path}: {found}, which is not supported; {remedy}")

    def examined(self) -> PageFound:
        """Where the elements are, if they can be read where they are."""
        dtype = self.dtype()
        self.check_plain()
        page, broken = self.page, self.directory.broken
        height, width, samples = page.imagelength, page.imagewidth, page.samplesperpixel
        if min(height, width, samples) < 1:
            broken(f"an image of {height} x {width} pixels of {samples} samples has none")
        if samples > 1 and page.planarconfig not in (1, 2):
            broken(f"tag 284 (PlanarConfiguration) is {page.planarconfig}, 1 or 2 may be")
        is_planar = samples > 1 and page.planarconfig == 2
        rows, columns = height, width
        if page.is_tiled:
            rows, columns = page.tilelength, page.tilewidth
        else:
            rows = min(page.rowsperstrip, height)
        pieces = "tiles" if page.is_tiled else "strips"
        if min(rows, columns) < 1:
            broken(f"{pieces} of {rows} x {columns} pixels hold none")
        planes = samples if is_planar else 1
        down, across = -(-height // rows), -(-width // columns)
        row_bytes = columns * (1 if is_planar else samples) * dtype.itemsize
        if rows * row_bytes >= 2**63:
            broken(f"{pieces} of {rows} x {columns} pixels are larger than any file")
        offsets, stored = self.directory.places(planes * down * across)
        whole = np.full((planes, down, across), rows * row_bytes, np.uint64)
        if not page.is_tiled:
            whole[:, -1] = (height - (down - 1) * rows) * row_bytes
        needed = whole.ravel()
        if stored is not None:
            # A piece without bytes is one of a sparse file: zeros.
            offsets[stored == 0] = 0
            short = (stored < needed) & (offsets > 0)
            if short.any():
                at = int(short.argmax())
                broken(f"{pieces[:-1]} {at} has {stored[at]} bytes, {needed[at]} are needed")
        outside = offsets > self.directory.file.nbytes
        if outside.any():
            at = int(outside.argmax())
            where = (
                f"is said to be at byte {offsets[at]}, the file has {self.directory.file.nbytes}"
            )
            broken(f"{pieces[:-1]} {at} {where}")
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
        return PageFound(
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
        byteorder = self.directory.file.byteorder
        try:
            return check_dtype(dtype.newbyteorder(cast(Any, byteorder)), swapped=True)
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
        is_lsm = _LSM in self.directory
        if is_lsm and self.directory.file.nbytes >= 2**32 and not self.directory.file.form.is_big:
            self.refuse(
                "is an LSM file whose offsets wrap at 4 GiB", "a BigTIFF file of it would be"
            )
        # These files name one where they have none.
        if page.predictor != 1 and not is_lsm:
            self.refuse("has a predictor", "'tiffcp -c none IN OUT' makes a file that has not")
        if page.fillorder != 1:
            self.refuse("has bytes with reversed bits", "'tiffcp -f msb2lsb IN OUT' turns them")
        if page.imagedepth != 1 or page.tags.valueof(32998, 1) != 1:
            self.refuse("holds volumes", "one page for each slice would be")

    def attributes(self, is_planar: bool) -> dict[str, Any]:
        page = self.page
        found: dict[str, Any] = {"photometric": _name(page.photometric)}
        if page.samplesperpixel > 1:
            found["planarconfig"] = LAYOUTS[is_planar]
        if page.extrasamples:
            found["extrasamples"] = [_name(sample) for sample in page.extrasamples]
        resolution = [page.tags.valueof(code) for code in (282, 283)]
        unit = page.tags.valueof(296, 2)
        if all(isinstance(pair, tuple) and len(pair) == 2 and pair[1] for pair in resolution):
            values = [pair[0] / pair[1] for pair in resolution]
            if min(values) > 0 and (unit != 1 or values != [1, 1]) and unit in (1, 2, 3):
                found["resolution"] = values
                found["resolutionunit"] = UNITS[unit - 1]
        orientation = page.tags.valueof(ORIENTATION, 1)
        if orientation in range(2, 9):
            found["orientation"] = int(orientation)
        for key, code in TEXTS.items():
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
