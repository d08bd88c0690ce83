"""Ctrl-C while the command ``outcrop`` is still being loaded: one line, and the exit status 130.

Python would print where in the loading it was, or, inside an extension module, go on. Programs that
import Outcrop keep Python's own way.
"""

# Nothing that takes time to load: until this is done, Ctrl-C is Python's.
# What `signal` is made of, which is there already.
import _signal as signal  # type: ignore[import-not-found]
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

__all__ = ["asked_by_a_shell", "interrupted", "over"]


def _is_command() -> bool:
    name = sys.argv[0] if sys.argv else ""
    if name != "-m":
        return os.path.basename(name) == "outcrop"
    # That is what it is called while the module that -m names is looked for.
    options = zip(sys.orig_argv[1:], sys.orig_argv[2:], strict=False)
    return any(
        option.startswith("-")
        and option.endswith("m")
        and not option.startswith("--")
        and wanted == "outcrop"
        for option, wanted in options
    )


def asked_by_a_shell() -> str | None:
    """What a shell asks to be completed; None where the command is to do something."""
    return os.environ.get("_OUTCROP_COMPLETE") if _is_command() else None


def _end(number: int, frame: "FrameType | None") -> None:
    os.write(2, b"outcrop: interrupted\n")
    # Nothing has been begun that would have to be cleaned up.
    os._exit(128 + number)


def interrupted() -> None:
    """End the command, where Ctrl-C came before this was there; elsewhere, it is for the caller."""
    if _is_command():
        _end(signal.SIGINT, None)


def over() -> None:
    """Leave Ctrl-C to Python again."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


# One that is ignored stays ignored.
if _is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # `contextlib` would take time to load.
    try:  # noqa: SIM105
        signal.signal(signal.SIGINT, _end)
    except ValueError:
        # Not the main thread.
        pass
