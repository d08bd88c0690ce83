"""What a loop nest does, with the sizes that it is called with: statements, and what they touch.

Runs of assignments in the body of one loop are one *statement*: they stay together, and names that
they assign before they use them are theirs alone. Names that live longer become small arrays, with
an axis for each loop in every iteration of which they are assigned anew.
"""

import ast
import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from outcrop.compiled.function import EXPRESSIONS, FunctionText
from outcrop.loops.affine import Affine, index_name
from outcrop.loops.inferred import types_of
from outcrop.loops.kept import (
    assigned_surely,
    kept_depth,
    local_names,
    mentions,
    runs,
    stored_at_once,
    told_apart,
)
from outcrop.loops.reading import Condition, Index, Item, Loop, Reader, Run, Scope

__all__ = ["Access", "Nest", "Statement", "read_nest"]

_SUMS: dict[type, str] = {ast.Add: "+", ast.Sub: "+", ast.Mult: "*"}
"""What may be done in any order, if numbers were exact: one after the other of the same kind."""


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
    sum : str
        ``"+"`` or ``"*"`` where it is only added to, or multiplied: the access belongs to such an
        assignment (``+=``), and what it reads is used for nothing else; else empty.
    where, text : str
        The line, as a place and as text.
    """

    array: str
    subscripts: tuple[Affine, ...]
    is_write: bool
    guards: tuple[str, ...]
    is_sure: bool
    sum: str
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
    where, text : str
        Its first line, as a place and as text.
    """

    name: str
    loops: tuple[Index, ...]
    guards: tuple[str, ...]
    times: tuple[int, ...]
    body: list[ast.stmt]
    accesses: list[Access]
    where: str
    text: str

    @property
    def reduces(self) -> set[str]:
        """The arrays whose elements it only adds to, or multiplies."""
        kinds: dict[str, set[str]] = {}
        for a in self.accesses:
            if a.is_write:
                kinds.setdefault(a.array, set()).add(a.sum)
        return {p for p, own in kinds.items() if len(own) == 1 and own != {""}}

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


class _Body(ast.NodeTransformer):
    """The body of a statement, and what it touches."""

    def __init__(self, maker: "_Maker", depth: int) -> None:
        self._maker, self._depth = maker, depth
        self.accesses: list[Access] = []
        self.guards: tuple[str, ...] = ()
        self.is_sure = True
        self._sum = ""

    def _access(self, node: ast.expr, array: str, subscripts: tuple[Affine, ...]) -> ast.expr:
        text = self._maker.text
        found = Access(
            array,
            subscripts,
            isinstance(node.ctx, ast.Store),  # type: ignore[attr-defined]
            self.guards,
            self.is_sure,
            self._sum,
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
        added = self.visit(node.value)
        self._sum = _SUMS.get(type(node.op), "")
        value = ast.copy_location(ast.BinOp(self.visit(read), node.op, added), node)
        target = self.visit(node.target)
        self._sum = ""
        return ast.copy_location(ast.Assign([target], value), node)

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

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if node.attr == "random":
            self._maker.text.refuse(node, "random numbers depend on the order in which they come")
        self._maker.text.check_attribute(node)
        return self.generic_visit(node)

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if not isinstance(node, (*EXPRESSIONS, ast.Pass)):
            self._maker.text.refuse(node, f"{type(node).__name__} is not part of a loop nest")
        return super().generic_visit(node)


class _Maker:
    """Makes statements of what was read."""

    def __init__(
        self, reader: Reader, items: list[Item], dtypes: Mapping[str, np.dtype[Any]]
    ) -> None:
        self.reader, self.text, self.numbers = reader, reader.text, reader.numbers
        self.names: dict[str, Any] = {}
        self.scalars: set[str] = set()
        was = told_apart(items, reader.taken)
        self.local = set(local_names(items))
        self.kept = self._kept(items)
        of_old = types_of(
            self.text, dtypes, reader.shapes, reader.numbers, {was.get(p, p) for p in self.kept}
        )
        self.types = {p: of_old[was.get(p, p)] for p in self.kept}
        for name in list(self.kept):
            if stored_at_once(items, name, self.types[name], dtypes):
                # Its element is where it is kept.
                del self.kept[name], self.types[name]
                self.local.discard(name)
        self.statements: list[Statement] = []
        self._make(items, (), (), ())

    def _kept(self, items: list[Item]) -> dict[str, int]:
        """Of each name that lives longer than a statement, for how many loops."""
        found = {}
        for name in sorted(self.local):
            own = [run for run in runs(items) if mentions(run, name)]
            if all(not assigned_surely(run.body, name)[1] for run in own):
                continue
            depth = kept_depth(items, name)
            if depth is None:
                self.text.refuse(
                    _first_mention(own, name), f"{name} is not known here, on every way"
                )
            found[name] = depth
        return found

    def places(self, depth: int) -> tuple[Affine, ...]:
        """Where a name is kept; one of no loop has one place."""
        return tuple(Affine.index(index_name(d)) for d in range(depth)) or (Affine.number(0),)

    def _make(
        self,
        items: list[Item],
        loops: tuple[Index, ...],
        guards: tuple[str, ...],
        times: tuple[int, ...],
        first: int = 0,
    ) -> int:
        number = first
        for item in items:
            if isinstance(item, Condition):
                number = self._make(item.body, loops, (*guards, item.guard), times, number)
                continue
            if isinstance(item, Loop):
                self._make(item.body, (*loops, item.index), guards, (*times, number))
            else:
                self._statement(item, loops, guards, (*times, number))
            number += 1
        return number

    def _statement(
        self,
        run: Run,
        loops: tuple[Index, ...],
        guards: tuple[str, ...],
        times: tuple[int, ...],
    ) -> None:
        made = _Body(self, len(loops))
        first = run.body[0]
        body = [made.visit(one) for one in copy.deepcopy(run.body)]
        self.statements.append(
            Statement(
                f"S{len(self.statements)}",
                loops,
                guards,
                times,
                body,
                made.accesses,
                self.text.where(first),
                self.text.line(first),
            )
        )


def _first_mention(among: Sequence[Run], name: str) -> ast.AST:
    for run in among:
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
    InvalidTypeError
        Numba does not compile it for such arguments, or a name has no type that an array can have.
    UnsupportedError
        It does something else; names the line.
    """
    reader = Reader(text, shapes, numbers)
    items = reader.block(text.tree.body, Scope(), [])
    maker = _Maker(reader, items, dtypes)
    arrays = {p: (tuple(shapes[p]), dtypes[p]) for p in shapes}
    arrays |= {p: ((), dtype) for p, dtype in maker.types.items()}
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
