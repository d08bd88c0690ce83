"""Types of elements, by the names of the Python array API standard: NumPy's, and what is asked."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from outcrop.arrays.array import Array
from outcrop.arrays.registry import implements
from outcrop.errors import InvalidArgumentError, InvalidTypeError

__all__ = [
    "can_cast",
    "finfo",
    "iinfo",
    "isdtype",
    "result_type",
]


def _given(x: Any) -> Any:
    """The type of an array; anything else as it is."""
    return x.dtype if isinstance(x, Array) else x


@implements(np.can_cast)
def can_cast(from_: Any, to: Any, /, casting: Any = "safe") -> bool:
    """Whether elements of a type, or of an array, can be cast to another, as `numpy.can_cast` says.

    Parameters
    ----------
    from_ : dtype_like or Array
        From what.
    to : dtype_like
        To what.
    casting : {"safe", "no", "equiv", "same_kind", "unsafe"}
        What is allowed.

    Raises
    ------
    InvalidArgumentError
        There is no such rule.
    InvalidTypeError
        What is given has no type: NumPy does not tell by the value of a number.

    Examples
    --------
    >>> oc.can_cast("int32", "float64"), oc.can_cast(oc.asarray([1.5]), "int32")
    (True, False)
    """
    try:
        return bool(np.can_cast(_given(from_), _given(to), casting))
    except ValueError as error:
        raise InvalidArgumentError(str(error)) from None
    except TypeError as error:
        raise InvalidTypeError(str(error)) from None


def finfo(type: Any, /) -> "np.finfo[Any]":
    """Tell the limits of a type of floating-point numbers, as `numpy.finfo` does.

    Parameters
    ----------
    type : dtype_like or Array
        A type, real or complex, or an array of such elements.

    Returns
    -------
    numpy.finfo
        With the attributes ``bits``, ``eps``, ``max``, ``min``, ``smallest_normal`` and ``dtype``.

    Raises
    ------
    InvalidTypeError
        It is none.

    Examples
    --------
    >>> float(oc.finfo(oc.float32).eps)
    1.1920928955078125e-07
    """
    try:
        return np.finfo(_given(type))
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(f"finfo: {error}") from None


def iinfo(type: Any, /) -> "np.iinfo[Any]":
    """Tell the limits of a type of integers, as `numpy.iinfo` does.

    Parameters
    ----------
    type : dtype_like or Array
        A type, or an array of such elements.

    Returns
    -------
    numpy.iinfo
        With the attributes ``bits``, ``max``, ``min`` and ``dtype``.

    Raises
    ------
    InvalidTypeError
        It is none.

    Examples
    --------
    >>> oc.iinfo("uint8").max
    255
    """
    try:
        return np.iinfo(_given(type))
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(f"iinfo: {error}") from None


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a type is one of another, or of a kind, as `numpy.isdtype` says.

    Parameters
    ----------
    dtype : dtype_like
        The type.
    kind : dtype_like, str, or tuple of such
        A type; or ``"bool"``, ``"signed integer"``, ``"unsigned integer"``, ``"integral"``,
        ``"real floating"``, ``"complex floating"`` or ``"numeric"``; or several of these, of which
        one will do.

    Raises
    ------
    InvalidArgumentError
        There is no such kind.
    InvalidTypeError
        `dtype` is no type.

    Examples
    --------
    >>> oc.isdtype(oc.float32, ("real floating", "complex floating"))
    True
    """
    try:
        return bool(np.isdtype(np.dtype(dtype), kind))
    except ValueError as error:
        raise InvalidArgumentError(str(error)) from None
    except TypeError as error:
        raise InvalidTypeError(str(error)) from None


@implements(np.result_type)
def result_type(*arrays_and_dtypes: Array | DTypeLike | complex) -> np.dtype[Any]:
    """Tell the type that operations of such operands give, as `numpy.result_type` does.

    Parameters
    ----------
    *arrays_and_dtypes : Array, dtype_like or number
        Nothing of arrays is read. Numbers of Python's take the type of the others.

    Raises
    ------
    InvalidArgumentError
        Nothing is given.
    InvalidTypeError
        Something has no type, or there is none for all of them.

    Examples
    --------
    >>> oc.result_type(oc.zeros(3, dtype="float32"), "int16", 1)
    dtype('float32')
    """
    given: list[Any] = [_given(x) for x in arrays_and_dtypes]
    try:
        return np.result_type(*given)
    except ValueError as error:
        raise InvalidArgumentError(str(error)) from None
    except TypeError as error:
        raise InvalidTypeError(str(error)) from None
