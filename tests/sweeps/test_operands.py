"""Views of stored arrays, and what is computed first, as operands of sweeps and loop nests.

A view that was no box was read by a function that no plan knew of, its tiles again and again.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outcrop as oc

pytest.importorskip("numba")

LAYOUTS: dict[str, dict[str, Any]] = {
    "zarr": {},
    "small tiles": {"tile": (2, 21, 35)},
    "zstd": {"tile": (1, 60, 50), "codecs": "zstd"},
    "C": {"format": "npy"},
    "F": {"format": "npy", "order": "F"},
}

VIEWS: dict[str, Callable[[Any], Any]] = {
    "one of several": lambda a: a[2],
    "transposed": lambda a: a[1].T,
    "backwards": lambda a: a[1, ::-1, ::-1],
    "turned": lambda a: a[3, 10:150, 9:].T[::-1],
    "across": lambda a: a[:, 7],
    "across, turned": lambda a: a[::-1, :, 20].T,
    "part": lambda a: a[0, 3:170, 5:],
    "stepped": lambda a: a[2, ::2, 1::3],
    "new axis": lambda a: a[2, 5][:, None],
    "computed": lambda a: a[2] + 1,
    "computed, turned": lambda a: (a[1] * 2).T[::-1],
}


def plain(u: np.ndarray, f: np.ndarray) -> np.ndarray:
    """A sweep of Jacobi's method, whose boundaries stay."""
    new = u.copy()
    inner = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - f[1:-1, 1:-1]
    new[1:-1, 1:-1] = inner / 4
    return new


relaxed = oc.sweeps.jacobi


@oc.loops
def added(a, b, c, n, m):  # type: ignore[no-untyped-def]
    for i in range(n):
        for j in range(m):
            c[i, j] = a[i, j] + 2 * b[i, j]


@pytest.fixture
def cube() -> np.ndarray:
    return np.random.default_rng(3).random((4, 180, 170))


def agree(plan: oc.Plan) -> None:
    run = oc.last_run()
    assert run is not None
    assert (run.bytes_read, run.bytes_written) == (plan.bytes_read, plan.bytes_written)
    assert run.peak_bytes <= oc.config().memory


@pytest.mark.parametrize("memory", ["2MiB", "16MiB"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("view", VIEWS)
def test_sweeps(view: str, layout: str, memory: str, cube: np.ndarray, tmp_path: Path) -> None:
    oc.asarray(cube).save(tmp_path / "a", **LAYOUTS[layout])
    expected = VIEWS[view](cube)
    with oc.config(memory=memory):
        given = VIEWS[view](oc.open(tmp_path / "a"))
        swept = relaxed(given, given)
        plan = oc.plan(swept, tmp_path / "b.zarr")
        swept.save(tmp_path / "b.zarr")
        agree(plan)
        # A tile with part of a section costs all of it, and one that lies across others, those.
        most = cube.nbytes if layout == "zarr" or "across" in view else expected.nbytes
        assert memory == "2MiB" or plan.bytes_read < 4 * most + (1 << 20)
    found = oc.open(tmp_path / "b.zarr").compute()
    np.testing.assert_allclose(found, plain(expected, expected), rtol=1e-14)


@pytest.mark.parametrize("memory", ["2MiB", "16MiB"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("view", VIEWS)
def test_nests(view: str, layout: str, memory: str, cube: np.ndarray, tmp_path: Path) -> None:
    pytest.importorskip("islpy")
    oc.asarray(cube).save(tmp_path / "a", **LAYOUTS[layout])
    expected = VIEWS[view](cube)
    with oc.config(memory=memory):
        given = VIEWS[view](oc.open(tmp_path / "a"))
        oc.zeros(expected.shape).save(tmp_path / "c.zarr", tile=(40, 50))
        with oc.open(tmp_path / "c.zarr", "r+") as result:
            plan = added.plan(given, given, result, *expected.shape)
            added(given, given, result, *expected.shape)
            agree(plan)
    found = oc.open(tmp_path / "c.zarr").compute()
    np.testing.assert_array_equal(found, expected + 2 * expected)


def test_what_memory_keeps_is_not_planned_again(cube: np.ndarray, tmp_path: Path) -> None:
    oc.asarray(cube).save(tmp_path / "a.zarr")
    with oc.config(memory="64MiB"):
        small = oc.open(tmp_path / "a.zarr")[1] + 1
        swept = relaxed(small, small)
        plan = oc.plan(swept, tmp_path / "b.zarr")
        assert plan.bytes_read == 0
        swept.save(tmp_path / "b.zarr")
        agree(plan)


def test_expressions_of_sweeps_are_planned_with_them(cube: np.ndarray, tmp_path: Path) -> None:
    oc.asarray(cube).save(tmp_path / "a.zarr", tile=(1, 50, 50))
    with oc.config(memory="1MiB"):
        given = oc.open(tmp_path / "a.zarr")[1]
        doubled = relaxed(given, given, sweeps=4) * 2
        plan = oc.plan(doubled, tmp_path / "b.zarr")
        assert "computed first" in plan.explain()
        doubled.save(tmp_path / "b.zarr")
        agree(plan)


@pytest.mark.parametrize("what", ["one", "both", "sum"])
@pytest.mark.parametrize("memory", ["1MiB", "1536KiB", "2MiB", "4MiB"])
def test_plans_do_not_count_on_what_planning_leaves_in_memory(
    memory: str, what: str, tmp_path: Path
) -> None:
    """Operands are computed for a plan, and their tiles stayed: the run then read less."""
    u, f = np.random.default_rng(1).random((2, 500, 500))
    oc.asarray(u).save(tmp_path / "u.zarr", tile=(64, 64))
    oc.asarray(f).save(tmp_path / "f.zarr")
    with oc.config(memory=memory):
        one, other = oc.open(tmp_path / "u.zarr"), oc.open(tmp_path / "f.zarr")
        one[:100].compute(), other.sum().compute()
        given = {"one": (one * 2, other), "both": (one * 2, other + 1), "sum": (one + other, other)}
        swept = relaxed(*given[what], sweeps=2)
        plan = oc.plan(swept, tmp_path / "v.zarr")
        swept.save(tmp_path / "v.zarr")
        agree(plan)
    expected = {"one": (u * 2, f), "both": (u * 2, f + 1), "sum": (u + f, f)}[what]
    found = oc.open(tmp_path / "v.zarr").compute()
    wanted = plain(plain(*expected), expected[1])
    np.testing.assert_allclose(found, wanted, rtol=1e-13)
