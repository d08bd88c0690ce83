"""What maturin makes of the project without compiling anything."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def maturin(*arguments: str | Path) -> None:
    beside = Path(sys.executable).with_name("maturin")
    program = str(beside) if beside.exists() else shutil.which("maturin")
    if program is None or shutil.which("cargo") is None:
        pytest.skip("maturin and cargo tell what is packed")
    environment = os.environ | {"MATURIN_NO_MISSING_BUILD_BACKEND_WARNING": "1"}
    done = subprocess.run(
        [program, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def dist_info(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The metadata of an installed package."""
    directory = tmp_path_factory.mktemp("metadata")
    options = ["--metadata-directory", directory, "--interpreter", sys.executable]
    maturin("pep517", "write-dist-info", *options)
    (found,) = directory.iterdir()
    return found


@pytest.fixture(scope="session")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source distribution."""
    directory = tmp_path_factory.mktemp("sdist")
    maturin("sdist", "--out", directory)
    (found,) = directory.iterdir()
    return found
