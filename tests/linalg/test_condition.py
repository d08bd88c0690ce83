"""Estimates of condition numbers are those of LAPACK, and read factors a few times."""

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
KINDS = ("random", "graded", "ill-conditioned", "Hilbert")
NORMS = (("1", 1), ("O", 1), ("I", np.inf))

each_dtype = pytest.mark.parametrize("dtype", DTYPES)


def matrix(n: int, dtype: str, kind: str, seed: int = 0) -> Values:
    chance = np.random.default_rng(seed)

    def normal() -> Values:
        real = chance.standard_normal((n, n))
        return real + 1j * chance.standard_normal((n, n)) if "complex" in dtype else real

    single = np.finfo(dtype).eps > 1e-10
    if kind == "graded":
        found = normal() * np.logspace(0, -2 if single else -8, n)[:, None]
    elif kind == "ill-conditioned":
        left, right = np.linalg.qr(normal())[0], np.linalg.qr(normal())[0]
        found = (left * np.logspace(0, -4 if single else -12, n)) @ right
    elif kind == "Hilbert":
        m = min(n, 4 if single else 8)
        found = np.eye(n, dtype=normal().dtype)
        found[:m, :m] = 1 / (1 + np.add.outer(np.arange(m), np.arange(m)))
    else:
        found = normal()
    return found.astype(dtype)


def definite(n: int, dtype: str, spread: float) -> Values:
    q = np.linalg.qr(matrix(n, "complex128" if "complex" in dtype else "float64", "random"))[0]
    a = (q * np.logspace(0, -spread, n)) @ q.conj().T
    return ((a + a.conj().T) / 2).astype(dtype)


@each_dtype
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 2, 7, 60])
def test_of_factors_it_is_that_of_gecon(desk: Desk, dtype: str, kind: str, n: int) -> None:
    a = matrix(n, dtype, kind)
    factors = scipy_linalg.lu_factor(a)
    gecon = lapack.get_lapack_funcs("gecon", (a,))
    for name, norm in NORMS:
        anorm = np.linalg.norm(a, norm)
        expected, info = gecon(factors[0], anorm, norm=name)
        assert info == 0
        found = oc.linalg.gecon(factors, anorm, name)
        assert isinstance(found, float)
        assert found == pytest.approx(expected, rel=1e-2)
        # The estimate of a condition number never exceeds it.
        exact = 1 / np.linalg.cond(a.astype(np.result_type(a, np.float64)), norm)
        assert found > exact * (1 - 1e-2)


@each_dtype
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("n", [1, 5, 60])
def test_of_a_cholesky_factor_it_is_that_of_pocon(
    desk: Desk, dtype: str, lower: bool, n: int
) -> None:
    a = definite(n, dtype, 3)
    c = scipy_linalg.cholesky(a, lower=lower)
    anorm = np.linalg.norm(a, 1)
    expected, info = lapack.get_lapack_funcs("pocon", (a,))(c, anorm, uplo="L" if lower else "U")
    assert info == 0
    # The other half is not read.
    c[np.triu_indices(n, 1) if lower else np.tril_indices(n, -1)] = np.nan
    assert oc.linalg.pocon(c, anorm, lower=lower) == pytest.approx(expected, rel=1e-2)


@each_dtype
def test_of_what_memory_does_not_hold(desk: Desk, dtype: str) -> None:
    a = matrix(300, dtype, "random")
    stored = desk.put(a, 60)
    factors, pivots = scipy_linalg.lu_factor(a)
    lu = desk.put(factors, 60)
    gecon = lapack.get_lapack_funcs("gecon", (a,))
    with oc.config(memory="1MiB"):
        for name, norm in NORMS[1:]:
            anorm = np.linalg.norm(a, norm)
            expected = gecon(factors, anorm, norm=name)[0]
            found = oc.linalg.gecon((lu, pivots), anorm, name)
            assert found == pytest.approx(expected, rel=1e-2)
            run = oc.last_run()
            # Each system that is solved reads the factors once, of which a part stays in memory.
            assert run is not None
            assert run.bytes_read < 7 * lu.nbytes
            assert 1 / oc.linalg.cond(stored, norm) == pytest.approx(expected, rel=1e-2)
        across = oc.linalg.cond(stored, np.inf)
        assert oc.linalg.cond(stored.T, 1) == pytest.approx(across, rel=1e-2)
    del stored, lu


def test_lazy_factors_are_computed_once(desk: Desk) -> None:
    a = matrix(200, "float64", "random")
    stored = desk.put(a, 40)
    found = oc.linalg.gecon(oc.linalg.lu_factor(stored), np.linalg.norm(a, 1))
    run = oc.last_run()
    assert found == pytest.approx(1 / oc.linalg.cond(stored), rel=1e-6)
    # Each factorization has 2 / 3 n^3 operations, and each solution 2 n^2 for each column.
    assert run is not None
    assert run.flops < 200**3
    del stored


def test_what_overflows_on_the_way_does_not_matter(desk: Desk) -> None:
    """The norm of an inverse is estimated times that of the matrix: of elements of 1e-37 in single
    precision, it would overflow."""
    for size in (1e-37, 1e-20, 1e20, 1e37):
        a = (size * matrix(20, "float32", "random")).astype(np.float32)
        factors = scipy_linalg.lu_factor(a)
        found = oc.linalg.gecon(factors, np.linalg.norm(a.astype(float), 1))
        assert found == pytest.approx(1 / np.linalg.cond(a.astype(float), 1), rel=0.5)


def test_singular_matrices(desk: Desk) -> None:
    a = matrix(10, "float64", "random")
    a[:, 3] = 0
    assert oc.linalg.gecon(oc.linalg.lu_factor(a), 1.0) == 0
    assert oc.linalg.cond(a) == np.inf
    assert oc.linalg.cond(np.zeros((5, 5))) == np.inf
    assert oc.linalg.pocon(np.diag([1.0, 0.0, 2.0]), 2.0) == 0
    assert oc.linalg.gecon((np.eye(3), np.arange(3)), 0.0) == 0
    assert oc.linalg.gecon((np.eye(3), np.arange(3)), np.inf) == 0


def test_of_hardly_anything(desk: Desk) -> None:
    assert oc.linalg.gecon((np.ones((0, 0)), np.ones(0, np.int32)), 0.0) == 1
    assert oc.linalg.pocon(np.ones((0, 0)), 0.0) == 1
    assert oc.linalg.cond(np.array([[-3]])) == 1
    assert oc.linalg.cond(np.eye(4, dtype=np.int64)) == 1


@pytest.mark.parametrize(
    "call",
    [
        lambda: oc.linalg.gecon((np.eye(3), np.arange(3)), 1.0, "2"),
        lambda: oc.linalg.gecon((np.eye(3), np.arange(2)), 1.0),
        lambda: oc.linalg.gecon((np.ones((3, 2)), np.arange(2)), 1.0),
        lambda: oc.linalg.gecon((np.eye(3), np.arange(3)), -1.0),
        lambda: oc.linalg.gecon((np.eye(3), np.arange(3)), np.nan),
        lambda: oc.linalg.pocon(np.ones(3), 1.0),
        lambda: oc.linalg.cond(np.ones((3, 2))),
        lambda: oc.linalg.cond(np.ones((0, 0))),
        lambda: oc.linalg.cond(np.eye(3), 3),
    ],
)
def test_arguments_that_make_no_sense(call: Callable[[], object]) -> None:
    with pytest.raises(oc.InvalidArgumentError):
        call()


def test_arguments_of_wrong_types() -> None:
    with pytest.raises(oc.InvalidTypeError):
        oc.linalg.gecon(np.eye(3), 1.0)  # type: ignore[arg-type]
    with pytest.raises(oc.InvalidTypeError):
        oc.linalg.gecon((np.eye(3), np.arange(3)), None)  # type: ignore[arg-type]
    with pytest.raises(oc.InvalidTypeError):
        oc.linalg.pocon(np.eye(3), 1.0, lower="U")  # type: ignore[arg-type]
    for p in (2, -2, "fro", None):
        with pytest.raises(oc.UnsupportedError):
            oc.linalg.cond(np.eye(3), p)  # type: ignore[arg-type]


def test_what_is_not_finite(desk: Desk) -> None:
    a = matrix(10, "float64", "random")
    factors, pivots = scipy_linalg.lu_factor(a)
    factors[4, 7] = np.nan
    with pytest.raises(oc.NotFiniteError):
        oc.linalg.gecon((factors, pivots), 1.0)
    a[3, 3] = np.inf
    with pytest.raises(oc.NotFiniteError):
        oc.linalg.cond(a)
