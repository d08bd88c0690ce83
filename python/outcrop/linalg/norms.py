"""Norms of vectors and matrices."""

import math
from typing import Any

import numpy as np

from outcrop.array_api.manipulation_functions import reshape, squeeze
from outcrop.arrays.array import Array
from outcrop.arrays.creation import asarray
from outcrop.arrays.registry import implements
from outcrop.errors import InvalidArgumentError, UnsupportedError
from outcrop.expressions.build.reductions import axes_of

__all__ = ["matrix_norm", "norm", "vector_norm"]


def norm(x: Any, /, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Array:
    """The norm of a vector or of a matrix, or of many along axes, as `numpy.linalg.norm` has it.

    Parameters
    ----------
    x : Array or array_like
        Numbers. Integers count as float64.
    ord : number, inf, -inf or "fro", optional
        Which norm. Of matrices None, "fro", 1, -1, inf and -inf.
    axis : int or pair of int, optional
        The axis of vectors, or the axes of matrices. Default: all, and any number of them where
        there is no `ord`.
    keepdims : bool
        Whether these axes stay, with an extent of 1.

    Returns
    -------
    Array
        Not computed yet.

    Raises
    ------
    InvalidArgumentError
        There is no such norm.
    UnsupportedError
        Norms of matrices by their singular values.

    Examples
    --------
    >>> oc.linalg.norm(oc.asarray([[3.0, 4.0], [6.0, 8.0]]), axis=1).compute()
    array([ 5., 10.])
    """
    given: Any = x if isinstance(x, Array) else asarray(x)
    if given.dtype.kind not in "fc":
        given = given.astype(np.float64)
    if axis is None and (ord is None or (ord == "fro" and given.ndim == 2)):
        return _euclidean(given, tuple(range(given.ndim)), keepdims)
    axes = axes_of(given.ndim, axis)
    if len(axes) == 1:
        return _of_vectors(given, ord, axes, keepdims)
    if len(axes) == 2:
        return _of_matrices(given, ord, axes, keepdims)
    raise InvalidArgumentError(f"a norm is of one axis or of two, not of {len(axes)}")


def _euclidean(x: Any, axes: tuple[int, ...], keepdims: bool) -> Array:
    squares = np.square(x.real) + np.square(x.imag) if x.dtype.kind == "c" else np.square(x)
    root: Array = np.sqrt(squares.sum(axis=axes, keepdims=keepdims))
    return root


def _of_vectors(x: Any, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Array:
    if ord is None or ord == 2:
        return _euclidean(x, axes, keepdims)
    if isinstance(ord, str):
        raise InvalidArgumentError(f"there is no norm {ord!r} of vectors")
    result: Any
    if ord == np.inf:
        result = abs(x).max(axis=axes, keepdims=keepdims)
    elif ord == -np.inf:
        result = abs(x).min(axis=axes, keepdims=keepdims)
    elif ord == 0:
        result = (x != 0).astype(x.real.dtype).sum(axis=axes, keepdims=keepdims)
    elif ord == 1:
        result = abs(x).sum(axis=axes, keepdims=keepdims)
    else:
        result = (abs(x) ** ord).sum(axis=axes, keepdims=keepdims) ** (1 / ord)
    found: Array = result
    return found


def _of_matrices(x: Any, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Array:
    if ord is None or ord == "fro":
        return _euclidean(x, axes, keepdims)
    if ord in (2, -2, "nuc"):
        raise UnsupportedError(f"the norm {ord!r} of a matrix is by its singular values")
    if ord not in (1, -1, np.inf, -np.inf):
        raise InvalidArgumentError(f"there is no norm {ord!r} of matrices")
    rows, columns = axes
    inner, outer = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = abs(x).sum(axis=inner, keepdims=True)
    most: Any = sums.max if ord > 0 else sums.min
    result: Any = most(axis=outer, keepdims=True)
    found: Array = result if keepdims else squeeze(result, axis=axes)
    return found


@implements(np.linalg.matrix_norm)
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Array:
    """Give the norm of a matrix, or of each of a stack: `norm` over the last two axes.

    Examples
    --------
    >>> oc.linalg.matrix_norm(oc.asarray([[1.0, -7.0], [2.0, 3.0]]), ord=1).compute()
    array(10.)
    """
    return norm(x, ord, (-2, -1), keepdims)


@implements(np.linalg.vector_norm)
def vector_norm(
    x: Any,
    /,
    *,
    axis: int | tuple[int, ...] | None = None,
    keepdims: bool = False,
    ord: Any = 2,
) -> Array:
    """Give the norm of a vector, or of many along axes, as `numpy.linalg.vector_norm` does.

    Parameters
    ----------
    x : Array or array_like
        Numbers. Integers count as float64.
    axis : int or tuple of int, optional
        Along which axes the elements of a vector are. Default: all.
    keepdims : bool
        Whether these axes stay, with an extent of 1.
    ord : number, inf or -inf
        Which norm.

    Returns
    -------
    Array
        Not computed yet.

    Raises
    ------
    AxisError
        There is no such axis.
    InvalidArgumentError, UnsupportedError
        There is no such norm.

    Examples
    --------
    >>> oc.linalg.vector_norm(oc.asarray([[3.0, 4.0], [0.0, 12.0]])).compute()
    array(13.)
    """
    array = asarray(x)
    if axis is None:
        found = norm(reshape(array, -1), ord, 0)
        return reshape(found, (1,) * array.ndim) if keepdims else found
    if not isinstance(axis, tuple):
        return norm(array, ord, axis, keepdims)
    # The others stay in front.
    axes = axes_of(array.ndim, axis)
    rest = tuple(i for i in range(array.ndim) if i not in axes)
    moved = array.transpose(rest + axes)
    extents = tuple(array.shape[i] for i in rest)
    count = math.prod(array.shape[i] for i in axes)
    found = norm(reshape(moved, (*extents, count)), ord, -1)
    kept = tuple(1 if i in axes else e for i, e in enumerate(array.shape))
    return reshape(found, kept) if keepdims else found
