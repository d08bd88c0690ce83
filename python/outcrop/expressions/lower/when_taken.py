"""Passes whose cells come when others take what they leave.

What is gathered from tiles that are computed, as a join of computed parts is, needs each of them
for a moment. Made right before the first step that takes it, a tile is still in memory then; made
in a pass of its own before, all of them are written and read back where memory does not hold them.
"""

from collections.abc import Sequence

from outcrop.expressions.graph.gathers import Alias, Join, Mosaic, Select, Take
from outcrop.expressions.graph.merge_runs import Collect
from outcrop.expressions.graph.retile import Moved, Refolded
from outcrop.expressions.lower.passes import Pass
from outcrop.expressions.lower.steps import Steps
from outcrop.expressions.tiling.fusion import Group, Grouping
from outcrop.process.config import memory_budget

__all__ = ["waits", "when_taken"]

_SMALL = 16
"""What part of the budget is small."""


def waits(group: Group, grouping: Grouping) -> bool:
    """Whether all that a group leaves is gathered by nodes that take little at a time of it."""
    if group.operation is not None or group.is_made_later or not group.lines:
        return False
    # Each part of a running sum needs the one before it, along one line.
    if len(grouping.scanned(group)) > 1:
        return False
    # Sums are there when all of a pass is over.
    if any(grouping.sums(root) or grouping.is_output(root) for root in group.roots):
        return False
    # What is only moved to other tiles is moved in the order in which it is stored.
    if any(isinstance(root, Alias | Moved | Refolded | Collect) for root in group.roots):
        return False
    # What is small stays in memory, and shares a pass over what it is made of.
    if sum(root.nbytes for root in group.roots) <= memory_budget() // _SMALL:
        return False
    return all(
        isinstance(consumer, Join | Mosaic | Select | Take)
        for root in group.roots
        for consumer in grouping.consumers(root)
    )


def when_taken(one: Pass, steps: Steps, *, again: bool) -> None:
    """Append each cell of a pass before the first step that takes what it leaves.

    It is made `again` for each pass that takes it, where that is rather done than to keep it.
    """
    waiting = _Waiting(one, again=again)
    steps.wait(waiting.tiles, waiting)


class _Waiting:
    """The cells of a pass that nobody has taken from yet."""

    def __init__(self, one: Pass, *, again: bool) -> None:
        self._pass, self._again = one, again
        self._cells = list(one.in_order())
        self._rest, self._never = set(self._cells), set(self._cells)
        self._left = one.left()

    @property
    def tiles(self) -> Sequence[range]:
        """The tiles that they make, by their numbers."""
        return [stored.numbers for stored, _ in self._left]

    def make(self, tile: int) -> None:
        """Append what makes a tile, where it has not been."""
        for stored, places in self._left:
            if tile in stored.numbers:
                coords = stored.coords(tile)
                self._append(tuple([coords[place] for place in places]))
                return

    def _append(self, cell: tuple[int, ...]) -> None:
        needed: list[tuple[int, ...]] = []
        at: tuple[int, ...] | None = cell
        while at is not None and at in self._rest:
            self._rest.remove(at)
            needed.append(at)
            at = self._pass.previous(at)
        self._never.difference_update(needed)
        for one in reversed(needed):
            self._pass.append(one)

    def renew(self) -> None:
        """Another pass begins."""
        if self._again:
            self._rest = set(self._cells)

    def finish(self) -> None:
        """Append all that has never been."""
        self._rest = set()
        self._pass.emit([cell for cell in self._cells if cell in self._never])
