"""Sweeps give what the plain loop gives, bit for bit, whatever is in memory and in which order."""

import importlib.util
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outcrop as oc
from outcrop.sweeps.order import Order
from outcrop.sweeps.source import Sweeping

from .plain import plain

pytest.importorskip("numba")

BUDGETS = ("256KiB", "500KiB", "64MiB")


def generated(seed: int, tmp_path: Path) -> tuple[Any, np.random.Generator]:
    """A sweep of a random stencil."""
    rng = np.random.default_rng(seed)
    ndim = int(rng.integers(1, 4))
    radius = int(rng.integers(1, 4 - ndim // 2))
    arrays = "uvf"[: rng.integers(1, 4)]
    inplace, star = bool(rng.integers(2)), rng.random() < 0.7
    written = "uv" if len(arrays) > 1 and rng.random() < 0.3 else "u"
    lines = []
    for p in written:
        terms = []
        for _ in range(rng.integers(2, 6)):
            offset = rng.integers(-radius, radius + 1, ndim)
            if star:
                keep = rng.integers(ndim)
                offset = [int(n) if a == keep else 0 for a, n in enumerate(offset)]
            place = ", ".join(str(int(n)) for n in offset)
            terms.append(f"{rng.random():.3f} * {rng.choice(list(arrays))}[{place}]")
        own = ", ".join("0" * ndim)
        value = f"0.4 * ({' + '.join(terms)}) - w * {p}[{own}]"
        lines.append(f"    t = {value}")
        if rng.random() < 0.3:
            lines += ["    if t > 0.3:", f"        {p}[{own}] = math.sin(t)"]
        else:
            lines.append(f"    {p}[{own}] = t")
    used = [p for p in arrays if any(f"{p}[" in line for line in lines)]
    directions = tuple(int(n) for n in rng.choice([1, 1, -1], ndim))
    boundary = tuple(str(b) for b in rng.choice(["fixed", "fixed", "periodic", "nearest"], ndim))
    # At both ends of a periodic axis, a cell in place may see what is new and what is old.
    source = f"import math\ndef update({', '.join(used)}, w):\n" + "\n".join(lines) + "\n"
    path = tmp_path / f"update_{seed}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made = oc.sweep(inplace=inplace, boundary=boundary, directions=directions)(module.update)
    return made, rng


@pytest.mark.parametrize("seed", range(12))
def test_generated_stencils(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep, rng = generated(seed, tmp_path)
    ndim = sweep.cell.ndim
    most = {1: 6000, 2: 70, 3: 18}[ndim]
    shape = tuple(int(n) for n in rng.integers(most // 2, most, ndim))
    tile = tuple(int(n) for n in rng.integers(1, np.array(shape) // 2))
    given = [rng.standard_normal(shape) for _ in sweep.cell.arrays]
    stored = [
        oc.asarray(a).save(tmp_path / f"{i}.zarr", tile=tile if i else None)
        for i, a in enumerate(given)
    ]
    orders, taken = Sweeping.orders, 0
    for sweeps in (1, 5):
        expected = plain(sweep, *given, 0.3, sweeps=sweeps)

        def check(memory: str, sweeps: int = sweeps, expected: Any = expected) -> None:
            with oc.config(memory=memory, threads=1 + len(memory) % 2):
                found = sweep(*stored, 0.3, sweeps=sweeps)
                found = found if isinstance(found, tuple) else (found,)
                saved = []
                for i, array in enumerate(found):
                    plan = oc.plan(array, "v.zarr", tile=tile)
                    saved.append(array.save(tmp_path / f"v{i}.zarr", tile=tile, overwrite=True))
                    run = oc.last_run()
                    assert run is not None
                    moved = (run.bytes_read, run.bytes_written)
                    assert moved == (plan.bytes_read, plan.bytes_written)
            for own, other in zip(saved, expected, strict=True):
                np.testing.assert_array_equal(own.compute(), other)

        # What is chosen for little memory, and some of all orders that there are.
        for memory in BUDGETS:
            with suppress(oc.BudgetError):
                check(memory)
                taken += 1
        for chance in rng.random(6 if sweeps > 1 else 1):

            def only(job: Sweeping, tile: Any, chance: float = chance) -> Iterator[Order]:
                found = list(orders(job, tile))
                yield found[int(chance * len(found))]

            monkeypatch.setattr(Sweeping, "orders", only)
            found = sweep(*stored, 0.3, sweeps=sweeps)
            found = found if isinstance(found, tuple) else (found,)
            for own, other in zip(found, expected, strict=True):
                np.testing.assert_array_equal(own.compute(), other)
            monkeypatch.setattr(Sweeping, "orders", orders)
    assert taken > 2
