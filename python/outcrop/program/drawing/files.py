"""Files that pictures are written to."""

import logging
from pathlib import PurePath

from outcrop.errors import UnsupportedError
from outcrop.process.files import write_file

__all__ = ["check_matplotlib", "picture_format", "write_picture"]

_FORMATS = {".svg": "svg", ".png": "png", ".pdf": "pdf"}


def picture_format(path: str) -> str:
    """The format of a picture, which the suffix of its file gives.

    Raises
    ------
    UnsupportedError
        For any other suffix than ``.svg``, ``.png`` and ``.pdf``.

    Examples
    --------
    >>> picture_format("plan.SVG")
    'svg'
    """
    format = _FORMATS.get(PurePath(path).suffix.lower())
    if format is None:
        raise UnsupportedError(f"{path}: a picture is a .svg, .png or .pdf file")
    return format


def check_matplotlib() -> None:
    """Look whether matplotlib is there.

    It draws PNG and PDF by itself, with a font of its own, where others (CairoSVG, pycairo) need a
    library of the system's.

    Raises
    ------
    UnsupportedError
        It is not.
    """
    # What it says about its caches and fonts is of no use here.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise UnsupportedError("pictures need matplotlib: pip install 'outcrop[plot]'") from None


def write_picture(path: str, content: bytes, *, overwrite: bool) -> None:
    """Write a picture all at once.

    Raises
    ------
    ArrayExistsError, StorageError, StorageFullError
        As for `write_file`.
    """
    write_file(path, content, overwrite=overwrite)
