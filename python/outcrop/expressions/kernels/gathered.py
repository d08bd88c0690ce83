"""What a step copies from a tile for a node that gathers elements."""

from dataclasses import dataclass
from typing import TypeAlias

from outcrop.expressions.graph.gathers import Copy, Gather

__all__ = ["Gathered", "Ranges"]

Ranges: TypeAlias = dict[int, tuple[int, int]]
"""The first index of each cut line, and the one after the last."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """Elements that a node takes from one place.

    Attributes
    ----------
    node : Gather
        The node.
    tile : int or None
        The tile that they are in; None for what is in memory, or computed by a function.
    copy : callable
        What copies them to the node's own tile from that one, or whatever it is given.
    """

    node: Gather
    tile: int | None
    copy: Copy
