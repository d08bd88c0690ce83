"""Matrices in long tiles are brought to square ones first, where linear algebra reads less then."""

from collections.abc import Sequence

from outcrop.arrays.stored import StoreSource
from outcrop.expressions.graph.gathers import Alias
from outcrop.expressions.graph.matrices import MatrixOperation, straight
from outcrop.expressions.graph.nodes import Leaf, Map, Node, ancestors

__all__ = ["alternatives"]

_LONG = 4
"""How many times as long as it is wide a tile is, at least, that is not as good as a square one."""

_MANY = 5000
"""Squares as wide as a tile, at most, into which a matrix may be cut."""


def alternatives(roots: Sequence[Node]) -> list[list[Node]]:
    """The roots as they are, and with operands of linear algebra in square tiles first.

    Those as they are are left out where there would be more steps than anybody wants to plan.
    """
    made: dict[int, Node] = {}
    squared: dict[int, Node] = {}
    most: float = 0
    for node in ancestors(roots):
        operands = [made[id(o)] for o in node.operands]
        if isinstance(node, MatrixOperation):
            for i, operand in enumerate(operands):
                tile = _tile(operand)
                if tile is not None and max(tile) > _LONG * min(tile):
                    most = max(most, operand.size / min(tile) ** 2)
                    operands[i] = squared.setdefault(id(operand), _copied(operand))
        made[id(node)] = node.with_operands(operands)
    if not squared:
        return [list(roots)]
    others = [made[id(root)] for root in roots]
    return [list(roots), others] if most <= _MANY else [others]


def _tile(operand: Node) -> list[int] | None:
    """Rows and columns of the tiles in which a matrix is stored, if it is."""
    found = straight(operand)
    if found is None or operand.ndim != 2 or not isinstance(found.leaf.source, StoreSource):
        return None
    leaf = found.leaf
    if leaf.source.layout != "tiled":
        return None
    pairs = zip(leaf.view.axes, leaf.shape, strict=True)
    tile = [min(leaf.source.tile[axis], n) for axis, n in pairs if isinstance(axis, int)]
    return tile if len(tile) == 2 and max(tile) > 1 else None


def _copied(operand: Node) -> Node:
    """An operand cut in its own way."""
    if isinstance(operand, Leaf):
        return Alias.kept(operand)
    assert isinstance(operand, Map)
    return operand.applied([_copied(operand.operands[0])], operand.shape)
