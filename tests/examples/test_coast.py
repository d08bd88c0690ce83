"""The example with a real coast, on a coarse grid: as much water comes in as goes out."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numba")
pytest.importorskip("matplotlib")
COAST = Path(__file__).parents[2] / "examples" / "coast.py"


def test_water_is_conserved(tmp_path: Path) -> None:
    options = ["--rows", "128", "--memory", "2MiB", "--sweeps", "4096", "--directory", "."]
    ended = subprocess.run(
        [sys.executable, str(COAST), *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert not ended.stderr
    passing = [float(n) for n in re.findall(r" (\d\.\d{4})  +[+-]", ended.stdout)]
    assert len(passing) == 4
    assert max(passing) < 1.05 * min(passing)
    found = re.search(r"it is (-?\d\.\d+) to (\d\.\d+)", ended.stdout)
    assert found is not None
    assert float(found[1]) > -0.01 and float(found[2]) < 1.01
    assert list(tmp_path.iterdir()) == []
