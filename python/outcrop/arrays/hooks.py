"""What an array does by way of what is built on arrays: called here, and defined there.

An `Array` has operators, and its elements are selected by other arrays; both give expressions, and
expressions are arrays themselves. So the packages above fill these in, each beside the definition
(``@hooks.selected.fill``), and nothing here imports them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from outcrop.arrays.source import Source
from outcrop.checks import StrPath

if TYPE_CHECKING:
    from outcrop.arrays.array import Array

__all__ = [
    "assigned",
    "astype",
    "copied",
    "expressed",
    "external_source",
    "function",
    "in_chunks",
    "mask_and_scale",
    "materialized",
    "now",
    "packed",
    "saved_resumably",
    "selected",
    "to_dask",
    "ufunc",
]

_P = ParamSpec("_P")
_R = TypeVar("_R")


class _Hook(Generic[_P, _R]):
    """A function that is described here, and defined above.

    Parameters
    ----------
    description : callable
        Its name, parameters and documentation; it is never called.
    """

    def __init__(self, description: Callable[_P, _R]) -> None:
        self.__doc__, self._name = description.__doc__, description.__name__
        self._own: Callable[_P, _R] | None = None

    def fill(self, own: Callable[_P, _R]) -> Callable[_P, _R]:
        """Register the definition, and leave it as it is."""
        if self._own is not None:
            raise RuntimeError(f"{self._name} is defined twice")
        self._own = own
        return own

    def __call__(self, *args: _P.args, **options: _P.kwargs) -> _R:
        assert self._own is not None, "importing outcrop fills all of them"
        return self._own(*args, **options)


# -- NumPy's protocols -----------------------------------------------------------------------------


@_Hook
def ufunc(which: np.ufunc, method: str, inputs: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What a ufunc, or a method of it, gives for arrays."""


@_Hook
def function(which: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What a function of NumPy's gives: our own of that name, or NumPy's on what fits in memory."""


@_Hook
def astype(
    array: "Array", dtype: DTypeLike, casting: Any = "unsafe", *, copy: bool = True
) -> "Array":
    """With elements of another type, or of the same."""


@_Hook
def copied(array: "Array") -> "Array":
    """A copy, as an expression where the elements are not in memory."""


# -- elements --------------------------------------------------------------------------------------


@_Hook
def selected(array: "Array", key: Any) -> "Array":
    """The elements that a key with arrays names."""


@_Hook
def assigned(array: "Array", key: Any, value: Any) -> None:
    """Set the elements that a key with arrays names."""


@_Hook
def now(array: "Array") -> "Array":
    """The same elements as an expression, which means them as they are now."""


@_Hook
def mask_and_scale(array: "Array") -> "Array":
    """The numbers that elements stand for, by the array's attributes."""


@_Hook
def materialized(array: "Array") -> "Array":
    """The same elements, in memory or in the scratch directory."""


@_Hook
def packed(array: "Array") -> "Array":
    """A copy of some elements of a stored array, which goes with the operation that needs it."""


@_Hook
def expressed(array: "Array") -> "Array":
    """The same elements as an expression, by which a program moves them."""


@_Hook
def in_chunks(array: "Array", chunk: tuple[int, ...]) -> "Array":
    """The same elements chunk after chunk, with zeros where these go beyond the end."""


@_Hook
def saved_resumably(
    array: "Array", path: StrPath, overwrite: bool, progress: Callable[[int, int], None] | None
) -> "Array":
    """A factor, saved from where a run before has got to."""


@_Hook
def external_source(x: Any) -> Source | None:
    """What reads an array of another library a tile at a time; None for anything else."""


@_Hook
def to_dask(array: "Array", chunks: Any) -> Any:
    """The same elements as an array of Dask's."""
