"""Arguments of routines of level-3 BLAS, and whether they fit together."""

import numbers
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outcrop.arrays.array import Array
from outcrop.arrays.computed import ComputedSource
from outcrop.arrays.creation import asarray
from outcrop.arrays.source import MemorySource, Source
from outcrop.arrays.views import View
from outcrop.checks import check_dtype
from outcrop.errors import InvalidArgumentError, InvalidTypeError
from outcrop.expressions.build.arrays import node_of
from outcrop.expressions.graph.nodes import Leaf, ancestors

__all__ = [
    "Changed",
    "Matrix",
    "choice",
    "factor",
    "scalar",
    "target_of",
    "transposition",
]

Matrix: TypeAlias = Array | ArrayLike
"""What is only read."""

Changed: TypeAlias = Array | NDArray[Any]
"""What is changed in place."""

_DTYPES = ("float32", "float64", "complex64", "complex128")

_WORK: Any = 10_000
"""How long NumPy looks whether two views have elements in common."""

_TRANS = {0: "N", 1: "T", 2: "C"}


def choice(value: object, name: str, choices: str) -> str:
    """An option that is one of some letters, in either case."""
    if isinstance(value, str) and len(value) == 1 and value.upper() in choices:
        return value.upper()
    allowed = " or ".join(repr(letter) for letter in choices)
    raise InvalidArgumentError(f"{name} must be {allowed}, got {value!r}")


def transposition(value: object, name: str, choices: str = "NTC") -> str:
    """Whether an operand is transposed, or transposed and conjugated; 0, 1 or 2 as in SciPy."""
    if isinstance(value, int) and not isinstance(value, bool) and value in _TRANS:
        value = _TRANS[value]
    return choice(value, name, choices)


def scalar(value: object, name: str, dtype: np.dtype[Any], *, is_real: bool = False) -> complex:
    """A number that a matrix of some type is multiplied by."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Complex):
        raise InvalidTypeError(f"{name} must be a number, got {value!r}")
    try:
        number: complex = np.complex128(value).item()
    except OverflowError:
        raise InvalidArgumentError(f"{name} is larger than any number of {dtype}") from None
    with np.errstate(over="ignore"):
        # As it counts in the precision of the matrix.
        held = complex(np.array(number if dtype.kind == "c" else number.real, dtype).item())
    if np.isfinite(number) and not np.isfinite(held):
        raise InvalidArgumentError(f"{name} is larger than any number of {dtype}: {value!r}")
    if number.imag == 0 and not np.isnan(number.imag):
        return complex(held.real)
    if is_real:
        raise InvalidTypeError(f"{name} must be real, got {value!r}")
    if dtype.kind != "c":
        raise InvalidTypeError(f"{name} must be real for matrices of {dtype}, got {value!r}")
    return held


def target_of(given: Changed, name: str) -> Array:
    """What is changed, as an array of ours."""
    if isinstance(given, np.ndarray):
        check_dtype(given.dtype)
        if _overlaps_itself(given):
            raise InvalidArgumentError(f"{name} has elements that lie on each other in memory")
        target = Array(MemorySource(given))
    elif isinstance(given, Array):
        target = given
    else:
        raise InvalidTypeError(
            f"{name} is changed in place: an outcrop.Array or a numpy.ndarray is needed, not "
            f"{type(given).__name__}"
        )
    if target.dtype.name not in _DTYPES:
        raise InvalidTypeError(f"{name} must be one of {', '.join(_DTYPES)}, not {target.dtype}")
    _check_matrix(target, name)
    target._source.check_writable(target._view)
    return target


def factor(given: Matrix, name: str, target: Array, target_name: str) -> Array:
    """What is only read, if the target takes its elements, and has none of them itself."""
    found = asarray(given)
    _check_matrix(found, name)
    if not np.can_cast(found.dtype, target.dtype, "safe"):
        raise InvalidTypeError(
            f"{name} has elements of {found.dtype}, which do not go into {target.dtype}, those of "
            f"{target_name}, without loss"
        )
    found._source.check_open()
    if _overlaps(found, target):
        raise InvalidArgumentError(
            f"{name} and {target_name}, which is changed, have elements in common; copy one of them"
        )
    return found


def _check_matrix(array: Array, name: str) -> None:
    if array.ndim != 2:
        raise InvalidArgumentError(f"{name}: a matrix has two axes; the shape is {array.shape}")


def _overlaps_itself(array: NDArray[Any]) -> bool:
    """Whether a change of one element may change another one."""
    along = sorted((abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1)
    reach = array.itemsize
    for stride, n in along:
        if stride < reach:
            return array.size > 0
        reach += stride * (n - 1)
    return False


def _overlaps(read: Array, changed: Array) -> bool:
    """Whether something that is read is changed, too."""
    if not read.size or not changed.size:
        return False
    if _shares(read._source, read._view, changed):
        return True
    leaves = [node for node in ancestors([node_of(read)]) if isinstance(node, Leaf)]
    return any(_shares(leaf.source, leaf.view, changed) for leaf in leaves)


def _shares(source: Source, view: View, changed: Array) -> bool:
    target, own = changed._source, changed._view
    if isinstance(source, ComputedSource):
        return source.same_elements(target) or any(
            _shares(operand._source, operand._view, changed) for operand in source.operands
        )
    source = source.base
    if isinstance(source, MemorySource):
        if not isinstance(target, MemorySource):
            return False
        one, other = view.select(source.array), own.select(target.array)
        try:
            # What is hard to tell has elements in common, as far as anybody knows.
            return bool(np.shares_memory(one, other, max_work=_WORK))
        except np.exceptions.TooHardError:
            return True
    if not target.same_elements(source.live):
        return False
    # One raw file may be opened with two shapes; then boxes say nothing.
    return target.shape != source.shape or own.meets(view)
