"""What NumPy's users type without thinking: the same results, types and errors."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outcrop as oc

Asked = Callable[[Any], Any]

V = np.arange(24.0).reshape(2, 3, 4) - 7
B = np.array([[True, False], [False, True]])


@pytest.mark.parametrize(
    ("values", "asked"),
    [
        (B, lambda x: x**2),
        (B, lambda x: x**3),
        (V, lambda x: x**2),
        (V.astype("i2"), lambda x: x**2),
        (V, lambda x: x**2.0),
        (V, lambda x: x == None),  # noqa: E711
        (V, lambda x: x != None),  # noqa: E711
        (V, lambda x: x == "seven"),
        (V, lambda x: x == 3),
        (V, lambda x: x.reshape(4, 6, order="F")),
        (V, lambda x: x.reshape((3, -1), order="C")),
        (V, lambda x: x.ravel("F")),
        (V, lambda x: x.flatten("F")),
        (V, lambda x: np.reshape(x, (6, 4), order="F")),
        (V, lambda x: np.ravel(x, "F")),
        (V, lambda x: x.astype("i4", casting="unsafe")),
        (V, lambda x: x.astype("c16", casting="safe")),
        (V, lambda x: np.take(x, 3)),
        (V, lambda x: np.take(x, [3, -1])),
        (V, lambda x: np.take(x, [[3, 1], [0, 2]], axis=-1)),
        (V, lambda x: np.take(x, 1, axis=1)),
        (V, lambda x: x.take([[1, 0]], 1)),
        (V, lambda x: np.nan_to_num(np.where(x > 0, x, np.nan), nan=x.mean())),
        (V, lambda x: np.nan_to_num(np.where(x > 0, x, np.nan), nan=x[0, 0])),
    ],
)
def test_results(desk: Any, values: Any, asked: Asked) -> None:
    desk.check(asked(desk.put(values, "npy")), asked(values), digits=4)


@pytest.mark.parametrize(
    ("asked", "kind"),
    [
        (lambda x: x.sum(axis=3), oc.AxisError),
        (lambda x: np.transpose(x, (0, 1, 5)), oc.AxisError),
        (lambda x: np.concatenate([x, x], axis=-4), oc.AxisError),
        (lambda x: np.flip(x, axis=3), oc.AxisError),
        (lambda x: x.astype("i4", casting="safe"), oc.InvalidTypeError),
        (lambda x: x.astype("i4", casting="perhaps"), oc.InvalidArgumentError),
        (lambda x: x.reshape(-1, order="Z"), oc.InvalidArgumentError),
        (lambda x: x.reshape(-1, order="K"), oc.UnsupportedError),
        (lambda x: np.take(x, 30), oc.BoxIndexError),
        (lambda x: x.reshape(-1, 4, -1), oc.InvalidArgumentError),
        (lambda x: np.stack([x, x.T]), oc.InvalidArgumentError),
        (lambda x: np.stack([]) if isinstance(x, np.ndarray) else oc.stack([]), ValueError),
    ],
)
def test_errors(desk: Any, asked: Asked, kind: type[Exception]) -> None:
    X = desk.put(V, "npy")
    with pytest.raises(kind) as caught:
        asked(X)
    with pytest.raises(Exception) as theirs:
        asked(V)
    assert isinstance(caught.value, oc.OutcropError)
    assert isinstance(caught.value, type(theirs.value))


def test_axes_that_are_not_there(desk: Any) -> None:
    with pytest.raises(oc.AxisError) as caught:
        desk.put(V, "npy").sum(axis=5)
    assert isinstance(caught.value, np.exceptions.AxisError)
    assert (caught.value.axis, caught.value.ndim) == (5, 3)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again)) == (oc.AxisError, str(caught.value))


def test_membership(desk: Any) -> None:
    X = desk.put(V, "npy")
    assert 3 in X
    assert 300 not in X
    assert None not in X


def test_what_makes_no_sense(desk: Any, tmp_path: Path) -> None:
    X = desk.put(V, "npy")
    with pytest.raises(oc.InvalidTypeError, match="function of blocks"):
        oc.map(3, X)  # type: ignore[arg-type]
    with pytest.raises(oc.InvalidArgumentError, match="at least one array"):
        oc.map(np.sin)
    with pytest.raises(TypeError, match=r"sum\(\) takes 1 positional"):
        oc.sum(X, 0)  # type: ignore[misc]
    with pytest.raises(TypeError, match=r"nanmean\(\) got .*'axes'"):
        oc.nanmean(X, axes=0)  # type: ignore[call-arg]
    with pytest.raises(oc.InvalidArgumentError, match="low >= high"):
        oc.random.default_rng(1).integers(5, 0, 7)
    plan = oc.plan(X + 1)
    with pytest.raises(oc.StorageError, match="No such file"):
        plan.show(tmp_path / "missing" / "plan.svg")
    with pytest.raises(oc.UnsupportedError, match=r"\.svg, \.png or \.pdf"):
        plan.show(tmp_path / "plan.gif")


def test_results_that_are_held_are_named(desk: Any) -> None:
    X = desk.put(np.ones((3000, 100)), "npy")
    with oc.config(memory="8MiB"):
        held = []
        with pytest.raises(oc.BudgetError, match="held by arrays in memory") as caught:
            for _ in range(20):
                held.append(X[:1500].compute())
        assert 1 < len(held) < 8
        assert caught.value.needed > 8 << 20
        held.clear()
        X[:1500].compute()


def test_masked_elements_are_refused() -> None:
    """They were taken for others, in silence, where they were the second operand."""
    masked = np.ma.masked_array(np.arange(6.0), mask=[0, 1] * 3)
    x = oc.ones(6)
    for asked in (lambda: x + masked, lambda: np.add(masked, x), lambda: oc.asarray(masked)):
        with pytest.raises(oc.UnsupportedError, match="masked"):
            asked()
    whole = np.ma.masked_array(np.arange(6.0))
    np.testing.assert_array_equal((x + whole).compute(), np.arange(6.0) + 1)
    np.testing.assert_array_equal((x + masked.filled(7)).compute(), masked.filled(7) + 1)
