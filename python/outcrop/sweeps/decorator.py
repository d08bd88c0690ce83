"""Sweeps of functions that say what becomes of a cell."""

import functools
import inspect
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, overload

import numpy as np

from outcrop.arrays import hooks
from outcrop.arrays.array import Array
from outcrop.arrays.computed import Progress
from outcrop.arrays.creation import asarray
from outcrop.arrays.saving import part_of
from outcrop.arrays.views import View
from outcrop.compiled.compiler import check_types
from outcrop.compiled.function import number_of
from outcrop.errors import InvalidArgumentError, InvalidTypeError
from outcrop.process.operation import operation
from outcrop.sweeps.cell import Cell, check_directions, read_cell
from outcrop.sweeps.kernel import Kernel
from outcrop.sweeps.source import Sweeping, SweptSource

__all__ = ["Settled", "Sweep", "as_count", "as_float", "sweep"]

_MOST = (1 << 31) - 1
"""Sweeps that there may be."""

_BOUNDARIES = ("fixed", "periodic", "nearest")

_OWN = ("sweeps", "until", "check_every", "on_check", "progress")
"""Arguments of a call that are not the function's."""


class Settled(Array):
    """What has become of an array by sweeps until it changed no more than a little.

    It is an `Array`, and its views and what is made of it are none but that.

    Attributes
    ----------
    sweeps : int
        How many there were.
    change : float
        By how much an element has changed, at most, in the last `check_every` of them.
    converged : bool
        Whether that is little enough, for all arrays that are updated.

    Examples
    --------
    >>> u = np.zeros((30, 40))
    >>> u[0] = 1
    >>> v = oc.sweeps.gauss_seidel(u, np.zeros_like(u), sweeps=9000, until=1e-6, check_every=50)
    >>> v.converged, v.change <= 1e-6, v.sweeps
    (True, True, 1400)
    """

    __slots__ = ("change", "converged", "sweeps")

    def __init__(self, array: Array, sweeps: int, change: float, *, converged: bool) -> None:
        super().__init__(array._source, array._view)
        self.sweeps, self.change, self.converged = sweeps, change, converged


class Sweep:
    """The update of a cell, made by `sweep`. Called with arrays, it sweeps over them.

    Attributes
    ----------
    cell : Cell
        What the function reads and writes.
    inplace : bool
        Whether a cell sees what has become of those before it.
    boundary : tuple of str
        What lies beyond the ends of each axis.
    directions : tuple of tuple of int
        In which directions sweeps go, in turn.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        inplace: bool = True,
        boundary: str | Sequence[str] = "fixed",
        directions: Any = None,
        ends: str | None = None,
    ) -> None:
        functools.update_wrapper(self, function)
        self.cell: Cell = read_cell(function)
        self._signature = inspect.signature(function)
        if taken := [p for p in self.cell.parameters if p in _OWN]:
            raise InvalidArgumentError(
                f"{self.cell.name}: a parameter cannot be called {taken[0]}, which says how "
                "many sweeps there are"
            )
        if not isinstance(inplace, bool):
            raise InvalidTypeError(f"inplace= is True or False, got {inplace!r}")
        self.inplace = inplace
        self.boundary = _checked_boundary(boundary, self.cell.ndim)
        self.directions = _checked_directions(directions, self.cell.ndim)
        # Why they have to be over before whatever sweeps come next, for plans.
        self._ends = ends
        self._kernels: dict[Any, Kernel] = {}

    # Of several arrays it is a tuple, which the function decides.
    @overload
    def __call__(
        self,
        *args: Any,
        sweeps: int = 1,
        until: None = None,
        check_every: int | None = None,
        on_check: Callable[[int, float], object] | None = None,
        progress: Progress | None = None,
        **kwargs: Any,
    ) -> Array | Any: ...
    @overload
    def __call__(
        self,
        *args: Any,
        sweeps: int = 1,
        until: float,
        check_every: int | None = None,
        on_check: Callable[[int, float], object] | None = None,
        progress: Progress | None = None,
        **kwargs: Any,
    ) -> Settled | Any: ...
    def __call__(
        self,
        *args: Any,
        sweeps: int = 1,
        until: float | None = None,
        check_every: int | None = None,
        on_check: Callable[[int, float], object] | None = None,
        progress: Progress | None = None,
        **kwargs: Any,
    ) -> Any:
        """Sweep over arrays.

        Parameters
        ----------
        *args, **kwargs
            What the function's parameters are: arrays of equal shape, and numbers.
        sweeps : int
            How many sweeps, at most.
        until : float, optional
            Stop where no element has changed by more than that. Then it is computed at once.
        check_every : int, optional
            After how many sweeps that is looked at: by how much elements have changed in all of
            these. So many are in flight at most, as the next ones wait for what is found; default
            1, and every one goes over the arrays by itself.
        on_check : callable, optional
            Called each time with how many sweeps there have been, and by how much an element has
            changed at most. What it raises ends the sweeps.
        progress : callable, optional
            Where it is computed at once, called with what is done, and what there is to do at most,
            at most ten times a second.

        Returns
        -------
        Array
            What the array that is updated becomes, lazily: it is computed when it is saved or
            looked at. With `until`, a `Settled` array, which is computed, and knows after how many
            sweeps. Of several arrays, a tuple. What is given stays as it is.

        Raises
        ------
        InvalidArgumentError
            The shapes differ, there are other axes than offsets, or `until` is negative or NaN.
        InvalidTypeError
            Something is neither an array nor a number where it has to be.
        UnsupportedError
            Numba is not installed.
        """
        count = as_count(sweeps, "sweeps", least=0)
        arrays, scalars = self._bound(args, kwargs)
        if until is None:
            for name, option in (("check_every", check_every), ("on_check", on_check)):
                if option is not None:
                    raise InvalidArgumentError(f"{name}= is about when until= is looked at")
            if progress is not None:
                raise InvalidArgumentError(
                    "progress= is told of what is computed at once, with until=; without, it is "
                    "an option of saving"
                )
            results = self._swept(arrays, scalars, 0, count)
        else:
            limit = _scalar(until, "until=")
            if not limit >= 0:
                raise InvalidArgumentError(f"until={limit}: no change is that small")
            every = as_count(1 if check_every is None else check_every, "check_every", least=1)
            for name, function in (("on_check", on_check), ("progress", progress)):
                if not (function is None or callable(function)):
                    raise InvalidTypeError(f"{name}= is called, and {function!r} cannot be")
            with operation():
                watch = _Watch(limit, on_check, progress)
                results = self._settled(arrays, scalars, count, every, watch)
        return results[0] if len(results) == 1 else tuple(results)

    def _swept(
        self, arrays: dict[str, Array], scalars: tuple[float, ...], first: int, count: int
    ) -> list[Array]:
        """What becomes of the arrays that are updated, by sweeps of these numbers."""
        return [
            Array(SweptSource(job), View.whole(job.shape))
            if count and arrays[p].size
            else arrays[p]
            for p, job in zip(
                self.cell.written, self._jobs(arrays, scalars, first, count), strict=True
            )
        ]

    def _jobs(
        self, arrays: dict[str, Array], scalars: tuple[float, ...], first: int, count: int
    ) -> list[Sweeping]:
        """What is to be done for each array that is updated."""
        kernels = self._kernels_for(arrays, scalars)
        return [
            Sweeping(kernels, arrays, scalars, first, count, self.boundary, p, self._ends)
            for p in self.cell.written
        ]

    def _settled(
        self,
        arrays: dict[str, Array],
        scalars: tuple[float, ...],
        count: int,
        every: int,
        watch: "_Watch",
    ) -> list[Array]:
        """The same, until they change no more than a little."""
        results = [arrays[p] for p in self.cell.written]
        changes, done = [math.inf] * len(results), 0
        is_empty = not results[0].size
        while done < count and not is_empty and not watch.is_little(changes):
            jobs = self._jobs(arrays, scalars, done, min(every, count - done))
            end = done + jobs[0].sweeps
            made = []
            for k, job in enumerate(jobs):
                share = [(done + (end - done) * part / len(jobs)) / count for part in (k, k + 1)]
                made.append(Array(SweptSource(job).made(part_of(watch.progress, *share))))
            changes = [
                float(abs(new - old).max().compute())
                for new, old in zip(made, results, strict=True)
            ]
            results, done = made, end
            arrays = arrays | dict(zip(self.cell.written, made, strict=True))
            watch.tell(done, changes)
        if is_empty:
            changes = [0.0] * len(results)
        converged = watch.is_little(changes)
        return [
            Settled(result, done, change, converged=converged)
            for result, change in zip(results, changes, strict=True)
        ]

    def _bound(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[dict[str, Array], tuple[float, ...]]:
        """Arguments by parameters: arrays as they are now, and numbers."""
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise InvalidTypeError(f"{self.cell.name}: {error}") from None
        bound.apply_defaults()
        given = bound.arguments
        arrays = {}
        for p in self.cell.arrays:
            array = given[p] if isinstance(given[p], Array) else asarray(given[p])
            if array.ndim != self.cell.ndim:
                raise InvalidArgumentError(
                    f"{self.cell.name}: {p} has {array.ndim} axes, and its offsets {self.cell.ndim}"
                )
            arrays[p] = hooks.now(array)
        shapes = {p: array.shape for p, array in arrays.items()}
        if len(set(shapes.values())) > 1:
            told = ", ".join(f"{p} {shape}" for p, shape in shapes.items())
            raise InvalidArgumentError(f"{self.cell.name}: arrays of unequal shapes: {told}")
        for axis, extent in enumerate(next(iter(shapes.values()))):
            reach = max(self.cell.reach(axis))
            if self.boundary[axis] == "periodic" and 0 < extent < reach:
                raise InvalidArgumentError(
                    f"{self.cell.name}: axis {axis} is periodic and has {extent} indices, fewer "
                    f"than the offset {reach}"
                )
        check_types({p: array.dtype for p, array in arrays.items()})
        return arrays, tuple(_scalar(given[p], p) for p in self.cell.scalars)

    def _kernels_for(
        self, arrays: dict[str, Array], scalars: tuple[float, ...]
    ) -> tuple[Kernel, ...]:
        dtypes = {p: array.dtype for p, array in arrays.items()}
        kinds = tuple("float" if isinstance(s, float) else "int" for s in scalars)
        found = []
        for directions in self.directions:
            key = (tuple(dtypes.values()), kinds, directions)
            if key not in self._kernels:
                nearest = "nearest" in self.boundary
                self._kernels[key] = Kernel(
                    self.cell, dtypes, kinds, directions, self.inplace, nearest
                )
            # What Numba does not compile is refused here, and not when it is needed.
            assert self._kernels[key].function
            found.append(self._kernels[key])
        return tuple(found)

    def __repr__(self) -> str:
        return f"<outcrop.Sweep {self.cell.name}({', '.join(self.cell.parameters)})>"


@overload
def sweep(function: Callable[..., Any], /) -> Sweep: ...
@overload
def sweep(
    *, inplace: bool = True, boundary: str | Sequence[str] = "fixed", directions: Any = None
) -> Callable[[Callable[..., Any]], Sweep]: ...
def sweep(
    function: Callable[..., Any] | None = None,
    /,
    *,
    inplace: bool = True,
    boundary: str | Sequence[str] = "fixed",
    directions: Any = None,
) -> Sweep | Callable[[Callable[..., Any]], Sweep]:
    """Make a sweep over arrays of a function that says what becomes of one cell.

    In the function, arrays are indexed by offsets from the cell: ``u[0, 0]`` is the cell itself,
    ``u[-1, 0]`` the one before it along the first axis. It consists of assignments to the cell
    itself and to names, and of ``if``; it may call functions of `math` and `numpy`, and use
    numbers, as parameters or from outside. It is compiled by Numba, and computes what Numba makes
    of the same loop over all cells, bit for bit: so a Python float times an element of float32 is a
    float64, which is rounded when it is assigned.

    However large the arrays, each of them is read from disk once and the result is written once,
    as far as memory allows: many sweeps go over an array at the same time, one behind the other.

    Parameters
    ----------
    function : callable
        The update of a cell of one, two or three axes.
    inplace : bool
        Whether a cell sees what has become of those before it (Gauss-Seidel), in row-major order.
        If not, all that is read is what was there before the sweep (Jacobi).
    boundary : str, or one for each axis
        What lies beyond the ends: ``"fixed"``, cells that do not have all of the neighbours that
        the function reads stay as they are; ``"periodic"``, the other end; ``"nearest"``, the
        cell at this end.
    directions : int, or sequence of int, optional
        For each axis 1, or -1 to go from the last cell to the first one. Several of them, as in
        ``((1, 1), (-1, -1))``, are what sweeps do in turn.

    Returns
    -------
    Sweep
        Called with arrays and numbers, and with ``sweeps=``, it gives an array that is not computed
        yet.

    Raises
    ------
    UnsupportedError
        The function does something else; names the line.

    Examples
    --------
    >>> @oc.sweep
    ... def relax(u, f):
    ...     u[0, 0] = 0.25 * (u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1] - f[0, 0])
    >>> u = np.zeros((200, 300))
    >>> u[0] = 1
    >>> v = relax(u, np.zeros_like(u), sweeps=10)
    >>> float(v[1, 1].compute().round(4)), float(v[0, 5].compute())
    (0.4648, 1.0)
    """
    options: dict[str, Any] = {
        "inplace": inplace,
        "boundary": boundary,
        "directions": directions,
    }
    if function is None:
        return lambda function: Sweep(function, **options)
    return Sweep(function, **options)


class _Watch:
    """How much is little, and who looks on."""

    def __init__(
        self,
        limit: float,
        on_check: Callable[[int, float], object] | None,
        progress: Progress | None,
    ) -> None:
        self._limit, self._on_check, self.progress = limit, on_check, progress

    def is_little(self, changes: Sequence[float]) -> bool:
        """Whether no array changes by more; what is no number goes on changing."""
        return all(change <= self._limit for change in changes)

    def tell(self, done: int, changes: Sequence[float]) -> None:
        """Say how far it is."""
        if self._on_check is not None:
            # Of what is no number, nothing is the largest.
            self._on_check(done, float(np.max(changes)))
        whole = part_of(self.progress, 1.0, 1.0)
        if whole is not None and self.is_little(changes):
            whole(1, 1)


def _checked_boundary(boundary: str | Sequence[str], ndim: int) -> tuple[str, ...]:
    is_several = isinstance(boundary, Sequence) and not isinstance(boundary, str)
    found: tuple[Any, ...] = tuple(boundary) if is_several else (boundary,) * ndim
    if len(found) != ndim or any(one not in _BOUNDARIES for one in found):
        raise InvalidArgumentError(
            f"boundary= is {', '.join(map(repr, _BOUNDARIES))}, or one of them for each of {ndim} "
            f"axes, got {boundary!r}"
        )
    return found


def _checked_directions(directions: Any, ndim: int) -> tuple[tuple[int, ...], ...]:
    if directions is None:
        return ((1,) * ndim,)
    if not isinstance(directions, int | np.integer) and any(
        isinstance(one, Sequence) for one in directions
    ):
        return tuple(check_directions(one, ndim) for one in directions)
    return (check_directions(directions, ndim),)


def as_count(value: Any, name: str, *, least: int) -> int:
    """A number of sweeps, whatever was given."""
    try:
        count = operator.index(value)
    except TypeError:
        count = None
    if count is None or isinstance(value, bool):
        raise InvalidTypeError(f"{name}= is an integer, got {value!r}")
    if not least <= count <= _MOST:
        raise InvalidArgumentError(f"{name}= is from {least} to {_MOST}, got {value!r}")
    return count


def _scalar(value: Any, name: str) -> float:
    """A number, as Numba takes it."""
    if isinstance(value, Array) and value.ndim == 0:
        value = value.compute()[()]
    return number_of(value, name, "a real number")


def as_float(value: Any, name: str) -> float:
    """A number that is no integer, whatever was given."""
    return float(_scalar(value, name))
