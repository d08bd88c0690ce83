"""Which paths lead into HDF5 files that are there, or could be made."""

import os
from pathlib import PurePath

from outcrop.errors import InvalidArgumentError
from outcrop.formats.containers import locate
from outcrop.formats.hdf5 import HDF5, SUFFIXES

__all__ = ["checked_place", "place_in_file"]


def place_in_file(path: str) -> tuple[str, str] | None:
    """The HDF5 file that a path leads into, and the name of the data set in it.

    None where a path leads into no such file, and none that could be made.
    """
    if (where := locate(path, HDF5)) is not None:
        return where.file, where.inside
    parts = PurePath(path).parts
    for i, part in enumerate(parts, 1):
        file = os.path.join(*parts[:i])
        if PurePath(part).suffix.lower() in SUFFIXES and not os.path.isdir(file):
            return file, "/".join(parts[i:])
    return None


def checked_place(path: str) -> tuple[str, str]:
    """The file and the name in it of a new data set.

    Where no suffix says which part of a path is the file, it is the first one that is no directory.

    Raises
    ------
    InvalidArgumentError
        There is no name in it, or none that a data set can have.
    """
    file, inside = place_in_file(path) or _first_file(path)
    name = "/".join(part for part in inside.split("/") if part)
    if not name:
        raise InvalidArgumentError(
            f"{path}: is the name of an HDF5 file, which holds arrays by name; "
            f"{os.path.join(file, 'NAME')} is that of one in it"
        )
    if any(part in (".", "..") for part in name.split("/")):
        raise InvalidArgumentError(f"{path}: {name!r} is no name for a data set of HDF5")
    return file, name


def _first_file(path: str) -> tuple[str, str]:
    parts = PurePath(path).parts
    for i in range(1, len(parts)):
        file = os.path.join(*parts[:i])
        if not os.path.isdir(file):
            return file, "/".join(parts[i:])
    return path, ""
