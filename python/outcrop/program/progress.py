"""The progress bar: how far, how fast and time left, where somebody looks on, and nowhere else.

On a terminal it is drawn on stderr, and wiped away at the end; in a notebook, below the cell.
"""

import html
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from outcrop.process.config import shows_progress
from outcrop.process.sizes import format_bytes, format_rate, format_seconds
from outcrop.program.report import format_flops

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = [
    "Bar",
    "Bytes",
    "Computing",
    "NotebookBar",
    "Scale",
    "Settling",
    "Steps",
    "Sweeping",
    "can_draw",
    "watching",
]

Told: TypeAlias = Callable[[int, int], None]
"""What is called with what is done and what there is to do."""

_PATIENCE = 0.3
"""Seconds. What takes no longer gets no bar: it would only flicker."""


_SETTLED = 1.0
"""Seconds after which the rate says something about the future."""

_TRUST = 0.1
"""What a predicted time counts for, as a share of the work at the measured pace."""


class Task(Protocol):
    """How far something is, as `rich.progress.Task` has it."""

    @property
    def completed(self) -> float:
        """What is done."""

    @property
    def total(self) -> float | None:
        """What there is to do."""

    @property
    def remaining(self) -> float | None:
        """What is left."""

    @property
    def speed(self) -> float | None:
        """What is done in a second, of late; None at the beginning."""


@contextmanager
def watching(
    told: Told | None, label: str, facts: Mapping[str, Any] | None = None
) -> Iterator[Told | None]:
    """What is told of a run: the function given, or else a bar, where the settings ask for one.

    Parameters
    ----------
    told : callable, optional
        What the caller has given.
    label : str
        What is being worked on.
    facts : mapping, optional
        Those of a plan: ``flops`` and ``seconds``. Without, bytes are counted.
    """
    kind = _kind_of_bar() if told is None and shows_progress() else None
    if kind is None:
        yield told
        return
    scale: Scale = Bytes()
    if facts is not None and facts.get("flops"):
        scale = Computing(facts["flops"], facts["seconds"])
    with kind(label, time.monotonic(), scale) as bar:
        yield bar


def _kind_of_bar() -> "type[Bar | NotebookBar] | None":
    # Signals are put off while a bar is drawn, which only the main thread can do.
    if threading.current_thread() is not threading.main_thread():
        return None
    return NotebookBar if _in_notebook() else Bar if can_draw() else None


def can_draw() -> bool:
    """Whether stderr is a terminal that a bar can be drawn on and wiped away from."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def _in_notebook() -> bool:
    """Whether what is displayed is seen below a cell."""
    interactive = sys.modules.get("IPython")
    shell = None if interactive is None else interactive.get_ipython()
    return getattr(shell, "kernel", None) is not None


class Scale:
    """What progress is counted in, and how a bar speaks of it.

    Attributes
    ----------
    widths : tuple of int
        Room for `amount` and `rate`; 0 for what is never said.
    """

    widths = (0, 0)

    def amount(self, task: Task, elapsed: float) -> str:
        """How far it is."""
        return ""

    def rate(self, task: Task, elapsed: float) -> str:
        """How fast it goes."""
        return ""

    def left(self, task: Task, elapsed: float) -> float | None:
        """Seconds that are left, as soon as something can be said."""
        if not task.completed or elapsed < _SETTLED:
            return None
        return (task.remaining or 0) / _speed(task, elapsed)


class Steps(Scale):
    """Steps, of which there is nothing to say."""


class Bytes(Scale):
    """Bytes."""

    widths = (22, 11)

    def amount(self, task: Task, elapsed: float) -> str:  # noqa: D102
        return f"{format_bytes(int(task.completed))} of {format_bytes(int(task.total or 0))}"

    def rate(self, task: Task, elapsed: float) -> str:  # noqa: D102
        return format_rate(_speed(task, elapsed), 1)


class Computing(Scale):
    """Parts of the operations of a computation.

    Parameters
    ----------
    flops : float
        All operations.
    seconds : float
        How long they are predicted to take.
    """

    widths = (7, 12)

    def __init__(self, flops: float, seconds: float) -> None:
        self._flops = flops
        self._seconds = seconds
        self._seen = -1.0
        self._end = 0.0

    def amount(self, task: Task, elapsed: float) -> str:  # noqa: D102
        return format_seconds(elapsed, whole=True)

    def rate(self, task: Task, elapsed: float) -> str:  # noqa: D102
        return format_flops(_speed(task, elapsed) * self._flops / (task.total or 1))

    def left(self, task: Task, elapsed: float) -> float | None:  # noqa: D102
        # Between one sign of progress and the next, time only passes.
        if task.completed != self._seen:
            self._seen = task.completed
            share = task.completed / (task.total or 1)
            pace = (elapsed + _TRUST * self._seconds) / (share + _TRUST)
            self._end = elapsed + (1 - share) * pace
        return max(self._end - elapsed, 0.0)


class Sweeping(Computing):
    """Sweeps over a grid, of which some are in flight together.

    Parameters
    ----------
    flops, seconds : float
        As of `Computing`.
    sweeps : int
        How many there are.
    depth : int
        How many are in flight, in each pass.
    """

    widths = (20, 12)

    def __init__(self, flops: float, seconds: float, sweeps: int, depth: int) -> None:
        super().__init__(flops, seconds)
        self._sweeps, self._depth = sweeps, depth

    def amount(self, task: Task, elapsed: float) -> str:  # noqa: D102
        # All sweeps take as long as each other, and one pass ends before the next one begins.
        done = self._sweeps * task.completed / (task.total or 1)
        first = min(int(done / self._depth), -(-self._sweeps // self._depth) - 1) * self._depth + 1
        last = min(first + self._depth - 1, self._sweeps)
        if first == last:
            return f"sweep {first} of {self._sweeps}"
        return f"sweeps {first}-{last} of {self._sweeps}"


class Settling(Scale):
    """Sweeps until nothing changes, or as many as there may be."""

    widths = (24, 0)

    def __init__(self) -> None:
        self._told = ""

    def checked(self, sweeps: int, change: float) -> None:
        """Take down after how many sweeps it was looked, and what has changed at most."""
        self._told = f"sweep {sweeps}, changed {change:.1e}"

    def amount(self, task: Task, elapsed: float) -> str:  # noqa: D102
        return self._told

    def left(self, task: Task, elapsed: float) -> float | None:  # noqa: D102
        # Nobody knows when it ends.
        return None


def _speed(task: Task, elapsed: float) -> float:
    # That of late; at the beginning, that of all the time.
    return task.speed or task.completed / elapsed


class Bar:
    """A progress function that draws a bar on stderr, and wipes it away at the end.

    Parameters
    ----------
    label : str
        What is being worked on.
    begin : float
        When the work began, by the monotonic clock.
    scale : Scale
        What progress is counted in.
    """

    def __init__(self, label: str, begin: float, scale: Scale) -> None:
        self._label = label
        self._begin = begin
        self._scale = scale
        self._progress: Progress | None = None
        self._task: Any = None

    def __enter__(self) -> "Bar":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._progress is not None:
            with _undisturbed():
                self._progress.stop()

    def __call__(self, done: int, total: int) -> None:
        """Show how far the work is."""
        if self._progress is None:
            if time.monotonic() - self._begin < _PATIENCE:
                return
            with _undisturbed():
                self._progress = _make(self._begin, self._scale)
                self._task = self._progress.add_task(self._label, completed=done, total=total)
                self._progress.start()
            return
        self._progress.update(self._task, completed=done, total=total)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Put off Ctrl-C, so that no half of a bar is drawn that nothing wipes away."""
    pending: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {s: signal.signal(s, lambda n, _: pending.append(n)) for s in numbers}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        for number in pending:
            signal.raise_signal(number)


def _make(begin: float, scale: Scale) -> "Progress":
    # Late: rich takes longer to load than most commands to run.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn
    from rich.progress import Task as RichTask
    from rich.table import Column
    from rich.text import Text

    def elapsed() -> float:
        return time.monotonic() - begin

    class Label(ProgressColumn):
        def render(self, task: RichTask) -> Text:
            return Text(task.description, no_wrap=True, overflow="ellipsis")

    class Amount(ProgressColumn):
        def render(self, task: RichTask) -> Text:
            return Text(scale.amount(task, elapsed()))

    class Rate(ProgressColumn):
        def render(self, task: RichTask) -> Text:
            return Text(scale.rate(task, elapsed()) if task.completed else "")

    class Left(ProgressColumn):
        def render(self, task: RichTask) -> Text:
            if task.finished:
                # What is left is to make the result durable.
                return Text("finishing")
            seconds = scale.left(task, elapsed())
            if seconds is None:
                return Text("")
            return Text(f"{format_seconds(math.ceil(seconds), whole=True)} left")

    def column(width: int) -> Column:
        return Column(min_width=width, justify="right", no_wrap=True)

    console = Console(stderr=True)
    percent = TextColumn("{task.percentage:>3.0f}%")
    columns: list[ProgressColumn] = [BarColumn(bar_width=None), percent]
    amount, rate = scale.widths
    # What a narrow terminal has no room for goes, the least useful first.
    if console.width >= 36 and rate:
        columns.append(Rate(column(rate)))
    if console.width >= 50:
        columns.append(Left(column(11)))
    if console.width >= 76 and amount:
        columns.insert(2, Amount(column(amount)))
    if console.width >= 60:
        columns.insert(0, Label(Column(max_width=max(console.width // 4, 12), no_wrap=True)))
    return Progress(
        *columns,
        console=console,
        transient=True,
        expand=True,
        # Results go where they were sent to, also where that is not the bar's terminal.
        redirect_stdout=False,
    )


class NotebookBar:
    """A progress function that draws a bar below the cell of a notebook, and takes it away.

    Parameters
    ----------
    label, begin, scale
        As of `Bar`.
    """

    _EVERY = 0.2
    """Seconds between two pictures of it."""

    def __init__(self, label: str, begin: float, scale: Scale) -> None:
        self._label, self._begin, self._scale = label, begin, scale
        self._handle: Any = None
        self._drawn = begin
        self._before: tuple[float, float] | None = None

    def __enter__(self) -> "NotebookBar":
        return self

    def __exit__(self, *error: object) -> None:
        if self._handle is not None:
            self._handle.update(_Html(""))

    def __call__(self, done: int, total: int) -> None:
        """Show how far the work is."""
        now = time.monotonic()
        wait = _PATIENCE if self._handle is None else self._EVERY
        if now - self._drawn < wait:
            return
        self._drawn = now
        picture = _Html(self._html(done, total, now))
        if self._handle is None:
            from IPython.display import display  # type: ignore[import-not-found]

            self._handle = display(picture, display_id=True)
        else:
            self._handle.update(picture)

    def _html(self, done: int, total: int, now: float) -> str:
        task, elapsed = self._task(done, total, now), now - self._begin
        words = [self._scale.amount(task, elapsed)]
        if done:
            words.append(self._scale.rate(task, elapsed))
        left = self._scale.left(task, elapsed)
        if done >= total:
            words.append("finishing")
        elif left is not None:
            words.append(f"{format_seconds(math.ceil(left), whole=True)} left")
        said = html.escape(" · ".join(word for word in words if word))
        return (
            f"<div>{html.escape(self._label)} <progress value='{done}' max='{max(total, 1)}' "
            f"style='width: 20em; vertical-align: middle'></progress> "
            f"{100 * done // max(total, 1)} % <small>{said}</small></div>"
        )

    def _task(self, done: int, total: int, now: float) -> Task:
        speed = None
        if self._before is not None and now > self._before[1]:
            speed = (done - self._before[0]) / (now - self._before[1]) or None
        self._before = done, now
        return _Counted(done, total, max(total - done, 0), speed)


class _Counted(NamedTuple):
    completed: float
    total: float | None
    remaining: float | None
    speed: float | None


class _Html:
    """What a notebook shows."""

    def __init__(self, text: str) -> None:
        self._text = text

    def _repr_html_(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return ""
