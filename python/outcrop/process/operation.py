"""What belongs to one operation, and goes with it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from outcrop import _native
from outcrop.process.config import naming_scratch

__all__ = [
    "Moved",
    "Operation",
    "copied_beside",
    "note_copied",
    "operation",
    "scope",
    "with_operands",
]

_T = TypeVar("_T")


class Moved(NamedTuple):
    """What runs have moved, in bytes, and how long they took."""

    bytes_read: int = 0
    bytes_written: int = 0
    seconds: float = 0.0

    def plus(self, other: "Moved", times: int = 1) -> "Moved":
        """The sum, or where times is -1, the difference."""
        return Moved(
            self.bytes_read + times * other.bytes_read,
            self.bytes_written + times * other.bytes_written,
            self.seconds + times * other.seconds,
        )


class Making:
    """An operand that is being computed.

    Attributes
    ----------
    is_kept : bool
        Whether it stays when the operation ends, and need not be computed again.
    """

    def __init__(self) -> None:
        self.is_kept = False


class Operation:
    """What an operation has made for itself.

    Attributes
    ----------
    results : dict
        What operands were computed to that memory does not hold: each with the source that is
        computed, by its id, and the view of it.
    again : Moved
        What its operands have moved that go with it: the same once more, if it is repeated.
    kept : Moved
        What its operands have moved that stay.
    plans : bool
        Whether it only says what another one will do.
    copied : int
        Bytes that files had besides, and that were copied by the system, not by the core.
    """

    def __init__(self) -> None:
        self.results: dict[tuple[int, Any], tuple[Any, Any]] = {}
        self.again = Moved()
        self.kept = Moved()
        self.copied = 0
        self.plans = False
        self._is_afresh = False

    @contextmanager
    def making(self) -> Iterator[Making]:
        """Count what computing an operand moves, those included that it needs itself."""
        if self.plans and not self._is_afresh:
            self._is_afresh = True
            _native.forget_unchanged()
        before, again, kept = Moved(*_native.Operation.so_far()), self.again, self.kept
        made = Making()
        yield made
        moved = Moved(*_native.Operation.so_far()).plus(before, -1)
        if made.is_kept:
            self.again, self.kept = again, kept.plus(moved)
        else:
            self.again = again.plus(moved).plus(self.kept.plus(kept, -1), -1)


_running = threading.local()

_last: tuple[dict[str, Any] | None, int] = (None, 0)
"""The core's report of the last operation that has copied bytes besides, and how many."""


def note_copied(nbytes: int) -> None:
    """Count bytes that were copied without the core, which the report of the operation has too."""
    running: Operation | None = getattr(_running, "operation", None)
    if running is not None:
        running.copied += nbytes


def copied_beside(report: dict[str, Any]) -> int:
    """Bytes that the operation of a report has copied besides."""
    of, nbytes = _last
    # No two operations take the same time to the nanosecond, and more of them are alike.
    return nbytes if report == of else 0


@contextmanager
def scope() -> Iterator[Operation]:
    """What lives as long as the operation of this thread; where there is none, as long as this."""
    outer: Operation | None = getattr(_running, "operation", None)
    if outer is not None:
        yield outer
        return
    own = _running.operation = Operation()
    try:
        yield own
    finally:
        _running.operation = None


def with_operands(make: Callable[[], _T]) -> tuple[_T, Moved]:
    """Make a plan, and say what operands move that are computed each time it is run.

    They are computed for the plan as well, and would leave tiles in memory that the run then does
    not read: so both start from nothing.
    """
    for again in (True, False):
        with scope() as running:
            before, kept = running.again, running.kept
            outer, running.plans = running.plans, True
            try:
                found = make()
            finally:
                running.plans = outer
            first = running.again.plus(before, -1)
            again = again and running.kept != kept
        if first == Moved():
            break
        _native.forget_unchanged()
        if not again:
            break
        # What stays is not computed by the run; what came after it may have found its tiles.
    return found, first


@contextmanager
def operation() -> Iterator[Operation]:
    """One operation of this thread, with one report; within another one, a part of that.

    Operations of other threads wait meanwhile.
    """
    global _last
    with scope() as running:
        with _native.Operation(), naming_scratch():
            yield running
        if running.copied:
            _last = _native.last_run(), running.copied
