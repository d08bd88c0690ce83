"""What a computation will cost."""

import html
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, Self

from outcrop.checks import StrPath, check_path
from outcrop.errors import StorageError, StoragePermissionError, UnsupportedError
from outcrop.process.files import replace_file
from outcrop.process.operation import Moved
from outcrop.process.sizes import format_bytes, format_shape
from outcrop.program.drawing import Edge, Item, drawn
from outcrop.program.reading import Reading, waste

__all__ = ["ExpressionPlan", "MovementPlan", "Plan", "SweepPlan"]


class Plan:
    """A computation's schedule: what it moves is exact, how long it takes is predicted.

    Made by `outcrop.plan`, for the memory budget and the tiles in memory at that moment. Computing
    moves these bytes, no others, as long as neither changes.

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
    is_exact : bool
        Whether exactly these bytes are moved. Otherwise they are an upper bound: how long what is
        compressed will be is known when it is written.

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
        self.is_exact: bool = facts.get("exact", True)
        self._first = Moved()
        self._copied: int = facts.get("copied_bytes", 0)
        self.bytes_read += self._copied
        self.bytes_written += self._copied

    def _add_operands(self, first: Moved) -> Self:
        """Say what is moved before: for operands that are computed first, each time."""
        self._first = first
        self.bytes_read += first.bytes_read
        self.bytes_written += first.bytes_written
        self.seconds += first.seconds
        return self

    def _beside(self) -> list[str]:
        """What is copied besides, for people."""
        if not self._copied:
            return []
        size = format_bytes(self._copied)
        return [f"  of that, copied with the rest of the HDF5 file: {size} read and written"]

    @property
    def waste(self) -> float:
        """Bytes read over the least for these passes.

        About 1 where each pass reads what it takes once; less, where some of it stays in memory
        from one pass to the next; more, where parts of tiles are read as whole ones, where what is
        in use is more than memory holds, and by what is written to scratch and read back. The least
        of a product is its `lower_bound`.
        """
        return waste(self.bytes_read - self._copied, max(self._least(), self.lower_bound or 0))

    def _least(self) -> float:
        """Bytes that are read if each pass reads what it takes once."""
        return 0

    def _reasons(self) -> Mapping[int, Sequence[str]]:
        """Why arrays are read as often as they are, by their numbers."""
        return {}

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
        reasons = self._reasons()
        for number, array in enumerate(facts["arrays"]):
            lines.append(f"  {array['name']:<{width}}  {_array(array)}")
            lines += [f"  {'':<{width}}    {reason}" for reason in reasons.get(number, ())]
        bound = ""
        if self.lower_bound and self.bytes_read >= self.lower_bound:
            ratio = self.bytes_read / self.lower_bound
            bound = (
                f", {ratio:.2f} times the least that any schedule reads with so much memory, "
                f"{format_bytes(self.lower_bound)} ({facts['lower_bound_source']})"
            )
        most = "" if self.is_exact else "at most "
        lines.append(f"  reads {most}{format_bytes(self.bytes_read)}{bound}")
        lines.append(
            f"  writes {most}{format_bytes(self.bytes_written)}, "
            f"{format_bytes(facts['commit_bytes'])} of them metadata"
        )
        if self._first != Moved():
            lines.append(
                f"  of that, for operands that are computed first: "
                f"{format_bytes(self._first.bytes_read)} read, "
                f"{format_bytes(self._first.bytes_written)} written"
            )
        lines += self._beside()
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

    def show(self, path: StrPath) -> None:
        """Draw what is made of what: sizes, passes, what is on disk, and what never is.

        Parameters
        ----------
        path : str or os.PathLike
            Of an SVG file (``.svg``), which is replaced.

        Raises
        ------
        UnsupportedError
            There are too many arrays for a picture, or it would be of another kind.
        StorageError
            The file cannot be written.
        """
        file = Path(check_path(path))
        if file.suffix.lower() != ".svg":
            raise UnsupportedError(f"{file}: plans are drawn as SVG, to a file named *.svg")
        picture = self._picture()
        try:
            replace_file(str(file), picture.encode())
        except StorageError:
            raise
        except OSError as error:
            kind = StoragePermissionError if isinstance(error, PermissionError) else StorageError
            raise kind(f"{file}: {error.strerror}", errno=error.errno) from None

    def _picture(self) -> str:
        """As SVG."""
        items, edges = [], []
        inputs: list[int] = []
        for i, array in enumerate(sorted(self._facts["arrays"], key=_made)):
            nbytes = _nbytes(array)
            read, written = array["bytes_read"], array["bytes_written"]
            if array["role"] == "input":
                state, note = "on disk", f"read {read / max(nbytes, 1):.2f} times"
            elif array["role"] == "output":
                state, note = "result", f"{format_bytes(written)} written"
            elif written:
                state, note = "spilled", f"{format_bytes(written)} written"
            else:
                state, note = "kept in memory", ""
            detail = f"{format_shape(array['shape'])} {array['dtype']}"
            items.append(Item(array["name"], detail, nbytes, state, note))
            if array["role"] == "input":
                inputs.append(i)
            else:
                edges += [Edge(source, i) for source in inputs]
        return drawn(self._title(), items, edges)

    def _title(self) -> str:
        return (
            f"{self.operation}, reads {format_bytes(self.bytes_read)}, writes "
            f"{format_bytes(self.bytes_written)}"
        )

    def _repr_html_(self) -> str:
        try:
            picture = self._picture()
        except UnsupportedError:
            # Too many boxes to be looked at.
            picture = ""
        return f"<div>{picture}<pre>{html.escape(self.explain())}</pre></div>"

    def __repr__(self) -> str:
        return (
            f"<outcrop.Plan {self.operation}: reads {format_bytes(self.bytes_read)}, writes "
            f"{'' if self.is_exact else 'at most '}{format_bytes(self.bytes_written)}, "
            f"{format_bytes(self.peak_bytes)} of memory, about {_seconds(self.seconds)}>"
        )


def _made(array: Mapping[str, Any]) -> int:
    """What is made of what: inputs come first, results last."""
    return {"input": 0, "output": 2}.get(array["role"], 1)


class Passes(Protocol):
    """What is known of an expression that is planned."""

    @property
    def facts(self) -> dict[str, Any]:
        """Everything there is to say about it."""

    def passes(self) -> list[dict[str, Any]]:
        """What each pass reads, computes and keeps."""

    def readings(self) -> list[Reading]:
        """What its passes take of each stored array."""

    def picture(self) -> str:
        """What is made of what, as SVG."""


class ExpressionPlan(Plan):
    """The plan of an array expression.

    Made by `outcrop.plan`.

    Examples
    --------
    >>> A = oc.create("A.zarr", (3000, 300), tile=300)
    >>> p = oc.plan((A - A.mean(0)).std(0))
    >>> p.show("plan.svg")
    >>> print(p.explain())
    expression: ...
    """

    def __init__(self, planned: Passes, facts: Mapping[str, Any] | None = None) -> None:
        super().__init__(planned.facts if facts is None else facts)
        self._planned = planned

    @cached_property
    def _readings(self) -> list[Reading]:
        return self._planned.readings()

    def _least(self) -> float:
        return sum(reading.least for reading in self._readings)

    def _reasons(self) -> Mapping[int, Sequence[str]]:
        arrays = self._planned.facts["arrays"]
        found = {}
        for reading in self._readings:
            bytes_read = sum(arrays[number]["bytes_read"] for number in reading.arrays)
            found[reading.arrays[0]] = reading.reasons(bytes_read)
        return found

    def explain(self) -> str:
        """Say which passes there are, what they read, compute and keep, and what that costs.

        Returns
        -------
        str
            Lines for people.
        """
        head, *rest = super().explain().splitlines()
        lines = [head]
        number = 0
        for facts in self._planned.passes():
            if facts["is_beside"]:
                lines.append(f"  beside it, in {facts['cells']} steps")
            elif facts["is_operation"]:
                # How many steps it takes is no number of cells.
                number += 1
                lines.append(f"  pass {number}, in an order of its own")
            elif facts["cells"] > 1:
                number += 1
                lines.append(f"  pass {number}, in {facts['cells']} steps")
            else:
                lines.append("  then, in one step")
            for name, nbytes, tile, stored, views in facts["reads"]:
                size = f"{' x '.join(map(str, tile)) or '1'} of {format_bytes(nbytes)}"
                if views > 1:
                    size += f", for {views} views"
                lines.append(f"    {'reads' if stored else 'takes'} {name}, {size}")
            lines.append(f"    computes {_counted(facts['computes'])}")
            for name, nbytes, summed in facts["keeps"]:
                what = "parts of its sum" if summed else format_bytes(nbytes)
                lines.append(f"    keeps {name}, {what}")
        return "\n".join((*lines, *rest))

    def _picture(self) -> str:
        if self._facts["remark"] != self._planned.facts["remark"]:
            # It is moved afterwards.
            return super()._picture()
        return self._planned.picture()


class MovementPlan(Plan):
    """What copying, transposing, rotating or flipping an array will cost.

    Made by `outcrop.plan` for arrays that are only moved. `flops` and `compute_seconds` are 0, and
    `lower_bound` is one pass over the array.

    Attributes
    ----------
    movement : str
        What a person calls it: copy, transpose, rotate or flip.
    """

    def __init__(self, facts: Mapping[str, Any]) -> None:
        super().__init__(
            {
                "flops": 0.0,
                "io_seconds": facts["seconds"],
                "compute_seconds": 0.0,
                "lower_bound": facts["nbytes"],
                **facts,
            }
        )
        self.movement: str = facts["movement"]

    def _least(self) -> float:
        # Each pass moves all of it.
        return float(self._facts["nbytes"] * len(self._facts["passes"]))

    def _picture(self) -> str:
        facts, passes = self._facts, len(self._facts["passes"])
        where = "in the scratch directory" if self.scratch_bytes else "in the new file itself"
        note = f"in {passes} passes, {where} between them" if passes > 1 else "in one pass"
        states = [("on disk", ""), ("result", note)]
        items = [
            Item(name, f"{format_shape(shape)} {facts['dtype']}", facts["nbytes"], state, remark)
            for (name, shape), (state, remark) in zip(facts["ends"], states, strict=True)
        ]
        return drawn(self._title(), items, [Edge(0, 1, self.movement)])

    def explain(self) -> str:
        """Say in how many passes it will be moved, in pieces of which size, and why.

        Returns
        -------
        str
            Lines for people.
        """
        facts = self._facts
        passes = facts["passes"]
        count = "one pass" if len(passes) == 1 else f"{len(passes)} passes"
        lines = [f"{self.movement}: {format_bytes(facts['nbytes'])} in {count}"]
        for number, one in enumerate(passes, 1):
            lines.append(f"  pass {number}: {one['remark']}")
            lines.append(
                f"    reads {format_bytes(one['bytes_read'])}, "
                f"writes {format_bytes(one['bytes_written'])}, about {_seconds(one['seconds'])}"
            )
        if len(passes) > 1:
            where = "the scratch directory" if self.scratch_bytes else "the new file itself"
            lines.append(f"  between the passes, elements wait in {where}")
        if bridge := facts["bridge"]:
            lines.append(
                f"  before that, copies what is read to {facts['via']}: "
                f"reads {format_bytes(bridge['bytes_read'])}, "
                f"writes {format_bytes(bridge['bytes_written'])}, "
                f"about {_seconds(bridge['seconds'])}"
            )
        lines.append(f"  reads {format_bytes(self.bytes_read)} in all")
        most = "" if self.is_exact else "at most "
        lines.append(f"  writes {most}{format_bytes(self.bytes_written)}")
        lines += self._beside()
        lines.append(
            f"  memory: {format_bytes(self.peak_bytes)} of {format_bytes(facts['budget'])}"
        )
        known = "" if facts["measured"] else ", for a disk whose speed was not measured"
        lines.append(f"  about {_seconds(self.seconds)}{known}")
        for remark, seconds in facts["others"]:
            lines.append(f"  instead of {remark}: {_seconds(seconds)}")
        return "\n".join(lines)


class SweepPlan(Plan):
    """What sweeps will cost.

    Made by `outcrop.plan` for what a sweep gives.

    Attributes
    ----------
    sweeps : int
        How many there are.
    depth : int
        How many of them are in flight: for so many, every array is moved once.
    reason : str or None
        Why a sweep has to be over before the next one begins, where it has.

    Examples
    --------
    >>> u = oc.create("u.zarr", (400, 500), tile=100)
    >>> p = oc.plan(oc.sweeps.gauss_seidel(u, u, sweeps=8))
    >>> p.depth, p.bytes_read < 1.1 * u.nbytes
    (8, True)
    """

    def __init__(self, facts: Mapping[str, Any]) -> None:
        super().__init__(facts)
        self.sweeps: int = facts["sweeps"]
        self.depth: int = facts["depth"]
        self.reason: str | None = facts["unchained"]

    def _least(self) -> float:
        return float(self.lower_bound or 0) * -(-self.sweeps // self.depth)


def _counted(names: Sequence[str]) -> str:
    """Names, each once, with how often it comes."""
    counts = Counter(names)
    return ", ".join(n if count == 1 else f"{n} ({count} times)" for n, count in counts.items())


def _array(array: Mapping[str, Any]) -> str:
    nbytes, extents = _nbytes(array), format_shape(array["shape"])
    tile = " x ".join(map(str, array["tile"]))
    text = f"{array['role']}, {array['dtype']}, {extents}, tiles of {tile}"
    for word, moved in (("read", array["bytes_read"]), ("written", array["bytes_written"])):
        if moved and nbytes >= 1 << 20:
            text += f", {word} {moved / nbytes:.2f} times"
        elif moved:
            text += f", {word} {format_bytes(moved)}"
    return text


def _nbytes(array: Mapping[str, Any]) -> int:
    elements: int = math.prod(array["shape"])
    return elements * _itemsize(array["dtype"])


def _itemsize(name: str) -> int:
    digits = name.lstrip("abcdefghijklmnopqrstuvwxyz")
    return int(digits) // 8 if digits else 1


def _seconds(seconds: float) -> str:
    if seconds < 0.095:
        return f"{seconds * 1e3:.2g} ms"
    return f"{seconds:.2g} s" if seconds < 100 else f"{seconds / 60:.0f} min"
