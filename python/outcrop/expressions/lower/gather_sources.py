"""Where the elements of a gathering node come from: which tiles, and what is copied from them."""

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

from numpy.typing import NDArray

from outcrop.arrays.source import MemorySource
from outcrop.arrays.stored import StoreSource
from outcrop.arrays.views import View
from outcrop.errors import BudgetError
from outcrop.expressions.graph.gathers import Box, Copy, Gather, Share
from outcrop.expressions.graph.nodes import Leaf, Node, Shape
from outcrop.expressions.kernels.gathered import Gathered, Ranges
from outcrop.expressions.kernels.tile_view import Look
from outcrop.expressions.lower.storage import Storage
from outcrop.expressions.tiling.axes import Tiling
from outcrop.process.config import memory_budget

__all__ = ["Gathering"]


class Gathering:
    """What a node takes from tiles.

    Parameters
    ----------
    node : Gather
        The node.
    tiling : Tiling
        How lines are cut.
    storage : Storage
        Where everything is.
    """

    def __init__(self, node: Gather, tiling: Tiling, storage: Storage) -> None:
        self._node, self._storage = node, storage
        self._budget = memory_budget()
        extents = tiling.axes.extents
        self._lines = [(line, (0, extents[line])) for line in tiling.axes.of(node)]
        # Operands may be thousands, and cells as well, each of which takes from few of them.
        self._tiles = [_tile(operand, storage) for operand in node.operands]
        self._nbytes = [
            math.prod(tile) * operand.dtype.itemsize
            for operand, tile in zip(node.operands, self._tiles, strict=True)
        ]

    def at(self, ranges: Ranges) -> Iterator[Gathered]:
        """What it takes from which tiles at these ranges of the cut lines.

        Raises
        ------
        BudgetError
            There is no memory for all of these tiles at once. The core would find that, too, but
            only when all steps are made, and where one has very many tiles, all have.
        """
        node, storage, tiles = self._node, self._storage, self._tiles
        box = tuple([ranges.get(line, whole) for line, whole in self._lines])
        together: set[int] = set()
        nbytes = 0
        for share in node.shares(box, tiles):
            source = node.operands[share.operand]
            if isinstance(source, Leaf) and not isinstance(source.source, StoreSource):
                yield Gathered(node, None, _from_source(source, share))
            else:
                number = storage.tile(source, share.coords)
                if number not in together:
                    together.add(number)
                    nbytes += self._nbytes[share.operand]
                    if nbytes > self._budget:
                        raise self._too_much(box)
                # There may be very many: what is not told apart before is worked out when it is
                # copied.
                look, tile = storage.look(source), tiles[share.operand]
                yield Gathered(node, number, partial(_copy_from_tile, look, share, tile))

    def _too_much(self, box: Box) -> BudgetError:
        """The error of a step whose tiles have no room in memory."""
        found = {(s.operand, s.coords) for s in self._node.shares(box, self._tiles)}
        nbytes = sum(self._nbytes[number] for number, _ in found)
        return BudgetError(
            f"expression needs {nbytes} bytes of memory, and the budget is {memory_budget()} "
            f"bytes; the least that works is {nbytes} bytes (oc.config(memory=...), "
            "OUTCROP_MEMORY or --memory)",
            nbytes,
        )


def _tile(node: Node, storage: Storage) -> Shape:
    """What of an operand is looked at in one go: all that is in memory."""
    if isinstance(node, Leaf) and isinstance(node.source, MemorySource):
        return tuple(max(n, 1) for n in node.shape)
    return storage.loaded(node)


def _copy_from_tile(
    look: Look, share: Share, extents: Shape, out: NDArray[Any], tile: NDArray[Any]
) -> None:
    key: list[Any] = [
        slice(low - i * t, high - i * t)
        for (low, high), i, t in zip(share.box, share.coords, extents, strict=True)
    ]
    share.copy(out, look(tile)[(*key, ...)])


def _from_source(leaf: Leaf, share: Share) -> Copy:
    start = [low for low, _ in share.box]
    part = leaf.view.part(start, [high - low for low, high in share.box])

    return partial(_copy_from_source, leaf, part, share)


def _copy_from_source(
    leaf: Leaf, part: View, share: Share, out: NDArray[Any], tile: NDArray[Any]
) -> None:
    borrowed = leaf.source.borrow(part)
    share.copy(out, leaf.source.read(part) if borrowed is None else borrowed)
