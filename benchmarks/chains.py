"""Elementwise chains and reductions run at the speed of the disk, or of NumPy on all cores.

X of 8 GiB, f64, in a .npy file, with 512 MiB of memory. Where the disk is the limit, fio reads the same
file; where the processor is, NumPy computes the same of an array in memory, with a thread for each core,
each on strips that stay in its cache (the fastest way that NumPy has).
"""

import json
import os
import sys

import numpy as np
from common import (
    ALLOWANCE,
    GIB,
    MIB,
    Claim,
    arguments,
    cold,
    fio,
    limited,
    measure_device,
    outcrop,
    remove,
)

options = arguments(__doc__)
path = options.directory / "X.npy"
columns = 1000
rows = (8 * GIB if not options.quick else GIB // 4) // (8 * columns)
nbytes = 8 * rows * columns
budget = 512 * MIB
limit = budget + ALLOWANCE

PROLOGUE = """
X = oc.open(sys.argv[1])
chance = np.random.default_rng(2)
mu, sd = chance.random(X.shape[1]), 0.5 + chance.random(X.shape[1])
{expression}
plan = oc.plan({call})
before = io(); start = time.perf_counter()
value = {call}.compute()
seconds = time.perf_counter() - start
report(value=np.ravel(value)[:3].tolist(), planned=plan.bytes_read, predicted=plan.seconds)
"""
LONG = """
y = {start}
for _ in range(4):
    y = np.sin(np.exp(-y))
"""
DISK = {
    "((X - mu) / sd).sum(axis=0)": ("", "((X - mu) / sd).sum(axis=0)"),
    "X.mean(axis=0)": ("", "X.mean(axis=0)"),
    "np.sqrt(X * X + 1).max(axis=1)": ("", "np.sqrt(X * X + 1).max(axis=1)"),
    "X.var()": ("", "X.var()"),
}
PROCESSOR = {
    "np.sin(np.exp(-x)), four times, summed": (LONG.format(start="X"), "y.sum()"),
    "np.exp(np.sin(np.exp(np.sin(x)))).mean(axis=0)": (
        "",
        "np.exp(np.sin(np.exp(np.sin(X)))).mean(axis=0)",
    ),
}
NUMPY = """
import json, os, sys, time
from concurrent.futures import ThreadPoolExecutor
import numpy as np

cores, elements, strip = os.cpu_count(), int(sys.argv[1]), 1 << 15
x = np.random.default_rng(1).random(elements)

def part(i):
    one, other, total = np.empty(strip), np.empty(strip), 0.0
    for start in range(i * elements // cores, (i + 1) * elements // cores - strip + 1, strip):
        y = x[start : start + strip]
{body}
    return total

with ThreadPoolExecutor(cores) as pool:
    list(pool.map(part, range(cores)))
    start = time.perf_counter()
    list(pool.map(part, range(cores)))
    print(json.dumps({"rate": elements / (time.perf_counter() - start)}))
"""
FOUR_TIMES = """
        for _ in range(4):
            np.negative(y, out=one); np.exp(one, out=one); y = np.sin(one, out=other)
        total += y.sum()
"""
NESTED = """
        np.sin(y, out=one); np.exp(one, out=one); np.sin(one, out=one); np.exp(one, out=one)
        total += one.sum()
"""
BODIES = dict(zip(PROCESSOR, (FOUR_TIMES, NESTED), strict=True))


def make() -> None:
    """Random numbers, written in requests of 8 MiB."""
    remove(path)
    block = np.random.default_rng(1).random((1000, columns))
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(
            file, {"descr": "<f8", "fortran_order": False, "shape": (rows, columns)}
        )
        for i in range(0, rows, 1000):
            file.write(block[: min(1000, rows - i)].tobytes())


def ours(expression: str, call: str) -> dict[str, float]:
    cold(path)
    return outcrop(limit, budget, PROLOGUE.format(expression=expression, call=call), str(path))


make()
measure_device(options.directory)
claim = Claim("Chains of elementwise functions and reductions", options)
differences, kernels, limits, lines = [], [], [], []
for name, (expression, call) in DISK.items():
    ratios = []
    for _ in range(options.rounds):
        cold(path)
        disk = fio(path, nbytes // MIB * MIB, "read", MIB, 32)
        run = ours(expression, call)
        rate = nbytes / run["seconds"]
        ratios.append(rate / disk)
        differences.append(abs(run["planned"] - run["read"]) / nbytes)
        kernels.append(run["kernel_read"] / run["read"])
        limits.append(run["peak_rss"] / limit)
        lines.append([name, f"{rate / 1e9:.2f} GB/s", f"fio {disk / 1e9:.2f} GB/s"])
        print(f"    {lines[-1]}, predicted {run['predicted']:.1f} s, took {run['seconds']:.1f} s")
    claim.row(f"{name}: rate / sequential reading by fio", ratios, 0.85, 0.95, low=False)
for name, (expression, call) in PROCESSOR.items():
    ratios = []
    for _ in range(options.rounds):
        elements = GIB // 8 if not options.quick else GIB // 128
        script = NUMPY.replace("{body}", BODIES[name])
        _, printed = limited(3 * GIB, [sys.executable, "-c", script, str(elements)])
        numpy = json.loads(printed)["rate"]
        run = ours(expression, call)
        rate = nbytes / 8 / run["seconds"]
        ratios.append(rate / numpy)
        limits.append(run["peak_rss"] / limit)
        lines.append([name, f"{rate / 1e6:.0f} M elements/s", f"NumPy {numpy / 1e6:.0f}"])
        print(f"    {lines[-1]}, predicted {run['predicted']:.1f} s, took {run['seconds']:.1f} s")
    claim.row(f"{name}: rate / NumPy's on {os.cpu_count()} threads", ratios, 0.8, 0.95, low=False)
claim.row("bytes not planned / size", differences, 0.0, 0.0, low=True, worst=True)
claim.row("bytes read: kernel / reported", kernels, 1.01, 1.001, low=True, worst=True)
claim.row("memory used / allowed", limits, 1.0, 1.0, low=True, worst=True)
claim.table("every run", ["what", "ours", "reference"], lines)
claim.save()
remove(path)
