"""What stands for tiles, boxes and codecs on the command line."""

import re
from typing import Any

import click
import numpy as np

from outcrop.errors import OutcropError
from outcrop.formats.codecs import expand_codecs

__all__ = ["BOX", "CODECS", "TILE", "parse_extents"]


def parse_extents(text: str) -> tuple[int, ...]:
    """Extents with ``x`` between them; ``()`` for none.

    Raises
    ------
    ValueError
        Where this is something else.

    Examples
    --------
    >>> parse_extents("1000x2000"), parse_extents("()")
    ((1000, 2000), ())
    """
    if text.strip() == "()":
        return ()
    parts = [part.strip() for part in re.split("[xX]", text)]
    # int() would also take signs and underscores.
    if not all(part.isdecimal() and part.isascii() for part in parts):
        raise ValueError(text)
    return tuple(map(int, parts))


class _Tile(click.ParamType[Any]):
    name = "tile"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...] | int | str:
        """Extents, one for all axes, or the word "default"."""
        if not isinstance(value, str) or value == "default":
            return value  # type: ignore[no-any-return]
        try:
            tile = parse_extents(value)
        except ValueError:
            tile = (0,)
        if not all(tile):
            self.fail(f"{value!r} is not a tile such as 1024x1024, nor 'default'", param, ctx)
        return tile[0] if len(tile) == 1 else tile


class _Box(click.ParamType[Any]):
    name = "box"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Any, ...]:
        """A key of basic indexing."""
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return]
        text = value.strip().removeprefix("[").removesuffix("]")
        try:
            return tuple(map(_index, text.split(",")))
        except ValueError:
            self.fail(f"{value!r} is not a box such as '0:100,:' or '5,...,-10:'", param, ctx)


def _index(text: str) -> Any:
    text = text.strip()
    if text == "...":
        return ...
    if ":" not in text:
        return int(text)
    parts = [int(part) if part.strip() else None for part in text.split(":")]
    if len(parts) > 3 or parts[2:] == [0]:
        raise ValueError(text)
    return slice(*parts)


class _Codecs(click.ParamType[Any]):
    name = "codecs"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text, if something can be made of it."""
        try:
            expand_codecs(value, np.dtype("u1"), 3)
        except OutcropError as error:
            self.fail(str(error).removeprefix("codecs: "), param, ctx)
        return str(value)


TILE = _Tile()
BOX = _Box()
CODECS = _Codecs()
