"""Elements that are attached: where they lie, and what becomes of what is changed."""

import gc
import os
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import outcrop as oc
from outcrop.errors import OutcropWarning

LAYOUTS: dict[str, dict[str, Any]] = {
    "default": {},
    "zstd": {"codecs": "zstd", "tile": (70, 33)},
    "blosc": {"codecs": "blosc", "tile": (41, 90)},
    "C": {"format": "npy"},
    "F": {"format": "npy", "order": "F"},
}
SHAPE = (300, 200)


def _address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def _made(path: Path, layout: str, dtype: str = "float64", shape: tuple[int, ...] = SHAPE) -> Any:
    elements = (np.random.default_rng(1).random(shape) * 100).astype(dtype)
    oc.asarray(elements).save(path, **LAYOUTS[layout])
    return elements


@pytest.mark.parametrize("memory", ["2MiB", "64MiB"])
@pytest.mark.parametrize("dtype", ["bool", "int16", "float32", "complex128"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_is_changed_is_written_back(
    tmp_path: Path, layout: str, dtype: str, memory: str
) -> None:
    expected = _made(tmp_path / "a", layout, dtype)
    with oc.config(memory=memory), oc.open(tmp_path / "a", "r+") as A:
        with A.attach[7:80, 3:150] as box:
            np.testing.assert_array_equal(box, expected[7:80, 3:150])
            box[1:, ::2] = box[:-1, ::2]
        with A[100:].T.attach[::-1, 5] as turned:
            turned[:3] = 1
        with A.attach[2, 3] as one:
            assert one.shape == ()
            one[...] = 1
        with A.attach[4, None, :0] as none:
            assert none.shape == (1, 0)
    expected[8:80, 3:150:2] = expected[7:79, 3:150:2].copy()
    expected[105, -3:] = expected[2, 3] = 1
    np.testing.assert_array_equal(oc.open(tmp_path / "a").compute(), expected)


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    layout=st.sampled_from(sorted(LAYOUTS)),
    boxes=st.lists(
        st.tuples(*[st.tuples(st.integers(0, n - 1), st.integers(0, n // 2)) for n in (60, 40)]),
        min_size=1,
        max_size=6,
    ),
)
def test_any_boxes_one_in_another(tmp_path: Path, layout: str, boxes: list[Any]) -> None:
    """Each is attached while those before are, where that is possible."""
    path = tmp_path / "a"
    oc.create(path, (60, 40), "int32", overwrite=True, **LAYOUTS[layout]).close()
    expected = np.zeros((60, 40), "int32")
    with oc.open(path, "r+") as A:
        held: list[Any] = []
        for number, ((i, m), (j, n)) in enumerate(boxes, 1):
            key = np.s_[i : i + m, j : j + n]
            try:
                held.append(A.attach[key])
            except oc.ArrayBusyError:
                while held:
                    held.pop(number % len(held)).release()
                held.append(A.attach[key])
            np.testing.assert_array_equal(held[-1].array, expected[key])
            held[-1].array[...] = expected[key] = number
        while held:
            held.pop(0).release()
    np.testing.assert_array_equal(oc.open(path).compute(), expected)


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_the_address_stays_while_attached(tmp_path: Path, mode: str) -> None:
    _made(tmp_path / "a", "zstd")
    with oc.open(tmp_path / "a", mode) as A:
        with A.attach[10:50] as outer:
            for _ in range(3):
                with A.attach[10:50] as same, A.T.attach[4:, 20:30] as part:
                    assert _address(same) == _address(outer)
                    assert _address(part) == _address(outer[10:, 4:])
            assert outer.flags.writeable == (mode == "r+")
            held = A.attach[10:50]
        # Counted: this was not the last.
        with A.attach[10:50] as same:
            assert _address(same) == _address(held.array)
        held.release()
        held.release()
        assert held.is_released
        assert not held.array.flags.writeable


def test_they_count_to_the_budget(tmp_path: Path) -> None:
    """What is refused names the least, with which everything goes, writing back included."""
    for layout in LAYOUTS:
        path = tmp_path / layout
        expected = _made(path, layout, shape=(900, 300))
        for rows in (slice(3, 800), slice(0, 900)):
            with oc.config(memory="1MiB"), oc.open(path, "r+") as A:
                with pytest.raises(oc.BudgetError) as caught:
                    A.attach[rows]
                assert caught.value.needed is not None
                with oc.config(memory=caught.value.needed), A.attach[rows] as box:
                    box += 1
                    with pytest.raises(oc.BudgetError):
                        oc.zeros((3600, 300)).compute()
                expected[rows] += 1
                del box
            np.testing.assert_array_equal(oc.open(path).compute(), expected)


def test_small_ones_count_too(tmp_path: Path) -> None:
    _made(tmp_path / "a", "C", shape=(900, 300))
    with oc.config(memory="2MiB"), oc.open(tmp_path / "a") as A:
        held = []
        with pytest.raises(oc.BudgetError):
            for i in range(900):
                held.append(A.attach[i])
        assert 300 < len(held) < 512
        for one in held:
            one.release()
        with A.attach[:300]:
            pass


@pytest.mark.parametrize("layout", ["default", "C"])
def test_an_exception_discards(tmp_path: Path, layout: str) -> None:
    expected = _made(tmp_path / "a", layout)
    with oc.open(tmp_path / "a", "r+") as A:

        def fail() -> None:
            with A.attach[5:10] as rows:
                rows[0] = 0
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            fail()
        np.testing.assert_array_equal(A.compute(), expected)
        held = A.attach[:2]
        held.array[...] = 0
        held.discard()
        with A.attach[7] as row:
            row += 1
    expected[7] += 1
    np.testing.assert_array_equal(oc.open(tmp_path / "a").compute(), expected)


def test_others_do_not_write_there(tmp_path: Path) -> None:
    """It would be overwritten by what is attached."""
    expected = _made(tmp_path / "a", "default")
    with oc.open(tmp_path / "a", "r+") as A:
        with A.attach[5:10, 50:] as box:
            for key in (np.s_[:], np.s_[9], [2, 7], np.s_[5, 50]):
                with pytest.raises(oc.ArrayBusyError, match=r"\[5:10, 50:200\]"):
                    A[key] = 1
            with pytest.raises(oc.ArrayBusyError, match="of which it has a part"):
                A.attach[9:12]
            A[10:12] = A[5, :50] = 3
            box[...] = 4
            # What it is so far.
            np.testing.assert_array_equal(A[6].compute(), expected[6])
        A[6] = 5
    expected[10:12] = expected[5, :50] = 3
    expected[5:10, 50:] = 4
    expected[6] = 5
    np.testing.assert_array_equal(oc.open(tmp_path / "a").compute(), expected)


def test_expressions_mean_what_was(tmp_path: Path) -> None:
    _made(tmp_path / "a", "default")
    with oc.open(tmp_path / "a", "r+") as A:
        total = A.sum()
        with A.attach[0] as row:
            row[...] = 0
            assert total.compute() > 0
        with pytest.raises(oc.StaleOperandError):
            total.compute()


def test_forgotten_ones_are_reported(tmp_path: Path) -> None:
    expected = _made(tmp_path / "a", "default")
    A = oc.open(tmp_path / "a", "r+")
    rows = A.attach[:2].array[1:]
    gc.collect()
    rows[...] = 7
    with pytest.warns(OutcropWarning, match=r"\[0:2, 0:200\].*never released"):
        del rows
        gc.collect()
    held = A.attach[4]
    held.array[...] = 8
    with pytest.warns(OutcropWarning, match="closed while"):
        A.close()
    assert held.is_released
    assert not held.array.flags.writeable
    held.release()
    expected[1], expected[4] = 7, 8
    np.testing.assert_array_equal(oc.open(tmp_path / "a").compute(), expected)
    A = oc.open(tmp_path / "a", "r+")
    held = A.attach[4]
    held.array[...] = expected[4] = 9
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(OutcropWarning):
            A.close()
    np.testing.assert_array_equal(oc.open(tmp_path / "a").compute(), expected)
    A = oc.open(tmp_path / "a", "r+")
    held = A.attach[4]
    held.array[...] = 10
    A.abort()
    np.testing.assert_array_equal(oc.open(tmp_path / "a").compute(), expected)


AT_THE_END = """
import sys
import outcrop as oc
A = oc.open(sys.argv[1], "r+")
rows = A.attach[:2].array
rows[...] = 7
if sys.argv[2] == "fails":
    raise ValueError
"""


@pytest.mark.parametrize("end", ["well", "fails"])
def test_the_end_of_the_interpreter(tmp_path: Path, loaded: Any, end: str) -> None:
    expected = _made(tmp_path / "a", "default")
    found = loaded.run(AT_THE_END, tmp_path / "a", end, cwd=tmp_path)
    if end == "well":
        assert "was attached, and" in found.stderr
        expected[:2] = 7
    np.testing.assert_array_equal(oc.open(tmp_path / "a").compute(), expected)


def test_a_child_leaves_it_alone(tmp_path: Path) -> None:
    expected = _made(tmp_path / "a", "C")
    with oc.open(tmp_path / "a", "r+") as A:
        held = A.attach[3]
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                with A.attach[3]:
                    pass
            except oc.ForkedProcessError:
                held.array[...] = 0
                held.__exit__(None, None, None)
                try:
                    held.release()
                except oc.ForkedProcessError:
                    status = 0
            os._exit(status)
        assert os.waitpid(pid, 0)[1] == 0
        np.testing.assert_array_equal(held.array, expected[3])
        held.release()
    np.testing.assert_array_equal(oc.open(tmp_path / "a").compute(), expected)


def test_threads_share_what_is_attached(tmp_path: Path) -> None:
    _made(tmp_path / "a", "zstd", "int64")
    with oc.open(tmp_path / "a", "r+") as A:
        A[...] = 0

        def work(column: int) -> None:
            for _ in range(50):
                with A.attach[10:20] as rows:
                    rows[:, column] += 1

        threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert (A[10:20, :8].compute() == 50).all()


def test_arrays_in_memory() -> None:
    elements = np.arange(12.0).reshape(3, 4)
    A = oc.asarray(elements, copy=False)
    total = A.sum()
    with A.attach[1:] as rows:
        rows[...] = 0
        assert elements.sum() == 66
    assert elements.sum() == 6
    assert total.compute() == 66


def test_what_cannot_be_attached(tmp_path: Path) -> None:
    _made(tmp_path / "a", "C")
    A = oc.open(tmp_path / "a")
    with pytest.raises(oc.UnsupportedError, match="steps of 1"):
        A.attach[::2]
    with pytest.raises(oc.UnsupportedError, match="what is computed"):
        (A + 1).attach[:]
    with pytest.raises(oc.UnsupportedError):
        A.attach[[1, 2]]
    with pytest.raises(oc.BoxIndexError):
        A.attach[300]
    A.close()
    with pytest.raises(oc.ClosedArrayError):
        A.attach[0]


def test_what_cannot_be_written_stays_attached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = _made(tmp_path / "a", "C")
    with oc.open(tmp_path / "a", "r+") as A:
        held = A.attach[3]
        held.array[...] = 1
        write = type(A._source).write
        monkeypatch.setattr(type(A._source), "write", _full)
        with pytest.raises(oc.StorageFullError):
            held.release()
        monkeypatch.setattr(type(A._source), "write", write)
        assert not held.is_released
        held.array[4] = 2
        held.release()
    expected[3], expected[3, 4] = 1, 2
    np.testing.assert_array_equal(oc.open(tmp_path / "a").compute(), expected)


def _full(*_: Any) -> None:
    raise oc.StorageFullError("no room")
