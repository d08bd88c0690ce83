"""What arrays of other libraries and formats are labelled with: names of axes, attributes."""

import json
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import numpy as np

__all__ = [
    "OF_DIMENSIONS",
    "OF_SCALES",
    "attributes_of",
    "dimension_names_of",
    "is_scale",
    "raw_attributes_of",
]

OF_DIMENSIONS = (
    *("DIMENSION_LABELS", "DIMENSION_LIST", "REFERENCE_LIST", "_ARRAY_DIMENSIONS"),
    *("_Netcdf4Dimid", "_Netcdf4Coordinates"),
)
"""Attributes by which HDF5, NetCDF and Zarr keep names of axes."""

OF_SCALES = ("CLASS", "NAME")
"""Attributes that make a data set of HDF5 a scale, by which axes of others are named."""

_APART = "_nc4_non_coord_"
"""What NetCDF puts in front of the name of a variable that a dimension has, too."""


def dimension_names_of(given: Any, ndim: int) -> tuple[str | None, ...] | None:
    """What another library calls the axes: xarray, netCDF4, h5py, Zarr-Python by its format."""
    if hasattr(given, "is_scale"):
        names = _of_hdf5(given, ndim)
    else:
        found = getattr(given, "dims", None) or getattr(given, "dimensions", None)
        if found is None:
            found = getattr(getattr(given, "metadata", None), "dimension_names", None)
        if found is None:
            found = getattr(given, "attrs", {}).get("_ARRAY_DIMENSIONS")
        if not isinstance(found, Iterable):
            return None
        names = list(found)
    if len(names) != ndim or not any(names):
        return None
    return tuple(str(name) if name else None for name in names)


def _of_hdf5(given: Any, ndim: int) -> list[Any]:
    """The names of the first scale of each axis, or else its label.

    From the attributes themselves: what HDF5 has to read them ends the process where they are
    damaged.
    """
    names = [_text(label) for label in _attribute(given, "DIMENSION_LABELS", ndim)]
    for axis, scales in enumerate(_attribute(given, "DIMENSION_LIST", ndim)):
        first = scales[0] if isinstance(scales, np.ndarray) and scales.size else None
        if type(first).__name__ == "Reference":
            # It may be of what is not there any more.
            with suppress(Exception):
                names[axis] = _last_part(given.file[first].name) or names[axis]
    if ndim == 1 and not names[0] and is_scale(given):
        # What names axes names its own as well.
        names = [_last_part(given.name)]
    return names


def _attribute(given: Any, name: str, ndim: int) -> Any:
    """What an attribute says of each axis; None where it does not."""
    try:
        is_there = name in given.attrs and given.attrs.get_id(name).shape == (ndim,)
        found = np.asarray(given.attrs[name]) if is_there else None
    except (TypeError, ValueError, OSError, KeyError, RuntimeError):
        found = None
    return found if found is not None and found.shape == (ndim,) else [None] * ndim


def is_scale(given: Any) -> bool:
    """Whether a data set of HDF5 is there to name axes."""
    try:
        return hasattr(given, "is_scale") and _text(given.attrs["CLASS"]) == "DIMENSION_SCALE"
    except (TypeError, ValueError, OSError, KeyError, RuntimeError):
        return False


def _text(given: Any) -> str | None:
    given = given.decode("utf-8", "replace") if isinstance(given, bytes) else given
    return given if isinstance(given, str) else None


def _last_part(name: str | None) -> str:
    return (name or "").rpartition("/")[2].removeprefix(_APART)


def raw_attributes_of(given: Any, *, hidden: bool = True) -> dict[str, Any]:
    """The attributes of another library's array or group, text decoded.

    Without those that only say how axes are named, unless these are not to be hidden.
    """
    attributes, said = getattr(given, "attrs", {}), {}
    apart = OF_DIMENSIONS + (OF_SCALES if is_scale(given) else ()) if hidden else ()
    for name in attributes:
        if name in apart:
            continue
        try:
            value = attributes[name]
            said[str(name)] = value.decode() if isinstance(value, bytes) else value
        except (TypeError, ValueError, OSError):
            # References of HDF5, what its library cannot read itself.
            continue
    return said


def attributes_of(given: Any) -> dict[str, Any]:
    """The attributes of another library's array, as far as JSON can say them."""
    said = {}
    for name, value in raw_attributes_of(given).items():
        try:
            value = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
            said[name] = json.loads(json.dumps(value, allow_nan=False))
        except (TypeError, ValueError):
            # Dates, and the like.
            continue
    return said
