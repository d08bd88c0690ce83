"""What masks choose, and where they are true, however much that is: against NumPy."""

import gc
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import outcrop as oc
from outcrop import _native

RNG = np.random.default_rng(61)

few = settings(
    max_examples=24,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

SHAPES = [(150_000,), (600, 250), (31, 90, 55), (2, 75_000), (20_000, 2, 3), (1, 1, 5000, 31)]

DTYPES = [
    *("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float32", "float64", "complex64", "complex128"),
]


def values_of(shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
    made = RNG.integers(0, 200, shape) if dtype != "bool" else RNG.integers(0, 2, shape)
    return made.astype(dtype) * (1 + 2j) if np.dtype(dtype).kind == "c" else made.astype(dtype)


def left_in(path: Path) -> list[str]:
    """What is there of scratch."""
    return [own.name for own in path.iterdir() if own.name.startswith(".")]


@pytest.fixture
def put(desk: Any) -> Callable[..., oc.Array]:
    """Makes a stored array of some layout."""

    def put(values: NDArray[Any], layout: str) -> oc.Array:
        if layout == "compressed":
            path = str(desk.path / f"c{desk.count}.zarr")
            desk.count += 1
            chunks = tuple(max(n // 4, 1) for n in values.shape)
            zarr.create_array(path, data=values, chunks=chunks)
            return oc.open(path)
        if layout == "tiles of its own":
            path = desk.path / f"d{desk.count}.zarr"
            desk.count += 1
            return oc.asarray(values).save(path)
        if layout == "tiny tiles":
            return desk.put(values, "zarr", tuple(min(max(n // 40, 1), 30) for n in values.shape))
        return desk.put(values, layout)

    return put


def same(got: oc.Array, expected: NDArray[Any]) -> None:
    assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
    with oc.config(memory="64MiB"):
        np.testing.assert_array_equal(got.compute(), expected)


LAYOUTS = ["zarr", "npy", "F", "compressed", "tiles of its own", "transposed", "stepped", "memory"]


@few
@given(
    shape=st.sampled_from(SHAPES),
    dtype=st.sampled_from(DTYPES),
    layout=st.sampled_from(LAYOUTS),
    budget=st.sampled_from(["768KiB", "1MiB"]),
    density=st.sampled_from([0.02, 0.5, 0.97]),
    kind=st.sampled_from(["stored", "computed", "memory", "NumPy's"]),
)
def test_elements(
    desk: Any,
    put: Any,
    shape: tuple[int, ...],
    dtype: str,
    layout: str,
    budget: str,
    density: float,
    kind: str,
) -> None:
    values, chance = values_of(shape, dtype), RNG.random(shape)
    X, plain = put(values, layout), chance < density
    mask: Any = plain
    if kind == "stored":
        mask = put(plain, "zarr")
    elif kind == "computed":
        mask = put(chance, "zarr") < density
    elif kind == "memory":
        mask = oc.asarray(plain)
    with oc.config(memory=budget):
        same(X[mask], values[plain])
        same(oc.extract(mask, X), values[plain])
        for one, other in zip(oc.nonzero(mask), np.nonzero(plain), strict=True):
            same(one, other)
        same(oc.flatnonzero(mask), np.flatnonzero(plain))


def test_tiny_tiles(desk: Any, put: Any) -> None:
    values = RNG.standard_normal((400, 350))
    X = put(values, "tiny tiles")
    same(X[X > -1], values[values > -1])
    same(X[X > 1.5], values[values > 1.5])
    same(oc.flatnonzero(X > -1), np.flatnonzero(values > -1))


@pytest.mark.parametrize("layout", ["zarr", "npy", "F", "compressed"])
def test_masks_of_some_axes(desk: Any, put: Any, layout: str) -> None:
    """Beside slices, new axes and integers: what they choose stands where NumPy has it."""
    values = RNG.integers(0, 99, (70, 60, 50, 4))
    X = put(values, layout)
    two, three = RNG.random((70, 60)) < 0.9, RNG.random((60, 50, 4)) < 0.9
    with oc.config(memory="512KiB" if layout in ("npy", "F") else "1MiB"):
        for key in (
            (two,),
            (two, slice(None)),
            (two, slice(2, 40, 3), 1),
            (two, 3),
            (two, None, ..., 2),
            (slice(3, 60), three),
            (slice(None, None, -2), None, three),
            (5, three),
            (slice(0, 9), RNG.random((60, 50)) < 0.9),
            (slice(0, 70), RNG.random((60, 50)) < 0.9, 3),
            (3, RNG.random((60, 50)) < 0.9),
            (3, slice(None), RNG.random((50, 4)) < 0.9),
            (..., RNG.random((50, 4)) < 0.9),
            (slice(None, 0), three),
        ):
            expected = values[key]
            same(X[key], expected)
            lazy = tuple(oc.asarray(k) if isinstance(k, np.ndarray) else k for k in key)
            same(X[lazy] + 1, expected + 1)


def test_masks_of_one_axis(desk: Any, put: Any) -> None:
    values = RNG.integers(0, 99, (60_000, 3))
    X, mask = put(values, "npy"), RNG.random(60_000) < 0.9
    same(X[mask], values[mask])
    same(X[X[:, 1] > 2], values[values[:, 1] > 2])
    same(X[mask, ::2], values[mask, ::2])
    same(X.T[:, oc.asarray(mask)], values.T[:, mask])
    same(oc.compress(mask[:50_000], X, axis=0), values[:50_000][mask[:50_000]])
    same(oc.compress(mask, X.T, axis=1), values.T[:, mask])
    same(oc.compress(mask, X), values.reshape(-1)[:60_000][mask])
    same(np.extract(X % 3 == 1, X), values[values % 3 == 1])
    same(np.argwhere(X > 3), np.argwhere(values > 3))
    for one, other in zip(np.where(X > 3), np.where(values > 3), strict=True):
        same(one, other)
    same(X[X[:, 0] > 2, 1], values[values[:, 0] > 2, 1])
    with pytest.raises(IndexError, match="out of bounds"):
        oc.compress(np.append(mask, True), X, axis=0)


def test_many_indices(desk: Any, put: Any) -> None:
    values = RNG.standard_normal((500, 400))
    X = put(values, "zarr")
    rows, columns = RNG.integers(-500, 500, 60_000), RNG.integers(0, 400, 60_000)
    with oc.config(memory="2MiB"):
        same(X[rows[:40_000], columns[:40_000]], values[rows[:40_000], columns[:40_000]])
        same(X[oc.nonzero(X > 0)], values[values > 0])
        mask = RNG.random((500, 400)) < 0.3
        same(X[mask.nonzero()], values[mask])
        narrow = X[:, :2]
        same(oc.take(narrow, oc.asarray(rows), axis=0), values[:, :2][rows])
        same(narrow[rows.reshape(300, 200), oc.asarray([1])], values[rows.reshape(300, 200), [1]])
        same(X[:, :3].T[:, rows], values[:, :3].T[:, rows])
        with pytest.raises(IndexError, match="out of bounds"):
            narrow[np.append(rows, 500)]
        with pytest.raises(IndexError, match="integer"):
            narrow[rows + 0.5]


def test_truth_of_numbers(desk: Any, put: Any) -> None:
    values = RNG.integers(-1, 2, (900, 200)) * np.array([1.0, np.nan])[RNG.integers(0, 2, 200)]
    X = put(values, "zarr")
    for one, other in zip(oc.nonzero(X), np.nonzero(values), strict=True):
        same(one, other)


def test_half_precision(desk: Any, put: Any) -> None:
    """No stored array has such elements, but results may."""
    values = RNG.standard_normal((900, 300)).astype("float32")
    half = put(values, "zarr").astype("float16")
    same(half[half > -1], values.astype("float16")[values.astype("float16") > -1])


@pytest.mark.parametrize("layout", ["zarr", "npy", "compressed"])
@pytest.mark.parametrize("density", [0.01, 0.5, 0.99])
def test_all_is_read_once(
    desk: Any, put: Any, layout: str, density: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = RNG.random((1500, 800))
    X = put(values, layout)
    with oc.config(memory="4MiB"):
        once = oc.plan(X + 1).bytes_read
        Y = X[density > X]
        run = oc.last_run()
        assert run is not None
        assert run.bytes_read <= 1.1 * once
        assert run.peak_bytes <= 4 << 20
    same(Y, values[values < density])


def test_they_are_as_they_were(desk: Any) -> None:
    """Elements that are in scratch stay, whatever is assigned; a stale mask is an error."""
    values = RNG.standard_normal((800, 300))
    with oc.create(desk.path / "a.zarr", values.shape, tile=(100, 70)) as A:
        A[...] = values
    with oc.open(desk.path / "a.zarr", "r+") as A:
        mask = A > 0
        B, rows = A[mask], oc.nonzero(mask)[0]
        A[...] = 0
        same(B, values[values > 0])
        same(rows, np.nonzero(values > 0)[0])
        with pytest.raises(oc.StaleOperandError):
            A[mask]
        with pytest.raises(oc.StaleOperandError):
            oc.nonzero(mask)


def test_scratch_goes_with_the_result(desk: Any) -> None:
    values = RNG.standard_normal((900, 400))
    for layout in ("zarr", "npy"):
        X = desk.put(values, layout)
        made = X[X > 0]
        assert made.path is not None
        assert len(left_in(desk.path)) == 1
        view = made[::2] * 2
        del made
        same(view, values[values > 0][::2] * 2)
        del view
        rows, columns = oc.nonzero(X > 0)
        assert len(left_in(desk.path)) == 1
        del rows, columns
        gc.collect()
        assert left_in(desk.path) == []


@pytest.mark.parametrize("where", ["read", "write", "create", "sync"])
def test_what_fails_leaves_nothing(desk: Any, where: str) -> None:
    values = RNG.standard_normal((900, 400))
    X = desk.put(values, "zarr")
    failed = 0
    for nth in (1, 2, 5, 20):
        _native.inject_faults(f"{where}:{nth}:{'eio' if where == 'read' else 'enospc'}:always")
        try:
            X[X > 0]
        except oc.OutcropError as error:
            failed += 1
            kind = oc.StorageError if where == "read" else oc.StorageFullError
            assert isinstance(error, kind), error
        finally:
            _native.inject_faults(None)
        assert left_in(desk.path) == []
    assert failed or where == "create"
    same(X[X > 0], values[values > 0])


def test_a_full_disk(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What grows is written by this process itself, and told of in the same way."""
    import errno
    import os

    values = RNG.standard_normal((900, 400))
    X = desk.put(values, "npy")
    real, written = os.write, [0]

    def write(file: int, data: Any) -> int:
        written[0] += len(data)
        if written[0] > 600_000:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(file, data)

    monkeypatch.setattr("outcrop.expressions.build.chosen_elements.os.write", write)
    with pytest.raises(oc.StorageFullError, match=r"\d+ bytes are needed, \d+ are free") as caught:
        X[X > 0]
    assert caught.value.errno == errno.ENOSPC
    del caught
    assert left_in(desk.path) == []


def test_an_interrupt(desk: Any) -> None:
    """Between blocks: nothing is left behind, and the next selection works."""
    values = RNG.standard_normal((2000, 400))
    X = desk.put(values, "zarr")

    def slowly(block: NDArray[Any]) -> NDArray[Any]:
        threading.Event().wait(0.01)
        return block > 0

    mask = oc.map(slowly, X, dtype="bool")
    timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
    with pytest.raises(KeyboardInterrupt):
        timer.start()
        X[mask]
    timer.join()
    gc.collect()
    assert left_in(desk.path) == []
    same(X[X > 0], values[values > 0])


@pytest.fixture
def target(desk: Any) -> Iterator[tuple[oc.Array, NDArray[Any]]]:
    plain = RNG.standard_normal((60_000, 4))
    with oc.create(desk.path / "assigned.zarr", plain.shape, tile=(7000, 3)) as array:
        array[...] = plain
        yield array, plain


def test_assignment(desk: Any, target: tuple[oc.Array, NDArray[Any]]) -> None:
    array, plain = target
    mask = RNG.random(60_000) < 0.8
    for own in (mask, oc.asarray(mask), desk.put(mask, "zarr")):
        array[own] = 5
        plain[mask] = 5
        value = RNG.random((int(mask.sum()), 4))
        array[own] = value
        plain[mask] = value
        array[own, 1::2] = desk.put(value, "npy")[:, :2] * 2
        plain[mask, 1::2] = value[:, :2] * 2
        array.T[:, own] = value.T[::-1]
        plain.T[:, mask] = value.T[::-1]
        array[own, 2] = np.arange(len(value))
        plain[mask, 2] = np.arange(len(value))
        same(array, plain)
    # The mask, and the value, are what they were, whatever is written.
    array[array[:, 0] > 0.5] = array[:1] * 2
    plain[plain[:, 0] > 0.5] = plain[:1] * 2
    array[array > 0.7] = -1
    plain[plain > 0.7] = -1
    many = int(mask.sum())
    array[mask] = array[60_000 - many :]
    plain[mask] = plain[60_000 - many :].copy()
    same(array, plain)
    with pytest.raises(ValueError, match="shape mismatch"):
        array[mask] = np.ones((7, 4))
    with pytest.raises(oc.BudgetError, match="60000 indices take"):
        array[RNG.permutation(60_000)] = 1
