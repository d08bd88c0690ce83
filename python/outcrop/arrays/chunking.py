"""Chunks as Dask and xarray have them: the extents along each axis, one after the other."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from outcrop.arrays.source import default_tile
from outcrop.checks import check_shape
from outcrop.errors import InvalidArgumentError, InvalidTypeError
from outcrop.process.sizes import parse_bytes

__all__ = ["Chunks", "largest_chunk", "normalized_chunks", "regular_chunks"]

Chunks: TypeAlias = tuple[tuple[int, ...], ...]


def regular_chunks(shape: Sequence[int], tile: Sequence[int]) -> Chunks:
    """The chunks of a grid of tiles, of which the last along each axis may be shorter."""
    return tuple(_regular(n, t) for n, t in zip(shape, tile, strict=True))


def largest_chunk(chunks: Chunks) -> tuple[int, ...]:
    """The largest extent along each axis."""
    return tuple(max(extents, default=1) for extents in chunks)


def normalized_chunks(
    chunks: Any,
    shape: Sequence[int],
    dtype: np.dtype[Any],
    *,
    limit: int | None = None,
    previous: Chunks | None = None,
) -> Chunks:
    """What a user says of chunks, for an array.

    Parameters
    ----------
    chunks : int, str, None, or a sequence or mapping of those for each axis
        Extents; -1 or None for all of an axis; ``"auto"`` for what suits an array of this size;
        or bytes, such as ``"16MiB"``, for so much together with the other axes. Of a mapping, axes
        that are not named stay as they are.
    shape : sequence of int
        That of the array.
    dtype : numpy.dtype
        Its type.
    limit : int, optional
        Bytes of a chunk whose extents are chosen. Default: those of the default tile.
    previous : tuple of tuple of int, optional
        The chunks there are, multiples of which are chosen.

    Raises
    ------
    InvalidArgumentError, InvalidTypeError
        They are not as many as there are axes, do not add up to them, or make no sense.
    """
    shape = check_shape(tuple(shape), dtype)
    if isinstance(chunks, Mapping):
        known: Sequence[Any] = previous or (None,) * len(shape)
        chunks = [chunks.get(axis, known[axis]) for axis in range(len(shape))]
    elif chunks is None or isinstance(chunks, str | int | np.integer):
        chunks = [chunks] * len(shape)
    elif not isinstance(chunks, Sequence | np.ndarray):
        raise InvalidTypeError(f"chunks are extents for each axis, and not {chunks!r}")
    if len(chunks) != len(shape):
        raise InvalidArgumentError(f"{len(chunks)} chunks are given for {len(shape)} axes")
    for one in chunks:
        if isinstance(one, str) and one != "auto":
            limit = parse_bytes(one)
    given = [_given(one, n) for one, n in zip(chunks, shape, strict=True)]
    return _chosen(given, shape, dtype, limit, previous)


def _regular(extent: int, chunk: int) -> tuple[int, ...]:
    if extent == 0:
        return (0,)
    chunk = min(max(chunk, 1), extent)
    rest = extent % chunk
    return (chunk,) * (extent // chunk) + ((rest,) if rest else ())


def _given(chunk: Any, extent: int) -> tuple[int, ...] | None:
    """The extents along an axis; None for those that are to be chosen."""
    if isinstance(chunk, str):
        return None
    if chunk is None:
        return (extent,)
    if isinstance(chunk, Sequence | np.ndarray):
        extents = tuple(_integer(n) for n in chunk)
        if sum(extents) != extent or min(extents, default=0) < 0:
            raise InvalidArgumentError(f"chunks of {extents} do not make up {extent} elements")
        return extents
    n = _integer(chunk)
    if n == -1:
        return (extent,)
    if n < 1:
        raise InvalidArgumentError(f"a chunk has at least one element, and not {n}")
    return _regular(extent, n)


def _integer(n: Any) -> int:
    if isinstance(n, bool) or not isinstance(n, int | np.integer):
        raise InvalidTypeError(f"chunks have integers of elements, and not {n!r}")
    return int(n)


def _chosen(
    given: Sequence[tuple[int, ...] | None],
    shape: Sequence[int],
    dtype: np.dtype[Any],
    limit: int | None,
    previous: Chunks | None,
) -> Chunks:
    """With those axes cut whose chunks are to be chosen, the longest in chunks the most."""
    free = [axis for axis, one in enumerate(given) if one is None]
    if not free:
        return tuple(one for one in given if one is not None)
    if limit is None:
        limit = math.prod(default_tile(tuple(shape), dtype)) * dtype.itemsize
    unit = [max(n, 1) for n in largest_chunk(previous)] if previous else [1] * len(shape)
    chunk = [n if one is None else max(one, default=1) for n, one in zip(shape, given, strict=True)]
    while math.prod(chunk) * dtype.itemsize > limit:
        axis = max(free, key=lambda a: chunk[a] / unit[a])
        units = -(-chunk[axis] // unit[axis])
        if units <= 1:
            break
        chunk[axis] = -(-units // 2) * unit[axis]
    made = regular_chunks(shape, chunk)
    return tuple(m if one is None else one for m, one in zip(made, given, strict=True))
