"""Lines that say what is repeated once."""

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

from outcrop.program.drawing.folding import runs_alike

__all__ = ["folded_lines"]

_T = TypeVar("_T", bound=Hashable)


def folded_lines(
    told: Sequence[_T],
    lines_of: Callable[[int], list[str]],
    *,
    what: str,
    names: Sequence[str],
    folded: bool,
    key: Callable[[_T], Hashable] = lambda one: one,
) -> list[str]:
    """Lines of a list, of which those of what is repeated come once.

    Parameters
    ----------
    told : sequence
        What there is to say of each.
    lines_of : callable
        The lines of one, by its number.
    what : str
        What they are, in the plural.
    names : sequence of str
        Of each, empty where it has none.
    folded : bool
        Whether anything is left out.
    key : callable
        By what they are alike.

    Examples
    --------
    >>> names = "abcdef"
    >>> for line in folded_lines([8] * 6, lambda i: [f"  {names[i]}: 8"], what="arrays",
    ...                          names=names, folded=True):
    ...     print(line)
      a: 8
      and 5 arrays more like it, to f
    """
    lines: list[str] = []
    for begin, period, copies in runs_alike([key(one) for one in told]) if folded else ():
        for i in range(begin, begin + period):
            lines += lines_of(i)
        if copies > 1:
            shown, all_ = begin + period, begin + copies * period
            last = next((name for name in reversed(names[shown:all_]) if name), "")
            # Where all have the same name, it says nothing.
            end = f", to {last}" if last and last not in names[begin:shown] else ""
            if period == 1:
                lines.append(f"  and {copies - 1} {what} more like it{end}")
            else:
                lines.append(f"  and the same {period} {what} {copies - 1} times more{end}")
    if not folded:
        for i in range(len(told)):
            lines += lines_of(i)
    return lines
