"""Sweeps in memory, in a process of its own: by plain Numba loops, or by Outcrop.

    python sweeps_job.py NAME WHO SHAPE SWEEPS THREADS BUDGET DIGEST

Prints seconds, without compiling, as JSON; and, if asked for, a digest of the result, row by row. A plane
of the seven-point stencil is a row.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from typing import Any

import numba
import numpy as np


def element(which: int, shape: tuple[int, ...]) -> Any:
    """Of an array of the problem, a function of the indices: the same everywhere."""

    def value(*indices: Any) -> Any:
        at = 0
        for i, step in zip(indices, (31, 17, 7), strict=False):
            at = at + (i + which) * step
        # Coefficients add up to less than one.
        return at % 1009 / (1009.0 if which == 0 else 4036.0)

    return value


def made(which: int, shape: tuple[int, ...]) -> Any:
    """The same, in memory."""
    array = np.empty(shape)
    rest = np.ogrid[tuple(slice(0, n) for n in shape[1:])]
    function = element(which, shape)
    for i in range(shape[0]):
        array[i] = function(i, *(axis for axis in rest))
    return array


def digest(rows: Any) -> str:
    """Of blocks of rows, one after the other."""
    found = hashlib.blake2b(digest_size=16)
    for block in rows:
        found.update(np.ascontiguousarray(block))
    return found.hexdigest()


# -- plain loops -----------------------------------------------------------------------------------


@numba.njit(nogil=True, error_model="numpy")
def loop23_rows(first, end, za, zr, zb, zu, zv, zz):  # type: ignore[no-untyped-def]
    for i in range(first, end):
        for j in range(1, za.shape[1] - 1):
            qa = (
                za[i, j + 1] * zr[i, j]
                + za[i, j - 1] * zb[i, j]
                + za[i + 1, j] * zu[i, j]
                + za[i - 1, j] * zv[i, j]
                + zz[i, j]
            )
            za[i, j] += 0.175 * (qa - za[i, j])


@numba.njit(nogil=True, error_model="numpy")
def relaxed_rows(first, end, u, f):  # type: ignore[no-untyped-def]
    for i in range(first, end):
        for j in range(1, u.shape[1] - 1):
            u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - f[i, j])


def chained(rows: Any) -> Any:
    """Sweeps on all cores, one behind the other by two blocks of rows."""

    @numba.njit(parallel=True, error_model="numpy")
    def run(sweeps, block, *arrays):  # type: ignore[no-untyped-def]
        n = arrays[0].shape[0]
        count = (n - 2 + block - 1) // block
        for t in range(count + 2 * (sweeps - 1)):
            for s in numba.prange(sweeps):
                b = t - 2 * s
                if 0 <= b < count:
                    rows(1 + b * block, min(n - 1, 1 + (b + 1) * block), *arrays)

    return run


@numba.njit(parallel=True, error_model="numpy")
def heat_once(a, u, v):  # type: ignore[no-untyped-def]
    for i in numba.prange(1, u.shape[0] - 1):
        for j in range(1, u.shape[1] - 1):
            for k in range(1, u.shape[2] - 1):
                along = u[i - 1, j, k] + u[i + 1, j, k] + u[i, j - 1, k] + u[i, j + 1, k]
                along = along + u[i, j, k - 1] + u[i, j, k + 1]
                v[i, j, k] = u[i, j, k] + a * (along - 6.0 * u[i, j, k])


def plain_heat(u: Any, sweeps: int) -> Any:
    v = u.copy()
    for _ in range(sweeps):
        heat_once(0.125, u, v)
        u, v = v, u
    return u


# -- who does it -----------------------------------------------------------------------------------

ARRAYS = {"livermore23": 6, "gauss_seidel": 2, "heat": 1}
ROWS = {"livermore23": loop23_rows, "gauss_seidel": relaxed_rows}


def by_numba(name: str, arrays: list[Any], sweeps: int, threads: int) -> Any:
    if name == "heat":
        return plain_heat(arrays[0], sweeps)
    if threads == 1:
        for _ in range(sweeps):
            ROWS[name](1, arrays[0].shape[0] - 1, *arrays)
    else:
        CHAINED[name](sweeps, 16, *arrays)
    return arrays[0]


def by_outcrop(name: str, arrays: list[Any], sweeps: int, threads: int) -> Any:
    import outcrop as oc

    more = (0.125,) if name == "heat" else ()
    return getattr(oc.sweeps, name)(*arrays, *more, sweeps=sweeps).compute()


CHAINED = {name: chained(rows) for name, rows in ROWS.items()}
WHO = {"numba": by_numba, "outcrop": by_outcrop}


def main() -> None:
    name, who, extents, *numbers = sys.argv[1:]
    shape = tuple(map(int, extents.split("x")))
    sweeps, threads, budget, wanted = map(int, numbers)
    numba.set_num_threads(threads)
    if who == "outcrop":
        import outcrop as oc

        oc.config(memory=budget, threads=threads)
    # Compiles.
    small = (20,) * len(shape)
    WHO[who](name, [made(k, small) for k in range(ARRAYS[name])], 2, threads)
    arrays = [made(k, shape) for k in range(ARRAYS[name])]
    start = time.perf_counter()
    result = WHO[who](name, arrays, sweeps, threads)
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "digest": digest(result) if wanted else None}))


if __name__ == "__main__":
    main()
