"""Texts that come from outside, such as names of files, where people read them."""

import os

__all__ = ["printable", "shortened"]


def printable(text: str) -> str:
    r"""A text without what is not to be seen, or says in which direction the rest is read.

    Names of files may hold bytes that are no characters, and control characters, which neither a
    terminal nor XML takes.

    Examples
    --------
    >>> printable("a\x00b\u202ec\udcffd"), printable("größe 漢字")
    ('a?b?c?d', 'größe 漢字')
    """
    known = os.fsencode(text) if _is_encodable(text) else text.encode("utf-8", "replace")
    return "".join(c if c.isprintable() else "?" for c in known.decode("utf-8", "replace")).replace(
        "\ufffd", "?"
    )


def _is_encodable(text: str) -> bool:
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return True


def shortened(text: str, most: int) -> str:
    """A text of so many characters at most; what lacks is in the middle, since ends tell more.

    Examples
    --------
    >>> shortened("temperature.zarr", 11), shortened("a.zarr", 11)
    ('tempe….zarr', 'a.zarr')
    """
    if len(text) <= most:
        return text
    end = (most - 1) // 2
    return f"{text[: most - 1 - end]}…{text[len(text) - end :]}"
