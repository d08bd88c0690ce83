"""Which products of matrices are computed by blocks of the result, in an order of their own.

A sum of products of elements can be computed in the pass that computes its factors, cell by cell:
that reads a long factor once, and keeps nothing of what the factors are made of. Large results
need far less reading where a block of them stays in memory and slices of the factors stream past.

What either moves is estimated from the budget, extents and layouts; where the other way turns out
to move far less when it is planned, that is taken. Measured speeds do not decide: with them, the
same product would have other last bits another time.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from outcrop import _native
from outcrop.arrays.stored import StoreSource
from outcrop.expressions.graph.matrices import BlockProduct, MatrixOperation, straight
from outcrop.expressions.graph.nodes import Contract, Leaf, Node, Reduce, ancestors
from outcrop.process.config import memory_budget

__all__ = ["by_blocks", "others", "preferred"]

_PART = 0.75
"""The part of the budget that holds what is used again and again."""

_CELL = 12
"""What part of the budget a tile of a pass has, at most."""

_MOST = 8 << 20
"""Bytes of such a tile, at most."""

_FEW_CELLS = 8
"""How many times as large as a small factor a tile of a pass is, at least."""

_BLOCK = 4096
"""Bytes of a block of the disk."""

_FEW = 2
"""Products for each of which the other way is planned, too; of more, plans take long to make."""

_ALIKE = 1.1
"""Estimates that differ by less say nothing."""

_HOPELESS = 4
"""How many times as much a pass moves as blocks, by estimate, where it is not planned. What a pass
moves is estimated from below."""


@dataclass(frozen=True)
class _Factor:
    """A factor of a product, in bytes.

    Attributes
    ----------
    size : int
        All of it.
    below : float
        What is read to compute it once.
    own : float
        What is read to go through its tiles once more.
    kept : float
        What is moved so that it has tiles.
    """

    size: int
    below: float
    own: float
    kept: float


def by_blocks(roots: Sequence[Node], chosen: Mapping[int, bool]) -> list[Node]:
    """The roots, with those products by blocks, by their ids, that are chosen to be."""
    made: dict[int, Node] = {}
    for node in ancestors(roots):
        now = node.with_operands([made[id(o)] for o in node.operands])
        if isinstance(now, Contract) and chosen.get(id(node)):
            now = BlockProduct.made_of(now) or now
        made[id(node)] = now
    return [made[id(root)] for root in roots]


def preferred(roots: Sequence[Node]) -> tuple[dict[int, bool], set[int]]:
    """Of products that may be computed by blocks, by their ids, whether that is thought better.

    And those of which the other way is only looked at where memory is short.
    """
    found: dict[int, bool] = {}
    sure: set[int] = set()
    wanted = {id(root) for root in roots}
    made: dict[int, Node] = {}
    for node in ancestors(roots):
        now = node.with_operands([made[id(o)] for o in node.operands])
        if isinstance(now, Contract):
            blocks = BlockProduct.made_of(now)
            if blocks is not None:
                is_alone = id(node) in wanted and all(map(straight, now.operands))
                found[id(node)], is_sure = _moves_less_by_blocks(now, is_alone)
                if is_sure:
                    sure.add(id(node))
                now = blocks if found[id(node)] else now
        made[id(node)] = now
    return found, sure


def others(roots: Sequence[Node], chosen: Mapping[int, bool]) -> list[dict[int, bool]]:
    """Other choices to look at: one way for all, or, of few, the other way for one."""
    products = [node for node in ancestors(roots) if id(node) in chosen]
    found = [dict.fromkeys(chosen, way) for way in (True, False)]
    if len(products) <= _FEW:
        found += [{**chosen, id(node): not chosen[id(node)]} for node in products]
    return [choice for i, choice in enumerate(found) if choice not in (chosen, *found[:i])]


def _moves_less_by_blocks(product: Contract, is_alone: bool) -> tuple[bool, bool]:
    """Whether a product moves less by blocks, by estimate; and whether that is sure.

    One that is alone is of what is stored, and a result: there is no other pass.
    """
    budget = memory_budget()
    one, other = (_factor(operand, budget) for operand in product.operands)
    cells = _by_cells(product, (one, other), budget)
    blocks = _by_blocks(product, (one, other), budget)
    # A result of one tile is there through the whole pass, and half of a symmetric one is not
    # computed at all; what is read for others may be in memory, by blocks. What is computed in the
    # same pass need not be kept: with a factor of less than a tile, that costs nothing.
    # Alone, it is as much by blocks, which take the stored tiles one by one, and that is faster.
    is_streamed = max(one.size, other.size) > budget and not is_alone
    is_small = product.nbytes <= _cell(budget) and (product.is_symmetric or is_streamed)
    is_thin = min(one.size, other.size) <= _cell(budget) / _FEW_CELLS and not is_alone
    alike = _ALIKE if is_small or is_thin or one.kept or other.kept else 1 / _ALIKE
    return blocks * alike < cells, blocks * _HOPELESS < cells


def _cell(budget: int) -> float:
    """Bytes of a tile of a pass."""
    return max(min(budget / _CELL, _MOST), 1)


def _factor(node: Node, budget: int) -> _Factor:
    below = _read_below(node)
    if isinstance(node, MatrixOperation):
        return _Factor(node.nbytes, below, below, 0)
    found = straight(node)
    if found is not None:
        if not isinstance(found.leaf.source, StoreSource):
            return _Factor(node.nbytes, 0, 0, 0)
        return _Factor(node.nbytes, below, below * _stretch(found.leaf), 0)
    # It is kept, as far as memory does not hold it on disk.
    beyond = max(node.nbytes - _PART / 2 * budget, 0)
    return _Factor(node.nbytes, below, beyond, below + beyond)


def _read_below(node: Node) -> int:
    """Bytes that are read to compute a node once."""
    total = 0
    stack, seen = [node], set()
    while stack:
        at = stack.pop()
        if id(at) in seen:
            continue
        seen.add(id(at))
        if isinstance(at, Leaf):
            total += at.nbytes if isinstance(at.source, StoreSource) else 0
        elif isinstance(at, MatrixOperation | Reduce | Contract):
            # It is there when the pass begins.
            total += at.nbytes
        else:
            stack += at.operands
    return total


def _stretch(leaf: Leaf) -> float:
    """How many times a file's blocks are read where it is read in squares."""
    if leaf.source.layout == "tiled":
        return 1.0
    run = _native.square_side(leaf.dtype.itemsize, None) * leaf.dtype.itemsize
    return (run + _BLOCK) / run


def _by_cells(product: Contract, factors: tuple[_Factor, _Factor], budget: int) -> float:
    """Bytes moved in one pass: the longer factor comes once, and what fits into memory as well."""
    long, short = sorted(factors, key=lambda factor: -factor.size)
    cells = max(math.ceil(long.size / _cell(budget)), 1)
    is_square = product.operands[0] is product.operands[1]
    held = _PART * budget
    # By rows of the longer factor, the other one is there, or comes again for each of them. Where
    # both are one, it is kept twice, since it is cut in two ways.
    again = 2 * short.size if is_square else short.below
    beyond = max((short.size if is_square else again) - held, 0)
    by_rows = long.below + again + beyond * (cells - 1)
    # By what is summed over, the result is there, or comes again and goes.
    beyond = max(2 * product.nbytes - held, 0)
    by_depth = long.below + (0 if is_square else short.below) + 2 * beyond * cells
    return min(by_rows, by_depth) + product.nbytes


def _by_blocks(product: Contract, factors: tuple[_Factor, _Factor], budget: int) -> float:
    """Bytes moved by the best shape of blocks."""
    (m, n), (one, other) = product.shape, factors
    if product.result[0] not in product.labels[0]:
        one, other = other, one
    room = max(_PART * budget / product.dtype.itemsize, 1)
    # With one factor in memory, the other one comes once.
    fits = min(one.size, other.size) <= _PART / 2 * budget
    best, rows = 0.0 if fits else math.inf, m
    while not fits:
        columns = min(n, max(int(room / rows), 1))
        again = one.own * (math.ceil(n / columns) - 1) + other.own * (math.ceil(m / rows) - 1)
        best = min(best, again)
        if rows == 1:
            break
        rows = -(-rows // 2)
    if product.is_symmetric:
        # Half of it is computed, of fewer rows and columns.
        best /= math.sqrt(2)
    # A factor that is both is made once.
    once = (one,) if product.operands[0] is product.operands[1] else (one, other)
    return sum(f.kept + f.own for f in once) + best + product.nbytes
