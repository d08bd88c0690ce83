"""Data sets of HDF5 and NetCDF 4 files, against h5py's own reading."""

import json
import os
import shutil
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given as given_that
from hypothesis import settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import outcrop as oc

h5py = pytest.importorskip("h5py")

SHAPE = (300, 500)
CHUNK = (64, 96)

DTYPES = [
    *("bool", "uint8", "int8", "<u2", ">u2", "<i4", ">i4", "<i8", ">i8", "<u8", "<f4", ">f4"),
    *("<f8", ">f8", "<c8", ">c8", "<c16", ">c16"),
]

IN_PLACE: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "chunked": {"chunks": CHUNK},
    "growing": {"chunks": CHUNK, "maxshape": (None, None)},
    "one chunk beyond": {"chunks": (400, 600), "maxshape": (None, None)},
}

FILTERED: dict[str, dict[str, Any]] = {
    "deflate": {"chunks": CHUNK, "compression": "gzip"},
    # Chunks that hang over are as long as without the filter, and a file may say they go without.
    "shuffle": {"chunks": (60, 100), "shuffle": True},
    "fletcher32": {"chunks": CHUNK, "fletcher32": True},
    "all": {"chunks": CHUNK, "compression": "gzip", "shuffle": True, "fletcher32": True},
    "odd": {"chunks": (63, 95), "compression": "gzip", "fletcher32": True},
}

BY_H5PY: dict[str, dict[str, Any]] = {
    "lzf": {"chunks": CHUNK, "compression": "lzf"},
    "shuffled edges": {"chunks": CHUNK, "shuffle": True},
    "lzf and all": {"chunks": CHUNK, "compression": "lzf", "shuffle": True, "fletcher32": True},
}

WAYS = {**IN_PLACE, **FILTERED, **BY_H5PY}


def elements(dtype: str, shape: tuple[int, ...] = SHAPE) -> NDArray[Any]:
    kind = np.dtype(dtype)
    bits = np.random.default_rng(3).integers(0, 100, shape)
    if kind.kind == "b":
        return bits % 2 == 0
    return (bits + (1j * bits[::-1] if kind.kind == "c" else 0)).astype(kind)


def made(path: Path, given: NDArray[Any], **options: Any) -> Path:
    with h5py.File(path, "a") as file:
        file.create_dataset("x", data=given, **options)
    return path / "x"


@pytest.fixture(autouse=True)
def _small() -> Iterator[None]:
    with oc.config(memory="8MiB"):
        yield


# -- elements --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("way", IN_PLACE)
def test_plain_data_sets_are_read_where_they_lie(tmp_path: Path, way: str, dtype: str) -> None:
    given = elements(dtype)
    A = oc.open(made(tmp_path / "a.h5", given, **IN_PLACE[way]))
    assert (A.format, A.shape, A.path) == ("hdf5", SHAPE, tmp_path / "a.h5" / "x")
    assert A.dtype == given.dtype.newbyteorder("=") and A.layout != "memory"
    np.testing.assert_array_equal(A.compute(), given)
    np.testing.assert_array_equal(A[250:20:-3, 60:70].compute(), given[250:20:-3, 60:70])
    assert A[7, 499].compute() == given[7, 499]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("way", FILTERED)
def test_filters_are_undone_by_the_core(tmp_path: Path, way: str, dtype: str) -> None:
    given = elements(dtype)
    A = oc.open(made(tmp_path / "a.h5", given, **FILTERED[way]))
    assert (A.format, A.shape, A.tile) == ("hdf5", SHAPE, FILTERED[way]["chunks"])
    np.testing.assert_array_equal(A.compute(), given)
    np.testing.assert_array_equal(A[250:20:-3, 60:70].compute(), given[250:20:-3, 60:70])
    np.testing.assert_array_equal(A.T[60:70, ::-7].compute(), given.T[60:70, ::-7])


@pytest.mark.parametrize("dtype", ["bool", "uint8", ">i4", "<f4", ">f8", "<c16"])
@pytest.mark.parametrize("way", BY_H5PY)
def test_h5py_decodes_the_others(tmp_path: Path, way: str, dtype: str) -> None:
    given = elements(dtype)
    A = oc.open(made(tmp_path / "a.h5", given, **BY_H5PY[way]))
    assert (A.format, A.shape, A.layout) == ("hdf5", SHAPE, "tiled")
    np.testing.assert_array_equal(A.compute(), given)
    np.testing.assert_array_equal(A.T[60:70, ::-7].compute(), given.T[60:70, ::-7])


@pytest.mark.parametrize("memory", ["4MiB", "8MiB", "32MiB"])
@pytest.mark.parametrize("way", [*IN_PLACE, "all", "lzf"])
def test_what_is_planned_is_read(tmp_path: Path, way: str, memory: str) -> None:
    given = elements(">f8", (1500, 1100))
    options = WAYS[way]
    A = oc.open(made(tmp_path / "a.h5", given, **options))
    with oc.config(memory=memory):
        for result, wanted in [
            (A + 1, given + 1),
            (A.T * 2, given.T * 2),
            (A.sum(axis=0), given.sum(axis=0)),
            (A.T, given.T),
        ]:
            plan = oc.plan(result, tmp_path / "r.npy")
            assert plan.is_exact == (way not in BY_H5PY)
            assert plan.is_exact == ("another library reads" not in plan.explain())
            result.save(tmp_path / "r.npy", overwrite=True)
            least = given.nbytes if way not in FILTERED else A._source.stored_bytes
            assert oc.last_run().bytes_read == plan.bytes_read >= least
            if way in FILTERED:
                # Compressed, and no chunk read often.
                assert plan.bytes_read <= given.nbytes / 3
            np.testing.assert_allclose(np.load(tmp_path / "r.npy"), wanted, rtol=1e-14)


@settings(max_examples=60, deadline=None)
@given_that(st.data())
def test_any_chunks_filters_and_boxes(tmp_path_factory: Any, data: st.DataObject) -> None:
    axes = data.draw(st.integers(1, 4), label="axes")
    most = (3000, 120, 30, 12)[axes - 1]
    shape = tuple(data.draw(st.integers(1, most), label="shape") for _ in range(axes))
    chunks = tuple(data.draw(st.integers(-(-n // 5), n), label="chunk") for n in shape)
    options: dict[str, Any] = {
        "compression": data.draw(st.sampled_from([None, "gzip"]), label="compression"),
        "shuffle": data.draw(st.booleans(), label="shuffle"),
        "fletcher32": data.draw(st.booleans(), label="fletcher32"),
        "fillvalue": data.draw(st.sampled_from([None, 5]), label="fill"),
    }
    dtype = data.draw(st.sampled_from(["uint8", "<i2", ">i4", "<f8", ">f4"]), label="dtype")
    boxes = st.tuples(*(st.tuples(st.integers(0, n), st.integers(0, n)) for n in shape))
    part = tuple(slice(min(ends), max(ends)) for ends in data.draw(boxes, label="written"))
    wanted = tuple(slice(min(ends), max(ends)) for ends in data.draw(boxes, label="read"))
    path = tmp_path_factory.mktemp("any") / "a.h5"
    with h5py.File(path, "w") as file:
        x = file.create_dataset("x", shape, dtype, chunks=chunks, **options)
        x[part] = elements(dtype, shape)[part]
        given = x[...]
    with oc.config(memory=data.draw(st.sampled_from(["1MiB", "16MiB"]), label="budget")):
        A = oc.open(path / "x")
        np.testing.assert_array_equal(A.compute(), given)
        np.testing.assert_array_equal(A[wanted].compute(), given[wanted])
        plan = oc.plan(A + 1, path.parent / "r.npy")
        (A + 1).save(path.parent / "r.npy")
        assert oc.last_run().bytes_read == plan.bytes_read
        np.testing.assert_array_equal(np.load(path.parent / "r.npy"), given + 1)


def test_chunks_may_go_without_a_filter(tmp_path: Path) -> None:
    """As HDF5 stores what a filter would not make shorter: it says so of the chunk."""
    given = elements("<f8", (40, 30))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        options: dict[str, Any] = {"compression": "gzip", "shuffle": True}
        x = file.create_dataset("x", given.shape, given.dtype, chunks=(20, 10), **options)
        for place, mask in zip(np.ndindex(2, 3), (0, 1, 2, 3, 0, 3), strict=True):
            at = tuple(i * n for i, n in zip(place, (20, 10), strict=True))
            part = np.ascontiguousarray(given[at[0] : at[0] + 20, at[1] : at[1] + 10])
            # Bit 0: it was not shuffled; bit 1: it was not compressed.
            bytes_ = part.view("u1").reshape(-1, 8)
            encoded = (bytes_ if mask & 1 else np.ascontiguousarray(bytes_.T)).tobytes()
            x.id.write_direct_chunk(at, encoded if mask & 2 else zlib.compress(encoded), mask)
        np.testing.assert_array_equal(x[...], given)
    A = oc.open(tmp_path / "a.h5/x")
    assert A.tile == (20, 10)
    np.testing.assert_array_equal(A.compute(), given)
    np.testing.assert_array_equal((A.T * 2).compute(), given.T * 2)


@pytest.mark.parametrize("written_as", ["earliest", "v110", "latest"])
@pytest.mark.parametrize("options", [{}, {"compression": "gzip"}, {"shuffle": True}])
def test_data_sets_that_grow_along_any_axis(
    tmp_path: Path, written_as: str, options: dict[str, Any]
) -> None:
    """Of one axis that grows, and is not the first, HDF5 says offsets in another order."""
    for number, most in enumerate(
        [(6, None, 4), (6, 9, None), (None, 9, 4), (None, None, 4), (6, None, None), (None,) * 3]
    ):
        given = elements("<i4", (6, 9, 4))
        with h5py.File(tmp_path / f"{number}.h5", "w", libver=written_as) as file:
            for name, part in (("whole", slice(None)), ("part", slice(1, 3))):
                x = file.create_dataset(
                    name, given.shape, "i4", chunks=(2, 2, 3), maxshape=most, **options
                )
                x[:, part] = given[:, part]
            wanted = {name: file[name][...] for name in ("whole", "part")}
        for name, whole in wanted.items():
            A = oc.open(tmp_path / f"{number}.h5" / name)
            np.testing.assert_array_equal(A.compute(), whole)
            np.testing.assert_array_equal((A.T + 1).compute(), whole.T + 1)


@pytest.mark.parametrize("way", ["fletcher32", "deflate", "all"])
def test_the_least_budget_that_is_named_moves_large_chunks(tmp_path: Path, way: str) -> None:
    given = elements("<c16", (264_390,))
    options = {**WAYS[way], "chunks": (132_195,)}
    place = made(tmp_path / "a.h5", given, **options)
    for target in ("r.npy", "r.h5/x"):
        with oc.config(memory="1MiB"), pytest.raises(oc.BudgetError) as caught:
            oc.open(place).save(tmp_path / target)
        with oc.config(memory=caught.value.needed):
            oc.open(place).save(tmp_path / target)
        np.testing.assert_array_equal(oc.open(tmp_path / target).compute(), given)


def test_chunks_that_grow_by_their_filters(tmp_path: Path) -> None:
    """Noise becomes longer by deflate, and checksums come behind that."""
    given = np.frombuffer(np.random.default_rng(1).bytes(40_000), "u1").reshape(200, 200)
    for number, level in enumerate((1, 4, 9)):
        options: dict[str, Any] = {"compression": "gzip", "compression_opts": level}
        place = made(tmp_path / f"{number}.h5", given, chunks=(7, 9), fletcher32=True, **options)
        np.testing.assert_array_equal(oc.open(place).compute(), given)


@pytest.mark.parametrize("way", ["all", "odd"])
def test_every_flipped_bit_is_found(tmp_path: Path, way: str) -> None:
    given = elements("<i4", (66, 100))
    made(tmp_path / "a.h5", given, **FILTERED[way])
    with h5py.File(tmp_path / "a.h5") as file:
        at = file["x"].id.get_chunk_info(0)
    content = bytearray((tmp_path / "a.h5").read_bytes())
    for bit in range(0, 8 * at.size, 1009):
        content[at.byte_offset + bit // 8] ^= 1 << bit % 8
        (tmp_path / "b.h5").write_bytes(content)
        with pytest.raises(oc.CorruptArrayError, match=r"chunk \(0, 0\) is damaged"):
            oc.open(tmp_path / "b.h5/x").compute()
        content[at.byte_offset + bit // 8] ^= 1 << bit % 8


def test_plugins_for_zstandard_and_blosc(tmp_path: Path) -> None:
    plugins = pytest.importorskip("hdf5plugin")
    given = elements("<f4")
    ways = {"zstd": plugins.Zstd(clevel=3), "lz4": plugins.LZ4(), "bits": plugins.Bitshuffle()}
    for cname in ("blosclz", "lz4", "zlib", "zstd"):
        for shuffle in (0, 1, 2):
            ways[f"blosc {cname} {shuffle}"] = plugins.Blosc(cname=cname, shuffle=shuffle)
    for name, options in ways.items():
        A = oc.open(made(tmp_path / f"{name}.h5", given, chunks=CHUNK, **options))
        # What the core has no decoder for is h5py's, in tiles of our own.
        assert (A.tile == CHUNK) == (name not in ("lz4", "bits"))
        np.testing.assert_array_equal(A.compute(), given)
        np.testing.assert_array_equal(A[250:20:-3, 60:70].compute(), given[250:20:-3, 60:70])


def test_no_more_of_the_file_is_read_than_its_elements_have(tmp_path: Path) -> None:
    given = elements("<f8", (1024, 1024))
    for number, options in enumerate(({}, {"chunks": (256, 256)})):
        A = oc.open(made(tmp_path / f"{number}.h5", given, **options))
        (A + 1).save(tmp_path / "r.zarr", overwrite=True)
        # Blocks of the disk in which parts begin and end.
        assert given.nbytes <= oc.last_run().bytes_read <= 1.05 * given.nbytes


def test_odd_shapes(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["point"] = 3.5
        file.create_dataset("none", (0, 7), "f4")
        file.create_dataset("none in chunks", (0, 7), "f4", chunks=(2, 2), maxshape=(None, 7))
        file.create_dataset("line", data=np.arange(1000, dtype="i2"), chunks=(7,))
        file.create_dataset("deep", data=np.arange(720.0).reshape(2, 3, 4, 5, 6), chunks=(1,) * 5)
        file.create_dataset("empty", data=h5py.Empty("f4"))
    with h5py.File(tmp_path / "a.h5") as file:
        for name in ("point", "none", "none in chunks", "line", "deep"):
            found = oc.open(tmp_path / "a.h5" / name).compute()
            np.testing.assert_array_equal(found, file[name][()])
            assert found.dtype == file[name].dtype and found.shape == file[name].shape
    with pytest.raises(oc.UnsupportedError, match="no shape"):
        oc.open(tmp_path / "a.h5" / "empty")


@pytest.mark.parametrize("fill", [None, 0, 7])
@pytest.mark.parametrize("dtype", ["<i4", ">f8"])
def test_chunks_that_were_never_written_have_the_fill_value(
    tmp_path: Path, dtype: str, fill: int | None
) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, options in [("c", {"chunks": CHUNK}), ("z", FILTERED["all"]), ("never", {})]:
            made_here = file.create_dataset(name, SHAPE, dtype, fillvalue=fill, **options)
            if name != "never":
                made_here[100:150, 200:333] = 5
    with h5py.File(tmp_path / "a.h5") as file:
        for name in ("c", "z", "never"):
            A = oc.open(tmp_path / "a.h5" / name)
            np.testing.assert_array_equal(A.compute(), file[name][()])
            assert A.fill_value == fill
            assert A.fill_value is None or A.fill_value.dtype == A.dtype


def test_types_that_are_packed_are_converted(tmp_path: Path) -> None:
    """Twelve bits of sixteen, an enumeration, and parts of complex numbers in another order."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        packed = h5py.h5t.STD_I16LE.copy()
        packed.set_precision(12)
        packed.set_offset(4)
        space = h5py.h5s.create_simple((4,))
        twelve = h5py.Dataset(h5py.h5d.create(file.id, b"twelve", packed, space))
        twelve[...] = [1, -2, 2047, -2048]
        names = h5py.enum_dtype({"RED": 0, "GREEN": 5}, "i1")
        file.create_dataset("colors", data=[5, 0, 5], dtype=names)
    assert oc.open(tmp_path / "a.h5/twelve").compute().tolist() == [1, -2, 2047, -2048]
    assert oc.open(tmp_path / "a.h5/colors").compute().tolist() == [5, 0, 5]


def test_compact_and_virtual_data_sets_and_user_blocks(tmp_path: Path) -> None:
    given = elements("<f8")
    with h5py.File(tmp_path / "a.h5", "w", userblock_size=1024) as file:
        file["x"] = given
        file.create_dataset("c", data=given, chunks=CHUNK)
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple((10,))
        one = h5py.h5d.create(file.id, b"compact", h5py.h5t.NATIVE_DOUBLE, space, plist)
        h5py.Dataset(one)[...] = np.arange(10.0)
        layout = h5py.VirtualLayout(SHAPE, "<f8")
        layout[:100] = h5py.VirtualSource(file["x"])[200:]
        file.create_virtual_dataset("virtual", layout, fillvalue=-1)
    with h5py.File(tmp_path / "a.h5") as file:
        for name in ("x", "c", "compact", "virtual"):
            found = oc.open(tmp_path / "a.h5" / name).compute()
            np.testing.assert_array_equal(found, file[name][()])


def test_everything_that_takes_arrays_takes_them(tmp_path: Path) -> None:
    given = elements("<f8", (400, 300))
    for way in ("contiguous", "chunked", "all", "lzf"):
        place = made(tmp_path / f"{way}.h5", given, **WAYS[way])
        A = oc.open(place)
        np.testing.assert_allclose((A.T @ A).compute(), given.T @ given)
        oc.transpose(place, tmp_path / "t.npy", overwrite=True)
        np.testing.assert_array_equal(np.load(tmp_path / "t.npy"), given.T)
        np.testing.assert_array_equal(A[A[:, 0] > 50].compute(), given[given[:, 0] > 50])
        blocks = [block for _, block in A.tiles()]
        assert sum(block.size for block in blocks) == given.size


# -- labels ----------------------------------------------------------------------------------------


def of_netcdf(path: Path, **options: Any) -> Path:
    """As netCDF4 writes it: scales of the dimensions, variables among them, and one without."""
    with h5py.File(path, "w") as file:
        for name, size in (("time", 4), ("lat", 30)):
            file[name] = np.arange(float(size))
            file[name].make_scale(name)
        file.create_dataset("nv", (5,), ">f4")
        file["nv"].make_scale("This is a netCDF dimension but not a netCDF variable.         5")
        heat = file.create_dataset(
            "heat", data=np.ones((4, 30, 5), "f4"), fillvalue=np.float32(-9), **options
        )
        for axis, name in enumerate(("time", "lat", "nv")):
            heat.dims[axis].attach_scale(file[name])
        heat.attrs["units"] = "K"
        heat.attrs["scale_factor"] = np.array([0.5])
        heat.attrs["_FillValue"] = np.array([-9], "f4")
        heat.attrs["_Netcdf4Dimid"] = 0
    return path


@pytest.mark.parametrize("options", [{}, {"chunks": (2, 10, 5)}, {"compression": "gzip"}])
def test_names_attributes_and_fill_values_come_along(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    A = oc.open(of_netcdf(tmp_path / "a.nc", **options) / "heat")
    assert A.dimension_names == ("time", "lat", "nv")
    assert A.attributes == {"units": "K", "scale_factor": [0.5], "_FillValue": [-9.0]}
    assert A.fill_value == np.float32(-9)
    # Nothing is scaled.
    assert A[0, 0, 0].compute() == 1
    saved = A[0].T.save(tmp_path / "s.zarr")
    assert saved.dimension_names == ("nv", "lat") and saved.fill_value == -9
    assert saved.attributes["units"] == "K"
    time = oc.open(tmp_path / "a.nc/time")
    assert time.dimension_names == ("time",) and time.attributes == {}
    with h5py.File(tmp_path / "a.nc") as file:
        assert oc.asarray(file["heat"]).dimension_names == A.dimension_names


def test_xarray_reads_the_same(tmp_path: Path) -> None:
    zarr, xarray = pytest.importorskip("zarr"), pytest.importorskip("xarray")
    of_netcdf(tmp_path / "a.nc")
    zarr.open_group(tmp_path / "g.zarr", mode="w")
    for name in ("heat", "time", "lat"):
        oc.open(tmp_path / "a.nc" / name).save(tmp_path / "g.zarr" / name)
    found = xarray.open_zarr(tmp_path / "g.zarr", consolidated=False)
    assert found["heat"].dims == ("time", "lat", "nv")
    assert found["heat"].values[0, 0, 0] == 0.5


# -- names -----------------------------------------------------------------------------------------


def test_a_file_of_one_data_set_needs_no_name(tmp_path: Path) -> None:
    given = elements("<f8")
    made(tmp_path / "a.h5", given)
    os.rename(tmp_path / "a.h5", tmp_path / "noname.dat")
    for format in (None, "hdf5"):
        A = oc.open(tmp_path / "noname.dat", format=format)
        assert A.path == tmp_path / "noname.dat" / "x"
        np.testing.assert_array_equal(A.compute(), given)
    # Whoever describes it, knows.
    raw = oc.open(tmp_path / "noname.dat", shape=8, dtype="u1")
    assert bytes(raw.compute()) == b"\x89HDF\r\n\x1a\n"


def test_groups_and_links(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = np.arange(3)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["g/h/x"] = np.arange(5)
        file["soft"] = h5py.SoftLink("g/h")
        file["g/back"] = h5py.SoftLink("/soft/x")
        file["g/around"] = h5py.SoftLink("/g/around")
        file["away"] = h5py.ExternalLink("other.h5", "/x")
        file["by way"] = h5py.SoftLink("/away")
        file["g/h/up"] = file["g"]
    for name in ("g/h/x", "g//h/x", "soft/x", "g/back", "g/h/up/h/x", "g", "g/h", ""):
        assert oc.open(str(tmp_path / "a.h5") + "/" + name).compute().tolist() == [*range(5)]
    for name in ("away", "by way"):
        with pytest.raises(oc.UnsupportedError, match="link to another file"):
            oc.open(tmp_path / "a.h5" / name)
    with pytest.raises(oc.CorruptArrayError, match="circle"):
        oc.open(tmp_path / "a.h5/g/around")


def test_what_is_not_there_says_what_is(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["g/x"], file["y"] = np.arange(5), np.arange(5)
        file.create_group("bare")
        file["words"] = ["a", "b"]
        file["table"] = np.zeros(3, [("a", "i4"), ("b", "f8")])
        file["type"] = np.dtype("f8")
        file["half"] = np.zeros(3, "f2")
    for name in ("z", "g/x/y", "bare/x"):
        with pytest.raises(oc.ArrayNotFoundError, match=r"no .* in it; it holds g/x, half"):
            oc.open(tmp_path / "a.h5" / name)
    with pytest.raises(oc.InvalidArgumentError, match=r"not one array: .*g/x.*such as .*/g/x"):
        oc.open(tmp_path / "a.h5")
    with pytest.raises(oc.InvalidArgumentError, match="holds no data set"):
        oc.open(tmp_path / "a.h5/bare")
    for name in ("words", "table", "type", "half"):
        with pytest.raises(oc.UnsupportedError, match=name):
            oc.open(tmp_path / "a.h5" / name)
    with pytest.raises(oc.ArrayNotFoundError):
        oc.open(tmp_path / "none.h5/x")


def test_other_files_are_not_followed(tmp_path: Path) -> None:
    """Neither by external storage nor by virtual data sets, not even by way of one of the file."""
    (tmp_path / "secret").write_bytes(bytes(80))
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = np.arange(10.0)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("outside", (10,), "f8", external=[(tmp_path / "secret", 0, 80)])
        layout = h5py.VirtualLayout((10,), "f8")
        layout[:] = h5py.VirtualSource(tmp_path / "other.h5", "x", (10,))
        file.create_virtual_dataset("virtual", layout)
        layout = h5py.VirtualLayout((10,), "f8")
        layout[:] = h5py.VirtualSource(".", "virtual", (10,))
        file.create_virtual_dataset("twice", layout)
    for name, what in (("outside", "secret"), ("virtual", "other.h5"), ("twice", "virtual")):
        with pytest.raises(oc.UnsupportedError, match=f"other files.*{what}"):
            oc.open(tmp_path / "a.h5" / name)


# -- reading only ----------------------------------------------------------------------------------


def test_data_sets_are_not_changed_where_they_lie(tmp_path: Path) -> None:
    place = made(tmp_path / "a.h5", elements("<f8"))
    before = (tmp_path / "a.h5").read_bytes()
    A = oc.open(place)
    with pytest.raises(oc.UnsupportedError, match=r"not changed where they lie; A\.save"):
        oc.open(place, "r+")
    with pytest.raises(oc.InvalidArgumentError, match="not changed where they lie"):
        A[0] = 1
    assert (tmp_path / "a.h5").read_bytes() == before


def test_the_file_that_is_read_is_not_replaced(tmp_path: Path) -> None:
    made(tmp_path / "a", elements("<f8"))
    with pytest.raises(oc.InvalidArgumentError, match="holds what is to be saved"):
        oc.open(tmp_path / "a/x").save(tmp_path / "a", overwrite=True)


def test_options_of_other_formats_are_refused(tmp_path: Path) -> None:
    place = made(tmp_path / "a.h5", elements("<f8"))
    for options in ({"page": 1}, {"offset": 8}):
        with pytest.raises(oc.InvalidArgumentError, match="is not for data sets of HDF5"):
            oc.open(place, **options)
    with pytest.raises(oc.InvalidArgumentError, match="describe raw files"):
        oc.open(place, shape=3, dtype="f8", format="hdf5")
    np.save(tmp_path / "a.npy", np.arange(3))
    with pytest.raises(oc.CorruptArrayError, match="is no HDF5 file"):
        oc.open(tmp_path / "a.npy", format="hdf5")


def test_without_h5py_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = made(tmp_path / "a.h5", elements("<f8"))
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(oc.UnsupportedError, match=r"h5py.*outcrop\[hdf5\]"):
        oc.open(place)


# -- changes and damage ----------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["contiguous", "chunked", "all", "lzf"])
def test_a_change_is_noticed(tmp_path: Path, way: str) -> None:
    given = elements("<f8")
    options = WAYS[way]
    place = made(tmp_path / "a.h5", given, **options)
    A = oc.open(place)
    B = A + 1
    np.testing.assert_array_equal(B.compute(), given + 1)
    made(tmp_path / "b.h5", given * 2, **options)
    os.replace(tmp_path / "b.h5", tmp_path / "a.h5")
    with pytest.raises(oc.StaleOperandError, match="changed"):
        B.compute()
    np.testing.assert_array_equal(A.compute(), given * 2)


@pytest.mark.parametrize("way", ["contiguous", "chunked"])
def test_a_change_by_h5py_is_noticed(tmp_path: Path, way: str) -> None:
    given = elements("<f8")
    place = made(tmp_path / "a.h5", given, **IN_PLACE[way])
    A = oc.open(place)
    B = A + 1
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        file["x"][3:5] = 77
    with pytest.raises(oc.StaleOperandError, match="changed"):
        B.compute()
    assert (A[3:5].compute() == 77).all() and A[5, 5].compute() == given[5, 5]


def test_a_file_that_another_is_copied_over(tmp_path: Path) -> None:
    """HDF5 went on reading where chunks had been, as long as anything had the file open."""
    given = elements("<f8")
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["before"] = np.arange(1000)
        file.create_dataset("x", data=given * 2, **FILTERED["deflate"])
        file.create_dataset("y", data=given * 3, **FILTERED["deflate"])
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=given, **FILTERED["deflate"])
        file.create_dataset("y", data=given, **FILTERED["deflate"])
    A, B = oc.open(tmp_path / "a.h5/x"), oc.open(tmp_path / "a.h5/y")
    C = A + B
    np.testing.assert_array_equal(C.compute(), 2 * given)
    shutil.copy(tmp_path / "b.h5", tmp_path / "a.h5")
    with pytest.raises(oc.StaleOperandError, match="changed"):
        C.compute()
    np.testing.assert_array_equal(A.compute(), 2 * given)
    np.testing.assert_array_equal(B.compute(), 3 * given)
    np.testing.assert_array_equal((A + B).compute(), 5 * given)


def test_a_file_that_is_being_written_says_so(tmp_path: Path) -> None:
    place = made(tmp_path / "a.h5", elements("<f8"))
    script = (
        "import h5py, sys\n"
        f"with h5py.File({str(tmp_path / 'a.h5')!r}, 'r+'):\n"
        "    print('open', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None and writer.stdin is not None
        writer.stdout.readline()
        with pytest.raises(oc.ArrayBusyError, match="locked"):
            oc.open(place)
        writer.stdin.close()
    assert oc.open(place).shape == SHAPE


@pytest.mark.parametrize("way", [*IN_PLACE, "deflate", "fletcher32"])
def test_what_is_cut_off_is_an_error(tmp_path: Path, way: str) -> None:
    made(tmp_path / "a.h5", elements("<f8", (66, 100)), **WAYS[way])
    whole = (tmp_path / "a.h5").read_bytes()
    for length in (8, 100, 600, 2048, len(whole) // 2, len(whole) - 1):
        (tmp_path / "b.h5").write_bytes(whole[:length])
        with pytest.raises(oc.OutcropError):
            oc.open(tmp_path / "b.h5/x").compute()
    with pytest.raises(oc.CorruptArrayError, match="no sound HDF5"):
        oc.open(tmp_path / "b.h5/x")


@pytest.mark.parametrize(
    ("way", "read_by", "message", "said_of_it"),
    [
        ("all", oc.CorruptArrayError, r"chunk \(0, 5\) is damaged: .*checksum", "chunk (0, 5)"),
        ("lzf and all", oc.StorageError, r"'/x' of '.*a.h5': .* cannot be read", "cannot be read"),
    ],
)
def test_chunks_that_are_damaged(
    tmp_path: Path, way: str, read_by: type[Exception], message: str, said_of_it: str
) -> None:
    given = elements("<f8")
    made(tmp_path / "a.h5", given, **WAYS[way])
    with h5py.File(tmp_path / "a.h5") as file:
        at = file["x"].id.get_chunk_info(5)
    content = bytearray((tmp_path / "a.h5").read_bytes())
    content[at.byte_offset + at.size // 2] ^= 0x55
    (tmp_path / "a.h5").write_bytes(content)
    A = oc.open(tmp_path / "a.h5/x")
    for read in (A.compute, (A + 1).compute, lambda: A.save(tmp_path / "r.zarr")):
        with pytest.raises(read_by, match=message):
            read()
    assert not (tmp_path / "r.zarr").exists()
    said = command("verify", tmp_path / "a.h5/x", status=1).stderr
    assert "1 damaged tile" in said and said_of_it in said
    np.testing.assert_array_equal(A[:60, :90].compute(), given[:60, :90])


def test_offsets_that_make_no_sense(tmp_path: Path) -> None:
    """The places of chunks, wherever in the file they are said."""
    made(tmp_path / "a.h5", elements("<i4"), chunks=(100, 500))
    with h5py.File(tmp_path / "a.h5") as file:
        infos = [file["x"].id.get_chunk_info(i) for i in range(3)]
    whole = (tmp_path / "a.h5").read_bytes()
    first, second = (info.byte_offset.to_bytes(8, "little") for info in infos[:2])
    for wrong in (second, (len(whole) - 100).to_bytes(8, "little"), (0).to_bytes(8, "little")):
        place = whole.index(first, 1000)
        (tmp_path / "b.h5").write_bytes(whole[:place] + wrong + whole[place + 8 :])
        with pytest.raises(oc.CorruptArrayError):
            oc.open(tmp_path / "b.h5/x")


def test_bytes_at_random_give_elements_or_errors_of_ours(tmp_path: Path) -> None:
    made(tmp_path / "a.h5", elements("<i4", (40, 50)), chunks=(16, 16))
    whole = np.frombuffer((tmp_path / "a.h5").read_bytes(), "u1")
    rng = np.random.default_rng(11)
    for _ in range(150):
        content = whole.copy()
        content[rng.integers(0, 2600, 3)] = rng.integers(0, 256, 3)
        (tmp_path / "b.h5").write_bytes(content.tobytes())
        try:
            found = oc.open(tmp_path / "b.h5/x")
            if found.nbytes < 1 << 20:
                found.compute()
        except oc.OutcropError:
            pass


def test_what_is_no_hdf5(tmp_path: Path) -> None:
    (tmp_path / "a.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(600))
    with pytest.raises(oc.CorruptArrayError, match="no sound HDF5"):
        oc.open(tmp_path / "a.h5")
    (tmp_path / "a.h5").write_bytes(bytes(range(1, 200)))
    with pytest.raises(oc.OutcropError):
        oc.open(tmp_path / "a.h5")
    with pytest.raises(oc.OutcropError):
        oc.open(tmp_path / "a.h5/x")
    os.mkfifo(tmp_path / "p.h5")
    with pytest.raises(oc.StorageError, match="named pipe"):
        oc.open(tmp_path / "p.h5")


def test_a_filter_that_h5py_lacks_is_named(tmp_path: Path) -> None:
    if h5py.h5z.filter_avail(32008):
        pytest.skip("it is there")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((10,))
        plist.set_filter(32008, h5py.h5z.FLAG_OPTIONAL, (0, 2))
        space = h5py.h5s.create_simple((20,))
        one = h5py.h5d.create(file.id, b"x", h5py.h5t.NATIVE_DOUBLE, space, plist)
        one.write_direct_chunk((0,), b"1234567890")
    with pytest.raises(oc.UnsupportedError, match=r"bitshuffle \(filter 32008\)"):
        oc.open(tmp_path / "a.h5/x")


# -- the command -----------------------------------------------------------------------------------


def command(*words: Any, status: int = 0) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "outcrop", *map(str, words)]
    done = subprocess.run(line, capture_output=True, text=True)
    assert done.returncode == status, done
    return done


def test_the_command(tmp_path: Path) -> None:
    of_netcdf(tmp_path / "a.nc", **FILTERED["deflate"] | {"chunks": (2, 10, 5)})
    with h5py.File(tmp_path / "a.nc", "a") as file:
        file["g/h/x"] = np.arange(6, dtype=">i4").reshape(2, 3)
    out = command("info", tmp_path / "a.nc").stdout.splitlines()
    assert out[0] == str(tmp_path / "a.nc") and out[1].split() == ["format", "hdf5"]
    assert "  g/" in out and "    h/" in out and "      x  2 x 3, >i4, contiguous" in out
    heat = "  heat  4 x 30 x 5, float32, chunked 2 x 10 x 5, deflate, (time, lat, nv)"
    assert heat in out
    facts = command("info", "--json", tmp_path / "a.nc", tmp_path / "a.nc/g/h/x").stdout
    tree, one = (json.loads(line) for line in facts.splitlines())
    assert [found["name"] for found in tree["datasets"]] == ["g/h/x", "heat", "lat", "nv", "time"]
    assert (one["format"], one["shape"], one["codecs"]) == ("hdf5", [2, 3], "big-endian")
    out = command("info", tmp_path / "a.nc/heat").stdout
    assert "deflate" in out and "time, lat, nv" in out and "units" in out
    command("convert", tmp_path / "a.nc/g/h/x", tmp_path / "x.npy")
    assert np.load(tmp_path / "x.npy").tolist() == [[0, 1, 2], [3, 4, 5]]
    assert "sound" in command("verify", tmp_path / "a.nc/heat").stdout
    for target in ("y", "y.nc"):
        refused = command("copy", tmp_path / "a.nc/heat", tmp_path / target, status=2)
        assert "convert" in refused.stderr
    missing = command("info", tmp_path / "a.nc/none", status=1)
    assert "it holds g/h/x, heat" in missing.stderr


def test_files_are_closed_when_they_are_read_no_more(tmp_path: Path) -> None:
    given = elements("<f8")
    for way in ("contiguous", "all", "lzf"):
        place = made(tmp_path / f"{way}.h5", given, **WAYS[way])
        A = oc.open(place)
        A.compute()
        A.close()
        with pytest.raises(oc.ClosedArrayError):
            A.compute()
        del A
        with h5py.File(tmp_path / f"{way}.h5", "r+") as file:
            file["x"][0] = 1
        shutil.copy(tmp_path / f"{way}.h5", tmp_path / "copy.h5")
        assert (oc.open(tmp_path / "copy.h5")[0].compute() == 1).all()
