"""Discrete Fourier transforms, by the names of NumPy and of the Python array API standard.

Lines, planes, or more, are transformed by NumPy, as many at once as memory has room for. A line of
which it holds too little is transformed in parts (`outcrop.fft.long_lines`).
"""

import typing as _typing

import numpy as _numpy

from outcrop.arrays.public_names import only_public as _only_public
from outcrop.fft import numpy_functions as _numpy_functions  # noqa: F401
from outcrop.fft.frequencies import fftfreq, fftshift, ifftshift, rfftfreq
from outcrop.fft.transforms import (
    fft,
    fft2,
    fftn,
    hfft,
    ifft,
    ifft2,
    ifftn,
    ihfft,
    irfft,
    irfft2,
    irfftn,
    rfft,
    rfft2,
    rfftn,
)

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]


if not _typing.TYPE_CHECKING:
    # What checks types shall find names that there are not.
    __getattr__, __dir__ = _only_public(__name__, __all__, numpy=_numpy.fft)
