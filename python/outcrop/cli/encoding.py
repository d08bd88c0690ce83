"""How an existing Zarr array is encoded, so that a copy can be encoded alike."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outcrop._files import open_file
from outcrop.array import Array
from outcrop.errors import CorruptArrayError

__all__ = ["Encoding", "encoding_of", "is_array"]


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
        return Encoding(3, None)
    if (array.path / "zarr.json").exists():
        return Encoding(3, _read(array.path / "zarr.json").get("codecs"))
    meta = _read(array.path / ".zarray")
    compressor = meta.get("compressor")
    return Encoding(2, [*(meta.get("filters") or []), *([compressor] if compressor else [])])


def is_array(path: Path) -> bool:
    """Whether a directory is a Zarr array, of whatever kind, and not a group or something else."""
    if (path / "zarr.json").exists():
        return _read(path / "zarr.json").get("node_type") != "group"
    return (path / ".zarray").exists()


def _read(path: Path) -> dict[str, Any]:
    try:
        with open_file(str(path)) as file:
            meta = json.load(file)
    except ValueError as error:
        raise CorruptArrayError(f"{path}: is not JSON: {error}") from None
    return meta if isinstance(meta, dict) else {}
