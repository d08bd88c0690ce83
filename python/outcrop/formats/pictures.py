"""Rows and columns of pictures, and which way round they are shown."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["picture_axes", "turned_orientation"]

_SHOWN: dict[int, Callable[[NDArray[Any]], NDArray[Any]]] = {
    1: lambda stored: stored,
    2: lambda stored: stored[:, ::-1],
    3: lambda stored: stored[::-1, ::-1],
    4: lambda stored: stored[::-1],
    5: lambda stored: stored.T,
    6: lambda stored: np.rot90(stored, -1),
    7: lambda stored: stored[::-1, ::-1].T,
    8: lambda stored: np.rot90(stored),
}
"""What is shown of a stored picture, for each of TIFF's orientations."""

_CORNERS = np.arange(4).reshape(2, 2)
"""A picture that looks different in every orientation."""


def picture_axes(attributes: Mapping[str, Any], ndim: int) -> tuple[int, int]:
    """Rows and columns among the axes of a picture as it is stored."""
    return (1, 2) if ndim == 3 and attributes.get("planarconfig") == "separate" else (0, 1)


def turned_orientation(
    attributes: Mapping[str, Any], ndim: int, axes: Sequence[tuple[int | None, int]]
) -> int | None:
    """The orientation that makes a view of a picture look as the picture does, turned alike.

    None where the picture has none, or a view of it is no picture of as many rows and columns.
    For each axis of the view, `axes` says which one of the picture's it is, None for a new one,
    and the step along it; the picture itself has `ndim` of them.
    """
    orientation = attributes.get("orientation")
    if type(orientation) is not int or orientation not in _SHOWN:
        return None
    stored = picture_axes(attributes, ndim)
    own = [axis for axis, _ in axes]
    if ndim not in (2, 3) or not all(axis in own for axis in stored):
        return None
    rows, columns = (own.index(axis) for axis in stored)
    if sorted((rows, columns)) not in ([0, 1], sorted(stored)):
        return None

    def sign(axis: int) -> int:
        return -1 if axes[axis][1] < 0 else 1

    def turn(picture: NDArray[Any]) -> NDArray[Any]:
        picture = picture[:: sign(rows), :: sign(columns)]
        return picture.T if rows > columns else picture

    wanted = turn(_SHOWN[orientation](_CORNERS))
    stored_so = turn(_CORNERS)
    return next(n for n, shown in _SHOWN.items() if np.array_equal(shown(stored_so), wanted))
