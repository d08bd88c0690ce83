"""The plain loop over all cells, in Python: what sweeps have to give bit for bit."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outcrop.sweeps import Sweep


class BeyondError(Exception):
    """A neighbour is not there."""


class At:
    """An array as a cell sees it, in plain Python."""

    def __init__(
        self, old: NDArray[Any], new: NDArray[Any], boundary: Sequence[str], cell: Sequence[int]
    ) -> None:
        self._old, self._new, self._boundary, self._cell = old, new, boundary, cell

    def __getitem__(self, offset: Any) -> Any:
        offset = offset if isinstance(offset, tuple) else (offset,)
        found = []
        for i, o, n, boundary in zip(
            self._cell, offset, self._old.shape, self._boundary, strict=True
        ):
            at = i + o
            if boundary == "periodic":
                at %= n
            elif boundary == "nearest":
                at = min(max(at, 0), n - 1)
            elif not 0 <= at < n:
                raise BeyondError
            found.append(at)
        return self._old[tuple(found)].item()

    def __setitem__(self, offset: Any, value: Any) -> None:
        self._new[tuple(self._cell)] = value


def plain(sweep: Sweep, *given: Any, sweeps: int) -> list[NDArray[Any]]:
    """What sweeps of a function leave of the arrays that it updates."""
    cell, function = sweep.cell, sweep.__wrapped__  # type: ignore[attr-defined]
    arguments = dict(zip(cell.parameters, given, strict=True))
    arrays = {p: np.array(arguments[p]) for p in cell.arrays}
    shape = arrays[cell.arrays[0]].shape
    for number in range(sweeps):
        directions = sweep.directions[number % len(sweep.directions)]
        new = arrays if sweep.inplace else {p: a.copy() for p, a in arrays.items()}
        orders = [range(n)[::step] for n, step in zip(shape, directions, strict=True)]
        for at in itertools.product(*orders):
            if not _is_inside(sweep, at, shape):
                continue
            seen = {p: At(a, new[p], sweep.boundary, at) for p, a in arrays.items()}
            function(**(arguments | seen))
        arrays = new
    return [arrays[p] for p in cell.written]


def _is_inside(sweep: Sweep, at: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether a cell has all neighbours that there are to be."""
    reads = [o for offsets in sweep.cell.reads.values() for o in offsets]
    return all(
        boundary != "fixed" or all(0 <= i + o[axis] < n for o in reads)
        for axis, (i, n, boundary) in enumerate(zip(at, shape, sweep.boundary, strict=True))
    )
