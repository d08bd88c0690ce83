"""Nests as Numba runs them in memory, and as they run on disk."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np

import outcrop as oc


def plain(function: Callable[..., Any], given: dict[str, Any]) -> dict[str, Any]:
    """What the arrays become."""
    own = {p: v.copy() if isinstance(v, np.ndarray) else v for p, v in given.items()}
    numba.njit(function, error_model="numpy")(*own.values())
    return own


def stored(
    given: dict[str, Any], written: tuple[str, ...], tile: int, path: Path
) -> dict[str, Any]:
    """The same arguments with arrays on disk."""
    found = {}
    for p, value in given.items():
        if not isinstance(value, np.ndarray):
            found[p] = value
            continue
        edges = tuple(min(tile, n) for n in value.shape)
        if value.ndim == 1:
            edges = (min(tile * tile, value.shape[0]),)
        elif value.ndim == 3:
            edges = tuple(min(10, n) for n in value.shape)
        with oc.create(path / f"{p}.zarr", value.shape, value.dtype, tile=edges) as array:
            array[...] = value
        found[p] = oc.open(path / f"{p}.zarr", "r+" if p in written else "r")
    return found
