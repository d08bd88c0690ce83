"""Loop nests over arrays: functions that are called, planned, and shown."""

import functools
import inspect
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, overload

import numpy as np

from outcrop import _native
from outcrop.arrays import hooks
from outcrop.arrays.array import Array
from outcrop.arrays.creation import asarray, create
from outcrop.arrays.operands import operand, shown
from outcrop.arrays.pieces import pieces
from outcrop.arrays.route import supposing, told, too_little, with_the_least
from outcrop.arrays.source import MemorySource, Source, storable
from outcrop.arrays.stored import StoreSource
from outcrop.compiled.compiler import check_types, letting_go_of_arrays, numba_module
from outcrop.compiled.function import FunctionText, number_of
from outcrop.errors import BudgetError, InvalidArgumentError, InvalidTypeError, UnsupportedError
from outcrop.loops.nest import Nest, read_nest
from outcrop.loops.plan import LoopsPlan
from outcrop.loops.polyhedra import LOCK, Polyhedra, TooHardError, isl_module
from outcrop.loops.program import Chosen, Job, chosen, small_tile
from outcrop.loops.remembered import name_of, recall, remember
from outcrop.loops.syntax import check_text
from outcrop.process.config import (
    config,
    memory_budget,
    piece_limit,
    scratch_directory,
    timeline_path,
)
from outcrop.process.operation import operation, with_operands
from outcrop.program.progress import watching

__all__ = ["Loops", "loops"]

_ORDERS = ("strict", "relaxed")

_KEPT = 16
"""Programs that a nest remembers, at most."""

_FILES = ("npy", "raw")
"""Formats of files that hold one array, and nothing else."""

_BLOCK = 4096
"""Bytes by which memory is charged."""

_BESIDE = 64 << 10
"""Bytes that writing a part of a tile takes beside the tile."""

_LONG = 1 << 20
"""Planning takes long, as if a program had so many steps: a budget that is named is a rough one."""


@dataclass(frozen=True)
class _Bound:
    """A nest with its arguments.

    Attributes
    ----------
    given, scalars : mapping
        The arrays as they were given, and the numbers, by their parameters.
    nest : Nest
        What it does with them.
    """

    given: Mapping[str, Array]
    scalars: Mapping[str, float]
    nest: Nest


class Loops:
    """A loop nest, made by `loops`. Called with arrays and numbers, it runs.

    Attributes
    ----------
    order : str
        Whether the result is that of the loops as they are written, bit for bit (``"strict"``), or
        sums and products may be in another order (``"relaxed"``).
    """

    def __init__(self, function: Callable[..., Any], *, order: str = "strict") -> None:
        _check_order(order)
        self._text = FunctionText(function, "a loop nest is")
        check_text(self._text)
        functools.update_wrapper(self, function)
        self._signature = inspect.signature(function)
        self.order = order
        self._known: dict[Any, Chosen] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Run the nest.

        Parameters
        ----------
        *args, **kwargs
            What the function's parameters are: arrays, and numbers. What the nest writes to has
            to be writable: an array that was opened with ``"r+"`` or made by `create`, or a NumPy
            array. It changes all at once, when everything is computed.

        Raises
        ------
        BudgetError
            The memory budget is too small; says which would do.
        InvalidArgumentError
            An element outside of an array is touched; an array that is written is read-only, or
            is another argument, too.
        InvalidTypeError
            Something is neither an array nor a number where it has to be.
        UnsupportedError
            With these arguments, something is not affine; names the line. Or Numba or islpy is
            not installed.
        """
        with letting_go_of_arrays():
            self._run(self._bound(args, kwargs))

    def _run(self, bound: "_Bound") -> None:
        with operation():
            run = _Run(self._text, bound, self.order, self._known)
            if run.chosen is not None:
                run.run()

    def plan(self, *args: Any, **kwargs: Any) -> LoopsPlan:
        """Plan what a call with these arguments would run.

        Returns
        -------
        LoopsPlan
            What it will cost. Nothing is changed.

        Raises
        ------
        UnsupportedError
            There is nothing to compute, or as for a call.
        """
        bound = self._bound(args, kwargs)

        def made() -> LoopsPlan:
            with operation():
                return _Run(self._text, bound, self.order, self._known).told()

        found, first = with_operands(made)
        return found._add_operands(first)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Plan and compile what a call with such arguments runs, which it then need not.

        Raises
        ------
        UnsupportedError
            As for a call.
        """
        bound = self._bound(args, kwargs)
        with operation():
            found = _Run(self._text, bound, self.order, self._known).chosen
            if found is not None:
                found.program(runs=True)

    def source(self, *args: Any, **kwargs: Any) -> str:
        """The code that a call with these arguments runs for each tile, as Python source.

        Returns
        -------
        str
            A function for each kind of tile. Numba compiles it.

        Raises
        ------
        UnsupportedError
            As for `plan`.
        """
        bound = self._bound(args, kwargs)
        with operation():
            found = _Run(self._text, bound, self.order, self._known).chosen
        codes = [] if found is None else found.codes
        texts = ["\n\n".join((*code.finders, code.source)) for code in codes]
        return "\n\n\n".join(f"# {c.name}\n{text}" for c, text in zip(codes, texts, strict=True))

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Bound:
        name = self._text.function.__name__
        isl_module()
        numba_module("loops")
        if self._text.look_again():
            self._known.clear()
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise InvalidTypeError(f"{name}: {error}") from None
        bound.apply_defaults()
        arrays: dict[str, Array] = {}
        scalars: dict[str, float] = {}
        for p, value in bound.arguments.items():
            if isinstance(value, Array):
                arrays[p] = value
            elif isinstance(value, np.ndarray) and value.ndim:
                arrays[p] = asarray(value, copy=False)
            else:
                scalars[p] = _scalar(value, f"{name}: {p}")
        for p, array in arrays.items():
            if not array.ndim:
                raise InvalidArgumentError(f"{name}: {p} has no axes")
            array._source.check_open()
        dtypes = {p: array.dtype for p, array in arrays.items()}
        check_types(dtypes, "loops")
        shapes = {p: array.shape for p, array in arrays.items()}
        nest = read_nest(self._text, shapes, dtypes, scalars)
        for p in nest.written:
            try:
                arrays[p]._source.check_writable(arrays[p]._view)
            except InvalidArgumentError as error:
                raise InvalidArgumentError(f"{name}: {p} is written: {error}") from None
            if _meets_itself(arrays[p]):
                raise InvalidArgumentError(
                    f"{name}: {p} is written, and has several elements in the same place"
                )
            for other in nest.used:
                if other != p and _are_same(arrays[p], arrays[other]):
                    raise InvalidArgumentError(
                        f"{name}: {p} is written, and {other} is the same array, or a part of it"
                    )
        return _Bound(arrays, scalars, nest)

    def __repr__(self) -> str:
        return f"<outcrop.Loops {self._text.function.__name__}{self._signature}>"


def _check_order(order: str) -> None:
    if order not in _ORDERS:
        raise InvalidArgumentError(f"order= is {' or '.join(map(repr, _ORDERS))}, got {order!r}")


def _are_same(a: Array, b: Array) -> bool:
    """Whether two arrays may have elements in common."""
    one, other = a._source.base, b._source.base
    if isinstance(one, MemorySource) and isinstance(other, MemorySource):
        if np.may_share_memory(one.array, other.array):
            return True
    elif one is other or a._source.same_elements(b._source):
        return True
    file = _file_of(one)
    return file is not None and file == _file_of(other)


def _file_of(source: Source) -> tuple[int, int] | None:
    """What tells the file apart that a source is all of, or mapped from, where there is one."""
    path: Any = None
    if isinstance(source, MemorySource):
        found: Any = source.array
        while isinstance(found, np.ndarray) and path is None:
            path, found = getattr(found, "filename", None), found.base
    elif source.format in _FILES:
        path = source.path
    try:
        known = None if path is None else os.stat(path)
    except OSError:
        return None
    return None if known is None else (known.st_dev, known.st_ino)


def _meets_itself(array: Array) -> bool:
    """Whether elements in memory may lie in the same place."""
    source = array._source.base
    if not isinstance(source, MemorySource):
        return False
    given, reach = source.array, source.array.itemsize
    sides = zip(given.strides, given.shape, strict=True)
    for stride, extent in sorted((abs(stride), n) for stride, n in sides if n > 1):
        if stride < reach:
            return bool(given.size)
        reach += stride * (extent - 1)
    return False


def _scalar(value: Any, name: str) -> float:
    """A number, as Numba takes it."""
    if isinstance(value, np.ndarray) and not value.ndim:
        value = value[()]
    return number_of(value, name, "an array or a real number")


# -- running ---------------------------------------------------------------------------------------


class _Run:
    """One call of a nest."""

    def __init__(
        self, text: FunctionText, bound: _Bound, order: str, known: dict[Any, Chosen]
    ) -> None:
        self._bound, self._text, self._name = bound, text, text.function.__name__
        nest = bound.nest
        self._arrays = {p: self._resolved(p) for p in nest.used}
        straight = {
            p: is_new for p in nest.written if (is_new := _is_new(bound.given[p])) is not None
        }
        # All at once is what is visible before; what is not waits until that has changed.
        self._commits = not all(straight.values())
        self._straight = {p for p, is_new in straight.items() if is_new != self._commits}
        self._held = sum(
            -(-bound.given[p].nbytes // _BLOCK) * _BLOCK
            for p in nest.written
            if p not in self._straight and self._is_small(bound.given[p])
        )
        """Bytes of results that are in memory until they are written."""
        self._check_writing()
        tiles = self._tiles(self._arrays)
        for p in nest.written:
            source = bound.given[p]._source
            if isinstance(source, StoreSource):
                source.store.settle()
        targets = {p: self._planned_target(p, tiles[p]) for p in nest.written}
        self.chosen = self._known(known, targets, tiles, order == "relaxed")

    def _known(
        self,
        known: dict[Any, Chosen],
        targets: Mapping[str, Any],
        tiles: dict[str, tuple[int, ...]],
        relaxed: bool,
    ) -> Chosen | None:
        """The best program: what was the best one before, for such arguments and such a budget."""
        bound, nest = self._bound, self._bound.nest
        made_anew = frozenset(nest.written) - self._straight
        job = Job(nest, self._arrays, targets, made_anew, tiles, bound.scalars, relaxed)
        key = self._told(job)
        found = known.get(key)
        if found is None:
            with LOCK, supposing(elsewhere=self._held):
                found = self._chosen(job, tiles, name_of(self._text, key))
            if found is None:
                return None
            while len(known) >= _KEPT:
                del known[next(iter(known))]
            known[key] = _without_arrays(found)
            return found
        again = replace(
            found.job,
            nest=replace(found.job.nest, names=nest.names),
            arrays=self._arrays,
            targets=targets,
            scalars=bound.scalars,
        )
        return replace(found, job=again)

    def _resolved(self, p: str) -> Array:
        """An array as it is now, computed if it was not."""
        given = self._bound.given[p]
        return operand(given if p in self._bound.nest.written else hooks.now(given))

    def _tiles(self, arrays: Mapping[str, Array]) -> dict[str, tuple[int, ...]]:
        found = {}
        for p, array in arrays.items():
            own = shown(array)
            if own is not None and own.store.layout == "tiled":
                tile = tuple(own.store.tile)
            else:
                tile = small_tile(array.shape, array.dtype, len(arrays))
            found[p] = tuple(min(t, n) for t, n in zip(tile, array.shape, strict=True))
        return found

    def _planned_target(self, p: str, tile: tuple[int, ...]) -> Any:
        """What a program writes to, as far as it is only planned."""
        given = self._bound.given[p]
        if p in self._straight:
            return _place(given)
        if self._is_small(given):
            return _native.sketch_in_memory(given.shape, storable(given.dtype))
        return tile, "{}"

    @staticmethod
    def _is_small(array: Array) -> bool:
        return array.nbytes <= piece_limit()

    def _check_writing(self) -> None:
        """Raise where memory has no room for writing what is computed aside to its place."""
        for p in self._bound.nest.written:
            source = self._bound.given[p]._source
            if p in self._straight or source.layout != "tiled":
                continue
            # A tile as it is, and as it will be.
            tile = math.prod(source.tile) * source.dtype.itemsize
            needed = 2 * tile + self._held + _BESIDE
            if needed > memory_budget():
                raise BudgetError(
                    too_little(
                        f"{self._name}: writing a part of a tile of {p}", needed, memory_budget()
                    ),
                    needed,
                )

    def _chosen(self, job: Job, tiles: dict[str, tuple[int, ...]], name: str) -> Chosen | None:
        bound, nest = self._bound, job.nest
        found = recall(name, nest, job)
        if found is not None:
            return found
        try:
            polyhedra = Polyhedra(bound.nest)
            if not bound.nest.statements:
                return None
            polyhedra.check_bounds()
        except TooHardError:
            raise UnsupportedError(
                f"{self._name}: it takes too long to say which elements are touched"
            ) from None
        for p in nest.kept:
            shape, dtype = nest.arrays[p]
            tile = small_tile(shape, dtype, len(nest.arrays))
            tiles[p] = tuple(min(t, n) for t, n in zip(tile, shape, strict=True))
        found = with_the_least(lambda: chosen(polyhedra, job), lambda _: _LONG)
        remember(name, found)
        return found

    def _told(self, job: Job) -> tuple[object, ...]:
        """All that the choice of a program depends on, but for the nest itself."""
        settings, nest = config(), job.nest
        told: list[object] = [settings.memory, settings.threads, job.relaxed, self._held]
        for p in nest.used:
            given, own = self._bound.given[p], shown(self._arrays[p])
            view = given._view
            kind = given._source.layout, given._source.format, view.is_box, view.turn
            # What is not stored is not read: another program may be the best one when it is.
            stored = 0 if own is None else own.store.stored_bytes
            shape, dtype = nest.arrays[p]
            how = p in self._straight, p in job.made_anew, isinstance(job.targets.get(p), tuple)
            told.append((p, shape, dtype.str, job.tiles[p], stored, *kind, *how))
        for p, s in job.scalars.items():
            told.append((p, s if isinstance(s, int) else "float"))
        told += [(p, nest.arrays[p][1].str) for p in nest.kept]
        return tuple(told)

    # -- plans -------------------------------------------------------------------------------------

    def told(self) -> LoopsPlan:
        """What there is to say of it."""
        if self.chosen is None:
            raise UnsupportedError(f"{self._name}: there is nothing to compute: no loop has points")
        program = self.chosen.program(runs=False)
        with supposing(elsewhere=self._held):
            plan = _native.plan_program(program.draft)
        targets = self.chosen.job.targets
        facts = told(
            {**plan.facts, "traffic": plan.traffic()},
            {
                program.outputs[p]: targets[p]
                for p in program.outputs
                if p in self._straight and not isinstance(targets[p], tuple)
            },
        )
        facts["peak_bytes"] += self._held
        for p in self._bound.nest.written:
            given = self._bound.given[p]
            if p in self._straight or isinstance(given._source.base, MemorySource):
                continue
            # What was computed is written to its place, and read before where it is in scratch.
            facts["exact"] = False
            facts["bytes_written"] += _writing(given)
            facts["bytes_read"] += _writing(given)
            if not self._is_small(given):
                facts["bytes_read"] += _collecting(given, self.chosen.job.tiles[p])
        return LoopsPlan(facts, _without_arrays(self.chosen), self._name)

    # -- running -----------------------------------------------------------------------------------

    def run(self) -> None:
        """Compute everything, then change what is written."""
        assert self.chosen is not None
        nest, given = self._bound.nest, self._bound.given
        stored = [given[p]._source for p in nest.written]
        for source in stored:
            if isinstance(source, StoreSource) and source._committed:
                # What has been assigned before is another change.
                source.flush()
                _native.commit([source.store])
        results: dict[str, Any] = {}
        targets = dict(self.chosen.job.targets)
        with ExitStack() as stack:
            for p in nest.written:
                if p not in self._straight:
                    targets[p], results[p] = self._aside(p, stack)
            job = replace(self.chosen.job, targets=targets)
            program = replace(self.chosen, job=job).program(runs=True)
            plan = _native.plan_program(program.draft)
            outputs = []
            for p in nest.written:
                source = given[p]._source
                target = targets[p]
                if p in self._straight:
                    assert isinstance(source, StoreSource)
                    stack.enter_context(_changing(source))
                    target = source.store
                outputs.append((program.outputs[p], target))
            self._compute(plan, outputs)
            for p, result in results.items():
                self._write(given[p], result())

    def _compute(self, plan: Any, outputs: list[tuple[int, Any]]) -> None:
        sources = [
            array._source for p, array in self._arrays.items() if p not in self._bound.nest.written
        ]

        def tell(done: int, total: int) -> None:
            if done == total:
                for source in sources:
                    source.check_current()
            if watched is not None:
                watched(done, total)

        path = timeline_path()
        timeline = None if path is None else str(path)
        with watching(None, self._bound.nest.text.tree.name, plan.facts) as watched:
            plan.run(_no_step, _no_errors, 0, outputs, self._commits, tell, timeline)

    def _aside(self, p: str, stack: ExitStack) -> tuple[Any, Callable[[], Any]]:
        """Where something is computed that is not written straight, and what it is then."""
        given = self._bound.given[p]
        assert self.chosen is not None
        if self._is_small(given):
            output = _native.Output(given.shape, storable(given.dtype), False)
            return output.store(), lambda: output.array().view(given.dtype)
        directory = _native.ScratchDirectory(str(scratch_directory()))
        stack.callback(directory.remove)
        tile = self.chosen.job.tiles[p]
        made = create(Path(directory.path) / "result.zarr", given.shape, given.dtype, tile=tile)
        stack.callback(made.close)
        source = made._source
        assert isinstance(source, StoreSource)
        return source.store, lambda: made

    @staticmethod
    def _write(given: Array, result: Any) -> None:
        source = given._source
        with source.changing(whole=False):
            given[...] = result
        if isinstance(source, StoreSource) and source._committed:
            _native.commit([source.store])


def _without_arrays(chosen: Chosen) -> Chosen:
    """A program that keeps no array open."""
    return replace(chosen, job=replace(chosen.job, arrays={}, targets={}))


@contextmanager
def _changing(source: StoreSource) -> Iterator[None]:
    """While a run writes to an array."""
    with source.changing(whole=False), source._counted():
        if not source._committed:
            # What fails leaves a part of it behind, and then it is not to become visible.
            source._writes += 1
        yield
    source._writes += 1


def _is_new(array: Array) -> bool | None:
    """Of what is changed in its store, whether that is not visible yet; None for anything else.

    It is one of ours, or a part of one of whole tiles.
    """
    source, view = array._source, array._view
    if not isinstance(source, StoreSource) or source.format != "zarr":
        return None
    if not view.is_box or len(view.axes) != len(source.shape):
        return None
    start, shape = view.box
    each = zip(start, shape, source.tile, source.shape, strict=True)
    if any(s % t or ((s + n) % t and s + n != whole) for s, n, t, whole in each):
        return None
    return not source._committed


def _place(array: Array) -> Any:
    """What a program writes to."""
    source = array._source
    assert isinstance(source, StoreSource)
    start, shape = array._view.box
    return source.store if tuple(shape) == source.shape else (source.store, start)


def _writing(array: Array) -> int:
    """Bytes that are written where an array is that is not written tile by tile, at most."""
    block = 4096
    source, view = array._source, array._view
    if source.layout != "tiled":
        return 2 * (array.nbytes + math.prod(array.shape[:-1]) * 2 * block) + (1 << 16)
    boxes = (piece.box for _, piece in pieces(view, source.grid, piece_limit()))
    return _of_tiles(boxes, source.tile, source.dtype.itemsize) + (1 << 16)


def _collecting(array: Array, tile: tuple[int, ...]) -> int:
    """Bytes that are read of what was computed in such tiles, to be written piece by piece."""
    boxes = (
        (tuple(s.start for s in where), tuple(s.stop - s.start for s in where))
        for where, _ in pieces(array._view, array._source.grid, piece_limit())
    )
    return _of_tiles(boxes, tile, array.itemsize)


def _of_tiles(
    boxes: Iterable[tuple[tuple[int, ...], tuple[int, ...]]], tile: tuple[int, ...], itemsize: int
) -> int:
    """Bytes of tiles of which boxes have a part, at most, where each box brings all of its own."""
    count = 0
    for start, shape in boxes:
        sides = zip(start, shape, tile, strict=True)
        count += math.prod((s + n - 1) // t - s // t + 1 for s, n, t in sides)
    nbytes = math.prod(tile) * itemsize
    return count * (nbytes + nbytes // 8 + (1 << 13))


def _no_step(*_: Any) -> None:
    raise AssertionError("no step is Python's")


def _no_errors(*_: Any) -> None:
    raise AssertionError("no step reports floating-point errors")


@overload
def loops(function: Callable[..., Any], /) -> Loops: ...
@overload
def loops(*, order: str = "strict") -> Callable[[Callable[..., Any]], Loops]: ...
def loops(
    function: Callable[..., Any] | None = None, /, *, order: str = "strict"
) -> Loops | Callable[[Callable[..., Any]], Loops]:
    """Make a loop nest over arrays of a function that is written for memory.

    The function consists of ``for`` over ``range(...)``, ``if`` and assignments. Bounds,
    subscripts and steps are *affine*: sums of indices times constants, where the sizes of arrays
    and integer arguments are constants, too, and so are powers of two of an index (``2 ** p``).
    Conditions may also look at elements; names may be assigned. It may call functions of `math`
    and `numpy`, and use numbers from outside, which are what they are when it is called.

    What depends on what is found out exactly, and the nest is done in tiles that memory holds, in
    an order that respects that. It is compiled by Numba, and computes what Numba makes of the
    loops as they are written, bit for bit.

    Parameters
    ----------
    function : callable
        The nest. Parameters are arrays and numbers; it returns nothing.
    order : {"strict", "relaxed"}
        With ``"relaxed"``, what is only added up (``+=``) or multiplied (``*=``) may be so in
        another order, with other rounding errors.

    Returns
    -------
    Loops
        Called with arrays and numbers, it runs; `Loops.plan` says what that costs, `Loops.source`
        shows the code.

    Raises
    ------
    UnsupportedError
        The function does something else; names the line.

    Examples
    --------
    >>> @oc.loops
    ... def product(A, B, C):
    ...     for i in range(C.shape[0]):
    ...         for j in range(C.shape[1]):
    ...             for k in range(A.shape[1]):
    ...                 C[i, j] += A[i, k] * B[k, j]
    >>> A, B = np.arange(12.0).reshape(3, 4), np.ones((4, 5))
    >>> C = oc.create("C.zarr", (3, 5), "float64")
    >>> product(A, B, C)
    >>> C[:, 0].compute()
    array([ 6., 22., 38.])
    """
    _check_order(order)
    if function is None:
        return lambda function: Loops(function, order=order)
    return Loops(function, order=order)
