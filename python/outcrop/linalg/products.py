"""Sums of products: `einsum`, `tensordot`, `vecdot` and `outer`, as NumPy has them."""

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from outcrop.array_api.creation_functions import zeros
from outcrop.array_api.manipulation_functions import moveaxis, stack
from outcrop.arrays.array import Array
from outcrop.arrays.creation import asarray
from outcrop.arrays.registry import implements
from outcrop.arrays.views import View
from outcrop.errors import InvalidArgumentError
from outcrop.expressions.build.arrays import array_of, node_of, product, unturned
from outcrop.expressions.build.reductions import axes_of, cast
from outcrop.expressions.graph.functions import Apply
from outcrop.expressions.graph.nodes import Contract, Map, Node, Reduce
from outcrop.expressions.graph.reductions import UfuncReduction
from outcrop.expressions.graph.subscripts import letters, parsed
from outcrop.expressions.rewrite.point_pushdown import on_diagonal
from outcrop.expressions.rewrite.view_pushdown import viewed

__all__ = ["einsum", "outer", "tensordot", "vecdot"]

_LONG = 2048
"""Products in a stack, all of whose extents are longer, are products of matrices one by one."""


def einsum(subscripts: str, /, *operands: Any) -> Array:
    """Sum products of elements, as `numpy.einsum` does.

    Operands are taken two by two, in the order that takes the fewest operations.

    Parameters
    ----------
    subscripts : str
        Such as ``"ij,jk->ik"``: a letter for each axis of each operand, and for those of the
        result. ``...`` stands for axes that broadcast. Of an operand that has a letter twice, the
        diagonal is taken. Without ``->``, the result has the axes of ``...``, and the letters that
        occur once, in alphabetical order.
    *operands : Array or numpy.ndarray
        As many as there are groups of letters.

    Returns
    -------
    Array
        Not computed yet.

    Raises
    ------
    InvalidArgumentError
        The subscripts make no sense, or not for these shapes.

    Examples
    --------
    >>> A = oc.fromfunction(lambda i, j: i + j, (3, 4), "float64")
    >>> oc.einsum("ij,kj->ik", A, A).shape
    (3, 3)
    """
    nodes = [node_of(x if isinstance(x, Array) else asarray(x)) for x in operands]
    if not nodes:
        raise InvalidArgumentError("einsum: no operands")
    inputs, result = parsed(subscripts, [node.shape for node in nodes])
    straight = [_straight(node, own) for node, own in zip(nodes, inputs, strict=True)]
    nodes, inputs = [node for node, _ in straight], [own for _, own in straight]
    extents = _extents(inputs, nodes)
    dtype = np.result_type(*(node.dtype for node in nodes))
    if any(node.size == 0 for node in nodes):
        return zeros(tuple(extents[c] for c in result), dtype=dtype)
    # As for means: numbers of 16 bits are too short to add up in.
    loop = np.dtype(np.float32) if dtype == np.float16 else dtype
    terms = [
        _unrepeated(cast(node, loop), labels, extents)
        for node, labels in zip(nodes, inputs, strict=True)
    ]
    terms = [unturned(*_summed_alone(i, terms, result)) for i in range(len(terms))]
    path = np.einsum_path(
        f"{','.join(labels for _, labels in terms)}->{result}",
        *(np.broadcast_to(np.float64(0), node.shape) for node, _ in terms),
        optimize="optimal" if len(nodes) < 7 else "greedy",
    )[0][1:]
    for step in path:
        taken = [terms[i] for i in step]
        terms = [t for i, t in enumerate(terms) if i not in step]
        term = taken[0]
        for k, other in enumerate(taken[1:]):
            rest = {c for _, labels in (*terms, *taken[k + 2 :]) for c in labels} | set(result)
            term = _pair(term, other, rest)
        terms.append(term)
    ((node, labels),) = terms
    order = tuple(labels.index(c) for c in result)
    return array_of(cast(viewed(node, View.whole(node.shape).transpose(order)), dtype))


def _straight(node: Node, labels: str) -> tuple[Node, str]:
    """An operand with each label once: of axes with the same one, the diagonal."""
    for label in dict.fromkeys(labels):
        axes = [axis for axis, own in enumerate(labels) if own == label]
        extents = {node.shape[axis] for axis in axes}
        if len(extents) > 1:
            counts = " and ".join(map(str, sorted(extents)))
            raise InvalidArgumentError(f"einsum: the axes {label!r} have {counts} elements")
        if len(axes) > 1:
            node = on_diagonal(node, axes, [0] * len(axes), *extents)
            labels = label + "".join(c for c in labels if c != label)
    return node, labels


def _extents(inputs: Sequence[str], nodes: Sequence[Node]) -> dict[str, int]:
    """How many indices each label has: an axis of one element is repeated."""
    extents: dict[str, int] = {}
    for labels, node in zip(inputs, nodes, strict=True):
        for label, n in zip(labels, node.shape, strict=True):
            known = extents.get(label, 1)
            if 1 not in (n, known) and n != known:
                raise InvalidArgumentError(f"einsum: axis {label!r} has {known} elements, and {n}")
            extents[label] = n if known == 1 else known
    return extents


def _unrepeated(node: Node, labels: str, extents: dict[str, int]) -> tuple[Node, str]:
    """An operand without the axes of one element that others have more of."""
    alone = [n == 1 and extents[c] != 1 for c, n in zip(labels, node.shape, strict=True)]
    key = tuple(0 if drop else slice(None) for drop in alone)
    kept = "".join(c for c, drop in zip(labels, alone, strict=True) if not drop)
    return viewed(node, View.whole(node.shape).index(key)), kept


def _summed_alone(i: int, terms: Sequence[tuple[Node, str]], result: str) -> tuple[Node, str]:
    """A term without the axes that nothing else has."""
    node, labels = terms[i]
    others = {c for k, (_, own) in enumerate(terms) if k != i for c in own} | set(result)
    return _reduced(node, labels, others)


def _reduced(node: Node, labels: str, kept: set[str]) -> tuple[Node, str]:
    axes = [a for a, c in enumerate(labels) if c not in kept]
    if not axes:
        return node, labels
    ufunc = np.logical_or if node.dtype == np.bool_ else np.add
    summed = Reduce.of(UfuncReduction(ufunc, node.dtype), node, axes)
    return summed, "".join(c for c in labels if c in kept)


def _pair(one: tuple[Node, str], other: tuple[Node, str], kept: set[str]) -> tuple[Node, str]:
    (a, left), (b, right) = one, other
    a, left = _reduced(a, left, kept | set(right))
    b, right = _reduced(b, right, kept | set(left))
    batch = [c for c in left if c in right and c in kept]
    rows = [c for c in left if c not in right]
    cols = [c for c in right if c not in left]
    summed = [c for c in left if c in right and c not in kept]
    if summed and (rows or cols):
        result = "".join((*batch, *rows, *cols))
        if batch and len(summed) == len(rows) == len(cols) == 1:
            extents = dict(zip(left + right, a.shape + b.shape, strict=True))
            if min(extents[c] for c in (*rows, *cols, *summed)) > _LONG:
                first = _ordered(a, left, (*batch, *rows, *summed))
                second = _ordered(b, right, (*batch, *summed, *cols))
                return _one_by_one(first, second), result
        return Contract.of(a, b, (left, right), result), result
    # No product of matrices: one of elements, which may be summed over.
    every = "".join((*batch, *summed, *rows, *cols))
    views = []
    for node, labels in ((a, left), (b, right)):
        order = View.whole(node.shape).transpose([labels.index(c) for c in every if c in labels])
        key = tuple(slice(None) if c in labels else None for c in every)
        views.append(viewed(node, order.index(key)))
    return _reduced(Map.of(Apply(np.multiply), views, a.dtype), every, kept)


def _ordered(node: Node, labels: str, order: Sequence[str]) -> Array:
    return array_of(node).transpose([labels.index(c) for c in order])


def _one_by_one(a: Array, b: Array) -> Node:
    """Products of large matrices, each of which is computed by itself."""
    if a.ndim == 2:
        return product(a, b)
    return node_of(stack([array_of(_one_by_one(x, y)) for x, y in zip(a, b, strict=True)]))


def stacked_matmul(a: Array, b: Array) -> Array:
    """Multiply stacks of matrices, which broadcast; a vector is a matrix for all of them."""
    left = "k" if a.ndim == 1 else "...mk"
    right = "k" if b.ndim == 1 else "...kn"
    result = f"...{'m' * (a.ndim > 1)}{'n' * (b.ndim > 1)}"
    return einsum(f"{left},{right}->{result}", a, b)


def dot(a: Any, b: Any, /) -> Array:
    """Multiply as `numpy.dot` does.

    Examples
    --------
    >>> oc.dot(oc.asarray([1, 2]), oc.asarray([3, 4])).compute()
    array(11)
    """
    one, other = (x if isinstance(x, Array) else asarray(x) for x in (a, b))
    if not (one.ndim and other.ndim):
        return array_of(node_of(np.multiply(one, other)))  # type: ignore[arg-type]
    if max(one.ndim, other.ndim) <= 2:
        product: Array = one @ other
        return product
    return tensordot(one, other, axes=(-1, max(other.ndim - 2, 0)))


@implements(np.inner)
def inner(a: Any, b: Any, /) -> Array:
    """Sum products over the last axes, as `numpy.inner` does.

    Examples
    --------
    >>> oc.inner(oc.asarray([[1, 2], [3, 4]]), oc.asarray([5, 6])).compute()
    array([17, 39])
    """
    one, other = (x if isinstance(x, Array) else asarray(x) for x in (a, b))
    if not (one.ndim and other.ndim):
        return array_of(node_of(np.multiply(one, other)))  # type: ignore[arg-type]
    return tensordot(one, other, axes=(-1, -1))


@implements(np.linalg.tensordot)
def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Array:
    """Sum products over axes of two arrays, as `numpy.tensordot` does.

    Examples
    --------
    >>> A = oc.fromfunction(lambda i, j, k: i + j + k, (2, 3, 4), "float64")
    >>> oc.tensordot(A, A, axes=([1, 2], [1, 2])).shape
    (2, 2)
    """
    a, b = (x if isinstance(x, Array) else asarray(x) for x in (x1, x2))
    if isinstance(axes, int | np.integer):
        count = operator.index(axes)
        if not 0 <= count <= min(a.ndim, b.ndim):
            raise InvalidArgumentError(f"tensordot: there are no {count} axes to sum over")
        pairs = (tuple(range(a.ndim - count, a.ndim)), tuple(range(count)))
    else:
        left, right = axes
        pairs = (axes_of(a.ndim, left), axes_of(b.ndim, right))
    if len(pairs[0]) != len(pairs[1]):
        raise InvalidArgumentError("shape-mismatch for sum")
    labels = letters(a.ndim + b.ndim, "")
    first, second = labels[: a.ndim], labels[a.ndim :]
    for i, j in zip(*pairs, strict=True):
        if a.shape[i] != b.shape[j]:
            raise InvalidArgumentError("shape-mismatch for sum")
        second[j] = first[i]
    summed = {first[i] for i in pairs[0]}
    result = [c for c in (*first, *second) if c not in summed]
    return einsum(f"{''.join(first)},{''.join(second)}->{''.join(result)}", a, b)


@implements(np.linalg.vecdot)
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Array:
    """Sum products of the conjugates of `x1` with `x2` along an axis, as `numpy.vecdot` does.

    The other axes broadcast.

    Examples
    --------
    >>> A = oc.asarray([[1.0, 2.0], [3.0, 4.0]])
    >>> oc.vecdot(A, A).compute()
    array([ 5., 25.])
    """
    a, b = (x if isinstance(x, Array) else asarray(x) for x in (x1, x2))
    (one,), (other,) = axes_of(a.ndim, axis), axes_of(b.ndim, axis)
    if a.shape[one] != b.shape[other]:
        raise InvalidArgumentError(
            f"vecdot: shapes {a.shape} and {b.shape} do not match along axis {axis}"
        )
    given = np.conjugate(a) if a.dtype.kind == "c" else a
    product = moveaxis(given, one, -1) * moveaxis(b, other, -1)
    result: Array = product.sum(-1, dtype=np.result_type(a.dtype, b.dtype))
    return result


@implements(np.linalg.outer)
def outer(x1: Any, x2: Any, /) -> Array:
    """Multiply each element of a vector with each one of another.

    Examples
    --------
    >>> oc.outer(oc.asarray([1, 2]), oc.asarray([3, 4])).compute()
    array([[3, 4],
           [6, 8]])
    """
    a, b = (x if isinstance(x, Array) else asarray(x) for x in (x1, x2))
    if a.ndim != 1 or b.ndim != 1:
        raise InvalidArgumentError("outer is for arrays of one axis")
    result: Array = a[:, None] * b
    return result
