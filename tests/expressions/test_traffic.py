"""What plans read, over the least that their passes need: ordinary jobs, layouts and budgets."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

import outcrop as oc

Job: TypeAlias = Callable[[oc.Array], oc.Array]

ROWS, COLUMNS, SIDE = 25_000, 100, 1400
MONTHS, LATITUDES, LONGITUDES = 120, 75, 200

# For each layout the tiles of a table, of a square matrix and of a cube, of about a mebibyte each.
LAYOUTS: dict[str, list[dict[str, Any]] | None] = {
    "npy": None,
    "by columns": [{"order": "F", "format": "npy"}] * 3,
    "tiles": [{"tile": (1300, 100)}, {"tile": (350, 350)}, {"tile": (9, 75, 200)}],
    "small tiles": [{"tile": (125, 100)}, {"tile": (100, 100)}, {"tile": (12, 25, 50)}],
    "uneven tiles": [{"tile": (1511, 61)}, {"tile": (457, 283)}, {"tile": (31, 41, 97)}],
    "chunks": [
        {"tile": (1250, 100), "codecs": "zstd:1"},
        {"tile": (350, 350), "codecs": "zstd:1"},
        {"tile": (12, 75, 150), "codecs": "zstd:1"},
    ],
}


def _logistic(X: oc.Array) -> oc.Array:
    w = oc.zeros(COLUMNS)
    for _ in range(3):
        w = w - 1e-6 * (X.T @ (1 / (1 + oc.exp(-(X @ w))) - (X[:, 0] > 0)))
    return w


def _softmax(X: oc.Array) -> oc.Array:
    grown = oc.exp(X - X.max(axis=1, keepdims=True))
    return grown / grown.sum(axis=1, keepdims=True)


def _five_points(A: oc.Array) -> oc.Array:
    around = A[:-2, 1:-1] + A[2:, 1:-1] + A[1:-1, :-2] + A[1:-1, 2:]
    return A[1:-1, 1:-1] - around / 4


# Name, which array, what is made of it, and how often that is read where little fits into memory.
JOBS: list[tuple[str, str, Job, int]] = [
    ("mean of columns", "X", lambda X: X.mean(axis=0), 1),
    ("sums of rows", "X", lambda X: X.sum(axis=1), 1),
    ("spread of columns", "X", lambda X: X.std(axis=0), 1),
    ("Gram matrix", "X", lambda X: X.T @ X, 1),
    ("transposed product", "X", lambda X: X.T @ np.ones(ROWS), 1),
    ("product", "X", lambda X: X @ np.ones(COLUMNS), 1),
    ("weighted by a column", "X", lambda X: X.T @ (X[:, 0] * 2 + 1), 1),
    (
        "normal equations",
        "X",
        lambda X: oc.concat([X.T @ X, (X.T @ np.ones(ROWS))[:, None]], axis=1),
        1,
    ),
    (
        "ridge regression",
        "X",
        lambda X: oc.linalg.solve(
            X.T @ X + 0.1 * np.eye(COLUMNS), X.T @ np.ones(ROWS), assume="pos"
        ),
        1,
    ),
    ("standardized", "X", lambda X: (X - X.mean(axis=0)) / X.std(axis=0), 2),
    ("logistic regression", "X", _logistic, 3),
    ("running sums", "X", lambda X: np.cumsum(X, axis=0), 1),
    ("differences", "X", lambda X: np.diff(X, axis=0), 1),
    ("rows by a column", "X", lambda X: (X * (X[:, :1] > 0)).sum(axis=0), 1),
    ("backwards", "X", lambda X: X[::-1] - 1, 1),
    ("symmetric part", "A", lambda A: (A + A.T) / 2, 1),
    ("transposed", "A", lambda A: A.T + 1, 1),
    ("with a vector", "A", lambda A: A @ np.ones(SIDE), 1),
    ("power", "A", lambda A: A @ (A @ (A @ np.ones(SIDE))), 3),
    ("unit columns", "A", lambda A: A / (A * A).sum(axis=0, keepdims=True) ** 0.5, 2),
    ("mean over time", "T", lambda T: T.mean(axis=0), 1),
    ("anomaly", "T", lambda T: T - T.mean(axis=0), 2),
    ("mean of maps", "T", lambda T: T.mean(axis=(1, 2)), 1),
    ("softmax", "X", _softmax, 1),
    ("five points", "A", _five_points, 1),
    ("by month", "T", lambda T: T.reshape(10, 12, LATITUDES, LONGITUDES).mean(axis=0), 1),
]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, oc.Array]]]:
    """By layout, a table, a square matrix and a cube, of 15 to 20 MiB each."""
    place: Path = tmp_path_factory.mktemp("traffic")
    chance = np.random.default_rng(0)
    shapes = {"X": (ROWS, COLUMNS), "A": (SIDE, SIDE), "T": (MONTHS, LATITUDES, LONGITUDES)}
    found: dict[str, dict[str, oc.Array]] = {}
    with oc.config(memory="1GiB"):
        for name, shape in shapes.items():
            values = oc.asarray(chance.standard_normal(shape))
            for layout, options in LAYOUTS.items():
                own = {} if options is None else options[list(shapes).index(name)]
                suffix = ".npy" if options is None or "format" in own else ".zarr"
                path = place / f"{name} {layout}{suffix}"
                found.setdefault(layout, {})[name] = values.save(path, **own)
        yield found


BUDGETS = (4, 8, 32)
"""In mebibytes, about so many tiles of each array."""

LIMITS = (2.0, 1.1, 1.1)
"""How many times as much as the passes need is read, at most."""

# What is not there yet: tiles that steps take parts of, one after the other; squares of files; and
# products and shapes that run across the order on disk.
KNOWN: dict[tuple[str, str], tuple[float, float, float]] = {
    ("ridge regression", "npy"): (4.3, 1.1, 1.1),
    ("symmetric part", "npy"): (10.1, 6.4, 3.4),
    ("Gram matrix", "by columns"): (9.4, 5.5, 1.1),
    ("normal equations", "by columns"): (13.7, 9.3, 1.1),
    ("ridge regression", "by columns"): (6.4, 2.1, 1.4),
    ("symmetric part", "by columns"): (10.1, 6.4, 3.4),
    ("softmax", "by columns"): (3.4, 2.9, 1.1),
    ("by month", "by columns"): (7.7, 4.5, 1.3),
    ("ridge regression", "tiles"): (4.4, 1.1, 1.1),
    ("differences", "tiles"): (9.6, 1.1, 1.1),
    ("five points", "tiles"): (9.5, 3.1, 1.1),
    ("ridge regression", "small tiles"): (4.3, 1.1, 1.1),
    ("by month", "small tiles"): (3.2, 1.1, 1.1),
    ("weighted by a column", "uneven tiles"): (2.0, 1.8, 1.1),
    ("normal equations", "uneven tiles"): (2.0, 2.1, 1.1),
    ("ridge regression", "uneven tiles"): (3.3, 1.1, 1.1),
    ("logistic regression", "uneven tiles"): (2.3, 2.1, 1.1),
    ("rows by a column", "uneven tiles"): (2.0, 1.8, 1.1),
    ("symmetric part", "uneven tiles"): (20.6, 4.7, 3.8),
    ("softmax", "uneven tiles"): (3.2, 2.9, 1.1),
    ("five points", "uneven tiles"): (7.8, 3.5, 1.1),
    ("by month", "uneven tiles"): (2.7, 1.1, 1.1),
    ("Gram matrix", "chunks"): (9.8, 1.1, 1.1),
    ("normal equations", "chunks"): (9.8, 1.1, 1.1),
    ("ridge regression", "chunks"): (90.0, 1.1, 1.1),
    ("standardized", "chunks"): (9.5, 1.1, 1.1),
    ("running sums", "chunks"): (9.6, 1.1, 1.1),
    ("differences", "chunks"): (9.6, 1.1, 1.1),
    ("rows by a column", "chunks"): (9.6, 1.1, 1.1),
    ("backwards", "chunks"): (9.6, 1.1, 1.1),
    ("symmetric part", "chunks"): (18.8, 1.1, 1.1),
    ("transposed", "chunks"): (9.5, 1.1, 1.1),
    ("unit columns", "chunks"): (9.2, 1.1, 1.1),
    ("mean over time", "chunks"): (13.3, 1.1, 1.1),
    ("anomaly", "chunks"): (13.3, 1.1, 1.1),
    ("mean of maps", "chunks"): (13.3, 1.1, 1.1),
    ("softmax", "chunks"): (9.6, 1.1, 1.1),
    ("five points", "chunks"): (36.1, 9.5, 1.1),
    ("by month", "chunks"): (13.4, 3.4, 1.1),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("number", "budget"), list(enumerate(BUDGETS)))
def test_little_is_read_again(
    stored: dict[str, dict[str, oc.Array]], layout: str, number: int, budget: int
) -> None:
    above, below = [], []
    with oc.config(memory="1GiB"):
        once = {which: oc.plan(A.sum()).bytes_read for which, A in stored[layout].items()}
    for name, which, make, passes in JOBS:
        with oc.config(memory=f"{budget}MiB"):
            ratio = oc.plan(make(stored[layout][which])).bytes_read / once[which] / passes
        limit = KNOWN.get((name, layout), LIMITS)[number]
        if ratio > limit:
            above.append(f"{name}: {ratio:.2f}, and not more than {limit}")
        if limit > LIMITS[number] and ratio <= LIMITS[number]:
            below.append(f"{name}: {ratio:.2f} is no exception any more")
    assert not above and not below
