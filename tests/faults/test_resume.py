"""A factorization that is stopped goes on from its last columns, to the same bits."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import outcrop as oc
from outcrop.expressions.build import resuming

KILLS = int(os.environ.get("OUTCROP_KILLS", "10"))
SEED = int(os.environ.get("OUTCROP_SEED", "0")) or random.SystemRandom().randrange(2**32)
N = 400

# Columns of one tile each are committed.
PROGRAM = """
import os, sys
import outcrop as oc
from outcrop.expressions.build import resuming
resuming._SECONDS = 1e-6
os.chdir(sys.argv[1])
oc.config(memory="2MiB", threads=2)
A = oc.open("a.zarr")
print("begun", flush=True)
if sys.argv[2] == "lu":
    factors = oc.linalg.lu_factor(A)
    oc.save({"l.zarr": factors.lu, "p.npy": factors.piv}, overwrite=True, resume=True)
elif sys.argv[2] == "ldl":
    factor, d, rows, *_ = oc.linalg.ldl_factor(A)
    oc.save({"l.zarr": factor, "d.npy": d, "rows.npy": rows}, overwrite=True, resume=True)
else:
    oc.linalg.cholesky(A).save("l.zarr", overwrite=True, resume=True)
print("done", flush=True)
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(resuming, "_SECONDS", 1e-6)
    with oc.config(memory="2MiB"):
        a = np.random.default_rng(1).standard_normal((N, N))
        oc.asarray(a @ a.T / N + np.eye(N) * 0.1).save("a.zarr", tile=40)
        yield tmp_path


def save(kind: str, *, resume: bool, path: str = "l.zarr") -> dict[str, bytes]:
    """Factor, and give what there is afterwards."""
    A = oc.open("a.zarr")
    if kind == "lu":
        factors = oc.linalg.lu_factor(A)
        results = {path: factors.lu, "p.npy": factors.piv}
    elif kind.startswith("ldl"):
        factor, d, rows, *_ = oc.linalg.ldl_factor(A, lower=kind != "ldl, upper")
        results = {path: factor, "d.npy": d, "rows.npy": rows}
    else:
        results = {path: oc.linalg.cholesky(A, upper=kind == "upper")}
    saved = oc.save(results, overwrite=True, resume=resume)
    with oc.config(memory="16MiB"):
        return {str(name): array.compute().tobytes() for name, array in saved.items()}


def kept() -> dict[str, object] | None:
    try:
        found: dict[str, object] = json.loads(Path(".l.zarr.outcrop-resume/state.json").read_text())
    except FileNotFoundError:
        return None
    return found


@pytest.mark.parametrize("kind", ["lu", "lower", "upper", "ldl", "ldl, upper"])
def test_bits_are_those_of_one_run(place: Path, kind: str) -> None:
    assert save(kind, resume=True) == save(kind, resume=False)
    assert kept() is None
    assert not [name for name in os.listdir() if name.startswith(".")]


@pytest.mark.parametrize("kind", ["lu", "cholesky", "ldl"])
def test_kills(place: Path, kind: str) -> None:
    """At any moment, some of them several times: what is committed is not done again."""
    expected = save(kind, resume=False)
    chance = random.Random(SEED)
    command = [sys.executable, "-c", PROGRAM, str(place), kind]
    longest = 0.0
    done: list[int] = []
    for _ in range(KILLS):
        if chance.random() < 0.3:
            shutil.rmtree(".l.zarr.outcrop-resume", ignore_errors=True)
        before = kept()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "begun\n", f"seed {SEED}"
            begun = time.monotonic()
            if longest == 0:
                assert process.stdout.readline() == "done\n"
                longest = time.monotonic() - begun
                continue
            time.sleep(chance.uniform(0, longest))
            process.send_signal(signal.SIGKILL)
        after = kept()
        if before is not None and after is not None:
            assert int(str(after["done"])) >= int(str(before["done"]))
        done.append(-1 if after is None else int(str(after["done"])))
        if chance.random() < 0.5:
            assert save(kind, resume=True) == expected, f"seed {SEED}"
            assert kept() is None
    assert save(kind, resume=True) == expected, f"seed {SEED}"
    assert len(set(done)) > 1, done


@pytest.mark.parametrize("memory", ["3MiB", "16MiB", "256MiB"])
@pytest.mark.parametrize("tile", [40, 70, 130, 390, 400])
@pytest.mark.parametrize("kind", ["lu", "lower", "upper", "ldl", "ldl, upper"])
def test_bits_whatever_the_tiles(place: Path, kind: str, tile: int, memory: str) -> None:
    """Fewer last columns than a tile has were cut otherwise if memory was ample, and left out."""
    a = oc.open("a.zarr").compute()
    with oc.config(memory=memory):
        oc.asarray(a).save("a.zarr", tile=tile, overwrite=True)
        try:
            expected = save(kind, resume=False)
        except oc.BudgetError:
            assert memory == "3MiB" and tile > 130
        else:
            assert save(kind, resume=True) == expected


@pytest.mark.parametrize("tile", [40, 70, 200, 400])
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_ldl_that_went_on_solves(place: Path, dtype: str, tile: int) -> None:
    """Rotations pair rows of tiles, of which there may be any number; of one, none."""
    chance = np.random.default_rng(tile)
    a = chance.standard_normal((N, N)) + 1j * chance.standard_normal((N, N))
    a = (a + a.conj().T).astype(dtype) if dtype == "complex128" else (a + a.T).real.astype(dtype)
    with oc.config(memory="32MiB"):
        oc.asarray(a).save("a.zarr", tile=tile, overwrite=True)
        factor, d, rows, *which = oc.linalg.ldl_factor(oc.open("a.zarr"))
        parts = oc.save({"l.zarr": factor, "d.npy": d, "r.npy": rows}, resume=True).values()
        b = np.ones(N, dtype)
        x = oc.linalg.ldl_solve(oc.linalg.LDLFactor(*parts, *which), b).compute()
    precision = np.finfo(dtype).eps
    assert np.abs(a @ x - b).max() <= 1e5 * precision * np.abs(a).max() * np.abs(x).max() * N


def test_nothing_is_done_again(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = save("lu", resume=False)
    columns = resuming._Factoring._columns
    spans: list[tuple[int, int]] = []

    def some(self: resuming._Factoring, first: int, end: int, *rest: object) -> None:
        if len(spans) == 5:
            spans.append((-1, -1))
            raise KeyboardInterrupt
        spans.append((first, end))
        columns(self, first, end, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(resuming._Factoring, "_columns", some)
    with pytest.raises(KeyboardInterrupt):
        save("lu", resume=True)
    state = kept()
    assert state is not None
    assert state["done"] == spans[4][1]
    # With another budget, too, and as many threads as there are.
    with oc.config(memory="3MiB", threads=1):
        assert save("lu", resume=True) == expected
    assert spans[6][0] == spans[4][1]
    assert spans[-1][1] == N


def test_the_report_is_that_of_all_columns(place: Path) -> None:
    oc.linalg.cholesky(oc.open("a.zarr")).save("l.zarr", resume=True).close()
    run = oc.last_run()
    assert run is not None
    # Each column was written to what is kept, and then to the result.
    half = N * (N + 40) // 2 * 8
    assert run.bytes_written >= 2 * half
    assert run.flops >= N**3 / 3


def test_another_matrix_is_not_gone_on_with(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(resuming._Factoring, "_columns", stop)
        save("lower", resume=True)
    with pytest.raises(oc.InvalidArgumentError, match="another"):
        save("upper", resume=True)
    with oc.open("a.zarr", "r+") as a:
        a[0, 0] = 5
    with pytest.raises(oc.InvalidArgumentError, match=r"another.*resume=False removes"):
        save("lower", resume=True)
    assert kept() is not None
    expected = save("lower", resume=False)
    assert kept() is None
    assert save("lower", resume=True) == expected


@pytest.mark.parametrize("content", [b"", b"{", b'{"format": 99}', b"[]", b'{"a": 1}'])
def test_a_record_that_makes_no_sense(place: Path, content: bytes) -> None:
    """All is done again."""
    Path(".l.zarr.outcrop-resume").mkdir()
    Path(".l.zarr.outcrop-resume/state.json").write_bytes(content)
    assert save("lower", resume=True) == save("lower", resume=False)


def test_what_cannot_be_resumed(place: Path) -> None:
    A, b = oc.open("a.zarr"), np.ones(N)
    for x in (A @ A, oc.linalg.solve(A, b), A + 1, 2 * oc.linalg.cholesky(A)):
        with pytest.raises(oc.UnsupportedError, match="resume= is for one factorization"):
            x.save("x.zarr", resume=True)
    for operand in (A + 1, oc.asarray(np.eye(5))):
        with pytest.raises(oc.UnsupportedError, match="that is stored"):
            oc.linalg.cholesky(operand).save("x.zarr", resume=True)
    two = {"x.zarr": oc.linalg.cholesky(A), "y.zarr": oc.linalg.lu_factor(A).lu}
    with pytest.raises(oc.UnsupportedError, match="one factorization"):
        oc.save(two, resume=True)
    with pytest.raises(oc.InvalidArgumentError, match="no options"):
        oc.linalg.cholesky(A).save("x.zarr", tile=10, resume=True)
    oc.asarray(b).save("x.zarr")
    with pytest.raises(oc.ArrayExistsError):
        oc.linalg.cholesky(A).save("x.zarr", resume=True)
    assert sorted(os.listdir()) == ["a.zarr", "x.zarr"]


def test_what_is_in_the_way_of_what_is_kept(place: Path) -> None:
    Path(".l.zarr.outcrop-resume").write_text("")
    with pytest.raises(oc.InvalidArgumentError, match="no directory, and in the way"):
        save("lower", resume=True)
    assert sorted(os.listdir()) == [".l.zarr.outcrop-resume", "a.zarr"]


@pytest.mark.parametrize("damage", ["missing", "cut"])
def test_damage_of_what_is_kept(place: Path, damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told of, with what helps; and that does."""
    expected = save("lower", resume=False)
    Path("l.zarr").rename("before.zarr")
    columns, count = resuming._Factoring._columns, iter(range(3))

    def some(*rest: object) -> None:
        if next(count, None) is None:
            raise KeyboardInterrupt
        columns(*rest)  # type: ignore[arg-type]

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(resuming._Factoring, "_columns", some)
        save("lower", resume=True)
    factors = Path(".l.zarr.outcrop-resume/factors.zarr")
    if damage == "missing":
        shutil.rmtree(factors)
    else:
        for chunk in (path for path in (factors / "c").rglob("*") if path.is_file()):
            chunk.write_bytes(chunk.read_bytes()[:-64])
    for _ in range(2):
        with pytest.raises(oc.OutcropError, match="resume=False removes what is kept"):
            save("lower", resume=True)
    assert save("lower", resume=False) == expected
    assert sorted(os.listdir()) == ["a.zarr", "before.zarr", "l.zarr"]


def test_what_fails_is_an_error_again(place: Path) -> None:
    """A matrix that is not definite stays that, and nothing but what is kept is left."""
    with oc.open("a.zarr", "r+") as a:
        a[300, 300] = -1
    for _ in range(2):
        with pytest.raises(oc.NotPositiveDefiniteError) as caught:
            save("lower", resume=True)
        assert caught.value.index == 301
        state = kept()
        assert state is not None
        assert state["done"] == 280
    assert sorted(os.listdir()) == [".l.zarr.outcrop-resume", "a.zarr"]


def test_on_the_command_line(place: Path) -> None:
    expected = save("lu", resume=False)
    command = [str(Path(sys.executable).with_name("outcrop")), "--memory", "2MiB"]
    work = [*command, "lu", "a.zarr", "l.zarr", "p.npy", "--overwrite", "--resume"]
    subprocess.run(work, check=True)
    with oc.config(memory="16MiB"):
        assert oc.open("l.zarr").compute().tobytes() == expected["l.zarr"]
    subprocess.run([*command, "cholesky", "a.zarr", "c.zarr", "--resume"], check=True)
    assert sorted(os.listdir()) == ["a.zarr", "c.zarr", "l.zarr", "p.npy"]
