"""Transforms along one axis or several."""

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from outcrop.array_api.creation_functions import zeros
from outcrop.array_api.elementwise_functions import conj
from outcrop.array_api.families import array_like, is_long
from outcrop.array_api.manipulation_functions import concat, pad
from outcrop.arrays.array import Array
from outcrop.errors import InvalidArgumentError, InvalidTypeError
from outcrop.expressions.build.arrays import node_of, now
from outcrop.expressions.build.lines import of_lines
from outcrop.expressions.build.reductions import axes_of
from outcrop.expressions.tiling.disk_order import unit
from outcrop.fft.long_lines import TIMES, Norm, by_numpy, complex_type, half_of_real, transformed
from outcrop.process.config import memory_budget

__all__ = [
    "fft",
    "fft2",
    "fftn",
    "hfft",
    "ifft",
    "ifft2",
    "ifftn",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftn",
]

_SLABS = 4
"""What part of the budget planes may take, as many as tiles on disk have together."""


def fft(x: Any, /, n: int | None = None, axis: int = -1, norm: Norm | None = None) -> Array:
    """Transform along an axis, as `numpy.fft.fft` does.

    Parameters
    ----------
    x : Array or array_like
        Numbers.
    n : int, optional
        How many elements are transformed: the first ones, or all and zeros behind them. Default:
        as many as there are. Any number: those that are products of small primes are fastest.
    axis : int
        Along which axis.
    norm : {"backward", "ortho", "forward"}, optional
        Whether this one divides by `n` ("forward"), its inverse ("backward", the default), or both
        by its root.

    Returns
    -------
    Array
        Of complex64 for float32 and complex64, else of complex128. Not computed yet. Where memory
        has no room for a line, all is read and written three times, or four where it is in tiles.
        If `n` has no factors that make parts of a line fit, most of it is computed at once, in
        scratch, which takes three times as long, at twice the length.

    Raises
    ------
    InvalidArgumentError
        There is no such `n` or `norm`.
    AxisError
        There is no such axis.
    InvalidTypeError
        The elements, or `n`, are of another type.

    Examples
    --------
    >>> oc.fft.fft(oc.asarray([1.0, 2, 3, 4])).compute()
    array([10.+0.j, -2.+2.j, -2.+0.j, -2.-2.j])
    """
    return _Asked.of(x, _one(n), (axis,), norm).complex("fftn")


def ifft(x: Any, /, n: int | None = None, axis: int = -1, norm: Norm | None = None) -> Array:
    """Take `fft` back, as `numpy.fft.ifft` does, with the parameters and errors of `fft`.

    Examples
    --------
    >>> oc.fft.ifft(oc.fft.fft(oc.asarray([1.0, 2, 3, 4]))).compute()
    array([1.+0.j, 2.+0.j, 3.+0.j, 4.+0.j])
    """
    return _Asked.of(x, _one(n), (axis,), norm).complex("ifftn")


def rfft(x: Any, /, n: int | None = None, axis: int = -1, norm: Norm | None = None) -> Array:
    """Transform real numbers along an axis, as `numpy.fft.rfft` does.

    Parameters and errors are those of `fft`.

    Returns
    -------
    Array
        With ``n // 2 + 1`` elements along the axis; the others are their conjugates.

    Examples
    --------
    >>> oc.fft.rfft(oc.asarray([1.0, 2, 3, 4])).compute()
    array([10.+0.j, -2.+2.j, -2.+0.j])
    """
    return _Asked.of(x, _one(n), (axis,), norm).of_real()


def irfft(x: Any, /, n: int | None = None, axis: int = -1, norm: Norm | None = None) -> Array:
    """Take `rfft` back, as `numpy.fft.irfft` does.

    Parameters and errors are those of `fft`, but for `n`, which is the length of the result along
    the axis; by default the even one, twice that of `x` without two.

    Returns
    -------
    Array
        Of real numbers.

    Examples
    --------
    >>> oc.fft.irfft(oc.fft.rfft(oc.asarray([1.0, 2, 3])), n=3).compute()
    array([1., 2., 3.])
    """
    return _Asked.of(x, _one(n), (axis,), norm, to_real=True).real()


def hfft(x: Any, /, n: int | None = None, axis: int = -1, norm: Norm | None = None) -> Array:
    """Transform what has a real transform, of which a half is given, as `numpy.fft.hfft` does.

    Parameters and errors are those of `irfft`.

    Examples
    --------
    >>> oc.fft.hfft(oc.asarray([1.0, 2, 3])).compute()
    array([ 8., -2.,  0., -2.])
    """
    return irfft(conj(x), n, axis, _opposite(norm))


def ihfft(x: Any, /, n: int | None = None, axis: int = -1, norm: Norm | None = None) -> Array:
    """Take `hfft` back, as `numpy.fft.ihfft` does, with the parameters and errors of `rfft`.

    Examples
    --------
    >>> oc.fft.ihfft(oc.fft.hfft(oc.asarray([1.0, 2, 3]))).compute()
    array([1.-0.j, 2.-0.j, 3.-0.j])
    """
    return conj(rfft(x, n, axis, _opposite(norm)))


def fftn(
    x: Any,
    /,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm | None = None,
) -> Array:
    """Transform along several axes, as `numpy.fft.fftn` does.

    Parameters
    ----------
    x : Array or array_like
        Numbers.
    s : sequence of int, optional
        How many elements are transformed along each of the axes; -1 for as many as there are.
    axes : sequence of int, optional
        Along which axes. Default: all, or the last ones that `s` has an entry for.
    norm : {"backward", "ortho", "forward"}, optional
        As for `fft`.

    Returns
    -------
    Array
        As of `fft`. Axes of which memory holds all elements at once, and enough of such planes to
        read tiles whole, take one pass together.

    Raises
    ------
    InvalidArgumentError
        There are no such lengths or `norm`.
    AxisError
        There is no such axis.
    InvalidTypeError
        The elements, or lengths, are of another type.

    Examples
    --------
    >>> oc.fft.fftn(oc.asarray([[1.0, 2], [3, 4]])).compute()
    array([[10.+0.j, -2.+0.j],
           [-4.+0.j,  0.+0.j]])
    """
    return _Asked.of(x, s, axes, norm).complex("fftn")


def ifftn(
    x: Any,
    /,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm | None = None,
) -> Array:
    """Take `fftn` back, as `numpy.fft.ifftn` does, with the parameters and errors of `fftn`.

    Examples
    --------
    >>> oc.fft.ifftn(oc.asarray([[4.0, 0], [0, 0]])).compute()
    array([[1.+0.j, 1.+0.j],
           [1.+0.j, 1.+0.j]])
    """
    return _Asked.of(x, s, axes, norm).complex("ifftn")


def rfftn(
    x: Any,
    /,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm | None = None,
) -> Array:
    """Transform real numbers along several axes, as `numpy.fft.rfftn` does.

    Parameters and errors are those of `fftn`; the last of the axes is as that of `rfft`.

    Examples
    --------
    >>> oc.fft.rfftn(oc.ones((2, 4))).compute()
    array([[8.+0.j, 0.+0.j, 0.+0.j],
           [0.+0.j, 0.+0.j, 0.+0.j]])
    """
    return _Asked.of(x, s, axes, norm).of_real()


def irfftn(
    x: Any,
    /,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm | None = None,
) -> Array:
    """Take `rfftn` back, as `numpy.fft.irfftn` does.

    Parameters and errors are those of `fftn`; the last of the axes is as that of `irfft`.

    Examples
    --------
    >>> oc.fft.irfftn(oc.fft.rfftn(oc.ones((2, 4)))).compute()
    array([[1., 1., 1., 1.],
           [1., 1., 1., 1.]])
    """
    return _Asked.of(x, s, axes, norm, to_real=True).real()


def fft2(
    x: Any,
    /,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: Norm | None = None,
) -> Array:
    """Transform along two axes: `fftn` of the last ones.

    Examples
    --------
    >>> oc.fft.fft2(oc.ones((3, 2, 2)))[0].compute()
    array([[4.+0.j, 0.+0.j],
           [0.+0.j, 0.+0.j]])
    """
    return fftn(x, s, axes, norm)


def ifft2(
    x: Any,
    /,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: Norm | None = None,
) -> Array:
    """Take `fft2` back: `ifftn` of the last two axes."""
    return ifftn(x, s, axes, norm)


def rfft2(
    x: Any,
    /,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: Norm | None = None,
) -> Array:
    """Transform real numbers along two axes: `rfftn` of the last ones."""
    return rfftn(x, s, axes, norm)


def irfft2(
    x: Any,
    /,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: Norm | None = None,
) -> Array:
    """Take `rfft2` back: `irfftn` of the last two axes."""
    return irfftn(x, s, axes, norm)


# -- how it is made --------------------------------------------------------------------------------

_NORMS: dict[Any, Norm] = {
    None: "backward",
    "backward": "backward",
    "ortho": "ortho",
    "forward": "forward",
}


def _norm(norm: Any) -> Norm:
    try:
        return _NORMS[norm]
    except (KeyError, TypeError):
        raise InvalidArgumentError(
            f"norm must be 'backward', 'ortho' or 'forward', not {norm!r}"
        ) from None


def _opposite(norm: Norm | None) -> Norm:
    opposite: dict[Norm, Norm] = {"backward": "forward", "forward": "backward", "ortho": "ortho"}
    return opposite[_norm(norm)]


def _one(n: int | None) -> tuple[int] | None:
    if n is None:
        return None
    size = _integer(n)
    if size < 1:
        # Of several axes, -1 has a meaning.
        raise _no_such(size)
    return (size,)


def _integer(n: Any) -> int:
    try:
        return operator.index(n)
    except TypeError as error:
        raise InvalidTypeError(str(error)) from None


def _no_such(n: int) -> InvalidArgumentError:
    return InvalidArgumentError(f"Invalid number of FFT data points ({n}) specified.")


@dataclass(frozen=True)
class _Asked:
    """A transform that is asked for.

    Attributes
    ----------
    array : Array
        Of what.
    axes, sizes : tuple of int
        Along which axes, and how many elements of each.
    norm : Norm
        Which of two divides.
    """

    array: Array
    axes: tuple[int, ...]
    sizes: tuple[int, ...]
    norm: Norm

    @classmethod
    def of(
        cls,
        x: Any,
        s: Sequence[int] | None,
        axes: Sequence[int] | None,
        norm: Norm | None,
        *,
        to_real: bool = False,
    ) -> "_Asked":
        """With arguments checked; a result `to_real` is longer than the operand by default."""
        array, named = array_like(x), _norm(norm)
        if axes is None:
            along = tuple(range(array.ndim)) if s is None else tuple(range(-len(s), 0))
        else:
            along = tuple(axes)
        # An axis that is named twice is transformed twice.
        along = tuple(a for axis in along for a in axes_of(array.ndim, axis))
        if s is not None and len(s) != len(along):
            raise InvalidArgumentError("Shape and axes have different lengths.")
        sizes = []
        for place, axis in enumerate(along):
            size = -1 if s is None or s[place] is None else _integer(s[place])
            if size == -1:
                is_last = to_real and place == len(along) - 1
                size = 2 * (array.shape[axis] - 1) if is_last else array.shape[axis]
            if size < 1:
                raise _no_such(size)
            sizes.append(size)
        return cls(array, along, tuple(sizes), named)

    def complex(self, kind: str) -> Array:
        """The transform to complex numbers, "fftn" or "ifftn"."""
        if not self.axes:
            return now(self.array)
        array = self.array
        dtype = self._type(kind, array)
        if array.size == 0:
            return self._of_none(dtype, self.sizes)
        # The last axis comes first, as NumPy has it.
        for axes, sizes in self._groups(array, self._pairs()[::-1]):
            array = self._along(array, axes[::-1], sizes[::-1], kind)
        return array

    def of_real(self) -> Array:
        """The half of the transform of real numbers, by which the other is known."""
        if not self.axes:
            raise InvalidArgumentError("at least 1 axis must be transformed")
        array, last, n = self.array, self.axes[-1], self.sizes[-1]
        dtype = self._type("rfftn", array)
        sizes = (*self.sizes[:-1], n // 2 + 1)
        if array.size == 0:
            return self._of_none(dtype, sizes)
        (axes, lengths), *others = self._groups(array, self._pairs()[::-1])
        if is_long(n * dtype.itemsize):
            fitted = _fitted(array, last, n)
            made = half_of_real(fitted, last, self.norm)
            if made is None:
                whole = transformed(fitted, last, "fftn", self.norm)
                made = whole[(slice(None),) * last + (slice(n // 2 + 1),)]
        else:
            made = self._lines("rfftn", array, axes[::-1], lengths[::-1], dtype)
        for axes, lengths in others:
            made = self._along(made, axes[::-1], lengths[::-1], "fftn")
        return made

    def real(self) -> Array:
        """The real numbers of which a half of the transform is given."""
        if not self.axes:
            raise InvalidArgumentError("at least 1 axis must be transformed")
        array, last, n = self.array, self.axes[-1], self.sizes[-1]
        dtype = self._type("irfftn", array)
        if array.size == 0:
            return self._of_none(dtype, self.sizes)
        *others, (axes, sizes) = self._groups(array, self._pairs())
        for before, lengths in others:
            array = self._along(array, before, lengths, "ifftn")
        if not is_long(n * complex_type(dtype).itemsize):
            return self._lines("irfftn", array, axes, sizes, dtype)
        half = _fitted(array, last, n // 2 + 1)
        whole = (slice(None),) * last
        other = conj(half[(*whole, slice(1, (n + 1) // 2))])[(*whole, slice(None, None, -1))]
        made: Array = transformed(concat([half, other], axis=last), last, "ifftn", self.norm).real
        return made

    def _type(self, kind: str, array: Array) -> np.dtype[Any]:
        """The type of the result, which NumPy knows."""
        try:
            return by_numpy(np.zeros(1, array.dtype), kind, (1,), self.norm).dtype
        except TypeError as error:
            raise InvalidTypeError(str(error)) from None

    def _pairs(self) -> list[tuple[int, int]]:
        return list(zip(self.axes, self.sizes, strict=True))

    def _of_none(self, dtype: np.dtype[Any], sizes: Sequence[int]) -> Array:
        """Of no elements: zeros, if that many are asked for."""
        shape = list(self.array.shape)
        for axis, size in zip(self.axes, sizes, strict=True):
            shape[axis] = size
        return zeros(tuple(shape), dtype=dtype)

    def _groups(
        self, array: Array, pairs: Sequence[tuple[int, int]]
    ) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Axes, and their sizes, that are transformed together, one group after the other."""
        groups: list[list[tuple[int, int]]] = []
        for pair in pairs:
            group = [*groups[-1], pair] if groups else []
            axes = [axis for axis, _ in group]
            if group and len(set(axes)) == len(axes) and _fit(array, group, not groups[1:]):
                groups[-1] = group
            else:
                groups.append([pair])
        return [
            (tuple(axis for axis, _ in group), tuple(size for _, size in group)) for group in groups
        ]

    def _along(
        self, array: Array, axes: tuple[int, ...], sizes: tuple[int, ...], kind: str
    ) -> Array:
        dtype = complex_type(array.dtype)
        if len(axes) == 1 and is_long(sizes[0] * dtype.itemsize):
            return transformed(_fitted(array, axes[0], sizes[0]), axes[0], kind, self.norm)
        return self._lines(kind, array, axes, sizes, dtype)

    def _lines(
        self,
        kind: str,
        array: Array,
        axes: tuple[int, ...],
        sizes: tuple[int, ...],
        dtype: np.dtype[Any],
    ) -> Array:
        lengths = (*sizes[:-1], sizes[-1] // 2 + 1) if kind == "rfftn" else sizes
        options = (("kind", kind), ("sizes", sizes), ("norm", self.norm))
        return of_lines(kind, by_numpy, options, array, axes, lengths, dtype, times=TIMES)


def _fit(array: Array, group: Sequence[tuple[int, int]], is_first: bool) -> bool:
    """Whether memory holds what lies along these axes, with as many others as are read at once."""
    plane = math.prod(size for _, size in group) * complex_type(array.dtype).itemsize
    if is_long(plane):
        return False
    if not is_first:
        # It is in temporary tiles of any shape.
        return True
    node, axes = node_of(array), {axis for axis, _ in group}
    others = [min(unit(node, a), n) for a, n in enumerate(array.shape) if a not in axes]
    return math.prod(others) * plane * _SLABS <= memory_budget()


def _fitted(array: Array, axis: int, n: int) -> Array:
    """The first elements along an axis, or all, with zeros behind them."""
    length = array.shape[axis]
    if n > length:
        return pad(array, [(0, n - length if a == axis else 0) for a in range(array.ndim)])
    return array[(slice(None),) * axis + (slice(n),)] if n < length else array
