"""What a loop nest does, with the sizes that it is called with: statements, and what they touch.

Runs of assignments in the body of one loop are one *statement*: they stay together, and names that
they assign before they use them are theirs alone. Names that live longer become small arrays, with
an axis for each loop in every iteration of which they are assigned anew.
"""

import ast
import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from outcrop.compiled.function import FunctionText
from outcrop.loops.affine import Affine, index_name

__all__ = ["Access", "Index", "Nest", "Statement", "check_text", "read_nest"]

_MOST_DEPTH = 8

_MOST_COPIES = 256
"""Of bodies of loops whose index has to be a number."""

_STATEMENTS = "for over range(...), if, and assignments"

_REDUCING = (ast.Add, ast.Mult)


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


@dataclass(frozen=True)
class Access:
    """An element that a statement reads or writes.

    Attributes
    ----------
    array : str
        Which array.
    subscripts : tuple of Affine
        Which element.
    is_write : bool
        Whether it is written.
    guards : tuple of str
        When it is, for isl.
    is_sure : bool
        Whether it always is then; it may depend on elements.
    where, text : str
        The line, as a place and as text.
    """

    array: str
    subscripts: tuple[Affine, ...]
    is_write: bool
    guards: tuple[str, ...]
    is_sure: bool
    where: str
    text: str

    @property
    def element(self) -> tuple[str, tuple[str, ...]]:
        """What tells it from other elements."""
        return self.array, tuple(s.isl for s in self.subscripts)


@dataclass
class Statement:
    """Assignments that are done for every point of a domain.

    Attributes
    ----------
    name : str
        What isl calls it.
    loops : tuple of Index
        Those around it, from outside to inside.
    guards : tuple of str
        When it is done, for isl.
    times : tuple of int
        Where each loop, and itself, stand in the body of the loop around.
    body : list of ast.stmt
        What is done; elements are names, ``.number`` of the access.
    accesses : list of Access
        What it touches.
    reduces : set of str
        Arrays that it only adds to, or multiplies.
    where, text : str
        Its first line, as a place and as text.
    """

    name: str
    loops: tuple[Index, ...]
    guards: tuple[str, ...]
    times: tuple[int, ...]
    body: list[ast.stmt]
    accesses: list[Access]
    reduces: set[str]
    where: str
    text: str

    @property
    def indices(self) -> tuple[str, ...]:
        """The names of the loops' indices."""
        return tuple(map(index_name, range(len(self.loops))))

    def domain(self) -> str:
        """All points, for isl."""
        found = list(self.guards)
        for name, index in zip(self.indices, self.loops, strict=True):
            found += index.constraints(name)
        return f"{self.name}[{', '.join(self.indices)}]" + (
            f" : {' and '.join(found)}" if found else ""
        )


@dataclass
class Nest:
    """A loop nest.

    Attributes
    ----------
    text : FunctionText
        What it was read from.
    statements : list of Statement
        In the order of the text.
    arrays : dict
        The extents and the type of the elements of each array, those of kept names among them.
    kept : dict
        Of each name that lives longer than a statement, the depth of the loops that it is kept for.
    scalars : tuple of str
        Parameters that are numbers, and used as such.
    names : dict
        What names from outside mean.
    """

    text: FunctionText
    statements: list[Statement]
    arrays: dict[str, tuple[tuple[int, ...], np.dtype[Any]]]
    kept: dict[str, int]
    scalars: tuple[str, ...]
    names: dict[str, Any]

    @property
    def written(self) -> tuple[str, ...]:
        """The arrays that are written, of those that are parameters."""
        found = {a.array for s in self.statements for a in s.accesses if a.is_write}
        return tuple(p for p in self.text.parameters if p in found)

    @property
    def used(self) -> tuple[str, ...]:
        """The arrays that are touched, of those that are parameters."""
        found = {a.array for s in self.statements for a in s.accesses}
        return tuple(p for p in self.text.parameters if p in found)


# -- what may be written ---------------------------------------------------------------------------


class _Separated(ast.NodeTransformer):
    """Assigns one by one what is assigned to several names at once."""

    def visit_Assign(self, node: ast.Assign) -> Any:
        target = node.targets[0]
        if len(node.targets) != 1 or not isinstance(target, ast.Tuple):
            return node
        value = node.value
        if isinstance(value, ast.Attribute) and value.attr == "shape":
            numbers = [ast.Constant(k) for k in range(len(target.elts))]
            values: list[ast.expr] = [ast.Subscript(value, k, ast.Load()) for k in numbers]
        elif isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts):
            values = value.elts
        else:
            return node
        names = {n.id for t in target.elts for n in ast.walk(t) if isinstance(n, ast.Name)}
        used = {n.id for v in values for n in ast.walk(v) if isinstance(n, ast.Name)}
        if names & used or not all(isinstance(t, ast.Name) for t in target.elts):
            return node
        made = [ast.Assign([t], v) for t, v in zip(target.elts, values, strict=True)]
        for one in made:
            for inner in ast.walk(one):
                ast.copy_location(inner, node)
        return made


def check_text(text: FunctionText) -> None:
    """Raise where a function is no loop nest, whatever it is called with."""
    text.tree = _Separated().visit(text.tree)

    def look(body: Sequence[ast.stmt]) -> None:
        for one in body:
            if isinstance(one, ast.For):
                if one.orelse:
                    text.refuse(one, "loops have no else")
                if not isinstance(one.target, ast.Name):
                    text.refuse(one, "a loop has one index")
                if not (
                    isinstance(one.iter, ast.Call)
                    and isinstance(one.iter.func, ast.Name)
                    and one.iter.func.id == "range"
                    and 1 <= len(one.iter.args) <= 3
                    and not one.iter.keywords
                ):
                    text.refuse(one, "loops run over range(...)")
                look(one.body)
            elif isinstance(one, ast.If):
                look(one.body)
                look(one.orelse)
            elif isinstance(one, ast.Assign):
                if len(one.targets) != 1:
                    text.refuse(one, "one thing is assigned at a time")
                _check_target(one.targets[0])
            elif isinstance(one, ast.AugAssign | ast.AnnAssign) and one.value is not None:
                _check_target(one.target)
            elif not _is_idle(one):
                text.refuse(one, f"a loop nest consists of {_STATEMENTS}")

    def _check_target(target: ast.expr) -> None:
        if isinstance(target, ast.Name):
            if target.id in text.parameters:
                text.refuse(target, f"{target.id} is a parameter, and stays what it is")
        elif not isinstance(target, ast.Subscript):
            text.refuse(target, "names and elements are assigned, and nothing else")

    look(text.tree.body)


def _is_idle(one: ast.stmt) -> bool:
    """Whether a statement does nothing: a documentation string, or an empty ``return``."""
    if isinstance(one, ast.Expr):
        return isinstance(one.value, ast.Constant)
    if isinstance(one, ast.Return):
        return one.value is None
    return isinstance(one, ast.Pass)


# -- with sizes ------------------------------------------------------------------------------------


@dataclass
class _Run:
    """Assignments, and conditions on them."""

    body: list[ast.stmt]


@dataclass
class _Loop:
    """A loop."""

    name: str
    index: Index
    body: list["_Item"]


@dataclass
class _Condition:
    """What is done where an affine condition holds."""

    guard: str
    body: list["_Item"]


_Item = _Run | _Loop | _Condition


@dataclass
class _Scope:
    """What names of integers mean at a place."""

    known: dict[str, Affine] = field(default_factory=dict)
    depth: int = 0

    def inner(self, name: str, meaning: Affine, depth: int) -> "_Scope":
        return _Scope({**self.known, name: meaning}, depth)


class _Reader:
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

    def affine(self, node: ast.expr, scope: _Scope) -> Affine | None:
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

    def _integer(self, name: str, scope: _Scope) -> Affine | None:
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

    def condition(self, node: ast.expr, scope: _Scope) -> str | None:
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

    def block(self, body: Sequence[ast.stmt], scope: _Scope, when: list[ast.expr]) -> list[_Item]:
        """The items of a body; `when` are conditions on elements that lie around."""
        items: list[_Item] = []

        def add(one: ast.stmt) -> None:
            for test in reversed(when):
                one = ast.copy_location(ast.If(copy.deepcopy(test), [one], []), one)
            if not items or not isinstance(items[-1], _Run):
                items.append(_Run([]))
            last = items[-1]
            assert isinstance(last, _Run)
            last.body.append(one)

        for one in body:
            if _is_idle(one):
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

    def _is_integer(self, one: ast.stmt, scope: _Scope) -> bool:
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

    def _named(self, one: ast.stmt, scope: _Scope) -> ast.stmt:
        """With the integers put in that names stand for, as these may mean others elsewhere."""
        made = _Integers(self, scope).visit(copy.deepcopy(one))
        return made  # type: ignore[no-any-return]

    def _if(
        self,
        one: ast.If,
        scope: _Scope,
        when: list[ast.expr],
        items: list[_Item],
        add: Any,
    ) -> None:
        if not _has_loop(one):
            # It stays with what is beside it, where names may be assigned.
            add(self._named(one, scope))
            return
        guard = self.condition(one.test, scope)
        if guard is not None:
            then = self.block(one.body, _Scope(dict(scope.known), scope.depth), when)
            items.append(_Condition(guard, then))
            if one.orelse:
                other = self.block(one.orelse, _Scope(dict(scope.known), scope.depth), when)
                items.append(_Condition(f"(not {guard})", other))
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
        items += self.block(one.body, _Scope(dict(scope.known), scope.depth), [*when, test])
        if one.orelse:
            other_test = ast.copy_location(ast.UnaryOp(ast.Not(), test), one)
            inner_scope = _Scope(dict(scope.known), scope.depth)
            items += self.block(one.orelse, inner_scope, [*when, other_test])

    def _loop(self, one: ast.For, scope: _Scope, when: list[ast.expr]) -> list[_Item]:
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
            found_items: list[_Item] = []
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
        return [_Loop(name, Index(start, stop, step), body)]

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

    def __init__(self, reader: _Reader, scope: _Scope) -> None:
        self._reader, self._scope = reader, scope

    def visit_If(self, node: ast.If) -> ast.AST:
        guard = self._reader.condition(node.test, self._scope)
        node.test = self.visit(node.test)
        node.test.guard = guard  # type: ignore[attr-defined]
        for part in ("body", "orelse"):
            found = [self._reader._plain(s) for s in getattr(node, part) if not _is_idle(s)]
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


# -- names that live longer than a statement -------------------------------------------------------


def _assigned_surely(body: Sequence[ast.stmt], name: str) -> tuple[bool, bool]:
    """Whether a run assigns a name on every way, and whether it may be used before that."""

    def uses(node: ast.AST) -> bool:
        return any(
            isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)
            for n in ast.walk(node)
        )

    for one in body:
        if isinstance(one, ast.Assign):
            if uses(one.value):
                return False, True
            target = one.targets[0]
            if isinstance(target, ast.Name) and target.id == name:
                return True, False
        elif isinstance(one, ast.AugAssign):
            target = one.target
            if uses(one.value) or (isinstance(target, ast.Name) and target.id == name):
                return False, True
        elif isinstance(one, ast.If):
            if uses(one.test):
                return False, True
            then, early = _assigned_surely(one.body, name)
            other, early_too = _assigned_surely(one.orelse, name)
            if early or early_too:
                return False, True
            if then and other:
                return True, False
    return False, False


def _mentions(item: _Item, name: str) -> bool:
    if isinstance(item, _Run):
        nodes = (n for one in item.body for n in ast.walk(one))
        return any(isinstance(n, ast.Name) and n.id == name for n in nodes)
    return any(_mentions(one, name) for one in item.body)


def _runs(items: Sequence[_Item]) -> Iterator[_Run]:
    for item in items:
        if isinstance(item, _Run):
            yield item
        else:
            yield from _runs(item.body)


def _fresh(items: Sequence[_Item], name: str) -> bool:
    """Whether a body assigns a name before it uses it, on every way."""
    for item in items:
        if isinstance(item, _Run):
            sure, early = _assigned_surely(item.body, name)
            if early:
                return False
            if sure:
                return True
        elif _mentions(item, name):
            return _fresh(item.body, name) and not any(
                _mentions(other, name) for other in items if other is not item
            )
    return True


def _kept_depth(items: Sequence[_Item], name: str, depth: int = 0) -> int | None:
    """How many loops a name is kept for; None where it is used before it is assigned."""
    own = depth if _fresh(items, name) else None
    inside = [item for item in items if _mentions(item, name)]
    if len(inside) == 1 and not isinstance(inside[0], _Run):
        further = depth + isinstance(inside[0], _Loop)
        found = _kept_depth(inside[0].body, name, further)
        return found if found is not None else own
    return own


def _locals(items: Sequence[_Item]) -> list[str]:
    found: dict[str, None] = {}
    for run in _runs(items):
        for one in run.body:
            for node in ast.walk(one):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    found[node.id] = None
    return list(found)


# -- statements ------------------------------------------------------------------------------------


class _Body(ast.NodeTransformer):
    """The body of a statement, and what it touches."""

    def __init__(self, maker: "_Maker", depth: int) -> None:
        self._maker, self._depth = maker, depth
        self.accesses: list[Access] = []
        self.guards: tuple[str, ...] = ()
        self.is_sure = True

    def _access(self, node: ast.expr, array: str, subscripts: tuple[Affine, ...]) -> ast.expr:
        text = self._maker.text
        found = Access(
            array,
            subscripts,
            isinstance(node.ctx, ast.Store),  # type: ignore[attr-defined]
            self.guards,
            self.is_sure,
            text.where(node),
            text.line(node),
        )
        if found not in self.accesses:
            self.accesses.append(found)
        name = ast.Name(f".{self.accesses.index(found)}", node.ctx)  # type: ignore[attr-defined]
        return ast.copy_location(name, node)

    def _under(self, guard: str | None) -> tuple[tuple[str, ...], bool]:
        """Go on under a condition; gives what was before."""
        before = self.guards, self.is_sure
        if guard is None:
            self.is_sure = False
        else:
            self.guards = (*self.guards, guard)
        return before

    def visit_If(self, node: ast.If) -> ast.AST:
        guard: str | None = getattr(node.test, "guard", None)
        node.test = self.visit(node.test)
        before = self._under(guard)
        node.body = [self.visit(one) for one in node.body] or [ast.Pass()]
        self.guards, self.is_sure = before
        self._under(None if guard is None else f"(not {guard})")
        node.orelse = [self.visit(one) for one in node.orelse]
        self.guards, self.is_sure = before
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        guard: str | None = getattr(node.test, "guard", None)
        node.test = self.visit(node.test)
        before = self._under(guard)
        node.body = self.visit(node.body)
        self.guards, self.is_sure = before
        self._under(None if guard is None else f"(not {guard})")
        node.orelse = self.visit(node.orelse)
        self.guards, self.is_sure = before
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        before = self.guards, self.is_sure
        found = []
        for one in node.values:
            found.append(self.visit(one))
            guard: str | None = getattr(one, "guard", None)
            if guard is not None and isinstance(node.op, ast.Or):
                guard = f"(not {guard})"
            self._under(guard)
        node.values = found
        self.guards, self.is_sure = before
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        node.value = self.visit(node.value)
        node.targets = [self.visit(node.targets[0])]
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        read = copy.copy(node.target)
        read.ctx = ast.Load()
        value = ast.copy_location(ast.BinOp(read, node.op, node.value), node)
        return self.visit_Assign(ast.copy_location(ast.Assign([node.target], value), node))

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        assert isinstance(node.value, ast.Name)
        subscripts: tuple[Affine, ...] = node.subscripts  # type: ignore[attr-defined]
        return self._access(node, node.value.id, subscripts)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        maker, name = self._maker, node.id
        if getattr(node, "is_index", False):
            return node
        if name in maker.kept:
            depth = maker.kept[name]
            return self._access(node, name, maker.places(depth))
        if name in maker.local:
            return ast.copy_location(ast.Name(f"own_{name}", node.ctx), node)
        if name in maker.numbers:
            maker.scalars.add(name)
            return ast.copy_location(ast.Name(f"scalar_{name}", node.ctx), node)
        if name in maker.text.parameters:
            maker.text.refuse(node, f"{name} is an array, and used without subscripts")
        if name in maker.reader.defined:
            maker.text.refuse(node, f"{name} is not known here, on every way")
        maker.names[name] = maker.text.meaning(node)
        return ast.copy_location(ast.Name(f"given_{name}", node.ctx), node)

    def generic_visit(self, node: ast.AST) -> ast.AST:
        allowed = (
            ast.Attribute,
            ast.BinOp,
            ast.BoolOp,
            ast.Call,
            ast.Compare,
            ast.Constant,
            ast.IfExp,
            ast.UnaryOp,
            ast.operator,
            ast.boolop,
            ast.cmpop,
            ast.unaryop,
            ast.expr_context,
            ast.Pass,
        )
        if not isinstance(node, allowed):
            self._maker.text.refuse(node, f"{type(node).__name__} is not part of a loop nest")
        return super().generic_visit(node)


class _Maker:
    """Makes statements of what was read."""

    def __init__(self, reader: _Reader, items: list[_Item]) -> None:
        self.reader, self.text, self.numbers = reader, reader.text, reader.numbers
        self.names: dict[str, Any] = {}
        self.scalars: set[str] = set()
        self.kept: dict[str, int] = {}
        self.local = set(_locals(items))
        for name in sorted(self.local):
            runs = [run for run in _runs(items) if _mentions(run, name)]
            if all(not _assigned_surely(run.body, name)[1] for run in runs):
                continue
            depth = _kept_depth(items, name)
            if depth is None:
                self.text.refuse(
                    _first_mention(runs, name), f"{name} is not known here, on every way"
                )
            self.kept[name] = depth
        self.statements: list[Statement] = []
        self._make(items, (), (), ())

    def places(self, depth: int) -> tuple[Affine, ...]:
        """Where a name is kept; one of no loop has one place."""
        return tuple(Affine.index(index_name(d)) for d in range(depth)) or (Affine.number(0),)

    def _make(
        self,
        items: list[_Item],
        loops: tuple[Index, ...],
        guards: tuple[str, ...],
        times: tuple[int, ...],
        first: int = 0,
    ) -> int:
        number = first
        for item in items:
            if isinstance(item, _Condition):
                number = self._make(item.body, loops, (*guards, item.guard), times, number)
                continue
            if isinstance(item, _Loop):
                self._make(item.body, (*loops, item.index), guards, (*times, number))
            else:
                self._statement(item, loops, guards, (*times, number))
            number += 1
        return number

    def _statement(
        self,
        run: _Run,
        loops: tuple[Index, ...],
        guards: tuple[str, ...],
        times: tuple[int, ...],
    ) -> None:
        made = _Body(self, len(loops))
        first = run.body[0]
        reduces = _reduced(run.body)
        body = [made.visit(one) for one in copy.deepcopy(run.body)]
        self.statements.append(
            Statement(
                f"S{len(self.statements)}",
                loops,
                guards,
                times,
                body,
                made.accesses,
                reduces | self._reduced_names(run.body),
                self.text.where(first),
                self.text.line(first),
            )
        )

    def _reduced_names(self, body: Sequence[ast.stmt]) -> set[str]:
        """Kept names that are only added to, or multiplied."""
        found = set()
        for name in self.kept:
            own = [
                one
                for one in body
                if isinstance(one, ast.AugAssign)
                and isinstance(one.op, _REDUCING)
                and isinstance(one.target, ast.Name)
                and one.target.id == name
            ]
            nodes = (n for one in body for n in ast.walk(one))
            mentions = sum(isinstance(n, ast.Name) and n.id == name for n in nodes)
            if own and mentions == len(own) and len({type(one.op) for one in own}) == 1:
                found.add(name)
        return found


def _reduced(body: Sequence[ast.stmt]) -> set[str]:
    """Arrays that a run only adds to, or multiplies."""
    ops: dict[str, set[type]] = {}
    own: dict[str, int] = {}
    for one in body:
        if isinstance(one, ast.AugAssign) and isinstance(one.target, ast.Subscript):
            assert isinstance(one.target.value, ast.Name)
            name = one.target.value.id
            ops.setdefault(name, set()).add(type(one.op))
            own[name] = own.get(name, 0) + 1
    mentions: dict[str, int] = {}
    for one in body:
        for node in ast.walk(one):
            if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
                mentions[node.value.id] = mentions.get(node.value.id, 0) + 1
    return {
        name
        for name, kinds in ops.items()
        if len(kinds) == 1 and kinds <= set(_REDUCING) and mentions[name] == own[name]
    }


def _first_mention(runs: Sequence[_Run], name: str) -> ast.AST:
    for run in runs:
        for one in run.body:
            for node in ast.walk(one):
                if isinstance(node, ast.Name) and node.id == name:
                    return node
    raise AssertionError(name)


def read_nest(
    text: FunctionText,
    shapes: Mapping[str, tuple[int, ...]],
    dtypes: Mapping[str, np.dtype[Any]],
    numbers: Mapping[str, float],
) -> Nest:
    """Read a function with the arrays and numbers that it is called with.

    Raises
    ------
    UnsupportedError
        It does something else; names the line.
    """
    reader = _Reader(text, shapes, numbers)
    items = reader.block(text.tree.body, _Scope(), [])
    maker = _Maker(reader, items)
    arrays = {p: (tuple(shapes[p]), dtypes[p]) for p in shapes}
    nest = Nest(
        text,
        maker.statements,
        arrays,
        maker.kept,
        tuple(p for p in text.parameters if p in maker.scalars),
        maker.names,
    )
    if not nest.written:
        text.refuse(text.tree, "nothing is written: a nest assigns elements of its parameters")
    return nest
