"""Assignment to keys does what NumPy's does, in memory and on disk."""

import warnings
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.extra import numpy as hnp

import outcrop as oc


@pytest.fixture(params=["zarr", "npy", "raw", "memory"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Make an array and its NumPy twin, both zero."""

    def make(shape: tuple[int, ...], dtype: Any, tile: Any = None) -> tuple[oc.Array, np.ndarray]:
        plain = np.zeros(shape, dtype)
        if request.param == "memory":
            return oc.asarray(plain.copy()), plain
        tile = tile if request.param == "zarr" else None
        return oc.create(tmp_path / f"a.{request.param}", shape, dtype, tile=tile), plain

    return make


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_key_any_broadcast(data: st.DataObject, tmp_path: Path) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=9))
    tile = data.draw(st.tuples(*(st.integers(1, 4) for _ in shape)))
    expected = np.zeros(shape, np.int64)
    with oc.create(tmp_path / "a.zarr", shape, "int64", tile=tile, overwrite=True) as array:
        for turn in range(2):
            key = data.draw(hnp.basic_indices(shape, allow_newaxis=True))
            target = np.shape(expected[key])
            part = tuple(1 if data.draw(st.booleans()) else n for n in target)
            part = part[data.draw(st.integers(0, len(part))) :]
            value = 1000 * turn + np.arange(int(np.prod(part))).reshape(part)
            expected[key] = value
            lazy = oc.fromfunction(lambda *i, value=value: value[i], part, "int64")
            array[key] = data.draw(
                st.sampled_from([value, value.tolist() if value.size else value, lazy])
            )
        np.testing.assert_array_equal(array.compute(), expected)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("int64", 2.7),
        ("int64", np.float32(2.7)),
        ("int16", np.array([1.5, -2.5, 70000.25])),
        ("uint8", np.array([1, 300, -1])),
        ("uint8", 300),
        ("uint8", [1, 2, 300]),
        ("float64", "1.5"),
        ("float64", "no"),
        ("float64", 1j),
        ("float64", np.array([1j, 2, 3])),
        ("bool", [0, 2, 0.5]),
        ("complex64", [1, 2j, 3.5]),
        ("float32", None),
        ("int64", np.array([1, 2, 3], ">i4")),
        ("int64", np.nan),
        ("int64", np.array([np.nan, 1, 2])),
        ("float64", np.array([[1, 2, 3]])),
        ("float64", np.array([1, 2])),
        ("float64", np.zeros((2, 3))),
        ("float64", [[1, 2], [3]]),
    ],
)
def test_casting_is_numpys(pair: Any, dtype: str, value: Any) -> None:
    array, plain = pair((3,), dtype)

    def attempt(target: Any) -> Any:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                target[...] = value
            except (TypeError, ValueError, OverflowError) as error:
                kinds = (TypeError, ValueError, OverflowError)
                return next(kind for kind in kinds if isinstance(error, kind))
        return [w.category for w in caught]

    outcome = attempt(plain)
    assert attempt(array) == outcome
    if outcome in (TypeError, ValueError, OverflowError):
        # NumPy may have got half way; here nothing is assigned.
        plain[...] = 0
    np.testing.assert_array_equal(array.compute(), plain)


def test_views_write_through(pair: Any) -> None:
    array, plain = pair((6, 8), "float64", (4, 4))
    array[1:5][:, ::-2][0] = 3
    plain[1:5][:, ::-2][0] = 3
    array[None, ..., 2][0, -1] = 5
    plain[5, 2] = 5
    np.testing.assert_array_equal(array.compute(), plain)


def test_elements_between_steps_stay(pair: Any) -> None:
    array, plain = pair((100, 50), "int32", (16, 16))
    array[...] = 1
    plain[...] = 1
    array[::7, ::-3] = plain[::7, ::-3] = np.arange(15)[:, None] + np.arange(17)
    np.testing.assert_array_equal(array.compute(), plain)


def test_a_small_budget_cuts_into_pieces(pair: Any) -> None:
    with oc.config(memory="256KiB"):
        array, plain = pair((400, 500), "float64", (64, 64))
        value = np.arange(200000.0).reshape(400, 500)
        array[::-1] = value
        plain[::-1] = value
        array[::3] = oc.fromfunction(lambda i, j: i - j, (134, 1))
        plain[::3] = np.arange(134)[:, None]
        for where, block in array.tiles():
            np.testing.assert_array_equal(block, plain[where])


def test_overlap(pair: Any) -> None:
    array, plain = pair((30,), "int64", (4,))
    array[...] = plain[...] = np.arange(30)
    array[1:] = array[:-1]
    plain[1:] = plain[:-1].copy()
    array[...] = array
    array[::-1] = array
    plain = plain[::-1]
    array[:10] = array[20:]
    plain[:10] = plain[20:].copy()
    np.testing.assert_array_equal(array.compute(), plain)


@pytest.mark.parametrize("name", ["a.zarr", "a.npy"])
def test_overlap_larger_than_a_piece(tmp_path: Path, name: str) -> None:
    options = {"tile": 1000} if name == "a.zarr" else {}
    with oc.config(memory="256KiB", scratch=tmp_path):
        array, plain = oc.create(tmp_path / name, 40000, **options), np.zeros(40000)
        array[20000:] = oc.fromfunction(lambda i: i, 20000)
        plain[20000:] = np.arange(20000)
        array[:20000] = array[20000:]
        plain[:20000] = plain[20000:]
        array[1:] = array[:-1]
        plain[1:] = plain[:-1].copy()
        array[...] = array[::-1]
        plain = plain[::-1]
        for where, block in array.tiles():
            np.testing.assert_array_equal(block, plain[where])
        array.abort()


def test_overlapping_numpy_memory() -> None:
    plain = np.arange(100000.0)
    array = oc.asarray(plain)
    with oc.config(memory="256KiB"):
        array[1:] = plain[:-1]
        array[1:] = array[:-1]
    np.testing.assert_array_equal(plain[2:], np.arange(99998))


def test_what_is_read_only_says_why(tmp_path: Path) -> None:
    oc.asarray(np.ones(3)).save(tmp_path / "a.npy")
    frozen = np.ones(3)
    frozen.flags.writeable = False
    for array, reason in (
        (oc.open(tmp_path / "a.npy"), "r\\+"),
        (oc.asarray(frozen), "NumPy array"),
        (oc.fromfunction(lambda i: i, 3), "function"),
        (oc.ones(5), r"one number in memory; oc\.asarray\(A\.compute\(\)\) can .*oc\.create"),
        (oc.full_like(frozen, 2), r"oc\.asarray\(A\.compute\(\)\)"),
        (oc.ones(5) + 1, r"not computed yet; oc\.asarray\(A\.compute\(\)\)"),
        (oc.arange(5), r"function; oc\.asarray\(A\.compute\(\)\)"),
        (oc.random.default_rng(0).random(3), r"random; oc\.asarray\(A\.compute\(\)\)"),
        # Which was an AttributeError.
        (oc.open(tmp_path / "a.npy")[[0, 1]], r"expression; oc\.asarray\(A\.compute\(\)\)"),
        (oc.open(tmp_path / "a.npy", "r+")[[0, 1]], "expression; "),
    ):
        for value in (1, oc.asarray(1)):
            with pytest.raises(oc.InvalidArgumentError, match=f"read-only.*{reason}"):
                array[...] = value
    # As the message says.
    changed = oc.asarray(oc.ones(5).compute())
    changed[0] = 7
    assert changed.compute().tolist() == [7, 1, 1, 1, 1]


def test_tiles_larger_than_the_array(tmp_path: Path) -> None:
    """What a computation leaves in memory is not taken for a tile with other rows."""
    plain = np.arange(25.0).reshape(5, 5)
    array = oc.asarray(plain).save(tmp_path / "b.zarr", tile=10)
    np.testing.assert_array_equal((array + 1).compute(), plain + 1)
    np.testing.assert_array_equal(array[2].compute(), plain[2])
    array.close()
    with oc.open(tmp_path / "b.zarr", mode="r+") as array:
        array[1:3] = 7
        plain[1:3] = 7
        np.testing.assert_array_equal((array + 1).compute(), plain + 1)
        np.testing.assert_array_equal(array.compute(), plain)


def test_one_value_for_chosen_rows(pair: Any) -> None:
    array, plain = pair((6, 5), "float64", (2, 3))
    mask = np.arange(plain.shape[0]) % 2 == 0
    for key, value in (([0, 2], 5), (mask, True), (oc.asarray(mask), np.array(3))):
        array[key] = value
        plain[mask if isinstance(key, oc.Array) else key] = value
        np.testing.assert_array_equal(array.compute(), plain)


def test_an_assignment_that_fails_between_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    old = oc.asarray(np.zeros((2000, 100)))
    calls = 0

    def failing(block: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > 10:
            raise RuntimeError("in the middle")
        return block + 7

    for name in (None, path):
        calls = 0
        old.save(path, tile=(100, 50), overwrite=True)
        with oc.config(memory="4MiB"):
            array = oc.open(path, "r+")
            with pytest.raises(RuntimeError, match="in the middle"):
                array[...] = oc.map(failing, old, dtype="f8")
            assert (array == 7).any()
            with pytest.raises(oc.StorageError, match="did not complete"):
                array.flush()
            if name:
                with pytest.raises(oc.StorageError, match="did not complete"):
                    array.close()
            else:
                array[...] = 3
                array[...] = 0
            del array
        assert not np.asarray(oc.open(path)).any()
    with oc.open(path, "r+") as array:
        array[...] = 1
    assert np.asarray(oc.open(path)).all()
