"""Files that hold more than an array: nothing of it goes without a word."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import outcrop as oc

PICTURE = np.random.default_rng(0).integers(0, 256, (60, 83, 3), np.uint8)
PAM = b"P7\nWIDTH 2\nHEIGHT 1\n# ENDHDR\nDEPTH 1\nMAXVAL 255\nENDHDR\n"


def images(path: Path) -> dict[str, Any]:
    oc.asarray(PICTURE).save(path)
    path.write_bytes(path.read_bytes() * 3)
    return {}


def pages(path: Path) -> dict[str, Any]:
    tifffile = pytest.importorskip("tifffile")
    with tifffile.TiffWriter(path) as file:
        for _ in range(3):
            file.write(PICTURE, photometric="rgb", metadata=None)
    return {}


def elements(before: int, behind: int) -> Any:
    def write(path: Path) -> dict[str, Any]:
        path.write_bytes(b"h" * before + PICTURE.tobytes() + b"t" * behind)
        return {"shape": PICTURE.shape, "dtype": "u1", "offset": before}

    return write


def two_in_one(path: Path) -> dict[str, Any]:
    with path.open("wb") as file:
        np.save(file, PICTURE)
        np.save(file, PICTURE)
    return {}


HOLDING_MORE = [
    ("a.tif", pages, "2 other pages"),
    ("a.ppm", images, "further images"),
    ("a.raw", elements(1000, 0), "1000 bytes before its elements"),
    ("a.raw", elements(0, 1), "1 byte behind its elements"),
    ("a.raw", elements(7, 9), "7 bytes before its elements and 9 bytes behind its elements"),
    ("a.npy", two_in_one, "bytes behind its elements"),
]


@pytest.mark.parametrize("via", [False, True], ids=["here", "via"])
@pytest.mark.parametrize(("name", "write", "words"), HOLDING_MORE)
def test_a_file_that_holds_more_is_not_replaced_by_a_part(
    name: str, write: Any, words: str, via: bool, desk: Any
) -> None:
    path = desk.path / name
    raw = write(path)
    before = path.read_bytes()
    link = desk.path / f"link{path.suffix}"
    link.symlink_to(path)
    options = {"overwrite": True, "via": desk.fast if via else None} | raw
    for target in (path, link):
        with pytest.raises(oc.UnsupportedError, match=f"also holds .*{words}.* would be lost"):
            oc.rotate(path, target, 90, **options)
    opened = oc.open(path, **raw)
    with pytest.raises(oc.UnsupportedError, match="would be lost"):
        opened.T.save(path, format=opened.format, overwrite=True)
    assert path.read_bytes() == before
    assert desk.leftovers() == []
    # Elsewhere, and over other files, it goes as ever.
    np.save(desk.path / "out.npy", np.arange(3))
    done = oc.rotate(path, desk.path / "out.npy", 90, **options)
    np.testing.assert_array_equal(done.compute(), np.rot90(PICTURE))


@pytest.mark.parametrize(
    "start",
    [b"P5\n2 1\n255\n", b"P5#a\n2#b\r#c\n 1 255#d\n", b"P5 # 9 9 9\n2\t1\r\n255\n", PAM],
    ids=["plain", "comments", "blanks", "pam"],
)
@pytest.mark.parametrize("end", [b"", b"\n", b"P5 2 1 255 ab"], ids=["alone", "blank", "two"])
def test_netpbm_headers(start: bytes, end: bytes, desk: Any) -> None:
    path = desk.path / "a.pnm"
    path.write_bytes(start + b"\n\n" + end)
    try:
        turned = oc.rotate(path, path, 180, overwrite=True)
    except oc.UnsupportedError as error:
        assert end.startswith(b"P"), error
    else:
        assert not end.strip()
        np.testing.assert_array_equal(turned.compute(), [[10, 10]])


def test_a_file_of_nothing_else_is_replaced(desk: Any) -> None:
    def check(path: Path, **raw: Any) -> None:
        oc.rotate(path, path, 90, overwrite=True, **raw)
        again = {"shape": np.rot90(PICTURE).shape, "dtype": "u1"} if raw else {}
        found: NDArray[Any] = oc.open(path, **again).compute()
        np.testing.assert_array_equal(found, np.rot90(PICTURE))

    for name in ("a.ppm", "a.pam", "a.npy", "a.zarr"):
        oc.asarray(PICTURE).save(desk.path / name)
        check(desk.path / name)
    check(desk.path / "a.raw", **elements(0, 0)(desk.path / "a.raw"))


def test_names_that_are_no_text(desk: Any) -> None:
    path = Path(os.fsdecode(os.fsencode(desk.path) + b"/caf\xe9.npy"))
    two_in_one(path)
    with pytest.raises(oc.UnsupportedError, match="would be lost"):
        oc.transpose(path, path, overwrite=True)
