"""Pictures of plans: what is made of what, and what becomes of it.

A `Picture` has items and edges, as a plan knows them. `folding` finds what is repeated, `boxes`
says what stands in each box, `layout` where the boxes stand and how edges go around them, and `svg`
and `figure` draw that. `files` is where pictures are written, those of timelines as well.
"""

from outcrop.program.drawing.boxes import Edge, Item, told_passes
from outcrop.program.drawing.files import check_matplotlib, picture_format, write_picture
from outcrop.program.drawing.picture import Picture

__all__ = [
    "Edge",
    "Item",
    "Picture",
    "check_matplotlib",
    "picture_format",
    "told_passes",
    "write_picture",
]
