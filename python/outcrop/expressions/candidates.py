"""What the planner tries: what is computed together, in tiles of which sizes, the best first."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from outcrop import _native
from outcrop.arrays.stored import StoreSource
from outcrop.expressions.graph.functions import Copy
from outcrop.expressions.graph.gathers import Alias, Gather, Take
from outcrop.expressions.graph.nodes import Leaf, Map, Node, Reduce, ancestors
from outcrop.expressions.graph.points import Points
from outcrop.expressions.graph.reshape import Reshape
from outcrop.expressions.lower.storage import Wanted
from outcrop.expressions.rewrite.external_shuffle import Taking, ways
from outcrop.expressions.tiling.fusion import Grouping
from outcrop.expressions.tiling.parts import RUN
from outcrop.expressions.tiling.tile_sizes import Prefer, cut, other_sizes, sizes
from outcrop.process.config import memory_budget

__all__ = ["Aim", "Cut", "candidates", "other_cuts", "ways_of"]

Cut: TypeAlias = tuple[Mapping[int, int], bool]
"""Into which extents lines are cut, and whether stored tiles are held."""

_SHORTER_RUNS = (RUN // 2, RUN // 4)
"""Bytes of each row of a file that are held where memory has no room for more of all its rows."""


@dataclass(frozen=True)
class Aim:
    """What a result is computed to.

    Attributes
    ----------
    target
        A store, a part of one, or the tile (or None) and attributes of a Zarr array to be.
    tile : tuple of int or None
        What it is computed in whole multiples of, where that matters.
    """

    target: Any
    tile: tuple[int, ...] | None

    @classmethod
    def at(cls, target: Any) -> "Aim":
        """The tiles that the target has are written whole."""
        return cls(target, _tile(target))


_BESIDE = 2
"""How many times all files of elements have to fit into the budget to be held by whole rows."""

_PREFERENCES = (
    (True, Prefer.USUAL),
    (False, Prefer.USUAL),
    (True, Prefer.FEW_LINES),
    (True, Prefer.WHOLE_PRODUCTS),
)
"""Whether stored tiles are held, and what is cut first, as it is tried."""


def ways_of(roots: Sequence[Node], aims: Sequence[Aim]) -> list[Taking]:
    """How rows are taken and shapes changed, the best first; the last one is as they come."""
    roots = [Map.of(Copy(), [n], n.dtype) if isinstance(n, Leaf) else n for n in roots]
    nodes = _with_siblings(ancestors(roots))
    if not any(isinstance(node, Take | Points | Reshape) for node in nodes):
        return [Taking(roots, [])]
    tiles = [(root, aim.tile) for root, aim in zip(roots, aims, strict=True)]
    tiling = cut(nodes, tiles, *sizes(memory_budget())[0])
    return ways(roots, tiling, memory_budget())


def candidates(
    taken: Sequence[Taking], aims: Sequence[Aim]
) -> Iterator[tuple[list[Wanted], Grouping, Taking]]:
    """What may be computed together, the best first: the others take less memory."""
    limits = sizes(memory_budget())
    for way in taken:
        given = [Wanted(root, aim.target) for root, aim in zip(way.roots, aims, strict=True)]
        nodes = _with_siblings(ancestors(way.roots))
        tiles = [(root, aim.tile) for root, aim in zip(way.roots, aims, strict=True)]
        for holds in (True, False):
            is_held = False
            cuts: dict[int, int] | None = None
            for limit in limits:
                own, grouping = _grouped(given, nodes, tiles, way, limit, holds=holds)
                if grouping.tiling.cuts != cuts:
                    cuts = grouping.tiling.cuts
                    is_held |= any(grouping.tiling.is_held(n) for n in nodes if isinstance(n, Leaf))
                    yield own, grouping, way
            if not is_held:
                break


def other_cuts(
    way: Taking, aims: Sequence[Aim], tried: Sequence[Cut], *, whole_tiles: bool
) -> Iterator[tuple[list[Wanted], Grouping]]:
    """What else there is to cut into, the most promising first.

    Parameters
    ----------
    way : Taking
        How rows are taken and shapes changed.
    aims : sequence of Aim
        What each result is computed to.
    tried : sequence of Cut
        What has been tried.
    whole_tiles : bool
        Whether to begin with whole stored tiles.
    """
    given = [Wanted(root, aim.target) for root, aim in zip(way.roots, aims, strict=True)]
    tiles = [(root, aim.tile) for root, aim in zip(way.roots, aims, strict=True)]
    nodes = _with_siblings(ancestors(way.roots))
    usual = sizes(memory_budget())[0]
    seen = list(tried)
    if whole_tiles:
        own, grouping = _grouped(given, nodes, tiles, way, usual, prefer=Prefer.WHOLE_TILES)
        if (known := (grouping.tiling.cuts, False)) not in seen:
            seen.append(known)
            yield own, grouping
    for run in _SHORTER_RUNS:
        own, grouping = _grouped(given, nodes, tiles, way, usual, holds=True, run=run)
        if _holds_files(grouping):
            yield own, grouping
    for limit in other_sizes(memory_budget()):
        for holds, prefer in _PREFERENCES:
            own, grouping = _grouped(given, nodes, tiles, way, limit, holds=holds, prefer=prefer)
            known = grouping.tiling.cuts, holds
            if known not in seen:
                seen.append(known)
                yield own, grouping


def _tile(target: Any) -> tuple[int, ...] | None:
    if isinstance(target, tuple) and isinstance(target[0], _native.Store):
        return _tile(target[0])
    if isinstance(target, tuple):
        return None if target[0] is None else tuple(target[0])
    return tuple(target.tile) if target.layout == "tiled" else None


def _fit(nodes: Iterable[Node]) -> bool:
    """Whether memory has room for all files of elements, beside what is made of them."""
    leaves = (n for n in nodes if isinstance(n, Leaf) and isinstance(n.source, StoreSource))
    files = {id(n.source): n.source for n in leaves if n.source.layout != "tiled"}
    nbytes = sum(math.prod(s.shape) * s.dtype.itemsize for s in files.values())
    return nbytes * _BESIDE <= memory_budget()


def _holds_files(grouping: Grouping) -> bool:
    """Whether parts of files of elements are held, and are not whole rows."""
    tiling = grouping.tiling
    leaves = (n for n in grouping.nodes if isinstance(n, Leaf) and n.source.layout != "tiled")
    return not tiling.by_rows and any(map(tiling.is_held, leaves))


def _with_siblings(nodes: Sequence[Node]) -> list[Node]:
    """With all the numbers that make up results of reductions."""
    found: list[Node] = []
    seen: set[int] = set()
    for node in nodes:
        family: Sequence[Node] = node.family() if isinstance(node, Reduce) else (node,)
        for one in family:
            if id(one) not in seen:
                seen.add(id(one))
                found.append(one)
    return found


def _grouped(
    wanted: Sequence[Wanted],
    nodes: Sequence[Node],
    tiles: Sequence[tuple[Node, tuple[int, ...] | None]],
    way: Taking,
    limit: tuple[int, int],
    *,
    holds: bool = False,
    prefer: Prefer = Prefer.USUAL,
    run: int = RUN,
) -> tuple[list[Wanted], Grouping]:
    """What is computed together, with tiles of so many bytes, at most; and what is wanted of it."""
    while True:
        tiling = cut(nodes, tiles, *limit, way.short, way.whole, prefer)
        tiling.holds, tiling.by_rows, tiling.run = holds, holds and _fit(nodes), run
        made: dict[int, Node] = {}
        for node in nodes:
            operands = [made[id(o)] for o in node.operands]
            mixed = () if isinstance(node, Gather) else tiling.axes.mixed(node, tiling)
            for i in mixed:
                operands[i] = Alias.of(operands[i])
            made[id(node)] = node.with_operands(operands)
        roots = [made[id(w.node)] for w in wanted]
        if all(a is w.node for a, w in zip(roots, wanted, strict=True)):
            return list(wanted), Grouping((w.node for w in wanted), tiling, nodes)
        wanted = [Wanted(root, w.target) for root, w in zip(roots, wanted, strict=True)]
        tiles = [(root, tile) for root, (_, tile) in zip(roots, tiles, strict=True)]
        nodes = _with_siblings(ancestors(roots))
