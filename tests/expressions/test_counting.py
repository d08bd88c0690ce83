"""Counting, looking up: what NumPy finds, without all elements in memory."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import outcrop as oc

RNG = np.random.default_rng(17)
FLOATS = RNG.normal(size=(300, 1000))
INTEGERS = RNG.integers(0, 50, 400_000)
TABLE = np.sort(RNG.normal(size=40))


@pytest.mark.parametrize(
    "call",
    [
        lambda a: np.histogram(a),
        lambda a: np.histogram(a, 100),
        lambda a: np.histogram(a, 7, (-1, 2)),
        lambda a: np.histogram(a, TABLE),
        lambda a: np.histogram(a, 20, density=True),
        lambda a: np.histogram((2 * a).astype("i4"), 5),
        lambda a: np.histogram(a.astype("f4"), 30),
        lambda a: np.unique(np.floor(a)),
        lambda a: np.unique(np.floor(a), return_counts=True),
        lambda a: np.unique(np.where(a > 0, np.nan, 1.0), return_counts=True),
        lambda a: np.bincount(np.floor(np.abs(a)).astype(int).ravel(), minlength=9),
    ],
)
@pytest.mark.parametrize("layout", ["zarr", "npy", "computed"])
def test_counts(desk: Any, call: Callable[[Any], Any], layout: str) -> None:
    found, expected = call(desk.put(FLOATS, layout)), call(FLOATS)
    both = [x if isinstance(x, tuple) else (x,) for x in (found, expected)]
    for one, other in zip(*both, strict=True):
        assert isinstance(one, np.ndarray)
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def test_integers(desk: Any) -> None:
    X = desk.put(INTEGERS, "npy")
    np.testing.assert_array_equal(oc.bincount(X), np.bincount(INTEGERS))
    values, counts = oc.unique_counts(X)
    np.testing.assert_array_equal(values, np.unique(INTEGERS))
    np.testing.assert_array_equal(counts, np.bincount(INTEGERS))
    np.testing.assert_array_equal(oc.unique_values(X), values)
    found, inverse = oc.unique_inverse(X)
    # It is larger than the budget.
    again = oc.take(found, inverse).save(desk.path / "again.npy")
    again.close()
    np.testing.assert_array_equal(np.load(desk.path / "again.npy"), INTEGERS)


def test_one_pass_and_nothing_written(desk: Any) -> None:
    X = desk.put(FLOATS, "npy")
    oc.histogram(np.exp(X) + 1, 50, (0, 9))
    run = oc.last_run()
    assert run is not None
    assert run.bytes_read < 1.2 * FLOATS.nbytes
    assert run.bytes_written == 0


def test_nothing(desk: Any) -> None:
    for shape in ((0,), (3, 0)):
        X = oc.zeros(shape)
        for one, other in zip(oc.histogram(X, 4), np.histogram(np.zeros(shape), 4), strict=True):
            np.testing.assert_array_equal(one, other)
        assert oc.unique_values(X).size == 0
    np.testing.assert_array_equal(oc.bincount(oc.zeros(0, dtype=int), minlength=3), [0, 0, 0])


@pytest.mark.parametrize(
    "call",
    [
        lambda a: np.isin(a, [0.5, FLOATS[3, 7], np.nan]),
        lambda a: np.isin(a, FLOATS[0], invert=True),
        lambda a: np.searchsorted(TABLE, a),
        lambda a: np.searchsorted(TABLE[::-1], a, "right", np.arange(40)[::-1]),
        lambda a: np.digitize(a, TABLE),
        lambda a: np.digitize(a, TABLE[::-1], right=True),
        lambda a: np.interp(a, TABLE, np.arange(40.0)),
        lambda a: np.interp(a, TABLE, np.arange(40.0), left=-1, right=99),
        lambda a: np.interp(a, [0, 0.25, 0.5], [1, 2, 1], period=1),
    ],
)
def test_looking_up(desk: Any, call: Callable[[Any], Any]) -> None:
    desk.check(call(desk.put(FLOATS, "zarr")), call(FLOATS), digits=4)


def test_vdot(desk: Any) -> None:
    one, other = FLOATS + 1j * FLOATS[::-1], FLOATS * 1j
    X, Y = desk.put(one, "npy"), desk.put(other, "zarr")
    np.testing.assert_allclose(complex(np.vdot(X, Y)), np.vdot(one, other), rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda a: np.histogram(a, 0), oc.InvalidArgumentError),
        (lambda a: np.histogram(a, [3, 1]), oc.InvalidArgumentError),
        (lambda a: np.histogram(a, 5, (2, 1)), oc.InvalidArgumentError),
        (lambda a: np.histogram(np.where(a > 0, a, np.nan)), oc.InvalidArgumentError),
        (lambda a: np.bincount(a), oc.InvalidArgumentError),
        (lambda a: np.bincount(a[0]), oc.InvalidTypeError),
        (lambda a: np.bincount(np.floor(a[0]).astype(int)), oc.InvalidArgumentError),
        (lambda a: np.searchsorted([[1, 2]], a), oc.InvalidArgumentError),
        (lambda a: np.digitize(a, [1, 3, 2]), oc.InvalidArgumentError),
    ],
)
def test_errors(desk: Any, call: Callable[[Any], Any], kind: type[Exception]) -> None:
    with pytest.raises(kind) as caught:
        call(desk.put(FLOATS, "npy"))
    with pytest.raises(Exception) as theirs:
        call(FLOATS)
    assert isinstance(caught.value, type(theirs.value))


def test_what_is_not_supported(desk: Any) -> None:
    X = desk.put(FLOATS, "npy")
    for call in (
        lambda: np.histogram(X, "auto"),
        lambda: np.histogram(X * 1j),
        lambda: np.histogram(X, 3, weights=X),
        lambda: np.bincount(X[0].astype(int), weights=X[0]),
        lambda: np.unique(X, return_index=True),
        lambda: np.unique(X, axis=0),
    ):
        with pytest.raises(oc.UnsupportedError):
            call()
    with pytest.raises(oc.BudgetError, match="values, counted") as caught:
        np.unique(X)
    assert caught.value.needed
    with pytest.raises(oc.BudgetError, match="values, counted"):
        np.bincount(X[0].astype(int) * 0 + 10**9)


@pytest.mark.parametrize("kind", ["int64", "float64", "complex64"])
def test_values_that_memory_has_no_room_for(desk: Any, kind: str) -> None:
    plain = np.random.default_rng(3).integers(0, 60_000, (150, 1000)).astype(kind)
    if plain.dtype.kind in "fc":
        plain[plain.real % 7 == 0] = np.nan
    array = desk.put(plain, "npy")
    with oc.config(memory="1MiB"):
        values, counts = oc.unique_counts(array)
        found = oc.unique_all(array)
        inverse = oc.unique_inverse(array)
        alone = oc.unique_values(array)
        assert alone.nbytes > (1 << 20) // 8
    with oc.config(memory="64MiB"):
        expected = np.unique(plain, return_counts=True, equal_nan=False)
        for one in (values, found.values, inverse.values, alone):
            np.testing.assert_array_equal(one.compute(), expected[0])
        for one in (counts, found.counts):
            np.testing.assert_array_equal(one.compute(), expected[1])
        elements, places = found.values.compute(), found.indices.compute()
        np.testing.assert_array_equal(plain.reshape(-1)[places], elements)
        for one in (found.inverse_indices, inverse.inverse_indices):
            which = one.compute()
            np.testing.assert_array_equal(elements[which], plain)
            # Those are the first ones.
            first = np.full(len(elements), plain.size)
            np.minimum.at(first, which.reshape(-1), np.arange(plain.size))
            np.testing.assert_array_equal(first, places)
