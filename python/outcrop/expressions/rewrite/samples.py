"""Views with steps that leave out whole tiles, or long pieces of a file, which are not read."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import TypeAlias

from outcrop.arrays.stored import SampledState, StoredState
from outcrop.arrays.views import NewAxis, Span
from outcrop.expressions.graph.nodes import Leaf, Node, ancestors

__all__ = ["apart"]

_Spans: TypeAlias = dict[int, Span]
"""What is taken along some axes of what is stored."""

_GAP = 24 << 10
"""Bytes of a file between two pieces that are not read through, and of blocks at their ends."""

_FEW = 8
"""Where the rest of an array is read, too, samples are at least as far apart as that: it may be
read at the same time."""


def apart(roots: Sequence[Node]) -> list[Node]:
    """The same results, of samples that are read by themselves where that leaves something out."""
    nodes = ancestors(roots)
    leaves = [n for n in nodes if isinstance(n, Leaf) and isinstance(n.source, StoredState)]
    views: dict[int, list[tuple[Leaf, _Spans]]] = {}
    for leaf in leaves:
        if spans := _spans(leaf):
            views.setdefault(id(leaf.source), []).append((leaf, spans))
    # Two that take the same tiles read these once if they are not apart.
    found = {
        id(leaf): spans
        for own in views.values()
        if not any(_are_near(*one, other[1]) for one, other in combinations(own, 2))
        for leaf, spans in own
    }
    if not found:
        return list(roots)
    rest = {id(leaf.source) for leaf in leaves if id(leaf) not in found}
    samples: dict[tuple[int, tuple[tuple[int, Span], ...]], SampledState] = {}
    made: dict[int, Node] = {}
    for node in nodes:
        if id(node) not in found or not isinstance(node, Leaf):
            made[id(node)] = node.with_operands([made[id(o)] for o in node.operands])
            continue
        spans = found[id(node)]
        if id(node.source) in rest and math.prod(s.step for s in spans.values()) < _FEW:
            made[id(node)] = node
            continue
        assert isinstance(node.source, StoredState)
        key = id(node.source), tuple(spans.items())
        if key not in samples:
            samples[key] = SampledState(node.source, spans)
        source, view = samples[key], node.view
        selectors = [
            Span(0, 1, spans[axis].length) if axis in spans else own
            for axis, own in enumerate(view.selectors)
        ]
        view = replace(view, source_shape=source.shape, selectors=tuple(selectors))
        made[id(node)] = Leaf.of(source, view)
    return [made[id(root)] for root in roots]


def _are_near(leaf: Leaf, one: _Spans, other: _Spans) -> bool:
    """Whether other samples of what a view is of are in the same tiles, beside its own."""
    source = leaf.source
    return (
        source.layout == "tiled"
        and one != other
        and one.keys() == other.keys()
        and all(
            one[axis].step == other[axis].step
            and abs(one[axis].start - other[axis].start) < source.tile[axis]
            for axis in one
        )
    )


def _spans(leaf: Leaf) -> _Spans:
    """What is taken along those axes of what is stored along which something is left out."""
    source, view = leaf.source, leaf.view
    if not leaf.size:
        return {}
    steps = {
        axis: own
        for axis in view.axes
        if not isinstance(axis, NewAxis) and isinstance(own := view.selectors[axis], Span)
        if own.step > 1
    }
    if source.layout == "tiled":
        return {axis: own for axis, own in steps.items() if own.step > source.tile[axis]}
    order = range(len(source.shape))
    found: _Spans = {}
    # Bytes from one index to the next, and from the first element to the last of those inside.
    stride, inside = source.dtype.itemsize, source.dtype.itemsize
    for axis in order if source.layout == "column-major" else reversed(order):
        own = view.selectors[axis]
        if axis in steps and steps[axis].step * stride - inside >= _GAP:
            found[axis] = steps[axis]
        inside += ((own.extent if isinstance(own, Span) else 1) - 1) * stride
        stride *= source.shape[axis]
    return found
