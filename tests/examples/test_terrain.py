"""The example with real mountains, on few points of them: three ways agree, and nothing is left."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="the mountains are a part of it")
TERRAIN = Path(__file__).parents[2] / "examples" / "terrain.py"


def test_three_ways_lead_to_the_same_mountains(tmp_path: Path) -> None:
    directory, picture = tmp_path / "work", tmp_path / "mountains.png"
    directory.mkdir()
    options = ["--n=1200", "--memory=8MiB", f"--directory={directory}", f"--picture={picture}"]
    done = subprocess.run(
        [sys.executable, TERRAIN, *options],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    said = done.stdout
    assert done.returncode == 0, done.stderr
    assert "All else is exactly as\npredicted" in said
    assert list(directory.iterdir()) == []
    assert picture.read_bytes().startswith(b"\x89PNG")

    number = r"(\d\.?\d*e[-+]\d+)"
    residuals = re.findall(rf"^  (\S+) +{number} m", said, re.MULTILINE)
    assert [name for name, _ in residuals] == ["Cholesky", "LDL^T", "LU"]
    # In m: of elevations of some hundred, by weights that add up to far more.
    assert all(float(residual) < 1e-8 for _, residual in residuals)
    apart = re.findall(rf"^  (\S+) +{number} m +{number} +{number}$", said, re.MULTILINE)
    assert [name for name, *_ in apart] == ["Cholesky", "LDL^T"]
    for name, _, *differences in apart:
        assert all(float(one) < 1e-10 for one in differences), name

    errors = [float(rms) for rms in re.findall(r" (\d+\.\d\d) m +\d+\.\d m$", said, re.MULTILINE)]
    # The mean, the nearest, triangles, kriging.
    assert len(errors) == 4
    assert errors == sorted(errors, reverse=True)
