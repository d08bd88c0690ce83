"""Attributes and names of axes of new data sets, as HDF5 and NetCDF 4 have them.

Names of axes are dimension scales: data sets beside the new one, which all that have an axis of
this name refer to. A scale that has no elements of its own is one of NetCDF's.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from outcrop.errors import ArrayExistsError, InvalidArgumentError, InvalidTypeError, OutcropError
from outcrop.formats.hdf5 import NO_VARIABLE, is_data_set
from outcrop.formats.missing import MISSING_ATTRIBUTE, Missing
from outcrop.formats.other_labels import OF_DIMENSIONS, OF_SCALES, is_scale

__all__ = ["Scales", "carried_attributes", "check_attributes", "write_attributes"]

_RESERVED = OF_DIMENSIONS + OF_SCALES
"""Attributes by which axes are named, which nothing else may be called."""

_MOST_BYTES = 60 << 10
"""What an attribute may take: it stands in the header of its data set."""


# -- attributes ------------------------------------------------------------------------------------


def carried_attributes(attributes: Mapping[str, Any], dtype: np.dtype[Any]) -> dict[str, Any]:
    """Those attributes of a source that HDF5 can hold."""
    kept = {}
    for name, value in attributes.items():
        with suppress(OutcropError):
            _attribute("", name, value, dtype)
            kept[name] = value
    return kept


def check_attributes(path: str, attributes: Mapping[str, Any], dtype: np.dtype[Any]) -> None:
    """Refuse attributes that HDF5 cannot hold.

    Raises
    ------
    InvalidArgumentError, InvalidTypeError
        Says which, and why.
    """
    for name, value in attributes.items():
        _attribute(path, name, value, dtype)


def write_attributes(given: Any, attributes: Mapping[str, Any], dtype: np.dtype[Any]) -> None:
    """Give a data set attributes, which are checked."""
    for name, value in attributes.items():
        given.attrs[name] = _attribute("", name, value, dtype)


def _attribute(path: str, name: str, value: Any, dtype: np.dtype[Any]) -> Any:
    """What h5py makes an attribute of that is read as this value again."""
    if name in _RESERVED or not name or "\0" in name:
        raise InvalidArgumentError(f"{path}: an attribute of HDF5 cannot be called {name!r} here")
    if name == MISSING_ATTRIBUTE:
        # NetCDF wants an element, and Zarr has its bits in a text.
        found = Missing.of(None, False, None, {name: value}, dtype).element
        if found is not None:
            return np.asarray([found] if isinstance(value, list) else found)
    made: Any = value
    if isinstance(value, list):
        made = _list(path, name, value)
    elif not isinstance(value, str | bool | int | float):
        raise InvalidTypeError(
            f"{path}: the attribute {name!r} is {type(value).__name__}, and HDF5 has texts, "
            "numbers and lists of them"
        )
    elif isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise InvalidArgumentError(f"{path}: the attribute {name!r} has more than 64 bits")
    texts = [made] if isinstance(made, str) else made if isinstance(made, list) else []
    if any("\0" in text for text in texts):
        raise InvalidArgumentError(f"{path}: the attribute {name!r} has a zero in its text")
    # Of lists of texts, HDF5 has references in the header, of 16 bytes each.
    nbytes = sum(len(text.encode()) + 16 for text in texts) + getattr(made, "nbytes", 0)
    if nbytes > _MOST_BYTES:
        raise InvalidArgumentError(
            f"{path}: the attribute {name!r} takes {nbytes} bytes, more than the {_MOST_BYTES} "
            "that HDF5 has room for"
        )
    return made


def _list(path: str, name: str, value: list[Any]) -> Any:
    """A list as an array of one type; of texts, as it is."""
    if value and all(isinstance(one, str) for one in value):
        return value
    try:
        made = np.asarray(value)
    except (ValueError, OverflowError):
        made = np.asarray(None)
    if made.dtype.kind not in "biuf" or made.tolist() != value:
        raise InvalidTypeError(
            f"{path}: the attribute {name!r} is a list that HDF5 cannot hold: it has lists of "
            "texts, and of numbers of one type"
        )
    return made


# -- names of axes ---------------------------------------------------------------------------------


class Scales:
    """The dimension scales of a new data set, and what it is the scale of.

    Parameters
    ----------
    group : h5py.Group
        Where it stands.
    own : str
        Its name there.
    shape : tuple of int
        Its extents.
    names : tuple, optional
        A name or none for every axis.
    """

    def __init__(
        self, group: Any, own: str, shape: tuple[int, ...], names: tuple[str | None, ...] | None
    ) -> None:
        self._group, self._own, self._shape = group, own, shape
        self._names = names or (None,) * len(shape)
        self._of: list[tuple[str, int]] = []
        """The data sets by name, each with an axis, that it was the scale of."""

    @property
    def _is_one(self) -> bool:
        return self._names == (self._own,)

    def prepare(self, path: str, old: Any, *, overwrite: bool) -> None:
        """Make the scales that are missing, and take apart those that what goes away is of."""
        if old is not None:
            self._of = list(_uses(old))
            fits = len(self._shape) == 1 and old.shape == self._shape
            if not overwrite and not fits:
                raise ArrayExistsError(
                    f"{path}: is there already, to name axes of {old.shape[0]} elements; "
                    "overwrite=True replaces it"
                )
            for user, axis in self._of:
                self._group.file[user].dims[axis].detach_scale(old)
            for axis, scales in enumerate(old.dims):
                for scale in scales.values():
                    old.dims[axis].detach_scale(scale)
        for name, extent in zip(self._names, self._shape, strict=True):
            if name is None or self._found(name, extent) is not None or self._is_one:
                continue
            free = [one for one in self._candidates(name) if one not in self._group]
            if free:
                _make_scale(self._group, free[0], extent)

    def attach(self, before: "Scales") -> None:
        """Name the axes of the data set, which is there now, and those that it is the scale of."""
        made = self._group[self._own]
        if self._is_one or (before._of and made.ndim == 1):
            made.make_scale(self._own)
        for user, axis in before._of:
            other = self._group.file[user]
            if other.shape[axis : axis + 1] == made.shape:
                other.dims[axis].attach_scale(made)
            else:
                other.dims[axis].label = self._own
        if is_scale(made):
            # One scale cannot have another.
            return
        for axis, (name, extent) in enumerate(zip(self._names, self._shape, strict=True)):
            if name is None:
                continue
            scale = self._found(name, extent)
            if scale is None:
                made.dims[axis].label = name
            else:
                made.dims[axis].attach_scale(scale)

    def _candidates(self, name: str) -> Iterator[str]:
        """What the scale of an axis may be called: as the axis, or with our own name in front.

        Nothing, where no data set can have the name, or the new one has it and is no scale.
        """
        if name not in ("", ".", "..", self._own) and "/" not in name and "\0" not in name:
            yield from (name, f"{self._own}_{name}")

    def _found(self, name: str, extent: int) -> Any:
        """The scale of an axis, if it is there."""
        import h5py  # type: ignore[import-untyped]

        for one in self._candidates(name):
            if self._group.get(one, getclass=True, getlink=True) is h5py.HardLink:
                node = self._group[one]
                if is_data_set(node) and node.shape == (extent,) and is_scale(node):
                    return node
        return None


def _make_scale(group: Any, name: str, extent: int) -> None:
    """A scale without elements, as NetCDF has it."""
    made = group.create_dataset(name, (extent,), ">f4")
    made.make_scale(f"{NO_VARIABLE}.{extent:10d}")


def _uses(scale: Any) -> Iterator[tuple[str, int]]:
    """The data sets, by name, that a scale is attached to, and of which axis."""
    if not is_scale(scale) or "REFERENCE_LIST" not in scale.attrs:
        return
    for reference, axis in scale.attrs["REFERENCE_LIST"]:
        with suppress(ValueError, KeyError, RuntimeError):
            # It may be of what is not there any more.
            other = scale.file[reference]
            if other.name and 0 <= axis < other.ndim and is_data_set(other):
                yield other.name, int(axis)
