"""``A.attach[key]``: elements of an array that stay in memory until they are released."""

import atexit
import logging
import math
import warnings
import weakref
from contextlib import suppress
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outcrop import _native
from outcrop.arrays.assignment import assign_value
from outcrop.arrays.regions import Region, Regions
from outcrop.arrays.source import MemorySource, Source
from outcrop.arrays.stored import StoreSource, dies_of_an_exception
from outcrop.arrays.views import Span, View
from outcrop.errors import OutcropWarning, UnsupportedError
from outcrop.process.config import ensure_configured

__all__ = ["Attach", "Attachment"]

_log = logging.getLogger("outcrop")

_SMALL = 1 << 20
"""Bytes of a result that the compiled core does not charge."""

_PAGE = 4096
"""Memory is charged by pages."""

_STAGING, _DECODERS = 64 << 10, 1 << 20
"""Memory in which what is moved is arranged; and that codecs take besides chunks, at most."""


class Attach:
    """What ``A.attach`` is: indexed, it attaches.

    Parameters
    ----------
    source : Source
        The elements.
    view : View
        Which of them.
    """

    __slots__ = ("_source", "_view")

    def __init__(self, source: Source, view: View) -> None:
        self._source, self._view = source, view

    def __getitem__(self, key: Any) -> "Attachment":
        view = self._view.index(key)
        if not isinstance(self._source, StoreSource | MemorySource):
            raise UnsupportedError(
                f"{self._source.describe('')}: what is computed has no memory that could be "
                "attached; compute it, or save it and attach what is saved"
            )
        if not view.is_dense:
            raise UnsupportedError(
                "what is attached has steps of 1; attach what lies between, too, and take the "
                "step of the NumPy array"
            )
        return Attachment(self._source, view)


class _Holder:
    """What a NumPy array says that its memory belongs to: it lives as long as views of that do."""

    def __init__(self, elements: NDArray[Any], *, writable: bool) -> None:
        self._elements = elements
        shown = elements.__array_interface__
        self.__array_interface__ = {**shown, "data": (shown["data"][0], not writable)}


class Attachment:
    """Elements of an array in memory, until they are released.

    Attributes
    ----------
    array : numpy.ndarray
        The elements. Read-only where the array is, and when they are released.

    Raises
    ------
    ArrayBusyError
        A part of them is attached for writing.
    BudgetError
        The memory budget has no room for them. Names the least that has.
    """

    def __init__(self, source: Source, view: View) -> None:
        source.check_open()
        if source.attached is None:
            source.attached = Regions("memory" if source.path is None else str(source.path))
        self._regions, self._source = source.attached, source
        self._region, is_new = self._regions.taken(view.box, writable=source.writable)
        try:
            if is_new:
                _read(self._region, source)
                self._regions.is_read(self._region)
            self.array = self._shown(view)
        except BaseException:
            if is_new:
                self._regions.end(self._region)
            else:
                self._regions.release(self._region, write=True)
            raise

    def _shown(self, view: View) -> NDArray[Any]:
        """The region's memory as the view shows it."""
        region = self._region
        assert region.elements is not None
        holder = _Holder(region.elements, writable=self._source.writable)
        # Whatever still shows it keeps it attached, and when nothing does, it was forgotten.
        self._forgotten = weakref.finalize(holder, _forget, region, self._regions, self._source)
        self._forgotten.atexit = False
        memory = np.asarray(holder)
        start, shape = view.box
        inside = tuple(
            slice(s - low, s - low + n)
            for s, low, n in zip(start, region.box[0], shape, strict=True)
        )
        array = np.asarray(view.apply(memory[inside] if inside else memory))
        region.shown.append(weakref.ref(array))
        return array

    @property
    def is_released(self) -> bool:
        """Whether it was released, by whomever."""
        return not self._forgotten.alive or self._region.elements is None

    def release(self) -> None:
        """Let go; what is attached no more is written back, if the array can be written.

        Releasing twice does nothing. Where it cannot be written it stays attached.

        Raises
        ------
        StorageFullError, StorageError, BudgetError
            It could not be written.
        ForkedProcessError
            This is a child of the process that has attached it.
        """
        self._release(write=True)

    def discard(self) -> None:
        """Let go, and forget what was changed, unless it is attached once more."""
        self._release(write=False)

    def _release(self, *, write: bool) -> None:
        if self.is_released:
            return
        self._source.check_open()
        self._regions.release(self._region, write=write)
        self._forgotten.detach()
        self.array.flags.writeable = False

    def __enter__(self) -> NDArray[Any]:
        return self.array

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # A child process leaves the block too, but what is attached is its parent's.
        if self._source.is_of_parent_process:
            return
        # What an exception has left half done does not become the array's.
        self._release(write=kind is None)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.array, dtype, copy=copy)

    def __repr__(self) -> str:
        state = "released" if self.is_released else "attached"
        return f"<outcrop.Attachment {self._regions.name}{self._region}, {state}>"


def _read(region: Region, source: Source) -> None:
    """Fill a region, and keep the room that it takes to write it back."""
    start, shape = region.box
    spans = tuple(Span(s, 1, n) for s, n in zip(start, shape, strict=True))
    view = View(source.shape, spans, tuple(range(len(shape))))
    nbytes, beside = view.size * source.dtype.itemsize, 0
    what = f"{source.path or 'memory'}{region}, attached"
    own: list[_native.Charge] = []
    kept: list[_native.Charge] = []

    def let_go() -> None:
        _attached.pop(id(region), None)
        for charges in (own, kept):
            while charges:
                charges.pop().release()

    if nbytes:
        ensure_configured()
        if isinstance(source, StoreSource):
            beside = _room_to_write(source)
        # All of it at once, so that what a refusal names as the least is enough.
        _native.Charge(_in_pages(nbytes) + beside, what, True).release()
    if nbytes > 0 and (nbytes < _SMALL or isinstance(source, MemorySource)):
        own.append(_native.Charge(_in_pages(nbytes), what, False))
    try:
        region.elements = source.read(view)
        if beside and source.writable:
            kept.append(_native.Charge(beside, f"what writes back {what}", False))
    except BaseException:
        let_go()
        raise

    def write_back() -> None:
        if not source.writable or region.elements is None:
            return
        while kept:
            kept.pop().release()
        with source.changing(whole=view.is_whole):
            assign_value(source, view, region.elements)

    region.let_go, region.write_back = let_go, write_back
    _attached[id(region)] = region, source


def _room_to_write(source: StoreSource) -> int:
    """Memory that writing any box of an array takes besides the box, at most.

    A tile that is changed in part is in memory meanwhile; where its file is no whole number of such
    tiles, or is encoded, it is made beside that.
    """
    if source.layout != "tiled":
        return _STAGING
    tile = _in_pages(math.prod(source.tile) * source.dtype.itemsize + _PAGE)
    if source.format != "zarr":
        return _DECODERS + 6 * tile
    is_even = all(n % t == 0 for n, t in zip(source.shape, source.tile, strict=True))
    return _STAGING + tile + tile // 8 + (0 if is_even else tile)


def _in_pages(nbytes: int) -> int:
    return -(-nbytes // _PAGE) * _PAGE


# -- what nobody has released ----------------------------------------------------------------------

_attached: dict[int, tuple[Region, Source]] = {}
"""By their ids, the regions that are attached, and the arrays that live as long."""


def _forget(region: Region, regions: Regions, source: Source) -> None:
    """Release what nothing shows any more."""
    if region.elements is None or source.is_of_parent_process:
        return
    _report(region, regions, source, "was never released")


def _report(region: Region, regions: Regions, source: Source, what: str) -> None:
    name = f"{regions.name}{region}"
    try:
        regions.release(region, write=True)
    except Exception as error:
        # There is no caller to raise to.
        _log.error("what was attached could not be kept: %s: %s", name, error)
        with suppress(Exception):
            regions.release(region, write=False)
    written = ", and is written back now" if source.writable else ""
    warnings.warn(
        f"{name} was attached, and {what}{written}; use it in a with statement, or call release()",
        OutcropWarning,
        stacklevel=3,
    )


@atexit.register
def _release_all() -> None:
    """Release what is attached where the interpreter exits, before arrays are committed."""
    failed = dies_of_an_exception()
    for region, source in list(_attached.values()):
        if region.elements is None or source.is_of_parent_process or source.attached is None:
            continue
        if failed:
            source.attached.release(region, write=False)
            continue
        region.count = 1
        _report(region, source.attached, source, "was not released before the end")
