"""A function of the user's as text: its tree, its lines, and what its names mean."""

import ast
import builtins
import inspect
import math
import numbers
import textwrap
from collections.abc import Callable
from contextlib import suppress
from types import FunctionType
from typing import Any, NoReturn

import numpy as np

from outcrop.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError

__all__ = ["EXPRESSIONS", "FunctionText", "number_of"]

_BUILTINS = ("abs", "bool", "complex", "float", "int", "max", "min", "pow", "round")


EXPRESSIONS = (
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
)
"""What expressions consist of, besides names and subscripts."""


def number_of(value: Any, name: str, expected: str) -> float:
    """A number, as Numba takes it."""
    if isinstance(value, int | np.integer | np.bool_):
        number = int(value)
        if not -(1 << 63) <= number < 1 << 63:
            raise InvalidArgumentError(f"{name}: {number} is no 64-bit integer")
        return number
    if isinstance(value, float | np.floating):
        return float(value)
    raise InvalidTypeError(f"{name} is {expected}, got {value!r}")


class FunctionText:
    """The text of a function.

    Attributes
    ----------
    function : callable
        The function.
    tree : ast.FunctionDef
        Its definition.
    parameters : tuple of str
        Their names.
    outside : dict
        What names from outside mean, as far as they are known when that is looked at.
    """

    def __init__(self, function: Callable[..., Any], what: str) -> None:
        if not inspect.isfunction(function):
            raise InvalidTypeError(f"{what} made of a function, not of {type(function).__name__}")
        name = function.__name__
        try:
            lines, self._first = inspect.getsourcelines(function)
        except (OSError, TypeError):
            raise UnsupportedError(
                f"{name}: the source of the function is not to be had; write it to a file"
            ) from None
        source = textwrap.dedent("".join(lines))
        try:
            tree: ast.stmt = ast.parse(source).body[0]
        except SyntaxError:
            tree = ast.Pass()
        if not isinstance(tree, ast.FunctionDef):
            raise UnsupportedError(f"{name}: {what} made of a function with a name")
        self.function: FunctionType = function
        self.tree = tree
        self._lines = source.splitlines()
        self._file = inspect.getsourcefile(function) or "?"
        found = inspect.signature(function).parameters.values()
        for one in found:
            if one.kind not in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD):
                raise UnsupportedError(
                    f"{name}: parameters are arrays and numbers, one by one; {one} is not"
                )
        self.parameters = tuple(one.name for one in found)
        self.outside = self._meanings()

    def look_again(self) -> bool:
        """Find out what names from outside mean now, and whether that has changed."""
        found = self._meanings()
        same = found.keys() == self.outside.keys() and all(
            found[name] is value for name, value in self.outside.items()
        )
        self.outside = found
        return not same

    def _meanings(self) -> dict[str, Any]:
        code, known = self.function.__code__, self.function.__globals__
        found = {name: known[name] for name in code.co_names if name in known}
        cells = zip(code.co_freevars, self.function.__closure__ or (), strict=True)
        for name, cell in cells:
            # What is assigned later is not known yet.
            with suppress(ValueError):
                found[name] = cell.cell_contents
        return found

    def where(self, node: ast.AST) -> str:
        """The file and the line where something stands."""
        return f"{self._file}:{self._first + getattr(node, 'lineno', 1) - 1}"

    def line(self, node: ast.AST) -> str:
        """The text of the line where something stands."""
        number = getattr(node, "lineno", 1)
        return self._lines[number - 1].strip() if number <= len(self._lines) else ""

    def refuse(self, node: ast.AST, why: str) -> NoReturn:
        """Say where what cannot be understood stands."""
        raise UnsupportedError(f"{self.where(node)}: {why}: {self.line(node)}")

    def check_attribute(self, node: ast.Attribute) -> None:
        """Refuse what `math` or NumPy does not have."""
        module = self.outside.get(node.value.id) if isinstance(node.value, ast.Name) else None
        if (module is math or module is np) and not hasattr(module, node.attr):
            self.refuse(node, f"{module.__name__} has no {node.attr}")

    def meaning(self, node: ast.Name) -> Any:
        """What a name from outside means: a number, or a function that Numba compiles."""
        name = node.id
        if name in self.outside:
            value = self.outside[name]
        elif name in _BUILTINS:
            value = getattr(builtins, name)
        else:
            self.refuse(node, f"{name} is not known here, on every way")
        is_module = value is math or value is np
        is_number = isinstance(value, numbers.Number | np.generic)
        # Of math, NumPy, or compiled by Numba.
        is_function = callable(value) and (
            getattr(value, "__module__", None) in ("math", "numpy")
            or isinstance(value, np.ufunc)
            or hasattr(value, "py_func")
            or name in _BUILTINS
        )
        if not (is_module or is_number or is_function):
            self.refuse(
                node,
                f"{name} is neither a number nor a function of math, NumPy or Numba; arrays are "
                "parameters",
            )
        return value
