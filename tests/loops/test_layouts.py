"""Arrays of every layout, in part: what a nest does not touch stays as it was."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outcrop as oc

pytest.importorskip("numba")
pytest.importorskip("islpy")

N = 600


@oc.loops
def added(a, b, n, m):  # type: ignore[no-untyped-def]
    for i in range(10, n - 150):
        for j in range(7, m - 250):
            a[i, j] = a[i, j] + b[j, i]


LAYOUTS: dict[str, dict[str, Any]] = {
    "default": {},
    "small tiles": {"tile": (64, 40)},
    "zstd": {"codecs": "zstd", "tile": (150, 200)},
    "C": {"format": "npy"},
    "F": {"format": "npy", "order": "F"},
}


@pytest.mark.parametrize("view", [np.s_[:, :], np.s_[20:570, 5:580]], ids=["whole", "part"])
@pytest.mark.parametrize("memory", ["3MiB", "32MiB"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_is_not_touched_stays(
    tmp_path: Path, layout: str, memory: str, view: tuple[slice, slice]
) -> None:
    """Tiles without any element that is written came out empty where the result was made anew."""
    chance = np.random.default_rng(1)
    a, b = chance.random((N, N)), chance.random((N, N))
    oc.asarray(a).save(tmp_path / "a", **LAYOUTS[layout])
    oc.asarray(b).save(tmp_path / "b", **LAYOUTS[layout])
    expected = a.copy()
    part = expected[view]
    n, m = part.shape
    part[10 : n - 150, 7 : m - 250] += b[7 : m - 250, 10 : n - 150].T
    with oc.config(memory=memory), oc.open(tmp_path / "a", "r+") as stored:
        plan = added.plan(stored[view], oc.open(tmp_path / "b"), n, m)
        added(stored[view], oc.open(tmp_path / "b"), n, m)
        run = oc.last_run()
    assert run is not None
    if plan.is_exact:
        assert (run.bytes_read, run.bytes_written) == (plan.bytes_read, plan.bytes_written)
    assert run.bytes_read <= plan.bytes_read
    assert run.bytes_written <= plan.bytes_written
    assert run.peak_bytes <= oc.config().memory
    np.testing.assert_array_equal(oc.open(tmp_path / "a").compute(), expected)


def test_files_are_read_about_once(tmp_path: Path) -> None:
    """Tiles of a file were read with all that lies between their rows, each."""
    b = np.random.default_rng(1).random((N, N))
    np.save(tmp_path / "b.npy", b)
    with oc.config(memory="2MiB"), oc.create(tmp_path / "a.zarr", (N, N)) as stored:
        plan = added.plan(stored, oc.open(tmp_path / "b.npy"), N, N)
    assert plan.bytes_read < 3 * b.nbytes
