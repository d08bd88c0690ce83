"""Injecting faults, and looking for what they must not leave behind."""

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import outcrop as oc
from outcrop import _native

pytestmark = pytest.mark.filterwarnings("ignore::outcrop.errors.OutcropWarning")

Inject = Callable[[str], AbstractContextManager[None]]
Outcome = Callable[[Callable[[], object]], oc.OutcropError | None]


@contextmanager
def _injected(specification: str) -> Iterator[None]:
    oc.config(memory="8MiB")
    _native.inject_faults(specification)
    try:
        yield
    finally:
        _native.inject_faults(None)


@pytest.fixture
def inject() -> Inject:
    """Fail operations as a specification says: ``with inject("read:3:eio:once"): ...``."""
    return _injected


@pytest.fixture(autouse=True)
def _own_settings() -> Iterator[None]:
    gc.collect()
    # What is there already is not looked through after each fault.
    gc.freeze()
    with oc.config(memory="8MiB"):
        yield
    gc.unfreeze()
    gc.collect()


def _outcome(work: Callable[[], object]) -> oc.OutcropError | None:
    """Run something; give back the typed error that it ended in, without what it refers to."""
    try:
        work()
    except oc.OutcropError as error:
        return error.with_traceback(None)
    finally:
        gc.collect()
    return None


@pytest.fixture
def outcome() -> Outcome:
    return _outcome


@pytest.fixture
def quick_dir(tmp_path: Path) -> Iterator[Path]:
    """A directory in memory where there is one: a sync costs nothing there."""
    shared = Path("/dev/shm")
    if os.access(shared, os.W_OK):
        with TemporaryDirectory(dir=shared, prefix="outcrop-test-") as name:
            yield Path(name)
    else:
        yield tmp_path


def _leftovers(directory: Path) -> list[str]:
    """Temporary files, and descriptors open on anything below the directory."""
    found = [
        str(path)
        for path in directory.rglob("*")
        if path.name.endswith((".outcrop-new", ".new", ".old")) or path.name == ".outcrop-update"
    ]
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{descriptor}")
        except OSError:
            continue
        if target.startswith(str(directory)):
            found.append(f"descriptor {descriptor}: {target}")
    return found


@pytest.fixture
def leftovers() -> Callable[[Path], list[str]]:
    return _leftovers


@pytest.fixture
def verify() -> Callable[[Path], list[str]]:
    """Check every checksum of an array on disk."""

    def check(path: Path) -> list[str]:
        if path.parent.is_file() or path.parent.parent.is_file():
            # It is inside of an HDF5 file, which others read the metadata of.
            return oc.open(path)._source.verify(False, None)
        store = _native.open(str(path), "r", None, None, None, 0, "C")
        return store.verify(False, None)

    return check
