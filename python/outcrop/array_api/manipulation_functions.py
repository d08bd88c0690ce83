"""Choosing and arranging elements, by the names of the Python array API standard."""

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from outcrop.arrays import hooks
from outcrop.arrays.array import Array
from outcrop.arrays.conversion import elements_of
from outcrop.arrays.creation import asarray
from outcrop.checks import as_dtype, check_device
from outcrop.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError
from outcrop.expressions.build.arrays import ExpressionSource, argument, array_of, node_of, now
from outcrop.expressions.build.reductions import axes_of, cast, expanded, filled, one_axis
from outcrop.expressions.graph.functions import Call, Choose, Copy
from outcrop.expressions.graph.gathers import Join
from outcrop.expressions.graph.indices import Periodic, Repeated
from outcrop.expressions.graph.nodes import Map, Node
from outcrop.expressions.rewrite.reshape_pushdown import reshaped
from outcrop.expressions.rewrite.take_pushdown import taken, taken_by_rule

__all__ = [
    "astype",
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_to",
    "clip",
    "concat",
    "expand_dims",
    "map",
    "matrix_transpose",
    "moveaxis",
    "pad",
    "repeat",
    "reshape",
    "roll",
    "squeeze",
    "stack",
    "swapaxes",
    "tile",
    "where",
]


def _node(x: Any) -> Node:
    return node_of(x if isinstance(x, Array) else asarray(x))


def astype(x: Array, dtype: DTypeLike, /, *, copy: bool = True, device: str | None = None) -> Array:
    """Convert the elements, as `numpy.ndarray.astype` does.

    Examples
    --------
    >>> oc.astype(oc.asarray([1.7, -2.2]), "int32").compute()
    array([ 1, -2], dtype=int32)
    """
    check_device(device)
    return _array(x).astype(dtype, copy=copy)


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


def expand_dims(x: Array, /, axis: int | Sequence[int] = 0) -> Array:
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
    return array_of(Map.of(Call(function), nodes, as_dtype(dtype)))


def _array(x: Any) -> Array:
    return x if isinstance(x, Array) else asarray(x)


def integers(values: Any, name: str) -> tuple[int, ...]:
    given = values if isinstance(values, Sequence | np.ndarray) else (values,)
    try:
        return tuple(operator.index(n) for n in given)
    except TypeError as error:
        raise InvalidTypeError(f"{name}: {error}") from None


def reshape(
    x: Any,
    /,
    shape: int | Sequence[int],
    *,
    order: str | None = "C",
    copy: bool | None = None,
) -> Array:
    """Give the elements in another shape, as `numpy.reshape` does.

    Parameters
    ----------
    x : Array or numpy.ndarray
        The array.
    shape : int or sequence of int
        Extents, of which one may be -1: what is left for it.
    order : {"C", "F"}
        In which order elements are counted: the last axis the fastest, or the first.
    copy : bool, optional
        True: the result is no view, and what is assigned to `x` later does not change it. False:
        it is an error where it cannot be a view. Default: it is one where it can be.

    Returns
    -------
    Array
        Not computed yet. What is made of stored arrays is not stored in between, elements are put
        in their places as they are read; unless the order in which they are counted is another
        one than that on disk (as with ``order="F"`` of a row-major file), and a slab of the array
        does not fit in memory. Then they are moved by way of the scratch directory.

    Raises
    ------
    InvalidArgumentError
        The shape has another number of elements; there is no such order; or `copy` is False, and
        the result is no view.

    Examples
    --------
    >>> A = oc.arange(6)
    >>> oc.reshape(A, (2, -1)).compute()
    array([[0, 1, 2],
           [3, 4, 5]])
    """
    array = _array(x)
    if order in ("A", "K"):
        raise UnsupportedError(
            f"order {order!r}: where elements lie on disk decides nothing; say 'C' or 'F'"
        )
    if order not in ("C", "F", None):
        raise InvalidArgumentError(f"order must be 'C' or 'F' (got {order!r})")
    given = integers(shape, "shape")
    if order == "F":
        return reshape(array.T, given[::-1], copy=copy).T
    if given.count(-1) > 1:
        raise InvalidArgumentError(f"cannot reshape into {given}: only one extent can be unknown")
    rest = math.prod(n for n in given if n != -1)
    wanted = given
    if given.count(-1) == 1 and rest and array.size % rest == 0:
        wanted = tuple(array.size // rest if n == -1 else n for n in given)
    if any(n < 0 for n in wanted) or math.prod(wanted) != array.size:
        raise InvalidArgumentError(f"cannot reshape array of size {array.size} into shape {given}")
    if wanted == array.shape:
        return array.copy() if copy else array
    if copy is False:
        raise InvalidArgumentError(
            "Unable to avoid copy while reshaping: of an array in another shape, the elements are "
            "put in their places as they are read, and it is no view"
        )
    return array_of(reshaped(node_of(array.copy() if copy else array), wanted))


def moveaxis(x: Any, source: int | Sequence[int], destination: int | Sequence[int], /) -> Array:
    """Give a view with axes in other places, as `numpy.moveaxis` does.

    Examples
    --------
    >>> oc.moveaxis(oc.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    array = _array(x)
    taken_, placed = axes_of(array.ndim, source), axes_of(array.ndim, destination)
    if len(taken_) != len(placed):
        raise InvalidArgumentError(
            "`source` and `destination` arguments must have the same number of elements"
        )
    order = [axis for axis in range(array.ndim) if axis not in taken_]
    for place, axis in sorted(zip(placed, taken_, strict=True)):
        order.insert(place, axis)
    return array.transpose(order)


def swapaxes(x: Any, axis1: int, axis2: int, /) -> Array:
    """Give a view with two axes exchanged, as `numpy.swapaxes` does.

    Examples
    --------
    >>> oc.swapaxes(oc.zeros((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    array = _array(x)
    (one,), (other,) = axes_of(array.ndim, axis1), axes_of(array.ndim, axis2)
    order = list(range(array.ndim))
    order[one], order[other] = other, one
    return array.transpose(order)


def rollaxis(x: Any, axis: int, start: int = 0) -> Array:
    """Give a view with an axis before another one, as `numpy.rollaxis` does."""
    array = _array(x)
    (along,) = axes_of(array.ndim, axis)
    place = operator.index(start)
    if not -array.ndim <= place <= array.ndim:
        raise InvalidArgumentError(f"start {start} is out of bounds for {array.ndim} axes")
    place += array.ndim if place < 0 else 0
    return moveaxis(array, along, place - (along < place))


def with_axes(x: Any, ndim: int) -> Array:
    """Give at least so many axes, as `numpy.atleast_1d` and its like do."""
    array = _array(x)
    if ndim == 3 and array.ndim == 2:
        return array[:, :, None]
    if ndim == 3 and array.ndim == 1:
        return array[None, :, None]
    return array[(None,) * (ndim - array.ndim)] if array.ndim < ndim else array


def matrix_transpose(x: Any, /) -> Array:
    """Give a view with the last two axes exchanged: a stack of matrices, each transposed.

    Examples
    --------
    >>> oc.matrix_transpose(oc.zeros((2, 3, 4))).shape
    (2, 4, 3)
    """
    return _array(x).mT


def broadcast_shapes(*shapes: int | Sequence[int]) -> tuple[int, ...]:
    """Tell the one shape that shapes broadcast to, as `numpy.broadcast_shapes` does.

    Raises
    ------
    InvalidArgumentError
        They do not broadcast, or one is no shape.

    Examples
    --------
    >>> oc.broadcast_shapes((3, 1), (4,))
    (3, 4)
    """
    try:
        return np.broadcast_shapes(*(integers(shape, "shape") for shape in shapes))
    except ValueError as error:
        raise InvalidArgumentError(str(error)) from None


def broadcast_arrays(*arrays: Any) -> tuple[Array, ...]:
    """Repeat arrays to the one shape that they broadcast to, as `numpy.broadcast_arrays` does.

    Examples
    --------
    >>> [A.shape for A in oc.broadcast_arrays(oc.zeros((3, 1)), oc.zeros(4))]
    [(3, 4), (3, 4)]
    """
    given = [_array(x) for x in arrays]
    try:
        shape = np.broadcast_shapes(*(array.shape for array in given))
    except ValueError as error:
        raise InvalidArgumentError(str(error)) from None
    nodes = [node_of(array) for array in given]
    return tuple(
        array if array.shape == shape else array_of(Map.of(Copy(), [node], node.dtype, shape))
        for array, node in zip(given, nodes, strict=True)
    )


def roll(
    x: Any, /, shift: int | Sequence[int], *, axis: int | Sequence[int] | None = None
) -> Array:
    """Shift elements along axes, those that go over the end to the beginning, as `numpy.roll` does.

    Examples
    --------
    >>> oc.roll(oc.arange(5), 2).compute()
    array([3, 4, 0, 1, 2])
    """
    # Where nothing is moved, what it gives is no view either.
    array = now(_array(x))
    if axis is None:
        return _carried(array, sum(integers(shift, "shift")), array.ndim - 1)
    # An axis that is named twice is rolled twice.
    axes = [a for one in integers(axis, "axis") for a in axes_of(array.ndim, one)]
    shifts = integers(shift, "shift")
    try:
        pairs = np.broadcast_shapes((len(axes),), (len(shifts),))[0]
    except ValueError:
        raise InvalidArgumentError(
            "'shift' and 'axis' should be scalars or 1D sequences of the same size"
        ) from None
    axes *= pairs if len(axes) == 1 else 1
    shifts *= pairs if len(shifts) == 1 else 1
    for along, by in zip(axes, shifts, strict=True):
        parts, _ = _parts(array, by, along)
        array = _joined(parts, along)
    return array


def _parts(array: Array, by: int, axis: int) -> tuple[list[Array], int]:
    """What is one after the other when rolled along an axis, and how often it has gone around.

    Where there are two parts, the first has gone around once more.
    """
    extent = array.shape[axis]
    around, by = divmod(by, extent) if extent else (0, 0)
    if not by:
        return [array], around
    whole, at = (slice(None),) * axis, extent - by
    return [array[(*whole, slice(at, None))], array[(*whole, slice(None, at))]], around


def _joined(parts: Sequence[Array], axis: int) -> Array:
    """Parts one after the other, if there are several."""
    if len(parts) == 1:
        return parts[0]
    return array_of(Join.of([node_of(part) for part in parts], axis))


def _carried(array: Array, by: int, axis: int) -> Array:
    """Roll the axes up to one as if they were one, in row-major order.

    What goes over the end of a row goes on in the next one, as digits are carried in a sum. So
    there is no need to put the elements of a column-major array in that order first.
    """
    if axis < 0 or not array.size:
        return array
    parts, around = _parts(array, by, axis)
    carries = [around + 1, around] if len(parts) == 2 else [around]
    rolled = [_carried(p, carry, axis - 1) for p, carry in zip(parts, carries, strict=True)]
    return _joined(rolled, axis)


def tile(x: Any, repetitions: int | Sequence[int], /) -> Array:
    """Repeat a whole array along its axes, as `numpy.tile` does.

    Examples
    --------
    >>> oc.tile(oc.asarray([1, 2]), (2, 2)).compute()
    array([[1, 2, 1, 2],
           [1, 2, 1, 2]])
    """
    array, counts = _array(x), integers(repetitions, "repetitions")
    if any(count < 0 for count in counts):
        raise InvalidArgumentError("negative dimensions are not allowed")
    counts = (1,) * (array.ndim - len(counts)) + counts
    array = array[(None,) * (len(counts) - array.ndim)]
    shape = tuple(n * count for n, count in zip(array.shape, counts, strict=True))
    node = node_of(array)
    if 0 in shape:
        return array_of(filled(0, shape, array.dtype))
    for axis, (n, count) in enumerate(zip(array.shape, counts, strict=True)):
        if n == 1 and count > 1:
            wide = (*node.shape[:axis], count, *node.shape[axis + 1 :])
            node = Map.of(Copy(), [node], node.dtype, wide)
        elif count > 1:
            node = taken_by_rule(node, Periodic(n, 0, 1, n * count), axis)
    return array_of(node)


def repeat(x: Any, repeats: Any, /, *, axis: int | None = None) -> Array:
    """Repeat each element along an axis, as `numpy.repeat` does.

    Parameters
    ----------
    x : Array or numpy.ndarray
        The array.
    repeats : int or array_like
        How many times; or for each index along the axis, how many times. An `Array` is computed
        now, because it decides on the shape of the result.
    axis : int, optional
        Along which. Default: the elements of `x` in one row.

    Examples
    --------
    >>> oc.repeat(oc.asarray([1, 2]), 2).compute()
    array([1, 1, 2, 2])
    >>> oc.repeat(oc.asarray([1, 2]), [1, 3]).compute()
    array([1, 2, 2, 2])
    """
    array = _array(x)
    array, along = one_axis(array, axis)
    counts, extent = elements_of(repeats), array.shape[along]
    if counts.dtype.kind not in "biu" or counts.ndim > 1:
        raise InvalidTypeError("repeats must be an integer, or a row of integers")
    if counts.size and int(counts.min()) < 0:
        raise InvalidArgumentError("repeats may not contain negative values.")
    node = node_of(array)
    if counts.size == 1:
        count = int(counts.reshape(())[()])
        shape = (*array.shape[:along], extent * count, *array.shape[along + 1 :])
        if 0 in shape:
            return array_of(filled(0, shape, array.dtype))
        if count == 1:
            return array_of(node)
        return array_of(taken_by_rule(node, Repeated(count, 0, 1, extent * count), along))
    if len(counts) != extent:
        raise InvalidArgumentError(
            f"operands could not be broadcast together with shape ({extent},) ({len(counts)},)"
        )
    return array_of(taken(node, np.repeat(np.arange(extent), counts), along))


_INDEXED = ("edge", "reflect", "symmetric", "wrap")


@hooks.in_chunks.fill
def _in_chunks(array: Array, chunk: tuple[int, ...]) -> Array:
    """Axes for the place of a chunk among the others, then those for places inside of one."""
    counts = [-(-n // c) for n, c in zip(array.shape, chunk, strict=True)]
    ends = [(0, k * c - n) for k, c, n in zip(counts, chunk, array.shape, strict=True)]
    padded = pad(array, ends) if any(end for _, end in ends) else array
    apart = reshape(padded, tuple(n for pair in zip(counts, chunk, strict=True) for n in pair))
    ndim = array.ndim
    turned = apart.transpose(*range(0, 2 * ndim, 2), *range(1, 2 * ndim, 2))
    # A computation also where nothing is left to compute, as for a single chunk.
    return Array(ExpressionSource(node_of(turned)))


def pad(
    x: Any, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0, **options: Any
) -> Array:
    """Put elements before and after those along each axis, as `numpy.pad` does.

    Parameters
    ----------
    x : Array or numpy.ndarray
        The array.
    pad_width : int or sequence
        How many elements: for all ends, as ``(before, after)``, or a pair for each axis.
    mode : {"constant", "edge", "reflect", "symmetric", "wrap"}
        Which elements.
    constant_values : number or sequence
        Of mode "constant": for all ends, as ``(before, after)``, or a pair for each axis.
    **options
        ``reflect_type`` of the modes "reflect" and "symmetric", which has to be "even".

    Examples
    --------
    >>> oc.pad(oc.asarray([1, 2, 3]), (1, 2)).compute()
    array([0, 1, 2, 3, 0, 0])
    """
    array = _array(x)
    if mode not in ("constant", *_INDEXED) or options.get("reflect_type", "even") != "even":
        raise UnsupportedError(
            f"pad with mode={mode!r} and {options} is not supported in this version; the modes are "
            f"'constant', {', '.join([repr(mode) for mode in _INDEXED])}"
        )
    widths = np.asarray(pad_width)
    if widths.dtype.kind not in "iu":
        raise InvalidTypeError("`pad_width` must be of integral type.")
    if widths.size and widths.min() < 0:
        raise InvalidArgumentError("index can't contain negative values")
    try:
        ends = np.broadcast_to(widths, (array.ndim, 2)).tolist()
        values = np.broadcast_to(np.asarray(constant_values), (array.ndim, 2))
    except ValueError as error:
        raise InvalidArgumentError(str(error)) from None
    node = node_of(array)
    for axis, (before, after) in enumerate(ends):
        if mode == "constant":
            node = _with_constants(node, axis, (before, after), values[axis])
        elif before or after:
            places = np.pad(np.arange(node.shape[axis]), (before, after), mode=mode)  # type: ignore[call-overload]
            node = taken(node, places, axis)
    return array_of(node)


def _with_constants(node: Node, axis: int, widths: tuple[int, int], values: Any) -> Node:
    def shape(extent: int) -> tuple[int, ...]:
        return (*node.shape[:axis], extent, *node.shape[axis + 1 :])

    whole = shape(node.shape[axis] + sum(widths))
    if 0 in whole:
        return filled(0, whole, node.dtype)
    before, after = (
        [filled(value, shape(width), node.dtype)] if width else []
        for width, value in zip(widths, values, strict=True)
    )
    parts = [*before, *([node] if node.size else []), *after]
    return parts[0] if len(parts) == 1 else Join.of(parts, axis)
