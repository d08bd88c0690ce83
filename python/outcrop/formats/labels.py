"""What goes with the elements of an array: attributes, names of dimensions, the fill value."""

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from outcrop.errors import InvalidArgumentError, InvalidTypeError
from outcrop.formats import family_of
from outcrop.formats.groups import Group, check_around, group_around, version_in
from outcrop.formats.hdf5 import HDF5
from outcrop.formats.hdf5_labels import check_attributes
from outcrop.formats.missing import MISSING_ATTRIBUTE, Missing
from outcrop.process.text import printable

__all__ = ["Labels", "Names", "as_json", "checked_labels", "labels_of_new"]

Names: TypeAlias = tuple[str | None, ...]
"""A name or none for every axis."""

_NAMES_ATTRIBUTE = "_ARRAY_DIMENSIONS"
"""Where xarray has the names in version 2 of Zarr, which has no place of its own for them."""


@dataclass(frozen=True)
class Labels:
    """What a new array is labelled with.

    Attributes
    ----------
    attributes : mapping, optional
        As JSON.
    dimension_names : tuple, optional
        A name or none for every axis.
    fill_value : numpy.generic, optional
        The element that stands for those never written. None is zero, which in version 2 is then
        not called a fill value.
    missing : Missing, optional
        Of labels that come along: what they say of missing elements.
    """

    attributes: Mapping[str, Any] | None = None
    dimension_names: Names | None = None
    fill_value: np.generic | None = None
    missing: Missing | None = None

    @property
    def fills_with_zeros(self) -> bool:
        """Whether an element that was never written is zero."""
        return self.fill_value is None or not any(self.fill_value.tobytes())

    def over(self, carried: "Labels") -> "Labels":
        """What was asked for, and else what comes along."""
        return Labels(
            carried.attributes if self.attributes is None else self.attributes,
            carried.dimension_names if self.dimension_names is None else self.dimension_names,
            carried.fill_value if self.fill_value is None else self.fill_value,
        )

    def coming_into(self, group: Group | None, path: str, shape: tuple[int, ...]) -> "Labels":
        """Names that come along to a new array, so that they agree with what is in its group.

        In a group, a dimension has one extent. A name that arrays beside this one have for
        another extent gets the array's own name in front.
        """
        if group is None or self.dimension_names is None:
            return self
        own = _name(path)
        extents = group.extents(own)
        names = [
            name if name is None or extents.get(name, extent) == extent else f"{own}_{name}"
            for name, extent in zip(self.dimension_names, shape, strict=True)
        ]
        return replace(self, dimension_names=tuple(names))

    def placed(self, group: Group | None, path: str, ndim: int, zarr_format: int) -> "Labels":
        """With a name for every axis that needs one: xarray opens no group without.

        They are the array's own, because elsewhere in the group an axis may have another extent.
        """
        names = self.dimension_names
        named = names is not None and any(name is not None for name in names)
        if group is None and not (named and zarr_format == 2):
            # Names of no axis at all are no names.
            return self if named or ndim == 0 else replace(self, dimension_names=None)
        own = _name(path)
        given = names if names is not None else (None,) * ndim
        return replace(
            self,
            dimension_names=tuple(
                f"{own}_dim_{axis}" if name is None else name for axis, name in enumerate(given)
            ),
        )

    def marked(self, missing: Missing, wishes: "Labels", zarr_format: int) -> "Labels":
        """With what xarray takes for missing, which is the same as in the source.

        In version 2 that is the fill value of what has names. One that only stood for elements
        never written is none there: those that were written alike would be masked.
        """
        if missing.zarr_format == zarr_format:
            return self
        attributes = dict(self.attributes or {})
        if zarr_format == 3:
            # Attributes that are asked for say what they say.
            if missing.number is None or MISSING_ATTRIBUTE in (wishes.attributes or {}):
                return self
            attributes[MISSING_ATTRIBUTE] = missing.attribute()
            return replace(self, attributes=attributes)
        if self.dimension_names is None:
            # xarray does not open it, and only the labels as they are will be right elsewhere.
            return self
        if missing.number is not None and wishes.attributes is None:
            del attributes[MISSING_ATTRIBUTE]
            if missing.element is None:
                attributes[MISSING_ATTRIBUTE] = missing.number
        fill = missing.element if wishes.fill_value is None else wishes.fill_value
        return replace(self, attributes=attributes, fill_value=fill)

    def json(self, place: str | None = None) -> str:
        """As the compiled core takes them; with where the array will stand, for plans."""
        text: dict[str, Any] = {"attributes": dict(self.attributes or {})}
        if self.dimension_names is not None:
            text["dimension_names"] = list(self.dimension_names)
        if self.fill_value is not None:
            text["fill_value"] = _element_json(self.fill_value)
        if place is not None:
            # JSON has no words for bytes that are no characters.
            text["place"] = printable(os.path.abspath(place))
        return as_json(text, "attributes")


def checked_labels(
    path: str,
    format: str,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    *,
    attributes: Mapping[str, Any] | None,
    dimension_names: Sequence[str | None] | None,
    fill_value: Any,
) -> Labels:
    """What a user asks for.

    Raises
    ------
    InvalidArgumentError, InvalidTypeError
        Names that are not one for every axis, a fill value that is none of `dtype`, attributes
        that are no JSON; any of them for a format that cannot hold it.
    """
    given = {"dimension_names": dimension_names, "fill_value": fill_value}
    given |= {} if family_of(format) else {"attributes": attributes}
    for option, value in given.items():
        if format not in ("zarr", HDF5) and value is not None:
            raise InvalidArgumentError(
                f"{option}= is for Zarr arrays and data sets of HDF5, {path!r} is {format}"
            )
    checked = None if attributes is None else _attributes(attributes)
    if format == HDF5 and checked:
        check_attributes(path, checked, dtype)
    if format == "zarr" and checked and dimension_names is None:
        dimension_names = checked.pop(_NAMES_ATTRIBUTE, None)
    names = None if dimension_names is None else _names(dimension_names, len(shape))
    return Labels(checked, names, None if fill_value is None else _element(fill_value, dtype))


def labels_of_new(
    path: str,
    format: str,
    shape: tuple[int, ...],
    zarr_format: int | None,
    wishes: Labels,
    carried: Labels,
) -> tuple[int, Labels]:
    """The version of Zarr of an array that will be made at a path, and its labels.

    Raises
    ------
    CorruptArrayError, UnsupportedError
        As for `check_around`.
    InvalidArgumentError
        As for `version_in`.
    """
    check_around(path)
    if format != "zarr":
        return 3, wishes.over(carried)
    group = group_around(path)
    version = version_in(group, path, zarr_format)
    labels = wishes.over(carried.coming_into(group, path, shape))
    labels = labels.placed(group, path, len(shape), version)
    if carried.missing is not None:
        labels = labels.marked(carried.missing, wishes, version)
    return version, labels


def as_json(value: Any, name: str) -> str:
    """The JSON of a value that a user calls `name`."""
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, RecursionError) as error:
        raise InvalidTypeError(f"{name} cannot be written as JSON: {error}") from None
    except ValueError as error:
        raise InvalidArgumentError(f"{name} cannot be written as JSON: {error}") from None


def _name(path: str) -> str:
    return os.path.basename(os.path.realpath(path))


def _attributes(given: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise InvalidTypeError(f"attributes must be a mapping, got {type(given).__name__}")
    for key in given:
        if not isinstance(key, str):
            raise InvalidTypeError(f"attributes: the name {key!r} is not a string")
    as_json(dict(given), "attributes")
    return dict(given)


def _names(given: Any, ndim: int) -> Names:
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        raise InvalidTypeError(
            f"dimension_names must be a sequence of strings and None, got {given!r}"
        )
    for name in given:
        if name is not None and not isinstance(name, str):
            raise InvalidTypeError(f"dimension_names: {name!r} is neither a string nor None")
    if len(given) != ndim:
        raise InvalidArgumentError(
            f"dimension_names has {len(given)} names for {ndim} dimensions: {tuple(given)}"
        )
    return tuple(given)


def _element(given: Any, dtype: np.dtype[Any]) -> np.generic:
    """A fill value as an element, rounded where floats are, and else what it is."""
    array = np.asarray(given)
    if array.shape != () or array.dtype.kind not in "biufc":
        raise InvalidTypeError(f"fill_value must be a number, got {given!r}")
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        element: Any = array.astype(dtype)[()]
    if dtype.kind in "biu":
        fits = element.item() == array.item()
    else:
        real = dtype.kind == "c" or array.dtype.kind != "c" or array.imag == 0
        fits = bool(real) and bool(np.isinf(element) == np.isinf(array))
    if not fits:
        raise InvalidArgumentError(f"fill_value {given!r} is not an element of type {dtype}")
    found: np.generic = element
    return found


def _element_json(element: Any) -> Any:
    """An element in the JSON of Zarr 3, no bit lost."""
    if np.iscomplexobj(element):
        return [_element_json(element.real), _element_json(element.imag)]
    if element.dtype.kind != "f":
        return element.item()
    if np.isnan(element):
        return "0x" + element.tobytes()[::-1].hex()
    if np.isinf(element):
        return "Infinity" if element > 0 else "-Infinity"
    return float(element)
