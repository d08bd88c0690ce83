"""What a user names is no file, or one that ends too soon, or one that may not be changed."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outcrop as oc
from outcrop import _native

Inject = Callable[[str], AbstractContextManager[None]]

pytestmark = pytest.mark.filterwarnings("ignore::outcrop.errors.OutcropWarning")


def bind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


KINDS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "pipe": ("named pipe", os.mkfifo),
    "socket": ("socket", bind),
    "directory": ("directory", os.mkdir),
    "device": ("device", lambda path: os.symlink("/dev/zero", path)),
}
each_kind = pytest.mark.parametrize("kind", KINDS)
NAMES = ["a.npy", "a.raw", "a.pgm", "a.tif", "a", "a.json"]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def make(kind: str, name: str) -> str:
    word, create = KINDS[kind]
    create(Path(name))
    return word


@each_kind
@pytest.mark.parametrize("name", NAMES)
def test_a_source_that_is_no_file(kind: str, name: str) -> None:
    """A named pipe was waited for, for ever."""
    make(kind, name)
    options: dict[str, Any] = {"shape": (3, 4), "dtype": "u1"} if name == "a.raw" else {}
    with pytest.raises(oc.OutcropError, match=name):
        oc.open(name, **options)
    word = KINDS[kind][0]
    for further in ({}, {"shape": (3, 4), "dtype": "u1"}, {"format": "raw"}):
        # Advice on how to describe it, or on what it says itself, would be of no use.
        if kind != "directory":
            with pytest.raises(oc.StorageError, match=f"{name}: .* it is a {word}, not a file"):
                oc.open(name, **further)
    for mode in ("r", "r+"):
        with pytest.raises(oc.OutcropError, match=name):
            oc.open(name, mode, format="raw", shape=(3, 4), dtype="u1")


@each_kind
@pytest.mark.parametrize("name", NAMES)
def test_a_target_that_is_no_file(kind: str, name: str) -> None:
    make(kind, name)
    values = oc.asarray(np.ones((3, 4), "u1"))
    for overwrite in (False, True):
        # An empty directory is a place for an array.
        if kind == "directory" and overwrite:
            continue
        # What a link leads to is what would be replaced.
        with pytest.raises(oc.OutcropError, match=f"{name}|/dev/zero"):
            values.save(name, overwrite=overwrite)
    assert os.path.lexists(name)


@each_kind
def test_a_record_that_is_no_file(kind: str) -> None:
    word = make(kind, "run.json")
    oc.asarray(np.eye(70)).save("a.zarr", tile=30)
    A = oc.open("a.zarr")
    with oc.config(timeline="run.json"), pytest.raises(oc.StorageError, match=r"run\.json"):
        (A @ A).save("b.zarr")
    assert not Path("b.zarr").exists()
    make(kind, "plan.svg")
    with pytest.raises(oc.StorageError, match=rf"plan\.svg.*({word}|[Dd]irectory)"):
        oc.plan(A @ A).show("plan.svg")


COMMANDS = """
import json, sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from outcrop.cli.app import run
for command in json.loads(sys.argv[1]):
    said = StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        status = run(command)
    print(json.dumps([command, status, said.getvalue()]), flush=True)
"""


@each_kind
def test_a_command_does_not_wait(kind: str) -> None:
    make(kind, "a.npy")
    commands = [
        ["info", "a.npy"],
        ["verify", "a.npy"],
        ["copy", "a.npy", "b.npy"],
        ["transpose", "a.npy", "b.npy"],
        ["timeline", "a.npy", "b.svg"],
    ]
    process = [sys.executable, "-c", COMMANDS, json.dumps(commands)]
    ended = subprocess.run(process, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")
    found = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [command for command, *_ in found] == commands
    for command, status, said in found:
        assert status != 0, command
        assert "a.npy" in said, command
        assert "internal" not in said, said


# -- files that are cut off ---------------------------------------------------------------------

VALUES = np.random.default_rng(0).random((100, 70))


def saved(name: str) -> oc.Array:
    values = (VALUES * 255).astype("u1") if name.endswith("pgm") else VALUES
    oc.asarray(values).save(name)
    if name.endswith("raw"):
        return oc.open(name, shape=VALUES.shape, dtype="f8")
    return oc.open(name)


@pytest.mark.parametrize("name", ["a.npy", "a.raw", "a.pgm", "a.tif"])
def test_a_file_that_is_cut_off_inside_a_block(name: str, inject: Inject) -> None:
    """A read that got less than a block was asked for again a thousand times."""
    if name.endswith("tif"):
        pytest.importorskip("tifffile")
    array = saved(name)
    whole = os.path.getsize(name)
    for cut in (whole - 3, whole // 2 + 77, 4096 + 5 if whole > 8192 else whole - 100):
        os.truncate(name, cut)
        with inject("read:1000000:eio:once"):
            with pytest.raises(oc.CorruptArrayError, match=rf"{name}.*{cut} bytes.*needed"):
                array.compute()
            assert _native.operations_seen() < 12
        # And at once, where it is opened.
        with pytest.raises(oc.CorruptArrayError, match=rf"{name}.*(cut off|only {cut}|{cut} )"):
            reopened(name)
        with open(name, "ab") as file:
            file.write(bytes(whole - cut))


def reopened(name: str) -> oc.Array:
    return oc.open(name, shape=VALUES.shape, dtype="f8") if name.endswith("raw") else oc.open(name)


# -- what may not be changed --------------------------------------------------------------------

UNPRIVILEGED = """
import os, sys
import numpy as np, outcrop as oc
import numpy.testing
# All that is imported late, while that may be read.
oc.config(memory="16MiB", scratch="/tmp")
for name in sys.argv[1:]:
    oc.open(name)[0].compute()
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
for name in sys.argv[1:]:
    np.testing.assert_array_equal(oc.open(name)[0].compute(), 1)
    try:
        oc.open(name, "r+")
    except oc.StoragePermissionError as error:
        assert isinstance(error, PermissionError) and name in str(error), error
    else:
        raise SystemExit(f"{name}: can be opened")
"""


def test_what_may_not_be_changed_is_refused_when_it_is_opened(tmp_path: Path) -> None:
    """Everything was computed and assigned before the commit said so."""
    ones = oc.asarray(np.ones((40, 30)))
    ones.save("a.zarr", tile=10)
    ones.save("b.zarr", tile=10, codecs="zstd")
    ones.save("c.zarr", tile=10, codecs="zstd", zarr_format=2)
    ones.save("d.npy")
    ones.save("e.zarr", tile=10)
    names = ["a.zarr", "b.zarr", "c.zarr", "d.npy", "e.zarr"]
    for name in names[:4]:
        os.chmod(name, 0o555 if name.endswith("zarr") else 0o444)
    # The directory itself is free, and the one that tiles are in is not.
    os.chmod("e.zarr", 0o777)
    os.chmod("e.zarr/c", 0o555)
    command = [sys.executable, "-W", "ignore", "-c", UNPRIVILEGED]
    if os.getuid() != 0:
        for name in names:
            with pytest.raises(oc.StoragePermissionError, match=name):
                oc.open(name, "r+")
        return
    # A root's rights are all; and what nobody may look into, it cannot read.
    for parent in [tmp_path, *tmp_path.parents]:
        if not parent.stat().st_mode & 0o001:
            os.chmod(parent, parent.stat().st_mode | 0o711)
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    found = subprocess.run(
        [*command, *names], capture_output=True, text=True, env=environment, timeout=60
    )
    assert found.returncode == 0, found.stderr
