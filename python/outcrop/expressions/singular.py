"""The first zero on the diagonal of a triangle: a run may meet another one before."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outcrop.errors import SingularMatrixError, forget_frames
from outcrop.expressions.graph.blas import Blas
from outcrop.expressions.graph.matrices import SolveTriangular, straight
from outcrop.expressions.graph.nodes import Node
from outcrop.expressions.rewrite.point_pushdown import on_diagonal

__all__ = ["naming_the_first"]


def naming_the_first(
    error: SingularMatrixError, nodes: Sequence[Node], compute: Callable[[Node], NDArray[Any]]
) -> SingularMatrixError:
    """The error with the first zero of a triangle, counted from 1, as LAPACK names it.

    A system that is solved upwards meets the last one first. Only what is stored is looked at: what
    would have to be computed once more may take as long as the whole run.
    """
    for node in nodes:
        is_solved = isinstance(node, Blas) and node.call.form == "solve" and not node.call.unit
        if not is_solved and (not isinstance(node, SolveTriangular) or node.unit):
            continue
        triangle = node.operands[0]
        if straight(triangle) is None:
            continue
        diagonal = compute(on_diagonal(triangle, [0, 1], [0, 0], triangle.shape[0]))
        zeros = np.flatnonzero(diagonal == 0)
        if len(zeros):
            first, message = int(zeros[0]) + 1, str(error)
            forget_frames(error)
            return SingularMatrixError(
                message.replace(f"element {error.index} ", f"element {first} "), first
            )
    return error
