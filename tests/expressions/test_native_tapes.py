"""What runs without the interpreter computes the same bits, and complains as NumPy does."""

import io
import itertools
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import pytest

import outcrop as oc
from outcrop.array_api import elementwise_functions
from outcrop.expressions import planner
from outcrop.expressions.kernels import native
from outcrop.expressions.lower.lower import Lowered

DTYPES = ("bool", "int8", "int64", "uint16", "float32", "float64", "complex64", "complex128")
SHAPE = (211, 53)


def values(dtype: str, shape: tuple[int, ...] = SHAPE, seed: int = 1) -> Any:
    """Numbers of all signs, and some that are none."""
    made = np.random.default_rng(seed).normal(0, 30, (2, *shape))
    if dtype.startswith("complex"):
        return (made[0] + 1j * made[1]).astype(dtype)
    if dtype.startswith("float"):
        made[0].flat[::97], made[0].flat[::89] = np.nan, np.inf
    return (np.abs(made[0]) if dtype[0] in "bu" else made[0]).astype(dtype)


@contextmanager
def without_python(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No step may call Python."""

    def refuse(*_: Any) -> None:
        raise AssertionError("a step has called Python")

    with monkeypatch.context() as patch:
        patch.setattr(Lowered, "run", refuse)
        yield


def both(
    make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch, is_whole: bool = True
) -> tuple[Any, Any]:
    """What is computed, without Python and by it."""
    with np.errstate(all="ignore"):
        with without_python(monkeypatch) if is_whole else nullcontext():
            one = make()
        with monkeypatch.context() as patch:
            patch.setattr(native, "IS_USED", False)
            return one, make()


def same(make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch, is_whole: bool = True) -> None:
    """What is computed has the same bits; where it ``is_whole``, the interpreter is not asked."""
    with oc.config(memory="3MiB"):
        one, other = both(make, monkeypatch, is_whole)
    assert (one.dtype, one.shape) == (other.dtype, other.shape)
    assert one.tobytes() == other.tobytes()


def is_native(ufunc: np.ufunc, dtype: str) -> bool:
    """Whether NumPy has an inner loop for operands of this type that does no more than compute."""
    if ufunc in (np.isnan, np.isinf, np.isfinite, np.signbit) or ufunc.nout > 1:
        return False
    if ufunc is np.power and dtype[0] in "iu":
        return False
    try:
        own = ufunc.resolve_dtypes((*[np.dtype(dtype)] * ufunc.nin, None))
    except TypeError:
        return False
    known = all(d.name in (*DTYPES, "int16", "int32", "uint8", "uint32", "uint64") for d in own)
    return known and all(d == np.dtype(dtype) for d in own[: ufunc.nin])


@pytest.mark.parametrize("dtype", DTYPES)
def test_functions(desk: Any, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = values(dtype), values(dtype, seed=2)
    layouts = ("npy", "zarr", "F", "transposed", "memory")
    arrays = {layout: (desk.put(one, layout), desk.put(other, layout)) for layout in layouts}
    for i, name in enumerate(elementwise_functions.__all__):
        ufunc = getattr(np, name)
        if not isinstance(ufunc, np.ufunc) or not is_native(ufunc, dtype):
            continue
        a, b = arrays[layouts[i % 5]][0], arrays[layouts[(i // 5) % 5]][1]
        given = (a, b)[: ufunc.nin]
        same(lambda own=given, name=name: getattr(oc, name)(*own).compute(), monkeypatch)


@pytest.mark.parametrize("dtype", ["int32", "float32", "float64"])
def test_broadcasting_views_and_numbers(
    desk: Any, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    array, row = desk.put(values(dtype, (67, 41, 30)), "npy"), values(dtype, (41, 1), 3)
    number, stepped = values(dtype, (), 4), desk.put(values(dtype, (67, 1, 30), 5), "stepped")
    memory = oc.asarray(values(dtype, (30, 134)).T[::2, None])
    for make in (
        lambda: array * 2 - row + number,
        lambda: (array + stepped) * memory,
        lambda: 3 - array[::2, 1:, ::3] * row[1:],
        lambda: abs(memory) + row,
        lambda: array.T * 1 - oc.asarray(row).T[..., None],
    ):
        same(lambda own=make: own().compute(), monkeypatch)


@pytest.mark.parametrize("layout", ["npy", "F", "zarr"])
@pytest.mark.parametrize("dtype", ["bool", "int16", "float32", "float64", "complex128"])
def test_products(desk: Any, dtype: str, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = np.nan_to_num(values(dtype, (2500, 37)), posinf=1)
    A = desk.put(plain, layout)
    v, w = oc.asarray(plain[0].copy()), oc.asarray(plain[:, 0].copy())
    few = oc.asarray(plain[:7].T)
    for make in (
        lambda: A @ v,
        lambda: A.T @ w,
        lambda: w @ A,
        lambda: A @ few,
        lambda: A.T @ (A @ few),
        lambda: A.T @ A,
        lambda: (A.T @ A) @ v,
    ):
        # Which way products are computed, of two, may depend on what their steps take.
        monkeypatch.setattr(planner, "others", lambda *_: [])
        monkeypatch.setattr(planner, "alternatives", lambda roots: [roots])
        same(lambda own=make: own().compute(), monkeypatch)


@pytest.mark.parametrize("layout", ["npy", "F", "zarr"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_reductions(desk: Any, dtype: str, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    long = desk.put(values(dtype, (2500, 37)), layout)
    cube = desk.put(values(dtype, (41, 30, 53)), layout)
    ufuncs = [np.maximum, np.minimum, np.fmax, np.fmin]
    # Sums of shorter integers are of longer ones.
    if np.dtype(dtype).itemsize >= 4:
        ufuncs += [np.add, np.multiply]
    if dtype == "bool":
        ufuncs += [np.logical_and, np.logical_or]
    for ufunc in ufuncs:
        # NumPy rounds otherwise over several axes.
        rounds = dtype[0] in "fc" and ufunc in (np.add, np.multiply)
        # What is computed before, and one plane, are the same from whatever file they come.
        others = (abs(cube), cube[:1]) if layout == "npy" else ()
        for array in (long, cube, *others):
            for axis in [*range(array.ndim), *itertools.combinations(range(array.ndim), 2), None]:

                def make(array: Any = array, ufunc: Any = ufunc, axis: Any = axis) -> Any:
                    return ufunc.reduce(array, axis=axis).compute()

                same(make, monkeypatch, is_whole=not rounds or isinstance(axis, int))


@pytest.mark.parametrize("budget", ["512KiB", "1MiB", "16MiB"])
def test_loops_have_the_same_bits_with_any_number_of_threads(
    desk: Any, budget: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = np.random.default_rng(3)
    X, y = desk.put(chance.random((12345, 20)), "npy"), desk.put(chance.random(12345), "npy")
    W0 = desk.put(chance.random((12345, 3)), "npy")
    H0 = chance.random((3, 20))

    def regression() -> Any:
        w = oc.asarray(np.zeros(20))
        for _ in range(4):
            w = w - 1e-4 * (X.T @ (1 / (1 + oc.exp(-(X @ w))) - y))
        return w.compute()

    def factors() -> Any:
        W, H = W0, oc.asarray(H0)
        for _ in range(2):
            W = W * ((X @ H.T) / (W @ H @ H.T))
            H = H * ((W.T @ X) / (W.T @ W @ H))
        return H.compute()

    for job in (regression, factors):
        made = []
        for threads in (1, 2, 3):
            with oc.config(memory=budget, threads=threads):
                made += both(job, monkeypatch)
        assert len({own.tobytes() for own in made}) == 1


def test_sums_of_parts(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # The parts are added without Python, where what makes them calls it.
    array = desk.put(values("float64", (5000, 60)), "npy")
    plain = values("float64", (5000, 60))
    for name in ("sum", "max", "prod", "any"):
        made = []
        for used in (True, False):
            with monkeypatch.context() as patch, np.errstate(all="ignore"):
                patch.setattr(native, "IS_USED", used)
                made.append(getattr(oc, name)(array, axis=0).compute())
        assert made[0].tobytes() == made[1].tobytes()
    desk.check((array == array).sum(), (plain == plain).sum())


def quotient(desk: Any) -> oc.Array:
    """One that divides by zero in every tile, and overflows in one."""
    divisor = np.tile([1.0, 0.0], (40000, 1))
    divisor[31000] = 1e-320
    return 1 / desk.put(divisor, "npy")


def test_warnings(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with without_python(monkeypatch):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            quotient(desk).save(desk.path / "q.zarr")
        assert {str(w.message) for w in seen} == {
            "divide by zero encountered in divide",
            "overflow encountered in divide",
        }
        assert all(w.category is RuntimeWarning for w in seen)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("error")
            quotient(desk).save(desk.path / "q.zarr", overwrite=True)


def test_errors_end_the_run(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    target = desk.path / "q.zarr"
    with without_python(monkeypatch):
        with (
            np.errstate(divide="ignore", over="raise"),
            pytest.raises(FloatingPointError, match="overflow encountered in divide"),
        ):
            quotient(desk).save(target)
        with warnings.catch_warnings(), pytest.raises(RuntimeWarning, match="divide by zero"):
            warnings.simplefilter("error")
            quotient(desk).save(target)
    assert not target.exists()


def test_errors_go_where_the_caller_wants_them(
    desk: Any, capfd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, heard = desk.path / "q.zarr", []

    def hear(what: str, errors: int) -> None:
        heard.append((what, errors & 1))

    with without_python(monkeypatch):
        with np.errstate(divide="call", over="ignore", call=hear):
            quotient(desk).save(target)
        assert set(heard) == {("divide by zero", 1)}
        written = io.StringIO()
        with np.errstate(divide="log", over="ignore", call=written):
            quotient(desk).save(target, overwrite=True)
        assert set(written.getvalue().splitlines()) == {
            "Warning: divide by zero encountered in divide"
        }
        with np.errstate(divide="print", over="ignore"):
            quotient(desk).save(target, overwrite=True)
        assert "Warning: divide by zero encountered in divide\n" in capfd.readouterr().err
        with np.errstate(divide="call", over="ignore", call=None), pytest.raises(NameError):
            quotient(desk).save(target, overwrite=True)


def test_handlers_hear_of_what_python_computes(desk: Any) -> None:
    # Threads for steps did not know the handler, and failed where it was to be called.
    heard = []
    with np.errstate(over="call", call=lambda what, errors: heard.append(what)):
        desk.put(np.full(5, 1e300)).astype("float32").compute()
    assert set(heard) == {"overflow"}


def test_integers_to_negative_powers(desk: Any) -> None:
    # NumPy's loop raises the error itself.
    one, other = desk.put(np.arange(1, 100), "npy"), desk.put(np.arange(-1, 98), "npy")
    with pytest.raises(ValueError, match="negative integer powers"):
        (one**other).compute()
    desk.check(one ** (other + 1), np.arange(1, 100) ** np.arange(99))


def test_numbers_that_do_not_fit(desk: Any) -> None:
    array = desk.put(np.arange(100, dtype="uint8"))
    assert not (array > 300).any().compute()
    with pytest.raises(OverflowError):
        (array + 300).compute()
    with pytest.warns(RuntimeWarning, match="overflow"):
        (desk.put(np.ones(5, "float32")) + 1e300).compute()
