"""Ctrl-C ends the work within a second and leaves nothing behind."""

import os
import signal
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
