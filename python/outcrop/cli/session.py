"""What the global options ask for, and what all verbs do with it."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import click

from outcrop.cli.results import aligned
from outcrop.process.sizes import format_bytes, format_rate, format_seconds
from outcrop.program.progress import Bar, Bytes, Scale, can_draw
from outcrop.program.report import format_flops, last_run

__all__ = ["Session", "Work", "pass_session", "warn"]


def warn(remark: str) -> None:
    """Say in one line what a person would want to know, though the work goes on."""
    click.echo(f"outcrop: warning: {remark}", err=True)


@dataclass
class Work:
    """A piece of long work. The verb fills in what came of it."""

    name: str
    progress: Callable[[int, int], None] | None
    done: str = ""
    """What was done, in one line; nothing is said where it is empty."""
    nbytes: int = 0
    """Bytes of the elements that were moved or looked at."""
    flops: float = 0.0
    """Operations of a computation, which counts by them rather than by bytes."""

    def rate(self, seconds: float) -> str:
        """How fast it went."""
        if self.flops:
            return format_flops(self.flops / max(seconds, 1e-9))
        return format_rate(self.nbytes, seconds)


@dataclass(frozen=True)
class Session:
    """How a command speaks.

    Attributes
    ----------
    quiet : bool
        Nothing is said that is neither the result asked for nor an error.
    report : bool
        The cost of each piece of work is printed.
    """

    quiet: bool = False
    report: bool = False

    @property
    def watched(self) -> bool:
        """Whether a person looks on, who wants to know how it went."""
        return not self.quiet and sys.stderr.isatty()

    @contextmanager
    def work(self, name: str, scale: Scale | None = None) -> Iterator[Work]:
        """Show the progress of what happens inside, and what it took at the end.

        Parameters
        ----------
        name : str
            What is being worked on.
        scale : Scale, optional
            What progress is counted in. Default: bytes.
        """
        begin = time.monotonic()
        draws = self.watched and can_draw()
        with Bar(name, begin, scale or Bytes()) if draws else _Nothing() as progress:
            work = Work(name, progress)
            yield work
        seconds = time.monotonic() - begin
        if self.report:
            click.echo(self._report(work, seconds), err=True)
        elif self.watched and work.done:
            click.echo(f"{work.done} in {format_seconds(seconds)}, {work.rate(seconds)}", err=True)

    def _report(self, work: Work, seconds: float) -> str:
        facts = {"work": work.done or work.name}
        if run := last_run():
            facts |= {
                "read": format_bytes(run.bytes_read),
                "written": format_bytes(run.bytes_written),
            }
        # Longer than the run's own time by what makes the result durable.
        facts |= {"seconds": f"{seconds:.3f}", "rate": work.rate(seconds)}
        if run and run.flops:
            facts["overlap"] = (
                f"{run.overlap:.3f} of {run.io_seconds:.3f} seconds of moving data "
                "went on while computing"
            )
            kernels = sorted(run.kernels.items(), key=lambda item: -item[1])
            facts["kernels"] = ", ".join(f"{name} {taken:.3f}" for name, taken in kernels)
            facts["kernels"] += " seconds, summed over threads"
        if run:
            facts["peak memory"] = (
                f"{format_bytes(run.peak_bytes)} of the budget, "
                f"{format_bytes(run.peak_rss)} resident"
            )
        return aligned(facts)


class _Nothing:
    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


pass_session = click.make_pass_decorator(Session)
