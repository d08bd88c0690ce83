"""Arrays that do not fit, and checks of what a movement leaves behind."""

import gc
import math
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import outcrop as oc
from outcrop import _native

Values = NDArray[Any]


class Desk:
    """A directory to work in."""

    def __init__(self, path: Path) -> None:
        self.path, self.scratch, self.fast = path, path / "scratch", path / "fast"
        self.scratch.mkdir()
        self.fast.mkdir()

    def values(self, shape: tuple[int, ...], dtype: str = "uint8") -> Values:
        """Elements, hardly any of which is like its neighbour."""
        chance = np.random.default_rng(math.prod(shape))
        kind = np.dtype(dtype)
        if kind.kind == "b":
            return chance.integers(0, 2, shape).astype(bool)
        if kind.kind in "iu":
            info = np.iinfo(kind)
            return chance.integers(info.min, info.max, shape, kind.newbyteorder("="), endpoint=True)
        real = chance.standard_normal(shape)
        whole = real + 1j * chance.standard_normal(shape) if kind.kind == "c" else real
        return whole.astype(kind.newbyteorder("="))

    def put(self, name: str, values: Values, **options: Any) -> Path:
        """Store values, in the format of the suffix."""
        path = self.path / name
        attributes = {"attributes": options.pop("attributes")} if "attributes" in options else {}
        with (
            oc.config(memory="64MiB"),
            oc.create(
                path, values.shape, values.dtype, overwrite=True, **attributes, **options
            ) as new,
        ):
            new[...] = values
        return path

    def read(self, array: oc.Array) -> Values:
        """All elements, whatever the budget."""
        with oc.config(memory="64MiB"):
            return array.compute()

    def check_run(self, operation: str = "transpose") -> None:
        """The last movement stayed inside the budget."""
        run = oc.last_run()
        assert run is not None
        assert run.operation == operation
        assert run.peak_bytes <= oc.config().memory

    def leftovers(self) -> list[str]:
        """What nobody has asked for: temporaries, and descriptors that are open on them."""
        gc.collect()
        found = [
            str(path)
            for path in self.path.rglob("*")
            if ".outcrop-" in path.name and path.name != ".outcrop-index"
        ]
        for descriptor in os.listdir("/proc/self/fd"):
            try:
                target = os.readlink(f"/proc/self/fd/{descriptor}")
            except OSError:
                continue
            if target.startswith(str(self.path)) and ".outcrop-" in target:
                found.append(target)
        return found + os.listdir(self.scratch) + os.listdir(self.fast)


@pytest.fixture(autouse=True, scope="module")
def _little_to_collect() -> Iterator[None]:
    """What is there before the tests need not be looked through after each of them."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """A desk in memory where that can be, as a sync costs nothing there; half a mebibyte."""
    shared = Path("/dev/shm")
    place = shared if os.access(shared, os.W_OK) else tmp_path
    with TemporaryDirectory(dir=place, prefix="outcrop-test-") as name:
        made = Desk(Path(name))
        with oc.config(memory="512KiB", scratch=made.scratch, threads=2):
            yield made
            assert made.leftovers() == []
            assert _native.status()["used"] == 0


@pytest.fixture
def tool() -> Callable[..., bytes]:
    """Run another program; skip the test where there is none."""

    def run(*command: Any) -> bytes:
        try:
            ended = subprocess.run(list(map(str, command)), capture_output=True, check=True)
        except FileNotFoundError:
            pytest.skip(f"{command[0]} is not installed")
        return ended.stdout

    return run
