"""Numbers that stand for others, by the CF conventions: masks, scale factors and offsets."""

from typing import Any

import numpy as np

from outcrop.array_api.manipulation_functions import where
from outcrop.arrays import hooks
from outcrop.arrays.array import Array
from outcrop.errors import InvalidArgumentError
from outcrop.formats.missing import MISSING_ATTRIBUTE, Missing

__all__: list[str] = []

_MISSING = "missing_value"
"""An attribute that has another number, or several, for what is missing."""


@hooks.mask_and_scale.fill
def _mask_and_scale(array: Array) -> Array:
    attributes = array.attributes
    scale, offset = (_number(attributes, name) for name in ("scale_factor", "add_offset"))
    gaps = _missing(array, attributes)
    if array.dtype.kind not in "iuf":
        if scale is not None or offset is not None:
            raise InvalidArgumentError(f"elements of type {array.dtype} stand for no others")
        return array
    own = _meant(array.dtype, attributes)
    if scale is None and offset is None and not gaps:
        return array.astype(own, copy=False)
    kind = _type(own, is_scaled=scale is not None or offset is not None)
    made = array.astype(own, copy=False).astype(kind)
    if scale is not None:
        made = made * kind.type(scale)
    if offset is not None:
        made = made + kind.type(offset)
    for gap in gaps:
        # Elements are compared as they are stored.
        made = where(np.isnan(array) if gap != gap else array == gap, kind.type(np.nan), made)
    return made


def _meant(dtype: np.dtype[Any], attributes: dict[str, Any]) -> np.dtype[Any]:
    """The type that elements have where a format has no unsigned integers, or only these."""
    said = {"true": "u", "false": "i"}.get(str(attributes.get("_Unsigned")).lower())
    return dtype if said is None or dtype.kind not in "iu" else np.dtype(f"{said}{dtype.itemsize}")


def _number(attributes: dict[str, Any], name: str) -> float | None:
    said = attributes.get(name)
    if isinstance(said, list) and len(said) == 1:
        said = said[0]
    if said is None:
        return None
    if isinstance(said, bool) or not isinstance(said, int | float):
        raise InvalidArgumentError(f"the attribute {name} is {said!r}, and no number")
    return float(said)


def _missing(array: Array, attributes: dict[str, Any]) -> list[np.generic]:
    """What stands for nothing, as elements."""
    version = array._source.zarr_format
    found = Missing.of(version, True, array.fill_value, attributes, array.dtype).element
    gaps = [] if found is None else [found]
    said = attributes.get(_MISSING)
    for one in said if isinstance(said, list) else [said]:
        more = Missing.of(None, True, None, {MISSING_ATTRIBUTE: one}, array.dtype).element
        if more is not None and more not in gaps:
            gaps.append(more)
    return gaps


def _type(dtype: np.dtype[Any], *, is_scaled: bool) -> np.dtype[Any]:
    """What holds the numbers, as xarray has it: attributes are Python's numbers, of 64 bits."""
    if is_scaled:
        return np.dtype(np.float64)
    if dtype.kind == "f":
        return dtype
    return np.dtype(np.float32 if dtype.itemsize <= 2 else np.float64)
