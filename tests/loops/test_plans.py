"""Plans say what depends on what, and orders respect it."""

import importlib
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outcrop as oc
from outcrop.compiled.function import FunctionText

from . import more_nests, nests
from .nests import arguments

pytest.importorskip("numba")
pytest.importorskip("islpy")

from .plain import plain, stored

# `outcrop.loops` is the decorator.
polyhedra_of = importlib.import_module("outcrop.loops.polyhedra")
syntax = importlib.import_module("outcrop.loops.syntax")
nest_of = importlib.import_module("outcrop.loops.nest")
program = importlib.import_module("outcrop.loops.program")
generated = importlib.import_module("outcrop.loops.generated")


def searched(function: Any, given: dict[str, Any], tile: int) -> Any:
    """The best program for arrays cut into such tiles."""
    text = FunctionText(function, "a loop nest is")
    syntax.check_text(text)
    arrays = {p: v for p, v in given.items() if isinstance(v, np.ndarray)}
    numbers = {p: v for p, v in given.items() if p not in arrays}
    shapes = {p: v.shape for p, v in arrays.items()}
    nest = nest_of.read_nest(text, shapes, {p: v.dtype for p, v in arrays.items()}, numbers)
    polyhedra = polyhedra_of.Polyhedra(nest)
    tiles = {p: tuple(min(tile, n) for n in shape) for p, shape in shapes.items()}
    held = {p: oc.asarray(v) for p, v in arrays.items()}
    targets = {p: (tiles[p], "{}") for p in nest.written}
    job = program.Job(nest, held, targets, frozenset(), tiles, numbers, False)
    search = program._Search(polyhedra, job)
    search.run()
    return polyhedra, search


SMALL: dict[str, tuple[Any, dict[str, Any]]] = {
    "gauss_seidel": (
        nests.gauss_seidel,
        {"u": np.zeros((9, 8)), "f": np.zeros((9, 8)), "sweeps": 3},
    ),
    "lu": (nests.lu, {"a": np.zeros((7, 7))}),
    "stepped": (nests.stepped, {"a": np.zeros((20, 4))}),
    "symmetric": (nests.symmetric, {"u": np.zeros(12), "sweeps": 3}),
    "red_black": (nests.red_black, {"u": np.zeros((8, 9))}),
    "backward": (nests.backward, {"up": np.zeros((8, 8)), "x": np.zeros(8)}),
}


@pytest.mark.parametrize("name", list(SMALL))
def test_orders_respect_dependences_one_by_one(name: str) -> None:
    polyhedra, search = searched(*SMALL[name], tile=3)
    isl = polyhedra.isl
    times: dict[tuple[str, tuple[int, ...]], tuple[tuple[int, ...], tuple[int, ...]]] = {}
    order = search.order(search.best)
    for s in polyhedra.nest.statements:
        domain = polyhedra.domains[s.name].to_union_set()
        for k, relation in enumerate((polyhedra.original, order)):
            maps: list[Any] = []
            relation.intersect_domain(domain).foreach_map(maps.append)
            for one in maps:
                for point in generated.enumerated(isl, one.wrap().flatten()):
                    key = (s.name, point[: len(s.loops)])
                    before = times.setdefault(key, ((), ()))
                    rest = point[len(s.loops) :]
                    times[key] = (rest, before[1]) if k == 0 else (before[0], rest)
    touched: dict[Any, list[tuple[tuple[int, ...], tuple[int, ...], bool]]] = {}
    for s in polyhedra.nest.statements:
        for (own, point), (first, then) in times.items():
            if own != s.name:
                continue
            names = dict(zip(s.indices, point, strict=True))
            for access in s.accesses:
                place = tuple(eval(one.python, {}, names) for one in access.subscripts)
                seen = touched.setdefault((access.array, place), [])
                seen.append((first, then, access.is_write))
    for uses in touched.values():
        for one, other in itertools.combinations(uses, 2):
            if (one[2] or other[2]) and one[0] != other[0]:
                assert (one[0] < other[0]) == (one[1] < other[1])


PROGRAMS, STEPS = 64, 25_000
"""That are planned for a nest of the tables, and steps of all of them: a second or two."""


@pytest.mark.parametrize("name", [*nests.arguments(), *more_nests.arguments()])
def test_few_programs_are_planned(name: str, tmp_path: Path) -> None:
    """Some nests took half a minute. What that comes of is counted, as times differ."""
    function, given, written = {**nests.arguments(), **more_nests.arguments()}[name]
    own = stored(given, written, 31, tmp_path)
    made: list[int] = []
    init = program.Program.__init__

    def counted(self: Any, job: Any, steps: Any, *rest: Any) -> None:
        made.append(len(steps))
        init(self, job, steps, *rest)

    with pytest.MonkeyPatch.context() as patched, oc.config(memory="256KiB"):
        patched.setattr(program.Program, "__init__", counted)
        oc.loops(function).plan(*own.values())
    assert len(made) <= PROGRAMS
    assert sum(made) <= STEPS


def test_a_plan_names_dependences_and_what_forbids_tiling(tmp_path: Path) -> None:
    function, given, written = arguments()["symmetric"]
    own = stored(given, written, 31, tmp_path)
    with oc.config(memory="256KiB"):
        plan = oc.loops(function).plan(*own.values())
    assert ("flow", "u", "S0", "S0") in {
        (d.kind, d.array, d.source, d.sink) for d in plan.dependences
    }
    told = plan.explain()
    assert "are not tiled" in told
    assert "S0 is line" in told


def test_sweeps_over_a_grid_are_chained(tmp_path: Path) -> None:
    function, given, written = arguments()["gauss_seidel"]
    own = stored(given, written, 31, tmp_path)
    with oc.config(memory="256KiB"):
        plan = oc.loops(function).plan(*own.values())
    # Five sweeps, and every array is moved about once.
    assert plan.tiles[0][0] == 5
    assert plan.bytes_read < 1.3 * sum(own[p].nbytes for p in "uf")
    assert plan.bytes_written < 1.3 * own["u"].nbytes


def test_what_is_written_as_a_whole_is_not_read(tmp_path: Path) -> None:
    function, given, written = arguments()["transposition"]
    own = stored(given, written, 31, tmp_path)
    with oc.config(memory="256KiB"):
        plan = oc.loops(function).plan(*own.values())
    # Whole blocks of the disk: a tile of 31 x 31 takes two.
    tiles = 5 * 8
    assert plan.bytes_read == tiles * 8192


def test_what_is_written_as_a_whole_in_larger_tiles_is_not_read(tmp_path: Path) -> None:
    """Of two tiles of one array along a side that has one of the other: to read it is no least."""
    function, _, _ = arguments()["transposition"]
    a = np.random.default_rng(2).standard_normal((64, 4096))
    oc.asarray(a).save(tmp_path / "a", tile=(32, 64))
    oc.zeros((4096, 64)).save(tmp_path / "b", tile=(32, 64))
    with oc.config(memory="1MiB"), oc.open(tmp_path / "b", "r+") as b:
        plan = oc.loops(function).plan(oc.open(tmp_path / "a"), b)
        oc.loops(function)(oc.open(tmp_path / "a"), b)
    # Whole blocks of the disk.
    assert plan.bytes_read == 2 * 64 * (32 * 64 * 8 + 4096)
    np.testing.assert_array_equal(oc.open(tmp_path / "b").compute(), a.T)


def test_what_is_independent_stays_in_memory(tmp_path: Path) -> None:
    """Five statements, each of which needs all of the one before, but of its own column only."""
    function, given, written = arguments()["stepped"]
    a = np.random.default_rng(3).standard_normal((512, 512))
    assert given.keys() == {"a"}
    own = stored({"a": a}, written, 32, tmp_path)
    with oc.config(memory="512KiB"):
        plan = oc.loops(function).plan(own["a"])
        oc.loops(function)(own["a"])
    # Whole blocks of the disk; and what the array says of its tiles.
    assert plan.bytes_read == 256 * (32 * 32 * 8 + 4096)
    assert plan.bytes_written <= plan.bytes_read + (64 << 10)
    function(a)
    np.testing.assert_array_equal(own["a"].compute(), a)


def test_another_program_may_be_the_best_when_more_is_stored(tmp_path: Path) -> None:
    function, given, _ = arguments()["product"]
    n = 256
    shapes = {"a": (n, n), "b": (n, n), "c": (n, n)}
    assert given.keys() == shapes.keys()
    nest = oc.loops(function, order="relaxed")
    with oc.config(memory="512KiB"):
        own = {p: oc.create(tmp_path / p, shape, tile=32) for p, shape in shapes.items()}
        empty = nest.plan(*own.values())
        for array in own.values():
            array[...] = 1.0
        again = nest.plan(*own.values())
        new = oc.loops(function, order="relaxed").plan(*own.values())
        for array in own.values():
            array.close()
    assert empty.bytes_read < n * n * 8
    assert again.bytes_read == new.bytes_read
    assert again.tiles == new.tiles != empty.tiles


def test_sums_may_be_in_another_order_where_that_is_allowed() -> None:
    a = np.arange(60.0).reshape(6, 10)
    strict, relaxed = np.zeros(10), np.zeros(10)

    def columns(a, sums):  # type: ignore[no-untyped-def]
        for j in range(a.shape[1]):
            for i in range(a.shape[0]):
                sums[j] += a[i, j]

    oc.loops(columns)(a, strict)
    nest = oc.loops(order="relaxed")(columns)
    nest(a, relaxed)
    np.testing.assert_allclose(relaxed, strict)
    assert "def kernel" in nest.source(a, relaxed)


@pytest.mark.parametrize("name", ["statistics", "window", "zigzag", "correlation", "syrk"])
def test_sums_in_another_order_begin_after_what_is_before(name: str, tmp_path: Path) -> None:
    """Only the first part of a sum was after its zero."""
    function, given, written = arguments()[name]
    expected = plain(function, given)
    own = stored(given, written, 31, tmp_path)
    with oc.config(memory="256KiB"):
        oc.loops(order="relaxed")(function)(*own.values())
    for p in written:
        np.testing.assert_allclose(own[p].compute(), expected[p], rtol=1e-9, atol=1e-12)


def test_what_takes_isl_too_long_runs_as_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    function, given, written = arguments()["gauss_seidel"]
    expected = plain(function, given)
    own = stored(given, written, 31, tmp_path)

    def refused(self: Any, *, relaxed: bool) -> Any:
        raise polyhedra_of.TooHardError

    monkeypatch.setattr(polyhedra_of.Polyhedra, "relation", refused)
    nest = oc.loops(function)
    with oc.config(memory="512KiB"):
        assert "as written" in nest.plan(*own.values()).explain()
        nest(*own.values())
    np.testing.assert_array_equal(own["u"].compute(), expected["u"])


@pytest.mark.parametrize("operations", [300, 3_000, 30_000, 300_000])
def test_wherever_isl_stops_nothing_is_wrong(
    operations: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    function, given, written = arguments()["lu"]
    expected = plain(function, given)
    own = stored(given, written, 31, tmp_path)
    limits = (operations,)
    monkeypatch.setattr(polyhedra_of.limited.__wrapped__, "__defaults__", limits)
    try:
        with oc.config(memory="512KiB"):
            oc.loops(function)(*own.values())
    except oc.UnsupportedError as error:
        assert "too long" in str(error)
        expected = given
    np.testing.assert_array_equal(own["a"].compute(), expected["a"])


@pytest.mark.parametrize("format", ["npy", "zarr", "memory"])
def test_targets_of_any_kind_change_at_the_end(format: str, tmp_path: Path) -> None:
    function, given, _ = arguments()["matrix_vector"]
    expected = plain(function, given)
    y: Any = given["y"].copy()
    if format == "npy":
        np.save(tmp_path / "y.npy", y)
        y = oc.open(tmp_path / "y.npy", "r+")
    elif format == "zarr":
        y = oc.create(tmp_path / "y.zarr", (160,), "f8", tile=50)
        y[...] = 7
        # A part that begins inside of a tile.
        y = y[10:]
        y[...] = given["y"]
    oc.loops(function)(given["a"], given["x"], y)
    found = y if isinstance(y, np.ndarray) else y.compute()
    np.testing.assert_array_equal(found, expected["y"])


def test_what_is_computed_aside_need_not_fit_in_memory(tmp_path: Path) -> None:
    a = np.arange(300 * 500.0).reshape(300, 500)
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", np.zeros((500, 300)))
    with oc.open(tmp_path / "a.npy") as source, oc.open(tmp_path / "b.npy", "r+") as target:
        nest = oc.loops(nests.transposition)
        with oc.config(memory="512KiB"):
            plan = nest.plan(source, target)
            nest(source, target)
        assert not plan.is_exact
    np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), a.T)


def test_new_arrays_become_visible_when_they_are_closed(tmp_path: Path) -> None:
    function, given, _ = arguments()["product"]
    a, b = given["a"], given["b"]
    c = oc.create(tmp_path / "c.zarr", (110, 130), "f8", tile=40)
    c[5:, :] = 3
    expected = np.zeros((110, 130))
    expected[5:] = 3
    expected = plain(function, {"a": a, "b": b, "c": expected})["c"]
    oc.loops(function)(a, b, c)
    assert not (tmp_path / "c.zarr").exists()
    np.testing.assert_array_equal(c.compute(), expected)
    c.close()
    with oc.open(tmp_path / "c.zarr") as array:
        np.testing.assert_array_equal(array.compute(), expected)


def test_operands_may_be_computed_and_views(tmp_path: Path) -> None:
    function, given, _ = arguments()["matrix_vector"]
    a = oc.asarray(given["a"])
    turned = {
        "a": np.ascontiguousarray(2 * given["a"].T),
        "x": given["a"][:, 3],
        "y": np.zeros(230),
    }
    expected = plain(function, turned)
    y = np.zeros(230)
    oc.loops(function)((a * 2).T, a[:, 3], y)
    np.testing.assert_array_equal(y, expected["y"])


def test_a_nest_without_points_does_nothing() -> None:
    nest = oc.loops(nests.product)
    empty = np.zeros((0, 0))
    nest(empty, empty, empty)
    with pytest.raises(oc.UnsupportedError, match="nothing to compute"):
        nest.plan(empty, empty, empty)


def test_a_nest_that_is_called_again_is_planned_once(tmp_path: Path) -> None:
    function, given, written = arguments()["product"]
    nest = oc.loops(function)
    a, b, c = (given[p] for p in "abc")
    first, second = np.zeros_like(c), np.zeros_like(c)
    nest(a, b, first)
    nest(2 * a, b, second)
    np.testing.assert_array_equal(second, 2 * first)
    assert written == ("c",)
