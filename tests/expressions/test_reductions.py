"""Reductions and running sums, against NumPy."""

from typing import Any

import numpy as np
import pytest

import outcrop as oc

RNG = np.random.default_rng(2)
SHAPE = (61, 40, 37)
AXES: list[Any] = [None, 0, 1, -1, (0, 2), (0, 1, 2)]


def values(dtype: str) -> Any:
    if np.dtype(dtype).kind in "biu":
        return RNG.integers(0, 9, SHAPE).astype(dtype)
    real = RNG.standard_normal(SHAPE) + 3
    return (real + (1j * RNG.standard_normal(SHAPE) if dtype[0] == "c" else 0)).astype(dtype)


@pytest.mark.parametrize("dtype", ["int8", "float32", "complex128"])
@pytest.mark.parametrize("axis", AXES, ids=str)
def test_of_every_kind(desk: Any, dtype: str, axis: Any) -> None:
    plain = values(dtype)
    array = desk.put(plain)
    for name in ("sum", "mean", "var", "std", "min", "max", "any", "all"):
        if name in ("min", "max") and dtype == "bool":
            continue
        ours, theirs = getattr(np, name)(array, axis=axis), getattr(np, name)(plain, axis=axis)
        desk.check(ours, theirs)
        kept = getattr(array, name)(axis, keepdims=True)
        desk.check(kept, getattr(plain, name)(axis, keepdims=True))
    desk.check(np.prod(array / 4, axis=axis), np.prod(plain / 4, axis=axis))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_places_of_extremes(desk: Any, axis: int) -> None:
    plain = values("float64").round(1)
    plain[5, :, 3] = np.nan
    plain[7] = plain[30]
    array = desk.put(plain)
    desk.check(array.argmax(axis), plain.argmax(axis))
    desk.check(array.argmin(axis), plain.argmin(axis))
    desk.check(array.argmin(axis, keepdims=True), plain.argmin(axis, keepdims=True))
    desk.check(array.max(axis), plain.max(axis))
    whole = values("int8")
    desk.check(np.argmax(desk.put(whole), axis), whole.argmax(axis))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_running_sums(desk: Any, axis: int) -> None:
    plain = values("float64")
    array = desk.put(plain)
    desk.check(oc.cumulative_sum(array, axis=axis), plain.cumsum(axis))
    desk.check(np.maximum.accumulate(array, axis=axis), np.maximum.accumulate(plain, axis=axis))
    desk.check(np.cumprod(array / 3, axis=axis), np.cumprod(plain / 3, axis=axis))
    desk.check(np.cumsum(array.astype("int16"), axis), plain.astype("int16").cumsum(axis))
    desk.check(array.cumsum(axis).sum(axis), plain.cumsum(axis).sum(axis))


def test_options(desk: Any) -> None:
    plain = values("float64")
    array = desk.put(plain)
    desk.check(oc.sum(array, axis=0, dtype="float32"), plain.sum(0, dtype="float32"))
    desk.check(oc.sum(array, axis=1, initial=5.0), plain.sum(1, initial=5.0))
    desk.check(oc.sum(array, axis=1, where=array > 3), plain.sum(1, where=plain > 3))
    desk.check(
        oc.max(array, axis=1, where=array < 3, initial=-9.0),
        plain.max(1, where=plain < 3, initial=-9.0),
    )
    desk.check(array.var((0, 1), ddof=1), plain.var((0, 1), ddof=1))
    desk.check(oc.count_nonzero(array > 3, axis=2), np.count_nonzero(plain > 3, axis=2))
    desk.check(np.logaddexp.reduce(array, axis=0), np.logaddexp.reduce(plain, axis=0))
    for axis, error in ((3, IndexError), ((0, 0), ValueError), (1.5, TypeError)):
        with pytest.raises(error):
            array.sum(axis)
    with pytest.raises(oc.InvalidArgumentError, match="not reorderable"):
        np.subtract.reduce(array, axis=None)


def test_first_numbers_that_do_not_fit_are_refused(desk: Any) -> None:
    plain = np.arange(12, dtype="uint8").reshape(3, 4)
    array = desk.put(plain)
    for axis in (None, 0, ()):
        with pytest.raises(OverflowError, match="-5 out of bounds for uint8"):
            array.max(axis=axis, initial=-5)
        with pytest.raises(OverflowError, match="-5 out of bounds for uint64"):
            array.sum(axis=axis, initial=-5)
    with pytest.raises(oc.InvalidTypeError):
        array.sum(initial=1j)
    with pytest.raises(oc.InvalidArgumentError, match="one number"):
        array.sum(initial=[1, 2])
    desk.check(np.sum(array, initial=1.5), np.sum(plain, initial=1.5))
    for mask in (True, plain > 4):
        desk.check(
            np.bitwise_and.reduce(array, axis=0, where=mask),
            np.bitwise_and.reduce(plain, axis=0, where=mask),
        )


def test_running_ones_along_all_axes(tiny: Any) -> None:
    plain = (1 + (values("float32")[:, :9, :5] - 3) / 100).astype("float32")
    plain[3, 3, 3] = np.nan
    for name in ("cumsum", "cumprod", "nancumsum", "nancumprod"):
        ours = getattr(np, name)
        tiny.check(ours(tiny.put(plain)), ours(plain), digits=1e4)
    for name in ("nancumsum", "nancumprod"):
        ours, theirs = getattr(oc, name), getattr(np, name)
        tiny.check(ours(tiny.put(plain)), theirs(plain), digits=1e4)
    with pytest.raises(oc.InvalidArgumentError, match="axis is needed"):
        oc.cumulative_sum(tiny.put(plain))
    with pytest.raises(ValueError, match="axis"):
        np.cumulative_sum(tiny.put(plain))


def test_of_nothing(desk: Any) -> None:
    plain = np.ones((0, 4))
    array = oc.asarray(plain)
    for name in ("sum", "prod", "any", "all"):
        for axis in (None, 0, 1):
            desk.check(getattr(oc, name)(array, axis=axis), getattr(np, name)(plain, axis=axis))
    with pytest.raises(ValueError, match="zero-size array"):
        array.max()
    assert array.max(1).shape == (0,)
    with pytest.warns(RuntimeWarning):
        assert np.isnan(float(array.mean()))


def test_sums_are_as_exact_as_numpys(desk: Any) -> None:
    """A plain sum would lose eight of them."""
    plain = np.full(3_000_000, np.float32(0.1))
    array = desk.put(plain, "npy")
    ours = float(array.sum())
    assert abs(ours - 3e5) <= 2 * abs(float(plain.sum()) - 3e5) + 0.1


def test_several_passes(desk: Any) -> None:
    plain = RNG.standard_normal((20_000, 30)) + 100
    array = desk.put(plain, "npy")
    normal = (array - array.mean(0)) / array.std(0)
    expected = (plain - plain.mean(0)) / plain.std(0)
    # The mean is a hundred times what is left of it.
    desk.check(normal, expected, digits=1e5)
    desk.check((normal**3).mean(0), (expected**3).mean(0), digits=1e6)
    plan = oc.plan((normal**3).mean(0))
    # The mean and the deviation in one pass, what is made of them in another.
    assert plan.bytes_read <= 2.2 * array.nbytes
    (normal**3).mean(0).compute()
    run = oc.last_run()
    assert run is not None
    assert run.bytes_read == plan.bytes_read


@pytest.mark.parametrize("axis", [0, -1])
def test_one_number_is_a_row_of_one(desk: Any, axis: int) -> None:
    plain = np.array(3.5)
    for array in (oc.asarray(plain), desk.put(plain)):
        desk.check(np.cumsum(array, axis=axis), np.cumsum(plain, axis=axis))
        desk.check(oc.cumulative_prod(array, axis=axis), np.cumprod(plain, axis=axis))
        desk.check(oc.take(array, [0, 0], axis=axis), np.take(plain, [0, 0], axis=axis))
        desk.check(oc.take(array, 0, axis=axis), np.take(plain, 0, axis=axis))
        desk.check(oc.repeat(array, 3, axis=axis), np.repeat(plain, 3, axis=axis))
        desk.check(oc.compress([True], array, axis=axis), np.compress([True], plain, axis=axis))
        with pytest.raises(oc.AxisError):
            oc.take(array, 0, axis=1)


@pytest.mark.parametrize("tile", [None, (31, 17), (40, 93)], ids=str)
def test_a_sum_beside_what_it_is_of(desk: Any, tile: tuple[int, int] | None) -> None:
    """The whole is taken, not the part that a step of the same cell has left."""
    x = np.random.default_rng(0).random((157, 93))
    with oc.config(memory="64MiB"):
        path = desk.path / ("x.npy" if tile is None else "x.zarr")
        A = oc.asarray(x).save(path, **({} if tile is None else {"tile": tile}))
    for kibibytes in (400, 1024):
        with oc.config(memory=f"{kibibytes}KiB"):
            for of in (
                lambda x: x - x.max(),
                lambda x: x - x.min(axis=0),
                lambda x: x.max(axis=1, keepdims=True) - x,
            ):
                np.testing.assert_array_equal(np.asarray(of(A)), of(x))
