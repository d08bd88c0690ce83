"""Dependences that plans name, against those that are counted point by point."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import outcrop as oc

pytest.importorskip("numba")
pytest.importorskip("islpy")

N = 7


@oc.loops
def relaxed(a):  # type: ignore[no-untyped-def]
    for _ in range(3):
        for i in range(1, 6):
            for j in range(1, 6):
                a[i, j] = a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1]


@oc.loops
def shortest(a):  # type: ignore[no-untyped-def]
    for k in range(7):
        for i in range(7):
            for j in range(7):
                a[i, j] = min(a[i, j], a[i, k] + a[k, j])


@oc.loops
def backwards(a):  # type: ignore[no-untyped-def]
    for i in range(4, -1, -2):
        for j in range(0, 5):
            a[i, j] = a[i + 2, j + 1]


@oc.loops
def turned(a):  # type: ignore[no-untyped-def]
    for i in range(7):
        for j in range(7):
            a[i, j] = a[j, i] + 1


@oc.loops
def triangle(a):  # type: ignore[no-untyped-def]
    for k in range(7):
        for i in range(k + 1, 7):
            for j in range(k + 1, 7):
                a[i, j] = a[i, j] - a[i, k] * a[k, j]


@oc.loops
def strided(a):  # type: ignore[no-untyped-def]
    for i in range(7):
        for j in range(0, 4):
            a[i, 2 * j] = a[6 - i, j]


def _points(name: str) -> list[tuple[tuple[int, ...], list[Any], Any]]:
    """The iterations of a nest by loop counts, with what is read and written."""
    r = range(N)
    found: dict[str, Any] = {
        "relaxed": lambda: [
            (
                (s, i - 1, j - 1),
                [(i - 1, j), (i + 1, j), (i, j - 1), (i, j + 1)],
                (i, j),
            )
            for s in range(3)
            for i in range(1, 6)
            for j in range(1, 6)
        ],
        "shortest": lambda: [
            ((k, i, j), [(i, j), (i, k), (k, j)], (i, j)) for k in r for i in r for j in r
        ],
        "backwards": lambda: [
            ((n, j), [(i + 2, j + 1)], (i, j)) for n, i in enumerate((4, 2, 0)) for j in range(5)
        ],
        "turned": lambda: [((i, j), [(j, i)], (i, j)) for i in r for j in r],
        "triangle": lambda: [
            ((k, i, j), [(i, j), (i, k), (k, j)], (i, j))
            for k in r
            for i in range(k + 1, N)
            for j in range(k + 1, N)
        ],
        "strided": lambda: [((i, j), [(6 - i, j)], (i, 2 * j)) for i in r for j in range(4)],
    }
    points: list[tuple[tuple[int, ...], list[Any], Any]] = found[name]()
    return points


def _counted(name: str) -> set[tuple[str, tuple[int, ...]]]:
    """Kinds and distances of what depends on what, without what is written in between."""
    written: dict[Any, tuple[int, ...]] = {}
    read: dict[Any, list[tuple[int, ...]]] = {}
    found = set()

    def add(kind: str, before: tuple[int, ...], after: tuple[int, ...]) -> None:
        if before != after:
            apart = tuple(b - a for a, b in zip(before, after, strict=True))
            found.add((kind, apart))

    for point, reads, write in _points(name):
        for element in reads:
            if element in written:
                add("flow", written[element], point)
            read.setdefault(element, []).append(point)
        for before in read.pop(write, ()):
            add("anti", before, point)
        if write in reads:
            # What a statement reads and writes has one time for isl.
            read[write] = [point]
        if write in written:
            add("output", written[write], point)
        written[write] = point
    return found


def _covers(vector: tuple[int | str, ...], apart: tuple[int, ...]) -> bool:
    def one(d: int | str, x: int) -> bool:
        if isinstance(d, int):
            return d == x
        if d in "+-":
            return x > 0 if d == "+" else x < 0
        low, high = d.split("..")
        return int(low) <= x <= int(high)

    return all(one(d, x) for d, x in zip(vector, apart, strict=True))


@pytest.mark.parametrize("nest", [relaxed, shortest, backwards, turned, triangle, strided])
def test_distances_are_those_that_are_counted(nest: Callable[..., None]) -> None:
    counted = _counted(nest.__name__)
    plan = nest.plan(np.ones((N, N)))  # type: ignore[attr-defined]
    told = [(d.kind, d.distance) for d in plan.dependences if any(d.distance)]
    for kind, apart in counted:
        assert any(kind == k and _covers(vector, apart) for k, vector in told), (kind, apart)
    for kind, vector in told:
        assert any(kind == k and _covers(vector, apart) for k, apart in counted), (kind, vector)
        # A direction, only where it is of several distances.
        for d, one in enumerate(vector):
            if not isinstance(one, int):
                own = {a[d] for k, a in counted if k == kind and _covers(vector, a)}
                assert len(own) > 1


def test_they_are_told_as_vectors() -> None:
    told = relaxed.plan(np.ones((N, N))).explain()
    assert "flow a: S0 -> S0 (1, -1, 0)" in told
    assert "flow a: S0 -> S0 (0, 0, 1)" in told
    assert "anti a: S0 -> S0 (0, +, 0)" in shortest.plan(np.ones((N, N))).explain()
