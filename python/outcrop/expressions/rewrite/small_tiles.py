"""What is stored in tiles of which memory holds few is copied to small ones first.

Where steps take parts of several tiles at once, as stencils do, and these do not fit into memory
together, each part would cost a whole tile, again and again.
"""

import math
from collections.abc import Sequence

from outcrop.arrays.stored import StoreSource
from outcrop.arrays.views import View
from outcrop.expressions.graph.gathers import Alias, Select
from outcrop.expressions.graph.matrices import MatrixOperation
from outcrop.expressions.graph.nodes import Leaf, Node, ancestors

__all__ = ["on_small_tiles"]


def on_small_tiles(roots: Sequence[Node], most: int) -> list[Node] | None:
    """The roots made of copies of what has tiles of more bytes; None where nothing has.

    What linear algebra takes as it is stays so.
    """
    copies: dict[int, Node] = {}
    made: dict[int, Node] = {}
    for node in ancestors(roots):
        if isinstance(node, Leaf) and _is_in_large_tiles(node, most):
            whole = View.whole(node.source.shape)
            if (copy := copies.get(id(node.source))) is None:
                copy = copies[id(node.source)] = Alias.kept(Leaf.of(node.source, whole))
            made[id(node)] = copy if node.view == whole else Select.of(copy, node.view)
        elif isinstance(node, MatrixOperation):
            made[id(node)] = node
        else:
            made[id(node)] = node.with_operands([made[id(o)] for o in node.operands])
    return [made[id(root)] for root in roots] if copies else None


def _is_in_large_tiles(leaf: Leaf, most: int) -> bool:
    source = leaf.source
    if not isinstance(source, StoreSource) or source.layout != "tiled":
        return False
    sizes = zip(source.tile, source.shape, strict=True)
    return math.prod(min(t, n) for t, n in sizes) * source.dtype.itemsize > most
