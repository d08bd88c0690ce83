"""Opening, creating, describing and taking arrays."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outcrop as oc


@pytest.mark.parametrize("dtype", ["f2", "g", "M8[s]", "U3", "O", "V8", [("x", "f8")], "(2,)f8"])
def test_other_dtypes_are_refused_by_name(dtype: Any, tmp_path: Path) -> None:
    name = np.dtype(dtype)
    for attempt in (
        lambda: oc.create(tmp_path / "a", 3, dtype),
        lambda: oc.fromfunction(lambda i: i, 3, dtype),
        lambda: oc.asarray(np.zeros(1), dtype),
    ):
        with pytest.raises(oc.UnsupportedError) as refusal:
            attempt()
        assert str(name) in str(refusal.value)
    assert list(tmp_path.iterdir()) == []


def test_byte_order(tmp_path: Path) -> None:
    with pytest.raises(oc.UnsupportedError, match=r"big-endian.*'float64'"):
        oc.create(tmp_path / "a", 3, ">f8")
    plain = np.arange(6, dtype=">f8")
    plain.tofile(tmp_path / "a.bin")
    array = oc.open(tmp_path / "a.bin", shape=(2, 3), dtype=">f8")
    assert array.dtype == np.dtype("float64")
    np.testing.assert_array_equal(array.compute(), plain.reshape(2, 3))
    assert oc.asarray(plain).dtype == np.dtype("float64")
    assert oc.asarray(np.arange(3, dtype=np.longlong)).dtype.char == np.dtype("int64").char


@pytest.mark.parametrize(
    "shape", [-1, (2, -3), 2.0, (2, 3.5), "12", None, (1 << 40, 1 << 40), (0, 1 << 63), (1,) * 65]
)
def test_bad_shapes(shape: Any, tmp_path: Path) -> None:
    for attempt in (
        lambda: oc.create(tmp_path / "a", shape),
        lambda: oc.fromfunction(lambda i: i, shape),
    ):
        with pytest.raises(oc.InvalidArgumentError):
            attempt()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "options",
    [
        {"tile": (2, 2)},
        {"tile": 0},
        {"tile": 1.5},
        {"order": "F"},
        {"order": "K"},
        {"format": "png"},
        {"format": "npy", "tile": 2},
        {"format": "npy", "attributes": {"a": 1}},
        {"format": "raw", "codecs": [{"name": "bytes"}]},
    ],
)
def test_bad_options(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(oc.InvalidArgumentError):
        oc.create(tmp_path / "a", 3, **options)
    with pytest.raises(oc.InvalidTypeError, match="JSON"):
        oc.create(tmp_path / "a", 3, attributes={"a": {1, 2}})
    with pytest.raises(oc.InvalidTypeError, match="path"):
        oc.create(3, 3)  # type: ignore[arg-type]


def test_formats_by_suffix_and_order(tmp_path: Path) -> None:
    for name, layout in (("a", "tiled"), ("a.npy", "column-major"), ("a.dat", "column-major")):
        with oc.create(tmp_path / name, (4, 5), order="C" if name == "a" else "F") as array:
            assert array.layout == layout
            array[1] = np.arange(5)
    assert np.load(tmp_path / "a.npy").flags.f_contiguous
    plain = np.fromfile(tmp_path / "a.dat").reshape((4, 5), order="F")
    np.testing.assert_array_equal(plain[1], np.arange(5))
    again = oc.open(tmp_path / "a.dat", shape=(4, 5), dtype=float, order="F")
    np.testing.assert_array_equal(again.compute(), plain)


def test_opening_raw_files_needs_a_description(tmp_path: Path) -> None:
    path = tmp_path / "a.raw"
    path.write_bytes(bytes(24))
    with pytest.raises(oc.InvalidArgumentError, match=r"24 bytes.*shape= and dtype="):
        oc.open(path)
    with pytest.raises(oc.InvalidArgumentError, match=r"pass dtype="):
        oc.open(path, shape=3)
    for offset in (-1, 1.5, True):
        with pytest.raises(oc.InvalidArgumentError, match="offset"):
            oc.open(path, shape=3, dtype="u1", offset=offset)  # type: ignore[arg-type]
    assert oc.open(path, shape=2, dtype="f8", offset=8).format == "raw"
    odd = path.rename(tmp_path / "page.img")
    assert oc.open(odd, shape=3, dtype="f8").format == "raw"
    with pytest.raises(oc.ArrayNotFoundError):
        oc.open(path)


def test_opening_others_takes_no_description(tmp_path: Path) -> None:
    oc.asarray(np.ones(3)).save(tmp_path / "a.npy")
    oc.asarray(np.ones(3)).save(tmp_path / "a")
    for name in ("a.npy", "a"):
        with pytest.raises(oc.InvalidArgumentError, match="raw files"):
            oc.open(tmp_path / name, shape=3, dtype="f8")
    for mode in ("w", "a", "rb"):
        with pytest.raises(oc.InvalidArgumentError, match="mode"):
            oc.open(tmp_path / "a", mode)
    with pytest.raises(FileNotFoundError):
        oc.open(tmp_path / "b.zarr")


def test_existing_arrays_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    oc.asarray(np.ones(3)).save(path)
    with pytest.raises(FileExistsError):
        oc.create(path, 4)
    with oc.create(path, 4, overwrite=True) as array:
        assert oc.open(path).shape == (3,)
        array[...] = 1
    assert oc.open(path).shape == (4,)


def test_fromfunction_gets_an_open_mesh_of_exact_indices() -> None:
    seen = []

    def f(i: np.ndarray, j: np.ndarray) -> np.ndarray:
        seen.append((i, j))
        return i * 100 + j

    array = oc.fromfunction(f, (50, 60), "int64")
    assert seen == []
    np.testing.assert_array_equal(array[10:20:5, 7].compute(), [1007, 1507])
    ((i, j),) = seen
    assert i.dtype == j.dtype == np.int64
    np.testing.assert_array_equal(i, [[10], [15]])
    np.testing.assert_array_equal(j, [[7]])


def test_fromfunction_broadcasts_and_casts_what_it_gets() -> None:
    np.testing.assert_array_equal(
        oc.fromfunction(lambda i, j: i, (2, 3)).compute(), [[0] * 3, [1] * 3]
    )
    assert oc.fromfunction(lambda i: 7, 3, "uint8").compute().tolist() == [7, 7, 7]
    assert oc.fromfunction(lambda i: i, 3, "int8").compute().dtype == np.int8
    assert oc.fromfunction(lambda: 2.5, ()).item() == 2.5
    for f, dtype in ((lambda i: i / 2, "int64"), (lambda i: 1.5, "int64"), (lambda i: i, "uint8")):
        with pytest.raises(oc.InvalidTypeError, match="same_kind"):
            oc.fromfunction(f, 3, dtype).compute()
    with pytest.raises(OverflowError):
        oc.fromfunction(lambda i: 300, 3, "uint8").compute()
    with pytest.raises(oc.InvalidArgumentError, match=r"\(4,\).*\[0:2, 0:3\]"):
        oc.fromfunction(lambda i, j: np.ones(4), (2, 3)).compute()
    with pytest.raises(oc.InvalidTypeError):
        oc.fromfunction(3, 3)  # type: ignore[arg-type]


def test_exceptions_of_the_function_come_out(tmp_path: Path) -> None:
    class OwnError(Exception):
        pass

    def f(i: np.ndarray) -> None:
        raise OwnError

    array = oc.fromfunction(f, 3)
    for attempt in (array.compute, lambda: array.save(tmp_path / "a"), lambda: list(array.tiles())):
        with pytest.raises(OwnError):
            attempt()
    assert not (tmp_path / "a").exists()


def test_asarray() -> None:
    array = oc.asarray([[1, 2], [3, 4]], "float32")
    assert oc.asarray(array) is array
    assert oc.asarray(array, "float32") is array
    wide = oc.asarray(array, "float64")
    assert (wide.dtype, wide.compute().tolist()) == (np.float64, [[1, 2], [3, 4]])
    assert oc.asarray(3.5).shape == ()
    with pytest.raises(oc.UnsupportedError):
        oc.asarray(["a"])


@pytest.mark.parametrize(
    ("described", "keywords"),
    [
        ("shape=3x4,dtype=f8", "shape=(3, 4), dtype='f8'"),
        (" shape = (), dtype=>i4", "shape=(), dtype='>i4'"),
        ("shape=12,dtype=f8,offset=16,order=F", "shape=(12,), dtype='f8', offset=16, order='F'"),
        ("shape=3xx,dtype=f8,offset=-1", "shape='3xx', dtype='f8', offset='-1'"),
    ],
)
def test_what_the_command_line_takes_is_written_in_another_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, described: str, keywords: str
) -> None:
    """It was told that there is no such array, and no more."""
    monkeypatch.chdir(tmp_path)
    np.arange(24.0).tofile("a.raw")
    written = f"oc.open('a.raw', {keywords})"
    for mode in ("r", "r+"):
        with pytest.raises(oc.ArrayNotFoundError) as caught:
            oc.open(f"a.raw:{described}", mode)
        assert str(caught.value).endswith(written)
    if "xx" not in described:
        assert eval(written).dtype.kind in "fi"
    # Names that only look alike.
    for name in ("a.raw:key=1", "nothing.npy:3"):
        with pytest.raises(oc.ArrayNotFoundError) as caught:
            oc.open(name)
        assert "oc.open" not in str(caught.value)
    np.save(f"b:{described}.npy", np.ones(3))
    assert oc.open(f"b:{described}.npy").shape == (3,)


def test_types_stand_where_numpy_has_them() -> None:
    x = oc.asarray([1.5, 2.5])
    for ours, numpys in [
        (oc.zeros((2, 3), "f4"), np.zeros((2, 3), "f4")),
        (oc.ones(2, int), np.ones(2, int)),
        (oc.full((2,), 7, "u1"), np.full((2,), 7, "u1")),
        (oc.zeros_like(x, "i2"), np.zeros(2, "i2")),
        (oc.full_like(x, 3, np.int8), np.full(2, 3, np.int8)),
        (oc.arange(1, 7, 2, "f4"), np.arange(1, 7, 2, "f4")),
        (oc.linspace(0, 1), np.linspace(0, 1)),
    ]:
        found = ours.compute()
        assert found.dtype == numpys.dtype
        np.testing.assert_array_equal(found, numpys)
    assert oc.empty((2,), "f4").dtype == np.float32 == oc.empty_like(x, "f4").dtype
