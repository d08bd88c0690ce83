"""Loop nests that fail, are killed, or interrupted: the arrays are as they were, or all is done."""

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outcrop as oc
from outcrop import _native

pytest.importorskip("numba")
pytest.importorskip("islpy")

Outcome = Callable[[Callable[[], object]], oc.OutcropError | None]
Leftovers = Callable[[Path], list[str]]
Verify = Callable[[Path], list[str]]

SEED = int(os.environ.get("OUTCROP_SEED", "0")) or random.SystemRandom().randrange(2**32)
MOST = int(os.environ.get("OUTCROP_FAULTS", "15"))
N, TILE = 300, 64
CHANCE = np.random.default_rng(8)
OLD, GIVEN = CHANCE.random((N, N)), CHANCE.random((N, N))


@oc.loops
def relaxed(a, b):  # type: ignore[no-untyped-def]
    for s in range(4):
        for i in range(1, a.shape[0] - 1):
            for j in range(1, a.shape[1] - 1):
                a[i, j] = 0.25 * (a[i - 1, j] + a[i, j - 1] + a[i + 1, j]) + s * b[i, j]


@pytest.fixture(scope="module")
def new() -> Any:
    expected, nest = OLD.copy(), relaxed.__wrapped__  # type: ignore[attr-defined]
    import numba

    numba.njit(error_model="numpy")(nest)(expected, GIVEN)
    return expected


class Bench:
    """A nest with little memory, in place of an array of ours."""

    def __init__(self, d: Path, outcome: Outcome, leftovers: Leftovers, verify: Verify) -> None:
        self.d, self.outcome, self.leftovers, self.verify = d, outcome, leftovers, verify
        self.scratch = d / "scratch"
        self.scratch.mkdir()
        oc.asarray(GIVEN).save(d / "b.zarr", tile=TILE)
        self.put_old()
        self.names = sorted(os.listdir(d))
        self.run()

    def put_old(self) -> None:
        oc.asarray(OLD).save(self.d / "a.zarr", tile=TILE, overwrite=True)

    def run(self, rule: str | None = None) -> oc.OutcropError | None:
        """The nest, under a fault."""

        def faulty() -> None:
            with (
                oc.config(memory="600KiB", scratch=self.scratch, threads=2),
                oc.open(self.d / "a.zarr", "r+") as a,
                oc.open(self.d / "b.zarr") as b,
            ):
                if rule is not None:
                    _native.inject_faults(rule)
                try:
                    relaxed(a, b)
                finally:
                    self.seen = _native.operations_seen() if rule is not None else 0
                    _native.inject_faults(None)

        return self.outcome(faulty)

    def check(self, new: Any, *, is_done: bool | None) -> None:
        """What is left; whether it is done, or either (None)."""
        if is_done is None:
            # A change that is decided is read where it lies, until somebody may write.
            self.is_whole(new)
            oc.open(self.d / "a.zarr", "r+").close()
        assert self.leftovers(self.d) == []
        assert sorted(os.listdir(self.d)) == self.names
        assert os.listdir(self.scratch) == []
        assert self.verify(self.d / "a.zarr") == self.verify(self.d / "b.zarr") == []
        assert is_done in (None, self.is_whole(new))

    def is_whole(self, new: Any) -> bool:
        """Whether the array is the new one; else it is the old one."""
        found = oc.open(self.d / "a.zarr").compute()
        done = np.array_equal(found, new)
        assert done or np.array_equal(found, OLD), "a mix"
        return done


@pytest.fixture
def bench(
    quick_dir: Path, outcome: Outcome, leftovers: Leftovers, verify: Verify
) -> Iterator[Bench]:
    return Bench(quick_dir, outcome, leftovers, verify)


def test_it_is_out_of_core(bench: Bench, new: Any) -> None:
    bench.put_old()
    assert bench.run() is None
    bench.check(new, is_done=True)
    with oc.config(memory="600KiB", threads=2):
        a = oc.open(bench.d / "a.zarr", "r+")
        plan = relaxed.plan(a, oc.open(bench.d / "b.zarr"))
        a.close()
    assert plan.peak_bytes <= 600 << 10 < OLD.nbytes
    assert plan.bytes_read >= OLD.nbytes + GIVEN.nbytes


@pytest.mark.parametrize("times", ["once", "always"])
def test_any_operation_fails(bench: Bench, new: Any, times: str) -> None:
    bench.put_old()
    assert bench.run("any:999999999:eio:once") is None
    count = bench.seen
    assert count > 40
    chance = random.Random(f"{SEED} {times}")
    print(f"OUTCROP_SEED={SEED}")
    failed = 0
    for nth in sorted(chance.sample(range(1, count + 1), min(MOST, count))):
        bench.put_old()
        error = bench.run(f"any:{nth}:eio:{times}")
        failed += error is not None
        bench.check(new, is_done=True if error is None else None)
    assert failed or times == "once"


@pytest.mark.parametrize("nth", [1, 10])
def test_a_full_disk(bench: Bench, new: Any, nth: int) -> None:
    bench.put_old()
    error = bench.run(f"write:{nth}:enospc:always")
    assert isinstance(error, oc.StorageFullError)
    bench.check(new, is_done=False)
    assert bench.run() is None
    bench.check(new, is_done=True)


# An interrupt may come before what has been opened can be closed, and goes with it then.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_ctrl_c(bench: Bench, new: Any) -> None:
    """At any moment."""
    budget = oc.config().memory
    bench.put_old()
    start = time.perf_counter()
    bench.run()
    duration = time.perf_counter() - start
    chance = random.Random(SEED)
    for _ in range(6):
        bench.put_old()
        timer = threading.Timer(chance.uniform(0, duration), os.kill, (os.getpid(), signal.SIGINT))
        try:
            timer.start()
            bench.run()
            timer.join()
        except KeyboardInterrupt:
            timer.join()
            # One that falls between the two steps of entering a `with` keeps its settings.
            oc.config(memory=budget)
        bench.check(new, is_done=None)
    bench.put_old()
    assert bench.run() is None
    bench.check(new, is_done=True)


KILLED = """
import sys
import outcrop as oc
from outcrop import _native
sys.path.insert(0, sys.argv[1])
from test_nests import relaxed
with oc.config(memory="600KiB", threads=2), oc.open("a.zarr", "r+") as a:
    _native.inject_faults(sys.argv[2])
    relaxed(a, oc.open("b.zarr"))
"""


def test_killed(bench: Bench, new: Any, loaded: Any, tmp_path: Path) -> None:
    """At steps of the commit, and before."""
    environment = {**os.environ, "OUTCROP_CACHE": str(tmp_path / "cache")}
    outcomes = set()
    for rule in ("write:3:kill:once", "rename:20:kill:once"):
        bench.put_old()
        where = Path(__file__).parent
        done = loaded.run(KILLED, where, rule, cwd=bench.d, env=environment)
        assert done.returncode == -signal.SIGKILL, done.stderr
        outcomes.add(bench.is_whole(new))
        bench.put_old()
        assert bench.run() is None
        bench.check(new, is_done=True)
    assert outcomes == {True, False}
