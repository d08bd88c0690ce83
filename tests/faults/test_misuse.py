"""What misuse must not cost: the regressions of an attack by a sceptical user."""

import os
import threading
from pathlib import Path

import numpy as np
import pytest

import outcrop as oc
from outcrop import _native


def test_a_change_of_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path led to another array after chdir, which was then changed instead."""
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    oc.asarray(np.ones(10)).save("x.zarr")
    oc.asarray(np.full(10, 2.0)).save("other/x.zarr")
    array = oc.open("x.zarr", "r+")
    new = oc.create("new.npy", 5)
    monkeypatch.chdir(tmp_path / "other")
    array[...] = 9
    new[...] = 3
    array.close()
    new.close()
    assert oc.open(tmp_path / "x.zarr").compute().tolist() == [9] * 10
    assert oc.open("x.zarr").compute().tolist() == [2] * 10
    assert np.load(tmp_path / "new.npy").tolist() == [3] * 5
    assert sorted(os.listdir(tmp_path)) == ["new.npy", "other", "x.zarr"]


def test_a_group_is_not_overwritten(tmp_path: Path) -> None:
    """overwrite=True on a Zarr group removed every array in it."""
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(tmp_path / "group.zarr", mode="w")
    group.create_array("a", shape=(3,), dtype="f8")
    with pytest.raises(oc.UnsupportedError, match="not an array"):
        oc.asarray(np.ones(3)).save(tmp_path / "group.zarr", overwrite=True)
    assert (tmp_path / "group.zarr" / "a" / "zarr.json").exists()


def test_nothing_is_put_into_an_array(tmp_path: Path) -> None:
    """A target inside an array's directory was accepted, and lost when the array was replaced."""
    array = oc.asarray(np.ones(3)).save(tmp_path / "a.zarr")
    for inside in ("b.zarr", "c/b.npy"):
        with pytest.raises(oc.UnsupportedError, match="inside the array"):
            array.save(tmp_path / "a.zarr" / inside)


def test_a_failed_assignment_is_not_kept(tmp_path: Path) -> None:
    """close() after an assignment that had failed half-way made half of it visible."""
    oc.asarray(np.ones((40, 40))).save(tmp_path / "a.zarr", tile=10)
    array = oc.open(tmp_path / "a.zarr", "r+")
    _native.inject_faults("write:5:enospc:always")
    try:
        with pytest.raises(oc.StorageFullError):
            array[...] = 7
    finally:
        _native.inject_faults(None)
    with pytest.raises(oc.StorageError, match="nothing that was written"):
        array.close()
    again = oc.open(tmp_path / "a.zarr")
    assert again.compute().tolist() == np.ones((40, 40)).tolist()
    assert sorted(p.name for p in (tmp_path / "a.zarr").iterdir()) == [
        ".outcrop-index",
        "c",
        "zarr.json",
    ]


def test_what_a_writer_has_open_is_not_replaced(tmp_path: Path) -> None:
    """Replacing it let the writer's close() mix its tiles into the new array."""
    oc.asarray(np.ones(30)).save(tmp_path / "a.zarr", tile=10)
    with oc.open(tmp_path / "a.zarr", "r+") as array:
        array[:10] = -1
        with pytest.raises(oc.ArrayBusyError, match="process"):
            oc.asarray(np.zeros(30)).save(tmp_path / "a.zarr", overwrite=True)
    assert oc.open(tmp_path / "a.zarr").compute().sum() == 10


@pytest.mark.parametrize("suffix", ["npy", "raw", "zarr"])
def test_a_box_that_ends_inside_a_tile(tmp_path: Path, suffix: str) -> None:
    """Such a box could not be saved to npy or raw, for want of staging memory at any budget."""
    values = np.arange(35 * 27.0).reshape(35, 27)
    array = oc.asarray(values).save(tmp_path / "a.zarr", tile=10)
    for i, key in enumerate([np.s_[:2], np.s_[:10, :4], np.s_[:20, :20], np.s_[10:35, 20:27]]):
        saved = array[key].save(tmp_path / f"{i}.{suffix}")
        np.testing.assert_array_equal(saved.compute(), values[key])


def test_lawful_changes_can_be_accepted(tmp_path: Path) -> None:
    """After zarr-python had resized an array, nothing could open it, verify --accept included."""
    zarr = pytest.importorskip("zarr")
    oc.asarray(np.ones((20, 20))).save(tmp_path / "a.zarr", tile=10)
    zarr.open_array(tmp_path / "a.zarr", mode="r+").resize((20, 10))
    with pytest.raises(oc.CorruptArrayError):
        oc.open(tmp_path / "a.zarr")
    store = _native.open(str(tmp_path / "a.zarr"), "accept", None, None, None, 0, "C")
    assert store.verify(True, None) == []
    assert oc.open(tmp_path / "a.zarr").compute().tolist() == np.ones((20, 10)).tolist()


def test_long_names(tmp_path: Path) -> None:
    """The name under which an array is built was too long where its own just fits."""
    name = "a" * 250 + ".npy"
    oc.asarray(np.ones(3)).save(tmp_path / name)
    assert os.listdir(tmp_path) == [name]


def test_threads_share_an_array_and_a_small_budget(tmp_path: Path) -> None:
    """Tiles being spilled were read half-written, and reported as damaged."""
    reference = np.arange(64 * 900.0).reshape(64, 900)
    for suffix in ("zarr", "npy"):
        failures: list[BaseException] = []
        with oc.config(memory="1MiB"):
            tile = {"tile": 50} if suffix == "zarr" else {}
            array = oc.create(tmp_path / f"a.{suffix}", reference.shape, **tile)

            def work(first: int, array: oc.Array = array, failures: list = failures) -> None:
                try:
                    for row in range(first, 64, 8):
                        array[row] = reference[row]
                        np.testing.assert_array_equal(array[row].compute(), reference[row])
                except BaseException as failure:
                    failures.append(failure)

            threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert not failures
            array.close()
        np.testing.assert_array_equal(oc.open(array.path).compute(), reference)
