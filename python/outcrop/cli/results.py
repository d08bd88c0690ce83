"""Lines for people."""

from collections.abc import Mapping, Sequence

__all__ = ["aligned", "count", "extents"]


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
