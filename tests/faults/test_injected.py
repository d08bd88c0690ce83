"""Every operation on files fails in turn, once and for good.

After each fault there is either the right result or a typed error; what was there before is as it
was; nothing is left behind; and the process goes on working.
"""

import errno
import os
import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import outcrop as oc
from outcrop import _native

Inject = Callable[[str], AbstractContextManager[None]]
Outcome = Callable[[Callable[[], object]], oc.OutcropError | None]
Leftovers = Callable[[Path], list[str]]
Verify = Callable[[Path], list[str]]

pytestmark = pytest.mark.filterwarnings("ignore::outcrop.errors.OutcropWarning")

SHAPE = (90, 70)
OLD = np.random.default_rng(1).random(SHAPE)
NEW = np.random.default_rng(2).random(SHAPE)
UPDATED = OLD.copy()
UPDATED[10:60, 3:50] = NEW[10:60, 3:50]
UPDATED[::7, 69] = -1
PARTS = NEW.copy()
PARTS[5:20, 65:] = 7

SEED = int(os.environ.get("OUTCROP_SEED", "0")) or random.SystemRandom().randrange(2**32)
MOST = int(os.environ.get("OUTCROP_FAULTS", "20"))
"""Faults per workload and manner; more operations than that are sampled."""


def create(d: Path) -> None:
    with oc.create(d / "out.zarr", SHAPE, tile=(33, 25)) as array:
        array[:33] = NEW[:33]
        array[33:] = NEW[33:]
        array[5:20, 65:] = 7


def retile(d: Path) -> None:
    oc.open(d / "old.zarr").save(d / "out.zarr", tile=(41, 16))


def to_npy(d: Path) -> None:
    oc.open(d / "old.zarr").save(d / "out.npy", order="F")


def from_npy(d: Path) -> None:
    oc.open(d / "old.npy").save(d / "out.zarr", tile=(20, 70))


def replace(d: Path) -> None:
    oc.open(d / "old.npy").save(d / "changed.zarr", tile=(20, 70), overwrite=True)


def strided(d: Path) -> None:
    oc.open(d / "old.zarr")[::-3, 1::2].save(d / "out.npy")


def to_hdf5(d: Path) -> None:
    oc.open(d / "old.zarr").save(d / "out.h5/g/x")


def into_hdf5(d: Path) -> None:
    oc.open(d / "old.npy").save(d / "held.h5/x")


def update(d: Path) -> None:
    with oc.open(d / "changed.zarr", "r+") as array:
        array[10:60, 3:50] = NEW[10:60, 3:50]
        array[::7, 69] = -1


def read(d: Path) -> None:
    np.testing.assert_array_equal(oc.open(d / "old.zarr").compute(), OLD)
    np.testing.assert_array_equal(
        oc.open(d / "old.zarr")[40:80:3, 60:].compute(), OLD[40:80:3, 60:]
    )
    np.testing.assert_array_equal(oc.open(d / "old.npy")[:, 11].compute(), OLD[:, 11])


WORK: dict[Callable[[Path], None], tuple[str, np.ndarray]] = {
    create: ("out.zarr", PARTS),
    retile: ("out.zarr", OLD),
    to_npy: ("out.npy", OLD),
    from_npy: ("out.zarr", OLD),
    replace: ("changed.zarr", OLD),
    strided: ("out.npy", OLD[::-3, 1::2]),
    to_hdf5: ("out.h5/g/x", OLD),
    into_hdf5: ("held.h5/x", OLD),
    update: ("changed.zarr", UPDATED),
    read: ("old.zarr", OLD),
}
each_work = pytest.mark.parametrize("work", WORK, ids=lambda w: w.__name__)


class Bench:
    """A directory with arrays that faults must not hurt."""

    replacing = False

    def __init__(
        self, d: Path, inject: Inject, outcome: Outcome, leftovers: Leftovers, verify: Verify
    ) -> None:
        self.d, self.inject, self.outcome = d, inject, outcome
        self.leftovers, self.verify = leftovers, verify
        oc.asarray(OLD).save(d / "old.zarr", tile=(33, 25))
        oc.asarray(OLD).save(d / "old.npy")
        self.renew()

    def renew(self) -> None:
        """The state before the work."""
        for name in ("out.zarr", "out.npy", "out.h5", "held.h5"):
            self._remove(name)
        oc.asarray(NEW).save(self.d / "held.h5/kept")
        oc.asarray(NEW if self.replacing else OLD).save(
            self.d / "changed.zarr", tile=(33, 25), overwrite=True
        )

    def _remove(self, name: str) -> None:
        path = self.d / name
        if path.is_dir():
            for below in sorted(path.rglob("*"), reverse=True):
                below.rmdir() if below.is_dir() else below.unlink()
            path.rmdir()
        else:
            path.unlink(missing_ok=True)

    counted: ClassVar[dict[tuple[str, str], int]] = {}

    def count(self, work: Callable[[Path], None], kind: str = "any") -> int:
        """The number of operations that the work takes."""
        key = (work.__name__, kind)
        if key not in self.counted:
            self.counted[key] = self._count(work, kind)
        return self.counted[key]

    def _count(self, work: Callable[[Path], None], kind: str) -> int:
        self.replacing = work is replace
        self.renew()
        if kind == "any":
            with self.inject("any:999999999:eio:once"):
                work(self.d)
                seen = _native.operations_seen()
            self.check(work, None)
        else:
            # Rules count their own kind: the first that no longer hits is one too many.
            low, high = 0, 1
            while self._hits(work, kind, high):
                low, high = high, high * 2
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if self._hits(work, kind, middle) else (low, middle)
            seen = low
        self.renew()
        return seen

    def _hits(self, work: Callable[[Path], None], kind: str, nth: int) -> bool:
        self.renew()
        with self.inject(f"{kind}:{nth}:emfile:always"):
            return self.outcome(lambda: work(self.d)) is not None

    def run(self, work: Callable[[Path], None], rule: str) -> oc.OutcropError | None:
        """Do the work under a fault, and check what is left."""
        self.replacing = work is replace
        self.renew()
        with self.inject(rule):
            error = self.outcome(lambda: work(self.d))
        try:
            self.check(work, error, always=rule.endswith("always"))
        except BaseException as failed:
            failed.add_note(f"{work.__name__} under {rule}, which ended in {error!r}")
            raise
        return error

    def check(
        self, work: Callable[[Path], None], error: BaseException | None, always: bool = False
    ) -> None:
        name, expected = WORK[work]
        target = self.d / name
        assert _native.status()["used"] == 0
        # A failed removal leaves something behind, which is not what is looked for here.
        ignored = {f".{name.partition('/')[0]}.outcrop-new", ".outcrop-update"}
        found = [f for f in self.leftovers(self.d) if Path(f).name not in ignored]
        assert found == []
        np.testing.assert_array_equal(oc.open(self.d / "held.h5/kept").compute(), NEW)
        for old in ("old.zarr", "old.npy"):
            assert self.verify(self.d / old) == []
            np.testing.assert_array_equal(oc.open(self.d / old).compute(), OLD)
        if error is None:
            assert self.verify(target) == []
            np.testing.assert_array_equal(oc.open(target).compute(), expected)
        elif target.exists():
            # Whole, whatever it is.
            assert self.verify(target) == []
            before = NEW if work is replace else OLD if work is update else expected
            now = oc.open(target).compute()
            assert np.array_equal(now, before) or np.array_equal(now, expected)
        # The next run works, and leaves nothing.
        self.renew()
        work(self.d)
        assert self.leftovers(self.d) == []
        np.testing.assert_array_equal(oc.open(target).compute(), expected)
        assert _native.status()["used"] == 0


@pytest.fixture
def bench(
    quick_dir: Path, inject: Inject, outcome: Outcome, leftovers: Leftovers, verify: Verify
) -> Iterator[Bench]:
    before = len(os.listdir("/proc/self/fd"))
    yield Bench(quick_dir, inject, outcome, leftovers, verify)
    # A few rings are kept; descriptors do not grow with the number of faults.
    assert len(os.listdir("/proc/self/fd")) <= before + 16


def sample(count: int, label: str) -> list[int]:
    """All of 1 .. count, or an evenly spaced choice of them."""
    if count <= MOST:
        return list(range(1, count + 1))
    step = count / MOST
    shift = random.Random(f"{SEED} {label}").random()
    chosen = sorted({1 + int((i + shift) * step) for i in range(MOST)})
    print(f"{label}: {len(chosen)} of {count} operations, OUTCROP_SEED={SEED}")
    return [n for n in chosen if n <= count]


@each_work
@pytest.mark.parametrize("times", ["once", "always"])
def test_any_operation_fails(bench: Bench, work: Callable[[Path], None], times: str) -> None:
    count = bench.count(work)
    assert count >= 8
    failures = 0
    for nth in sample(count, f"{work.__name__} {times}"):
        failures += bench.run(work, f"any:{nth}:eio:{times}") is not None
    if times == "always":
        assert failures > 0


@each_work
def test_a_read_that_fails_once_is_repeated(bench: Bench, work: Callable[[Path], None]) -> None:
    actions = ("eio", "eintr", "eagain", "short=100", "short=5000")
    for nth in sample(bench.count(work, "read"), f"{work.__name__} read"):
        assert bench.run(work, f"read:{nth}:{actions[nth % 5]}:once") is None
    for action in actions:
        assert bench.run(work, f"read:1:{action}:once") is None
    assert bench.run(work, "read:1:short=5000:always") is None


@each_work
def test_a_read_that_fails_for_good_is_an_error(bench: Bench, work: Callable[[Path], None]) -> None:
    count = bench.count(work, "read")
    for nth in sample(count, f"{work.__name__} read for good")[:: max(count // 10, 1)]:
        error = bench.run(work, f"read:{nth}:eio:always")
        assert isinstance(error, oc.StorageError)
        assert error.errno == errno.EIO
        assert str(bench.d) in str(error)


@each_work
def test_a_write_that_is_cut_short_goes_on(bench: Bench, work: Callable[[Path], None]) -> None:
    for nth in sample(bench.count(work, "write"), f"{work.__name__} write")[::5]:
        for action in ("eintr", "eagain", "short=100", "short=5000", "delay=1", "reorder=3"):
            assert bench.run(work, f"write:{nth}:{action}:once") is None
    for action in ("short=5000", "reorder=5"):
        assert bench.run(work, f"write:1:{action}:always") is None


@each_work
def test_a_write_of_nothing_is_an_error(bench: Bench, work: Callable[[Path], None]) -> None:
    count = bench.count(work, "write")
    # One alone, since others would be an error by themselves: of tiles, of ends, of small files.
    for nth in sample(count, f"{work.__name__} zero"):
        error = bench.run(work, f"write:{nth}:zero:once")
        assert isinstance(error, oc.StorageError), nth
    if count:
        error = bench.run(work, "write:1:zero:always")
        assert isinstance(error, oc.StorageError), error
        assert "write" in str(error) or "durable" in str(error)
        with bench.inject("write:1:zero:always"):
            bench.outcome(lambda: work(bench.d))
            # Not asked again and again.
            assert _native.operations_seen() < 300
        bench.renew()


@each_work
@pytest.mark.parametrize("action", ["enospc", "edquot"])
@pytest.mark.parametrize("operation", ["write", "allocate"])
def test_a_full_disk(
    bench: Bench, work: Callable[[Path], None], operation: str, action: str
) -> None:
    count = bench.count(work, operation)
    for nth in sample(count, f"{work.__name__} {operation} {action}")[::7]:
        for times in ("once", "always"):
            error = bench.run(work, f"{operation}:{nth}:{action}:{times}")
            assert isinstance(error, oc.StorageFullError)
            assert "bytes are needed" in str(error)


@each_work
def test_a_file_that_may_not_grow_in_mid_write(bench: Bench, work: Callable[[Path], None]) -> None:
    """Space is allocated before, which is refused first, where a file system can do that."""
    for nth in sample(bench.count(work, "write"), f"{work.__name__} efbig")[::3]:
        for times in ("once", "always"):
            error = bench.run(work, f"write:{nth}:efbig:{times}")
            assert isinstance(error, oc.StorageFullError)
            assert error.errno == errno.EFBIG


@each_work
def test_a_failed_sync_is_final(bench: Bench, work: Callable[[Path], None]) -> None:
    for nth in range(1, bench.count(work, "sync") + 1):
        error = bench.run(work, f"sync:{nth}:eio:once")
        assert isinstance(error, oc.StorageError), nth
        assert "durable" in str(error) or "write" in str(error)


def test_an_unfinished_array_survives_a_failed_assignment(bench: Bench) -> None:
    """The fault is over, and the writer goes on."""
    d = bench.d
    with oc.create(d / "out.zarr", SHAPE, tile=(33, 25)) as array:
        array[...] = OLD
        with bench.inject("write:1:enospc:always"), pytest.raises(oc.StorageFullError):
            array[...] = NEW
        array[...] = PARTS
    np.testing.assert_array_equal(oc.open(d / "out.zarr").compute(), PARTS)
    assert bench.verify(d / "out.zarr") == []
