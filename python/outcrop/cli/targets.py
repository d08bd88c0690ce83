"""Where results go: format by suffix or option, and how what was written is named."""

from pathlib import PurePath
from typing import Any

import click

from outcrop._checks import Order
from outcrop.array import Array
from outcrop.cli.places import Description, Place
from outcrop.formats import FORMATS, format_of

__all__ = ["check_zarr_only", "format_of_suffix", "target_format", "undescribed", "written"]


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
        raise click.BadParameter(
            f"the suffix of {target.path!r} does not say which format is wanted; "
            f"--format {', '.join(FORMATS[:-1])} or {FORMATS[-1]} does",
            param_hint=name,
        )
    return format


def check_zarr_only(target: Place, format: str, options: dict[str, Any]) -> None:
    """Refuse options that are for Zarr arrays where the target is none."""
    for option in [option for option, value in options.items() if value and format != "zarr"]:
        raise click.UsageError(f"{option} is for Zarr arrays, and {target.path!r} will be {format}")


def written(target: Place, result: Array, format: str) -> Place:
    """What stands for a result on the command line."""
    if format != "raw":
        return target
    # Nobody could open it without knowing this.
    order: Order = "F" if result.layout == "column-major" else "C"
    return Place(target.path, Description(result.shape, result.dtype, 0, order))
