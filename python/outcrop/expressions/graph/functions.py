"""What an elementwise node does with the elements of its operands."""

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outcrop.arrays.pieces import boxes
from outcrop.errors import InvalidArgumentError, InvalidTypeError, OutcropError

__all__ = [
    "LEAVING_GAPS",
    "Apply",
    "ApplyWhere",
    "Bits",
    "Call",
    "Cast",
    "Choose",
    "Copy",
    "Function",
    "Guard",
    "OfLines",
    "OfNumpy",
    "Seen",
]

Scalar = Any
"""A Python number, which takes part in type promotion as NumPy has it, by its kind alone."""


class Function(ABC):
    """Computes the elements of a result from those of its operands, which broadcast.

    Attributes
    ----------
    name : str
        For people.
    retains : bool
        Whether it may keep the arrays that it is given.
    seconds : float or None
        That an element takes, of what cannot be measured by calling it.
    """

    name: str
    retains = False
    seconds: float | None = None

    @abstractmethod
    def into(self, out: NDArray[Any], operands: Sequence[Any]) -> None:
        """Compute to `out`."""


LEAVING_GAPS = frozenset({np.isfinite, np.isinf, np.isnan, np.signbit})
"""Of NumPy 2.4.6 with AVX2, these leave elements of `out` as they were where those do not follow
one another in memory. They are right where they make an array themselves."""


@dataclass(frozen=True)
class _OfUfunc(Function):
    """What calls a ufunc for one of its results.

    Attributes
    ----------
    ufunc : numpy.ufunc
        Which.
    output : int
        Which of its results.
    options : tuple
        Pairs of keyword arguments, such as ``dtype``.
    """

    ufunc: np.ufunc
    output: int = 0
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def name(self) -> str:  # type: ignore[override]
        """The ufunc's own."""
        return self.ufunc.__name__

    def _call(self, out: NDArray[Any], operands: Sequence[Any], **more: Any) -> None:
        if self.ufunc in LEAVING_GAPS:
            made = self.ufunc(*operands, **dict(self.options))
            np.copyto(out, made, where=more.get("where", True))
            return
        results: list[Any] = [None] * self.ufunc.nout
        results[self.output] = out
        self.ufunc(*operands, out=tuple(results), **dict(self.options), **more)


@dataclass(frozen=True)
class Apply(_OfUfunc):
    """A ufunc of the operands."""

    def into(self, out: NDArray[Any], operands: Sequence[Any]) -> None:
        self._call(out, operands)


@dataclass(frozen=True)
class ApplyWhere(_OfUfunc):
    """A ufunc of the operands from the third on where the first one is true, else the second."""

    def into(self, out: NDArray[Any], operands: Sequence[Any]) -> None:
        condition, other, *rest = operands
        np.copyto(out, other, casting="unsafe")
        self._call(out, rest, where=np.broadcast_to(condition, out.shape))


@dataclass(frozen=True)
class Cast(Function):
    """To the result's type, as `numpy.ndarray.astype` does it."""

    name = "astype"

    def into(self, out: NDArray[Any], operands: Sequence[Any]) -> None:
        np.copyto(out, operands[0], casting="unsafe")


@dataclass(frozen=True)
class Copy(Function):
    """The operand, of the same type."""

    name = "copy"

    def into(self, out: NDArray[Any], operands: Sequence[Any]) -> None:
        np.copyto(out, operands[0])


@dataclass(frozen=True)
class OfNumpy(Function):
    """A function of NumPy's that is no ufunc, and broadcasts as one does."""

    function: Callable[..., Any]
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def name(self) -> str:  # type: ignore[override]
        """NumPy's own."""
        return str(self.function.__name__)

    def into(self, out: NDArray[Any], operands: Sequence[Any]) -> None:
        np.copyto(out, self.function(*operands, **dict(self.options)))


@dataclass(frozen=True)
class Choose(Function):
    """The second operand where the first one is true, else the third."""

    name = "where"

    def into(self, out: NDArray[Any], operands: Sequence[Any]) -> None:
        condition, one, other = operands
        np.copyto(out, other, casting="unsafe")
        np.copyto(out, one, where=np.asarray(condition, bool), casting="unsafe")


@dataclass(frozen=True)
class Guard(Function):
    """The first operand. Where the second one is true somewhere, the caller hears of it."""

    message: str
    kind: type[Warning] | type[OutcropError] = RuntimeWarning
    name = "guard"
    # Measuring it would set it off.
    seconds = 1e-9

    def into(self, out: NDArray[Any], operands: Sequence[Any]) -> None:
        np.copyto(out, operands[0])
        if np.any(operands[1]):
            if not issubclass(self.kind, Warning):
                raise self.kind(self.message)
            warnings.warn(self.message, self.kind, stacklevel=2)


@dataclass(frozen=True)
class Call(Function):
    """A function of the user's."""

    function: Callable[..., Any]
    retains = True
    seconds = 1e-9

    @property
    def name(self) -> str:  # type: ignore[override]
        """As the user calls it."""
        return getattr(self.function, "__name__", "function")

    def into(self, out: NDArray[Any], operands: Sequence[Any]) -> None:
        # What it is given is its own.
        made = np.asarray(self.function(*(np.array(operand) for operand in operands)))
        if made.shape != out.shape:
            raise InvalidArgumentError(
                f"{self.name} was given blocks that broadcast to shape {out.shape}, and made one "
                f"of shape {made.shape}"
            )
        try:
            np.copyto(out, made, casting="same_kind")
        except TypeError as error:
            raise InvalidTypeError(f"{self.name}: {error}; dtype= says what it makes") from None


@dataclass(frozen=True)
class OfLines:
    """A function of whole lines, which go along the last axis of what it is given.

    Or of whole planes, or more, along as many of its last axes.

    Attributes
    ----------
    name : str
        For people.
    function : callable
        Gives, for each line of an array, one along the last axis.
    options : tuple
        Pairs of keyword arguments.
    times : int
        How many times the bytes of what it is given the function takes, at most.
    fills : bool
        Whether it takes what it has to fill first, and gives nothing.
    """

    name: str
    function: Callable[..., NDArray[Any] | None]
    options: tuple[tuple[str, Any], ...] = ()
    times: int = 4
    fills: bool = False

    PARTS = 4
    """Parts in which the lines of a strip are done, if they are as many."""

    def into(self, out: NDArray[Any], block: NDArray[Any], axes: Sequence[int]) -> None:
        """Compute to `out` what the lines of a block along axes give."""
        last = range(-len(axes), 0)
        given, made = np.moveaxis(block, axes, last), np.moveaxis(out, axes, last)
        lines = given.shape[: -len(axes)]
        for low, _ in boxes(lines, -(-math.prod(lines) // self.PARTS)):
            if self.fills:
                self.function(made[low], given[low], **dict(self.options))
            else:
                made[low] = self.function(given[low], **dict(self.options))

    def memory(self, lines: int, nbytes: int) -> int:
        """Bytes that it takes for so many lines of so many bytes."""
        return self.times * -(-lines // self.PARTS) * nbytes


@dataclass(frozen=True)
class Seen(Function):
    """No element: a function of ours has seen those of all operands, each once."""

    function: Callable[..., None]
    retains = True
    seconds = 1e-9
    name = "count"

    def into(self, out: NDArray[Any], operands: Sequence[Any]) -> None:
        self.function(*map(np.asarray, operands))
        out[...] = False


@dataclass(frozen=True)
class Bits(Function):
    """The operand's bits as elements of another type that are as long."""

    name = "view"
    seconds = 1e-9

    def into(self, out: NDArray[Any], operands: Sequence[Any]) -> None:
        np.copyto(out.view(operands[0].dtype), operands[0])


def seconds_per_element(
    function: Function, dtype: np.dtype[Any], dtypes: Sequence[np.dtype[Any] | Scalar]
) -> float:
    """Seconds that an element takes, measured at the first call where it may be called for that."""
    if function.seconds is not None:
        return function.seconds
    key = (function, dtype, tuple(d if isinstance(d, np.dtype) else type(d) for d in dtypes))
    try:
        known = _MEASURED.get(key)
    except TypeError:
        return 1e-9
    if known is None:
        known = _MEASURED[key] = _measured(function, dtype, dtypes)
    return known


_MEASURED: dict[Any, float] = {}
_SAMPLE = 16384


def _measured(
    function: Function, dtype: np.dtype[Any], dtypes: Sequence[np.dtype[Any] | Scalar]
) -> float:
    import time

    operands = [np.ones(_SAMPLE, d) if isinstance(d, np.dtype) else d for d in dtypes]
    out = np.empty(_SAMPLE, dtype)
    best = math.inf
    with np.errstate(all="ignore"):
        for _ in range(3):
            begin = time.perf_counter()
            function.into(out, operands)
            best = min(best, time.perf_counter() - begin)
    return max(best, 1e-9) / _SAMPLE
