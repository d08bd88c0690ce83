"""Discrete Fourier transforms, by the names of NumPy and of the Python array API standard.

Lines, planes, or more, are transformed by NumPy, as many at once as memory has room for. A line of
which it holds too little is transformed in parts (`outcrop.fft.long_lines`).
"""

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
