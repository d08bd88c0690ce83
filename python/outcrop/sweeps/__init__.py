"""Sweeps: cells that are updated from their neighbours, again and again.

Examples
--------
>>> u = np.zeros((100, 100))
>>> u[0] = 1
>>> v = oc.sweeps.gauss_seidel(u, np.zeros_like(u), sweeps=20)
>>> v.shape
(100, 100)
"""

from outcrop.sweeps.sweep import Sweep, sweep

__all__ = ["Sweep", "sweep"]
