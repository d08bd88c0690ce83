"""The interpreter ends while threads that nobody waits for compute: nothing is printed."""

import subprocess
import sys
from pathlib import Path

import pytest

DAEMONS = """
import sys, threading, time
import numpy as np
import outcrop as oc
oc.config(memory="64MiB", threads=2)  # with room for what each thread holds
A = oc.asarray(np.random.default_rng(0).random((700, 700)))
A.save("d.npy", overwrite=True)
def work():
    while True:
        (A @ A).sum().compute()
        oc.open("d.npy")[::2].compute()
        oc.fromfunction(lambda i, j: i + j, (300, 300), "int64").sum().compute()
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
time.sleep(float(sys.argv[1]))
"""


SAVING = """
import sys, threading, time
import numpy as np
import outcrop as oc
oc.config(memory="16MiB", threads=2)
oc.asarray(np.random.default_rng(0).random((3000, 700))).save("d.npy", overwrite=True)
def work():
    while True:
        %s
threading.Thread(target=work, daemon=True).start()
time.sleep(float(sys.argv[1]))
"""
SAVES = {
    "npy": 'oc.open("d.npy").save("n.npy", overwrite=True)',
    "zarr": 'oc.open("d.npy").save("n.zarr", overwrite=True, tile=64)',
    "codecs": 'oc.open("d.npy").save("n.zarr", overwrite=True, codecs="zstd")',
    "ppm": 'oc.asarray(np.ones((900, 900, 3), "u1")).save("n.ppm", overwrite=True)',
    "turned": 'oc.transpose("d.npy", "n.npy", overwrite=True)',
    "product": 'A = oc.open("d.npy"); (A.T @ A).save("n.npy", overwrite=True)',
}


@pytest.mark.parametrize("save", SAVES)
def test_daemon_threads_that_save(tmp_path: Path, save: str) -> None:
    """What they were making stayed beside its target, until somebody wrote there again."""
    for wait in range(5):
        ended = subprocess.run(
            [sys.executable, "-c", SAVING % SAVES[save], str(0.05 + wait * 0.04)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", ""), ended.stderr
        assert not [p.name for p in tmp_path.iterdir() if "outcrop" in p.name]


def test_daemon_threads(tmp_path: Path) -> None:
    for wait in range(12):
        ended = subprocess.run(
            [sys.executable, "-c", DAEMONS, str(0.05 + wait * 0.03)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", ""), ended.stderr
        assert [p.name for p in tmp_path.iterdir()] == ["d.npy"]
