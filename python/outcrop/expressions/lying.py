"""How elements of nodes lie on disk."""

from outcrop._store import StoreSource
from outcrop.expressions.collecting import Collect
from outcrop.expressions.gathers import Select, Take
from outcrop.expressions.moving import Moved
from outcrop.expressions.nodes import Leaf, Node
from outcrop.views import NewAxis

__all__ = ["slowness", "whole"]


def slowness(node: Node, axis: int) -> int:
    """How fast an axis is on disk: 0 for the slowest."""
    while isinstance(node, Take | Collect | Select) and not isinstance(node, Moved):
        # As that lies which it is taken from.
        if isinstance(node, Select):
            source = node.view.axes[axis]
            if isinstance(source, NewAxis):
                return axis
            axis = source
        (node,) = node.operands
    if isinstance(node, Leaf):
        source = node.view.axes[axis]
        if isinstance(source, NewAxis):
            return len(node.view.selectors)
        if node.source.layout == "column-major":
            return len(node.view.selectors) - source
        return source
    return axis


def whole(node: Node, axis: int) -> int:
    """How many indices a node's tiles have along an axis on disk, where they are read whole."""
    if isinstance(node, Leaf) and isinstance(node.source, StoreSource):
        source = node.view.axes[axis]
        if node.source.layout == "tiled" and not isinstance(source, NewAxis):
            return max(node.source.tile[source] // abs(node.view.span(axis).step), 1)
    return 1
