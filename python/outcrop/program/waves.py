"""Steps that come in rounds, as sweeps over a grid do: where each round was at which time.

Of many tiles and a long time, rows and columns of the picture stand for several: they grow wider as
the run turns out to be longer and the grid larger, and of what falls together the latest is kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["WaveGrid", "Waves", "place_of"]

_COLUMNS = 1024
_ROWS = 256
_AXES = 3
_NOTHING = -1

_Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Waves:
    """Where rounds were at which time.

    Attributes
    ----------
    axis : int
        The axis of the grid along which they go.
    tiles : int
        How many tiles it has there.
    rounds : int
        How many rounds there are, from 0 on.
    rows : ndarray of int
        (rows, columns). For each position along the axis, and each part of the time, the last round
        that was there; -1 where there was none.
    seconds : float
        How long all columns are.
    """

    axis: int
    tiles: int
    rounds: int
    rows: _Ints
    seconds: float


def place_of(tile: str) -> tuple[int, ...]:
    """The coordinates of a tile, from how the engine writes it.

    Examples
    --------
    >>> place_of("u (3, 2)"), place_of("u (7,)")
    ((3, 2), (7,))
    """
    _, _, inner = tile.rpartition("(")
    return tuple(int(n) for n in inner.removesuffix(")").split(",") if n.strip())


class WaveGrid:
    """Adds up steps of rounds, in bounded memory."""

    def __init__(self) -> None:
        self._rows: list[NDArray[np.int32]] = []
        self._scales: list[int] = []
        self._tiles: list[int] = []
        self._width = 1e-3
        self._rounds = 0

    def add(self, place: Sequence[int], round_: int, begin: float, end: float) -> None:
        """Add a step, in the order in which they ended.

        Parameters
        ----------
        place : sequence of int
            The coordinates of its tile.
        round_ : int
            Its round.
        begin, end : float
            Microseconds.
        """
        place = place[:_AXES]
        if not self._rows:
            self._rows = [np.full((_ROWS, _COLUMNS), _NOTHING, np.int32) for _ in place]
            self._scales = [1] * len(place)
            self._tiles = [0] * len(place)
        while end >= self._width * _COLUMNS:
            self._widen()
        self._rounds = max(self._rounds, round_ + 1)
        first, last = int(begin / self._width), int(end / self._width)
        for axis, at in enumerate(place[: len(self._rows)]):
            while at >= _ROWS * self._scales[axis]:
                self._heighten(axis)
            self._tiles[axis] = max(self._tiles[axis], at + 1)
            self._rows[axis][at // self._scales[axis], first : last + 1] = round_

    def _widen(self) -> None:
        half = _COLUMNS // 2
        for rows in self._rows:
            early, late = rows[:, ::2], rows[:, 1::2]
            rows[:, :half] = np.where(late == _NOTHING, early, late)
            rows[:, half:] = _NOTHING
        self._width *= 2

    def _heighten(self, axis: int) -> None:
        half, rows = _ROWS // 2, self._rows[axis]
        rows[:half] = np.maximum(rows[::2], rows[1::2])
        rows[half:] = _NOTHING
        self._scales[axis] *= 2

    def result(self, end: float) -> Waves | None:
        """What there is to see, of a run that ended after so many microseconds."""
        if not self._rows:
            return None
        columns = min(int(end / self._width) + 1, _COLUMNS)
        shown: list[Any] = [
            rows[: -(-tiles // scale), :columns]
            for rows, tiles, scale in zip(self._rows, self._tiles, self._scales, strict=True)
        ]

        def filled(axis: int) -> float:
            """A wave is at few positions at a time along the axis that it goes along."""
            if self._tiles[axis] == 1:
                return 2.0
            return float((shown[axis] != _NOTHING).mean())

        axis = min(range(len(shown)), key=filled)
        return Waves(
            axis=axis,
            tiles=self._tiles[axis],
            rounds=self._rounds,
            rows=shown[axis].astype(np.int64),
            seconds=columns * self._width / 1e6,
        )
