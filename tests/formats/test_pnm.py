"""PGM, PPM and PAM files, against Pillow and Netpbm's own programs."""

import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import outcrop as oc

SHAPES = {"pgm": (37, 53), "ppm": (37, 53, 3), "pam": (37, 53, 4)}


def image(shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
    rng = np.random.default_rng(len(shape))
    return rng.integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)


def netpbm(*command: str, given: bytes = b"") -> bytes:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    return subprocess.run(command, input=given, capture_output=True, check=True).stdout


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
@pytest.mark.parametrize("format", SHAPES)
def test_what_is_saved_is_what_netpbm_reads(format: str, dtype: str, tmp_path: Path) -> None:
    plain = image(SHAPES[format], dtype)
    path = tmp_path / f"a.{format}"
    saved = oc.asarray(plain).save(path)
    np.testing.assert_array_equal(saved.compute(), plain)
    assert (saved.format, saved.dtype, saved.layout) == (format, dtype, "row-major")
    assert saved.attributes["maxval"] == np.iinfo(dtype).max
    assert not saved.writable
    described = netpbm("pamfile", str(path)).decode()
    assert "53 by 37" in described
    digits = netpbm("pamtopnm", "-plain", str(path)) if format != "pam" else b""
    if digits:
        numbers = np.array(digits.split()[4:], dtype)
        np.testing.assert_array_equal(numbers.reshape(plain.shape), plain)


@pytest.mark.parametrize("format", ["pgm", "ppm"])
def test_pillow_and_outcrop_read_each_other(format: str, tmp_path: Path) -> None:
    pillow = pytest.importorskip("PIL.Image")
    plain = image(SHAPES[format], "uint8")
    path = tmp_path / f"a.{format}"
    pillow.fromarray(plain).save(path)
    np.testing.assert_array_equal(oc.open(path).compute(), plain)
    oc.asarray(plain).save(path, overwrite=True)
    with pillow.open(path) as read:
        np.testing.assert_array_equal(np.asarray(read), plain)


def test_headers_as_people_write_them(tmp_path: Path) -> None:
    path = tmp_path / "a.pgm"
    path.write_bytes(b"P5 # grey\n#\n4\t3\r\n# most\n15\n" + bytes(range(12)))
    array = oc.open(path)
    assert (array.shape, array.attributes) == ((3, 4), {"maxval": 15})
    np.testing.assert_array_equal(array.compute(), np.arange(12, dtype=np.uint8).reshape(3, 4))


def test_comments_longer_than_any_header(tmp_path: Path) -> None:
    path = tmp_path / "a.ppm"
    path.write_bytes(b"P6\n#" + b"x" * 100_000 + b"\n1 1\n255\nabc")
    assert oc.open(path)[0, 0].compute().tobytes() == b"abc"


def test_recognised_without_a_suffix(tmp_path: Path) -> None:
    path = tmp_path / "scan"
    oc.asarray(image((4, 5, 2), "uint16")).save(path, format="pam")
    assert oc.open(path).format == "pam"
    assert oc.open(path, format="pnm").shape == (4, 5, 2)
    with pytest.raises(oc.InvalidArgumentError, match="is a pam file, and not ppm"):
        oc.open(path, format="ppm")
    # Told what it is, it is that.
    assert oc.open(path, shape=3, dtype="uint8").compute().tobytes() == b"P7\n"


def test_pnm_is_whichever_fits(tmp_path: Path) -> None:
    for format, shape in SHAPES.items():
        path = tmp_path / f"{format}.pnm"
        assert oc.asarray(image(shape, "uint8")).save(path).format == format


def test_written_in_place(tmp_path: Path) -> None:
    plain = image((50, 70, 3), "uint16")
    path = tmp_path / "a.ppm"
    oc.asarray(plain).save(path)
    before = path.read_bytes()
    with oc.open(path, "r+") as array:
        array[10:20, 5] = 0x1234
    plain[10:20, 5] = 0x1234
    np.testing.assert_array_equal(oc.open(path).compute(), plain)
    after = path.read_bytes()
    assert after[:16] == before[:16]
    assert len(after) == len(before)
    assert after.count(b"\x12\x34") >= 30


def test_filled_by_assignment(tmp_path: Path) -> None:
    path = tmp_path / "a.pam"
    attributes = {"maxval": 1023, "tupltype": "DEPTH CONFIDENCE"}
    with oc.create(path, (300, 40, 2), "uint16", attributes=attributes) as array:
        # The header shares a block with the first elements, however these come.
        array[299] = 1
        array[0, 1:3] = 7
        assert not path.exists()
    assert path.read_bytes().startswith(
        b"P7\nWIDTH 40\nHEIGHT 300\nDEPTH 2\nMAXVAL 1023\nTUPLTYPE DEPTH CONFIDENCE\nENDHDR\n"
    )
    expected = np.zeros((300, 40, 2), np.uint16)
    expected[299], expected[0, 1:3] = 1, 7
    found = oc.open(path)
    np.testing.assert_array_equal(found.compute(), expected)
    assert found.attributes == attributes


def test_attributes_go_where_they_hold(tmp_path: Path) -> None:
    source = tmp_path / "a.ppm"
    oc.create(source, (6, 8, 3), "uint16", attributes={"maxval": 4095}).close()
    array = oc.open(source)
    assert array.save(tmp_path / "b.ppm").attributes == {"maxval": 4095}
    part = array[::2, :, 0].save(tmp_path / "c.pam")
    assert part.attributes == {"maxval": 4095, "tupltype": "GRAYSCALE"}
    # By way of a format that keeps attributes without knowing them.
    kept = array.save(tmp_path / "d.zarr")
    assert kept.save(tmp_path / "e.ppm").attributes == {"maxval": 4095}
    smaller = oc.asarray((kept.compute() >> 8).astype("uint8"))
    assert smaller.save(tmp_path / "f.ppm").attributes == {"maxval": 255}


@pytest.mark.parametrize(
    ("name", "shape", "dtype", "attributes", "match"),
    [
        ("a.pgm", (3, 4), "bool", {}, "uint8 or uint16, and not of bool"),
        ("a.pgm", (3, 4), "float32", {}, "uint8 or uint16, and not of float32"),
        ("a.pgm", (3, 4, 3), "uint8", {}, r"\(height, width\); this one has \(3, 4, 3\)"),
        ("a.ppm", (3, 4), "uint8", {}, r"\(height, width, 3\); this one has \(3, 4\)"),
        ("a.pam", (3, 4, 0), "uint8", {}, "2 or more"),
        ("a.pgm", (0, 4), "uint8", {}, "no extent of 0"),
        ("a.pgm", (3, 4), "uint8", {"maxval": 0}, "1 to 255, and not 0"),
        ("a.pgm", (3, 4), "uint8", {"gamma": 2.2}, 'no attribute "gamma"'),
        ("a.pbm", (3, 4), "uint8", {}, "packs eight pixels"),
    ],
)
def test_what_it_cannot_hold(
    name: str, shape: tuple[int, ...], dtype: str, attributes: Any, match: str, tmp_path: Path
) -> None:
    with pytest.raises(oc.UnsupportedError, match=match) as caught:
        oc.create(tmp_path / name, shape, dtype, attributes=attributes)
    assert name in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_options_of_other_formats(tmp_path: Path) -> None:
    array = oc.asarray(image((3, 4), "uint8"))
    with pytest.raises(oc.InvalidArgumentError, match="order='F'"):
        array.save(tmp_path / "a.pgm", order="F")
    with pytest.raises(oc.InvalidArgumentError, match="tile= is for Zarr"):
        array.save(tmp_path / "a.pgm", tile=2)
    array.save(tmp_path / "a.pgm")
    with pytest.raises(oc.InvalidArgumentError, match="describe raw files"):
        oc.open(tmp_path / "a.pgm", shape=(3, 4), dtype="uint8")
    with pytest.raises(oc.InvalidArgumentError, match="page= is for TIFF"):
        oc.open(tmp_path / "a.pgm", page=1)


@pytest.mark.parametrize(
    ("content", "error", "match"),
    [
        (b"P5\n4 3\n255\n" + bytes(11), oc.CorruptArrayError, "has only 22 .1 missing"),
        (b"P5\n4 3\n255", oc.CorruptArrayError, "cut off after 10 bytes"),
        (b"P5\n4 3\n255\n" + bytes(13), oc.CorruptArrayError, "no further image"),
        (b"P5\n4 3\n70000\n" + bytes(12), oc.CorruptArrayError, "maxval is 70000"),
        (b"P4\n4 3\n" + bytes(3), oc.UnsupportedError, "packs eight pixels"),
        (b"P3\n1 1\n255\n1 2 3\n", oc.UnsupportedError, "decimal digits"),
        (b"GIF89a", oc.CorruptArrayError, "not a PGM, PPM or PAM"),
        (b"", oc.CorruptArrayError, "the file is empty"),
    ],
)
def test_damaged_and_foreign_files(
    content: bytes, error: type[Exception], match: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.pgm"
    path.write_bytes(content)
    with pytest.raises(error, match=match) as caught:
        oc.open(path)
    assert "a.pgm" in str(caught.value)


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(oc.ArrayNotFoundError, match="no array here"):
        oc.open(tmp_path / "a.pgm")


def test_several_images_in_a_file(tmp_path: Path) -> None:
    first = b"P5\n2 1\n255\n\x01\x02"
    for rest in (b"P6\n1 1\n255\nabc", b"\n", b"\nP5\n1 1\n255\n\x00"):
        path = tmp_path / "a.pgm"
        path.write_bytes(first + rest)
        assert oc.open(path).compute().tolist() == [[1, 2]]
        with oc.open(path, "r+") as array:
            array[0, 0] = 9
        assert path.read_bytes() == first[:-2] + b"\x09\x02" + rest


def test_appears_at_once_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "a.pgm"
    array = oc.create(path, (100, 100), "uint8")
    array[:50] = 1
    assert not path.exists()
    array.abort()
    assert not list(tmp_path.iterdir())
    oc.asarray(image((4, 4), "uint8")).save(path)
    with pytest.raises(oc.ArrayExistsError):
        oc.create(path, (2, 2), "uint8")
    with oc.create(path, (2, 2), "uint8", overwrite=True):
        assert oc.open(path).shape == (4, 4)
    assert oc.open(path).shape == (2, 2)


several = settings(
    max_examples=20,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@several
@given(
    height=st.integers(1, 300),
    width=st.integers(1, 300),
    depth=st.integers(1, 5),
    dtype=st.sampled_from(["uint8", "uint16"]),
    data=st.data(),
)
def test_any_shape_out_of_core(
    height: int, width: int, depth: int, dtype: str, data: st.DataObject
) -> None:
    shape = (height, width) if depth == 1 else (height, width, depth)
    plain = image(shape, dtype)
    cuts = [sorted(data.draw(st.tuples(st.integers(0, n), st.integers(0, n)))) for n in shape]
    key = tuple(slice(*cut) for cut in cuts)
    with TemporaryDirectory() as directory, oc.config(memory="256KiB"):
        tiled = oc.fromfunction(lambda *index: plain[np.ix_(*map(np.ravel, index))], shape, dtype)
        path = Path(directory)
        stored = tiled.save(path / "a.zarr", tile=tuple(max(n // 3, 1) for n in shape))
        found = stored.save(path / "a.pam")
        box = found[key]
        if box.nbytes < 64 << 10:
            np.testing.assert_array_equal(box.compute(), plain[key])
        back = found.save(path / "b.zarr", tile=tuple(max(n // 2, 1) for n in shape))
        for where, block in back.tiles():
            np.testing.assert_array_equal(block, plain[where])


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_turned_in_two_passes(dtype: str, tmp_path: Path) -> None:
    # The header shares a block with the first elements, which wait in the file between the passes.
    plain = image((2100, 1900), dtype)
    source = oc.asarray(plain).save(tmp_path / "a.npy")
    with oc.config(memory="512KiB"):
        source.T.save(tmp_path / "b.pgm")
    np.testing.assert_array_equal(oc.open(tmp_path / "b.pgm").compute(), plain.T)
