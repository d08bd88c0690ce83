"""Sweeps over tiles with frontiers: of a tile beside, no more is read than what is needed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outcrop as oc
from outcrop.sweeps.source import SweptPlan, SweptSource, _Program

from .plain import plain

pytest.importorskip("numba")

CHANCE = np.random.default_rng(38)


@oc.sweep
def relax(u, f):  # type: ignore[no-untyped-def]
    u[0, 0] = 0.25 * (u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1] - f[0, 0])


@oc.sweep(inplace=False)
def wide(u, f):  # type: ignore[no-untyped-def]
    u[0, 0] = 0.2 * (u[-2, 0] + u[1, 0] + u[-1, -1] + u[0, 2] - f[-1, 1])


@oc.sweep(inplace=False, boundary="periodic")
def around(u, f):  # type: ignore[no-untyped-def]
    u[0, 0] = u[-1, 0] + u[1, 1] - u[0, -2] + f[2, 0]


@oc.sweep(directions=(-1, -1))
def backwards(u, f):  # type: ignore[no-untyped-def]
    u[0, 0] = 0.25 * (u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1] - f[1, 0] + f[-1, -1])


@oc.sweep(inplace=False, boundary="nearest")
def blurred(u, f):  # type: ignore[no-untyped-def]
    u[0, 0] = 0.2 * (u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1] + f[-2, 0])


@oc.sweep(inplace=False)
def solid(u, f):  # type: ignore[no-untyped-def]
    u[0, 0, 0] = u[-1, 0, 0] + u[1, 0, 1] - u[0, -1, 0] + f[0, 0, -1] * u[0, 1, 0]


def stored(place: Path, shape: tuple[int, ...], tile: Any, **options: Any) -> list[oc.Array]:
    return [
        oc.asarray(CHANCE.random(shape)).save(place / f"{name}.zarr", tile=tile, **options)
        for name in "uf"
    ]


def plans(result: oc.Array) -> list[SweptPlan]:
    """Every way in which it may be computed: with the tiles beside, and with their frontiers."""
    source = result._source
    assert isinstance(source, SweptSource)
    job = source._resolved()
    (tile,) = source._tiles(job, [(None, "{}")])
    target = {job.result: (tile, "{}")}
    ways = SweptSource._ways(job, tile)
    return [SweptPlan(_Program(job, order, tile, target, beside)) for order, beside in ways]


@pytest.mark.parametrize("sweep", [relax, wide, around, backwards, blurred, solid])
@pytest.mark.parametrize("sweeps", [1, 3])
def test_results_are_those_of_the_plain_loop(tmp_path: Path, sweep: Any, sweeps: int) -> None:
    """In whatever order, with whichever frontiers."""
    shape, tile = ((37, 46), (8, 10)) if sweep is not solid else ((13, 14, 11), (4, 5, 6))
    given = stored(tmp_path, shape, tile, layout="frontier", thickness=2)
    expected = plain(sweep, *(x.compute() for x in given), sweeps=sweeps)[0]
    result = sweep(*given, sweeps=sweeps)
    found = plans(result)
    with_frontiers = [plan for plan in found if plan._frontiers]
    assert with_frontiers and len(with_frontiers) < len(found)
    for number, plan in enumerate(found):
        made = oc.create(tmp_path / f"{number}.zarr", shape, tile=tile)
        plan.run(made._source.store, None, None)  # type: ignore[attr-defined]
        run, facts = oc.last_run(), plan.facts
        assert run is not None
        assert (run.bytes_read, run.bytes_written) == (facts["bytes_read"], facts["bytes_written"])
        np.testing.assert_array_equal(oc.open(tmp_path / f"{number}.zarr").compute(), expected)


def test_they_are_read_where_memory_has_no_room_for_tiles(tmp_path: Path) -> None:
    """Jacobi needs of the tiles beside a frontier each: what is given is read once, about."""
    shape, tile, memory = (1024, 1024), 256, "4MiB"
    read = {}
    for layout, options in (("tiled", {}), ("frontier", {"layout": "frontier"})):
        place = tmp_path / layout
        place.mkdir()
        u, f = stored(place, shape, tile, **options)
        with oc.config(memory=memory, threads=1):
            result = oc.sweeps.jacobi(u, f)
            plan = oc.plan(result)
            result.save(place / "v.zarr")
        run = oc.last_run()
        assert run is not None
        assert (run.bytes_read, run.bytes_written) == (plan.bytes_read, plan.bytes_written)
        read[layout] = run.bytes_read / (u.nbytes + f.nbytes)
        np.testing.assert_array_equal(
            oc.open(place / "v.zarr").compute(),
            oc.sweeps.jacobi(u.compute(), f.compute()).compute(),
        )
        assert ("frontiers" in plan.explain()) == (layout == "frontier")
    assert read["tiled"] > 1.3
    assert read["frontier"] < 1.1


def test_thicker_reach_than_frontiers(tmp_path: Path) -> None:
    u, f = stored(tmp_path, (40, 40), 8, layout="frontier", thickness=1)
    result = wide(u, f)
    expected = plain(wide, u.compute(), f.compute(), sweeps=1)[0]
    np.testing.assert_array_equal(result.compute(), expected)
    for plan in plans(result):
        names = [array["name"] for array in plan.facts["arrays"]]
        assert not any(name.startswith("u, ") for name in names)
