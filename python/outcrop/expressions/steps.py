"""The steps of a program, in an order that is right if they are done one after the other."""

from array import array
from collections.abc import Callable, Hashable, Iterable, Sequence
from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from outcrop import _native

__all__ = ["READ", "UPDATE", "WRITE", "Action", "Kind", "Steps", "operand"]

Action: TypeAlias = Callable[[Sequence[NDArray[Any]], NDArray[Any]], None]
"""What a step does, given its tiles and a workspace."""

Room: TypeAlias = tuple[int, int]
"""Where a part of a workspace begins and ends, in bytes."""

READ, WRITE, UPDATE = range(3)
"""How a step uses a tile."""


class Kind(IntEnum):
    """Kinds of steps, as the compiled core numbers them."""

    ELEMENTWISE = 0
    PRODUCT = 1
    REDUCE = 2
    COMBINE = 3
    MOVE = 4


def operand(tile: int, access: int) -> int:
    """A tile that a step uses, as the compiled core takes it."""
    return tile << 2 | access


class Steps:
    """The steps of a program, and what they do.

    Parameters
    ----------
    draft : _native.Draft
        The program.
    """

    def __init__(self, draft: _native.Draft) -> None:
        self._draft = draft
        self._actions: list[Action | None] = []
        self._tapes: dict[Hashable, int] = {}
        self._tape_of = array("i")
        self._ranges = array("Q")
        self._places = array("H")
        self._kernels = array("H")
        self._counts = array("H")
        self._work = array("d")
        self._operands = array("I")

    def kernel(self, kind: Kind, rate: float) -> int:
        """A kernel that does so many operations in a second."""
        return self._draft.kernel(kind, rate)

    def tape(self, key: Hashable, make: Callable[[], _native.TapeDraft], room: Room) -> int:
        """The number of a tape that does steps without the interpreter, made once for each key.

        The key keeps alive what it names.
        """
        number = self._tapes.get(key)
        if number is None:
            number = self._tapes[key] = self._draft.tape(make(), room)
        return number

    def add(self, kernel: int, operands: Sequence[int], work: float, action: Action) -> None:
        """Append a step, which takes so many operations."""
        self._append(kernel, operands, work, action, -1)

    def add_taped(
        self,
        kernel: int,
        operands: Sequence[int],
        work: float,
        tape: int,
        ranges: Iterable[tuple[int, int]],
        places: Sequence[int],
    ) -> None:
        """Append a step that a tape does.

        Parameters
        ----------
        kernel, operands, work
            As for other steps.
        tape : int
            The tape's number.
        ranges : iterable of tuple
            Of each line that the tape has cut, the first index and the one after the last.
        places : sequence of int
            Which of the operands are the tape's tiles.
        """
        self._append(kernel, operands, work, None, tape)
        for own in ranges:
            self._ranges.extend(own)
        self._places.extend(places)

    def _append(
        self,
        kernel: int,
        operands: Sequence[int],
        work: float,
        action: Action | None,
        tape: int,
    ) -> None:
        self._kernels.append(kernel)
        self._counts.append(len(operands))
        self._work.append(work)
        self._operands.extend(operands)
        self._actions.append(action)
        self._tape_of.append(tape)

    def hand_over(self) -> None:
        """Give all steps to the program."""
        self._draft.steps(
            np.array(self._kernels, np.uint16),
            np.array(self._counts, np.uint16),
            np.array(self._work, np.float64),
            np.array(self._tape_of, np.int32),
            np.array(self._operands, np.uint32),
            np.array(self._ranges, np.uint64),
            np.array(self._places, np.uint16),
        )

    def run(self, number: int, tiles: Sequence[NDArray[Any]], workspace: NDArray[Any]) -> None:
        """Do a step that no tape does."""
        action = self._actions[number]
        assert action is not None
        action(tiles, workspace)
