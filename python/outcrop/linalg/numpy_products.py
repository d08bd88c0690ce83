"""NumPy's products and norms, with its arguments, as our own."""

from functools import cache
from typing import Any

import numpy as np

from outcrop.array_api import manipulation_functions
from outcrop.array_api.dispatch import in_memory, placed
from outcrop.array_api.families import array_like
from outcrop.array_api.numpy_arrangement import ravel
from outcrop.array_api.numpy_functions import only_defaults
from outcrop.arrays.array import Array
from outcrop.arrays.registry import implements
from outcrop.errors import InvalidArgumentError, UnsupportedError
from outcrop.expressions.build.arrays import placed_in
from outcrop.linalg import products
from outcrop.linalg.cholesky import cholesky
from outcrop.linalg.lu import det, inv, slogdet
from outcrop.linalg.matmul import matmul
from outcrop.linalg.norms import norm
from outcrop.linalg.solve import solve

__all__ = ["vdot"]


# -- ufuncs ----------------------------------------------------------------------------------------


def _product(x1: Any, result: Array, out: Any) -> Any:
    return placed_in(out or (None,), [result], "same_kind", x1)[0]


def _no_options(name: str, options: dict[str, Any]) -> None:
    if options:
        raise UnsupportedError(f"numpy.{name} is not supported in this version")


@implements(np.matmul)
def _matmul(x1: Any, x2: Any, /, *, out: Any = None, **options: Any) -> Any:
    _no_options("matmul", options)
    return _product(x1, matmul(x1, x2), out)


@implements(np.vecdot)
def _vecdot(x1: Any, x2: Any, /, **options: Any) -> Any:
    if set(options) - {"axis"}:
        _no_options("vecdot", options)
    return products.vecdot(x1, x2, **options)


# Since NumPy 2.2.
if hasattr(np, "matvec"):

    @implements(np.matvec)
    def _matvec(x1: Any, x2: Any, /, *, out: Any = None, **options: Any) -> Any:
        _no_options("matvec", options)
        a, v = array_like(x1), array_like(x2)
        if not (a.ndim > 1 and v.ndim):
            raise InvalidArgumentError(
                "matvec: a matrix and a vector are wanted, or stacks of them"
            )
        found = matmul(a, v) if v.ndim == 1 else matmul(a, v[..., None])[..., 0]
        return _product(x1, found, out)

    @implements(np.vecmat)
    def _vecmat(x1: Any, x2: Any, /, *, out: Any = None, **options: Any) -> Any:
        _no_options("vecmat", options)
        v, a = array_like(x1), array_like(x2)
        if not (a.ndim > 1 and v.ndim):
            raise InvalidArgumentError(
                "vecmat: a vector and a matrix are wanted, or stacks of them"
            )
        row = np.conjugate(v) if v.dtype.kind == "c" else v
        found = matmul(row, a) if v.ndim == 1 else matmul(row[..., None, :], a)[..., 0, :]
        return _product(x1, found, out)


# -- functions -------------------------------------------------------------------------------------


@implements(np.einsum)
def _einsum(subscripts: Any, *operands: Any, optimize: Any = None, **options: Any) -> Any:
    if not isinstance(subscripts, str):
        raise UnsupportedError("numpy.einsum of an outcrop.Array takes its subscripts as a string")
    only_defaults("einsum", **options)
    # The order of the products is our own in any case.
    return products.einsum(subscripts, *operands)


@implements(np.dot)
def _dot(a: Any, b: Any, out: Any = None) -> Any:
    only_defaults("dot", out=out)
    return products.dot(a, b)


@implements(np.outer)
def _outer(a: Any, b: Any, out: Any = None) -> Any:
    only_defaults("outer", out=out)
    one, other = (manipulation_functions.reshape(x, -1) for x in (a, b))
    return products.outer(one, other)


@implements(np.tensordot)
def _tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    return products.tensordot(a, b, axes=axes)


@implements(np.vdot)
def vdot(a: Any, b: Any, /) -> Array:
    """Sum the products of all elements, those of `a` conjugated, as `numpy.vdot` does.

    Examples
    --------
    >>> oc.vdot(oc.asarray([1j, 2]), oc.asarray([1, 3])).compute()
    array(6.-1.j)
    """
    return products.vecdot(ravel(a), ravel(b))


@implements(np.linalg.matmul)
def _linalg_matmul(x1: Any, x2: Any, /) -> Any:
    return np.matmul(x1, x2)


@implements(np.linalg.norm)
def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: Any = False) -> Any:
    return norm(x, ord, axis, keepdims)


@implements(np.linalg.cholesky)
def _cholesky(a: Any, /, *, upper: bool = False) -> Any:
    if a.ndim == 2:
        return cholesky(a, upper=upper)
    return in_memory(np.linalg.cholesky, (a,), {"upper": upper})


@implements(np.linalg.solve)
def _solve(a: Any, b: Any) -> Any:
    if np.ndim(a) == 2 and np.ndim(b) in (1, 2):
        return solve(a, b)
    return in_memory(np.linalg.solve, (a, b), {})


@implements(np.linalg.inv)
def _inv(a: Any) -> Any:
    return inv(a) if a.ndim == 2 else in_memory(np.linalg.inv, (a,), {})


@implements(np.linalg.det)
def _det(a: Any) -> Any:
    return det(a) if a.ndim == 2 else in_memory(np.linalg.det, (a,), {})


@implements(np.linalg.slogdet)
def _slogdet(a: Any) -> Any:
    return slogdet(a) if a.ndim == 2 else in_memory(np.linalg.slogdet, (a,), {})


@implements(np.linalg.multi_dot)
def _multi_dot(arrays: Any, *, out: Any = None) -> Any:
    """The product of some matrices, in the order that has the fewest multiplications."""
    given = [array_like(x) for x in arrays]
    if len(given) < 2:
        raise InvalidArgumentError("numpy.linalg.multi_dot: at least two arrays are wanted")
    extents = [x.shape[0] if x.ndim == 2 else 1 for x in given[:1]]
    extents += [x.shape[0] for x in given[1:]]
    extents += [given[-1].shape[1] if given[-1].ndim == 2 else 1]

    @cache
    def best(first: int, end: int) -> tuple[int, int]:
        """How many multiplications there are, and where the last product is."""
        if end - first == 1:
            return 0, first
        return min(
            (
                best(first, cut)[0]
                + best(cut, end)[0]
                + extents[first] * extents[cut] * extents[end],
                cut,
            )
            for cut in range(first + 1, end)
        )

    def product(first: int, end: int) -> Any:
        if end - first == 1:
            return given[first]
        cut = best(first, end)[1]
        return product(first, cut) @ product(cut, end)

    return placed(product(0, len(given)), out, "same_kind")
