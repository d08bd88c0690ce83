"""Blocks of a file that two boxes share."""

from pathlib import Path

import numpy as np
import pytest

import outcrop as oc


@pytest.mark.parametrize("order", ["C", "F"])
def test_boxes_that_share_many_blocks(tmp_path: Path, order: str) -> None:
    """Blocks that two boxes share wait in memory until both have come. Where too many waited, they
    were completed from the file and written, by two threads at once: each read the block without
    what the other had, and the one that wrote last won. Thousands of elements were zero, and no
    error said so."""
    rows = np.arange(3000, dtype=np.int32)[:, None]
    columns = np.arange(2999, dtype=np.int32)
    tile = (540, 180) if order == "C" else (180, 540)
    source = oc.fromfunction(lambda i, j: 7 * i + 13 * j, (3000, 2999), "int32")
    stored = source.save(tmp_path / "a.zarr", tile=tile)
    for _ in range(3):
        with oc.config(memory="8MiB"):
            stored.save(tmp_path / "b.npy", order=order, overwrite=True)
        found = np.load(tmp_path / "b.npy", mmap_mode="r")
        np.testing.assert_array_equal(found, 7 * rows + 13 * columns)
