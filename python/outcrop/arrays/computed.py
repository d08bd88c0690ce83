"""Arrays that are not computed yet: what they are made of, and how they come to disk or memory."""

import hashlib
import os
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from outcrop import _native
from outcrop.arrays.source import (
    MemorySource,
    Source,
    default_tile,
    storable,
    without_repetition,
)
from outcrop.arrays.stored import StoreSource
from outcrop.arrays.views import View
from outcrop.errors import BudgetError, InvalidArgumentError, forget_frames
from outcrop.process.config import memory_budget, piece_limit, scratch_directory, timeline_path
from outcrop.process.operation import operation
from outcrop.program.progress import watching

if TYPE_CHECKING:
    from outcrop.arrays.array import Array
    from outcrop.arrays.kept import Resumable

__all__ = [
    "ComputedPlan",
    "ComputedSource",
    "Scheduling",
    "SeveralPlan",
    "Target",
    "brought_to_disk",
    "changes_unseen",
    "fingerprint",
    "is_read_by_others",
]

Target: TypeAlias = "_native.Store | tuple[tuple[int, ...] | None, str]"
"""A store, or the tile (None: any) and the labels (JSON) of a Zarr array that will be made."""

Progress: TypeAlias = Callable[[int, int], None]


class ComputedPlan(Protocol):
    """A plan for one result."""

    @property
    def facts(self) -> dict[str, Any]:
        """Everything there is to say about it.

        That is what the core says of the program, with what was not taken instead, `others`:
        remarks, bytes and seconds; and with `reworks_results`, whether steps change tiles of
        the result that may have been stored before.
        """

    @property
    def output_tile(self) -> tuple[int, ...]:
        """The shape of the result's tiles."""

    def sketch(self, path: str) -> _native.Store:
        """The result as a Zarr array at a path, for plans: nothing is made."""

    def run(self, output: _native.Store, progress: Progress | None, timeline: str | None) -> None:
        """Compute it to a store and commit that; abort that where something fails."""


class SeveralPlan(Protocol):
    """A plan for several results; otherwise as `ComputedPlan`."""

    @property
    def facts(self) -> dict[str, Any]:
        """Everything there is to say about it."""

    @property
    def output_tile(self) -> tuple[int, ...]:
        """The shape of the results' tiles."""

    def run(
        self, outputs: Sequence[_native.Store], progress: Progress | None, timeline: str | None
    ) -> None:
        """Compute them to stores and commit those."""


Scheduling: TypeAlias = Callable[[Sequence[Target]], SeveralPlan]
"""What schedules several results for as many targets."""


class ComputedSource(Source):
    """The elements of something that is made of other arrays, and not computed yet.

    Attributes
    ----------
    name : str
        What it is, for people.
    operands : tuple of Array
        What it is made of.
    leaves_zeros : bool
        Whether tiles of the result that are all zeros may not be stored at all.
    may_replace : bool
        Whether the result may be saved in the place of what it is made of.
    """

    layout = "computed"
    name: str
    leaves_zeros = False
    may_replace = False

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.shape, self.dtype = shape, dtype
        self.tile = default_tile(self.shape, self.dtype)
        self.read_only_reason = "it is not computed yet"
        self.result: Source | None = None
        """What it was computed to, once it has been for something else than saving it."""
        self._print = b""
        """Of the memory of others that the result was computed from."""

    @property
    @abstractmethod
    def operands(self) -> "tuple[Array, ...]":
        """What it is made of."""

    @abstractmethod
    def plan(self, target: Target) -> ComputedPlan:
        """Schedule it, with the budget and what is in memory now."""

    @classmethod
    def resumable(cls, results: "Mapping[str, Array]") -> "Resumable | None":
        """How results, by the names of their files, are computed in parts that are kept.

        None where they are not.
        """
        return None

    @classmethod
    def together(cls, results: "Sequence[Array]") -> "Scheduling | None":
        """What schedules results for as many targets, where these are computed by one plan."""
        return None

    def describe(self, selection: str) -> str:
        return f"{self.name}(...){selection}, not computed yet"

    def check_open(self) -> None:
        # Many ways may lead to one.
        for source in self._given:
            source.check_open()

    def check_current(self) -> None:
        for source in self._given:
            source.check_current()

    @cached_property
    def _sources(self) -> list[Source]:
        """What it is made of, each once."""
        sources = (array._source for array in self.operands)
        return list({id(source): source for source in sources}.values())

    @cached_property
    def _given(self) -> list[Source]:
        """What is not computed, of which everything is made, each once."""
        return [source for source in _bases(self) if not isinstance(source, ComputedSource)]

    @cached_property
    def tile_alike(self) -> tuple[int, ...] | None:
        alike = [a for a in self.operands if a.shape == self.shape and a.layout == "tiled"]
        return max(alike, key=lambda a: a.dtype.itemsize).tile if alike else None

    def same_elements(self, other: Source) -> bool:
        return any(source is other for source in _bases(self)) or any(
            source.same_elements(other) for source in self._given
        )

    def settle(self, target: Source, view: View) -> Source:
        return self.materialized() if self.same_elements(target) else self

    def read(self, view: View) -> NDArray[Any]:
        if self.result is not None or not view.is_whole:
            return self.materialized().read(view)
        return self.compute(None)

    def compute(self, progress: Progress | None) -> NDArray[Any]:
        """Compute it in memory, as an array that belongs to the caller."""
        with operation():
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
        dtype, zeros = storable(self.dtype), self.leaves_zeros
        result = _native.Output(self.shape, dtype, zeros)
        store = result.store()
        self.run(self.plan(store), store, progress)
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
                with running.making() as making:
                    found = running.results.get((id(self), None), (self, None))[1]
                    found = found or self.made(None)
                    making.is_kept = True
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
            found = running.results.get((id(self), None), (self, None))[1]
            if found is None:
                prints = self._prints()
                with running.making() as making:
                    found = self.made(None)
                    making.is_kept = isinstance(found, MemorySource)
                if making.is_kept:
                    self._keep(found, prints)
                else:
                    running.results[id(self), None] = self, found
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
        return fingerprint(memory) if memory else b""

    def made(self, progress: Progress | None) -> Source:
        """The result, in memory where it is small, else in the scratch directory."""
        nbytes = int(np.prod(self.shape, dtype=object)) * self.dtype.itemsize
        if nbytes <= piece_limit():
            return MemorySource(self.compute(progress), owned=True)
        return brought_to_disk(self, View.whole(self.shape), progress)

    def run(self, plan: ComputedPlan, store: _native.Store, progress: Progress | None) -> None:
        """Compute it to the store that the plan is for, and commit that.

        Raises
        ------
        StaleOperandError
            What it is made of has changed meanwhile.
        """
        with self.naming_changes(), watching(progress, self.name, plan.facts) as told:
            plan.run(store, self.checking(told), self._timeline())

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
        self._check_apart(path, "save to another path", replacing=self.may_replace)
        self._timeline()
        timeline = timeline_path()
        if timeline is not None and _is_at(str(timeline), path):
            raise InvalidArgumentError(
                f"{path!r} is where the timeline is; record the timeline elsewhere"
            )

    def _check_apart(self, path: str, advice: str, *, replacing: bool = False) -> None:
        for array in self.operands:
            own = array._source.path
            if replacing and own is not None and os.path.realpath(own) == os.path.realpath(path):
                continue
            if own is not None and _is_at(path, str(own)):
                raise InvalidArgumentError(
                    f"{path!r} is what {self.name} reads, or inside it; {advice}"
                )
            if own is not None and _is_at(str(own), path):
                raise InvalidArgumentError(
                    f"{path!r} holds {str(own)!r}, which {self.name} reads; {advice}"
                )
            source = array._source.base
            if isinstance(source, ComputedSource):
                source._check_apart(path, advice, replacing=replacing)

    def _timeline(self) -> str | None:
        path = timeline_path()
        if path is None:
            return None
        self._check_apart(str(path), "record the timeline elsewhere")
        return str(path)


def fingerprint(arrays: Iterable[NDArray[Any]]) -> bytes:
    """What tells the elements of arrays in memory from others."""
    found = hashlib.blake2b()
    for array in arrays:
        array = without_repetition(array)
        rows = [array] if array.flags.c_contiguous or array.ndim < 2 else array
        for row in rows:
            found.update(np.ascontiguousarray(row).reshape(-1).view(np.uint8).data)
    return found.digest()


def foreign_memory(source: Source) -> list[NDArray[Any]]:
    """The NumPy arrays of others that something is computed from."""
    made_of = _bases(source)
    return [one.array for one in made_of if isinstance(one, MemorySource) and not one.owned]


def changes_unseen(source: Source) -> bool:
    """Whether others may change what something is computed from, and nobody here could tell."""
    return any(one.changes_unseen for one in _bases(source))


def is_read_by_others(source: Source) -> bool:
    """Whether another library reads something that this is computed from."""
    return any(one.is_read_by_others for one in _bases(source))


def _bases(source: Source) -> list[Source]:
    """What gives the elements that something is computed from, and what is computed from those."""
    found: dict[int, Source] = {}
    rest = [source.base]
    while rest:
        one = rest.pop()
        if id(one) in found:
            continue
        found[id(one)] = one
        if isinstance(one, ComputedSource):
            rest += [inner.base for inner in one._sources]
    return list(found.values())


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
