"""Lines of which memory holds only a part, in order: by external sorting, in two passes.

The first pass sorts runs of the lines, as long as memory has room for, and writes them to scratch,
each with samples of itself behind it. From these follow pieces of the runs which have all elements
of consecutive ranks, however many are equal, and a few more. The second pass is that of whoever
takes the elements: what is in order is an array like one on disk, each of whose tiles is merged of
such pieces as it is loaded.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outcrop import _native
from outcrop.array_api.families import aligned, whole_tiles
from outcrop.array_api.manipulation_functions import astype, reshape
from outcrop.array_api.sorted_lines import order_of, put_in_order
from outcrop.arrays.array import Array
from outcrop.arrays.creation import asarray
from outcrop.arrays.route import Asked, asking
from outcrop.arrays.saving import create_raw, sketch
from outcrop.arrays.source import default_tile, storable
from outcrop.arrays.stored import StoreSource
from outcrop.errors import BudgetError, forget_frames
from outcrop.expressions.build.arrays import node_of
from outcrop.expressions.build.lines import of_lines
from outcrop.expressions.build.saving import into
from outcrop.expressions.planner import plan
from outcrop.formats.labels import Labels
from outcrop.process.config import memory_budget, piece_limit, scratch_directory
from outcrop.process.operation import operation
from outcrop.process.room import room
from outcrop.process.sizes import format_bytes

__all__ = ["places_in_order", "sorted_externally"]

_BLOCK = 4096
"""Bytes that are read at once, at least."""

_RUNS = (8, 12, 16, 24, 32, 48, 64, 96)
"""As long as such a part of the budget runs are, at most: the longest that do."""

_SHORT = 24
"""As long as such a part they are where what takes them is refused with longer ones, mostly."""

_LONGER_RUNS = (4, 6, *_RUNS)
"""The same where pieces would be short: the steps that sort them then hardly go side by side."""

_ROWS = (16, 12, 8)
"""As long as such a part are the rows that are merged at once: the first where pieces are long."""

_LONG = 64 << 10
"""Bytes of a piece beside which the blocks at its ends, and what it has too much, are few."""

_TABLES = 4
"""The part of the budget that what is found about runs may take."""

_SAMPLES = 3
"""The part of the budget that samples may take."""

_SAMPLE = 16
"""Bytes that a sample takes beside its own: its place among all, and half of that to find it."""

_FEWEST = 16
"""Elements of a piece, on average, at least."""

_EVERY = 64
"""Of so many elements of a run one is a sample, at least."""

_SMALL = 1 << 20
"""Bytes that are not charged, as with results."""

_MATRICES = 64
"""The part of a piece of memory that one matrix takes of what is found about runs."""

_WIDER = np.dtype(np.float32)
"""In which half precision is put in order."""

_PLACE, _CUT = np.dtype(np.int64), np.dtype(np.uint32)


def sorted_externally(array: Array, descending: bool) -> Array:
    """The rows of a matrix in order, of which the first pass is done now."""
    return _made(array, descending, has_places=False)


def places_in_order(array: Array, descending: bool) -> Array:
    """The indices that sort the rows of a matrix: of equal elements, they ascend."""
    return _made(array, descending, has_places=True)


def _made(array: Array, descending: bool, has_places: bool) -> Array:
    if storable(array.dtype) != array.dtype.name:
        # Of half precision: the core has no order of these.
        made = _made(astype(array, _WIDER), descending, has_places)
        return made if has_places else astype(made, array.dtype)
    with operation():
        return _sorted_runs(array, has_places, descending).merged()


@dataclass(frozen=True)
class _Shape:
    """What lines are cut into.

    Attributes
    ----------
    lines, length : int
        How many lines there are, and of how many elements.
    dtype : numpy.dtype
        The type of these.
    has_places : bool
        Whether their places are put in order.
    memory : int
        Bytes of the budget.
    """

    lines: int
    length: int
    dtype: np.dtype[Any]
    has_places: bool
    memory: int

    @property
    def each(self) -> int:
        """Bytes of an element, and of its place."""
        return self.dtype.itemsize + (_PLACE.itemsize if self.has_places else 0)

    def run(self, part: int) -> int:
        """Elements of a run that takes such a part of the budget, at most."""
        return min(self.memory // (part * self.each), self.length, np.iinfo(_CUT).max)

    @cached_property
    def row(self) -> int:
        """Elements that are merged at once; the last ones of a line may be fewer."""
        tile = default_tile((self.length,), _PLACE if self.has_places else self.dtype)[0]
        rows = [aligned(self.memory // (part * self.each), tile) for part in _ROWS]
        longest = (row for row in rows if self._are_long(row))
        return min(next(longest, rows[-1]), self.length)

    def _are_long(self, row: int) -> bool:
        """Whether pieces of such rows are, on average, so long that it hardly matters where."""
        return row * self.run(_RUNS[0]) * self.dtype.itemsize >= _LONG * self.length

    @property
    def parts(self) -> Sequence[int]:
        """As long as which parts of the budget runs may be, the longest first."""
        return _RUNS if self._are_long(self.row) else _LONGER_RUNS

    @property
    def every(self) -> int:
        """Of how many elements one is a sample."""
        most = max(self.memory // (_SAMPLES * (self.dtype.itemsize + _SAMPLE)), 1)
        return max(_EVERY, 1 << math.ceil(math.log2(self.length / most)))

    def has_room(self, run: int) -> bool:
        """Whether runs are not so many that pieces are too short, or what is found too much."""
        runs, rows = -(-self.length // run), -(-self.length // self.row)
        table = 2 * self.lines * runs * rows * _CUT.itemsize
        are_short = _FEWEST * runs * rows > self.length
        return runs == 1 or rows == 1 or (table * _TABLES <= self.memory and not are_short)

    def check(self, run: int) -> None:
        """Refuse runs that are too many."""
        if run and self.row and self.has_room(run):
            return
        enough = self
        while not (enough.row and enough.has_room(max(enough.run(_SHORT), 1))):
            enough = replace(enough, memory=enough.memory + enough.memory // 16)
        runs, least = -(-self.length // max(run, 1)), enough.memory // _BLOCK * _BLOCK + _BLOCK
        raise BudgetError(
            f"to sort lines of {self.length} elements of {self.dtype}, {runs} runs of each have to "
            f"be merged, which takes a budget of about {format_bytes(least)}",
            least,
        )


# -- the first pass --------------------------------------------------------------------------------


def _sorted_runs(array: Array, has_places: bool, descending: bool) -> "_Runs":
    """Write runs to scratch: the longest ones of which memory has room for what takes them."""
    lines, length = array.shape
    shape = _Shape(lines, length, array.dtype, has_places, memory_budget())
    refused: BudgetError | None = None
    for part in shape.parts:
        run = whole_tiles(shape.run(part), array, 1)
        shape.check(run)
        made = _Pass(array, shape, run, descending)
        try:
            with asking(Asked.WHETHER):
                made.plan()
        except BudgetError as error:
            forget_frames(error)
            refused = error
        else:
            return made.written()
    assert refused is not None
    try:
        raise refused
    finally:
        del refused


class _Pass:
    """The first pass, with runs of some length."""

    def __init__(self, array: Array, shape: _Shape, run: int, descending: bool) -> None:
        self._shape, self._run, self._descending = shape, run, descending
        self._results: list[Array] = []
        whole = shape.length // run
        for at, length, many in ((0, run, whole), (whole * run, shape.length - whole * run, 1)):
            if length:
                part = reshape(array[:, at : at + many * length], (shape.lines * many, length))
                self._results += self._of(part, at, many)

    def _of(self, part: Array, at: int, many: int) -> Iterator[Array]:
        """Runs with their samples, and their places."""
        length, every = part.shape[1], self._shape.every
        options = (("descending", self._descending), ("every", every))
        wide = length + -(-length // every)
        yield of_lines(
            "sort", _with_samples, options, part, (1,), (wide,), part.dtype, times=2, fills=True
        )
        if self._shape.has_places:
            places = of_lines("argsort", order_of, options[:1], part, (1,), (length,), _PLACE)
            first = at + length * np.arange(many)
            yield places + asarray(np.tile(first, self._shape.lines)[:, None])

    def plan(self) -> None:
        """Raise an error where memory has no room for it."""
        plan([(node_of(one), _sketched(one)) for one in self._results])

    def written(self) -> "_Runs":
        """The runs, once they are in scratch."""
        directory = _native.ScratchDirectory(str(scratch_directory()))
        stores: list[_native.Store] = []
        try:
            for i, one in enumerate(self._results):
                dtype = np.dtype(storable(one.dtype))
                stores.append(create_raw(Path(directory.path) / f"{i}.raw", one.shape, dtype))
            into(self._results, stores)
        except BaseException:
            for store in stores:
                with suppress(Exception):
                    store.abort()
            stores.clear()
            directory.remove()
            raise
        files = [_File(str(store.path), tuple(store.shape)) for store in stores]
        return _Runs(self._shape, self._run, self._descending, files, directory)


def _with_samples(out: NDArray[Any], block: NDArray[Any], descending: bool, every: int) -> None:
    length = block.shape[-1]
    put_in_order(out[..., :length], block, descending)
    out[..., length:] = out[..., :length:every]


def _sketched(result: Array) -> _native.Store:
    path, dtype = str(scratch_directory() / "runs.raw"), np.dtype(storable(result.dtype))
    return sketch(
        path,
        result.shape,
        dtype,
        tile=None,
        format="raw",
        order="C",
        zarr_format=None,
        labels=Labels(),
    )


# -- what is in scratch ----------------------------------------------------------------------------


class _File(NamedTuple):
    """Runs, one in each row: with samples behind it, or of places."""

    path: str
    shape: tuple[int, ...]

    def opened(self, dtype: np.dtype[Any]) -> _native.Store:
        """Its elements in one row."""
        return _native.open(self.path, "r", "raw", (1, math.prod(self.shape)), dtype.str, 0, "C")


class _Run(NamedTuple):
    """Elements in order.

    Attributes
    ----------
    file : int
        In which of the files with runs of such a length.
    row, length : int
        Which row that is there, and how many elements it has.
    """

    file: int
    row: int
    length: int


class _Runs:
    """Sorted runs in scratch.

    Parameters
    ----------
    files : sequence of _File
        Runs, and their places if these are wanted; and the same of the runs at the ends of lines,
        where these are shorter.
    """

    def __init__(
        self,
        shape: _Shape,
        run: int,
        descending: bool,
        files: Sequence[_File],
        directory: _native.ScratchDirectory,
    ) -> None:
        self._shape, self._descending, self._directory = shape, descending, directory
        self._step = 2 if shape.has_places else 1
        self._files = files
        self._whole, self._rest = divmod(shape.length, run)
        self._run = run

    def merged(self) -> Array:
        """The lines in order, as if they were stored."""
        shape = self._shape
        ranks = np.append(np.arange(0, shape.length, shape.row), shape.length)
        cuts = [self._cuts(line, ranks) for line in range(shape.lines)]
        low = np.stack([before[:-1] for before, _ in cuts])
        high = np.stack([behind[1:] for _, behind in cuts])
        values = self._placed(self._files[:: self._step], shape.dtype)
        others = self._placed(self._files[1::2], _PLACE) if shape.has_places else None
        made = _native.merged(
            values,
            others,
            (shape.lines, shape.length),
            shape.row,
            low.tobytes(),
            high.tobytes(),
            self._descending,
        )
        source = StoreSource(made, "r", path=self._files[0].path)
        table = 2 * low.nbytes
        held = [] if table < _SMALL else [_native.Charge(table, "sorting", False)]
        source.scratch = self._directory, held
        source.beyond = "pieces of sorted runs end inside of blocks, and overlap"
        return Array(source)

    def _placed(
        self, files: Sequence[_File], dtype: np.dtype[Any]
    ) -> tuple[list[_native.Store], list[tuple[int, int]]]:
        """Where all runs are in files."""
        stores = [one.opened(dtype) for one in files]
        runs = [run for line in range(self._shape.lines) for run in self._runs_of(line)]
        return stores, [(run.file, run.row * files[run.file].shape[1]) for run in runs]

    def _runs_of(self, line: int) -> Iterator[_Run]:
        for i in range(self._whole):
            yield _Run(0, line * self._whole + i, self._run)
        if self._rest:
            yield _Run(1 if self._whole else 0, line, self._rest)

    def _cuts(self, line: int, ranks: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Where in each run of a line these ranks begin, at the earliest and at the latest."""
        dtype, files = self._shape.dtype, self._files[:: self._step]
        runs, every = list(self._runs_of(line)), self._shape.every
        many = -(-np.array([run.length for run in runs]) // every)
        with room(int(many.sum()) * (dtype.itemsize + _SAMPLE), "samples of what is sorted"):
            samples: list[NDArray[Any]] = []
            for file, own in itertools.groupby(
                zip(runs, many, strict=True), lambda one: one[0].file
            ):
                width = files[file].shape[1]
                boxes = [((0, run.row * width + run.length), (1, int(count))) for run, count in own]
                # What is read is charged to the budget as long as it lives.
                samples += [found[0].copy() for found in files[file].opened(dtype).reader(boxes)]
            lengths = np.array([run.length for run in runs])
            return _Cutting(samples, lengths, every, self._descending).at(ranks)


# -- where runs are cut ----------------------------------------------------------------------------


class _Cutting:
    """Where sorted runs have to be cut at ranks among all their elements.

    Of elements that are equal, those of the first runs come first. Descending runs are ascending
    ones seen from the other end, of which those of the last runs come first.

    Parameters
    ----------
    samples : sequence of numpy.ndarray
        Of each run.
    lengths : numpy.ndarray
        How many elements runs have.
    every : int
        One of so many elements is a sample, the first one of each run among them.
    descending : bool
        How runs are sorted.
    """

    def __init__(
        self,
        samples: Sequence[NDArray[Any]],
        lengths: NDArray[Any],
        every: int,
        descending: bool,
    ) -> None:
        self._every, self._descending = every, descending
        # Those first whose elements come before equal ones of others.
        self._order = np.arange(len(lengths))[:: -1 if descending else 1]
        self._lengths = lengths[self._order]
        self._many = -(-self._lengths // every)
        self._firsts = np.cumsum([0, *self._many])
        ordered = [samples[i][:: -1 if descending else 1] for i in self._order]
        self._all = np.concatenate(ordered)
        ends = itertools.pairwise(self._firsts)
        self._samples = [self._all[first:last] for first, last in ends]
        self._sorted = np.argsort(self._all, kind="stable")

    def at(self, ranks: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Where in each run these ranks begin, at the earliest, and at the latest."""
        total, runs = int(self._lengths.sum()), len(self._lengths)
        ranks = total - ranks if self._descending else ranks
        low, high = (np.zeros((len(ranks), runs), np.int64) for _ in range(2))
        low[ranks == total] = high[ranks == total] = self._lengths
        (inner,) = np.nonzero((ranks > 0) & (ranks < total))
        step = max(piece_limit() // (_MATRICES * _PLACE.itemsize * runs), 1)
        for at in range(0, len(inner), step):
            some = inner[at : at + step]
            low[some], high[some] = self._around(ranks[some])
        if self._descending:
            low, high = self._lengths - high, self._lengths - low
        found = np.empty(low.shape, _CUT), np.empty(high.shape, _CUT)
        found[0][:, self._order], found[1][:, self._order] = low, high
        return found

    def _around(self, ranks: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """How many elements of each run certainly come before these ranks, and how many may."""
        # All elements up to one sample do, and none from another one on does.
        low = self._last(lambda keys: self._at_most(keys).sum(1) <= ranks, len(ranks))
        high = self._last(lambda keys: self._at_least(keys).sum(1) < ranks, len(ranks)) + 1
        first = np.where(low[:, None] < 0, 0, self._up_to(low))
        last = np.where(high[:, None] == len(self._all), self._lengths, self._from(high))
        return first, last

    def _last(self, holds: Callable[[NDArray[Any]], NDArray[Any]], many: int) -> NDArray[Any]:
        """The last samples, in order, for which something holds, as for all before; -1 for none."""
        low, high = np.full(many, -1), np.full(many, len(self._all))
        while (high - low > 1).any():
            middle = np.clip((low + high) // 2, 0, len(self._all) - 1)
            is_between, does = (low < middle) & (middle < high), holds(middle)
            low = np.where(is_between & does, middle, low)
            high = np.where(is_between & ~does, middle, high)
        return low

    def _before(self, keys: NDArray[Any]) -> tuple[NDArray[Any], tuple[NDArray[Any], NDArray[Any]]]:
        """How many samples of each run come before some samples; and where these are themselves."""
        places = self._sorted[np.clip(keys, 0, len(self._all) - 1)]
        values, run = self._all[places], np.searchsorted(self._firsts, places, "right") - 1
        count = np.empty((len(keys), len(self._samples)), np.int64)
        for q, samples in enumerate(self._samples):
            # Equal ones come before in the runs before.
            left, right = (np.searchsorted(samples, values, side) for side in ("left", "right"))
            count[:, q] = np.where(run > q, right, left)
        own = (np.arange(len(keys)), run)
        count[own] = places - self._firsts[run]
        return count, own

    def _place(self, sample: NDArray[Any]) -> NDArray[Any]:
        """Where in each run one of its samples is; behind the last one, its length."""
        if self._descending:
            at = self._lengths - 1 - self._every * (self._many - 1 - sample)
        else:
            at = self._every * sample
        return np.where(sample < self._many, at, self._lengths)

    def _at_most(self, keys: NDArray[Any]) -> NDArray[Any]:
        """Of each run, as many elements as may come before samples, or are these."""
        count, own = self._before(keys)
        found = self._place(count)
        found[own] += 1
        return found

    def _up_to(self, keys: NDArray[Any]) -> NDArray[Any]:
        """Of each run, as many elements as do."""
        count, own = self._before(keys)
        count[own] += 1
        return np.where(count > 0, self._place(count - 1) + 1, 0)

    def _at_least(self, keys: NDArray[Any]) -> NDArray[Any]:
        """Of each run, as many elements as come before samples in any case."""
        count, own = self._before(keys)
        found = np.where(count > 0, self._place(count - 1) + 1, 0)
        found[own] = self._place(count)[own]
        return found

    def _from(self, keys: NDArray[Any]) -> NDArray[Any]:
        """From where on the elements of each run do not."""
        return self._place(self._before(keys)[0])
