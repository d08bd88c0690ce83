"""``outcrop transpose``, ``rotate``, ``flip`` and ``permute``."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, TypeVar

import click

from outcrop.arrays.array import Array
from outcrop.arrays.source import fitting_tile
from outcrop.cli.places import PLACE, Place, page_option
from outcrop.cli.session import Session, pass_session, warn
from outcrop.cli.targets import (
    check_zarr_only,
    obstacles,
    remark_orientation,
    target_format,
    undescribed,
    written,
)
from outcrop.cli.values import CODECS, TILE
from outcrop.errors import BoxIndexError, InvalidArgumentError
from outcrop.formats import FORMATS
from outcrop.formats.hdf5 import HDF5
from outcrop.planning import plan
from outcrop.program.plan import MovementPlan
from outcrop.reorganize import turning

__all__ = ["flip", "permute", "rotate", "transpose"]

_F = TypeVar("_F", bound=Callable[..., Any])


_SIGNED = re.compile(r"-\d[\d,-]*")


class _Signed(click.Command):
    """A verb whose last argument may begin with a minus, and is no option then."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Hand what looks like a negative number over as what can only be an argument."""
        if "--" not in args:
            numbers = [text for text in args if _SIGNED.fullmatch(text)]
            others = [text for text in args if not _SIGNED.fullmatch(text)]
            args = [*others, "--", *numbers] if numbers else args
        return super().parse_args(ctx, args)


class _Axes(click.ParamType[Any]):
    name = "axes"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """Integers with commas between them."""
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return]
        try:
            return tuple(int(part) for part in value.split(","))
        except ValueError:
            self.fail(f"{value!r} is not a list of axes such as 2,0,1", param, ctx)


def _common(function: _F) -> _F:
    """What all of these verbs take."""
    decorated: Any = function
    for decorate in reversed(
        (
            click.argument("source", metavar="SRC", type=PLACE),
            click.argument("target", metavar="DST", type=PLACE),
            click.option(
                "--tile",
                type=TILE,
                help="Zarr: tile extents such as 1024x1024, or 'default'. "
                "Where SRC is tiled, its own ones, turned, are what is taken without this.",
            ),
            page_option,
            click.option("--format", type=click.Choice(FORMATS), help="Default: by suffix."),
            click.option(
                "--order", type=click.Choice(["C", "F"]), help="npy, raw: row- or column-major."
            ),
            click.option(
                "--codecs",
                type=CODECS,
                help="Zarr: how tiles are stored, as for convert. Default: not compressed.",
            ),
            click.option(
                "--overwrite",
                is_flag=True,
                help="Replace what stands at DST, once DST is complete: of a Zarr array, all that "
                "is in its directory. It may be SRC, if that holds nothing else, such as further "
                "pages.",
            ),
            click.option(
                "--via",
                metavar="DIR",
                type=click.Path(exists=True, file_okay=False),
                help="Copy SRC to this directory first, which is on a faster disk.",
            ),
            click.option(
                "--plan", "only_plan", is_flag=True, help="Print what it will cost; move nothing."
            ),
            pass_session,
        )
    ):
        decorated = decorate(decorated)
    return decorated  # type: ignore[no-any-return]


@click.command()
@_common
@click.option("--anti", is_flag=True, help="Across the other diagonal, of a picture or a matrix.")
def transpose(session: Session, source: Place, target: Place, anti: bool, **wishes: Any) -> None:
    """Transpose: rows become columns.

    Of a picture, the channels of a pixel stay together; other arrays get their axes in reverse
    order. A raw SRC needs a description: page.raw:shape=1000x2000,dtype=u1
    """

    def turn(array: Array) -> Array:
        turned = turning.transpose(array, axes=turning.exchanged(array))
        if not anti:
            return turned
        if array.ndim != 2 and turning.exchanged(array) is None:
            raise InvalidArgumentError(
                f"--anti is for pictures and matrices; this has {array.ndim} axes"
            )
        return turning.flip(turned, axis=turning.plane(turned))

    _turn(session, "transposed", turn, source, target, **wishes)


@click.command(cls=_Signed)
@_common
@click.argument("angle", metavar="ANGLE", type=int)
@click.option("--clockwise", is_flag=True, help="The other way round.")
def rotate(
    session: Session, source: Place, target: Place, angle: int, clockwise: bool, **wishes: Any
) -> None:
    """Rotate by 90, 180 or 270 degrees, counterclockwise.

    Rows and columns are the first two axes, where a format does not say otherwise. A raw SRC needs
    a description: page.raw:shape=1000x2000,dtype=u1
    """
    degrees = -angle if clockwise else angle
    if angle % 90:
        raise click.BadParameter(f"{angle} is not a multiple of 90", param_hint="ANGLE")

    def turn(array: Array) -> Array:
        return turning.rotate(array, None, degrees)

    _turn(session, "rotated", turn, source, target, **wishes)


@click.command()
@_common
@click.option(
    "--axis",
    "axes",
    type=int,
    multiple=True,
    help="0 turns a picture upside down, 1 makes its mirror image (1 and 2 where channels come "
    "first, as in a planar TIFF); may be given several times. Default: all of them; of a picture, "
    "rows and columns.",
)
def flip(
    session: Session, source: Place, target: Place, axes: tuple[int, ...], **wishes: Any
) -> None:
    """Reverse the order of elements along axes.

    A raw SRC needs a description: page.raw:shape=1000x2000,dtype=u1
    """

    def turn(array: Array) -> Array:
        with _blaming(source, "--axis"):
            return turning.flip(array, axis=axes or turning.picture_plane(array))

    _turn(session, "flipped", turn, source, target, **wishes)


@click.command(cls=_Signed)
@_common
@click.argument("axes", metavar="AXES", type=_Axes())
def permute(
    session: Session, source: Place, target: Place, axes: tuple[int, ...], **wishes: Any
) -> None:
    """Permute axes: AXES says for each axis of DST which axis of SRC it is, such as 2,0,1.

    A raw SRC needs a description: cube.raw:shape=100x200x300,dtype=f4
    """

    def turn(array: Array) -> Array:
        with _blaming(source, "AXES"):
            return turning.permute_dims(array, axes)

    _turn(session, "permuted", turn, source, target, **wishes)


@contextmanager
def _blaming(source: Place, argument: str) -> Iterator[None]:
    """Say of axes that make no sense which argument they are, and for which array."""
    try:
        yield
    except (BoxIndexError, InvalidArgumentError) as error:
        raise click.BadParameter(f"{source.path}: {error}", param_hint=argument) from None


def _turn(
    session: Session,
    verb: str,
    turn: Callable[[Array], Array],
    source: Place,
    target: Place,
    *,
    tile: tuple[int, ...] | int | Literal["default"] | None,
    page: int | None,
    format: str | None,
    order: str | None,
    codecs: str | None,
    overwrite: bool,
    via: str | None,
    only_plan: bool,
) -> None:
    target = undescribed(target, "DST", "SRC, turned")
    format = target_format(target, format, "DST")
    check_zarr_only(target, format, {"--tile": tile, "--codecs": codecs})
    if codecs and only_plan:
        raise click.UsageError("--plan is for tiles that are not compressed: leave --codecs out")
    if order and format not in ("npy", "raw"):
        what = {"zarr": "tiles of Zarr", HDF5: "data sets of HDF5"}.get(format, f"{format} files")
        raise click.UsageError(f"--order is for npy and raw files; {what} are row-major")
    turned = turn(source.open(page))
    remark_orientation(source, turned, format)
    if tile == "default":
        tile = fitting_tile(turned.shape, turned.dtype)
    elif tile is None:
        # Said here, for the plan to be that of what is run.
        tile = turning.target_tile(turned, target.path, format)
    options: dict[str, Any] = {"tile": tile, "format": format, "target_order": order or "C"}
    if only_plan:
        planned = plan(turned, target.path, via=via, **options)
        if isinstance(planned, MovementPlan):
            # Two flips are half a rotation; here it is known which of them was asked for.
            planned.movement = click.get_current_context().command.name or planned.movement
        click.echo(planned.explain())
        for obstacle in obstacles(turned, target, overwrite):
            warn(obstacle)
        return
    with session.work(target.name) as work:
        result = turning.deliver(
            turned,
            target.path,
            verb,
            overwrite=overwrite,
            codecs=codecs,
            via=via,
            progress=work.progress,
            **options,
        )
        work.done = f"{verb} {source.path} to {written(target, result, format)}"
        work.nbytes = turned.nbytes
