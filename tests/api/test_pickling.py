"""Arrays as pickles: of what is on disk by its path, of expressions by what they are made of."""

import copy
import multiprocessing
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outcrop as oc

PLAIN = np.arange(12_000.0).reshape(120, 100) % 97


def again(array: Any) -> Any:
    """What comes out of a pickle."""
    found = pickle.loads(pickle.dumps(array))
    assert type(found) is oc.Array and (found.shape, found.dtype) == (array.shape, array.dtype)
    return found


def stored(directory: Path, kind: str) -> oc.Array:
    A = oc.asarray(PLAIN)
    match kind:
        case "zarr" | "npy" | "tif":
            return A.save(directory / f"a.{kind}")
        case "zstd":
            return A.save(directory / "a.zarr", codecs="zstd")
        case "frontier":
            return A.save(directory / "a.zarr", layout="frontier", thickness=1, tile=(40, 50))
        case "raw":
            A.save(directory / "a.raw")
            return oc.open(directory / "a.raw", shape=PLAIN.shape, dtype="f8")
        case "hdf5":
            pytest.importorskip("h5py")
            A.save(directory / "a.h5/group/x", tile=(50, 30))
            return oc.open(directory / "a.h5/group/x")
        case "deflate" | "lzf":
            h5py = pytest.importorskip("h5py")
            with h5py.File(directory / "a.h5", "w") as file:
                how = {"deflate": "gzip"}.get(kind, kind)
                file.create_dataset("x", data=PLAIN, chunks=(50, 30), compression=how)
            return oc.open(directory / "a.h5/x")
        case "memory":
            return A
    raise AssertionError(kind)


KINDS = ("zarr", "npy", "tif", "zstd", "frontier", "raw", "hdf5", "deflate", "lzf", "memory")


@pytest.mark.parametrize("kind", KINDS)
def test_of_every_format(tmp_path: Path, kind: str) -> None:
    if kind == "tif":
        pytest.importorskip("tifffile")
    A = stored(tmp_path, kind)
    for one, wanted in (
        (A, PLAIN),
        (A[3:80:7, ::-1], PLAIN[3:80:7, ::-1]),
        (A[None, 5:, 3], PLAIN[None, 5:, 3]),
        (A.T, PLAIN.T),
        (A[::3] + 1, PLAIN[::3] + 1),
        (A.T @ A, PLAIN.T @ PLAIN),
        ((A + 1j).conj(), (PLAIN + 1j).conj()),
    ):
        found = again(one)
        np.testing.assert_array_equal(found.compute(), wanted)
        np.testing.assert_array_equal((found * 2).compute(), wanted * 2)
        np.testing.assert_array_equal(again(found).compute(), wanted)
    found = again(A)
    assert (found.path, found.format, found.layout) == (A.path, A.format, A.layout)
    assert found.dimension_names == A.dimension_names and found.attributes == A.attributes
    if kind != "memory":
        assert len(pickle.dumps(A)) < 2000 and len(pickle.dumps(A + 1)) < 4000


def test_wherever_the_process_has_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.npy", "a.zarr"):
        oc.asarray(PLAIN).save(name)
        A = oc.open(name)
        kept = pickle.dumps([A, A + 1])
        (tmp_path / "below").mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / "below")
        found, more = pickle.loads(kept)
        np.testing.assert_array_equal((found + more).compute(), 2 * PLAIN + 1)
        monkeypatch.chdir(tmp_path)


def test_what_is_in_common_stays_that(tmp_path: Path) -> None:
    A = oc.asarray(PLAIN).save(tmp_path / "a.zarr")
    B = np.exp(A / 100)
    one, other = pickle.loads(pickle.dumps((B.sum(axis=0), B.sum(axis=1))))
    with oc.config(memory="1MiB"):
        plan = oc.plan({tmp_path / "r.npy": one, tmp_path / "s.npy": other})
        assert plan.bytes_read == oc.plan(B.sum(axis=0), tmp_path / "r.npy").bytes_read


def test_graphs_of_any_depth(tmp_path: Path) -> None:
    A = oc.asarray(PLAIN).save(tmp_path / "a.npy")
    deep: Any = A
    for _ in range(3000):
        deep = deep + 1
    np.testing.assert_array_equal(again(deep).compute(), PLAIN + 3000)
    wide: Any = A
    for _ in range(60):
        # As many ways lead to the array as there are numbers.
        wide = (wide + wide) * 0.5
    np.testing.assert_array_equal(again(wide).compute(), PLAIN)


def test_all_that_is_lazy(tmp_path: Path) -> None:
    rng = oc.random.default_rng(3)
    A = oc.asarray(PLAIN).save(tmp_path / "a.zarr")
    S = A.T @ A + 1000 * oc.eye(100)
    for one in (
        *(rng.random((50, 60)), rng.standard_normal(70), rng.normal(1, 2, (9, 9))),
        *(rng.uniform(2, 3, 100), rng.integers(0, 9, (40, 40))),
        *(oc.arange(3, 90, 4), oc.linspace(0, 1j, 7), oc.eye(5, k=1), oc.tril(A), oc.triu(A, k=3)),
        *(oc.zeros((3, 4)), oc.full((2, 2), 7), oc.fft.fftfreq(9), oc.fft.rfftfreq(8)),
        *(oc.linalg.cholesky(S), oc.linalg.lu_factor(S).lu, oc.linalg.solve(S, A.T)),
        *(oc.linalg.solve(S, A.T, assume="sym"), oc.linalg.inv(S)),
        *(oc.fromfunction(np.add, (30, 40)), oc.map(np.sqrt, A)),
    ):
        np.testing.assert_array_equal(again(one).compute(), one.compute())


def test_sweeps(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    f = oc.asarray(PLAIN).save(tmp_path / "f.zarr")
    v = oc.sweeps.gauss_seidel(oc.zeros(PLAIN.shape), f, sweeps=3)
    for one in (v, v + 1, oc.sweeps.heat(f.reshape(12, 10, 100), 0.1, sweeps=2)):
        np.testing.assert_array_equal(again(one).compute(), one.compute())


def test_an_expression_means_its_operands_as_they_were(tmp_path: Path) -> None:
    A = oc.asarray(PLAIN).save(tmp_path / "a.zarr")
    B = A + 1
    kept = pickle.dumps((A, B))
    with oc.open(tmp_path / "a.zarr", "r+") as changed:
        changed[0] = 5
    found, stale = pickle.loads(kept)
    assert (found[0].compute() == 5).all()
    with pytest.raises(oc.StaleOperandError, match="has changed since"):
        stale.compute()
    with pytest.raises(oc.StaleOperandError, match="has changed since"):
        pickle.dumps(B)
    oc.zeros((3, 4)).save(tmp_path / "a.zarr", overwrite=True)
    with pytest.raises(oc.ChangedArrayError, match=r"another array .*\(3, 4\), and not .*\(120, "):
        pickle.loads(kept)
    np.asarray(PLAIN).tofile(tmp_path / "b.raw")
    os.rename(tmp_path / "a.zarr", tmp_path / "b.zarr")
    with pytest.raises(oc.ArrayNotFoundError):
        pickle.loads(kept)


def test_memory_is_copied(tmp_path: Path) -> None:
    plain = PLAIN.copy()
    A = oc.asarray(plain)
    found, sum_ = pickle.loads(pickle.dumps((A, A + 1)))
    plain[...] = 0
    found[1] = 7
    assert (found[1].compute() == 7).all() and (found[0].compute() == PLAIN[0]).all()
    np.testing.assert_array_equal(sum_.compute(), PLAIN + 1)
    plain.flags.writeable = False
    with pytest.raises(oc.InvalidArgumentError, match="read-only"):
        again(oc.asarray(plain))[0] = 1


def test_what_is_not_pickled(tmp_path: Path) -> None:
    A = oc.asarray(PLAIN).save(tmp_path / "a.zarr")
    with oc.open(tmp_path / "a.zarr", "r+") as writable:
        for one in (writable, writable + 1):
            with pytest.raises(oc.UnsupportedError, match=r"open for writing.*close it"):
                pickle.dumps(one)
    with (
        oc.create(tmp_path / "n.zarr", (3, 4)) as new,
        pytest.raises(oc.UnsupportedError, match="open for writing"),
    ):
        pickle.dumps(new)
    with oc.config(memory="1MiB"):
        long = oc.asarray(np.arange(400_000.0)[::-1].copy()).save(tmp_path / "l.npy")
        with pytest.raises(oc.UnsupportedError, match="scratch"):
            pickle.dumps(oc.sort(long))
    with pytest.raises((AttributeError, pickle.PicklingError), match="lambda"):
        pickle.dumps(oc.map(lambda block: block + 1, A))
    A.close()
    with pytest.raises(oc.ClosedArrayError):
        pickle.dumps(A)
    B = oc.open(tmp_path / "a.zarr")
    assert copy.copy(B).shape == copy.deepcopy(B).shape == B.shape


def sum_of(part: Any) -> float:
    return float(part.sum().compute())


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_are_handed_arrays(tmp_path: Path, method: str) -> None:
    A = oc.asarray(PLAIN).save(tmp_path / "a.zarr")
    A.sum().compute()
    parts = [A[i : i + 40] + 1 for i in range(0, 120, 40)]
    with multiprocessing.get_context(method).Pool(2) as pool:
        found = pool.map(sum_of, parts)
    assert found == [float((PLAIN[i : i + 40] + 1).sum()) for i in range(0, 120, 40)]


def test_another_interpreter(tmp_path: Path) -> None:
    A = oc.asarray(PLAIN).save(tmp_path / "a.zarr")
    (tmp_path / "kept").write_bytes(pickle.dumps(np.sqrt(A).mean(axis=0)))
    script = (
        "import pickle, sys, numpy as np\n"
        "np.save(sys.argv[2], pickle.load(open(sys.argv[1], 'rb')).compute())\n"
    )
    line = [sys.executable, "-c", script, tmp_path / "kept", tmp_path / "r.npy"]
    subprocess.run(line, check=True)
    np.testing.assert_allclose(np.load(tmp_path / "r.npy"), np.sqrt(PLAIN).mean(axis=0))
