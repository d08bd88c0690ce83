"""Passes that take the same array side by side, so that each of its tiles is loaded once for all.

Groups over other lines have passes of their own. Of those that need not wait for each other, and go
through the same array in the same direction, the steps are taken in the order of its tiles: first
all that any of them takes of a tile, then what they take of the next one.

Where a pass leaves tiles that the next one only takes apart, each of them is taken apart as soon as
it is there (`apart`). Where two passes have lines in common, along which the second one takes only
what the first one has left there, they are done part by part (`nested`).
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from outcrop.arrays.stored import StoreSource
from outcrop.arrays.views import NewAxis, View
from outcrop.expressions.graph.gathers import Alias, Select, Take
from outcrop.expressions.graph.indices import Listed
from outcrop.expressions.graph.nodes import Leaf, Node, Scan
from outcrop.expressions.lower.passes import Pass
from outcrop.expressions.lower.when_taken import waits
from outcrop.expressions.tiling.axes import Tiling
from outcrop.expressions.tiling.fusion import Group, Grouping
from outcrop.expressions.tiling.parts import STAYS

__all__ = ["Apart", "Nested", "apart", "courses", "nested", "side_by_side", "together"]

Place = tuple[int, ...]


@dataclass(frozen=True)
class Course:
    """How a pass goes through the largest array that it takes.

    Attributes
    ----------
    array : int
        Which array that is.
    axes : tuple of int
        Its axes along which the cells of the pass lie, the slowest first.
    starts : tuple of sequence of int
        Where each cell begins along each of them.
    units : tuple of int
        What is loaded at once, at least.
    """

    array: int
    axes: tuple[int, ...]
    starts: tuple[Sequence[int], ...]
    units: tuple[int, ...]

    def goes_with(self, other: "Course") -> bool:
        """Whether it goes through the same array in the same way, as far as either goes."""
        common = min(len(self.axes), len(other.axes))
        return self.array == other.array and self.axes[:common] == other.axes[:common]

    def place(self, cell: Sequence[int], units: Sequence[int]) -> Place:
        """In which piece of the array a cell is."""
        along = zip(self.starts, cell, units, strict=False)
        return tuple([starts[i] // unit for starts, i, unit in along])


@dataclass(frozen=True)
class Apart:
    """A pass whose tiles another one takes apart.

    Attributes
    ----------
    first : int
        The number of the pass.
    parts : tuple of int
        Into how many cells of the other one a cell is cut, along each of its own lines.
    places : tuple of int
        Where each of the other one's lines stands among its own, or -1.
    counts : tuple of int
        How many cells the other one has along each line.
    """

    first: int
    parts: tuple[int, ...]
    places: tuple[int, ...]
    counts: tuple[int, ...]

    def emit(self, first: Pass, then: Pass, cells: Iterable[tuple[int, ...]] | None = None) -> None:
        """Append the steps of both, of all cells of the first one or of some."""

        def order() -> Iterator[tuple[int, ...]]:
            made = first.cells(cells)
            cell = next(made, None)
            while cell is not None:
                # Taking the next one appends the steps of this one.
                following = next(made, None)
                yield from self._inside(cell)
                cell = following

        then.emit(order())

    def _inside(self, cell: Sequence[int]) -> Iterator[tuple[int, ...]]:
        ranges = []
        for place, count in zip(self.places, self.counts, strict=True):
            if place < 0:
                ranges.append(range(count))
            else:
                low, parts = cell[place] * self.parts[place], self.parts[place]
                ranges.append(range(low, min(low + parts, count)))
        return itertools.product(*ranges)


def apart(
    groups: Sequence[Group], lines: Sequence[tuple[int, ...]], grouping: Grouping
) -> dict[int, Apart]:
    """Which groups take apart what another one leaves, by their numbers."""
    found = {}
    left = {id(group.roots[0]): i for i, group in enumerate(groups) if len(group.roots) == 1}
    for number, group in enumerate(groups):
        (node, *others) = group.computed
        if others or not grouping.takes_apart(node) or id(node.operands[0]) not in left:
            continue
        first = left[id(node.operands[0])]
        made = _apart(node, first, lines[first], lines[number], grouping.tiling)
        if groups[first].operation is None and made is not None:
            found[number] = made
    return found


def _apart(
    node: Node, first: int, lines: Sequence[int], own: Sequence[int], tiling: Tiling
) -> Apart | None:
    before, after = tiling.axes.of(node.operands[0]), tiling.axes.of(node)
    if len(before) != len(after):
        # What has other axes is no part of the same tile.
        return None
    alike = dict(zip(before, after, strict=True))
    parts = []
    for line in lines:
        if line not in alike or alike[line] not in own:
            return None
        outer, inner = tiling.extent(line), tiling.extent(alike[line])
        if outer % inner:
            return None
        parts.append(outer // inner)
    places = {alike[line]: place for place, line in enumerate(lines)}
    return Apart(
        first,
        tuple(parts),
        tuple(places.get(line, -1) for line in own),
        tuple(map(tiling.count, own)),
    )


@dataclass(frozen=True)
class Nested:
    """Two passes of which the second one takes what the first one leaves, part by part.

    Both are done for a part of their common lines before either goes on to the next part, so that
    what is handed on stays in memory.

    Attributes
    ----------
    numbers : tuple of tuple of int
        The numbers of each pass: of what computes it, and of what takes that apart, where anything
        does.
    places : tuple of tuple of int
        Where the common lines stand among those of each.
    """

    numbers: tuple[tuple[int, ...], tuple[int, ...]]
    places: tuple[Place, Place]

    def emit(self, passes: Mapping[int, Pass], apart: Mapping[int, Apart]) -> None:
        """Append the steps of both; passes are all that there are."""
        parts: list[dict[Place, list[tuple[int, ...]]]] = []
        for (number, *_), places in zip(self.numbers, self.places, strict=True):
            own: dict[Place, list[tuple[int, ...]]] = {}
            for cell in passes[number].in_order():
                own.setdefault(tuple([cell[place] for place in places]), []).append(cell)
            parts.append(own)
        for part in sorted(parts[0]):
            for (number, *others), own in zip(self.numbers, parts, strict=True):
                if others:
                    apart[others[0]].emit(passes[number], passes[others[0]], own[part])
                else:
                    passes[number].emit(own[part])


def nested(
    groups: Sequence[Group],
    lines: Sequence[tuple[int, ...]],
    apart: Mapping[int, Apart],
    together: Sequence[Sequence[int]],
    grouping: Grouping,
    budget: int,
) -> dict[int, Nested]:
    """Which passes are done part by part, by the number of the first one.

    Where all that is handed on from one to the next does not stay in memory, and a part of it does.
    The last ones come first: the first one may read stored tiles that all parts have a share of.
    """
    found: dict[int, Nested] = {}
    taken: set[int] = set()
    for before, after in reversed(list(itertools.pairwise(together))):
        if {*before, *after} & taken or len(before) != 2 or before[1] not in apart:
            continue
        if after[1:] and after[1] not in apart:
            continue
        if not after[1:] and waits(groups[after[0]], grouping):
            # Its cells come when they are taken.
            continue
        places = _common(groups, lines, before, after[0], grouping, budget)
        if places is not None:
            found[before[0]] = Nested((tuple(before), tuple(after)), places)
            taken |= {*before, *after}
    return found


def _common(
    groups: Sequence[Group],
    lines: Sequence[tuple[int, ...]],
    before: Sequence[int],
    after: int,
    grouping: Grouping,
    budget: int,
) -> tuple[Place, Place] | None:
    """The lines that two passes have in common, if a part of what is handed on stays in memory."""
    (left,), group = groups[before[1]].roots, groups[after]
    takers = grouping.consumers(left)
    if len(takers) != 1 or grouping.is_output(left) or left.nbytes * STAYS <= budget:
        return None
    taker = takers[0]
    is_whole = isinstance(taker, Select) and taker.view == View.whole(left.shape)
    if not is_whole or group.operation is not None or group.is_made_later:
        return None
    if not any(node is taker for node in group.computed):
        return None
    if any(isinstance(node, Scan) for i in (*before, after) for node in groups[i].computed):
        return None
    tiling = grouping.tiling
    nodes = (groups[before[0]].roots[0], left, taker)
    numbers = (before[0], before[1], after)
    common: list[tuple[int, ...]] = []
    parts = 1
    for own in zip(*map(tiling.axes.of, nodes), strict=True):
        is_cut = all(line in lines[i] for line, i in zip(own, numbers, strict=True))
        if is_cut and len({tiling.extent(line) for line in own}) == 1:
            common.append(own)
            parts *= tiling.count(own[0])
    if left.nbytes * STAYS > budget * parts:
        return None
    places = [
        tuple(lines[i].index(own[k]) for own in common) for k, i in ((0, before[0]), (2, after))
    ]
    return places[0], places[1]


def courses(
    groups: Sequence[Group], lines: Sequence[tuple[int, ...]], tiling: Tiling
) -> list[Course | None]:
    """How groups go through what they take, by their lines, the slowest first."""
    return [_course(group, own, tiling) for group, own in zip(groups, lines, strict=True)]


def together(
    groups: Sequence[Group],
    courses: Sequence[Course | None],
    apart: Mapping[int, Apart],
    *,
    alone: bool = False,
) -> list[list[int]]:
    """Which groups have their passes side by side: their numbers, in the order of the first ones.

    Parameters
    ----------
    groups : sequence of Group
        All of them.
    courses : sequence of Course or None
        How they go through what they take.
    apart : mapping of int to Apart
        Which of them take apart what others leave.
    alone : bool, optional
        Whether each of the others has a pass of its own.
    """
    found: list[list[int]] = []
    paired = {*apart, *(one.first for one in apart.values())}
    for number, (group, course) in enumerate(zip(groups, courses, strict=True)):
        if number in apart:
            next(members for members in found if members[0] == apart[number].first).append(number)
            continue
        for members in found if course is not None and not alone and number not in paired else ():
            other = None if members[0] in paired else courses[members[0]]
            is_now = groups[members[0]].stage == group.stage
            if is_now and other is not None and course is not None and course.goes_with(other):
                members.append(number)
                break
        else:
            found.append([number])
    return found


def side_by_side(courses: Sequence[Course | None], passes: Sequence[Pass]) -> None:
    """Append the steps of passes in the order of the tiles of what they all take."""
    known = [course for course in courses if course is not None]
    common = min(len(course.axes) for course in known)
    units = [max(course.units[i] for course in known) for i in range(common)]
    turn = -1 if passes[0].backwards else 1
    waiting: list[tuple[Place, int, Iterator[tuple[int, ...]]]] = []
    for number, (one, course) in enumerate(zip(passes, known, strict=True)):
        cells = one.cells()
        waiting.append((_turned(course.place(next(cells), units), turn), number, cells))
    while waiting:
        first = min(waiting)
        waiting.remove(first)
        place, number, cells = first
        for cell in cells:
            now = _turned(known[number].place(cell, units), turn)
            if now > place:
                waiting.append((now, number, cells))
                break


def _turned(place: Place, turn: int) -> Place:
    return tuple([turn * i for i in place])


def _course(group: Group, lines: Sequence[int], tiling: Tiling) -> Course | None:
    """How a group goes through the largest array that it takes, if its first lines are of that."""
    if group.operation is not None or group.is_made_later or not lines:
        return None
    if any(isinstance(node, Scan) for node in group.computed):
        return None
    taken = max(_taken(group), key=lambda taken: _size(taken[1]), default=None)
    if taken is None:
        return None
    node, operand, view = taken
    axes, starts, units = [], [], []
    for line in lines:
        own = tiling.axes.of(node)
        if line not in own:
            break
        found = _along(node, view, own.index(line), tiling.extent(line))
        if found is None:
            break
        source, begins = found
        whole = 1
        if isinstance(operand, Leaf) and operand.source.layout == "tiled":
            whole = operand.source.tile[source]
        step = -(-(begins[-1] - begins[0]) // max(len(begins) - 1, 1))
        axes.append(source)
        starts.append(begins)
        units.append(max(whole, step))
    if not axes:
        return None
    array = id(operand.source) if isinstance(operand, Leaf) else id(operand)
    return Course(array, tuple(axes), tuple(starts), tuple(units))


def _along(node: Node, view: View, axis: int, extent: int) -> tuple[int, Sequence[int]] | None:
    """Along which axis of the array the cells lie that go along one of a node; where each begins.

    None where that is along none, or where they go back.
    """
    source = view.axes[axis]
    if isinstance(source, NewAxis):
        return None
    if isinstance(node, Take) and axis == node.axis:
        if not isinstance(node.indices, Listed):
            return None
        indices = node.indices.values
        is_sorted = len(indices) > 0 and bool(np.all(indices[1:] >= indices[:-1]))
        return (source, indices[::extent].tolist()) if is_sorted else None
    span = view.span(axis)
    if span.step < 1 or span.length == 0:
        return None
    return source, range(span.start, span.start + span.step * span.length, span.step * extent)


def _taken(group: Group) -> Iterator[tuple[Node, Node, View]]:
    """What runs along with the cells of a group, what that is taken from, and as which view."""
    for node in group.inputs:
        yield node, node, node.view if isinstance(node, Leaf) else View.whole(node.shape)
    for node in group.computed:
        if isinstance(node, Select | Alias):
            (operand,), (view,) = node.operands, node.views
        elif isinstance(node, Take):
            (operand,) = node.operands
            view = View.whole(operand.shape)
        else:
            continue
        whole = isinstance(operand, Leaf) and operand.view == View.whole(operand.source.shape)
        if whole or not isinstance(operand, Leaf):
            yield node, operand, view


def _size(node: Node) -> int:
    """Bytes of what is stored; what is in memory is there anyway."""
    if isinstance(node, Leaf) and not isinstance(node.source, StoreSource):
        return 0
    return node.nbytes
