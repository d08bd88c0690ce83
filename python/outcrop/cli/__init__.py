"""The command line: the jobs that need no script.

- `app`: the command with its global options, and how it ends: errors, interrupts, exit status.
- `info`, `copy` (with `convert`), `verify`, `linalg`, `sweeps`, `doctor`, `timeline`: the verbs.
- `computing`: what verbs have in common that compute a result.
- `places`: what stands for an array on the command line. `targets`: where results go.
- `values`: what stands for tiles, boxes and codecs.
- `session`: what the global options ask for.
- `results`: lines and tables for people.
- `completion`: what shells complete, from `tree.json`, and `store_names` in groups and files.
"""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from outcrop.process import starting as _starting

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and give its exit status.

    Parameters
    ----------
    arguments : sequence of str, optional
        Default: those of the process.
    """
    _have_streams()
    try:
        # Loading takes a moment, in which a person may change their mind, too.
        from outcrop.cli.app import run

        _starting.over()
        return run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        print("outcrop: interrupted", file=sys.stderr)
        return 130


def _have_streams() -> None:
    """Nowhere to write to, as in some services, is a place to write to as well.

    The descriptors are taken, too, or the next file that is opened would be what errors go to.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            with suppress(OSError):
                # The lowest that is free, which is this one, unless something has taken it since.
                os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
            setattr(sys, name, open(os.devnull, "w" if number else "r"))  # noqa: SIM115
