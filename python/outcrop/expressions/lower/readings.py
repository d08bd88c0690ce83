"""What a program takes of stored arrays, and how little of that would do."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from outcrop.arrays.stored import StoreSource
from outcrop.expressions.graph.gathers import Gather
from outcrop.expressions.graph.matrices import straight
from outcrop.expressions.graph.nodes import Leaf, Node
from outcrop.expressions.tiling.fusion import Group
from outcrop.program.reading import Reading, run_of

__all__ = ["readings"]


@dataclass(frozen=True)
class _Taken:
    """A view that a group takes, and the array of the program that has it."""

    leaf: Leaf
    number: int


def readings(
    passes: Sequence[Sequence[Group]],
    number_of: Callable[[Node, Group], int | None],
    arrays: Sequence[Mapping[str, Any]],
) -> list[Reading]:
    """What passes take of each stored array.

    Parameters
    ----------
    passes : sequence of sequence of Group
        The groups of each pass, and of those that are made side by side.
    number_of : callable
        The number of the array of the program that a node is loaded to for a group, None where it
        has none.
    arrays : sequence of mapping
        What is known of the arrays of the program.
    """
    times: dict[int, list[list[_Taken]]] = {}
    in_operations: set[int] = set()
    for groups in passes:
        own: dict[int, list[_Taken]] = {}
        for group in groups:
            for taken in _taken(group, number_of):
                own.setdefault(id(taken.leaf.source), []).append(taken)
                if group.operation is not None:
                    in_operations.add(id(taken.leaf.source))
        for source, views in own.items():
            times.setdefault(source, []).append(views)
    return [_reading(found, arrays, source in in_operations) for source, found in times.items()]


def _taken(group: Group, number_of: Callable[[Node, Group], int | None]) -> Iterator[_Taken]:
    """What is stored of what a group takes."""
    gathers = [node for node in (*group.computed, *group.roots) if isinstance(node, Gather)]
    nodes = [*group.inputs, *(operand for gather in gathers for operand in gather.operands)]
    for node in {id(node): node for node in nodes}.values():
        leaf = node
        # Linear algebra converts some of what it takes as it is loaded.
        if group.operation is not None and (found := straight(node)) is not None:
            leaf = found.leaf
        if isinstance(leaf, Leaf) and isinstance(leaf.source, StoreSource) and leaf.size:
            number = number_of(node, group)
            if number is not None:
                yield _Taken(leaf, number)


def _reading(
    passes: Sequence[Sequence[_Taken]], arrays: Sequence[Mapping[str, Any]], in_operation: bool
) -> Reading:
    largest = max((taken for views in passes for taken in views), key=lambda t: t.leaf.size)
    source, tile = largest.leaf.source, tuple(arrays[largest.number]["tile"])
    assert isinstance(source, StoreSource)
    is_tiled, start = source.layout == "tiled", largest.leaf.view.box[0]
    numbers = dict.fromkeys([largest.number, *(t.number for views in passes for t in views)])
    return Reading(
        arrays=tuple(numbers),
        passes=len(passes),
        least=sum(_least([taken.leaf for taken in views]) for views in passes),
        nbytes=max(_nbytes(taken.leaf) for views in passes for taken in views),
        stored=source.tile if is_tiled else None,
        tile=tile,
        starts_inside=is_tiled and any(at % n for at, n in zip(start, source.tile, strict=True)),
        run=run_of(
            source.shape, tile, source.dtype.itemsize, by_columns=source.layout == "column-major"
        ),
        in_operation=in_operation,
        beyond=source.beyond,
    )


def _least(leaves: Sequence[Leaf]) -> int:
    """Bytes that are read if all views in a pass are read once."""
    boxes = list({leaf.view.box: leaf for leaf in leaves})
    source = leaves[0].source
    assert isinstance(source, StoreSource)
    low = [min(ends) for ends in zip(*(start for start, _ in boxes), strict=True)]
    ends = [[a + n for a, n in zip(*box, strict=True)] for box in boxes]
    high = [max(own) for own in zip(*ends, strict=True)]
    extent = [b - a for a, b in zip(low, high, strict=True)]
    load = source.store.bytes_to_load
    return min(load(low, extent), sum(load(start, shape) for start, shape in boxes))


def _nbytes(leaf: Leaf) -> int:
    elements = leaf.dtype.itemsize
    for n in leaf.view.box[1]:
        elements *= n
    return elements
