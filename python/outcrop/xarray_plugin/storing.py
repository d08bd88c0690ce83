"""Arrays that xarray writes to files of its own making."""

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from outcrop import _native
from outcrop.arrays.array import Array
from outcrop.arrays.creation import open as opened
from outcrop.arrays.stored import StoreSource
from outcrop.errors import OutcropError, UnsupportedError
from outcrop.expressions.build.saving import into, save
from outcrop.process.config import scratch_directory

__all__ = ["store"]


def store(sources: Sequence[Array], targets: Sequence[Any], regions: Sequence[Any]) -> None:
    """Write arrays to what there is for each, all of it or a region.

    What is all of a Zarr array on disk is computed to that, by one plan for all of them. Others
    are computed by one plan, too, and handed on a tile at a time.
    """
    whole: list[tuple[Array, Array]] = []
    rest: list[tuple[Array, Any, Any]] = []
    try:
        for source, target, region in zip(sources, targets, regions, strict=True):
            own = _our_view(target, region, source)
            if own is None:
                rest.append((source, target, region))
            else:
                whole.append((source, own))
        if whole:
            into([one for one, _ in whole], [_store_of(own) for _, own in whole])
            for _, own in whole:
                own.close()
    except BaseException:
        for _, own in whole:
            with suppress(OutcropError):
                own.abort()
        raise
    if rest:
        _by_tiles(rest)


def _our_view(target: Any, region: Any, source: Array) -> Array | None:
    """A Zarr array on disk, opened for writing, of which all is to be written; None for others."""
    # Who has made the target has loaded it; others may not have it at all.
    zarr = sys.modules.get("zarr")
    if zarr is None or not isinstance(target, zarr.Array) or not source.size:
        return None
    root = getattr(target.store, "root", None)
    if not isinstance(root, Path) or target.shape != source.shape or target.dtype != source.dtype:
        return None
    if region is not None and not _is_whole(region, source.shape):
        return None
    try:
        return opened(root / target.path, "r+", format="zarr")
    except UnsupportedError:
        # What Zarr-Python encodes it with is not known here.
        return None


def _store_of(array: Array) -> _native.Store:
    assert isinstance(array._source, StoreSource)
    return array._source.store


def _is_whole(region: Any, shape: tuple[int, ...]) -> bool:
    keys = region if isinstance(region, tuple) else (region,)
    return len(keys) == len(shape) and all(
        isinstance(key, slice) and key.indices(n) == (0, n, 1)
        for key, n in zip(keys, shape, strict=True)
    )


def _by_tiles(arrays: Sequence[tuple[Array, Any, Any]]) -> None:
    """Hand arrays on a tile at a time, once all of them are computed."""
    with ExitStack() as cleared:
        computed = [i for i, (one, _, _) in enumerate(arrays) if one.layout == "computed"]
        made: dict[int, Array] = {}
        if len(computed) > 1:
            scratch = _native.ScratchDirectory(str(scratch_directory()))
            cleared.callback(scratch.remove)
            paths = {os.path.join(scratch.path, f"{i}.zarr"): i for i in computed}
            done = save({path: arrays[i][0] for path, i in paths.items()})
            made = {i: done[path] for path, i in paths.items()}
        for i, (source, target, region) in enumerate(arrays):
            for key, block in made.get(i, source).tiles():
                target[_placed(key, region, source.shape)] = block


def _placed(key: tuple[slice, ...], region: Any, shape: tuple[int, ...]) -> Any:
    """Where a tile is in the target, of which a region is written."""
    if region is None:
        return key
    keys = region if isinstance(region, tuple) else (region,)
    found: list[Any] = []
    own = iter(zip(key, shape, strict=True))
    for one in keys:
        if not isinstance(one, slice):
            found.append(one)
            continue
        part, _ = next(own)
        start, step = one.start or 0, one.step or 1
        if start < 0 or step < 1:
            raise UnsupportedError(f"a region that is counted from the end: {one}")
        found.append(slice(start + step * part.start, start + step * part.stop, one.step))
    return tuple(found)
