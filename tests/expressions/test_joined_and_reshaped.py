"""Many small arrays as one, and elements in another shape: what is read, and NumPy's values."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import outcrop as oc

few = settings(
    max_examples=25,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

Make = Callable[[Any], Any]


def moved(array: oc.Array, nbytes: int) -> tuple[float, float]:
    """What a plan reads and writes, over the size of what there is; without its result."""
    plan = oc.plan(array)
    return plan.bytes_read / nbytes, (plan.bytes_written - array.nbytes) / nbytes


# -- many small arrays -----------------------------------------------------------------------------

COUNT = 150


@pytest.fixture(scope="module", params=["npy", "zarr"])
def images(request: Any, tmp_path_factory: Any) -> tuple[list[oc.Array], Any]:
    """Images of whole blocks of the disk, 2.3 MiB together."""
    place: Path = tmp_path_factory.mktemp("images")
    values = np.random.default_rng(0).random((COUNT, 64, 62)).astype(np.float32)
    paths = [place / f"{i}.{request.param}" for i in range(COUNT)]
    stored = [oc.asarray(v).save(path) for v, path in zip(values, paths, strict=True)]
    return stored, values


STACKED: list[tuple[str, Make, Make, float]] = [
    ("mean of images", lambda x: oc.stack(x).mean(axis=0), lambda v: v.mean(axis=0), 1.1),
    ("mean of each", lambda x: oc.stack(x).mean(axis=(1, 2)), lambda v: v.mean(axis=(1, 2)), 1.1),
    ("largest", lambda x: oc.stack(x, axis=-1).max(axis=-1), lambda v: v.max(axis=0), 1.1),
    ("spread", lambda x: oc.stack(x, axis=1).var(axis=1), lambda v: v.var(axis=0), 1.1),
    ("stacked", oc.stack, lambda v: v, 1.3),
    ("side by side", lambda x: oc.concat(x, axis=1), lambda v: np.concatenate([*v], 1), 1.3),
    ("folded", lambda x: oc.concat(x).reshape(COUNT, -1).sum(1), lambda v: v.sum((1, 2)), 1.1),
    (
        "of parts",
        lambda x: oc.concat(x[::3])[5:-5].sum(0),
        lambda v: v[::3].reshape(-1, 62)[5:-5].sum(0),
        0.4,
    ),
]


@pytest.mark.parametrize(("name", "make", "expected", "most"), STACKED, ids=[s[0] for s in STACKED])
def test_each_of_many_is_read_once(
    desk: Any, images: Any, name: str, make: Make, expected: Make, most: float
) -> None:
    """A tile has a few of them, whole; it had a part of all, each of read up to 44 times."""
    stored, values = images
    # Files begin with their metadata, in the block where the elements begin.
    each = oc.plan(stored[0] + 1).bytes_read * COUNT
    assert moved(make(stored), each)[0] <= most
    desk.check(make(stored), expected(values), digits=1e6)


JOINED: dict[str, Make] = {
    "mean": lambda x: x.mean(axis=0),
    "all": lambda x: x.sum(),
    "each row": lambda x: x.max(axis=1),
    "spread": lambda x: x.std(axis=0),
    "of each row": lambda x: x.var(axis=1),
    "functions": lambda x: ((2 * x) ** 2 > 1).any(axis=0),
}


@pytest.mark.parametrize("make", JOINED.values(), ids=JOINED)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(
    "options",
    [
        {"tile": (600, 10)},
        {"tile": (10, 600)},
        {"tile": (130, 70)},
        {"format": "npy"},
        {"codecs": "zstd", "tile": (100, 100)},
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_reductions_of_what_is_joined_are_joined(
    desk: Any, options: Any, axis: int, make: Make
) -> None:
    values = np.random.default_rng(1).normal(size=(600, 600))
    with oc.config(memory="64MiB"):
        suffix = ".npy" if "format" in options else ".zarr"
        A = oc.asarray(values).save(desk.path / f"a{suffix}", **options)

    def parts(x: Any) -> list[Any]:
        return [x[1:], x[:0], x[:-1], x[::2]] if axis == 0 else [x[:, 3:], x[:, :9]]

    oc.config(memory="1MiB")
    joined = make(oc.concat(parts(A), axis=axis))
    plan = oc.plan(joined, desk.path / "d.zarr")
    saved = joined.save(desk.path / "d.zarr")
    run = oc.last_run()
    assert run is not None
    assert run.bytes_read == plan.bytes_read or "codecs" in options
    found = saved.compute()
    expected = make(np.concatenate(parts(values), axis=axis))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    assert found.dtype == expected.dtype
    # Put in order, these are up to 22 times as much.
    assert plan.bytes_read <= 2.5 * A.nbytes
    # Where what is joined is a result, it is what is reduced.
    both = oc.concat(parts(A), axis=axis)
    oc.save({desk.path / "b.zarr": both, desk.path / "c.zarr": make(both)})
    with oc.config(memory="64MiB"):
        found, reduced = (oc.open(desk.path / name).compute() for name in ("b.zarr", "c.zarr"))
    np.testing.assert_array_equal(found, np.concatenate(parts(values), axis=axis))
    np.testing.assert_allclose(reduced, expected, rtol=1e-12, atol=1e-12)


@few
@given(data=st.data(), dtype=st.sampled_from(["bool", "int16", "float64", "complex64"]))
def test_joins_of_any_pieces(tiny: Any, data: st.DataObject, dtype: str) -> None:
    """Whatever their extents are, along any axis, of files and of tiles."""
    shape = data.draw(st.tuples(*[st.integers(1, 9)] * 3))
    axis = data.draw(st.integers(0, 2))
    extents = data.draw(st.lists(st.integers(1, 7), min_size=2, max_size=9))
    rng = np.random.default_rng(len(extents))
    pieces = [
        rng.integers(0, 100, (*shape[:axis], n, *shape[axis + 1 :])).astype(dtype) for n in extents
    ]
    layouts = data.draw(st.lists(st.sampled_from(["npy", "zarr", "memory"]), min_size=1))
    stored = [tiny.put(v, layouts[i % len(layouts)]) for i, v in enumerate(pieces)]
    joined, plain = oc.concat(stored, axis=axis), np.concatenate(pieces, axis)
    np.testing.assert_array_equal(joined.compute(), plain)
    np.testing.assert_array_equal(joined.sum(axis=axis).compute(), plain.sum(axis=axis))
    key = tuple(data.draw(st.slices(n)) for n in plain.shape)
    np.testing.assert_array_equal(joined[key].compute(), plain[key])
    for made in ((-1,), (plain.shape[0], -1), (-1, plain.shape[-1]), (sum(extents), -1)):
        if plain.size % abs(math.prod(made)) == 0:
            np.testing.assert_array_equal(joined.reshape(made).compute(), plain.reshape(made))


# -- another shape ---------------------------------------------------------------------------------

SIDE = 600


@pytest.fixture(scope="module")
def squares(tmp_path_factory: Any) -> dict[int, tuple[oc.Array, Any]]:
    """A square matrix of 2.75 MiB in tiles of all its rows and so many columns."""
    place: Path = tmp_path_factory.mktemp("squares")
    values = np.random.default_rng(0).random((SIDE, SIDE))
    with oc.config(memory="64MiB"):
        return {
            width: (oc.asarray(values).save(place / f"{width}.zarr", tile=(SIDE, width)), values)
            for width in (4, 7, 64)
        }


@st.composite
def foldings(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two shapes of as many elements, many of whose axes are axes of both."""
    factors = draw(st.lists(st.sampled_from([1, 2, 3, 4, 5, 6]), min_size=2, max_size=5))
    made = []
    for _ in range(2):
        shape = [1]
        for n in factors:
            shape = [*shape[:-1], shape[-1] * n] if draw(st.booleans()) else [*shape, n]
        made.append(tuple(shape))
    return made[0], made[1]


# What is made, with NumPy or of an array, and what is read and written at most beside the result.
FLATTENED: list[tuple[str, Make, float, float]] = [
    ("flattened", lambda x: x.reshape(-1), 2.2, 1.2),
    ("running sums", lambda x: np.cumsum(x.reshape(-1)), 2.2, 1.2),
    ("folded", lambda x: x.reshape(SIDE * 2, -1), 2.2, 1.2),
    ("of another type", lambda x: x.reshape(-1).astype(np.float32) * 2, 2.2, 1.2),
    ("differences", lambda x: np.diff(x.reshape(-1)), 2.2, 1.2),
    ("a row further", lambda x: x.reshape(-1)[SIDE + 7 :] - x.reshape(-1)[: -SIDE - 7], 2.2, 1.2),
    ("neighbours", lambda x: (x.ravel()[1:-1] * x.ravel()[2:] - x.ravel()[:-2]).sum(), 2.2, 1.2),
    ("each hundredth", lambda x: x.reshape(-1)[::100], 1.2, 0.1),
    ("the last ones", lambda x: x.reshape(-1)[-1:5:-97], 1.2, 0.1),
    ("sum", lambda x: x.reshape(-1).sum(), 1.1, 0.1),
    ("least", lambda x: x.flatten().min(), 1.1, 0.1),
    ("spread", lambda x: np.ravel(x).std(), 1.1, 0.1),
    ("of functions", lambda x: (np.sqrt(x.ravel()) + x.ravel() * 2).mean(), 1.1, 0.1),
    ("product", lambda x: np.vdot(x, x + 1), 1.1, 0.1),
    ("sums of columns", lambda x: x.reshape(20, -1, SIDE).sum(axis=(0, 1)), 1.1, 0.3),
    ("sums of rows", lambda x: x.reshape(SIDE, 20, -1).sum(axis=(1, 2)), 1.1, 0.1),
]


@pytest.mark.parametrize(
    ("name", "make", "read", "written"), FLATTENED, ids=[f[0] for f in FLATTENED]
)
@pytest.mark.parametrize("width", [4, 7, 64])
def test_tiles_against_the_order(
    desk: Any, squares: Any, width: int, name: str, make: Make, read: float, written: float
) -> None:
    """Where the order counts, elements are moved once; where it does not, they stay where they are.

    Tiles that are long along the first axis were taken for slabs, which they are not; each tile of
    the result was then made of all of them, as long as there was memory for the steps.
    """
    array, values = squares[width]
    once = oc.plan(array.sum()).bytes_read
    with oc.config(memory="1MiB"):
        got = moved(make(array), once)
        assert got[0] <= read and got[1] <= written + 65536 / once
        desk.check(make(array), make(values), digits=1e7)


def test_views_of_what_is_folded_are_read_together(desk: Any) -> None:
    """Each is folded by itself, of the same tiles: nothing is put in order first.

    What is folded was written, and read again for the views.
    """
    values = np.random.default_rng(0).random((SIDE, SIDE))
    array = desk.put(values, "zarr", (60, 60))
    once = oc.plan(array.sum()).bytes_read
    with oc.config(memory="1MiB"):
        for make in (
            lambda x: abs(x.reshape(-1)[1:] - x.reshape(-1)[:-1]).max(),
            lambda x: (x.reshape(SIDE * 2, -1)[1:] * x.reshape(SIDE * 2, -1)[:-1]).sum(),
        ):
            got = moved(make(array), once)
            assert got[0] <= 1.3 and got[1] <= 0.1
            desk.check(make(array), make(values), digits=1e7)


@few
@given(data=st.data(), pair=foldings(), dtype=st.sampled_from(["bool", "int16", "float64"]))
def test_any_views_of_what_is_folded(
    tiny: Any, monkeypatch: Any, data: st.DataObject, pair: Any, dtype: str
) -> None:
    """Of all shapes, however much memory there is for it."""
    monkeypatch.setattr("outcrop.expressions.rewrite.reshape_by_slabs._STAYS", 1 << 40)
    source, target = pair
    values = np.random.default_rng(0).integers(0, 50, source).astype(dtype)
    tile = tuple(data.draw(st.integers(1, n)) for n in source)
    array = tiny.put(values, data.draw(st.sampled_from(["npy", "F", "zarr"])), tile)
    turn = tuple(data.draw(st.permutations(range(len(target)))))
    shapes = [x.reshape(target).transpose(turn) for x in (array, values)]
    shifts = [data.draw(st.integers(0, n - 1)) for n in shapes[1].shape]
    ahead = tuple(slice(shift, None) for shift in shifts)
    behind = tuple(slice(0, n - s) for n, s in zip(shapes[1].shape, shifts, strict=True))
    got, expected = (x[ahead] == x[behind] for x in shapes)
    np.testing.assert_array_equal(got.compute(), expected)
    got, expected = (
        (x[ahead] | x[behind] if dtype == "bool" else x[ahead] - x[behind]) for x in shapes
    )
    np.testing.assert_array_equal(got.sum().compute(), expected.sum())


def test_counting_needs_no_order(squares: Any) -> None:
    """What is shown to a function block by block is shown in the shape that it has."""
    array, values = squares[7]
    once = oc.plan(array.sum()).bytes_read
    counted, plain = (array * 50).astype(np.int64), (values * 50).astype(np.int64)
    with oc.config(memory="1MiB"):
        np.testing.assert_array_equal(oc.bincount(counted.ravel()), np.bincount(plain.ravel()))
        run = oc.last_run()
        assert run is not None and run.bytes_read <= 1.1 * once
        for got, expected in zip(
            oc.unique_counts(counted.reshape(-1)), np.unique(plain, return_counts=True), strict=True
        ):
            np.testing.assert_array_equal(got, expected)
        got, _ = oc.histogram(array.ravel(), bins=7, range=(0, 1))
        np.testing.assert_array_equal(got, np.histogram(values, bins=7, range=(0, 1))[0])


MONTHS = (48, 50, 60)


@pytest.mark.parametrize(
    "tile", [(48, 50, 7), (48, 11, 60), (24, 25, 30), (12, 50, 60), (5, 9, 60)]
)
@pytest.mark.parametrize("axis", [0, 1])
def test_by_month(desk: Any, tile: tuple[int, ...], axis: int) -> None:
    """A tile on disk stays in memory while it is taken apart."""
    values = np.random.default_rng(0).random(MONTHS)
    array = desk.put(values, "zarr", tile)
    once = oc.plan(array.sum()).bytes_read
    with oc.config(memory="1MiB"):
        by_month = array.reshape(4, 12, *MONTHS[1:]).mean(axis=axis)
        assert moved(by_month, once)[0] <= 1.35
        desk.check(by_month, values.reshape(4, 12, *MONTHS[1:]).mean(axis=axis), digits=1e4)


@pytest.mark.parametrize("layout", ["npy", "zarr"])
def test_transposed_before_it_is_folded(desk: Any, layout: str) -> None:
    """One array, however it is said."""
    values = np.random.default_rng(0).random((40, 80, 90))
    array = desk.put(values, layout, (40, 30, 25))
    with oc.config(memory="1MiB"):
        one, other = array.transpose(1, 2, 0).reshape(-1, 40), array.reshape(40, -1).T
        assert moved(one, values.nbytes) == moved(other, values.nbytes)
        desk.check(one, values.transpose(1, 2, 0).reshape(-1, 40))
        desk.check(
            array.transpose(2, 0, 1).reshape(90, 20, -1)[3:, ::2],
            values.transpose(2, 0, 1).reshape(90, 20, -1)[3:, ::2],
        )


@settings(few, max_examples=50)
@given(data=st.data(), pair=foldings(), dtype=st.sampled_from(["bool", "int16", "float64"]))
def test_reductions_of_any_shape(tiny: Any, data: st.DataObject, pair: Any, dtype: str) -> None:
    """Over any axes, alone or beside what needs the order."""
    source, target = pair
    values = np.random.default_rng(0).integers(0, 50, source).astype(dtype)
    tile = tuple(data.draw(st.integers(1, n)) for n in source)
    array = tiny.put(values, data.draw(st.sampled_from(["npy", "F", "zarr"])), tile)
    turn = tuple(data.draw(st.permutations(range(len(source)))))
    lazy, plain = array.transpose(turn), values.transpose(turn)
    if data.draw(st.booleans()):
        lazy, plain = lazy.reshape(target), plain.reshape(target)
    else:
        lazy, plain = (lazy + lazy).reshape(target), (plain + plain).reshape(target)
    axes = tuple(sorted(data.draw(st.sets(st.integers(0, len(target) - 1)))))
    chosen = axes or None
    for name in ("sum", "max", "any"):
        np.testing.assert_array_equal(
            getattr(lazy, name)(axis=chosen).compute(), getattr(plain, name)(axis=chosen)
        )
    np.testing.assert_allclose(
        lazy.var(axis=chosen, keepdims=True).compute(),
        plain.var(axis=chosen, keepdims=True),
        atol=1e-9,
    )
    both = (lazy - lazy.min(axis=chosen, keepdims=True)) if dtype != "bool" else lazy
    other = (plain - plain.min(axis=chosen, keepdims=True)) if dtype != "bool" else plain
    np.testing.assert_array_equal(both.compute(), other)
    np.testing.assert_array_equal(
        lazy.argmax(axis=None if chosen is None else axes[0]).compute(),
        plain.argmax(axis=None if chosen is None else axes[0]),
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.reshape(-1).sum(),
        lambda x: np.ravel(x).var(),
        lambda x: x.reshape(20, -1, SIDE).mean(axis=0),
        lambda x: np.cumsum(x.reshape(-1)),
        lambda x: oc.stack([x[:200], x[200:400] * 2, x[400:]]).mean(axis=0),
    ],
)
def test_the_same_bits_for_any_number_of_threads(desk: Any, squares: Any, make: Make) -> None:
    """In whatever shape elements are added up."""
    array, _ = squares[7]
    made = []
    for threads in (1, 2, 3):
        with oc.config(memory="1MiB", threads=threads):
            saved = make(array).save(desk.path / f"{threads}.zarr")
        with oc.config(memory="64MiB"):
            made.append(saved.compute().tobytes())
    assert made[0] == made[1] == made[2]


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(
    "layout", [{}, {"tile": (97, 210)}, {"tile": (20, 700)}, {"format": "npy"}]
)
def test_gradients_of_what_is_stored_are_one_pass(tmp_path: Path, layout: Any, axis: int) -> None:
    """Differences at both ends were put together with the others in a pass of its own."""
    values = np.random.default_rng(4).random((700, 700))
    A = oc.asarray(values).save(
        tmp_path / ("A.npy" if layout.get("format") else "A.zarr"), **layout
    )
    with oc.config(memory="3MiB"):
        plan = oc.plan(oc.gradient(A, axis=axis), tmp_path / "out.zarr")
        stored = oc.plan(A.sum()).bytes_read
        assert plan.bytes_read <= 1.3 * stored
        found = oc.gradient(A, axis=axis).save(tmp_path / "out.zarr")
        run = oc.last_run()
        assert run is not None
        assert (run.bytes_read, run.bytes_written) == (plan.bytes_read, plan.bytes_written)
    # The last tiles reach beyond it.
    tiles = math.prod(-(-n // t) * t for n, t in zip(A.shape, found.tile, strict=True))
    assert run.bytes_written <= 1.2 * tiles * A.dtype.itemsize
    np.testing.assert_array_equal(found.compute(), np.gradient(values, axis=axis))


# -- parts that are computed -----------------------------------------------------------------------

COMPUTED: list[tuple[str, Make, Make]] = [
    (
        "beside each other",
        lambda x: oc.concat([x, x**2], axis=1),
        lambda v: np.concatenate([v, v**2], 1),
    ),
    (
        "one below the other",
        lambda x: oc.concat([x + 1, x**2], axis=0),
        lambda v: np.concatenate([v + 1, v**2]),
    ),
    ("padded", lambda x: oc.pad(x + 1, 3), lambda v: np.pad(v + 1, 3)),
    (
        "edges",
        lambda x: oc.pad(x + 1, ((2, 1), (0, 3)), mode="edge"),
        lambda v: np.pad(v + 1, ((2, 1), (0, 3)), mode="edge"),
    ),
    (
        "rolled",
        lambda x: oc.roll(x + 1, (5, 7), axis=(0, 1)),
        lambda v: np.roll(v + 1, (5, 7), (0, 1)),
    ),
    ("gradient", lambda x: oc.gradient(x * x)[1], lambda v: np.gradient(v * v)[1]),
    (
        "of what is joined",
        lambda x: oc.concat([oc.concat([x, x + 1], axis=1) * 2, oc.concat([x**2, x], axis=1) - 1]),
        lambda v: np.block([[v * 2, v * 2 + 2], [v**2 - 1, v - 1]]),
    ),
    (
        "with sums",
        lambda x: oc.concat([x, x - x.mean(axis=1, keepdims=True)], axis=1),
        lambda v: np.concatenate([v, v - v.mean(1, keepdims=True)], 1),
    ),
]


@pytest.mark.parametrize(
    "layout", [{}, {"format": "npy"}, {"tile": (100, 77)}, {"tile": (60, 1000)}], ids=str
)
@pytest.mark.parametrize(
    ("make", "reference"),
    [case[1:] for case in COMPUTED],
    ids=[case[0] for case in COMPUTED],
)
def test_parts_that_are_computed_are_not_written(
    tmp_path: Path, layout: Any, make: Make, reference: Make
) -> None:
    """Each had a pass of its own, and was written and read back where memory did not hold it."""
    values = np.random.default_rng(5).random((1000, 1000))
    A = oc.asarray(values).save(
        tmp_path / ("A.npy" if layout.get("format") else "A.zarr"), **layout
    )
    with oc.config(memory="6MiB"):
        plan = oc.plan(make(A), tmp_path / "out.zarr")
        # Views of it that lie apart in the result are read one after the other.
        assert plan.bytes_read <= 3.3 * oc.plan(A.sum()).bytes_read
        found = make(A).save(tmp_path / "out.zarr")
        run = oc.last_run()
        assert run is not None
        assert (run.bytes_read, run.bytes_written) == (plan.bytes_read, plan.bytes_written)
    # The last tiles reach beyond it.
    tiles = math.prod(-(-n // t) * t for n, t in zip(found.shape, found.tile, strict=True))
    assert run.bytes_written <= 1.5 * tiles * A.dtype.itemsize
    np.testing.assert_allclose(found.compute(), reference(values), rtol=1e-12, atol=1e-14)


def test_parts_that_are_results_as_well(tmp_path: Path) -> None:
    """A part is stored once, and a sum over it sees all of it, whatever the order."""
    values = np.random.default_rng(6).random((600, 500))
    A = oc.asarray(values).save(tmp_path / "A.zarr")
    squares = A**2
    joined = oc.concat([A, squares, squares - squares.mean(axis=0)], axis=1)
    with oc.config(memory="2MiB"):
        oc.save({tmp_path / "s.zarr": squares, tmp_path / "j.zarr": joined})
    expected = values**2
    np.testing.assert_array_equal(oc.open(tmp_path / "s.zarr").compute(), expected)
    np.testing.assert_allclose(
        oc.open(tmp_path / "j.zarr").compute(),
        np.concatenate([values, expected, expected - expected.mean(0)], 1),
        rtol=1e-12,
        atol=1e-14,
    )


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("layout", [{}, {"format": "npy"}, {"tile": (70, 900)}], ids=str)
def test_means_from_running_sums(tmp_path: Path, layout: Any, axis: int) -> None:
    """The sums were written, and read back for either end of the windows."""
    values = np.random.default_rng(7).random((1000, 900))
    A = oc.asarray(values).save(
        tmp_path / ("A.npy" if layout.get("format") else "A.zarr"), **layout
    )

    def means(sums: Any) -> Any:
        return (sums[50:] - sums[:-50]) / 50 if axis == 0 else (sums[:, 50:] - sums[:, :-50]) / 50

    with oc.config(memory="4MiB"):
        result = means(oc.cumulative_sum(A, axis=axis))
        plan = oc.plan(result, tmp_path / "out.zarr")
        assert plan.bytes_read <= 2.1 * oc.plan(A.sum()).bytes_read
        assert plan.waste >= 1.0
        found = result.save(tmp_path / "out.zarr")
        run = oc.last_run()
        assert run is not None
        assert (run.bytes_read, run.bytes_written) == (plan.bytes_read, plan.bytes_written)
    tiles = math.prod(-(-n // t) * t for n, t in zip(found.shape, found.tile, strict=True))
    assert run.bytes_written <= 1.3 * tiles * A.dtype.itemsize
    np.testing.assert_allclose(found.compute(), means(np.cumsum(values, axis)), atol=1e-10)


@pytest.mark.parametrize("layout", [{}, {"format": "npy"}], ids=str)
def test_columns_of_a_design_matrix_are_made_for_each_pass(tmp_path: Path, layout: Any) -> None:
    """Powers of columns, and the matrix with them, were written, and read back for residuals."""
    values = np.random.default_rng(8).random((60_000, 12))
    y = values @ np.arange(12.0) + 0.1
    A = oc.asarray(values).save(
        tmp_path / ("A.npy" if layout.get("format") else "A.zarr"), **layout
    )
    D = oc.concat([oc.ones((60_000, 1)), A, A**2], axis=1)
    with oc.config(memory="4MiB"):
        weights = oc.linalg.solve(D.T @ D + 1e-3 * np.eye(25), D.T @ y, assume="pos")
        left = y - D @ weights
        plan = oc.plan(left, tmp_path / "r.npy")
        assert plan.bytes_read <= 2.3 * oc.plan(A.sum()).bytes_read
        assert plan.bytes_written <= left.nbytes + 0.1 * A.nbytes
        found = left.save(tmp_path / "r.npy")
        run = oc.last_run()
        assert run is not None
        assert (run.bytes_read, run.bytes_written) == (plan.bytes_read, plan.bytes_written)
    design = np.concatenate([np.ones((60_000, 1)), values, values**2], axis=1)
    solved = np.linalg.solve(design.T @ design + 1e-3 * np.eye(25), design.T @ y)
    np.testing.assert_allclose(found.compute(), y - design @ solved, atol=1e-8)
