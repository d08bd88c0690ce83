"""What docs/sweeps.md shows works."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

TEXT = (Path(__file__).parents[2] / "docs" / "sweeps.md").read_text()


def test_python(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    code = "\n".join(re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL))
    (tmp_path / "shown.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "-W", "error", "shown.py"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "in flight" in done.stdout
