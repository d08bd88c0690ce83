"""A picture, which is drawn in several formats."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from outcrop.errors import UnsupportedError
from outcrop.process.text import printable, shortened
from outcrop.program.drawing.boxes import STATES, Box, Edge, Item, boxes_of, wrapped
from outcrop.program.drawing.layout import MARGIN, Layout, arranged
from outcrop.program.drawing.metrics import text_width

__all__ = ["HEAD", "LINE", "NAME", "PADDING", "SMALL", "STACKED", "TITLE", "Picture", "Shown"]

NAME, SMALL, TITLE = 12.0, 11.0, 14.0
"""Sizes of fonts, in pixels: of the first line of a box, of the others, of the title."""
LINE = 16.0
PADDING = 9.0
HEAD = 19.0
"""From line to line of the title."""
STACKED = 4.0
"""By how much each of the sheets behind a box of several is moved."""

_MOST = 2000
"""Boxes of a picture that can still be made and looked at."""
_HEAD = 72
"""Characters of a line of the title, ..."""
_HEADS = 5
"""... and lines of the title."""
_LEGEND = 560.0
"""Pixels that a line of the legend takes, at most."""


@dataclass(frozen=True)
class Entry:
    """A colour that is explained: where it stands, and what it says."""

    x: float
    y: float
    state: str
    text: str
    is_stacked: bool = False


@dataclass(frozen=True)
class Shown:
    """All that is drawn, in pixels.

    Attributes
    ----------
    title : list of str
        Lines that say what the plan is of.
    boxes : list of Box
        What stands in the boxes.
    layout : Layout
        Where these stand, and how edges go.
    legend : list of Entry
        Which colour says what.
    width, height : float
        Of the whole picture.
    """

    title: list[str]
    boxes: list[Box]
    layout: Layout
    legend: list[Entry]
    width: float
    height: float

    @property
    def name(self) -> str:
        """The title, in a line."""
        return " ".join(self.title)

    @property
    def description(self) -> str:
        """The picture in words."""
        names = "; ".join(box.lines[0] for box in self.boxes[:40])
        more = f"; and {len(self.boxes) - 40} more" if len(self.boxes) > 40 else ""
        return f"{len(self.boxes)} boxes and {len(self.layout.paths)} arrows: {names}{more}"


@dataclass(frozen=True)
class Picture:
    """What is made of what.

    Attributes
    ----------
    title : str
        What it is of.
    items : sequence of Item
        Arrays, operands first.
    edges : sequence of Edge
        What they are made of.

    Examples
    --------
    >>> items = [Item("a", "3 float64", 24, "on disk"), Item("sum", "float64", 8, "result")]
    >>> Picture("sum", items, [Edge(0, 1)]).drawn("svg").startswith(b"<svg")
    True
    """

    title: str
    items: Sequence[Item]
    edges: Sequence[Edge]

    def drawn(self, format: str, *, folded: bool = True) -> bytes:
        """Draw it as ``"svg"``, ``"png"`` or ``"pdf"``; all but the first need matplotlib.

        Raises
        ------
        UnsupportedError
            There is too much for a picture, or no matplotlib.
        """
        shown = self.shown(folded=folded)
        # What draws it knows of it, and matplotlib takes a while to load.
        if format == "svg":
            from outcrop.program.drawing.svg import svg

            return svg(shown).encode()
        from outcrop.program.drawing.figure import figure

        return figure(shown, format)

    def shown(self, *, folded: bool = True, most: int = _MOST) -> Shown:
        """Say what is drawn, and where.

        Raises
        ------
        UnsupportedError
            There are more boxes than `most`.
        """
        boxes, edges = boxes_of(self.items, self.edges, folded=folded)
        if len(boxes) > most:
            hint = "" if folded else ", nor need it be: with folded=True, repetitions are one box"
            raise UnsupportedError(
                f"a picture of {len(boxes)} arrays cannot be looked at{hint}; that of fewer "
                "iterations can"
            )
        title = wrapped([shortened(printable(t), _HEAD) for t in self.title.split(", ")], _HEAD)
        if len(title) > _HEADS:
            title = [*title[: _HEADS - 1], f"{title[_HEADS - 1]} …"]
        wide = max(text_width(line, TITLE, bold=True) for line in title)
        legend, end = _legend(boxes, MARGIN + TITLE + HEAD * (len(title) - 1) + 18)
        layout = arranged([_size(box) for box in boxes], edges, end)
        right = max((e.x + 20 + text_width(e.text, SMALL) for e in legend), default=0.0)
        width = max(layout.width, wide + 2 * MARGIN, right + MARGIN)
        return Shown(title, boxes, _moved(layout, width), legend, width, layout.height)


def _size(box: Box) -> tuple[float, float]:
    first, *others = box.lines
    wide = max([text_width(first, NAME, bold=True), *(text_width(t, SMALL) for t in others)])
    behind = 2 * STACKED if box.count > 1 else 0.0
    return round(wide + 2 * PADDING + behind, 1), LINE * len(box.lines) + PADDING + behind


def _legend(boxes: Sequence[Box], top: float) -> tuple[list[Entry], float]:
    """What colours mean, as far as there are any; and where it ends."""
    used = {box.state for box in boxes}
    texts = [(state, f"{state}: {means}") for state, means in STATES.items() if state in used]
    entries = []
    x, y = MARGIN, top
    stacked = any(box.count > 1 for box in boxes)
    for state, text in [*texts, *([("", "stacked: several alike, as one")] if stacked else [])]:
        wide = 20 + text_width(text, SMALL)
        if x > MARGIN and x + wide > MARGIN + _LEGEND:
            x, y = MARGIN, y + 18
        entries.append(Entry(x, y, state, text, not state))
        x += wide + 18
    return entries, y + 24


def _moved(layout: Layout, width: float) -> Layout:
    """In the middle of a picture that is wider."""
    by = round((width - layout.width) / 2, 1)
    if by <= 0:
        return layout
    return Layout(
        [replace(place, x=round(place.x + by, 1)) for place in layout.places],
        [[(round(x + by, 1), y) for x, y in path] for path in layout.paths],
        width,
        layout.height,
    )
