"""Loop nests: ordinary loops over arrays, in tiles that memory holds."""

from outcrop.loops.loops import Loops, loops
from outcrop.loops.plan import LoopsPlan
from outcrop.loops.polyhedra import Dependence

__all__ = ["Dependence", "Loops", "LoopsPlan", "loops"]
