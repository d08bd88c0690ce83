"""Settings from arguments and from the environment."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outcrop as oc
from outcrop import _native


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (1 << 20, 1 << 20),
        ("4194304", 4 << 20),
        ("512MiB", 512 << 20),
        ("2gib", 2 << 30),
        ("1.5GB", 1_500_000_000),
        ("64M", 64 << 20),
        (" 64 mb ", 64_000_000),
        ("0.0005T", (1 << 40) // 2000),
        ("8388608B", 8 << 20),
    ],
)
def test_sizes(text: Any, size: int) -> None:
    with oc.config(memory=text) as settings:
        assert settings.memory == oc.config().memory == size


@pytest.mark.parametrize(
    "text", ["", "GiB", "1 parsec", "-1", "1e9", "5iB", "1,5GB", 0, -5, "0", 10**30]
)
def test_bad_sizes(text: Any) -> None:
    before = repr(oc.config())
    with pytest.raises(oc.InvalidArgumentError, match="memory"):
        oc.config(memory=text)
    assert repr(oc.config()) == before


@pytest.mark.parametrize(
    "options",
    [{"memory": 1.5}, {"memory": True}, {"threads": 1.5}, {"threads": True}, {"scratch": 5}],
)
def test_bad_types(options: dict[str, Any]) -> None:
    with pytest.raises(oc.InvalidTypeError):
        oc.config(**options)


def test_restores_on_exit(tmp_path: Path) -> None:
    before = oc.config()
    with oc.config(memory="1GiB", threads=3, engine="threads", scratch=tmp_path):
        now = oc.config()
        assert (now.memory, now.threads, now.engine, now.scratch) == (
            1 << 30,
            3,
            "threads",
            tmp_path,
        )
        with oc.config(threads=1):
            assert oc.config().memory == 1 << 30
            assert oc.config().threads == 1
        assert oc.config().threads == 3
        assert "1.0 GiB" in repr(now)
    assert repr(oc.config()) == repr(before)


def test_bad_values(tmp_path: Path) -> None:
    for options in (
        {"threads": 0},
        {"engine": "aio"},
        {"scratch": tmp_path / "nowhere"},
    ):
        with pytest.raises(oc.InvalidArgumentError, match=next(iter(options))):
            oc.config(**options)  # type: ignore[arg-type]


def started(environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    script = "import outcrop as oc; print(oc.config())"
    return subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


def test_environment(tmp_path: Path) -> None:
    given = {
        "OUTCROP_MEMORY": "3GiB",
        "OUTCROP_SCRATCH": str(tmp_path),
        "OUTCROP_THREADS": "2",
        "OUTCROP_IO_ENGINE": "threads",
    }
    ended = started(given)
    assert ended.stdout.strip() == (
        f"<outcrop.Config memory 3.0 GiB, scratch {str(tmp_path)!r}, threads 2, engine threads>"
    )
    for name, value in (
        ("OUTCROP_MEMORY", "much"),
        ("OUTCROP_SCRATCH", str(tmp_path / "nowhere")),
        ("OUTCROP_THREADS", "two"),
        ("OUTCROP_IO_ENGINE", "aio"),
    ):
        ended = started({name: value})
        assert ended.returncode == 1
        assert f"environment variable {name}" in ended.stderr.splitlines()[-1]
        assert value in ended.stderr.splitlines()[-1]


def test_version() -> None:
    assert oc.__version__


def test_a_budget_beyond_the_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    before = oc.config().memory
    for memory in ("500TiB", 1 << 60):
        with pytest.raises(oc.InvalidArgumentError, match="cannot be kept"):
            oc.config(memory=memory)
    assert oc.config().memory == before
    arguments = [sys.executable, "-c", "import outcrop as oc; oc.config()"]
    environment = os.environ | {"OUTCROP_MEMORY": "500TiB"}
    done = subprocess.run(arguments, capture_output=True, text=True, env=environment)
    assert "environment variable OUTCROP_MEMORY: a budget of 500.0 TiB" in done.stderr
    arguments = [sys.executable, "-m", "outcrop", "--memory", "500TiB", "info", "."]
    done = subprocess.run(arguments, capture_output=True, text=True)
    assert done.returncode in (1, 2) and "cannot be kept" in done.stderr
    assert "Traceback" not in done.stderr


USES: list[Any] = [
    lambda A, Z, path: ((A + 1) @ (A + 1).T).save(path / "o.npy"),
    lambda A, Z, path: ((A + 1) @ (A + 1).T).save(path / "o.zarr"),
    lambda A, Z, path: oc.save({path / "o.npy": (A + 1) @ (A + 1).T, path / "z.zarr": A + 1}),
    lambda A, Z, path: oc.plan((A + 1) @ (A + 1).T, path / "o.npy"),
    lambda A, Z, path: ((A.T @ A).sum(0) + 0).compute(),
    lambda A, Z, path: oc.linalg.cholesky((A + 1) @ (A + 1).T).save(path / "o.zarr"),
    lambda A, Z, path: oc.reshape(A, -1, order="F").save(path / "o.npy"),
    lambda A, Z, path: Z.__setitem__(..., Z[::-1]),
    lambda A, Z, path: oc.asarray(Shaped(A), copy=True),
]


class Shaped:
    """An array of another library."""

    def __init__(self, array: oc.Array) -> None:
        self.array, self.shape, self.dtype = array, array.shape, array.dtype

    def __getitem__(self, key: Any) -> np.ndarray:
        return self.array[key].compute()


@pytest.mark.parametrize("use", range(len(USES)))
def test_a_scratch_directory_that_is_gone_is_named(use: int, tmp_path: Path) -> None:
    """A bare `FileNotFoundError` of ``shutil.disk_usage`` came out."""
    x = np.random.default_rng(0).random((1000, 1000))
    A = oc.asarray(x).save(tmp_path / "a.npy")
    Z = oc.asarray(x).save(tmp_path / "z.npy")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with oc.config(memory="3MiB", scratch=scratch):
        Z = oc.open(tmp_path / "z.npy", "r+")
        scratch.rmdir()
        with pytest.raises(
            oc.StorageError, match=r"scratch: .*not there.*oc\.config\(scratch="
        ) as e:
            USES[use](A, Z, tmp_path)
        assert str(scratch) in str(e.value)
        scratch.mkdir()
        USES[use](A, Z, tmp_path)
        Z.abort()


@pytest.mark.parametrize("when", ["entering", "leaving"])
def test_an_interrupt_while_settings_change(when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It came when the core had the new settings already: they stayed for good."""
    configure, budget = _native.configure, oc.config().memory
    ready = when == "entering"

    def interrupted(memory: int, *rest: Any) -> None:
        nonlocal ready
        configure(memory, *rest)
        if ready:
            ready = False
            raise KeyboardInterrupt

    monkeypatch.setattr(_native, "configure", interrupted)
    with pytest.raises(KeyboardInterrupt), oc.config(memory="3MiB"):
        assert when == "leaving"
        ready = True
    assert oc.config().memory == _native.status()["memory"] == budget
