"""How wide texts are, before anything has drawn them."""

import unicodedata

__all__ = ["FAMILY", "text_width"]

FAMILY = "Verdana, 'DejaVu Sans', sans-serif"
"""Fonts that are the widest of those in use: where there is another one, texts are shorter."""

# Of DejaVu Sans, in thousandths of its size, from the space to the tilde.
# fmt: off
_NORMAL = (
    318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337, 636, 636, 636,
    636, 636, 636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531, 1000, 684, 686, 698, 770,
    632, 575, 775, 752, 295, 295, 656, 557, 863, 748, 787, 603, 787, 695, 635, 611, 732, 684, 989,
    685, 611, 685, 390, 337, 390, 838, 500, 500, 613, 635, 550, 635, 615, 352, 635, 634, 278, 278,
    579, 278, 974, 634, 612, 635, 635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636, 337, 636,
    838,
)
_BOLD = (
    348, 456, 521, 838, 696, 1002, 872, 306, 457, 457, 523, 838, 380, 415, 380, 365, 696, 696,
    696, 696, 696, 696, 696, 696, 696, 696, 400, 400, 838, 838, 838, 580, 1000, 774, 762, 734,
    830, 683, 683, 821, 837, 372, 372, 775, 637, 995, 837, 850, 733, 850, 770, 720, 682, 812, 774,
    1103, 771, 724, 725, 457, 365, 457, 838, 500, 500, 675, 716, 593, 716, 678, 435, 716, 712,
    343, 343, 665, 343, 1042, 712, 687, 716, 716, 493, 595, 478, 712, 652, 924, 645, 652, 582,
    712, 365, 712, 838,
)
# fmt: on


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """How wide a text is at most, in the unit of the size of its font.

    Examples
    --------
    >>> text_width("ii", 10) < text_width("ii", 10, bold=True) < text_width("WW", 10)
    True
    """
    widths = _BOLD if bold else _NORMAL
    total = 0
    for c in text:
        if " " <= c <= "~":
            total += widths[ord(c) - 32]
        elif unicodedata.east_asian_width(c) in "WF":
            # Emoji are as wide as they are high, and stand apart.
            total += 1400
        elif not unicodedata.combining(c):
            total += 1100
    return total * size / 1000
