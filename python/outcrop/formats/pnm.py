"""PGM, PPM and PAM: Netpbm's formats with a byte or two to a sample.

The compiled core parses and writes their headers (``outcrop_store::format::pnm``).
"""

import json
import re
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from outcrop import _native
from outcrop.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError
from outcrop.formats.base import FileFormat
from outcrop.process.files import open_file

__all__ = ["PNM"]

_SAMPLES = {
    "BLACKANDWHITE": 1,
    "BLACKANDWHITE_ALPHA": 2,
    "GRAYSCALE": 1,
    "GRAYSCALE_ALPHA": 2,
    "RGB": 3,
    "RGB_ALPHA": 4,
}
"""Samples per pixel of the tuple types that Netpbm defines."""

_HEADER = re.compile(
    rb"P[56](?:(?:\s|#[^\r\n]*[\r\n])+\d+){3}(?:#[^\r\n]*)?\s|P7\s(?:[^\n]*\n)*?\s*ENDHDR[^\n]*\n"
)
"""Of a file that the compiled core has read: no more than where it ends."""

_HEADER_BYTES = 1 << 20
_REST_BYTES = 64
"""Bytes within which a header ends, and within which a further image begins behind another."""


class _Pnm(FileFormat):
    # "pnm" is whichever of the others the shape fits; "pbm" is there to be refused with a reason.
    names: ClassVar = ("pnm", "pgm", "ppm", "pam")
    suffixes: ClassVar = {
        ".pnm": "pnm",
        ".pgm": "pgm",
        ".ppm": "ppm",
        ".pam": "pam",
        ".pbm": "pnm",
    }

    def recognises(self, start: bytes) -> bool:
        return start[:1] == b"P" and start[1:2] in b"1234567" and start[2:3] in b" \t\r\n#"

    def open(self, path: str, mode: str, page: int) -> _native.Store:
        if page:
            raise InvalidArgumentError(f"{path}: page= is for TIFF files")
        return _native.open(path, mode, "pnm", None, None, 0, "C")

    def create(
        self,
        path: str,
        format: str,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        attributes: Mapping[str, Any],
        overwrite: bool,
    ) -> _native.Store:
        format, text = _checked(path, format, shape, attributes)
        labels = f'{{"attributes": {text}}}'
        return _native.create(
            path, format, shape, dtype.name, None, "C", None, 3, labels, overwrite
        )

    def offset(
        self,
        path: str,
        format: str,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        attributes: Mapping[str, Any],
    ) -> int:
        format, text = _checked(path, format, shape, attributes)
        return _native.pnm_offset(path, format, shape, dtype.name, text)

    def beside(self, path: str, page: int, nbytes: int) -> str | None:
        with open_file(path) as file:
            header = _HEADER.match(file.read(_HEADER_BYTES))
            if header is None:
                return None
            file.seek(header.end() + nbytes)
            # What follows may be nothing but blanks.
            return "further images" if file.read(_REST_BYTES).strip() else None

    def carried(
        self,
        format: str,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        attributes: Mapping[str, Any],
        *,
        axes: tuple[int, ...] | None,
    ) -> dict[str, Any]:
        if format == "pnm":
            format = _fitting(shape)
        kept: dict[str, Any] = {}
        maxval = attributes.get("maxval")
        least, most = (1, 255) if dtype.itemsize == 1 else (256, 65535)
        if type(maxval) is int and least <= maxval <= most:
            kept["maxval"] = maxval
        tupltype = attributes.get("tupltype")
        samples = shape[2] if len(shape) == 3 else 1
        if format == "pam" and isinstance(tupltype, str):
            # One that Netpbm does not define holds for the pixels that it was made for.
            same = axes is not None and axes[2:] in ((), (2,))
            fits = samples == _SAMPLES[tupltype] if tupltype in _SAMPLES else same
            if fits and tupltype == tupltype.strip() and tupltype.isprintable() and tupltype:
                kept["tupltype"] = tupltype
        return kept


def _fitting(shape: tuple[int, ...]) -> str:
    if len(shape) == 2:
        return "pgm"
    return "ppm" if len(shape) == 3 and shape[2] == 3 else "pam"


def _checked(
    path: str, format: str, shape: tuple[int, ...], attributes: Mapping[str, Any]
) -> tuple[str, str]:
    """The one format that is meant, and the attributes as JSON."""
    if format == "pnm" and path.lower().endswith(".pbm"):
        raise UnsupportedError(
            f"{path}: a PBM file packs eight pixels into a byte, which is not supported; "
            "a .pgm file holds them as uint8"
        )
    if format == "pnm":
        format = _fitting(shape)
    try:
        return format, json.dumps(dict(attributes), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(f"attributes cannot be written as JSON: {error}") from None


PNM = _Pnm()
