"""``outcrop matmul``, ``cholesky``, ``solve`` and ``plan``: results, costs, manners, failures."""

import json
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import outcrop as oc

from .test_interrupt import wait_for
from .test_terminal import BAR, on_terminal, screen

Run = Callable[..., Any]
Matrices = dict[str, NDArray[Any]]


@pytest.fixture
def matrices(tmp_path: Path) -> Matrices:
    """Arrays in all formats, in the working directory of the command."""
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(150, 90)), rng.normal(size=(90, 120))
    complex_ = (a + 1j * rng.normal(size=a.shape)).astype(np.complex64)
    spd = a @ a.T + 150 * np.eye(150)
    bad = spd.copy()
    bad[100, 100] = -1
    values = {
        "a.zarr": a,
        "b.npy": b,
        "z.zarr": complex_,
        "spd.zarr": spd,
        "whole.zarr": spd,
        "bad.zarr": bad,
        "zeros.zarr": np.zeros((150, 150)),
        "v.npy": rng.normal(size=150),
        "many.zarr": rng.normal(size=(150, 7)),
        "cube.npy": np.zeros((2, 3, 4)),
    }
    for name, value in values.items():
        small = name.endswith(".zarr") and name != "whole.zarr"
        tile = {"tile": (40,) * value.ndim} if small else {}
        oc.asarray(value).save(tmp_path / name, **tile)
    (tmp_path / "b.raw").write_bytes(b"head" + b.astype(">f8").tobytes("F"))
    return values


def product(tmp_path: Path, length: int) -> list[str]:
    """A computation of 8 million operations times the length; operands are holes, without data."""
    for name in ("tall", "wide"):
        with open(tmp_path / name, "wb") as file:
            file.truncate(length * 2000 * 8)
    wide, tall = f"wide:shape=2000x{length},dtype=f8", f"tall:shape={length}x2000,dtype=f8"
    return ["--threads", "1", "matmul", wide, tall, "c.zarr"]


@pytest.fixture
def long(tmp_path: Path) -> list[str]:
    """Work that takes much longer than a second, and no disk."""
    return product(tmp_path, 50_000)


def close(path: Path, expected: NDArray[Any]) -> None:
    result = oc.open(path)
    assert result.dtype == expected.dtype
    precision = 1e-4 if expected.dtype.itemsize < 16 and expected.dtype.kind == "c" else 1e-10
    np.testing.assert_allclose(result.compute(), expected, rtol=precision, atol=precision * 100)


# -- results ------------------------------------------------------------------------------------


def test_products(outcrop: Run, matrices: Matrices, tmp_path: Path) -> None:
    a, b, z = (matrices[name] for name in ("a.zarr", "b.npy", "z.zarr"))
    done = outcrop("matmul", "a.zarr", "b.npy", "c")
    assert (done.stdout, done.stderr) == ("", "")
    close(tmp_path / "c", a @ b)
    assert oc.open(tmp_path / "c").format == "zarr"
    outcrop("matmul", "a.zarr", "a.zarr", "d.npy", "--trans-a")
    np.testing.assert_allclose(np.load(tmp_path / "d.npy"), a.T @ a)
    outcrop("matmul", "z.zarr", "z.zarr", "e.zarr", "--trans-b", "--tile", "64x32")
    close(tmp_path / "e.zarr", z @ z.T)
    assert oc.open(tmp_path / "e.zarr").tile == (64, 32)
    described = "b.raw:shape=90x120,dtype=>f8,offset=4,order=F"
    outcrop("matmul", described, "a.zarr", "f", "--trans-a", "--trans-b", "--format", "raw")
    product = np.fromfile(tmp_path / "f").reshape(120, 150)
    np.testing.assert_allclose(product, b.T @ a.T, atol=1e-9)


def test_a_vector(outcrop: Run, matrices: Matrices, tmp_path: Path) -> None:
    outcrop("matmul", "a.zarr", "v.npy", "c.npy", "--trans-a")
    close(tmp_path / "c.npy", matrices["a.zarr"].T @ matrices["v.npy"])


@pytest.mark.parametrize("suffix", [".zarr", ".npy"])
def test_factors(outcrop: Run, matrices: Matrices, tmp_path: Path, suffix: str) -> None:
    factor = np.linalg.cholesky(matrices["spd.zarr"])
    outcrop("cholesky", "spd.zarr", f"l{suffix}")
    outcrop("cholesky", "spd.zarr", f"u{suffix}", "--upper")
    close(tmp_path / f"l{suffix}", factor)
    close(tmp_path / f"u{suffix}", factor.T)
    outcrop("verify", f"l{suffix}")


@pytest.mark.parametrize("suffix", [".zarr", ".npy"])
def test_factors_with_pivots(outcrop: Run, matrices: Matrices, tmp_path: Path, suffix: str) -> None:
    a = matrices["a.zarr"]
    told = outcrop("lu", "a.zarr", f"l{suffix}", f"p{suffix}")
    assert (told.stdout, told.stderr) == ("", "")
    factors, pivots = (oc.open(tmp_path / f"{name}{suffix}").compute() for name in "lp")
    rows = a.copy()
    for i, k in enumerate(pivots):
        rows[[i, k]] = rows[[k, i]]
    product = (np.tril(factors, -1) + np.eye(*a.shape)) @ np.triu(factors[: a.shape[1]])
    np.testing.assert_allclose(product, rows, atol=1e-12)
    # Both are replaced, and both are planned.
    outcrop("lu", "spd.zarr", f"l{suffix}", f"p{suffix}", "--overwrite")
    facts = json.loads(outcrop("plan", "lu", "spd.zarr", "--json").stdout)
    assert "lu: " in outcrop("lu", "spd.zarr", "x", "y", "--plan").stdout
    assert facts["flops"] > 0
    outcrop("verify", f"l{suffix}", f"p{suffix}")


def test_inverses(outcrop: Run, matrices: Matrices, tmp_path: Path) -> None:
    outcrop("inv", "spd.zarr", "x.npy")
    close(tmp_path / "x.npy", np.linalg.inv(matrices["spd.zarr"]))
    assert "solve: " in outcrop("plan", "inv", "spd.zarr").stdout


@pytest.mark.parametrize("norm", ["1", "inf"])
def test_condition_numbers(outcrop: Run, matrices: Matrices, norm: str) -> None:
    told = outcrop("cond", "spd.zarr", "--norm", norm)
    expected = np.linalg.cond(matrices["spd.zarr"], float(norm))
    assert told.stderr == ""
    assert expected / 3 < float(told.stdout) < expected * 1.001


def test_the_plan_of_a_condition_number(outcrop: Run, matrices: Matrices) -> None:
    facts = json.loads(outcrop("plan", "cond", "spd.zarr", "--json").stdout)
    assert facts["bytes_read"] >= matrices["spd.zarr"].nbytes


@pytest.mark.parametrize("assumed", ["pos", "gen", "sym", "her"])
@pytest.mark.parametrize("given", ["v.npy", "many.zarr"])
def test_solutions(
    outcrop: Run, matrices: Matrices, tmp_path: Path, given: str, assumed: str
) -> None:
    # What stood there is replaced, also where it is of another kind.
    oc.asarray(np.zeros(3)).save(tmp_path / "x.zarr")
    outcrop("solve", "spd.zarr", given, "x.zarr", "--assume", assumed, "--overwrite")
    close(tmp_path / "x.zarr", np.linalg.solve(matrices["spd.zarr"], matrices[given]))
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


# -- plans --------------------------------------------------------------------------------------

# Of one tile each: otherwise ways of computing that are about as fast take turns.
PLANS = [
    ["matmul", "whole.zarr", "whole.zarr", "--trans-b"],
    ["cholesky", "whole.zarr", "--upper"],
    ["solve", "whole.zarr", "v.npy", "--assume", "pos"],
    ["solve", "whole.zarr", "v.npy"],
]


@pytest.mark.parametrize("job", PLANS, ids=" ".join)
def test_plans(outcrop: Run, matrices: Matrices, tmp_path: Path, job: list[str]) -> None:
    before = sorted(os.listdir(tmp_path))
    facts = json.loads(outcrop("plan", *job, "--json").stdout)
    assert facts["operation"] == job[0]
    assert facts["budget"] == 64 << 20
    # It also runs that way.
    operands = [word for word in job[1:] if "." in word]
    options = job[1 + len(operands) :]
    told = outcrop(job[0], *operands, "result", *options, "--plan")
    assert told.stderr == ""
    assert told.stdout.startswith(f"{job[0]}: ")
    for part in ("input", "output", "reads", "writes", "memory: ", "of 64.0 MiB", "about"):
        assert part in told.stdout
    assert sorted(os.listdir(tmp_path)) == before
    report = outcrop("--report", job[0], *operands, "result", *options).stderr
    assert re.search(rf"(?m)^read +{facts['bytes_read'] / 1024:.1f} KiB$", report)


def test_plans_without_refinement(outcrop: Run, matrices: Matrices, tmp_path: Path) -> None:
    """What depends on the numbers is not planned, nor computed for a plan."""
    before = sorted(os.listdir(tmp_path))
    for one in (
        ["plan", "solve", "spd.zarr", "v.npy"],
        ["solve", "spd.zarr", "v.npy", "x", "--plan"],
    ):
        told = outcrop(*one, "--assume", "sym").stdout
        assert "ldl_solve" in told
    assert sorted(os.listdir(tmp_path)) == before


def test_both_ways_to_ask_for_a_plan(outcrop: Run, matrices: Matrices) -> None:
    one = outcrop("plan", "matmul", "whole.zarr", "v.npy").stdout.splitlines()
    other = outcrop("matmul", "whole.zarr", "v.npy", "c", "--plan").stdout.splitlines()
    # How fast it will be is measured each time.
    assert one[:7] == other[:7]
    assert len(one) > 7


# -- manners ------------------------------------------------------------------------------------


def test_the_report(outcrop: Run, matrices: Matrices) -> None:
    command = ["solve", "spd.zarr", "v.npy", "x.raw", "--assume", "pos"]
    report = outcrop("--report", "--quiet", *command).stderr
    lines = {k.strip(): v for k, v in (line.split("  ", 1) for line in report.splitlines())}
    assert list(lines) == [
        "work", "read", "written", "seconds", "rate", "overlap", "kernels", "peak memory"
    ]  # fmt: skip
    assert lines["work"].strip() == "solved spd.zarr with v.npy to x.raw:shape=150,dtype=f8"
    assert lines["rate"].endswith("flop/s")
    assert re.fullmatch(r"\s*\d\.\d{3} of \d\.\d{3} seconds of .*", lines["overlap"])
    assert "potrf" in lines["kernels"]
    assert "of the budget" in lines["peak memory"]


def test_last_run(matrices: Matrices, tmp_path: Path) -> None:
    oc.open(tmp_path / "a.zarr").save(tmp_path / "copy.zarr")
    run = oc.last_run()
    assert run is not None
    assert (run.flops, run.io_seconds, run.kernels) == (0, 0, {})
    assert "flop/s" not in repr(run)
    oc.linalg.cholesky(oc.open(tmp_path / "spd.zarr")).save(tmp_path / "l.zarr")
    run = oc.last_run()
    assert run is not None
    assert run.flops == pytest.approx(150**3 / 3, rel=0.1)
    assert run.overlap <= run.io_seconds <= run.seconds
    assert {"potrf", "trsm", "herk"} <= set(run.kernels)
    assert all(seconds >= 0 for seconds in run.kernels.values())
    assert "flop/s" in repr(run)
    assert hash(run) == hash(run)


def test_a_timeline(outcrop: Run, matrices: Matrices, tmp_path: Path) -> None:
    outcrop("--timeline", "t.json", "matmul", "a.zarr", "b.npy", "c.npy")
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert {"gemm", "product"} & {event["name"] for event in events}


def test_a_bar_and_one_line(start: Run, tmp_path: Path) -> None:
    process, received = on_terminal(start, *product(tmp_path, 10_000))
    assert process.returncode == 0
    bars = [line for line in re.split(r"[\r\n]", received) if BAR in line]
    for part in ("c.zarr", "%", "flop/s", " left"):
        assert any(part in bar for bar in bars)
    assert not any("iB" in bar or "bytes" in bar for bar in bars)
    # The plan knows how long it takes before anything is done.
    assert " left" in bars[0]
    (line,) = screen(received)
    assert re.fullmatch(r"multiplied wide by tall to c\.zarr in [\d.:]+( s)?, [\d.]+ .flop/s", line)
    assert received.count("\x1b[?25l") == received.count("\x1b[?25h"), "the cursor is back"


@pytest.mark.parametrize("width", [70, 30])
def test_narrow_terminals(start: Run, long: list[str], width: int) -> None:
    _, received = on_terminal(start, *long, width=width, until="%")
    bars = [line for line in re.split(r"[\r\n]", received) if BAR in line]
    assert bars
    for bar in bars:
        assert len(re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", bar)) <= width


def test_quiet(start: Run, matrices: Matrices) -> None:
    process, received = on_terminal(start, "--quiet", "matmul", "a.zarr", "b.npy", "c.npy")
    assert (process.returncode, received) == (0, "")
    process, received = on_terminal(start, "matmul", "a.zarr", "b.npy", "d.npy")
    assert screen(received)[0].startswith("multiplied a.zarr by b.npy to d.npy in ")


# -- failures -----------------------------------------------------------------------------------

USAGE = [
    (["cholesky", "spd.zarr", "l", "--resume", "--plan"], "without --resume"),
    (["lu", "spd.zarr", "l", "p", "--resume", "--plan"], "without --resume"),
    (["matmul", "a.zarr", "b.npy"], "missing argument 'C'"),
    (["matmul", "a.zarr", "b.npy", "c.h5"], "is the name of an HDF5 file"),
    (["matmul", "a.zarr", "b.npy", "c.npy", "--tile", "3x3"], "--tile is for Zarr arrays"),
    (["matmul", "a.zarr", "b.npy", "c.raw:shape=3,dtype=f8"], "only what is read is described"),
    (["plan", "matmul", "a.zarr", "b.npy", "--quiet"], "outcrop --quiet plan matmul ..."),
]
FAILURES = [
    (["matmul", "a.zarr", "a.zarr", "c"], "(150, 90) and (150, 90) do not match"),
    (["matmul", "cube.npy", "a.zarr", "c"], "do not match"),
    (["matmul", "a.zarr", "b.npy", "v.npy"], "v.npy: exists already"),
    (["matmul", "a.zarr", "b.npy", "c", "--tile", "3x3x3"], "different numbers of dimensions"),
    (["matmul", "a.zarr", "b.npy", "b.npy", "--overwrite"], "is what matmul reads"),
    (["cholesky", "a.zarr", "l"], "not square"),
    (["cholesky", "bad.zarr", "l.npy"], "not positive definite"),
    (["cholesky", "bad.zarr", "v.npy", "--overwrite"], "not positive definite"),
    (["cholesky", "bad.zarr", "many.zarr", "--overwrite"], "not positive definite"),
    (["solve", "bad.zarr", "v.npy", "x", "--assume", "pos"], "leading minor of order 101"),
    (["solve", "zeros.zarr", "v.npy", "x"], "pivot 1, counted from 1, is exactly zero in float64"),
    (["inv", "a.zarr", "x"], "not square"),
    (["lu", "cube.npy", "l", "p"], "two axes"),
    (["cond", "a.zarr"], "not square"),
    (["lu", "spd.zarr", "l", "v.npy"], "v.npy: exists already"),
    (["solve", "spd.zarr", "b.npy", "x", "--assume", "pos"], "do not fit"),
    (["plan", "solve", "spd.zarr", "b.npy"], "do not fit"),
    (["--memory", "300KiB", "cholesky", "whole.zarr", "l"], "least that works"),
    (["--memory", "256KiB", "plan", "matmul", "whole.zarr", "whole.zarr"], "least that works"),
    (["--timeline", "none/t", "matmul", "a.zarr", "b.npy", "c"], "cannot make the timeline"),
    (["--timeline", "b.npy", "matmul", "a.zarr", "b.npy", "c"], "record the timeline elsewhere"),
    (["--timeline", "c", "matmul", "a.zarr", "b.npy", "c"], "record the timeline elsewhere"),
]


def contents(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def check(outcrop: Run, tmp_path: Path, arguments: list[str], message: str, status: int) -> None:
    before = contents(tmp_path)
    done = outcrop(*arguments, status=status)
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("outcrop: error: ")
    assert message in done.stderr
    assert contents(tmp_path) == before


@pytest.mark.parametrize(("arguments", "message"), USAGE, ids=lambda v: None)
def test_mistakes(
    outcrop: Run, matrices: Matrices, tmp_path: Path, arguments: list[str], message: str
) -> None:
    check(outcrop, tmp_path, arguments, message, 2)


@pytest.mark.parametrize(("arguments", "message"), FAILURES, ids=lambda v: None)
def test_failures(
    outcrop: Run, matrices: Matrices, tmp_path: Path, arguments: list[str], message: str
) -> None:
    check(outcrop, tmp_path, arguments, message, 1)


def test_help(outcrop: Run) -> None:
    assert "--overwrite" in outcrop("matmul", "--help").stdout
    assert "Commands:" in outcrop("plan", status=2).stderr


# -- interrupts ---------------------------------------------------------------------------------


def test_a_signal(start: Run, long: list[str], tmp_path: Path) -> None:
    before = sorted(os.listdir(tmp_path))
    process = start(*long)
    wait_for(lambda: (tmp_path / ".c.zarr.outcrop-new").exists())
    time.sleep(0.2)
    sent = time.monotonic()
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=30)
    assert time.monotonic() - sent < 1.5
    assert process.returncode == 128 + signal.SIGTERM
    assert err.count(b"\n") == 1
    assert sorted(os.listdir(tmp_path)) == before


def test_ctrl_c_on_a_terminal(start: Run, long: list[str], tmp_path: Path) -> None:
    before = sorted(os.listdir(tmp_path))
    process, received = on_terminal(start, *long, until="%")
    assert process.returncode == 130
    assert screen(received) == ["outcrop: interrupted"]
    assert received.count("\x1b[?25l") == received.count("\x1b[?25h")
    assert sorted(os.listdir(tmp_path)) == before
