"""Array expressions keep to the budget, as the kernel sees it.

A sample; `benchmarks/expression_memory.py` has every function, and larger arrays.
"""

import json
import subprocess
import sys
from pathlib import Path

MIB = 1 << 20
BUDGET = 16 * MIB

SCRIPT = """
import json, sys
import numpy as np
import outcrop as oc

def memory(field):
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) * 1024

def measure(target, cases):
    # What was resident before; the most that was in each case, and of the budget.
    before, found = memory("VmRSS:"), {}
    for name, make in cases.items():
        open("/proc/self/clear_refs", "w").write("5")
        make().save(target, overwrite=True)
        found[name] = memory("VmHWM:"), oc.last_run().peak_bytes
    print(json.dumps([before, found]))
"""

KINDS = """
oc.config(memory=int(sys.argv[1]), scratch=".")
G, shape = oc.random.default_rng(1), (2048, 4096)
Z, C = G.random(shape).save("Z.zarr", tile=(512, 512)), G.random(shape).save("C.npy")
((C[:50] + 1) @ C[:50].T).compute()
measure("out.zarr", {
    "written": lambda: Z * C + 1,
    "normalized": lambda: (Z - Z.mean(0)) / Z.std(0),
    "turned": lambda: Z[:, :2048] + Z.T[:2048],
    "backwards": lambda: Z[::-1, ::-2] * 2,
    "joined": lambda: oc.concat([Z, C[::2]]).max(axis=1),
    "taken": lambda: oc.take(Z + C, range(4000, 0, -9), axis=1),
    "summed up": lambda: oc.cumulative_sum(Z, axis=0),
    "multiplied": lambda: (Z + 1).T @ C[:, :20],
    "places": lambda: oc.argmax(Z, axis=1),
    "mapped": lambda: oc.map(np.hypot, Z, C),
    "random": lambda: G.normal(0, 1, shape).std(axis=0),
    "chosen": lambda: Z[Z > 0.3],
    "chosen of a file": lambda: np.log(C)[Z > 0.3],
    "few chosen": lambda: Z[Z > 0.9999],
    "indices": lambda: oc.nonzero(Z > 0.3)[1],
})
"""


def test_every_kind_of_expression(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT + KINDS, str(BUDGET)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    before, found = json.loads(ended.stdout)
    for name, (most, peak) in found.items():
        assert peak <= BUDGET, name
        assert most <= BUDGET + 200 * MIB, name
        # Beside the interpreter, with what threads keep for themselves.
        assert most - before <= BUDGET + 48 * MIB, name
    print({name: (most - before - BUDGET) // MIB for name, (most, _) in found.items()})


NARROW = """
A = oc.random.default_rng(1).integers(0, 99, (16384, 8192), dtype="uint8").save("A.npy")
C = oc.astype(A[:2048], "complex64").save("C.zarr")
oc.config(memory=int(sys.argv[1]))
oc.var(A[:9]).compute()
measure("out.npy", {
    "variance": lambda: oc.var(A),
    "variances": lambda: oc.var(A, axis=0),
    "without NaN": lambda: oc.nanstd(A, axis=1),
    "complex": lambda: oc.var(C),
    "places": lambda: oc.argmax(A, axis=0),
})
"""


def test_reductions_that_compute_in_longer_types(tmp_path: Path) -> None:
    """What they make of a strip is eight times as long as the strip, and in the budget."""
    budget = 64 * MIB
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT + NARROW, str(budget)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    before, found = json.loads(ended.stdout)
    for name, (most, peak) in found.items():
        assert peak <= budget, name
        assert most - before <= budget + 4 * MIB, name
