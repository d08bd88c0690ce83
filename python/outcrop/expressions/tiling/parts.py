"""Parts of what is stored: of tiles, and of files."""

from outcrop.process.sizes import RUN

__all__ = ["RUN", "STAYS", "equal_part"]

STAYS = 2
"""What part of the budget may be handed on from one pass to the next one in memory, or be stored
tiles that stay there until all is taken."""

_EQUAL = 4
"""By how much parts are shorter, at most, so that they are equal."""


def equal_part(whole: int, most: int) -> int:
    """How long equal parts of a tile are, at most; another length where they were much shorter."""
    found = next(n for n in range(most, 0, -1) if whole % n == 0)
    return found if found * _EQUAL >= most else most
