"""Functions of elements that NumPy has no ufunc for."""

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outcrop.array_api.manipulation_functions import where
from outcrop.array_api.statistical_functions import all as all_of
from outcrop.arrays.array import Array
from outcrop.arrays.conversion import elements_of
from outcrop.arrays.creation import asarray, of_indices
from outcrop.errors import BudgetError, InvalidArgumentError, InvalidTypeError
from outcrop.expressions.build.arrays import argument, mapped
from outcrop.expressions.graph.functions import OfNumpy
from outcrop.expressions.graph.nodes import Node
from outcrop.process.config import piece_limit
from outcrop.process.sizes import format_bytes

__all__ = [
    "allclose",
    "digitize",
    "imag",
    "interp",
    "isclose",
    "isin",
    "nan_to_num",
    "real",
    "round",
    "searchsorted",
    "tril",
    "triu",
]


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
        given[0] = argument(elements_of(given[0]))
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
    return where(np.isnan(x), nan.astype(rest.dtype, copy=False), rest)


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


def _table(values: Any) -> NDArray[Any]:
    """What every element is looked up in: in memory."""
    size = values.nbytes if isinstance(values, Array) else getattr(values, "nbytes", 0)
    _check_room(size)
    # The caller may change what is the caller's.
    found = values.compute() if isinstance(values, Array) else np.array(elements_of(values))
    _check_room(found.nbytes)
    return found


def _check_room(nbytes: int) -> None:
    if nbytes > piece_limit():
        raise BudgetError(
            f"what every element is looked up in takes {format_bytes(nbytes)}, and at most "
            f"{format_bytes(piece_limit())} of the memory budget are for that: every thread works "
            "with it; look up in parts, or raise the budget (oc.config(memory=...))",
            nbytes * 8,
        )


def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Array:
    """Whether elements are among those of `x2`, which is brought to memory, as `numpy.isin` says.

    Raises
    ------
    BudgetError
        Those of `x2` take more than an eighth of the memory budget.

    Examples
    --------
    >>> oc.isin(oc.arange(5), [1, 3]).compute()
    array([False,  True, False,  True, False])
    """
    table, inverted = _table(x2), bool(invert)
    kind = x1.dtype if isinstance(x1, Array | np.ndarray) else np.dtype(object)
    if table.size < _MANY or not {kind.kind, table.dtype.kind} <= set("biufc"):
        return each(np.isin, x1, test_elements=table, invert=inverted)
    # Sorted once, and not with the elements of every tile.
    table = np.unique(table.astype(np.promote_types(kind, table.dtype), copy=False))
    _check_room(table.nbytes)
    return each(_is_in, x1, table=table, invert=inverted)


_MANY = 64
"""So many elements are rather found in a sorted table."""


def _is_in(values: NDArray[Any], *, table: NDArray[Any], invert: bool) -> Any:
    places = np.searchsorted(table, values)
    found = table[np.minimum(places, table.size - 1, out=places)] == values
    return np.logical_not(found, out=found) if invert else found


_is_in.__name__ = "isin"


def _places(values: NDArray[Any], *, table: NDArray[Any], side: Any, sorter: Any) -> Any:
    return np.searchsorted(table, values, side, sorter)


_places.__name__ = "searchsorted"


def searchsorted(x1: Any, x2: Any, /, *, side: str = "left", sorter: Any = None) -> Array:
    """Find where elements of `x2` belong in `x1`, as `numpy.searchsorted` does.

    Parameters
    ----------
    x1 : array_like
        Of one axis, ascending; it is brought to memory.
    x2 : Array
        What is looked up.
    side : {"left", "right"}
        Before or behind those that are equal.
    sorter : array_like, optional
        Indices in whose order `x1` ascends.

    Raises
    ------
    BudgetError
        `x1` takes more than an eighth of the memory budget.

    Examples
    --------
    >>> oc.searchsorted([1, 3, 5], oc.asarray([0, 3, 9])).compute()
    array([0, 1, 3])
    """
    order = None if sorter is None else _table(sorter)
    return each(_places, x2, table=_table(x1), side=side, sorter=order)


def digitize(x: Any, bins: Any, /, right: bool = False) -> Array:
    """Tell in which interval elements lie, as `numpy.digitize` does; `bins` are brought to memory.

    Raises
    ------
    BudgetError
        The bins take more than an eighth of the memory budget.

    Examples
    --------
    >>> oc.digitize(oc.asarray([0.2, 6.4, 3.0]), [0, 1, 2.5, 4]).compute()
    array([1, 4, 3])
    """
    return each(np.digitize, x, bins=_table(bins), right=bool(right))


def _wide(table: NDArray[Any]) -> NDArray[Any]:
    return (
        table.astype(np.promote_types(table.dtype, float)) if table.dtype.kind in "biuf" else table
    )


def interp(
    x: Any, xp: Any, fp: Any, /, left: Any = None, right: Any = None, period: float | None = None
) -> Array:
    """Interpolate between points, which are brought to memory, as `numpy.interp` does.

    Raises
    ------
    BudgetError
        The points take more than an eighth of the memory budget.

    Examples
    --------
    >>> oc.interp(oc.asarray([0.5, 1.5, 9.0]), [0, 1, 2], [0, 10, 20]).compute()
    array([ 5., 15., 20.])
    """
    points = {"xp": _table(xp), "fp": _table(fp)}
    # NumPy would convert them again for every tile.
    points = {key: _wide(table) for key, table in points.items()}
    _check_room(sum(table.nbytes for table in points.values()))
    return each(np.interp, x, **points, left=left, right=right, period=period)


def _triangle(x: Any, k: int, kept: Callable[[Any, Any], Any]) -> Array:
    """Zeros where `kept` does not say so of column and row, moved by `k`."""
    array = x if isinstance(x, Array) else asarray(x)
    if array.ndim == 0:
        raise InvalidArgumentError("a triangle is of arrays with an axis at least")
    # Of a vector, NumPy makes a matrix with a row for each element.
    rows, columns = (array.shape * 2)[-2:]
    mask = of_indices(partial(_kept, kept, k), (rows, columns), bool)
    return where(mask, array, np.zeros((), array.dtype))


def _kept(kept: Callable[[Any, Any], Any], k: int, i: Any, j: Any) -> Any:
    return kept(j, i + k)


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
