"""Which files hold several arrays, and what a path means that leads into one."""

import os
from typing import NamedTuple

from outcrop.formats.data_sets import Container
from outcrop.formats.hdf5 import HDF5Files
from outcrop.formats.zip_zarr import ZipFiles

__all__ = ["CONTAINERS", "Located", "container_of", "locate"]

CONTAINERS: dict[str, Container] = {one.name: one for one in (HDF5Files(), ZipFiles())}
"""By what ``format=`` may be, the formats of such files."""


class Located(NamedTuple):
    """Where a path leads that goes into a file.

    Attributes
    ----------
    kind : Container
        The file's format.
    file : str
        The path of the file.
    inside : str
        What follows that; empty where the path is that of the file.
    """

    kind: Container
    file: str
    inside: str


def container_of(path: str) -> Container | None:
    """The format of a file that may hold several arrays; None of anything else."""
    if not os.path.isfile(path):
        return None
    return next((kind for kind in CONTAINERS.values() if kind.recognises(path)), None)


def locate(path: str, format: str | None = None) -> Located | None:
    """The file that a path leads into, and the name of what is wanted of it.

    None where the path leads into no file that may hold several arrays, or into one of another
    `format` than the one that is wanted.
    """
    file, inside = path, ""
    while not os.path.lexists(file):
        above, last = os.path.split(file)
        if not above or above == file:
            return None
        file, inside = above, f"{last}/{inside}" if inside else last
    kind = container_of(file)
    if kind is None or format not in (None, kind.name):
        return None
    return Located(kind, file, inside)
