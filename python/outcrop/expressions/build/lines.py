"""Functions of whole lines along an axis."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outcrop.arrays.array import Array
from outcrop.expressions.build.arrays import array_of, node_of
from outcrop.expressions.graph.functions import OfLines
from outcrop.expressions.graph.gathers import Alias
from outcrop.expressions.graph.nodes import Lines, Reduce, ancestors
from outcrop.expressions.graph.reductions import Last

__all__ = ["of_lines"]


def of_lines(
    name: str,
    function: Callable[..., NDArray[Any]],
    options: tuple[tuple[str, Any], ...],
    array: Array,
    axes: Sequence[int],
    lengths: Sequence[int] | None,
    dtype: np.dtype[Any],
    *,
    times: int = 4,
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
    """
    node = node_of(array)
    if any(isinstance(one, Lines) for one in ancestors([node])):
        # Those may be whole along another axis.
        node = Alias.shared(node)
    ones = (1,) * len(axes)
    made = Lines.of(OfLines(name, function, options, times), node, axes, lengths or ones, dtype)
    return array_of(made if lengths is not None else Reduce.of(Last(), made, tuple(axes)))
