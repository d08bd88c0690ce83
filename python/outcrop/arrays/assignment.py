"""``A[key] = value``: NumPy's assignment, a piece at a time."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from outcrop.arrays import hooks
from outcrop.arrays.conversion import elements_of
from outcrop.arrays.pieces import Piece, longest, pieces
from outcrop.arrays.source import Source
from outcrop.arrays.views import View
from outcrop.errors import BudgetError, InvalidArgumentError
from outcrop.process.config import piece_limit

if TYPE_CHECKING:
    from outcrop.arrays.array import Array

__all__ = ["assign_array", "assign_value", "read_pieces"]

_BLOCK, _HUGE, _LITTLE = 4096, 2 << 20, 16
"""Bytes of a block of memory, and of a huge page; and of how much a part is little (`frame`)."""

_MANY = 4096
"""Pieces that are looked at for the largest one."""


def assign_value(target: Source, view: View, value: Any) -> None:
    """Set the elements of a view to a scalar, a NumPy array, or what NumPy makes an array of."""
    target.check_writable(view)
    if not isinstance(value, np.ndarray):
        # What is no array yet takes the target's type at once, as in NumPy's assignment: an
        # integer that does not fit is an error, where an array's elements would wrap around.
        own = isinstance(value, np.generic) or hasattr(value, "__array__")
        value = elements_of(value, None if own else target.dtype)
    value = np.asarray(value)
    trim = _trim(value.shape, view.shape)
    value = value.reshape(trim)
    if target.borrow(view) is not None:
        # In one go: the value may lie in the same memory, and NumPy knows what to do then.
        target.write(view, value)
        return
    for where, piece in _cut(target, view, value.dtype.itemsize):
        target.write(piece, value[_part(where, trim)])


def assign_array(target: Source, view: View, value: "Array") -> None:
    """Set the elements of a view to those of another array, which is read piece by piece."""
    target.check_writable(view)
    trim = _trim(value.shape, view.shape)
    source, source_view = value._source, value._view
    source.check_open()
    source = source.settle(target, view)
    source_view = source_view.index((0,) * (value.ndim - len(trim)))
    borrowed = source.borrow(source_view)
    if borrowed is not None:
        assign_value(target, view, borrowed)
        return
    if _overlap(target, view, source, source_view):
        if value.nbytes > piece_limit():
            assign_array(target, view, hooks.materialized(value))
            return
        assign_value(target, view, source.read(source_view))
        return

    def parts() -> Iterator[View]:
        for where, _ in _cut(target, view, value.itemsize):
            yield source_view.index(_part(where, trim))

    for (_, piece), block in zip(
        _cut(target, view, value.itemsize), source.read_many(parts()), strict=True
    ):
        target.write(piece, block)


def _overlap(target: Source, view: View, source: Source, source_view: View) -> bool:
    """Whether an element may be read after it was written."""
    source = source.base.live
    if not target.same_elements(source):
        return False
    if view == source_view:
        # Each piece is read before it is written, and no other reads it.
        return target is not source
    # One raw file may be opened with two shapes; then boxes say nothing.
    return target.shape != source.shape or view.meets(source_view)


def _cut(target: Source, view: View, itemsize: int) -> Iterator[Piece]:
    # The wider of the two types has to fit, too.
    grid = replace(target.grid, itemsize=max(target.dtype.itemsize, itemsize))
    return pieces(view, grid, piece_limit())


def _trim(given: tuple[int, ...], wanted: tuple[int, ...]) -> tuple[int, ...]:
    """The value's shape without surplus leading ones, if it broadcasts to what is wanted."""
    surplus = max(len(given) - len(wanted), 0)
    trim = given[surplus:]
    aligned = wanted[len(wanted) - len(trim) :]
    fits = all(n == 1 for n in given[:surplus]) and all(
        n in (1, m) for n, m in zip(trim, aligned, strict=True)
    )
    if not fits:
        raise InvalidArgumentError(
            f"could not broadcast input array from shape {given} into shape {wanted}"
        )
    return trim


def _part(where: tuple[slice, ...], shape: tuple[int, ...]) -> tuple[slice, ...]:
    """What of a value of this shape belongs to a piece of the target; axes of one stay."""
    own = where[len(where) - len(shape) :]
    return tuple(slice(0, 1) if n == 1 else s for s, n in zip(own, shape, strict=True))


def read_pieces(
    source: Source, view: View, *, merge: bool = True
) -> Iterator[tuple[tuple[slice, ...], NDArray[Any]]]:
    """The elements of a view in pieces, with where they are in it, read ahead."""
    grid, limit = source.grid, piece_limit()

    def cut() -> Iterator[Piece]:
        return pieces(view, grid, limit, merge=merge)

    blocks = source.read_many(piece for _, piece in cut())
    is_first = True
    try:
        for (where, _), block in zip(cut(), blocks, strict=True):
            is_first = False
            yield where, block
    except BudgetError as error:
        if is_first and error.needed is not None:
            boxes = (piece.box[1] for _, piece in islice(cut(), _MANY))
            own = max(math.prod(shape) for shape in boxes) * grid.itemsize
            _name_the_least(error, own, lambda n: longest(view, grid, piece_limit(n), merge))
        raise


def _framed(nbytes: int) -> int:
    """Bytes of the memory for a piece, at most: of whole huge pages, where that adds little."""
    blocks = (nbytes // _BLOCK + 2) * _BLOCK
    huge = -(-blocks // _HUGE) * _HUGE
    return huge if huge - blocks <= blocks // _LITTLE else blocks


def _name_the_least(error: BudgetError, own: int, piece: Callable[[int], int]) -> None:
    """With more memory pieces are larger, two of which are in memory: have an error say so.

    `own` are the bytes of the largest one now, and `piece` says them for other budgets.
    """
    assert error.needed is not None
    named = error.needed
    beside = named - 2 * own
    least = named
    while (needed := beside + 2 * _framed(piece(least))) > least:
        least = needed
    error.needed = least
    error.args = (str(error).replace(str(named), str(least)), *error.args[1:])
