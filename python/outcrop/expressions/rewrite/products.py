"""Which products of matrices are computed by blocks of the result, in an order of their own.

A sum of products of elements can be computed in the pass that computes its factors, cell by cell:
that reads a long factor once, and keeps nothing of what the factors are made of. Large results
need far less reading where a block of them stays in memory and slices of the factors stream past.
"""

from collections.abc import Sequence

from outcrop.expressions.graph.matrices import BlockProduct, MatrixOperation, straight
from outcrop.expressions.graph.nodes import Contract, Node, ancestors

__all__ = ["SHORT", "by_blocks"]

SHORT = 2048
"""A product all of whose extents are longer is computed by blocks, whatever its factors are."""

_NARROW = 16
"""Columns, or rows, of a product that is made in one pass over the longer factor. (Measured, 3000 x
3000 by columns: a program of square blocks reads 14 times what there is with 2 MiB, 7 times with
16 MiB. One pass reads 1.0 times for 1 and 4 columns, 2.4 for 16, and 17 for 64 with 2 MiB.)"""


def by_blocks(roots: Sequence[Node]) -> list[Node]:
    """The roots, with products by blocks where these are better."""
    made: dict[int, Node] = {}
    for node in ancestors(roots):
        now = node.with_operands([made[id(o)] for o in node.operands])
        if isinstance(now, Contract) and _is_better_by_blocks(now):
            now = BlockProduct.made_of(now) or now
        made[id(node)] = now
    return [made[id(root)] for root in roots]


def _is_better_by_blocks(product: Contract) -> bool:
    if product.ndim != 2 or min(product.shape) <= _NARROW:
        return False
    # What is in tiles, or will be in any case.
    is_there = all(isinstance(o, MatrixOperation) or straight(o) for o in product.operands)
    return is_there or min(product.extents.values()) > SHORT
