"""What is planned is what happens: passes, bytes, memory."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outcrop as oc

pytestmark = pytest.mark.filterwarnings("ignore::outcrop.errors.OutcropWarning")

SHAPE = (1103, 907)


def passes(plan: Any) -> int:
    return len(plan._facts["passes"])


def moved(plan: Any) -> tuple[int, int]:
    """Bytes read and written by the passes; a Zarr array's metadata is written after them."""
    parts = plan._facts["passes"]
    return sum(p["bytes_read"] for p in parts), sum(p["bytes_written"] for p in parts)


@pytest.mark.parametrize("source", ["a.npy", "a.zarr", "b.zarr", "a.tif"])
def test_what_is_planned_by_way_of_another_disk(desk: Any, source: str) -> None:
    # The copy there was taken for the source itself, which is read otherwise.
    pytest.importorskip("tifffile")
    plain = desk.values(SHAPE, "uint16")
    options: dict[str, Any] = {}
    if source.endswith("zarr"):
        options = {"tile": (128, 96), "codecs": "gzip" if source == "b.zarr" else None}
    array = oc.open(desk.put(source, plain, **options))
    for view, expected in ((array.T, plain.T), (array[9:800, 5:].T, plain[9:800, 5:].T)):
        plan = oc.plan(view, desk.path / "out.npy", via=desk.fast)
        result = oc.rotate(view, desk.path / "out.npy", 0, via=desk.fast, overwrite=True)
        run = oc.last_run()
        assert run is not None
        assert (run.bytes_read, run.bytes_written) == (plan.bytes_read, plan.bytes_written)
        np.testing.assert_array_equal(desk.read(result), expected)
    done: list[int] = []
    with pytest.raises(oc.BudgetError), oc.config(memory="256KiB"):
        oc.rotate(
            array,
            desk.path / "o.zarr",
            via=desk.fast,
            tile=(900, 900),
            progress=lambda now, _: done.append(now),
        )
    assert not done
    assert not any(Path(desk.fast).iterdir())


@pytest.mark.parametrize("target", ["a.npy", "f.npy", "a.raw", "a.tif", "a.pgm", "a.zarr"])
@pytest.mark.parametrize("source", ["a.npy", "f.npy", "a.zarr", "odd.zarr"])
def test_what_is_planned_is_what_happens(desk: Any, source: str, target: str) -> None:
    pytest.importorskip("tifffile")
    plain = desk.values(SHAPE, "uint16")
    options: dict[str, Any] = {"order": "F"} if source == "f.npy" else {}
    if source.endswith("zarr"):
        options["tile"] = (128, 96) if source == "a.zarr" else (61, 83)
    array = oc.open(desk.put(source, plain, **options))
    wishes: dict[str, Any] = {"target_order": "F"} if target == "f.npy" else {}
    wishes |= {"tile": (97, 128)} if target == "a.zarr" else {}
    out = desk.path / f"out-{target}"
    for view, expected in (
        (oc.transpose(array), plain.T),
        (oc.rotate(array), np.rot90(plain)),
        (oc.flip(array, axis=0), plain[::-1]),
        (array[100:1000, 3:900].T, plain[100:1000, 3:900].T),
        (array, plain),
    ):
        plan = oc.plan(view, out, **wishes)
        result = oc.rotate(view, out, 0, overwrite=True, **wishes)
        run = oc.last_run()
        assert run is not None
        assert (run.bytes_read, run.bytes_written) == (plan.bytes_read, plan.bytes_written)
        if target != "a.zarr":
            assert (plan.bytes_read, plan.bytes_written) == moved(plan)
        assert run.peak_bytes <= plan.peak_bytes <= oc.config().memory
        assert run.operation == plan.operation
        assert plan.lower_bound == expected.nbytes <= plan.bytes_read
        np.testing.assert_array_equal(desk.read(result), expected)
        result.close()


def test_two_passes_where_memory_is_small(desk: Any) -> None:
    plain = desk.values(SHAPE, "float32")
    array = oc.open(desk.put("a.npy", plain))
    out = desk.path / "out.npy"
    with oc.config(memory="64MiB"):
        plan = oc.plan(array.T, out)
        assert passes(plan) == 1
        assert "in one pass" in plan.explain()
    with oc.config(memory="512KiB"):
        plan = oc.plan(array.T, out)
        assert passes(plan) == 2
        text = plan.explain()
        assert "transpose: 3.8 MiB in 2 passes" in text
        assert "pass 2:" in text
        assert "wait in the new file itself" in text
        assert "instead of one pass" in text
        assert plan.scratch_bytes == 0
        assert plan.bytes_written == 2 * plain.nbytes + 2 * (plan.bytes_written // 2 - plain.nbytes)
        assert "2 passes" not in repr(plan)
        oc.transpose(array, out)
        desk.check_run()
        # What goes the same way needs no second pass.
        assert passes(oc.plan(array[::-1], out)) == passes(oc.plan(array[:, ::-1], out)) == 1
    np.testing.assert_array_equal(np.load(out), plain.T)


@pytest.mark.parametrize("memory", ["10MiB", "4MiB"])
def test_blocks_that_rows_share_are_read_once(desk: Any, memory: str) -> None:
    plain = desk.values((90, 130003), "uint8")
    array = oc.open(desk.put("a.raw", plain), shape=plain.shape, dtype="u1")
    out = desk.path / "out.raw"
    for turned, expected in (
        (array.T, plain.T),
        (oc.rotate(array), np.rot90(plain)),
        (oc.rotate(array, angle=-90), np.rot90(plain, -1)),
    ):
        with oc.config(memory=memory):
            plan = oc.plan(turned, out)
            assert passes(plan) == 1
            assert "groups of" in plan.explain()
            # Each row ends in the block in which the next one begins: 90 blocks for each group.
            assert plain.nbytes <= plan.bytes_read <= plain.nbytes + 12 * 4096
            result = turned.save(out, overwrite=True)
            desk.check_run()
            assert oc.last_run().bytes_read == plan.bytes_read
        np.testing.assert_array_equal(desk.read(result), expected)
        result.close()


@pytest.mark.parametrize("dtype", ["uint8", "float32", "complex128"])
@pytest.mark.parametrize("name", ["a.npy", "f.npy", "a.raw", "a.pam"])
def test_two_passes_are_right(desk: Any, name: str, dtype: str) -> None:
    if name == "a.pam" and dtype != "uint8":
        pytest.skip("PAM holds small integers")
    plain = desk.values((1301, 1103) if dtype == "uint8" else (407, 603), dtype)
    array = oc.open(desk.put("in.npy", plain))
    options = {"target_order": "F"} if name == "f.npy" else {}
    for view, expected in (
        (array.T, plain.T),
        (array[::-1].T, plain[::-1].T),
        (array[::-1, ::-1], plain[::-1, ::-1]),
    ):
        oc.plan(view, desk.path / name, **options)
        result = oc.flip(view, desk.path / name, axis=(), overwrite=True, **options)
        desk.check_run()
        np.testing.assert_array_equal(desk.read(result), expected)
        result.close()


def test_by_way_of_another_disk(desk: Any) -> None:
    plain = desk.values(SHAPE, "float32")
    for name in ("a.raw", "a.npy"):
        path = desk.put(name, plain)
        array = oc.open(path, **({"shape": SHAPE, "dtype": "f4"} if name == "a.raw" else {}))
        without = oc.plan(array.T, desk.path / "out.npy")
        plan = oc.plan(array.T, desk.path / "out.npy", via=desk.fast)
        # The copy counts; it was left out.
        assert plan.bytes_written >= without.bytes_written + plain.nbytes
        assert plan.bytes_read >= without.bytes_read + plain.nbytes
        oc.transpose(array, desk.path / "out.npy", via=desk.fast, overwrite=True)
        run = oc.last_run()
        assert run is not None
        assert (run.bytes_read, run.bytes_written) == (plan.bytes_read, plan.bytes_written)
        assert run.peak_bytes <= plan.peak_bytes <= oc.config().memory
        assert f"before that, copies what is read to {desk.fast}: reads" in plan.explain()


def test_nothing_is_made(desk: Any) -> None:
    array = oc.open(desk.put("a.npy", desk.values((50, 40))))
    before = sorted(desk.path.rglob("*"))
    for view in (array, array.T, array[::-1]):
        for target in (None, desk.path / "a.npy", desk.path / "b.zarr", desk.path / "no" / "c.npy"):
            oc.plan(view, target).explain()
        oc.plan(view, via=desk.fast)
    assert sorted(desk.path.rglob("*")) == before


@pytest.mark.parametrize("kind", ["stored", "turned", "computed"])
def test_a_plan_takes_what_saving_takes(desk: Any, kind: str) -> None:
    """`order=`, and what goes along with an array, were a TypeError."""
    stored = oc.open(desk.put("a.npy", desk.values((50, 40))))
    array = {"stored": stored, "turned": stored.T, "computed": stored + 1}[kind]
    many = {"attributes": {"notes": "x" * 20_000}, "dimension_names": ("i", "j"), "fill_value": 7}
    for target, options in (
        ("out.npy", {"order": "F"}),
        ("out.npy", {"order": "C", "overwrite": True, "progress": lambda done, all: None}),
        ("out.zarr", {"tile": 10, **many}),
        ("out.zarr", {"zarr_format": 3, "overwrite": True, **many}),
    ):
        planned = oc.plan(array, desk.path / target, **options)
        array.save(desk.path / target, **options)
        assert oc.last_run().bytes_written == planned.bytes_written
    other = oc.plan(array, desk.path / "other.npy", target_order="F")
    assert other.bytes_written == oc.plan(array, "other.npy", order="F").bytes_written
    for options, match in (
        ({"order": "R"}, "'C' or 'F'"),
        ({"attributes": {"a": 1}}, "attributes"),
        ({"fill_value": 7}, "fill_value"),
    ):
        with pytest.raises(oc.InvalidArgumentError, match=match):
            oc.plan(array, desk.path / "out.npy", **options)
    with pytest.raises(oc.InvalidArgumentError, match="dimension_names"):
        oc.plan(array, desk.path / "out.zarr", dimension_names=("i",))
    computed = {"a.npy": stored + 1}
    assert oc.plan(computed, overwrite=True, progress=None).bytes_written > 0
    with pytest.raises(oc.InvalidArgumentError, match="no other options"):
        oc.plan(computed, order="F")


@pytest.mark.parametrize("target", ["out.npy", "out.zarr"])
@pytest.mark.parametrize(
    "what", ["in memory", "made", "nothing", "sum of nothing", "computed", "conjugated"]
)
def test_whatever_can_be_saved_has_a_plan(desk: Any, what: str, target: str) -> None:
    stored = oc.open(desk.put("a.npy", desk.values((50, 40))))
    computed = stored.sum(axis=0)
    computed.compute()
    array = {
        "in memory": oc.asarray(np.arange(12.0).reshape(3, 4))[::2].T,
        "made": oc.random.default_rng(1).random((30, 7)),
        "nothing": stored[3, :0],
        "sum of nothing": stored[:0].sum(axis=0),
        "computed": computed,
        "conjugated": oc.open(desk.put("c.npy", desk.values((50, 40)).astype("c8"))).conj().T,
    }[what]
    plan = oc.plan(array, desk.path / target)
    assert not (desk.path / target).exists()
    array.save(desk.path / target)
    report = oc.last_run()
    assert plan.operation == report.operation
    assert (plan.bytes_read, plan.bytes_written) == (report.bytes_read, report.bytes_written)


@pytest.mark.parametrize("target", ["out.npy", "out.zarr"])
def test_the_least_that_is_named_of_what_is_in_memory_works(desk: Any, target: str) -> None:
    array = oc.asarray(np.ones((700, 600)))
    with oc.config(memory="256KiB"), pytest.raises(oc.BudgetError) as caught:
        oc.plan(array, desk.path / target, tile=(700, 600) if target == "out.zarr" else None)
        raise oc.BudgetError("", 1 << 18)  # A file is written in parts.
    with oc.config(memory=caught.value.needed):
        array.save(desk.path / target, tile=(700, 600) if target == "out.zarr" else None)
    with oc.config(memory="64MiB"):
        np.testing.assert_array_equal(oc.open(desk.path / target).compute(), np.ones((700, 600)))


def test_what_cannot_be_planned(desk: Any) -> None:
    array = oc.open(desk.put("a.npy", desk.values((50, 40))))
    with pytest.raises(oc.InvalidArgumentError, match="via= is for what is moved as a whole"):
        oc.plan(array[::2], desk.path / "out.npy", via=desk.path)
    for options, target, match in (
        ({"tile": 5}, "out.npy", "tile= is for Zarr"),
        ({"target_order": "F"}, "out.zarr", "npy and raw"),
        ({"target_order": "F"}, "out.pgm", "npy and raw"),
        ({"target_order": "R"}, "out.npy", "'C' or 'F'"),
        ({"tile": (3, 3, 3)}, "out.zarr", "different numbers"),
        ({"format": "png"}, "out.npy", "format must be"),
        ({"via": desk.path / "nowhere"}, "out.npy", "is not a directory"),
    ):
        with pytest.raises(oc.InvalidArgumentError, match=match):
            oc.plan(array.T, desk.path / target, **options)
    floats = oc.open(desk.put("f.npy", desk.values((50, 40), "float32")))
    for name in ("out.pgm", "out.pnm", "out.pam"):
        with pytest.raises(oc.UnsupportedError, match="float32"):
            oc.plan(floats.T, desk.path / name)
    with pytest.raises(oc.InvalidTypeError, match="plan takes an"):
        oc.plan("a.npy")  # type: ignore[arg-type]
    with oc.config(memory="256KiB"), pytest.raises(oc.BudgetError, match="least that works"):
        large = oc.open(desk.put("b.npy", desk.values((999, 999)))).T
        oc.plan(large, desk.path / "b.zarr", tile=999)


SCRIPT = """
import json, sys
import outcrop as oc

def counted():
    lines = open("/proc/self/io").read().split("\\n")
    facts = dict(line.split(": ") for line in lines if line)
    return int(facts["read_bytes"]), int(facts["write_bytes"])

oc.config(memory="1MiB", threads=2)
array = oc.open("a.npy")
plan = oc.plan(array.T, "out.npy")
before = counted()
oc.transpose(array, "out.npy")
after = counted()
print(json.dumps({
    "passes": len(plan._facts["passes"]),
    "counted": [a - b for a, b in zip(after, before)],
    "planned": [plan.bytes_read, plan.bytes_written],
}))
"""


def file_system(path: Path) -> str:
    """The type of the file system that a path lies on."""
    best, kind = "", ""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, place, found, *_ = line.split()
        inside = str(path).startswith(place.rstrip("/") + "/")
        if inside and len(place) >= len(best):
            best, kind = place, found
    return kind


def test_the_kernel_counts_the_same(tmp_path: Path) -> None:
    if file_system(tmp_path) in ("tmpfs", "ramfs", "overlay", ""):
        pytest.skip("the kernel counts nothing on this file system")
    plain = np.random.default_rng(0).random((1024, 768))
    np.save(tmp_path / "a.npy", plain)
    with (tmp_path / "a.npy").open("rb+") as file:
        # Else what is read would still be on its way to the disk.
        os.fsync(file.fileno())
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    facts = json.loads(ended.stdout)
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), plain.T)
    # Metadata of the file system, and modules that are imported late.
    for counted, planned in zip(facts["counted"], facts["planned"], strict=True):
        assert abs(counted - planned) <= 0.02 * planned + (512 << 10), facts


def test_a_picture(desk: Any) -> None:
    array = oc.open(desk.put("a.npy", desk.values(SHAPE, "uint16")))
    oc.plan(array.T, desk.path / "turned.npy").show(desk.path / "plan.svg")
    picture = (desk.path / "plan.svg").read_text()
    for part in ("a.npy", "turned.npy", "1103 x 907 uint16", "907 x 1103 uint16", "transpose"):
        assert part in picture


def test_tiles_nobody_asks_for_are_smaller_where_memory_is_short(tmp_path: Path) -> None:
    values = np.arange(42 * 11 * 113, dtype="f8").reshape(42, 11, 113)
    options: dict[str, Any] = {"tile": (42, 11, 73), "codecs": "zstd:1"}
    a = oc.asarray(values).save(tmp_path / "a.zarr", **options)
    tiles = []
    for number, memory in enumerate((4 << 20, 1 << 20, 900 << 10)):
        with oc.config(memory=memory):
            plan = oc.plan(a, tmp_path / f"{number}.zarr")
            saved = a.save(tmp_path / f"{number}.zarr")
            run = oc.last_run()
            assert run is not None
            assert (plan.bytes_read, plan.bytes_written) == (run.bytes_read, run.bytes_written)
            tiles.append(np.prod(saved.tile))
        np.testing.assert_array_equal(saved.compute(), values)
    assert tiles[0] > tiles[1] > tiles[2]
    with oc.config(memory="512KiB"), pytest.raises(oc.BudgetError, match="least that works"):
        oc.plan(a, tmp_path / "none.zarr")
