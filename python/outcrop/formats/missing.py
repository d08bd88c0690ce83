"""Which element xarray takes for missing, and how each version of Zarr says so."""

import base64
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

__all__ = ["MISSING_ATTRIBUTE", "Missing"]

MISSING_ATTRIBUTE = "_FillValue"
"""Where xarray has what is missing in version 3 of Zarr, and HDF5 has it.

In version 2 that is the fill value, and only where there is none, the attribute counts.
"""

_Number: TypeAlias = bool | int | float | complex


@dataclass(frozen=True)
class Missing:
    """What an array says of missing elements.

    Attributes
    ----------
    zarr_format : int, optional
        The version of Zarr in which xarray understands its labels as they are. None where it does
        not: of an array that is not Zarr, or that is of version 2 and has no names.
    number : bool, int, float or complex, optional
        What stands for missing elements. None where nothing does.
    element : numpy.generic, optional
        The same as an element, where it is one. Only a fill value has to be.
    """

    zarr_format: int | None = None
    number: _Number | None = None
    element: np.generic | None = None

    @classmethod
    def of(
        cls,
        zarr_format: int | None,
        is_named: bool,
        fill_value: np.generic | None,
        attributes: Mapping[str, Any],
        dtype: np.dtype[Any],
    ) -> "Missing":
        """What an array says by its labels."""
        understood = zarr_format if is_named or zarr_format != 2 else None
        if understood == 2 and fill_value is not None:
            return cls(2, fill_value.item(), fill_value)
        number = _number(attributes.get(MISSING_ATTRIBUTE), dtype.kind)
        return cls(understood, number, None if number is None else _element(number, dtype))

    def attribute(self) -> Any:
        """The attribute of version 3, in xarray's encoding: no bit of a float is lost."""
        number = self.number
        if isinstance(number, complex):
            return [_encoded(number.real), _encoded(number.imag)]
        return _encoded(number) if isinstance(number, float) else number


def _number(said: Any, kind: str) -> _Number | None:
    """What an attribute says of elements of a kind; None where it cannot be understood."""
    if isinstance(said, list):
        if kind == "c":
            parts = [part for part in map(_decoded, said) if part is not None]
            return complex(*parts) if len(parts) == len(said) == 2 else None
        # HDF5 has attributes of one element.
        said = said[0] if len(said) == 1 else None
    if kind == "f" and isinstance(said, str):
        return _decoded(said)
    if kind == "c" or not isinstance(said, bool | int | float):
        return None
    if kind == "b":
        return bool(said)
    try:
        return float(said) if kind == "f" else _whole(said)
    except OverflowError:
        return None


def _whole(said: float) -> int | None:
    return int(said) if said == said // 1 else None


def _element(number: _Number, dtype: np.dtype[Any]) -> np.generic | None:
    """A number as an element, unless that is another number."""
    try:
        with np.errstate(all="ignore"):
            found: Any = np.asarray(number).astype(dtype)[()]
    except OverflowError:
        return None
    element: np.generic = found
    own = element.item()
    return element if own == number or (own != own and number != number) else None


def _encoded(number: float) -> str:
    return base64.standard_b64encode(struct.pack("<d", number)).decode()


def _decoded(text: Any) -> float | None:
    try:
        number: float = struct.unpack("<d", base64.b64decode(text, validate=True))[0]
    except (TypeError, ValueError, struct.error):
        return None
    return number
