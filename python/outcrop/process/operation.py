"""What belongs to one operation, and goes with it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from outcrop import _native
from outcrop.process.config import naming_scratch

__all__ = ["Operation", "operation", "scope"]


class Operation:
    """What an operation has made for itself.

    Attributes
    ----------
    results : dict
        What operands were computed to that memory does not hold, by id of their sources.
    """

    def __init__(self) -> None:
        self.results: dict[int, tuple[Any, Any]] = {}


_running = threading.local()


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
    with _native.Operation(), scope() as running, naming_scratch():
        yield running
