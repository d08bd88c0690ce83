"""Basic indexing selects what NumPy selects, wherever the elements are."""

from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis.extra import numpy as hnp

import outcrop as oc

SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=9)


def numbered(shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)


def formula(shape: tuple[int, ...]) -> oc.Array:
    def number(*indices: np.ndarray) -> Any:
        total: Any = 0
        for index, extent in zip(indices, shape, strict=True):
            total = total * extent + index
        return total

    return oc.fromfunction(number, shape, "int32")


@st.composite
def shape_and_keys(draw: st.DrawFn) -> tuple[tuple[int, ...], list[Any]]:
    shape = draw(SHAPES)
    array, keys = np.empty(shape), []
    for _ in range(draw(st.integers(1, 3))):
        key = draw(hnp.basic_indices(array.shape, allow_newaxis=True, max_dims=6))
        # The ellipsis keeps NumPy from turning a 0-d result into a scalar.
        array = array[key] if isinstance(array[key], np.ndarray) else np.empty(())
        keys.append(key)
    return shape, keys


@given(shape_and_keys())
@example(((3,), [None, (slice(0, 0), 1)]))
@example(((5, 5), [(slice(None, None, -2), -1), slice(2, None, -1)]))
def test_chains_of_keys_in_memory_and_of_functions(case: tuple[tuple[int, ...], list[Any]]) -> None:
    shape, keys = case
    expected = numbered(shape)
    memory, function = oc.asarray(expected), formula(shape)
    for key in keys:
        expected, memory, function = expected[key], memory[key], function[key]
    for array in (memory, function):
        result = array.compute()
        assert isinstance(result, np.ndarray)
        assert array.shape == result.shape == np.shape(expected)
        assert array.dtype == result.dtype
        np.testing.assert_array_equal(result, expected)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=shape_and_keys(), data=st.data())
def test_chains_of_keys_on_disk(
    case: tuple[tuple[int, ...], list[Any]], data: st.DataObject, tmp_path: Path
) -> None:
    shape, keys = case
    expected = numbered(shape)
    tile = data.draw(st.tuples(*(st.integers(1, 4) for _ in shape)))
    name = data.draw(st.sampled_from(["a.zarr", "a.npy"]))
    path = tmp_path / name
    zarr = name == "a.zarr"
    array = oc.asarray(expected).save(path, tile=tile if zarr else None, overwrite=True)
    for key in keys:
        expected, array = expected[key], array[key]
    np.testing.assert_array_equal(array.compute(), expected)
    np.testing.assert_array_equal(np.asarray(array, np.float64), expected)
    rebuilt = np.full(array.shape, -1)
    for where, block in array.tiles():
        assert rebuilt[where].shape == block.shape
        rebuilt[where] = block
    np.testing.assert_array_equal(rebuilt, expected)


def test_indexing_reads_nothing() -> None:
    def fail(*indices: object) -> None:
        raise AssertionError

    array = oc.fromfunction(fail, (10**9, 10**9))
    assert array[::2, 5][None, 10:20].shape == (1, 10)


def test_integers_of_every_kind() -> None:
    array = oc.asarray(np.arange(10))
    for index in (3, np.int64(3), np.uint8(3), np.array(3), oc.asarray(3)):
        assert array[index].compute() == 3
    assert array[np.int8(2) : np.int64(5)].shape == (3,)


@pytest.mark.parametrize(
    "key",
    [
        (0, 0, 0),
        (slice(None), 3),
        -3,
        (..., ...),
        1.0,
        "x",
        slice(None, None, 0),
        slice(0.5, 1),
        (None,) * 63,
        (0, None, 5),
    ],
)
def test_errors_are_numpys(key: Any) -> None:
    plain = np.zeros((2, 3))
    with pytest.raises(Exception) as expected:
        plain[key]
    with pytest.raises(oc.OutcropError) as found:
        oc.asarray(plain)[key]
    assert isinstance(found.value, type(expected.value))
    if not isinstance(key, float | str):
        assert str(found.value) == str(expected.value)


@pytest.mark.parametrize("key", [(True, True), (np.True_, slice(None), 0)])
def test_keys_that_are_refused_say_what_to_do(key: Any) -> None:
    with pytest.raises(oc.UnsupportedError, match="in two steps"):
        oc.asarray(np.zeros((2, 3)))[key]


def test_iteration_is_lazy_over_the_first_axis() -> None:
    array = oc.asarray(np.arange(6).reshape(3, 2))
    assert len(array) == 3
    rows = list(array)
    assert all(isinstance(row, oc.Array) for row in rows)
    np.testing.assert_array_equal(np.stack(rows), array)
    with pytest.raises(TypeError, match="unsized"):
        len(array[0, 0])
    with pytest.raises(TypeError, match="0-d"):
        iter(array[0, 0])


def test_pieces_of_every_kind_are_read_with_the_memory_of_one_reader(tmp_path: Path) -> None:
    # Some of the pieces are boxes and some are not.
    values = np.arange(120_000, dtype="uint32")
    oc.asarray(values).save(tmp_path / "a.zarr", tile=477)
    A, key = oc.open(tmp_path / "a.zarr")[2:], slice(-11530, None, -459)
    with oc.config(memory="256KiB"):
        for _ in range(40):
            for where, block in A[key].tiles():
                np.testing.assert_array_equal(block, values[2:][key][where])
