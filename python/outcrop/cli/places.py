"""What stands for an array on the command line.

A path; for a raw file, a path and a description: ``page.raw:shape=1000x2000,dtype=f8``. The
description is that of the compiled core (``outcrop_store::format::raw::Description``).
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from click.shell_completion import CompletionItem

from outcrop.arrays.array import Array
from outcrop.arrays.beside import beside
from outcrop.arrays.creation import DESCRIBED, looks_raw, says_nothing
from outcrop.arrays.creation import open as open_array
from outcrop.arrays.stored import StoreSource
from outcrop.checks import Order, check_dtype, check_order, check_shape
from outcrop.cli.session import warn
from outcrop.cli.store_names import complete
from outcrop.cli.values import parse_extents
from outcrop.errors import InvalidArgumentError, OutcropError

__all__ = ["PLACE", "Description", "Place", "page_option", "store_of"]

_TAKEN = {"tiff": "the first page is taken"} | dict.fromkeys(
    ("pgm", "ppm", "pam"), "the first one is taken"
)
"""By format, what is taken of a file that holds more than an array."""


@dataclass(frozen=True)
class Description:
    """Where the elements lie in a raw file, and what they are."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    offset: int = 0
    order: Order = "C"

    def __str__(self) -> str:
        shape = "x".join(map(str, self.shape)) or "()"
        parts = [f"shape={shape}", f"dtype={self.dtype.str.lstrip('|<')}"]
        parts += [f"offset={self.offset}"] if self.offset else []
        parts += ["order=F"] if self.order == "F" else []
        return ",".join(parts)


@dataclass(frozen=True)
class Place:
    """An array on the command line."""

    path: str
    description: Description | None = None

    def open(self, page: int | None = None) -> Array:
        """Open it for reading, and remark on what of its file is not in it."""
        array = self._opened(page or 0)
        if page is None and (more := beside(store_of(array), described=True)):
            taken = _TAKEN.get(array.format or "", "they are left out")
            warn(f"{self.path}: the file also holds {more}; {taken}")
        return array

    def _opened(self, page: int) -> Array:
        raw = self.description
        if raw is None:
            if looks_raw(self.path, described=False):
                raise InvalidArgumentError(
                    f"{self.path}: {says_nothing(self.path)}; "
                    f"{self.path}:shape=1000x2000,dtype=f8 would"
                )
            return open_array(self.path, page=page)
        if page:
            raise InvalidArgumentError(f"{self.path}: --page is for TIFF files")
        return open_array(
            self.path,
            shape=raw.shape,
            dtype=raw.dtype,
            offset=raw.offset,
            order=raw.order,
            format="raw",
        )

    def __str__(self) -> str:
        return self.path if self.description is None else f"{self.path}:{self.description}"

    @property
    def name(self) -> str:
        """The last part of the path."""
        return Path(self.path).name or self.path


class _PlaceType(click.ParamType[Place]):
    name = "array"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Place:
        """A path, with a description where there is one."""
        if isinstance(value, Place):
            return value
        if not value:
            self.fail("an empty path is no array", param, ctx)
        if value == "-":
            self.fail("'-': arrays are files, not streams; ./- is a file of this name", param, ctx)
        match = DESCRIBED.fullmatch(value)
        # A file may be called anything.
        if match is None or os.path.lexists(value):
            return Place(value)
        try:
            return Place(match["path"], _parse(match["description"]))
        except OutcropError as error:
            self.fail(f"{value!r}: {error}", param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem[str]]:
        """Paths, and names inside groups and files."""
        return complete(incomplete)


PLACE = _PlaceType()

page_option = click.option(
    "--page",
    type=click.IntRange(0),
    help="TIFF: which of the images in SRC, counted from 0. Default: the first.",
)


def _parse(text: str) -> Description:
    given: dict[str, str] = {}
    for item in filter(None, map(str.strip, text.split(","))):
        key, equals, value = (part.strip() for part in item.partition("="))
        if not equals:
            raise InvalidArgumentError(f"{item!r} is not of the form key=value")
        if key not in ("shape", "dtype", "offset", "order"):
            raise InvalidArgumentError(f"{key!r} is not one of shape, dtype, offset and order")
        if key in given:
            raise InvalidArgumentError(f"{key} is given twice")
        given[key] = value
    for key, example in (("shape", "1000x2000"), ("dtype", "f8")):
        if key not in given:
            raise InvalidArgumentError(f"{key} is missing; for example {key}={example}")
    dtype = check_dtype(given["dtype"], swapped=True)
    try:
        shape = parse_extents(given["shape"])
    except ValueError:
        raise InvalidArgumentError(
            f"shape={given['shape']!r} is not a list of extents such as 1000x2000"
        ) from None
    offset = given.get("offset", "0")
    if not (offset.isdecimal() and offset.isascii()):
        raise InvalidArgumentError(f"offset={offset!r} is not a number of bytes")
    order = check_order(given.get("order", "C").upper())
    return Description(check_shape(shape, dtype), dtype, int(offset), order)


def store_of(array: Array) -> StoreSource:
    """What of an array is on disk."""
    source = array._source
    assert isinstance(source, StoreSource)
    return source
