"""LU factorizations, and what is solved with them: LAPACK's pivots, SciPy's answers, its ratios.

Ratios are those of LAPACK's test programs (xGET01, xGET02, xGET03), where below 30 passes.
"""

import itertools
import os
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import outcrop as oc

scipy_linalg = pytest.importorskip("scipy.linalg")

Values: TypeAlias = NDArray[Any]
Desk: TypeAlias = Any  # that of conftest.py
Make: TypeAlias = Callable[..., Values]

pytestmark = pytest.mark.filterwarnings("ignore::outcrop.errors.OutcropWarning")

DTYPES = ("float32", "float64", "complex64", "complex128")
SIZE = {"float32": 383, "float64": 271, "complex64": 271, "complex128": 191}
"""Orders of matrices of some 570 KiB, which half a mebibyte does not hold."""

THRESHOLD = 30

each_dtype = pytest.mark.parametrize("dtype", DTYPES)


# -- ratios ----------------------------------------------------------------------------------------


def wide(x: Values) -> Values:
    return x.astype(np.clongdouble if x.dtype.kind == "c" else np.longdouble)


def norm(x: Values) -> float:
    """The 1-norm."""
    x = x if x.ndim == 2 else x.reshape(x.size, 1)
    return float(np.abs(wide(x)).sum(axis=0).max(initial=0))


def unit(dtype: Any) -> float:
    return float(np.finfo(dtype).eps) / 2


def ratio(error: float, *scales: float) -> float:
    scale = float(np.prod(np.array(scales, np.longdouble)))
    return error / scale if scale else (0.0 if error == 0 else np.inf)


def permuted(a: Values, pivots: Values) -> Values:
    a = a.copy()
    for i, k in enumerate(pivots):
        a[[i, k]] = a[[k, i]]
    return a


def halves(lu: Values) -> tuple[Values, Values]:
    m, n = lu.shape
    k = min(m, n)
    return np.tril(lu[:, :k], -1) + np.eye(m, k, dtype=lu.dtype), np.triu(lu[:k])


def check_factors(a: Values, lu: Values, pivots: Values) -> None:
    m, n = a.shape
    assert lu.shape == (m, n)
    assert pivots.shape == (min(m, n),)
    assert pivots.dtype == np.int32
    double = np.result_type(a, np.float64)
    lower, upper = (x.astype(double) for x in halves(lu))
    # With pivoting, no element of L is beyond 1, or of complex ones, beyond the root of 2.
    assert np.abs(lower).max(initial=0) <= (2 if a.dtype.kind == "c" else 1) ** 0.5 * (1 + 1e-5)
    error = norm(lower @ upper - permuted(a, pivots).astype(double))
    assert ratio(error, n, norm(a), unit(a.dtype)) < THRESHOLD


def check_solution(a: Values, b: Values, x: Values) -> None:
    assert x.shape == b.shape
    double = np.result_type(a, b, np.float64)
    a, b, y = (v.astype(double) for v in (a, b, x))
    b, y = (v if v.ndim == 2 else v[:, None] for v in (b, y))
    for j in range(b.shape[1]):
        error = norm(b[:, j] - a @ y[:, j])
        assert ratio(error, norm(a), norm(y[:, j]), unit(x.dtype)) < THRESHOLD + len(a) / 8


def factored(desk: Desk, a: oc.Array, **save: Any) -> tuple[Values, Values]:
    """Both results of one run, whose bytes are those of its plan."""
    factors = oc.linalg.lu_factor(a)
    paths = desk.new(), desk.new()
    results = dict(zip(paths, factors, strict=True))
    try:
        plan = oc.plan(results)
    except oc.BudgetError as error:
        assert error.needed is not None
        with oc.config(memory=error.needed):
            return factored(desk, a, **save)
    oc.save(results)
    run = oc.last_run()
    assert run is not None
    assert plan.is_exact
    assert (run.bytes_read, run.bytes_written) == (plan.bytes_read, plan.bytes_written)
    assert run.peak_bytes <= oc.config().memory
    lu, pivots = (desk.read(oc.open(path)) for path in paths)
    return lu, pivots


# -- factors ---------------------------------------------------------------------------------------


def graded(n: int) -> Values:
    return np.diag(np.logspace(0, -12, n))


def growth(n: int) -> Values:
    """Wilkinson's, of which the last column grows as 2^n: only as far as sums of it are exact."""
    n = min(n, 50)
    a = np.eye(n) - np.tril(np.ones((n, n)), -1)
    a[:, -1] = 1
    return a


def across(n: int) -> Values:
    """Every pivot is in the other half of the rows."""
    k = n // 2
    a = np.zeros((2 * k, 2 * k))
    a[:k, k:] = np.eye(k)
    a[k:, :k] = np.eye(k)
    return a


MATRICES: dict[str, Callable[[int, Values], Values]] = {
    "random": lambda n, r: r,
    "integers, with ties": lambda n, r: np.round(r.real * 2),
    "graded": lambda n, r: graded(n) @ r @ graded(n)[::-1, ::-1],
    "growth": lambda n, r: growth(n),
    "pivots across": lambda n, r: across(n),
    "reversed rows": lambda n, r: np.eye(n)[::-1],
    "definite": lambda n, r: r @ r.conj().T + n * np.eye(n),
    "triangular": lambda n, r: np.triu(r),
}


@each_dtype
@pytest.mark.parametrize("kind", MATRICES)
def test_factors_are_lapacks(desk: Desk, random: Make, dtype: str, kind: str) -> None:
    n = SIZE[dtype]
    a = MATRICES[kind](n, random((n, n), dtype, 1)).astype(dtype)
    lu, pivots = factored(desk, desk.put(a, 32))
    check_factors(a, lu, pivots)
    expected, expected_pivots = scipy_linalg.lu_factor(a)
    np.testing.assert_array_equal(pivots, expected_pivots)
    if kind in ("pivots across", "reversed rows", "triangular"):
        np.testing.assert_array_equal(lu, expected)


@pytest.mark.parametrize(
    "shape",
    [
        *((0, 0), (1, 1), (0, 5), (5, 0), (1, 400), (400, 1), (32, 32), (33, 32), (32, 33)),
        *((400, 90), (90, 400), (65, 300), (301, 64), (700, 20), (20, 700), (256, 256)),
    ],
    ids=str,
)
@pytest.mark.parametrize("tile", [32, (20, 50), None], ids=str)
@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_factors_of_any_shape(
    desk: Desk, random: Make, shape: tuple[int, int], tile: Any, dtype: str
) -> None:
    a = random(shape, dtype, 3)
    A = oc.asarray(a).save(desk.new(".npy")) if tile is None else desk.put(a, tile)
    with oc.config(memory="512KiB"):
        lu, pivots = factored(desk, A)
    check_factors(a, lu, pivots)
    if 0 not in shape:
        np.testing.assert_array_equal(pivots, scipy_linalg.lu_factor(a)[1])


@settings(
    max_examples=40,
    deadline=None,
    database=None,
    print_blob=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def test_factors_for_any_cut(desk: Desk, random: Make, data: st.DataObject) -> None:
    """Whatever tiles, budget and threads, with pivots that are LAPACK's."""
    shape = data.draw(st.tuples(st.integers(1, 260), st.integers(1, 260)), label="shape")
    dtype = data.draw(st.sampled_from(DTYPES), label="dtype")
    tile = data.draw(st.tuples(st.integers(8, 90), st.integers(8, 90)), label="tile")
    memory = data.draw(st.sampled_from(["300KiB", "400KiB", "600KiB", "1MiB"]), label="memory")
    threads = data.draw(st.integers(1, 3), label="threads")
    turned = data.draw(st.booleans(), label="turned")
    a = random(shape, dtype, data.draw(st.integers(0, 9), label="seed"))
    A = desk.put(a.T.copy(), tile).T if turned else desk.put(a, tile)
    with oc.config(memory=memory, threads=threads):
        lu, pivots = factored(desk, A)
    check_factors(a, lu, pivots)
    np.testing.assert_array_equal(pivots, scipy_linalg.lu_factor(a)[1])


@pytest.mark.parametrize(
    ("layout", "dtype"),
    [*itertools.product(["tiles"], DTYPES), ("turned", "complex64"), ("flat", "float64")],
)
@pytest.mark.parametrize("shape", [(1300, 1300), (1500, 900), (900, 1300)], ids=str)
def test_tiles_of_several_squares(
    desk: Desk, random: Make, dtype: str, shape: tuple[int, int], layout: str
) -> None:
    """Where memory holds a narrow column only, tiles are higher than wide."""
    a = random(shape, dtype, 1)
    with oc.config(memory="64MiB"):
        if layout == "flat":
            A = oc.asarray(a).save(desk.new(".npy"))
        elif layout == "turned":
            A = desk.put(a.T.copy(), 300).T
        else:
            A = desk.put(a, 300)
    with oc.config(memory=300 * shape[0] * a.itemsize):
        factors = oc.linalg.lu_factor(A)
        paths = desk.new(), desk.new()
        plan = oc.plan(dict(zip(paths, factors, strict=True)))
        assert plan.is_exact
        lu, pivots = oc.save(dict(zip(paths, factors, strict=True))).values()
        run = oc.last_run()
        assert run is not None
        assert (run.bytes_read, run.bytes_written) == (plan.bytes_read, plan.bytes_written)
        assert run.peak_bytes <= oc.config().memory < lu.nbytes
        high, wide = lu.tile
        assert high % wide == 0
        # A low matrix is rather moved to small squares first.
        assert high > wide or shape[0] < shape[1]
        if shape[0] == shape[1]:
            b = random((shape[0], 3), dtype, 2)
            B = desk.put(b, 50)
            check_solution(a, b, desk.afford(oc.linalg.solve(A, B)))
            check_solution(a, b, desk.afford(oc.linalg.lu_solve((lu, pivots), B)))
            check_solution(a.T, b, desk.afford(oc.linalg.lu_solve((lu, pivots), B, trans="T")))
            sign, log = oc.linalg.slogdet(A)
            expected = np.linalg.slogdet(a)
            np.testing.assert_allclose(sign.compute(), expected[0], rtol=1e-3)
            np.testing.assert_allclose(log.compute(), expected[1], rtol=1e-4)
        found = desk.read(lu), desk.read(pivots)
        if layout == "tiles":
            some = oc.save({desk.new(): factors.lu, desk.new(): factors.piv}, resume=True)
            for array, expected in zip(some.values(), found, strict=True):
                np.testing.assert_array_equal(desk.read(array), expected)
    check_factors(a, *found)
    np.testing.assert_array_equal(found[1], scipy_linalg.lu_factor(a)[1])


def test_both_orders_are_taken(desk: Desk, random: Make) -> None:
    """Left-looking where memory holds many columns, by halves where it holds few."""
    a = random((600, 600), "float64", 1)
    A = desk.put(a, 40)
    remarks = set()
    for memory in ("650KiB", "700KiB", "750KiB", "800KiB", "16MiB"):
        with oc.config(memory=memory):
            remarks.add(oc.plan(oc.linalg.lu_factor(A).lu)._facts["remark"].split(",")[0])
            check_factors(a, *factored(desk, A))
    assert remarks == {"left-looking", "recursive"}


@pytest.mark.parametrize("memory", ["400KiB", "1MiB"])
def test_threads_do_not_change_a_bit(desk: Desk, random: Make, memory: str) -> None:
    a = random((301, 301), "float64", 1)
    A = desk.put(a, 32)
    found = []
    for threads in (1, 2, 4):
        with oc.config(memory=memory, threads=threads):
            found.append(factored(desk, A))
    for lu, pivots in found[1:]:
        np.testing.assert_array_equal(lu, found[0][0])
        np.testing.assert_array_equal(pivots, found[0][1])


# -- SciPy's functions -----------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(90, 90), (130, 70), (70, 130)], ids=str)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_lu_is_scipys(desk: Desk, random: Make, shape: tuple[int, int], dtype: str) -> None:
    a = random(shape, dtype, 1)
    A = desk.put(a, 32)
    with oc.config(memory="8MiB"):
        for found, expected in zip(oc.linalg.lu(A), scipy_linalg.lu(a), strict=True):
            np.testing.assert_allclose(found.compute(), expected, atol=1e-12)
        p, lower, upper = (x.compute() for x in oc.linalg.lu(A, p_indices=True))
        np.testing.assert_array_equal(p, scipy_linalg.lu(a, p_indices=True)[0])
        np.testing.assert_allclose((lower @ upper)[p], a, atol=1e-12)
        both = oc.linalg.lu(A, permute_l=True)
        for found, expected in zip(both, scipy_linalg.lu(a, permute_l=True), strict=True):
            np.testing.assert_allclose(found.compute(), expected, atol=1e-12)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0)], ids=str)
def test_lu_of_nothing(shape: tuple[int, int]) -> None:
    p, lower, upper = (x.compute() for x in oc.linalg.lu(np.zeros(shape)))
    m, n = shape
    np.testing.assert_array_equal(p, np.eye(m))
    assert (lower.shape, upper.shape) == ((m, 0), (0, n))


@each_dtype
@pytest.mark.parametrize("columns", [None, 1, 40])
@pytest.mark.parametrize("memory", ["600KiB", "2MiB"])
def test_solutions(desk: Desk, random: Make, dtype: str, columns: int | None, memory: str) -> None:
    n = SIZE[dtype]
    a, b = random((n, n), dtype, 1), random((n, columns) if columns else (n,), dtype, 2)
    with oc.config(memory=memory):
        x = desk.afford(oc.linalg.solve(desk.put(a, 32), desk.put(b, 40)))
    assert x.dtype == dtype
    check_solution(a, b, x)


@each_dtype
@pytest.mark.parametrize("trans", [0, 1, 2, "N", "T", "C"])
def test_solutions_with_factors(desk: Desk, random: Make, dtype: str, trans: Any) -> None:
    n = SIZE[dtype]
    a, b = random((n, n), dtype, 1), random((n, 40), dtype, 2)
    paths = [desk.new(), desk.new()]
    factors = oc.save(dict(zip(paths, oc.linalg.lu_factor(desk.put(a, 32)), strict=True)))
    x = desk.afford(oc.linalg.lu_solve(tuple(factors.values()), desk.put(b, 40), trans=trans))
    meant = {0: a, 1: a.T, 2: a.conj().T}
    check_solution(meant["NTC".index(trans) if isinstance(trans, str) else trans], b, x)


def test_factors_of_others(desk: Desk, random: Make) -> None:
    """What SciPy has factored."""
    a, b = random((200, 200), "float64", 1), random((200,), "float64", 2)
    x = oc.linalg.lu_solve(scipy_linalg.lu_factor(a), b).compute()
    check_solution(a, b, x)


def test_one_plan(desk: Desk, random: Make) -> None:
    """A chain is one program, whose bytes are known, and a factor that two need is there once."""
    x = random((400, 120), "float64", 1)
    X, y = desk.put(x, 40), desk.put(x[:, 0] + 1, 40)
    with oc.config(memory="1MiB"):
        found = desk.run(oc.linalg.solve(X.T @ X + 0.5 * np.eye(120), X.T @ y))
        expected = np.linalg.solve(x.T @ x + 0.5 * np.eye(120), x.T @ (x[:, 0] + 1))
        np.testing.assert_allclose(found, expected, rtol=1e-9)
        factors = oc.linalg.lu_factor(X.T @ X)
        results = {
            desk.new(): oc.linalg.lu_solve(factors, y[:120]),
            desk.new(): factors.piv,
            desk.new(): 2 * factors.lu,
        }
        plan = oc.plan(results)
        oc.save(results)
        run = oc.last_run()
        assert run is not None
        assert (run.bytes_read, run.bytes_written) == (plan.bytes_read, plan.bytes_written)
        assert run.flops == pytest.approx(plan.flops)
        once = 2 * 120 * 120 * 400 + 2 / 3 * 120**3 + 2 * 120 * 120
        assert plan.flops < 1.3 * once


@each_dtype
def test_inverses(desk: Desk, random: Make, dtype: str) -> None:
    n = SIZE[dtype] // 2
    a = random((n, n), dtype, 1)
    with oc.config(memory="400KiB"):
        found = desk.afford(oc.linalg.inv(desk.put(a, 32)))
    assert found.dtype == dtype
    double = np.result_type(a, np.float64)
    error = norm(np.eye(n) - found.astype(double) @ a.astype(double))
    assert ratio(error, n, norm(a), norm(found), unit(dtype)) < THRESHOLD


@each_dtype
def test_determinants(desk: Desk, random: Make, dtype: str) -> None:
    a = random((120, 120), dtype, 1)
    A = desk.put(a, 32)
    with oc.config(memory="400KiB"):
        tolerance = 1e-3 if unit(dtype) > 1e-10 else 1e-10
        sign, logarithm = oc.linalg.slogdet(A)
        expected = np.linalg.slogdet(a)
        assert (sign.dtype, logarithm.dtype) == (expected[0].dtype, expected[1].dtype)
        np.testing.assert_allclose(desk.run(sign), expected[0], rtol=tolerance)
        np.testing.assert_allclose(desk.run(logarithm), expected[1], rtol=tolerance)
        small = a[:30, :30]
        np.testing.assert_allclose(
            desk.run(oc.linalg.det(A[:30, :30])), np.linalg.det(small), rtol=tolerance
        )
    singular = np.zeros((40, 40), dtype)
    assert oc.linalg.det(singular).compute() == 0
    sign, logarithm = oc.linalg.slogdet(singular)
    assert (sign.compute(), logarithm.compute()) == (0, -np.inf)
    assert float(oc.linalg.det(np.zeros((0, 0)))) == 1


def test_numpys_names(desk: Desk, random: Make) -> None:
    a, b = random((80, 80), "float64", 1), random((80, 3), "float64", 2)
    A, B = desk.put(a, 32), desk.put(b, 32)
    for found, expected in (
        (np.linalg.solve(A, B), np.linalg.solve(a, b)),
        (np.linalg.solve(A, B[:, 0]), np.linalg.solve(a, b[:, 0])),
        (np.linalg.inv(A), np.linalg.inv(a)),
        (np.linalg.det(A), np.linalg.det(a)),
        (np.linalg.slogdet(A).sign, np.linalg.slogdet(a).sign),
        (np.linalg.slogdet(A).logabsdet, np.linalg.slogdet(a).logabsdet),
    ):
        assert isinstance(found, oc.Array)
        np.testing.assert_allclose(found.compute(), expected, rtol=1e-9)


# -- what is wrong ---------------------------------------------------------------------------------


@each_dtype
@pytest.mark.parametrize("place", [0, 31, 32, 100, 210])
def test_the_pivot_that_is_zero(desk: Desk, random: Make, dtype: str, place: int) -> None:
    """Counted as LAPACK does; of the matrix itself, there are factors."""
    n = 211
    a = np.triu(random((n, n), dtype, 1))
    np.fill_diagonal(a, 1)
    a[place, place] = 0
    a[150, 150] = 0
    A = desk.put(a, 32)
    first = min(place, 150) + 1
    with pytest.raises(oc.SingularMatrixError, match=f"pivot {first}, .* {dtype}") as caught:
        desk.afford(oc.linalg.solve(A, np.ones(n, dtype)))
    assert caught.value.index == first
    assert desk.afford(oc.linalg.det(A)) == 0
    check_factors(a, *factored(desk, A))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [(0, 0), (200, 3), (3, 200), (70, 70), (0, 210)])
@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_what_is_not_finite(
    desk: Desk, random: Make, value: float, place: tuple[int, int], dtype: str
) -> None:
    a = random((211, 211), dtype, 1)
    a[place] = value
    with pytest.raises(oc.NotFiniteError) as caught:
        desk.afford(oc.linalg.solve(desk.put(a, 32), np.ones(211, dtype)))
    assert isinstance(caught.value, ValueError)
    assert caught.value.index is not None
    assert place[1] + 1 <= caught.value.index <= 211


def test_pivots_that_are_none(desk: Desk) -> None:
    for pivots in ([3, 1, 2], [-1, 1, 2], [0, 0, 2], [2**31 - 1, 1, 2]):
        with pytest.raises(oc.InvalidArgumentError, match="no pivots"):
            oc.linalg.lu_solve((np.eye(3), np.array(pivots)), np.ones(3)).compute()
    with pytest.raises(oc.InvalidArgumentError, match="whole numbers"):
        oc.linalg.lu_solve((np.eye(3), np.ones(3)), np.ones(3))
    with pytest.raises(oc.InvalidArgumentError, match="do not fit"):
        oc.linalg.lu_solve((np.eye(3), np.arange(3)), np.ones(4))
    with pytest.raises(oc.InvalidTypeError):
        oc.linalg.lu_solve(np.eye(3), np.ones(3))  # type: ignore[arg-type]
    with pytest.raises(oc.InvalidArgumentError, match="trans"):
        oc.linalg.lu_solve((np.eye(3), np.arange(3)), np.ones(3), trans="X")


@pytest.mark.parametrize("function", ["solve", "inv", "det", "slogdet"])
def test_matrices_that_are_not_square(function: str) -> None:
    arguments = (np.ones((3, 4)), np.ones(3))[: 2 if function == "solve" else 1]
    with pytest.raises(oc.InvalidArgumentError, match="not square"):
        getattr(oc.linalg, function)(*arguments)
    with pytest.raises(oc.InvalidArgumentError, match="two axes"):
        getattr(oc.linalg, function)(np.ones(3), *arguments[1:])
    for other in (oc.linalg.lu, oc.linalg.lu_factor):
        with pytest.raises(oc.InvalidArgumentError, match="two axes"):
            other(np.ones((2, 3, 3)))


def test_the_least_budget_works(desk: Desk, random: Make) -> None:
    """A column of tiles has to be there; less is refused, with what would do."""
    a = random((700, 700), "float64", 1)
    A = desk.put(a, 64)
    with oc.config(memory="300KiB"):
        with pytest.raises(oc.BudgetError) as caught:
            oc.plan(oc.linalg.lu_factor(A).lu)
        least = caught.value.needed
        assert least is not None
    with oc.config(memory=least):
        check_factors(a, *factored(desk, A))


def test_nothing_is_left_of_what_failed(desk: Desk, random: Make) -> None:
    a = random((211, 211), "float64", 1)
    a[:, 100] = 0
    path = desk.new()
    with pytest.raises(oc.SingularMatrixError):
        oc.linalg.solve(desk.put(a, 32), np.ones(211)).save(path)
    assert not os.path.exists(path)
