"""What sweeps move is what the kernel says they do: with frontiers, of views, and in flight."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import outcrop as oc

pytest.importorskip("numba")

SCRIPT = """
import json
import os
import outcrop as oc

def counted():
    lines = open("/proc/self/io").read().split("\\n")
    facts = dict(line.split(": ") for line in lines if line)
    return int(facts["read_bytes"]), int(facts["write_bytes"])

oc.config(memory="4MiB", threads=2, scratch=".")
tiled, frontier, cube = oc.open("tiled.zarr"), oc.open("frontier.zarr"), oc.open("cube.zarr")
jacobi, seidel = oc.sweeps.jacobi, oc.sweeps.gauss_seidel
found = []
for i, x in enumerate((
    jacobi(frontier, frontier),
    seidel(frontier, frontier, sweeps=4),
    seidel(tiled, frontier, sweeps=4),
    jacobi(tiled.T, tiled.T),
    jacobi(cube[1, ::-1], cube[0]),
)):
    # What is imported late, and compiled, is not the run's.
    plan = oc.plan(x, f"{i}.zarr")
    before = counted()
    x.save(f"{i}.zarr")
    after = counted()
    moved = [a - b for a, b in zip(after, before)]
    run = oc.last_run()
    planned = [plan.bytes_read, plan.bytes_written]
    found.append((moved, planned, [run.bytes_read, run.bytes_written]))
print(json.dumps(found))
"""


def test_they_are_the_kernels(tmp_path: Path) -> None:
    values = np.random.default_rng(0).random((1000, 1000))
    oc.asarray(values).save(tmp_path / "tiled.zarr", tile=128)
    oc.asarray(values).save(tmp_path / "frontier.zarr", tile=128, layout="frontier", thickness=1)
    halves = values.reshape(2, 500, 1000)
    oc.asarray(halves).save(tmp_path / "cube.zarr", tile=(1, 128, 128))
    os.sync()
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    found = json.loads(ended.stdout)
    if not any(moved[1] for moved, _, _ in found):
        pytest.skip("the kernel counts nothing on this file system")
    for moved, plan, run in found:
        assert plan == run
        for counted, expected in zip(moved, plan, strict=True):
            # Metadata of the file system, and modules that are imported late.
            assert abs(counted - expected) <= 0.02 * expected + (512 << 10), found
