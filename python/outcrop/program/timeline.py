"""The record of a run: reading it, and what it says.

The engine writes it in Chrome's trace format, one event on each line, in the order in which they
ended (``crates/outcrop-engine/src/execute/timeline.rs``). A record can be much larger than what
anybody wants to keep of it, so time is cut into columns that grow wider as the run turns out to be
longer, and only sums over columns are kept.
"""

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from outcrop.errors import InvalidArgumentError, StorageError, StoragePermissionError
from outcrop.process.files import open_file
from outcrop.program.waves import WaveGrid, Waves, place_of

__all__ = ["GROUPS", "Lane", "Timeline", "read_timeline"]

GROUPS = ("compute", "load", "store")
"""What threads do; the number of a group is the process in the record."""

_COLUMNS = 4096
_SAMPLES = 256 * _COLUMNS
"""Moments at which it is known how many threads were busy."""

_BLOCK = 1 << 20
_HEAD = '"traceEvents":['
_TAIL = "]}"
_LONGEST = 1e15
"""Microseconds; nothing runs for thirty years."""
_MOST_THREADS = 4096
_MOST_NAMES = 32

_Floats = NDArray[np.float64]
_Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Lane:
    """What one thread did.

    Attributes
    ----------
    group : str
        One of `GROUPS`.
    thread : int
        Its number in the group.
    kernels : dict
        Seconds by kernel.
    columns : dict
        By kernel, the seconds in each column of time.
    starts : ndarray
        How many pieces of work began in each column.
    """

    group: str
    thread: int
    kernels: dict[str, float] = field(default_factory=dict)
    columns: dict[str, _Floats] = field(default_factory=dict)
    starts: _Ints = field(default_factory=lambda: np.zeros(_COLUMNS, np.int64))


@dataclass(frozen=True)
class Timeline:
    """What a record says.

    Attributes
    ----------
    seconds : float
        From the beginning of the record to the end of its last event.
    events : int
        How many pieces of work there were.
    cut : int or None
        The line at which the record ends before its end, or cannot be read any further.
    lanes : tuple of Lane
        All threads, by group and number.
    compute_busy, io_busy, both : float
        Fractions of time in which at least one thread computed, moved data, and both at once, as
        the engine's own report counts.
    memory : ndarray
        The most bytes in use in each column of time.
    peak, peak_at : int, float
        The most bytes in use, and after how many seconds.
    column : float
        Seconds that a column is wide.
    waves : Waves or None
        Where rounds were, such as sweeps over a grid, if steps came in rounds.
    """

    seconds: float
    events: int
    cut: int | None
    lanes: tuple[Lane, ...]
    compute_busy: float
    io_busy: float
    both: float
    memory: _Floats
    peak: int
    peak_at: float
    column: float
    waves: Waves | None

    def group(self, name: str) -> list[Lane]:
        """The threads of a group."""
        return [lane for lane in self.lanes if lane.group == name]

    def kernels(self, group: str) -> dict[str, float]:
        """Seconds by kernel, added up over the threads of a group; the longest first."""
        sums: dict[str, float] = {}
        for lane in self.group(group):
            for name, seconds in lane.kernels.items():
                sums[name] = sums.get(name, 0.0) + seconds
        return dict(sorted(sums.items(), key=lambda item: (-item[1], item[0])))

    def busy(self, lanes: Iterable[Lane]) -> float:
        """The fraction of the time of some threads in which they did something."""
        sums = [sum(lane.kernels.values()) for lane in lanes]
        return sum(sums) / (len(sums) * self.seconds) if sums else 0.0

    def shares(self, lane: Lane, count: int) -> dict[str, _Floats]:
        """By kernel, the share of each of `count` equal parts of the run."""
        edges = np.linspace(0, self.seconds, count + 1)
        part = self.seconds / count
        # The last column ends with the run.
        filled = min(math.ceil(self.seconds / self.column), _COLUMNS)
        known = np.minimum(np.arange(filled + 1) * self.column, self.seconds)
        sums = {
            name: np.concatenate(([0.0], np.cumsum(busy[:filled])))
            for name, busy in lane.columns.items()
        }
        return {name: np.diff(np.interp(edges, known, sum)) / part for name, sum in sums.items()}

    def starts(self, lane: Lane, count: int) -> _Ints:
        """How many pieces of work began in each of `count` equal parts of the run."""
        filled = np.flatnonzero(lane.starts)
        parts = (filled + 0.5) * (self.column * count / self.seconds)
        result = np.zeros(count, np.int64)
        np.add.at(result, np.minimum(parts.astype(np.int64), count - 1), lane.starts[filled])
        return result

    def used(self, count: int) -> _Floats:
        """The most bytes in use in each of `count` equal parts of the run."""
        edges = np.linspace(0, self.seconds / self.column, count + 1)
        first = np.minimum(edges[:-1].astype(np.int64), _COLUMNS - 1)
        stop = np.clip(np.ceil(edges[1:]).astype(np.int64), first + 1, _COLUMNS)
        return np.array([self.memory[a:b].max() for a, b in zip(first, stop, strict=True)])


def read_timeline(path: str, progress: Callable[[int, int], None] | None = None) -> Timeline:
    """Read a record, in bounded memory however large it is.

    Parameters
    ----------
    path : str
        Where it is. One that ends early is read as far as it goes.
    progress : callable, optional
        Called with the bytes read and all bytes.

    Raises
    ------
    InvalidArgumentError
        Where this is no record, or nothing happens in it.
    StorageError
        Where it cannot be read.
    """
    recorder = _Recorder()
    try:
        with open_file(path) as file:
            total = os.fstat(file.fileno()).st_size
            blocks = _blocks(file, path)
            head = next(blocks, "")
            if not head:
                raise InvalidArgumentError(f"{path}: is empty: the run has not got far enough")
            first, _, rest = head.partition("\n")
            if _HEAD not in first.replace(" ", ""):
                raise InvalidArgumentError(f"{path}: is not the record of a run")
            whole = recorder.take(rest)
            done = len(head)
            for block in blocks:
                if whole or recorder.cut:
                    break
                whole = recorder.take(block)
                done += len(block)
                if progress is not None and total:
                    progress(min(done, total), total)
    except StorageError:
        raise
    except PermissionError as error:
        raise StoragePermissionError(f"{path}: {error.strerror}", errno=error.errno) from None
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}", errno=error.errno) from None
    if not recorder.events:
        raise InvalidArgumentError(f"{path}: nothing happens in this record")
    if not whole and recorder.cut is None:
        recorder.cut = recorder.lines
    return recorder.result()


def _blocks(file: BinaryIO, path: str) -> Iterator[str]:
    """Whole lines, many at a time; the last may lack its end."""
    left = b""
    while read := file.read(_BLOCK):
        lines, newline, rest = read.rpartition(b"\n")
        if newline:
            yield (left + lines + newline).decode("utf-8", "replace")
            left = rest
        elif len(left) >= _BLOCK:
            raise InvalidArgumentError(f"{path}: is not the record of a run: lines are too long")
        else:
            left += rest
    if left:
        yield left.decode("utf-8", "replace")


def _number(text: str) -> float:
    raise ValueError(text)


# Names of arrays may hold what JSON would have escaped.
_decode = json.JSONDecoder(strict=False, parse_constant=_number).decode


def _round_of(event: dict[str, Any]) -> Any:
    args = event.get("args")
    return args.get("round") if isinstance(args, dict) else None


def _place_of(event: dict[str, Any]) -> tuple[int, ...]:
    tile = event["args"]["tile"]
    if not isinstance(tile, str):
        raise ValueError(event)
    place = place_of(tile)
    if any(not 0 <= at < 1 << 31 for at in place):
        raise ValueError(event)
    return place


class _Recorder:
    """Adds up events."""

    def __init__(self) -> None:
        self.events = 0
        self.lines = 1
        self.cut: int | None = None
        self._end = 0.0
        self._rows: dict[tuple[int, int, str], int] = {}
        self._names: set[str] = set()
        self._seconds: list[float] = []
        self._memory = 0
        self._memory_at = 0.0
        self._grid = _Grid()
        self._waves = WaveGrid()

    def take(self, block: str) -> bool:
        """Add whole lines; whether the record ends here, as it should."""
        text = block.rstrip()
        whole = text.endswith(_TAIL)
        text = text.removesuffix(_TAIL).removesuffix(",")
        try:
            self._add(_decode(f"[{text}]"))
            self.lines += block.count("\n")
        except (ValueError, TypeError, KeyError, RecursionError):
            whole = self._each(block.splitlines())
        return whole

    def _each(self, lines: Iterable[str]) -> bool:
        """Add lines up to the first that is damaged."""
        # Not even sums have been touched yet: a block is added at once or not at all.
        good: list[Any] = []
        for line in lines:
            try:
                event = _decode(line.strip().removesuffix(","))
                self._check(event)
            except (ValueError, TypeError, KeyError, RecursionError):
                self.cut = self.lines + 1
                break
            self.lines += 1
            good.append(event)
        self._add(good)
        return False

    @staticmethod
    def _check(event: Any) -> None:
        kind = event["ph"]
        if kind not in ("X", "C"):
            return
        if not (isinstance(event["pid"], int) and 0 <= event["ts"] <= _LONGEST):
            raise ValueError(event)
        if kind == "C":
            if event["name"] == "memory" and not 0 <= event["args"]["bytes"] < 1 << 63:
                raise ValueError(event)
        elif not (
            isinstance(event["tid"], int)
            and isinstance(event["name"], str)
            and 0 <= event["tid"] < _MOST_THREADS
            and 0 <= event["dur"] <= _LONGEST
        ) or (
            (round_ := _round_of(event)) is not None
            and not (isinstance(round_, int) and 0 <= round_ < 1 << 31 and _place_of(event))
        ):
            raise ValueError(event)

    def _add(self, events: list[Any]) -> None:
        work: list[tuple[int, int, str, float, float]] = []
        memory: list[tuple[float, int]] = []
        for event in events:
            self._check(event)
            if event["ph"] == "X" and 0 <= event["pid"] < len(GROUPS):
                begin = event["ts"]
                end = begin + event["dur"]
                work.append((event["pid"], event["tid"], event["name"], begin, end))
                if (round_ := _round_of(event)) is not None:
                    self._waves.add(_place_of(event), round_, begin, end)
            elif event["ph"] == "C" and event["name"] == "memory":
                memory.append((event["ts"], event["args"]["bytes"]))
        self.events += len(work)
        if work:
            rows = [self._row(group, thread, name) for group, thread, name, _, _ in work]
            for row, (_, _, _, begin, end) in zip(rows, work, strict=True):
                self._seconds[row] += end - begin
                self._end = max(self._end, end)
            groups, _, _, begins, ends = zip(*work, strict=True)
            self._grid.add(
                np.array(rows), np.array(groups) > 0, np.array(begins, float), np.array(ends, float)
            )
        if memory:
            for at, nbytes in memory:
                if nbytes > self._memory:
                    self._memory, self._memory_at = nbytes, at
            self._grid.add_memory(*np.array(memory, float).T)

    def _row(self, group: int, thread: int, name: str) -> int:
        if name not in self._names:
            if len(self._names) < _MOST_NAMES:
                self._names.add(name)
            else:
                name = "other"
        key = group, thread, name
        row = self._rows.setdefault(key, len(self._rows))
        if row == len(self._seconds):
            self._seconds.append(0.0)
        return row

    def result(self) -> Timeline:
        grid = self._grid
        end = max(self._end, 1e-3)
        busy = grid.busy() / 1e6
        lanes: dict[tuple[int, int], Lane] = {}
        for group, name in enumerate(GROUPS):
            # One that never did anything has no events, but was there.
            count = max((thread + 1 for g, thread, _ in self._rows if g == group), default=0)
            lanes |= {(group, thread): Lane(name, thread) for thread in range(count)}
        for (group, thread, name), row in self._rows.items():
            lane = lanes[group, thread]
            lane.kernels[name] = self._seconds[row] / 1e6
            lane.columns[name] = busy[row]
            lane.starts[:] += grid.starts[row]
        computing, moving = grid.active(end)
        return Timeline(
            seconds=end / 1e6,
            events=self.events,
            cut=self.cut,
            lanes=tuple(lanes.values()),
            compute_busy=float(computing.mean()),
            io_busy=float(moving.mean()),
            both=float((computing & moving).mean()),
            memory=grid.memory(),
            peak=self._memory,
            peak_at=min(self._memory_at, end) / 1e6,
            column=grid.width / 1e6,
            waves=self._waves.result(end),
        )


class _Grid:
    """Columns of time, which become twice as wide whenever the run outgrows them."""

    def __init__(self) -> None:
        self.width = 0.0
        self.starts = np.zeros((0, _COLUMNS), np.int64)
        # A thread is busy in a column for what is here, and for all of the column as often as the
        # changes up to it add up to: so an event costs the same however many columns it fills.
        self._partly = np.zeros((0, _COLUMNS + 2))
        self._changes = np.zeros((0, _COLUMNS + 2), np.int64)
        self._active = np.zeros((2, _SAMPLES + 1), np.int32)
        self._most = np.full(_COLUMNS, np.nan)
        self._last = np.full(_COLUMNS, np.nan)

    def add(self, rows: _Ints, moving: NDArray[np.bool_], begin: _Floats, end: _Floats) -> None:
        """Add events: what does them and as what, whether it moves data, and microseconds."""
        self._fit(float(end.max()))
        if (missing := int(rows.max()) + 1 - len(self.starts)) > 0:
            more = ((0, missing), (0, 0))
            self.starts = np.pad(self.starts, more)
            self._partly = np.pad(self._partly, more)
            self._changes = np.pad(self._changes, more)
        for at, sign in ((begin, 1), (end, -1)):
            fraction, column = np.modf(at / self.width)
            index = column.astype(np.int64)
            np.add.at(self._partly, (rows, index), sign * (1 - fraction) * self.width)
            np.add.at(self._changes, (rows, index + 1), sign)
            sample = np.ceil(at * (_SAMPLES // _COLUMNS) / self.width).astype(np.int64)
            np.add.at(self._active, (moving.astype(np.int64), sample), sign)
        first = np.minimum((begin / self.width).astype(np.int64), _COLUMNS - 1)
        np.add.at(self.starts, (rows, first), 1)

    def add_memory(self, at: _Floats, nbytes: _Floats) -> None:
        """Add bytes in use, in the order of time."""
        self._fit(float(at.max()))
        index = np.minimum((at / self.width).astype(np.int64), _COLUMNS - 1)
        np.fmax.at(self._most, index, nbytes)
        self._last[index] = nbytes

    def _fit(self, end: float) -> None:
        if not self.width:
            # A power of two: dividing by it is exact.
            self.width = 2.0 ** math.ceil(math.log2(max(end, 1e-3) / _COLUMNS))
        while end > self.width * _COLUMNS:
            self._fold()

    def _fold(self) -> None:
        half = _COLUMNS // 2
        busy, starts = self.busy(), self.starts
        self._partly[:] = 0
        self._partly[:, :half] = busy[:, ::2] + busy[:, 1::2]
        self._changes[:] = 0
        self.starts = np.zeros_like(starts)
        self.starts[:, :half] = starts[:, ::2] + starts[:, 1::2]
        # Every second moment stays; what changed before it is seen there.
        old, self._active = self._active, np.zeros_like(self._active)
        self._active[:, 0] = old[:, 0]
        self._active[:, 1 : _SAMPLES // 2 + 1] = old[:, 1::2] + old[:, 2::2]
        most, last = self._most, self._last
        self._most, self._last = np.full_like(most, np.nan), np.full_like(last, np.nan)
        self._most[:half] = np.fmax(most[::2], most[1::2])
        self._last[:half] = np.where(np.isnan(last[1::2]), last[::2], last[1::2])
        self.width *= 2

    def busy(self) -> _Floats:
        """Microseconds by row and column."""
        sums = self._partly + np.cumsum(self._changes, axis=1) * self.width
        busy: _Floats = np.maximum(sums[:, :_COLUMNS], 0)
        return busy

    def active(self, end: float) -> NDArray[np.bool_]:
        """Whether anybody computed, and moved data, at each of many moments before the end."""
        count = math.ceil(end * (_SAMPLES // _COLUMNS) / self.width)
        return np.cumsum(self._active, axis=1)[:, : min(count, _SAMPLES)] > 0

    def memory(self) -> _Floats:
        """The most bytes in use by column, counting what was in use before it."""
        known = np.concatenate(([0.0], self._last))
        latest = np.maximum.accumulate(np.where(np.isnan(known), 0, np.arange(known.size)))
        most: _Floats = np.fmax(self._most, known[latest][:-1])
        return most
