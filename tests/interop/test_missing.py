"""What xarray takes for missing is the same in every copy, of whichever version of Zarr."""

import json
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import outcrop as oc
from outcrop.cli.app import group as command

zarr = pytest.importorskip("zarr")
xr = pytest.importorskip("xarray")
h5py = pytest.importorskip("h5py")

PACKED = {"scale_factor": 0.5, "add_offset": 3.0}
KINDS: dict[str, tuple[str, float, dict[str, Any]]] = {
    "float32": ("float32", -999.9, {}),
    "float64": ("float64", -999.0, {}),
    "nan": ("float64", np.nan, {}),
    "packed": ("int16", -999, PACKED),
    "uint8": ("uint8", 255, {}),
    "zero": ("int32", 0, {}),
    "bool": ("bool", True, {}),
    "complex64": ("complex64", -1 + 2j, {}),
}
"""Type, what is missing, further attributes."""

VERSIONS = [(2, 3), (3, 2), (2, 2), (3, 3)]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning)
        yield


def encoded(number: Any, dtype: str) -> Any:
    return xr.backends.zarr.FillValueCoder.encode(np.dtype(dtype).type(number), np.dtype(dtype))


def written(
    group: Path,
    version: int,
    kind: str,
    *,
    is_masked: bool,
    fill: Any = None,
    is_named: bool = True,
) -> Path:
    """An array as xarray has it; one chunk is not there, and some elements are what is missing."""
    dtype, missing, attributes = KINDS[kind]
    names: Any = ["y", "x"] if is_named else None
    options: dict[str, Any] = {"attributes": dict(attributes), "fill_value": fill}
    if version == 2:
        if is_named:
            options["attributes"]["_ARRAY_DIMENSIONS"] = names
        if is_masked:
            options["fill_value"] = missing
    else:
        options |= {"dimension_names": names, "fill_value": 0 if fill is None else fill}
        if is_masked:
            options["attributes"]["_FillValue"] = encoded(missing, dtype)
    root = zarr.open_group(group, mode="w", zarr_format=version)
    made = root.create_array(
        "t", shape=(5, 7), chunks=(2, 3), dtype=dtype, compressors=None, **options
    )
    elements = (np.arange(35).reshape(5, 7) % 8).astype(dtype)
    elements[0, 1] = elements[4, 3] = missing
    made[...] = elements
    (group / "t" / ("1.1" if version == 2 else "c/1/1")).unlink()
    return group / "t"


def seen(group: Path) -> dict[str, np.ndarray]:
    """What xarray makes of the arrays in a group."""
    found = {str(k): v.values for k, v in xr.open_zarr(group, consolidated=False).items()}
    # Booleans that are missing are objects, whose NaN equals none.
    return {k: v.astype("float64") if v.dtype == object else v for k, v in found.items()}


def is_nan(element: Any) -> bool:
    return bool(element != element)


def by_command(verb: str, *options: str) -> Callable[[Path, Path, int], Any]:
    def run(source: Path, target: Path, version: int) -> None:
        done = CliRunner().invoke(command, ["--quiet", verb, str(source), str(target), *options])
        assert done.exit_code == 0, done.output

    return run


def alone(source: Path, target: Path, version: int) -> None:
    """With the version of Zarr as an option, as no group says which."""
    lone = target.parent.parent / "alone.zarr"
    oc.open(source).save(lone, zarr_format=version, overwrite=True)
    shutil.copytree(lone, target)


WAYS: dict[str, Callable[[Path, Path, int], Any]] = {
    "saved": lambda s, t, v: oc.open(s).save(t),
    "asked": lambda s, t, v: oc.open(s).save(t, zarr_format=v, codecs="zstd"),
    "alone": alone,
    "turned": lambda s, t, v: oc.open(s).T.save(t),
    "transposed": lambda s, t, v: oc.transpose(s, t),
    "rotated": lambda s, t, v: oc.rotate(oc.rotate(oc.open(s)), t),
    "via": lambda s, t, v: oc.transpose(s, t, via=t.parent.parent),
    "several": lambda s, t, v: oc.save({t: oc.open(s).T}),
    "external": lambda s, t, v: oc.asarray(zarr.open_array(s, mode="r")).save(t),
    "copied": by_command("copy"),
    "converted": by_command("convert", "--codecs", "zstd", "--tile", "3x3"),
    "reoriented": by_command("transpose"),
}
"""Ways to write an array to a group; of some, the transposed one comes out."""

TURNED = ("turned", "transposed", "via", "several", "reoriented")


def check_copies(source: Path, group: Path, version: int, expected: np.ndarray) -> None:
    """Everything that comes out in a group is what is expected, to us and to xarray."""
    zarr.open_group(group, mode="w", zarr_format=version)
    for name, write in WAYS.items():
        write(source, group / name, version)
    elements, all_seen = oc.open(source).compute(), seen(group)
    for name in WAYS:
        own, theirs = oc.open(group / name).compute(), all_seen[name]
        assert theirs.dtype == expected.dtype, name
        if name in TURNED:
            own, theirs = own.T, theirs.T
        elif name == "rotated":
            own, theirs = own[::-1, ::-1], theirs[::-1, ::-1]
        np.testing.assert_array_equal(own, elements, err_msg=name)
        np.testing.assert_array_equal(theirs, expected, err_msg=name)


@pytest.mark.parametrize(("before", "after"), VERSIONS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_masked", [True, False])
def test_copies_are_masked_alike(
    tmp_path: Path, before: int, after: int, kind: str, is_masked: bool
) -> None:
    """Version 2 masks by the fill value, version 3 by an attribute: copies lost it on the way."""
    source = written(tmp_path / "theirs", before, kind, is_masked=is_masked)
    expected = seen(source.parent)["t"]
    # Or there is nothing to lose.
    assert is_nan(expected[4, 3]) == (is_masked or kind == "nan")
    check_copies(source, tmp_path / "ours", after, expected)
    # And back.
    again = tmp_path / "again"
    zarr.open_group(again, mode="w", zarr_format=before)
    oc.open(tmp_path / "ours" / "saved").save(again / "t")
    np.testing.assert_array_equal(seen(again)["t"], expected)


@pytest.mark.parametrize("after", [2, 3])
@pytest.mark.parametrize("kind", ["float32", "packed", "uint8", "bool"])
@pytest.mark.parametrize("is_masked", [True, False])
def test_what_is_not_there_is_not_missing(
    tmp_path: Path, after: int, kind: str, is_masked: bool
) -> None:
    """In version 3, chunks that are not there hold another element than the one that is missing."""
    source = written(tmp_path / "theirs", 3, kind, is_masked=is_masked, fill=1)
    expected = seen(source.parent)["t"]
    # Of booleans, there is no third.
    assert is_nan(expected[2, 3]) == (is_masked and kind == "bool")
    check_copies(source, tmp_path / "ours", after, expected)


@pytest.mark.parametrize(("before", "after"), VERSIONS)
@pytest.mark.parametrize("fill", [0, 5, 255])
def test_what_has_no_names_is_not_masked(
    tmp_path: Path, before: int, after: int, fill: int
) -> None:
    """xarray does not open it, until it is in a group of ours and gets names."""
    source = written(
        tmp_path / "theirs", before, "uint8", is_masked=False, fill=fill, is_named=False
    )
    elements = oc.open(source).compute()
    assert (elements == fill).any()
    group = tmp_path / "ours"
    zarr.open_group(group, mode="w", zarr_format=after)
    for name in ("saved", "external", "copied"):
        WAYS[name](source, group / name, after)
    for values in seen(group).values():
        np.testing.assert_array_equal(values, elements)
    # Where it stays without names, nobody is told of a mask, and the fill value stays.
    lone = oc.open(source).save(tmp_path / "alone.zarr", zarr_format=after)
    assert "_FillValue" not in lone.attributes
    assert (lone.fill_value or 0) == fill


@pytest.mark.parametrize("after", [2, 3])
@pytest.mark.parametrize(
    ("dtype", "said", "library"),
    [
        ("float32", -999.0, "zarr"),
        ("float32", 1e300, "zarr"),
        ("int16", -999, "zarr"),
        ("int8", 255, "zarr"),
        ("float32", np.float32(-999.9), "h5py"),
        ("int16", np.array([-999], "int16"), "h5py"),
        ("float64", -999.0, "xarray"),
    ],
)
def test_a_number_is_understood_too(
    tmp_path: Path, after: int, dtype: str, said: Any, library: str
) -> None:
    """HDF5 has it, and version 2 without a fill value; in version 3, xarray refused the group."""
    plain = np.arange(35).reshape(5, 7).astype(dtype)
    number = np.ravel(said)[0]
    plain[0, 1] = number if abs(number) < 1000 and dtype != "int8" else 3
    if library == "zarr":
        group = zarr.open_group(tmp_path / "theirs", mode="w", zarr_format=2)
        attributes = {"_ARRAY_DIMENSIONS": ["y", "x"], "_FillValue": said}
        given = group.create_array(
            "t", shape=plain.shape, dtype=dtype, fill_value=None, attributes=attributes
        )
        given[...] = plain
        expected = seen(tmp_path / "theirs")["t"]
    else:
        if library == "h5py":
            given = h5py.File(tmp_path / "t.h5", "w").create_dataset("t", data=plain)
            given.attrs["_FillValue"] = said
        else:
            given = xr.DataArray(plain, dims=("y", "x"), attrs={"_FillValue": said})
        expected = np.where(plain == number, np.nan, plain)
    ours = tmp_path / "ours"
    zarr.open_group(ours, mode="w", zarr_format=after)
    oc.asarray(given).save(ours / "t")
    np.testing.assert_array_equal(oc.open(ours / "t").compute(), plain)
    np.testing.assert_array_equal(seen(ours)["t"], expected)


def test_what_is_asked_for_comes_first(tmp_path: Path) -> None:
    two = oc.open(written(tmp_path / "two", 2, "uint8", is_masked=True))
    three = oc.open(written(tmp_path / "three", 3, "uint8", is_masked=True))
    expected = two.compute()

    def asked(array: oc.Array, version: int, **options: Any) -> tuple[oc.Array, np.ndarray]:
        group = tmp_path / f"to{version}"
        zarr.open_group(group, mode="w", zarr_format=version)
        saved = array.save(group / "t", **options)
        return saved, seen(group)["t"]

    # In version 2, attributes do not say what is missing, and those asked for neither.
    saved, theirs = asked(two, 3, attributes={"units": "m"}, fill_value=7)
    assert saved.attributes == {"units": "m", "_FillValue": 255} and saved.fill_value == 7
    np.testing.assert_array_equal(theirs, np.where(expected == 255, np.nan, expected))
    saved, _ = asked(two, 3, attributes={"_FillValue": 4})
    assert saved.attributes == {"_FillValue": 4} and saved.fill_value == 255
    # In version 3, they do.
    saved, theirs = asked(three, 3, attributes={"units": "m"})
    assert saved.attributes == {"units": "m"} and not np.isnan(theirs).any()
    saved, theirs = asked(three, 2, fill_value=4)
    assert saved.attributes == {} and saved.fill_value == 4
    np.testing.assert_array_equal(np.isnan(theirs), three.compute() == 4)


def test_it_is_written_as_xarray_does(tmp_path: Path) -> None:
    """Each version as if xarray had written it, names of the attribute included."""
    heat = np.arange(6.0).reshape(2, 3)
    heat[0, 1] = np.nan
    dataset = xr.Dataset({"t": (("y", "x"), heat, {"units": "K"})})
    dataset["t"].encoding["_FillValue"] = -999.0
    for version in (2, 3):
        dataset.to_zarr(tmp_path / f"theirs{version}", zarr_format=version)
        zarr.open_group(tmp_path / f"ours{version}", mode="w", zarr_format=version)
    for version in (2, 3):
        oc.open(tmp_path / f"theirs{5 - version}" / "t").save(tmp_path / f"ours{version}" / "t")
        found = xr.open_zarr(tmp_path / f"ours{version}", consolidated=False)
        xr.testing.assert_identical(found.load(), dataset)
        assert found["t"].encoding["_FillValue"] == -999.0
    two, three = tmp_path / "ours2" / "t", tmp_path / "ours3" / "t"
    assert json.loads((two / ".zarray").read_text())["fill_value"] == -999.0
    assert "_FillValue" not in json.loads((two / ".zattrs").read_text())
    theirs = json.loads((tmp_path / "theirs3" / "t" / "zarr.json").read_text())
    assert json.loads((three / "zarr.json").read_text())["attributes"] == theirs["attributes"]
