"""Sorting along axes of arrays that exceed the budget."""

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import outcrop as oc

FIXTURES = [HealthCheck.function_scoped_fixture]
RNG = np.random.default_rng(12)
DTYPES = ("bool", "int8", "uint16", "int64", "float32", "float64", "complex64")


def values(dtype: str, shape: tuple[int, ...]) -> Any:
    """Many of which are equal, and some NaN."""
    made = RNG.integers(0, 90, shape).astype(dtype)
    if made.dtype.kind in "fc":
        made[made == 89] = np.nan
    return made


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type(desk: Any, dtype: str) -> None:
    plain = values(dtype, (200, 30, 40))
    for layout, axis in (("zarr", 0), ("npy", 1), ("F", 2), ("reversed", 0), ("computed", -1)):
        array = desk.put(plain, layout)
        desk.check(oc.sort(array, axis=axis), np.sort(plain, axis=axis), digits=0)
        expected = np.argsort(plain, axis=axis, kind="stable")
        desk.check(np.argsort(array, axis=axis, kind="stable"), expected, digits=0)
        desk.check(np.partition(array, 5, axis=axis), np.partition(plain, 5, axis=axis), digits=0)


def test_descending(desk: Any) -> None:
    plain = values("float64", (300, 400))
    array = desk.put(plain)
    for axis in (0, 1):
        backwards = np.flip(np.sort(plain, axis=axis), axis)
        desk.check(oc.sort(array, axis=axis, descending=True), backwards, digits=0)
        places = oc.argsort(array, axis=axis, descending=True)
        with oc.config(memory="64MiB"):
            places = places.compute()
        np.testing.assert_array_equal(np.take_along_axis(plain, places, axis), backwards)
        same = np.diff(backwards, axis=axis) == 0
        assert (np.diff(places, axis=axis)[same] > 0).all()


def test_top_k(desk: Any) -> None:
    plain = values("float32", (500, 600))
    array = desk.put(plain)
    for axis in (0, 1):
        found, places = oc.top_k(array, 4, axis=axis)
        largest = np.take(np.flip(np.sort(plain, axis=axis), axis), range(4), axis)
        desk.check(found, largest, digits=0)
        np.testing.assert_array_equal(np.take_along_axis(plain, places.compute(), axis), largest)
        made = oc.save({desk.path / f"v{axis}.npy": found, desk.path / f"i{axis}.npy": places})
        assert [one.shape for one in made.values()] == [largest.shape] * 2
        small, _ = oc.top_k(array, 4, axis=axis, largest=False)
        desk.check(small, np.take(np.sort(plain, axis=axis), range(4), axis), digits=0)
    assert oc.top_k(array, 0).values.shape == (500, 0)
    with pytest.raises(oc.InvalidArgumentError, match="k=601"):
        oc.top_k(array, 601)
    with pytest.raises(oc.InvalidTypeError):
        oc.top_k(array, 1.5)  # type: ignore[arg-type]


def test_each_element_is_read_once(desk: Any) -> None:
    plain = RNG.standard_normal((4096, 512))
    array = desk.put(plain, "npy")
    found = oc.sort(array, axis=1).save(desk.path / "sorted.npy")
    run = oc.last_run()
    assert run is not None
    assert run.bytes_read <= 1.01 * plain.nbytes
    assert run.bytes_written <= 1.01 * plain.nbytes
    assert run.peak_bytes <= oc.config().memory
    with oc.config(memory="64MiB"):
        np.testing.assert_array_equal(found.compute(), np.sort(plain, axis=1))


def test_views_and_chains(desk: Any) -> None:
    plain = RNG.standard_normal((300, 400))
    array = desk.put(plain)
    ordered = np.sort(plain, axis=1)
    desk.check(oc.sort(array, axis=1)[::-7, 3:], ordered[::-7, 3:])
    desk.check(oc.sort(array, axis=1).T[5], ordered.T[5])
    desk.check(oc.take(oc.sort(array, axis=1), [7, 3], axis=0), ordered[[7, 3]])
    desk.check(oc.sort(array, axis=1)[None, 4:9, :, None], ordered[None, 4:9, :, None])
    desk.check(oc.sort(array + 1, axis=1) * array, (np.sort(plain + 1, axis=1)) * plain)
    desk.check(oc.sort(oc.sort(array, axis=1), axis=0), np.sort(ordered, axis=0))
    desk.check(oc.sort(array, axis=1).sum(axis=0), ordered.sum(axis=0))
    desk.check(array.sum(axis=0) + oc.sort(array, axis=0)[0], plain.sum(axis=0) + plain.min(axis=0))
    taken = oc.take_along_axis(array, oc.argsort(array, axis=1), axis=1)
    desk.check(taken, ordered)


@given(
    shape=st.lists(st.integers(1, 9), min_size=1, max_size=3),
    seed=st.integers(0, 99),
    data=st.data(),
)
@settings(max_examples=40, deadline=None, suppress_health_check=FIXTURES)
def test_any_shape(tiny: Any, shape: list[int], seed: int, data: Any) -> None:
    """In tiles of a few elements."""
    plain = np.random.default_rng(seed).integers(0, 5, (*shape, 7)).astype("float32")
    axis = data.draw(st.integers(-plain.ndim, plain.ndim - 1))
    array = oc.asarray(plain)
    tiny.compare(oc.sort(array, axis=axis).compute(), np.sort(plain, axis=axis), digits=0)
    expected = np.argsort(plain, axis=axis, kind="stable")
    tiny.compare(oc.argsort(array, axis=axis).compute(), expected)


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_lines_longer_than_memory(desk: Any, dtype: str) -> None:
    size = 1 << 22
    plain = RNG.integers(0, 10_000, size // np.dtype(dtype).itemsize).astype(dtype)
    if plain.dtype.kind in "fc":
        plain[plain > 9900] = np.nan
    with oc.config(memory="2MiB"):
        array = desk.put(plain, "npy")
        found = oc.sort(array)
        run = oc.last_run()
        assert run is not None
        assert run.bytes_read <= 1.01 * plain.nbytes
        assert run.bytes_written <= 1.03 * plain.nbytes
        assert run.peak_bytes <= oc.config().memory
        desk.check(found, np.sort(plain), digits=0)
        target = desk.path / "ascending.zarr"
        planned = oc.plan({target: found})
        found.save(target)
        run = oc.last_run()
        assert run is not None
        # Pieces of eight kilobytes, in whole blocks, with a few elements too much.
        assert run.bytes_read <= 2.0 * plain.nbytes
        assert run.bytes_written <= 1.05 * plain.nbytes
        assert (run.bytes_read, run.bytes_written) == (planned.bytes_read, planned.bytes_written)
        assert run.peak_bytes <= oc.config().memory
        desk.check(oc.sort(array, descending=True), np.sort(plain)[::-1], digits=0)
        desk.check(np.argsort(array, stable=True), np.argsort(plain, stable=True), digits=0)
        places = oc.argsort(array, descending=True)
        last = len(plain) - 1
        expected = last - np.argsort(plain[::-1], stable=True)[::-1]
        desk.check(places, expected, digits=0)
        best, where = oc.top_k(array, 5)
        np.testing.assert_array_equal(best.compute(), np.sort(plain)[::-1][:5])
        np.testing.assert_array_equal(where.compute(), expected[:5])


@pytest.mark.parametrize("order", ["up", "down", "the same", "few"])
def test_long_lines_in_any_order(desk: Any, order: str) -> None:
    plain = np.arange(400_000)
    plain = {
        "up": plain,
        "down": plain[::-1],
        "the same": plain * 0,
        "few": RNG.integers(0, 3, 400_000),
    }[order]
    array = desk.put(plain)
    desk.check(oc.sort(array), np.sort(plain), digits=0)
    desk.check(np.argsort(array, stable=True), np.argsort(plain, stable=True), digits=0)


@given(
    dtype=st.sampled_from(DTYPES),
    shape=st.sampled_from([(90_001,), (2, 40_000), (60_000, 2), (1, 50_003, 1)]),
    values=st.sampled_from([1, 2, 50, 10_000_000]),
    descending=st.booleans(),
    memory=st.integers(600, 3000),
    seed=st.integers(0, 99),
)
@settings(max_examples=12, deadline=None, suppress_health_check=FIXTURES)
def test_long_lines_of_any_kind(
    desk: Any,
    dtype: str,
    shape: tuple[int, ...],
    values: int,
    descending: bool,
    memory: int,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    plain = rng.integers(0, values, shape).astype(dtype)
    if plain.dtype.kind in "fc":
        plain[rng.random(shape) < 0.01] = np.nan
    axis = int(np.argmax(shape))
    flip = (slice(None),) * axis + (slice(None, None, -1),)
    way = flip if descending else ...
    order = np.argsort(plain[way], axis=axis, kind="stable")[way]
    order = shape[axis] - 1 - order if descending else order
    with oc.config(memory=memory << 10):
        array = oc.asarray(plain)
        found = oc.sort(array, axis=axis, descending=descending)
        places = oc.argsort(array, axis=axis, descending=descending)
        best = oc.top_k(array, 7, axis=axis, largest=descending)
    with oc.config(memory="64MiB"):
        ordered = np.take_along_axis(plain, order, axis)
        np.testing.assert_array_equal(found.compute(), ordered)
        np.testing.assert_array_equal(places.compute(), order)
        first = (slice(None),) * axis + (slice(7),)
        np.testing.assert_array_equal(best.values.compute(), ordered[first])
        np.testing.assert_array_equal(best.indices.compute(), order[first])


def test_half_precision(desk: Any) -> None:
    plain = RNG.standard_normal(200_000).astype("float32")
    array = oc.astype(desk.put(plain), np.float16)
    found, places = oc.sort(array), oc.argsort(array, descending=True)
    with oc.config(memory="64MiB"):
        desk.compare(found.compute(), np.sort(plain.astype(np.float16)), digits=0)
        order = places.compute()
    assert (np.diff(plain.astype(np.float16)[order]) <= 0).all()


def test_a_few_long_lines(desk: Any) -> None:
    plain = values("float64", (3, 2, 50_000))
    array = desk.put(plain)
    desk.check(oc.sort(array), np.sort(plain), digits=0)
    turned = desk.put(plain.T, "npy")
    desk.check(oc.sort(turned, axis=0), np.sort(plain.T, axis=0), digits=0)
    desk.check(np.sort(array, axis=None), np.sort(plain, axis=None), digits=0)
    parted = oc.partition(turned, 70, axis=0)
    desk.check(parted[70], np.sort(plain.T, axis=0)[70], digits=0)


def test_many_lines_that_memory_has_no_room_for(desk: Any) -> None:
    plain = RNG.integers(0, 1000, (70, 40_000))
    array = desk.put(plain, "npy")
    for descending in (False, True):
        expected = np.sort(plain, axis=1)[:, :: -1 if descending else 1]
        desk.check(oc.sort(array, axis=1, descending=descending), expected, digits=0)
    with pytest.raises(oc.BudgetError):
        oc.median(array, axis=1).compute()


def test_runs_that_are_too_many(desk: Any) -> None:
    with oc.config(memory="256KiB"):
        array = oc.random.default_rng(1).standard_normal(1 << 20)
        with pytest.raises(oc.BudgetError, match="runs of each have to be merged") as caught:
            oc.sort(array)
    needed = caught.value.needed
    assert needed is not None
    with oc.config(memory=needed):
        found = oc.sort(array)
        assert found[0].compute() == array.min().compute()


def test_lines_across_a_file(desk: Any) -> None:
    """Of each row of the file, memory holds too little: each was read again for a few columns."""
    plain = RNG.standard_normal((1000, 1500)).astype("float32")
    array = desk.put(plain, "npy")
    with oc.config(memory="2MiB"):
        for found, expected in (
            (oc.sort(array, axis=0), np.sort(plain, axis=0)),
            (oc.median(array, axis=0), np.median(plain, axis=0)),
        ):
            desk.check(found, expected, digits=0)
            run = oc.last_run()
            assert run is not None
            assert run.bytes_read < 5 * plain.nbytes


def test_arguments(desk: Any) -> None:
    plain = values("float64", (30, 40))
    array = desk.put(plain)
    desk.check(np.sort(array, axis=None), np.sort(plain, axis=None), digits=0)
    with pytest.raises(oc.InvalidArgumentError, match="order"):
        np.sort(array, order="x")
    with pytest.raises(oc.InvalidArgumentError, match="kind"):
        np.sort(array, kind="bogo")  # type: ignore[call-overload]
    with pytest.raises(oc.InvalidArgumentError, match="out of bounds"):
        oc.partition(array, 40)
    with pytest.raises(oc.InvalidTypeError):
        oc.partition(array, 1.5)
    with pytest.raises(oc.AxisError):
        oc.sort(array, axis=2)
    assert oc.sort(array[:0]).shape == (0, 40)


@pytest.mark.parametrize("layout", ["zarr", "npy", "F"])
def test_lines_along_one_axis_and_another(desk: Any, layout: str) -> None:
    # Neither fits in memory, nor does a tile that is whole along both.
    plain = RNG.standard_normal((700, 600))
    array = desk.put(plain, layout)
    oc.config(memory="1500KiB")
    for first, then in ((0, 1), (1, 0)):
        one, other = np.sort(plain, axis=first), np.sort(plain, axis=then)
        made = oc.sort(array, axis=first)
        desk.check(oc.sort(made * 2, axis=then), np.sort(one * 2, axis=then), digits=0)
        desk.check(made - oc.sort(array, axis=then), one - other, digits=0)
        desk.check(oc.sort(made.T, axis=first), np.sort(one.T, axis=first), digits=0)
        desk.check(oc.argsort(made, axis=first), np.argsort(one, axis=first), digits=0)


def test_each_of_two_sorts_reads_and_writes_once(desk: Any) -> None:
    plain = RNG.standard_normal((1500, 1000))
    array = desk.put(plain, "zarr", (200, 200))
    with oc.config(memory="2MiB"):
        oc.sort(oc.sort(array, axis=0), axis=1).save(desk.path / "both.zarr")
        run = oc.last_run()
        assert run is not None
        assert run.bytes_read <= 4.2 * plain.nbytes
        oc.argsort(oc.argsort(array, axis=0), axis=0).save(desk.path / "rank.zarr")
        run = oc.last_run()
        assert run is not None
        assert run.bytes_read <= 2.2 * plain.nbytes
