"""Medians and quantiles of arrays that exceed the budget: exactly NumPy's, in few passes."""

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import outcrop as oc
from outcrop.array_api.order_statistics import _METHODS

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

FIXTURES = [HealthCheck.function_scoped_fixture]
RNG = np.random.default_rng(11)
MANY = 1 << 20
TIMES = 2.2
"""How often all elements are read, at most."""


def special(values: Any) -> Any:
    """With infinities and zeros of both signs."""
    values[::7919], values[5::7919], values[7::97] = np.inf, -np.inf, -0.0
    return values


KINDS: dict[str, Any] = {
    "float64": RNG.standard_normal(MANY),
    "float32": special(RNG.standard_normal(MANY).astype("float32")),
    "sorted": np.arange(MANY) * 1.0,
    "backwards": np.arange(MANY)[::-1] * 1.0,
    "waves": np.sin(np.arange(MANY) / 700),
    "few": RNG.integers(0, 3, MANY),
    "mostly one": np.where(RNG.random(MANY) < 0.97, 5.0, RNG.random(MANY) * 9),
    "constant": np.full(MANY, 7.5),
    "heavy": RNG.standard_cauchy(MANY) ** 3,
    "infinite": np.where(RNG.random(MANY) < 0.7, np.inf, 0.0),
    "int8": RNG.integers(-128, 127, 4 * MANY, dtype="int8"),
    "uint64": RNG.integers(0, 2**64 - 1, MANY, dtype="uint64"),
    "int64": RNG.integers(-(2**63), 2**63 - 1, MANY),
    "bool": RNG.random(4 * MANY) < 0.3,
}


@pytest.mark.parametrize("kind", KINDS)
def test_all_elements(desk: Any, kind: str) -> None:
    plain = KINDS[kind].reshape(1024, -1)
    array = desk.put(plain, "npy")
    found = np.median(array)
    assert isinstance(found, oc.Array)
    run = oc.last_run()
    assert run is not None
    assert run.bytes_written == 0
    assert run.bytes_read <= TIMES * plain.nbytes
    assert run.peak_bytes <= oc.config().memory
    np.testing.assert_array_equal(found.compute(), np.median(plain))
    q = [0, 0.001, 0.25, 0.5, 0.999, 1]
    for method in ("linear", "lower", "higher", "nearest", "inverted_cdf"):
        if kind == "bool" and method == "linear":
            # Truth values cannot be subtracted.
            with pytest.raises(TypeError):
                oc.quantile(array, q, method=method)
            continue
        found = oc.quantile(array, q, method=method)
        expected = np.quantile(plain, q, method=method)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found.compute(), expected)
    run = oc.last_run()
    assert run is not None and run.bytes_written == 0


@pytest.mark.parametrize("layout", ["zarr", "F", "transposed", "stepped", "computed", "function"])
def test_layouts(desk: Any, layout: str) -> None:
    plain = RNG.standard_normal((500, 700))
    array = desk.put(plain, layout)
    np.testing.assert_array_equal(np.median(array).compute(), np.median(plain))
    np.testing.assert_array_equal(
        np.percentile(array, [1, 50]).compute(), np.percentile(plain, [1, 50])
    )
    for axis in (0, 1):
        desk.check(np.median(array, axis=axis), np.median(plain, axis=axis), digits=0)
        found = np.quantile(array, [0.1, 0.5], axis=axis)
        desk.check(found, np.quantile(plain, [0.1, 0.5], axis=axis), digits=0)


def test_nan(desk: Any) -> None:
    plain = RNG.standard_normal((1024, 1024))
    array = desk.put(plain, "npy")
    missing = np.where(plain > 1, np.nan, plain)
    with_nan = desk.put(missing, "npy")
    assert np.isnan(np.median(with_nan).compute())
    assert np.isnan(np.quantile(with_nan, [0.1, 0.2]).compute()).all()
    for function in (np.nanmedian, lambda x: np.nanpercentile(x, [3, 80])):
        for ours, theirs in ((array, plain), (with_nan, missing)):
            np.testing.assert_array_equal(function(ours).compute(), function(theirs))
    none = desk.put(np.full((1024, 1024), np.nan), "npy")
    assert np.isnan(np.nanmedian(none).compute())
    few = np.full((1024, 1024), np.nan)
    few[7, 3], few[900, 5] = 4, 2
    assert np.nanmedian(desk.put(few, "npy")).compute() == 3
    rows = missing[:300, :200]
    desk.check(np.nanmedian(desk.put(rows), axis=1), np.nanmedian(rows, axis=1), digits=0)


@pytest.mark.parametrize("method", _METHODS)
def test_methods(desk: Any, method: str) -> None:
    """Those that this module has itself, as far as memory is too small for NumPy's."""
    q = [0, 0.1, 0.25, 1 / 3, 0.5, 0.749, 0.9, 1]
    for count in (260_000, 260_001, 260_002, 260_003):
        plain = np.random.default_rng(count).integers(0, 10**6, count) * 1.0
        array = desk.put(plain, "npy")
        found = oc.quantile(array, q, method=method).compute()
        np.testing.assert_allclose(found, np.quantile(plain, q, method=method), rtol=1e-14)
        one = oc.quantile(array, 0.3, method=method)
        np.testing.assert_allclose(one.compute(), np.quantile(plain, 0.3, method=method))
        whole = plain.astype("int32")
        found = oc.quantile(desk.put(whole, "npy"), q, method=method)
        assert found.dtype == np.quantile(whole, q, method=method).dtype


@given(
    values=st.lists(
        st.one_of(st.floats(width=32), st.sampled_from([0.0, 1.0, np.inf, -np.inf])), min_size=1
    ),
    times=st.integers(1, 9),
    q=st.lists(st.floats(0, 1), min_size=1, max_size=4),
    method=st.sampled_from(["linear", "lower", "higher", "midpoint", "nearest", "hazen"]),
)
@settings(max_examples=60, deadline=None, suppress_health_check=FIXTURES)
def test_anything(
    desk: Any, monkeypatch: pytest.MonkeyPatch, values: Any, times: int, q: Any, method: str
) -> None:
    """Of so few that are kept that there are several passes."""
    with monkeypatch.context() as patched:
        patched.setattr("outcrop.array_api.order_statistics.piece_limit", lambda: 1)
        patched.setattr("outcrop.array_api.order_statistics._EACH", 0)
        patched.setattr("outcrop.expressions.build.selection.piece_limit", lambda: 40)
        patched.setattr("outcrop.expressions.build.selection._FEWEST", 4)
        plain = np.repeat(np.array(values), times)
        np.random.default_rng(1).shuffle(plain)
        array = oc.asarray(plain)
        for function in (np.quantile, np.nanquantile):
            expected = function(plain, q, method=method)
            found = function(array, q, method=method).compute()
            np.testing.assert_allclose(found, expected, rtol=1e-12)
        np.testing.assert_array_equal(np.median(array).compute(), np.median(plain))


def test_shapes(desk: Any) -> None:
    plain = RNG.standard_normal((30, 40, 50))
    array = desk.put(plain)
    for axis in (None, 0, (0, 2), (1, 2), (0, 1, 2), -1):
        for keepdims in (False, True):
            options: Any = {"axis": axis, "keepdims": keepdims}
            for q in (0.5, [0.5], [[0.1], [0.2]]):
                found = np.quantile(array, q, **options)
                desk.compare(found.compute(), np.asarray(np.quantile(plain, q, **options)))
            found = np.median(array, **options)
            desk.compare(found.compute(), np.asarray(np.median(plain, **options)))
    column = desk.put(plain.reshape(-1, 1))
    desk.compare(np.median(column, axis=0).compute(), np.median(plain.reshape(-1, 1), axis=0))
    target = np.empty((40, 50))
    assert np.median(array, 0, target) is target
    np.testing.assert_array_equal(target, np.median(plain, 0))


def test_few_lines_that_are_longer_than_memory(desk: Any) -> None:
    plain = RNG.standard_normal((3, 300_000))
    for layout in ("npy", "zarr"):
        array = desk.put(plain, layout)
        found = np.quantile(array, [0.1, 0.5], axis=1)
        np.testing.assert_array_equal(found.compute(), np.quantile(plain, [0.1, 0.5], axis=1))
        np.testing.assert_array_equal(np.median(array, 1).compute(), np.median(plain, 1))


def test_of_an_expression(desk: Any) -> None:
    plain = RNG.standard_normal((1000, 300))
    array = desk.put(plain)
    np.testing.assert_array_equal(np.median(array * 2).compute(), np.median(plain * 2))
    total = (array @ array[:300].T).compute
    assert total
    found = np.median(array - np.median(array, axis=1, keepdims=True), axis=1)
    desk.check(found, np.median(plain - np.median(plain, axis=1, keepdims=True), axis=1))
    product = np.median(array.T @ array)
    np.testing.assert_allclose(product.compute(), np.median(plain.T @ plain), rtol=1e-9)


def test_errors(desk: Any) -> None:
    array = desk.put(RNG.standard_normal((300, 200)))
    with pytest.raises(oc.InvalidArgumentError, match=r"range \[0, 1\]"):
        oc.quantile(array, 1.5)
    with pytest.raises(oc.InvalidArgumentError, match=r"range \[0, 100\]"):
        oc.percentile(array, -1)
    with pytest.raises(oc.InvalidArgumentError, match="'best' is not a valid method"):
        oc.quantile(array, 0.5, method="best")
    with pytest.raises(oc.InvalidTypeError):
        oc.quantile(array * 1j, 0.5)
    with pytest.raises(oc.InvalidTypeError, match="quantiles are numbers"):
        oc.quantile(array, "half")
    with pytest.raises(oc.AxisError):
        oc.median(array, axis=2)
    with pytest.raises(oc.BoxIndexError):
        oc.quantile(array[:0], 0.5)
    with pytest.raises(oc.BudgetError, match="quantiles take"):
        oc.quantile(array, np.linspace(0, 1, 100_000))
    with pytest.raises(oc.UnsupportedError, match="weights"):
        np.quantile(array, 0.5, method="inverted_cdf", weights=np.ones((300, 200)))
