"""Makes the pictures of docs/gallery.md: `make pictures`.

Those of runs are made by the code of the page itself; charts are drawn from docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt

DOCS = Path(__file__).parents[1] / "docs"
BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#999999"
# Text is text, and the same data make the same bytes.
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "outcrop",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
Row = dict[str, str]


def claims(text: str) -> dict[str, str]:
    """The sections of docs/benchmarks.md, by their headings."""
    parts = re.split(r"^## (.*)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def table(section: str, head: str) -> list[Row]:
    """The rows of the table whose first heading is given."""
    lines = section.splitlines()
    (first,) = [i for i, line in enumerate(lines) if line.startswith(f"| {head} |")]
    names = cells(lines[first])
    rows = []
    for line in lines[first + 2 :]:
        if not line.startswith("|"):
            break
        rows.append(dict(zip(names, cells(line), strict=True)))
    return rows


def cells(line: str) -> list[str]:
    """What stands in a row."""
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def memory(text: str) -> Any:
    """The largest use of memory over what is allowed, for each claim."""
    allowed = re.compile(r"^\|.*(?:peak RSS / \(budget|memory used / allowed).*\|$", re.MULTILINE)
    found = {}
    for claim, section in claims(text).items():
        values = [cells(line)[2].split(" to ")[-1] for line in allowed.findall(section)]
        if values:
            found[claim] = max(map(float, values))
    figure, axes = plt.subplots(figsize=(7.5, 0.26 * len(found) + 0.9))
    for place, value in enumerate(reversed(found.values())):
        axes.plot([0, value], [place, place], color=BLUE, linewidth=1)
        axes.plot(value, place, "o", color=BLUE, markersize=5)
        axes.annotate(f"{value:.3f}", (value, place), (6, -3), textcoords="offset points")
    axes.axvline(1, color=ORANGE, linewidth=1)
    names = [shortened(claim) for claim in reversed(found)]
    axes.set_yticks(range(len(names)), names)
    axes.set_xlim(0, 1.15)
    axes.set_xlabel("peak of resident memory / (budget + 200 MiB)")
    return figure


def shortened(claim: str) -> str:
    """A heading that fits beside a chart."""
    return claim if len(claim) <= 48 else claim[:47].rsplit(" ", 1)[0].rstrip(",:") + " …"


def traffic(text: str) -> Any:
    """Bytes that level-3 BLAS reads over the bounds, for parts of a matrix in memory."""
    (section,) = [s for c, s in claims(text).items() if c.endswith("bytes read over the bounds")]
    rows = [row for row in table(section, "n, tiles") if row["n, tiles"].startswith("16384")]
    routines = [name for name in rows[0] if name not in ("n, tiles", "budget")]
    figure, axes = plt.subplots(figsize=(6, 3))
    for routine in routines:
        axes.plot([float(row[routine]) for row in rows], "o-", markersize=4, label=routine)
    axes.axhline(1, color=GREY, linewidth=1)
    axes.set_xticks(range(len(rows)), [row["budget"] for row in rows])
    axes.set_ylim(bottom=0)
    axes.set_xlabel("budget, of a matrix of 2 GiB")
    axes.set_ylabel("bytes read / bound")
    axes.legend(frameon=False, ncols=2)
    return figure


def climate(text: str) -> Any:
    """Seconds of three libraries, by job and budget."""
    rows = table(claims(text)["A climate cube"], "job")
    libraries = [name for name in rows[0] if name != "job"]
    width = 0.8 / len(libraries)
    figure, axes = plt.subplots(figsize=(7.5, 3))
    for number, (library, color) in enumerate(zip(libraries, [BLUE, ORANGE, GREY], strict=True)):
        for place, row in enumerate(rows):
            at = place + (number - (len(libraries) - 1) / 2) * width
            try:
                axes.bar(at, float(row[library]), width * 0.9, color=color)
            except ValueError:  # it says why there is no figure
                axes.annotate(row[library], (at, 0.1), rotation=90, ha="center", color=color)
        axes.bar(0, 0, color=color, label=library)
    axes.set_xticks(range(len(rows)), [row["job"].replace(", ", "\n") for row in rows])
    axes.set_ylabel("seconds")
    axes.legend(frameon=False)
    return figure


def draw_charts(text: str, directory: Path) -> None:
    """Draw all charts."""
    with mpl.rc_context(STYLE):
        for chart in (memory, traffic, climate):
            figure = chart(text)
            path = directory / f"chart-{chart.__name__}.svg"
            figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
            plt.close(figure)


def draw_runs(page: str, directory: Path) -> None:
    """Run a page's code and commands, and keep the pictures that it shows."""
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    with tempfile.TemporaryDirectory() as made:
        script = Path(made, "shown.py")
        script.write_text("\n".join(code for language, code in blocks if language == "python"))
        subprocess.run([sys.executable, script.name], cwd=made, check=True)
        for language, code in blocks:
            for line in code.splitlines() if language == "sh" else []:
                words = line.split()
                subprocess.run([sys.executable, "-m", *words], cwd=made, check=True)
        for name in re.findall(r"\]\(pictures/([\w.-]+)\)", page):
            if Path(made, name).is_file():
                shutil.copy(Path(made, name), directory / name)


def main() -> None:
    """Make what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--charts", action="store_true", help="only what is drawn from benchmarks")
    parser.add_argument("--directory", type=Path, default=DOCS / "pictures")
    options = parser.parse_args()
    options.directory.mkdir(exist_ok=True)
    draw_charts((DOCS / "benchmarks.md").read_text(), options.directory)
    if not options.charts:
        draw_runs((DOCS / "gallery.md").read_text(), options.directory)


if __name__ == "__main__":
    main()
