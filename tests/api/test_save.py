"""`save` writes what `compute` gives, from anything to anything."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import outcrop as oc

PLAIN = np.arange(15 * 13, dtype=np.float32).reshape(15, 13)


def stored(path: Path) -> oc.Array:
    return oc.asarray(PLAIN).save(path / "source.zarr", tile=(4, 5))


SOURCES: list[Callable[[Path], oc.Array]] = [
    stored,
    lambda path: oc.asarray(PLAIN),
    lambda path: oc.fromfunction(lambda i, j: 13 * i + j, (15, 13), "float32"),
]
KEYS = [
    ...,
    np.s_[3:11, 2:9],
    np.s_[::-2, 1::3],
    np.s_[None, 4, :, None],
    np.s_[2:2],
    np.s_[3, 4],
]


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("key", KEYS, ids=str)
@pytest.mark.parametrize("name", ["out.zarr", "out.npy", "out.raw"])
def test_any_source_any_view_any_format(
    source: Callable[[Path], oc.Array], key: object, name: str, tmp_path: Path
) -> None:
    result = source(tmp_path)[key].save(tmp_path / name)
    np.testing.assert_array_equal(result.compute(), PLAIN[key])
    assert result.shape == np.shape(PLAIN[key])
    assert not result.writable
    assert result.path == tmp_path / name
    if name == "out.npy":
        np.testing.assert_array_equal(np.load(tmp_path / name), PLAIN[key])
    run = oc.last_run()
    assert run is not None
    assert run.operation in repr(run)


def test_options(tmp_path: Path) -> None:
    result = oc.asarray(PLAIN).save(tmp_path / "a", tile=6)
    assert result.tile == (6, 6)
    result = oc.asarray(PLAIN).save(tmp_path / "b", format="npy", order="F")
    assert result.layout == "column-major"
    with pytest.raises(oc.ArrayExistsError):
        oc.asarray(PLAIN).save(tmp_path / "b")
    calls: list[tuple[int, int]] = []
    oc.asarray(PLAIN).save(
        tmp_path / "b",
        format="npy",
        overwrite=True,
        progress=lambda done, total: calls.append((done, total)),
    )
    assert all(0 <= done <= total for done, total in calls)


def test_attributes_go_along(tmp_path: Path) -> None:
    with oc.create(tmp_path / "a", (4, 4), attributes={"unit": "K"}) as array:
        array[...] = 1
    source = oc.open(tmp_path / "a")
    assert source.save(tmp_path / "b").attributes == {"unit": "K"}
    assert source[::2].save(tmp_path / "c").attributes == {"unit": "K"}
    assert source.save(tmp_path / "d.npy").attributes == {}


def test_zarr_python_reads_the_result(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    oc.asarray(PLAIN).save(tmp_path / "a.zarr", tile=(4, 5))
    array = zarr.open_array(tmp_path / "a.zarr", mode="r")
    assert array.chunks == (4, 5)
    np.testing.assert_array_equal(array[...], PLAIN)


def test_a_result_larger_than_the_budget(tmp_path: Path) -> None:
    with oc.config(memory="64MiB"):
        array = oc.fromfunction(lambda i, j: i ^ j, (4096, 4096), "int64")
        result = array.save(tmp_path / "a.zarr", tile=512)
        reverse = result[::-1].save(tmp_path / "b.npy")
        for where, block in reverse[:, 3::1001].tiles():
            np.testing.assert_array_equal(block, array[::-1][:, 3::1001][where].compute())


@pytest.mark.parametrize("suffix", [".npy", ".zarr", ".raw"])
def test_names_that_are_no_characters(tmp_path: Path, suffix: str) -> None:
    """As of files from disks of other systems: nothing could be computed with them."""
    here = tmp_path / os.fsdecode(b"d\xe4ten")
    here.mkdir()
    name, other = (here / os.fsdecode(b"gr\xf6\xdfe%d" % i + suffix.encode()) for i in (1, 2))
    values = np.arange(12.0).reshape(3, 4)
    A = oc.asarray(values).save(name)
    plan = oc.plan(A + 1, other)
    assert "gr??e" in plan.explain()
    np.testing.assert_array_equal((A + 1).save(other).compute(), values + 1)
    np.testing.assert_array_equal((A @ A.T).compute(), values @ values.T)
    oc.plan(A.T, here / os.fsdecode(b"\xff.npy"))
    np.testing.assert_array_equal(A.T.save(here / os.fsdecode(b"\xff.npy")).compute(), values.T)
