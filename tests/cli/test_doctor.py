"""``outcrop doctor`` measures a disk and keeps the profile."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Run = Callable[..., Any]


def test_a_table(outcrop: Run, tmp_path: Path) -> None:
    done = outcrop("doctor", "--quick", env={"OUTCROP_CACHE": str(tmp_path / "cache")})
    for part in ("engine", "direct I/O", "reads", "writes", "depth", "MiB", "/s"):
        assert part in done.stdout
    kept = list((tmp_path / "cache").glob("profiles/*.json"))
    assert len(kept) == 1
    assert str(kept[0]) in done.stdout
    assert not list(tmp_path.glob(".*"))


def test_json(outcrop: Run, tmp_path: Path) -> None:
    profile = json.loads(outcrop("doctor", "--quick", "--json", tmp_path).stdout)
    assert profile["engine"] in ("uring", "threads")
    assert {"request", "depth", "bytes_per_second"} <= profile["reads"][0].keys()


def test_a_chosen_engine(outcrop: Run) -> None:
    out = outcrop("--engine", "threads", "doctor", "--quick").stdout
    assert "engine       threads" in out


def test_no_directory(outcrop: Run) -> None:
    done = outcrop("doctor", "nowhere", status=1)
    assert done.stderr.startswith("outcrop: error: nowhere")
