"""``outcrop info`` says what an array is."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from numpy.typing import NDArray

import outcrop as oc

Run = Callable[..., Any]


def test_a_person_reads_it(outcrop: Run, array: Path) -> None:
    out = outcrop("info", "a.zarr").stdout
    for part in ("Zarr 3", "300 x 200", "float64", "64 x 80, 15 tiles", "crc32c", '{"unit": "K"}'):
        assert part in out
    assert "\x1b" not in out


def test_a_program_reads_it(outcrop: Run, array: Path) -> None:
    facts = json.loads(outcrop("info", "--json", array).stdout)
    assert facts["path"] == str(array)
    assert facts["shape"] == [300, 200]
    assert facts["tile"] == [64, 80]
    assert facts["dtype"] == "float64"
    assert facts["format"] == "zarr"
    assert facts["zarr_format"] == 3
    assert facts["bytes"] == 480000
    assert facts["stored_bytes"] == 15 * (64 * 80 * 8 + 4)
    assert facts["attributes"] == {"unit": "K"}


def test_several_a_line_each(
    outcrop: Run, array: Path, tmp_path: Path, plain: NDArray[Any]
) -> None:
    oc.asarray(plain).save(tmp_path / "a.npy", order="F")
    plain.tofile(tmp_path / "a.raw")
    places = ["a.zarr", "a.npy", "a.raw:shape=300x200,dtype=f8", "none.zarr"]
    done = outcrop("info", "--json", *places, status=1)
    facts = [json.loads(line) for line in done.stdout.splitlines()]
    assert [f["format"] for f in facts] == ["zarr", "npy", "raw"]
    assert [f["layout"] for f in facts] == ["tiled", "column-major", "row-major"]
    assert done.stderr == "outcrop: error: none.zarr: there is no array here\n"


def test_odd_shapes(outcrop: Run, tmp_path: Path) -> None:
    oc.asarray(np.float32(3)).save(tmp_path / "point.zarr")
    oc.asarray(np.zeros((0, 7))).save(tmp_path / "empty.npy")
    out = outcrop("info", "point.zarr", "empty.npy").stdout
    assert "shape   ()" in out
    assert "shape   0 x 7" in out


def test_names_are_bytes(outcrop: Run, tmp_path: Path, plain: NDArray[Any]) -> None:
    name = b"caf\xe9:x=1.npy".decode("utf-8", "surrogateescape")
    np.save(tmp_path / name, plain)
    done = outcrop("info", name)
    assert name in done.stdout


def test_the_description_of_a_raw_file(outcrop: Run, tmp_path: Path) -> None:
    values = np.arange(12, dtype=">f4").reshape(3, 4)
    (tmp_path / "a.bin").write_bytes(b"x" * 5 + values.tobytes("F"))
    place = " a.bin: shape=3x4, dtype=>f4, offset=5, order=f".strip()
    facts = json.loads(outcrop("info", "--json", place).stdout)
    assert facts["layout"] == "column-major"
    assert facts["dtype"] == "float32"
    outcrop("convert", place, "a.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), values)


@pytest.mark.filterwarnings("ignore")
def test_a_group_is_a_tree(outcrop: Run, tmp_path: Path) -> None:
    for version in (2, 3):
        root = tmp_path / f"g{version}.zarr"
        zarr.open_group(root, mode="w", zarr_format=version)
        zarr.open_group(root / "deep", mode="w", zarr_format=version)
        oc.asarray(np.ones((4, 3))).save(root / "heat", tile=(2, 3), dimension_names=("y", "x"))
        oc.asarray(np.ones(5, "int8")).save(root / "deep" / "ice", dimension_names=("t",))
        words = zarr.create_array(root / "words", data=np.array(["a"]), zarr_format=version)
        assert words.shape == (1,)
        out = outcrop("info", root.name).stdout
        assert f"format  Zarr {version}" in out
        assert "  heat  4 x 3, float64, tiled 2 x 3, " in out
        assert "(y, x)" in out
        assert "  deep/\n    ice  5, int8" in out
        assert "not supported" in out
        assert str(tmp_path) not in out
        tree = json.loads(outcrop("info", "--json", root.name).stdout)
        assert [one["name"] for one in tree["datasets"]] == ["deep/ice", "heat", "words"]
        with pytest.raises(oc.UnsupportedError, match=r"holds deep/ice, heat, words; .*deep/ice"):
            oc.open(root)
        # The only one needs no name.
        assert oc.open(root / "deep").shape == (5,)
        zarr.open_group(root / "bare", mode="w", zarr_format=version)
        with pytest.raises(oc.UnsupportedError, match="no arrays"):
            oc.open(root / "bare")
        assert "no arrays" in outcrop("info", f"{root.name}/bare").stdout
        (root / "deep" / "round").symlink_to(root)
        assert oc.open(root / "deep").shape == (5,)
