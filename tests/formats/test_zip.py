"""Zarr arrays in zip archives, against Zarr-Python's own reading."""

import json
import os
import pickle
import shutil
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outcrop as oc

from .archives import BY_ZARR, CHUNK, DTYPES, ENCODED, IN_PLACE, SHAPE, WAYS, elements, made, packed

zarr = pytest.importorskip("zarr")


@pytest.fixture(autouse=True)
def _small() -> Iterator[None]:
    with oc.config(memory="8MiB"):
        yield


# -- elements --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("way", IN_PLACE)
def test_chunks_without_codecs_are_read_where_they_lie(
    tmp_path: Path, way: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = elements(dtype)
    place = made(tmp_path / "a.zarr.zip", given, **IN_PLACE[way])
    # Nothing of it goes through Zarr-Python.
    monkeypatch.setitem(sys.modules, "zarr", None)
    A = oc.open(place)
    assert (A.format, A.shape, A.path) == ("zip", SHAPE, place)
    assert A.dtype == given.dtype.newbyteorder("=") and A.tile == CHUNK
    np.testing.assert_array_equal(A.compute(), given)
    np.testing.assert_array_equal(A[250:20:-3, 60:70].compute(), given[250:20:-3, 60:70])
    assert A[7, 499].compute() == given[7, 499]


@pytest.mark.parametrize("dtype", ["bool", "uint8", ">i4", "<f4", ">f8", "<c16"])
@pytest.mark.parametrize("way", ENCODED)
def test_codecs_are_undone_by_the_core(
    tmp_path: Path, way: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = elements(dtype)
    if way == "2 shuffle" and given.itemsize == 1:
        pytest.skip("there is nothing to shuffle")
    place = made(tmp_path / "a.zip", given, "g/x", **ENCODED[way])
    monkeypatch.setitem(sys.modules, "zarr", None)
    A = oc.open(place)
    assert (A.format, A.shape, A.tile) == ("zip", SHAPE, CHUNK)
    np.testing.assert_array_equal(A.compute(), given)
    np.testing.assert_array_equal(A.T[60:70, ::-7].compute(), given.T[60:70, ::-7])


@pytest.mark.parametrize("dtype", ["bool", "uint8", ">i4", "<f4", ">f8", "<c16"])
@pytest.mark.parametrize("way", BY_ZARR)
def test_zarr_python_decodes_the_others(tmp_path: Path, way: str, dtype: str) -> None:
    given = elements(dtype)
    A = oc.open(made(tmp_path / "a.zip", given, "g/x", **BY_ZARR[way]))
    assert (A.format, A.shape, A.layout) == ("zip", SHAPE, "tiled")
    np.testing.assert_array_equal(A.compute(), given)
    np.testing.assert_array_equal(A.T[60:70, ::-7].compute(), given.T[60:70, ::-7])
    np.testing.assert_array_equal((A[:] == A).all().compute(), True)


@pytest.mark.parametrize("memory", ["4MiB", "8MiB", "32MiB"])
@pytest.mark.parametrize("way", ["plain", "crc32c", "2", "zstd", "shards"])
def test_what_is_planned_is_read(tmp_path: Path, way: str, memory: str) -> None:
    given = elements(">f8", (1500, 1100))
    A = oc.open(made(tmp_path / "a.zip", given, **WAYS[way]))
    with oc.config(memory=memory):
        for result, wanted in [
            (A + 1, given + 1),
            (A.T * 2, given.T * 2),
            (A.sum(axis=0), given.sum(axis=0)),
            (A.T, given.T),
        ]:
            plan = oc.plan(result, tmp_path / "r.npy")
            result.save(tmp_path / "r.npy", overwrite=True)
            least = given.nbytes if way not in ENCODED else A._source.stored_bytes
            assert oc.last_run().bytes_read == plan.bytes_read >= least
            assert plan.is_exact == (way not in BY_ZARR)
            np.testing.assert_allclose(np.load(tmp_path / "r.npy"), wanted, rtol=1e-14)


COUNTING = """
import json, sys
import outcrop as oc

def counted():
    lines = open("/proc/self/io").read().split("\\n")
    return int(dict(line.split(": ") for line in lines if line)["read_bytes"])

oc.config(memory="8MiB", threads=2)
result = oc.open("a.zip") + 1
plan = oc.plan(result, "out.zarr")
before = counted()
result.save("out.zarr")
print(json.dumps([counted() - before, plan.bytes_read, oc.last_run().bytes_read]))
"""


def test_the_kernel_counts_the_same(tmp_path: Path) -> None:
    given = elements("<f8", (1024, 1024))
    made(tmp_path / "a.zip", given, compressors=None, chunks=(256, 256))
    with (tmp_path / "a.zip").open("rb+") as file:
        # Else what is read would still be on its way to the disk.
        os.fsync(file.fileno())
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", COUNTING],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    counted, planned, reported = json.loads(ended.stdout)
    with oc.config(memory="64MiB"):
        np.testing.assert_array_equal(oc.open(tmp_path / "out.zarr").compute(), given + 1)
    # Blocks of the disk in which chunks begin and end.
    assert given.nbytes <= planned == reported <= 1.05 * given.nbytes
    if counted == 0:
        pytest.skip("the kernel counts nothing on this file system")
    # Metadata of the file system, and modules that are imported late.
    assert planned <= counted <= planned + (4 << 20)


def test_odd_shapes(tmp_path: Path) -> None:
    for version in (2, 3):
        for number, wanted in enumerate(
            [
                np.array(3.5),
                np.zeros((0, 7), "f4"),
                np.arange(1000, dtype="i2"),
                np.arange(720.0).reshape(2, 3, 4, 5, 6),
            ]
        ):
            chunks = tuple(max(1, min(n, 4)) for n in wanted.shape)
            options: dict[str, Any] = {"chunks": chunks, "compressors": None}
            name = f"{version}-{number}.zip"
            place = made(tmp_path / name, wanted, zarr_format=version, **options)
            found = oc.open(place).compute()
            np.testing.assert_array_equal(found, wanted)
            assert found.dtype == wanted.dtype and found.shape == wanted.shape


@pytest.mark.parametrize("fill", [0, 7])
@pytest.mark.parametrize("way", ["plain", "2", "zstd", "shards"])
def test_chunks_that_are_missing_have_the_fill_value(tmp_path: Path, way: str, fill: int) -> None:
    options = WAYS[way]
    store = zarr.storage.ZipStore(tmp_path / "a.zip", mode="w")
    array = zarr.create_array(
        store, shape=SHAPE, dtype="<i4", chunks=CHUNK, fill_value=fill, **options
    )
    array[100:150, 200:333] = 5
    wanted = array[...]
    store.close()
    A = oc.open(tmp_path / "a.zip")
    np.testing.assert_array_equal(A.compute(), wanted)
    assert A.fill_value == fill and A.fill_value.dtype == A.dtype


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    ("dtype", "fill"),
    [("f8", "nan"), ("f4", "-inf"), ("c16", 1 - 2j), ("bool", True), ("u8", 2**64 - 1)],
)
def test_fill_values_are_what_zarr_python_writes(
    tmp_path: Path, version: int, dtype: str, fill: Any
) -> None:
    value = np.dtype(dtype).type(fill)
    store = zarr.storage.ZipStore(tmp_path / "a.zip", mode="w")
    zarr.create_array(
        store, shape=(4,), dtype=dtype, chunks=(2,), fill_value=value, zarr_format=version
    )
    store.close()
    A = oc.open(tmp_path / "a.zip")
    np.testing.assert_array_equal(A.fill_value, value)
    np.testing.assert_array_equal(A.compute(), np.full(4, value))


def test_directories_that_were_packed(tmp_path: Path) -> None:
    """Ours and others', with a folder around them, and compressed by zip besides."""
    given = elements("<f8")
    (tmp_path / "d").mkdir()
    oc.asarray(given).save(tmp_path / "d/a.zarr", tile=(70, 80))
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        path = packed(tmp_path / f"{method}.zip", tmp_path / "d", method)
        A = oc.open(path)
        assert A.path == path / "a.zarr"
        np.testing.assert_array_equal(A.compute(), given)
        np.testing.assert_array_equal((A + 1).compute(), given + 1)
    # Zip that compresses what is to be read in parts.
    made(tmp_path / "s.zip", given, **BY_ZARR["shards"])
    with zipfile.ZipFile(tmp_path / "s.zip") as file:
        file.extractall(tmp_path / "s")
    path = packed(tmp_path / "t.zip", tmp_path / "s", zipfile.ZIP_DEFLATED)
    with pytest.raises(oc.UnsupportedError, match=r"zip has compressed.*zip -0"):
        oc.open(path)[3, 4].compute()


def test_of_two_entries_of_a_name_the_last_counts(tmp_path: Path) -> None:
    given = elements("<f8")
    for way in ("plain", "zstd"):
        store = zarr.storage.ZipStore(tmp_path / f"{way}.zip", mode="w")
        options = WAYS[way]
        array = zarr.create_array(store, shape=SHAPE, dtype="f8", chunks=CHUNK, **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            array[...] = given
            array[10:100, :] = 3
            store.close()
        wanted = given.copy()
        wanted[10:100, :] = 3
        np.testing.assert_array_equal(oc.open(tmp_path / f"{way}.zip").compute(), wanted)


def test_everything_that_takes_arrays_takes_them(tmp_path: Path) -> None:
    given = elements("<f8", (400, 300))
    for way in ("plain", "zstd"):
        place = made(tmp_path / f"{way}.zip", given, "x", **WAYS[way])
        A = oc.open(place)
        np.testing.assert_allclose((A.T @ A).compute(), given.T @ given)
        oc.transpose(place, tmp_path / "t.npy", overwrite=True)
        np.testing.assert_array_equal(np.load(tmp_path / "t.npy"), given.T)
        np.testing.assert_array_equal(A[A[:, 0] > 50].compute(), given[given[:, 0] > 50])
        saved = A.save(tmp_path / "s.zarr", overwrite=True)
        assert saved.format == "zarr" and (saved == A).all().compute()


# -- labels and groups -----------------------------------------------------------------------------


def grouped(path: Path, version: int = 3) -> Path:
    def named(*names: str, **attributes: str) -> dict[str, Any]:
        if version == 3:
            return {"dimension_names": names, "attributes": attributes}
        return {"attributes": {**attributes, "_ARRAY_DIMENSIONS": [*names]}}

    store = zarr.storage.ZipStore(path, mode="w")
    group = zarr.create_group(store, attributes={"title": "sea"}, zarr_format=version)
    about: dict[str, Any] = {"shape": (4, 30), "chunks": (2, 30), "dtype": "f4", "fill_value": -9}
    about |= named("time", "lat", units="K")
    heat = group.create_array("heat", compressors=None, **about)
    heat[...] = np.arange(120).reshape(4, 30)
    deep = group.create_group("deep")
    more = deep.create_array("more", shape=(4,), chunks=(2,), dtype="i8", **named("time"))
    more[...] = np.arange(4)
    store.close()
    return path


@pytest.mark.parametrize("version", [2, 3])
def test_names_attributes_and_fill_values_come_along(tmp_path: Path, version: int) -> None:
    A = oc.open(grouped(tmp_path / "a.zip", version) / "heat")
    assert A.dimension_names == ("time", "lat") and A.attributes == {"units": "K"}
    assert A.fill_value == np.float32(-9) and A.path == tmp_path / "a.zip" / "heat"
    shutil.unpack_archive(tmp_path / "a.zip", tmp_path / "d")
    saved = A[0].save(tmp_path / "s.zarr")
    wanted = oc.open(tmp_path / "d/heat")[0].save(tmp_path / "t.zarr")
    assert saved.dimension_names == wanted.dimension_names == ("lat",)
    assert saved.fill_value == wanted.fill_value and saved.attributes == wanted.attributes


@pytest.mark.parametrize("version", [2, 3])
def test_groups(tmp_path: Path, version: int) -> None:
    path = grouped(tmp_path / "a.zip", version)
    for name in ("deep/more", "deep//more", "./deep/more", "deep", "deep/"):
        A = oc.open(f"{path}/{name}")
        assert A.path == path / "deep" / "more" and A.compute().tolist() == [0, 1, 2, 3]
        assert oc.open(f"{path}/{name}", format="zip").format == "zip"
    with pytest.raises(oc.InvalidArgumentError, match=r"not one array: .*deep/more, heat.*such as"):
        oc.open(path)
    for name in ("z", "heat/x", "deep/more/c/0"):
        with pytest.raises(oc.ArrayNotFoundError, match=r"no .* in it; it holds deep/more, heat"):
            oc.open(path / name)
    with pytest.raises(oc.ArrayNotFoundError):
        oc.open(tmp_path / "none.zip/x")


def test_archives_without_arrays(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        file.writestr("readme", "hello")
    with pytest.raises(oc.UnsupportedError, match="zip archive without a Zarr array"):
        oc.open(tmp_path / "a.zip")
    with zipfile.ZipFile(tmp_path / "b.zip", "w"):
        pass
    with pytest.raises(oc.UnsupportedError, match="zip archive without a Zarr array"):
        oc.open(tmp_path / "b.zip")
    store = zarr.storage.ZipStore(tmp_path / "c.zip", mode="w")
    zarr.create_group(store)
    store.close()
    with pytest.raises(oc.InvalidArgumentError, match="holds no array"):
        oc.open(tmp_path / "c.zip")
    np.savez(tmp_path / "d.npz", np.arange(3))
    with pytest.raises(oc.UnsupportedError, match="npz"):
        oc.open(tmp_path / "d.npz")


@pytest.mark.parametrize("version", [2, 3])
def test_xarray_sees_a_dataset(tmp_path: Path, version: int) -> None:
    xarray = pytest.importorskip("xarray")
    path = grouped(tmp_path / "a.zarr.zip", version)
    found = xarray.open_dataset(path, engine="outcrop")
    assert found.attrs == {"title": "sea"} and dict(found.sizes) == {"time": 4, "lat": 30}
    assert isinstance(found["heat"].variable._data, oc.Array)
    wanted = np.arange(120.0).reshape(4, 30)
    np.testing.assert_array_equal((found["heat"] + 1).values, wanted + 1)
    shutil.unpack_archive(path, tmp_path / "d")
    for group in (None, "deep"):
        inner = xarray.open_dataset(path, engine="outcrop", group=group)
        xarray.testing.assert_identical(
            inner, xarray.open_dataset(tmp_path / "d", engine="outcrop", group=group)
        )


def test_xarray_reads_text_by_zarr_python(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    made_of = xarray.Dataset({"word": ("t", np.array(["a", "bc"])), "x": ("t", [1.5, 2.5])})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made_of.to_zarr(tmp_path / "d.zarr", consolidated=False, zarr_format=3)
        path = packed(tmp_path / "a.zip", tmp_path / "d.zarr")
        found = xarray.open_dataset(path, engine="outcrop")
        assert found["word"].values.tolist() == ["a", "bc"]
    assert found["x"].values.tolist() == [1.5, 2.5]


def test_info_lists_what_is_in_an_archive(tmp_path: Path) -> None:
    path = grouped(tmp_path / "a.zip")
    command = [sys.executable, "-m", "outcrop", "info"]
    ended = subprocess.run([*command, path], capture_output=True, text=True, check=True)
    assert "zip archive" in ended.stdout and "deep/" in ended.stdout and "4 x 30" in ended.stdout
    ended = subprocess.run(
        [*command, "--json", path / "heat"], capture_output=True, text=True, check=True
    )
    facts = json.loads(ended.stdout)
    assert (facts["format"], facts["zarr_format"], facts["codecs"]) == ("zip", 3, "bytes, zip")
    assert facts["stored_bytes"] > 4 * 120
    copied = [sys.executable, "-m", "outcrop", "convert", path / "heat", tmp_path / "h.npy"]
    subprocess.run(copied, check=True, capture_output=True)
    np.testing.assert_array_equal(np.load(tmp_path / "h.npy"), np.arange(120.0).reshape(4, 30))
    copied[3] = "copy"
    ended = subprocess.run(copied, check=False, capture_output=True, text=True)
    assert ended.returncode == 2 and "outcrop convert" in ended.stderr


# -- reading only ----------------------------------------------------------------------------------


def test_archives_are_only_read(tmp_path: Path) -> None:
    path = grouped(tmp_path / "a.zip")
    before = path.read_bytes()
    A = oc.open(path / "heat")
    with pytest.raises(oc.UnsupportedError, match=r"only read; A\.save\('NAME\.zarr'\)"):
        oc.open(path / "heat", "r+")
    with pytest.raises(oc.InvalidArgumentError, match="zip archives are only read"):
        A[0] = 1
    for name in ("a.zip/y", "a.zip/deep/y.zarr", "a.zip/heat"):
        for way in (lambda p: (A + 1).save(p), lambda p: oc.create(p, 3), lambda p: oc.plan(A, p)):
            with pytest.raises(oc.UnsupportedError, match=r"only read; save it under.*\.zarr"):
                way(tmp_path / name)
    with pytest.raises(oc.UnsupportedError, match=r"zip, which is not written; save it to a dir"):
        A.save(tmp_path / "b.zip")
    with pytest.raises(oc.InvalidArgumentError, match="format must be"):
        A.save(tmp_path / "b", format="zip")
    with pytest.raises(oc.InvalidArgumentError, match="holds what is to be saved"):
        A.save(path, format="zarr", overwrite=True)
    assert path.read_bytes() == before


def test_options_of_other_formats_are_refused(tmp_path: Path) -> None:
    path = grouped(tmp_path / "a.zip")
    for options in ({"page": 1}, {"offset": 8}):
        with pytest.raises(oc.InvalidArgumentError, match="is not for arrays in zip"):
            oc.open(path / "heat", **options)
    with pytest.raises(oc.InvalidArgumentError, match="describe raw files"):
        oc.open(path, shape=3, dtype="f8", format="zip")
    np.save(tmp_path / "a.npy", np.arange(3))
    with pytest.raises(oc.CorruptArrayError, match="is no zip archive"):
        oc.open(tmp_path / "a.npy", format="zip")
    heat = oc.open(path / "heat")
    assert (pickle.loads(pickle.dumps(heat)).compute() == heat.compute()).all()
    # Whoever describes it, knows.
    assert bytes(oc.open(path, shape=4, dtype="u1").compute()) == b"PK\x03\x04"


def test_without_zarr_python_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = made(tmp_path / "a.zip", elements(), **BY_ZARR["shards"])
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(oc.UnsupportedError, match=r"outcrop\[zarr\].*; unpacked"):
        oc.open(place)


# -- changes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [os.replace, shutil.copy])
@pytest.mark.parametrize("way", ["plain", "zstd", "shards"])
def test_a_change_is_noticed(tmp_path: Path, way: str, how: Callable[[Path, Path], Any]) -> None:
    given = elements("<f8")
    options = WAYS[way]
    A = oc.open(made(tmp_path / "a.zip", given, "x", **options))
    B = A + 1
    np.testing.assert_array_equal(B.compute(), given + 1)
    made(tmp_path / "b.zip", given * 2, "x", **options)
    how(tmp_path / "b.zip", tmp_path / "a.zip")
    with pytest.raises(oc.StaleOperandError, match="changed"):
        B.compute()
    np.testing.assert_array_equal(A.compute(), given * 2)
    np.testing.assert_array_equal((A + 1).compute(), given * 2 + 1)


def test_two_that_are_opened_are_one_array(tmp_path: Path) -> None:
    path = grouped(tmp_path / "a.zip")
    A, B, other = (
        oc.open(path / "heat"),
        oc.open(f"{tmp_path}/./a.zip//heat"),
        oc.open(path / "deep"),
    )
    assert A._source.same_elements(B._source)  # type: ignore[attr-defined]
    assert not A._source.same_elements(other._source)  # type: ignore[attr-defined]


def test_no_files_are_left_open(tmp_path: Path) -> None:
    def count() -> int:
        links = (os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd"))
        return sum(
            os.path.lexists(link) and os.readlink(link) == str(tmp_path / "a.zip") for link in links
        )

    for way in ("plain", "zstd"):
        place = made(tmp_path / "a.zip", elements(), **WAYS[way])
        for _ in range(3):
            A = oc.open(place)
            A[3, 4].compute()
            A.close()
            del A
        __import__("gc").collect()
        assert count() == 0
    (tmp_path / "a.zip").write_bytes(b"PK\x03\x04 and no more")
    for _ in range(3):
        with pytest.raises(oc.CorruptArrayError):
            oc.open(tmp_path / "a.zip")
    assert count() == 0
