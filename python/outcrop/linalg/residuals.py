"""Matrices as operators, for residuals, which are computed in one pass over them."""

from typing import Any

import numpy as np

from outcrop.array_api.elementwise_functions import abs as absolute
from outcrop.array_api.non_ufunc_functions import tril, triu
from outcrop.arrays.array import Array
from outcrop.arrays.source import ConjugateSource
from outcrop.expressions.build.arrays import node_of, now
from outcrop.expressions.build.materializing import materialize
from outcrop.expressions.graph.gathers import Gather
from outcrop.expressions.graph.nodes import Leaf, Map, ancestors
from outcrop.linalg.checks import converted

__all__ = ["Operator", "in_type", "is_there", "settled"]


class Operator:
    """A matrix that vectors are multiplied by, and so are their absolute values by its own.

    Parameters
    ----------
    a : Array, shape (n, n)
        The matrix.
    meant : str
        "N", or "T" or "C" where the matrix is meant transposed, or conjugated, too. Of a Hermitian
        one, "N".
    half : {"lower", "upper"}, optional
        Which half of a Hermitian matrix is read, or of a symmetric one.
    hermitian : bool
        Which of both it is.

    Notes
    -----
    Both products in one plan read the matrix once, as they take it in the same orientation: of a
    view that is a transposed one, what it is a view of.
    """

    def __init__(
        self, a: Array, meant: str = "N", half: str | None = None, *, hermitian: bool = True
    ) -> None:
        self.n, self.dtype = a.shape[0], a.dtype
        self.a, self.hermitian, self._half = a, hermitian, half
        upright, is_transposed = _upright(a)
        if half is None:
            self._transposed = is_transposed != (meant != "N")
            conjugate = meant == "C"
        else:
            # The other half of the transposed matrix is the same one, conjugated if Hermitian.
            self._transposed, conjugate = False, is_transposed and hermitian
            self._is_lower = (half == "lower") != is_transposed
        self._a: Any = upright
        self._conjugate = conjugate and a.dtype.kind == "c"

    def times(self, x: Any) -> Any:
        """The product with vectors, lazy."""
        return self._product(np.conjugate(self._a) if self._conjugate else self._a, x)

    def size_times(self, sizes: Any) -> Any:
        """The product of the absolute values with those of vectors, lazy."""
        return self._product(absolute(self._a), sizes)

    def row_sums(self) -> Any:
        """The sums of the absolute values of each row, in double precision, lazy."""
        size: Any = absolute(self._a)
        if self._half is None:
            return size.sum(axis=0 if self._transposed else 1, dtype=np.float64)
        whole, rest = self._halves(size)
        return whole.sum(axis=1, dtype=np.float64) + rest.sum(axis=0, dtype=np.float64)

    def largest(self) -> Any:
        """The largest absolute value of an element, lazy."""
        a = self._a if self._half is None else self._halves(self._a)[0]
        return absolute(a).max()

    def whole(self) -> Any:
        """The matrix with both of its halves, of which one is read, lazy."""
        a = np.conjugate(self._a) if self._conjugate else self._a
        if self._half is None:
            return a.T if self._transposed else a
        whole, rest = self._halves(a)
        return whole + (np.conjugate(rest) if self.hermitian else rest).T

    def _product(self, a: Any, x: Any) -> Any:
        if self._half is None:
            return (a.T if self._transposed else a) @ x
        whole, rest = self._halves(a)
        return whole @ x + (np.conjugate(rest) if self.hermitian else rest).T @ x

    def _halves(self, a: Any) -> tuple[Any, Any]:
        """A half with its diagonal, and without."""
        return (tril(a), tril(a, k=-1)) if self._is_lower else (triu(a), triu(a, k=1))


def _upright(a: Array) -> tuple[Array, bool]:
    """A matrix, or the one whose transpose it is a view of; and whether it is that."""
    straight = a._view.straight()
    if straight == a._view or isinstance(a._source, ConjugateSource):
        return a, False
    return Array(a._source, straight), True


def settled(a: Array) -> Array:
    """The same elements as they are now, with nothing left to compute that takes long."""
    return now(a) if is_there(a) else materialize(a)[0]


def is_there(a: Array) -> bool:
    """Whether a part of the elements takes a part of the work."""
    return all(isinstance(one, Map | Leaf | Gather) for one in ancestors([node_of(a)]))


def in_type(a: Array, dtype: Any) -> Array:
    """A matrix as another type, and as much a transposed view as it was."""
    if a.dtype == dtype:
        return a
    upright, is_transposed = _upright(a)
    found: Any = converted(upright, dtype)
    return found.T if is_transposed else found  # type: ignore[no-any-return]
