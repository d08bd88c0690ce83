"""Results are as exact as LAPACK's own tests ask for, from operands of any kind.

The ratios are those of LAPACK's test programs (xPOT01, xPOT02, xTRT02), where a result with ratio
below 30 passes; for products, the bound of a sum of k terms in any order.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import outcrop as oc

Values: TypeAlias = NDArray[Any]
Desk: TypeAlias = Any  # that of conftest.py
Make: TypeAlias = Callable[..., Values]

pytestmark = pytest.mark.filterwarnings("ignore::outcrop.errors.OutcropWarning")

DTYPES = ("float32", "float64", "complex64", "complex128")
SIZE = {"float32": 383, "float64": 271, "complex64": 271, "complex128": 191}
"""Orders of matrices of some 570 KiB, which half a mebibyte does not hold."""

THRESHOLD = 30

several = settings(
    max_examples=25,
    deadline=None,
    database=None,
    print_blob=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)

each_dtype = pytest.mark.parametrize("dtype", DTYPES)


# -- ratios ------------------------------------------------------------------------------------


def wide(x: Values) -> Values:
    return x.astype(np.clongdouble if x.dtype.kind == "c" else np.longdouble)


def columns(x: Values) -> Values:
    """As a matrix; a vector is a column."""
    return x if x.ndim == 2 else x.reshape(x.size, 1)


def norm(x: Values) -> Any:
    """The 1-norm, in a type in which nothing overflows."""
    return np.abs(wide(columns(x))).sum(axis=0).max(initial=0)


def unit(dtype: Any) -> float:
    """The unit roundoff."""
    return float(np.finfo(dtype).eps) / 2


def ratio(error: Any, *scales: Any) -> float:
    """Error / product of the scales; where those are zero, the error has to be."""
    assert np.isfinite(error)
    scale = np.prod(np.array(scales, np.longdouble))
    return float(error / scale) if scale else (0.0 if error == 0 else np.inf)


def check_factor(a: Values, factor: Values, upper: bool = False) -> None:
    n = len(a)
    assert factor.shape == (n, n)
    lower = factor.conj().T if upper else factor
    np.testing.assert_array_equal(np.triu(lower, 1), 0)
    diagonal = np.diagonal(lower)
    assert (diagonal.real > 0).all()
    assert (diagonal.imag == 0).all()
    double = lower.astype(np.result_type(lower, np.float64))
    error = wide(double @ double.conj().T - a)
    eps = unit(a.dtype) if a.dtype.kind in "fc" else unit(np.float64)
    assert ratio(norm(error), n, norm(a), eps) < THRESHOLD
    # Whatever rows and columns are scaled by, the factor is as good.
    d = np.sqrt(np.diagonal(a).real.astype(np.longdouble))
    assert ratio(norm(error / d[:, None] / d), n, norm(a / d[:, None] / d), eps) < THRESHOLD


def some(count: int) -> list[int]:
    """All of a few numbers, or the first, the last and ten between."""
    return sorted(set(np.linspace(0, count - 1, 12).astype(int).tolist())) if count else []


def check_solution(a: Values, b: Values, x: Values) -> None:
    """For every column, |b - a x| / (|a| |x| eps)."""
    assert x.shape == b.shape
    eps = max(unit(x.dtype), unit(np.result_type(a, b, x)))
    b, x = columns(b), columns(x)
    double = np.result_type(a, b, x, np.float64)
    residual, size = b - a.astype(double) @ x.astype(double), norm(a)
    lengths = np.abs(wide(residual)).sum(axis=0), np.abs(wide(x)).sum(axis=0)
    for length, scale in zip(*lengths, strict=True):
        # This much may be due to the residual.
        assert ratio(length, size, scale, eps) < THRESHOLD + len(a)
    a = wide(a)
    for j in some(b.shape[1]):
        exact = wide(b[:, j]) - a @ wide(x[:, j])
        assert ratio(norm(exact), size, norm(x[:, j]), eps) < THRESHOLD, j


def check_product(a: Values, b: Values, c: Values) -> None:
    """In all columns compared with NumPy's product, in some with a more precise one."""
    expected = np.result_type(a, b)
    assert c.dtype == expected
    assert c.shape == (a.shape[:-1] + b.shape[1:])
    if expected.kind in "biu":
        np.testing.assert_array_equal(c, a @ b)
        return
    a, b = (a if a.ndim == 2 else a[None]), columns(b)
    c = c.reshape(len(a), b.shape[1])
    bound = 3 * 2 * unit(expected)
    scales = np.sqrt(a.shape[1] + 2), norm(a), norm(b)
    double = np.result_type(a, b, np.float64)
    plain = a.astype(double) @ b.astype(double)
    assert ratio(norm(c - plain), *scales) <= 2 * bound
    chosen = some(b.shape[1])
    exact = wide(a) @ wide(b[:, chosen])
    assert ratio(norm(exact - c[:, chosen]), *scales) <= bound


# -- products ----------------------------------------------------------------------------------


@each_dtype
@pytest.mark.parametrize("kind", ["random", "graded", "tiny", "huge"])
def test_products(desk: Desk, random: Make, dtype: str, kind: str) -> None:
    n = SIZE[dtype]
    a, b = random((n, n - 50), dtype, 1), random((n - 50, n + 3), dtype, 2)
    single = unit(dtype) > 1e-10
    if kind == "graded":
        d = np.logspace(-10, 10, n) if single else np.logspace(-100, 100, n)
        a, b = (a * d[:, None]).astype(dtype), (b[:, ::-1] / d[1]).astype(dtype)
    elif kind != "random":
        scale = 10.0 ** ((15 if single else 150) * (-1 if kind == "tiny" else 1))
        a, b = (a * scale).astype(dtype), (b * scale).astype(dtype)
    check_product(a, b, desk.run(desk.put(a) @ desk.put(b, (40, 25))))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("int32", "float32"),
        ("int16", "float32"),
        ("bool", "float32"),
        ("float32", "float64"),
        ("float32", "complex64"),
        ("complex64", "float64"),
        ("int64", "complex64"),
        ("uint64", "int64"),
        ("int64", "int64"),
        ("uint64", "uint64"),
        ("int8", "uint8"),
        ("int8", "int8"),
        ("uint16", "int32"),
        ("uint32", "uint8"),
        ("bool", "bool"),
        ("bool", "int8"),
    ],
)
def test_products_of_other_and_mixed_types(desk: Desk, random: Make, left: str, right: str) -> None:
    """Integers wrap around, and truth values are joined with and and or, as NumPy does."""
    a, b = random((333, 290), left, 1), random((290, 310), right, 2)
    if left == right == "bool":
        a[:, 5:] = False  # else all is true
    # Of integers in floating point, only what is exact is fair.
    small = np.result_type(left, right).kind in "fc"
    a = (a % 1000).astype(left) if small and a.dtype.kind in "iu" else a
    b = (b % 1000).astype(right) if small and b.dtype.kind in "iu" else b
    check_product(a, b, desk.run(desk.put(a) @ desk.put(b, (40, 25))))


@pytest.mark.parametrize("n", [0, 1, 31, 32, 33, 65])
@pytest.mark.parametrize("k", [0, 1, 32, 300])
def test_products_of_any_size(desk: Desk, random: Make, n: int, k: int) -> None:
    a, b = random((300, k), "float64", 1), random((k, n), "float64", 2)
    check_product(a, b, desk.afford(desk.put(a) @ desk.put(b)))
    check_product(b.T, a.T, desk.afford(desk.put(b.T) @ desk.put(a.T, (32, 400))))


@each_dtype
def test_vectors(desk: Desk, random: Make, dtype: str) -> None:
    """A vector is a row on the left and a column on the right, and nothing is conjugated."""
    n = SIZE[dtype]
    a, v = random((n, n), dtype, 1), random((n,), dtype, 2)
    A, V = desk.put(a), desk.put(v, 50)
    check_product(a, v, desk.run(A @ V))
    check_product(v, a, desk.run(V @ A))
    dot = desk.run(V @ V)
    assert dot.shape == ()
    check_product(v, v, dot)
    check_product(a[3], a[:, 2], desk.run(A[3] @ A[:, 2]))
    check_product(a[None, 3], a[:, 2:3], desk.run(A[None, 3] @ A[:, 2:3]))
    check_product(a, a[2][:, None], desk.run(A @ A[2][:, None]))


def test_the_operator(desk: Desk, random: Make) -> None:
    """With NumPy arrays on either side."""
    a, b = random((320, 250), "float64", 1), random((250, 4), "float64", 2)
    A = desk.put(a)
    check_product(a, b, desk.run(A @ b))
    check_product(b.T, a.T, desk.run(b.T @ A.T))
    check_product(a, b[:, 0], desk.run(A @ b[:, 0]))
    check_product(a, b[:, 0], desk.run(A @ b[:, 0].tolist()))
    check_product(b.T.copy(), a.T, desk.run(oc.matmul(b.T, A.T)))


# -- operands ----------------------------------------------------------------------------------

PLACES = (
    "square tiles",
    "wide tiles",
    "one column of tiles",
    "npy C",
    "npy F",
    "raw big-endian",
    "zstd",
    "zarr v2",
    "zarr-python",
    "box",
    "of three axes",
    "transposed",
    "transposed npy",
    "transposed of three axes",
    "every other row",
    "backwards",
    "memory",
    "function",
    "lazy",
)


def place(desk: Desk, values: Values, kind: str) -> oc.Array:
    """An array with these values."""
    n, m = values.shape
    if kind == "memory":
        return oc.asarray(values)
    if kind == "function":
        return oc.fromfunction(lambda i, j: values[i, j], values.shape, values.dtype)
    if kind == "lazy":
        # A product that is exact.
        scaled = desk.put(2 * values)
        return scaled @ desk.put(np.eye(m, dtype=values.dtype) / 2)
    if kind == "transposed":
        return desk.put(values.T, (30, 44)).T
    if kind == "box":
        around = np.full((n + 30, m + 17), np.nan, values.dtype)
        around[10 : 10 + n, 5 : 5 + m] = values
        return desk.put(around, (36, 30))[10 : 10 + n, 5 : 5 + m]
    if kind == "of three axes":
        around = np.full((n, 3, m), np.nan, values.dtype)
        around[:, 1] = values
        return desk.put(around, (32, 2, 24))[:, 1]
    if kind == "transposed of three axes":
        around = np.full((m, n, 2), np.nan, values.dtype)
        around[:, :, 1] = values.T
        return desk.put(around, (32, 24, 1))[..., 1].T
    if kind == "every other row":
        around = np.full((2 * n, m), np.nan, values.dtype)
        around[::2] = values
        return desk.put(around)[::2]
    if kind == "backwards":
        return desk.put(values[::-1, ::-1].copy())[::-1, ::-1]
    if kind.endswith("npy") or kind.startswith("npy"):
        path = desk.new(".npy")
        turned = values.T if kind.startswith("transposed") else values
        np.save(path, np.array(turned, order="F" if kind.endswith("F") else "C"))
        return oc.open(path).T if kind.startswith("transposed") else oc.open(path)
    if kind == "raw big-endian":
        path = desk.new(".raw")
        big = values.dtype.newbyteorder(">")
        path.write_bytes(b"header!" + values.astype(big).tobytes())
        return oc.open(path, shape=values.shape, dtype=big, offset=7)
    if kind == "zarr-python":
        zarr = pytest.importorskip("zarr")
        path = desk.new()
        array = zarr.create_array(path, shape=(n, m), dtype=values.dtype, chunks=(32, 40))
        array[...] = values
        return oc.open(path)
    if kind == "zarr v2":
        return desk.put(values, zarr_format=2, codecs="zstd")
    if kind == "zstd":
        return desk.put(values, codecs="zstd")
    tile = {"square tiles": (32, 32), "wide tiles": (20, 77)}.get(kind, (16, m))
    return desk.put(values, tile)


each_kind = pytest.mark.parametrize("kind", PLACES)


@each_kind
def test_products_of_any_operands(desk: Desk, kind: str, random: Make) -> None:
    a, b = random((301, 290), "float64", 1), random((290, 310), "float64", 2)
    other = desk.put(b, (40, 25))
    check_product(a, b, desk.afford(place(desk, a, kind) @ other))
    check_product(b.T, a.T, desk.afford(other.T @ place(desk, a.T.copy(), kind)))


@each_kind
def test_complex_products_of_any_operands(desk: Desk, kind: str, random: Make) -> None:
    a, b = random((201, 190), "complex128", 1), random((190, 210), "complex128", 2)
    check_product(a, b, desk.afford(place(desk, a, kind) @ place(desk, b, kind)))


@each_kind
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_products_with_the_adjoint(desk: Desk, kind: str, dtype: str, random: Make) -> None:
    """Half of each is computed, by whatever way; the other half is its mirror image."""
    a = random((190, 301), dtype, 1)
    A = place(desk, a, kind)
    H = oc.conj(A).T if "complex" in dtype else A.T
    for x, adjoint, own in (((A @ H), a.conj().T, a), ((H @ A), a, a.conj().T)):
        found = desk.afford(x)
        check_product(own, adjoint, found)
        if "complex" not in dtype:
            np.testing.assert_array_equal(found, found.T)
    if "complex" in dtype:
        for x, one, other in ((A @ A.T, a, a.T), (oc.conj(A).T @ oc.conj(A), a.conj().T, a.conj())):
            check_product(one, other, desk.afford(x))


def test_half_of_a_gram_matrix_is_computed(desk: Desk, random: Make) -> None:
    """And less is read: the factor's rows serve both halves."""
    with oc.config(memory="64MiB"):
        A = desk.put(random((900, 900), "float64", 1), 60)
        C = desk.put(random((600, 600), "complex128", 1), 50)
    with oc.config(memory="1MiB"):
        for whole, half in ((A @ A, A @ A.T), (C @ C, C @ C.T), (C @ C, C @ oc.conj(C).T)):
            assert oc.plan(half).flops < 0.6 * oc.plan(whole).flops
            assert oc.plan(half).bytes_read < 0.8 * oc.plan(whole).bytes_read


@each_kind
@pytest.mark.parametrize("upper", [False, True])
def test_factors_of_any_operands(
    desk: Desk, kind: str, positive_definite: Make, upper: bool
) -> None:
    """The half that is not read may hold anything."""
    a = positive_definite(211, "complex128")
    given = a.copy()
    if kind != "lazy":
        given[np.tril_indices(211, -1) if upper else np.triu_indices(211, 1)] = np.nan
    x = oc.linalg.cholesky(place(desk, given, kind), upper=upper)
    check_factor(a, desk.afford(x), upper)


@each_kind
def test_solutions_of_any_operands(
    desk: Desk, kind: str, positive_definite: Make, random: Make
) -> None:
    a, b = positive_definite(301, "float64"), random((301, 290), "float64", 1)
    given = a if kind == "lazy" else np.tril(a) + np.triu(np.full_like(a, np.nan), 1)
    x = oc.linalg.solve(place(desk, given, kind), place(desk, b, kind), assume="pos")
    check_solution(a, b, desk.afford(x))


@each_kind
@pytest.mark.parametrize("trans", ["N", "T"])
def test_triangular_solutions_of_any_operands(
    desk: Desk, kind: str, random: Make, trans: str
) -> None:
    a, b = random((301, 301), "float64", 2), random((301, 290), "float64", 1)
    a = np.tril(a) + 30 * np.eye(301)
    given = a if kind == "lazy" else a + np.triu(np.full_like(a, np.nan), 1)
    x = oc.linalg.solve_triangular(
        place(desk, given, kind), place(desk, b, kind), lower=True, trans=trans
    )
    check_solution(a.T if trans == "T" else a, b, desk.afford(x))


@pytest.mark.parametrize("kind", ["memory", "function", "every other row", "backwards", "lazy"])
def test_operands_without_tiles_of_their_own(desk: Desk, kind: str, random: Make) -> None:
    """They are cut into tiles that suit the budget."""
    oc.config(memory="1MiB")
    a, b = random((401, 390), "float64", 1), random((390, 310), "float64", 2)
    check_product(a, b, desk.run(place(desk, a, kind) @ desk.put(b)))


# -- factors -----------------------------------------------------------------------------------


@each_dtype
@pytest.mark.parametrize("kind", ["random", "spectrum", "graded", "shifted", "tiny", "huge"])
@pytest.mark.parametrize("upper", [False, True], ids=["lower", "upper"])
def test_factors(desk: Desk, positive_definite: Make, dtype: str, kind: str, upper: bool) -> None:
    a = positive_definite(SIZE[dtype], dtype, kind)
    check_factor(a, desk.run(oc.linalg.cholesky(desk.put(a), upper=upper)), upper)


@pytest.mark.parametrize("n", [0, 1, 31, 32, 33, 64, 65])
@pytest.mark.parametrize("tile", [32, (32, 200), (24, 40)], ids=str)
def test_factors_of_any_size(desk: Desk, positive_definite: Make, n: int, tile: Any) -> None:
    a = positive_definite(n, "float64")
    A, b = desk.put(a, tile), np.ones((n, 3))
    for upper in (False, True):
        check_factor(a, desk.afford(oc.linalg.cholesky(A, upper=upper)), upper)
    check_solution(a, b, desk.afford(oc.linalg.solve(A, b, assume="pos")))
    x = desk.afford(oc.linalg.solve_triangular(A, b, lower=True))
    check_solution(np.tril(a), b, x)


@pytest.mark.parametrize("tile", [(16, 301), (301, 16), (40, 25), 100], ids=str)
@pytest.mark.parametrize("upper", [False, True], ids=["lower", "upper"])
def test_factors_from_any_tiles(
    desk: Desk, positive_definite: Make, tile: Any, upper: bool
) -> None:
    oc.config(memory="1MiB")
    a = positive_definite(401, "float64")
    check_factor(a, desk.run(oc.linalg.cholesky(desk.put(a, tile), upper=upper)), upper)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "uint64"])
def test_factors_of_integers(desk: Desk, dtype: str) -> None:
    """In double precision."""
    n = 311
    a = np.minimum.outer(np.arange(n) % 100, np.arange(n) % 100) // 20 + 110 * np.eye(n)
    a = a.astype(dtype)
    factor = desk.run(oc.linalg.cholesky(desk.put(a)))
    assert factor.dtype == np.float64
    check_factor(a.astype(np.float64), factor)


def test_factors_of_truth(desk: Desk) -> None:
    assert desk.run(oc.linalg.cholesky(desk.put(np.eye(40, dtype=bool)))).tolist() == (
        np.eye(40).tolist()
    )


def test_the_diagonal_counts_as_real(desk: Desk, positive_definite: Make) -> None:
    """As in LAPACK, the imaginary parts of the diagonal are not looked at."""
    a = positive_definite(100, "complex128")
    given = a + 1j * np.diag(np.arange(100.0))
    check_factor(a, desk.run(oc.linalg.cholesky(desk.put(given))))


# -- solutions ---------------------------------------------------------------------------------


@each_dtype
@pytest.mark.parametrize("kind", ["random", "spectrum", "shifted", "tiny", "huge"])
def test_solutions(
    desk: Desk, positive_definite: Make, random: Make, dtype: str, kind: str
) -> None:
    n = SIZE[dtype]
    a, b = positive_definite(n, dtype, kind), random((n, 7), dtype, 1)
    x = desk.run(oc.linalg.solve(desk.put(a), desk.put(b), assume="pos"))
    assert x.dtype == dtype
    check_solution(a, b, x)


@pytest.mark.parametrize("columns", [None, 0, 1, 2, 31, 32, 33, 310])
@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_any_number_of_right_hand_sides(
    desk: Desk, positive_definite: Make, random: Make, dtype: str, columns: int | None
) -> None:
    n = SIZE[dtype]
    a = positive_definite(n, dtype)
    b = random((n,) if columns is None else (n, columns), dtype, 1)
    A, B = desk.put(a), desk.put(b)
    check_solution(a, b, desk.run(oc.linalg.solve(A, B, assume="positive definite")))
    for trans, op in ((0, np.asarray), (1, np.transpose), (2, lambda t: t.conj().T)):
        x = desk.run(oc.linalg.solve_triangular(A, B, trans=trans))
        check_solution(op(np.triu(a)), b, x)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("float32", "float64"),
        ("float64", "float32"),
        ("float32", "int16"),
        ("int32", "float32"),
        ("float32", "complex64"),
        ("complex64", "float64"),
        ("complex128", "int8"),
        ("uint8", "uint8"),
    ],
)
def test_systems_of_mixed_types(desk: Desk, random: Make, left: str, right: str) -> None:
    n = 261
    a = (np.ones((n, n)) + 100 * np.eye(n)).astype(left)
    b = random((n, 9), right, 1)
    b = b % 100 if b.dtype.kind in "iu" else b
    like = [x if np.dtype(x).kind in "fc" else "float64" for x in (left, right)]
    for x in (
        oc.linalg.solve(desk.put(a), desk.put(b), assume="pos"),
        oc.linalg.solve_triangular(desk.put(a), desk.put(b), lower=True),
    ):
        found = desk.run(x)
        assert found.dtype == np.result_type(*like)
        full = "triangular" not in repr(x)
        check_solution(a if full else np.tril(a), b, found)


@each_dtype
@pytest.mark.parametrize("lower", [False, True], ids=["upper", "lower"])
@pytest.mark.parametrize("trans", [0, "T", 2])
@pytest.mark.parametrize("unit_diagonal", [False, True], ids=["", "unit"])
def test_triangular_solutions(
    desk: Desk, random: Make, dtype: str, lower: bool, trans: int | str, unit_diagonal: bool
) -> None:
    """The other half is not read, nor is a diagonal of ones."""
    n = SIZE[dtype]
    t, b = random((n, n), dtype, 1) / 10, random((n, 6), dtype, 2)
    t = (np.tril(t) if lower else np.triu(t)).astype(dtype)
    np.fill_diagonal(t, 1 if unit_diagonal else 1 + np.arange(n) % 5)
    given = t.copy()
    given[np.triu_indices(n, 1) if lower else np.tril_indices(n, -1)] = np.nan
    if unit_diagonal:
        np.fill_diagonal(given, [0, np.nan, np.inf][:: 1 if lower else -1])
    x = oc.linalg.solve_triangular(
        desk.put(given, (32, 27)),
        desk.put(b),
        lower=lower,
        trans=trans,
        unit_diagonal=unit_diagonal,
    )
    op = {0: t, "N": t, 1: t.T, "T": t.T}.get(trans, t.conj().T)
    check_solution(op, b, desk.run(x))


@pytest.mark.parametrize(("number", "letter"), [(0, "N"), (1, "T"), (2, "C")])
def test_names_of_what_is_done_to_a_triangle(
    desk: Desk, random: Make, number: int, letter: str
) -> None:
    T, B = desk.put(random((70, 70), "complex128") + 9 * np.eye(70)), random((70, 3), "float64")
    found = [desk.run(oc.linalg.solve_triangular(T, B, trans=t)) for t in (number, letter)]
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("scale", [1e-150, 1e150])
@pytest.mark.parametrize("trans", [0, 1])
def test_triangular_solutions_of_any_scale(
    desk: Desk, random: Make, scale: float, trans: int
) -> None:
    n = 301
    t = np.triu(random((n, n), "float64", 1) + 30 * np.eye(n)) * scale
    b = random((n, 40), "float64", 2)
    x = desk.run(oc.linalg.solve_triangular(desk.put(t), desk.put(b), trans=trans))
    check_solution(t.T if trans else t, b, x)


# -- results -----------------------------------------------------------------------------------

TARGETS: dict[str, dict[str, Any]] = {
    "square": {"tile": 32},
    "wide": {"tile": (20, 77)},
    "coarse": {"tile": (100, 90)},
    "npy C": {"suffix": ".npy"},
    "npy F": {"suffix": ".npy", "order": "F"},
    "raw": {"suffix": ".raw"},
    "zstd": {"codecs": "zstd"},
    "zarr v2": {"codecs": "zstd", "zarr_format": 2},
}


@pytest.mark.parametrize("target", TARGETS)
def test_any_target(desk: Desk, positive_definite: Make, random: Make, target: str) -> None:
    """The tiles of the operands need not be those of the result."""
    oc.config(memory="1MiB")
    options = TARGETS[target]
    a, b = positive_definite(401, "float64"), random((401, 390), "float64", 1)
    A, B = desk.put(a), desk.put(b, (50, 26))
    check_product(a, b, desk.run(A @ B, **options))
    check_factor(a, desk.run(oc.linalg.cholesky(A), **options))
    check_factor(a, desk.run(oc.linalg.cholesky(A, upper=True), **options), upper=True)
    check_solution(a, b, desk.run(oc.linalg.solve(A, B, assume="pos"), **options))
    x = desk.run(oc.linalg.solve_triangular(A, B, lower=True, trans="T"), **options)
    check_solution(np.tril(a).T, b, x)


def test_results_in_memory(desk: Desk, positive_definite: Make, random: Make) -> None:
    oc.config(memory="2MiB")
    a, b = positive_definite(401, "float64"), random((401, 7), "float64", 1)
    A, B = desk.put(a), desk.put(b)
    for x, check in (
        (A @ B, lambda found: check_product(a, b, found)),
        (oc.linalg.cholesky(A), lambda found: check_factor(a, found)),
        (oc.linalg.solve(A, B, assume="pos"), lambda found: check_solution(a, b, found)),
        (
            oc.linalg.solve_triangular(A, B, lower=True),
            lambda found: check_solution(np.tril(a), b, found),
        ),
    ):
        found = x.compute()
        run = oc.last_run()
        assert run is not None
        assert run.peak_bytes <= oc.config().memory
        assert found.flags.owndata or found.flags.writeable
        check(found)
        del found
        check(np.asarray(x))


def test_views_of_what_is_not_computed(desk: Desk, random: Make) -> None:
    """Any part of a lazy array, in any way of reading."""
    oc.config(memory="1MiB")
    a, b = random((401, 390), "float64", 1), random((390, 310), "float64", 2)
    # As in memory, where nothing is rounded.
    a, b = np.rint(8 * a), np.rint(8 * b)
    c = a @ b
    x = desk.put(a) @ desk.put(b)
    assert (x.shape, x.dtype, x.nbytes) == (c.shape, c.dtype, c.nbytes)
    assert "not computed yet" in repr(x)
    for key in (np.s_[3], np.s_[10:20, ::-7], np.s_[..., None, 5], np.s_[2, 3], np.s_[5:5]):
        np.testing.assert_array_equal(x[key].compute(), c[key])
    np.testing.assert_array_equal(x.T[5:7].compute(), c.T[5:7])
    np.testing.assert_array_equal(desk.read(x), c)
    assert x[7, 8].item() == c[7, 8]
    part = x[5:50, ::3].save(desk.new())
    np.testing.assert_array_equal(desk.read(part), c[5:50, ::3])
    whole = x.T.save(desk.new(".npy"))
    np.testing.assert_array_equal(desk.read(whole), c.T)


def test_chains(desk: Desk, positive_definite: Make, random: Make) -> None:
    """What is computed first goes to the scratch directory, where memory does not hold it."""
    oc.config(memory="1MiB")
    n = 401
    a = positive_definite(n, "float64")
    m = np.rint(4 * random((n, n), "float64", 1))
    A, M = desk.put(a), desk.put(m, 40)
    np.testing.assert_array_equal(desk.run(M @ M.T @ M), m @ m.T @ m)
    np.testing.assert_array_equal(desk.run(M.T @ (M @ M.T)), m.T @ (m @ m.T))
    gram = m @ m.T + 0.0
    check_factor(a, desk.run(oc.linalg.cholesky(oc.linalg.cholesky(A) @ oc.linalg.cholesky(A).T)))
    x = oc.linalg.solve(A, M @ M.T, assume="pos")
    check_solution(a, gram, desk.run(x))
    L = oc.linalg.cholesky(A)
    y = oc.linalg.solve_triangular(L, M, lower=True)
    z = desk.run(oc.linalg.solve_triangular(L, y, lower=True, trans="C"))
    check_solution(a, m, z)


# -- properties --------------------------------------------------------------------------------

extents = st.one_of(st.integers(0, 70), st.integers(150, 330))
edges = st.integers(8, 50)
budgets = st.sampled_from([256, 300, 400, 512, 1024])


@given(data=st.data())
@several
def test_any_product(desk: Desk, random: Make, data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(DTYPES), label="dtype")
    m, k, n = (data.draw(extents, label=name) for name in "mkn")
    tiles = [data.draw(st.tuples(edges, edges), label="tile") for _ in range(2)]
    turned = data.draw(st.tuples(st.booleans(), st.booleans()), label="transposed")
    threads = data.draw(st.sampled_from([1, 2, 4]), label="threads")
    kibibytes = data.draw(budgets, label="KiB")
    seed = data.draw(st.integers(0, 99), label="seed")
    a, b = random((m, k), dtype, seed), random((k, n), dtype, seed + 1)
    with oc.config(memory=f"{kibibytes}KiB", threads=threads):
        operands = [
            desk.put(x.T, tile).T if turn else desk.put(x, tile)
            for x, tile, turn in zip((a, b), tiles, turned, strict=True)
        ]
        check_product(a, b, desk.afford(operands[0] @ operands[1]))


@given(data=st.data())
@several
def test_any_system(desk: Desk, positive_definite: Make, random: Make, data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(DTYPES), label="dtype")
    n, columns = data.draw(extents, label="n"), data.draw(st.integers(0, 60), label="columns")
    tiles = [data.draw(st.tuples(edges, edges), label="tile") for _ in range(2)]
    upper = data.draw(st.booleans(), label="upper")
    turned = data.draw(st.booleans(), label="transposed")
    threads = data.draw(st.sampled_from([1, 2, 4]), label="threads")
    kibibytes = data.draw(budgets, label="KiB")
    seed = data.draw(st.integers(0, 99), label="seed")
    a, b = positive_definite(n, dtype, seed=seed), random((n, columns), dtype, seed)
    with oc.config(memory=f"{kibibytes}KiB", threads=threads):
        A = desk.put(a.T, tiles[0]).T if turned else desk.put(a, tiles[0])
        B = desk.put(b, tiles[1])
        L = oc.linalg.cholesky(A, upper=upper)
        check_factor(a, desk.afford(L), upper)
        x = oc.linalg.solve(A, B, assume="pos")
        check_solution(a, b, desk.afford(x))
        t = oc.linalg.solve_triangular(A, B, lower=upper, trans="C")
        triangle = np.tril(a) if upper else np.triu(a)
        check_solution(triangle.conj().T, b, desk.afford(t))
