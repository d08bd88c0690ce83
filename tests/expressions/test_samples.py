"""Views with steps: what they leave out is not read, and saving them is planned like all else."""

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import outcrop as oc

LAYOUTS: dict[str, dict[str, Any]] = {
    "zarr": {},
    "strips": {"tile": (50, 1500)},
    "odd": {"tile": (300, 170)},
    "zstd": {"tile": (250, 500), "codecs": "zstd:1"},
    "npy": {"format": "npy"},
    "fortran": {"format": "npy", "order": "F"},
    "hdf5": {"format": "hdf5"},
    "hdf5 chunks": {"format": "hdf5", "tile": (128, 200)},
}
SHAPE = (4000, 1500)


@pytest.fixture(scope="module")
def values() -> Any:
    return np.random.default_rng(3).random(SHAPE)


def _saved(values: Any, directory: Path, layout: str) -> oc.Array:
    ending = {"hdf5": "h5/x", "hdf5 chunks": "h5/x", "npy": "npy", "fortran": "npy"}
    return oc.asarray(values).save(directory / f"a.{ending.get(layout, 'zarr')}", **LAYOUTS[layout])


def _checked(x: oc.Array, expected: Any, target: Path) -> Any:
    """The plan for saving; what is saved is right, and moves what was planned."""
    plan = oc.plan(x, target)
    result = x.save(target, overwrite=True)
    run = oc.last_run()
    assert run is not None
    assert (plan.bytes_read, plan.bytes_written) == (run.bytes_read, run.bytes_written)
    assert plan.peak_bytes <= oc.config().memory
    with oc.config(memory="128MiB"):
        np.testing.assert_allclose(result.compute(), expected, rtol=1e-12)
    return plan


VIEWS: dict[str, Callable[[Any], Any]] = {
    "rows": lambda a: a[::100],
    "columns": lambda a: a[:, 3::300],
    "both": lambda a: a[7::100, ::100],
    "thirds": lambda a: a[::3],
    "backwards": lambda a: a[::-7, ::2],
    "transposed": lambda a: a.T[::2, 1:],
    "one row": lambda a: a[5],
    "a new axis": lambda a: a[None, 100:3900, 3:],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("target", ["o.zarr", "o.npy"])
def test_saving_is_planned(values: Any, tmp_path: Path, layout: str, target: str) -> None:
    with oc.config(memory="128MiB"):
        a = _saved(values, tmp_path, layout)
    with oc.config(memory="8MiB"):
        for view in VIEWS.values():
            _checked(view(a), view(values), tmp_path / target)


@pytest.mark.parametrize(
    ("layout", "view", "most"),
    [
        # Rows of 12 kB, each of which begins and ends inside a block.
        ("npy", lambda a: a[::1000] + 1, 4 * 16384),
        ("npy", lambda a: a[::10].sum(), 400 * 16384),
        ("npy", lambda a: a[::-10].mean(axis=0), 400 * 16384),
        ("fortran", lambda a: a[:, ::100] * 2, 15 * 36864),
        ("hdf5", lambda a: a[::1000] + 1, 4 * 20480),
        # 4 of 80 strips; 8 that two views have in common, of which three are loaded together.
        ("strips", lambda a: a[::1000] + 1, 4 * 610_000),
        ("strips", lambda a: a[::500] - a[1::500], 24 * 610_000),
        ("odd", lambda a: a[::1000].T @ a[::1000], 4 * 9 * 420_000),
    ],
    ids=lambda x: x if isinstance(x, str) else None,
)
@pytest.mark.parametrize("memory", ["4MiB", "32MiB"])
def test_what_lies_between_is_not_read(
    values: Any, tmp_path: Path, layout: str, view: Any, most: int, memory: str
) -> None:
    with oc.config(memory="128MiB"):
        a = _saved(values, tmp_path, layout)
    with oc.config(memory=memory):
        plan = _checked(view(a), view(values), tmp_path / "o.zarr")
        assert plan.bytes_read <= most
        assert plan.waste <= 1.3


@pytest.mark.parametrize("layout", ["zarr", "odd", "zstd"])
@pytest.mark.parametrize("memory", ["16MiB", "40MiB"])
def test_each_tile_is_read_once_for_steps_that_do_not_fit(
    values: Any, tmp_path: Path, layout: str, memory: str
) -> None:
    with oc.config(memory="128MiB"):
        a = _saved(values, tmp_path, layout)
    with oc.config(memory=memory):
        for view in (
            lambda x: x[::3] + 1,
            lambda x: x[::7, 5::7] + 1,
            lambda x: x[:, ::10].sum(axis=0),
            lambda x: x[::100, ::100] + 1,
        ):
            plan = _checked(view(a), view(values), tmp_path / "o.zarr")
            assert plan.bytes_read <= 1.3 * a.nbytes


def test_few_elements_need_little_memory(values: Any, tmp_path: Path) -> None:
    """They were taken in one step, for which everything between them was loaded."""
    for layout in ("zarr", "npy", "odd"):
        with oc.config(memory="128MiB"):
            a = _saved(values, tmp_path, layout)
        with oc.config(memory="4MiB"):
            _checked(a[::100, ::100] + 1, values[::100, ::100] + 1, tmp_path / "o.npy")
        a.close()
        next(tmp_path.glob("a.*")).rename(tmp_path / layout)


def test_an_array_and_samples_of_it(values: Any, tmp_path: Path) -> None:
    """Those of a pass of their own are read by themselves; those beside the rest with it."""
    with oc.config(memory="128MiB"):
        a = _saved(values, tmp_path, "npy")
    with oc.config(memory="8MiB"):
        target = tmp_path / "o.zarr"
        centred = _checked(a - a[::100].mean(0), values - values[::100].mean(0), target)
        assert centred.bytes_read <= 1.1 * a.nbytes
        halves = _checked(a[::2] - a[1::2], values[::2] - values[1::2], target)
        assert halves.bytes_read <= 1.1 * a.nbytes


def test_an_array_that_changes_is_noticed(values: Any, tmp_path: Path) -> None:
    with oc.config(memory="8MiB"):
        a = oc.asarray(values).save(tmp_path / "a.npy")
        a.close()
        with oc.open(tmp_path / "a.npy", "r+") as a:
            x = a[::1000] + 1
            a[0] = 5.0
            with pytest.raises(oc.StaleOperandError):
                x.compute()


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_steps(data: Any, tmp_path: Path) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 120), min_size=1, max_size=3)))
    layout = data.draw(st.sampled_from(["zarr", "npy", "fortran", "zstd"]))
    how = dict(LAYOUTS[layout])
    if layout in ("zarr", "zstd"):
        how["tile"] = tuple(data.draw(st.integers(1, n)) for n in shape)
        if math.prod(-(-n // t) for n, t in zip(shape, how["tile"], strict=True)) > 500:
            return
    values = np.arange(math.prod(shape), dtype="f8").reshape(shape)
    steps = st.integers(-50, 50).filter(bool)
    keys = tuple(
        slice(data.draw(st.one_of(st.none(), st.integers(-n, n))), None, data.draw(steps))
        for n in shape
    )
    number = next(_NUMBERS)
    ending = "npy" if "format" in how else "zarr"
    a = oc.asarray(values).save(tmp_path / f"{number}.{ending}", **how)
    tile = 8 * math.prod(how.get("tile", (1,)))
    with oc.config(memory="1MiB"):
        x, expected = a[keys], values[keys]
        if data.draw(st.booleans()):
            x, expected = x * 2 + 1, expected * 2 + 1
        if 0 in expected.shape:
            np.testing.assert_array_equal(x.compute(), expected)
            return
        target = tmp_path / f"{number}-o.zarr"
        try:
            _checked(x, expected, target)
        except oc.BudgetError as error:
            # Only where tiles are large; and what is named does.
            assert 4 * tile > 1 << 20 and error.needed is not None
            with oc.config(memory=error.needed):
                _checked(x, expected, target)


_NUMBERS = itertools.count()
