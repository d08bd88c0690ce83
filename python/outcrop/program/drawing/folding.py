"""Repetitions in a graph: what a loop written in Python, or a list of arrays alike, has made.

Nodes are put in a row, operands first, in which repetitions are found as those of a text are: for
each period, where a label comes again after so many nodes. Of what looks repeated, it is then
checked whether it is: each copy takes from itself, from copies before it, and from elsewhere, what
the last copy does. Since copies lie in a row without anything between them, nothing that depends on
one is an operand of another by way of nodes outside: drawn as one box, they make no circle.
"""

import heapq
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Repetition", "repetitions", "runs_alike"]

_COPIES = 3
"""Fewer copies are not worth folding, ..."""

_SAVED = 4
"""... nor is what has no more boxes than this less."""

_GLANCE = 3
"""How many steps back one looks to tell nodes of one label apart."""

_TRIES = 200
"""Candidates that are checked in each part of a row."""


@dataclass(frozen=True)
class Repetition:
    """Copies of a subgraph.

    Attributes
    ----------
    copies : tuple of tuple of int
        The nodes of each copy. Those in one place of each copy are alike.
    handed_on : tuple of int
        The nodes of the last copy whose like a later copy takes: what flows from one to the next.
        None where copies are side by side.
    """

    copies: tuple[tuple[int, ...], ...]
    handed_on: tuple[int, ...]

    @property
    def saved(self) -> int:
        """How many boxes there are less."""
        return (len(self.copies) - 1) * len(self.copies[0])


def repetitions(labels: Sequence[Hashable], operands: Sequence[Sequence[int]]) -> list[Repetition]:
    """Find what is repeated in a chain, or side by side.

    Parameters
    ----------
    labels : sequence
        Of each node. Nodes with the same one, of like operands, are alike.
    operands : sequence of sequence of int
        The operands of each node, all of which come before it. Nodes that have none are leaves,
        which are in no copy: any leaf is like another one with the same label.

    Returns
    -------
    list of Repetition
        Each node is in one of them at most.

    Examples
    --------
    Of five arrays, one is added after the other:

    >>> labels = ["x"] * 6 + ["add"] * 5
    >>> (found,) = repetitions(labels, [()] * 6 + [(0, 1), (6, 2), (7, 3), (8, 4), (9, 5)])
    >>> found.copies, found.handed_on
    (((6,), (7,), (8,), (9,), (10,)), (10,))
    """
    numbers: dict[Hashable, int] = {}
    ids = [numbers.setdefault(label, len(numbers)) for label in labels]
    best: list[Repetition] = []
    saved = 0
    seen = set()
    for row in _rows(ids, operands):
        if tuple(row) not in seen:
            seen.add(tuple(row))
            found = _Row(row, ids, operands).repetitions()
            if (now := sum(one.saved for one in found)) > saved:
                best, saved = found, now
    return best


def runs_alike(keys: Sequence[Hashable]) -> list[tuple[int, int, int]]:
    """Find what is repeated in a text, whatever its words are.

    Returns
    -------
    list of tuple of int
        In order: where it begins, how many words are repeated, and how many times they come. What
        is not repeated comes once.

    Examples
    --------
    >>> runs_alike("abcbcbcbcd")
    [(0, 1, 1), (1, 2, 4), (9, 1, 1)]
    """
    numbers: dict[Hashable, int] = {}
    ids = np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)
    found: list[tuple[int, int, int]] = []

    def fold(low: int, high: int) -> None:
        best: tuple[int, int, int] | None = None
        for period, begin, end in _periodic(ids[low:high]):
            copies = (end - begin) // period
            if best is None or (copies - 1) * period > (best[2] - 1) * best[1]:
                best = low + begin, period, copies
        if best is None:
            found.extend((i, 1, 1) for i in range(low, high))
            return
        begin, period, copies = best
        fold(low, begin)
        found.append(best)
        fold(begin + period * copies, high)

    fold(0, len(ids))
    return found


def _periodic(ids: NDArray[np.int64]) -> Iterator[tuple[int, int, int]]:
    """Periods, and from where to where the row has them, for copies enough."""
    n = len(ids)
    for period in range(1, n // _COPIES + 1):
        same = np.zeros(n - period + 2, np.int8)
        same[1:-1] = ids[period:] == ids[:-period]
        edges = np.flatnonzero(np.diff(same))
        for begin, end in edges.reshape(-1, 2).tolist():
            copies = (end - begin) // period + 1
            if copies >= _COPIES and (copies - 1) * period >= _SAVED:
                yield period, begin, end + period


def _rows(ids: Sequence[int], operands: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Orders in which what is repeated may lie in a row: operands come first in each."""
    inner = [node for node, own in enumerate(operands) if own]
    yield inner
    yield _hoisted(inner, operands)
    deep = _deepest_first(ids, operands)
    yield deep
    yield _hoisted(deep, operands)


def _hoisted(row: list[int], operands: Sequence[Sequence[int]]) -> list[int]:
    """What is used from one end of the row to the other, and its operands, before all else.

    It is made where a loop uses it for the first time, and so the first copy would have more nodes
    than the others.
    """
    place = {node: at for at, node in enumerate(row)}
    first: set[int] = set()
    last = dict(place)
    for node in row:
        for source in operands[node]:
            if source in last:
                last[source] = max(last[source], place[node])
    for node in row:
        if last[node] - place[node] >= max(len(row) // 3, 2):
            wanted = [node]
            while wanted:
                one = wanted.pop()
                if one not in first:
                    first.add(one)
                    wanted += [source for source in operands[one] if operands[source]]
    return [node for node in row if node in first] + [node for node in row if node not in first]


def _deepest_first(ids: Sequence[int], operands: Sequence[Sequence[int]]) -> list[int]:
    """Depth first from what nothing is made of, by way of the operand that takes the most steps.

    So all of an iteration comes before any of the next one, and in the same order in each, in
    whatever order nodes were given.
    """
    kinds = _kinds(ids, operands)
    depth = [0] * len(operands)
    used = [False] * len(operands)
    for node, own in enumerate(operands):
        depth[node] = 1 + max((depth[source] for source in own), default=-1)
        for source in own:
            used[source] = True
    row: list[int] = []
    done = [False] * len(operands)
    roots = [node for node, is_operand in enumerate(used) if not is_operand]
    for root in sorted(roots, key=lambda i: (depth[i], kinds[i], i)):
        stack = [(root, False)]
        while stack:
            node, is_complete = stack.pop()
            if is_complete:
                row.append(node)
            elif operands[node] and not done[node]:
                done[node] = True
                stack.append((node, True))
                # The last one that is put there is the first one to be taken.
                near = sorted(operands[node], key=lambda o: (depth[o], kinds[o]))
                stack += [(o, False) for o in near]
    return row


def _kinds(ids: Sequence[int], operands: Sequence[Sequence[int]]) -> list[int]:
    """What nodes are, and of what, as far as one looks at a glance: numbers that sort them."""
    found = list(ids)
    for _ in range(_GLANCE):
        keys = [
            (own, tuple(sorted(found[o] for o in operands[node]))) for node, own in enumerate(found)
        ]
        number = {key: at for at, key in enumerate(sorted(set(keys)))}
        found = [number[key] for key in keys]
    return found


class _Row:
    """Nodes in a row, and what is repeated there."""

    def __init__(
        self, row: Sequence[int], ids: Sequence[int], operands: Sequence[Sequence[int]]
    ) -> None:
        self._row, self._ids, self._operands = row, ids, operands
        self._place = {node: at for at, node in enumerate(row)}
        self._labels = np.array([ids[node] for node in row], np.int64)

    def repetitions(self) -> list[Repetition]:
        found = []
        parts = [(0, len(self._row))]
        while parts:
            low, high = parts.pop()
            best = self._best(low, high)
            if best is not None:
                begin, period, copies = best
                found.append(self._repetition(*best))
                parts += [(low, begin), (begin + period * copies, high)]
        return sorted(found, key=lambda one: one.copies)

    def _best(self, low: int, high: int) -> tuple[int, int, int] | None:
        """What leaves the fewest boxes: where it begins, its period, and how many copies."""
        # The largest saving is looked at first, and the shortest period for the same one.
        waiting = [
            (-((end - begin) // period - 1) * period, period, low + begin, low + end)
            for period, begin, end in _periodic(self._labels[low:high])
        ]
        heapq.heapify(waiting)
        best: tuple[int, int, int] | None = None
        saved = _SAVED - 1
        for _ in range(_TRIES):
            if not waiting or -waiting[0][0] <= saved:
                break
            _, period, begin, end = heapq.heappop(waiting)
            for own_begin, copies in self._wired(period, begin, end):
                if copies >= _COPIES and (copies - 1) * period > saved:
                    best, saved = (own_begin, period, copies), (copies - 1) * period
        return best

    def _wired(self, period: int, low: int, high: int) -> Iterator[tuple[int, int]]:
        """Where nodes take what those a period before take, and how many copies that makes."""
        begin = low
        while begin < high - period:
            if not self._follows(begin, period):
                begin += 1
                continue
            end = begin + 1
            while end < high - period and self._follows(end, period):
                end += 1
            # The first copies take from outside what later ones take from those before.
            for start in range(max(low, begin - 2 * period), begin + period):
                copies = (end + period - start) // period
                if copies < _COPIES:
                    break
                if self._is_repeated(start, period, copies):
                    yield start, copies
                    break
            begin = end

    def _follows(self, at: int, period: int) -> bool:
        """Whether a node takes what its like does, a period later."""
        before, after = self._operands[self._row[at]], self._operands[self._row[at + period]]
        if len(before) != len(after):
            return False
        left = list(after)
        for source in before:
            moved = self._place[source] + period if source in self._place else None
            like = (
                next((o for o in left if moved is not None and self._place.get(o) == moved), None),
                next((o for o in left if o == source), None),
                next((o for o in left if self._are_leaves_alike(o, source)), None),
            )
            one = next((o for o in like if o is not None), None)
            if one is None:
                return False
            left.remove(one)
        return True

    def _are_leaves_alike(self, one: int, other: int) -> bool:
        is_leaf = not self._operands[one] and not self._operands[other]
        return is_leaf and self._ids[one] == self._ids[other]

    def _is_repeated(self, start: int, period: int, copies: int) -> bool:
        last = start + (copies - 1) * period
        for offset in range(period):
            inside, outside = self._split(last + offset, start, last)
            known = set(self._operands[self._row[last + offset - period]])
            shared = {source for source in outside if source in known}
            others = [self._ids[source] for source in outside if source not in shared]
            for first in range(start, last, period):
                own, elsewhere = self._split(first + offset, start, first)
                if not set(own) <= set(inside):
                    return False
                # What would lie in a copy before the first one comes from elsewhere.
                lacking = [place for place in inside if place not in own]
                if any(first + place >= start for place in lacking):
                    return False
                if not shared <= set(elsewhere):
                    return False
                left = list(others)
                for source in elsewhere:
                    if source in shared:
                        continue
                    if self._ids[source] in left:
                        left.remove(self._ids[source])
                    elif lacking:
                        lacking.pop()
                    else:
                        return False
                if left:
                    return False
        return True

    def _split(self, at: int, start: int, first: int) -> tuple[list[int], list[int]]:
        """The operands of a node: those in copies, by their distance to one, and the others."""
        inside, outside = [], []
        for source in self._operands[self._row[at]]:
            place = self._place.get(source, -1)
            if place >= start:
                inside.append(place - first)
            else:
                outside.append(source)
        return inside, outside

    def _repetition(self, start: int, period: int, copies: int) -> Repetition:
        last = start + (copies - 1) * period
        places = {
            place % period
            for offset in range(period)
            for place in self._split(last + offset, start, last)[0]
            if place < 0
        }
        return Repetition(
            tuple(
                tuple(self._row[first : first + period]) for first in range(start, last + 1, period)
            ),
            tuple(self._row[last + place] for place in sorted(places)),
        )
