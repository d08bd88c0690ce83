"""The rate of NumPy's product, or of SciPy's BLAS and factorizations, of matrices in memory.

``openblas.py JOB DTYPE N`` prints one line of JSON: seconds, who did it, and for which processor
OpenBLAS has chosen its kernels. A job is gemm, cholesky or lu, or with SciPy another routine of
level-3 BLAS. How many threads is up to OPENBLAS_NUM_THREADS.
"""

from __future__ import annotations

import ctypes
import functools
import json
import sys
import time
from typing import Any

import data
import numpy as np

try:
    import scipy.linalg
except ImportError:  # NumPy's own does as well, but for a copy.
    scipy = None

WARM_UP = 1024


def filled(function: Any, n: int, dtype: str) -> Any:
    """A matrix in column-major order, made a few columns at a time."""
    a = np.empty((n, n), dtype, order="F")
    i = np.arange(n)[:, None]
    for start in range(0, n, 64):
        columns = np.arange(start, min(n, start + 64))[None, :]
        a[:, start : start + 64] = function(i, columns)
    return a


def gemm(n: int, dtype: str) -> float:
    """Seconds of a product."""
    a, b = filled(data.left, n, dtype), filled(data.right, n, dtype)
    c = np.ones((n, n), dtype, order="F")
    start = time.perf_counter()
    np.matmul(a, b, out=c)
    return time.perf_counter() - start


def cholesky(n: int, dtype: str) -> float:
    """Seconds of a factorization, in place where SciPy is there."""
    a = filled(data.hermitian if np.dtype(dtype).kind == "c" else data.positive, n, dtype)
    start = time.perf_counter()
    if scipy is None:
        np.linalg.cholesky(a)
    else:
        scipy.linalg.cho_factor(a, lower=True, overwrite_a=True, check_finite=False)
    return time.perf_counter() - start


def lu(n: int, dtype: str) -> float:
    """Seconds of a factorization with partial pivoting, in place."""
    a = filled(data.mixed, n, dtype)
    start = time.perf_counter()
    scipy.linalg.lu_factor(a, overwrite_a=True, check_finite=False)
    return time.perf_counter() - start


def blas(name: str, n: int, dtype: str) -> float:
    """Seconds of a routine of level-3 BLAS, in place; of a half, of the lower one."""
    # What is Hermitian is symmetric where it is real, and BLAS has no names for that.
    if np.dtype(dtype).kind != "c":
        name = {"hemm": "symm", "herk": "syrk", "her2k": "syr2k"}.get(name, name)
    c = filled(data.right, n, dtype)
    (routine,) = scipy.linalg.blas.get_blas_funcs([name], [c])
    a = filled(data.lower if name in ("trmm", "trsm") else data.left, n, dtype)
    start = time.perf_counter()
    if name in ("trmm", "trsm"):
        found = routine(1.0, a, c, lower=1, overwrite_b=1)
    elif name in ("syrk", "herk"):
        found = routine(1.0, a, beta=1.0, c=c, lower=1, overwrite_c=1)
    else:
        found = routine(1.0, a, a, beta=1.0, c=c, lower=1, overwrite_c=1)
    seconds = time.perf_counter() - start
    assert np.shares_memory(found, c)
    return seconds


def core() -> str:
    """The processor that OpenBLAS takes this one for."""
    found = set()
    with open("/proc/self/maps") as maps:
        paths = {line.split()[-1] for line in maps if "openblas" in line}
    for path in paths:
        library = ctypes.CDLL(path)
        for name in ("scipy_openblas_get_corename64_", "scipy_openblas_get_corename"):
            if hasattr(library, name):
                function = getattr(library, name)
                function.restype = ctypes.c_char_p
                found.add(function().decode())
    return ", ".join(sorted(found)) or "unknown"


def main() -> None:
    """Measures, prints."""
    job, dtype, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
    own = {"gemm": gemm, "cholesky": cholesky, "lu": lu}
    run = own.get(job, functools.partial(blas, job))
    run(min(n, WARM_UP), dtype)
    seconds = run(n, dtype)
    who = "NumPy" if job == "gemm" or scipy is None else "SciPy"
    print(json.dumps({"seconds": seconds, "who": who, "core": core()}))


if __name__ == "__main__":
    main()
