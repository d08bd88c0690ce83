"""What a file holds besides an array, such as other images: nobody shall lose it unawares."""

import math
import os
import struct
from pathlib import Path

from outcrop.arrays.stored import StoreSource
from outcrop.errors import UnsupportedError
from outcrop.formats import family_of
from outcrop.process.files import open_file

__all__ = ["beside", "check_replaced"]


def beside(source: StoreSource, *, described: bool = False) -> str | None:
    """What the source's file holds besides its elements, in words; None where that is nothing.

    What stands before the elements of a raw file goes without saying to who has `described` it.
    """
    path = str(source.path)
    nbytes = math.prod(source.shape) * source.dtype.itemsize
    if family := family_of(source.format):
        return family.beside(path, source.page, nbytes)
    if source.format not in ("npy", "raw"):
        return None
    begin = _npy_offset(path) if source.format == "npy" else source.offset
    behind = Path(path).stat().st_size - begin - nbytes
    parts = []
    if source.offset and not described:
        parts.append(f"{_bytes(source.offset)} before its elements")
    if behind > 0:
        parts.append(f"{_bytes(behind)} behind its elements")
    return " and ".join(parts) or None


def check_replaced(source: StoreSource, target: str) -> None:
    """Refuse a target that is the source's own file, if more would go than the source's elements.

    Raises
    ------
    UnsupportedError
        Says what would be lost.
    """
    if os.path.realpath(str(source.path)) != os.path.realpath(target):
        return
    if more := beside(source):
        raise UnsupportedError(
            f"{target}: also holds {more}, which would be lost if this array took the file's "
            "place; save it under another name"
        )


def _bytes(number: int) -> str:
    return f"{number} byte" if number == 1 else f"{number} bytes"


def _npy_offset(path: str) -> int:
    with open_file(path) as file:
        start = file.read(12)
    # The first version has two bytes for the header's length, later ones have four.
    form, begin = ("<H", 10) if start[6] == 1 else ("<I", 12)
    return int(begin + struct.unpack_from(form, start, 8)[0])
