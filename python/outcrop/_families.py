"""Functions that take the same arguments, and are described alike."""

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar, cast

import numpy as np

from outcrop.array import Array
from outcrop.creation import asarray
from outcrop.expressions import reducing

__all__ = ["By", "array_like", "member_of"]

_P = ParamSpec("_P")
_H = TypeVar("_H")


def array_like(x: Any) -> Array:
    """An array, or what becomes one."""
    return x if isinstance(x, Array) else asarray(x)


def member_of(
    family: Callable[Concatenate[_H, _P], Array], how: _H, name: str, says: str, example: str
) -> Callable[_P, Array]:
    """One of a family of functions: `family`, whose first argument is `how`.

    Its docstring is what it `says`, that of the family, and an example.
    """

    def member(*args: _P.args, **options: _P.kwargs) -> Array:
        try:
            return family(how, *args, **options)
        except TypeError:
            # If the call itself is wrong, that is told by the name under which it was made.
            try:
                shown.bind(*args, **options)
            except TypeError as error:
                raise TypeError(f"{name}(): {error}") from None
            raise

    # It belongs to the family's module, where its example is found.
    made = FunctionType(member.__code__, family.__globals__, name, None, member.__closure__)
    signature = inspect.signature(family)
    _, *rest = signature.parameters.values()
    shown = signature.replace(parameters=rest)
    made.__signature__ = shown  # type: ignore[attr-defined]
    made.__qualname__ = name
    parts = [says, inspect.getdoc(family) or "", "Examples\n--------", inspect.cleandoc(example)]
    made.__doc__ = "{}\n\n{}\n\n{}\n{}".format(*parts)
    return cast(Callable[_P, Array], made)


class By(NamedTuple):
    """A ufunc, and what stands for NaN where that is skipped."""

    ufunc: np.ufunc
    instead: float | None = None

    def given(self, x: Any) -> Array:
        """The operand."""
        array = array_like(x)
        return array if self.instead is None else reducing.without_nan_of(array, self.instead)
