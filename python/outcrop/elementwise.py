"""Elementwise functions, by the names of the Python array API standard.

Each is NumPy's ufunc of that name, or of the older one, on arrays that need not fit in memory:
nothing is computed before it is asked for.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

_NAMES = [
    "abs",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "ceil",
    "conj",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "equal",
    "exp",
    "expm1",
    "floor",
    "floor_divide",
    "greater",
    "greater_equal",
    "hypot",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "log",
    "log10",
    "log1p",
    "log2",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "nextafter",
    "not_equal",
    "positive",
    "pow",
    "reciprocal",
    "remainder",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
]


def _function(name: str) -> Callable[..., Any]:
    ufunc = getattr(np, name)

    def function(*operands: Any, **options: Any) -> Any:
        # Imported late: expressions are arrays themselves.
        from outcrop.expressions import protocol

        return protocol.ufunc(ufunc, "__call__", operands, options)

    function.__name__ = function.__qualname__ = name
    function.__module__ = "outcrop"
    given = "x" if ufunc.nin == 1 else "x1, x2"
    function.__doc__ = f"""``numpy.{ufunc.__name__}`` of arrays that need not fit in memory.

    Parameters
    ----------
    {given} : Array, numpy.ndarray or number
        At least one of the operands, which broadcast, is an `Array`, or becomes one.
    **options
        As for ``numpy.{ufunc.__name__}``: ``where``, ``dtype``, ``casting``.

    Returns
    -------
    Array
        Not computed yet. Shape, dtype, and what is computed, are NumPy's.
    """
    return function


_made = {name: _function(name) for name in _NAMES}
globals().update(_made)
__all__ = list(_made)
