"""Ordinary jobs: what is made of a table, a square matrix, a cube, of small elements; and how often that is read.

A job is a name, which array it takes, what it makes of it, and the passes that this needs where little fits into
memory. Arrays are: X a table, many times as long as wide; A a square matrix; T a cube of maps over time, of whole
years; F a table of float32; B a picture of int8. Extents of A and B are multiples of 4, those of maps of 5.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

import outcrop as oc

Job = tuple[str, str, Callable[[Any], Any], int]

CENTRES, BINS, WINDOW = 8, 4, 5


def _logistic(X: Any) -> Any:
    w = oc.zeros(X.shape[1])
    for _ in range(3):
        w = w - 1e-6 * (X.T @ (1 / (1 + oc.exp(-(X @ w))) - (X[:, 0] > 0)))
    return w


def _softmax(X: Any) -> Any:
    grown = oc.exp(X - X.max(axis=1, keepdims=True))
    return grown / grown.sum(axis=1, keepdims=True)


def _log_sum(X: Any) -> Any:
    most = X.max(axis=1)
    return most + oc.log(oc.exp(X - most[:, None]).sum(axis=1))


def _five_points(A: Any) -> Any:
    around = A[:-2, 1:-1] + A[2:, 1:-1] + A[1:-1, :-2] + A[1:-1, 2:]
    return A[1:-1, 1:-1] - around / 4


def _nine_points(A: Any) -> Any:
    ends = (slice(None, -2), slice(1, -1), slice(2, None))
    found = A[1:-1, 1:-1]
    for rows in ends:
        for columns in ends:
            found = oc.maximum(found, A[rows, columns])
    return found


def _slopes(A: Any) -> Any:
    return (A[1:, :-1] - A[:-1, :-1]) ** 2 + (A[:-1, 1:] - A[:-1, :-1]) ** 2


def _rolling(X: Any) -> Any:
    n = X.shape[0] - WINDOW + 1
    return sum((X[i : i + n] for i in range(1, WINDOW)), X[:n]) / WINDOW


def _normal_equations(X: Any) -> Any:
    return oc.concat([X.T @ X, (X.T @ np.ones(X.shape[0]))[:, None]], axis=1)


def _regression(X: Any) -> Any:
    Z = oc.concat([oc.ones((X.shape[0], 1)), X], axis=1)
    return oc.linalg.solve(Z.T @ Z, Z.T @ np.ones(X.shape[0]), assume="pos")


def _ridge(X: Any) -> Any:
    return oc.linalg.solve(
        X.T @ X + 0.1 * np.eye(X.shape[1]), X.T @ np.ones(X.shape[0]), assume="pos"
    )


def _polynomial(X: Any) -> Any:
    Z = oc.concat([X, X * X], axis=1)
    return Z.T @ Z


def _covariance(X: Any) -> Any:
    Z = X - X.mean(axis=0)
    return Z.T @ Z / (X.shape[0] - 1)


def _correlation(X: Any) -> Any:
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    return Z.T @ Z / X.shape[0]


def _within_bounds(X: Any) -> Any:
    low, high = X.min(axis=0), X.max(axis=0)
    return (X - low) / (high - low)


def _centred(X: Any) -> Any:
    return X - X.mean(axis=0) - X.mean(axis=1, keepdims=True) + X.mean()


def _masked_mean(X: Any) -> Any:
    return oc.where(X > 0, X, 0).sum(axis=0) / (X > 0).sum(axis=0)


def _distances(X: Any) -> Any:
    centres = np.linspace(-1, 1, CENTRES * X.shape[1]).reshape(CENTRES, X.shape[1])
    return ((X[:, None, :] - centres) ** 2).sum(axis=2)


def _histogram(x: Any) -> Any:
    edges = np.linspace(-2, 2, BINS + 1)
    return oc.stack([((x >= a) & (x < b)).sum(axis=0) for a, b in pairwise(edges)])


def _above_the_mean(x: Any) -> Any:
    return oc.where(x > x.mean(axis=0), x, 0).sum(axis=1)


def _pairs_of_columns(X: Any) -> Any:
    few = X[:, :BINS]
    return (few[:, :, None] * few[:, None, :]).sum(axis=0)


def _blocks(A: Any) -> Any:
    return A.reshape(A.shape[0] // 4, 4, A.shape[1] // 4, 4).mean(axis=(1, 3))


def _adjacency(A: Any) -> Any:
    degree = A.sum(axis=1)
    return A / degree[:, None] / degree


def _by_month(T: Any) -> Any:
    return T.reshape(T.shape[0] // 12, 12, *T.shape[1:])


def _slices(T: Any) -> Any:
    return oc.stack([T[month::12].mean(axis=0) for month in range(12)])


def _flattened(T: Any) -> Any:
    maps = T.reshape(T.shape[0], -1)
    return maps @ maps.T


def _coarse(T: Any) -> Any:
    n, rows, columns = T.shape
    return T.reshape(n, rows // 5, 5, columns // 5, 5).mean(axis=(2, 4))


USUAL: list[Job] = [
    ("mean of columns", "X", lambda X: X.mean(axis=0), 1),
    ("sums of rows", "X", lambda X: X.sum(axis=1), 1),
    ("spread of columns", "X", lambda X: X.std(axis=0), 1),
    ("Gram matrix", "X", lambda X: X.T @ X, 1),
    ("transposed product", "X", lambda X: X.T @ np.ones(X.shape[0]), 1),
    ("product", "X", lambda X: X @ np.ones(X.shape[1]), 1),
    ("weighted by a column", "X", lambda X: X.T @ (X[:, 0] * 2 + 1), 1),
    ("normal equations", "X", _normal_equations, 1),
    ("ridge regression", "X", _ridge, 1),
    ("standardized", "X", lambda X: (X - X.mean(axis=0)) / X.std(axis=0), 2),
    ("logistic regression", "X", _logistic, 3),
    ("running sums", "X", lambda X: np.cumsum(X, axis=0), 1),
    ("differences", "X", lambda X: np.diff(X, axis=0), 1),
    ("rows by a column", "X", lambda X: (X * (X[:, :1] > 0)).sum(axis=0), 1),
    ("backwards", "X", lambda X: X[::-1] - 1, 1),
    ("softmax", "X", _softmax, 1),
    ("symmetric part", "A", lambda A: (A + A.T) / 2, 1),
    ("transposed", "A", lambda A: A.T + 1, 1),
    ("with a vector", "A", lambda A: A @ np.ones(A.shape[1]), 1),
    ("power", "A", lambda A: A @ (A @ (A @ np.ones(A.shape[1]))), 3),
    ("unit columns", "A", lambda A: A / (A * A).sum(axis=0, keepdims=True) ** 0.5, 2),
    ("five points", "A", _five_points, 1),
    ("mean over time", "T", lambda T: T.mean(axis=0), 1),
    ("anomaly", "T", lambda T: T - T.mean(axis=0), 2),
    ("mean of maps", "T", lambda T: T.mean(axis=(1, 2)), 1),
    ("by month", "T", lambda T: _by_month(T).mean(axis=0), 1),
]

# Less usual ones, or variations.
MORE: list[Job] = [
    ("log of sums", "X", _log_sum, 1),
    ("regression with intercept", "X", _regression, 1),
    ("polynomial features", "X", _polynomial, 1),
    ("covariance", "X", _covariance, 2),
    ("correlation", "X", _correlation, 2),
    ("within bounds", "X", _within_bounds, 2),
    ("centred twice", "X", _centred, 2),
    ("standardized rows", "X", lambda X: (X - X.mean(1)[:, None]) / X.std(1)[:, None], 1),
    ("percent change", "X", lambda X: X[1:] / X[:-1] - 1, 1),
    ("masked mean", "X", _masked_mean, 1),
    ("clipped", "X", lambda X: oc.where(X > 0, oc.clip(X, -1, 1), 0), 1),
    ("above the mean", "X", _above_the_mean, 2),
    ("every third column", "X", lambda X: X[:, ::3].mean(axis=0), 1),
    ("some columns", "X", lambda X: X[:, np.array([1, 5, 7])] * 2, 1),
    ("rolling mean", "X", _rolling, 1),
    ("distances", "X", _distances, 1),
    ("nearest centre", "X", lambda X: oc.argmin(_distances(X), axis=1), 1),
    ("largest of rows", "X", lambda X: oc.argmax(X, axis=1), 1),
    ("largest of columns", "X", lambda X: oc.argmax(X, axis=0), 1),
    ("histogram", "X", _histogram, 1),
    ("outer sums", "X", lambda X: X.sum(axis=1)[:, None] + X.sum(axis=0), 1),
    ("pairs of columns", "X", _pairs_of_columns, 1),
    ("running maxima", "X", lambda X: np.maximum.accumulate(X, axis=0), 1),
    ("turned around", "X", lambda X: X[::-1, ::-1] * 2, 1),
    ("halves of columns", "X", lambda X: ((X[:, :50] - X[:, 50:]) ** 2).sum(axis=1), 1),
    ("projected", "X", lambda X: X @ np.eye(X.shape[1], 10), 1),
    ("twice through", "X", lambda X: X.T @ (X @ (X.T @ (X @ np.ones(X.shape[1])))), 2),
    ("nine points", "A", _nine_points, 1),
    ("slopes", "A", _slopes, 1),
    ("means of blocks", "A", _blocks, 1),
    ("sums both ways", "A", lambda A: A.sum(axis=0) + A.sum(axis=1), 1),
    ("with its mirror image", "A", lambda A: A + A[:, ::-1], 1),
    ("quarter turn", "A", lambda A: A.T[::-1] + 1, 1),
    ("by degrees", "A", _adjacency, 2),
    ("rank-one update", "A", lambda A: A - (A @ np.ones(len(A)))[:, None] * np.ones(len(A)), 2),
    ("there and back", "A", lambda A: A.T @ (A @ np.ones(A.shape[1])), 2),
    ("triangle", "A", lambda A: oc.triu(A) * 2, 1),
    ("anomaly by month", "T", lambda T: _by_month(T) - _by_month(T).mean(axis=0), 2),
    ("standardized maps", "T", lambda T: (T - T.mean(axis=0)) / T.std(axis=0), 2),
    ("rolling over time", "T", _rolling, 1),
    ("change over time", "T", lambda T: T[1:] / T[:-1] - 1, 1),
    ("zonal mean", "T", lambda T: T.mean(axis=2), 1),
    ("range over time", "T", lambda T: T.max(axis=0) - T.min(axis=0), 1),
    ("coarse maps", "T", _coarse, 1),
    ("weighted maps", "T", lambda T: (T * np.ones((T.shape[1], 1))).sum(axis=(1, 2)), 1),
    ("time last", "T", lambda T: oc.permute_dims(T, (1, 2, 0)) + 1, 1),
    ("trend", "T", lambda T: (T * np.ones((T.shape[0], 1, 1))).sum(axis=0), 1),
    ("sums over time", "T", lambda T: np.cumsum(T, axis=0), 1),
    ("time of the largest", "T", lambda T: oc.argmax(T, axis=0), 1),
    ("south up", "T", lambda T: T[:, ::-1] * 2, 1),
    ("by the first map", "T", lambda T: oc.where(T[0] > 0, T, 0).mean(axis=(1, 2)), 1),
    ("float32: mean", "F", lambda F: F.mean(axis=0), 1),
    ("float32: Gram matrix", "F", lambda F: F.T @ F, 1),
    ("float32: standardized", "F", lambda F: (F - F.mean(axis=0)) / F.std(axis=0), 2),
    ("means of slices", "T", _slices, 1),
    ("anomaly of slices", "T", lambda T: (_by_month(T) - _slices(T)).reshape(T.shape), 2),
    ("products of maps", "T", _flattened, 1),
    ("wide: Gram matrix", "W", lambda W: W.T @ W, 1),
    ("wide: ridge regression", "W", _ridge, 1),
    ("wide: softmax", "W", _softmax, 1),
    ("turned by half", "A", lambda A: A + A[::-1, ::-1], 1),
    ("int8: sums", "B", lambda B: B.sum(axis=0), 1),
    ("int8: histogram", "B", _histogram, 1),
    ("int8: five points", "B", lambda B: _five_points(B.astype("float32")), 1),
    ("int8: blocks", "B", _blocks, 1),
]
