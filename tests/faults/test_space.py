"""Space: what is refused beforehand, and what is held afterwards.

A result, other results and scratch on one file system are checked together. Scratch goes with the
run that fails, and what a killed process left of it goes with the next one.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import outcrop as oc
from outcrop import _native

pytestmark = pytest.mark.filterwarnings("ignore::outcrop.errors.OutcropWarning")

N = 1024
NBYTES = N * N * 8


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Mounts a file system of so many MiB."""
    places: list[Path] = []

    def mounted(mebibytes: int) -> Path:
        place = tmp_path / f"small-{len(places)}"
        place.mkdir()
        options = f"size={mebibytes}m"
        command = ["mount", "-t", "tmpfs", "-o", options, "outcrop-test", str(place)]
        if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
            pytest.skip("a file system cannot be mounted here")
        places.append(place)
        return place

    yield mounted
    for place in places:
        subprocess.run(["umount", "-l", str(place)], check=True)


def free(place: Path) -> int:
    return shutil.disk_usage(place).free


@pytest.fixture(scope="module")
def operands(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("operands")
    rng = np.random.default_rng(5)
    a = rng.random((N, N))
    oc.asarray(a + a.T + 2 * N * np.eye(N)).save(place / "a.zarr", tile=256)
    a[:] = 2 * N * np.eye(N)
    # Not positive definite, which comes out late: at the last diagonal block.
    a[-1, -1] = -1
    oc.asarray(a).save(place / "spoilt.zarr", tile=256)
    oc.asarray(rng.random((N, N))).save(place / "b.zarr", tile=256)
    return place


def solution(operands: Path) -> oc.Array:
    """Its factor is a temporary of as many bytes as the result, and lies in scratch."""
    a, b = oc.open(operands / "a.zarr"), oc.open(operands / "b.zarr")
    return oc.linalg.solve(a, b, assume="pos")


@pytest.mark.parametrize("name", ["x.zarr", "x.npy"])
def test_result_and_scratch_on_one_file_system(
    disk: Callable[[int], Path], operands: Path, name: str
) -> None:
    """Each alone would fit."""
    small = disk(12)
    before = free(small)
    with oc.config(memory="4MiB", scratch=small):
        plan = oc.plan(solution(operands), small / name)
        assert plan.scratch_bytes > 4 << 20, plan.explain()
        # A file gets its result from tiles in scratch, too.
        assert plan.scratch_bytes < before or name.endswith(".npy")
        last = str(oc.last_run())
        with pytest.raises(
            oc.StorageFullError, match=r"\d+ bytes are needed, \d+ are free"
        ) as full:
            solution(operands).save(small / name)
        # Of scratch, the directory, or what would lie in it.
        assert str(full.value).startswith(str(small)), full.value
        assert str(small / name) in str(full.value), full.value
        assert str(oc.last_run()) == last
        assert list(small.iterdir()) == []
        assert free(small) == before
        assert oc.config().scratch_held == 0
        # Where there is room for both, they are made.
        large = disk(32)
        with oc.config(scratch=large):
            solution(operands).save(large / name)


def test_results_on_one_file_system(disk: Callable[[int], Path]) -> None:
    """Each alone would fit, and nothing is computed."""
    small = disk(12)
    before = free(small)
    calls: list[int] = []

    def function(i: np.ndarray, j: np.ndarray) -> np.ndarray:
        calls.append(1)
        result: np.ndarray = i + j * 1.0
        return result

    made = oc.fromfunction(function, (N, N), "float64")
    for names in [("a.zarr", "b.zarr"), ("a.zarr", "b.npy"), ("a.npy", "b.zarr")]:
        with pytest.raises(oc.StorageFullError) as full:
            oc.save({small / name: made + k for k, name in enumerate(names)})
        assert all(str(small / name) in str(full.value) for name in names), full.value
        assert not calls
        assert list(small.iterdir()) == []
        assert free(small) == before
    # What is promised to one that was given up is free again.
    array = oc.create(small / "c.zarr", (N, N))
    with pytest.raises(oc.StorageFullError, match=r"c\.zarr"):
        oc.create(small / "d.zarr", (N, N))
    array[:] = 1
    array.close()
    oc.create(small / "e.zarr", (N // 4, N)).abort()


def test_no_space_is_held_after_a_run_that_fails(
    disk: Callable[[int], Path], operands: Path, tmp_path: Path
) -> None:
    """The process lives on."""
    scratch = disk(64)
    before = free(scratch)
    b = oc.open(operands / "b.zarr")
    with oc.config(memory="4MiB", scratch=scratch):
        for _ in range(2):
            with pytest.raises(oc.NotPositiveDefiniteError):
                oc.linalg.solve(oc.open(operands / "spoilt.zarr"), b, assume="pos").save(
                    tmp_path / "x.zarr", overwrite=True
                )
            assert free(scratch) == before
            # After one that succeeds, what is held is told, and no more than a quarter.
            solution(operands).save(tmp_path / "x.zarr", overwrite=True)
            held = oc.config().scratch_held
            assert 0 < held <= before // 4
            assert before - free(scratch) == held
        _native.inject_faults("write:3:eio:always")
        with pytest.raises(oc.StorageError):
            solution(operands).save(tmp_path / "x.zarr", overwrite=True)
        _native.inject_faults(None)
        assert (free(scratch), oc.config().scratch_held) == (before, 0)
        # Held space is in nobody's way.
        solution(operands).save(tmp_path / "x.zarr", overwrite=True)
        assert oc.config().scratch_held > 0
        rows = (before - (1 << 20)) // (N * 8)
        oc.fromfunction(lambda i, j: i + j, (rows, N), "int64").save(scratch / "large.npy")
        assert oc.config().scratch_held == 0
        (scratch / "large.npy").unlink()
        solution(operands).save(tmp_path / "x.zarr", overwrite=True)
    assert free(scratch) == before
    assert list(scratch.iterdir()) == []
    # Where it would be more than a quarter, nothing is held even so.
    scratch = disk(16)
    before = free(scratch)
    with oc.config(memory="4MiB", scratch=scratch):
        solution(operands).save(tmp_path / "x.zarr", overwrite=True)
        assert oc.config().scratch_held == 0
        assert free(scratch) == before


KILLED = """
import sys
sys.path.insert(0, sys.argv[5])
from test_limits import HEAD
exec(HEAD)
OPEN, O_TMPFILE, EOPNOTSUPP = 2, 0o20000000, 95
operands, scratch, rule, named = sys.argv[1:5]
if named == "named":
    forbid((OPEN, 1, O_TMPFILE, EOPNOTSUPP), (OPENAT, 2, O_TMPFILE, EOPNOTSUPP))
import outcrop as oc
from outcrop import _native
oc.config(memory="4MiB", scratch=scratch, threads=2)
a, b = oc.open(operands + "/a.zarr"), oc.open(operands + "/b.zarr")
_native.inject_faults(rule)
oc.linalg.solve(a, b, assume="pos").save("x.zarr", overwrite=True)
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of system calls")
@pytest.mark.parametrize("named", ["named", "unnamed"])
def test_killed_between_making_and_unlinking(operands: Path, tmp_path: Path, named: str) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    stranger = scratch / ".outcrop-scratch-link"
    stranger.symlink_to(tmp_path / "kept")
    (tmp_path / "kept").touch()
    os.mkfifo(scratch / ".outcrop-operand-pipe")
    strangers = {stranger.name, ".outcrop-operand-pipe"}
    left = []
    killed = 0
    for nth in range(1, 4):
        command = [
            sys.executable, "-W", "ignore", "-c", KILLED, str(operands), str(scratch),
            f"allocate:{nth}:kill:once", named, str(Path(__file__).parent),
        ]  # fmt: skip
        ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert ended.returncode in (0, -9), ended.stderr
        killed += ended.returncode == -9
        left.append(sorted({p.name for p in scratch.iterdir()} - strangers))
    assert killed >= 2
    # Each run removes what it finds.
    assert all(len(names) <= 1 for names in left), left
    files = [name for names in left for name in names if name.startswith(".outcrop-scratch-")]
    assert bool(files) == (named == "named"), left
    with oc.config(memory="4MiB", scratch=scratch):
        solution(operands).save(tmp_path / "x.npy", overwrite=True)
    assert {p.name for p in scratch.iterdir()} == strangers
    assert (tmp_path / "kept").exists()
