"""Functions of whole lines along an axis."""

from collections.abc import Callable
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
    axis: int,
    length: int | None,
    dtype: np.dtype[Any],
) -> Array:
    """What a function makes of the lines along an axis, not computed yet.

    Parameters
    ----------
    name : str
        For people.
    function : callable
        Takes an array whose lines go along its last axis, and gives one for each.
    options : tuple
        Pairs of keyword arguments, which can be compared.
    array : Array
        Whose lines.
    axis : int
        Along which axis.
    length : int or None
        That of the lines that are made; None for one element, without the axis.
    dtype : numpy.dtype
        Their type.
    """
    node = node_of(array)
    if any(isinstance(one, Lines) for one in ancestors([node])):
        # Those may be whole along another axis.
        node = Alias.kept(node)
    made = Lines.of(OfLines(name, function, options), node, axis, length or 1, dtype)
    return array_of(made if length is not None else Reduce.of(Last(), made, (axis,)))
