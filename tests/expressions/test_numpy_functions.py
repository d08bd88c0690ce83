"""NumPy's functions of our arrays, against the same of NumPy's: every one that is registered."""

import re
from typing import Any

import numpy as np
import pytest

import outcrop as oc
from outcrop.arrays.registry import REFUSALS, implemented, implements

CALLS = """
    all(A > 0, axis=0)  any(A > 1)  amax(A)  amin(A, axis=0)  max(A, 1)  min(A)  ptp(A, axis=1)
    sum(A, 0, None, None, True)  prod(A, axis=1)  mean(A, axis=0)  average(A, axis=1)  std(A)
    std(A, ddof=1)  var(A, 0, correction=1)  nanmax(A)  nanmin(A)  nanmean(A)  nanprod(A)
    nanstd(A, axis=0)  nansum(A)  nanvar(A)  argmax(A, axis=1)  argmin(A)  nanargmax(A)
    nanargmin(A, axis=0)  count_nonzero(A > 0.5, axis=0)  cumprod(A, axis=0)  cumsum(A)
    cumulative_prod(A, axis=1)  cumulative_sum(A, axis=1, include_initial=True)
    gradient(A)  gradient(A, axis=1)  gradient(v, v + [*range(12)], edge_order=2)  gradient(i)
    gradient(A, 0.5, v + [*range(12)])  gradient(A, 2.0, axis=0, edge_order=2)
    lib.stride_tricks.sliding_window_view(A, 3, axis=1)
    lib.stride_tricks.sliding_window_view(A, (2, 5))
    nancumprod(A, axis=1)  nancumsum(A)  diff(A, 2)  diff(v, prepend=3)  trapezoid(A)
    trapezoid(A, None, 2.0)  i0(A)  sinc(A)  fix(A * 9)  iscomplex(C)  isreal(C)  isneginf(A)
    isposinf(A)  angle(C, True)  real(C)  imag(C)  around(A, 2)  round(A, 1)  clip(A, 0.2, 0.5)
    nan_to_num(A)  where(A > 0.5, A, B)  astype(A, 'float32')  isin(i, [1, 5])  isclose(A, B)
    allclose(A, A)  array_equal(A, B)  array_equiv(A, A)  searchsorted(v, [0.5])
    digitize(A, [0.1, 0.5])  interp(A, [0, 1], [1, 2])  reshape(A, (2, -1))  ravel(A)
    expand_dims(A, 1)  squeeze(A[:1])  atleast_1d(v)  atleast_2d(v)  atleast_3d(v)
    broadcast_to(v, (3, 12))  broadcast_arrays(v, A[:, :1])  moveaxis(A, 0, 1)  swapaxes(A, 0, 1)
    rollaxis(A, 1)  transpose(A)  transpose(A, (1, 0))  matrix_transpose(A)  flip(A, 0)  flipud(A)
    fliplr(A)  rot90(A)  rot90(A, 3)  roll(A, 2, axis=1)  concatenate([A, B])
    concatenate([A, B], axis=1, dtype='complex128')  stack([A, B], axis=1)  vstack([v, v])
    hstack([v, v])  hstack([A, B])  dstack([A, B])  column_stack([v, v])  append(A, B, axis=0)
    tile(A, 2)  repeat(A, 2, axis=0)  pad(A, 2)  split(A, 2)  array_split(A, 4)  vsplit(A, 3)
    hsplit(A, 2)  dsplit(A[..., None], 1)  unstack(A)  take(A, [3, 1], axis=0)
    compress(v > 0.5, A, axis=1)  extract(A > 0.5, A)  nonzero(A > 0.5)  flatnonzero(A > 0.5)
    argwhere(A > 0.5)  diagonal(A, 1)  diag(A)  diag(v, -2)  trace(A)  tril(A)  triu(A, 1)
    median(A)  median(A, 1, keepdims=True)  nanmedian(A, axis=0)  quantile(A, 0.3, 0)
    quantile(A, [0.1, 0.7], method='hazen')  percentile(A, 30)  nanquantile(A, 0.2, axis=1)
    nanpercentile(A, [[5, 50]], 1, keepdims=True)  sort(A)  sort(A, 0)  sort(A, None)  argsort(v)
    argsort(i, kind='stable')  partition(A, 3)
    histogram(A, 5)  bincount(i)  unique(i)  unique_all(i)  unique_counts(i)  unique_inverse(A)
    take_along_axis(A, i[:6, None], axis=1)  shape(A)  ndim(A)
    size(A, 1)  iscomplexobj(C)  isrealobj(C)  result_type(A, C)  common_type(A, C)
    min_scalar_type(A)  can_cast(A, 'complex64')  shares_memory(A, B)  may_share_memory(A, B)
    full_like(A, 2)  zeros_like(A)  ones_like(A, dtype='int8')  arange(2, 9, like=A)
    array([1, 2], like=A)  asarray([1, 2], like=A)  asanyarray([1, 2], like=A)
    eye(3, 4, 1, like=A)  full((2, 3), 2, like=A)  identity(3, like=A)  ones((2, 3), like=A)
    tri(3, like=A)  zeros((2, 3), int, like=A)  dot(A, B.T)  einsum('ij,ij->i', A, B)
    inner(A, v)  outer(v, v)  tensordot(A, B, axes=2)  vdot(C, C)  matmul(A, v)
    matvec(A, v)  vecmat(v, A.T)  vecdot(A, B)  linalg.diagonal(A)  linalg.matmul(A, v)
    linalg.matrix_norm(A)  linalg.matrix_transpose(A)  linalg.multi_dot([A, B.T, A])
    linalg.norm(A, axis=1)  linalg.outer(v, v)  linalg.tensordot(A, B, axes=2)  linalg.trace(A)
    linalg.vecdot(A, B)  linalg.vector_norm(A, axis=1)  linalg.cholesky(Q)  linalg.solve(Q, v[:6])
    linalg.solve(Q, A)  linalg.inv(Q)  linalg.det(Q)  linalg.det(C[:, :6])  linalg.slogdet(Q)
    empty((2, 3), like=A).shape  empty_like(A).shape  positive(A)
    fft.fft(C)  fft.fft(A, 5, 0, 'ortho')  fft.ifft(C, axis=0)  fft.rfft(A)  fft.irfft(C, n=7)
    fft.hfft(C)  fft.ihfft(A)  fft.fft2(A)  fft.ifft2(C, (4, 5))  fft.rfft2(A)  fft.irfft2(C)
    fft.fftn(A, axes=(0, 1))  fft.ifftn(C)  fft.rfftn(A)  fft.irfftn(C)  fft.fftshift(A)
    fft.ifftshift(v)
"""
"""`A` and `B` are matrices, `C` is a complex one, `Q` is positive definite; `v` and `i` are
vectors, of integers `i`."""

APART = {"copyto", "unique_values"}
"""What is compared in a test of its own."""


def calls() -> list[str]:
    return [call for line in CALLS.splitlines() for call in line.strip().split("  ") if call]


def given() -> dict[str, Any]:
    chance = np.random.default_rng(7)
    a, b = chance.random((2, 6, 12))
    a[2, 3] = a[4, 3]
    return {
        "A": a,
        "B": b,
        "C": a - 1j * b,
        "Q": a @ a.T + 6 * np.eye(6),
        "v": np.sort(chance.random(12)),
        "i": chance.integers(0, 7, 40),
    }


def plain(found: Any) -> Any:
    if isinstance(found, oc.Array):
        return found.compute()
    return [plain(x) for x in found] if isinstance(found, list | tuple) else found


def same(found: Any, expected: Any) -> None:
    if isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            same(one, other)
    elif isinstance(expected, np.ndarray | np.generic):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    else:
        assert found == expected


@pytest.mark.parametrize("call", calls())
def test_as_numpy(call: str) -> None:
    name = call.partition("(")[0]
    if not name.startswith(("linalg.", "fft.", "lib.")) and not hasattr(np, name):
        pytest.skip("this NumPy has none")
    memory = given()
    ours = {key: oc.asarray(value) for key, value in memory.items()}
    same(plain(eval("np." + call, {"np": np, **ours})), eval("np." + call, {"np": np, **memory}))


def test_copyto() -> None:
    target = oc.asarray(np.zeros((6, 12)))
    memory = given()["A"]
    np.copyto(target, oc.asarray(memory), where=memory > 0.5)
    np.testing.assert_array_equal(target.compute(), np.where(memory > 0.5, memory, 0))


def test_unique_values() -> None:
    # NumPy gives them in any order.
    memory = given()["i"]
    found = np.unique_values(oc.asarray(memory))
    np.testing.assert_array_equal(np.sort(found), np.sort(np.unique_values(memory)))


def test_every_registered_function_is_compared() -> None:
    compared = {call.partition("(")[0] for call in calls()} | APART
    registered = {
        re.sub(r"^numpy\.", "", f"{getattr(f, '__module__', 'numpy')}.{f.__name__}")
        for f in implemented()
    }
    assert registered == compared


def test_nothing_is_registered_twice() -> None:
    for function in (np.sum, next(iter(REFUSALS))):
        with pytest.raises(RuntimeError, match="registered twice"):
            implements(function)(lambda x: x)


@pytest.mark.parametrize("function", REFUSALS, ids=lambda f: f.__name__)
def test_refusals(function: Any) -> None:
    message = REFUSALS[function].format(name=f"numpy.{function.__name__}")
    with pytest.raises(oc.UnsupportedError, match=re.escape(message)):
        oc.ones(3).__array_function__(function, (oc.Array,), (oc.ones(3),), {})
