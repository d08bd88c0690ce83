"""What arrays of other libraries and formats are labelled with: names of axes, attributes."""

import json
from collections.abc import Iterable
from typing import Any

import numpy as np

__all__ = ["attributes_of", "dimension_names_of"]

_OF_DIMENSIONS = (
    *("DIMENSION_LABELS", "DIMENSION_LIST", "REFERENCE_LIST", "_ARRAY_DIMENSIONS"),
    *("_Netcdf4Dimid", "_Netcdf4Coordinates"),
)
"""Attributes by which HDF5, NetCDF and Zarr keep names of axes."""

_OF_SCALES = ("CLASS", "NAME")
"""Attributes that make a data set of HDF5 a scale, by which axes of others are named."""

_APART = "_nc4_non_coord_"
"""What NetCDF puts in front of the name of a variable that a dimension has, too."""


def dimension_names_of(given: Any, ndim: int) -> tuple[str | None, ...] | None:
    """What another library calls the axes: xarray, netCDF4, h5py, Zarr-Python by its format."""
    found = getattr(given, "dims", None) or getattr(given, "dimensions", None)
    if found is None:
        found = getattr(getattr(given, "metadata", None), "dimension_names", None)
    if found is None:
        found = getattr(given, "attrs", {}).get("_ARRAY_DIMENSIONS")
    if not isinstance(found, Iterable):
        return None
    names = [_name(one) for one in found]
    if ndim == 1 and names == [""] and getattr(given, "is_scale", False) is True:
        # A scale of HDF5 is what names axes, its own as well.
        names = [_last_part(given.name)]
    if len(names) != ndim or not any(names):
        return None
    return tuple(str(name) if name else None for name in names)


def _name(dimension: Any) -> Any:
    """A name, or what h5py has of an axis: the name of its first scale, or its label."""
    label = getattr(dimension, "label", dimension)
    if label is dimension:
        return label
    try:
        scales = len(dimension)
        return (_last_part(dimension[0].name) if scales else "") or label
    except (TypeError, KeyError, OSError, RuntimeError, ValueError):
        # A scale that is not there any more.
        return label


def _last_part(name: str | None) -> str:
    return (name or "").rpartition("/")[2].removeprefix(_APART)


def attributes_of(given: Any) -> dict[str, Any]:
    """The attributes of another library's array, as far as JSON can say them."""
    attributes, said = getattr(given, "attrs", {}), {}
    hidden = _OF_DIMENSIONS + (_OF_SCALES if getattr(given, "is_scale", False) is True else ())
    for name in attributes:
        if name in hidden:
            continue
        try:
            value = attributes[name]
            value = value.decode() if isinstance(value, bytes) else value
            value = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
            said[str(name)] = json.loads(json.dumps(value, allow_nan=False))
        except (TypeError, ValueError, OSError):
            # References of HDF5, dates, what its library cannot read itself.
            continue
    return said
