"""Looks into a wheel, installs it where there is no Rust, and tries it.

python scripts/try_wheel.py WHEEL [PYTHON...] does so with each of these interpreters, or the one
that runs it. The first thing that is wrong ends it, with a line that says what.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from email.parser import HeaderParser
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NoReturn

CORE = "outcrop/_native.abi3.so"

EXPECTED = (
    CORE,
    "outcrop/__init__.py",
    "outcrop/_native.pyi",
    "outcrop/cli/tree.json",
    "outcrop/py.typed",
    "outcrop-*.dist-info/METADATA",
    "outcrop-*.dist-info/entry_points.txt",
    "outcrop-*.dist-info/licenses/LICENSE",
)

ALLOWED = ("outcrop/*.py", "outcrop/*.pyi", "outcrop-*.dist-info/*", *EXPECTED)

# Not what is imported from it, such as `outcrop/fft/tests`.
REFUSED = ("*/tests/*", "*/test_*", "*/conftest.py", "*/__pycache__/*", "*/_build/*")

BUDGET = 32 << 20
ORDER = 2600
"""Of a matrix of 52 MiB."""


def main(wheel: Path, pythons: Sequence[str]) -> None:
    """Look at the wheel, and try it with each of the interpreters."""
    print(f"{wheel}, {wheel.stat().st_size / 2**20:.1f} MiB")
    look_into(wheel)
    for python in pythons:
        with tempfile.TemporaryDirectory(prefix="outcrop-wheel-") as directory:
            install_and_try(wheel.resolve(), python, Path(directory))
    print("the wheel works")


def say(what: str, found: object) -> None:
    """One line of what is found."""
    print(f"  {what:<13} {found}", flush=True)


def fail(what: str) -> NoReturn:
    """End, with a line that says why."""
    sys.stdout.flush()
    sys.exit(f"outcrop: the wheel does not work: {what}")


# -- what is in it ---------------------------------------------------------------------------------


def look_into(wheel: Path) -> None:
    """Check tags and names, and that the core runs where its tag says that it does."""
    _, version, python, abi, platform = wheel.stem.split("-")
    if (python, abi) != ("cp311", "abi3"):
        fail(f"its tags are {python} and {abi}, and not cp311 and abi3, for Python 3.11 and newer")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        core = archive.read(CORE) if CORE in names else fail(f"it holds no {CORE}")
        metadata = HeaderParser().parsestr(
            archive.read(f"outcrop-{version}.dist-info/METADATA").decode()
        )
    if metadata["Version"] != version:
        fail(f"it is called {version}, and its metadata say {metadata['Version']}")
    check_names(names)
    say("contents", f"{len(names)} files, the core is {len(core) / 2**20:.1f} MiB")
    oldest = max(
        (int(minor) for minor in re.findall(rb"\0GLIBC_2\.(\d+)(?=\0)", core)),
        default=None,
    )
    tag = re.fullmatch(r"manylinux_2_(\d+)_\w+", platform.split(".")[0])
    if tag is None:
        fail(f"its platform is {platform}, and not manylinux: what it needs is not on every Linux")
    if oldest is None or oldest > int(tag[1]):
        fail(f"its platform is {platform}, and it needs glibc 2.{oldest}")
    say("platform", f"{platform}: glibc 2.{tag[1]} or newer{needing(core, oldest)}")


def check_names(names: Sequence[str]) -> None:
    """Refuse a wheel that lacks files, or has others than those of the package."""
    for pattern in EXPECTED:
        if not any(fnmatch(name, pattern) for name in names):
            fail(f"it holds no {pattern}")
    for name in names:
        is_ours = any(fnmatch(name, pattern) for pattern in ALLOWED)
        if not is_ours or any(fnmatch(name, pattern) for pattern in REFUSED):
            fail(f"it holds {name}, which is not for users")


def needing(core: bytes, version: int) -> str:
    """Which functions need the newest version of glibc, where there is something to tell it."""
    if shutil.which("objdump") is None:
        return ""
    with tempfile.NamedTemporaryFile(suffix=".so") as file:
        file.write(core)
        file.flush()
        symbols = subprocess.run(
            ["objdump", "-T", file.name], capture_output=True, text=True
        ).stdout
    names = re.findall(rf"\(?GLIBC_2\.{version}\)?\s+(\w+)$", symbols, re.MULTILINE)
    return f", for {', '.join(sorted(names))}" if names else ""


# -- trying it -------------------------------------------------------------------------------------


def install_and_try(wheel: Path, python: str, directory: Path) -> None:
    """Install into a new environment, and try the package there."""
    subprocess.run([python, "-m", "venv", directory / "venv"], check=True)
    bin = directory / "venv" / "bin"
    # The environment's own programs and no others.
    found = [name for name in ("cargo", "rustc") if shutil.which(name, path=str(bin))]
    if found:
        fail(f"there is Rust on the PATH ({', '.join(found)}), which is not how users have it")
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "OUTCROP", "CARGO", "RUST", "VIRTUAL_ENV", "CONDA"))
    }
    kept |= {"PATH": str(bin), "OUTCROP_CACHE": str(directory / "cache")}

    def run(*command: Any) -> str:
        done = subprocess.run(
            [bin / command[0], *command[1:]],
            cwd=directory,
            env=kept,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode:
            fail(f"'{' '.join(map(str, command))}' has the status {done.returncode}: {done.stdout}")
        return done.stdout.strip()

    pip = ("python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
    pip = (*pip, "--only-binary", ":all:")
    run(*pip, wheel)
    version = run("python", "-c", "import platform; print(platform.python_version())")
    say("installed", f"for Python {version}, into an environment without Rust")
    trial = ("python", "-I", Path(__file__).resolve(), "--inside")
    say("computed", run(*trial, "compute"))
    name = run("outcrop", "--version")
    if name.split() != ["outcrop", wheel.name.split("-")[1]]:
        fail(f"'outcrop --version' says {name!r}")
    say("command", name)
    run("outcrop", "info", "matrix.zarr")
    run("outcrop", "completion", "bash")
    doctor = run("outcrop", "doctor", "--quick", ".").splitlines()
    say("doctor", next(line for line in doctor if line.startswith("engine")))
    run(*pip, "xarray", f"{wheel}[zarr]")
    say("entry points", run(*trial, "plugins"))


def compute() -> None:
    """Solve a system whose matrix is larger than the budget; in the new environment."""
    import numpy as np

    import outcrop as oc

    if Path(sys.prefix) not in Path(oc.__file__).parents:
        fail(f"{oc.__file__} is not in {sys.prefix}")
    oc.config(memory=BUDGET, threads=2)
    grid = oc.fromfunction(lambda i, j: np.exp(-(((i - j) / 50.0) ** 2)) + (i == j), (ORDER, ORDER))
    matrix = grid.save("matrix.zarr", tile=256)
    right = np.sin(np.arange(ORDER) / 100)
    x = oc.linalg.solve(matrix, right, assume="pos").save("solution.npy")
    run = oc.last_run()
    if run is None or run.peak_bytes > BUDGET:
        fail(f"the budget of {BUDGET} bytes was not kept: {run}")
    residual = float(np.abs(np.asarray(matrix @ x) - right).max())
    if not residual < 1e-9:
        fail(f"a system was solved with a residual of {residual}")
    print(
        f"a system of {matrix.nbytes / 2**20:.0f} MiB in {run.peak_bytes / 2**20:.0f} of "
        f"{BUDGET >> 20} MiB, residual {residual:.0e}"
    )


def plugins() -> None:
    """Load what xarray and Zarr-Python find by entry points; in the new environment."""
    import numpy as np
    import xarray
    import zarr
    import zarr.registry

    import outcrop as oc

    zarr.open_group("sea.zarr", mode="w")
    heat = np.arange(24.0).reshape(4, 6)
    oc.asarray(heat).save("sea.zarr/heat", dimension_names=("y", "x"))
    sea = xarray.open_dataset("sea.zarr", engine="outcrop", chunks={}, chunked_array_type="outcrop")
    if not isinstance(sea["heat"].data, oc.Array):
        fail(f"xarray's chunks are {type(sea['heat'].data)}")
    if not np.array_equal(sea["heat"].values, heat):
        fail("xarray reads other elements than were written")
    zarr.registry.get_codec_class("outcrop.frontier")
    oc.asarray(heat).save("frontier.zarr", tile=(2, 3), layout="frontier")
    if not np.array_equal(zarr.open_array("frontier.zarr")[...], heat):
        fail("Zarr-Python reads other elements than were written")
    print(f"xarray {xarray.__version__} and Zarr-Python {zarr.__version__} read by them")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        {"compute": compute, "plugins": plugins}[sys.argv[2]]()
    elif len(sys.argv) < 2:
        sys.exit("usage: python scripts/try_wheel.py WHEEL [PYTHON...]")
    else:
        main(Path(sys.argv[1]), sys.argv[2:] or [sys.executable])
