"""All flights out of New York in 2013 as a table of zeros and ones, which is made where it is read.

What is known before a flight leaves has few values each: the carrier, the destination, the hour of
the week, the wind in one of eight ranges. Each value becomes a column, 1 for the flights that have
it. In memory there is the number of the value alone, two bytes for each flight and feature.

Rows are ordered by days: first those to learn from, then those that are held out. These lie between
the others, all over the year, and the weather is that of the hour itself: good for judging a model,
but no forecast. Cancelled flights are left out, as nobody knows how late they would have been.
"""

import csv
import io
import zipfile
from array import array
from dataclasses import dataclass
from datetime import date
from itertools import compress
from pathlib import Path
from typing import Any

import flights
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FLIGHTS = 336_776
"""Lines of the file, cancelled flights among them."""

LATE = 15
"""Minutes from which on a flight counts as late, as the authorities have it."""

SKY = {"temperature": 0, "dew point": 1, "humidity": 2, "wind": 5, "rain": 6, "sight": 7}
"""Numbers of the weather, by their places in what `flights.read_weather` gives."""

RANGES = 8
"""Into which each of them is divided, with equally many different values in each."""

FEATURES = (
    *("origin", "destination", "carrier", "route", "carrier and destination"),
    *("hour of the week", "month", "plane"),
)
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


@dataclass
class Table:
    """Flights by rows, values of features by columns.

    Attributes
    ----------
    codes : array of int16
        Which value of each feature a flight has; -1 for one that has no column.
    names : dict of str to list of str
        The names of each feature's values.
    late : array of float64
        1 for flights that came late, else 0.
    known : int
        How many of the flights, the first ones, are to learn from.
    """

    codes: NDArray[np.int16]
    names: dict[str, list[str]]
    late: Floats
    known: int

    def __post_init__(self) -> None:
        counts = [len(values) for values in self.names.values()]
        self._feature = np.repeat(np.arange(len(counts)), counts)
        self._value = np.concatenate([np.arange(n) for n in counts])

    @property
    def shape(self) -> tuple[int, int]:
        """Flights and columns."""
        return len(self.codes), len(self._value)

    @property
    def labels(self) -> list[str]:
        """The names of the columns."""
        return [value for values in self.names.values() for value in values]

    def columns(self, feature: str) -> slice:
        """Those of a feature."""
        place = list(self.names).index(feature)
        first, last = np.searchsorted(self._feature, [place, place + 1])
        return slice(int(first), int(last))

    def element(self, i: Any, j: Any) -> Any:
        """The table, as `outcrop.fromfunction` wants it: told from indices that broadcast."""
        return self.codes[i, self._feature[j]] == self._value[j]


class Codes:
    """Values by number, as they come."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.codes = array("h")

    def append(self, value: str) -> None:
        self.codes.append(self.numbers.setdefault(value, len(self.numbers)))

    def finished(self, rows: NDArray[np.int64], most: int) -> tuple[NDArray[np.int16], list[str]]:
        """The codes of some rows, and the names of the values that most of them have, in order."""
        codes = np.asarray(self.codes)[rows]
        counts = np.bincount(codes, minlength=len(self.numbers))
        common = set(np.argsort(-counts, kind="stable")[:most].tolist())
        names = sorted(v for v, k in self.numbers.items() if k in common and counts[k])
        new = np.full(len(self.numbers), -1, np.int16)
        new[[self.numbers[name] for name in names]] = np.arange(len(names))
        return new[codes], names


def load(count: int | None = None, planes: int = 640, seed: int = 2013) -> Table:
    """Read the flights; all of them, or about so many, chosen at random.

    The planes that fly most often get columns of their own.
    """
    folder = flights.data_folder()
    hours, sky_codes, sky_names = read_sky(folder)
    features = {name: Codes() for name in FEATURES}
    days, late, sky = array("h"), array("b"), array("l")
    random = np.random.default_rng(seed)
    wanted = random.random(FLIGHTS) < (1 if count is None else count / FLIGHTS)
    archive = zipfile.ZipFile(folder / "flights.csv.zip")
    with archive, archive.open("flights.csv") as file:
        lines = io.TextIOWrapper(file, newline="")
        head = next(lines).strip().split(",")
        for flight in csv.DictReader(compress(lines, wanted), head):
            if flight["arr_delay"] == "NA":
                continue
            carrier, origin, place = flight["carrier"], flight["origin"], flight["dest"]
            day = date(int(flight["year"]), int(flight["month"]), int(flight["day"]))
            values = (
                *(origin, place, carrier, f"{origin} to {place}", f"{carrier} to {place}"),
                f"{day.weekday()} {DAYS[day.weekday()]} {int(flight['hour']):02}h",
                *(f"{day.month:02} {day:%B}", flight["tailnum"]),
            )
            for feature, value in zip(features.values(), values, strict=True):
                feature.append(value)
            days.append(day.timetuple().tm_yday)
            late.append(float(flight["arr_delay"]) >= LATE)
            sky.append(hours.get((origin, flight["time_hour"]), -1))

    held_out = random.permutation(365)[: flights.HELD_OUT_DAYS] + 1
    out = np.isin(days, held_out)
    rows = np.argsort(out, kind="stable")
    columns, names = [], {}
    for name, feature in features.items():
        codes, values = feature.finished(rows, planes if name == "plane" else len(rows))
        columns.append(codes)
        # The number in front of days and months is there for their order.
        ordered = name in ("hour of the week", "month")
        names[name] = [value.partition(" ")[2] if ordered else value for value in values]
    return Table(
        np.column_stack([*columns, sky_codes[np.asarray(sky)[rows]]]),
        names | sky_names,
        np.asarray(late, np.float64)[rows],
        int(np.sum(~out)),
    )


def read_sky(
    folder: Path,
) -> tuple[dict[tuple[str, str], int], NDArray[np.int16], dict[str, list[str]]]:
    """The weather by origin and hour: numbers of rows, ranges by rows, and the ranges' names.

    The last row is for hours of which nothing is known.
    """
    weather = flights.read_weather(folder)
    numbers = np.array(list(weather.values()))[:, list(SKY.values())]
    codes = np.full((len(numbers) + 1, len(SKY)), -1, np.int16)
    names = {}
    for k, name in enumerate(SKY):
        edges = np.quantile(np.unique(numbers[:, k]), np.arange(1, RANGES) / RANGES)
        codes[:-1, k] = np.searchsorted(edges, numbers[:, k])
        names[name] = [f"{name} {part} of {RANGES}" for part in range(1, RANGES + 1)]
    return {hour: row for row, hour in enumerate(weather)}, codes, names
