"""Elementwise functions, by the names of the Python array API standard.

Each is NumPy's ufunc of that name, or of the older one, on arrays that need not fit in memory:
nothing is computed before it is asked for. At least one of the operands, which broadcast, is an
`outcrop.Array`, or becomes one; options are those of the ufunc: ``where``, ``dtype``, ``casting``,
``out``. Shape, dtype, and what is computed, are NumPy's.
"""

from typing import Any

import numpy as np

from outcrop.array_api.dispatch import ufunc
from outcrop.arrays.array import Array

__all__ = [
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
    "log1p",
    "log2",
    "log10",
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


def _applied(which: np.ufunc, *operands: Any, **options: Any) -> Array:
    found: Array = ufunc(which, "__call__", operands, options)
    return found


def abs(x: Any, /, **options: Any) -> Array:
    """Absolute values: ``numpy.absolute`` of elements."""
    return _applied(np.absolute, x, **options)


def acos(x: Any, /, **options: Any) -> Array:
    """Inverse cosines: ``numpy.arccos`` of elements."""
    return _applied(np.arccos, x, **options)


def acosh(x: Any, /, **options: Any) -> Array:
    """Inverse hyperbolic cosines: ``numpy.arccosh`` of elements."""
    return _applied(np.arccosh, x, **options)


def add(x1: Any, x2: Any, /, **options: Any) -> Array:
    """Sums: ``numpy.add`` of elements."""
    return _applied(np.add, x1, x2, **options)


def asin(x: Any, /, **options: Any) -> Array:
    """Inverse sines: ``numpy.arcsin`` of elements."""
    return _applied(np.arcsin, x, **options)


def asinh(x: Any, /, **options: Any) -> Array:
    """Inverse hyperbolic sines: ``numpy.arcsinh`` of elements."""
    return _applied(np.arcsinh, x, **options)


def atan(x: Any, /, **options: Any) -> Array:
    """Inverse tangents: ``numpy.arctan`` of elements."""
    return _applied(np.arctan, x, **options)


def atan2(x1: Any, x2: Any, /, **options: Any) -> Array:
    """Angles of points, x1 over x2: ``numpy.arctan2`` of elements."""
    return _applied(np.arctan2, x1, x2, **options)


def atanh(x: Any, /, **options: Any) -> Array:
    """Inverse hyperbolic tangents: ``numpy.arctanh`` of elements."""
    return _applied(np.arctanh, x, **options)


def bitwise_and(x1: Any, x2: Any, /, **options: Any) -> Array:
    """The AND of the bits: ``numpy.bitwise_and`` of elements."""
    return _applied(np.bitwise_and, x1, x2, **options)


def bitwise_invert(x: Any, /, **options: Any) -> Array:
    """The bits inverted: ``numpy.invert`` of elements."""
    return _applied(np.invert, x, **options)


def bitwise_left_shift(x1: Any, x2: Any, /, **options: Any) -> Array:
    """The bits shifted to the left: ``numpy.left_shift`` of elements."""
    return _applied(np.left_shift, x1, x2, **options)


def bitwise_or(x1: Any, x2: Any, /, **options: Any) -> Array:
    """The OR of the bits: ``numpy.bitwise_or`` of elements."""
    return _applied(np.bitwise_or, x1, x2, **options)


def bitwise_right_shift(x1: Any, x2: Any, /, **options: Any) -> Array:
    """The bits shifted to the right: ``numpy.right_shift`` of elements."""
    return _applied(np.right_shift, x1, x2, **options)


def bitwise_xor(x1: Any, x2: Any, /, **options: Any) -> Array:
    """The XOR of the bits: ``numpy.bitwise_xor`` of elements."""
    return _applied(np.bitwise_xor, x1, x2, **options)


def ceil(x: Any, /, **options: Any) -> Array:
    """The next integers above: ``numpy.ceil`` of elements."""
    return _applied(np.ceil, x, **options)


def conj(x: Any, /, **options: Any) -> Array:
    """Complex conjugates: ``numpy.conjugate`` of elements."""
    return _applied(np.conjugate, x, **options)


def copysign(x1: Any, x2: Any, /, **options: Any) -> Array:
    """Numbers of one with the signs of the other: ``numpy.copysign`` of elements."""
    return _applied(np.copysign, x1, x2, **options)


def cos(x: Any, /, **options: Any) -> Array:
    """Cosines: ``numpy.cos`` of elements."""
    return _applied(np.cos, x, **options)


def cosh(x: Any, /, **options: Any) -> Array:
    """Hyperbolic cosines: ``numpy.cosh`` of elements."""
    return _applied(np.cosh, x, **options)


def divide(x1: Any, x2: Any, /, **options: Any) -> Array:
    """Quotients: ``numpy.divide`` of elements."""
    return _applied(np.divide, x1, x2, **options)


def equal(x1: Any, x2: Any, /, **options: Any) -> Array:
    """Whether elements are equal: ``numpy.equal`` of elements."""
    return _applied(np.equal, x1, x2, **options)


def exp(x: Any, /, **options: Any) -> Array:
    """Exponentials: ``numpy.exp`` of elements."""
    return _applied(np.exp, x, **options)


def expm1(x: Any, /, **options: Any) -> Array:
    """Exponentials less one, exact for small numbers: ``numpy.expm1`` of elements."""
    return _applied(np.expm1, x, **options)


def floor(x: Any, /, **options: Any) -> Array:
    """The next integers below: ``numpy.floor`` of elements."""
    return _applied(np.floor, x, **options)


def floor_divide(x1: Any, x2: Any, /, **options: Any) -> Array:
    """Quotients, rounded down: ``numpy.floor_divide`` of elements."""
    return _applied(np.floor_divide, x1, x2, **options)


def greater(x1: Any, x2: Any, /, **options: Any) -> Array:
    """Whether elements are greater: ``numpy.greater`` of elements."""
    return _applied(np.greater, x1, x2, **options)


def greater_equal(x1: Any, x2: Any, /, **options: Any) -> Array:
    """Whether elements are greater or equal: ``numpy.greater_equal`` of elements."""
    return _applied(np.greater_equal, x1, x2, **options)


def hypot(x1: Any, x2: Any, /, **options: Any) -> Array:
    """Hypotenuses: ``numpy.hypot`` of elements."""
    return _applied(np.hypot, x1, x2, **options)


def isfinite(x: Any, /, **options: Any) -> Array:
    """Whether elements are finite: ``numpy.isfinite`` of elements."""
    return _applied(np.isfinite, x, **options)


def isinf(x: Any, /, **options: Any) -> Array:
    """Whether elements are infinite: ``numpy.isinf`` of elements."""
    return _applied(np.isinf, x, **options)


def isnan(x: Any, /, **options: Any) -> Array:
    """Whether elements are NaN: ``numpy.isnan`` of elements."""
    return _applied(np.isnan, x, **options)


def less(x1: Any, x2: Any, /, **options: Any) -> Array:
    """Whether elements are less: ``numpy.less`` of elements."""
    return _applied(np.less, x1, x2, **options)


def less_equal(x1: Any, x2: Any, /, **options: Any) -> Array:
    """Whether elements are less or equal: ``numpy.less_equal`` of elements."""
    return _applied(np.less_equal, x1, x2, **options)


def log(x: Any, /, **options: Any) -> Array:
    """Natural logarithms: ``numpy.log`` of elements."""
    return _applied(np.log, x, **options)


def log10(x: Any, /, **options: Any) -> Array:
    """Logarithms to the base 10: ``numpy.log10`` of elements."""
    return _applied(np.log10, x, **options)


def log1p(x: Any, /, **options: Any) -> Array:
    """Logarithms of one more, exact for small numbers: ``numpy.log1p`` of elements."""
    return _applied(np.log1p, x, **options)


def log2(x: Any, /, **options: Any) -> Array:
    """Logarithms to the base 2: ``numpy.log2`` of elements."""
    return _applied(np.log2, x, **options)


def logaddexp(x1: Any, x2: Any, /, **options: Any) -> Array:
    """Logarithms of sums of exponentials: ``numpy.logaddexp`` of elements."""
    return _applied(np.logaddexp, x1, x2, **options)


def logical_and(x1: Any, x2: Any, /, **options: Any) -> Array:
    """The AND of truth values: ``numpy.logical_and`` of elements."""
    return _applied(np.logical_and, x1, x2, **options)


def logical_not(x: Any, /, **options: Any) -> Array:
    """The inverse truth values: ``numpy.logical_not`` of elements."""
    return _applied(np.logical_not, x, **options)


def logical_or(x1: Any, x2: Any, /, **options: Any) -> Array:
    """The OR of truth values: ``numpy.logical_or`` of elements."""
    return _applied(np.logical_or, x1, x2, **options)


def logical_xor(x1: Any, x2: Any, /, **options: Any) -> Array:
    """The XOR of truth values: ``numpy.logical_xor`` of elements."""
    return _applied(np.logical_xor, x1, x2, **options)


def maximum(x1: Any, x2: Any, /, **options: Any) -> Array:
    """The larger elements, NaN where there is one: ``numpy.maximum`` of elements."""
    return _applied(np.maximum, x1, x2, **options)


def minimum(x1: Any, x2: Any, /, **options: Any) -> Array:
    """The smaller elements, NaN where there is one: ``numpy.minimum`` of elements."""
    return _applied(np.minimum, x1, x2, **options)


def multiply(x1: Any, x2: Any, /, **options: Any) -> Array:
    """Products: ``numpy.multiply`` of elements."""
    return _applied(np.multiply, x1, x2, **options)


def negative(x: Any, /, **options: Any) -> Array:
    """Negatives: ``numpy.negative`` of elements."""
    return _applied(np.negative, x, **options)


def nextafter(x1: Any, x2: Any, /, **options: Any) -> Array:
    """The next numbers towards others: ``numpy.nextafter`` of elements."""
    return _applied(np.nextafter, x1, x2, **options)


def not_equal(x1: Any, x2: Any, /, **options: Any) -> Array:
    """Whether elements differ: ``numpy.not_equal`` of elements."""
    return _applied(np.not_equal, x1, x2, **options)


def positive(x: Any, /, **options: Any) -> Array:
    """The same numbers: ``numpy.positive`` of elements."""
    return _applied(np.positive, x, **options)


def pow(x1: Any, x2: Any, /, **options: Any) -> Array:
    """Powers: ``numpy.power`` of elements."""
    return _applied(np.power, x1, x2, **options)


def reciprocal(x: Any, /, **options: Any) -> Array:
    """Reciprocals: ``numpy.reciprocal`` of elements."""
    return _applied(np.reciprocal, x, **options)


def remainder(x1: Any, x2: Any, /, **options: Any) -> Array:
    """Remainders, with the sign of the divisor: ``numpy.remainder`` of elements."""
    return _applied(np.remainder, x1, x2, **options)


def sign(x: Any, /, **options: Any) -> Array:
    """Signs: ``numpy.sign`` of elements."""
    return _applied(np.sign, x, **options)


def signbit(x: Any, /, **options: Any) -> Array:
    """Whether sign bits are set: ``numpy.signbit`` of elements."""
    return _applied(np.signbit, x, **options)


def sin(x: Any, /, **options: Any) -> Array:
    """Sines: ``numpy.sin`` of elements."""
    return _applied(np.sin, x, **options)


def sinh(x: Any, /, **options: Any) -> Array:
    """Hyperbolic sines: ``numpy.sinh`` of elements."""
    return _applied(np.sinh, x, **options)


def sqrt(x: Any, /, **options: Any) -> Array:
    """Square roots: ``numpy.sqrt`` of elements."""
    return _applied(np.sqrt, x, **options)


def square(x: Any, /, **options: Any) -> Array:
    """Squares: ``numpy.square`` of elements."""
    return _applied(np.square, x, **options)


def subtract(x1: Any, x2: Any, /, **options: Any) -> Array:
    """Differences: ``numpy.subtract`` of elements."""
    return _applied(np.subtract, x1, x2, **options)


def tan(x: Any, /, **options: Any) -> Array:
    """Tangents: ``numpy.tan`` of elements."""
    return _applied(np.tan, x, **options)


def tanh(x: Any, /, **options: Any) -> Array:
    """Hyperbolic tangents: ``numpy.tanh`` of elements."""
    return _applied(np.tanh, x, **options)


def trunc(x: Any, /, **options: Any) -> Array:
    """The next integers towards zero: ``numpy.trunc`` of elements."""
    return _applied(np.trunc, x, **options)
