"""Sweeps that many know by name."""

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, overload

import numpy as np

from outcrop.arrays.array import Array
from outcrop.arrays.creation import asarray
from outcrop.errors import InvalidArgumentError
from outcrop.sweeps.cell import index, sweep_number
from outcrop.sweeps.decorator import Settled, Sweep, as_count, as_float

__all__ = [
    "adi",
    "gauss_seidel",
    "heat",
    "jacobi",
    "livermore23",
    "red_black",
    "sor",
    "wave_equation",
]


_ALTERNATING = (
    "directions alternate: a sweep forwards is over before the one backwards begins, where it ends"
)


@functools.cache
def _made(name: str, function: Callable[..., Any], **options: Any) -> Sweep:
    """A sweep of a function below, made when it is needed, by the name that people know."""
    made = Sweep(function, **options)
    made.cell = replace(made.cell, name=name)
    return made


# -- cells -----------------------------------------------------------------------------------------


def _relaxed(u, f):  # type: ignore[no-untyped-def]
    u[0, 0] = 0.25 * (u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1] - f[0, 0])


def _over_relaxed(u, f, omega):  # type: ignore[no-untyped-def]
    new = 0.25 * (u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1] - f[0, 0])
    u[0, 0] += omega * (new - u[0, 0])


def _of_one_colour(u, f, omega):  # type: ignore[no-untyped-def]
    # Red is computed in even sweeps, black in odd ones.
    if (index(0) + index(1) + sweep_number()) % 2 == 0:
        new = 0.25 * (u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1] - f[0, 0])
        u[0, 0] += omega * (new - u[0, 0])


def _propagated(u, before, c):  # type: ignore[no-untyped-def]
    bent = u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1] - 4.0 * u[0, 0]
    u[0, 0] = 2.0 * u[0, 0] - before[0, 0] + c[0, 0] * bent
    before[0, 0] = u[0, 0]


def _conducted(u, a):  # type: ignore[no-untyped-def]
    along = u[-1, 0, 0] + u[1, 0, 0] + u[0, -1, 0] + u[0, 1, 0] + u[0, 0, -1] + u[0, 0, 1]
    u[0, 0, 0] += a * (along - 6.0 * u[0, 0, 0])


def _hydrodynamics(za, zr, zb, zu, zv, zz):  # type: ignore[no-untyped-def]
    qa = (
        za[0, 1] * zr[0, 0]
        + za[0, -1] * zb[0, 0]
        + za[1, 0] * zu[0, 0]
        + za[-1, 0] * zv[0, 0]
        + zz[0, 0]
    )
    za[0, 0] += 0.175 * (qa - za[0, 0])


def _eliminated_down(c, d, u, r):  # type: ignore[no-untyped-def]
    c[0, 0] = r / (1.0 + 2.0 * r - r * c[-1, 0])
    across = u[0, 0] + r * (u[0, -1] - 2.0 * u[0, 0] + u[0, 1])
    # What has been eliminated is as large as the new c says.
    d[0, 0] = (across + r * d[-1, 0]) * c[0, 0] / r


def _substituted_up(u, c, d):  # type: ignore[no-untyped-def]
    u[0, 0] = d[0, 0] + c[0, 0] * u[1, 0]


def _eliminated_right(c, d, u, r):  # type: ignore[no-untyped-def]
    c[0, 0] = r / (1.0 + 2.0 * r - r * c[0, -1])
    across = u[0, 0] + r * (u[-1, 0] - 2.0 * u[0, 0] + u[1, 0])
    d[0, 0] = (across + r * d[0, -1]) * c[0, 0] / r


def _substituted_left(u, c, d):  # type: ignore[no-untyped-def]
    u[0, 0] = d[0, 0] + c[0, 0] * u[0, 1]


# -- what is called --------------------------------------------------------------------------------


@overload
def gauss_seidel(
    u: Any, f: Any, *, sweeps: int = 1, until: None = None, **options: Any
) -> Array: ...
@overload
def gauss_seidel(u: Any, f: Any, *, sweeps: int = 1, until: float, **options: Any) -> Settled: ...
def gauss_seidel(u: Any, f: Any, *, sweeps: int = 1, **options: Any) -> Array:
    """Sweeps of Gauss and Seidel for Poisson's equation on a grid, in place.

    Each cell becomes ``0.25 * (north + south + west + east - f)``, of which north and west are new
    already. The outermost cells stay as they are.

    Parameters
    ----------
    u : array_like
        (m, n). The first guess, with the boundary values.
    f : array_like
        (m, n). The right-hand side, times the square of the distance between cells.
    sweeps : int
        How many sweeps, at most.
    **options
        ``until`` and ``check_every``, as of `Sweep`.

    Returns
    -------
    Array
        (m, n). What becomes of `u`, lazily.

    Examples
    --------
    >>> u = np.zeros((50, 60))
    >>> u[0] = 1
    >>> v = oc.sweeps.gauss_seidel(u, np.zeros_like(u), sweeps=5000, until=1e-6, check_every=50)
    >>> float(v[25, 30].compute().round(3))
    0.304
    """
    found: Array = _made("gauss_seidel", _relaxed)(u, f, sweeps=sweeps, **options)
    return found


@overload
def sor(
    u: Any, f: Any, omega: float, *, sweeps: int = 1, until: None = None, **options: Any
) -> Array: ...
@overload
def sor(
    u: Any, f: Any, omega: float, *, sweeps: int = 1, until: float, **options: Any
) -> Settled: ...
def sor(u: Any, f: Any, omega: float, *, sweeps: int = 1, **options: Any) -> Array:
    """Sweeps of successive over-relaxation for Poisson's equation on a grid, in place.

    Parameters
    ----------
    u, f, sweeps, **options
        As of `gauss_seidel`.
    omega : float
        How far a cell goes to where Gauss and Seidel would have it: from 0 to 2.

    Returns
    -------
    Array
        (m, n). What becomes of `u`, lazily.

    Examples
    --------
    >>> u = np.zeros((50, 60))
    >>> u[0] = 1
    >>> v = oc.sweeps.sor(u, np.zeros_like(u), 1.9, sweeps=300)
    >>> float(v[25, 30].compute().round(3))
    0.304
    """
    found: Array = _made("sor", _over_relaxed)(u, f, _relaxation(omega), sweeps=sweeps, **options)
    return found


@overload
def red_black(
    u: Any, f: Any, omega: float = 1.0, *, sweeps: int = 1, until: None = None, **options: Any
) -> Array: ...
@overload
def red_black(
    u: Any, f: Any, omega: float = 1.0, *, sweeps: int = 1, until: float, **options: Any
) -> Settled: ...
def red_black(u: Any, f: Any, omega: float = 1.0, *, sweeps: int = 1, **options: Any) -> Array:
    """Over-relaxation in red-black order: first cells whose indices add up to an even number.

    Neither colour needs its own cells, so that it does not matter in which order they come.

    Parameters
    ----------
    u, f, sweeps, **options
        As of `gauss_seidel`; a sweep is one over either colour. `check_every` counts colours.
    omega : float
        As of `sor`.

    Returns
    -------
    Array
        (m, n). What becomes of `u`, lazily.

    Examples
    --------
    >>> u = np.zeros((50, 60))
    >>> u[0] = 1
    >>> v = oc.sweeps.red_black(u, np.zeros_like(u), 1.9, sweeps=300)
    >>> float(v[25, 30].compute().round(3))
    0.304
    """
    count = as_count(sweeps, "sweeps", least=0)
    found: Array = _made("red_black", _of_one_colour)(
        u, f, _relaxation(omega), sweeps=2 * count, **options
    )
    return found


def _relaxation(omega: Any) -> float:
    value = as_float(omega, "omega")
    if not 0 <= value <= 2:
        raise InvalidArgumentError(f"omega is from 0 to 2, got {value!r}")
    return value


@overload
def jacobi(u: Any, f: Any, *, sweeps: int = 1, until: None = None, **options: Any) -> Array: ...
@overload
def jacobi(u: Any, f: Any, *, sweeps: int = 1, until: float, **options: Any) -> Settled: ...
def jacobi(u: Any, f: Any, *, sweeps: int = 1, **options: Any) -> Array:
    """Sweeps of Jacobi for Poisson's equation on a grid, from the old state to a new one.

    Parameters
    ----------
    u, f, sweeps, **options
        As of `gauss_seidel`.

    Returns
    -------
    Array
        (m, n). What becomes of `u`, lazily.

    Examples
    --------
    >>> u = np.zeros((4, 4))
    >>> u[0] = 1
    >>> oc.sweeps.jacobi(u, np.zeros_like(u), sweeps=2)[1, 1].compute()
    array(0.3125)
    """
    found: Array = _made("jacobi", _relaxed, inplace=False)(u, f, sweeps=sweeps, **options)
    return found


def wave_equation(u: Any, before: Any, c: Any, *, sweeps: int = 1) -> tuple[Array, Array]:
    """Steps of the wave equation in two dimensions.

    The outermost cells stay as they are.

    Parameters
    ----------
    u, before : array_like
        (m, n). The elongation, and what it was a step before.
    c : array_like
        (m, n). Of each cell the square of the speed, in cells for each step; at most 0.5.
    sweeps : int
        How many steps.

    Returns
    -------
    u, before : Array
        (m, n). The elongation after all of them, and a step before, lazily.

    Examples
    --------
    >>> u = np.zeros((40, 50))
    >>> u[20, 25] = 1
    >>> now, before = oc.sweeps.wave_equation(u, u, np.full(u.shape, 0.25), sweeps=3)
    >>> float(now[20, 25].compute())
    -0.5
    """
    now, last = _made("wave_equation", _propagated, inplace=False)(u, before, c, sweeps=sweeps)
    return now, last


@overload
def heat(u: Any, a: float, *, sweeps: int = 1, until: None = None, **options: Any) -> Array: ...
@overload
def heat(u: Any, a: float, *, sweeps: int = 1, until: float, **options: Any) -> Settled: ...
def heat(u: Any, a: float, *, sweeps: int = 1, **options: Any) -> Array:
    """Explicit steps of the heat equation in three dimensions, with the six nearest neighbours.

    Parameters
    ----------
    u : array_like
        (l, m, n). The temperature; the outermost cells stay as they are.
    a : float
        Diffusivity times step, over the square of the distance between cells; at most 1/6.
    sweeps : int
        How many steps, at most.
    **options
        ``until`` and ``check_every``, as of `Sweep`.

    Returns
    -------
    Array
        (l, m, n). The temperature after all of them, lazily.

    Examples
    --------
    >>> u = np.zeros((8, 8, 8))
    >>> u[4, 4, 4] = 1
    >>> float(oc.sweeps.heat(u, 0.125, sweeps=1)[4, 4, 4].compute())
    0.25
    """
    found: Array = _made("heat", _conducted, inplace=False)(
        u, as_float(a, "a"), sweeps=sweeps, **options
    )
    return found


@overload
def livermore23(
    za: Any,
    zr: Any,
    zb: Any,
    zu: Any,
    zv: Any,
    zz: Any,
    *,
    sweeps: int = 1,
    until: None = None,
    **options: Any,
) -> Array: ...
@overload
def livermore23(
    za: Any,
    zr: Any,
    zb: Any,
    zu: Any,
    zv: Any,
    zz: Any,
    *,
    sweeps: int = 1,
    until: float,
    **options: Any,
) -> Settled: ...
def livermore23(
    za: Any, zr: Any, zb: Any, zu: Any, zv: Any, zz: Any, *, sweeps: int = 1, **options: Any
) -> Array:
    """Livermore loop 23: implicit hydrodynamics in two dimensions, in place.

    Parameters
    ----------
    za : array_like
        (m, n). What is updated; the outermost cells stay as they are.
    zr, zb, zu, zv, zz : array_like
        (m, n). The coefficients of east, west, south and north, and what is added.
    sweeps : int
        How many sweeps, at most.
    **options
        ``until`` and ``check_every``, as of `Sweep`.

    Returns
    -------
    Array
        (m, n). What becomes of `za`, lazily.

    Examples
    --------
    >>> za, rest = np.ones((30, 40)), np.full((30, 40), 0.25)
    >>> float(oc.sweeps.livermore23(za, *[rest] * 5, sweeps=1)[1, 1].compute())
    1.04375
    """
    found: Array = _made("livermore23", _hydrodynamics)(
        za, zr, zb, zu, zv, zz, sweeps=sweeps, **options
    )
    return found


def adi(u: Any, r: float, *, steps: int = 1) -> Array:
    """Steps of the heat equation in two dimensions by alternating directions.

    Half of a step is implicit along columns, half along rows (Peaceman and Rachford): tridiagonal
    systems, solved by a sweep forwards and one backwards. The last cell of a sweep is needed by
    the first one of the next, so that these cannot follow each other in flight: each goes over the
    array by itself.

    Parameters
    ----------
    u : array_like
        (m, n). The temperature; the outermost cells stay as they are.
    r : float
        Diffusivity times step, over twice the square of the distance between cells.
    steps : int
        How many steps.

    Returns
    -------
    Array
        (m, n). The temperature after all of them, lazily.

    Examples
    --------
    >>> u = np.zeros((30, 30))
    >>> u[15, 15] = 1
    >>> float(oc.sweeps.adi(u, 2.0, steps=4).sum().compute().round(2))
    0.96
    """
    r = as_float(r, "r")
    if not r > 0:
        raise InvalidArgumentError(f"r is a positive number, got {r!r}")
    found = u if isinstance(u, Array) else asarray(u)
    zeros = asarray(np.broadcast_to(np.zeros((), found.dtype), found.shape))
    ways = (
        (_eliminated_down, _substituted_up, (-1, 1)),
        (_eliminated_right, _substituted_left, (1, -1)),
    )
    for _ in range(as_count(steps, "steps", least=0)):
        for forward, backward, directions in ways:
            # Where nothing is eliminated, c is 0 and d what was there.
            c, d = _made("adi", forward, ends=_ALTERNATING)(zeros, found, found, r)
            found = _made("adi", backward, directions=directions, ends=_ALTERNATING)(found, c, d)
    return found
