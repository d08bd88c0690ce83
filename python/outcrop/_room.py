"""Room in the memory budget for what is allocated elsewhere, as NumPy does for itself.

It is a frame that nobody touches: charged like every other one, so that what is resident makes way
for it, and others find less.
"""

import ctypes
import threading
import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outcrop import _native
from outcrop.config import ensure_configured
from outcrop.errors import BudgetError

__all__ = ["Room", "charge", "room", "uncharged"]

_SMALL = 1 << 20
"""Bytes that are not charged, as with results."""

_PATIENCE = 10.0
"""Seconds for which a call waits for others that read, since they may be waiting for it."""

_TICK = 0.1
_MADV_DONTNEED = 4


def _held(nbytes: int) -> Any:
    """A charge of so many bytes, as long as it lives.

    Raises
    ------
    BudgetError
        There is no room.
    """
    ensure_configured()
    memory = _native.Output((nbytes,), "uint8", False).array()
    # It may have been used before, and has not been given back to the system.
    _LIBC.madvise(memory.ctypes.data, memory.nbytes, _MADV_DONTNEED)
    return memory


_LIBC = ctypes.CDLL(None)
_LIBC.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


@contextmanager
def room(nbytes: int) -> Iterator[None]:
    """Charge so many bytes for a while.

    Raises
    ------
    BudgetError
        There is no room for them.
    """
    held = _held(nbytes) if nbytes >= _SMALL else None
    yield
    del held


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
    others = {id(_owner(array)) for array in _arrays(beside)}
    for owner in {id(_owner(array)): _owner(array) for array in _arrays(result)}.values():
        if not isinstance(owner, np.ndarray) or id(owner) in others:
            continue
        size = owner.nbytes if nbytes is None else nbytes
        if size < _SMALL:
            continue
        try:
            held = _held(size)
        except BudgetError:
            # It is there, and another thread was quicker.
            continue
        finalizer = weakref.finalize(owner, _forget, [held])
        finalizer.atexit = False
        del held


def _forget(held: list[Any]) -> None:
    held.clear()


def _owner(array: NDArray[Any]) -> Any:
    """What the memory of an array belongs to; no array where it is a frame."""
    owner: Any = array
    while isinstance(owner, np.ndarray) and owner.base is not None:
        owner = owner.base
    return owner


def _arrays(values: Any) -> Iterator[NDArray[Any]]:
    if isinstance(values, np.ndarray):
        yield values
    elif isinstance(values, list | tuple):
        if len(values) < 1000:
            for value in values:
                yield from _arrays(value)
    elif isinstance(values, Mapping):
        yield from _arrays(list(values.values()))


def uncharged(values: Any) -> int:
    """Bytes of arrays whose memory is no frame."""
    owners = {id(_owner(array)): _owner(array) for array in _arrays(values)}
    return sum(owner.nbytes for owner in owners.values() if isinstance(owner, np.ndarray))


# Calls of several threads are let in together where all that they take fits, one after the other
# where it does not.

_changed = threading.Condition()
_promised: "dict[Room, int]" = {}
"""What calls that were let in will take, and have not yet."""
_running: "set[Room]" = set()
"""Calls that have all that they need, and end by themselves."""
_version = 0


class Room:
    """What a call takes: promised, then charged, and given back.

    Parameters
    ----------
    work : int
        Bytes that NumPy allocates.
    read : int
        Bytes that come to memory before that.

    Raises
    ------
    BudgetError
        There is no room, and no other such call will give some back.
    """

    def __init__(self, work: int, read: int) -> None:
        self._work = work
        self._held: Any = None
        self._thread = threading.get_ident()
        self._small = work + read < _SMALL
        if self._small:
            return
        waiting = _Waiting(self)
        while True:
            with _changed:
                seen, others = _version, sum(_promised.values())
            try:
                held = _held(work + read + others)
            except BudgetError as error:
                waiting.wait(seen, error)
                continue
            with _changed:
                if _version == seen:
                    _note(self, work + read)
                    del held
                    return
            del held

    def take(self, elements: Any) -> None:
        """Charge what NumPy will take, when what it works with has been read.

        Parameters
        ----------
        elements : Any
            The arrays that were read.

        Raises
        ------
        BudgetError
            What is no such call took the room meanwhile.
        """
        if self._small:
            return
        needed = self._work + uncharged(elements)
        with _changed:
            _note(self, needed)
        waiting = _Waiting(self)
        while True:
            with _changed:
                seen = _version
            try:
                self._held = _held(max(needed, 1))
                break
            except BudgetError as error:
                waiting.wait(seen, error)
        with _changed:
            _note(self, 0)
            _running.add(self)

    def close(self, result: Any = None, beside: Any = ()) -> None:
        """Give everything back but for what results take.

        Parameters
        ----------
        result : Any
            What NumPy made; its arrays are charged from now on as long as they live.
        beside : Any
            The caller's arrays, of which results may be views.
        """
        if self._small:
            charge(result, beside=beside)
            return
        with _changed:
            _running.discard(self)
            _note(self, uncharged(result))
        self._held = None
        charge(result, beside=beside)
        with _changed:
            _note(self, 0)


def _note(call: Room, promised: int) -> None:
    global _version
    if promised:
        _promised[call] = promised
    else:
        _promised.pop(call, None)
    _version += 1
    _changed.notify_all()


class _Waiting:
    """Waits for other calls, as far as they do not wait for this one."""

    def __init__(self, call: Room) -> None:
        self._call = call
        self._until = time.monotonic() + _PATIENCE
        # A thread that Python has not started belongs to a computation, which waits for it.
        self._called_back = isinstance(threading.current_thread(), threading._DummyThread)

    def wait(self, seen: int, error: BudgetError) -> None:
        """Wait for a change after `seen`, or raise what says that there is no room."""
        with _changed:
            if _version != seen:
                self._until = time.monotonic() + _PATIENCE
                return
            reading = [call for call in _promised if call is not self._call]
            mine = any(call._thread == threading.get_ident() for call in reading)
            patient = not (mine or self._called_back) and time.monotonic() < self._until
            if not _running - {self._call} and not (reading and patient):
                raise error
            _changed.wait(_TICK)
