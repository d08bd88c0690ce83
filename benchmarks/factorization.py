"""Non-negative factorization and logistic regression, as TilePACK's thesis has them.

X of 0.5, 1, 2 and 4 GiB, 1.75 GiB of memory: a sixteenth of the thesis's sizes. Bytes are given scaled
back up, beside those that the thesis read; of `.npy` files, and of Zarr in default tiles. NumPy reads
X by memmap, Dask from Zarr, with the same memory. Every side runs after a rest, and once more right
after memory was used: X is to stay in memory, which is slow the first time where a virtual machine has
given it back.
"""

import sys
from pathlib import Path

import numpy as np
from common import ALLOWANCE, GIB, Claim, arguments, cold, outcrop, remove
from sides import environment
from sides.linear import attempt, scratch

import outcrop as oc

options = arguments(__doc__)
SCALE = 16
BUDGET = 7 * GIB // 4 // (16 if options.quick else 1)
SIZES = [0.5, 1, 2, 4]
COLUMNS, RANK = 100, 10
# How long the others are waited for, as a multiple of what the claim asks of them.
PATIENCE = 1.25
JOB = str(Path(__file__).parent / "sides" / "factorization_job.py")

# What the thesis read, and what is claimed: GB, by size; 4 iterations of NMF, 10 of the regression.
NMF = {0.5: (8, 9.5), 1: (46, 19), 2: (322, 70), 4: (742, 225)}
LOGISTIC = {0.5: (8, 8.8), 1: (16, 17.5), 2: (640, 90), 4: (1280, 420)}

OURS_NMF = """
X, W, H = (oc.open(sys.argv[1] + name + sys.argv[3]) for name in ("X", "W", "H"))
for _ in range(int(sys.argv[2])):
    W = W * ((X @ H.T) / (W @ H @ H.T))
    H = H * ((W.T @ X) / (W.T @ W @ H))
alike(); before = io(); start = time.perf_counter()
oc.save({sys.argv[1] + "W-new.zarr": W, sys.argv[1] + "H-new.zarr": H}, overwrite=True)
seconds = time.perf_counter() - start
report(results=W.nbytes + H.nbytes)
"""
OURS_LOGISTIC = """
X, y = (oc.open(sys.argv[1] + name + sys.argv[3]) for name in ("X", "y"))
w = oc.asarray(np.zeros(X.shape[1]))
for _ in range(int(sys.argv[2])):
    w = w - 1e-6 * (X.T @ (1 / (1 + oc.exp(-(X @ w))) - y))
alike(); before = io(); start = time.perf_counter()
oc.save({sys.argv[1] + "w-new.zarr": w}, overwrite=True)
seconds = time.perf_counter() - start
report(results=w.nbytes)
"""


def floor_of(who: str, size: float) -> float:
    """How many times as long the others are to take, by what is claimed."""
    return 3.0 if who == "dask" else 5.0 if size > 1.75 else 1.0


def make(directory: Path, rows: int) -> None:
    """Random numbers, written in parts: as .npy, and as Zarr in default tiles."""
    chance = np.random.default_rng(1)
    part = 1 << 16
    for name, columns in (("X", COLUMNS), ("W", RANK)):
        new = np.lib.format.open_memmap(directory / f"{name}.npy", "w+", "f8", (rows, columns))
        for i in range(0, rows, part):
            new[i : i + part] = chance.random((min(part, rows - i), columns))
        new.flush()
        del new
    np.save(directory / "H.npy", chance.random((RANK, COLUMNS)))
    np.save(directory / "y.npy", (chance.random(rows) > 0.5).astype("f8"))
    with oc.config(memory=GIB // 4):
        for name in ("X", "W", "H", "y"):
            oc.open(directory / f"{name}.npy").save(directory / f"{name}.zarr")


claim = Claim("Factorization and regression, sizes of TilePACK's thesis by 16", options)
python, said = environment.rivals(options.directory)
claim.note(f"others: {said}")
lines = []
differences, limits = [], []
with scratch(options, "factorization") as place:
    for size in SIZES:
        rows = int(size * GIB) // (8 * COLUMNS) // (16 if options.quick else 1)
        make(place, rows)
        limit = BUDGET + ALLOWANCE
        for name, script, iterations, known, used in (
            ("NMF", OURS_NMF, 4, NMF, False),
            ("NMF", OURS_NMF, 4, NMF, True),
            ("NMF", OURS_NMF, 7, None, False),
            ("regression", OURS_LOGISTIC, 10, LOGISTIC, False),
            ("regression", OURS_LOGISTIC, 10, LOGISTIC, True),
        ):
            what = f"{name}, {iterations} iterations, X of {size:g} GiB"
            state = ", memory used just before" if used else ""
            others = [] if iterations == 7 else [("memmap", sys.executable), ("dask", str(python))]
            ratios: dict[str, list[float]] = {who: [] for who, _ in others}
            stopped = set()
            # What fits memory takes seconds, and varies more.
            for _ in range(options.rounds if size < 1.75 and others else 1):
                cold(place)
                run = outcrop(
                    limit, BUDGET, script, f"{place}/", str(iterations), ".npy", used=used
                )
                read = run["read"] * SCALE / GIB
                limits.append(run["peak_rss"] / limit)
                differences.append(run["kernel_read"] / max(run["read"], 1))
                print(
                    f"    {what}{state}: {run['seconds']:.1f} s, read {read:.1f} (scaled), "
                    f"wrote {run['written']}"
                )
                for who, executable in others:
                    cold(place)
                    command = [executable, JOB, who, name, f"{place}/", str(iterations)]
                    patience = max(60.0, PATIENCE * floor_of(who, size) * run["seconds"])
                    done, why = attempt(limit, command, used=used, timeout=patience)
                    shown = f"{done['seconds']:.1f} s" if done else why
                    print(f"      {who}: {shown}")
                    lines.append([what + state, f"{run['seconds']:.1f} s", who, shown])
                    if why.startswith("not done"):
                        stopped.add(who)
                    if done or who in stopped:
                        ratios[who].append((done["seconds"] if done else patience) / run["seconds"])
            if known is not None and not used and not options.quick:
                thesis, floor = known[size]
                claim.row(f"{what}: GB read (thesis {thesis})", [read], floor, floor, low=True)
                cold(place)
                run = outcrop(limit, BUDGET, script, f"{place}/", str(iterations), ".zarr")
                limits.append(run["peak_rss"] / limit)
                differences.append(run["kernel_read"] / max(run["read"], 1))
                read = run["read"] * SCALE / GIB
                claim.row(f"{what}, default tiles: GB read", [read], floor, floor, low=True)
            claim.row(
                f"{what}{state}: bytes written / results",
                [run["written"] / max(run["results"], 1 << 20)],
                1.05,
                1.01,
                low=True,
            )
            for who, found in ratios.items():
                if found:
                    least = ", at least" if who in stopped else ""
                    floor = floor_of(who, size)
                    claim.row(
                        f"{what}{state}: time of {who} / ours{least}",
                        found,
                        floor,
                        floor,
                        low=False,
                    )
        remove(*place.iterdir())
claim.row("bytes read: kernel / reported", differences, 1.01, 1.001, low=True, worst=True)
claim.row("memory used / allowed", limits, 1.0, 1.0, low=True, worst=True)
claim.table("seconds", ["what", "ours", "who", "theirs"], lines)
claim.save()
