"""Several results of one plan: on disk, and in memory."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from outcrop import _native
from outcrop.arrays import hooks
from outcrop.arrays.array import Array
from outcrop.arrays.computed import ComputedSource, Progress, Scheduling, SeveralPlan
from outcrop.arrays.kept import clear_kept
from outcrop.arrays.route import (
    composed,
    goes_aside,
    has_to_go_aside,
    moved_from_scratch,
    share_of_computing,
    told,
    with_the_least,
)
from outcrop.arrays.saving import (
    carried,
    copied_with,
    create_store,
    move,
    part_of,
    reopened,
    sketch,
)
from outcrop.arrays.source import storable
from outcrop.arrays.views import View
from outcrop.checks import StrPath, check_path
from outcrop.errors import (
    BudgetError,
    InvalidArgumentError,
    InvalidTypeError,
    UnsupportedError,
    forget_frames,
)
from outcrop.expressions.build.arrays import ExpressionSource, node_of, resolved
from outcrop.expressions.build.resuming import save_resumably
from outcrop.expressions.graph.nodes import Node
from outcrop.expressions.planner import Planned, plan
from outcrop.formats import format_for
from outcrop.formats.hdf5 import HDF5
from outcrop.formats.hdf5_names import checked_place
from outcrop.formats.hdf5_writing import check_unchanged, let_go_of_finished
from outcrop.formats.labels import Labels, labels_of_new
from outcrop.process.config import scratch_directory, timeline_path
from outcrop.process.operation import operation
from outcrop.program.progress import watching

__all__ = ["compute", "into", "is_computed_otherwise", "planned", "planned_together", "save"]


def compute(*arrays: Array, progress: Progress | None = None) -> tuple[NDArray[Any], ...]:
    """Compute several arrays by one plan, and give the elements of each.

    What they have in common is computed once, and read once.

    Parameters
    ----------
    *arrays : Array
        The arrays.
    progress : callable, optional
        Called with what is done and what there is to do, at most ten times a second.

    Returns
    -------
    tuple of numpy.ndarray
        As many, each the caller's own.

    Raises
    ------
    BudgetError
        Results and what computing them takes do not fit in the memory budget.
    InvalidTypeError
        Something is no array.

    Examples
    --------
    >>> A = oc.fromfunction(lambda i, j: i + 2 * j, (200, 100), "float64").save("data.zarr")
    >>> low, high = oc.compute(A.min(), A.max(axis=0))
    >>> low, high[:3]
    (array(0.), array([199., 201., 203.]))
    """
    for array in arrays:
        if not isinstance(array, Array):
            raise InvalidTypeError(f"an outcrop.Array is computed, and not {type(array).__name__}")
    together = [i for i, array in enumerate(arrays) if array.size and array.layout != "memory"]
    if len(together) < 2:
        return tuple(array.compute() for array in arrays)
    sources = [ExpressionSource(node_of(arrays[i])) for i in together]
    outputs = [_native.Output(one.shape, storable(one.dtype), one.leaves_zeros) for one in sources]
    into([arrays[i] for i in together], [one.store() for one in outputs], progress)
    made = dict(zip(together, outputs, strict=True))
    return tuple(
        made[i].array().view(array.dtype) if i in made else array.compute()
        for i, array in enumerate(arrays)
    )


def into(
    arrays: Sequence[Array], stores: Sequence[_native.Store], progress: Progress | None = None
) -> None:
    """Compute several arrays by one plan, each to a store that is open for writing, and commit.

    Where that fails, the stores are the caller's to abort.
    """
    sources = [ExpressionSource(node_of(array)) for array in arrays]
    for source in sources:
        source.check_open()
    with operation():
        nodes = resolved([source.node for source in sources])
        wanted: list[tuple[Node, Any]] = list(zip(nodes, stores, strict=True))
        found, moved, _ = with_the_least(lambda: _together(wanted), _steps)
        _run(found, moved, nodes, stores, sources, progress)


def save(
    arrays: Mapping[StrPath, Array],
    /,
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
    resume: bool = False,
) -> dict[StrPath, Array]:
    """Compute several arrays by one plan, and write each to its own path.

    What they have in common is computed once, and read once.

    Parameters
    ----------
    arrays : mapping
        From paths to arrays. The suffix gives the format, as for `Array.save`. Of one HDF5 file
        there is one data set among them at most.
    overwrite : bool
        Whether to replace arrays that stand there.
    progress : callable, optional
        Called with what is done and what there is to do, at most ten times a second.
    resume : bool
        For a factorization of a matrix that is stored, `outcrop.linalg.cholesky` or what
        `outcrop.linalg.lu_factor` or `outcrop.linalg.ldl_factor` gives, and for what one call of a
        sweep gives: go on where a run that was stopped, or killed, has got to, to the same bits;
        begin, where there was none. What is done is kept beside the first result until all are
        complete, in a directory ``.NAME.outcrop-resume``, which takes as much space as factors do,
        twice that for `ldl_factor`, and twice that of arrays that sweeps update. Without `resume`,
        what is kept there is removed.

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
    if resume and any(format_for(name, None) == HDF5 for name in names.values()):
        raise UnsupportedError(
            "resume= keeps what is done in a directory beside a result, and a data set of HDF5 has "
            "none; save to a Zarr array, and that to the file"
        )
    if resume:
        return save_resumably(names, arrays, _save, overwrite=overwrite, progress=progress)
    for name in names.values():
        clear_kept(name)
    return _save(names, arrays, overwrite=overwrite, progress=progress)


@hooks.saved_resumably.fill
def _save_resumably(
    array: Array, path: StrPath, overwrite: bool, progress: Progress | None
) -> Array:
    return save({path: array}, overwrite=overwrite, progress=progress, resume=True)[path]


def _save(
    names: Mapping[StrPath, str],
    arrays: Mapping[StrPath, Array],
    *,
    overwrite: bool,
    progress: Progress | None,
) -> dict[StrPath, Array]:
    results = list(arrays.values())
    if len(results) == 1 and is_computed_otherwise(results[0]):
        ((path, array),) = arrays.items()
        return {path: array.save(path, overwrite=overwrite, progress=progress)}
    together = _together_otherwise(names, results)
    if together is not None:
        return _save_together(names, results, together, overwrite=overwrite, progress=progress)
    nodes = [node_of(array) for array in results]
    sources = [ExpressionSource(node) for node in nodes]
    for name, source in zip(names.values(), sources, strict=True):
        source.check_open()
        source.check_target(name)
    with _new_arrays(names, results, overwrite=overwrite) as new, operation():
        nodes = resolved(nodes)
        wanted = list(zip(nodes, new.targets(), strict=True))
        found, moved, _ = with_the_least(lambda: _together(wanted), _steps)
        _run(found, moved, nodes, new.stores(found.tile), sources, progress)
    return new.opened()


def is_computed_otherwise(array: Array) -> bool:
    """Whether it is all of what is computed by another front end, and has not been yet."""
    source = array._source
    is_other = isinstance(source, ComputedSource) and not isinstance(source, ExpressionSource)
    return is_other and array._view.is_whole and getattr(source, "result", None) is None


def _together_otherwise(
    names: Mapping[StrPath, str], results: Sequence[Array]
) -> Scheduling | None:
    """What schedules results of another front end for as many targets, if it does so at once."""
    if not all(is_computed_otherwise(array) for array in results):
        return None
    if any(format_for(name, None) == HDF5 for name in names.values()):
        return None
    kinds = {type(array._source) for array in results}
    (kind, *others) = (one for one in kinds if issubclass(one, ComputedSource))
    return None if others else kind.together(results)


def planned_together(arrays: Mapping[StrPath, Array]) -> SeveralPlan | None:
    """What `save` would run of results of another front end that it computes at once."""
    names = _checked(arrays)
    schedule = _together_otherwise(names, list(arrays.values())) if len(names) > 1 else None
    if schedule is None:
        return None
    targets = [_planned_target(names[path], array) for path, array in arrays.items()]
    return with_the_least(lambda: schedule(targets))


def _save_together(
    names: Mapping[StrPath, str],
    results: Sequence[Array],
    schedule: Scheduling,
    *,
    overwrite: bool,
    progress: Progress | None,
) -> dict[StrPath, Array]:
    sources = [array._source for array in results if isinstance(array._source, ComputedSource)]
    for name, source in zip(names.values(), sources, strict=True):
        source.check_open()
        source.check_target(name)
    new_arrays = _new_arrays(names, results, overwrite=overwrite)
    with new_arrays as new, operation(), ExitStack() as operands:
        targets = new.targets()
        found = with_the_least(lambda: schedule(targets))
        timeline = timeline_path()
        told = operands.enter_context(watching(progress, sources[0].name, found.facts))
        for source in sources:
            told = source.checking(told)
            operands.enter_context(source.naming_changes())
        stores = new.stores(lambda _: found.output_tile)
        found.run(stores, told, None if timeline is None else str(timeline))
    return new.opened()


def _run(
    found: Planned,
    moved: Sequence[int],
    nodes: Sequence[Node],
    stores: Sequence[_native.Store],
    sources: Sequence[ExpressionSource],
    progress: Progress | None,
) -> None:
    """Compute results to their stores, those that are `moved` by way of scratch, and commit all."""
    aside: dict[int, _native.Store] = {}
    scratch = _native.ScratchDirectory(str(scratch_directory())) if moved else None
    try:
        for i in moved:
            assert scratch is not None
            own = _New(str(Path(scratch.path) / f"{i}.zarr"), "zarr", None)
            aside[i] = own.create(nodes[i], found.tile(i), False)
        share = share_of_computing(found.facts["seconds"], [stores[i] for i in moved])
        # That it is apart from all that is read and written was checked before.
        timeline = timeline_path()
        told = part_of(progress, 0.0, share) if moved else progress
        name = ", ".join(dict.fromkeys(source.name for source in sources))
        with ExitStack() as operands:
            told = operands.enter_context(watching(told, name, found.facts))
            for source in sources:
                told = source.checking(told)
                operands.enter_context(source.naming_changes())
            found.run(
                [aside.get(i, store) for i, store in enumerate(stores)],
                told,
                None if timeline is None else str(timeline),
                commits=not moved,
            )
        _native.commit(list(aside.values()))
        for k, i in enumerate(moved):
            computed = reopened(aside.pop(i), f"{i}.zarr", "zarr")
            begin, end = (share + (1 - share) * (k + j) / len(moved) for j in (0, 1))
            move(computed, View.whole(computed.shape), stores[i], part_of(progress, begin, end))
        if moved:
            for store in stores:
                check_unchanged(store)
            _native.commit(list(stores))
    except BaseException:
        for store in aside.values():
            with suppress(Exception):
                store.abort()
        aside.clear()
        raise
    finally:
        if scratch is not None:
            scratch.remove()


def planned(arrays: Mapping[StrPath, Array]) -> tuple[Planned, dict[str, Any]]:
    """What `save` would run, and everything there is to say about it."""
    names = _checked(arrays)
    wanted: list[tuple[Node, Any]] = []
    given = list(zip(names.values(), arrays.values(), strict=True))
    for name, array in given:
        source = ExpressionSource(node_of(array))
        source.check_open()
        wanted.append((source.node, _planned_target(name, array)))
    found, _, facts = with_the_least(lambda: _together(wanted), _steps)
    news = [(_New(name, format_for(name, None), array), array) for name, array in given]
    facts["copied_bytes"] = sum(
        copied_with(new.name, array.shape, array.dtype, new.format, new.labels)
        for new, array in news
    )
    return found, facts


def _steps(planned: tuple[Planned, list[int], dict[str, Any]]) -> int:
    return int(planned[2]["steps"])


def _planned_target(path: str, array: Array) -> Any:
    """What an array would be saved to, for plans."""
    new = _New(path, format_for(path, None), array)
    if new.is_native:
        # The tiles that suit the computation.
        return None, new.labels.json(path)
    return sketch(
        path,
        array.shape,
        array.dtype,
        tile=None,
        format=new.format,
        order="C",
        zarr_format=new.version,
        labels=new.labels,
    )


def _together(wanted: Sequence[tuple[Node, Any]]) -> tuple[Planned, list[int], dict[str, Any]]:
    """The plan for several results; which of them are moved afterwards; and all facts."""
    found = plan(wanted)
    targets = {
        i: t
        for i, (_, t) in enumerate(wanted)
        if isinstance(t, _native.Store) and t.format != "memory"
    }
    moved = [
        i
        for i, target in targets.items()
        if goes_aside(found.facts, found.number(i), target, stacklevel=4)
    ]
    if moved:
        aside = [(n, (None, "{}") if i in moved else t) for i, (n, t) in enumerate(wanted)]
        place = str(scratch_directory() / "result.zarr")
        try:
            other = plan(aside)
            moves = {
                other.number(i): (
                    Path(targets[i].path).name,
                    moved_from_scratch(other.sketch(i, place), targets[i]),
                    targets[i],
                )
                for i in moved
            }
        except BudgetError as error:
            if any(has_to_go_aside(found.facts, found.number(i), targets[i]) for i in moved):
                raise
            # In many small pieces it takes less memory.
            forget_frames(error)
        else:
            straight = {other.number(i): t for i, t in targets.items() if i not in moved}
            return other, moved, composed(told(other.facts, straight), moves)
    return found, [], told(found.facts, {found.number(i): t for i, t in targets.items()})


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
    files = [checked_place(name)[0] for name in names.values() if format_for(name, None) == HDF5]
    files = [os.path.realpath(file) for file in files]
    for file in files:
        if files.count(file) > 1:
            raise UnsupportedError(
                f"{file}: several data sets of one HDF5 file are not written at once; save one "
                "after the other, each of which is added to what is there"
            )
    return names


class _New:
    """An array that will be made.

    Attributes
    ----------
    labels : Labels
        Those of what is only moved there; what is computed has none.
    is_native : bool
        Whether its tiles are stored as we do, and of a shape that suits the computation.
    """

    def __init__(self, name: str, format: str, array: Array | None) -> None:
        self.name, self.format = name, format
        self.version, self.labels = 3, Labels()
        if array is not None:
            along = carried(array._source, array._view, format)
            asked = labels_of_new(name, format, array.shape, None, Labels(), along)
            self.version, self.labels = asked
        self.is_native = format == "zarr" and self.version == 3

    def create(
        self, like: Node | Array, tile: tuple[int, ...] | None, overwrite: bool
    ) -> _native.Store:
        """Make it, not visible yet."""
        return create_store(
            self.name,
            like.shape,
            like.dtype,
            tile=tile,
            format=self.format,
            order="C",
            codecs=None,
            zarr_format=self.version,
            labels=self.labels,
            overwrite=overwrite,
        )


class _NewArrays:
    """Arrays that will be made, one for each result."""

    def __init__(
        self, names: Mapping[StrPath, str], results: Sequence[Array], *, overwrite: bool
    ) -> None:
        self._names, self._results, self._overwrite = names, results, overwrite
        self._news: list[_New] = []
        self._made: dict[int, _native.Store] = {}

    def targets(self) -> list[Any]:
        """Where results are computed to: what has tiles that suit the computation is made later."""
        found: list[Any] = []
        for name, array in zip(self._names.values(), self._results, strict=True):
            self._news.append(_New(name, format_for(name, None), array))
        for i, (new, array) in enumerate(zip(self._news, self._results, strict=True)):
            if new.is_native:
                found.append((None, new.labels.json(new.name)))
            else:
                self._made[i] = new.create(array, None, self._overwrite)
                found.append(self._made[i])
        return found

    def stores(self, tile: Callable[[int], tuple[int, ...]]) -> list[_native.Store]:
        """All of them, the others with the tiles that there are for each number."""
        for i, (new, array) in enumerate(zip(self._news, self._results, strict=True)):
            if new.is_native:
                self._made[i] = new.create(array, tile(i), self._overwrite)
        return [self._made[i] for i in range(len(self._results))]

    def abort(self) -> None:
        """Leave none behind."""
        for store in self._made.values():
            with suppress(Exception):
                store.abort()
        self._made.clear()

    def opened(self) -> dict[StrPath, Array]:
        """The results by their paths, when they are there."""
        return {
            path: Array(reopened(self._made[i], new.name, new.format))
            for i, (path, new) in enumerate(zip(self._names, self._news, strict=True))
        }


@contextmanager
def _new_arrays(
    names: Mapping[StrPath, str], results: Sequence[Array], *, overwrite: bool
) -> Iterator[_NewArrays]:
    """New arrays, which are gone where something fails inside."""
    new = _NewArrays(names, results, overwrite=overwrite)
    try:
        yield new
    except BaseException:
        new.abort()
        raise
    finally:
        let_go_of_finished()
