"""Graphs as pickles: one node after the other, since chains are deeper than Python's stack."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from outcrop.expressions.graph.nodes import Leaf, Node, ancestors

__all__ = ["Flat", "flattened", "restored"]


@dataclass(frozen=True)
class _Operand:
    """In the place of an operand: its number among a node's own."""

    number: int


@dataclass(frozen=True)
class _One:
    """A node, by itself.

    Attributes
    ----------
    kind : type of Node
        Which.
    operands : tuple of int
        Its operands, by their places in the list.
    members : mapping
        All else that it has.
    """

    kind: type[Node]
    operands: tuple[int, ...]
    members: dict[str, Any]


Flat = tuple[_One, ...]
"""Operands come before what is made of them; the last one is the result."""

_OF_THIS_PROCESS = ("operands", "_views")


def flattened(node: Node) -> Flat:
    """A node, and all that it is made of."""
    nodes = ancestors([node])
    places = {id(one): place for place, one in enumerate(nodes)}
    return tuple(
        _One(type(one), tuple(places[id(o)] for o in one.operands), _members(one)) for one in nodes
    )


def _members(node: Node) -> dict[str, Any]:
    numbers = {id(operand): number for number, operand in enumerate(node.operands)}

    def apart(value: Any) -> Any:
        if isinstance(value, Node):
            return _Operand(numbers[id(value)])
        return tuple(map(apart, value)) if type(value) is tuple else value

    # What it has by itself, and in slots.
    state: Any = node.__getstate__()
    members: dict[str, Any] = {}
    for part in state if isinstance(state, tuple) else (state,):
        members |= part or {}
    return {name: apart(v) for name, v in members.items() if name not in _OF_THIS_PROCESS}


def restored(flat: Flat) -> Node:
    """The node of which this was made, as the one that stands for it in this process."""
    made: list[Node] = []
    for one in flat:
        made.append(_restored(one, [made[place] for place in one.operands]))
    return made[-1]


def _restored(one: _One, operands: Sequence[Node]) -> Node:
    def together(value: Any) -> Any:
        if isinstance(value, _Operand):
            return operands[value.number]
        return tuple(map(together, value)) if type(value) is tuple else value

    members = {name: together(value) for name, value in one.members.items()}
    if issubclass(one.kind, Leaf):
        return Leaf.of(members["source"], members["view"])
    node = one.kind.__new__(one.kind)
    node.operands = tuple(operands)
    for name, value in members.items():
        setattr(node, name, value)
    # Nodes that are equal are one.
    return node._made_of(operands)
