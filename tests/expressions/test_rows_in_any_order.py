"""Rows in any order, of arrays that memory does not hold, against NumPy."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import outcrop as oc

few = settings(
    max_examples=30,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

LAYOUTS = ["zarr", "npy", "F", "raw", "transposed", "reversed", "computed"]


def order(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    match kind:
        case "permutation":
            return rng.permutation(n)
        case "bootstrap":
            return rng.integers(0, n, n)
        case "some":
            return rng.choice(n, n // 3, replace=False)
        case "from the end":
            return rng.permutation(n)[::-1] - n
        case "dealt":
            return np.arange(n).reshape(-1, 37).T.ravel()
    # A few rows are wanted by nearly all.
    return np.where(rng.random(n) < 0.9, rng.integers(0, 5, n), rng.integers(0, n, n))


@few
@given(
    kind=st.sampled_from(
        ["permutation", "bootstrap", "some", "from the end", "dealt", "popular ones"]
    ),
    layout=st.sampled_from(LAYOUTS),
    dtype=st.sampled_from(["f8", "u1", "c16", "f4", "?"]),
    seed=st.integers(0, 99),
)
def test_rows(desk: Any, kind: str, layout: str, dtype: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    width = 160 // np.dtype(dtype).itemsize
    values = rng.integers(0, 100, (37 * 400, width)).astype(dtype)
    X = desk.put(values, layout)
    chosen = order(kind, len(values), rng)
    desk.check(X[chosen], values[chosen], digits=0)
    desk.check(X[::2, 1::3][chosen // 2], values[::2, 1::3][chosen // 2], digits=0)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_any_axis(desk: Any, axis: int) -> None:
    rng = np.random.default_rng(axis)
    shape = [9, 11, 13]
    shape[axis] = 4000
    values = rng.random(shape)
    X = desk.put(values, "npy")
    chosen = rng.permutation(shape[axis])
    taken = np.take(values, chosen, axis)
    desk.check(oc.take(X, chosen, axis=axis), taken, digits=0)
    desk.check(oc.take(2 * X + 1, chosen, axis=axis).sum(axis=axis), (2 * taken + 1).sum(axis=axis))


def test_elements(desk: Any) -> None:
    rng = np.random.default_rng(5)
    values = rng.random(500_000)
    X = desk.put(values, "npy")
    with oc.config(memory="32MiB"):
        chosen = rng.permutation(len(values))
    with oc.config(memory="2MiB"):
        indices = chosen[:30_000]
        desk.check(X[indices], values[indices], digits=0)


def test_little_is_read(desk: Any) -> None:
    """Twice what there is, where tile after tile would be read some fifty times."""
    rng = np.random.default_rng(1)
    values = rng.random((15_000, 40))
    X = desk.put(values, "npy")
    plan = oc.plan(X[rng.permutation(len(values))])
    assert plan.bytes_read < 2.2 * values.nbytes
    assert plan.bytes_written < 2.2 * values.nbytes
    desk.check(X[np.arange(len(values))[::-1]], values[::-1], digits=0)
    assert oc.last_run().bytes_read < 1.2 * values.nbytes


def test_long_rows_are_read_alone(desk: Any) -> None:
    rng = np.random.default_rng(2)
    values = rng.random((300, 4000))
    X = desk.put(values, "npy")
    chosen = rng.permutation(len(values))[:40]
    assert oc.plan(X[chosen]).bytes_read < 1.2 * 40 * values[0].nbytes
    desk.check(X[chosen], values[chosen], digits=0)
    desk.check(X[chosen] + X[0], values[chosen] + values[0], digits=0)
    # The columns' sums need all of it, in one pass.
    desk.check(X[chosen] - X.mean(axis=0), values[chosen] - values.mean(axis=0))


def read_for(X: oc.Array, values: Any) -> float:
    """Bytes read for each one of the array."""
    return float(oc.plan(X).bytes_read / values.nbytes)


def test_any_layout_any_way(desk: Any) -> None:
    rng = np.random.default_rng(8)
    values = rng.random((14_000, 40))
    chosen = rng.permutation(len(values))
    row_major, column_major = desk.put(values, "npy"), desk.put(values.T, "F")
    for X in (row_major, column_major.T):
        assert read_for(X[chosen], values) < 3
        assert read_for(X[chosen].T, values) < 3
        assert read_for(X.T[:, chosen] + 1, values) < 3
        desk.check(X.T[:, chosen], values.T[:, chosen], digits=0)
        with oc.config(memory="4MiB"):
            desk.check(X[chosen].T @ X, values[chosen].T @ values)


def test_columns_of_column_major_files(desk: Any) -> None:
    rng = np.random.default_rng(9)
    values = rng.random((2000, 700))
    X = desk.put(values, "F")
    chosen = rng.permutation(700)
    with oc.config(memory="3MiB"):
        assert read_for(X[:, chosen], values) < 2
        assert read_for(X[:, chosen[:5]], values) < 0.02
        desk.check(X[:, chosen], values[:, chosen], digits=0)


def test_tiles_nearly_as_large_as_memory(desk: Any) -> None:
    """What a tile of the temporary array is made of is never in two of the operand's tiles."""
    rng = np.random.default_rng(10)
    values = rng.random((30_000, 40))
    X = desk.put(values, "zarr", (13_056, 40))
    chosen = rng.permutation(len(values))
    for budget in range(6, 16):
        with oc.config(memory=f"{budget}MiB"):
            assert read_for(X[chosen], values) < 3
    with oc.config(memory="6MiB"):
        desk.check(X[chosen], values[chosen], digits=0)


def test_few_rows_of_large_tiles(desk: Any) -> None:
    rng = np.random.default_rng(11)
    values = rng.integers(0, 255, (400, 30_000), np.uint8)
    X = desk.put(values, "zarr", (25, 30_000))
    chosen = rng.choice(400, 64)
    with oc.config(memory="4MiB"):
        assert read_for(X[chosen], values) < 1.3
        desk.check(X[chosen], values[chosen], digits=0)


@pytest.mark.parametrize("layout", ["npy", "zarr"])
def test_few_columns(desk: Any, layout: str) -> None:
    values = np.random.default_rng(12).random((40_000, 20)).astype("f4")
    X = desk.put(values, layout, (300, 20))
    chosen = [3, -1, 0, 7, 7]
    assert read_for(X[:, chosen], values) < 1.2
    desk.check(X[:, chosen], values[:, chosen], digits=0)


def test_results_with_tiles_of_their_own(desk: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    values = rng.random((12_000, 40))
    X = desk.put(values, "zarr", (1000, 30))
    chosen = rng.permutation(len(values))
    saved = X[chosen].save(tmp_path / "tiles.zarr", tile=(700, 7))
    paths = tmp_path / "a.zarr", tmp_path / "b.zarr"
    oc.save({paths[0]: X[chosen], paths[1]: X[chosen].sum(axis=1)})
    with oc.config(memory="64MiB"):
        np.testing.assert_array_equal(saved.compute(), values[chosen])
        np.testing.assert_array_equal(oc.open(paths[0]).compute(), values[chosen])
        np.testing.assert_allclose(oc.open(paths[1]).compute(), values[chosen].sum(axis=1))


def test_too_many_places(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(4).integers(0, 100, (60_000, 500), np.uint8)
    X = desk.put(values, "npy")
    chosen = np.random.default_rng(5).permutation(len(values))[:10_000]
    with pytest.raises(oc.BudgetError) as caught:
        X[chosen].save("never.zarr")
    assert caught.value.needed is not None
    with oc.config(memory=caught.value.needed):
        desk.check(X[chosen], values[chosen], digits=0)
    monkeypatch.setattr("outcrop.expressions.rewrite.external_shuffle._MOST", 100)
    with pytest.raises(oc.BudgetError, match="all over the place") as caught:
        X[chosen].save("never.zarr")
    assert caught.value.needed is not None
    with oc.config(memory=caught.value.needed):
        desk.check(X[chosen], values[chosen], digits=0)
