"""Zip archives of Zarr arrays, as Zarr-Python and others write them."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

zarr = pytest.importorskip("zarr")
numcodecs = pytest.importorskip("numcodecs")

SHAPE = (300, 500)
CHUNK = (64, 96)

DTYPES = [
    *("bool", "uint8", "int8", "<u2", ">u2", "<i4", ">i4", "<i8", ">i8", "<u8", "<f4", ">f4"),
    *("<f8", ">f8", "<c8", ">c8", "<c16", ">c16"),
]

IN_PLACE: dict[str, dict[str, Any]] = {
    "plain": {"compressors": None},
    "crc32c": {"compressors": zarr.codecs.Crc32cCodec()},
    "2": {"compressors": None, "zarr_format": 2},
    "2 slashes": {
        "compressors": None,
        "zarr_format": 2,
        "chunk_key_encoding": {"name": "v2", "separator": "/"},
    },
    "keys of 2": {
        "compressors": None,
        "chunk_key_encoding": {"name": "v2", "separator": "."},
    },
}

ENCODED: dict[str, dict[str, Any]] = {
    "zstd": {},
    "zstd, crc32c": {"compressors": [zarr.codecs.ZstdCodec(), zarr.codecs.Crc32cCodec()]},
    "gzip": {"compressors": zarr.codecs.GzipCodec()},
    "blosc": {"compressors": zarr.codecs.BloscCodec(cname="zstd", shuffle="bitshuffle")},
    "2 zstd": {"zarr_format": 2},
    "2 zlib": {"zarr_format": 2, "compressors": numcodecs.Zlib(1)},
    "2 bz2": {"zarr_format": 2, "compressors": numcodecs.BZ2(1)},
    "2 blosc": {"zarr_format": 2, "compressors": numcodecs.Blosc()},
    "2 shuffle": {
        "zarr_format": 2,
        "filters": [numcodecs.Shuffle(2)],
        "compressors": numcodecs.Zlib(1),
    },
}

BY_ZARR: dict[str, dict[str, Any]] = {
    "shards": {"shards": (128, 192), "compressors": None},
    "transposed": {"filters": zarr.codecs.TransposeCodec(order=(1, 0))},
    "2 F": {"zarr_format": 2, "order": "F", "compressors": None},
    "2 lz4": {"zarr_format": 2, "compressors": numcodecs.LZ4()},
}

WAYS = {**IN_PLACE, **ENCODED, **BY_ZARR}


def elements(dtype: str = "<f8", shape: tuple[int, ...] = SHAPE) -> NDArray[Any]:
    kind = np.dtype(dtype)
    bits = np.random.default_rng(3).integers(1, 100, shape)
    if kind.kind == "b":
        return bits % 2 == 0
    return (bits + (1j * bits[::-1] if kind.kind == "c" else 0)).astype(kind)


def made(path: Path, given: NDArray[Any], name: str = "", **options: Any) -> Path:
    """As Zarr-Python writes it."""
    store = zarr.storage.ZipStore(path, mode="w")
    about = {"shape": given.shape, "dtype": given.dtype, "chunks": CHUNK, **options}
    if about["chunks"] is not None:
        about["chunks"] = about["chunks"][: given.ndim]
    zarr.create_array(store, name=name or None, **about)[...] = given
    store.close()
    return path / name if name else path


def packed(path: Path, folder: Path, method: int = zipfile.ZIP_STORED) -> Path:
    """As zip packs a directory."""
    with zipfile.ZipFile(path, "w", method) as file:
        for found in sorted(folder.rglob("*")):
            file.write(found, found.relative_to(folder))
    return path


def unpacked(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}
