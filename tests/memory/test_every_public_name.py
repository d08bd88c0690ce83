"""Every public name keeps to the budget with arrays that exceed it, or refuses before.

NumPy's functions have a test of their own. Each function gets an array whose chunks are compressed,
or one of shards of such chunks, in turn; what it gets besides, and what is written to, is a .npy
file, or has our tiles. What it gives is written to disk, so that nothing stays lazy.
Where the process may make a cgroup, the kernel ends whatever takes more than is allowed.
"""

import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import click
import pytest

import outcrop as oc
from outcrop import numpy_names
from outcrop.array_api import data_types
from outcrop.cli.app import group

MIB = 1 << 20
# Of calls: little, for arrays that are soon computed; of verbs, which start with what they load.
LITTLE, BUDGET = 16 * MIB, 64 * MIB
BESIDE = 200 * MIB
"""What a process may have beside the budget."""
COMPILING = 400 * MIB
"""What it may have where Numba compiles."""

# A and B are stored in different ways, larger than the budget, and random from 0 to 1. I and J are
# integers, Q is symmetric and positive definite, L its factor; v and w are a part of A and of B.
# A, I, Q and L are compressed, B and J are not.
FUNCTIONS = """
    compute(A.sum(axis=0), A.max(), B[:500])  from_dask(oc.open('{A}').to_dask())
    asarray(A)  asarray(A, dtype='float32')  __array_namespace_info__()
    config(memory=oc.config().memory)  doctor('.', quick=True)  flip(A)
    flip('{A}', 'new.npy', axis=0)  fromfunction(lambda i, j: i + j, A.shape)  last_run()
    matmul(A.T, B[:, :100])  open('{A}')  permute_dims(A, (1, 0))
    permute_dims('{A}', (1, 0), 'new.zarr')  plan(A.T, 'new.npy')  plan((A + B).sum(axis=0))
    plan(A.T @ B)  rotate(A)  rotate('{A}', 'new.npy', 90)  save({'1.npy': A + B, '2.zarr': A.T})
    transpose(A)  transpose('{A}', 'new.npy')

    cumulative_prod(A, axis=0)  cumulative_sum(A, axis=1)  diff(A)  nancumprod(A, axis=1)
    nancumsum(A, axis=0)  trapezoid(A)

    array_split(A, 3)  broadcast_arrays(A, B[:1])  broadcast_shapes(A.shape, (1, 1))
    matrix_transpose(A)  moveaxis(A, 0, 1)  pad(A, 3)
    repeat(A, 2, axis=0)  reshape(A, -1)  reshape(A, (1500, 2250))  roll(A, 5)  split(A, 2)
    swapaxes(A, 0, 1)  tile(A, 2)  unstack(A[:3])

    arange(3_500_000)  empty(A.shape)  empty_like(A)  eye(1850)  from_dlpack(A)  full(A.shape, 2.5)
    full_like(A, 2)  linspace(0, 1, 3_500_000)  meshgrid(A[0], B[:, 0])
    ones(A.shape)  ones_like(A)  zeros(A.shape)  zeros_like(A)

    bincount(oc.reshape(I, -1))  histogram(A, 20)  unique_all(I)  unique_counts(I)
    unique_inverse(I)  unique_values(I)

    can_cast(A, 'float32')  finfo(A)  iinfo(I)  isdtype(A.dtype, 'numeric')  result_type(A, I, 1)

    allclose(A, B)  digitize(A, [0.1, 0.5])  imag(A + 1j)  interp(A, [0, 1], [1, 2])
    isclose(A, B)  isin(I, [1, 5])  nan_to_num(A)  real(A + 1j)  round(A)  searchsorted([0.5], A)
    tril(A)  triu(A)

    gradient(A, axis=0)  gradient(A, 0.5, axis=1, edge_order=2)
    lib.stride_tricks.sliding_window_view(A, 3, axis=1)
    amax(A, 0)  amin(A)  append(A, B, 0)  argwhere(A > 0.5)  array(A)  array_equal(A, B)
    atleast_1d(A)  atleast_2d(A[0])  atleast_3d(A)  column_stack([A, B])  concatenate([A, B], 1)
    cumprod(A, 1)  cumsum(A)  diag(A[0])  diag(A, -3)  dot(A.T, B[:, :100])  dstack([A, B])
    fliplr(A)  flipud(A)  hstack([A, B])  identity(1850)  inner(A, B[:100])  load('D' + suffix)
    ravel(A)  rot90(A, 3)  trace(A)  unique(I)  vdot(A, B)  vstack([A, B])

    abs(A)  acos(A)  acosh(A + 1)  add(A, B)  asin(A)  asinh(A)  atan(A)  atan2(A, B)  atanh(A)
    bitwise_and(I, J)  bitwise_invert(I)  bitwise_left_shift(I, J)  bitwise_or(I, J)
    bitwise_right_shift(I, J)  bitwise_xor(I, J)  ceil(A)  conj(A + 1j)  copysign(A, B)  cos(A)
    cosh(A)  divide(A, B + 1)  equal(A, B)  exp(A)  expm1(A)  floor(A)  floor_divide(A, B + 1)
    greater(A, B)  greater_equal(A, B)  hypot(A, B)  isfinite(A)  isinf(A)  isnan(A)  less(A, B)
    less_equal(A, B)  log(A + 1)  log10(A + 1)  log1p(A)  log2(A + 1)  logaddexp(A, B)
    logical_and(A, B)  logical_not(A)  logical_or(A, B)  logical_xor(A, B)  maximum(A, B)
    minimum(A, B)  multiply(A, B)  negative(A)  nextafter(A, B)  not_equal(A, B)  positive(A)
    pow(A, B)  reciprocal(A + 1)  remainder(A, B + 1)  sign(A)  signbit(A)  sin(A)  sinh(A)
    sqrt(A)  square(A)  subtract(A, B)  tan(A)  tanh(A)  trunc(A)

    astype(A, 'float32')  broadcast_to(A[:1], A.shape)  clip(A, 0.1, 0.5)  concat([A, B])
    expand_dims(A, axis=0)  map(np.hypot, A, B)  squeeze(A[None], axis=0)  stack([A, B])
    where(A > 0.5, A, B)

    einsum('ij,ij->i', A, B)  einsum('ij,ik->jk', A, B[:, :100])  outer(A[:, 0], B[0])
    tensordot(A, B[:, :100], axes=((0,), (0,)))  vecdot(A, B)

    median(A)  median(A, axis=1)  nanmedian(A)  nanpercentile(A, [5, 95])  nanquantile(A, 0.5)
    percentile(A, 5)  quantile(A, 0.5, axis=0)  argsort(A)  partition(A, 5)  sort(A, axis=0)
    top_k(A, 3)

    argmax(A)  argmax(A, axis=0)  argmin(A, axis=1)  count_nonzero(A, axis=0)  nanargmax(A)
    nanargmin(A, axis=0)  compress(A[:, 0] > 0.5, A, axis=0)  diagonal(A)
    extract(A > 0.9999, A)  flatnonzero(A > 0.9999)  nonzero(A > 0.9999)
    extract(A > 0.1, A)  flatnonzero(A > 0.1)
    nonzero(A > 0.5)  take(A, [3, 1], axis=0)  take(A, range(1499, 0, -2), axis=1)
    take_along_axis(A, oc.argmax(A, axis=0, keepdims=True), axis=0)
    take_along_axis(A, I[:2250, :900])

    all(A)  any(A, axis=1)  average(A, axis=1, weights=B[0])  max(A)  mean(A, axis=0)
    min(A, axis=1)  nanmax(A)  nanmean(A, axis=0)  nanmin(A)  nanprod(A)  nanstd(A)
    nansum(A, axis=1)  nanvar(A, axis=0)  prod(A)  ptp(A)  std(A)  sum(A)  var(A, axis=1)

    blas.gemm(2, A[:, :100], B[:100], beta=1, C=D)  blas.symm(2, Q, B[:1850], C=D[:1850])
    blas.hemm(2, Q, B[:1850], beta=1, C=D[:1850], uplo='U')
    blas.syrk(2, A[:1500, :100], C=D[:1500])
    blas.herk(2, A[:100], beta=1, C=D[:1500], trans='C')  blas.trmm(2, L, D[:1850])
    blas.syr2k(2, A[:100], B[:100], C=D[:1500], trans='T', uplo='U')  blas.trsm(2, L, D[:1850])
    blas.her2k(2, A[:1500, :100], B[:1500, :100], beta=1, C=D[:1500])

    linalg.cholesky(Q)  linalg.cholesky(Q, upper=True)  linalg.diagonal(A)
    linalg.matmul(A, B.T[:, :100])  linalg.matrix_transpose(A)  linalg.norm(A)
    linalg.matrix_norm(A)  linalg.vector_norm(A)
    linalg.norm(A, axis=1)  linalg.outer(v[:2000], w[:2000])
    linalg.cho_factor(Q)  linalg.cho_solve((L, True), Q[:, :300])  linalg.cond(Q)
    linalg.gecon(F, 1.0)  linalg.gerfs(Q, F, Q[:, :3], Q[:, 3:6])  linalg.gesvx(Q, Q[:, :300])
    linalg.pocon(L, 1.0)  linalg.porfs(Q, L, Q[0], Q[1])  linalg.posvx(Q, Q[:, :3])
    linalg.solve(Q, Q[0], refine='float32')  linalg.solve_mixed(Q, Q[:, :300])
    linalg.det(Q)  linalg.inv(Q[:900, :900])  linalg.lu(Q)  linalg.lu_factor(Q)
    linalg.lu_solve(F, Q[:, :300])  linalg.slogdet(Q)  linalg.solve(Q, Q[:, :300])
    linalg.solve(Q, Q[0], assume='pos')  linalg.solve(Q, Q[:, :300], assume='pos')
    linalg.solve_triangular(L, Q[:, :300], lower=True)
    linalg.solve(Q, Q[0], assume_a='sym')  linalg.solve(Q, Q[:, :3], assume='her')
    linalg.ldl_factor(Q)  linalg.ldl_solve(H, Q[:, :300])  linalg.inertia(H)  linalg.sycon(H, 1.0)
    linalg.cho_inv((L, True))  linalg.cho_update((L, True), Q[:, :5])
    linalg.tensordot(A, B[0], axes=1)  linalg.trace(A)  linalg.vecdot(A, B)

    fft.fft(A)  fft.fft(A, axis=0)  fft.fft(oc.reshape(A, -1))  fft.fft2(A)  fft.fftfreq(3_500_000)
    fft.fftn(A)  fft.fftshift(A)  fft.hfft(A)  fft.ifft(A)  fft.ifft2(A)  fft.ifftn(A)
    fft.ifftshift(A)  fft.ihfft(A)  fft.irfft(A)  fft.irfft2(A)  fft.irfftn(A)  fft.rfft(A)
    fft.rfft(oc.reshape(A, -1))  fft.rfft2(A)  fft.rfftfreq(3_500_000)  fft.rfftn(A)

    random.default_rng(1)  random.Generator.integers(G, 0, 9, A.shape)
    random.Generator.normal(G, 0, 1, A.shape)  random.Generator.random(G, A.shape)
    random.Generator.standard_normal(G, A.shape)  random.Generator.uniform(G, 0, 2, A.shape)
"""

# Each of them is compiled by Numba.
SWEEPS = """
    loops(weighed)(A, B, D)
    sweep(oc.sweeps.gauss_seidel.__globals__['_relaxed'])(A, B, sweeps=3)
    sweeps.adi(A, 0.5)  sweeps.gauss_seidel(A, B, sweeps=9)  sweeps.index(0)
    sweeps.heat(oc.reshape(A, (150, 150, 150)), 0.1, sweeps=4)
    sweeps.jacobi(A, B, sweeps=4)  sweeps.livermore23(A, B, B, A, A, B, sweeps=4)
    sweeps.red_black(A, B, sweeps=2)  sweeps.sor(A, B, 1.5, sweeps=4, until=1e-3, check_every=2)
    sweeps.sweep_number()  sweeps.wave_equation(A, B, A, sweeps=3)
"""

# P and M are plans, S are the settings, F and H factors of Q, D and K are A and I to be written to.
MEMBERS = """
    D[:] = A  D[::2] = 1  D[D > 0.5] = 0  D[[7, 3]] = B[:2]
    A.T  A.all()  A.any(axis=0)  A.argmax()  A.argmin(axis=1)  A.astype('float32')  A.attributes
    A.chunks  A.clip(0.1, 0.5)  A.compress(A[:, 0] > 0.5, axis=0)  A.compute()  A[:500].compute()
    A.conj()  A.conjugate()  A.copy()  A.cumprod(axis=1)  A.cumsum(axis=0)  A.cumsum()  A.diagonal()
    A.device  A.dimension_names  A.dot(B[0])  A.dtype  A.fill_value
    A.flatten()  A.flatten('F')  A.format
    A.imag  A.item(3, 4)  A.itemsize  A.layout  A.mask_and_scale()
    A.mT  A.max(axis=1)  A.mean()  A.min()  A.nbytes
    A.ndim  A.nonzero()  A.path  A.prod(axis=0)  A.ravel()  A.real  A.repeat(2, axis=1)
    A.reshape(1500, 2250)  A.round(1)  A.save('new.zarr', codecs='zstd')
    A.save('new.npy', order='F')  A.save('new.zarr', tile=250)  A.shape  A.size  A.squeeze()
    A.std(axis=0)  A.sum()  A.swapaxes(0, 1)  A.take([5, 3], axis=0)  A.thickness  A.tile
    A.tolist()
    A[:100].tolist()  A.to_dask()  A.to_device('cpu')  A.trace()  A.transpose()  A.var()  A.writable
    D.flush()
    P.explain()  P.show('new.svg')  P.waste  M.explain()  M.show('new.svg')  M.waste
    S.memory  S.progress  S.scratch  S.scratch_held  S.threads  S.engine  S.timeline
"""

NEW = "N = oc.create('new' + suffix, A.shape)"
OTHERWISE = {
    "create": f"{NEW}; N[:] = A; N.close()",
    "close": f"{NEW}; N[:, ::2] = A[:, ::2]; N.close()",
    "abort": f"{NEW}; N[:] = A + 1; N.abort()",
    "attach": "with A.attach[:300] as rows: rows.sum()",
    "attach to write": "with D.attach[7:300, 5:] as box: box += 1",
    "attach all": "A.attach[...]",
    "tiles": "for _, block in A.tiles(): block.sum()",
    "__enter__": "with oc.create('new' + suffix, A.shape) as N: N[5:] = A[5:]",
    "__exit__": "with oc.open('E' + suffix, 'r+') as N: N[::2] = 3",
    "__setitem__": "D[3:, 5] = B[3:, 5]",
    "__getitem__": "A[5:], A[::-3, ::2], A[:, None, 5:], A[A > 0.9999]",
    "__getitem__ of indices": "A[[5, 3]], A[:, [9] * 2000], A[np.arange(2249, -1, -1)]",
    "__abs__": "abs(A)",
    "__add__": "A + B",
    "__and__": "I & J",
    "__array__": "np.asarray(A)",
    "__array_namespace__": "A.__array_namespace__()",
    "__dlpack__": "A.__dlpack__()",
    "__dlpack_device__": "A.__dlpack_device__()",
    "__array_function__": "np.sum(A, axis=0), np.concatenate([A, B])",
    "__array_ufunc__": "np.add(A, B), np.add.reduce(A), np.multiply.outer(A[0], A[1])",
    "__bool__": "bool(A)",
    "__bool__ of one": "bool((A > 2).any())",
    "__complex__": "complex(A.sum())",
    "__contains__": "2.5 in A",
    "__copy__": "copy.copy(A)",
    "__deepcopy__": "copy.deepcopy(A)",
    "__divmod__": "divmod(A, B + 1)",
    "__eq__": "A == B",
    "__float__": "float(A.mean())",
    "__floordiv__": "A // (B + 1)",
    "__format__": "format(A), f'{A.sum():.3f}'",
    "__ge__": "A >= B",
    "__getattr__": "hasattr(A, 'tranpose')",
    "__gt__": "A > B",
    "__hash__": "hash(A)",
    "__iadd__": "D += B",
    "__iand__": "K &= J",
    "__ifloordiv__": "D //= B + 1",
    "__ilshift__": "K <<= J",
    "__imatmul__": "V = D[:200]; V @= B[:1500]",
    "__imod__": "D %= B + 1",
    "__imul__": "D *= B.T.T",
    "__index__": "[1, 2, 3][(A > 2).any().astype('int64')]",
    "__int__": "int(A.sum())",
    "__invert__": "~I",
    "__ior__": "K |= J",
    "__ipow__": "D **= 2",
    "__irshift__": "K >>= J",
    "__isub__": "D -= A[::-1]",
    "__iter__": "for row in A[:9]: row.sum().compute()",
    "__itruediv__": "D /= 2",
    "__ixor__": "K ^= J",
    "__le__": "A <= B",
    "__len__": "len(A)",
    "__lshift__": "I << J",
    "__lt__": "A < B",
    "__matmul__": "A @ B.T[:, :100]",
    "__mod__": "A % (B + 1)",
    "__mul__": "A * B",
    "__ne__": "A != B",
    "__neg__": "-A",
    "__or__": "I | J",
    "__pos__": "+A",
    "__pow__": "A ** B",
    "__radd__": "1 + A",
    "__rand__": "1 & I",
    "__rdivmod__": "divmod(1, A + 1)",
    "__reduce__": "pickle.dumps(A)",
    "__repr__": "repr(A), str(A + B)",
    "__rfloordiv__": "1 // (A + 1)",
    "__rlshift__": "1 << I",
    "__rmatmul__": "np.ones(2250) @ A",
    "__rmod__": "1 % (A + 1)",
    "__rmul__": "2 * A",
    "__ror__": "1 | I",
    "__round__": "round(A, 2)",
    "__rpow__": "2 ** A",
    "__rrshift__": "9 >> I",
    "__rshift__": "I >> J",
    "__rsub__": "1 - A",
    "__rtruediv__": "1 / (A + 1)",
    "__rxor__": "1 ^ I",
    "__sub__": "A - B",
    "__truediv__": "A / (B + 1)",
    "__xor__": "I ^ J",
}

# What gives more in memory than the budget is, and what there is not.
REFUSED = {
    "A.compute()": "BudgetError",
    "A.attach[...]": "BudgetError",
    "A.tolist()": "BudgetError",
    "oc.sweeps.index(0)": "UnsupportedError",
    "oc.sweeps.sweep_number()": "UnsupportedError",
    OTHERWISE["__array__"]: "BudgetError",
    OTHERWISE["__dlpack__"]: "BudgetError",
    OTHERWISE["__bool__"]: "InvalidArgumentError",
    OTHERWISE["__round__"]: "InvalidTypeError",
}

VERBS = """
    info A.npy  info --json A.zarr  copy A.npy C.npy  copy A.zarr C.zarr  convert A.npy D.zarr
    convert A.zarr D.npy --order F  convert A.zarr E.zarr --codecs zstd --tile 500
    convert E.zarr E.npy  convert A.npy F.npy --box ::2,::-1  verify A.npy A.zarr E.zarr
    transpose A.npy G.npy  transpose A.zarr G.zarr  rotate A.npy H.npy 90  rotate A.zarr H.zarr 180
    flip A.npy I.npy  flip A.zarr I.zarr --axis 1  permute A.npy J.zarr 1,0
    permute A.zarr J.npy 1,0  matmul A.npy Y.npy K.zarr  matmul A.zarr A.npy K.npy --trans-b
    cholesky Q.npy L.zarr  cholesky Q.zarr L.npy --upper  solve Q.npy R.npy X.zarr --assume pos
    solve Q.zarr Q.npy X.npy --assume pos  plan matmul A.npy Y.npy  plan cholesky Q.npy
    plan solve Q.zarr R.npy --assume pos  solve Q.zarr R.npy S.npy  inv Q.zarr Z.zarr
    solve Q.npy R.npy V.npy --assume sym
    lu Q.zarr U.zarr P.npy  plan lu Q.npy  plan inv Q.npy  plan cond Q.npy  cond Q.zarr
    doctor --quick .
    timeline run.json run.png  completion bash  sweep gauss-seidel A.npy A.zarr W.zarr --sweeps 3
"""

COMMON = """
import copy, json, os, pickle, shutil, sys
import numpy as np, outcrop as oc
budget = int(sys.argv[1])

def tell(*facts):
    print(json.dumps(facts), flush=True)

def memory(field):
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))

def begin(call):
    global beside
    tell("begin", call)
    # What is not of the budget: modules, and what they keep.
    beside = memory("VmRSS:") - oc._native.status()["used"]
    open("/proc/self/clear_refs", "w").write("5")

def end(call, how):
    most = memory("VmHWM:")
    tell("end", call, how, most, most - beside)
    return most - beside

def remove(path):
    shutil.rmtree(path) if os.path.isdir(path) else os.path.exists(path) and os.remove(path)

oc.config(memory=budget, scratch=".")
G, shape, size = oc.random.default_rng(1), (2250, 1500), 1850
if budget > 16 << 20:
    shape, size = (4500, 3000), 3700

SHARDS = [
    {
        "name": "sharding_indexed",
        "configuration": {
            "chunk_shape": [50, 50],
            "codecs": [
                {"name": "bytes", "configuration": {"endian": "little"}},
                {"name": "zstd", "configuration": {"level": 1, "checksum": False}},
            ],
            "index_codecs": [
                {"name": "bytes", "configuration": {"endian": "little"}},
                {"name": "crc32c"},
            ],
            "index_location": "end",
        },
    }
]
PACKED = {
    ".chunks": {"format": "zarr", "codecs": "zstd:1", "tile": 250},
    ".shards": {"format": "zarr", "codecs": SHARDS, "tile": 250},
}

def stored(name, array, *suffixes):
    assert array.nbytes > 1.5 * budget
    for suffix in suffixes:
        array = array.save(name + suffix, **PACKED.get(suffix, {}))
"""

CALLS = (
    COMMON
    + """
def written(result):
    if isinstance(result, oc.Array):
        target = "out" + suffix
        result.save(target, overwrite=True)
        remove(target)
    elif isinstance(result, (tuple, list)):
        for part in result:
            written(part)

packed = sys.argv[3]
suffix, other = (".npy", ".zarr") if packed == ".chunks" else (".zarr", ".npy")
for names, where in ("A", packed), ("B", other), ("DE", suffix):
    for name in names:
        stored(name, G.random(shape), where)
for name, where in zip("IJK", (packed, other, suffix)):
    stored(name, G.integers(0, 9, (2650, 2650), dtype="int32"), where)
diagonal = oc.fromfunction(lambda i, j: 1 / (1 + abs(i - j)) + size * (i == j), (size, size))
stored("Q", diagonal, packed)
stored("L", oc.tril(oc.open("Q" + packed)), packed)
S = oc.config()
names = {name: oc.open(name + packed) for name in "AIQL"}
names |= {name: oc.open(name + other) for name in "BJ"}
names |= {name: oc.open(name + suffix, "r+") for name in "DK"}
A, B = names["A"], names["B"]
P, M = oc.plan((A @ B.T[:, :9]).sum(axis=0)), oc.plan(A.T, "new" + suffix)
names |= {"v": oc.reshape(A, -1), "w": oc.reshape(B, -1), "G": G, "S": S, "P": P, "M": M}
names |= {"F": oc.linalg.lu_factor(names["Q"]), "H": oc.linalg.ldl_factor(names["Q"])}
# A loop nest has its source in a file.
with open("nest.py", "w") as file:
    file.write(
        "def weighed(a, b, d):\\n"
        "    for i in range(a.shape[0]):\\n"
        "        for j in range(a.shape[1]):\\n"
        "            d[i, j] = a[i, j] + 2 * b[i, j]\\n"
    )
sys.path.insert(0, os.getcwd())
names["weighed"] = __import__("nest").weighed
names |= {"oc": oc, "np": np, "copy": copy, "pickle": pickle, "suffix": suffix}
np.seterr(all="ignore")
def done(call):
    text = call.replace("{A}", "A" + packed)
    try:
        try:
            code = compile(text, "call", "eval")
        except SyntaxError:
            exec(text, dict(names))
        else:
            written(eval(code, names))
    except Exception as error:
        return type(error).__name__ + ": " + str(error)
    return "done"

for call in json.loads(sys.argv[2]):
    for _ in range(2):
        begin(packed + " " + call)
        took = end(packed + " " + call, done(call))
        for made in os.listdir("."):
            if made.startswith(("new.", "out.", "1.", "2.")):
                remove(made)
        # How fast the processor is at something is measured once, with memory beside the budget.
        if took <= int(sys.argv[4]):
            break
"""
)

COMMANDS = (
    COMMON
    + """
from outcrop.cli.app import run
stored("A", G.random(shape), ".npy", ".zarr")
diagonal = oc.fromfunction(lambda i, j: 1 / (1 + abs(i - j)) + 9 * (i == j), (size, size))
stored("Q", diagonal, ".npy", ".zarr")
G.random((shape[1], 90)).save("Y.npy")
G.random((size, 90)).save("R.npy")
with oc.config(timeline="run.json"):
    (oc.open("A.npy") @ oc.open("Y.npy")).save("Z.npy")
for call in json.loads(sys.argv[2]):
    begin(call)
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    status = run(["--memory", str(budget), *call.split()])
    os.dup2(kept, 1)
    end(call, "done" if status == 0 else "status " + str(status))
"""
)


def _table(text: str) -> list[str]:
    return [call for line in text.splitlines() for call in line.strip().split("  ") if call]


@contextmanager
def _limited(most: int) -> Iterator[list[str]]:
    """What to begin a command with so that the kernel ends it where it takes more than this.

    Nothing, where no cgroup may be made.
    """
    root = Path("/sys/fs/cgroup")
    first = root / "memory" if (root / "memory").is_dir() else root
    place = first / f"outcrop-tests-{os.getpid()}"
    limit = "memory.max" if first == root else "memory.limit_in_bytes"
    try:
        place.mkdir()
    except OSError:
        yield []
        return
    try:
        (place / limit).write_text(str(most))
        yield ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(place / "cgroup.procs")]
    except OSError:
        yield []
    finally:
        with suppress(OSError):
            place.rmdir()


def _measured(
    script: str, budget: int, calls: list[str], place: Path, *more: str, beside: int = BESIDE
) -> list[Any]:
    """For each call how it ended, the most that was resident, and what the call took of that."""
    with _limited(budget + beside) as limited:
        ended = subprocess.run(
            [*limited, sys.executable, "-c", script, str(budget), json.dumps(calls), *more],
            cwd=place,
            capture_output=True,
            text=True,
        )
    told = [json.loads(line) for line in ended.stdout.splitlines()]
    assert ended.returncode == 0, (ended.returncode, told[-1:], ended.stderr)
    # Of what was done twice, the second time counts.
    done = {facts[1]: facts[1:] for facts in told if facts[0] == "end"}
    for call, how, most, took in done.values():
        print(f"{took // MIB:5} of {most // MIB:5} MiB  {call}  {how}")
    return list(done.values())


def _public(of: Any) -> set[str]:
    return {name for name in dir(of) if not name.startswith("_")}


def _called(variables: str) -> set[str]:
    return {
        found[1]
        for call in _table(MEMBERS)
        if (found := re.match(rf"[{variables}](?:\[.*?\])?\.(\w+)", call))
    }


def test_every_function_is_in_the_table() -> None:
    called = {call.partition("(")[0] for call in _table(FUNCTIONS) + _table(SWEEPS)}
    called |= OTHERWISE.keys()
    functions = {
        name
        for name in oc.__all__
        if not inspect.isclass(getattr(oc, name)) and callable(getattr(oc, name))
    }
    assert not functions - called - set(numpy_names.ALIASES)
    # Its classes are what functions give.
    routines = {n for n in oc.linalg.__all__ if not inspect.isclass(getattr(oc.linalg, n))}
    assert not {f"linalg.{name}" for name in routines} - called
    assert not {f"blas.{name}" for name in oc.blas.__all__} - called
    assert not {f"fft.{name}" for name in oc.fft.__all__} - called
    assert not {f"random.Generator.{name}" for name in _public(oc.random.Generator)} - called
    assert (
        not {f"sweeps.{name}" for name in oc.sweeps.__all__}
        - called
        - {"sweeps.Settled", "sweeps.Sweep"}
    )
    assert set(oc.random.__all__) == {"Generator", "default_rng"}
    # A module that is added has a table to be added to.
    modules = {name for name in oc.__all__ if inspect.ismodule(getattr(oc, name))}
    assert modules == {"blas", "fft", "linalg", "random", "sweeps"}
    # What no list of names has, another module does.
    assert not {
        name for name in _public(oc) - set(oc.__all__) if not inspect.ismodule(getattr(oc, name))
    }


_ELEMENT_TYPES = {name for name in data_types.__all__ if inspect.isclass(getattr(data_types, name))}


def test_every_member_is_in_the_table() -> None:
    own = {name for base in oc.Array.__mro__[:-1] for name in vars(base)}
    operators = {name for name in own if re.fullmatch("__.*__", name)}
    # Whoever asks for annotations makes a class have some.
    about = {"__annotations__", "__init__", "__slots__", "__doc__", "__module__", "__weakref__"}
    assert not operators - about - OTHERWISE.keys()
    assert not _public(oc.Array) - _called("AD") - OTHERWISE.keys()
    assert not _public(oc.Config) - _called("S")
    for kind in (oc.Plan, oc.ExpressionPlan, oc.MovementPlan, oc.SweepPlan, oc.LoopsPlan):
        assert not _public(kind) - _called("PM")
    # Other classes are what is raised, or facts.
    classes = {name for name in oc.__all__ if inspect.isclass(getattr(oc, name))}
    others = {name for name in classes if not issubclass(getattr(oc, name), Exception)}
    plans = {"ExpressionPlan", "LoopsPlan", "MovementPlan", "Plan", "SweepPlan"}
    assert others == {"Array", "Config", "Run", *plans, *_ELEMENT_TYPES}


def test_every_verb_is_in_the_table() -> None:
    verbs = {call.partition(" ")[0] for call in _table(VERBS)}
    assert verbs == set(group.commands)
    planned = {call.split()[1] for call in _table(VERBS) if call.startswith("plan ")}
    plans = group.commands["plan"]
    assert isinstance(plans, click.Group)
    assert planned == set(plans.commands)


@pytest.mark.parametrize("packed", [".chunks", ".shards"])
def test_calls_keep_to_the_budget_or_are_refused(tmp_path: Path, packed: str) -> None:
    calls = [f"oc.{call}" for call in _table(FUNCTIONS)] + _table(MEMBERS)
    calls += OTHERWISE.values()
    sweeps = [f"oc.{call}" for call in _table(SWEEPS)]
    assert not REFUSED.keys() - set(calls) - set(sweeps)
    # Each with one of the two, in turn. Those of Dask's come last, which brings Pandas and xarray:
    # a third of what there may be beside the budget.
    calls = sorted(calls[packed == ".shards" :: 2], key=lambda call: "dask" in call)
    # Less than an operand, which has 26 MiB.
    most = LITTLE + 8 * MIB
    found = _measured(CALLS, LITTLE, calls, tmp_path, packed, str(most))
    assert len(found) == len(calls)
    _check(found)
    # What measures a disk has 32 MiB for that.
    called = [(call, took) for call, _, _, took in found if "oc.doctor(" not in call]
    assert not [(call, took // MIB) for call, took in called if took > most]
    assert not [(call, peak // MIB) for call, _, peak, _ in found if peak > LITTLE + BESIDE]


def test_sweeps_keep_to_the_budget(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    calls, most = [f"oc.{call}" for call in _table(SWEEPS)], LITTLE + 8 * MIB
    found = _measured(CALLS, LITTLE, calls, tmp_path, ".chunks", str(most), beside=COMPILING)
    assert len(found) == len(calls)
    _check(found)
    # Once compiled, a sweep takes no more than others do.
    assert not [(call, took // MIB) for call, _, _, took in found if took > most]
    assert not [(call, peak // MIB) for call, _, peak, _ in found if peak > LITTLE + COMPILING]


def _check(found: list[Any]) -> None:
    """Whether each call ended as it should."""
    unexpected = [
        (call, how)
        for call, how, *_ in found
        if how.partition(":")[0] != REFUSED.get(call.partition(" ")[2], "done")
    ]
    assert not unexpected


def test_verbs_keep_to_the_budget(tmp_path: Path) -> None:
    # A picture takes Matplotlib, which has memory of its own: it is drawn in another process.
    drawing = [call for call in _table(VERBS) if call.startswith("timeline ")]
    sweeping = [call for call in _table(VERBS) if call.startswith("sweep ")]
    others = [call for call in _table(VERBS) if call not in drawing + sweeping]
    found = _measured(COMMANDS, BUDGET, others, tmp_path)
    (tmp_path / "drawn").mkdir()
    found += _measured(COMMANDS, BUDGET, drawing, tmp_path / "drawn")
    assert not [(call, most // MIB) for call, _, most, _ in found if most > BUDGET + BESIDE]
    (tmp_path / "swept").mkdir()
    found += _measured(COMMANDS, BUDGET, sweeping, tmp_path / "swept", beside=COMPILING)
    assert not [(call, how) for call, how, *_ in found if how != "done"]
