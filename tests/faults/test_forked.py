"""Forking while data moves: the parent goes on, the child is told, and can start anew."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import outcrop as oc

VALUES = np.random.default_rng(5).random((1200, 1000))

HEAD = """
import multiprocessing, os, sys, threading, time, warnings
import numpy as np
warnings.simplefilter("ignore")
import outcrop as oc
oc.config(memory="48MiB")
def child(work):
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException as error:
            os.write(2, repr(error).encode())
            os._exit(1)
        os._exit(0)
    return pid
def joined(pid):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return "hangs"
def refused(use):
    try:
        use()
    except oc.ForkedProcessError:
        return
    raise AssertionError("not refused")
"""


def run(script: str, directory: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", HEAD + script],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    oc.asarray(VALUES).save(tmp_path / "a.zarr", tile=(128, 128))
    return tmp_path


def test_forks_during_a_copy(stored: Path) -> None:
    run(
        """
array = oc.open("a.zarr")
copied = threading.Thread(target=lambda: array.save("b.zarr", tile=(100, 300)))
copied.start()
def work():
    refused(array.compute)
    refused(lambda: array.save("c.zarr"))
    own = oc.open("a.zarr")
    assert own[::7].compute().shape == (172, 1000)
    own[:100].save(f"own{os.getpid()}.npy")
pids = []
while copied.is_alive() and len(pids) < 12:
    pids.append(child(work))
    time.sleep(0.005)
copied.join()
assert [joined(pid) for pid in pids] == [0] * len(pids)
assert np.array_equal(oc.open("b.zarr").compute(), array.compute())
assert not [n for n in os.listdir() if "outcrop" in n]
""",
        stored,
    )
    with oc.config(memory="16MiB"):
        np.testing.assert_array_equal(oc.open(stored / "b.zarr").compute(), VALUES)


def test_a_result_is_inherited(stored: Path) -> None:
    """Frames are not inherited, and a result above 1 MiB is a frame: a child that looked at it
    died of SIGSEGV."""
    run(
        """
result = oc.open("a.zarr").compute()
assert result.nbytes > 1 << 20
expected = result.sum()
def work():
    assert result.sum() == expected
    result[...] = 0
assert joined(child(work)) == 0
assert result.sum() == expected
blocks = [(key, block) for key, block in oc.open("a.zarr")[:500].tiles()]
def work():
    for key, block in blocks:
        assert np.array_equal(block, oc.open("a.zarr")[:500][key].compute())
assert joined(child(work)) == 0
""",
        stored,
    )


def test_readers_of_the_parent(stored: Path) -> None:
    """A child waited for ever for the parent's threads, when it let go of an iterator."""
    run(
        """
array = oc.open("a.zarr")
tiles = array.tiles()
key, first = next(tiles)
expected = first.copy()
def work():
    assert np.array_equal(first, expected)
    refused(lambda: next(tiles))
    globals().pop("tiles")
assert joined(child(work)) == 0
def work():
    globals().pop("tiles").close()
assert joined(child(work)) == 0
assert sum(1 for _ in tiles) > 0
""",
        stored,
    )


def test_a_child_that_exits_normally(stored: Path) -> None:
    """Everything that the parent has open is torn down in the child, too."""
    run(
        """
array = oc.open("a.zarr")
tiles = array.tiles()
kept = [next(tiles) for _ in range(3)]
new = oc.create("n.zarr", (300, 300), tile=(70, 70))
new[:200, 5:] = 1
changed = oc.open("a.zarr", "r+")
changed[3, 4] = 5
pid = os.fork()
if pid == 0:
    sys.exit(0)
assert joined(pid) == 0
new[200:] = 2
new.close()
changed.close()
assert oc.open("n.zarr")[::199, 6].compute().tolist() == [1, 1]
assert oc.open("a.zarr")[3, 4].item() == 5
""",
        stored,
    )


def test_a_pool_of_processes(stored: Path) -> None:
    run(
        """
array = oc.open("a.zarr")
total = array.compute().sum()
def refused_in_child(_):
    try:
        array.compute()
    except oc.ForkedProcessError as error:
        return "a.zarr" in str(error)
    return False
def part(i):
    with oc.config(memory="1MiB"):
        return oc.open("a.zarr")[100 * i : 100 * (i + 1)].compute().sum()
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert all(pool.map(refused_in_child, range(4)))
    assert np.isclose(sum(pool.map(part, range(12))), total)
assert np.isclose(array.compute().sum(), total)
""",
        stored,
    )
