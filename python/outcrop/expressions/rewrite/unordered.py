"""Reductions of what is reshaped or joined, over the elements where they are without that.

A sum, an extreme or a count needs all elements of some axes, and no order of them. So what is
reshaped only to be reduced is not put in order: ``A.reshape(-1).sum()`` runs over the tiles of A as
they are. Nor is what is joined: the mean of ``oc.concat([A, B])`` is made of sums of A and of B,
each in its own tiles. Where anything else needs the order, all is left as it is: elements are moved
once for everything that is made of them.
"""

from collections.abc import Iterator, Sequence

from outcrop.arrays.views import NewAxis, View
from outcrop.expressions.graph.gathers import Join
from outcrop.expressions.graph.nodes import Map, Node, Reduce, Shape, ancestors
from outcrop.expressions.graph.reductions import Merged
from outcrop.expressions.graph.reshape import Reshape
from outcrop.expressions.rewrite.reshape_pushdown import reshaped
from outcrop.expressions.rewrite.view_pushdown import pushed

__all__ = ["unordered"]

_FEWER = 4
"""How many elements go into each result, at least, where rather the results are reshaped, or made
of several."""

_FEW = 8
"""How many arrays that are joined are reduced one by one, at most."""


def unordered(roots: Sequence[Node]) -> list[Node]:
    """The roots, with reductions of what is moved for them alone made of what that is of."""
    nodes = ancestors(roots)
    if not any(isinstance(node, Reshape | Join) for node in nodes):
        return list(roots)
    ordered = {id(root) for root in roots}
    for node in reversed(nodes):
        is_kept_in_order = id(node) in ordered if isinstance(node, Map) else _moving(node) is None
        if is_kept_in_order:
            ordered.update(map(id, node.operands))
    made: dict[int, Node] = {}
    for node in nodes:
        now = node.with_operands([made[id(o)] for o in node.operands])
        if isinstance(node, Reduce) and id(node.operands[0]) not in ordered:
            now = _moving(now) or now
        made[id(node)] = now
    return [made[id(root)] for root in roots]


def _moving(node: Node) -> Node | None:
    """A reduction for which fewer elements move; None if there is none."""
    if not isinstance(node, Reduce) or not node.reduction.takes_any_order or not node.size:
        return None
    return _apart(node) or _unfolded(node)


def _apart(node: Reduce) -> Node | None:
    """A reduction of what is joined, made of those of its parts."""
    (operand,), reduction = node.operands, node.reduction
    joined = (found for found in _below(operand) if isinstance(found, Join))
    join = next((found for found in joined if found.shape == operand.shape), None)
    if join is None:
        return None
    extents = [part.shape[join.axis] for part in join.operands]
    is_of_several = sum(extent > 0 for extent in extents) > 1 and len(extents) <= _FEW
    if not is_of_several or _FEWER * node.size > operand.size // len(extents):
        return None
    found: list[Reduce] = []
    for first, extent in zip(join.starts, extents, strict=True):
        if extent:
            start, shape = [0] * operand.ndim, list(operand.shape)
            start[join.axis], shape[join.axis] = first, extent
            part = pushed(operand, View.whole(operand.shape).part(start, shape))
            found.append(Reduce.of(reduction, part, node.axes, node.output))
    if join.axis not in node.axes:
        return Join.of(found, join.axis - sum(axis < join.axis for axis in node.axes))
    function = Merged(
        reduction, node.output, tuple(one.operands[0].size // one.size for one in found)
    )
    return Map.of(function, [each for one in found for each in one.family()], node.dtype)


def _unfolded(node: Reduce) -> Node | None:
    """A reduction of elements in the shape in which the fewest of them move; None if it is that."""
    (operand,) = node.operands
    best, least = None, _moved(operand)
    for shape, axes in {_shape_of(node, found): None for found in _reshapes(operand)}:
        inner = reshaped(operand, shape)
        if (moved := _moved(inner)) < least:
            result = Reduce.of(node.reduction, inner, axes, node.output)
            best, least = reshaped(result, node.shape), moved
    return best


def _shape_of(node: Reduce, found: Reshape) -> tuple[Shape, tuple[int, ...]]:
    """A shape for what is reduced, with axes of what is reshaped, and the axes to reduce it over.

    Axes of a fold are those before it where all of them go; or stay, in a result of few elements.
    """
    axes: list[tuple[int, bool]] = []
    owner = [i for i, fold in enumerate(found.folds) for _ in fold.target]
    places: dict[int, list[int]] = {}
    for place, axis in enumerate(found.view.axes):
        if not isinstance(axis, NewAxis):
            places.setdefault(owner[axis], []).append(place)
    is_small = _FEWER * node.size <= node.operands[0].size
    for place, axis in enumerate(found.view.axes):
        goes = place in node.axes
        if not isinstance(axis, NewAxis):
            own = places[owner[axis]]
            if {p in node.axes for p in own} == {goes} and (goes or is_small):
                if place == own[0]:
                    axes += [(n, goes) for n in found.folds[owner[axis]].source]
                continue
        axes.append((found.shape[place], goes))
    shape = tuple(n for n, _ in axes)
    return shape, tuple(i for i, (_, goes) in enumerate(axes) if goes)


def _reshapes(node: Node) -> Iterator[Reshape]:
    """The reshapes, axes in their order, of whose elements a node is made one by one."""
    for found in _below(node):
        if isinstance(found, Reshape) and found.shape == node.shape and found.is_whole:
            yield found


def _below(node: Node) -> Iterator[Node]:
    """What a node is made of by functions of elements."""
    stack, seen = [node], set()
    while stack:
        at = stack.pop()
        if id(at) not in seen:
            seen.add(id(at))
            yield at
            if isinstance(at, Map):
                stack += at.operands


def _moved(node: Node) -> int:
    """How many elements are moved for it."""
    return sum(found.size for found in _below(node) if isinstance(found, Reshape))
