"""The Python array API standard: what functions have by it that NumPy's of that name have not."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import outcrop as oc

MATRIX = np.arange(12.0).reshape(3, 4)


@pytest.fixture(autouse=True)
def _small(tmp_path: Path) -> Any:
    with oc.config(memory="1MiB", scratch=tmp_path):
        yield


# -- namespace -------------------------------------------------------------------------------------


def test_namespace() -> None:
    array = oc.asarray(MATRIX)
    for version in (None, "2021.12", "2024.12", "2025.12"):
        assert array.__array_namespace__(api_version=version) is oc
    with pytest.raises(oc.InvalidArgumentError, match=r"2025\.12"):
        array.__array_namespace__(api_version="1999.12")
    assert array.device == "cpu"
    assert array.to_device("cpu") is array
    for call in (
        lambda: array.to_device("gpu"),
        lambda: array.to_device("cpu", stream=1),
        lambda: oc.zeros(3, device="gpu"),
        lambda: oc.asarray([1], device="gpu"),
        lambda: oc.arange(3, device="gpu"),
    ):
        with pytest.raises(oc.InvalidArgumentError, match=r"device|streams"):
            call()


def test_info() -> None:
    info = oc.__array_namespace_info__()
    assert info.default_device() in info.devices()
    assert info.capabilities()["max dimensions"] == 64
    assert info.default_dtypes()["real floating"] == oc.float64
    everything = info.dtypes()
    assert len(everything) == 13
    for name, dtype in everything.items():
        assert oc.zeros(2, dtype=getattr(oc, name)).dtype == dtype
    for kind in ("bool", "integral", "numeric", ("bool", "real floating"), "unsigned integer"):
        found = {name for name, dtype in everything.items() if oc.isdtype(dtype, kind)}
        assert info.dtypes(kind=kind, device="cpu").keys() == found
    with pytest.raises(oc.InvalidArgumentError, match="kind must be"):
        info.dtypes(kind="strange")


def test_constants() -> None:
    assert (oc.pi, oc.e, oc.inf, oc.newaxis) == (np.pi, np.e, np.inf, None)
    assert np.isnan(oc.nan)


def test_types() -> None:
    array = oc.zeros(3, dtype="float32")
    assert oc.result_type(array, oc.int16, 1) == oc.float32
    assert oc.can_cast(array, oc.float64)
    assert not oc.can_cast(array, oc.int64)
    assert oc.finfo(array).bits == 32
    assert oc.finfo(oc.complex128).dtype == oc.float64
    assert oc.iinfo(oc.asarray([1], "int8")).max == 127
    assert oc.isdtype(array.dtype, "real floating")
    for call, error in (
        (lambda: oc.finfo("int8"), oc.InvalidTypeError),
        (lambda: oc.iinfo("float32"), oc.InvalidTypeError),
        (lambda: oc.isdtype("float32", "strange"), oc.InvalidArgumentError),
        (lambda: oc.isdtype("strange", "bool"), oc.InvalidTypeError),
        (lambda: oc.result_type(), oc.InvalidArgumentError),
        (lambda: oc.result_type("strange"), oc.InvalidTypeError),
        (lambda: oc.can_cast("int8", "int16", "strange"), oc.InvalidArgumentError),
        (lambda: oc.can_cast(3, "int16"), oc.InvalidTypeError),
    ):
        with pytest.raises(error):
            call()


# -- creation --------------------------------------------------------------------------------------


@pytest.mark.parametrize("indexing", ["xy", "ij"])
@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_meshgrid(indexing: str, count: int) -> None:
    lines = [np.arange(3), np.array([1.5, 2.5]), np.arange(5)][:count]
    found = oc.meshgrid(*map(oc.asarray, lines), indexing=indexing)
    expected = np.meshgrid(*lines, indexing=indexing)  # type: ignore[call-overload]
    assert len(found) == count
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def test_meshgrid_refuses() -> None:
    with pytest.raises(oc.InvalidArgumentError, match="indexing"):
        oc.meshgrid(oc.arange(2), indexing="no")
    with pytest.raises(oc.InvalidArgumentError, match="along one axis"):
        oc.meshgrid(oc.zeros((2, 2)))


def test_a_grid_is_larger_than_memory() -> None:
    x, y = oc.meshgrid(oc.arange(3000.0), oc.arange(2000.0))
    assert float((x + y).sum()) == 3000 * 2000 * (2999 + 1999) / 2


def test_defaults() -> None:
    assert oc.zeros(2, dtype=None).dtype == oc.float64
    assert oc.eye(2, dtype=None).dtype == oc.float64
    assert oc.linspace(0, 1j, 3).compute().tolist() == [0, 0.5j, 1j]
    assert oc.expand_dims(oc.arange(3), 0).shape == (1, 3)
    assert oc.asarray(oc.asarray(MATRIX), "float32").dtype == oc.float32


def test_copies() -> None:
    elements = MATRIX.copy()
    array = oc.asarray(elements)
    copied = oc.reshape(array, (4, 3), copy=True)
    whole = oc.reshape(array, (3, 4), copy=True)
    assert oc.reshape(array, (3, 4), copy=False) is array
    elements[...] = 0
    np.testing.assert_array_equal(copied, MATRIX.reshape(4, 3))
    np.testing.assert_array_equal(whole, MATRIX)
    for call in (
        lambda: oc.reshape(array, (4, 3), copy=False),
        lambda: oc.asarray(array, "float32", copy=False),
    ):
        with pytest.raises(oc.InvalidArgumentError, match="Unable to avoid copy"):
            call()


def test_shapes() -> None:
    assert oc.broadcast_shapes((3, 1), (4,), (1, 1, 1)) == (1, 3, 4)
    assert oc.broadcast_shapes() == ()
    for wrong in ((3, 2), (2, -1)):
        with pytest.raises(oc.InvalidArgumentError):
            oc.broadcast_shapes((3, 4), wrong)


# -- DLPack ----------------------------------------------------------------------------------------


def test_dlpack_shares_memory_both_ways() -> None:
    elements = MATRIX.copy()
    array = oc.asarray(elements)
    given = np.from_dlpack(array)  # type: ignore[arg-type]
    assert np.shares_memory(given, elements)
    view = np.from_dlpack(array[::2, ::-1])  # type: ignore[arg-type]
    np.testing.assert_array_equal(view, elements[::2, ::-1])
    assert np.shares_memory(view, elements)
    taken = oc.from_dlpack(elements)
    taken[0, 0] = 7
    assert elements[0, 0] == 7
    assert array.__dlpack_device__() == (1, 0)
    assert oc.from_dlpack(array) is array
    apart = oc.from_dlpack(elements, copy=True)
    elements[0, 0] = 8
    assert float(apart[0, 0]) == 7


def test_dlpack_of_our_own_memory_is_to_be_looked_at() -> None:
    array = oc.asarray([1, 2, 3])
    if np.lib.NumpyVersion(np.__version__) >= "2.1.0":
        assert not np.from_dlpack(array).flags.writeable  # type: ignore[arg-type]
    # A library that cannot be told that gets a copy.
    assert array.__dlpack__() is not None
    with pytest.raises(oc.InvalidArgumentError, match="Unable to avoid copy"):
        array.__dlpack__(copy=False)


def test_dlpack_computes_within_the_budget(tmp_path: Path) -> None:
    array = oc.asarray(MATRIX).save(tmp_path / "A.zarr", tile=2)
    np.testing.assert_array_equal(np.from_dlpack(array.T + 1), MATRIX.T + 1)  # type: ignore[arg-type]
    with pytest.raises(oc.InvalidArgumentError, match="Unable to avoid copy"):
        array.__dlpack__(copy=False)
    with pytest.raises(oc.BudgetError):
        oc.zeros((1000, 1000)).T.__add__(1).__dlpack__()
    with pytest.raises(oc.UnsupportedError, match="the only device"):
        array.__dlpack__(dl_device=(2, 0))
    with pytest.raises(oc.InvalidArgumentError, match="stream"):
        array.__dlpack__(stream=1)
    with pytest.raises(oc.InvalidTypeError, match="__dlpack__"):
        oc.from_dlpack([1, 2])


# -- sets ------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(
    x=arrays(
        st.sampled_from(["bool", "int8", "uint16", "float32", "float64", "complex64"]),
        st.sampled_from([(0,), (), (7,), (40,), (5, 8), (2, 3, 4)]),
    ),
    tile=st.integers(1, 4),
)
def test_unique(tmp_path_factory: Any, x: Any, tile: int) -> None:
    array = oc.asarray(x)
    if x.ndim and x.size:
        array = array.save(tmp_path_factory.mktemp("u") / "x.zarr", tile=tile)
    values, firsts, inverse, counts = oc.unique_all(array)
    elements = values.compute()
    assert (values.dtype, inverse.shape) == (x.dtype, x.shape)
    # What is a number is as NumPy has it; NaNs come last, in their order.
    known, times = np.unique(x[~np.isnan(x)], return_counts=True)
    np.testing.assert_array_equal(elements[: len(known)], known)
    np.testing.assert_array_equal(counts, [*times, *[1] * (len(elements) - len(known))])
    np.testing.assert_array_equal(x.reshape(-1)[firsts.compute()], elements)
    np.testing.assert_array_equal(elements[inverse.compute()], x)
    assert len(np.unique(inverse.compute())) == len(elements)
    other = oc.unique_inverse(array)
    np.testing.assert_array_equal(other.inverse_indices, inverse)
    np.testing.assert_array_equal(other.values.compute()[other.inverse_indices.compute()], x)
    # The first of those that are equal.
    flat = inverse.compute().reshape(-1)
    for i, first in enumerate(firsts.compute()):
        assert first == np.flatnonzero(flat == i)[0]


def test_names_of_results() -> None:
    array = oc.asarray([3, 1, 3])
    assert oc.unique_all(array)._fields == ("values", "indices", "inverse_indices", "counts")
    assert oc.unique_counts(array)._fields == ("values", "counts")
    assert oc.unique_inverse(array)._fields == ("values", "inverse_indices")
    assert isinstance(oc.unique_values(array), oc.Array)


def test_one_pass_over_what_is_stored(tmp_path: Path) -> None:
    x = np.random.default_rng(2).integers(0, 90, (600, 700))
    array = oc.asarray(x).save(tmp_path / "x.zarr", tile=(100, 90))
    found = oc.unique_all(array)
    run = oc.last_run()
    assert run is not None
    assert (run.bytes_written, run.bytes_read < 1.1 * x.nbytes) == (0, True)
    for one, other in zip(found, np.unique_all(x), strict=True):
        assert one.shape == other.shape
        np.testing.assert_array_equal(one[:40], other[:40])


# -- indexing --------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["zarr", "npy", "F", "memory", "transposed", "reversed"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_take_along_axis(tmp_path: Path, layout: str, axis: int) -> None:
    x = np.random.default_rng(3).normal(size=(30, 10, 25))
    # More indices than memory is for, and few.
    for extent in (3, 40):
        shape = list(x.shape)
        shape[axis] = extent
        indices = np.random.default_rng(4).integers(-10, 10, shape)
        array, given_ = _put(x, layout, tmp_path), _put(indices, "zarr", tmp_path)
        expected = np.take_along_axis(x, indices, axis)
        found = oc.take_along_axis(array, given_, axis=axis)
        result = found.save(tmp_path / "result.npy", overwrite=True)
        np.testing.assert_array_equal(result, expected)


def _put(values: Any, layout: str, path: Path) -> oc.Array:
    name = path / f"{len(list(path.iterdir()))}.{'zarr' if layout == 'zarr' else 'npy'}"
    match layout:
        case "memory":
            return oc.asarray(values)
        case "transposed":
            return _put(values.T, "zarr", path).T
        case "reversed":
            return _put(values[::-1, :, ::-1], "npy", path)[::-1, :, ::-1]
        case "zarr":
            return oc.asarray(values).save(name, tile=7)
        case _:
            return oc.asarray(values).save(name, order="F" if layout == "F" else "C")


def test_take_along_axis_broadcasts() -> None:
    array = oc.asarray(MATRIX)
    for x, indices, axis in (
        (MATRIX, [[1, 0]], 1),
        (MATRIX[:1], [[1, 0], [3, 3]], 1),
        (MATRIX[0], [3, 1, -1], 0),
        (MATRIX[:0], np.zeros((0, 2), int), 1),
    ):
        found = oc.take_along_axis(oc.asarray(x), np.asarray(indices), axis=axis)
        np.testing.assert_array_equal(found, np.take_along_axis(x, np.asarray(indices), axis))
    for indices, axis, error in (
        ([[4]], 1, oc.BoxIndexError),
        ([0], 1, oc.InvalidArgumentError),
        ([[0], [0]], 1, oc.InvalidArgumentError),
        ([[0.5]], 1, oc.InvalidTypeError),
        ([[0]], 2, oc.AxisError),
    ):
        with pytest.raises(error):
            oc.take_along_axis(array, np.asarray(indices), axis=axis)


# -- masks of no axis ------------------------------------------------------------------------------

WITH_A_TRUTH: list[Any] = [
    *(lambda m: m, lambda m: (m,), lambda m: (..., m), lambda m: (m, ...), lambda m: (m, 1)),
    *(lambda m: (1, m), lambda m: (None, m), lambda m: (slice(1, 3), m), lambda m: (m, None, 1)),
    *(lambda m: (..., m, 2), lambda m: (..., slice(2), m), lambda m: (slice(None), 1, m)),
]


@pytest.mark.parametrize("truth", [True, np.False_, np.array(True), oc.asarray(False)])
@pytest.mark.parametrize("number", range(len(WITH_A_TRUTH)))
def test_masks_of_no_axis(tmp_path: Path, truth: Any, number: int) -> None:
    key = WITH_A_TRUTH[number](truth)
    plain = WITH_A_TRUTH[number](np.asarray(truth))
    try:
        expected = MATRIX[plain]
        changed = MATRIX.copy()
        changed[plain] = 7
    except IndexError:
        with pytest.raises(oc.BoxIndexError):
            oc.asarray(MATRIX)[key]
        return
    stored = oc.asarray(MATRIX).save(tmp_path / "A.npy")
    for array in (stored, oc.asarray(MATRIX) + 0):
        try:
            found = array[key]
        except oc.UnsupportedError:
            # Something stands between it and an integer, as in these.
            assert number in (8,)
            return
        assert found.shape == expected.shape
        np.testing.assert_array_equal(found, expected)
    with oc.open(tmp_path / "A.npy", "r+") as target:
        target[key] = 7
        np.testing.assert_array_equal(target, changed)


def test_masks_of_no_axis_at_all() -> None:
    for truth in (True, False):
        scalar = oc.asarray(np.array(3))
        assert scalar[truth].compute().tolist() == np.array(3)[truth].tolist()
        scalar[truth] = 5
        assert int(scalar) == (5 if truth else 3)
    for key in ((True, True), (True, slice(None), 0)):
        with pytest.raises(oc.UnsupportedError, match="truth value"):
            oc.asarray(MATRIX)[key]


# -- copies that are written to --------------------------------------------------------------------


def test_copies_of_memory_are_written_to() -> None:
    """The suite of the standard assigns to copies; those of reshaped memory were read-only."""
    for made in (
        oc.reshape(oc.asarray([5, 6]), (2, 1)),
        oc.reshape(oc.asarray([5]), ()),
        oc.zeros((0, 3)),
    ):
        assert not made.writable
        before = made.compute()
        for copied in (oc.asarray(made, copy=True), made.copy(), made.astype(made.dtype)):
            assert copied.writable
            copied[...] = 9
            assert (copied.compute() == 9).all()
        np.testing.assert_array_equal(made, before)
