"""Factorizations that go on where they were stopped.

A factor is computed some columns at a time, into an array that is kept beside the result, in a
directory of its own. Each time these columns are complete they are committed, and a record says how
many there are: so a run that is killed loses what has been done since. What is kept is used again
for the same state of the same matrix alone.
"""

import hashlib
import json
import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from outcrop import _native
from outcrop.arrays.array import Array
from outcrop.arrays.creation import create, open
from outcrop.arrays.route import with_the_least
from outcrop.arrays.saving import clear_kept, kept_beside, part_of
from outcrop.arrays.stored import StoredState, StoreSource
from outcrop.checks import StrPath
from outcrop.errors import ArrayExistsError, InvalidArgumentError, OutcropError, UnsupportedError
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

_SECONDS = 20.0
"""How long columns take that are committed together, roughly, by what is predicted."""

_FORMAT = 1
"""Of what is kept."""


@dataclass
class _Record:
    """What is kept, and of what.

    Attributes
    ----------
    format : int
        Of this record.
    work : str
        Which factorization of which state of which matrix.
    side : int
        Rows and columns of tiles.
    done : int
        How many columns there are, or rows of an upper factor.
    """

    format: int
    work: str
    side: int
    done: int


def save_resumably(
    names: Mapping[StrPath, str],
    arrays: Mapping[StrPath, Array],
    save: Callable[..., dict[StrPath, Array]],
    *,
    overwrite: bool,
    progress: Progress | None,
) -> dict[StrPath, Array]:
    """As `save` does, of a factor, and its pivots, from where it was stopped before.

    Raises
    ------
    UnsupportedError
        These are no factors of what is stored.
    InvalidArgumentError
        What is kept is of another matrix, or of another state of it.
    """
    nodes = {path: node_of(array) for path, array in arrays.items()}
    root = _root(list(nodes.values()))
    factor = next((path for path, node in nodes.items() if node is root), next(iter(nodes)))
    for name in names.values():
        if os.path.lexists(name) and not overwrite:
            raise ArrayExistsError(f"{name}: exists already; pass overwrite=True to replace it")
    sources = [ExpressionSource(node) for node in nodes.values()]
    for name, source in zip(names.values(), sources, strict=True):
        source.check_open()
        source.check_target(name)
    factoring = _Factoring(root, kept_beside(names[factor]))
    # All columns that are factored now, and bringing them to where they are wanted, are one report.
    with operation():
        share = factoring.run(part_of(progress, 0.0, 0.9))
        with factoring.opened("r") as (factors, pivots):
            results = {path: _result(node, root, factors, pivots) for path, node in nodes.items()}
            told = part_of(progress, share, 1.0)
            saved = save(names, results, overwrite=overwrite, progress=told)
    clear_kept(names[factor])
    return saved


def _root(nodes: Sequence[Node]) -> LU | Cholesky:
    """The factorization that all results are of."""
    roots = {id(n): n for n in (n.operands[0] if isinstance(n, Pivots) else n for n in nodes)}
    (root, *others) = roots.values()
    if others or not isinstance(root, LU | Cholesky):
        raise UnsupportedError(
            "resume= is for one factorization: oc.linalg.cholesky(A), or what "
            "oc.linalg.lu_factor(A) gives"
        )
    found = straight(root.operands[0])
    if found is None or not isinstance(found.leaf.source, StoreSource):
        raise UnsupportedError(
            "resume= is for factors of a matrix that is stored, by which it is known again; save "
            "what is computed first"
        )
    return root


def _result(node: Node, root: Node, factors: Array, pivots: Array | None) -> Array:
    if isinstance(node, Pivots):
        assert pivots is not None
        return pivots
    if isinstance(root, LU):
        assert pivots is not None
        return array_of(LUInOrder.of(node_of(pivots), node_of(factors)))
    return factors


class _Factoring:
    """A factorization by columns, to what is kept of it."""

    def __init__(self, root: LU | Cholesky, kept: Path) -> None:
        self._root, self.kept = root, kept
        # A factor of any shape has as many columns of tiles as there are on its diagonal.
        self._order = min(root.shape)
        self._upper = isinstance(root, Cholesky) and root.upper

    def run(self, progress: Progress | None) -> float:
        """Compute all columns that are not there yet; gives which part of `progress` that is."""
        record, whole = self._begun()
        seconds = whole.facts["seconds"]
        count = -(-self._order // record.side)
        blocks = min(max(math.ceil(seconds / _SECONDS), 1), max(count, 1))
        step = max(-(-count // blocks), 1) * record.side
        if record.done >= self._order:
            return 0.9
        with self.opened("r+") as (factors, pivots):
            while record.done < self._order:
                end = min(record.done + step, self._order)
                told = part_of(progress, self._part(record.done), self._part(end))
                self._columns(record, end, factors, pivots, told)
                record.done = end
                self._write(record)
        return 0.9

    def _part(self, done: int) -> float:
        """Which part of the work some columns are."""
        n = max(self._order, 1)
        if isinstance(self._root, LU):
            # Left-looking, later columns take more.
            return (done / n) ** 2 * (3 - done / n) / 2
        return (done / n) ** 2 * (3 - 2 * done / n)

    # -- what is kept ----------------------------------------------------------------------------

    def _begun(self) -> tuple[_Record, Planned]:
        """What there is to go on with, or what is begun now; and the plan of all of it."""
        with operation():
            (own,) = resolved([self._root])
            whole = with_the_least(
                lambda: plan([(own, (None, "{}"))]), lambda found: int(found.facts["steps"])
            )
        work = self._work()
        record = self._read()
        if record is not None and record.work != work:
            raise InvalidArgumentError(
                f"{self.kept}: what is kept there is of another matrix, of another state of it, or "
                "another factorization; saving with resume=False removes it"
            )
        if record is None:
            tile = whole.tile(0)
            side = min(
                t for t, n in zip(tile, self._root.shape, strict=True) if t < n or t == min(tile)
            )
            with suppress(FileNotFoundError):
                shutil.rmtree(self.kept)
            os.mkdir(self.kept)
            shape = self._root.shape
            create(self.kept / "factors.zarr", shape, dtype=self._root.dtype, tile=tile).close()
            if isinstance(self._root, LU):
                count = (self._order,)
                create(self.kept / "pivots.zarr", count, dtype=np.int32, tile=side).close()
            record = _Record(_FORMAT, work, side, 0)
            self._write(record)
        return record, whole

    def _work(self) -> str:
        """By what the matrix, its state, and what is done with it are known again."""
        found = straight(self._root.operands[0])
        assert found is not None
        source = found.leaf.source
        state = source.state if isinstance(source, StoredState) else None
        if state is None:
            raise UnsupportedError(f"{source.path}: resume= is for a matrix that is not written to")
        known = (
            type(self._root).__name__,
            self._upper,
            self._root.shape,
            self._root.dtype.str,
            os.path.realpath(str(source.path)),
            found.leaf.view.box,
            found.leaf.view.turn,
            found.conjugate,
            repr(state),
        )
        return hashlib.sha256(repr(known).encode()).hexdigest()

    def _read(self) -> _Record | None:
        try:
            with (self.kept / "state.json").open() as file:
                found = _Record(**json.load(file))
        except (FileNotFoundError, ValueError, TypeError):
            return None
        return found if found.format == _FORMAT else None

    def _write(self, record: _Record) -> None:
        new = self.kept / "state.json.new"
        with new.open("w") as file:
            json.dump(asdict(record), file)
            file.flush()
            os.fsync(file.fileno())
        new.rename(self.kept / "state.json")
        directory = os.open(self.kept, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    @contextmanager
    def opened(self, mode: str) -> Iterator[tuple[Array, Array | None]]:
        """The factor and the pivots as far as they are done."""
        names = ["factors.zarr", *(["pivots.zarr"] if isinstance(self._root, LU) else [])]
        arrays = [open(self.kept / name, mode) for name in names]
        try:
            yield arrays[0], arrays[1] if len(arrays) > 1 else None
        finally:
            for array in arrays:
                with suppress(OutcropError):
                    array.close()

    # -- columns ---------------------------------------------------------------------------------

    def _columns(
        self,
        record: _Record,
        end: int,
        factors: Array,
        pivots: Array | None,
        progress: Progress | None,
    ) -> None:
        first = record.done
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
