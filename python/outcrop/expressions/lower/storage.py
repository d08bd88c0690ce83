"""The arrays of a program: which tiles hold which elements of which nodes, and how they look."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from outcrop import _native
from outcrop.arrays.source import dtype_name, filler, storable
from outcrop.arrays.stored import StoreSource
from outcrop.arrays.views import NewAxis, Span
from outcrop.expressions.graph.cholesky import CholeskyInverse
from outcrop.expressions.graph.gathers import Gather
from outcrop.expressions.graph.ldl import LDLInOrder, LDLRotated
from outcrop.expressions.graph.lu import LUInOrder
from outcrop.expressions.graph.matrices import BlockProduct, MatrixOperation, straight
from outcrop.expressions.graph.nodes import Leaf, Node, Scan, Shape
from outcrop.expressions.kernels.tile_view import Look
from outcrop.expressions.tiling.fusion import Grouping
from outcrop.expressions.tiling.halos import Overlap, in_source, overlaps
from outcrop.expressions.tiling.result_tiles import stored_tile

__all__ = ["Storage", "Stored", "Wanted", "look_at_result"]


@dataclass(frozen=True)
class Wanted:
    """A node that is computed, and what it is computed to."""

    node: Node
    target: Any
    """A store, or the tile (or None) and attributes of a Zarr array that will be made."""


class Stored:
    """An array of the program, by tiles.

    Parameters
    ----------
    number : int
        Of the array.
    first : int
        The number of its first tile; the others follow in row-major order.
    shape, tile : sequence of int
        Of the array, and of its tiles.
    cells : sequence of int, optional
        How many cells a tile is there for, along each axis; one.
    """

    def __init__(
        self,
        numbers: tuple[int, int],
        shape: Sequence[int],
        tile: Sequence[int],
        cells: Sequence[int] | None = None,
    ) -> None:
        self.number, self.first = numbers
        self.counts = tuple(-(-n // t) for n, t in zip(shape, tile, strict=True))
        self.cells = tuple(cells) if cells is not None else (1,) * len(tile)

    @property
    def strides(self) -> list[int]:
        """How far numbers of tiles are apart that follow each other along each axis."""
        return [math.prod(self.counts[axis + 1 :]) for axis in range(len(self.counts))]

    @property
    def numbers(self) -> range:
        """Those of its tiles."""
        return range(self.first, self.first + math.prod(self.counts))

    def at(self, coords: Sequence[int]) -> int:
        """The number of a tile."""
        index = 0
        for n, i in zip(self.counts, coords, strict=True):
            index = index * n + i
        return self.first + index

    def coords(self, number: int) -> tuple[int, ...]:
        """Where the tile of a number is."""
        index, found = number - self.first, []
        for n in reversed(self.counts):
            index, i = divmod(index, n)
            found.append(i)
        return tuple(reversed(found))


class Numbering:
    """Which tile of an array each cell of a pass has.

    Parameters
    ----------
    first : int
        The number of that which the first cell has.
    tables : sequence of tuple
        Lines, by their place among those of a cell, each with what a cell's coordinate along it
        adds to the number.
    """

    def __init__(self, first: int, tables: Sequence[tuple[int, Sequence[int]]]) -> None:
        self._first, self._tables = first, tables

    def at(self, cell: Sequence[int]) -> int:
        """The number of the tile that a cell has."""
        number = self._first
        for place, table in self._tables:
            number += table[cell[place]]
        return number


class Storage:
    """The arrays of a program.

    Parameters
    ----------
    draft : _native.Draft
        The program, which is told of all arrays.
    wanted : sequence of Wanted
        What is stored.
    grouping : Grouping
        What is computed when.

    Attributes
    ----------
    results : list of Stored
        The arrays that wanted nodes are stored in.
    result_tiles : list of tuple
        The tiles of new arrays on disk, of which each tile of a program has one or several.
    """

    def __init__(self, draft: _native.Draft, wanted: Sequence[Wanted], grouping: Grouping) -> None:
        self._draft, self._grouping = draft, grouping
        self._tiling = grouping.tiling
        self._arrays: dict[int, Stored] = {}
        self._looks: dict[int, Look] = {}
        self._matrices: dict[int, tuple[Stored, Sequence[int | None]]] = {}
        self.results: list[Stored] = []
        self.result_tiles: list[Shape] = []
        operations = [n for n in grouping.nodes if isinstance(n, MatrixOperation) and n.size]
        for operation in operations:
            self._load(operation)
        for i, want in enumerate(wanted):
            name = f"result {i}" if len(wanted) > 1 else "result"
            self.results.append(self._result(name, want))
        self._overlaps = {
            id(leaf): overlap
            for overlap in overlaps(
                (n for n in grouping.nodes if isinstance(n, Leaf) and self._is_read(n)),
                self._tiling,
            )
            for leaf in overlap.leaves
        }
        self._hosts = self._inside_others()
        in_place = {id(grouping.made_in_place_of(node)) for node in operations}
        for node in grouping.nodes:
            if isinstance(node, Leaf):
                host = self._hosts.get(id(node), node)
                if isinstance(host.source, StoreSource) and self._is_read(host):
                    self._input(host, host.source)
                if host is not node and id(host) in self._arrays:
                    self._arrays[id(node)] = self._arrays[id(host)]
            elif id(node) in in_place:
                continue
            elif grouping.is_kept(node) and id(node) not in self._arrays:
                self._arrays[id(node)] = self._kept(node)
            if (operand := grouping.made_in_place_of(node)) is not None:
                self._arrays[id(operand)] = self._arrays[id(node)]
        self._carries = {
            id(node): self._carry(node)
            for node in grouping.nodes
            if isinstance(node, Scan) and self._axis_is_cut(node)
        }

    def matrix(self, matrix: Node, node: Node) -> tuple[Stored, Sequence[int | None]]:
        """The array that a node or one of its operands is a matrix in, and the axes of that."""
        if matrix is not node and id(matrix) in self._matrices:
            return self._matrices[id(matrix)]
        # Of a sum in parts, the first one is the whole, in the end.
        first = int(bool(self._grouping.sums(matrix)))
        return self._arrays[id(matrix)], range(first, first + matrix.ndim)

    def of(self, node: Node) -> Stored | None:
        """The array that a node has, None where it has none."""
        return self._arrays.get(id(node))

    def parts(self, node: Node) -> int:
        """How many parts there are of a sum; in the end, the first one is the whole."""
        return math.prod(self._tiling.count(line) for line in self._grouping.sums(node))

    def check_step(self, arrays: Sequence[int]) -> None:
        """Look whether memory has room for a step with tiles of arrays, by their numbers.

        Raises
        ------
        BudgetError
            It has not, whatever other steps there are.
        """
        self._draft.check(0, 0, 0, [arrays])

    def tile(self, node: Node, coords: Sequence[int], part: int = 0) -> int:
        """The number of a node's tile; of one of the parts of a sum."""
        stored = self._arrays[id(node)]
        if isinstance(node, Leaf):
            return stored.at(in_source(node.view, coords, 0))
        return stored.at((part, *coords) if self._grouping.sums(node) else coords)

    def numbering(self, node: Node, lines: Sequence[int], *, in_parts: bool = False) -> Numbering:
        """Which tile of a node each cell has; of a sum the whole, or the part that it leaves."""
        stored, sums = self._arrays[id(node)], self._grouping.sums(node)
        own: Sequence[int | None] = self._tiling.axes.of(node)
        if isinstance(node, Leaf):
            own = self._tiling.source_lines(node)
        steps = list(
            zip(own, stored.strides[bool(sums) :], stored.cells[bool(sums) :], strict=True)
        )
        apart = stored.strides[0] if sums else 0
        for line in reversed(sums if in_parts else ()):
            steps.append((line, apart, 1))
            apart *= self._tiling.count(line)
        return self._numbered(stored, steps, lines)

    def numbering_of_carry(self, node: Scan, lines: Sequence[int]) -> Numbering:
        """Which tile each cell has of those that a running sum hands on."""
        stored, axes = self._carries[id(node)], self._tiling.axes.of(node)
        rest = [line for axis, line in enumerate(axes) if axis != node.axis]
        steps = zip(rest, stored.strides, stored.cells, strict=True)
        return self._numbered(stored, list(steps), lines)

    def _numbered(
        self, stored: Stored, steps: Sequence[tuple[int | None, int, int]], lines: Sequence[int]
    ) -> Numbering:
        counts = self._tiling.count
        tables = [
            (lines.index(line), [i // cells * apart for i in range(counts(line))])
            for line, apart, cells in steps
            if line is not None and line in lines
        ]
        return Numbering(stored.first, tables)

    def inside(self, node: Node, coords: Sequence[int]) -> tuple[slice, ...]:
        """Which part a cell has of what the tile shows."""
        ranges = zip(coords, self.cells(node), self._tiling.tile(node), strict=True)
        return tuple([slice(i % n * t, (i % n + 1) * t) for i, n, t in ranges])

    def loaded(self, node: Node) -> Shape:
        """The shape of what is in memory in one piece: a tile, of one cell or of several."""
        return tuple(
            [n * t for n, t in zip(self.cells(node), self._tiling.tile(node), strict=True)]
        )

    def cells(self, node: Node) -> Shape:
        """How many cells a tile of a node in memory is there for, along each axis."""
        stored = self._arrays.get(id(node))
        if stored is None or not isinstance(node, Leaf):
            return (1,) * node.ndim
        axes = node.view.axes
        return tuple([1 if isinstance(a, NewAxis) else stored.cells[a] for a in axes])

    def look(self, node: Node) -> Look:
        """What shows a tile of a node."""
        found = self._looks.get(id(node))
        if found is None:
            if isinstance(node, Leaf):
                overlap, host = self._overlaps.get(id(node)), self._hosts.get(id(node))
                if host is not None:
                    found = _look_inside(node, host)
                else:
                    found = _look_at_view(node) if overlap is None else _look_at_part(node, overlap)
            else:
                found = _look_at(node, in_parts=bool(self._grouping.sums(node)))
            self._looks[id(node)] = found
        return found

    def look_at_carry(self, node: Scan) -> Look:
        """What shows a tile that a running sum hands on."""
        return _look_at(node, in_parts=False)

    def _is_read(self, leaf: Leaf) -> bool:
        """Whether it has tiles of its own yet to come."""
        return id(leaf) not in self._arrays and self._grouping.is_taken(leaf)

    def _inside_others(self) -> dict[int, Leaf]:
        """Views whose elements are in the tiles of another view that is read whenever they are."""
        read: dict[int, list[int]] = {}
        for i, group in enumerate(self._grouping.groups):
            for node in group.inputs:
                read.setdefault(id(node), []).append(i)
        gathers = (node for node in self._grouping.nodes if isinstance(node, Gather))
        gathered = {id(operand) for node in gathers for operand in node.operands}
        taken = {*self._overlaps, *self._arrays, *gathered}
        stored: dict[int, list[Leaf]] = {}
        for node in self._grouping.nodes:
            if not isinstance(node, Leaf) or not isinstance(node.source, StoreSource):
                continue
            if id(node) in read and id(node) not in taken and node.size:
                stored.setdefault(id(node.source), []).append(node)
        found: dict[int, Leaf] = {}
        for leaves in stored.values():
            leaves.sort(key=lambda leaf: -leaf.size)
            for i, leaf in enumerate(leaves):
                for host in leaves[:i]:
                    together = set(read[id(leaf)]) <= set(read[id(host)])
                    if together and id(host) not in found and self._is_inside(leaf, host):
                        found[id(leaf)] = host
                        break
        return found

    def _is_inside(self, leaf: Leaf, host: Leaf) -> bool:
        """Whether each tile of a view is a part of that tile of another one at the same place.

        Of a matrix and its transpose, that is the place in what is stored.
        """
        cuts, extent = self._tiling.cuts, self._tiling.extent
        lines, others = self._tiling.source_lines(leaf), self._tiling.source_lines(host)
        for axis, (own, whole) in enumerate(
            zip(leaf.view.selectors, host.view.selectors, strict=True)
        ):
            if isinstance(whole, Span) and whole.step != 1:
                return False
            line, other = lines[axis], others[axis]
            if other in cuts or line in cuts:
                if line is None or other is None or own != whole or extent(line) != extent(other):
                    return False
                continue
            (low, n), (first, m) = _ends(own), _ends(whole)
            if not (first <= low and low + n <= first + m) or (
                isinstance(own, Span) and own.step < 0
            ):
                return False
        return True

    def _load(self, operation: MatrixOperation) -> None:
        """Declare what an operation of linear algebra loads as it is, or converted."""
        for operand in operation.operands:
            found = straight(operand)
            if found is None or id(operand) in self._matrices:
                continue
            leaf, view, tile = found.leaf, found.leaf.view, self._tiling.tile(operand)
            axes: Sequence[int | None] = range(operand.ndim)
            if isinstance(leaf.source, StoreSource):
                store, (start, shape) = leaf.source.store, view.box
                axes = [None if isinstance(a, NewAxis) else a for a in view.axes]
                tile = in_source(view, tile, 1)
            else:
                fill = filler(leaf.source, view)
                name, start, shape = found.dtype.name, (0,) * operand.ndim, operand.shape
                store = _native.function_store(shape, name, tile, fill, leaf.source.calls_back)
            dtype, conjugate = found.dtype.name, found.conjugate
            numbers = self._draft.matrix(leaf.name, store, start, shape, tile, dtype, conjugate)
            stored = Stored(numbers, shape, tile)
            self._matrices[id(operand)] = stored, axes
            if leaf is operand and isinstance(leaf.source, StoreSource):
                self._arrays[id(leaf)] = stored

    def _initial(self, node: Node) -> int | None:
        """The array whose tiles those of a node begin as, which lies as it does."""
        # What no step changes has to be written as well, and so is copied; the inverse is all new.
        others = BlockProduct | CholeskyInverse | LUInOrder | LDLRotated | LDLInOrder
        if not isinstance(node, MatrixOperation) or isinstance(node, others):
            return None
        if (found := self._matrices.get(id(node.operands[-1]))) is None:
            return None
        stored, axes = found
        is_plain = len(stored.counts) == node.ndim and list(axes) == list(range(node.ndim))
        return stored.number if is_plain else None

    def _axis_is_cut(self, node: Scan) -> bool:
        return self._tiling.axes.of(node)[node.axis] in self._tiling.cuts

    def _result(self, name: str, want: Wanted) -> Stored:
        node, tile = want.node, self._tiling.tile(want.node)
        dtype, initial = storable(node.dtype), self._initial(node)
        target, own = want.target, tile
        if isinstance(target, tuple) and target[0] is None:
            # What linear algebra changes is loaded again, as it was stored.
            own = tile if isinstance(node, MatrixOperation) else stored_tile(node, tile)
            target = own, target[1]
        numbers = self._draft.output(name, target, dtype, node.shape, tile, initial)
        stored = Stored(numbers, node.shape, tile)
        self.result_tiles.append(own)
        if not self._grouping.sums(node):
            self._arrays.setdefault(id(node), stored)
        return stored

    def _kept(self, node: Node) -> Stored:
        shape, tile = node.shape, self._tiling.tile(node)
        if self._grouping.sums(node):
            return self._temporary(node, (self.parts(node), *shape), (1, *tile))
        return self._temporary(node, shape, tile)

    def _carry(self, node: Scan) -> Stored:
        rest = [axis for axis in range(node.ndim) if axis != node.axis]
        tile = self._tiling.tile(node)
        return self._temporary(node, [node.shape[a] for a in rest], [tile[a] for a in rest])

    def _temporary(self, node: Node, shape: Sequence[int], tile: Sequence[int]) -> Stored:
        dtype, initial = storable(node.dtype), self._initial(node)
        numbers = self._draft.temporary(node.name, dtype, shape, tile, initial)
        return Stored(numbers, shape, tile)

    def _input(self, node: Leaf, source: StoreSource) -> None:
        view, tile = node.view, self._tiling.tile(node)
        (start, shape), leaves, overlap = view.box, [node], (0,) * len(view.selectors)
        own = self._overlaps.get(id(node))
        if own is not None:
            leaves, start, overlap = list(own.leaves), own.low, own.extent
        steps = [view.span(axis).step for axis in range(node.ndim)]
        cells = [1] * node.ndim
        if own is None:
            cells = [self._tiling.cells(node, axis) for axis in range(node.ndim)]
        sizes = [max(n * t * step, 1) for n, t, step in zip(cells, tile, steps, strict=True)]
        extents = in_source(view, sizes, 1)
        whole = [n + more for n, more in zip(shape, overlap, strict=True)]
        numbers = self._draft.input(node.name, source.store, start, whole, extents, overlap)
        stored = Stored(numbers, shape, extents, in_source(view, cells, 1))
        self._arrays |= {id(leaf): stored for leaf in leaves}


def _look_at_view(leaf: Leaf) -> Look:
    view = leaf.view
    sources = [None if isinstance(source, NewAxis) else source for source in view.axes]
    axes = tuple([(s, 1 if s is None else view.span(a).step, 0) for a, s in enumerate(sources)])
    if view.is_box and all(isinstance(s, Span) for s in view.selectors):
        return Look(_as_it_is, axes)
    # A tile has the elements between those that steps select, too.
    key = [slice(None, None, s.step) if isinstance(s, Span) else 0 for s in view.selectors]
    return Look(view.arranger(key), axes if all(step > 0 for _, step, _ in axes) else None)


def _look_at_part(leaf: Leaf, overlap: Overlap) -> Look:
    view, first = leaf.view, overlap.first(leaf)
    key = [
        slice(a, a - n or None) if isinstance(s, Span) else a
        for s, a, n in zip(view.selectors, first, overlap.extent, strict=True)
    ]
    axes = tuple([(None, 1, 0) if isinstance(s, NewAxis) else (s, 1, first[s]) for s in view.axes])
    # Of axes that the view does not have, a tape takes what comes first.
    is_said = all(isinstance(s, Span) or not n for s, n in zip(view.selectors, first, strict=True))
    return Look(view.arranger(key), axes if is_said else None)


def _look_inside(leaf: Leaf, host: Leaf) -> Look:
    view = leaf.view
    pairs = list(zip(view.selectors, host.view.selectors, strict=True))
    first = [_ends(own)[0] - _ends(whole)[0] for own, whole in pairs]
    key = [
        slice(a, None if own == whole else a + own.extent, own.step) if isinstance(own, Span) else a
        for a, (own, whole) in zip(first, pairs, strict=True)
    ]
    axes = tuple(
        [
            (None, 1, 0) if isinstance(s, NewAxis) else (s, view.span(i).step, first[s])
            for i, s in enumerate(view.axes)
        ]
    )
    # Of axes that the view does not have, a tape takes what comes first.
    is_said = all(isinstance(s, Span) or not a for s, a in zip(view.selectors, first, strict=True))
    return Look(view.arranger(key), axes if is_said else None)


def _ends(selector: Span | int) -> tuple[int, int]:
    """The first index that is selected, and how many there are from that to the last one."""
    return (selector.low, selector.extent) if isinstance(selector, Span) else (selector, 1)


def look_at_result(node: Node) -> Look:
    """What shows a tile of what a node is stored to, as the elements that it has there."""
    return Look(_as_it_is, tuple([(axis, 1, 0) for axis in range(node.ndim)]))


def _look_at(node: Node, *, in_parts: bool) -> Look:
    dtype, other = node.dtype, dtype_name(node.dtype) != storable(node.dtype)
    axes = tuple([(axis + in_parts, 1, 0) for axis in range(node.ndim)])
    if in_parts:
        show = (lambda tile: tile[0, ...].view(dtype)) if other else (lambda tile: tile[0, ...])
        return Look(show, axes)
    return Look((lambda tile: tile.view(dtype)) if other else _as_it_is, axes)


def _as_it_is(tile: NDArray[Any]) -> NDArray[Any]:
    return tile
