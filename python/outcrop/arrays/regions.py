"""Which boxes of an array are attached, by whom, and when they end."""

import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeAlias

from numpy.typing import NDArray

from outcrop.errors import ArrayBusyError

__all__ = ["Box", "Region", "Regions"]

Box: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
"""Start and shape."""


class Region:
    """A box of an array in memory.

    Attributes
    ----------
    box : Box
        Which one.
    elements : numpy.ndarray or None
        The memory; None before it is read, and when it is let go.
    write_back, let_go : callable
        Writes the memory to the array; gives back what is charged beside it.
    count : int
        How often it is attached.
    busy : int or None
        The thread that reads it, or writes it back.
    """

    def __init__(self, box: Box) -> None:
        self.box = box
        self.elements: NDArray[Any] | None = None
        self.write_back: Callable[[], None] = _nothing
        self.let_go: Callable[[], None] = _nothing
        self.count = 0
        self.busy: int | None = threading.get_ident()
        self.shown: list[weakref.ref[NDArray[Any]]] = []
        """Arrays that show it."""

    def contains(self, box: Box) -> bool:
        """Whether a box lies inside."""
        sides = zip(*self.box, *box, strict=True)
        return all(s <= t and t + m <= s + n for s, n, t, m in sides)

    def meets(self, box: Box) -> bool:
        """Whether it has elements in common with a box."""
        sides = zip(*self.box, *box, strict=True)
        return all(max(s, t) < min(s + n, t + m) for s, n, t, m in sides)

    def __str__(self) -> str:
        sides = zip(*self.box, strict=True)
        return f"[{', '.join(f'{start}:{start + n}' for start, n in sides)}]"


def _nothing() -> None:
    pass


class Regions:
    """The regions of one array."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._regions: list[Region] = []
        # Reentrant: garbage may be collected, and with it what is attached, at any point.
        self._changed = threading.Condition(threading.RLock())

    def taken(self, box: Box, *, writable: bool) -> tuple[Region, bool]:
        """The region in which a box is from now on, counted, and whether it is yet to be read.

        Who is to read it says so with `is_read`, or `end`.

        Raises
        ------
        ArrayBusyError
            A part of the box is attached, and is written: two memories would have one place.
        """
        with self._changed:
            while True:
                found = next((one for one in self._regions if one.contains(box)), None)
                if found is None:
                    break
                if found.busy is None:
                    found.count += 1
                    return found, False
                self._changed.wait()
            met = next((one for one in self._regions if one.meets(box)), None) if writable else None
            if met is not None:
                raise ArrayBusyError(
                    f"{self.name}{Region(box)}: {met} is attached, of which it has a part; attach "
                    "first what contains the other, or release what is attached"
                )
            region = Region(box)
            region.count = 1
            self._regions.append(region)
            return region, True

    def is_read(self, region: Region) -> None:
        """Let others attach it, too."""
        with self._changed:
            region.busy = None
            self._changed.notify_all()

    def release(self, region: Region, *, write: bool) -> None:
        """Attach a region once less; write it back, if that was the last time.

        Where that fails it stays attached.
        """
        with self._changed:
            if region.busy == threading.get_ident():
                # It ends already, and garbage was collected meanwhile.
                return
            # Another thread may end it, for instance since it closes the array.
            while region.busy is not None:
                self._changed.wait()
            if region.elements is None:
                return
            if region.count > 1:
                region.count -= 1
                return
            region.busy = threading.get_ident()
        try:
            if write:
                region.write_back()
        except BaseException:
            self.is_read(region)
            raise
        self.end(region)

    def end(self, region: Region) -> None:
        """Let go of a region."""
        with self._changed:
            if region in self._regions:
                self._regions.remove(region)
            for shown in region.shown:
                array = shown()
                if array is not None:
                    # What is written to it from now on would be lost.
                    array.flags.writeable = False
            region.shown.clear()
            region.count = 0
            region.busy = None
            region.elements = None
            region.let_go()
            region.write_back = region.let_go = _nothing
            self._changed.notify_all()

    def end_all(self, *, write: bool) -> list[Region]:
        """Release all that is attached, however often; gives what that was."""
        ended = self._listed()
        for region in ended:
            region.count = 1
            self.release(region, write=write)
        return ended

    def check_apart(self, box: Box | None) -> None:
        """Raise where elements of a box (None: of the array) are attached.

        Raises
        ------
        ArrayBusyError
            They are.
        """
        for region in self._listed():
            # What is busy is written back right now, or read, which gives one state or the other.
            if region.busy is None and (box is None or region.meets(box)):
                raise ArrayBusyError(
                    f"{self.name}{region} is attached, and is written back when it is released; "
                    "release it before elements are assigned otherwise, or assign to the attached "
                    "ones"
                )

    def _listed(self) -> list[Region]:
        with self._changed:
            return list(self._regions)
