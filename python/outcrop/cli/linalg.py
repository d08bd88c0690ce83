"""``outcrop matmul``, ``cholesky``, ``lu``, ``solve``, ``inv``, ``cond``; ``outcrop plan``."""

from typing import Any

import click

from outcrop import linalg
from outcrop.arrays.array import Array
from outcrop.checks import StrPath
from outcrop.cli.computing import (
    Job,
    array,
    check_plan,
    compute,
    result_options,
    resume_option,
    tell,
    together,
)
from outcrop.cli.places import Place
from outcrop.cli.session import Session, pass_session
from outcrop.cli.targets import target_format, undescribed
from outcrop.expressions.build.saving import save
from outcrop.linalg.condition import matrix_norm
from outcrop.planning import plan as planning
from outcrop.program.progress import Computing
from outcrop.program.report import last_run

__all__ = ["cholesky", "cond", "inv", "lu", "matmul", "plan", "solve"]

_upper = click.option("--upper", is_flag=True, help="A = U^H U, from the upper half of A.")
_trans_a = click.option("--trans-a", is_flag=True, help="Transpose A (without conjugating it).")
_trans_b = click.option("--trans-b", is_flag=True, help="Transpose B (without conjugating it).")
_assume = click.option(
    "--assume",
    type=click.Choice(["gen", "pos", "sym", "her"]),
    default="gen",
    help="What A is: gen, anything (the default); pos, Hermitian and positive definite; sym, "
    "symmetric; her, Hermitian. Of the last three, the lower half is read.",
)


def _matmul(a: Place, b: Place, trans_a: bool, trans_b: bool) -> Job:
    left, right = a.open(), b.open()
    product = linalg.matmul(left.T if trans_a else left, right.T if trans_b else right)
    names = [f"{a.path}, transposed," if trans_a else a.path]
    names += [f"{b.path}, transposed," if trans_b else b.path]
    return Job(product, f"multiplied {' by '.join(names)}")


def _cholesky(a: Place, upper: bool) -> Job:
    return Job(linalg.cholesky(a.open(), upper=upper), f"factored {a.path}")


def _solve(a: Place, b: Place, assume: str, *, is_planned: bool = False) -> Job:
    if is_planned and assume in ("sym", "her"):
        # What refinement takes depends on the numbers.
        factor = linalg.ldl_factor(a.open(), hermitian=assume == "her")
        solution = linalg.ldl_solve(factor, b.open())
    else:
        solution = linalg.solve(a.open(), b.open(), assume=assume)
    return Job(solution, f"solved {a.path} with {b.path}")


def _inv(a: Place) -> Job:
    return Job(linalg.inv(a.open()), f"inverted {a.path}")


@click.command()
@together(array("a"), array("b"), array("c"), _trans_a, _trans_b, result_options)
def matmul(
    session: Session, a: Place, b: Place, c: Place, trans_a: bool, trans_b: bool, **wishes: Any
) -> None:
    """Multiply matrices: C = A B.

    A and B may also be vectors. The suffix of C gives its format: .zarr (or none), .npy, and .raw,
    .bin or .dat for bare elements.
    """
    compute(session, lambda: _matmul(a, b, trans_a, trans_b), c, "C", **wishes)


@click.command()
@together(array("a"), array("l"), _upper, resume_option, result_options)
def cholesky(
    session: Session,
    a: Place,
    l: Place,  # noqa: E741
    upper: bool,
    resume: bool,
    **wishes: Any,
) -> None:
    """Factor a Hermitian, positive definite matrix: A = L L^H.

    Of A only the lower half is read, or the upper one with --upper. The suffix of L gives its
    format: .zarr (or none), .npy, and .raw, .bin or .dat for bare elements.
    """
    compute(session, lambda: _cholesky(a, upper), l, "L", **wishes, resume=resume)


@click.command()
@together(
    array("a"),
    array("lu"),
    array("piv"),
    click.option("--overwrite", is_flag=True, help="Replace arrays that stand there."),
    click.option("--plan", "only_plan", is_flag=True, help="Print the cost, and compute nothing."),
    resume_option,
    pass_session,
)
def lu(
    session: Session,
    a: Place,
    lu: Place,
    piv: Place,
    overwrite: bool,
    only_plan: bool,
    resume: bool,
) -> None:
    """Factor a matrix with partial pivoting: P A = L U.

    LU gets L, whose diagonal is all ones, below the diagonal, and U; PIV the pivots, as numbers of
    rows from 0 on. Both are as LAPACK's getrf has them; suffixes give their formats: .zarr (or
    none), and .npy.
    """
    check_plan(only_plan, resume)
    factors = linalg.lu_factor(a.open())
    targets = {"LU": undescribed(lu, "LU", "A"), "PIV": undescribed(piv, "PIV", "the pivots")}
    for name, target in targets.items():
        target_format(target, None, name)
    if lu.path == piv.path:
        raise click.BadParameter("LU and PIV have the same path", param_hint="PIV")
    results: dict[StrPath, Array] = {lu.path: factors.lu, piv.path: factors.piv}
    if only_plan:
        tell(planning(results))
        return
    facts = planning(results)._facts
    with session.work(lu.name, Computing(facts["flops"], facts["seconds"])) as work:
        saved = save(results, overwrite=overwrite, progress=work.progress, resume=resume)
        work.done = f"factored {a.path} to {lu.path} and {piv.path}"
        work.nbytes = sum(array.nbytes for array in saved.values())
        if run := last_run():
            work.flops = run.flops


_norm = click.option("--norm", type=click.Choice(["1", "inf"]), default="1", help="By which norm.")


@click.command()
@together(array("a"), array("x"), result_options)
def inv(session: Session, a: Place, x: Place, **wishes: Any) -> None:
    """Invert a matrix. For a system of equations, solve takes less time.

    The suffix of X gives its format: .zarr (or none), .npy, and .raw, .bin or .dat for bare
    elements. Temporaries go to the scratch directory (outcrop --scratch).
    """
    compute(session, lambda: _inv(a), x, "X", **wishes)


@click.command()
@together(array("a"))
@_norm
def cond(a: Place, norm: str) -> None:
    """Estimate the condition number of a matrix, |A| |inv(A)|.

    As LAPACK's estimates, it is seldom less than a third of the number, and never larger. The
    matrix is factored; temporaries go to the scratch directory (outcrop --scratch).
    """
    click.echo(f"{linalg.cond(a.open(), float(norm)):.6g}")


@click.command()
@together(array("a"), array("b"), array("x"), _assume, result_options)
def solve(session: Session, a: Place, b: Place, x: Place, assume: str, **wishes: Any) -> None:
    """Solve a system of equations: A X = B.

    B is one right-hand side, or a matrix of several. The suffix of X gives its format: .zarr (or
    none), .npy, and .raw, .bin or .dat for bare elements. Temporaries go to the scratch directory
    (outcrop --scratch). With --assume sym or her the solution is refined, of which --plan says
    nothing, as it depends on the numbers.
    """

    def prepare() -> Job:
        return _solve(a, b, assume, is_planned=wishes["only_plan"])

    compute(session, prepare, x, "X", **wishes)


@click.group()
def plan() -> None:
    """Say what a computation will cost, and compute nothing.

    What it moves is exact, for the memory budget of this command and a Zarr result; the time is
    predicted. The option --plan of verbs such as cholesky and transpose says this of their target.
    """


_json = click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")


@plan.command("matmul")
@together(array("a"), array("b"), _trans_a, _trans_b, _json)
def _plan_matmul(a: Place, b: Place, trans_a: bool, trans_b: bool, as_json: bool) -> None:
    """Plan a product of matrices, A B."""
    tell(planning(_matmul(a, b, trans_a, trans_b).result), as_json)


@plan.command("cholesky")
@together(array("a"), _upper, _json)
def _plan_cholesky(a: Place, upper: bool, as_json: bool) -> None:
    """Plan the factorization of a Hermitian, positive definite matrix A."""
    tell(planning(_cholesky(a, upper).result), as_json)


@plan.command("lu")
@together(array("a"), _json)
def _plan_lu(a: Place, as_json: bool) -> None:
    """Plan the factorization of a matrix A with partial pivoting."""
    factors = linalg.lu_factor(a.open())
    tell(planning({"lu.zarr": factors.lu, "piv.zarr": factors.piv}), as_json)


@plan.command("inv")
@together(array("a"), _json)
def _plan_inv(a: Place, as_json: bool) -> None:
    """Plan the inversion of a matrix A."""
    tell(planning(_inv(a).result), as_json)


@plan.command("cond")
@together(array("a"), _norm, _json)
def _plan_cond(a: Place, norm: str, as_json: bool) -> None:
    """Plan the estimation of the condition number of a matrix A, but for its last part.

    That is solutions with the factors, each of which reads them; how many, depends on the numbers.
    """
    matrix = a.open()
    factors = linalg.lu_factor(matrix)
    size = matrix_norm(matrix, adjoint=norm != "1")
    tell(planning({"lu.zarr": factors.lu, "piv.zarr": factors.piv, "norm.zarr": size}), as_json)


@plan.command("solve")
@together(array("a"), array("b"), _assume, _json)
def _plan_solve(a: Place, b: Place, assume: str, as_json: bool) -> None:
    """Plan the solution of a system of equations, A X = B; not its refinement, with sym or her."""
    tell(planning(_solve(a, b, assume, is_planned=True).result), as_json)
