"""The command ``outcrop``: its global options, and how it ends.

Exit status: 0; 1 for errors, and for damage that `verify` found; 2 for a command that makes no
sense; 128 and the number of the signal where one stopped the work; 141 where nobody reads the
output any more, as with any tool.
"""

import logging
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType
from typing import Any, TextIO

import click

import outcrop
from outcrop.cli.completion import answer, completion
from outcrop.cli.copy import convert, copy
from outcrop.cli.doctor import doctor
from outcrop.cli.info import info
from outcrop.cli.linalg import cholesky, cond, inv, lu, matmul, plan, solve
from outcrop.cli.reorient import flip, permute, rotate, transpose
from outcrop.cli.session import Session
from outcrop.cli.sweeps import sweep
from outcrop.cli.timeline import timeline
from outcrop.cli.verify import verify
from outcrop.errors import InvalidArgumentError, InvalidTypeError, OutcropError
from outcrop.process.config import config

__all__ = ["run"]


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--memory", metavar="SIZE", help="Memory budget, such as 256MiB or 2GiB.")
@click.option("--threads", metavar="N", type=int, help="Worker threads.")
@click.option(
    "--scratch",
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="Directory for temporaries.",
)
@click.option("--engine", type=click.Choice(["auto", "uring", "threads"]), help="I/O engine.")
@click.option(
    "--timeline",
    metavar="FILE",
    type=click.Path(),
    help="Record what is computed, for 'outcrop timeline' to draw.",
)
@click.option("--quiet", "-q", is_flag=True, help="No progress, no summary.")
@click.option("--report", is_flag=True, help="Print what the work cost, on stderr.")
@click.version_option(outcrop.__version__, message="%(prog)s %(version)s")
@click.pass_context
def group(
    context: click.Context,
    memory: str | None,
    threads: int | None,
    scratch: str | None,
    engine: Any,
    timeline: str | None,
    quiet: bool,
    report: bool,
) -> None:
    """Dense arrays larger than memory: compute with them, copy, convert and check them on disk.

    An array is a Zarr directory (version 2 or 3), a .npy file, an image (PGM, PPM, PAM, or TIFF
    without compression), a data set of an HDF5 or NetCDF 4 file (a.h5/group/name), a Zarr
    array in a zip archive (a.zip/group/name, only read), or a raw file with a description:
    page.raw:shape=1000x2000,dtype=f8[,offset=128][,order=F]

    The environment sets what no option does: OUTCROP_MEMORY, OUTCROP_THREADS, OUTCROP_SCRATCH,
    OUTCROP_IO_ENGINE, OUTCROP_TIMELINE.
    """
    context.obj = Session(quiet, report)
    verb = context.invoked_subcommand
    if timeline is not None and verb not in _RECORDED:
        recorded = ", ".join(_RECORDED)
        raise click.UsageError(
            f"--timeline records what is computed ({recorded}), and not what {verb} does",
            ctx=context,
        )
    try:
        config(memory=memory, threads=threads, scratch=scratch, engine=engine, timeline=timeline)
    except (InvalidArgumentError, InvalidTypeError) as error:
        # Messages begin with the name of the setting, or say that it is the environment's.
        if str(error).startswith("environment"):
            raise
        raise click.UsageError(f"--{error}", ctx=context) from None


_RECORDED = ("matmul", "cholesky", "lu", "solve", "inv", "sweep")
"""Verbs whose work a timeline shows."""

_VERBS = (
    *(info, copy, convert, verify),
    *(transpose, rotate, flip, permute),
    *(matmul, cholesky, lu, solve, inv, cond, sweep, plan),
    *(doctor, timeline, completion),
)
for verb in _VERBS:
    group.add_command(verb)


class _Stopped(KeyboardInterrupt):
    """A signal that asks the process to end, which ends the work as Ctrl-C does."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def run(arguments: Sequence[str]) -> int:
    """Run the command with these arguments and give its exit status."""
    _speak_plainly()
    for number in (signal.SIGTERM, signal.SIGHUP):
        # One that is ignored (nohup) stays ignored.
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _stop)
    try:
        status = _invoke(list(arguments))
        sys.stdout.flush()
    except click.exceptions.Exit as exit:
        return exit.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return error.exit_code
    except click.UsageError as error:
        return _fail(_usage(error, arguments), 2)
    except click.ClickException as error:
        return _fail(error.format_message())
    except _Stopped as stopped:
        return _fail(signal.strsignal(stopped.number) or "stopped", 128 + stopped.number, "")
    except KeyboardInterrupt:
        return _fail("interrupted", 128 + signal.SIGINT, "")
    except BrokenPipeError:
        _forget_stdout()
        return 128 + signal.SIGPIPE
    except (OutcropError, OSError) as error:
        return _fail(str(error))
    except MemoryError as error:
        return _fail(f"out of memory: {error}".rstrip(": "))
    except Exception as error:
        # Only a mistake of ours gets here.
        if os.environ.get("OUTCROP_TRACEBACK"):
            traceback.print_exc()
        hint = "OUTCROP_TRACEBACK=1 shows where"
        return _fail(f"internal: {type(error).__name__}: {error} ({hint})")
    return status


def _invoke(arguments: list[str]) -> int:
    # Where the package is loaded already; see outcrop/__init__.py.
    if instruction := os.environ.get("_OUTCROP_COMPLETE"):
        return answer(instruction)
    with group.make_context("outcrop", arguments) as context:
        return int(group.invoke(context) or 0)


def _stop(number: int, frame: FrameType | None) -> None:
    raise _Stopped(number)


def _fail(message: str, status: int = 1, kind: str = "error: ") -> int:
    """Say one line, and give the exit status."""
    _say(f"outcrop: {kind}{message}")
    return status


def _say(line: str) -> None:
    # Where not even that can be said, the exit status has to do.
    with suppress(OSError):
        click.echo(" ".join(line.split("\n")), err=True)


def _usage(error: click.UsageError, arguments: Sequence[str]) -> str:
    message = error.format_message().rstrip(".").replace("\n", " ")
    message = message[:1].lower() + message[1:]
    context = error.ctx
    if isinstance(error, click.NoSuchOption) and context is not None and context.parent is not None:
        ours = [name for param in group.params for name in param.opts]
        if error.option_name in ours:
            verb = context.command_path.partition(" ")[2]
            option = next(p for p in group.params if error.option_name in p.opts)
            value = "" if getattr(option, "is_flag", False) else f" {option.make_metavar(context)}"
            place = f"outcrop {error.option_name}{value} {verb}"
            return f"{error.option_name} stands before the verb: {place} ..."
    if context is not None:
        path = context.command_path
    else:
        # An option without its value, of which nobody says whose it is.
        path = " ".join(["outcrop", *[word for word in arguments if word in group.commands][:1]])
    return f"{message}; see '{path} --help'"


def _speak_plainly() -> None:
    """Warnings as one line each, and names of files as the bytes they are."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="surrogateescape")
    logger = logging.getLogger("outcrop")
    logger.addHandler(_Handler(logging.WARNING))
    logger.propagate = False
    warnings.showwarning = _show_warning
    warnings.simplefilter("always", outcrop.errors.OutcropWarning)


class _Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        _say(f"outcrop: {record.levelname.lower()}: {record.getMessage()}")


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    _say(f"outcrop: warning: {message}")


def _forget_stdout() -> None:
    # The interpreter flushes it once more at exit, and would complain.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
