"""Methods of ufuncs, ``out=``, and what is made of reductions, against NumPy."""

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import outcrop as oc

RNG = np.random.default_rng(4)
BINARY = [
    found
    for name in dir(np)
    if isinstance(found := getattr(np, name), np.ufunc)
    and (found.nin, found.nout, found.signature) == (2, 1, None)
]
DTYPES = ["bool", "int8", "int64", "float32", "float64", "complex128"]


def values(dtype: str, shape: tuple[int, ...] = (90, 70)) -> Any:
    if np.dtype(dtype).kind in "biu":
        return RNG.integers(0, 2, shape).astype(dtype)
    real = RNG.uniform(0.9, 1.1, shape)
    return (real + (0.1j * RNG.standard_normal(shape) if dtype[0] == "c" else 0)).astype(dtype)


def made(function: Any, *args: Any, **options: Any) -> Any:
    """What NumPy gives, or the class of its error."""
    try:
        return function(*args, **options)
    except (TypeError, ValueError, IndexError) as error:
        return type(error)


def same(desk: Any, ours: Any, expected: Any) -> None:
    """`ours` is called."""
    if isinstance(expected, type):
        with pytest.raises((TypeError, ValueError, IndexError)):
            ours()
    elif expected.dtype == np.float16:
        # It cannot be stored.
        desk.check(ours().astype("f4"), expected.astype("f4"), digits=1e4)
    else:
        desk.check(ours(), expected, digits=2000)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("ufunc", dict.fromkeys(BINARY), ids=lambda u: u.__name__)
def test_of_every_ufunc(desk: Any, ufunc: np.ufunc) -> None:
    for dtype in DTYPES:
        plain = values(dtype)
        array = desk.put(plain)
        for axis in (0, 1, None):
            expected = made(ufunc.reduce, plain, axis=axis)
            if not isinstance(expected, type) and axis is not None:
                # Some of NumPy's loops do not reduce in order along the last axis.
                running = made(ufunc.accumulate, plain, axis=axis)
                expected = running if isinstance(running, type) else running.take(-1, axis)
            same(desk, lambda a=array, x=axis: ufunc.reduce(a, axis=x), expected)
        expected = made(ufunc.accumulate, plain, axis=0)
        same(desk, lambda a=array: ufunc.accumulate(a, axis=0), expected)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_one_after_the_other(desk: Any) -> None:
    """What cannot be taken apart is computed in order, in one pass, and nothing is kept."""
    plain = RNG.uniform(-1, 1, (8000, 32))
    array = desk.put(plain, "npy")
    for ufunc in (np.subtract, np.arctan2, np.nextafter):
        for axis in (0, 1):
            result = ufunc.reduce(array, axis=axis)
            plan = oc.plan(result)
            assert plan.bytes_read <= 1.01 * array.nbytes
            assert plan.bytes_written <= array.nbytes / 4
            desk.check(result, ufunc.accumulate(plain, axis=axis).take(-1, axis))
    desk.check(
        np.subtract.reduce(array, axis=0, initial=5.0, keepdims=True),
        np.subtract.reduce(plain, axis=0, initial=5.0, keepdims=True),
    )
    desk.check(np.subtract.accumulate(array)[:900, 3:5], np.subtract.accumulate(plain)[:900, 3:5])
    with pytest.raises(oc.UnsupportedError, match="where="):
        np.subtract.reduce(array, initial=0, where=array > 0)


@settings(
    max_examples=40,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    indices=st.lists(st.integers(-1, 120), max_size=8),
    axis=st.integers(-2, 1),
    ufunc=st.sampled_from([np.add, np.maximum, np.subtract]),
)
def test_segments(desk: Any, indices: list[int], axis: int, ufunc: np.ufunc) -> None:
    plain = np.random.default_rng(1).integers(0, 99, (120, 110))
    array = desk.put(plain)
    chosen = np.array(indices, int)
    expected = made(ufunc.reduceat, plain, chosen, axis)
    same(desk, lambda: ufunc.reduceat(array, chosen, axis), expected)


def test_outer(desk: Any) -> None:
    one, other = values("float64", (40, 30)), values("float32", (50,))
    a, b = desk.put(one), desk.put(other)
    desk.check(np.multiply.outer(a, b), np.multiply.outer(one, other))
    desk.check(np.subtract.outer(other, a), np.subtract.outer(other, one))
    desk.check(np.add.outer(b, 2, dtype="f8"), np.add.outer(other, 2, dtype="f8"))
    with pytest.raises(ValueError, match="binary"):
        np.sin.outer(a, b)


def test_at(desk: Any) -> None:
    array = desk.put(values("float64"))
    with pytest.raises(oc.UnsupportedError, match=r"A\[key\]"):
        np.add.at(array, [1, 1], 1)
    plain = np.zeros(5)
    np.add.at(oc.asarray(plain), [1, 1], oc.asarray([2.0, 3.0]))
    np.add.at(plain, oc.asarray([2]), 1)
    assert plain.tolist() == [0, 5, 1, 0, 0]


# -- out= ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["numpy", "swapped", "disk"])
def test_results_in_places_that_there_are(desk: Any, kind: str) -> None:
    plain = values("float64", (300, 200))
    array = desk.put(plain)

    def place(like: Any) -> Any:
        like = np.asarray(like)
        if kind != "disk":
            return np.zeros(like.shape, like.dtype.newbyteorder(">" if kind == "swapped" else "="))
        desk.count += 1
        return oc.create(desk.path / f"{desk.count}.npy", like.shape, like.dtype)

    def check(call: Any, expected: Any) -> None:
        out = place(expected)
        assert call(out) is out
        with oc.config(memory="64MiB"):
            np.testing.assert_allclose(np.asarray(out), expected, rtol=1e-12)

    check(lambda out: np.add(array, 1, out=out), plain + 1)
    check(lambda out: np.add(array[0], 1, out=out), np.broadcast_to(plain[0] + 1, (2, 200)))
    check(lambda out: np.sum(array, 0, out=out), plain.sum(0))
    check(lambda out: array.sum(0, None, out), plain.sum(0))
    check(lambda out: np.add.reduce(array, 0, None, out, True), plain.sum(0, keepdims=True))
    check(lambda out: np.cumsum(array, 1, out=out), plain.cumsum(1))
    check(lambda out: np.multiply.accumulate(array, 1, out=out), plain.cumprod(1))
    check(lambda out: np.add.reduceat(array, [0, 9], out=out), np.add.reduceat(plain, [0, 9]))
    check(lambda out: np.argmax(array, 1, out=out), plain.argmax(1))
    check(lambda out: np.nanmean(array, axis=(0, 1), out=out), plain.mean())
    check(lambda out: np.multiply.outer(array[0], array[1], out=out), np.outer(*plain[:2]))
    check(lambda out: np.matmul(array.T, array, out=out), plain.T @ plain)
    small = place(np.zeros(()))
    with pytest.raises(ValueError, match="shape"):
        np.sum(array, axis=0, out=small)
    with pytest.raises(ValueError, match="shape"):
        np.add(array, 1, out=small)
    with pytest.raises(TypeError, match="same_kind"):
        np.add(array, 1, out=place(np.zeros((300, 200), int)))
    total = place(np.zeros((), int))
    assert int(np.sum(array, out=total)) == int(plain.sum())


def test_two_results_in_the_place_of_their_operands(desk: Any) -> None:
    one, other = RNG.integers(1, 99, 5000), RNG.integers(1, 9, 5000)
    expected = np.divmod(one, other)
    a, b = oc.asarray(one), oc.asarray(other)
    np.divmod(a, b, out=(one, other))
    np.testing.assert_array_equal([one, other], expected)


def test_a_numpy_array_is_changed_in_its_place(desk: Any) -> None:
    plain, sums = values("float32"), np.zeros(70)
    array = desk.put(plain)
    kept = sums
    sums += array.sum(0)
    assert sums is kept
    np.testing.assert_allclose(sums, plain.sum(0), rtol=1e-5)
    narrow, wide = np.full(300_000, np.float32(0.1)), np.zeros(())
    np.sum(desk.put(narrow), out=wide)
    assert float(wide) == narrow.sum(dtype="f8")


def test_what_is_not_computed_is_no_place(desk: Any) -> None:
    array = desk.put(values("float64"))
    lazy = array + 1
    for call in (
        lambda: np.add(array, 1, out=lazy),
        lambda: np.sum(array, axis=0, out=lazy[0]),
        lambda: np.add.reduce(array, out=lazy[0]),
    ):
        with pytest.raises(oc.InvalidArgumentError, match="not computed"):
            call()
    with pytest.raises(TypeError, match="out="):
        np.add(array, 1, out="there")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="shape"):
        lazy[0] += lazy  # type: ignore[misc]


def test_values_made_of_what_they_are_assigned_to(desk: Any) -> None:
    """Pieces that had been written already were once read again."""
    plain = np.arange(300_000.0)
    for where, value in (
        (np.s_[:], lambda x: x[::-1] + 1),
        (np.s_[1:], lambda x: x[:-1] * 2),
        (np.s_[:], lambda x: x * 2 - x[:1]),
        (np.s_[10:], lambda x: x[10:] / 2),
    ):
        array = oc.open(desk.put(plain, "npy").path, "r+")
        expected = plain.copy()
        array[where] = value(array)
        expected[where] = value(plain)
        array.close()
        np.testing.assert_array_equal(np.load(array.path), expected)


# -- made of reductions ----------------------------------------------------------------------------


def test_averages(desk: Any) -> None:
    plain = RNG.standard_normal((40, 50, 30))
    array = desk.put(plain)
    full = RNG.random(plain.shape)
    for weights, axis in (
        (full, None), (full, (0, 2)), (full[0, :, 0], 1), (full[:, 0].T, (2, 0)), (None, 1),
    ):  # fmt: skip
        own = weights if weights is None or weights.ndim < 3 else desk.put(weights)
        desk.check(
            np.average(array, axis=axis, weights=own), np.average(plain, axis=axis, weights=weights)
        )
        for ours, theirs in zip(
            np.average(array, axis, own, True, keepdims=True),
            np.average(plain, axis, weights, True, keepdims=True),
            strict=True,
        ):
            desk.check(ours, theirs)
    whole = RNG.integers(0, 9, (300, 200)).astype("int16")
    weights = np.arange(300, dtype="int8")
    desk.check(oc.average(desk.put(whole), axis=0, weights=weights), np.average(whole, 0, weights))
    with pytest.raises(ZeroDivisionError):
        oc.average(array, axis=1, weights=np.zeros(50)).compute()
    with pytest.raises(TypeError, match="Axis"):
        np.average(array, weights=np.ones(50))
    with pytest.raises(ValueError, match="consistent"):
        np.average(array, axis=0, weights=np.ones(50))


@pytest.mark.parametrize("dtype", ["bool", "uint8", "float64", "complex64"])
def test_differences(desk: Any, dtype: str) -> None:
    plain = values(dtype, (300, 120))
    array = desk.put(plain)
    for axis in (0, 1, -1):
        for n in (0, 1, 3):
            desk.check(np.diff(array, n, axis), np.diff(plain, n, axis))
    desk.check(oc.diff(array, append=plain[:, :1]), np.diff(plain, append=plain[:, :1]))
    ends = plain[:3]
    desk.check(np.diff(array, axis=0, prepend=ends), np.diff(plain, axis=0, prepend=ends))
    desk.check(np.diff(array[:5], n=7, axis=0), np.diff(plain[:5], n=7, axis=0))
    with pytest.raises(ValueError, match="non-negative"):
        oc.diff(array, n=-1)


def test_integrals_ranges_and_counts(desk: Any) -> None:
    plain = RNG.standard_normal((200, 30, 10))
    array, places = desk.put(plain), np.sort(RNG.random(30))
    desk.check(np.trapezoid(array, dx=0.1), np.trapezoid(plain, dx=0.1))
    desk.check(np.trapezoid(array, places, axis=1), np.trapezoid(plain, places, axis=1))
    desk.check(np.trapezoid(array, array, axis=0), np.trapezoid(plain, plain, axis=0))
    for axis in (None, 1, (0, 2)):
        desk.check(np.ptp(array, axis), np.ptp(plain, axis))
        desk.check(oc.ptp(array, axis=axis, keepdims=True), np.ptp(plain, axis, keepdims=True))
        desk.check(
            np.count_nonzero(array > 0, axis, keepdims=True),
            np.count_nonzero(plain > 0, axis, keepdims=True),
        )


def test_arguments_that_only_numpy_has(desk: Any) -> None:
    array = desk.put(values("float64"))
    desk.check(np.amax(array), np.max(np.asarray(array)))
    desk.check(array.std(0, ddof=1), np.asarray(array).std(0, ddof=1))
    with pytest.raises(oc.UnsupportedError, match="mean="):
        np.var(array, axis=0, mean=np.ones((1, 70)))
    with pytest.raises(ValueError, match="simultaneously"):
        np.var(array, ddof=1, correction=2)
    with pytest.raises(TypeError):
        np.argmin(array, axis=(0, 1))  # type: ignore[call-overload]
    number: Any = array[0]
    for call in (
        lambda: np.sum(array, out=5),  # type: ignore[call-overload]
        lambda: np.add.reduceat(array, [0], axis=1.5),
        lambda: oc.sum(array, dtype="nonsense"),
        lambda: oc.sum(array, initial="x"),
        lambda: oc.var(array, correction="x"),
        lambda: oc.diff(array, n=1.5),
        lambda: oc.argmin(array, axis=0.5),
        lambda: np.add.accumulate(number[0]),
        lambda: np.frompyfunc(lambda x, y: x, 2, 1).reduce(array),
    ):
        with pytest.raises(oc.InvalidTypeError):
            call()
    for bad, error in ((np.ones(3, bool), ValueError), (np.ones(70), TypeError)):
        with pytest.raises(error, match="where="):
            np.sum(array, where=bad)
