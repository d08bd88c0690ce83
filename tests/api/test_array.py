"""What an array says about itself, and what it becomes in NumPy's and Python's hands."""

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outcrop as oc


def test_properties(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    with oc.create(path, (30, 20), "float32", tile=(8, 5), attributes={"unit": "m"}) as array:
        assert array.writable
        array[...] = 1
    array = oc.open(path)
    assert (array.shape, array.ndim, array.size) == ((30, 20), 2, 600)
    assert (array.dtype, array.itemsize, array.nbytes) == (np.dtype("float32"), 4, 2400)
    assert (array.tile, array.layout, array.format) == ((8, 5), "tiled", "zarr")
    assert array.path == path
    assert array.attributes == {"unit": "m"}
    assert not array.writable
    part = array[3, ::2, None]
    assert (part.shape, part.tile, part.path) == ((10, 1), (2, 1), path)


def test_properties_off_disk() -> None:
    for array in (oc.asarray(np.ones(3)), oc.fromfunction(lambda i: i, 3)):
        assert array.path is None
        assert array.format is None
        assert array.attributes == {}
        assert array.tile == (3,)
        array.flush()
        array.close()
        array.close()
    assert oc.asarray(np.ones(3)).layout == "memory"
    assert oc.fromfunction(lambda i: i, 3).layout == "function"


def test_repr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    array = oc.create("A.zarr", (2048, 1024), tile=(1024, 512))
    start = "<outcrop.Array float64 (2048, 1024) 16.0 MiB, tiled 1024 x 512, zarr 'A.zarr'"
    assert repr(array) == start + ", invisible until it is closed>"
    array.close()
    assert repr(array) == start + ", closed>"
    assert repr(oc.open("A.zarr")) == start + ">"
    assert repr(oc.open("A.zarr", "r+")) == start + ", writable>"
    part = oc.open("A.zarr")[3, 10:20:2]
    assert repr(part).endswith(
        "float64 (5,) 40 bytes, tiled 1024 x 512, zarr 'A.zarr'[3, 10:20:2]>"
    )
    assert repr(oc.asarray(1)) == "<outcrop.Array int64 () 8 bytes, in memory>"
    page = oc.fromfunction(lambda i: i, 3)._repr_html_()
    assert "<table>" in page and "&lt;lambda&gt;" in page


def test_asarray_of_memory_makes_no_copy_and_compute_does() -> None:
    plain = np.arange(6.0).reshape(2, 3)
    array = oc.asarray(plain)
    assert np.shares_memory(np.asarray(array[:, 1:]), plain)
    assert np.shares_memory(np.asarray(array, copy=False), plain)
    assert not np.shares_memory(array.compute(), plain)
    assert not np.shares_memory(np.array(array), plain)
    with pytest.raises(ValueError, match="Unable to avoid copy"):
        np.asarray(array, dtype="float32", copy=False)


def test_asarray_of_what_is_not_in_memory_is_a_copy() -> None:
    array = oc.fromfunction(lambda i: i, 5)
    with pytest.raises(ValueError, match="Unable to avoid copy"):
        np.asarray(array, copy=False)
    assert np.asarray(array, dtype="complex64").dtype == np.complex64
    assert np.asarray(array, dtype="float16").dtype == np.float16
    np.testing.assert_array_equal(np.array(array), np.arange(5))


def test_zero_dimensional_results_are_arrays() -> None:
    for array in (oc.asarray(np.arange(3))[1], oc.fromfunction(lambda: 1, (), "int64")):
        result = array.compute()
        assert isinstance(result, np.ndarray)
        assert result.shape == ()
        assert result == 1


def test_conversions_are_numpys() -> None:
    for plain in (
        np.array(3),
        np.array(2.5),
        np.array(0j),
        np.array(True),
        np.array([[7]]),
        *(np.zeros(shape) for shape in ((2,), (0,), (2, 0))),
    ):
        for convert in (bool, int, float, complex, range, lambda a: a.item()):
            assert outcome(convert, oc.asarray(plain)) == outcome(convert, plain), (plain, convert)


def outcome(convert: Any, array: Any) -> Any:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return convert(array)
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            return kind, str(error)


def test_one_number_is_rounded_and_written_as_such() -> None:
    array = oc.asarray([1.25, 2.5])
    assert round(array.sum(), 1) == round(np.float64(3.75), 1)
    assert round(array.sum()) == 4
    assert f"{array.sum():.3f} {array.sum()!s:.4}" == "3.750 <out"
    assert f"{array}" == str(array)
    with pytest.raises(oc.InvalidTypeError):
        f"{array:.3f}"
    with pytest.raises(oc.InvalidTypeError):
        round(array)


def test_copies(tmp_path: Path) -> None:
    array = oc.asarray([1.25, 2.5]).save(tmp_path / "a.npy")
    for one in (array, array[1:], array + 1):
        assert np.array_equal(copy.copy(one), one)
        assert np.array_equal(copy.deepcopy(one), one)
        assert np.array_equal(pickle.loads(pickle.dumps(one)), one)


def test_item_with_indices() -> None:
    plain = np.arange(6).reshape(2, 3)
    array = oc.asarray(plain)
    assert array.item(4) == plain.item(4)
    assert array.item(-1) == plain.item(-1)
    assert array.item(1, 2) == plain.item(1, 2)
    assert type(array.item(0)) is int
    with pytest.raises(oc.BoxIndexError):
        array.item(6)
    with pytest.raises(oc.InvalidArgumentError):
        array.item(0, 0, 0)


@pytest.mark.parametrize("step", [1, 2])
def test_what_exceeds_the_budget_is_refused_with_advice(step: int) -> None:
    with oc.config(memory="1MiB"):
        array = oc.fromfunction(lambda i, j: i, (1024 * step, 1024))[::step]
        for load in (np.asarray, oc.Array.compute, lambda a: np.asarray(a, "float32", copy=True)):
            with pytest.raises(oc.BudgetError, match=r"8\.0 MiB|4\.0 MiB") as refusal:
                load(array)
            assert "tiles()" in str(refusal.value)
            assert "1.0 MiB" in str(refusal.value)
        assert array[:100].compute().shape == (100, 1024)
        assert sum(block.size for _, block in array.tiles()) == array.size


def test_ufuncs_do_not_load_the_array() -> None:
    asked = []

    def note(i: Any) -> Any:
        asked.append(len(i))
        return i

    array = oc.fromfunction(note, 5, "int64")
    lazy = [np.add(array, 1), np.ones(5) + array, np.add.reduce(array), np.ones(5) == array]
    assert not asked
    assert all(isinstance(x, oc.Array) and "not computed yet" in repr(x) for x in lazy)
    assert lazy[0].compute().tolist() == [1, 2, 3, 4, 5]
    with pytest.raises(oc.UnsupportedError, match=r"numpy\.add\.at"):
        np.add.at(array, [0, 2], 1)


def test_tiles_give_tiles(tmp_path: Path) -> None:
    plain = np.arange(35).reshape(5, 7)
    array = oc.asarray(plain).save(tmp_path / "a.zarr", tile=(2, 3))
    found = [(where, block.shape) for where, block in array.tiles()]
    assert len(found) == 9
    assert found[0] == ((slice(0, 2), slice(0, 3)), (2, 3))
    assert found[-1] == ((slice(4, 5), slice(6, 7)), (1, 1))
    # A view's tiles end where the tiles on disk do.
    assert [where[0] for where, _ in array[1:, 0].tiles()] == [
        slice(0, 1),
        slice(1, 3),
        slice(3, 4),
    ]
    for where, block in array[::-1].tiles():
        np.testing.assert_array_equal(block, plain[::-1][where])
    assert list(array[:0].tiles()) == []
    assert [block.shape for _, block in array[0, 0].tiles()] == [()]


@pytest.mark.parametrize("codecs", [None, "zstd"])
@pytest.mark.parametrize("tile", [(700, 700), (300, 900), (64, 1000), (1, 1000)])
@pytest.mark.parametrize("key", [..., slice(None, None, 3), (slice(5, 990), 17)])
def test_tiles_are_had_with_the_budget_that_is_named(
    key: Any, tile: tuple[int, int], codecs: str | None, tmp_path: Path
) -> None:
    """With more memory, pieces were larger: it was refused again, and in the middle of the loop."""
    elements = np.random.default_rng(1).random((1000, 1000))
    oc.asarray(elements).save(tmp_path / "a.zarr", tile=tile, codecs=codecs)
    budget = 256 << 10
    for attempt in range(2):
        with oc.config(memory=budget):
            A = oc.open(tmp_path / "a.zarr")[key]
            found = np.zeros(A.shape)
            is_begun = False
            try:
                for where, block in A.tiles():
                    is_begun = True
                    found[where] = block
                break
            except oc.BudgetError as error:
                assert attempt == 0 and not is_begun and error.needed is not None
                assert f"the least that works is {error.needed} bytes" in str(error)
                budget = error.needed
    np.testing.assert_array_equal(found, elements[key])
