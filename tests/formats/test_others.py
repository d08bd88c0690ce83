"""Formats of other programs: not made by the way, and named where they are met."""

import gzip
import io
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import outcrop as oc

SUFFIXES = [".nc", ".NC", ".npz", ".png", ".jpg", ".csv", ".parquet", ".mat",
            ".fits", ".gz", ".zip", ".json", ".txt", ".pkl", ".nii", ".nii.gz", ".NII.GZ", ".pt",
            ".pth", ".safetensors", ".mat", ".csv.gz", ".tsv", ".tar", ".bz2", ".zst", ".xlsx",
            ".db", ".arrow", ".grib2", ".exr", ".webp", ".bmp", ".jp2"]  # fmt: skip


def source(directory: Path) -> oc.Array:
    return oc.asarray(np.arange(6.0).reshape(2, 3)).save(directory / "s.zarr", overwrite=True)


WAYS: dict[str, Callable[[oc.Array, Path], object]] = {
    "save": lambda a, p: a.save(p),
    "computed": lambda a, p: (a + 1).save(p),
    "create": lambda a, p: oc.create(p, (2, 3)),
    "oc.save": lambda a, p: oc.save({p.with_name("ok.zarr"): a, p: a + 1}),
    "transpose": lambda a, p: oc.transpose(a, p),
    "path to path": lambda a, p: oc.rotate(str(a.path), p, 90),
    "via": lambda a, p: oc.transpose(a, p, via=p.parent),
    "plan": lambda a, p: oc.plan(a.T, p),
    "plan computed": lambda a, p: oc.plan(a + 1, p),
}


@pytest.mark.parametrize("way", WAYS)
def test_no_zarr_directory_of_such_a_name(tmp_path: Path, way: str) -> None:
    array = source(tmp_path)
    for suffix in SUFFIXES:
        path = tmp_path / f"o{suffix}"
        with pytest.raises(oc.UnsupportedError, match=r"not written.*format='zarr'") as caught:
            WAYS[way](array, path)
        known = suffix.lower().removeprefix(".csv") or suffix
        assert str(path) in str(caught.value) and f"suffix {known} " in str(caught.value)
    assert [p.name for p in tmp_path.iterdir()] == ["s.zarr"]


def test_asked_for_it_is_made(tmp_path: Path) -> None:
    made = source(tmp_path).save(tmp_path / "o.h5", format="zarr")
    assert made.format == "zarr"
    assert oc.open(tmp_path / "o.h5").shape == (2, 3)
    # A suffix that stands for nothing is a part of the name.
    assert source(tmp_path).save(tmp_path / "run.2026-11").format == "zarr"


@pytest.mark.parametrize("verb", ["copy", "convert", "transpose"])
def test_the_command_says_the_same(tmp_path: Path, verb: str) -> None:
    source(tmp_path)
    command = [sys.executable, "-m", "outcrop", verb, tmp_path / "s.zarr", tmp_path / "o.nc"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == 2
    assert "NetCDF" in done.stderr and "--format" in done.stderr
    assert not (tmp_path / "o.nc").exists()


def _npz() -> bytes:
    file = io.BytesIO()
    np.savez(file, a=np.arange(3))
    return file.getvalue()


def _zip() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("readme", "hello")
    return file.getvalue()


FILES = [
    ("a.nc", b"CDF\x01" + b"\0" * 60, "NetCDF", "xarray.open_dataset"),
    ("a", b"CDF\x02" + b"\0" * 60, "NetCDF", "xarray"),
    ("a.x", b"CDF\x05" + b"\0" * 60, "NetCDF", "xarray"),
    # Advice on how to describe a raw file would have been followed.
    ("a.raw", b"CDF\x01" + b"\0" * 60, "NetCDF", "xarray.open_dataset"),
    ("a.dat", b"1 2 3\n4 5 6\n", "text", "numpy.loadtxt"),
    ("a.mat", b"MATLAB 5.0 MAT-file".ljust(512), "MATLAB", "scipy"),
    ("a.npz", _npz(), "npz", "numpy.load"),
    ("a", _npz(), "npz", "numpy.load"),
    ("a.zip", _zip(), "zip", "unpack"),
    ("a", b"\x89PNG\r\n\x1a\n....", "PNG", "PIL"),
    ("a.tmp", b"\xff\xd8\xff\xe0....", "JPEG", "PIL"),
    ("a", gzip.compress(b"a", mtime=0), "gzip", "unpack"),
    ("a", b"PAR1....", "Parquet", "pandas"),
    ("a.csv", b"1,2,3\n4,5,6\n", "text", "numpy.loadtxt"),
    ("a", b"x y\n1 2\n", "text", "numpy.loadtxt"),
    ("a.json", b'{"a":\n 1}', "JSON", "json"),
    ("a", b"SIMPLE  =                    T", "FITS", "astropy"),
    ("a.pkl", b"\x80\x05....", "pickle", "pickle"),
    ("a.nii", b"\x5c\1\0\0....", "NIfTI", "nibabel.load"),
    ("a.nii.gz", gzip.compress(b"a", mtime=0), "gzip", "unpack"),
    ("a.pth", b"\x80\x02....", "PyTorch", "torch.load"),
    ("a.safetensors", b"\x10\0\0\0\0\0\0\0{}", "safetensors", "safe_open"),
]


@pytest.mark.parametrize(("name", "content", "what", "advice"), FILES)
def test_opening_says_what_it_is(
    tmp_path: Path, name: str, content: bytes, what: str, advice: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(oc.UnsupportedError, match=f"is .*{what}.*not read") as caught:
        oc.open(path)
    assert advice in str(caught.value) and str(path) in str(caught.value)
    # Whoever describes it, knows.
    assert oc.open(path, shape=4, dtype="u1").shape == (4,)


def test_what_nobody_knows(tmp_path: Path) -> None:
    path = tmp_path / "a.unknown"
    path.write_bytes(bytes(range(1, 200)))
    with pytest.raises(oc.UnsupportedError, match="no metadata"):
        oc.open(path)
    with pytest.raises(oc.ArrayNotFoundError):
        oc.open(tmp_path / "none.nc")


@pytest.mark.parametrize(
    ("suffix", "what"),
    [
        (".h5", "HDF5"),
        (".nc", "NetCDF"),
        (".png", "PNG"),
        (".jpg", "JPEG"),
        (".gz", "gzip"),
        (".zip", "zip"),
        (".npz", "npz"),
        (".parquet", "Parquet"),
        (".sqlite", "SQLite"),
    ],
)
@pytest.mark.parametrize("content", [b"abc", b"1, 2\n", bytes(5000), b"\x89PN", b"\x89HDF\r\n"])
def test_what_a_suffix_says_and_is_not_so(
    tmp_path: Path, suffix: str, what: str, content: bytes
) -> None:
    """A file of HDF5 that was cut off after three bytes was asked for its shape and dtype."""
    path = tmp_path / f"a{suffix}"
    path.write_bytes(content)
    with pytest.raises(oc.CorruptArrayError, match=f"is no {what} file, though its suffix says so"):
        oc.open(path)
    assert oc.open(path, shape=3, dtype="u1").compute().tolist() == [*content[:3]]


def test_what_begins_otherwise_and_is_known(tmp_path: Path) -> None:
    """What a file is counts, and not what it is called."""
    oc.asarray(np.eye(3)).save(tmp_path / "a.npy")
    (tmp_path / "a.npy").rename(tmp_path / "a.h5")
    assert oc.open(tmp_path / "a.h5").shape == (3, 3)
    oc.asarray(np.eye(3, dtype="u1")).save(tmp_path / "a.pgm")
    (tmp_path / "a.pgm").rename(tmp_path / "a.png")
    assert oc.open(tmp_path / "a.png").format == "pgm"
    (tmp_path / "b.png").write_bytes(b"\xff\xd8\xff and more of it")
    with pytest.raises(oc.UnsupportedError, match="is JPEG"):
        oc.open(tmp_path / "b.png")
    # Not all of these begin alike.
    (tmp_path / "a.mat").write_bytes(bytes(100))
    with pytest.raises(oc.UnsupportedError, match="is MATLAB, which is not read"):
        oc.open(tmp_path / "a.mat")
