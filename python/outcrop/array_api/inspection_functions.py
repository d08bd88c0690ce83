"""What this library has of the Python array API standard, for programs that ask."""

from typing import Any

import numpy as np

from outcrop.checks import check_device
from outcrop.errors import InvalidArgumentError

__all__ = ["__array_namespace_info__"]

_BY_KIND = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
_SEVERAL = {
    "integral": ("signed integer", "unsigned integer"),
    "numeric": ("signed integer", "unsigned integer", "real floating", "complex floating"),
}
_DEFAULTS = {
    "real floating": "float64",
    "complex floating": "complex128",
    "integral": "int64",
    "indexing": "int64",
}


class _Info:
    """What `__array_namespace_info__` gives, by methods of the standard's."""

    def capabilities(self) -> dict[str, Any]:
        """Tell what is optional: masks select, shapes may depend on data; of 64 axes at most."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """Tell the device: the memory of the host, and its disks."""
        return "cpu"

    def devices(self) -> tuple[str, ...]:
        """Tell all devices: there is one."""
        return ("cpu",)

    def default_dtypes(self, *, device: str | None = None) -> dict[str, np.dtype[Any]]:
        """Tell the types of what is made without one."""
        check_device(device)
        return {kind: np.dtype(name) for kind, name in _DEFAULTS.items()}

    def dtypes(
        self, *, device: str | None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, np.dtype[Any]]:
        """Tell all types by their names, or those of a kind (see `outcrop.isdtype`), or of several.

        Raises
        ------
        InvalidArgumentError
            There is no such kind, or no such device.
        """
        check_device(device)
        wanted = _BY_KIND.keys() if kind is None else (kind,) if isinstance(kind, str) else kind
        names: list[str] = []
        for one in wanted:
            for part in _SEVERAL.get(one, (one,)):
                if part not in _BY_KIND:
                    kinds = ", ".join(map(repr, (*_BY_KIND, *_SEVERAL)))
                    raise InvalidArgumentError(f"kind must be one of {kinds}, got {one!r}")
                names += _BY_KIND[part]
        return {name: np.dtype(name) for name in dict.fromkeys(names)}


def __array_namespace_info__() -> _Info:  # noqa: N807
    """Tell what this library has of the Python array API standard.

    Returns
    -------
    object
        With the methods ``capabilities``, ``default_device``, ``devices``, ``default_dtypes`` and
        ``dtypes`` of the standard.

    Examples
    --------
    >>> oc.__array_namespace_info__().dtypes(kind="real floating")
    {'float32': dtype('float32'), 'float64': dtype('float64')}
    """
    return _Info()
