"""The others' side of `turning.py`.

``turn_job.py memmap SOURCE TARGET ROWS COLUMNS SIDE`` transposes bytes from file to file by NumPy's
memmap in square blocks. ``turn_job.py dask SOURCE TARGET CHUNK THREADS`` transposes a Zarr array to
another one. Both print one line of JSON with the seconds.
"""

import json
import os
import sys
import time

import numpy as np


def memmap(source: str, target: str, rows: int, columns: int, side: int) -> None:
    """Block by block, in the order in which the source lies."""
    given = np.memmap(source, "u1", "r", shape=(rows, columns))
    turned = np.memmap(target, "u1", "w+", shape=(columns, rows))
    for i in range(0, rows, side):
        for j in range(0, columns, side):
            turned[j : j + side, i : i + side] = given[i : i + side, j : j + side].T
    turned.flush()
    del turned
    os.sync()


def dask(source: str, target: str, chunk: int, threads: int) -> None:
    """As Dask's users do it."""
    import dask
    import dask.array as da
    import zarr

    with dask.config.set(scheduler="threads", num_workers=threads):
        turned = da.from_zarr(source).T
        out = zarr.create_array(
            store=target, shape=turned.shape, chunks=(chunk, chunk), dtype="u1", compressors=None
        )
        da.store(turned, out, lock=False)
    os.sync()


start = time.perf_counter()
if sys.argv[1] == "memmap":
    memmap(sys.argv[2], sys.argv[3], *map(int, sys.argv[4:7]))
else:
    dask(sys.argv[2], sys.argv[3], *map(int, sys.argv[4:6]))
print(json.dumps({"seconds": time.perf_counter() - start}))
