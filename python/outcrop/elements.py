"""Functions of elements that NumPy has no ufunc for."""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from outcrop.array import Array
from outcrop.creation import asarray, fromfunction
from outcrop.errors import InvalidArgumentError, InvalidTypeError
from outcrop.expressions.arrays import argument, mapped
from outcrop.expressions.functions import OfNumpy
from outcrop.expressions.nodes import Node
from outcrop.manipulation import where
from outcrop.statistical import all as all_of

__all__ = ["allclose", "imag", "isclose", "nan_to_num", "real", "round", "tril", "triu"]


def each(function: Callable[..., Any], *operands: Any, **options: Any) -> Array:
    """The array of a function of NumPy's, whose elements depend on those of its operands alone."""
    given = [argument(x) for x in operands]
    probes = [np.empty(0, x.dtype) if isinstance(x, Node) else x for x in given]
    try:
        dtype = function(*probes, **options).dtype
    except TypeError as error:
        raise InvalidTypeError(str(error)) from None
    except ValueError as error:
        raise InvalidArgumentError(str(error)) from None
    if not any(isinstance(x, Node) for x in given):
        given[0] = argument(np.asarray(given[0]))
    return mapped(OfNumpy(function, tuple(options.items())), given, dtype)


def round(x: Any, /, decimals: int = 0) -> Array:
    """Round elements to so many decimals, halves to even, as `numpy.round` does.

    Examples
    --------
    >>> oc.round(oc.asarray([0.5, 1.5, 2.625]), 2).compute()
    array([0.5 , 1.5 , 2.62])
    """
    return each(np.round, x, decimals=decimals)


def real(x: Any, /) -> Array:
    """The real parts of the elements, as `numpy.real` gives them.

    Examples
    --------
    >>> oc.real(oc.asarray([1 + 2j, 3 - 4j])).compute()
    array([1., 3.])
    """
    return each(np.real, x)


def imag(x: Any, /) -> Array:
    """The imaginary parts of the elements, as `numpy.imag` gives them.

    Examples
    --------
    >>> oc.imag(oc.asarray([1 + 2j, 3 - 4j])).compute()
    array([ 2., -4.])
    """
    return each(np.imag, x)


def nan_to_num(
    x: Any, /, *, nan: Any = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Array:
    """Put numbers in place of NaN and of infinities, as `numpy.nan_to_num` does.

    Examples
    --------
    >>> oc.nan_to_num(oc.asarray([np.nan, 1.5, np.inf]), posinf=9).compute()
    array([0. , 1.5, 9. ])
    """
    if not isinstance(nan, Array):
        return each(np.nan_to_num, x, nan=nan, posinf=posinf, neginf=neginf)
    # Several numbers, or one that is not computed yet.
    rest = each(np.nan_to_num, x, posinf=posinf, neginf=neginf)
    return where(np.isnan(x), nan.astype(rest.dtype), rest)


def isclose(
    a: Any, b: Any, /, *, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False
) -> Array:
    """Whether elements are equal within a tolerance, as `numpy.isclose` says.

    Examples
    --------
    >>> oc.isclose(oc.asarray([1.0, 2.0]), [1.0, 2.1]).compute()
    array([ True, False])
    """
    return each(np.isclose, a, b, rtol, atol, equal_nan=bool(equal_nan))


def allclose(
    a: Any, b: Any, /, *, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False
) -> bool:
    """Whether all elements are equal within a tolerance, as `numpy.allclose` says. It computes.

    Examples
    --------
    >>> oc.allclose(oc.asarray([1.0, 2.0]), [1.0, 2.0 + 1e-9])
    True
    """
    return bool(all_of(isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)))


def _triangle(x: Any, k: int, kept: Callable[[Any, Any], Any]) -> Array:
    """Zeros where `kept` does not say so of column and row, moved by `k`."""
    array = x if isinstance(x, Array) else asarray(x)
    if array.ndim == 0:
        raise InvalidArgumentError("a triangle is of arrays with an axis at least")
    # Of a vector, NumPy makes a matrix with a row for each element.
    rows, columns = (array.shape * 2)[-2:]
    mask = fromfunction(lambda i, j: kept(j, i + k), (rows, columns), bool)
    return where(mask, array, np.zeros((), array.dtype))


def tril(x: Any, /, *, k: int = 0) -> Array:
    """Keep what is on and below a diagonal of the last two axes, as `numpy.tril` does.

    Examples
    --------
    >>> oc.tril(oc.ones((2, 3)), k=1).compute()
    array([[1., 1., 0.],
           [1., 1., 1.]])
    """
    return _triangle(x, k, operator.le)


def triu(x: Any, /, *, k: int = 0) -> Array:
    """Keep what is on and above a diagonal of the last two axes, as `numpy.triu` does.

    Examples
    --------
    >>> oc.triu(oc.ones((2, 3)), k=1).compute()
    array([[0., 1., 1.],
           [0., 0., 1.]])
    """
    return _triangle(x, k, operator.ge)
