"""Arrays of Dask's as ours, and ours as Dask's."""

from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import outcrop as oc
from outcrop.arrays.chunking import normalized_chunks

VALUES = np.random.default_rng(0).standard_normal((300, 200))


def test_of_dask() -> None:
    x = da.from_array(VALUES, chunks=(64, 50)) + 1
    made = oc.from_dask(x)
    assert isinstance(made, oc.Array)
    assert made.tile == (64, 50) or made.tile[0] >= 64
    np.testing.assert_array_equal(made.compute(), VALUES + 1)
    np.testing.assert_allclose((made.T @ made).compute(), (VALUES + 1).T @ (VALUES + 1))
    with pytest.raises(oc.InvalidArgumentError, match="compute_chunk_sizes"):
        oc.from_dask(x[x[:, 0] > 0])
    with pytest.raises(oc.UnsupportedError, match="mask"):
        oc.from_dask(da.ma.masked_greater(x, 0))
    for wrong in (VALUES, [1, 2], oc.asarray(VALUES)):
        with pytest.raises(oc.InvalidTypeError, match=r"dask\.array"):
            oc.from_dask(wrong)


@pytest.mark.parametrize("kind", ["zarr", "npy", "memory", "computed", "view"])
def test_to_dask(tmp_path: Path, kind: str) -> None:
    array, expected = oc.asarray(VALUES), VALUES
    if kind in ("zarr", "npy", "view"):
        array = array.save(tmp_path / f"a.{'npy' if kind == 'npy' else 'zarr'}")
    if kind == "computed":
        array, expected = array * 2 - 1, VALUES * 2 - 1
    if kind == "view":
        array, expected = array[::2, 5:].T, VALUES[::2, 5:].T
    x = array.to_dask()
    assert x.chunks == array.chunks
    for chunks in (None, 100, (50, -1), "auto", {0: 70}, "20KiB", ((expected.shape[0],), -1)):
        x = array.to_dask(chunks)
        assert x.shape == expected.shape
        np.testing.assert_array_equal(x.compute(), expected)
    np.testing.assert_array_equal(x[3:70, ::3].compute(), expected[3:70, ::3])
    np.testing.assert_allclose(x.mean(axis=0).compute(), expected.mean(0))
    # Nothing of it is of our budget any more.
    with oc.config(memory="1MiB"):
        blocks = [b.compute() for b in x.blocks.ravel()]
        assert sum(b.size for b in blocks) == expected.size


@pytest.mark.parametrize(
    "chunks", [0, -2, "much", (10,), (10, 10, 10), ((5, 5), -1), 1.5, {0: "x"}]
)
def test_chunks_that_make_no_sense(chunks: Any) -> None:
    with pytest.raises((oc.InvalidArgumentError, oc.InvalidTypeError)):
        oc.asarray(VALUES).to_dask(chunks)


def test_without_dask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "dask", None)
    monkeypatch.setitem(__import__("sys").modules, "dask.array", None)
    with pytest.raises(oc.UnsupportedError, match="pip install"):
        oc.asarray(VALUES).to_dask()


EXTENT = st.integers(0, 5000)


@given(
    shape=st.lists(EXTENT, max_size=3).map(tuple),
    given_=st.one_of(st.just("auto"), st.just(-1), st.integers(1, 9000), st.just("40KiB")),
    tile=st.integers(1, 300),
)
def test_chunks_make_up_the_array(shape: tuple[int, ...], given_: Any, tile: int) -> None:
    previous = tuple(
        (min(tile, n),) * (n // min(tile, n)) + ((n % min(tile, n),) if n % min(tile, n) else ())
        if n
        else (0,)
        for n in shape
    )
    made = normalized_chunks(given_, shape, np.dtype("f8"), limit=1 << 20, previous=previous)
    assert tuple(map(sum, made)) == shape
    largest = [max(one) for one in made]
    if given_ in ("auto", "40KiB"):
        limit = 1 << 20 if given_ == "auto" else 40 << 10
        whole = [largest[a] <= tile for a in range(len(shape))]
        assert int(np.prod(largest, dtype=object)) * 8 <= limit or all(whole)
        assert all(n % tile == 0 or n == shape[a] for a, n in enumerate(largest))
