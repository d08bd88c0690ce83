"""The elements of the matrices, as functions of index arrays; every side has the same."""

from __future__ import annotations

from typing import Any

import numpy as np


def left(i: Any, j: Any) -> Any:
    """Elements of the left factor of a product, within 0.5 of 0."""
    return (i * 31 + j * 17) % 1009 / 1009.0 - 0.5


def right(i: Any, j: Any) -> Any:
    """Elements of the right factor."""
    return (i * 13 + j * 29) % 997 / 997.0 - 0.5


def positive(i: Any, j: Any) -> Any:
    """Elements of a symmetric, positive definite matrix: most of it is near the diagonal."""
    return 1.0 / (1 + abs(i - j)) + 4.0 * (i == j)


def hermitian(i: Any, j: Any) -> Any:
    """Elements of a complex one."""
    return positive(i, j) + 0.1j * np.sign(i - j) / (1 + abs(i - j))


def mixed(i: Any, j: Any) -> Any:
    """Elements of a matrix of full rank, whose factorization exchanges most of its rows."""
    noise = np.sin(i * 12.9898 + j * 78.233) * 43758.5453
    return noise - np.floor(noise) - 0.5


def lower(i: Any, j: Any) -> Any:
    """Elements of a matrix whose lower half is a triangle with which systems are well conditioned."""
    return mixed(i, j) / 512 + 1.0 * (i == j)
