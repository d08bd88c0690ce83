"""Means, variances and weighted averages, with NumPy's arguments."""

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from outcrop.arrays.array import Array
from outcrop.arrays.views import View
from outcrop.checks import as_dtype
from outcrop.errors import DivisionByZeroError, InvalidArgumentError, InvalidTypeError
from outcrop.expressions.build.arrays import array_of, node_of
from outcrop.expressions.build.reductions import (
    axes_of_reduction,
    cast,
    chosen,
    expanded,
    filled,
    folded,
    is_missing,
    mask_of,
    without_nan,
)
from outcrop.expressions.graph.functions import Apply, Choose, Copy, Guard
from outcrop.expressions.graph.nodes import Map, Node, Reduce
from outcrop.expressions.graph.reductions import Moments, NanMoments
from outcrop.expressions.rewrite.view_pushdown import viewed

__all__ = ["average", "mean", "variance"]

_BOOL = np.dtype(bool)
_FLOAT = np.dtype(np.float64)


def mean(
    array: Array,
    axis: Any = None,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    where: Any = True,
    skips_nan: bool = False,
) -> Array:
    """What `numpy.mean` gives, or `numpy.nanmean`."""
    node = node_of(array)
    axes = axes_of_reduction(node.ndim, axis)
    skips_nan = skips_nan and node.dtype.kind in "fc"
    kind = _inexact(node, dtype, needed=skips_nan)
    loop = kind
    if dtype is None and kind == np.float16:
        loop = np.dtype(np.float32)
    mask = mask_of(where, node)
    count = _count(node, axes, mask, skips_nan)
    total = folded(np.add, without_nan(node, 0) if skips_nan else node, axes, loop, mask=mask)
    result = cast(_quotient(total, count, "Mean of empty slice"), kind)
    return array_of(expanded(result, axes, node.ndim) if keepdims else result)


def _inexact(node: Node, dtype: DTypeLike | None, needed: bool) -> np.dtype[Any]:
    """The type of means."""
    if dtype is None:
        return _FLOAT if node.dtype.kind in "biu" else node.dtype
    kind = as_dtype(dtype)
    if needed and kind.kind not in "fc":
        raise InvalidTypeError(f"dtype= must be of floating-point numbers here, not {kind}")
    return kind


def _count(
    node: Node, axes: Sequence[int], mask: Node | None, skips_nan: bool = False
) -> int | Node:
    """How many elements go into each result; a node where the elements decide."""
    counted = mask
    if skips_nan:
        counted = Map.of(Apply(np.logical_not), [is_missing(node)], _BOOL)
        if mask is not None:
            counted = Map.of(Apply(np.logical_and), [counted, mask], _BOOL)
    if counted is None:
        return math.prod(node.shape[a] for a in axes)
    # What broadcasts counts as often as it is repeated.
    whole = Map.of(Apply(np.logical_and), [counted, True], _BOOL, node.shape)
    return folded(np.add, whole, axes, np.intp)


def _quotient(total: Node, count: int | Node, message: str) -> Node:
    """Totals over counts; NaN, and a warning, where nothing was counted."""
    kind = total.dtype if total.dtype.kind in "fc" else _FLOAT
    if not isinstance(count, Node):
        result = _divided(total, float(count), kind)
        return result if count else _warned(result, Guard(message))
    nothing = Map.of(Apply(np.equal), [count, 0], _BOOL)
    least = Map.of(Apply(np.maximum), [count, 1], count.dtype)
    result = chosen(nothing, np.nan, _divided(total, least, kind), kind)
    return Map.of(Guard(message), [result, nothing], kind)


def _warned(result: Node, guard: Guard) -> Node:
    """A result of which the caller hears when it is computed; at once where it has no elements."""
    if not result.size:
        warnings.warn(guard.message, RuntimeWarning, stacklevel=2)
    return Map.of(guard, [result, True], result.dtype)


def _divided(one: Node, other: Any, dtype: np.dtype[Any]) -> Node:
    return Map.of(Apply(np.true_divide), [one, other], dtype)


def variance(
    array: Array,
    axis: Any = None,
    dtype: DTypeLike | None = None,
    ddof: float = 0,
    keepdims: bool = False,
    where: Any = True,
    root: bool = False,
    skips_nan: bool = False,
) -> Array:
    """What `numpy.var` gives, or `numpy.std`, `numpy.nanvar`, `numpy.nanstd`."""
    node = node_of(array)
    axes = axes_of_reduction(node.ndim, axis)
    kind = _inexact(node, dtype, needed=True)
    if node.dtype.kind == "c" and kind.kind != "c":
        raise InvalidTypeError(f"dtype= must be of complex numbers here, not {kind}")
    if not isinstance(ddof, int | float | np.number):
        raise InvalidTypeError(f"a correction is a number, not {ddof!r}")
    mask = mask_of(where, node)
    skips_nan = skips_nan and node.dtype.kind in "fc"
    is_short = kind == np.float16
    if is_short:
        # Sums of squares are not kept in so few bits.
        kind = np.dtype(np.float32)
        node = cast(node, kind)
    if mask is None and not skips_nan:
        result = _variance_of_all(node, axes, kind, ddof)
    else:
        result = _variance_of_some(node, axes, kind, ddof, mask, skips_nan)
    if dtype is not None:
        # As NumPy has it, complex numbers where these are asked for.
        result = cast(result, kind)
    if is_short:
        result = cast(result, np.dtype(np.float16))
    if root:
        result = Map.of(Apply(np.sqrt), [result], result.dtype)
    return array_of(expanded(result, axes, node.ndim) if keepdims else result)


_FREEDOM = Guard("Degrees of freedom <= 0 for slice")


def _variance_of_all(node: Node, axes: Sequence[int], kind: np.dtype[Any], ddof: float) -> Node:
    count = math.prod(node.shape[a] for a in axes)
    (squares,) = _moments(Moments(kind), node, axes, (1,))
    free = float(max(count - ddof, 0))
    result = _divided(squares, free, squares.dtype)
    return result if free else _warned(result, _FREEDOM)


def _variance_of_some(
    node: Node,
    axes: Sequence[int],
    kind: np.dtype[Any],
    ddof: float,
    mask: Node | None,
    skips_nan: bool,
) -> Node:
    """The variance of those elements that count: the others are made NaN, and left out."""
    given = cast(node, kind) if node.dtype.kind not in "fc" else node
    if mask is not None:
        given = Map.of(Choose(), [mask, given, np.nan], given.dtype, node.shape)
    squares, count = _moments(NanMoments(kind), given, axes, (1, 2))
    if not skips_nan and mask is not None:
        # NaN counts where it is not masked.
        found = _count(node, axes, mask)
        assert isinstance(found, Node)
        count = found
    free: Node = Map.of(Apply(np.subtract), [count, float(ddof)], _FLOAT)
    lacking = Map.of(Apply(np.less_equal), [free, 0.0], _BOOL)
    if skips_nan:
        some = _divided(squares, chosen(lacking, 1.0, free, _FLOAT), squares.dtype)
        result = chosen(lacking, np.nan, some, some.dtype)
    else:
        result = _divided(squares, Map.of(Apply(np.maximum), [free, 0.0], _FLOAT), squares.dtype)
        if mask is not None and node.dtype.kind in "fc":
            spoilt = Map.of(Apply(np.logical_and), [is_missing(node), mask], _BOOL)
            result = chosen(folded(np.logical_or, spoilt, axes), np.nan, result, result.dtype)
    return Map.of(_FREEDOM, [result, lacking], result.dtype)


def _moments(
    moments: Moments, node: Node, axes: Sequence[int], outputs: Sequence[int]
) -> list[Node]:
    if all(node.shape[a] for a in axes):
        return [Reduce.of(moments, node, axes, i) for i in outputs]
    shape = tuple(n for a, n in enumerate(node.shape) if a not in axes)
    dtypes = moments.dtypes(node.dtype)
    return [filled(0, shape, dtypes[i]) for i in outputs]


def average(array: Array, axis: Any, weights: Array | None, keepdims: bool) -> tuple[Array, Array]:
    """What `numpy.average` gives with ``returned=True``."""
    node = node_of(array)
    axes = axes_of_reduction(node.ndim, axis)
    if weights is None:
        result = mean(array, axis, None, keepdims)
        count = math.prod(node.shape[a] for a in axes)
        return result, array_of(filled(count, result.shape, result.dtype))
    given = _weights(node_of(weights), node, axes, axis is None)
    kind = np.result_type(node.dtype, given.dtype, *(["f8"] if node.dtype.kind in "biu" else []))
    product = Map.of(Apply(np.multiply), [cast(node, kind), cast(given, kind)], kind)
    scale = folded(np.add, given, axes, kind)
    guard = Guard("Weights sum to zero, can't be normalized", DivisionByZeroError)
    nothing = Map.of(Apply(np.equal), [scale, 0], _BOOL)
    scale = Map.of(guard, [scale, nothing], kind)
    result_node = _divided(folded(np.add, product, axes), scale, kind)
    whole = Map.of(Copy(), [scale], kind, result_node.shape)
    found = [result_node, whole]
    if keepdims:
        found = [expanded(n, axes, node.ndim) for n in found]
    return array_of(found[0]), array_of(found[1])


def _weights(weights: Node, node: Node, axes: Sequence[int], all_axes: bool) -> Node:
    """Weights with the axes of what they are for."""
    if weights.shape == node.shape:
        return weights
    if all_axes:
        raise InvalidTypeError("Axis must be specified when shapes of a and weights differ.")
    if weights.shape != tuple(node.shape[a] for a in axes):
        raise InvalidArgumentError(
            "Shape of weights must be consistent with shape of a along specified axis."
        )
    order = View.whole(weights.shape).transpose([axes.index(a) for a in sorted(axes)])
    rest = [a for a in range(node.ndim) if a not in axes]
    return expanded(viewed(weights, order), rest, node.ndim)
