"""A factor that a half is updated by is read once where memory holds the half, and not twice."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outcrop as oc


def stored(path: Path, rows: int, columns: int) -> Any:
    values = np.random.default_rng(0).random((rows, columns))
    oc.asarray(values).save(path, tile=64).close()
    return oc.open(path, "r+")


@pytest.mark.parametrize("trans", ["N", "T"])
def test_a_factor_is_read_once_where_memory_holds_the_half(tmp_path: Path, trans: str) -> None:
    shape = (384, 1536) if trans == "N" else (1536, 384)
    a, c = stored(tmp_path / "a.zarr", *shape), stored(tmp_path / "c.zarr", 384, 384)
    with oc.config(memory=2 << 20, threads=1, scratch=tmp_path):
        oc.blas.syrk(1.0, a, beta=1.0, C=c, trans=trans)
        run = oc.last_run()
    assert run is not None
    # A tile of 32 KiB has its checksum in a block of its own; of C there are 21 of 36 tiles.
    tile = 36 << 10
    assert run.bytes_read == (6 * 24 + 21) * tile
    assert run.bytes_written <= 21 * tile + (16 << 10)


def test_of_a_symmetric_matrix_one_half_is_read(tmp_path: Path) -> None:
    a, b = stored(tmp_path / "a.zarr", 384, 384), stored(tmp_path / "b.zarr", 384, 64)
    c = stored(tmp_path / "c.zarr", 384, 64)
    with oc.config(memory=8 << 20, threads=1, scratch=tmp_path):
        oc.blas.symm(1.0, a, b, C=c, uplo="U")
        run = oc.last_run()
        assert run is not None
        assert run.bytes_read == (21 + 6) * (36 << 10)
        oc.blas.trsm(1.0, a, c)
        run = oc.last_run()
    assert run is not None
    assert run.bytes_read <= (21 + 6) * (36 << 10)
