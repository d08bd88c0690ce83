"""``xarray.open_dataset(path, engine="outcrop")``: its variables are arrays of ours.

Zarr groups, in directories and in zip archives, HDF5 and NetCDF 4 files and groups in them, and
single arrays of any format. What we have no element type for, such as text, is read by the package
that knows the format.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from xarray import Dataset, Variable
from xarray.backends import BackendEntrypoint
from xarray.backends.common import AbstractDataStore
from xarray.backends.store import StoreBackendEntrypoint
from xarray.core.indexing import ExplicitlyIndexed

from outcrop.arrays.array import Array
from outcrop.arrays.creation import open as opened
from outcrop.checks import has_type
from outcrop.errors import UnsupportedError
from outcrop.formats.containers import locate
from outcrop.formats.data_sets import Member
from outcrop.formats.groups import group_at
from outcrop.formats.hdf5 import HDF5, children_of, elements_of
from outcrop.formats.missing import MISSING_ATTRIBUTE, Missing
from outcrop.formats.zip_zarr import ZIP
from outcrop.formats.zip_zarr import children_of as children_of_zip
from outcrop.formats.zip_zarr import elements_of as elements_of_zip

__all__ = ["OutcropBackend"]


class OutcropBackend(BackendEntrypoint):
    """Reads datasets lazily, with arrays of ours: ``engine="outcrop"``."""

    description = "Arrays larger than memory, computed within a budget: Zarr, HDF5, NetCDF 4, .npy"
    url = ""
    open_dataset_parameters = (
        "filename_or_obj",
        "drop_variables",
        "group",
        "mask_and_scale",
        "decode_times",
        "concat_characters",
        "decode_coords",
        "use_cftime",
        "decode_timedelta",
    )

    def open_dataset(
        self,
        filename_or_obj: Any,
        *,
        drop_variables: str | Iterable[str] | None = None,
        group: str | None = None,
        mask_and_scale: Any = True,
        decode_times: Any = True,
        concat_characters: Any = True,
        decode_coords: Any = True,
        use_cftime: Any = None,
        decode_timedelta: Any = None,
    ) -> Dataset:
        """Open a group of arrays as a dataset, of which nothing but metadata is read.

        Parameters
        ----------
        filename_or_obj : str or os.PathLike
            A Zarr group, a zip archive of one, an HDF5 or NetCDF 4 file, or a single array, whose
            variable is called as the file is, without its suffix.
        group : str, optional
            Which group in it.
        drop_variables, mask_and_scale, decode_times, concat_characters, decode_coords, \
use_cftime, decode_timedelta
            As `xarray.open_dataset` has them.
        """
        path = os.path.expanduser(os.fspath(filename_or_obj))
        dropped = {drop_variables} if isinstance(drop_variables, str) else set(drop_variables or ())
        made = StoreBackendEntrypoint().open_dataset(
            _Store(path, group, dropped),
            mask_and_scale=mask_and_scale,
            decode_times=decode_times,
            concat_characters=concat_characters,
            decode_coords=decode_coords,
            use_cftime=use_cftime,
            decode_timedelta=decode_timedelta,
        )
        return made._replace({name: _kept(one) for name, one in made._variables.items()})

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Whether it is taken without being asked for: never, as others read the same files."""
        return False


class _Variable(Variable):
    """A variable whose elements stay an array of ours.

    xarray protects those of a dataset that it has opened: they are copied before they are written
    to, and kept in memory once they are read. Ours are not written to, and where they are read, it
    is by parts, of which none is to be kept.
    """

    __slots__ = ()

    @property
    def data(self) -> Any:
        """The elements."""
        return super().data

    @data.setter
    def data(self, data: Any) -> None:
        inner = data
        while isinstance(inner, ExplicitlyIndexed) and hasattr(inner, "array"):
            inner = inner.array
        # As the property of the base class does it.
        vars(Variable)["data"].fset(self, inner if isinstance(inner, Array) else data)


def _kept(variable: Variable) -> Variable:
    if type(variable) is not Variable or not isinstance(variable._data, Array):
        return variable
    return _Variable(
        variable.dims, variable._data, variable._attrs, variable._encoding, fastpath=True
    )


class _Store(AbstractDataStore):
    """What a path holds, as xarray's variables."""

    def __init__(self, path: str, group: str | None, dropped: set[str]) -> None:
        self._path, self._group, self._dropped = path, (group or "").strip("/"), dropped

    def get_attrs(self) -> Mapping[str, Any]:
        """The attributes of the group."""
        return self._attributes

    def get_variables(self) -> Mapping[str, Variable]:
        """The arrays of the group, by their names."""
        self._attributes: dict[str, Any] = {}
        where = Path(self._path, self._group)
        place = locate(str(where))
        if place is not None and place.kind.name == ZIP:
            zipped = children_of_zip(place.file, place.inside)
            if zipped is not None:
                self._attributes = zipped.attributes
                names = [name for name in zipped.arrays if name not in self._dropped]
                return {name: _of_zarr(where / name) for name in names}
        children = None
        if place is not None and place.kind.name == HDF5:
            children = children_of(place.file, place.inside)
        group = group_at(where)
        if children is not None:
            self._attributes = {k: _one_of(v) for k, v in children.attributes.items()}
            return {
                name: _of_hdf5(where / name, member, attributes)
                for name, (member, attributes) in children.data_sets.items()
                if name not in self._dropped
            }
        if group is not None:
            self._attributes = group.attributes()
            names = [name for name in group.arrays() if name not in self._dropped]
            return {name: _of_zarr(where / name) for name in names}
        return {where.name.partition(".")[0] or "array": _of_array(opened(where), where.name)}


def _of_hdf5(path: Path, member: Member, attributes: dict[str, Any]) -> Variable:
    own = {name: _one_of(value) for name, value in attributes.items()}
    # Where nothing names an axis, as for h5netcdf; the same for axes of the same length.
    names = member.dimension_names or (None,) * len(member.shape or ())
    dims = [n or f"phony_dim_{a}" for a, n in enumerate(names)]
    kind = member.dtype
    array = opened(path) if has_type(kind) else elements_of(*_inside(path))
    encoding: dict[str, Any] = {"source": str(path.parent), "original_shape": member.shape}
    if member.chunks is not None:
        encoding |= {"chunksizes": member.chunks}
        encoding |= {"preferred_chunks": dict(zip(dims, member.chunks, strict=True))}
    return Variable(dims, array, own, encoding)


def _inside(path: Path) -> tuple[str, str]:
    found = locate(str(path))
    assert found is not None
    return found.file, found.inside


def _one_of(value: Any) -> Any:
    """An attribute as NetCDF has it: a list of one element is that element."""
    if isinstance(value, np.ndarray) and value.size == 1:
        return value.reshape(-1)[0]
    return value


def _of_zarr(path: Path) -> Variable:
    try:
        array = opened(path)
    except UnsupportedError:
        return _by_zarr(path)
    return _of_array(array, "")


def _of_array(array: Array, name: str) -> Variable:
    """A variable of an array that says by itself what its axes are called."""
    names = array.dimension_names or (None,) * array.ndim
    dims = [n or f"dim_{a}" for a, n in enumerate(names)]
    attributes = array.attributes
    version = array._source.zarr_format
    missing = Missing.of(version, True, array.fill_value, attributes, array.dtype)
    attributes.pop(MISSING_ATTRIBUTE, None)
    if missing.element is not None:
        attributes[MISSING_ATTRIBUTE] = missing.element
    encoding = {"chunks": array.tile, "preferred_chunks": dict(zip(dims, array.tile, strict=True))}
    return Variable(dims, array, attributes, encoding if array.path is not None else {})


def _by_zarr(path: Path) -> Variable:
    """What has a type that is not ours, in memory."""
    try:
        import zarr
    except ImportError:
        raise UnsupportedError(
            f"{path}: has elements that are read by Zarr-Python: pip install zarr"
        ) from None
    place = locate(str(path), ZIP)
    if place is None:
        given = zarr.open_array(path, mode="r")
    else:
        given = elements_of_zip(place.file, place.inside)
    attributes: dict[str, Any] = dict(given.attrs)
    names: Any = attributes.pop("_ARRAY_DIMENSIONS", None)
    names = names or getattr(given.metadata, "dimension_names", None) or [None] * given.ndim
    dims = [str(n or f"dim_{a}") for a, n in enumerate(list(names))]
    return Variable(dims, np.asarray(given[...]), attributes)
