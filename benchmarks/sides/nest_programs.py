"""Ten loop nests as a person writes them, with arrays of any size, after the test programs of Comanche.

Each is a function of arrays and numbers; `PROGRAMS` says which arrays of which shapes it takes for so many
bytes, and which of them it writes.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple


def statistics(a, out):  # type: ignore[no-untyped-def]
    total = 0.0
    squares = 0.0
    least = a[0]
    most = a[0]
    for i in range(len(a)):
        total += a[i]
        squares += a[i] * a[i]
        least = min(least, a[i])
        most = max(most, a[i])
    mean = total / len(a)
    out[0] = mean
    out[1] = math.sqrt(squares / len(a) - mean * mean)
    out[2] = least
    out[3] = most


def window(a, b):  # type: ignore[no-untyped-def]
    for i in range(2, len(a) - 2):
        b[i] = 0.2 * (a[i - 2] + a[i - 1] + a[i] + a[i + 1] + a[i + 2])


def stencil(old, now, new):  # type: ignore[no-untyped-def]
    for i in range(1, now.shape[0] - 1):
        for j in range(1, now.shape[1] - 1):
            around = now[i - 1, j] + now[i + 1, j] + now[i, j - 1] + now[i, j + 1]
            new[i, j] = 2 * now[i, j] - old[i, j] + 0.1 * (around - 4 * now[i, j])


def matrix_vector(a, x, y):  # type: ignore[no-untyped-def]
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            y[i] += a[i, j] * x[j]


def wavefront(a):  # type: ignore[no-untyped-def]
    n, m = a.shape[0], a.shape[1]
    for d in range(2, n + m - 1):
        for i in range(max(1, d - m + 1), min(n, d)):
            a[i, d - i] = 0.5 * a[i, d - i] + 0.25 * (a[i - 1, d - i] + a[i, d - i - 1])


def rhombus(a, sums, w, s):  # type: ignore[no-untyped-def]
    for k in range(sums.shape[0]):
        for q in range(w):
            for m in range(s):
                sums[k] += a[q * s + m, 2 * w * k + w - q] + a[q * s + m, 2 * w * k + w + q]
        for q in range(w):
            for m in range(s):
                sums[k] += a[(w + q) * s + m, 2 * w * k + q + 1]


def zigzag(a, sums, h):  # type: ignore[no-untyped-def]
    for k in range(len(sums)):
        for part in range(a.shape[0] // (2 * h)):
            for m in range(h):
                sums[k] += a[2 * h * part + m, k * h + m]
            for m in range(h):
                sums[k] += a[2 * h * part + h + m, k * h + h - 1 - m]


def transposition(a, b):  # type: ignore[no-untyped-def]
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            b[j, i] = a[i, j]


def product(a, b, c):  # type: ignore[no-untyped-def]
    for i in range(c.shape[0]):
        for k in range(a.shape[1]):
            for j in range(c.shape[1]):
                c[i, j] += a[i, k] * b[k, j]


def stepped(a):  # type: ignore[no-untyped-def]
    for p in range(5):
        s = 2**p
        for i in range(s, a.shape[0], s):
            for j in range(a.shape[1]):
                a[i, j] += 0.5 * a[i - s, j]


class Program(NamedTuple):
    """One of the ten.

    Attributes
    ----------
    function : callable
        The nest.
    arguments : callable
        Of bytes: shapes of arrays, and numbers, by parameters.
    written : tuple of str
        The arrays that it writes.
    order : str
        Of sums, as `outcrop.loops` takes it.
    """

    function: Callable[..., None]
    arguments: Callable[[int], dict[str, Any]]
    written: tuple[str, ...]
    order: str = "strict"


TALL = 65536
"""Rows of arrays that are tall and lean."""


def _side(nbytes: int, count: int = 1) -> int:
    """Rows of square matrices that have so many bytes together."""
    return int(math.sqrt(nbytes / 8 / count)) // 128 * 128


def _squares(names: str, nbytes: int) -> dict[str, Any]:
    n = _side(nbytes, len(names.split()))
    return {p: (n, n) for p in names.split()}


def _tall(nbytes: int) -> tuple[int, int]:
    rows = min(TALL, nbytes // 8 // 64)
    return rows, nbytes // 8 // rows


def _rhombus(nbytes: int) -> dict[str, Any]:
    rows, columns = _tall(nbytes)
    w = 4
    return {"a": (rows, columns), "sums": (columns // (2 * w) - 1,), "w": w, "s": rows // (2 * w)}


def _zigzag(nbytes: int) -> dict[str, Any]:
    rows, columns = _tall(nbytes)
    return {"a": (rows, columns), "sums": (columns // 8,), "h": 8}


def _transposition(nbytes: int) -> dict[str, Any]:
    rows, columns = _tall(nbytes // 2)
    return {"a": (columns, rows), "b": (rows, columns)}


def _matrix_vector(nbytes: int) -> dict[str, Any]:
    n = _side(nbytes)
    return {"a": (n, n), "x": (n,), "y": (n,)}


PROGRAMS: dict[str, Program] = {
    "statistics": Program(statistics, lambda m: {"a": (m // 8,), "out": (4,)}, ("out",)),
    "window": Program(window, lambda m: {"a": (m // 16,), "b": (m // 16,)}, ("b",)),
    "stencil": Program(stencil, lambda m: _squares("old now new", m), ("new",)),
    "matrix-vector": Program(matrix_vector, _matrix_vector, ("y",)),
    "wavefront": Program(wavefront, lambda m: _squares("a", m), ("a",)),
    "rhombus": Program(rhombus, _rhombus, ("sums",)),
    "zigzag": Program(zigzag, _zigzag, ("sums",)),
    "transposition": Program(transposition, _transposition, ("b",)),
    "product": Program(product, lambda m: _squares("a b c", m), ("c",), "relaxed"),
    "stepped": Program(stepped, lambda m: _squares("a", m), ("a",)),
}


def meet(*directory: str) -> None:
    """Waits until two have come to a directory, so that they begin at once; goes on if there is none."""
    for place in map(Path, directory):
        (place / str(os.getpid())).touch()
        until = time.monotonic() + 60
        while len(os.listdir(place)) < 2:
            if time.monotonic() > until:
                raise SystemExit("the other one does not come")
            time.sleep(0.001)
