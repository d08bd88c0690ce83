"""Programs of compiled functions, as a compiler of loops makes them, with exact bytes."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outcrop as oc
from outcrop import _native

numba = pytest.importorskip("numba")

SHAPE, TILE = (700, 500), (64, 96)

POINTERS = numba.types.CPointer(numba.types.CPointer(numba.float64))
SIGNATURE = numba.int32(
    POINTERS,
    numba.types.CPointer(numba.int64),
    numba.types.CPointer(numba.uint64),
    numba.types.CPointer(numba.float64),
    numba.uint64,
    numba.types.CPointer(numba.uint8),
)


@numba.cfunc(SIGNATURE)
def combined(starts, axes, arguments, workspace, room, stop):  # type: ignore[no-untyped-def]
    """C[i, j] = A[i, j] + B[j, i] * scale + i - j, by way of the workspace."""
    if arguments[0] == 99:
        return 7
    first, second = axes[12], axes[15]
    rows, columns = axes[13], axes[16]
    if room < 8 * columns:
        return 1
    for i in range(rows):
        if stop[0]:
            return -1
        for j in range(columns):
            workspace[j] = starts[1][(j * axes[8] + i * axes[11]) // 8] * arguments[0]
        for j in range(columns):
            own = starts[0][(i * axes[2] + j * axes[5]) // 8]
            starts[2][(i * axes[14] + j * axes[17]) // 8] = (
                own + workspace[j] + (first + i) - (second + j)
            )
    return 0


def planned(A: oc.Array, B: oc.Array, scale: int) -> tuple[Any, int]:
    """A program by the builder; the number of its result."""
    draft = _native.Draft(8 * TILE[1], 0, False)
    counts = [-(-n // t) for n, t in zip(SHAPE, TILE, strict=True)]
    inputs = [
        draft.input(name, array._source.store, (0, 0), array.shape, tile, (0, 0))
        for name, array, tile in (("A", A, TILE), ("B", B, TILE[::-1]))
    ]
    number, first = draft.output("C", (TILE, "{}"), "float64", SHAPE, TILE)
    kernel = draft.native("combined", 1e9, combined.address, 1, combined)
    operands: list[int] = []
    for i in range(counts[0]):
        for j in range(counts[1]):
            own, across = i * counts[1] + j, j * counts[0] + i
            operands += [(inputs[0][1] + own) * 4, (inputs[1][1] + across) * 4]
            operands.append((first + own) * 4 + 1)
    steps = math.prod(counts)
    draft.steps(
        np.full(steps, kernel, np.uint16),
        np.full(steps, 3, np.uint16),
        np.full(steps, 1e4),
        np.array(operands, np.uint32),
        np.full(steps, scale, np.uint64),
        np.zeros(0, np.uint16),
        False,
    )
    draft.describe("a loop", None)
    return _native.plan_program(draft), number


def test_a_compiled_function_runs_out_of_core(tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    a, b = (chance.integers(99, size=n).astype(float) for n in (SHAPE, SHAPE[::-1]))
    expected = a + b.T * 3 + np.subtract.outer(np.arange(SHAPE[0]), np.arange(SHAPE[1]))
    A = oc.asarray(a).save(tmp_path / "A.zarr", tile=TILE)
    B = oc.asarray(b).save(tmp_path / "B.zarr", tile=TILE[::-1])
    # The arrays do not fit: 2.7 MiB each.
    with oc.config(memory="1MiB", threads=2):
        plan, number = planned(A, B, 3)
        facts = plan.facts
        C = oc.create(tmp_path / "C.zarr", SHAPE, "float64", tile=TILE)
        plan.run(not_called, not_called, 0, [(number, C._source.store)], True, None, None)
        C.abort()
        run = oc.last_run()
    assert run is not None
    assert (run.bytes_read, run.bytes_written) == (facts["bytes_read"], facts["bytes_written"])
    assert run.peak_bytes <= 1 << 20
    np.testing.assert_array_equal(oc.open(tmp_path / "C.zarr").compute(), expected)


def test_what_a_compiled_function_says_has_gone_wrong(tmp_path: Path) -> None:
    A = oc.ones(SHAPE).save(tmp_path / "A.zarr", tile=TILE)
    B = oc.ones(SHAPE[::-1]).save(tmp_path / "B.zarr", tile=TILE[::-1])
    plan, number = planned(A, B, 99)
    C = oc.create(tmp_path / "C.zarr", SHAPE, "float64", tile=TILE)
    with pytest.raises(oc.OutcropError, match="combined: failed, and says 7"):
        plan.run(not_called, not_called, 0, [(number, C._source.store)], True, None, None)
    C.abort()
    assert not (tmp_path / "C.zarr").exists()


def not_called(*_: Any) -> None:
    raise AssertionError("no step is Python's")
