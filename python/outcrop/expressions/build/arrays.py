"""Arrays as expressions, and expressions as arrays."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outcrop import _native
from outcrop.arrays import hooks
from outcrop.arrays.array import Array
from outcrop.arrays.computed import ComputedSource, Progress, Target, changes_unseen
from outcrop.arrays.conversion import elements_of, lazy_source, unmasked
from outcrop.arrays.source import ConjugateSource, MemorySource, Source
from outcrop.arrays.stored import StoreSource
from outcrop.arrays.views import NewAxis, View
from outcrop.checks import as_dtype, check_dtype
from outcrop.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    UnsupportedError,
)
from outcrop.expressions.graph.cholesky import Cholesky, CholeskyUpdate
from outcrop.expressions.graph.functions import Apply, ApplyWhere, Cast, Function
from outcrop.expressions.graph.gathers import Gather
from outcrop.expressions.graph.ldl import LDL
from outcrop.expressions.graph.nodes import Contract, Leaf, Map, Node, ancestors
from outcrop.expressions.graph.pickled import Flat, flattened, restored
from outcrop.expressions.planner import Planned, plan
from outcrop.expressions.rewrite.view_pushdown import leaf_of, viewed
from outcrop.process.operation import operation, scope

__all__ = [
    "ExpressionSource",
    "argument",
    "array_of",
    "check_out",
    "mapped",
    "node_of",
    "now",
    "placed_in",
    "ufunc_dtypes",
    "unturned",
    "with_own_memory",
]


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

    def sketch(self, path: str) -> _native.Store:
        """The result as a Zarr array at a path, for plans."""
        return self._planned.sketch(0, path)

    def run(self, output: _native.Store, progress: Progress | None, timeline: str | None) -> None:
        self._planned.run([output], progress, timeline)


class ExpressionSource(ComputedSource):
    """The elements of an expression, which are not computed yet."""

    def __init__(self, node: Node) -> None:
        super().__init__(node.shape, node.dtype)
        self.node, self.name = node, node.name
        self.leaves_zeros = isinstance(node, Cholesky | CholeskyUpdate | LDL)

    def __reduce__(self) -> tuple[Any, ...]:
        self.check_open()
        return _unpickled, (flattened(self.node),)

    @property
    def operands(self) -> tuple[Array, ...]:
        leaves = [n for n in ancestors([self.node]) if isinstance(n, Leaf)]
        return tuple(Array(leaf.source, leaf.view) for leaf in leaves)

    def plan(self, target: Target) -> "_One":
        with scope():
            return _One(plan([(resolved([self.node])[0], target)]))

    def read(self, view: View) -> NDArray[Any]:
        if view.size == 0:
            return np.empty(view.shape, self.dtype)
        if self.result is None and not view.is_whole and self.is_cheap:
            return ExpressionSource(viewed(self.node, view)).compute(None)
        return super().read(view)

    def narrowed(self, view: View) -> tuple[Source, View]:
        """An expression of the view, where this one is not computed yet."""
        if self.result is not None or view.is_whole:
            return self, view
        if view.size == 0:
            return MemorySource(np.empty(view.shape, self.dtype), owned=True), View.whole(
                view.shape
            )
        return ExpressionSource(viewed(self.node, view)), View.whole(view.shape)

    def settle(self, target: Source, view: View) -> Source:
        nodes = ancestors([self.node])
        by_element = self.is_cheap and not any(isinstance(n, Gather) for n in nodes)
        for node in nodes:
            if isinstance(node, Leaf) and node.source.same_elements(target):
                # Only what is read where it is written, element by element, is read before.
                alike = node.source.live is target and node.view == view
                if not (alike and by_element and self.result is None):
                    return self.materialized()
        return self

    @property
    def is_cheap(self) -> bool:
        """Whether a part takes a part of the work."""
        return all(isinstance(n, Map | Leaf | Gather) for n in ancestors([self.node]))


def _unpickled(flat: Flat) -> ExpressionSource:
    """The expression that was pickled."""
    return ExpressionSource(restored(flat))


def resolved(nodes: Sequence[Node]) -> list[Node]:
    """With everything that has to be computed by itself computed."""
    made: dict[int, Node] = {}
    for node in ancestors(nodes):
        if isinstance(node, Leaf) and isinstance(node.source, ComputedSource):
            made[id(node)] = leaf_of(node.source.as_operand(), node.view)
        else:
            made[id(node)] = node.with_operands([made[id(o)] for o in node.operands])
    return [made[id(node)] for node in nodes]


def with_own_memory(node: Node, most: int) -> Node | None:
    """The same of copies of the memory that others may change unseen.

    None where that has more than `most` bytes, or something else may change unseen.
    """
    made: dict[int, Node] = {}
    copies: dict[int, MemorySource] = {}
    for one in ancestors([node]):
        if not isinstance(one, Leaf):
            made[id(one)] = one.with_operands([made[id(o)] for o in one.operands])
        elif not changes_unseen(one.source):
            made[id(one)] = one
        elif isinstance(one.source, MemorySource):
            if id(one.source) not in copies:
                most -= one.source.held_bytes
                if most < 0:
                    return None
                copies[id(one.source)] = one.source.copied()
            made[id(one)] = Leaf.of(copies[id(one.source)], one.view)
        else:
            return None
    return made[id(node)]


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
        # It is looked at when it is used whether that still holds.
        return Leaf.of(source, View.whole(source.shape))
    if isinstance(source, ExpressionSource):
        return source.node
    return Leaf.of(source, View.whole(source.shape))


def product(one: Array, other: Array) -> Node:
    """The node of ``one @ other``, of matrices or vectors."""
    dtype = np.result_type(one.dtype, other.dtype)
    shape = (*one.shape[:-1], *other.shape[1:])
    if 0 in (*one.shape, *other.shape):
        zeros = np.broadcast_to(np.zeros((), dtype), shape)
        return Leaf.of(MemorySource(zeros, owned=True), View.whole(shape))
    a, left = unturned(*_factor(one, "k" if one.ndim == 1 else "mk"))
    b, right = unturned(*_factor(other, "k" if other.ndim == 1 else "kn"))
    result = ("m" if one.ndim > 1 else "") + ("n" if other.ndim > 1 else "")
    return Contract.of(_cast(a, dtype), _cast(b, dtype), (left, right), result)


def _factor(array: Array, labels: str) -> tuple[Node, str]:
    """A factor, and its labels: a transposed one is that by its labels, and not moved."""
    view = array._view
    if not any(isinstance(a, NewAxis) for a in view.axes):
        straight = view.straight()
        order = [axis for axis in view.axes if isinstance(axis, int)]
        own = "".join(label for _, label in sorted(zip(order, labels, strict=True)))
        return node_of(Array(array._source, straight)), own
    return node_of(array), labels


def unturned(node: Node, labels: str) -> tuple[Node, str]:
    """A factor, and its labels, where one that is made of what is transposed is that by its labels.

    So `Z.T.astype(t)` is the transposed `Z.astype(t)`, which may be the other factor.
    """
    if len(node.shape) != 2 or not isinstance(node, Map):
        return node, labels
    turned, seen = 0, set()
    stack: list[Node] = [node]
    while stack:
        at = stack.pop()
        # What is repeated along an axis is there either way.
        if id(at) in seen or at.shape != node.shape:
            continue
        seen.add(id(at))
        if isinstance(at, Map):
            stack += at.operands
        else:
            turned += 1 if isinstance(at, Leaf) and _is_turned(at.view) else -1
    if turned <= 0:
        return node, labels
    return viewed(node, View.whole(node.shape).transpose((1, 0))), labels[::-1]


def _is_turned(view: View) -> bool:
    axes = [axis for axis in view.axes if isinstance(axis, int)]
    return axes != sorted(axes)


def _cast(node: Node, dtype: np.dtype[Any]) -> Node:
    return node if node.dtype == dtype else Map.of(Cast(), [node], dtype)


def array_of(node: Node) -> Array:
    """The array that a node is."""
    if isinstance(node, Leaf):
        return Array(node.source, node.view)
    if node.size == 0:
        return Array(
            MemorySource(np.empty(node.shape, node.dtype), owned=True), View.whole(node.shape)
        )
    source = ExpressionSource(node)
    return Array(source, View.whole(node.shape))


@hooks.now.fill
def now(array: Array) -> Array:
    """The same elements as an expression, which means them as they are now."""
    source = array._source
    if isinstance(source, ComputedSource) or source.is_as_it_was:
        return array
    if isinstance(source, StoreSource):
        return Array(source.now(), array._view)
    return array_of(node_of(array))


@hooks.expressed.fill
def expressed(array: Array) -> Array:
    """The same elements as an expression, by which a program moves them."""
    return Array(ExpressionSource(node_of(array)))


@hooks.materialized.fill
def materialized(array: Array) -> Array:
    """The same elements, in memory or in the scratch directory."""
    return Array(ExpressionSource(node_of(array)).materialized())


@hooks.packed.fill
def packed(array: Array) -> Array:
    """A copy of some elements of a stored array, which goes with the operation that needs it."""
    source = array._source
    with operation() as running:
        found = running.results.get((id(source), array._view), (source, None))[1]
        if found is None:
            with running.making():
                found = ExpressionSource(node_of(array)).made(None)
            running.results[id(source), array._view] = source, found
    return Array(found, View.whole(array.shape))


def argument(x: Any) -> Any:
    """What takes part in an expression: a node, or a Python number."""
    if isinstance(x, Array):
        return node_of(x)
    if type(x) in (int, float, complex):
        return x
    lazy = lazy_source(x)
    if lazy is not None:
        return node_of(Array(lazy))
    array = unmasked(x)
    if array.dtype.kind not in "biufc":
        raise InvalidTypeError(f"elements of type {array.dtype} do not take part in expressions")
    # What is no array of the caller's is nobody else's.
    owned = not isinstance(x, np.ndarray) and isinstance(x, list | tuple | np.generic)
    return Leaf.of(MemorySource(array, owned=owned), View.whole(array.shape))


def mapped(function: Function, arguments: Sequence[Any], dtype: np.dtype[Any]) -> Array:
    """The array of a function of elements."""
    return array_of(Map.of(function, arguments, dtype))


def ufunc_dtypes(
    ufunc: np.ufunc, arguments: Sequence[Any], **options: Any
) -> tuple[np.dtype[Any], ...]:
    """The types of the results. NumPy is asked with no elements, and complains as it does."""
    probes = [np.empty(0, a.dtype) if isinstance(a, Node) else a for a in arguments]
    try:
        with np.errstate(all="ignore"):
            made = ufunc(*probes, **options)
    except TypeError as error:
        raise InvalidTypeError(str(error)) from None
    except ValueError as error:
        raise InvalidArgumentError(str(error)) from None
    dtypes = tuple(result.dtype for result in (made if ufunc.nout > 1 else (made,)))
    for dtype in dtypes:
        if dtype.kind not in "biufc":
            raise InvalidTypeError(f"elements of type {dtype} do not take part in expressions")
    exponent = arguments[1] if ufunc is np.power and dtypes[0].kind in "iu" else 0
    if isinstance(exponent, int) and exponent < 0:
        # NumPy complains only where there are elements.
        raise InvalidArgumentError("Integers to negative integer powers are not allowed.")
    return dtypes


def applied(ufunc: np.ufunc, inputs: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What a call of a ufunc gives."""
    options = dict(kwargs)
    where = options.pop("where", True)
    outs = options.pop("out", None) or (None,) * ufunc.nout
    if not isinstance(outs, tuple):
        outs = (outs,)
    options = {k: v for k, v in options.items() if v is not None}
    if ufunc.signature is not None:
        raise UnsupportedError(f"numpy.{ufunc.__name__} is not supported in this version")
    if "sig" in options:
        options["signature"] = options.pop("sig")
    arguments = [argument(x) for x in inputs]
    casting = options.get("casting", "same_kind")
    resolving: dict[str, Any] = {"casting": casting}
    if "dtype" in options:
        options["dtype"] = as_dtype(options["dtype"])
        resolving["signature"] = (None,) * ufunc.nin + (options["dtype"],) * ufunc.nout
    if "signature" in options:
        resolving["signature"] = options["signature"]
    dtypes = ufunc_dtypes(ufunc, arguments, **resolving)
    pairs = tuple(sorted(options.items()))
    results = [
        _part(ufunc, i, pairs, arguments, dtype, where, outs[i]) for i, dtype in enumerate(dtypes)
    ]
    placed = placed_in(outs, results, casting, inputs[0])
    return placed[0] if ufunc.nout == 1 else tuple(placed)


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
    mask = argument(elements_of(where) if not isinstance(where, Array) else where)
    if mask.dtype != np.bool_:
        raise InvalidTypeError(f"where= must be of booleans, not of {mask.dtype}")
    function = ApplyWhere(ufunc, output, options)
    return array_of(Map.of(function, [mask, other, *arguments], dtype))


def placed_in(
    outs: Sequence[Any], results: Sequence[Array], casting: Any = "unsafe", first: Any = None
) -> list[Any]:
    """Results, written to what ``out=`` says, where it says something.

    Parameters
    ----------
    outs : sequence of Array, numpy.ndarray or None
        One for each result.
    results : sequence of Array
        What is written.
    casting : str
        Which conversions are allowed, as NumPy names them.
    first : Array, optional
        An operand that may be given as `out` though it is not computed yet, as ``a += b`` does:
        the name stands for the result from then on.
    """
    placed: list[Any] = list(results)
    written = []
    for i, (out, result) in enumerate(zip(outs, results, strict=True)):
        if out is None:
            continue
        check_out(out)
        if not np.can_cast(result.dtype, out.dtype, casting):
            raise InvalidTypeError(
                f"elements of type {result.dtype} cannot be cast to those of out=, {out.dtype}, "
                f"with casting rule {casting!r}"
            )
        if not _broadcasts(result.shape, out.shape):
            raise InvalidArgumentError(
                f"out= of shape {out.shape} does not take a result of shape {result.shape}"
            )
        if isinstance(out, Array) and (
            isinstance(out._source, ComputedSource) or out._source.is_as_it_was
        ):
            if out is not first:
                raise InvalidArgumentError(
                    "out= is not computed yet, and what is not computed cannot be changed; take "
                    "what the function returns"
                )
            placed[i] = result if result.dtype == out.dtype else result.astype(out.dtype)
            continue
        placed[i] = out
        if isinstance(out, np.ndarray):
            check_dtype(out.dtype, swapped=True)
            out = Array(MemorySource(out))
        written.append((out, result))
    if len(written) > 1:
        # All are computed before the first one is written, which others may be made from.
        written = [
            (out, Array(result._source.materialized(), result._view))
            if isinstance(result._source, ComputedSource)
            else (out, result)
            for out, result in written
        ]
    for target, result in written:
        target[...] = result
    return placed


def check_out(out: Any) -> None:
    """Raise where nothing can be written to what ``out=`` says."""
    if not isinstance(out, Array | np.ndarray):
        raise InvalidTypeError(
            f"out= is an outcrop.Array or a numpy.ndarray, not {type(out).__name__}"
        )


def _broadcasts(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, wanted) == wanted
    except ValueError:
        return False
