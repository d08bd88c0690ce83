"""What stands in the boxes of a picture, and between which there are edges."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from outcrop.process.sizes import format_bytes
from outcrop.process.text import printable, shortened
from outcrop.program.drawing.folding import Repetition, repetitions

__all__ = ["STATES", "Box", "Edge", "Item", "boxes_of", "told_passes", "wrapped"]

STATES = {
    "on disk": "read from a file",
    "in memory": "there beforehand",
    "never stored": "made tile by tile, where it is needed",
    "kept in memory": "there until it is used",
    "spilled": "written to scratch, read back",
    "result": "what is asked for",
}
"""What becomes of an array, and what that means."""

_MOST = 34
"""Characters of a line; of longer names, the middle is left out."""

_LINES = 4
"""Lines that say what a repetition computes, at most, ..."""

_HANDED = 3
"""... and arrays that flow from one to the next that are named."""

_ALIKE = 3
"""How many leaves are drawn as one, at least."""


@dataclass(frozen=True)
class Item:
    """An array of the picture.

    Attributes
    ----------
    name, detail : str
        Two lines of text.
    nbytes : int
        Bytes of its elements.
    state : str
        One of `STATES`.
    note : str
        What else there is to say of its state.
    """

    name: str
    detail: str
    nbytes: int
    state: str
    note: str = ""


@dataclass(frozen=True)
class Edge:
    """That one item is made of another one, and in which passes that one is read."""

    source: int
    target: int
    label: str = ""


@dataclass(frozen=True)
class Box:
    """A box of the picture.

    Attributes
    ----------
    lines : tuple of str
        What stands in it; the first one is its name.
    state : str
        One of `STATES`, which gives its colour.
    tip : str
        All that is said, where lines are shortened.
    count : int
        How many arrays it stands for, or copies of several.
    """

    lines: tuple[str, ...]
    state: str
    tip: str
    count: int = 1


def boxes_of(
    items: Sequence[Item], edges: Sequence[Edge], *, folded: bool
) -> tuple[list[Box], list[tuple[int, int]]]:
    """Boxes and what they are made of, each of which comes before.

    Parameters
    ----------
    items : sequence of Item
        Arrays, operands first.
    edges : sequence of Edge
        What they are made of.
    folded : bool
        Whether what is repeated is one box, and so are leaves alike.
    """
    operands: list[list[int]] = [[] for _ in items]
    labels: list[dict[str, None]] = [{} for _ in items]
    for edge in edges:
        operands[edge.target].append(edge.source)
        if edge.label:
            labels[edge.source][edge.label] = None
    passes = [", ".join(own) for own in labels]
    found: list[Repetition] = []
    if folded:
        found = repetitions(
            [_label(item, bool(o)) for item, o in zip(items, operands, strict=True)], operands
        )
    # Each part of the picture is known by the first of its items.
    part = list(range(len(items)))
    repetition: dict[int, Repetition] = {}
    for one in found:
        first = min(node for copy in one.copies for node in copy)
        repetition[first] = one
        for copy in one.copies:
            for node in copy:
                part[node] = first
    groups = {i: [i] for i in range(len(items)) if part[i] == i}
    if folded:
        for alike in _leaves_alike(items, operands, part, passes):
            groups[alike[0]] = alike
            for node in alike[1:]:
                part[node] = alike[0]
                del groups[node]
    # What is asked for is seen even if it is one of many that are repeated.
    results = {
        first: [node for copy in one.copies for node in copy if items[node].state == "result"]
        for first, one in repetition.items()
    }
    arrows = {(part[o], part[i]): None for i, own in enumerate(operands) for o in own}
    order = _in_order(list(groups), [edge for edge in arrows if edge[0] != edge[1]])
    boxes: list[Box] = []
    number: dict[int, int] = {}
    lines: list[tuple[int, int]] = []
    for first in order:
        number[first] = len(boxes)
        if first not in repetition:
            boxes.append(_box([items[i] for i in groups[first]], passes[first]))
            continue
        boxes.append(_repeated(items, repetition[first]))
        for alike in _by_label(items, results[first]):
            lines.append((number[first], len(boxes)))
            boxes.append(_box([items[i] for i in alike], ""))
    lines += [(number[a], number[b]) for a, b in arrows if a != b]
    return boxes, sorted(lines)


def told_passes(numbers: Sequence[int]) -> str:
    """Some passes, in order, however many they are.

    Examples
    --------
    >>> [told_passes(numbers) for numbers in ([], [3], [1, 2], [1, 2, 3, 4], [1, 3, 5, 7, 9])]
    ['', 'pass 3', 'passes 1 and 2', 'passes 1 to 4', '5 passes between 1 and 9']
    """
    match numbers:
        case []:
            return ""
        case [one]:
            return f"pass {one}"
        case [one, other]:
            return f"passes {one} and {other}"
    first, last = numbers[0], numbers[-1]
    if last - first == len(numbers) - 1:
        return f"passes {first} to {last}"
    return f"{len(numbers)} passes between {first} and {last}"


def _label(item: Item, is_made: bool) -> tuple[str, ...]:
    # Leaves have names of their own.
    return (item.name, item.detail) if is_made else ("", item.detail, item.state)


def _leaves_alike(
    items: Sequence[Item],
    operands: Sequence[Sequence[int]],
    part: Sequence[int],
    passes: Sequence[str],
) -> list[list[int]]:
    """Leaves of one shape of which the same is made."""
    targets: list[dict[int, None]] = [{} for _ in items]
    for node, own in enumerate(operands):
        for source in own:
            targets[source][part[node]] = None
    alike: dict[tuple[object, ...], list[int]] = {}
    for node, own in enumerate(operands):
        if not own and items[node].state != "result":
            key = items[node].detail, items[node].state, passes[node], tuple(targets[node])
            alike.setdefault(key, []).append(node)
    return [nodes for nodes in alike.values() if len(nodes) >= _ALIKE]


def _by_label(items: Sequence[Item], nodes: Iterable[int]) -> list[list[int]]:
    found: dict[tuple[str, str], list[int]] = {}
    for node in nodes:
        found.setdefault((items[node].name, items[node].detail), []).append(node)
    return list(found.values())


def _in_order(nodes: Sequence[int], edges: Sequence[tuple[int, int]]) -> list[int]:
    """Nodes, what they are made of first."""
    waits = dict.fromkeys(nodes, 0)
    after: dict[int, list[int]] = {node: [] for node in nodes}
    for source, target in edges:
        waits[target] += 1
        after[source].append(target)
    ready = [node for node in reversed(nodes) if not waits[node]]
    found = []
    while ready:
        node = ready.pop()
        found.append(node)
        for target in reversed(after[node]):
            waits[target] -= 1
            if not waits[target]:
                ready.append(target)
    return found


def _box(items: Sequence[Item], passes: str) -> Box:
    """A box of one array, or of several alike."""
    first, count = items[0], len(items)
    names = list(dict.fromkeys(printable(item.name) for item in items))
    notes = {item.note for item in items}
    name = names[0]
    size = format_bytes(sum(item.nbytes for item in items))
    if count > 1:
        name = f"x {count}: {name}" + (f" … {names[-1]}" if len(names) > 1 else "")
        size += " in all"
    state = first.state
    if first.note and len(notes) == 1:
        state += f", {first.note}" + (", each" if count > 1 else "")
    more = [f"in {passes}"] if passes else []
    lines = [
        shortened(name, _MOST),
        *wrapped([first.detail, size]),
        *wrapped([printable(word) for word in state.split(", ")]),
        *more,
    ]
    tip = [", ".join(names) if count > 1 else name, f"{first.detail}, {size}", state, *more]
    return Box(tuple(lines), first.state, "\n".join(tip), count)


def _repeated(items: Sequence[Item], one: Repetition) -> Box:
    """A box of what is repeated: what a copy computes, and what it hands on."""
    copy, count = [items[i] for i in one.copies[-1]], len(one.copies)
    each = [items[i] for nodes in one.copies for i in nodes]
    head = f"x {count}, {'one after the other' if one.handed_on else 'side by side'}"
    computed = Counter(printable(item.name) for item in copy)
    names = [n if times == 1 else f"{times} {n}" for n, times in computed.items()]
    states = Counter(item.state for item in each)
    kinds = [
        f"{times} {state}s" if state == "result" and times > 1 else f"{times} {state}"
        for state, times in states.items()
    ]
    if len(states) == 1:
        kinds = list(states)
    size = format_bytes(sum(item.nbytes for item in each))
    number = f"{len(each)} arrays, {size} in all"
    handed = [f"hands on {printable(items[i].name)} {items[i].detail}" for i in one.handed_on]
    tip = [head, ", ".join(names), number, ", ".join(kinds), *handed]
    listed = wrapped([shortened(name, _MOST) for name in names])
    if len(listed) > _LINES:
        listed = [*listed[: _LINES - 1], "and others"]
    if len(handed) > _HANDED:
        handed = [*handed[:_HANDED], f"and {len(handed) - _HANDED} more"]
    lines = [head, *listed, number, *wrapped(kinds)]
    lines += [line for one in handed for line in wrapped([shortened(one, 2 * _MOST)])]
    # What costs the most is to be seen.
    state = max(states, key=lambda state: (state == "spilled", states[state]))
    return Box(tuple(lines), state, "\n".join(tip), count)


def wrapped(words: Sequence[str], most: int = _MOST) -> list[str]:
    """Words in lines, with commas between them.

    Examples
    --------
    >>> wrapped(["one", "two", "three"], 9)
    ['one, two,', 'three']
    """
    lines: list[str] = []
    for word in words:
        if lines and len(lines[-1]) + 2 + len(word) <= most:
            lines[-1] += f", {word}"
        else:
            if lines:
                lines[-1] += ","
            lines.append(word)
    return lines
