"""Several processes and one array."""

import subprocess
import sys
from pathlib import Path

import outcrop as oc


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
