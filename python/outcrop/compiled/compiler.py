"""Numba, as kernels are compiled with it."""

import functools
import re
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np

from outcrop.errors import InvalidTypeError, UnsupportedError

__all__ = [
    "calling_products",
    "check_types",
    "letting_go_of_arrays",
    "numba_module",
    "numba_says",
    "pointer_to",
]


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


_ABOUT_NUMBA = ("Failed in ", "File ", "During: ", "There are ", "<source missing")
"""How lines of Numba's errors begin that tell of its own workings, and of the code made here."""


def numba_says(error: Exception) -> str:
    """Why Numba does not compile something, in the line or two in which it says so."""
    found: list[str] = []
    for line in str(error).splitlines():
        text = line.strip()
        if found and text.startswith(_ABOUT_NUMBA):
            break
        if text and not text.startswith(_ABOUT_NUMBA):
            found.append(text.removeprefix(">>> "))
    # Of a module, its name, and not where it lies.
    told = re.sub(r"Module\(<module '([\w.]+)'[^>]*>\)", r"\1", " ".join(found))
    return told or type(error).__name__


@contextmanager
def letting_go_of_arrays() -> Iterator[None]:
    """Of what Numba does not compile, keep no array open.

    Numba keeps errors, and these the frames in which it was called: arrays that are open there for
    writing would stay locked.
    """
    try:
        yield
    except InvalidTypeError as error:
        traceback.clear_frames(error.__traceback__)
        raise


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


@functools.cache
def calling_products() -> Any:
    """What calls the kernel of products, whose address is its first argument.

    That is no constant, since compiled functions outlive the process. The others are as in
    `outcrop_ops::linalg::called`, all but the factor integers.
    """
    numba_module()
    from llvmlite import ir  # type: ignore[import-untyped]
    from numba.core import types
    from numba.extending import intrinsic

    own = [types.int64] * 13 + [types.float64, types.int64, types.uint64, types.int64]
    # The type, pointers to three matrices, extents and strides, the factor, memory, and its size.
    pointers = {1, 2, 3, 14, 16}

    def product(
        context: Any,
        function: Any,
        dtype: Any,
        c: Any,
        a: Any,
        b: Any,
        m: Any,
        n: Any,
        k: Any,
        c_row: Any,
        c_col: Any,
        a_row: Any,
        a_col: Any,
        b_row: Any,
        b_col: Any,
        factor: Any,
        workspace: Any,
        room: Any,
        stop: Any,
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            address = ir.IntType(8).as_pointer()
            kinds = [
                address if k in pointers else context.get_value_type(kind)
                for k, kind in enumerate(own)
            ]
            called = ir.FunctionType(ir.IntType(32), kinds).as_pointer()
            given = [
                builder.inttoptr(value, address) if k in pointers else value
                for k, value in enumerate(values[1:])
            ]
            return builder.call(builder.inttoptr(values[0], called), given)

        return types.int32(types.int64, *own), generate

    return intrinsic(product)


def check_types(dtypes: Mapping[str, np.dtype[Any]], what: str = "sweeps") -> None:
    """Raise where elements of a type are none that Numba computes with."""
    for p, dtype in dtypes.items():
        unknown = dtype.kind not in "biufc" or not dtype.isnative
        if unknown or dtype.name in ("float16", "longdouble", "clongdouble"):
            raise UnsupportedError(f"{p}: {what} do not compute with elements of type {dtype}")
