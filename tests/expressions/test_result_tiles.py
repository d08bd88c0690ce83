"""Which tiles results have on disk, and what that costs."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import outcrop as oc
from outcrop.arrays.source import default_tile
from outcrop.expressions.build.arrays import node_of
from outcrop.expressions.tiling.result_tiles import stored_tile


@given(
    shape=st.lists(st.integers(1, 5000), min_size=1, max_size=3),
    parts=st.lists(st.integers(1, 40), min_size=3, max_size=3),
    dtype=st.sampled_from(["int8", "float32", "complex128"]),
)
@settings(max_examples=200, derandomize=True, deadline=None)
def test_a_tile_of_the_program_is_whole_tiles_on_disk(
    shape: list[int], parts: list[int], dtype: str
) -> None:
    node = node_of(oc.zeros(shape, dtype=dtype) + oc.ones((), dtype=dtype))
    tile = tuple(-(-n // p) for n, p in zip(shape, parts, strict=False))
    with oc.config(memory="4GiB"):
        found = stored_tile(node, tile)
    for own, given_tile, n in zip(found, tile, shape, strict=True):
        assert 1 <= own <= given_tile
        assert given_tile % own == 0 or given_tile == n
    usual = math.prod(default_tile(tuple(shape), np.dtype(dtype)))
    assert math.prod(found) <= max(8 * usual, 1)


@pytest.mark.parametrize("layout", [{}, {"tile": (64, 2048)}, {"format": "npy"}], ids=str)
def test_results_have_the_usual_tiles(tmp_path: Path, layout: Any) -> None:
    """They had those of the pass that made them: some whole rows, as far as memory went."""
    values = np.random.default_rng(0).random((2048, 2048))
    A = oc.asarray(values).save(
        tmp_path / ("A.npy" if layout.get("format") else "A.zarr"), **layout
    )
    with oc.config(memory="64MiB"):
        for make in (lambda a: a + 1, lambda a: (a - a.mean(axis=1, keepdims=True)).astype("f4")):
            plan = oc.plan(make(A), tmp_path / "out.zarr")
            found = make(A).save(tmp_path / "out.zarr", overwrite=True)
            run = oc.last_run()
            assert run is not None
            assert f"tiles of {' x '.join(map(str, found.tile))}" in plan.explain()
            assert (run.bytes_read, run.bytes_written) == (plan.bytes_read, plan.bytes_written)
            usual = math.prod(default_tile(found.shape, found.dtype))
            assert usual / 4 <= math.prod(found.tile) <= 4 * usual
            np.testing.assert_array_equal(found.compute(), make(values))
            found.close()


@pytest.mark.parametrize("memory", ["16MiB", "64MiB"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_files_are_written_in_whole_lines(tmp_path: Path, memory: str, order: str) -> None:
    """They were computed to tiles in scratch, and moved from there, however much memory there was.

    That is less where memory holds no row of stored tiles.
    """
    values = np.random.default_rng(1).random((2000, 2000))
    A = oc.asarray(values).save(tmp_path / "A.zarr", tile=(250, 250))
    with oc.config(memory=memory):
        B = (A * 2).save(tmp_path / "B.npy", order=order)
        run = oc.last_run()
        assert run is not None
        assert run.bytes_read <= 1.05 * values.nbytes
        assert run.bytes_written <= 1.05 * values.nbytes
    np.testing.assert_array_equal(B.compute(), values * 2)


@pytest.mark.parametrize(
    ("tile", "memory", "most"),
    [
        ((10, 2000), "3MiB", 2.3),
        ((64, 1000), "4MiB", 2.3),
        ((350, 450), "8MiB", 2.3),
        ((457, 283), "8MiB", 3.2),
        ((250, 250), "4MiB", 1.1),
    ],
    ids=str,
)
def test_a_matrix_and_its_transpose(
    tmp_path: Path, tile: tuple[int, int], memory: str, most: float
) -> None:
    """Tiles that lie across each other were read again for every cell: strips up to 827 times."""
    values = np.random.default_rng(2).random((2000, 2000))
    A = oc.asarray(values).save(tmp_path / "A.zarr", tile=tile)
    with oc.config(memory=memory):
        once = oc.plan(A.sum()).bytes_read
        plan = oc.plan(A + A.T, tmp_path / "out.zarr")
        assert plan.bytes_read <= most * once
        found = (A + A.T).save(tmp_path / "out.zarr")
        run = oc.last_run()
        assert run is not None
        assert (run.bytes_read, run.bytes_written) == (plan.bytes_read, plan.bytes_written)
    np.testing.assert_array_equal(found.compute(), values + values.T)


@pytest.mark.parametrize(
    ("shape", "tile", "is_kept"),
    [
        ((268_433, 998), (1000, 998), True),
        ((8192, 8192), (1024, 1024), True),
        ((8192, 8192), (1024, 8192), False),
        ((8192, 8192), (8192, 64), False),
        ((0, 5), (1, 5), True),
        ((1, 1), (1, 1), True),
    ],
)
def test_squares_are_stored_as_they_are_computed(
    shape: tuple[int, ...], tile: tuple[int, ...], is_kept: bool
) -> None:
    """Copying parts of them to more files took a third of the time."""
    node = node_of(oc.zeros(shape) + oc.ones(()))
    with oc.config(memory="1GiB"):
        assert (stored_tile(node, tile) == tile) is is_kept
