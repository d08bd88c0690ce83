"""What a computation will cost."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol, Self

from outcrop import _native
from outcrop.checks import StrPath, check_path
from outcrop.process.operation import Moved
from outcrop.process.sizes import format_bytes, format_shape
from outcrop.program.drawing import (
    Edge,
    Item,
    Picture,
    check_matplotlib,
    picture_format,
    write_picture,
)
from outcrop.program.drawing.page import plan_page
from outcrop.program.folded_text import folded_lines
from outcrop.program.reading import Reading, waste

__all__ = ["ExpressionPlan", "MovementPlan", "Plan", "SweepPlan", "plan_of_nothing"]


_WIDEST_NAME = 32
"""Characters of names beside which lines are aligned."""


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
        compressed will be is known when it is written. Or they are a guess: where another library
        reads, its elements are counted.

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
        self._most = "" if self.is_exact else "at most "
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

    def _count_elements_of_others(self) -> Self:
        """Say that another library reads some of it, and what it reads is not known."""
        self.is_exact, self._most = False, "about "
        return self

    def _beside(self) -> list[str]:
        """What is copied besides, for people, and what is not known."""
        lines = []
        if self._copied:
            size = format_bytes(self._copied)
            lines += [f"  of that, copied with the rest of the HDF5 file: {size} read and written"]
        if self._most == "about ":
            lines += ["  where another library reads, its elements are counted, and not its bytes"]
        return lines

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

    def explain(self, *, folded: bool = True) -> str:
        """Say how it will be computed, what it moves, and why.

        Parameters
        ----------
        folded : bool
            Whether what is repeated, such as the passes of a loop, is said once, with how often it
            comes.

        Returns
        -------
        str
            Lines for people.
        """
        facts = self._facts
        lines = [f"{self.operation}: {facts['remark']}"]
        names = [a["name"] for a in facts["arrays"]]
        # One long name does not push all lines aside.
        width = min(max(map(len, names), default=0), _WIDEST_NAME)
        reasons = self._reasons()
        told = [
            (name, _array(array), *reasons.get(number, ()))
            for number, (name, array) in enumerate(zip(names, facts["arrays"], strict=True))
        ]
        lines += folded_lines(
            told,
            lambda number: [
                f"  {told[number][0]:<{width}}  {told[number][1]}",
                *(f"  {'':<{width}}    {reason}" for reason in told[number][2:]),
            ],
            # Arrays are alike whatever their names.
            key=lambda one: one[1:],
            what="arrays",
            names=names,
            folded=folded,
        )
        bound = ""
        if self.lower_bound and self.bytes_read >= self.lower_bound:
            ratio = self.bytes_read / self.lower_bound
            bound = (
                f", {ratio:.2f} times the least that any schedule reads with so much memory, "
                f"{format_bytes(self.lower_bound)} ({facts['lower_bound_source']})"
            )
        most = self._most
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

    def show(self, path: StrPath, *, overwrite: bool = False, folded: bool = True) -> None:
        """Draw what is made of what: sizes, passes, what is on disk, and what never is.

        Parameters
        ----------
        path : str or os.PathLike
            Of the picture, whose suffix gives its format: ``.svg``, whose colours follow the theme
            of whoever looks at it, or ``.png`` or ``.pdf``, which need matplotlib.
        overwrite : bool
            Whether a file that stands there is replaced, once the picture is complete.
        folded : bool
            Whether what is repeated, such as the iterations of a loop, is drawn as one box, which
            says how often it comes and what flows from one to the next; and inputs alike as one.

        Raises
        ------
        ArrayExistsError
            A file stands there, and is not to be replaced.
        UnsupportedError
            There are too many arrays for a picture, it would be of another kind, or matplotlib is
            missing.
        StorageError, StorageFullError
            The file cannot be written.
        """
        file = check_path(path)
        format = picture_format(file)
        if format != "svg":
            check_matplotlib()
        write_picture(file, self._picture().drawn(format, folded=folded), overwrite=overwrite)

    def _picture(self) -> Picture:
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
        return Picture(self._title(), items, edges)

    def _title(self) -> str:
        return (
            f"{self.operation}, reads {format_bytes(self.bytes_read)}, writes "
            f"{format_bytes(self.bytes_written)}"
        )

    def _repr_html_(self) -> str:
        return plan_page(self._picture(), self.explain())

    def __repr__(self) -> str:
        read = "about " if self._most == "about " else ""
        return (
            f"<outcrop.Plan {self.operation}: reads {read}{format_bytes(self.bytes_read)}, writes "
            f"{self._most}{format_bytes(self.bytes_written)}, "
            f"{format_bytes(self.peak_bytes)} of memory, about {_seconds(self.seconds)}>"
        )


def plan_of_nothing() -> Plan:
    """The plan of what has nothing to do."""
    facts = _native.plan_program(_native.Draft(0, 0, False)).facts
    return Plan(
        {
            **facts,
            "remark": "there is nothing to compute",
            "others": [],
            "flops": 0.0,
            "compute_seconds": 0.0,
            "peak_bytes": 0,
        }
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

    @property
    def readings(self) -> list[Reading]:
        """What its passes take of each stored array."""

    def picture(self) -> Picture:
        """What is made of what."""


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
        return self._planned.readings

    def _least(self) -> float:
        return sum(reading.least for reading in self._readings)

    def _reasons(self) -> Mapping[int, Sequence[str]]:
        arrays = self._planned.facts["arrays"]
        found = {}
        for reading in self._readings:
            bytes_read = sum(arrays[number]["bytes_read"] for number in reading.arrays)
            found[reading.arrays[0]] = reading.reasons(bytes_read)
        return found

    def explain(self, *, folded: bool = True) -> str:
        """Say which passes there are, what they read, compute and keep, and what that costs.

        Parameters
        ----------
        folded : bool
            Whether what is repeated, such as the passes of a loop, is said once, with how often it
            comes.

        Returns
        -------
        str
            Lines for people.
        """
        head, *rest = super().explain(folded=folded).splitlines()
        passes = self._planned.passes()
        titles = _pass_titles(passes)
        told = [_pass_lines(facts) for facts in passes]
        numbers = [number for number, _ in titles]
        lines = folded_lines(
            [(numbers[i] > 0, titles[i][1], *told[i]) for i in range(len(passes))],
            lambda i: [
                f"  pass {numbers[i]}, {titles[i][1]}" if numbers[i] else f"  {titles[i][1]}",
                *(f"    {line}" for line in told[i]),
            ],
            what="passes" if all(numbers) else "parts",
            names=[f"pass {number}" if number else "" for number in numbers],
            folded=folded,
        )
        return "\n".join((head, *lines, *rest))

    def _picture(self) -> Picture:
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

    def _picture(self) -> Picture:
        facts, passes = self._facts, len(self._facts["passes"])
        where = "in the scratch directory" if self.scratch_bytes else "in the new file itself"
        note = f"in {passes} passes, {where} between them" if passes > 1 else "in one pass"
        states = [("on disk", ""), ("result", f"{self.movement}, {note}")]
        items = [
            Item(name, f"{format_shape(shape)} {facts['dtype']}", facts["nbytes"], state, remark)
            for (name, shape), (state, remark) in zip(facts["ends"], states, strict=True)
        ]
        return Picture(self._title(), items, [Edge(0, 1)])

    def explain(self, *, folded: bool = True) -> str:
        """Say in how many passes it will be moved, in pieces of which size, and why.

        Parameters
        ----------
        folded : bool
            As of other plans; of one or two passes, there is nothing to fold.

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
        lines.append(f"  writes {self._most}{format_bytes(self.bytes_written)}")
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


def _pass_titles(passes: Sequence[Mapping[str, Any]]) -> list[tuple[int, str]]:
    """The number of each pass, 0 where it has none, and how it is done."""
    found = []
    number = 0
    for facts in passes:
        if facts["is_beside"]:
            found.append((0, f"beside it, in {facts['cells']} steps"))
        elif facts["is_operation"]:
            # How many steps it takes is no number of cells.
            number += 1
            found.append((number, "in an order of its own"))
        elif facts["cells"] > 1:
            number += 1
            found.append((number, f"in {facts['cells']} steps"))
        else:
            found.append((0, "then, in one step"))
    return found


def _pass_lines(facts: Mapping[str, Any]) -> list[str]:
    """What a pass reads, computes and keeps."""
    lines = []
    for name, nbytes, tile, stored, views in facts["reads"]:
        size = f"{' x '.join(map(str, tile)) or '1'} of {format_bytes(nbytes)}"
        if views > 1:
            size += f", for {views} views"
        lines.append(f"{'reads' if stored else 'takes'} {name}, {size}")
    lines.append(f"computes {_counted(facts['computes'])}")
    for name, nbytes, summed in facts["keeps"]:
        what = "parts of its sum" if summed else format_bytes(nbytes)
        lines.append(f"keeps {name}, {what}")
    return lines


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
