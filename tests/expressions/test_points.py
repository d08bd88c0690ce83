"""Keys with arrays along several axes, and masks of several, against NumPy."""

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import outcrop as oc

RNG = np.random.default_rng(23)
SHAPE = (40, 30, 26, 8)
VALUES = RNG.integers(0, 1000, SHAPE)

few = settings(
    max_examples=30,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

SHAPES = [(), (3,), (5, 3), (1,), (5, 1), (2, 5, 3), (0,)]


@st.composite
def keys(draw: st.DrawFn) -> tuple[Any, ...]:
    """Keys with several arrays, masks, integers, slices and new axes."""
    chance = np.random.default_rng(draw(st.integers(0, 999)))
    shapes = draw(st.sampled_from([SHAPES[:6], [(0,), (1,)], [(500,), (1,)], [(6, 7)]]))
    key: list[Any] = []
    axis = 0
    while axis < len(SHAPE):
        kind = draw(st.sampled_from(["array", "array", "slice", "integer", "mask", "new"]))
        n = SHAPE[axis]
        if kind == "new":
            key.append(None)
            axis -= 1
        elif kind == "integer":
            key.append(int(chance.integers(-n, n)))
        elif kind == "slice":
            key.append(slice(None, None, int(chance.choice([1, 2, -1, -3]))))
        elif kind == "mask" and len(shapes) == 2 and axis + 1 < len(SHAPE):
            chosen = np.zeros(SHAPE[axis : axis + 2], bool)
            chosen.ravel()[: shapes[0][0]] = True
            chosen = chance.permuted(chosen.ravel()).reshape(chosen.shape)
            key.append(chosen)
            axis += 1
        else:
            key.append(chance.integers(-n, n, shapes[chance.integers(len(shapes))]))
        axis += 1
    return tuple(key[: draw(st.integers(1, len(key)))])


@few
@given(key=keys(), layout=st.sampled_from(["zarr", "npy", "F", "transposed", "reversed", "memory"]))
def test_any_key(desk: Any, key: tuple[Any, ...], layout: str) -> None:
    try:
        expected = VALUES[key]
    except IndexError as error:
        with pytest.raises(IndexError, match=str(error)[:20]):
            desk.put(VALUES, layout)[key]
        return
    X = desk.put(VALUES, layout)
    with oc.config(memory="4MiB"):
        desk.check(X[key], expected)


@pytest.mark.parametrize("layout", ["zarr", "npy", "F"])
def test_masks(desk: Any, layout: str) -> None:
    X = desk.put(VALUES, layout)
    mask = RNG.random(SHAPE) < 0.01
    desk.check(X[mask], VALUES[mask])
    desk.check(X[X % 97 == 3], VALUES[VALUES % 97 == 3])
    desk.check(X[:, mask[0]], VALUES[:, mask[0]])
    few_ = RNG.random(SHAPE[:2]) < 0.1
    desk.check(X[few_] + 1, VALUES[few_] + 1)
    desk.check(X[oc.asarray(few_), ..., 2], VALUES[few_, ..., 2])


def test_nonzero(desk: Any) -> None:
    values = np.where(RNG.random(SHAPE) < 0.01, VALUES, 0)
    X = desk.put(values, "zarr")
    for one, other in zip(np.nonzero(X), np.nonzero(values), strict=True):
        desk.compare(one.compute(), other)
    desk.check(X[np.nonzero(values)], values[np.nonzero(values)])
    desk.check(X[oc.nonzero(X)], values[np.nonzero(values)])


def test_few_places_are_few_reads(desk: Any) -> None:
    values = RNG.random((2000, 900))
    X = desk.put(values, "npy")
    rows, columns = RNG.integers(0, 2000, 50), RNG.integers(0, 900, 50)
    assert oc.plan(X[rows, columns]).bytes_read < 0.05 * values.nbytes
    desk.check(X[rows, columns], values[rows, columns])
    desk.check(X[rows, columns] - X.mean(), values[rows, columns] - values.mean())
    shuffled = RNG.permutation(14_000)
    many = RNG.integers(0, 2000, 14_000)[shuffled], RNG.integers(0, 900, 14_000)
    with oc.config(memory="4MiB"):
        assert oc.plan(X[many]).bytes_read < 3 * values.nbytes
        desk.check(X[many], values[many])


def test_places_in_views_that_lie_otherwise(desk: Any) -> None:
    """They are sorted as they lie in the file."""
    values = RNG.random((900, 800))
    X = desk.put(values, "F")[::-1, 1::3]
    chosen = RNG.integers(0, 900, 6000), RNG.integers(0, 266, 6000)
    with oc.config(memory="3MiB"):
        assert oc.plan(X[chosen]).bytes_read < 3 * values.nbytes
        desk.check(X[chosen], values[::-1, 1::3][chosen])


def test_what_is_refused(desk: Any) -> None:
    X = desk.put(VALUES, "zarr")
    for key, words in (
        (([1, 2], [3, 4, 5]), "could not be broadcast"),
        (([1, 2], [3, 40]), "out of bounds"),
        ((np.ones((40, 29), bool),), "did not match"),
        ((np.ones((40, 30), bool), 0, 0, 0), "too many"),
        (([1], ..., [2], ...), "single ellipsis"),
        (([1], [1.5]), "integer"),
    ):
        with pytest.raises(IndexError, match=words):
            X[key]
        with pytest.raises(IndexError):
            VALUES[key]
    with (
        oc.open(X._source.path, "r+") as target,
        pytest.raises(oc.UnsupportedError, match="assignment"),
    ):
        target[[1, 2], [3, 4]] = 1
