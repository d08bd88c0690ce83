"""Every function of NumPy's keeps to the budget with our arrays, or is refused before.

What NumPy does itself, in memory, is held against the bounds that are told beforehand: LAPACK's
workspaces too, which only the kernel sees.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.char
import numpy.fft
import numpy.lib.recfunctions
import numpy.polynomial
import pytest
from numpy.testing import overrides

import outcrop as oc
from outcrop.arrays.numpy_bounds import BOUNDS
from outcrop.arrays.registry import REFUSALS, implemented

MIB = 1 << 20
BUDGET = 64 * MIB
LITTLE = 16 * MIB

OURS = """
    all(A)  allclose(A, B)  amax(A)  amin(A, axis=0)  angle(C)  any(A, axis=1)  append(A, B)
    argmax(A, axis=1)  argmin(A)  argwhere(A > 0.9999)  around(A, 2)  array_equal(A, B)
    array_split(A, 3)[1]  atleast_1d(A)  atleast_2d(A)  atleast_3d(A)  average(A, axis=1)
    bincount(i)  broadcast_arrays(v, v[:1])[1]  broadcast_to(A[:1], A.shape)  clip(A, 0, 0.5)
    column_stack([A, B])  compress(A[:, 0] > 0.5, A, axis=0)  concatenate([A, B])  copyto(D, A)
    count_nonzero(A, axis=0)  cumprod(A, axis=0)  cumsum(A)  cumulative_prod(A, axis=1)
    cumulative_sum(A, axis=1)  diag(A)  diagonal(A)  diff(A)  digitize(A, [0.1, 0.5])
    dot(A, A[0])  dsplit(A[..., None], 1)[0]  dstack([A, B])  einsum('ij,ij->i', A, B)
    empty_like(A)  expand_dims(A, 0)  extract(A > 0.9999, A)  fix(A)  flatnonzero(A > 0.9999)
    flip(A)  fliplr(A)  flipud(A)  full_like(A, 2)  gradient(A)[0]  histogram(A, 20)[0]
    hsplit(A, 2)[0]  lib.stride_tricks.sliding_window_view(A, 3, axis=1)
    hstack([A, B])  i0(A)  imag(C)  inner(A, A[0])  interp(A, [0, 1], [1, 2])  isclose(A, B)
    iscomplex(A)  iscomplexobj(A)  isin(i, [1, 5])  isneginf(A)  isposinf(A)  isreal(A)
    isrealobj(A)  linalg.diagonal(A)  linalg.matrix_transpose(A)  linalg.norm(A)
    linalg.outer(v[:3000], w[:2000])  linalg.trace(A)  matrix_transpose(A)  max(A)  mean(A, axis=0)
    argsort(A)  argsort(A, axis=0)  argsort(i, kind='stable')  partition(A, 5)  sort(A)
    sort(A, axis=0)  sort(v)  sort(A, axis=None)  median(A, axis=0)
    median(A)  min(A)  moveaxis(A, 0, 1)  nan_to_num(A)  nanargmax(A)  nanargmin(A, axis=0)
    nancumprod(A, axis=1)  nancumsum(A, axis=0)  nanmax(A)  nanmean(A)  nanmedian(A)  nanmin(A)
    nanpercentile(A, 5)  nanprod(A)  nanquantile(A, 0.5)  nanstd(A)  nansum(A)  nanvar(A)  ndim(A)
    nonzero(A > 0.9999)[0]  ones_like(A)  outer(v[:3000], w[:2000])  pad(A, 3)  percentile(A, 5)
    prod(A)  ptp(A)  quantile(A, 0.5)  ravel(A)  real(C)  repeat(A, 2, axis=0)  reshape(A, -1)
    result_type(A)  roll(A, 5)  rollaxis(A, 1)  rot90(A)  round(A)  searchsorted([0.5], A)
    shape(A)  sinc(A)  size(A)  split(A, 2)[0]  squeeze(A)  stack([A, B])  std(A)  sum(A)
    swapaxes(A, 0, 1)  take(A, [3, 1], axis=0)  tensordot(A, A[0], axes=1)  tile(A, 2)  trace(A)
    transpose(A)  trapezoid(A)  tril(A)  triu(A)  unique(i)  unstack(A[:2])[0]  var(A)  vdot(A, B)
    vsplit(A, 2)[0]  vstack([A, B])  where(A > 0, A, B)  zeros_like(A)
    permute_dims(A)  arange(9, like=A)  array([1, 2], like=A)
    array_equiv(A, B)  asanyarray(A, like=A)
    asarray(A, like=A)  astype(A, 'float32')  can_cast(A.dtype, A)  common_type(A, C)
    empty((2000, 3000), like=A)  eye(3000, like=A)  full((2000, 3000), 2, like=A)
    identity(3000, like=A)  linalg.cholesky(Q)  linalg.matmul(A, A[0])  linalg.matrix_norm(A)
    linalg.multi_dot([A, A.T, A[:, 0]])  linalg.tensordot(A, A[0], axes=1)  linalg.vecdot(A, B)
    linalg.vector_norm(A, axis=1)  may_share_memory(A, B)  min_scalar_type(A)
    ones((2000, 3000), like=A)  shares_memory(A, B)  tri(3000, like=A)  unique_counts(i)
    unique_all(i)  unique_inverse(i)  take_along_axis(A[:5], i[:5][:, None] % 9, 1)
    unique_values(i)  zeros((2000, 3000), like=A)
    fft.fft(A)  fft.fft(C, axis=0)  fft.fft(v, n=1000003)  fft.fft2(A)  fft.fftn(C)  fft.fftn(T)
    fft.fftshift(A)  fft.hfft(C)  fft.ifft(C)  fft.ifft2(C)  fft.ifftn(C)  fft.ifftshift(A)
    fft.ihfft(A)  fft.irfft(C)  fft.irfft(v, n=800011)  fft.irfft2(C)  fft.irfftn(C, s=(900, 1100))
    fft.rfft(A, axis=0)  fft.rfft2(A)  fft.rfftn(A)
"""

NUMPYS = """
    argpartition(A, 3)
    array2string(A[:50])  array2string(A)  array_repr(A)  array_str(A)  ascontiguousarray(A, like=A)
    asfortranarray(A, like=A)  block([[A, B], [B, A]])  choose(i % 2, [v, w])
    convolve(v, z)  copy(A)  corrcoef(A)  corrcoef(v, w)  correlate(v, z)  cov(A)  cov(A.T, B.T)
    cov(A, rowvar=False)  cross(A[:, :3], B[:, :3])  delete(A, 3, axis=0)  delete(v, [3, 7])
    diag_indices_from(Q)  diagflat(v[:2000])  ediff1d(v)  einsum_path('ij,jk->ik', A, B.T)
    fill_diagonal(D, 3)  geomspace(v + 1, w + 2, 9)
    histogram2d(v, w, 900)  histogram_bin_edges(A, 'auto')
    histogram_bin_edges(A, 100000)  histogramdd(T[:, 0, :3], (30, 40, 50))
    insert(A, 5, 3, axis=1)  insert(v, [3, 9], 1)  insert(A, 5, B[:1], axis=0)
    intersect1d(v, w)  intersect1d(i, i)  ix_(i % 9, i[:3])  ix_(m)
    kron(A[:60], B[:30, :30])  lexsort((v, w))  linalg.cholesky(np.eye(5) * (9 + T))
    linalg.cond(Q)  linalg.cond(A)  linalg.cond(Q, 1)
    linalg.cross(A[:, :3], B[:, :3])  linalg.det(Q)  linalg.det(T)  linalg.eig(Q)  linalg.eig(T)
    linalg.eigh(Q)  linalg.eigh(T)  linalg.eigvals(Q)  linalg.eigvalsh(Q)  linalg.inv(Q)
    linalg.inv(T)  linalg.lstsq(A, A[:, :30])  linalg.lstsq(A.T, A[0])  linalg.matrix_power(Q, 5)
    linalg.matrix_power(Q, -3)  linalg.matrix_rank(A)  linalg.pinv(A)  linalg.pinv(A.T)
    linalg.pinv(Q, hermitian=True)  linalg.qr(A)  linalg.qr(A, mode='complete')
    linalg.qr(A.T, mode='complete')  linalg.qr(T)  linalg.slogdet(Q)  linalg.solve(Q, Q[0])
    linalg.solve(Q, Q)  linalg.solve(T, T)  linalg.svd(A)  linalg.svd(A.T)  linalg.svd(A, False)
    linalg.svd(A[:10])  linalg.svd(Q, hermitian=True)  linalg.svd(T)  linalg.svdvals(A)
    linalg.tensorinv(Q[:400, :400].reshape((20, 20, 20, 20)))
    linalg.tensorsolve(Q[:400, :400].reshape((20, 20, 20, 20)), Q[:20, :20])
    linspace(v, w, 7)  logspace(v, w, 7)  meshgrid(v[:1500], w[:1200])  packbits(u)
    meshgrid(v, w, sparse=True)  place(D, D > 3, [1])  poly(v[:300])  polyadd(v, w)
    polyder(v)  polydiv(v, z)  polyfit(v, w, 7)  polyint(v)  polymul(v, z)  polysub(v, w)
    polyval(z, v)  put(D, [3], 2)  put_along_axis(D[:5], i[:5][:, None] % 9, 2, 1)
    putmask(D, D > 3, 2)
    ravel_multi_index((i, i), (10, 10))  real_if_close(C)  require(A, like=A)
    resize(v, (1100, 1300))
    roots(v[:300])  save('a.npy', A)  savetxt('a.txt', A)  savez('a.npz', A, b=B)
    savez_compressed('b.npz', A)  select([v > 1, w > 0.5], [v, w])  setdiff1d(v, w)
    setxor1d(v, w)  sort_complex(v)
    tril_indices_from(Q)  trim_zeros(v)  triu_indices_from(Q)
    union1d(v, w)  union1d(i, i)
    unpackbits(u)  unpackbits(u, count=4000000)  unravel_index(i, (10, 20))  unwrap(v)  unwrap(A)
    vander(v, 20)  vander(v[:1000])
    lib.scimath.arccos(v)  lib.scimath.arcsin(v)  lib.scimath.arctanh(v)  lib.scimath.log(-v)
    lib.scimath.log10(v)  lib.scimath.log2(v)  lib.scimath.logn(2, v)  lib.scimath.power(-v, w)
    lib.scimath.sqrt(-v)
"""

REFUSED = """
    apply_along_axis(sum, 0, A)  apply_over_axes(np.sum, A, [0])  busday_count(A, A)
    busday_offset(A, A)  datetime_as_string(A)  is_busday(A)  frombuffer(b'12345678', like=A)
    fromfile('x', like=A)  fromfunction(np.add, (3, 4), like=A)  fromiter([1], float, like=A)
    fromstring('1 2', sep=' ', like=A)  genfromtxt('x', like=A)  loadtxt('x', like=A)
    piecewise(A, [A > 0], [1, 2])  char.equal(A, A)  strings.upper(A)
    lib.recfunctions.drop_fields(A, 'x')
    polynomial.polynomial.polygrid2d(v[:9], w[:9], A[:3, :3])
    polynomial.polynomial.polyval2d(v, w, A[:3, :3])
"""

FOR_OTHERS = ("char.", "lib.recfunctions.", "strings.")

NAMES = """
import numpy as np, outcrop as oc
import numpy.char, numpy.lib.recfunctions, numpy.polynomial
import numpy.lib.scimath, numpy.lib.stride_tricks

# Rows, columns, of a square matrix, and how long what has one axis is.
SIZES = {"large": (4500, 3000, 3000, 14_000_000), "small": (700, 400, 500, 300_001),
         "wide": (9, 1600, 200, 30_001), "tall": (1600, 9, 90, 70_000), "tiny": (3, 2, 5, 50),
         "flat": (150_000, None, 150, 150_000)}

def made(sizes):
    G = oc.random.default_rng(1)
    m, n, square, length = SIZES[sizes]
    shape = (m,) if n is None else (m, n)
    found = {"np": np, "oc": oc, "A": G.random(shape), "B": G.random(shape),
             "v": G.random(length), "w": G.random(length), "C": G.random(shape) + 1j,
             "T": G.random((length // 25, 5, 5)),
             "i": oc.arange(length) % 9, "u": G.integers(0, 9, 8 * length, dtype="uint8"),
             "Q": oc.eye(square) + 0.5, "z": G.random(90)}
    found["A"] = found["A"].save("A.npy", overwrite=True)
    found["D"] = G.random(shape).save("D.npy", overwrite=True)
    found["m"] = found["v"] > 0.5
    np.seterr(all="ignore")
    return found

def memory(field):
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) * 1024
"""

KEEPS = (
    NAMES
    + """
import json, sys
budget, calls = int(sys.argv[1]), json.load(sys.stdin)
oc.config(memory=budget, scratch=".")
names = made("large")
names["D"] = oc.open("D.npy", mode="r+")
for call in calls:
    open("/proc/self/clear_refs", "w").write("5")
    how = "done"
    try:
        result = eval("np." + call, names)
        if isinstance(result, oc.Array):
            oc.count_nonzero(result).compute()
    except Exception as error:
        how = type(error).__name__ + ": " + str(error)
    result = None
    print(json.dumps([call, how, memory("VmHWM:")]), flush=True)
"""
)

OPERANDS = """
    np.meshgrid(oc.arange(12000), range(12000))  np.intersect1d(s, Told(30_000_000))
    np.intersect1d(s, Sliced(30_000_000))  np.setdiff1d(s, range(20_000_000))
    np.setdiff1d(s, deque(range(3_000_000)))  np.union1d(v[:900_000], ["a"])
    np.union1d(v[:900_000], [2**70])  np.histogram(A, bins=20_000_000)
    np.isin(A, np.arange(6_000_000.0))  oc.isin(A, v[:3_000_000])  oc.isin(A, range(3_000_000))
    np.searchsorted(v[:3_000_000], A)  np.digitize(A, v[:3_000_000])
    np.interp(A, v[:1_500_000], v[:1_500_000])  oc.asarray(range(30_000_000))
    np.add(oc.arange(20_000_000), range(20_000_000))  np.concatenate([s, range(20_000_000)])
    oc.asarray([0.0] * 20_000_000)  np.add(A[0, :1], [0.5] * 9_000_000)  A[[0] * 9_000_000]
    np.take(v, range(9_000_000))  v[:6_000_000].__array__(str)  np.asarray(v[:6_000_000], object)
    [np.copy(v[:2_000_000]) for _ in range(30)]
"""
"""What functions are called with besides arrays of ours, and what is kept of them."""

HELD = (
    NAMES
    + """
import json, sys
from collections import deque

class Told:
    ndim, dtype = 1, np.dtype(float)
    def __init__(self, n):
        self.shape = (n,)
    def __array__(self, dtype=None, copy=None):
        return np.ones(self.shape)

class Sliced(Told):
    def __getitem__(self, key):
        return np.ones(self.shape)[key]

oc.config(memory=int(sys.argv[1]), scratch=".")
G = oc.random.default_rng(1)
names = {"np": np, "oc": oc, "deque": deque, "Told": Told, "Sliced": Sliced,
         "s": oc.arange(5) * 1.0, "v": G.random(14_000_000), "A": G.random((1500, 1000))}
for call in json.load(sys.stdin):
    # A list that is part of the call is the caller's.
    given = 9 * 20_000_000 if "[0.0] *" in call else 9 * 9_000_000 if "_000]" in call else 0
    open("/proc/self/clear_refs", "w").write("5")
    how = "done"
    try:
        result = eval(call, names)
        if isinstance(result, oc.Array):
            oc.count_nonzero(result).compute()
    except Exception as error:
        how = type(error).__name__ + ": " + str(error)
    result = None
    print(json.dumps([call, how, memory("VmHWM:") - given]), flush=True)
"""
)

THREADS = (
    NAMES
    + """
import sys, threading
oc.config(memory=int(sys.argv[1]), scratch=".")
v = oc.arange(2_500_000) * 0.5
open("/proc/self/clear_refs", "w").write("5")
done, refused, kept = [], [], []

def copy():
    try:
        kept.append(np.copy(v))
        done.append(kept[-1][1] == 0.5)
    except oc.BudgetError:
        refused.append(1)

threads = [threading.Thread(target=copy) for _ in range(24)]
[t.start() for t in threads], [t.join() for t in threads]
assert all(done) and done and len(done) + len(refused) == 24, (done, refused)
held = oc._native.status()["used"]
assert held >= sum(x.nbytes for x in kept), (held, len(kept))
kept.clear()
assert oc._native.status()["used"] < 1 << 20
print(memory("VmHWM:"))
"""
)

BOUNDED = (
    NAMES
    + """
import ctypes, gc, json, sys, warnings
from outcrop.array_api import dispatch as protocol
warnings.simplefilter("ignore")
oc.config(memory=2 << 30, scratch=".")
bounds, kept = dict(protocol.BOUNDS), []

def noted(bound):
    def call(given):
        kept.append(float(bound(given)))
        return kept[-1]
    return call

protocol.BOUNDS.update({name: noted(bound) for name, bound in bounds.items()})
trim = ctypes.CDLL(None).malloc_trim
calls = json.load(sys.stdin)
for sizes in sys.argv[1:]:
    names = {k: oc.asarray(v.compute()) if isinstance(v, oc.Array) else v
             for k, v in made(sizes).items()}
    # What is there need not be looked through before each call.
    gc.collect(), gc.freeze()
    for call in calls:
        if sizes != "small" and ("n=" in call or "s=(" in call or "resize" in call):
            # It is as large as these say.
            continue
        kept.clear()
        # What is loaded at the first call is not what the call takes.
        for again in range(2 if sizes == sys.argv[1] else 1):
            gc.collect(), trim(0)
            open("/proc/self/clear_refs", "w").write("5")
            before, error = memory("VmRSS:"), ""
            try:
                result = eval("np." + call, names)
            except Exception as problem:
                error = type(problem).__name__ + ": " + str(problem)
            took = memory("VmHWM:") - before
            result = None
        print(json.dumps([sizes, call, error, took, kept[-1] if kept else None]), flush=True)
"""
)

UFUNCS = (
    NAMES
    + """
import json, sys
oc.config(memory=int(sys.argv[1]), scratch=".")
G = oc.random.default_rng(1)
m, n = 2250, 1500
real = [G.random((m, n)).save(f"{i}.npy") for i in range(2)]
whole = [(x * 9).astype("int64").save(f"whole{i}.zarr") for i, x in enumerate(real)]
kinds = {"float64": real, "int64": whole}
np.seterr(all="ignore")

PRODUCTS = {"matmul": lambda x, y: (x.T, y[:, :50]), "matvec": lambda x, y: (x, y[0]),
            "vecmat": lambda x, y: (x[:, 0], y), "vecdot": lambda x, y: (x, y)}

def ways(ufunc, x, y):
    if ufunc.signature is not None:
        yield "call", lambda: ufunc(*PRODUCTS[ufunc.__name__](x, y))
        return
    yield "call", lambda: ufunc(*(x, y)[:ufunc.nin])
    if ufunc.nin == 2 and ufunc.nout == 1:
        yield "reduce", lambda: ufunc.reduce(x, axis=0)
        yield "accumulate", lambda: ufunc.accumulate(x, axis=1)
        yield "reduceat", lambda: ufunc.reduceat(x, [0, 5, 2000])
        yield "outer", lambda: ufunc.outer(x[:, 0], y[0])

for ufunc in sorted({f for f in vars(np).values() if isinstance(f, np.ufunc)}, key=str):
    done = False
    for kind, operands in kinds.items():
        # One type for which there are loops is enough.
        if done:
            break
        for way, call in ways(ufunc, *operands):
            # What is not of the budget: modules, and what they keep.
            beside = memory("VmRSS:") - oc._native.status()["used"]
            open("/proc/self/clear_refs", "w").write("5")
            how = "done"
            try:
                found = call()
                for one in found if isinstance(found, tuple) else (found,):
                    if isinstance(one, oc.Array):
                        oc.count_nonzero(one, axis=0).compute()
                done = True
            except Exception as error:
                how = type(error).__name__ + ": " + str(error)
            found = one = None
            took = memory("VmHWM:") - beside
            print(json.dumps([f"{ufunc.__name__} {kind} {way}", how, took]), flush=True)
"""
)


def _calls(table: str) -> list[str]:
    return [call for line in table.splitlines() for call in line.strip().split("  ") if call]


def _name(function: Any) -> str:
    return re.sub(r"^numpy\.", "", f"{function.__module__}.{function.__name__}")


def _run(script: str, calls: list[str], place: Path, *args: str) -> list[Any]:
    ended = subprocess.run(
        [sys.executable, "-c", script, *args],
        cwd=place,
        input=json.dumps(calls),
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout[-300:] + ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_every_function_of_numpys_is_in_a_table() -> None:
    called = {call.partition("(")[0] for call in _calls(OURS + NUMPYS + REFUSED)}
    offered = {_name(function) for function in overrides.get_overridable_numpy_array_functions()}
    # There are no strings and no records among our arrays.
    missing = {name for name in offered - called if not name.startswith(FOR_OTHERS)}
    assert not missing
    own = {_name(function) for function in implemented()}
    bounded = {name.removeprefix("numpy.") for name in BOUNDS}
    refused = {_name(function) for function in REFUSALS}
    assert not bounded - called
    # Of stacks, it is NumPy's.
    stacks = ("cholesky", "det", "inv", "slogdet", "solve")
    assert bounded & own == {f"linalg.{name}" for name in stacks}
    assert not refused & (own | bounded)
    left = offered - own - bounded - refused
    # Those of polynomials are loaded with their module only, and refused for want of a bound.
    assert not {name for name in left if not name.startswith((*FOR_OTHERS, "polynomial."))}


def test_functions_keep_to_the_budget_or_are_refused(tmp_path: Path) -> None:
    found = _run(KEEPS, _calls(OURS + NUMPYS + REFUSED), tmp_path, str(BUDGET))
    for call, how, most in found:
        print(f"{most // MIB:5} MiB  {call}  {how}")
    refusals = ("done", "BudgetError: ", "UnsupportedError: ")
    assert not [(call, how) for call, how, _ in found if not how.startswith(refusals)]
    assert not [(call, most // MIB) for call, _, most in found if most > BUDGET + 200 * MIB]


def test_operands_of_every_kind_keep_to_the_budget_or_are_refused(tmp_path: Path) -> None:
    found = _run(HELD, _calls(OPERANDS), tmp_path, str(BUDGET))
    for call, how, most in found:
        print(f"{most // MIB:5} MiB  {call}  {how}")
    assert not [(call, how) for call, how, _ in found if not how.startswith(("done", "BudgetE"))]
    assert not [(call, most // MIB) for call, _, most in found if most > BUDGET + 200 * MIB]


def test_calls_in_many_threads_keep_to_the_budget_together(tmp_path: Path) -> None:
    (most,) = _run(THREADS, [], tmp_path, str(2 * BUDGET))
    assert most <= 2 * BUDGET + 200 * MIB


def test_numpy_takes_no_more_than_was_told(tmp_path: Path) -> None:
    sets = ("small", "wide", "tall", "tiny", "flat")
    found = _run(BOUNDED, _calls(NUMPYS), tmp_path, *sets)
    for sizes, call, error, took, bound in found:
        print(f"{took / MIB:8.1f} of {(bound or 0) / MIB:8.1f} MiB  {sizes} {call}  {error}")
    failed = [(sizes, call, error) for sizes, call, error, *_ in found if error]
    assert not [(x, y, e) for x, y, e in failed if x == "small" and "BudgetError" not in e]
    # Some take no such shapes.
    for sizes in sets[1:]:
        all_calls = [call for which, call, *_ in found if which == sizes]
        wrong = [call for which, call, _ in failed if which == sizes]
        assert len(wrong) < len(all_calls) / (2 if sizes == "flat" else 5), wrong
    # A page here and there, and what the allocator rounds up.
    known = [one for one in found if one[4] is not None]
    assert not [(x, call, t, b) for x, call, _, t, b in known if t > b + MIB]


def test_ufuncs_keep_to_the_budget_or_are_refused(tmp_path: Path) -> None:
    found = _run(UFUNCS, [], tmp_path, str(LITTLE))
    for call, how, took in found:
        print(f"{took // MIB:5} MiB  {call}  {how}")
    ufuncs = {f.__name__ for f in vars(np).values() if isinstance(f, np.ufunc)}
    assert {call.split()[0] for call, *_ in found} == ufuncs
    # NumPy itself has no loops for some types, and says so by a TypeError.
    refusals = ("done", "BudgetError: ", "UnsupportedError: ", "InvalidTypeError: ")
    assert not [(call, how) for call, how, _ in found if not how.startswith(refusals)]
    done = {call.split()[0] for call, how, _ in found if how == "done" and call.endswith("call")}
    # There are no times among our arrays.
    assert ufuncs - done == {"isnat"}
    # Less than an operand, which has 26 MiB.
    assert not [(call, took // MIB) for call, _, took in found if took > LITTLE + 8 * MIB]


def test_what_has_no_bound_is_refused_by_its_full_name() -> None:
    with pytest.raises(oc.UnsupportedError, match=r"numpy\.apply_along_axis .*A\.compute\(\)"):
        np.apply_along_axis(sum, 0, oc.ones((3, 3)))
    with oc.config(memory=16 * MIB):
        for make in (
            lambda: np.linalg.svd(oc.ones((10, 8000))),
            lambda: np.vander(oc.ones(9), 20_000_000),
        ):
            with pytest.raises(oc.BudgetError, match=r"numpy\.(linalg\.svd|vander) ") as caught:
                make()
            assert caught.value.needed is not None
            assert caught.value.needed > 16 * MIB
