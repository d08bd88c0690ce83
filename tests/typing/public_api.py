"""Every public name, and the type that checkers find for it.

It is never run: `test_types.py` has mypy and Pyright read it, and walks the public names, each of
which has to be in here.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import outcrop as oc
from outcrop import Array
from outcrop.array_api.set_functions import (
    UniqueAllResult,
    UniqueCountsResult,
    UniqueInverseResult,
)
from outcrop.array_api.sorting_functions import TopKResult
from outcrop.arrays.attached import Attach, Attachment
from outcrop.loops import Dependence, Loops
from outcrop.program.report import Traffic

# -- functions of the main namespace ---------------------------------------------------------------


def functions(A: Array, B: Array, I: Array, J: Array, path: str) -> None:  # noqa: E741
    assert_type(oc.load(path), Array)
    assert_type(oc.create(path, (3, 4), "float32", tile=2), Array)
    assert_type(oc.from_dask(oc.open(path).to_dask()), Array)
    assert_type(oc.asarray(A), Array)
    assert_type(oc.flip(A), Array)
    assert_type(oc.fromfunction(np.hypot, A.shape), Array)
    assert_type(oc.matmul(A.T, B[:, :100]), Array)
    assert_type(oc.open(path), Array)
    assert_type(oc.permute_dims(A, (1, 0)), Array)
    assert_type(oc.rotate(A), Array)
    assert_type(oc.transpose(A), Array)
    assert_type(oc.cumulative_prod(A, axis=0), Array)
    assert_type(oc.cumulative_sum(A, axis=1), Array)
    assert_type(oc.diff(A), Array)
    assert_type(oc.nancumprod(A, axis=1), Array)
    assert_type(oc.nancumsum(A, axis=0), Array)
    assert_type(oc.trapezoid(A), Array)
    assert_type(oc.matrix_transpose(A), Array)
    assert_type(oc.moveaxis(A, 0, 1), Array)
    assert_type(oc.pad(A, 3), Array)
    assert_type(oc.repeat(A, 2, axis=0), Array)
    assert_type(oc.reshape(A, -1), Array)
    assert_type(oc.roll(A, 5), Array)
    assert_type(oc.swapaxes(A, 0, 1), Array)
    assert_type(oc.tile(A, 2), Array)
    assert_type(oc.arange(30), Array)
    assert_type(oc.empty(A.shape), Array)
    assert_type(oc.empty_like(A), Array)
    assert_type(oc.eye(8), Array)
    assert_type(oc.from_dlpack(A), Array)
    assert_type(oc.full(A.shape, 2.5), Array)
    assert_type(oc.full_like(A, 2), Array)
    assert_type(oc.linspace(0, 1, 30), Array)
    assert_type(oc.ones(A.shape), Array)
    assert_type(oc.ones_like(A), Array)
    assert_type(oc.zeros(A.shape), Array)
    assert_type(oc.zeros_like(A), Array)
    assert_type(oc.unique_values(I), Array)
    assert_type(oc.digitize(A, [0.1, 0.5]), Array)
    assert_type(oc.imag(A + 1j), Array)
    assert_type(oc.interp(A, [0, 1], [1, 2]), Array)
    assert_type(oc.isclose(A, B), Array)
    assert_type(oc.isin(I, [1, 5]), Array)
    assert_type(oc.nan_to_num(A), Array)
    assert_type(oc.real(A + 1j), Array)
    assert_type(oc.round(A), Array)
    assert_type(oc.searchsorted([0.5], A), Array)
    assert_type(oc.tril(A), Array)
    assert_type(oc.triu(A), Array)
    assert_type(oc.lib.stride_tricks.sliding_window_view(A, 3, axis=1), Array)
    assert_type(oc.amax(A, 0), Array)
    assert_type(oc.amin(A), Array)
    assert_type(oc.append(A, B, 0), Array)
    assert_type(oc.argwhere(A > 0.5), Array)
    assert_type(oc.array(A), Array)
    assert_type(oc.column_stack([A, B]), Array)
    assert_type(oc.concatenate([A, B], 1), Array)
    assert_type(oc.cumprod(A, 1), Array)
    assert_type(oc.cumsum(A), Array)
    assert_type(oc.diag(A[0]), Array)
    assert_type(oc.dot(A.T, B[:, :100]), Array)
    assert_type(oc.dstack([A, B]), Array)
    assert_type(oc.fliplr(A), Array)
    assert_type(oc.flipud(A), Array)
    assert_type(oc.hstack([A, B]), Array)
    assert_type(oc.identity(8), Array)
    assert_type(oc.inner(A, B[:100]), Array)
    assert_type(oc.ravel(A), Array)
    assert_type(oc.rot90(A, 3), Array)
    assert_type(oc.trace(A), Array)
    assert_type(oc.vdot(A, B), Array)
    assert_type(oc.vstack([A, B]), Array)
    assert_type(oc.abs(A), Array)
    assert_type(oc.acos(A), Array)
    assert_type(oc.acosh(A + 1), Array)
    assert_type(oc.add(A, B), Array)
    assert_type(oc.asin(A), Array)
    assert_type(oc.asinh(A), Array)
    assert_type(oc.atan(A), Array)
    assert_type(oc.atan2(A, B), Array)
    assert_type(oc.atanh(A), Array)
    assert_type(oc.bitwise_and(I, J), Array)
    assert_type(oc.bitwise_invert(I), Array)
    assert_type(oc.bitwise_left_shift(I, J), Array)
    assert_type(oc.bitwise_or(I, J), Array)
    assert_type(oc.bitwise_right_shift(I, J), Array)
    assert_type(oc.bitwise_xor(I, J), Array)
    assert_type(oc.ceil(A), Array)
    assert_type(oc.conj(A + 1j), Array)
    assert_type(oc.copysign(A, B), Array)
    assert_type(oc.cos(A), Array)
    assert_type(oc.cosh(A), Array)
    assert_type(oc.divide(A, B + 1), Array)
    assert_type(oc.equal(A, B), Array)
    assert_type(oc.exp(A), Array)
    assert_type(oc.expm1(A), Array)
    assert_type(oc.floor(A), Array)
    assert_type(oc.floor_divide(A, B + 1), Array)
    assert_type(oc.greater(A, B), Array)
    assert_type(oc.greater_equal(A, B), Array)
    assert_type(oc.hypot(A, B), Array)
    assert_type(oc.isfinite(A), Array)
    assert_type(oc.isinf(A), Array)
    assert_type(oc.isnan(A), Array)
    assert_type(oc.less(A, B), Array)
    assert_type(oc.less_equal(A, B), Array)
    assert_type(oc.log(A + 1), Array)
    assert_type(oc.log10(A + 1), Array)
    assert_type(oc.log1p(A), Array)
    assert_type(oc.log2(A + 1), Array)
    assert_type(oc.logaddexp(A, B), Array)
    assert_type(oc.logical_and(A, B), Array)
    assert_type(oc.logical_not(A), Array)
    assert_type(oc.logical_or(A, B), Array)
    assert_type(oc.logical_xor(A, B), Array)
    assert_type(oc.maximum(A, B), Array)
    assert_type(oc.minimum(A, B), Array)
    assert_type(oc.multiply(A, B), Array)
    assert_type(oc.negative(A), Array)
    assert_type(oc.nextafter(A, B), Array)
    assert_type(oc.not_equal(A, B), Array)
    assert_type(oc.positive(A), Array)
    assert_type(oc.pow(A, B), Array)
    assert_type(oc.reciprocal(A + 1), Array)
    assert_type(oc.remainder(A, B + 1), Array)
    assert_type(oc.sign(A), Array)
    assert_type(oc.signbit(A), Array)
    assert_type(oc.sin(A), Array)
    assert_type(oc.sinh(A), Array)
    assert_type(oc.sqrt(A), Array)
    assert_type(oc.square(A), Array)
    assert_type(oc.subtract(A, B), Array)
    assert_type(oc.tan(A), Array)
    assert_type(oc.tanh(A), Array)
    assert_type(oc.trunc(A), Array)
    assert_type(oc.astype(A, "float32"), Array)
    assert_type(oc.broadcast_to(A[:1], A.shape), Array)
    assert_type(oc.clip(A, 0.1, 0.5), Array)
    assert_type(oc.concat([A, B]), Array)
    assert_type(oc.expand_dims(A, axis=0), Array)
    assert_type(oc.map(np.hypot, A, B), Array)
    assert_type(oc.squeeze(A[None], axis=0), Array)
    assert_type(oc.stack([A, B]), Array)
    assert_type(oc.where(A > 0.5, A, B), Array)
    assert_type(oc.einsum("ij,ij->i", A, B), Array)
    assert_type(oc.outer(A[:, 0], B[0]), Array)
    assert_type(oc.tensordot(A, B[:, :100], axes=((0,), (0,))), Array)
    assert_type(oc.vecdot(A, B), Array)
    assert_type(oc.median(A), Array)
    assert_type(oc.nanmedian(A), Array)
    assert_type(oc.nanpercentile(A, [5, 95]), Array)
    assert_type(oc.nanquantile(A, 0.5), Array)
    assert_type(oc.percentile(A, 5), Array)
    assert_type(oc.quantile(A, 0.5, axis=0), Array)
    assert_type(oc.argsort(A), Array)
    assert_type(oc.partition(A, 5), Array)
    assert_type(oc.sort(A, axis=0), Array)
    assert_type(oc.argmax(A), Array)
    assert_type(oc.argmin(A, axis=1), Array)
    assert_type(oc.count_nonzero(A, axis=0), Array)
    assert_type(oc.nanargmax(A), Array)
    assert_type(oc.nanargmin(A, axis=0), Array)
    assert_type(oc.compress(A[:, 0] > 0.5, A, axis=0), Array)
    assert_type(oc.diagonal(A), Array)
    assert_type(oc.extract(A > 0.9999, A), Array)
    assert_type(oc.flatnonzero(A > 0.9999), Array)
    assert_type(oc.take(A, [3, 1], axis=0), Array)
    assert_type(oc.take_along_axis(A, oc.argmax(A, axis=0, keepdims=True), axis=0), Array)
    assert_type(oc.all(A), Array)
    assert_type(oc.any(A, axis=1), Array)
    assert_type(oc.max(A), Array)
    assert_type(oc.mean(A, axis=0), Array)
    assert_type(oc.min(A, axis=1), Array)
    assert_type(oc.nanmax(A), Array)
    assert_type(oc.nanmean(A, axis=0), Array)
    assert_type(oc.nanmin(A), Array)
    assert_type(oc.nanprod(A), Array)
    assert_type(oc.nanstd(A), Array)
    assert_type(oc.nansum(A, axis=1), Array)
    assert_type(oc.nanvar(A, axis=0), Array)
    assert_type(oc.prod(A), Array)
    assert_type(oc.ptp(A), Array)
    assert_type(oc.std(A), Array)
    assert_type(oc.sum(A), Array)
    assert_type(oc.var(A, axis=1), Array)


def second_names(A: Array, B: Array) -> None:
    assert_type(oc.absolute(A), Array)
    assert_type(oc.arccos(A), Array)
    assert_type(oc.arccosh(A), Array)
    assert_type(oc.arcsin(A), Array)
    assert_type(oc.arcsinh(A), Array)
    assert_type(oc.arctan(A), Array)
    assert_type(oc.arctanh(A), Array)
    assert_type(oc.bitwise_not(A), Array)
    assert_type(oc.conjugate(A), Array)
    assert_type(oc.invert(A), Array)
    assert_type(oc.around(A), Array)
    assert_type(oc.arctan2(A, B), Array)
    assert_type(oc.left_shift(A, B), Array)
    assert_type(oc.mod(A, B), Array)
    assert_type(oc.power(A, B), Array)
    assert_type(oc.right_shift(A, B), Array)
    assert_type(oc.true_divide(A, B), Array)


def functions_that_give_several(A: Array, B: Array, I: Array) -> None:  # noqa: E741
    assert_type(oc.array_split(A, 3), list[Array])
    assert_type(oc.broadcast_arrays(A, B[:1]), tuple[Array, ...])
    assert_type(oc.split(A, 2), list[Array])
    assert_type(oc.unstack(A[:3]), tuple[Array, ...])
    assert_type(oc.meshgrid(A[0], B[:, 0]), tuple[Array, ...])
    assert_type(oc.nonzero(A > 0.5), tuple[Array, ...])
    assert_type(oc.histogram(A, 20), tuple[NDArray[Any], NDArray[Any]])
    assert_type(oc.bincount(I[0]), NDArray[np.intp])
    assert_type(oc.unique_all(I), UniqueAllResult)
    assert_type(oc.unique_counts(I), UniqueCountsResult)
    assert_type(oc.unique_inverse(I), UniqueInverseResult)
    assert_type(oc.top_k(A, 3), TopKResult)
    assert_type(oc.compute(A.sum(axis=0), A.max(), B[:500]), tuple[NDArray[Any], ...])
    assert_type(oc.save({"1.npy": A + B, "2.zarr": A.T}), dict[str | os.PathLike[str], Array])


def functions_whose_flags_decide(A: Array, B: Array, I: Array, either: bool) -> None:  # noqa: E741
    assert_type(oc.average(A, axis=1, weights=B[0]), Array)
    assert_type(oc.average(A, axis=1, returned=True), tuple[Array, Array])
    assert_type(oc.unique(I), NDArray[Any])
    assert_type(oc.unique(I, return_counts=True), tuple[NDArray[Any], NDArray[np.intp]])
    assert_type(
        oc.unique(I, return_counts=either),
        NDArray[Any] | tuple[NDArray[Any], NDArray[np.intp]],
    )
    assert_type(oc.atleast_1d(A), Array)
    assert_type(oc.atleast_2d(A), Array)
    assert_type(oc.atleast_3d(A), Array)
    assert_type(oc.atleast_1d(A, B), tuple[Array, ...])
    assert_type(oc.atleast_2d(A, B), tuple[Array, ...])
    assert_type(oc.atleast_3d(A, B), tuple[Array, ...])
    # The number of axes decides whether it is a tuple.
    assert_type(oc.gradient(A), Array | Any)
    assert_type(oc.gradient(A, axis=0), Array)
    assert_type(oc.gradient(A, 0.5, axis=(0, 1), edge_order=2), Array | Any)


def functions_that_tell(A: Array, B: Array) -> None:
    assert_type(oc.allclose(A, B), bool)
    assert_type(oc.array_equal(A, B), bool)
    assert_type(oc.broadcast_shapes(A.shape, (1, 1)), tuple[int, ...])
    assert_type(oc.can_cast(A, "float32"), bool)
    assert_type(oc.finfo(A), np.finfo[Any])
    assert_type(oc.iinfo("int8"), np.iinfo[Any])
    assert_type(oc.isdtype(A.dtype, "numeric"), bool)
    assert_type(oc.result_type(A, B, 1), np.dtype[Any])
    assert_type(oc.doctor(".", quick=True), dict[str, Any])
    assert_type(oc.last_run(), oc.Run | None)
    assert_type(oc.plan(A.T, "new.npy"), oc.Plan)
    assert_type(oc.plan({"a.npy": A, Path("b.npy"): B}), oc.Plan)
    info = oc.__array_namespace_info__()
    assert_type(oc.__array_namespace_info__().default_device(), str)
    assert_type(info.devices(), tuple[str, ...])
    assert_type(info.capabilities(), dict[str, Any])
    assert_type(info.default_dtypes(), dict[str, np.dtype[Any]])
    assert_type(info.dtypes(kind="bool"), dict[str, np.dtype[Any]])


def constants() -> None:
    assert_type(oc.__version__, str)
    assert_type(oc.__array_api_version__, str)
    assert_type(oc.e, float)
    assert_type(oc.inf, float)
    assert_type(oc.nan, float)
    assert_type(oc.newaxis, None)
    assert_type(oc.pi, float)
    assert_type(oc.bool, type[np.bool])
    assert_type(oc.int8, type[np.int8])
    assert_type(oc.int16, type[np.int16])
    assert_type(oc.int32, type[np.int32])
    assert_type(oc.int64, type[np.int64])
    assert_type(oc.uint8, type[np.uint8])
    assert_type(oc.uint16, type[np.uint16])
    assert_type(oc.uint32, type[np.uint32])
    assert_type(oc.uint64, type[np.uint64])
    assert_type(oc.float32, type[np.float32])
    assert_type(oc.float64, type[np.float64])
    assert_type(oc.complex64, type[np.complex64])
    assert_type(oc.complex128, type[np.complex128])


# -- arrays ----------------------------------------------------------------------------------------


def what_arrays_are(A: Array) -> None:
    assert_type(A.T, Array)
    assert_type(A.attach, Attach)
    assert_type(A.attributes, dict[str, Any])
    assert_type(A.chunks, tuple[tuple[int, ...], ...])
    assert_type(A.device, str)
    assert_type(A.dimension_names, tuple[str | None, ...] | None)
    assert_type(A.dtype, np.dtype[Any])
    assert_type(A.fill_value, Any)
    assert_type(A.format, str | None)
    assert_type(A.imag, Array)
    assert_type(A.itemsize, int)
    assert_type(A.layout, str)
    assert_type(A.mT, Array)
    assert_type(A.nbytes, int)
    assert_type(A.ndim, int)
    assert_type(A.path, Path | None)
    assert_type(A.real, Array)
    assert_type(A.shape, tuple[int, ...])
    assert_type(A.size, int)
    assert_type(A.thickness, int | None)
    assert_type(A.tile, tuple[int, ...])
    assert_type(A.writable, bool)


def methods(A: Array, B: Array) -> None:
    assert_type(A.all(), Array)
    assert_type(A.any(axis=0), Array)
    assert_type(A.argmax(), Array)
    assert_type(A.argmin(axis=1), Array)
    assert_type(A.astype("float32"), Array)
    assert_type(A.clip(0.1, max=0.5), Array)
    assert_type(A.compress(A[:, 0] > 0.5, axis=0), Array)
    assert_type(A.conj(), Array)
    assert_type(A.conjugate(), Array)
    assert_type(A.copy(), Array)
    assert_type(A.cumprod(axis=1), Array)
    assert_type(A.cumsum(), Array)
    assert_type(A.diagonal(1), Array)
    assert_type(A.dot(B), Array)
    assert_type(A.flatten("F"), Array)
    assert_type(A.mask_and_scale(), Array)
    assert_type(A.max(axis=(0, 1), keepdims=True), Array)
    assert_type(A.mean(axis=0, dtype="float64"), Array)
    assert_type(A.min(initial=0.0, where=A > 1), Array)
    assert_type(A.nonzero(), tuple[Array, ...])
    assert_type(A.prod(axis=0), Array)
    assert_type(A.ravel(), Array)
    assert_type(A.repeat(2, axis=1), Array)
    assert_type(A.reshape(1, -1), Array)
    assert_type(A.round(1), Array)
    assert_type(A.save("new.zarr", tile=250, codecs="zstd"), Array)
    assert_type(A.squeeze(), Array)
    assert_type(A.std(axis=0, ddof=1), Array)
    assert_type(A.sum(0, out=B), Array)
    assert_type(A.swapaxes(0, 1), Array)
    assert_type(A.take([5, 3], axis=0), Array)
    assert_type(A.to_device("cpu"), Array)
    assert_type(A.trace(), Array)
    assert_type(A.transpose(1, 0), Array)
    assert_type(A.var(correction=1), Array)


def methods_that_give_what_is_no_array(A: Array) -> None:
    assert_type(A.compute(), NDArray[Any])
    assert_type(A.tiles(), Iterator[tuple[tuple[slice, ...], NDArray[Any]]])
    assert_type(A.item(3, 4), Any)
    assert_type(A.tolist(), Any)
    assert_type(A.to_dask(), Any)
    A.flush()
    A.abort()
    A.close()


def operators(A: Array, B: Array) -> None:
    assert_type(A + B, Array)
    assert_type(1 + A, Array)
    assert_type(A - B, Array)
    assert_type(1.5 - A, Array)
    assert_type(A * 2j, Array)
    assert_type(2 * A, Array)
    assert_type(A @ B, Array)
    assert_type([1, 2] @ A, Array)
    assert_type(A / B, Array)
    assert_type(1 / A, Array)
    assert_type(A // B, Array)
    assert_type(7 // A, Array)
    assert_type(A % B, Array)
    assert_type(7 % A, Array)
    assert_type(divmod(A, B), tuple[Array, Array])
    assert_type(divmod(7, A), tuple[Array, Array])
    assert_type(A**2, Array)
    assert_type(2**A, Array)
    assert_type(A << 1, Array)
    assert_type(1 << A, Array)
    assert_type(A >> B, Array)
    assert_type(1 >> A, Array)
    assert_type(A & B, Array)
    assert_type(1 & A, Array)
    assert_type(A | B, Array)
    assert_type(1 | A, Array)
    assert_type(A ^ B, Array)
    assert_type(1 ^ A, Array)
    assert_type(-A, Array)
    assert_type(+A, Array)
    assert_type(~A, Array)
    assert_type(abs(A), Array)
    assert_type(A < B, Array)
    assert_type(A <= 1, Array)
    assert_type(A > B, Array)
    assert_type(A >= 1, Array)
    assert_type(A == B, Array)
    assert_type(A != 1, Array)


def operators_in_place(A: Array, B: Array) -> None:
    A += B
    A -= 1
    A *= B
    A @= B
    A /= 2
    A //= 2
    A %= 2
    A **= 2
    A <<= 1
    A >>= 1
    A &= B
    A |= 1
    A ^= B
    assert_type(A, Array)


def protocols(A: Array, B: Array) -> None:
    assert_type(A[0], Array)
    assert_type(A[5:, None, ..., [1, 2]], Array)
    assert_type(A[A > 0.5], Array)
    A[3:, 5] = B[3:, 5]
    A[A > 0.5] = 0
    assert_type(next(iter(A)), Array)
    for row in A:
        assert_type(row, Array)
    with A as opened:
        assert_type(opened, Array)
    assert_type(2.5 in A, bool)
    assert_type(len(A), int)
    assert_type(bool(A), bool)
    assert_type(int(A), int)
    assert_type(float(A), float)
    assert_type(complex(A), complex)
    assert_type(hash(A), int)
    assert_type(round(A, 1), Any)
    assert_type(format(A, ".3f"), str)
    assert_type([1, 2, 3][A], int)
    assert_type(np.asarray(A), NDArray[Any])
    assert_type(A.__array_namespace__(), ModuleType)
    assert_type(A.__dlpack_device__(), tuple[int, int])


def elements_in_memory(A: Array) -> None:
    attached = A.attach[5:, 3]
    assert_type(attached, Attachment)
    assert_type(attached.array, NDArray[Any])
    assert_type(attached.is_released, bool)
    attached.discard()
    attached.release()
    with A.attach[:3] as rows:
        assert_type(rows, NDArray[Any])


# -- modules ---------------------------------------------------------------------------------------


def linear_algebra(
    A: Array, B: Array, Q: Array, L: Array, F: oc.linalg.LUFactors, H: oc.linalg.LDLFactor
) -> None:
    assert_type(oc.linalg.cholesky(Q), Array)
    assert_type(oc.linalg.diagonal(A), Array)
    assert_type(oc.linalg.matmul(A, B.T[:, :100]), Array)
    assert_type(oc.linalg.matrix_transpose(A), Array)
    assert_type(oc.linalg.norm(A), Array)
    assert_type(oc.linalg.matrix_norm(A), Array)
    assert_type(oc.linalg.vector_norm(A), Array)
    assert_type(oc.linalg.outer(A[0], B[0]), Array)
    assert_type(oc.linalg.cho_solve((L, True), Q[:, :300]), Array)
    assert_type(oc.linalg.solve(Q, Q[0], refine="float32"), Array)
    assert_type(oc.linalg.det(Q), Array)
    assert_type(oc.linalg.inv(Q[:900, :900]), Array)
    assert_type(oc.linalg.lu_solve(F, Q[:, :300]), Array)
    assert_type(oc.linalg.solve_triangular(L, Q[:, :300], lower=True), Array)
    assert_type(oc.linalg.ldl_solve(H, Q[:, :300]), Array)
    assert_type(oc.linalg.cho_inv((L, True)), Array)
    assert_type(oc.linalg.tensordot(A, B[0], axes=1), Array)
    assert_type(oc.linalg.trace(A), Array)
    assert_type(oc.linalg.vecdot(A, B), Array)
    assert_type(oc.linalg.solve(Q, B, assume="pos"), Array)
    assert_type(oc.linalg.cond(Q), float)
    assert_type(oc.linalg.gecon(F, 1.0), float)
    assert_type(oc.linalg.pocon(L, 1.0), float)
    assert_type(oc.linalg.sycon(H, 1.0), float)
    assert_type(oc.linalg.lu(A), tuple[Array, Array, Array])
    assert_type(oc.linalg.lu(A, p_indices=True), tuple[Array, Array, Array])
    assert_type(oc.linalg.lu(A, permute_l=True), tuple[Array, Array])
    assert_type(oc.linalg.cho_factor(Q), oc.linalg.CholeskyFactor)
    assert_type(oc.linalg.cho_update((L, True), Q[:, :5]), oc.linalg.CholeskyFactor)
    assert_type(oc.linalg.gerfs(Q, F, B, B), oc.linalg.GerfsResult)
    assert_type(oc.linalg.gesvx(Q, B), oc.linalg.GesvxResult)
    assert_type(oc.linalg.inertia(H), oc.linalg.Inertia)
    assert_type(oc.linalg.ldl_factor(Q), oc.linalg.LDLFactor)
    assert_type(oc.linalg.lu_factor(Q), oc.linalg.LUFactors)
    assert_type(oc.linalg.porfs(Q, L, B, B), oc.linalg.GerfsResult)
    assert_type(oc.linalg.posvx(Q, B), oc.linalg.PosvxResult)
    assert_type(oc.linalg.slogdet(Q), oc.linalg.SlogdetResult)
    assert_type(oc.linalg.solve_mixed(Q, B), oc.linalg.MixedSolution)


def results(
    cholesky: oc.linalg.CholeskyFactor,
    refined: oc.linalg.GerfsResult,
    solved: oc.linalg.GesvxResult,
    inertia: oc.linalg.Inertia,
    ldl: oc.linalg.LDLFactor,
    lu: oc.linalg.LUFactors,
    mixed: oc.linalg.MixedSolution,
    positive: oc.linalg.PosvxResult,
    slogdet: oc.linalg.SlogdetResult,
    everything: UniqueAllResult,
    counts: UniqueCountsResult,
    inverse: UniqueInverseResult,
    largest: TopKResult,
) -> None:
    assert_type(cholesky.c, Array)
    assert_type(cholesky.lower, bool)
    assert_type(refined.x, Array)
    assert_type(refined.ferr, NDArray[np.float64])
    assert_type(refined.berr, NDArray[np.float64])
    assert_type(solved.x, Array)
    assert_type(solved.ferr, NDArray[np.float64])
    assert_type(solved.berr, NDArray[np.float64])
    assert_type(solved.rcond, float)
    assert_type(solved.lu, Array)
    assert_type(solved.piv, Array)
    assert_type(solved.r, Array | None)
    assert_type(solved.c, Array | None)
    assert_type(inertia.positive, int)
    assert_type(inertia.negative, int)
    assert_type(inertia.zero, int)
    assert_type(ldl.factor, Array)
    assert_type(ldl.d, Array)
    assert_type(ldl.rows, Array)
    assert_type(ldl.lower, bool)
    assert_type(ldl.hermitian, bool)
    assert_type(lu.lu, Array)
    assert_type(lu.piv, Array)
    assert_type(mixed.x, Array)
    assert_type(mixed.iterations, int)
    assert_type(positive.x, Array)
    assert_type(positive.ferr, NDArray[np.float64])
    assert_type(positive.berr, NDArray[np.float64])
    assert_type(positive.rcond, float)
    assert_type(positive.factor, Array)
    assert_type(slogdet.sign, Array)
    assert_type(slogdet.logabsdet, Array)
    assert_type(everything.values, Array)
    assert_type(everything.indices, Array)
    assert_type(everything.inverse_indices, Array)
    assert_type(everything.counts, Array)
    assert_type(counts.values, Array)
    assert_type(counts.counts, Array)
    assert_type(inverse.values, Array)
    assert_type(inverse.inverse_indices, Array)
    assert_type(largest.values, Array)
    assert_type(largest.indices, Array)


def blas(A: Array, B: Array, C: Array, n: NDArray[np.float64]) -> None:
    # It is what is changed that is returned: an array of ours, or of NumPy's.
    assert_type(oc.blas.gemm(2.0, A, B, beta=1.0, C=C, trans_b="T"), Array | Any)
    assert_type(oc.blas.gemm(2.0, A, B, C=n), Array | Any)
    assert_type(oc.blas.hemm(1j, A, B, C=C, uplo="U"), Array | Any)
    assert_type(oc.blas.her2k(1.0, A, B, C=C), Array | Any)
    assert_type(oc.blas.herk(1.0, A, C=C, trans="C"), Array | Any)
    assert_type(oc.blas.symm(1.0, A, B, C=C, side="R"), Array | Any)
    assert_type(oc.blas.syr2k(1.0, A, B, C=C), Array | Any)
    assert_type(oc.blas.syrk(1.0, A, C=C), Array | Any)
    assert_type(oc.blas.trmm(1.0, A, B, diag="U"), Array | Any)
    assert_type(oc.blas.trsm(1.0, A, B), Array | Any)
    assert_type(oc.blas.gemm.plan(2.0, A, B, C=C), oc.Plan)


def fourier(A: Array) -> None:
    assert_type(oc.fft.fft(A), Array)
    assert_type(oc.fft.fft2(A), Array)
    assert_type(oc.fft.fftfreq(30), Array)
    assert_type(oc.fft.fftn(A), Array)
    assert_type(oc.fft.fftshift(A), Array)
    assert_type(oc.fft.hfft(A), Array)
    assert_type(oc.fft.ifft(A), Array)
    assert_type(oc.fft.ifft2(A), Array)
    assert_type(oc.fft.ifftn(A), Array)
    assert_type(oc.fft.ifftshift(A), Array)
    assert_type(oc.fft.ihfft(A), Array)
    assert_type(oc.fft.irfft(A), Array)
    assert_type(oc.fft.irfft2(A), Array)
    assert_type(oc.fft.irfftn(A), Array)
    assert_type(oc.fft.rfft(A), Array)
    assert_type(oc.fft.rfft2(A), Array)
    assert_type(oc.fft.rfftfreq(30), Array)
    assert_type(oc.fft.rfftn(A), Array)


def random(generator: oc.random.Generator) -> None:
    assert_type(oc.random.default_rng(1), oc.random.Generator)
    assert_type(generator.integers(0, 9, (3, 4), "int8"), Array)
    assert_type(generator.normal(0.0, 1.0, (3, 4)), Array)
    assert_type(generator.random((3, 4)), Array)
    assert_type(generator.standard_normal(3, np.float32), Array)
    assert_type(generator.uniform(0, 2, size=(3, 4)), Array)


def sweeps(A: Array, B: Array, function: Callable[..., None]) -> None:
    assert_type(oc.sweeps.adi(A, 0.5), Array)
    assert_type(oc.sweeps.gauss_seidel(A, B, sweeps=9), Array)
    assert_type(oc.sweeps.heat(oc.reshape(A, (150, 150, 150)), 0.1, sweeps=4), Array)
    assert_type(oc.sweeps.jacobi(A, B, sweeps=4), Array)
    assert_type(oc.sweeps.livermore23(A, B, B, A, A, B, sweeps=4), Array)
    assert_type(oc.sweeps.red_black(A, B, sweeps=2), Array)
    assert_type(oc.sweeps.sor(A, B, 1.5, sweeps=4), Array)
    assert_type(oc.sweeps.gauss_seidel(A, B, sweeps=9, until=1e-6), oc.sweeps.Settled)
    assert_type(oc.sweeps.heat(A, 0.1, sweeps=9, until=1e-6), oc.sweeps.Settled)
    assert_type(oc.sweeps.jacobi(A, B, sweeps=9, until=1e-6), oc.sweeps.Settled)
    assert_type(oc.sweeps.livermore23(A, B, B, A, A, B, sweeps=9, until=1e-6), oc.sweeps.Settled)
    assert_type(oc.sweeps.red_black(A, B, sweeps=9, until=1e-6), oc.sweeps.Settled)
    assert_type(oc.sweeps.sor(A, B, 1.5, sweeps=9, until=1e-6), oc.sweeps.Settled)
    assert_type(oc.sweeps.wave_equation(A, B, A, sweeps=3), tuple[Array, Array])
    assert_type(oc.sweeps.index(0), int)
    assert_type(oc.sweeps.sweep_number(), int)
    assert_type(oc.sweep(function), oc.sweeps.Sweep)
    assert_type(oc.sweep(inplace=False)(function), oc.sweeps.Sweep)


def what_sweeps_are(made: oc.sweeps.Sweep, settled: oc.sweeps.Settled, A: Array) -> None:
    # Of several arrays it is a tuple, which the function decides.
    assert_type(made(A, sweeps=3), Array | Any)
    assert_type(made(A, sweeps=3, until=1e-3), oc.sweeps.Settled | Any)
    assert_type(made.cell.name, str)
    assert_type(made.inplace, bool)
    assert_type(made.boundary, tuple[str, ...])
    assert_type(made.directions, tuple[tuple[int, ...], ...])
    assert_type(settled.change, float)
    assert_type(settled.converged, bool)
    assert_type(settled.sweeps, int)
    assert_type(settled + 1, Array)


def loop_nests(nest: Loops, A: Array, function: Callable[..., None]) -> None:
    assert_type(oc.loops(function), Loops)
    assert_type(oc.loops(order="relaxed")(function), Loops)
    assert_type(nest.order, str)
    assert_type(nest.plan(A, 3), oc.LoopsPlan)
    assert_type(nest.source(A, 3), str)
    nest.compile(A, 3)
    nest(A, 3)


# -- settings, plans and errors --------------------------------------------------------------------


def settings(given: oc.Config) -> None:
    assert_type(oc.config(memory="64MiB", threads=2), oc.Config)
    with oc.config() as inside:
        assert_type(inside, oc.Config)
    assert_type(given.engine in ("auto", "uring", "threads"), bool)
    assert_type(given.memory, int)
    assert_type(given.progress, bool)
    assert_type(given.scratch, Path | None)
    assert_type(given.scratch_held, int)
    assert_type(given.threads, int)
    assert_type(given.timeline, Path | None)


def plans(
    plan: oc.Plan,
    expression: oc.ExpressionPlan,
    movement: oc.MovementPlan,
    sweep: oc.SweepPlan,
    loops: oc.LoopsPlan,
) -> None:
    assert_type(plan.bytes_read, int)
    assert_type(plan.bytes_written, int)
    assert_type(plan.compute_seconds, float)
    assert_type(plan.explain(), str)
    assert_type(plan.flops, float)
    assert_type(plan.io_seconds, float)
    assert_type(plan.is_exact, bool)
    assert_type(plan.lower_bound, int | None)
    assert_type(plan.operation, str)
    assert_type(plan.peak_bytes, int)
    assert_type(plan.scratch_bytes, int)
    assert_type(plan.seconds, float)
    assert_type(plan.waste, float)
    plan.show("plan.svg")
    assert_type(expression.explain(), str)
    assert_type(movement.explain(), str)
    assert_type(movement.movement, str)
    assert_type(sweep.depth, int)
    assert_type(sweep.reason, str | None)
    assert_type(sweep.sweeps, int)
    assert_type(loops.dependences, list[Dependence])
    assert_type(loops.explain(), str)
    assert_type(loops.products, list[str])
    assert_type(loops.reasons, list[str])
    assert_type(loops.schedule, str)
    assert_type(loops.steps, int)
    assert_type(loops.tiles, list[tuple[int, ...]])
    assert_type(loops.traffic, list[Traffic])


def runs(run: oc.Run, traffic: Traffic) -> None:
    assert_type(run.bytes_read, int)
    assert_type(run.bytes_written, int)
    assert_type(run.explain(), str)
    assert_type(run.flops, float)
    assert_type(run.io_seconds, float)
    assert_type(run.kernels["gemm"], float)
    assert_type(run.operation, str)
    assert_type(run.overlap, float)
    assert_type(run.peak_bytes, int)
    assert_type(run.peak_rss, int)
    assert_type(run.seconds, float)
    assert_type(run.traffic, tuple[Traffic, ...])
    assert_type(traffic.array, str)
    assert_type(traffic.bytes_read, int)
    assert_type(traffic.bytes_written, int)
    assert_type(traffic.kernel, str)
    assert_type(traffic.waited, float)


def errors(
    budget: oc.BudgetError, matrix: oc.NotPositiveDefiniteError, busy: oc.ArrayBusyError
) -> None:
    assert_type(busy.errno, int | None)
    assert_type(budget.needed, int | None)
    assert_type(matrix.index, int | None)
    # Each is the built-in error that one would expect.
    system: list[OSError] = [
        oc.ArrayBusyError("busy", errno=16),
        oc.ChangedArrayError("changed"),
        oc.CorruptArrayError("corrupt"),
        oc.StorageError("refused"),
        oc.StorageFullError("full"),
    ]
    exists: FileExistsError = oc.ArrayExistsError("exists")
    missing: FileNotFoundError = oc.ArrayNotFoundError("missing")
    denied: PermissionError = oc.StoragePermissionError("denied")
    memory: MemoryError = budget
    values: list[ValueError] = [
        oc.ClosedArrayError("closed"),
        oc.InvalidArgumentError("invalid"),
        oc.NotFiniteError("infinite", index=3),
        oc.UnsupportedError("unsupported"),
    ]
    kind: TypeError = oc.InvalidTypeError("kind")
    place: list[IndexError] = [oc.BoxIndexError("outside"), oc.AxisError(3, 2)]
    zero: ZeroDivisionError = oc.DivisionByZeroError("zero")
    state: list[RuntimeError] = [
        oc.ForkedProcessError("forked"),
        oc.InternalError("internal"),
        oc.StaleOperandError("stale"),
    ]
    algebra: list[np.linalg.LinAlgError] = [matrix, oc.SingularMatrixError("singular")]
    ours: list[oc.OutcropError] = [budget, matrix, oc.InvalidTypeError("kind")]
    slow: UserWarning = oc.OutcropWarning("slow")
    print(system, exists, missing, denied, memory, values, kind, place, zero, state, algebra, ours)
    print(slow)
