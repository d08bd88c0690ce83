"""``outcrop copy`` and ``outcrop convert``: from one array on disk to another."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import click

from outcrop.arrays.array import Array
from outcrop.cli.encoding import encoding_of, is_array
from outcrop.cli.places import PLACE, Place, page_option, store_of
from outcrop.cli.session import Session, pass_session
from outcrop.cli.targets import (
    check_suffix,
    check_zarr_only,
    format_of_suffix,
    remark_orientation,
    target_format,
    undescribed,
    written,
)
from outcrop.cli.values import BOX, CODECS, TILE
from outcrop.formats import FORMATS, family_of, same_format
from outcrop.formats.containers import CONTAINERS
from outcrop.formats.groups import group_around
from outcrop.formats.hdf5 import HDF5

__all__ = ["convert", "copy"]


@dataclass(frozen=True)
class _Wishes:
    """What the options say of the target. What is None stays as it is, where that is possible."""

    format: str
    tile: tuple[int, ...] | int | Literal["default"] | None = None
    order: str | None = None
    codecs: str | None = None
    zarr_format: int | None = None


_overwrite = click.option(
    "--overwrite", is_flag=True, help="Replace an array that stands at DST, once DST is complete."
)


@click.command()
@click.argument("source", metavar="SRC", type=PLACE)
@click.argument("target", metavar="DST", type=PLACE)
@page_option
@_overwrite
@pass_session
def copy(session: Session, source: Place, target: Place, page: int | None, overwrite: bool) -> None:
    """Copy an array as it is: same format, tiles, order, codecs.

    Checksums are verified on the way. DST may be a directory, which gets a copy of the same name.
    Of a raw file (SRC.raw:shape=1000x2000,dtype=f8) the described elements are copied, in
    little-endian order and without what stands before them.
    """
    target = undescribed(target, "DST", "SRC")
    array = source.open(page)
    format = _plain_format(array)
    if (kind := CONTAINERS.get(format)) is not None and format not in FORMATS:
        raise click.BadParameter(
            f"{source.path!r} is in a file that holds several arrays, and {kind.title} are only "
            "read; 'outcrop convert' makes an array of another format of it",
            param_hint="SRC",
        )
    if format == HDF5 and (codecs := store_of(array).codecs) != "none":
        raise click.BadParameter(
            f"{source.path!r} is encoded ({codecs}), as data sets are not that are "
            "written here; 'outcrop convert' makes one that is not, or another format",
            param_hint="SRC",
        )
    into = Path(target.path)
    # As cp does; but a directory that has the name of an array is going to be one.
    if into.is_dir() and format_of_suffix(target.path) is None and not is_array(into):
        target = Place(str(into / source.name))
    check_suffix(target, "DST", like=source)
    wanted = format_of_suffix(target.path)
    if wanted is not None and not same_format(wanted, format):
        raise click.BadParameter(
            f"{target.path!r} is a name for the format {wanted}, and a copy of {source.path!r} has "
            f"the format {format}; 'outcrop convert' changes it",
            param_hint="DST",
        )
    _write(session, "copied", array, source, target, _Wishes(format), overwrite)


@click.command()
@click.argument("source", metavar="SRC", type=PLACE)
@click.argument("target", metavar="DST", type=PLACE)
@click.option("--tile", type=TILE, help="Zarr, HDF5: tile extents such as 1024x1024, or 'default'.")
@click.option("--format", type=click.Choice(FORMATS), help="Default: by suffix.")
@click.option("--order", type=click.Choice(["C", "F"]), help="npy, raw: row- or column-major.")
@click.option(
    "--codecs",
    type=CODECS,
    help="Zarr: 'none', 'zstd[:LEVEL]', 'gzip[:LEVEL]', 'blosc[:NAME[:LEVEL[:SHUFFLE]]]', "
    "'frontier[:THICKNESS]' or JSON.",
)
@click.option("--zarr-format", type=click.Choice(["2", "3"]), help="Version of Zarr.")
@click.option("--box", type=BOX, help="Only this part, such as '0:100,:', as NumPy indexes.")
@page_option
@_overwrite
@pass_session
def convert(
    session: Session,
    source: Place,
    target: Place,
    tile: tuple[int, ...] | int | Literal["default"] | None,
    format: str | None,
    order: str | None,
    codecs: str | None,
    zarr_format: str | None,
    box: tuple[Any, ...] | None,
    page: int | None,
    overwrite: bool,
) -> None:
    """Convert between formats, tiles, orders and codecs, inside the memory budget.

    The suffix of DST gives the format: .zarr (or none), .npy, .pgm, .ppm, .pam, .pnm, .tif or
    .tiff, and .raw, .bin or .dat for bare elements; a.h5/group/name is a data set of the HDF5 file
    a.h5, which is added to what there is. What no option mentions stays as it is, where
    the format of DST can hold it. A raw SRC needs a description:
    page.raw:shape=1000x2000,dtype=f8[,offset=128][,order=F]
    """
    target = undescribed(target, "DST", "SRC")
    format = target_format(target, format, "DST")
    version = int(zarr_format) if zarr_format else None
    wishes = _Wishes(format, tile, order, codecs, version)
    zarr_only = {"--tile": tile, "--codecs": codecs, "--zarr-format": version}
    check_zarr_only(target, format, zarr_only)
    if order and format not in ("npy", "raw"):
        what = {"zarr": "tiles of Zarr", HDF5: "data sets of HDF5"}.get(format, f"{format} files")
        raise click.UsageError(f"--order is for npy and raw files; {what} are row-major")
    array = source.open(page)
    if box is not None:
        array = array[box]
    _write(session, "converted", array, source, target, wishes, overwrite)


def _plain_format(array: Array) -> str:
    return "zarr" if array.format == "zarr-foreign" else str(array.format)


def _options(array: Array, wishes: _Wishes, target: Place) -> dict[str, Any]:
    """Arguments of `Array.save`."""
    if family_of(wishes.format):
        return {}
    if wishes.format == HDF5:
        # Chunks stay, and tiles of Zarr are no chunks, unless they are asked for.
        is_chunked = array.format == HDF5 and array.layout == "tiled"
        tile = wishes.tile or (_whole_tile(array) if is_chunked else None)
        return {"tile": None if tile == "default" else tile}
    if wishes.format != "zarr":
        return {"order": wishes.order or ("F" if array.layout == "column-major" else "C")}
    old = encoding_of(array)
    tile = wishes.tile
    if tile is None and old is not None:
        # That of a part is cut down to the part, as the rest would be padding; but there are
        # codecs that depend on it.
        tile = array.tile if old.codecs is None else _whole_tile(array)
    codecs: Any = wishes.codecs
    version = wishes.zarr_format
    if version is None and old is not None:
        group = group_around(target.path)
        version = group.zarr_format if group else old.zarr_format
    if codecs is None and old is not None:
        codecs = old.codecs
        if codecs and version != old.zarr_format:
            raise click.UsageError(
                f"codecs have other names in Zarr {version} than in Zarr {old.zarr_format}; "
                "--codecs says which are wanted"
            )
        codecs = codecs or None
    return {
        "tile": None if tile == "default" else tile,
        "codecs": codecs,
        "zarr_format": version,
    }


def _whole_tile(array: Array) -> tuple[int, ...]:
    """The tile of what an array is a part of, along the axes that are left."""
    axes = array._view.axes
    return tuple(array._source.tile[axis] for axis in axes if isinstance(axis, int))


def _write(
    session: Session,
    verb: str,
    array: Array,
    source: Place,
    target: Place,
    wishes: _Wishes,
    overwrite: bool,
) -> None:
    options = _options(array, wishes, target)
    remark_orientation(source, array, wishes.format)
    with session.work(target.name) as work:
        result = array.save(
            target.path,
            format=wishes.format,
            overwrite=overwrite,
            progress=work.progress,
            **options,
        )
        place = written(target, result, wishes.format)
        work.done = f"{verb} {source.path} to {place}"
        work.nbytes = array.nbytes
