"""What is repeated in a graph is found, whatever it is made of and in whatever order it comes."""

import random
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outcrop.program.drawing.boxes import Edge, Item, boxes_of
from outcrop.program.drawing.folding import Repetition, repetitions, runs_alike


class Graph:
    """Nodes with labels, made one after the other."""

    def __init__(self) -> None:
        self.labels: list[str] = []
        self.operands: list[tuple[int, ...]] = []

    def node(self, label: str, *operands: int) -> int:
        self.labels.append(label)
        self.operands.append(tuple(dict.fromkeys(operands)))
        return len(self.labels) - 1

    def found(self) -> list[Repetition]:
        return repetitions(self.labels, self.operands)

    def shuffled(self, seed: int) -> "Graph":
        """The same in another order, operands first."""
        choose = random.Random(seed)
        waiting = set(range(len(self.labels)))
        number: dict[int, int] = {}
        other = Graph()
        while waiting:
            ready = sorted(i for i in waiting if all(o in number for o in self.operands[i]))
            i = choose.choice(ready)
            waiting.remove(i)
            own = [number[o] for o in self.operands[i]]
            choose.shuffle(own)
            number[i] = other.node(self.labels[i], *own)
        return other


def factors(steps: int) -> Graph:
    """Multiplicative updates of W and H."""
    g = Graph()
    X, W, H = g.node("X"), g.node("W"), g.node("H")
    for _ in range(steps):
        top = g.node("multiply", H, g.node("matmul", W, X))
        H = g.node("divide", top, g.node("matmul", g.node("gram", W), H))
        top = g.node("multiply tall", W, g.node("matmul tall", X, H))
        W = g.node("divide tall", top, g.node("matmul tall", W, g.node("gram", H)))
    g.node("end", W, H)
    return g


def recurrence(steps: int) -> Graph:
    """Each vector is made of the last two of them, and of what a product has left beforehand."""
    g = Graph()
    A, before, now = g.node("A"), g.node("v"), g.node("v")
    for _ in range(steps):
        # It is made when it is needed first, and stays.
        gram = g.labels.index("gram") if "gram" in g.labels else g.node("gram", A)
        before, now = now, g.node("subtract", g.node("matmul", gram, now), before)
    return g


def chain(steps: int) -> Graph:
    g = Graph()
    x = g.node("file")
    for _ in range(steps):
        x = g.node("add", x, g.node("file"))
    return g


def side_by_side(count: int) -> Graph:
    g = Graph()
    ends = []
    for _ in range(count):
        x = g.node("file")
        ends.append(g.node("divide", g.node("subtract", x, g.node("mean", x)), g.node("std", x)))
    g.node("stack", *ends)
    return g


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
@pytest.mark.parametrize(
    ("graph", "period", "handed_on"),
    [(factors, 10, 2), (recurrence, 2, 1), (chain, 1, 1), (side_by_side, 4, 0)],
)
def test_loops(graph: type, period: int, handed_on: int, seed: int | None) -> None:
    g = graph(20)
    g = g if seed is None else g.shuffled(seed)
    (found,) = g.found()
    assert len(found.copies) == 20
    assert {len(copy) for copy in found.copies} == {period}
    assert len(found.handed_on) == handed_on
    check(g.labels, g.operands, [found])


def test_one_loop_after_the_other_and_one_in_another() -> None:
    g = Graph()
    A, x = g.node("A"), g.node("x")
    for _ in range(6):
        x = g.node("scale", g.node("matmul", A, x))
    for _ in range(5):
        for _ in range(7):
            x = g.node("add", x, g.node("file"))
        x = g.node("sqrt", x)
    first, second = g.found()
    assert (len(first.copies), len(first.copies[0])) == (6, 2)
    # The outer one.
    assert (len(second.copies), len(second.copies[0])) == (5, 8)


def test_nothing_to_fold() -> None:
    g = Graph()
    x = g.node("x")
    for label in ("exp", "sum", "sqrt", "exp", "add", "exp", "mean", "sum", "sqrt", "log"):
        x = g.node(label, x)
    assert not g.found()
    # As often as this is as easily looked at.
    assert not chain(2).found() and not factors(2).found()
    # Labels come again, but not what they are of.
    g = Graph()
    y, x = g.node("x"), g.node("z")
    for step in range(12):
        x = g.node("add", x, y if step in (2, 5, 6, 9) else g.node("file"))
    assert all(len(one.copies) < 4 for one in g.found())


def check(
    labels: Sequence[str], operands: Sequence[Sequence[int]], found: Sequence[Repetition]
) -> None:
    """Whether copies are alike, and boxes for them make no circle."""
    part = list(range(len(labels)))
    for one in found:
        nodes = [node for copy in one.copies for node in copy]
        assert len(set(nodes)) == len(nodes)
        for copy in one.copies:
            assert [labels[n] for n in copy] == [labels[n] for n in one.copies[0]]
            assert all(operands[n] for n in copy)
        # In one place, each takes as much from its own copy.
        inside = [[sum(o in copy for o in operands[node]) for node in copy] for copy in one.copies]
        assert all(a == b for a, b in pairwise(inside))
        for node in nodes:
            assert part[node] == node
        for node in nodes:
            part[node] = nodes[0] + len(labels)
    after: dict[int, set[int]] = {p: set() for p in part}
    for node, own in enumerate(operands):
        for source in own:
            if part[source] != part[node]:
                after[part[source]].add(part[node])
    while after:
        ends = [p for p, targets in after.items() if not targets & set(after)]
        assert ends, "a circle"
        for end in ends:
            del after[end]


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_any_graph(data: st.DataObject) -> None:
    """Of few labels and near operands, in which much looks repeated that is not."""
    g = Graph()
    for i in range(data.draw(st.integers(0, 60))):
        own = data.draw(st.lists(st.integers(max(0, i - 4), i - 1), max_size=2)) if i else []
        g.node(data.draw(st.sampled_from("ab")), *own)
    found = g.found()
    check(g.labels, g.operands, found)
    items = [Item(label, "3 float64", 24, "never stored") for label in g.labels]
    edges = [Edge(s, t) for t, own in enumerate(g.operands) for s in own]
    for folded in (True, False):
        boxes, lines = boxes_of(items, edges, folded=folded)
        # In an order in which they can be made.
        assert all(0 <= source < target < len(boxes) for source, target in lines)
        assert len(set(lines)) == len(lines)
    assert len(boxes) == len(items)


def test_words() -> None:
    assert runs_alike([]) == []
    assert runs_alike("abcd") == [(i, 1, 1) for i in range(4)]
    assert runs_alike("xababababy") == [(0, 1, 1), (1, 2, 4), (9, 1, 1)]
    assert runs_alike("aaaaa" + "bcbcbcbc") == [(0, 1, 5), (5, 2, 4)]
