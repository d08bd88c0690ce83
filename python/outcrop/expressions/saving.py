"""Several results of one plan."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from outcrop import _native
from outcrop._checks import ShapeLike, StrPath, check_path, check_tile
from outcrop._lazy import Progress
from outcrop._operation import operation
from outcrop._save import (
    create_store,
    goes_aside,
    is_scattered,
    move,
    part_of,
    reopened,
    share_of_computing,
    sketch,
)
from outcrop._source import Source
from outcrop.array import Array
from outcrop.config import scratch_directory, timeline_path
from outcrop.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError
from outcrop.expressions.arrays import ExpressionSource, node_of, resolved
from outcrop.expressions.nodes import Node
from outcrop.expressions.run import Planned, plan
from outcrop.formats import check_format, format_of
from outcrop.views import View

__all__ = ["check_direct", "planned", "planned_target", "save"]


def save(
    arrays: Mapping[StrPath, Array],
    /,
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> dict[StrPath, Array]:
    """Compute several arrays by one plan, and write each to its own path.

    What they have in common is computed once, and read once.

    Parameters
    ----------
    arrays : mapping
        From paths to arrays. The suffix gives the format, as for `Array.save`.
    overwrite : bool
        Whether to replace arrays that stand there.
    progress : callable, optional
        Called with what is done and what there is to do, at most ten times a second.

    Returns
    -------
    dict
        The results by the same paths, opened for reading.

    Raises
    ------
    ArrayExistsError, StorageFullError, BudgetError
        As for `Array.save`. No result is left behind, unless the failure is that of making the
        last of them visible.

    Examples
    --------
    >>> A = oc.fromfunction(lambda i, j: i + 2 * j, (200, 100), "float64").save("data.zarr")
    >>> done = oc.save({"mean.npy": A.mean(0), "centered.zarr": A - A.mean(0)})
    >>> done["mean.npy"][3].compute()
    array(105.5)
    """
    names = _checked(arrays)
    if not names:
        return {}
    nodes = [node_of(array) for array in arrays.values()]
    sources = [ExpressionSource(node) for node in nodes]
    for name, source in zip(names.values(), sources, strict=True):
        source.check_open()
        source.check_target(name)
    made: dict[int, _native.Store] = {}
    # What would be many small pieces of its file, as a Zarr array that is moved there afterwards.
    aside: dict[int, _native.Store] = {}
    scratch: list[_native.ScratchDirectory] = []
    try:
        with operation():
            nodes = resolved(nodes)
            targets: list[Any] = []
            formats = [check_format(format_of(name)) for name in names.values()]
            for i, (name, node, format) in enumerate(
                zip(names.values(), nodes, formats, strict=True)
            ):
                if format == "zarr":
                    targets.append((None, "{}"))
                else:
                    made[i] = _create(name, node, None, format, overwrite)
                    targets.append(made[i])
            found = plan(list(zip(nodes, targets, strict=True)))
            moved: list[int] = []
            for i, store in made.items():
                if goes_aside(found.tile(i), store, stacklevel=3):
                    moved.append(i)
                    targets[i] = (None, "{}")
            if moved:
                found = plan(list(zip(nodes, targets, strict=True)))
                scratch.append(_native.ScratchDirectory(str(scratch_directory())))
            for i, (name, node, format) in enumerate(
                zip(names.values(), nodes, formats, strict=True)
            ):
                if format == "zarr":
                    made[i] = _create(name, node, found.tile(i), format, overwrite)
                elif i in moved:
                    own = str(Path(scratch[0].path) / f"{i}.zarr")
                    aside[i] = _create(own, node, found.tile(i), "zarr", False)
            stores = [aside.get(i, made[i]) for i in range(len(nodes))]
            share = share_of_computing(found.facts["seconds"], [made[i] for i in moved])
            # That it is apart from all that is read and written was checked above.
            timeline = timeline_path()
            told = part_of(progress, 0.0, share) if moved else progress
            for source in sources:
                told = source.checking(told)
            found.run(
                stores,
                told,
                None if timeline is None else str(timeline),
                commits=not moved,
            )
            _native.commit(list(aside.values()))
            for k, i in enumerate(moved):
                computed = reopened(aside.pop(i), f"{i}.zarr", "zarr")
                begin, end = (share + (1 - share) * (k + j) / len(moved) for j in (0, 1))
                move(computed, View.whole(computed.shape), made[i], part_of(progress, begin, end))
            if moved:
                _native.commit(list(made.values()))
    except BaseException:
        for store in (*made.values(), *aside.values()):
            with suppress(Exception):
                store.abort()
        made.clear()
        aside.clear()
        raise
    finally:
        for directory in scratch:
            directory.remove()
    return {
        path: Array(reopened(made[i], name, format))
        for i, ((path, name), format) in enumerate(zip(names.items(), formats, strict=True))
    }


def planned(arrays: Mapping[StrPath, Array]) -> Planned:
    """What `save` would run."""
    names = _checked(arrays)
    wanted: list[tuple[Node, Any]] = []
    for name, array in zip(names.values(), arrays.values(), strict=True):
        source = ExpressionSource(node_of(array))
        source.check_open()
        source.check_planned()
        wanted.append((source.node, planned_target(name, source, None, None, "C")))
    found = plan(wanted)
    for i, (name, (_, target)) in enumerate(zip(names.values(), wanted, strict=True)):
        check_direct(name, found.tile(i), target)
    return found


def check_direct(name: str, tile: tuple[int, ...], target: Any) -> None:
    """Raise where a result in such tiles would be computed in the scratch directory, and moved."""
    if isinstance(target, _native.Store) and is_scattered(tile, target):
        raise UnsupportedError(
            f"{name}: tiles of the result would be many small pieces of such a file, so it is "
            "computed in the scratch directory first, and moved, which is not planned in this "
            "version; plan it as a Zarr array"
        )


def planned_target(
    path: str, source: Source, tile: ShapeLike | None, format: str | None, order: str
) -> Any:
    """What an array would be saved to, for plans."""
    if check_format(format or format_of(path)) == "zarr":
        # The tiles that suit the computation, where none are asked for.
        return check_tile(tile, source.shape), "{}"
    return sketch(path, source.shape, source.dtype, tile=tile, format=format, order=order)


def _checked(arrays: Mapping[StrPath, Array]) -> dict[StrPath, str]:
    """The names of paths, each of which is to hold an array."""
    if not isinstance(arrays, Mapping):
        raise InvalidTypeError(
            f"several arrays are given as a mapping from paths, not as {type(arrays).__name__}"
        )
    names = {path: check_path(path) for path in arrays}
    for path, array in arrays.items():
        if not isinstance(array, Array):
            raise InvalidTypeError(f"{names[path]!r}: an outcrop.Array is saved, not {array!r}")
    if len({os.path.realpath(name) for name in names.values()}) != len(names):
        raise InvalidArgumentError("two results have the same path")
    return names


def _create(
    name: str, node: Any, tile: tuple[int, ...] | None, format: str, overwrite: bool
) -> _native.Store:
    return create_store(
        name,
        node.shape,
        node.dtype,
        tile=tile,
        format=format,
        order="C",
        codecs=None,
        zarr_format=3,
        attributes=None,
        overwrite=overwrite,
    )
