"""Several results of one plan, for further use: in memory or in the scratch directory."""

import math
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from outcrop import _native
from outcrop.arrays.array import Array
from outcrop.arrays.route import with_the_least
from outcrop.arrays.saving import create_store, reopened
from outcrop.arrays.source import MemorySource, Source, storable
from outcrop.arrays.views import View
from outcrop.expressions.build.arrays import ExpressionSource, array_of, node_of, resolved
from outcrop.expressions.graph.nodes import Leaf
from outcrop.expressions.planner import plan
from outcrop.formats.labels import Labels
from outcrop.process.config import memory_budget, scratch_directory, timeline_path
from outcrop.process.operation import operation

__all__ = ["materialize"]

_SMALL = 64
"""A part of the budget: what a call leaves in memory, so that dozens of calls fit in half of it."""

_TINY = 4096
"""Bytes of results that are kept in memory anyway."""


def materialize(*arrays: Array, names_least: bool = True) -> list[Array]:
    """Compute several arrays by one plan: the small ones to memory, the others to scratch.

    What they have in common is computed once, and read once. What is in scratch goes when it is not
    referred to any more.

    Parameters
    ----------
    arrays : Array
        No two of them the same.
    names_least : bool
        Whether the least budget that works is looked for, where this one is too small.

    Returns
    -------
    list of Array
        The same elements, stored or in memory.

    Raises
    ------
    BudgetError, StorageFullError
        As for `Array.save`; nothing is left then.
    """
    nodes = [node_of(array) for array in arrays]
    made: dict[int, Array] = {}
    for i, (array, node) in enumerate(zip(arrays, nodes, strict=True)):
        if node.size == 0 or _is_small_memory(node):
            made[i] = array_of(node) if node.size == 0 else array
    wanted = [i for i in range(len(nodes)) if i not in made]
    if wanted:
        made |= dict(zip(wanted, _computed([nodes[i] for i in wanted], names_least), strict=True))
    return [made[i] for i in range(len(nodes))]


def _is_small_memory(node: Any) -> bool:
    """Whether it is there already, and nobody changes it."""
    if not isinstance(node, Leaf) or not isinstance(node.source, MemorySource):
        return False
    return node.source.owned and node.view.is_whole


def _computed(nodes: list[Any], names_least: bool) -> list[Array]:
    sources = [ExpressionSource(node) for node in nodes]
    for source in sources:
        source.check_open()
    stores: list[_native.Store] = []
    directories: list[_native.ScratchDirectory] = []
    try:
        with operation():
            nodes = resolved(nodes)
            outputs = _in_memory(sources)
            targets: list[Any] = [
                outputs[i].store() if i in outputs else (None, "{}") for i in range(len(nodes))
            ]
            wanted = list(zip(nodes, targets, strict=True))
            found = (
                with_the_least(lambda: plan(wanted), lambda made: int(made.facts["steps"]))
                if names_least
                else plan(wanted)
            )
            for i, node in enumerate(nodes):
                if i in outputs:
                    continue
                directories.append(_native.ScratchDirectory(str(scratch_directory())))
                targets[i] = create_store(
                    Path(directories[-1].path) / "operand.zarr",
                    node.shape,
                    node.dtype,
                    tile=found.tile(i),
                    format="zarr",
                    order="C",
                    codecs=None,
                    zarr_format=3,
                    labels=Labels(),
                    overwrite=False,
                )
                stores.append(targets[i])
            timeline = timeline_path()
            told: Any = None
            with ExitStack() as operands:
                for source in sources:
                    told = source.checking(told)
                    operands.enter_context(source.naming_changes())
                found.run(targets, told, None if timeline is None else str(timeline))
    except BaseException:
        for store in stores:
            with suppress(Exception):
                store.abort()
        for directory in directories:
            directory.remove()
        raise
    results: list[Array] = []
    rest = iter(directories)
    for i, source in enumerate(sources):
        kept: Source
        if i in outputs:
            kept = MemorySource(outputs[i].array().view(source.dtype), owned=True)
        else:
            directory = next(rest)
            kept = reopened(targets[i], str(Path(directory.path) / "operand.zarr"), "zarr")
            kept.scratch = directory
        results.append(Array(kept, View.whole(source.shape)))
    return results


def _in_memory(sources: Sequence[ExpressionSource]) -> dict[int, Any]:
    """Where the results are computed to that stay in memory: the smallest ones, as many as fit."""
    sizes = [source.dtype.itemsize * math.prod(source.shape) for source in sources]
    left = memory_budget() // _SMALL
    found = {}
    for i in sorted(range(len(sources)), key=sizes.__getitem__):
        left -= sizes[i]
        if left >= 0 or sizes[i] <= _TINY:
            dtype = storable(sources[i].dtype)
            found[i] = _native.Output(sources[i].shape, dtype, sources[i].leaves_zeros)
    return found
