"""Every operation on files fails in turn while something is computed, once and for good.

After each fault there is either the right result or a typed error; the operands are as they were;
nothing is left behind, neither of the result nor in the scratch directory; and the next run is
right.
"""

import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pytest

import outcrop as oc
from outcrop import _native

Inject = Callable[[str], AbstractContextManager[None]]
Outcome = Callable[[Callable[[], object]], oc.OutcropError | None]
Leftovers = Callable[[Path], list[str]]
Verify = Callable[[Path], list[str]]

pytestmark = pytest.mark.filterwarnings("ignore::outcrop.errors.OutcropWarning")

SEED = int(os.environ.get("OUTCROP_SEED", "0")) or random.SystemRandom().randrange(2**32)
MOST = int(os.environ.get("OUTCROP_FAULTS", "15"))
"""Faults per workload and manner; more operations than that are sampled."""

N, TILE = 300, 64
CHANCE = np.random.default_rng(8)
FACTOR = CHANCE.standard_normal((N, N))
MATRIX = FACTOR @ FACTOR.T / N + np.eye(N)
GIVEN = CHANCE.standard_normal((N, 150))


def cholesky(d: Path) -> oc.Array:
    return oc.linalg.cholesky(oc.open(d / "a.zarr"))


def solve(d: Path) -> oc.Array:
    return oc.linalg.solve(oc.open(d / "a.zarr"), oc.open(d / "b.zarr"), assume="pos")


def matmul(d: Path) -> oc.Array:
    return oc.open(d / "a.zarr") @ oc.open(d / "b.zarr")


def stepped(d: Path) -> oc.Array:
    """With a copy of the operand in the scratch directory."""
    return oc.open(d / "a.zarr")[::-1] @ oc.open(d / "b.zarr")


def chained(d: Path) -> oc.Array:
    """With a result of which the next takes."""
    a = oc.open(d / "a.zarr")
    return oc.linalg.solve_triangular(oc.linalg.cholesky(a), oc.open(d / "b.zarr"), lower=True)


def swept(d: Path) -> oc.Array:
    """With more sweeps than memory holds in flight."""
    b = oc.open(d / "b.zarr")
    return oc.sweeps.jacobi(b, b, sweeps=6)


def plainly_swept(b: np.ndarray) -> np.ndarray:
    f = b
    for _ in range(6):
        new = b.copy()
        new[1:-1, 1:-1] = 0.25 * (
            b[:-2, 1:-1] + b[2:, 1:-1] + b[1:-1, :-2] + b[1:-1, 2:] - f[1:-1, 1:-1]
        )
        b = new
    return b


WORK: dict[Callable[[Path], oc.Array], np.ndarray] = {
    cholesky: np.linalg.cholesky(MATRIX),
    solve: np.linalg.solve(MATRIX, GIVEN),
    matmul: MATRIX @ GIVEN,
    stepped: MATRIX[::-1] @ GIVEN,
    chained: np.linalg.solve(np.linalg.cholesky(MATRIX), GIVEN),
    swept: plainly_swept(GIVEN),
}
each_work = pytest.mark.parametrize("work", WORK, ids=lambda w: w.__name__)


class Bench:
    """Operands that faults must not hurt, and little memory."""

    def __init__(self, d: Path, outcome: Outcome, leftovers: Leftovers, verify: Verify) -> None:
        self.d, self.outcome, self.leftovers, self.verify = d, outcome, leftovers, verify
        self.scratch = d / "scratch"
        self.scratch.mkdir()
        oc.asarray(MATRIX).save(d / "a.zarr", tile=TILE)
        oc.asarray(GIVEN).save(d / "b.zarr", tile=TILE)
        self.names = sorted(os.listdir(d))
        self.memory = 600 << 10
        self.out = d / "out.zarr"

    def compute(self, work: Callable[[Path], oc.Array]) -> oc.Run | None:
        """Without anything in memory before."""
        with oc.config(memory=self.memory, scratch=self.scratch, threads=2):
            work(self.d).save(self.out)
            return oc.last_run()

    def count(self, work: Callable[[Path], oc.Array]) -> int:
        """The number of operations that the work takes."""
        _native.inject_faults("any:999999999:eio:once")
        try:
            self.compute(work)
            seen = _native.operations_seen()
        finally:
            _native.inject_faults(None)
        self.check(work, None)
        return seen

    def run(self, work: Callable[[Path], oc.Array], rule: str) -> oc.OutcropError | None:
        """Compute under a fault, and check what is left."""

        def faulty() -> None:
            with oc.config(memory=self.memory, scratch=self.scratch, threads=2):
                _native.inject_faults(rule)
                try:
                    work(self.d).save(self.out)
                finally:
                    _native.inject_faults(None)

        error = self.outcome(faulty)
        try:
            self.check(work, error)
        except BaseException as failed:
            failed.add_note(f"{work.__name__} under {rule}, which ended in {error!r}")
            raise
        return error

    def check(self, work: Callable[[Path], oc.Array], error: oc.OutcropError | None) -> None:
        out = self.out
        assert _native.status()["used"] == 0
        # What could not be removed is not what is looked for; the next run removes it.
        hidden = {f".{out.name}.outcrop-new"}
        assert not {Path(f).name for f in self.leftovers(self.d)} - hidden
        assert set(os.listdir(self.d)) - hidden - {out.name} == set(self.names)
        assert os.listdir(self.scratch) == []
        for name in ("a.zarr", "b.zarr"):
            assert self.verify(self.d / name) == []
        if error is None or out.exists():
            assert self.verify(out) == []
            np.testing.assert_allclose(oc.open(out).compute(), WORK[work], rtol=1e-9, atol=1e-11)
            shutil.rmtree(out) if out.is_dir() else out.unlink()
        if error is not None:
            self.compute(work)
            self.check(work, None)
            assert set(os.listdir(self.d)) == set(self.names)


@pytest.fixture
def bench(
    quick_dir: Path, outcome: Outcome, leftovers: Leftovers, verify: Verify
) -> Iterator[Bench]:
    before = len(os.listdir("/proc/self/fd"))
    made = Bench(quick_dir, outcome, leftovers, verify)
    yield made
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
def test_any_operation_fails(bench: Bench, work: Callable[[Path], oc.Array], times: str) -> None:
    count = bench.count(work)
    assert count >= 40
    failures = 0
    # Of one kind of work, each and every operation.
    every = range(1, count + 1)
    for nth in every if work is cholesky else sample(count, f"{work.__name__} {times}"):
        failures += bench.run(work, f"any:{nth}:eio:{times}") is not None
    if times == "always":
        assert failures > 0


@pytest.mark.parametrize("times", ["once", "always"])
def test_any_operation_fails_on_the_way_to_a_flat_file(bench: Bench, times: str) -> None:
    """Computed to tiles in the scratch directory, and copied from there."""
    bench.out = bench.d / "out.npy"
    for nth in sample(bench.count(matmul), f"flat {times}"):
        bench.run(matmul, f"any:{nth}:eio:{times}")


@each_work
def test_it_really_is_out_of_core(bench: Bench, work: Callable[[Path], oc.Array]) -> None:
    """Else faults would test less than they seem to."""
    run = bench.compute(work)
    assert run is not None
    assert run.peak_bytes <= bench.memory
    assert run.bytes_read > MATRIX.nbytes // 2
    bench.check(work, None)
    if work is solve:
        with oc.config(memory=bench.memory, scratch=bench.scratch, threads=2):
            assert oc.plan(work(bench.d)).scratch_bytes > 0


@pytest.mark.parametrize("operation", ["read", "write", "open", "create", "allocate", "rename"])
@pytest.mark.parametrize("work", [cholesky, solve], ids=lambda w: w.__name__)
def test_each_kind_of_operation_fails(
    bench: Bench, work: Callable[[Path], oc.Array], operation: str
) -> None:
    action = {"open": "emfile", "create": "emfile", "allocate": "enospc"}.get(operation, "eio")
    for nth in (1, 2, 20):
        for times in ("once", "always"):
            error = bench.run(work, f"{operation}:{nth}:{action}:{times}")
            if error is not None:
                assert isinstance(error, oc.StorageError | oc.StorageFullError)


@pytest.mark.parametrize("work", [cholesky, solve], ids=lambda w: w.__name__)
def test_a_sync_that_fails_is_final(bench: Bench, work: Callable[[Path], oc.Array]) -> None:
    """What may not be durable is not shown."""
    error = bench.run(work, "sync:1:eio:once")
    assert isinstance(error, oc.StorageError)


@pytest.mark.parametrize("work", [cholesky, solve], ids=lambda w: w.__name__)
def test_what_is_cut_short_goes_on(bench: Bench, work: Callable[[Path], oc.Array]) -> None:
    for operation in ("read", "write"):
        for action in ("eintr", "eagain", "short=100", "short=5000", "delay=1", "reorder=3"):
            for nth in (1, 30):
                assert bench.run(work, f"{operation}:{nth}:{action}:once") is None
    for rule in ("read:1:short=5000", "write:1:short=5000", "write:1:reorder=5"):
        assert bench.run(work, f"{rule}:always") is None


@pytest.mark.parametrize("action", ["enospc", "edquot"])
@pytest.mark.parametrize("work", [cholesky, solve], ids=lambda w: w.__name__)
def test_a_full_disk(bench: Bench, work: Callable[[Path], oc.Array], action: str) -> None:
    for nth in (1, 3, 10):
        for times in ("once", "always"):
            error = bench.run(work, f"write:{nth}:{action}:{times}")
            assert isinstance(error, oc.StorageFullError), (nth, times)
