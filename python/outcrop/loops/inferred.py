"""The types of names, as Numba infers them."""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from outcrop.compiled.compiler import numba_module, numba_says
from outcrop.compiled.function import FunctionText
from outcrop.errors import InvalidTypeError

__all__ = ["types_of"]


def types_of(
    text: FunctionText,
    dtypes: Mapping[str, np.dtype[Any]],
    shapes: Mapping[str, tuple[int, ...]],
    numbers: Mapping[str, float],
    names: Iterable[str],
) -> dict[str, np.dtype[Any]]:
    """The types that names of a function have with such arguments.

    Parameters
    ----------
    text : FunctionText
        The function.
    dtypes, shapes : mapping
        Of the parameters that are arrays.
    numbers : mapping
        The others.
    names : iterable of str
        Those that are asked for.

    Raises
    ------
    InvalidTypeError
        Numba does not compile it, or a name has no type that an array can have.
    """
    given = tuple(
        (dtypes[p].str, len(shapes[p]))
        if p in shapes
        else ("f8" if isinstance(numbers[p], float) else "i8", 0)
        for p in text.parameters
    )
    own = tuple(sorted(names))
    return dict(_inferred(text.function, given, own)) if own else {}


@functools.lru_cache(maxsize=64)
def _inferred(
    function: Callable[..., Any], given: Sequence[tuple[str, int]], names: Sequence[str]
) -> dict[str, np.dtype[Any]]:
    """The same, for elements of such types and so many axes; a number has none."""
    numba = numba_module("loops")
    from numba.core import compiler, typed_passes
    from numba.core.registry import cpu_target

    arguments = []
    for kind, ndim in given:
        element = numba.from_dtype(np.dtype(kind))
        arguments.append(numba.types.Array(element, ndim, "C") if ndim else element)
    try:
        context, target = cpu_target.typing_context, cpu_target.target_context
        context.refresh()
        target.refresh()
        inner = compiler.run_frontend(function)  # type: ignore[no-untyped-call]
        infer = typed_passes.type_inference_stage
        typed = infer(context, target, inner, arguments, None)[0]  # type: ignore[no-untyped-call]
    except numba.core.errors.NumbaError as error:
        line = getattr(getattr(error, "loc", None), "line", None)
        where = function.__name__ if line is None else f"{function.__name__}, line {line}"
        raise InvalidTypeError(f"{where}: Numba does not compile it: {numba_says(error)}") from None
    found = {}
    for name in names:
        if name not in typed:
            # A condition on elements.
            found[name] = np.dtype(np.bool_)
            continue
        try:
            found[name] = np.dtype(numba.np.numpy_support.as_dtype(typed[name]))
        except (NotImplementedError, AttributeError):
            raise InvalidTypeError(
                f"{function.__name__}: {name} is a {typed[name]}, which is no number"
            ) from None
    return found
