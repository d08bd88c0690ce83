"""Room in the memory budget for what is allocated elsewhere, as NumPy does for itself."""

import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outcrop import _native
from outcrop.errors import BudgetError
from outcrop.process.config import ensure_configured, piece_limit

__all__ = ["charge", "room", "turn"]

_SMALL = 1 << 20
"""Bytes that are not charged, as with results."""

_PATIENCE = 60.0
"""Seconds for which a call waits for its turn: not for ever, since others may wait for this one."""

_turn = threading.RLock()


@contextmanager
def turn(nbytes: int) -> Iterator[None]:
    """Let calls that take so much memory go one after the other, which may not fit together."""
    # A thread that Python has not started belongs to a computation, for which who has the turn may
    # be waiting.
    called_back = isinstance(threading.current_thread(), threading._DummyThread)
    if nbytes < piece_limit() or called_back:
        yield
        return
    has_turn = _turn.acquire(timeout=_PATIENCE)
    try:
        yield
    finally:
        if has_turn:
            _turn.release()


@contextmanager
def room(nbytes: int, what: str) -> Iterator[None]:
    """Charge so many bytes for a while, for what is called so.

    Raises
    ------
    BudgetError
        There is no room for them.
    """
    if nbytes < _SMALL:
        yield
        return
    ensure_configured()
    held = _native.Charge(nbytes, what, True)
    try:
        yield
    finally:
        held.release()


def charge(result: Any, nbytes: int | None = None, beside: Any = ()) -> None:
    """Charge the memory of arrays as long as it lives, where it is not charged already.

    Parameters
    ----------
    result : Any
        An array, or sequences and mappings of arrays.
    nbytes : int, optional
        What an array takes. Default: its elements.
    beside : Any
        Arrays whose memory is not charged, because it is the caller's.
    """
    others = set(_owners(beside))
    for key, owner in _owners(result).items():
        size = owner.nbytes if nbytes is None else nbytes
        if key in others or size < _SMALL:
            continue
        try:
            held = _native.Charge(size, "a result in memory", False)
        except BudgetError:
            # It is there, and another thread was quicker.
            continue
        weakref.finalize(owner, held.release).atexit = False


def _owners(values: Any) -> dict[int, NDArray[Any]]:
    """The arrays to which the memory of some belongs, but for that of frames."""
    found = {}
    for array in _arrays(values):
        owner: Any = array
        while isinstance(owner, np.ndarray) and owner.base is not None:
            owner = owner.base
        if isinstance(owner, np.ndarray):
            found[id(owner)] = owner
    return found


_MANY = 1000
"""Items of a list of results among which no large arrays are looked for."""


def _arrays(values: Any) -> Iterator[NDArray[Any]]:
    if isinstance(values, np.ndarray):
        yield values
    elif isinstance(values, list | tuple):
        if len(values) < _MANY:
            for value in values:
                yield from _arrays(value)
    elif isinstance(values, Mapping):
        yield from _arrays(list(values.values()))
