"""NumPy's protocols: what its ufuncs and functions do with arrays that need not fit in memory."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from outcrop.array import Array
from outcrop.errors import UnsupportedError
from outcrop.expressions.arrays import ExpressionSource, applied, array_of, node_of
from outcrop.expressions.reducing import cast, reduced, scanned

__all__ = ["astype", "function", "ufunc"]


def ufunc(which: np.ufunc, method: str, inputs: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What a ufunc, or a method of it, gives for arrays."""
    if method == "__call__":
        if which is np.matmul and not kwargs:
            return _product(*inputs)
        return applied(which, inputs, kwargs)
    if method == "reduce":
        return reduced(which, *inputs, **{k: v for k, v in kwargs.items() if v is not None})
    if method == "accumulate":
        return scanned(which, *inputs, **kwargs)
    raise UnsupportedError(
        f"numpy.{which.__name__}.{method} on an outcrop.Array is not supported in this version"
    )


def _product(one: Any, other: Any) -> Array:
    from outcrop.linalg import matmul

    result = matmul(one, other)
    if any(isinstance(x, Array) and isinstance(x._source, ExpressionSource) for x in (one, other)):
        # Part of an expression, where it is no work of its own.
        return array_of(node_of(result))
    return result


def astype(array: Array, dtype: DTypeLike) -> Array:
    """With elements of another type."""
    return array_of(cast(node_of(array), np.dtype(dtype)))


# -- NumPy's functions -----------------------------------------------------------------------------


def function(which: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What a function of NumPy's gives: our own of that name, or NumPy's on what fits in memory."""
    own = _functions().get(which)
    if own is not None:
        return own(*args, **kwargs)
    loaded = [_loaded(x) for x in args]
    return which(*loaded, **{key: _loaded(value) for key, value in kwargs.items()})


def _loaded(x: Any) -> Any:
    if isinstance(x, Array):
        return np.asarray(x)
    if isinstance(x, list | tuple):
        return type(x)(_loaded(item) for item in x)
    return x


@cache
def _functions() -> dict[Callable[..., Any], Callable[..., Any]]:
    from outcrop import manipulation, reorganize, statistical

    def reduction(name: str) -> Callable[..., Any]:
        own = getattr(statistical, name)

        def reduce(a: Any, axis: Any = None, **options: Any) -> Array:
            for key in ("dtype", "out", "keepdims", "initial", "where"):
                if options.get(key, True) is np._NoValue or options.get(key, 0) is None:
                    options.pop(key)
            if options.pop("out", None) is not None:
                raise UnsupportedError(f"numpy.{name}(out=) is not supported for an outcrop.Array")
            if "ddof" in options:
                options["correction"] = options.pop("ddof")
            return own(a, axis=axis, **options)  # type: ignore[no-any-return]

        return reduce

    def positional(own: Callable[..., Any], *names: str) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            first, *rest = args
            return own(first, **dict(zip(names, rest, strict=False)), **options)

        return call

    found: dict[Callable[..., Any], Callable[..., Any]] = {
        getattr(np, name): reduction(name)
        for name in ("sum", "prod", "mean", "var", "std", "min", "max", "any", "all")
    }
    found |= {
        np.argmin: positional(statistical.argmin, "axis"),
        np.argmax: positional(statistical.argmax, "axis"),
        np.count_nonzero: positional(statistical.count_nonzero, "axis"),
        np.cumsum: positional(statistical.cumulative_sum, "axis", "dtype"),
        np.cumprod: positional(statistical.cumulative_prod, "axis", "dtype"),
        np.where: manipulation.where,
        np.clip: manipulation.clip,
        np.concatenate: positional(manipulation.concat, "axis"),
        np.stack: positional(manipulation.stack, "axis"),
        np.take: lambda a, indices, axis=None: manipulation.take(a, indices, axis=axis),
        np.expand_dims: positional(manipulation.expand_dims, "axis"),
        np.squeeze: positional(manipulation.squeeze, "axis"),
        np.broadcast_to: positional(manipulation.broadcast_to, "shape"),
        np.transpose: lambda a, axes=None: reorganize.transpose(a, axes=axes),
        np.permute_dims: lambda a, axes=None: reorganize.transpose(a, axes=axes),
        np.flip: lambda m, axis=None: reorganize.flip(m, axis=axis),
        np.rot90: lambda m, k=1, axes=(0, 1): reorganize.rotate(m, None, 90 * k, axes=axes),
        np.shape: lambda a: a.shape,
        np.ndim: lambda a: a.ndim,
        np.size: lambda a, axis=None: a.size if axis is None else a.shape[axis],
    }
    return found
