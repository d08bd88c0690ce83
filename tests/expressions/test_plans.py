"""Plans of expressions: the orders of their steps, and what they cost."""

import gc
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outcrop as oc
from outcrop.expressions.lower.lower import Order

ORDERS = [Order(together=t, turned=u) for t in (True, False) for u in (False, True)]


@pytest.fixture
def all_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    """All orders are tried, also where there is not enough to gain."""
    monkeypatch.setattr("outcrop.expressions.planner._may_be_better", lambda facts: True)


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch, all_orders: None) -> Callable[[Order], None]:
    def take(order: Order) -> None:
        monkeypatch.setattr("outcrop.expressions.planner.orders", lambda grouping: [order, order])

    return take


def expressions(X: Any, w: Any) -> list[Any]:
    centered = X - X.mean(axis=0)
    return [
        X.sum(axis=0),
        (centered * w).std(axis=1),
        oc.concat([(X * w).sum(axis=0), X.max(axis=0), np.exp(X).mean(axis=0)]),
        centered.T @ centered,
        oc.cumulative_sum(X * w, axis=0).sum(axis=1),
    ]


def test_the_best_is_taken(desk: Any, all_orders: None) -> None:
    X = desk.put(np.zeros((50, 20_480)), "raw")
    explained = oc.plan(X.sum(axis=0)).explain()
    assert explained.count("one pass") == 2
    assert explained.count("along the other axis first") == 1
    assert "instead of one pass" in explained


def test_all_give_the_same_bits(tiny: Any, only: Callable[[Order], None]) -> None:
    plain = np.random.default_rng(1).standard_normal((31, 61))
    X, w = tiny.put(plain, tile=(9, 20)), tiny.put(np.arange(61.0), "npy")
    first = [x.compute() for x in expressions(X, w)]
    for order in ORDERS:
        only(order)
        for x, same in zip(expressions(X, w), first, strict=True):
            tiny.check(x, same, digits=0)


def test_sums_of_long_rows_are_added_up_one_after_the_other(
    desk: Any, only: Callable[[Order], None]
) -> None:
    plain = np.random.default_rng(2).standard_normal((200, 20_480))
    X = desk.put(plain, "raw")
    only(Order())
    # Sums of all columns, as many as wait to be added, are more than memory.
    assert oc.plan(X.sum(axis=0)).scratch_bytes > 0
    only(Order(turned=True))
    plan = oc.plan(X.sum(axis=0))
    assert (plan.bytes_read, plan.scratch_bytes) == (X.nbytes, 0)
    assert "one pass, along the other axis first" in plan.explain()
    desk.check(X.sum(axis=0), plain.sum(axis=0), digits=2000)


def test_results_have_passes_of_their_own_where_memory_is_short(
    desk: Any, only: Callable[[Order], None]
) -> None:
    plain = np.random.default_rng(3).standard_normal((100, 300))
    X = desk.put(plain)
    both = oc.stack([X.sum(axis=0), X.max(axis=0)])
    only(Order(together=False))
    plan = oc.plan(both)
    assert "each result by itself" in plan.explain()
    desk.check(both, np.stack([plain.sum(axis=0), plain.max(axis=0)]))


@pytest.mark.parametrize(
    ("name", "options"),
    [("a.npy", {}), ("a.raw", {}), ("a.zarr", {"tile": (30, 100)}), ("a.pgm", {})],
)
def test_targets(desk: Any, name: str, options: dict[str, Any]) -> None:
    plain = np.random.default_rng(4).integers(0, 100, (5000, 1500)).astype("uint8")
    x = np.minimum(desk.put(plain, "npy"), 7)
    with oc.config(memory="4MiB"):
        plan = oc.plan(x, desk.path / name, **options)
        x.save(desk.path / name, **options)
    run = oc.last_run()
    assert run is not None
    assert (run.bytes_read, run.bytes_written) == (plan.bytes_read, plan.bytes_written)


def test_several_results(desk: Any) -> None:
    plain = np.random.default_rng(5).standard_normal((900, 500))
    X = desk.put(plain)
    mean = X.mean(axis=0)
    results = {"mean.npy": mean, "centered.zarr": X - mean, "copy.zarr": X}
    wanted = {desk.path / name: x for name, x in results.items()}
    plan = oc.plan(wanted)
    saved = oc.save(wanted)
    run = oc.last_run()
    assert run is not None
    assert (run.bytes_read, run.bytes_written) == (plan.bytes_read, plan.bytes_written)
    for path, expected in zip(saved, (plain.mean(0), plain - plain.mean(0), plain), strict=True):
        desk.check(saved[path], expected)


@pytest.mark.parametrize("layout", ["zarr", "npy", "memory", "function"])
def test_several_results_of_which_some_are_empty(desk: Any, layout: str) -> None:
    plain = np.random.default_rng(6).standard_normal((90, 50))
    X, nothing = desk.put(plain), desk.put(plain, layout)[:, 7:7]
    results = {"none.zarr": nothing, "twice.zarr": X * 2, "neither.npy": (X + 1)[3:3]}
    results |= {"again.zarr": nothing, "sum.npy": X.sum(axis=0), "copy.zarr": X}
    wanted = {desk.path / name: x for name, x in results.items()}
    plan = oc.plan(wanted)
    assert "0 x 50" in plan.explain()
    plan.show(desk.path / "plan.svg")
    saved = oc.save(wanted)
    run = oc.last_run()
    assert run is not None
    assert (run.bytes_read, run.bytes_written) == (plan.bytes_read, plan.bytes_written)
    empty, none = plain[:, 7:7], plain[3:3]
    expected = (empty, plain * 2, none, empty, plain.sum(axis=0), plain)
    for path, values in zip(saved, expected, strict=True):
        desk.check(saved[path], values)


def test_plans_of_nothing(desk: Any) -> None:
    X = desk.put(np.ones((70, 15)))
    assert oc.plan((X + 1)[5:5]).bytes_read == 0
    path = desk.path / "none.zarr"
    assert oc.save({path: X[5:5]})[path].shape == (0, 15)


def test_results_that_would_be_many_small_pieces_of_their_files(desk: Any) -> None:
    """They go to the scratch directory first, and both ways are planned."""
    plain = np.random.default_rng(5).random((900, 1100))
    X = desk.put(plain, "npy")
    turned, sums = desk.path / "turned.npy", desk.path / "sums.npy"
    plan = oc.plan({turned: (X + 1).T, sums: X.sum(axis=1)})
    seen: list[int] = []
    saved = oc.save(
        {turned: (X + 1).T, sums: X.sum(axis=1)}, progress=lambda done, _: seen.append(done)
    )
    run = oc.last_run()
    assert run is not None
    assert run.bytes_read < 5 * X.nbytes and run.bytes_written < 5 * X.nbytes
    assert (run.bytes_read, run.bytes_written) == (plan.bytes_read, plan.bytes_written)
    assert plan.scratch_bytes >= X.nbytes and "moved to turned.npy" in plan.explain()
    plan.show(desk.path / "plan.svg")
    assert "turned.npy" in (desk.path / "plan.svg").read_text()
    assert seen == sorted(seen)
    desk.check(saved[turned], (plain + 1).T)
    desk.check(saved[sums], plain.sum(axis=1))
    assert not list((desk.path / "scratch").glob("*"))


def test_who_stops_at_the_end_has_stopped(desk: Any) -> None:
    """When everything is computed, and nothing is there."""
    X = desk.put(np.random.default_rng(5).random((900, 1100)))

    def stop(done: int, total: int) -> None:
        if done == total:
            raise ZeroDivisionError

    results = {desk.path / "more.zarr": X + 1, desk.path / "sums.npy": X.sum(axis=1)}
    with pytest.raises(ZeroDivisionError):
        oc.save(results, progress=stop)
    for path, result in results.items():
        with pytest.raises(ZeroDivisionError):
            result.save(path, progress=stop)
        assert not path.exists()
    assert not list((desk.path / "scratch").glob("*"))


@pytest.mark.parametrize("stop_at", [0.1, 0.6, 0.9, 0.99])
def test_all_results_are_old_or_all_are_new(desk: Any, stop_at: float) -> None:
    # One of them is computed in scratch, and moved to its file.
    X = desk.put(np.random.default_rng(5).standard_normal((400, 1500)), "npy")
    paths = [desk.path / "as_it_is.npy", desk.path / "turned.npy", desk.path / "more.zarr"]

    def save(value: int, **options: Any) -> None:
        results = [X * 0 + value, X.T * 0 + value, X * 0 - value]
        oc.save(dict(zip(paths, results, strict=True)), overwrite=True, **options)

    def stop(done: int, total: int) -> None:
        if done > stop_at * total:
            raise ZeroDivisionError

    def first_elements() -> list[float]:
        return [float(oc.open(path)[0, 0]) for path in paths]

    save(1)
    with pytest.raises(ZeroDivisionError):
        save(2, progress=stop)
    assert first_elements() == [1, 1, -1]
    save(3)
    assert first_elements() == [3, 3, -3]
    assert not list((desk.path / "scratch").glob("*"))


def test_the_least_budget_that_would_do(desk: Any) -> None:
    # Of many small tiles there is more to keep account of, and large ones need less.
    X, w = desk.put(np.ones((1000, 600)), tile=100), oc.zeros(600)
    for _ in range(60):
        w = w - 1e-7 * (X.T @ (X @ w - X[:, 0]))
    with oc.config(memory="512KiB"), pytest.raises(oc.BudgetError) as caught:
        oc.plan(w)
    assert caught.value.needed is not None
    assert caught.value.needed <= 1 << 20
    with oc.config(memory=caught.value.needed):
        assert oc.plan(w).bytes_read > 0


def test_more_steps_than_there_is_memory_for(desk: Any) -> None:
    # In tiles for such a budget there are millions of steps, which are not made to be refused.
    A, B = (desk.put(np.ones(shape, "c16"), tile=200) for shape in [(700, 800), (800, 900)])
    chain = (A @ (B @ desk.put(np.ones((900, 700), "c16"), tile=200))).T
    started = time.process_time()
    with oc.config(memory="300KiB"), pytest.raises(oc.BudgetError) as caught:
        oc.plan(chain @ np.sqrt(chain))
    refusing = time.process_time() - started
    assert caught.value.needed is not None
    with oc.config(memory=caught.value.needed):
        started = time.process_time()
        assert oc.plan(chain @ np.sqrt(chain)).bytes_read > 0
        # What is named is found by planning some ten times.
        assert refusing < 20 * (time.process_time() - started)


def test_no_arrays_are_planned_as_they_are_saved_and_computed(tmp_path: Path) -> None:
    assert (oc.save({}), oc.compute()) == ({}, ())
    plan = oc.plan({})
    assert (plan.bytes_read, plan.bytes_written, plan.peak_bytes, plan.flops) == (0, 0, 0, 0)
    assert (plan.waste, plan.seconds, plan.is_exact) == (1, 0, True)
    assert plan.explain().startswith("expression: there is nothing to compute\n")
    plan.show(tmp_path / "nothing.svg")
    assert (tmp_path / "nothing.svg").read_text().startswith("<svg")
    with pytest.raises(oc.InvalidArgumentError, match="no other options"):
        oc.plan({}, tile=3)


def test_what_is_not_planned(desk: Any) -> None:
    X = desk.put(np.ones((700, 1500)))
    with pytest.raises(oc.InvalidArgumentError, match="order='F' is for"):
        oc.plan(np.exp(X), desk.path / "x.zarr", target_order="F")
    with pytest.raises(oc.InvalidArgumentError, match="codecs= is for Zarr"):
        oc.plan(np.exp(X), desk.path / "x.npy", codecs="zstd")
    with pytest.raises(oc.InvalidArgumentError, match="no other options"):
        oc.plan({"a.npy": X.sum()}, "b.npy")
    with pytest.raises(oc.InvalidArgumentError, match="via="):
        oc.plan(np.exp(X), via=desk.path)
    with pytest.raises(oc.InvalidArgumentError, match="same path"):
        oc.save({desk.path / "x.npy": X + 1, desk.path / ".." / desk.path.name / "x.npy": X + 2})
    with pytest.raises(oc.InvalidArgumentError, match="same path"):
        oc.plan({"a.npy": X.sum(), desk.path.__class__("a.npy"): X})
    with pytest.raises(oc.InvalidTypeError, match=r"outcrop\.Array is saved"):
        oc.plan({"a.npy": 3})


@pytest.mark.parametrize("layout", ["npy", "F"])
def test_views_that_lie_otherwise_are_read_once(desk: Any, layout: str) -> None:
    values = np.random.default_rng(3).random((900, 400))
    X = desk.put(values, layout)
    for view, plain in (
        (X[::-1, ::3].T, values[::-1, ::3].T),
        (X.T[::-2, 1::3], values.T[::-2, 1::3]),
    ):
        desk.check((view + 1).sum(axis=0), (plain + 1).sum(axis=0))
        assert oc.plan(view.sum()).bytes_read < 1.3 * values.nbytes


@pytest.mark.parametrize("layout", ["npy", "F"])
def test_files_that_run_across_each_other(desk: Any, layout: str) -> None:
    """Tiles are as long along one as along the other."""
    values = np.random.default_rng(4).random((1500, 1500))
    X = desk.put(values, layout)
    with oc.config(memory="8MiB"):
        for made, expected in (
            ((X + X.T) / 2, (values + values.T) / 2),
            (oc.einsum("ij,ji->i", X, X), (values * values.T).sum(axis=1)),
        ):
            assert oc.plan(made).bytes_read < 14 * X.nbytes
            desk.check(made, expected, digits=1000)
    other = desk.put(values[:, ::-1], "F" if layout == "npy" else "npy")
    desk.check(X - other, values - values[:, ::-1])


def test_what_was_refused_on_the_way_keeps_no_file(desk: Any) -> None:
    # The first tiles that are tried do not do, and the result is moved to its file.
    A, B, C = (desk.put(np.ones((600, 600)), "npy") for _ in range(3))
    path = desk.path / "product.npy"
    gc.disable()
    try:
        with oc.config(memory="1200KiB"):
            for _ in range(2):
                oc.save({path: A @ (B @ C)}, overwrite=True)
    finally:
        gc.enable()
    with oc.config(memory="64MiB"):
        assert (oc.open(path).compute() == 360000).all()


def test_of_an_empty_result(desk: Any) -> None:
    array = desk.put(np.arange(8.0).reshape(2, 4))
    empty = (array + array)[1:1]
    plan = oc.plan(empty, desk.path / "empty.zarr")
    empty.save(desk.path / "empty.zarr")
    run = oc.last_run()
    assert run is not None
    assert plan.bytes_written == run.bytes_written > 0


def test_waste_is_what_is_read_over_what_the_passes_need(desk: Any, tmp_path: Path) -> None:
    X = desk.put(np.zeros((1000, 1000)), tile=(10, 1000))
    assert oc.plan(X.mean(axis=0)).waste == pytest.approx(1, abs=0.06)
    # Two passes, between which a part stays in memory.
    standardized = oc.plan((X - X.mean(axis=0)) / X.std(axis=0))
    assert 0.3 < standardized.waste <= 1.06
    assert standardized.waste == pytest.approx(standardized.bytes_read / (2 * X.nbytes), rel=0.06)
    # What has never been written is not read.
    empty = oc.create(tmp_path / "empty.zarr", (1000, 1000), "float64", tile=100)
    assert oc.plan(empty + 1).waste == 1
    A = desk.put(np.zeros((1000, 1000)), tile=(100, 100))
    product = oc.plan(A @ A)
    assert product.waste == product.bytes_read / max(product.lower_bound or 0, 100 * 81_920)
    assert 0.9 < oc.plan(X.T, "moved.npy").waste < 3


def test_it_is_said_why_an_array_is_not_read_once(desk: Any) -> None:
    X = desk.put(np.zeros((10_000, 100)), tile=(100, 100))
    once = oc.plan(X.mean(axis=0)).explain()
    assert "passes take it" not in once and "times as much" not in once
    assert "2 passes take it" in oc.plan(X - X.mean(axis=0)).explain()
    A = desk.put(np.zeros((1000, 1000)), tile=(100, 100))
    assert "what that is made of is read for each" in oc.plan(A @ A).explain()
    flat = desk.put(np.zeros((1000, 1000)), "npy")
    across = oc.plan(flat + flat.T).explain()
    assert "as one pass would need: tiles are pieces of" in across
    assert "read in blocks of 4.0 KiB" in across


def test_what_has_not_been_written_takes_nothing(desk: Any, tmp_path: Path) -> None:
    A = oc.create(tmp_path / "a.zarr", (300, 300), "float64", tile=(64, 64))
    oc.config(memory="600KiB")
    # What is kept of them in between is written and read, however little is stored.
    for x in (oc.linalg.lu_factor(A + 1)[0], (A * 1.0) @ A, A.T @ A, A + A.T):
        plan = oc.plan(x, tmp_path / "b.zarr")
        assert "it has 0.00 of its size" in plan.explain()
        x.save(tmp_path / "b.zarr", overwrite=True)
        run = oc.last_run()
        assert run is not None
        assert run.bytes_read == plan.bytes_read


def test_what_tiles_reach_beyond_their_array_is_said(desk: Any) -> None:
    X = desk.put(np.zeros((101, 100)), tile=(100, 100))
    assert "its last tiles reach beyond it, 2.03 times its size" in oc.plan(X + 1).explain()


def test_parts_of_stored_tiles_are_called_so(desk: Any) -> None:
    X = desk.put(np.zeros((5000, 100)), tile=(400, 100))
    plan = oc.plan(np.diff(X, axis=0))
    if plan.waste > 1.5:
        assert "steps take parts of its tiles of 400 x 100" in plan.explain()
