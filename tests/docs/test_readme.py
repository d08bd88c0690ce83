"""What the README shows works, in the order in which it stands there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where all blocks have been run."""
    directory = tmp_path_factory.mktemp("readme")
    code = "\n".join(text for language, text in BLOCK.findall(README) if language == "python")
    run([sys.executable, "-W", "error", "-c", code], directory)
    return directory


def run(command: list[str] | str, directory: Path) -> str:
    environment = os.environ | {
        "OUTCROP_CACHE": str(directory / "cache"),
        "PYTHON": sys.executable,
    }
    done = subprocess.run(
        command,
        cwd=directory,
        env=environment,
        shell=isinstance(command, str),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_python(directory: Path) -> None:
    assert (directory / "tiles.zarr").is_dir()


def test_what_is_printed(directory: Path) -> None:
    shown = re.search(r"^# (<outcrop.Array.*>)$", README, re.MULTILINE)
    assert shown is not None
    code = "import outcrop as oc; print(oc.open('covariance.zarr'))"
    assert run([sys.executable, "-c", code], directory).strip() == shown[1]


def test_commands(directory: Path) -> None:
    lines = [
        line
        for language, text in BLOCK.findall(README)
        if language == "sh"
        for line in text.splitlines()
        if line.startswith("outcrop ")
    ]
    assert len(lines) >= 8
    for line in lines:
        run(line.replace("outcrop ", '"$PYTHON" -m outcrop ', 1), directory)


def test_links() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target
