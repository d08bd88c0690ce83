"""Rewriting: other expressions for the same arrays, which are computed in less time.

A rule takes a node, whose operands have been rewritten, and the identities of the nodes that have
several consumers; it gives another node of the same shape and type, or None. New rules are added to
`RULES`.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence, Set

from outcrop.arrays.views import View
from outcrop.expressions.graph.nodes import Contract, Node, ancestors
from outcrop.expressions.graph.reshape import Fold, Reshape
from outcrop.expressions.rewrite.point_pushdown import sampled
from outcrop.process.config import memory_budget

__all__ = ["RULES", "rewritten"]

_ROOM = 3
"""What part of the budget a product may have that is whole in memory."""

Rule = Callable[[Node, Set[int]], Node | None]


def _operations(node: Contract) -> int:
    """Multiplications that a product takes."""
    return math.prod(node.extents.values())


def associated(node: Node, shared: Set[int]) -> Node | None:
    """``(A B) C`` as ``A (B C)``, and the other way round, where that takes fewer operations.

    A product that has other consumers as well is there anyway, once for all of them.

    Of floating-point numbers and matrices only: the rounding errors of the two differ, but neither
    has the larger bound.
    """
    if not isinstance(node, Contract) or node.dtype.kind not in "fc":
        return None
    best: tuple[int, Node] | None = None
    for i in (0, 1):
        inner = node.operands[i]
        if not isinstance(inner, Contract) or id(inner) in shared:
            continue
        found = _turned(node, i, inner)
        if found is None:
            continue
        first = next(o for o in found.operands if o not in (*inner.operands,))
        assert isinstance(first, Contract)
        cost = _operations(found) + _operations(first)
        if cost < _operations(node) + _operations(inner) and (best is None or cost < best[0]):
            best = cost, found
    return None if best is None else best[1]


def _turned(node: Contract, i: int, inner: Contract) -> Contract | None:
    """A product of three with the one of the inner two that shares an axis with the third."""
    third, outer = node.operands[1 - i], node.labels[1 - i]
    # The inner product's labels as the outer one names them; those that it sums over are new.
    names = dict(zip(inner.result, node.labels[i], strict=True))
    fresh = (chr(c) for c in range(ord("A"), 0x10000))
    taken = set("".join(node.labels)) | set(node.result)
    for label in "".join(inner.labels):
        if label not in names:
            names[label] = next(c for c in fresh if c not in taken)
            taken.add(names[label])
    labels = ["".join(names[c] for c in own) for own in inner.labels]
    for j in (0, 1):
        near, far = labels[j], labels[1 - j]
        summed = [c for c in near if c in outer and c not in node.result]
        if not summed or any(c in far for c in summed):
            continue
        made = "".join(c for c in dict.fromkeys(near + outer) if c in node.result or c in far)
        if any(c in near and c in outer and c in far for c in made):
            return None
        operands = (inner.operands[j], third) if i == 0 else (third, inner.operands[j])
        pair = (near, outer) if i == 0 else (outer, near)
        product = Contract.of(*operands, pair, made)
        if i == 0:
            return Contract.of(inner.operands[1 - j], product, (far, made), node.result)
        return Contract.of(product, inner.operands[1 - j], (made, far), node.result)
    return None


def unfolded(node: Node, shared: Set[int]) -> Node | None:
    """A product over an axis into which others are folded, as one over these: nothing is reshaped.

    Where memory has room for the result: large ones are computed by blocks, of matrices.
    """
    if not isinstance(node, Contract) or node.nbytes * _ROOM > memory_budget():
        return None
    one, other = map(_summed_folds, node.operands, node.labels, [node.result] * 2)
    if one is None or other is None:
        return None
    extents = {label: fold.source for label, fold in one if not fold.is_trivial}
    if extents != {label: fold.source for label, fold in other if not fold.is_trivial}:
        return None
    taken = set("".join(node.labels))
    fresh = (c for c in map(chr, range(ord("A"), 0x10000)) if c not in taken)
    names = {label: "".join(next(fresh) for _ in source) for label, source in extents.items()}
    labels = ["".join(names.get(label, label) for label, _ in own) for own in (one, other)]
    operands = [operand.operands[0] for operand in node.operands]
    return Contract.of(operands[0], operands[1], (labels[0], labels[1]), node.result)


def _summed_folds(operand: Node, labels: str, result: str) -> list[tuple[str, Fold]] | None:
    """The folds of which axes are made, by their labels; None where others are than are summed."""
    if not isinstance(operand, Reshape) or not operand.size:
        return None
    view = operand.view
    if view.selectors != View.whole(view.source_shape).selectors or operand.ndim != len(
        view.source_shape
    ):
        return None
    found: list[tuple[str, Fold]] = []
    for place, fold in enumerate(operand.folds):
        label = labels[view.axes.index(place)]
        if len(fold.target) > 1 or (label in result and not fold.is_trivial):
            return None
        found.append((label, fold))
    return found


RULES: Sequence[Rule] = (associated, sampled, unfolded)


def rewritten(roots: Sequence[Node]) -> list[Node]:
    """The roots with every rule applied, wherever it applies, operands first."""
    made: dict[int, Node] = {}
    nodes = ancestors(roots)
    uses = Counter(id(node) for node in (*roots, *(o for n in nodes for o in n.operands)))
    shared = {id(node) for node in nodes if uses[id(node)] > 1}
    for node in nodes:
        now = node.with_operands([made[id(o)] for o in node.operands])
        changed = True
        while changed:
            changed = False
            for rule in RULES:
                found = rule(now, shared)
                if found is not None:
                    now, changed = found, True
        made[id(node)] = now
        if id(node) in shared:
            shared.add(id(now))
    return [made[id(node)] for node in roots]
