"""Sweeps: cells that are updated from their neighbours, again and again.

Examples
--------
>>> u = np.zeros((100, 100))
>>> u[0] = 1
>>> v = oc.sweeps.gauss_seidel(u, np.zeros_like(u), sweeps=20)
>>> v.shape
(100, 100)
"""

import typing as _typing

from outcrop.arrays.public_names import only_public as _only_public
from outcrop.sweeps.cell import index, sweep_number
from outcrop.sweeps.decorator import Settled, Sweep
from outcrop.sweeps.ready_made import (
    adi,
    gauss_seidel,
    heat,
    jacobi,
    livermore23,
    red_black,
    sor,
    wave_equation,
)

__all__ = [
    "Settled",
    "Sweep",
    "adi",
    "gauss_seidel",
    "heat",
    "index",
    "jacobi",
    "livermore23",
    "red_black",
    "sor",
    "sweep_number",
    "wave_equation",
]


if not _typing.TYPE_CHECKING:
    # What checks types shall find names that there are not.
    __getattr__, __dir__ = _only_public(__name__, __all__)
