"""Matrices by their factors, with which systems are solved again and again."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from outcrop.array_api.elementwise_functions import conj
from outcrop.arrays.array import Array
from outcrop.arrays.creation import asarray
from outcrop.errors import InvalidArgumentError, InvalidTypeError
from outcrop.expressions.build.materializing import materialize
from outcrop.linalg.checks import square
from outcrop.linalg.cholesky import cho_solve
from outcrop.linalg.ldl import LDLFactor, ldl_solve
from outcrop.linalg.lu import lu_solve
from outcrop.linalg.residuals import is_there

__all__ = ["ByCholesky", "ByLDL", "ByLU", "Factored"]


class Factored(ABC):
    """A matrix by its factors.

    Attributes
    ----------
    n : int
        Its order.
    dtype : numpy.dtype
        What the factors' elements are.
    factors : Array, shape (n, n)
        What is read of them.
    """

    n: int
    dtype: np.dtype[Any]
    factors: Array

    @abstractmethod
    def settle(self) -> None:
        """Compute the factors, where they are not there yet, before they are used often."""

    @abstractmethod
    def solve(self, b: Array, meant: str) -> Array:
        """The solution of ``op(A) x = b``, lazy; `meant` is "N", "T" or "C"."""


class ByLU(Factored):
    """A matrix by what `lu_factor` gives."""

    def __init__(self, lu_and_piv: tuple[Array | ArrayLike, Array | ArrayLike], name: str) -> None:
        if not isinstance(lu_and_piv, tuple | list) or len(lu_and_piv) != 2:
            raise InvalidTypeError(f"{name} takes what lu_factor gives: a tuple of two arrays")
        self.factors, self._pivots = (asarray(x) for x in lu_and_piv)
        self.dtype, self.n = square(self.factors, name), self.factors.shape[0]
        if self._pivots.shape != (self.n,) or self._pivots.dtype.kind not in "iu":
            raise InvalidArgumentError(
                f"{name}: pivots are {self.n} whole numbers, not of shape {self._pivots.shape} and "
                f"type {self._pivots.dtype}"
            )

    def settle(self) -> None:
        """Compute factors and pivots, by one plan."""
        if not (is_there(self.factors) and is_there(self._pivots)):
            self.factors, self._pivots = materialize(self.factors, self._pivots)

    def solve(self, b: Array, meant: str) -> Array:
        """The solution of ``op(A) x = b``."""
        return lu_solve((self.factors, self._pivots), b, trans=meant)


class ByCholesky(Factored):
    """A Hermitian matrix by its factor L, or U where `lower` is False."""

    def __init__(self, factor: Array | ArrayLike, lower: bool, name: str) -> None:
        self.factors, self._lower = asarray(factor), lower
        self.dtype, self.n = square(self.factors, name), self.factors.shape[0]

    def settle(self) -> None:
        """Compute the factor."""
        if not is_there(self.factors):
            (self.factors,) = materialize(self.factors)

    def solve(self, b: Array, meant: str) -> Array:
        """The solution of ``op(A) x = b``, of which only the transposed one may be another."""
        if meant == "T" and self.dtype.kind == "c":
            return conj(self.solve(conj(b), "N"))
        return cho_solve((self.factors, self._lower), b)


class ByLDL(Factored):
    """A symmetric or Hermitian matrix by what `ldl_factor` gives."""

    def __init__(self, factor: LDLFactor) -> None:
        self._all = factor
        self.factors, self.dtype, self.n = factor.factor, factor.factor.dtype, len(factor.factor)

    def settle(self) -> None:
        """Compute L, D and rows, by one plan."""
        if not all(map(is_there, self._all[:3])):
            self.settle_with()

    def settle_with(self, *others: Array) -> tuple[Array, ...]:
        """The same, with more results, which are returned."""
        l, d, rows, *found = materialize(*self._all[:3], *others)  # noqa: E741
        self._all, self.factors = self._all._replace(factor=l, d=d, rows=rows), l
        return tuple(found)

    def solve(self, b: Array, meant: str) -> Array:
        """The solution of ``op(A) x = b``."""
        # A symmetric matrix is its own transpose, a Hermitian one its own adjoint.
        other = "C" if self._all.hermitian else "T"
        if self.dtype.kind == "c" and meant not in ("N", other):
            return conj(self.solve(conj(b), "N"))
        return ldl_solve(self._all, b)
