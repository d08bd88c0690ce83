"""Transforms along an axis that memory has no room for a line of.

A line of n1 * n2 elements is seen as a matrix, row by row. Its columns are transformed, each
element is multiplied by a root of unity, and the rows are transformed; the result is read off by
columns (Gentleman and Sande's four steps). `n1` is the least with which a row fits in memory, so
that pieces of the line are long. Everything is read and written three times.

Of a line in tiles, a column would take a little of one tile of each row, more than memory holds. It
is seen as n1 * n2 * n3 elements then: of n1 tiles at a time those that are n2 * n3 elements apart
are transformed, and the n2 * n3 that belong together afterwards, which are read once, stay in
memory for the other two. So that is three times as well.

Lines of a length that has no such factors are convolved, as longer ones that have them (Bluestein's
algorithm); which is done at once.
"""

import math
from functools import lru_cache, partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from outcrop.array_api.elementwise_functions import conj
from outcrop.array_api.families import is_long
from outcrop.array_api.manipulation_functions import concat, pad, reshape, swapaxes
from outcrop.arrays.array import Array
from outcrop.arrays.creation import of_indices
from outcrop.arrays.operands import shown
from outcrop.expressions.build.lines import of_lines
from outcrop.expressions.build.materializing import materialize
from outcrop.expressions.tiling.parts import STAYS
from outcrop.process.config import memory_budget
from outcrop.process.operation import operation
from outcrop.reorganize.turning import permute_dims

__all__ = ["TIMES", "Norm", "by_numpy", "complex_type", "half_of_real", "transformed"]

Norm = Literal["backward", "ortho", "forward"]

TIMES = 2
"""How many times the bytes of what it is given NumPy takes: for the result, and for what it is made
of where there are several axes."""

_TOGETHER = 64
"""Columns that memory has room for, at least."""


def complex_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type of what numbers of a type become."""
    single = dtype.char in "efF"
    return np.dtype(np.complex64 if single else np.complex128)


def by_numpy(block: NDArray[Any], kind: str, sizes: tuple[int, ...], norm: Norm) -> NDArray[Any]:
    """What NumPy makes of the last axes, cropped to these sizes, or with zeros behind."""
    made: NDArray[Any] = getattr(np.fft, kind)(block, sizes, range(-len(sizes), 0), norm)
    return made


def transformed(array: Array, axis: int, kind: str, norm: Norm) -> Array:
    """The transform along an axis, however long it is.

    Parameters
    ----------
    array : Array
        Numbers.
    axis : int
        Along which axis; not negative.
    kind : {"fftn", "ifftn"}
        Forward or backward.
    norm : {"backward", "ortho", "forward"}
        Which of the two divides.

    Returns
    -------
    Array
        Of complex numbers, not computed yet.
    """
    n, dtype = array.shape[axis], complex_type(array.dtype)
    if not is_long(n * dtype.itemsize):
        options = (("kind", kind), ("sizes", (n,)), ("norm", norm))
        return of_lines(kind[:-1], by_numpy, options, array, (axis,), (n,), dtype, times=TIMES)
    factors: tuple[int, ...] | None = _factors_by_tiles(array, axis, dtype.itemsize)
    if factors is None:
        rows = _rows(n, dtype.itemsize)
        if rows is None:
            return _by_convolution(array, axis, kind, norm)
        factors = rows, n // rows
    shape = array.shape
    made, length = reshape(array, (*shape[:axis], *factors, *shape[axis + 1 :])), n
    for place, factor in enumerate(factors):
        made = transformed(made, axis + place, kind, norm)
        if place + 1 < len(factors):
            made = _turned(made, axis + place, len(factors) - place, length, kind)
        length //= factor
    behind = axis + len(factors)
    order = (*range(axis), *reversed(range(axis, behind)), *range(behind, made.ndim))
    return reshape(permute_dims(made, order), shape)


def half_of_real(array: Array, axis: int, norm: Norm) -> Array | None:
    """The first half of the transform of real numbers along an axis, and the element behind.

    The other half are the conjugates of these, and so it is with the columns of the matrix that a
    line is seen as: half of its rows are computed. None where the line is short, or is not cut into
    an even number of rows of even length.
    """
    n, dtype = array.shape[axis], complex_type(array.dtype)
    if not is_long(n * dtype.itemsize):
        return None
    rows = _rows(n, dtype.itemsize)
    if rows is None or rows % 2 or (n // rows) % 2:
        return None
    half, length = rows // 2, n // rows
    options = (("kind", "rfftn"), ("sizes", (rows,)), ("norm", norm))
    matrix = _as_matrix(array, axis, rows)
    columns = of_lines("rfft", by_numpy, options, matrix, (axis,), (half + 1,), dtype, times=TIMES)
    made = transformed(_turned(columns, axis, 2, n, "fftn"), axis + 1, "fftn", norm)
    before = (slice(None),) * axis
    # In row k1 and column k2 is the frequency k1 + rows * k2, and what is in the rows that are not
    # there has the conjugate at its negative.
    there = made[(*before, slice(None), slice(length // 2))]
    mirrored = made[(*before, slice(half - 1, 0, -1), slice(None, length // 2 - 1, -1))]
    whole = concat([there, conj(mirrored)], axis=axis)
    shape = (*array.shape[:axis], n // 2, *array.shape[axis + 1 :])
    first = reshape(swapaxes(whole, axis, axis + 1), shape)
    return concat([first, made[(*before, 0, slice(length // 2, length // 2 + 1))]], axis=axis)


def _as_matrix(array: Array, axis: int, rows: int) -> Array:
    shape = array.shape
    return reshape(array, (*shape[:axis], rows, shape[axis] // rows, *shape[axis + 1 :]))


def _of_unity(
    n: int, sign: int, char: str, extents: tuple[int, ...], row: NDArray[Any], *rest: NDArray[Any]
) -> NDArray[Any]:
    column = rest[0]
    for extent, index in zip(extents[2:], rest[1:], strict=True):
        column = column * extent + index
    # Their product is less than n.
    return _roots(n, sign, char)(row * column)


def _turned(columns: Array, axis: int, count: int, n: int, kind: str) -> Array:
    """Each element times the root of unity that belongs to its row and column.

    The columns are counted along one axis, or along several.
    """
    shape = columns.shape[axis : axis + count]
    sign = -1 if kind == "fftn" else 1
    roots = partial(_of_unity, n, sign, columns.dtype.char, shape)
    turn = of_indices(roots, shape, columns.dtype)
    made: Array = columns * turn[(..., *(None,) * (columns.ndim - axis - count))]
    return made


def _factors_by_tiles(array: Array, axis: int, itemsize: int) -> tuple[int, int, int] | None:
    """Into what a line is cut of which memory holds a tile of a few pieces only.

    None where it holds one of each row of a matrix, or where what is handed on has no room.
    """
    own = shown(array)
    if own is None or own.store.layout != "tiled":
        return None
    n, tile = array.shape[axis], own.store.tile
    beside = math.prod(
        min(t, m) for a, (t, m) in enumerate(zip(tile, array.shape, strict=True)) if a != axis
    )
    stored = min(tile[axis], n) * beside * array.dtype.itemsize
    room = memory_budget() // STAYS
    rows = _rows(n, itemsize)
    # With as much again free, tiles of one row after the other are loaded ahead.
    if rows is None or rows * stored * 2 <= room:
        return None

    def kept(first: int) -> int:
        return max(first * stored, n // first * beside * itemsize)

    first = min(_divisors(n)[1:], key=kept, default=0)
    if not first or kept(first) > room:
        return None
    rest = n // first
    for second in _divisors(rest):
        third = rest // second
        if (
            second > 1
            and not is_long(2 * third * itemsize)
            and not is_long(second * _TOGETHER * itemsize)
        ):
            return first, second, third
    return None


def _rows(n: int, itemsize: int) -> int | None:
    """How many rows a line is cut into; None where it has no such factors."""
    fitting = [d for d in _divisors(n) if d > 1 and not is_long(d * _TOGETHER * itemsize)]
    for d in fitting:
        if not is_long(n // d * itemsize):
            return d
    # Rows that are cut again, if they can be.
    return next((d for d in reversed(fitting) if _rows(n // d, itemsize) is not None), None)


@lru_cache(maxsize=64)
def _divisors(n: int) -> tuple[int, ...]:
    """All numbers that divide one, but itself, ascending."""
    small = np.arange(1, math.isqrt(n) + 1)
    low = small[n % small == 0].tolist()
    return tuple(sorted({*low, *(n // d for d in low)} - {n}))


class _Roots:
    """Powers of a root of unity, to rounding: each the product of two that are known."""

    def __init__(self, n: int, sign: int, char: str) -> None:
        self._bits = max(n.bit_length() // 2, 1)
        step = 1 << self._bits
        self._low = _on_circle(np.arange(step), n, sign).astype(char)
        self._high = _on_circle(np.arange(0, n, step), n, sign).astype(char)

    def __call__(self, powers: NDArray[Any]) -> NDArray[Any]:
        made: NDArray[Any] = self._high[powers >> self._bits]
        made *= self._low[powers & ((1 << self._bits) - 1)]
        return made


@lru_cache(maxsize=8)
def _roots(n: int, sign: int, char: str) -> _Roots:
    return _Roots(n, sign, char)


def _on_circle(powers: NDArray[Any], n: int, sign: int) -> NDArray[np.complex128]:
    """``exp(sign * 2j * pi * powers / n)``, from angles of at most an eighth of the circle."""
    eighths = (8 * powers + n // 2) // n
    angle = (8 * powers - eighths * n) * (np.pi / 4 / n)
    quarter = np.array([1, np.exp(0.25j * np.pi)])[eighths % 2]
    made: NDArray[np.complex128] = (np.cos(angle) + 1j * np.sin(angle)) * quarter
    made *= np.array([1, 1j, -1, -1j])[eighths // 2 % 4]
    return made if sign > 0 else np.conjugate(made)


# -- any length ------------------------------------------------------------------------------------


def _by_convolution(array: Array, axis: int, kind: str, norm: Norm) -> Array:
    """The transform, of any length: j * k is (j**2 + k**2 - (k - j)**2) / 2.

    Its three longer ones are computed at once, in scratch.
    """
    n, dtype = array.shape[axis], complex_type(array.dtype)
    sign, m = -1 if kind == "fftn" else 1, _next_smooth(2 * n - 1)
    behind = (None,) * (array.ndim - axis - 1)
    chirp, opposite = partial(_chirp, n, sign), partial(_opposite_chirp, n, m, -sign)

    def along(made: Array) -> Array:
        return made[(..., *behind)]

    own = along(of_indices(chirp, n, dtype))
    widths = [(0, m - n if a == axis else 0) for a in range(array.ndim)]
    with operation():
        (spectrum,) = materialize(transformed(pad(array * own, widths), axis, "fftn", "backward"))
        (other,) = materialize(transformed(of_indices(opposite, m, dtype), 0, "fftn", "backward"))
        (made,) = materialize(transformed(spectrum * along(other), axis, "ifftn", "backward"))
    result: Array = made[(slice(None),) * axis + (slice(n),)] * own
    # The sums are of neither: they divide by nothing.
    by = {"ortho": math.sqrt(n), "forward": n if sign < 0 else 1, "backward": n if sign > 0 else 1}
    if by[norm] != 1:
        result = result / dtype.type(by[norm])
    return result


def _next_smooth(n: int) -> int:
    """The least product of twos, threes and fives that is not less."""
    best = 1 << (n - 1).bit_length()
    five = 1
    while five < best:
        three = five
        while three < best:
            best = min(best, three << max((-(-n // three) - 1).bit_length(), 0))
            three *= 3
        five *= 5
    return best


_DIGIT = 20


def _chirp(n: int, sign: int, i: NDArray[Any]) -> NDArray[np.complex128]:
    return _on_circle(_square_modulo(i, 2 * n), 2 * n, sign)


def _opposite_chirp(n: int, m: int, sign: int, i: NDArray[Any]) -> NDArray[np.complex128]:
    distance = np.minimum(i, m - i)
    return np.where(distance < n, _chirp(n, sign, np.minimum(distance, n - 1)), 0)


def _square_modulo(i: NDArray[Any], n: int) -> NDArray[Any]:
    """The square's remainder, of indices and for divisors of up to 42 bits."""
    high, low = i >> _DIGIT, i & ((1 << _DIGIT) - 1)
    found = (high * high % n << _DIGIT) + 2 * high * low
    return ((found % n << _DIGIT) + low * low) % n
