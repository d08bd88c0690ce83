"""Ufuncs, operators and their like, against NumPy."""

import itertools
import operator
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import outcrop as oc
from outcrop.array_api import elementwise_functions

RNG = np.random.default_rng(1)
SHAPE = (230, 171)
DTYPES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float32", "float64", "complex64", "complex128"),
]

MIXED = [
    *(("int8", "int64"), ("uint64", "int64"), ("bool", "int8"), ("int8", "uint8")),
    *(("float32", "int64"), ("int32", "float32"), ("float64", "complex64"), ("float32", "float64")),
]
"""Types of operands that are promoted."""

NUMBERS = [
    *(True, 0, -1, 3, 300, -40_000, 1 << 40, 1 << 63, 1 << 80, 0.0, -0.0, 1.5, 1e39, 1e400, 1j),
    *(np.int8(3), np.uint64(1 << 63), np.float16(2), np.float32(1.5), np.float64(1.5), np.bool_(1)),
]


def values(dtype: str, shape: tuple[int, ...] = SHAPE) -> Any:
    kind = np.dtype(dtype).kind
    if kind == "b":
        return RNG.integers(0, 2, shape).astype(bool)
    if kind in "iu":
        return RNG.integers(0, 7, shape).astype(dtype)
    real = RNG.standard_normal(shape)
    return (real + 1j * RNG.standard_normal(shape) if kind == "c" else real).astype(dtype)


def peculiar(dtype: str) -> Any:
    """Values at which functions do peculiar things."""
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return np.array([False, True])
    if kind.kind in "iu":
        info = np.iinfo(kind)
        odd = {0, 1, 2, 7, info.max, info.max // 2, info.min, info.min // 2}
        return np.array(sorted(odd | {max(n, info.min) for n in (-1, -7)}), kind)
    real = np.finfo(kind)
    odd = [0.0, -0.0, 1, -1, 0.5, -2.5, 3, np.nan, np.inf, -np.inf, real.max, real.tiny, 1e-3, 20]
    if kind.kind == "f":
        return np.array(odd, kind)
    return np.array([complex(a, b) for a in odd[:10] for b in odd[:10]], kind)


def all_pairs(one: str, other: str) -> tuple[Any, Any]:
    """Each peculiar value with each other one, again and again: many tiles of them."""
    a, b = (x.ravel() for x in np.broadcast_arrays(peculiar(one)[:, None], peculiar(other)))
    columns = 90
    rows = max((48 << 10) // a.itemsize, a.size) // columns + 1
    return np.resize(a, (rows, columns)), np.resize(b, (rows, columns))


def same(made: Any, expected: Any) -> None:
    """The same signs, infinities and NaNs, and the same numbers but for the last bits."""
    assert (made.shape, made.dtype) == (expected.shape, expected.dtype)
    if expected.dtype.kind in "fc":
        made, expected = (x.ravel().view(x.real.dtype) for x in (made, expected))
        np.testing.assert_allclose(made, expected, rtol=8 * np.finfo(made.dtype).eps)
        known = ~np.isnan(expected)
        made, expected = np.signbit(made[known]), np.signbit(expected[known])
    np.testing.assert_array_equal(made, expected)


def agree(desk: Any, theirs: Any, plain: Sequence[Any], ours: Any, given: Sequence[Any]) -> None:
    """The same result and the same warnings, or an error of the same kind."""
    expected, warned = desk.outcome(lambda: kept(theirs(*plain)))
    got, warned_too = desk.outcome(lambda: kept(ours(*given)).compute())
    if isinstance(expected, Exception):
        assert isinstance(got, Exception)
        kinds = (TypeError, ValueError, OverflowError)
        assert [isinstance(got, k) for k in kinds] == [isinstance(expected, k) for k in kinds]
        return
    if isinstance(got, Exception):
        raise got
    same(got, expected)
    assert warned_too == warned


def test_half_precision(desk: Any) -> None:
    """Results of it are in memory, and used further; no file holds them."""
    plain = np.arange(20000, dtype="uint8").reshape(100, 200)
    roots = np.sqrt(desk.put(plain))
    assert roots.dtype == np.float16
    np.testing.assert_array_equal(roots.compute(), np.sqrt(plain))
    np.testing.assert_array_equal(roots[3:5, ::7].tolist(), np.sqrt(plain)[3:5, ::7].tolist())
    for name in ("roots.zarr", "roots.npy"):
        with pytest.raises(oc.UnsupportedError, match="'float16' is not supported"):
            roots.save(desk.path / name)
        assert not (desk.path / name).exists()
    desk.check(roots.astype("float32"), np.sqrt(plain).astype("float32"))


def kept(result: Any) -> Any:
    """What can be kept: NumPy makes half precision of bytes and truth values."""
    return result.astype("float32") if result.dtype == np.float16 else result


@pytest.mark.parametrize("dtypes", [*((d, d) for d in DTYPES), *MIXED], ids="-".join)
def test_every_function(desk: Any, dtypes: tuple[str, str]) -> None:
    plain = all_pairs(*dtypes)
    arrays = [[desk.put(x, layout) for x in plain] for layout in desk.layouts[:4]]
    for name, given in zip(elementwise_functions.__all__, itertools.cycle(arrays), strict=False):
        theirs = getattr(np, name)
        if theirs.nin == 2 or dtypes[0] == dtypes[1]:
            agree(desk, theirs, plain[: theirs.nin], getattr(oc, name), given[: theirs.nin])


@pytest.mark.parametrize(
    "name", ["add", "floor_divide", "pow", "less", "equal", "bitwise_and", "copysign"]
)
def test_numbers(desk: Any, name: str) -> None:
    """Python's numbers take part by their kind."""
    theirs, ours = getattr(np, name), getattr(oc, name)
    for dtype, number in itertools.product(DTYPES, NUMBERS):
        plain = peculiar(dtype)
        array = oc.asarray(plain)
        agree(desk, theirs, (plain, number), ours, (array, number))
        agree(desk, theirs, (number, plain), ours, (number, array))


def test_numbers_that_do_not_fit_are_refused_at_once(desk: Any) -> None:
    array = oc.asarray(peculiar("int8"))
    for make in (lambda: array + 300, lambda: oc.where(array > 0, array, 300)):
        with pytest.raises(OverflowError, match="300 out of bounds for int8"):
            make()
    with pytest.raises(oc.InvalidTypeError):
        array + "text"
    with pytest.raises(ValueError, match="negative integer powers"):
        array**-1
    assert (array**-1.0).dtype == (np.ones(1, "int8") ** -1.0).dtype


@pytest.mark.parametrize("dtype", DTYPES)
def test_conversions(desk: Any, dtype: str) -> None:
    plain, _ = all_pairs(dtype, dtype)
    if plain.dtype.kind in "fc":
        # What does not fit an integer becomes anything.
        plain = plain[(np.abs(plain.real) < 100) & (np.abs(plain.imag) < 100)]
    array = desk.put(plain, "npy")
    for to in DTYPES:
        if not (to[0] == "u" and dtype[0] in "fc"):
            agree(desk, np.astype, (plain, to), oc.astype, (array, to))


def test_conversions_warn(desk: Any) -> None:
    array = desk.put(np.array([1, np.nan, 1e300]))
    for dtype, match in (("int32", "invalid value"), ("float32", "overflow")):
        with pytest.warns(RuntimeWarning, match=match):
            array.astype(dtype).compute()
    with pytest.warns(np.exceptions.ComplexWarning):
        (array * 1j).astype(float).compute()


def test_warnings_are_what_the_caller_asks_for(desk: Any) -> None:
    plain, _ = all_pairs("float64", "float64")
    quotient = 1 / desk.put(plain)
    with pytest.warns(RuntimeWarning, match="divide by zero encountered in divide"):
        quotient.compute()
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError, match="divide by zero"):
        (quotient + 0).compute()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("error")
        (quotient + 0).compute()


def test_operators(desk: Any) -> None:
    one, other = values("int64") + 1, values("int64") + 2
    a, b = desk.put(one), desk.put(other, "F")
    for op in (
        operator.add, operator.and_, operator.eq, operator.floordiv, operator.ge, operator.gt,
        operator.le, operator.lt, operator.mod, operator.mul, operator.ne, operator.or_,
        operator.sub, operator.truediv, operator.xor,
    ):  # fmt: skip
        desk.check(op(a, b), op(one, other))
        desk.check(op(a, other), op(one, other))
        desk.check(op(one, b), op(one, other))
    desk.check(-a, -one)
    desk.check(~a, ~one)
    desk.check(abs(a), abs(one))
    quotient, rest = divmod(a, b)
    desk.check(quotient, one // other)
    desk.check(rest, one % other)
    c = d = a + 1
    c += 1
    desk.check(c, one + 2)
    desk.check(d, one + 1)
    # As in NumPy, what can be written to is.
    writable = np.arange(5.0)
    e = oc.asarray(writable)
    e *= 2
    assert writable.tolist() == [0, 2, 4, 6, 8]
    with pytest.raises(ValueError, match="read-only"):
        a += 1


def test_casting(desk: Any) -> None:
    whole, half = desk.put(values("int32")), desk.put(values("float32"))
    for options in ({"casting": "no"}, {"dtype": "int8"}, {"dtype": "float32", "casting": "safe"}):
        with pytest.raises(oc.InvalidTypeError, match=r"[Cc]ast"):
            np.add(whole, half, **options)
    desk.check(
        np.add(whole, half, dtype="int8", casting="unsafe"),
        np.add(whole.compute(), half.compute(), dtype="int8", casting="unsafe"),
    )
    with pytest.raises(oc.InvalidTypeError):
        np.sin(whole, dtype="int32")


def test_results_of_ufuncs_with_options(desk: Any) -> None:
    plain = values("float64")
    array = desk.put(plain)
    desk.check(np.add(array, 1, dtype="float32"), np.add(plain, 1, dtype="float32"))
    single: Any = {"signature": "ff->f", "casting": "unsafe"}
    desk.check(np.add(array, 1, **single), np.add(plain, 1, **single))
    with pytest.raises(TypeError, match="both"):
        np.add(array, 1, dtype="float32", signature="ff->f")
    fraction, whole = np.modf(array)
    desk.check(fraction, np.modf(plain)[0])
    desk.check(whole, np.modf(plain)[1])
    positive = np.sqrt(array, where=array > 0)
    desk.check(oc.where(array > 0, positive, 0), np.where(plain > 0, np.sqrt(np.abs(plain)), 0))


def test_casts(desk: Any) -> None:
    plain = values("float64") * 10
    array = desk.put(plain)
    for dtype in ("int32", "float32", "bool", "complex64"):
        desk.check(array.astype(dtype), plain.astype(dtype))
    desk.check(oc.clip(array, -1, 2), np.clip(plain, -1, 2))
    desk.check(np.clip(array, None, 2), np.clip(plain, None, 2))
    least = plain.min(axis=0) + 1
    desk.check(np.clip(array, least, 9), np.clip(plain, least, 9))
    desk.check(array.clip(array.min(axis=0) + 1, None), plain.clip(least, None))


def test_functions_of_the_users(desk: Any) -> None:
    plain = values("float64")
    array = desk.put(plain)
    desk.check(oc.map(lambda block: np.exp(block) + 1, array), np.exp(plain) + 1)
    desk.check(oc.map(np.add, array, array, dtype="float32"), (plain + plain).astype("float32"))
    with pytest.raises(oc.InvalidArgumentError, match="made one of shape"):
        oc.map(lambda block: block[:1], array, dtype="float64").sum().compute()
    with pytest.raises(ZeroDivisionError):
        oc.map(lambda block: 1 // 0, array, dtype="float64").sum().compute()


def test_errors_do_not_hold_memory(desk: Any) -> None:
    """Tracebacks that showed the blocks of a failed run showed memory that others had by then."""
    array = desk.put(values("float64"))

    def fails(block: Any) -> Any:
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise ValueError("outer") from error

    with pytest.raises(ValueError, match="outer") as found:
        oc.map(fails, array, dtype="float64").sum().compute()
    error: BaseException | None = found.value
    assert isinstance(found.value.__cause__, KeyError)
    while error is not None:
        trace = error.__traceback__
        while trace is not None:
            assert not any(
                isinstance(value, np.ndarray) or name in ("tiles", "block", "workspace")
                for name, value in trace.tb_frame.f_locals.items()
                if trace.tb_frame.f_code.co_filename != __file__
            )
            assert trace.tb_frame.f_code is not fails.__code__
            trace = trace.tb_next
        error = error.__cause__


def test_what_does_not_fit(desk: Any) -> None:
    array = desk.put(values("float64"))
    with pytest.raises(ValueError, match="shape mismatch"):
        array + np.ones(3)
    with pytest.raises(TypeError):
        np.bitwise_and(array, array)
    with pytest.raises(TypeError):
        array + "text"  # type: ignore[operator]
    with pytest.raises(oc.UnsupportedError):
        np.piecewise(array, [array > 0], [1, 2])


def test_empty_and_0_d(desk: Any) -> None:
    for shape in ((0, 5), (5, 0), (), (1,), (1, 1, 1)):
        plain = np.ones(shape)
        array = oc.asarray(plain)
        desk.check(array + 1, plain + 1)
        desk.check(np.exp(array) * array, np.exp(plain) * plain)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_elements_far_apart(desk: Any, dtype: str) -> None:
    """In the last tile of a row: it has the form of the others, and fewer elements."""
    a = np.random.default_rng(3).normal(size=(90, 30, 13)).astype(dtype)
    a[::7, 3], a[3::9, :, 12], a[::5, ::2, 6] = np.nan, -np.inf, -0.0
    x = desk.put(a, "npy")
    kind = np.dtype(dtype).char
    for function in list(vars(np).values()):
        if not isinstance(function, np.ufunc) or function.signature is not None:
            continue
        if function.nin == function.nout == 1 and any(t[0] == kind for t in function.types):
            with np.errstate(all="ignore"):
                result = function(x).save(desk.path / "far.zarr", tile=(25, 30, 6), overwrite=True)
                desk.compare(result.compute(), function(a), digits=8)
    where = np.zeros(a.shape, bool)
    where[::2, 1::3] = True
    found = np.isnan(x, where=oc.asarray(where)).save(desk.path / "where.zarr", tile=(25, 30, 6))
    np.testing.assert_array_equal(found.compute(), np.isnan(a) & where)


def test_numbers_of_16_bits_on_the_way(desk: Any) -> None:
    # NumPy has them as square roots of bytes; no file has them.
    plain = np.random.default_rng(7).integers(0, 100, (700, 600)).astype("int8")
    short, expected = np.sqrt(desk.put(plain)), np.sqrt(plain)
    assert short.dtype == expected.dtype == np.float16
    exact = expected.astype(float)
    for got, true in (
        (short.max(), exact.max()),
        (short[:9].sum(), exact[:9].sum()),
        (short[:, :4].prod(axis=1), exact[:, :4].prod(axis=1)),
        (short.std(axis=0), exact.std(axis=0)),
        (np.nanvar(short, axis=1, ddof=1), exact.var(axis=1, ddof=1)),
        ((short[:30] / 16) @ short.T, (exact[:30] / 16) @ exact.T),
        (short[0] @ (short[1] / 16), exact[0] @ exact[1] / 16),
        (np.einsum("ij,kj->ik", short[:5] / 16, short[:7]), exact[:5] @ exact[:7].T / 16),
        (np.tensordot(short[:5] / 16, short.T, axes=1), exact[:5] @ exact.T / 16),
    ):
        assert got.dtype == np.float16
        with np.errstate(over="ignore"):
            wanted = true.astype("float16").astype("float32")
        found = got.astype("float32").save(desk.path / "wide.zarr", overwrite=True)
        with oc.config(memory="64MiB"):
            np.testing.assert_allclose(found.compute(), wanted, rtol=2e-3)
