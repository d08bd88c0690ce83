"""Dask's side of `rivals.py`, run in an environment of its own.

``dask_job.py prepare DIRECTORY N CHUNK NAMES`` writes A.zarr, B.zarr, S.zarr (positive definite) as
Dask reads them best, not compressed. ``dask_job.py matmul|cholesky DIRECTORY N CHUNK THREADS
SCHEDULER MEMORY`` computes and prints one line of JSON. SCHEDULER is threads, or distributed: one
worker that spills to disk beyond MEMORY. ``dask_job.py check DIRECTORY N CHUNK matmul|cholesky``
looks at corners of the result.
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


def blank(path: Path, n: int, chunk: int) -> Any:
    """A new array on disk, not compressed."""
    return zarr.create_array(
        store=str(path),
        shape=(n, n),
        chunks=(chunk, chunk),
        dtype="float64",
        compressors=None,
        overwrite=True,
    )


def prepare(directory: Path, n: int, chunk: int, names: str) -> None:
    """Writes the matrices."""
    for name, function in (("A", data.left), ("B", data.right), ("S", data.positive)):
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

    start = time.perf_counter()
    target = blank(directory / "C.zarr", n, chunk)
    if job == "matmul":
        a, b = (da.from_zarr(str(directory / f"{name}.zarr")) for name in "AB")
        result = a @ b
    else:
        s = da.from_zarr(str(directory / "S.zarr"))
        result = da.linalg.cholesky(s, lower=True)
    da.store(result, target, lock=False)
    return time.perf_counter() - start


def check(job: str, directory: Path, n: int) -> None:
    """Corners of the result."""
    a, b, s, c = (
        zarr.open_array(str(directory / f"{name}.zarr"), mode="r")
        if (directory / f"{name}.zarr").exists()
        else None
        for name in "ABSC"
    )
    some = slice(n - 32, n)
    if job == "matmul":
        expected = a[some, :] @ b[:, :32]
        found = c[some, :32]
    else:
        expected = s[some, some]
        rows = c[some, :]
        found = rows @ rows.T
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
