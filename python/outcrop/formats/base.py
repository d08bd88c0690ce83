"""What a format in one file has to say for itself."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from outcrop import _native

__all__ = ["FileFormat"]


class FileFormat(ABC):
    """A family of formats of which a file holds an array as one thing, metadata and elements.

    Metadata is read and written here; elements are moved by the compiled core.

    Attributes
    ----------
    names : tuple of str
        What `Array.format` may be, and so what ``format=`` may be.
    suffixes : mapping of str to str
        The format that a suffix stands for, in lower case and with its dot.
    """

    names: ClassVar[tuple[str, ...]]
    suffixes: ClassVar[Mapping[str, str]]

    @abstractmethod
    def recognises(self, start: bytes) -> bool:
        """Whether a file that begins like this is of the family; it may be shorter."""

    @abstractmethod
    def open(self, path: str, mode: str, page: int) -> _native.Store:
        """Open the image at a position in a file."""

    @abstractmethod
    def create(
        self,
        path: str,
        format: str,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        attributes: Mapping[str, Any],
        overwrite: bool,
    ) -> _native.Store:
        """Make a file that is not visible yet."""

    @abstractmethod
    def offset(
        self,
        path: str,
        format: str,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        attributes: Mapping[str, Any],
    ) -> int:
        """Bytes before the first element of the file that `create` would make.

        Refuses what `create` refuses, and makes nothing.
        """

    @abstractmethod
    def beside(self, path: str, page: int, nbytes: int) -> str | None:
        """What a file holds besides the image at a position, of so many bytes, in words.

        None where that is nothing.
        """

    @abstractmethod
    def carried(
        self,
        format: str,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        attributes: Mapping[str, Any],
        *,
        axes: tuple[int, ...] | None,
    ) -> dict[str, Any]:
        """Those attributes of a source that hold for what is made of it.

        `axes` says for each axis of it which axis of the source it is, whichever way it runs;
        None where axes are left out, or elements between others.
        """
