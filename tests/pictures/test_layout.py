"""Where the boxes of pictures stand, and how edges go around them."""

import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outcrop.errors import UnsupportedError
from outcrop.program.drawing.layout import Layout, Place, Point, arranged

Sizes = list[tuple[float, float]]
Edges = list[tuple[int, int]]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Sizes, Edges]:
    """Boxes of any size, each made of some before it: near ones, far ones, or of none."""
    count = draw(st.integers(1, 40))
    length = st.integers(10, 300)
    sizes = [(float(draw(length)), float(draw(length))) for _ in range(count)]
    edges = set()
    for target in range(1, count):
        near = draw(st.booleans())
        low = max(0, target - 4) if near else 0
        sources = draw(st.lists(st.integers(low, target - 1), max_size=4))
        edges |= {(source, target) for source in sources}
    order = draw(st.permutations(sorted(edges)))
    return sizes, order


def flattened(path: list[Point]) -> list[Point]:
    """Points on the way of an edge, near to one another, as whoever draws it has them."""
    points = [path[0]]
    for (x, y), (x2, y2) in pairwise(path):
        middle = (y + y2) / 2
        for step in range(1, 33):
            t = step / 32
            s = 1 - t
            weights = s**3, 3 * s * s * t, 3 * s * t * t, t**3
            points.append(
                (
                    sum(w * p for w, p in zip(weights, (x, x, x2, x2), strict=True)),
                    sum(w * p for w, p in zip(weights, (y, middle, middle, y2), strict=True)),
                )
            )
    return points


def crosses(begin: Point, end: Point, box: Place) -> bool:
    """Whether a line has a part of it inside of a box (Liang and Barsky)."""
    low, high = 0.0, 1.0
    for at, way, least, most in (
        (begin[0], end[0] - begin[0], box.x + 0.01, box.x + box.width - 0.01),
        (begin[1], end[1] - begin[1], box.y + 0.01, box.y + box.height - 0.01),
    ):
        if way == 0:
            if not least < at < most:
                return False
            continue
        first, last = sorted(((least - at) / way, (most - at) / way))
        low, high = max(low, first), min(high, last)
    return low < high


def overlap(a: Place, b: Place) -> bool:
    return (
        a.x < b.x + b.width
        and b.x < a.x + a.width
        and a.y < b.y + b.height
        and b.y < a.y + a.height
    )


def check(layout: Layout, sizes: Sizes, edges: Edges) -> None:
    places = layout.places
    for place, size in zip(places, sizes, strict=True):
        assert (place.width, place.height) == size
        assert place.x >= 0 and place.x + place.width <= layout.width + 0.1
        assert place.y >= 0 and place.y + place.height <= layout.height
    for number, place in enumerate(places):
        assert not any(overlap(place, other) for other in places[number + 1 :])
    ways: dict[int, set[Point]] = {}
    for (source, _), path in zip(edges, layout.paths, strict=True):
        ways.setdefault(source, set()).update(path[1:])
    for (source, target), path in zip(edges, layout.paths, strict=True):
        above, below = places[source], places[target]
        if path[0] not in ways[source]:
            assert path[0][1] == above.y + above.height
            assert above.x < path[0][0] < above.x + above.width
        assert [y for _, y in path] == sorted(y for _, y in path)
        assert path[-1][1] == below.y
        assert below.x < path[-1][0] < below.x + below.width
        points = flattened(path)
        assert all(0 <= x <= layout.width and 0 <= y <= layout.height for x, y in points)
        for begin, end in pairwise(points):
            # Not even those at its ends are crossed.
            assert not any(crosses(begin, end, place) for place in places)


@settings(deadline=None, max_examples=60)
@given(graphs())
def test_boxes_do_not_overlap_and_edges_cross_none(graph: tuple[Sizes, Edges]) -> None:
    sizes, edges = graph
    layout = arranged(sizes, edges)
    check(layout, sizes, edges)
    assert arranged(sizes, edges) == layout


def test_what_the_check_would_find() -> None:
    box = Place(10, 10, 20, 20)
    assert crosses((0, 0), (40, 40), box)
    assert crosses((20, 0), (20, 40), box)
    assert not crosses((10, 0), (10, 40), box)
    assert not crosses((0, 15), (5, 20), box)
    assert overlap(box, Place(29, 29, 5, 5))
    assert not overlap(box, Place(30, 10, 5, 5))


def test_an_edge_that_goes_far_goes_around() -> None:
    sizes = [(100.0, 40.0)] * 4
    edges = [(0, 1), (1, 2), (2, 3), (0, 3)]
    layout = arranged(sizes, edges)
    check(layout, sizes, edges)
    rows = [place.y for place in layout.places]
    assert rows == sorted(set(rows))
    # The chain is nearly straight, and the other edge is beside it.
    assert max(place.x for place in layout.places) - min(p.x for p in layout.places) < 60
    middle = layout.places[1]
    outside = [x for x, y in layout.paths[3] if middle.y <= y <= middle.y + middle.height]
    assert outside and not any(middle.x <= x <= middle.x + middle.width for x in outside)


def test_few_edges_cross() -> None:
    """Pairs that belong together are above one another, in whatever order they are given."""
    edges = [(i, 5 + (3 * i) % 5) for i in range(5)]
    layout = arranged([(60.0, 30.0)] * 10, edges)
    above = sorted(range(5), key=lambda i: layout.places[i].x)
    below = sorted(range(5), key=lambda i: layout.places[dict(edges)[i]].x)
    assert above == below


def test_nothing_and_one() -> None:
    assert arranged([], []).places == []
    assert arranged([(30.0, 20.0)], []).paths == []


def loop(steps: int) -> tuple[Sizes, Edges]:
    """What is used in all steps, and in each of them what the last ones have left."""
    edges = []
    for i in range(1, steps):
        edges += [(j, i) for j in sorted({0, i - 1, max(i - 3, 0)})]
    return [(120.0, 60.0)] * steps, edges


def test_time_grows_with_the_number_of_boxes() -> None:
    def seconds(steps: int) -> float:
        found = []
        for _ in range(3):
            begin = time.process_time()
            arranged(*loop(steps))
            found.append(time.process_time() - begin)
        return min(found)

    # Sixteen times as long, if it grew with the square.
    assert seconds(2000) < 9 * seconds(500)


def test_what_would_take_forever_is_refused() -> None:
    steps = 2000
    edges = [(i, j) for j in range(1, steps) for i in {j - 1, j // 2}]
    with pytest.raises(UnsupportedError, match="fewer iterations"):
        arranged([(100.0, 40.0)] * steps, edges)
