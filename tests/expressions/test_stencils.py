"""Several views of one array that overlap: it is read once, and a step of a loop is a pass."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import outcrop as oc

few = settings(
    max_examples=60,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def five_points(u: Any) -> Any:
    return (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]) / 4


def rolled(u: Any) -> Any:
    return (np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1)) / 4


def padded(u: Any) -> Any:
    return np.pad(five_points(u), 1)


def at_its_edges(u: Any) -> Any:
    return five_points(np.pad(u, 1, mode="edge"))


def around_a_torus(u: Any) -> Any:
    return five_points(np.pad(u, 1, mode="wrap"))


def all_around(u: Any) -> Any:
    m, n = (extent - 2 for extent in u.shape)
    return sum((i + 3 * j) * u[i : i + m, j : j + n] for i in range(3) for j in range(3))


STENCILS: dict[str, Callable[[Any], Any]] = {
    "differences of rows": lambda u: np.diff(u, axis=0),
    "differences of columns": lambda u: np.diff(u, axis=1),
    "differences of differences": lambda u: np.diff(u, n=4, axis=0),
    "differences of a transpose": lambda u: np.diff(u.T, axis=1),
    "differences backwards": lambda u: np.diff(u[::-1], axis=0),
    "five points": five_points,
    "all around": all_around,
    "with itself": lambda u: u[1:] * u[:-1] + u[1:],
    "with all": lambda u: u - np.roll(u, 3, axis=0),
    "rows and columns of one": lambda u: u[1:-1, 5] - u[:-2, 4],
    "with all, over the ends of rows": lambda u: u - np.roll(u, 7),
    "new axes": lambda u: u[1:, None, :] - u[:-1, None, :],
    "every other": lambda u: u[::2] - u[1::2],
    "sums": lambda u: np.abs(np.diff(u, axis=0)).sum(axis=0),
    "products": lambda u: u[1:].T @ u[:-1],
    "running": lambda u: np.cumsum(u, axis=0)[7:] - np.cumsum(u, axis=0)[:-7],
    "rolled": rolled,
    "padded": padded,
    "padded with what is at the edge": at_its_edges,
    "padded with what is at the other edge": around_a_torus,
    "off in both axes": lambda u: u[1:, 1:] - u[:-1, :-1],
    "backwards and off": lambda u: u[::-1][1:, 3:] - u[:-1, 3:],
    "one view": lambda u: u[1:, 1:] * 2,
    "joined at its ends": lambda u: np.concatenate(
        [u[1:2] - u[:1], u[2:] - u[:-2], u[-1:] - u[-2:-1]]
    ),
    "taken": lambda u: five_points(u[:100])[np.arange(0, 90, 7)],
    "reshaped": lambda u: five_points(u)[:, 3:].reshape(-1),
    "parts of one": lambda u: five_points(u)[3:-3, 2:9] * 2,
    "in several steps": lambda u: five_points(five_points(five_points(u))),
    "stencils of several": lambda u: (
        five_points(five_points(u) * u[1:-1, 1:-1]) - rolled(u)[2:-2, 2:-2]
    ),
}

FLATTENED: dict[str, Callable[[Any], Any]] = {
    "differences of all elements": lambda u: np.diff(u.reshape(-1)),
    "backwards over the ends of rows": lambda u: u.reshape(-1)[:0:-2] - u.reshape(-1)[-2::-2],
    "differences of folded columns": lambda u: np.diff(u.reshape(60, -1)[2:, 5:], axis=1),
    "differences of folded rows": lambda u: np.diff(u.reshape(20, 30, 150)[:, :, 3], axis=1),
}

VALUES = np.random.default_rng(7).integers(-50, 50, (600, 150)).astype("float64")


@pytest.mark.parametrize(
    "layout", ["npy", "zarr", "F", "memory", "function", "stepped", "computed"]
)
@pytest.mark.parametrize("name", STENCILS)
def test_as_numpy_has_them(desk: Any, name: str, layout: str) -> None:
    stencil = STENCILS[name]
    desk.check(
        stencil(desk.put(VALUES, layout)), stencil(VALUES), digits=0 if name != "products" else 200
    )


@pytest.mark.parametrize("layout", ["npy", "zarr", "F", "memory", "function", "computed"])
@pytest.mark.parametrize("name", FLATTENED)
def test_of_elements_in_another_shape(desk: Any, name: str, layout: str) -> None:
    desk.check(FLATTENED[name](desk.put(VALUES, layout)), FLATTENED[name](VALUES), digits=0)


@pytest.mark.parametrize("layout", ["npy", "zarr"])
@pytest.mark.parametrize(
    "name",
    [
        *("differences of rows", "differences of columns", "differences of differences"),
        *("differences of a transpose", "five points", "all around", "with itself"),
        *(
            "with all",
            "with all, over the ends of rows",
            "every other",
            "sums",
            "rolled",
            "off in both axes",
            "one view",
        ),
        *("padded with what is at the edge", "padded with what is at the other edge"),
    ],
)
def test_what_is_viewed_is_read_once(desk: Any, name: str, layout: str) -> None:
    values = np.tile(VALUES, (8, 1))
    with oc.config(memory="2MiB"):
        array = desk.put(values, layout, tile=(100, 150))
        plan = oc.plan(STENCILS[name](array))
    assert plan.bytes_read < 1.15 * values.nbytes


@pytest.mark.parametrize("layout", ["F", "zarr"])
def test_what_is_flattened_is_moved_once(desk: Any, layout: str) -> None:
    """Elements in another order than on disk are brought in order once for all views of them."""
    values = np.tile(VALUES, (8, 1))
    with oc.config(memory="2MiB"):
        flat = desk.put(values, layout, tile=(100, 150)).reshape(-1)
        one, several = oc.plan(flat[1:] * 2), oc.plan(np.diff(flat, n=3))
    assert several.bytes_read < 1.1 * one.bytes_read + values.nbytes
    assert several.bytes_written < 1.1 * one.bytes_written + values.nbytes


@pytest.mark.parametrize("step", [five_points, padded, rolled, at_its_edges, around_a_torus])
@pytest.mark.parametrize("layout", ["npy", "zarr"])
def test_a_step_of_a_loop_is_a_pass(desk: Any, step: Callable[[Any], Any], layout: str) -> None:
    """What a step makes is written, and read again, and no more than that."""
    values, steps = np.tile(VALUES, (8, 1)), 6
    with oc.config(memory="2MiB"):
        u, expected = desk.put(values, layout, tile=(100, 150)), values
        for _ in range(steps):
            u, expected = step(u), step(expected)
        plan = oc.plan(u)
        assert plan.bytes_read < 1.15 * steps * values.nbytes
        assert plan.bytes_written < 1.15 * steps * values.nbytes
        desk.check(u, expected, digits=0)


def test_long_loops_are_planned(desk: Any) -> None:
    """The steps of a loop are not multiplied by those before."""
    u, expected = desk.put(VALUES, "npy"), VALUES
    for _ in range(40):
        u, expected = padded(u), padded(expected)
    assert oc.plan(u).explain().count("computes") <= 2 * 40
    desk.check(u, expected, digits=0)


def test_what_is_saved_on_the_way(desk: Any) -> None:
    """A stencil that is a result itself is taken from there."""
    first = five_points(desk.put(VALUES, "npy"))
    second = np.diff(five_points(first), axis=0)
    oc.save({desk.path / "first.zarr": first, desk.path / "second.zarr": second})
    made = [oc.open(desk.path / name) for name in ("first.zarr", "second.zarr")]
    expected = five_points(VALUES)
    with oc.config(memory="64MiB"):
        desk.compare(made[0].compute(), expected, digits=0)
        desk.compare(made[1].compute(), np.diff(five_points(expected), axis=0), digits=0)


@st.composite
def programs(draw: st.DrawFn) -> Callable[[Any], Any]:
    """Views of an array, of what is made of them, and so on."""
    steps = draw(
        st.lists(
            st.tuples(st.sampled_from("dsrptfcm"), st.integers(0, 3), st.integers(0, 1)), max_size=5
        )
    )

    def run(u: Any) -> Any:
        for kind, n, axis in steps:
            k = min(n + 1, u.shape[axis] - 1)
            low, high = [slice(None)] * 2, [slice(None)] * 2
            low[axis], high[axis] = slice(None, -k or None), slice(k, None)
            if kind == "d" and k:
                u = u[tuple(high)] - u[tuple(low)]
            elif kind == "s" and k:
                u = u[tuple(high)] * 2 + u[tuple(low)][::-1]
            elif kind == "r":
                u = u + np.roll(u, n, axis)
            elif kind == "p":
                u = np.pad(u, ((n, 1), (0, n)))
            elif kind == "t":
                u = u.T
            elif kind == "f":
                u = np.flip(u, axis) + u
            elif kind == "c":
                u = np.concatenate([u, u[tuple(high)]], axis=axis)
            elif kind == "m":
                u = u - u.mean(axis=axis, keepdims=True).round()
        return u

    return run


@few
@given(
    program=programs(),
    layout=st.sampled_from(["npy", "zarr", "F", "memory", "stepped"]),
    operations=st.sampled_from([0, 12]),
)
def test_any_stencils(
    tiny: Any,
    monkeypatch: pytest.MonkeyPatch,
    program: Callable[[Any], Any],
    layout: str,
    operations: int,
) -> None:
    monkeypatch.setattr("outcrop.expressions.rewrite.common_views._SMALL", 1 << 30)
    monkeypatch.setattr("outcrop.expressions.rewrite.stencils._CHEAP", operations)
    desk, values = tiny, VALUES[:80, :30]
    expected = program(values)
    desk.check(program(desk.put(values, layout)), expected, digits=200)
