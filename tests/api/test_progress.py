"""Progress bars of the library: on a terminal, in a notebook, and nowhere else."""

import os
import pty
import re
import subprocess
import sys
import threading
import time
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outcrop as oc
from outcrop.program import progress

SCRIPT = """
import sys, time
import numpy as np
import outcrop as oc
from outcrop.program import progress
progress._PATIENCE = 0.0
oc.config(memory="16MiB", threads=2, progress=len(sys.argv) < 2)

def slow(block):
    time.sleep(0.02)
    return block

A = oc.fromfunction(lambda i, j: i + j, (2000, 1000), "float64").save("a.zarr")
oc.map(slow, A).save("b.zarr")
oc.compute(oc.map(slow, A).sum(), oc.map(slow, A).max(axis=0))
oc.transpose(A, "c.npy")
told = []
oc.map(slow, A).save("d.npy", progress=lambda done, total: told.append(done))
assert told
print("done")
"""


def shown(place: Path, *arguments: str, term: str = "xterm") -> str:
    """What a script writes to a terminal."""
    (place / "script.py").write_text(SCRIPT)
    main, side = pty.openpty()
    environment = {**os.environ, "TERM": term, "COLUMNS": "100"}
    with subprocess.Popen(
        [sys.executable, "script.py", *arguments],
        cwd=place,
        env=environment,
        stdin=side,
        stdout=side,
        stderr=side,
    ) as child:
        os.close(side)
        said = b""
        while True:
            try:
                part = os.read(main, 1 << 16)
            except OSError:
                break
            if not part:
                break
            said += part
    os.close(main)
    assert child.returncode == 0, said
    return said.decode()


def test_on_a_terminal(tmp_path: Path) -> None:
    said = shown(tmp_path)
    # What is moved, what is computed, several results, and what is turned.
    for label in ("a.zarr", "slow", "add", "c.npy"):
        assert re.search(rf"{label}.*%", said), label
    assert "d.npy" not in said
    assert "left" in said or "finishing" in said
    # It is wiped away.
    last = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", said).splitlines()[-1]
    assert last.strip() == "done"


def test_nowhere_else(tmp_path: Path) -> None:
    assert shown(tmp_path, "off").split() == ["done"]
    for name in ("a.zarr", "b.zarr", "c.npy", "d.npy"):
        oc.transpose(oc.asarray(np.ones(3)), tmp_path / name, overwrite=True)
    (tmp_path / "dumb").mkdir()
    assert shown(tmp_path / "dumb", term="dumb").split() == ["done"]
    (tmp_path / "file").mkdir()
    (tmp_path / "file" / "script.py").write_text(SCRIPT)
    ended = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path / "file", capture_output=True, text=True
    )
    assert (ended.returncode, ended.stdout.split(), ended.stderr) == (0, ["done"], "")


class Shell:
    """What stands for a notebook: what is displayed, and in place of what."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pages: list[str] = []
        self.kernel = object()
        monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: self))
        shown = types.SimpleNamespace(display=self.display)
        monkeypatch.setitem(sys.modules, "IPython.display", shown)
        monkeypatch.setattr(progress, "_PATIENCE", 0.0)
        monkeypatch.setattr(progress.NotebookBar, "_EVERY", 0.0)

    def display(self, page: Any, display_id: bool) -> Any:
        assert display_id
        self.update(page)
        return self

    def update(self, page: Any) -> None:
        self.pages.append(page._repr_html_())


def slowly(block: Any) -> Any:
    time.sleep(0.01)
    return block


def test_in_a_notebook(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shell = Shell(monkeypatch)
    array = oc.asarray(np.ones((600, 500))).save(tmp_path / "<a>.zarr", tile=50)
    assert not shell.pages
    with oc.config(memory="2MiB", progress=True):
        assert oc.config().progress
        oc.map(slowly, array).save(tmp_path / "b.zarr")
    assert not oc.config().progress
    assert any("<progress" in page and "slowly" in page for page in shell.pages)
    assert all(re.search(r"\d+ %", page) for page in shell.pages[:-1])
    # It is taken away.
    assert shell.pages[-1] == ""
    shell.pages.clear()
    with oc.config(progress=True):
        array.save(tmp_path / "<c>.npy")
        assert "&lt;c&gt;" in shell.pages[0] or not shell.pages
        # Where it fails, too.
        with pytest.raises(ZeroDivisionError):
            oc.map(lambda block: 1 // 0, array, dtype="f8").save(tmp_path / "d.zarr")
        assert shell.pages[-1] == ""
        shell.pages.clear()
        thread = threading.Thread(target=array.save, args=(tmp_path / "e.npy",))
        thread.start()
        thread.join()
    assert not shell.pages


def test_settings() -> None:
    with oc.config(memory="8MiB"), oc.config(progress=True) as inner:
        assert inner.progress
        assert inner.memory == 8 << 20
    for wrong in (1, "yes"):
        with pytest.raises(oc.InvalidTypeError, match="progress"):
            oc.config(progress=wrong)  # type: ignore[arg-type]


def test_pages_of_plans_and_runs(tmp_path: Path) -> None:
    array = oc.asarray(np.ones((60, 50))).save(tmp_path / "a&b.zarr")
    plan = oc.plan(array - array.mean(0))
    page = plan._repr_html_()
    assert "<svg" in page
    assert "a&amp;b" in page
    assert "reads" in page
    assert "<svg" in oc.plan(array.T, tmp_path / "t.npy")._repr_html_()
    (array + 1).compute()
    run = oc.last_run()
    assert run is not None
    assert "<table>" in run._repr_html_()
    assert "resident" in run._repr_html_()
