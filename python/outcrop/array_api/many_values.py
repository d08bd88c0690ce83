"""The different elements of an array that are too many for memory: found by external sorting.

Equal elements follow one another in what is sorted, and those of the lowest places come first.
"""

from typing import NamedTuple

import numpy as np

from outcrop.array_api.families import array_like
from outcrop.array_api.indexing_functions import nonzero, take_along_axis
from outcrop.array_api.manipulation_functions import concat, reshape
from outcrop.array_api.sorting_functions import argsort, sort
from outcrop.array_api.statistical_functions import cumulative_sum
from outcrop.arrays.array import Array

__all__ = ["Values", "different", "places"]


class Values(NamedTuple):
    """Different elements.

    Attributes
    ----------
    values : Array
        These, ascending; each NaN is one.
    counts : Array
        How often each is there.
    is_first : Array
        Of all elements, sorted: whether they are the first of equal ones.
    """

    values: Array
    counts: Array
    is_first: Array


def different(x: Array) -> Values:
    """The different elements of an array that has some; sorted, and chosen, to scratch."""
    elements = sort(reshape(x, (-1,)))
    is_first = concat([array_like(np.ones(1, bool)), elements[1:] != elements[:-1]])
    (starts,) = nonzero(is_first)
    ends = concat([starts[1:], array_like(np.array([x.size]))])
    return Values(elements[is_first], ends - starts, is_first)


def places(x: Array, found: Values) -> tuple[Array, Array]:
    """Where each of the different elements is first, and which of them each element is."""
    order = argsort(reshape(x, (-1,)))
    which = cumulative_sum(found.is_first, dtype=np.intp) - 1
    # Where each element has come to when all were sorted.
    ranks = argsort(order)
    return order[found.is_first], reshape(take_along_axis(which, ranks, axis=0), x.shape)
