"""What all tests have in common."""

import json
import os
import select
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import pytest

SMALL = 64 << 10

# Loads the package once, and forks for every job that it reads: loading takes longer than what most
# of them do. It has not used the core before, so its children have nothing to inherit.
LOADED = """
import json, os, sys
import numpy
import outcrop.cli.app
for line in sys.stdin:
    job = json.loads(line)
    pid = os.fork()
    if pid == 0:
        os.chdir(job["directory"])
        os.environ.clear()
        os.environ.update(job["environment"])
        for number, name in enumerate((os.devnull, *job["streams"])):
            os.dup2(os.open(name, os.O_RDWR), number)
        sys.argv[1:] = job["arguments"]
        exec(compile(job["script"], "<script>", "exec"), {"__name__": "__main__"})
        sys.exit()
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


def interruptible() -> None:
    """Undo what a test run in the background hands down: that Ctrl-C is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Loaded:
    """A process that has loaded the package: scripts run in forks of it, a process each."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._jobs, self._statuses = process.stdin, process.stdout

    def run(
        self, script: str, *arguments: Any, cwd: Path, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a script to its end, with the arguments in `sys.argv`."""
        words = [*map(str, arguments)]
        with (
            NamedTemporaryFile("r", errors="surrogateescape") as said,
            NamedTemporaryFile("r", errors="surrogateescape") as errors,
        ):
            job = {
                "directory": str(cwd),
                "environment": dict(os.environ) if env is None else env,
                "streams": [said.name, errors.name],
                "script": script,
                "arguments": words,
            }
            self._jobs.write(json.dumps(job) + "\n")
            assert select.select([self._statuses], [], [], 120)[0], words
            status = int(self._statuses.readline())
            return subprocess.CompletedProcess(words, status, said.read(), errors.read())


@pytest.fixture(scope="session")
def loaded() -> Iterator[Loaded]:
    """Where scripts run without loading what they import; see ``Loaded.run``."""
    with subprocess.Popen(
        [sys.executable, "-c", LOADED],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        preexec_fn=interruptible,
        text=True,
        bufsize=1,
    ) as process:
        yield Loaded(process)


@pytest.fixture(autouse=True)
def _emptied(request: pytest.FixtureRequest) -> Iterator[None]:
    """Empty what a test has written, so that the kernel need not write it out.

    Files stay, until the next run removes them: ext4 without a journal does not use the numbers of
    files again for minutes, and looks at each that was removed to find one. Thousands of tiles
    removed after every test made the tests take twice as long.
    """
    directory: Path | None = None
    if "tmp_path" in request.fixturenames:
        directory = request.getfixturevalue("tmp_path")
    yield
    if directory is None:
        return
    for place, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(place, name)
            with suppress(OSError):
                found = os.lstat(path)
                if stat.S_ISREG(found.st_mode) and found.st_size > SMALL:
                    os.truncate(path, 0)
