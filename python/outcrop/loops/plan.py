"""What a loop nest will cost."""

from collections.abc import Mapping
from typing import Any

from outcrop.loops.polyhedra import Dependence
from outcrop.loops.program import Chosen
from outcrop.program.plan import Plan
from outcrop.program.report import Traffic

__all__ = ["LoopsPlan"]

_MOST_TOLD = 20
"""Dependences that are told one by one."""


class LoopsPlan(Plan):
    """What a loop nest will cost.

    Made by `Loops.plan`.

    Attributes
    ----------
    dependences : list of Dependence
        What depends on what, and how far it is apart in iterations.
    schedule : str
        The order, as isl writes it.
    tiles : list of tuple of int
        Of each part of the nest, how much of each dimension a tile has.
    reasons : list of str
        What forbade a better order.
    steps : int
        How many tiles there are.
    products : list of str
        The statements that are products of matrices, and done by the kernel of linear algebra.
    traffic : list of Traffic
        What is moved for each part of the nest, array by array; a part is called by its lines.
        `Run.traffic` says how long a run has waited for that.

    Examples
    --------
    >>> @oc.loops
    ... def transpose(A, B):
    ...     for i in range(A.shape[0]):
    ...         for j in range(A.shape[1]):
    ...             B[j, i] = A[i, j]
    >>> A = oc.create("A.zarr", (200, 300), tile=100)
    >>> B = oc.create("B.zarr", (300, 200), tile=100)
    >>> p = transpose.plan(A, B)
    >>> p.tiles, p.steps, p.dependences
    ([(100, 100)], 6, [])
    """

    def __init__(self, facts: Mapping[str, Any], chosen: Chosen, name: str) -> None:
        super().__init__(
            {
                **facts,
                "operation": name,
                "remark": chosen.remark,
                "others": chosen.others,
                "lower_bound": None,
                "lower_bound_source": "",
                "reworks_results": True,
            }
        )
        self._chosen = chosen
        self.dependences: list[Dependence] = chosen.dependences
        self.schedule = chosen.schedule
        self.tiles = [cut.sizes for cut in chosen.cuts]
        self.reasons = list(chosen.reasons)
        self.steps = len(chosen.steps)
        self.products = [name for code in chosen.codes for name in code.products]
        self.traffic = [Traffic(*row) for row in facts["traffic"]]

    def explain(self, *, folded: bool = True) -> str:
        """Say what depends on what, in which order and tiles it is done, and what that moves.

        Parameters
        ----------
        folded : bool
            Whether arrays alike are said once.

        Returns
        -------
        str
            Lines for people.
        """
        head, *rest = super().explain(folded=folded).splitlines()
        lines = [head]
        for s in self._chosen.job.nest.statements:
            lines.append(f"  {s.name} is line {s.where.rsplit(':', 1)[1]}: {s.text}")
        for dependence in self.dependences[:_MOST_TOLD]:
            lines.append(f"  {dependence}")
        if len(self.dependences) > _MOST_TOLD:
            lines.append(f"  and {len(self.dependences) - _MOST_TOLD} dependences more")
        if not self.dependences:
            lines.append("  nothing depends on anything")
        lines.append(f"  in {self.steps} steps")
        for name in self.products:
            lines.append(f"  {name} is a product of matrices: the kernel of linear algebra does it")
        lines += self._moved()
        lines += [f"  {reason}" for reason in self.reasons]
        return "\n".join((*lines, *rest))

    def _moved(self) -> list[str]:
        """What is moved of which array, for which lines."""
        chosen = self._chosen
        found = []
        for one in self.traffic:
            lines: dict[str, None] = {}
            for code, (names, _, _) in zip(chosen.codes, chosen.units, strict=True):
                if code.name == one.kernel:
                    own = (s for s in chosen.job.nest.statements if s.name in names)
                    accesses = (a for s in own for a in s.accesses if a.array == one.array)
                    lines |= dict.fromkeys(a.where.rsplit(":", 1)[1] for a in accesses)
            where = f" in line {', '.join(lines)}" if lines else f", {one.kernel}"
            found.append(f"  {one}{where}")
        return found
