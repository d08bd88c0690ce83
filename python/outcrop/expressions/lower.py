"""From a graph to a program: which nodes are computed together, tile by tile, and in which order.

The nodes that run over the same cut lines are a *group*, and are computed together, cell by cell,
by one step each: so one pass over an array serves all of its consumers, and what is between is
never written. A node that sums over a cut line is there only when the pass is over; what is made of
it belongs to a later *stage*. Passes over the same lines change direction, since what was touched
last is still in memory.
"""

import itertools
import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outcrop import _native
from outcrop._sizes import format_bytes
from outcrop._source import MemorySource
from outcrop._store import StoreSource
from outcrop.config import memory_budget
from outcrop.errors import OutcropError, UnsupportedError
from outcrop.expressions.axes import Tiling
from outcrop.expressions.drawing import Edge, Item
from outcrop.expressions.functions import seconds_per_element
from outcrop.expressions.nodes import Contract, Gather, Leaf, Map, Node, Reduce, Scan
from outcrop.expressions.pushing import composed
from outcrop.expressions.tape import Tape
from outcrop.views import NewAxis, Span, View

__all__ = ["Lowered", "Wanted"]

_ELEMENTWISE, _PRODUCT, _REDUCE, _COMBINE, _MOVE = range(5)
"""Kinds of steps, as the compiled core numbers them."""

_CHEAP = 12
"""Operations on an element that are rather done again than their results kept for a later pass."""

_STAGING = 64
"""What part of the budget a load may have to bring elements in order."""

_GIGAFLOPS = 40e9
"""Operations in a second of products on one thread, roughly."""

Ranges = dict[int, tuple[int, int]]


@dataclass(frozen=True)
class Wanted:
    """A node that is computed, and what it is computed to."""

    node: Node
    target: Any
    """A store, or the tile (or None) and attributes of a Zarr array that will be made."""


@dataclass
class _Group:
    stage: int
    lines: tuple[int, ...]
    roots: list[Node] = field(default_factory=list)
    inputs: list[Node] = field(default_factory=list)
    computed: list[Node] = field(default_factory=list)


class _Stored:
    """An array of the program, by tiles."""

    def __init__(self, number: int, first: int, counts: Sequence[int]) -> None:
        self.number, self.first = number, first
        self.counts = tuple(counts)

    def at(self, coords: Sequence[int]) -> int:
        index = 0
        for n, i in zip(self.counts, coords, strict=True):
            index = index * n + i
        return self.first + index


class Lowered:
    """A program, and what its steps do.

    Attributes
    ----------
    draft : _native.Draft
        The program.
    outputs : list of int
        The number of the array that each wanted node is computed to.
    """

    def __init__(self, wanted: Sequence[Wanted], tiling: Tiling, nodes: Sequence[Node]) -> None:
        self.wanted, self.tiling, self.nodes = wanted, tiling, nodes
        self.axes = tiling.axes
        self._is_output = {id(w.node) for w in wanted}
        self._consumers: dict[int, list[Node]] = {}
        for node in nodes:
            for operand in node.operands:
                self._consumers.setdefault(id(operand), []).append(node)
        self._lines = {id(node): self._iteration(node) for node in nodes}
        self._kept: set[int] = set()
        for node in nodes:
            if self._is_kept(node):
                self._kept.add(id(node))
        self._stages()
        self.groups = self._grouped()
        self._steps: list[Callable[[Sequence[NDArray[Any]], NDArray[Any]], None]] = []
        self._kernels = array("H")
        self._counts = array("H")
        self._work = array("d")
        self._operands = array("I")
        self._arrays: dict[int, _Stored] = {}
        self.outputs: list[int] = []
        tapes = [self._tape(group) for group in self.groups]
        workspace = max((tape.workspace for tape in tapes), default=0)
        beside = max((tape.beside for tape in tapes), default=0)
        calls_back = any(
            node.function.retains
            if isinstance(node, Map)
            else isinstance(node, Leaf) and not isinstance(node.source, StoreSource | MemorySource)
            for node in nodes
        )
        self.draft = _native.Draft(self._remark(), workspace, beside, True, calls_back)
        self._declare()
        self._emit(tapes)
        self.draft.steps(
            np.array(self._kernels, np.uint16),
            np.array(self._counts, np.uint16),
            np.array(self._work, np.float64),
            np.array(self._operands, np.uint32),
        )

    def run(self, step: int, tiles: Sequence[NDArray[Any]], workspace: NDArray[Any]) -> None:
        """Do a step of the program."""
        try:
            self._steps[step](tiles, workspace)
        except OutcropError:
            raise
        except Exception as error:
            # Its frames would refer to memory that goes to others.
            raise error.with_traceback(None) from None

    def passes(self) -> list[dict[str, Any]]:
        """What each group reads, computes and keeps, for people."""
        return [
            {
                "cells": math.prod(self.tiling.count(line) for line in group.lines),
                "stage": group.stage,
                "reads": [
                    (n.name, n.nbytes, self.tiling.tile(n), isinstance(n, Leaf))
                    for n in group.inputs
                ],
                "computes": [n.name for n in group.computed if not isinstance(n, Leaf)],
                "keeps": [(n.name, n.nbytes, bool(self._sums(n))) for n in group.roots],
            }
            for group in self.groups
        ]

    def picture(self, traffic: Sequence[tuple[int, int]]) -> tuple[list[Item], list[Edge]]:
        """Boxes and lines; `traffic` are the bytes read and written of each array."""
        passes: dict[int, list[int]] = {}
        for number, group in enumerate((g for g in self.groups if g.lines), 1):
            for node in group.inputs:
                passes.setdefault(id(node), []).append(number)
        shown = [n for n in self.nodes if not (isinstance(n, Reduce) and self._is_idle(n))]
        index = {id(node): i for i, node in enumerate(shown)}
        items, edges = [], []
        for node in shown:
            shape = " x ".join(map(str, node.shape)) or "one element"
            state, note = self._state(node, traffic)
            items.append(Item(node.name, f"{shape} {node.dtype}", node.nbytes, state, note))
            for operand in {id(o): o for o in node.operands}.values():
                known = passes.get(id(operand), []) if isinstance(operand, Leaf) else []
                label = "" if len(known) < 1 else f"pass {', '.join(map(str, known))}"
                edges.append(Edge(index[id(operand)], index[id(node)], label))
        return items, edges

    def _is_idle(self, node: Reduce) -> bool:
        return id(node) not in self._is_output and not self._consumers.get(id(node))

    def _state(self, node: Node, traffic: Sequence[tuple[int, int]]) -> tuple[str, str]:
        stored = self._arrays.get(id(node))
        moved = traffic[stored.number] if stored is not None else (0, 0)
        if isinstance(node, Leaf):
            if stored is None:
                return "in memory", ""
            return "on disk", f"read {moved[0] / max(node.nbytes, 1):.2f} times"
        if id(node) in self._is_output:
            return "result", f"{format_bytes(moved[1])} written"
        if stored is None:
            return "never stored", ""
        return ("spilled", format_bytes(moved[1])) if moved[1] else ("kept in memory", "")

    def _remark(self) -> str:
        passes = sum(1 for group in self.groups if group.lines)
        return f"{passes} passes" if passes != 1 else "one pass"

    # -- which nodes are computed when ------------------------------------------------------------

    def _iteration(self, node: Node) -> tuple[int, ...]:
        """The cut lines over which a node runs, its own before those that it sums over."""
        lines = list(self.axes.of(node))
        if not isinstance(node, Gather):
            for operand in node.operands:
                lines += self.axes.of(operand)
        return tuple(sorted(self.tiling.cut_lines(lines)))

    def _sums(self, node: Node) -> tuple[int, ...]:
        """The cut lines that a node sums over."""
        own = self.axes.of(node)
        return tuple(line for line in self._lines[id(node)] if line not in own)

    def _from_tiles(self, operand: Node, node: Node) -> bool:
        """Whether a node takes an operand from its tiles, and not within the step."""
        return (
            isinstance(node, Gather)
            or self._lines[id(operand)] != self._lines[id(node)]
            or bool(self._sums(operand))
        )

    def _is_kept(self, node: Node) -> bool:
        if isinstance(node, Leaf):
            return False
        consumers = self._consumers.get(id(node), [])
        return (
            id(node) in self._is_output
            or bool(self._sums(node))
            or any(self._from_tiles(node, consumer) for consumer in consumers)
            or (len(consumers) > 1 and not self._is_cheap(node))
        )

    def _is_cheap(self, node: Node) -> bool:
        """Whether it is rather computed again than kept."""
        count, bytes_read = 0, 0
        stack, seen = [node], set()
        while stack:
            at = stack.pop()
            if id(at) in seen:
                continue
            seen.add(id(at))
            if isinstance(at, Leaf) or id(at) in self._kept:
                in_memory = isinstance(at, Leaf) and not isinstance(at.source, StoreSource)
                bytes_read += 0 if in_memory else at.nbytes
                continue
            if not isinstance(at, Map) or at.function.retains:
                return False
            count += 1
            if count > _CHEAP:
                return False
            stack += at.operands
        return bytes_read <= 2 * node.nbytes

    def _stages(self) -> None:
        earliest: dict[int, int] = {}
        for node in self.nodes:
            stage = 0
            for operand in node.operands:
                if not isinstance(operand, Leaf):
                    later = self._from_tiles(operand, node)
                    stage = max(stage, earliest[id(operand)] + later)
            earliest[id(node)] = stage
        # What is kept waits for who needs it first, unless it ends a pass.
        need: dict[int, int] = {}
        self._stage: dict[int, int] = {}
        for node in reversed(self.nodes):
            wanted = need.get(id(node))
            stage = earliest[id(node)]
            if id(node) in self._kept:
                if wanted is not None and not self._sums(node):
                    stage = max(stage, wanted)
                wanted = stage
            self._stage[id(node)] = stage
            if wanted is None:
                wanted = stage
            for operand in node.operands:
                before = wanted - self._from_tiles(operand, node)
                known = need.get(id(operand))
                need[id(operand)] = before if known is None else min(known, before)

    def _grouped(self) -> list[_Group]:
        groups: dict[tuple[int, tuple[int, ...]], _Group] = {}
        for node in self.nodes:
            if id(node) in self._kept:
                key = (self._stage[id(node)], self._lines[id(node)])
                groups.setdefault(key, _Group(*key)).roots.append(node)
        for group in groups.values():
            self._close(group)
        return [groups[key] for key in sorted(groups)]

    def _close(self, group: _Group) -> None:
        """Find what a group computes and what it reads."""
        state: dict[int, bool] = {}
        for root in group.roots:
            stack: list[tuple[Node, int]] = [(root, 0)]
            while stack:
                node, i = stack.pop()
                if i == 0:
                    if id(node) in state:
                        continue
                    state[id(node)] = True
                    if not self._is_computed_in(node, group):
                        group.inputs.append(node)
                        continue
                operands = () if isinstance(node, Gather) else node.operands
                if i < len(operands):
                    stack.append((node, i + 1))
                    if id(operands[i]) not in state:
                        stack.append((operands[i], 0))
                elif isinstance(node, Reduce):
                    # The numbers that make up one result are computed together.
                    for sibling in node.family():
                        if sibling is node or id(sibling) not in state:
                            state[id(sibling)] = True
                            group.computed.append(sibling)
                else:
                    group.computed.append(node)

    def _is_computed_in(self, node: Node, group: _Group) -> bool:
        if isinstance(node, Leaf):
            return not isinstance(node.source, StoreSource)
        if id(node) not in self._kept:
            return True
        return any(node is root for root in group.roots)

    # -- arrays -------------------------------------------------------------------------------

    def _tape(self, group: _Group) -> Tape:
        return Tape(self.tiling, self._order(group), group.inputs, group.computed, group.roots)

    def _order(self, group: _Group) -> tuple[int, ...]:
        """The lines of a group, the slowest first."""
        first: dict[int, tuple[int, int]] = {}
        for node in sorted(group.inputs + group.computed, key=lambda n: -n.nbytes):
            for axis, line in enumerate(self.axes.of(node)):
                first.setdefault(line, (len(first), axis))
        scanned = {
            self.axes.of(node)[node.axis] for node in group.computed if isinstance(node, Scan)
        }
        # The line of a running sum comes last, so that each sum needs what one cell leaves it.
        return tuple(sorted(group.lines, key=lambda line: (line in scanned, first[line])))

    def _declare(self) -> None:
        self._results: list[_Stored] = []
        for i, want in enumerate(self.wanted):
            node = want.node
            name = f"result {i}" if len(self.wanted) > 1 else "result"
            tile = self.tiling.tile(node)
            number, first = self.draft.output(name, want.target, node.dtype.name, node.shape, tile)
            stored = _Stored(number, first, _counts(node.shape, tile))
            self.outputs.append(number)
            self._results.append(stored)
            if not self._sums(node):
                self._arrays.setdefault(id(node), stored)
        for node in self.nodes:
            if isinstance(node, Leaf):
                if isinstance(node.source, StoreSource):
                    self._arrays[id(node)] = self._input(node)
            elif id(node) in self._kept and id(node) not in self._arrays:
                shape, tile = node.shape, self.tiling.tile(node)
                if sums := self._sums(node):
                    # One for each part of the sum; in the end, the first one is the whole.
                    shape = (math.prod(self.tiling.count(line) for line in sums), *shape)
                    tile = (1, *tile)
                self._arrays[id(node)] = self._temporary(node, shape, tile)
        self.carries: dict[int, _Stored] = {}
        for node in self.nodes:
            if isinstance(node, Scan) and self.axes.of(node)[node.axis] in self.tiling.cuts:
                rest = [axis for axis in range(node.ndim) if axis != node.axis]
                tile = self.tiling.tile(node)
                self.carries[id(node)] = self._temporary(
                    node, [node.shape[a] for a in rest], [tile[a] for a in rest]
                )

    def _temporary(self, node: Node, shape: Sequence[int], tile: Sequence[int]) -> _Stored:
        number, first = self.draft.temporary(node.name, _storable(node.dtype), shape, tile)
        return _Stored(number, first, _counts(shape, tile))

    def _input(self, node: Leaf) -> _Stored:
        assert isinstance(node.source, StoreSource)
        view, tile = node.view, self.tiling.tile(node)
        start, shape = view.box
        extents = [1] * len(shape)
        for axis, source in enumerate(view.axes):
            if not isinstance(source, NewAxis):
                extents[source] = max(tile[axis] * view.span(axis).step, 1)
        number, first = self.draft.input(
            node.name, node.source.store, start, shape, extents, memory_budget() // _STAGING
        )
        return _Stored(number, first, _counts(shape, extents))

    # -- steps --------------------------------------------------------------------------------

    def _emit(self, tapes: Sequence[Tape]) -> None:
        directions: dict[tuple[int, ...], int] = {}
        for group, tape in zip(self.groups, tapes, strict=True):
            _Pass(self, group, tape, directions).emit()
        for want, stored in zip(self.wanted, self._results, strict=True):
            held = self._arrays[id(want.node)]
            if held is not stored:
                self._move(want.node, held, stored)

    def _move(self, node: Node, held: _Stored, stored: _Stored) -> None:
        """Copy what a pass has left to where it is wanted."""
        kernel = self.draft.kernel(_MOVE, 1e9)
        leading = len(held.counts) > len(stored.counts)
        for coords in itertools.product(*map(range, stored.counts)):
            source = held.at((0, *coords) if leading else coords)

            def step(tiles: Sequence[NDArray[Any]], workspace: NDArray[Any]) -> None:
                out, kept = tiles
                np.copyto(out, _seen(kept[0, ...] if leading else kept, node.dtype))

            self.add(kernel, [stored.at(coords) << 2 | 1, source << 2], 0.0, step)

    def add(
        self,
        kernel: int,
        operands: Sequence[int],
        work: float,
        step: Callable[[Sequence[NDArray[Any]], NDArray[Any]], None],
    ) -> None:
        """Append a step."""
        self._kernels.append(kernel)
        self._counts.append(len(operands))
        self._work.append(work)
        self._operands.extend(operands)
        self._steps.append(step)


class _Pass:
    """The steps of a group."""

    def __init__(
        self,
        program: Lowered,
        group: _Group,
        tape: Tape,
        directions: dict[tuple[int, ...], int],
    ) -> None:
        self.program, self.group, self.tape = program, group, tape
        self.tiling, self.axes = program.tiling, program.tiling.axes
        self.lines = tape.cut
        self.counts = [self.tiling.count(line) for line in self.lines]
        scans = any(isinstance(node, Scan) for node in group.computed)
        turn = directions.get(group.lines, 0)
        directions[group.lines] = turn + 1
        self.backwards = turn % 2 == 1 and not scans
        self.gathering = [node for node in group.computed if isinstance(node, Gather)]
        self.done: dict[int, set[tuple[Any, ...]]] = {}
        self.work, seconds = _cost(group.computed)
        kind = _ELEMENTWISE
        if any(isinstance(node, Reduce) for node in group.computed):
            kind = _REDUCE
        if any(isinstance(node, Contract) for node in group.computed):
            kind = _PRODUCT
        self.kernel = program.draft.kernel(kind, self.work / max(seconds, 1e-12))
        self.combine = program.draft.kernel(_COMBINE, 1e9)

    def emit(self) -> None:
        """Append the steps of all cells, and those that add up what they leave."""
        order: Iterable[tuple[int, ...]] = itertools.product(*map(range, self.counts))
        cells = list(order)
        for cell in reversed(cells) if self.backwards else cells:
            at = dict(zip(self.lines, cell, strict=True))
            self._cell(at)
            for root in self.group.roots:
                if self.program._sums(root):
                    self._add_up(root, at)

    def _ranges(self, at: dict[int, int]) -> Ranges:
        ranges = {}
        for line, i in at.items():
            extent = self.tiling.extent(line)
            ranges[line] = (i * extent, min((i + 1) * extent, self.axes.extents[line]))
        return ranges

    def _cell(self, at: dict[int, int]) -> None:
        program, ranges = self.program, self._ranges(at)
        operands: list[int] = []
        places: dict[int, int] = {}

        def operand(tile: int, access: int) -> int:
            if tile not in places:
                places[tile] = len(operands)
                operands.append(tile << 2 | access)
            return places[tile]

        seen: list[tuple[int, Callable[[NDArray[Any]], NDArray[Any]]]] = []
        for root in self.group.roots:
            tile = self._root_tile(root, at)
            seen.append((operand(tile, 1), _viewer(root, bool(program._sums(root)))))
        written = seen
        seen = []
        for node in self.group.inputs:
            tile, look = self._input_tile(node, at)
            seen.append((operand(tile, 0), look))
        given = seen + written
        given += [(operand(*self._carry_tile(n, at)), _viewer(n, False)) for n in self.tape.scans]
        gathered: list[tuple[Node, int, Any, Any]] = []
        for node in self.gathering:
            for tile, look, target in self._sources(node, ranges):
                gathered.append((node, operand(tile, 0) if tile >= 0 else 0, look, target))
        tape = self.tape

        def step(tiles: Sequence[NDArray[Any]], workspace: NDArray[Any]) -> None:
            values = [look(tiles[i]) for i, look in given]
            parts = [(node, (look, target), tiles[i]) for node, i, look, target in gathered]
            tape.run(ranges, values, parts, workspace)

        share = math.prod(
            (high - low) / max(self.axes.extents[line], 1) for line, (low, high) in ranges.items()
        )
        program.add(self.kernel, operands, self.work * share, step)

    def _coords(self, node: Node, at: dict[int, int]) -> tuple[int, ...]:
        return tuple(at.get(line, 0) for line in self.axes.of(node))

    def _root_tile(self, root: Node, at: dict[int, int]) -> int:
        program, coords = self.program, self._coords(root, at)
        if program._sums(root):
            coords = (self._part(root, at), *coords)
        return program._arrays[id(root)].at(coords)

    def _part(self, root: Node, at: dict[int, int]) -> int:
        """The number of a part of a sum, the same whatever the direction of the pass."""
        index = 0
        for line in self.program._sums(root):
            index = index * self.tiling.count(line) + at[line]
        return index

    def _carry_tile(self, node: Scan, at: dict[int, int]) -> tuple[int, int]:
        """What a running sum hands from one cell to the next, and how it is used."""
        coords, line = self._coords(node, at), self.axes.of(node)[node.axis]
        rest = tuple(i for axis, i in enumerate(coords) if axis != node.axis)
        return self.program.carries[id(node)].at(rest), 2 if at[line] else 1

    def _input_tile(
        self, node: Node, at: dict[int, int]
    ) -> tuple[int, Callable[[NDArray[Any]], NDArray[Any]]]:
        program = self.program
        stored, coords = program._arrays[id(node)], self._coords(node, at)
        if isinstance(node, Leaf):
            return stored.at(_in_source(node, coords)), _viewer(node, False)
        if program._sums(node):
            return stored.at((0, *coords)), _viewer(node, True)
        return stored.at(coords), _viewer(node, False)

    def _sources(self, node: Gather, ranges: Ranges) -> Iterator[tuple[int, Any, Any]]:
        """The tiles that a gathering node takes elements from, which ones, and where they go."""
        lines = self.axes.of(node)
        extents = self.axes.extents
        box = [ranges.get(line, (0, extents[line])) for line in lines]
        start, shape = [low for low, _ in box], [high - low for low, high in box]
        for number, view, target in node.boxes(start, shape):
            source = node.operands[number]
            if isinstance(source, Leaf) and not isinstance(source.source, StoreSource):
                yield -1, _reader(source, view), target
                continue
            tile = self.tiling.tile(source)
            low, extent = view.box
            spans = [
                range(n // t, -(-(n + e) // t)) for n, e, t in zip(low, extent, tile, strict=True)
            ]
            for coords in itertools.product(*spans):
                found = _common(view, target, coords, tile, source.shape)
                if found is None:
                    continue
                key, place = found
                stored = self.program._arrays[id(source)]
                leading = bool(self.program._sums(source))
                where: tuple[int, ...] = (0, *coords) if leading else coords
                if isinstance(source, Leaf):
                    where = _in_source(source, coords)
                look = _viewer(source, leading)
                yield stored.at(where), _picker(look, view, key), place

    # -- sums ---------------------------------------------------------------------------------

    def _add_up(self, root: Node, at: dict[int, int]) -> None:
        """Combine the part that was just computed with its neighbours, as far as they are there.

        Parts are combined two by two, as the leaves of a tree: in the same way in both directions,
        and with the rounding errors of pairwise summation.
        """
        if isinstance(root, Reduce):
            if root.output:
                return
            family: list[Node] = list(root.family())
        else:
            family = [root]
        coords, total = self._coords(root, at), self._parts(root)
        done = self.done.setdefault(id(root), set())
        first, level = self._part(root, at), 1
        while level < total:
            left, right = first - first % (2 * level), first - first % (2 * level) + level
            other = right if first == left else left
            if right < total:
                if (level, other, coords) not in done:
                    done.add((level, first, coords))
                    return
                self._combine(family, coords, left, right, level, total)
            first, level = left, 2 * level

    def _parts(self, root: Node) -> int:
        return math.prod(self.tiling.count(line) for line in self.program._sums(root))

    def _combine(
        self,
        family: Sequence[Node],
        coords: tuple[int, ...],
        left: int,
        right: int,
        level: int,
        total: int,
    ) -> None:
        program = self.program
        operands: list[int] = []
        for node in family:
            stored = program._arrays[id(node)]
            operands.append(stored.at((left, *coords)) << 2 | 2)
            operands.append(stored.at((right, *coords)) << 2)
        counts = (
            self._elements(family[0], range(left, left + level)),
            self._elements(family[0], range(right, min(right + level, total))),
        )

        def step(tiles: Sequence[NDArray[Any]], workspace: NDArray[Any]) -> None:
            into = [_seen(t[0, ...], n.dtype) for n, t in zip(family, tiles[::2], strict=True)]
            other = [_seen(t[0, ...], n.dtype) for n, t in zip(family, tiles[1::2], strict=True)]
            node = family[0]
            if isinstance(node, Reduce):
                node.reduction.merge(into, other, counts)
            elif node.dtype == np.bool_:
                np.logical_or(into[0], other[0], out=into[0])
            else:
                np.add(into[0], other[0], out=into[0])

        program.add(self.combine, operands, float(self.tiling.tile_bytes(family[0])), step)

    def _elements(self, root: Node, parts: range) -> int:
        """How many elements of the operand go into each element of some parts."""
        if not isinstance(root, Reduce):
            return 0
        (operand,) = root.operands
        lines = self.axes.of(operand)
        sums = self.program._sums(root)
        whole = math.prod(operand.shape[axis] for axis in root.axes if lines[axis] not in sums)
        count = 0
        for part in parts:
            elements, rest = whole, part
            for line in reversed(sums):
                rest, i = divmod(rest, self.tiling.count(line))
                extent = self.tiling.extent(line)
                elements *= min((i + 1) * extent, self.axes.extents[line]) - i * extent
            count += elements
        return count


def _in_source(leaf: Leaf, coords: Sequence[int]) -> tuple[int, ...]:
    """Tile coordinates of a view as those of what it is a view of."""
    found = [0] * len(leaf.view.selectors)
    for source, i in zip(leaf.view.axes, coords, strict=True):
        if not isinstance(source, NewAxis):
            found[source] = i
    return tuple(found)


def _viewer(node: Node, leading: bool) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """What shows a tile's memory as a node's elements."""
    if isinstance(node, Leaf):
        view = node.view
        key = [slice(None, None, s.step) if isinstance(s, Span) else 0 for s in view.selectors]
        plain = view.axes == tuple(range(len(key))) and all(
            isinstance(s, Span) and s.step == 1 for s in view.selectors
        )
        if plain:
            return _as_it_is
        axes = view.axes
        permuted, order = view.is_permuted, view.order

        def look(tile: NDArray[Any]) -> NDArray[Any]:
            own = tile[(*key, ...)]
            if permuted:
                own = own.transpose(order)
            return own[(*(None if isinstance(a, NewAxis) else slice(None) for a in axes), ...)]

        return look
    dtype, other = node.dtype, node.dtype.name != _storable(node.dtype)
    if leading:
        return (lambda tile: tile[0, ...].view(dtype)) if other else (lambda tile: tile[0, ...])
    return (lambda tile: tile.view(dtype)) if other else _as_it_is


def _as_it_is(tile: NDArray[Any]) -> NDArray[Any]:
    return tile


def _seen(tile: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    return tile if tile.dtype == dtype else tile.view(dtype)


def _common(
    view: View,
    target: Sequence[slice],
    coords: Sequence[int],
    tile: Sequence[int],
    shape: Sequence[int],
) -> tuple[tuple[Any, ...], tuple[slice, ...]] | None:
    """Which elements of a tile a view takes, as a key of the tile; and where they go."""
    key: list[Any] = []
    parts: dict[int, tuple[int, int]] = {}
    for axis, (s, i, t, n) in enumerate(zip(view.selectors, coords, tile, shape, strict=True)):
        low, high = i * t, min((i + 1) * t, n)
        if not isinstance(s, Span):
            if not low <= s < high:
                return None
            key.append(s - low)
            continue
        # Those k with low <= start + step k < high.
        if s.step > 0:
            first, last = -((s.start - low) // s.step), -((s.start - high) // s.step)
        else:
            first, last = -((high - 1 - s.start) // -s.step), (s.start - low) // -s.step + 1
        first, last = max(first, 0), min(last, s.length)
        if first >= last:
            return None
        parts[axis] = first, last
        begin = s.start + s.step * first - low
        end = begin + s.step * (last - first)
        key.append(slice(begin, end if end >= 0 else None, s.step))
    place = []
    for to, source in zip(target, view.axes, strict=True):
        if isinstance(source, NewAxis):
            place.append(to)
        else:
            first, last = parts[source]
            place.append(slice(to.start + first, to.start + last))
    return tuple(key), tuple(place)


def _reader(leaf: Leaf, view: View) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """What gives a view of what is not on disk, whatever tile it is given."""
    whole = composed(leaf.view, view)

    def read(tile: NDArray[Any]) -> NDArray[Any]:
        borrowed = leaf.source.borrow(whole)
        return leaf.source.read(whole) if borrowed is None else borrowed

    return read


def _picker(
    look: Callable[[NDArray[Any]], NDArray[Any]], view: View, key: tuple[Any, ...]
) -> Callable[[NDArray[Any]], NDArray[Any]]:
    def pick(tile: NDArray[Any]) -> NDArray[Any]:
        return view._arranged(look(tile), key)

    return pick


def _cost(nodes: Sequence[Node]) -> tuple[float, float]:
    """Arithmetic operations of nodes as a whole, and the seconds that one thread takes for them."""
    work = seconds = 0.0
    for node in nodes:
        match node:
            case Map():
                kinds = [a.dtype if isinstance(a, Node) else a for a in node.arguments]
                work += node.size
                seconds += node.size * seconds_per_element(node.function, node.dtype, kinds)
            case Contract():
                extents: dict[str, int] = {}
                for operand, labels in zip(node.operands, node.labels, strict=True):
                    extents |= dict(zip(labels, operand.shape, strict=True))
                operations = 2.0 * math.prod(extents.values())
                work += operations
                moved = sum(o.nbytes for o in node.operands) + node.nbytes
                seconds += max(operations / _GIGAFLOPS, moved / 8e9)
            case Reduce() | Scan():
                work += node.operands[0].size
                seconds += node.operands[0].nbytes / 8e9
            case _:
                seconds += node.nbytes / 4e9
    return max(work, 1.0), max(seconds, 1e-9)


def _counts(shape: Sequence[int], tile: Sequence[int]) -> list[int]:
    return [max(-(-n // t), 1) for n, t in zip(shape, tile, strict=True)]


def _storable(dtype: np.dtype[Any]) -> str:
    """A type of the compiled core's with elements as long."""
    if dtype.kind in "biu" or dtype.name in ("float32", "float64", "complex64", "complex128"):
        return dtype.name
    names = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64", 16: "complex128"}
    if dtype.itemsize not in names or dtype.kind not in "fc":
        raise UnsupportedError(f"elements of type {dtype} cannot be kept between steps")
    return names[dtype.itemsize]
