"""Functions of whole lines along an axis."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outcrop.arrays.array import Array
from outcrop.expressions.build.arrays import array_of, node_of
from outcrop.expressions.graph.functions import OfLines
from outcrop.expressions.graph.gathers import Alias, Gather
from outcrop.expressions.graph.nodes import Lines, Node, Reduce, ancestors
from outcrop.expressions.graph.reductions import Last

__all__ = ["of_lines"]


def of_lines(
    name: str,
    function: Callable[..., NDArray[Any] | None],
    options: tuple[tuple[str, Any], ...],
    array: Array,
    axes: Sequence[int],
    lengths: Sequence[int] | None,
    dtype: np.dtype[Any],
    *,
    times: int = 4,
    fills: bool = False,
) -> Array:
    """What a function makes of the lines along an axis, not computed yet.

    Or of the planes along two axes, or of what lies along more.

    Parameters
    ----------
    name : str
        For people.
    function : callable
        Takes an array whose lines go along its last axes, in the order of `axes`, and gives one
        for each.
    options : tuple
        Pairs of keyword arguments, which can be compared.
    array : Array
        Whose lines.
    axes : sequence of int
        Along which.
    lengths : sequence of int or None
        Those of the lines that are made; None for one element, without the axes.
    dtype : numpy.dtype
        Their type.
    times : int
        How many times the bytes of what it is given the function takes, at most.
    fills : bool
        Whether it takes what it has to fill first, and gives nothing.
    """
    node = node_of(array)
    if not _runs_along(node, tuple(axes)):
        node = Alias.shared(node)
    ones = (1,) * len(axes)
    lines = OfLines(name, function, options, times, fills)
    made = Lines.of(lines, node, axes, lengths or ones, dtype)
    return array_of(made if lengths is not None else Reduce.of(Last(), made, tuple(axes)))


def _runs_along(node: Node, axes: tuple[int, ...]) -> bool:
    """Whether all lines that it is made of are whole along the same axes: one pass does for all."""
    below = ancestors([node])
    lines = [one for one in below if isinstance(one, Lines)]
    if not lines:
        return True
    # What is arranged otherwise in between may have them elsewhere.
    is_arranged = any(isinstance(one, Gather) for one in below)
    return not is_arranged and all((one.axes, one.ndim) == (axes, node.ndim) for one in lines)
