"""Functions that are called while something runs, and read arrays of ours themselves."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import outcrop as oc

N = 600


class Reading:
    """Another library's array, which reads one of ours."""

    shape, dtype, ndim = (N, N), np.dtype("f8"), 2

    def __init__(self, read: Callable[[Any], np.ndarray], chunks: tuple[int, int] | None) -> None:
        self.read = read
        if chunks:
            self.chunks = chunks

    def __getitem__(self, key: Any) -> np.ndarray:
        return self.read(key)


USES: dict[str, Callable[[oc.Array, Path], Any]] = {
    "copied": lambda s, d: s.save(d / "o.zarr", overwrite=True),
    "turned": lambda s, d: s.T.save(d / "o.npy", overwrite=True),
    "computed": lambda s, d: (s * 1).save(d / "o.zarr", overwrite=True),
    "reduced": lambda s, d: (s @ np.ones((N, 1))).compute(),
}
EXPECTED: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "copied": lambda x: x,
    "turned": lambda x: x.T,
    "computed": lambda x: x,
    "reduced": lambda x: x @ np.ones((N, 1)),
}


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> dict[str, oc.Array]:
    directory = tmp_path_factory.mktemp("stored")
    x = oc.asarray(np.random.default_rng(3).random((N, N)))
    return {
        ".npy": x.save(directory / "a.npy"),
        "default tiles": x.save(directory / "a.zarr"),
        "small tiles": x.save(directory / "b.zarr", tile=(64, 64)),
    }


@pytest.mark.parametrize("use", USES)
@settings(max_examples=8, deadline=None)
@given(
    layout=st.sampled_from([".npy", "default tiles", "small tiles"]),
    chunks=st.sampled_from([None, (50, N), (N, 30)]),
    memory=st.integers(2 << 18, 8 << 20),
)
def test_there_is_memory_for_what_is_read(
    stored: dict[str, oc.Array],
    tmp_path_factory: pytest.TempPathFactory,
    use: str,
    layout: str,
    chunks: tuple[int, int] | None,
    memory: int,
) -> None:
    """A movement left none: the function was refused, after 10 seconds, what it had been promised.

    What a function takes cannot be known before; a budget that is named as the least leads there.
    """
    a, directory = stored[layout], tmp_path_factory.mktemp("made")
    for _ in range(4):
        with oc.config(memory=memory):
            try:
                made = USES[use](oc.asarray(Reading(lambda k: a[k].compute(), chunks)), directory)
            except oc.BudgetError as error:
                assert error.needed > memory
                memory = error.needed
                continue
        assert np.allclose(np.asarray(made), EXPECTED[use](a.compute()))
        return
    pytest.fail(f"refused with {memory} bytes, too")


@pytest.mark.parametrize("use", USES)
def test_what_is_computed_inside_is_refused(
    stored: dict[str, oc.Array], tmp_path: Path, use: str
) -> None:
    """A movement waited for itself, for ever."""
    a = stored["small tiles"]
    inside = Reading(lambda key: (a * 2)[key].compute(), None)
    with (
        oc.config(memory="16MiB"),
        pytest.raises(oc.InvalidArgumentError, match="compute what it needs beforehand"),
    ):
        USES[use](oc.asarray(inside), tmp_path)


def test_many_threads_read_small_tiles_beside_a_run(
    stored: dict[str, oc.Array], tmp_path: Path
) -> None:
    """One that lost the race for room for a tile was refused, though there was room again."""
    a = stored["small tiles"]
    with oc.config(memory="600KiB", threads=4):
        for _ in range(8):
            made = USES["computed"](oc.asarray(Reading(lambda k: a[k].compute(), None)), tmp_path)
    assert np.array_equal(made.compute(), a.compute())
