"""Sums of products: `einsum`, `tensordot`, `vecdot` and `outer`, as NumPy has them."""

import itertools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from outcrop.array import Array
from outcrop.constants import zeros
from outcrop.creation import asarray
from outcrop.errors import InvalidArgumentError, UnsupportedError
from outcrop.expressions.arrays import array_of, node_of
from outcrop.expressions.functions import Apply
from outcrop.expressions.nodes import Contract, Map, Node, Reduce
from outcrop.expressions.pushing import viewed
from outcrop.expressions.reducing import axes_of, cast
from outcrop.expressions.reductions import UfuncReduction
from outcrop.views import View

__all__ = ["einsum", "outer", "tensordot", "vecdot"]


def einsum(subscripts: str, /, *operands: Any) -> Array:
    """Sum products of elements, as `numpy.einsum` does.

    Operands are taken two by two, in the order that takes the fewest operations.

    Parameters
    ----------
    subscripts : str
        Such as ``"ij,jk->ik"``: a letter for each axis of each operand, and for those of the
        result. No operand has a letter twice. Without ``->``, the result has the letters that occur
        once, in alphabetical order.
    *operands : Array or numpy.ndarray
        As many as there are groups of letters.

    Returns
    -------
    Array
        Not computed yet.

    Examples
    --------
    >>> A = oc.fromfunction(lambda i, j: i + j, (3, 4), "float64")
    >>> oc.einsum("ij,kj->ik", A, A).shape
    (3, 3)
    """
    nodes = [node_of(x if isinstance(x, Array) else asarray(x)) for x in operands]
    inputs, result = _parsed(subscripts, nodes)
    dtype = np.result_type(*(node.dtype for node in nodes))
    if any(node.size == 0 for node in nodes):
        extents: dict[str, int] = {}
        for own, node in zip(inputs, nodes, strict=True):
            extents |= dict(zip(own, node.shape, strict=True))
        return zeros(tuple(extents[c] for c in result), dtype=dtype)
    terms = [(cast(node, dtype), labels) for node, labels in zip(nodes, inputs, strict=True)]
    terms = [_summed_alone(i, terms, result) for i in range(len(terms))]
    path = np.einsum_path(
        subscripts.replace(" ", ""),
        *(np.broadcast_to(np.float64(0), node.shape) for node in nodes),
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
    node, labels = terms[0]
    if len(terms) > 1:
        raise AssertionError("a path that does not end")
    order = tuple(labels.index(c) for c in result)
    return array_of(viewed(node, View.whole(node.shape).transpose(order)))


def _parsed(subscripts: str, nodes: Sequence[Node]) -> tuple[list[str], str]:
    text = subscripts.replace(" ", "")
    if "." in text:
        raise UnsupportedError("einsum with '...' is not supported in this version")
    given, arrow, result = text.partition("->")
    inputs = given.split(",")
    if len(inputs) != len(nodes) or not nodes:
        raise InvalidArgumentError(
            f"einsum: {len(inputs)} groups of letters for {len(nodes)} operands"
        )
    letters = "".join(inputs)
    if not arrow:
        result = "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    extents: dict[str, int] = {}
    for labels, node in zip(inputs, nodes, strict=True):
        if not (labels.isalpha() or not labels) or len(labels) != node.ndim:
            raise InvalidArgumentError(
                f"einsum: {labels!r} does not name the axes of an array of shape {node.shape}"
            )
        if len(set(labels)) != len(labels):
            raise UnsupportedError(
                f"einsum: {labels!r} names an axis twice, which is not supported in this version"
            )
        for label, n in zip(labels, node.shape, strict=True):
            if extents.setdefault(label, n) != n:
                raise InvalidArgumentError(
                    f"einsum: axis {label!r} has {extents[label]} elements, and {n}"
                )
    if len(set(result)) != len(result) or not set(result) <= set(letters):
        raise InvalidArgumentError(f"einsum: no result can have the axes {result!r}")
    return inputs, result


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
    result = "".join((*batch, *rows, *cols))
    if any(c in left and c in right and c not in kept for c in left):
        return Contract.of(a, b, (left, right), result), result
    # Nothing is summed over: a product of elements.
    views = []
    for node, labels in ((a, left), (b, right)):
        order = View.whole(node.shape).transpose([labels.index(c) for c in result if c in labels])
        key = tuple(slice(None) if c in labels else None for c in result)
        views.append(viewed(node, order.index(key)))
    return Map.of(Apply(np.multiply), views, a.dtype), result


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
    letters = (chr(c) for c in itertools.count(ord("a")))
    first = [next(letters) for _ in range(a.ndim)]
    second = [next(letters) for _ in range(b.ndim)]
    for i, j in zip(*pairs, strict=True):
        if a.shape[i] != b.shape[j]:
            raise InvalidArgumentError("shape-mismatch for sum")
        second[j] = first[i]
    summed = {first[i] for i in pairs[0]}
    result = [c for c in (*first, *second) if c not in summed]
    if a.ndim + b.ndim > 26:
        raise UnsupportedError("tensordot of so many axes is not supported in this version")
    return einsum(f"{''.join(first)},{''.join(second)}->{''.join(result)}", a, b)


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Array:
    """Sum products of the conjugates of `x1` with `x2` along an axis, as `numpy.vecdot` does.

    Examples
    --------
    >>> A = oc.asarray([[1.0, 2.0], [3.0, 4.0]])
    >>> oc.vecdot(A, A).compute()
    array([ 5., 25.])
    """
    a, b = (x if isinstance(x, Array) else asarray(x) for x in (x1, x2))
    given = np.conjugate(a) if a.dtype.kind == "c" else a
    result: Array = (given * b).sum(axis, dtype=np.result_type(a.dtype, b.dtype))
    return result


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
