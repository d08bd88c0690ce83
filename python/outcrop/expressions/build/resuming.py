"""Results that go on where they were stopped; of factorizations, some columns at a time."""

import math
import os
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Generic, TypeVar

import numpy as np

from outcrop import _native
from outcrop.arrays.array import Array
from outcrop.arrays.computed import ComputedSource
from outcrop.arrays.creation import create, open
from outcrop.arrays.kept import (
    SECONDS,
    Kept,
    Resumable,
    clear_kept,
    identity_of_stored,
    naming_kept,
)
from outcrop.arrays.route import with_the_least
from outcrop.arrays.saving import part_of
from outcrop.arrays.stored import StoreSource
from outcrop.checks import StrPath
from outcrop.errors import ArrayExistsError, OutcropError, UnsupportedError
from outcrop.expressions.build.arrays import ExpressionSource, array_of, node_of, resolved
from outcrop.expressions.graph.cholesky import Cholesky, CholeskyColumns
from outcrop.expressions.graph.ldl import (
    LDL,
    LDLColumns,
    LDLDiagonal,
    LDLInOrder,
    LDLRotated,
    LDLRows,
)
from outcrop.expressions.graph.lu import LU, LUColumns, LUInOrder, Pivots
from outcrop.expressions.graph.matrices import straight
from outcrop.expressions.graph.nodes import Node
from outcrop.expressions.planner import Planned, plan
from outcrop.expressions.rewrite.view_pushdown import leaf_of
from outcrop.process.operation import operation
from outcrop.program.progress import watching

__all__ = ["save_resumably"]

Progress = Callable[[int, int], None]

_Root = TypeVar("_Root", bound=LU | Cholesky | LDL)

_SECONDS = SECONDS
"""How long columns take that are committed together, roughly, by what is predicted."""


def save_resumably(
    names: Mapping[StrPath, str],
    arrays: Mapping[StrPath, Array],
    save: Callable[..., dict[StrPath, Array]],
    *,
    overwrite: bool,
    progress: Progress | None,
) -> dict[StrPath, Array]:
    """As `save` does, of what is computed in parts, from where it was stopped before.

    Raises
    ------
    UnsupportedError
        It is no such computation of what is stored.
    InvalidArgumentError
        What is kept is of another one, or of another state of what that is made of.
    """
    results = {names[path]: array for path, array in arrays.items()}
    work = _resumable(results)
    for name in results:
        if os.path.lexists(name) and not overwrite:
            raise ArrayExistsError(f"{name}: exists already; pass overwrite=True to replace it")
    # What is computed now, and bringing it to where it is wanted, are one report.
    with operation(), naming_kept():
        share = work.run(progress)
        saved = work.finish(save, overwrite=overwrite, progress=part_of(progress, share, 1.0))
    for name in results:
        clear_kept(name)
    return {path: saved[name] for path, name in names.items()}


def _resumable(results: Mapping[str, Array]) -> Resumable:
    sources = [array._source for array in results.values()]
    kinds = {type(source) for source in sources if isinstance(source, ComputedSource)}
    for kind in kinds:
        found = kind.resumable(results)
        if found is not None:
            return found
    nodes = {name: node_of(array) for name, array in results.items()}
    match _root(list(nodes.values())):
        case LU() as root:
            return _LUFactoring(nodes, root)
        case LDL() as root:
            return _LDLFactoring(nodes, root)
        case root:
            return _CholeskyFactoring(nodes, root)


def _root(nodes: Sequence[Node]) -> LU | Cholesky | LDL:
    """The factorization that all results are of."""
    beside = Pivots | LDLDiagonal | LDLRows
    roots = {id(n): n for n in (n.operands[0] if isinstance(n, beside) else n for n in nodes)}
    (root, *others) = roots.values()
    if others or not isinstance(root, LU | Cholesky | LDL):
        raise UnsupportedError(
            "resume= is for one factorization: oc.linalg.cholesky(A), or what "
            "oc.linalg.lu_factor(A) or oc.linalg.ldl_factor(A) gives; and for sweeps"
        )
    found = straight(root.operands[0])
    if found is None or not isinstance(found.leaf.source, StoreSource):
        raise UnsupportedError(
            "resume= is for factors of a matrix that is stored, by which it is known again; save "
            "what is computed first"
        )
    return root


class _Factoring(Resumable, Generic[_Root]):
    """A factorization by columns, to what is kept of it: the factor, and what is beside it."""

    _first = 0
    """How many columns are done at first; fewer than none where something comes before them."""

    def __init__(self, nodes: Mapping[str, Node], root: _Root) -> None:
        self._nodes = nodes
        self._root: _Root = root
        for name, node in self._nodes.items():
            source = ExpressionSource(node)
            source.check_open()
            source.check_target(name)
        factor = next((n for n, node in self._nodes.items() if node is root), next(iter(nodes)))
        self._kept = Kept(factor, self._work())
        # A factor of any shape has as many columns of tiles as there are on its diagonal.
        self._order = min(root.shape)
        self._upper = not isinstance(root, LU) and root.upper

    def run(self, progress: Progress | None) -> float:
        progress = part_of(progress, 0.0, 0.9)
        done, whole = self._begun()
        if done >= self._order:
            return 0.9
        with self._opened("r+") as arrays:
            side = self._side(_store(arrays[0]).tile)
            count = -(-self._order // side)
            blocks = min(max(math.ceil(whole.facts["seconds"] / _SECONDS), 1), max(count, 1))
            step = max(-(-count // blocks), 1) * side
            if done < 0:
                self._prepare(arrays)
                done = 0
                self._kept.write(done)
            while done < self._order:
                end = min(done + step, self._order)
                told = part_of(progress, self._part(done), self._part(end))
                self._columns(done, end, arrays, told)
                done = end
                self._kept.write(done)
        return 0.9

    def finish(
        self,
        save: Callable[..., dict[StrPath, Array]],
        *,
        overwrite: bool,
        progress: Progress | None,
    ) -> dict[StrPath, Array]:
        names = {name: name for name in self._nodes}
        with self._opened("r") as arrays:
            results = {name: self._result(node, arrays) for name, node in self._nodes.items()}
            return save(names, results, overwrite=overwrite, progress=progress)

    def _part(self, done: int) -> float:
        """Which part of the work some columns are."""
        n = max(self._order, 1)
        return (done / n) ** 2 * (3 - 2 * done / n)

    # -- what factorizations differ in -------------------------------------------------------------

    @abstractmethod
    def _beside(self, side: int) -> dict[str, tuple[tuple[int, ...], Any, tuple[int, ...]]]:
        """What is kept beside the factor: by name, shapes, types and tiles."""

    def _prepare(self, arrays: Sequence[Array]) -> None:
        """Compute what comes before the columns."""
        raise AssertionError("nothing does")

    def _given(self, arrays: Sequence[Array]) -> Array:
        """What the columns are of."""
        return array_of(self._root.operands[0])

    @abstractmethod
    def _next(
        self, columns: slice, given: Node, done: Node | None, arrays: Sequence[Array]
    ) -> list[Node]:
        """The next columns, and what is beside them, from what is given and what is done."""

    @abstractmethod
    def _result(self, node: Node, arrays: Sequence[Array]) -> Array:
        """One of the results, from what is kept."""

    # -- what is kept ------------------------------------------------------------------------------

    def _begun(self) -> tuple[int, Planned]:
        """How many columns there are, or rows of an upper factor; and the plan of all of them."""
        with operation():
            (own,) = resolved([self._root])
            whole = with_the_least(
                lambda: plan([(own, (None, "{}"))]), lambda found: int(found.facts["steps"])
            )
        done = self._kept.read()
        if done is None:
            tile, shape = whole.tile(0), self._root.shape
            self._kept.begin()
            where = self._kept.path
            create(where / "factors.zarr", shape, dtype=self._root.dtype, tile=tile).close()
            for name, (own_shape, dtype, own_tile) in self._beside(self._side(tile)).items():
                create(where / name, own_shape, dtype=dtype, tile=own_tile).close()
            done = self._first
            self._kept.write(done)
        return done, whole

    def _side(self, tile: Sequence[int]) -> int:
        """Rows and columns of tiles."""
        pairs = zip(tile, self._root.shape, strict=True)
        return min(t for t, n in pairs if t < n or t == min(tile))

    def _work(self) -> tuple[Any, ...]:
        """By what the matrix, its state, and what is done with it are known again."""
        root = self._root
        found = straight(root.operands[0])
        assert found is not None
        source = found.leaf.source
        assert isinstance(source, StoreSource)
        return (
            type(root).__name__,
            not isinstance(root, LU) and root.upper,
            root.shape,
            root.dtype.str,
            found.leaf.view.box,
            found.leaf.view.turn,
            found.conjugate,
            identity_of_stored(source),
            *([root.hermitian] if isinstance(root, LDL) else []),
        )

    @contextmanager
    def _opened(self, mode: str) -> Iterator[list[Array]]:
        """The factor and what is beside it, as far as they are done."""
        arrays = [open(self._kept.path / n, mode) for n in ("factors.zarr", *self._beside(1))]
        try:
            yield arrays
        finally:
            for array in arrays:
                with suppress(OutcropError):
                    array.close()

    # -- columns -----------------------------------------------------------------------------------

    def _columns(
        self, first: int, end: int, arrays: Sequence[Array], progress: Progress | None
    ) -> None:
        # Of what is wider than high, the rest comes with the last ones.
        last = end if end < self._order or self._upper else self._root.shape[1]
        own: tuple[Any, ...] = (slice(None), slice(first, last))
        before: tuple[Any, ...] = (slice(None), slice(0, first))
        if self._upper:
            own, before = own[::-1], before[::-1]
        factors, *beside = arrays
        done = _leaf(factors[before]) if first else None
        given = node_of(self._given(arrays)[own])
        nodes = self._next(slice(first, end), given, done, arrays)
        # What is not computed column by column is no target.
        targets = [factors[own], *(array[first:end] for array in beside[: len(nodes) - 1])]
        _compute(nodes, targets, progress)


def _compute(nodes: Sequence[Node], targets: Sequence[Array], progress: Progress | None) -> None:
    """Compute nodes to parts of arrays that are kept, all at once."""
    sources = [_store(array) for array in targets]
    with operation():
        expressions = [ExpressionSource(node) for node in nodes]
        wanted = list(zip(resolved(nodes), map(_part, targets), strict=True))
        found = with_the_least(lambda: plan(wanted), lambda made: int(made.facts["steps"]))
        with watching(progress, nodes[0].name, found.facts) as watched:
            told = expressions[0].checking(watched)
            found.run([source.store for source in sources], told, expressions[0]._timeline())
    for source in sources:
        source._writes += 1


def _tile(arrays: Sequence[Array]) -> tuple[int, int]:
    """Those of the factor."""
    rows, columns = _store(arrays[0]).tile
    return rows, columns


class _CholeskyFactoring(_Factoring[Cholesky]):
    def _beside(self, side: int) -> dict[str, tuple[tuple[int, ...], Any, tuple[int, ...]]]:
        return {}

    def _next(
        self, columns: slice, given: Node, done: Node | None, arrays: Sequence[Array]
    ) -> list[Node]:
        before = [] if done is None else [done]
        return [CholeskyColumns.of(before, given, upper=self._upper, tile=_tile(arrays))]

    def _result(self, node: Node, arrays: Sequence[Array]) -> Array:
        return arrays[0]


class _LUFactoring(_Factoring[LU]):
    def _part(self, done: int) -> float:
        # Left-looking, later columns take more.
        n = max(self._order, 1)
        return (done / n) ** 2 * (3 - done / n) / 2

    def _beside(self, side: int) -> dict[str, tuple[tuple[int, ...], Any, tuple[int, ...]]]:
        return {"pivots.zarr": ((self._order,), np.int32, (side,))}

    def _next(
        self, columns: slice, given: Node, done: Node | None, arrays: Sequence[Array]
    ) -> list[Node]:
        _, pivots = arrays
        before = [] if done is None else [done, _leaf(pivots[: columns.start])]
        node = LUColumns.of(before, given, pivots=columns.stop - columns.start, tile=_tile(arrays))
        return [node, Pivots.of(node)]

    def _result(self, node: Node, arrays: Sequence[Array]) -> Array:
        factors, pivots = arrays
        if isinstance(node, Pivots):
            return pivots
        return array_of(LUInOrder.of(node_of(pivots), node_of(factors)))


class _LDLFactoring(_Factoring[LDL]):
    """First of all, the whole matrix is rotated."""

    _first = -1

    def _beside(self, side: int) -> dict[str, tuple[tuple[int, ...], Any, tuple[int, ...]]]:
        n, dtype = self._order, self._root.dtype
        return {
            "diagonal.zarr": ((n, 2), dtype, (side, 2)),
            "rows.zarr": ((n, 4), np.int32, (side, 4)),
            "rotated.zarr": ((n, n), dtype, (side, side)),
        }

    def _prepare(self, arrays: Sequence[Array]) -> None:
        root = self._root
        given = node_of(array_of(root.operands[0]))
        node = LDLRotated.of(given, upper=self._upper, hermitian=root.hermitian)
        _compute([node], [arrays[-1]], None)

    def _given(self, arrays: Sequence[Array]) -> Array:
        return arrays[-1]

    def _next(
        self, columns: slice, given: Node, done: Node | None, arrays: Sequence[Array]
    ) -> list[Node]:
        _, d, *_ = arrays
        before = [] if done is None else [done, _leaf(d[: columns.start])]
        kind = {"upper": self._upper, "hermitian": self._root.hermitian}
        node = LDLColumns.of(before, given, **kind, tile=_tile(arrays))
        return [node, LDLDiagonal.of(node), LDLRows.of(node)]

    def _result(self, node: Node, arrays: Sequence[Array]) -> Array:
        factors, d, rows, _ = arrays
        if isinstance(node, LDLDiagonal):
            return d
        if isinstance(node, LDLRows):
            return rows
        return array_of(LDLInOrder.of(node_of(rows), node_of(factors), upper=self._upper))


def _store(array: Array) -> StoreSource:
    source = array._source
    assert isinstance(source, StoreSource)
    return source


def _leaf(array: Array) -> Node:
    return leaf_of(_store(array).now(), array._view)


def _part(array: Array) -> "tuple[_native.Store, tuple[int, ...]]":
    """Where a part of an array stands, as a target."""
    start, _ = array._view.box
    return _store(array).store, tuple(start)
