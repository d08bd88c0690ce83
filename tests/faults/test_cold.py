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

OPERATIONS = """
def transposed():
    array = oc.open("a.zarr")
    assert (array.T @ array).compute().shape == S.shape

def changed():
    with oc.open("a.zarr", "r+") as array:
        array[3:5] = array[3:5].compute()

def read(name):
    assert np.array_equal(oc.open(name).compute(), v)

OPERATIONS = (
    lambda: oc.asarray(v).save("a.zarr", tile=tile, overwrite=True),
    lambda: oc.asarray(v).save("z.zarr", tile=tile, codecs="zstd", overwrite=True),
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
)
"""

WORK = """
import os, resource, sys
kind, value = sys.argv[1], int(sys.argv[2])
import numpy as np
import outcrop as oc
oc.config(memory="64MiB", threads=2, engine=sys.argv[3])
v = np.arange(600 * 500.0).reshape(600, 500)
S = np.eye(500) * 600 + 1
tile = 100
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

{operations}
for work in OPERATIONS:
    try:
        work()
    except (oc.OutcropError, MemoryError) as error:
        errors.append(type(error).__name__)
print(*errors)
""".replace("{operations}", OPERATIONS)

REFUSED = """
import os, sys, traceback
import numpy as np
import outcrop as oc
from outcrop import _native
kind, engine = sys.argv[1:]
v = np.arange(150 * 125.0).reshape(150, 125)
S = np.eye(125) * 150 + 1
tile = 25
{operations}

def refused(work, nth):
    '''Whether the process, which has done nothing yet, came to that.'''
    oc.config(memory="64MiB", threads=2, engine=engine)
    rules = {
        "once": "memory:%d:enomem:once",
        "always": "memory:%d:enomem:always",
        "small": "heap:%d:enomem:once",
        "all": "heap:%d:enomem:always;memory:1:enomem:always",
    }
    _native.inject_faults(rules[kind] % nth)
    error = None
    try:
        work()
    except (oc.OutcropError, MemoryError) as raised:
        error = raised
    assert not isinstance(error, (oc.InternalError, oc.CorruptArrayError)), repr(error)
    asked = _native.memory_asked_for()[kind in ("small", "all")]
    _native.inject_faults(None)
    name = type(error).__name__
    del error
    assert not [n for n in os.listdir() if "outcrop" in n], os.listdir()
    work()
    if asked >= nth:
        print(name, flush=True)
        return 0
    return 1

def child(work, *arguments):
    pid = os.fork()
    if pid == 0:
        status = 9
        try:
            status = work(*arguments) or 0
        except BaseException:
            traceback.print_exc()
        os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def everything():
    oc.config(memory="64MiB", threads=2, engine=engine)
    for work in OPERATIONS:
        work()

assert child(everything) == 0
for number, work in enumerate(OPERATIONS):
    nth = 1
    while (status := child(refused, work, nth)) == 0:
        nth += 1 if kind in ("once", "always") and nth < 16 else max(1, nth // 2)
    assert status == 1, (number, nth, status)
""".replace("{operations}", OPERATIONS)


@pytest.mark.parametrize("engine", ["uring", "threads"])
@pytest.mark.parametrize("kind", ["once", "always", "small", "all"])
def test_memory_that_is_refused(tmp_path: Path, kind: str, engine: str) -> None:
    """The n-th time that a cold process asks for memory, there is none: it is told, and goes on."""
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", REFUSED, kind, engine],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stderr
    counts = Counter(ended.stdout.split())
    # What is small comes from a reserve, for which nothing fails.
    assert counts["NoneType" if kind == "small" else "BudgetError"] > 10, counts


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
    """From nothing to enough."""
    counts = Counter[str]()
    for room in (0, 1, 3, 4, 5, 6, 7, 9, 12, 14, 19, 24, 32, 40, 56, 80, 128, 250):
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
