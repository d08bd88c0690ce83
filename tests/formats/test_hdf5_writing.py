"""Data sets of HDF5 files that are made here, against h5py's own reading."""

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import outcrop as oc
from outcrop import _native

h5py = pytest.importorskip("h5py")

SHAPE = (300, 500)

DTYPES = [
    *("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"),
    *("float32", "float64", "complex64", "complex128"),
]


def elements(dtype: str = "float64", shape: tuple[int, ...] = SHAPE, seed: int = 3) -> NDArray[Any]:
    bits = np.random.default_rng(seed).integers(0, 100, shape)
    if dtype == "bool":
        return np.asarray(bits % 2 == 0)
    return np.asarray(bits + (1j * bits[::-1] if "complex" in dtype else 0)).astype(dtype)


def theirs(file: Path, name: str) -> NDArray[Any]:
    with h5py.File(file, "r") as found:
        return np.asarray(found[name][()])


def left_over(directory: Path) -> list[str]:
    return [path.name for path in directory.rglob("*") if path.name.endswith(".outcrop-new")]


@pytest.fixture(autouse=True)
def _small() -> Iterator[None]:
    with oc.config(memory="8MiB"):
        yield


@pytest.fixture
def held(tmp_path: Path) -> Path:
    """A file of another program's, with more in it than arrays of ours."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["g/old"] = elements()
        file["g"].attrs["title"] = "kept"
        file.create_dataset("packed", data=elements(), chunks=(50, 60), compression="gzip")
        file["text"] = ["one", "two"]
        file["soft"], file["round"] = h5py.SoftLink("/g"), h5py.SoftLink("/g/old")
        file["away"] = h5py.ExternalLink("b.h5", "/g")
    return tmp_path / "a.h5"


def check_kept(file: Path) -> None:
    np.testing.assert_array_equal(theirs(file, "g/old"), elements())
    np.testing.assert_array_equal(theirs(file, "packed"), elements())
    with h5py.File(file) as found:
        assert found["g"].attrs["title"] == "kept" and list(found["text"].asstr()) == ["one", "two"]


# -- elements --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type_is_what_h5py_makes_of_it(tmp_path: Path, dtype: str) -> None:
    given = elements(dtype)
    made = oc.asarray(given).save(tmp_path / "a.h5/g/h/x")
    assert (made.format, made.path) == ("hdf5", tmp_path / "a.h5/g/h/x")
    np.testing.assert_array_equal(made[250:20:-3, 60:70].compute(), given[250:20:-3, 60:70])
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["x"] = given
        wanted = file["x"].id.get_type()
        with h5py.File(tmp_path / "a.h5") as own:
            assert own["g/h/x"].id.get_type().equal(wanted) and own["g/h/x"].chunks is None
            np.testing.assert_array_equal(own["g/h/x"][()], given)


@pytest.mark.parametrize("shape", [(), (1,), (7,), (0,), (0, 3), (3, 0, 2), (5, 1, 9)])
@pytest.mark.parametrize("dtype", ["bool", "int8", "float64", "complex128"])
def test_small_arrays(tmp_path: Path, held: Path, shape: tuple[int, ...], dtype: str) -> None:
    """As the only one of a file, and beside others, where they are not alone in their blocks."""
    given = elements(dtype, shape) if shape else np.asarray(elements(dtype, (1,))[0])
    for file in (tmp_path / "new.h5", held):
        for name in ("x", "g/y"):
            found = oc.asarray(given).save(file / name)
            assert (found.shape, found.dtype) == (given.shape, given.dtype)
            for one in (found.compute(), theirs(file, name)):
                assert (one.shape, one.dtype) == (given.shape, given.dtype)
                np.testing.assert_array_equal(one, given)
    check_kept(held)


SOURCES: dict[str, Callable[[Path], oc.Array]] = {
    "memory": lambda d: oc.asarray(elements()),
    "function": lambda d: oc.fromfunction(lambda i, j: i * 500 + j, SHAPE),
    "tiles": lambda d: oc.asarray(elements()).save(d / "s.zarr", tile=(64, 96)),
    "turned": lambda d: oc.asarray(elements()).save(d / "s.npy").T,
    "steps": lambda d: oc.asarray(elements()).save(d / "s.npy")[::-3, 1::2],
    "computed": lambda d: oc.asarray(elements()).save(d / "s.zarr", tile=(64, 96)) * 2 + 1,
    "product": lambda d: oc.asarray(elements()).save(d / "s.npy") @ np.ones((500, 40)),
    "data set": lambda d: oc.asarray(elements()).save(d / "s.h5/x") + 1,
}


@pytest.mark.parametrize("memory", ["512KiB", "8MiB"])
@pytest.mark.parametrize("source", SOURCES)
def test_what_is_planned_is_moved(tmp_path: Path, held: Path, source: str, memory: str) -> None:
    """To a new file, into one that is there, and in the place of what is there."""
    A = SOURCES[source](tmp_path)
    wanted = A.compute()
    with oc.config(memory=memory, scratch=tmp_path):
        for place in (tmp_path / "new.h5/x", held / "x", held / "g/x", held / "x"):
            plan = oc.plan(A, place) if source not in ("memory", "function", "steps") else None
            A.save(place, overwrite=True)
            run = oc.last_run()
            assert run is not None and run.peak_bytes <= oc.config().memory
            if plan is not None:
                assert (run.bytes_read, run.bytes_written) == (plan.bytes_read, plan.bytes_written)
                assert ("rest of the HDF5 file" in plan.explain()) == (place.parts[-2] != "new.h5")
            np.testing.assert_array_equal(theirs(*split(place)), wanted)
    check_kept(held)


def split(place: Path) -> tuple[Path, str]:
    file = next(path for path in place.parents if path.suffix == ".h5")
    return file, str(place.relative_to(file))


CHUNKED = [
    ("float64", (300, 500), (60, 50)),
    ("bool", (300, 500), (64, 96)),
    ("complex64", (300, 500), (7, 500)),
    ("int16", (17,), (5,)),
    ("float32", (9, 8, 7), (4, 8, 2)),
    ("uint8", (30, 20), (100, 100)),
    ("float64", (3, 0), (2, 2)),
    ("float64", (), ()),
]


@pytest.mark.parametrize(("dtype", "shape", "tile"), CHUNKED)
def test_chunks(
    tmp_path: Path, held: Path, dtype: str, shape: tuple[int, ...], tile: tuple[int, ...]
) -> None:
    """They are read where they lie; those at the ends have zeros beyond the end."""
    given = elements(dtype, shape) if shape else np.asarray(3.0)
    A = oc.asarray(given)
    for file in (tmp_path / "new.h5", held):
        made = A.save(file / "g/x", tile=tile)
        np.testing.assert_array_equal(made.compute(), given)
        np.testing.assert_array_equal(theirs(file, "g/x"), given)
        with h5py.File(file) as found:
            fits = given.size and given.ndim
            expected = tuple(map(min, tile, shape)) if fits else None
            assert found["g/x"].chunks == expected
            if fits:
                assert made.layout == "tiled" and made.tile == expected
                assert made._source._opening.external is None  # type: ignore[attr-defined]
    check_kept(held)
    if given.size:
        with h5py.File(held, "r+") as found:
            found["g/x"][...] = 1
            assert (found["g/x"][...] == 1).all()


@pytest.mark.parametrize(
    ("source", "tile"),
    [("tiles", (60, 40)), ("turned", (64, 96)), ("steps", (64, 96)), ("product", (60, 40))],
)
def test_what_is_planned_is_moved_to_chunks(
    tmp_path: Path, held: Path, source: str, tile: tuple[int, int]
) -> None:
    A = SOURCES[source](tmp_path)
    wanted = A.compute()
    with oc.config(memory="1MiB", scratch=tmp_path):
        for place in (tmp_path / "new.h5/x", held / "x"):
            names = ("a", None)
            plan = oc.plan(A, place, tile=tile, dimension_names=names)
            made = A.save(place, tile=tile, dimension_names=names)
            run = oc.last_run()
            assert run is not None and run.peak_bytes <= oc.config().memory
            assert (run.bytes_read, run.bytes_written) == (plan.bytes_read, plan.bytes_written)
            assert made.dimension_names == names
            np.testing.assert_array_equal(theirs(*split(place)), wanted)
    check_kept(held)


IO = """
import sys
import numpy as np, outcrop as oc
oc.config(memory="8MiB")
A = oc.open("s.npy")
oc.open("s.npy")[:1].save("warm.h5/x")
oc.open("s.npy")[:1].save("warm.h5/y")
def moved():
    text = dict(line.split(": ") for line in open("/proc/self/io").read().splitlines())
    return int(text["rchar"]), int(text["wchar"])
before = moved()
A.save("a.h5/x")
between = moved()
A.save("a.h5/y")
run, after = oc.last_run(), moved()
print(between[1] - before[1], *(b - a for a, b in zip(between, after)))
print(run.bytes_read, run.bytes_written)
"""


def test_the_system_counts_the_same(tmp_path: Path) -> None:
    """Elements are moved once, and what was in the file once more: neither more nor less."""
    np.save(tmp_path / "s.npy", elements("float64", (1024, 1024)))
    # What io_uring moves is not counted there by every kernel.
    made = subprocess.run(
        [sys.executable, "-c", IO],
        cwd=tmp_path,
        env={**os.environ, "OUTCROP_IO_ENGINE": "threads"},
        text=True,
        capture_output=True,
    )
    assert made.returncode == 0, made.stderr
    new, read, written, told_read, told_written = map(int, made.stdout.split())
    nbytes = 8 << 20
    assert told_read >= 2 * nbytes and told_written >= 2 * nbytes
    for counted, told in ((new, nbytes), (read, told_read), (written, told_written)):
        # Metadata besides.
        assert abs(counted - told) <= 128 << 10


def test_room_that_is_free_is_used(held: Path) -> None:
    A = oc.asarray(elements(seed=1))
    A.save(held / "x")
    size = held.stat().st_size
    for seed in range(2, 6):
        oc.asarray(elements(seed=seed)).save(held / "x", overwrite=True)
        np.testing.assert_array_equal(theirs(held, "x"), elements(seed=seed))
    assert held.stat().st_size <= size + (64 << 10)
    check_kept(held)


@pytest.mark.parametrize(
    "options", [{}, {"libver": "latest"}, {"track_order": True}, {"fs_strategy": "page"}]
)
def test_files_of_every_kind(tmp_path: Path, options: dict[str, Any]) -> None:
    with h5py.File(tmp_path / "a.h5", "w", **options) as file:
        file["g/old"] = elements()
        for i in range(100):
            file[f"many/{i}"] = i
    for i in range(3):
        oc.asarray(elements(seed=i)).save(tmp_path / f"a.h5/many/x{i}")
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        assert len(file["many"]) == 103 and file["many/99"][()] == 99
        np.testing.assert_array_equal(file["g/old"][()], elements())
        file["more"] = 1
    for i in range(3):
        np.testing.assert_array_equal(theirs(tmp_path / "a.h5", f"many/x{i}"), elements(seed=i))


def test_elements_are_assigned(held: Path) -> None:
    wanted = np.zeros(SHAPE)
    with oc.create(held / "x", SHAPE) as made:
        assert made.format == "hdf5" and made.path == held / "x"
        made[10:20, 3] = wanted[10:20, 3] = 5
        made[:, 499] = wanted[:, 499] = elements()[:, 0]
        np.testing.assert_array_equal(made[5:25].compute(), wanted[5:25])
        with pytest.raises(oc.ArrayNotFoundError):
            oc.open(held / "x")
    np.testing.assert_array_equal(theirs(held, "x"), wanted)
    check_kept(held)


def test_several_files_at_once(tmp_path: Path, held: Path) -> None:
    A = oc.asarray(elements()).save(tmp_path / "s.zarr", tile=100)
    results = {held / "x": A + 1, tmp_path / "new.h5/y": A.sum(axis=0), tmp_path / "z.npy": A.T}
    plan = oc.plan(results)
    done = oc.save(results)
    run = oc.last_run()
    assert run is not None
    assert (run.bytes_read, run.bytes_written) == (plan.bytes_read, plan.bytes_written)
    assert [one.format for one in done.values()] == ["hdf5", "hdf5", "npy"]
    np.testing.assert_array_equal(theirs(held, "x"), elements() + 1)
    np.testing.assert_array_equal(theirs(tmp_path / "new.h5", "y"), elements().sum(axis=0))
    before = held.read_bytes()
    with pytest.raises(oc.UnsupportedError, match="save one after the other"):
        oc.save({held / "p": A, held / "q": A + 1})
    assert held.read_bytes() == before and left_over(tmp_path) == []


# -- labels ----------------------------------------------------------------------------------------

ATTRIBUTES = {
    **{"units": "K", "größe": "ü", "count": 3, "scale": 1e300, "flag": True, "most": 2**64 - 1},
    **{"range": [1, 2.5], "one": [3], "none": [], "names": ["a", "bä"], "table": [[1, 2], [3, 4]]},
}


def test_labels_go_there_and_back(tmp_path: Path) -> None:
    with oc.create(
        tmp_path / "s.zarr",
        (4, 6),
        "float32",
        tile=2,
        attributes=ATTRIBUTES,
        dimension_names=("time", "lat"),
        fill_value=-1,
    ) as made:
        made[...] = elements("float32", (4, 6))
    found = oc.open(tmp_path / "s.zarr").T.save(tmp_path / "a.h5/g/heat")
    assert found.attributes == ATTRIBUTES and found.fill_value == -1
    assert found.dimension_names == ("lat", "time")
    back = found.save(tmp_path / "b.zarr")
    assert back.attributes == ATTRIBUTES and back.dimension_names == ("lat", "time")
    assert back.fill_value == -1
    other = found[0].save(tmp_path / "c.h5/x", attributes={"a": 1}, dimension_names=["t"])
    assert (other.attributes, other.dimension_names) == ({"a": 1}, ("t",))
    # What only names axes is no array, and the only one needs no name.
    assert oc.open(tmp_path / "c.h5").shape == (4,)


def test_axes_of_one_name_have_one_scale(tmp_path: Path) -> None:
    file = tmp_path / "a.h5"
    A = oc.asarray(elements("float64", (4, 6)))
    A.save(file / "x", dimension_names=("t", "p"))
    A.T.save(file / "y", dimension_names=("p", "t"))
    # An axis of another extent, a name that no data set can have, and none.
    oc.asarray(elements("float64", (5, 2, 3))).save(file / "z", dimension_names=("t", "a/b", None))
    with h5py.File(file) as found:
        assert sorted(found) == ["p", "t", "x", "y", "z", "z_t"]
        assert found["x"].dims[0][0] == found["t"] == found["y"].dims[1][0]
        assert found["z"].dims[0][0] == found["z_t"] and found["z"].dims[1].label == "a/b"
    assert oc.open(file / "z").dimension_names == ("z_t", "a/b", None)
    # An axis that is called like the array, which is no scale, has a label.
    oc.asarray(elements("float64", (4, 2))).save(file / "own", dimension_names=("t", "own"))
    assert oc.open(file / "own").dimension_names == ("t", "own")
    # What a scale stands for comes later, or is replaced.
    oc.asarray(np.arange(4.0)).save(file / "t", dimension_names=["t"])
    with pytest.raises(oc.ArrayExistsError, match="exists already"):
        oc.asarray(np.arange(4.0)).save(file / "t")
    oc.asarray(np.arange(4.0) + 1).save(file / "t", overwrite=True)
    assert oc.open(file / "x").dimension_names == ("t", "p")
    assert oc.open(file / "t").dimension_names == ("t",)
    with h5py.File(file) as found:
        assert found["y"].dims[1][0] == found["t"] and found["t"][3] == 4
    # One that fits no more takes no name with it.
    with pytest.raises(oc.ArrayExistsError, match="to name axes of 6 elements"):
        A.save(file / "p")
    A.save(file / "p", overwrite=True)
    assert oc.open(file / "x").dimension_names == ("t", "p")
    # What names others may itself be overwritten by what has no names.
    A.save(file / "x", overwrite=True)
    assert oc.open(file / "x").dimension_names is None


def test_xarray_and_netcdf_open_it(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    given = elements("float32", (4, 6))
    given[1, 2] = -1
    oc.asarray(given).save(
        tmp_path / "a.h5/heat",
        dimension_names=("time", "lat"),
        attributes={"units": "K", "_FillValue": -1},
    )
    oc.asarray(np.arange(6.0)).save(tmp_path / "a.h5/lat", dimension_names=["lat"])
    with xarray.open_dataset(tmp_path / "a.h5", engine="h5netcdf") as found:
        assert found["heat"].dims == ("time", "lat") and found["heat"].attrs["units"] == "K"
        assert found["lat"].values.tolist() == list(range(6)) and list(found.coords) == ["lat"]
        assert np.isnan(found["heat"].values[1, 2]) and found["heat"].values[0, 0] == given[0, 0]


def test_what_is_missing_stays_so(tmp_path: Path) -> None:
    """Each format says it in its own way; HDF5 by an attribute of the elements' type."""
    given = elements("float32", (4, 6))
    for version, fill in ((2, -5.0), (3, float("nan")), (3, 2.5)):
        source, place = tmp_path / f"{version}{fill}.zarr", tmp_path / f"{version}{fill}.h5/x"
        said = {"fill_value": fill} if version == 2 else {}
        A = oc.asarray(given).save(
            source, zarr_format=version, dimension_names=("a", "b"), tile=2, **said
        )
        attributes = dict(A.attributes)
        if version == 3:
            attributes["_FillValue"] = fill if fill == fill else "AAAAAAAA+H8="
        oc.open(source).save(place, **({} if version == 2 else {"attributes": attributes}))
        with h5py.File(place.parent) as file:
            element = file["x"].attrs["_FillValue"]
            assert element.dtype == np.float32
            np.testing.assert_equal(np.float32(fill), element)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"a": {}}, "is dict"),
        ({"a": None}, "is NoneType"),
        ({"a": [1, "b"]}, "is a list"),
        ({"a": [[1], [2, 3]]}, "is a list"),
        ({"a": 2**64}, "more than 64 bits"),
        ({"a": "x" * 70_000}, "has room for"),
        ({"a": "x\0y"}, "zero in its text"),
        ({"DIMENSION_LIST": 1}, "cannot be called"),
        ({"": 1}, "cannot be called"),
    ],
)
def test_attributes_that_hdf5_cannot_hold(
    tmp_path: Path, attributes: dict[str, Any], message: str
) -> None:
    A = oc.asarray(elements()).save(tmp_path / "s.zarr", attributes={"ok": 1} | attributes)
    for way in (
        lambda: A.save(tmp_path / "a.h5/x", attributes=attributes),
        lambda: oc.create(tmp_path / "a.h5/x", 3, attributes=attributes),
        lambda: oc.plan(A, tmp_path / "a.h5/x", attributes=attributes),
    ):
        with pytest.raises((oc.InvalidArgumentError, oc.InvalidTypeError), match=message):
            way()
    assert not (tmp_path / "a.h5").exists()
    # What comes along and cannot stays behind.
    assert A.save(tmp_path / "a.h5/x").attributes == {"ok": 1}


# -- all at once -----------------------------------------------------------------------------------


def test_nobody_sees_half_of_it(tmp_path: Path, held: Path) -> None:
    before = held.read_bytes()
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["x"] = 1
    with oc.create(held / "x", SHAPE) as made, oc.create(tmp_path / "new.h5/x", SHAPE) as new:
        made[...], new[...] = elements(), elements()
        assert held.read_bytes() == before and not (tmp_path / "new.h5").exists()
        check_kept(held)
        # Nor can anybody write what would be lost.
        with pytest.raises(BlockingIOError):
            h5py.File(held, "r+")
    np.testing.assert_array_equal(theirs(held, "x"), elements())
    with h5py.File(held, "r+") as file:
        file["free"] = 1
    assert left_over(tmp_path) == []


def test_what_fails_leaves_the_file_as_it_was(tmp_path: Path, held: Path) -> None:
    before = held.read_bytes()

    def broken(i: NDArray[Any], j: NDArray[Any]) -> NDArray[Any]:
        if i.max() > 200:
            raise KeyboardInterrupt
        return i + j

    for place in (held / "x", held / "g/old", tmp_path / "new.h5/x"):
        with pytest.raises(KeyboardInterrupt), oc.config(memory="1MiB"):
            oc.fromfunction(broken, (3000, 500)).save(place, overwrite=True)
        with pytest.raises(ZeroDivisionError), oc.create(place, SHAPE, overwrite=True) as made:
            made[0] = 1 / 0
        made = oc.create(place, SHAPE, overwrite=True)
        made.abort()
        assert held.read_bytes() == before and left_over(tmp_path) == []
        assert not (tmp_path / "new.h5").exists()
        with h5py.File(held, "r+"):
            pass
        held.write_bytes(before)


def test_no_room_for_the_copy(tmp_path: Path, held: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = held.read_bytes()

    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    class Little:
        f_bavail, f_frsize = 100, 4096

    A = oc.asarray(elements())
    ways = {"copy_file_range": full, "pwrite": full, "statvfs": lambda _: Little}
    for name, stand_in in ways.items():
        with monkeypatch.context() as patch:
            patch.setattr(os, name, stand_in)
            with pytest.raises(oc.StorageFullError, match=r"a\.h5.*bytes"):
                A.save(held / "x")
        assert held.read_bytes() == before and left_over(tmp_path) == []
    A.save(held / "x")


def test_where_the_file_system_cannot_copy(held: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def not_here(*_: Any) -> int:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(os, "copy_file_range", not_here)
    oc.asarray(elements(seed=1)).save(held / "x")
    np.testing.assert_array_equal(theirs(held, "x"), elements(seed=1))
    check_kept(held)


def test_an_array_of_the_file_itself(held: Path) -> None:
    """What is read is the old file, whoever reads it, and open files are in nobody's way."""
    for name in ("g/old", "packed"):
        A = oc.open(held / name)
        (A + 1).save(held / "sum")
        A.T.save(held / "turned", overwrite=True)
        np.testing.assert_array_equal(theirs(held, "sum"), elements() + 1)
        np.testing.assert_array_equal(theirs(held, "turned"), elements().T)
        oc.open(held / name)[::-1].save(held / name, overwrite=True)
        np.testing.assert_array_equal(oc.open(held / name).compute(), elements()[::-1])
        with pytest.raises(oc.InvalidArgumentError, match=r"is what .* reads"):
            (oc.open(held / name) + 1).save(held / name, overwrite=True)
        oc.open(held / name)[::-1].save(held / name, overwrite=True)
        with h5py.File(held, "r+") as file:
            del file["sum"]
    check_kept(held)


@pytest.mark.parametrize("mode", ["r", "r+"])
@pytest.mark.parametrize("locking", [True, False])
def test_a_file_that_is_open_elsewhere(held: Path, mode: str, locking: bool) -> None:
    A = oc.asarray(elements())
    with h5py.File(held, mode, locking=locking) as file:
        if mode == "r" and not locking:
            A.save(held / "x")
            # As with any file that is replaced, the old one is there as long as it is open.
            assert "x" not in file
            return
        with pytest.raises(oc.ArrayBusyError, match=r"a\.h5.*(open|locks)"):
            A.save(held / "x")
    A.save(held / "x")
    check_kept(held)


WRITER = """
import sys, h5py
with h5py.File("a.h5", "r+") as file:
    print("open", flush=True)
    sys.stdin.read()
"""


def test_a_file_that_another_program_writes(tmp_path: Path, held: Path) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert writer.stdout is not None and writer.stdout.readline() == "open\n"
    with pytest.raises(oc.ArrayBusyError, match=r"a\.h5"):
        oc.asarray(elements()).save(held / "x")
    writer.communicate()
    oc.asarray(elements()).save(held / "x")
    assert left_over(tmp_path) == []


def test_a_change_by_who_respects_no_locks(held: Path) -> None:
    """What would be lost is not: the new data set is given up."""
    made = oc.create(held / "x", SHAPE)
    made[...] = 1
    with h5py.File(held, "r+", locking=False) as file:
        file["theirs"] = elements(seed=9)
    with pytest.raises(oc.ChangedArrayError, match="save it again"):
        made.close()
    np.testing.assert_array_equal(theirs(held, "theirs"), elements(seed=9))
    oc.asarray(elements()).save(held / "x")
    np.testing.assert_array_equal(theirs(held, "theirs"), elements(seed=9))


def test_two_writers(held: Path) -> None:
    with oc.create(held / "x", SHAPE) as made:
        made[...] = 1
        with pytest.raises(oc.ArrayBusyError):
            oc.asarray(elements()).save(held / "y")
    oc.asarray(elements()).save(held / "y")
    assert theirs(held, "x").min() == 1


def test_permissions_stay(held: Path, tmp_path: Path) -> None:
    held.chmod(0o640)
    oc.asarray(elements()).save(held / "x")
    assert stat.S_IMODE(held.stat().st_mode) == 0o640
    link = tmp_path / "link.h5"
    link.symlink_to("a.h5")
    oc.asarray(elements()).save(link / "y")
    assert link.is_symlink() and theirs(held, "y").shape == SHAPE
    held.chmod(0o440)
    with pytest.raises(oc.StoragePermissionError, match="may not be written"):
        oc.asarray(elements()).save(held / "z")
    assert left_over(tmp_path) == []


# -- refusals --------------------------------------------------------------------------------------

REFUSED: list[tuple[str, dict[str, Any], type[Exception], str]] = [
    ("a.h5", {}, oc.InvalidArgumentError, "is the name of an HDF5 file.*a.h5/NAME"),
    ("new.h5", {}, oc.InvalidArgumentError, "is the name of an HDF5 file"),
    ("new", {"format": "hdf5"}, oc.InvalidArgumentError, "is the name of an HDF5 file"),
    ("a.h5/g", {}, oc.UnsupportedError, "is a group"),
    ("a.h5/g", {"overwrite": True}, oc.UnsupportedError, "is a group"),
    ("a.h5/g/old", {}, oc.ArrayExistsError, "exists already; overwrite=True"),
    ("a.h5/g/old/x", {}, oc.InvalidArgumentError, "'g/old' is no group"),
    ("a.h5/round/x", {}, oc.InvalidArgumentError, "'round' is no group"),
    ("a.h5/round", {"overwrite": True}, oc.UnsupportedError, "is a link"),
    ("a.h5/away/x", {}, oc.UnsupportedError, "link to another file"),
    ("a.h5/g/../x", {}, oc.InvalidArgumentError, "no name for a data set"),
    ("none/a.h5/x", {}, oc.ArrayNotFoundError, "the directory .*none does not exist"),
    ("a.h5/x", {"format": "npy"}, oc.UnsupportedError, "nothing of the format npy"),
    ("a.h5/x", {"format": "zarr"}, oc.UnsupportedError, "nothing of the format zarr"),
    ("a.h5/x", {"order": "F"}, oc.InvalidArgumentError, "in order 'C'"),
    ("a.h5/x", {"codecs": "gzip"}, oc.UnsupportedError, "filters"),
    ("a.h5/x", {"zarr_format": 2}, oc.InvalidArgumentError, "for Zarr arrays"),
    ("a.h5/x", {"layout": "frontier"}, oc.OutcropError, "Zarr|filters"),
    ("a.h5/x", {"dimension_names": ["a"]}, oc.InvalidArgumentError, "1 names for 2"),
    ("a.h5/x", {"fill_value": "a"}, oc.InvalidTypeError, "must be a number"),
    ("text.h5/x", {}, oc.CorruptArrayError, "is no HDF5 file"),
    ("empty.h5/x", {}, oc.CorruptArrayError, "is no HDF5 file"),
    ("cut.h5/x", {}, oc.CorruptArrayError, "is no sound HDF5 file"),
    ("block.h5/x", {}, oc.UnsupportedError, "user block"),
    ("pages.h5/x", {}, oc.UnsupportedError, "in pages"),
    ("pipe.h5/x", {}, oc.StorageError, "a named pipe"),
]


@pytest.mark.parametrize(("place", "options", "error", "message"), REFUSED)
def test_refusals(
    tmp_path: Path,
    held: Path,
    place: str,
    options: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    (tmp_path / "text.h5").write_text("no HDF5")
    (tmp_path / "empty.h5").touch()
    (tmp_path / "cut.h5").write_bytes(held.read_bytes()[:3000])
    with h5py.File(tmp_path / "block.h5", "w", userblock_size=512) as file:
        file["x"] = 1
    with h5py.File(tmp_path / "pages.h5", "w", fs_strategy="page", fs_page_size=512) as file:
        file["a"] = elements()
    os.mkfifo(tmp_path / "pipe.h5")
    before = {p: p.read_bytes() for p in tmp_path.iterdir() if p.is_file()}
    A = oc.asarray(elements()).save(tmp_path / "s.zarr")
    with pytest.raises(error, match=message):
        A.save(tmp_path / place, **options)
    with pytest.raises(error, match=message):
        (A + 1).save(tmp_path / place, **options)
    if "layout" not in options:
        with pytest.raises(error, match=message):
            oc.create(tmp_path / place, SHAPE, **options)
    assert {p: p.read_bytes() for p in before} == before
    assert {p.name for p in tmp_path.iterdir() if p.is_file()} == {p.name for p in before}
    assert left_over(tmp_path) == []


def test_links_inside_are_followed(held: Path) -> None:
    oc.asarray(elements(seed=1)).save(held / "soft/x")
    np.testing.assert_array_equal(theirs(held, "g/x"), elements(seed=1))


def test_other_options_of_new_arrays(tmp_path: Path, held: Path) -> None:
    with pytest.raises(oc.UnsupportedError, match="zero before they are assigned"):
        oc.create(held / "x", SHAPE, fill_value=7)
    with pytest.raises(oc.UnsupportedError, match="not in chunks; save takes tile="):
        oc.create(held / "x", SHAPE, tile=10)
    square = oc.asarray(elements() @ elements().T + 1e9 * np.eye(300)).save(tmp_path / "s.zarr")
    with pytest.raises(oc.UnsupportedError, match="resume= keeps"):
        oc.linalg.cholesky(square).save(held / "x", resume=True)
    assert oc.asarray(elements()).save(tmp_path / "data/x", format="hdf5").format == "hdf5"
    assert oc.open(tmp_path / "data/x").shape == SHAPE


def test_without_h5py_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)
    for way in (
        lambda: oc.asarray(elements()).save(tmp_path / "a.h5/x"),
        lambda: oc.create(tmp_path / "a.h5/x", SHAPE),
    ):
        with pytest.raises(oc.UnsupportedError, match=r"h5py.*outcrop\[hdf5\]"):
            way()
    assert list(tmp_path.iterdir()) == []


# -- the command -----------------------------------------------------------------------------------


def command(*words: Any, status: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "outcrop", *map(str, words)], capture_output=True, text=True
    )
    assert done.returncode == status, done.stderr
    return done.stdout + done.stderr


def test_the_command(tmp_path: Path, held: Path) -> None:
    oc.asarray(elements()).save(tmp_path / "s.zarr", dimension_names=("t", "p"))
    command("convert", tmp_path / "s.zarr", held / "new/x")
    command("transpose", held / "new/x", tmp_path / "t.h5/x")
    command("copy", held / "new/x", tmp_path / "t.h5/y")
    command("copy", held / "new/x", held / "new/z")
    np.testing.assert_array_equal(theirs(tmp_path / "t.h5", "x"), elements().T)
    np.testing.assert_array_equal(theirs(held, "new/z"), elements())
    assert "(t, p)" in command("info", held)
    assert "exists already" in command("copy", held / "new/x", held / "new/z", status=1)
    command("copy", "--overwrite", tmp_path / "t.h5/y", held / "new/z")
    assert "convert" in command("copy", held / "packed", tmp_path / "u.h5/x", status=2)
    command("convert", held / "packed", tmp_path / "u.h5/x")
    command("convert", "--tile", "90x70", held / "packed", held / "c")
    command("copy", held / "c", held / "d")
    with h5py.File(held) as file:
        assert file["c"].chunks == file["d"].chunks == (90, 70)
    assert "NAME" in command("convert", tmp_path / "s.zarr", tmp_path / "v.h5", status=2)
    check_kept(held)


def test_nothing_is_held_when_it_is_over(held: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for i in range(3):
        oc.asarray(elements(seed=i)).save(held / f"x{i}").close()
        oc.create(held / "y", SHAPE).abort()
    assert _native.status()["used"] == 0
    assert len(os.listdir("/proc/self/fd")) <= before + 8


@pytest.mark.parametrize("tile", [40, (40, 40, 40), (10, 10, 10)])
def test_chunks_at_a_small_budget(tmp_path: Path, tile: Any) -> None:
    given = np.arange(82 * 35 * 61.0).reshape(82, 35, 61)
    A = oc.asarray(given).save(tmp_path / "a.zarr", tile=(41, 5, 12))
    with oc.config(memory="1MiB"):
        for one, wanted in ((A, given), (A + 1, given + 1)):
            plan = oc.plan(one, tmp_path / "r.h5/x", tile=tile)
            one.save(tmp_path / "r.h5/x", tile=tile)
            assert plan.bytes_read == oc.last_run().bytes_read
            np.testing.assert_array_equal(elements_in(tmp_path / "r.h5"), wanted)
            (tmp_path / "r.h5").unlink()


def elements_in(path: Path) -> Any:
    with h5py.File(path) as file:
        return file["x"][...]
