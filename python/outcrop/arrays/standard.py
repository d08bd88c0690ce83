"""What the Python array API standard asks of arrays: their namespace, their device, and DLPack."""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.lib import NumpyVersion

from outcrop.checks import check_device
from outcrop.errors import InvalidArgumentError, UnsupportedError

if TYPE_CHECKING:
    from outcrop.arrays.array import Array

__all__ = ["Standard", "__array_api_version__"]

_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")

__array_api_version__ = _VERSIONS[-1]
"""Of the standard: the one that functions here are named after."""

_CPU = (1, 0)
"""DLPack's number of the kind of device, and which one of these."""

_MARKS_READ_ONLY = (1, 0)
"""Since this version of DLPack, memory can be given away that is not to be written to."""

_NUMPY_KNOWS_VERSIONS = NumpyVersion(np.__version__) >= "2.1.0"


class Standard:
    """The standard's attributes and methods that NumPy's arrays have not always had."""

    __slots__ = ()

    @property
    def device(self) -> str:
        """Where it is: ``"cpu"``, which stands for the memory of the host, and its disks."""
        return "cpu"

    def to_device(self, device: str, /, *, stream: Any = None) -> "Array":
        """Give the array itself: ``"cpu"`` is the only device.

        Raises
        ------
        InvalidArgumentError
            Another device is given, or a stream.
        """
        check_device(device)
        _check_stream(stream)
        return cast("Array", self)

    def __array_namespace__(self, /, *, api_version: str | None = None) -> ModuleType:
        """Give the module whose functions these arrays are for, by the standard: `outcrop`.

        Raises
        ------
        InvalidArgumentError
            There is no such version of the standard.
        """
        if api_version is not None and api_version not in _VERSIONS:
            raise InvalidArgumentError(
                f"the versions of the standard are {', '.join(_VERSIONS)}, and not {api_version!r}"
            )
        return sys.modules["outcrop"]

    def __dlpack_device__(self) -> tuple[int, int]:
        """Tell the device as DLPack does: the first CPU."""
        return _CPU

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Give the elements to another library: where they are in memory, without a copy.

        Elsewhere they are computed, within the memory budget. Memory of our own is to be looked at
        only, which DLPack can tell since its version 1.0: to a library that knows no more than an
        older one, it is copied.

        Raises
        ------
        BudgetError
            They are not in memory, and are more than the memory budget has room for.
        InvalidArgumentError
            `copy` is False, and a copy is needed; or there is a stream.
        UnsupportedError
            They are asked for on another device.
        """
        _check_stream(stream)
        if dl_device is not None and tuple(dl_device) != _CPU:
            raise UnsupportedError(f"the only device is the CPU, {_CPU}, and not {dl_device}")
        array = cast("Array", self)
        array._source.check_open()
        tells = _NUMPY_KNOWS_VERSIONS and max_version is not None
        marks = max_version is not None and tells and tuple(max_version) >= _MARKS_READ_ONLY
        lent = None if copy else array._source.lend(array._view, is_asked=True)
        if lent is not None and not (lent.flags.writeable or marks):
            lent = None
        if lent is None:
            if copy is False:
                raise InvalidArgumentError(
                    "Unable to avoid copy: the elements are not in memory, or are only to be "
                    "looked at, which DLPack cannot tell before its version 1.0"
                )
            lent = array.compute()
        return lent.__dlpack__(max_version=max_version) if tells else lent.__dlpack__()


def _check_stream(stream: Any) -> None:
    if stream is not None:
        raise InvalidArgumentError(f"a CPU has no streams: stream must be None, got {stream!r}")
