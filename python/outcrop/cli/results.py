"""Lines for people."""

from collections.abc import Mapping, Sequence

from outcrop.process.sizes import format_bytes

__all__ = ["aligned", "count", "extents", "format_rate", "format_seconds"]


def aligned(facts: Mapping[str, str], indent: str = "") -> str:
    """Names and values in two columns.

    Examples
    --------
    >>> print(aligned({"shape": "3 x 4", "dtype": "int64"}))
    shape  3 x 4
    dtype  int64
    """
    width = max(map(len, facts), default=0)
    return "\n".join(f"{indent}{name:<{width}}  {value}" for name, value in facts.items())


def extents(shape: Sequence[int]) -> str:
    """A shape as people write it.

    Examples
    --------
    >>> extents((1000, 2000)), extents((5,)), extents(())
    ('1000 x 2000', '5', '()')
    """
    return " x ".join(map(str, shape)) or "()"


def count(number: int, word: str) -> str:
    """A number of things.

    Examples
    --------
    >>> count(1, "tile"), count(2, "tile")
    ('1 tile', '2 tiles')
    """
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


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
