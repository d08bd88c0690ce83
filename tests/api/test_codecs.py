"""Short words for codecs, and what they stand for."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outcrop as oc
from outcrop.formats.codecs import expand_codecs

F8, U1 = np.dtype("f8"), np.dtype("u1")


def test_blosc_knows_the_elements() -> None:
    def settings(word: str, dtype: np.dtype[Any], version: int = 3) -> dict[str, Any]:
        codecs = expand_codecs(word, dtype, version)
        assert codecs is not None
        found: dict[str, Any] = codecs[1]["configuration"] if version == 3 else codecs[0]
        return found

    assert settings("blosc", F8)["typesize"] == 8
    assert settings("blosc", F8)["shuffle"] == "shuffle"
    assert settings("blosc", U1)["shuffle"] == "bitshuffle"
    assert settings("blosc:zstd:9:noshuffle", F8)["cname"] == "zstd"
    assert settings("blosc:zstd:9:noshuffle", F8, 2)["shuffle"] == 0
    assert "typesize" not in settings("blosc", F8, 2)


def test_lists_pass() -> None:
    listed = [{"name": "bytes"}, {"name": "crc32c"}]
    assert expand_codecs(listed, F8, 3) == listed
    assert expand_codecs(' [{"name": "bytes"}, {"name": "crc32c"}]', F8, 3) == listed
    assert expand_codecs('{"id": "zlib", "level": 1}', F8, 2) == [{"id": "zlib", "level": 1}]
    assert expand_codecs(None, F8, 2) == []


@pytest.mark.parametrize(
    "word",
    ["", "zip", "zstd:", "zstd:x", "zstd:23", "zstd:1:2", "gzip:10", "none:1", "NONE", "[1", "[1]",
     "blosc:lz5", "blosc:lz4:10", "blosc:lz4:5:shake", "blosc:lz4:5:shuffle:1", '"zstd"'],
)  # fmt: skip
def test_nonsense(word: str) -> None:
    with pytest.raises((oc.InvalidArgumentError, oc.InvalidTypeError), match="codecs"):
        expand_codecs(word, F8, 3)
    with pytest.raises(oc.InvalidArgumentError, match="zarr_format"):
        expand_codecs(None, F8, 4)


@pytest.mark.parametrize("version", [2, 3])
def test_arrays_are_made_with_them(tmp_path: Path, version: int) -> None:
    plain = np.arange(600.0).reshape(20, 30)
    saved = oc.asarray(plain).save(tmp_path / "a", codecs="zstd:1", zarr_format=version)
    np.testing.assert_array_equal(saved.compute(), plain)
    with oc.create(tmp_path / "b", (20, 30), codecs="gzip", zarr_format=version) as array:
        array[...] = plain
    np.testing.assert_array_equal(oc.open(tmp_path / "b").compute(), plain)
    with pytest.raises(oc.InvalidArgumentError, match="zarr_format= is for Zarr"):
        oc.create(tmp_path / "c.npy", 3, zarr_format=2)
