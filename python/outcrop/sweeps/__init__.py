"""Sweeps: cells that are updated from their neighbours, again and again.

Examples
--------
>>> u = np.zeros((100, 100))
>>> u[0] = 1
>>> v = oc.sweeps.gauss_seidel(u, np.zeros_like(u), sweeps=20)
>>> v.shape
(100, 100)
"""

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
