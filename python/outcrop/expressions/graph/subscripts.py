"""The notation of Einstein sums: which axes of operands and result have which labels."""

import string
from collections.abc import Sequence

from outcrop.errors import InvalidArgumentError, UnsupportedError
from outcrop.expressions.graph.nodes import Shape

__all__ = ["letters", "parsed"]


def letters(count: int, taken: str) -> list[str]:
    """So many letters that are not taken."""
    free = [c for c in string.ascii_letters if c not in taken]
    if count > len(free):
        raise UnsupportedError(
            f"sums of products with more than {len(string.ascii_letters)} different axes are not "
            "supported in this version"
        )
    return free[:count]


def parsed(subscripts: str, shapes: Sequence[Shape]) -> tuple[list[str], str]:
    """The labels of each operand, and those of the result; those of ``...`` have been made up."""
    if not isinstance(subscripts, str):
        raise InvalidArgumentError(f"einsum: subscripts are a string, not {subscripts!r}")
    text = subscripts.replace(" ", "")
    given, arrow, result = text.partition("->")
    groups = given.split(",")
    if len(groups) != len(shapes):
        raise InvalidArgumentError(
            f"einsum: {len(groups)} groups of letters for {len(shapes)} operands"
        )
    counts = [_ellipsis(labels, shape) for labels, shape in zip(groups, shapes, strict=True)]
    most = max(counts)
    made = "".join(letters(most, text))
    # Axes of `...` are aligned at the last one, as they broadcast.
    inputs = [
        labels.replace("...", made[most - count :])
        for labels, count in zip(groups, counts, strict=True)
    ]
    named = given.replace("...", "").replace(",", "")
    if not arrow:
        result = made + "".join(sorted(c for c in set(named) if named.count(c) == 1))
    elif result.count("...") == 1:
        result = result.replace("...", made)
    elif most:
        raise InvalidArgumentError("einsum: the result lacks the '...' of the operands")
    if len(set(result)) != len(result) or not set(result) <= set(named + made):
        raise InvalidArgumentError(f"einsum: no result can have the axes {result!r}")
    return inputs, result


def _ellipsis(labels: str, shape: Shape) -> int:
    """How many axes the ellipsis of a group stands for."""
    named = labels.replace("...", "", 1)
    rest = len(shape) - len(named)
    sound = (named.isascii() and named.isalpha()) or not named
    if not sound or rest < 0 or (rest and named == labels):
        raise InvalidArgumentError(
            f"einsum: {labels!r} does not name the axes of an array of shape {shape}"
        )
    return rest
