"""TIFF and BigTIFF without compression.

Metadata is written by the package ``tifffile``; elements are moved by the compiled core.
Strips that follow one another in the file are one row-major block, which is read and written where
it lies. Tiles and scattered strips are chunks of the file, and are only read.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from outcrop import _native
from outcrop.errors import InvalidArgumentError, OutcropError, UnsupportedError
from outcrop.formats.base import FileFormat
from outcrop.formats.overlay import Overlay
from outcrop.formats.tiff_directories import MOST_PIECES, MOST_TEXT, TEXTS
from outcrop.formats.tiff_pages import (
    LAYOUTS,
    ORIENTATION,
    UNITS,
    beside_page,
    read_page,
    tifffile_for,
)

__all__ = ["TIFF"]

_ALIGNMENT = 4096
"""Where elements begin in a new file, so that as many requests as possible are aligned."""

_STRIP_BYTES = 1 << 20
"""Bytes of a strip. Programs that read strip by strip hold so much."""

_MOST_STRIPS = 1 << 16
"""Strips of a plane; beyond that they grow, so that the metadata stays small."""

_CLASSIC_BYTES = 2**32 - 2**25
"""What a file may have, metadata aside, for its offsets to take 32 bits."""

_COLORS = {"minisblack": 1, "miniswhite": 1, "rgb": 3, "separated": 4, "cielab": 3}
"""Photometric interpretations that are written, and how many samples they give meaning to."""

_SOFTWARE = "Outcrop"
_EXTRASAMPLES = ("unspecified", "assocalpha", "unassalpha")

_LASTING = ("orientation", *TEXTS)
"""Attributes that hold for whatever part of an image."""


class _Tiff(FileFormat):
    names: ClassVar = ("tiff",)
    suffixes: ClassVar = {".tif": "tiff", ".tiff": "tiff", ".btf": "tiff", ".tf8": "tiff"}

    def recognises(self, start: bytes) -> bool:
        return start[:4] in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")

    def open(self, path: str, mode: str, page: int) -> _native.Store:
        found = read_page(path, page)
        attributes = json.dumps(found.attributes)
        dtype = found.dtype.str
        if found.is_linear:
            offset = int(found.offsets[0])
            return _native.open_file(
                path, mode, "tiff", found.shape, dtype, offset, "C", attributes
            )
        if mode == "r+":
            raise UnsupportedError(
                f"{path}: its {found.pieces} do not follow one another in rows, and are only read; "
                "A.save (or outcrop convert) makes a file of it that can be written to"
            )
        return _native.open_chunks(
            path,
            mode,
            "tiff",
            found.shape,
            dtype,
            found.chunk,
            found.offsets,
            found.is_padded,
            attributes,
        )

    def create(
        self,
        path: str,
        format: str,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        attributes: Mapping[str, Any],
        overwrite: bool,
    ) -> _native.Store:
        image = _image(path, shape, dtype, attributes)
        offset, preamble, trailer = image.metadata(tifffile_for(path))
        return _native.create_file(
            path,
            "tiff",
            shape,
            dtype.str,
            offset,
            preamble,
            trailer,
            json.dumps(image.attributes),
            overwrite,
        )

    def offset(
        self,
        path: str,
        format: str,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        attributes: Mapping[str, Any],
    ) -> int:
        return _image(path, shape, dtype, attributes).metadata(tifffile_for(path))[0]

    def carried(
        self,
        format: str,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        attributes: Mapping[str, Any],
        *,
        axes: tuple[int, ...] | None,
    ) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        channel = 0 if attributes.get("planarconfig") == "separate" else 2
        keys = _ATTRIBUTES
        if axes is None or len(axes) not in (2, 3) or (len(axes) == 3 and axes[channel] != channel):
            # Steps change the resolution; what were channels are pixels now.
            keys = _LASTING
        else:
            row, column = [axis for axis in axes if len(axes) < 3 or axis != channel]
            if row > column and "resolution" in attributes:
                attributes = {**attributes, "resolution": list(attributes["resolution"])[::-1]}
        # Each as far as it goes with those before: a part of an image may have fewer samples.
        for key in keys:
            if key in attributes:
                candidate = kept | {key: attributes[key]}
                try:
                    _Image.of(shape, dtype, candidate, "")
                except OutcropError:
                    continue
                kept = candidate
        return kept

    def beside(self, path: str, page: int, nbytes: int) -> str | None:
        others, subfiles = beside_page(path, page)
        kinds = ((others, "other page"), (subfiles, "sub-image"))
        found = [f"{count} {word}{'s' * (count > 1)}" for count, word in kinds if count > 0]
        return " and ".join(found) or None


TIFF = _Tiff()


# -- writing -------------------------------------------------------------------------------------

_ATTRIBUTES = (
    "planarconfig",
    "photometric",
    "extrasamples",
    "resolution",
    "resolutionunit",
    *_LASTING,
)


@dataclass(frozen=True)
class _Image:
    """An image that is to be written, with attributes that are checked and complete."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    attributes: dict[str, Any]

    @classmethod
    def of(
        cls,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        attributes: Mapping[str, Any],
        path: str,
    ) -> "_Image":
        """Check attributes against the shape, and add what is usual where they are silent."""
        for key in attributes:
            if key not in _ATTRIBUTES:
                raise InvalidArgumentError(
                    f"{path}: TIFF has no attribute {key!r}; it has {', '.join(_ATTRIBUTES)}"
                )
        is_planar = _choice(attributes, "planarconfig", LAYOUTS, path) == "separate"
        samples, (height, width) = 1, shape[:2] if len(shape) == 2 else (0, 0)
        if len(shape) == 3:
            samples, height, width = shape if is_planar else (shape[2], *shape[:2])
        if not (0 < height < 2**32 and 0 < width < 2**32) or (len(shape) == 3 and samples < 2):
            raise UnsupportedError(
                f"{path}: a TIFF page holds (height, width), (height, width, 2 or more samples), "
                "or the samples first where planarconfig is 'separate', none of them empty; this "
                f"is {shape}"
            )
        if samples > 65535:
            raise UnsupportedError(
                f"{path}: {samples} samples per pixel are more than the 65535 of TIFF"
            )
        colored = samples in (3, 4) and dtype.kind in "uf"
        usual = "rgb" if colored else "minisblack"
        photometric = _choice(attributes, "photometric", tuple(_COLORS), path) or usual
        extra = samples - _COLORS[photometric]
        if extra < 0:
            raise InvalidArgumentError(
                f"{path}: photometric {photometric!r} takes {_COLORS[photometric]} samples per "
                f"pixel, shape {shape} has {samples}"
            )
        checked: dict[str, Any] = {"photometric": photometric}
        if samples > 1:
            checked["planarconfig"] = LAYOUTS[is_planar]
        alpha = "unassalpha" if photometric == "rgb" and extra == 1 else "unspecified"
        extrasamples = attributes.get("extrasamples", [alpha] * extra)
        if (
            not isinstance(extrasamples, list | tuple)
            or len(extrasamples) != extra
            or any(name not in _EXTRASAMPLES for name in extrasamples)
        ):
            raise InvalidArgumentError(
                f"{path}: extrasamples must name {extra} of {_EXTRASAMPLES}, got {extrasamples!r}"
            )
        if extra:
            checked["extrasamples"] = list(extrasamples)
        unit = _choice(attributes, "resolutionunit", UNITS, path) or "inch"
        if "resolution" in attributes:
            checked["resolution"] = _resolution(attributes["resolution"], path)
            checked["resolutionunit"] = unit
        orientation = attributes.get("orientation", 1)
        if type(orientation) is not int or not 1 <= orientation <= 8:
            raise InvalidArgumentError(f"{path}: orientation is 1 to 8, got {orientation!r}")
        if orientation != 1:
            checked["orientation"] = orientation
        for key in TEXTS:
            if key in attributes:
                checked[key] = _text(attributes[key], key, path)
        nbytes = sum(len(checked.get(key, "").encode()) + 1 for key in TEXTS) + len(_SOFTWARE) + 1
        if nbytes > MOST_TEXT:
            raise InvalidArgumentError(
                f"{path}: texts of {nbytes} bytes are more than the {MOST_TEXT} that are read again"
            )
        return cls(shape, dtype, checked)

    def metadata(self, package: Any) -> tuple[int, bytes, bytes]:
        """Offset of the elements, and the bytes of the file before and behind them."""
        given = self.attributes
        nbytes = int(np.prod(self.shape, dtype=object)) * self.dtype.itemsize
        is_planar = given.get("planarconfig") == "separate"
        height = self.shape[1] if is_planar else self.shape[0]
        planes = self.shape[0] if is_planar else 1
        row_bytes = nbytes // height // planes
        # As many as are read again.
        strips = min(_MOST_STRIPS, MOST_PIECES // planes)
        rows = max(1, _STRIP_BYTES // row_bytes, -(-height // strips))
        file = Overlay()
        options: dict[str, Any] = {}
        if "resolution" in given:
            options["resolution"] = tuple(given["resolution"])
            options["resolutionunit"] = given["resolutionunit"]
        tags: list[tuple[int, int, int, Any, bool]] = []
        if "orientation" in given:
            tags.append((ORIENTATION, 3, 1, given["orientation"], True))
        for key, code in TEXTS.items():
            if key in given:
                text = given[key].encode() + b"\0"
                tags.append((code, 2, len(text), text, True))
        options["extratags"] = tags
        if "extrasamples" in given:
            options["extrasamples"] = tuple(given["extrasamples"])
        with package.TiffWriter(
            file, bigtiff=nbytes > _CLASSIC_BYTES, byteorder="<", ome=False, shaped=False
        ) as writer:
            offset, size = writer.write(
                None,
                shape=self.shape,
                dtype=self.dtype,
                photometric=given["photometric"],
                planarconfig=given.get("planarconfig"),
                rowsperstrip=min(rows, height),
                software=_SOFTWARE,
                metadata=None,
                align=_ALIGNMENT,
                returnoffset=True,
                **options,
            )
        assert size == nbytes
        end = offset + size
        # Of the elements only the last byte is written, to make the file long enough.
        preamble = file.bytes_between(0, offset)
        return offset, preamble, file.bytes_between(end, max(end, file.length))


def _choice(
    attributes: Mapping[str, Any], key: str, allowed: tuple[str, ...], path: str
) -> str | None:
    value = attributes.get(key)
    if value is not None and value not in allowed:
        raise InvalidArgumentError(f"{path}: {key} must be one of {allowed}, got {value!r}")
    return value


def _resolution(value: Any, path: str) -> list[float]:
    try:
        result = [float(number) for number in value]
    except (TypeError, ValueError):
        result = []
    if len(result) != 2 or not all(0 < number < 2**32 for number in result):
        raise InvalidArgumentError(
            f"{path}: resolution must be two numbers above 0 (pixels per resolutionunit, along "
            f"width and height), got {value!r}"
        )
    return result


def _text(value: Any, key: str, path: str) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise InvalidArgumentError(f"{path}: {key} must be a text, got {value!r}")
    return value


def _image(
    path: str, shape: tuple[int, ...], dtype: np.dtype[Any], attributes: Mapping[str, Any]
) -> _Image:
    """What will be written, where it can be."""
    if dtype.kind not in "uifc":
        raise UnsupportedError(
            f"{path}: TIFF packs eight samples of {dtype} into a byte, which is not supported; "
            "it can hold them as uint8"
        )
    return _Image.of(shape, dtype, attributes, path)
