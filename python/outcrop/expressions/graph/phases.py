"""Questions that have an answer for every kind of node.

Which axes of a node run together with those of its operands, what computes it, what it costs: each
is a `Phase`. Its answers stand beside it, each with the kinds of node that it is for, so that a
kind that has been forgotten is an error, and not taken for one of the others. What is asked of one
kind alone, as by most rules, is no phase.
"""

from collections.abc import Callable
from typing import Any, Concatenate, Generic, ParamSpec, TypeAlias, TypeVar

from outcrop.expressions.graph.nodes import Node

__all__ = ["PHASES", "Phase", "is_family"]

_P = ParamSpec("_P")
_R = TypeVar("_R")
_Answer: TypeAlias = Callable[Concatenate[Any, _P], _R]

PHASES: "list[Phase[..., Any]]" = []
"""All that there are."""


class Phase(dict[type[Node], _Answer[_P, _R]], Generic[_P, _R]):
    """A question about a node, asked as ``phase[type(node)](node, ...)``.

    It is a table, since some are asked of every node at every plan, and that takes no longer than a
    `match`; `functools.singledispatch` takes several times as long, and gives what is derived the
    answer of its base class.

    Parameters
    ----------
    question : str
        For people.
    """

    def __init__(self, question: str) -> None:
        super().__init__()
        self.question = question
        self._declared: dict[type[Node], _Answer[_P, _R]] = {}
        PHASES.append(self)

    def of(self, *kinds: type[Any]) -> Callable[[_Answer[_P, _R]], _Answer[_P, _R]]:
        """Declare a function to be the answer for these kinds, or families of kinds."""

        def declared(answer: _Answer[_P, _R]) -> _Answer[_P, _R]:
            self._declared.update(dict.fromkeys(kinds, answer))
            return answer

        return declared

    def __missing__(self, kind: type[Node]) -> _Answer[_P, _R]:
        """Its own answer, or that of a family; not that of a kind which it is derived from.

        Raises
        ------
        NotImplementedError
            If there is none.
        """
        for base in kind.__mro__:
            if base in self._declared and (base is kind or is_family(base)):
                self[kind] = self._declared[base]
                return self[kind]
        raise NotImplementedError(f"{self.question}: no answer for nodes of kind {kind.__name__}")


def is_family(kind: type[Node]) -> bool:
    """Whether a class stands for several kinds of node, and is none itself."""
    return getattr(kind._made_of, "__isabstractmethod__", False)
