"""``outcrop info`` says what an array is."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
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
