"""Dask's side of `rivals.py` and `solvers.py`, run in an environment of its own.

``dask_job.py prepare DIRECTORY N CHUNK NAMES`` writes A.zarr, B.zarr, S.zarr (positive definite), D.zarr (with
a heavy diagonal, as Dask's LU wants it) as Dask reads them best, not compressed. ``dask_job.py JOB DIRECTORY N
CHUNK THREADS SCHEDULER MEMORY`` computes and prints one line of JSON; JOB is matmul, cholesky, lu or solve,
SCHEDULER is threads, or distributed: one worker that spills to disk beyond MEMORY. ``dask_job.py check
DIRECTORY N CHUNK JOB`` looks at corners of the result.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import data
import numpy as np
import zarr


def blank(path: Path, n: int, chunk: int, ndim: int = 2) -> Any:
    """A new array on disk, not compressed."""
    return zarr.create_array(
        store=str(path),
        shape=(n,) * ndim,
        chunks=(chunk,) * ndim,
        dtype="float64",
        compressors=None,
        overwrite=True,
    )


def prepare(directory: Path, n: int, chunk: int, names: str) -> None:
    """Writes the matrices."""
    functions = {"A": data.left, "B": data.right, "S": data.positive, "D": data.lower}
    for name, function in functions.items():
        if name not in names:
            continue
        array = blank(directory / f"{name}.zarr", n, chunk)
        for i in range(0, n, chunk):
            for j in range(0, n, chunk):
                rows, columns = np.ogrid[i : min(n, i + chunk), j : min(n, j + chunk)]
                array[i : i + chunk, j : j + chunk] = function(rows, columns)


def compute(job: str, directory: Path, n: int, chunk: int) -> float:
    """Seconds from opening the arrays to the result on disk, not synced."""
    import dask.array as da

    def matrix(name: str) -> Any:
        return da.from_zarr(str(directory / f"{name}.zarr"))

    start = time.perf_counter()
    target = blank(directory / "C.zarr", n, chunk, ndim=1 if job == "solve" else 2)
    if job == "matmul":
        result = matrix("A") @ matrix("B")
    elif job == "cholesky":
        result = da.linalg.cholesky(matrix("S"), lower=True)
    elif job == "lu":
        # Both triangles in one matrix, as others store them.
        _, lower, upper = da.linalg.lu(matrix("D"))
        result = lower + upper
    else:
        result = da.linalg.solve(matrix("D"), da.ones(n, chunks=chunk))
    da.store(result, target, lock=False)
    return time.perf_counter() - start


def check(job: str, directory: Path, n: int) -> None:
    """Corners of the result."""

    def matrix(name: str) -> Any:
        return zarr.open_array(str(directory / f"{name}.zarr"), mode="r")

    c = matrix("C")
    some = slice(n - 32, n)
    if job == "matmul":
        expected = matrix("A")[some, :] @ matrix("B")[:, :32]
        found = c[some, :32]
    elif job == "cholesky":
        expected = matrix("S")[some, some]
        rows = c[some, :]
        found = rows @ rows.T
    elif job == "lu":
        # Nothing is exchanged; the ones of both diagonals are in one place.
        expected = matrix("D")[some, some]
        lower = np.tril(c[some, :], n - 33) + np.eye(32, n, n - 32)
        upper = np.triu(c[:, some] - np.eye(n, 32, 32 - n), 32 - n)
        found = lower @ upper
    else:
        expected = np.ones(32)
        found = matrix("D")[some, :] @ c[:]
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


def main() -> None:
    """Prepares, or measures and prints."""
    job, directory, n, chunk = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    if job == "prepare":
        prepare(directory, n, chunk, sys.argv[5])
        return
    if job == "check":
        check(sys.argv[5], directory, n)
        return
    threads, scheduler = int(sys.argv[5]), sys.argv[6]
    import dask

    if scheduler == "distributed":
        from distributed import Client

        memory = sys.argv[7]
        with (
            dask.config.set({"distributed.worker.memory.terminate": False}),
            Client(
                processes=False,
                n_workers=1,
                threads_per_worker=threads,
                memory_limit=memory,
                local_directory=str(directory / "spilled"),
                dashboard_address=None,
            ),
        ):
            seconds = compute(job, directory, n, chunk)
    else:
        with dask.config.set(scheduler="threads", num_workers=threads):
            seconds = compute(job, directory, n, chunk)
    print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main()
