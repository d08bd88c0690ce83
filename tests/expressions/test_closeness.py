"""What NumPy's functions of elements give that are no ufuncs, by their own names."""

from typing import Any

import numpy as np
import pytest

import outcrop as oc


def test_whether_all_is_close(desk: Any) -> None:
    plain = np.random.default_rng(3).random((150, 90)) + 1
    x = desk.put(plain, "tiled")
    assert np.allclose(x, plain) is True
    assert np.allclose(x + 1e-7, plain) is True
    assert np.allclose(x + 1e-7, plain, rtol=0) is False
    assert oc.allclose(x, x * np.nan) is False
    assert oc.allclose(x * np.nan, x * np.nan, equal_nan=True) is True
    assert oc.allclose(x[:0], plain[:0]) is True


def test_by_numpys_names(desk: Any) -> None:
    plain = np.random.default_rng(4).normal(0, 9, (60, 70)) + 1j
    plain[3], plain[:, 5] = np.nan, np.inf
    x = desk.put(plain, "tiled")
    for ours, theirs in zip(np.where(x.real[9] > 5), np.where(plain.real[9] > 5), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert np.empty_like(x).shape == plain.shape
    assert np.array_equal(x, plain) is False
    assert np.array_equal(x, plain, equal_nan=True) is True
    assert np.array_equal(x[:, :5], plain) is False
    assert np.array_equal(x[4:, :5], plain[4:, :5]) is True
    for ours, theirs in [
        (np.round(x, 1), np.round(plain, 1)),
        (np.around(x.real), np.around(plain.real)),
        (x.round(2).imag, plain.round(2).imag),
        (np.real(x[::-2]), np.real(plain[::-2])),
        (np.imag(x).T, np.imag(plain).T),
        (np.nan_to_num(x, nan=1), np.nan_to_num(plain, nan=1)),
        (np.isclose(x, plain[0], 0.5, 1), np.isclose(plain, plain[0], 0.5, 1)),
        (np.tril(x, -2), np.tril(plain, -2)),
        (np.angle(x, deg=True), np.angle(plain, deg=True)),
        (np.fix(x.imag), np.fix(plain.imag)),
        (np.isposinf(x.real), np.isposinf(plain.real)),
        (np.isreal(x), np.isreal(plain)),
        (np.sinc(x.real[6:, 6:]), np.sinc(plain.real[6:, 6:])),
        (x.conjugate() + 0, plain.conjugate()),
        (np.squeeze(x[:1, :, None]), np.squeeze(plain[:1, :, None])),
        ((x + 0)[:, :1].squeeze(), plain[:, :1].squeeze()),
        ((x + 0)[:1].squeeze(axis=0), plain[0]),
        (x.real.clip(-1, 2), plain.real.clip(-1, 2)),
        (np.triu(x), np.triu(plain)),
    ]:
        assert isinstance(ours, oc.Array)
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours.compute(), theirs)
    made = np.empty(plain.shape)
    assert np.fix(x.imag, made) is made
    np.testing.assert_array_equal(made, np.fix(plain.imag))


@pytest.mark.parametrize("dtype", ["int32", "float32", "float64", "complex128"])
def test_norms(desk: Any, dtype: str) -> None:
    chance = np.random.default_rng(5)
    plain = chance.normal(0, 3, (23, 30, 17)).astype(dtype)
    x = desk.put(plain, "tiled")
    close = {"rtol": 1e-5 if dtype == "float32" else 1e-12}
    vectors: list[Any] = [None, 0, 1, 2, 3, 0.5, np.inf, -np.inf]
    matrices: list[Any] = [None, "fro", 1, -1, np.inf, -np.inf]
    for options in [
        {},
        {"keepdims": True},
        *({"ord": o, "axis": a} for o in vectors for a in (0, -1)),
        *({"ord": o, "axis": a, "keepdims": True} for o in matrices for a in ((0, 2), (1, 0))),
        *({"ord": o, "axis": (-1, 0)} for o in matrices),
    ]:
        ours, theirs = np.linalg.norm(x, **options), np.linalg.norm(plain, **options)
        assert isinstance(ours, oc.Array)
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours.compute(), theirs, **close)
    np.testing.assert_allclose(
        oc.linalg.norm(x[0], "fro").compute(), np.linalg.norm(plain[0]), **close
    )
    np.testing.assert_allclose(
        oc.linalg.norm(x[0], 1).compute(), np.linalg.norm(plain[0], 1), **close
    )
    with pytest.raises(oc.UnsupportedError, match="singular"):
        np.linalg.norm(x[0], 2)
    with pytest.raises(oc.InvalidArgumentError, match="no norm"):
        np.linalg.norm(x[0], 3)
    with pytest.raises(oc.InvalidArgumentError, match="no norm"):
        np.linalg.norm(x[0, 0], "fro")
    with pytest.raises(oc.InvalidArgumentError, match="one axis or of two"):
        np.linalg.norm(x, 1)


def test_what_is_refused(desk: Any) -> None:
    x = desk.put(np.ones((4, 5)), "memory")
    with pytest.raises(oc.InvalidArgumentError, match="an axis at least"):
        oc.tril(x[0, 0])
    with pytest.raises(oc.InvalidArgumentError, match="broadcast"):
        oc.isclose(x, [1, 2])
    with pytest.raises(oc.InvalidTypeError):
        oc.round(x, "many")
