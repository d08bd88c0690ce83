"""Elements in tiles of their own, wherever those of the operand are cut."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from outcrop.arrays.views import View
from outcrop.expressions.graph.gathers import Gather, Select
from outcrop.expressions.graph.nodes import Node, Shape, only
from outcrop.expressions.graph.reshape import Fold, Reshape

__all__ = ["Cuts", "Moved", "Refolded"]


@dataclass(frozen=True)
class Cuts:
    """Into which tiles a movement is cut; None where something else decides.

    Attributes
    ----------
    source : tuple of int or None
        Of what is moved.
    target : tuple of int or None
        Of where it is moved. They are made one tile of the operand after the other, which has each
        of them in it.
    nbytes : int
        Bytes that such a tile may have.
    """

    source: Shape | None
    target: Shape | None
    nbytes: int


class _InOtherTiles(Gather):
    """Elements in other tiles than those of the operand."""

    __slots__ = ()

    cuts: Cuts

    @property
    def limit(self) -> int:
        """Bytes that these tiles may have."""
        return self.cuts.nbytes

    def tiles(self) -> Iterator[tuple[Node, Shape]]:
        """Into which tiles it should be cut, and what it is made of."""
        if self.cuts.source is not None:
            yield self.operands[0], self.cuts.source
        if self.cuts.target is not None:
            yield self, self.cuts.target


class Refolded(_InOtherTiles, Reshape):
    """A reshape in other tiles than those of its operand, also along axes that they share."""

    __slots__ = ("cuts",)

    def _made_of(self, operands: Sequence[Node]) -> Node:
        return Refolded.made(operands[0], self.folds, self.view, self.cuts)

    @classmethod
    def made(cls, operand: Node, folds: Sequence[Fold], view: View, cuts: Cuts) -> "Refolded":
        """The node of a dense view of the folds' targets."""
        node = cls()
        node.operands, node.folds, node.view = (operand,), tuple(folds), view
        node.shape, node.dtype, node.cuts = view.shape, operand.dtype, cuts
        return only((cls, id(operand), node.folds, view, cuts), node)


class Moved(_InOtherTiles, Select):
    """A view in other tiles than those of what is viewed."""

    __slots__ = ("cuts",)

    def _made_of(self, operands: Sequence[Node]) -> Node:
        return Moved.made(operands[0], self.view, self.cuts)

    @classmethod
    def made(cls, operand: Node, view: View, cuts: Cuts) -> "Moved":
        """The node of a view."""
        node = cls()
        node.operands, node.view, node.cuts = (operand,), view, cuts
        node.shape, node.dtype = view.shape, operand.dtype
        return only((cls, id(operand), view, cuts), node)
