"""Sums over cut lines: parts are combined two by two, as the leaves of a tree.

The tree depends on the number of parts alone: so sums have the same bits whatever the direction of
a pass, and the rounding errors of pairwise summation.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outcrop.expressions.axes import Tiling
from outcrop.expressions.nodes import Node, Reduce
from outcrop.expressions.steps import READ, UPDATE, Steps, operand
from outcrop.expressions.storage import Storage

__all__ = ["Sum"]


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
    kernel : int
        Of these steps.
    """

    def __init__(
        self,
        root: Node,
        lines: tuple[int, ...],
        tiling: Tiling,
        storage: Storage,
        steps: Steps,
        kernel: int,
    ) -> None:
        self._root, self._lines = root, lines
        self._tiling, self._storage = tiling, storage
        self._steps, self._kernel = steps, kernel
        self._total = storage.parts(root)
        self._done: set[tuple[int, int, tuple[int, ...]]] = set()

    def part(self, at: dict[int, int]) -> int:
        """The number of a part, the same whatever the direction of the pass."""
        index = 0
        for line in self._lines:
            index = index * self._tiling.count(line) + at[line]
        return index

    def take(self, coords: tuple[int, ...], part: int) -> None:
        """Combine a part of a tile with its neighbours, as far as they are there."""
        root = self._root
        if isinstance(root, Reduce):
            if root.output:
                return
            family: list[Node] = list(root.family())
        else:
            family = [root]
        first, level = part, 1
        while level < self._total:
            left, right = first - first % (2 * level), first - first % (2 * level) + level
            other = right if first == left else left
            if right < self._total:
                if (level, other, coords) not in self._done:
                    self._done.add((level, first, coords))
                    return
                self._combine(family, coords, left, right, level)
            first, level = left, 2 * level

    def _combine(
        self,
        family: Sequence[Node],
        coords: tuple[int, ...],
        left: int,
        right: int,
        level: int,
    ) -> None:
        root, tile = family[0], self._storage.tile
        looks = [self._storage.look(node) for node in family]
        operands: list[int] = []
        for node in family:
            operands.append(operand(tile(node, coords, left), UPDATE))
            operands.append(operand(tile(node, coords, right), READ))
        counts = (
            self._elements(range(left, left + level)),
            self._elements(range(right, min(right + level, self._total))),
        )

        def action(tiles: Sequence[NDArray[Any]], workspace: NDArray[Any]) -> None:
            into = [look(t) for look, t in zip(looks, tiles[::2], strict=True)]
            other = [look(t) for look, t in zip(looks, tiles[1::2], strict=True)]
            if isinstance(root, Reduce):
                root.reduction.merge(into, other, counts)
            elif root.dtype == np.bool_:
                np.logical_or(into[0], other[0], out=into[0])
            else:
                np.add(into[0], other[0], out=into[0])

        self._steps.add(self._kernel, operands, float(self._tiling.tile_bytes(root)), action)

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
