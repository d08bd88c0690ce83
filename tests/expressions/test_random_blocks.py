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
