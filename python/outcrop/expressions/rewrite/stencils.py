"""Expressions that take an array through several views which overlap, as differences do.

A view of such a stencil is a stencil of views. Of several of them, each is made of more views than
the stencil is, so that in a loop there would be more with every step. So a view of a stencil stays
as it is, a `Select`, until all views are known, when a plan is made: `settled` then makes it of
views of the operands after all, where that takes few operations, or has the stencil computed once,
and kept, for all that take a part of it.
"""

import math
from collections.abc import Sequence

from outcrop.arrays.views import View, around
from outcrop.expressions.graph.gathers import Gather, Join, Mosaic, Select
from outcrop.expressions.graph.nodes import Below, Leaf, Map, Node, ancestors
from outcrop.expressions.rewrite.common_views import shared
from outcrop.expressions.rewrite.view_pushdown import (
    below,
    composed,
    leaf_of,
    viewed_later,
)

__all__ = ["settled"]

_CHEAP = 12
"""Operations on an element, for all views of a stencil, that are rather done than it is kept."""

_AGAIN = 1.5
"""How many times as large as the stencil its views are together, at least, where it is kept."""


def settled(roots: Sequence[Node], as_they_are: Sequence[bool]) -> list[Node]:
    """The roots with every view of a stencil made of other views, or taken from what is kept.

    `as_they_are` says which of the roots are read as they lie where they are views of an array.
    """
    nodes = ancestors(roots)
    if any(isinstance(node, Select) and isinstance(node.operands[0], Map | Join) for node in nodes):
        roots = _Settling(roots, nodes).roots
        nodes = ancestors(roots)
    own = {id(root) for root, is_plain in zip(roots, as_they_are, strict=True) if is_plain}
    if (found := shared(roots, nodes, own)) is not roots:
        roots, nodes = found, ancestors(found)
    if any(isinstance(node, Join) for node in nodes):
        roots = _without_views_of_views(roots, nodes)
    return list(roots)


class _Settling:
    """Which views of each node are wanted, and what they are made of."""

    def __init__(self, roots: Sequence[Node], nodes: Sequence[Node]) -> None:
        # Of each node, the views, and whether whoever wants one takes it as a view.
        self._wanted: dict[int, dict[View, bool]] = {id(node): {} for node in nodes}
        self._kept: set[int] = set()
        self._below: dict[tuple[int, View], Below[View]] = {}
        self._made: dict[tuple[int, View], Node] = {}
        for root in roots:
            self._want(root, View.whole(root.shape))
        for node in reversed(nodes):
            self._look(node)
        for node in nodes:
            for view in self._wanted[id(node)]:
                self._made[id(node), view] = self._make(node, view)
        self.roots = [self._whole(root) for root in roots]

    def _want(self, node: Node, view: View, *, apart: bool = False) -> None:
        views = self._wanted[id(node)]
        views[view] = views.get(view, False) or apart

    def _look(self, node: Node) -> None:
        views = self._wanted[id(node)]
        if isinstance(node, Select):
            for view in views:
                self._want(node.operands[0], composed(node.view, view), apart=True)
            return
        if self._is_kept(node, views):
            self._kept.add(id(node))
        for view in list(views):
            found = None if id(node) in self._kept else below(node, view)
            if found is not None and found[0]:
                self._below[id(node), view] = found
                for operand, own in found[0]:
                    self._want(operand, own, apart=isinstance(node, Gather))
            else:
                for operand in node.operands:
                    self._want(operand, View.whole(operand.shape))

    def _is_kept(self, node: Node, views: dict[View, bool]) -> bool:
        """Whether a stencil is rather computed once than for each of its views."""
        if len(views) < 2 or not any(views.values()) or not isinstance(node, Map):
            return False
        if not node.is_stencil:
            return False
        again = sum(view.size for view in views) >= _AGAIN * _union(list(views))
        return again and len(views) * _operations(node) > _CHEAP

    def _whole(self, node: Node) -> Node:
        return self._made[id(node), View.whole(node.shape)]

    def _make(self, node: Node, view: View) -> Node:
        if isinstance(node, Select):
            return self._made[id(node.operands[0]), composed(node.view, view)]
        if isinstance(node, Leaf):
            return node if view.is_whole else leaf_of(node.source, composed(node.view, view))
        if (id(node), view) in self._below:
            wishes, make = self._below[id(node), view]
            return make([self._made[id(o), own] for o, own in wishes])
        whole = node.with_operands([self._whole(operand) for operand in node.operands])
        return viewed_later(whole, view)


def _union(views: Sequence[View]) -> int:
    """Elements of the box around all views."""
    low, high = around([view.box for view in views])
    return math.prod(b - a for a, b in zip(low, high, strict=True))


def _operations(node: Node) -> int:
    """Operations for one element, up to what is viewed or stored; of many, more than `_CHEAP`."""
    count, stack, seen = 0, [node], set()
    while stack and count <= _CHEAP:
        at = stack.pop()
        if id(at) in seen or not isinstance(at, Map):
            continue
        seen.add(id(at))
        count += 1
        stack += at.operands
    return count


def _without_views_of_views(roots: Sequence[Node], nodes: Sequence[Node]) -> list[Node]:
    """What is joined of views, and of what is joined, taken from where that comes from."""
    made: dict[int, Node] = {}
    for node in nodes:
        now = node.with_operands([made[id(o)] for o in node.operands])
        made[id(node)] = Mosaic.of(now) or now
    return [made[id(root)] for root in roots]
