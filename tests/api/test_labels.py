"""Names of dimensions, fill values and attributes: asked for, carried along, refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import outcrop as oc

PLAIN = np.arange(24.0).reshape(2, 3, 4)
NAMES = ("t", "y", "x")


@pytest.fixture
def labelled(tmp_path: Path) -> oc.Array:
    return oc.asarray(PLAIN).save(
        tmp_path / "a.zarr",
        dimension_names=NAMES,
        fill_value=-1,
        attributes={"units": "m", "nested": {"a": [1, None]}},
    )


def same(found: oc.Array, names: Any, fill: Any = -1.0, units: str | None = "m") -> None:
    assert found.dimension_names == names
    assert found.fill_value == fill
    assert found.attributes.get("units") == units


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("codecs", ["none", "zstd"])
def test_they_go_with_the_axes(
    tmp_path: Path, labelled: oc.Array, version: int, codecs: str
) -> None:
    def saved(array: oc.Array) -> oc.Array:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.zarr"
        return array.save(path, zarr_format=version, codecs=codecs)

    if version == 2:
        # There it would mask elements that are -1 and were written, unless that is asked for.
        same(saved(labelled), NAMES, None)
        labelled = labelled.save(tmp_path / "two.zarr", zarr_format=2, fill_value=-1)
    same(saved(labelled), NAMES)
    same(saved(saved(labelled)).T, ("x", "y", "t"))
    same(saved(labelled.T), ("x", "y", "t"))
    same(saved(labelled[:, 1]), ("t", "x"))
    same(saved(labelled[0, ::-1, 1::2]), ("y", "x"))
    same(saved(oc.permute_dims(labelled, (1, 2, 0))), ("y", "x", "t"))
    same(saved(oc.rotate(labelled, axes=(1, 2))), ("t", "x", "y"))
    same(saved(oc.flip(labelled, axis=0)), NAMES)
    same(saved(oc.moveaxis(labelled, 0, -1)), ("y", "x", "t"))
    same(saved(labelled[1, 2, 3]), ())
    named = saved(labelled[:, None])
    assert named.dimension_names in (
        ("t", None, "y", "x"),
        ("t", f"{named.path.name}_dim_1", "y", "x"),  # type: ignore[union-attr]
    )
    # What is computed is something else.
    same(saved(labelled + 1), None, 0.0 if version == 3 else None, None)


def test_from_file_to_file(tmp_path: Path, labelled: oc.Array) -> None:
    same(oc.transpose(labelled, tmp_path / "b.zarr"), ("x", "y", "t"))
    same(oc.transpose(labelled, tmp_path / "c.zarr", via=tmp_path), ("x", "y", "t"))
    done = oc.save({tmp_path / "d.zarr": labelled.T, tmp_path / "e.zarr": labelled * 2})
    same(done[tmp_path / "d.zarr"], ("x", "y", "t"))
    same(done[tmp_path / "e.zarr"], None, 0, None)
    # Formats that hold none of it lose it without a word.
    assert labelled.save(tmp_path / "f.npy").dimension_names is None
    assert oc.open(tmp_path / "f.npy").fill_value is None


def test_what_is_asked_for_comes_first(tmp_path: Path, labelled: oc.Array) -> None:
    found = labelled.save(
        tmp_path / "b.zarr", dimension_names=["a", None, "c"], fill_value=0, attributes={}
    )
    same(found, ("a", None, "c"), 0, None)
    assert labelled.save(tmp_path / "c.zarr", dimension_names=[None] * 3).dimension_names is None
    # The way in which it was said to xarray before there was another one.
    found = oc.create(tmp_path / "d.zarr", 3, attributes={"_ARRAY_DIMENSIONS": ["x"], "a": 1})
    assert found.dimension_names == ("x",)
    assert found.attributes == {"a": 1}


@pytest.mark.parametrize(
    ("wishes", "error", "match"),
    [
        ({"dimension_names": ["x"]}, oc.InvalidArgumentError, "1 names for 2"),
        ({"dimension_names": "xy"}, oc.InvalidTypeError, "sequence of strings"),
        ({"dimension_names": [1, "x"]}, oc.InvalidTypeError, "1 is neither"),
        ({"dimension_names": 3}, oc.InvalidTypeError, "sequence"),
        ({"fill_value": 300}, oc.InvalidArgumentError, "300 is not an element of type uint8"),
        ({"fill_value": -1}, oc.InvalidArgumentError, "uint8"),
        ({"fill_value": 0.5}, oc.InvalidArgumentError, "uint8"),
        ({"fill_value": np.nan}, oc.InvalidArgumentError, "uint8"),
        ({"fill_value": 1j}, oc.InvalidArgumentError, "uint8"),
        ({"fill_value": 2**70}, oc.InvalidTypeError, "number"),
        ({"fill_value": "a"}, oc.InvalidTypeError, "number"),
        ({"fill_value": [1, 2]}, oc.InvalidTypeError, "number"),
        ({"attributes": {"a": object()}}, oc.InvalidTypeError, "attributes"),
        ({"attributes": {"a": np.nan}}, oc.InvalidArgumentError, "attributes"),
        ({"attributes": {1: 2}}, oc.InvalidTypeError, "1 is not a string"),
        ({"attributes": [1]}, oc.InvalidTypeError, "mapping"),
        ({"attributes": {"_ARRAY_DIMENSIONS": ["x"]}}, oc.InvalidArgumentError, "1 names"),
        ({"zarr_format": 4}, oc.InvalidArgumentError, "zarr_format"),
        ({"zarr_format": True}, oc.InvalidArgumentError, "zarr_format"),
    ],
)
def test_nonsense(
    tmp_path: Path, wishes: dict[str, Any], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        oc.create(tmp_path / "a.zarr", (2, 3), "uint8", **wishes)
    with pytest.raises(error, match=match):
        oc.asarray(np.zeros((2, 3), "uint8")).save(tmp_path / "a.zarr", **wishes)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a.npy", "a.raw", "a.pgm"])
@pytest.mark.parametrize(
    "wish", [{"dimension_names": ["y", "x"]}, {"fill_value": 0}, {"attributes": {"a": 1}}]
)
def test_formats_that_hold_none(tmp_path: Path, name: str, wish: dict[str, Any]) -> None:
    if name == "a.pgm" and "attributes" in wish:
        pytest.skip("PGM has attributes of its own")
    with pytest.raises(oc.InvalidArgumentError, match=r"= is for Zarr arrays and .*a\.\w+' is"):
        oc.create(tmp_path / name, (2, 3), "uint8", **wish)
    with pytest.raises(oc.InvalidArgumentError, match="is for Zarr arrays"):
        oc.asarray(np.zeros((2, 3), "uint8")).save(tmp_path / name, **wish)


ELEMENTS = st.sampled_from(
    ["bool", "int8", "uint8", "int64", "uint64", "float32", "float64", "complex64", "complex128"]
).flatmap(
    lambda name: st.tuples(
        st.just(name),
        st.binary(min_size=np.dtype(name).itemsize, max_size=np.dtype(name).itemsize),
    )
)


@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(element=ELEMENTS, version=st.sampled_from([2, 3]), codecs=st.sampled_from(["none", "zstd"]))
def test_any_fill_value(
    tmp_path: Path, element: tuple[str, bytes], version: int, codecs: str
) -> None:
    """Every bit of it comes back (but of NaN in version 2, which has one NaN), in elements, too."""
    dtype = np.dtype(element[0])
    fill = np.frombuffer(element[1], "u1" if dtype.kind == "b" else dtype)[0]
    fill = np.bool_(fill & 1) if dtype.kind == "b" else fill
    path = tmp_path / "a.zarr"
    with oc.create(
        path, 5, dtype, tile=2, fill_value=fill, zarr_format=version, codecs=codecs, overwrite=True
    ) as array:
        array[2] = 1
    found = oc.open(path)
    expected = np.full(5, fill, dtype)
    expected[2] = 1
    copied = found[::-1].save(tmp_path / "b.zarr", overwrite=True)
    for one, wanted in ((found, expected), (copied, expected[::-1])):
        if version == 3:
            assert one.compute().tobytes() == wanted.tobytes()
        np.testing.assert_array_equal(one.compute(), wanted)
        np.testing.assert_array_equal(one.fill_value, fill)


def test_halves_that_are_not_stored_are_zero(tmp_path: Path) -> None:
    """Of a factor only one half is stored, unless what is not stored is something else."""
    matrix = np.eye(300) * 4 + 0.001
    source = oc.asarray(matrix).save(tmp_path / "a.zarr", tile=50)
    lazy = oc.linalg.cholesky(source)
    factor = lazy.save(tmp_path / "l.zarr", tile=50, fill_value=7)
    assert factor.fill_value == 7
    np.testing.assert_allclose(factor.compute(), np.linalg.cholesky(matrix))
    plain = oc.linalg.cholesky(source).save(tmp_path / "p.zarr", tile=50)
    assert len(list((tmp_path / "p.zarr").rglob("*"))) < len(list((tmp_path / "l.zarr").rglob("*")))
    np.testing.assert_allclose(plain.compute(), np.linalg.cholesky(matrix))


def test_plans_count_them(tmp_path: Path, labelled: oc.Array) -> None:
    """Attributes as long as some blocks of the disk."""
    long = {"history": ["and then " * 100] * 12}
    source = labelled.save(tmp_path / "long.zarr", attributes=long)
    planned = oc.plan(source.T, tmp_path / "b.zarr").bytes_written
    oc.transpose(source, tmp_path / "b.zarr")
    run = oc.last_run()
    assert run is not None and run.bytes_written == planned
    assert planned > oc.plan(oc.asarray(PLAIN).save(tmp_path / "s.zarr").T).bytes_written
    assert json.loads((tmp_path / "b.zarr" / "zarr.json").read_text())["attributes"] == long
