"""Numbers that stand for others."""

from typing import Any

import numpy as np
import pytest
import xarray as xr

import outcrop as oc

# xarray says where there are several.
pytestmark = pytest.mark.filterwarnings("ignore:variable .* has multiple fill values")

RNG = np.random.default_rng(5)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "int64", "float32", "float64"])
@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"scale_factor": 0.01},
        {"add_offset": 273.15},
        {"scale_factor": 0.25, "add_offset": -3.0, "_FillValue": 7},
        {"_FillValue": 5, "missing_value": 9},
        {"missing_value": [9, 11]},
        {"_Unsigned": "true"},
        {"_Unsigned": "true", "scale_factor": 0.5, "missing_value": 9},
    ],
)
def test_as_xarray_has_them(desk: Any, version: int, dtype: str, attributes: Any) -> None:
    if "_Unsigned" in attributes and dtype[0] != "i":
        pytest.skip("of integers with a sign")
    low = -20 if dtype[0] != "u" else 0
    values = RNG.integers(low, 30, (150, 90)).astype(dtype)
    labels = dict(attributes)
    options: dict[str, Any] = {"zarr_format": version, "tile": (40, 25)}
    if "_FillValue" in labels and (version == 2 or dtype.startswith("f")):
        # What that version has for it; of floats, an attribute has other letters.
        options["fill_value"] = labels.pop("_FillValue")
        attributes = {**attributes} if version == 2 else labels
    if version == 3:
        options.pop("fill_value", None)
    path = desk.path / "packed.zarr"
    array = oc.asarray(values).save(path, attributes=labels, dimension_names=("y", "x"), **options)
    raw = xr.Dataset({"v": (("y", "x"), values, attributes)})
    expected = xr.decode_cf(raw).v.values
    with oc.config(memory="1MiB"):
        made = array.mask_and_scale()
        desk.check(made, expected)
        assert made.dtype == expected.dtype
    if not attributes:
        assert made is array


def test_nan_is_missing(desk: Any) -> None:
    array = oc.asarray(np.array([1.0, np.nan, 3.0]))
    saved = array.save(desk.path / "n.zarr", attributes={"scale_factor": 2.0})
    np.testing.assert_array_equal(saved.mask_and_scale().compute(), [2, np.nan, 6])
    plain = oc.asarray(np.ones(3, "int16")).save(
        desk.path / "m.zarr", attributes={"missing_value": 99999, "_FillValue": "many"}
    )
    # What is no element is missing nowhere.
    assert plain.mask_and_scale() is plain


def test_what_makes_no_sense(desk: Any) -> None:
    for kind, attributes in (
        ("int16", {"scale_factor": "much"}),
        ("int16", {"add_offset": [1, 2]}),
        ("int16", {"add_offset": True}),
        ("complex64", {"scale_factor": 2.0}),
        ("bool", {"add_offset": 1}),
    ):
        saved = oc.asarray(np.ones(3, kind)).save(
            desk.path / "w.zarr", attributes=attributes, overwrite=True
        )
        with pytest.raises(oc.InvalidArgumentError):
            saved.mask_and_scale()
    assert oc.asarray(np.ones(3, "bool")).mask_and_scale().dtype == bool
