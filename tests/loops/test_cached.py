"""What is planned and compiled once, other processes find on disk."""

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from outcrop.process.cache import Cache

pytest.importorskip("numba")
pytest.importorskip("islpy")

NEST = """
import math
import outcrop as oc

FACTOR = 2

@oc.loops
def added(a, b, n):
    s = 0.0
    for i in range(1, n):
        s = s + math.sqrt(b[i, 0])
        for j in range(FACTOR, n):
            a[i, j] = FACTOR * a[i - 1, j] + a[i, j - 1] + s
"""

OWN = """
import numba
@numba.njit
def given(x):
    return x + 0.25
"""

# With "nothing is made", analysing or compiling anything is an error.
RUN = """
import sys
sys.path.insert(0, ".")
import nest, numpy as np, outcrop as oc
from numba.core.ccallback import CFunc
oc.config(memory="1MiB")
if sys.argv[1] == "nothing is made":
    sys.modules["outcrop.loops.loops"].Polyhedra = CFunc._compile_uncached = None
chance = np.random.default_rng(1)
a, b = chance.random((40, 40)), chance.random((40, 40))
expected = a.copy()
nest.added.__wrapped__(expected, b, 40)
with oc.create("a", a.shape, tile=16, overwrite=True) as A:
    A[...] = a
    plan = nest.added.plan(A, oc.asarray(b), 40)
    nest.added(A, oc.asarray(b), 40)
    assert (A.compute() == expected).all()
print(plan.tiles, plan.steps, *plan.dependences)
print([line for line in plan.explain().splitlines() if "line" in line])
"""


@pytest.fixture
def run(tmp_path: Path, loaded: Any) -> Any:
    def run(how: str, source: str = NEST, cache: Path = tmp_path / "cache") -> str:
        (tmp_path / "nest.py").write_text(source)
        environment = {
            **os.environ,
            "OUTCROP_CACHE": str(cache),
            # Files that are written again in the same second are not read again.
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        done = loaded.run(RUN, how, cwd=tmp_path, env=environment)
        assert done.returncode == 0, done.stderr
        return str(done.stdout)

    return run


def _kept(cache: Path, folder: str) -> list[Path]:
    return sorted((cache / folder).glob("*"))


def test_another_process_makes_nothing(tmp_path: Path, run: Any) -> None:
    cache = tmp_path / "cache"
    said = run("all is made")
    compiled = _kept(cache, "compiled")
    kept = [*_kept(cache, "loops"), *compiled]
    assert len(kept) == len(compiled) + 1
    # Elsewhere in its file, with other names of lines.
    moved = run("nothing is made", "\n\n" + NEST)
    assert moved.splitlines()[0] == said.splitlines()[0]
    assert "line 11: " in said
    assert "line 13: " in moved
    # Numbers from outside are a part of it; what is damaged is made anew, as it was.
    run("all is made", NEST.replace("FACTOR = 2", "FACTOR = 3"))
    assert len(_kept(cache, "loops")) == 2
    assert len(_kept(cache, "compiled")) == 2 * len(compiled)
    for number, path in enumerate(kept):
        whole = path.read_bytes()
        other = whole[:-9] + b"x" + whole[-8:]
        path.write_bytes(whole[: len(whole) // 2] if number % 2 else other)
    assert run("all is made") == said
    assert run("nothing is made") == said


def test_functions_of_the_users_are_compiled_anew(tmp_path: Path, run: Any) -> None:
    """Nobody knows what they depend on. Where nothing can be kept, nothing is."""
    source = OWN + NEST.replace("math.sqrt", "given")
    run("all is made", source)
    assert not _kept(tmp_path / "cache", "compiled")
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    run("all is made", source.replace("0.25", "0.5"), in_the_way)


def test_what_others_may_write_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTCROP_CACHE", str(tmp_path / "cache"))
    cache = Cache("code", 1000)
    assert cache.get("a") is None
    cache.put("a", b"content")
    assert cache.get("a") == b"content"
    (tmp_path / "cache" / "code").chmod(0o770)
    assert cache.get("a") is None
    cache.put("a", b"else")
    (tmp_path / "cache" / "code").chmod(0o700)
    assert cache.get("a") == b"content"


def test_it_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was not used for the longest time goes."""
    monkeypatch.setenv("OUTCROP_CACHE", str(tmp_path))
    cache = Cache("code", 1000)
    cache.put("large", bytes(600))
    for number in range(20):
        cache.put(str(number), bytes(100))
        assert cache.get("0") is not None
        held = sum(path.stat().st_size for path in _kept(tmp_path, "code"))
        assert held <= 1000
    assert cache.get("large") is None
    assert cache.get("1") is None
    assert cache.get("19") == bytes(100)


def test_writers_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTCROP_CACHE", str(tmp_path))
    cache = Cache("code", 10_000)
    cache.put("a", b"0" * 2000)
    found: list[bytes | None] = []

    def work(digit: bytes) -> None:
        for _ in range(50):
            cache.put("a", digit * 2000)
            found.append(cache.get("a"))

    threads = [threading.Thread(target=work, args=(b"%d" % k,)) for k in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert all(one is not None and len(one) == 2000 and len(set(one)) == 1 for one in found)
    assert len(_kept(tmp_path, "code")) == 1
