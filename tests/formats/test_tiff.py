"""TIFF files, against tifffile, Pillow and libvips."""

import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import outcrop as oc

tifffile = pytest.importorskip("tifffile")

DTYPES = (
    *("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float32", "float64", "complex64", "complex128"),
)


def image(shape: tuple[int, ...], dtype: str = "uint8") -> NDArray[Any]:
    rng = np.random.default_rng(len(shape))
    if np.dtype(dtype).kind in "ui":
        return rng.integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)
    return rng.standard_normal(shape).astype(dtype)


@pytest.fixture
def memory_path(tmp_path: Path) -> Iterator[Path]:
    """A directory in memory where that can be, as a sync costs nothing there."""
    shared = Path("/dev/shm")
    place = shared if os.access(shared, os.W_OK) else tmp_path
    with TemporaryDirectory(dir=place, prefix="outcrop-test-") as name:
        yield Path(name)


def written(path: Path, plain: NDArray[Any], **options: Any) -> Path:
    """A file by tifffile."""
    writer = {k: options.pop(k) for k in ("bigtiff", "byteorder") if k in options}
    options = {"photometric": "minisblack", "metadata": None} | options
    with tifffile.TiffWriter(path, **writer) as file:
        file.write(plain, **options)
    return path


# -- writing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(37, 53), (37, 53, 2), (37, 53, 3), (37, 53, 4), (1, 1)])
def test_what_is_saved_is_what_tifffile_reads(
    shape: tuple[int, ...], dtype: str, tmp_path: Path
) -> None:
    plain = image(shape, dtype)
    saved = oc.asarray(plain).save(tmp_path / "a.tif")
    assert (saved.format, saved.layout, saved.dtype) == ("tiff", "row-major", dtype)
    np.testing.assert_array_equal(saved.compute(), plain)
    found = tifffile.imread(tmp_path / "a.tif")
    assert found.dtype == plain.dtype
    np.testing.assert_array_equal(found, plain)
    with tifffile.TiffFile(tmp_path / "a.tif") as file:
        assert file.pages[0].dataoffsets[0] % 4096 == 0


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((700, 900), "uint8"), ((700, 900), "uint16"), ((700, 900, 3), "uint8"), ((9, 7, 4), "uint8")],
)
def test_other_programs_read_it(shape: tuple[int, ...], dtype: str, tmp_path: Path) -> None:
    plain = image(shape, dtype)
    path = tmp_path / "a.tiff"
    oc.asarray(plain).save(path)
    pillow = pytest.importorskip("PIL.Image")
    with pillow.open(path) as read:
        np.testing.assert_array_equal(np.asarray(read), plain)
    if shutil.which("vips") is None:
        pytest.skip("vips is not installed")
    subprocess.run(["vips", "copy", path, tmp_path / "a.v"], check=True)
    subprocess.run(["vips", "rawsave", tmp_path / "a.v", tmp_path / "a.raw"], check=True)
    raw = np.fromfile(tmp_path / "a.raw", dtype)
    np.testing.assert_array_equal(raw.reshape(shape), plain)


def test_many_strips(tmp_path: Path) -> None:
    plain = image((3000, 1000, 3), "uint16")
    saved = oc.asarray(plain).save(tmp_path / "a.tif")
    with tifffile.TiffFile(tmp_path / "a.tif") as file:
        page = file.pages[0]
        assert len(page.dataoffsets) == -(-3000 // page.rowsperstrip) > 10
        np.testing.assert_array_equal(page.asarray(), plain)
    np.testing.assert_array_equal(saved[2990:, 5:8].compute(), plain[2990:, 5:8])


def test_plane_by_plane(tmp_path: Path) -> None:
    plain = image((3, 400, 500), "uint16")
    path = tmp_path / "a.tif"
    with oc.create(path, plain.shape, "uint16", attributes={"planarconfig": "separate"}) as array:
        array[:] = plain
    with tifffile.TiffFile(path) as file:
        page = file.pages[0]
        assert (page.planarconfig, page.photometric, page.samplesperpixel) == (2, 2, 3)
        np.testing.assert_array_equal(page.asarray(), plain)
    found = oc.open(path)
    assert found.attributes == {"photometric": "rgb", "planarconfig": "separate"}
    assert found[1:].save(tmp_path / "b.tif").attributes == {
        "photometric": "minisblack",
        "planarconfig": "separate",
        "extrasamples": ["unspecified"],
    }
    # What is turned around is no longer plane by plane.
    turned = found.transpose(1, 2, 0).save(tmp_path / "c.tif")
    assert turned.attributes["planarconfig"] == "contig"
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "c.tif"), plain.transpose(1, 2, 0))


def test_attributes_survive(tmp_path: Path) -> None:
    attributes = {
        "photometric": "rgb",
        "planarconfig": "contig",
        "extrasamples": ["assocalpha"],
        "resolution": [300.0, 118.5],
        "resolutionunit": "centimeter",
        "orientation": 6,
    }
    path = tmp_path / "a.tif"
    oc.create(path, (20, 30, 4), "uint8", attributes=attributes).close()
    array = oc.open(path)
    assert array.attributes == attributes
    with tifffile.TiffFile(path) as file:
        page = file.pages[0]
        assert page.extrasamples == (1,)
        assert page.resolution == (300.0, 118.5)
        assert page.resolutionunit == 3
        assert page.tags.valueof(274) == 6
    assert array.save(tmp_path / "b.tif").attributes == attributes
    gray = array[..., 0].save(tmp_path / "c.tif").attributes
    assert gray == {"photometric": "minisblack", "orientation": 6}
    rgb = array[:10, :, :3].save(tmp_path / "d.tif").attributes
    assert rgb["resolution"] == [300.0, 118.5]
    assert "extrasamples" not in rgb
    assert array[::2].save(tmp_path / "e.tif").attributes == {
        "photometric": "rgb",
        "planarconfig": "contig",
        "extrasamples": ["unassalpha"],
        "orientation": 6,
    }


@pytest.mark.parametrize(
    ("shape", "dtype", "attributes", "error", "match"),
    [
        ((3, 4), "bool", {}, oc.UnsupportedError, "hold them as uint8"),
        ((3,), "uint8", {}, oc.UnsupportedError, r"this is \(3,\)"),
        ((3, 4, 1), "uint8", {}, oc.UnsupportedError, "2 or more samples"),
        ((0, 4), "uint8", {}, oc.UnsupportedError, "none of them empty"),
        ((2, 2, 70000), "uint8", {}, oc.UnsupportedError, "65535"),
        ((3, 4), "uint8", {"gamma": 1}, oc.InvalidArgumentError, "no attribute 'gamma'"),
        ((3, 4), "uint8", {"photometric": "rgb"}, oc.InvalidArgumentError, "takes 3 samples"),
        ((3, 4), "uint8", {"photometric": "pink"}, oc.InvalidArgumentError, "got 'pink'"),
        ((3, 4), "uint8", {"resolution": 3}, oc.InvalidArgumentError, "two numbers"),
        ((3, 4), "uint8", {"orientation": 9}, oc.InvalidArgumentError, "1 to 8"),
        ((3, 4, 4), "uint8", {"extrasamples": ["a"]}, oc.InvalidArgumentError, "must name 1"),
    ],
)
def test_what_it_cannot_hold(
    shape: tuple[int, ...],
    dtype: str,
    attributes: Any,
    error: type[Exception],
    match: str,
    tmp_path: Path,
) -> None:
    with pytest.raises(error, match=match) as caught:
        oc.create(tmp_path / "a.tif", shape, dtype, attributes=attributes)
    assert "a.tif" in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_bigtiff_beyond_what_32_bits_address(tmp_path: Path) -> None:
    # Some space is asked for, and none of it is written.
    path = tmp_path / "a.tif"
    shape = (70_000, 65_536)
    if shutil.disk_usage(tmp_path).free < 2 * shape[0] * shape[1]:
        pytest.skip("too little space")
    with oc.create(path, shape, "uint8") as array:
        array[-1, -3:] = [1, 2, 3]
        array[40_000, 7] = 9
    try:
        with path.open("rb") as file:
            assert file.read(4) == b"II+\0"
        found = oc.open(path)
        assert found.shape == shape
        assert found[-1, -4:].compute().tolist() == [0, 1, 2, 3]
        assert found[40_000, 6:9].compute().tolist() == [0, 9, 0]
        with tifffile.TiffFile(path) as file:
            page = file.pages[0]
            assert page.shape == shape
            assert page.dataoffsets[-1] > 2**32
            with path.open("rb") as raw:
                raw.seek(page.dataoffsets[-1] + page.databytecounts[-1] - 3)
                assert raw.read() == b"\1\2\3"
    finally:
        path.unlink()


def test_appears_at_once_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    array = oc.create(path, (100, 100), "float32")
    array[50:] = 1
    assert not path.exists()
    array.abort()
    assert not list(tmp_path.iterdir())
    oc.asarray(image((4, 4))).save(path)
    with pytest.raises(oc.ArrayExistsError):
        oc.create(path, (2, 2), "uint8")
    with oc.create(path, (2, 2), "uint8", overwrite=True):
        assert oc.open(path).shape == (4, 4)
    assert oc.open(path).shape == (2, 2)


# -- reading ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("byteorder", "bigtiff"), [("<", False), (">", False), (">", True)])
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float64", "complex64"])
@pytest.mark.parametrize(
    ("shape", "options", "layout"),
    [
        ((130, 170), {}, "row-major"),
        ((130, 170), {"rowsperstrip": 16}, "row-major"),
        ((130, 170), {"tile": (32, 48)}, "tiled"),
        ((130, 170, 3), {"tile": (32, 48), "photometric": "rgb"}, "tiled"),
        ((130, 170, 3), {"rowsperstrip": 7, "photometric": "rgb"}, "row-major"),
        ((3, 130, 170), {"photometric": "rgb", "planarconfig": "separate"}, "row-major"),
        (
            (3, 130, 170),
            {"photometric": "rgb", "planarconfig": "separate", "tile": (64, 64)},
            "tiled",
        ),
        ((130, 160), {"tile": (64, 160)}, "row-major"),
    ],
)
def test_files_of_tifffile(
    shape: tuple[int, ...],
    options: dict[str, Any],
    layout: str,
    dtype: str,
    bigtiff: bool,
    byteorder: str,
    tmp_path: Path,
) -> None:
    plain = image(shape, dtype)
    path = written(tmp_path / "a.tif", plain, bigtiff=bigtiff, byteorder=byteorder, **options)
    array = oc.open(path)
    assert (array.shape, array.dtype, array.layout) == (shape, dtype, layout)
    np.testing.assert_array_equal(array.compute(), plain)
    key = tuple(slice(n // 3, n - n // 5) for n in shape)
    np.testing.assert_array_equal(array[key].compute(), plain[key])
    np.testing.assert_array_equal(array[..., ::-3].compute(), plain[..., ::-3])
    if layout == "tiled":
        assert array.tile[-3:-1] == options["tile"] or array.tile[-2:] == options["tile"]
        with pytest.raises(oc.UnsupportedError, match="tiles do not follow one another"):
            oc.open(path, "r+")
        return
    with oc.open(path, "r+") as changed:
        changed[key] = 3
    plain[key] = 3
    np.testing.assert_array_equal(tifffile.imread(path), plain)


def test_files_of_vips(tmp_path: Path) -> None:
    if shutil.which("vips") is None:
        pytest.skip("vips is not installed")
    plain = image((130, 170, 3))
    source = tmp_path / "a.ppm"
    oc.asarray(plain).save(source)
    for options in ("[tile]", "[tile,tile-width=64,tile-height=32,bigtiff]", ""):
        subprocess.run(["vips", "copy", source, f"{tmp_path}/a.tif{options}"], check=True)
        array = oc.open(tmp_path / "a.tif")
        np.testing.assert_array_equal(array.compute(), plain)
        assert array.layout == ("tiled" if options else "row-major")


def test_pages(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    with tifffile.TiffWriter(path) as file:
        file.write(image((5, 6)), metadata=None)
        file.write(image((7, 8, 3), "uint16"), photometric="rgb", metadata=None)
    assert oc.open(path).shape == (5, 6)
    np.testing.assert_array_equal(oc.open(path, page=1).compute(), image((7, 8, 3), "uint16"))
    with oc.open(path, "r+") as array:
        array[:] = 1
    np.testing.assert_array_equal(oc.open(path, page=1).compute(), image((7, 8, 3), "uint16"))
    with pytest.raises(oc.InvalidArgumentError, match="no page 2; the file has 2"):
        oc.open(path, page=2)
    with pytest.raises(oc.InvalidArgumentError, match="page must be"):
        oc.open(path, page=-1)


def test_recognised_without_a_suffix(tmp_path: Path) -> None:
    plain = image((4, 5))
    for options in ({}, {"byteorder": ">"}, {"bigtiff": True}, {"bigtiff": True, "byteorder": ">"}):
        written(tmp_path / "scan", plain, **options)
        assert oc.open(tmp_path / "scan").format == "tiff"


def test_scattered_strips_and_those_of_a_sparse_file(tmp_path: Path) -> None:
    plain = image((10, 300), "uint16")
    path = written(tmp_path / "a.tif", plain, rowsperstrip=3)
    with tifffile.TiffFile(path, mode="r+b") as file:
        page = file.pages[0]
        offsets, counts = list(page.dataoffsets), list(page.databytecounts)
        file.filehandle.seek(0, os.SEEK_END)
        end = file.filehandle.tell()
        file.filehandle.seek(offsets[1])
        moved = file.filehandle.read(counts[1])
        file.filehandle.seek(end)
        file.filehandle.write(moved)
        offsets[1], offsets[2], counts[2] = end, 0, 0
        page.tags[273].overwrite(offsets)
        page.tags[279].overwrite(counts)
    plain[6:9] = 0
    array = oc.open(path)
    assert array.layout == "tiled"
    np.testing.assert_array_equal(array.compute(), plain)
    saved = array.save(tmp_path / "b.tif")
    assert saved.layout == "row-major"
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "b.tif"), plain)
    with pytest.raises(oc.UnsupportedError, match="strips do not follow"):
        oc.open(path, "r+")


@pytest.mark.parametrize(
    ("plain", "options", "match"),
    [
        (image((20, 20)), {"compression": "zlib"}, r"compressed \(adobe_deflate\)"),
        (image((20, 20)) > 99, {}, "packs samples of 1 bits"),
        (image((20, 20)).astype("float16"), {}, "float16"),
        (
            image((20, 20)),
            {"photometric": "palette", "colormap": np.zeros((3, 256), "uint16")},
            "palette",
        ),
    ],
    ids=["deflate", "bits", "half", "palette"],
)
def test_what_is_not_supported_is_said(
    plain: NDArray[Any], options: dict[str, Any], match: str, tmp_path: Path
) -> None:
    path = written(tmp_path / "a.tif", plain, **options)
    with pytest.raises(oc.UnsupportedError, match=match) as caught:
        oc.open(path)
    assert "a.tif" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_packed_samples(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tif", image((20, 20), "uint16"))
    with tifffile.TiffFile(path, mode="r+b") as file:
        file.pages[0].tags[258].overwrite(12)
    with pytest.raises(oc.UnsupportedError, match=r"a\.tif: packs samples of 12 bits"):
        oc.open(path)


@pytest.mark.parametrize("options", [{}, {"tile": (32, 32)}], ids=["strips", "tiles"])
def test_a_cut_off_file_is_refused_at_open(options: dict[str, Any], tmp_path: Path) -> None:
    path = written(tmp_path / "a.tif", image((100, 100)), **options)
    os.truncate(path, path.stat().st_size - 5)
    with pytest.raises(oc.CorruptArrayError, match=r"a\.tif: .*5 missing"):
        oc.open(path)


def test_damaged_files(tmp_path: Path) -> None:
    whole = written(tmp_path / "whole.tif", image((10, 10))).read_bytes()
    path = tmp_path / "a.tif"
    for content in (b"", b"GIF89a", whole[:6], whole[:20], b"II*\0" + struct.pack("<I", 1 << 30)):
        path.write_bytes(content)
        with pytest.raises(oc.CorruptArrayError, match=r"a\.tif") as raised:
            oc.open(path)
        assert "unpack" not in str(raised.value)


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(oc.ArrayNotFoundError, match="no array here"):
        oc.open(tmp_path / "a.tif")


def test_without_tifffile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tifffile", None)
    for work in (
        lambda: oc.open(tmp_path / "a.tif"),
        lambda: oc.create(tmp_path / "a.tif", (2, 2), "uint8"),
    ):
        with pytest.raises(oc.UnsupportedError, match="pip install tifffile"):
            work()


# -- out of core -----------------------------------------------------------------------------------


def test_larger_than_the_budget(tmp_path: Path) -> None:
    plain = image((1500, 1100, 3), "uint16")
    with tifffile.TiffWriter(tmp_path / "a.tif", byteorder=">") as file:
        file.write(plain, tile=(256, 272), photometric="rgb", metadata=None)
    with oc.config(memory="1MiB"):
        tiled = oc.open(tmp_path / "a.tif")
        saved = tiled.save(tmp_path / "b.tif")
        run = oc.last_run()
        assert run is not None
        assert run.peak_bytes <= 1 << 20
        saved.save(tmp_path / "c.ppm")
        saved.save(tmp_path / "d.zarr", tile=(200, 200, 3)).save(tmp_path / "e.tif")
    for name in ("b.tif", "e.tif"):
        np.testing.assert_array_equal(tifffile.imread(tmp_path / name), plain)
    np.testing.assert_array_equal(oc.open(tmp_path / "c.ppm").compute(), plain)


def test_many_small_tiles_are_moved_together(tmp_path: Path) -> None:
    plain = image((3000, 2900), "uint8")
    tifffile.imwrite(tmp_path / "a.tif", plain, tile=(16, 16))
    with oc.config(memory="2MiB"):
        for axes in ((0, 1), (1, 0)):
            wanted = oc.permute_dims(tmp_path / "a.tif", axes)
            planned = oc.plan(wanted, tmp_path / "b.npy")
            wanted.save(tmp_path / "b.npy", overwrite=True)
            run = oc.last_run()
            assert run is not None
            # Alone, each tile of 256 bytes would take a block of the disk.
            assert planned.bytes_read == run.bytes_read < 5 * plain.nbytes
            np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), np.transpose(plain, axes))


several = settings(
    max_examples=25,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@several
@given(
    height=st.integers(1, 200),
    width=st.integers(1, 200),
    samples=st.integers(1, 4),
    dtype=st.sampled_from(["uint8", "uint16", "float32", "complex128"]),
    byteorder=st.sampled_from("<>"),
    is_planar=st.booleans(),
    cut=st.one_of(st.tuples(st.integers(1, 5), st.integers(1, 5)), st.integers(1, 250)),
    data=st.data(),
)
def test_any_shape_out_of_core(
    height: int,
    width: int,
    samples: int,
    dtype: str,
    byteorder: str,
    is_planar: bool,
    cut: tuple[int, int] | int,
    data: st.DataObject,
) -> None:
    shape: tuple[int, ...] = (height, width)
    options: dict[str, Any] = {}
    if samples > 1:
        shape = (samples, height, width) if is_planar else (height, width, samples)
        options["planarconfig"] = "separate" if is_planar else "contig"
    if isinstance(cut, int):
        options["rowsperstrip"] = cut
    else:
        options["tile"] = (16 * cut[0], 16 * cut[1])
    plain = image(shape, dtype)
    bounds = [sorted(data.draw(st.tuples(st.integers(0, n), st.integers(0, n)))) for n in shape]
    key = tuple(slice(*pair) for pair in bounds)
    with TemporaryDirectory() as directory, oc.config(memory="320KiB"):
        path = written(Path(directory) / "a.tif", plain, byteorder=byteorder, **options)
        found = oc.open(path)
        assert found.shape == shape
        if found[key].nbytes < 64 << 10:
            np.testing.assert_array_equal(found[key].compute(), plain[key])
        try:
            saved = found.save(Path(directory) / "b.tif")
        except oc.BudgetError as error:
            # A tile of large elements may have more than the budget. What is named as enough is.
            assert np.prod(options["tile"]) * plain.dtype.itemsize * samples > 192 << 10
            with oc.config(memory=error.needed):
                saved = found.save(Path(directory) / "b.tif")
        np.testing.assert_array_equal(tifffile.imread(saved.path), plain)
        assert saved.attributes == found.attributes


# -- what is shown ---------------------------------------------------------------------------------


def shown(path: Path) -> NDArray[Any]:
    """A picture as a viewer shows it."""
    pillow = pytest.importorskip("PIL.Image")
    from PIL import ImageOps

    with pillow.open(path) as read:
        return np.asarray(ImageOps.exif_transpose(read))


TURNS: dict[str, Any] = {
    "rotate": lambda a: oc.rotate(a) if isinstance(a, oc.Array) else np.rot90(a),
    "backwards": lambda a: oc.rotate(a, angle=270) if isinstance(a, oc.Array) else np.rot90(a, 3),
    "around": lambda a: a[::-1, ::-1],
    "mirror": lambda a: a[:, ::-1],
    "upside down": lambda a: a[::-1],
    "transpose": lambda a: a.transpose(1, 0, 2),
    "anti": lambda a: a[::-1, ::-1].transpose(1, 0, 2),
    "as it is": lambda a: a,
}


@pytest.mark.parametrize("orientation", range(1, 9))
def test_what_is_shown_is_turned_as_asked(orientation: int, memory_path: Path) -> None:
    plain = image((5, 7, 3))
    with oc.create(
        memory_path / "a.tif", plain.shape, "uint8", attributes={"orientation": orientation}
    ) as array:
        array[:] = plain
    before = shown(memory_path / "a.tif")
    for name, turn in TURNS.items():
        turned = turn(oc.open(memory_path / "a.tif")).save(memory_path / "b.tif", overwrite=True)
        np.testing.assert_array_equal(turned.compute(), turn(plain), name)
        np.testing.assert_array_equal(shown(memory_path / "b.tif"), turn(before), name)
        # By way of another format that can say so, too.
        turned.save(memory_path / "c.zarr", overwrite=True).save(
            memory_path / "b.tif", overwrite=True
        )
        np.testing.assert_array_equal(shown(memory_path / "b.tif"), turn(before), name)
    # Of every second pixel, and of one channel, the same holds.
    for key in ((slice(None, None, -2), slice(None, None, 3)), (slice(None), slice(None), 1)):
        oc.open(memory_path / "a.tif")[key].save(memory_path / "b.tif", overwrite=True)
        swapped = orientation > 4
        again = {1: 1, 2: 2, 3: 3, 4: 4, 5: 7, 6: 8, 7: 5, 8: 6}[orientation]
        kept = oc.open(memory_path / "b.tif").attributes.get("orientation", 1)
        is_reversed = key[0].step is not None
        assert kept == (again if is_reversed and swapped else orientation)


def test_plane_by_plane_shown_turned(memory_path: Path) -> None:
    plain = image((3, 5, 7))
    attributes = {"planarconfig": "separate", "orientation": 6}
    with oc.create(memory_path / "a.tif", plain.shape, "uint8", attributes=attributes) as array:
        array[:] = plain
    turned = oc.rotate(memory_path / "a.tif", memory_path / "b.tif", 90)
    np.testing.assert_array_equal(turned.compute(), np.rot90(plain, axes=(1, 2)))
    # Quarter turns may change places with each other.
    assert turned.attributes["orientation"] == 6
    flipped = oc.flip(memory_path / "a.tif", memory_path / "c.tif", axis=2)
    assert flipped.attributes["orientation"] == 8


def test_texts_go_with_the_picture(memory_path: Path) -> None:
    texts = {
        **{"description": "Röte, 12 µm", "documentname": "sheet 7", "pagename": "p"},
        **{"make": "M", "model": "X1", "datetime": "2024:02:29 12:00:00", "artist": "A"},
        **{"hostcomputer": "h", "copyright": "C"},
    }
    plain = image((5, 7, 3))
    with oc.create(memory_path / "a.tif", plain.shape, "uint8", attributes=texts) as array:
        array[:] = plain
    with tifffile.TiffFile(memory_path / "a.tif") as file:
        tags = file.pages[0].tags
        assert (tags[270].value, tags[306].value) == (texts["description"], texts["datetime"])
        np.testing.assert_array_equal(file.asarray(), plain)
    turned = oc.rotate(memory_path / "a.tif", memory_path / "b.tif", 90)
    assert texts.items() <= turned.attributes.items()
    part = oc.open(memory_path / "a.tif")[::2, ::2, 1].save(memory_path / "c.tif")
    assert texts.items() <= part.attributes.items()
    with pytest.raises(oc.InvalidArgumentError, match="artist must be a text"):
        oc.create(memory_path / "d.tif", (2, 2), "u1", attributes={"artist": 7})


def test_a_description_of_the_layout_does_not_outlive_it(memory_path: Path) -> None:
    plain = image((4, 5, 7))
    tifffile.imwrite(memory_path / "a.tif", plain, photometric="minisblack")
    found = oc.open(memory_path / "a.tif")
    assert "description" not in found.attributes
    turned = found.T.save(memory_path / "b.tif")
    np.testing.assert_array_equal(tifffile.imread(memory_path / "b.tif"), turned.compute())


@pytest.mark.parametrize("shape", [(4, 5, 2, 3), (7,), (), (0, 3)])
def test_shapes_that_are_no_picture(shape: tuple[int, ...], memory_path: Path) -> None:
    np.save(memory_path / "q.npy", np.zeros(shape))
    with pytest.raises(oc.UnsupportedError, match="a TIFF page holds"):
        oc.transpose(memory_path / "q.npy", memory_path / "q.tif")
    with pytest.raises(oc.UnsupportedError, match="a TIFF page holds"):
        oc.plan(oc.open(memory_path / "q.npy").T, memory_path / "q.tif")
    assert not (memory_path / "q.tif").exists()


def test_the_package_keeps_quiet(memory_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    oc.asarray(image((60, 50))).save(memory_path / "a.tif")
    whole = (memory_path / "a.tif").read_bytes()
    for end in (0, 5, 20, 100, len(whole) // 2, len(whole) - 1):
        (memory_path / "b.tif").write_bytes(whole[:end])
        with pytest.raises(oc.CorruptArrayError, match=r"b\.tif"):
            oc.open(memory_path / "b.tif")
    assert caplog.records == []
