"""What does not fit together is refused before anything moves, and what fails leaves no trace."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outcrop as oc

A = np.ones((6, 4))


@pytest.mark.parametrize(
    ("call", "error", "what"),
    [
        (lambda c: oc.blas.gemm(1.0, A, A, C=c), oc.InvalidArgumentError, "do not fit C"),
        (lambda c: oc.blas.gemm(1.0, A, A.T, C=c[0]), oc.InvalidArgumentError, "two axes"),
        (lambda c: oc.blas.gemm(1.0, A, A.T, C=c, trans_a="X"), oc.InvalidArgumentError, "trans_a"),
        (lambda c: oc.blas.gemm(1j, A, A.T, C=c), oc.InvalidTypeError, "alpha must be real"),
        (lambda c: oc.blas.gemm("1", A, A.T, C=c), oc.InvalidTypeError, "alpha must be a number"),
        (lambda c: oc.blas.gemm(1, A * 1j, A.T, C=c), oc.InvalidTypeError, "without loss"),
        (lambda c: oc.blas.gemm(1, A, A.T, C=c.tolist()), oc.InvalidTypeError, "in place"),
        (lambda c: oc.blas.gemm(1, A, A.T, C=c.astype(int)), oc.InvalidTypeError, "C must be"),
        (lambda c: oc.blas.symm(1, A, A, C=c), oc.InvalidArgumentError, "symm: A of shape"),
        (lambda c: oc.blas.symm(1, c + 1, c + 1, C=c, side="X"), oc.InvalidArgumentError, "side"),
        (lambda c: oc.blas.syrk(1, A.T, C=c), oc.InvalidArgumentError, "syrk: op"),
        (lambda c: oc.blas.syrk(1, A, C=c, uplo=0), oc.InvalidArgumentError, "uplo must be"),
        (lambda c: oc.blas.syr2k(1, A, A[:, :2], C=c), oc.InvalidArgumentError, "syr2k: op"),
        (lambda c: oc.blas.herk(1j, A, C=c + 0j), oc.InvalidTypeError, "alpha must be real"),
        (lambda c: oc.blas.herk(1, A, C=c + 0j, trans="T"), oc.InvalidArgumentError, "trans must"),
        (lambda c: oc.blas.syrk(1, A, C=c + 0j, trans="C"), oc.InvalidArgumentError, "trans must"),
        (lambda c: oc.blas.her2k(1, A, A, beta=1j, C=c + 0j), oc.InvalidTypeError, "beta must be"),
        (lambda c: oc.blas.trmm(1, A, c), oc.InvalidArgumentError, "trmm: A of shape"),
        (lambda c: oc.blas.trsm(1, c + 1, c, diag="X"), oc.InvalidArgumentError, "diag must be"),
        (lambda c: oc.blas.trsm(1, c, c), oc.InvalidArgumentError, "elements in common"),
        (lambda c: oc.blas.gemm(1, c, c.T, C=c), oc.InvalidArgumentError, "elements in common"),
        (lambda c: oc.blas.gemm(1, oc.asarray(c) + 1, c, C=c), oc.InvalidArgumentError, "common"),
    ],
)
def test_what_does_not_fit(call: Any, error: type[Exception], what: str) -> None:
    c = np.full((6, 6), 2.0)
    with pytest.raises(error, match=what):
        call(c)
    np.testing.assert_array_equal(c, 2)


def test_matrices_with_elements_in_common(tmp_path: Path) -> None:
    values = np.arange(64.0 * 64).reshape(64, 64)
    path = tmp_path / "x.zarr"
    oc.asarray(values).save(path, tile=16).close()
    x = oc.open(path, "r+")
    for a in (x[:32, :32], x.T[:32, :32], x[8:24, 8:24] * 2.0):
        with pytest.raises(oc.InvalidArgumentError, match="elements in common"):
            oc.blas.syrk(1.0, a, C=x[16:48, 16:48][: a.shape[0], : a.shape[0]])
    np.testing.assert_array_equal(x.compute(), values)


def test_what_is_only_read_is_not_changed(tmp_path: Path) -> None:
    a = oc.asarray(np.ones((4, 4))).save(tmp_path / "a.zarr")
    with pytest.raises(oc.InvalidArgumentError, match="read-only"):
        oc.blas.gemm(1.0, np.eye(4), np.eye(4), C=a)
    with pytest.raises(oc.InvalidArgumentError, match="read-only"):
        oc.blas.gemm(1.0, np.eye(4), np.eye(4), C=a + 1)


@pytest.mark.parametrize("kind", ["zarr", "part", "npy", "numpy"])
def test_a_singular_triangle_changes_nothing(tmp_path: Path, kind: str) -> None:
    triangle, b = np.tril(np.ones((100, 100))), np.random.default_rng(0).random((100, 60))
    triangle[70, 70] = triangle[90, 90] = 0
    whole: Any = b.copy()
    if kind == "npy":
        np.save(tmp_path / "b.npy", b)
        whole = oc.open(tmp_path / "b.npy", "r+")
    elif kind != "numpy":
        oc.asarray(b).save(tmp_path / "b.zarr", tile=16).close()
        whole = oc.open(tmp_path / "b.zarr", "r+")
    own = slice(3, 50) if kind == "part" else slice(None)
    with oc.config(memory=400 << 10, threads=1, scratch=tmp_path):
        for uplo, given in (("L", triangle), ("U", triangle.T)):
            stored = oc.asarray(given).save(tmp_path / f"{uplo}.zarr", tile=16)
            with pytest.raises(oc.SingularMatrixError) as caught:
                oc.blas.trsm(1.0, stored, whole[:, own], uplo=uplo)
            assert caught.value.index == 71
            np.testing.assert_array_equal(np.asarray(whole), b)
        # It is still open, and can be changed.
        oc.blas.trmm(2.0, np.eye(100), whole)
        np.testing.assert_array_equal(np.asarray(whole), 2 * b)
    if kind in ("zarr", "part"):
        np.testing.assert_array_equal(oc.open(tmp_path / "b.zarr").compute(), 2 * b)
        whole.close()
        assert sorted(p.name for p in (tmp_path / "b.zarr").iterdir()) == [
            ".outcrop-index",
            "c",
            "zarr.json",
        ]


def test_a_new_array_that_was_left_unfinished_does_not_appear(tmp_path: Path) -> None:
    b = oc.create(tmp_path / "b.zarr", (60, 60), tile=16)
    b[...] = 1
    with pytest.raises(oc.SingularMatrixError):
        oc.blas.trsm(1.0, np.diag(np.r_[np.ones(50), np.zeros(10)]), b)
    with pytest.raises(oc.StorageError, match="did not complete"):
        b.close()
    assert not (tmp_path / "b.zarr").exists()


@pytest.mark.parametrize("name", oc.blas.__all__)
def test_a_budget_that_is_too_small_is_refused_and_the_least_named(
    tmp_path: Path, name: str
) -> None:
    values = np.eye(400) + 0.001
    for letter in "ab":
        oc.asarray(values).save(tmp_path / f"{letter}.zarr", tile=200).close()
    a = oc.open(tmp_path / "a.zarr")
    b = oc.open(tmp_path / "b.zarr", "r+")
    routine = getattr(oc.blas, name)

    def call() -> None:
        if name in ("trmm", "trsm"):
            routine(1.0, a, b)
        else:
            routine(1.0, *((a,) if name in ("syrk", "herk") else (a, a)), beta=1.0, C=b)

    with (
        oc.config(memory=256 << 10, scratch=tmp_path),
        pytest.raises(oc.BudgetError, match="the least that works is") as caught,
    ):
        call()
    np.testing.assert_array_equal(b.compute(), values)
    least = caught.value.needed
    assert least is not None
    with oc.config(memory=least, scratch=tmp_path):
        call()


def test_plans_change_nothing_and_hold_nothing(tmp_path: Path) -> None:
    oc.asarray(np.ones((60, 60))).save(tmp_path / "c.zarr", tile=16).close()
    c = oc.open(tmp_path / "c.zarr", "r+")
    plan = oc.blas.syrk.plan(1.0, np.ones((60, 10)), C=c)
    assert plan.operation == "syrk"
    assert "syrk" in plan.explain()
    c.close()
    with oc.open(tmp_path / "c.zarr", "r+") as again:
        np.testing.assert_array_equal(again.compute(), 1)


def test_what_stays_as_it_is_has_a_plan_of_nothing() -> None:
    plan = oc.blas.gemm.plan(0.0, np.ones((2, 3)), np.ones((3, 4)), beta=1, C=np.ones((2, 4)))
    assert (plan.bytes_read, plan.bytes_written, plan.waste) == (0, 0, 1)
    assert "nothing to compute" in plan.explain()


@pytest.mark.parametrize(("alpha", "dtype"), [(10**400, "f8"), (1e300, "f4"), (1e300j, "c8")])
def test_numbers_that_no_matrix_has(alpha: Any, dtype: str) -> None:
    one = np.eye(3, dtype=dtype)
    with pytest.raises(oc.InvalidArgumentError, match="larger than any number of"):
        oc.blas.gemm(alpha, one, one, C=np.zeros((3, 3), dtype))


def test_what_lies_on_itself_is_not_changed() -> None:
    own = np.lib.stride_tricks.as_strided(np.zeros(5), (3, 3), (8, 8))
    with pytest.raises(oc.InvalidArgumentError, match="lie on each other"):
        oc.blas.gemm(1.0, np.eye(3), np.eye(3), C=own)
    for strides in ((8, 24), (-24, 8), (8, -40)):
        apart = np.lib.stride_tricks.as_strided(np.zeros(40)[20:], (3, 3), strides)
        oc.blas.gemm(1.0, np.eye(3), np.eye(3), C=apart)
        np.testing.assert_array_equal(apart, np.eye(3))


def test_a_path_is_no_matrix() -> None:
    with pytest.raises(oc.InvalidTypeError, match=r"'A\.npy' is no array; oc\.open opens"):
        oc.blas.gemm(1.0, "A.npy", np.eye(3), C=np.eye(3))
