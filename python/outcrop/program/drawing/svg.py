"""Pictures as SVG: colours follow the theme of whoever looks at it, and nothing is loaded."""

import html
from itertools import pairwise

from outcrop.program.drawing.layout import MARGIN, Point
from outcrop.program.drawing.metrics import FAMILY
from outcrop.program.drawing.picture import HEAD, LINE, NAME, PADDING, SMALL, STACKED, TITLE, Shown

__all__ = ["COLOURS", "EDGE", "FAINT", "STROKE", "TEXT", "svg"]

COLOURS = {
    "on disk": ("#cfe2f3", "#1f3d57"),
    "in memory": ("#d9ead3", "#27452b"),
    "never stored": ("#f1f2f4", "#34373c"),
    "kept in memory": ("#fff2cc", "#564918"),
    "spilled": ("#f4cccc", "#632f2f"),
    "result": ("#d9d2e9", "#43365f"),
}
"""Of what becomes of an array, on light and on dark ground."""
_GROUND = ("#ffffff", "#1b1c1f")
TEXT = ("#202328", "#e8eaed")
FAINT = ("#565c66", "#b3b8c0")
STROKE = ("#6b7078", "#9298a2")
EDGE = ("#6b7078", "#9298a2")

# What is dark in a notebook is not what is dark elsewhere on the same screen: there, its theme says
# it where it can be told, and the browser's where not.
_LIGHT_THEMES = (
    'html:not([data-theme="light"]):not([theme="light"]) '
    'body:not([data-jp-theme-light="true"]):not(.vscode-light)'
)
_DARK_THEMES = (
    'html[data-theme="dark"]',
    'html[theme="dark"]',
    'body[data-jp-theme-light="false"]',
    "body.vscode-dark",
)


def _class(state: str) -> str:
    return "outcrop-" + state.replace(" ", "-")


def _dark() -> dict[str, str]:
    """What dark themes change, by the class of what is drawn."""
    found = {_class(state): f"fill:{dark}" for state, (_, dark) in COLOURS.items()}
    found = {name: f"{rule};stroke:{STROKE[1]}" for name, rule in found.items()}
    return found | {
        "outcrop-ground": f"fill:{_GROUND[1]}",
        "outcrop-text": f"fill:{TEXT[1]}",
        "outcrop-faint": f"fill:{FAINT[1]}",
        "outcrop-edge": f"stroke:{EDGE[1]}",
        "outcrop-head": f"fill:{EDGE[1]}",
        "outcrop-plain": f"fill:{_GROUND[1]};stroke:{STROKE[1]}",
    }


def _style(*, inline: bool) -> str:
    def rules(themes: tuple[str, ...]) -> str:
        return "".join(
            f"{','.join(f'{theme} .outcrop-plan .{name}' for theme in themes)}{{{rule}}}"
            for name, rule in _dark().items()
        )

    media = "@media (prefers-color-scheme:dark){"
    if not inline:
        return media + rules((":root",)).replace(":root .outcrop-plan ", ".outcrop-plan ") + "}"
    return media + rules((_LIGHT_THEMES,)) + "}" + rules(_DARK_THEMES)


def svg(shown: Shown, *, inline: bool = False) -> str:
    """Draw as SVG.

    Parameters
    ----------
    shown : Shown
        What is drawn.
    inline : bool
        Whether it is part of a page, such as a notebook's.
    """
    width, height = _number(shown.width), _number(shown.height)
    title = html.escape(shown.name)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="outcrop-plan" width="{width}" '
        f'height="{height}" viewBox="0 0 {width} {height}" role="img" aria-label="{title}" '
        f'font-family="{FAMILY}" font-size="{_number(SMALL)}">',
        f"<title>{title}</title>",
        f"<desc>{html.escape(shown.description)}</desc>",
        f"<style>{_style(inline=inline)}</style>",
        f'<rect class="outcrop-ground" width="{width}" height="{height}" fill="{_GROUND[0]}"/>',
    ]
    for at, line in enumerate(shown.title):
        parts.append(_text(MARGIN, MARGIN + TITLE + HEAD * at - 4, line, size=TITLE, bold=True))
    for entry in shown.legend:
        if entry.is_stacked:
            for by in (4.0, 2.0, 0.0):
                parts.append(_rect(entry.x + by, entry.y - 10 + by, 10, 8, "", 1.5))
        else:
            parts.append(_rect(entry.x, entry.y - 10, 13, 12, entry.state, 2))
        parts.append(_text(entry.x + 20, entry.y, entry.text, faint=True))
    parts += _edges(shown)
    for box, place in zip(shown.boxes, shown.layout.places, strict=True):
        behind = 2 * STACKED if box.count > 1 else 0.0
        width_, height_ = place.width - behind, place.height - behind
        parts.append(f'<g class="outcrop-box"><title>{html.escape(box.tip)}</title>')
        for by in (behind, behind / 2, 0.0) if behind else (0.0,):
            parts.append(_rect(place.x + by, place.y + by, width_, height_, box.state, 5))
        for at, line in enumerate(box.lines):
            x, y = place.x + PADDING, place.y + LINE * (at + 1)
            parts.append(_text(x, y, line, size=SMALL if at else NAME, bold=not at))
        parts.append("</g>")
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def _edges(shown: Shown) -> list[str]:
    """Lines, each part of which is drawn once, and where they end."""
    drawn: dict[tuple[Point, Point], None] = {}
    ends: dict[Point, None] = {}
    for path in shown.layout.paths:
        drawn |= dict.fromkeys(pairwise(path))
        ends[path[-1]] = None
    line = "".join(f"M{_point(begin)}{_bend(begin, end)}" for begin, end in drawn)
    heads = "".join(f"M{_point(end)}l-3.5,-7h7z" for end in ends)
    if not drawn:
        return []
    return [
        f'<path class="outcrop-edge" d="{line}" fill="none" stroke="{EDGE[0]}"/>',
        f'<path class="outcrop-head" d="{heads}" fill="{EDGE[0]}"/>',
    ]


def _bend(begin: Point, end: Point) -> str:
    """Straight down, or in a bend that begins and ends downward and stays between the two."""
    (x, y), (x2, y2) = begin, end
    if x == x2:
        return f"V{_number(y2)}"
    middle = (y + y2) / 2
    return f"C{_point((x, middle))} {_point((x2, middle))} {_point(end)}"


def _rect(x: float, y: float, width: float, height: float, state: str, round_: float) -> str:
    fill, name = (COLOURS[state][0], _class(state)) if state else (_GROUND[0], "outcrop-plain")
    return (
        f'<rect class="{name}" x="{_number(x)}" y="{_number(y)}" width="{_number(width)}" '
        f'height="{_number(height)}" rx="{_number(round_)}" fill="{fill}" stroke="{STROKE[0]}"/>'
    )


def _text(
    x: float, y: float, text: str, *, size: float = SMALL, bold: bool = False, faint: bool = False
) -> str:
    colour, name = (FAINT[0], "outcrop-faint") if faint else (TEXT[0], "outcrop-text")
    more = f' font-size="{_number(size)}"' if size != SMALL else ""
    more += ' font-weight="bold"' if bold else ""
    return (
        f'<text class="{name}" x="{_number(x)}" y="{_number(y)}" fill="{colour}"{more}>'
        f"{html.escape(text)}</text>"
    )


def _point(point: Point) -> str:
    return f"{_number(point[0])},{_number(point[1])}"


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
