"""The code of one tile, compiled: isl's loops, with elements found in stored tiles.

A step is given the tiles that it touches, and of each array a table of them. An innermost loop is
cut where an element that it touches leaves its stored tile, so that inside there is nothing between
the loop and the elements but a pointer and a constant step. Loops around a product of matrices that
may be done at once are cut likewise, and inside of them linear algebra's kernel is called.
"""

import ast
import copy
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from outcrop import _native
from outcrop.compiled.cached import compiled_function, digest, meaning_of, named
from outcrop.compiled.compiler import calling_products, numba_module, numba_says, pointer_to
from outcrop.errors import InvalidTypeError
from outcrop.loops.generated import Number, last_of, number_of
from outcrop.loops.nest import Access, Nest, Statement
from outcrop.loops.polyhedra import Polyhedra, Unit
from outcrop.loops.products import BLOCK, Arrangement, Product
from outcrop.loops.tiles import inner_order

__all__ = ["Code", "code_of", "compiled", "kernel_name"]

Multiplied = tuple[str, tuple[int, int, int], tuple[bool, bool]]

_INDEX = re.compile(r"\bv(\d+)\b")

_AT_ONCE = "_at_once"
"""After the name of a statement: points of it that make up a box."""


@dataclass(frozen=True)
class Code:
    """The source of a kernel.

    Attributes
    ----------
    name : str
        For people.
    finders : tuple of str
        Of each array, the source of a function ``find``: where an element is.
    source : str
        Of a function ``kernel``.
    arrays : tuple of str
        The arrays that it touches, in the order of its tables.
    n_fixed : int
        How many of its arguments do not belong to tables: the tile, numbers, and of each array the
        first tile and the number of tiles along each axis, and where its table is.
    work : dict
        Operations for each point, about, by statements.
    products : dict
        Of the statements that linear algebra's kernel does, the type of the elements, the extents
        of the products, and which of their factors lie column by column.
    """

    name: str
    finders: tuple[str, ...]
    source: str
    arrays: tuple[str, ...]
    n_fixed: int
    work: dict[str, int]
    products: dict[str, Multiplied]


@dataclass
class _Pointer:
    """Where an element is, as a loop comes by: elements lie so far from each other.

    Where it is always the same one, it may be held in a variable meanwhile.
    """

    name: str
    array: str
    stride: int
    held: str = ""


def _up(end: int, index: int, x: int, tile: int, stride: int) -> int:
    """The last index of a loop for which a growing subscript is in the same tile."""
    return min(end, index + (tile - 1 - x) // stride)


def _down(end: int, index: int, x: int, tile: int, stride: int) -> int:
    """The same of one that falls."""
    return min(end, index + x // stride)


class _Source:
    """The source of a kernel, as it is made."""

    def __init__(
        self,
        polyhedra: Polyhedra,
        unit: Unit,
        tiles: Mapping[str, tuple[int, ...]],
        kinds: Sequence[str],
        arrangement: Arrangement | None,
    ) -> None:
        self.polyhedra, self.unit, self.tiles, self.kinds = polyhedra, unit, tiles, kinds
        self.arrangement = arrangement
        self.multiplied: dict[str, Multiplied] = {}
        self.isl, self.nest = polyhedra.isl, polyhedra.nest
        self.statements = {s.name: s for s in self.nest.statements}
        own = {
            a.array for s in self.nest.statements if s.name in unit.statements for a in s.accesses
        }
        self.arrays = tuple(p for p in polyhedra.number if p in own)
        self.lines: list[str] = []
        self.depth = 0
        self.count = 0

    def write(self, *lines: str) -> None:
        self.lines += ["    " * self.depth + line for line in lines]

    # -- the whole ---------------------------------------------------------------------------------

    def made(self) -> Code:
        unit = self.unit
        self.write("def kernel(starts, axes, arguments, workspace, room, stop):")
        self.depth = 1
        self.write("st, ar = at_int(starts), at_int(arguments)")
        self.write("fr, sp = at_float(arguments), at_byte(stop)")
        n = 0
        for k in range(unit.n_outer + unit.n_band):
            self.write(f"P{k} = ar[{n}]")
            n += 1
        for k in range(unit.n_band):
            self.write(f"E{k} = ar[{n}]")
            n += 1
        for name, kind in zip(self.nest.scalars, self.kinds, strict=True):
            self.write(f"scalar_{name} = {'fr' if kind == 'float' else 'ar'}[{n}]")
            n += 1
        self.write(f"multiply, block = ar[{n}], ar[{n + 1}]")
        n += 2
        finders = []
        for i, array in enumerate(self.arrays):
            finders.append(self._finder(i, array, n))
            n += 2 * len(self.tiles[array]) + 1
        self._tile()
        self.write("return 0")
        name = kernel_name(self.nest, unit.statements)
        work = {s: self._work(self.statements[s]) for s in unit.statements}
        source = "\n".join(self.lines)
        return Code(name, tuple(finders), source, self.arrays, n, work, self.multiplied)

    def _work(self, s: Statement) -> int:
        if s.name in self.multiplied:
            return 8 if np.dtype(self.multiplied[s.name][0]).kind == "c" else 2
        kinds = (ast.BinOp, ast.Call, ast.Compare, ast.UnaryOp)
        return 1 + sum(isinstance(node, kinds) for one in s.body for node in ast.walk(one))

    # -- orders ------------------------------------------------------------------------------------

    def _tile(self) -> None:
        """Write what is done with a tile."""
        how, unit = self.arrangement, self.unit
        if how is None:
            self._node(self._ast(self._in_order()))
            return
        if how.plain is None:
            self._node(self._ast(self._in_turn(how)))
            return
        first = range(unit.n_outer, unit.n_outer + unit.n_band)
        depth = self.depth
        for k, p in enumerate(first):
            self.write(f"S{k}, N{k} = P{p}, E{k}")
        for k, p in enumerate(first):
            self.write(f"for Q{k} in range(S{k} // block, (N{k} - 1) // block + 1):")
            self.depth += 1
            self.write(f"P{p} = max(S{k}, Q{k} * block)", f"E{k} = min(N{k}, (Q{k} + 1) * block)")
        self.write(f"if block == {BLOCK} and {self._is_plain(how)}:")
        self.depth += 1
        self._node(self._ast(self._in_order()))
        self.depth -= 1
        self.write("else:")
        self.depth += 1
        self._node(self._ast(self._in_turn(how)))
        self.depth = depth

    def _is_plain(self, how: Arrangement) -> str:
        """Whether a block is done point by point, as Python writes it."""
        polyhedra, unit = self.polyhedra, self.unit
        own = [f"P{k}" for k in range(unit.n_outer)] + [f"Q{k}" for k in range(unit.n_band)]
        this = polyhedra.set(f"[{', '.join(own)}] -> {{ [{', '.join(own)}] }}")
        sets: list[Any] = []
        how.plain.foreach_set(sets.append)
        if not sets:
            return "False"
        (found,) = sets
        context = polyhedra.set(f"[{', '.join(own)}] -> {{ : }}")
        build = self.isl.AstBuild.from_context(context)
        return number_of(self.isl, build.expr_from_set(this.intersect(found).params())).python

    def _parameters(self) -> str:
        unit = self.unit
        names = [f"P{k}" for k in range(unit.n_outer + unit.n_band)]
        names += [f"E{k}" for k in range(unit.n_band)]
        return f"[{', '.join(names)}] -> "

    def _inside(self) -> Any:
        """The points of a tile."""
        unit = self.unit
        outer = [f"o{k}" for k in range(unit.n_outer)]
        band = [f"b{k}" for k in range(unit.n_band)]
        inside = [f"{o} = P{k}" for k, o in enumerate(outer)]
        inside += [f"P{unit.n_outer + k} <= {b} < E{k}" for k, b in enumerate(band)]
        where = f" : {' and '.join(inside)}" if inside else ""
        tile = f"{self._parameters()}{{ [{', '.join([*outer, *band])}]{where} }}"
        both = unit.outer.flat_range_product(unit.band)
        return both.intersect_range(self.polyhedra.set(tile).to_union_set()).domain()

    def _in_order(self) -> Any:
        """The order of a tile's points."""
        polyhedra, unit = self.polyhedra, self.unit
        band = [f"b{k}" for k in range(unit.n_band)]
        order = [band[d] for d in inner_order(polyhedra, unit)]
        turned = polyhedra.map(f"{{ [{', '.join(band)}] -> [{', '.join(order)}] }}").to_union_map()
        schedule = unit.band.apply_range(turned).flat_range_product(unit.inner)
        return schedule.intersect_domain(self._inside())

    def _in_turn(self, how: Arrangement) -> Any:
        """Another order: one statement after the other, of which products are boxes.

        Their innermost loops are those of a product.
        """
        polyhedra, points = self.polyhedra, self._in_order()
        parts = []
        for k, name in enumerate(s.name for s in self.nest.statements):
            if name not in self.unit.statements:
                continue
            own = points.intersect_domain(polyhedra.domains[name].to_union_set())
            product = how.products.get(name)
            if product is not None:
                own = self._box(self.statements[name], product, own.domain())
            parts.append(self._at(k, own.domain()).flat_range_product(own))
        # All of them by as many numbers.
        length = max(map(self._length, parts))
        for k, part in enumerate(parts):
            for _ in range(length - self._length(part)):
                parts[k] = parts[k].flat_range_product(self._at(0, part.domain()))
        return polyhedra.union_map(parts)

    def _box(self, s: Statement, product: Product, points: Any) -> Any:
        """The order of all points of a product that lie between those which there are."""
        polyhedra = self.polyhedra
        names = ", ".join(s.indices)
        head = f"{{ {s.name}[{names}] -> "
        made = f"{s.name}{_AT_ONCE}[{names}]"
        inside = None
        for v in s.indices:
            side = polyhedra.map(f"{head}[{v}] }}").to_union_map()
            between = polyhedra.map(f"{{ [x] -> {made} : {v} = x }}").to_union_map()
            own = points.apply(side).apply(between)
            inside = own if inside is None else inside.intersect(own)
        around = [v for d, v in enumerate(s.indices) if d not in product.loops]
        order = ", ".join([*around, *(s.indices[d] for d in product.loops)])
        return polyhedra.map(f"{{ {made} -> [{order}] }}").to_union_map().intersect_domain(inside)

    def _at(self, number: int, points: Any) -> Any:
        where = self.polyhedra.set(f"{{ [{number}] }}").to_union_set()
        return self.isl.UnionMap.from_domain_and_range(points, where)

    def _length(self, order: Any) -> int:
        maps: list[Any] = []
        order.foreach_map(maps.append)
        return int(max((one.dim(self.isl.dim_type.out) for one in maps), default=0))

    def _ast(self, schedule: Any) -> Any:
        unit = self.unit
        known = [f"P{unit.n_outer + k} < E{k}" for k in range(unit.n_band)]
        where = f" : {' and '.join(known)}" if known else ""
        context = self.polyhedra.set(f"{self._parameters()}{{ {where or ':'} }}")
        build = self.isl.AstBuild.from_context(context)
        return build.node_from_schedule_map(schedule)

    # -- loops -------------------------------------------------------------------------------------

    def _node(self, node: Any) -> None:
        types = self.isl.ast_node_type
        kind = node.get_type()
        if kind == types.for_:
            self._loop(node)
        elif kind == types.if_:
            self.write(f"if {number_of(self.isl, node.if_get_cond()).python}:")
            self.depth += 1
            self._node(node.if_get_then_node())
            self.depth -= 1
            if node.if_has_else_node():
                self.write("else:")
                self.depth += 1
                self._node(node.if_get_else_node())
                self.depth -= 1
        elif kind == types.block:
            children = node.block_get_children()
            for k in range(children.n_ast_node()):
                self._node(children.get_at(k))
        elif kind == types.user:
            self._user(node, None, {})
        else:
            self._node(node.mark_get_node())

    def _loop(self, node: Any) -> None:
        isl = self.isl
        if self._multiplication(node):
            return
        name = node.for_get_iterator().get_id().get_name()
        first = number_of(isl, node.for_get_init()).python
        if node.for_is_degenerate():
            self.write(f"{name} = {first}")
            self._node(node.for_get_body())
            return
        last, step = last_of(isl, node), number_of(isl, node.for_get_inc()).python
        body = node.for_get_body()
        if any(one.get_type() == isl.ast_node_type.for_ for one in _below(isl, body)):
            self.write(f"for {name} in range({first}, {last} + 1, {step}):")
            self.depth += 1
            self._node(body)
            self.depth -= 1
            return
        self._innermost(name, first, last, step, body)

    def _innermost(self, name: str, first: str, last: str, step: str, body: Any) -> None:
        """A loop that is cut where an element leaves its stored tile."""
        user = self.isl.ast_node_type.user
        calls = [one for one in _below(self.isl, body) if one.get_type() == user]
        begin = f"{name}_begin"
        self.write("if sp[0]:", "    return -1")
        self.write(f"{begin}, {name}_last = {first}, {last}")
        self.write(f"while {begin} <= {name}_last:")
        self.depth += 1
        self.write(f"{name} = {begin}", f"{name}_end = {name}_last")
        pointers: dict[Any, _Pointer] = {}
        for call in calls:
            s, indices = self._called(call)
            for access in s.accesses:
                key = self._key(access, indices)
                if key not in pointers:
                    strides = self._strides(access, indices, name)
                    if strides is not None:
                        pointers[key] = self._pointer(access, indices, name, strides)
        written = self._hold(body, pointers, [self._called(call) for call in calls])
        self.write(*(f"{p.held} = {p.name}[0]" for p in pointers.values() if p.held))
        self.write(f"for {name} in range({begin}, {name}_end + 1, {step}):")
        self.depth += 1
        self._inner(body, name, pointers)
        self.depth -= 1
        self.write(*(f"{p.name}[0] = {p.held}" for p in written))
        further = "" if step == "1" else f" // {step} * {step}"
        self.write(f"{begin} += ({name}_end - {begin}){further} + {step}")
        self.depth -= 1

    def _hold(
        self,
        body: Any,
        pointers: Mapping[Any, _Pointer],
        calls: Sequence[tuple[Statement, list[Number]]],
    ) -> list[_Pointer]:
        """Hold elements in variables that a loop always touches; those that it writes.

        No other element of their arrays is touched, so that nothing else changes them. LLVM does
        not know that, and would go by way of memory each time.
        """
        keys: dict[str, set[Any]] = {}
        written, sure = set(), set()
        for s, indices in calls:
            for access in s.accesses:
                key = self._key(access, indices)
                keys.setdefault(access.array, set()).add(key)
                if access.is_write:
                    written.add(key)
        for call in self._unconditional(body):
            s, indices = self._called(call)
            sure |= {self._key(a, indices) for a in s.accesses if a.is_sure and not a.guards}
        found = []
        for key, pointer in pointers.items():
            if pointer.stride == 0 and len(keys[pointer.array]) == 1 and key in sure:
                pointer.held = f"r{pointer.name[1:]}"
                if key in written:
                    found.append(pointer)
        return found

    def _unconditional(self, node: Any) -> Iterator[Any]:
        """What is done in each iteration of a loop with such a body."""
        types = self.isl.ast_node_type
        kind = node.get_type()
        if kind == types.user:
            yield node
        elif kind == types.block:
            children = node.block_get_children()
            for k in range(children.n_ast_node()):
                yield from self._unconditional(children.get_at(k))
        elif kind == types.mark:
            yield from self._unconditional(node.mark_get_node())

    def _inner(self, node: Any, name: str, pointers: dict[Any, _Pointer]) -> None:
        types = self.isl.ast_node_type
        kind = node.get_type()
        if kind == types.if_:
            self.write(f"if {number_of(self.isl, node.if_get_cond()).python}:")
            self.depth += 1
            self._inner(node.if_get_then_node(), name, pointers)
            self.depth -= 1
            if node.if_has_else_node():
                self.write("else:")
                self.depth += 1
                self._inner(node.if_get_else_node(), name, pointers)
                self.depth -= 1
        elif kind == types.block:
            children = node.block_get_children()
            for k in range(children.n_ast_node()):
                self._inner(children.get_at(k), name, pointers)
        elif kind == types.user:
            self._user(node, name, pointers)
        else:
            self._inner(node.mark_get_node(), name, pointers)

    # -- products ----------------------------------------------------------------------------------

    def _multiplication(self, node: Any) -> bool:
        """Write three loops that are a product as calls of the kernel; whether they are."""
        isl, types = self.isl, self.isl.ast_node_type
        loops: dict[str, tuple[str, str]] = {}
        while node.get_type() == types.for_ and len(loops) < 3:
            name = node.for_get_iterator().get_id().get_name()
            first = last = number_of(isl, node.for_get_init()).python
            if not node.for_is_degenerate():
                last = last_of(isl, node)
                if number_of(isl, node.for_get_inc()).python != "1":
                    return False
            loops[name] = first, last
            node = node.for_get_body()
        if node.get_type() != types.user or len(loops) != 3 or self.arrangement is None:
            return False
        called = node.user_get_expr().get_op_arg(0).get_id().get_name()
        if not called.endswith(_AT_ONCE):
            return False
        inner = re.compile(rf"\b({'|'.join(loops)})\b")
        if any(inner.search(bound) for ends in loops.values() for bound in ends):
            # No box.
            return False
        s, indices = self._called(node)
        product = self.arrangement.products[s.name]
        by: list[tuple[str, int]] = []
        for v in product.loops:
            own = [(n, k) for n, k in (indices[v].terms or {}).items() if n in loops]
            if len(own) != 1 or abs(own[0][1]) != 1:
                return False
            by += own
        if len({name for name, _ in by}) != 3:
            return False
        self._multiplied(product, s, indices, [(name, *loops[name], k) for name, k in by])
        return True

    def _multiplied(
        self,
        product: Product,
        s: Statement,
        indices: list[Number],
        loops: Sequence[tuple[str, str, str, int]],
    ) -> None:
        """Write a product of a box of points: each of its loops with its ends and direction."""
        number = self.count
        self.count += 1
        names = [f"{kind}{number}" for kind in ("row", "col", "sum")]
        inner = list(indices)
        for v, name, (index, first, last, way) in zip(product.loops, names, loops, strict=True):
            ends = ("first", "last") if way > 0 else ("last", "first")
            for end, value in zip(ends, (first, last), strict=True):
                self.write(f"{index} = {value}", f"{name}_{end} = {indices[v].python}")
            inner[v] = Number(name, {name: 1})
        accesses = (product.result, product.left, product.right)
        pairs = ((0, 1), (0, 2), (2, 1))
        depth = self.depth
        for d, name in enumerate(names):
            self.write(f"{name} = {name}_first", f"while {name} <= {name}_last:")
            self.depth += 1
            self.write(f"{name}_end = {name}_last")
            cuts: dict[str, None] = {}
            for access, pair, axes in zip(accesses, pairs, product.places, strict=True):
                if d not in pair:
                    continue
                axis = axes[pair.index(d)]
                tile = self.tiles[access.array][axis]
                if tile < self.nest.arrays[access.array][0][axis]:
                    x = self._subscript(access.subscripts[axis].python, inner)
                    cuts[f"up({name}_end, {name}, {x} % {tile}, {tile}, 1)"] = None
            self.write(*(f"{name}_end = {cut}" for cut in cuts))
        starts, strides = [], []
        for access, axes in zip(accesses, product.places, strict=True):
            xs = [self._subscript(one.python, inner) for one in access.subscripts]
            starts.append(f"find_{self.index(access.array)}(st, ar, {', '.join(xs)})")
            apart = _apart(self.tiles[access.array])
            strides += [apart[axis] for axis in axes]
        extents = [f"{name}_end + 1 - {name}" for name in names]
        made = _Placed(self, s, indices, ()).visit(copy.deepcopy(product.factor))
        found = _native.product_function(product.dtype.name)
        assert found is not None
        given = [f"{found[1]}", *starts, *extents, *map(str, strides), ast.unparse(made)]
        self.write(
            f"if product(multiply, {', '.join(given)}, workspace, room, stop) != 0:",
            "    return -1",
        )
        for name in reversed(names):
            self.write(f"{name} = {name}_end + 1")
            self.depth -= 1
        assert self.depth == depth
        sizes = [
            min(
                self.tiles[a.array][axes[p.index(d)]]
                for a, p, axes in zip(accesses, pairs, product.places, strict=True)
                if d in p
            )
            for d in range(3)
        ]
        turned = strides[2] < strides[3], strides[4] < strides[5]
        self.multiplied[s.name] = product.dtype.name, (sizes[0], sizes[1], sizes[2]), turned

    # -- elements ----------------------------------------------------------------------------------

    def _called(self, node: Any) -> tuple[Statement, list[Number]]:
        expr = node.user_get_expr()
        s = self.statements[expr.get_op_arg(0).get_id().get_name().removesuffix(_AT_ONCE)]
        arguments = range(1, expr.get_op_n_arg())
        return s, [number_of(self.isl, expr.get_op_arg(k)) for k in arguments]

    @staticmethod
    def _key(access: Access, indices: Sequence[Number]) -> Any:
        return access.element, tuple(one.python for one in indices)

    @staticmethod
    def _subscript(text: str, indices: Sequence[Number]) -> str:
        return _INDEX.sub(lambda m: indices[int(m.group(1))].python, text)

    @staticmethod
    def _strides(access: Access, indices: Sequence[Number], name: str) -> list[int] | None:
        """By how much each subscript grows with the index of a loop; None: in no such way."""
        found = []
        for subscript in access.subscripts:
            if subscript.terms is None:
                return None
            factor = 0
            for index, times in subscript.terms.items():
                terms = indices[int(index[1:])].terms
                if terms is None:
                    return None
                factor += times * terms.get(name, 0)
            found.append(factor)
        return found

    def _pointer(
        self, access: Access, indices: Sequence[Number], name: str | None, strides: Sequence[int]
    ) -> _Pointer:
        """Write where an element is; and where its tile ends along the loop."""
        array, k = access.array, self.count
        self.count += 1
        i = self.arrays.index(array)
        shape, tile = self.nest.arrays[array][0], self.tiles[array]
        found = []
        for a, subscript in enumerate(access.subscripts):
            x = self._subscript(subscript.python, indices)
            if strides[a] and tile[a] < shape[a]:
                self.write(f"x{k}_{a} = {x}")
                x = f"x{k}_{a}"
                way = f"{name}, {x} % {tile[a]}, {tile[a]}, {abs(strides[a])}"
                reach = "up" if strides[a] > 0 else "down"
                self.write(f"{name}_end = {reach}({name}_end, {way})")
            found.append(x)
        self.write(f"q{k} = at_{i}(find_{i}(st, ar, {', '.join(found)}))")
        apart = _apart(tile)
        stride = sum(s * b for s, b in zip(strides, apart, strict=True))
        return _Pointer(f"q{k}", array, stride)

    def _finder(self, i: int, array: str, first: int) -> str:
        """The source of a function that says where an element of an array is.

        What is not touched after all may lie anywhere.
        """
        shape, dtype = self.nest.arrays[array]
        tile = self.tiles[array]
        xs = [f"x{a}" for a in range(len(tile))]
        lines = [f"def find_{i}(st, ar, {', '.join(xs)}):"]
        place, offset = "0", ""
        for a, (x, apart) in enumerate(zip(xs, _apart(tile), strict=True)):
            low, count = f"ar[{first + 2 * a}]", f"ar[{first + 2 * a + 1}]"
            if tile[a] < shape[a]:
                lines.append(f"    t{a} = {x} // {tile[a]}")
                inside = f"min(max(t{a} - {low}, 0), {count} - 1)"
                place = inside if place == "0" else f"({place}) * {count} + {inside}"
                offset += f" + ({x} - t{a} * {tile[a]}) * {apart * dtype.itemsize}"
            else:
                offset += f" + {x} * {apart * dtype.itemsize}"
        lines.append(f"    k = ar[{first + 2 * len(tile)}] + {place}")
        lines.append(f"    return st[ar[k]]{offset}")
        return "\n".join(lines)

    def _user(self, node: Any, name: str | None, pointers: Mapping[Any, _Pointer]) -> None:
        s, indices = self._called(node)
        elements = []
        for access in s.accesses:
            pointer = pointers.get(self._key(access, indices))
            if pointer is None:
                pointer = self._pointer(access, indices, None, [0] * len(access.subscripts))
                elements.append(f"{pointer.name}[0]")
            elif pointer.held:
                elements.append(pointer.held)
            elif pointer.stride:
                times = "" if pointer.stride == 1 else f"{pointer.stride} * "
                elements.append(f"{pointer.name}[{times}({name} - {name}_begin)]")
            else:
                elements.append(f"{pointer.name}[0]")
        for statement in s.body:
            made = _Placed(self, s, indices, elements).visit(copy.deepcopy(statement))
            self.write(*ast.unparse(ast.fix_missing_locations(made)).splitlines())

    def index(self, array: str) -> int:
        """Where an array stands among those that are touched."""
        return self.arrays.index(array)


def _apart(tile: Sequence[int]) -> list[int]:
    """How many elements lie between one and the next along each axis of a tile."""
    return [math.prod(tile[a + 1 :]) for a in range(len(tile))]


def _below(isl: Any, node: Any) -> Iterator[Any]:
    """A node, and all below it."""
    types = isl.ast_node_type
    yield node
    kind = node.get_type()
    if kind == types.for_:
        yield from _below(isl, node.for_get_body())
    elif kind == types.if_:
        yield from _below(isl, node.if_get_then_node())
        if node.if_has_else_node():
            yield from _below(isl, node.if_get_else_node())
    elif kind == types.block:
        children = node.block_get_children()
        for k in range(children.n_ast_node()):
            yield from _below(isl, children.get_at(k))
    elif kind == types.mark:
        yield from _below(isl, node.mark_get_node())


class _Placed(ast.NodeTransformer):
    """Puts elements and indices in the place of names."""

    def __init__(
        self, source: _Source, s: Statement, indices: Sequence[Number], elements: Sequence[str]
    ) -> None:
        self._source, self._s, self._indices, self._elements = source, s, indices, elements

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id.startswith("."):
            number = int(node.id[1:])
            text = self._elements[number]
            array = self._s.accesses[number].array
            is_bool = self._source.nest.arrays[array][1].kind == "b"
            if is_bool and isinstance(node.ctx, ast.Load):
                text = f"({text} != 0)"
            return _expression(text, node.ctx)
        if getattr(node, "is_index", False):
            return _expression(self._indices[int(node.id[1:])].python, node.ctx)
        if node.id.startswith("own_"):
            return ast.Name(f"{node.id}_{self._s.name}", node.ctx)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        node.value = self.visit(node.value)
        target = node.targets[0]
        if isinstance(target, ast.Name) and target.id.startswith("."):
            array = self._s.accesses[int(target.id[1:])].array
            value: ast.expr = node.value
            if self._source.nest.arrays[array][1].kind == "b":
                value = ast.Call(ast.Name("bool", ast.Load()), [value], [])
            # What is assigned is rounded as an element is.
            kind = ast.Name(f"as_{self._source.index(array)}", ast.Load())
            node.value = ast.Call(kind, [value], [])
        node.targets = [self.visit(target)]
        return node


def _expression(text: str, context: ast.expr_context) -> ast.expr:
    found = ast.parse(text, mode="eval").body
    found.ctx = context  # type: ignore[attr-defined]
    return found


def kernel_name(nest: Nest, statements: Sequence[str]) -> str:
    """What the code of some statements is called, for people."""
    lines = {s.name: s.where.rsplit(":", 1)[1] for s in nest.statements}
    where = ", ".join(dict.fromkeys(lines[s] for s in statements))
    return f"{nest.text.function.__name__}, line {where}"


def code_of(
    polyhedra: Polyhedra,
    unit: Unit,
    tiles: Mapping[str, tuple[int, ...]],
    kinds: Sequence[str],
    arrangement: Arrangement | None = None,
) -> Code:
    """The code of a tile of a unit.

    Parameters
    ----------
    polyhedra : Polyhedra
        The nest.
    unit : Unit
        The unit.
    tiles : mapping
        Into which tiles each array is cut.
    kinds : sequence of str
        Those of the numbers, ``"float"`` or ``"int"``.
    arrangement : Arrangement, optional
        Where there are products, how they are multiplied at once.
    """
    return _Source(polyhedra, unit, tiles, kinds, arrangement).made()


_KEPT = 64
"""Compiled kernels that are kept, at most."""

_compiled: dict[Any, Any] = {}


def compiled(code: Code, nest: Nest) -> Any:
    """The function that Numba makes of a code, as the engine calls it.

    Raises
    ------
    InvalidTypeError
        There is no such computation with elements of these types.
    """
    kinds = tuple(nest.arrays[p][1] for p in code.arrays)
    names = tuple(sorted((name, id(value)) for name, value in nest.names.items()))
    key = (code.finders, code.source, kinds, names)
    if key not in _compiled:
        while len(_compiled) >= _KEPT:
            del _compiled[next(iter(_compiled))]
        # What names mean is kept, so that nothing else gets its number.
        _compiled[key] = _function(code, nest), dict(nest.names)
    return _compiled[key][0]


def _function(code: Code, nest: Nest) -> Any:
    numba = numba_module("loops")
    meaning = meaning_of(nest.names)
    name = None
    if meaning is not None:
        kinds = [nest.arrays[p][1].str for p in code.arrays]
        name = digest("loops", (code.finders, code.source, kinds, meaning))
    names: dict[str, Any] = {
        **{f"given_{name}": value for name, value in nest.names.items()},
        "at_int": pointer_to(numba.int64),
        "at_float": pointer_to(numba.float64),
        "at_byte": pointer_to(numba.uint8),
        "product": calling_products(),
        "up": numba.njit(_up),
        "down": numba.njit(_down),
    }
    options = {"error_model": "numpy", "nogil": True}
    try:
        for i, array in enumerate(code.arrays):
            dtype = nest.arrays[array][1]
            own = numba.uint8 if dtype.kind == "b" else numba.from_dtype(dtype)
            names |= {f"at_{i}": pointer_to(own), f"as_{i}": own}
            exec(compile(code.finders[i], f"<loops {code.name}>", "exec"), names)
            find = names[f"find_{i}"]
            names[f"find_{i}"] = numba.njit(**options)(find if name is None else named(find, name))
        exec(compile(code.source, f"<loops {code.name}>", "exec"), names)
        return compiled_function(names["kernel"], name)
    except numba.core.errors.NumbaError as error:
        told = ", ".join(f"{p}: {nest.arrays[p][1]}" for p in code.arrays)
        raise InvalidTypeError(
            f"{code.name}: Numba does not compile it for elements of these types ({told}): "
            f"{numba_says(error)}"
        ) from None
