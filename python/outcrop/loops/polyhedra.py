"""Loop nests as isl sees them: what depends on what, and in which order else it may be done.

A context of isl's is for one thread at a time: whoever works with one holds `LOCK`. What lasts is
plain Python.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from types import ModuleType
from typing import Any

from outcrop.errors import InvalidArgumentError, UnsupportedError
from outcrop.loops.affine import Affine, index_name
from outcrop.loops.nest import Access, Nest, Statement

__all__ = ["LOCK", "Dependence", "Polyhedra", "TooHardError", "Unit", "isl_module", "limited"]

LOCK = threading.RLock()

_MOST_VECTORS = 9
"""Of a dependence between two statements, for people."""

_OPERATIONS = 20_000_000
"""Of isl's, about a second's, after which it is left off."""


class TooHardError(Exception):
    """It takes isl too long, or isl finds no answer."""


def isl_module() -> ModuleType:
    """The library islpy.

    Raises
    ------
    UnsupportedError
        It is not installed.
    """
    try:
        import islpy
    except ImportError as error:
        raise UnsupportedError(
            f"loops are analysed by islpy, which cannot be imported ({error}); "
            "pip install 'outcrop[loops]' installs it"
        ) from None
    return islpy


@contextmanager
def limited(context: Any, operations: int = _OPERATIONS) -> Iterator[None]:
    """Let isl do so much, and no more.

    Raises
    ------
    TooHardError
        It takes more, or isl gives up, as it does where it finds no order that respects everything.
    """
    isl = isl_module()
    context.reset_operations()
    context.set_max_operations(operations)
    try:
        yield
    except isl.Error:
        raise TooHardError from None
    finally:
        context.set_max_operations(0)
        context.resume()


@dataclass(frozen=True)
class Dependence:
    """What has to be done before what.

    Attributes
    ----------
    kind : str
        ``"flow"``, what is written is read; ``"anti"``, what is read is written; ``"output"``,
        what is written is written again.
    array : str
        Of which array.
    source, sink : str
        The statements, the earlier one first.
    distance : tuple
        How far apart they are, in iterations of each of the loops that they have in common, from
        outside to inside: a number, where that is always the same; ``"+"`` where the later one is
        in later iterations, and ``"-"`` where it is in earlier ones, by numbers that differ. Where
        there are many such vectors, the least and the largest number, as ``"-3..7"``.
    """

    kind: str
    array: str
    source: str
    sink: str
    distance: tuple[int | str, ...]

    def __str__(self) -> str:
        apart = ", ".join(map(str, self.distance))
        return f"{self.kind} {self.array}: {self.source} -> {self.sink} ({apart})"


@dataclass
class Unit:
    """Statements whose points are cut into tiles that are done one after the other.

    Attributes
    ----------
    domain : UnionSet
        Their points.
    outer : UnionMap
        What is done for one value after the other.
    n_outer : int
        Of how many dimensions that is.
    band : UnionMap
        What is cut into tiles.
    n_band : int
        Of how many dimensions that is.
    inner : UnionMap
        The order inside of a point of the band.
    stamp : tuple
        Where it stands among other units: numbers, and None in the place of each dimension of
        `outer`.
    coincident : tuple of bool
        Of which dimensions of the band no dependence says anything.
    """

    domain: Any
    outer: Any
    n_outer: int
    band: Any
    n_band: int
    inner: Any
    stamp: tuple[int | None, ...]
    coincident: tuple[bool, ...]

    @cached_property
    def statements(self) -> tuple[str, ...]:
        """The names of the statements."""
        found: list[str] = []
        self.domain.foreach_set(lambda s: found.append(s.get_tuple_name()))
        return tuple(sorted(found))


class Polyhedra:
    """A nest, with isl's objects of one context."""

    def __init__(self, nest: Nest) -> None:
        isl = self.isl = isl_module()
        self.nest = nest
        self._last_writes: dict[str, Any] = {}
        self.context = isl.Context()
        with limited(self.context):
            self._make()

    def _make(self) -> None:
        isl, nest = self.isl, self.nest
        self.number = {p: k for k, p in enumerate([*nest.arrays, *nest.kept])}
        self.domains = {s.name: self.set(f"{{ {s.domain()} }}") for s in nest.statements}
        nest.statements = [s for s in nest.statements if not self.domains[s.name].is_empty()]
        self.domains = {s.name: self.domains[s.name] for s in nest.statements}
        self._place_kept()
        self.all = self._union([d.to_union_set() for d in self.domains.values()], isl.UnionSet)
        self.maps: list[tuple[Statement, Access, Any]] = [
            (s, a, self._map(s, a)) for s in nest.statements for a in s.accesses
        ]
        depth = max((len(s.loops) for s in nest.statements), default=0)
        self.depth = depth
        self.original = self._union(
            [
                self.map(f"{{ {s.name}[{', '.join(s.indices)}] -> [{self._time(s, depth)}] }}")
                .intersect_domain(self.domains[s.name])
                .to_union_map()
                for s in nest.statements
            ],
            isl.UnionMap,
        )

    def set(self, text: str) -> Any:
        """A set, from isl's text."""
        return self.isl.Set.read_from_str(self.context, text)

    def map(self, text: str) -> Any:
        """A map, from isl's text."""
        return self.isl.Map.read_from_str(self.context, text)

    def _union(self, parts: Sequence[Any], kind: Any) -> Any:
        found = kind.read_from_str(self.context, "{ }")
        for part in parts:
            found = found.union(part)
        return found

    def union_map(self, parts: Sequence[Any]) -> Any:
        """All pairs of several maps."""
        return self._union(parts, self.isl.UnionMap)

    @staticmethod
    def _time(s: Statement, depth: int) -> str:
        found: list[str] = []
        for d in range(depth):
            found.append(str(s.times[d]) if d < len(s.times) else "0")
            if d < len(s.loops):
                found.append(("" if s.loops[d].step > 0 else "-") + s.indices[d])
            else:
                found.append("0")
        found.append(str(s.times[depth]) if depth < len(s.times) else "0")
        return ", ".join(found)

    def _place_kept(self) -> None:
        """Give each name that is kept an array of its own."""
        nest = self.nest
        for name, depth in nest.kept.items():
            users = [s for s in nest.statements if any(a.array == name for a in s.accesses)]
            if not users:
                nest.arrays[name] = ((1,), nest.arrays[next(iter(nest.arrays))][1])
                continue
            low, high = [], []
            for d in range(depth):
                ends = [self._ends(self.domains[s.name], d) for s in users]
                low.append(min(e[0] for e in ends))
                high.append(max(e[1] for e in ends))
            places = tuple(
                Affine.index(index_name(d)) - Affine.number(low[d]) for d in range(depth)
            )
            for s in users:
                s.accesses = [
                    replace(a, subscripts=places or a.subscripts) if a.array == name else a
                    for a in s.accesses
                ]
            shape = tuple(b - a + 1 for a, b in zip(low, high, strict=True)) or (1,)
            nest.arrays[name] = (shape, nest.arrays[name][1])

    @staticmethod
    def _ends(of: Any, d: int) -> tuple[int, int]:
        own = of.dim_min(d), of.dim_max(d)
        return (
            int(own[0].min_val().to_python()),
            int(own[1].max_val().to_python()),
        )

    def _map(self, s: Statement, a: Access) -> Any:
        subscripts = ", ".join(one.isl for one in a.subscripts)
        guards = f" : {' and '.join(a.guards)}" if a.guards else ""
        head = f"{s.name}[{', '.join(s.indices)}] -> M{self.number[a.array]}[{subscripts}]"
        return self.map(f"{{ {head}{guards} }}").intersect_domain(self.domains[s.name])

    def elements(self, array: str) -> Any:
        """All elements of an array."""
        shape, _ = self.nest.arrays[array]
        names = [f"e{a}" for a in range(len(shape))]
        inside = " and ".join(f"0 <= {e} < {n}" for e, n in zip(names, shape, strict=True))
        head = f"M{self.number[array]}[{', '.join(names)}]"
        return self.set(f"{{ {head} : {inside} }}" if inside else f"{{ {head} }}")

    # -- what is wrong -----------------------------------------------------------------------------

    def check_bounds(self) -> None:
        """Raise where something outside of an array is touched.

        Raises
        ------
        InvalidArgumentError
            Names the line, and an element.
        """
        with limited(self.context):
            for _, access, relation in self.maps:
                if access.array in self.nest.kept:
                    continue
                outside = relation.range().subtract(self.elements(access.array))
                if outside.is_empty():
                    continue
                point = outside.sample_point()
                dims = outside.dim(self.isl.dim_type.set)
                value = [
                    int(point.get_coordinate_val(self.isl.dim_type.set, d).to_python())
                    for d in range(dims)
                ]
                shape, _ = self.nest.arrays[access.array]
                raise InvalidArgumentError(
                    f"{access.where}: {access.array}{value} is touched, outside of an array of "
                    f"shape {shape}: {access.text}"
                )

    # -- dependences -------------------------------------------------------------------------------

    @cached_property
    def _flows(self) -> list[tuple[str, str, Any]]:
        """Of each array, what has to be done before what, by kind."""
        return [one for array in self.number for one in self._flows_of(array, certain=True)]

    def _flows_of(self, array: str, *, certain: bool) -> list[tuple[str, str, Any]]:
        """What has to be done before what because of an array.

        `certain`: without what follows from others, as something is surely written in between.
        """
        own = [(a, m.to_union_map()) for _, a, m in self.maps if a.array == array]
        reads = self.union_map([m for a, m in own if not a.is_write])
        writes = self.union_map([m for a, m in own if a.is_write])
        sure = self.union_map([m for a, m in own if a.is_write and a.is_sure and certain])
        found: list[tuple[str, str, Any]] = []
        if writes.is_empty():
            return found
        for kind, sink, source in (
            ("flow", reads, writes),
            ("anti", writes, reads),
            ("output", writes, writes),
        ):
            info = self.isl.UnionAccessInfo.from_sink(sink).set_may_source(source)
            info = info.set_must_source(sure) if kind == "flow" else info.set_kill(sure)
            flow = info.set_schedule_map(self.original).compute_flow()
            relation = flow.get_may_dependence().union(flow.get_must_dependence())
            if not relation.is_empty():
                found.append((kind, array, relation.coalesce()))
        return found

    def last_writes(self, array: str) -> Any:
        """From points to what is read of what they were surely the last to write.

        That are pairs of the point that reads and the element.
        """
        if array not in self._last_writes:
            own = [(a, m.to_union_map()) for _, a, m in self.maps if a.array == array]
            reads = self.union_map([m for a, m in own if not a.is_write])
            sure = self.union_map([m for a, m in own if a.is_write and a.is_sure])
            info = self.isl.UnionAccessInfo.from_sink(reads).set_must_source(sure)
            flow = info.set_schedule_map(self.original).compute_flow()
            self._last_writes[array] = flow.get_full_must_dependence()
        return self._last_writes[array]

    def relation(self, *, relaxed: bool) -> Any:
        """All that has to be done before something else; what is summed up, in any order."""
        with limited(self.context):
            found = []
            for array in self.number:
                sums = [s for s in self.nest.statements if relaxed and array in s.reduces]
                # Where parts of a sum need not wait for each other, each has to for what is before
                # all of them.
                flows = self._flows if not sums else self._flows_of(array, certain=False)
                free = self.union_map([self._pairs(s) for s in sums])
                found += [r.subtract(free) for _, own, r in flows if own == array]
                found += [self._used_parts(s, array) for s in sums]
            return self.union_map(found).coalesce()

    def _used_parts(self, s: Statement, array: str) -> Any:
        """What a statement uses of the sums that it makes, other than to add to them."""
        own = [(a, m.to_union_map()) for t, a, m in self.maps if t is s and a.array == array]
        used = self.union_map([m for a, m in own if not a.is_write and not a.sum])
        writes = self.union_map([m for a, m in own if a.is_write])
        return self.union_map(
            [self._between(writes, used), self._between(used, writes)]
            if not used.is_empty()
            else []
        )

    def _between(self, source: Any, sink: Any) -> Any:
        """All pairs of points that access the same, of which the first one comes first."""
        info = self.isl.UnionAccessInfo.from_sink(sink).set_may_source(source)
        flow = info.set_schedule_map(self.original).compute_flow()
        return flow.get_may_dependence()

    def _pairs(self, s: Statement) -> Any:
        """All pairs of points of a statement."""
        space = self.domains[s.name].get_space().map_from_set()
        return self.isl.Map.universe(space).to_union_map()

    def dependences(self) -> list[Dependence]:
        """What depends on what, for people."""
        by_name = {s.name: s for s in self.nest.statements}
        found: list[Dependence] = []
        with limited(self.context):
            for kind, array, relation in self._flows:
                maps: list[Any] = []
                relation.foreach_map(maps.append)
                for one in maps:
                    source = by_name[one.get_tuple_name(self.isl.dim_type.in_)]
                    sink = by_name[one.get_tuple_name(self.isl.dim_type.out)]
                    found += [
                        Dependence(kind, array, source.name, sink.name, distance)
                        for distance in self._distances(one, source, sink)
                    ]
        return sorted(
            set(found), key=lambda d: (d.source, d.sink, d.kind, d.array, str(d.distance))
        )

    def _distances(
        self, one: Any, source: Statement, sink: Statement
    ) -> list[tuple[int | str, ...]]:
        """How far apart what depends on each other is: vectors that make up all of it."""
        common = 0
        while (
            common < min(len(source.loops), len(sink.loops))
            and source.times[: common + 1] == sink.times[: common + 1]
        ):
            common += 1
        if source.name == sink.name:
            common = len(source.loops)
        steps = [sink.loops[d].step for d in range(common)]
        # Iterations: later ones are positive, whichever way a loop goes.
        apart = ", ".join(f"({'' if s > 0 else '-'}(b{d} - a{d}))" for d, s in enumerate(steps))
        values = (
            one.wrap()
            .apply(
                self.map(
                    f"{{ [{source.name}[{', '.join(f'a{k}' for k in range(len(source.loops)))}] -> "
                    f"{sink.name}[{', '.join(f'b{k}' for k in range(len(sink.loops)))}]] -> "
                    f"[{apart}] }}"
                )
            )
            .coalesce()
        )
        names = [f"x{d}" for d in range(common)]
        found: list[tuple[int | str, ...]] = []

        def split(part: Any, vector: tuple[int | str, ...]) -> None:
            d = len(vector)
            if len(found) > _MOST_VECTORS:
                return
            if d == common:
                found.append(vector)
                return
            for sign, own in (("=", 0), (">", "+"), ("<", "-")):
                half = self.set(f"{{ [{', '.join(names)}] : x{d} {sign} 0 }}")
                inside = part.intersect(half)
                if not inside.is_empty():
                    low, high = self._ends(inside, d)
                    split(inside, (*vector, low // abs(steps[d]) if low == high else own))

        split(values, ())
        if len(found) <= _MOST_VECTORS:
            return found
        ends = [self._ends(values, d) for d in range(common)]
        ranges = [tuple(e // abs(s) for e in own) for own, s in zip(ends, steps, strict=True)]
        return [tuple(low if low == high else f"{low}..{high}" for low, high in ranges)]

    # -- orders ------------------------------------------------------------------------------------

    def schedules(self, relation: Any) -> Iterator[Any]:
        """Orders in which everything that depends on something comes after it.

        Statements that do not need each other are done one after the other in the first of them,
        and together in the next one, as far as they may.
        """
        isl = self.isl
        seen: list[str] = []
        for apart in (1, 0):
            try:
                with limited(self.context):
                    self.context.set_schedule_serialize_sccs(apart)
                    constraints = (
                        isl.ScheduleConstraints.on_domain(self.all)
                        .set_validity(relation)
                        .set_coincidence(relation)
                        .set_proximity(relation)
                    )
                    schedule = constraints.compute_schedule()
                    text = str(schedule)
            except TooHardError:
                continue
            if text not in seen:
                seen.append(text)
                yield schedule

    def units(self, schedule: Any, cuts: int) -> list[Unit]:
        """What is cut into tiles: bands below so many others, or the last ones there are."""
        found: list[Unit] = []

        def walk(node: Any, stamp: tuple[int | None, ...], above: int) -> None:
            kind = node.get_type()
            types = self.isl.schedule_node_type
            if kind in (types.sequence, types.set):
                for k in range(node.n_children()):
                    walk(node.child(k).child(0), (*stamp, k), above)
                return
            if kind == types.band:
                below = node.child(0)
                if above < cuts and _has_band(below, types):
                    walk(below, (*stamp, *[None] * node.band_n_member()), above + 1)
                    return
                n = node.band_n_member()
                band = node.band_get_partial_schedule_union_map()
                flags = tuple(bool(node.band_member_get_coincident(k)) for k in range(n))
                self._add(found, node, band, n, below, stamp, flags)
                return
            if kind == types.leaf:
                zero = self.isl.UnionMap.read_from_str(self.context, "{ }")
                for s in self.nest.statements:
                    head = f"{s.name}[{', '.join(s.indices)}]"
                    zero = zero.union(self.map(f"{{ {head} -> [] }}").to_union_map())
                self._add(found, node, zero, 0, node, stamp, ())
                return
            walk(node.child(0), stamp, above)

        walk(schedule.get_root(), (), 0)
        return found

    def _add(
        self,
        found: list[Unit],
        node: Any,
        band: Any,
        n: int,
        below: Any,
        stamp: tuple[int | None, ...],
        coincident: tuple[bool, ...],
    ) -> None:
        domain = node.get_domain()
        if domain.is_empty():
            return
        outer = node.get_prefix_schedule_union_map().intersect_domain(domain)
        inner = below.get_subtree_schedule_union_map().intersect_domain(domain)
        band = band.intersect_domain(domain)
        n_outer = sum(one is None for one in stamp)
        found.append(Unit(domain, outer, n_outer, band, n, inner, stamp, coincident))

    def independent_units(self, relation: Any) -> list[Unit]:
        """All statements along a loop of which no iteration needs anything of another one.

        Of nests of several statements, each of which has such a loop: with the order as written
        inside, a tile of it is all that is done with its part of the arrays.
        """
        statements = self.nest.statements
        depth = min((len(s.loops) for s in statements), default=0)
        if len(statements) < 2:
            return []
        found: list[Unit] = []
        seen: list[Any] = []
        for d in (*range(depth), *range(-1, -depth - 1, -1)):
            band = self.union_map(
                [
                    self.map(f"{{ {s.name}[{', '.join(s.indices)}] -> [{s.indices[d]}] }}")
                    .intersect_domain(self.domains[s.name])
                    .to_union_map()
                    for s in statements
                ]
            )
            if any(band.is_equal(other) for other in seen):
                continue
            seen.append(band)
            apart = relation.apply_domain(band).apply_range(band).deltas()
            if apart.is_subset(self.set("{ [0] }").to_union_set()):
                nothing = self._times(0, 0)
                inner = self._times(0, 2 * self.depth + 1)
                found.append(Unit(self.all, nothing, 0, band, 1, inner, (), (True,)))
        return found

    def _times(self, first: int, end: int) -> Any:
        """Some of the dimensions of the order as written."""
        names = [f"t{k}" for k in range(2 * self.depth + 1)]
        text = f"{{ [{', '.join(names)}] -> [{', '.join(names[first:end])}] }}"
        return self.original.apply_range(self.map(text).to_union_map())

    def original_unit(self, depth: int) -> Unit:
        """The nest as it is written, cut along one loop, below so many others."""
        total = 2 * self.depth + 1
        head = min(2 * depth + 1, total)
        end = min(head + 1, total)
        stamp = (None,) * head
        return Unit(
            self.all,
            self._times(0, head),
            head,
            self._times(head, end),
            end - head,
            self._times(end, total),
            stamp,
            (False,) * (end - head),
        )

    def is_legal(self, relation: Any, order: Any) -> bool:
        """Whether all that depends on something comes after it in an order."""
        pairs = relation.apply_domain(order).apply_range(order)
        maps: list[Any] = []
        pairs.foreach_map(maps.append)
        for one in maps:
            space = one.get_space().domain()
            if not one.intersect(self.isl.Map.lex_ge(space)).is_empty():
                return False
        return True


def _has_band(node: Any, types: Any) -> bool:
    found = []

    def look(one: Any) -> bool:
        found.append(one.get_type() == types.band)
        return True

    node.foreach_descendant_top_down(look)
    return any(found)
