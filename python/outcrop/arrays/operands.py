"""Operands that are read tile by tile, by what works on the tiles of arrays alone."""

from typing import NamedTuple

from outcrop import _native
from outcrop.arrays import hooks
from outcrop.arrays.array import Array
from outcrop.arrays.computed import ComputedSource
from outcrop.arrays.stored import StoreSource
from outcrop.arrays.views import NewAxis, Span

__all__ = ["Shown", "operand", "shown"]


class Shown(NamedTuple):
    """A box of a store.

    Attributes
    ----------
    store : Store
        As an array with the axes of what is shown, in its order and direction.
    start, shape : tuple of int
        The box.
    """

    store: _native.Store
    start: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def is_whole(self) -> bool:
        """Whether it is all of the store."""
        return self.shape == tuple(self.store.shape)

    @property
    def tile(self) -> tuple[int, ...] | None:
        """The tiles that it is stored in, where it is, and they are its own from the first on."""
        is_tiled = self.is_whole and self.store.layout == "tiled"
        return tuple(self.store.tile) if is_tiled else None


def operand(array: Array) -> Array:
    """The array as it can be read tile by tile: what is not computed yet is, and goes afterwards.

    Elements between which others are left out are copied first, too.
    """
    if isinstance(array._source, ComputedSource):
        array = Array(array._source.as_operand(), array._view)
    if isinstance(array._source, StoreSource) and array.size and shown(array) is None:
        return hooks.packed(array)
    return array


def shown(array: Array) -> Shown | None:
    """The box that an array is of one that is stored; None of any other array."""
    source, view = array._source, array._view
    if not isinstance(source, StoreSource) or not view.is_dense:
        return None
    axes = [axis for axis in view.axes if not isinstance(axis, NewAxis)]
    if len(axes) != len(view.axes):
        return None
    if view.is_box and len(axes) == len(source.shape):
        return Shown(source.store, *view.box)
    at = [(a, s) for a, s in enumerate(view.selectors) if not isinstance(s, Span)]
    spans = [view.span(axis) for axis in range(len(axes))]
    lengths = [source.shape[axis] for axis in axes]
    start = tuple(
        s.low if s.step > 0 else n - s.low - s.extent for s, n in zip(spans, lengths, strict=True)
    )
    # Axes are counted without those that are gone.
    order = [axis - sum(gone < axis for gone, _ in at) for axis in axes]
    store = source.store.shown(at, order, [s.step < 0 for s in spans])
    return Shown(store, start, view.shape)
