"""Arrays as expressions, and expressions as arrays."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outcrop import _native
from outcrop._lazy import Computation, ComputedSource, Operand, Progress, Target
from outcrop._source import ConjugateSource, MemorySource, Source
from outcrop.array import Array
from outcrop.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    UnsupportedError,
)
from outcrop.expressions.functions import Apply, ApplyWhere, Cast, Function
from outcrop.expressions.nodes import Contract, Leaf, Map, Node, Select, ancestors
from outcrop.expressions.pushing import leaf_of, viewed
from outcrop.expressions.run import Planned, plan
from outcrop.views import NewAxis, View

__all__ = [
    "Expression",
    "ExpressionSource",
    "argument",
    "array_of",
    "mapped",
    "node_of",
    "ufunc_dtypes",
]

_SHORT = 2048
"""A product of matrices all of whose extents are longer is computed by itself, block by block."""


class Expression(Computation):
    """What computes an expression."""

    leaves_zeros = False
    conjugated = False

    def __init__(self, node: Node) -> None:
        self.node = node
        self.name, self.shape, self.dtype = node.name, node.shape, node.dtype

    @property
    def operands(self) -> tuple[Array, ...]:  # type: ignore[override]
        """The arrays that it is made from."""
        leaves = [n for n in ancestors([self.node]) if isinstance(n, Leaf)]
        return tuple(Array(leaf.source, leaf.view) for leaf in leaves)

    def matrices(self) -> tuple[Operand, ...]:
        return ()

    def plan_with(self, matrices: Sequence[Operand], target: Target) -> "_One":  # type: ignore[override]
        return _One(plan([(resolved([self.node])[0], target)]))


class _One:
    """A plan for one result, as the compiled core's own are."""

    def __init__(self, planned: Planned) -> None:
        self._planned = planned

    @property
    def facts(self) -> dict[str, Any]:
        return self._planned.facts

    @property
    def planned(self) -> Planned:
        """What it is, as one of possibly several results."""
        return self._planned

    @property
    def output_tile(self) -> tuple[int, ...]:
        return self._planned.tile(0)

    def run(self, output: _native.Store, progress: Progress | None, timeline: str | None) -> None:
        self._planned.run([output], progress, timeline)


class ExpressionSource(ComputedSource):
    """The elements of an expression, which are not computed yet."""

    computation: Expression

    def __init__(self, node: Node) -> None:
        super().__init__(Expression(node))
        self.node = node

    def describe(self, selection: str) -> str:
        return f"{self.node.name}(...){selection}, not computed yet"

    def read(self, view: View) -> NDArray[Any]:
        if view.size == 0:
            return np.empty(view.shape, self.dtype)
        if self.result is None and not view.is_whole and self._is_cheap():
            return ExpressionSource(viewed(self.node, view)).compute(None)
        return super().read(view)

    def planned(self) -> Planned:
        """The plan for a new Zarr array."""
        self.check_planned()
        return self.computation.plan_with((), (None, "{}")).planned

    def narrowed(self, view: View) -> tuple[Source, View]:
        """An expression of the view, where this one is not computed yet."""
        if self.result is not None or view.is_whole:
            return self, view
        if view.size == 0:
            return MemorySource(np.empty(view.shape, self.dtype)), View.whole(view.shape)
        return ExpressionSource(viewed(self.node, view)), View.whole(view.shape)

    def _is_cheap(self) -> bool:
        """Whether a part takes a part of the work."""
        return all(isinstance(n, Map | Leaf | Select) for n in ancestors([self.node]))


def resolved(nodes: Sequence[Node]) -> list[Node]:
    """With everything that has to be computed by itself computed."""
    made: dict[int, Node] = {}
    for node in ancestors(nodes):
        made[id(node)] = node
        if isinstance(node, Leaf) and isinstance(node.source, ComputedSource):
            made[id(node)] = leaf_of(node.source.materialized(), node.view)
        elif any(made[id(o)] is not o for o in node.operands):
            made[id(node)] = node.with_operands([made[id(o)] for o in node.operands])
    return [made[id(node)] for node in nodes]


def node_of(array: Array) -> Node:
    """The node that an array is."""
    source, view = array._source, array._view
    if isinstance(source, ConjugateSource):
        base = node_of(Array(source.base, view))
        return Map.of(Apply(np.conjugate), [base], base.dtype)
    return (
        viewed(_node_of(source), view)
        if isinstance(source, ComputedSource)
        else leaf_of(source, view)
    )


def _node_of(source: ComputedSource) -> Node:
    if source.result is not None:
        return leaf_of(source.result, View.whole(source.shape))
    if isinstance(source, ExpressionSource):
        return source.node
    if source.computation.name == "matmul":
        one, other = source.computation.operands
        found = product(one, other, source.dtype)
        if found is not None:
            return found
    return Leaf.of(source, View.whole(source.shape))


def product(one: Array, other: Array, dtype: np.dtype[Any]) -> Node | None:
    """The node of ``one @ other``; None where it is better computed by itself."""
    if one.ndim > 2 or other.ndim > 2:
        return None
    # Rows, what is summed over, columns.
    extents = (*one.shape, *(other.shape[1:] or ()))
    if min(extents) > _SHORT:
        return None
    if 0 in extents:
        shape = (*one.shape[:-1], *(other.shape[1:] or ()))
        zeros = np.broadcast_to(np.zeros((), dtype), shape)
        return Leaf.of(MemorySource(zeros), View.whole(shape))
    a, left = _factor(one, "k" if one.ndim == 1 else "mk")
    b, right = _factor(other, "k" if other.ndim == 1 else "kn")
    result = ("m" if one.ndim > 1 else "") + ("n" if other.ndim > 1 else "")
    return Contract.of(_cast(a, dtype), _cast(b, dtype), (left, right), result)


def _factor(array: Array, labels: str) -> tuple[Node, str]:
    """A factor, and its labels: a transposed one is that by its labels, and not moved."""
    view = array._view
    straight = view.straight()
    if straight.is_whole and not any(isinstance(a, NewAxis) for a in view.axes):
        order = [axis for axis in view.axes if isinstance(axis, int)]
        own = "".join(label for _, label in sorted(zip(order, labels, strict=True)))
        return node_of(Array(array._source, straight)), own
    return node_of(array), labels


def _cast(node: Node, dtype: np.dtype[Any]) -> Node:
    return node if node.dtype == dtype else Map.of(Cast(), [node], dtype)


def array_of(node: Node) -> Array:
    """The array that a node is."""
    if isinstance(node, Leaf):
        return Array(node.source, node.view)
    if node.size == 0:
        return Array(MemorySource(np.empty(node.shape, node.dtype)), View.whole(node.shape))
    source = ExpressionSource(node)
    return Array(source, View.whole(node.shape))


def argument(x: Any) -> Any:
    """What takes part in an expression: a node, or a Python number."""
    if isinstance(x, Array):
        return node_of(x)
    if isinstance(x, bool | int | float | complex) and type(x) in (bool, int, float, complex):
        return x
    array = np.asarray(x)
    if array.dtype.kind not in "biufc":
        raise InvalidTypeError(f"elements of type {array.dtype} do not take part in expressions")
    return Leaf.of(MemorySource(array), View.whole(array.shape))


def mapped(function: Function, arguments: Sequence[Any], dtype: np.dtype[Any]) -> Array:
    """The array of a function of elements."""
    return array_of(Map.of(function, arguments, dtype))


def ufunc_dtypes(
    ufunc: np.ufunc, arguments: Sequence[Any], **options: Any
) -> tuple[np.dtype[Any], ...]:
    """The types that NumPy computes in: of the operands, then of the results."""
    kinds = [a.dtype if isinstance(a, Node) else type(a) for a in arguments]
    try:
        return ufunc.resolve_dtypes((*kinds, *(None,) * ufunc.nout), **options)
    except TypeError as error:
        raise InvalidTypeError(str(error)) from None


def applied(ufunc: np.ufunc, inputs: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What a call of a ufunc gives."""
    options = dict(kwargs)
    where = options.pop("where", True)
    out = options.pop("out", None)
    options = {k: v for k, v in options.items() if v is not None}
    if ufunc.signature is not None:
        raise UnsupportedError(f"numpy.{ufunc.__name__} is not supported in this version")
    arguments = [argument(x) for x in inputs]
    resolving = {k: v for k, v in options.items() if k in ("casting",)}
    if "dtype" in options:
        resolving["signature"] = (None,) * ufunc.nin + (np.dtype(options["dtype"]),) * ufunc.nout
        options["dtype"] = np.dtype(options["dtype"])
    dtypes = ufunc_dtypes(ufunc, arguments, **resolving)[ufunc.nin :]
    try:
        np.broadcast_shapes(*(a.shape for a in arguments if isinstance(a, Node)))
    except ValueError as error:
        raise InvalidArgumentError(str(error)) from None
    pairs = tuple(sorted(options.items()))
    outs = out or (None,) * ufunc.nout
    results = [
        _placed(_part(ufunc, i, pairs, arguments, dtype, where, outs[i]), outs[i])
        for i, dtype in enumerate(dtypes)
    ]
    return results[0] if ufunc.nout == 1 else tuple(results)


def _part(
    ufunc: np.ufunc,
    output: int,
    options: tuple[tuple[str, Any], ...],
    arguments: Sequence[Any],
    dtype: np.dtype[Any],
    where: Any,
    out: Any,
) -> Array:
    if where is True:
        return array_of(Map.of(Apply(ufunc, output, options), arguments, dtype))
    # What NumPy leaves as it was is zero, where there was nothing.
    other = argument(np.zeros((), dtype) if out is None else out)
    mask = argument(np.asarray(where) if not isinstance(where, Array) else where)
    if mask.dtype != np.bool_:
        raise InvalidTypeError(f"where= must be of booleans, not of {mask.dtype}")
    function = ApplyWhere(ufunc, output, options)
    return array_of(Map.of(function, [mask, other, *arguments], dtype))


def _placed(result: Array, out: Any) -> Array:
    if out is None:
        return result
    if not isinstance(out, Array):
        raise InvalidTypeError("out= must be an outcrop.Array")
    if isinstance(out._source, ComputedSource):
        # What is not computed cannot be changed: the name stands for the new one from now on.
        return result.astype(out.dtype) if result.dtype != out.dtype else result
    out[...] = result
    return out
