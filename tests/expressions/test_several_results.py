"""Several results of one plan, whose tiles need not suit one another; and several in memory."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import outcrop as oc

RNG = np.random.default_rng(1)
SHAPE = (240, 60, 80)


@pytest.mark.parametrize("budget", ["2MiB", "8MiB"])
@pytest.mark.parametrize("version", [2, 3])
def test_types_whose_default_tiles_differ(tmp_path: Path, version: int, budget: str) -> None:
    """In a group of version 2, tiles are those that programs expect, not those of the plan."""
    values = RNG.random(SHAPE).astype("float32")
    array = oc.asarray(values).save(tmp_path / "a.zarr")
    zarr.open_group(tmp_path / "g", mode="w", zarr_format=version)
    with oc.config(memory=budget, threads=2):
        wanted: dict[Any, oc.Array] = {
            tmp_path / "g/anomaly": array - array.mean(0),
            tmp_path / "g/far": abs(array - 0.5) > 0.25,
            tmp_path / "g/wide": array.astype("complex128") * 1j,
            tmp_path / "g/flat.npy": array.transpose(2, 0, 1) + 1,
        }
        made = oc.save(wanted)
        plan = oc.plan({path.with_suffix(".2" + path.suffix): a for path, a in wanted.items()})
        assert plan.bytes_written > 0
    expected = [
        values - values.mean(0),
        abs(values - 0.5) > 0.25,
        values * 1j,
        values.transpose(2, 0, 1) + 1,
    ]
    for path, theirs in zip(wanted, expected, strict=True):
        np.testing.assert_allclose(made[path].compute(), theirs, atol=1e-5)
    assert not list(tmp_path.rglob("*.outcrop-new"))


def test_in_memory(tmp_path: Path) -> None:
    values = RNG.random((1500, 1000))
    array = oc.asarray(values).save(tmp_path / "a.zarr")
    with oc.config(memory="8MiB"):
        once = oc.plan(array.sum()).bytes_read
        mean, spread, none = oc.compute(array.mean(0), array.std(1), array[:0].sum(0))
        run = oc.last_run()
        assert run is not None
        np.testing.assert_allclose(mean, values.mean(0))
        np.testing.assert_allclose(spread, values.std(1))
        assert none.shape == (1000,)
        same, again = oc.compute(array.max(), array.max())
        assert same == again == values.max()
        same[...] = 0
        assert again == values.max()
        told: list[int] = []
        oc.compute(array.mean(), array.min(), progress=lambda done, total: told.append(done))
        run = oc.last_run()
        assert told
        assert run is not None
        assert run.bytes_read <= 1.05 * once
        with pytest.raises(oc.BudgetError):
            oc.compute(array + 1, array + 2)
    assert oc.compute() == ()
    with pytest.raises(oc.InvalidTypeError):
        oc.compute(array, values)  # type: ignore[arg-type]
