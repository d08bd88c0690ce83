"""Sizes in bytes, times and shapes: reading them from people and writing them for people."""

import html
import math
import operator
import re
from collections.abc import Iterable, Mapping

from outcrop.errors import InvalidArgumentError, InvalidTypeError
from outcrop.process.text import printable

__all__ = [
    "RUN",
    "format_bytes",
    "format_rate",
    "format_seconds",
    "format_shape",
    "html_table",
    "parse_bytes",
]

RUN = 16 << 10
"""Bytes in one piece of a file of which the blocks at its ends are a small part, so that it is read
at much of its speed."""

_UNITS = ("", "k", "m", "g", "t", "p", "e")
_PATTERN = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([kmgtpe]?)(i?b?)\s*", re.IGNORECASE)


def parse_bytes(size: int | str, name: str = "size") -> int:
    """Read a number of bytes.

    Parameters
    ----------
    size : int or str
        Bytes, or a number with a unit. ``KiB``, ``MiB``, ``GiB``, ... are powers of 1024, and so
        are the bare letters ``K``, ``M``, ``G``, as in the tools; ``KB``, ``MB``, ``GB`` are
        powers of 1000. Case does not matter.
    name : str
        What an error message calls it.

    Returns
    -------
    int
        Whole bytes, rounded down.

    Raises
    ------
    InvalidArgumentError
        Where this is no size, or not a positive one.
    InvalidTypeError
        Where it is neither an integer nor a string.

    Examples
    --------
    >>> parse_bytes("1.5GB"), parse_bytes("64M"), parse_bytes("2gib")
    (1500000000, 67108864, 2147483648)
    """
    if isinstance(size, str):
        match = _PATTERN.fullmatch(size)
        # "i" belongs between a prefix and "B": "512i" and "512iB" are slips.
        if match is None or (match[3][:1] in ("i", "I") and not match[2]):
            raise InvalidArgumentError(
                f"{name}: {size!r} is not a size; write bytes or a unit, such as '512MiB', "
                "'2GiB' or '1.5GB'"
            )
        number, prefix, suffix = match[1], match[2].lower(), match[3].lower()
        base = 1000 if suffix == "b" else 1024
        scale: int = base ** _UNITS.index(prefix)
        result = int(number) * scale if number.isdigit() else math.floor(float(number) * scale)
    else:
        try:
            if isinstance(size, bool):
                raise TypeError
            result = operator.index(size)
        except TypeError:
            raise InvalidTypeError(
                f"{name}: expected an integer number of bytes or a string such as '2GiB', "
                f"got {size!r}"
            ) from None
    if result <= 0:
        raise InvalidArgumentError(f"{name}: {size!r} is not a positive size")
    if result > 2**63 - 1:
        raise InvalidArgumentError(f"{name}: {size!r} is more than any machine has")
    return result


def format_bytes(count: int) -> str:
    """Write a number of bytes with three digits or so.

    Examples
    --------
    >>> format_bytes(24), format_bytes(2 << 30)
    ('24 bytes', '2.0 GiB')
    """
    if count < 1024:
        return "1 byte" if count == 1 else f"{count} bytes"
    units = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
    # One place is shown, so 1023.95 KiB is already 1.0 MiB.
    power = next((p for p in range(1, 6) if count < 1023.95 * 1024**p), 6)
    return f"{count / 1024**power:.1f} {units[power - 1]}"


def format_seconds(seconds: float, *, whole: bool = False) -> str:
    """A time, as short as it can be read.

    Examples
    --------
    >>> format_seconds(0.0123), format_seconds(9.94), format_seconds(75), format_seconds(7384)
    ('0.01 s', '9.9 s', '1:15', '2:03:04')
    """
    if seconds < 59.5:
        if whole:
            return f"{seconds:.0f} s"
        return f"{seconds:.2f} s" if seconds < 1 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def format_rate(nbytes: float, seconds: float) -> str:
    """Bytes in a second.

    Examples
    --------
    >>> format_rate(3 << 30, 2)
    '1.5 GiB/s'
    """
    return f"{format_bytes(int(nbytes / max(seconds, 1e-9)))}/s"


def html_table(caption: str, rows: Mapping[str, str]) -> str:
    """Names and values, as a notebook shows them.

    Examples
    --------
    >>> html_table("a", {"b": "c < d"}).count("&lt;")
    1
    """

    # Colours are those of the page, whichever theme that has.
    def told(text: str) -> str:
        return html.escape(printable(text))

    cells = "".join(
        f"<tr><th scope='row' style='text-align: left'>{told(name)}</th>"
        f"<td style='text-align: left'>{told(value)}</td></tr>"
        for name, value in rows.items()
    )
    name = f"<caption style='text-align: left'>{told(caption)}</caption>"
    return f"<table>{name}<tbody>{cells}</tbody></table>"


def format_shape(shape: Iterable[int]) -> str:
    """Write the extents of an array.

    Examples
    --------
    >>> format_shape((3, 40)), format_shape(())
    ('3 x 40', 'one element')
    """
    return " x ".join(map(str, shape)) or "one element"
