"""Arrays that sweeps make: what they are made of, and the programs that compute them."""

import itertools
import math
import struct
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from outcrop import _native
from outcrop.arrays.array import Array
from outcrop.arrays.computed import ComputedSource, Progress, Scheduling, Target
from outcrop.arrays.kept import Resumable
from outcrop.arrays.operands import operand, shown
from outcrop.arrays.source import filler, storable
from outcrop.arrays.stored import StoreSource
from outcrop.arrays.views import View
from outcrop.compiled.bands import Bands, band_of
from outcrop.errors import BudgetError, UnsupportedError, forget_frames
from outcrop.process.config import memory_budget
from outcrop.sweeps.cell import Offset
from outcrop.sweeps.kernel import (
    OUTSIDE_HIGH,
    OUTSIDE_LOW,
    Kernel,
    Port,
    axis_words,
    other_words,
)
from outcrop.sweeps.order import Axis, Box, Order, Piece, axes_that_may_be_cut

__all__ = ["Sweeping", "SweptSource"]

_MOST_STEPS = 400_000
"""Steps of programs that are looked at: more would take long to plan."""

_STEP, _PLANNING, _SHARE = 15e-6, 0.25, 0.1
"""Seconds that planning a step takes, about; and for how long other orders are looked at: for so
many seconds, or for such a share of those that it will take."""

_VAIN = 1.0
"""Seconds for which orders are looked at that memory has no room for."""

_SHAPES = ((4, 1), (1, 2), (8, 1), (2, 1), (1, 1))
"""How many tiles wide blocks are that are moved along several axes, and how many rows of them go on
at the same time."""

_PARTS = (24, 96)
"""Of arrays without tiles, how many tiles of all of them the budget holds."""

_ABOUT = 1.02
"""How many times as much as must be moved is about as little."""


@dataclass(frozen=True)
class Sweeping:
    """Sweeps of an update over arrays.

    Attributes
    ----------
    kernels : tuple of Kernel
        What sweeps do, in turn.
    arrays : mapping
        The arrays, by their parameters.
    scalars : tuple of int or float
        The numbers.
    first, sweeps : int
        The number of the first sweep, and how many there are.
    boundaries : tuple of str
        What lies beyond the ends of each axis.
    result : str
        Which array is wanted.
    ends : str or None
        Why they have to be over before whatever sweeps come next, which others do.
    """

    kernels: tuple[Kernel, ...]
    arrays: Mapping[str, Array]
    scalars: tuple[float, ...]
    first: int
    sweeps: int
    boundaries: tuple[str, ...]
    result: str
    ends: str | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # Without what was found out of it.
        own = {one.name: getattr(self, one.name) for one in fields(self)}
        return Sweeping, tuple({**own, "arrays": dict(self.arrays)}.values())

    @property
    def shape(self) -> tuple[int, ...]:
        """Of all arrays."""
        return self.arrays[self.result].shape

    @property
    def kernel(self) -> Kernel:
        """What all sweeps have in common."""
        return self.kernels[0]

    def axes(self, tile: Sequence[int], kernel: Kernel) -> tuple[Axis, ...]:
        """The axes, cut into such tiles, as the sweeps of a kernel go along them."""
        reads = [o for offsets in kernel.reads.values() for o in offsets]
        found = []
        for a, (n, t) in enumerate(zip(self.shape, tile, strict=True)):
            along = [o[a] for o in reads]
            reach = max(0, -min(along, default=0)), max(0, *along, 0)
            found.append(Axis(n, t, kernel.directions[a], self.boundaries[a], reach))
        return tuple(found)

    @cached_property
    def skews(self) -> tuple[int, ...]:
        """How far a sweep has to be behind the one before, along each axis."""
        carried = [o for _, o in self.kernel.cell.carried]
        return tuple(max((abs(o[a]) for o in carried), default=0) for a in range(len(self.shape)))

    @cached_property
    def may_be_cut(self) -> list[bool]:
        """Along which axes tiles may be updated one after the other."""
        found = [True] * len(self.shape)
        for kernel in self.kernels:
            carried = [o for p in kernel.cell.written for o in kernel.reads[p]]
            own = axes_that_may_be_cut(carried, self.boundaries, inplace=kernel.inplace)
            found = [a and b for a, b in zip(found, own, strict=True)]
        return found

    @property
    def unchained(self) -> str | None:
        """Why a sweep has to be over before the next one begins, if it has."""
        if self.ends is not None:
            return self.ends
        if len({kernel.directions for kernel in self.kernels}) > 1:
            return "sweeps go in different directions: the next one begins where this one ends"
        if all(b == "periodic" for b in self.boundaries):
            return (
                "all axes are periodic: the first cells of a sweep need the last of the one before"
            )
        return None

    def thickness(self, p: str, tile: Sequence[int]) -> int | None:
        """How thick the frontiers of an array are, if it is stored in such tiles with frontiers."""
        source, view = self.arrays[p]._source, self.arrays[p]._view
        if not isinstance(source, StoreSource) or not view.is_whole:
            return None
        is_alike = tuple(source.tile) == tuple(tile) and source.dtype == self.kernel.dtypes[p]
        return source.thickness if is_alike else None

    def is_together_with(self, other: "Sweeping") -> bool:
        """Whether they are the same sweeps, of which each gives what becomes of another array."""
        return self.arrays is other.arrays and self.kernels is other.kernels

    def fitting(self, tile: Sequence[int]) -> tuple[int, ...]:
        """The tile, or a larger one: neighbours are in the tiles beside each other."""
        found = list(tile)
        for a, n in enumerate(self.shape):
            if not self.may_be_cut[a]:
                found[a] = n
                continue
            own, times = min(found[a], n), 1
            while own < n and not all(
                self.axes([own if b == a else t for b, t in enumerate(found)], kernel)[a].fits
                for kernel in self.kernels
            ):
                times += 1
                own = min(found[a] * times, n)
            found[a] = own
        return tuple(found)

    def orders(self, tile: Sequence[int]) -> Iterator[Order]:
        """Orders that are right, those first that promise the least traffic."""
        axes = self.axes(tile, self.kernel)
        none = (0,) * len(axes)
        free = [a for a, b in enumerate(self.boundaries) if b != "periodic" and self.may_be_cut[a]]
        if self.unchained is None and self.sweeps > 1 and free:
            depth = self.sweeps
            while depth > 1:
                for count in range(1, len(free) + 1):
                    # Several threads take tiles of a block that lie beside each other, or blocks.
                    for wide, abreast in _SHAPES if count > 1 else ((1, 1),):
                        blocks = [0] * len(axes)
                        for a in free[:count]:
                            blocks[a] = tile[a]
                        last = free[count - 1]
                        blocks[last] *= wide
                        if wide > 1 and blocks[last] >= axes[last].n:
                            continue
                        if len(free) == 1:
                            # So far apart that sweeps have no tile in common that either writes.
                            apart = tuple(2 * block for block in blocks)
                            yield Order(axes, self.sweeps, depth, tuple(blocks), apart)
                        yield Order(axes, self.sweeps, depth, tuple(blocks), self.skews, abreast)
                depth = -(-depth // 2)
        yield Order(axes, self.sweeps, 1, none, none)


class _Part(NamedTuple):
    """What a box has along an axis.

    Attributes
    ----------
    cells : int
        How many cells are computed.
    beside : mapping
        What the tile adds to the number of a tile, and what those beside it do.
    words : tuple of int
        Arguments.
    flags : int
        Those of the kernel.
    sides : tuple of tuple of int
        For each step along the axis, in which tiles cells find what they read there.
    """

    cells: int
    beside: Mapping[int, int]
    words: tuple[int, ...]
    flags: int
    sides: tuple[tuple[int, ...], ...]


class _Touched(NamedTuple):
    """The ports whose tiles a step touches.

    Attributes
    ----------
    directions : list of tuple of int
        Where these tiles lie.
    ports : list of tuple
        Of each port its number, and in which of the directions it lies: first what is written.
    table : list of int
        Of all ports of the kernel, where they stand among these.
    made : list of bool
        Of each that is written, whether it is made from another array, and not updated.
    """

    directions: list[Offset]
    ports: list[tuple[int, int]]
    table: list[int]
    made: list[bool]


def _touched(kernel: Kernel, ports: Sequence[tuple[int, Port]]) -> _Touched:
    directions = list(dict.fromkeys(port.direction for _, port in ports))
    table = [0] * len(kernel.ports)
    for place, (number, _) in enumerate(ports):
        table[number] = place
    return _Touched(
        directions,
        [(number, directions.index(port.direction)) for number, port in ports],
        table,
        [kernel.is_double(p) for p in kernel.cell.written],
    )


class _Program:
    """A program of sweeps as it is made."""

    def __init__(
        self,
        job: Sweeping,
        order: Order,
        tile: Sequence[int],
        targets: Mapping[str, Target],
        beside: Sequence[int] = (),
    ) -> None:
        self.job, self.order, self.tile = job, order, tuple(tile)
        self.beside = beside
        # Of frontiers, the number of the array, and of the first of its tiles.
        self._frontiers: dict[tuple[str, int, bool], tuple[int, int]] = {}
        self.outputs: dict[str, int] = {}
        kernel = job.kernel
        workspace = max(k.workspace for k in job.kernels)
        self.draft = _native.Draft(workspace, 0, False)
        self._stored: dict[tuple[int, View], tuple[int, int]] = {}
        self._bands: list[Bands] = []
        # Of arrays that are updated in place, the first of the bands that they begin as.
        self._begins: dict[str, tuple[int, tuple[int, ...]]] = {}
        self._given = {p: self._input(p) for p in kernel.cell.arrays}
        # The arrays that updates go to and fro between; of those in place, one.
        self._places: dict[str, list[int]] = {}
        for p in kernel.cell.written:
            own = [self._updated(p, targets.get(p))]
            if kernel.is_double(p):
                own.append(self.draft.temporary(f"{p} between", *self._form(p))[1])
            self._places[p] = own
        self.counts = tuple(-(-n // t) for n, t in zip(job.shape, self.tile, strict=True))
        self._numbers = [
            self.draft.native(
                k.cell.name, k.rate, k.function.address, k.arguments, k.function, k.number_at
            )
            for k in job.kernels
        ]
        # A refusal says what is refused; what there is to say of it is known once it is made.
        self.draft.describe("", "sweep")
        self._check_size()
        self._add()
        self.draft.describe(self.remark, "sweep")

    def _form(self, p: str) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
        return storable(self.job.kernel.dtypes[p]), self.job.shape, self.tile

    def _input(self, p: str) -> tuple[int, int]:
        """A stored array, or one that is given box by box, once each."""
        given = self.job.arrays[p]
        source, view = given._source, given._view
        key = id(source), view
        if key in self._stored:
            return self._stored[key]
        no_overlap = (0,) * len(self.job.shape)
        band = None
        if (own := shown(given)) is not None:
            store, start, shape = own
            band = band_of(store, shape, self.tile, given.dtype.itemsize)
        else:
            fill = filler(source, view)
            store = _native.function_store(
                self.job.shape, storable(given.dtype), self.tile, fill, source.calls_back
            )
            start, shape = no_overlap, self.job.shape
        found = self.draft.input(p, store, start, shape, band or self.tile, no_overlap)
        if band is not None:
            cell = self.job.kernel.cell
            if p in cell.written and not self.job.kernel.is_double(p):
                self._begins[p] = found[1], band
                return found
            first = found[1]
            found = self.draft.temporary(f"{p} in tiles", *self._form(p))
            self._spread_to(found[1], first, band)
        self._stored[key] = found
        return found

    def _spread_to(self, target: int, first: int, band: tuple[int, ...]) -> None:
        """Have tiles made of bands."""
        bands = Bands(self.draft, first, target, self.job.shape, self.tile, band)
        self._bands.append(bands)

    def _updated(self, p: str, target: "Target | None") -> int:
        kernel = self.job.kernel
        # From one place to another, the first sweep reads what is given where it is.
        is_other = kernel.is_double(p) or p in self._begins
        initial = None if is_other else self._given[p][0]
        dtype, shape, tile = self._form(p)
        if target is not None:
            self.outputs[p], first = self.draft.output(p, target, dtype, shape, tile, initial)
        else:
            first = self.draft.temporary(p, dtype, shape, tile, initial)[1]
        if p in self._begins:
            self._spread_to(first, *self._begins[p])
        return first

    def _check_size(self) -> None:
        """Raise where there is no memory for the steps, before they are made.

        Of each tile there is a box in every sweep, at least.
        """
        steps = self.job.sweeps * math.prod(self.counts)
        arrays = sorted({number for number, _ in self._given.values()})
        arguments = self.job.kernel.arguments * steps
        self.draft.check(steps, steps * len(arrays), arguments, [arrays])

    @property
    def frontiers(self) -> set[int]:
        """The numbers of the arrays that are frontiers of others."""
        return {number for number, _ in self._frontiers.values()}

    def _frontier(self, port: Port, sweep: int) -> int | None:
        """The number of the first frontier that does for a port: of its array, as that is given."""
        axis = next((a for a in self.beside if port.direction[a]), None)
        if axis is None or port.new or not self._is_as_given(port, sweep):
            return None
        p, side = port.array, port.direction[axis]
        reach = max(abs(o[axis]) for o in self.job.kernel.reads[p])
        if reach > (self.job.thickness(p, self.tile) or 0):
            return None
        key = (p, axis, side * self.job.kernel.directions[axis] < 0)
        if key not in self._frontiers:
            given = self.job.arrays[p]._source
            assert isinstance(given, StoreSource)
            name = f"{p}, {'high' if key[2] else 'low'} frontiers of axis {axis}"
            self._frontiers[key] = self.draft.frontiers(name, given.store, axis, key[2])
        return self._frontiers[key][1]

    def _is_as_given(self, port: Port, sweep: int) -> bool:
        """Whether what is read of a tile, in a sweep, is what the array was before all of them."""
        kernel = self.job.kernel
        if port.array not in kernel.cell.written:
            return True
        if sweep:
            return False
        if kernel.is_double(port.array):
            return True
        # In place, tiles behind are old; but what comes behind the last one may be the first.
        behind = next(v for v in port.direction if v) > 0
        return behind and "periodic" not in self.job.boundaries

    def _first(self, port: Port, sweep: int) -> int:
        """The number of the first tile of what a port is, in a sweep."""
        if (frontier := self._frontier(port, sweep)) is not None:
            return frontier
        if port.array not in self._places:
            return self._given[port.array][1]
        places = self._places[port.array]
        if len(places) == 1:
            return places[0]
        # The last sweep leaves the result in its place.
        left = self.job.sweeps - 1 - sweep
        if port.new:
            return places[left % 2]
        return self._given[port.array][1] if sweep == 0 else places[(left + 1) % 2]

    def _add(self) -> None:
        job = self.job
        axes = [job.axes(self.tile, kernel) for kernel in job.kernels]
        words = [self._word(scalar) for scalar in job.scalars]
        written: set[int] = set()
        # Not lists, which would take several times as much memory.
        kernels, counts, work = array("H"), array("H"), array("d")
        operands, numbers = array("I"), array("Q")
        boxes = self.order.boxes() if len(job.kernels) == 1 else self._in_turn(axes)
        parts: dict[tuple[int, int, Piece], _Part] = {}
        touched: dict[tuple[Any, ...], _Touched] = {}
        firsts: dict[int, list[int]] = {}
        tails: dict[tuple[int, ...], list[int]] = {}
        for sweep, pieces in boxes:
            which = (job.first + sweep) % len(job.kernels)
            kernel = job.kernels[which]
            own = []
            for a, piece in enumerate(pieces):
                part = parts.get((which, a, piece))
                if part is None:
                    part = parts[which, a, piece] = self._part(axes[which][a], a, piece, kernel)
                own.append(part)
            first = firsts.get(sweep)
            if first is None:
                first = firsts[sweep] = [self._first(port, sweep) for port in kernel.ports]
            cells = math.prod([part.cells for part in own])
            tile = sum([part.beside[0] for part in own])
            if not cells and not self._carries and first[0] + tile in written:
                continue
            key = (which, *[part.sides for part in own])
            kind = touched.get(key)
            if kind is None:
                ports = list(self._needed(kernel, [part.sides for part in own]))
                kind = touched[key] = _touched(kernel, ports)
            ats = [
                sum([part.beside[side] for part, side in zip(own, direction, strict=True)])
                for direction in kind.directions
            ]
            tiles = [first[number] + ats[i] for number, i in kind.ports]
            table = kind.table
            if len(set(tiles)) < len(tiles):
                # Around a periodic axis, or given twice: a tile is an operand once.
                single = list(dict.fromkeys(tiles))
                table = [single.index(tiles[i]) for i in table]
                tiles = single
            codes = [tile * 4 for tile in tiles]
            for i, is_made in enumerate(kind.made):
                codes[i] += 1 if is_made and tiles[i] not in written else 2
                written.add(tiles[i])
            for bands, tile in itertools.product(self._bands, tiles):
                if spread := bands.making(tile):
                    kernels.append(bands.kernel)
                    counts.append(len(spread))
                    work.append(float(bands.elements))
                    operands.extend(spread)
                    numbers.append(len(spread) - 1)
            flags = 0
            for part in own:
                numbers.extend(part.words)
                flags |= part.flags
            tail_key = (flags, sweep, *table)
            tail = tails.get(tail_key)
            if tail is None:
                tail = tails[tail_key] = other_words(flags, job.first + sweep, table)
            numbers.extend(tail)
            numbers.extend(words)
            kernels.append(self._numbers[which])
            counts.append(len(codes))
            work.append(float(cells * kernel.work))
            operands.extend(codes)
        self.draft.steps(
            np.frombuffer(kernels, np.uint16),
            np.frombuffer(counts, np.uint16),
            np.frombuffer(work, np.float64),
            np.frombuffer(operands, np.uint32),
            np.frombuffer(numbers, np.uint64),
            np.zeros(0, np.uint16),
            False,
        )

    def _part(self, axis: Axis, a: int, piece: Piece, kernel: Kernel) -> _Part:
        stride = math.prod(self.counts[a + 1 :])
        beside = {
            side: axis.stored(tile) * stride
            for side in (-1, 0, 1)
            if (tile := axis.neighbour(piece.tile, side)) is not None
        }
        before = axis.neighbour(piece.tile, -1)
        flags = 0
        if axis.boundary == "nearest":
            flags = (OUTSIDE_LOW if before is None else 0) << 2 * a
            flags |= (OUTSIDE_HIGH if 1 not in beside else 0) << 2 * a
        end = max(piece.end, piece.first)
        extent = 0 if before is None else axis.extent(before)
        words = axis_words(piece.low, piece.high, piece.first, end, extent)
        steps = self._steps(kernel)[a]
        sides = tuple(axis.sides(piece, n) for n in steps)
        return _Part(end - piece.first, beside, words, flags, sides)

    @cached_property
    def _carries(self) -> bool:
        """Whether cells that are not computed are carried over."""
        return any(self.job.kernel.is_double(p) for p in self.job.kernel.cell.written)

    def _in_turn(self, axes: Sequence[tuple[Axis, ...]]) -> Iterator[Box]:
        """Sweeps one after the other, each in its own direction."""
        none = (0,) * len(self.counts)
        for sweep in range(self.job.sweeps):
            own = axes[(self.job.first + sweep) % len(axes)]
            for box in Order(own, 1, 1, none, none).boxes():
                yield Box(sweep, box.pieces)

    @staticmethod
    def _steps(kernel: Kernel) -> list[list[int]]:
        """Along each axis, at which offsets anything is read."""
        reads = [o for offsets in kernel.reads.values() for o in offsets]
        return [sorted({o[a] for o in reads}) for a in range(kernel.cell.ndim)]

    def _needed(
        self, kernel: Kernel, sides: Sequence[Sequence[Sequence[int]]]
    ) -> Iterator[tuple[int, Port]]:
        """The ports whose tiles a step touches, by number: what it writes, and what it reads."""
        steps = self._steps(kernel)
        here = (0,) * kernel.cell.ndim
        doubles = [p for p in kernel.cell.written if kernel.is_double(p)]
        wanted = {Port(p, here) for p in doubles}
        for p, offsets in kernel.reads.items():
            for offset in offsets:
                where = [sides[a][steps[a].index(n)] for a, n in enumerate(offset)]
                stack = [()]
                for own in where:
                    stack = [(*v, side) for v in stack for side in own]  # type: ignore[misc]
                wanted |= {Port(p, v) for v in stack}
        for number, port in enumerate(kernel.ports):
            if number < len(kernel.cell.written) or port in wanted:
                yield number, port

    @staticmethod
    def _word(scalar: float) -> int:
        """The bits of a number."""
        form = "<d" if isinstance(scalar, float) else "<q"
        return int(struct.unpack("<Q", struct.pack(form, scalar))[0])

    @property
    def remark(self) -> str:
        if not self._frontiers:
            return self._remark
        axes = sorted({axis for _, axis, _ in self._frontiers})
        along = "axis" if len(axes) == 1 else "axes"
        return (
            f"{self._remark}; of tiles beside along {along} {', '.join(map(str, axes))}, frontiers"
        )

    @property
    def _remark(self) -> str:
        job, order = self.job, self.order
        count = f"{job.sweeps} sweeps" if job.sweeps != 1 else "one sweep"
        if order.depth > 1:
            passes = -(-job.sweeps // order.depth)
            axes = [a for a, block in enumerate(order.blocks) if block]
            along = "axis" if len(axes) == 1 else "axes"
            told = "one pass" if passes == 1 else f"{passes} passes"
            named = ", ".join(map(str, axes))
            beside = f", {order.abreast} rows of blocks abreast" if order.abreast > 1 else ""
            return f"{count}, {order.depth} in flight along {along} {named}{beside}, in {told}"
        if job.sweeps > 1:
            count = f"{count}, one after the other"
        why = job.unchained if job.sweeps > 1 else job.ends
        return f"{count}: {why}" if why else count


class SweptPlan:
    """A plan for sweeps, as `ComputedPlan` says of one result; of several, `run_all` runs it."""

    def __init__(self, program: _Program, others: Sequence[tuple[str, int, float]] = ()) -> None:
        self._outputs, self.output_tile = program.outputs, program.tile
        self._frontiers = program.frontiers
        self._plan = _native.plan_program(program.draft)
        self.order, self.unchained = program.order, program.job.unchained
        self.others = list(others)

    @cached_property
    def facts(self) -> dict[str, Any]:
        """Everything there is to say about it."""
        return self._plan.facts | {
            "lower_bound": self._compulsory[0],
            "lower_bound_source": "every array once",
            "sweeps": self.order.sweeps,
            "depth": self.order.depth,
            "unchained": self.unchained,
            "others": list(dict.fromkeys(self.others)),
            # Tiles are loaded and stored once more with every pass.
            "reworks_results": self.order.depth < self.order.sweeps,
        }

    def sketch(self, path: str) -> _native.Store:
        """The result as a Zarr array at a path, for plans."""
        (output,) = self._outputs.values()
        return self._plan.sketch(output, path)

    def run(self, output: _native.Store, progress: Progress | None, timeline: str | None) -> None:
        """Compute it to a store and commit that."""
        self.run_all(dict.fromkeys(self._outputs, output), progress, timeline)

    def run_all(
        self,
        outputs: Mapping[str, _native.Store],
        progress: Progress | None,
        timeline: str | None,
    ) -> None:
        """Compute what becomes of several arrays, by their parameters, and commit that."""
        stores = [(self._outputs[p], store) for p, store in outputs.items()]
        self._plan.run(_no_step, _no_errors, 0, stores, True, progress, timeline)

    def or_rather(self, other: "SweptPlan") -> "SweptPlan":
        """Another plan for the same, if that is better; remembers that there was one."""
        is_better = other._plan.is_better_than(self._plan)
        better, worse = (other, self) if is_better else (self, other)
        better.others = [*self.others, *other.others, worse.told()]
        return better

    @cached_property
    def moves_the_least(self) -> bool:
        """Whether every array is moved once, about: others may not be much better."""
        moved = self._plan.facts["bytes_read"] + self._plan.facts["bytes_written"]
        return bool(moved <= _ABOUT * sum(self._compulsory))

    @cached_property
    def _compulsory(self) -> tuple[int, int]:
        """Bytes of what is given, and of the result."""
        sizes = {"input": 0, "output": 0, "temporary": 0}
        for number, a in enumerate(self._plan.facts["arrays"]):
            if number in self._frontiers:
                continue
            sizes[a["role"]] += math.prod(a["shape"]) * np.dtype(a["dtype"]).itemsize
        return sizes["input"], sizes["output"]

    def told(self) -> tuple[str, int, float]:
        """What there is to say of it beside another one."""
        facts = self._plan.facts
        return facts["remark"], facts["bytes_read"] + facts["bytes_written"], facts["seconds"]


def _no_step(*_: Any) -> None:
    raise AssertionError("no step is Python's")


def _no_errors(*_: Any) -> None:
    raise AssertionError("no step reports floating-point errors")


class _Together:
    """A plan for what becomes of several arrays, as `SeveralPlan` says."""

    def __init__(self, plan: SweptPlan, results: Sequence[str]) -> None:
        self._plan, self._results = plan, results
        self.facts, self.output_tile = plan.facts, plan.output_tile

    def run(
        self, outputs: Sequence[_native.Store], progress: Progress | None, timeline: str | None
    ) -> None:
        """Compute it to stores, and commit these."""
        stores = dict(zip(self._results, outputs, strict=True))
        self._plan.run_all(stores, progress, timeline)


class SweptSource(ComputedSource):
    """The elements that sweeps leave, which are not computed yet."""

    may_replace = True

    def __init__(self, job: Sweeping) -> None:
        super().__init__(job.shape, job.kernel.dtypes[job.result])
        self.job, self.name = job, job.kernel.cell.name

    def __reduce__(self) -> tuple[Any, ...]:
        self.check_open()
        return SweptSource, (self.job,)

    @property
    def operands(self) -> tuple[Array, ...]:
        return tuple(self.job.arrays.values())

    @classmethod
    def resumable(cls, results: Mapping[str, Array]) -> Resumable:
        # Imported late, as that imports this.
        from outcrop.sweeps.resuming import ResumableSweeps

        sources = {}
        for name, result in results.items():
            if not isinstance(result._source, cls) or not result._view.is_whole:
                raise UnsupportedError(
                    "resume= is for all of what one call of a sweep gives, and nothing else"
                )
            sources[name] = result._source
        return ResumableSweeps(sources)

    @classmethod
    def together(cls, results: Sequence[Array]) -> Scheduling | None:
        sources = [array._source for array in results if isinstance(array._source, cls)]
        names = [source.job.result for source in sources]
        if len(set(names)) < len(results) or any(not array._view.is_whole for array in results):
            return None
        if any(one.result or not one.job.is_together_with(sources[0].job) for one in sources):
            return None

        def plan(targets: Sequence[Target]) -> _Together:
            wanted = dict(zip(names, targets, strict=True))
            return _Together(sources[0].plan_all(wanted), names)

        return plan

    def plan(self, target: Target) -> SweptPlan:
        return self.plan_all({self.job.result: target})

    def plan_all(self, targets: Mapping[str, Target]) -> SweptPlan:
        """Schedule what becomes of several arrays, by their parameters."""
        job = self._resolved()
        best: SweptPlan | None = None
        error: BudgetError | None = None
        spent = 0.0
        for tile in self._tiles(job, list(targets.values())):
            for order, beside in self._ways(job, tile):
                if best is not None and (best.moves_the_least or order.steps() > _MOST_STEPS):
                    continue
                if best is not None and spent > max(_PLANNING, _SHARE * best.facts["seconds"]):
                    break
                if best is None and spent > _VAIN and order.depth > 1:
                    # One sweep after the other takes the least memory.
                    continue
                spent += order.steps() * _STEP
                try:
                    found = SweptPlan(_Program(job, order, tile, targets, beside))
                except BudgetError as caught:
                    forget_frames(caught)
                    error = caught if error is None else min(caught, error, key=_needed)
                    continue
                best = found if best is None else best.or_rather(found)
        if best is not None:
            return best
        assert error is not None
        try:
            raise error
        finally:
            del error

    @staticmethod
    def _ways(job: Sweeping, tile: Sequence[int]) -> Iterator[tuple[Order, tuple[int, ...]]]:
        """Orders, and along which axes frontiers do for the tiles beside.

        Where memory has the tiles anyway, reading their frontiers is reading more: those come last.
        """
        yield from ((order, ()) for order in job.orders(tile))
        if not any(job.thickness(p, tile) for p in job.arrays):
            return
        axes = tuple(range(len(tile)))
        for order in job.orders(tile):
            for beside in dict.fromkeys((axes[:1], axes)):
                yield order, beside

    def _resolved(self) -> Sweeping:
        """With operands computed that are not there yet."""
        arrays = {p: operand(given) for p, given in self.job.arrays.items()}
        return replace(self.job, arrays=arrays)

    def _tiles(self, job: Sweeping, targets: Sequence[Target]) -> list[tuple[int, ...]]:
        """Into which tiles the arrays may be cut."""
        asked: Sequence[int] | None = None
        for target in targets:
            if isinstance(target, tuple):
                asked = target[0]
            elif target.layout == "tiled":
                asked = target.tile
        if asked is not None:
            return [job.fitting(asked)]
        # A part of a stored tile costs all of it.
        stored = [own for given in job.arrays.values() if (own := shown(given)) is not None]
        found = [job.fitting(own.tile) for own in stored if own.tile is not None]
        if not found:
            found = [job.fitting(self._small(part)) for part in _PARTS]
        return list(dict.fromkeys(found))

    def _small(self, part: int) -> tuple[int, ...]:
        """Whole rows, or parts of rows, of which the budget holds so many of all arrays."""
        job = self.job
        itemsize = max(dtype.itemsize for dtype in job.kernel.dtypes.values())
        most = memory_budget() // (part * len(job.arrays) * itemsize)
        tile = list(job.shape)
        for a, n in enumerate(job.shape):
            rest = math.prod(tile[a + 1 :])
            tile[a] = max(1, min(n, most // max(rest, 1)))
            if tile[a] > 1:
                break
        return tuple(tile)


def _needed(error: BudgetError) -> float:
    return math.inf if error.needed is None else error.needed
