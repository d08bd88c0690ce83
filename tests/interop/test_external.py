"""Arrays of other libraries are read by those, a tile at a time, when they are needed."""

import copy
import gc
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array as da
import h5py
import numpy as np
import pytest
import xarray as xr
import zarr

import outcrop as oc

SHAPE = (600, 500)


class Described:
    """What has a shape, a type and slices, and tells what was asked of it."""

    def __init__(self, elements: np.ndarray) -> None:
        self.elements = elements
        self.shape, self.dtype, self.ndim = elements.shape, elements.dtype, elements.ndim
        self.asked: list[tuple[slice, ...]] = []

    def __getitem__(self, key: Any) -> np.ndarray:
        self.asked.append(key)
        return self.elements[key]


def of_h5py(x: np.ndarray, directory: Path) -> Any:
    file = h5py.File(directory / "x.h5", "w")
    return file.create_dataset("x", data=x, chunks=(50, 125), compression="gzip")


def of_h5py_in_one_piece(x: np.ndarray, directory: Path) -> Any:
    return h5py.File(directory / "y.h5", "w").create_dataset("y", data=x)


def of_zarr(x: np.ndarray, directory: Path) -> Any:
    made = zarr.create_array(directory / "x.zarr", shape=x.shape, chunks=(150, 100), dtype=x.dtype)
    made[...] = x
    return made


def of_zarr_in_shards(x: np.ndarray, directory: Path) -> Any:
    options: dict[str, Any] = {"chunks": (30, 50), "shards": (300, 250)}
    made = zarr.create_array(directory / "shards.zarr", shape=x.shape, dtype=x.dtype, **options)
    made[...] = x
    return made


def of_dask(x: np.ndarray, directory: Path) -> Any:
    return da.from_array(x, chunks=((250, 300, 50), (333, 167)))


def of_xarray(x: np.ndarray, directory: Path) -> Any:
    return xr.DataArray(x, dims=("t", "x"), name="temperature")


def of_xarray_and_dask(x: np.ndarray, directory: Path) -> Any:
    return xr.DataArray(da.from_array(x, chunks=(100, 500)), dims=("t", "x"))


def of_something(x: np.ndarray, directory: Path) -> Any:
    return Described(x)


MAKERS: list[tuple[Callable[[np.ndarray, Path], Any], tuple[int, ...] | None]] = [
    (of_h5py, (200, 500)),
    (of_h5py_in_one_piece, None),
    (of_zarr, (150, 500)),
    (of_zarr_in_shards, (300, 250)),
    (of_dask, (300, 333)),
    (of_xarray, None),
    (of_xarray_and_dask, (200, 500)),
    (of_something, None),
]


@pytest.mark.parametrize(("make", "tile"), MAKERS, ids=lambda x: getattr(x, "__name__", ""))
def test_is_what_numpy_makes_of_it(make: Any, tile: Any, tmp_path: Path) -> None:
    x = np.random.default_rng(1).standard_normal(SHAPE)
    given = make(x, tmp_path)
    with oc.config(memory="16MiB"):
        A = oc.asarray(given)
        assert (A.shape, A.dtype, A.writable) == (x.shape, x.dtype, False)
        if tile is not None:
            assert A.tile == tile
        np.testing.assert_array_equal(A.compute(), x)
        np.testing.assert_array_equal(A[5:300:7, ::-3].compute(), x[5:300:7, ::-3])
        np.testing.assert_array_equal(A[17].compute(), x[17])
        np.testing.assert_allclose(A.mean(axis=0).compute(), x.mean(axis=0))
        np.testing.assert_allclose((A.T @ A).compute(), x.T @ x)
        np.testing.assert_array_equal(np.asarray(A.T.save(tmp_path / "t.npy")), x.T)
        np.testing.assert_array_equal(np.asarray(A[::2].save(tmp_path / "s.zarr")), x[::2])
        np.testing.assert_array_equal(oc.take(A, [5, 3, 5], axis=0).compute(), x[[5, 3, 5]])
        total = sum(float(block.sum()) for _, block in A.tiles())
        assert total == pytest.approx(x.sum())


@pytest.mark.parametrize(("make", "tile"), MAKERS, ids=lambda x: getattr(x, "__name__", ""))
def test_takes_part_where_arrays_do(make: Any, tile: Any, tmp_path: Path) -> None:
    x = np.random.default_rng(2).standard_normal(SHAPE)
    given, own = make(x, tmp_path), oc.asarray(np.ones(SHAPE))
    for found in (own + given, np.add(own, given)):
        assert isinstance(found, oc.Array)
        np.testing.assert_array_equal(found.compute(), x + 1)
    np.testing.assert_allclose((own.T @ given).compute(), np.ones(SHAPE).T @ x)
    np.testing.assert_array_equal(oc.concat([own, given]).compute(), np.concatenate([own, x]))
    with oc.create(tmp_path / "filled.zarr", SHAPE) as target:
        target[...] = given
    np.testing.assert_array_equal(oc.open(tmp_path / "filled.zarr").compute(), x)


def labelled(x: np.ndarray, directory: Path, library: str) -> Any:
    """An array with names and attributes, as each library has them."""
    if library == "h5py":
        file = h5py.File(directory / "labels.h5", "w")
        given = file.create_dataset("x", data=x)
        given.dims[0].label, given.dims[1].label = "t", "x"
        given.attrs["units"], given.attrs["range"] = "K", np.array([1.5, 2.5])
        given.attrs["where"] = given.ref
        return given
    attributes = {"units": "K", "range": [1.5, 2.5]}
    if library == "xarray":
        return xr.DataArray(x, dims=("t", "x"), attrs={**attributes, "when": np.datetime64("now")})
    v3 = {"zarr_format": 3, "dimension_names": ("t", "x")}
    # Without a fill value, as that would be what is missing.
    v2: dict[str, Any] = {"zarr_format": 2, "fill_value": None}
    v2["attributes"] = {**attributes, "_ARRAY_DIMENSIONS": ["t", "x"]}
    kept = {"attributes": attributes, **(v3 if library == "zarr 3" else v2)}
    given = zarr.create_array(directory / "labels.zarr", shape=x.shape, dtype=x.dtype, **kept)
    given[...] = x
    return given


@pytest.mark.parametrize("library", ["h5py", "xarray", "zarr 2", "zarr 3"])
def test_names_and_attributes_come_along(library: str, tmp_path: Path) -> None:
    x = np.ones((20, 30))
    A = oc.asarray(labelled(x, tmp_path, library))
    assert A.dimension_names == ("t", "x") and A.T.dimension_names == ("x", "t")
    saved = A.T.save(tmp_path / "saved.zarr")
    assert saved.dimension_names == ("x", "t")
    assert (saved.attributes["units"], saved.attributes["range"]) == ("K", [1.5, 2.5])
    assert set(saved.attributes) == {"units", "range"}


def test_what_has_no_shape_is_none(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "empty.h5", "w") as file:
        empty = file.create_dataset("empty", data=h5py.Empty("f4"))
        for given in (empty, h5py.Empty("f4")):
            with pytest.raises(oc.InvalidArgumentError, match="no shape"):
                oc.asarray(given)


def test_nothing_is_read_before_it_is_needed_and_no_more_than_that() -> None:
    given = Described(np.arange(10**6, dtype=">i4").reshape(1000, 1000))
    A = oc.asarray(given)
    B = (A + 1)[:10]
    assert A.dtype == np.dtype("int32") and not given.asked
    assert B[3, 4].compute() == 3005
    assert sum((k[0].stop - k[0].start) * (k[1].stop - k[1].start) for k in given.asked) <= 10_000


def test_one_array_is_one_input(tmp_path: Path) -> None:
    given = of_h5py(np.ones(SHAPE), tmp_path)
    with oc.config(memory="8MiB"):
        several = oc.plan((oc.asarray(given) * oc.asarray(given) + given).sum())
        once = oc.plan((oc.asarray(given) + 1).sum())
    assert several.bytes_read == once.bytes_read


def test_a_plan_says_what_is_asked_for(tmp_path: Path) -> None:
    x = np.ones((1000, 1000))
    given = da.from_array(x, chunks=(125, 500))
    with oc.config(memory="4MiB"):
        for result in (oc.asarray(given).sum(axis=1), oc.asarray(given).T @ oc.ones(1000)):
            plan = oc.plan(result)
            result.save(tmp_path / "r.zarr", overwrite=True)
            assert oc.last_run().bytes_read == plan.bytes_read >= x.nbytes


def test_nothing_of_it_is_kept_for_the_next_computation() -> None:
    elements = np.ones((100, 100))
    given = Described(elements)
    A = oc.asarray(given)
    assert A.sum().compute() == 10_000
    elements[...] = 2
    assert A.sum().compute() == 20_000
    assert oc.asarray(given)[3, 3].compute() == 2


COPYING: list[Callable[[oc.Array], Any]] = [
    lambda A: A.copy(),
    copy.copy,
    copy.deepcopy,
    lambda A: oc.asarray(A, copy=True),
    lambda A: A.astype(A.dtype),
    lambda A: oc.astype(A, "f8"),
    lambda A: +A,
    np.positive,
    np.copy,
    np.array,
    lambda A: np.array(A, like=A),
    lambda A: A.T.copy().T,
    lambda A: oc.concat([A[:200].copy(), A[200:].copy()]),
    lambda A: (A * 1).copy(),
    lambda A: A.astype("complex64").conj().copy().real.astype("f8").copy(),
    lambda A: oc.asarray(A * 1, copy=True),
]


@pytest.mark.parametrize("memory", ["64MiB", "8MiB"])
@pytest.mark.parametrize("make", [of_h5py, of_zarr, of_xarray, of_something])
def test_a_copy_holds_the_elements(make: Any, memory: str, tmp_path: Path) -> None:
    """Copies read them when they were needed, and what the other library has changed with them."""
    x = np.round(np.random.default_rng(3).standard_normal(SHAPE) * 100)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    given = make(x.copy(), tmp_path)
    with oc.config(memory=memory, scratch=scratch):
        A = oc.asarray(given)
        copies = [
            oc.asarray(given, copy=True),
            oc.asarray(given, "f4", copy=True),
            np.array(given, like=A) if make is not of_xarray else A.copy(),
        ]
        for door in COPYING:
            copies.append(door(A))
            if memory == "64MiB":
                continue
            # In memory, they would not all have room.
            elements = getattr(given, "elements", given)
            elements[...] = 0
            np.testing.assert_array_equal(np.asarray(copies.pop()), x)
            elements[...] = x
        assert {c.layout for c in copies if isinstance(c, oc.Array)} <= (
            {"memory", "computed"} if memory == "64MiB" else {"tiled"}
        )
        getattr(given, "elements", given)[...] = 0
        assert A[17, 3].compute() == 0
        for made in copies:
            np.testing.assert_array_equal(np.asarray(made), x)
        if memory == "64MiB":
            copies[0][5] = 7
            assert copies[0][5, 5].compute() == 7 and A[5, 5].compute() == 0
        del copies, made
        gc.collect()
        assert not list(scratch.iterdir())


def test_a_copy_of_what_is_made_from_memory_of_others_holds_the_elements() -> None:
    plain = np.arange(6.0)
    doubled = oc.asarray(plain) * 2
    copies = [doubled.copy(), oc.asarray(doubled, copy=True), +doubled, +oc.asarray(plain) * 2]
    plain[...] = 0
    for made in copies:
        assert made.tolist() == [0, 2, 4, 6, 8, 10]
    assert not doubled.compute().any()


@pytest.mark.parametrize("memory", ["64MiB", "1MiB"])
def test_labels_go_with_a_copy(memory: str, tmp_path: Path) -> None:
    with oc.config(memory=memory):
        A = oc.asarray(labelled(np.ones((200, 300)), tmp_path, "zarr 3"), copy=True)
        assert (A.dimension_names, A.attributes) == (
            ("t", "x"),
            {"units": "K", "range": [1.5, 2.5]},
        )
        assert A.T.save(tmp_path / "saved.zarr").dimension_names == ("x", "t")


class Undimensioned:
    """What has a shape, a type and slices, and nothing else."""

    def __init__(self, elements: np.ndarray) -> None:
        self.elements, self.shape, self.dtype = elements, elements.shape, elements.dtype

    def __getitem__(self, key: Any) -> np.ndarray:
        return self.elements[key]


@pytest.mark.parametrize("shape", [(), (0, 5), (7,), (30, 20)])
def test_a_shape_a_type_and_slices_are_enough(shape: tuple[int, ...], tmp_path: Path) -> None:
    """Without ``ndim``, it was taken for one Python object."""
    x = np.arange(float(np.prod(shape))).reshape(shape)
    given, own = Undimensioned(x), oc.asarray(np.ones(shape))
    np.testing.assert_array_equal(oc.asarray(given).compute(), x)
    for total in (own + given, given + own, np.add(own, given)):  # type: ignore[operator]
        np.testing.assert_array_equal(total.compute(), x + 1)
    with oc.create(tmp_path / "x.zarr", shape) as target:
        target[...] = given
    np.testing.assert_array_equal(oc.open(tmp_path / "x.zarr").compute(), x)


def test_what_is_in_memory_is_numpys(tmp_path: Path) -> None:
    class InMemory(Undimensioned):
        @property
        def __array_struct__(self) -> Any:
            return self.elements.__array_struct__

    pd = pytest.importorskip("pandas")
    for given in (
        InMemory(np.arange(3.0)),
        pd.Series([0.0, 1, 2]),
        pd.array([0.0, 1, 2]),
        memoryview(np.arange(3.0)),
        np.ma.array([0.0, 1, 2]),
    ):
        A = oc.asarray(given)
        assert A.layout == "memory" and A.tolist() == [0, 1, 2]
    for number in (np.float64(3), 3.0, np.array(3.0)):
        assert (oc.asarray(number).layout, oc.asarray(number).shape) == ("memory", ())


@pytest.mark.parametrize("shape", [(), (0, 5), (1,), (1, 1, 1)])
def test_shapes_at_the_edge(shape: tuple[int, ...], tmp_path: Path) -> None:
    x = np.full(shape, 3.0)
    for given in (Described(x), h5py.File(tmp_path / "e.h5", "w").create_dataset("x", data=x)):
        np.testing.assert_array_equal(oc.asarray(given).compute(), x)
        np.testing.assert_array_equal((oc.asarray(given) + 1).compute(), x + 1)
        np.testing.assert_array_equal(oc.asarray(given, copy=True).compute(), x)


def test_types_that_there_are_not_are_refused(tmp_path: Path) -> None:
    text = h5py.File(tmp_path / "t.h5", "w").create_dataset("x", data=[b"a", b"bc"])
    times = xr.DataArray(np.array(["2026-01-01"], "datetime64[ns]"))
    pairs = Described(np.zeros(3, [("a", "f8"), ("b", "i4")]))
    for given in (text, times, pairs):
        with pytest.raises(oc.UnsupportedError, match="dtype"):
            oc.asarray(given)


def test_what_has_arrays_by_name_is_none(tmp_path: Path) -> None:
    """Of a file of h5py, the names were taken for its elements."""
    file = h5py.File(tmp_path / "t.h5", "w")
    file["heat"] = np.ones(3)
    np.savez(tmp_path / "t.npz", heat=np.ones(3))
    archive = np.load(tmp_path / "t.npz")
    for given in (file, archive, xr.Dataset({"heat": ("x", np.ones(3))}), {"heat": np.ones(3)}):
        with pytest.raises(oc.InvalidTypeError, match=r"x\['heat'\]"):
            oc.asarray(given)
        assert oc.asarray(given["heat"]).sum().compute() == 3
    archive.close()


def test_chunks_of_unknown_sizes_are_refused_with_the_way_to_find_them() -> None:
    x = da.from_array(np.arange(100.0), chunks=30)
    chosen = x[x > 50]
    for use in (oc.asarray, lambda a: oc.ones(49) + a, np.add(oc.ones(49), 1).__add__, oc.sum):
        with pytest.raises(oc.InvalidArgumentError, match=r"dask.*compute_chunk_sizes\(\)"):
            use(chosen)
    found = oc.asarray(chosen.compute_chunk_sizes())
    np.testing.assert_array_equal((found + 1).compute(), np.arange(52.0, 101))


class Broken(Described):
    def __getitem__(self, key: Any) -> np.ndarray:
        if key[0].stop > 100:
            raise OSError(5, "the other library's trouble")
        return super().__getitem__(key)


class Liar(Described):
    def __getitem__(self, key: Any) -> np.ndarray:
        return super().__getitem__(key)[:1]


def test_what_goes_wrong_there_names_the_array(tmp_path: Path) -> None:
    x = np.ones((400, 400))
    with oc.config(memory="2MiB"):
        for given, kind in ((Broken(x), oc.StorageError), (Liar(x), oc.InvalidArgumentError)):
            A = oc.asarray(given)
            computations = (
                A.compute,
                A.sum().compute,
                (A @ A).compute,
                lambda A=A: A.save(tmp_path / "x.zarr"),
                lambda A=A: A.T.save(tmp_path / "x.npy"),
                lambda A=A: list(A.tiles()),
            )
            for compute in computations:
                with pytest.raises(kind, match=type(given).__name__) as caught:
                    compute()
                if kind is oc.StorageError:
                    assert isinstance(caught.value.__cause__, OSError)
            assert not any(tmp_path.iterdir())


MEASURED = """
import sys, h5py, numpy as np, outcrop as oc

def peak():
    with open("/proc/self/status") as status:
        return next(int(l.split()[1]) for l in status if l.startswith("VmHWM")) * 1024

with h5py.File(sys.argv[1], "w") as file:
    made = file.create_dataset("x", (8000, 4000), "f8", chunks=(250, 1000))
    for i in range(0, 8000, 250):
        made[i : i + 250] = i
oc.config(memory="64MiB")
A = oc.asarray(h5py.File(sys.argv[1])["x"])
before = peak()
assert A.mean(axis=0)[5].compute() == 3875
A.T.save(sys.argv[1] + ".npy")
assert (A @ np.ones(4000)).compute()[250] == 250 * 4000
assert (A[:, :300].T @ A).shape == (300, 4000)
copied = oc.asarray(h5py.File(sys.argv[1])["x"], copy=True)
assert copied.layout == "tiled" and copied[300, 5].compute() == 250
print(peak() - before)
"""


def test_memory_stays_within_the_budget(tmp_path: Path) -> None:
    arguments = [sys.executable, "-c", MEASURED, str(tmp_path / "x.h5")]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert int(done.stdout) < (64 + 200) << 20
