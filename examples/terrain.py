"""Kriging of real mountains: a dense system of 3 GiB, solved three ways in a twelfth of its memory.

    python examples/terrain.py [--memory 256MiB] [--n 20000] [--directory DIR] [--picture FILE]

Of 138,632 elevations around the Jacksboro fault in Tennessee, which come with matplotlib, 20,000
are known, and the others are told from them by universal kriging, which is the regression of a
Gaussian process on a polynomial. Its weights solve a symmetric system that is not definite:

    [ K    F ] [ w ]   [ z ]      K: covariances of what is known, and noise on the diagonal
    [ F^T  0 ] [ b ] = [ 0 ]      F: the terms of the polynomial; z: elevations

The matrix is a function of its indices, stored on disk. LDL^T and LU solve the system as it is;
Cholesky's factor, which is of K alone, does it by elimination. Needs 7 GiB of free disk, and
removes what it makes.
"""

import argparse
import math
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import outcrop as oc

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

MIB, GIB = 1 << 20, 1 << 30
KM_PER_DEGREE = 111.2
TERMS = 6  # of the polynomial

# Of Matern's covariance with smoothness 3/2: about where the likelihood of the known elevations in
# either of two squares of 9 km is largest.
LENGTH = 1.0  # km
DEVIATION = 150.0  # m
NOISE = 1.0  # m


# The method. Points are Outcrop's arrays or NumPy's: the lines are the same.


def squared_distances(p: Any, q: Any) -> Any:
    """Of each of p from each of q, in km^2."""
    return (p[:, 0, None] - q[None, :, 0]) ** 2 + (p[:, 1, None] - q[None, :, 1]) ** 2


def covariance(p: Any, q: Any) -> Any:
    """Of the elevation at each of p with that at each of q, in m^2."""
    r = np.sqrt(squared_distances(p, q)) * (np.sqrt(3) / LENGTH)
    return DEVIATION**2 * ((1 + r) * np.exp(-r))


def polynomial(p: Floats, extent: Floats) -> Floats:
    """Its terms, which are of the size of elevations."""
    x, y = (2 * p / extent - 1).T
    return DEVIATION * np.stack([np.ones_like(x), x, y, x * x, x * y, y * y], axis=1)


def system(p: Floats, F: Floats) -> Callable[[Any, Any], Floats]:
    """The function of the indices that makes the matrix, for `outcrop.fromfunction`."""
    n = len(p)

    def tile(i: Any, j: Any) -> Floats:
        i, j = np.ravel(i), np.ravel(j)
        rows, i = np.split(i, [np.count_nonzero(i < n)])
        columns, j = np.split(j, [np.count_nonzero(j < n)])
        K = covariance(p[rows], p[columns]) + NOISE**2 * (rows[:, None] == columns)
        zeros = np.zeros((len(i), len(j)))
        return np.block([[K, F[rows][:, j - n]], [F[columns][:, i - n].T, zeros]])

    return tile


def eliminated(solved: Floats, F: Floats) -> Floats:
    """The weights w and b, by what solves K x = z and K x = F."""
    z, terms = solved[:, 0], solved[:, 1:]
    b = np.linalg.solve(F.T @ terms, F.T @ z)
    return np.concatenate([z - terms @ b, b])


@dataclass
class Terrain:
    """Elevations on a grid, of which some are known.

    Attributes
    ----------
    heights : array, shape (rows, columns)
        In m; rows from north to south, columns from west to east.
    extent : array, shape (2,)
        From west to east and from north to south, in km.
    known, others : array of int
        Which of them are known, counted row after row, and which are not.
    """

    heights: Floats
    extent: Floats
    known: Indices
    others: Indices

    @classmethod
    def load(cls, n: int) -> "Terrain":
        """A part of the Shuttle Radar Topography Mission, with n random points that are known."""
        from matplotlib.cbook import get_sample_data

        with np.load(get_sample_data("jacksboro_fault_dem.npz", asfileobj=False)) as data:
            heights = data["elevation"].astype(np.float64)
            west, east, north, south = (float(data[k]) for k in ("xmin", "xmax", "ymin", "ymax"))
        degrees = np.array([abs(east - west), abs(north - south)])
        extent = KM_PER_DEGREE * degrees * [np.cos(np.radians((north + south) / 2)), 1]
        order = np.random.default_rng(1).permutation(heights.size)
        return cls(heights, extent, np.sort(order[:n]), np.sort(order[n:]))

    def places(self, which: Indices) -> Floats:
        """Where they are, in km from the north-western corner."""
        rows, columns = self.heights.shape
        i, j = np.divmod(which, columns)
        return np.stack([j / columns, i / rows], axis=1) * self.extent

    def at(self, which: Indices) -> Floats:
        """Their elevations."""
        found: Floats = self.heights.ravel()[which]
        return found


# What is said about it.


class Ledger:
    """What runs cost, a line for each, and what was predicted of that."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.agreed = True
        self.peak_rss = 0

    def title(self) -> None:
        """The heads of columns."""
        print(
            f"\n{'':26}{'seconds':>8}{'Gflop/s':>9}{'read':>10}{'predicted':>11}{'wrote':>10}"
            f"{'predicted':>11}{'budget used':>13}"
        )

    def line(
        self,
        what: str,
        work: Callable[[], Any],
        plan: oc.Plan | None = None,
        *,
        is_exact: bool = True,
    ) -> Any:
        """Do something, and say what that cost."""
        print(f"  {what:24}", end="", flush=True)
        result = work()
        run = oc.last_run()
        assert run is not None
        moved, told = (run.bytes_read, run.bytes_written), ("", "")
        if plan is not None:
            predicted = plan.bytes_read, plan.bytes_written
            told = size(predicted[0]), size(predicted[1])
            self.agreed &= moved == predicted or not is_exact
        self.peak_rss = max(self.peak_rss, run.peak_rss)
        print(
            f"{run.seconds:8.1f}{run.flops / run.seconds / 1e9:9.1f}"
            f"{size(moved[0]):>10}{told[0]:>11}{size(moved[1]):>10}{told[1]:>11}"
            f"{size(run.peak_bytes):>13}",
            flush=True,
        )
        return result

    def computed(self, what: str, *arrays: oc.Array) -> list[Any]:
        """Compute arrays that fit in memory, by files, as it was planned."""
        targets: dict[str | os.PathLike[str], oc.Array] = {
            self.directory / f"result{k}.npy": array for k, array in enumerate(arrays)
        }
        plan = oc.plan(targets)
        done = self.line(what, lambda: oc.save(targets, overwrite=True), plan)
        return [np.array(done[path]) for path in targets]


def size(nbytes: int) -> str:
    """Bytes, in few letters."""
    return f"{nbytes / GIB:.2f} GiB" if nbytes >= GIB else f"{nbytes / MIB:.0f} MiB"


def demo(directory: Path, n: int, picture: Path | None) -> None:
    """Make the matrix, solve in three ways, tell the terrain."""
    begin = time.perf_counter()
    terrain = Terrain.load(n)
    p, z = terrain.places(terrain.known), terrain.at(terrain.known)
    F = polynomial(p, terrain.extent)
    order = n + TERMS
    budget = oc.config().memory
    print(
        f"{terrain.heights.size:,} elevations of {terrain.extent[0]:.0f} km x "
        f"{terrain.extent[1]:.0f} km; {n:,} are known. A symmetric matrix\nof {order:,} x "
        f"{order:,}: {size(8 * order * order)} in float64. The budget is {size(budget)}."
    )
    ledger = Ledger(directory)
    ledger.title()
    matrix = oc.fromfunction(system(p, F), (order, order))
    # Memory holds dozens of tiles, and a column of them, which LU needs, takes a third of it.
    tile = max(min(512, math.isqrt(budget // 512), budget // (24 * order)), 64)
    S = ledger.line("the matrix", lambda: matrix.save(directory / "matrix.zarr", tile=tile))

    right = np.concatenate([z, np.zeros(TERMS)])
    sides = np.concatenate([z[:, None], F], axis=1)
    (by_cholesky,) = ledger.computed("Cholesky", oc.linalg.solve(S[:n, :n], sides, assume="pos"))
    # This is refined at once, as often as need be. What it takes at least are the factors.
    factors = oc.linalg.ldl_factor(S, hermitian=False)
    least = oc.plan({f"{name}.zarr": getattr(factors, name) for name in ("factor", "d", "rows")})
    by_ldl = ledger.line(
        "LDL^T", lambda: oc.linalg.solve(S, right, assume="sym"), least, is_exact=False
    )
    (by_lu,) = ledger.computed("LU", oc.linalg.solve(S, right))
    weights = {"Cholesky": eliminated(by_cholesky, F), "LDL^T": np.array(by_ldl), "LU": by_lu}
    (products,) = ledger.computed("products, for residuals", S @ np.stack([*weights.values()], 1))
    told, nearest = tell(ledger, terrain, weights["LDL^T"])
    print(
        "\nPredicted of LDL^T are its factors; solving and refining come on top. All else is "
        f"{'exactly' if ledger.agreed else 'NOT'} as\npredicted. The process, interpreter and "
        f"libraries included, never had more than {size(ledger.peak_rss)}."
    )
    compare(weights, products - right[:, None], F)
    linear = triangles(terrain, nearest)
    score(
        terrain,
        {
            "their mean": np.full_like(told, z.mean()),
            "the nearest": nearest,
            "linear, in triangles": linear,
            "kriging": told,
        },
    )
    if picture is not None:
        draw(terrain, told, picture)
        print(f"\nA picture of it is {picture}.")
    print(f"\nAll in all {time.perf_counter() - begin:.0f} s.")


def tell(ledger: Ledger, terrain: Terrain, weights: Floats) -> tuple[Floats, Floats]:
    """What is not known by kriging, and by the nearest place that is."""
    n = len(terrain.known)
    places = terrain.places(terrain.others)
    p, q = oc.asarray(terrain.places(terrain.known)), oc.asarray(places)
    # One pass over all distances, which are never anywhere.
    told, nearest = ledger.computed(
        "the others, and nearest",
        covariance(q, p) @ weights[:n],
        np.argmin(squared_distances(q, p), axis=1),
    )
    trend = polynomial(places, terrain.extent) @ weights[n:]
    return told + trend, terrain.at(terrain.known)[nearest]


def triangles(terrain: Terrain, beyond: Floats) -> Floats:
    """What is not known by linear interpolation in Delaunay's triangles, and as told beyond."""
    from matplotlib.tri import LinearTriInterpolator, Triangulation

    corners = Triangulation(*terrain.places(terrain.known).T)
    inside = LinearTriInterpolator(corners, terrain.at(terrain.known))
    told = inside(*terrain.places(terrain.others).T)
    return np.where(told.mask, beyond, told.data)


def compare(weights: dict[str, Floats], residuals: Floats, F: Floats) -> None:
    """Whether three ways lead to the same weights, and those solve the system."""
    n = len(F)
    print("\nThe weights, and how far they are from those by LU, as a part of the largest:\n")
    print(f"  {'':24}{'largest residual':>18}{'w differs by':>15}{'b differs by':>15}")
    reference = weights["LU"]
    for (name, own), residual in zip(weights.items(), residuals.T, strict=True):
        w, b = difference(own[:n], reference[:n]), difference(own[n:], reference[n:])
        apart = "" if own is reference else f"{w:15.0e}{b:15.0e}"
        print(f"  {name:24}{np.abs(residual).max():16.0e} m{apart}")


def difference(one: Floats, other: Floats) -> float:
    """The largest, as a part of the largest value."""
    return float(np.abs(one - other).max() / np.abs(other).max())


def score(terrain: Terrain, ways: dict[str, Floats]) -> None:
    """How far what was told is from what is there."""
    truth = terrain.at(terrain.others)
    print(f"\nThe {len(truth):,} elevations that were held out, told from those that are known:\n")
    print(f"  {'':24}{'RMS error':>14}{'99% are within':>18}")
    for way, told in ways.items():
        error = np.abs(told - truth)
        rms, most = np.sqrt(np.mean(error**2)), np.quantile(error, 0.99)
        print(f"  {way:24}{rms:12.2f} m{most:16.1f} m")


def draw(terrain: Terrain, told: Floats, path: Path) -> None:
    """What is known, what is told from it, and what is there."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LightSource, Normalize
    from matplotlib.figure import Figure

    shape, truth = terrain.heights.shape, terrain.heights
    whole = truth.copy()
    whole.ravel()[terrain.others] = told
    norm = Normalize(truth.min(), truth.max())
    scale = ScalarMappable(norm, "gist_earth")
    light = LightSource(azdeg=315, altdeg=45)
    cell = 1000 * terrain.extent / shape[::-1]

    def shaded(heights: Floats) -> Any:
        relief = {"dx": cell[0], "dy": cell[1], "vert_exag": 2}
        return light.shade(heights, scale.cmap, norm, blend_mode="soft", **relief)

    points = scale.to_rgba(truth)
    points.reshape(-1, 4)[terrain.others] = 1
    titles = (
        f"{len(terrain.known):,} known elevations",
        "the others told by kriging",
        f"all {truth.size:,} elevations",
    )
    figure = Figure(figsize=(15, 5.2), layout="constrained")
    axes: Any = figure.subplots(1, 3, sharey=True)
    images = (points, shaded(whole), shaded(truth))
    for one, title, image in zip(axes, titles, images, strict=True):
        east, south = terrain.extent
        one.imshow(image, extent=(0, east, south, 0), interpolation="none")
        one.set(title=title, xlabel="km")
    axes[0].set_ylabel("km")
    figure.colorbar(scale, ax=axes, label="m", shrink=0.8)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Parse the command line, and tidy up in any case."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--memory", default="256MiB", help="memory budget")
    parser.add_argument("--n", type=int, default=20_000, help="how many elevations are known")
    parser.add_argument("--directory", type=Path, help="where to put the matrix; default: scratch")
    parser.add_argument("--picture", type=Path, help="draw it all, as a PNG, SVG or PDF")
    options = parser.parse_args()
    if not 100 <= options.n <= 100_000:
        parser.error("--n: from 100 to 100000 of the 138632 elevations can be known")
    if options.directory and not options.directory.is_dir():
        parser.error(f"--directory: {options.directory} is no directory")
    if options.picture and not options.picture.absolute().parent.is_dir():
        parser.error(f"--picture: {options.picture.parent} is no directory")
    if options.picture and options.picture.suffix not in (".png", ".svg", ".pdf"):
        parser.error("--picture: a name that ends in .png, .svg or .pdf")
    if find_spec("matplotlib") is None:
        parser.error("the terrain is a part of matplotlib: pip install matplotlib")
    oc.config(memory=options.memory)
    parent = options.directory or os.environ.get("TMPDIR") or "/var/tmp"
    # What ends a process politely ends it as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="outcrop-terrain-", dir=parent) as directory:
        oc.config(scratch=directory)
        demo(Path(directory), options.n, options.picture)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted")
    except oc.OutcropError as error:
        sys.exit(str(error))
