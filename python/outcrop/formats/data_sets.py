"""Arrays in files that hold several: what is said of them, and of the formats of such files."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from outcrop import _native

__all__ = ["DESCRIBED", "MOST_CHUNKS", "NO_SUM", "Container", "DataSet", "Member"]

DESCRIBED = "tiff"
"""What the compiled core calls files whose metadata others have read."""

MOST_CHUNKS = 1 << 20
"""Chunks whose places are listed. Each takes some tens of bytes while a file is opened."""

NO_SUM = 2**64 - 1
"""In the place of a chunk's checksum, where none is known."""


@dataclass(frozen=True)
class Member:
    """What a file says of an array in it.

    Attributes
    ----------
    name : str
        From the root of the file, without the first slash; empty of what is the root itself.
    shape : tuple of int, optional
        None of a data set that has a type, but no elements.
    dtype : numpy.dtype
        In the file's byte order.
    layout : str
        ``"compact"``, ``"contiguous"``, ``"chunked"`` or ``"virtual"``.
    chunks : tuple of int, optional
        The extents of a chunk.
    filters : tuple of str
        What chunks are encoded with, in the order of encoding.
    dimension_names : tuple, optional
        A name or none for every axis.
    stored_bytes : int
        Bytes of its elements in the file.
    """

    name: str
    shape: tuple[int, ...] | None
    dtype: np.dtype[Any]
    layout: str
    chunks: tuple[int, ...] | None
    filters: tuple[str, ...]
    dimension_names: tuple[str | None, ...] | None
    stored_bytes: int


@dataclass(frozen=True)
class DataSet:
    """An array in a file that has been opened.

    Attributes
    ----------
    member : Member
        What it is.
    attributes : str
        A JSON object.
    fill_value : numpy.generic, optional
        What elements are that were never written, where the file says so.
    store : outcrop._native.Store, optional
        What reads the elements where they lie; None where `given` does.
    given : h5py.Dataset or zarr.Array, optional
        The array as another library has it, whose file stays open as long as there is this.
    zarr_format : int, optional
        2 or 3 of a Zarr array.
    """

    member: Member
    attributes: str
    fill_value: np.generic | None
    store: _native.Store | None
    given: Any
    zarr_format: int | None = None


class Container(ABC):
    """A format of files that hold several arrays, of which none is changed where it lies.

    Attributes
    ----------
    name : str
        What `Array.format` is.
    file : str
        What such a file is called, for people.
    title : str
        What there is in them.
    unchanged : str
        Why nothing in them is opened for writing.
    writing : str
        Who writes to them.
    """

    name: ClassVar[str]
    file: ClassVar[str]
    title: ClassVar[str]
    unchanged: ClassVar[str]
    writing: ClassVar[str]

    @abstractmethod
    def recognises(self, path: str) -> bool:
        """Whether a file is one; False where it cannot be read."""

    @abstractmethod
    def open(self, path: str, inside: str) -> DataSet:
        """Open an array by its name in a file, or the only one in a group."""

    @abstractmethod
    def names(self, path: str, inside: str) -> dict[str, bool]:
        """What stands in a group of a file, by name: whether it is a group itself."""

    def damage(self, path: str, inside: str) -> Iterator[tuple[int, str | None]]:
        """For each part of an array that has a checksum, how many there are, and what is wrong."""
        return iter(())
