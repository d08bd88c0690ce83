"""Factors in single precision are refined to double precision, or left where they are of no use."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

import outcrop as oc

Values: TypeAlias = NDArray[Any]
Desk: TypeAlias = Any  # that of conftest.py

pytestmark = pytest.mark.filterwarnings("ignore::outcrop.errors.OutcropWarning")

DTYPES = ("float64", "complex128")
THRESHOLD = 30

each_dtype = pytest.mark.parametrize("dtype", DTYPES)
each_kind = pytest.mark.parametrize("assume", ["gen", "pos"])


def normal(shape: Any, dtype: str, seed: int = 0) -> Values:
    chance = np.random.default_rng(seed)
    real = chance.standard_normal(shape)
    return real + 1j * chance.standard_normal(shape) if dtype == "complex128" else real


def matrix(n: int, dtype: str, power: float, assume: str, *, small: int | None = None) -> Values:
    """A matrix with singular values down to 10^-power: all spread evenly, or so many that small."""
    left = np.linalg.qr(normal((n, n), dtype, 1))[0]
    right = left.conj().T if assume == "pos" else np.linalg.qr(normal((n, n), dtype, 2))[0]
    values = np.logspace(0, -power, n)
    if small is not None:
        values = np.r_[np.ones(n - small), np.full(small, 10.0**-power)]
    a = (left * values) @ right
    return (a + a.conj().T) / 2 if assume == "pos" else a


def ratio(a: Values, b: Values, x: Values) -> float:
    """LAPACK's, of the worst column."""
    wide = np.clongdouble if np.iscomplexobj(a) else np.longdouble
    a = a.astype(wide)
    b, x = (y.reshape(len(a), -1).astype(wide) for y in (b, x))
    residual, size = np.abs(b - a @ x).sum(axis=0), np.abs(a).sum(axis=0).max()
    eps = np.finfo(np.float64).eps / 2
    return float((residual / (size * np.abs(x).sum(axis=0) * eps)).max())


def is_accepted(a: Values, b: Values, x: Values) -> bool:
    """By the rule of LAPACK's dsgesv, with a little slack for another order of sums."""
    b, x = b.reshape(len(a), -1), x.reshape(len(a), -1)
    size = np.abs(a).sum(axis=1).max() * np.sqrt(len(a)) * np.finfo(np.float64).eps / 2
    return bool((np.abs(b - a @ x).max(axis=0) <= 1.5 * size * np.abs(x).max(axis=0)).all())


@each_dtype
@each_kind
@pytest.mark.parametrize("n", [1, 5, 70])
@pytest.mark.parametrize("shape", [(), (4,)])
@pytest.mark.parametrize("power", [0.5, 3, 6])
def test_well_conditioned(
    desk: Desk, dtype: str, assume: str, n: int, shape: tuple[int, ...], power: float
) -> None:
    a, b = matrix(n, dtype, power, assume), normal((n, *shape), dtype, 5)
    x, iterations = oc.linalg.solve_mixed(a, b, assume=assume)
    assert 0 <= iterations <= 8
    assert (x.shape, x.dtype) == (b.shape, np.dtype(dtype))
    assert is_accepted(a, b, x.compute())
    assert ratio(a, b, x.compute()) < THRESHOLD
    lower = "float32" if dtype == "float64" else "complex64"
    again = oc.linalg.solve(a, b, assume=assume, refine=lower)
    np.testing.assert_array_equal(again.compute(), x.compute())


@each_dtype
@each_kind
def test_out_of_core(desk: Desk, dtype: str, assume: str) -> None:
    n = 300 if dtype == "float64" else 240
    a, b = matrix(n, dtype, 4, assume), normal((n, 5), dtype, 5)
    half = a.copy()
    if assume == "pos":
        half[np.triu_indices(n, 1)] = 1e6
    stored, given = desk.put(half, 60), desk.put(b, 60)
    with oc.config(memory="1MiB"):
        x, iterations = oc.linalg.solve_mixed(stored, given, assume=assume)
        assert 0 <= iterations <= 4
        assert ratio(a, b, desk.read(x)) < THRESHOLD
    del stored, given, x


@each_dtype
@each_kind
def test_gmres_goes_beyond_single_precision(desk: Desk, dtype: str, assume: str) -> None:
    """With a few small singular values, a few vectors of a Krylov space are enough, though plain
    steps do not converge."""
    n, power = 80, 10 if assume == "gen" else 6.5
    a, b = matrix(n, dtype, power, assume, small=2), normal((n, 3), dtype, 5)
    # One column is solved without the small ones.
    b[:, 1] = a @ np.ones(n)
    x, iterations = oc.linalg.solve_mixed(a, b, assume=assume)
    assert 0 < iterations <= 30
    assert is_accepted(a, b, x.compute())


@each_kind
def test_too_large_for_single_precision(desk: Desk, assume: str) -> None:
    a, b = matrix(40, "float64", 1, assume), normal(40, "float64", 5)
    for scale in (1e41, 1e200):
        x, iterations = oc.linalg.solve_mixed(scale * a, b, assume=assume)
        assert iterations == -2
        assert ratio(scale * a, b, x.compute()) < THRESHOLD


@each_kind
def test_singular_in_single_precision_alone(desk: Desk, assume: str) -> None:
    a = np.array([[1.0, 1.0], [1.0, 1.0 + 1e-10]])
    x, iterations = oc.linalg.solve_mixed(a, [1.0, 2.0], assume=assume)
    assert iterations == -3
    np.testing.assert_allclose(x.compute(), [1 - 1e10, 1e10], rtol=1e-5)
    tiny = 1e-60 * matrix(20, "float64", 1, assume)
    x, iterations = oc.linalg.solve_mixed(tiny, np.ones(20), assume=assume)
    assert iterations == -3
    assert ratio(tiny, np.ones(20), x.compute()) < THRESHOLD


def test_without_convergence(desk: Desk) -> None:
    a, b = matrix(60, "float64", 14, "gen"), normal(60, "float64", 5)
    x, iterations = oc.linalg.solve_mixed(a, b)
    assert iterations == -31
    np.testing.assert_array_equal(x.compute(), oc.linalg.solve(a, b).compute())


def test_large_and_small_right_hand_sides(desk: Desk) -> None:
    """They are not converted, so that these need not fit single precision."""
    a = matrix(40, "float64", 2, "gen")
    b = normal((40, 4), "float64", 5) * [1e200, 1e-200, 0, 1]
    x, iterations = oc.linalg.solve_mixed(a, b)
    assert 0 <= iterations <= 4
    found = x.compute()
    assert (found[:, 2] == 0).all()
    keep = [0, 1, 3]
    assert ratio(a, b[:, keep], found[:, keep]) < THRESHOLD


def test_operands_of_other_kinds(desk: Desk) -> None:
    a, b = matrix(50, "float64", 2, "gen"), normal((50, 2), "float64", 5)
    stored = desk.put(np.pad(a.T, 3), 16)
    others = (stored[3:-3, 3:-3].T, oc.asarray(a) + 0, oc.matmul(oc.eye(50), oc.asarray(a)))
    for given in others:
        x, iterations = oc.linalg.solve_mixed(given, b)
        assert iterations >= 0
        assert ratio(a, b, x.compute()) < THRESHOLD
    x, _ = oc.linalg.solve_mixed([[2, 1], [1, 3]], [1, 2])
    np.testing.assert_allclose(x.compute(), [0.2, 0.6])
    del stored, others, given


def test_what_it_saves(desk: Desk) -> None:
    """Half of what factoring moves; and the matrix and the factors, for each iteration."""
    n = 1000
    a = desk.put(matrix(n, "float64", 1, "gen"), 60)
    b = normal(n, "float64", 5)
    with oc.config(memory="1MiB"):
        _, iterations = oc.linalg.solve_mixed(a, b)
        mixed = oc.last_run()
        oc.linalg.solve(a, b).compute()
        double = oc.last_run()
    assert mixed is not None and double is not None
    assert iterations == 2
    moved = [run.bytes_read + run.bytes_written for run in (mixed, double)]
    assert moved[0] < 0.7 * moved[1]
    del a


def test_nothing_is_left_of_what_fails(desk: Desk) -> None:
    a = desk.put(matrix(250, "float64", 1, "gen"), 250)
    with oc.config(memory="256KiB"), pytest.raises(oc.BudgetError):
        oc.linalg.solve_mixed(a, np.ones(250))
    del a


# -- what cannot be ----------------------------------------------------------------------------


@each_kind
def test_singular_matrices_and_others(desk: Desk, assume: str) -> None:
    a = matrix(20, "float64", 1, assume)
    a[7] = 0
    a[:, 7] = 0
    error = oc.SingularMatrixError if assume == "gen" else oc.NotPositiveDefiniteError
    with pytest.raises(error) as caught:
        oc.linalg.solve_mixed(a, np.ones(20), assume=assume)
    assert assume == "gen" or caught.value.index == 8
    for bad in (np.nan, np.inf):
        a[9, 3] = bad
        wrong = oc.NotFiniteError if assume == "gen" else oc.NotPositiveDefiniteError
        with pytest.raises(wrong):
            oc.linalg.solve_mixed(a, np.ones(20), assume=assume)


@pytest.mark.parametrize(
    "call",
    [
        lambda: oc.linalg.solve_mixed(np.ones((3, 2)), np.ones(3)),
        lambda: oc.linalg.solve_mixed(np.eye(3), np.ones(4)),
        lambda: oc.linalg.solve_mixed(np.eye(3), np.ones(3), assume="banded"),
        lambda: oc.linalg.solve_mixed(np.eye(3, dtype="f"), np.ones(3, "f")),
        lambda: oc.linalg.solve(np.eye(3), np.ones(3), refine="float64"),
        lambda: oc.linalg.solve(np.eye(3), np.ones(3), refine="complex64"),
        lambda: oc.linalg.solve(np.eye(3), np.ones(3), refine="half a float"),
        lambda: oc.linalg.solve(np.eye(3, dtype="f"), np.ones(3, "f"), refine="float32"),
        lambda: oc.linalg.solve(np.eye(3) + 0j, np.ones(3), refine="float32"),
    ],
)
def test_arguments_that_make_no_sense(call: Callable[[], object]) -> None:
    with pytest.raises(oc.InvalidArgumentError):
        call()


def test_of_hardly_anything(desk: Desk) -> None:
    for shape in ((0,), (0, 3)):
        x, iterations = oc.linalg.solve_mixed(np.ones((0, 0)), np.ones(shape))
        assert (x.shape, iterations) == (shape, 0)
    x, iterations = oc.linalg.solve_mixed(np.eye(3), np.ones((3, 0)))
    assert (x.shape, iterations) == ((3, 0), 0)
