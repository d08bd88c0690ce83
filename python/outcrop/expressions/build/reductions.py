"""Reductions by ufuncs, running ones, and places of extremes, with NumPy's arguments."""

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from outcrop.arrays.array import Array
from outcrop.arrays.conversion import elements_of
from outcrop.arrays.source import MemorySource
from outcrop.arrays.views import NewAxis, View
from outcrop.errors import (
    AxisError,
    BoxIndexError,
    InvalidArgumentError,
    InvalidTypeError,
    UnsupportedError,
)
from outcrop.expressions.build.arrays import argument, array_of, node_of
from outcrop.expressions.graph.functions import Apply, Cast, Choose, Guard
from outcrop.expressions.graph.gathers import Join
from outcrop.expressions.graph.nodes import Leaf, Map, Node, Reduce, Scan
from outcrop.expressions.graph.reductions import ArgExtreme, Last, UfuncReduction, is_reorderable
from outcrop.expressions.rewrite.view_pushdown import viewed

__all__ = [
    "arg_extreme",
    "axes_of",
    "axes_of_reduction",
    "axis_of",
    "cast",
    "chosen",
    "expanded",
    "filled",
    "folded",
    "is_missing",
    "mask_of",
    "one_axis",
    "reduced",
    "reduced_by_segments",
    "scanned",
    "warned_of_nan",
    "without_nan",
    "without_nan_of",
]

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
            raise AxisError(index, ndim)
        found.append(index % ndim)
    if len(set(found)) != len(found):
        raise InvalidArgumentError("duplicate value in 'axis'")
    return tuple(found)


def axis_of(ndim: int, axis: Any) -> int:
    """One axis."""
    return axes_of(ndim, (axis,))[0]


def one_axis(array: Array, axis: Any) -> tuple[Array, int]:
    """An array, and one axis of it: None for that of all elements in one row, as one number is."""
    if axis is None or (array.ndim == 0 and axis in (0, -1)):
        return array.reshape(-1), 0
    return array, axis_of(array.ndim, axis)


def axes_of_reduction(ndim: int, axis: Any) -> tuple[int, ...]:
    """The same, of ufuncs: these let one number be reduced over the axis that it does not have."""
    if ndim == 0 and isinstance(axis, int | np.integer) and axis in (0, -1):
        return ()
    return axes_of(ndim, axis)


# -- nodes of elements -----------------------------------------------------------------------------


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
    if np.ndim(value):
        raise InvalidArgumentError(f"one number is needed, not an array of shape {np.shape(value)}")
    one = np.empty((), dtype)
    try:
        # As NumPy does it: numbers that do not fit are refused.
        one[()] = value
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(str(error)) from None
    array = np.broadcast_to(one, shape)
    return Leaf.of(MemorySource(array, owned=True), View.whole(shape))


def chosen(condition: Node, one: Any, other: Any, dtype: np.dtype[Any]) -> Node:
    """One where a condition holds, else the other."""
    return Map.of(Choose(), [condition, one, other], dtype)


def is_missing(node: Node) -> Node:
    """Where the elements, of floating-point numbers, are NaN."""
    return Map.of(Apply(np.isnan), [node], np.dtype(bool))


def without_nan(node: Node, value: float) -> Node:
    """With a value in the place of NaN."""
    if node.dtype.kind not in "fc":
        return node
    return chosen(is_missing(node), filled(value, (), node.dtype), node, node.dtype)


def without_nan_of(array: Array, value: float) -> Array:
    """The array with a value in the place of NaN."""
    return array_of(without_nan(node_of(array), value))


def warned_of_nan(array: Array, message: str) -> Array:
    """The array, with a warning where it is NaN."""
    node = node_of(array)
    if node.dtype.kind not in "fc":
        return array
    return array_of(Map.of(Guard(message), [node, is_missing(node)], node.dtype))


def mask_of(where: Any, node: Node) -> Node | None:
    """The elements of a node that count, as ``where=`` says; None for all."""
    if where is True:
        return None
    mask: Node = node_of(where) if isinstance(where, Array) else argument(elements_of(where))
    if mask.dtype != np.bool_:
        raise InvalidTypeError(f"where= must be of booleans, not of {mask.dtype}")
    try:
        fits = np.broadcast_shapes(mask.shape, node.shape) == node.shape
    except ValueError:
        fits = False
    if not fits:
        raise InvalidArgumentError(
            f"where= of shape {mask.shape} does not broadcast to the array's, {node.shape}"
        )
    return mask


# -- reductions ------------------------------------------------------------------------------------


def reduced(
    ufunc: np.ufunc,
    array: Array,
    axis: Any = 0,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Array:
    """What ``ufunc.reduce`` gives."""
    node = node_of(array)
    axes = axes_of_reduction(node.ndim, axis)
    result = folded(ufunc, node, axes, dtype, initial, mask_of(where, node))
    return array_of(expanded(result, axes, node.ndim) if keepdims else result)


def folded(
    ufunc: np.ufunc,
    node: Node,
    axes: Sequence[int],
    dtype: DTypeLike | None = None,
    initial: Any = None,
    mask: Node | None = None,
) -> Node:
    """The node of a reduction by a ufunc."""
    kind = _dtype_of(ufunc, node, "reduce", tuple(axes[:1]), dtype)
    reorderable = is_reorderable(ufunc, kind)
    if not reorderable and len(axes) > 1:
        raise InvalidArgumentError(
            f"reduction operation '{ufunc.__name__}' is not reorderable, so at most one axis may "
            "be specified"
        )
    identity = _identity(ufunc, kind)
    neutral = identity if initial is None else initial
    if mask is not None:
        if neutral is None:
            raise InvalidArgumentError(
                f"reduction operation '{ufunc.__name__}' does not have an identity, so to use a "
                "where mask one has to specify 'initial'"
            )
        if not reorderable:
            raise UnsupportedError(
                f"numpy.{ufunc.__name__}.reduce(where=) of an outcrop.Array is not supported in "
                "this version"
            )
        inner = cast(node, kind) if kind != np.bool_ else node
        fill = filled(initial if identity is None else identity, (), inner.dtype)
        node = Map.of(Choose(), [mask, inner, fill], inner.dtype, node.shape)
    shape = tuple(n for a, n in enumerate(node.shape) if a not in axes)
    if math.prod(node.shape[a] for a in axes) == 0:
        if neutral is None:
            raise InvalidArgumentError(
                f"zero-size array to reduction operation {ufunc.__name__} which has no identity"
            )
        return filled(neutral, shape, kind)
    if not axes:
        result = cast(node, kind)
    elif reorderable:
        result = Reduce.of(UfuncReduction(ufunc, kind), node, axes)
    else:
        (axis,) = axes
        if _dtype_of(ufunc, node, "accumulate", axis, kind) != kind:
            raise InvalidTypeError(f"{ufunc.__name__} does not make {kind} of {kind}")
        if initial is not None:
            node, initial = _preceded(cast(node, kind), initial, axis), None
        result = Reduce.of(Last(), Scan.of(ufunc, node, axis, kind), axes)
    if initial is not None:
        result = Map.of(Apply(ufunc), [filled(initial, (), kind), result], kind)
    return result


def _dtype_of(
    ufunc: np.ufunc, node: Node, method: str, axis: Any, dtype: DTypeLike | None
) -> np.dtype[Any]:
    """The type of what a ufunc's method gives, where it takes such elements."""
    if ufunc.nin != 2 or ufunc.nout != 1:
        raise InvalidArgumentError(f"{method} only supported for binary functions")
    if ufunc.signature is not None:
        raise InvalidArgumentError(f"{method} not defined on a ufunc with a signature")
    probe = np.ones((1,) * node.ndim, node.dtype)
    try:
        found = np.asarray(getattr(ufunc, method)(probe, axis=axis, dtype=dtype)).dtype
    except TypeError as error:
        raise InvalidTypeError(str(error)) from None
    if found.kind not in "biufc":
        raise InvalidTypeError(f"elements of type {found} do not take part in expressions")
    return found


def _identity(ufunc: np.ufunc, dtype: np.dtype[Any]) -> Any:
    """What changes nothing; None where there is no such number. All bits may be written as -1."""
    return None if ufunc.identity is None else np.asarray(ufunc.identity).astype(dtype)


def _preceded(node: Node, value: Any, axis: int) -> Node:
    """With one more element before the first one along an axis."""
    shape = tuple(1 if a == axis else n for a, n in enumerate(node.shape))
    return Join.of([filled(value, shape, node.dtype), node], axis)


def reduced_by_segments(
    ufunc: np.ufunc, array: Array, indices: Any, axis: Any = 0, dtype: DTypeLike | None = None
) -> Array:
    """What ``ufunc.reduceat`` gives."""
    node = node_of(array)
    if node.ndim == 0:
        raise InvalidTypeError("cannot reduceat on a scalar")
    only = axis_of(node.ndim, axis)
    extent, firsts = node.shape[only], np.asarray(indices)
    if firsts.ndim != 1 or (firsts.size and firsts.dtype.kind not in "iu"):
        raise InvalidTypeError("indices must be a one-dimensional array of integers")
    kind = _dtype_of(ufunc, node, "reduce", only, dtype)
    whole, parts = View.whole(node.shape), []
    ends = [*firsts.tolist()[1:], extent]
    for first, end in zip(firsts.tolist(), ends, strict=False):
        if not 0 <= first < extent:
            raise BoxIndexError(
                f"index {first} out-of-bounds in {ufunc.__name__}.reduceat [0, {extent})"
            )
        key = (slice(None),) * only + (slice(first, max(end, first + 1)),)
        segment = viewed(node, whole.index(key))
        result = folded(ufunc, segment, (only,), dtype)
        parts.append(expanded(result, (only,), node.ndim))
    if not parts:
        shape = tuple(0 if a == only else n for a, n in enumerate(node.shape))
        return array_of(filled(0, shape, kind))
    return array_of(parts[0] if len(parts) == 1 else Join.of(parts, only))


# -- running ones ----------------------------------------------------------------------------------


def scanned(
    ufunc: np.ufunc,
    array: Array,
    axis: Any = 0,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Array:
    """What ``ufunc.accumulate`` gives, of nothing first if that is included."""
    node = node_of(array)
    if node.ndim == 0:
        raise InvalidTypeError("cannot accumulate on a scalar")
    if axis is None or isinstance(axis, tuple | list):
        raise InvalidArgumentError("accumulate does not allow multiple axes")
    only = axis_of(node.ndim, axis)
    kind = _dtype_of(ufunc, node, "accumulate", only, dtype)
    if include_initial:
        node = _preceded(node, _identity(ufunc, node.dtype), only)
    if node.size == 0:
        return array_of(filled(0, node.shape, kind))
    return array_of(Scan.of(ufunc, node, only, kind))


# -- places of extremes ----------------------------------------------------------------------------


def arg_extreme(
    array: Array, axis: Any, keepdims: bool, least: bool, skips_nan: bool = False
) -> Array:
    """Indices of the least or greatest elements along an axis, or among all of them."""
    node = node_of(array)
    name = "argmin" if least else "argmax"
    if axis is not None and not isinstance(axis, int | np.integer):
        raise InvalidTypeError(f"{name} takes one axis, or None for all, not {axis!r}")
    axes = axes_of_reduction(node.ndim, axis)
    extents = tuple(node.shape[a] for a in axes)
    if 0 in extents:
        raise InvalidArgumentError(f"attempt to get {name} of an empty sequence")
    given = without_nan(node, np.inf if least else -np.inf) if skips_nan else node
    index = np.dtype(np.intp)
    result: Node = (
        Reduce.of(ArgExtreme(least, extents), given, axes, 1)
        if axes
        else filled(0, node.shape, index)
    )
    if given is not node:
        nothing = folded(np.logical_and, is_missing(node), axes)
        guard = Guard("All-NaN slice encountered", InvalidArgumentError)
        result = Map.of(guard, [result, nothing], index)
    return array_of(expanded(result, axes, node.ndim) if keepdims else result)
