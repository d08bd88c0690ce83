"""What is no nest, or none of these arrays, is refused, by its line; and nothing is changed."""

import gc
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outcrop as oc

pytest.importorskip("numba")
pytest.importorskip("islpy")


def not_affine(a, b):  # type: ignore[no-untyped-def]
    for i in range(len(a)):
        for j in range(len(a)):
            b[i * j] = a[i]


def looked_up(a, b):  # type: ignore[no-untyped-def]
    for i in range(len(a)):
        b[int(a[i])] = 1.0


def outside(a, b):  # type: ignore[no-untyped-def]
    for i in range(len(a)):
        b[i] = a[i + 1]


def before(a, b):  # type: ignore[no-untyped-def]
    for i in range(len(a)):
        b[i] = t  # type: ignore[name-defined] # noqa: F821
        t = a[i]  # noqa: F841


def axes(a, b):  # type: ignore[no-untyped-def]
    for i in range(len(a)):
        b[i] = a[i, 0]


def fine(a, b):  # type: ignore[no-untyped-def]
    for i in range(len(a)):
        b[i] = a[i] + 1


def shifted(a, b):  # type: ignore[no-untyped-def]
    for i in range(1, len(a)):
        b[i] = a[i - 1]


def table(a, b):  # type: ignore[no-untyped-def]
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            b[i, j] = a[i, j]


def logical(a, b):  # type: ignore[no-untyped-def]
    for i in range(len(a)):
        b[i] = a[i] ^ 1


def unknown(a, b):  # type: ignore[no-untyped-def]
    for i in range(len(a)):
        b[i] = math.factorial(a[i])


def endless(a):  # type: ignore[no-untyped-def]
    while a[0] > 0:
        a[0] -= 1


def left_early(a):  # type: ignore[no-untyped-def]
    for i in range(len(a)):
        if a[i] > 0:
            break
        a[i] = 1


def returning(a):  # type: ignore[no-untyped-def]
    for i in range(len(a)):
        a[i] = 0
    return a


def returning_early(a):  # type: ignore[no-untyped-def]
    for i in range(len(a)):
        if i == 1:
            return
        a[i] = 0


def returning_before(a):  # type: ignore[no-untyped-def]
    a[0] = 0
    return
    a[1] = 0


def same_index(a):  # type: ignore[no-untyped-def]
    for i in range(3):
        for i in range(4):
            a[i] += 1
        a[i] += 1000


def calling(a):  # type: ignore[no-untyped-def]
    for i in range(len(a)):
        a[i] = hash(i)


def random(a):  # type: ignore[no-untyped-def]
    for i in range(len(a)):
        a[i] = np.random.rand()


def growing(a):  # type: ignore[no-untyped-def]
    for i in range(len(a)):
        for j in range(0, len(a), i):
            a[j] = 0


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (endless, "while a[0]"),
        (left_early, "break"),
        (returning, "return a"),
        (returning_early, "returns at its end: return"),
        (returning_before, "at its end: return"),
    ],
)
def test_other_statements_are_refused_at_once(function: Any, words: str) -> None:
    with pytest.raises(oc.UnsupportedError, match=r"test_errors\.py:\d+: a loop nest") as caught:
        oc.loops(function)
    assert words in str(caught.value)


def test_an_index_is_that_of_one_loop_at_a_time() -> None:
    with pytest.raises(oc.UnsupportedError, match="i is the index of a loop around this one"):
        oc.loops(same_index)


@pytest.mark.parametrize(
    ("function", "kind", "words"),
    [
        (not_affine, oc.UnsupportedError, "i * j is not affine"),
        (looked_up, oc.UnsupportedError, "int(a[i]) is not affine"),
        (before, oc.UnsupportedError, "t is not known here"),
        (axes, oc.UnsupportedError, "a has 1 axes"),
        (outside, oc.InvalidArgumentError, "a[50] is touched"),
        (
            logical,
            oc.InvalidTypeError,
            f"line {logical.__code__.co_firstlineno + 2}: Numba does not compile",
        ),
        (unknown, oc.InvalidTypeError, "Unknown attribute 'factorial' of type math"),
    ],
)
def test_what_is_wrong_is_named_by_its_line(function: Any, kind: Any, words: str) -> None:
    a, b = np.ones(50), np.zeros(50)
    with pytest.raises(kind) as caught:
        oc.loops(function)(a, b)
    assert words in str(caught.value)
    # Nothing of Numba's own workings.
    assert len(str(caught.value).splitlines()) == 1 and "File" not in str(caught.value)
    assert not b.any()


def test_calls_and_steps_are_looked_at_with_sizes() -> None:
    with pytest.raises(oc.UnsupportedError, match="hash is not known here"):
        oc.loops(calling)(np.ones(5))
    with pytest.raises(oc.UnsupportedError, match="random numbers depend"):
        oc.loops(random)(np.ones(5))
    with pytest.raises(oc.UnsupportedError, match="step of a loop is a constant"):
        oc.loops(growing)(np.ones(5))


def test_an_array_that_is_written_is_writable_and_no_other_argument(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    with oc.create(path, (50,), "f8") as a:
        a[...] = np.arange(50.0)
    with oc.open(path) as a, pytest.raises(oc.InvalidArgumentError, match=r"b is written: .*read-"):
        oc.loops(fine)(np.ones(50), a)
    with oc.open(path, "r+") as a:
        with pytest.raises(oc.InvalidArgumentError, match="b is written, and a is the same"):
            oc.loops(shifted)(a, a)
        np.testing.assert_array_equal(a.compute(), np.arange(50.0))
    memory = np.ones(50)
    with pytest.raises(oc.InvalidArgumentError, match="the same array, or a part"):
        oc.loops(shifted)(memory, memory[::-1])


def test_an_array_that_is_written_is_in_no_other_file_or_place(tmp_path: Path) -> None:
    path, other = tmp_path / "a.npy", tmp_path / "b.npy"
    np.save(path, np.zeros(50))
    other.hardlink_to(path)
    mapped = np.load(path, mmap_mode="r+")
    stored = oc.open(path, "r+")
    for a, b in (
        (np.load(path, mmap_mode="r"), mapped),
        (np.load(other, mmap_mode="r"), mapped[2:]),
        (oc.open(other), stored),
        (mapped, stored),
    ):
        with pytest.raises(oc.InvalidArgumentError, match="the same array, or a part"):
            oc.loops(shifted)(a, b)
    assert not np.load(path).any()
    twice = np.lib.stride_tricks.as_strided(np.zeros(50), (40, 3), (8, 8))
    with pytest.raises(oc.InvalidArgumentError, match="several elements in the same place"):
        oc.loops(table)(np.zeros((40, 3)), twice)
    # Any other order of axes, and gaps, are fine.
    nest = oc.loops(fine)
    nest(np.ones(20), room := np.zeros(41)[1::2][::-1])
    assert (room == 2).all()


def test_arguments_are_arrays_and_numbers() -> None:
    with pytest.raises(oc.InvalidTypeError, match="an array or a real number"):
        oc.loops(fine)("a", np.ones(3))
    with pytest.raises(oc.InvalidTypeError, match="missing a required argument"):
        oc.loops(fine)(np.ones(3))
    with pytest.raises(oc.UnsupportedError, match="float16"):
        oc.loops(fine)(np.ones(3, "f2"), np.ones(3))
    with pytest.raises(oc.InvalidArgumentError, match="order="):
        oc.loops(order="any")


def test_a_budget_that_is_too_small_is_refused_and_names_one_that_does(tmp_path: Path) -> None:
    arrays = []
    for p in "ab":
        with oc.create(tmp_path / f"{p}.zarr", (60000,), "f8", tile=60000) as array:
            array[...] = np.arange(60000.0)
        arrays.append(oc.open(tmp_path / f"{p}.zarr", "r+"))
    nest = oc.loops(fine)
    with oc.config(memory="256KiB"), pytest.raises(oc.BudgetError) as caught:
        nest(*arrays)
    with oc.config(memory=caught.value.needed):
        nest(*arrays)
    np.testing.assert_array_equal(arrays[1].compute(), np.arange(60000.0) + 1)


def test_a_failure_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [tmp_path / "a.zarr", tmp_path / "b.zarr"]
    for path in paths:
        with oc.create(path, (40000,), "f8", tile=4000) as array:
            array[...] = np.arange(40000.0)
    damaged = sorted(p for p in paths[0].rglob("*") if p.is_file() and p.stat().st_size > 30000)
    content = bytearray(damaged[-1].read_bytes())
    content[100] ^= 1
    damaged[-1].write_bytes(content)
    with oc.open(paths[0]) as a, oc.open(paths[1], "r+") as b:
        with oc.config(memory="256KiB"), pytest.raises(oc.CorruptArrayError):
            oc.loops(fine)(a, b)
        np.testing.assert_array_equal(b.compute(), np.arange(40000.0))
    with oc.open(paths[1]) as b:
        np.testing.assert_array_equal(b.compute(), np.arange(40000.0))


def partly(a, b):  # type: ignore[no-untyped-def]
    for i in range(len(a)):
        a[i] = 7
        if a[i] > 5:
            b[i, 0, 0] = 8


def test_what_cannot_be_written_is_refused_before_anything_changes(tmp_path: Path) -> None:
    oc.zeros((60,)).save(tmp_path / "a.zarr")
    oc.zeros((60, 64, 64)).save(tmp_path / "b.zarr", tile=(64, 32, 32))
    a, b = (oc.open(tmp_path / f"{p}.zarr", "r+") for p in "ab")
    part, nest = b[0:60, 3:9, 3:9], oc.loops(partly)
    with oc.config(memory="1MiB"):
        for call in (nest.plan, nest):
            with pytest.raises(oc.BudgetError, match="a part of a tile of b") as caught:
                call(a, part)
    assert not a.compute().any()
    with oc.config(memory=caught.value.needed):
        nest(a, part)
    assert (a.compute() == 7).all() and (b[:, 3, 3].compute() == 8).all()


def mixed(a, b):  # type: ignore[no-untyped-def]
    for i in range(2, 150):
        for j in range(2, 150):
            b[i, j] = b[j - 1, i] + a[i, j - 1]
            a[j, i] = a[i - 1, j - 1] + 1


def test_plans_count_what_is_held_until_it_is_written(tmp_path: Path) -> None:
    oc.asarray(np.ones((150, 150), "i1")).save(tmp_path / "a.zarr", tile=20, codecs="zstd")
    oc.asarray(np.ones((160, 160))).save(tmp_path / "b.zarr", tile=50)
    a, b = (oc.open(tmp_path / f"{p}.zarr", "r+") for p in "ab")
    nest = oc.loops(mixed)
    planned = 0
    for memory in range(256, 400, 8):
        with oc.config(memory=memory << 10, threads=2):
            try:
                plan = nest.plan(a, b)
            except oc.BudgetError:
                continue
            planned += 1
            nest(a, b)
            run = oc.last_run()
            assert run is not None
            assert run.peak_bytes <= plan.peak_bytes <= memory << 10
    assert planned > 5


def too_hard(a, x, y):  # type: ignore[no-untyped-def]
    n = a.shape[0]
    for i in range(n - 3, 1, -2):
        for j in range(2, n - 2):
            a[i - 1, j] = a[i, j]
            a[n - 1 - j, i] = a[j + 2, j - 1]
            y[i] = x[(3 * i + 1) % n] + a[i + 1, j]


def test_where_isl_gives_up_the_order_is_as_written() -> None:
    rng = np.random.default_rng(4)
    a, x = rng.random((50, 50)), rng.random(50)
    ours, theirs = (a.copy(), x, np.zeros(50)), (a.copy(), x, np.zeros(50))
    nest = oc.loops(too_hard)
    assert "the order is as written" in nest.plan(*ours).explain()
    nest(*ours)
    too_hard(*theirs)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one, other)


FACTOR = 2.0


def scaled(a):  # type: ignore[no-untyped-def]
    for i in range(len(a)):
        a[i] = FACTOR * ADDED_LATER  # type: ignore[name-defined] # noqa: F821


def test_names_from_outside_mean_what_they_do_at_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    nest, a = oc.loops(scaled), np.zeros(5)
    with pytest.raises(oc.UnsupportedError, match="ADDED_LATER is not known"):
        nest(a)
    for factor, added in ((2.0, 3.0), (5.0, 3.0), (5.0, 4), (2.0, 3.0)):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        monkeypatch.setitem(globals(), "ADDED_LATER", added)
        nest(a)
        assert (a == factor * added).all()

    def made() -> Any:
        @oc.loops
        def inner(a):  # type: ignore[no-untyped-def]
            for i in range(len(a)):
                a[i] = later

        later = 4.0
        return inner

    made()(a)
    assert (a == 4).all()


def test_what_is_not_compiled_leaves_arrays_to_others(tmp_path: Path) -> None:
    """Numba keeps its errors, and with them the frames that had the arrays."""
    b = oc.create(tmp_path / "b.zarr", (50,), tile=10)
    with pytest.raises(oc.InvalidTypeError, match="Numba does not compile"):
        oc.loops(unknown)(np.ones(50), b)
    b.close()
    del b
    gc.collect()
    oc.open(tmp_path / "b.zarr", "r+").close()
