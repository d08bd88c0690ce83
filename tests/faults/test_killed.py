"""A process that is killed leaves the old array or the new one, whole, and no more for long."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import outcrop as oc

Verify = Callable[[Path], list[str]]
Leftovers = Callable[[Path], list[str]]

KILLS = int(os.environ.get("OUTCROP_KILLS", "30"))
SEED = int(os.environ.get("OUTCROP_SEED", "0")) or random.SystemRandom().randrange(2**32)

# Imports once, and forks for every line that it reads: a process to be killed costs little then.
# It has not used the core before, so its children have nothing to inherit.
NURSERY = """
import os, sys, warnings
import outcrop as oc
from outcrop import _native
from outcrop.errors import OutcropWarning
warnings.simplefilter("ignore", OutcropWarning)
source, target, work, rule = None, None, None, None
def copy():
    oc.open("source.zarr").save("target.zarr", tile=(100, 130))
def replace():
    oc.open("source.zarr").save("target.zarr", tile=(100, 130), overwrite=True)
def npy():
    oc.open("source.zarr").save("target.npy", overwrite=True)
def update():
    with oc.open("target.zarr", "r+") as array:
        array[...] = oc.open("source.zarr")
def gemm():
    with oc.open("target.zarr", "r+") as C:
        oc.blas.gemm(1.0, oc.open("source.zarr"), oc.eye(650), C=C)
def turn():
    oc.transpose("source.npy", "target.npy", overwrite=True)
def itself():
    oc.transpose("target.npy", "target.npy", overwrite=True)
def product():
    A = oc.open("source.zarr")
    (A @ A.T).save("target.zarr", tile=(100, 130), overwrite=True)
def cholesky():
    oc.linalg.cholesky(oc.open("positive.zarr")).save("target.npy", overwrite=True)
def pair():
    A = oc.open("source.zarr")
    oc.save({"target.zarr": A + 1, "second.npy": A.sum(axis=0)}, overwrite=True)
def hdf5():
    (oc.open("source.zarr") + 1).save("target.h5/x", overwrite=True)
for line in sys.stdin:
    work, rule = line.split()
    pid = os.fork()
    if pid == 0:
        # So little that a file is turned in two passes.
        oc.config(memory="512KiB" if work in ("turn", "itself") else "4MiB")
        if rule != "none":
            _native.inject_faults(rule)
        os.write(1, b"%d\\n" % os.getpid())
        globals()[work]()
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""

SHAPE = (700, 650)
VALUES = np.random.default_rng(3).random(SHAPE)
OLD = np.random.default_rng(4).random(SHAPE)


class Nursery:
    """Runs work in a process of its own, and kills that where it is told to."""

    seconds = 0.0  # that the last run took

    def __init__(self, directory: Path) -> None:
        self.child = subprocess.Popen(
            [sys.executable, "-c", NURSERY],
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def run(self, work: str, rule: str = "none", kill_after: float | None = None) -> int:
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        self.child.stdin.write(f"{work} {rule}\n")
        pid = int(self.child.stdout.readline())
        start = time.perf_counter()
        if kill_after is not None:
            time.sleep(kill_after)
            # It may have ended already.
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        status = int(self.child.stdout.readline())
        self.seconds = time.perf_counter() - start
        return status


@pytest.fixture
def nursery(tmp_path: Path) -> Iterator[Nursery]:
    oc.asarray(VALUES).save(tmp_path / "source.zarr", tile=(64, 64))
    oc.asarray(VALUES).save(tmp_path / "source.npy")
    positive = VALUES[:300] @ VALUES[:300].T + np.eye(300)
    oc.asarray(positive).save(tmp_path / "positive.zarr", tile=(64, 64))
    nursery = Nursery(tmp_path)
    yield nursery
    assert nursery.child.stdin is not None
    nursery.child.stdin.close()
    assert nursery.child.wait(30) == 0
    if nursery.child.stdout is not None:
        nursery.child.stdout.close()


def reset(directory: Path, work: str) -> tuple[Path, bool]:
    """The state before the work; where its result will be, and whether something is there now."""
    target = directory / ("target.npy" if work == "npy" else "target.zarr")
    if work == "copy":
        if target.exists():
            subprocess.run(["rm", "-r", target], check=True)
        return target, False
    oc.asarray(OLD).save(target, tile=None if work == "npy" else (100, 130), overwrite=True)
    return target, True


def check(
    directory: Path, work: str, target: Path, was_there: bool, status: int, verify: Verify
) -> str:
    if not target.exists():
        assert not was_there
        assert status == -signal.SIGKILL
        return "absent"
    assert verify(target) == []
    found = oc.open(target).compute()
    is_new, is_old = np.array_equal(found, VALUES), was_there and np.array_equal(found, OLD)
    assert is_new or is_old, "a mix"
    assert is_new or status == -signal.SIGKILL
    return "new" if is_new else "old"


@pytest.mark.parametrize("work", ["copy", "replace", "npy", "update", "gemm"])
def test_killed_at_a_random_moment(
    tmp_path: Path, nursery: Nursery, verify: Verify, leftovers: Leftovers, work: str
) -> None:
    chance = random.Random(f"{SEED} {work}")
    print(f"OUTCROP_SEED={SEED}")
    reset(tmp_path, work)
    assert nursery.run(work) == 0
    # A little longer than the work takes, so that its very end is met as well.
    duration = 1.1 * nursery.seconds
    outcomes = []
    for _ in range(max(KILLS // 2, 1)):
        target, was_there = reset(tmp_path, work)
        status = nursery.run(work, kill_after=chance.uniform(0, duration))
        outcomes.append(check(tmp_path, work, target, was_there, status, verify))
        if outcomes[-1] == "new" and work == "copy":
            continue  # the next run has nothing to do
        if chance.random() < 0.3:
            assert nursery.run(work) == 0
            assert leftovers(tmp_path) == []
            assert check(tmp_path, work, target, True, 0, verify) == "new"
    print(work, outcomes)
    target, _ = reset(tmp_path, work)
    assert nursery.run(work) == 0
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("work", ["copy", "replace", "npy", "update", "gemm"])
def test_killed_at_an_operation(
    tmp_path: Path, nursery: Nursery, verify: Verify, leftovers: Leftovers, work: str
) -> None:
    """At every step of a commit, and at some steps before."""
    for kind in ("sync", "rename", "remove", "create", "write"):
        for nth in (1, 2, 3, 4, 7, 20, 50):
            target, was_there = reset(tmp_path, work)
            status = nursery.run(work, f"{kind}:{nth}:kill:once")
            outcome = check(tmp_path, work, target, was_there, status, verify)
            if status == 0:
                break
            if not (outcome == "new" and work == "copy"):
                assert nursery.run(work) == 0, (kind, nth)
            else:
                # Even a run that has nothing to do sees to what is left.
                assert nursery.run(work) != 0
            assert leftovers(tmp_path) == [], (kind, nth)
            assert check(tmp_path, work, target, True, 0, verify) == "new"


# -- computing ---------------------------------------------------------------------------------

COMPUTING = {
    "turn": ["target.npy"],
    "itself": ["target.npy"],
    "product": ["target.zarr"],
    "cholesky": ["target.npy"],
    "pair": ["target.zarr", "second.npy"],
    "hdf5": ["target.h5/x", "target.h5/g/kept"],
}


def put_old(directory: Path, work: str) -> None:
    for name in COMPUTING[work]:
        oc.asarray(OLD).save(
            directory / name, tile=(100, 130) if ".zarr" in name else None, overwrite=True
        )


def read(path: Path) -> np.ndarray:
    """Elements in NumPy's own memory, which no budget counts."""
    values = oc.open(path).compute()
    return values.copy()


def sources(directory: Path) -> dict[Path, bytes]:
    kept = ("source.zarr", "source.npy", "positive.zarr")
    return {
        p: p.read_bytes()
        for name in kept
        for p in [directory / name, *(directory / name).rglob("*")]
        if p.is_file()
    }


@pytest.mark.parametrize("work", COMPUTING)
def test_killed_while_computing(
    tmp_path: Path, nursery: Nursery, verify: Verify, leftovers: Leftovers, work: str
) -> None:
    """At random moments and at steps of a commit: each result is the old or the new one, whole."""
    chance = random.Random(f"{SEED} {work}")
    print(f"OUTCROP_SEED={SEED}")
    put_old(tmp_path, work)
    if work == "turn":
        with oc.config(memory="512KiB"):
            plan = oc.plan(oc.open(tmp_path / "source.npy").T, tmp_path / "planned.npy")
            assert len(plan._facts["passes"]) == 2
    assert nursery.run(work) == 0
    duration = 1.1 * nursery.seconds
    names = COMPUTING[work]
    new = {name: read(tmp_path / name) for name in names}
    if work in ("turn", "itself"):
        np.testing.assert_array_equal(new["target.npy"], (VALUES if work == "turn" else OLD).T)
    intact = sources(tmp_path)
    steps = [
        f"{kind}:{nth}:kill:once"
        for kind in ("sync", "rename", "remove")
        for nth in (1, 2, 3, 4, 6)
    ]
    steps += [f"write:{nth}:kill:once" for nth in (1, 5, 30, 60)]
    outcomes = []
    over: set[str] = set()
    for moment in [*steps, *(chance.uniform(0, duration) for _ in range(max(KILLS // 3, 1)))]:
        if isinstance(moment, str) and moment.partition(":")[0] in over:
            continue
        put_old(tmp_path, work)
        if isinstance(moment, str):
            status = nursery.run(work, moment)
            if status == 0:
                # There are no more of this kind.
                over.add(moment.partition(":")[0])
        else:
            status = nursery.run(work, kill_after=moment)
        assert sources(tmp_path) == intact
        for name in names:
            assert verify(tmp_path / name) == [], (moment, name)
            found = read(tmp_path / name)
            is_new = np.array_equal(found, new[name])
            assert is_new or np.array_equal(found, OLD), (moment, name, "a mix")
            assert is_new or status == -signal.SIGKILL
            outcomes.append("new" if is_new else "old")
        if chance.random() < 0.3:
            put_old(tmp_path, work)
            assert nursery.run(work) == 0
            assert leftovers(tmp_path) == [], moment
            for name in names:
                np.testing.assert_array_equal(read(tmp_path / name), new[name])
    print(work, outcomes)
    assert {"old", "new"} <= set(outcomes)
    put_old(tmp_path, work)
    assert nursery.run(work) == 0
    assert leftovers(tmp_path) == []
