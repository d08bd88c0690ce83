"""Whether this tree is as fast as another one: ordinary jobs by both, in turns, in one run.

Each job runs in a process of its own, from cold files, right after memory was used, under a limit of
its budget + 200 MiB. Nothing is claimed of the figures: what one round says is noise, and what all say
is not. `--only` takes parts of the names of jobs.
"""

import os
import random
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from common import ALLOWANCE, GIB, MIB, Claim, arguments, cold, measure_device, outcrop, remove
from sides import data

import outcrop as oc

options = arguments(
    __doc__,
    other={"type": Path, "required": True, "help": "another checkout, with its compiled core"},
    only={"nargs": "*", "default": [""], "help": "parts of the names of jobs"},
)
small = 16 if options.quick else 1
TREES = {"other": options.other / "python", "this": Path(__file__).parents[1] / "python"}

RUN = """
target = sys.argv[1]
inputs = [{open} for path in sys.argv[2:]]
A, B = inputs[0], inputs[-1]
{setup}
{plan}
alike(); before = io(); start = time.perf_counter()
{body}
seconds = time.perf_counter() - start
report()
"""
PLANNED = "result = {result}\nplan = oc.plan(result)"
SAVED = "result.save(target)"
COMPUTED = "result.compute()"


class Job(NamedTuple):
    """What is computed of inputs: an expression of A and B, what is done with it, the budget."""

    name: str
    inputs: tuple[str, ...]
    result: str
    budget: int
    body: str = SAVED
    setup: str = ""
    open: str = "oc.open(path)"
    ending: str = "zarr"


def matrix(
    name: str, function: Callable, shape: tuple[int, ...], dtype: str, **how: object
) -> Path:
    """A stored array of a function of the indices."""
    path = options.directory / name
    if not path.exists():
        with oc.config(memory=GIB):
            oc.fromfunction(function, shape, dtype).save(path, **how)
    return path


def raw(name: str, nbytes: int) -> Path:
    """A file of elements that look random."""
    path = options.directory / name
    block = random.Random(1).randbytes(61 * MIB + 13)
    if not path.exists():
        with path.open("wb") as file:
            left = nbytes
            while left:
                left -= file.write(block[: min(left, len(block))])
    return path


def table(i: np.ndarray, j: np.ndarray) -> np.ndarray:
    return (i * 31 + j * 17) % 1000003 * 1.25


PAGE, CUBE, TALL = (46341, 92683 // small), (367, 721, 2027 // small), 2 * GIB // 8000 // small
SQUARE, FACTOR = 8192 // (4 if options.quick else 1), 12288 // (4 if options.quick else 1)
MADE: dict[str, Callable[[], Path]] = {
    "squares": lambda: matrix("squares", table, (16384, 32768 // small), "f8", tile=(1024, 1024)),
    "X.npy": lambda: matrix("X.npy", table, (TALL, 1000), "f8"),
    "X.zarr": lambda: matrix("X.zarr", table, (TALL, 1000), "f8", tile=(1024, 1000)),
    "page": lambda: raw("page", PAGE[0] * PAGE[1]),
    "wide": lambda: raw("wide", 8 * 23167 * (23173 // small)),
    "cube": lambda: raw("cube", 4 * CUBE[0] * CUBE[1] * CUBE[2]),
    **{
        f"{side}{tile}": lambda side=side, tile=tile: matrix(
            f"{side}{tile}", getattr(data, side), (SQUARE, SQUARE), "f8", tile=(tile, tile)
        )
        for side in ("left", "right")
        for tile in (256, 512)
    },
    **{
        f"definite-{dtype}-{tile}": lambda dtype=dtype, n=n, tile=tile: matrix(
            f"definite-{dtype}-{tile}",
            data.hermitian if dtype == "c16" else data.positive,
            (n, n),
            dtype,
            tile=(tile, tile),
        )
        for dtype, n, tile in (
            ("f8", FACTOR, 256),
            ("f8", FACTOR, 512),
            ("f4", FACTOR, 512),
            ("c16", FACTOR // 2, 256),
        )
    },
    **{
        f"{name} {side}": lambda name=name, side=side, shape=shape, tile=tile: matrix(
            f"{name} {side}", getattr(data, side), shape, "f8", tile=tile
        )
        for side in ("left", "right")
        for name, shape, tile in (
            ("thin", ((1 << 20) // small, 192), (2048, 96)),
            ("outer", (32768 // small, 384), (1024, 384)),
        )
    },
    "samples": lambda: matrix("samples", table, (GIB // 4000 // small, 500), "f8"),
}

STENCILS = """
def five(u):
    return (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]) / 4

def four_times(u, step):
    for _ in range(4):
        u = step(u)
    return u

chance = np.random.default_rng(2)
mu, sd = chance.random(A.shape[1]), 0.5 + chance.random(A.shape[1])
"""
BOXES = """
for first in range(4):
    A[:, first * (A.shape[1] // 4) :][:, : A.shape[1] // 4].compute()
"""
UPDATES = """
chance = np.random.default_rng(3)
W, H = chance.random((A.shape[0], 10)), chance.random((10, A.shape[1]))
"""


def of_rows(kind: str) -> list[Job]:
    """Expressions of a table of 2 GiB."""
    of = (f"X.{kind}",)

    def job(name: str, result: str, body: str = SAVED, budget: int = 256 * MIB) -> Job:
        return Job(f"{name}, {kind}", of, result, budget, body, STENCILS)

    return [
        job("stencils: X * 2", "A * 2"),
        job("stencils: five points", "five(A)"),
        job("stencils: differences", "np.diff(A, axis=0)"),
        job("stencils: padded, four times", "four_times(A, lambda u: np.pad(five(u), 1))"),
        job(
            "stencils: roll, four times",
            "four_times(A, lambda u: (np.roll(u, 1, 0) + np.roll(u, -1, 0)"
            " + np.roll(u, 1, 1) + np.roll(u, -1, 1)) / 4)",
        ),
        job("chains: standardized sums", "((A - mu) / sd).sum(axis=0)", COMPUTED),
        job("chains: mean", "A.mean(axis=0)", COMPUTED),
        job("chains: root, max of rows", "np.sqrt(A * A + 1).max(axis=1)", COMPUTED),
        job("chains: var", "A.var()", COMPUTED),
        job("chains: exp and sin", "np.exp(np.sin(np.exp(np.sin(A)))).mean(axis=0)", COMPUTED),
    ]


def turned(
    name: str, source: str, shape: tuple[int, ...], dtype: str, result: str, part: float
) -> Job:
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    opened = f"oc.open(path, shape={shape}, dtype={dtype!r})"
    return Job(name, (source,), result, int(size * part), open=opened, ending="raw")


WIDE = (23167, 23173 // small)
JOBS = [
    Job("copy of squares", ("squares",), "A", 256 * MIB),
    Job(
        "copy of squares, cut alike",
        ("squares",),
        "A",
        256 * MIB,
        "result.save(target, tile=A.tile)",
    ),
    Job(
        "boxes of a page",
        ("page",),
        "A",
        GIB + 128 * MIB,
        BOXES,
        open=f"oc.open(path, shape={PAGE}, dtype='u1')",
    ),
    *of_rows("zarr"),
    *of_rows("npy"),
    Job("convert: Zarr to .npy", ("X.zarr",), "A", 256 * MIB, ending="npy"),
    Job("convert: .npy to Zarr", ("X.npy",), "A", 256 * MIB),
    *(
        turned(f"permute: cube {order}", "cube", CUBE, "f4", f"oc.permute_dims(A, {order})", 1 / 8)
        for order in ((2, 1, 0), (2, 0, 1), (0, 2, 1))
    ),
    *(
        turned(f"transpose: u1 {name}", "page", PAGE, "u1", "oc.transpose(A)", part)
        for name, part in (("half", 1 / 2), ("eighth", 1 / 8), ("64th", 1 / 64))
    ),
    turned("transpose: f8 eighth", "wide", WIDE, "f8", "oc.transpose(A)", 1 / 8),
    turned("transpose: f8 64th", "wide", WIDE, "f8", "oc.transpose(A)", 1 / 64),
    turned("rotate: f8 eighth", "wide", WIDE, "f8", "oc.rotate(A)", 1 / 8),
    *(Job(f"matmul: tiles {t}", (f"left{t}", f"right{t}"), "A @ B", 64 * MIB) for t in (256, 512)),
    *(
        Job(
            f"cholesky: {dtype} tiles {tile}, {mib} MiB",
            (f"definite-{dtype}-{tile}",),
            "oc.linalg.cholesky(A)",
            mib * MIB,
        )
        for dtype, tile, mib in (
            ("f8", 256, 16),
            ("f8", 512, 64),
            ("f8", 512, 256),
            ("f4", 512, 64),
            ("c16", 256, 64),
        )
    ),
    Job("balance: A^T B", ("thin left", "thin right"), "A.T @ B", 256 * MIB),
    Job("balance: A B^T", ("outer left", "outer right"), "A @ B.T", 256 * MIB),
    Job(
        "factorization: one update",
        ("samples",),
        "(W.T @ A) / (W.T @ W @ H)",
        256 * MIB,
        setup=UPDATES,
    ),
]


def run(job: Job, tree: Path) -> dict[str, float]:
    target = options.directory / f"result.{job.ending}"
    remove(target)
    sources = [MADE[name]() for name in job.inputs]
    cold(*sources)
    plan = "" if job.body == BOXES else PLANNED.format(result=job.result)
    body = RUN.format(open=job.open, setup=job.setup, plan=plan, body=job.body)
    limit, where = job.budget + ALLOWANCE, map(str, (target, *sources))
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    return outcrop(limit, job.budget, body, *where, used=True, rest=0.5, env=environment)


jobs = [job for job in JOBS if any(part in job.name for part in options.only)]
claim = Claim(f"This tree against another one, {len(jobs)} jobs", options)
measure_device(options.directory, used=True)
for number, job in enumerate(jobs):
    runs: dict[str, list[dict[str, float]]] = {side: [] for side in TREES}
    for turn in range(options.rounds):
        for side in sorted(TREES, reverse=turn % 2 == 1):
            runs[side].append(run(job, TREES[side]))
    pairs = [
        this["seconds"] / other["seconds"]
        for this, other in zip(runs["this"], runs["other"], strict=True)
    ]
    seconds = {side: statistics.median(r["seconds"] for r in of) for side, of in runs.items()}
    moved = {side: (of[0]["read"] + of[0]["written"]) / MIB for side, of in runs.items()}
    claim.row(
        f"{job.name}: time by this tree / by the other",
        pairs,
        1.1,
        1.0,
        low=True,
        seconds=f"{seconds['other']:.2f} -> {seconds['this']:.2f}",
        mebibytes=f"{moved['other']:.0f} -> {moved['this']:.0f}",
    )
    claim.save()
    later = {name for job in jobs[number + 1 :] for name in job.inputs}
    remove(options.directory / f"result.{job.ending}")
    remove(*(options.directory / name for name in {*job.inputs} - later))
