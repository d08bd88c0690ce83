"""Consolidated metadata above an array never describes another array than is there."""

import json
import os
import random
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outcrop as oc

zarr = pytest.importorskip("zarr")
xr = pytest.importorskip("xarray")

Inject = Callable[[str], AbstractContextManager[None]]
Outcome = Callable[[Callable[[], object]], oc.OutcropError | None]
Leftovers = Callable[[Path], list[str]]

SEED = int(os.environ.get("OUTCROP_SEED", "0")) or random.SystemRandom().randrange(2**32)

OLD, NEW = np.arange(12.0).reshape(3, 4), -np.arange(30.0).reshape(5, 6)

each_version = pytest.mark.parametrize("version", [2, 3])
each_depth = pytest.mark.parametrize("inner", ["", "sub", "sub/sub"])

pytestmark = pytest.mark.filterwarnings("ignore::outcrop.errors.OutcropWarning")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Consolidated metadata")
        # What a kill leaves behind until the next run, such as zarr.json.new.
        warnings.filterwarnings("ignore", message="Object at .* is not recognized")
        warnings.filterwarnings("ignore", message="Failed to open Zarr store with consolidated")
        yield


def build(root: Path, version: int, inner: str = "") -> Path:
    """A consolidated group, in which an array stands, as deep as is asked; gives the array."""
    zarr.open_group(root, mode="w", zarr_format=version, attributes={"title": "as it was"})
    group = root
    for name in filter(None, inner.split("/")):
        group = group / name
        zarr.open_group(group, mode="w", zarr_format=version)
    oc.asarray(OLD).save(group / "a", dimension_names=("y", "x"))
    oc.asarray(OLD).save(group / "b", dimension_names=("y", "x"))
    zarr.consolidate_metadata(root)
    return group / "a"


def is_consolidated(root: Path, version: int) -> bool:
    if version == 2:
        return (root / ".zmetadata").exists()
    return "consolidated_metadata" in json.loads((root / "zarr.json").read_bytes())


def check(root: Path, array: Path, expected: list[np.ndarray]) -> np.ndarray:
    """What others see, with consolidated metadata or without, is one of what may be there."""
    name = array.relative_to(root).as_posix()
    group = zarr.open_group(root, mode="r")
    found = np.asarray(group[name][...])
    np.testing.assert_array_equal(found, np.asarray(zarr.open_array(array, mode="r")[...]))
    np.testing.assert_array_equal(found, oc.open(array).compute())
    assert any(found.shape == e.shape and (found == e).all() for e in expected)
    assert group.attrs["title"] == "as it was"
    inner = None if array.parent == root else array.parent.relative_to(root).as_posix()
    opened = xr.open_zarr(root, group=inner)
    np.testing.assert_array_equal(opened["a"].values, found)
    np.testing.assert_array_equal(opened["b"].values, OLD)
    return found


def replace(array: Path) -> None:
    oc.asarray(NEW).save(array, overwrite=True)


@each_version
@each_depth
def test_it_is_renewed(tmp_path: Path, version: int, inner: str, leftovers: Leftovers) -> None:
    """Also in groups above the group, and for arrays that are new, by whatever way they come."""
    root = tmp_path / "g"
    array = build(root, version, inner)
    replace(array)
    check(root, array, [NEW])
    with oc.create(array.parent / "made", 3) as made:
        made[...] = 7
    oc.save({array.parent / "one": oc.asarray(OLD) + 1, array.parent / "two": oc.asarray(OLD).T})
    assert is_consolidated(root, version)
    assert zarr.open_group(root, mode="r").metadata.consolidated_metadata is not None
    group = zarr.open_consolidated(root)
    for name, expected in {"made": [7, 7, 7], "one": OLD + 1, "two": OLD.T}.items():
        found = group["/".join(filter(None, [inner, name]))][...]
        np.testing.assert_array_equal(found, expected)
    assert leftovers(tmp_path) == []


@each_version
def test_the_command_line_renews_it(tmp_path: Path, version: int) -> None:
    root = tmp_path / "g"
    array = build(root, version)
    np.save(tmp_path / "new.npy", NEW)
    for words in (["convert", "--overwrite"], ["transpose", "--overwrite"]):
        command = [sys.executable, "-m", "outcrop", words[0], tmp_path / "new.npy", array]
        subprocess.run([*map(str, command), words[1]], check=True, capture_output=True)
        check(root, array, [NEW if words[0] == "convert" else NEW.T])
        assert is_consolidated(root, version)
    other = subprocess.run(
        [sys.executable, "-m", "outcrop", "copy", array, array.with_name("c")], capture_output=True
    )
    assert other.returncode == 0, other.stderr
    assert oc.open(array.with_name("c")).dimension_names is not None


@each_version
def test_plans_count_it(tmp_path: Path, version: int) -> None:
    root = tmp_path / "g"
    array = build(root, version)
    x = oc.asarray(OLD) * 2
    if version == 3:
        planned = oc.plan(x, array).bytes_written
        x.save(array, overwrite=True)
        assert oc.last_run().bytes_written == planned
    flat = oc.asarray(NEW).save(tmp_path / "flat.zarr")
    if version == 3:
        planned = oc.plan(flat.T, array).bytes_written
        oc.transpose(flat, array, overwrite=True)
        assert oc.last_run().bytes_written == planned


@each_version
@pytest.mark.parametrize("how", ["once", "always"])
def test_faults(
    tmp_path: Path, version: int, how: str, inject: Inject, outcome: Outcome, leftovers: Leftovers
) -> None:
    """Every operation fails in turn."""
    for operation, error in (("write", "enospc"), ("sync", "eio"), ("rename", "eio"),
                             ("create", "enospc"), ("remove", "eio")):  # fmt: skip
        for n in range(1, 8):
            root = tmp_path / f"{operation}{n}{how}"
            array = build(root, version)
            with inject(f"{operation}:{n}:{error}:{how}"):
                failed = outcome(lambda array=array: replace(array))
            found = check(root, array, [OLD, NEW])
            assert failed is None or found.shape == OLD.shape, (operation, n)
            # What cannot be removed is removed by the next run.
            assert leftovers(root) == [] or operation == "remove"
            replace(array)
            check(root, array, [NEW])
            assert leftovers(root) == []


@each_version
@pytest.mark.parametrize("inner", ["", "sub"])
def test_killed(
    tmp_path: Path, version: int, inner: str, leftovers: Leftovers, loaded: Any
) -> None:
    """A kill before any operation on files: metadata that describes what is there, or none."""
    script = (
        "import numpy as np, outcrop as oc, sys\nfrom outcrop import _native\n"
        "oc.config(memory='8MiB')\n_native.inject_faults(sys.argv[2])\n"
        "oc.asarray(-np.arange(30.0).reshape(5, 6)).save(sys.argv[1], overwrite=True)\n"
    )
    seen = set()
    for operation in ("rename", "sync", "remove"):
        for n in range(1, 9):
            root = tmp_path / f"{operation}{n}"
            array = build(root, version, inner)
            done = loaded.run(script, array, f"{operation}:{n}:kill:once", cwd=tmp_path)
            assert done.returncode in (0, -9), done.stderr
            found = check(root, array, [OLD, NEW])
            seen.add((done.returncode, found.shape == NEW.shape, is_consolidated(root, version)))
            replace(array)
            check(root, array, [NEW])
            assert leftovers(root) == []
            if done.returncode == 0:
                break
    # Before, with it taken away, and behind.
    assert {(-9, False, True), (-9, False, False), (-9, True, False), (0, True, True)} <= seen


@each_version
def test_two_writers_of_a_group(tmp_path: Path, version: int) -> None:
    """Neither brings back what the other one has made stale."""
    root = tmp_path / "g"
    build(root, version)

    def work(name: str) -> None:
        for n in range(1, 12):
            oc.asarray(np.full((n, 2), n)).save(root / name, overwrite=True)

    threads = [threading.Thread(target=work, args=(f"w{i}",)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert is_consolidated(root, version)
    found = zarr.open_consolidated(root)
    for i in range(3):
        np.testing.assert_array_equal(found[f"w{i}"][...], np.full((11, 2), 11))


@each_version
def test_a_group_keeps_its_version(tmp_path: Path, version: int) -> None:
    root = tmp_path / "g"
    array = build(root, version)
    other = 5 - version
    for attempt in (
        lambda: oc.asarray(NEW).save(array, overwrite=True, zarr_format=other),
        lambda: oc.create(root / "c", 3, zarr_format=other),
    ):
        with pytest.raises(oc.InvalidArgumentError, match=rf"zarr_format={other}.*Zarr {version}"):
            attempt()
    source = oc.asarray(NEW).save(tmp_path / "s.zarr", zarr_format=other)
    assert (root / "c").exists() is False
    source.save(root / "c")
    (oc.asarray(NEW) + 1).save(array, overwrite=True)
    file = "zarr.json" if version == 3 else ".zarray"
    assert (root / "c" / file).exists() and (array / file).exists()
    check(root, array, [NEW + 1])


@each_version
def test_what_others_wrote_stays_byte_for_byte(tmp_path: Path, version: int) -> None:
    """Such as the bare NaN that Python puts into attributes."""
    root = tmp_path / "g"
    array = build(root, version)
    path = root / ("zarr.json" if version == 3 else ".zmetadata")
    text = path.read_text()
    marked = text.replace('"y"', '"y"', 1)
    where = '"attributes": {' if version == 3 else '"b/.zattrs": {'
    marked = text.replace(where, where + '"odd": [NaN, 1e-0400, -Infinity], ', 1)
    assert marked != text
    path.write_text(marked)
    replace(array)
    assert '"odd": [NaN, 1e-0400, -Infinity], ' in path.read_text()
    assert array.name in zarr.open_consolidated(root)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_group_in_between_that_nobody_consolidated(tmp_path: Path, zarr_format: int) -> None:
    """Its array was listed, and the group itself was not, so that nobody could open the whole."""
    root = tmp_path / "g.zarr"
    outer = zarr.create_group(root, zarr_format=zarr_format)
    outer.create_array("x", shape=(3,), dtype="f8")[...] = 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zarr.consolidate_metadata(root, zarr_format=zarr_format)
    zarr.open_group(root / "sub", mode="a", zarr_format=zarr_format)
    oc.asarray(np.full(4, 7.0)).save(root / "sub" / "deep")
    found = zarr.open_group(root, mode="r")
    np.testing.assert_array_equal(found["sub/deep"][...], 7)
    np.testing.assert_array_equal(found["x"][...], 1)


PEAK = """
import os, sys
import numpy as np
import outcrop as oc
oc.config(memory="16MiB")
def peak():
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) >> 10
x = oc.asarray(np.ones(3))
x.save("warm.zarr")
before = peak()
try:
    x.save(sys.argv[1], zarr_format=int(sys.argv[2]))
    print("saved", peak() - before)
except oc.UnsupportedError as error:
    print("refused", peak() - before, error)
"""


def much(root: Path, version: int, mebibytes: int) -> None:
    """A group with consolidated metadata of many short members."""
    root.mkdir()
    many = '{"z/zarr.json":{},' + ",".join(f'"{i:06x}":1' for i in range(mebibytes * 95326)) + "}"
    if version == 2:
        (root / ".zgroup").write_text('{"zarr_format": 2}')
        (root / ".zmetadata").write_text('{"metadata":' + many + "}")
    else:
        head = '{"zarr_format":3,"node_type":"group","consolidated_metadata":{"kind":"inline",'
        (root / "zarr.json").write_text(head + '"metadata":' + many + "}}")


@each_version
def test_metadata_takes_little_more_than_its_text(tmp_path: Path, version: int) -> None:
    """A list of its members took many times as much."""
    root = tmp_path / "g"
    much(root, version, 30)
    command = [sys.executable, "-c", PEAK, "g/a", str(version)]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    how, peak = ended.stdout.split() if ended.stdout else ("", ended.stderr)
    assert how == "saved", (how, peak)
    assert int(peak) < 100, peak
    file = root / (".zmetadata" if version == 2 else "zarr.json")
    found = json.loads(file.read_text())
    found = found if version == 2 else found["consolidated_metadata"]
    entry = "a/.zarray" if version == 2 else "a"
    assert found["metadata"][entry]["shape"] == [3]
    assert len(found["metadata"]) > 2_000_000


@each_version
def test_more_metadata_than_is_renewed_is_not_left_stale(tmp_path: Path, version: int) -> None:
    """It was left as it was, and described what was not there any more."""
    root = tmp_path / "g"
    much(root, version, 66)
    command = [sys.executable, "-c", PEAK, "g/a", str(version)]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert ended.stdout.startswith("refused"), ended.stdout + ended.stderr
    assert "more than 64 MiB" in ended.stdout
    assert int(ended.stdout.split()[1]) < 160
    assert not (root / "a").exists()
    assert not [p for p in root.iterdir() if "outcrop" in p.name]
