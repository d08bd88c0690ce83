"""Nodes whose elements come from elsewhere in their operands, tile by tile."""

import itertools
from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from outcrop.arrays.views import NewAxis, Span, View
from outcrop.expressions.graph.indices import Indices
from outcrop.expressions.graph.nodes import Leaf, Node, Shape, only

__all__ = ["Alias", "Box", "Copy", "Gather", "Join", "Mosaic", "Select", "Share", "Take", "by_tile"]

Box: TypeAlias = tuple[tuple[int, int], ...]
"""For each axis the first index, and the one after the last."""

Copy: TypeAlias = Callable[[NDArray[Any], NDArray[Any]], None]

_CHUNK = 256 << 10
"""Bytes that are picked from a tile at once."""


@dataclass(frozen=True, slots=True)
class Share:
    """What a box of a gathering node takes from one tile of an operand.

    Attributes
    ----------
    operand : int
        The number of the operand.
    coords : tuple of int
        The tile's place in its grid.
    box : Box
        What of the operand is needed, all of it in this tile.
    copy : callable
        What copies to the elements of the node's box, given also those of `box`.
    """

    operand: int
    coords: tuple[int, ...]
    box: Box
    copy: Copy


def by_tile(ends: tuple[int, int], extent: int) -> list[tuple[int, tuple[int, int]]]:
    """The tiles of an extent that a range of indices is in, and which part of it is in each."""
    low, high = ends
    return [
        (i, (max(i * extent, low), min((i + 1) * extent, high)))
        for i in range(low // extent, -(-high // extent))
    ]


class Gather(Node):
    """Elements from elsewhere in the operands."""

    __slots__ = ()

    @abstractmethod
    def shares(self, box: Box, tiles: Sequence[Shape]) -> Iterator[Share]:
        """What a box is made of, where operands have tiles of these shapes."""


class _Views(Gather):
    """Boxes of the node are made of views of operands."""

    __slots__ = ()

    @abstractmethod
    def boxes(self, box: Box) -> "Iterator[tuple[int, View, tuple[slice, ...]]]":
        """The number of an operand, a view of it, and where in the box its elements go."""

    def shares(self, box: Box, tiles: Sequence[Shape]) -> Iterator[Share]:
        for number, view, target in self.boxes(box):
            pairs = zip(view.selectors, tiles[number], strict=True)
            for parts in itertools.product(*[_by_tile(s, extent) for s, extent in pairs]):
                # There may be very many: what is not told apart before is worked out when it is
                # copied.
                coords = tuple([part.coord for part in parts])
                needed = tuple([part.needed for part in parts])
                yield Share(number, coords, needed, partial(_copy, view, target, parts))


class _Part(NamedTuple):
    """What of a selector is in one tile.

    Attributes
    ----------
    coord : int
        Which tile.
    needed : tuple of int
        The first index there, and the one after the last.
    selector : int or Span
        What selects it.
    place : tuple of int
        Which of the selected ones these are.
    """

    coord: int
    needed: tuple[int, int]
    selector: int | Span
    place: tuple[int, int]


@lru_cache(maxsize=1 << 12)
def _by_tile(selector: int | Span, extent: int) -> Sequence[_Part]:
    """The parts of a selector that are in the tiles of an extent.

    Cells beside one another have most of them in common.
    """
    if not isinstance(selector, Span):
        return [_Part(selector // extent, (selector, selector + 1), selector, (0, 1))]
    found = []
    low = selector.low
    for i in range(low // extent, -(-(low + selector.extent) // extent)):
        first, last = selector.within(i * extent, (i + 1) * extent)
        if first < last:
            part = selector.part(first, last - first)
            found.append(_Part(i, (part.low, part.low + part.extent), part, (first, last)))
    return found


def _copy(
    view: View,
    target: Sequence[slice],
    parts: Sequence[_Part],
    out: NDArray[Any],
    block: NDArray[Any],
) -> None:
    """Copy the part of a view that is in a tile to where it goes."""
    place: list[Any] = []
    for to, source in zip(target, view.axes, strict=True):
        if isinstance(source, NewAxis):
            place.append(to)
        else:
            first, last = parts[source].place
            place.append(slice(to.start + first, to.start + last))
    part = View(view.source_shape, tuple([part.selector for part in parts]), view.axes)
    np.copyto(out[(*place, ...)], part.applier()(block))


def _extents(box: Box) -> list[int]:
    return [high - low for low, high in box]


class Select(_Views):
    """A view of something that has to be computed first."""

    __slots__ = ("view",)

    view: View

    def _made_of(self, operands: Sequence[Node]) -> Node:
        return Select.of(operands[0], self.view)

    @classmethod
    def of(cls, operand: Node, view: View) -> "Select":
        """The node of a view."""
        node = cls()
        node.operands, node.view = (operand,), view
        node.shape, node.dtype = view.shape, operand.dtype
        return only((cls, id(operand), view), node)

    @property
    def views(self) -> tuple[View, ...]:
        """The view, as of each of several operands."""
        return (self.view,)

    def _views_of(self) -> frozenset[tuple[int, View]] | None:
        return frozenset([(id(self.operands[0]), self.view)])

    def boxes(self, box: Box) -> Iterator[tuple[int, View, tuple[slice, ...]]]:
        shape = _extents(box)
        part = self.view.part([low for low, _ in box], shape)
        yield 0, part, tuple(slice(0, n) for n in shape)


class Alias(_Views):
    """The same elements in a place of their own, where an expression needs them cut in two ways."""

    __slots__ = ()

    @property
    def name(self) -> str:
        return "copy in other tiles"

    def _made_of(self, operands: Sequence[Node]) -> Node:
        return Alias.kept(operands[0])

    @classmethod
    def of(cls, operand: Node) -> Node:
        """A new node. What is stored, or in memory, is simply there twice."""
        if isinstance(operand, Leaf):
            leaf = Leaf()
            leaf.source, leaf.view, leaf.operands = operand.source, operand.view, ()
            leaf.shape, leaf.dtype = operand.shape, operand.dtype
            return leaf
        return cls.kept(operand)

    @classmethod
    def kept(cls, operand: Node) -> "Alias":
        """A new node, whose elements are copied whatever they are."""
        node = cls()
        node.operands, node.shape, node.dtype = (operand,), operand.shape, operand.dtype
        return node

    @classmethod
    def shared(cls, operand: Node) -> "Alias":
        """The one node that is there for all who want the elements in a place of their own."""
        return only((cls, id(operand)), cls.kept(operand))

    @property
    def views(self) -> tuple[View, ...]:
        """The view of the operand: all of it."""
        return (View.whole(self.shape),)

    def boxes(self, box: Box) -> Iterator[tuple[int, View, tuple[slice, ...]]]:
        shape = _extents(box)
        part = View.whole(self.shape).part([low for low, _ in box], shape)
        yield 0, part, tuple(slice(0, n) for n in shape)


class Join(_Views):
    """Arrays one after the other along an axis.

    Attributes
    ----------
    axis : int
        Which.
    starts : tuple of int
        Where each of them begins.
    """

    __slots__ = ("axis", "starts")

    axis: int
    starts: tuple[int, ...]

    def _made_of(self, operands: Sequence[Node]) -> Node:
        return Join.of(operands, self.axis)

    @classmethod
    def of(cls, operands: Sequence[Node], axis: int) -> "Join":
        """The node of arrays of one type."""
        node = cls()
        node.operands, node.axis = tuple(operands), axis
        *starts, extent = itertools.accumulate([o.shape[axis] for o in operands], initial=0)
        shape = list(operands[0].shape)
        shape[axis] = extent
        node.starts, node.shape, node.dtype = tuple(starts), tuple(shape), operands[0].dtype
        return only((cls, axis, *map(id, operands)), node)

    @property
    def name(self) -> str:
        return "concatenate"

    def boxes(self, box: Box) -> Iterator[tuple[int, View, tuple[slice, ...]]]:
        axis, shape = self.axis, _extents(box)
        begin, end = box[axis]
        # There may be thousands, of which a box is in few.
        for i in range(max(bisect_right(self.starts, begin) - 1, 0), len(self.operands)):
            operand, first = self.operands[i], self.starts[i]
            if first >= end:
                break
            low, high = max(begin, first), min(end, first + operand.shape[axis])
            if low < high:
                at, extents = [n for n, _ in box], list(shape)
                at[axis], extents[axis] = low - first, high - low
                to = [slice(0, n) for n in shape]
                to[axis] = slice(low - begin, high - begin)
                yield i, View.whole(operand.shape).part(at, extents), tuple(to)


class Mosaic(_Views):
    """Views of operands, each in a box of its own: together they are all of the node."""

    __slots__ = ("starts", "views")

    views: tuple[View, ...]
    starts: tuple[Shape, ...]

    def _made_of(self, operands: Sequence[Node]) -> Node:
        node = type(self)()
        node.operands, node.views, node.starts = tuple(operands), self.views, self.starts
        node.shape, node.dtype = self.shape, self.dtype
        return only((type(self), self.views, self.starts, *map(id, operands)), node)

    @classmethod
    def of(cls, node: Node) -> "Mosaic | None":
        """What is joined of views, or of what is joined, as views of what these are of; or None."""
        if not isinstance(node, Join) or not any(
            isinstance(operand, Select | Join | Mosaic) for operand in node.operands
        ):
            return None
        pieces: list[tuple[Node, View, Shape]] = []
        place = 0
        for operand in node.operands:
            shift = tuple(place if axis == node.axis else 0 for axis in range(node.ndim))
            for source, view, start in _pieces(operand):
                at = tuple(a + b for a, b in zip(start, shift, strict=True))
                pieces.append((source, view, at))
            place += operand.shape[node.axis]
        made = cls()
        made.operands = tuple(source for source, _, _ in pieces)
        made.views = tuple(view for _, view, _ in pieces)
        made.starts = tuple(start for _, _, start in pieces)
        made.shape, made.dtype = node.shape, node.dtype
        return only((cls, made.views, made.starts, *map(id, made.operands)), made)

    @property
    def name(self) -> str:
        return "concatenate"

    def boxes(self, box: Box) -> Iterator[tuple[int, View, tuple[slice, ...]]]:
        for i, (view, start) in enumerate(zip(self.views, self.starts, strict=True)):
            common = [
                (max(low, a), min(high, a + n))
                for (low, high), a, n in zip(box, start, view.shape, strict=True)
            ]
            if all(low < high for low, high in common):
                at = [low - a for (low, _), a in zip(common, start, strict=True)]
                ends = zip(common, box, strict=True)
                to = tuple(slice(low - first, high - first) for (low, high), (first, _) in ends)
                yield i, view.part(at, _extents(tuple(common))), to


def _pieces(node: Node) -> list[tuple[Node, View, Shape]]:
    """The views that a node is put together from, and where they begin."""
    zeros = (0,) * node.ndim
    match node:
        case Select():
            return [(node.operands[0], node.view, zeros)]
        case Mosaic():
            return list(zip(node.operands, node.views, node.starts, strict=True))
        case Join():
            pieces, place = [], 0
            for operand in node.operands:
                start = (*zeros[: node.axis], place, *zeros[node.axis + 1 :])
                pieces.append((operand, View.whole(operand.shape), start))
                place += operand.shape[node.axis]
            return pieces
    return [(node, View.whole(node.shape), zeros)]


class Take(Gather):
    """Elements at indices along an axis."""

    __slots__ = ("axis", "indices")

    axis: int
    indices: Indices

    def _made_of(self, operands: Sequence[Node]) -> Node:
        return Take.of(operands[0], self.indices, self.axis)

    @classmethod
    def of(cls, operand: Node, indices: Indices, axis: int) -> "Take":
        """The node of what is at indices."""
        node = cls()
        node.operands, node.indices, node.axis = (operand,), indices, axis
        shape = list(operand.shape)
        shape[axis] = indices.length
        node.shape, node.dtype = tuple(shape), operand.dtype
        return only((cls, id(operand), indices, axis), node)

    def shares(self, box: Box, tiles: Sequence[Shape]) -> Iterator[Share]:
        axis, (tile,), (operand,) = self.axis, tiles, self.operands
        others: list[list[tuple[int, tuple[int, int]]]] = []
        for other, (low, high) in enumerate(box):
            t = tile[other]
            if other == axis:
                blocks = self.indices.blocks(low, high, t)
                n = operand.shape[axis]
                others.append([(i, (i * t, min((i + 1) * t, n))) for i in blocks])
            else:
                others.append(by_tile((low, high), t))
        for chosen in itertools.product(*others):
            coords, needed = tuple(i for i, _ in chosen), tuple(ends for _, ends in chosen)
            yield Share(0, coords, needed, partial(self._copy, box, needed))

    def _copy(self, box: Box, needed: Box, out: NDArray[Any], block: NDArray[Any]) -> None:
        axis, indices = self.axis, self.indices
        begin, end = box[axis]
        low, high = needed[axis]
        place = [slice(a - n, b - n) for (a, b), (n, _) in zip(needed, box, strict=True)]
        place[axis] = slice(None)
        target = np.moveaxis(out[tuple(place)], axis, 0)
        source = np.moveaxis(block, axis, 0)
        row = max(source[:1].nbytes, source.itemsize)
        step = max(_CHUNK // row, 1)
        for at in range(begin, end, step):
            wanted = indices.between(at, min(at + step, end)) - low
            here = np.flatnonzero((wanted >= 0) & (wanted < high - low))
            if not len(here):
                continue
            to = here + (at - begin)
            target[_run(to)] = source[_run(wanted[here])]


def _run(indices: NDArray[np.int64]) -> "slice | NDArray[np.int64]":
    """Indices as a slice, where they follow one another."""
    first, last = int(indices[0]), int(indices[-1])
    follows = last - first == len(indices) - 1 and bool((np.diff(indices) == 1).all())
    return slice(first, last + 1) if follows else indices
