"""The steps of a program, in an order that is right if they are done one after the other."""

from array import array
from bisect import bisect_right, insort
from collections.abc import Callable, Hashable, Sequence
from enum import StrEnum
from operator import itemgetter
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from outcrop import _native

__all__ = [
    "READ",
    "UPDATE",
    "WRITE",
    "Action",
    "Kind",
    "Size",
    "Steps",
    "Waiting",
    "arguments",
    "operand",
]

Action: TypeAlias = Callable[[Sequence[NDArray[Any]], NDArray[Any]], None]
"""What a step does, given its tiles and a workspace."""

Room: TypeAlias = tuple[int, int]
"""Where a part of a workspace begins and ends, in bytes."""

READ, WRITE, UPDATE = range(3)
"""How a step uses a tile."""


class Kind(StrEnum):
    """Kinds of steps."""

    ELEMENTWISE = "elementwise"
    PRODUCT = "product"
    REDUCE = "reduce"
    COMBINE = "combine"
    MOVE = "move"


class Waiting(Protocol):
    """Steps that are appended when one takes what they make."""

    def make(self, tile: int) -> None:
        """Append what makes a tile, where it has not been."""

    def renew(self) -> None:
        """Another pass begins."""

    def finish(self) -> None:
        """Append all that has never been."""


class Size(NamedTuple):
    """How many steps there are, and how many operands and arguments they have in all."""

    steps: int
    operands: int
    arguments: int

    def plus(self, other: "Size") -> "Size":
        """Of both."""
        return Size(*map(sum, zip(self, other, strict=True)))


def arguments(lines: int | None, tiles: int) -> int:
    """How many arguments a step has: of a tape with so many cut lines and tiles, or none (None)."""
    return 1 if lines is None else -(-(2 * lines + tiles) // 4)


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
        self._waiting: list[tuple[int, int, Waiting]] = []
        self._actions: list[Action] = []
        self._known: dict[Hashable, int] = {}
        self._numbers = array("Q")
        self._places = array("H")
        self._kernels = array("H")
        self._counts = array("H")
        self._work = array("d")
        self._operands = array("I")
        self._columns = (
            self._kernels,
            self._counts,
            self._work,
            self._operands,
            self._numbers,
            self._places,
        )

    def kernel(self, kind: Kind, rate: float) -> int:
        """A kernel for `add`, which does so many operations in a second."""
        return self._made((kind, rate), lambda: self._draft.kernel(kind.value, rate))

    def tape(
        self,
        kind: Kind,
        rate: float,
        key: Hashable,
        make: Callable[[], _native.TapeDraft],
        room: Room = (0, 0),
    ) -> int:
        """A kernel for `add_taped`: a tape that does steps without the interpreter.

        It is made once for each key, which keeps alive what it names.
        """
        return self._made(
            (kind, rate, key), lambda: self._draft.tape(kind.value, rate, make(), room)
        )

    def _made(self, key: Hashable, make: Callable[[], int]) -> int:
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = make()
        return number

    def wait(self, tiles: Sequence[range], waiting: "Waiting") -> None:
        """Have these tiles, by their numbers, made before a step takes one of them."""
        for numbers in tiles:
            insort(self._waiting, (numbers.start, numbers.stop, waiting), key=itemgetter(0))

    def another_pass(self) -> None:
        """What is rather made again than kept is waiting again."""
        for one in dict.fromkeys(one for _, _, one in self._waiting):
            one.renew()

    def wait_no_more(self) -> None:
        """Append all steps that are waiting."""
        for one in list(dict.fromkeys(one for _, _, one in self._waiting)):
            one.finish()
        self._waiting.clear()

    def _make(self, operands: Sequence[int]) -> None:
        for used in operands:
            tile = used >> 2
            place = bisect_right(self._waiting, tile, key=itemgetter(0)) - 1
            if place >= 0:
                _, stop, waiting = self._waiting[place]
                if tile < stop:
                    waiting.make(tile)

    def add(self, kernel: int, operands: Sequence[int], work: float, action: Action) -> None:
        """Append a step, which takes so many operations."""
        if self._waiting:
            self._make(operands)
        self._append(kernel, operands, work)
        self._actions.append(action)

    def add_taped(
        self,
        kernel: int,
        operands: Sequence[int],
        work: float,
        parts: Sequence[int],
        places: Sequence[int],
    ) -> None:
        """Append a step that a tape does.

        Parameters
        ----------
        kernel, operands, work
            As for other steps.
        parts : sequence of int
            Which part the step has of each line that the tape has cut.
        places : sequence of int
            Which of the operands are the tape's tiles.
        """
        if self._waiting:
            self._make(operands)
        self._append(kernel, operands, work)
        self._numbers.extend(parts)
        self._places.extend(places)

    def _append(self, kernel: int, operands: Sequence[int], work: float) -> None:
        self._kernels.append(kernel)
        self._counts.append(len(operands))
        self._work.append(work)
        self._operands.extend(operands)

    def hand_over(self, *, made: bool = False) -> None:
        """Give the steps that it does not have yet to the program.

        If they are made later, linear algebra adds them, before each time that it takes what they
        make.
        """
        self._draft.steps(
            np.array(self._kernels, np.uint16),
            np.array(self._counts, np.uint16),
            np.array(self._work, np.float64),
            np.array(self._operands, np.uint32),
            np.array(self._numbers, np.uint64),
            np.array(self._places, np.uint16),
            made,
        )
        for column in self._columns:
            del column[:]

    def run(self, number: int, tiles: Sequence[NDArray[Any]], workspace: NDArray[Any]) -> None:
        """Do a step that no tape does, by its number among these."""
        self._actions[number](tiles, workspace)
