"""What is kept beside a result, so that a computation that is stopped goes on where it was.

A computation is done in parts. Each time that one is complete, what it has made is committed, in a
directory beside the result, and a record says how far the computation is: so a run that is killed
loses what it has done since. What is kept is used again for the same work on the same state of the
same arrays alone.
"""

import hashlib
import json
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from outcrop.arrays.computed import fingerprint
from outcrop.arrays.source import MemorySource, Source
from outcrop.arrays.stored import StoredState, StoreSource
from outcrop.arrays.views import View
from outcrop.errors import (
    ArrayNotFoundError,
    CorruptArrayError,
    InvalidArgumentError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from outcrop.arrays.array import Array

__all__ = [
    "SECONDS",
    "Kept",
    "Resumable",
    "clear_kept",
    "identity_of_stored",
    "identity_of_view",
    "kept_beside",
    "naming_kept",
]

Progress: TypeAlias = Callable[[int, int], None]

SECONDS = 20.0
"""How long a part takes, roughly, by what is predicted: what a kill loses."""

_FORMAT = 2
"""Of the record."""

_LONGEST = 255
"""Bytes of the name of a file."""

_RECORD = "state.json"

_SUFFIX = ".outcrop-resume"


class Kept:
    """The directory beside a result, with the record of what is in it.

    Parameters
    ----------
    path : str
        Where the result will be.
    work : sequence
        By what the work, and the state of what it is done with, are known again: anything whose
        `repr` says all of it.

    Attributes
    ----------
    path : Path
        The directory.
    """

    def __init__(self, path: str, work: Iterable[Any]) -> None:
        self.path = kept_beside(path)
        self._work = hashlib.sha256(repr(tuple(work)).encode()).hexdigest()

    def read(self) -> int | None:
        """How far the work is; None where there is nothing to go on with.

        Raises
        ------
        InvalidArgumentError
            What is kept is of other work, or of another state of what it is done with.
        """
        try:
            with (self.path / _RECORD).open() as file:
                found = json.load(file)
            if found["format"] != _FORMAT:
                return None
            work, done = str(found["work"]), int(found["done"])
        except (FileNotFoundError, NotADirectoryError, ValueError, TypeError, KeyError):
            return None
        if work != self._work:
            raise InvalidArgumentError(
                f"{self.path}: what is kept there is of another computation, or of another state "
                "of what that is made of; saving with resume=False removes it"
            )
        return done

    def begin(self) -> None:
        """Make the directory anew."""
        if os.path.lexists(self.path) and (self.path.is_symlink() or not self.path.is_dir()):
            raise InvalidArgumentError(
                f"{self.path} is no directory, and in the way of what resume= keeps; remove it"
            )
        with suppress(FileNotFoundError):
            shutil.rmtree(self.path)
        os.mkdir(self.path)

    def write(self, done: int) -> None:
        """Say how far the work is: of what is committed in the directory, that counts."""
        new = self.path / f"{_RECORD}.new"
        with new.open("w") as file:
            json.dump({"format": _FORMAT, "work": self._work, "done": done}, file)
            file.flush()
            os.fsync(file.fileno())
        new.rename(self.path / _RECORD)
        directory = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def leave_only(self, names: Sequence[str]) -> None:
        """Remove what is neither one of these nor the record."""
        for entry in list(self.path.iterdir()):
            if entry.name not in (*names, _RECORD):
                shutil.rmtree(entry, ignore_errors=True)


@contextmanager
def naming_kept() -> Iterator[None]:
    """Say of what is kept, and cannot be read, how to go on."""
    try:
        yield
    except (ArrayNotFoundError, CorruptArrayError) as error:
        if _SUFFIX in str(error):
            # The same error: another one would keep this one's frames, and what they have open.
            said = f"{error}; saving with resume=False removes what is kept"
            error.args = (said, *error.args[1:])
        raise


class Resumable(ABC):
    """A computation that is done in parts, which are kept as they become complete."""

    @abstractmethod
    def run(self, progress: Progress | None) -> float:
        """Do what is not done yet; gives which part of `progress` that is."""

    @abstractmethod
    def finish(
        self,
        save: "Callable[..., dict[Any, Array]]",
        *,
        overwrite: bool,
        progress: Progress | None,
    ) -> "dict[Any, Array]":
        """Make the results of what is kept; `save` writes several, by their paths."""


def kept_beside(path: str) -> Path:
    """Where a computation to a path keeps what is done, so that it can go on from there."""
    place = Path(path)
    name = os.fsencode(place.name)
    if len(name) + len(_SUFFIX) >= _LONGEST:
        # A name that is as long as one may be has a digest instead.
        return place.with_name(f".{hashlib.sha256(name).hexdigest()}{_SUFFIX}")
    return place.with_name(f".{place.name}{_SUFFIX}")


def clear_kept(path: str) -> None:
    """Remove what a computation to a path has left to go on with."""
    kept = kept_beside(path)
    if kept.is_dir() and not kept.is_symlink():
        # First of all what says that there is anything.
        (kept / _RECORD).unlink(missing_ok=True)
        shutil.rmtree(kept)


# -- by what arrays are known again ----------------------------------------------------------------


def identity_of_stored(source: StoreSource) -> tuple[Any, ...]:
    """By what an array on disk, and its state, are known again.

    Raises
    ------
    UnsupportedError
        It is written to.
    """
    state = source.state if isinstance(source, StoredState) else None
    if state is None:
        raise UnsupportedError(f"{source.path}: resume= is for arrays that are not written to")
    return os.path.realpath(str(source.path)), source.offset, source.page, repr(state)


def identity_of_view(source: Source, view: View) -> tuple[Any, ...] | None:
    """The same of a view of what is on disk or in memory; None of anything else."""
    axes = [axis if isinstance(axis, int) else None for axis in view.axes]
    shown = repr((view.source_shape, view.selectors)), axes
    if isinstance(source, StoreSource):
        return *shown, identity_of_stored(source)
    if isinstance(source, MemorySource):
        return *shown, source.dtype.str, fingerprint([source.array]).hex()
    return None
