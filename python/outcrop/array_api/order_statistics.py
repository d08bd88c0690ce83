"""Medians and quantiles, with NumPy's names and methods.

Of all elements, they are found at once, in two passes that write nothing. Along an axis, whole
lines are computed with, lazily, as long as some fit in memory.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outcrop.array_api.families import array_like, long_lines
from outcrop.array_api.manipulation_functions import expand_dims, moveaxis, reshape
from outcrop.arrays.array import Array
from outcrop.arrays.conversion import elements_of
from outcrop.arrays.source import MemorySource
from outcrop.errors import (
    BoxIndexError,
    BudgetError,
    InvalidArgumentError,
    InvalidTypeError,
)
from outcrop.expressions.build.lines import of_lines
from outcrop.expressions.build.reductions import axes_of_reduction
from outcrop.expressions.build.selection import selected
from outcrop.process.config import piece_limit
from outcrop.process.sizes import format_bytes

__all__ = [
    "median",
    "nanmedian",
    "nanpercentile",
    "nanquantile",
    "percentile",
    "quantile",
]

Axis = int | Sequence[int] | None

_EACH = 256
"""Bytes for a quantile while it is looked for."""


def median(x: Array, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """Find the medians over axes, as `numpy.median` does: NaN where there is one.

    Parameters
    ----------
    x : Array
        Numbers.
    axis : int or sequence of int, optional
        Over which axes. Default: all of them, in two passes over the elements that write nothing.
    keepdims : bool
        Whether the axes stay, with length 1.

    Returns
    -------
    Array
        Over all axes in memory, otherwise not computed yet.

    Raises
    ------
    BudgetError
        Memory has no room for a line along the axis, and there are many; when it is computed.

    Examples
    --------
    >>> float(oc.median(oc.asarray([[3, 7], [1, 4]])))
    3.5
    """
    return _found(_Middle(np.median), x, axis, keepdims)


def nanmedian(x: Array, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """Find the medians over axes of what is not NaN; otherwise as `median`.

    Examples
    --------
    >>> float(oc.nanmedian(oc.asarray([3, np.nan, 1])))
    2.0
    """
    return _found(_Middle(np.nanmedian, skips_nan=True), x, axis, keepdims)


def quantile(
    x: Array, /, q: Any, *, axis: Axis = None, method: str = "linear", keepdims: bool = False
) -> Array:
    """Find quantiles over axes, as `numpy.quantile` does: NaN where there is one.

    Parameters
    ----------
    x : Array
        Numbers that are not complex.
    q : float or array_like
        Which ones, from 0 to 1.
    axis : int or sequence of int, optional
        Over which axes. Default: all of them, in two passes over the elements that write nothing.
    method : str
        How they are estimated between two elements, by NumPy's names: ``"linear"``, ``"lower"``,
        ``"higher"``, ``"midpoint"``, ``"nearest"``, ``"inverted_cdf"``, ``"hazen"`` and so on.
    keepdims : bool
        Whether the axes stay, with length 1.

    Returns
    -------
    Array
        With the axes of `q` first. Over all axes in memory, otherwise not computed yet.

    Raises
    ------
    InvalidArgumentError
        A number is not from 0 to 1, or there is no such method.
    InvalidTypeError
        Of complex numbers, and where NumPy cannot interpolate.
    BudgetError
        Memory has no room for a line along the axis, and there are many; when it is computed.

    Examples
    --------
    >>> oc.quantile(oc.arange(11), [0.1, 0.5]).compute()
    array([1., 5.])
    """
    return _found(_Part.given(np.quantile, q, 1, method), x, axis, keepdims)


def percentile(
    x: Array, /, q: Any, *, axis: Axis = None, method: str = "linear", keepdims: bool = False
) -> Array:
    """Find percentiles over axes: `q` is from 0 to 100; otherwise as `quantile`.

    Examples
    --------
    >>> float(oc.percentile(oc.arange(11), 90))
    9.0
    """
    return _found(_Part.given(np.quantile, q, 100, method), x, axis, keepdims)


def nanquantile(
    x: Array, /, q: Any, *, axis: Axis = None, method: str = "linear", keepdims: bool = False
) -> Array:
    """Find quantiles over axes of what is not NaN; otherwise as `quantile`.

    Examples
    --------
    >>> float(oc.nanquantile(oc.asarray([1, np.nan, 2, 3]), 0.5))
    2.0
    """
    return _found(_Part.given(np.nanquantile, q, 1, method, skips_nan=True), x, axis, keepdims)


def nanpercentile(
    x: Array, /, q: Any, *, axis: Axis = None, method: str = "linear", keepdims: bool = False
) -> Array:
    """Find percentiles over axes of what is not NaN: `q` is from 0 to 100; otherwise as `quantile`.

    Examples
    --------
    >>> float(oc.nanpercentile(oc.asarray([1, np.nan, 2, 3]), 100))
    3.0
    """
    return _found(_Part.given(np.nanquantile, q, 100, method, skips_nan=True), x, axis, keepdims)


# -- what is asked for -----------------------------------------------------------------------------


class _Middle(NamedTuple):
    """The median."""

    function: Callable[..., Any]
    skips_nan: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Of what there is of each line."""
        return ()

    @property
    def options(self) -> tuple[tuple[str, Any], ...]:
        """What the function is told."""
        return ()

    def ranks(self, count: int) -> NDArray[np.intp]:
        """Which elements it takes, of so many."""
        return np.unique([max(count - 1, 0) // 2, count // 2]).astype(np.intp)

    def made(self, count: int, pick: Callable[[Any], NDArray[Any]]) -> Any:
        """What it is, by the elements of ranks."""
        return np.median(pick(self.ranks(count)))


class _Part(NamedTuple):
    """Quantiles."""

    function: Callable[..., Any]
    q: NDArray[Any]
    is_weak: bool
    method: str
    skips_nan: bool

    @classmethod
    def given(
        cls, function: Callable[..., Any], q: Any, whole: int, method: str, skips_nan: bool = False
    ) -> "_Part":
        """By numbers from 0 to `whole`."""
        is_weak = type(q) in (int, float)
        given = q.compute() if isinstance(q, Array) and q.ndim else elements_of(q)
        if given.dtype.kind not in "biuf":
            raise InvalidTypeError(f"quantiles are numbers, not of type {given.dtype}")
        if given.size * _EACH > piece_limit():
            raise BudgetError(
                f"{given.size} quantiles take {format_bytes(given.size * _EACH)}, and at most "
                f"{format_bytes(piece_limit())} of the memory budget are for that",
                given.size * _EACH * 8,
            )
        if whole != 1:
            given = np.asarray(np.true_divide(given, whole))
        if given.size and not (given.min() >= 0 and given.max() <= 1):
            raise InvalidArgumentError(f"quantiles must be in the range [0, {whole}]")
        if method not in _METHODS:
            raise InvalidArgumentError(
                f"{method!r} is not a valid method; use one of {', '.join(_METHODS)}"
            )
        return cls(function, given, is_weak, method, skips_nan)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of what there is of each line."""
        return self.q.shape

    @property
    def options(self) -> tuple[tuple[str, Any], ...]:
        """What the function is told; what can be compared."""
        q = self.q.item() if self.is_weak else _Numbers(self.q)
        return (("q", q), ("method", self.method))

    def _places(self, count: int) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[Any]]:
        """The ranks on either side, and how far it is from the first one to the second."""
        last, q = max(count - 1, 0), self.q.astype(np.float64)
        is_whole = self.method == "linear" and self.q.dtype.kind in "iu"
        at, gamma = _METHODS[self.method](count, q)
        below = np.clip(np.floor(at), 0, last).astype(np.intp)
        above = np.clip(np.floor(at) + 1, 0, last).astype(np.intp)
        inside = (at >= 0) & (at < last)
        # Before the first element, and behind the last one, there is but that.
        above = np.where(inside, above, below)
        return below, above, np.full(q.shape, -1.0) if gamma is None or is_whole else gamma

    def ranks(self, count: int) -> NDArray[np.intp]:
        """Which elements it takes, of so many."""
        below, above, _ = self._places(count)
        return np.unique(np.concatenate([below.reshape(-1), above.reshape(-1)]))

    def of_pair(self, low: Any, high: Any, gamma: float) -> Any:
        """What is between two elements, as NumPy computes it."""
        if gamma < 0:
            return low
        kind = self.q.dtype if self.q.dtype.kind == "f" else np.float64
        part = gamma if self.is_weak else np.asarray(gamma, kind)
        return np.quantile(np.array([low, high]), part)

    def made(self, count: int, pick: Callable[[Any], NDArray[Any]]) -> Any:
        """What they are, by the elements of ranks."""
        below, above, gamma = self._places(count)
        pairs = zip(
            pick(below.reshape(-1)), pick(above.reshape(-1)), gamma.reshape(-1), strict=True
        )
        made = [self.of_pair(low, high, float(part)) for low, high, part in pairs]
        return np.array(made).reshape(self.q.shape)


class _Numbers:
    """An array that can be compared, as an option of a function."""

    def __init__(self, array: NDArray[Any]) -> None:
        self._array = array
        self._key = array.tobytes(), array.shape, array.dtype.str

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self._array

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Numbers) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


# -- methods, by the names of NumPy ----------------------------------------------------------------

_Place = tuple[NDArray[Any], NDArray[Any] | None]
"""Where in the sorted elements a quantile is, and how far from the one before to the one behind;
None where it is an element."""


def _continuous(alpha: float, beta: float) -> Callable[[int, NDArray[Any]], _Place]:
    def place(count: int, q: NDArray[Any]) -> _Place:
        at = count * q + (alpha + q * (1 - alpha - beta)) - 1
        return at, at - np.floor(at)

    return place


def _linear(count: int, q: NDArray[Any]) -> _Place:
    at = (count - 1) * q
    return at, at - np.floor(at)


def _midpoint(count: int, q: NDArray[Any]) -> _Place:
    at = (count - 1) * q
    at = 0.5 * (np.floor(at) + np.ceil(at))
    return at, np.where(at % 1 == 0, 0.0, 0.5)


def _averaged(count: int, q: NDArray[Any]) -> _Place:
    at = count * q - 1
    return at, np.where(at % 1 == 0, 0.5, 1.0)


def _inverted(count: int, q: NDArray[Any]) -> _Place:
    return np.ceil(count * q - 1), None


def _closest(count: int, q: NDArray[Any]) -> _Place:
    at = count * q - 1.5
    below = np.floor(at)
    return np.where((at == below) & (below % 2 == 1), below, below + 1), None


_METHODS: dict[str, Callable[[int, NDArray[Any]], _Place]] = {
    "inverted_cdf": _inverted,
    "averaged_inverted_cdf": _averaged,
    "closest_observation": _closest,
    "interpolated_inverted_cdf": _continuous(0, 1),
    "hazen": _continuous(0.5, 0.5),
    "weibull": _continuous(0, 0),
    "linear": _linear,
    "median_unbiased": _continuous(1 / 3, 1 / 3),
    "normal_unbiased": _continuous(3 / 8, 3 / 8),
    "lower": lambda count, q: (np.floor((count - 1) * q), None),
    "higher": lambda count, q: (np.ceil((count - 1) * q), None),
    "midpoint": _midpoint,
    "nearest": lambda count, q: (np.around((count - 1) * q), None),
}


# -- where it is found -----------------------------------------------------------------------------


def _found(asked: _Middle | _Part, x: Any, axis: Any, keepdims: bool) -> Array:
    array = array_like(x)
    _by_numpy(asked, np.zeros(1, array.dtype), None)
    axes = axes_of_reduction(array.ndim, axis)
    rest = [a for a in range(array.ndim) if a not in axes]
    if not rest or all(array.shape[a] == 1 for a in rest):
        found = _of_all(asked, array)
        shape = tuple(array.shape[a] for a in rest)
        result = Array(MemorySource(found.reshape((*asked.shape, *shape)), owned=True))
    else:
        if len(axes) != 1:
            # Lines through several axes are those along one.
            moved = moveaxis(array, tuple(axes), tuple(range(len(rest), array.ndim)))
            array = reshape(moved, (*moved.shape[: len(rest)], -1))
            result = _along(asked, array, len(rest))
        else:
            result = _along(asked, array, axes[0])
    if keepdims:
        places = tuple(len(asked.shape) + a for a in sorted(axes))
        result = expand_dims(result, axis=places) if places else result
    return result


def _along(asked: _Middle | _Part, array: Array, axis: int) -> Array:
    """What is found along an axis, with the axes of what is asked for first."""
    if array.size == 0:
        made = _by_numpy(asked, np.empty(array.shape, array.dtype), axis)
        return Array(MemorySource(np.asarray(made), owned=True))
    if long_lines(array, axis):
        rows = moveaxis(array, axis, -1)
        places = np.ndindex(*rows.shape[:-1])
        found = [_of_all(asked, rows[at]) for at in places]
        made = np.stack(found, axis=-1).reshape((*asked.shape, *rows.shape[:-1]))
        return Array(MemorySource(made, owned=True))
    count = int(np.prod(asked.shape, dtype=np.intp))
    probe = np.asarray(_by_numpy(asked, np.zeros((1, 1), array.dtype), -1))
    made = of_lines(
        asked.function.__name__,
        _lines,
        (("function", asked.function), *asked.options),
        array,
        (axis,),
        (count,) if asked.shape else None,
        probe.dtype,
    )
    if not asked.shape:
        return made
    made = moveaxis(made, axis, 0)
    return made if len(asked.shape) == 1 else reshape(made, (*asked.shape, *made.shape[1:]))


def _by_numpy(asked: _Middle | _Part, block: NDArray[Any], axis: int | None) -> Any:
    try:
        return asked.function(block, axis=axis, **_told(dict(asked.options)))
    except TypeError as error:
        raise InvalidTypeError(str(error)) from None
    except IndexError:
        raise BoxIndexError("there are no quantiles of no elements") from None


def _told(options: dict[str, Any]) -> dict[str, Any]:
    """Options as NumPy takes them."""
    q = options.get("q")
    return {**options, "q": np.asarray(q)} if isinstance(q, _Numbers) else options


_WITH_NAN: dict[Any, Any] = {np.nanmedian: np.median, np.nanquantile: np.quantile}
"""What finds the same where nothing is NaN, for many lines at once."""


def _lines(block: NDArray[Any], function: Callable[..., Any], **options: Any) -> NDArray[Any]:
    """What NumPy finds of lines along the last axis, along the last axis."""
    if (same := _WITH_NAN.get(function)) is None:
        return _whole_lines(block, function, **options)
    if block.dtype.kind not in "fc":
        return _whole_lines(block, same, **options)
    # As many lines at once as have the same number of elements that are not NaN.
    ordered = np.sort(block, axis=-1)
    counts = np.count_nonzero(ordered == ordered, axis=-1)
    made: NDArray[Any] | None = None
    for count in np.unique(counts).tolist():
        rows = counts == count
        found = _whole_lines(ordered[rows][:, : count or 1], same if count else function, **options)
        if made is None:
            made = np.empty((*counts.shape, found.shape[-1]), found.dtype)
        made[rows] = found
    assert made is not None
    return made


def _whole_lines(block: NDArray[Any], function: Callable[..., Any], **options: Any) -> NDArray[Any]:
    """The same, in one call."""
    made = np.asarray(function(block, axis=-1, **_told(options)))
    more = made.ndim - (block.ndim - 1)
    return np.moveaxis(made.reshape((-1, *made.shape[more:])), 0, -1)


def _of_all(asked: _Middle | _Part, array: Array) -> NDArray[Any]:
    """What is found among all elements: by NumPy, if those are few."""
    if array.nbytes * _PASSES <= piece_limit():
        return np.asarray(_by_numpy(asked, array.compute(), None))
    counts = [0, 0]

    def ranks(count: int, missing: int) -> NDArray[np.intp]:
        counts[:] = count, missing
        found: list[int] = [] if _is_missing(asked, count, missing) else asked.ranks(count).tolist()
        return np.array(found, np.intp)

    found = selected(array, ranks)
    count, missing = counts
    if _is_missing(asked, count, missing):
        # As NumPy has it of what is nothing but NaN.
        return np.asarray(_by_numpy(asked, np.full(1, np.nan, array.dtype), None))

    def pick(wanted: Any) -> NDArray[Any]:
        picked: NDArray[Any] = found.values[np.searchsorted(found.ranks, wanted)]
        return picked

    return np.asarray(asked.made(count, pick))


_PASSES = 4
"""Copies of the elements that NumPy takes, at most."""


def _is_missing(asked: _Middle | _Part, count: int, missing: int) -> bool:
    return count == 0 or (missing > 0 and not asked.skips_nan)
