"""What becomes of NumPy's functions and products of arrays of ours: a table that they fill.

Each function of ours says beside its definition which one of NumPy's it stands for (`implements`);
this module knows none of them. What is neither implemented nor refused here is done in memory, if
`outcrop.arrays.numpy_bounds` tells how much it takes.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

__all__ = ["NO_BOUND", "REFUSALS", "full_name", "implementation", "implemented", "implements"]

_F = TypeVar("_F", bound=Callable[..., Any])
_implementations: dict[Callable[..., Any], Callable[..., Any]] = {}

NO_BOUND = (
    "{name} of an outcrop.Array is not supported in this version; "
    "{name} of A.compute() does it in memory, which the memory budget does not limit"
)
"""What is said of functions that take an unknown amount of memory."""

REFUSALS: dict[Callable[..., Any], str] = {
    np.apply_along_axis: NO_BOUND,
    np.apply_over_axes: NO_BOUND,
    np.busday_count: NO_BOUND,
    np.busday_offset: NO_BOUND,
    np.datetime_as_string: NO_BOUND,
    np.frombuffer: NO_BOUND,
    np.fromfile: NO_BOUND,
    np.fromfunction: NO_BOUND,
    np.fromiter: NO_BOUND,
    np.fromstring: NO_BOUND,
    np.genfromtxt: NO_BOUND,
    np.is_busday: NO_BOUND,
    np.loadtxt: NO_BOUND,
    np.piecewise: NO_BOUND,
}
"""What is said where a function is refused, whatever its arguments are."""


def full_name(function: Callable[..., Any]) -> str:
    """Return the name of one of NumPy's functions, with its module's."""
    return f"{function.__module__}.{function.__name__}"


def implements(*functions: Callable[..., Any]) -> Callable[[_F], _F]:
    """Register a function for those of NumPy's whose arguments it takes, and leave it as it is."""

    def register(own: _F) -> _F:
        for theirs in functions:
            if theirs in _implementations or theirs in REFUSALS:
                raise RuntimeError(f"{theirs.__name__} is registered twice")
            _implementations[theirs] = own
        return own

    return register


def implementation(function: Callable[..., Any]) -> Callable[..., Any] | None:
    """Return the function of ours that stands for one of NumPy's, if there is one."""
    return _implementations.get(function)


def implemented() -> frozenset[Callable[..., Any]]:
    """Return all of NumPy's functions, and products that are ufuncs, which there are ours for."""
    return frozenset(_implementations)
