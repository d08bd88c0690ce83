"""What other libraries need: an environment of their own, made on demand, and a faer with threads."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKAGES = ("numpy", "scipy", "dask[array,distributed]", "zarr", "blosc2")


def rivals(directory: Path, *more: str) -> tuple[Path | None, str]:
    """The Python of an environment with the rivals, or None; and their versions, or what went wrong.

    It stays in `directory`, for the next benchmark that needs it. One with `more` packages is another one.
    """
    packages = (*PACKAGES, *more)
    home = (directory / "-".join(("libraries", *more))).resolve()
    python, ready = home / "bin" / "python", home / "ready"
    wanted = "\n".join(packages)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check"]
    if not ready.is_file() or ready.read_text() != wanted:
        print("    installing the rivals: " + ", ".join(packages))
        for command in (
            [sys.executable, "-m", "venv", "--clear", str(home)],
            [*pip, "install", "--quiet", *packages],
        ):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                said = (done.stderr or done.stdout).strip().splitlines()
                return None, said[-1] if said else f"exit status {done.returncode}"
        ready.write_text(wanted)
    listed = subprocess.run([*pip, "freeze"], capture_output=True, text=True, check=True).stdout
    names = {package.split("[")[0] for package in packages}
    lines = (line.replace("==", " ") for line in listed.splitlines())
    return python, ", ".join(line for line in lines if line.split(" ")[0] in names)


def faer(directory: Path) -> tuple[Path | None, str]:
    """The program that measures faer, built on demand; or None, and what went wrong."""
    if shutil.which("cargo") is None:
        return None, "cargo is not installed"
    target = (directory / "faer").resolve()
    command = ["cargo", "build", "--release", "--locked", "--quiet"]
    manifest = ["--manifest-path", str(HERE / "faer" / "Cargo.toml")]
    environment = {**os.environ, "CARGO_TARGET_DIR": str(target)}
    done = subprocess.run([*command, *manifest], env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        return None, said[-1] if said else f"exit status {done.returncode}"
    return target / "release" / "in-memory-rate", ""
