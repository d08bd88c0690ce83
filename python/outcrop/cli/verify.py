"""``outcrop verify``: whether arrays are what was written."""

import math
from pathlib import Path

import click

from outcrop import _native
from outcrop.cli.places import PLACE, Place, store_of
from outcrop.cli.results import count
from outcrop.cli.session import Session, pass_session
from outcrop.errors import OutcropError
from outcrop.formats.codecs import FRONTIER
from outcrop.process.sizes import format_bytes

__all__ = ["verify"]

_CHECKSUMS = ("crc32c", "adler32", "fletcher32", "gzip", "zlib", "deflate", FRONTIER, "zip")
"""Codecs that find altered bytes."""


@click.command()
@click.argument("places", metavar="PATH...", type=PLACE, nargs=-1, required=True)
@click.option(
    "--accept",
    is_flag=True,
    help="Record tiles that another program has changed lawfully as they are now.",
)
@pass_session
def verify(session: Session, places: tuple[Place, ...], accept: bool) -> int:
    """Read whole arrays and compare every checksum.

    Names every damaged tile on stderr. The exit status is 1 if there is one. The formats npy and
    raw, images, and some codecs, have no checksums: of those, only what cannot be read is found.
    Of an array in a zip archive, each entry is compared with the checksum that zip has of it.
    """
    failed = False
    for place in places:
        try:
            damaged = _verify(session, place, accept)
        except OutcropError as error:
            # The others can still be looked at.
            click.echo(f"outcrop: error: {error}", err=True)
            failed = True
            continue
        failed = failed or damaged
    return int(failed)


def _verify(session: Session, place: Place, accept: bool) -> bool:
    """Whether the array is damaged."""
    if accept and place.description is None and Path(place.path).is_dir():
        # Also what cannot be opened otherwise, because its index is about another state.
        _native.open(place.path, "accept", None, None, None, 0, "C").verify(True, None)
    array = place.open()
    source = store_of(array)
    store = source.store
    with session.work(place.name) as work:
        damaged = source.verify(accept, work.progress)
        work.nbytes = array.nbytes
    for line in damaged:
        click.echo(f"{place.path}: {line}", err=True)
    if damaged:
        verdict = f"{place.path}: {count(len(damaged), 'damaged tile')}"
        if any("another program" in line for line in damaged):
            verdict += "; if the changes are lawful, 'outcrop verify --accept' records them"
        click.echo(f"outcrop: error: {verdict}", err=True)
    elif not session.quiet:
        what = format_bytes(array.nbytes)
        if store.layout == "tiled":
            tiles = math.prod(-(-n // t) for n, t in zip(array.shape, array.tile, strict=True))
            what = f"{count(tiles, 'tile')}, {what}"
        checked = any(codec in source.codecs for codec in _CHECKSUMS)
        verdict = "sound" if checked else "readable, but without checksums"
        if checked and store.format != "zarr":
            verdict = "each tile is sound (no index: one missing or exchanged would not be noticed)"
        click.echo(f"{place.path}: {verdict}, {what}")
    return bool(damaged)
