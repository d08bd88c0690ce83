"""Programs of loop nests: a step for each tile, and which of many programs is the best."""

import itertools
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from outcrop import _native
from outcrop.arrays.array import Array
from outcrop.arrays.operands import shown
from outcrop.arrays.source import MemorySource, default_tile, filler, storable
from outcrop.arrays.views import View
from outcrop.compiled.bands import Bands, band_of, spreading
from outcrop.errors import BudgetError, UnsupportedError, forget_frames
from outcrop.loops.kernel import Code, code_of, compiled
from outcrop.loops.nest import Nest
from outcrop.loops.polyhedra import Dependence, Polyhedra, TooHardError, Unit, limited
from outcrop.loops.products import BLOCK, Arrangement, arranged, mixed_tiles, product_of
from outcrop.loops.tiles import (
    FULL,
    WRITE,
    Cut,
    Footprints,
    Step,
    indices_used,
    inner_order,
    natural_sizes,
)
from outcrop.process.config import memory_budget

__all__ = ["Chosen", "Job", "chosen", "small_tile"]

_MOST_TRIED, _MOST_STEPS = 40, 20_000
"""Programs, and their steps, that are tried once there is one."""

_MOST_TILES, _FEW_TILES, _FAR_MORE = 400_000, 4_000, 4
"""Steps of a program, at most; and beside another one: so many, and that for each of its own."""

_MOST_FAILED, _MANY_STEPS = 24, 20_000
"""Programs that memory does not hold, and steps of one, after which smaller tiles do not help."""

_MOST_ARGUMENTS = 20_000_000
"""Of all steps of a program."""

_RATE = 0.8e9
"""Operations in a second, about."""

_PARTS = 64
"""Of arrays without tiles, how many tiles the budget holds."""

_ABOUT = 1.02

_WHOLE = 1 << 40
"""Instead of `BLOCK`, longer than anything."""

_MOST_BLOCKS, _FOR_TILES = 4, 0.88
"""Blocks of results of products that are tried, and what part of the budget is for tiles."""


@dataclass(frozen=True)
class Job:
    """A nest with the arrays that it is called with.

    Attributes
    ----------
    nest : Nest
        What it does.
    arrays : mapping
        The arrays, by their parameters.
    targets : mapping
        Of those that are written, the store that they are written to, with where in it; or what
        will be made, as a `Draft` takes it.
    made_anew : frozenset of str
        Of those that are written, the ones that are written to a new place: all of their tiles.
    tiles : mapping
        Into which tiles each array is cut, those of kept names among them.
    scalars : mapping
        The numbers.
    relaxed : bool
        Whether sums and products may be in any order.
    """

    nest: Nest
    arrays: Mapping[str, Array]
    targets: Mapping[str, Any]
    made_anew: frozenset[str]
    tiles: Mapping[str, tuple[int, ...]]
    scalars: Mapping[str, float]
    relaxed: bool

    @property
    def kinds(self) -> tuple[str, ...]:
        """Of the numbers that kernels take, what they are."""
        found = (self.scalars[p] for p in self.nest.scalars)
        return tuple("float" if isinstance(s, float) else "int" for s in found)


def small_tile(shape: tuple[int, ...], dtype: np.dtype[Any], count: int) -> tuple[int, ...]:
    """A tile of an array without any, of which the budget holds some."""
    tile = list(default_tile(shape, dtype))
    most = max(memory_budget() // (_PARTS * max(count, 1)), 4096)
    while math.prod(tile) * dtype.itemsize > most and max(tile) > 1:
        longest = tile.index(max(tile))
        tile[longest] = -(-tile[longest] // 2)
    return tuple(tile)


# -- programs --------------------------------------------------------------------------------------


class Program:
    """The program of steps."""

    def __init__(
        self,
        job: Job,
        steps: Sequence[Step],
        codes: Sequence[Code],
        points: Sequence[Mapping[str, float]],
        functions: Sequence[Any] | None = None,
    ) -> None:
        self.job = job
        products = [product for code in codes for product in code.products.values()]
        costs = {product: _native.product_cost(*product) for product in products}
        self._rates = {product: rate for product, (rate, _, _) in costs.items()}
        workspace = max((own for _, own, _ in costs.values()), default=0)
        beside = max((own for _, _, own in costs.values()), default=0)
        self.draft = _native.Draft(max(workspace, 64), beside, False)
        self.outputs: dict[str, int] = {}
        self._first: dict[str, int] = {}
        self._inputs: dict[tuple[int, View], tuple[int, int]] = {}
        self._bands: list[Bands] = []
        self._runs = functions is not None
        touched = {p for code in codes for p in code.arrays}
        for p in job.nest.arrays:
            if p in touched:
                self._first[p] = self._declared(p)
        self._add(steps, codes, points, functions)

    def _declared(self, p: str) -> int:
        job = self.job
        shape, dtype = job.nest.arrays[p]
        tile = job.tiles[p]
        if p in job.nest.kept:
            return self.draft.temporary(p, storable(dtype), shape, tile)[1]
        number, first, band = self._input(p)
        target, form = job.targets.get(p), (storable(dtype), shape, tile)
        if target is not None:
            initial = number if band is None else None
            self.outputs[p], made = self.draft.output(p, target, *form, initial)
        elif band is not None:
            made = self.draft.temporary(f"{p} in tiles", *form)[1]
        else:
            return first
        if band is not None:
            runs = self._runs
            self._bands.append(Bands(self.draft, first, made, shape, tile, band, runs=runs))
        return made

    def _input(self, p: str) -> tuple[int, int, tuple[int, ...] | None]:
        """A stored array, or one that is given tile by tile; and the bands that it is read by."""
        array = self.job.arrays[p]
        source, view, tile = array._source, array._view, self.job.tiles[p]
        key = id(source), view
        if key in self._inputs:
            return *self._inputs[key], None
        no_overlap = (0,) * len(tile)
        if (own := shown(array)) is not None:
            store, start, shape = own
            band = band_of(store, shape, tile, array.dtype.itemsize)
            if band is not None:
                return *self.draft.input(p, store, start, shape, band, no_overlap), band
        else:
            reads = not isinstance(source, MemorySource)
            fill = filler(source, view)
            store = _native.function_store(array.shape, storable(array.dtype), tile, fill, reads)
            start, shape = no_overlap, array.shape
        found = self.draft.input(p, store, start, shape, tile, no_overlap)
        self._inputs[key] = found
        return *found, None

    def _add(
        self,
        steps: Sequence[Step],
        codes: Sequence[Code],
        points: Sequence[Mapping[str, float]],
        functions: Sequence[Any] | None,
    ) -> None:
        job = self.job
        volumes = [0] * len(codes)
        boxes: list[list[tuple[tuple[int, ...], tuple[int, ...]]]] = []
        for step in steps:
            own = []
            for p in codes[step.unit].arrays:
                tiles = list(step.touched.get(p, ())) or [(0,) * len(job.tiles[p])]
                low = tuple(map(min, zip(*tiles, strict=True)))
                high = tuple(map(max, zip(*tiles, strict=True)))
                own.append((low, tuple(b - a + 1 for a, b in zip(low, high, strict=True))))
            boxes.append(own)
            volume = sum(math.prod(count) for _, count in own)
            volumes[step.unit] = max(volumes[step.unit], volume)
        lengths = [code.n_fixed + v for code, v in zip(codes, volumes, strict=True)]
        if sum(lengths[step.unit] for step in steps) > _MOST_ARGUMENTS:
            raise TooHardError
        numbers, operations = [], []
        for k, code in enumerate(codes):
            # What is only planned is never called.
            function = None if functions is None else functions[k]
            address = 1 if function is None else function.address
            total, seconds = self._work(code, points[k])
            rate = total / seconds if total else _RATE
            numbers.append(self.draft.native(code.name, rate, address, lengths[k], function))
            operations.append(total)
        multiply = _native.product_function("float64")
        assert multiply is not None
        words = [*(_word(job.scalars[p]) for p in job.nest.scalars), multiply[0]]
        counts_of = {
            p: tuple(-(-n // t) for n, t in zip(job.nest.arrays[p][0], job.tiles[p], strict=True))
            for p in self._first
        }
        per_unit = [0] * len(codes)
        for step in steps:
            per_unit[step.unit] += 1
        written: set[int] = set()
        kernels, counts, work = [], [], []
        operands: list[int] = []
        arguments: list[int] = []

        def spread(bands: Bands, tile: int) -> None:
            if made := bands.making(tile):
                kernels.append(bands.kernel)
                counts.append(len(made))
                work.append(float(bands.elements))
                operands.extend(made)
                arguments.append(len(made) - 1)
                written.update(one >> 2 for one in made[1:])

        for step, own in zip(steps, boxes, strict=True):
            code = codes[step.unit]
            block = BLOCK if step.is_mixed else _WHOLE
            row: list[int] = [*step.first, *step.end, *words, block]
            places: dict[int, int] = {}
            codes_of: list[int] = []
            tables: list[int] = []
            for p, (low, count) in zip(code.arrays, own, strict=True):
                for a, n in zip(low, count, strict=True):
                    row += (a, n)
                row.append(code.n_fixed + len(tables))
                table = [0] * math.prod(count)
                is_kept = p in job.nest.kept
                is_written = is_kept or p in job.targets
                for tile, what in step.touched.get(p, {}).items():
                    number = self._first[p] + _row_major(tile, counts_of[p])
                    place = places.get(number)
                    if place is None:
                        place = places[number] = len(codes_of)
                        access = 0
                        if is_kept and number not in written:
                            # What is not written before is not used.
                            access = 1
                        elif is_written and what & WRITE:
                            access = 1 if what & FULL else 2
                        if access:
                            written.add(number)
                        codes_of.append(number << 2 | access)
                    inside = tuple(t - a for t, a in zip(tile, low, strict=True))
                    table[_row_major(inside, count)] = place
                tables += table
            row += tables
            row += [0] * (lengths[step.unit] - len(row))
            for bands in self._bands:
                for one in codes_of:
                    if one & 3 == 1:
                        bands.is_made(one >> 2)
                for one in codes_of:
                    spread(bands, one >> 2)
            arguments += row
            kernels.append(numbers[step.unit])
            counts.append(len(codes_of))
            work.append(operations[step.unit] / per_unit[step.unit])
            operands += codes_of
        for p in job.made_anew:
            # What nothing is done with is as it was.
            kernel = spreading(self.draft, len(job.tiles[p]), runs=self._runs)
            for left in range(self._first[p], self._first[p] + math.prod(counts_of[p])):
                for bands in self._bands:
                    spread(bands, left)
                if left not in written:
                    kernels.append(kernel)
                    counts.append(1)
                    work.append(0.0)
                    operands.append(left << 2 | 2)
                    arguments.append(0)
        if max(counts, default=0) >= 1 << 16:
            raise TooHardError
        self.draft.steps(
            np.array(kernels, np.uint16),
            np.array(counts, np.uint16),
            np.array(work, np.float64),
            np.array(operands, np.uint32),
            np.array(arguments, np.int64).view(np.uint64),
            np.zeros(0, np.uint16),
            False,
        )

    def _work(self, code: Code, points: Mapping[str, float]) -> tuple[float, float]:
        """Operations of all steps of a unit, and how long one thread takes for them, about."""
        count = seconds = 0.0
        for s, own in points.items():
            operations = own * code.work[s]
            product = code.products.get(s)
            count += operations
            seconds += operations / (_RATE if product is None else self._rates[product])
        return count, seconds


def _row_major(index: Sequence[int], counts: Sequence[int]) -> int:
    found = 0
    for i, n in zip(index, counts, strict=True):
        found = found * n + i
    return found


def _word(scalar: float) -> int:
    """The bits of a number."""
    form = "<d" if isinstance(scalar, float) else "<q"
    return int(struct.unpack("<q", struct.pack(form, scalar))[0])


# -- choosing --------------------------------------------------------------------------------------


@dataclass
class Chosen:
    """The best program that was found.

    Attributes
    ----------
    job : Job
        What it does.
    units : list of Unit
        What is cut. Their isl objects are gone.
    cuts : list of Cut
        How.
    steps : list of Step
        The steps, in order.
    codes : list of Code
        What they do.
    points : list of dict
        How many points each unit has of its statements, about.
    schedule : str
        The order, as isl writes it.
    reasons : list of str
        What forbade a better one.
    dependences : list of Dependence
        What depends on what.
    others : list
        What else was tried: what it is called, bytes moved, and seconds.
    """

    job: Job
    units: list[tuple[tuple[str, ...], int, int]]
    cuts: list[Cut]
    steps: list[Step]
    codes: list[Code]
    points: list[dict[str, float]]
    schedule: str
    reasons: list[str]
    dependences: list[Dependence]
    others: list[tuple[str, int, float]]

    def program(self, *, runs: bool) -> Program:
        """As a program, with compiled kernels if it runs."""
        functions = None
        if runs:
            # The frame of a function inside would have this from outside, whatever becomes of it.
            functions = list(map(compiled, self.codes, itertools.repeat(self.job.nest)))
        return Program(self.job, self.steps, self.codes, self.points, functions)

    @property
    def remark(self) -> str:
        """What there is to say in a line."""
        return _told(self.units, self.cuts)


def _told(units: Sequence[tuple[tuple[str, ...], int, int]], cuts: Sequence[Cut]) -> str:
    found = []
    for (names, n_outer, _), cut in zip(units, cuts, strict=True):
        text = f"{' '.join(names)} in tiles of {' x '.join(map(str, cut.sizes)) or 'all'}"
        if max(cut.groups, default=1) > 1:
            text += f", {' x '.join(map(str, cut.groups))} of them together"
        if cut.order != tuple(range(len(cut.order))):
            text += f", by dimensions {', '.join(map(str, cut.order))}"
        if n_outer:
            text += f", for {n_outer} outer dimensions one by one"
        found.append(text)
    return "; ".join(found)


@dataclass
class _Tried:
    """One program that was planned."""

    plan: Any
    units: list[Unit]
    cuts: list[Cut]
    steps: list[Step]
    schedule: str
    is_original: bool

    def told(self) -> tuple[str, int, float]:
        facts = self.plan.facts
        named = [(u.statements, u.n_outer, u.n_band) for u in self.units]
        moved = facts["bytes_read"] + facts["bytes_written"]
        return _told(named, self.cuts), moved, facts["seconds"]


class _Search:
    """Looks for the best program."""

    def __init__(self, polyhedra: Polyhedra, job: Job) -> None:
        self.polyhedra, self.job = polyhedra, job
        self.footprints = Footprints(polyhedra, job.tiles)
        self.best: _Tried | None = None
        self.error: BudgetError | None = None
        self.others: list[tuple[str, int, float]] = []
        self.reasons: list[str] = []
        self.count, self.steps, self.failed = 0, 0, 0
        self._relation: Any = None
        self._codes: dict[int, Code] = {}
        self._arrangements: dict[int, Arrangement | None] = {}
        self._mixed: dict[tuple[int, tuple[int, ...]], set[tuple[int, ...]]] = {}
        self._has_to_move_less = False
        self._made_by: dict[tuple[int, ...], dict[str, float]] = {}
        self._points = {s.name: _points(polyhedra, s.name) for s in polyhedra.nest.statements}

    @property
    def _most(self) -> int:
        """Steps of programs that are looked at."""
        if self.best is None:
            return _MOST_TILES
        return _FEW_TILES + _FAR_MORE * len(self.best.steps)

    def code(self, unit: Unit) -> Code:
        if id(unit) not in self._codes:
            how = self.arrangement(unit)
            job = self.job
            self._codes[id(unit)] = code_of(self.polyhedra, unit, job.tiles, job.kinds, how)
        return self._codes[id(unit)]

    def arrangement(self, unit: Unit) -> Arrangement | None:
        """How products of a unit are multiplied at once, where sums may be in any order."""
        if not self.job.relaxed or self._relation is None:
            return None
        if id(unit) not in self._arrangements:
            self._arrangements[id(unit)] = arranged(self.polyhedra, unit, self._relation)
        return self._arrangements[id(unit)]

    def _mixed_tiles(self, unit: Unit, cut: Cut) -> set[tuple[int, ...]]:
        how = self.arrangement(unit)
        if how is None:
            return set()
        key = (id(unit), cut.sizes)
        if key not in self._mixed:
            found = mixed_tiles(self.polyhedra, unit, self._relation, how, cut.sizes)
            self._mixed[key] = found
        return self._mixed[key]

    def points(self, unit: Unit) -> dict[str, float]:
        return {s: self._points[s] for s in unit.statements}

    def tried(
        self, units: list[Unit], cuts: list[Cut], schedule: str, *, is_original: bool = False
    ) -> bool | None:
        """Plan a program; whether it is the best one so far, and None where it does not fit."""
        for unit in units:
            # It has a limit of its own.
            self.arrangement(unit)
        try:
            with limited(self.polyhedra.context):
                steps = []
                for number, (unit, cut) in enumerate(zip(units, cuts, strict=True)):
                    mixed = self._mixed_tiles(unit, cut)
                    own = self.footprints.steps(number, unit, cut, self._most, mixed)
                    if own is None:
                        return None
                    steps += own
                codes = [self.code(unit) for unit in units]
            steps.sort(key=lambda step: step.stamp)
            points = [self.points(unit) for unit in units]
            plan = _native.plan_program(Program(self.job, steps, codes, points).draft)
        except TooHardError:
            return None
        except BudgetError as caught:
            forget_frames(caught)
            self.failed += 1 if len(steps) < _MANY_STEPS else _MOST_FAILED
            if self.error is None or _needed(caught) < _needed(self.error):
                self.error = caught
            return None
        self.count += 1
        self.steps += len(steps)
        found = _Tried(plan, units, cuts, steps, schedule, is_original)
        if self.best is None:
            self.best = found
            return True
        if plan.is_better_than(self.best.plan) and (
            not self._has_to_move_less or _less(found, self.best)
        ):
            self.others.append(self.best.told())
            self.best = found
            return True
        self.others.append(found.told())
        return False

    def run(self) -> None:
        polyhedra = self.polyhedra
        try:
            relation = self._relation = polyhedra.relation(relaxed=self.job.relaxed)
        except TooHardError:
            self.reasons.append("the dependences take isl too long: the order is as written")
            self._original()
            return
        count = 0
        seen: set[tuple[Any, ...]] = set()
        for schedule in polyhedra.schedules(relation):
            count += 1
            text = str(schedule)
            for cuts in range(polyhedra.depth + 1):
                units = polyhedra.units(schedule, cuts)
                key = (text, tuple((u.statements, u.n_outer, u.n_band) for u in units))
                if key in seen:
                    break
                seen.add(key)
                self._tilings(units, text)
        try:
            with limited(polyhedra.context):
                independent = polyhedra.independent_units(relation)
        except TooHardError:
            independent = []
        # What that is for; where others move no more, they leave more to run ahead.
        self._has_to_move_less = True
        for unit in independent:
            count += 1
            self._tilings([unit], "along a loop of independent iterations")
        if not count:
            self.reasons.append("isl finds no other order, or not soon: the order is as written")
        if self.best is None:
            self._original()
        elif not self._is_legal(relation):
            self.best = None
            self.reasons.append("that the order is right takes too long to show: it is as written")
            self._original()

    def _is_legal(self, relation: Any) -> bool:
        assert self.best is not None
        try:
            with limited(self.polyhedra.context):
                return self.polyhedra.is_legal(relation, self.order(self.best))
        except TooHardError:
            return False

    def order(self, tried: _Tried) -> Any:
        """When each point is done, as a map."""
        polyhedra = self.polyhedra
        lengths = [len(u.stamp) + 3 * u.n_band + _dims(polyhedra, u.inner) for u in tried.units]
        parts = []
        for unit, cut in zip(tried.units, tried.cuts, strict=True):
            outer = [f"o{k}" for k in range(unit.n_outer)]
            values = iter(outer)
            stamp = [next(values) if s is None else str(s) for s in unit.stamp]
            band = [f"b{k}" for k in range(unit.n_band)]
            tile = [f"floor({band[d]}/{cut.sizes[d] * cut.groups[d]})" for d in cut.order]
            tile += [f"floor({band[d]}/{cut.sizes[d]})" for d in cut.order]
            point = [band[d] for d in inner_order(polyhedra, unit)]
            inner = [f"i{k}" for k in range(_dims(polyhedra, unit.inner))]
            found = [*stamp, *tile, *point, *inner]
            found += ["0"] * (max(lengths) - len(found))
            whole = unit.outer.flat_range_product(unit.band).flat_range_product(unit.inner)
            text = f"{{ [{', '.join([*outer, *band, *inner])}] -> [{', '.join(found)}] }}"
            parts.append(whole.apply_range(polyhedra.map(text).to_union_map()))
        return polyhedra.union_map(parts)

    # -- tilings -----------------------------------------------------------------------------------

    def _tilings(self, units: list[Unit], schedule: str) -> None:
        """Tilings of units, from tiles as they are stored on to better ones."""
        polyhedra = self.polyhedra
        try:
            with limited(polyhedra.context):
                natural = [natural_sizes(polyhedra, u, self.job.tiles) for u in units]
        except TooHardError:
            return
        cuts = [Cut.plain([extent or whole for extent, whole in own]) for own in natural]
        found = self.tried(units, cuts, schedule)
        while found is None:
            smaller = self._smaller(cuts, natural)
            if smaller is None or self.failed >= _MOST_FAILED:
                return
            cuts = smaller
            found = self.tried(units, cuts, schedule)
        for other in self._blocks(units, cuts):
            if self.tried(units, other, schedule):
                cuts, found = other, True
        if not found:
            return
        improved = True
        while improved:
            improved = False
            for other in self._beside(cuts, natural):
                if self._is_enough():
                    return
                if self.tried(units, other, schedule):
                    cuts, improved = other, True
                    break

    def _blocks(self, units: list[Unit], cuts: list[Cut]) -> Iterator[list[Cut]]:
        """Tilings by which blocks of the results of products stay in memory while these are made.

        Slices of the factors stream past them. Those come first that promise the least reading.
        """
        for k, (unit, cut) in enumerate(zip(units, cuts, strict=True)):
            how = self.arrangement(unit)
            if how is None or self.code(unit).products.keys() != how.products.keys():
                continue
            uses = indices_used(self.polyhedra, unit)
            name = max(how.products, key=lambda s: self._points[s])
            product = how.products[name]
            dims = [self._dimension(uses[name], f"v{v}") for v in product.loops]
            if None in dims or len(set(dims)) != 3:
                continue
            i, j, d = (one or 0 for one in dims)
            sizes = [cut.sizes[i], cut.sizes[j], cut.sizes[d]]
            size = product.dtype.itemsize
            fc, fa, fb = (
                sizes[0] * sizes[1] * size,
                sizes[0] * sizes[2] * size,
                sizes[2] * sizes[1] * size,
            )
            ends = [self._length(unit, x) for x in (i, j)]
            rows, cols = (-(-n // z) for n, z in zip(ends, sizes, strict=False))
            room = int(memory_budget() * _FOR_TILES)
            found = []
            for p in range(1, rows + 1):
                fitting = (room - p * fa - 2 * fb) // (p * fc)
                if fitting < 1:
                    break
                q = -(-cols // -(-cols // min(fitting, cols)))
                found.append((fa * rows * -(-cols // q) + fb * cols * -(-rows // p), p, q))
            order = (*(x for x in cut.order if x not in (i, j, d)), i, j, d)
            for _, p, q in sorted(found)[:_MOST_BLOCKS]:
                groups = [1] * len(cut.sizes)
                groups[i], groups[j] = p, q
                made = replace(cut, order=order, groups=tuple(groups))
                yield [made if x == k else other for x, other in enumerate(cuts)]

    @staticmethod
    def _dimension(uses: Sequence[set[str]], name: str) -> int | None:
        """The dimension of a band that is the index of a loop."""
        own = [d for d, names in enumerate(uses) if names == {name}]
        return own[0] if len(own) == 1 else None

    def _length(self, unit: Unit, d: int) -> int:
        sets: list[Any] = []
        unit.band.range().foreach_set(sets.append)
        low = min(int(s.dim_min(d).min_val().to_python()) for s in sets)
        return max(int(s.dim_max(d).max_val().to_python()) for s in sets) - low + 1

    def _is_enough(self) -> bool:
        """Whether there is no use in trying others: they take long, or cannot be much better."""
        many = self.count >= _MOST_TRIED or self.steps >= _MOST_STEPS
        return many or self._moves_the_least()

    def _moves_the_least(self) -> bool:
        """Whether every array is moved once, about: others may not be much better."""
        assert self.best is not None
        facts = self.best.plan.facts
        least = 0.0
        for array in facts["arrays"]:
            if array["role"] == "temporary":
                continue
            size = math.prod(array["shape"]) * np.dtype(array["dtype"]).itemsize
            if array["role"] == "input":
                size *= 1 - self._made(self.best.units).get(array["name"], 0.0)
            least += size
        return bool(facts["bytes_read"] + facts["bytes_written"] <= _ABOUT * least)

    def _made(self, units: list[Unit]) -> dict[str, float]:
        """Of arrays, the part of their tiles that is made as a whole, and need not be read."""
        key = tuple(id(unit) for unit in units)
        if key not in self._made_by:
            full: dict[str, set[tuple[int, ...]]] = {}
            for number, unit in enumerate(units):
                # What many tiles make together is not looked at.
                sizes = [_WHOLE] * unit.n_band
                try:
                    with limited(self.polyhedra.context):
                        steps = self.footprints.steps(number, unit, Cut.plain(sizes), 1)
                except TooHardError:
                    steps = None
                for step in steps or ():
                    for p, touched in step.touched.items():
                        own = full.setdefault(p, set())
                        own.update(tile for tile, what in touched.items() if what & FULL)
            self._made_by[key] = {p: len(own) / self._tiles_of(p) for p, own in full.items()}
        return self._made_by[key]

    def _tiles_of(self, p: str) -> int:
        shape, _ = self.job.nest.arrays[p]
        return math.prod(-(-n // t) for n, t in zip(shape, self.job.tiles[p], strict=True))

    @staticmethod
    def _smaller(cuts: list[Cut], natural: list[list[tuple[int, int]]]) -> list[Cut] | None:
        """Tiles half as long, along dimensions without stored tiles, else along the longest."""
        found, changed = [], False
        for cut, own in zip(cuts, natural, strict=True):
            free = [d for d, (extent, _) in enumerate(own) if not extent and cut.sizes[d] > 1]
            rest = [d for d in range(len(own)) if cut.sizes[d] > 1]
            sizes = list(cut.sizes)
            for d in free or sorted(rest, key=lambda d: -sizes[d])[:1]:
                sizes[d] = -(-sizes[d] // 2)
                changed = True
            found.append(replace(cut, sizes=tuple(sizes)))
        return found if changed else None

    @staticmethod
    def _beside(cuts: list[Cut], natural: list[list[tuple[int, int]]]) -> Iterator[list[Cut]]:
        """Tilings that differ in one way."""
        for k, (cut, own) in enumerate(zip(cuts, natural, strict=True)):
            dims = range(len(own))
            made: list[Cut] = []
            if 1 < len(own) <= 3:
                orders = itertools.permutations(dims)
                made += [replace(cut, order=o) for o in orders if o != cut.order]
            for d in dims:
                for size in (cut.sizes[d] * 2, cut.sizes[d] // 2):
                    extent, whole = own[d]
                    if size < 1 or size >= 2 * whole or (extent and size < extent):
                        continue
                    sizes = tuple(size if e == d else z for e, z in enumerate(cut.sizes))
                    made.append(replace(cut, sizes=sizes))
            for one in made:
                yield [one if j == k else other for j, other in enumerate(cuts)]

    def _original(self) -> None:
        """The order as written, cut along one loop."""
        polyhedra = self.polyhedra
        for depth in range(max(polyhedra.depth, 1)):
            unit = polyhedra.original_unit(depth)
            if not unit.n_band:
                self.tried([unit], [Cut.plain(())], "as written", is_original=True)
                continue
            sets: list[Any] = []
            unit.band.range().foreach_set(sets.append)
            low = min(int(s.dim_min(0).min_val().to_python()) for s in sets)
            high = max(int(s.dim_max(0).max_val().to_python()) for s in sets)
            size = high - low + 1
            while True:
                if self.tried([unit], [Cut.plain((size,))], "as written", is_original=True):
                    return
                if size == 1 or self.failed >= 2 * _MOST_FAILED:
                    break
                size = -(-size // 2)


def _less(one: _Tried, other: _Tried) -> bool:
    """Whether one program moves less than another one."""
    return one.told()[1] < other.told()[1]


def _dims(polyhedra: Polyhedra, relation: Any) -> int:
    maps: list[Any] = []
    relation.foreach_map(maps.append)
    return int(max((m.dim(polyhedra.isl.dim_type.out) for m in maps), default=0))


def _needed(error: BudgetError) -> float:
    return math.inf if error.needed is None else error.needed


def _points(polyhedra: Polyhedra, name: str) -> float:
    """How many points a statement has, about: those of its hull, as far as these are known."""
    domain = polyhedra.domains[name]
    found = 1.0
    for d in range(domain.dim(polyhedra.isl.dim_type.set)):
        low = int(domain.dim_min(d).min_val().to_python())
        high = int(domain.dim_max(d).max_val().to_python())
        found *= high - low + 1
    return found


def chosen(polyhedra: Polyhedra, job: Job) -> Chosen:
    """The best program for a nest.

    Raises
    ------
    BudgetError
        There is none with so little memory; says which would do.
    UnsupportedError
        It takes too long to say which tiles are needed.
    """
    search = _Search(polyhedra, job)
    search.run()
    best = search.best
    if best is None:
        if search.error is None:
            raise UnsupportedError(
                f"{job.nest.text.function.__name__}: it takes too long to say what the parts of "
                "this nest need"
            )
        raise search.error
    try:
        dependences = polyhedra.dependences()
    except TooHardError:
        dependences = []
    reasons = search.reasons
    if not best.is_original:
        reasons = [*reasons, *_reasons(best.units, dependences)]
    done = {s for u in best.units for s in search.code(u).products}
    reasons = [*reasons, *_point_by_point(job, done)]
    return Chosen(
        job,
        [(u.statements, u.n_outer, u.n_band) for u in best.units],
        best.cuts,
        best.steps,
        [search.code(u) for u in best.units],
        [search.points(u) for u in best.units],
        best.schedule,
        reasons,
        dependences,
        search.others,
    )


def _point_by_point(job: Job, done: set[str]) -> list[str]:
    """Why linear algebra's kernel does not do products of matrices."""
    found = []
    for s in job.nest.statements:
        if s.name in done or product_of(job.nest, s) is None:
            continue
        if job.relaxed:
            because = "no part of a tile is a box of its points that other statements leave alone"
        else:
            because = (
                "its sums are in the order as written; with order='relaxed', the kernel of linear "
                "algebra would do it"
            )
        found.append(f"{s.name} is a product of matrices, done point by point: {because}")
    return found


def _reasons(units: Sequence[Unit], dependences: Sequence[Dependence]) -> list[str]:
    """Why not all loops are tiled."""
    found = []
    for unit in units:
        if not unit.n_outer:
            continue
        own = [
            str(d)
            for d in dependences
            if d.source in unit.statements and d.distance[:1] != (0,) and d.distance
        ]
        because = f": {'; '.join(own[:4])}" if own else ""
        found.append(
            f"{' '.join(unit.statements)}: the outer {unit.n_outer} dimensions are not tiled "
            f"together with those inside{because}"
        )
    return found
