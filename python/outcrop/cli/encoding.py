"""How an existing Zarr array is encoded, so that a copy can be encoded alike."""

import json
import os
import stat
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

from outcrop.arrays.array import Array
from outcrop.errors import CorruptArrayError
from outcrop.formats.codecs import expand_codecs
from outcrop.process.files import read_at_most, take_file

__all__ = ["Encoding", "encoding_of", "is_array"]

_LARGEST = 64 << 20
"""Bytes of metadata; the compiled core reads no more either."""


@dataclass(frozen=True)
class Encoding:
    """Version and codecs of a Zarr array.

    Attributes
    ----------
    zarr_format : int
        2 or 3.
    codecs : list of dict, optional
        As for `outcrop.create`; None where they are Outcrop's own.
    """

    zarr_format: int
    codecs: list[dict[str, Any]] | None


def encoding_of(array: Array) -> Encoding | None:
    """The encoding; None where the array is no Zarr array."""
    if array.path is None or array.format not in ("zarr", "zarr-foreign"):
        return None
    if array.format == "zarr":
        own = None if array.thickness is None else f"frontier:{array.thickness}"
        return Encoding(3, expand_codecs(own, array.dtype, 3))
    if (meta := _read(array.path / "zarr.json")) is not None:
        return Encoding(3, meta.get("codecs"))
    meta = _read(array.path / ".zarray") or {}
    compressor = meta.get("compressor")
    return Encoding(2, [*(meta.get("filters") or []), *([compressor] if compressor else [])])


def is_array(path: Path) -> bool:
    """Whether a directory is a Zarr array, of whatever kind, and not a group or something else."""
    if (meta := _read(path / "zarr.json")) is not None:
        return meta.get("node_type") != "group"
    return (path / ".zarray").exists()


def _read(path: Path) -> dict[str, Any] | None:
    """A metadata file, which nobody vouches for; None where there is none."""
    try:
        # No link is followed below an array, and no named pipe waited for.
        taken = take_file(str(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    except OSError as error:
        what = f"{path}: cannot read the file: {error.strerror}"
        raise CorruptArrayError(what, errno=error.errno) from None
    with BufferedReader(taken) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise CorruptArrayError(f"{path}: it is not a regular file")
        text = read_at_most(file, _LARGEST)
    if text is None:
        raise CorruptArrayError(f"{path}: more than {_LARGEST} bytes long, which cannot be")
    try:
        meta = json.loads(text)
    except ValueError as error:
        raise CorruptArrayError(f"{path}: is not JSON: {error}") from None
    return meta if isinstance(meta, dict) else {}
