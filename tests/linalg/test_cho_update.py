"""Updates and downdates of Cholesky factors, and inverses from them."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

import outcrop as oc

Values: TypeAlias = NDArray[Any]
Desk: TypeAlias = Any  # that of conftest.py
Make: TypeAlias = Callable[..., Values]

pytestmark = pytest.mark.filterwarnings("ignore::outcrop.errors.OutcropWarning")

DTYPES = ("float32", "float64", "complex64", "complex128")
THRESHOLD = 30

each_dtype = pytest.mark.parametrize("dtype", DTYPES)
each_half = pytest.mark.parametrize("lower", [True, False])


def wide(x: Values) -> Values:
    return x.astype(np.result_type(x, np.float64))


def factor_of(a: Values, dtype: str, lower: bool) -> Values:
    """A factor with NaN in the half that is not read."""
    found = np.linalg.cholesky(wide(a))
    n = len(a)
    found = (found if lower else found.conj().T).astype(dtype)
    found[np.triu_indices(n, 1) if lower else np.tril_indices(n, -1)] = np.nan
    return found


def product(factor: Values, lower: bool) -> Values:
    """The matrix of a factor, of which one half counts."""
    half = wide((np.tril if lower else np.triu)(factor))
    return half @ half.conj().T if lower else half.conj().T @ half


def ratio(error: Values, scale: Values, dtype: str) -> float:
    """LAPACK's test ratio of a factor, by the norm of what it is made from."""
    if error.size == 0:
        return 0.0
    eps = float(np.finfo(dtype).eps) / 2
    norms = (np.abs(x).sum(axis=0).max() for x in (error, scale))
    return float(next(norms) / (next(norms) * len(error) * eps))


# -- updates -----------------------------------------------------------------------------------


@each_dtype
@each_half
@pytest.mark.parametrize(
    ("n", "k", "tile"), [(0, 2, 8), (1, 1, 8), (57, 3, 64), (150, 5, 32), (95, 70, 16)]
)
def test_updates_and_downdates(
    desk: Desk,
    positive_definite: Make,
    random: Make,
    dtype: str,
    lower: bool,
    n: int,
    k: int,
    tile: int,
) -> None:
    a, v = positive_definite(n, dtype), random((n, k), dtype)
    before = factor_of(a, dtype, lower)
    change = wide(v) @ wide(v).conj().T
    stored = desk.put(before, tile) if n else oc.asarray(before)
    new = oc.linalg.cho_update((stored, lower), desk.put(v, (tile, 4)) if n else v)
    assert new.lower is lower
    after = desk.run(new.c)
    expected = product(before, lower) + change
    assert ratio(product(after, lower) - expected, expected, dtype) < THRESHOLD
    # What lies beyond the diagonal is zero.
    np.testing.assert_array_equal((np.triu if lower else np.tril)(after, 1 if lower else -1), 0)
    again = desk.put(after, tile) if n else oc.asarray(after)
    back = desk.run(oc.linalg.cho_update((again, lower), v, downdate=True).c)
    difference = product(back, lower) - (product(after, lower) - change)
    assert ratio(difference, expected, dtype) < THRESHOLD
    del stored, new, again


@each_half
@pytest.mark.parametrize("suffix", [".npy", "F", "turned", "computed"])
def test_layouts(
    desk: Desk, positive_definite: Make, random: Make, lower: bool, suffix: str
) -> None:
    n, dtype = 150, "complex128"
    a, v = positive_definite(n, dtype), random((n,), dtype)
    before = factor_of(a, dtype, lower)
    match suffix:
        case "turned":
            stored = desk.put(np.ascontiguousarray(before.T), 40).T
        case "computed":
            stored = oc.asarray(before) * 1
        case _:
            order = "F" if suffix == "F" else "C"
            stored = oc.asarray(before).save(desk.new(".npy"), order=order)
    for down in (False, True):
        change = np.outer(v, v.conj()) * (-1e-3 if down else 1)
        given = oc.asarray(v) * (1e-3**0.5 if down else 1)
        after = desk.afford(oc.linalg.cho_update((stored, lower), given, down).c)
        expected = product(before, lower) + change
        assert ratio(product(after, lower) - expected, expected, dtype) < THRESHOLD
    del stored


def test_one_pass(desk: Desk, positive_definite: Make, random: Make) -> None:
    """The factor is read once and written once, however little memory there is."""
    factor = oc.linalg.cholesky(desk.put(positive_definite(600, "float64"), 50)).save(desk.new())
    v = random((600, 4), "float64")
    plan = oc.plan(oc.linalg.cho_update((factor, True), v).c, desk.new())
    # Twelve tiles of 78 are on the diagonal, and have both halves.
    once = factor.nbytes * (78 / 144) * 1.03
    assert plan.bytes_read < once
    assert plan.bytes_written < once
    del factor


def test_what_is_left_may_be_small(desk: Desk) -> None:
    """A downdate that leaves little: exact as far as it can be, by the norm of what there was."""
    n = 100
    chance = np.random.default_rng(3)
    v = chance.standard_normal((n, 1))
    rest = 1e-6 * np.eye(n)
    lower = np.linalg.cholesky(v @ v.T + rest)
    found = oc.linalg.cho_update((desk.put(lower, 24), True), v, downdate=True).c.compute()
    expected = lower @ lower.T
    assert ratio(found @ found.T - rest, expected, "float64") < THRESHOLD


def test_no_columns(desk: Desk, positive_definite: Make) -> None:
    lower = np.linalg.cholesky(positive_definite(20, "float64"))
    new = oc.linalg.cho_update((lower, True), np.ones((20, 0)))
    np.testing.assert_array_equal(new.c.compute(), lower)


@pytest.mark.parametrize("tile", [16, 64])
def test_downdates_that_are_too_large(desk: Desk, tile: int) -> None:
    v = np.zeros(60)
    v[40:] = 2
    stored = desk.put(np.eye(60), tile)
    with pytest.raises(oc.NotPositiveDefiniteError, match="order 41 ") as caught:
        oc.linalg.cho_update((stored, True), v, downdate=True).c.compute()
    assert caught.value.index == 41
    # So does what leaves a singular matrix.
    with pytest.raises(oc.NotPositiveDefiniteError) as caught:
        oc.linalg.cho_update((stored, False), np.eye(60)[7], downdate=True).c.compute()
    assert caught.value.index == 8
    for value in (np.nan, np.inf):
        for down in (False, True):
            v[:] = 0
            v[30] = value
            with pytest.raises(oc.NotPositiveDefiniteError) as caught:
                oc.linalg.cho_update((stored, True), v, down).c.compute()
            assert caught.value.index == 31
    del stored


def test_too_little_memory(desk: Desk) -> None:
    stored = desk.put(np.eye(300), 150)
    new = oc.linalg.cho_update((stored, True), np.ones(300)).c
    with oc.config(memory="256KiB"), pytest.raises(oc.BudgetError) as caught:
        new.save(desk.new())
    with oc.config(memory=caught.value.needed):
        desk.run(new)
    del stored, new


# -- inverses ----------------------------------------------------------------------------------


@each_dtype
@each_half
@pytest.mark.parametrize(("n", "tile"), [(0, 8), (1, 8), (57, 64), (150, 32), (95, 16)])
def test_inverses(
    desk: Desk, positive_definite: Make, dtype: str, lower: bool, n: int, tile: int
) -> None:
    before = factor_of(positive_definite(n, dtype), dtype, lower)
    stored = desk.put(before, tile) if n else oc.asarray(before)
    found = desk.afford(oc.linalg.cho_inv((stored, lower)))
    np.testing.assert_array_equal(found, found.conj().T)
    a = product(before, lower)
    if n:
        error = np.abs(np.eye(n) - wide(found) @ a).sum(axis=0).max()
        norms = [np.abs(x).sum(axis=0).max() for x in (a, found)]
        assert error < THRESHOLD * n * norms[0] * norms[1] * np.finfo(dtype).eps / 2
    del stored


def test_inverses_out_of_core(desk: Desk, positive_definite: Make) -> None:
    """Of a factor that is computed in the same plan, too; in less traffic than by `inv`."""
    a = positive_definite(300, "float64")
    stored = desk.put(a, 32)
    inverse = oc.linalg.cho_inv(oc.linalg.cho_factor(stored))
    np.testing.assert_allclose(desk.run(inverse), np.linalg.inv(a), rtol=0, atol=1e-9)
    ours, theirs = (oc.plan(x, desk.new()) for x in (inverse, oc.linalg.inv(stored)))
    assert ours.bytes_read < theirs.bytes_read
    assert ours.flops < 0.7 * theirs.flops
    del stored, inverse


def test_inverses_of_singular_factors(desk: Desk) -> None:
    lower = np.eye(60)
    lower[40, 40] = 0
    for lie in (True, False):
        with pytest.raises(oc.SingularMatrixError) as caught:
            oc.linalg.cho_inv((desk.put(lower, 16), lie)).compute()
        assert caught.value.index == 41


# -- what cannot be ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda: oc.linalg.cho_update((np.ones((3, 2)), True), np.ones(3)),
        lambda: oc.linalg.cho_update((np.eye(3), True), np.ones(4)),
        lambda: oc.linalg.cho_update((np.eye(3), True), np.ones((3, 2, 2))),
        lambda: oc.linalg.cho_inv((np.ones((3, 2)), True)),
    ],
)
def test_arguments_that_make_no_sense(call: Callable[[], object]) -> None:
    with pytest.raises(oc.InvalidArgumentError):
        call()


def test_arguments_of_wrong_types() -> None:
    for call in (
        lambda: oc.linalg.cho_update(np.eye(3), np.ones(3)),  # type: ignore[arg-type]
        lambda: oc.linalg.cho_update((np.eye(3), None), np.ones(3)),  # type: ignore[arg-type]
        lambda: oc.linalg.cho_update((np.eye(3), True), np.ones(3), "down"),  # type: ignore[arg-type]
        lambda: oc.linalg.cho_inv(np.eye(3)),  # type: ignore[arg-type]
    ):
        with pytest.raises(oc.InvalidTypeError):
            call()
