"""A picture of a plan: what is made of what, and what becomes of it."""

import html
from collections.abc import Sequence
from dataclasses import dataclass

from outcrop.errors import UnsupportedError
from outcrop.process.sizes import format_bytes

__all__ = ["Edge", "Item", "drawn"]

_MOST = 400
"""Boxes of a picture that can still be looked at."""

_WIDTH, _HEIGHT, _ACROSS, _DOWN = 190, 62, 70, 26

_COLOURS = {
    "on disk": "#cfe2f3",
    "in memory": "#d9ead3",
    "never stored": "#f3f3f3",
    "kept in memory": "#fff2cc",
    "spilled": "#f4cccc",
    "result": "#d9d2e9",
}


@dataclass(frozen=True)
class Item:
    """A box of the picture.

    Attributes
    ----------
    name, detail : str
        Two lines of text.
    nbytes : int
        Bytes of its elements.
    state : str
        One of those that have a colour.
    note : str
        What else there is to say of its state.
    """

    name: str
    detail: str
    nbytes: int
    state: str
    note: str = ""


@dataclass(frozen=True)
class Edge:
    """That one item is made of another one, and in which passes that one is read."""

    source: int
    target: int
    label: str = ""


def drawn(title: str, items: Sequence[Item], edges: Sequence[Edge]) -> str:
    """Draw items from left to right, in the order in which they are made, as SVG."""
    if len(items) > _MOST:
        raise UnsupportedError(
            f"a picture of {len(items)} arrays cannot be looked at; that of fewer iterations can"
        )
    layer = [0] * len(items)
    for edge in edges:
        # Sources come before what is made of them.
        layer[edge.target] = max(layer[edge.target], layer[edge.source] + 1)
    columns: list[list[int]] = [[] for _ in range(max(layer, default=0) + 1)]
    for i, where in enumerate(layer):
        columns[where].append(i)
    place: dict[int, tuple[int, int]] = {}
    before: dict[int, list[int]] = {}
    for edge in edges:
        before.setdefault(edge.target, []).append(edge.source)
    for x, column in enumerate(columns):
        # Near what they are made of.
        def height(i: int) -> float:
            sources = [place[s][1] for s in before.get(i, ()) if s in place]
            return sum(sources) / len(sources) if sources else float(i)

        for y, i in enumerate(sorted(column, key=height)):
            place[i] = 20 + x * (_WIDTH + _ACROSS), 50 + y * (_HEIGHT + _DOWN)
    width = max((x for x, _ in place.values()), default=0) + _WIDTH + 20
    height_ = max((y for _, y in place.values()), default=0) + _HEIGHT + 50
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height_}" '
        f'viewBox="0 0 {width} {height_}" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="20" y="28" font-size="15">{html.escape(title)}</text>',
    ]
    for edge in edges:
        (x1, y1), (x2, y2) = place[edge.source], place[edge.target]
        x1, y1, y2 = x1 + _WIDTH, y1 + _HEIGHT // 2, y2 + _HEIGHT // 2
        bend = (x2 - x1) // 2
        parts.append(
            f'<path d="M{x1},{y1} C{x1 + bend},{y1} {x2 - bend},{y2} {x2},{y2}" fill="none" '
            f'stroke="{"#3d6fb0" if edge.label else "#999999"}"/>'
        )
        if edge.label:
            parts.append(
                f'<text x="{(x1 + x2) // 2}" y="{(y1 + y2) // 2 - 4}" text-anchor="middle" '
                f'font-size="10" fill="#3d6fb0">{html.escape(edge.label)}</text>'
            )
    for i, item in enumerate(items):
        x, y = place[i]
        state = f"{item.state}{', ' + item.note if item.note else ''}"
        parts.append(
            f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="5" '
            f'fill="{_COLOURS[item.state]}" stroke="#666666"/>'
        )
        for line, (text, weight) in enumerate(
            (
                (_short(item.name), "bold"),
                (_short(f"{item.detail}, {format_bytes(item.nbytes)}"), "normal"),
                (_short(state), "normal"),
            )
        ):
            parts.append(
                f'<text x="{x + 8}" y="{y + 18 + 17 * line}" font-weight="{weight}" '
                f'font-size="{12 if line == 0 else 11}">{html.escape(text)}</text>'
            )
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def _short(text: str) -> str:
    return text if len(text) <= 32 else text[:31] + "…"
