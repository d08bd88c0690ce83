"""How the memory of a tile shows the elements of a node."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

__all__ = ["Look"]


@dataclass(frozen=True)
class Look:
    """How the memory of a tile shows elements of a node.

    Attributes
    ----------
    show : callable
        What shows an array as another one.
    axes : tuple of tuple or None
        Of each axis, which one of the tile it is, None for a new one, the step along it, and the
        first index. None where that does not say it all.
    """

    show: Callable[[NDArray[Any]], NDArray[Any]]
    axes: tuple[tuple[int | None, int, int], ...] | None

    def __call__(self, tile: NDArray[Any]) -> NDArray[Any]:
        return self.show(tile)
