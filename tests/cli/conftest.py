"""The command line in a process of its own, as a shell starts it."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outcrop as oc

Run = Callable[..., subprocess.CompletedProcess[str]]
Start = Callable[..., subprocess.Popen[str]]


def environment(**changes: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("OUTCROP_", "NO_COLOR"))}
    # What a command measures of the disk is known to the others.
    kept["OUTCROP_CACHE"] = os.environ["OUTCROP_CACHE"]
    return kept | {"OUTCROP_MEMORY": "64MiB"} | changes


def _interruptible() -> None:
    # A test run in the background ignores Ctrl-C, and hands that down.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def start(tmp_path: Path) -> Start:
    def start(*arguments: Any, env: dict[str, str] | None = None, **options: Any) -> Any:
        defaults: dict[str, Any] = {
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "preexec_fn": _interruptible,
        }
        return subprocess.Popen(
            [sys.executable, "-m", "outcrop", *map(str, arguments)],
            cwd=tmp_path,
            env=environment(**(env or {})),
            **defaults | options,
        )

    return start


@pytest.fixture
def outcrop(loaded: Any, tmp_path: Path) -> Run:
    """Run to the end; `status` is what the exit status has to be."""
    script = "import sys\nfrom outcrop.cli import main\nsys.exit(main(sys.argv[1:]))"

    def run(
        *arguments: Any, status: int = 0, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        ran = loaded.run(script, *arguments, cwd=tmp_path, env=environment(**(env or {})))
        done: subprocess.CompletedProcess[str] = ran
        assert done.returncode == status, done
        return done

    return run


PLAIN = np.arange(300 * 200, dtype=np.float64).reshape(300, 200)


@pytest.fixture
def plain() -> np.ndarray[Any, Any]:
    return PLAIN


@pytest.fixture
def array(tmp_path: Path) -> Path:
    """15 tiles, a checksum each, in the working directory of the command."""
    with oc.create(
        tmp_path / "a.zarr", PLAIN.shape, tile=(64, 80), attributes={"unit": "K"}
    ) as array:
        array[...] = PLAIN
    return tmp_path / "a.zarr"


@pytest.fixture
def slow(tmp_path: Path) -> list[str]:
    """Work that takes much longer than a second, and little disk."""
    noise = np.random.default_rng(1).integers(0, 30, (8192, 8192), dtype=np.uint8)
    oc.asarray(noise).save(tmp_path / "noise.npy")
    options = ["--codecs", "gzip:9", "--tile", "512x512"]
    return ["--threads", "1", "convert", "noise.npy", "slow.zarr", *options]
