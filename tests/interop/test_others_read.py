"""Zarr-Python, xarray, Dask and the zarrs codec pipeline read each kind of array that we write."""

import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outcrop as oc

zarr = pytest.importorskip("zarr")
xr = pytest.importorskip("xarray")
da = pytest.importorskip("dask.array")

SHAPE, TILE = (23, 17), (8, 6)

SHARDED = [
    {
        "name": "sharding_indexed",
        "configuration": {
            "chunk_shape": [4, 3],
            "codecs": [
                {"name": "bytes", "configuration": {"endian": "little"}},
                {"name": "zstd", "configuration": {"level": 1, "checksum": False}},
            ],
            "index_codecs": [
                {"name": "bytes", "configuration": {"endian": "little"}},
                {"name": "crc32c"},
            ],
            "index_location": "end",
        },
    }
]

KINDS: dict[str, dict[str, Any]] = {
    "ours": {},
    "zstd": {"codecs": "zstd:3"},
    "gzip": {"codecs": "gzip:5"},
    "blosc": {"codecs": "blosc:lz4:5"},
    "sharded": {"codecs": SHARDED},
    "v2": {"zarr_format": 2},
    "v2-zstd": {"zarr_format": 2, "codecs": "zstd"},
    "v2-blosc": {"zarr_format": 2, "codecs": "blosc"},
}

DTYPES = ["bool", "int8", "uint16", "int64", "uint64", "float32", "float64", "complex64"]

each_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        # Zarr-Python remarks that consolidated metadata of version 3 is not specified yet.
        warnings.filterwarnings("ignore", message="Consolidated metadata")
        yield


def values(dtype: str, shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    rng = np.random.default_rng(5)
    drawn = rng.integers(0, 100, shape)
    # Zeros, and what other programs might take for missing.
    drawn = np.where(drawn % 3 == 0, 0, drawn)
    if np.dtype(dtype).kind == "c":
        return (drawn + 1j * rng.integers(0, 3, shape)).astype(dtype)
    return (drawn % 2 if dtype == "bool" else drawn).astype(dtype)


@each_kind
@pytest.mark.parametrize("dtype", DTYPES)
def test_alone(tmp_path: Path, kind: str, dtype: str) -> None:
    plain = values(dtype)
    path = tmp_path / "a.zarr"
    oc.asarray(plain).save(path, tile=TILE, dimension_names=("y", "x"), **KINDS[kind])
    for found in (zarr.open_array(path, mode="r")[...], da.from_zarr(str(path)).compute()):
        assert found.dtype == plain.dtype
        np.testing.assert_array_equal(found, plain)


@each_kind
def test_the_pipeline_of_zarrs(tmp_path: Path, kind: str) -> None:
    pytest.importorskip("zarrs")
    plain = values("float64")
    oc.asarray(plain).save(tmp_path / "a.zarr", tile=TILE, **KINDS[kind])
    with zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"}):
        np.testing.assert_array_equal(zarr.open_array(tmp_path / "a.zarr", mode="r")[...], plain)


@pytest.mark.parametrize("imported", [True, False])
def test_zarr_python_checks_what_we_wrote(tmp_path: Path, imported: bool) -> None:
    """With Outcrop in its process and without: every type, and a checksum that does not fit."""
    for dtype in DTYPES:
        plain = values(dtype)
        oc.asarray(plain).save(tmp_path / f"{dtype}.zarr", tile=TILE)
        np.save(tmp_path / f"{dtype}.npy", plain)
    damaged = tmp_path / "int8.zarr" / "c" / "1" / "1"
    script = f"""
import sys
if {imported}:
    import outcrop
import numpy as np, zarr
assert ("outcrop" in sys.modules) is {imported}
for dtype in {DTYPES}:
    found = zarr.open_array(dtype + ".zarr", mode="r")[...]
    expected = np.load(dtype + ".npy")
    assert found.dtype == expected.dtype and found.tobytes() == expected.tobytes(), dtype
data = bytearray(open({str(damaged)!r}, "rb").read())
data[5] ^= 1
open({str(damaged)!r}, "wb").write(data)
try:
    zarr.open_array("int8.zarr", mode="r")[...]
except Exception as error:
    assert "checksum" in str(error).lower(), error
else:
    raise AssertionError("not noticed")
"""
    ended = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr


@each_kind
@pytest.mark.parametrize("consolidated", [False, True])
def test_in_a_group(tmp_path: Path, kind: str, consolidated: bool) -> None:
    """xarray opens the whole group, nothing masked, whatever arrays of ours are in it."""
    group = tmp_path / "g.zarr"
    version = KINDS[kind].get("zarr_format", 3)
    zarr.open_group(group, mode="w", zarr_format=version)
    if consolidated:
        zarr.consolidate_metadata(group)
    plain = {dtype: values(dtype, SHAPE) for dtype in DTYPES}
    # As many axes as there may be, of other extents than beside, none at all, and names.
    plain |= {"cube": values("int16", (3, 5, 7)), "point": values("float32", ())}
    for name, elements in plain.items():
        wishes: dict[str, Any] = dict(KINDS[kind])
        if kind == "sharded" and elements.ndim != 2:
            del wishes["codecs"]
        tile = TILE if elements.ndim == 2 else None
        oc.asarray(elements).save(group / name, tile=tile, **wishes)
    with oc.create(group / "named", (2, 3), dimension_names=("t", None), **_plain(kind)) as named:
        named[...] = 3
    found = xr.open_zarr(group, consolidated=consolidated)
    assert set(found.data_vars) == {*plain, "named"}
    for name, elements in plain.items():
        assert found[name].dtype == elements.dtype, name
        np.testing.assert_array_equal(found[name].values, elements)
        np.testing.assert_array_equal(zarr.open_group(group, mode="r")[name][...], elements)
        assert found[name].dims == tuple(f"{name}_dim_{axis}" for axis in range(elements.ndim))
    assert found["named"].dims == ("t", "named_dim_1")


def _plain(kind: str) -> dict[str, Any]:
    return {key: value for key, value in KINDS[kind].items() if key == "zarr_format"}


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    ("dtype", "fill"),
    [
        ("float32", np.nan),
        ("float64", -np.inf),
        ("int16", -999),
        ("bool", True),
        ("uint64", 2**64 - 1),
    ],
)
@pytest.mark.parametrize("codecs", ["none", "zstd"])
def test_fill_values(tmp_path: Path, version: int, dtype: str, fill: Any, codecs: str) -> None:
    """What was never written is the fill value, to us and to others, also where all zeros are."""
    path = tmp_path / "a.zarr"
    with oc.create(
        path, SHAPE, dtype, tile=TILE, fill_value=fill, zarr_format=version, codecs=codecs
    ) as array:
        array[:10, :10] = 0
    expected = np.full(SHAPE, fill, dtype)
    expected[:10, :10] = 0
    opened = oc.open(path)
    np.testing.assert_array_equal(opened.compute(), expected)
    np.testing.assert_array_equal(zarr.open_array(path, mode="r")[...], expected)
    np.testing.assert_array_equal(opened.fill_value, fill)
    copied = opened[::-1].save(tmp_path / "b.zarr", zarr_format=5 - version)
    np.testing.assert_array_equal(copied.compute(), expected[::-1])
    np.testing.assert_array_equal(copied.fill_value, fill)
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "b.zarr").fill_value, fill)


@pytest.mark.parametrize("version", [2, 3])
def test_what_xarray_wrote(tmp_path: Path, version: int) -> None:
    """Raw values, names and attributes come back, and go along with what is made of them."""
    store, made = tmp_path / "theirs.zarr", tmp_path / "ours.zarr"
    heat = np.round(np.random.default_rng(2).random((4, 5, 6)) * 30, 1)
    heat[1, 2] = np.nan
    dataset = xr.Dataset(
        {"heat": (("time", "y", "x"), heat, {"units": "degC", "levels": [1, 2.5]})},
        coords={"time": ("time", np.arange(4) * 2.0, {"axis": "T"}), "y": np.arange(5)},
        attrs={"title": "of the sea"},
    )
    packed = {"dtype": "int16", "scale_factor": 0.1, "add_offset": 10.0, "_FillValue": -999}
    dataset.to_zarr(store, zarr_format=version, encoding={"heat": packed})
    ours = oc.open(store / "heat")
    raw = xr.open_zarr(store, mask_and_scale=False)["heat"]
    np.testing.assert_array_equal(ours.compute(), raw.values)
    assert ours.dimension_names == ("time", "y", "x")
    assert ours.attributes["units"] == "degC" and ours.attributes["scale_factor"] == 0.1
    assert "_ARRAY_DIMENSIONS" not in ours.attributes

    zarr.open_group(made, mode="w", zarr_format=version)
    for name in ("time", "y"):
        oc.open(store / name).save(made / name)
    oc.transpose(store / "heat", made / "heat")
    ours[1:].save(made / "later")
    oc.rotate(ours, axes=(1, 2)).save(made / "turned")
    ours[2, :, None].save(made / "one")
    found = xr.open_zarr(made, consolidated=False)
    xr.testing.assert_allclose(
        found["heat"].drop_vars("x", errors="ignore").transpose("time", "y", "x"), dataset["heat"]
    )
    assert found["heat"].dims == ("x", "y", "time")
    assert found["heat"].attrs == dataset["heat"].attrs
    assert found["time"].attrs == {"axis": "T"}
    # There are four times, and three of them in this array.
    assert found["later"].dims == ("later_time", "y", "x")
    np.testing.assert_allclose(found["later"].values, heat[1:])
    assert found["turned"].dims == ("time", "x", "y")
    assert found["one"].dims == ("y", "one_dim_1", "x")
    np.testing.assert_allclose(found["one"].values[:, 0], heat[2])


def test_zeros_are_not_masked(tmp_path: Path) -> None:
    """Version 2 has no other word for what is missing than the fill value."""
    zarr.open_group(tmp_path / "g", mode="w", zarr_format=2)
    zarr.open_group(tmp_path / "h", mode="w", zarr_format=3)
    plain = values("float64")
    for made in (
        oc.asarray(plain).save(tmp_path / "g" / "a"),
        oc.asarray(plain).save(tmp_path / "three").save(tmp_path / "g" / "b"),
        oc.asarray(plain).save(tmp_path / "h" / "a"),
    ):
        assert made.path is not None
        found = xr.open_zarr(made.path.parent, consolidated=False)[made.path.name]
        np.testing.assert_array_equal(found.values, plain)
        assert "_FillValue" not in found.encoding or made.path.parent.name == "h"
    assert oc.open(tmp_path / "g" / "a").fill_value is None
    with oc.create(tmp_path / "g" / "asked", 3, fill_value=0) as asked:
        asked[0] = 1
    found = xr.open_zarr(tmp_path / "g", consolidated=False)["asked"]
    np.testing.assert_array_equal(found.values, [1, np.nan, np.nan])
