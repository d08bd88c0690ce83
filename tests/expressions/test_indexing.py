"""Indexing and assignment with arrays, against NumPy."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import outcrop as oc

RNG = np.random.default_rng(6)
SHAPE = (37, 11, 9)

few = settings(
    max_examples=50,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def same(got: Any, expected: Any) -> None:
    assert isinstance(got, oc.Array)
    assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_array_equal(got.compute(), expected)


@st.composite
def array_keys(draw: st.DrawFn) -> tuple[Any, ...]:
    """A key with one array in it."""
    # What is drawn depends on nothing else.
    chance = np.random.default_rng(draw(st.integers(0, 99)))
    key: list[Any] = []
    at = draw(st.integers(0, 2))
    for axis, n in enumerate(SHAPE[: draw(st.integers(at + 1, 3))]):
        if axis == at:
            kind = draw(st.sampled_from(["few", "many", "mask", "sorted", "square", "list"]))
            many = draw(st.integers(0, 60))
            if kind == "mask":
                key.append(chance.random(n) > draw(st.sampled_from([0.0, 0.1, 0.5, 1.0])))
            elif kind == "square":
                key.append(chance.integers(-n, n, (3, 4)))
            elif kind == "list":
                key.append(chance.integers(-n, n, many).tolist())
            else:
                chosen = chance.integers(-n, n, 3 if kind == "few" else many)
                key.append(np.sort(chosen) if kind == "sorted" else chosen.astype("int16"))
        else:
            item = draw(st.sampled_from(["int", "slice", "steps", "whole", "new"]))
            key += [None] * (item == "new")
            key.append(
                draw(st.integers(-n, n - 1))
                if item == "int"
                else slice(1, n - 1)
                if item == "slice"
                else slice(None, None, -2)
                if item == "steps"
                else slice(None)
            )
    if draw(st.booleans()) and len(key) < 4:
        key.insert(draw(st.integers(0, len(key))), Ellipsis)
    return tuple(key)


def aligned(key: tuple[Any, ...]) -> bool:
    """Whether NumPy takes the key: an ellipsis moves what comes behind it to other axes."""
    try:
        np.zeros(SHAPE)[key]
    except IndexError:
        return False
    return True


@few
@given(key=array_keys().filter(aligned))
def test_any_key(tiny: Any, key: tuple[Any, ...]) -> None:
    plain = RNG.integers(0, 99, SHAPE)
    if not hasattr(tiny, "array"):
        tiny.plain, tiny.array = plain, tiny.put(plain, "npy")
    plain, array = tiny.plain, tiny.array
    row = np.arange(9)
    same(array[key], plain[key])
    same((array * row)[key], (plain * row)[key])
    same(array.cumsum(0)[key] + 1, plain.cumsum(0)[key] + 1)
    same((array[key] * 2)[::-1], (plain[key] * 2)[::-1])
    same(oc.concat([array, array], axis=1)[:, :11][key], plain[key])


@few
@given(key=array_keys().filter(aligned), data=st.data())
def test_any_assignment(desk: Any, key: tuple[Any, ...], data: st.DataObject) -> None:
    if any(np.ndim(item) > 1 for item in key if item is not None):
        return
    plain = RNG.integers(0, 99, SHAPE).astype("float32")
    array = oc.create(
        desk.path / "assigned.zarr", SHAPE, "float32", tile=(10, 5, 4), overwrite=True
    )
    array[...] = plain
    memory = oc.asarray(plain.copy())
    wanted = plain[key].shape
    value: Any = RNG.random(wanted)
    if data.draw(st.booleans(), "broadcast"):
        value = value[..., :1] if value.ndim else 7
    for target in (array, memory):
        lazy = oc.asarray(value) * 2 if data.draw(st.booleans(), "lazy") else value * 2
        target[key] = lazy
    plain[key] = value * 2
    np.testing.assert_array_equal(array.compute(), plain)
    np.testing.assert_array_equal(memory.compute(), plain)
    array.abort()


def test_masks(desk: Any) -> None:
    plain = RNG.standard_normal((4000, 7))
    array = desk.put(plain, "npy")
    column = plain[:, 2]
    lazy = array[:, 2] > 0.3
    desk.check(array[lazy], plain[column > 0.3])
    desk.check(array[lazy, 1:5:2].sum(0), plain[column > 0.3, 1:5:2].sum(0))
    desk.check(np.exp(array)[column > 2], np.exp(plain)[column > 2])
    desk.check(np.compress(lazy, array, axis=0), plain[column > 0.3])
    desk.check(np.compress([True, False, True], array), np.compress([True, False, True], plain))
    desk.check(np.extract(array > 2, array), np.extract(plain > 2, plain))
    desk.check(array.reshape(-1)[(array > 2).reshape(-1)], plain[plain > 2])
    desk.check(np.flatnonzero(array > 2), np.flatnonzero(plain > 2))
    desk.check(array[:, 0].nonzero()[0], plain[:, 0].nonzero()[0])
    desk.check(oc.take(array, oc.asarray([3, -1]), axis=1), plain[:, [3, -1]])
    desk.check(array[column > 99], plain[column > 99])


def test_few_rows_are_few_reads(desk: Any) -> None:
    plain = RNG.standard_normal((4000, 100))
    array = desk.put(plain, "npy")
    plan = oc.plan(np.sqrt(array * array)[[5, 3000, 1500]] + 0)
    assert plan.bytes_read <= 3 * (800 + 2 * 4096)


def test_indices_are_kept_as_they_were(desk: Any) -> None:
    plain = RNG.standard_normal((100, 3))
    array = desk.put(plain)
    chosen = RNG.integers(0, 100, 50)
    expected = plain[chosen]
    lazy = array[chosen]
    chosen[:] = 0
    desk.check(lazy + 0, expected)


def test_assignment_to_masks_of_all_axes(desk: Any) -> None:
    plain = RNG.standard_normal((300, 200))
    with oc.create(desk.path / "a.zarr", plain.shape, tile=(70, 60)) as array:
        array[...] = plain
        array[array < 0] = 0
        plain[plain < 0] = 0
        # The mask is what it was, whatever is written.
        array[array[::-1] > 1] = oc.asarray(-5.0)
        plain[plain[::-1] > 1] = -5
        array[:, 20:30][plain[:, 20:30] > 0.5] = 9
        plain[:, 20:30][plain[:, 20:30] > 0.5] = 9
        np.testing.assert_array_equal(array.compute(), plain)
        with pytest.raises(oc.UnsupportedError, match=r"oc\.where"):
            array[plain > 0] = np.ones((plain > 0).sum())
        with pytest.raises(IndexError, match="did not match"):
            array[plain[:5] > 0] = 1


def test_assignment_of_expressions(desk: Any) -> None:
    """What is assigned is what it was before, also where it is made of what is assigned to."""
    plain = RNG.standard_normal((500, 120))
    with oc.create(desk.path / "a.zarr", plain.shape, tile=(70, 60)) as array:
        array[...] = plain
        array[1:] = array[:-1] + 1
        plain[1:] = plain[:-1] + 1
        array[...] = array[::-1] * 2 - array.mean(0)
        plain[...] = plain[::-1] * 2 - plain.mean(0)
        array[100:200, ::3] = array[:100, ::3].cumsum(1)
        plain[100:200, ::3] = plain[:100, ::3].cumsum(1)
        rows = array[:50]
        array[np.arange(99, 49, -1)] = rows + 1
        plain[np.arange(99, 49, -1)] = plain[:50] + 1
        array[[3, 4, 5]] = array[[4, 5, 6]]
        plain[[3, 4, 5]] = plain[[4, 5, 6]]
        np.testing.assert_allclose(array.compute(), plain, rtol=1e-12, atol=1e-9)


def test_what_is_refused(desk: Any, tmp_path: Path) -> None:
    plain = RNG.standard_normal((30, 20))
    array = desk.put(plain)
    for key, error, words in (
        (np.array([1.5]), IndexError, "integer"),
        (np.ones(29, bool), IndexError, "size of axis is 30"),
        ([30], IndexError, "out of bounds"),
        ([-31], IndexError, "out of bounds"),
        ((0, 0, [1]), IndexError, "too many"),
        ((..., [1], ...), IndexError, "single ellipsis"),
        (["a"], IndexError, "integer"),
    ):
        with pytest.raises(error, match=words):
            array[key]
    with pytest.raises(ValueError, match="read-only"):
        array[[1]] = 0
    with pytest.raises(ValueError, match="broadcast"):
        oc.asarray(plain.copy())[[1, 2]] = np.ones((3, 20))
    with (
        oc.create(tmp_path / "w.zarr", (30, 20)) as target,
        pytest.raises(ValueError, match="broadcast"),
    ):
        target[[1, 2]] = np.ones((3, 20))
