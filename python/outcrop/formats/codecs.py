"""How the tiles of a Zarr array are encoded, in short words and in Zarr's JSON.

A short word is the name of a compressor, with settings after colons: ``"zstd"``, ``"zstd:5"``,
``"gzip:6"``, ``"blosc"``, ``"blosc:lz4:5"``, ``"blosc:zstd:5:bitshuffle"``; or ``"none"``. A
checksum follows the compressor in every case, where the version of Zarr has one. ``"frontier:2"``
is no compressor, but tiles with frontiers, two elements thick (`laid_out`).
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from outcrop.errors import InvalidArgumentError, InvalidTypeError

__all__ = ["FRONTIER", "LAYOUTS", "Codecs", "expand_codecs", "laid_out", "roomy"]

Codecs: TypeAlias = str | Sequence[Mapping[str, Any]]

FRONTIER = "outcrop.frontier"
"""The codec of tiles with frontiers; what its bytes are is in the core (`layout::frontier`)."""

LAYOUTS = ("tiled", "frontier")
"""How the elements of a new Zarr array may lie."""

_EXAMPLES = "'none', 'zstd', 'zstd:5', 'gzip:6', 'blosc', 'blosc:lz4:5:bitshuffle', 'frontier:1'"
_BLOSC = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")
_SHUFFLES = ("noshuffle", "shuffle", "bitshuffle")
"""In the order of the numbers that Zarr 2 has for them."""


def laid_out(
    path: str, format: str, layout: str | None, thickness: int | None, codecs: Codecs | None
) -> Codecs | None:
    """The codecs of a new array whose elements lie in this way; `codecs` are asked for besides.

    Parameters
    ----------
    path, format : str
        Where the array will be, and in which format.
    layout : {"tiled", "frontier"}, optional
        Tiles in row-major order, or with their frontiers beside them.
    thickness : int, optional
        Of frontiers, how many elements they have along their axis. Default: 1.
    codecs : str or sequence of mapping, optional
        As for `expand_codecs`.

    Raises
    ------
    InvalidArgumentError, InvalidTypeError
        There are no such arrays.

    Examples
    --------
    >>> laid_out("a.zarr", "zarr", "frontier", 2, None)
    'frontier:2'
    """
    if layout is not None and layout not in LAYOUTS:
        names = " or ".join(map(repr, LAYOUTS))
        raise InvalidArgumentError(f"layout must be {names}, got {layout!r}")
    if layout != "frontier":
        if thickness is not None:
            raise InvalidArgumentError("thickness= is that of frontiers: pass layout='frontier'")
        if layout is not None and format != "zarr":
            raise InvalidArgumentError(f"layout= is for Zarr arrays, {path!r} is {format}")
        return codecs
    if format != "zarr":
        raise InvalidArgumentError(f"layout='frontier' is for Zarr arrays, {path!r} is {format}")
    if codecs is not None and codecs != "none":
        raise InvalidArgumentError(
            "layout='frontier' has no codecs= beside it: what is compressed has no frontier that "
            "can be read alone"
        )
    thick = 1 if thickness is None else thickness
    if isinstance(thick, bool) or not isinstance(thick, int | np.integer):
        raise InvalidTypeError(f"thickness must be a number of elements, got {thickness!r}")
    if thick < 1:
        raise InvalidArgumentError(f"thickness must be at least 1, got {thickness}")
    return f"frontier:{thick}"


def expand_codecs(
    codecs: Codecs | None, dtype: np.dtype[Any], zarr_format: int
) -> list[dict[str, Any]] | None:
    """Codecs as a list of JSON objects; None where they are Outcrop's own.

    Parameters
    ----------
    codecs : str or sequence of mapping, optional
        A short word, or the list itself as JSON text or as mappings. It is not looked at further.
    dtype : numpy.dtype
        Some compressors want to know the size of an element.
    zarr_format : int
        3: the list is of Zarr's codecs. 2: it is empty, or has one compressor of numcodecs.

    Raises
    ------
    InvalidArgumentError, InvalidTypeError
        Where this says nothing.

    Examples
    --------
    >>> expand_codecs("zstd:5", np.dtype("f8"), 2)
    [{'id': 'zstd', 'level': 5}]
    >>> [codec["name"] for codec in expand_codecs("zstd:5", np.dtype("f8"), 3)]
    ['bytes', 'zstd', 'crc32c']
    >>> expand_codecs("none", np.dtype("f8"), 3)
    """
    if zarr_format not in (2, 3):
        raise InvalidArgumentError(f"zarr_format must be 2 or 3, got {zarr_format!r}")
    if isinstance(codecs, str):
        codecs = codecs.strip()
    if codecs is None or codecs == "none":
        return None if zarr_format == 3 else []
    if not isinstance(codecs, str):
        return _listed(codecs, repr(codecs))
    if codecs.startswith(("[", "{")):
        try:
            return _listed(json.loads(codecs), codecs)
        except json.JSONDecodeError as error:
            raise InvalidArgumentError(f"codecs: {codecs!r} is not JSON: {error}") from None
    if codecs.split(":")[0] == "frontier":
        return [_frontier(codecs, dtype, zarr_format)]
    name, settings = _compressor(codecs, dtype.itemsize)
    if zarr_format == 2:
        if name == "blosc":
            settings["shuffle"] = _SHUFFLES.index(settings["shuffle"])
            del settings["typesize"]
        return [{"id": name, **settings}]
    if name == "zstd":
        # The checksum of the format would be one more beside ours.
        settings["checksum"] = False
    return [
        {"name": "bytes", "configuration": {"endian": "little"}},
        {"name": name, "configuration": settings},
        {"name": "crc32c"},
    ]


def roomy(tile: tuple[int, ...], codecs: Sequence[Mapping[str, Any]] | None) -> tuple[int, ...]:
    """A tile that nobody has asked for, or a larger one in which the frontiers fit.

    Examples
    --------
    >>> roomy((1, 500), expand_codecs("frontier:2", np.dtype("f8"), 3))
    (4, 500)
    """
    for codec in codecs or ():
        thickness = dict(codec.get("configuration") or {}).get("thickness")
        # What is no thickness is refused where such an array is made.
        if codec.get("name") == FRONTIER and isinstance(thickness, int):
            return tuple(max(extent, 2 * thickness) for extent in tile)
    return tile


def _listed(codecs: Any, text: str) -> list[dict[str, Any]]:
    items = codecs if isinstance(codecs, Sequence) else [codecs]
    if not all(isinstance(item, Mapping) for item in items):
        raise InvalidTypeError(
            f"codecs: {text} is neither a list of JSON objects nor a short word such as {_EXAMPLES}"
        )
    return [dict(item) for item in items]


def _frontier(text: str, dtype: np.dtype[Any], zarr_format: int) -> dict[str, Any]:
    if zarr_format != 3:
        raise InvalidArgumentError(
            f"tiles with frontiers are for version 3 of Zarr, and this array's is {zarr_format}"
        )
    _, *settings = text.split(":")
    if len(settings) > 1 or not all(s.isdecimal() and int(s) > 0 for s in settings):
        raise InvalidArgumentError(
            f"codecs: {text!r}: behind 'frontier:' stands how many elements thick frontiers are"
        )
    configuration: dict[str, Any] = {"thickness": int(settings[0]) if settings else 1}
    # Of a complex number, each part has an order of its bytes.
    if dtype.itemsize > 1:
        configuration["endian"] = "little"
    return {"name": FRONTIER, "configuration": configuration}


def _compressor(text: str, itemsize: int) -> tuple[str, dict[str, Any]]:
    """The name of a compressor and its settings, complete."""
    name, *settings = text.split(":")
    most = {"none": 0, "zstd": 1, "gzip": 1, "blosc": 3}.get(name)
    if most is None:
        raise InvalidArgumentError(
            f"codecs: {text!r} is not known; short words are {_EXAMPLES}, and everything else is "
            "written as in Zarr's JSON"
        )
    if len(settings) > most:
        raise InvalidArgumentError(f"codecs: {text!r} has too many settings; try {_EXAMPLES}")
    if name == "zstd":
        return name, {"level": _level(text, settings, 3, range(-7, 23))}
    if name == "gzip":
        return name, {"level": _level(text, settings, 5, range(10))}
    inner = settings[0] if settings else "lz4"
    # Bytes of single-byte elements stand in order already; their bits do not.
    shuffle = settings[2] if len(settings) > 2 else ("bitshuffle" if itemsize == 1 else "shuffle")
    for word, known in ((inner, _BLOSC), (shuffle, _SHUFFLES)):
        if word not in known:
            raise InvalidArgumentError(
                f"codecs: {text!r}: {word!r} is not one of {', '.join(known)}"
            )
    return name, {
        "cname": inner,
        "clevel": _level(text, settings[1:2], 5, range(10)),
        "shuffle": shuffle,
        "typesize": itemsize,
        "blocksize": 0,
    }


def _level(text: str, settings: Sequence[str], default: int, allowed: range) -> int:
    if not settings:
        return default
    try:
        level = int(settings[0])
    except ValueError:
        level = allowed.stop
    if level not in allowed:
        raise InvalidArgumentError(
            f"codecs: {text!r}: the level is a number from {allowed[0]} to {allowed[-1]}"
        )
    return level
