"""What saving an array would run: a computation, a movement, or both."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from outcrop import _native
from outcrop.arrays.array import Array
from outcrop.arrays.computed import ComputedSource, is_read_by_others
from outcrop.arrays.route import Route
from outcrop.arrays.saving import chunks_in, planned_fill, planned_move, planned_save
from outcrop.arrays.stored import StoreSource
from outcrop.arrays.views import View
from outcrop.checks import ShapeLike, StrPath, check_order, check_path
from outcrop.errors import InvalidArgumentError, InvalidTypeError
from outcrop.expressions.build.arrays import ExpressionSource, node_of
from outcrop.expressions.build.saving import is_computed_otherwise, planned, planned_together
from outcrop.formats import format_for
from outcrop.formats.codecs import Codecs, laid_out
from outcrop.process.operation import with_operands
from outcrop.program.plan import ExpressionPlan, MovementPlan, Plan, SweepPlan, plan_of_nothing
from outcrop.reorganize.bridge import bridge_sketch
from outcrop.sweeps.source import SweptSource

__all__ = ["plan"]

_PLANNED = "planned.zarr"
"""Where what has no target would be saved."""


def plan(
    x: Array | Mapping[StrPath, Array],
    target: StrPath | None = None,
    /,
    *,
    tile: ShapeLike | None = None,
    format: str | None = None,
    order: str = "C",
    target_order: str = "C",
    overwrite: bool = False,
    codecs: Codecs | None = None,
    zarr_format: int | None = None,
    layout: str | None = None,
    thickness: int | None = None,
    attributes: Mapping[str, Any] | None = None,
    dimension_names: Sequence[str | None] | None = None,
    fill_value: Any = None,
    via: StrPath | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Plan:
    """Plan what `Array.save` would run, or `save` of several arrays.

    `Array.compute` may move other bytes: its result is in memory, and not written in tiles.

    Parameters
    ----------
    x : Array, or a mapping from paths to arrays
        An array that is not computed yet, whatever it is made of, such as ``A @ B`` or
        ``oc.linalg.solve(A.T @ A, b) + 1``; or one that is on disk, or a view of it such as
        ``A.T`` or ``A[::-1]``, which will be moved; or one in memory, which will be written.
        Several, by the paths where they would be saved, are expressions that are computed together.
        Of none, as `save` takes them, the plan moves nothing.
    target : str or os.PathLike, optional
        Where it would be saved. Default: a new Zarr array in the current directory. A result whose
        tiles would be many small pieces of its file is computed to tiles first, and moved; both
        are planned.
    tile, codecs, zarr_format, layout, thickness, attributes, dimension_names, fill_value
        As for `Array.save`. `transpose` and its like give a tiled array its own tiles, turned. How
        long what is compressed will be is not known: the plan is an upper bound then, and says so.
    order, target_order
        The new file's order, as `Array.save` calls it and as `transpose` does.
    overwrite, progress
        What `Array.save` and `transpose` take besides; it makes no difference to a plan.
    format, via
        As for `transpose`. With `via`, the copy on the other disk, which is not there yet, is
        planned to lie as `x` does.

    Returns
    -------
    Plan
        What it will cost. Nothing is made, and nothing moves.

    Raises
    ------
    BudgetError
        The memory budget is too small; says which would do.
    InvalidArgumentError
        The target cannot have such tiles, such an order, or such a format; `via` is no directory.

    Examples
    --------
    >>> A = oc.create("A.zarr", (1000, 1000), tile=250)
    >>> print(oc.plan(oc.linalg.cholesky(A)).explain())
    cholesky: ...
    >>> oc.plan(A.T, "A.npy")
    <outcrop.Plan transpose: reads ..., writes 7.6 MiB, ... of memory, about ...>
    >>> p = oc.plan({"mean.npy": A.mean(axis=0), "largest.npy": A.max(axis=0)})
    >>> p.bytes_read < 1.01 * A.nbytes
    True
    """
    labels = (attributes, dimension_names, fill_value)
    # One that is asked for by either name.
    new_order = max(check_order(order), check_order(target_order))

    def made() -> Plan:
        if isinstance(x, Mapping):
            given = (target, tile, format, codecs, zarr_format, layout, thickness, via, *labels)
            if any(option is not None for option in given) or new_order != "C":
                raise InvalidArgumentError(
                    "of several arrays, the paths say where they are saved; there are no other "
                    "options"
                )
            return _of_several(x)
        if not isinstance(x, Array):
            raise InvalidTypeError(f"plan takes an outcrop.Array, not {type(x).__name__}")
        path = _PLANNED if target is None else check_path(target)
        options: dict[str, Any] = {
            "tile": tile,
            "format": format,
            "order": new_order,
            "codecs": laid_out(path, format_for(path, format), layout, thickness, codecs),
            "zarr_format": zarr_format,
            "attributes": attributes,
            "dimension_names": dimension_names,
            "fill_value": fill_value,
        }
        return _planned(x, target, options, via)

    found, first = with_operands(made)
    found = found._add_operands(first)
    arrays = x.values() if isinstance(x, Mapping) else [x]
    if found.bytes_read and any(is_read_by_others(array._source) for array in arrays):
        found = found._count_elements_of_others()
    return found


def _of_several(x: Mapping[StrPath, Array]) -> Plan:
    """The plan for what is saved at once."""
    if not x:
        return plan_of_nothing()
    if len(x) == 1:
        ((path, array),) = x.items()
        if isinstance(array, Array) and is_computed_otherwise(array):
            return plan(array, path)
    together = planned_together(x)
    return ExpressionPlan(*planned(x)) if together is None else SweepPlan(together.facts)


def _planned(
    x: Array, target: StrPath | None, options: dict[str, Any], via: StrPath | None
) -> Plan:
    """The plan for one array."""
    source = x._source
    source.check_open()
    if target is not None and via is None:
        path = check_path(target)
        format = format_for(path, options["format"])
        if chunks_in(format, x.shape, options["tile"]) is not None:
            found = planned_save(source, path, view=x._view, **options)
            return ExpressionPlan(found.plan.planned, found.facts)
    if isinstance(source, StoreSource) and x._view.turn is not None:
        return _movement(source, x, target, options, via)
    if isinstance(source, SweptSource) and x._view.is_whole and source.result is None:
        return SweepPlan(_computed(source, target, options, via).facts)
    is_stored = isinstance(source.base, StoreSource) and x.size > 0
    if via is None and not (is_stored or isinstance(source.base, ComputedSource)):
        return _filled(x, target, options)
    # What leaves elements of a stored array out is an expression, too.
    own = ExpressionSource(node_of(x))
    if isinstance(source, ExpressionSource) and x._view.is_whole and source.result is None:
        own = source
    found = _computed(own, target, options, via)
    return ExpressionPlan(found.plan.planned, found.facts)


def _filled(x: Array, target: StrPath | None, options: dict[str, Any]) -> Plan:
    """The plan for an array that is in memory, or made by a function."""
    path = _PLANNED if target is None else check_path(target)
    facts, store = planned_fill(x._source, x._view, path, options)
    moved = {"bytes_read": 0, "bytes_written": facts["bytes_written"] - facts["commit_bytes"]}
    array = {"name": Path(path).name, "role": "output", "shape": x.shape, "dtype": x.dtype.name}
    return Plan(
        {
            **plan_of_nothing()._facts,
            **facts,
            "operation": "fill",
            "remark": f"{x._source.describe('')}, written box by box",
            "io_seconds": facts["seconds"],
            "arrays": [{**array, "tile": store.tile, **moved}],
        }
    )


def _computed(
    source: ComputedSource, target: StrPath | None, options: dict[str, Any], via: StrPath | None
) -> Route:
    if via is not None:
        raise InvalidArgumentError(
            "via= is for what is moved as a whole; this is computed, or leaves elements out"
        )
    path = _PLANNED if target is None else check_path(target)
    return planned_save(source, path, **options)


def _movement(
    source: StoreSource,
    x: Array,
    target: StrPath | None,
    options: dict[str, Any],
    via: StrPath | None,
) -> MovementPlan:
    view = x._view
    path = _PLANNED if target is None else check_path(target)
    format = format_for(path, options["format"])
    if options["order"] != "C" and format not in ("npy", "raw"):
        raise InvalidArgumentError(f"order='F' is for npy and raw files, not for {format}")
    near, seen, bridge = source.store, view, None
    if via is not None:
        near, seen = bridge_sketch(source, view, via), view.of_box()
    facts, store = planned_move(source, view, near, seen, path, options)
    if via is not None:
        bridge = _native.plan_copy(source.store, *view.box, None, near)
        for key in ("bytes_read", "bytes_written", "seconds"):
            facts[key] += bridge[key]
        facts["peak_bytes"] = max(facts["peak_bytes"], bridge["peak_bytes"])
        facts["measured"] = facts["measured"] and bridge["measured"]
    facts |= {
        "exact": store.format != "zarr-foreign",
        "operation": "copy" if view.is_box else "transpose",
        "movement": _movement_name(view),
        "nbytes": x.nbytes,
        "dtype": x.dtype,
        "ends": ((Path(source.path or "").name, source.shape), (Path(path).name, x.shape)),
        "bridge": bridge,
        "via": None if via is None else check_path(via),
    }
    return MovementPlan(facts)


def _movement_name(view: View) -> str:
    """What a person calls a movement."""
    if view.is_box:
        return "copy"
    assert view.turn is not None
    axes, backwards = view.turn
    moved = [axis for axis, own in enumerate(axes) if axis != own]
    if not moved:
        return "flip"
    # A quarter turn reverses one of the two axes that it exchanges.
    reversed_ones = [axis for axis, is_reversed in enumerate(backwards) if is_reversed]
    quarter = len(moved) == 2 and len(reversed_ones) == 1 and reversed_ones[0] in moved
    return "rotate" if quarter else "transpose"
