"""Tapes that run without the interpreter: which these are, and what the core is told of them.

Elementwise functions stay NumPy's: of a ufunc, that inner loop is called which NumPy would call for
the types of the operands. It takes that no array has to be converted, and that nothing written in
Python has a part in it.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from outcrop import _native
from outcrop.arrays.source import MemorySource, Source, dtype_name
from outcrop.arrays.views import NewAxis, View
from outcrop.expressions.graph.functions import LEAVING_GAPS, Apply, Copy
from outcrop.expressions.graph.gathers import Gather
from outcrop.expressions.graph.matrices import MatrixOperation
from outcrop.expressions.graph.nodes import Contract, Expanded, Leaf, Lines, Map, Node, Reduce, Scan
from outcrop.expressions.graph.phases import Phase
from outcrop.expressions.graph.reductions import UfuncReduction
from outcrop.expressions.kernels.instructions import Product, Value
from outcrop.expressions.kernels.tile_view import Look
from outcrop.expressions.tiling.axes import Tiling

if TYPE_CHECKING:
    from outcrop.expressions.kernels.tape import Tape

__all__ = ["can_compute", "copying", "described", "joining", "parts"]

IS_USED = True
"""Whether what can run without the interpreter does; the results are the same."""

BEFORE, STRIP, AFTER = range(3)
"""When an instruction is done."""

_TYPES = frozenset(
    np.dtype(name)
    for name in (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float32", "float64", "complex64", "complex128"),
    )
)
_REDUCING = frozenset(
    (np.add, np.multiply, np.maximum, np.minimum, np.fmax, np.fmin, np.logical_and, np.logical_or)
)
"""Of ufuncs by which NumPy reduces as here."""
_SCALARS: dict[type, Any] = {bool: np.dtype(bool), int: int, float: float, complex: complex}
"""What stands for a number when NumPy is asked for the types of operands."""


def can_compute(node: Node) -> bool:
    """Whether instructions of the compiled core's compute a node from its operands."""
    if not all(n.size and n.dtype in _TYPES for n in (node, *node.operands)):
        return False
    return _is_native[type(node)](node)


_is_native: Phase[[], bool] = Phase("whether the compiled core computes a node")


@_is_native.of(Map)
def _is_ufunc(node: Map) -> bool:
    if isinstance(node.function, Copy):
        return [o.dtype for o in node.operands] == [node.dtype]
    return _loop(node) is not None


@_is_native.of(Expanded)
def _is_copied(node: Expanded) -> bool:
    return True


@_is_native.of(Contract)
def _is_of_matrices(node: Contract) -> bool:
    return Product.of(node).matrices is not None


@_is_native.of(Reduce)
def _is_by_ufunc(node: Reduce) -> bool:
    return _reducing_loop(node) is not None


@_is_native.of(Leaf)
def _is_borrowed(node: Leaf) -> bool:
    return _is_aligned(node.source)


@_is_native.of(Scan, Lines, Gather, MatrixOperation)
def _is_never(node: Node) -> bool:
    # Operations of linear algebra have steps of their own.
    return False


def _is_aligned(source: Source) -> bool:
    return isinstance(source, MemorySource) and source.array.flags.aligned


def _loop(node: Map) -> tuple[int, list[NDArray[Any]]] | None:
    """The number of the inner loop of a node's ufunc, and what numbers are among its operands."""
    function = node.function
    if not isinstance(function, Apply) or function.options:
        return None
    kinds = tuple(a.dtype if isinstance(a, Node) else type(a) for a in node.arguments)
    found = _loop_of(function.ufunc, kinds, node.dtype)
    if found is None:
        return None
    numbers = []
    for argument, dtype in zip(node.arguments, found[1], strict=True):
        if not isinstance(argument, Node):
            try:
                with np.errstate(all="raise"):
                    numbers.append(np.array(argument, dtype))
            except (ArithmeticError, TypeError, ValueError):
                # Whoever computes it hears of it.
                return None
    return found[0], numbers


def _reducing_loop(node: Reduce) -> tuple[np.ufunc, int] | None:
    """The ufunc by which elements are joined as they are, and the number of its inner loop."""
    reduction, (operand,) = node.reduction, node.operands
    if not isinstance(reduction, UfuncReduction) or not node.axes:
        return None
    if isinstance(operand, Leaf) and _is_aligned(operand.source):
        # It may lie backwards, and then NumPy begins at the other end.
        return None
    ufunc, dtype = reduction.ufunc, operand.dtype
    if ufunc not in _REDUCING or node.dtype != dtype or reduction.dtype != dtype:
        return None
    if ufunc in (np.add, np.multiply) and dtype.kind in "fc":
        long = [a for a in node.axes if operand.shape[a] > 1]
        if len(long) > 1:
            # NumPy gathers what lies apart before it adds, and rounds otherwise.
            return None
    found = _loop_of(ufunc, (dtype, dtype), dtype)
    return None if found is None else (ufunc, found[0])


@lru_cache(1024)
def _loop_of(
    ufunc: np.ufunc, kinds: tuple[np.dtype[Any] | type, ...], dtype: np.dtype[Any]
) -> tuple[int, tuple[np.dtype[Any], ...]] | None:
    """The number of an inner loop, and the types of operands with which it is called."""
    is_numpys = getattr(np, ufunc.__name__, None) is ufunc
    if not is_numpys or ufunc in LEAVING_GAPS or ufunc.nout != 1 or ufunc.signature is not None:
        return None
    try:
        asked = [kind if isinstance(kind, np.dtype) else _SCALARS[kind] for kind in kinds]
        resolved = ufunc.resolve_dtypes((*asked, None))
    except (KeyError, TypeError, ValueError):
        return None
    own = (*kinds, dtype)
    if any(isinstance(k, np.dtype) and k != d for k, d in zip(own, resolved, strict=True)):
        return None
    if ufunc is np.power and dtype.kind in "iu":
        # Of a negative exponent it complains by itself, which takes the interpreter.
        return None
    *operands, result = (d.char for d in resolved)
    signature = f"{''.join(operands)}->{result}"
    if signature not in ufunc.types or not _TYPES.issuperset(resolved):
        return None
    number = ufunc.types.index(signature)
    return (number, resolved[:-1]) if _native.has_loop(ufunc, number) else None


def described(tape: "Tape", looks: Sequence[Look]) -> _native.TapeDraft:
    """A tape as the compiled core is told of it; its tiles look so."""
    return _Description(tape, looks).draft


class _Description:
    def __init__(self, tape: "Tape", looks: Sequence[Look]) -> None:
        tiling, values = tape.tiling, tape.values.values()
        self._tape, self._values = tape, tape.values
        lines = sorted({line for v in values for line in v.lines} | set(tape.cut))
        self._local = local = {line: i for i, line in enumerate(lines)}
        self.draft = _native.TapeDraft(
            [tiling.axes.extents[line] for line in lines],
            [(local[line], tiling.extent(line)) for line in tape.cut],
            (local[tape.line], tape.strip) if tape.line is not None and tape.late else None,
        )
        self._numbers: dict[int, int] = {}
        self._looks = looks
        for key, value in self._values.items():
            self._numbers[key] = self._number(value, View.whole(value.node.shape), value.lines)
        for node in tape.early:
            self._compute(node, BEFORE)
            self._complete(node, BEFORE)
        for node in tape.late:
            self._compute(node, STRIP)
        for node in tape.late:
            self._complete(node, AFTER)

    def _number(self, value: Value, view: View, lines: Sequence[int]) -> int:
        """What is told of a value, seen with axes of one element between its own."""
        own, dtype = [self._local[line] for line in lines], dtype_name(value.node.dtype)
        if value.tile:
            axes = self._looks[value.place].axes
            assert axes is not None
            shown = [(None, 1, 0) if isinstance(a, NewAxis) else axes[a] for a in view.axes]
            return self.draft.tile(dtype, own, value.place, shown)
        if value.offset is not None:
            return self.draft.passed(dtype, own, value.offset)
        leaf = value.node
        assert isinstance(leaf, Leaf)
        assert isinstance(leaf.source, MemorySource)
        return self.draft.memory(view.select(leaf.view.select(leaf.source.array)), own)

    def _compute(self, node: Node, when: int) -> None:
        result = self._numbers[id(node)]
        if isinstance(node, Contract):
            product = Product.of(node)
            assert product.matrices is not None
            left, right, own = (
                (self._numbers[id(n)], row, col)
                for n, (row, col) in zip((*node.operands, node), product.matrices, strict=True)
            )
            accumulates = self._values[id(node)].along is None
            self.draft.multiply(when, (left, right), own, accumulates, product.is_symmetric)
            return
        if isinstance(node, Reduce):
            self._reduce(node, when)
            return
        if isinstance(node, Expanded):
            value, lines = self._values[id(node.operands[0])], self._values[id(node)].lines
            self.draft.copy(when, self._number(value, node.view, lines), result)
            return
        assert isinstance(node, Map)
        if isinstance(node.function, Copy):
            self.draft.copy(when, self._numbers[id(node.operands[0])], result)
            return
        found = _loop(node)
        assert found is not None
        assert isinstance(node.function, Apply)
        number, constants = found[0], iter(found[1])
        operands = [
            self._numbers[id(a)] if isinstance(a, Node) else self.draft.memory(next(constants), [])
            for a in node.arguments
        ]
        self.draft.apply(when, node.function.ufunc, number, [*operands, result])

    def _reduce(self, node: Reduce, when: int) -> None:
        found, value = _reducing_loop(node), self._values[id(node)]
        assert found is not None
        ufunc, number = found
        operand, result = self._numbers[id(node.operands[0])], self._numbers[id(node)]
        initial = part = None
        if ufunc.identity is not None:
            initial = self.draft.memory(np.array(ufunc.identity, node.dtype), [])
        if when == STRIP and value.along is None:
            lines = [self._local[line] for line in value.lines]
            part = self.draft.passed(dtype_name(node.dtype), lines, self._tape.parts)
        self.draft.reduce(when, ufunc, number, (operand, result), node.axes, initial, part)

    def _complete(self, node: Node, when: int) -> None:
        if isinstance(node, Contract):
            product = Product.of(node)
            if product.is_symmetric:
                assert product.matrices is not None
                self.draft.mirror(when, (self._numbers[id(node)], *product.matrices[2]))


def joining(ufunc: np.ufunc, node: Node, look: Look, tiling: Tiling) -> _native.TapeDraft | None:
    """What joins the second one of two tiles of a node to the first one; None if Python has to.

    Its steps have the `parts` of the node's tiles.
    """
    found = _loop_of(ufunc, (node.dtype, node.dtype), node.dtype)
    pair = _pair(node, (look, look), tiling)
    if found is None or pair is None:
        return None
    draft, one, other = pair
    draft.apply(BEFORE, ufunc, found[0], [one, other, one])
    return draft


def copying(node: Node, looks: tuple[Look, Look], tiling: Tiling) -> _native.TapeDraft | None:
    """What copies the second one of two tiles of a node to the first one, as `joining`."""
    pair = _pair(node, looks, tiling)
    if pair is None:
        return None
    draft, one, other = pair
    draft.copy(BEFORE, other, one)
    return draft


def parts(node: Node, coords: Sequence[int], tiling: Tiling) -> list[int]:
    """Which part of each cut line of a node a tile has."""
    return [coords[axis] for axis in tiling.cut_axes(node)]


def _pair(
    node: Node, looks: tuple[Look, Look], tiling: Tiling
) -> tuple[_native.TapeDraft, int, int] | None:
    """A tape of two tiles that show a node so, and their numbers."""
    one, other = (look.axes for look in looks)
    if node.dtype not in _TYPES or not node.size or one is None or other is None:
        return None
    axes, dtype = range(node.ndim), dtype_name(node.dtype)
    tile = tiling.tile(node)
    cut = [(axis, tile[axis]) for axis in tiling.cut_axes(node)]
    draft = _native.TapeDraft(node.shape, cut, None)
    return draft, draft.tile(dtype, axes, 0, one), draft.tile(dtype, axes, 1, other)
