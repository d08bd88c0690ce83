"""Random arrays that are made where they are needed, and never stored.

Which number stands where depends on the seed, on which array of a generator it is, and on the shape
alone: not on tiles, threads, or the order in which parts are read. It is not the same as NumPy's.
"""

import itertools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from outcrop.arrays.array import Array
from outcrop.arrays.public_names import only_public
from outcrop.arrays.source import Source, default_tile
from outcrop.arrays.views import View
from outcrop.checks import as_dtype, check_shape
from outcrop.errors import InvalidArgumentError, UnsupportedError

__all__ = ["Generator", "default_rng"]

_BLOCK = 4096
"""Elements that are made together."""

_SIDE = 64
"""Of them, along the last axis."""

Draw = Callable[[np.random.Generator, tuple[int, ...]], NDArray[Any]]


class RandomSource(Source):
    """Random numbers, made by a counter-based generator (Philox) in blocks of some thousands."""

    layout = "function"
    read_only_reason = "its elements are random"
    calls_back = False

    def __init__(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], key: tuple[int, int], draw: Draw
    ) -> None:
        self.shape, self.dtype = shape, dtype
        self.tile = default_tile(shape, dtype)
        self._key, self._draw = key, draw
        block, room = [], _BLOCK
        for axis, n in enumerate(reversed(shape)):
            extent = max(min(n, room if axis else min(room, _SIDE)), 1)
            block.append(extent)
            room = max(room // extent, 1)
        self.grain = self._block = tuple(reversed(block))
        self._counts = tuple(-(-n // b) for n, b in zip(shape, self._block, strict=True))

    def describe(self, selection: str) -> str:
        return f"random{selection}"

    def read(self, view: View) -> NDArray[Any]:
        start, shape = view.box
        box = np.empty(shape, self.dtype)
        if box.size:
            self._fill(start, box)
        return view.apply(box).copy()

    def _fill(self, start: Sequence[int], box: NDArray[Any]) -> None:
        spans = [
            range(s // b, -(-(s + n) // b))
            for s, n, b in zip(start, box.shape, self._block, strict=True)
        ]
        for coords in itertools.product(*spans):
            index = 0
            for i, n in zip(coords, self._counts, strict=True):
                index = index * n + i
            bits = np.random.Philox(key=self._key, counter=[0, index, 0, 0])
            made = self._draw(np.random.Generator(bits), self._block)
            source, target = [], []
            for i, b, s, n in zip(coords, self._block, start, box.shape, strict=True):
                low, high = max(i * b, s), min((i + 1) * b, s + n)
                source.append(slice(low - i * b, high - i * b))
                target.append(slice(low - s, high - s))
            box[tuple(target)] = made[tuple(source)]


def _drawn(
    name: str, options: Mapping[str, Any], rng: np.random.Generator, shape: tuple[int, ...]
) -> NDArray[Any]:
    """What a method of NumPy's generators gives."""
    made: NDArray[Any] = getattr(rng, name)(**options, size=shape)
    return made


class Generator:
    """Makes random arrays, each from numbers of its own.

    Parameters
    ----------
    seed : int, optional
        The same seed gives the same arrays, call by call. Default: another one each time.
    """

    def __init__(self, seed: int | None = None) -> None:
        try:
            state = np.random.SeedSequence(seed).generate_state(1, np.uint64)
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(f"a seed of {seed!r}: {error}") from None
        self._seed = int(state[0])
        self._stream = itertools.count()

    def _array(self, size: Any, dtype: np.dtype[Any], draw: Draw) -> Array:
        shape = check_shape(() if size is None else size, dtype)
        source = RandomSource(shape, dtype, (self._seed, next(self._stream)), draw)
        return Array(source, View.whole(shape))

    def random(self, size: Any = None, dtype: DTypeLike = np.float64) -> Array:
        """Numbers between 0 and 1, all alike.

        Examples
        --------
        >>> A = oc.random.default_rng(1).random((1000, 1000))
        >>> bool(A[5:7, 3].compute().tobytes() == A[3:9, 2:5].compute()[2:4, 1].tobytes())
        True
        """
        kind = _floating(dtype)
        return self._array(size, kind, partial(_drawn, "random", {"dtype": kind}))

    def standard_normal(self, size: Any = None, dtype: DTypeLike = np.float64) -> Array:
        """Numbers of the standard normal distribution."""
        kind = _floating(dtype)
        return self._array(size, kind, partial(_drawn, "standard_normal", {"dtype": kind}))

    def normal(self, loc: float = 0.0, scale: float = 1.0, size: Any = None) -> Array:
        """Numbers of a normal distribution with this mean and standard deviation."""
        if not scale >= 0:
            raise InvalidArgumentError("scale < 0")
        draw = partial(_drawn, "normal", {"loc": loc, "scale": scale})
        return self._array(size, np.dtype(np.float64), draw)

    def uniform(self, low: float = 0.0, high: float = 1.0, size: Any = None) -> Array:
        """Numbers between two others, all alike."""
        if not math.isfinite(high - low) or high < low:
            raise InvalidArgumentError(f"there are no numbers between {low} and {high}")
        draw = partial(_drawn, "uniform", {"low": low, "high": high})
        return self._array(size, np.dtype(np.float64), draw)

    def integers(
        self, low: int, high: int | None = None, size: Any = None, dtype: DTypeLike = np.int64
    ) -> Array:
        """Integers from `low` on and below `high`, or below `low`, all alike."""
        first, end = (0, operator.index(low)) if high is None else map(operator.index, (low, high))
        kind = as_dtype(dtype)
        if kind.kind not in "iub":
            raise UnsupportedError(f"integers of type {kind}")
        # NumPy's own complaints.
        try:
            np.random.Generator(np.random.Philox()).integers(first, end, 1, dtype=kind)
        except ValueError as error:
            raise InvalidArgumentError(str(error)) from None
        draw = partial(_drawn, "integers", {"low": first, "high": end, "dtype": kind})
        return self._array(size, kind, draw)


def _floating(dtype: DTypeLike) -> np.dtype[Any]:
    kind = as_dtype(dtype)
    if kind not in (np.float32, np.float64):
        raise UnsupportedError(f"random numbers of type {kind}")
    return kind


def default_rng(seed: int | None = None) -> Generator:
    """Make a generator.

    Examples
    --------
    >>> A = oc.random.default_rng(7).standard_normal((3000, 40))
    >>> abs(float(A.mean())) < 0.01
    True
    """
    return Generator(seed)


_MAKING = "oc.random.default_rng(seed)"

_INSTEAD = {
    **{name: f"{_MAKING}.{name}" for name in vars(Generator) if not name.startswith("_")},
    "rand": f"{_MAKING}.random",
    "randint": f"{_MAKING}.integers",
    "randn": f"{_MAKING}.standard_normal",
    "seed": _MAKING,
}
"""What is done by a generator, and was done without one."""

if not TYPE_CHECKING:
    # What checks types shall find names that there are not.
    __getattr__, __dir__ = only_public(__name__, __all__, numpy=np.random, instead=_INSTEAD)
