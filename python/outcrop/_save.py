"""Writing an array of any kind to disk."""

import errno
import json
import math
import os
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import PurePath
from typing import Any

import numpy as np

from outcrop import _native
from outcrop._beside import check_replaced
from outcrop._checks import ShapeLike, StrPath, check_dtype, check_order, check_path, check_tile
from outcrop._codecs import Codecs, expand_codecs
from outcrop._lazy import ComputedSource, Progress
from outcrop._operation import operation
from outcrop._sizes import format_bytes
from outcrop._source import MemorySource, Source, filler, fitting_tile
from outcrop._store import StoreSource
from outcrop.config import ensure_configured, scratch_directory
from outcrop.errors import (
    ArrayNotFoundError,
    BudgetError,
    InvalidArgumentError,
    InvalidTypeError,
    OutcropWarning,
    StorageError,
)
from outcrop.formats import check_format, family_of, format_of, turned_orientation
from outcrop.views import View

__all__ = [
    "carried",
    "create_store",
    "goes_aside",
    "is_scattered",
    "move",
    "naming_tiles",
    "part_of",
    "reopened",
    "save",
    "share_of_computing",
    "sketch",
]

_LONG_RUN = 64 << 10
"""Bytes that are written to a new file in one go without much loss."""

_NPY_METADATA = 4096
"""Bytes in front of the elements of a .npy file: they begin at a block's edge."""

_STAGED = ".outcrop-new"
"""In the name under which a new array is built."""

_WRITING = 0.5e9
"""Bytes in a second, for sharing out a progress bar."""


def create_store(
    path: StrPath,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    *,
    tile: ShapeLike | None,
    format: str | None,
    order: str,
    codecs: Codecs | None,
    zarr_format: int,
    attributes: Mapping[str, Any] | None,
    overwrite: bool,
) -> _native.Store:
    """Check what belongs to which format, and make a store that is not visible yet."""
    name = check_path(path)
    check_dtype(dtype)
    format = check_format(format or format_of(name))
    family = family_of(format)
    order = check_order(order)
    if order != "C" and (family or format == "zarr"):
        what = f"{format} files" if family else "tiles of a Zarr array"
        raise InvalidArgumentError(f"order='F' is for npy and raw files; {what} are in order 'C'")
    if format != "zarr":
        given: dict[str, object] = {
            "tile": tile,
            "codecs": codecs,
            "zarr_format": zarr_format != 3,
        }
        given |= {} if family else {"attributes": attributes}
        for option, value in given.items():
            if value:
                raise InvalidArgumentError(f"{option}= is for Zarr arrays, {name!r} is {format}")
    ensure_configured()
    if family:
        with _naming_target(name):
            return family.create(name, format, shape, dtype, attributes or {}, bool(overwrite))
    listed = expand_codecs(codecs, dtype, zarr_format)
    tiled = _tile(tile, shape, dtype, format)
    with _naming_target(name):
        return _native.create(
            name,
            format,
            shape,
            dtype.name,
            tiled,
            order,
            None if listed is None else _json(listed, "codecs"),
            zarr_format,
            _json(dict(attributes or {}), "attributes"),
            bool(overwrite),
        )


@contextmanager
def _naming_target(path: str) -> Iterator[None]:
    """Say of a target that cannot be made where it was to be, and why."""
    parent = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(parent):
        given = os.path.dirname(path) or os.curdir
        raise ArrayNotFoundError(
            f"{path}: cannot be made: the directory {given} does not exist", errno=errno.ENOENT
        )
    try:
        yield
    except (ArrayNotFoundError, StorageError) as error:
        # A person has not asked for the name under which it is built.
        if error.errno is None or _STAGED not in str(error):
            raise
        reason = os.strerror(error.errno)
        # The same error: another one would keep this one's frames, and what they have open.
        error.args = (f"{path}: cannot be made in the directory {parent}: {reason}",)
        raise


def carried(source: Source, view: View, format: str) -> dict[str, Any]:
    """Those attributes of a source that go with a view of it that is saved."""
    attributes = source.attributes
    # How to show pixels that lie otherwise now.
    if (orientation := turned_orientation(attributes, view)) is not None:
        attributes["orientation"] = orientation
    elif not view.is_box:
        attributes.pop("orientation", None)
    family = family_of(format)
    if family is None:
        return attributes if format == "zarr" else {}
    axes = view.turn and view.turn[0]
    return family.carried(format, view.shape, source.dtype, attributes, axes=axes)


def sketch(
    path: str,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    *,
    tile: ShapeLike | None,
    format: str | None,
    order: str,
    attributes: Mapping[str, Any] | None = None,
) -> _native.Store:
    """What `create_store` would make, for plans."""
    format = check_format(format or format_of(path))
    ensure_configured()
    offset = _NPY_METADATA if format == "npy" else 0
    if family := family_of(format):
        offset = family.offset(path, format, shape, dtype, attributes or {})
    tiled = _tile(tile, shape, dtype, format)
    return _native.sketch(path, format, shape, dtype.name, tiled, check_order(order), offset)


def _tile(
    tile: ShapeLike | None, shape: tuple[int, ...], dtype: np.dtype[Any], format: str
) -> tuple[int, ...] | None:
    """The tile that is wanted, or one that fits memory; None where there are no tiles."""
    checked = check_tile(tile, shape)
    return fitting_tile(shape, dtype) if checked is None and format == "zarr" else checked


def _json(value: Any, name: str) -> str:
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(f"{name} cannot be written as JSON: {error}") from None


def save(
    source: Source,
    view: View,
    path: StrPath,
    *,
    tile: ShapeLike | None,
    format: str | None,
    order: str,
    overwrite: bool,
    codecs: Codecs | None,
    zarr_format: int,
    progress: Progress | None,
) -> StoreSource:
    """Write a view to a new array on disk and open that."""
    source.check_open()
    name = check_path(path)
    format = check_format(format or format_of(name))
    source, view = source.narrowed(view)
    given = source
    attributes = carried(source, view, format)
    if source.path is not None and _is_inside(source.path, name):
        raise InvalidArgumentError(f"{name!r} holds what is to be saved there")
    base = source.base
    if isinstance(base, ComputedSource):
        base.check_target(name)
    elif isinstance(base, StoreSource) and overwrite:
        check_replaced(base, name)
    # With what makes the array visible, one operation; but functions may compute what they like.
    together = isinstance(base, ComputedSource | StoreSource | MemorySource)
    with operation() if together else nullcontext():
        computed: ComputedSource | None = None
        if isinstance(source, ComputedSource) and source.result is None and view.is_whole:
            computed = source
        planned: _native.Plan | None = None
        if computed is not None and format == "zarr" and order == "C":
            planned = _plan(computed, check_tile(tile, view.shape))
            # The tiles in which it is computed are those that are stored.
            if tile is None and planned is not None:
                tile = planned.output_tile
        target = create_store(
            path,
            view.shape,
            source.dtype,
            tile=tile,
            format=format,
            order=order,
            codecs=codecs,
            zarr_format=zarr_format,
            attributes=attributes,
            overwrite=overwrite,
        )
        try:
            if computed is None:
                if isinstance(base, ComputedSource):
                    result = base.as_operand()
                    source = result if source is base else source
                move(source, view, target, progress)
            else:
                _compute(computed, planned if target.format == "zarr" else None, target, progress)
            if not target.committed:
                given.check_current()
                target.commit()
        except BaseException:
            with suppress(Exception):
                target.abort()
            # The traceback keeps this frame; it must not keep the files.
            del target
            raise
    return reopened(target, name, format, order)


def reopened(target: _native.Store, path: str, format: str, order: str = "C") -> StoreSource:
    """What has been written and committed, for reading."""
    if target.format == "zarr":
        store = _native.reopen(target)
    elif family := family_of(format):
        store = family.open(path, "r", 0)
    elif format == "raw":
        dtype = np.dtype(target.dtype).str
        store = _native.open(path, "r", format, target.shape, dtype, 0, order)
    else:
        store = _native.open(path, "r", format, None, None, 0, "C")
    return StoreSource(store, "r", path=path, again=_opening(store, path, format, order))


def _opening(
    store: _native.Store, path: str, format: str, order: str
) -> Callable[[], _native.Store]:
    """What opens a result once more, wherever the process has gone meanwhile."""
    path = os.path.abspath(path)
    if family := family_of(format):
        return partial(family.open, path, "r", 0)
    if format == "raw":
        described = store.shape, np.dtype(store.dtype).str
        return partial(_native.open, path, "r", format, *described, 0, order)
    return partial(_native.open, path, "r", format, None, None, 0, "C")


def move(source: Source, view: View, target: _native.Store, progress: Progress | None) -> None:
    """Write elements that are there to a new array, which is not committed."""
    with naming_tiles(source, target):
        if isinstance(source, StoreSource) and view.turn is not None:
            _native.copy_box(source.store, *view.box, view.turn, target, progress)
        else:
            _native.fill(target, filler(source, view), progress)


@contextmanager
def naming_tiles(source: Source, target: _native.Store) -> Iterator[None]:
    """Say of memory that is too small for a tiled array that other tiles may need less."""
    try:
        yield
    except BudgetError as error:
        least = 1
        if isinstance(source, StoreSource) and source.layout == "tiled":
            # Its own tiles need as much.
            least = math.prod(source.tile)
        if target.layout != "tiled" or math.prod(target.tile) <= least:
            raise
        tile = "x".join(map(str, target.tile))
        raise BudgetError(
            f"{error}; or smaller tiles for the result (tile= or --tile) than {tile}",
            error.needed,
        ) from None


def _plan(source: ComputedSource, tile: tuple[int, ...] | None) -> _native.Plan | None:
    """The plan for a new Zarr array; None where its tiles are too large to compute in."""
    try:
        return source.computation.plan((tile, "{}"))
    except BudgetError:
        if tile is None:
            raise
        return None


def _compute(
    source: ComputedSource,
    plan: _native.Plan | None,
    target: _native.Store,
    progress: Progress | None,
) -> None:
    if plan is None:
        # The target's tiles may be too large to compute in; others need not be.
        with suppress(BudgetError):
            plan = source.computation.plan(target)
    if plan is not None and not goes_aside(plan.output_tile, target):
        source.run(plan, target, progress)
        return
    # It is computed in tiles of its own first.
    share = share_of_computing(plan.facts["seconds"] if plan else None, [target])
    try:
        made = source.made(part_of(progress, 0.0, share))
    except BudgetError:
        if plan is None:
            raise
        source.run(plan, target, progress)
        return
    move(made, View.whole(made.shape), target, part_of(progress, share, 1.0))


def goes_aside(tile: tuple[int, ...], target: _native.Store, stacklevel: int = 5) -> bool:
    """Whether a result in such tiles is computed in the scratch directory first, and then moved.

    Warns where it should be, and there is no room.
    """
    if not is_scattered(tile, target):
        return False
    nbytes = math.prod(target.shape) * np.dtype(target.dtype).itemsize
    if nbytes <= shutil.disk_usage(scratch_directory()).free:
        return True
    warnings.warn(
        f"{target.path}: written in many small pieces, which is slow, because the scratch "
        f"directory is too full for {format_bytes(nbytes)}",
        OutcropWarning,
        stacklevel=stacklevel,
    )
    return False


def share_of_computing(seconds: float | None, moved: Sequence[_native.Store]) -> float:
    """What part of the time computing takes, where these results are moved afterwards."""
    nbytes = sum(math.prod(store.shape) * np.dtype(store.dtype).itemsize for store in moved)
    writing = nbytes / _WRITING
    computing = writing if seconds is None else seconds
    return computing / max(computing + writing, 1e-9)


def is_scattered(tile: tuple[int, ...], target: _native.Store) -> bool:
    """Whether tiles would be written to many short pieces of a file."""
    if target.layout == "tiled":
        return False
    run = np.dtype(target.dtype).itemsize
    axes = list(range(len(tile)))
    if target.layout != "column-major":
        axes.reverse()
    for i, axis in enumerate(axes):
        run *= tile[axis]
        if tile[axis] < target.shape[axis]:
            # Tiles that follow each other are pieces that do.
            follow = all(target.shape[slower] == 1 for slower in axes[i + 1 :])
            return run < _LONG_RUN and not follow
    return False


def part_of(progress: Progress | None, begin: float, end: float) -> Progress | None:
    """What tells `progress` about a part of the whole."""
    if progress is None:
        return None
    whole = 1_000_000_000

    def tell(done: int, total: int) -> None:
        progress(int(whole * (begin + (end - begin) * done / max(total, 1))), whole)

    return tell


def _is_inside(path: PurePath, directory: str) -> bool:
    inner, outer = os.path.realpath(path), os.path.realpath(directory)
    return inner != outer and os.path.commonpath([inner, outer]) == outer
