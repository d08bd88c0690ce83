"""Pictures as PNG and PDF, by matplotlib."""

import io
import warnings
from itertools import pairwise
from typing import TYPE_CHECKING

from outcrop.program.drawing.files import check_matplotlib
from outcrop.program.drawing.layout import MARGIN
from outcrop.program.drawing.picture import HEAD, LINE, NAME, PADDING, SMALL, STACKED, TITLE, Shown
from outcrop.program.drawing.svg import COLOURS, EDGE, FAINT, STROKE, TEXT

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["figure"]

_INCH = 100.0
"""Pixels of the layout in an inch."""
_LONGEST = 190.0
"""Inches: a page of a PDF has 200 at most."""
_SHARP = 2
_MOST_PIXELS = 20_000
"""Along one side of a PNG; 65 535 is what there may be, and what can be looked at is less."""


def figure(shown: Shown, format: str) -> bytes:
    """Draw as PNG or PDF.

    Raises
    ------
    UnsupportedError
        There is no matplotlib.
    """
    check_matplotlib()
    import matplotlib as mpl
    from matplotlib.figure import Figure

    longest = max(shown.width, shown.height)
    unit = min(1 / _INCH, _LONGEST / longest)
    out = io.BytesIO()
    with warnings.catch_warnings(), mpl.rc_context():
        # Such as one about letters that the font lacks.
        warnings.simplefilter("ignore")
        mpl.rcdefaults()
        # Type 42 can be searched, and its letters are those of the text.
        mpl.rcParams.update({"text.parse_math": False, "pdf.fonttype": 42})
        drawn = Figure(figsize=(shown.width * unit, shown.height * unit))
        axes = drawn.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set_xlim(0, shown.width)
        axes.set_ylim(shown.height, 0)
        _Drawing(axes, 72 * unit).draw(shown)
        metadata = {"Title": shown.name}
        if format == "pdf":
            metadata = {"Title": shown.name, "CreationDate": None}  # type: ignore[dict-item]
        dpi = min(_SHARP / unit, _MOST_PIXELS / (longest * unit))
        drawn.savefig(out, format=format, dpi=dpi, metadata=metadata)
    return out.getvalue()


class _Drawing:
    """Draws in axes whose unit is a pixel of the layout, which has `points` points."""

    def __init__(self, axes: "Axes", points: float) -> None:
        self._axes, self._points = axes, points

    def draw(self, shown: Shown) -> None:
        for at, line in enumerate(shown.title):
            self._text(MARGIN, MARGIN + TITLE + HEAD * at - 4, line, TITLE, bold=True)
        for entry in shown.legend:
            if entry.is_stacked:
                for by in (4.0, 2.0, 0.0):
                    self._rect(entry.x + by, entry.y - 10 + by, 10, 8, "white", 1.5)
            else:
                self._rect(entry.x, entry.y - 10, 13, 12, COLOURS[entry.state][0], 2)
            self._text(entry.x + 20, entry.y, entry.text, SMALL, colour=FAINT[0])
        self._edges(shown)
        for box, place in zip(shown.boxes, shown.layout.places, strict=True):
            behind = 2 * STACKED if box.count > 1 else 0.0
            size = place.width - behind, place.height - behind
            for by in (behind, behind / 2, 0.0) if behind else (0.0,):
                self._rect(place.x + by, place.y + by, *size, COLOURS[box.state][0], 5)
            for at, line in enumerate(box.lines):
                x, y = place.x + PADDING, place.y + LINE * (at + 1)
                self._text(x, y, line, SMALL if at else NAME, bold=not at)

    def _edges(self, shown: Shown) -> None:
        from matplotlib.patches import PathPatch
        from matplotlib.path import Path

        lines: dict[tuple[tuple[float, float], tuple[float, float]], None] = {}
        ends: dict[tuple[float, float], None] = {}
        for path in shown.layout.paths:
            lines |= dict.fromkeys(pairwise(path))
            ends[path[-1]] = None
        points: list[tuple[float, float]] = []
        codes: list[int] = []
        for (x, y), (x2, y2) in lines:
            middle = (y + y2) / 2
            points += [(x, y), (x, middle), (x2, middle), (x2, y2)]
            codes += [int(Path.MOVETO), *[int(Path.CURVE4)] * 3]
        if not points:
            return
        self._axes.add_patch(
            PathPatch(Path(points, codes), fill=False, edgecolor=EDGE[0], linewidth=self._points)
        )
        points, codes = [], []
        for x, y in ends:
            points += [(x, y), (x - 3.5, y - 7), (x + 3.5, y - 7), (x, y)]
            codes += [int(Path.MOVETO), *[int(Path.LINETO)] * 2, int(Path.CLOSEPOLY)]
        self._axes.add_patch(PathPatch(Path(points, codes), facecolor=EDGE[0], linewidth=0))

    def _rect(
        self, x: float, y: float, width: float, height: float, colour: str, round_: float
    ) -> None:
        from matplotlib.patches import FancyBboxPatch

        self._axes.add_patch(
            FancyBboxPatch(
                (x, y),
                width,
                height,
                boxstyle=f"round,pad=0,rounding_size={round_}",
                facecolor=colour,
                edgecolor=STROKE[0],
                linewidth=self._points,
            )
        )

    def _text(
        self,
        x: float,
        y: float,
        text: str,
        size: float,
        *,
        bold: bool = False,
        colour: str = TEXT[0],
    ) -> None:
        self._axes.text(
            x,
            y,
            text,
            fontsize=size * self._points,
            fontweight="bold" if bold else "normal",
            family="DejaVu Sans",
            color=colour,
            va="baseline",
        )
