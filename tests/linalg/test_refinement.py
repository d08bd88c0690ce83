"""Refined solutions, with bounds as LAPACK has them, of operands of any kind, in few passes."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

import outcrop as oc

lapack = pytest.importorskip("scipy.linalg.lapack")
scipy_linalg = pytest.importorskip("scipy.linalg")

Values: TypeAlias = NDArray[Any]
Desk: TypeAlias = Any  # that of conftest.py
Make: TypeAlias = Callable[..., Values]

pytestmark = pytest.mark.filterwarnings("ignore::outcrop.errors.OutcropWarning")

DTYPES = ("float32", "float64", "complex64", "complex128")
THRESHOLD = 30
MEANT = ("N", "T", "C")

each_dtype = pytest.mark.parametrize("dtype", DTYPES)


def normal(shape: Any, dtype: str, seed: int = 0) -> Values:
    chance = np.random.default_rng(seed)
    real = chance.standard_normal(shape)
    return (real + 1j * chance.standard_normal(shape) if "complex" in dtype else real).astype(dtype)


def wide_type(dtype: str) -> str:
    return "complex128" if "complex" in dtype else "float64"


def with_condition(n: int, dtype: str, power: float, *, one: bool = False) -> Values:
    """A matrix with singular values down to 10^-power: spread evenly, or all but one of them 1."""
    left = np.linalg.qr(normal((n, n), wide_type(dtype), 1))[0]
    right = np.linalg.qr(normal((n, n), wide_type(dtype), 2))[0]
    values = np.r_[np.ones(n - 1), 10.0**-power] if one else np.logspace(0, -power, n)
    return ((left * values) @ right).astype(dtype)


def definite(n: int, dtype: str, power: float) -> Values:
    q = np.linalg.qr(normal((n, n), wide_type(dtype), 1))[0]
    a = (q * np.logspace(0, -power, n)) @ q.conj().T
    return ((a + a.conj().T) / 2).astype(dtype)


def op(a: Values, meant: str) -> Values:
    return {"N": a, "T": a.T, "C": a.conj().T}[meant]


def columns(x: Any) -> Values:
    x = np.asarray(x)
    return x.reshape(len(x), -1) if x.ndim == 1 else x


def ratio(a: Values, b: Values, x: Values) -> float:
    """LAPACK's, of the worst column."""
    wide = np.clongdouble if np.iscomplexobj(a) else np.longdouble
    eps = np.finfo(x.dtype).eps / 2
    a, b, x = a.astype(wide), columns(b).astype(wide), columns(x).astype(wide)
    residual, size = np.abs(b - a @ x).sum(axis=0), np.abs(a).sum(axis=0).max()
    return float((residual / (size * np.abs(x).sum(axis=0) * eps)).max())


# -- gerfs and gesvx ---------------------------------------------------------------------------


@each_dtype
@pytest.mark.parametrize("meant", MEANT)
@pytest.mark.parametrize("n", [1, 6, 60])
@pytest.mark.parametrize("shape", [(), (3,)])
def test_gesvx_is_lapacks(
    desk: Desk, dtype: str, meant: str, n: int, shape: tuple[int, ...]
) -> None:
    single = np.finfo(dtype).eps > 1e-10
    for power in (0.5, 2) if single else (0.5, 4, 8):
        a = with_condition(n, dtype, power)
        exact = normal((n, *shape), dtype)
        b = (op(a, meant).astype(wide_type(dtype)) @ exact).astype(dtype)
        found = oc.linalg.gesvx(a, b, trans=meant)
        gesvx = lapack.get_lapack_funcs("gesvx", (a,))
        *_, rcond, ferr, _, info = gesvx(a, columns(b), fact="N", trans=meant)
        assert info == 0
        assert found.x.shape == b.shape
        assert found.x.dtype == a.dtype
        assert found.ferr.shape == found.berr.shape == shape
        x = columns(found.x.compute())
        assert ratio(op(a, meant), b, x) < THRESHOLD
        assert found.rcond == pytest.approx(rcond, rel=1e-2)
        # LAPACK's absolute value of a complex number is up to sqrt(2) times as much.
        np.testing.assert_allclose(found.ferr.reshape(-1), ferr, rtol=0.7)
        assert (found.berr <= 2 * np.finfo(dtype).eps).all()
        # The bound is one.
        error = np.abs(x - columns(exact)).max(axis=0) / np.abs(x).max(axis=0)
        assert (error <= found.ferr.reshape(-1)).all()
        again = oc.linalg.lu_solve((found.lu, found.piv), b, trans=meant).compute()
        np.testing.assert_allclose(columns(again), x, atol=1e-3 if single else 1e-6)


@each_dtype
@pytest.mark.parametrize("meant", MEANT)
def test_gerfs_refines_what_is_wrong(desk: Desk, dtype: str, meant: str) -> None:
    n = 40
    a = with_condition(n, dtype, 1)
    factors = scipy_linalg.lu_factor(a)
    b = normal((n, 3), dtype)
    exact = np.linalg.solve(op(a, meant).astype(wide_type(dtype)), b)
    off = (exact * (1 + 1e-2 * normal((n, 3), "float32"))).astype(dtype)
    # One of them is right already.
    off[:, 1] = exact[:, 1]
    x, ferr, berr = oc.linalg.gerfs(a, factors, b, off, trans=meant)
    assert (berr <= 2 * np.finfo(dtype).eps).all()
    error = np.abs(x.compute() - exact).max(axis=0) / np.abs(exact).max(axis=0)
    assert (error <= ferr).all()
    assert (ferr < 1e4 * n * np.finfo(dtype).eps).all()
    # What was given is as it was.
    assert abs(off[:, 0] - exact[:, 0]).max() > 1e-4


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("meant", MEANT)
@pytest.mark.parametrize("turned", [False, True])
def test_of_what_memory_does_not_hold(desk: Desk, dtype: str, meant: str, turned: bool) -> None:
    n = 300 if dtype == "float64" else 240
    a, b = with_condition(n, dtype, 3), normal((n, 5), dtype)
    stored = desk.put(np.ascontiguousarray(a.T), 60).T if turned else desk.put(a, 60)
    given = desk.put(b, 60)
    with oc.config(memory="1MiB"):
        found = oc.linalg.gesvx(stored, given, trans=meant)
        x = desk.read(found.x)
        assert ratio(op(a, meant), b, x) < THRESHOLD
        gesvx = lapack.get_lapack_funcs("gesvx", (a,))
        *_, rcond, ferr, _, _ = gesvx(a, b, fact="N", trans=meant)
        assert found.rcond == pytest.approx(rcond, rel=1e-6)
        np.testing.assert_allclose(found.ferr, ferr, rtol=0.7)
        assert (found.berr < 2 * np.finfo(dtype).eps).all()
    del stored, given, found


@pytest.mark.parametrize("meant", MEANT)
@pytest.mark.parametrize("turned", [False, True])
def test_each_step_reads_the_matrix_once(desk: Desk, meant: str, turned: bool) -> None:
    """The residual, and the product of the absolute values, are one pass."""
    n = 300
    chance = np.random.default_rng(0)
    a = chance.integers(-9, 9, (n, n)).astype(np.float64) + 200 * np.eye(n)
    stored = desk.put(np.ascontiguousarray(a.T), 60).T if turned else desk.put(a, 60)
    exact = chance.integers(1, 9, n).astype(np.float64)
    b, (lu, piv) = op(a, meant) @ exact, scipy_linalg.lu_factor(a)
    factors = desk.put(lu, 60), piv
    # Blocks of the disk are read as a whole.
    whole = 25 * 8 * 4096
    runs = []
    for start in (exact, exact * (1 + 1e-9)):
        oc.linalg.gerfs(stored, (lu, piv), b, start, trans=meant)
        if start is exact:
            # Of whole numbers, the residual is zero at once; the rest is about factors, in memory.
            run = oc.last_run()
            assert run is not None
            assert run.bytes_read == whole
        oc.linalg.gerfs(stored, factors, b, start, trans=meant)
        run = oc.last_run()
        assert run is not None
        runs.append(run.bytes_read)
    # Matrix and factors, for each of one or two steps; a part of them may be in memory still.
    assert whole < runs[1] - runs[0] < 4 * whole
    del stored, factors


@each_dtype
@pytest.mark.parametrize("meant", MEANT)
def test_equilibrated(desk: Desk, dtype: str, meant: str) -> None:
    n = 40
    spread = 6 if np.finfo(dtype).eps > 1e-10 else 60
    rows, across = np.logspace(-spread, spread, n), np.logspace(spread / 2, -spread / 2, n)
    a = (with_condition(n, dtype, 1) * rows[:, None] * across).astype(dtype)
    exact = normal((n, 2), dtype)
    wide = op(a, meant).astype(wide_type(dtype))
    # Solutions that are as large as they are small are compared by element.
    exact = (exact / (across if meant == "N" else rows)[:, None]).astype(dtype)
    b = (wide @ exact).astype(dtype)
    found = oc.linalg.gesvx(a, b, trans=meant, equilibrate=True)
    assert found.r is not None
    assert found.c is not None
    assert found.rcond > 1e-4
    np.testing.assert_allclose(found.x.compute(), exact, rtol=np.finfo(dtype).eps * 1e4)
    scaled = found.r.compute()[:, None] * a * found.c.compute()
    assert 0.1 < np.abs(scaled).max(axis=1).min() <= np.abs(scaled).max() < 10
    # Powers of two: scaling loses nothing.
    assert (np.frexp(found.r.compute())[0] == 0.5).all()
    tame = oc.linalg.gesvx(normal((n, n), dtype), b, equilibrate=True)
    assert tame.r is None and tame.c is None


def test_operands_of_other_kinds(desk: Desk) -> None:
    """Views, other types, expressions; and what takes long is computed once."""
    a, b = normal((50, 50), "float32"), normal((50, 2), "float64")
    wide = a.astype(np.float64)
    expected = np.linalg.solve(wide, b)
    stored = desk.put(np.pad(a, 3), 16)[3:-3, 3:-3]
    others = [
        a,
        stored,
        oc.asarray(a) + 0,
        oc.matmul(oc.eye(50), stored),
        oc.asarray(a.astype(np.complex64)).conj(),
    ]
    for matrix in others:
        x, ferr, berr = oc.linalg.gesvx(matrix, b)[:3]
        np.testing.assert_allclose(x.compute(), expected, rtol=1e-8)
        assert (ferr < 1e-9).all()
        assert (berr < 1e-15).all()
    integers = oc.linalg.gesvx([[2, 1], [1, 3]], [1, 2])
    np.testing.assert_allclose(integers.x.compute(), [0.2, 0.6])
    del stored, others


# -- porfs and posvx ---------------------------------------------------------------------------


@each_dtype
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("n", [1, 6, 60])
@pytest.mark.parametrize("shape", [(), (3,)])
def test_posvx_is_lapacks(
    desk: Desk, dtype: str, lower: bool, n: int, shape: tuple[int, ...]
) -> None:
    single = np.finfo(dtype).eps > 1e-10
    for power in (0.5, 2) if single else (0.5, 6):
        a, b = definite(n, dtype, power), normal((n, *shape), dtype)
        posvx = lapack.get_lapack_funcs("posvx", (a,))
        *_, rcond, ferr, berr, info = posvx(a, columns(b), fact="N", lower=lower)
        assert info == 0
        half = a.copy()
        half[np.triu_indices(n, 1) if lower else np.tril_indices(n, -1)] = 1e6
        found = oc.linalg.posvx(half, b, lower=lower)
        assert ratio(a, b, found.x.compute()) < THRESHOLD
        assert found.rcond == pytest.approx(rcond, rel=1e-2)
        np.testing.assert_allclose(found.ferr.reshape(-1), ferr, rtol=0.7)
        assert (found.berr <= 2 * np.finfo(dtype).eps).all()
        start = (found.x.compute() * (1 + 1e-3)).astype(dtype)
        x, again, berr = oc.linalg.porfs(half, found.factor, b, start, lower=lower)
        assert (berr <= 2 * np.finfo(dtype).eps).all()
        np.testing.assert_allclose(again, found.ferr, rtol=0.5)
        assert ratio(a, b, x.compute()) < THRESHOLD


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("turned", [False, True])
def test_definite_and_out_of_core(desk: Desk, dtype: str, lower: bool, turned: bool) -> None:
    n = 300 if dtype == "float64" else 240
    a, b = definite(n, dtype, 3), normal((n, 3), dtype)
    half = a.copy()
    half[np.triu_indices(n, 1) if lower else np.tril_indices(n, -1)] = 1e6
    stored = desk.put(np.ascontiguousarray(half.T), 60).T if turned else desk.put(half, 60)
    with oc.config(memory="1MiB"):
        found = oc.linalg.posvx(stored, b, lower=lower)
        assert ratio(a, b, desk.read(found.x)) < THRESHOLD
        assert (found.berr < 2 * np.finfo(dtype).eps).all()
    del stored, found


# -- cho_factor and cho_solve ------------------------------------------------------------------


@each_dtype
@pytest.mark.parametrize("lower", [True, False])
def test_cho_solve_is_scipys(desk: Desk, dtype: str, lower: bool) -> None:
    a, b = definite(60, dtype, 1), normal((60, 4), dtype)
    c, is_lower = oc.linalg.cho_factor(a, lower)
    assert is_lower is lower
    expected = scipy_linalg.cho_factor(a, lower)
    half = (np.tril if lower else np.triu)(expected[0])
    np.testing.assert_allclose(c.compute(), half, atol=10 * np.finfo(dtype).eps)
    for right in (b, b[:, 0]):
        found = oc.linalg.cho_solve((c, is_lower), right).compute()
        assert ratio(a, right, found) < THRESHOLD
        # What lies beyond the diagonal is not read.
        given = oc.linalg.cho_solve(expected, right).compute()
        np.testing.assert_allclose(given, scipy_linalg.cho_solve(expected, right), rtol=1e-3)


def test_cho_solve_out_of_core(desk: Desk) -> None:
    a, b = definite(300, "float64", 2), normal((300, 20), "float64")
    stored = desk.put(a, 60)
    factor, lower = oc.linalg.cho_factor(stored, lower=True)
    kept = factor.save(desk.new())
    x = desk.run(oc.linalg.cho_solve((kept, lower), desk.put(b, 60)))
    assert ratio(a, b, x) < THRESHOLD
    del stored, factor, kept


# -- what cannot be ----------------------------------------------------------------------------


def ones(*shape: int) -> Values:
    return np.ones(shape)


UNIT = (np.eye(3), np.arange(3))


@pytest.mark.parametrize(
    "call",
    [
        lambda: oc.linalg.gerfs(ones(3, 2), UNIT, ones(3), ones(3)),
        lambda: oc.linalg.gerfs(np.eye(3), UNIT, ones(4), ones(4)),
        lambda: oc.linalg.gerfs(np.eye(3), UNIT, ones(3), ones(3, 1)),
        lambda: oc.linalg.gerfs(np.eye(4), UNIT, ones(4), ones(4)),
        lambda: oc.linalg.gerfs(np.eye(3), UNIT, ones(3), ones(3), trans="H"),
        lambda: oc.linalg.porfs(np.eye(4), np.eye(3), ones(4), ones(4)),
        lambda: oc.linalg.porfs(np.eye(3), np.eye(3), ones(3), ones(2)),
        lambda: oc.linalg.gesvx(ones(3, 2), ones(3)),
        lambda: oc.linalg.gesvx(np.eye(3), ones(2)),
        lambda: oc.linalg.gesvx(np.eye(3), ones(3, 2, 2)),
        lambda: oc.linalg.gesvx(np.eye(3), ones(3), trans=3),
        lambda: oc.linalg.posvx(np.eye(3), ones()),
        lambda: oc.linalg.cho_factor(ones(3, 2)),
        lambda: oc.linalg.cho_solve((ones(3, 2), True), ones(3)),
        lambda: oc.linalg.cho_solve((np.eye(3), True), ones(2)),
    ],
)
def test_arguments_that_make_no_sense(call: Callable[[], object]) -> None:
    with pytest.raises(oc.InvalidArgumentError):
        call()


def test_arguments_of_wrong_types() -> None:
    for call in (
        lambda: oc.linalg.gerfs(np.eye(3), np.eye(3), ones(3), ones(3)),  # type: ignore[arg-type]
        lambda: oc.linalg.gesvx(np.eye(3), ones(3), equilibrate="E"),  # type: ignore[arg-type]
        lambda: oc.linalg.posvx(np.eye(3), ones(3), lower="L"),  # type: ignore[arg-type]
        lambda: oc.linalg.cho_solve(np.eye(3), ones(3)),  # type: ignore[arg-type]
        lambda: oc.linalg.cho_solve((np.eye(3), None), ones(3)),  # type: ignore[arg-type]
    ):
        with pytest.raises(oc.InvalidTypeError):
            call()


@pytest.mark.parametrize("equilibrate", [False, True])
def test_singular(desk: Desk, equilibrate: bool) -> None:
    a = normal((20, 20), "float64")
    a[:, 7] = 0
    with pytest.raises(oc.SingularMatrixError) as caught:
        oc.linalg.gesvx(a, ones(20), equilibrate=equilibrate)
    assert caught.value.index == 8
    with pytest.raises(oc.SingularMatrixError):
        oc.linalg.gerfs(a, oc.linalg.lu_factor(a), ones(20), ones(20))
    with pytest.raises(oc.NotPositiveDefiniteError) as refused:
        oc.linalg.posvx(np.diag([1.0, -1.0, 1.0]), ones(3))
    assert refused.value.index == 2


@pytest.mark.parametrize("equilibrate", [False, True])
def test_what_is_not_finite(desk: Desk, equilibrate: bool) -> None:
    for bad in (np.nan, np.inf):
        a = normal((20, 20), "float64")
        a[3, 4] = bad
        with pytest.raises(oc.NotFiniteError):
            oc.linalg.gesvx(a, ones(20), equilibrate=equilibrate)


def test_of_hardly_anything(desk: Desk) -> None:
    for found in (
        oc.linalg.gesvx(ones(0, 0), ones(0)),
        oc.linalg.gesvx(ones(0, 0), ones(0), equilibrate=True),
        oc.linalg.posvx(ones(0, 0), ones(0)),
    ):
        assert found.x.shape == (0,)
        assert found.ferr.shape == found.berr.shape == ()
        assert found.rcond == 1
    some = oc.linalg.gesvx(normal((5, 5), "float64"), ones(5, 0))
    assert some.x.shape == (5, 0)
    assert some.ferr.shape == (0,)
    assert oc.linalg.gesvx([[4.0]], [2.0]).x.compute() == [0.5]
    x, ferr, berr = oc.linalg.gerfs([[4.0]], ([[4.0]], [0]), [0.0], [0.0])
    assert (x.compute(), ferr, berr) == ([0], 0, 0)


@pytest.mark.parametrize("equilibrate", [False, True])
def test_gesvx_names_the_pivot(equilibrate: bool) -> None:
    with pytest.raises(oc.SingularMatrixError, match="pivot 2, counted from 1, is exactly zero in"):
        oc.linalg.gesvx(np.ones((3, 3)), np.ones(3), equilibrate=equilibrate)
