"""Cell updates as compiled kernels: loops over a box of a tile, with neighbours in other tiles.

A step updates a box of one tile. What it reads of other tiles it finds by *ports*: an array, and
in which direction the neighbour lies. A row is computed from pointers to the rows that it reads, so
that inside of a tile there is nothing between a loop and its elements. Where a cell needs the one
before it in the same row, some rows are computed at a time, one behind the other: each waits for
its own last result, and not all of them for one.
"""

import ast
import copy
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from outcrop.compiled.cached import compiled_function, digest, meaning_of, named
from outcrop.compiled.compiler import numba_module, numba_says, pointer_to
from outcrop.errors import InvalidTypeError
from outcrop.sweeps.cell import Cell, Offset

__all__ = [
    "OUTSIDE_HIGH",
    "OUTSIDE_LOW",
    "Kernel",
    "Port",
    "axis_words",
    "other_words",
]

_FEWEST_ROWS, _MOST_ROWS, _READS = 4, 8, 40
"""Rows that are computed at a time, where cells of a row wait for each other: so many that all of
them read about so many elements."""

_LINE = 64
"""Bytes of a line of the cache."""

_CALL = 10
"""Operations that calling a function takes as long as, about."""

_PER_AXIS, _HALF = 3, 32
"""Arguments for each axis: where the box begins and ends, where what is computed does, as halves of
a word; and the extent of the tile before."""

_PLACES, _PLACE = 4, 16
"""How many of the places of ports are a word, and how many bits each has."""

OUTSIDE_LOW, OUTSIDE_HIGH = 1, 2
"""Of each axis, whether cells that are read beyond the tile are those at its edge."""


@dataclass(frozen=True)
class Port:
    """What a step needs a tile for.

    Attributes
    ----------
    array : str
        The parameter.
    direction : tuple of int
        Where the tile lies: along each axis -1, 0 or 1.
    new : bool
        Whether it is what the array becomes, where that is another array than the one that is read.
    """

    array: str
    direction: Offset
    new: bool = False


@dataclass
class Kernel:
    """The compiled update of a cell, for arrays of certain types.

    Attributes
    ----------
    cell : Cell
        What becomes of a cell.
    dtypes : mapping
        The type of the elements of each array.
    scalars : tuple of str
        Of each scalar ``"float"`` or ``"int"``.
    directions : tuple of int
        Along which axes the last cell comes first. Offsets, boxes and ports are as they come.
    inplace : bool
        Whether neighbours that come before are new already.
    nearest : bool
        Whether there are axes where what lies outside is the cell at the edge.
    """

    cell: Cell
    dtypes: Mapping[str, np.dtype[Any]]
    scalars: tuple[str, ...]
    directions: tuple[int, ...]
    inplace: bool
    nearest: bool
    _function: Any = field(default=None, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        # It is compiled again, or taken from the cache of what was.
        types = dict(self.dtypes), self.scalars, self.directions
        return Kernel, (self.cell, *types, self.inplace, self.nearest)

    @cached_property
    def reads(self) -> Mapping[str, tuple[Offset, ...]]:
        """Of each array, at which offsets it is read, in the order in which cells come."""
        turned = {
            p: [tuple(n * d for n, d in zip(o, self.directions, strict=True)) for o in offsets]
            for p, offsets in self.cell.reads.items()
        }
        return {p: tuple(sorted(offsets)) for p, offsets in turned.items()}

    def is_double(self, array: str) -> bool:
        """Whether an array is updated from one place to another: others need its old elements."""
        return (
            not self.inplace
            and array in self.cell.written
            and any(any(o) for o in self.cell.reads[array])
        )

    @cached_property
    def ports(self) -> tuple[Port, ...]:
        """What a step may need tiles for, the first of them always: it is what is updated."""
        here = (0,) * self.cell.ndim
        found = [Port(p, here, self.is_double(p)) for p in self.cell.written]
        for p, offsets in self.reads.items():
            own = {here} if self.is_double(p) else set()
            for offset in offsets:
                own |= set(itertools.product(*({0, (n > 0) - (n < 0)} for n in offset)))
            found += [Port(p, v) for v in sorted(own) if Port(p, v) not in found]
        return tuple(found)

    @cached_property
    def arguments(self) -> int:
        """How many arguments a step has."""
        return self.scalars_at + len(self.cell.scalars)

    @cached_property
    def scalars_at(self) -> int:
        """Where among them the scalars begin."""
        return self.number_at + 1 + -(-len(self.ports) // _PLACES)

    @property
    def number_at(self) -> int:
        """Which of them has the number of the sweep in its upper half."""
        return _PER_AXIS * self.cell.ndim

    @property
    def workspace(self) -> int:
        """Bytes that a step needs."""
        return 8 * len(self.ports) * self.cell.ndim

    @cached_property
    def work(self) -> int:
        """Operations for each cell, about."""
        nodes = [node for statement in self.cell.body for node in ast.walk(statement)]
        simple = sum(isinstance(node, ast.BinOp | ast.Compare | ast.UnaryOp) for node in nodes)
        return 1 + simple + _CALL * sum(isinstance(node, ast.Call) for node in nodes)

    @cached_property
    def recurs(self) -> bool:
        """Whether a cell needs the one before it in the same row."""
        rows = self.cell.ndim - 1
        return self.inplace and any(
            not any(o[:rows]) and o[-1] < 0 for p in self.cell.written for o in self.reads[p]
        )

    @property
    def rate(self) -> float:
        """Operations in a second, about."""
        return 1e9 if self.recurs and self.cell.ndim == 1 else 4e9

    @property
    def function(self) -> Any:
        """The compiled function, as the engine calls it.

        Raises
        ------
        InvalidTypeError
            There is no such update of elements of these types.
        """
        if self._function is None:
            self._function = _Source(self).compiled()
        return self._function


class _Source:
    """The source of a kernel, as it is made."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.cell = kernel, kernel.cell
        self.ndim = kernel.cell.ndim
        self.sign = "" if kernel.directions[-1] > 0 else "-"
        self.index = {p: i for i, p in enumerate(kernel.cell.arrays)}
        reads = max(1, sum(map(len, kernel.reads.values())))
        self.rows = max(_FEWEST_ROWS, min(_MOST_ROWS, _READS // reads))
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}
        self.made: set[str] = set()
        self.depth = 0

    # -- text --------------------------------------------------------------------------------------

    def write(self, *lines: str) -> None:
        self.lines += ["    " * self.depth + line for line in lines]

    def _header(self) -> None:
        """What arguments say."""
        mask, at = (1 << _HALF) - 1, self.kernel.number_at
        for a in range(self.ndim):
            for k, (low, high) in enumerate(((f"lo{a}", f"hi{a}"), (f"clo{a}", f"chi{a}"))):
                word = f"ar[{_PER_AXIS * a + k}]"
                self.write(f"{low}, {high} = {word} & {mask}, {word} >> {_HALF}")
            self.write(f"nl{a} = ar[{_PER_AXIS * a + 2}]")
            self.write(f"n{a}, g{a} = ws_n[{2 * a}], ws_n[{2 * a + 1}]")
        self.write(f"flags, number = ar[{at}] & {mask}, ar[{at}] >> {_HALF}")
        first = self.kernel.scalars_at
        for k, (name, kind) in enumerate(
            zip(self.cell.scalars, self.kernel.scalars, strict=True), first
        ):
            self.write(f"scalar_{name} = {'fr' if kind == 'float' else 'ar'}[{k}]")

    def _named(self, array: str, lead: Offset, row: int | None) -> str:
        """What a row of an array is called."""
        inner = "_".join(str(n) if n >= 0 else f"m{-n}" for n in lead)
        return f"_{self.index[array]}_{inner}{'' if row is None else 's'}"

    def _port(self, port: Port) -> int:
        return self.kernel.ports.index(port)

    # -- rows --------------------------------------------------------------------------------------

    def _along(self, axis: int, index: str, step: int, tag: str) -> tuple[str, str]:
        """The index of a row that is so far from another one, and in which tile it is."""
        if step == 0:
            return index, "0"
        x, v = f"x{tag}", f"v{tag}"
        self.write(f"{x} = {index} + {step}", f"{v} = 0")
        if step < 0:
            inside, moved, edge = f"{x} < 0", f"{x} + nl{axis}", "0"
            flag, side = OUTSIDE_LOW << 2 * axis, -1
        else:
            inside, moved, edge = f"{x} >= n{axis}", f"{x} - n{axis}", f"n{axis} - 1"
            flag, side = OUTSIDE_HIGH << 2 * axis, 1
        self.write(f"if {inside}:")
        self.depth += 1
        if self.kernel.nearest:
            self.write(f"if flags & {flag}:", f"    {x} = {edge}", "else:")
            self.depth += 1
        self.write(f"{x} = {moved}", f"{v} = {side}")
        self.depth -= 2 if self.kernel.nearest else 1
        return x, v

    def _row(
        self, name: str, array: str, places: Sequence[tuple[str, str]], column: int, new: bool
    ) -> None:
        """A pointer to a row, which is in a column of tiles."""
        if new or not places or all(v == "0" for _, v in places):
            port = Port(array, (*(0,) * (self.ndim - 1), column), new)
            self.write(f"k = {self.ndim * self._port(port)}")
        else:
            table = self._table(array, column)
            terms = " + ".join(f"{3**a} * ({v} + 1)" for a, (_, v) in enumerate(places))
            self.write(f"k = {table}[{terms}]")
        steps = "".join(f" + {x} * ws[k + {a + 1}]" for a, (x, _) in enumerate(places))
        self.write(f"{name}_at = ws[k]{steps}", f"{name} = at_{self.index[array]}({name}_at)")

    def _table(self, array: str, column: int) -> str:
        """Of a column of tiles, where each neighbour stands in the workspace."""
        rows = self.ndim - 1
        found = []
        for number in range(3**rows):
            v = tuple(number // 3**a % 3 - 1 for a in range(rows))
            port = Port(array, (*v, column))
            is_there = port in self.kernel.ports
            found.append(self.ndim * self._port(port) if is_there else 0)
        name = f"table_{self.index[array]}_{'mcp'[column + 1]}"
        self.names[name] = tuple(found)
        return name

    def _rows_read(self) -> Iterator[tuple[str, Offset, set[int]]]:
        """Which rows are read of which array, and on which sides they go on in other tiles."""
        for p, offsets in self.kernel.reads.items():
            own = {self._here[:-1]} if self.kernel.is_double(p) else set()
            for lead in sorted({o[:-1] for o in offsets} | own):
                sides = {(o[-1] > 0) - (o[-1] < 0) for o in offsets if o[:-1] == lead}
                yield p, lead, sides

    def _pointers(self, indices: Sequence[str], row: int | None) -> None:
        """Pointers to all rows that a row reads and writes; of one of several, those of its own."""
        for p, lead, sides in self._rows_read():
            steps = self._steps(lead, row)
            name = self._named(p, steps, row)
            if name in self.made:
                continue
            self.made.add(name)
            places = [
                self._along(a, indices[a], step, f"{a}_{step if step >= 0 else f'm{-step}'}")
                for a, step in enumerate(steps)
            ]
            self._row(f"r{name}", p, places, 0, False)
            if row is not None:
                continue
            if -1 in sides:
                self._row(f"l{name}", p, places, -1, False)
            if 1 in sides:
                self._row(f"h{name}", p, places, 1, False)
        if row:
            return
        for p in self.cell.written:
            here = [(index, "0") for index in indices]
            self._row(f"out_{self.index[p]}", p, here, 0, self.kernel.is_double(p))

    def _steps(self, lead: Offset, row: int | None) -> Offset:
        """How far a row is from the first of several, whose tile the others are in, too."""
        if row is None or not lead:
            return lead
        return (*lead[:-1], 0 if 0 <= lead[-1] + row < self.rows else lead[-1] + row)

    def _element(self, pointer: str, column: str, row: int) -> str:
        """An element so many rows further: by its distance, as registers are few."""
        further = f"s{row} + " if row else ""
        return f"{pointer}[{further}{self.sign}({column})]"

    # -- cells -------------------------------------------------------------------------------------

    def _update(self, column: str, *, edge: bool, row: int | None = None) -> None:
        """The statements of a cell's update."""
        tag = _row_tag(row)
        kept = [p for p in self.cell.written if not self.kernel.inplace]
        for p in kept:
            # What every statement reads are the elements before all of them.
            self.write(
                f"old_{self.index[p]}{tag} = {self._load(p, self._here, column, False, row)}"
            )
            self.write(f"new_{self.index[p]}{tag} = old_{self.index[p]}{tag}")
        for statement in self.cell.body:
            made = _Placed(self, column, edge, row).visit(copy.deepcopy(statement))
            self.write(*ast.unparse(ast.fix_missing_locations(made)).splitlines())
        for p in kept:
            own = self._element(f"out_{self.index[p]}", column, row or 0)
            self.write(f"{own} = new_{self.index[p]}{tag}")
        if row is not None:
            for p in self.cell.written:
                if self._before in self.kernel.reads[p]:
                    own = self._element(f"out_{self.index[p]}", column, row)
                    self.write(f"w_{self.index[p]}{tag} = {own}")

    @property
    def _here(self) -> Offset:
        return (0,) * self.ndim

    @property
    def _before(self) -> Offset:
        return (*(0,) * (self.ndim - 1), -1)

    def _load(self, p: str, offset: Offset, column: str, edge: bool, row: int | None) -> str:
        """An element that a cell reads, as an expression; `offset` is as cells come."""
        if row is not None and offset == self._before and p in self.cell.written:
            return f"w_{self.index[p]}{_row_tag(row)}"
        lead, step, s = offset[:-1], offset[-1], self.sign
        name = self._named(p, self._steps(lead, row), row)
        if not any(offset) and p in self.cell.written and not self.kernel.is_double(p):
            own = self._element(f"out_{self.index[p]}", column, row or 0)
        else:
            further = lead[-1] + row if row is not None else 0
            own = self._element(
                f"r{name}", f"{column} + {step}", further if 0 <= further < self.rows else 0
            )
        if edge and step < 0:
            beyond = f"l{name}[{s}max({column} + {step} + nlast, 0)]"
            return f"({own} if {column} + {step} >= 0 else {beyond})"
        if edge and step > 0:
            beyond = f"h{name}[{s}min({column} + {step} - n, most)]"
            return f"({own} if {column} + {step} < n else {beyond})"
        return own

    # -- functions ---------------------------------------------------------------------------------

    def _span(self) -> None:
        """A function for cells of one row."""
        last = self.ndim - 1
        indices = [f"i{a}" for a in range(last)]
        along = [o[-1] for offsets in self.kernel.reads.values() for o in offsets]
        low, high = max(0, -min(along, default=0)), max(0, *along, 0)
        self.write(f"def span(ws, ws_n, ar, fr, {''.join(f'{i}, ' for i in indices)}j0, j1):")
        self.depth += 1
        self.write("if j1 <= j0:", "    return")
        self._header()
        self.write(f"n, nlast, most = n{last}, nl{last}, n{last}")
        self.made = set()
        self._pointers(indices, None)
        if self.kernel.nearest:
            # Beyond the edge is the cell at the edge.
            self.write(f"if flags & {OUTSIDE_LOW << 2 * last}:")
            sides = [(self._named(p, lead, None), side) for p, lead, side in self._rows_read()]
            self.write("    nlast = 0")
            self.write(*(f"    l{name} = r{name}" for name, side in sides if -1 in side))
            self.write(f"if flags & {OUTSIDE_HIGH << 2 * last}:", "    most = 0")
            for p, lead, side in self._rows_read():
                if 1 in side:
                    name, size = self._named(p, lead, None), self.kernel.dtypes[p].itemsize
                    there = f"r{name}_at + {self.sign}(n - 1) * {size}"
                    self.write(f"    h{name} = at_{self.index[p]}({there})")
        self.write(f"first = min(j1, max(j0, {low}))", f"end = max(first, min(j1, n - {high}))")
        if low or high:
            self.write("for part in range(3):")
            self.depth += 1
            self.write("if part == 1:", "    for j in range(first, end):")
            self.depth += 2
            self._update("j", edge=False)
            self.depth -= 2
            self.write(
                "else:",
                "    a = j0 if part == 0 else end",
                "    b = first if part == 0 else j1",
                "    for j in range(a, b):",
            )
            self.depth += 2
            self._update("j", edge=True)
            self.depth -= 3
        else:
            self.write("for j in range(j0, j1):")
            self.depth += 1
            self._update("j", edge=False)
            self.depth -= 1
        self.depth -= 1
        self.write("")

    def _lag(self) -> int:
        """By how many cells a row is behind the one before it: at least so that neither waits."""
        # Rows of a tile may be as far apart as pages are, and then the same place in each of them
        # has to go to the same few lines of the cache: so they are not at the same place.
        lag = _LINE // min(dtype.itemsize for dtype in self.kernel.dtypes.values())
        for p in self.cell.written:
            for o in self.kernel.reads[p]:
                rows, step = o[-2], o[-1]
                if any(o[:-2]) or not rows:
                    continue
                lag = max(lag, step // -rows + 1 if rows < 0 else -(step // rows))
        return lag

    def _several_rows(self) -> None:
        """Rows one behind the other, from row ``i`` on."""
        last, lag = self.ndim - 1, self._lag()
        indices = [*(f"i{a}" for a in range(last - 1)), "i"]
        self.write(f"def several(ws, ws_n, ar, fr, {', '.join(indices)}, j0, j1):")
        self.depth += 1
        self._header()
        along = [o[-1] for offsets in self.kernel.reads.values() for o in offsets]
        low, high = max(0, -min(along, default=0)), max(0, *along, 0)
        behind = lag * (self.rows - 1)
        self.write(
            f"first = max(j0, {max(low, 1)})",
            f"end = min(j1, n{last} - {high})",
        )
        rows = "".join(f"{i}, " for i in indices[:-1])
        call = f"span(ws, ws_n, ar, fr, {rows}i + q, "
        self.write(f"if end - first <= {2 * behind}:")
        self.write(f"    for q in range({self.rows}):", f"        {call}j0, j1)", "    return")
        self.write(
            f"for q in range({self.rows}):", f"    {call}j0, first + {lag} * ({self.rows - 1} - q))"
        )
        self.made = set()
        for q in range(self.rows):
            self._pointers(indices, q)
        itemsize = self.kernel.dtypes[self.cell.written[0]].itemsize
        for q in range(1, self.rows):
            self.write(f"s{q} = {q} * (ws[{last}] // {itemsize})")
        for q in range(self.rows):
            for p in self.cell.written:
                if self._before in self.kernel.reads[p]:
                    at = f"first + {lag * (self.rows - 1 - q) - 1}"
                    own = self._element(f"out_{self.index[p]}", at, q)
                    self.write(f"w_{self.index[p]}_{q} = {own}")
        self.write(f"for j in range(first, end - {behind}):")
        self.depth += 1
        for q in range(self.rows):
            self._update(f"j + {lag * (self.rows - 1 - q)}", edge=False, row=q)
        self.depth -= 1
        self.write(f"for q in range({self.rows}):", f"    {call}end - {lag} * q, j1)")
        self.depth -= 1
        self.write("")

    def _kernel(self) -> None:
        ndim, last = self.ndim, self.ndim - 1
        self.write("def kernel(starts, axes, arguments, workspace, room, stop):")
        self.depth += 1
        self.write(
            "st, ax, ar = at_int(starts), at_int(axes), at_int(arguments)",
            "fr, ws, sp = at_float(arguments), at_int(workspace), at_byte(stop)",
            # Of each axis of the tile that is updated, its extent, and the index of its first cell.
            f"ws_n = ({self._extents()})",
        )
        self._header()
        self.write(f"for k in range({len(self.kernel.ports)}):")
        self.depth += 1
        places = f"ar[{_PER_AXIS * ndim + 1} + k // {_PLACES}]"
        shift, mask = f"{_PLACE} * (k % {_PLACES})", (1 << _PLACE) - 1
        self.write(f"o = ({places} >> ({shift})) & {mask}", "base = st[o]")
        for a in range(ndim):
            at = f"o * {3 * ndim} + {3 * a}"
            if self.kernel.directions[a] < 0:
                # From the last element on, backwards.
                self.write(f"base += (ax[{at} + 1] - 1) * ax[{at} + 2]")
            if a < last:
                sign = "-" if self.kernel.directions[a] < 0 else ""
                self.write(f"ws[{ndim} * k + {a + 1}] = {sign}ax[{at} + 2]")
            if any(port.direction[a] < 0 for port in self.kernel.ports):
                # Of a tile before there may be its frontier only: indices count from the tile's.
                self.names[f"before_{a}"] = tuple(p.direction[a] < 0 for p in self.kernel.ports)
                sign = "+" if self.kernel.directions[a] < 0 else "-"
                self.write(f"if before_{a}[k] and nl{a} > ax[{at} + 1]:")
                self.write(f"    base {sign}= (nl{a} - ax[{at} + 1]) * ax[{at} + 2]")
        self.write(f"ws[{ndim} * k] = base")
        self.depth -= 1
        self._carry_over()
        for a in range(last - 1):
            self.write(f"for i{a} in range(clo{a}, chi{a}):")
            self.depth += 1
            self.write("if sp[0]:", "    return -1")
        rows = "".join(f"i{a}, " for a in range(last))
        columns = f"clo{last}, chi{last}"
        if last == 0:
            self.write(f"span(ws, ws_n, ar, fr, {columns})")
        elif self._by_several:
            lead = "".join(f"i{a}, " for a in range(last - 1))
            self.write(
                f"i = clo{last - 1}",
                f"while i + {self.rows} <= chi{last - 1}:",
                "    if sp[0]:",
                "        return -1",
                f"    several(ws, ws_n, ar, fr, {lead}i, {columns})",
                f"    i += {self.rows}",
                f"while i < chi{last - 1}:",
                f"    span(ws, ws_n, ar, fr, {lead}i, {columns})",
                "    i += 1",
            )
        else:
            self.write(
                f"for i{last - 1} in range(clo{last - 1}, chi{last - 1}):",
                "    if sp[0]:",
                "        return -1",
                f"    span(ws, ws_n, ar, fr, {rows}{columns})",
            )
        self.depth = 1
        self.write("return 0")
        self.depth = 0

    def _extents(self) -> str:
        found = ""
        for a, direction in enumerate(self.kernel.directions):
            # The first operand is what the first port is.
            at = str(3 * a)
            first = f"ax[{at}]" if direction > 0 else f"ax[{at}] + ax[{at} + 1] - 1"
            found += f"ax[{at} + 1], {first}, "
        return found

    def _carry_over(self) -> None:
        """Cells that are not computed, of arrays that are updated from one place to another."""
        doubles = [p for p in self.cell.written if self.kernel.is_double(p)]
        if not doubles:
            return
        last, depth = self.ndim - 1, self.depth
        for a in range(last):
            self.write(f"for i{a} in range(lo{a}, hi{a}):")
            self.depth += 1
        inside = " and ".join(f"clo{a} <= i{a} < chi{a}" for a in range(last)) or "True"
        self.write(f"a, b = hi{last}, hi{last}")
        self.write(f"if clo{last} < chi{last} and {inside}:", f"    a, b = clo{last}, chi{last}")
        here = [(f"i{a}", "0") for a in range(last)]
        for p in doubles:
            self._row("old", p, here, 0, False)
            self._row("new", p, here, 0, True)
            for ends in (f"lo{last}, a", f"b, hi{last}"):
                self.write(f"for j in range({ends}):", f"    new[{self.sign}j] = old[{self.sign}j]")
        self.depth = depth

    @property
    def _by_several(self) -> bool:
        return self.kernel.recurs and self.ndim > 1

    def compiled(self) -> Any:
        """The function that Numba makes of it."""
        numba = numba_module()
        types = {p: numba.from_dtype(dtype) for p, dtype in self.kernel.dtypes.items()}
        self.names = {
            **{f"given_{name}": value for name, value in self.cell.names.items()},
            "at_int": pointer_to(numba.int64),
            "at_float": pointer_to(numba.float64),
            "at_byte": pointer_to(numba.uint8),
        }
        for p, dtype in self.kernel.dtypes.items():
            is_bool = dtype.kind == "b"
            own = numba.uint8 if is_bool else types[p]
            i = self.index[p]
            self.names |= {f"at_{i}": pointer_to(own), f"as_{i}": own}
        self._span()
        if self._by_several:
            self._several_rows()
        self._kernel()
        source = "\n".join(self.lines)
        name = f"<sweep {self.cell.name}>"
        meaning = meaning_of(self.cell.names)
        kept = None
        if meaning is not None:
            dtypes = [(p, self.index[p], dtype.str) for p, dtype in self.kernel.dtypes.items()]
            kept = digest("sweep", (source, dtypes, meaning))
        try:
            exec(compile(source, name, "exec"), self.names)
            options = {"error_model": "numpy", "nogil": True}
            for inner in ("span", "several"):
                if inner in self.names:
                    function = self.names[inner]
                    if kept is not None:
                        named(function, kept)
                    self.names[inner] = numba.njit(**options)(function)
            return compiled_function(self.names["kernel"], kept)
        except numba.core.errors.NumbaError as error:
            kinds = ", ".join(f"{p}: {dtype}" for p, dtype in self.kernel.dtypes.items())
            raise InvalidTypeError(
                f"{self.cell.name}: Numba does not compile it for elements of these types "
                f"({kinds}): {numba_says(error)}"
            ) from None


def _row_tag(row: int | None) -> str:
    return "" if row is None else f"_{row}"


class _Placed(ast.NodeTransformer):
    """Puts elements in the place of offsets."""

    def __init__(self, source: _Source, column: str, edge: bool, row: int | None) -> None:
        self._source, self._column, self._edge, self._row = source, column, edge, row

    def visit_Name(self, node: ast.Name) -> ast.AST:
        cell = self._source.cell
        if node.id == ".number":
            return ast.Name("number", ast.Load())
        if node.id.startswith(".index"):
            return _expression(self._index(int(node.id[-1])), ast.Load())
        if node.id in cell.scalars:
            return ast.Name(f"scalar_{node.id}", node.ctx)
        if node.id in cell.names:
            return ast.Name(f"given_{node.id}", node.ctx)
        # Of rows that are computed at a time, each has its own.
        return ast.Name(f"{node.id}__{_row_tag(self._row)}", node.ctx)

    def _index(self, axis: int) -> str:
        """The index of the cell along an axis."""
        source, last = self._source, self._source.ndim - 1
        own = self._column
        if axis < last:
            own = f"i{axis}"
            if self._row is not None and axis == last - 1:
                own = f"i + {self._row}"
        return f"(g{axis} {'+' if source.kernel.directions[axis] > 0 else '-'} ({own}))"

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        node.value = self.visit(node.value)
        target = node.targets[0]
        if not isinstance(target, ast.Subscript):
            node.targets = [self.visit(target)]
            return node
        assert isinstance(target.value, ast.Name)
        p, kernel = target.value.id, self._source.kernel
        tag = _row_tag(self._row)
        value: ast.expr = node.value
        if kernel.dtypes[p].kind == "b":
            value = ast.Call(ast.Name("bool", ast.Load()), [value], [])
        # What is assigned is rounded as an element is.
        node.value = ast.Call(ast.Name(f"as_{self._source.index[p]}", ast.Load()), [value], [])
        own = self._source.index[p]
        text = f"new_{own}{tag}"
        if kernel.inplace:
            text = self._source._element(f"out_{own}", self._column, self._row or 0)
        node.targets = [_expression(text, ast.Store())]
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        assert isinstance(node.value, ast.Name) and isinstance(node.slice, ast.Constant)
        source, p = self._source, node.value.id
        given: Offset = node.slice.value  # type: ignore[assignment]
        offset = tuple(n * d for n, d in zip(given, source.kernel.directions, strict=True))
        if not source.kernel.inplace and p in source.cell.written and not any(offset):
            text = f"old_{self._source.index[p]}{_row_tag(self._row)}"
        else:
            text = source._load(p, offset, self._column, self._edge, self._row)
        if source.kernel.dtypes[p].kind == "b":
            text = f"({text} != 0)"
        return _expression(text, ast.Load())


def _expression(text: str, context: ast.expr_context) -> ast.expr:
    found = ast.parse(text, mode="eval").body
    found.ctx = context  # type: ignore[attr-defined]
    return found


def axis_words(low: int, high: int, first: int, end: int, before: int) -> tuple[int, int, int]:
    """The arguments for an axis."""
    return low | high << _HALF, first | end << _HALF, before


def other_words(flags: int, number: int, places: Sequence[int]) -> list[int]:
    """Those that follow: which cells lie outside, which sweep it is, and where ports are."""
    found = [flags | number << _HALF]
    for k in range(0, len(places), _PLACES):
        word = 0
        for i, place in enumerate(places[k : k + _PLACES]):
            word |= place << _PLACE * i
        found.append(word)
    return found
