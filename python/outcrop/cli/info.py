"""``outcrop info``: what an array is."""

import json
import math
import sys
from typing import Any

import click

from outcrop.arrays.array import Array
from outcrop.cli.encoding import encoding_of
from outcrop.cli.places import PLACE, Place, page_option, store_of
from outcrop.cli.results import aligned, count, extents
from outcrop.errors import OutcropError
from outcrop.formats.codecs import LAYOUTS
from outcrop.process.sizes import format_bytes

__all__ = ["info"]


@click.command()
@click.argument("places", metavar="PATH...", type=PLACE, nargs=-1, required=True)
@page_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per array, a line each.")
def info(places: tuple[Place, ...], page: int | None, as_json: bool) -> int:
    """Say what arrays are: shape, dtype, layout, size, attributes.

    Nothing but metadata is read. A raw file needs a description:
    page.raw:shape=1000x2000,dtype=f8[,offset=128][,order=F]
    """
    failed = False
    for number, place in enumerate(places):
        try:
            facts = _facts(place.open(page))
        except OutcropError as error:
            # The others can still be told.
            click.echo(f"outcrop: error: {error}", err=True)
            failed = True
            continue
        if as_json:
            click.echo(json.dumps({"path": place.path, **facts}))
        else:
            click.echo(("\n" if number else "") + _text(place, facts))
    return int(failed)


def _facts(array: Array) -> dict[str, Any]:
    store = store_of(array).store
    encoding = encoding_of(array)
    return {
        "format": array.format,
        "zarr_format": encoding.zarr_format if encoding else None,
        "shape": list(array.shape),
        "dtype": str(array.dtype),
        "layout": array.layout,
        "tile": list(array.tile),
        "codecs": store.codecs,
        "bytes": array.nbytes,
        "stored_bytes": store.stored_bytes,
        "dimension_names": array.dimension_names,
        "fill_value": _plain(array.fill_value),
        "attributes": array.attributes,
    }


def _text(place: Place, facts: dict[str, Any]) -> str:
    shape, tile = facts["shape"], facts["tile"]
    lines = {
        "format": f"Zarr {facts['zarr_format']}" if facts["zarr_format"] else facts["format"],
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
        names = facts["dimension_names"]
        lines["dimensions"] = ", ".join("-" if name is None else name for name in names)
    if facts["fill_value"]:
        lines["fill value"] = str(facts["fill_value"])
    if facts["attributes"]:
        lines["attributes"] = json.dumps(facts["attributes"], ensure_ascii=False)
    name = click.style(place.path, bold=True) if sys.stdout.isatty() else place.path
    return f"{name}\n{aligned(lines, '  ')}"


def _plain(element: Any) -> Any:
    """An element as JSON has it, or as text."""
    plain = None if element is None else element.item()
    is_number = not isinstance(plain, complex) and (plain is None or math.isfinite(plain))
    return plain if is_number else str(plain)


def _size(nbytes: int) -> str:
    return format_bytes(nbytes) + (f" ({nbytes} bytes)" if nbytes >= 1024 else "")
