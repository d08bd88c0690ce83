"""The update of a cell, read from a Python function: what it reads, what it writes, and where."""

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

from outcrop.compiled.function import EXPRESSIONS, FunctionText
from outcrop.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError

__all__ = ["Cell", "Offset", "check_directions", "index", "read_cell", "sweep_number"]

Offset: TypeAlias = tuple[int, ...]
"""From a cell to one of its neighbours, along each axis."""

_MOST_AXES = 3

_FARTHEST = 1 << 20
"""Along an axis, from a cell to one that it needs."""

_STATEMENTS = "assignments, if on values, and nothing else"


def index(axis: int) -> int:
    """The index of the cell along an axis; in the function of a sweep, and nowhere else.

    Parameters
    ----------
    axis : int
        A constant.

    Raises
    ------
    UnsupportedError
        It is called elsewhere.

    Examples
    --------
    >>> @oc.sweep
    ... def ramp(u):
    ...     u[0, 0] = oc.sweeps.index(0) + 10 * oc.sweeps.index(1)
    >>> ramp(np.zeros((2, 3))).compute()
    array([[ 0., 10., 20.],
           [ 1., 11., 21.]])
    """
    raise UnsupportedError("a cell has an index in the function of a sweep, and nowhere else")


def sweep_number() -> int:
    """Which sweep it is, from 0 on; in the function of a sweep, and nowhere else.

    Raises
    ------
    UnsupportedError
        It is called elsewhere.

    Examples
    --------
    >>> @oc.sweep
    ... def counted(u):
    ...     u[0] += oc.sweeps.sweep_number()
    >>> counted(np.zeros(2), sweeps=4).compute()
    array([6., 6.])
    """
    raise UnsupportedError("sweeps are counted in the function of a sweep, and nowhere else")


@dataclass(frozen=True)
class _Module:
    """Of a cell that is pickled, what a name from outside means."""

    name: str


@dataclass(frozen=True)
class Cell:
    """What becomes of a cell.

    Attributes
    ----------
    name : str
        Of the function.
    parameters : tuple of str
        In the function's order.
    arrays : tuple of str
        Those that are arrays; all others are scalars.
    ndim : int
        How many axes the arrays have.
    reads : mapping
        Of each array, the offsets at which it is read, in order.
    written : tuple of str
        The arrays that are updated, in the order of the parameters.
    body : tuple of ast.stmt
        The statements, with ``x += y`` as ``x = x + y``.
    names : mapping
        What names from outside of the function mean.
    """

    name: str
    parameters: tuple[str, ...]
    arrays: tuple[str, ...]
    ndim: int
    reads: Mapping[str, tuple[Offset, ...]]
    written: tuple[str, ...]
    body: tuple[ast.stmt, ...]
    names: Mapping[str, Any]

    def __getstate__(self) -> dict[str, Any]:
        # Modules are not pickled: they go by their names.
        names = {
            name: _Module(value.__name__) if isinstance(value, ModuleType) else value
            for name, value in self.names.items()
        }
        return {**vars(self), "reads": dict(self.reads), "names": names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        names = {
            name: import_module(value.name) if isinstance(value, _Module) else value
            for name, value in state["names"].items()
        }
        vars(self).update(state, names=names)

    @property
    def scalars(self) -> tuple[str, ...]:
        """The parameters that are numbers."""
        return tuple(p for p in self.parameters if p not in self.arrays)

    def reach(self, axis: int) -> tuple[int, int]:
        """How far an axis is read before and behind a cell, of any array."""
        along = [o[axis] for offsets in self.reads.values() for o in offsets]
        return max(0, -min(along, default=0)), max(0, *along, 0)

    @property
    def carried(self) -> list[tuple[str, Offset]]:
        """What is read of updated arrays at other cells: by that, sweeps depend on each other."""
        return [(p, o) for p in self.written for o in self.reads.get(p, ()) if any(o)]


class _Reader(ast.NodeTransformer):
    """Reads the statements of a function, and says where what cannot be understood stands."""

    def __init__(self, text: FunctionText) -> None:
        self._text, self.refuse = text, text.refuse
        self.parameters, self._outside = text.parameters, text.outside
        self.reads: dict[str, set[Offset]] = {}
        self.written: set[str] = set()
        self.scalars: set[str] = set()
        self.names: dict[str, Any] = {}
        self.ndim: int | None = None
        self.axes: list[tuple[int, ast.AST]] = []
        self._known: set[str] = set()

    # -- statements --------------------------------------------------------------------------------

    def block(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        for one in statements:
            if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant):
                continue
            if isinstance(one, ast.Pass):
                continue
            if isinstance(one, ast.AugAssign):
                read = ast.parse(ast.unparse(one.target), mode="eval").body
                ast.copy_location(read, one)
                for inner in ast.walk(read):
                    ast.copy_location(inner, one)
                value = ast.copy_location(ast.BinOp(read, one.op, one.value), one)
                one = ast.copy_location(ast.Assign([one.target], value), one)
            if isinstance(one, ast.If):
                found.append(self._condition(one))
            elif isinstance(one, ast.Assign):
                found.append(self._assignment(one))
            else:
                self.refuse(one, f"a cell's update consists of {_STATEMENTS}")
        return found

    def _condition(self, one: ast.If) -> ast.stmt:
        test = self.visit(one.test)
        before = set(self._known)
        then = self.block(one.body)
        after, self._known = self._known, before
        other = self.block(one.orelse)
        self._known &= after
        return ast.If(test, then or [ast.Pass()], other)

    def _assignment(self, one: ast.Assign) -> ast.stmt:
        value = self.visit(one.value)
        if len(one.targets) != 1:
            self.refuse(one, "one thing is assigned at a time")
        target = one.targets[0]
        if isinstance(target, ast.Name):
            if target.id in self.parameters:
                self.refuse(one, f"{target.id} is a parameter; an array is updated by its offset")
            self._known.add(target.id)
            return ast.Assign([target], value, lineno=one.lineno)
        if not isinstance(target, ast.Subscript):
            self.refuse(one, "names and cells are assigned, and nothing else")
        name, offset = self._access(target)
        if any(offset):
            self.refuse(
                one,
                f"{name} is assigned at the offset {_shown(offset)}; an update assigns its own "
                f"cell, {name}[{', '.join('0' * len(offset))}]",
            )
        self.written.add(name)
        own = ast.Subscript(ast.Name(name, ast.Load()), _tuple(offset), ast.Store())
        return ast.Assign([own], value, lineno=one.lineno)

    # -- expressions -------------------------------------------------------------------------------

    def _access(self, node: ast.Subscript) -> tuple[str, Offset]:
        if not isinstance(node.value, ast.Name) or node.value.id not in self.parameters:
            self.refuse(node, "offsets belong to parameters")
        name = node.value.id
        index = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        offset = tuple(self._offset(one) for one in index)
        if self.ndim is None:
            self.ndim = len(offset)
        if len(offset) != self.ndim:
            self.refuse(node, f"{name} has {len(offset)} offsets, and others have {self.ndim}")
        self.reads.setdefault(name, set())
        return name, offset

    def _constant(self, node: ast.expr) -> int:
        """An offset, which is known before anything runs."""
        match node:
            case ast.Constant(value=int() as value) if not isinstance(value, bool):
                return value
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self._constant(operand)
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self._constant(operand)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self._constant(left) + self._constant(right)
            case ast.BinOp(left=left, op=ast.Sub(), right=right):
                return self._constant(left) - self._constant(right)
            case ast.Name(id=name) if isinstance(self._outside.get(name), int):
                return int(self._outside[name])
        self.refuse(node, f"offsets are constant integers, and {ast.unparse(node)} is none")

    def _offset(self, node: ast.expr) -> int:
        offset = self._constant(node)
        if abs(offset) > _FARTHEST:
            self.refuse(node, f"offsets are at most {_FARTHEST}, and {ast.unparse(node)} is not")
        return offset

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        name, offset = self._access(node)
        self.reads[name].add(offset)
        return ast.Subscript(ast.Name(name, ast.Load()), _tuple(offset), ast.Load())

    def visit_Call(self, node: ast.Call) -> ast.AST:
        try:
            function = eval(ast.unparse(node.func), dict(self._outside))
        except (AttributeError, NameError):
            function = None
        if function is sweep_number:
            return ast.Name(".number", ast.Load())
        if function is index:
            axis = self._constant(node.args[0]) if len(node.args) == 1 else -1
            self.axes.append((axis, node))
            return ast.Name(f".index{axis}", ast.Load())
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        name = node.id
        if name in self.parameters:
            self.scalars.add(name)
        elif name not in self._known:
            self.names[name] = self._text.meaning(node)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self._text.check_attribute(node)
        return self.generic_visit(node)

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if not isinstance(node, EXPRESSIONS):
            self.refuse(node, f"{type(node).__name__} is not part of a cell's update")
        return super().generic_visit(node)


def _tuple(offset: Offset) -> ast.expr:
    return ast.Constant(offset)  # type: ignore[arg-type]


def _shown(offset: Offset) -> str:
    return f"({', '.join(map(str, offset))})"


def read_cell(function: Callable[..., Any]) -> Cell:
    """Read the update of a cell from a function.

    Raises
    ------
    UnsupportedError
        It is not such a function; names the line.
    """
    text = FunctionText(function, "a sweep is")
    reader, tree = _Reader(text), text.tree
    body = reader.block(tree.body)
    if not reader.written:
        reader.refuse(tree, "nothing is updated; assign a cell, as in u[0, 0] = ...")
    assert reader.ndim is not None
    if not 1 <= reader.ndim <= _MOST_AXES:
        reader.refuse(tree, f"arrays have 1 to {_MOST_AXES} axes, and not {reader.ndim}")
    for axis, node in reader.axes:
        if not 0 <= axis < reader.ndim:
            reader.refuse(node, f"the arrays have {reader.ndim} axes, from 0 on")
    arrays = tuple(p for p in reader.parameters if p in reader.reads)
    for name in reader.parameters:
        if name in arrays and name in reader.scalars:
            reader.refuse(tree, f"{name} is used with offsets, and without")
        if name not in arrays and name not in reader.scalars:
            reader.refuse(tree, f"{name} is not used")
    return Cell(
        function.__name__,
        reader.parameters,
        arrays,
        reader.ndim,
        {p: tuple(sorted(reader.reads[p])) for p in arrays},
        tuple(p for p in arrays if p in reader.written),
        tuple(body),
        reader.names,
    )


def check_directions(directions: Any, ndim: int) -> tuple[int, ...]:
    """Along each axis 1, or -1 for from the last cell to the first one."""
    if isinstance(directions, int | np.integer):
        directions = (directions,)
    try:
        found = tuple(int(one) for one in directions)
    except (TypeError, ValueError):
        raise InvalidTypeError(
            f"directions= has 1 or -1 for each axis, got {directions!r}"
        ) from None
    if len(found) != ndim or any(one not in (1, -1) for one in found):
        raise InvalidArgumentError(
            f"directions= has 1 or -1 for each of {ndim} axes, got {directions!r}"
        )
    return found
