"""``outcrop copy`` keeps what there is, ``outcrop convert`` changes what it is told to."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import outcrop as oc

Run = Callable[..., Any]

zarr = pytest.importorskip("zarr")


def names(path: Path) -> list[str]:
    return sorted(os.listdir(path))


def test_a_copy_is_the_same(outcrop: Run, array: Path, tmp_path: Path, plain: NDArray[Any]) -> None:
    done = outcrop("copy", "a.zarr", "b.zarr")
    assert (done.stdout, done.stderr) == ("", "")
    copy = oc.open(tmp_path / "b.zarr")
    np.testing.assert_array_equal(copy.compute(), plain)
    assert copy.tile == (64, 80)
    assert copy.attributes == {"unit": "K"}
    assert names(tmp_path) == ["a.zarr", "b.zarr"]


def test_the_copy_of_a_file_keeps_its_order(
    outcrop: Run, tmp_path: Path, plain: NDArray[Any]
) -> None:
    oc.asarray(plain).save(tmp_path / "f.npy", order="F")
    outcrop("copy", "f.npy", "g.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "g.npy"), plain)
    assert np.load(tmp_path / "g.npy").flags.f_contiguous
    (tmp_path / "f.raw").write_bytes(b"head" + plain.tobytes("F"))
    outcrop("copy", "f.raw:shape=300x200,dtype=f8,offset=4,order=F", "g.raw")
    assert (tmp_path / "g.raw").read_bytes() == plain.tobytes("F")


@pytest.mark.parametrize("version", [2, 3])
def test_the_copy_of_a_foreign_array_keeps_its_codecs(
    outcrop: Run, tmp_path: Path, plain: NDArray[Any], version: int
) -> None:
    codecs = {"compressors": None} if version == 3 else {"compressors": "auto"}
    if version == 3:
        codecs = {"compressors": zarr.codecs.BloscCodec(cname="lz4")}
    theirs = zarr.create_array(
        tmp_path / "z",
        shape=plain.shape,
        chunks=(100, 50),
        dtype="f8",
        zarr_format=version,
        **codecs,
    )
    theirs[...] = plain
    outcrop("copy", "z", "y")
    copy = zarr.open_array(tmp_path / "y", mode="r")
    np.testing.assert_array_equal(copy[...], plain)
    assert copy.metadata.zarr_format == version
    assert copy.chunks == (100, 50)
    assert [c.to_dict() if version == 3 else c for c in copy.compressors] == [
        c.to_dict() if version == 3 else c for c in theirs.compressors
    ]


def test_shards_stay_shards(outcrop: Run, tmp_path: Path, plain: NDArray[Any]) -> None:
    theirs = zarr.create_array(
        tmp_path / "z", shape=plain.shape, chunks=(10, 20), shards=(100, 100), dtype="f8"
    )
    theirs[...] = plain
    outcrop("copy", "z", "y")
    outcrop("convert", "z", "x", "--box", "5:50,:70")
    for name, key in ("y", np.s_[:]), ("x", np.s_[5:50, :70]):
        copy = zarr.open_array(tmp_path / name, mode="r")
        assert (copy.chunks, copy.shards) == ((10, 20), (100, 100))
        np.testing.assert_array_equal(copy[...], plain[key])


def test_a_copy_into_a_directory(outcrop: Run, array: Path, tmp_path: Path) -> None:
    (tmp_path / "backup").mkdir()
    outcrop("copy", "a.zarr", "backup")
    assert oc.open(tmp_path / "backup" / "a.zarr").shape == (300, 200)
    done = outcrop("copy", "a.zarr", "backup/", status=1)
    assert "backup/a.zarr: exists already" in done.stderr
    outcrop("copy", "--overwrite", "a.zarr", "backup")
    assert names(tmp_path / "backup") == ["a.zarr"]


@pytest.mark.parametrize("version", [2, 3])
def test_a_copy_into_a_group(
    outcrop: Run, array: Path, tmp_path: Path, plain: NDArray[Any], version: int
) -> None:
    group = zarr.create_group(tmp_path / "group", zarr_format=version)
    outcrop("copy", "a.zarr", "group")
    if version == 3:
        np.testing.assert_array_equal(group["a.zarr"][...], plain)
    assert "exists already" in outcrop("copy", "a.zarr", "group/a.zarr", status=1).stderr


def test_overwriting_itself(outcrop: Run, array: Path, tmp_path: Path, plain: NDArray[Any]) -> None:
    outcrop("convert", "a.zarr", "a.zarr", "--tile", "50x50", "--overwrite")
    result = oc.open(tmp_path / "a.zarr")
    assert result.tile == (50, 50)
    np.testing.assert_array_equal(result.compute(), plain)
    assert names(tmp_path) == ["a.zarr"]


def test_all_formats_and_back(
    outcrop: Run, array: Path, tmp_path: Path, plain: NDArray[Any]
) -> None:
    outcrop("convert", "a.zarr", "b.npy", "--order", "F")
    np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), plain)
    assert np.load(tmp_path / "b.npy").flags.f_contiguous
    outcrop("convert", "b.npy", "c.dat", "--order", "C")
    assert (tmp_path / "c.dat").read_bytes() == plain.tobytes()
    outcrop("convert", "c.dat:shape=300x200,dtype=f8", "d", "--tile", "7x11")
    outcrop("convert", "d", "e", "--format", "raw")
    assert (tmp_path / "e").read_bytes() == plain.tobytes()
    assert oc.open(tmp_path / "d").tile == (7, 11)


def test_the_report_of_a_raw_file_says_how_to_open_it(
    outcrop: Run, array: Path, tmp_path: Path, plain: NDArray[Any]
) -> None:
    report = outcrop("--report", "convert", "a.zarr", "b.raw", "--order", "F").stderr
    place = "b.raw:shape=300x200,dtype=f8,order=F"
    assert place in report
    outcrop("convert", place, "c.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "c.npy"), plain)


def test_what_no_option_mentions_stays(outcrop: Run, array: Path, tmp_path: Path) -> None:
    outcrop("convert", "a.zarr", "b.zarr", "--codecs", "zstd:5")
    assert oc.open(tmp_path / "b.zarr").tile == (64, 80)
    outcrop("convert", "b.zarr", "c.zarr", "--tile", "default")
    facts = json.loads(outcrop("info", "--json", "c.zarr").stdout)
    assert facts["tile"] == [300, 200]
    assert "zstd" in facts["codecs"]
    outcrop("convert", "c.zarr", "d.zarr", "--codecs", "none")
    assert oc.open(tmp_path / "d.zarr").format == "zarr"


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("codecs", ["none", "zstd", "gzip:1", "blosc", "blosc:zstd:3:bitshuffle"])
def test_zarr_python_reads_the_codecs(
    outcrop: Run, array: Path, tmp_path: Path, plain: NDArray[Any], version: int, codecs: str
) -> None:
    outcrop("convert", "a.zarr", "b", "--codecs", codecs, "--zarr-format", version)
    theirs = zarr.open_array(tmp_path / "b", mode="r")
    assert theirs.metadata.zarr_format == version
    np.testing.assert_array_equal(theirs[...], plain)
    assert dict(theirs.attrs) == {"unit": "K"}
    outcrop("verify", "b")


def test_codecs_as_json(outcrop: Run, array: Path, tmp_path: Path, plain: NDArray[Any]) -> None:
    transpose = {"name": "transpose", "configuration": {"order": [1, 0]}}
    codecs = json.dumps([transpose, {"name": "bytes", "configuration": {"endian": "little"}}])
    outcrop("convert", "a.zarr", "b", "--codecs", codecs)
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "b", mode="r")[...], plain)


@pytest.mark.parametrize(
    ("box", "key"),
    [
        ("0:100,:", np.s_[0:100, :]),
        ("-10:, 3", np.s_[-10:, 3]),
        ("[..., 5:20]", np.s_[..., 5:20]),
        ("::-7,::3", np.s_[::-7, ::3]),
        ("4", np.s_[4]),
        ("7:7", np.s_[7:7]),
    ],
)
def test_boxes(
    outcrop: Run, array: Path, tmp_path: Path, plain: NDArray[Any], box: str, key: Any
) -> None:
    outcrop("convert", "a.zarr", "b.zarr", f"--box={box}")
    result = oc.open(tmp_path / "b.zarr")
    np.testing.assert_array_equal(result.compute(), plain[key])
    assert all(t <= max(n, 1) for t, n in zip(result.tile, result.shape, strict=True))


def test_the_report(outcrop: Run, array: Path) -> None:
    report = outcrop("--report", "--quiet", "copy", "a.zarr", "b.zarr").stderr
    lines = dict(line.split("  ", 1) for line in report.splitlines())
    assert list(map(str.strip, lines)) == [
        "work", "read", "written", "seconds", "rate", "peak memory"
    ]  # fmt: skip


def test_options_of_the_process(outcrop: Run, array: Path, tmp_path: Path) -> None:
    options = ["--memory", "32MiB", "--threads", "1", "--engine", "threads", "--scratch", "."]
    outcrop(*options, "copy", "a.zarr", "b.zarr")
    assert oc.open(tmp_path / "b.zarr").shape == (300, 200)
