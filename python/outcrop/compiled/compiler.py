"""Numba, as kernels are compiled with it."""

import functools
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np

from outcrop.errors import UnsupportedError

__all__ = ["check_types", "numba_module", "pointer_to"]


def numba_module(what: str = "sweeps") -> ModuleType:
    """Numba.

    Raises
    ------
    UnsupportedError
        It is not installed.
    """
    try:
        import numba
    except ImportError as error:
        raise UnsupportedError(
            f"{what} are compiled by Numba, which cannot be imported ({error}); "
            f"pip install 'outcrop[{what}]' installs it"
        ) from None
    return numba


@functools.cache
def pointer_to(numba_type: Any) -> Any:
    """What makes a pointer of an address."""
    numba_module()
    from numba.core import types
    from numba.extending import intrinsic

    pointers = types.CPointer(numba_type)  # type: ignore[no-untyped-call]

    def pointer(context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return builder.inttoptr(values[0], context.get_value_type(pointers))

        return pointers(types.int64), generate

    return intrinsic(pointer)


def check_types(dtypes: Mapping[str, np.dtype[Any]], what: str = "sweeps") -> None:
    """Raise where elements of a type are none that Numba computes with."""
    for p, dtype in dtypes.items():
        unknown = dtype.kind not in "biufc" or not dtype.isnative
        if unknown or dtype.name in ("float16", "longdouble", "clongdouble"):
            raise UnsupportedError(f"{p}: {what} do not compute with elements of type {dtype}")
