"""Blosc2's side of `rivals.py`, run in an environment of its own.

``blosc2_job.py prepare DIRECTORY N CHUNK PATH`` writes A.b2nd and B.b2nd, not compressed.
``blosc2_job.py matmul DIRECTORY N CHUNK THREADS PATH`` computes and prints one line of JSON. PATH
is fast, what the library chooses where it can, or chunked. ``blosc2_job.py check DIRECTORY N CHUNK``
looks at a corner of the result.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import blosc2
import data
import numpy as np

PLAIN = {"clevel": 0}


def prepare(directory: Path, n: int, chunk: int, path: str) -> None:
    """Writes the factors."""
    for name, function in (("A", data.left), ("B", data.right)):
        array = blosc2.empty(
            (n, n),
            dtype="float64",
            chunks=(chunk, chunk),
            blocks=blocks(chunk, path),
            urlpath=str(directory / f"{name}.b2nd"),
            mode="w",
            cparams=PLAIN,
        )
        for i in range(0, n, chunk):
            for j in range(0, n, chunk):
                rows, columns = np.ogrid[i : min(n, i + chunk), j : min(n, j + chunk)]
                array[i : i + chunk, j : j + chunk] = function(rows, columns)


def blocks(chunk: int, path: str) -> tuple[int, int] | None:
    """The blocks of a chunk: those of the library, or squares, which the fast path needs."""
    return (min(chunk, 256), min(chunk, 256)) if path == "fast" else None


def main() -> None:
    """Prepares, or measures and prints."""
    job, directory, n, chunk = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    if job == "prepare":
        prepare(directory, n, chunk, sys.argv[5])
        return
    if job == "check":
        a, b, c = (blosc2.open(str(directory / f"{name}.b2nd"), mode="r") for name in "ABC")
        expected = a[n - 32 :, :] @ b[:, :32]
        np.testing.assert_allclose(c[n - 32 :, :32], expected, rtol=1e-8, atol=1e-8)
        return
    blosc2.set_nthreads(int(sys.argv[5]))
    blosc2.linalg.try_miniexpr = sys.argv[6] == "fast"
    start = time.perf_counter()
    a, b = (blosc2.open(str(directory / f"{name}.b2nd"), mode="r") for name in "AB")
    blosc2.matmul(
        a,
        b,
        urlpath=str(directory / "C.b2nd"),
        mode="w",
        chunks=(chunk, chunk),
        blocks=blocks(chunk, sys.argv[6]),
        cparams=PLAIN,
    )
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main()
