"""What the benchmarks of linear algebra share: matrices on disk, both sides, and what every run keeps.

Every side runs in a process of its own. What a computation by Outcrop says of itself is checked in
every run: the bytes of the plan against those moved, these against the kernel's, the budget, and
the memory of the process.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from common import ALLOWANCE, GIB, MIB, Claim, cold, limited, measured, outcrop, remove
from sides import environment

import outcrop as oc

HERE = Path(__file__).resolve().parent
THREADS = len(os.sched_getaffinity(0))

__all__ = ["GIB", "MIB", "THREADS"]


# -- files ---------------------------------------------------------------------------------------


@contextmanager
def scratch(options: argparse.Namespace, name: str) -> Iterator[Path]:
    """A directory for this benchmark, removed at the end, however that comes."""
    directory: Path = options.directory / name
    remove(directory)
    directory.mkdir(parents=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield directory
    finally:
        remove(directory)


def make_matrix(
    path: Path,
    function: Callable[[Any, Any], Any],
    shape: tuple[int, int],
    dtype: str,
    tile: tuple[int, int],
) -> Path:
    """A Zarr array of a function of the indices."""
    remove(path)
    with oc.config(memory=GIB):
        oc.fromfunction(function, shape, dtype).save(path, tile=tile)
    return path


# -- Outcrop -------------------------------------------------------------------------------------

COMPUTED = """
from outcrop import _native
inputs = [oc.open(path) for path in sys.argv[2:]]
result = {expression}
# Of several results, the first one is that of the path.
several = isinstance(result, tuple)
results = {{sys.argv[1] + ("." + str(i) if i else ""): x for i, x in enumerate(result)}} if several else {{}}
# Measures kernels and device, where that is not known yet.
plan = oc.plan(results or result)
before = io(); start = time.perf_counter()
oc.save(results, overwrite=True) if several else result.save(sys.argv[1])
seconds = time.perf_counter() - start
full = _native.last_run()
report(budget=oc.config().memory, flops=plan.flops,
       planned_read=plan.bytes_read, planned_written=plan.bytes_written,
       planned_peak=plan.peak_bytes, planned_seconds=plan.seconds,
       planned_io=plan.io_seconds, planned_compute=plan.compute_seconds,
       io_seconds=full["io_seconds"], kernels=full["kernels"], threads=oc.config().threads,
       remark=plan._facts["remark"])
"""


def computed(
    budget: int, expression: str, target: Path, *inputs: Path, limit: int | None = None
) -> dict[str, Any]:
    """Saves an expression of ``inputs`` in a process with this budget, from cold files."""
    remove(target)
    cold(*inputs)
    paths = map(str, (target, *inputs))
    body = COMPUTED.format(expression=expression)
    return outcrop(limit or budget + ALLOWANCE, budget, body, *paths)


CHANGED = """
from outcrop import _native
inputs = [oc.open(path) for path in sys.argv[2:]]
with oc.open(sys.argv[1], "r+") as C:
    plan = oc.blas.{name}.plan({arguments})
    before = io(); start = time.perf_counter()
    oc.blas.{name}({arguments})
    seconds = time.perf_counter() - start
full = _native.last_run()
report(budget=oc.config().memory, flops=plan.flops,
       planned_read=plan.bytes_read, planned_written=plan.bytes_written,
       planned_peak=plan.peak_bytes, planned_seconds=plan.seconds,
       planned_io=plan.io_seconds, planned_compute=plan.compute_seconds,
       io_seconds=full["io_seconds"], kernels=full["kernels"], threads=oc.config().threads)
"""


def changed(budget: int, name: str, arguments: str, target: Path, *inputs: Path) -> dict[str, Any]:
    """Calls a routine of level-3 BLAS that changes ``C``, the target, with cold files."""
    cold(target, *inputs)
    body = CHANGED.format(name=name, arguments=arguments)
    return outcrop(budget + ALLOWANCE, budget, body, *map(str, (target, *inputs)))


def planned(budget: int, expression: str, *inputs: Path) -> dict[str, Any]:
    """What `outcrop.plan` expects."""
    body = (
        "inputs = [oc.open(path) for path in sys.argv[1:]]\n"
        f"plan = oc.plan({expression})\n"
        "names = ('bytes_read', 'bytes_written', 'seconds', 'io_seconds', 'compute_seconds')\n"
        "print(json.dumps({name: getattr(plan, name) for name in names}))\n"
    )
    return outcrop(budget + ALLOWANCE, budget, body, *map(str, inputs))


def filling(budget: int, target: Path, shape: tuple[int, int], tile: tuple[int, int]) -> float:
    """Seconds in which an array of zeros is written."""
    remove(target)
    body = f"oc.fromfunction(lambda i, j: 0.0, {shape}).save(sys.argv[1], tile={tile})"
    seconds: float = measured(budget + ALLOWANCE, budget, body, str(target))["seconds"]
    return seconds


def copying(budget: int, source: Path, target: Path, rows: int) -> float:
    """Seconds in which the first rows of an array are copied."""
    remove(target)
    cold(source)
    body = f"oc.open(sys.argv[1])[:{rows}].save(sys.argv[2])"
    run = measured(budget + ALLOWANCE, budget, body, str(source), str(target))
    seconds: float = run["seconds"]
    return seconds


def reading(budget: int, *sources: Path) -> float:
    """Seconds in which arrays are read, one after the other."""
    cold(*sources)
    body = (
        "from outcrop import _native\n"
        "for path in sys.argv[1:]:\n"
        "    assert not _native.open(path, 'r', None, None, None, 0, 'C').verify(False, None)"
    )
    run = measured(budget + ALLOWANCE, budget, body, *map(str, sources))
    seconds: float = run["seconds"]
    return seconds


def accounts(claim: Claim, runs: Sequence[dict[str, Any]], what: str = "") -> None:
    """The rows about bytes and memory, over all runs."""
    prefix = f"{what}: " if what else ""

    def away(key: str) -> list[float]:
        # Of less, a hundredth is less than what the file system writes about its files.
        much = [run for run in runs if run[key] >= 64 * MIB]
        ratios = [run[f"kernel_{key}"] / run[key] for run in much]
        return [max(ratio, 1 / ratio) for ratio in ratios]

    differences = [
        abs(run["planned_read"] - run["read"]) + abs(run["planned_written"] - run["written"])
        for run in runs
    ]

    def row(name: str, values: list[float], floor: float, aim: float) -> None:
        claim.row(f"{prefix}{name}", values, floor, aim, low=True, worst=True)

    row("bytes moved that were not planned", differences, 0, 0)
    for key in ("read", "written"):
        if ratios := away(key):
            row(f"bytes {key}: kernel / reported", ratios, 1.01, 1.001)
    for key, name in (("peak_bytes", "peak use"), ("planned_peak", "planned peak")):
        row(f"{name} of the budget / budget", [run[key] / run["budget"] for run in runs], 1.0, 1.0)
    resident = [run["peak_rss"] / (run["budget"] + ALLOWANCE) for run in runs]
    row("peak RSS / (budget + 200 MiB)", resident, 1.0, 1.0)


def pure_compute(run: dict[str, Any]) -> float:
    """Seconds of the kernels, were the threads never without work."""
    seconds: float = sum(run["kernels"].values()) / run["threads"]
    return seconds


# -- in memory -----------------------------------------------------------------------------------


class InMemory:
    """Rates of other libraries on matrices in memory, each measurement in a process of its own."""

    def __init__(self, options: argparse.Namespace, claim: Claim) -> None:
        self.claim = claim
        self.faer, problem = environment.faer(options.directory)
        if self.faer is None:
            claim.note(f"faer is not measured: {problem}")
        self.python, said = environment.rivals(options.directory)
        if self.python is None:
            claim.note(f"SciPy is not measured, and NumPy is Outcrop's: {said}")
        self.rates: dict[tuple[str, str, str], list[float]] = {}

    def measure(self, job: str, dtype: str, n: int, flops: float) -> float:
        """The best rate in operations per second; `rates` keeps each.

        Where nobody can do it, that of the fastest other routine stands for it.
        """
        found = {}
        if self.faer is not None and job in ("gemm", "cholesky"):
            run = self._run([str(self.faer), job, dtype, str(n), str(THREADS)])
            found["faer"] = flops / run["seconds"]
        try:
            run = self.openblas(job, dtype, n)
            found[f"{run['who']} ({run['core']} kernels)"] = flops / run["seconds"]
        except subprocess.CalledProcessError as error:
            # Seen: OpenBLAS's Cholesky dies of SIGSEGV at n = 24576, and its syrk at 16384.
            self.claim.note(f"OpenBLAS fails at {job}, {dtype}, n = {n}: status {error.returncode}")
        for who, rate in found.items():
            self.rates.setdefault((job, dtype, who), []).append(rate)
        said = ", ".join(f"{who} {rate / 1e9:.1f}" for who, rate in found.items())
        print(f"    in memory, {dtype}, Gflop/s: {said}")
        if not found:
            others = [rates for (_, of, _), rates in self.rates.items() if of == dtype]
            return max(max(rates) for rates in others)
        return max(found.values())

    def openblas(self, job: str, dtype: str, n: int, core: str = "") -> dict[str, Any]:
        """NumPy or SciPy, perhaps with kernels for another processor than OpenBLAS would choose."""
        python = str(self.python or sys.executable)
        extra = {"OPENBLAS_CORETYPE": core} if core else {}
        return self._run([python, str(HERE / "openblas.py"), job, dtype, str(n)], **extra)

    def _run(self, command: list[str], **extra: str) -> dict[str, Any]:
        # Huge pages, as Outcrop has them.
        environment = {
            **os.environ,
            "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
            "OPENBLAS_NUM_THREADS": str(THREADS),
            **extra,
        }
        done = subprocess.run(
            command, env=environment, check=True, stdout=subprocess.PIPE, text=True
        )
        result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return result

    def table(self) -> list[tuple[str, ...]]:
        """Rows for `Claim.table`: who, what, median Gflop/s."""
        return [
            (f"{who}, in memory", dtype, f"{statistics.median(rates) / 1e9:.1f}")
            for (_, dtype, who), rates in self.rates.items()
        ]


def has_avx512() -> bool:
    """Whether this processor has AVX-512."""
    try:
        return " avx512f " in Path("/proc/cpuinfo").read_text()
    except OSError:
        return False


# -- results -------------------------------------------------------------------------------------


def row_blocks(path: Path, rows: int = 512) -> Iterator[tuple[slice, Any]]:
    """An array, some rows at a time."""
    array = oc.open(path)
    for start in range(0, array.shape[0], rows):
        part = slice(start, min(start + rows, array.shape[0]))
        yield part, np.asarray(array[part].compute())


def times(path: Path, x: Any) -> Any:
    """A matrix on disk times a vector."""
    return np.concatenate([block @ x for _, block in row_blocks(path)])


def adjoint_times(path: Path, x: Any) -> Any:
    """The adjoint of a matrix on disk times a vector."""
    return sum(block.conj().T @ x[part] for part, block in row_blocks(path))


def _vector(path: Path) -> Any:
    array = oc.open(path)
    x = np.random.default_rng(1).standard_normal(array.shape[1])
    return x.astype(np.result_type(array.dtype, np.float64))


def check_product(a: Path, b: Path, c: Path, *, adjoint: str = "") -> None:
    """``C x`` is ``A (B x)`` for a random vector; `adjoint` of "left" or "right": with A^H or B^H."""
    with oc.config(memory=GIB):
        x = _vector(c)
        inner = adjoint_times(b, x) if adjoint == "right" else times(b, x)
        _check(c, times(c, x), adjoint_times(a, inner) if adjoint == "left" else times(a, inner))


def check_cholesky(a: Path, factor: Path) -> None:
    """``L (L^H x)`` is ``A x`` for a random vector."""
    with oc.config(memory=GIB):
        x = _vector(factor)
        _check(factor, times(factor, adjoint_times(factor, x)), times(a, x))


def check_lu(a: Path, factors: Path) -> None:
    """``L (U x)`` is ``P A x`` for a random vector; pivots are beside the factors."""
    with oc.config(memory=GIB):
        x = _vector(factors)
        upper = np.concatenate(
            [np.triu(block, part.start) @ x for part, block in row_blocks(factors)]
        )
        found = np.concatenate(
            [np.tril(block, part.start - 1) @ upper for part, block in row_blocks(factors)]
        )
        expected = times(a, x)
        for i, pivot in enumerate(np.asarray(oc.open(f"{factors}.1").compute())):
            expected[[i, pivot]] = expected[[pivot, i]]
        _check(factors, found + upper, expected)


def _check(path: Path, found: Any, expected: Any) -> None:
    error = float(np.linalg.norm(found - expected) / np.linalg.norm(expected))
    if not error < (1e-4 if oc.open(path).dtype in ("float32", "complex64") else 1e-10):
        raise SystemExit(f"{path}: the result is wrong, by {error:.3g} of it")


# -- processes that may fail -----------------------------------------------------------------------


def attempt(
    limit: int, command: Sequence[str], **options: Any
) -> tuple[dict[str, Any] | None, str]:
    """The line of JSON that a command under a memory limit prints; or None, and why it failed."""
    try:
        _, printed = limited(limit, command, **options)
    except subprocess.TimeoutExpired:
        return None, f"not done after {options['timeout']:.0f} s"
    except SystemExit as stop:
        status = str(stop).rsplit(" ", 1)[-1]
        return None, "out of memory" if status == "-9" else f"exit status {status}"
    result: dict[str, Any] = json.loads(printed.splitlines()[-1]) if printed else {}
    return result, ""
