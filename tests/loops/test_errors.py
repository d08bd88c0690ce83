"""What is no nest, or none of these arrays, is refused, by its line; and nothing is changed."""

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


def logical(a, b):  # type: ignore[no-untyped-def]
    for i in range(len(a)):
        b[i] = a[i] ^ 1


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
    [(endless, "while a[0]"), (left_early, "break"), (returning, "return a")],
)
def test_other_statements_are_refused_at_once(function: Any, words: str) -> None:
    with pytest.raises(oc.UnsupportedError, match=r"test_errors\.py:\d+: a loop nest") as caught:
        oc.loops(function)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("function", "kind", "words"),
    [
        (not_affine, oc.UnsupportedError, "i * j is not affine"),
        (looked_up, oc.UnsupportedError, "int(a[i]) is not affine"),
        (before, oc.UnsupportedError, "t is not known here"),
        (axes, oc.UnsupportedError, "a has 1 axes"),
        (outside, oc.InvalidArgumentError, "a[50] is touched"),
        (logical, oc.InvalidTypeError, "Numba does not compile"),
    ],
)
def test_what_is_wrong_is_named_by_its_line(function: Any, kind: Any, words: str) -> None:
    a, b = np.ones(50), np.zeros(50)
    with pytest.raises(kind) as caught:
        oc.loops(function)(a, b)
    assert words in str(caught.value)
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
