"""``outcrop timeline``: a picture of a recorded run."""

import io
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

import click
import numpy as np
from numpy.typing import NDArray

from outcrop.cli.results import count
from outcrop.cli.session import Session, pass_session
from outcrop.errors import OutcropWarning
from outcrop.process.files import check_place
from outcrop.process.sizes import format_bytes
from outcrop.process.text import printable, shortened
from outcrop.program.drawing import check_matplotlib, picture_format, write_picture
from outcrop.program.timeline import GROUPS, Lane, Timeline, read_timeline
from outcrop.program.waves import Waves

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["timeline"]


@click.command()
@click.argument("source", metavar="RECORD", type=click.Path())
@click.argument("target", metavar="PICTURE", type=click.Path())
@click.option(
    "--overwrite", is_flag=True, help="Replace a file that stands at PICTURE, once it is complete."
)
@pass_session
def timeline(session: Session, source: str, target: str, overwrite: bool) -> None:
    """Draw a recorded run: what every thread did, and the memory in use.

    Of sweeps over a grid, it also shows which of them was where at which time.

    The suffix of PICTURE, .png, .svg or .pdf, gives its format. The record of a run that was killed
    is drawn as far as it goes. Needs matplotlib: pip install 'outcrop[plot]'
    """
    format = picture_format(target)
    # Before a long record is read.
    check_matplotlib()
    check_place(target, overwrite=overwrite)
    with session.work(PurePath(source).name) as work:
        run = read_timeline(source, work.progress)
    if run.cut is not None:
        warnings.warn(
            f"{source}: the record ends early, in line {run.cut}: "
            f"drawn are the first {_seconds(run.seconds)}",
            OutcropWarning,
            stacklevel=1,
        )
    picture = _draw(run, printable(PurePath(source).name), format)
    write_picture(target, picture, overwrite=overwrite)
    if not session.quiet:
        click.echo(f"{target}: {_headline(run)}")


def _percent(share: float) -> str:
    """A share; nothing and all are only said of nothing and all.

    Examples
    --------
    >>> _percent(0), _percent(0.001), _percent(0.345), _percent(0.998), _percent(1)
    ('0 %', '<1 %', '34 %', '>99 %', '100 %')
    """
    percent = 100 * share
    if 0 < percent < 0.5:
        return "<1 %"
    return ">99 %" if 99.5 <= percent < 99.95 else f"{percent:.0f} %"


def _seconds(seconds: float) -> str:
    """Seconds with three digits or so.

    Examples
    --------
    >>> _seconds(8123.4), _seconds(12.345), _seconds(0.00123)
    ('8123 s', '12.3 s', '0.00123 s')
    """
    return f"{seconds:.0f} s" if seconds >= 100 else f"{seconds:.3g} s"


def _headline(run: Timeline) -> str:
    threads = run.group("compute")
    compute = _percent(run.compute_busy)
    if len(threads) > 1:
        compute += f" (its {len(threads)} threads {_percent(run.busy(threads))})"
    return (
        f"{_seconds(run.seconds)}, compute busy {compute}, I/O busy {_percent(run.io_busy)}, "
        f"both at once {_percent(run.both)}"
    )


_OTHER = "#8c8c8c"
# Okabe and Ito's colours, which people tell apart however they see colours.
_COLOURS = {
    "gemm": "#0072b2",
    "trsm": "#e69f00",
    "herk": "#56b4e9",
    "potrf": "#d55e00",
    "load": "#009e73",
    "store": "#cc79a7",
    "other": _OTHER,
}
_SPARE = ("#0072b2", "#e69f00", "#56b4e9", "#d55e00", "#f0e442", "#30343b")
_IDLE = "#ebebee"
_TEXT = "#202328"
_FAINT = "#646a73"


def _colours(run: Timeline) -> dict[str, str]:
    """A colour for each kernel, the longest first; `_OTHER` where there are too many."""
    sums: dict[str, float] = {}
    for group in GROUPS:
        for name, seconds in run.kernels(group).items():
            sums[name] = sums.get(name, 0.0) + seconds
    names = sorted(sums, key=lambda name: -sums[name])
    taken = {_COLOURS[name] for name in names if name in _COLOURS}
    spare = iter([colour for colour in _SPARE if colour not in taken])
    return {name: _COLOURS.get(name) or next(spare, _OTHER) for name in names}


# In pixels.
_WIDTH = 1600
_LEFT = 136
_RIGHT = 76
_INSIDE = _WIDTH - _LEFT - _RIGHT
_MEMORY = 170
_WAVES = 250
_BETWEEN = 26
_FOOT = 62


@dataclass(frozen=True)
class _Layout:
    """Where things stand, in pixels: from the left and from the top."""

    tops: tuple[int, ...]
    """Of the lanes, from the top of the first."""
    pitch: int
    """From lane to lane in a group."""
    gap: int
    """Between lanes."""
    height: int
    """Of all lanes."""
    legend_rows: int
    waves: int
    """Of the picture of waves; 0 where there is none."""

    @property
    def head(self) -> int:
        """Title, legend and some air."""
        return 82 + 26 * self.legend_rows

    @property
    def total(self) -> int:
        return self.memory + _MEMORY + _FOOT

    @property
    def memory(self) -> int:
        """From the top to the picture of the memory."""
        return self.head + self.height + _BETWEEN + self.waves + (_BETWEEN if self.waves else 0)

    def box(self, top: int, height: int) -> tuple[float, float, float, float]:
        """A box across the picture as matplotlib has it."""
        bottom = self.total - top - height
        return (
            _LEFT / _WIDTH,
            bottom / self.total,
            _INSIDE / _WIDTH,
            height / self.total,
        )


def _layout(lanes: Sequence[Lane], legend_rows: int, waves: Waves | None) -> _Layout:
    pitch = min(max(510 // len(lanes), 8), 64)
    gap = 3 if pitch >= 16 else 1
    tops = []
    top = 0
    for before, lane in zip((None, *lanes), lanes, strict=False):
        if before is not None and before.group != lane.group:
            top += 14
        tops.append(top)
        top += pitch
    height = 0 if waves is None else _WAVES
    return _Layout(tuple(tops), pitch, gap, top - gap, legend_rows, height)


def _draw(run: Timeline, name: str, format: str) -> bytes:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    colours = _colours(run)
    entries = _legend_entries(run, colours)
    columns, rows = _legend_shape([label for _, label in entries])
    layout = _layout(run.lanes, rows, run.waves)
    out = io.BytesIO()
    with warnings.catch_warnings(), mpl.rc_context():
        # Such as one about letters that a font lacks.
        warnings.simplefilter("ignore")
        mpl.rcdefaults()
        mpl.rcParams.update(
            {
                "font.size": 10.5,
                "text.color": _TEXT,
                "text.parse_math": False,
                "axes.labelcolor": _TEXT,
                "axes.edgecolor": "#b4b8be",
                "xtick.color": "#b4b8be",
                "ytick.color": "#b4b8be",
                "xtick.labelcolor": _TEXT,
                "ytick.labelcolor": _TEXT,
                "svg.hashsalt": "outcrop",
            }
        )
        figure = Figure(figsize=(_WIDTH / 100, layout.total / 100), dpi=100)
        _draw_head(figure, layout, run, name)
        _draw_legend(figure, layout, entries, columns)
        lanes = figure.add_axes(layout.box(layout.head, layout.height))
        # What is not made of pixels is looked at more closely.
        scale = 1 if format == "png" else 2
        _draw_lanes(lanes, layout, run, colours, scale)
        if run.waves is not None:
            top = layout.head + layout.height + _BETWEEN
            _draw_waves(figure, layout.box(top, layout.waves), run.waves, run.seconds)
        _draw_memory(figure.add_axes(layout.box(layout.memory, _MEMORY)), layout, run)
        # Or pictures of one record would differ.
        metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(format)
        figure.savefig(out, format=format, dpi=100 * scale, metadata=metadata)
    return out.getvalue()


def _draw_head(figure: "Figure", layout: _Layout, run: Timeline, name: str) -> None:
    def line(top: float, text: str, **style: object) -> None:
        at = 24 / _WIDTH, 1 - top / layout.total
        figure.text(*at, text, va="baseline", **style)  # type: ignore[arg-type]

    line(36, _headline(run), fontsize=15, fontweight="bold")
    threads = ", ".join(
        f"{count(len(run.group(group)), 'thread')} to {group}"
        for group in GROUPS
        if run.group(group)
    )
    facts = [shortened(name, 60), count(run.events, "event"), threads]
    if run.cut is not None:
        facts.append("the record ends early")
    line(61, "  ·  ".join(facts), fontsize=10.5, color=_FAINT)


def _legend_entries(run: Timeline, colours: Mapping[str, str]) -> list[tuple[str, str]]:
    """Colours and what they stand for, with the share of the time of the threads that could."""
    entries: list[tuple[str, str]] = []
    for group in GROUPS:
        whole = len(run.group(group)) * run.seconds
        rest = 0.0
        for name, seconds in run.kernels(group).items():
            if colours[name] == _OTHER:
                rest += seconds
            else:
                label = f"{shortened(printable(name), 16)} {_percent(seconds / whole)}"
                entries.append((colours[name], label))
        if rest:
            entries.append((_OTHER, f"other {_percent(rest / whole)}"))
    entries.append((_IDLE, "idle"))
    return entries


def _legend_shape(labels: Sequence[str]) -> tuple[int, int]:
    """Columns and rows that fit."""
    widest = 8.2 * max(map(len, labels)) + 44
    most = max(int(_INSIDE / widest), 1)
    rows = -(-len(labels) // most)
    return -(-len(labels) // rows), rows


def _draw_legend(
    figure: "Figure", layout: _Layout, entries: Sequence[tuple[str, str]], columns: int
) -> None:
    from matplotlib.patches import Patch

    rows = -(-len(entries) // columns)
    # Matplotlib fills columns; people read rows.
    order = [
        at
        for column in range(columns)
        for row in range(rows)
        if (at := row * columns + column) < len(entries)
    ]
    figure.legend(
        handles=[
            Patch(
                facecolor=entries[at][0],
                edgecolor="#b4b8be" if entries[at][0] == _IDLE else "none",
                label=entries[at][1],
            )
            for at in order
        ],
        ncols=columns,
        loc="upper left",
        bbox_to_anchor=(_LEFT / _WIDTH, 1 - 72 / layout.total),
        frameon=False,
        fontsize=11,
        handlelength=1.2,
        handleheight=1.0,
        handletextpad=0.5,
        columnspacing=1.9,
        labelspacing=0.55,
        borderpad=0,
        borderaxespad=0,
    )
    figure.text(
        24 / _WIDTH,
        1 - 73 / layout.total,
        "share of\nthread time",
        va="top",
        fontsize=9,
        color=_FAINT,
        linespacing=1.1,
    )


def _draw_lanes(
    axes: "Axes", layout: _Layout, run: Timeline, colours: Mapping[str, str], scale: int
) -> None:
    image = np.full((layout.height * scale, _INSIDE * scale, 3), 255, np.uint8)
    for lane, top in zip(run.lanes, layout.tops, strict=True):
        rows = slice(top * scale, (top + layout.pitch - layout.gap) * scale)
        image[rows] = _lane_image(run, lane, colours, image[rows].shape[0], image.shape[1])
    axes.imshow(
        image,
        extent=(0, run.seconds, layout.height, 0),
        aspect="auto",
        interpolation="nearest",
    )
    axes.set_axis_off()
    thick = layout.pitch - layout.gap

    def beside(x: float, y: float, text: str, **style: object) -> None:
        axes.annotate(
            text,
            (0 if x < 0 else run.seconds, y),
            (x * 0.72, 0),
            textcoords="offset points",
            va="center_baseline" if layout.pitch > 14 else "center",
            annotation_clip=False,
            **style,  # type: ignore[arg-type]
        )

    # Numbers that stand above each other need about 13 pixels each.
    step = math.ceil(13 / layout.pitch)
    small = min(9.5, max(7.5, layout.pitch * 0.55))
    for lane, top in zip(run.lanes, layout.tops, strict=True):
        if lane.thread % step == 0:
            middle = top + thick / 2
            beside(-8, middle, str(lane.thread), ha="right", fontsize=small, color=_FAINT)
            busy = _percent(run.busy([lane]))
            beside(8, middle, busy, ha="left", fontsize=small, color=_FAINT)
    for group in GROUPS:
        tops = [
            top for lane, top in zip(run.lanes, layout.tops, strict=True) if lane.group == group
        ]
        if tops:
            middle = (tops[0] + tops[-1] + thick) / 2
            beside(24 - _LEFT, middle, group, ha="left", fontsize=11.5, fontweight="bold")
    axes.annotate(
        "busy",
        (run.seconds, 0),
        (5.8, 5),
        textcoords="offset points",
        va="baseline",
        fontsize=9,
        color=_FAINT,
        annotation_clip=False,
    )


def _lane_image(
    run: Timeline, lane: Lane, colours: Mapping[str, str], height: int, width: int
) -> NDArray[np.uint8]:
    """Each column of pixels is filled from below with what its time went to."""
    parts = run.shares(lane, width)
    names = [name for name in colours if name in parts]
    palette = np.array([_rgb(colours[name]) for name in names] + [_rgb(_IDLE)], np.uint8)
    if not names:
        return np.broadcast_to(palette[0], (height, width, 3))
    shares = np.array([parts[name] for name in names])
    most = shares.argmax(axis=0)
    busy = shares.sum(axis=0)
    starts = run.starts(lane, width)

    def near(reach: int) -> NDArray[np.int64]:
        return np.convolve(starts, np.ones(2 * reach + 1, np.int64), "same")

    # Pieces of work that can be told apart get straight sides, and the shortest can be seen.
    apart = near(3) <= 1
    around = np.pad(busy, 1)
    speck = (starts > 0) & (np.maximum(around[:-2], around[2:]) < 0.5)
    whole = apart & ((busy >= 0.5) | speck)
    shares[:, apart] = 0
    shares[most, np.arange(width)] += whole
    middles = (np.arange(height) + 0.5) / height
    which = (np.cumsum(shares, axis=0)[:, None, :] <= middles[None, :, None]).sum(axis=0)
    # However little is done among others, it is to be seen as well.
    little = (which[0] == len(names)) & (shares.sum(axis=0) > 1e-6)
    which[0, little] = shares[:, little].argmax(axis=0)
    image: NDArray[np.uint8] = palette[which]
    # Where there is room, a lighter line stands between one piece of work and the next.
    line = (starts == 1) & (near(6) == 1) & (np.concatenate(([0.0], busy[:-1])) > 0.5)
    image[:, line] = image[:, line] // 2 + 127
    return np.flipud(image)


def _draw_waves(
    figure: "Figure", box: tuple[float, float, float, float], waves: Waves, seconds: float
) -> None:
    """Each sweep has a colour: positions along the grid from the top, time from the left."""
    from matplotlib import colormaps
    from matplotlib.ticker import MaxNLocator

    axes = figure.add_axes(box)
    colours = colormaps["turbo"].resampled(max(waves.rounds, 2))
    colours.set_under(_IDLE)
    shown = axes.imshow(
        waves.rows,
        cmap=colours,
        vmin=0,
        vmax=max(waves.rounds, 2) - 1,
        extent=(0, waves.seconds, waves.tiles, 0),
        aspect="auto",
        interpolation="nearest",
    )
    axes.set_xlim(0, seconds)
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.tick_params(labelbottom=False)
    axes.set_ylabel(f"tile of axis {waves.axis}", fontsize=10.5)
    axes.yaxis.set_label_coords(-78 / _INSIDE, 0.5)
    left, bottom, width, height = box
    beside = figure.add_axes((left + width + 14 / _WIDTH, bottom, 12 / _WIDTH, height))
    bar = figure.colorbar(shown, cax=beside)
    bar.outline.set_visible(False)
    # Sweeps are counted from 0 on, as in the functions that do them.
    bar.ax.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    bar.ax.tick_params(labelsize=9, length=0)
    bar.ax.invert_yaxis()
    bar.ax.set_title("sweep", fontsize=9, color=_FAINT, loc="left", pad=4)


def _rgb(colour: str) -> tuple[int, ...]:
    return tuple(bytes.fromhex(colour[1:]))


def _draw_memory(axes: "Axes", layout: _Layout, run: Timeline) -> None:
    from matplotlib.ticker import MaxNLocator

    power = min(max(int(math.log2(max(run.peak, 1)) // 10), 0), 5)
    unit = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")[power]
    used = run.used(_INSIDE) / 1024**power
    edges = np.linspace(0, run.seconds, _INSIDE + 1)
    axes.stairs(used, edges, fill=True, color="#c3c9d4", linewidth=0)
    axes.stairs(used, edges, baseline=None, color="#4a5464", linewidth=1)
    axes.set_xlim(0, run.seconds)
    peak = run.peak / 1024**power
    axes.set_ylim(0, peak * 1.3 or 1)
    axes.yaxis.set_major_locator(MaxNLocator(4, min_n_ticks=3))
    axes.set_ylabel(f"memory ({unit})", fontsize=10.5)
    axes.yaxis.set_label_coords(-78 / _INSIDE, 0.5)
    axes.set_xlabel("seconds", fontsize=10.5)
    for axis in (axes.xaxis, axes.yaxis):
        axis.get_major_formatter().set_useOffset(False)  # type: ignore[attr-defined]
    axes.ticklabel_format(style="plain")
    axes.grid(axis="both", color="#e3e5e8", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if run.peak:
        at = run.peak_at / run.seconds
        axes.plot([run.peak_at], [peak], "o", color=_TEXT, markersize=4.5, clip_on=False)
        axes.annotate(
            f"peak {format_bytes(run.peak)}",
            (run.peak_at, peak),
            (0, 5.8),
            textcoords="offset points",
            ha="left" if at < 0.06 else "right" if at > 0.94 else "center",
            va="baseline",
            fontsize=10.5,
            fontweight="bold",
        )
