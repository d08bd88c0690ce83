"""What a notebook shows of a plan."""

import html

from outcrop.errors import UnsupportedError
from outcrop.process.text import printable
from outcrop.program.drawing.picture import Picture
from outcrop.program.drawing.svg import svg

__all__ = ["plan_page"]

_MOST = 150
"""Boxes of a picture in a page: a larger one would be in the way of the rest."""


def plan_page(picture: Picture, text: str) -> str:
    """A picture, and what there is to say besides, which is opened by a click.

    There is no script, and nothing is loaded.
    """
    lines = html.escape("\n".join(map(printable, text.splitlines())))
    try:
        drawn = svg(picture.shown(most=_MOST), inline=True)
    except UnsupportedError:
        # Too many boxes to be looked at.
        return f'<div class="outcrop-page"><pre>{lines}</pre></div>'
    return (
        f'<div class="outcrop-page"><div style="overflow:auto;max-height:42em">{drawn}</div>'
        f"<details><summary>how it is computed, and what that costs</summary>"
        f'<pre style="overflow:auto">{lines}</pre></details></div>'
    )
