"""Reshaping: which elements of an operand's tile are which of a box of the result.

The axes of operand and result fall into groups, *folds*, that have the same elements in the same
order, and as few axes as possible. Inside a fold an element is known by its place in that order,
and the place has digits, as a number has: where the extents of one side divide those of the other
one, each axis is some of the digits, and an interval of an axis is a few boxes of digits. What two
boxes of digits have in common is copied in one go. Where extents do not divide each other, the
elements of the operand's tile are taken run by run, as axes of their own, or one by one where runs
are short.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from outcrop.arrays.views import NewAxis, Span, View
from outcrop.expressions.graph.gathers import Box, Gather, Share, by_tile
from outcrop.expressions.graph.nodes import Node, Shape, only

__all__ = ["Fold", "Reshape", "folds_of"]

Integers = NDArray[np.int64]

Digits: TypeAlias = tuple[tuple[int, int], ...]
"""For each digit the first value, and the one after the last."""

_SHORT = 64
"""Elements of a run that are not worth a copy of their own."""

_AT_ONCE = 1 << 15
"""Elements whose places are in memory at once."""


@dataclass(frozen=True)
class _Side:
    """A part of one side of a fold: ``array[key].reshape(dims)[inner]``, for its axes."""

    key: tuple[slice, ...]
    dims: tuple[int, ...]
    inner: tuple[slice, ...]


@dataclass(frozen=True)
class _Piece:
    """Elements that are copied in one go; where they are a run, that is unfolded to `unfolded`."""

    source: _Side
    target: _Side
    unfolded: tuple[tuple[int, ...], tuple[slice, ...]]


@dataclass(frozen=True)
class Fold:
    """Some axes of an operand, and the axes of a result that have the same elements.

    Attributes
    ----------
    source, target : tuple of int
        Extents of the axes.
    source_first, target_first : int
        The first index along the first axis of either side: places are counted from index 0.
    """

    source: Shape
    target: Shape
    source_first: int = 0
    target_first: int = 0

    @property
    def is_trivial(self) -> bool:
        """Whether it is one and the same axis."""
        return self.source == self.target and self.source_first == self.target_first

    @cached_property
    def _weights(self) -> tuple[list[int], list[int]]:
        return _places(self.source), _places(self.target)

    @cached_property
    def _digits(self) -> list[int] | None:
        """The weights of digits, None where extents do not divide each other."""
        weights = sorted({*self._weights[0], *self._weights[1]}, reverse=True)
        divide = all(a % b == 0 for a, b in itertools.pairwise(weights))
        return weights if divide else None

    def needed(self, target: Box, tile: Shape) -> dict[tuple[int, ...], Box]:
        """Which tiles of the operand a box of the result needs, and what of each."""
        found: dict[tuple[int, ...], Box] = {}
        for box in self._sources(_shifted(target, self.target_first), tile):
            own = _shifted(box, -self.source_first)
            parts = [by_tile(ends, extent) for ends, extent in zip(own, tile, strict=True)]
            for chosen in itertools.product(*parts):
                coords = tuple([i for i, _ in chosen])
                part = tuple([ends for _, ends in chosen])
                known = found.get(coords)
                if known is not None:
                    part = tuple(
                        [(min(a, c), max(b, d)) for (a, b), (c, d) in zip(known, part, strict=True)]
                    )
                found[coords] = part
        return found

    def _sources(self, target: Box, tile: Shape) -> Iterator[Box]:
        """Boxes of the operand that hold all elements of a box of the result.

        No tile of it is inside of them that holds none of these.
        """
        sources, targets = self._weights
        if self._digits is None:
            low = sum(n * w for (n, _), w in zip(target, targets, strict=True))
            high = sum((n - 1) * w for (_, n), w in zip(target, targets, strict=True))
            yield from _boxes(low, high + 1, sources)
            return
        groups = _grouped(self._digits, sources)
        for digits in _product(target, targets, self._digits):
            parts = _distributed(digits, groups)
            yield from itertools.product(*map(_intervals, parts, groups, tile))

    def pieces(self, source: Box, target: Box) -> Iterator[_Piece]:
        """What a box of the operand and one of the result have in common."""
        absolute = _shifted(source, self.source_first), _shifted(target, self.target_first)
        if self._digits is None:
            yield from self._runs(*absolute)
            return
        sides = []
        for box, weights in zip(absolute, self._weights, strict=True):
            sides.append((box, _grouped(self._digits, weights), weights))
        (source, own, source_weights), (target, other, target_weights) = sides
        parts = list(_product(source, source_weights, self._digits))
        for wanted in _product(target, target_weights, self._digits):
            for part in parts:
                both = _common(part, wanted)
                if both is not None:
                    left = _side(source, part, both, own)
                    right = _side(target, wanted, both, other)
                    yield _Piece(left, right, (_lengths(both), (slice(None),) * len(both)))

    def is_in_short_runs(self, source: Box) -> bool:
        """Whether few of the elements of a box of the operand follow one another."""
        lengths = _lengths(source)
        return self._digits is None and math.prod(lengths[self._split(source) :]) < _SHORT

    def elements(self, source: Box, target: Box) -> tuple[list[Integers], list[Integers]]:
        """The elements that two boxes have in common: their indices in either one, by axes."""
        sources, targets = self._weights
        lengths = _lengths(source)
        begin = source[0][0] + self.source_first
        firsts = [begin, *(low for low, _ in source[1:])]
        places = np.zeros(lengths, np.int64)
        for axis, (first, n, weight) in enumerate(zip(firsts, lengths, sources, strict=True)):
            own = np.arange(first, first + n) * weight
            places += own.reshape((-1,) + (1,) * (len(lengths) - axis - 1))
        rest = places.reshape(-1)
        here = np.ones(rest.shape, bool)
        found: list[Integers] = []
        for (low, high), weight in zip(_shifted(target, self.target_first), targets, strict=True):
            index, rest = np.divmod(rest, weight)
            here &= (index >= low) & (index < high)
            found.append(index - low)
        return (
            list(np.unravel_index(np.flatnonzero(here), lengths)),
            [index[here] for index in found],
        )

    def _split(self, source: Box) -> int:
        """The last axis of which there is only a part: what is before it is taken one by one."""
        partial = [a for a in range(1, len(source)) if source[a] != (0, self.source[a])]
        return partial[-1] if partial else 0

    def _runs(self, source: Box, target: Box) -> Iterator[_Piece]:
        sources, targets = self._weights
        split = self._split(source)
        for outer in itertools.product(*(range(a, b) for a, b in source[:split])):
            low, high = source[split]
            base = sum(i * w for i, w in zip(outer, sources, strict=False))
            low, high = base + low * sources[split], base + high * sources[split]
            key = (
                *(slice(i - a, i - a + 1) for i, (a, _) in zip(outer, source, strict=False)),
                *(slice(None) for _ in source[split:]),
            )
            for part in _boxes(low, high, targets):
                both = _common(part, target)
                if both is None:
                    continue
                begin, end = _interval(part, targets)
                run = _Side(key, (high - low,), (slice(begin - low, end - low),))
                inner = tuple(
                    slice(a - c, b - c) for (a, b), (c, _) in zip(both, part, strict=True)
                )
                place = tuple(
                    slice(a - c, b - c) for (a, b), (c, _) in zip(both, target, strict=True)
                )
                full = tuple(slice(None) for _ in both)
                yield _Piece(run, _Side(place, _lengths(both), full), (_lengths(part), inner))


def _places(extents: Shape) -> list[int]:
    """What a step along each axis is worth."""
    return [math.prod(extents[i + 1 :]) for i in range(len(extents))]


def _shifted(box: Box, by: int) -> Box:
    """With other indices along the first axis."""
    return ((box[0][0] + by, box[0][1] + by), *box[1:])


def _lengths(box: Box) -> tuple[int, ...]:
    return tuple(high - low for low, high in box)


def _common(one: Digits, other: Digits) -> Digits | None:
    both = tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(one, other, strict=True))
    return both if all(low < high for low, high in both) else None


def _boxes(low: int, high: int, weights: Sequence[int]) -> list[Digits]:
    """The numbers of an interval as boxes of their digits, each an interval of its own."""
    if len(weights) == 1:
        return [((low, high),)]
    weight, rest = weights[0], weights[1:]
    full = tuple((0, above // below) for above, below in itertools.pairwise(weights))
    (first, begin), (last, end) = divmod(low, weight), divmod(high, weight)
    if first == last:
        return [((first, first + 1), *box) for box in _boxes(begin, end, rest)]
    found: list[Digits] = []
    if begin:
        found += [((first, first + 1), *box) for box in _boxes(begin, weight, rest)]
        first += 1
    if first < last:
        found.append(((first, last), *full))
    if end:
        found += [((last, last + 1), *box) for box in _boxes(0, end, rest)]
    return found


def _grouped(digits: Sequence[int], weights: Sequence[int]) -> list[list[int]]:
    """The weights of the digits of each axis, in units of the axis."""
    groups: list[list[int]] = []
    above = math.inf
    for weight in weights:
        groups.append([d // weight for d in digits if weight <= d < above])
        above = weight
    return groups


def _product(box: Box, weights: Sequence[int], digits: Sequence[int]) -> Iterator[Digits]:
    """A box of axes as boxes of digits."""
    per_axis = [
        _boxes(low, high, own)
        for (low, high), own in zip(box, _grouped(digits, weights), strict=True)
    ]
    for parts in itertools.product(*per_axis):
        yield tuple(itertools.chain.from_iterable(parts))


def _distributed(digits: Digits, groups: Sequence[Sequence[int]]) -> list[Digits]:
    """Digits, by the axes that they belong to."""
    found, first = [], 0
    for group in groups:
        found.append(digits[first : first + len(group)])
        first += len(group)
    return found


def _interval(digits: Digits, weights: Sequence[int]) -> tuple[int, int]:
    """The shortest interval of an axis that has all these digits."""
    low = sum(n * w for (n, _), w in zip(digits, weights, strict=True))
    high = sum((n - 1) * w for (_, n), w in zip(digits, weights, strict=True))
    return low, high + 1


def _intervals(digits: Digits, weights: Sequence[int], extent: int) -> Iterator[tuple[int, int]]:
    """Intervals of an axis that have all these digits, without gaps as long as a tile."""
    if not digits:
        yield 0, 1
        return
    (first, last), *inner = digits
    weight, *others = weights
    low, high = _interval(tuple(inner), others)
    if weight - (high - low) < extent:
        yield first * weight + low, (last - 1) * weight + high
        return
    for value in range(first, last):
        for begin, end in _intervals(tuple(inner), others, extent):
            yield value * weight + begin, value * weight + end


def _side(box: Box, part: Digits, both: Digits, groups: Sequence[Sequence[int]]) -> _Side:
    key = []
    for (first, _), own, weights in zip(box, _distributed(part, groups), groups, strict=True):
        low, high = _interval(own, weights)
        key.append(slice(low - first, high - first))
    inner = tuple(slice(a - c, b - c) for (a, b), (c, _) in zip(both, part, strict=True))
    return _Side(tuple(key), _lengths(part), inner)


class Reshape(Gather):
    """The same elements in the same order, in another shape; or those of some first indices.

    Attributes
    ----------
    folds : tuple of Fold
        Which axes of the operand are which ones of the node's own.
    """

    __slots__ = ("folds", "view")

    folds: tuple[Fold, ...]
    view: View

    def _made_of(self, operands: Sequence[Node]) -> Node:
        return self.of(operands[0], self.folds, self.view)

    @classmethod
    def of(cls, operand: Node, folds: Sequence[Fold], view: View) -> "Reshape":
        """The node of a dense view of the folds' targets."""
        node = cls()
        node.operands, node.folds, node.view = (operand,), tuple(folds), view
        node.shape, node.dtype = view.shape, operand.dtype
        return only((cls, id(operand), node.folds, view), node)

    @property
    def is_whole(self) -> bool:
        """Whether it has all elements of the operand, in their order."""
        view, whole = self.view, View.whole(self.view.source_shape)
        own = [axis for axis in view.axes if not isinstance(axis, NewAxis)]
        return (
            own == sorted(own)
            and view.selectors == whole.selectors
            and self.size == self.operands[0].size
        )

    def axes(self) -> Iterator[tuple[Fold, int, int]]:
        """The folds, and their first axes in the operand and in the node."""
        source = target = 0
        for fold in self.folds:
            yield fold, source, target
            source, target = source + len(fold.source), target + len(fold.target)

    def unchanged(self) -> Iterator[tuple[int, int]]:
        """Axes of the operand that are axes of the node."""
        for fold, source, target in self.axes():
            if fold.is_trivial and target in self.view.axes:
                axis = self.view.axes.index(target)
                if self.view.span(axis) == Span(0, 1, *fold.target):
                    yield source, axis

    def narrowed(self, view: View) -> tuple[View, list[Fold], View]:
        """A view of the folds' targets: of what view of the operand, how folded, and viewed how.

        The view of the operand leaves out, as far as this goes by first axes, what is not needed.
        """
        (operand,) = self.operands
        selectors: list[int | Span] = [Span(0, 1, n) for n in operand.shape]
        folds: list[Fold] = []
        left: list[int | Span] = []
        place: dict[int, int] = {}
        for fold, source, target in self.axes():
            chosen = view.selectors[target]
            if len(fold.source) == len(fold.target) == 1:
                shift = fold.target_first - fold.source_first
                if isinstance(chosen, int):
                    selectors[source] = chosen + shift
                    continue
                selectors[source] = Span(chosen.start + shift, chosen.step, chosen.length)
                folds.append(Fold((chosen.length,), (chosen.length,)))
                place[target] = len(left)
                left.append(Span(0, 1, chosen.length))
                continue
            span = chosen if isinstance(chosen, Span) else Span(chosen, 1, 1)
            first = fold.target_first + span.low
            row, step = math.prod(fold.source[1:]), math.prod(fold.target[1:])
            low, high = first * step // row, -(-(first + span.extent) * step // row)
            selectors[source] = Span(low - fold.source_first, 1, high - low)
            folds.append(
                Fold((high - low, *fold.source[1:]), (span.extent, *fold.target[1:]), low, first)
            )
            place |= {target + i: len(left) + i for i in range(len(fold.target))}
            left.append(
                Span(span.start - span.low, span.step, span.length)
                if isinstance(chosen, Span)
                else 0
            )
            left += view.selectors[target + 1 : target + len(fold.target)]
        own = tuple(axis for axis, s in enumerate(selectors) if isinstance(s, Span))
        shape = tuple(n for fold in folds for n in fold.target)
        axes = tuple(axis if isinstance(axis, NewAxis) else place[axis] for axis in view.axes)
        return View(operand.shape, tuple(selectors), own), folds, View(shape, tuple(left), axes)

    def shares(self, box: Box, tiles: Sequence[Shape]) -> Iterator[Share]:
        (tile,) = tiles
        part = self.view.part([low for low, _ in box], [high - low for low, high in box])
        folded = tuple((n, n + e) for n, e in zip(*part.box, strict=True))
        targets = [folded[at : at + len(fold.target)] for fold, _, at in self.axes()]
        needed = [
            fold.needed(target, tile[at : at + len(fold.source)]).items()
            for (fold, at, _), target in zip(self.axes(), targets, strict=True)
        ]
        for chosen in itertools.product(*needed):
            coords = tuple([i for own, _ in chosen for i in own])
            sources = [part for _, part in chosen]
            whole = tuple([ends for own in sources for ends in own])
            yield Share(0, coords, whole, partial(_copy, self.folds, sources, targets, part))


def _copy(
    folds: Sequence[Fold],
    sources: Sequence[Box],
    targets: Sequence[Box],
    part: View,
    out: NDArray[Any],
    block: NDArray[Any],
) -> None:
    """Copy what boxes of both sides of the folds have in common."""
    straight = part.unapply(out)
    if any(f.is_in_short_runs(own) for f, own in zip(folds, sources, strict=True)):
        _scatter(folds, block, sources, straight, targets)
        return
    pieces = [
        list(fold.pieces(source, target))
        for fold, source, target in zip(folds, sources, targets, strict=True)
    ]
    for chosen in itertools.product(*pieces):
        taken = _part(block, [piece.source for piece in chosen])
        dims = _joined(piece.unfolded[0] for piece in chosen)
        inner = _joined(piece.unfolded[1] for piece in chosen)
        # Axes are only split here, so that this is a view of the same memory.
        place = _part(straight, [piece.target for piece in chosen])
        np.copyto(place, taken.reshape(dims)[inner])


def _scatter(
    folds: Sequence[Fold],
    block: NDArray[Any],
    sources: Sequence[Box],
    out: NDArray[Any],
    targets: Sequence[Box],
) -> None:
    """Copy what boxes have in common, one by one."""
    starts = _joined([low for low, _ in box] for box in sources)
    for parts in _small(sources):
        key: list[Any] = []
        place: list[Any] = []
        for number, (fold, part, target) in enumerate(zip(folds, parts, targets, strict=True)):
            # An axis for each fold, as numpy.ix_ makes them.
            shape = [1] * len(folds)
            shape[number] = -1
            left, right = fold.elements(part, target)
            offsets = [low - starts[len(key) + i] for i, (low, _) in enumerate(part)]
            key += [(own + by).reshape(shape) for own, by in zip(left, offsets, strict=True)]
            place += [own.reshape(shape) for own in right]
        out[tuple(place)] = block[tuple(key)]


def _small(boxes: Sequence[Box]) -> Iterator[list[Box]]:
    """Boxes cut into parts of few elements."""
    stack = [list(boxes)]
    while stack:
        parts = stack.pop()
        if math.prod(high - low for box in parts for low, high in box) <= _AT_ONCE:
            yield parts
            continue
        axes = [(i, a) for i, box in enumerate(parts) for a in range(len(box))]
        i, a = max(axes, key=lambda at: parts[at[0]][at[1]][1] - parts[at[0]][at[1]][0])
        low, high = parts[i][a]
        for ends in (((low + high) // 2, high), (low, (low + high) // 2)):
            half = list(parts)
            half[i] = (*parts[i][:a], ends, *parts[i][a + 1 :])
            stack.append(half)


def _part(array: NDArray[Any], sides: Sequence[_Side]) -> NDArray[Any]:
    selected = array[(*_joined(side.key for side in sides), ...)]
    split = selected.reshape(_joined(side.dims for side in sides))
    return split[(*_joined(side.inner for side in sides), ...)]


def _joined(parts: Any) -> tuple[Any, ...]:
    return tuple(itertools.chain.from_iterable(parts))


def folds_of(source: Shape, target: Shape) -> list[Fold]:
    """The folds of two shapes of as many elements, none of which has an extent below 2."""
    folds: list[Fold] = []
    i = j = 0
    while i < len(source):
        begin, other = i, j
        left, right = source[i], target[j]
        i, j = i + 1, j + 1
        while left != right:
            if left < right:
                left, i = left * source[i], i + 1
            else:
                right, j = right * target[j], j + 1
        folds.append(Fold(source[begin:i], target[other:j]))
    return folds
