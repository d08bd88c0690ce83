"""Results that go on where they were stopped; of factorizations, some columns at a time."""

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from outcrop import _native
from outcrop.arrays.array import Array
from outcrop.arrays.computed import ComputedSource
from outcrop.arrays.creation import create, open
from outcrop.arrays.kept import SECONDS, Kept, Resumable, clear_kept, identity_of_stored
from outcrop.arrays.route import with_the_least
from outcrop.arrays.saving import part_of
from outcrop.arrays.stored import StoreSource
from outcrop.checks import StrPath
from outcrop.errors import ArrayExistsError, OutcropError, UnsupportedError
from outcrop.expressions.build.arrays import ExpressionSource, array_of, node_of, resolved
from outcrop.expressions.graph.matrices import (
    LU,
    Cholesky,
    CholeskyColumns,
    LUColumns,
    LUInOrder,
    Pivots,
    straight,
)
from outcrop.expressions.graph.nodes import Node
from outcrop.expressions.planner import Planned, plan
from outcrop.expressions.rewrite.view_pushdown import leaf_of
from outcrop.process.operation import operation

__all__ = ["save_resumably"]

Progress = Callable[[int, int], None]

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
    with operation():
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
    return _Factoring(results)


def _root(nodes: Sequence[Node]) -> LU | Cholesky:
    """The factorization that all results are of."""
    roots = {id(n): n for n in (n.operands[0] if isinstance(n, Pivots) else n for n in nodes)}
    (root, *others) = roots.values()
    if others or not isinstance(root, LU | Cholesky):
        raise UnsupportedError(
            "resume= is for one factorization: oc.linalg.cholesky(A), or what "
            "oc.linalg.lu_factor(A) gives; and for sweeps"
        )
    found = straight(root.operands[0])
    if found is None or not isinstance(found.leaf.source, StoreSource):
        raise UnsupportedError(
            "resume= is for factors of a matrix that is stored, by which it is known again; save "
            "what is computed first"
        )
    return root


class _Factoring(Resumable):
    """A factorization by columns, to what is kept of it."""

    def __init__(self, results: Mapping[str, Array]) -> None:
        self._nodes = {name: node_of(array) for name, array in results.items()}
        root = self._root = _root(list(self._nodes.values()))
        for name, node in self._nodes.items():
            source = ExpressionSource(node)
            source.check_open()
            source.check_target(name)
        factor = next((n for n, node in self._nodes.items() if node is root), next(iter(results)))
        self._kept = Kept(factor, self._work())
        # A factor of any shape has as many columns of tiles as there are on its diagonal.
        self._order = min(root.shape)
        self._upper = isinstance(root, Cholesky) and root.upper

    def run(self, progress: Progress | None) -> float:
        progress = part_of(progress, 0.0, 0.9)
        done, whole = self._begun()
        if done >= self._order:
            return 0.9
        with self._opened("r+") as (factors, pivots):
            side = self._side(_store(factors).tile)
            count = -(-self._order // side)
            blocks = min(max(math.ceil(whole.facts["seconds"] / _SECONDS), 1), max(count, 1))
            step = max(-(-count // blocks), 1) * side
            while done < self._order:
                end = min(done + step, self._order)
                told = part_of(progress, self._part(done), self._part(end))
                self._columns(done, end, factors, pivots, told)
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
        with self._opened("r") as (factors, pivots):
            results = {n: self._result(node, factors, pivots) for n, node in self._nodes.items()}
            return save(names, results, overwrite=overwrite, progress=progress)

    def _result(self, node: Node, factors: Array, pivots: Array | None) -> Array:
        if isinstance(node, Pivots):
            assert pivots is not None
            return pivots
        if isinstance(self._root, LU):
            assert pivots is not None
            return array_of(LUInOrder.of(node_of(pivots), node_of(factors)))
        return factors

    def _part(self, done: int) -> float:
        """Which part of the work some columns are."""
        n = max(self._order, 1)
        if isinstance(self._root, LU):
            # Left-looking, later columns take more.
            return (done / n) ** 2 * (3 - done / n) / 2
        return (done / n) ** 2 * (3 - 2 * done / n)

    # -- what is kept ----------------------------------------------------------------------------

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
            if isinstance(self._root, LU):
                count = (self._order,)
                side = self._side(tile)
                create(where / "pivots.zarr", count, dtype=np.int32, tile=side).close()
            done = 0
            self._kept.write(done)
        return done, whole

    def _side(self, tile: Sequence[int]) -> int:
        """Rows and columns of tiles."""
        pairs = zip(tile, self._root.shape, strict=True)
        return min(t for t, n in pairs if t < n or t == min(tile))

    def _work(self) -> tuple[Any, ...]:
        """By what the matrix, its state, and what is done with it are known again."""
        found = straight(self._root.operands[0])
        assert found is not None
        source = found.leaf.source
        assert isinstance(source, StoreSource)
        return (
            type(self._root).__name__,
            isinstance(self._root, Cholesky) and self._root.upper,
            self._root.shape,
            self._root.dtype.str,
            found.leaf.view.box,
            found.leaf.view.turn,
            found.conjugate,
            identity_of_stored(source),
        )

    @contextmanager
    def _opened(self, mode: str) -> Iterator[tuple[Array, Array | None]]:
        """The factor and the pivots as far as they are done."""
        names = ["factors.zarr", *(["pivots.zarr"] if isinstance(self._root, LU) else [])]
        arrays = [open(self._kept.path / name, mode) for name in names]
        try:
            yield arrays[0], arrays[1] if len(arrays) > 1 else None
        finally:
            for array in arrays:
                with suppress(OutcropError):
                    array.close()

    # -- columns ---------------------------------------------------------------------------------

    def _columns(
        self,
        first: int,
        end: int,
        factors: Array,
        pivots: Array | None,
        progress: Progress | None,
    ) -> None:
        # Of what is wider than high, the rest comes with the last ones.
        last = end if end < self._order or self._upper else self._root.shape[1]
        own: tuple[Any, ...] = (slice(None), slice(first, last))
        before: tuple[Any, ...] = (slice(None), slice(0, first))
        if self._upper:
            own, before = own[::-1], before[::-1]
        given = node_of(array_of(self._root.operands[0])[own])
        node: Node
        targets: list[Any]
        if isinstance(self._root, LU):
            assert pivots is not None
            done = [_leaf(factors[before]), _leaf(pivots[:first])] if first else []
            node = LUColumns.of(done, given, pivots=end - first)
            arrays = [factors, pivots]
            nodes = [node, Pivots.of(node)]
            targets = [_part(factors[own]), _part(pivots[first:end])]
        else:
            done = [_leaf(factors[before])] if first else []
            node = CholeskyColumns.of(done, given, upper=self._upper)
            arrays, nodes, targets = [factors], [node], [_part(factors[own])]
        sources = [_store(array) for array in arrays]
        with operation():
            expressions = [ExpressionSource(node) for node in nodes]
            computed = resolved(nodes)
            wanted = list(zip(computed, targets, strict=True))
            found = with_the_least(lambda: plan(wanted), lambda made: int(made.facts["steps"]))
            told = expressions[0].checking(progress)
            found.run([source.store for source in sources], told, expressions[0]._timeline())
        for source in sources:
            source._writes += 1


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
