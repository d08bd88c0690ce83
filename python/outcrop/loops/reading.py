"""A nest as it is read with sizes: loops, affine conditions, and runs of assignments."""

import ast
import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from outcrop.compiled.function import FunctionText
from outcrop.loops.affine import Affine, index_name
from outcrop.loops.syntax import is_idle

__all__ = ["Condition", "Index", "Item", "Loop", "Reader", "Run", "Scope"]

_MOST_DEPTH = 8

_MOST_COPIES = 256
"""Of bodies of loops whose index has to be a number."""


@dataclass(frozen=True)
class Index:
    """The index of a loop: its first value, where it ends, and the step.

    Attributes
    ----------
    start, stop : Affine
        As in ``range``.
    step : int
        Not 0.
    """

    start: Affine
    stop: Affine
    step: int

    def constraints(self, name: str) -> list[str]:
        """What holds of its values, for isl."""
        a, b, step = self.start.isl, self.stop.isl, self.step
        found = [f"{name} >= {a}", f"{name} < {b}"] if step > 0 else []
        found = found or [f"{name} <= {a}", f"{name} > {b}"]
        if abs(step) > 1:
            found.append(f"({name} - {a}) mod {abs(step)} = 0")
        return found


@dataclass
class Run:
    """Assignments, and conditions on them."""

    body: list[ast.stmt]


@dataclass
class Loop:
    """A loop."""

    name: str
    index: Index
    body: list["Item"]


@dataclass
class Condition:
    """What is done where an affine condition holds."""

    guard: str
    body: list["Item"]


Item = Run | Loop | Condition


@dataclass
class Scope:
    """What names of integers mean at a place."""

    known: dict[str, Affine] = field(default_factory=dict)
    depth: int = 0

    def inner(self, name: str, meaning: Affine, depth: int) -> "Scope":
        """What is known in the body of a loop with such an index."""
        return Scope({**self.known, name: meaning}, depth)


class Reader:
    """Reads a function with the shapes and numbers that it is called with."""

    def __init__(
        self,
        text: FunctionText,
        shapes: Mapping[str, tuple[int, ...]],
        numbers: Mapping[str, float],
    ) -> None:
        self.text, self.shapes, self.numbers = text, shapes, numbers
        self.refuse = text.refuse
        self.conditions = 0
        self.copies = 0
        self.taken = {n.id for n in ast.walk(text.tree) if isinstance(n, ast.Name)}
        self.taken |= set(text.parameters)
        self.fixed = self._fixed_indices()
        self.defined = self._definitions()
        self.inlined: dict[str, ast.expr] = {}

    def _fixed_indices(self) -> set[str]:
        """Indices that are exponents, and have to be numbers for anything to be affine."""
        found: set[str] = set()
        for node in ast.walk(self.text.tree):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow | ast.LShift):
                base = node.left
                if isinstance(base, ast.Constant) and isinstance(base.value, int):
                    inner = ast.walk(node.right)
                    found |= {n.id for n in inner if isinstance(n, ast.Name)}
        return found

    def _definitions(self) -> dict[str, int]:
        """How often each name is assigned in the text."""
        found: dict[str, int] = {}
        for node in ast.walk(self.text.tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found[node.id] = found.get(node.id, 0) + 1
        return found

    # -- integers ----------------------------------------------------------------------------------

    def affine(self, node: ast.expr, scope: Scope) -> Affine | None:
        """An integer that is affine in indices; None if it is not."""
        match node:
            case ast.Constant(value=int() as value) if not isinstance(value, bool):
                return Affine.number(value)
            case ast.Name(id=name):
                return self._integer(name, scope)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                found = self.affine(operand, scope)
                return None if found is None else found * -1
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.affine(operand, scope)
            case ast.BinOp(left=left, op=op, right=right):
                a, b = self.affine(left, scope), self.affine(right, scope)
                return None if a is None or b is None else self._operation(a, op, b)
            case ast.Call(func=ast.Name(id="min" | "max" as which), args=args, keywords=[]):
                found_all = [self.affine(one, scope) for one in args]
                known = [one for one in found_all if one is not None]
                if len(known) == len(found_all) > 1:
                    return Affine.extreme(which, known)
            case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)], keywords=[]):
                if self.shapes.get(name):
                    return Affine.number(self.shapes[name][0])
            case ast.Attribute(value=ast.Name(id=name), attr="size" | "ndim" as attr):
                if name in self.shapes:
                    shape = self.shapes[name]
                    return Affine.number(len(shape) if attr == "ndim" else int(np.prod(shape)))
            case ast.Subscript(value=ast.Attribute(value=ast.Name(id=name), attr="shape")):
                axis = self.affine(node.slice, scope)
                if name in self.shapes and axis is not None and axis.value is not None:
                    shape = self.shapes[name]
                    if not -len(shape) <= axis.value < len(shape):
                        self.refuse(node, f"{name} has {len(shape)} axes")
                    return Affine.number(shape[axis.value])
        return None

    def _integer(self, name: str, scope: Scope) -> Affine | None:
        if name in scope.known:
            return scope.known[name]
        if name in self.defined:
            return None
        value = self.numbers.get(name, self.text.outside.get(name))
        if name in self.text.parameters and name not in self.numbers:
            return None
        if isinstance(value, int | np.integer) and not isinstance(value, bool):
            return Affine.number(int(value))
        return None

    @staticmethod
    def _operation(a: Affine, op: ast.operator, b: Affine) -> Affine | None:
        match op:
            case ast.Add():
                return a + b
            case ast.Sub():
                return a - b
            case ast.Mult() if b.value is not None:
                return a * b.value
            case ast.Mult() if a.value is not None:
                return b * a.value
            case ast.FloorDiv() if b.value is not None and b.value > 0:
                return a.floor(b.value)
            case ast.Mod() if b.value is not None and b.value > 0:
                return a.modulo(b.value)
            case ast.Pow() if a.value is not None and b.value is not None and 0 <= b.value < 64:
                return Affine.number(a.value**b.value)
            case ast.LShift() if a.value is not None and b.value is not None and 0 <= b.value < 64:
                return Affine.number(a.value << b.value)
            case ast.RShift() if b.value is not None and 0 <= b.value < 64:
                return a.floor(1 << b.value)
        return None

    def condition(self, node: ast.expr, scope: Scope) -> str | None:
        """A condition on indices alone, for isl; None if it is none."""
        signs: dict[type, str] = {
            ast.Lt: "<",
            ast.LtE: "<=",
            ast.Gt: ">",
            ast.GtE: ">=",
            ast.Eq: "=",
            ast.NotEq: "!=",
        }
        match node:
            case ast.Compare(left=left, ops=ops, comparators=rest):
                sides = [self.affine(one, scope) for one in (left, *rest)]
                found = []
                for k, op in enumerate(ops):
                    a, b = sides[k], sides[k + 1]
                    if a is None or b is None or type(op) not in signs:
                        return None
                    found.append(f"{a.isl} {signs[type(op)]} {b.isl}")
                return f"({' and '.join(found)})"
            case ast.BoolOp(op=op, values=values):
                parts = [self.condition(one, scope) for one in values]
                if any(one is None for one in parts):
                    return None
                word = " and " if isinstance(op, ast.And) else " or "
                return f"({word.join(map(str, parts))})"
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                inner = self.condition(operand, scope)
                return None if inner is None else f"(not {inner})"
        return None

    # -- loops -------------------------------------------------------------------------------------

    def block(self, body: Sequence[ast.stmt], scope: Scope, when: list[ast.expr]) -> list[Item]:
        """The items of a body; `when` are conditions on elements that lie around."""
        items: list[Item] = []

        def add(one: ast.stmt) -> None:
            for test in reversed(when):
                one = ast.copy_location(ast.If(copy.deepcopy(test), [one], []), one)
            if not items or not isinstance(items[-1], Run):
                items.append(Run([]))
            last = items[-1]
            assert isinstance(last, Run)
            last.body.append(one)

        for one in body:
            if is_idle(one):
                continue
            if isinstance(one, ast.For):
                items += self._loop(one, scope, when)
            elif isinstance(one, ast.If):
                self._if(one, scope, when, items, add)
            else:
                one = self._plain(one)
                if not self._is_integer(one, scope) and not self._is_inlined(one):
                    add(self._named(one, scope))
        return items

    @staticmethod
    def _plain(one: ast.stmt) -> ast.stmt:
        if isinstance(one, ast.AnnAssign):
            assert one.value is not None
            return ast.copy_location(ast.Assign([one.target], one.value), one)
        return one

    def _is_integer(self, one: ast.stmt, scope: Scope) -> bool:
        """Whether it names an integer that is affine: then the name is only short for it."""
        if not isinstance(one, ast.Assign) or not isinstance(one.targets[0], ast.Name):
            return False
        name = one.targets[0].id
        found = self.affine(one.value, scope)
        if found is None or self.defined.get(name) != 1:
            return False
        scope.known[name] = found
        return True

    def _is_inlined(self, one: ast.stmt) -> bool:
        """Whether it names what never changes: then it is computed where it is used."""
        if not isinstance(one, ast.Assign) or not isinstance(one.targets[0], ast.Name):
            return False
        name = one.targets[0].id
        if self.defined.get(name) != 1:
            return False
        inner = [n for n in ast.walk(one.value) if isinstance(n, ast.Name)]
        if any(
            (n.id in self.defined and n.id not in self.inlined) or n.id in self.shapes
            for n in inner
        ):
            return False
        self.inlined[name] = _Inlining(self.inlined).visit(copy.deepcopy(one.value))
        return True

    def _named(self, one: ast.stmt, scope: Scope) -> ast.stmt:
        """With the integers put in that names stand for, as these may mean others elsewhere."""
        made = _Integers(self, scope).visit(copy.deepcopy(one))
        return made  # type: ignore[no-any-return]

    def _if(
        self,
        one: ast.If,
        scope: Scope,
        when: list[ast.expr],
        items: list[Item],
        add: Any,
    ) -> None:
        if not _has_loop(one):
            # It stays with what is beside it, where names may be assigned.
            add(self._named(one, scope))
            return
        guard = self.condition(one.test, scope)
        if guard is not None:
            then = self.block(one.body, Scope(dict(scope.known), scope.depth), when)
            items.append(Condition(guard, then))
            if one.orelse:
                other = self.block(one.orelse, Scope(dict(scope.known), scope.depth), when)
                items.append(Condition(f"(not {guard})", other))
            return
        # What elements decide is kept, since loops may change them.
        name = f"when{self.conditions}"
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        self.conditions += 1
        value = ast.Call(ast.Name("bool", ast.Load()), [one.test], [])
        kept = ast.Assign([ast.Name(name, ast.Store())], value)
        for inner in ast.walk(kept):
            ast.copy_location(inner, one)
        add(self._named(kept, scope))
        test: ast.expr = ast.copy_location(ast.Name(name, ast.Load()), one)
        items += self.block(one.body, Scope(dict(scope.known), scope.depth), [*when, test])
        if one.orelse:
            other_test = ast.copy_location(ast.UnaryOp(ast.Not(), test), one)
            inner_scope = Scope(dict(scope.known), scope.depth)
            items += self.block(one.orelse, inner_scope, [*when, other_test])

    def _loop(self, one: ast.For, scope: Scope, when: list[ast.expr]) -> list[Item]:
        assert isinstance(one.target, ast.Name) and isinstance(one.iter, ast.Call)
        name = one.target.id
        if self.defined.get(name, 0) > 1:
            self._check_index(name)
        if name in self.text.parameters:
            self.refuse(one, f"{name} is a parameter, and stays what it is")
        bounds = []
        for argument in one.iter.args:
            found = self.affine(argument, scope)
            if found is None:
                self.refuse(one, f"{ast.unparse(argument)} is not affine in the indices of loops")
            bounds.append(found)
        start, stop, by = Affine.number(0), bounds[0], Affine.number(1)
        if len(bounds) > 1:
            start, stop = bounds[:2]
        if len(bounds) > 2:
            by = bounds[2]
        step = by.value
        if step is None:
            self.refuse(one, "the step of a loop is a constant")
        if step == 0:
            self.refuse(one, "the step of a loop is not 0")
        if name in self.fixed:
            if start.value is None or stop.value is None:
                self.refuse(one, f"{name} is an exponent, and its bounds are not constant")
            found_items: list[Item] = []
            for value in range(start.value, stop.value, step):
                self.copies += 1
                if self.copies > _MOST_COPIES:
                    self.refuse(
                        one, f"{name} is an exponent, and has more than {_MOST_COPIES} values"
                    )
                inner = scope.inner(name, Affine.number(value), scope.depth)
                found_items += self.block(one.body, inner, when)
            return found_items
        if scope.depth >= _MOST_DEPTH:
            self.refuse(one, f"more than {_MOST_DEPTH} loops lie in each other")
        index = Affine.index(index_name(scope.depth))
        body = self.block(one.body, scope.inner(name, index, scope.depth + 1), when)
        return [Loop(name, Index(start, stop, step), body)]

    def _check_index(self, name: str) -> None:
        """An index may be that of several loops, and nothing else."""
        for node in ast.walk(self.text.tree):
            targets: list[ast.expr] = []
            if isinstance(node, ast.Assign):
                targets = node.targets
            elif isinstance(node, ast.AugAssign | ast.AnnAssign):
                targets = [node.target]
            if any(isinstance(t, ast.Name) and t.id == name for t in targets):
                self.refuse(node, f"{name} is the index of a loop, and is not assigned")


class _Inlining(ast.NodeTransformer):
    """Puts what never changes in the place of its name."""

    def __init__(self, inlined: Mapping[str, ast.expr]) -> None:
        self._inlined = inlined

    def visit_Name(self, node: ast.Name) -> ast.AST:
        found = self._inlined.get(node.id)
        if found is None or not isinstance(node.ctx, ast.Load):
            return node
        return ast.copy_location(copy.deepcopy(found), node)


class _Integers(ast.NodeTransformer):
    """Puts integers in the place of names, and conditions on them as isl has them.

    Subscripts become constants, of `Affine`, and an affine condition gets an attribute.
    """

    def __init__(self, reader: Reader, scope: Scope) -> None:
        self._reader, self._scope = reader, scope

    def visit_If(self, node: ast.If) -> ast.AST:
        guard = self._reader.condition(node.test, self._scope)
        node.test = self.visit(node.test)
        node.test.guard = guard  # type: ignore[attr-defined]
        for part in ("body", "orelse"):
            found = [self._reader._plain(s) for s in getattr(node, part) if not is_idle(s)]
            setattr(node, part, [self.visit(s) for s in found])
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        guard = self._reader.condition(node.test, self._scope)
        self.generic_visit(node)
        node.test.guard = guard  # type: ignore[attr-defined]
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        guards = [self._reader.condition(one, self._scope) for one in node.values]
        self.generic_visit(node)
        for one, guard in zip(node.values, guards, strict=True):
            one.guard = guard  # type: ignore[attr-defined]
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        reader = self._reader
        if isinstance(node.value, ast.Attribute):
            return self._value(node)
        index: list[ast.expr] = []
        base: ast.expr = node
        while isinstance(base, ast.Subscript):
            own = base.slice.elts if isinstance(base.slice, ast.Tuple) else [base.slice]
            index, base = [*own, *index], base.value
        if not isinstance(base, ast.Name) or base.id not in reader.shapes:
            reader.refuse(node, f"{ast.unparse(base)} is no array among the parameters")
        shape = reader.shapes[base.id]
        if len(index) != len(shape):
            reader.refuse(
                node, f"{base.id} has {len(shape)} axes, and here {len(index)} subscripts"
            )
        found = []
        for one, extent in zip(index, shape, strict=True):
            own_index = reader.affine(one, self._scope)
            if own_index is None:
                reader.refuse(
                    node, f"the subscript {ast.unparse(one)} is not affine in the indices of loops"
                )
            if own_index.value is not None and own_index.value < 0:
                # As everywhere, from the end.
                own_index = Affine.number(own_index.value + extent)
            found.append(own_index)
        made = ast.Subscript(ast.Name(base.id, ast.Load()), ast.Constant(None), node.ctx)
        made.subscripts = tuple(found)  # type: ignore[attr-defined]
        return ast.copy_location(made, node)

    def _value(self, node: ast.expr) -> ast.expr:
        found = self._reader.affine(node, self._scope)
        if found is None:
            self._reader.refuse(node, f"{ast.unparse(node)} is not known here")
        return _parsed(found.python, node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if isinstance(node.value, ast.Name) and node.value.id in self._reader.shapes:
            return self._value(node)
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id == "len":
            return self._value(node)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        reader = self._reader
        if isinstance(node.ctx, ast.Load):
            if node.id in self._scope.known:
                return _parsed(self._scope.known[node.id].python, node)
            if node.id in reader.inlined:
                inner = copy.deepcopy(reader.inlined[node.id])
                return self.visit(ast.copy_location(inner, node))  # type: ignore[no-any-return]
        return node


def _parsed(text: str, node: ast.AST) -> ast.expr:
    found = ast.parse(text, mode="eval").body
    for inner in ast.walk(found):
        ast.copy_location(inner, node)
        if isinstance(inner, ast.Name):
            inner.is_index = True  # type: ignore[attr-defined]
    return found


def _has_loop(one: ast.AST) -> bool:
    return any(isinstance(node, ast.For) for node in ast.walk(one))
