"""How elements of nodes lie on disk."""

from outcrop.arrays.stored import StoreSource
from outcrop.arrays.views import NewAxis
from outcrop.expressions.graph.gathers import Join, Mosaic, Select, Take
from outcrop.expressions.graph.merge_runs import Collect
from outcrop.expressions.graph.nodes import Leaf, Map, Node
from outcrop.expressions.graph.retile import Moved

__all__ = ["slowness", "whole"]

_DEEP = 32
"""How far down it is looked for what lies on disk."""


def slowness(node: Node, axis: int) -> int:
    """How fast an axis is on disk: 0 for the slowest."""
    for _ in range(_DEEP):
        below = _below(node, axis)
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
    return axis


def _below(node: Node, axis: int) -> tuple[Node, int] | None:
    """The operand of which most of a node is made, and the axis there: it lies as that does."""
    if isinstance(node, Moved) or not node.operands:
        return None
    match node:
        case Take() | Collect():
            return node.operands[0], axis
        case Select():
            source = node.view.axes[axis]
        case Join():
            return max(node.operands, key=lambda operand: operand.size), axis
        case Mosaic():
            view, operand = max(
                zip(node.views, node.operands, strict=True), key=lambda pair: pair[0].size
            )
            source = view.axes[axis]
            return None if isinstance(source, NewAxis) else (operand, source)
        case Map():
            whole = (operand for operand in node.operands if operand.shape == node.shape)
            found = next(whole, None)
            return None if found is None else (found, axis)
        case _:
            return None
    return None if isinstance(source, NewAxis) else (node.operands[0], source)


def whole(node: Node, axis: int) -> int:
    """How many indices a node's tiles have along an axis on disk, where they are read whole."""
    if isinstance(node, Leaf) and isinstance(node.source, StoreSource):
        source = node.view.axes[axis]
        if node.source.layout == "tiled" and not isinstance(source, NewAxis):
            return max(node.source.tile[source] // abs(node.view.span(axis).step), 1)
    return 1
