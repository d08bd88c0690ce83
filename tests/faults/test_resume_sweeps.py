"""Sweeps that are stopped go on from those that are done, to the same bits."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outcrop as oc
from outcrop.cli import main

pytest.importorskip("numba")

from outcrop.sweeps import resuming

KILLS = int(os.environ.get("OUTCROP_KILLS", "3"))
SEED = int(os.environ.get("OUTCROP_SEED", "0")) or random.SystemRandom().randrange(2**32)
N, SWEEPS = 300, 9

# Few sweeps are kept together.
PROGRAM = """
import os, sys, time
import outcrop as oc
from outcrop.sweeps import resuming
resuming._SECONDS, resuming._MOVING = 1e-6, 0.0
os.chdir(sys.argv[1])
oc.config(memory="2MiB", threads=2)
u, f = oc.open("u.zarr"), oc.open("f.npy")
v = oc.sweeps.gauss_seidel(u, f, sweeps=9)
oc.plan(v)
print("begun", flush=True)
v.save(sys.argv[2], overwrite=True, resume=True)
print("done", flush=True)
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(resuming, "_SECONDS", 1e-6)
    monkeypatch.setattr(resuming, "_MOVING", 0.0)
    with oc.config(memory="2MiB"):
        u, f = np.random.default_rng(1).random((2, N, N))
        oc.asarray(u).save("u.zarr", tile=50)
        oc.asarray(f).save("f.npy")
        yield tmp_path


def swept(sweeps: int = SWEEPS) -> oc.Array:
    result: oc.Array = oc.sweeps.gauss_seidel(oc.open("u.zarr"), oc.open("f.npy"), sweeps=sweeps)
    return result


def kept() -> int | None:
    try:
        found = json.loads(Path(".v.zarr.outcrop-resume/state.json").read_text())
    except FileNotFoundError:
        return None
    return int(found["done"])


def stopped_after(monkeypatch: pytest.MonkeyPatch, count: int, array: oc.Array) -> list[int]:
    """Save, and stop after some parts; gives how many sweeps each has had."""
    sweep, parts = resuming.ResumableSweeps._sweep, []

    def some(self: resuming.ResumableSweeps, sweeps: int, *rest: Any) -> None:
        if len(parts) == count:
            raise KeyboardInterrupt
        parts.append(sweeps)
        sweep(self, sweeps, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(resuming.ResumableSweeps, "_sweep", some)
        try:
            array.save("v.zarr", resume=True)
        except KeyboardInterrupt:
            assert len(parts) == count
    return parts


def test_kills(place: Path) -> None:
    expected = swept().compute()
    chance = random.Random(SEED)
    command = [sys.executable, "-c", PROGRAM, str(place), "v.zarr"]
    seen = set()
    longest = 0.0
    for _ in range(KILLS):
        before = kept() or 0
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "begun\n", f"seed {SEED}"
            begun = time.monotonic()
            if longest == 0:
                assert process.stdout.readline() == "done\n"
                longest = time.monotonic() - begun
                continue
            time.sleep(chance.uniform(0, longest))
            process.send_signal(signal.SIGKILL if chance.random() < 0.7 else signal.SIGINT)
        after = kept()
        # Either it got to its end, or not further back than it was.
        assert after is None or after >= before, f"seed {SEED}"
        seen.add(after)
    swept().save("v.zarr", overwrite=True, resume=True)
    np.testing.assert_array_equal(oc.open("v.zarr").compute(), expected, f"seed {SEED}")
    assert not [name for name in os.listdir() if name.startswith(".")]


def test_sweeps_that_are_done_are_not_done_again(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = swept().compute()
    first = stopped_after(monkeypatch, 3, swept())
    assert kept() == sum(first) == 3
    # More of them are the same sweeps, so far; with other memory and threads, too.
    with oc.config(memory="3MiB", threads=1):
        rest = stopped_after(monkeypatch, 100, swept())
    assert sum(rest) == SWEEPS - 3 - 1
    np.testing.assert_array_equal(oc.open("v.zarr").compute(), expected)
    assert kept() is None


def test_as_many_sweeps_as_there_are(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = swept(4).compute()
    stopped_after(monkeypatch, 4, swept())
    assert kept() == 4
    assert stopped_after(monkeypatch, 0, swept(4)) == []
    np.testing.assert_array_equal(oc.open("v.zarr").compute(), expected)
    assert kept() is None


def test_over_its_own_input(place: Path) -> None:
    expected = swept().compute()
    swept().save("u.zarr", overwrite=True, resume=True)
    np.testing.assert_array_equal(oc.open("u.zarr").compute(), expected)
    assert sorted(os.listdir()) == ["f.npy", "u.zarr"]


def test_other_work_is_not_gone_on_with(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    u, f = oc.open("u.zarr"), oc.open("f.npy")
    stopped_after(monkeypatch, 5, swept())
    for other in (oc.sweeps.sor(u, f, 1.5, sweeps=9), oc.sweeps.jacobi(u, f, sweeps=9)):
        with pytest.raises(oc.InvalidArgumentError, match="another computation"):
            other.save("v.zarr", resume=True)
    with pytest.raises(oc.InvalidArgumentError, match="5 sweeps further, and 3 are asked for"):
        swept(3).save("v.zarr", resume=True)
    with oc.open("f.npy", "r+") as array:
        array[5, 5] = 3
    with pytest.raises(oc.InvalidArgumentError, match=r"another state.*resume=False removes"):
        swept().save("v.zarr", resume=True)
    assert kept() == 5
    expected = swept(3).compute()
    swept(3).save("v.zarr")
    assert kept() is None
    swept(3).save("v.zarr", overwrite=True, resume=True)
    np.testing.assert_array_equal(oc.open("v.zarr").compute(), expected)


def test_several_results_and_arrays_in_memory(place: Path) -> None:
    u, c = oc.open("u.zarr"), np.full((N, N), 0.25)
    results = oc.sweeps.wave_equation(u, u, c, sweeps=5)
    expected = [array.compute() for array in results]
    saved = oc.save(dict(zip(("now.zarr", "before.npy"), results, strict=True)), resume=True)
    for array, other in zip(saved.values(), expected, strict=True):
        np.testing.assert_array_equal(array.compute(), other)
    results[1].save("alone.zarr", resume=True)
    np.testing.assert_array_equal(oc.open("alone.zarr").compute(), expected[1])
    assert not [name for name in os.listdir() if name.startswith(".")]


def test_colours_in_turn(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    colours = oc.sweeps.red_black(oc.open("u.zarr"), oc.open("f.npy"), sweeps=3)
    expected = colours.compute()
    stopped_after(monkeypatch, 3, colours)
    assert kept() == 3
    colours.save("v.zarr", resume=True)
    np.testing.assert_array_equal(oc.open("v.zarr").compute(), expected)


def test_what_cannot_be_resumed(place: Path) -> None:
    u, f = oc.open("u.zarr"), oc.open("f.npy")
    with pytest.raises(oc.UnsupportedError, match=r"f: resume= .* save what is computed first"):
        oc.sweeps.jacobi(u, f + 1, sweeps=2).save("v.zarr", resume=True)
    with pytest.raises(oc.UnsupportedError, match="all of what one call of a sweep gives"):
        swept()[3:].save("v.zarr", resume=True)
    with pytest.raises(oc.UnsupportedError, match="one call of a sweep"):
        oc.save({"v.zarr": swept(), "w.zarr": swept()}, resume=True)
    with pytest.raises(oc.ArrayExistsError):
        swept().save("u.zarr", resume=True)
    assert sorted(os.listdir()) == ["f.npy", "u.zarr"]


def test_on_the_command_line(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = swept().compute()
    stopped_after(monkeypatch, 4, swept())
    line = "sweep gauss-seidel u.zarr f.npy v.zarr --sweeps 9 --resume"
    assert main(line.split()) == 0
    np.testing.assert_array_equal(oc.open("v.zarr").compute(), expected)
    assert kept() is None
