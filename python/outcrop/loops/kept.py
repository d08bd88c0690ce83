"""Names that live longer than a statement: for how many loops, and which need no place for that."""

import ast
import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from outcrop.loops.reading import Item, Loop, Run

__all__ = [
    "assigned_surely",
    "kept_depth",
    "local_names",
    "mentions",
    "runs",
    "stored_at_once",
    "told_apart",
]


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


def told_apart(items: Sequence[Item], taken: set[str]) -> dict[str, str]:
    """Give a name another one wherever it begins anew, so that each of them is kept for itself.

    As in two loops one after the other, each of which begins with ``s = 0.0``.

    Parameters
    ----------
    items : sequence of Item
        The nest, in which names are replaced.
    taken : set of str
        Names that there are; the new ones are added.

    Returns
    -------
    dict of str to str
        Of each new name, the one that it was.
    """
    found: dict[str, str] = {}
    for name in local_names(items):
        own = [item for item in items if mentions(item, name)]
        if len(own) > 1 and all(_begins_anew(item, name) for item in own):
            for k, item in enumerate(own[1:], 1):
                new = f"{name}_{k}"
                while new in taken:
                    new += "_"
                taken.add(new)
                found[new] = name
                replacing = _Replacing(name, ast.Name(new, ast.Load()))
                for run in runs([item]):
                    run.body[:] = [replacing.visit(one) for one in run.body]
    for item in items:
        if not isinstance(item, Run):
            inner = told_apart(item.body, taken)
            found |= {new: found.get(old, old) for new, old in inner.items()}
    return found


def _begins_anew(item: Item, name: str) -> bool:
    """Whether an item uses a name only after it has assigned it, whatever is around."""
    if isinstance(item, Run):
        return not assigned_surely(item.body, name)[1]
    return _fresh(item.body, name)


def local_names(items: Sequence[Item]) -> list[str]:
    """The names that are assigned."""
    found: dict[str, None] = {}
    for run in runs(items):
        for one in run.body:
            for node in ast.walk(one):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    found[node.id] = None
    return list(found)


def stored_at_once(
    items: list[Item],
    name: str,
    dtype: np.dtype[Any],
    dtypes: Mapping[str, np.dtype[Any]],
) -> bool:
    """Put an element in the place of a name that is only made to be assigned to it.

    As in ``s = 0.0``, a loop of ``s += ...``, and ``c[i, j] = s``: where nothing else is done with
    the array before that, and the element has the type of the name, the sum may as well be made in
    the element, and the name takes no memory.

    Parameters
    ----------
    items : list of Item
        The nest, in which it is replaced.
    name : str
        The name.
    dtype : numpy.dtype
        Its type.
    dtypes : mapping
        Those of the arrays.

    Returns
    -------
    bool
        Whether it was replaced.
    """
    body = _home(items, name)
    own = [k for k, item in enumerate(body) if mentions(item, name)]
    last = body[own[-1]]
    if len(own) < 2 or not isinstance(last, Run):
        return False
    number = max(k for k, one in enumerate(last.body) if mentions(Run([one]), name))
    store = last.body[number]
    if not isinstance(store, ast.Assign) or not isinstance(store.value, ast.Name):
        return False
    element = store.targets[0]
    if not isinstance(element, ast.Subscript) or not isinstance(element.value, ast.Name):
        return False
    array = element.value.id
    before: list[Item] = [*body[own[0] : own[-1]], Run(last.body[:number])]
    if dtypes[array] != dtype or any(mentions(item, array) for item in before):
        return False
    del last.body[number]
    if not last.body:
        del body[own[-1]]
    replacing = _Replacing(name, element)
    for run in runs(before):
        run.body[:] = [replacing.visit(one) for one in run.body]
    return True


def _home(items: list[Item], name: str) -> list[Item]:
    """The body that a name is kept for each execution of."""
    inside = [item for item in items if mentions(item, name)]
    if len(inside) == 1 and not isinstance(inside[0], Run) and _fresh(inside[0].body, name):
        return _home(inside[0].body, name)
    return items


class _Replacing(ast.NodeTransformer):
    """Puts an element, or another name, in the place of a name."""

    def __init__(self, name: str, element: ast.Subscript | ast.Name) -> None:
        self._name, self._element = name, element

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id != self._name:
            return node
        made = copy.copy(self._element)
        made.ctx = node.ctx
        return ast.copy_location(made, node)
