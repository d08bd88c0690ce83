"""Images on the command line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outcrop as oc

Run = Callable[..., Any]

PLAIN = np.random.default_rng(0).integers(0, 256, (60, 80, 3), np.uint8)


def test_told_copied_converted_and_verified(outcrop: Run, tmp_path: Path) -> None:
    pytest.importorskip("tifffile")
    with oc.create(tmp_path / "a.ppm", PLAIN.shape, "uint8", attributes={"maxval": 200}) as array:
        array[:] = PLAIN
    facts = json.loads(outcrop("info", "--json", "a.ppm").stdout)
    assert (facts["format"], facts["shape"], facts["dtype"]) == ("ppm", [60, 80, 3], "uint8")
    assert facts["attributes"] == {"maxval": 200}
    outcrop("convert", "a.ppm", "a.tif")
    outcrop("copy", "a.tif", "b.tiff")
    outcrop("convert", "--box", ":,:,1", "b.tiff", "green.pnm")
    outcrop("copy", "a.ppm", "c.pnm")
    outcrop("convert", "--tile", "32x32x3", "a.ppm", "a.zarr")
    outcrop("convert", "a.zarr", "d.ppm")
    assert (tmp_path / "d.ppm").read_bytes() == (tmp_path / "a.ppm").read_bytes()
    np.testing.assert_array_equal(oc.open(tmp_path / "b.tiff").compute(), PLAIN)
    np.testing.assert_array_equal(oc.open(tmp_path / "green.pnm").compute(), PLAIN[:, :, 1])
    assert "photometric" in outcrop("info", "b.tiff").stdout
    outcrop("verify", "a.ppm", "b.tiff")


def test_refused_with_a_reason(outcrop: Run, tmp_path: Path) -> None:
    oc.asarray(PLAIN).save(tmp_path / "a.ppm")
    run = outcrop("convert", "--order", "F", "a.ppm", "b.ppm", status=2)
    assert "ppm files are row-major" in run.stderr
    run = outcrop("copy", "a.ppm", "a.pgm", status=2)
    assert "'outcrop convert' changes it" in run.stderr
    run = outcrop("convert", "a.ppm", "a.pgm", status=1)
    assert "PGM holds arrays of shape (height, width)" in run.stderr
    (tmp_path / "b.ppm").write_bytes((tmp_path / "a.ppm").read_bytes()[:-1])
    assert "1 missing" in outcrop("info", "b.ppm", status=1).stderr
