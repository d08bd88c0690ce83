"""The steps of a program, in an order that is right if they are done one after the other."""

from array import array
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from outcrop import _native

__all__ = ["READ", "UPDATE", "WRITE", "Action", "Kind", "Steps", "operand"]

Action: TypeAlias = Callable[[Sequence[NDArray[Any]], NDArray[Any]], None]
"""What a step does, given its tiles and a workspace."""

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
        self._actions: list[Action] = []
        self._kernels = array("H")
        self._counts = array("H")
        self._work = array("d")
        self._operands = array("I")

    def kernel(self, kind: Kind, rate: float) -> int:
        """A kernel that does so many operations in a second."""
        return self._draft.kernel(kind, rate)

    def add(self, kernel: int, operands: Sequence[int], work: float, action: Action) -> None:
        """Append a step, which takes so many operations."""
        self._kernels.append(kernel)
        self._counts.append(len(operands))
        self._work.append(work)
        self._operands.extend(operands)
        self._actions.append(action)

    def hand_over(self) -> None:
        """Give all steps to the program."""
        self._draft.steps(
            np.array(self._kernels, np.uint16),
            np.array(self._counts, np.uint16),
            np.array(self._work, np.float64),
            np.array(self._operands, np.uint32),
        )

    def run(self, number: int, tiles: Sequence[NDArray[Any]], workspace: NDArray[Any]) -> None:
        """Do a step."""
        self._actions[number](tiles, workspace)
