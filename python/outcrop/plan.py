"""What a computation will cost."""

from collections.abc import Mapping
from typing import Any

from outcrop._lazy import ComputedSource
from outcrop._sizes import format_bytes
from outcrop.array import Array
from outcrop.errors import InvalidTypeError, UnsupportedError

__all__ = ["Plan", "plan"]


class Plan:
    """A computation's schedule: what it moves is exact, how long it takes is predicted.

    Made by `plan`, for the memory budget and the tiles in memory at that moment. Computing moves
    these bytes, no others, as long as neither changes.

    Attributes
    ----------
    operation : str
        What it is.
    bytes_read, bytes_written : int
        Bytes moved from and to disk, those of scratch included.
    scratch_bytes : int
        The most bytes in the scratch directory at once.
    peak_bytes : int
        The most bytes of the budget in use at once.
    flops : float
        Arithmetic operations.
    seconds : float
        Predicted seconds; `io_seconds` and `compute_seconds` are what each would take alone.
    lower_bound : int or None
        Bytes that any schedule reads with this budget that has nothing in memory at first, where a
        bound is known.

    Examples
    --------
    >>> A = oc.create("A.zarr", (2000, 2000), tile=250)
    >>> p = oc.plan(A @ A)
    >>> p.bytes_written >= A.nbytes, p.peak_bytes <= oc.config().memory
    (True, True)
    """

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self._facts = facts
        self.operation: str = facts["operation"]
        self.bytes_read: int = facts["bytes_read"]
        self.bytes_written: int = facts["bytes_written"]
        self.scratch_bytes: int = facts["scratch_bytes"]
        self.peak_bytes: int = facts["peak_bytes"]
        self.flops: float = facts["flops"]
        self.seconds: float = facts["seconds"]
        self.io_seconds: float = facts["io_seconds"]
        self.compute_seconds: float = facts["compute_seconds"]
        self.lower_bound: int | None = facts["lower_bound"]

    def explain(self) -> str:
        """Say how it will be computed, what it moves, and why.

        Returns
        -------
        str
            Lines for people.
        """
        facts = self._facts
        lines = [f"{self.operation}: {facts['remark']}"]
        names = [a["name"] for a in facts["arrays"]]
        width = max(map(len, names), default=0)
        for array in facts["arrays"]:
            lines.append(f"  {array['name']:<{width}}  {_array(array)}")
        bound = ""
        if self.lower_bound and self.bytes_read >= self.lower_bound:
            ratio = self.bytes_read / self.lower_bound
            bound = (
                f", {ratio:.2f} times the least that any schedule reads with so much memory, "
                f"{format_bytes(self.lower_bound)} ({facts['lower_bound_source']})"
            )
        lines.append(f"  reads {format_bytes(self.bytes_read)}{bound}")
        lines.append(
            f"  writes {format_bytes(self.bytes_written)}, "
            f"{format_bytes(facts['commit_bytes'])} of them metadata"
        )
        if self.scratch_bytes:
            lines.append(f"  takes {format_bytes(self.scratch_bytes)} of scratch space")
        lines.append(
            f"  memory: {format_bytes(self.peak_bytes)} of {format_bytes(facts['budget'])}, "
            f"of which tiles {format_bytes(facts['room_bytes'])}"
        )
        if facts["resident_bytes"]:
            lines.append(f"  in memory already: {format_bytes(facts['resident_bytes'])}")
        lines.append(
            f"  about {_seconds(self.seconds)}: {self.flops:.3g} operations in "
            f"{_seconds(self.compute_seconds)} on {facts['threads']} threads, and "
            f"{_seconds(self.io_seconds)} of moving data, most of it at the same time"
        )
        # The next best, by time.
        others = sorted(facts["others"], key=lambda other: other[2])
        for remark, moved, seconds in others[:2]:
            lines.append(f"  instead of {remark}: {format_bytes(moved)} moved, {_seconds(seconds)}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return (
            f"<outcrop.Plan {self.operation}: reads {format_bytes(self.bytes_read)}, "
            f"writes {format_bytes(self.bytes_written)}, "
            f"{format_bytes(self.peak_bytes)} of memory, about {_seconds(self.seconds)}>"
        )


def plan(x: Array, /) -> Plan:
    """Plan the computation of a lazy array, as `Array.save` to a Zarr array would run it.

    Parameters
    ----------
    x : Array
        An array that is not computed yet, such as ``A @ B``.

    Returns
    -------
    Plan
        What it will cost.

    Raises
    ------
    BudgetError
        The memory budget is too small; says which would do.
    UnsupportedError
        There is nothing to compute, or it takes several operations.

    Examples
    --------
    >>> A = oc.create("A.zarr", (1000, 1000), tile=250)
    >>> print(oc.plan(oc.linalg.cholesky(A)).explain())
    cholesky: ...
    """
    if not isinstance(x, Array):
        raise InvalidTypeError(f"plan takes an outcrop.Array, not {type(x).__name__}")
    source = x._source
    viewed = source is not source.base or not x._view.is_whole
    if isinstance(source.base, ComputedSource) and viewed:
        raise UnsupportedError(
            "this is a view of an array that is not computed yet, and such views are not planned "
            "in this version: plan the whole, or transpose and select what goes into it"
        )
    if not isinstance(source, ComputedSource):
        raise UnsupportedError(
            "plan is for arrays that are not computed yet, such as A @ B; this one is "
            f"{source.describe('')}"
        )
    return Plan(source.plan().facts)


def _array(array: Mapping[str, Any]) -> str:
    shape, tile = array["shape"], array["tile"]
    nbytes = 1
    for n in shape:
        nbytes *= n
    nbytes *= _itemsize(array["dtype"])
    extents = " x ".join(map(str, shape)) or "one element"
    text = f"{array['role']}, {array['dtype']}, {extents}, tiles of {' x '.join(map(str, tile))}"
    for word, moved in (("read", array["bytes_read"]), ("written", array["bytes_written"])):
        if moved and nbytes >= 1 << 20:
            text += f", {word} {moved / nbytes:.2f} times"
        elif moved:
            text += f", {word} {format_bytes(moved)}"
    return text


def _itemsize(name: str) -> int:
    digits = name.lstrip("abcdefghijklmnopqrstuvwxyz")
    return int(digits) // 8 if digits else 1


def _seconds(seconds: float) -> str:
    if seconds < 0.095:
        return f"{seconds * 1e3:.2g} ms"
    return f"{seconds:.2g} s" if seconds < 100 else f"{seconds / 60:.0f} min"
