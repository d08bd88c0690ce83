"""Which nodes are computed together, and when.

The nodes that run over the same cut lines are a *group*, and are computed together, cell by cell,
by one step each: so one pass over an array serves all of its consumers, and what is between is
never written. A node that sums over a cut line is there only when the pass is over; what is made of
it belongs to a later *stage*. An operation of linear algebra has a pass of its own.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from outcrop.arrays.stored import StoreSource
from outcrop.arrays.views import NewAxis
from outcrop.expressions.graph.gathers import Alias, Gather, Join, Select
from outcrop.expressions.graph.matrices import MatrixOperation, straight
from outcrop.expressions.graph.nodes import Expanded, Leaf, Lines, Map, Node, Reduce, Scan
from outcrop.expressions.graph.retile import Moved, Refolded
from outcrop.expressions.tiling.axes import Tiling
from outcrop.expressions.tiling.disk_order import slowness, whole
from outcrop.process.config import memory_budget

__all__ = ["Group", "Grouping"]

_IN_MEMORY = 3 / 8
"""The part of the budget in which what is kept stays in memory, roughly."""

_CHEAP = 12
"""Operations on an element that are rather done again than their results kept for a later pass."""


@dataclass
class Group:
    """What is computed together.

    Attributes
    ----------
    stage : int
        Groups of earlier stages are computed before.
    lines : tuple of int
        The cut lines that it runs over.
    roots : list of Node
        What it leaves in tiles.
    inputs : list of Node
        What it reads from tiles.
    computed : list of Node
        What it computes, operands first.
    is_made_later : bool
        Whether linear algebra has each tile made when it takes it, and no pass is made over all.
    """

    stage: int
    lines: tuple[int, ...]
    roots: list[Node] = field(default_factory=list)
    inputs: list[Node] = field(default_factory=list)
    computed: list[Node] = field(default_factory=list)
    is_made_later: bool = False

    @property
    def operation(self) -> MatrixOperation | None:
        """The operation of linear algebra that it is, if it is one."""
        (first, *_) = self.roots
        return first if isinstance(first, MatrixOperation) else None


class Grouping:
    """The groups of an expression.

    Parameters
    ----------
    wanted : iterable of Node
        What is stored.
    tiling : Tiling
        How lines are cut.
    nodes : sequence of Node
        All that there is, operands first.

    Attributes
    ----------
    groups : list of Group
        In the order in which they are computed.
    """

    def __init__(self, wanted: Iterable[Node], tiling: Tiling, nodes: Sequence[Node]) -> None:
        self.tiling, self.nodes = tiling, nodes
        self._outputs = {id(node) for node in wanted}
        self._consumers: dict[int, list[Node]] = {}
        for node in nodes:
            for operand in node.operands:
                self._consumers.setdefault(id(operand), []).append(node)
        self._lines = {id(node): self._iteration(node) for node in nodes}
        self._sums = {id(node): self._summed(node) for node in nodes}
        self._kept: set[int] = set()
        for node in nodes:
            if self._has_to_be_kept(node):
                self._kept.add(id(node))
        self._made_later = {id(node) for node in nodes if self._is_made_later(node)}
        self._stage = self._stages()
        self.groups = self._grouped()
        while again := self._computed_again():
            self._kept |= again
            self._stage = self._stages()
            self.groups = self._grouped()

    def is_output(self, node: Node) -> bool:
        """Whether it is stored."""
        return id(node) in self._outputs

    def is_kept(self, node: Node) -> bool:
        """Whether it is computed to tiles."""
        return id(node) in self._kept

    def is_idle(self, node: Node) -> bool:
        """Whether nobody needs it."""
        return not self.is_output(node) and not self._consumers.get(id(node))

    def sums(self, node: Node) -> tuple[int, ...]:
        """The cut lines that a node sums over."""
        return self._sums[id(node)]

    def _summed(self, node: Node) -> tuple[int, ...]:
        lines = self._lines[id(node)]
        if not lines:
            return ()
        own = self.tiling.axes.of(node)
        return tuple(line for line in lines if line not in own)

    def apart(self, group: Group) -> list[Group]:
        """A group as several, each of which computes one of its results."""
        if group.operation is not None or group.is_made_later:
            return [group]
        families: dict[int, Group] = {}
        for root in group.roots:
            # The numbers that make up one result are computed together.
            first = root.family()[0] if isinstance(root, Reduce) else root
            families.setdefault(id(first), Group(group.stage, group.lines)).roots.append(root)
        for one in families.values():
            self._close(one)
        return list(families.values())

    def tiles(self) -> int:
        """How many tiles there are of all that is stored or kept."""
        count = self.tiling.count
        return sum(
            math.prod(count(line) for line in (*self.tiling.axes.of(node), *self.sums(node)))
            for node in self.nodes
            if self.is_kept(node)
            or (isinstance(node, Leaf) and isinstance(node.source, StoreSource))
        )

    def size(self) -> int:
        """Those, and the pieces of which views are put together, roughly."""
        return self.tiles() + sum(
            math.prod(self._pieces(node, axis) for axis in range(node.ndim))
            for node in self.nodes
            if isinstance(node, Select | Alias)
        )

    def _pieces(self, node: Select | Alias, axis: int) -> int:
        """In how many pieces a view is along an axis, by its own tiles and those of its operand."""
        ((operand,), (view,)), axes = (node.operands, node.views), self.tiling.axes
        own, source = axes.of(node)[axis], view.axes[axis]
        if isinstance(source, NewAxis):
            return self.tiling.count(own)
        below = axes.of(operand)[source]
        counts = self.tiling.count(own), self.tiling.count(below)
        step = self.tiling.extent(own) * abs(view.span(axis).step)
        unit = self.tiling.extent(below)
        # Where they do not fit each other, the ends of both make pieces.
        return max(counts) if step % unit == 0 or unit % step == 0 else sum(counts)

    def takes_apart(self, node: Node) -> bool:
        """Whether a node cuts tiles of another one into smaller ones, which are of no other use."""
        if not isinstance(node, Moved) or node.cuts.source is None:
            return False
        (operand,) = node.operands
        alone = len(self._consumers[id(operand)]) == 1 and not self.is_output(operand)
        return alone and not isinstance(operand, Leaf)

    def consumers(self, node: Node) -> Sequence[Node]:
        """What is made of it."""
        return self._consumers.get(id(node), ())

    def order(self, group: Group, *, turned: bool = False) -> tuple[int, ...]:
        """The lines of a group, the slowest first; the fastest first where `turned`."""
        if group.operation is not None:
            return group.lines
        axes = self.tiling.axes
        first: dict[int, tuple[int, int]] = {}
        for node in sorted(group.inputs + group.computed, key=lambda n: -n.nbytes):
            lines = list(enumerate(axes.of(node)))
            if isinstance(node, Moved) and node.cuts.target is not None:
                # Tile by tile of the operand, which has several of these in it.
                (operand,) = node.operands
                lines.sort(key=lambda item: slowness(operand, item[0]))
                lines.sort(key=lambda item: self._inside(node, item[0]))
            elif isinstance(node, Refolded):
                lines.sort(key=lambda item: self._inside(node, item[0]))
            elif isinstance(node, Alias):
                # Along the thinnest extent of what is stored, each of its tiles comes once.
                (operand,) = node.operands
                lines.sort(key=lambda item: whole(operand, item[0]))
            for axis, line in lines:
                first.setdefault(line, (len(first), axis))
        scanned = self.scanned(group)
        # The line of a running sum comes last, so that each sum needs what one cell leaves it.
        slowest = sorted(group.lines, key=first.__getitem__, reverse=turned)
        return tuple(sorted(slowest, key=scanned.__contains__))

    def scanned(self, group: Group) -> set[int]:
        """The cut lines along which a group has running sums."""
        axes = self.tiling.axes
        scans = (node for node in group.computed if isinstance(node, Scan))
        return {line for node in scans if (line := axes.of(node)[node.axis]) in group.lines}

    def _inside(self, node: Moved | Refolded, axis: int) -> int:
        """When cells along an axis come one after the other, the last ones nearest.

        Of those that are parts of one tile of the operand, one follows the other, so that this tile
        is loaded once.
        """
        (operand,) = node.operands
        if isinstance(node, Moved):
            source = node.view.axes[axis]
        else:
            source = next((own for own, other in node.unchanged() if other == axis), NewAxis())
        if isinstance(source, NewAxis):
            return 1
        own, whole = self.tiling.tile(node)[axis], self.tiling.tile(operand)[source]
        return 0 if own >= whole else 2

    def _iteration(self, node: Node) -> tuple[int, ...]:
        """The cut lines over which a node runs, its own before those that it sums over."""
        if not self.tiling.cuts:
            return ()
        axes = self.tiling.axes
        lines = list(axes.of(node))
        if not isinstance(node, Gather | MatrixOperation):
            for operand in node.operands:
                lines += axes.of(operand)
        return tuple(sorted(self.tiling.cut_lines(lines)))

    def is_taken(self, leaf: Leaf) -> bool:
        """Whether anything takes it as it is; not what linear algebra has converted as it loads."""
        return not all(map(self._is_loaded, self._consumers.get(id(leaf), [])))

    def _is_loaded(self, node: Node) -> bool:
        """Whether it is there for operations of linear algebra alone, as what they load."""
        consumers = self._consumers.get(id(node), [])
        return (
            isinstance(node, Map)
            and straight(node) is not None
            and not self.is_kept(node)
            and all(isinstance(c, MatrixOperation) or self._is_loaded(c) for c in consumers)
        )

    def _from_tiles(self, operand: Node, node: Node) -> bool:
        """Whether a node takes an operand from its tiles, and not within the step."""
        return (
            isinstance(node, Gather | MatrixOperation)
            or isinstance(operand, MatrixOperation)
            or self._lines[id(operand)] != self._lines[id(node)]
            or bool(self.sums(operand))
        )

    def _has_to_be_kept(self, node: Node) -> bool:
        if isinstance(node, Leaf) or node.size == 0:
            return False
        if isinstance(node, MatrixOperation):
            return True
        if isinstance(node, Alias) and isinstance(node.operands[0], Leaf):
            # What is stored is copied to have it in other tiles.
            return True
        consumers = self._consumers.get(id(node), [])
        if straight(node) is not None:
            consumers = [c for c in consumers if not isinstance(c, MatrixOperation)]
        return (
            self.is_output(node)
            or bool(self.sums(node))
            or any(self._from_tiles(node, consumer) for consumer in consumers)
        )

    def made_in_place_of(self, node: Node) -> Node | None:
        """The operand whose tiles are made in place of those of an operation's result."""
        if not isinstance(node, MatrixOperation) or not node.taken_once[-1]:
            return None
        operand = node.operands[-1]
        return operand if id(operand) in self._made_later else None

    def _is_made_later(self, node: Node) -> bool:
        """Whether linear algebra has tiles of a node made when it takes them.

        That saves to write them, and to read them back. Where it takes tiles again and again, they
        are not made anew unless they are beyond memory, and no more is read for that.
        """
        consumers = self._consumers.get(id(node), [])
        if not isinstance(node, Map) or straight(node) is not None or self.is_output(node):
            return False
        if not consumers or not all(isinstance(c, MatrixOperation) and c.size for c in consumers):
            return False
        below = self._below(node)
        if any(isinstance(n, Scan | Lines) for n in below):
            return False
        (first, *others) = consumers
        assert isinstance(first, MatrixOperation)
        if not others and first.taken_once[first.operands.index(node)]:
            return True
        cost = self._cost_again(node)
        return (
            cost is not None and cost <= node.nbytes and node.nbytes > _IN_MEMORY * memory_budget()
        )

    def _below(self, node: Node) -> list[Node]:
        """What is computed to compute a node of what is there."""
        found: dict[int, Node] = {}
        stack = [node]
        while stack:
            at = stack.pop()
            if id(at) not in found and (at is node or not self.is_kept(at)):
                found[id(at)] = at
                stack += at.operands
        return list(found.values())

    def _computed_again(self) -> set[int]:
        """What several groups compute, and is rather kept than computed again."""
        counts = Counter(id(node) for group in self.groups for node in group.computed)
        return {
            id(node)
            for node in self.nodes
            if counts[id(node)] > 1
            and not self.is_kept(node)
            and not isinstance(node, Leaf)
            and node.size
            and not self._is_cheap(node)
        }

    def _is_cheap(self, node: Node) -> bool:
        """Whether it is rather computed again than kept."""
        cost = self._cost_again(node)
        return cost is not None and cost <= 2 * node.nbytes

    def is_made_again(self, node: Node) -> bool:
        """Whether what is kept for others to gather from is rather made for each pass."""
        cost = self._cost_again(node)
        return cost is not None and cost <= node.nbytes

    def _cost_again(self, node: Node) -> int | None:
        """Bytes that are read to compute a node again; None where computing takes long."""
        count, bytes_read = 0, 0
        stack, seen = [node], set()
        while stack:
            at = stack.pop()
            if id(at) in seen:
                continue
            seen.add(id(at))
            if at is not node and (isinstance(at, Leaf) or self.is_kept(at)):
                in_memory = isinstance(at, Leaf) and not isinstance(at.source, StoreSource)
                bytes_read += 0 if in_memory else at.nbytes
                continue
            if isinstance(at, Expanded | Join):
                stack += at.operands
                continue
            if not isinstance(at, Map) or at.function.retains:
                return None
            count += 1
            if count > _CHEAP:
                return None
            stack += at.operands
        return bytes_read

    def _stages(self) -> dict[int, int]:
        earliest: dict[int, int] = {}
        for node in self.nodes:
            stage = 0
            for operand in node.operands:
                if not isinstance(operand, Leaf):
                    later = self._from_tiles(operand, node)
                    stage = max(stage, earliest[id(operand)] + later)
            earliest[id(node)] = stage
        # What is kept waits for who needs it first, unless it ends a pass.
        need: dict[int, int] = {}
        found: dict[int, int] = {}
        for node in reversed(self.nodes):
            wanted = need.get(id(node))
            stage = earliest[id(node)]
            if self.is_kept(node):
                if wanted is not None and not self.sums(node):
                    stage = max(stage, wanted)
                wanted = stage
            found[id(node)] = stage
            if wanted is None:
                wanted = stage
            for operand in node.operands:
                before = wanted - self._from_tiles(operand, node)
                known = need.get(id(operand))
                need[id(operand)] = before if known is None else min(known, before)
        return found

    def _grouped(self) -> list[Group]:
        groups: dict[tuple[int, tuple[int, ...]], Group] = {}
        operations: list[Group] = []
        later: list[Group] = []
        for node in self.nodes:
            stage, lines = self._stage[id(node)], self._lines[id(node)]
            if isinstance(node, MatrixOperation) and node.size:
                inputs = list(dict.fromkeys(node.operands))
                operations.append(Group(stage, lines, [node], inputs, [node]))
            elif id(node) in self._made_later:
                later.append(Group(stage, lines, [node], is_made_later=True))
            elif self.is_kept(node):
                groups.setdefault((stage, lines), Group(stage, lines)).roots.append(node)
        for group in (*groups.values(), *later):
            self._close(group)
        found = [groups[key] for key in sorted(groups)] + later + operations
        return sorted(found, key=lambda group: group.stage)

    def _close(self, group: Group) -> None:
        """Find what a group computes and what it reads."""
        state: dict[int, bool] = {}
        roots = {id(root) for root in group.roots}
        for root in group.roots:
            stack: list[tuple[Node, int]] = [(root, 0)]
            while stack:
                node, i = stack.pop()
                if i == 0:
                    if id(node) in state:
                        continue
                    state[id(node)] = True
                    if not self._is_computed_in(node, roots):
                        group.inputs.append(node)
                        continue
                operands = () if isinstance(node, Gather) else node.operands
                if i < len(operands):
                    stack.append((node, i + 1))
                    if id(operands[i]) not in state:
                        stack.append((operands[i], 0))
                elif isinstance(node, Reduce):
                    # The numbers that make up one result are computed together.
                    for sibling in node.family():
                        if sibling is node or id(sibling) not in state:
                            state[id(sibling)] = True
                            group.computed.append(sibling)
                else:
                    group.computed.append(node)

    def _is_computed_in(self, node: Node, roots: set[int]) -> bool:
        if isinstance(node, Leaf):
            return not isinstance(node.source, StoreSource)
        return not self.is_kept(node) or id(node) in roots
