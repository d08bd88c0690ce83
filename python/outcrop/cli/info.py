"""``outcrop info``: what an array is."""

import json
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from outcrop.arrays.array import Array
from outcrop.arrays.creation import open as opened
from outcrop.cli.encoding import encoding_of
from outcrop.cli.places import PLACE, Place, page_option, store_of
from outcrop.cli.results import aligned, count, extents
from outcrop.errors import OutcropError
from outcrop.formats.codecs import LAYOUTS
from outcrop.formats.containers import locate
from outcrop.formats.data_sets import Member
from outcrop.formats.groups import group_at
from outcrop.formats.hdf5 import HDF5, members_of
from outcrop.formats.zip_zarr import ZIP
from outcrop.formats.zip_zarr import members_of as members_of_zip
from outcrop.process.sizes import format_bytes

__all__ = ["info"]


@click.command()
@click.argument("places", metavar="PATH...", type=PLACE, nargs=-1, required=True)
@page_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per array, a line each.")
def info(places: tuple[Place, ...], page: int | None, as_json: bool) -> int:
    """Say what arrays are: shape, dtype, layout, size, attributes.

    Of an HDF5 file, a zip archive or a Zarr group, or a group in it, which arrays it holds.
    Nothing but metadata is read. A raw file needs a description:
    page.raw:shape=1000x2000,dtype=f8[,offset=128][,order=F]
    """
    failed = False
    for number, place in enumerate(places):
        try:
            tree = None if place.description else _tree(place.path)
            facts = _facts(place.open(page)) if tree is None else tree
        except OutcropError as error:
            # The others can still be told.
            click.echo(f"outcrop: error: {error}", err=True)
            failed = True
            continue
        if as_json:
            click.echo(json.dumps({"path": place.path, **facts}))
        else:
            text = _text(place, facts) if tree is None else _tree_text(place, tree)
            click.echo(("\n" if number else "") + text)
    return int(failed)


def _facts(array: Array) -> dict[str, Any]:
    source = store_of(array)
    encoding = encoding_of(array)
    return {
        "format": array.format,
        "zarr_format": encoding.zarr_format if encoding else source.zarr_format,
        "shape": list(array.shape),
        "dtype": str(array.dtype),
        "layout": array.layout,
        "tile": list(array.tile),
        "codecs": source.codecs,
        "bytes": array.nbytes,
        "stored_bytes": source.stored_bytes,
        "dimension_names": array.dimension_names,
        "fill_value": _plain(array.fill_value),
        "attributes": array.attributes,
    }


def _tree(path: str) -> dict[str, Any] | None:
    """What a file of several or a group of any format holds; None where a path is anything else."""
    where = locate(path)
    if where is not None and where.kind.name == HDF5:
        members = members_of(where.file, where.inside)
        if members is not None:
            return {"format": HDF5, "datasets": [_of_member(one) for one in members]}
    if where is not None and where.kind.name == ZIP:
        names = members_of_zip(where.file, where.inside)
        if names is not None:
            return {
                "format": "Zarr, zip archive",
                "datasets": [_of_array(Path(where.file) / name, name, ZIP) for name in names],
            }
    group = group_at(Path(path)) if os.path.isdir(path) else None
    if group is None:
        return None
    return {
        "format": f"Zarr {group.zarr_format}",
        "datasets": [_of_array(group.path / name, name) for name in group.members()],
    }


def _of_member(one: Member) -> dict[str, Any]:
    return {
        "name": one.name,
        "shape": None if one.shape is None else list(one.shape),
        "dtype": str(one.dtype),
        "layout": one.layout,
        "chunks": None if one.chunks is None else list(one.chunks),
        "filters": list(one.filters),
        "dimension_names": one.dimension_names,
        "stored_bytes": one.stored_bytes,
    }


def _of_array(path: Path, name: str, format: str | None = "zarr") -> dict[str, Any]:
    try:
        array = opened(path, format=format)
    except OutcropError as error:
        return {"name": name, "shape": None, "error": str(error).partition(f"{name}: ")[2]}
    return {
        "name": name,
        "shape": list(array.shape),
        "dtype": str(array.dtype),
        "layout": array.layout,
        "chunks": list(array.tile),
        "filters": [store_of(array).codecs],
        "dimension_names": array.dimension_names,
        "stored_bytes": store_of(array).stored_bytes,
    }


def _tree_text(place: Place, tree: dict[str, Any]) -> str:
    """A line for each group, and one for each array below it."""
    lines: list[str] = []
    above: list[str] = []
    for one in tree["datasets"]:
        *groups, name = one["name"].split("/")
        for depth, group in enumerate(groups):
            if groups[: depth + 1] != above[: depth + 1]:
                lines.append(f"{'  ' * (depth + 1)}{group}/")
        above = groups
        lines.append(f"{'  ' * (len(groups) + 1)}{name}  {_line(one)}")
    return "\n".join([_title(place), f"  format  {tree['format']}", *(lines or ["  no arrays"])])


def _line(one: dict[str, Any]) -> str:
    if "error" in one:
        return str(one["error"])
    facts = [
        "empty" if one["shape"] is None else extents(one["shape"]),
        one["dtype"],
        one["layout"] + (f" {extents(one['chunks'])}" if one["chunks"] else ""),
        *one["filters"],
    ]
    if one["dimension_names"]:
        facts.append(f"({_names(one['dimension_names'])})")
    return ", ".join(facts)


def _names(names: Sequence[str | None]) -> str:
    return ", ".join("-" if name is None else name for name in names)


def _title(place: Place) -> str:
    return click.style(place.path, bold=True) if sys.stdout.isatty() else place.path


def _text(place: Place, facts: dict[str, Any]) -> str:
    shape, tile = facts["shape"], facts["tile"]
    lines = {
        "format": _format(facts),
        "shape": extents(shape),
        "dtype": facts["dtype"],
        "layout": facts["layout"],
    }
    if facts["layout"] in LAYOUTS:
        tiles = math.prod(-(-n // t) for n, t in zip(shape, tile, strict=True))
        lines["tile"] = f"{extents(tile)}, {count(tiles, 'tile')}"
    lines |= {
        "codecs": facts["codecs"],
        "bytes": _size(facts["bytes"]),
        "stored": _size(facts["stored_bytes"]),
    }
    if facts["dimension_names"]:
        lines["dimensions"] = _names(facts["dimension_names"])
    if facts["fill_value"]:
        lines["fill value"] = str(facts["fill_value"])
    if facts["attributes"]:
        lines["attributes"] = json.dumps(facts["attributes"], ensure_ascii=False)
    return f"{_title(place)}\n{aligned(lines, '  ')}"


def _format(facts: dict[str, Any]) -> str:
    if facts["zarr_format"] is None:
        return str(facts["format"])
    return f"Zarr {facts['zarr_format']}" + (", zip archive" if facts["format"] == ZIP else "")


def _plain(element: Any) -> Any:
    """An element as JSON has it, or as text."""
    plain = None if element is None else element.item()
    is_number = not isinstance(plain, complex) and (plain is None or math.isfinite(plain))
    return plain if is_number else str(plain)


def _size(nbytes: int) -> str:
    return format_bytes(nbytes) + (f" ({nbytes} bytes)" if nbytes >= 1024 else "")
