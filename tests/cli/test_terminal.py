"""On a terminal there is a progress bar, and one line is left of it; elsewhere there is neither."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

BAR = "━"


def on_terminal(
    start: Run,
    *arguments: Any,
    width: int = 100,
    env: dict[str, str] | None = None,
    until: str | None = None,
    **options: Any,
) -> tuple[subprocess.Popen[bytes], str]:
    """What a terminal receives from a command; Ctrl-C is pressed once `until` is there."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    own = {"TERM": "xterm-256color", "COLUMNS": "", "LINES": ""}
    streams = {"stderr": slave, "stdout": slave} | options
    process = start(*arguments, env=own | (env or {}), **streams)
    os.close(slave)
    received, pressed = b"", None
    while True:
        try:
            received += os.read(master, 65536)
        except OSError:  # how Linux says that nobody has the other end any more
            break
        if until and pressed is None and until.encode() in received:
            process.send_signal(signal.SIGINT)
            pressed = time.monotonic()
    if pressed is not None:
        assert time.monotonic() - pressed < 1.5
    os.close(master)
    process.wait(timeout=30)
    return process, received.decode()


def screen(text: str) -> list[str]:
    """What is left on the screen: a bar wipes itself away."""
    lines = [""]
    for part in re.split(r"(\r|\n|\x1b\[[0-9;?]*[a-zA-Z])", text):
        if part == "\n":
            lines.append("")
        elif part == "\x1b[2K":
            lines[-1] = ""
        elif match := re.fullmatch(r"\x1b\[(\d*)A", part):
            for _ in range(int(match[1] or 1)):
                lines.pop()
        elif part != "\r" and not part.startswith("\x1b"):
            lines[-1] += part
    return [line for line in lines if line.strip()]


def test_a_bar_and_one_line(start: Run, slow: list[str]) -> None:
    process, received = on_terminal(start, *slow)
    assert process.returncode == 0
    assert BAR in received
    for part in ("slow.zarr", "MiB of 64.0 MiB", "MiB/s", "left", "%"):
        assert part in received
    assert received.count("%") >= 5
    (line,) = screen(received)
    assert re.fullmatch(r"converted noise\.npy to slow\.zarr in \d+\.\d+ s, \d+\.\d [KM]iB/s", line)
    assert received.endswith("\r\n")
    assert received.count("\x1b[?25l") == received.count("\x1b[?25h"), "the cursor is back"


def test_ctrl_c(start: Run, slow: list[str], tmp_path: Path) -> None:
    process, received = on_terminal(start, *slow, until="%")
    assert process.returncode == 130
    assert screen(received) == ["outcrop: interrupted"]
    assert received.count("\x1b[?25l") == received.count("\x1b[?25h")
    assert os.listdir(tmp_path) == ["noise.npy"]


@pytest.mark.parametrize("width", [70, 40, 20])
def test_narrow_terminals(start: Run, slow: list[str], width: int) -> None:
    _, received = on_terminal(start, *slow, width=width, until="%")
    bars = [line for line in re.split(r"[\r\n]", received) if BAR in line]
    assert bars
    for bar in bars:
        assert len(re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", bar)) <= width


def test_without_colours(start: Run, slow: list[str]) -> None:
    _, received = on_terminal(start, *slow, env={"NO_COLOR": "1"}, until=BAR)
    assert BAR in received
    assert not re.search(r"\x1b\[[0-9;]*(3[0-9]|38;[0-9;]+)m", received)


@pytest.mark.parametrize("how", ["quiet", "dumb", "piped"])
def test_no_bar(start: Run, slow: list[str], how: str, tmp_path: Path) -> None:
    if how == "piped":
        with open(tmp_path / "stderr", "w+b") as stderr:
            process, received = on_terminal(start, *slow, stderr=stderr)
            stderr.seek(0)
            received += stderr.read().decode()
    elif how == "quiet":
        process, received = on_terminal(start, "--quiet", *slow)
    else:
        process, received = on_terminal(start, *slow, env={"TERM": "dumb"})
        assert received.startswith("converted noise.npy to slow.zarr in ")
        assert received.endswith("/s\r\n")
        received = ""
    assert process.returncode == 0
    assert received == ""


def test_results_go_where_they_are_sent(start: Run, array: Path, tmp_path: Path) -> None:
    with open(tmp_path / "out", "w+b") as out:
        _, received = on_terminal(start, "verify", "a.zarr", stdout=out)
        out.seek(0)
        assert out.read().startswith(b"a.zarr: sound")
    assert received == ""


def test_measurements_are_no_bytes(start: Run) -> None:
    _, received = on_terminal(start, "doctor", until="%")
    assert "measuring" in received
    assert "byte" not in received
