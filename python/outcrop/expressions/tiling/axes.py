"""Which axes of which nodes run together, and into which extents they are cut."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from outcrop.arrays.views import NewAxis, Span, View
from outcrop.expressions.graph.gathers import Alias, Join, Mosaic, Select, Take
from outcrop.expressions.graph.matrices import MatrixOperation
from outcrop.expressions.graph.merge_runs import Collect
from outcrop.expressions.graph.nodes import Contract, Expanded, Leaf, Lines, Map, Node, Reduce, Scan
from outcrop.expressions.graph.phases import Phase
from outcrop.expressions.graph.points import Points
from outcrop.expressions.graph.reshape import Reshape
from outcrop.expressions.graph.retile import Moved, Refolded
from outcrop.expressions.tiling.parts import RUN

__all__ = ["Axes", "Tiling"]

_SPARSE = 6
"""How many times as much may be loaded for a tile: nothing that is made of it is as large."""


class Axes:
    """The axes of nodes, joined to *lines*: axes that are cut alike, and run together.

    Parameters
    ----------
    nodes : sequence of Node
        Operands come before what is made of them.

    Notes
    -----
    Two axes of one node are never one line: where an expression would have it so (a product of a
    matrix with itself), the operand's axis stays a line of its own. Operations of linear algebra
    need such lines to be cut alike all the same.
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._parent: list[int] = []
        self._owners: list[set[int]] = []
        self._first: dict[int, int] = {}
        self.nodes = nodes
        self.extents: list[int] = []
        for node in nodes:
            self._first[id(node)] = len(self._parent)
            for n in node.shape:
                self._parent.append(len(self._parent))
                self._owners.append({id(node)})
                self.extents.append(n)
        for node in nodes:
            self._join(node)
        self._lines = {
            id(node): tuple(map(self._find, range(first, first + node.ndim)))
            for node, first in zip(nodes, self._first.values(), strict=True)
        }
        self._alike = self._cut_alike()

    def of(self, node: Node) -> tuple[int, ...]:
        """The line of each axis of a node."""
        return self._lines[id(node)]

    def alike(self, line: int) -> Sequence[int]:
        """The lines that are cut as this one is, which is among them."""
        return self._alike.get(line, (line,))

    def classes(self) -> list[Sequence[int]]:
        """Lines that are cut alike, where they are several."""
        return list(dict.fromkeys(self._alike.values()))

    def _cut_alike(self) -> dict[int, Sequence[int]]:
        found: dict[int, list[int]] = {}
        for node in self.nodes:
            if not isinstance(node, MatrixOperation):
                continue
            for (one, axis), (two, other) in node.alike():
                a, b = self.of(one)[axis], self.of(two)[other]
                first, second = found.get(a, [a]), found.get(b, [b])
                if a != b and first is not second:
                    first += second
                    found.update(dict.fromkeys(first, first))
        return {line: tuple(lines) for line, lines in found.items()}

    def mixed(self, node: Node, tiling: "Tiling") -> list[int]:
        """The operands of a node, by number, that would have to be cut in another way for it."""
        found: list[int] = []
        if not tiling.cuts:
            return found
        for i, (operand, pairs) in enumerate(_aligned[type(node)](node)):
            own, others = self.of(operand), self.of(node)
            lines = [
                (own[a], others[b] if isinstance(b, int) else self.of(b[0])[b[1]]) for a, b in pairs
            ]
            if any(x != y and (x in tiling.cuts or y in tiling.cuts) for x, y in lines):
                found.append(i)
        return found

    def _find(self, axis: int) -> int:
        parent = self._parent
        while parent[axis] != axis:
            parent[axis] = parent[parent[axis]]
            axis = parent[axis]
        return axis

    def _unite(self, node: Node, axis: int, other: Node, other_axis: int) -> None:
        a = self._find(self._first[id(node)] + axis)
        b = self._find(self._first[id(other)] + other_axis)
        if a == b or self.extents[a] != self.extents[b]:
            return
        if len(self._owners[a]) < len(self._owners[b]):
            a, b = b, a
        if not self._owners[a].isdisjoint(self._owners[b]):
            return
        self._owners[a] |= self._owners[b]
        self._owners[b] = set()
        self._parent[b] = a

    def _join(self, node: Node) -> None:
        if isinstance(node, MatrixOperation):
            for one, two in node.alike():
                self._unite(*one, *two)
            return
        for operand, pairs in _aligned[type(node)](node):
            for axis, other in pairs:
                if isinstance(other, int):
                    self._unite(operand, axis, node, other)
                else:
                    self._unite(operand, axis, *other)


_Pairs: TypeAlias = list[tuple[int, int | tuple[Node, int]]]
"""Axes of an operand, each with one of a node's own or of another operand's."""

_aligned: Phase[[], Iterable[tuple[Node, _Pairs]]] = Phase(
    "which axes of operands run together with a node's own, or with those of other operands"
)


@_aligned.of(Leaf, Alias, Moved, Refolded, MatrixOperation)
def _of_none(node: Node) -> Iterable[tuple[Node, _Pairs]]:
    # What is linear algebra's is cut alike, whether it is one line or not.
    return ()


@_aligned.of(Map)
def _of_map(node: Map) -> Iterator[tuple[Node, _Pairs]]:
    for operand in node.operands:
        missing = node.ndim - operand.ndim
        yield (
            operand,
            [
                (axis, axis + missing)
                for axis, n in enumerate(operand.shape)
                if n == node.shape[axis + missing]
            ],
        )


@_aligned.of(Reduce)
def _of_reduction(node: Reduce) -> Iterable[tuple[Node, _Pairs]]:
    rest = [a for a in range(node.operands[0].ndim) if a not in node.axes]
    return [(node.operands[0], [(source, axis) for axis, source in enumerate(rest)])]


@_aligned.of(Contract)
def _of_product(node: Contract) -> Iterator[tuple[Node, _Pairs]]:
    one = node.labels[0]
    for i, (operand, labels) in enumerate(zip(node.operands, node.labels, strict=True)):
        pairs: _Pairs = []
        for axis, label in enumerate(labels):
            if label in node.result:
                pairs.append((axis, node.result.index(label)))
            elif i == 1 and label in one:
                pairs.append((axis, (node.operands[0], one.index(label))))
        yield operand, pairs


@_aligned.of(Scan)
def _of_scan(node: Scan) -> Iterable[tuple[Node, _Pairs]]:
    return [(node.operands[0], [(axis, axis) for axis in range(node.ndim)])]


@_aligned.of(Lines)
def _of_lines(node: Lines) -> Iterable[tuple[Node, _Pairs]]:
    # Their own axes are whole, of the operand as well: they are cut with nothing.
    return [(node.operands[0], [(a, a) for a in range(node.ndim) if a not in node.axes])]


@_aligned.of(Expanded, Select, Mosaic)
def _of_views(node: Expanded | Select | Mosaic) -> Iterator[tuple[Node, _Pairs]]:
    for operand, view in zip(node.operands, node.views, strict=True):
        yield operand, _whole(view)


@_aligned.of(Reshape)
def _of_reshape(node: Reshape) -> Iterable[tuple[Node, _Pairs]]:
    return [(node.operands[0], list(node.unchanged()))]


@_aligned.of(Points)
def _of_points(node: Points) -> Iterable[tuple[Node, _Pairs]]:
    return [(node.operands[0], [(a, i) for i, a in enumerate(node.rest, 1)])]


@_aligned.of(Join, Take, Collect)
def _of_rows(node: Join | Take | Collect) -> Iterator[tuple[Node, _Pairs]]:
    for operand in node.operands:
        yield operand, [(axis, axis) for axis in range(node.ndim) if axis != node.axis]


def _whole(view: View) -> _Pairs:
    """Axes of what is viewed that are axes of the view, whole."""
    return [
        (source, axis)
        for axis, source in enumerate(view.axes)
        if not isinstance(source, NewAxis)
        and view.span(axis) == Span(0, 1, view.source_shape[source])
    ]


@dataclass
class Tiling:
    """Into which extents lines are cut; those that are not named are whole.

    Attributes
    ----------
    axes : Axes
        The lines.
    cuts : dict of int
        The extents of tiles along those that are cut.
    fixed : set of int
        Those whose extents follow from tiles in which results are stored.
    holds : bool
        Whether what is stored in larger tiles is loaded by whole ones, which stay in memory while
        it is the turn of their parts.
    by_rows : bool
        Whether what is held of files of elements is whole rows: memory has room for all of them.
    run : int
        Bytes of each row of files of elements that are held at least, otherwise.
    """

    axes: Axes
    cuts: dict[int, int] = field(default_factory=dict)
    fixed: set[int] = field(default_factory=set)
    holds: bool = False
    by_rows: bool = False
    run: int = RUN

    def extent(self, line: int) -> int:
        """Of a tile along a line."""
        return self.cuts.get(line, max(self.axes.extents[line], 1))

    def count(self, line: int) -> int:
        """Of tiles along a line."""
        return max(-(-self.axes.extents[line] // self.extent(line)), 1)

    def range(self, line: int, i: int) -> tuple[int, int]:
        """The first index of a tile along a line, and the one after its last."""
        extent = self.extent(line)
        return i * extent, min((i + 1) * extent, self.axes.extents[line])

    def tile(self, node: Node) -> tuple[int, ...]:
        """The shape of a node's tiles."""
        # As `extent`, without a call for each: this is asked of every node many times.
        cuts, extents = self.cuts, self.axes.extents
        return tuple([cuts.get(line) or max(extents[line], 1) for line in self.axes.of(node)])

    def source_lines(self, view: Leaf | Select) -> list[int | None]:
        """The line along each axis of what a view is of; None where that has one index."""
        found: list[int | None] = [None] * len(view.view.selectors)
        for axis, line in zip(view.view.axes, self.axes.of(view), strict=True):
            if not isinstance(axis, NewAxis):
                found[axis] = line
        return found

    def cells(self, leaf: Leaf, axis: int) -> int:
        """How many tiles along an axis of a view are parts of what is loaded in one piece."""
        line, source = self.axes.of(leaf)[axis], leaf.view.axes[axis]
        if not self.holds or line not in self.cuts or isinstance(source, NewAxis):
            return 1
        span = leaf.view.span(axis)
        own = self.extent(line) * span.step
        if leaf.source.layout != "tiled":
            is_row = leaf.source.layout == "row-major"
            is_fastest = source == (len(leaf.view.selectors) - 1 if is_row else 0)
            if is_fastest and self.by_rows:
                return self.count(line)
            return max(self.run // max(own * leaf.dtype.itemsize, 1), 1) if is_fastest else 1
        tile = leaf.source.tile[source]
        if own > 0 and span.low // tile == (span.low + span.extent - 1) // tile:
            # In one tile, all of it.
            return self.count(line)
        return tile // own if own > 0 and tile % own == 0 == span.start % tile else 1

    def is_held(self, leaf: Leaf) -> bool:
        """Whether it is loaded by larger pieces than its tiles are."""
        return any(self.cells(leaf, axis) > 1 for axis in range(leaf.ndim))

    def tile_bytes(self, node: Node) -> int:
        """Bytes of a node's tile."""
        return math.prod(self.tile(node)) * node.dtype.itemsize

    def loaded_bytes(self, node: Node) -> int:
        """The same, or a part of what is loaded for it: what lies between its elements, too."""
        own = self.tile_bytes(node)
        if not isinstance(node, Leaf | Select) or node.view.is_dense:
            return own
        if isinstance(node, Leaf) and node.source.layout == "function":
            return own
        pairs = zip(self.tile(node), map(node.view.span, range(node.ndim)), strict=True)
        loaded = math.prod((n - 1) * abs(s.step) + 1 for n, s in pairs) * node.dtype.itemsize
        return max(own, loaded // _SPARSE)

    def cut_axes(self, node: Node) -> list[int]:
        """The axes of a node whose lines are cut."""
        return [axis for axis, line in enumerate(self.axes.of(node)) if line in self.cuts]

    def cut_lines(self, lines: Iterable[int]) -> frozenset[int]:
        """Those of the lines that are cut."""
        return frozenset(line for line in lines if line in self.cuts)
