"""How often a program reads what is stored, and why not once."""

import math
from dataclasses import dataclass

from outcrop.process.sizes import format_bytes, format_shape

__all__ = ["Reading"]

_BLOCK = 4096
"""Bytes of a block of the disk."""

_RUN = 64 << 10
"""Bytes in one piece of a file, from which blocks at its ends count for little."""

_MUCH = 1.02
"""From how many times as much on it is worth a word."""


@dataclass(frozen=True)
class Reading:
    """What a program takes of one stored array.

    Attributes
    ----------
    arrays : tuple of int
        The arrays of the program that are views of it, by their numbers.
    passes : int
        How many passes take it.
    least : int
        Bytes that are read if each pass reads what it takes once.
    nbytes : int
        Of the elements that a pass takes.
    stored : tuple of int or None
        The shape of the tiles in which it is stored, if it is.
    tile : tuple of int
        The shape of the tiles that steps take.
    starts_inside : bool
        Whether the first of these begins inside of a stored one.
    run : int
        Bytes of a tile that follow one another in the file.
    in_operation : bool
        Whether linear algebra takes it.
    beyond : str or None
        Why more is read than it has, for people, where its tiles are not why.
    """

    arrays: tuple[int, ...]
    passes: int
    least: int
    nbytes: int
    stored: tuple[int, ...] | None
    tile: tuple[int, ...]
    starts_inside: bool
    run: int
    in_operation: bool
    beyond: str | None

    def reasons(self, bytes_read: int) -> list[str]:
        """Why it is read as often as it is, for people; nothing where it is read once."""
        found = []
        once = self.least / self.passes
        if self.passes > 1:
            text = f"{self.passes} passes take it"
            if bytes_read * _MUCH < self.least:
                kept = format_bytes(self.least - bytes_read)
                text += f", of which {kept} are in memory already"
            found.append(text)
        if bytes_read > _MUCH * self.least > 0:
            times = f"{bytes_read / self.least:.2f} times as much as {self._those()} need: "
            found.append(times + self._cause())
        if once > _MUCH * self.nbytes:
            what = self.beyond or (
                "its last tiles reach beyond it" if self.stored else "blocks of its file hold more"
            )
            found.append(f"{what}, {once / self.nbytes:.2f} times its size")
        elif once * _MUCH < self.nbytes:
            found.append(f"stored, it has {once / self.nbytes:.2f} of its size")
        return found

    def _those(self) -> str:
        return "these passes" if self.passes > 1 else "one pass would"

    def _cause(self) -> str:
        if self.in_operation:
            return "memory holds a block of the result, and what that is made of is read for each"
        if len(self.arrays) > 1:
            return f"{len(self.arrays)} views of it have tiles of their own"
        if self.stored is not None and self._are_parts(self.stored):
            whole = format_shape(self.stored)
            return f"steps take parts of its tiles of {whole}, and each of these is read whole"
        if self.stored is None and self.run < _RUN:
            pieces = f"tiles are pieces of {format_bytes(self.run)} of its file"
            return f"{pieces}, which is read in blocks of {format_bytes(_BLOCK)}"
        return "steps take its tiles again after memory was needed for others"

    def _are_parts(self, stored: tuple[int, ...]) -> bool:
        if self.starts_inside:
            return True
        return any(own % whole for own, whole in zip(self.tile, stored, strict=True))


def run_of(
    shape: tuple[int, ...], tile: tuple[int, ...], itemsize: int, *, by_columns: bool
) -> int:
    """Bytes of a tile that follow one another in a file, row by row or column by column."""
    axes = list(zip(shape, tile, strict=True))
    found = itemsize
    for extent, own in axes if by_columns else reversed(axes):
        found *= min(own, extent)
        if own < extent:
            break
    return found


def waste(bytes_read: int, least: float) -> float:
    """How many times as much is read as the passes of a program need."""
    if least > 0:
        return bytes_read / least
    return math.inf if bytes_read else 1.0
