"""Symmetric and Hermitian systems that are not definite: factors, solutions, LU where need be."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

import outcrop as oc
from outcrop.linalg import LDLFactor

Values: TypeAlias = NDArray[Any]
Desk: TypeAlias = Any  # that of conftest.py

pytestmark = pytest.mark.filterwarnings("ignore::outcrop.errors.OutcropWarning")

THRESHOLD = 30

KINDS = [
    ("float32", True),
    ("float64", True),
    ("complex64", True),
    ("complex64", False),
    ("complex128", True),
    ("complex128", False),
]
each_kind = pytest.mark.parametrize(("dtype", "hermitian"), KINDS)


def normal(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> Values:
    chance = np.random.default_rng(seed)
    real = chance.standard_normal(shape)
    is_complex = np.dtype(dtype).kind == "c"
    return (real + 1j * chance.standard_normal(shape) if is_complex else real).astype(dtype)


def mirrored(a: Values, hermitian: bool = True) -> Values:
    return a.conj().T if hermitian else a.T


def symmetric(n: int, dtype: Any, hermitian: bool = True, seed: int = 0) -> Values:
    a = normal((n, n), dtype, seed)
    return a + mirrored(a, hermitian)


def half_of(a: Values, lower: bool = True) -> Values:
    """One half, and NaN in the other one."""
    n, half = len(a), a.copy()
    half[np.triu_indices(n, 1) if lower else np.tril_indices(n, -1)] = np.nan
    return half


def ratio(a: Values, b: Values, x: Values) -> float:
    """LAPACK's test ratio of a solution, of the worst column."""
    eps = float(np.finfo(b.dtype).eps) / 2
    wide = np.result_type(b, np.float64)
    residual = b.astype(wide) - a.astype(wide) @ x.astype(wide)
    scale = np.abs(a).sum(axis=0).max(initial=0) * np.abs(x).sum(axis=0) * eps
    return float((np.abs(residual).sum(axis=0) / np.where(scale == 0, 1, scale)).max(initial=0))


# -- factors -----------------------------------------------------------------------------------


def rotated(n: int, rows: Values) -> Any:
    """G, by the partners of rows: rotations by the angles that the core has."""

    def angle(level: int, row: int) -> tuple[float, float]:
        mask = (1 << 64) - 1
        bits = (row * 2 + level + 1) * 0x9E3779B97F4A7C15 & mask
        bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9 & mask
        bits = (bits ^ bits >> 27) * 0x94D049BB133111EB & mask
        bits ^= bits >> 31
        t = 0.2 + 0.45 * (bits >> 11) / 2**53
        sine = 2 * t / (1 + t * t)
        return (1 - t * t) / (1 + t * t), -sine if bits & 1 else sine

    found = np.eye(n)
    for level in range(2):
        own = np.eye(n)
        for i, j in enumerate(rows[:, 1 + level]):
            assert rows[j, 1 + level] == i
            if j > i:
                cos, sin = angle(level, i)
                own[[i, j], [i, j]], own[i, j], own[j, i] = cos, sin, -sin
        found = found @ own
    return found


def product(factor: LDLFactor) -> Values:
    """The matrix of which these are the factors."""
    triangle, d, rows = (np.asarray(x.compute()) for x in factor[:3])
    n = len(triangle)
    lower = triangle if factor.lower else triangle.T
    np.testing.assert_array_equal(np.triu(lower, 1), 0)
    np.testing.assert_array_equal(np.diagonal(lower), 1)
    # Blocks of two rows at the most.
    below = d[:, 1]
    assert n == 0 or below[-1] == 0
    assert not (below[:-1].astype(bool) & below[1:].astype(bool)).any()
    diagonal = np.diag(d[:, 0]).astype(np.result_type(d, np.float64))
    at = np.arange(n - 1)
    diagonal[at + 1, at] = below[:-1]
    diagonal[at, at + 1] = below[:-1].conj() if factor.hermitian else below[:-1]
    order = np.zeros((n, n))
    order[rows[:, 0], np.arange(n)] = 1
    whole: Values = rotated(n, rows) @ order @ lower
    found: Values = whole @ diagonal @ mirrored(whole, factor.hermitian)
    return found if factor.lower else found.T


@each_kind
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize(("n", "tile"), [(0, 8), (1, 8), (2, 1), (57, 64), (57, 16), (57, 7)])
def test_factors(desk: Desk, dtype: str, hermitian: bool, lower: bool, n: int, tile: int) -> None:
    """L D L^H, of which one half of the matrix is read, whatever is in the other one."""
    a = symmetric(n, dtype, hermitian)
    stored = desk.put(half_of(a, lower), tile) if n else oc.asarray(a)
    factor = oc.linalg.ldl_factor(stored, lower=lower, hermitian=hermitian)
    with oc.config(memory="1MiB"):
        saved = list(oc.save({desk.new(): x for x in factor[:3]}).values())
    found = product(factor._replace(factor=saved[0], d=saved[1], rows=saved[2]))
    scale = np.abs(a).sum(axis=0).max(initial=0) * max(n, 1) * float(np.finfo(dtype).eps)
    assert np.abs(found - a).sum(axis=0).max(initial=0) <= 100 * scale
    del stored, factor, saved


@each_kind
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("suffix", [".zarr", ".npy", "F"])
def test_solutions_of_factors(
    desk: Desk, dtype: str, hermitian: bool, lower: bool, suffix: str
) -> None:
    """What is saved solves, cut otherwise or not at all, and so does what is not saved."""
    n = 150
    a, b = symmetric(n, dtype, hermitian), normal((n, 3), dtype, 1)
    half = half_of(a, lower)
    if suffix == "F":
        # A transposed view lies column by column.
        stored = desk.put(np.ascontiguousarray(half.T), 40).T
    else:
        stored = (
            desk.put(half, 40) if suffix == ".zarr" else oc.asarray(half).save(desk.new(suffix))
        )
    factor = oc.linalg.ldl_factor(stored, lower, hermitian)
    kept = ".zarr" if suffix == "F" else suffix
    saved = list(oc.save({desk.new(kept): x for x in factor[:3]}).values())
    for one in (factor, factor._replace(factor=saved[0], d=saved[1], rows=saved[2])):
        x = desk.run(oc.linalg.ldl_solve(one, b))
        # Without refinement, elements may have grown.
        assert ratio(a, b, x) < 50 * THRESHOLD
        v = oc.linalg.ldl_solve(one, b[:, 0]).compute()
        np.testing.assert_allclose(v, x[:, 0], rtol=0, atol=1e-3 * np.abs(v).max())
    l, d, rows = (oc.asarray(x.compute()) for x in saved)  # noqa: E741
    others = oc.linalg.ldl_solve(LDLFactor(l, d, rows, lower, hermitian), b)
    assert ratio(a, b, others.compute()) < 50 * THRESHOLD
    del stored, factor, saved, one, others


def test_one_tile_is_as_lapack(desk: Desk) -> None:
    """Without rotations, pivots are those of Bunch and Kaufman."""
    oc.config(memory="4MiB")
    a = symmetric(60, "float64")
    factor = oc.linalg.ldl_factor(a)
    np.testing.assert_array_equal(factor.rows.compute()[:, 1:3], np.arange(60)[:, None] + [0, 0])
    x = oc.linalg.ldl_solve(factor, a[:, 0]).compute()
    assert ratio(a, a[:, 0], x) < THRESHOLD
    values = np.linalg.eigvalsh(a)
    counts = oc.linalg.inertia(factor)
    assert counts == ((values > 0).sum(), (values < 0).sum(), 0)


def test_inertia_out_of_core(desk: Desk) -> None:
    a = symmetric(300, "complex128")
    values = np.linalg.eigvalsh(a)
    stored = desk.put(a, 32)
    counts = oc.linalg.inertia(oc.linalg.ldl_factor(stored))
    assert counts == ((values > 0).sum(), (values < 0).sum(), 0)
    del stored


def test_half_of_the_traffic_of_lu(desk: Desk) -> None:
    """The matrix is read once, and what is read again is far less than LU reads."""
    stored = desk.put(symmetric(600, "float64"), 50)
    with oc.config(memory="1MiB"):
        factor, lu = oc.linalg.ldl_factor(stored), oc.linalg.lu_factor(stored)
        plans = [
            oc.plan({desk.new(): x for x in results})
            for results in ((factor.factor, factor.d, factor.rows), lu)
        ]
        ours, theirs = (plan.bytes_read + plan.bytes_written for plan in plans)
        assert ours < 0.6 * theirs
    with oc.config(memory="8MiB"):
        # Twelve tiles of the half are on the diagonal.
        assert oc.plan(factor.factor, desk.new()).bytes_read < 1.15 * stored.nbytes / 2
    del stored, factor, lu


# -- solve -------------------------------------------------------------------------------------


def blocks(*rows: list[Any]) -> Values:
    return np.block([list(row) for row in rows])


def matrices(n: int) -> dict[str, Values]:
    """Matrices that are not definite, whose lower halves are hard in several ways."""
    h, m = n // 2, n // 3
    a, b = symmetric(n, "float64", seed=3), normal((m, n - m), "float64", 4)
    g = np.logspace(0, -6, n)
    q, _ = np.linalg.qr(normal((n, n), "float64", 5))
    signs = np.where(np.arange(n) % 3, 1.0, -1.0)
    definite = normal((n - m, n - m), "float64", 6)
    definite = definite @ definite.T / n + np.eye(n - m)
    zero, unit = np.zeros((h, h)), np.eye(h)
    square = normal((h, h), "float64", 7)
    ones = np.tril(np.ones((n, n)), -1)
    hollow = a.copy()
    np.fill_diagonal(hollow, 0)
    found = {
        "random": a,
        "zero diagonal": hollow,
        "zero quarters": blocks([zero, square], [square.T, zero]),
        "exchange": blocks([zero, unit], [unit, zero]),
        "backwards": np.fliplr(np.eye(n)),
        "saddle": blocks([definite, b.T], [b, np.zeros((m, m))]),
        "saddle first": blocks([np.zeros((m, m)), b], [b.T, definite]),
        "graded": a * g[:, None] * g,
        "graded otherwise": a * g[::-1, None] * g[::-1],
        "spectrum": (q * np.logspace(0, -5, n) * signs) @ q.T,
        "distances": abs(np.subtract.outer(np.arange(n), np.arange(n))).astype(float),
        "wilkinson": np.eye(n) - ones - ones.T,
    }
    order = np.random.default_rng(8).permutation(n)
    one, other = order[:h], order[h : 2 * h]
    found["permutation"] = np.zeros((n, n))
    found["permutation"][one, other] = found["permutation"][other, one] = 1
    return found


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", matrices(12))
def test_solutions(desk: Desk, dtype: str, kind: str) -> None:
    """As exact as LAPACK's, for odd orders and tiles that do not fit, by whichever way."""
    n = 202 if kind in ("zero quarters", "exchange", "permutation") else 203
    a = matrices(n)[kind]
    a = np.tril(a) + np.tril(a, -1).T
    a, b = a.astype(dtype), normal((n, 2), dtype, 8)
    stored = desk.put(half_of(a), 32)
    x = oc.linalg.solve(stored, b, assume="sym")
    assert x.dtype == dtype
    assert ratio(a, b, x.compute()) < THRESHOLD
    del stored, x


@each_kind
def test_solutions_of_every_type(desk: Desk, dtype: str, hermitian: bool) -> None:
    n, name = 131, "her" if hermitian else "sym"
    a, b = symmetric(n, dtype, hermitian), normal((n, 5), dtype, 1)
    half = half_of(a)
    operands = [
        desk.put(half, 40),
        desk.put(np.ascontiguousarray(half.T), 40).T,
        oc.asarray(half).save(desk.new(".npy")),
        oc.asarray(half).save(desk.new(".npy"), order="F"),
        oc.asarray(half) + 0,
    ]
    for operand in operands:
        x = oc.linalg.solve(operand, b, assume=name)
        assert ratio(a, b, desk.read(x)) < THRESHOLD
    x = oc.linalg.solve(operands[0], b[:, 0], assume="hermitian" if hermitian else "symmetric")
    assert ratio(a, b[:, 0], desk.read(x)) < THRESHOLD
    del operands, operand, x


@pytest.mark.parametrize("n", [0, 1, 2, 3])
@pytest.mark.parametrize("assume", ["sym", "her"])
def test_small(desk: Desk, n: int, assume: str) -> None:
    a = symmetric(n, "complex128", assume == "her")
    for shape in ((n,), (n, 2), (n, 0)):
        b = normal(shape, "complex128", 1)
        x = oc.linalg.solve(a, b, assume=assume).compute()
        assert x.shape == shape
        assert ratio(a, b, x) < THRESHOLD
    tiny = oc.linalg.solve(a.real, normal((n,), "float64", 2), assume="her")
    assert tiny.dtype == "float64"


def test_lu_where_there_are_no_pivots(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of few elements, which meet none of their like: tiles on the diagonal are singular."""
    used = []
    original = oc.linalg.solve

    def counted(*operands: Any) -> oc.Array:
        used.append(operands)
        return original(*operands)

    monkeypatch.setattr("outcrop.linalg.indefinite.solve", counted)
    for kind, is_used in (("random", False), ("saddle", False), ("exchange", True)):
        a = matrices(200)[kind]
        stored = desk.put(half_of(a), 32)
        b = normal((200,), "float64")
        x = oc.linalg.solve(stored, b, assume="sym").compute()
        assert ratio(a, b, x) < THRESHOLD
        assert bool(used) == is_used
    used.clear()
    del stored


def test_refined_from_single_precision(desk: Desk) -> None:
    a, b = matrices(150)["saddle"], normal((150,), "float64")
    stored = desk.put(half_of(a), 40)
    x, iterations = oc.linalg.solve_mixed(stored, b, assume="sym")
    assert ratio(a, b, x.compute()) < THRESHOLD
    assert 0 < iterations <= 30
    a = symmetric(150, "complex128", False)
    x = oc.linalg.solve(half_of(a), normal((150,), "complex128"), assume="sym", refine="complex64")
    assert ratio(a, normal((150,), "complex128"), x.compute()) < THRESHOLD
    del stored, x


# -- what cannot be ----------------------------------------------------------------------------


def test_singular(desk: Desk) -> None:
    oc.config(memory="1MiB")
    a = symmetric(100, "float64")
    a[:, 40] = a[40] = 0
    for tile in (100, 24):
        stored = desk.put(a, tile)
        with pytest.raises(oc.SingularMatrixError) as caught:
            oc.linalg.solve(stored, np.ones(100), assume="sym")
        assert caught.value.index is not None and caught.value.index > 40
    zeros = desk.put(np.zeros((100, 100)), 24)
    with pytest.raises(oc.SingularMatrixError, match="pivot 1,") as caught:
        oc.linalg.ldl_factor(zeros).factor.compute()
    assert caught.value.index == 1
    with pytest.raises(oc.SingularMatrixError) as caught:
        oc.linalg.solve(zeros, np.ones(100), assume="her")
    assert caught.value.index == 1
    factor = oc.linalg.ldl_factor(np.eye(3))
    d = factor.d.compute()
    d[1, 0] = 2
    with pytest.raises(oc.InvalidArgumentError, match="do not fit"):
        oc.linalg.ldl_solve(factor._replace(d=oc.asarray(d)), np.ones(3)).compute()
    del stored, zeros


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("tile", [24, 100])
def test_not_finite(desk: Desk, value: float, tile: int) -> None:
    oc.config(memory="1MiB")
    a = symmetric(100, "float64")
    a[70, 30] = value
    stored = desk.put(a, tile)
    with pytest.raises(oc.NotFiniteError):
        oc.linalg.ldl_factor(stored).factor.save(desk.new())
    with pytest.raises(oc.NotFiniteError):
        oc.linalg.solve(stored, np.ones(100), assume="sym")
    # In the half that is not read it is nothing.
    x = oc.linalg.ldl_solve(oc.linalg.ldl_factor(stored, lower=False), np.ones(100)).compute()
    assert np.isfinite(x).all()
    del stored


def test_too_little_memory(desk: Desk) -> None:
    stored = desk.put(symmetric(300, "float64"), 100)
    factor = oc.linalg.ldl_factor(stored).factor
    with oc.config(memory="300KiB"), pytest.raises(oc.BudgetError) as caught:
        factor.save(desk.new())
    with oc.config(memory=caught.value.needed):
        desk.run(factor)
    del stored, factor


RIGHT = oc.linalg.ldl_factor(np.eye(3))


@pytest.mark.parametrize(
    "call",
    [
        lambda: oc.linalg.ldl_factor(np.ones((3, 2))),
        lambda: oc.linalg.ldl_solve(RIGHT, np.ones(4)),
        lambda: oc.linalg.ldl_solve(RIGHT, np.ones((3, 2, 2))),
        lambda: oc.linalg.ldl_solve(RIGHT._replace(d=RIGHT.rows), np.ones(3)),
        lambda: oc.linalg.ldl_solve(RIGHT._replace(rows=RIGHT.factor), np.ones(3)),
        lambda: oc.linalg.solve(np.eye(3), np.ones(3), assume="herm"),
        lambda: oc.linalg.inertia(oc.linalg.ldl_factor(1j * np.eye(3), hermitian=False)),
    ],
)
def test_arguments_that_make_no_sense(call: Callable[[], object]) -> None:
    with pytest.raises(oc.InvalidArgumentError):
        call()


def test_arguments_of_wrong_types() -> None:
    for call in (
        lambda: oc.linalg.ldl_factor(np.eye(3), lower="L"),  # type: ignore[arg-type]
        lambda: oc.linalg.ldl_solve(np.eye(3), np.ones(3)),  # type: ignore[arg-type]
        lambda: oc.linalg.inertia(np.eye(3)),  # type: ignore[arg-type]
    ):
        with pytest.raises(oc.InvalidTypeError):
            call()


@pytest.mark.parametrize("column", [0, 1, 2])
@pytest.mark.parametrize("value", [-1, 2, 7])
def test_rows_that_are_none(column: int, value: int) -> None:
    rows = RIGHT.rows.compute()
    rows[1, column] = value
    with pytest.raises(oc.InvalidArgumentError, match="not the rows of an LDL factorization"):
        oc.linalg.ldl_solve(RIGHT._replace(rows=oc.asarray(rows)), np.ones(3)).compute()


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_parts_that_were_computed_apart_are_refused(desk: Desk, dtype: str) -> None:
    """With tiles of another size there are other pivots: solutions would be wrong."""
    n = 120
    a = symmetric(n, dtype, hermitian=True)
    saved = []
    for tile in (24, 40):
        factor = oc.linalg.ldl_factor(desk.put(a, tile))
        parts = [desk.new() for _ in range(3)]
        saved.append(list(oc.save(dict(zip(parts, factor[:3], strict=True))).values()))
    (l, d, rows), others = saved  # noqa: E741
    b = normal((n,), dtype, 1)
    for mixed in ((others[0], d, rows), (l, others[1], rows), (l, d, others[2])):
        with pytest.raises(oc.InvalidArgumentError, match="do not fit each other"):
            oc.linalg.ldl_solve(LDLFactor(*mixed, True, True), b).compute()
    fitting = LDLFactor(l, d, rows, True, True)
    x = oc.linalg.ldl_solve(fitting, b).compute()
    assert ratio(a, b[:, None], x[:, None]) < 50 * THRESHOLD
    del saved, factor, fitting, l, d, rows, others, mixed


@each_kind
def test_condition_of_factors(desk: Desk, dtype: str, hermitian: bool) -> None:
    """As LAPACK's sycon and hecon estimate it; elements of ours may have grown."""
    a = symmetric(90, dtype, hermitian)
    factor = oc.linalg.ldl_factor(desk.put(half_of(a, True), 30), hermitian=hermitian)
    anorm = float(np.abs(a).sum(axis=0).max())
    with oc.config(memory="2MiB"):
        found = oc.linalg.sycon(factor, anorm)
    exact = 1 / np.linalg.cond(a.astype(np.result_type(a, np.float64)), 1)
    assert 0.99 * exact <= found <= 4 * exact
    with pytest.raises(oc.InvalidTypeError):
        oc.linalg.sycon(a, anorm)  # type: ignore[arg-type]
    del factor


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("tile", [(64, 64), (70, 130)])
@pytest.mark.parametrize("n", [200, 300])
def test_factors_that_are_of_no_use_are_refused(
    desk: Desk, n: int, tile: tuple[int, int], dtype: str
) -> None:
    # Rotated, tiles on the diagonal are nothing but rounding errors: residuals were 1e16.
    exchange = np.kron([[0, 1], [1, 0]], np.eye(n // 2)).astype(dtype)
    with oc.config(memory="2MiB"):
        a = desk.put(exchange, tile)
        b = np.arange(1.0, n + 1).astype(dtype)
        factor = oc.linalg.ldl_factor(a, hermitian=False)
        with pytest.raises(oc.SingularMatrixError):
            oc.linalg.ldl_solve(factor, b).compute()
        np.testing.assert_allclose(
            oc.linalg.solve(a, b, assume="sym").compute(), exchange @ b, rtol=1e-5
        )
