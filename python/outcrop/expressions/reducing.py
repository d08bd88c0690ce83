"""Reductions and running sums of arrays, with NumPy's arguments."""

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from outcrop._source import MemorySource
from outcrop.array import Array
from outcrop.errors import BoxIndexError, InvalidArgumentError, InvalidTypeError
from outcrop.expressions.arrays import argument, array_of, node_of
from outcrop.expressions.functions import Apply, Cast, Choose
from outcrop.expressions.nodes import Leaf, Map, Node, Reduce, Scan
from outcrop.expressions.pushing import viewed
from outcrop.expressions.reductions import ArgExtreme, Moments, Reduction, UfuncReduction
from outcrop.views import NewAxis, View

__all__ = ["arg_extreme", "axes_of", "expanded", "mean", "reduced", "scanned", "variance"]

Axis = int | Sequence[int] | None


def axes_of(ndim: int, axis: Any) -> tuple[int, ...]:
    """Axes as NumPy's functions take them: None for all, an integer, or several."""
    if axis is None:
        return tuple(range(ndim))
    given = tuple(axis) if isinstance(axis, tuple | list) else (axis,)
    found = []
    for one in given:
        try:
            index = operator.index(one)
        except TypeError as error:
            raise InvalidTypeError(str(error)) from None
        if not -ndim <= index < ndim:
            raise BoxIndexError(f"axis {index} is out of bounds for array of dimension {ndim}")
        found.append(index % ndim)
    if len(set(found)) != len(found):
        raise InvalidArgumentError("duplicate value in 'axis'")
    return tuple(found)


def expanded(node: Node, axes: Sequence[int], ndim: int) -> Node:
    """A reduction over axes with these axes back, of length 1."""
    rest = iter(range(node.ndim))
    made: list[int | NewAxis] = [NewAxis() if a in axes else next(rest) for a in range(ndim)]
    whole = View.whole(node.shape)
    return viewed(node, View(node.shape, whole.selectors, tuple(made)))


def cast(node: Node, dtype: np.dtype[Any]) -> Node:
    """The node with elements of another type."""
    return node if node.dtype == dtype else Map.of(Cast(), [node], dtype)


def filled(value: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Node:
    """The node of an array all of whose elements are the same."""
    array = np.broadcast_to(np.asarray(value).astype(dtype), shape)
    return Leaf.of(MemorySource(array), View.whole(shape))


def reduced(
    ufunc: np.ufunc,
    array: Array,
    axis: Any = 0,
    dtype: DTypeLike | None = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Array:
    """What ``ufunc.reduce`` gives."""
    node = node_of(array)
    axes = axes_of(node.ndim, axis)
    if ufunc.nin != 2 or ufunc.nout != 1 or ufunc.signature is not None:
        raise InvalidArgumentError("reduce only supported for binary functions")
    if (ufunc.identity is None and ufunc not in _ASSOCIATIVE) or ufunc in _ORDERED:
        raise InvalidArgumentError(f"{ufunc.__name__}.reduce of parts of an array has no meaning")
    probe = np.ones((1,) * node.ndim, node.dtype)
    kind = ufunc.reduce(probe, axis=axes, dtype=dtype).dtype
    if where is not True:
        neutral = ufunc.identity if initial is None else initial
        if neutral is None:
            raise InvalidArgumentError(
                f"reduction operation '{ufunc.__name__}' does not have an identity, so to use a "
                "where mask one has to specify 'initial'"
            )
        inner = cast(node, kind) if kind != np.bool_ else node
        fill = filled(ufunc.identity if ufunc.identity is not None else initial, (), inner.dtype)
        node = Map.of(Choose(), [argument(where), inner, fill], inner.dtype, node.shape)
    empty = math.prod(node.shape[a] for a in axes) == 0
    shape = tuple(n for a, n in enumerate(node.shape) if a not in axes)
    if empty:
        neutral = ufunc.identity if initial is None else initial
        if neutral is None and 0 not in shape:
            raise InvalidArgumentError(
                f"zero-size array to reduction operation {ufunc.__name__} which has no identity"
            )
        result: Node = filled(0 if neutral is None else neutral, shape, kind)
    elif not axes:
        result = cast(node, kind)
    else:
        result = Reduce.of(UfuncReduction(ufunc, kind), node, axes)
    if initial is not None and not empty:
        result = Map.of(Apply(ufunc), [filled(initial, (), kind), result], kind)
    if keepdims:
        result = expanded(result, axes, node.ndim)
    if out is not None:
        raise InvalidArgumentError("out= is not supported for reductions of an outcrop.Array")
    return array_of(result)


_ASSOCIATIVE = {np.maximum, np.minimum, np.fmax, np.fmin}
_ORDERED = {np.subtract, np.divide, np.floor_divide, np.power, np.remainder}


def scanned(
    ufunc: np.ufunc, array: Array, axis: Any = 0, dtype: DTypeLike | None = None, out: Any = None
) -> Array:
    """What ``ufunc.accumulate`` gives."""
    node = node_of(array)
    if out is not None:
        raise InvalidArgumentError("out= is not supported for running sums of an outcrop.Array")
    (only,) = axes_of(node.ndim, axis)
    kind = ufunc.accumulate(np.ones((1,) * node.ndim, node.dtype), only, dtype).dtype
    if node.size == 0:
        return array_of(filled(0, node.shape, kind))
    return array_of(Scan.of(ufunc, node, only, kind))


def arg_extreme(array: Array, axis: Any, keepdims: bool, least: bool) -> Array:
    """Indices of the least or greatest elements."""
    node = node_of(array)
    name = "argmin" if least else "argmax"
    if axis is None:
        if node.ndim != 1:
            raise InvalidArgumentError(
                f"{name} over all axes is for arrays of one axis in this version; say axis="
            )
        axis = 0
    (only,) = axes_of(node.ndim, operator.index(axis))
    if node.shape[only] == 0:
        raise InvalidArgumentError(f"attempt to get {name} of an empty sequence")
    result: Node = Reduce.of(ArgExtreme(least), node, (only,), 1)
    return array_of(expanded(result, (only,), node.ndim) if keepdims else result)


def _float_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(np.float64) if dtype.kind in "biu" else dtype


def _counted(node: Node, axes: Sequence[int]) -> int:
    return math.prod(node.shape[a] for a in axes)


def mean(
    array: Array, axis: Any = None, dtype: DTypeLike | None = None, keepdims: bool = False
) -> Array:
    """What `numpy.mean` gives."""
    node = node_of(array)
    axes = axes_of(node.ndim, axis)
    kind = np.dtype(dtype) if dtype is not None else _float_of(node.dtype)
    total = node_of(reduced(np.add, array, axes, kind))
    count = _counted(node, axes)
    result: Node = Map.of(Apply(np.true_divide), [total, _number(count, kind)], kind)
    return array_of(expanded(result, axes, node.ndim) if keepdims else result)


def _number(value: float, dtype: np.dtype[Any]) -> Any:
    return float(value) if dtype.kind in "fc" else value


def variance(
    array: Array,
    axis: Any = None,
    dtype: DTypeLike | None = None,
    ddof: float = 0,
    keepdims: bool = False,
    root: bool = False,
) -> Array:
    """What `numpy.var` gives, or `numpy.std`."""
    node = node_of(array)
    axes = axes_of(node.ndim, axis)
    kind = np.dtype(dtype) if dtype is not None else _float_of(node.dtype)
    count = _counted(node, axes)
    moments: Reduction = Moments(kind)
    real = moments.dtypes(node.dtype)[1]
    shape = tuple(n for a, n in enumerate(node.shape) if a not in axes)
    if count == 0:
        result: Node = filled(np.nan, shape, real)
    else:
        squares: Node
        squares = Reduce.of(moments, node, axes, 1) if axes else filled(0, node.shape, real)
        divisor = float(max(count - ddof, 0))
        result = Map.of(Apply(np.true_divide), [squares, divisor], real)
    if root:
        result = Map.of(Apply(np.sqrt), [result], real)
    return array_of(expanded(result, axes, node.ndim) if keepdims else result)
