"""Where boxes stand, and how edges go around them.

Boxes stand in rows, below what they are made of (K. Sugiyama, S. Tagawa, M. Toda: Methods for
visual understanding of hierarchical system structures, IEEE Trans. SMC 11, 1981). An edge that
passes a row has a place of its own there, as a narrow box would; between two rows there are no
boxes. So an edge goes straight down through rows, and bends between them only, and is behind no
box. All edges from one box pass a row in one place: with a box that is used in every row, there
would be as many places as there are pairs of rows.

Boxes are ordered by where their neighbours stand, up and down in turn, as long as that leaves fewer
crossings. Then each row is moved to where the lines are the straightest, which is an isotonic
regression: the order and the distances stay.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from outcrop.errors import UnsupportedError

__all__ = ["Layout", "Place", "Point", "arranged"]

Point = tuple[float, float]

MARGIN = 20.0
_BETWEEN = 26.0
"""From box to box in a row."""
_LANE = 12.0
"""What an edge takes of a row that it passes."""
_GAP = 40.0
"""From row to row, at least: where edges bend."""
_WIDER = 0.06
_WIDEST = 60.0
"""More than that where they have far to go: a part of that, and at most."""

_SWEEPS = 8
_EFFORT = 60_000
"""Places in rows that are looked at to order them; with more of them, less often."""

_MOST_PLACES = 200_000
"""Places that edges have in rows, in a picture that can be made in a while."""

_STRAIGHT = 20.0
"""How much it matters that an edge goes straight through a row, more than that a box is near."""


@dataclass(frozen=True)
class Place:
    """Where a box stands: its left and upper end, and how large it is."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Layout:
    """A picture's geometry; y grows downward.

    Attributes
    ----------
    places : list of Place
        Of each box.
    paths : list of list of Point
        The way of each edge, to the upper end of a box: from the lower end of another one, or from
        where it leaves the way of another edge of that one. From point to point it goes straight
        down where they are above one another, and else bends between two rows: beginning and ending
        downward, between the heights of the two.
    width, height : float
        Of all, with margins.
    """

    places: list[Place]
    paths: list[list[Point]]
    width: float
    height: float


def arranged(
    sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]], top: float = MARGIN
) -> Layout:
    """Arrange boxes, and lead edges around them.

    Parameters
    ----------
    sizes : sequence of tuple of float
        The width and height of each box.
    edges : sequence of tuple of int
        Pairs of boxes, each of which once; the first one has the lower number.
    top : float
        Where the first row begins.

    Raises
    ------
    UnsupportedError
        There is too much to be drawn.

    Examples
    --------
    >>> layout = arranged([(100, 40), (100, 40), (100, 40)], [(0, 2), (1, 2)])
    >>> layout.places[2].y > layout.places[0].y == layout.places[1].y
    True
    """
    graph = _Graph(sizes, edges)
    graph.order()
    graph.align()
    return graph.layout(top)


class _Graph:
    """Nodes in rows: boxes, and after them the places of edges that pass a row."""

    def __init__(
        self, sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]]
    ) -> None:
        self._sizes, self._edges = sizes, edges
        self._boxes = len(sizes)
        self._row = _rows(len(sizes), edges)
        rows = max(self._row, default=-1) + 1
        last = list(self._row)
        for source, target in edges:
            last[source] = max(last[source], self._row[target] - 1)
        if sum(last) - sum(self._row) > _MOST_PLACES:
            raise UnsupportedError(
                f"a picture of {self._boxes} arrays, of which many are used far from where they "
                "are made, cannot be looked at; that of fewer iterations can"
            )
        self._rows: list[list[int]] = [[] for _ in range(rows)]
        for box in range(self._boxes):
            self._rows[self._row[box]].append(box)
        # The places of each box's edges, from the row below it on.
        self._trunk: list[range] = []
        for box in range(self._boxes):
            begin = len(self._row)
            for row in range(self._row[box] + 1, last[box] + 1):
                self._rows[row].append(len(self._row))
                self._row.append(row)
            self._trunk.append(range(begin, len(self._row)))
        self._above: list[list[int]] = [[] for _ in self._row]
        self._below: list[list[int]] = [[] for _ in self._row]
        for box, trunk in enumerate(self._trunk):
            before = box
            for place in trunk:
                self._link(before, place)
                before = place
        for source, target in edges:
            self._link(self._before(source, target), target)
        self._x = [0.0] * len(self._row)

    def _link(self, upper: int, lower: int) -> None:
        self._below[upper].append(lower)
        self._above[lower].append(upper)

    def _before(self, source: int, target: int) -> int:
        """From where in the row above the edge comes to its end."""
        steps = self._row[target] - self._row[source] - 1
        return self._trunk[source][steps - 1] if steps else source

    def _width(self, node: int) -> float:
        return self._sizes[node][0] if node < self._boxes else 0.0

    # -- the order in rows -----------------------------------------------------------------------

    def order(self) -> None:
        """Order each row, so that few edges cross."""
        self._start()
        best, least = [list(row) for row in self._rows], self._crossings()
        sweeps = max(1, min(_SWEEPS, _EFFORT // max(len(self._row), 1)))
        for _ in range(sweeps):
            if not least:
                break
            for row in self._rows[1:]:
                self._sort(row, self._above)
            for row in reversed(self._rows[:-1]):
                self._sort(row, self._below)
            now = self._crossings()
            if now >= least:
                break
            best, least = [list(row) for row in self._rows], now
        self._rows = best

    def _start(self) -> None:
        """In the order of a walk, so that what belongs together begins together."""
        seen = [False] * len(self._row)
        rows: list[list[int]] = [[] for _ in self._rows]
        for root in range(self._boxes):
            stack = [root]
            while stack:
                node = stack.pop()
                if not seen[node]:
                    seen[node] = True
                    rows[self._row[node]].append(node)
                    stack += reversed(self._above[node] + self._below[node])
        self._rows = rows
        self._place()

    def _place(self) -> None:
        self._at = [0.0] * len(self._row)
        for row in self._rows:
            for at, node in enumerate(row):
                self._at[node] = at

    def _sort(self, row: list[int], near: list[list[int]]) -> None:
        at = self._at
        middle = {
            node: sum(at[other] for other in near[node]) / len(near[node])
            if near[node]
            else at[node]
            for node in row
        }
        row.sort(key=middle.__getitem__)
        for place, node in enumerate(row):
            at[node] = place

    def _crossings(self) -> int:
        return sum(self._crossings_below(row) for row in self._rows[:-1])

    def _crossings_below(self, row: Sequence[int]) -> int:
        """Pairs of edges that cross, counted with a Fenwick tree."""
        ends = [
            int(end)
            for node in row
            for end in sorted(self._at[other] for other in self._below[node])
        ]
        size = max(ends, default=0) + 1
        tree = [0] * (size + 1)
        found = 0
        for count, end in enumerate(ends):
            at, passed = end + 1, 0
            while at:
                passed += tree[at]
                at &= at - 1
            found += count - passed
            at = end + 1
            while at <= size:
                tree[at] += 1
                at += at & -at
        return found

    # -- from the left to the right --------------------------------------------------------------

    def align(self) -> None:
        """Say where everything stands in its row."""
        offsets = [self._offsets(row) for row in self._rows]
        for row, own in zip(self._rows, offsets, strict=True):
            for node, x in zip(row, own, strict=True):
                self._x[node] = x - own[-1] / 2
        sweeps = max(2, min(_SWEEPS, _EFFORT // max(len(self._row), 1)))
        for _ in range(sweeps):
            for i in range(1, len(self._rows)):
                self._move(self._rows[i], offsets[i], (self._above,))
            for i in reversed(range(len(self._rows) - 1)):
                self._move(self._rows[i], offsets[i], (self._below,))
        for i in range(len(self._rows)):
            self._move(self._rows[i], offsets[i], (self._above, self._below))

    def _offsets(self, row: Sequence[int]) -> list[float]:
        """Where the middles of nodes stand that are as near to each other as they may be."""
        found = []
        at = 0.0
        for before, node in zip((None, *row), row, strict=False):
            if before is not None:
                between = (before < self._boxes) + (node < self._boxes)
                at += (self._width(before) + self._width(node)) / 2
                at += (_LANE, (_BETWEEN + _LANE) / 2, _BETWEEN)[between]
            found.append(at)
        return found

    def _move(
        self, row: Sequence[int], offsets: Sequence[float], sides: Sequence[list[list[int]]]
    ) -> None:
        """Move a row's nodes near their neighbours, by the pool of adjacent violators."""
        blocks: list[tuple[float, float, int]] = []
        for node, offset in zip(row, offsets, strict=True):
            wanted = weight = 0.0
            for near in sides:
                for other in near[node]:
                    both = node >= self._boxes and other >= self._boxes
                    own = _STRAIGHT if both else 1.0
                    wanted += own * self._x[other]
                    weight += own
            if weight:
                wanted /= weight
            else:
                # Nothing pulls it.
                wanted, weight = self._x[node], 0.01
            mean, heavy, count = wanted - offset, weight, 1
            while blocks and blocks[-1][0] >= mean:
                other_mean, other_weight, other_count = blocks.pop()
                total = heavy + other_weight
                mean = (mean * heavy + other_mean * other_weight) / total
                heavy, count = total, count + other_count
            blocks.append((mean, heavy, count))
        at = 0
        for mean, _, count in blocks:
            for _ in range(count):
                self._x[row[at]] = mean + offsets[at]
                at += 1

    # -- what is drawn ---------------------------------------------------------------------------

    def layout(self, top: float) -> Layout:
        """The picture."""
        left = min((self._x[i] - self._width(i) / 2 for i in range(len(self._row))), default=0.0)
        right = max((self._x[i] + self._width(i) / 2 for i in range(len(self._row))), default=0.0)
        x = [round(one - left + MARGIN, 1) for one in self._x]
        tops, bottoms = self._heights(x, top)
        places = []
        for box, (width, height) in enumerate(self._sizes):
            places.append(Place(round(x[box] - width / 2, 1), tops[self._row[box]], width, height))
        paths = self._paths(x, places, tops, bottoms)
        end = bottoms[-1] if bottoms else top
        return Layout(places, paths, round(right - left + 2 * MARGIN, 1), end + MARGIN)

    def _heights(self, x: Sequence[float], top: float) -> tuple[list[float], list[float]]:
        """Where rows begin and end."""
        tops, bottoms = [], []
        at = top
        for row in self._rows:
            # From what is drawn: a row's lowest box ends where the row does, to the last digit.
            at = round(at, 1)
            tops.append(at)
            boxes = (self._sizes[node][1] for node in row if node < self._boxes)
            at += max(boxes, default=0.0)
            bottoms.append(at)
            far = max(
                (abs(x[node] - x[other]) for node in row for other in self._below[node]),
                default=0.0,
            )
            at += _GAP + min(_WIDER * far, _WIDEST)
        return tops, bottoms

    def _ports(self, x: Sequence[float]) -> list[float]:
        """Where edges end, beside one another in the order in which they come."""
        ends: dict[int, list[int]] = {}
        for number, (_, target) in enumerate(self._edges):
            ends.setdefault(target, []).append(number)
        found = [0.0] * len(self._edges)
        for target, numbers in ends.items():
            numbers.sort(key=lambda n: x[self._before(*self._edges[n])])
            apart = min(self._width(target) / (len(numbers) + 1), 36.0)
            for at, number in enumerate(numbers):
                found[number] = round(x[target] + (at - (len(numbers) - 1) / 2) * apart, 1)
        return found

    def _paths(
        self,
        x: Sequence[float],
        places: Sequence[Place],
        tops: Sequence[float],
        bottoms: Sequence[float],
    ) -> list[list[Point]]:
        """The ways of edges, of which each part is in one of them only."""
        ports = self._ports(x)
        found: list[list[Point]] = [[] for _ in self._edges]
        passed = [0] * self._boxes
        # The nearest first: the others go on where it leaves.
        for number in sorted(range(len(ports)), key=lambda n: self._row[self._edges[n][1]]):
            source, target = self._edges[number]
            trunk = self._trunk[source]
            begin, end = passed[source], self._row[target] - self._row[source] - 1
            before = trunk[begin - 1] if begin else source
            points = found[number]
            if not begin:
                points.append((x[source], places[source].y + places[source].height))
            points.append((x[before], bottoms[self._row[before]]))
            for node in trunk[begin:end]:
                points += [(x[node], tops[self._row[node]]), (x[node], bottoms[self._row[node]])]
            points.append((ports[number], tops[self._row[target]]))
            found[number] = [p for i, p in enumerate(points) if not i or p != points[i - 1]]
            passed[source] = max(begin, end)
        return found


def _rows(boxes: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """The row of each box: below what it is made of; of leaves, just above what is made of them."""
    found = [0] * boxes
    is_leaf = [True] * boxes
    nearest = [boxes] * boxes
    for source, target in sorted(edges, key=lambda edge: edge[1]):
        found[target] = max(found[target], found[source] + 1)
        is_leaf[target] = False
    for source, target in edges:
        nearest[source] = min(nearest[source], found[target])
    for box in range(boxes):
        if is_leaf[box] and nearest[box] < boxes:
            found[box] = nearest[box] - 1
    return found
