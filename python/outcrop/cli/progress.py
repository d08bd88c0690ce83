"""The progress bar: bytes, rate and time left, on the terminal and nowhere else."""

import math
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING

from outcrop._sizes import format_bytes
from outcrop.cli.results import format_rate, format_seconds

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

__all__ = ["Bar"]

_PATIENCE = 0.3
"""Seconds. What takes no longer gets no bar: it would only flicker."""


_SETTLED = 1.0
"""Seconds after which the rate says something about the future."""


class Bar:
    """A progress function that draws a bar on stderr, and wipes it away at the end.

    Parameters
    ----------
    label : str
        What is being worked on.
    begin : float
        When the work began, by the monotonic clock.
    steps : bool
        Whether progress is counted in steps rather than in bytes.
    """

    def __init__(self, label: str, begin: float, *, steps: bool = False) -> None:
        self._label = label
        self._begin = begin
        self._steps = steps
        self._progress: Progress | None = None
        self._task: TaskID | None = None

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
                self._progress = _make(self._begin, self._steps)
                self._task = self._progress.add_task(self._label, completed=done, total=total)
                self._progress.start()
            return
        assert self._task is not None
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


def _make(begin: float, steps: bool) -> "Progress":
    # Late: rich takes longer to load than most commands to run.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
    from rich.table import Column
    from rich.text import Text

    class Label(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(task.description, no_wrap=True, overflow="ellipsis")

    class Bytes(ProgressColumn):
        def render(self, task: Task) -> Text:
            total = int(task.total or 0)
            return Text(f"{format_bytes(int(task.completed))} of {format_bytes(total)}")

    def speed(task: Task) -> float:
        # That of late; at the beginning, that of all the time.
        return task.speed or task.completed / (time.monotonic() - begin)

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(format_rate(speed(task), 1) if task.completed else "")

    class Left(ProgressColumn):
        def render(self, task: Task) -> Text:
            if task.finished:
                # What is left is to make the result durable.
                return Text("finishing")
            if not task.completed or time.monotonic() - begin < _SETTLED:
                return Text("")
            seconds = math.ceil((task.remaining or 0) / speed(task))
            return Text(f"{format_seconds(seconds, whole=True)} left")

    console = Console(stderr=True)
    percent = TextColumn("{task.percentage:>3.0f}%")
    columns: list[ProgressColumn] = [BarColumn(bar_width=None), percent]
    # What a narrow terminal has no room for goes, the least useful first.
    if console.width >= 36 and not steps:
        columns.append(Rate(Column(min_width=11, justify="right", no_wrap=True)))
    if console.width >= 50:
        columns.append(Left(Column(min_width=11, justify="right", no_wrap=True)))
    if console.width >= 76 and not steps:
        columns.insert(2, Bytes(Column(min_width=22, justify="right", no_wrap=True)))
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
