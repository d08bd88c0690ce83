"""``outcrop sweep``: sweeps that many know by name."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from outcrop import sweeps as ready_made
from outcrop.arrays.array import Array
from outcrop.cli.computing import Job, compute, result_options, resume_option, together
from outcrop.cli.places import PLACE, Place
from outcrop.cli.results import count
from outcrop.cli.session import Session, warn
from outcrop.program.progress import Settling
from outcrop.sweeps import Settled

__all__ = ["sweep"]


@dataclass(frozen=True)
class _Kind:
    """A sweep by its name.

    Attributes
    ----------
    function : callable
        What it is in Python.
    arrays : str
        What it takes.
    number : str or None
        The option that it takes.
    """

    function: Callable[..., Array]
    arrays: str
    number: str | None = None


_KINDS: Mapping[str, _Kind] = {
    "gauss-seidel": _Kind(ready_made.gauss_seidel, "U F"),
    "sor": _Kind(ready_made.sor, "U F", "omega"),
    "red-black": _Kind(ready_made.red_black, "U F", "omega"),
    "jacobi": _Kind(ready_made.jacobi, "U F"),
    "heat": _Kind(ready_made.heat, "U", "factor"),
    "livermore23": _Kind(ready_made.livermore23, "ZA ZR ZB ZU ZV ZZ"),
}


@click.command()
@click.argument("kind", metavar="KIND", type=click.Choice(list(_KINDS)))
@click.argument("places", metavar="ARRAYS... RESULT", nargs=-1, required=True, type=PLACE)
@click.option("--sweeps", type=click.IntRange(0), default=1, help="How many; default 1.")
@click.option("--until", metavar="TOL", type=float, help="Stop where nothing changes by more.")
@click.option(
    "--check-every",
    metavar="C",
    type=click.IntRange(1),
    help="After how many sweeps that is looked at; so many are in flight. Default 1.",
)
@click.option("--omega", type=float, help="Of sor and red-black: how far a cell goes, 0 to 2.")
@click.option("--factor", type=float, help="Of heat: diffusivity x step / distance^2.")
@together(resume_option, result_options)
def sweep(
    session: Session,
    kind: str,
    places: Sequence[Place],
    sweeps: int,
    until: float | None,
    check_every: int | None,
    omega: float | None,
    factor: float | None,
    resume: bool,
    **wishes: Any,
) -> None:
    """Update cells from their neighbours, again and again.

    \b
    KIND           ARRAYS
    gauss-seidel   U F                 Poisson's equation, in place
    sor            U F                 the same, over-relaxed (--omega)
    red-black      U F                 the same, one colour after the other (--omega)
    jacobi         U F                 from the old state to a new one
    heat           U                   in three dimensions (--factor)
    livermore23    ZA ZR ZB ZU ZV ZZ   implicit hydrodynamics

    As many sweeps go over the arrays at the same time as memory allows, so that these are read
    once. RESULT is what becomes of the first array; with --overwrite it may be that itself.
    """  # noqa: D301
    own = _KINDS[kind]
    names = own.arrays.split()
    if len(places) != len(names) + 1:
        raise click.UsageError(
            f"{kind} takes {count(len(names), 'array')} ({own.arrays}) and RESULT, and not "
            f"{len(places)} paths"
        )
    numbers = {"omega": omega, "factor": factor}
    given = [value for name, value in numbers.items() if name == own.number and value is not None]
    for name, value in numbers.items():
        if value is not None and name != own.number:
            raise click.UsageError(f"{kind} takes no --{name}")
    if own.number is not None and not given and kind != "red-black":
        raise click.UsageError(f"{kind} takes --{own.number}")
    if check_every is not None and until is None:
        raise click.UsageError("--check-every says when --until is looked at")
    if resume and until is not None:
        raise click.UsageError("--resume is for a number of sweeps, and not for --until")
    *operands, target = places

    def job() -> Job:
        arrays = [place.open() for place in operands]
        done = f"swept {operands[0].path}"
        if until is None:
            return Job(own.function(*arrays, *given, sweeps=sweeps), done)
        scale = Settling()
        with session.work(target.name, scale) as work:
            result = own.function(
                *arrays,
                *given,
                sweeps=sweeps,
                until=until,
                check_every=check_every,
                on_check=scale.checked,
                progress=work.progress,
            )
        assert isinstance(result, Settled)
        told = f"{count(result.sweeps, 'sweep')}, in the last of which {result.change:.3g} changed"
        if not result.converged:
            warn(f"more than {until:g} still changes: {told}")
        return Job(result, f"{done} by {told},")

    compute(session, job, target, "RESULT", **wishes, resume=resume)
