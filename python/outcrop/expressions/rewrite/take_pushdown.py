"""Taking what is at indices along an axis: from the operands, as far down as it goes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outcrop.arrays.stored import StoreSource
from outcrop.arrays.views import View
from outcrop.expressions.graph.gathers import Join, Take
from outcrop.expressions.graph.indices import Indices, Listed
from outcrop.expressions.graph.nodes import Contract, Leaf, Map, Node, Reduce
from outcrop.expressions.rewrite.view_pushdown import viewed

__all__ = ["taken", "taken_by_rule"]

_FEW = 16
"""Views of runs of indices, each read exactly, that are rather joined than indices taken."""

_ENDS = 3
"""Runs, as of what is padded, that are rather joined whatever they are of."""


@dataclass(frozen=True)
class _Runs:
    """Indices, and how they are made of runs of indices that follow one another, if of few."""

    indices: Indices
    runs: tuple[slice, ...] = ()

    def of(self, node: Node, axis: int) -> Node:
        """What is at the indices along an axis of a node that they are not pushed through."""
        few = 0 < len(self.runs) <= _ENDS
        if few or (self.runs and _are_read_apart(node, axis)):
            key = (slice(None),) * axis
            whole = View.whole(node.shape)
            parts = [viewed(node, whole.index((*key, run))) for run in self.runs]
            return parts[0] if len(parts) == 1 else Join.of(parts, axis)
        return Take.of(node, self.indices, axis)


def _are_read_apart(node: Node, axis: int) -> bool:
    """Whether runs of indices along an axis have little in common that is read for them."""
    if not isinstance(node, Leaf):
        return False
    slowest = {"row-major": 0, "column-major": len(node.view.selectors) - 1}
    at = slowest.get(node.source.layout)
    return not isinstance(node.source, StoreSource) or node.view.axes[axis] == at


def taken(node: Node, indices: NDArray[np.int64], axis: int) -> Node:
    """What is at non-negative indices along an axis."""
    breaks = np.flatnonzero(np.diff(indices) != 1) + 1
    runs: tuple[slice, ...] = ()
    if len(indices) and (len(breaks) + 1) * _ends(node, axis) <= _FEW:
        ends = zip([0, *breaks], [*breaks, len(indices)], strict=True)
        runs = tuple(slice(int(indices[a]), int(indices[a]) + int(b - a)) for a, b in ends)
    # They are the caller's, and may be changed.
    return _pushed(node, _Runs(Listed(indices.copy()), runs), axis)


def taken_by_rule(node: Node, indices: Indices, axis: int) -> Node:
    """What is at indices along an axis that follow a rule."""
    return _pushed(node, _Runs(indices), axis)


def _ends(node: Node, axis: int) -> int:
    """How many nodes it will be pushed down to."""
    stack: list[tuple[Node, int]] = [(node, axis)]
    seen: set[tuple[int, int]] = set()
    ends = 0
    while stack:
        at, along = stack.pop()
        if (id(at), along) in seen:
            continue
        seen.add((id(at), along))
        wishes = _wishes(at, along)
        ends += not wishes
        stack += [(operand, own) for operand, own in wishes if own is not None]
    return ends


def _pushed(node: Node, wanted: _Runs, axis: int) -> Node:
    # Depth first, without recursion: what is asked of operands comes before their consumers.
    made: dict[tuple[int, int], Node] = {}
    stack = [(node, axis)]
    while stack:
        at, along = stack[-1]
        key = (id(at), along)
        if key in made:
            stack.pop()
            continue
        wishes = _wishes(at, along)
        missing = [(o, own) for o, own in wishes if own is not None and (id(o), own) not in made]
        if missing:
            stack += missing
            continue
        stack.pop()
        operands = [o if own is None else made[id(o), own] for o, own in wishes]
        made[key] = _made(at, along, operands, wanted)
    return made[id(node), axis]


def _wishes(node: Node, axis: int) -> list[tuple[Node, int | None]]:
    """Along which axis elements are taken from operands; None: along none, the operand as it is."""
    match node:
        case Map() | Join() if node.is_stencil:
            # It is settled later what is made of what is taken of it, as of views.
            return []
        case Map():
            wishes: list[tuple[Node, int | None]] = []
            for operand in node.operands:
                own = axis - (node.ndim - operand.ndim)
                runs = own >= 0 and operand.shape[own] == node.shape[axis]
                wishes.append((operand, own if runs else None))
            return wishes
        case Reduce():
            kept = [a for a in range(node.operands[0].ndim) if a not in node.axes]
            return [(node.operands[0], kept[axis])]
        case Contract():
            label = node.result[axis]
            return [
                (operand, own.index(label) if label in own else None)
                for operand, own in zip(node.operands, node.labels, strict=True)
            ]
        case Join() if node.axis != axis:
            return [(operand, axis) for operand in node.operands]
    return []


def _made(node: Node, axis: int, operands: Sequence[Node], wanted: _Runs) -> Node:
    match node:
        case Map() | Join() if node.is_stencil:
            return wanted.of(node, axis)
        case Map():
            # One operand may be an argument twice.
            given = iter(operands)
            arguments: list[Any] = [
                next(given) if isinstance(a, Node) else a for a in node.arguments
            ]
            shape = (*node.shape[:axis], wanted.indices.length, *node.shape[axis + 1 :])
            return Map.of(node.function, arguments, node.dtype, shape)
        case Reduce():
            return Reduce.of(node.reduction, operands[0], node.axes, node.output)
        case Contract():
            return Contract.of(operands[0], operands[1], node.labels, node.result)
        case Join() if node.axis != axis:
            return Join.of(operands, node.axis)
    return wanted.of(node, axis)
