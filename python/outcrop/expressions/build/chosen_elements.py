"""Elements that a mask chooses, as many as there may be: by way of scratch where memory is short.

How many there are is known when all have been seen, so they go to files that grow: counting them
before would read, or compute, the mask twice. A computation shows the mask and what it chooses from
block by block, in the order in which that is read once. What is chosen of a block consists of runs:
elements that follow one another in the result as well. Where each block is one run, and they come
one after the other, the file is the result. Else the runs are merged.
"""

import errno
import heapq
import math
import os
import threading
from array import array as packed
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outcrop import _native
from outcrop.arrays.array import Array
from outcrop.arrays.pieces import boxes
from outcrop.arrays.saving import create_raw
from outcrop.arrays.source import FunctionSource, MemorySource, storable
from outcrop.arrays.stored import StoreSource
from outcrop.errors import StorageError, StorageFullError
from outcrop.expressions.build.arrays import array_of, mapped, node_of
from outcrop.expressions.build.reductions import reduced
from outcrop.expressions.graph.functions import Bits, Seen
from outcrop.expressions.graph.nodes import Map, Node
from outcrop.process.config import piece_limit, scratch_directory
from outcrop.process.files import take_file
from outcrop.process.operation import operation
from outcrop.process.room import room

__all__ = ["TooManyError", "chosen", "indices_of", "written"]

Integers = NDArray[np.int64]
Starts = tuple[int, ...]
Block = tuple[tuple[int, ...], tuple[int, ...]]
"""Where it begins, and its shape."""

_SMALL = 1 << 20
"""Bytes of what is worked with at once, at most: so much is not charged to the budget."""

_FEWEST = 4096
"""Elements that are merged at once, at least."""

_RUN = 56
"""Bytes for a run while it is merged."""

_WAITING = 512
"""Bytes for a block that waits for its turn, beside its elements."""

_PATIENCE, _TIMES = 0.05, 4
"""Seconds for which a thread waits for what comes before, and how often that may be in vain."""

_COUNT = np.dtype(np.uint32)
_INDEX = np.dtype(np.int64)


class TooManyError(Exception):
    """More elements are chosen than were asked for."""


def _show(nodes: Sequence[Node], see: Callable[..., None], alone: threading.Condition) -> None:
    """Show nodes of one shape, or that broadcast to it, to a function that is called alone.

    It is given where a block begins, its shape, and of each node what broadcasts to that.
    """
    shape = np.broadcast_shapes(*(node.shape for node in nodes))
    many = len(nodes)

    def one(*operands: NDArray[Any]) -> None:
        places = operands[many:]
        start = tuple(int(own.flat[0]) for own in places)
        with alone:
            see(start, tuple(own.size for own in places), *operands[:many])

    places = []
    for axis, n in enumerate(shape):
        along = Array(FunctionSource(lambda i: i, (n,), _INDEX, calls_back=False))
        places.append(node_of(along[(..., *(None,) * (len(shape) - axis - 1))]))
    seen = mapped(Seen(one), [*nodes, *places], np.dtype(bool))
    reduced(np.logical_or, seen, axis=None).compute()


def chosen(array: Array, mask: Array, shape: Callable[[int], tuple[int, ...]]) -> Array:
    """The elements where a mask says so, in row-major order; computed now.

    Parameters
    ----------
    array : Array
        What is chosen from.
    mask : Array
        Of booleans, which broadcast to the shape of the array.
    shape : callable
        That of the result, by the number of its elements.
    """

    def elements(start: Starts, values: NDArray[Any], here: NDArray[Any]) -> NDArray[Any]:
        found: NDArray[Any] = values[here]
        return found

    each = array.dtype.itemsize
    return _collected([node_of(array), node_of(mask)], array.dtype, each, elements, shape)


def indices_of(mask: Array, most: int | None = None) -> Array:
    """The indices of the elements that are true, as if they were in one row; computed now.

    Raises
    ------
    TooManyError
        There are more than `most`: as soon as that is seen.
    """
    extents = mask.shape

    def elements(start: Starts, values: NDArray[Any], here: NDArray[Any]) -> NDArray[Any]:
        found = np.zeros((), np.int64)
        for n, first, own in zip(extents, start, np.nonzero(here), strict=True):
            found = found * n + (own + first)
        return found

    each = (mask.ndim + 2) * _INDEX.itemsize
    nodes = [node_of(mask)] * 2
    return _collected(nodes, _INDEX, each, elements, lambda count: (count,), most)


def written(parts: Iterator[NDArray[Any]], shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Elements that are computed part by part, in their order: in memory, or in scratch."""
    total = math.prod(shape)
    if total * dtype.itemsize <= piece_limit():
        return _in_memory(parts, shape, dtype)
    directory = _native.ScratchDirectory(str(scratch_directory()))
    kind = np.dtype(storable(dtype))

    def fill(target: _native.Store) -> None:
        at = 0
        for part in parts:
            target.write((at,), part.view(kind))
            at += len(part)

    try:
        return _made(fill, total, shape, dtype, directory)
    except BaseException:
        directory.remove()
        raise


def _collected(
    nodes: Sequence[Node],
    dtype: np.dtype[Any],
    each: int,
    elements: Callable[[Starts, NDArray[Any], NDArray[Any]], NDArray[Any]],
    shape: Callable[[int], tuple[int, ...]],
    most: int | None = None,
) -> Array:
    """What is made of the first node's elements where the second one's are true.

    `elements` makes it, of a block that begins somewhere, with so many bytes for each.
    """
    extents = np.broadcast_shapes(*(node.shape for node in nodes))
    with operation():
        pile = _Pile(extents, dtype)
        try:

            def see(
                start: tuple[int, ...],
                block: tuple[int, ...],
                values: NDArray[Any],
                mask: NDArray[Any],
            ) -> None:
                values, mask = np.broadcast_to(values, block), np.broadcast_to(mask, block)
                for low, part in boxes(block, _part_bytes() // max(each, _INDEX.itemsize)):
                    here = mask[low]
                    begin = tuple(s + own.start for s, own in zip(start, low, strict=True))
                    runs = _count(here, extents, part)
                    pile.add((begin, part), runs, elements(begin, values[low], here))
                    if most is not None and pile.total > most:
                        raise TooManyError

            with room(piece_limit(), "elements that a mask chooses"):
                _show(nodes, see, pile.alone)
                pile.finish()
            return pile.result(shape(pile.total))
        except BaseException:
            pile.remove()
            raise


def _part_bytes() -> int:
    return min(max(piece_limit() // 4, _SMALL // 16), _SMALL)


def _split(extents: tuple[int, ...], shape: tuple[int, ...]) -> int:
    """The axis along which a block cuts runs: it has the axes behind as a whole."""
    axis = len(shape) - 1
    while axis > 0 and shape[axis] == extents[axis]:
        axis -= 1
    return axis


def _count(mask: NDArray[Any], extents: tuple[int, ...], shape: tuple[int, ...]) -> NDArray[Any]:
    """How many elements there are of each run."""
    axis = _split(extents, shape)
    rows = math.prod(shape[:axis])
    counted = np.count_nonzero(mask, axis=tuple(range(axis, len(shape))))
    return np.asarray(counted).reshape(rows).astype(_COUNT)


# -- files that grow -------------------------------------------------------------------------------


class _Growing:
    """Bytes behind one another: in memory while they are few, then in a file.

    `path` says where, when it is needed.
    """

    def __init__(self, path: Callable[[], str]) -> None:
        self._make_path = path
        self._path = ""
        self._start = bytearray()
        self._file: FileIO | None = None
        self.size = 0

    def append(self, data: NDArray[Any]) -> int:
        """Where it is put."""
        view = np.ascontiguousarray(data).reshape(-1).view(np.uint8).data
        at = self.size
        if self._file is None and self.size + len(view) > _part_bytes():
            self._to_file()
        if self._file is None:
            self._start += view
        else:
            self._write(view)
        self.size += len(view)
        return at

    def _to_file(self) -> None:
        self._path = path = self._make_path()
        try:
            self._file = take_file(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, "r+b", 0o600)
        except OSError as error:
            raise _told(error, path) from None
        start, self._start = self._start, bytearray()
        self._write(memoryview(start))

    def _write(self, data: memoryview) -> None:
        assert self._file is not None
        while len(data):
            try:
                data = data[os.write(self._file.fileno(), data) :]
            except OSError as error:
                raise _told(error, self._path, len(data)) from None

    def read(self, at: int, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        """So many elements."""
        nbytes = count * dtype.itemsize
        if self._file is None:
            return np.frombuffer(bytes(self._start[at : at + nbytes]), dtype)
        found = np.empty(count, dtype)
        rest = found.view(np.uint8).data
        while len(rest):
            try:
                got = os.preadv(self._file.fileno(), [rest], at)
            except OSError as error:
                raise _told(error, self._path) from None
            if not got:
                raise StorageError(f"{self._path}: is shorter than it was written")
            rest, at = rest[got:], at + got
        return found

    @property
    def is_file(self) -> bool:
        """Whether it is too much for memory."""
        return self._file is not None

    def close(self) -> None:
        """Let go of the file, or of the memory."""
        self._start = bytearray()
        if self._file is not None:
            file, self._file = self._file, None
            file.close()

    def remove(self) -> None:
        """The same, and of its space."""
        was_file = self.is_file
        self.close()
        if was_file:
            os.unlink(self._path)


def _told(error: OSError, path: str, nbytes: int = 0) -> StorageError | StorageFullError:
    what = f"{path}: {error.strerror}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        try:
            found = os.statvfs(os.path.dirname(path))
            what += f": {nbytes} bytes are needed, {found.f_bavail * found.f_frsize} are free"
        except OSError:
            pass
        return StorageFullError(f"{what} (scratch for what is selected)", errno=error.errno)
    return StorageError(what, errno=error.errno)


# -- what is chosen --------------------------------------------------------------------------------


class _Pile:
    """What is chosen of blocks that come in any order.

    Attributes
    ----------
    total : int
        How many elements.
    alone : threading.Condition
        Who adds something has this.
    """

    def __init__(self, extents: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.extents, self.dtype = extents, dtype
        self.total = 0
        self.alone = threading.Condition()
        self._patience = _TIMES
        self._directory: _native.ScratchDirectory | None = None
        self._elements = _Growing(lambda: self._name("elements"))
        self._counts = _Growing(lambda: self._name("counts"))
        self._blocks = packed("q")
        self._in_order, self._end = True, 0
        self._waiting: list[tuple[int, int, Block, NDArray[Any], NDArray[Any]]] = []
        self._waiting_bytes = 0

    def _name(self, name: str) -> str:
        if self._directory is None:
            self._directory = _native.ScratchDirectory(str(scratch_directory()))
        return str(Path(self._directory.path) / name)

    def add(self, block: Block, counts: NDArray[Any], elements: NDArray[Any]) -> None:
        """What is chosen of a block, in its row-major order, and how many elements of each run."""
        first, last = self._ends(block)
        self.total += len(elements)
        if last - first + 1 != math.prod(block[1]):
            self._put(block, counts, elements)
            return
        # Threads finish blocks that follow one another in another order.
        heapq.heappush(self._waiting, (first, self.total, block, counts, elements))
        self._waiting_bytes += elements.nbytes + _WAITING
        most = max(piece_limit() // 2, _SMALL // 4)
        while self._waiting:
            if self._waiting[0][0] != self._end:
                if self._waiting_bytes <= most:
                    break
                if self._patience:
                    # Another thread may be about to bring what comes before. It may as well wait
                    # for this one, or the order be another one.
                    self._patience -= not self.alone.wait(_PATIENCE)
                    continue
            self._take()
            self.alone.notify_all()

    def _take(self) -> None:
        _, _, block, counts, elements = heapq.heappop(self._waiting)
        self._waiting_bytes -= elements.nbytes + _WAITING
        self._put(block, counts, elements)

    def finish(self) -> None:
        """All has come."""
        while self._waiting:
            self._take()

    def _ends(self, block: Block) -> tuple[int, int]:
        """The first index and the last one, as if all elements were in one row."""
        first = last = 0
        for n, start, many in zip(self.extents, *block, strict=True):
            first, last = first * n + start, last * n + start + many - 1
        return first, last

    def _put(self, block: Block, counts: NDArray[Any], elements: NDArray[Any]) -> None:
        first, last = self._ends(block)
        if not len(elements):
            self._end = max(self._end, last + 1)
            return
        self._in_order &= first >= self._end and last - first + 1 == math.prod(block[1])
        self._end = max(self._end, last + 1)
        at = self._elements.append(elements) // self.dtype.itemsize
        where = self._counts.append(counts) // _COUNT.itemsize
        self._blocks.extend((*block[0], *block[1], at, where))

    def result(self, shape: tuple[int, ...]) -> Array:
        """All that was chosen."""
        is_whole = self._in_order and self._elements.is_file
        if self.total * self.dtype.itemsize <= piece_limit():
            whole = iter([self._elements.read(0, self.total, self.dtype)])
            made = _in_memory(whole if is_whole else self._parts(), shape, self.dtype)
            self.remove()
            return made
        path = self._name("elements")
        # What this is kept by must not keep the directory.
        directory, self._directory = self._directory, None
        assert directory is not None
        if not is_whole:
            made = _merged(self._parts(), self.total, shape, self.dtype, directory)
            self._elements.remove()
            self._counts.remove()
            return made
        self._elements.close()
        self._counts.remove()
        return _opened(path, shape, self.dtype, directory)

    def remove(self) -> None:
        """Leave nothing behind."""
        self._waiting.clear()
        self._elements.close()
        self._counts.close()
        if self._directory is not None:
            directory, self._directory = self._directory, None
            directory.remove()

    def _parts(self) -> Iterator[NDArray[Any]]:
        """What was chosen, in row-major order, as much at a time as memory is for."""
        ndim = len(self.extents)
        table: Integers = np.frombuffer(self._blocks, np.int64).reshape(-1, 2 * ndim + 2)
        yield from _Merge(self.extents, table, self._elements, self._counts, self.dtype).parts(
            self.total
        )


class _Merge:
    """The runs of blocks, in row-major order.

    Parameters
    ----------
    extents : tuple of int
        Of what the blocks are of.
    table : numpy.ndarray
        For each block where it begins, its shape, and where its elements and the lengths of its
        runs are.
    """

    def __init__(
        self,
        extents: tuple[int, ...],
        table: Integers,
        elements: _Growing,
        counts: _Growing,
        dtype: np.dtype[Any],
    ) -> None:
        ndim = len(extents)
        self._extents, self._dtype = extents, dtype
        self._elements, self._counts = elements, counts
        firsts = np.zeros(len(table), np.int64)
        lasts = np.zeros(len(table), np.int64)
        for axis, n in enumerate(extents):
            firsts = firsts * n + table[:, axis]
            lasts = lasts * n + table[:, axis] + table[:, ndim + axis] - 1
        order = np.argsort(firsts, kind="stable")
        self._firsts, self._lasts = firsts[order], lasts[order]
        # What has not been taken yet: as many runs and elements of each block.
        self._table = table[order]
        self._runs = np.zeros(len(table), np.int64)
        self._taken = np.zeros(len(table), np.int64)

    def parts(self, total: int) -> Iterator[NDArray[Any]]:
        """Elements, as many at a time as memory is for."""
        if not total:
            return
        size = math.prod(self._extents)
        limit = max(_part_bytes() // (2 * self._dtype.itemsize + 2 * _INDEX.itemsize), _FEWEST)
        # As many indices as probably have so many elements; runs take memory as well.
        most = max(int(limit * size / total), 1)
        step = most
        active = np.empty(0, np.int64)
        coming, low = 0, 0
        while low < size:
            high = min(low + step, size)
            ahead = max(int(np.searchsorted(self._firsts, high)), coming)
            active = np.concatenate([active, np.arange(coming, ahead)])
            active, coming = active[self._lasts[active] >= low], ahead
            ends = [(int(i), self._below(int(i), high)) for i in active]
            ends = [(i, end) for i, end in ends if end > self._runs[i]]
            runs = sum(end - int(self._runs[i]) for i, end in ends)
            if runs * _RUN > 2 * _part_bytes() and step > _FEWEST:
                step = max(step // 2, _FEWEST)
                continue
            counts = [
                self._counts.read(
                    (self._where(i, 1) + int(self._runs[i])) * _COUNT.itemsize,
                    end - int(self._runs[i]),
                    _COUNT,
                ).astype(np.int64)
                for i, end in ends
            ]
            many = sum(int(own.sum()) for own in counts)
            if many > 2 * limit and step > _FEWEST:
                step = max(step // 2, _FEWEST)
                continue
            if many:
                yield self._part(ends, counts)
            for (i, end), own in zip(ends, counts, strict=True):
                self._runs[i] = end
                self._taken[i] += own.sum()
            low, step = high, min(2 * step, most)

    def _where(self, i: int, which: int) -> int:
        """Where the elements of a block are (0), and the lengths of its runs (1)."""
        return int(self._table[i, 2 * len(self._extents) + which])

    def _block(self, i: int) -> tuple[list[int], list[int], int]:
        ndim = len(self._extents)
        start, shape = self._table[i, :ndim].tolist(), self._table[i, ndim : 2 * ndim].tolist()
        return start, shape, _split(self._extents, tuple(shape))

    def _below(self, i: int, index: int) -> int:
        """How many runs of a block begin before an index."""
        start, shape, axis = self._block(i)
        inner = math.prod(self._extents[axis + 1 :])
        row, rest = divmod(index, self._extents[axis] * inner)
        digits = []
        for n in reversed(self._extents[:axis]):
            row, digit = divmod(row, n)
            digits.append(digit)
        if row:
            # Behind the last element.
            return math.prod(shape[:axis])
        digits.reverse()
        below, each = 0, math.prod(shape[:axis])
        for digit, low, many in zip(digits, start, shape, strict=False):
            each //= many
            if digit < low:
                return below
            if digit >= low + many:
                return below + many * each
            below += (digit - low) * each
        return below + (start[axis] * inner < rest)

    def _part(self, ends: Sequence[tuple[int, int]], counts: Sequence[Integers]) -> NDArray[Any]:
        """The elements of some runs of some blocks, in their order."""
        if len(ends) == 1:
            ((i, _),) = ends
            return self._elements_of(i, int(counts[0].sum()))
        first = np.concatenate([self._begins(i, end) for i, end in ends])
        found = np.concatenate(
            [self._elements_of(i, int(own.sum())) for (i, _), own in zip(ends, counts, strict=True)]
        )
        lengths = np.concatenate(list(counts))
        order = np.argsort(first)
        sources = np.cumsum(lengths) - lengths
        lengths, sources = lengths[order], sources[order]
        places = np.repeat(sources - (np.cumsum(lengths) - lengths), lengths)
        places += np.arange(len(places))
        taken: NDArray[Any] = found[places]
        return taken

    def _elements_of(self, i: int, count: int) -> NDArray[Any]:
        at = self._where(i, 0) + int(self._taken[i])
        return self._elements.read(at * self._dtype.itemsize, count, self._dtype)

    def _begins(self, i: int, end: int) -> Integers:
        """The first index of runs of a block."""
        start, shape, axis = self._block(i)
        rows = np.arange(self._runs[i], end)
        at = np.zeros(len(rows), np.int64)
        each = math.prod(shape[:axis])
        for n, low, many in zip(self._extents[:axis], start, shape, strict=False):
            each //= many
            own, rows = np.divmod(rows, each)
            at = at * n + low + own
        inner = math.prod(self._extents[axis + 1 :])
        return (at * self._extents[axis] + start[axis]) * inner


# -- results ---------------------------------------------------------------------------------------


def _in_memory(
    parts: Iterator[NDArray[Any]], shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Array:
    total = math.prod(shape)
    if total * dtype.itemsize < _SMALL:
        made = np.empty(total, dtype)
    else:
        made = _native.Output((total,), storable(dtype), False).array().view(dtype)
    at = 0
    for part in parts:
        made[at : at + len(part)] = part
        at += len(part)
    return Array(MemorySource(made.reshape(shape), owned=True))


def _merged(
    parts: Iterator[NDArray[Any]],
    total: int,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    directory: _native.ScratchDirectory,
) -> Array:
    """Elements that are read part by part, in scratch."""
    rest = np.empty(0, dtype)

    def fill_part(start: tuple[int, ...], out: NDArray[Any]) -> None:
        # These are asked for one after the other.
        nonlocal rest
        out, at = out.view(dtype), 0
        while at < len(out):
            if not len(rest):
                rest = next(parts)
            many = min(len(rest), len(out) - at)
            out[at : at + many], rest = rest[:many], rest[many:]
            at += many

    def fill(target: _native.Store) -> None:
        with room(min(piece_limit(), 4 * _SMALL), "merging what a mask chooses"):
            _native.fill(target, fill_part, None)

    return _made(fill, total, shape, dtype, directory)


def _made(
    fill: Callable[[_native.Store], None],
    total: int,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    directory: _native.ScratchDirectory,
) -> Array:
    """A new file in scratch, in which elements are put in a row."""
    path = str(Path(directory.path) / "selected.raw")
    target = create_raw(path, (total,), np.dtype(storable(dtype)))
    try:
        fill(target)
        target.commit()
    except BaseException:
        with suppress(Exception):
            target.abort()
        # The traceback keeps this frame; it must not keep the files.
        del target
        raise
    del target
    return _opened(path, shape, dtype, directory)


def _opened(
    path: str, shape: tuple[int, ...], dtype: np.dtype[Any], directory: _native.ScratchDirectory
) -> Array:
    """A file of elements as an array, with which the directory goes."""
    kind = np.dtype(storable(dtype))
    store = _native.open(path, "r", "raw", shape, kind.str, 0, "C")
    source = StoreSource(store, "r", path=path)
    source.scratch = directory
    found = Array(source)
    if kind == dtype:
        return found
    return array_of(Map.of(Bits(), [node_of(found)], dtype))
