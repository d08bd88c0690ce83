"""``outcrop timeline`` reads the record of a run, and draws it."""

import builtins
import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import outcrop as oc
from outcrop.cli import main
from outcrop.cli.app import group
from outcrop.errors import (
    ArrayExistsError,
    InvalidArgumentError,
    OutcropError,
    OutcropWarning,
    StorageError,
    UnsupportedError,
)
from outcrop.program import timeline as _timeline
from outcrop.program.timeline import read_timeline

Run = Callable[..., Any]
Event = tuple[int, int, str, float, float, int]

# Lane, thread, kernel, begin and end in microseconds, memory at the end.
FEW: list[Event] = [
    (1, 0, "load", 0, 300_000, 100),
    (0, 0, "gemm", 200_000, 500_000, 300),
    (0, 2, "trsm", 400_000, 600_000, 250),
    (2, 0, "store", 700_000, 900_000, 200),
    (0, 0, "gemm", 800_000, 1_000_000, 0),
]
NAMES = ("compute", "load", "store")


def line(event: Event) -> str:
    """An event as the engine writes it."""
    group, thread, name, begin, end, memory = event
    return (
        f'{{"ph":"X","pid":{group},"tid":{thread},"name":"{name}","ts":{begin:.3f},'
        f'"dur":{end - begin:.3f},"args":{{"tile":"C (3, 2)"}}}},\n'
        f'{{"ph":"C","pid":3,"name":"memory","ts":{end:.3f},"args":{{"bytes":{memory}}}}},\n'
    )


def record(events: list[Event]) -> str:
    head = '{"displayTimeUnit":"ms","traceEvents":[\n' + "".join(
        f'{{"ph":"M","pid":{at},"name":"process_name","args":{{"name":"{name}"}}}},\n'
        for at, name in enumerate(NAMES)
    )
    tail = '{"ph":"M","pid":3,"name":"process_name","args":{"name":"memory"}}]}\n'
    text = head + "".join(map(line, events)) + tail
    json.loads(text)
    return text


def busy_run(seed: int, count: int) -> list[Event]:
    """Threads that do one thing after the other."""
    random_ = random.Random(seed)
    free = {(group, thread): 0.0 for group, many in enumerate((3, 2, 1)) for thread in range(many)}
    events: list[Event] = []
    for _ in range(count):
        group, thread = min(free, key=lambda lane: free[lane])
        begin = round(free[group, thread] + random_.expovariate(1 / 400), 3)
        end = round(begin + random_.expovariate(1 / 900), 3)
        free[group, thread] = end
        name = random_.choice(("gemm", "trsm")) if group == 0 else NAMES[group]
        events.append((group, thread, name, begin, end, random_.randrange(1 << 30)))
    return sorted(events, key=lambda event: event[4])


@pytest.fixture
def few(tmp_path: Path) -> Path:
    path = tmp_path / "run.json"
    path.write_text(record(FEW))
    return path


def test_what_a_record_says(few: Path) -> None:
    run = read_timeline(str(few))
    assert (run.events, run.cut, run.seconds) == (5, None, 1.0)
    assert [(lane.group, lane.thread) for lane in run.lanes] == [
        ("compute", 0),
        ("compute", 1),
        ("compute", 2),
        ("load", 0),
        ("store", 0),
    ]
    assert run.kernels("compute") == pytest.approx({"gemm": 0.5, "trsm": 0.2})
    assert list(run.kernels("compute")) == ["gemm", "trsm"]
    assert run.busy(run.group("compute")) == pytest.approx(0.7 / 3)
    assert run.compute_busy == pytest.approx(0.6, abs=1e-4)
    assert run.io_busy == pytest.approx(0.5, abs=1e-4)
    assert run.both == pytest.approx(0.2, abs=1e-4)
    assert (run.peak, run.peak_at) == (300, 0.5)
    assert list(run.used(3)) == [100, 300, 250]
    lane = run.lanes[0]
    assert run.shares(lane, 5)["gemm"] == pytest.approx([0, 1, 0.5, 0, 1], abs=1e-3)
    assert list(run.starts(lane, 5)) == [0, 1, 0, 0, 1]
    assert run.shares(run.lanes[1], 5) == {}


@pytest.mark.parametrize("block", [1 << 20, 3000])
def test_sums_are_those_of_the_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    # Small blocks meet the end of the run late: columns double many times.
    monkeypatch.setattr(_timeline, "_BLOCK", block)
    events = busy_run(1, 3000)
    path = tmp_path / "run.json"
    path.write_text(record(events))
    run = read_timeline(str(path))
    end = max(event[4] for event in events)
    assert (run.events, run.cut) == (3000, None)
    assert run.seconds == pytest.approx(end / 1e6)

    moments = np.linspace(0, end, 200_000, endpoint=False)

    def active(groups: tuple[int, ...]) -> Any:
        result = np.zeros(moments.size, bool)
        for number, _, _, begin, stop, _ in events:
            if number in groups:
                result[slice(*np.searchsorted(moments, (begin, stop)))] = True
        return result

    computing, moving = active((0,)), active((1, 2))
    assert run.compute_busy == pytest.approx(computing.mean(), abs=2e-3)
    assert run.io_busy == pytest.approx(moving.mean(), abs=2e-3)
    assert run.both == pytest.approx((computing & moving).mean(), abs=2e-3)

    edges = np.linspace(0, end, 38)
    for lane in run.lanes:
        mine = [e for e in events if (NAMES[e[0]], e[1]) == (lane.group, lane.thread)]
        assert run.starts(lane, 37).sum() == len(mine)
        for name, shares in run.shares(lane, 37).items():
            spans = [(e[3], e[4]) for e in mine if e[2] == name]
            seconds = sum(stop - begin for begin, stop in spans) / 1e6
            assert lane.kernels[name] == pytest.approx(seconds)
            assert shares.sum() * run.seconds / 37 == pytest.approx(seconds)
            inside = sum(np.diff(np.clip(edges, begin, stop)) for begin, stop in spans)
            assert shares == pytest.approx(inside / (end / 37), abs=0.02)
    assert run.peak == max(event[5] for event in events) == run.memory.max()


def test_a_record_cut_anywhere(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    whole = record(FEW)
    path.write_text(whole)
    best = read_timeline(str(path))
    seen = set()
    for size in range(0, len(whole) - 1, 23):
        path.write_text(whole[:size])
        try:
            run = read_timeline(str(path))
        except InvalidArgumentError:
            assert size < whole.index('"X"') + 100
            continue
        seen.add(run.events)
        assert run.cut is not None or size == len(whole.rstrip())
        assert run.cut is None or abs(run.cut - whole[:size].count("\n")) <= 1
        assert run.seconds <= best.seconds
    assert seen == {1, 2, 3, 4, 5}


@pytest.mark.parametrize(
    "damage",
    [
        "\0" * 5000,
        "null,\n",
        "[],\n",
        '{"ph":"X"},\n',
        '{"ph":"X","pid":0,"tid":0,"name":"gemm","ts":-1,"dur":1},\n',
        '{"ph":"X","pid":0,"tid":0,"name":"gemm","ts":NaN,"dur":1},\n',
        '{"ph":"X","pid":0,"tid":0,"name":"gemm","ts":1,"dur":1e400},\n',
        '{"ph":"X","pid":0,"tid":1e9,"name":"gemm","ts":1,"dur":1},\n',
        '{"ph":"X","pid":0,"tid":0,"name":["gemm"],"ts":1,"dur":1},\n',
        '{"ph":"C","pid":3,"name":"memory","ts":1,"args":{"bytes":"all"}},\n',
    ],
)
def test_damage_ends_a_record(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "run.json"
    lines = record(FEW).splitlines(keepends=True)
    path.write_text("".join([*lines[:8], damage, *lines[8:]]))
    run = read_timeline(str(path))
    assert (run.events, run.cut, run.seconds) == (2, 9, 0.5)


def test_events_of_no_time(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(record([(0, 0, "gemm", 0, 0, 0)]))
    assert read_timeline(str(tmp_path / "run.json")).kernels("compute") == {"gemm": 0}
    assert draw(tmp_path / "run.json", tmp_path / "run.png") == (1600, 427)


def draw(source: Path, target: Path) -> tuple[int, int]:
    """Draw into a PNG file, and give its extents."""
    done = CliRunner().invoke(group, ["timeline", str(source), str(target)])
    assert done.exception is None, done.exception
    assert done.stdout.startswith(f"{target}: ")
    data = target.read_bytes()
    assert data.startswith(b"\x89PNG")
    return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")


def test_pictures(outcrop: Run, few: Path, tmp_path: Path) -> None:
    before = few.read_bytes()
    (tmp_path / "run.PNG").write_text("an older picture")
    # No display, and settings of somebody's own.
    (tmp_path / "matplotlibrc").write_text("text.usetex: True\nfigure.dpi: 20\n")
    done = outcrop("timeline", "--overwrite", "run.json", "run.PNG", env={"DISPLAY": ""})
    assert done.stdout == (
        "run.PNG: 1 s, compute busy 60 % (its 3 threads 23 %), I/O busy 50 %, both at once 20 %\n"
    )
    assert done.stderr == ""
    assert (tmp_path / "run.PNG").read_bytes().startswith(b"\x89PNG")
    assert few.read_bytes() == before


def test_svg(few: Path, tmp_path: Path) -> None:
    pictures = []
    for name in ("a.svg", "b.svg"):
        done = CliRunner().invoke(group, ["--quiet", "timeline", str(few), str(tmp_path / name)])
        assert (done.exception, done.output) == (None, "")
        pictures.append((tmp_path / name).read_bytes())
    assert b"<svg" in pictures[0]
    assert pictures[0] == pictures[1]


def test_pdf(few: Path, tmp_path: Path) -> None:
    pictures = []
    for name in ("a.pdf", "b.pdf"):
        done = CliRunner().invoke(group, ["timeline", str(few), str(tmp_path / name)])
        assert done.exception is None
        pictures.append((tmp_path / name).read_bytes())
    assert pictures[0].startswith(b"%PDF")
    assert pictures[0] == pictures[1]


def test_a_picture_that_is_there_is_replaced_if_asked_for(few: Path, tmp_path: Path) -> None:
    picture = tmp_path / "run.svg"
    picture.write_text("precious")
    error: OutcropError = failure(few, picture)
    assert isinstance(error, ArrayExistsError)
    assert "--overwrite" in str(error)
    # It is said before anything is read.
    assert isinstance(failure(tmp_path / "missing.json", picture), ArrayExistsError)
    assert picture.read_text() == "precious"
    done = CliRunner().invoke(group, ["timeline", "--overwrite", str(few), str(picture)])
    assert done.exception is None
    assert picture.read_text().lstrip().startswith("<?xml")
    assert {path.name for path in tmp_path.iterdir()} == {"run.json", "run.svg"}


@pytest.mark.parametrize("threads", [1, 40])
def test_any_number_of_lanes_and_kernels(tmp_path: Path, threads: int) -> None:
    names = ["gemm", "$\\alpha$", "漢字", "a" * 500, *(f"k{i}" for i in range(40))]
    events: list[Event] = [
        (i % 3, i % threads, names[i % 44].replace("\\", "'"), i * 10, i * 10 + 9, i)
        for i in range(500)
    ]
    path = tmp_path / "a $run_ of mine\udcff.json"
    path.write_text(record(events))
    width, height = draw(path, tmp_path / "run.png")
    assert width == 1600
    assert height < 4000


def test_what_is_idle_looks_idle(tmp_path: Path) -> None:
    from matplotlib.image import imread

    (tmp_path / "run.json").write_text(
        record([(0, 0, "gemm", 0, 5e5, 1), (1, 0, "load", 9e5, 1e6, 1)])
    )
    draw(tmp_path / "run.json", tmp_path / "run.png")
    picture = np.rint(255 * imread(tmp_path / "run.png")[..., :3])
    # The middle of the first lane.
    lane = picture[108 + 30, 136 : 1600 - 76]
    assert (lane[:693] == (0x00, 0x72, 0xB2)).all()
    assert (lane[695:] == (0xEB, 0xEB, 0xEE)).all()


def failure(*arguments: object) -> OutcropError:
    done = CliRunner().invoke(group, ["timeline", *map(str, arguments)])
    assert isinstance(done.exception, OutcropError), done.exception
    assert "\n" not in str(done.exception)
    return done.exception


def test_failures(few: Path, tmp_path: Path) -> None:
    picture = tmp_path / "run.png"
    source = tmp_path / "other.json"
    error: OutcropError = failure(source, picture)
    assert isinstance(error, StorageError)
    assert str(error) == f"{source}: No such file or directory"
    assert "a directory, not a file" in str(failure(tmp_path, picture))
    for text, message in {
        "": "is empty",
        "[1, 2]": "is not the record of a run",
        "\x89PNG\r\n": "is not the record of a run",
        "x" * (3 << 20): "is not the record of a run",
        record([]): "nothing happens in this record",
        record(FEW)[:45]: "nothing happens in this record",
    }.items():
        source.write_text(text)
        error = failure(source, picture)
        assert isinstance(error, InvalidArgumentError)
        assert message in str(error)
    for name in ("run.gif", "run", "run.json"):
        assert "a picture is a .svg, .png or .pdf file" in str(failure(few, tmp_path / name))
    for name in ("none/run.png", "run.json/run.png"):
        assert isinstance(failure(few, tmp_path / name), StorageError)
    assert not picture.exists()


def test_a_failure_is_one_line(outcrop: Run, few: Path) -> None:
    done = outcrop("timeline", "run.json", "none/run.png", status=1)
    assert done.stdout == ""
    assert done.stderr == "outcrop: error: none/run.png: No such file or directory\n"


def test_a_killed_run_is_drawn_as_far_as_it_goes(few: Path, tmp_path: Path) -> None:
    few.write_text(few.read_text()[:-300])
    with pytest.warns(OutcropWarning, match=r"ends early, in line 1\d: drawn are the first 0.9 s"):
        draw(few, tmp_path / "run.png")


def test_without_matplotlib(few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *arguments: Any, **options: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ModuleNotFoundError(name)
        return real(name, *arguments, **options)

    monkeypatch.delitem(sys.modules, "matplotlib.figure", raising=False)
    monkeypatch.setattr(builtins, "__import__", missing)
    error = failure(few, tmp_path / "run.png")
    assert isinstance(error, UnsupportedError)
    assert "pip install 'outcrop[plot]'" in str(error)


def swept(place: str, round_: int, begin: float, end: float) -> str:
    """A step of a sweep, as the engine writes it."""
    text = line((0, 0, "relax", begin, end, 0))
    return text.replace('"C (3, 2)"', f'"u {place}","round":{round_}')


def test_waves(tmp_path: Path) -> None:
    # Three sweeps along the second axis, one behind the other by two tiles.
    steps = []
    for t in range(14):
        for sweep in range(3):
            if 0 <= t - 2 * sweep < 10:
                for i in range(4):
                    begin = 1000.0 * t + 250 * i
                    steps.append(swept(f"({i}, {t - 2 * sweep})", sweep, begin, begin + 200))
    path = tmp_path / "run.json"
    path.write_text(record([]).replace("]}\n", "").rpartition('{"ph":"M"')[0] + "".join(steps))
    waves = read_timeline(str(path)).waves
    assert waves is not None
    assert (waves.axis, waves.tiles, waves.rounds) == (1, 10, 3)
    columns = waves.rows.shape[1] / (waves.seconds * 1e6)
    for t in range(14):
        at = int((1000.0 * t + 850) * columns)
        for sweep in range(3):
            if 0 <= t - 2 * sweep < 10:
                assert waves.rows[t - 2 * sweep, at] == sweep


def test_waves_of_many_tiles_take_no_more_memory(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    steps = [swept(f"({i},)", i % 7, 50.0 * i, 50.0 * i + 40) for i in range(5000)]
    path.write_text(record([]).replace("]}\n", "").rpartition('{"ph":"M"')[0] + "".join(steps))
    waves = read_timeline(str(path)).waves
    assert waves is not None
    assert (waves.axis, waves.tiles, waves.rounds) == (0, 5000, 7)
    rows, columns = waves.rows.shape
    assert rows <= 256 and columns <= 1024
    # A diagonal, however coarse.
    found = [np.flatnonzero(waves.rows[:, c] >= 0).mean() for c in range(columns - 1)]
    assert np.all(np.diff(found) >= 0)


def test_waves_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    u = oc.asarray(np.random.default_rng(2).random((320, 64))).save("u.zarr", tile=(16, 64))
    with oc.config(memory="1MiB", timeline="run.json"):
        oc.sweeps.jacobi(u, np.zeros(u.shape), sweeps=5).save("v.zarr")
    waves = read_timeline("run.json").waves
    assert waves is not None
    assert (waves.axis, waves.tiles, waves.rounds) == (0, 20, 5)
    assert main(["timeline", "run.json", "run.svg"]) == 0
    assert "tile of axis 0" in Path("run.svg").read_text()
    # Of runs without rounds there is no such picture.
    with oc.config(timeline="other.json"):
        (u + 1).save("w.zarr")
    assert read_timeline("other.json").waves is None
    assert main(["timeline", "other.json", "other.png"]) == 0


@pytest.mark.parametrize(
    "args", ['"tile":"u (1)","round":-1', '"tile":"u","round":1', '"tile":"u ()","round":1',
             '"round":1', '"tile":"u (-1,)","round":1', '"tile":5,"round":1',
             '"tile":"u (1)","round":"1"']
)  # fmt: skip
def test_rounds_that_make_no_sense(tmp_path: Path, args: str) -> None:
    path = tmp_path / "run.json"
    bad = line(FEW[-1]).replace('"tile":"C (3, 2)"', args)
    path.write_text(record(FEW[:-1]).replace("]}\n", "").rpartition('{"ph":"M"')[0] + bad)
    assert read_timeline(str(path)).cut is not None
