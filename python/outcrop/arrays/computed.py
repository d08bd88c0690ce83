"""Arrays that are not computed yet: what they are made of, and how they come to disk or memory."""

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from outcrop import _native
from outcrop.arrays.source import (
    ConjugateSource,
    MemorySource,
    Source,
    default_tile,
    filler,
    storable,
)
from outcrop.arrays.stored import StoreSource
from outcrop.arrays.views import NewAxis, View
from outcrop.errors import BudgetError, InvalidArgumentError, UnsupportedError, forget_frames
from outcrop.process.config import memory_budget, piece_limit, scratch_directory, timeline_path
from outcrop.process.operation import operation, scope

if TYPE_CHECKING:
    from outcrop.arrays.array import Array

__all__ = [
    "Computation",
    "ComputedSource",
    "Operand",
    "Target",
    "as_they_are",
    "brought_to_disk",
]

Target: TypeAlias = "_native.Store | tuple[tuple[int, ...] | None, str]"
"""A store, or the tile (None: any) and the labels (JSON) of a Zarr array that will be made."""

Progress: TypeAlias = Callable[[int, int], None]


class Operand:
    """A part of an array as a matrix, as the compiled core takes it.

    Parameters
    ----------
    array : Array
        What it is of. One that is not computed yet is computed now.
    dtype : numpy.dtype
        What its elements count as.
    rows, cols : int or None
        The axes of `array` along which the matrix has its rows and its columns; None for one.
    conjugates : bool
        Whether the computation can conjugate the matrix itself. `conjugated` says that it has to.
    """

    def __init__(
        self,
        array: "Array",
        dtype: np.dtype[Any],
        rows: int | None,
        cols: int | None,
        *,
        conjugates: bool = False,
    ) -> None:
        source, view = array._source, array._view
        source.check_open()
        conjugated = isinstance(source, ConjugateSource)
        self.conjugated = conjugated and conjugates
        conj = conjugated and not conjugates
        source = source.base
        if isinstance(source, ComputedSource):
            source = source.as_operand()
        forward = all(isinstance(s, int) or s.step == 1 for s in view.selectors)
        if isinstance(source, StoreSource) and forward:
            start, shape = view.box
            self._store = source.store
            self.native = _native.Operand(
                self._store,
                start,
                shape,
                _source_axis(view, rows),
                _source_axis(view, cols),
                dtype.name,
                conj,
            )
            return
        if isinstance(source, StoreSource):
            # Every other row, or backwards: brought in order first.
            source = brought_to_disk(source, view)
            view = View.whole(source.shape)
            self._store = source.store
        else:
            tile = default_tile(view.shape, dtype)
            fill = filler(source, view)
            reads = not isinstance(source, MemorySource)
            self._store = _native.function_store(view.shape, dtype.name, tile, fill, reads)
        self._source = source
        start = (0,) * len(view.shape)
        self.native = _native.Operand(self._store, start, view.shape, rows, cols, dtype.name, conj)


class Computation(ABC):
    """Something that makes an array of known shape and dtype from others."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    operands: "tuple[Array, ...]"
    leaves_zeros = True
    """Whether tiles of the result that are all zeros may not be stored at all."""

    _planned: tuple[Operand, ...] = ()
    """Operands that a plan was made of, until there is a run."""

    @abstractmethod
    def matrices(self) -> tuple[Operand, ...]:
        """The operands as the compiled core takes them."""

    @abstractmethod
    def plan_with(self, matrices: Sequence[Operand], target: Target) -> _native.Plan:
        """Schedule it."""

    def sources(self) -> list[Source]:
        """What its operands are views of."""
        return [array._source for array in self.operands]

    def prepared(self) -> tuple[Operand, ...]:
        """Operands, computed and copied as far as they have to be: once in an operation."""
        with scope() as running:
            found = running.prepared.get(id(self))
            if found is None:
                # What a plan was made for is there already, and goes when this ends.
                operands, self._planned = self._planned or self.matrices(), ()
                found = running.prepared[id(self)] = self, operands
            prepared: tuple[Operand, ...] = found[1]
            return prepared

    def plan(self, target: Target) -> _native.Plan:
        """Schedule it, with the budget and what is in memory now."""
        with scope():
            return self.plan_with(self.prepared(), target)

    @contextmanager
    def ahead(self) -> Iterator[None]:
        """Around plans without a run: what had to be copied for them is kept for that."""
        with scope():
            yield
            self._planned = self.prepared()


class ComputedSource(Source):
    """The result of a computation that has not run."""

    layout = "computed"

    def __init__(self, computation: Computation) -> None:
        self.computation = computation
        self.shape = computation.shape
        self.dtype = computation.dtype
        self.tile = default_tile(self.shape, self.dtype)
        self.read_only_reason = "it is not computed yet"
        self.result: Source | None = None
        """What it was computed to, once it has been for something else than saving it."""
        self._print = b""
        """Of the memory of others that the result was computed from."""

    def describe(self, selection: str) -> str:
        of = ", ".join(_name(array) for array in self.computation.operands)
        return f"{self.computation.name}({of}){selection}, not computed yet"

    def check_open(self) -> None:
        for source in self._sources:
            source.check_open()

    def check_current(self) -> None:
        for source in self._sources:
            source.check_current()

    @cached_property
    def _sources(self) -> list[Source]:
        """What it is made of, each once."""
        return list({id(source): source for source in self.computation.sources()}.values())

    def same_elements(self, other: Source) -> bool:
        return self is other or any(
            array._source.same_elements(other) for array in self.computation.operands
        )

    def settle(self, target: Source, view: View) -> Source:
        return self.materialized() if self.same_elements(target) else self

    def check_planned(self) -> None:
        """Raise where planning would have to compute something first."""
        for array in self.computation.operands:
            source = array._source.base
            if isinstance(source, ComputedSource) and source.result is None:
                raise UnsupportedError(
                    f"{self.computation.name} takes {_name(array)}, which is not computed yet, and "
                    "what is computed in several operations is not planned as a whole in this "
                    "version; plan that first, and save or compute it"
                )

    def read(self, view: View) -> NDArray[Any]:
        if self.result is not None or not view.is_whole:
            return self.materialized().read(view)
        return self.compute(None)

    def compute(self, progress: Progress | None) -> NDArray[Any]:
        """Compute it in memory, as an array that belongs to the caller."""
        with operation():
            # Before memory is taken for the result.
            self.computation.prepared()
            # Imported late, as that imports this.
            from outcrop.arrays.route import check_in_memory

            try:
                return self._computed(progress)
            except BudgetError as error:
                # What was tried is not all that may be. The frames have the memory that it took.
                forget_frames(error)
                check_in_memory(self)
                raise

    def _computed(self, progress: Progress | None) -> NDArray[Any]:
        dtype, zeros = storable(self.dtype), self.computation.leaves_zeros
        result = _native.Output(self.shape, dtype, zeros)
        store = result.store()
        self.run(self.computation.plan(store), store, progress)
        return result.array().view(self.dtype)

    def materialized(self) -> Source:
        """The result: computed at the first call, and kept as long as this lives."""
        found = self._kept()
        if found is not None:
            return found
        with operation() as running:
            # Another thread may have been first, or an operand been needed already.
            found = self._kept()
            if found is None:
                prints = self._prints()
                found = running.results.get(id(self), (self, None))[1] or self.made(None)
                self._keep(found, prints)
            return found

    def as_operand(self) -> Source:
        """The same for an operation that needs it: what memory does not hold goes when that ends.

        Raises
        ------
        StaleOperandError
            What it is made of has changed.
        """
        found = self._kept()
        if found is not None:
            return found
        with operation() as running:
            found = running.results.get(id(self), (self, None))[1]
            if found is None:
                prints, found = self._prints(), self.made(None)
                if isinstance(found, MemorySource):
                    self._keep(found, prints)
                else:
                    running.results[id(self)] = self, found
            return found

    def _kept(self) -> Source | None:
        """The result that is there, if it is that of what it is made of."""
        self.check_current()
        if self.result is not None and self._print != self._prints():
            self.result = None
        return self.result

    def _keep(self, result: Source, prints: bytes) -> None:
        self._print, self.result = prints, result

    def _prints(self) -> bytes:
        """Of the memory that others may change: what tells it from other elements."""
        memory = foreign_memory(self)
        if not memory:
            return b""
        found = hashlib.blake2b()
        for array in memory:
            # Along axes without a step, there is one element again and again.
            array = array[tuple(slice(None) if step else 0 for step in array.strides)]
            rows = [array] if array.flags.c_contiguous or array.ndim < 2 else array
            for row in rows:
                found.update(np.ascontiguousarray(row).reshape(-1).view(np.uint8).data)
        return found.digest()

    def made(self, progress: Progress | None) -> Source:
        """The result, in memory where it is small, else in the scratch directory."""
        nbytes = int(np.prod(self.shape, dtype=object)) * self.dtype.itemsize
        if nbytes <= piece_limit():
            return MemorySource(self.compute(progress), owned=True)
        return brought_to_disk(self, View.whole(self.shape), progress)

    def run(self, plan: _native.Plan, store: _native.Store, progress: Progress | None) -> None:
        """Compute it to the store that the plan is for, and commit that.

        Raises
        ------
        StaleOperandError
            What it is made of has changed meanwhile.
        """
        with self.naming_changes():
            plan.run(store, self.checking(progress), self._timeline())

    def checking(self, progress: Progress | None) -> Progress:
        """Look, when all has been read, and before results are committed, at what it is made of."""

        def tell(done: int, total: int) -> None:
            if done == total:
                self.check_current()
            if progress is not None:
                progress(done, total)

        return tell

    def check_target(self, path: str) -> None:
        """Raise where the result would take the place of what it is made from."""
        self._check_apart(path, "save to another path")
        self._timeline()
        timeline = timeline_path()
        if timeline is not None and _is_at(str(timeline), path):
            raise InvalidArgumentError(
                f"{path!r} is where the timeline is; record the timeline elsewhere"
            )

    def _check_apart(self, path: str, advice: str) -> None:
        for array in self.computation.operands:
            own = array._source.path
            if own is not None and _is_at(path, str(own)):
                raise InvalidArgumentError(
                    f"{path!r} is what {self.computation.name} reads, or inside it; {advice}"
                )
            if own is not None and _is_at(str(own), path):
                raise InvalidArgumentError(
                    f"{path!r} holds {str(own)!r}, which {self.computation.name} reads; {advice}"
                )
            source = array._source.base
            if isinstance(source, ComputedSource):
                source._check_apart(path, advice)

    def _timeline(self) -> str | None:
        path = timeline_path()
        if path is None:
            return None
        self._check_apart(str(path), "record the timeline elsewhere")
        return str(path)


def foreign_memory(source: Source) -> list[NDArray[Any]]:
    """The NumPy arrays of others that something is computed from."""
    found: dict[int, NDArray[Any]] = {}
    rest, seen = [source.base], set()
    while rest:
        one = rest.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, MemorySource) and not one.owned:
            found[id(one)] = one.array
        elif isinstance(one, ComputedSource):
            rest += [inner.base for inner in one._sources]
    return list(found.values())


def as_they_are(*arrays: "Array") -> "tuple[Array, ...]":
    """Arrays as operands: what an expression means of them are their elements now."""
    return tuple(type(array)(array._source.now(), array._view) for array in arrays)


def _source_axis(view: View, axis: int | None) -> int | None:
    """The axis of the source that an axis of the view is; None for one made by indexing."""
    found = None if axis is None else view.axes[axis]
    return None if isinstance(found, NewAxis) else found


def _name(array: "Array") -> str:
    source = array._source
    if source.path is not None:
        name = source.path.name
    elif isinstance(source, ComputedSource):
        name = source.computation.name
    else:
        name = source.describe("")
    return f"{array.dtype} {array.shape} {name}"


def _is_at(inner: str, outer: str) -> bool:
    """Whether one path is the other, or inside it."""
    paths = [os.path.realpath(inner), os.path.realpath(outer)]
    return os.path.commonpath(paths) == paths[1]


def _small_tile(shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[int, ...]:
    """A tile of which the budget holds some dozens."""
    tile = list(default_tile(shape, dtype))
    while int(np.prod(tile)) * dtype.itemsize > max(memory_budget() // 48, 4096):
        longest = tile.index(max(tile))
        tile[longest] = -(-tile[longest] // 2)
    return tuple(tile)


def brought_to_disk(
    source: Source, view: View, progress: Progress | None = None, *, plan: Any | None = None
) -> StoreSource:
    """A copy in the scratch directory, which goes when it is not referred to any more.

    `plan` is that of what is computed, for a new Zarr array, if known.
    """
    # Imported late: saving computes what is not computed yet.
    from outcrop.arrays.saving import save

    directory = _native.ScratchDirectory(str(scratch_directory()))
    try:
        saved = save(
            source,
            view,
            Path(directory.path) / "operand.zarr",
            # What is computed has tiles of its own choice.
            tile=None
            if isinstance(source, ComputedSource)
            else _small_tile(view.shape, source.dtype),
            format="zarr",
            order="C",
            overwrite=False,
            codecs=None,
            zarr_format=3,
            progress=progress,
            plan=plan,
        )
    except BaseException:
        directory.remove()
        raise
    saved.scratch = directory
    return saved
