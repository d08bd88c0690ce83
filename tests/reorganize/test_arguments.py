"""Arguments that make no sense, and those that do although they look odd."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import outcrop as oc

pytestmark = pytest.mark.filterwarnings("ignore::outcrop.errors.OutcropWarning")

PLAIN = np.arange(6.0).reshape(2, 3)


@pytest.fixture
def array(desk: Any) -> oc.Array:
    return oc.open(desk.put("a.npy", PLAIN))


@pytest.mark.parametrize(
    "angle",
    [
        *(45, 1, 89.5, -91, float("nan"), float("inf"), np.float64("inf"), Fraction(1, 3)),
        *(True, False, np.False_, None, "90", (90,), 1j, np.array([90])),
    ],
    ids=repr,
)
def test_angles_that_are_none(desk: Any, angle: Any) -> None:
    # The angle is looked at first.
    for x in (oc.asarray(PLAIN), desk.path / "none.npy"):
        with pytest.raises(oc.InvalidArgumentError, match="angle must be a multiple of 90"):
            oc.rotate(x, None, angle)


@pytest.mark.parametrize(
    ("angle", "quarters"),
    [
        *((90, 1), (90.0, 1), (-90, 3), (450, 1), (0, 0), (-0.0, 0), (90 * 10**30 + 90, 1)),
        *((np.int64(180), 2), (np.float32(270), 3), (np.uint8(180), 2), (Fraction(180), 2)),
    ],
    ids=repr,
)
def test_angles(array: oc.Array, angle: Any, quarters: int) -> None:
    expected = np.rot90(PLAIN, quarters)
    np.testing.assert_array_equal(oc.rotate(array, None, angle).compute(), expected)
    np.testing.assert_array_equal(oc.rotate(array, angle=angle).compute(), expected)


@pytest.mark.parametrize(
    ("axes", "error", "match"),
    [
        ((0,), oc.InvalidArgumentError, "axes don't match"),
        ((), oc.InvalidArgumentError, "axes don't match"),
        ((0, 1, 2), oc.InvalidArgumentError, "axes don't match"),
        ((1, 1), oc.InvalidArgumentError, "repeated axis"),
        ((1, -1), oc.InvalidArgumentError, "repeated axis"),
        ((0, 2), oc.BoxIndexError, "axis 2 is out of bounds"),
        ((-3, 0), oc.BoxIndexError, "axis -3 is out of bounds"),
        ((0.0, 1), oc.InvalidTypeError, "integer"),
        ("10", oc.InvalidTypeError, "integer"),
        (1, oc.InvalidTypeError, "sequence of integers"),
    ],
)
def test_axes_that_are_no_permutation(
    desk: Any, array: oc.Array, axes: Any, error: type[Exception], match: str
) -> None:
    for target in (None, desk.path / "out.npy"):
        with pytest.raises(error, match=match):
            oc.permute_dims(array, axes, target)
        with pytest.raises(error, match=match):
            oc.transpose(array, target, axes=axes)
    with pytest.raises(oc.InvalidTypeError):
        oc.permute_dims(array, None)  # type: ignore[arg-type]
    assert not (desk.path / "out.npy").exists()


def test_axes_as_others_give_them(array: oc.Array) -> None:
    for axes in ((1, 0), [1, 0], np.array([1, 0]), (-1, -2), range(1, -1, -1), iter((1, 0))):
        np.testing.assert_array_equal(oc.permute_dims(array, axes).compute(), PLAIN.T)  # type: ignore[arg-type]
    np.testing.assert_array_equal(oc.transpose(array, axes=None).compute(), PLAIN.T)
    np.testing.assert_array_equal(oc.transpose(array, axes=(0, 1)).compute(), PLAIN)
    for axis in (1, -1, np.int64(1), (1,), [-1]):
        np.testing.assert_array_equal(oc.flip(array, axis=axis).compute(), PLAIN[:, ::-1])
    np.testing.assert_array_equal(oc.flip(array, axis=()).compute(), PLAIN)


@pytest.mark.parametrize(
    ("axis", "error"),
    [
        (2, oc.BoxIndexError),
        (-3, oc.BoxIndexError),
        ((0, 0), oc.InvalidArgumentError),
        ((0, -2), oc.InvalidArgumentError),
        (0.5, oc.InvalidTypeError),
        ("0", oc.InvalidTypeError),
        ({0}, oc.InvalidTypeError),
    ],
)
def test_axes_that_cannot_be_flipped(array: oc.Array, axis: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        oc.flip(array, axis=axis)


@pytest.mark.parametrize(
    ("axes", "error"),
    [
        ((0,), oc.InvalidArgumentError),
        ((0, 1, 0), oc.InvalidArgumentError),
        ((1, 1), oc.InvalidArgumentError),
        ((1, -1), oc.InvalidArgumentError),
        ((0, 2), oc.BoxIndexError),
        (("0", 1), oc.InvalidTypeError),
        (0, oc.InvalidTypeError),
    ],
)
def test_planes_that_are_none(array: oc.Array, axes: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        oc.rotate(array, axes=axes)


def test_nothing_to_rotate(array: oc.Array) -> None:
    for view in (array[0], array[0, 1]):
        with pytest.raises(oc.InvalidArgumentError, match="no plane"):
            oc.rotate(view)


def test_options_that_nobody_knows(desk: Any, array: oc.Array) -> None:
    """The message named a function that no user has called."""
    calls: dict[str, Any] = {
        "permute_dims": lambda **o: oc.permute_dims(array, (1, 0), desk.path / "out.npy", **o),
        "transpose": lambda **o: oc.transpose(array, desk.path / "out.npy", **o),
        "rotate": lambda **o: oc.rotate(array, desk.path / "out.npy", **o),
        "flip": lambda **o: oc.flip(array, desk.path / "out.npy", **o),
    }
    for name, call in calls.items():
        for option in ("compression", "operation", "turned"):
            with pytest.raises(TypeError, match=rf"^{name}\(\) got an unexpected .* '{option}'"):
                call(**{option: 1})
    assert not (desk.path / "out.npy").exists()


def test_arguments_by_name(desk: Any, array: oc.Array) -> None:
    out = desk.path / "out.npy"
    for result, expected in (
        (oc.rotate(array, target=out, angle=180), np.rot90(PLAIN, 2)),
        (oc.transpose(array, target=out, overwrite=True), PLAIN.T),
        (oc.flip(array, target=out, axis=0, overwrite=True), PLAIN[::-1]),
        (oc.permute_dims(array, axes=(1, 0), target=out, overwrite=True), PLAIN.T),
    ):
        assert result.path == out
        np.testing.assert_array_equal(result.shape, expected.shape)


def test_codecs(desk: Any, array: oc.Array) -> None:
    """They could not be asked for: what was compressed was several times as large, turned."""
    for via in (None, desk.fast):
        turned = oc.transpose(
            array, desk.path / "out.zarr", codecs="zstd", tile=32, via=via, overwrite=True
        )
        assert "zstd" in (desk.path / "out.zarr" / "zarr.json").read_text()
        np.testing.assert_array_equal(turned.compute(), PLAIN.T)
    with pytest.raises(oc.InvalidArgumentError, match="codecs= is for Zarr arrays"):
        oc.flip(array, desk.path / "out.npy", codecs="zstd")


def test_options_without_a_target(array: oc.Array) -> None:
    options: dict[str, Any] = {"tile": 3, "format": "npy", "overwrite": True, "via": "."}
    options |= {"target_order": "F", "progress": print, "tile_": None, "codecs": "zstd"}
    for name, value in options.items():
        if name == "tile_":
            name, value = "tile", np.array([2, 3])
        with pytest.raises(oc.InvalidArgumentError, match=f"{name}: rotate has no target"):
            oc.rotate(array, **{name: value})


def test_what_is_turned(desk: Any, array: oc.Array) -> None:
    for x in (PLAIN, PLAIN.tolist(), 3, None):
        with pytest.raises(oc.InvalidTypeError, match=r"expected an outcrop\.Array or a path"):
            oc.transpose(x)  # type: ignore[arg-type]
    for target in (array, 90, PLAIN):
        for options in ({}, {"format": "npy"}, {"via": desk.fast}):
            with pytest.raises(oc.InvalidTypeError, match="expected a path"):
                oc.rotate(array, target, **options)  # type: ignore[arg-type]
    for name in ("", "x\0.npy"):
        with pytest.raises(oc.InvalidArgumentError, match="is not a path"):
            oc.rotate(array, name)
    closed = oc.open(desk.path / "a.npy")
    closed.close()
    for options in ({}, {"via": desk.fast}):
        with pytest.raises(oc.ClosedArrayError):
            oc.transpose(closed, desk.path / "out.npy", **options)
    assert not (desk.path / "out.npy").exists()


# -- raw files -------------------------------------------------------------------------------------


def test_raw_files_are_described(desk: Any, array: oc.Array) -> None:
    path = desk.path / "a.raw"
    path.write_bytes(b"head" + PLAIN.astype(">f4").tobytes("F"))
    described: dict[str, Any] = {"dtype": ">f4", "offset": 4, "order": "F"}
    # A dtype object was taken for no dtype, and arrays could not be shapes.
    for shape in ((2, 3), [2, 3], np.array([2, 3])):
        for dtype in (">f4", np.dtype(">f4")):
            options = described | {"shape": shape, "dtype": dtype}
            np.testing.assert_array_equal(oc.transpose(path, **options).compute(), PLAIN.T)
            np.testing.assert_array_equal(oc.rotate(path, **options).compute(), np.rot90(PLAIN))
    (desk.path / "b.raw").write_bytes(PLAIN.tobytes())
    for dtype in ("f8", np.dtype("f8"), np.float64, float):
        found = oc.transpose(desk.path / "b.raw", shape=(2, 3), dtype=dtype)
        np.testing.assert_array_equal(found.compute(), PLAIN.T)
    assert oc.flip(desk.path / "b.raw", shape=0, dtype="f8").shape == (0,)
    assert oc.flip(desk.path / "b.raw", shape=6, dtype="f8")[0].compute() == 5


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({}, oc.InvalidArgumentError, "pass shape= and dtype="),
        ({"shape": (2, 3)}, oc.InvalidArgumentError, "pass dtype="),
        ({"dtype": "f8"}, oc.InvalidArgumentError, "pass shape="),
        ({"shape": (2, 4), "dtype": "f8"}, oc.CorruptArrayError, "16 missing"),
        ({"shape": (2, 3), "dtype": "f8", "offset": 1}, oc.CorruptArrayError, "1 missing"),
        ({"shape": (2, 3), "dtype": "f8", "offset": -1}, oc.InvalidArgumentError, "offset"),
        ({"shape": (2, 3), "dtype": "f8", "offset": True}, oc.InvalidArgumentError, "offset"),
        ({"shape": (2, 3), "dtype": "f8", "order": "R"}, oc.InvalidArgumentError, "order"),
        ({"shape": (2, 3), "dtype": "f8", "order": 0}, oc.InvalidArgumentError, "order"),
        ({"shape": (-2, 3), "dtype": "f8"}, oc.InvalidArgumentError, "negative"),
        ({"shape": "2x3", "dtype": "f8"}, oc.InvalidArgumentError, "shape must be"),
        ({"shape": (2, 3), "dtype": "f2"}, oc.UnsupportedError, "float16"),
    ],
)
def test_raw_files_badly_described(
    desk: Any, options: dict[str, Any], error: type[Exception], match: str
) -> None:
    path = desk.path / "a.raw"
    PLAIN.tofile(path)
    for target in (None, desk.path / "out.raw"):
        with pytest.raises(error, match=match):
            oc.transpose(path, target, **options)
        with pytest.raises(error, match=match):
            oc.flip(path, target, **options)
    assert not (desk.path / "out.raw").exists()


def test_what_describes_itself_is_not_described(desk: Any, array: oc.Array) -> None:
    for options in ({"shape": (2, 3)}, {"dtype": np.dtype("f8")}, {"order": "F"}, {"offset": 8}):
        with pytest.raises(oc.InvalidArgumentError, match="for raw files, not for arrays"):
            oc.transpose(array, **options)
        with pytest.raises(oc.InvalidArgumentError, match="raw files"):
            oc.transpose(desk.path / "a.npy", **options)
