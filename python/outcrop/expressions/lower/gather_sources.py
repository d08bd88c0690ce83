"""Where the elements of a gathering node come from: which tiles, and what is copied from them."""

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, TypeGuard

from numpy.typing import NDArray

from outcrop.arrays.source import MemorySource
from outcrop.arrays.stored import StoreSource
from outcrop.arrays.views import View
from outcrop.errors import BudgetError, forget_frames
from outcrop.expressions.graph.gathers import Box, Copy, Gather, Share
from outcrop.expressions.graph.nodes import Leaf, Node, Shape
from outcrop.expressions.kernels.gathered import Gathered, Ranges
from outcrop.expressions.kernels.tile_view import Look
from outcrop.expressions.lower.storage import Storage, Stored
from outcrop.expressions.tiling.axes import Tiling
from outcrop.process.config import memory_budget

__all__ = ["Gathering", "Room"]

_LARGE = 2
"""Of what part of the budget the tiles of a step are looked at: others have room, as a rule."""


class Room:
    """Whether memory holds the tiles of one step, those that it gathers with the others.

    The core would find that, too, but only when all steps are made, and where one has very many
    tiles, all have.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._most = memory_budget() // _LARGE
        self._there: dict[int, Stored] = {}
        self._nbytes = 0

    def begin(self, own: Mapping[int, Stored]) -> None:
        """A step begins, with tiles that it does not gather: their numbers, and of which arrays."""
        self._there = dict(own)
        self._nbytes = 0

    def refusal(self, tile: int, stored: Stored, nbytes: int) -> BudgetError | None:
        """What says that one more tile has no room, if it has none; it need not be another one."""
        if tile in self._there:
            return None
        self._there[tile] = stored
        self._nbytes += nbytes
        if self._nbytes <= self._most:
            return None
        # Steps are alike: those that are no larger need not be looked at again.
        self._most = self._nbytes
        return self._refusal(self._there.values())

    def refusal_of_all(self, gathered: Mapping[int, Stored]) -> BudgetError | None:
        """The same of what the step has and all of these tiles, which names what it takes."""
        return self._refusal((self._there | dict(gathered)).values())

    def _refusal(self, tiles: Iterable[Stored]) -> BudgetError | None:
        try:
            self._storage.check_step([one.number for one in tiles])
        except BudgetError as error:
            forget_frames(error)
            return error
        return None


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
        extents = tiling.axes.extents
        self._lines = [(line, (0, extents[line])) for line in tiling.axes.of(node)]
        # Operands may be thousands, and cells as well, each of which takes from few of them.
        self._tiles = [_tile(operand, storage) for operand in node.operands]
        self._nbytes = [
            math.prod(tile) * operand.dtype.itemsize
            for operand, tile in zip(node.operands, self._tiles, strict=True)
        ]

    def at(self, ranges: Ranges, room: Room | None) -> Iterator[Gathered]:
        """What it takes from which tiles at these ranges of the cut lines.

        Where `room` is given, it has to hold them.

        Raises
        ------
        BudgetError
            There is no memory for all of these tiles at once.
        """
        node, storage, tiles = self._node, self._storage, self._tiles
        box = tuple([ranges.get(line, whole) for line, whole in self._lines])
        for share in node.shares(box, tiles):
            source = node.operands[share.operand]
            if _is_at_hand(source):
                yield Gathered(node, None, _from_source(source, share))
            else:
                number = storage.tile(source, share.coords)
                if room is not None:
                    stored = storage.of(source)
                    assert stored is not None
                    error = room.refusal(number, stored, self._nbytes[share.operand])
                    if error is not None:
                        # Others may have let go of memory meanwhile.
                        raise room.refusal_of_all(self._gathered(box)) or error
                # There may be very many: what is not told apart before is worked out when it is
                # copied.
                look, tile = storage.look(source), tiles[share.operand]
                yield Gathered(node, number, partial(_copy_from_tile, look, share, tile))

    def _gathered(self, box: Box) -> dict[int, Stored]:
        """The tiles that are taken from, with their arrays."""
        found: dict[int, Stored] = {}
        for share in self._node.shares(box, self._tiles):
            source = self._node.operands[share.operand]
            stored = self._storage.of(source)
            if stored is not None and not _is_at_hand(source):
                found[self._storage.tile(source, share.coords)] = stored
        return found


def _is_at_hand(node: Node) -> TypeGuard[Leaf]:
    """Whether elements are taken from an operand that has no tiles in the program."""
    return isinstance(node, Leaf) and not isinstance(node.source, StoreSource)


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
