"""Every function of array expressions keeps to its budget: 64 MiB, arrays of 256 MiB.

All of them run in one process, for each of which the kernel is asked anew how much memory was the most.
"""

import json
import re
import subprocess
import sys

import numpy as np
from common import ALLOWANCE, MIB, Claim, arguments, remove

import outcrop as oc
from outcrop.array_api import elementwise_functions

options = arguments(__doc__)
BUDGET = 64 * MIB
ROWS, COLUMNS = 8192 // (4 if options.quick else 1), 4096

OF_NO_ELEMENTS = {
    "__array_namespace_info__",
    "broadcast_shapes",
    "can_cast",
    "compute",
    "finfo",
    "from_dask",
    "iinfo",
    "isdtype",
    "result_type",
}
"""What has nothing to compute."""
EXPRESSIONS = """
    all(Z > -9)  any(Z > 9, axis=0)  argmax(Z, axis=1)  argmin(C, axis=0)  count_nonzero(F)
    cumulative_sum(Z, axis=0)  cumulative_prod(C, axis=1)  max(Z, axis=0)  min(F, axis=1)  mean(C)
    prod(Z, axis=1)  std(Z, axis=0)  sum(F, axis=0)  sum(Z, axis=1, where=C > 0)  var(C, axis=1)
    astype(Z, 'float32')  broadcast_to(y, S)  clip(C, 0.2, F)  concat([Z, C[::2]])
    concat([F, Z], axis=1)  expand_dims(Z + 1, axis=0)  squeeze((C + 1)[:, None], axis=1)
    stack([Z, F])  take(Z, range(4000, 0, -7), axis=1)  where(Z > 0.5, C, 0)  map(hypotenuse, Z, C)
    einsum('ij,ij->j', Z, C)  einsum('ij,j->i', Z, y)  einsum('ij,kj->ik', Z + 0, C[:40])
    outer(x, y)  tensordot(Z + 0, C[:, :30], axes=([0], [0]))  vecdot(Z, F)  matmul(Z + 1, y)
    matmul((Z * 2).T, C[:, :20])  matmul(Z, C[:64].T)
    arange(S[0] * S[1]) * 2  linspace(0, 1, S[0] * S[1]) + 1  eye(*S) + 1  full(S, 2.5) + Z
    full_like(Z, 3) - zeros_like(C)  zeros(S) + ones_like(Z)  ones(S[1]) * Z
    G.random(S) + 1  G.standard_normal(S).std()  G.normal(1, 2, S) + Z  G.uniform(0, 1, S).max()
    G.integers(9, size=S).sum(axis=0)  fromfunction(sine, S) + Z
    (Z - Z.mean(0)) / Z.std(0)  Z + C[::-1]  (Z * 2)[::-3, ::5]  Z.T + C.T  F[:, ::-1] * 2
    Z[:2048, :2048] + C[:2048, :2048].T  (Z * C).T + 1
    average(Z, axis=0)  average(C, axis=1, weights=F)  ptp(Z, axis=1)  nanmax(N, axis=1)
    nanmean(N, axis=0)  nanmin(N)  nanprod(N, axis=1)  nanstd(N, axis=1)  nansum(N, axis=0)
    nanvar(N, axis=0)  nanargmax(N, axis=0)  nanargmin(N, axis=1)  nancumsum(N, axis=1)
    nancumprod(N, axis=1)  diff(Z, axis=0)  gradient(Z, axis=1)  trapezoid(Z, axis=1)
    array_split(Z, 3, axis=1)[1]  split(F, 2)[1]  broadcast_arrays(y, Z)[0] + 1  moveaxis(Z, 0, 1)
    pad(C, 3)  pad(Z, ((2, 0), (0, 5)), mode='edge')  repeat(Z, 2, axis=1)  roll(Z, 700, axis=0)
    reshape(Z, (-1, 2048))  reshape(F + 1, -1)  swapaxes(Z, 0, 1)  tile(C, (1, 2))  unstack(Z.T)[7]
    bincount(I.reshape(-1))  histogram(Z, 20)[0]  unique_counts(I)[1]  unique_values(J)
    allclose(Z, Z)  digitize(Z, [0.2, 0.5])  imag(Z + 1j)  interp(Z, [0, 0.5, 1], [0, 9, 1])
    isclose(Z, C)  isin(I, [1, 5])  nan_to_num(N)  real(C * 1j)  round(Z, 2)
    searchsorted([0.1, 0.4, 0.8], Z)  tril(Z)  triu(F, k=5)
    compress(x > 0.5, Z, axis=0)  diagonal(Z, offset=1)  extract(Z > 0.9999, C)  flatnonzero(C > 0.9999)
    nonzero(Z > 0.9999)[1]  linalg.norm(Z)  linalg.norm(C, axis=1)  linalg.trace(Z)
    linalg.matrix_transpose(Z)  linalg.diagonal(C)  matrix_transpose(Z)  trace(Z)  around(Z, 2)
    empty(S) * 0 + Z  empty_like(Z) * 0 + C  meshgrid(x, y)[0]  from_dlpack(Z)  identity(4096) + 1
    array(Z)  array_equal(Z, C)  amax(Z, axis=1)  amin(F, axis=0)  cumsum(Z, axis=1)  cumprod(C, axis=0)
    take_along_axis(Z, I % 4096, axis=1)  unique_all(I)[3]  unique_inverse(J)[0]  unique(I)
    ravel(F)  atleast_1d(Z)  atleast_2d(x)  atleast_3d(C)  flipud(Z)  fliplr(C)  rot90(F)
    concatenate([Z, F])  vstack([Z, C])  hstack([C, F])  dstack([Z, C])  column_stack([x, Z])
    append(Z, C)  argwhere(Z > 0.9999)  diag(Z)
    median(Z)  median(C, axis=1)  nanmedian(N)  nanpercentile(N, 30)  nanquantile(N, 0.1)
    percentile(Z, [5, 95])  quantile(F, 0.5)  quantile(Z, 0.5, axis=0)  argsort(Z)  partition(C, 9)
    sort(Z, axis=0)  sort(F)  top_k(Z, 9)[1]
"""

SCRIPT = """
import json, sys
import numpy as np
import outcrop as oc

def memory(field):
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) * 1024

place, budget, cases = sys.argv[1], int(sys.argv[2]), json.load(sys.stdin)
oc.config(memory=budget, scratch=place)
one = oc.asarray(np.ones((600, 300)))
(one.T @ (one + 1)).compute(), oc.exp(one).std(0).compute()
(one + 1).save(place + "/out.zarr", overwrite=True)
before = memory("VmRSS:")
names = vars(oc) | {n: oc.open(f"{place}/{n}.npy") for n in "CFJxy"}
names |= {n: oc.open(f"{place}/{n}.zarr") for n in "ZI"}
names["N"] = oc.where(names["Z"] > 0.1, names["Z"], np.nan)
names |= {"G": oc.random.default_rng(3), "S": names["Z"].shape, "sine": lambda i, j: np.sin(i + j),
          "hypotenuse": lambda a, b: np.sqrt(a * a + b * b)}
np.seterr(all="ignore")
for case in cases:
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    oc.asarray(eval(case, names)).save(place + "/out.zarr", overwrite=True)
    run = oc.last_run()
    print(json.dumps({"case": case, "most": memory("VmHWM:"), "before": before,
                      "peak": run.peak_bytes, "seconds": run.seconds}), flush=True)
"""

place = options.directory / "expressions"
place.mkdir(exist_ok=True)
prepare = f"""
import sys
import numpy as np, outcrop as oc
G, place, shape = oc.random.default_rng(1), sys.argv[1], ({ROWS}, {COLUMNS})
G.random(shape).save(place + "/Z.zarr", overwrite=True)
G.random(shape).save(place + "/C.npy", overwrite=True)
G.random(shape).save(place + "/F.npy", order="F", overwrite=True)
G.integers(1, 9, shape).save(place + "/I.zarr", overwrite=True)
G.integers(1, 9, shape).save(place + "/J.npy", overwrite=True)
G.random(shape[0]).save(place + "/x.npy", overwrite=True)
G.random(shape[1]).save(place + "/y.npy", overwrite=True)
"""
subprocess.run([sys.executable, "-c", prepare, str(place)], check=True)


def elementwise() -> list[str]:
    """A call of each elementwise function, of numbers that it takes; results are only counted."""
    calls = []
    for name in elementwise_functions.__all__:
        ufunc = getattr(np, name)
        floating = any(set(kinds.partition("->")[0]) == {"d"} for kinds in ufunc.types)
        given = (("Z", "C") if floating else ("I", "J"))[: ufunc.nin]
        calls.append(f"count_nonzero({name}({', '.join(given)}), axis=1)")
    return calls


def functions() -> set[str]:
    """The public functions that make, move, choose or reduce elements."""
    public = {getattr(oc, name) for name in oc.__all__ if callable(getattr(oc, name))}
    return {f.__name__ for f in public if f.__module__.startswith("outcrop.array_api.")}


cases = [c for line in EXPRESSIONS.splitlines() for c in line.strip().split("  ") if c]
called = set(re.findall(r"(\w+)\(", EXPRESSIONS))
if missing := functions() - called - set(elementwise_functions.__all__) - OF_NO_ELEMENTS:
    raise SystemExit(f"no expression calls {', '.join(sorted(missing))}")
child = subprocess.run(
    [sys.executable, "-c", SCRIPT, str(place), str(BUDGET)],
    input=json.dumps(cases + elementwise()),
    stdout=subprocess.PIPE,
    text=True,
    check=True,
)
claim = Claim(f"Every function at 64 MiB, arrays of {ROWS * COLUMNS * 8 // MIB} MiB", options)
runs = [json.loads(line) for line in child.stdout.splitlines()]
for run in sorted(runs, key=lambda run: -run["most"]):
    print(
        f"    {run['case']}: {run['seconds']:.2f} s, {run['most'] / MIB:.0f} MiB, "
        f"{(run['most'] - run['before'] - BUDGET) / MIB:+.0f} MiB beside budget and interpreter"
    )
claim.row(
    "peak RSS / (budget + 200 MiB)",
    [run["most"] / (BUDGET + ALLOWANCE) for run in runs],
    1.0,
    0.6,
    low=True,
    worst=True,
)
claim.row(
    "peak RSS beside budget and interpreter / 200 MiB",
    [max(run["most"] - run["before"] - BUDGET, 0) / ALLOWANCE for run in runs],
    0.6,
    0.25,
    low=True,
    worst=True,
)
claim.row(
    "peak use of the budget / budget",
    [run["peak"] / BUDGET for run in runs],
    1.0,
    1.0,
    low=True,
    worst=True,
)
claim.save()
remove(place)
