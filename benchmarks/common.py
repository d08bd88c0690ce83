"""What the benchmarks share: memory limits, cold caches, fio, tables.

Both sides of every comparison run in one go, after their files were evicted from the page cache,
under a real memory limit. Ratios are medians over the rounds.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

GIB = 1 << 30
MIB = 1 << 20
GIVES_BACK = Path("/sys/module/page_reporting")
"""Is there where the kernel gives memory that is free back to a host, some of it every two seconds."""
GIVEN_BACK = GIVES_BACK / "parameters/reported_kib"
"""How much it has given back, where it counts that."""
REST, IDLE = 5.0, 40.0
"""Seconds of rest; without anything given back, too; and where that cannot be seen."""
USED = 5 * GIB
"""What memory is used, instead, where memory is to be warm."""
USE = f"""
import mmap
memory = mmap.mmap(-1, {USED}, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory.madvise(mmap.MADV_HUGEPAGE)
memory[::4096] = bytes({USED} // 4096)
"""
"""Uses it. Huge pages, once free, serve whatever comes next; small ones do not become huge at once."""
ALLOWANCE = 200 * MIB
"""What a process may occupy beside its budget."""


def arguments(description: str, **more: Any) -> argparse.Namespace:
    """The options of every benchmark, and ``more``: names, and what there is to say of them."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--directory", type=Path, default=Path("benchmarks/data"))
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="small sizes, one round")
    for name, said in more.items():
        parser.add_argument(f"--{name}", **said)
    options = parser.parse_args()
    if options.quick:
        options.rounds = 1
    options.directory.mkdir(parents=True, exist_ok=True)
    return options


# -- memory limits -------------------------------------------------------------------------------


GROUPS = Path("/sys/fs/cgroup")
"""Where control groups with memory limits are made."""
if (GROUPS / "memory").is_dir():
    GROUPS /= "memory"


_numbers = itertools.count()


@contextmanager
def memory_group(limit: int) -> Iterator[Callable[[], None] | None]:
    """A control group with a memory limit; yields what a child calls to enter it.

    Yields None, with a remark, where control groups cannot be made.
    """
    file = "memory.limit_in_bytes" if GROUPS.name == "memory" else "memory.max"
    group = GROUPS / f"outcrop_bench_{os.getpid()}_{next(_numbers)}"
    try:
        group.mkdir()
        (group / file).write_text(str(limit))
    except OSError as error:
        print(f"no memory limit here ({error}); figures are without one", file=sys.stderr)
        group.rmdir() if group.is_dir() else None
        yield None
        return
    try:
        yield lambda: (group / "cgroup.procs").write_text(str(os.getpid())) and None
    finally:
        for _ in range(50):
            try:
                group.rmdir()
                break
            except OSError:
                time.sleep(0.1)


def settle(used: bool = False, rest: float = REST) -> None:
    """Brings memory into the state in which either side of a comparison starts.

    A virtual machine may give memory back to its host while it is idle; what is used first then costs
    seconds for each GiB. So everything starts when all that is free was given back, as a single
    command does, or else right after memory was ``used``, as on a machine that keeps its memory. In
    either case the disk rests before: it may still be busy with what was written last. Short rests keep
    memory that is to have been used from being given back in them.
    """
    if used:
        time.sleep(rest)
    elif GIVEN_BACK.exists():
        given, since = None, time.monotonic()
        while time.monotonic() - since < REST:
            time.sleep(0.2)
            if given != (given := GIVEN_BACK.read_text()):
                since = time.monotonic()
    elif GIVES_BACK.exists():
        time.sleep(IDLE)
    if used:
        subprocess.run([sys.executable, "-c", USE], check=True)


def limited(
    limit: int, command: Sequence[str], used: bool = False, **options: Any
) -> tuple[float, str]:
    """Runs a command under a memory limit; its seconds and what it printed. See `settle`."""
    settle(used, options.pop("rest", REST))
    timeout = options.pop("timeout", None)
    with memory_group(limit) as enter:
        start = time.perf_counter()
        child = subprocess.Popen(
            command,
            preexec_fn=enter,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            **options,
        )
        try:
            printed, _ = child.communicate(timeout=timeout)
        except BaseException:
            # With what a shell has started: it would go on, and slow down whatever comes next.
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            raise
        seconds = time.perf_counter() - start
    if child.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: exit status {child.returncode}")
    return seconds, printed


PROLOGUE = (
    f"""
GROUPS = {str(GROUPS)!r}
"""
    + """
import json, os, subprocess, sys, time
import numpy as np
import outcrop as oc

def io():
    fields = dict(line.split(": ") for line in open("/proc/self/io").read().splitlines())
    return int(fields["read_bytes"]), int(fields["write_bytes"])

def alike():
    # Commands start right after memory was used, outside their limit; so does what is measured here,
    # although it was imported and planned in between.
    def outside():
        try:
            with open(GROUPS + "/cgroup.procs", "w") as file:
                file.write(str(os.getpid()))
        except OSError:
            os._exit(0)
    if USE:
        subprocess.run([sys.executable, "-c", USE], preexec_fn=outside, check=True)

def report(**extra):
    run = oc.last_run()
    after = io()
    print(json.dumps({"seconds": seconds, **extra} if run is None else {
        "seconds": seconds, "read": run.bytes_read, "written": run.bytes_written,
        "kernel_read": after[0] - before[0], "kernel_written": after[1] - before[1],
        "peak_bytes": run.peak_bytes, "peak_rss": run.peak_rss, "overlap": run.overlap, **extra}))

# The device profile is measured once per device, not inside a measurement.
"""
)


def outcrop(
    limit: int, budget: int, body: str, *args: str, used: bool = False, **options: Any
) -> dict[str, Any]:
    """Runs Python statements with Outcrop in a child under a memory limit. See `settle`.

    The statements measure between ``alike(); before = io(); start = ...`` and ``report()``; its
    dictionary comes back.
    """
    script = PROLOGUE + f"USE = {USE if used else ''!r}\noc.config(memory={budget})\n" + body
    _, printed = limited(limit, [sys.executable, "-c", script, *args], used, **options)
    result: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return result


def measure_device(directory: Path, used: bool = False) -> None:
    """Measures the device's profile anew, because the disk is shared; with memory as for `settle`."""
    doctor = 'before = io(); start = seconds = 0; oc.doctor(sys.argv[1]); print("{}")'
    outcrop(4 * GIB + ALLOWANCE, 4 * GIB, doctor, str(directory), used=used)


MEASURED = """
alike(); before = io(); start = time.perf_counter()
{body}
seconds = time.perf_counter() - start
report()
"""


def measured(limit: int, budget: int, body: str, *args: str) -> dict[str, Any]:
    """`outcrop` with the whole body measured."""
    return outcrop(limit, budget, MEASURED.format(body=body), *args)


# -- files ---------------------------------------------------------------------------------------


def cold(*paths: Path) -> None:
    """Writes files out and evicts them from the page cache, so that both sides start alike."""
    for path in paths:
        files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
        for file in files:
            fd = os.open(file, os.O_RDONLY)
            os.fdatasync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)
    os.sync()


def remove(*paths: Path) -> None:
    """Removes files and directories, if they are there, and lets the device settle."""
    for path in paths:
        if path.is_dir():
            shutil.rmtree(path)
        elif path.exists():
            path.unlink()
    os.sync()


def fio(file: Path, size: int, mode: str, block: int, depth: int) -> float:
    """Bytes per second that fio moves with io_uring and direct I/O.

    A file to be read is to be written with ``mode="write"`` first, in requests of 8 MiB: a file that
    fio lays out by itself may lie in more pieces, and be slower to read.
    """
    if shutil.which("fio") is None:
        raise SystemExit("fio is needed for this comparison, and is not installed")
    command = [
        *("fio", "--name=reference", f"--filename={file}", f"--size={size}", "--direct=1"),
        *("--ioengine=io_uring", f"--iodepth={depth}", f"--bs={block}", f"--rw={mode}"),
        *("--runtime=10", "--output-format=json", *(() if mode == "write" else ("--readonly",))),
    ]
    # Huge pages for fio's buffers too: with small ones it reaches half of what the device does.
    environment = {**os.environ, "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    job = json.loads(done.stdout)["jobs"][0]
    bandwidth: float = job["write" if mode == "write" else "read"]["bw_bytes"]
    return bandwidth


# -- results -------------------------------------------------------------------------------------


class Claim:
    """A table of measured against claimed, on the screen and as JSON."""

    def __init__(self, name: str, options: argparse.Namespace) -> None:
        self.name = name
        self.options = options
        self.rows: list[dict[str, Any]] = []
        print(f"\n{name}" + (" (quick: sizes are no claims)" if options.quick else ""))

    def row(
        self,
        what: str,
        values: Sequence[float],
        floor: float,
        aim: float,
        *,
        low: bool,
        worst: bool = False,
        **more: Any,
    ) -> None:
        """A ratio over the rounds. `low`: whether small is good; `worst`: not the median counts."""
        figure = (max if low else min)(values) if worst else statistics.median(values)
        kept = figure <= floor if low else figure >= floor
        reached = figure <= aim if low else figure >= aim
        verdict = "aim reached" if reached else "kept" if kept else "MISSED"
        spread = f"{min(values):.3g} to {max(values):.3g}"
        sign = "<=" if low else ">="
        print(
            f"  {what:58s} {figure:7.3f}  ({spread}), claimed {sign} {floor:g}, aim {aim:g}: {verdict}"
        )
        for key, value in more.items():
            print(f"      {key}: {value}")
        self.rows.append(
            {
                "what": what,
                "figure": figure,
                "values": list(values),
                "floor": floor,
                "aim": aim,
                "verdict": verdict,
                **more,
            }
        )

    def note(self, text: str) -> None:
        """A line that is no ratio."""
        print(f"  {text}")
        self.rows.append({"what": text})

    def table(self, title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Figures that are no ratios, such as those of both sides."""
        widths = [max(len(line[i]) for line in (header, *rows)) for i in range(len(header))]
        print(f"  {title}:")
        for line in (header, *rows):
            print("      " + "  ".join(map(str.ljust, line, widths)).rstrip())
        self.rows.append({"what": title, "header": list(header), "table": [list(r) for r in rows]})

    def save(self) -> None:
        """Writes the table as JSON."""
        self.options.results.mkdir(parents=True, exist_ok=True)
        result = {
            "claim": self.name,
            "date": time.strftime("%Y-%m-%d"),
            "quick": self.options.quick,
            "cores": os.cpu_count(),
            "kernel": platform.release(),
            "rows": self.rows,
        }
        path = self.options.results / f"{Path(sys.argv[0]).stem}.json"
        path.write_text(json.dumps(result, indent=1, default=str) + "\n")


def make_array(path: Path, rows: int, columns: int) -> None:
    """A float64 Zarr array of this shape with 8 MiB tiles, unless it is there."""
    import outcrop as oc

    if path.exists() and oc.open(path).shape == (rows, columns):
        return
    remove(path)
    function = oc.fromfunction(lambda i, j: (i * 31 + j * 17) % 1000003 * 1.25, (rows, columns))
    function.save(path, tile=(1024, 1024))
