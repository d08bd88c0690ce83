"""What a loop nest may be written with, whatever it is called with."""

import ast
from collections.abc import Sequence
from typing import Any

from outcrop.compiled.function import FunctionText

__all__ = ["check_text", "is_idle"]

_STATEMENTS = "for over range(...), if, and assignments"


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

    def look(body: Sequence[ast.stmt], around: Sequence[str]) -> None:
        for one in body:
            if isinstance(one, ast.For):
                if one.orelse:
                    text.refuse(one, "loops have no else")
                if not isinstance(one.target, ast.Name):
                    text.refuse(one, "a loop has one index")
                name = one.target.id
                if name in around:
                    text.refuse(one, f"{name} is the index of a loop around this one")
                if not (
                    isinstance(one.iter, ast.Call)
                    and isinstance(one.iter.func, ast.Name)
                    and one.iter.func.id == "range"
                    and 1 <= len(one.iter.args) <= 3
                    and not one.iter.keywords
                ):
                    text.refuse(one, "loops run over range(...)")
                look(one.body, (*around, name))
            elif isinstance(one, ast.If):
                look(one.body, around)
                look(one.orelse, around)
            elif isinstance(one, ast.Assign):
                if len(one.targets) != 1:
                    text.refuse(one, "one thing is assigned at a time")
                _check_target(one.targets[0])
            elif isinstance(one, ast.AugAssign | ast.AnnAssign) and one.value is not None:
                _check_target(one.target)
            elif isinstance(one, ast.Return) and one is not text.tree.body[-1]:
                text.refuse(one, "a loop nest returns at its end")
            elif not is_idle(one):
                text.refuse(one, f"a loop nest consists of {_STATEMENTS}")

    def _check_target(target: ast.expr) -> None:
        if isinstance(target, ast.Name):
            if target.id in text.parameters:
                text.refuse(target, f"{target.id} is a parameter, and stays what it is")
        elif not isinstance(target, ast.Subscript):
            text.refuse(target, "names and elements are assigned, and nothing else")

    look(text.tree.body, ())


def is_idle(one: ast.stmt) -> bool:
    """Whether a statement does nothing: a documentation string, or an empty ``return``."""
    if isinstance(one, ast.Expr):
        return isinstance(one.value, ast.Constant)
    if isinstance(one, ast.Return):
        return one.value is None
    return isinstance(one, ast.Pass)
