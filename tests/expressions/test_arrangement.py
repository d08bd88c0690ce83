"""Shapes, repetitions, parts and orders of axes, against NumPy."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import outcrop as oc
from outcrop.expressions.rewrite import reshape_by_slabs as reordering

few = settings(
    max_examples=60,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

PARTS = ("_FITS", "_SLAB", "_PART")
"""What parts of the budget there are for moving elements."""

DTYPES = st.sampled_from(["bool", "int8", "uint16", "float32", "float64", "complex128"])


def numbers(shape: tuple[int, ...], dtype: str = "float64") -> Any:
    plain = np.arange(math.prod(shape)).reshape(shape)
    return plain.astype(dtype) if dtype != "bool" else plain % 3 == 0


def same(got: Any, expected: Any) -> None:
    assert isinstance(got, oc.Array)
    assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_array_equal(got.compute(), expected)


@st.composite
def shapes(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two shapes of as many elements."""
    factors = draw(st.lists(st.sampled_from([1, 2, 2, 3, 5, 7, 11]), min_size=0, max_size=4))
    made = []
    for order in (factors, draw(st.permutations(factors))):
        shape, rest = [], list(order)
        while rest:
            count = draw(st.integers(1, len(rest)))
            shape.append(math.prod(rest[:count]))
            rest = rest[count:]
        made.append(tuple(shape))
    return made[0], made[1]


@st.composite
def keys(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """A key of basic indexing."""
    key: list[Any] = []
    for n in shape:
        kind = draw(st.sampled_from(["whole", "int", "slice", "backwards", "steps", "new"]))
        start, stop = sorted((draw(st.integers(0, n)), draw(st.integers(0, n))))
        if kind == "int" and n:
            key.append(draw(st.integers(-n, n - 1)))
        elif kind == "slice":
            key.append(slice(start, stop))
        elif kind == "backwards":
            key.append(slice(None, None, -1))
        elif kind == "steps":
            key.append(slice(start, stop, draw(st.sampled_from([2, 3, 5]))))
        else:
            key += [None] * (kind == "new") + [slice(None)]
    return tuple(key)


@few
@given(data=st.data(), pair=shapes(), dtype=DTYPES, layout=st.sampled_from(["npy", "F"]))
def test_any_shape(tiny: Any, data: st.DataObject, pair: Any, dtype: str, layout: str) -> None:
    """Of what is stored, in memory, a function and an expression; and any view of that."""
    source, target = pair
    plain = numbers(source, dtype)
    stored = tiny.put(plain, layout)
    function = oc.fromfunction(
        lambda *i: plain[tuple(np.broadcast_arrays(*i))] if source else plain, source, dtype
    )
    expected = plain.reshape(target)
    key = data.draw(keys(target), "key")
    for array in (stored, function, oc.asarray(plain), oc.asarray(plain.T).T):
        same(oc.reshape(array, target), expected)
        same(oc.reshape(array, target)[key], expected[key])
    same(
        stored.reshape(target).T[::-1] if target else stored, expected.T[::-1] if target else plain
    )
    same(np.cumsum(stored.reshape(-1)).reshape(target)[key], plain.cumsum().reshape(target)[key])
    if source:
        row = plain[..., :1]
        lazy, made = np.add(stored, oc.asarray(row)), np.add(plain, row)
        same(lazy.reshape(target)[key], made.reshape(target)[key])


@settings(few, max_examples=20)
@given(data=st.data(), pair=shapes())
def test_tiles_of_results(tiny: Any, data: st.DataObject, pair: Any) -> None:
    """However operand and result are cut, elements find their places."""
    source, target = pair
    plain = numbers(source, "int32")
    stored = tiny.put(plain, "zarr", tuple(data.draw(st.integers(1, n)) for n in source))
    tile = tuple(data.draw(st.integers(1, n), "tile") for n in target)
    done = (stored.reshape(target) + 1).save(tiny.path / "r.zarr", tile=tile, overwrite=True)
    np.testing.assert_array_equal(done.compute(), plain.reshape(target) + 1)


def test_reshaping_reads_once(desk: Any) -> None:
    """What is reshaped is not stored in between."""
    plain = np.random.default_rng(0).random((3000, 120))
    array = desk.put(plain, "npy")
    for shape in ((-1,), (300, 10, 120), (100, 3600), (250, 1440), (9000, 5, 8)):
        lazy = np.sqrt(array).reshape(shape)
        plan = oc.plan(lazy.sum(0))
        assert plan.bytes_read <= 1.25 * array.nbytes
        assert plan.bytes_written <= 0.1 * array.nbytes + 65536
        desk.check(lazy.sum(0), np.sqrt(plain).reshape(shape).sum(0))
    # A part takes a part of the work.
    plan = oc.plan((array * 2).reshape(-1)[1000:1100])
    assert plan.bytes_read <= 0.1 * array.nbytes


def _orders(plain: Any) -> list[Callable[[Any], Any]]:
    n, m = plain.shape
    return [
        lambda x: x.T.reshape(-1),
        lambda x: (x.T + 1).reshape(16, -1),
        lambda x: x.reshape(-1, order="F"),
        lambda x: x.reshape(n // 100, -1, order="F"),
        lambda x: x.reshape(70, -1, order="F").sum(1),
        lambda x: x.reshape(-1, 48).T,
        lambda x: x.reshape(-1, 48).T[::-1],
        lambda x: x.reshape(-1, 50, m).transpose(2, 0, 1).reshape(-1, 70),
        lambda x: x.T.reshape(m // 2, -1) + x.reshape(m // 2, -1),
        lambda x: x.T[:, ::-1].reshape(-1)[:-7],
    ]


@pytest.mark.parametrize(
    ("which", "layout"),
    [*((which, "turned") for which in range(10)), *itertools.product((3, 7), ("npy", "zarr"))],
)
def test_against_the_order_on_disk(desk: Any, layout: str, which: int) -> None:
    """Elements are moved through temporary tiles, not read again and again."""
    plain = np.random.default_rng(0).random((11200, 96))
    if layout == "turned":
        array = desk.put(plain.T.copy(), "npy").T
    else:
        array = desk.put(plain, layout, (700, 12))
    make = _orders(plain)[which]
    with oc.config(memory="3MiB"):
        got = make(array)
        plan = oc.plan(got)
        # One of them goes against the order twice.
        most = (6 if which == 7 else 4.5) * array.nbytes
        assert max(plan.bytes_read, plan.bytes_written) <= most
        desk.check(got, make(plain))


@few
@given(data=st.data(), pair=shapes(), dtype=DTYPES)
def test_any_order(tiny: Any, data: st.DataObject, pair: Any, dtype: str) -> None:
    """Also where no slab fits in the memory that there is."""
    source, target = pair
    plain = numbers(source, dtype)
    axes = data.draw(st.permutations(range(len(source))), "axes")
    back = data.draw(st.permutations(range(len(target))), "back")
    layout = data.draw(st.sampled_from(["npy", "F", "zarr"]))
    parts = [data.draw(st.sampled_from([4, 1000, 50_000]), name) for name in PARTS]
    before = plain.transpose([axes.index(a) for a in range(len(source))]).copy()
    array = tiny.put(before, layout)
    with pytest.MonkeyPatch.context() as patch:
        for name, part in zip(PARTS, parts, strict=True):
            patch.setattr(reordering, name, part)
        patch.setattr(reordering, "_SHORTEST", 1)
        patch.setattr(reordering, "_LONG", data.draw(st.sampled_from([1, 64, 1 << 20])))
        # Without axes, NumPy would not know what to reverse.
        got = oc.permute_dims(oc.permute_dims(array, axes).reshape(target), back)
        tiny.check(got, plain.reshape(target).transpose(back))
        tiny.check(got + 1, plain.reshape(target).transpose(back) + 1)


def test_a_shape_that_takes_more_memory(desk: Any) -> None:
    array = desk.put(np.arange(750e3).reshape(1500, 500), "npy")
    with oc.config(memory="300KiB"), pytest.raises(oc.BudgetError) as caught:
        oc.plan(array.T.reshape(-1))
    with oc.config(memory=3 * caught.value.needed):
        assert oc.plan(array.T.reshape(-1)).bytes_read <= 3.5 * array.nbytes


def test_shapes_that_do_not_fit() -> None:
    array = oc.zeros((3, 4))
    for shape in ((5, -1), (-1, -1), (3, 5), (-2, 6), (0, -1)):
        with pytest.raises(oc.InvalidArgumentError, match="cannot reshape"):
            array.reshape(shape)
    with pytest.raises(oc.InvalidTypeError):
        array.reshape(2.5)
    with pytest.raises(oc.UnsupportedError, match="order"):
        np.reshape(array, -1, order="A")


@pytest.mark.parametrize("shape", [(0,), (3, 0, 2), (), (1, 1), (1,)])
def test_of_nothing_and_of_one(desk: Any, shape: tuple[int, ...]) -> None:
    plain = np.ones(shape, "float32")
    array = oc.asarray(plain)
    for target in ((-1,), (1, plain.size, 1)):
        same(array.reshape(target), plain.reshape(target))
        same(np.reshape(array + 1, target), (plain + 1).reshape(target))
    same((array + 1).ravel(), (plain + 1).ravel())
    same(oc.roll(array, 3), np.roll(plain, 3))
    same(oc.tile(array, (2, 3)), np.tile(plain, (2, 3)))
    same(oc.tile(array, 0), np.tile(plain, 0))
    same(oc.repeat(array, 2), np.repeat(plain, 2))
    same(oc.repeat(array, 0), np.repeat(plain, 0))
    same(oc.pad(array, 2), np.pad(plain, 2))
    for least in (np.atleast_1d, np.atleast_2d, np.atleast_3d):
        same(least(array), least(plain))


SHAPE = (13, 4, 11)
CASES: list[Callable[[Any], Any]] = [
    lambda x: np.roll(x, 5),
    lambda x: np.roll(x, -150),
    lambda x: np.roll(x, (44, 1, 10**6)),
    lambda x: np.roll(x, (3, -40), axis=(0, 2)),
    lambda x: np.roll(x, 2, axis=(0, 1)),
    lambda x: np.roll(x, (2, 3), axis=1),
    lambda x: np.tile(x, 3),
    lambda x: np.tile(x, (2, 1, 1, 4)),
    lambda x: np.tile(x[:, :1], (2, 3, 1)),
    lambda x: np.tile(x, (2, 3, 2))[5:40, ::-2, 3],
    lambda x: np.repeat(x, 3, axis=0),
    lambda x: np.repeat(x, 2),
    lambda x: np.repeat(x, np.arange(11) % 4, axis=-1),
    lambda x: np.repeat(x, 3, axis=2)[4, 1:, 7:40:2],
    lambda x: np.pad(x, 1),
    lambda x: np.pad(x, ((0, 2), (3, 0), (0, 0)), constant_values=((1, 2), (3, 4), (5, 6))),
    lambda x: np.pad(x, (4, 9), mode="edge"),
    lambda x: np.pad(x, ((0, 2), (3, 1), (40, 5)), mode="wrap"),
    lambda x: np.pad(x, ((3, 2), (4, 4), (1, 20)), mode="reflect"),
    lambda x: np.pad(x, 7, mode="symmetric"),
    lambda x: np.moveaxis(x, (0, 1), (-1, 0)),
    lambda x: np.rollaxis(x, 2),
    lambda x: np.rollaxis(x, 0, 3),
    lambda x: np.swapaxes(x, 0, -1),
    lambda x: np.concatenate([x, x[::-1]])[::-3, 2],
    lambda x: np.concatenate([x, x[:, :2]], axis=1)[3, 2:7:4],
    lambda x: np.stack([x, x * 2], axis=1)[:, 1, ::2],
]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_as_numpy_does(tiny: Any, number: int) -> None:
    plain = numbers(SHAPE, "int32")
    array = tiny.put(plain, "npy")
    case = CASES[number]
    for ours, theirs in ((array, plain), (array * 2, plain * 2)):
        same(case(ours), case(theirs))
        same(case(ours) + 1, case(theirs) + 1)


def test_parts(desk: Any) -> None:
    plain = numbers(SHAPE)
    array = desk.put(plain)
    for function, parts in (
        (np.array_split, 4), (np.array_split, [3, 3, 20, 99]), (np.split, 13), (np.split, [-2]),
        (np.vsplit, [5]), (np.hsplit, 2), (np.dsplit, 11), (np.unstack, None),
    ):  # fmt: skip
        ours, theirs = (
            (function(array), function(plain))
            if parts is None
            else (function(array, parts), function(plain, parts))
        )
        assert len(ours) == len(theirs)
        for one, other in zip(ours[:3], theirs[:3], strict=True):
            same(one, other)
    assert [a.shape for a in oc.broadcast_arrays(array, np.zeros((4, 1)))] == [SHAPE, SHAPE]
    with pytest.raises(oc.InvalidArgumentError, match="equal division"):
        oc.split(array, 4)
    with pytest.raises(oc.InvalidArgumentError):
        np.vsplit(array[0, 0], 2)


def test_arguments_that_make_no_sense() -> None:
    array = oc.zeros((3, 4))
    for wrong, error in (
        (lambda: oc.roll(array, (1, 2, 3), axis=(0, 1)), ValueError),
        (lambda: oc.roll(array, 1.5), TypeError),
        (lambda: oc.repeat(array, [1, 2], axis=0), ValueError),
        (lambda: oc.repeat(array, -1, axis=0), ValueError),
        (lambda: oc.repeat(array, 1.5), TypeError),
        (lambda: oc.tile(array, -1), ValueError),
        (lambda: oc.pad(array, -1), ValueError),
        (lambda: oc.pad(array, (1, 2, 3)), ValueError),
        (lambda: oc.pad(array, 1, "mean"), oc.UnsupportedError),
        (lambda: oc.moveaxis(array, 2, 0), IndexError),
        (lambda: oc.moveaxis(array, (0, 1), 0), ValueError),
        (lambda: oc.unstack(oc.asarray(1.0)), ValueError),
        (lambda: oc.array_split(array, 0), ValueError),
    ):
        with pytest.raises(error):
            wrong()
