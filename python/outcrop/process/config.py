"""The settings of the process: memory budget, scratch directory, threads, I/O engine."""

import errno
import operator
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Literal, TypeAlias, TypeVar, cast, get_args

from outcrop import _native
from outcrop.checks import StrPath, check_path
from outcrop.errors import InvalidArgumentError, InvalidTypeError, OutcropError, StorageError
from outcrop.process.sizes import format_bytes, parse_bytes

__all__ = [
    "Config",
    "config",
    "ensure_configured",
    "memory_budget",
    "naming_scratch",
    "piece_limit",
    "scratch_directory",
    "scratch_room",
    "shows_progress",
    "timeline_path",
]

Engine: TypeAlias = Literal["auto", "uring", "threads"]
_T = TypeVar("_T")

_ADVICE = (
    "; make it again, or name another one (oc.config(scratch=...), OUTCROP_SCRATCH or --scratch)"
)
"""What to do about a scratch directory that is gone."""


@dataclass(frozen=True)
class _Settings:
    memory: int
    scratch: Path | None
    threads: int
    engine: Engine
    timeline: Path | None = None
    progress: bool = False

    def apply(self) -> None:
        _native.configure(
            self.memory,
            self.threads,
            None if self.scratch is None else str(self.scratch),
            None if self.engine == "auto" else self.engine,
        )


_lock = threading.RLock()
_current: _Settings | None = None


class Config:
    """Settings, and the way back to those before them.

    Made by `config`. As a context manager it restores the previous settings on exit.

    Attributes
    ----------
    memory : int
        The budget in bytes.
    scratch : pathlib.Path or None
        Where temporaries go; None: the system's directory for them.
    threads : int
        Worker threads.
    engine : str
        ``"auto"``, ``"uring"`` or ``"threads"``.
    timeline : pathlib.Path or None
        Where computations are recorded.
    progress : bool
        Whether bars are drawn.
    scratch_held : int
        Bytes of scratch space that are kept, without a name, for the next computation.
    """

    def __init__(self, settings: _Settings, previous: _Settings) -> None:
        self._settings = settings
        self._previous = previous

    @property
    def memory(self) -> int:
        """The budget in bytes."""
        return self._settings.memory

    @property
    def scratch(self) -> Path | None:
        """Where temporaries go; None: the system's directory for them."""
        return self._settings.scratch

    @property
    def threads(self) -> int:
        """Worker threads."""
        return self._settings.threads

    @property
    def engine(self) -> Engine:
        """Which I/O engine is asked for; "auto" takes the best that the system allows."""
        return self._settings.engine

    @property
    def timeline(self) -> Path | None:
        """Where computations are recorded; None: nowhere."""
        return self._settings.timeline

    @property
    def progress(self) -> bool:
        """Whether bars are drawn."""
        return self._settings.progress

    @property
    def scratch_held(self) -> int:
        """Bytes of scratch space that are kept, without a name, for the next computation.

        Writing where something was written before is faster. Never more than a quarter of what
        the file system has left with it; they go when a computation fails, when something else
        needs the space, when settings change, and with the process.
        """
        return int(_native.status()["scratch_held"])

    def __enter__(self) -> "Config":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _replace(self._previous, leaving=True)

    def __repr__(self) -> str:
        scratch = "the system's" if self.scratch is None else repr(str(self.scratch))
        return (
            f"<outcrop.Config memory {format_bytes(self.memory)}, scratch {scratch}, "
            f"threads {self.threads}, engine {self.engine}>"
        )


def config(
    memory: int | str | None = None,
    scratch: StrPath | None = None,
    threads: int | None = None,
    engine: Engine | None = None,
    timeline: StrPath | Literal[False] | None = None,
    progress: bool | None = None,
) -> Config:
    """Set, or only look at, the settings of the process.

    What is None stays as it is; without arguments nothing changes. The first settings come from
    the environment: ``OUTCROP_MEMORY``, ``OUTCROP_SCRATCH``, ``OUTCROP_THREADS``,
    ``OUTCROP_IO_ENGINE`` and ``OUTCROP_TIMELINE``. Without those the budget is half of the memory
    available to the process (a cgroup's limit included), and there is a thread for every processor
    it may use.

    Parameters
    ----------
    memory : int or str, optional
        The budget that all tiles, workspaces and transfers together stay inside: bytes, or a
        string such as ``"512MiB"``, ``"2GiB"``, ``"1.5GB"`` or ``"64M"`` (MiB). No more than
        the machine has, or the process's control group allows.
    scratch : str or os.PathLike, optional
        An existing directory on a fast disk, for temporaries that do not fit the budget.
    threads : int, optional
        Worker threads, at least 1.
    engine : {"auto", "uring", "threads"}, optional
        How files are read and written.
    timeline : str, os.PathLike or False, optional
        A file in which every computation is recorded, each in place of the one before: loads,
        kernels and stores by thread, and memory over time, in Chrome's trace format, which
        ``outcrop timeline`` draws. False: none any more.
    progress : bool, optional
        Whether what takes longer than a moment draws a bar, with its rate and the time that is
        left, by the plan at first: on a terminal on stderr, in a notebook below the cell, and
        nowhere else. What is given a function as its own ``progress=`` calls that instead.

    Returns
    -------
    Config
        The settings now in force; as a context manager, restores those before on exit.

    Raises
    ------
    InvalidArgumentError, InvalidTypeError
        Where a value, or one from the environment, makes no sense.

    Examples
    --------
    >>> with oc.config(memory="256MiB", threads=2):
    ...     print(oc.config().memory)
    268435456
    """
    with _lock:
        previous = ensure_configured()
        settings = _Settings(
            previous.memory if memory is None else _check_memory(memory, "memory"),
            previous.scratch if scratch is None else _check_scratch(scratch, "scratch"),
            previous.threads if threads is None else _check_threads(threads, "threads"),
            previous.engine if engine is None else _check_engine(engine, "engine"),
            previous.timeline if timeline is None else _check_timeline(timeline),
            previous.progress if progress is None else _check_progress(progress),
        )
        _replace(settings)
        return Config(settings, previous)


def ensure_configured() -> _Settings:
    """The settings in force; at first use, takes them from the environment."""
    with _lock:
        if _current is None:
            _replace(_from_environment())
        assert _current is not None
        return _current


def memory_budget() -> int:
    """The budget in bytes."""
    ensure_configured()
    return int(_native.status()["memory"])


def timeline_path() -> Path | None:
    """Where computations are recorded."""
    return ensure_configured().timeline


def shows_progress() -> bool:
    """Whether bars are drawn."""
    return ensure_configured().progress


def scratch_directory() -> Path:
    """Where temporaries go.

    Raises
    ------
    StorageError
        It is not there any more.
    """
    place = _scratch_place()
    if not place.is_dir():
        raise StorageError(
            f"{place}: cannot use it as the scratch directory: it is not there any more{_ADVICE}",
            errno=errno.ENOENT,
        )
    return place


def scratch_room() -> int:
    """Bytes that are free in the scratch directory.

    Raises
    ------
    StorageError
        It is not there any more, or the system does not say.
    """
    place = scratch_directory()
    try:
        return shutil.disk_usage(place).free
    except OSError as error:
        raise StorageError(
            f"{place}: cannot use it as the scratch directory: {error.strerror}{_ADVICE}",
            errno=error.errno,
        ) from None


@contextmanager
def naming_scratch() -> Iterator[None]:
    """Say what to do where the compiled core finds that the scratch directory is gone."""
    try:
        yield
    except StorageError as error:
        text = str(error)
        place = _scratch_place()
        if text.startswith(f"{place}: ") and _ADVICE not in text and not place.is_dir():
            # The same error: another one would keep this one's frames, and what they have open.
            error.args = (f"{text}{_ADVICE}",)
        raise


def _scratch_place() -> Path:
    ensure_configured()
    return Path(_native.status()["scratch_directory"])


def piece_limit(budget: int | None = None) -> int:
    """The most bytes that a piece of a piecewise operation may have, with this or another one."""
    return max((memory_budget() if budget is None else budget) // 8, 1)


def _replace(settings: _Settings, *, leaving: bool = False) -> None:
    global _current
    with _lock:
        # Replacing the runtime forgets what is resident, so it is not done for nothing.
        if _current is not None and settings == replace(_current, progress=settings.progress):
            _current = settings
            return
        try:
            settings.apply()
        except BaseException:
            # An interrupt comes when the core has replaced the runtime already: as if it had come
            # before a `with` block was entered, and as if after it was left.
            after = settings if leaving else _current
            if after is not None:
                after.apply()
            _current = after
            raise
        _current = settings


def _from_environment() -> _Settings:
    return _Settings(
        _variable("OUTCROP_MEMORY", _check_memory) or _native.default_memory(),
        _variable("OUTCROP_SCRATCH", _check_scratch),
        _variable("OUTCROP_THREADS", _check_threads) or len(os.sched_getaffinity(0)),
        _variable("OUTCROP_IO_ENGINE", _check_engine) or "auto",
        _variable("OUTCROP_TIMELINE", lambda text, name: _check_timeline(text)),
    )


def _variable(name: str, read: Callable[[str, str], _T]) -> _T | None:
    text = os.environ.get(name, "").strip()
    if not text:
        return None
    try:
        return read(text, name)
    except OutcropError as error:
        raise InvalidArgumentError(f"environment variable {error}") from None


def _check_memory(memory: int | str, name: str) -> int:
    budget, total = parse_bytes(memory, name), _native.total_memory()
    if total is not None and budget > total:
        raise InvalidArgumentError(
            f"{name}: a budget of {format_bytes(budget)} cannot be kept: this process has "
            f"{format_bytes(total)} of memory at the most, of which the interpreter, libraries and "
            f"other programs need a part; the default is {format_bytes(_native.default_memory())}"
        )
    return budget


def _check_threads(threads: int | str, name: str) -> int:
    try:
        if isinstance(threads, bool):
            raise TypeError
        count = int(threads) if isinstance(threads, str) else operator.index(threads)
    except ValueError:
        raise InvalidArgumentError(f"{name}: {threads!r} is not a number of threads") from None
    except TypeError:
        raise InvalidTypeError(f"{name}: expected an integer, got {threads!r}") from None
    if not 1 <= count <= 4096:
        raise InvalidArgumentError(f"{name}: {count} is not between 1 and 4096")
    return count


def _check_engine(engine: str, name: str) -> Engine:
    for known in get_args(Engine):
        if engine == known:
            return cast(Engine, engine)
    raise InvalidArgumentError(f"{name}: {engine!r} is not one of 'auto', 'uring', 'threads'")


def _check_progress(progress: bool) -> bool:
    if not isinstance(progress, bool):
        raise InvalidTypeError(f"progress: expected True or False, got {progress!r}")
    return progress


def _check_scratch(scratch: StrPath, name: str) -> Path:
    path = Path(check_path(scratch)).absolute()
    if not path.is_dir():
        raise InvalidArgumentError(f"{name}: {str(path)!r} is not a directory")
    return path


def _check_timeline(timeline: StrPath | Literal[False]) -> Path | None:
    return None if timeline is False else Path(check_path(timeline)).absolute()
