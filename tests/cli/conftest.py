"""The command line in a process of its own, as a shell starts it."""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import NamedTemporaryFile
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


# Loads the command once, and forks for every line that it reads: loading takes longer than what
# most commands do here. It has not used the core before, so its children have nothing to inherit.
LOADED = """
import json, os, sys
import outcrop.cli.app
from outcrop.cli import main
for line in sys.stdin:
    job = json.loads(line)
    pid = os.fork()
    if pid == 0:
        os.chdir(job["directory"])
        os.environ.clear()
        os.environ.update(job["environment"])
        for number, name in enumerate((os.devnull, *job["streams"])):
            os.dup2(os.open(name, os.O_RDWR), number)
        sys.exit(main(job["arguments"]))
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


@pytest.fixture(scope="session")
def loaded() -> Iterator[subprocess.Popen[str]]:
    """A process that has loaded the command."""
    with subprocess.Popen(
        [sys.executable, "-c", LOADED],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        preexec_fn=_interruptible,
        text=True,
        bufsize=1,
    ) as process:
        yield process


@pytest.fixture
def outcrop(loaded: subprocess.Popen[str], tmp_path: Path) -> Run:
    """Run to the end; `status` is what the exit status has to be."""
    assert loaded.stdin is not None
    assert loaded.stdout is not None
    commands, statuses = loaded.stdin, loaded.stdout

    def run(
        *arguments: Any, status: int = 0, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        words = [*map(str, arguments)]
        with (
            NamedTemporaryFile("r", errors="surrogateescape") as said,
            NamedTemporaryFile("r", errors="surrogateescape") as errors,
        ):
            job = {
                "directory": str(tmp_path),
                "environment": environment(**(env or {})),
                "streams": [said.name, errors.name],
                "arguments": words,
            }
            commands.write(json.dumps(job) + "\n")
            assert select.select([statuses], [], [], 120)[0], words
            found = int(statuses.readline())
            done = subprocess.CompletedProcess(words, found, said.read(), errors.read())
        assert found == status, done
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
