"""A tour: a matrix sixteen times the size of the memory budget is made, moved and checked.

    python examples/tour.py [--gib 1] [--directory DIR]

Needs three times the matrix's size of free disk, and removes what it makes.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import outcrop as oc
from outcrop.cli import main as outcrop_command

MIB = 1 << 20
SAMPLES = 2000


@dataclass
class Row:
    """One line of the table."""

    step: str
    read: int
    written: int
    seconds: float
    moved: int
    peak: int


def element(i: Any, j: Any) -> Any:
    """The matrix: any element can be told from its indices alone."""
    return (2 * i - j) / (1 + np.abs(i - j))


def check(array: oc.Array, random: np.random.Generator) -> None:
    """Compare boxes at random places with the formula, bit by bit."""
    rows, columns = array.shape
    for _ in range(SAMPLES // 100):
        i, j = int(random.integers(rows - 10)), int(random.integers(columns - 10))
        box: NDArray[Any] = array[i : i + 10, j : j + 10].compute()
        ii, jj = np.ogrid[i : i + 10, j : j + 10]
        if not np.array_equal(box, element(ii, jj)):
            raise SystemExit(f"{array.path}: differs from the formula near ({i}, {j})")


def run(step: str, nbytes: int, work: Callable[[], object]) -> Row:
    """Do something and note what it cost."""
    print(f"  {step} ...", end="", flush=True)
    begin = time.perf_counter()
    work()
    seconds = time.perf_counter() - begin
    report = oc.last_run()
    assert report is not None
    print(f" {seconds:.1f} s")
    read, written = report.bytes_read, report.bytes_written
    return Row(step, read, written, seconds, nbytes, report.peak_bytes)


def tour(directory: Path, gib: float, budget: int) -> list[Row]:
    """Make, copy, convert there and back, verify, check."""
    random = np.random.default_rng(2024)
    matrix = oc.fromfunction(element, (8192, round(gib * 16384)))
    nbytes = matrix.nbytes
    made, copied = directory / "made.zarr", directory / "copied.zarr"
    flat, tiled = directory / "flat.npy", directory / "tiled.zarr"

    print(f"\n{matrix}\nwith a budget of {budget // MIB} MiB, in {directory}\n")
    rows = [
        run("made from a formula", nbytes, lambda: matrix.save(made)),
        run("copied", nbytes, lambda: oc.open(made).save(copied)),
    ]
    shutil.rmtree(copied)
    rows += [
        run("to a .npy file", nbytes, lambda: oc.open(made).save(flat)),
        run("and back, tiles of 512", nbytes, lambda: oc.open(flat).save(tiled, tile=512)),
    ]
    print("  the same on the command line: outcrop verify tiled.zarr ->", end=" ", flush=True)
    rows.append(
        run_command("verified", nbytes, ["--quiet", "verify", str(tiled)]),
    )
    for array in (made, flat, tiled):
        check(oc.open(array), random)
    print(f"  {3 * SAMPLES} elements compared with the formula: equal, bit by bit\n")
    return rows


def run_command(step: str, nbytes: int, arguments: list[str]) -> Row:
    """The same for a command."""
    begin = time.perf_counter()
    if outcrop_command(arguments) != 0:
        raise SystemExit("the array is damaged")
    seconds = time.perf_counter() - begin
    report = oc.last_run()
    assert report is not None
    print("sound")
    return Row(step, report.bytes_read, report.bytes_written, seconds, nbytes, report.peak_bytes)


def print_table(rows: list[Row]) -> None:
    """What it cost."""
    print(f"  {'':24}{'read':>10}{'written':>10}{'seconds':>9}{'rate':>13}{'peak memory':>13}")
    for row in rows:
        print(
            f"  {row.step:24}{row.read // MIB:>6} MiB{row.written // MIB:>6} MiB"
            f"{row.seconds:>9.2f}{row.moved / row.seconds / MIB:>7.0f} MiB/s"
            f"{row.peak / MIB:>9.1f} MiB"
        )
    report = oc.last_run()
    assert report is not None
    print(
        f"\n  the whole process, interpreter included, held {report.peak_rss // MIB} MiB at most\n"
    )


def main() -> None:
    """Read the arguments, and tidy up in any case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gib", type=float, default=1.0, help="size of the matrix")
    parser.add_argument("--directory", type=Path, default=Path(), help="where there is room")
    options = parser.parse_args()
    budget = 64 * MIB
    needed, free = 3 * options.gib * (1 << 30), shutil.disk_usage(options.directory).free
    if free < needed * 1.05:
        sys.exit(f"{options.directory.absolute()}: {needed / MIB:.0f} MiB of free space are needed")
    with (
        tempfile.TemporaryDirectory(prefix="outcrop-tour-", dir=options.directory) as directory,
        oc.config(memory=budget),
    ):
        rows = tour(Path(directory), options.gib, budget)
        print_table(rows)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted")
