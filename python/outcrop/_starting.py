"""Ctrl-C while the command ``outcrop`` is still being loaded: one line, and the exit status 130.

Python would print where in the loading it was, or, inside an extension module, go on. Programs that
import Outcrop keep Python's own way.
"""

import os
import re
import signal
import sys
import threading
from types import FrameType

__all__ = ["over"]


def _is_command() -> bool:
    name = sys.argv[0] if sys.argv else ""
    if name != "-m":
        return os.path.basename(name) == "outcrop"
    # That is what it is called while the module that -m names is looked for.
    options = zip(sys.orig_argv[1:], sys.orig_argv[2:], strict=False)
    return any(re.fullmatch(r"-\w*m", option) and wanted == "outcrop" for option, wanted in options)


def _end(number: int, frame: FrameType | None) -> None:
    os.write(2, b"outcrop: interrupted\n")
    # Nothing has been begun that would have to be cleaned up.
    os._exit(128 + number)


def over() -> None:
    """Leave Ctrl-C to Python again."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


if (
    _is_command()
    and threading.current_thread() is threading.main_thread()
    # One that is ignored stays ignored.
    and signal.getsignal(signal.SIGINT) is signal.default_int_handler
):
    signal.signal(signal.SIGINT, _end)
