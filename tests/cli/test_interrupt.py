"""Ctrl-C ends the work within a second and leaves nothing behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


def wait_for(condition: Callable[[], Any], seconds: float = 30) -> None:
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("number", "message"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "Terminated")]
)
def test_a_signal_during_a_copy(
    start: Run, slow: list[str], tmp_path: Path, number: signal.Signals, message: str
) -> None:
    process = start(*slow)
    # Work has begun when the new array is being built.
    wait_for(lambda: (tmp_path / ".slow.zarr.outcrop-new").exists())
    time.sleep(0.2)
    sent = time.monotonic()
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert time.monotonic() - sent < 1.5
    assert (out, err.decode()) == (b"", f"outcrop: {message}\n")
    assert process.returncode == 128 + number
    assert os.listdir(tmp_path) == ["noise.npy"]


def test_what_stood_there_stays(
    start: Run, outcrop: Run, slow: list[str], array: Path, tmp_path: Path
) -> None:
    array.rename(tmp_path / "slow.zarr")
    process = start(*slow, "--overwrite")
    wait_for(lambda: (tmp_path / ".slow.zarr.outcrop-new").exists())
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130
    assert sorted(os.listdir(tmp_path)) == ["noise.npy", "slow.zarr"]
    assert "sound, 15 tiles" in outcrop("verify", "slow.zarr").stdout


def test_nohup(start: Run, slow: list[str], tmp_path: Path) -> None:
    def ignore() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    process = start(*slow, preexec_fn=ignore)
    wait_for(lambda: (tmp_path / ".slow.zarr.outcrop-new").exists())
    process.send_signal(signal.SIGHUP)
    assert process.communicate(timeout=60) == (b"", b"")
    assert process.returncode == 0


@pytest.mark.parametrize("module", ["numpy", "click"])
def test_while_it_is_loaded(start: Run, tmp_path: Path, module: str) -> None:
    # As if somebody pressed Ctrl-C as soon as this is looked for.
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / f"{module}.py").write_text(
        "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(30)\n"
    )
    path = os.pathsep.join([str(tmp_path / "first"), os.environ.get("PYTHONPATH", "")])
    process = start("info", "a.npy", env={"PYTHONPATH": path})
    assert process.communicate(timeout=30) == (b"", b"outcrop: interrupted\n")
    assert process.returncode == 130


AFTER = """
import os, signal, sys
class Finder:
    left = None
    def find_spec(self, name, path, target=None):
        if name == "outcrop":
            self.left = int(os.environ["INTERRUPTED"])
        if name == "outcrop" or self.left is None:
            return
        self.left -= 1
        if self.left == 0:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
"""


@pytest.mark.parametrize("nth", [1, 2, 3, 4, 8, 16, 64])
def test_at_any_module_that_it_loads(start: Run, tmp_path: Path, nth: int) -> None:
    """Modules of Python's were loaded before anything looked for Ctrl-C: most of 0.3 seconds."""
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "sitecustomize.py").write_text(AFTER)
    path = os.pathsep.join([str(tmp_path / "first"), os.environ.get("PYTHONPATH", "")])
    process = start("info", "a.npy", env={"PYTHONPATH": path, "INTERRUPTED": str(nth)})
    assert process.communicate(timeout=30) == (b"", b"outcrop: interrupted\n")
    assert process.returncode == 130


AT = """
import os, signal, sys
class Finder:
    def find_spec(self, name, path, target=None):
        if name == os.environ["INTERRUPTED"]:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
"""


@pytest.mark.parametrize("module", ["outcrop.process", "outcrop.process.starting"])
def test_before_it_looks_for_signals(start: Run, tmp_path: Path, module: str) -> None:
    """Ctrl-C while what looks for it was loaded itself showed where in the loading that was."""
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "sitecustomize.py").write_text(AT)
    path = os.pathsep.join([str(tmp_path / "first"), os.environ.get("PYTHONPATH", "")])
    process = start("info", "a.npy", env={"PYTHONPATH": path, "INTERRUPTED": module})
    assert process.communicate(timeout=30) == (b"", b"outcrop: interrupted\n")
    assert process.returncode == 130
    (tmp_path / "program.py").write_text(
        "try: import outcrop\nexcept KeyboardInterrupt: print('mine')\n"
    )
    own = os.environ | {"PYTHONPATH": path, "INTERRUPTED": module}
    command = [sys.executable, "program.py"]
    ended = subprocess.run(command, cwd=tmp_path, env=own, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "mine\n", "")


def test_programs_that_import_it_keep_their_own_way(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import outcrop, signal\n"
        "assert signal.getsignal(signal.SIGINT) is signal.default_int_handler\n"
    )
    for arguments in (["program.py"], ["-m", "program"]):
        subprocess.run([sys.executable, *arguments], cwd=tmp_path, check=True)


FIRST_USE = """
import numpy as np
import outcrop as oc

def interrupted(*arguments):
    raise KeyboardInterrupt

# What is asked for the first time that an array goes to the core.
np.lib.NumpyVersion = interrupted
a = oc.asarray(np.eye(30))
a.save("a.zarr")
assert (oc.open("a.zarr") @ a).compute()[3, 3] == 1
"""


def test_the_first_array_that_goes_to_the_core(tmp_path: Path) -> None:
    """Ctrl-C just then was a panic: what NumPy offers was looked for at first use."""
    command = [sys.executable, "-c", FIRST_USE]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
