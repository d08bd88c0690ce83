"""The formats there are, and which of them a path stands for.

- `zarr`, `npy` and `raw` belong to the compiled core.
- `pnm`: PGM, PPM and PAM. `tiff`: TIFF and BigTIFF. Each is a `FileFormat`.
- `hdf5`: data sets of HDF5 and NetCDF 4; `zip_zarr`: Zarr arrays in zip archives (`zip_archives`).
  Of these, a file has several: each is a `Container` (`containers`). `hdf5_writing` makes new data
  sets, with the attributes and names of axes of `hdf5_labels`; `hdf5_names` says which paths lead
  there.
- A TIFF file is read by `tiff_pages`, within the bounds of `tiff_directories`.
"""

import os
from pathlib import PurePath

from outcrop.errors import InvalidArgumentError, UnsupportedError
from outcrop.formats.base import FileFormat
from outcrop.formats.containers import locate
from outcrop.formats.hdf5 import HDF5
from outcrop.formats.hdf5_names import place_in_file
from outcrop.formats.others import misnamed, other_format, other_suffix
from outcrop.formats.pictures import picture_axes, turned_orientation
from outcrop.formats.pnm import PNM
from outcrop.formats.tiff import TIFF
from outcrop.process.files import open_file

__all__ = [
    "FORMATS",
    "FileFormat",
    "check_format",
    "family_of",
    "format_for",
    "format_of",
    "is_self_described",
    "misnamed",
    "other_format",
    "other_suffix",
    "picture_axes",
    "recognised",
    "same_format",
    "turned_orientation",
]

_FAMILIES: tuple[FileFormat, ...] = (PNM, TIFF)

FORMATS = ("zarr", "npy", "raw", *(name for family in _FAMILIES for name in family.names), HDF5)
"""What ``format=`` may be."""

_SUFFIXES = {".npy": "npy", ".raw": "raw", ".bin": "raw", ".dat": "raw"} | {
    suffix: name for family in _FAMILIES for suffix, name in family.suffixes.items()
}

_MAGIC_BYTES = 512
"""How many bytes of a file a format is shown to recognise it."""


def check_format(format: str) -> str:
    """Return the format, if it is one."""
    if format not in FORMATS:
        raise InvalidArgumentError(f"format must be one of {FORMATS}, got {format!r}")
    return format


def format_of(path: str) -> str:
    """The format that a path asks for, by its suffix, or because it leads into an HDF5 file."""
    if place_in_file(path) is not None:
        return HDF5
    return _SUFFIXES.get(PurePath(path).suffix.lower(), "zarr")


def format_for(path: str, wanted: str | None) -> str:
    """The format of what is to be written: the one that is wanted, or by suffix.

    Raises
    ------
    UnsupportedError
        The suffix is that of a format that only other programs write, or the path leads into an
        HDF5 file, and another format is wanted.
    """
    inside = locate(path)
    if inside is not None and inside.inside and inside.kind.name not in FORMATS:
        raise UnsupportedError(
            f"{path}: leads into the file {inside.file}, and {inside.kind.title} are only read; "
            "save it under a name that ends in .zarr, .npy, .raw, .ppm or .tif"
        )
    where = place_in_file(path)
    if where is not None and where[1] and wanted not in (None, HDF5):
        raise UnsupportedError(
            f"{path}: leads into the HDF5 file {where[0]}, in which there is nothing of the format "
            f"{wanted}"
        )
    if wanted is not None:
        return check_format(wanted)
    if where is not None:
        return HDF5
    if what := other_suffix(path):
        raise UnsupportedError(
            f"{path}: {what}; a name that ends in .zarr, .npy, .raw, .ppm or .tif, or "
            "format='zarr', says what is wanted"
        )
    return format_of(path)


def is_self_described(path: str) -> bool:
    """Whether a path has the suffix of a format whose files say what they hold."""
    suffix = PurePath(path).suffix.lower()
    return suffix == ".zarr" or _SUFFIXES.get(suffix, "raw") != "raw"


def family_of(format: str | None) -> FileFormat | None:
    """The family of a format; None for those of the compiled core."""
    return next((family for family in _FAMILIES if format in family.names), None)


def recognised(path: str) -> str | None:
    """The format of a file that is to be opened, by suffix or by its first bytes.

    None for what the compiled core recognises itself, and for what is not recognised.
    """
    if os.path.isdir(path):
        return None
    by_suffix = format_of(path)
    if by_suffix != "zarr":
        return by_suffix if family_of(by_suffix) else None
    try:
        with open_file(path) as file:
            start = file.read(_MAGIC_BYTES)
    except OSError:
        # Opening it will say why.
        return None
    return next((family.names[0] for family in _FAMILIES if family.recognises(start)), None)


def same_format(wanted: str, format: str) -> bool:
    """Whether what is wanted is a format, or the name of the family for whichever fits."""
    return wanted == format or (wanted == "pnm" and format in PNM.names)
