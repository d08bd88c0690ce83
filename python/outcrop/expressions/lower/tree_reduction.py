"""Sums over cut lines: parts are combined two by two, as the leaves of a tree.

The tree depends on the number of parts alone: so sums have the same bits whatever the direction of
a pass, and the rounding errors of pairwise summation. A tree has several sums in memory at a time.
Products of which memory does not hold as many add one part after the other, as BLAS does.
"""

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from outcrop.expressions.graph.nodes import Contract, Node, Reduce
from outcrop.expressions.graph.reductions import UfuncReduction
from outcrop.expressions.kernels import native
from outcrop.expressions.lower.steps import READ, UPDATE, Kind, Size, Steps, arguments, operand
from outcrop.expressions.lower.storage import Storage
from outcrop.expressions.tiling.axes import Tiling
from outcrop.process.config import memory_budget

__all__ = ["Sum"]

# Functions within functions have their annotations looked at whenever they are made.
_Memory: TypeAlias = NDArray[Any]
_Tiles: TypeAlias = Sequence[NDArray[Any]]

_RATE = 1e9
"""Bytes in a second that one thread combines."""

_BRANCHES = 4
"""What part of the budget the sums have, at most, that a tree holds at a time."""


class Sum:
    """The sum, or another reduction, that a node makes of what a pass leaves.

    Parameters
    ----------
    root : Node
        The node.
    lines : tuple of int
        The cut lines that it sums over.
    tiling : Tiling
        How lines are cut.
    storage : Storage
        Where its parts are.
    steps : Steps
        The program, which takes the steps that combine parts.
    """

    def __init__(
        self,
        root: Node,
        lines: tuple[int, ...],
        tiling: Tiling,
        storage: Storage,
        steps: Steps,
    ) -> None:
        self._root, self._lines = root, lines
        # The numbers that make up one result are combined together.
        self._family: Sequence[Node] = root.family() if isinstance(root, Reduce) else (root,)
        self._tiling, self._storage = tiling, storage
        self._steps = steps
        self._total = storage.parts(root)
        self._done: set[tuple[int, int, tuple[int, ...]]] = set()
        self._first: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        branches = root.nbytes * self._total.bit_length()
        self._is_in_turn = isinstance(root, Contract) and branches * _BRANCHES > memory_budget()
        self._waiting: dict[tuple[int, ...], tuple[int, set[int]]] = {}
        self._ufunc = _joining(root)
        draft = None
        if native.IS_USED and self._ufunc is not None:
            draft = native.joining(self._ufunc, root, storage.look(root), tiling)
        self._is_taped = draft is not None
        if draft is not None:
            self._kernel = steps.tape(Kind.COMBINE, _RATE, root, lambda: draft)
        else:
            self._kernel = steps.kernel(Kind.COMBINE, _RATE)

    @property
    def size(self) -> Size:
        """How large the steps are that combine parts."""
        root, tiling = self._root, self._tiling
        if isinstance(root, Reduce) and root.output:
            return Size(0, 0, 0)
        tiles = math.prod(tiling.count(line) for line in tiling.axes.of(root))
        steps, each = (self._total - 1) * tiles, 2 * len(self._family)
        own = arguments(len(tiling.cut_axes(root)) if self._is_taped else None, each)
        return Size(steps, steps * each, steps * own)

    @property
    def arrays(self) -> list[int]:
        """The arrays that a step that combines parts has tiles of."""
        found = [self._storage.of(node) for node in self._family]
        return [stored.number for stored in found if stored is not None] * 2

    def part(self, at: dict[int, int]) -> int:
        """The number of a part, the same whatever the direction of the pass."""
        index = 0
        for line in self._lines:
            index = index * self._tiling.count(line) + at[line]
        return index

    def take(self, coords: tuple[int, ...], part: int) -> None:
        """Combine a part of a tile with its neighbours, as far as they are there."""
        root = self._root
        if isinstance(root, Reduce) and root.output:
            return
        if self._is_in_turn:
            self._take_in_turn(coords, part)
            return
        first, level = part, 1
        while level < self._total:
            left, right = first - first % (2 * level), first - first % (2 * level) + level
            other = right if first == left else left
            if right < self._total:
                if (level, other, coords) not in self._done:
                    self._done.add((level, first, coords))
                    return
                self._combine(coords, left, right, level)
            first, level = left, 2 * level

    def _take_in_turn(self, coords: tuple[int, ...], part: int) -> None:
        """Add all parts to the first one that follow those which it has."""
        following, waiting = self._waiting.get(coords, (0, set()))
        waiting.add(part)
        while following in waiting:
            waiting.remove(following)
            if following:
                self._combine(coords, 0, following, 1)
            following += 1
        self._waiting[coords] = following, waiting

    def _combine(self, coords: tuple[int, ...], left: int, right: int, level: int) -> None:
        family, ufunc = self._family, self._ufunc
        root = family[0]
        operands: list[int] = []
        if (first := self._first.get(coords)) is None:
            first = self._first[coords] = [self._parts_of(node, coords) for node in family]
        for tile, apart in first:
            operands.append(operand(tile + left * apart, UPDATE))
            operands.append(operand(tile + right * apart, READ))
        work = float(self._tiling.tile_bytes(root))
        if self._is_taped:
            parts = native.parts(root, coords, self._tiling)
            self._steps.add_taped(self._kernel, operands, work, parts, (0, 1))
            return
        looks = [self._storage.look(node) for node in family]
        counts = (
            self._elements(range(left, left + level)),
            self._elements(range(right, min(right + level, self._total))),
        )

        def action(tiles: _Tiles, workspace: _Memory) -> None:
            into = [look(t) for look, t in zip(looks, tiles[::2], strict=True)]
            other = [look(t) for look, t in zip(looks, tiles[1::2], strict=True)]
            if ufunc is not None:
                ufunc(into[0], other[0], out=into[0])
            else:
                assert isinstance(root, Reduce)
                root.reduction.merge(into, other, counts)

        self._steps.add(self._kernel, operands, work, action)

    def _parts_of(self, node: Node, coords: tuple[int, ...]) -> tuple[int, int]:
        """The number of the first part of a tile, and how far apart those of others are."""
        stored = self._storage.of(node)
        assert stored is not None
        return self._storage.tile(node, coords), stored.strides[0]

    def _elements(self, parts: range) -> int:
        """How many elements of the operand go into each element of some parts."""
        root, tiling = self._root, self._tiling
        if not isinstance(root, Reduce):
            return 0
        (reduced,) = root.operands
        lines = tiling.axes.of(reduced)
        whole = 1
        for axis in root.axes:
            if lines[axis] not in self._lines:
                whole *= reduced.shape[axis]
        count = 0
        for part in parts:
            elements, rest = whole, part
            for line in reversed(self._lines):
                rest, i = divmod(rest, tiling.count(line))
                low, high = tiling.range(line, i)
                elements *= high - low
            count += elements
        return count


def _joining(root: Node) -> np.ufunc | None:
    """What makes one of two parts, if a ufunc does."""
    if isinstance(root, Reduce):
        return root.reduction.ufunc if isinstance(root.reduction, UfuncReduction) else None
    return np.logical_or if root.dtype == np.bool_ else np.add
