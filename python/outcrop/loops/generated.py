"""What isl generates of sets and orders, as Python source."""

from collections.abc import Sequence
from typing import Any, NamedTuple

__all__ = ["Number", "enumerated", "number_of"]


class Number(NamedTuple):
    """An integer expression of isl's.

    Attributes
    ----------
    python : str
        As Python writes it.
    terms : dict or None
        The factors of names, if it is a sum of multiples of names and of a constant.
    """

    python: str
    terms: dict[str, int] | None


def number_of(isl: Any, expr: Any) -> Number:
    """An expression of an AST of isl's."""
    kinds, ops = isl.ast_expr_type, isl.ast_expr_op_type
    kind = expr.get_type()
    if kind == kinds.int:
        value = int(expr.get_val().to_python())
        return Number(f"{value}" if value >= 0 else f"({value})", {"": value})
    if kind == kinds.id:
        name = expr.get_id().get_name()
        return Number(name, {name: 1})
    op = expr.get_op_type()
    own = [number_of(isl, expr.get_op_arg(k)) for k in range(expr.get_op_n_arg())]
    text = [one.python for one in own]
    if op in (ops.add, ops.sub):
        sign = 1 if op == ops.add else -1
        python = f"({text[0]} {'+' if sign > 0 else '-'} {text[1]})"
        if own[0].terms is None or own[1].terms is None:
            return Number(python, None)
        terms = dict(own[0].terms)
        for name, factor in own[1].terms.items():
            terms[name] = terms.get(name, 0) + sign * factor
        return Number(python, terms)
    if op == ops.minus:
        inner = own[0].terms
        negative = None if inner is None else {n: -k for n, k in inner.items()}
        return Number(f"(-{text[0]})", negative)
    if op == ops.mul:
        python = f"({text[0]} * {text[1]})"
        for a, b in ((own[0], own[1]), (own[1], own[0])):
            if a.terms is not None and set(a.terms) == {""} and b.terms is not None:
                return Number(python, {n: k * a.terms[""] for n, k in b.terms.items()})
        return Number(python, None)
    if op in (ops.div, ops.pdiv_q, ops.fdiv_q):
        return Number(f"({text[0]} // {text[1]})", None)
    if op in (ops.pdiv_r, ops.zdiv_r):
        return Number(f"({text[0]} % {text[1]})", None)
    if op in (ops.min, ops.max):
        word = "min" if op == ops.min else "max"
        python = text[0]
        for one in text[1:]:
            python = f"{word}({python}, {one})"
        return Number(python, None)
    if op in (ops.cond, ops.select):
        return Number(f"({text[1]} if {text[0]} else {text[2]})", None)
    signs = {
        ops.eq: "==",
        ops.le: "<=",
        ops.lt: "<",
        ops.ge: ">=",
        ops.gt: ">",
        ops.and_: "and",
        ops.and_then: "and",
        ops.or_: "or",
        ops.or_else: "or",
    }
    if op not in signs:
        raise AssertionError(f"isl makes an expression of a kind that is not known: {expr}")
    return Number(f"({f' {signs[op]} '.join(text)})", None)


class _Listing:
    """The source of a function that lists the points of a set."""

    def __init__(self, isl: Any) -> None:
        self.isl = isl
        self.lines = ["def points(add):"]

    def write(self, depth: int, line: str) -> None:
        self.lines.append("    " * depth + line)

    def node(self, node: Any, depth: int) -> None:
        isl = self.isl
        types = isl.ast_node_type
        kind = node.get_type()
        if kind == types.for_:
            name = node.for_get_iterator().get_id().get_name()
            first = number_of(isl, node.for_get_init()).python
            if node.for_is_degenerate():
                self.write(depth, f"{name} = {first}")
                self.node(node.for_get_body(), depth)
                return
            last = last_of(isl, node)
            step = number_of(isl, node.for_get_inc()).python
            self.write(depth, f"for {name} in range({first}, {last} + 1, {step}):")
            self.node(node.for_get_body(), depth + 1)
        elif kind == types.if_:
            self.write(depth, f"if {number_of(isl, node.if_get_cond()).python}:")
            self.node(node.if_get_then_node(), depth + 1)
            if node.if_has_else_node():
                self.write(depth, "else:")
                self.node(node.if_get_else_node(), depth + 1)
        elif kind == types.block:
            children = node.block_get_children()
            for k in range(children.n_ast_node()):
                self.node(children.get_at(k), depth)
        elif kind == types.user:
            expr = node.user_get_expr()
            own = [number_of(isl, expr.get_op_arg(k)).python for k in range(1, expr.get_op_n_arg())]
            self.write(depth, f"add(({''.join(f'{one}, ' for one in own)}))")
        else:
            self.node(node.mark_get_node(), depth)


def last_of(isl: Any, node: Any) -> str:
    """The last value that the index of a loop may have."""
    condition = node.for_get_cond()
    last = number_of(isl, condition.get_op_arg(1)).python
    ops = isl.ast_expr_op_type
    return last if condition.get_op_type() == ops.le else f"({last} - 1)"


def enumerated(isl: Any, points: Any) -> Sequence[tuple[int, ...]]:
    """All points of a set without parameters."""
    if points.is_empty():
        return []
    dims = points.dim(isl.dim_type.set)
    points = points.coalesce()
    identity = isl.Map.identity(points.get_space().map_from_set()).intersect_domain(points)
    identity = identity.set_tuple_name(isl.dim_type.in_, "P").reset_tuple_id(isl.dim_type.out)
    build = isl.AstBuild.alloc(points.get_ctx())
    node = build.node_from_schedule_map(identity.to_union_map())
    listing = _Listing(isl)
    listing.node(node, 1)
    names: dict[str, Any] = {}
    exec(compile("\n".join(listing.lines), "<points>", "exec"), names)
    found: list[tuple[int, ...]] = []
    names["points"](found.append)
    assert dims == len(found[0])
    return found
