"""The codec ``outcrop.frontier`` for Zarr-Python, which finds it by the package's entry points.

Nothing of Outcrop needs it: the core reads and writes such arrays by itself (`layout::frontier`,
where it is said what the bytes are). It is imported by Zarr-Python, and by whoever makes arrays
with it.

Examples
--------
>>> import zarr
>>> from outcrop.interop.zarr_codec import FrontierCodec
>>> about = {"shape": (8, 8), "chunks": (4, 4), "dtype": "f8", "compressors": None}
>>> z = zarr.create_array("z.zarr", serializer=FrontierCodec(thickness=1), **about)
>>> z[...] = np.eye(8)
>>> oc.open("z.zarr").thickness
1
"""

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import google_crc32c
import numpy as np
from numpy.typing import NDArray
from zarr.abc.codec import ArrayBytesCodec, ArrayBytesCodecPartialDecodeMixin
from zarr.abc.store import RangeByteRequest

from outcrop.errors import CorruptArrayError, InvalidArgumentError, UnsupportedError
from outcrop.formats.codecs import FRONTIER

if TYPE_CHECKING:
    from zarr.abc.buffer import Buffer, NDBuffer

__all__ = ["FrontierCodec"]

_Slices = tuple[slice, ...]


class _Part(NamedTuple):
    """A contiguous part of a chunk: which of its elements, and where their bytes begin."""

    key: _Slices
    offset: int
    shape: tuple[int, ...]
    nbytes: int

    def inside(self, key: _Slices) -> _Slices | None:
        """What is wanted of a chunk, counted from the first element here; None if any lacks."""
        pairs = list(zip(self.key, key, strict=True))
        if not all(own.start <= k.start and k.stop <= own.stop for own, k in pairs):
            return None
        return tuple(slice(k.start - own.start, k.stop - own.start) for own, k in pairs)


def _parts(shape: tuple[int, ...], itemsize: int, thickness: int) -> list[_Part]:
    """The parts of a chunk, in the order of its bytes."""
    if any(thickness > n // 2 for n in shape):
        raise InvalidArgumentError(
            f"frontiers of thickness {thickness} do not fit chunks {shape}: a thickness is at "
            "most half of each extent"
        )
    whole = tuple(slice(0, n) for n in shape)

    def keys() -> Iterator[_Slices]:
        for axis in range(len(shape)):
            yield (*whole[:axis], slice(0, thickness), *whole[axis + 1 :])
        yield tuple(slice(thickness, n - thickness) for n in shape)
        for axis in reversed(range(len(shape))):
            n = shape[axis]
            yield (*whole[:axis], slice(n - thickness, n), *whole[axis + 1 :])

    found: list[_Part] = []
    end, table = 0, 4 * (2 * len(shape) + 1)
    for key in keys():
        extents = tuple(k.stop - k.start for k in key)
        nbytes = math.prod(extents) * itemsize
        found.append(_Part(key, end, extents, nbytes))
        end += nbytes + table
    return found


def _native(dtype: Any) -> np.dtype[Any]:
    """Zarr-Python's type of elements as NumPy's."""
    found: np.dtype[Any]
    found = np.dtype(dtype.to_native_dtype() if hasattr(dtype, "to_native_dtype") else dtype)
    return found


@dataclass(frozen=True)
class FrontierCodec(ArrayBytesCodec, ArrayBytesCodecPartialDecodeMixin):
    """Chunks with their frontiers beside them: what is at a chunk's edges is one contiguous read.

    It makes bytes of elements (``serializer=`` of ``zarr.create_array``), and is the only codec of
    an array that Outcrop reads.

    Attributes
    ----------
    thickness : int
        How many elements frontiers have along their axis: at most half of each extent of a chunk.
    endian : str or None
        The order of bytes in an element, which is ``"little"``. None is that, too.
    """

    is_fixed_size = True

    thickness: int = 1
    endian: str | None = "little"

    def __post_init__(self) -> None:
        if not isinstance(self.thickness, int) or self.thickness < 1:
            raise InvalidArgumentError(f"thickness must be from 1 on, got {self.thickness!r}")
        if self.endian not in ("little", None):
            raise UnsupportedError(f"codec {FRONTIER!r} has no elements with endian {self.endian}")

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "FrontierCodec":
        """From the JSON of ``zarr.json``."""
        return cls(**data.get("configuration", {}))

    def to_dict(self) -> dict[str, Any]:
        """As it is in the JSON of ``zarr.json``."""
        configuration: dict[str, Any] = {"thickness": self.thickness}
        if self.endian is not None:
            configuration["endian"] = self.endian
        return {"name": FRONTIER, "configuration": configuration}

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: Any) -> int:
        """Bytes of a chunk with its frontiers and checksums."""
        parts = _parts(chunk_spec.shape, _native(chunk_spec.dtype).itemsize, self.thickness)
        return sum(part.nbytes + 4 * len(parts) for part in parts)

    def validate(self, *, shape: tuple[int, ...], dtype: Any, chunk_grid: Any) -> None:
        """Refuse chunks that are too small for the frontiers."""
        chunk = getattr(chunk_grid, "chunk_shape", None)
        if chunk is not None:
            _parts(tuple(chunk), _native(dtype).itemsize, self.thickness)

    async def _encode_single(self, chunk_array: "NDBuffer", chunk_spec: Any) -> "Buffer":
        elements = np.asarray(chunk_array.as_ndarray_like())
        elements = elements.astype(elements.dtype.newbyteorder("<"), copy=False)
        parts = _parts(elements.shape, elements.itemsize, self.thickness)
        bodies = [elements[part.key].tobytes() for part in parts]
        table = b"".join(struct.pack("<I", google_crc32c.value(body)) for body in bodies)
        return chunk_spec.prototype.buffer.from_bytes(  # type: ignore[no-any-return]
            b"".join(body + table for body in bodies)
        )

    async def _decode_single(self, chunk_bytes: "Buffer", chunk_spec: Any) -> "NDBuffer":
        return self._decoded(chunk_bytes, chunk_spec, None)

    async def _decode_partial_single(
        self, byte_getter: Any, selection: Any, chunk_spec: Any
    ) -> "NDBuffer | None":
        key = _as_slices(selection, chunk_spec.shape)
        parts = _parts(chunk_spec.shape, _native(chunk_spec.dtype).itemsize, self.thickness)
        holding = [part for part in parts if key is not None and part.inside(key) is not None]
        if holding and key is not None:
            part = min(holding, key=lambda part: part.nbytes)
            end = part.offset + part.nbytes + 4 * len(parts)
            request = RangeByteRequest(part.offset, end)
            found = await byte_getter.get(prototype=chunk_spec.prototype, byte_range=request)
            if found is None:
                return None
            return self._decoded(found, chunk_spec, part)[part.inside(key)]
        found = await byte_getter.get(prototype=chunk_spec.prototype)
        return None if found is None else self._decoded(found, chunk_spec, None)[selection]

    def _decoded(self, chunk_bytes: "Buffer", chunk_spec: Any, only: _Part | None) -> "NDBuffer":
        """The elements of a chunk's bytes, or of those of one part with its table."""
        dtype = _native(chunk_spec.dtype).newbyteorder("<")
        parts = _parts(chunk_spec.shape, dtype.itemsize, self.thickness)
        content = chunk_bytes.as_numpy_array().view("B")
        expected = sum(p.nbytes + 4 * len(parts) for p in parts if only is None or p == only)
        if content.size != expected:
            raise CorruptArrayError(f"a chunk has {content.size} bytes, and not {expected}")
        if only is not None:
            elements = _checked(content, 0, only, parts, dtype)
        else:
            tables = {_table(content, part.offset, part, parts) for part in parts}
            if len(tables) > 1:
                raise CorruptArrayError("a chunk has frontiers of another state than the rest")
            elements = np.empty(chunk_spec.shape, dtype)
            for number, part in enumerate(parts):
                found = _checked(content, part.offset, part, parts, dtype)
                elements[part.key] = found
                for other in parts[:number]:
                    _check_same(content, part, other, dtype)
        native = elements.astype(dtype.newbyteorder("="), copy=False)
        return chunk_spec.prototype.nd_buffer.from_ndarray_like(  # type: ignore[no-any-return]
            native
        )


def _as_slices(selection: Any, shape: tuple[int, ...]) -> _Slices | None:
    """A box as slices with beginnings and ends; None for what is none, or is empty."""
    given = selection if isinstance(selection, tuple) else (selection,)
    if len(given) != len(shape) or not all(isinstance(k, slice) for k in given):
        return None
    found = [slice(*k.indices(n)) for k, n in zip(given, shape, strict=True)]
    if any(k.step != 1 or k.start >= k.stop for k in found):
        return None
    return tuple(slice(k.start, k.stop) for k in found)


def _table(content: NDArray[Any], offset: int, part: _Part, parts: list[_Part]) -> bytes:
    """The checksums that stand behind a part."""
    end = offset + part.nbytes
    return content[end : end + 4 * len(parts)].tobytes()


def _body(content: NDArray[Any], offset: int, part: _Part, dtype: np.dtype[Any]) -> NDArray[Any]:
    count = math.prod(part.shape)
    return np.frombuffer(content, dtype, count, offset).reshape(part.shape)


def _checked(
    content: NDArray[Any], offset: int, part: _Part, parts: list[_Part], dtype: np.dtype[Any]
) -> NDArray[Any]:
    """The elements of a part, if they have the checksum that stands behind them."""
    table = _table(content, offset, part, parts)
    (stored,) = struct.unpack_from("<I", table, 4 * parts.index(part))
    computed = google_crc32c.value(content[offset : offset + part.nbytes].tobytes())
    if stored != computed:
        raise CorruptArrayError(
            f"a part of a chunk has CRC-32C {computed:08x}, {stored:08x} was stored with it"
        )
    return _body(content, offset, part, dtype)


def _check_same(content: NDArray[Any], one: _Part, other: _Part, dtype: np.dtype[Any]) -> None:
    """Raise where two parts differ in elements that both have."""
    common = tuple(
        slice(max(a.start, b.start), min(a.stop, b.stop))
        for a, b in zip(one.key, other.key, strict=True)
    )
    if any(k.start >= k.stop for k in common):
        return
    found = [
        _body(content, part.offset, part, dtype)[part.inside(common)].tobytes()
        for part in (one, other)
    ]
    if found[0] != found[1]:
        raise CorruptArrayError("a chunk's frontiers differ in elements that are in both")
