"""Axes of arrays of any number of dimensions, permuted and reversed, and views of parts."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import outcrop as oc

Values = NDArray[Any]

pytestmark = pytest.mark.filterwarnings("ignore::outcrop.errors.OutcropWarning")

several = settings(
    max_examples=40,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

LAYOUTS: dict[str, dict[str, Any]] = {
    "c.npy": {},
    "f.npy": {"order": "F"},
    "a.zarr": {"tile": (9, 8, 7, 10)},
    "b.zarr": {"tile": (31, 1, 5, 23)},
}


def to(name: str) -> dict[str, Any]:
    options = dict(LAYOUTS[name])
    if "order" in options:
        options["target_order"] = options.pop("order")
    return options


@pytest.mark.parametrize("target", LAYOUTS)
@pytest.mark.parametrize("source", LAYOUTS)
def test_every_order_of_four_axes(desk: Any, source: str, target: str) -> None:
    plain = desk.values((31, 22, 27, 23), "uint16")
    path, out = desk.put(source, plain, **LAYOUTS[source]), desk.path / f"out-{target}"
    sizes = itertools.cycle(["384KiB", "512KiB", "1MiB"])
    orders = list(itertools.permutations(range(4)))
    # Each of them for two of the pairs.
    start = 4 * list(LAYOUTS).index(source) + list(LAYOUTS).index(target)
    for order in orders[start % 8 :: 8]:
        with oc.config(memory=next(sizes)):
            assert plain.nbytes > 1.5 * oc.config().memory or oc.config().memory == 1 << 20
            result = oc.permute_dims(path, order, out, overwrite=True, **to(target))
            run = oc.last_run()
            assert run is not None
            assert run.peak_bytes <= oc.config().memory
        np.testing.assert_array_equal(desk.read(result), plain.transpose(order), str(order))


@pytest.mark.parametrize("source", ["c.npy", "c.zarr"])
@pytest.mark.parametrize("budget", ["512KiB", "2MiB"])
@pytest.mark.parametrize("shape", [(2,) * 18, (7, 1, 6, 5, 8, 9, 13), (3, 4, 5, 3, 4, 5, 6, 7)])
def test_many_axes(desk: Any, shape: tuple[int, ...], budget: str, source: str) -> None:
    # As many groups were tried as there are ways to cut each axis: seconds and hundreds of MiB.
    # Then none that fits, but those of one element: 2,000 times as much was read as there is.
    plain = desk.values(shape, "uint16")
    whole = next(k for k in range(len(shape)) if np.prod(shape[k:]) <= 1000)
    tile = tuple(min(n, k, 2) for k, n in enumerate(shape[:whole], 1)) + shape[whole:]
    path = desk.put(source, plain, **({} if source == "c.npy" else {"tile": tile}))
    chance = np.random.default_rng(1)
    for order in (range(len(shape))[::-1], chance.permutation(len(shape)).tolist()):
        with oc.config(memory=budget):
            try:
                plan = oc.plan(oc.permute_dims(path, order), desk.path / "out.npy")
            except oc.BudgetError as error:
                # A row of the result crosses every tile: many blocks of it wait to be whole.
                assert source == "c.zarr" and error.needed < 1 << 20
                continue
            result = oc.permute_dims(path, order, desk.path / "out.npy", overwrite=True)
            run = oc.last_run()
        assert run is not None
        assert (run.bytes_read, run.bytes_written) == (plan.bytes_read, plan.bytes_written)
        assert plan.bytes_read < 5 * plain.nbytes
        np.testing.assert_array_equal(desk.read(result), plain.transpose(order))


def test_every_order_in_the_least_memory(desk: Any) -> None:
    plain = desk.values((9, 13, 31, 37), "float32")
    path, out = desk.put("a.npy", plain), desk.path / "out.npy"
    with oc.config(memory="256KiB"):
        assert plain.nbytes > 2 * oc.config().memory
        for order in itertools.permutations(range(4)):
            oc.permute_dims(path, order, out, overwrite=True)
            desk.check_run("copy" if order == (0, 1, 2, 3) else "transpose")
            np.testing.assert_array_equal(np.load(out), plain.transpose(order), str(order))


@pytest.mark.parametrize("source", LAYOUTS)
def test_flips_along_any_axes(desk: Any, source: str) -> None:
    plain = desk.values((17, 22, 27, 23), "float32")
    path, out = desk.put(source, plain, **LAYOUTS[source]), desk.path / "out.npy"
    for count in range(5):
        for axes in list(itertools.combinations(range(4), count))[:2]:
            oc.flip(path, out, axis=[a - 4 * (a % 2) for a in axes], overwrite=True)
            np.testing.assert_array_equal(np.load(out), np.flip(plain, axes), str(axes))
    oc.flip(path, out, overwrite=True)
    np.testing.assert_array_equal(np.load(out), np.flip(plain))


@pytest.mark.parametrize("axes", [(0, 1), (1, 0), (3, 1), (-1, -3), (2, 0)])
def test_rotations_in_any_plane(desk: Any, axes: tuple[int, int]) -> None:
    plain = desk.values((17, 22, 27, 23), "int16")
    path, out = desk.put("a.zarr", plain, tile=(9, 8, 7, 10)), desk.path / "out.zarr"
    for angle in (-450, -90, 0, 90, 180, 270, 360):
        result = oc.rotate(path, out, angle, axes=axes, overwrite=True, tile=7)
        expected = np.rot90(plain, angle // 90, axes)
        np.testing.assert_array_equal(desk.read(result), expected, str(angle))


SHAPES: list[tuple[int, ...]] = [
    (),
    (1,),
    (100_001,),
    (0,),
    (0, 5),
    (5, 0),
    (3, 0, 4),
    (1, 100_001),
    (100_001, 1),
    (1, 1, 1),
    (1, 521, 1, 601),
]


@pytest.mark.parametrize("name", ["a.npy", "f.npy", "a.raw", "a.zarr"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes_of_every_kind(desk: Any, shape: tuple[int, ...], name: str) -> None:
    plain = desk.values(shape, "int32")
    options: dict[str, Any] = {"order": "F"} if name == "f.npy" else {}
    options |= {"tile": tuple(min(max(n, 1), 200) for n in shape)} if name == "a.zarr" else {}
    path = desk.put(name, plain, **options)
    raw: dict[str, Any] = {"shape": shape, "dtype": "i4"} if name == "a.raw" else {}
    for suffix in {"a.npy": [".zarr"], "f.npy": [".npy"], "a.raw": [".raw"]}.get(
        name, [".zarr", ".npy"]
    ):
        if suffix == ".zarr" and name != "a.zarr":
            # The usual tile does not fit the budget.
            kwargs: dict[str, Any] = {"tile": tuple(min(max(n, 1), 199) for n in shape[::-1])}
        else:
            kwargs = {}
        turned = oc.transpose(path, desk.path / f"turned{suffix}", **raw, **kwargs)
        np.testing.assert_array_equal(desk.read(turned), plain.T)
        assert turned.shape == plain.T.shape
        kwargs = {"tile": kwargs["tile"][::-1]} if kwargs else {}
        flipped = oc.flip(path, desk.path / f"flipped{suffix}", **raw, **kwargs)
        np.testing.assert_array_equal(desk.read(flipped), np.flip(plain))
        if suffix == ".npy":
            np.testing.assert_array_equal(np.load(desk.path / "turned.npy"), plain.T)
        by_the_way = oc.flip(path, desk.path / f"via{suffix}", via=desk.fast, **raw, **kwargs)
        np.testing.assert_array_equal(desk.read(by_the_way), np.flip(plain))


@several
@given(data=st.data())
def test_views_of_parts(desk: Any, data: st.DataObject) -> None:
    """Any part, with and without steps, turned in any way."""
    plain = desk.values((37, 61, 47, 5), "uint16")
    source = data.draw(st.sampled_from(["c.npy", "f.npy", "a.zarr"]), label="source")
    path = desk.put(source, plain, **{k: (v if k == "order" else 5) for k, v in to_put(source)})
    array = oc.open(path)
    key = []
    for n in plain.shape:
        kind = data.draw(st.sampled_from(["slice", "slice", "slice", "index", "new"]))
        if kind == "index":
            key.append(data.draw(st.integers(-n, n - 1)))
            continue
        low, high = sorted(data.draw(st.tuples(st.integers(0, n), st.integers(0, n))))
        step = data.draw(st.sampled_from([1, 1, 1, 2, 5]))
        part = slice(low, high, step)
        if data.draw(st.booleans()):
            part = slice(high - 1 if high else 0, low - 1 if low else None, -step)
        key += [None, part] if kind == "new" else [part]
    expected = plain[(*key, ...)]
    view = array[(*key, ...)]
    order = data.draw(st.permutations(range(expected.ndim)), label="order")
    via = data.draw(st.sampled_from([None, desk.fast]), label="via")
    target = data.draw(st.sampled_from(["out.npy", "out.raw", "out.zarr"]), label="target")
    options: dict[str, Any] = {}
    if target == "out.zarr":
        options["tile"] = tuple(min(max(n, 1), 11) for n in expected.transpose(order).shape)
    result = oc.permute_dims(view, order, desk.path / target, via=via, overwrite=True, **options)
    np.testing.assert_array_equal(desk.read(result), expected.transpose(order))


def to_put(name: str) -> list[tuple[str, Any]]:
    return list(LAYOUTS[name].items())


def test_a_box_is_turned(desk: Any) -> None:
    plain = desk.values((700, 900), "float64")
    for name, options in (("a.npy", {}), ("a.zarr", {"tile": (96, 100)})):
        array = oc.open(desk.put(name, plain, **options))
        for view, expected in (
            (array[10:650, ::-1].T, plain[10:650, ::-1].T),
            (array.T[::-1, 3:], plain.T[::-1, 3:]),
            (array[-1:0:-1][:, 7:890].T, plain[-1:0:-1][:, 7:890].T),
        ):
            assert oc.plan(view, desk.path / "out.npy").operation == "transpose"
            result = oc.flip(view, desk.path / "out.npy", axis=0, overwrite=True)
            desk.check_run()
            np.testing.assert_array_equal(np.load(desk.path / "out.npy"), expected[::-1])
            result.close()


# -- lazily ----------------------------------------------------------------------------------------


def test_nothing_moves_without_a_target(desk: Any) -> None:
    plain = desk.values((90, 70), "float64")
    path = desk.put("a.zarr", plain, tile=(32, 20))
    before = sorted(desk.path.rglob("*"))
    run = oc.last_run()
    views = [
        (oc.transpose(path), plain.T),
        (oc.transpose(oc.open(path)), plain.T),
        (oc.permute_dims(path, (1, 0)), plain.T),
        (oc.rotate(path), np.rot90(plain)),
        (oc.rotate(path, angle=180), np.rot90(plain, 2)),
        (oc.flip(path, axis=-1), plain[:, ::-1]),
    ]
    assert oc.last_run() == run
    for view, expected in views:
        np.testing.assert_array_equal(view.compute(), expected)
        np.testing.assert_array_equal(view[3:9, ::5].compute(), expected[3:9, ::5])
        assert view[5, 7].compute() == expected[5, 7]
    assert sorted(desk.path.rglob("*")) == before


def test_of_what_is_not_on_disk(desk: Any) -> None:
    plain = desk.values((6, 5, 4), "int32")
    calls: list[int] = []

    def formula(*index: Values) -> Any:
        calls.append(1)
        return plain[np.ix_(*map(np.ravel, index))]

    for array in (oc.asarray(plain), oc.fromfunction(formula, plain.shape, "int32")):
        moved = oc.permute_dims(array, (2, 0, 1))
        assert not calls
        np.testing.assert_array_equal(
            moved[1:3, ::-1].compute(), np.moveaxis(plain, 2, 0)[1:3, ::-1]
        )
        oc.rotate(array, desk.path / "out.npy", overwrite=True)
        np.testing.assert_array_equal(np.load(desk.path / "out.npy"), np.rot90(plain))
        with pytest.raises(oc.InvalidArgumentError, match="via= is for arrays on disk"):
            oc.transpose(array, desk.path / "other.npy", via=desk.fast)
        calls.clear()


def test_turned_operands(desk: Any) -> None:
    a, b = desk.values((70, 60), "float64"), desk.values((70, 50), "float64")
    left = oc.open(desk.put("a.zarr", a, tile=16))
    right = oc.open(desk.put("b.npy", b))
    np.testing.assert_allclose((oc.transpose(left) @ right).compute(), a.T @ b)
    np.testing.assert_allclose((oc.permute_dims(left, (1, 0)) @ right).compute(), a.T @ b)
    np.testing.assert_allclose(
        (oc.rotate(left) @ oc.flip(right, axis=0)).compute(), np.rot90(a) @ b[::-1]
    )
    # What is not computed yet is turned, too.
    np.testing.assert_allclose(oc.transpose(left.T @ right).compute(), (a.T @ b).T)
    result = oc.rotate(left.T @ right, desk.path / "out.npy", 270)
    np.testing.assert_allclose(desk.read(result), np.rot90(a.T @ b, 3))


def test_complex_conjugates(desk: Any) -> None:
    plain = desk.values((40, 30), "complex128")
    array = oc.open(desk.put("a.npy", plain))
    result = oc.transpose(array.conj(), desk.path / "out.npy")
    np.testing.assert_array_equal(desk.read(result), plain.conj().T)


@pytest.mark.parametrize("order", ["C", "F"])
def test_axes_that_stay_together_are_one(desk: Any, order: str) -> None:
    """Interleaved to planar is a matrix that is transposed, whatever the shape of its planes is."""
    plain = desk.values((60, 70, 80, 3), "uint8")
    path = desk.path / "in.npy"
    np.save(path, np.asarray(plain, order=order))
    array, out = oc.open(path), desk.path / "out.npy"
    with oc.config(memory="512KiB"):
        for axes, backwards in (
            ((3, 0, 1, 2), ()),
            ((2, 3, 0, 1), (0, 1)),
            ((1, 2, 3, 0), (3,)),
            ((0, 1, 2, 3), (0, 1, 2, 3)),
            ((3, 2, 0, 1), (1, 2)),
        ):
            turned = oc.flip(oc.permute_dims(array, axes), axis=backwards)
            plan = oc.plan(turned, out)
            turned.save(out, overwrite=True)
            run = oc.last_run()
            assert run is not None
            assert (run.bytes_read, run.bytes_written) == (plan.bytes_read, plan.bytes_written)
            expected = np.flip(plain.transpose(axes), backwards)
            np.testing.assert_array_equal(np.load(out), expected)
    with oc.config(memory="2MiB"):
        plan = oc.plan(oc.permute_dims(array, (3, 0, 1, 2)), out)
    assert plan.bytes_read <= 1.1 * plain.nbytes * len(plan._facts["passes"])
