"""An interrupt wherever one may come in what is ours: no file stays open."""

import dis
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import h5py
import numpy as np
import pytest

import outcrop as oc
from outcrop.process.files import write_file

Leftovers = Callable[[Path], list[str]]

OURS = os.path.dirname(oc.__file__)
MOST = 400


class _After:
    """Raises as a signal's handler does, where that may run for the so many-th time.

    The interpreter looks for signals after calls, when a function begins, and when a loop goes on;
    not between a `with` and the call by which that ends.
    """

    def __init__(self, count: int) -> None:
        self.left = count
        self.last: dict[FrameType, str] = {}

    def __call__(self, frame: FrameType, event: str, argument: object) -> Any:
        if not frame.f_code.co_filename.startswith(OURS):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            name = dis.opname[frame.f_code.co_code[frame.f_lasti]]
            last = self.last.get(frame, "")
            self.last[frame] = name
            if last.startswith(("CALL", "JUMP_BACKWARD", "RESUME")):
                self.left -= 1
                if self.left == 0:
                    raise KeyboardInterrupt
        elif event == "return":
            self.last.pop(frame, None)
        return self


def _places(work: Callable[[], object], most: int) -> int:
    """How many have been passed, of at most so many; interrupted then."""
    after = _After(most)
    before = sys.gettrace()
    sys.settrace(after)
    try:
        work()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
        # Frames have what they had open.
        after.last.clear()
    return most - after.left


def _opens(d: Path, name: str) -> Callable[[], object]:
    def work() -> None:
        with oc.open(d / name) as a:
            assert a.shape == (20, 30)

    return work


def _hdf5(d: Path) -> Callable[[], object]:
    with h5py.File(d / "a.h5", "w") as file:
        file["x"] = np.ones((20, 30))
    return _opens(d, "a.h5/x")


def _saved(name: str) -> Callable[[Path], Callable[[], object]]:
    def prepared(d: Path) -> Callable[[], object]:
        oc.asarray(np.ones((20, 30))).save(d / name)
        return _opens(d, name)

    return prepared


def _writes(d: Path) -> Callable[[], object]:
    return lambda: write_file(str(d / "drawing.svg"), b"0" * 100, overwrite=True)


# What is interrupted where nothing can be raised is told, and goes on.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.parametrize(
    "prepared",
    [_saved("a.zarr"), _saved("a.npy"), _hdf5, _saved("a.tiff"), _writes],
    ids=["zarr", "npy", "hdf5", "tiff", "file"],
)
def test_no_file_stays_open(
    prepared: Callable[[Path], Callable[[], object]], quick_dir: Path, leftovers: Leftovers
) -> None:
    work = prepared(quick_dir)
    work()
    count = _places(work, 10**9)
    assert 20 < count < 10**9
    # All, or as many in each part.
    for nth in sorted({1 + at * count // MOST for at in range(MOST)}):
        _places(work, nth)
        assert leftovers(quick_dir) == [], nth
