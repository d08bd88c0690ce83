"""Verbs that compute a result: the options that they have in common, and how they do it."""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import click

from outcrop.arrays.array import Array
from outcrop.arrays.computed import ComputedPlan, ComputedSource
from outcrop.checks import check_tile
from outcrop.cli.places import PLACE, Place
from outcrop.cli.session import Session, pass_session
from outcrop.cli.targets import check_zarr_only, target_format, undescribed, written
from outcrop.cli.values import TILE
from outcrop.errors import OutcropError
from outcrop.formats import FORMATS
from outcrop.planning import plan as planning
from outcrop.program.plan import Plan
from outcrop.program.progress import Computing, Scale, Steps, Sweeping
from outcrop.program.report import last_run

__all__ = [
    "Job",
    "array",
    "check_plan",
    "compute",
    "result_options",
    "resume_option",
    "tell",
    "together",
]

_F = TypeVar("_F", bound=Callable[..., Any])


def together(*decorators: Callable[[Any], Any]) -> Callable[[_F], _F]:
    """Decorators as one, which stands for them in this order."""

    def decorate(function: _F) -> _F:
        for each in reversed(decorators):
            function = each(function)
        return function

    return decorate


def array(name: str) -> Callable[[Any], Any]:
    """An array that a verb takes, by its place."""
    return click.argument(name, metavar=name.upper(), type=PLACE)


resume_option = click.option(
    "--resume",
    is_flag=True,
    help="Go on where a run that was stopped has got to; what is done is kept beside the result.",
)

result_options = together(
    click.option("--tile", type=TILE, help="Zarr: tile extents such as 1024x1024."),
    click.option("--format", type=click.Choice(FORMATS), help="Default: by suffix."),
    click.option(
        "--overwrite",
        is_flag=True,
        help="Replace an array that stands there, once the result is complete.",
    ),
    click.option(
        "--plan",
        "only_plan",
        is_flag=True,
        help="Print what it will cost, for a Zarr result, and compute nothing.",
    ),
    pass_session,
)


@dataclass(frozen=True)
class Job:
    """A result that is not computed yet, and what can be said once it is."""

    result: Array
    done: str

    def planned(self, tile: tuple[int, ...] | None = None) -> ComputedPlan | None:
        """Plan it as a new Zarr array of such tiles, by default of those that suit it best.

        None where it has been computed already.
        """
        source = self.result._source
        return source.plan((tile, "{}")) if isinstance(source, ComputedSource) else None


def tell(planned: Plan, as_json: bool = False) -> None:
    """Say what a plan says, for people or as JSON."""
    click.echo(json.dumps(planned._facts, indent=2) if as_json else planned.explain())


def check_plan(only_plan: bool, resume: bool) -> None:
    """Raise where a plan is asked for that would not be true."""
    if only_plan and resume:
        raise click.UsageError(
            "--plan says what is moved without --resume, which moves more: what is kept on the way"
        )


def compute(
    session: Session,
    prepare: Callable[[], Job],
    target: Place,
    name: str,
    *,
    tile: tuple[int, ...] | int | Literal["default"] | None,
    format: str | None,
    overwrite: bool,
    only_plan: bool,
    resume: bool = False,
) -> None:
    """Compute what is prepared to a target, with progress and a line that says what was done."""
    if resume and (tile is not None or format is not None):
        raise click.UsageError("--resume takes neither --tile nor --format")
    check_plan(only_plan, resume)
    target = undescribed(target, name, "what is computed")
    format = target_format(target, format, name)
    check_zarr_only(target, format, {"--tile": tile})
    job = prepare()
    wanted = check_tile(None if tile == "default" else tile, job.result.shape)
    if only_plan:
        tell(planning(job.result, target.path, tile=wanted, format=format))
        return
    scale: Scale = Steps()
    # What fails here fails below as well, or only a Zarr array would need more memory.
    with suppress(OutcropError):
        planned = job.planned(wanted)
        if planned is not None:
            facts = planned.facts
            scale = Computing(facts["flops"], facts["seconds"])
            if "depth" in facts:
                scale = Sweeping(facts["flops"], facts["seconds"], facts["sweeps"], facts["depth"])
        if planned is not None and format == "zarr" and wanted is None:
            # Saves planning it once more.
            wanted = planned.output_tile
    with session.work(target.name, scale) as work:
        if resume:
            options: dict[str, Any] = {"resume": True}
        else:
            options = {"tile": wanted, "format": format}
        result = job.result.save(
            target.path, overwrite=overwrite, progress=work.progress, **options
        )
        work.done = f"{job.done} to {written(target, result, format)}"
        work.nbytes = result.nbytes
        if run := last_run():
            work.flops = run.flops
