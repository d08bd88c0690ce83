"""What docs/libraries.md shows works."""

import re
import subprocess
import sys
from pathlib import Path

TEXT = (Path(__file__).parents[2] / "docs" / "libraries.md").read_text()


def test_python(tmp_path: Path) -> None:
    code = "\n".join(re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL))
    (tmp_path / "shown.py").write_text(code)
    # Zarr-Python warns of what xarray asks it for.
    done = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore::UserWarning:zarr", "shown.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said[0] == "outcrop.arrays.array"
    assert "pass" in said[1]
    assert said[2:] == ["True", "('lat', 'lon')", "True", "600000.0", "True", "66.0 11.0"]
