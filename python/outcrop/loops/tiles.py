"""Units of a nest cut into tiles, each a step: what it touches of which stored tiles."""

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from outcrop.loops.generated import enumerated
from outcrop.loops.polyhedra import Polyhedra, Unit

__all__ = [
    "FULL",
    "READ",
    "WRITE",
    "Cut",
    "Footprints",
    "Step",
    "Touched",
    "indices_used",
    "inner_order",
    "natural_sizes",
]

READ, WRITE, FULL = 1, 2, 4
"""Whether a step reads elements of a tile, writes some, or all of them and reads none before."""


@dataclass(frozen=True)
class Cut:
    """How the points of a unit are cut.

    Attributes
    ----------
    sizes : tuple of int
        How much of each dimension of the band a tile has.
    order : tuple of int
        The dimensions of the band, the one along which tiles come last first.
    groups : tuple of int
        How many tiles along each dimension make up a group: groups come one after the other, and in
        each of them its tiles, both in that order.
    """

    sizes: tuple[int, ...]
    order: tuple[int, ...]
    groups: tuple[int, ...]

    @classmethod
    def plain(cls, sizes: Sequence[int]) -> "Cut":
        """Tiles in the order of the dimensions."""
        return cls(tuple(sizes), tuple(range(len(sizes))), (1,) * len(sizes))


Touched = dict[str, dict[tuple[int, ...], int]]
"""Of each array, the tiles, and what is done with them."""


@dataclass
class Step:
    """The points of one tile.

    Attributes
    ----------
    unit : int
        Of which unit.
    stamp : tuple of int
        When it is its turn.
    first : tuple of int
        The values of the outer dimensions, and the first ones of the tile along the band.
    end : tuple of int
        Where it ends along the band.
    touched : Touched
        What it needs.
    is_mixed : bool
        Whether products in it are multiplied at once in parts only.
    """

    unit: int
    stamp: tuple[int, ...]
    first: tuple[int, ...]
    end: tuple[int, ...]
    touched: Touched
    is_mixed: bool


class Footprints:
    """What the tiles of units touch, remembered by the sizes that they are cut to."""

    def __init__(self, polyhedra: Polyhedra, tiles: Mapping[str, tuple[int, ...]]) -> None:
        self.polyhedra, self.tiles = polyhedra, tiles
        self._found: dict[tuple[int, tuple[int, ...]], dict[tuple[int, ...], Touched] | None] = {}
        self._kept: list[Unit] = []

    def steps(
        self,
        number: int,
        unit: Unit,
        cut: Cut,
        most: int,
        mixed: Set[tuple[int, ...]] = frozenset(),
    ) -> list[Step] | None:
        """The steps of a unit; None where there may be more of them than that."""
        key = (id(unit), cut.sizes)
        if key not in self._found:
            # As long as a unit lives, no other one has its number.
            self._kept.append(unit)
            self._found[key] = self._footprints(unit, cut.sizes, most)
        found = self._found[key]
        if found is None:
            return None
        steps = []
        for tile, touched in found.items():
            outer, band = tile[: unit.n_outer], tile[unit.n_outer :]
            values = iter(outer)
            stamp = tuple(next(values) if s is None else s for s in unit.stamp)
            first = tuple(t * z for t, z in zip(band, cut.sizes, strict=True))
            end = tuple(f + z for f, z in zip(first, cut.sizes, strict=True))
            groups = tuple(band[d] // cut.groups[d] for d in cut.order)
            order = tuple(band[d] for d in cut.order)
            stamp = (*stamp, *groups, *order)
            steps.append(Step(number, stamp, (*outer, *first), end, touched, tile in mixed))
        return steps

    def _tile_map(self, unit: Unit, sizes: Sequence[int]) -> Any:
        names = [f"b{k}" for k in range(len(sizes))]
        tiles = ", ".join(f"floor({b}/{z})" for b, z in zip(names, sizes, strict=True))
        cut = self.polyhedra.map(f"{{ [{', '.join(names)}] -> [{tiles}] }}").to_union_map()
        return unit.outer.flat_range_product(unit.band.apply_range(cut))

    def _footprints(
        self, unit: Unit, sizes: Sequence[int], most: int
    ) -> dict[tuple[int, ...], Touched] | None:
        polyhedra = self.polyhedra
        isl = polyhedra.isl
        where = self._tile_map(unit, sizes)
        points = where.range()
        dims = unit.n_outer + unit.n_band
        found: dict[tuple[int, ...], Touched] = {}
        sets: list[Any] = []
        points.foreach_set(sets.append)
        box = 1
        for d in range(dims):
            low = min(int(s.dim_min(d).min_val().to_python()) for s in sets)
            high = max(int(s.dim_max(d).max_val().to_python()) for s in sets)
            box *= high - low + 1
        if box > most:
            return None
        for one in sets:
            for tile in enumerated(isl, one):
                found[tile] = {}
        backwards = where.reverse()
        for array in polyhedra.number:
            own = [
                (a, m)
                for s, a, m in polyhedra.maps
                if a.array == array and s.name in unit.statements
            ]
            if not own:
                continue
            tiles = self._tiles_of(array)

            def relation(maps: Sequence[Any]) -> Any:
                return backwards.apply_range(polyhedra.union_map([m.to_union_map() for m in maps]))

            reads = relation([m for a, m in own if not a.is_write])
            writes = relation([m for a, m in own if a.is_write])
            sure = relation([m for a, m in own if a.is_write and a.is_sure])
            read_tiles = reads.apply_range(tiles)
            self._add(found, array, dims, read_tiles, READ)
            written = writes.apply_range(tiles)
            self._add(found, array, dims, written, WRITE)
            if not sure.is_empty():
                before = backwards.apply_range(self._exposed(array, where)).apply_range(tiles)
                self._add(found, array, dims, self._full(array, sure, before), FULL)
        return found

    def _exposed(self, array: str, where: Any) -> Any:
        """The elements that points read before their own step has surely written them."""
        polyhedra = self.polyhedra
        reads = polyhedra.union_map(
            [m.to_union_map() for _, a, m in polyhedra.maps if a.array == array and not a.is_write]
        ).intersect_domain(where.domain())
        if reads.is_empty():
            return reads
        # From steps to what is read of what they have written: pairs of a point and an element.
        made = polyhedra.last_writes(array).apply_domain(where)
        of_own = made.reverse().intersect(reads.domain_map().apply_range(where)).domain()
        return reads.wrap().subtract(of_own).unwrap()

    def _full(self, array: str, sure: Any, read: Any) -> Any:
        """Of which tiles a step writes every element, and reads none before."""
        elements = self.polyhedra.elements(array).to_union_set()
        tiles = self._tiles_of(array).intersect_domain(elements)
        candidates = sure.apply_range(tiles).subtract(read)
        # From pairs of a step and a tile to the elements that are not written.
        own = candidates.range_map().apply_range(tiles.reverse())
        missing = own.subtract(candidates.domain_map().apply_range(sure))
        return candidates.subtract(missing.domain().unwrap())

    def _tiles_of(self, array: str) -> Any:
        """From elements to tiles."""
        shape, _ = self.polyhedra.nest.arrays[array]
        names = [f"e{a}" for a in range(len(shape))]
        tile = self.tiles[array]
        floors = ", ".join(
            f"floor({e}/{t})" if t < n else "0" for e, t, n in zip(names, tile, shape, strict=True)
        )
        name = f"M{self.polyhedra.number[array]}"
        head = f"{name}[{', '.join(names)}] -> {name}[{floors}]"
        return self.polyhedra.map(f"{{ {head} }}").to_union_map()

    def _add(
        self,
        found: dict[tuple[int, ...], Touched],
        array: str,
        dims: int,
        relation: Any,
        what: int,
    ) -> None:
        isl = self.polyhedra.isl
        maps: list[Any] = []
        relation.foreach_map(maps.append)
        for one in maps:
            flat = one.reset_tuple_id(isl.dim_type.out).wrap().flatten()
            for point in enumerated(isl, flat):
                own = found[point[:dims]].setdefault(array, {})
                place = point[dims:]
                own[place] = own.get(place, 0) | what


def natural_sizes(
    polyhedra: Polyhedra, unit: Unit, tiles: Mapping[str, tuple[int, ...]]
) -> list[tuple[int, int]]:
    """Of each dimension of a band, an extent of stored tiles along it (0: none), and its length."""
    found = []
    shapes = polyhedra.nest.arrays
    uses = indices_used(polyhedra, unit)
    for d in range(unit.n_band):
        extents: dict[int, int] = {}
        for s, a, _ in polyhedra.maps:
            if s.name not in unit.statements:
                continue
            for axis, subscript in enumerate(a.subscripts):
                names = set(subscript.terms or ())
                own = uses[s.name][d] & names
                if not own:
                    continue
                extent, whole = tiles[a.array][axis], shapes[a.array][0][axis]
                if extent < whole:
                    size = extent * math.prod(shapes[a.array][0])
                    extents[extent] = extents.get(extent, 0) + size
        sets: list[Any] = []
        unit.band.range().foreach_set(sets.append)
        low = min(int(s.dim_min(d).min_val().to_python()) for s in sets)
        high = max(int(s.dim_max(d).max_val().to_python()) for s in sets)
        best = max(extents, key=lambda e: extents[e]) if extents else 0
        found.append((best, high - low + 1))
    return found


def indices_used(polyhedra: Polyhedra, unit: Unit) -> dict[str, list[set[str]]]:
    """Of each statement, for each dimension of the band, the indices that it moves with.

    An index that an earlier dimension is made of alone is that one's.
    """
    isl = polyhedra.isl
    maps: list[Any] = []
    unit.band.foreach_map(maps.append)
    found = {s: [set[str]() for _ in range(unit.n_band)] for s in unit.statements}
    for one in maps:
        name = one.get_tuple_name(isl.dim_type.in_)
        depth = one.dim(isl.dim_type.in_)
        affine = isl.PwMultiAff.from_map(one)
        alone: set[str] = set()
        for d in range(unit.n_band):
            pieces = _pieces(affine.get_pw_aff(d))
            names = {
                f"v{k}"
                for k in range(depth)
                for piece in pieces
                if int(piece.get_coefficient_val(isl.dim_type.in_, k).to_python()) != 0
            }
            found[name][d] = names - alone
            if len(names) == 1:
                alone |= names
    return found


def _pieces(of: Any) -> list[Any]:
    """The affine functions that one which is so by pieces consists of."""
    found: list[Any] = []
    of.foreach_piece(lambda _, aff: found.append(aff))
    return found


def inner_order(polyhedra: Polyhedra, unit: Unit) -> tuple[int, ...]:
    """The dimensions of a band from outside to inside, as they are run through inside of a tile.

    Innermost is the one along which elements lie beside each other.
    """
    uses = indices_used(polyhedra, unit)
    scores = []
    for d in range(unit.n_band):
        score = 0
        for s, a, _ in polyhedra.maps:
            if s.name not in unit.statements:
                continue
            for axis, subscript in enumerate(a.subscripts):
                if uses[s.name][d] & set(subscript.terms or ()):
                    score += 1 if axis == len(a.subscripts) - 1 else -1
        scores.append(score)
    return tuple(sorted(range(unit.n_band), key=lambda d: scores[d]))
