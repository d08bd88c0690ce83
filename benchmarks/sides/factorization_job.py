"""The others' side of `factorization.py`: ``factorization_job.py WHO WHAT DIRECTORY ITERATIONS``.

The formulas are those of the users' side; ``memmap`` is NumPy with X where it lies, ``dask`` works on
blocks of rows of the same file.
"""

import json
import sys
import time

import numpy as np

who, what, directory, count = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
X = np.load(f"{directory}X.npy", mmap_mode="r")
start = time.perf_counter()
if who == "dask":
    import dask
    import dask.array as da

    dask.config.set(scheduler="threads")
    rows = 1 << 16
    X = da.from_array(X, chunks=(rows, -1))
    exp, load = (
        da.exp,
        lambda name: da.from_array(np.load(f"{directory}{name}.npy"), chunks=(rows, -1)),
    )
else:
    exp, load = np.exp, lambda name: np.load(f"{directory}{name}.npy")
if what == "NMF":
    W, H = load("W"), np.load(f"{directory}H.npy")
    for _ in range(count):
        W = W * ((X @ H.T) / (W @ H @ H.T))
        H = H * ((W.T @ X) / (W.T @ W @ H))
    W, H = dask.compute(W, H) if who == "dask" else (W, H)
    np.save(f"{directory}theirs.npy", W)
else:
    y, w = np.load(f"{directory}y.npy"), np.zeros(X.shape[1])
    if who == "dask":
        y = da.from_array(y, chunks=rows)
    for _ in range(count):
        w = w - 1e-6 * (X.T @ (1 / (1 + exp(-(X @ w))) - y))
    w = w.compute() if who == "dask" else w
print(json.dumps({"seconds": time.perf_counter() - start}))
