"""What the system refuses: descriptors, memory, space, io_uring, direct I/O, a file system."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import outcrop as oc

HEAD = """
import ctypes, json, os, resource, struct, sys, warnings
import numpy as np

def forbid(*rules, architecture=0xC000003E):
    '''A seccomp filter: (system call, argument or None, mask, errno); all else is allowed.'''
    def op(code, k, jt=0, jf=0):
        return struct.pack("HBBI", code, jt, jf, k)
    program = [op(0x20, 4), op(0x15, architecture, 1, 0), op(0x06, 0x7FFF0000)]
    for number, argument, mask, errno in rules:
        program.append(op(0x20, 0))
        if argument is None:
            program.append(op(0x15, number, 0, 1))
        else:
            program.append(op(0x15, number, 0, 3))
            program.append(op(0x20, 16 + 8 * argument))
            program.append(op(0x45, mask, 0, 1))
        program.append(op(0x06, 0x00050000 | errno))
    program.append(op(0x06, 0x7FFF0000))
    code = b"".join(program)
    buffer = ctypes.create_string_buffer(code, len(code))
    prog = struct.pack("HxxxxxxP", len(program), ctypes.addressof(buffer))
    prog = ctypes.create_string_buffer(prog, len(prog))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.prctl(22, 2, prog, 0, 0) == 0, os.strerror(ctypes.get_errno())

EPERM, EINVAL, ENOSYS = 1, 22, 38
OPENAT, OPENAT2, IO_URING_SETUP, O_DIRECT = 257, 437, 425, 0o40000

def workload():
    '''Writes, copies, converts, updates and reads; gives back what it read.'''
    values = np.arange(300 * 200.0).reshape(300, 200)
    with oc.create("a.zarr", values.shape, tile=(77, 50)) as array:
        array[...] = values
        array[7, ::3] = -1
    oc.open("a.zarr").save("b.npy", order="F")
    oc.open("b.npy").save("c.zarr", tile=(300, 11))
    with oc.open("c.zarr", "r+") as array:
        array[10:20] = 7
    with oc.open("b.npy", "r+") as array:
        array[10:20] = 7
    result = oc.open("c.zarr").compute()
    assert np.array_equal(result, oc.open("b.npy").compute())
    values[7, ::3] = -1
    values[10:20] = 7
    assert np.array_equal(result, values)
"""

X86 = pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of system calls")


def run(script: str, directory: Path, **environment: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-c", HEAD + script],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=150,
        env=os.environ | environment,
    )
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stderr
    return ended.stdout


# -- io_uring and direct I/O -------------------------------------------------------------------


@X86
@pytest.mark.parametrize("errno", ["EPERM", "ENOSYS"])
def test_io_uring_forbidden(tmp_path: Path, errno: str) -> None:
    out = run(
        f"""
forbid((IO_URING_SETUP, None, 0, {errno}))
import outcrop as oc
from outcrop import _native
oc.config(memory="8MiB")
workload()
status = _native.status()
assert status["engine"] == "threads", status
print([r for r in status["engine_reasons"] if "uring" in r][0])
try:
    oc.config(engine="uring")
except oc.OutcropError as error:
    assert "uring" in str(error)
else:
    raise AssertionError("not refused")
workload.__doc__
""",
        tmp_path,
    )
    word = {"EPERM": "not permitted", "ENOSYS": "not implemented"}[errno]
    assert re.search(f"uring.*{word}", out), out


@X86
def test_direct_io_refused(tmp_path: Path) -> None:
    """On a kernel without openat2, whose flags a filter cannot see."""
    run(
        """
forbid((OPENAT2, None, 0, ENOSYS), (OPENAT, 2, O_DIRECT, EINVAL))
import outcrop as oc
from outcrop.errors import OutcropWarning
oc.config(memory="8MiB")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    workload()
assert [w.category for w in caught] == [OutcropWarning], [str(w.message) for w in caught]
assert "direct I/O" in str(caught[0].message), caught[0].message
assert "a.zarr" in str(caught[0].message), caught[0].message
""",
        tmp_path,
    )


@X86
def test_links_are_refused_without_openat2(tmp_path: Path) -> None:
    run(
        """
forbid((OPENAT2, None, 0, ENOSYS))
import outcrop as oc
workload()
os.rename("c.zarr/c/0/3", "outside")
os.symlink("../../../outside", "c.zarr/c/0/3")
try:
    oc.open("c.zarr").compute()
except oc.CorruptArrayError as error:
    assert "tile (0, 3)" in str(error) and "link" in str(error)
else:
    raise AssertionError("not refused")
""",
        tmp_path,
    )


@X86
def test_no_locked_memory(tmp_path: Path) -> None:
    """None may be locked, not even by root; and old kernels count rings as locked memory."""
    run(
        """
resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))
import outcrop as oc
from outcrop import _native
oc.config(memory="8MiB")
engine = _native.status()["engine"]
MLOCK, MLOCKALL, MLOCK2, IO_URING_REGISTER, ENOMEM = 149, 151, 325, 427, 12
locking = (MLOCK, MLOCKALL, MLOCK2, IO_URING_REGISTER, IO_URING_SETUP)
forbid(*((number, None, 0, ENOMEM) for number in locking))
workload()
assert _native.status()["engine"] == engine
""",
        tmp_path,
    )


# -- descriptors, memory, threads --------------------------------------------------------------


@pytest.mark.parametrize("engine", ["auto", "threads"])
def test_out_of_descriptors(tmp_path: Path, engine: str) -> None:
    """With any number of descriptors left it works, or says why not; later it works again."""
    out = run(
        f"""
import errno, shutil
import outcrop as oc
oc.config(memory="8MiB", engine={engine!r})
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
refused = 0
for free in [*range(20), 25, 30, 40]:
    held = []
    try:
        while True:
            held.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        pass
    for fd in held[:free]:
        os.close(fd)
    try:
        workload()
    except oc.OutcropError as error:
        assert isinstance(error, oc.StorageError) and error.errno == errno.EMFILE, repr(error)
        refused += 1
    for fd in held[free:]:
        os.close(fd)
    del held
    assert not [n for n in os.listdir() if "outcrop" in n], (free, os.listdir())
    for name in os.listdir():
        shutil.rmtree(name) if os.path.isdir(name) else os.remove(name)
workload()
print(refused)
""",
        tmp_path,
    )
    assert 0 < int(out) < 23


def test_an_allocation_that_fails(tmp_path: Path) -> None:
    """The budget allows what the system does not have: an error, no abort, and no hanging."""
    out = run(
        """
import outcrop as oc
from outcrop import _native
oc.config(memory="512MiB")
workload()
oc.fromfunction(lambda i, j: i + j, (4096, 4096), "int64").save("big.npy")
big = oc.open("big.npy")
def mapped():
    return int(open("/proc/self/statm").read().split()[0]) * 4096
refused = 0
for room in (0, 1, 3, 9, 17, 20, 30, 60, 100, 140, 1000):
    resource.setrlimit(resource.RLIMIT_AS, (mapped() + (room << 20), resource.RLIM_INFINITY))
    for work in (
        lambda: big.compute(),
        lambda: big.save("out.zarr", tile=512, overwrite=True),
        lambda: big[::2, ::-1].save("out2.npy", overwrite=True),
    ):
        try:
            work()
        except (oc.OutcropError, MemoryError):
            refused += 1
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    oc.config(memory="511MiB"), oc.config(memory="512MiB")
    assert _native.status()["used"] == 0
    assert not [n for n in os.listdir() if "outcrop" in n], os.listdir()
assert np.array_equal(big[::1000].compute(), np.add.outer(np.arange(0, 4096, 1000), range(4096)))
print(refused)
""",
        tmp_path,
    )
    assert int(out) > 5


# -- space -------------------------------------------------------------------------------------


def test_files_may_not_grow(tmp_path: Path) -> None:
    """EFBIG. (Python ignores SIGXFSZ, which would end the process.)"""
    run(
        """
import errno
import outcrop as oc
oc.config(memory="8MiB")
workload()
resource.setrlimit(resource.RLIMIT_FSIZE, (10000, resource.RLIM_INFINITY))
for work in (
    lambda: oc.open("a.zarr").save("new.npy"),
    lambda: oc.open("a.zarr").save("new.zarr", tile=100),
    lambda: oc.open("b.npy").save("a.zarr", tile=100, overwrite=True),
):
    try:
        work()
    except oc.OutcropError as error:
        assert error.errno == errno.EFBIG, repr(error)
        assert "a file, which may have 10000 bytes (ulimit -f)" in str(error), error
    else:
        raise AssertionError("not refused")
array = oc.open("a.zarr", "r+")
try:
    array[...] = 0
    array.close()
except oc.OutcropError as error:
    array.abort()
del array
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert sorted(os.listdir()) == ["a.zarr", "b.npy", "c.zarr"], os.listdir()
assert not os.path.exists("a.zarr/.outcrop-update")
assert oc.open("a.zarr")[8, 3].item() == 1603
""",
        tmp_path,
    )


def test_scratch_that_may_not_grow(tmp_path: Path) -> None:
    """The error named the directory alone, which is no file, and not what the limit was."""
    run(
        """
import outcrop as oc
os.mkdir("scratch")
rng = np.random.default_rng(0)
A = oc.asarray(rng.standard_normal((1200, 1200))).save("square.npy")
oc.config(memory="8MiB", scratch="scratch")
resource.setrlimit(resource.RLIMIT_FSIZE, (5000000, resource.RLIM_INFINITY))
try:
    (A @ A @ A).save("new.zarr", tile=50)
except oc.StorageFullError as error:
    for part in ("/scratch/(scratch file without a name): ", "may have 5000000 bytes (ulimit -f)"):
        assert part in str(error), error
else:
    raise AssertionError("not refused")
assert sorted(os.listdir()) == ["scratch", "square.npy"], os.listdir()
""",
        tmp_path,
    )


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with 4 MiB."""
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "outcrop-test", str(place)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("a file system cannot be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.filterwarnings("ignore::outcrop.errors.OutcropWarning")
def test_no_space(small_disk: Path, leftovers: Callable[[Path], list[str]]) -> None:
    small = np.arange(100 * 100.0).reshape(100, 100)
    for name in ("a.zarr", "a.npy"):
        oc.asarray(small).save(small_disk / name)
    # Known before anything is computed.
    calls: list[int] = []

    def function(i: np.ndarray, j: np.ndarray) -> np.ndarray:
        calls.append(1)
        result: np.ndarray = i + j
        return result

    for name in ("b.zarr", "b.npy"):
        with pytest.raises(oc.StorageFullError, match=r"\d+ bytes are needed, \d+ are free"):
            oc.fromfunction(function, (1000, 1000), "int64").save(small_disk / name)
    assert not calls
    # Found out on the way: changes need room beside what they replace.
    big = oc.asarray(np.ones((500, 500)))
    big.save(small_disk / "c.zarr", tile=50)  # 2 of 4 MiB
    array = oc.open(small_disk / "c.zarr", "r+")
    filler = small_disk / "filler"
    filler.write_bytes(bytes(1 << 20))
    with pytest.raises(oc.StorageFullError, match=r"no space"):
        array[...] = 2
        array.close()
    array.abort()
    del array
    np.testing.assert_array_equal(oc.open(small_disk / "c.zarr").compute(), 1)
    for name in ("a.zarr", "a.npy"):
        np.testing.assert_array_equal(oc.open(small_disk / name).compute(), small)
    assert leftovers(small_disk) == []
    assert sorted(p.name for p in small_disk.iterdir()) == ["a.npy", "a.zarr", "c.zarr", "filler"]
    filler.unlink()
    with oc.open(small_disk / "c.zarr", "r+") as again:
        again[:100] = 2
    np.testing.assert_array_equal(oc.open(small_disk / "c.zarr")[99:101, 0].compute(), [2, 1])


# -- permission --------------------------------------------------------------------------------


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """A directory with an array, in which nothing can be written."""
    origin, place = tmp_path / "origin", tmp_path / "mounted"
    origin.mkdir()
    place.mkdir()
    oc.asarray(np.ones((30, 30))).save(origin / "a.zarr", tile=7)
    oc.asarray(np.ones((30, 30))).save(origin / "a.npy")
    if os.geteuid():
        for path in [*origin.rglob("*"), origin]:
            path.chmod(path.stat().st_mode & ~0o222)
        yield origin
        for path in [origin, *origin.rglob("*")]:
            path.chmod(path.stat().st_mode | 0o200)
        return
    # Permissions do not bind root.
    for command in (["--bind", str(origin)], ["-o", "remount,ro,bind"]):
        mount = ["mount", *command, str(place)]
        if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
            pytest.skip("root, and no read-only mount is possible here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_nothing_may_be_written(read_only: Path) -> None:
    np.testing.assert_array_equal(oc.open(read_only / "a.zarr").compute(), 1)
    np.testing.assert_array_equal(oc.open(read_only / "a.npy").compute(), 1)

    for work in (
        lambda: oc.open(read_only / "a.zarr").save(read_only / "b.zarr"),
        lambda: oc.open(read_only / "a.zarr").save(read_only / "b.npy"),
        lambda: oc.open(read_only / "a.npy").save(read_only / "a.zarr", overwrite=True),
        lambda: oc.create(read_only / "c.zarr", 3),
        # At once, and not when changes are to become visible.
        lambda: oc.open(read_only / "a.zarr", "r+"),
        lambda: oc.open(read_only / "a.npy", "r+"),
    ):
        # Its name as it is, without a dot that the system was asked about.
        with pytest.raises(oc.StoragePermissionError, match=rf"{read_only}(/[\w.]*\w)?: "):
            work()
    np.testing.assert_array_equal(oc.open(read_only / "a.zarr").compute(), 1)


# -- the budget --------------------------------------------------------------------------------


def test_a_budget_below_the_least_names_the_least(tmp_path: Path) -> None:
    """And with what it names, it works."""
    values = np.random.default_rng(0).random((600, 600))
    for tile, name, target in [(600, "a.zarr", "b.npy"), (600, "a.zarr", "c.zarr")]:
        oc.asarray(values).save(tmp_path / name, tile=tile, overwrite=True)
        to_tile = None if target == "b.npy" else 500
        with oc.config(memory="300KiB"), pytest.raises(oc.BudgetError) as caught:
            oc.open(tmp_path / name).save(tmp_path / target, tile=to_tile)
        named = re.search(r"the least that works is (\d+) bytes", str(caught.value))
        assert named, str(caught.value)
        with oc.config(memory=int(named[1]) - 4096), pytest.raises(oc.BudgetError):
            oc.open(tmp_path / name).save(tmp_path / target, tile=to_tile)
        with oc.config(memory=int(named[1])):
            oc.open(tmp_path / name).save(tmp_path / target, tile=to_tile)
        np.testing.assert_array_equal(oc.open(tmp_path / target).compute(), values)
