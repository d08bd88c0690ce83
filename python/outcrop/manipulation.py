"""Choosing and arranging elements, by the names of the Python array API standard."""

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from outcrop._conversion import elements_of
from outcrop.array import Array
from outcrop.creation import asarray
from outcrop.errors import InvalidArgumentError, InvalidTypeError
from outcrop.expressions.arrays import argument, array_of, node_of
from outcrop.expressions.functions import Call, Choose, Copy
from outcrop.expressions.gathers import Join
from outcrop.expressions.nodes import Map, Node
from outcrop.expressions.reducing import axes_of, cast, expanded
from outcrop.expressions.reshaping import reshaped

__all__ = [
    "astype",
    "broadcast_to",
    "clip",
    "concat",
    "expand_dims",
    "map",
    "squeeze",
    "stack",
    "where",
]


def _node(x: Any) -> Node:
    return node_of(x if isinstance(x, Array) else asarray(x))


def astype(x: Array, dtype: DTypeLike, /, *, copy: bool = True) -> Array:
    """Convert the elements, as `numpy.ndarray.astype` does.

    Examples
    --------
    >>> oc.astype(oc.asarray([1.7, -2.2]), "int32").compute()
    array([ 1, -2], dtype=int32)
    """
    return x.astype(dtype, copy=copy)


def where(condition: Any, x1: Any, x2: Any, /) -> Array:
    """Choose elements of `x1` where the condition holds, else of `x2`, as `numpy.where` does.

    Examples
    --------
    >>> A = oc.asarray([1, -2, 3])
    >>> oc.where(A > 0, A, 0).compute()
    array([1, 0, 3])
    """
    given = [argument(x) for x in (condition, x1, x2)]
    kinds = [a.dtype if isinstance(a, Node) else a for a in given[1:]]
    dtype = np.result_type(*kinds)
    # Numbers that do not fit are refused here, and not when elements are chosen.
    mask, *values = (
        a if isinstance(a, Node) else argument(elements_of(a, kind))
        for a, kind in zip(given, (None, dtype, dtype), strict=True)
    )
    return array_of(Map.of(Choose(), [mask, *values], dtype))


def clip(x: Array, /, min: Any = None, max: Any = None) -> Array:
    """Limit elements to an interval, as `numpy.clip` does.

    Examples
    --------
    >>> oc.clip(oc.asarray([1, 5, 9]), 2, 6).compute()
    array([2, 5, 6])
    """
    result: Any = array_of(_node(x))
    if result.dtype.kind in "iu":
        # Of integers, a limit beyond all that there are is none.
        least, greatest = np.iinfo(result.dtype).min, np.iinfo(result.dtype).max
        min = None if type(min) is int and min <= least else min
        max = None if type(max) is int and max >= greatest else max
    if min is not None:
        result = np.maximum(result, min)
    if max is not None:
        result = np.minimum(result, max)
    return array_of(_node(result))


def concat(arrays: Sequence[Any], /, *, axis: int | None = 0) -> Array:
    """Join arrays one after the other along an axis, as `numpy.concatenate` does.

    Without an axis (None), the elements of each are taken in row-major order.

    Examples
    --------
    >>> oc.concat([oc.asarray([1, 2]), oc.asarray([3])]).compute()
    array([1, 2, 3])
    """
    nodes = [_node(x) for x in arrays]
    if not nodes:
        raise InvalidArgumentError("need at least one array to concatenate")
    if axis is None:
        nodes, axis = [n if n.ndim == 1 else reshaped(n, (n.size,)) for n in nodes], 0
    if nodes[0].ndim == 0:
        raise InvalidArgumentError("zero-dimensional arrays cannot be concatenated")
    (along,) = axes_of(nodes[0].ndim, axis)
    for node in nodes[1:]:
        same = node.ndim == nodes[0].ndim and all(
            n == m
            for a, (n, m) in enumerate(zip(node.shape, nodes[0].shape, strict=True))
            if a != along
        )
        if not same:
            raise InvalidArgumentError(
                f"arrays of shapes {nodes[0].shape} and {node.shape} cannot be joined along axis "
                f"{axis}"
            )
    dtype = np.result_type(*(node.dtype for node in nodes))
    parts = [cast(node, dtype) for node in nodes if node.shape[along]] or [cast(nodes[0], dtype)]
    return array_of(parts[0] if len(parts) == 1 else Join.of(parts, along))


def stack(arrays: Sequence[Any], /, *, axis: int = 0) -> Array:
    """Join arrays of one shape along a new axis, as `numpy.stack` does.

    Examples
    --------
    >>> oc.stack([oc.asarray([1, 2]), oc.asarray([3, 4])], axis=1).compute()
    array([[1, 3],
           [2, 4]])
    """
    nodes = [_node(x) for x in arrays]
    if not nodes:
        raise InvalidArgumentError("need at least one array to stack")
    for node in nodes[1:]:
        if node.shape != nodes[0].shape:
            raise InvalidArgumentError(
                f"arrays that are stacked have one shape (got {nodes[0].shape} and {node.shape})"
            )
    return concat([expand_dims(array_of(node), axis=axis) for node in nodes], axis=axis)


def expand_dims(x: Array, /, *, axis: int | Sequence[int] = 0) -> Array:
    """Add axes of length 1.

    Examples
    --------
    >>> oc.expand_dims(oc.asarray([1, 2]), axis=0).shape
    (1, 2)
    """
    node = _node(x)
    count = len(axis) if isinstance(axis, Sequence) else 1
    axes = axes_of(node.ndim + count, axis)
    return array_of(expanded(node, axes, node.ndim + count))


def squeeze(x: Array, /, axis: int | Sequence[int]) -> Array:
    """Remove axes of length 1.

    Examples
    --------
    >>> oc.squeeze(oc.asarray([[1, 2]]), axis=0).shape
    (2,)
    """
    axes = axes_of(x.ndim, axis)
    if any(x.shape[a] != 1 for a in axes):
        raise InvalidArgumentError("cannot select an axis to squeeze out which has size not one")
    return x[tuple(0 if a in axes else slice(None) for a in range(x.ndim))]


def broadcast_to(x: Array, /, shape: Sequence[int]) -> Array:
    """Repeat an array to a shape, as `numpy.broadcast_to` does.

    Examples
    --------
    >>> oc.broadcast_to(oc.asarray([1, 2]), (2, 2)).compute()
    array([[1, 2],
           [1, 2]])
    """
    node, wanted = _node(x), tuple(operator.index(n) for n in shape)
    try:
        fits = np.broadcast_shapes(node.shape, wanted) == wanted
    except ValueError:
        fits = False
    if not fits:
        raise InvalidArgumentError(f"an array of shape {node.shape} does not broadcast to {wanted}")
    return array_of(Map.of(Copy(), [node], node.dtype, wanted))


def map(function: Callable[..., Any], /, *arrays: Any, dtype: DTypeLike | None = None) -> Array:
    """Apply a function of your own to arrays, block by block.

    Parameters
    ----------
    function : callable
        Given a block of each array (`numpy.ndarray`; the blocks broadcast to one shape), it gives
        the block of the result, elements of which depend on no others than those of the same place.
    *arrays : Array, numpy.ndarray or number
        What it is applied to.
    dtype : dtype, optional
        Of the result. Default: what the function makes of ones.

    Returns
    -------
    Array
        Not computed yet. The function is called from several threads at once.

    Examples
    --------
    >>> A = oc.fromfunction(lambda i, j: i - j, (100, 100), "float64")
    >>> oc.map(lambda block: np.where(block > 0, np.sqrt(block), 0), np.abs(A))[5, 1].compute()
    array(2.)
    """
    if not callable(function):
        raise InvalidTypeError(f"a function of blocks is wanted, not {function!r}")
    if not arrays:
        raise InvalidArgumentError("need at least one array to apply a function to")
    nodes = [_node(x) for x in arrays]
    if dtype is None:
        dtype = np.asarray(function(*(np.ones((1,) * n.ndim, n.dtype) for n in nodes))).dtype
    return array_of(Map.of(Call(function), nodes, np.dtype(dtype)))
