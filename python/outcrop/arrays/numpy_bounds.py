"""How much memory NumPy's own functions take: their results and what they work with.

A function that Outcrop has not itself is NumPy's on the elements in memory. Before any is read,
what that will take is told from shapes and types alone, by the table here: an upper bound, often a
generous one, that `tests/memory/test_every_function.py` measures. What has no bound is not done.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outcrop.arrays.conversion import bytes_to_convert

__all__ = ["BOUNDS", "BY_SHAPE", "Call"]

_COMPLEX = 16
_BLOCKS = 256
"""Columns that LAPACK's workspaces have at most, for the blocks that it works in."""


class Call:
    """What a function is called with, where arrays have shapes and types but no elements."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._arguments = arguments
        self.arrays = list(_arrays(arguments.values()))

    def __getattr__(self, name: str) -> Any:
        return self._arguments.get(name)

    @property
    def wide(self) -> int:
        """Bytes of all arrays, in the types that NumPy computes in."""
        least = max([8, *(_ELEMENT.get(x.dtype.kind, 0) for x in self.arrays)])
        return sum(x.size * max(x.dtype.itemsize, least) for x in self.arrays)

    @property
    def broadcast(self) -> int:
        """Bytes of an array of the shape that all broadcast to."""
        return _COMPLEX * math.prod(_broadcast([x.shape for x in self.arrays]))


_ELEMENT = {"O": 56, "S": 64, "U": 256, "V": 64}
"""Bytes for an element of any array, where one of them has other elements than numbers."""


def _arrays(values: Any) -> Iterator[NDArray[Any]]:
    for value in values:
        if isinstance(value, np.ndarray | np.generic):
            yield np.asarray(value)
        elif isinstance(value, list | tuple):
            kinds = set(map(type, value))
            if value and all(issubclass(kind, int | float | complex) for kind in kinds):
                yield _of(len(value), _is_beyond(value, kinds))
            elif value and kinds <= {str, bytes}:
                yield _of(len(value) * -(-max(map(len, value)) // 64), "U1")
            else:
                yield from _arrays(value)
        elif isinstance(value, Mapping):
            yield from _arrays(value.values())
        elif not isinstance(value, str | bytes):
            # A sequence of another kind, or what makes an array of itself.
            nbytes = bytes_to_convert(value)
            if nbytes:
                yield _of(
                    max(len(value) if isinstance(value, Sized) else 0, -(-nbytes // _COMPLEX))
                )
            elif isinstance(value, Sequence):
                yield np.asarray(value)


def _of(count: int, dtype: Any = complex) -> NDArray[Any]:
    return np.broadcast_to(np.zeros((), dtype), (count,))


def _is_beyond(values: Sequence[Any], kinds: set[type]) -> Any:
    """The type of Python numbers: objects, where an integer is too large for any other."""
    beyond = int in kinds and any(type(x) is int and not -(2**63) <= x < 2**64 for x in values)
    return object if beyond else complex


def _wide(x: NDArray[Any]) -> int:
    return x.size * max(x.dtype.itemsize, 8)


def _broadcast(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    """At least what shapes broadcast to, also where they do not."""
    ndim = max(map(len, shapes), default=0)
    full = [(1,) * (ndim - len(shape)) + tuple(shape) for shape in shapes]
    return tuple(min(e) if 0 in e else max(e) for e in zip(*full, strict=True))


def _times(factor: float) -> Callable[[Call], Any]:
    """So many times what the arrays take."""
    return lambda call: factor * call.wide


def _broadcasting(factor: float) -> Callable[[Call], Any]:
    return lambda call: factor * call.broadcast + 2 * call.wide


def _size(x: Any) -> int:
    return int(np.size(x))


# -- linear algebra: matrices of m rows and n columns, a stack of `count` --------------------------


def _stack(a: Any) -> tuple[int, int, int, int]:
    """How many matrices, of how many rows and columns, and the bytes of an element."""
    if np.ndim(a) < 2:
        return 1, _size(a), 1, _COMPLEX
    *stack, m, n = np.shape(a)
    return math.prod(stack), m, n, max(np.asarray(a).dtype.itemsize, 8)


def _workspace(m: int, n: int) -> int:
    """Elements that LAPACK has for blocks of rows or columns, and for norms and reflectors."""
    return 3 * _BLOCKS * min(m, n) + 8 * (m + n)


def _factored(
    results: Callable[[int, int], int], work: Callable[[int, int], int]
) -> Callable[[Call], Any]:
    """By the elements that result for one matrix, and those that it is made in."""

    def bound(call: Call) -> Any:
        count, m, n, itemsize = _stack(call.a if call.a is not None else call.x)
        made = 3 * count * results(m, n) + work(m, n) + _workspace(m, n)
        return itemsize * made + 2 * call.wide

    return bound


def _singular(full: bool | None, a: Any, factors: bool) -> float:
    count, m, n, itemsize = _stack(a)
    k = min(m, n)
    each = (m * m + n * n) if full else (m + n) * k
    each = each if factors else 0
    work = m * n + each + 10 * k * k + 2 * _workspace(m, n)
    return itemsize * (count * (2 * each + 2 * k + m * n) + work)


def _svd(call: Call) -> Any:
    full = True if call.full_matrices is None else call.full_matrices
    factors = True if call.compute_uv is None else call.compute_uv
    return _singular(full, call.a, factors) + (10 if call.hermitian else 2) * call.wide


def _singular_values(call: Call) -> Any:
    given = next(x for x in (call.x, call.A, call.a) if x is not None)
    return _singular(False, given, False) + 6 * call.wide + _inverse(given)


def _inverse(a: Any) -> float:
    count, m, n, itemsize = _stack(a)
    return itemsize * (2 * count * m * n + 3 * max(m, n) ** 2)


def _pinv(call: Call) -> Any:
    return _singular(False, call.a, True) + (14 if call.hermitian else 6) * call.wide


def _qr(call: Call) -> Any:
    count, m, n, itemsize = _stack(call.a)
    k = m if call.mode == "complete" else min(m, n)
    each = m * k + k * n
    return itemsize * (3 * count * each + 3 * each + _workspace(m, n)) + 3 * call.wide


def _lstsq(call: Call) -> Any:
    _, m, n, itemsize = _stack(call.a)
    right = _size(call.b) // max(m, 1) or 1
    return _least_squares(m, n, right, max(itemsize, _itemsize(call.b))) + 2 * call.wide


def _least_squares(m: int, n: int, right: int, itemsize: int) -> float:
    k, longest = min(m, n), max(m, n)
    work = 6 * k * k + 1000 * k + 2 * k * right + 2 * _workspace(m, n)
    return itemsize * (4 * m * n + 5 * longest * right + work)


def _itemsize(x: Any) -> int:
    return max(int(np.asarray(x).dtype.itemsize), 8)


def _cov(call: Call) -> Any:
    rows = 0
    for x in (call.m if call.m is not None else call.x, call.y):
        if x is not None:
            by_rows = call.rowvar is None or call.rowvar or np.ndim(x) < 2
            rows += (np.shape(x) if np.ndim(x) > 1 else (1, _size(x)))[0 if by_rows else 1]
    return 7 * call.wide + 5 * _COMPLEX * rows**2


# -- polynomials -----------------------------------------------------------------------------------


def _polyfit(call: Call) -> Any:
    m, right = _size(call.x), max(_size(call.y) // max(_size(call.x), 1), 1)
    n = int(np.max(call.deg)) + 1
    return _COMPLEX * 4 * m * n + _least_squares(m, n, right, _COMPLEX) + 4 * call.wide


def _vander(call: Call) -> Any:
    return 3 * _wide(call.x) * (_size(call.x) if call.N is None else call.N)


def _roots(call: Call) -> Any:
    n = _size(call.p)
    return _COMPLEX * (8 * n * n + _BLOCKS * n)


def _poly(call: Call) -> Any:
    return 16 * call.wide + _COMPLEX * _BLOCKS * _size(call.seq_of_zeros)


# -- arranging -------------------------------------------------------------------------------------


def _resize(call: Call) -> Any:
    size = math.prod(np.atleast_1d(call.new_shape).tolist())
    return 4 * (size + _size(call.a)) * _itemsize(call.a)


def _unpackbits(call: Call) -> Any:
    shape = np.shape(call.a)
    extent = _size(call.a) if call.axis is None else shape[call.axis]
    bits = max(8 * extent, call.count or 0)
    return 2 * (_size(call.a) // max(extent, 1)) * bits + 2 * call.wide


def _insert(call: Call) -> Any:
    extent = _size(call.arr) if call.axis is None else np.shape(call.arr)[call.axis]
    values = _size(call.values) if call.axis is None or _size(call.obj) == 1 else 0
    new = max(_size(call.obj), values)
    if isinstance(call.obj, slice):
        new = extent
    across = _size(call.arr) // max(extent, 1)
    return 5 * call.wide + 3 * across * new * _itemsize(call.arr)


def _diagflat(call: Call) -> Any:
    return 2 * _itemsize(call.v) * (_size(call.v) + abs(call.k or 0)) ** 2 + 2 * call.wide


def _kron(call: Call) -> Any:
    return 3 * _size(call.a) * _size(call.b) * max(_itemsize(call.a), _itemsize(call.b))


def _meshgrid(call: Call) -> Any:
    if call.sparse:
        return 2 * call.wide
    return 2 * math.prod(x.size for x in call.arrays) * sum(_itemsize(x) for x in call.arrays)


def _take_along(call: Call) -> Any:
    shapes = [np.shape(call.indices)]
    if call.axis is None or np.ndim(call.arr) == np.ndim(call.indices):
        rest = list(np.shape(call.arr)) if np.ndim(call.indices) == np.ndim(call.arr) else [1]
        axis = 0 if call.axis is None and len(rest) == 1 else call.axis
        rest[-1 if axis is None else axis] = 1
        shapes.append(tuple(rest))
    return 4 * _COMPLEX * math.prod(_broadcast(shapes)) + 4 * call.wide


def _unravel(call: Call) -> Any:
    return (np.size(call.shape) + 3) * call.wide


def _spaced(call: Call) -> Any:
    num = 50 if call.num is None else call.num
    return 8 * call.broadcast * max(num, 1)


def _trim(call: Call) -> Any:
    return (4 + 4 * np.ndim(call.filt)) * call.wide


# -- counting --------------------------------------------------------------------------------------


def _bins(call: Call, axes: int) -> int:
    bins: Any = 10 if call.bins is None else call.bins
    each: Any = [bins] * axes if np.ndim(bins) == 0 else list(bins)
    if len(each) != axes:
        each = [each] * axes
    return math.prod((int(b) if np.ndim(b) == 0 else len(b)) + 2 for b in each)


def _histogram2d(call: Call) -> Any:
    return 16 * call.wide + 8 * 8 * _bins(call, 2)


def _histogramdd(call: Call) -> Any:
    sample = call.sample
    if isinstance(sample, list | tuple):
        axes = len(sample)
    else:
        axes = np.shape(sample)[1] if np.ndim(sample) > 1 else 1
    return 16 * call.wide + 8 * 8 * _bins(call, axes)


def _bin_edges(call: Call) -> Any:
    if isinstance(call.bins, str):
        # How many there will be lies in the elements.
        return math.inf
    return 4 * call.wide + 64 * (
        10 if call.bins is None else max(_size(call.bins), int(np.max(call.bins)))
    )


# -- text and files --------------------------------------------------------------------------------

_CHARACTERS = 2000
"""Bytes for the text of an element, in all lines and lists that it is part of."""


def _text(call: Call) -> Any:
    options = np.get_printoptions()
    threshold = options["threshold"] if call.threshold is None else call.threshold
    edge = options["edgeitems"] if call.edgeitems is None else call.edgeitems
    x = call.arrays[0]
    shown = x.size if x.size <= threshold else math.prod(min(e, 2 * edge + 1) for e in x.shape)
    return _CHARACTERS * shown + call.wide * (x.size <= threshold)


def _written(call: Call) -> Any:
    return min(call.wide, 64 << 20)


def _compressed(call: Call) -> Any:
    return (1 << 19) + min(4 * call.wide, 256 << 20)


def _savetxt(call: Call) -> Any:
    columns = np.shape(call.X)[1] if np.ndim(call.X) > 1 else 1
    return _CHARACTERS * columns + 2 * call.wide


def _triangle(call: Call) -> Any:
    return 5 * 8 * _size(call.arr)


def _on_diagonal(call: Call) -> Any:
    return 8 * (np.shape(call.arr) or (0,))[0]


_LINALG: dict[str, Callable[[Call], Any]] = {
    "cholesky": _factored(lambda m, n: m * n, lambda m, n: 2 * m * n),
    "cond": _singular_values,
    "cross": _broadcasting(8),
    "det": _factored(lambda m, n: 1, lambda m, n: 2 * m * n),
    "eig": _factored(lambda m, n: 2 * m * (n + 1), lambda m, n: 8 * m * n),
    "eigh": _factored(lambda m, n: m * (n + 1), lambda m, n: 6 * m * n),
    "eigvals": _factored(lambda m, n: 2 * m, lambda m, n: 4 * m * n),
    "eigvalsh": _factored(lambda m, n: m, lambda m, n: 3 * m * n),
    "inv": _factored(lambda m, n: m * n, lambda m, n: 3 * m * n),
    "lstsq": _lstsq,
    "matrix_power": lambda call: 6 * call.wide + _inverse(call.a),
    "matrix_rank": _singular_values,
    "pinv": _pinv,
    "qr": _qr,
    "slogdet": _factored(lambda m, n: 2, lambda m, n: 2 * m * n),
    "solve": lambda call: 4 * call.wide + _inverse(call.a) + call.broadcast,
    "svd": _svd,
    "svdvals": _singular_values,
    "tensorinv": _times(12),
    "tensorsolve": _times(8),
}

_MAIN: dict[str, Callable[[Call], Any]] = {
    "argpartition": _times(3),
    "array2string": _text,
    "array_repr": _text,
    "array_str": _text,
    "ascontiguousarray": _times(3),
    "asfortranarray": _times(3),
    "block": _times(5),
    "choose": lambda call: 4 * call.wide + call.broadcast,
    "convolve": _times(5),
    "copy": _times(1),
    "corrcoef": _cov,
    "correlate": _times(5),
    "cov": _cov,
    "cross": _broadcasting(8),
    "delete": _times(3),
    "diag_indices_from": _on_diagonal,
    "diagflat": _diagflat,
    "ediff1d": _times(3),
    "einsum_path": lambda call: 0,
    "fill_diagonal": _times(2),
    "geomspace": _spaced,
    "histogram2d": _histogram2d,
    "histogram_bin_edges": _bin_edges,
    "histogramdd": _histogramdd,
    "insert": _insert,
    "intersect1d": _times(12),
    "ix_": _times(3),
    "kron": _kron,
    "lexsort": _times(4),
    "linspace": _spaced,
    "logspace": _spaced,
    "meshgrid": _meshgrid,
    "packbits": _times(2),
    "place": _times(3),
    "poly": _poly,
    "polyadd": _times(5),
    "polyder": _times(5),
    "polydiv": _times(8),
    "polyfit": _polyfit,
    "polyint": lambda call: 5 * call.wide + 64 * int(call.m or 1),
    "polymul": _times(8),
    "polysub": _times(5),
    "polyval": _times(6),
    "put": _times(3),
    "put_along_axis": _take_along,
    "putmask": _times(3),
    "ravel_multi_index": lambda call: 4 * call.wide + call.broadcast,
    "real_if_close": _times(4),
    "require": _times(3),
    "resize": _resize,
    "roots": _roots,
    "save": _written,
    "savetxt": _savetxt,
    "savez": _written,
    "savez_compressed": _compressed,
    "select": _broadcasting(3),
    "setdiff1d": _times(12),
    "setxor1d": _times(12),
    "sort_complex": _times(8),
    "tril_indices_from": _triangle,
    "trim_zeros": _trim,
    "triu_indices_from": _triangle,
    "union1d": _times(12),
    "unpackbits": _unpackbits,
    "unravel_index": _unravel,
    "unwrap": _times(12),
    "vander": _vander,
}

_SCIMATH = ("arccos", "arcsin", "arctanh", "log", "log10", "log2", "logn", "power", "sqrt")

BOUNDS: dict[str, Callable[[Call], Any]] = {
    **{f"numpy.linalg.{name}": bound for name, bound in _LINALG.items()},
    **{f"numpy.{name}": bound for name, bound in _MAIN.items()},
    **{f"numpy.lib.scimath.{name}": _broadcasting(6) for name in _SCIMATH},
}
"""Bytes that a function takes at most beside the arrays that it is given, by its full name."""

BY_SHAPE = frozenset(
    f"numpy.{name}"
    for name in ("diag_indices_from", "einsum_path", "tril_indices_from", "triu_indices_from")
)
"""Functions that ask for shapes and types only, and are given no elements."""
