"""Level-3 BLAS gives what NumPy gives, for every type and option, wherever matrices lie.

The ratio is that of SLATE's tester: the error in the Frobenius norm over what a sum of so many
terms may have of rounding.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

import outcrop as oc

Values: TypeAlias = NDArray[Any]

DTYPES = ("float32", "float64", "complex64", "complex128")
M, N, K = 73, 60, 45
"""Extents that are no multiples of tiles, of matrices that LITTLE does not hold together."""

LITTLE = 400 << 10

each_dtype = pytest.mark.parametrize("dtype", DTYPES)
KINDS = ("zarr", "zstd", "npy", "fortran", "memory", "numpy")


class Desk:
    """Matrices of random numbers, stored in some way, and what comes out of it."""

    def __init__(self, path: Path) -> None:
        self.path, self._count = path, itertools.count()
        self.random = np.random.default_rng(1)

    def matrix(self, rows: int, columns: int, dtype: str) -> Values:
        values = self.random.standard_normal((rows, columns))
        if dtype.startswith("complex"):
            values = values + 1j * self.random.standard_normal((rows, columns))
        return values.astype(dtype)

    def put(self, values: Values, kind: str = "zarr") -> Any:
        """The same values, to be changed."""
        path = self.path / f"{next(self._count)}{'.zarr' if kind in ('zarr', 'zstd') else '.npy'}"
        if kind == "numpy":
            return values.copy()
        if kind == "memory":
            return oc.asarray(values.copy())
        if kind in ("npy", "fortran"):
            np.save(path, np.asfortranarray(values) if kind == "fortran" else values)
        else:
            codecs = "zstd" if kind == "zstd" else None
            oc.asarray(values.copy()).save(path, tile=24, codecs=codecs).close()
        return oc.open(path, "r+")


def read(array: Any) -> Values:
    return array.copy() if isinstance(array, np.ndarray) else np.asarray(array.compute())


def call(routine: Any, *args: Any, **options: Any) -> None:
    """Call a routine, and check that it moves what it is planned to."""
    plan = routine.plan(*args, **options)
    assert routine(*args, **options) is (options["C"] if "C" in options else args[2])
    run = oc.last_run()
    assert run is not None
    assert run.peak_bytes <= oc.config().memory
    if plan.is_exact:
        assert (run.bytes_read, run.bytes_written) == (plan.bytes_read, plan.bytes_written)
    else:
        assert run.bytes_read <= plan.bytes_read
        assert run.bytes_written <= plan.bytes_written


def check(got: Values, wanted: Values, scale: float) -> None:
    assert np.linalg.norm(got - wanted) <= 3 * np.finfo(got.dtype).eps * scale


def turned(a: Values, trans: str) -> Values:
    return {"N": a, "T": a.T, "C": a.conj().T}[trans]


def of_half(uplo: str, n: int) -> Values:
    lower = np.tri(n, dtype=np.bool_)
    return lower if uplo == "L" else lower.T


def scalars(dtype: str) -> tuple[Any, Any]:
    return (0.7 - 0.3j, -0.4 + 0.2j) if dtype.startswith("complex") else (0.7, -0.4)


norm = np.linalg.norm


def some(kind: str, *choices: Any) -> list[tuple[Any, ...]]:
    """All combinations where tiles are ours, and some of them elsewhere, others for each kind."""
    found = list(itertools.product(*choices))
    return found if kind == "zarr" else found[KINDS.index(kind) % len(found) :: 5]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with oc.config(memory=LITTLE, threads=2, scratch=tmp_path):
        yield Desk(tmp_path)


@each_dtype
@pytest.mark.parametrize(
    "kinds", list(zip(KINDS, KINDS[2:] + KINDS[:2], strict=True)), ids="-".join
)
def test_gemm(desk: Desk, dtype: str, kinds: tuple[str, str]) -> None:
    kind, other = kinds
    for trans_a, trans_b in some(kind, "NTC", "NTC"):
        a = desk.matrix(*((M, K) if trans_a == "N" else (K, M)), dtype)
        b = desk.matrix(*((K, N) if trans_b == "N" else (N, K)), dtype)
        c = desk.matrix(M, N, dtype)
        alpha, beta = scalars(dtype)
        for factor in (beta, 0):
            # Of what is not read, NaN does no harm.
            target = desk.put(c if factor else np.full_like(c, np.nan), kind)
            options = {"trans_a": trans_a, "trans_b": trans_b}
            args = (alpha, desk.put(a, other), desk.put(b))
            call(oc.blas.gemm, *args, beta=factor, C=target, **options)
            wanted = alpha * turned(a, trans_a) @ turned(b, trans_b) + factor * c
            scale = np.sqrt(K + 2) * abs(alpha) * norm(a) * norm(b) + 2 * abs(factor) * norm(c)
            check(read(target), wanted, scale)


@each_dtype
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["symm", "hemm"])
def test_products_with_symmetric_matrices(desk: Desk, name: str, dtype: str, kind: str) -> None:
    alpha, beta = scalars(dtype)
    for side, uplo in some(kind, "LR", "LU"):
        n = M if side == "L" else N
        a, b, c = desk.matrix(n, n, dtype), desk.matrix(M, N, dtype), desk.matrix(M, N, dtype)
        half = np.where(of_half(uplo, n), a, 0)
        whole = half + (half.conj().T if name == "hemm" else half.T)
        np.fill_diagonal(whole, np.diagonal(a).real if name == "hemm" else np.diagonal(a))
        given = np.where(of_half(uplo, n), a, np.nan).astype(dtype)
        target = desk.put(c, kind)
        options = {"side": side, "uplo": uplo}
        routine = getattr(oc.blas, name)
        call(routine, alpha, desk.put(given), desk.put(b), beta=beta, C=target, **options)
        wanted = alpha * (whole @ b if side == "L" else b @ whole) + beta * c
        scale = np.sqrt(n + 2) * abs(alpha) * norm(whole) * norm(b) + 2 * abs(beta) * norm(c)
        check(read(target), wanted, scale)


@each_dtype
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["syrk", "herk", "syr2k", "her2k"])
def test_updates_of_a_half(desk: Desk, name: str, dtype: str, kind: str) -> None:
    hermitian, twice = name.startswith("her"), name.endswith("2k")
    alpha, beta = scalars(dtype)
    alpha = alpha.real if hermitian and not twice else alpha
    beta = beta.real if hermitian else beta
    last = "C" if hermitian else "T"
    for uplo, trans, factor in some(kind, "LU", ("N", last), (beta, 0)):
        a = desk.matrix(*((M, K) if trans == "N" else (K, M)), dtype)
        b, c = desk.matrix(*a.shape, dtype), desk.matrix(M, M, dtype)
        own = of_half(uplo, M)
        c = np.where(own, c, np.nan).astype(dtype)
        given = c if factor else np.where(own, np.nan, c).astype(dtype)
        one, two = turned(a, trans), turned(b, trans)
        other = last if trans == "N" else "N"
        back = {"N": (a, b), last: (turned(a, last), turned(b, last))}[other]
        if twice:
            conjugate = np.conj(alpha) if hermitian else alpha
            product = alpha * one @ back[1] + conjugate * two @ back[0]
        else:
            product = alpha * one @ back[0]
        before = c.copy()
        if hermitian:
            np.fill_diagonal(before, np.diagonal(c).real)
        target = desk.put(given, kind)
        factors = [desk.put(x) for x in ((a, b) if twice else (a,))]
        options = {"uplo": uplo, "trans": trans}
        call(getattr(oc.blas, name), alpha, *factors, beta=factor, C=target, **options)
        found = read(target)
        assert found[~own].tobytes() == given[~own].tobytes()
        if hermitian:
            np.testing.assert_array_equal(np.diagonal(found).imag, 0)
        wanted = product + (factor * before if factor else 0)
        size = norm(a) * norm(b if twice else a) * len(factors)
        scale = np.sqrt(K + 2) * abs(alpha) * size + 2 * abs(factor) * norm(c[own])
        check(np.where(own, found, 0), np.where(own, wanted, 0), scale)


@each_dtype
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["trmm", "trsm"])
def test_triangles(desk: Desk, name: str, dtype: str, kind: str) -> None:
    alpha, _ = scalars(dtype)
    for side, uplo, trans, diag in some(kind, "LR", "LU", "NTC", "NU"):
        n = M if side == "L" else N
        a, b = desk.matrix(n, n, dtype) / n, desk.matrix(M, N, dtype)
        np.fill_diagonal(a, 2 + desk.random.random(n))
        triangle = np.where(of_half(uplo, n), a, 0)
        given = np.where(of_half(uplo, n), a, np.nan).astype(dtype)
        if diag == "U":
            np.fill_diagonal(triangle, 1)
            np.fill_diagonal(given, np.nan)
        triangle = turned(triangle, trans)
        target = desk.put(b, kind)
        options = {"side": side, "uplo": uplo, "trans_a": trans, "diag": diag}
        call(getattr(oc.blas, name), alpha, desk.put(given.astype(dtype)), target, **options)
        found = read(target)
        if name == "trmm":
            wanted = alpha * (triangle @ b if side == "L" else b @ triangle)
            check(found, wanted, np.sqrt(n + 2) * abs(alpha) * norm(triangle) * norm(b))
        else:
            product = triangle @ found if side == "L" else found @ triangle
            scale = np.sqrt(n + 2) * norm(triangle) * norm(found)
            check(product.astype(dtype), (alpha * b).astype(dtype), scale)


@pytest.mark.parametrize("name", oc.blas.__all__)
@pytest.mark.parametrize("n", [0, 1])
def test_the_smallest(desk: Desk, name: str, n: int) -> None:
    one, target = np.full((n, n), 3.0), np.full((n, n), 5.0)
    routine = getattr(oc.blas, name)
    if name in ("trmm", "trsm"):
        routine(2.0, one, target)
        np.testing.assert_allclose(target, 30.0 if name == "trmm" else 10 / 3)
        return
    factors = (one,) if name in ("syrk", "herk") else (one, one)
    routine(2.0, *factors, beta=1.0, C=target)
    np.testing.assert_array_equal(target, 5 + 18 * (2 if name.endswith("2k") else 1))


@pytest.mark.parametrize("name", oc.blas.__all__)
def test_without_alpha_nothing_is_read(desk: Desk, name: str) -> None:
    nan, routine = np.full((M, M), np.nan), getattr(oc.blas, name)
    given = desk.matrix(M, M, "float64")
    target = desk.put(given)
    if name in ("trmm", "trsm"):
        call(routine, 0.0, desk.put(nan), target)
        np.testing.assert_array_equal(read(target), 0)
        return
    factors = (desk.put(nan),) * (1 if name in ("syrk", "herk") else 2)
    call(routine, 0.0, *factors, beta=2.0, C=target)
    lower = name not in ("gemm", "symm", "hemm")
    wanted = np.where(np.tri(M, dtype=np.bool_), 2 * given, given) if lower else 2 * given
    np.testing.assert_array_equal(read(target), wanted)


@pytest.mark.parametrize("key", [np.s_[24:72, 48:96], np.s_[5:60, 7:49], np.s_[::2, ::-1]])
def test_parts_and_transposes_of_matrices(desk: Desk, key: Any) -> None:
    whole, other = desk.matrix(96, 96, "float64"), desk.matrix(192, 96, "complex64")
    factor = desk.put(other)
    for kind, is_turned in itertools.product(("zarr", "npy", "numpy"), (False, True)):
        c = desk.put(whole, kind)
        part = c[key].T if is_turned else c[key]
        wanted = whole.copy()
        view = wanted[key].T if is_turned else wanted[key]
        m, n = view.shape
        a = np.asarray(other[: 2 * m : 2, 3:40]).imag.astype("float64")
        b = desk.matrix(37, n, "float64")
        lazy = oc.imag(factor[: 2 * m : 2, 3:40])
        oc.blas.gemm(2.0, lazy, desk.put(b), beta=-1.0, C=part)
        view[...] = 2 * a @ b - view
        np.testing.assert_allclose(read(c), wanted, atol=1e-4)


def test_parts_of_one_array_that_are_apart(desk: Desk) -> None:
    whole = desk.matrix(96, 96, "float64")
    for kind in ("zarr", "npy", "numpy"):
        c = desk.put(whole, kind)
        oc.blas.gemm(-1.0, c[48:, :48], c[:48, 48:], beta=1.0, C=c[48:, 48:])
        wanted = whole[48:, 48:] - whole[48:, :48] @ whole[:48, 48:]
        np.testing.assert_allclose(read(c)[48:, 48:], wanted, atol=1e-12)
        np.testing.assert_array_equal(read(c)[:48], whole[:48])


def test_conjugated_views(desk: Desk) -> None:
    a, c = desk.matrix(50, 40, "complex128"), desk.matrix(50, 50, "complex128")
    target = desk.put(c)
    oc.blas.herk(1.0, desk.put(a).conj(), beta=0.0, C=target, uplo="U")
    wanted = np.triu(a.conj() @ a.T) + np.tril(c, -1)
    np.testing.assert_allclose(read(target), wanted, atol=1e-12)
    oc.blas.trmm(1.0, desk.put(c).T.conj(), target := desk.put(c), uplo="U")
    np.testing.assert_allclose(read(target), np.triu(c.T.conj()) @ c, atol=1e-12)


def test_a_new_array_becomes_visible_when_it_is_closed(desk: Desk, tmp_path: Path) -> None:
    a, path = desk.matrix(60, 60, "float64"), tmp_path / "new.zarr"
    target = oc.create(path, (60, 60), tile=24)
    oc.blas.gemm(1.0, a, a, C=target)
    oc.blas.trsm(1.0, np.eye(60), target)
    assert not path.exists()
    target.close()
    np.testing.assert_allclose(oc.open(path).compute(), a @ a, atol=1e-12)


def test_what_one_array_is_made_to_is_what_the_next_takes(desk: Desk) -> None:
    a = desk.matrix(60, 60, "float64") / 60
    spd = a @ a.T + np.eye(60)
    target = desk.put(np.zeros((60, 60)))
    oc.blas.syrk(1.0, desk.put(a), C=target)
    target[...] = target + oc.eye(60)
    oc.blas.trsm(2.0, oc.linalg.cholesky(desk.put(spd)), b := desk.put(a))
    wanted = 2 * np.linalg.solve(np.linalg.cholesky(spd), a)
    np.testing.assert_allclose(read(b), wanted, atol=1e-12)
    assert oc.open(b.path).compute().tobytes() == read(b).tobytes()
