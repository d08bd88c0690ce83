"""What stands for an array on the command line.

A path; for a raw file, a path and a description: ``page.raw:shape=1000x2000,dtype=f8``. The
description is that of the compiled core (``outcrop_store::format::raw::Description``).
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from click.shell_completion import CompletionItem

from outcrop._checks import Order, check_dtype, check_order, check_shape
from outcrop._store import StoreSource
from outcrop.array import Array
from outcrop.cli.values import parse_extents
from outcrop.creation import open as open_array
from outcrop.errors import InvalidArgumentError, OutcropError

__all__ = ["PLACE", "Description", "Place", "store_of"]

_DESCRIBED = re.compile(r"(?P<path>.+?):(?P<description>\s*\w+\s*=.*)", re.DOTALL)


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

    def open(self) -> Array:
        """Open it for reading."""
        raw = self.description
        if raw is None:
            return open_array(self.path)
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
        match = _DESCRIBED.fullmatch(value)
        # A file may be called anything.
        if match is None or os.path.lexists(value):
            return Place(value)
        try:
            return Place(match["path"], _parse(match["description"]))
        except OutcropError as error:
            self.fail(f"{value!r}: {error}", param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Paths."""
        return [CompletionItem(incomplete, type="file")]


PLACE = _PlaceType()


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
