"""What every kind of array keeps, whatever it is stored in.

A *kind* is a way in which a user's elements come to be an array: a format and its layout, a view of
one, an array of another library. Each is made by other means than those that are tested, where
there are any, and each is asked for the same. Memory is small, so that everything is out of core.
"""

import math
import os
import shutil
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import outcrop as oc
from outcrop import _native

h5py = pytest.importorskip("h5py")
da = pytest.importorskip("dask.array")
tifffile = pytest.importorskip("tifffile")
zarr = pytest.importorskip("zarr")

from outcrop.interop.zarr_codec import FrontierCodec  # noqa: E402

# As an installed package has it among its entry points.
zarr.registry.register_codec("outcrop.frontier", FrontierCodec)

pytestmark = pytest.mark.filterwarnings("ignore::outcrop.errors.OutcropWarning")

Values = NDArray[Any]

DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float32", "float64", "complex64", "complex128"),
)
NUMBERS = tuple(dtype for dtype in DTYPES if dtype != "bool")
SAMPLES = ("uint8", "uint16")
BUDGETS = ("256KiB", "300KiB", "512KiB", "1MiB")
PLENTY = "64MiB"
LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}


# -- kinds -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stored:
    """Elements on disk.

    Attributes
    ----------
    open
        Gives an array of them, as a mode says.
    path
        What is stored, for those that are on disk in a format of ours.
    theirs
        Reads that by another library, which sees the elements as `turn` makes them.
    """

    open: Callable[[str], oc.Array]
    path: Path | None = None
    theirs: Callable[[Path], Values] | None = None
    store: Callable[[], _native.Store] | None = None

    def check(self, expected: Values) -> None:
        """They are these, to us and to others, and sound."""
        with oc.config(memory=PLENTY):
            same(self.open("r").compute(), expected)
            if self.theirs is not None and self.path is not None:
                found = self.theirs(self.path)
                same(found.astype(found.dtype.newbyteorder("=")), expected)
            if self.store is not None:
                assert self.store().verify(False, None) == []


Make = Callable[[Path, Values, tuple[int, ...]], Stored]


@dataclass(frozen=True)
class Kind:
    """How arrays are made, and which there are."""

    make: Make
    writable: bool = True
    dtypes: tuple[str, ...] = DTYPES
    samples: tuple[int, ...] | None = None
    """Of pictures, which are not empty: how many a pixel may have. One is no axis."""
    least: str = "256KiB"
    """A budget in which chunks of 40 kB can be had."""
    checksums: bool = False
    at_once: bool = False
    """Whether changes appear all at once, or not at all."""

    def holds(self, shape: tuple[int, ...]) -> bool:
        if self.samples is None:
            return True
        found = shape[2] if len(shape) == 3 else 1
        return len(shape) == (2 if found == 1 else 3) and found in self.samples and 0 not in shape


def _stored(path: Path, theirs: Callable[[Path], Values] | None = None, **options: Any) -> Stored:
    def opened(mode: str) -> oc.Array:
        return oc.open(path, mode, **options)

    return Stored(opened, path, theirs, lambda: opened("r")._source.store)  # type: ignore[attr-defined]


def _theirs(path: Path) -> Values:
    return np.asarray(zarr.open_array(path, mode="r")[...])


def ours(codecs: Any = None, version: int = 3) -> Make:
    def make(place: Path, values: Values, tile: tuple[int, ...]) -> Stored:
        wish = codecs(tile) if callable(codecs) else codecs
        oc.asarray(values).save(place / "a.zarr", tile=tile, zarr_format=version, codecs=wish)
        return _stored(place / "a.zarr", _theirs)

    return make


def frontiers(place: Path, values: Values, tile: tuple[int, ...]) -> Stored:
    """Of any thickness that the tile has room for."""
    tile = tuple(max(t, 2) for t in tile)
    thickness = 1 + sum(tile) % min((t // 2 for t in tile), default=1)
    oc.asarray(values).save(place / "a.zarr", tile=tile, layout="frontier", thickness=thickness)
    return _stored(place / "a.zarr", _theirs)


def of_zarr(**options: Any) -> Make:
    def make(place: Path, values: Values, tile: tuple[int, ...]) -> Stored:
        chunks = tuple(min(t, max(n, 1)) for t, n in zip(tile, values.shape, strict=True))
        about: Any = {"shape": values.shape, "dtype": values.dtype, "chunks": chunks, **options}
        array = zarr.create_array(place / "a.zarr", config={"write_empty_chunks": True}, **about)
        array[...] = values
        return _stored(place / "a.zarr", _theirs)

    return make


def shards(tile: tuple[int, ...]) -> list[Any]:
    """Inner chunks of half a tile, where it can be halved."""
    inner = [t // 2 if t % 2 == 0 else t for t in tile]
    sharding = {
        "chunk_shape": inner,
        "codecs": [LITTLE],
        "index_codecs": [LITTLE, {"name": "crc32c"}],
    }
    return [{"name": "sharding_indexed", "configuration": sharding}]


def npy(order: Literal["C", "F"] = "C", byteorder: str = "=") -> Make:
    def make(place: Path, values: Values, tile: tuple[int, ...]) -> Stored:
        kind = values.dtype.newbyteorder(byteorder)  # type: ignore[arg-type]
        np.save(place / "a.npy", np.array(values, kind, order=order))
        return _stored(place / "a.npy", np.load)

    return make


def raw(order: Literal["C", "F"] = "C", byteorder: str = "<", offset: int = 0) -> Make:
    def make(place: Path, values: Values, tile: tuple[int, ...]) -> Stored:
        kind = values.dtype.newbyteorder(byteorder)  # type: ignore[arg-type]
        front, end = bytes(range(250)) * 40, b"end" if offset else b""
        content = front[:offset] + values.astype(kind).tobytes(order) + end
        (place / "a.raw").write_bytes(content)
        about = {"shape": values.shape, "dtype": kind, "offset": offset, "order": order}

        def theirs(path: Path) -> Values:
            found = path.read_bytes()
            assert (found[:offset], found[len(found) - len(end) :]) == (front[:offset], end)
            flat = np.frombuffer(found, kind, values.size, offset)
            return flat.reshape(values.shape, order=order)

        return _stored(place / "a.raw", theirs, **about)

    return make


def netpbm(magic: str) -> Make:
    def make(place: Path, values: Values, tile: tuple[int, ...]) -> Stored:
        height, width, *samples = values.shape
        most = np.iinfo(values.dtype).max
        header = f"{magic} # as people write it\n{width} {height}\n{most}\n"
        if magic == "P7":
            extents = f"WIDTH {width}\nHEIGHT {height}\nDEPTH {samples[0] if samples else 1}\n"
            header = f"P7\n{extents}MAXVAL {most}\nENDHDR\n"
        path = place / "a.pnm"
        path.write_bytes(header.encode() + values.astype(values.dtype.newbyteorder(">")).tobytes())

        def theirs(path: Path) -> Values:
            kind = values.dtype.newbyteorder(">")
            return np.frombuffer(path.read_bytes(), kind, offset=len(header)).reshape(values.shape)

        return _stored(path, theirs)

    return make


def tiff(byteorder: str = "<", **options: Any) -> Make:
    def make(place: Path, values: Values, tile: tuple[int, ...]) -> Stored:
        with tifffile.TiffWriter(place / "a.tif", byteorder=byteorder) as file:
            file.write(values, photometric="minisblack", metadata=None, **options)
        return _stored(place / "a.tif", tifffile.imread)

    return make


def seen(make: Make, turn: Callable[[Any], Any], back: Callable[[Values], Values]) -> Make:
    """A view of another kind: `turn` gives it, and `back` undoes that."""

    def turned(place: Path, values: Values, tile: tuple[int, ...]) -> Stored:
        behind = np.ascontiguousarray(back(values)).reshape(back(values).shape)
        below = make(place, behind, tile[::-1] if behind.shape == values.shape[::-1] else tile)
        assert below.theirs is not None
        theirs = below.theirs
        return Stored(
            lambda mode: turn(below.open(mode)),
            below.path,
            lambda path: turn(theirs(path)),
            below.store,
        )

    return turned


def backwards(a: Any) -> Any:
    return a[(slice(None, None, -1),) * a.ndim]


def inside(a: Any) -> Any:
    return a[tuple(slice(2, n - 1) for n in a.shape)]


def around(values: Values) -> Values:
    return np.pad(values, [(2, 1)] * values.ndim) if values.ndim else values


def of_h5py(place: Path, values: Values, tile: tuple[int, ...]) -> Stored:
    def opened(mode: str) -> oc.Array:
        return oc.asarray(h5py.File(place / "a.h5", "r")["x"])

    fits = values.ndim > 0 and values.size > 0
    chunks = tuple(map(min, tile, values.shape)) if fits else None
    with h5py.File(place / "a.h5", "w") as file:
        file.create_dataset("x", data=values, chunks=chunks)
    return Stored(opened)


def hdf5(byteorder: str = "<", *, chunked: bool = False, **options: Any) -> Make:
    def make(place: Path, values: Values, tile: tuple[int, ...]) -> Stored:
        fits = chunked and values.ndim > 0 and values.size > 0
        how = {"chunks": tuple(map(min, tile, values.shape)), **options} if fits else {}
        kind = values.dtype.newbyteorder(byteorder)  # type: ignore[arg-type]
        with h5py.File(place / "a.h5", "w") as file:
            file.create_dataset("g/x", data=values.astype(kind), **how)
        return Stored(lambda mode: oc.open(place / "a.h5" / "g" / "x", mode))

    return make


def zipped(byteorder: str = "<", *, ours: bool = False, **options: Any) -> Make:
    def make(place: Path, values: Values, tile: tuple[int, ...]) -> Stored:
        if ours:
            oc.asarray(values).save(place / "a.zarr", tile=tile)
            with zipfile.ZipFile(place / "a.zip", "w") as file:
                for found in sorted((place / "a.zarr").rglob("*")):
                    file.write(found, found.relative_to(place / "a.zarr"))
            return Stored(lambda mode: oc.open(place / "a.zip", mode))
        chunks = tuple(min(t, max(n, 1)) for t, n in zip(tile, values.shape, strict=True))
        kind = values.dtype.newbyteorder(byteorder)  # type: ignore[arg-type]
        store = zarr.storage.ZipStore(place / "a.zip", mode="w")
        about: Any = {"shape": values.shape, "dtype": kind, "chunks": chunks, **options}
        zarr.create_array(store, name="g/x", **about)[...] = values
        store.close()
        return Stored(lambda mode: oc.open(place / "a.zip" / "g" / "x", mode))

    return make


def hdf5_of_ours(place: Path, values: Values, tile: tuple[int, ...]) -> Stored:
    oc.asarray(values).save(place / "a.h5/g/x")
    return Stored(lambda mode: oc.open(place / "a.h5/g/x", mode), place / "a.h5/g/x", told_by_h5py)


def told_by_h5py(path: Path) -> Values:
    """Of a data set in a group of a file, or in the file itself."""
    inside = path.name if path.parent.is_file() else f"{path.parent.name}/{path.name}"
    file = path.parent if path.parent.is_file() else path.parent.parent
    with h5py.File(file, "r") as found:
        return np.asarray(found[inside][()])


def of_zarr_python(place: Path, values: Values, tile: tuple[int, ...]) -> Stored:
    path = of_zarr()(place, values, tile).path
    return Stored(lambda mode: oc.asarray(zarr.open_array(path, mode="r")))


def of_dask(place: Path, values: Values, tile: tuple[int, ...]) -> Stored:
    chunks = tuple(min(t, max(n, 1)) for t, n in zip(tile, values.shape, strict=True))
    return Stored(lambda mode: oc.asarray(da.from_array(values, chunks=chunks)))


def foreign(make: Make, **facts: Any) -> Kind:
    return Kind(make, least="2MiB", at_once=True, **facts)


def picture(make: Make, samples: tuple[int, ...] = (1,), **facts: Any) -> Kind:
    return Kind(make, samples=samples, **{"dtypes": SAMPLES, **facts})


def elsewhere(make: Make) -> Kind:
    return Kind(make, writable=False, least="4MiB")


KINDS = {
    "zarr": Kind(ours(), checksums=True, at_once=True),
    "zarr frontiers": Kind(frontiers, checksums=True, at_once=True),
    "zarr by others": Kind(of_zarr(compressors=None), at_once=True),
    "zarr zstd": foreign(of_zarr()),
    "zarr gzip": foreign(ours("gzip:1"), checksums=True),
    "zarr blosc": foreign(ours("blosc")),
    "zarr shards": foreign(ours(shards)),
    "zarr 2": foreign(ours("none", 2)),
    "zarr 2 F": foreign(of_zarr(zarr_format=2, order="F")),
    "npy": Kind(npy()),
    "npy F": Kind(npy("F")),
    "npy big": Kind(npy(byteorder=">")),
    "raw": Kind(raw()),
    "raw F": Kind(raw("F")),
    "raw odd": Kind(raw("C", ">", 4099)),
    "pgm": picture(netpbm("P5")),
    "ppm": picture(netpbm("P6"), (3,)),
    "pam": picture(netpbm("P7"), (1, 2, 3, 4)),
    "tiff": picture(tiff(), dtypes=NUMBERS),
    "tiff strips": picture(tiff(">", rowsperstrip=7), dtypes=NUMBERS),
    "tiff tiles": picture(tiff(tile=(32, 16)), dtypes=NUMBERS, writable=False),
    "zarr frontiers.T": Kind(seen(frontiers, lambda a: a.T, np.transpose), at_once=True),
    "zarr.T": Kind(seen(ours(), lambda a: a.T, np.transpose), at_once=True),
    "npy[::-1]": Kind(seen(npy(), backwards, backwards)),
    "zarr[2:-1]": Kind(seen(ours(), inside, around), at_once=True),
    "raw F.T": Kind(seen(raw("F"), lambda a: a.T, np.transpose)),
    "hdf5": elsewhere(hdf5()),
    "hdf5 chunks": elsewhere(hdf5(">", chunked=True)),
    "hdf5 of ours": elsewhere(hdf5_of_ours),
    "hdf5 gzip": elsewhere(hdf5(chunked=True, compression="gzip")),
    "zip": elsewhere(zipped(compressors=None)),
    "zip 2 big": elsewhere(zipped(">", zarr_format=2, compressors=None)),
    "zip of ours": elsewhere(zipped(ours=True)),
    "zip zstd": elsewhere(zipped()),
    "h5py": elsewhere(of_h5py),
    "zarr-python": elsewhere(of_zarr_python),
    "dask": elsewhere(of_dask),
}

each_kind = pytest.mark.parametrize("name", KINDS)
each_writable = pytest.mark.parametrize("name", [n for n, kind in KINDS.items() if kind.writable])
on_disk = pytest.mark.parametrize("name", [n for n, k in KINDS.items() if k.least != "4MiB"])


# -- what is drawn ---------------------------------------------------------------------------------

# Each example makes files; what fails is small enough as it is.
several = settings(
    max_examples=15,
    deadline=None,
    database=None,
    print_blob=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)


@contextmanager
def workplace() -> Iterator[Path]:
    """A directory in memory where that can be: a sync costs nothing there."""
    shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with TemporaryDirectory(dir=shared, prefix="outcrop-test-") as name, oc.config(memory=PLENTY):
        yield Path(name)


@pytest.fixture
def place() -> Iterator[Path]:
    with workplace() as directory:
        yield directory


@st.composite
def shapes(draw: st.DrawFn, kind: Kind) -> tuple[int, ...]:
    if kind.samples is not None:
        height, width = [draw(st.one_of(st.just(1), st.integers(1, 200))) for _ in range(2)]
        samples = draw(st.sampled_from(kind.samples))
        return (height, width, samples) if samples > 1 else (height, width)
    ndim = draw(st.integers(0, 4))
    # Up to some 50 000 elements, in unequal extents, none and one among them.
    most = {0: 1, 1: 50_000, 2: 250, 3: 40, 4: 15}[ndim]
    extent = st.one_of(st.integers(0, most), st.integers(max(most // 2, 1), most), st.just(1))
    return tuple(draw(extent) for _ in range(ndim))


@st.composite
def keys(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[Any, ...]:
    key: list[Any] = []
    for extent in shape:
        kind = draw(st.sampled_from(["all", "box", "step", "index"]))
        if kind == "all" or extent == 0:
            key.append(slice(None))
        elif kind == "index":
            key.append(draw(st.integers(-extent, extent - 1)))
        elif kind == "box":
            start = draw(st.integers(0, extent))
            key.append(slice(start, draw(st.integers(start, extent))))
        else:
            bound = st.one_of(st.none(), st.integers(-extent - 2, extent + 2))
            step = draw(st.integers(1, max(extent, 1)))
            key.append(slice(draw(bound), draw(bound), draw(st.sampled_from([1, -1])) * step))
    if draw(st.booleans()):
        key.insert(draw(st.integers(0, len(key))), None)
    return tuple(key)


@st.composite
def tiles(draw: st.DrawFn, shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    tile = [draw(st.integers(1, max(extent + 3, 1))) for extent in shape]
    # Tiles of a kilobyte to 64: else the budget is too small, or there are too many files.
    while math.prod(tile) * itemsize > 40_000:
        widest = int(np.argmax(tile))
        tile[widest] = -(-tile[widest] // 2)
    for axis, extent in enumerate(shape):
        while math.prod(-(-n // t) for n, t in zip(shape, tile, strict=True)) > 100:
            if tile[axis] >= extent or math.prod(tile) * itemsize > 20_000:
                break
            tile[axis] *= 2
    return tuple(tile)


def values_of(shape: tuple[int, ...], dtype: str, seed: int) -> Values:
    """Any bits, not-a-number and denormals included."""
    chance = np.random.default_rng(seed)
    if dtype == "bool":
        return chance.integers(0, 2, shape).astype(bool)
    count = math.prod(shape) * np.dtype(dtype).itemsize
    return np.frombuffer(chance.bytes(count), dtype).reshape(shape).copy()


def drawn(data: st.DataObject, kind: Kind, place: Path) -> tuple[Values, Stored]:
    shape = data.draw(shapes(kind), label="shape")
    dtype = data.draw(st.sampled_from(kind.dtypes), label="dtype")
    values = values_of(shape, dtype, data.draw(st.integers(0, 99), label="seed"))
    tile = data.draw(tiles(shape, values.itemsize), label="tile")
    return values, kind.make(place, values, tile)


def budget(data: st.DataObject, kind: Kind) -> str:
    if kind.least != BUDGETS[0]:
        return kind.least
    return data.draw(st.sampled_from(BUDGETS), label="budget")


def same(found: Any, expected: Any) -> None:
    found, expected = np.asarray(found), np.asarray(expected)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    assert np.ascontiguousarray(found).tobytes() == np.ascontiguousarray(expected).tobytes()


# -- promises --------------------------------------------------------------------------------------


@each_kind
@given(data=st.data())
@several
def test_boxes_are_numpys(name: str, data: st.DataObject) -> None:
    kind = KINDS[name]
    with workplace() as place:
        values, stored = drawn(data, kind, place)
        array = stored.open("r")
        assert (array.shape, array.dtype, array.ndim) == (values.shape, values.dtype, values.ndim)
        with oc.config(memory=budget(data, kind)):
            for key in data.draw(
                st.lists(keys(values.shape), min_size=1, max_size=5), label="keys"
            ):
                expected = values[key]
                if expected.nbytes <= 100 << 10:
                    same(array[key].compute(), expected)
                out = np.empty(expected.shape, values.dtype)
                for where, block in array[key].tiles():
                    out[where] = block
                same(out, expected)
        stored.check(values)


def assign(array: oc.Array, expected: Values, data: st.DataObject) -> None:
    """Put values into boxes of both, in any order."""
    for i, key in enumerate(data.draw(st.lists(keys(expected.shape), max_size=5), label="keys")):
        value = values_of(expected[key].shape, expected.dtype.name, 100 + i)
        expected[key] = value
        array[key] = value
        if value.nbytes <= 100 << 10 and data.draw(st.booleans(), label="read"):
            same(array[key].compute(), expected[key])


@each_writable
@given(data=st.data())
@several
def test_what_is_assigned_is_there(name: str, data: st.DataObject) -> None:
    """In any order, to any boxes; for the same array, for the next to open it, and for others."""
    kind = KINDS[name]
    with workplace() as place:
        expected, stored = drawn(data, kind, place)
        array = stored.open("r+")
        with oc.config(memory=budget(data, kind)):
            assign(array, expected, data)
            array.close()
        stored.check(expected)


TARGETS: dict[str, dict[str, Any]] = {
    "out.zarr": {},
    "out.npy": {},
    "F.npy": {"order": "F"},
    "out.raw": {},
    "out.h5/x": {},
    "zstd.zarr": {"codecs": "zstd"},
    "2.zarr": {"zarr_format": 2, "codecs": "none"},
    "frontiers.zarr": {"layout": "frontier"},
}


def fitting(tile: tuple[int, ...], options: dict[str, Any]) -> tuple[int, ...]:
    """Tiles that have room for frontiers, where they are to have them."""
    return tuple(max(t, 2) for t in tile) if "layout" in options else tile


def reopened(path: Path, values: Values, options: dict[str, Any]) -> oc.Array:
    about: dict[str, Any] = {}
    if path.suffix == ".raw":
        about = {"shape": values.shape, "dtype": values.dtype, "order": options.get("order", "C")}
    return oc.open(path, **about)


def told_by_others(path: Path, expected: Values) -> Values:
    """What another library reads of an array that was made."""
    if path.suffix == ".npy":
        found = np.load(path)
        assert found.flags.f_contiguous if path.name == "F.npy" else found.flags.c_contiguous
        return np.asarray(found)
    if path.suffix == ".raw":
        return np.frombuffer(path.read_bytes(), expected.dtype).reshape(expected.shape)
    return told_by_h5py(path) if path.parent.suffix == ".h5" else _theirs(path)


@pytest.mark.parametrize("target", TARGETS)
@given(data=st.data())
@several
def test_what_is_made_is_what_was_assigned(target: str, data: st.DataObject) -> None:
    """Zero, where nothing was; and nobody sees it before it is complete."""
    kind = KINDS["npy"]
    shape = data.draw(shapes(kind), label="shape")
    dtype = data.draw(st.sampled_from(DTYPES), label="dtype")
    expected = np.zeros(shape, dtype)
    options = dict(TARGETS[target])
    if target.endswith("zarr"):
        options["tile"] = fitting(data.draw(tiles(shape, expected.itemsize), label="tile"), options)
    with workplace() as place:
        array = oc.create(place / target, shape, dtype, **options)
        with oc.config(memory="4MiB" if "codecs" in options else budget(data, kind)):
            assign(array, expected, data)
            assert not (place / target).exists()
            array.close()
        same(reopened(place / target, expected, options).compute(), expected)
        same(told_by_others(place / target, expected), expected)


VIEWS: dict[str, Callable[[Any], Any]] = {
    "all": lambda a: a,
    "transposed": lambda a: a.T,
    "backwards": backwards,
    "box": lambda a: a[tuple(slice(n // 4, n - n // 5) for n in a.shape)],
    "key": lambda a: a,
}
"""What is copied. What is empty for its key is in memory, and not planned."""


@each_kind
@given(data=st.data())
@several
def test_a_copy_moves_what_is_planned(name: str, data: st.DataObject) -> None:
    """Of any view to any target: its elements, within the budget, the bytes of the plan."""
    kind = KINDS[name]
    with workplace() as place:
        values, stored = drawn(data, kind, place)
        turn = data.draw(st.sampled_from(sorted(VIEWS)), label="view")
        key = data.draw(keys(values.shape), label="key") if turn == "key" else ...
        view, expected = VIEWS[turn](stored.open("r"))[key], VIEWS[turn](values)[key]
        target = data.draw(st.sampled_from(sorted(TARGETS)), label="target")
        options = dict(TARGETS[target])
        if target.endswith("zarr"):
            tile = data.draw(tiles(expected.shape, values.itemsize), label="to tile")
            options["tile"] = fitting(tile, options)
        compressed = "codecs" in options
        with oc.config(memory="4MiB" if compressed else budget(data, kind)):
            planned = {("target_order" if o == "order" else o): w for o, w in options.items()}
            is_planned = turn != "key" or 0 not in expected.shape
            plan = oc.plan(view, place / target, **planned) if is_planned else None
            result = view.save(place / target, **options)
            run = oc.last_run()
            assert run is not None
            assert run.peak_bytes <= oc.config().memory
            if plan is not None:
                by_others = view._source.is_read_by_others and plan.bytes_read > 0
                assert plan.is_exact is not (compressed or by_others)
                assert run.bytes_read == plan.bytes_read
                assert run.bytes_written <= plan.bytes_written
                assert compressed or run.bytes_written == plan.bytes_written
        with oc.config(memory=PLENTY):
            same(result.compute(), expected)
        same(told_by_others(place / target, expected), expected)


@each_kind
def test_small_arrays_of_every_type(name: str, place: Path) -> None:
    """Empty, without axes, of one element."""
    kind = KINDS[name]
    least = (3, 2) if kind.samples is None or 1 in kind.samples else (3, 2, 3)
    edges = [(), (0,), (0, 3), (2, 0, 1), (1,), (1, 1), (1, 1, 1), (1, 1, 3)]
    cases = [(shape, kind.dtypes[-1]) for shape in edges if kind.holds(shape)]
    for tried, (shape, dtype) in enumerate([*cases, *((least, dtype) for dtype in kind.dtypes)]):
        values = values_of(shape, dtype, tried)
        where = place / str(tried)
        where.mkdir()
        stored = kind.make(where, values, (1,) * len(shape))
        stored.check(values)
        for target, options in TARGETS.items():
            with oc.create(where / target, shape, dtype, **options) as made:
                made[...] = stored.open("r")
            same(reopened(where / target, values, options).compute(), values)
        if kind.writable:
            with stored.open("r+") as array:
                array[...] = values = values_of(shape, dtype, 100 + tried)
            stored.check(values)


def elements(kind: Kind) -> Values:
    """Small, and no zero among them."""
    shape = (23, 17) if kind.samples is None or 1 in kind.samples else (23, 17, 3)
    dtype = "uint16" if "float64" not in kind.dtypes else "float64"
    return np.arange(1, math.prod(shape) + 1).reshape(shape).astype(dtype)


def files_of(path: Path | None) -> list[Path]:
    assert path is not None
    return sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]


def holds_elements(file: Path) -> bool:
    return file.suffix not in (".json",) and not file.name.startswith(".")


@on_disk
def test_what_is_cut_off_is_an_error(name: str, place: Path) -> None:
    """Wherever it ends: never zeros, nor anything else that was not stored."""
    kind = KINDS[name]
    values = elements(kind)
    stored = kind.make(place, values, (8, 6))
    for file in files_of(stored.path):
        whole = file.read_bytes()
        behind = 3 if name == "raw odd" else 0
        for length in sorted({0, 1, len(whole) // 2, len(whole) - behind - 1}):
            file.write_bytes(whole[:length])
            try:
                found = stored.open("r").compute()
            except oc.OutcropError as error:
                assert "a." in str(error)
            else:
                assert not holds_elements(file), (file, length)
                same(found, values)
        file.write_bytes(whole)
    stored.check(values)


@pytest.mark.parametrize("name", [n for n, kind in KINDS.items() if kind.checksums])
def test_a_changed_bit_is_found(name: str, place: Path) -> None:
    kind = KINDS[name]
    values = elements(kind)
    stored = kind.make(place, values, (8, 6))
    assert stored.store is not None
    for file in filter(holds_elements, files_of(stored.path)):
        whole = bytearray(file.read_bytes())
        for at in (len(whole) // 2, len(whole) - 5):
            whole[at] ^= 16
            file.write_bytes(whole)
            with pytest.raises(oc.CorruptArrayError, match=r"a\.zarr"):
                stored.open("r").compute()
            assert len(stored.store().verify(False, None)) == 1
            whole[at] ^= 16
        file.write_bytes(whole)
    stored.check(values)


@contextmanager
def failing(rule: str) -> Iterator[None]:
    _native.inject_faults(rule)
    try:
        yield
    finally:
        _native.inject_faults(None)


FAULTS = [f"{kind}:{nth}" for kind in ("write", "sync", "rename") for nth in (1, 2, 3, 5, 9)]


@on_disk
def test_what_is_interrupted_is_old_or_new(name: str, place: Path) -> None:
    """A change that appears at once, and a replacement of anything by anything."""
    kind = KINDS[name]
    old, new = elements(kind), elements(kind)[::-1].copy()
    stored = kind.make(place, old, (8, 6))
    assert stored.path is not None
    path, kept = stored.path, place / "kept"
    put: Callable[[Path, Path], Any] = shutil.copytree if path.is_dir() else shutil.copy
    put(path, kept)

    def renew() -> None:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
        put(kept, path)

    def change() -> None:
        with stored.open("r+") as array:
            array[...] = new

    def fail() -> None:
        with suppress(ZeroDivisionError), stored.open("r+") as array:
            array[:5] = new[:5]
            raise ZeroDivisionError

    if kind.at_once:
        fail()
        stored.check(old)
        outcomes = set()
        for fault in FAULTS:
            error = None
            try:
                with failing(f"{fault}:enospc:once"):
                    change()
            except oc.OutcropError as raised:
                error = raised.with_traceback(None)
            found = stored.open("r").compute()
            outcome = "old" if found[0, 0] == old[0, 0] else "new"
            outcomes.add(outcome)
            same(found, old if outcome == "old" else new)
            assert error is not None or outcome == "new", fault
            # What is left is finished, or removed.
            with suppress(oc.OutcropError):
                stored.open("r+").close()
            stored.check(old if outcome == "old" else new)
            renew()
        assert outcomes == {"old", "new"}
    if name in ("zarr[2:-1]", "tiff tiles"):
        return
    for fault in FAULTS:
        other = oc.asarray(np.ascontiguousarray(new))
        try:
            with failing(f"{fault}:enospc:once"):
                other.save(path, overwrite=True)
        except oc.OutcropError:
            stored.check(old)
        else:
            renew()
        assert not [p for p in place.iterdir() if p.name.endswith(".outcrop-new")], fault


@pytest.mark.parametrize("name", [n for n in KINDS if n.startswith("zarr") and "-" not in n])
def test_labels_survive_a_copy(name: str, place: Path) -> None:
    kind = KINDS[name]
    path = kind.make(place, elements(kind), (8, 6)).path
    assert path is not None
    labelled = oc.open(path).save(
        place / "b.zarr",
        dimension_names=("y", "x"),
        fill_value=7,
        attributes={"units": "m", "nested": {"a": [1, None, "µ"]}},
    )
    for target, options in TARGETS.items():
        if not target.endswith("zarr"):
            continue
        made = labelled.save(place / target, **options)
        for found in (made, made.T.save(place / f"t-{target}", **options)):
            names = ("y", "x") if found is made else ("x", "y")
            # In version 2, it would be what is missing.
            fill = None if options.get("zarr_format") == 2 else 7
            assert (found.dimension_names, found.fill_value) == (names, fill)
            assert found.attributes == {"units": "m", "nested": {"a": [1, None, "µ"]}}
