"""Computing with little memory, and checking after every run what it moved and what it left."""

import functools
import gc
import itertools
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

import outcrop as oc
from outcrop import _native

Values: TypeAlias = NDArray[Any]

_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Iterator[pytest.TestReport]:
    report = yield
    if report.failed:
        item.stash[_FAILED] = True
    return report


def named_budget(error: oc.BudgetError) -> int:
    """The least budget that the message names, and the error has."""
    named = re.search(r"the least that works is (\d+) bytes", str(error))
    assert named, str(error)
    assert error.needed == int(named[1])
    return error.needed


def other_descriptors() -> int:
    """Open descriptors, without the rings of which each thread that works keeps one."""
    count = 0
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            count += "io_uring" not in os.readlink(f"/proc/self/fd/{descriptor}")
    return count


def descriptors_below(directory: Path) -> list[str]:
    """The open files below a directory."""
    found = []
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{descriptor}")
        except OSError:
            continue
        if target.startswith(str(directory)):
            found.append(target)
    return found


class Desk:
    """A directory to work in, with a scratch directory."""

    def __init__(self, path: Path) -> None:
        self.path, self.scratch = path, path / "scratch"
        self.scratch.mkdir()
        self._count = itertools.count()
        self._descriptors = other_descriptors()

    def new(self, suffix: str = ".zarr") -> Path:
        """A path where nothing is."""
        return self.path / f"{next(self._count)}{suffix}"

    def put(self, values: Any, tile: int | tuple[int, ...] = 32, **options: Any) -> oc.Array:
        """Store values."""
        return oc.asarray(np.asarray(values)).save(self.new(), tile=tile, **options)

    def read(self, array: oc.Array) -> Values:
        """All elements, whatever the budget."""
        out = np.empty(array.shape, array.dtype)
        for key, block in array.tiles():
            out[key] = block
        return out

    def save(self, x: oc.Array, suffix: str = ".zarr", **options: Any) -> oc.Array:
        """Compute to disk, and check what was moved and left behind.

        What is planned is what happens for a new Zarr array with tiles of the core's choice.
        """
        path = self.new(suffix)
        before = set(os.listdir(self.path))
        plan = None
        if suffix == ".zarr" and not options:
            plan = oc.plan(x, path)
        saved = x.save(path, **options)
        run = oc.last_run()
        assert run is not None
        assert run.peak_bytes <= oc.config().memory
        if plan is not None:
            assert plan.operation == run.operation
            assert (run.bytes_read, run.bytes_written) == (plan.bytes_read, plan.bytes_written)
        assert set(os.listdir(self.path)) == before | {path.name}
        assert (saved.shape, saved.dtype) == (x.shape, x.dtype)
        assert [name for name in descriptors_below(self.path) if ".outcrop-new" in name] == []
        return saved

    def run(self, x: oc.Array, suffix: str = ".zarr", **options: Any) -> Values:
        """Compute to disk with all the checks, and give the values."""
        saved = self.save(x, suffix, **options)
        path = saved.path
        assert path is not None
        try:
            return self.read(saved)
        finally:
            saved.close()
            del saved
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def afford(self, x: oc.Array, suffix: str = ".zarr", **options: Any) -> Values:
        """Compute as `run` does; where memory is too small, with the least that the error names.

        Of products that are expressions, that is the least for tiles of this size, and with more
        memory they may be larger.
        """
        least = oc.config().memory
        for _ in range(4):
            try:
                with oc.config(memory=least):
                    return self.run(x, suffix, **options)
            except oc.BudgetError as error:
                named = named_budget(error)
            assert least < named <= 12 << 20
            least = named
        with oc.config(memory=least):
            return self.run(x, suffix, **options)

    def check_nothing_left(self) -> None:
        """To be called when no array is referred to any more."""
        gc.collect()
        assert _native.status()["used"] == 0
        assert os.listdir(self.scratch) == []
        # One scratch file, which has no name, may be kept for the next computation.
        below = descriptors_below(self.path)
        unnamed = [name for name in below if name.startswith(f"{self.scratch}/#")]
        assert len(unnamed) == (_native.status()["scratch_held"] > 0)
        assert [name for name in below if name not in unnamed] == []
        assert len(descriptors_below(self.path)) <= 1
        left = [p for p in self.path.rglob("*") if ".outcrop-" in p.name]
        assert [p for p in left if p.name != ".outcrop-index"] == []
        assert other_descriptors() <= self._descriptors + 4
        assert len(os.listdir("/proc/self/fd")) <= self._descriptors + 64


@pytest.fixture(autouse=True, scope="module")
def _little_to_collect() -> Iterator[None]:
    """What is there before the tests need not be looked through after each of them."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Desk]:
    """A desk with half a mebibyte of memory, in a directory where a sync costs nothing."""
    shared = Path("/dev/shm")
    place = shared if os.access(shared, os.W_OK) else tmp_path
    with TemporaryDirectory(dir=place, prefix="outcrop-test-") as name:
        made = Desk(Path(name))
        with oc.config(memory="512KiB", scratch=made.scratch, threads=2):
            yield made
            if not request.node.stash.get(_FAILED, False):
                made.check_nothing_left()


def _random(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Values:
    chance = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return chance.integers(0, 2, shape).astype(bool)
    if kind.kind in "iu":
        info = np.iinfo(dtype)
        return chance.integers(info.min, info.max, shape, dtype, endpoint=True)
    real = chance.standard_normal(shape)
    return (real + 1j * chance.standard_normal(shape) if kind.kind == "c" else real).astype(dtype)


@pytest.fixture
def random() -> Callable[..., Values]:
    """Make values: ``random(shape, dtype, seed=0)``."""
    return _random


@functools.cache
def _kept(n: int, dtype: str, kind: str = "random", seed: int = 0) -> Values:
    """A Hermitian matrix that stays positive definite in its own precision."""
    chance = np.random.default_rng(seed)
    single = np.finfo(dtype).eps > 1e-10
    complex_ = np.dtype(dtype).kind == "c"

    def normal(*shape: int) -> Values:
        real = chance.standard_normal(shape)
        return real + 1j * chance.standard_normal(shape) if complex_ else real

    if kind == "spectrum":
        q, _ = np.linalg.qr(normal(n, n))
        a = (q * np.logspace(0, -4 if single else -8, n)) @ q.conj().T
    elif kind == "shifted":
        m = normal(n, n // 3)
        a = m @ m.conj().T + (1e-2 if single else 1e-6) * np.eye(n)
    else:
        m = normal(n, n)
        a = m @ m.conj().T / max(n, 1) + np.eye(n)
    if kind == "graded":
        d = np.logspace(-8, 8, n) if single else np.logspace(-60, 60, n)
        d = chance.permutation(d)
        a = a * d[:, None] * d
    power = {"tiny": -1, "huge": 1}.get(kind, 0) * (15 if single else 150)
    a = a * 10.0**power
    a = (a + a.conj().T) / 2
    return a.astype(dtype)


def _positive_definite(n: int, dtype: str, kind: str = "random", seed: int = 0) -> Values:
    return _kept(n, dtype, kind, seed).copy()


@pytest.fixture
def positive_definite() -> Callable[..., Values]:
    """Make a matrix: ``positive_definite(n, dtype, kind="random", seed=0)``."""
    return _positive_definite
