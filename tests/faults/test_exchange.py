"""File systems that cannot exchange names: old or new at every kill, nobody's files touched."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import outcrop as oc

pytestmark = [
    pytest.mark.filterwarnings("ignore::outcrop.errors.OutcropWarning"),
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of system calls"),
]

EINVAL, ENOSYS, EOPNOTSUPP, EPERM = 22, 38, 95, 1

OLD, NEW = np.arange(48.0).reshape(6, 8), -np.arange(48.0).reshape(6, 8) - 1

# Forbids what renameat2 does more than rename, as a file system does that cannot do it. Then does
# what each line asks for, in a process of its own.
NURSERY = """
import ctypes, json, os, struct, sys, warnings
import numpy as np
import outcrop as oc
from outcrop import _native
from outcrop.errors import OutcropWarning
warnings.simplefilter("ignore", OutcropWarning)

def op(code, k, jt=0, jf=0):
    return struct.pack("HBBI", code, jt, jf, k)

program = [
    op(0x20, 4), op(0x15, 0xC000003E, 1, 0), op(0x06, 0x7FFF0000),
    op(0x20, 0), op(0x15, 316, 0, 3),
    op(0x20, 16 + 8 * 4), op(0x45, 0xFFFFFFFF, 0, 1), op(0x06, 0x00050000 | int(sys.argv[1])),
    op(0x06, 0x7FFF0000),
]
code = b"".join(program)
buffer = ctypes.create_string_buffer(code, len(code))
prog = struct.pack("HxxxxxxP", len(program), ctypes.addressof(buffer))
prog = ctypes.create_string_buffer(prog, len(prog))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, prog, 0, 0) == 0, os.strerror(ctypes.get_errno())

def save(path, overwrite=True):
    values = -np.arange(48.0).reshape(6, 8) - 1
    oc.asarray(values).save(path, tile=3 if path.endswith(".zarr") else None, overwrite=overwrite)

def read(path):
    print(json.dumps(oc.open(path).compute().tolist()), flush=True)

def new(path):
    save(path, overwrite=False)

def change(path):
    with oc.open(path, "r+") as array:
        array[...] = oc.open(path).compute()

for line in sys.stdin:
    work, path, rule = json.loads(line)
    pid = os.fork()
    if pid == 0:
        oc.config(memory="4MiB")
        if rule:
            _native.inject_faults(rule)
        try:
            {"save": save, "new": new, "read": read, "change": change}[work](path)
        except oc.OutcropError as error:
            print(json.dumps(f"{type(error).__name__}: {error}"), flush=True)
            os._exit(1)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


class Nursery:
    """Does work where names cannot be exchanged, and kills it as a rule says."""

    def __init__(self, directory: Path, errno: int) -> None:
        self.child = subprocess.Popen(
            [sys.executable, "-c", NURSERY, str(errno)],
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def __call__(self, work: str, path: str, rule: str = "") -> tuple[int, object]:
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        self.child.stdin.write(json.dumps([work, path, rule]) + "\n")
        said: object = None
        while (line := self.child.stdout.readline()) and not line.strip().lstrip("-").isdigit():
            said = json.loads(line)
        return int(line), said


@pytest.fixture
def nursery(quick_dir: Path, request: pytest.FixtureRequest) -> Iterator[Nursery]:
    nursery = Nursery(quick_dir, getattr(request, "param", EINVAL))
    yield nursery
    assert nursery.child.stdin is not None
    nursery.child.stdin.close()
    assert nursery.child.wait(30) == 0
    if nursery.child.stdout is not None:
        nursery.child.stdout.close()


def listing(directory: Path) -> dict[str, bytes | None]:
    return {
        str(p.relative_to(directory)): p.read_bytes() if p.is_file() else None
        for p in directory.rglob("*")
    }


def ours(directory: Path) -> list[str]:
    """Names of ours that are no array, nor the index of one."""
    return [n for n in listing(directory) if ".outcrop-" in n and not n.endswith(".outcrop-index")]


def start(directory: Path, name: str) -> None:
    for path in directory.iterdir():
        subprocess.run(["rm", "-r", path], check=True)
    oc.asarray(OLD).save(directory / name, tile=3 if name.endswith(".zarr") else None)
    # What a user may have there.
    (directory / f"{name}.old").mkdir()
    (directory / f"{name}.old" / "precious").write_bytes(b"precious")


def is_untouched(directory: Path, name: str) -> bool:
    return listing(directory / f"{name}.old") == {"precious": b"precious"}


@pytest.mark.parametrize("name", ["a.zarr", "a.npy"])
def test_killed_at_every_step(quick_dir: Path, nursery: Nursery, name: str) -> None:
    """Before each operation of a replacement; read, changed and replaced afterwards."""
    outcomes = set()
    for kind in ("rename", "sync", "remove"):
        for nth in range(1, 30):
            for then in ("read", "change", "save", "new"):
                start(quick_dir, name)
                ended, _ = nursery("save", name, f"{kind}:{nth}:kill:once")
                assert is_untouched(quick_dir, name)
                before = listing(quick_dir)
                status, found = nursery("read", name)
                assert status == 0, (kind, nth, found)
                assert listing(quick_dir) == before, "reading has changed something"
                outcome = {str(OLD.tolist()): "old", str(NEW.tolist()): "new"}[str(found)]
                outcomes.add((name in before, outcome))
                assert outcome == "new" or ended == -signal.SIGKILL
                if then == "new":
                    # Something is there, even where nothing has the name.
                    status, said = nursery("new", name)
                    assert status == 1
                    assert "ArrayExistsError" in str(said), said
                elif then != "read":
                    assert nursery(then, name)[0] == 0, (kind, nth, then)
                assert is_untouched(quick_dir, name)
                if then in ("save", "new"):
                    assert ours(quick_dir) == [], (kind, nth, then)
                expected = NEW if then == "save" or outcome == "new" else OLD
                np.testing.assert_array_equal(oc.open(quick_dir / name).compute(), expected)
                if ended == 0:
                    break
            if ended == 0:
                break
    assert {outcome for _, outcome in outcomes} == {"old", "new"}
    if name == "a.zarr":
        assert (False, "old") in outcomes, "the moment without a name was not met"


def test_killed_where_a_directory_replaces_a_file(quick_dir: Path, nursery: Nursery) -> None:
    """What was put aside was looked for as a directory: a file was not found by readers, and the
    next writer removed it together with the array that was to replace it."""
    for kind in ("rename", "sync"):
        for nth in range(1, 20):
            for then in ("save", "new"):
                for path in quick_dir.iterdir():
                    subprocess.run(["rm", "-r", path], check=True)
                with (quick_dir / "a.zarr").open("wb") as file:
                    np.save(file, OLD)
                ended, _ = nursery("save", "a.zarr", f"{kind}:{nth}:kill:once")
                status, found = nursery("read", "a.zarr")
                assert status == 0, (kind, nth, found)
                assert found == NEW.tolist() or (ended != 0 and found == OLD.tolist())
                status, said = nursery(then, "a.zarr")
                assert status == (then == "new"), (kind, nth, said)
                expected = NEW if then == "save" else np.array(found)
                np.testing.assert_array_equal(oc.open(quick_dir / "a.zarr").compute(), expected)
                assert ours(quick_dir) == [], (kind, nth, then)
            if ended == 0:
                break


@pytest.mark.parametrize("name", ["a.zarr", "a.npy"])
def test_a_step_that_fails(quick_dir: Path, nursery: Nursery, name: str) -> None:
    """The old array is there again, and nothing else."""
    failed = 0
    for kind in ("rename", "sync"):
        for nth in range(1, 20):
            start(quick_dir, name)
            status, said = nursery("save", name, f"{kind}:{nth}:enospc:once")
            if status == 0:
                assert nth > 2
                break
            failed += 1
            assert isinstance(said, str), said
            np.testing.assert_array_equal(oc.open(quick_dir / name).compute(), OLD)
            assert ours(quick_dir) == []
            assert is_untouched(quick_dir, name)
    assert failed >= 3


@pytest.mark.parametrize(
    "nursery",
    [EINVAL, ENOSYS, EOPNOTSUPP, EPERM],
    ids=["EINVAL", "ENOSYS", "EOPNOTSUPP", "EPERM"],
    indirect=True,
)
@pytest.mark.parametrize("name", ["a.zarr", "a.npy"])
def test_nothing_is_replaced_unasked(quick_dir: Path, nursery: Nursery, name: str) -> None:
    start(quick_dir, name)
    assert nursery("save", name) == (0, None)
    assert is_untouched(quick_dir, name)
    np.testing.assert_array_equal(oc.open(quick_dir / name).compute(), NEW)
    assert ours(quick_dir) == []
    for path in quick_dir.iterdir():
        subprocess.run(["rm", "-r", path], check=True)
    assert nursery("new", name) == (0, None)
    np.testing.assert_array_equal(oc.open(quick_dir / name).compute(), NEW)
    before = listing(quick_dir)
    status, said = nursery("new", name)
    assert status == 1
    assert "ArrayExistsError" in str(said)
    assert listing(quick_dir) == before


def test_an_old_array_does_not_rise_again(quick_dir: Path, nursery: Nursery) -> None:
    """Replaced, but what it replaced not removed; then the new one is deleted: nothing is there."""
    for nth in range(1, 20):
        start(quick_dir, "a.zarr")
        status, _ = nursery("save", "a.zarr", f"remove:{nth}:kill:once")
        assert status == -signal.SIGKILL
        if nursery("read", "a.zarr")[1] == NEW.tolist():
            break
    subprocess.run(["rm", "-r", quick_dir / "a.zarr"], check=True)
    status, said = nursery("read", "a.zarr")
    assert status == 1
    assert "ArrayNotFoundError" in str(said), said
    assert nursery("new", "a.zarr") == (0, None)


@pytest.mark.parametrize("link", [False, True])
def test_put_aside_by_whoever(tmp_path: Path, link: bool) -> None:
    """What is found under our name is opened as the array only if it is a directory itself."""
    outside = tmp_path / "outside"
    outside.mkdir()
    oc.asarray(OLD).save(outside / "b.zarr", tile=3)
    staged = tmp_path / ".a.zarr.outcrop-new"
    staged.mkdir()
    if link:
        (staged / ".outcrop-old").symlink_to(outside / "b.zarr")
    else:
        (tmp_path / "elsewhere").mkdir()
        staged.rmdir()
        staged.symlink_to("elsewhere")
        (outside / "b.zarr").rename(tmp_path / "elsewhere" / ".outcrop-old")
    before = listing(tmp_path)
    for mode in ("r", "r+"):
        with pytest.raises(oc.ArrayNotFoundError):
            oc.open(tmp_path / "a.zarr", mode)
    assert listing(tmp_path) == before
