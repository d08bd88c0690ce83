"""Names that live longer than a statement, and for how many loops."""

import ast
from collections.abc import Iterator, Sequence

from outcrop.loops.reading import Item, Loop, Run

__all__ = ["assigned_surely", "kept_depth", "local_names", "mentions", "runs"]


def assigned_surely(body: Sequence[ast.stmt], name: str) -> tuple[bool, bool]:
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
            then, early = assigned_surely(one.body, name)
            other, early_too = assigned_surely(one.orelse, name)
            if early or early_too:
                return False, True
            if then and other:
                return True, False
    return False, False


def mentions(item: Item, name: str) -> bool:
    """Whether a name is used or assigned anywhere in an item."""
    if isinstance(item, Run):
        nodes = (n for one in item.body for n in ast.walk(one))
        return any(isinstance(n, ast.Name) and n.id == name for n in nodes)
    return any(mentions(one, name) for one in item.body)


def runs(items: Sequence[Item]) -> Iterator[Run]:
    """All assignments, in the order of the text."""
    for item in items:
        if isinstance(item, Run):
            yield item
        else:
            yield from runs(item.body)


def _fresh(items: Sequence[Item], name: str) -> bool:
    """Whether a body assigns a name before it uses it, on every way."""
    for item in items:
        if isinstance(item, Run):
            sure, early = assigned_surely(item.body, name)
            if early:
                return False
            if sure:
                return True
        elif mentions(item, name):
            return _fresh(item.body, name) and not any(
                mentions(other, name) for other in items if other is not item
            )
    return True


def kept_depth(items: Sequence[Item], name: str, depth: int = 0) -> int | None:
    """How many loops a name is kept for; None where it is used before it is assigned."""
    own = depth if _fresh(items, name) else None
    inside = [item for item in items if mentions(item, name)]
    if len(inside) == 1 and not isinstance(inside[0], Run):
        further = depth + isinstance(inside[0], Loop)
        found = kept_depth(inside[0].body, name, further)
        return found if found is not None else own
    return own


def local_names(items: Sequence[Item]) -> list[str]:
    """The names that are assigned."""
    found: dict[str, None] = {}
    for run in runs(items):
        for one in run.body:
            for node in ast.walk(one):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    found[node.id] = None
    return list(found)
