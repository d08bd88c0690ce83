"""Random arrays: what is made, and how often."""

import math
from pathlib import Path
from typing import Any

import pytest

import outcrop as oc
from outcrop.arrays.views import View
from outcrop.random import RandomSource


@pytest.mark.parametrize("dtype", ["int8", "float64"])
@pytest.mark.parametrize("shape", [(3000, 4000), (70, 50, 3000), (500_000,), (9000, 64)], ids=str)
def test_blocks_of_numbers_are_made_once(
    shape: tuple[int, ...], dtype: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Strips of a few rows had each block made again for every one of them."""
    made, read = [], RandomSource.read

    def counting(self: RandomSource, view: View) -> Any:
        spans = [
            range(s // b, -(-(s + n) // b)) for s, n, b in zip(*view.box, self._block, strict=True)
        ]
        made.append(math.prod(map(len, spans)) * math.prod(self._block))
        return read(self, view)

    monkeypatch.setattr(RandomSource, "read", counting)
    with oc.config(memory="64MiB"):
        x = oc.random.default_rng(1).integers(0, 100, shape)
        x.astype(dtype).save(tmp_path / "a.zarr").close()
    assert sum(made) <= 1.5 * math.prod(shape)


@pytest.mark.parametrize("seed", ["a", -1, 0.5], ids=str)
def test_what_is_no_seed(seed: Any) -> None:
    with pytest.raises(oc.InvalidArgumentError, match="a seed of"):
        oc.random.default_rng(seed)


@pytest.mark.parametrize("memory", ["4MiB", "16MiB", "64MiB"])
@pytest.mark.parametrize("shape", [(300, 20_000), (2000, 3000)], ids=str)
def test_tiles_are_those_of_what_is_stored(
    shape: tuple[int, int], memory: str, tmp_path: Path
) -> None:
    """They were strips of a few whole rows, and whatever takes columns of them read all."""
    with oc.config(memory=memory):
        made = oc.random.default_rng(2).integers(0, 3, shape).astype("int8")
        tile = made.save(tmp_path / "a.zarr").tile
    assert max(tile) <= 32 * min(tile)
    with oc.config(memory="1GiB"):
        again = oc.random.default_rng(2).integers(0, 3, shape).astype("int8").compute()
        assert (oc.open(tmp_path / "a.zarr").compute() == again).all()
