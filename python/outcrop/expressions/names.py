"""NumPy's functions that arrange, select and multiply, as our own."""

from collections.abc import Callable
from typing import Any

import numpy as np

from outcrop import arrangement, products, selection
from outcrop.errors import UnsupportedError

__all__ = ["names"]


def _plain(name: str, **options: Any) -> None:
    """Raise for options that are not NumPy's defaults, which are given here as None."""
    for option, value in options.items():
        if value is not None and value is not False:
            raise UnsupportedError(f"numpy.{name}({option}=) is not supported for an outcrop.Array")


def _reshape(a: Any, /, shape: Any = None, order: str = "C", **options: Any) -> Any:
    if order not in ("C", None):
        raise UnsupportedError("numpy.reshape: order='C' only, for an outcrop.Array")
    # Its name before NumPy 2.1.
    wanted = options.pop("newshape", shape)
    _plain("reshape", **options)
    return arrangement.reshape(a, wanted)


def _ravel(a: Any, order: str = "C") -> Any:
    return _reshape(a, -1, order)


def _at_least(ndim: int) -> Callable[..., Any]:
    def function(*arrays: Any) -> Any:
        made = tuple(arrangement.with_axes(x, ndim) for x in arrays)
        return made[0] if len(made) == 1 else made

    return function


def _einsum(subscripts: Any, *operands: Any, optimize: Any = None, **options: Any) -> Any:
    if not isinstance(subscripts, str):
        raise UnsupportedError("numpy.einsum of an outcrop.Array takes its subscripts as a string")
    _plain("einsum", **options)
    # The order of the products is our own in any case.
    return products.einsum(subscripts, *operands)


def _dot(a: Any, b: Any, out: Any = None) -> Any:
    _plain("dot", out=out)
    return products.dot(a, b)


def _outer(a: Any, b: Any, out: Any = None) -> Any:
    _plain("outer", out=out)
    one, other = (arrangement.reshape(x, -1) for x in (a, b))
    return products.outer(one, other)


def _take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Any:
    _plain("take", out=out, mode=None if mode == "raise" else mode)
    return selection.take(a, indices, axis=axis)


def _compress(condition: Any, a: Any, axis: Any = None, out: Any = None) -> Any:
    _plain("compress", out=out)
    return selection.compress(condition, a, axis=axis)


def names() -> dict[Callable[..., Any], Callable[..., Any]]:
    """Which function of our own stands for which one of NumPy's."""
    found: dict[Callable[..., Any], Callable[..., Any]] = {
        np.reshape: _reshape,
        np.ravel: _ravel,
        np.moveaxis: lambda a, source, destination: arrangement.moveaxis(a, source, destination),
        np.swapaxes: lambda a, axis1, axis2: arrangement.swapaxes(a, axis1, axis2),
        np.rollaxis: lambda a, axis, start=0: arrangement.rollaxis(a, axis, start),
        np.atleast_1d: _at_least(1),
        np.atleast_2d: _at_least(2),
        np.atleast_3d: _at_least(3),
        np.broadcast_arrays: lambda *args, subok=False: tuple(arrangement.broadcast_arrays(*args)),
        np.roll: lambda a, shift, axis=None: arrangement.roll(a, shift, axis=axis),
        np.tile: lambda A, reps: arrangement.tile(A, reps),
        np.repeat: lambda a, repeats, axis=None: arrangement.repeat(a, repeats, axis=axis),
        np.pad: lambda array, pad_width, mode="constant", **options: arrangement.pad(
            array, pad_width, mode, **options
        ),
        np.split: lambda ary, parts, axis=0: arrangement.split(ary, parts, axis),
        np.array_split: lambda ary, parts, axis=0: arrangement.array_split(ary, parts, axis),
        np.vsplit: lambda ary, parts: arrangement.split_along(ary, parts, 0),
        np.hsplit: lambda ary, parts: arrangement.split_along(ary, parts, 1),
        np.dsplit: lambda ary, parts: arrangement.split_along(ary, parts, 2),
        np.take: _take,
        np.compress: _compress,
        np.extract: lambda condition, arr: selection.extract(condition, arr),
        np.nonzero: lambda a: selection.nonzero(a),
        np.flatnonzero: lambda a: selection.flatnonzero(a),
        np.einsum: _einsum,
        np.tensordot: lambda a, b, axes=2: products.tensordot(a, b, axes=axes),
        np.outer: _outer,
        np.linalg.outer: lambda x1, x2: products.outer(x1, x2),
        np.dot: _dot,
        np.inner: lambda a, b: products.inner(a, b),
    }
    if hasattr(np, "unstack"):
        found[np.unstack] = lambda x, axis=0: arrangement.unstack(x, axis=axis)
    return found
