"""What the metadata of a Zarr array say, for what Python opens by itself.

The compiled core reads those of arrays in directories. Here there is as much as it takes to know
which chunks are nothing but their elements, and where; the codecs of others are Zarr-Python's.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from outcrop.checks import check_dtype, check_shape
from outcrop.errors import CorruptArrayError, OutcropError, UnsupportedError

__all__ = ["ArrayMetadata", "array_metadata", "senseless"]

_OURS = 1
"""The version of our own arrays, as the compiled core has it."""

_NAMES = "_ARRAY_DIMENSIONS"
"""The attribute that has names of axes, in version 2 and at times in 3."""

_KNOWN = {
    *("zarr_format", "node_type", "shape", "data_type", "chunk_grid", "chunk_key_encoding"),
    *("fill_value", "codecs", "attributes", "dimension_names", "storage_transformers", "outcrop"),
}
"""Members of ``zarr.json`` that say nothing of chunks but what is understood here."""


@dataclass(frozen=True)
class ArrayMetadata:
    """What metadata say of an array.

    Attributes
    ----------
    zarr_format : int
        2 or 3.
    shape, chunk : tuple of int
        Extents.
    dtype : numpy.dtype
        Of the elements of a chunk, in their byte order.
    codecs : tuple of str
        The names of what chunks are encoded with, in the order of encoding.
    attributes : dict
        Without names of axes.
    dimension_names : tuple, optional
        A name or none for every axis.
    fill_value : numpy.generic, optional
        What elements are that were never written, where that is said.
    key : callable, optional
        The name of the chunk at a place in the grid; None where that is not known here.
    behind : int, optional
        Bytes behind the elements of a chunk that is nothing but these; None of others.
    undone : list of dict, optional
        As in ``zarr.json``, what chunks went through from bytes to bytes, if the compiled core has
        all of that, and there is nothing else; None of others.
    """

    zarr_format: int
    shape: tuple[int, ...]
    chunk: tuple[int, ...]
    dtype: np.dtype[Any]
    codecs: tuple[str, ...]
    attributes: dict[str, Any]
    dimension_names: tuple[str | None, ...] | None
    fill_value: np.generic | None
    key: Callable[[tuple[int, ...]], str] | None
    behind: int | None
    undone: list[dict[str, Any]] | None

    @property
    def grid(self) -> tuple[int, ...]:
        """How many chunks there are along each axis."""
        return tuple(-(-n // c) for n, c in zip(self.shape, self.chunk, strict=True))

    @property
    def chunk_bytes(self) -> int:
        """Bytes of the elements of a chunk."""
        return math.prod(self.chunk) * self.dtype.itemsize

    @property
    def fills_with_zeros(self) -> bool:
        """Whether an element that was never written is zero."""
        return self.fill_value is None or not any(self.fill_value.tobytes())


def array_metadata(name: str, version: int, given: Mapping[str, Any]) -> ArrayMetadata:
    """What metadata say.

    Raises
    ------
    CorruptArrayError
        They make no sense.
    UnsupportedError
        There are no such elements, chunks, or versions.
    """
    if given.get("zarr_format") != version:
        found = given.get("zarr_format")
        if isinstance(found, int) and found > version:
            raise UnsupportedError(f"{name}: is of Zarr {found}, and 2 and 3 are known")
        senseless(name, "zarr_format", found)
    attributes = given.get("attributes") or {}
    if not isinstance(attributes, dict):
        senseless(name, "attributes", attributes)
    shape = _extents(name, "shape", given.get("shape"))
    dtype = _dtype(name, given.get("data_type" if version == 3 else "dtype"))
    try:
        check_shape(shape, dtype)
    except OutcropError as error:
        raise UnsupportedError(f"{name}: {error}") from None
    attributes, names = _named(attributes, len(shape))
    if version == 3 and given.get("dimension_names") is not None:
        names = given["dimension_names"]
        sound = isinstance(names, list) and len(names) == len(shape)
        if not sound or not all(one is None or isinstance(one, str) for one in names):
            senseless(name, "dimension_names", names)
        names = tuple(names)
    encoding = _of_v3(name, given) if version == 3 else _of_v2(name, given)
    chunk, key, behind, order, codecs, undone = encoding
    if len(chunk) != len(shape) or 0 in chunk:
        senseless(name, "the shape of a chunk", list(chunk))
    if math.prod(chunk) * dtype.itemsize >= 2**63:
        raise UnsupportedError(f"{name}: its chunks are too large to address")
    if order is not None and dtype.itemsize > 1:
        dtype = dtype.newbyteorder(order)
    fill = _fill_value(name, given.get("fill_value"), dtype, version)
    if version == 3 and not set(given) <= _KNOWN:
        # What they mean, another program may know.
        behind = undone = None
    if version == 3 and (ours := given.get("outcrop")) is not None:
        made_by = ours.get("version") if isinstance(ours, dict) else None
        if not isinstance(made_by, int):
            senseless(name, "outcrop", ours)
        if made_by > _OURS:
            raise UnsupportedError(
                f"{name}: made by a newer Outcrop: array format {made_by}, this version knows "
                f"{_OURS}"
            )
    known = (version, shape, chunk, dtype, codecs, attributes, names, fill)
    return ArrayMetadata(*known, key, behind, undone)


_Encoding = tuple[
    tuple[int, ...],
    Callable[[tuple[int, ...]], str] | None,
    int | None,
    Any,
    tuple[str, ...],
    list[dict[str, Any]] | None,
]
"""The chunk, its key, bytes behind its elements, the order of bytes, the codecs, and what of them
the compiled core undoes."""

_UNDONE = {
    **{"gzip": "gzip", "zstd": "zstd", "blosc": "blosc", "crc32c": "crc32c"},
    **{f"numcodecs.{one}": f"numcodecs.{one}" for one in ("zlib", "bz2", "shuffle", "fletcher32")},
}
"""Codecs of version 3 from bytes to bytes that the compiled core has."""

_UNDONE_V2 = {
    **{"gzip": "gzip", "zstd": "zstd", "blosc": "blosc"},
    **{one: f"numcodecs.{one}" for one in ("zlib", "bz2", "shuffle", "fletcher32")},
}
"""Those of version 2, as version 3 calls them."""

_SETTINGS: dict[str, dict[str, Any]] = {
    "gzip": {"level": 5},
    "numcodecs.zlib": {"level": 5},
    "numcodecs.bz2": {"level": 5},
    "zstd": {"level": 0, "checksum": False},
    "blosc": {"cname": "lz4", "clevel": 5, "shuffle": "noshuffle", "blocksize": 0},
}
"""What has to be said of codecs, and is for writing: chunks say themselves what was done."""


def _undone(names: Mapping[str, str], codecs: list[Any], id_: str) -> list[dict[str, Any]] | None:
    found = []
    for codec in codecs:
        given = codec.get(id_) if isinstance(codec, dict) else codec
        name = names.get(str(given))
        if name is None:
            return None
        own = codec if id_ == "id" else _configuration(codec)
        settings = dict(_SETTINGS.get(name, {}))
        if name == "numcodecs.shuffle":
            settings["elementsize"] = own.get("elementsize", 4)
            if type(settings["elementsize"]) is not int or settings["elementsize"] < 1:
                return None
        found.append({"name": name, "configuration": settings})
    return found


def _of_v3(name: str, given: Mapping[str, Any]) -> _Encoding:
    grid, encoding = given.get("chunk_grid"), given.get("chunk_key_encoding")
    if _name_of(grid) != "regular":
        raise UnsupportedError(f"{name}: the chunk grid {_name_of(grid)!r} is not supported")
    chunk = _extents(name, "chunk_shape", _configuration(grid).get("chunk_shape"))
    kind = _name_of(encoding)
    separator = _configuration(encoding).get("separator", "/" if kind == "default" else ".")
    key = None
    if kind in ("default", "v2") and separator in ("/", "."):
        key = _Keys(kind == "default", separator)
    codecs = given.get("codecs")
    if not isinstance(codecs, list) or not codecs or not all(map(_name_of, codecs)):
        senseless(name, "codecs", codecs)
    names = tuple(str(_name_of(codec)) for codec in codecs)
    order = _configuration(codecs[0]).get("endian", "little") if names[0] == "bytes" else "little"
    behind = {("bytes",): 0, ("bytes", "crc32c"): 4}.get(names)
    undone = _undone(_UNDONE, codecs[1:], "name") if names[0] == "bytes" else None
    if order not in ("little", "big") or given.get("storage_transformers"):
        behind = undone = None
    return chunk, key, behind, ">" if order == "big" else "<", names, undone


def _of_v2(name: str, given: Mapping[str, Any]) -> _Encoding:
    chunk = _extents(name, "chunks", given.get("chunks"))
    separator = given.get("dimension_separator") or "."
    key = _Keys(False, separator) if separator in ("/", ".") else None
    filters, compressor = given.get("filters") or [], given.get("compressor")
    codecs = [*(filters if isinstance(filters, list) else [filters])]
    codecs += [] if compressor is None else [compressor]
    if not all(isinstance(codec, dict) and isinstance(codec.get("id"), str) for codec in codecs):
        senseless(name, "filters or compressor", codecs)
    order = given.get("order")
    if order not in ("C", "F"):
        senseless(name, "order", order)
    in_order = order == "C" or len(chunk) < 2
    names = ("bytes", *(codec["id"] for codec in codecs))
    undone = _undone(_UNDONE_V2, codecs, "id") if in_order else None
    return chunk, key, 0 if in_order and not codecs else None, None, names, undone


@dataclass(frozen=True)
class _Keys:
    """Names of chunks."""

    prefixed: bool
    separator: str

    def __call__(self, at: tuple[int, ...]) -> str:
        parts = [*(["c"] if self.prefixed else []), *map(str, at)]
        return self.separator.join(parts) if parts else "0"


def _name_of(given: Any) -> str | None:
    """The name of a codec, a grid or an encoding, which may be all there is of it."""
    found = given.get("name") if isinstance(given, dict) else given
    return found if isinstance(found, str) else None


def _configuration(given: Any) -> dict[str, Any]:
    found = given.get("configuration") if isinstance(given, dict) else None
    return found if isinstance(found, dict) else {}


def _extents(name: str, what: str, given: Any) -> tuple[int, ...]:
    if not isinstance(given, list) or not all(type(n) is int and 0 <= n < 2**63 for n in given):
        senseless(name, what, given)
    return tuple(given)


def _dtype(name: str, given: Any) -> np.dtype[Any]:
    """The elements, by the name of version 3 or the type string of version 2."""
    text = given if isinstance(given, str) else ""
    if re.fullmatch(r"[a-z]+[0-9]*|[<>|=][a-zA-Z][0-9]+", text):
        try:
            dtype = check_dtype(text, swapped=True)
            if text[0] in "<>|=" or dtype.name == text:
                return dtype
        except OutcropError:
            pass
    raise UnsupportedError(f"{name}: elements of type {_short(given)} are not supported")


def _named(attributes: dict[str, Any], ndim: int) -> tuple[dict[str, Any], Any]:
    """Attributes without the names of axes, and these."""
    names = attributes.get(_NAMES)
    if not isinstance(names, list) or len(names) != ndim:
        return attributes, None
    if not all(isinstance(one, str) for one in names):
        return attributes, None
    return {key: value for key, value in attributes.items() if key != _NAMES}, tuple(names)


def _fill_value(name: str, given: Any, dtype: np.dtype[Any], version: int) -> np.generic | None:
    """The fill value; None where version 2 has none."""
    if given is None and version == 2:
        return None
    native = dtype.newbyteorder("=")
    if native.kind == "c":
        parts = [given, 0] if version == 2 and not isinstance(given, list) else given
        if not isinstance(parts, list) or len(parts) != 2:
            senseless(name, "fill_value", given)
        half = np.dtype(f"f{native.itemsize // 2}")
        pair = np.array([_number(name, part, half, version) for part in parts], half)
        return _element(pair.view(native))
    return _element(np.array([_number(name, given, native, version)], native))


def _element(array: NDArray[Any]) -> np.generic:
    found: np.generic = array[0]
    return found


def _number(name: str, given: Any, dtype: np.dtype[Any], version: int) -> Any:
    """A number of a type, every bit as it is written."""
    if dtype.kind == "f" and isinstance(given, str):
        if given in ("NaN", "Infinity", "-Infinity"):
            return float(given)
        if re.fullmatch(f"0x[0-9a-fA-F]{{{2 * dtype.itemsize}}}", given):
            return np.frombuffer(bytes.fromhex(given[2:])[::-1], dtype)[0]
    elif dtype.kind == "f" and isinstance(given, int | float) and not isinstance(given, bool):
        with np.errstate(all="ignore"):
            return np.array(float(given) if abs(given) < 2**1023 else math.inf).astype(dtype)
    elif dtype.kind == "b" and (isinstance(given, bool) or (version == 2 and given in (0, 1))):
        return bool(given)
    elif dtype.kind in "iu" and isinstance(given, int | float) and not isinstance(given, bool):
        limits = np.iinfo(dtype)
        if math.isfinite(given) and given == int(given) and limits.min <= given <= limits.max:
            return int(given)
    senseless(name, "fill_value", given)


def _short(given: Any) -> str:
    text = repr(given)
    return text if len(text) <= 100 else f"{text[:100]}..."


def senseless(name: str, what: str, given: Any) -> NoReturn:
    """Raise for a member that makes no sense."""
    raise CorruptArrayError(f"{name}: its metadata make no sense: {what} is {_short(given)}")
