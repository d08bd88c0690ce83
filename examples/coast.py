"""Water finds its way around a real coast, on a grid that memory does not hold.

    python examples/coast.py [--memory 64MiB] [--rows 4096] [--picture coast.png] [--quick]

The sea and the land around Vancouver Island, from the data that matplotlib brings along, in cells
of 54 m. Between the Pacific and the north of the Strait of Georgia there is a difference of
potential, and what flows into a cell flows out of it: div(depth grad u) = 0, solved by
over-relaxation, with many sweeps in flight. Coarse grids come first, and tell the finer ones where
to begin. That the same amount of water passes through every strait is not put in, and comes out,
to within a few per cent after so many sweeps.
Needs 1 GiB of free disk, and removes what it makes.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import outcrop as oc

Floats = NDArray[Any]

MIB = 1 << 20
WEST, EAST, SOUTH, NORTH = -126.0, -122.0, 48.0, 50.0
KM_WIDE, KM_HIGH = 291.9, 222.4
THROUGH = 100_000  # cubic metres in a second: what the speeds in the picture are for
COARSEST = 128  # rows
NAMES = (
    ("Pacific", -125.5, 48.6),
    ("Vancouver Island", -124.7, 49.03),
    ("Strait of\nJuan de Fuca", -123.95, 48.25),
    ("Strait of\nGeorgia", -123.55, 49.17),
    ("Olympic Peninsula", -123.9, 48.08),
    ("Vancouver", -122.85, 49.22),
)
AT_ONCE = 128  # sweeps in flight


@oc.sweep
def around_land(u, depth, omega):
    """A cell's potential, from those beside it: sides let through what the shallower cell does."""
    north = min(depth[0, 0], depth[1, 0])
    south = min(depth[0, 0], depth[-1, 0])
    east = min(depth[0, 0], depth[0, 1])
    west = min(depth[0, 0], depth[0, -1])
    sides = north + south + east + west
    if sides > 0:
        mean = north * u[1, 0] + south * u[-1, 0] + east * u[0, 1] + west * u[0, -1]
        u[0, 0] += omega * (mean / sides - u[0, 0])


@oc.sweep(directions=((1, 1), (-1, -1)))
def flooded(wet, depth):
    """Whether water gets from a mouth to a cell, forwards and backwards in turn."""
    if depth[0, 0] > 0:
        wet[0, 0] = max(wet[0, 0], wet[-1, 0], wet[1, 0], wet[0, -1], wet[0, 1])


# -- the map ---------------------------------------------------------------------------------------


def heights() -> Floats:
    """Metres above the sea, (91, 120), from south to north and from west to east."""
    from matplotlib.cbook import get_sample_data

    with np.load(get_sample_data("topobathy.npz", asfileobj=False)) as data:
        return np.asarray(data["topo"], float)


def weights(n: int, given: int) -> Floats:
    """By which n cells take their values from those given, smoothly (Catmull and Rom)."""
    at = np.clip((np.arange(n) + 0.5) * given / n - 0.5, 0, given - 1)
    first = np.minimum(at.astype(int), given - 2)
    t = at - first
    shares = (
        (-t + 2 * t**2 - t**3) / 2,
        (2 - 5 * t**2 + 3 * t**3) / 2,
        (t + 4 * t**2 - 3 * t**3) / 2,
        (-(t**2) + t**3) / 2,
    )
    found = np.zeros((n, given))
    for k, share in enumerate(shares):
        np.add.at(found, (np.arange(n), np.clip(first - 1 + k, 0, given - 1)), share)
    return found


@dataclass
class Map:
    """A grid over the map, whose heights are made when they are needed."""

    rows: int

    @property
    def shape(self) -> tuple[int, int]:
        """Cells are squares."""
        return self.rows, self.column(EAST)

    def row(self, latitude: float) -> int:
        """In which row that lies."""
        return round((latitude - SOUTH) / (NORTH - SOUTH) * self.rows)

    def column(self, longitude: float) -> int:
        """In which column."""
        return round((longitude - WEST) / (EAST - WEST) * self.rows * 21 / 16)

    @property
    def height(self) -> oc.Array:
        """Metres above the sea. Cliffs are taken by their logarithms: they would move the shore."""
        rows, columns = self.shape
        given = np.arcsinh(heights() / 20)
        down = weights(rows, given.shape[0]) @ given
        return 20 * oc.sinh(oc.asarray(down) @ oc.asarray(weights(columns, given.shape[1]).T))

    def depth(self, directory: Path) -> oc.Array:
        """Of the sea, in metres; nothing on land, in lakes, and at edges that are no mouth."""
        mouth = oc.fromfunction(self.is_mouth, self.shape, "bool")
        inside = oc.fromfunction(self.is_inside, self.shape, "bool")
        found = oc.where(inside | mouth, oc.maximum(-self.height, 0), 0).astype("float32")
        found = found.save(directory / "depth.zarr", overwrite=True)
        wet = flooded(mouth.astype("uint8"), found, sweeps=400, until=0, check_every=4)
        return oc.where(wet > 0, found, 0).save(directory / f"sea{self.rows}.zarr")

    def is_inside(self, i: Any, j: Any) -> Any:
        """Whether a cell is no outermost one."""
        rows, columns = self.shape
        return (i > 0) & (i < rows - 1) & (j > 0) & (j < columns - 1)

    def is_mouth(self, i: Any, j: Any) -> Any:
        """Whether it is one where water comes and goes: in the Pacific, or in the north."""
        pacific = (j == 0) | ((i == 0) & (j < self.column(-124.4)))
        return pacific | ((i == self.rows - 1) & (j < self.column(-124.3)))

    def begin(self, guess: Any) -> oc.Array:
        """The potential to begin with: a guess, and in the mouths what it is held at."""
        inside = oc.fromfunction(self.is_inside, self.shape, "bool")
        held = oc.fromfunction(lambda i, j: (i == self.rows - 1) + 0.0 * j, self.shape)
        return oc.where(inside, guess, held)

    def passing(self, u: oc.Array, depth: oc.Array) -> dict[str, float]:
        """How much water goes through the mouths and straits, from the north to the Pacific."""
        rows, _ = self.shape

        def along(u: oc.Array, depth: oc.Array, axis: int) -> float:
            """Through the sides between two rows or columns."""
            u, least = u.compute(), depth.compute().min(axis=axis)
            return float((least * np.diff(u, axis=axis).squeeze(axis)).sum())

        i, j = self.row(49.0), self.column(-124.0)
        georgia, fuca = np.s_[i : i + 2, j:], np.s_[: self.row(48.8), j : j + 2]
        mouths = along(u[:2], depth[:2], 0) + along(u[:, :2], depth[:, :2], 1)
        return {
            "the northern mouth": along(u[rows - 2 :], depth[rows - 2 :], 0),
            "the Strait of Georgia, at 49 N": along(u[georgia], depth[georgia], 0),
            "the Strait of Juan de Fuca, at 124 W": along(u[fuca], depth[fuca], 1),
            "the Pacific": mouths,
        }


# -- the solution ----------------------------------------------------------------------------------


def solve(
    directory: Path, rows: int, tolerance: float, most: int
) -> tuple[Map, oc.Array, oc.Array]:
    """The potential and the depth, on a grid of so many rows."""
    sizes = [rows]
    while sizes[0] > COARSEST and sizes[0] % 32 == 0:
        sizes.insert(0, sizes[0] // 2)
    guess: Any = 0.5
    for size in sizes:
        area, begin = Map(size), time.perf_counter()
        depth = area.depth(directory)
        # Over-relaxation makes what is rough rougher before it makes it smooth.
        u = around_land(area.begin(guess), depth, 1.0, sweeps=32)
        # Sweeps over coarser grids cost less, and have more to do.
        limit = most * rows // size
        # The best one for a channel from north to south and half as long again; or less, so that
        # what is rough is gone after so many sweeps.
        omega = 2 - max(np.pi / size, 8 / limit)
        if size == rows:
            u = u.save(directory / "u0.zarr")
            print(f"  {size:5} x {area.shape[1]:5} cells, the last grid")
            return area, finish(directory, u, depth, omega, tolerance, most), depth
        u = around_land(u, depth, omega, sweeps=limit, until=tolerance, check_every=AT_ONCE)
        guess = oc.repeat(oc.repeat(u, 2, axis=0), 2, axis=1)
        print(
            f"  {size:5} x {area.shape[1]:5} cells, {time.perf_counter() - begin:6.1f} s",
            flush=True,
        )
    raise AssertionError("there is a last one")


def finish(
    directory: Path, u: oc.Array, depth: oc.Array, omega: float, tolerance: float, most: int
) -> oc.Array:
    """Sweeps over the last grid, and what each round of them costs."""
    both = u.nbytes + depth.nbytes
    print(
        f"\nPotential and depth are {both / MIB:.0f} MiB, and the budget "
        f"{oc.config().memory / MIB:.0f} MiB. In every round:"
    )
    plan = oc.plan(around_land(u, depth, omega, sweeps=AT_ONCE))
    print(
        f"  {plan.sweeps} sweeps, {plan.depth} of them in flight: {plan.bytes_read / MIB:.0f} MiB "
        f"read, {plan.bytes_written / MIB:.0f} MiB written,\n  {plan.peak_bytes / MIB:.1f} MiB of "
        "memory. One after the other, they would move "
        f"{AT_ONCE * (both + u.nbytes) / MIB:,.0f} MiB.\n"
    )
    print(f"  {'sweeps':>6}{'largest change':>16}{'read':>10}{'wrote':>10}{'seconds':>9}")
    for done in range(AT_ONCE, most + AT_ONCE, AT_ONCE):
        swept = around_land(u, depth, omega, sweeps=AT_ONCE)
        new = swept.save(directory / f"u{done // AT_ONCE % 2}.zarr", overwrite=True, progress=told)
        run = oc.last_run()
        assert run is not None
        change = float(abs(new - u).max())
        u = new
        print(
            f"  {done:6}{change:16.1e}{run.bytes_read / MIB:6.0f} MiB"
            f"{run.bytes_written / MIB:6.0f} MiB{run.seconds:9.1f}",
            flush=True,
        )
        if (run.bytes_read, run.bytes_written) != (plan.bytes_read, plan.bytes_written):
            raise SystemExit("that is not what was planned")
        if change <= tolerance:
            break
    return u


def told(done: int, total: int) -> None:
    """How far a round is, where somebody looks on."""
    if sys.stdout.isatty():
        print(f"\r  {done / max(total, 1):6.0%}", end="\r", flush=True)


# -- what comes out --------------------------------------------------------------------------------


def check(area: Map, u: oc.Array, depth: oc.Array) -> float:
    """What physics says of it; the water that passes."""
    print("\nWhat passes through the straits, from the difference of potential in each:\n")
    passing = area.passing(u, depth)
    mean = sum(passing.values()) / len(passing)
    for where, amount in passing.items():
        print(f"  {where:38}{amount:10.4f}  {amount / mean - 1:+8.2%}")
    sea = depth > 0
    least, most = float(oc.where(sea, u, 0.5).min()), float(oc.where(sea, u, 0.5).max())
    print(
        "\nThe potential is held at 0 in the Pacific and at 1 in the north, and nowhere should "
        f"it be\nless or more: it is {least:.6f} to {most:.6f}."
    )
    # What a sweep without over-relaxation would change is what is left over in each cell.
    left = around_land(u, depth, 1.0) - u
    print(
        f"A sweep without over-relaxation would change it by {float(abs(left).max()):.1e} at most."
    )
    return mean


def draw(path: Path, area: Map, u: oc.Array, depth: oc.Array, passing: float) -> None:
    """A picture of the speed, of the lines along which water flows, and of the land."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.colors import LightSource, LogNorm
    from matplotlib.patheffects import withStroke

    step = max(1, area.rows // 1024, round((4 * u.nbytes / oc.config().memory) ** 0.5))
    at = np.s_[step // 2 :: step, step // 2 :: step]
    u, h = u[at].compute(), depth[at].compute()
    high = area.height[at].compute()
    metres = 1000 * KM_HIGH / len(u)
    # Through the sides of a cell; nothing from land.
    wet = np.where(h > 0, u, np.nan)
    sides = [
        np.nan_to_num(np.diff(wet, axis=axis, prepend=np.nan, append=np.nan)) for axis in (0, 1)
    ]
    up, right = (sides[0][:-1] + sides[0][1:]) / 2, (sides[1][:, :-1] + sides[1][:, 1:]) / 2
    speed = np.hypot(up, right) * THROUGH / passing / metres * 100
    figure, axes = plt.subplots(figsize=(12, 9.6), layout="constrained")
    extent = (0, KM_WIDE, 0, KM_HIGH)
    land = LightSource(315, 40).shade(
        np.maximum(high, 0),
        plt.get_cmap("Greys"),
        blend_mode="overlay",
        vmin=-800,
        vmax=5000,
        vert_exag=3,
        dx=metres,
        dy=metres,
    )
    axes.imshow(land, origin="lower", extent=extent)
    image = axes.imshow(
        np.ma.masked_where(h <= 0, speed),
        cmap="viridis",
        norm=LogNorm(0.3, 100),
        origin="lower",
        extent=extent,
    )
    x, y = (np.arange(n) * k / n for n, k in zip(h.shape[::-1], extent[1::2], strict=True))
    lines = np.where(h > 0, -right, np.nan), np.where(h > 0, -up, np.nan)
    axes.streamplot(x, y, *lines, density=3, color=(1, 1, 1, 0.7), linewidth=0.6, arrowsize=0.7)
    for name, longitude, latitude in NAMES:
        x, y = (longitude - WEST) / (EAST - WEST), (latitude - SOUTH) / (NORTH - SOUTH)
        text = axes.text(x * KM_WIDE, y * KM_HIGH, name, ha="center", va="center", style="italic")
        text.set_path_effects([withStroke(linewidth=3, foreground=(1, 1, 1, 0.75))])
    axes.set(xlim=extent[:2], ylim=extent[2:], xlabel="km", ylabel="km")
    axes.set_title(
        f"{THROUGH:,} m³ of water in a second, from the Strait of Georgia to the Pacific\n"
        f"{area.rows} x {area.shape[1]} cells, {oc.config().memory // MIB} MiB of memory"
    )
    figure.colorbar(image, label="cm/s", shrink=0.8)
    figure.savefig(path, dpi=110)
    print(f"\n{path} shows it.")


def demo(directory: Path, options: argparse.Namespace) -> None:
    """Solve it, look at it."""
    begin = time.perf_counter()
    print("Water flows around Vancouver Island: coarse grids first.\n")
    area, u, depth = solve(directory, options.rows, options.tolerance, options.sweeps)
    passing = check(area, u, depth)
    if options.picture:
        draw(options.picture, area, u, depth, passing)
    run = oc.last_run()
    assert run is not None
    print(
        f"\nAll in all {time.perf_counter() - begin:.0f} s, and never more than "
        f"{run.peak_rss / MIB:.0f} MiB of memory, interpreter and compiler included."
    )


def main() -> None:
    """Parse the command line, and tidy up in any case."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--memory", default="64MiB", help="memory budget")
    parser.add_argument("--rows", type=int, default=4096, help="of the grid")
    parser.add_argument("--sweeps", type=int, default=512, help="over the last grid, at most")
    parser.add_argument("--tolerance", type=float, default=1e-5, help="how little may change")
    parser.add_argument("--picture", type=Path, help="where to draw it")
    parser.add_argument("--directory", type=Path, help="where to compute; default: scratch")
    parser.add_argument("--quick", action="store_true", help="256 rows in 1 MiB")
    options = parser.parse_args()
    if options.quick:
        options.memory, options.rows = "1MiB", 256
    if options.rows < COARSEST or options.rows % 16:
        parser.error(f"--rows: {COARSEST} or more, a multiple of 16")
    oc.config(memory=options.memory)
    if options.directory and not options.directory.is_dir():
        parser.error(f"--directory: {options.directory} is no directory")
    parent = options.directory or os.environ.get("TMPDIR") or "/var/tmp"
    # What ends a process politely ends it as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="outcrop-coast-", dir=parent) as directory:
        oc.config(scratch=directory)
        demo(Path(directory), options)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted")
    except oc.OutcropError as error:
        sys.exit(str(error))
