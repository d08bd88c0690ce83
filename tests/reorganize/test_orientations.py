"""The eight orientations of a picture, from any format to any other, against NumPy and others."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import outcrop as oc

Values = NDArray[Any]
Tool = Callable[..., bytes]
Turn = Callable[..., oc.Array]

pytestmark = pytest.mark.filterwarnings("ignore::outcrop.errors.OutcropWarning")


def anti(x: Any, target: Path | None = None, axes: tuple[int, int] = (0, 1), **options: Any) -> Any:
    """Across the other diagonal: upside down, and turned."""
    flipped = oc.flip(x if isinstance(x, oc.Array) else opened(x, options), axis=axes[0])
    return oc.rotate(flipped, target, 90, axes=axes, **options)


def opened(path: Path, options: dict[str, Any]) -> oc.Array:
    raw = {k: options.pop(k) for k in ("shape", "dtype", "offset", "order") if k in options}
    return oc.open(path, **raw)


# For each: as Outcrop does it along two axes, as NumPy does, and what pamflip and vips call it.
TURNS: dict[str, tuple[Turn, Callable[[Values, int, int], Values], str, tuple[str, ...]]] = {
    "identity": (
        lambda x, t=None, axes=(0, 1), **o: oc.rotate(x, t, 0, axes=axes, **o),
        lambda v, r, c: v,
        "-null",
        ("rot", "d0"),
    ),
    "rot90": (
        lambda x, t=None, axes=(0, 1), **o: oc.rotate(x, t, 90, axes=axes, **o),
        lambda v, r, c: np.rot90(v, 1, (r, c)),
        "-rotate90",
        ("rot", "d270"),
    ),
    "rot180": (
        lambda x, t=None, axes=(0, 1), **o: oc.rotate(x, t, 180, axes=axes, **o),
        lambda v, r, c: np.rot90(v, 2, (r, c)),
        "-rotate180",
        ("rot", "d180"),
    ),
    "rot270": (
        lambda x, t=None, axes=(0, 1), **o: oc.rotate(x, t, -90, axes=axes, **o),
        lambda v, r, c: np.rot90(v, 3, (r, c)),
        "-rotate270",
        ("rot", "d90"),
    ),
    "upside-down": (
        lambda x, t=None, axes=(0, 1), **o: oc.flip(x, t, axis=axes[0], **o),
        lambda v, r, c: np.flip(v, r),
        "-topbottom",
        ("flip", "vertical"),
    ),
    "mirrored": (
        lambda x, t=None, axes=(0, 1), **o: oc.flip(x, t, axis=axes[1], **o),
        lambda v, r, c: np.flip(v, c),
        "-leftright",
        ("flip", "horizontal"),
    ),
    "transposed": (
        lambda x, t=None, axes=(0, 1), **o: oc.permute_dims(x, swapped(x, axes, o), t, **o),
        lambda v, r, c: np.swapaxes(v, r, c),
        "-transpose",
        (),
    ),
    "anti-transposed": (
        anti,
        lambda v, r, c: np.swapaxes(np.flip(v, (r, c)), r, c),
        "-xform=transpose,leftright,topbottom",
        (),
    ),
}


def swapped(x: Any, axes: tuple[int, int], options: dict[str, Any]) -> tuple[int, ...]:
    ndim = x.ndim if isinstance(x, oc.Array) else opened(x, dict(options)).ndim
    order = list(range(ndim))
    order[axes[0]], order[axes[1]] = axes[1], axes[0]
    return tuple(order)


each_turn = pytest.mark.parametrize("turn", TURNS)


@pytest.mark.parametrize("dtype", ["u1", ">u2", "f4", "f8", "c16", "?"])
@each_turn
def test_against_numpy(desk: Any, turn: str, dtype: str) -> None:
    ours, numpys, *_ = TURNS[turn]
    # More than the budget, and rows that do not end with blocks.
    shape = {1: (803, 707), 2: (607, 503), 4: (503, 401)}.get(np.dtype(dtype).itemsize, (307, 293))
    plain = desk.values(shape, dtype)
    path = desk.path / "in.raw"
    plain.astype(dtype).tofile(path)
    expected = numpys(plain, 0, 1)
    raw = {"shape": shape, "dtype": dtype}
    result = ours(path, desk.path / "out.npy", **raw)
    desk.check_run("copy" if turn == "identity" else "transpose")
    found = np.load(desk.path / "out.npy")
    assert found.dtype == plain.dtype
    np.testing.assert_array_equal(found, expected)
    assert (result.shape, result.dtype, result.path) == (
        expected.shape,
        plain.dtype,
        desk.path / "out.npy",
    )
    # A raw target has the machine's byte order.
    ours(path, desk.path / "out.raw", target_order="F", **raw)
    written = np.fromfile(desk.path / "out.raw", plain.dtype)
    np.testing.assert_array_equal(written.reshape(expected.shape, order="F"), expected)
    # Lazily, nothing is written.
    before = sorted(desk.path.iterdir())
    view = ours(oc.open(path, **raw))
    key = np.s_[100:230:7, -40:-2]
    np.testing.assert_array_equal(view[key].compute(), expected[key])
    assert sorted(desk.path.iterdir()) == before


# -- from any format to any other ------------------------------------------------------------------

# Name, and how it is made; those of pictures with channels in any place come further down.
FLAT: dict[str, dict[str, Any]] = {
    "a.npy": {},
    "f.npy": {"order": "F"},
    "a.raw": {},
    "f.raw": {"order": "F"},
    "own.zarr": {"tile": (64, 80)},
    "odd.zarr": {"tile": (37, 51)},
    "rows.zarr": {"tile": (1, 500)},
    "a.pgm": {},
    "a.pam": {},
    "a.tif": {},
}


@settings(
    max_examples=40,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_from_any_to_any(desk: Any, data: st.DataObject) -> None:
    pytest.importorskip("tifffile")
    source = data.draw(st.sampled_from(sorted(FLAT)), label="source")
    target = data.draw(st.sampled_from(sorted(FLAT)), label="target")
    turn = data.draw(st.sampled_from(sorted(TURNS)), label="turn")
    images = (".pgm", ".pam")
    narrow = Path(source).suffix in images or Path(target).suffix in images
    dtypes = ["uint8", "uint16"]
    if not narrow:
        dtypes += ["int32", "float32", "float64", "complex64", "complex128"]
        dtypes += ["bool"] if "a.tif" not in (source, target) else []
    dtype = data.draw(st.sampled_from(dtypes), label="dtype")
    rows = data.draw(st.integers(1, 1500), label="rows")
    most = 1_500_000 // np.dtype(dtype).itemsize // rows
    columns = data.draw(st.integers(1, max(min(most, 1500), 1)), label="columns")
    budget = data.draw(st.sampled_from(["384KiB", "512KiB", "1MiB"]), label="budget")
    ours, numpys, *_ = TURNS[turn]
    plain = desk.values((rows, columns), dtype)
    path = desk.put(source, plain, **FLAT[source])
    raw: dict[str, Any] = {}
    if source.endswith(".raw"):
        raw = {"shape": plain.shape, "dtype": dtype, **FLAT[source]}
    options = {"tile": FLAT[target].get("tile"), "target_order": FLAT[target].get("order", "C")}
    # Half of them go to where they came from.
    out = desk.path / data.draw(st.sampled_from([target, f"out-{target}"]), label="out")
    with oc.config(memory=budget):
        result = ours(path, out, overwrite=True, **raw, **options)
        desk.check_run("copy" if turn == "identity" else oc.last_run().operation)
        np.testing.assert_array_equal(desk.read(result), numpys(plain, 0, 1))
    assert result.layout == oc.open(out, **reopened(out, result, options)).layout
    result.close()


def reopened(out: Path, result: oc.Array, options: dict[str, Any]) -> dict[str, Any]:
    if out.suffix != ".raw":
        return {}
    return {"shape": result.shape, "dtype": result.dtype, "order": options["target_order"]}


CHANNELS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "a.ppm": ((211, 307, 3), {}),
    "a.pam": ((211, 307, 4), {}),
    "a.tif": ((211, 307, 3), {}),
    "planar.tif": ((3, 211, 307), {"attributes": {"planarconfig": "separate"}}),
}


@pytest.mark.parametrize("source", CHANNELS)
@each_turn
def test_channels_stay_together(desk: Any, source: str, turn: str) -> None:
    pytest.importorskip("tifffile")
    shape, options = CHANNELS[source]
    ours, numpys, *_ = TURNS[turn]
    row, column = axes = (1, 2) if source == "planar.tif" else (0, 1)
    plain = desk.values(shape, "uint16" if source.startswith("p") else "uint8")
    path = desk.put(source, plain, **options)
    with oc.config(memory="384KiB"):
        result = ours(path, desk.path / f"out-{source}", axes=axes)
        np.testing.assert_array_equal(desk.read(result), numpys(plain, row, column))
    assert result.attributes.get("planarconfig") == oc.open(path).attributes.get("planarconfig")
    again = ours(oc.open(path), desk.path / "out.zarr", axes=axes, tile=(50, 50, 50))
    np.testing.assert_array_equal(desk.read(again), numpys(plain, row, column))


@pytest.mark.parametrize("source", CHANNELS)
def test_rows_and_columns_are_found(desk: Any, source: str) -> None:
    """Without axes, by path."""
    pytest.importorskip("tifffile")
    shape, options = CHANNELS[source]
    row, column = (1, 2) if source == "planar.tif" else (0, 1)
    plain = desk.values(shape)
    path, out = desk.put(source, plain, **options), desk.path / f"out-{source}"

    def check(result: oc.Array, expected: Values) -> None:
        assert result.path == out
        np.testing.assert_array_equal(desk.read(result), expected)

    check(oc.transpose(path, out), np.swapaxes(plain, row, column))
    check(oc.rotate(path, out, 90, overwrite=True), np.rot90(plain, 1, (row, column)))
    check(oc.flip(path, out, overwrite=True), np.flip(plain, (row, column)))
    check(oc.rotate(oc.open(path), out, -90, overwrite=True), np.rot90(plain, 3, (row, column)))
    # Of an Array, as NumPy has them.
    np.testing.assert_array_equal(desk.read(oc.transpose(oc.open(path))), plain.T)
    np.testing.assert_array_equal(desk.read(oc.flip(oc.open(path))), np.flip(plain))


def test_rows_and_columns_of_views(desk: Any) -> None:
    """The plane was looked for where the picture has it, and not where its view does."""
    pytest.importorskip("tifffile")
    plain = desk.values((30, 40, 3))
    ppm = oc.open(desk.put("a.ppm", plain))
    planar = np.moveaxis(plain, 2, 0)
    attributes = {"planarconfig": "separate"}
    tiff = oc.open(desk.put("a.tif", planar, attributes=attributes))
    for array, twin in ((ppm, plain), (tiff.transpose(1, 2, 0), plain)):
        np.testing.assert_array_equal(oc.rotate(array).compute(), np.rot90(twin))
        np.testing.assert_array_equal(
            oc.rotate(array.transpose(2, 0, 1)).compute(),
            np.rot90(planar, axes=(1, 2)),
        )
        np.testing.assert_array_equal(oc.rotate(array[..., 1]).compute(), np.rot90(twin[..., 1]))
        # Without rows: the first two axes.
        np.testing.assert_array_equal(oc.rotate(array[7]).compute(), np.rot90(twin[7]))


def test_what_metadata_says_is_turned(desk: Any) -> None:
    pytest.importorskip("tifffile")
    plain = desk.values((60, 80, 3))
    known = {"photometric": "rgb", "resolution": [300.0, 118.5], "resolutionunit": "centimeter"}
    tiff = desk.put("a.tif", plain, attributes=known)
    ppm = desk.put("a.ppm", plain // 2, attributes={"maxval": 200})
    tiled = desk.put("a.zarr", plain, tile=(32, 16, 3), attributes={"unit": "K"})
    for via in (None, desk.fast):
        # By way of another disk, all of this was lost, and channels became columns.
        options = {"via": via, "overwrite": True}
        for angle, resolution in ((90, [118.5, 300.0]), (180, [300.0, 118.5])):
            found = oc.rotate(tiff, desk.path / "out.tif", angle, **options)
            assert found.attributes["resolution"] == resolution
            assert found.attributes["resolutionunit"] == "centimeter"
        found = oc.transpose(ppm, desk.path / "out.ppm", **options)
        assert found.attributes == {"maxval": 200}
        found = oc.transpose(tiled, desk.path / "out.zarr", axes=(1, 2, 0), **options)
        assert (found.attributes, found.tile) == ({"unit": "K"}, (16, 3, 32))


# -- other programs --------------------------------------------------------------------------------


def pictures(desk: Any) -> tuple[Path, Path]:
    gray, color = desk.values((311, 257)), desk.values((157, 211, 3), "uint16")
    return desk.put("gray.pgm", gray), desk.put("color.ppm", color)


@each_turn
def test_pixels_are_those_of_pamflip(desk: Any, tool: Tool, turn: str) -> None:
    ours, _, theirs, _ = TURNS[turn]
    for path in pictures(desk):
        out = desk.path / f"out{path.suffix}"
        ours(path, out, overwrite=True)
        expected = tool("pamflip", theirs, path)
        assert out.read_bytes() == expected


@pytest.mark.parametrize("turn", [t for t in TURNS if TURNS[t][3]])
def test_pixels_are_those_of_vips(desk: Any, tool: Tool, turn: str) -> None:
    pytest.importorskip("tifffile")
    ours, _, _, (operation, word) = TURNS[turn]
    for path in pictures(desk):
        source = ours(path, desk.path / "same.tif", overwrite=True)
        tool("vips", operation, path, desk.path / "theirs.v", word)
        tool("vips", "rawsave", desk.path / "theirs.v", desk.path / "theirs.raw")
        theirs = np.fromfile(desk.path / "theirs.raw", source.dtype).reshape(source.shape)
        np.testing.assert_array_equal(desk.read(source), theirs)
        # What Outcrop has written is what vips reads.
        tool("vips", "rawsave", desk.path / "same.tif", desk.path / "read.raw")
        assert (desk.path / "read.raw").read_bytes() == (desk.path / "theirs.raw").read_bytes()
        source.close()
