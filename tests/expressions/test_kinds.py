"""Every kind of node has an answer to whatever is asked of every node."""

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

import pytest

import outcrop.expressions
from outcrop.expressions.graph.nodes import Map, Node
from outcrop.expressions.graph.phases import PHASES, Phase, is_family

for module in pkgutil.walk_packages(outcrop.expressions.__path__, "outcrop.expressions."):
    importlib.import_module(module.name)


def classes(base: type[Node]) -> Iterator[type[Node]]:
    for derived in base.__subclasses__():
        yield derived
        yield from classes(derived)


KINDS = [k for k in classes(Node) if k.__module__.startswith("outcrop.") and not is_family(k)]


def test_kinds_are_found() -> None:
    names = {kind.__name__ for kind in KINDS}
    assert {"Leaf", "Map", "Moved", "Points", "Cholesky"} <= names
    assert not {"Gather", "_Views", "MatrixOperation"} & names


def test_phases_are_found() -> None:
    assert len(PHASES) >= 9


@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.question)
def test_every_kind_has_an_answer(phase: Phase[..., Any]) -> None:
    for kind in KINDS:
        assert callable(phase[kind])


@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.question)
def test_none_is_for_all_there_will_be(phase: Phase[..., Any]) -> None:
    with pytest.raises(NotImplementedError):
        phase[Node]


def test_a_forgotten_kind_is_told() -> None:
    """It was taken for one of the others: what is derived is not what it is derived from."""

    class Odd(Map):
        __slots__ = ()

    with pytest.raises(NotImplementedError, match="no answer for nodes of kind Odd"):
        PHASES[0][Odd]


def test_families_answer_for_their_kinds() -> None:
    class Family(Node):
        __slots__ = ()

    class Kind(Family):
        __slots__ = ()

        def _made_of(self, operands: Any) -> Node:
            return self

    phase: Phase[[int], str] = Phase("what it is")
    PHASES.pop()

    @phase.of(Family)
    def of_family(node: Node, number: int) -> str:
        return f"family {number}"

    assert phase[Kind](Kind(), 3) == "family 3"
    assert is_family(Family) and not is_family(Kind)
