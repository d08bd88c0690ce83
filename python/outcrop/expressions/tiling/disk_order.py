"""How elements of nodes lie on disk."""

from outcrop.arrays.stored import StoreSource
from outcrop.arrays.views import NewAxis
from outcrop.expressions.graph.gathers import Alias, Join, Mosaic, Select, Take
from outcrop.expressions.graph.matrices import MatrixOperation
from outcrop.expressions.graph.merge_runs import Collect
from outcrop.expressions.graph.nodes import Contract, Expanded, Leaf, Lines, Map, Node, Reduce, Scan
from outcrop.expressions.graph.phases import Phase
from outcrop.expressions.graph.points import Points
from outcrop.expressions.graph.reshape import Reshape
from outcrop.expressions.graph.retile import Moved, Refolded
from outcrop.process.sizes import RUN

__all__ = ["slowness", "unit", "whole"]

_DEEP = 32
"""How far down it is looked for what lies on disk."""


def slowness(node: Node, axis: int) -> int:
    """How fast an axis is on disk: 0 for the slowest."""
    for _ in range(_DEEP):
        below = _below[type(node)](node, axis)
        if below is None:
            break
        node, axis = below
    if isinstance(node, Leaf):
        source = node.view.axes[axis]
        if isinstance(source, NewAxis):
            return len(node.view.selectors)
        if node.source.layout == "column-major":
            return len(node.view.selectors) - source
        return source
    if isinstance(node, Reshape):
        # Its folds are in the order of what is stored.
        place = node.view.axes[axis]
        return len(node.view.source_shape) if isinstance(place, NewAxis) else place
    return axis


_below: Phase[[int], tuple[Node, int] | None] = Phase(
    "the operand of which most of a node is made, and the axis there: it lies as that does"
)


@_below.of(Leaf, Reduce, Contract, Scan, MatrixOperation)
def _of_none(node: Node, axis: int) -> None:
    return None


@_below.of(Alias, Moved, Reshape, Refolded, Points)
def _not_followed(node: Node, axis: int) -> None:
    # What is in tiles of its own lies as these do.
    return None


@_below.of(Map)
def _of_map(node: Map, axis: int) -> tuple[Node, int] | None:
    found = next((operand for operand in node.operands if operand.shape == node.shape), None)
    return None if found is None else (found, axis)


@_below.of(Expanded, Select, Mosaic)
def _of_views(node: Expanded | Select | Mosaic, axis: int) -> tuple[Node, int] | None:
    pairs = zip(node.views, node.operands, strict=True)
    view, operand = max(pairs, key=lambda pair: pair[0].size)
    source = view.axes[axis]
    return None if isinstance(source, NewAxis) else (operand, source)


@_below.of(Lines)
def _of_lines(node: Lines, axis: int) -> tuple[Node, int]:
    return node.operands[0], axis


@_below.of(Join, Take, Collect)
def _of_rows(node: Node, axis: int) -> tuple[Node, int]:
    return max(node.operands, key=lambda operand: operand.size), axis


def whole(node: Node, axis: int) -> int:
    """How many indices a node's tiles have along an axis on disk, where they are read whole."""
    if isinstance(node, Leaf) and isinstance(node.source, StoreSource):
        source = node.view.axes[axis]
        if node.source.layout == "tiled" and not isinstance(source, NewAxis):
            return max(node.source.tile[source] // abs(node.view.span(axis).step), 1)
    return 1


def unit(node: Node, axis: int) -> int:
    """How many indices of a node belong together along an axis, by the tiles that it is made of."""
    for _ in range(_DEEP):
        if isinstance(node, Moved) and node.cuts.target is not None:
            return node.cuts.target[axis]
        if isinstance(node, Reshape):
            return _unit_of_fold(node, axis)
        below = (
            (node.operands[0], axis) if isinstance(node, Moved) else _below[type(node)](node, axis)
        )
        if below is None:
            break
        node, axis = below
    if isinstance(node, Leaf) and isinstance(node.source, StoreSource):
        last = {"row-major": len(node.view.selectors) - 1, "column-major": 0}.get(
            node.source.layout
        )
        if last is not None and node.view.axes[axis] == last:
            return -(-RUN // node.dtype.itemsize)
    return whole(node, axis)


def _unit_of_fold(node: Reshape, axis: int) -> int:
    """Along the last axis of a fold, that of its last axis in the operand."""
    place = node.view.axes[axis]
    sources = targets = 0
    for fold in node.folds:
        sources, targets = sources + len(fold.source), targets + len(fold.target)
        if place == targets - 1:
            return whole(node.operands[0], sources - 1)
    return 1
