"""Reductions of any kind, and those that skip NaN, over arrays made at random, against NumPy."""

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import outcrop as oc

DTYPES = ["bool", "int8", "uint16", "int64", "float32", "float64", "complex64", "complex128"]
TOTALS = ["sum", "prod", "nansum", "nanprod", "mean", "nanmean", "var", "std", "nanvar", "nanstd"]
EXTREMES = ["min", "max", "nanmin", "nanmax"]
PLACES = ["argmin", "argmax", "nanargmin", "nanargmax"]
RUNNING = ["cumsum", "cumprod", "nancumsum", "nancumprod"]

often = settings(
    max_examples=50,
    # The same ones each time: rounding errors are a matter of luck.
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@st.composite
def arrays(draw: Any, dtypes: Any = DTYPES, least: int = 0) -> Any:
    """Of any shape, with some NaN, or nothing else along an axis."""
    ndim = draw(st.integers(least, 3), "ndim")
    longest = {0: 1, 1: 30_000, 2: 300, 3: 40}[ndim]
    shape = tuple(draw(st.lists(st.integers(0, longest), min_size=ndim, max_size=ndim), "shape"))
    dtype = np.dtype(draw(st.sampled_from(dtypes), "dtype"))
    chance = np.random.default_rng(draw(st.integers(0, 99), "seed"))
    if dtype.kind in "biu":
        return chance.integers(0, 2 if dtype.kind == "b" else 7, shape).astype(dtype)
    made = chance.integers(-4, 5, shape) / 4 + 1
    if dtype.kind == "c":
        made = made + 1j * chance.integers(-4, 5, shape) / 4
    made = np.asarray(made).astype(dtype)
    missing = draw(st.sampled_from([0, 0.1, 0.9, 1]), "missing")
    made[chance.random(shape) < missing] = np.nan
    if ndim and shape[0]:
        made[chance.integers(0, shape[0])] = np.nan
    return made


def axes(data: st.DataObject, ndim: int) -> Any:
    any_axis = st.integers(-ndim, ndim - 1) if ndim else st.none()
    several = st.sets(st.integers(0, ndim - 1)).map(tuple) if ndim else st.just(())
    return data.draw(st.one_of(st.none(), any_axis, several), "axis")


def compare(desk: Any, function: Any, plain: Any, **options: Any) -> None:
    """The same elements, errors and warnings as NumPy's."""
    array = desk.put(plain) if plain.size and plain.ndim else oc.asarray(plain)
    ours = {k: oc.asarray(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        try:
            expected = function(plain, **options)
        except (TypeError, ValueError) as error:
            with pytest.raises(type(error)):
                np.asarray(function(array, **ours))
            return
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        # NumPy subtracts means of either type from elements of the array's own.
        digits = 2000 * np.finfo(plain.dtype).eps if plain.dtype.kind in "fc" else 1e-11
        if np.asarray(expected).dtype.kind in "fc":
            digits = max(digits / np.finfo(np.asarray(expected).dtype).eps, 2000)
        desk.check(function(array, **ours), expected, digits=digits)
    of_ours = {w.category for w in raised if "slice" in str(w.message)}
    assert of_ours <= {w.category for w in seen}
    assert bool(of_ours) == any("slice" in str(w.message) for w in seen)


@often
@given(data=st.data(), plain=arrays())
def test_totals(desk: Any, data: st.DataObject, plain: Any) -> None:
    name = data.draw(st.sampled_from(TOTALS), "name")
    options: dict[str, Any] = {"axis": axes(data, plain.ndim), "keepdims": data.draw(st.booleans())}
    if "var" in name or "std" in name:
        options["ddof"] = data.draw(st.sampled_from([0, 1, 0.5, 40]), "ddof")
    if data.draw(st.booleans(), "typed"):
        options["dtype"] = "complex128" if plain.dtype.kind == "c" else "float64"
    if data.draw(st.booleans(), "masked"):
        mask = np.random.default_rng(5).random(plain.shape[-1:]) < 0.7
        options["where"] = data.draw(st.sampled_from([np.asarray(mask), np.asarray(False)]))
    if "sum" in name and data.draw(st.booleans()):
        options["initial"] = 3
    compare(desk, getattr(np, name), plain, **options)


@often
@given(data=st.data(), plain=arrays())
def test_extremes(desk: Any, data: st.DataObject, plain: Any) -> None:
    name = data.draw(st.sampled_from(EXTREMES), "name")
    options: dict[str, Any] = {"axis": axes(data, plain.ndim), "keepdims": data.draw(st.booleans())}
    if data.draw(st.booleans(), "begun"):
        options["initial"] = 1
        if data.draw(st.booleans(), "masked"):
            options["where"] = np.asarray(np.random.default_rng(5).random(plain.shape) < 0.5)
    compare(desk, getattr(np, name), plain, **options)


@often
@given(data=st.data(), plain=arrays())
def test_places(desk: Any, data: st.DataObject, plain: Any) -> None:
    name = data.draw(st.sampled_from(PLACES), "name")
    axis = data.draw(st.sampled_from([None, *range(-plain.ndim, plain.ndim)]), "axis")
    compare(desk, getattr(np, name), plain, axis=axis, keepdims=data.draw(st.booleans()))


@often
@given(data=st.data(), plain=arrays(least=1))
def test_running_ones(desk: Any, data: st.DataObject, plain: Any) -> None:
    name = data.draw(st.sampled_from(RUNNING), "name")
    axis = data.draw(st.integers(-plain.ndim, plain.ndim - 1), "axis")
    compare(desk, getattr(np, name), plain / 4 if "prod" in name else plain, axis=axis)
    for running in (np.cumulative_sum, np.cumulative_prod):
        compare(desk, running, plain / 4, axis=axis, include_initial=True)


def test_as_functions_and_in_one_pass(desk: Any) -> None:
    plain = np.random.default_rng(1).standard_normal((4000, 64))
    plain[plain > 1] = np.nan
    array = desk.put(plain, "npy")
    for name in ("nansum", "nanmean", "nanmin", "nanstd", "nanargmax"):
        ours, theirs = getattr(oc, name), getattr(np, name)
        for axis in (None, 0, 1):
            result = ours(array, axis=axis)
            assert oc.plan(result).bytes_read <= 1.01 * array.nbytes
            desk.check(result, theirs(plain, axis=axis))
    desk.check(oc.nanvar(array, axis=0, correction=1), np.nanvar(plain, axis=0, ddof=1))
    desk.check(oc.nancumsum(array, axis=0), np.nancumsum(plain, axis=0))
    with pytest.raises(TypeError, match="floating-point"):
        oc.nanmean(array, dtype="int64")


def test_sums_that_skip_nan_are_as_exact(desk: Any) -> None:
    plain = np.full(1_000_000, np.float32(0.1))
    plain[::7] = np.nan
    array = desk.put(plain, "npy")
    exact = np.nansum(plain.astype("float64"))
    assert abs(float(np.nansum(array)) - exact) <= 2 * abs(np.nansum(plain) - exact) + 0.01
    far = np.random.default_rng(1).standard_normal(200_000) + 1e7
    far[::3] = np.nan
    assert float(oc.nanstd(desk.put(far, "npy"))) == pytest.approx(np.nanstd(far), rel=1e-12)


def test_warnings_and_errors_come_when_it_is_computed(desk: Any) -> None:
    plain = np.ones((300, 200))
    plain[:, 7] = np.nan
    array = desk.put(plain)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mean, least = oc.nanmean(array, axis=0), oc.nanmin(array, axis=0)
        place = oc.nanargmin(array, axis=0)
        # What is not asked for does not warn.
        assert float(mean[3] + 0) == float(least[3] + 0) == 1
        assert int(place[3] + 0) == 0
    with pytest.warns(RuntimeWarning, match="Mean of empty slice"):
        mean.compute()
    with pytest.warns(RuntimeWarning, match="All-NaN slice"):
        least.compute()
    with pytest.raises(oc.InvalidArgumentError, match="All-NaN slice"):
        place.compute()
    with warnings.catch_warnings(), pytest.raises(RuntimeWarning):
        warnings.simplefilter("error")
        mean.compute()


def test_errors_show_nothing_of_the_memory_of_steps(desk: Any) -> None:
    """Their frames once held tiles, and to print these crashed."""
    array = desk.put(np.full((300, 200), np.nan))
    with pytest.raises(oc.InvalidArgumentError) as caught:
        oc.nanargmax(array, axis=0).compute()
    error: BaseException | None = caught.value
    while error is not None:
        frame = error.__traceback__
        while frame is not None:
            assert not {"tiles", "workspace", "out"} & set(frame.tb_frame.f_locals)
            frame = frame.tb_next
        error = error.__context__
