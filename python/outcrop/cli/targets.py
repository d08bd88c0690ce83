"""Where results go: format by suffix or option, and how what was written is named."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any

import click

from outcrop.arrays.array import Array
from outcrop.arrays.beside import check_replaced
from outcrop.checks import Order
from outcrop.cli.encoding import is_array
from outcrop.cli.places import Description, Place, store_of
from outcrop.cli.session import warn
from outcrop.errors import InvalidArgumentError, OutcropError
from outcrop.formats import FORMATS, format_of, other_suffix
from outcrop.formats.groups import check_around
from outcrop.formats.hdf5 import HDF5
from outcrop.formats.hdf5_names import checked_place, place_in_file
from outcrop.process.sizes import format_bytes

__all__ = [
    "check_suffix",
    "check_zarr_only",
    "format_of_suffix",
    "obstacles",
    "remark_orientation",
    "target_format",
    "undescribed",
    "written",
]


def undescribed(target: Place, name: str, model: str) -> Place:
    """A target as it has to be: without a description, as it gets the shape of `model`."""
    if target.description is not None:
        raise click.BadParameter(
            f"{str(target)!r}: only what is read is described; a raw file that is written has the "
            f"shape and dtype of {model}",
            param_hint=name,
        )
    return target


def format_of_suffix(path: str) -> str | None:
    """The format that a suffix stands for, None for suffixes that stand for none."""
    known = format_of(path)
    return known if known != "zarr" or PurePath(path).suffix.lower() == ".zarr" else None


def target_format(target: Place, wanted: str | None, name: str) -> str:
    """The format of a target: the one that is wanted, or by suffix; Zarr where there is none."""
    format = wanted or format_of_suffix(target.path)
    if format is None and not PurePath(target.path).suffix:
        format = "zarr"
    if format is None:
        check_suffix(target, name)
        raise click.BadParameter(
            f"the suffix of {target.path!r} does not say which format is wanted; "
            f"--format {', '.join(FORMATS[:-1])} or {FORMATS[-1]} does",
            param_hint=name,
        )
    if format == HDF5:
        try:
            checked_place(target.path)
        except InvalidArgumentError as error:
            raise click.BadParameter(str(error), param_hint=name) from None
    return format


def check_suffix(target: Place, name: str, like: Place | None = None) -> None:
    """Refuse a target whose suffix is that of a format that only other programs write.

    Unless what is copied is called alike.
    """
    what = other_suffix(target.path)
    if what and (like is None or PurePath(like.path).suffix != PurePath(target.path).suffix):
        raise click.BadParameter(
            f"{target.path!r}: {what}; 'outcrop convert --format zarr' makes a Zarr directory of "
            "this name",
            param_hint=name,
        )


def check_zarr_only(target: Place, format: str, options: dict[str, Any]) -> None:
    """Refuse options that are for Zarr arrays where the target is none; HDF5 has tiles, too."""
    for option, value in options.items():
        if not value or format == "zarr" or (option == "--tile" and format == HDF5):
            continue
        raise click.UsageError(f"{option} is for Zarr arrays, and {target.path!r} will be {format}")


def obstacles(array: Array, target: Place, overwrite: bool) -> Iterator[str]:
    """What would keep a result from being written, as far as can be seen without making it."""
    path = target.path
    # Whether there is such a data set in the file, only the run will find out.
    inside = place_in_file(path)
    path = path if inside is None else inside[0]
    parent = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(parent):
        yield f"{path}: the directory {os.path.dirname(path)} does not exist"
        return
    try:
        check_around(path)
    except OutcropError as error:
        yield str(error)
    else:
        above = Path(parent)
        if outer := next((d for d in (above, *above.parents) if is_array(d)), None):
            yield f"{path}: lies inside the array {outer}, which owns its directory"
    if not os.access(parent, os.W_OK | os.X_OK):
        yield f"{path}: no permission to write in the directory {parent}"
    if os.path.lexists(path) and inside is None:
        if not overwrite:
            yield f"{path}: exists already, and will be replaced only with --overwrite"
        else:
            try:
                check_replaced(store_of(array), path)
            except OutcropError as error:
                yield str(error)
    if (free := shutil.disk_usage(parent).free) < array.nbytes:
        yield f"{path}: needs {format_bytes(array.nbytes)}, and {format_bytes(free)} are free"


def remark_orientation(source: Place, array: Array, format: str) -> None:
    """Say so where a picture is shown turned, and what is made of it will not be."""
    orientation = array.attributes.get("orientation", 1)
    if array.format == "tiff" and orientation != 1 and format not in ("tiff", "zarr"):
        warn(
            f"{source.path}: is shown turned (TIFF orientation {orientation}), which {format} "
            "files cannot say; pixels are taken as they are stored"
        )


def written(target: Place, result: Array, format: str) -> Place:
    """What stands for a result on the command line."""
    if format != "raw":
        return target
    # Nobody could open it without knowing this.
    order: Order = "F" if result.layout == "column-major" else "C"
    return Place(target.path, Description(result.shape, result.dtype, 0, order))
