"""What stands in the way of a new array is named at once, and left alone."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import outcrop as oc

_DESCRIPTORS = """
import os, resource, sys
import numpy as np
import outcrop as oc

root = sys.argv[1]
oc.config(memory="16MiB", scratch=root + "/scratch")
oc.asarray(np.eye(600)).save(root + "/a.zarr")
L = oc.linalg.cholesky(oc.open(root + "/a.zarr"))
held = len(os.listdir("/proc/self/fd"))
for free in range(2, 9):
    resource.setrlimit(resource.RLIMIT_NOFILE, (held + free, 4096))
    try:
        L.save(f"{root}/o{free}.npy")
    except oc.StorageError:
        pass
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 4096))
    assert len(os.listdir(root + "/scratch")) <= 1
"""

_SAVE = """
import sys
import numpy as np
import outcrop as oc

oc.asarray(np.ones((4, 4))).save(sys.argv[1])
"""


def _run(code: str, argument: Path) -> None:
    """Run in a process of its own, which may be one that never ends."""
    subprocess.run([sys.executable, "-c", code, str(argument)], check=True, timeout=60)


def test_no_descriptor_for_a_scratch_directory(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    _run(_DESCRIPTORS, tmp_path)


@pytest.mark.parametrize("name", ["zarr.json", ".zgroup", ".zmetadata"])
def test_a_named_pipe_in_the_group(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    _run(_SAVE, tmp_path / "a")
    assert oc.open(tmp_path / "a").shape == (4, 4)


@pytest.mark.parametrize("kind", ["a symbolic link", "a file", "a named pipe"])
def test_what_has_the_name_for_building(tmp_path: Path, kind: str) -> None:
    staged = tmp_path / ".a.zarr.outcrop-new"
    if kind == "a file":
        staged.touch()
    elif kind == "a named pipe":
        os.mkfifo(staged)
    else:
        staged.symlink_to(tmp_path)
    with pytest.raises(oc.UnsupportedError, match=f"outcrop-new: is {kind}, and stands where"):
        oc.asarray(np.ones((4, 4))).save(tmp_path / "a.zarr")
    assert os.path.lexists(staged)


def test_what_another_user_has_put_aside(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root gives files away")
    oc.asarray(np.ones((4, 4))).save(tmp_path / "b.zarr")
    staged = tmp_path / ".a.zarr.outcrop-new"
    staged.mkdir()
    (tmp_path / "b.zarr").rename(staged / ".outcrop-old")
    os.chown(staged, 1234, 1234)
    with pytest.raises(oc.ArrayNotFoundError):
        oc.open(tmp_path / "a.zarr")
    with pytest.raises(oc.UnsupportedError, match="user 1234 has put aside"):
        oc.asarray(np.ones((4, 4))).save(tmp_path / "a.zarr")
    assert (staged / ".outcrop-old" / "zarr.json").is_file()
    # One's own is put back.
    os.chown(staged, os.geteuid(), os.getegid())
    assert oc.open(tmp_path / "a.zarr").compute().sum() == 16


def test_the_largest_size_of_a_file(tmp_path: Path) -> None:
    code = """
import resource, signal, sys
import numpy as np
import outcrop as oc

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
try:
    oc.asarray(np.ones((600, 600))).save(sys.argv[1])
except oc.StorageFullError:
    sys.exit(0)
sys.exit(1)
"""
    _run(code, tmp_path / "a.npy")
