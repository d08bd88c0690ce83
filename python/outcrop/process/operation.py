"""What belongs to one operation, and goes with it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from outcrop import _native
from outcrop.process.config import naming_scratch

__all__ = ["Moved", "Operation", "copied_beside", "note_copied", "operation", "scope"]


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
    copied : int
        Bytes that files had besides, and that were copied by the system, not by the core.
    """

    def __init__(self) -> None:
        self.results: dict[tuple[int, Any], tuple[Any, Any]] = {}
        self.again = Moved()
        self.copied = 0
        self._kept = Moved()

    @contextmanager
    def making(self) -> Iterator[Making]:
        """Count what computing an operand moves, those included that it needs itself."""
        before, again, kept = Moved(*_native.Operation.so_far()), self.again, self._kept
        made = Making()
        yield made
        moved = Moved(*_native.Operation.so_far()).plus(before, -1)
        if made.is_kept:
            self.again, self._kept = again, kept.plus(moved)
        else:
            self.again = again.plus(moved).plus(self._kept.plus(kept, -1), -1)


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
