"""Statements that are products of matrices, and which of their points are multiplied at once.

A product is ``c[i, j] += a[i, k] * b[k, j]``, whatever its loops, and however the matrices lie.
Where sums may be in any order, a box of its points is one call of the kernel of linear algebra.
What else there is in a tile comes before it or after it, if nothing forbids that: over the whole
tile, or block by block, where only some of a tile's points are such a box, as in a triangle.
"""

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from outcrop import _native
from outcrop.loops.generated import enumerated
from outcrop.loops.nest import Access, Nest, Statement
from outcrop.loops.polyhedra import Polyhedra, TooHardError, Unit, limited

__all__ = ["BLOCK", "Arrangement", "Product", "arranged", "mixed_tiles", "product_of"]

BLOCK = 64
"""Points along each dimension of blocks, where not all of a tile is multiplied at once."""


@dataclass(frozen=True)
class Product:
    """A statement that is a product of matrices.

    Attributes
    ----------
    dtype : numpy.dtype
        The type of all elements.
    result, left, right : Access
        The elements: ``result += factor * left * right``.
    rows, cols, depth : int
        The loops over rows and columns of the result, and over what is summed up.
    places : tuple of tuple of int
        Of the result, the left and the right matrix, the axes of rows and columns.
    factor : ast.expr
        A number.
    """

    dtype: np.dtype[Any]
    result: Access
    left: Access
    right: Access
    rows: int
    cols: int
    depth: int
    places: tuple[tuple[int, int], tuple[int, int], tuple[int, int]]
    factor: ast.expr

    @property
    def loops(self) -> tuple[int, int, int]:
        """The three loops that it is made of."""
        return self.rows, self.cols, self.depth


def product_of(nest: Nest, s: Statement) -> Product | None:
    """What product of matrices a statement is; None where it is none."""
    if len(s.body) != 1 or not isinstance(s.body[0], ast.Assign):
        return None
    target, value = s.body[0].targets[0], s.body[0].value
    result = _access(s, target)
    if result is None or result.sum != "+" or not isinstance(value, ast.BinOp):
        return None
    if not isinstance(value.op, ast.Add | ast.Sub):
        return None
    factors: list[ast.expr] = []
    negative = _factors(value.right, factors) != isinstance(value.op, ast.Sub)
    elements = [(f, a) for f in factors if (a := _access(s, f)) is not None]
    numbers = [f for f in factors if _access(s, f) is None]
    if len(elements) != 2 or not all(map(_is_number, numbers)):
        return None
    left, right = (a for _, a in elements)
    dtypes = {nest.arrays[a.array][1] for a in (result, left, right)}
    dtype = dtypes.pop()
    if dtypes or _native.product_function(dtype.name) is None:
        return None
    if any(a.guards or not a.is_sure for a in (result, left, right)):
        return None
    for one, other in ((left, right), (right, left)):
        found = _matched(s, result, one, other)
        if found is not None:
            rows, cols, depth, places = found
            factor: ast.expr = ast.Constant(-1.0 if negative else 1.0)
            for number in numbers:
                factor = ast.BinOp(factor, ast.Mult(), number)
            return Product(dtype, result, one, other, rows, cols, depth, places, factor)
    return None


def _access(s: Statement, node: ast.AST) -> Access | None:
    if isinstance(node, ast.Name) and node.id.startswith("."):
        return s.accesses[int(node.id[1:])]
    return None


def _factors(node: ast.expr, found: list[ast.expr]) -> bool:
    """What is multiplied by each other, in a row; whether the sign changes."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return _factors(node.left, found) != _factors(node.right, found)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return not _factors(node.operand, found)
    found.append(node)
    return False


def _is_number(node: ast.expr) -> bool:
    """Whether it is a real number that is the same at each point."""
    if isinstance(node, ast.Name):
        return node.id.startswith("scalar_")
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def _matched(
    s: Statement, result: Access, left: Access, right: Access
) -> tuple[int, int, int, tuple[tuple[int, int], tuple[int, int], tuple[int, int]]] | None:
    """The loops of a product, and the axes of its matrices; other loops are around it."""
    axes = [_axes(a) for a in (result, left, right)]
    if None in axes:
        return None
    c, a, b = (one or {} for one in axes)
    rows = [v for v in c if v in a and v not in b]
    cols = [v for v in c if v in b and v not in a]
    depth = [v for v in a if v in b and v not in c]
    if not rows or not cols or not depth:
        return None
    # Where there are several, the innermost ones.
    i, j, k = max(rows), max(cols), max(depth)
    places = (c[i], c[j]), (a[i], a[k]), (b[k], b[j])
    if any(len(own) != 1 for pair in places for own in pair):
        return None
    pairs = tuple((one[0], other[0]) for one, other in places)
    of_all = zip((result, left, right), ((i, j), (i, k), (k, j)), pairs, strict=True)
    for access, loops, pair in of_all:
        for v, axis in zip(loops, pair, strict=True):
            terms = access.subscripts[axis].terms or {}
            inner = {i, j, k} & {int(name[1:]) for name in terms}
            if terms.get(f"v{v}") != 1 or inner != {v}:
                return None
    return i, j, k, (pairs[0], pairs[1], pairs[2])


def _axes(access: Access) -> dict[int, list[int]] | None:
    """Of each loop, the axes whose subscripts change with it."""
    found: dict[int, list[int]] = {}
    for axis, subscript in enumerate(access.subscripts):
        if subscript.terms is None:
            return None
        for name in subscript.terms:
            found.setdefault(int(name[1:]), []).append(axis)
    return found


# -- which points are multiplied at once -----------------------------------------------------------


@dataclass(frozen=True)
class Arrangement:
    """In which order a tile of a unit is done, where products are multiplied at once.

    Attributes
    ----------
    products : dict
        The products, by their statements.
    plain : UnionSet or None
        Blocks of `BLOCK` points along each dimension of the band that are done point by point; in
        the others, statements come one after the other. None where they do in any tile, whatever
        its size.
    """

    products: dict[str, Product]
    plain: Any


def arranged(polyhedra: Polyhedra, unit: Unit, relation: Any) -> Arrangement | None:
    """How products of a unit are multiplied at once; None where it has none.

    Parameters
    ----------
    polyhedra : Polyhedra
        The nest.
    unit : Unit
        The unit.
    relation : UnionMap
        What has to be before what, but for parts of a sum.
    """
    own = [s for s in polyhedra.nest.statements if s.name in unit.statements]
    products = {s.name: p for s in own if (p := product_of(polyhedra.nest, s)) is not None}
    if not products or not unit.n_band:
        return None
    try:
        with limited(polyhedra.context):
            if _plain(polyhedra, unit, relation, products, None).is_empty():
                return Arrangement(products, None)
            plain = _plain(polyhedra, unit, relation, products, [BLOCK] * unit.n_band)
            return Arrangement(products, plain.coalesce())
    except TooHardError:
        return None


def mixed_tiles(
    polyhedra: Polyhedra, unit: Unit, relation: Any, how: Arrangement, sizes: Sequence[int]
) -> set[tuple[int, ...]]:
    """The tiles of such sizes that are done block by block, by outer dimensions and the band's."""
    if how.plain is None:
        return set()
    found: set[tuple[int, ...]] = set()
    sets: list[Any] = []
    _plain(polyhedra, unit, relation, how.products, sizes).foreach_set(sets.append)
    for one in sets:
        found.update(enumerated(polyhedra.isl, one))
    return found


def _plain(
    polyhedra: Polyhedra,
    unit: Unit,
    relation: Any,
    products: dict[str, Product],
    sizes: Sequence[int] | None,
) -> Any:
    """Blocks in which statements may not come one after the other, or a product is no box.

    Without sizes, all points of the band are one block.
    """
    isl = polyhedra.isl
    own = [s for s in polyhedra.nest.statements if s.name in unit.statements]
    names = [f"b{k}" for k in range(unit.n_band)]
    floors = [f"floor({b}/{z})" for b, z in zip(names, sizes or (), strict=False)]
    text = f"{{ [{', '.join(names)}] -> [{', '.join(floors or ['0'] * unit.n_band)}] }}"
    cut = polyhedra.map(text).to_union_map()
    where = unit.outer.flat_range_product(unit.band.apply_range(cut))
    inside = relation.intersect_domain(unit.domain).intersect_range(unit.domain)
    inside = inside.intersect(where.apply_range(where.reverse()))
    position = {s.name: k for k, s in enumerate(own)}
    found = isl.UnionSet.read_from_str(polyhedra.context, "{ }")
    maps: list[Any] = []
    inside.foreach_map(maps.append)
    for one in maps:
        source = one.get_tuple_name(isl.dim_type.in_)
        sink = one.get_tuple_name(isl.dim_type.out)
        is_same = source == sink and source not in products
        if position[source] >= position[sink] and not is_same:
            found = found.union(one.domain().to_union_set())
    plain = found.apply(where)
    for s in own:
        if s.name not in products:
            continue
        points = where.reverse().intersect_range(polyhedra.domains[s.name].to_union_set())
        sides = []
        for d in range(len(s.loops)):
            head = f"{s.name}[{', '.join(s.indices)}]"
            side = polyhedra.map(f"{{ {head} -> [{s.indices[d]}] }}").to_union_map()
            sides.append(points.apply_range(side))
        whole = sides[0]
        for side in sides[1:]:
            whole = whole.flat_range_product(side)
        named = polyhedra.map(f"{{ [{', '.join(s.indices)}] -> {head} }}").to_union_map()
        plain = plain.union(whole.apply_range(named).subtract(points).domain())
    return plain
