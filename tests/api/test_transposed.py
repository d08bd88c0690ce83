"""Views with permuted axes are NumPy's wherever the elements are, and read nothing themselves."""

import math
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis.extra import numpy as hnp

import outcrop as oc

SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=7)
KINDS = ("zarr", "npy", "npy-F", "raw", "function", "memory")
on_disk = settings(
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def numbered(shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(math.prod(shape), dtype=np.int32).reshape(shape)


def formula(shape: tuple[int, ...]) -> oc.Array:
    def number(*indices: np.ndarray) -> Any:
        total: Any = 0
        for index, extent in zip(indices, shape, strict=True):
            total = total * extent + index
        return total

    return oc.fromfunction(number, shape, "int32")


def stored(kind: str, values: np.ndarray, path: Path, tile: tuple[int, ...] = ()) -> oc.Array:
    """An array of this kind; those on disk can be written."""
    if kind == "memory":
        return oc.asarray(values.copy())
    if kind == "function":
        return formula(values.shape)
    options: dict[str, Any] = {"order": "F" if kind.endswith("F") else "C"}
    if kind == "zarr":
        options = {"tile": tile}
    name = path / f"a.{kind[:4].rstrip('-')}"
    array = oc.create(name, values.shape, values.dtype, overwrite=True, **options)
    array[...] = values
    return array


def followed(array: Any, steps: list[Any]) -> Any:
    """What indexing and transposing give, of an Array as of an ndarray."""
    for kind, argument in steps:
        if kind == "transpose":
            array = array.transpose(*argument)
        elif kind == "index":
            # The ellipsis keeps NumPy from turning a 0-d result into a scalar.
            array = array[argument if ... in argument else (*argument, ...)]
        else:
            array = getattr(array, kind)
    return array


@st.composite
def chains(draw: st.DrawFn, shape: tuple[int, ...]) -> list[Any]:
    array, steps = np.empty(shape), []
    for _ in range(draw(st.integers(1, 5))):
        kinds = ["T", "transpose", "index"] + ["mT"] * (array.ndim > 1)
        kind, argument = draw(st.sampled_from(kinds)), None
        if kind == "transpose":
            order = draw(st.permutations(range(array.ndim)))
            order = tuple(a - array.ndim * draw(st.booleans()) for a in order)
            argument = draw(st.sampled_from([order, (order,), (list(order),)]))
        elif kind == "index":
            key = draw(hnp.basic_indices(array.shape, allow_newaxis=True, max_dims=6))
            argument = key if isinstance(key, tuple) else (key,)
        steps.append((kind, argument))
        array = followed(array, steps[-1:])
    return steps


@st.composite
def shape_and_chain(draw: st.DrawFn) -> tuple[tuple[int, ...], list[Any]]:
    shape = draw(SHAPES)
    return shape, draw(chains(shape))


def check(array: oc.Array, expected: np.ndarray) -> None:
    assert array.shape == expected.shape
    assert array.ndim == len(array.tile) == expected.ndim
    result = array.compute()
    assert isinstance(result, np.ndarray)
    assert result.dtype == expected.dtype
    assert result.shape == expected.shape
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(np.asarray(array), expected)
    np.testing.assert_array_equal(np.asarray(array, np.float64), expected)
    rebuilt = np.full(array.shape, -1)
    for where, block in array.tiles():
        assert rebuilt[where].shape == block.shape
        assert (rebuilt[where] == -1).all()
        rebuilt[where] = block
    np.testing.assert_array_equal(rebuilt, expected)


# -- what is selected --------------------------------------------------------------------------


@given(case=shape_and_chain())
@example(case=((3,), [("index", (None,)), ("T", None), ("index", (1, slice(0, 0))), ("T", None)]))
@example(case=((2, 3, 4), [("transpose", (1, 2, 0)), ("index", (0,)), ("T", None)]))
def test_chains_in_memory_and_of_functions(case: tuple[tuple[int, ...], list[Any]]) -> None:
    shape, steps = case
    expected = followed(numbered(shape), steps)
    for array in (oc.asarray(numbered(shape)), formula(shape)):
        check(followed(array, steps), expected)


@on_disk
@given(case=shape_and_chain(), data=st.data())
def test_chains_on_disk(
    case: tuple[tuple[int, ...], list[Any]], data: st.DataObject, tmp_path: Path
) -> None:
    shape, steps = case
    tile = data.draw(st.tuples(*(st.integers(1, 4) for _ in shape)), label="tile")
    kind = data.draw(st.sampled_from(["zarr", "npy", "npy-F", "raw"]), label="kind")
    array = stored(kind, numbered(shape), tmp_path, tile)
    check(followed(array, steps), followed(numbered(shape), steps))
    array.close()


@on_disk
@given(case=shape_and_chain(), data=st.data())
def test_saving(
    case: tuple[tuple[int, ...], list[Any]], data: st.DataObject, tmp_path: Path
) -> None:
    shape, steps = case
    expected = followed(numbered(shape), steps)
    kind = data.draw(st.sampled_from(KINDS), label="from")
    source = stored(kind, numbered(shape), tmp_path, (2,) * len(shape))
    target = data.draw(st.sampled_from(["zarr", "npy", "raw"]), label="to")
    options: dict[str, Any] = {}
    if target != "zarr":
        options["order"] = data.draw(st.sampled_from("CF"), label="order")
    elif data.draw(st.booleans(), label="with a tile"):
        extents = st.integers(1, 4)
        options["tile"] = data.draw(st.tuples(*(extents for _ in expected.shape)), label="tile")
    array = followed(source, steps)
    result = array.save(tmp_path / f"out.{target}", overwrite=True, **options)
    np.testing.assert_array_equal(result.compute(), expected)
    assert result.shape == expected.shape
    if target == "npy":
        loaded = np.load(tmp_path / "out.npy")
        assert loaded.shape == expected.shape
        np.testing.assert_array_equal(loaded, expected)
    elif target == "raw":
        written = (tmp_path / "out.raw").read_bytes()
        assert written == expected.tobytes(options["order"])
    source.close()


# -- assigning ---------------------------------------------------------------------------------


@on_disk
@given(case=shape_and_chain(), data=st.data())
def test_assigning(
    case: tuple[tuple[int, ...], list[Any]], data: st.DataObject, tmp_path: Path
) -> None:
    shape, steps = case
    kind = data.draw(st.sampled_from([k for k in KINDS if k != "function"]), label="kind")
    tile = data.draw(st.tuples(*(st.integers(1, 4) for _ in shape)), label="tile")
    plain = numbered(shape)
    array = stored(kind, plain, tmp_path, tile)
    for turn in range(2):
        view, twin = followed(array, steps), followed(plain, steps)
        part = tuple(1 if data.draw(st.booleans()) else n for n in twin.shape)
        part = part[data.draw(st.integers(0, len(part))) :]
        value = 1000 * (turn + 1) + np.arange(math.prod(part), dtype=np.int64).reshape(part)
        twin[...] = value
        lazy = oc.fromfunction(lambda *i, value=value: value[i], part, "int64")
        backwards = oc.fromfunction(lambda *i, v=value.T: v[i], part[::-1], "int64").T
        scalar = [7] if value.ndim == 0 else []
        if scalar:
            twin[...] = 7
            view[...] = 7
        else:
            # In F order, with strides of other signs, or a view of something lazy.
            turned = np.asfortranarray(value)
            given = [
                value,
                turned,
                value[::-1].copy()[::-1],
                lazy,
                backwards,
                oc.asarray(value.T).T,
            ]
            view[...] = data.draw(st.sampled_from(given), label="value")
        np.testing.assert_array_equal(array.compute(), plain)
        array.flush()
        steps = data.draw(chains(shape), label="again")
    array.close()
    if kind.startswith("npy"):
        np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), plain)


@pytest.mark.parametrize("kind", ["zarr", "npy", "raw", "memory"])
def test_an_array_and_its_own_transpose(kind: str, tmp_path: Path) -> None:
    plain = numbered((9, 9))
    array = stored(kind, plain, tmp_path, (4, 3))
    array[...] = array.T
    plain[...] = plain.T.copy()
    np.testing.assert_array_equal(array.compute(), plain)
    array.T[...] = array
    plain.T[...] = plain.copy()
    array.T[2:6, 1:5] = array[1:5, 3:7]
    plain.T[2:6, 1:5] = plain[1:5, 3:7].copy()
    array[:4] = array[:, 5:].T
    plain[:4] = plain[:, 5:].T.copy()
    array.T[...] = array.T
    array[0] = array.T[1]
    plain[0] = plain.T[1].copy()
    np.testing.assert_array_equal(array.compute(), plain)


@pytest.mark.parametrize("source", KINDS)
@pytest.mark.parametrize("target", ["zarr", "npy", "npy-F", "raw", "memory"])
def test_from_one_to_another(source: str, target: str, tmp_path: Path) -> None:
    (tmp_path / "from").mkdir()
    (tmp_path / "to").mkdir()
    values = numbered((10, 3, 7))
    given = stored(source, values, tmp_path / "from", (4, 2, 3))
    array = stored(target, np.zeros((7, 10, 3)), tmp_path / "to", (3, 3, 3))
    array[...] = given.transpose(2, 0, 1)
    np.testing.assert_array_equal(array.compute(), values.transpose(2, 0, 1))
    array[1:6, ::-2].T[...] = given[1:6, ::-1, 1:6].transpose(1, 0, 2)
    np.testing.assert_array_equal(
        array[1:6, ::-2].compute().T, values[1:6, ::-1, 1:6].transpose(1, 0, 2)
    )


def test_what_is_not_writable(tmp_path: Path) -> None:
    array = oc.asarray(numbered((3, 4))).save(tmp_path / "a.zarr")
    assert not array.T.writable
    with pytest.raises(oc.InvalidArgumentError, match="read-only"):
        array.T[0] = 1
    with pytest.raises(oc.InvalidArgumentError, match=r"shape \(3, 4\) into shape \(4, 3\)"):
        stored("memory", numbered((3, 4)), tmp_path).T[...] = numbered((3, 4))


# -- facts and errors --------------------------------------------------------------------------


def test_nothing_is_read() -> None:
    def fail(*indices: object) -> None:
        raise AssertionError

    array = oc.fromfunction(fail, (10**9, 10**8, 3))
    assert array.T[:, ::2, 5][None].transpose(2, 1, 0).shape == (5 * 10**7, 3, 1)
    assert array.mT.shape == (10**9, 3, 10**8)
    assert np.transpose(array, (1, 0, 2)).shape == (10**8, 10**9, 3)


def test_memory_is_borrowed() -> None:
    plain = numbered((2, 3, 4))
    for view in (oc.asarray(plain).transpose(1, 2, 0), oc.asarray(plain)[1, None].T):
        assert np.shares_memory(np.asarray(view), plain)
        assert not np.shares_memory(view.compute(), plain)
    assert np.asarray(oc.asarray(plain).T, copy=False).strides == plain.T.strides


def test_facts(tmp_path: Path) -> None:
    array = stored("zarr", numbered((30, 20, 1)), tmp_path, (8, 5, 1))
    view = array.transpose(1, 2, 0)
    assert len(view) == 20
    assert view.tile == (5, 1, 8)
    assert view[::2, None].tile == (2, 1, 1, 8)
    assert [row.shape for row in view] == [(1, 30)] * 20
    np.testing.assert_array_equal(np.stack(list(view)), numbered((30, 20, 1)).transpose(1, 2, 0))
    blocks = [block.shape for _, block in view.tiles()]
    assert blocks[0] == view.tile
    assert len(blocks) == 16
    assert view[3, 0, 5].item() == array[5, 3, 0].item() == view.item(3, 0, 5)
    # What is put back is what it was.
    assert array.T.T._view == array._view == array.mT.mT._view
    array.close()


def test_repr(tmp_path: Path) -> None:
    array = oc.asarray(numbered((30, 20, 2))).save(tmp_path / "a.zarr", tile=(8, 5, 1))
    where = f"zarr {str(tmp_path / 'a.zarr')!r}"
    lines = {
        f"(2, 20, 30) 4.7 KiB, tiled 8 x 5 x 1, {where}, transposed": array.T,
        f"(20, 2, 30) 4.7 KiB, tiled 8 x 5 x 1, {where}, transposed (1, 2, 0)": array.transpose(
            1, 2, 0
        ),
        f"(3, 30) 360 bytes, tiled 8 x 5 x 1, {where}[0:30, 2:5, 1], transposed": array.T[1, 2:5],
        f"(30, 20, 2) 4.7 KiB, tiled 8 x 5 x 1, {where}": array.T.T,
    }
    for line, view in lines.items():
        assert repr(view) == f"<outcrop.Array int32 {line}>"
    assert "transposed (1, 2, 0)" in array.transpose(1, 2, 0)._repr_html_()
    assert repr(oc.asarray(numbered((1, 2))).T).endswith("in memory, transposed>")
    assert repr(oc.asarray(numbered((3,))).T).endswith("in memory>")


def test_boxes_are_told_from_permuted_ones() -> None:
    view = oc.asarray(numbered((3, 4, 5)))[:, 1:3]._view
    assert view.is_box
    for permuted in (view.transpose(), view.transpose((0, 2, 1))):
        assert permuted.is_permuted
        assert permuted.is_dense
        assert not permuted.is_box
        assert permuted.box == view.box
        assert permuted.straight() == view
    assert view.transpose().transpose() == view


@pytest.mark.parametrize(
    ("axes", "kind"),
    [
        ((0,), oc.InvalidArgumentError),
        (((),), oc.InvalidArgumentError),
        ((0, 0), oc.InvalidArgumentError),
        ((0, -2), oc.InvalidArgumentError),
        ((0, 1, 2), oc.InvalidArgumentError),
        ((0, 2), oc.BoxIndexError),
        ((-3, 0), oc.BoxIndexError),
        ((0.0, 1), oc.InvalidTypeError),
        ((None, None), oc.InvalidTypeError),
        (((0, 1), (1, 0)), oc.InvalidTypeError),
        (("10",), oc.InvalidTypeError),
    ],
)
def test_errors_are_numpys(axes: Any, kind: type[oc.OutcropError]) -> None:
    plain = np.zeros((2, 3))
    with pytest.raises(Exception) as expected:
        plain.transpose(*axes)
    with pytest.raises(kind) as found:
        oc.asarray(plain).transpose(*axes)
    # NumPy's AxisError is an IndexError and a ValueError; ours, the former.
    assert isinstance(expected.value, next(k for k in kind.__mro__[2:] if k is not oc.OutcropError))
    assert str(found.value).startswith(str(expected.value))


def test_few_axes() -> None:
    for shape in ((), (3,)):
        array = oc.asarray(numbered(shape))
        assert array.T._view == array.transpose()._view == array.transpose(None)._view
        assert array.transpose(*range(len(shape)))._view == array._view
        with pytest.raises(oc.InvalidArgumentError, match="ndim < 2"):
            _ = array.mT


# -- larger than memory ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["zarr", "npy", "npy-F"])
def test_larger_than_the_budget(kind: str, tmp_path: Path) -> None:
    values = np.arange(2 << 20, dtype=np.float64).reshape(1024, 2048)
    with oc.config(memory="64MiB"):
        stored(kind, values, tmp_path, (96, 80)).close()
    with oc.config(memory="1MiB") as settings:
        array = oc.open(tmp_path / ("a.zarr" if kind == "zarr" else "a.npy"))
        seen = 0
        for where, block in array.T.tiles():
            np.testing.assert_array_equal(block, values.T[where])
            seen += block.size
        assert seen == values.size
        for name, options in (
            ("out.zarr", {"tile": (80, 96)}),
            ("other.zarr", {"tile": (128, 64)}),
            ("out.npy", {}),
            ("F.npy", {"order": "F"}),
        ):
            array.T.save(tmp_path / name, **options)
            run = oc.last_run()
            assert run is not None
            assert run.peak_bytes <= settings.memory
        np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), values.T)
        np.testing.assert_array_equal(np.load(tmp_path / "F.npy"), values.T)
        for name in ("out.zarr", "other.zarr"):
            for where, block in oc.open(tmp_path / name).tiles():
                np.testing.assert_array_equal(block, values.T[where])
        with oc.create(tmp_path / "assigned.zarr", (2048, 1024), tile=100) as target:
            target.T[...] = array
            target[:1500] = array.T[-1500:]
            target.T[:, 1500:] = values[:, :548]
        expected = np.concatenate([values.T[-1500:], values.T[:548]])
        for where, block in oc.open(tmp_path / "assigned.zarr").tiles():
            np.testing.assert_array_equal(block, expected[where])
