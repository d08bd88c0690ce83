"""Several processes and one array."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import outcrop as oc

WRITER = """
import outcrop as oc
oc.config(memory="4MiB")
for i in range(1, 16):
    with oc.open("a.zarr", "r+") as array:
        array[...] = i
"""
REPLACER = """
import numpy as np
import outcrop as oc
oc.config(memory="4MiB")
for i in range(1, 16):
    oc.asarray(np.full((600, 500), float(i))).save("a.zarr", tile=100, overwrite=True)
"""


@pytest.mark.parametrize("script", [WRITER, REPLACER], ids=["update", "replace"])
def test_a_reader_beside_a_writer(tmp_path: Path, script: str) -> None:
    """The old array, or the new one, or word that it changed; never some of both. While a change
    was carried out, readers were told that tiles had been tampered with."""
    oc.asarray(np.zeros((600, 500))).save(tmp_path / "a.zarr", tile=100)
    writer = subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path)
    whole = told = 0
    while writer.poll() is None:
        try:
            values = oc.open(tmp_path / "a.zarr").compute()
        except oc.CorruptArrayError as error:
            assert "open it again" in str(error)
            told += 1
            continue
        assert (values == values[0, 0]).all()
        whole += 1
    print(f"{whole} whole, {told} told")
    assert writer.returncode == 0
    assert whole
    np.testing.assert_array_equal(oc.open(tmp_path / "a.zarr").compute(), 15)


def test_two_processes_make_one_array(tmp_path: Path) -> None:
    script = """
import sys
import outcrop as oc
try:
    oc.create(sys.argv[1], 3)
except oc.ArrayBusyError as error:
    print(error)
"""
    for name in ("a.zarr", "a.npy"):
        with oc.create(tmp_path / name, 3) as array:
            array[...] = 1
            command = [sys.executable, "-c", script, name]
            told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
            assert "is being written by process" in told.stdout
        assert oc.open(tmp_path / name).compute().tolist() == [1, 1, 1]
