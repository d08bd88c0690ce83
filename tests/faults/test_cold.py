"""A process that has done nothing yet, and may have little: each call works, or raises.

Nothing aborts, panics or prints, whatever is measured or started at first use.
"""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

WORK = """
import os, resource, sys
kind, value = sys.argv[1], int(sys.argv[2])
import numpy as np
import outcrop as oc
oc.config(memory="64MiB", threads=2, engine=sys.argv[3])
v = np.arange(600 * 500.0).reshape(600, 500)
S = np.eye(500) * 600 + 1
errors = []

def mapped():
    return int(open("/proc/self/statm").read().split()[0]) * 4096

if kind == "as":
    resource.setrlimit(resource.RLIMIT_AS, (mapped() + (value << 20), resource.RLIM_INFINITY))
elif kind == "nproc":
    # Nobody else's threads count.
    user = 50000 + os.getpid() % 9000
    os.chown(".", user, user)
    os.setgid(user)
    os.setuid(user)
    resource.setrlimit(resource.RLIMIT_NPROC, (value, value))

def transposed():
    array = oc.open("a.zarr")
    assert (array.T @ array).compute().shape == (500, 500)

def changed():
    with oc.open("a.zarr", "r+") as array:
        array[3:5] = array[3:5].compute()

def read(name):
    assert np.array_equal(oc.open(name).compute(), v)

for work in (
    lambda: oc.asarray(v).save("a.zarr", tile=100, overwrite=True),
    lambda: oc.asarray(v).save("z.zarr", tile=(100, 100), codecs="zstd", overwrite=True),
    lambda: read("z.zarr"),
    lambda: oc.open("a.zarr").save("b.npy", order="F", overwrite=True),
    lambda: read("b.npy"),
    transposed,
    lambda: oc.linalg.solve(oc.asarray(S), oc.asarray(v.T.copy()), assume="pos").compute(),
    lambda: ((oc.open("a.zarr") - oc.open("b.npy").mean(axis=0)) ** 2).sum().compute(),
    lambda: oc.transpose("b.npy", "t.npy", overwrite=True),
    lambda: oc.linalg.cholesky(oc.asarray(S)).save("l.zarr", overwrite=True),
    changed,
    lambda: read("a.zarr"),
):
    try:
        work()
    except (oc.OutcropError, MemoryError) as error:
        errors.append(type(error).__name__)
print(*errors)
"""


def run(directory: Path, kind: str, value: int, engine: str) -> list[str]:
    directory.mkdir()
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WORK, kind, str(value), engine],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )
    assert (ended.returncode, ended.stderr) == (0, ""), (value, ended.returncode, ended.stderr)
    return ended.stdout.split()


@pytest.mark.parametrize("engine", ["auto", "threads"])
def test_little_address_space(tmp_path: Path, engine: str) -> None:
    """From too little to enough. With less, the C library itself ends a process for a thread."""
    counts = Counter[str]()
    for room in (24, 32, 40, 56, 80, 128, 250):
        counts.update(run(tmp_path / str(room), "as", room, engine))
    assert counts["BudgetError"] > 5
    assert run(tmp_path / "enough", "as", 4000, engine) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="another user is needed, whose threads are counted")
@pytest.mark.parametrize("engine", ["auto", "threads"])
def test_no_threads(engine: str) -> None:
    with TemporaryDirectory(prefix="outcrop-test-", dir="/tmp") as name:
        place = Path(name)
        place.chmod(0o777)
        refused = [len(run(place / str(n), "nproc", n, engine)) for n in (1, 3, 200)]
    assert refused[0] > 0
    assert refused[-1] == 0, refused
