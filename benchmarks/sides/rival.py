"""A library beside which Outcrop is measured: how it is told to do a job, and what became of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from common import GIB, cold, remove
from sides.linear import HERE, attempt

PATIENCE = 3600.0
"""Seconds after which a rival is given up."""

NAMES = {"matmul": "AB", "cholesky": "S", "lu": "D", "solve": "D"}
"""The matrices that a job takes."""


class Rival(NamedTuple):
    """A way to do a job with a library: its side of tiles, threads, threads of OpenBLAS for each."""

    library: str
    job: str
    chunk: int
    threads: int
    blas: int
    how: str = "threads"
    limited: bool = True

    @property
    def memory(self) -> str:
        return "" if self.limited else ", without the limit"

    def __str__(self) -> str:
        return (
            f"{self.library}, tiles of {self.chunk} x {self.chunk}, {self.threads} x {self.blas} "
            f"threads, {self.how}{self.memory}"
        )

    def run(
        self,
        python: Path,
        directory: Path,
        n: int,
        limit: int,
        *,
        core: str = "",
        patience: float = PATIENCE,
    ) -> tuple[float | None, str]:
        """Seconds with memory of ``limit`` bytes; or None, and why.

        The matrices stay in ``directory`` for the next way that takes the same.
        """
        script = [str(python), str(HERE / f"{self.library}_job.py")]
        where = [str(directory), str(n), str(self.chunk)]
        extra = {"OPENBLAS_CORETYPE": core} if core else {}
        settings = {**os.environ, "OPENBLAS_NUM_THREADS": str(self.blas), **extra}
        needed = self.how if self.library == "blosc2" else NAMES[self.job]
        made = self.library, needed, self.chunk
        try:
            if _prepared.get(directory) != made:
                forget(directory)
                done, why = attempt(4 * GIB, [*script, "prepare", *where, needed], env=settings)
                if why:
                    return None, why
                _prepared[directory] = made
            cold(directory)
            spilling = f"{limit * 7 // 10}"
            command = [*script, self.job, *where, str(self.threads), self.how, spilling]
            allowed = limit if self.limited else 64 * GIB
            done, why = attempt(allowed, command, env=settings, timeout=patience)
            if done is None:
                return None, why
            # With memory enough: it is not what is measured.
            _, wrong = attempt(8 * GIB, [*script, "check", *where, self.job], env=settings)
            if wrong:
                return None, f"wrong result, or one that cannot be checked ({wrong})"
            return done["seconds"], ""
        finally:
            remove(directory / "C.zarr", directory / "C.b2nd", directory / "spilled")


_prepared: dict[Path, tuple[str, str, int]] = {}


def forget(directory: Path) -> None:
    """Removes the matrices."""
    remove(*directory.iterdir())
    _prepared.pop(directory, None)
