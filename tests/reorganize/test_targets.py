"""What becomes of files: complete or untouched, whatever goes wrong."""

import os
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import outcrop as oc
from outcrop import _native

Values = NDArray[Any]

pytestmark = pytest.mark.filterwarnings("ignore::outcrop.errors.OutcropWarning")

SEED = int(os.environ.get("OUTCROP_SEED", "0")) or random.SystemRandom().randrange(2**32)


@contextmanager
def faults(rule: str) -> Iterator[None]:
    _native.inject_faults(rule)
    try:
        yield
    finally:
        _native.inject_faults(None)


def kept(source: str) -> dict[str, Any]:
    return {"tile": (64, 64)} if source.endswith("zarr") else {}


# -- in the same place -----------------------------------------------------------------------------


@pytest.mark.parametrize("via", [False, True], ids=["here", "via"])
@pytest.mark.parametrize("name", ["a.npy", "a.raw", "a.zarr", "a.pgm", "a.tif"])
def test_in_its_own_place(desk: Any, name: str, via: bool) -> None:
    pytest.importorskip("tifffile")
    plain = desk.values((901, 803), "uint16")
    path = desk.put(name, plain, **kept(name))
    options: dict[str, Any] = {"via": desk.fast} if via else {}
    raw = {"shape": plain.shape, "dtype": "u2"} if name == "a.raw" else {}
    with pytest.raises(oc.ArrayExistsError, match="overwrite=True") as caught:
        oc.transpose(path, path, **raw, **options)
    assert isinstance(caught.value, FileExistsError)
    assert desk.leftovers() == []
    np.testing.assert_array_equal(desk.read(oc.open(path, **raw)), plain)
    # In two passes, too, elements wait in the new file, and never in the old one.
    result = oc.transpose(path, path, overwrite=True, **raw, **options)
    np.testing.assert_array_equal(desk.read(result), plain.T)
    result.close()
    raw |= {"shape": plain.T.shape} if raw else {}
    result = oc.rotate(path, path, -90, overwrite=True, **raw, **options)
    np.testing.assert_array_equal(desk.read(result), np.rot90(plain.T, 3))


def test_a_reader_keeps_what_it_has_opened(desk: Any) -> None:
    plain = desk.values((301, 203), "float32")
    path = desk.put("a.npy", plain)
    reader = oc.open(path)
    oc.transpose(path, path, overwrite=True)
    np.testing.assert_array_equal(reader.compute(), plain)
    np.testing.assert_array_equal(oc.open(path).compute(), plain.T)


@pytest.mark.parametrize("via", [False, True], ids=["here", "via"])
@pytest.mark.parametrize("name", ["a.npy", "a.zarr"])
def test_the_old_stays_when_it_fails(desk: Any, name: str, via: bool) -> None:
    plain = desk.values((901, 803), "uint16")
    path = desk.put(name, plain, **kept(name))
    options: dict[str, Any] = {"via": desk.fast} if via else {}
    for rule, error in (
        ("write:7:eio:always", oc.StorageError),
        ("write:7:enospc:always", oc.StorageFullError),
        ("read:9:eio:always", oc.StorageError),
        ("sync:1:eio:always", oc.StorageError),
    ):
        with faults(rule), pytest.raises(error):
            oc.transpose(path, path, overwrite=True, **options)
        assert desk.leftovers() == []
        np.testing.assert_array_equal(desk.read(oc.open(path)), plain)
    oc.transpose(path, path, overwrite=True, **options)
    np.testing.assert_array_equal(desk.read(oc.open(path)), plain.T)


def test_it_appears_when_it_is_complete(desk: Any) -> None:
    plain = desk.values((901, 803), "uint16")
    path = desk.put("a.npy", plain)
    for out, options in (
        (desk.path / "out.npy", {}),
        (desk.path / "out.zarr", {"tile": 64}),
        (desk.path / "via.npy", {"via": desk.fast}),
    ):
        seen: list[tuple[int, int]] = []

        def progress(
            done: int,
            total: int,
            seen: list[tuple[int, int]] = seen,
            out: Path = out,
        ) -> None:
            seen.append((done, total))
            assert not out.exists()

        oc.transpose(path, out, progress=progress, **options)
        assert seen == sorted(seen)
        assert seen[-1][0] == seen[-1][1] > 0
        # It was said in parts of a thousand million, which looked like bytes.
        assert seen[-1][1] % plain.nbytes == 0
        assert out.exists()


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("via", [False, True], ids=["here", "via"])
def test_an_interrupted_movement_leaves_nothing(
    desk: Any, via: bool, error: type[BaseException]
) -> None:
    plain = desk.values((901, 803), "uint16")
    path = desk.put("a.npy", plain)
    options: dict[str, Any] = {"via": desk.fast} if via else {}
    # At the very beginning, in the middle of the copy on the other disk, and when all is written.
    for at in (0, 0.2, 1):

        def progress(done: int, total: int, at: float = at) -> None:
            if done >= at * total:
                raise error

        with pytest.raises(error):
            oc.transpose(path, desk.path / "out.npy", progress=progress, **options)
        assert not (desk.path / "out.npy").exists()
        assert desk.leftovers() == []


# -- before anything moves -------------------------------------------------------------------------


@pytest.fixture
def still(desk: Any) -> Callable[[], list[str]]:
    """Names everything that there is."""

    def listing() -> list[str]:
        return sorted(str(p.relative_to(desk.path)) for p in desk.path.rglob("*"))

    return listing


@pytest.mark.parametrize("via", [False, True], ids=["here", "via"])
def test_refused_before_anything_moves(
    desk: Any, via: bool, still: Callable[[], list[str]]
) -> None:
    plain = desk.values((901, 803), "float32")
    path = desk.put("a.npy", plain)
    desk.put("there.npy", plain[:5])
    (desk.path / "docs").mkdir()
    (desk.path / "docs" / "letter").touch()
    options: dict[str, Any] = {"via": desk.fast} if via else {}
    before, run = still(), oc.last_run()

    def progress(done: int, total: int) -> None:
        raise AssertionError("something moves")

    for target, more, error, match in (
        ("there.npy", {}, oc.ArrayExistsError, "there.npy: exists already"),
        ("no/out.npy", {}, oc.ArrayNotFoundError, "does not exist"),
        ("docs", {"overwrite": True}, oc.UnsupportedError, "not an array"),
        ("out.pgm", {}, oc.UnsupportedError, "not of float32"),
        ("out.zarr", {"tile": (3, 3, 3)}, oc.InvalidArgumentError, "different numbers"),
        ("out.zarr", {"target_order": "F"}, oc.InvalidArgumentError, "order='F'"),
        ("out.npy", {"tile": 3}, oc.InvalidArgumentError, "tile= is for Zarr"),
        ("out.npy", {"format": "png"}, oc.InvalidArgumentError, "format must be"),
        ("out.npy", {"target_order": "R"}, oc.InvalidArgumentError, "'C' or 'F'"),
    ):
        with pytest.raises(error, match=match):
            oc.transpose(path, desk.path / target, progress=progress, **more, **options)
        assert still() == before
        assert oc.last_run() == run


def test_where_via_cannot_be(desk: Any, still: Callable[[], list[str]]) -> None:
    path = desk.put("a.npy", desk.values((30, 40)))
    tiled = desk.put("a.zarr", desk.values((30, 40)), tile=16)
    before = still()
    for via in ("nowhere", "a.npy"):
        with pytest.raises(oc.InvalidArgumentError, match=f"{via}' is not a directory"):
            oc.transpose(path, desk.path / "out.npy", via=desk.path / via)
    with pytest.raises(oc.InvalidTypeError):
        oc.transpose(path, desk.path / "out.npy", via=3)
    with pytest.raises(oc.UnsupportedError, match="inside the array"):
        oc.transpose(path, desk.path / "out.npy", via=tiled)
    assert still() == before


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with 3 MiB."""
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=3m", "outcrop-test", str(place)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("a file system cannot be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_no_space(desk: Any, small_disk: Path) -> None:
    plain = desk.values((1024, 1024), "float32")
    path = desk.put("a.npy", plain)

    def progress(done: int, total: int) -> None:
        raise AssertionError("something moves")

    for target, options in (
        (small_disk / "out.npy", {}),
        (small_disk / "out.raw", {"via": desk.fast}),
        (small_disk / "out.zarr", {"tile": 64}),
        (desk.path / "out.npy", {"via": small_disk}),
    ):
        with pytest.raises(oc.StorageFullError, match=r"\d+ bytes are needed, \d+ are free"):
            oc.transpose(path, target, progress=progress, **options)
        assert os.listdir(small_disk) == []
        assert not target.exists()
    assert desk.leftovers() == []


def test_damaged_sources(desk: Any) -> None:
    pytest.importorskip("tifffile")
    plain = desk.values((60, 80))
    for name in ("a.npy", "a.pgm", "a.tif", "a.raw"):
        path = desk.put(name, plain)
        raw = {"shape": plain.shape, "dtype": "u1"} if name == "a.raw" else {}
        last = plain.nbytes if name == "a.tif" else 1
        os.truncate(path, path.stat().st_size - last)
        for target in (desk.path / "out.npy", path):
            before = sorted(desk.path.iterdir())
            with pytest.raises(oc.CorruptArrayError, match="missing"):
                oc.transpose(path, target, overwrite=True, **raw)
            assert sorted(desk.path.iterdir()) == before
    tiled = desk.put("a.zarr", plain, tile=20)
    (tiled / "c" / "1" / "2").write_bytes(b"")
    for via in (None, desk.fast):
        with pytest.raises(oc.CorruptArrayError, match=r"\(1, 2\)"):
            oc.rotate(tiled, desk.path / "out.npy", via=via)
        assert not (desk.path / "out.npy").exists()
        assert desk.leftovers() == []
    with pytest.raises(oc.ArrayNotFoundError):
        oc.flip(desk.path / "none.npy", desk.path / "out.npy")


# -- faults ----------------------------------------------------------------------------------------

PLAIN = np.random.default_rng(0).integers(0, 2**16, (1401, 603), "uint16")
OLD = np.zeros((3, 4), "uint16")

WORK: dict[str, tuple[str, dict[str, Any]]] = {
    "npy": ("out.npy", {}),
    "pgm": ("out.pgm", {}),
    "zarr": ("out.zarr", {"tile": (61, 83)}),
    "via": ("out.npy", {"via": True}),
}


@pytest.mark.parametrize("times", ["once", "always"])
@pytest.mark.parametrize("work", WORK)
def test_any_operation_fails(desk: Any, work: str, times: str) -> None:
    """In one pass and in two, there is the new array, or the old one and an error."""
    name, options = WORK[work]
    if "via" in options:
        options = {"via": desk.fast}
    path, out = desk.put("in.npy", PLAIN), desk.path / name
    old = {"tile": (3, 4)} if name == "out.zarr" else {}
    with oc.config(memory="384KiB"):
        if work != "zarr":
            assert len(oc.plan(oc.open(path).T, out)._facts["passes"]) == 2
        desk.put(name, OLD, **old)
        with faults("any:999999999:eio:once"):
            oc.transpose(path, out, overwrite=True, **options)
            count = _native.operations_seen()
        assert count > 20
        choice = random.Random(f"{SEED} {work} {times}")
        chosen = sorted(choice.sample(range(1, count + 1), 8))
        failures = 0
        for nth in chosen:
            desk.put(name, OLD, **old)
            error = None
            with faults(f"any:{nth}:eio:{times}"):
                try:
                    oc.transpose(path, out, overwrite=True, **options)
                except oc.OutcropError as caught:
                    error = caught.with_traceback(None)
            failures += error is not None
            told = f"OUTCROP_SEED={SEED}: {work} under any:{nth}:eio:{times} ended in {error!r}"
            found = desk.read(oc.open(out))
            if error is None:
                np.testing.assert_array_equal(found, PLAIN.T, told)
            else:
                same = np.array_equal(found, OLD) or np.array_equal(found, PLAIN.T)
                assert same, told
            np.testing.assert_array_equal(desk.read(oc.open(path)), PLAIN)
            # A removal that failed is made up for by the next run, but for the other disk's.
            for left in desk.fast.iterdir():
                assert times == "always", told
                shutil.rmtree(left)
            oc.transpose(path, out, overwrite=True, **options)
            assert desk.leftovers() == [], told
            np.testing.assert_array_equal(desk.read(oc.open(out)), PLAIN.T)
        if times == "always":
            assert failures > 0


@pytest.mark.parametrize("work", ["npy", "pgm"])
def test_what_is_cut_short_goes_on(desk: Any, work: str) -> None:
    name, options = WORK[work]
    path, out = desk.put("in.npy", PLAIN), desk.path / name
    with oc.config(memory="384KiB"):
        for rule in (
            *("read:11:eintr:once", "read:30:short=100:once", "read:1:short=5000:always"),
            *("write:5:short=100:once", "write:9:eagain:once", "write:1:short=5000:always"),
            "write:1:reorder=3:always",
        ):
            with faults(rule):
                oc.transpose(path, out, overwrite=True, **options)
            np.testing.assert_array_equal(desk.read(oc.open(out)), PLAIN.T, rule)


def test_what_is_replaced_keeps_its_permissions(desk: Any) -> None:
    plain = desk.values((50, 40), "uint8")
    path = desk.put("private.npy", plain)
    path.chmod(0o640)
    owner = path.stat().st_uid, path.stat().st_gid
    oc.transpose(path, path, overwrite=True)
    assert path.stat().st_mode & 0o7777 == 0o640
    assert (path.stat().st_uid, path.stat().st_gid) == owner
    np.testing.assert_array_equal(np.load(path), plain.T)
    assert desk.leftovers() == []


def test_where_nothing_can_be_made(desk: Any) -> None:
    values = desk.values((6, 5))
    path = desk.put("a.npy", values)
    for name in ("none/o.npy", "none/o.zarr", "none/o.pgm"):
        with pytest.raises(FileNotFoundError) as missing:
            oc.transpose(path, desk.path / name)
        assert isinstance(missing.value, oc.OutcropError)
        parent = desk.path / "none"
        assert str(missing.value).endswith(f"cannot be made: the directory {parent} does not exist")
    for name in ("/proc/o.npy", "/proc/o.zarr", "/proc/o.pgm"):
        with pytest.raises(oc.OutcropError) as refused:
            oc.transpose(path, name)
        assert isinstance(refused.value, OSError)
        assert str(refused.value).startswith(f"{name}: cannot be made in the directory /proc: ")


def test_default_tiles_in_little_memory(desk: Any) -> None:
    values = desk.values((1500, 1100), "int16")
    path = desk.put("a.npy", values)
    for work in (
        lambda name: oc.rotate(path, name),
        lambda name: oc.rotate(oc.open(path)).save(name),
        lambda name: oc.rotate(path, name, via=desk.fast),
    ):
        name = desk.path / "out.zarr"
        expected = oc.plan(oc.rotate(oc.open(path)), name)
        assert expected.peak_bytes <= oc.config().memory
        done = work(name)
        desk.check_run()
        np.testing.assert_array_equal(desk.read(done), np.rot90(values))
        assert np.prod(done.tile) * 2 <= oc.config().memory // 8
        done.close()
        shutil.rmtree(name)
    with pytest.raises(oc.BudgetError, match=r"smaller tiles for the result \(tile= or --tile\)"):
        oc.rotate(path, desk.path / "out.zarr", tile=1000)
    with pytest.raises(oc.BudgetError, match=r"smaller tiles for the result \(tile= or --tile\)"):
        oc.plan(oc.open(path).T, desk.path / "out.zarr", tile=1000)


@pytest.mark.parametrize("way", ["link", "directory"])
def test_results_inside_an_array(desk: Any, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """Also by ways that do not say where they lead: the array would take them along with it."""
    path = desk.put("a.npy", desk.values((30, 40)))
    tiled = desk.put("a.zarr", desk.values((30, 40)), tile=16)
    if way == "link":
        target = desk.path / "link" / "out.npy"
        (desk.path / "link").symlink_to(tiled / "c")
    else:
        monkeypatch.chdir(tiled / "c")
        target = "out.npy"
    with pytest.raises(oc.UnsupportedError, match="inside the array"):
        oc.transpose(path, target)
    assert not (tiled / "c" / "out.npy").exists()
