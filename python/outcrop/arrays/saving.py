"""Writing an array of any kind to disk."""

import errno
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import PurePath
from typing import Any

import numpy as np

from outcrop import _native
from outcrop.arrays import hooks
from outcrop.arrays.beside import check_replaced
from outcrop.arrays.computed import ComputedPlan, ComputedSource, Progress
from outcrop.arrays.data_sets import DataSetSource
from outcrop.arrays.route import (
    Route,
    route,
    share_of_computing,
    told,
    too_little,
    with_the_least,
)
from outcrop.arrays.source import ConjugateSource, Source, filler, fitting_tile
from outcrop.arrays.stamps import stamp_at
from outcrop.arrays.stored import StoreSource
from outcrop.arrays.views import View
from outcrop.checks import (
    ShapeLike,
    StrPath,
    check_dtype,
    check_order,
    check_path,
    check_tile,
)
from outcrop.errors import (
    ArrayNotFoundError,
    BudgetError,
    InvalidArgumentError,
    StorageError,
    UnsupportedError,
)
from outcrop.formats import family_of, format_for, turned_orientation
from outcrop.formats.codecs import Codecs, expand_codecs, roomy
from outcrop.formats.containers import CONTAINERS, Located
from outcrop.formats.data_sets import DESCRIBED
from outcrop.formats.hdf5 import HDF5
from outcrop.formats.hdf5_labels import carried_attributes
from outcrop.formats.hdf5_names import checked_place
from outcrop.formats.hdf5_writing import (
    bytes_beside,
    check_unchanged,
    create_data_set,
    let_go_of_finished,
    planned_offset,
    stored_shape,
)
from outcrop.formats.labels import Labels, as_json, checked_labels, labels_of_new
from outcrop.formats.missing import MISSING_ATTRIBUTE, Missing
from outcrop.process.config import ensure_configured, memory_budget
from outcrop.process.operation import note_copied, operation
from outcrop.program.progress import watching

__all__ = [
    "carried",
    "chunks_in",
    "copied_with",
    "create_raw",
    "create_store",
    "move",
    "naming_tiles",
    "part_of",
    "planned_save",
    "reopened",
    "save",
    "sketch",
]

_NPY_METADATA = 4096
"""Bytes in front of the elements of a .npy file: they begin at a block's edge."""

_LABELS = ("attributes", "dimension_names", "fill_value")
"""The options of labels."""

_PARTS = (8, 16, 32, 64)
"""About so many tiles that nobody asks for memory holds: more, where it is too little for fewer."""

_STAGED = ".outcrop-new"
"""In the name under which a new array is built."""


def create_raw(path: StrPath, shape: tuple[int, ...], dtype: np.dtype[Any]) -> _native.Store:
    """Make a file of elements and nothing else, of a type that the core has, not visible yet."""
    return create_store(
        path,
        shape,
        dtype,
        tile=None,
        format="raw",
        order="C",
        codecs=None,
        zarr_format=None,
        labels=Labels(),
        overwrite=False,
    )


def create_store(
    path: StrPath,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    *,
    tile: ShapeLike | None,
    format: str | None,
    order: str,
    codecs: Codecs | None,
    zarr_format: int | None,
    labels: Labels,
    overwrite: bool,
) -> _native.Store:
    """Check what belongs to which format, and make a store that is not visible yet.

    `labels` are those of the new array, as `labels_of_new` has them.
    """
    name = check_path(path)
    check_dtype(dtype)
    format = format_for(name, format)
    family = family_of(format)
    order = check_order(order)
    given: dict[str, object] = {
        "tile": tile,
        "codecs": codecs,
        "zarr_format": zarr_format not in (None, 3),
    }
    _check_order_and_options(name, format, order, given)
    ensure_configured()
    if format == HDF5:
        with _naming_target(checked_place(name)[0]):
            chunk = chunks_in(format, shape, tile)
            store, copied = create_data_set(name, shape, dtype, labels, bool(overwrite), chunk)
        note_copied(copied)
        return store
    if family:
        with _naming_target(name):
            return family.create(
                name, format, shape, dtype, labels.attributes or {}, bool(overwrite)
            )
    version = zarr_format or 3
    listed = expand_codecs(codecs, dtype, version)
    tiled = _tiles(tile, shape, dtype, format, listed)[0]
    with _naming_target(name):
        return _native.create(
            name,
            format,
            shape,
            dtype.name,
            tiled,
            order,
            None if listed is None else as_json(listed, "codecs"),
            version,
            labels.json(),
            bool(overwrite),
        )


def _check_order_and_options(
    name: str, format: str, order: str, given: Mapping[str, object]
) -> None:
    """Refuse an order that the format does not have, and options that are for Zarr arrays."""
    family = family_of(format)
    if check_order(order) != "C" and format not in ("npy", "raw"):
        what = f"{format} files" if family else "tiles of a Zarr array"
        what = "data sets of HDF5" if format == HDF5 else what
        raise InvalidArgumentError(f"order='F' is for npy and raw files; {what} are in order 'C'")
    if format == HDF5 and given["codecs"] is not None:
        raise UnsupportedError(
            f"{name}: data sets of HDF5 are written without filters (deflate, shuffle and the "
            "like), which codecs= would be; 'h5repack -f ...' encodes them"
        )
    if format != "zarr":
        for option, value in given.items():
            if value and not (option == "tile" and format == HDF5):
                raise InvalidArgumentError(f"{option}= is for Zarr arrays, {name!r} is {format}")


def chunks_in(
    format: str | None, shape: tuple[int, ...], tile: ShapeLike | None
) -> tuple[int, ...] | None:
    """The chunks of a data set of HDF5 that is to have some; None for anything else."""
    if format != HDF5 or tile is None:
        return None
    wanted = check_tile(tile, shape)
    # Of nothing there are no chunks.
    if wanted is None or not shape or 0 in shape:
        return None
    return tuple(min(t, n) for t, n in zip(wanted, shape, strict=True))


def _expressed(source: Source, view: View, chunk: tuple[int, ...] | None) -> tuple[Source, View]:
    """Elements as an expression, where they are moved by one.

    That is what makes chunks, in which elements are one block again; what is made of elements; and
    what leaves elements of a stored array out: of a tile that is loaded, all that is taken is.
    """
    # Imported late: arrays are made of sources.
    from outcrop.arrays.array import Array

    if chunk is not None:
        found = hooks.in_chunks(Array(source, view), chunk)
    elif 0 not in view.shape and (
        isinstance(source, ConjugateSource)
        or (isinstance(source, StoreSource) and view.turn is None)
    ):
        found = hooks.expressed(Array(source, view))
    else:
        return source, view
    return found._source, found._view


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


def carried(source: Source, view: View, format: str) -> Labels:
    """Those labels of a source that go with a view of it that is saved.

    Names go with their axes; an axis that is new has none. Zero is the fill value of every array
    of Zarr 3, and says nothing.
    """
    attributes = source.attributes
    # How to show pixels that lie otherwise now.
    axes = [
        (axis if isinstance(axis, int) else None, view.span(i).step)
        for i, axis in enumerate(view.axes)
    ]
    orientation = turned_orientation(attributes, len(view.source_shape), axes)
    if orientation is not None:
        attributes["orientation"] = orientation
    elif not view.is_box:
        attributes.pop("orientation", None)
    family = family_of(format)
    if family is None:
        if format not in ("zarr", HDF5):
            return Labels()
        names: tuple[str | None, ...] | None = None
        if (own := source.dimension_names) is not None:
            names = tuple(own[axis] if isinstance(axis, int) else None for axis in view.axes)
        fill = source.fill_value
        missing = Missing.of(source.zarr_format, own is not None, fill, attributes, source.dtype)
        if format == HDF5:
            # What is missing is said by the attribute there, too.
            if missing.number is not None and MISSING_ATTRIBUTE not in attributes:
                attributes[MISSING_ATTRIBUTE] = missing.attribute()
            attributes = carried_attributes(attributes, source.dtype)
        labels = Labels(attributes, names, fill, missing)
        plain = labels.fills_with_zeros and source.zarr_format == 3
        return replace(labels, fill_value=None) if plain else labels
    order = view.turn and view.turn[0]
    return Labels(family.carried(format, view.shape, source.dtype, attributes, axes=order))


def sketch(
    path: str,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    *,
    tile: ShapeLike | None,
    format: str | None,
    order: str,
    labels: Labels,
    codecs: Codecs | None = None,
    zarr_format: int | None = None,
) -> _native.Store:
    """What `create_store` would make, for plans."""
    format = format_for(path, format)
    given = {"tile": tile, "codecs": codecs, "zarr_format": zarr_format not in (None, 3)}
    _check_order_and_options(path, format, order, given)
    ensure_configured()
    if format == HDF5:
        file = checked_place(path)[0]
        chunk = chunks_in(format, shape, tile)
        with _naming_target(file):
            offset = planned_offset(path, shape, dtype, labels, chunk)
        block = stored_shape(shape, chunk)
        return _native.sketch(file, DESCRIBED, block, dtype.name, None, "C", offset, "{}")
    offset = _NPY_METADATA if format == "npy" else 0
    if family := family_of(format):
        offset = family.offset(path, format, shape, dtype, labels.attributes or {})
    version, own = zarr_format or 3, labels.json(path)
    listed = expand_codecs(codecs, dtype, version)
    tiled = _tiles(tile, shape, dtype, format, listed)[0]
    if listed is not None:
        text = as_json(listed, "codecs")
        with _naming_target(path):
            return _native.sketch_encoded(path, shape, dtype.name, tiled, text, version, own)
    return _native.sketch(path, format, shape, dtype.name, tiled, check_order(order), offset, own)


def _tiles(
    tile: ShapeLike | None,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    format: str,
    codecs: Sequence[Mapping[str, Any]] | None,
) -> list[tuple[int, ...] | None]:
    """The tile that is wanted; or those that fit memory, the best one first. None for no tiles."""
    checked = check_tile(tile, shape)
    if checked is not None or format != "zarr":
        return [checked]
    fitting = (roomy(fitting_tile(shape, dtype, part), codecs) for part in _PARTS)
    return list(dict.fromkeys(fitting))


def save(
    source: Source,
    view: View,
    path: StrPath,
    *,
    overwrite: bool,
    progress: Progress | None,
    plan: Any | None = None,
    **options: Any,
) -> StoreSource:
    """Write a view to a new array on disk and open that.

    `plan` is that of a whole that is not computed yet, for a new Zarr array, if known. `options`
    are `tile`, `format`, `order`, `codecs` and `zarr_format`; and `attributes`, `dimension_names`
    and `fill_value`, where these are asked for.
    """
    try:
        return _save(
            source, view, path, overwrite=overwrite, progress=progress, plan=plan, **options
        )
    except BudgetError:
        # What was tried is not all that may be.
        _check_budget(source, view, check_path(path), options)
        raise


def _check_budget(source: Source, view: View, path: str, options: dict[str, Any]) -> None:
    """Raise the error that names the least budget, where planning alone finds it too small."""
    source, view = source.narrowed(view)
    # What labels take is not worth telling.
    options = {k: v for k, v in options.items() if k not in _LABELS}
    if isinstance(source, ComputedSource) and source.result is None and view.is_whole:
        planned_save(source, path, **options)
    elif isinstance(source, StoreSource) and view.turn is not None:
        planned_move(source, view, source.store, view, path, options)
    elif isinstance(source, StoreSource):
        planned_save(source, path, view=view, **options)


def planned_move(
    source: StoreSource,
    view: View,
    near: _native.Store,
    seen: View,
    path: str,
    options: dict[str, Any],
) -> tuple[dict[str, Any], _native.Store]:
    """What moving a view to a path will take, and what will be made there.

    It is moved from `near`, of which it is the view `seen`.

    Raises
    ------
    BudgetError
        The memory budget is too small; names the least that works.
    """
    options = _with_labels(source, view, path, options)

    def plan() -> tuple[dict[str, Any], _native.Store]:
        return _movable(source, near, seen, path, **options)

    facts, made = with_the_least(plan)
    labels = options["labels"]
    facts["copied_bytes"] = copied_with(path, view.shape, source.dtype, options["format"], labels)
    return facts, made


def _with_labels(source: Source, view: View, path: str, options: dict[str, Any]) -> dict[str, Any]:
    """The options with which a view would be saved, for plans: with labels as they are written."""
    wishes = {name: options[name] for name in _LABELS if name in options}
    options = {name: value for name, value in options.items() if name not in _LABELS}
    version, labels = _planned_labels(
        source, view, path, options["format"], options["zarr_format"], **wishes
    )
    return {**options, "zarr_format": version, "labels": labels}


def planned_fill(
    source: Source, view: View, path: str, options: dict[str, Any]
) -> tuple[dict[str, Any], _native.Store]:
    """What writing elements will take that are in memory or made, and what will be there.

    Raises
    ------
    BudgetError
        The memory budget is too small; names the least that works.
    """
    options = _with_labels(source, view, path, options)
    target = sketch(path, view.shape, source.dtype, **options)
    facts = _native.plan_fill(target)
    needed, budget = facts["least_bytes"], memory_budget()
    if needed > budget:
        raise BudgetError(too_little(f"writing {os.path.basename(path)}", needed, budget), needed)
    facts["exact"] = target.format != "zarr-foreign"
    labels = options["labels"]
    facts["copied_bytes"] = copied_with(path, view.shape, source.dtype, options["format"], labels)
    return facts, target


def _movable(
    source: Source,
    near: _native.Store,
    seen: View,
    path: str,
    *,
    tile: ShapeLike | None,
    format: str | None,
    codecs: Codecs | None,
    zarr_format: int | None,
    **options: Any,
) -> tuple[dict[str, Any], _native.Store]:
    """What moving a view takes, and to what: of tiles that nobody asks for, to those that fit."""
    shape, dtype = seen.shape, source.dtype
    format = format_for(path, format)
    options.update(format=format, codecs=codecs, zarr_format=zarr_format)
    refused: BudgetError | None = None
    for own in _tiles(tile, shape, dtype, format, expand_codecs(codecs, dtype, zarr_format or 3)):
        store = sketch(path, shape, dtype, tile=own, **options)
        try:
            with naming_tiles(source, store):
                return _native.plan_copy(near, *seen.box, seen.turn, store), store
        except BudgetError as error:
            refused = error
    assert refused is not None
    try:
        raise refused
    finally:
        del refused


def copied_with(
    path: str,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    format: str | None,
    labels: Labels,
    tile: ShapeLike | None = None,
) -> int:
    """Bytes that are copied when an array is made, of what its file has besides."""
    format = format_for(path, format)
    if format != HDF5:
        return 0
    return bytes_beside(path, shape, dtype, labels, chunks_in(format, shape, tile))


def _planned_labels(
    source: Source,
    view: View,
    path: str,
    format: str | None,
    zarr_format: int | None,
    *,
    attributes: Mapping[str, Any] | None = None,
    dimension_names: Sequence[str | None] | None = None,
    fill_value: Any = None,
) -> tuple[int | None, Labels]:
    """The version of Zarr and the labels of what a view would be saved to, for plans."""
    format = format_for(path, format)
    wishes = checked_labels(
        path,
        format,
        view.shape,
        source.dtype,
        attributes=attributes,
        dimension_names=dimension_names,
        fill_value=fill_value,
    )
    along = carried(source, view, format)
    version, labels = labels_of_new(path, format, view.shape, zarr_format, wishes, along)
    return version if format == "zarr" else zarr_format, labels


def _save(
    source: Source,
    view: View,
    path: StrPath,
    *,
    tile: ShapeLike | None,
    format: str | None,
    order: str,
    overwrite: bool,
    codecs: Codecs | None,
    zarr_format: int | None,
    progress: Progress | None,
    plan: Any | None,
    attributes: Mapping[str, Any] | None = None,
    dimension_names: Sequence[str | None] | None = None,
    fill_value: Any = None,
) -> StoreSource:
    source.check_open()
    name = check_path(path)
    format = format_for(name, format)
    source, view = source.narrowed(view)
    wishes = checked_labels(
        name,
        format,
        view.shape,
        source.dtype,
        attributes=attributes,
        dimension_names=dimension_names,
        fill_value=fill_value,
    )
    given = source
    along = carried(source, view, format)
    version, labels = labels_of_new(name, format, view.shape, zarr_format, wishes, along)
    if source.path is not None and _is_inside(source.path, name):
        raise InvalidArgumentError(f"{name!r} holds what is to be saved there")
    base = source.base
    if isinstance(base, ComputedSource):
        base.check_target(name)
    elif isinstance(base, StoreSource) and base.path is not None and overwrite:
        check_replaced(base, name)
    # With what makes the array visible, one operation; but functions may compute what they like.
    together = isinstance(base, ComputedSource) or not base.calls_back
    shape = view.shape
    chunk = chunks_in(format, shape, tile)
    with operation() if together else nullcontext():
        source, view = _expressed(source, view, chunk)
        computed: ComputedSource | None = None
        if isinstance(source, ComputedSource) and source.result is None and view.is_whole:
            computed = source
        planned: Any | None = plan
        if computed is not None and format == "zarr" and order == "C":
            planned = plan or _plan(computed, check_tile(tile, view.shape), labels.json(name))
            # The tiles in which it is computed are those that are stored.
            if tile is None and planned is not None:
                tile = roomy(planned.output_tile, expand_codecs(codecs, source.dtype, version or 3))
        elif tile is None and format == "zarr" and isinstance(source, StoreSource) and view.turn:
            _, made = _movable(
                *(source, source.store, view, name),
                tile=None,
                format=format,
                order=order,
                codecs=codecs,
                zarr_format=version,
                labels=labels,
            )
            tile = made.tile
        target = create_store(
            path,
            shape,
            source.dtype,
            tile=tile,
            format=format,
            order=order,
            codecs=codecs,
            zarr_format=version if format == "zarr" else zarr_format,
            labels=labels,
            overwrite=overwrite,
        )
        try:
            if computed is None:
                if isinstance(base, ComputedSource):
                    result = base.as_operand()
                    source = result if source is base else source
                move(source, view, target, progress)
            else:
                is_planned = target.format == "zarr" and target.thickness is None
                own = planned if is_planned else None
                _compute(computed, own, target, progress, labels)
            if not target.committed:
                given.check_current()
                check_unchanged(target)
                target.commit()
        except BaseException:
            with suppress(Exception):
                target.abort()
            # The traceback keeps this frame; it must not keep the files.
            del target
            raise
        finally:
            let_go_of_finished()
    return reopened(target, name, format, order)


def reopened(target: _native.Store, path: str, format: str, order: str = "C") -> StoreSource:
    """What has been written and committed, for reading."""
    if target.format == "zarr":
        store = _native.reopen(target)
    elif format == HDF5:
        # Its lock is not to be in the way of who opens the file now.
        target.abort()
        where = Located(CONTAINERS[HDF5], *checked_place(path))
        return DataSetSource(where, stamp_at(where.file))
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
    name = os.path.basename(target.path)
    with (
        naming_tiles(source, target),
        source.in_one_state(view),
        watching(progress, name) as told,
    ):
        if isinstance(source, StoreSource) and view.turn is not None:
            _native.copy_box(source.store, *view.box, view.turn, target, told)
        else:
            _native.fill(target, filler(source, view), told)


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


def _plan(source: ComputedSource, tile: tuple[int, ...] | None, labels: str) -> ComputedPlan | None:
    """The plan for a new Zarr array; None where its tiles are too large to compute in."""
    try:
        return source.plan((tile, labels))
    except BudgetError:
        if tile is None:
            raise
        return None


def _compute(
    source: ComputedSource,
    plan: Any | None,
    target: _native.Store,
    progress: Progress | None,
    labels: Labels,
) -> None:
    # What is zero and not stored would be read as something else.
    is_whole = source.leaves_zeros and not labels.fills_with_zeros
    way = route(source, plan, target, is_whole=is_whole)
    if not way.goes_aside:
        source.run(way.plan, target, progress)
        return
    share = share_of_computing(way.plan.facts["seconds"], [target])
    made = way.made(source, part_of(progress, 0.0, share))
    move(made, View.whole(made.shape), target, part_of(progress, share, 1.0))


def planned_save(
    source: Source,
    path: str,
    *,
    view: View | None = None,
    tile: ShapeLike | None = None,
    format: str | None = None,
    order: str = "C",
    codecs: Codecs | None = None,
    zarr_format: int | None = None,
    **wishes: Any,
) -> Route:
    """How `save` would compute an array that is not computed yet, or is to be put in chunks.

    Raises
    ------
    BudgetError
        The memory budget is too small.
    InvalidArgumentError
        There is no such target.
    """
    # `wishes` are labels.
    format = format_for(path, format)
    wanted = check_tile(tile, source.shape if view is None else view.shape)
    order = check_order(order)
    seen = View.whole(source.shape) if view is None else view
    version, labels = _planned_labels(source, seen, path, format, zarr_format, **wishes)
    shape = seen.shape
    source, _ = _expressed(source, seen, chunks_in(format, shape, tile))
    assert isinstance(source, ComputedSource)
    computed = source

    def plan() -> Route:
        own = wanted
        if format == "zarr" and order == "C":
            planned = _plan(computed, wanted, labels.json(path))
            if codecs is None and version == 3 and planned is not None:
                return Route(planned, told(planned.facts, {}))
            if wanted is None and planned is not None:
                own = roomy(
                    planned.output_tile, expand_codecs(codecs, computed.dtype, version or 3)
                )
        target = sketch(
            path,
            shape,
            computed.dtype,
            tile=own,
            format=format,
            order=order,
            codecs=codecs,
            zarr_format=version,
            labels=labels,
        )
        return route(computed, None, target)

    way = with_the_least(plan, lambda way: int(way.facts["steps"]))
    way.facts["copied_bytes"] = copied_with(path, shape, source.dtype, format, labels, tile)
    return way


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
