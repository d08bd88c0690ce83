"""When an array on disk appears, and when it does not."""

import gc
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import outcrop as oc


def test_it_appears_at_close(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    array = oc.create(path, 3)
    array[...] = 1
    array.flush()
    with pytest.raises(oc.ArrayNotFoundError):
        oc.open(path)
    array[1:].close()  # a view closes the whole
    assert oc.open(path).compute().tolist() == [1, 1, 1]
    array.close()
    for use in (
        array.compute,
        array.flush,
        array.tiles,
        lambda: array[0].item(),
        lambda: array.__setitem__(0, 1),
        lambda: array.save(tmp_path / "b"),
    ):
        with pytest.raises(oc.ClosedArrayError, match=r"a\.zarr"):
            use()
    assert array.shape == (3,)


def test_it_appears_at_the_end_of_with(tmp_path: Path) -> None:
    with oc.create(tmp_path / "a", 3) as array:
        array[...] = 1
    assert oc.open(tmp_path / "a").compute().tolist() == [1, 1, 1]


def test_an_exception_inside_with_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), oc.create(tmp_path / "a", 3) as array:
        array[...] = 1
        1 / 0  # noqa: B018
    assert not (tmp_path / "a").exists()
    del array
    gc.collect()
    assert not (tmp_path / "a").exists()


def test_an_exception_while_changing_leaves_the_old_state(tmp_path: Path) -> None:
    oc.asarray(np.ones(3)).save(tmp_path / "a")
    with pytest.raises(ZeroDivisionError), oc.open(tmp_path / "a", "r+") as array:
        array[...] = 2
        1 / 0  # noqa: B018
    assert oc.open(tmp_path / "a").compute().tolist() == [1, 1, 1]
    with oc.open(tmp_path / "a", "r+") as array:
        array[0] = 2
    assert oc.open(tmp_path / "a").compute().tolist() == [2, 1, 1]


def test_it_appears_when_collected(tmp_path: Path) -> None:
    array = oc.create(tmp_path / "a", 3)
    view = array[1:]
    del array
    gc.collect()
    assert not (tmp_path / "a").exists()  # the view keeps it
    view[...] = 1
    del view
    gc.collect()
    assert oc.open(tmp_path / "a").compute().tolist() == [0, 1, 1]


def run(script: str, directory: Path) -> "subprocess.CompletedProcess[str]":
    head = "import os, sys, threading\nimport outcrop as oc\n"
    return subprocess.run(
        [sys.executable, "-c", head + script], cwd=directory, capture_output=True, text=True
    )


def test_it_appears_when_the_interpreter_exits(tmp_path: Path) -> None:
    ended = run(
        "a = oc.create('a', 3); a[...] = 1\n"
        "class Holder: pass\n"
        "h = Holder(); h.me = h; h.b = oc.create('b', 3); h.b[...] = 2; del h\n"
        "c = oc.create('c', 3); c.abort()\n"
        "sys.exit(0)",
        tmp_path,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert oc.open(tmp_path / "a").compute().tolist() == [1, 1, 1]
    assert oc.open(tmp_path / "b").compute().tolist() == [2, 2, 2]
    assert not (tmp_path / "c").exists()


def test_a_script_that_fails_leaves_nothing(tmp_path: Path) -> None:
    ended = run("a = oc.create('a', 3); a[...] = 1; 1 / 0", tmp_path)
    assert ended.returncode == 1
    assert "ZeroDivisionError" in ended.stderr.splitlines()[-1]
    assert not (tmp_path / "a").exists()


def test_a_forked_child_neither_uses_nor_commits(tmp_path: Path) -> None:
    ended = run(
        "import warnings; warnings.simplefilter('ignore')\n"
        "with oc.create('a', 3) as a, oc.create('b', 3) as b:\n"
        "    a[...] = 1\n"
        "    if os.fork() == 0:\n"
        "        for use in (a.compute, a.close, a.abort, lambda: a.__setitem__(0, 5)):\n"
        "            try: use()\n"
        "            except oc.ForkedProcessError: pass\n"
        "            else: os._exit(1)\n"
        "        repr(a); del b\n"
        "        sys.exit(0)\n"
        "    pid, status = os.wait()\n"
        "    assert status == 0, status\n"
        "    assert not os.path.exists('a') and not os.path.exists('b')\n"
        "    a[0] = 2\n",
        tmp_path,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert oc.open(tmp_path / "a").compute().tolist() == [2, 1, 1]
    assert oc.open(tmp_path / "b").compute().tolist() == [0, 0, 0]


def test_a_second_writer_is_told(tmp_path: Path) -> None:
    oc.asarray(np.ones(3)).save(tmp_path / "a")
    with oc.open(tmp_path / "a", "r+"), pytest.raises(oc.ArrayBusyError, match="process"):
        oc.open(tmp_path / "a", "r+")
    oc.open(tmp_path / "a", "r+").close()
