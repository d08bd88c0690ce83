"""Ufuncs, operators and their like, against NumPy."""

import operator
from typing import Any

import numpy as np
import pytest

import outcrop as oc

RNG = np.random.default_rng(1)
SHAPE = (230, 171)

UNARY = [
    np.abs, np.arccos, np.arcsinh, np.ceil, np.conj, np.cos, np.exp, np.expm1, np.floor,
    np.isfinite, np.isnan, np.log, np.log1p, np.logical_not, np.negative, np.positive,
    np.reciprocal, np.rint, np.sign, np.signbit, np.sin, np.sqrt, np.square, np.tanh, np.trunc,
]  # fmt: skip
BINARY = [
    np.add, np.arctan2, np.copysign, np.divide, np.equal, np.floor_divide, np.fmax, np.greater,
    np.hypot, np.less_equal, np.logaddexp, np.logical_and, np.maximum, np.minimum, np.multiply,
    np.not_equal, np.power, np.remainder, np.subtract,
]  # fmt: skip
WHOLE = [np.bitwise_and, np.bitwise_xor, np.left_shift, np.gcd, np.invert]
DTYPES = ["bool", "int8", "uint16", "int64", "float32", "float64", "complex64", "complex128"]


def values(dtype: str, shape: tuple[int, ...] = SHAPE) -> Any:
    kind = np.dtype(dtype).kind
    if kind == "b":
        return RNG.integers(0, 2, shape).astype(bool)
    if kind in "iu":
        return RNG.integers(0, 7, shape).astype(dtype)
    real = RNG.standard_normal(shape)
    return (real + 1j * RNG.standard_normal(shape) if kind == "c" else real).astype(dtype)


def made(ufunc: np.ufunc, *dtypes: str) -> str | None:
    """The type that NumPy makes of these; None where it makes nothing."""
    try:
        kinds = ufunc.resolve_dtypes((*map(np.dtype, dtypes), *(None,) * ufunc.nout))
    except TypeError:
        return None
    return str(kinds[-1].name)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", DTYPES)
def test_of_one_operand(desk: Any, dtype: str) -> None:
    plain = values(dtype)
    array = desk.put(plain)
    for ufunc in (*UNARY, np.invert):
        match made(ufunc, dtype):
            case None:
                with pytest.raises(TypeError):
                    ufunc(array)
            case "float16":
                # It cannot be stored.
                desk.check(ufunc(array).astype("f4"), ufunc(plain).astype("f4"))
            case _:
                desk.check(ufunc(array), ufunc(plain))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", DTYPES)
def test_of_two_operands(desk: Any, dtype: str) -> None:
    one, other = values(dtype), values(dtype, SHAPE[1:])
    array, row = desk.put(one), desk.put(other, "npy")
    for ufunc in (*BINARY, *WHOLE[:-1]):
        if made(ufunc, dtype, dtype) == "float16":
            desk.check(ufunc(array, row).astype("f4"), ufunc(one, other).astype("f4"))
        elif made(ufunc, dtype, dtype):
            desk.check(ufunc(array, row), ufunc(one, other))
    for promoted in ("int16", "float32", "complex128"):
        third = values(promoted)
        desk.check(array + desk.put(third, "F"), one + third)
    desk.check(2 + array * 3, 2 + one * 3)
    desk.check(array[:, :1] * other, one[:, :1] * other)


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


def test_numbers_are_weak(desk: Any) -> None:
    """As NumPy has it: a Python number takes part by its kind."""
    for dtype in ("int8", "float32", "complex64"):
        plain = values(dtype)
        array = desk.put(plain)
        assert (array * 2).dtype == (plain * 2).dtype
        assert (array * 2.0).dtype == (plain * 2.0).dtype
        assert (array * np.float64(2)).dtype == (plain * np.float64(2)).dtype
        desk.check(array * 2j, plain * 2j)


def test_results_of_ufuncs_with_options(desk: Any) -> None:
    plain = values("float64")
    array = desk.put(plain)
    desk.check(np.add(array, 1, dtype="float32"), np.add(plain, 1, dtype="float32"))
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


def test_functions_of_the_users(desk: Any) -> None:
    plain = values("float64")
    array = desk.put(plain)
    desk.check(oc.map(lambda block: np.exp(block) + 1, array), np.exp(plain) + 1)
    desk.check(oc.map(np.add, array, array, dtype="float32"), (plain + plain).astype("float32"))
    with pytest.raises(oc.InvalidArgumentError, match="made one of shape"):
        oc.map(lambda block: block[:1], array, dtype="float64").sum().compute()
    with pytest.raises(ZeroDivisionError):
        oc.map(lambda block: 1 // 0, array, dtype="float64").sum().compute()


def test_what_does_not_fit(desk: Any) -> None:
    array = desk.put(values("float64"))
    with pytest.raises(ValueError, match="shape mismatch"):
        array + np.ones(3)
    with pytest.raises(TypeError):
        np.bitwise_and(array, array)
    with pytest.raises(TypeError):
        array + "text"  # type: ignore[operator]
    with pytest.raises(oc.UnsupportedError):
        np.add.reduceat(array, [0, 3])


def test_empty_and_0_d(desk: Any) -> None:
    for shape in ((0, 5), (5, 0), (), (1,), (1, 1, 1)):
        plain = np.ones(shape)
        array = oc.asarray(plain)
        desk.check(array + 1, plain + 1)
        desk.check(np.exp(array) * array, np.exp(plain) * plain)
