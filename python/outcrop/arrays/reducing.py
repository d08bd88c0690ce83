"""Those methods of arrays that reduce and accumulate, and NumPy's functions of elements."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from outcrop.arrays.shaping import by_numpy

if TYPE_CHECKING:
    from outcrop.arrays.array import Array

__all__ = ["Reducing"]

_Axis: TypeAlias = int | Sequence[int] | None


class Reducing:
    """NumPy's methods of these names, with the arguments of its functions. All are lazy."""

    __slots__ = ()

    # -- sums, means and extremes ------------------------------------------------------------
    def sum(
        self,
        axis: _Axis = None,
        dtype: DTypeLike | None = None,
        out: "Array | None" = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = True,
    ) -> "Array":
        """See `numpy.sum`."""
        return by_numpy(
            np.sum,
            self,
            axis=axis,
            dtype=dtype,
            out=out,
            keepdims=keepdims,
            initial=initial,
            where=where,
        )

    def prod(
        self,
        axis: _Axis = None,
        dtype: DTypeLike | None = None,
        out: "Array | None" = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = True,
    ) -> "Array":
        """See `numpy.prod`."""
        return by_numpy(
            np.prod,
            self,
            axis=axis,
            dtype=dtype,
            out=out,
            keepdims=keepdims,
            initial=initial,
            where=where,
        )

    def mean(
        self,
        axis: _Axis = None,
        dtype: DTypeLike | None = None,
        out: "Array | None" = None,
        keepdims: bool = False,
        *,
        where: Any = True,
    ) -> "Array":
        """See `numpy.mean`."""
        return by_numpy(
            np.mean, self, axis=axis, dtype=dtype, out=out, keepdims=keepdims, where=where
        )

    def var(
        self,
        axis: _Axis = None,
        dtype: DTypeLike | None = None,
        out: "Array | None" = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        where: Any = True,
        mean: Any = np._NoValue,
        correction: Any = np._NoValue,
    ) -> "Array":
        """See `numpy.var`."""
        return by_numpy(
            np.var,
            self,
            axis=axis,
            dtype=dtype,
            out=out,
            ddof=ddof,
            keepdims=keepdims,
            where=where,
            mean=mean,
            correction=correction,
        )

    def std(
        self,
        axis: _Axis = None,
        dtype: DTypeLike | None = None,
        out: "Array | None" = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        where: Any = True,
        mean: Any = np._NoValue,
        correction: Any = np._NoValue,
    ) -> "Array":
        """See `numpy.std`."""
        return by_numpy(
            np.std,
            self,
            axis=axis,
            dtype=dtype,
            out=out,
            ddof=ddof,
            keepdims=keepdims,
            where=where,
            mean=mean,
            correction=correction,
        )

    def min(
        self,
        axis: _Axis = None,
        out: "Array | None" = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = True,
    ) -> "Array":
        """See `numpy.min`."""
        return by_numpy(
            np.min, self, axis=axis, out=out, keepdims=keepdims, initial=initial, where=where
        )

    def max(
        self,
        axis: _Axis = None,
        out: "Array | None" = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = True,
    ) -> "Array":
        """See `numpy.max`."""
        return by_numpy(
            np.max, self, axis=axis, out=out, keepdims=keepdims, initial=initial, where=where
        )

    def any(
        self,
        axis: _Axis = None,
        out: "Array | None" = None,
        keepdims: bool = False,
        *,
        where: Any = True,
    ) -> "Array":
        """See `numpy.any`."""
        return by_numpy(np.any, self, axis=axis, out=out, keepdims=keepdims, where=where)

    def all(
        self,
        axis: _Axis = None,
        out: "Array | None" = None,
        keepdims: bool = False,
        *,
        where: Any = True,
    ) -> "Array":
        """See `numpy.all`."""
        return by_numpy(np.all, self, axis=axis, out=out, keepdims=keepdims, where=where)

    def argmin(
        self, axis: int | None = None, out: "Array | None" = None, *, keepdims: bool = False
    ) -> "Array":
        """See `numpy.argmin`."""
        return by_numpy(np.argmin, self, axis=axis, out=out, keepdims=keepdims)

    def argmax(
        self, axis: int | None = None, out: "Array | None" = None, *, keepdims: bool = False
    ) -> "Array":
        """See `numpy.argmax`."""
        return by_numpy(np.argmax, self, axis=axis, out=out, keepdims=keepdims)

    def cumsum(
        self, axis: int | None = None, dtype: DTypeLike | None = None, out: "Array | None" = None
    ) -> "Array":
        """See `numpy.cumsum`."""
        return by_numpy(np.cumsum, self, axis=axis, dtype=dtype, out=out)

    def cumprod(
        self, axis: int | None = None, dtype: DTypeLike | None = None, out: "Array | None" = None
    ) -> "Array":
        """See `numpy.cumprod`."""
        return by_numpy(np.cumprod, self, axis=axis, dtype=dtype, out=out)

    def trace(
        self,
        offset: int = 0,
        axis1: int = 0,
        axis2: int = 1,
        dtype: DTypeLike | None = None,
        out: "Array | None" = None,
    ) -> "Array":
        """See `numpy.trace`."""
        return by_numpy(
            np.trace, self, offset=offset, axis1=axis1, axis2=axis2, dtype=dtype, out=out
        )

    # -- functions of elements ---------------------------------------------------------------

    def round(self, decimals: int = 0, out: "Array | None" = None) -> "Array":
        """See `numpy.round`."""
        return by_numpy(np.round, self, decimals=decimals, out=out)

    def clip(
        self,
        a_min: Any = None,
        a_max: Any = None,
        out: "Array | None" = None,
        *,
        min: Any = None,
        max: Any = None,
    ) -> "Array":
        """See `numpy.clip`."""
        return by_numpy(np.clip, self, a_min, a_max, out, min=min, max=max)
