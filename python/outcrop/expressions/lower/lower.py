"""From a graph to a program: steps on tiles, in an order, and what they do.

Passes over the same lines change direction, since what was touched last is still in memory. There
are several orders, one of which takes the fewest bytes or seconds; numbers are the same in all.
"""

import itertools
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outcrop import _native
from outcrop.errors import BudgetError
from outcrop.expressions.graph.matrices import Companion
from outcrop.expressions.graph.nodes import Leaf, Map, Node, Reduce, Scan
from outcrop.expressions.kernels import native
from outcrop.expressions.kernels.tape import Tape, pattern
from outcrop.expressions.lower.matrix_passes import MatrixPass
from outcrop.expressions.lower.passes import Pass
from outcrop.expressions.lower.readings import readings
from outcrop.expressions.lower.side_by_side import (
    Nested,
    apart,
    courses,
    nested,
    side_by_side,
    together,
)
from outcrop.expressions.lower.steps import READ, WRITE, Kind, Size, Steps, arguments, operand
from outcrop.expressions.lower.storage import Storage, Stored, Wanted, look_at_result
from outcrop.expressions.lower.when_taken import waits, when_taken
from outcrop.expressions.tiling.fusion import Group, Grouping
from outcrop.process.config import memory_budget
from outcrop.process.sizes import format_bytes, format_shape
from outcrop.program.drawing import Edge, Item, told_passes
from outcrop.program.reading import Reading

__all__ = ["Lowered", "Order", "orders", "too_much_account"]

_TILE = 10
"""Bytes that a program takes for each tile, at least."""

_MOVING = 1e9
"""Seconds' work that copying tiles does in a second."""

_FEW = 5000
"""Steps that are made in a moment, so that it need not be known before whether there is memory."""


@dataclass(frozen=True)
class Order:
    """An order of steps.

    Attributes
    ----------
    together : bool
        Whether one pass serves everything that is computed over the same lines; otherwise each
        result of a group has a pass of its own, which needs memory for that alone.
    turned : bool
        Whether cells that lie along several lines are walked along the other one first.
    beside : bool
        Whether passes over other lines that take the same array are made side by side.
    beforehand : bool
        Whether what others gather from has a pass of its own; otherwise each of its tiles is made
        when it is taken.
    """

    together: bool = True
    turned: bool = False
    beside: bool = True
    beforehand: bool = False

    def __str__(self) -> str:
        what = ["each result by itself"] if not self.together else []
        what += ["along the other axis first"] if self.turned else []
        what += ["parts before the whole"] if self.beforehand else []
        return ", ".join(what + ([] if self.beside else ["one pass after the other"]))


def orders(grouping: Grouping) -> Iterator[Order]:
    """The orders that differ, the usual one first."""
    yield Order()
    if any(waits(group, grouping) for group in grouping.groups):
        yield Order(beforehand=True)
    several = any(len(grouping.apart(group)) > 1 for group in grouping.groups)
    lines = [grouping.order(group) for group in grouping.groups]
    groups = grouping.groups
    pairs = apart(groups, lines, grouping)
    beside = together(groups, courses(groups, lines, grouping.tiling), pairs)
    inside = nested(groups, lines, pairs, beside, grouping, memory_budget())
    is_beside = len(beside) - len(inside) < len(groups) - len(pairs)
    turned = any(
        own != grouping.order(group, turned=True) for own, group in zip(lines, groups, strict=True)
    )
    if turned:
        yield Order(turned=True)
    if is_beside:
        yield Order(beside=False)
    if several:
        yield Order(together=False, beside=False)
    if several and turned:
        yield Order(together=False, turned=True, beside=False)


class Lowered:
    """A program, and what its steps do.

    Parameters
    ----------
    wanted : sequence of Wanted
        What is computed.
    grouping : Grouping
        What is computed together.
    order : Order
        In which order.
    way : int
        Which way linear algebra goes through its tiles.

    Attributes
    ----------
    draft : _native.Draft
        The program.
    outputs : list of int
        The number of the array that each wanted node is computed to.
    result_tiles : list of tuple
        The tiles that each of them has on disk, where it is a new array.
    nodes : sequence of Node
        All that there is, operands first.
    wanted, grouping
        As they are given.
    """

    def __init__(
        self, wanted: Sequence[Wanted], grouping: Grouping, order: Order, way: int = 0
    ) -> None:
        self.wanted, self.tiling, self.way = wanted, grouping.tiling, way
        self.grouping, self._order = grouping, order
        self.nodes = nodes = grouping.nodes
        if (tiles := grouping.tiles()) * _TILE > memory_budget():
            raise too_much_account(tiles, "tiles")
        self._groups, tapes = self._taped()
        self._lines = [grouping.order(group, turned=order.turned) for group in self._groups]
        self._apart = apart(self._groups, self._lines, grouping)
        paired = {*self._apart, *(one.first for one in self._apart.values())}
        self._waiting = {
            i
            for i, group in enumerate(self._groups)
            if not order.beforehand and i not in paired and waits(group, grouping)
        }
        self._courses = courses(self._groups, self._lines, self.tiling)
        for i in self._waiting:
            self._courses[i] = None
        self._together = together(self._groups, self._courses, self._apart, alone=not order.beside)
        self._nested: dict[int, Nested] = {}
        if order.beside:
            self._nested = nested(
                self._groups, self._lines, self._apart, self._together, grouping, memory_budget()
            )
            self._together = _one_after_other(self._together, self._nested)
        workspace = max((tape.workspace for tape in tapes if tape is not None), default=0)
        beside = max((tape.beside for tape in tapes if tape is not None), default=0)
        calls_back = any(_calls_back(node) for node in nodes)
        self.draft = _native.Draft(workspace, beside, calls_back)
        self._storage = Storage(self.draft, wanted, self.grouping)
        self.outputs = [stored.number for stored in self._storage.results]
        self.result_tiles = self._storage.result_tiles
        self._steps = Steps(self.draft)
        self._operations: list[MatrixPass] = []
        self._emit(tapes)
        self._steps.hand_over()
        self.draft.describe(*self._remark())

    @property
    def ways(self) -> int:
        """How many ways there are for linear algebra to go through its tiles."""
        return max((one.ways for one in self._operations), default=1)

    @property
    def handed_on(self) -> list[int]:
        """The numbers of the arrays that passes hand on to others in blocks."""
        roots = (self._groups[i].roots[0] for i in self._apart)
        found = (self._storage.of(root) for root in roots if not self.grouping.is_output(root))
        return [stored.number for stored in found if stored is not None]

    @property
    def is_frugal(self) -> bool:
        """Whether it goes the one that takes the least memory."""
        return all(one.is_frugal for one in self._operations)

    @property
    def is_side_by_side(self) -> bool:
        """Whether all passes are side by side that might be."""
        return self._order.beside or len(together(self._groups, self._courses, self._apart)) == len(
            self._together
        )

    def run(self, step: int, tiles: Sequence[NDArray[Any]], workspace: NDArray[Any]) -> None:
        """Do a step of the program."""
        self._steps.run(step, tiles, workspace)

    def _taped(self) -> tuple[list[Group], list[Tape | None]]:
        """The groups that each have a pass, and what it does in each cell, where it has cells."""
        groups: list[Group] = []
        tapes: list[Tape | None] = []
        known: dict[Hashable, Tape] = {}

        def tape_of(group: Group, cut: Sequence[int], strip: int | None = None) -> Tape:
            nodes = (group.inputs, group.computed, group.roots)
            key = pattern(self.tiling, cut, *nodes)
            found = known.get((key, strip)) if key is not None else None
            if found is None:
                found = Tape(self.tiling, cut, *nodes, strip)
                if key is not None:
                    known[key, strip] = found
            return found

        for group in self.grouping.groups:
            if group.operation is not None:
                groups.append(group)
                tapes.append(None)
                continue
            cut = self.grouping.order(group)
            whole = tape_of(group, cut)
            parts = [group] if self._order.together else self.grouping.apart(group)
            groups += parts
            if len(parts) == 1:
                tapes.append(whole)
            else:
                # Strips are those of all together: so sums have the same bits.
                tapes += [tape_of(part, cut, whole.strip) for part in parts]
        return groups, tapes

    def _emit(self, tapes: Sequence[Tape | None]) -> None:
        passes = [
            self._operation(group)
            if tape is None
            else Pass(
                *(group, tape, self.grouping, self._storage, self._steps),
                lines=lines,
                backwards=backwards,
            )
            for group, tape, lines, backwards in zip(
                self._groups, tapes, self._lines, self._directions(), strict=True
            )
        ]
        moved = [
            (want.node, stored)
            for want, stored in zip(self.wanted, self._storage.results, strict=True)
            if self._storage.of(want.node) is not stored
        ]
        self._check(passes, moved)
        for numbers in self._together:
            first, *others = [passes[i] for i in numbers]
            self._steps.another_pass()
            if numbers[0] in self._nested:
                cells = {i: one for i, one in enumerate(passes) if isinstance(one, Pass)}
                self._nested[numbers[0]].emit(cells, self._apart)
                continue
            if others:
                members = [one for one in (first, *others) if isinstance(one, Pass)]
                if numbers[-1] in self._apart:
                    one, then = members
                    self._apart[numbers[-1]].emit(one, then)
                    continue
                side_by_side([self._courses[i] for i in numbers], members)
                continue
            if numbers[0] in self._waiting:
                assert isinstance(first, Pass)
                roots = self._groups[numbers[0]].roots
                again = all(self.grouping.is_made_again(root) for root in roots)
                when_taken(first, self._steps, again=again)
                continue
            is_made_later = self._groups[numbers[0]].is_made_later
            if is_made_later:
                if isinstance(first, Pass) and first.gathers:
                    # Linear algebra adds these steps, and none that make what they take.
                    self._steps.wait_no_more()
                self._steps.hand_over()
            first.emit()
            if is_made_later:
                self._steps.hand_over(made=True)
        self._steps.wait_no_more()
        for node, stored in moved:
            self._move(node, stored)

    def _directions(self) -> list[bool]:
        """Whether each pass begins with its last cell."""
        found = [False] * len(self._groups)
        turns: dict[tuple[int, ...], int] = {}
        for numbers in self._together:
            group = self._groups[numbers[0]]
            if group.operation is not None:
                continue
            turn = turns.get(group.lines, 0)
            for i in numbers:
                turns[self._groups[i].lines] = turn + 1
                # Running sums have a direction of their own.
                scans = any(isinstance(node, Scan) for node in self._groups[i].computed)
                found[i] = turn % 2 == 1 and not scans
        return found

    def _operation(self, group: Group) -> MatrixPass:
        node = group.operation
        assert node is not None
        stored = sum(want.node is node for want in self.wanted)
        consumers = self.grouping.consumers(node)
        companions = [one for one in consumers if isinstance(one, Companion)]
        is_used = len(consumers) > len(companions) or stored > 1
        found = MatrixPass(
            node,
            self._storage,
            self.draft,
            self._steps,
            way=self.way,
            is_used=is_used,
            companions=companions,
        )
        self._operations.append(found)
        return found

    def _check(
        self, passes: Sequence[Pass | MatrixPass], moved: Sequence[tuple[Node, Stored]]
    ) -> None:
        """Look whether there may be memory for the steps, before they are made."""
        size = Size(0, 0, 0)
        arrays: list[list[int]] = []
        for one in passes:
            size = size.plus(one.size)
            arrays += one.arrays
        for node, stored in moved:
            tiles, kept = math.prod(stored.counts), self._storage.of(node)
            assert kept is not None
            size = size.plus(
                Size(tiles, 2 * tiles, tiles * arguments(len(self.tiling.cut_axes(node)), 2))
            )
            arrays.append([stored.number, kept.number])
        gathers = any(one.gathers for one in passes)
        if gathers and size.steps <= _FEW:
            return
        try:
            self.draft.check(*size, arrays)
        except BudgetError as error:
            if gathers:
                # Some of their operands are not counted: who knows what would do?
                raise too_much_account(size.steps, "steps") from error
            raise

    def _move(self, node: Node, stored: Stored) -> None:
        """Copy what a pass has left to where it is wanted."""
        look, draft = self._storage.look(node), None
        if native.IS_USED:
            draft = native.copying(node, (look_at_result(node), look), self.tiling)
        if draft is not None:
            kernel = self._steps.tape(Kind.MOVE, _MOVING, (stored, node), lambda: draft)
        else:
            kernel = self._steps.kernel(Kind.MOVE, _MOVING)

        def action(tiles: Sequence[NDArray[Any]], workspace: NDArray[Any]) -> None:
            out, kept = tiles
            np.copyto(out.view(node.dtype), look(kept))

        for coords in itertools.product(*map(range, stored.counts)):
            source = operand(self._storage.tile(node, coords), READ)
            operands = [operand(stored.at(coords), WRITE), source]
            if draft is not None:
                parts = native.parts(node, coords, self.tiling)
                self._steps.add_taped(kernel, operands, 0.0, parts, (0, 1))
            else:
                self._steps.add(kernel, operands, 0.0, action)

    # -- for people ------------------------------------------------------------------------------

    def _passes(self) -> list[list[int]]:
        """The groups that go through what they take at once, by their numbers.

        What is made when it is taken goes with the first that takes it.
        """
        found: list[list[int]] = []
        waiting: dict[int, int] = {}
        for numbers in self._together:
            if numbers[0] in self._waiting:
                (number,) = numbers
                waiting |= {id(root): number for root in self._groups[number].roots}
                continue
            own = list(numbers)
            for number in own:
                for node in self._groups[number].computed:
                    taken = {waiting[id(o)] for o in node.operands if id(o) in waiting}
                    own += sorted(taken)
                    waiting = {key: n for key, n in waiting.items() if n not in taken}
            found.append(own)
        return found

    def passes(self) -> list[dict[str, Any]]:
        """What each group reads, computes and keeps."""
        return [
            {
                "cells": math.prod(self.tiling.count(line) for line in group.lines),
                "stage": group.stage,
                "is_beside": place > 0,
                "is_operation": group.operation is not None,
                "reads": [
                    (n.name, n.nbytes, self.tiling.tile(n), isinstance(n, Leaf), views)
                    for n, views in self._read(group)
                ],
                "computes": [n.name for n in group.computed if not isinstance(n, Leaf)],
                "keeps": [(n.name, n.nbytes, bool(self.grouping.sums(n))) for n in group.roots],
            }
            for numbers in self._passes()
            for place, group in enumerate(self._groups[i] for i in numbers)
            if not isinstance(group.operation, Companion)
        ]

    def _read(self, group: Group) -> list[tuple[Node, int]]:
        """What a group reads; of views that share tiles, the first one, and how many there are."""
        arrays: dict[int, list[Node]] = {}
        for node in group.inputs:
            stored = self._storage.of(node)
            if stored is None:
                stored, _ = self._storage.matrix(node, group.roots[0])
            arrays.setdefault(stored.number, []).append(node)
        return [(views[0], len(views)) for views in arrays.values()]

    def readings(self, arrays: Sequence[Mapping[str, Any]]) -> list[Reading]:
        """What the groups take of what is stored; `arrays` are those of the program."""

        def number_of(node: Node, group: Group) -> int | None:
            stored = self._storage.of(node)
            if stored is None and group.operation is not None:
                stored, _ = self._storage.matrix(node, group.operation)
            return None if stored is None else stored.number

        passes = [[self._groups[i] for i in numbers] for numbers in self._passes()]
        return readings(passes, number_of, arrays)

    def picture(self, traffic: Sequence[tuple[int, int]]) -> tuple[list[Item], list[Edge]]:
        """Boxes and lines; `traffic` are the bytes read and written of each array."""
        passes: dict[int, list[int]] = {}
        for number, group in enumerate((g for g in self._groups if g.lines), 1):
            for node in group.inputs:
                passes.setdefault(id(node), []).append(number)
        shown = [n for n in self.nodes if not (isinstance(n, Reduce) and self.grouping.is_idle(n))]
        index = {id(node): i for i, node in enumerate(shown)}
        items, edges = [], []
        for node in shown:
            state, note = self._state(node, traffic)
            # Views of one array are told apart.
            view = node.view.description if isinstance(node, Leaf) else ""
            detail = f"{format_shape(node.shape)} {node.dtype}"
            items.append(Item(node.name + view, detail, node.nbytes, state, note))
            for source in {id(o): o for o in node.operands}.values():
                known = passes.get(id(source), []) if isinstance(source, Leaf) else []
                label = told_passes(known)
                edges.append(Edge(index[id(source)], index[id(node)], label))
        return items, edges

    def _state(self, node: Node, traffic: Sequence[tuple[int, int]]) -> tuple[str, str]:
        stored = self._storage.of(node)
        moved = traffic[stored.number] if stored is not None else (0, 0)
        if isinstance(node, Leaf):
            if stored is None:
                return "in memory", ""
            return "on disk", f"read {moved[0] / max(node.nbytes, 1):.2f} times"
        if self.grouping.is_output(node):
            return "result", f"{format_bytes(moved[1])} written"
        if stored is None:
            return "never stored", ""
        return ("spilled", format_bytes(moved[1])) if moved[1] else ("kept in memory", "")

    def _remark(self) -> tuple[str, str | None]:
        """What it is for people, and which operation of linear algebra, if it is nothing else."""
        remarks = [one.remark for one in self._operations if one.remark]
        groups = [group for group in self._groups if not isinstance(group.operation, Companion)]
        if len(groups) == 1 == len(remarks):
            (root,) = groups[0].roots
            return remarks[0], root.name
        passes = sum(
            any(self._groups[i].lines or self._groups[i].operation is not None for i in numbers)
            for numbers in self._passes()
            if not isinstance(self._groups[numbers[0]].operation, Companion)
        )
        count = {0: "one step", 1: "one pass"}.get(passes, f"{passes} passes")
        return ", ".join(filter(None, (count, str(self._order), *remarks))), None


def _one_after_other(
    passes: Sequence[Sequence[int]], nested: Mapping[int, Nested]
) -> list[list[int]]:
    """The numbers of each pass, those that are done part by part being one."""
    found: list[list[int]] = []
    for numbers in passes:
        before = nested.get(found[-1][0]) if found else None
        if before is not None and before.numbers[1][0] == numbers[0]:
            found[-1] += numbers
        else:
            found.append(list(numbers))
    return found


def too_much_account(count: int, what: str) -> BudgetError:
    """The error of a budget that is too small for as many of something, however much would do."""
    return BudgetError(
        f"the memory budget, {format_bytes(memory_budget())}, is too small to keep account of "
        f"{count} {what}; raise it (oc.config(memory=...), OUTCROP_MEMORY or --memory)"
    )


def _calls_back(node: Node) -> bool:
    """Whether Python code other than NumPy's has to run."""
    if isinstance(node, Map):
        return node.function.retains
    return isinstance(node, Leaf) and node.source.calls_back
